#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up passwordless ssh between all hosts of a list. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/hosts.sh
. "$here/cluster/hosts.sh"
# shellcheck source=scripts/cluster/ssh/files.sh
. "$here/cluster/ssh/files.sh"
# shellcheck source=scripts/cluster/ssh/keys.sh
. "$here/cluster/ssh/keys.sh"
# shellcheck source=scripts/cluster/ssh/login.sh
. "$here/cluster/ssh/login.sh"
# shellcheck source=scripts/cluster/ssh/verify.sh
. "$here/cluster/ssh/verify.sh"

usage() {
    cat <<'END'
usage: scripts/setup_ssh.sh [options] HOSTS

Sets up ssh from this machine to all hosts and between every two hosts, as mpirun needs it. HOSTS is a hostfile, a YAML
specification or a list a:2,b:2, as for `dptrain hosts`.

Examples:
  # the hosts of a file; asks before it trusts a host's key
  scripts/setup_ssh.sh hosts
  # only test
  scripts/setup_ssh.sh --check node1:8,node2:8
  # undo it
  scripts/setup_ssh.sh --remove hosts

There are four steps, each safe to repeat:
  1. Pin every host's key in ~/.ssh/dptrain_known_hosts and print its fingerprint. A changed key is an error. A host that
     ssh does not know yet is pinned if --fingerprints lists its key, or after a question at the terminal.
  2. Generate an Ed25519 key and install it on every host through any login that works: the key itself, your own keys
     or agent, key_file in HOSTS, or a password from the variable SSHPASS or a prompt (both need sshpass).
  3. Write ~/.ssh/dptrain_config with port, user and key of every host, and an Include line at the top of
     ~/.ssh/config; copy them, the key and the pinned keys to every host.
  4. Test the login between every two hosts in both directions, and report failures with cause and remedy. With more
     than 32 hosts: from here to each, and from each to the next one and four others.

  --ssh-port N      port of hosts without one in HOSTS [from ~/.ssh/config, 22]
  --user NAME       user on hosts without one in HOSTS [from ~/.ssh/config, your own name]
  --key FILE        private key, generated if missing [~/.ssh/dptrain_ed25519, which is also its name on the hosts]
  --include SPEC, --exclude SPEC   keep or drop hosts, as for dptrain hosts
  --timeout SEC     time limit of a login [10]
  --jobs N          number of hosts handled in parallel [32]
  --fingerprints FILE   expected host keys, as ssh-keygen -lf prints them; a host with another key is refused
  --trust-first-contact   pin the keys of unknown hosts without asking
  --accept-new-host-key HOST   pin this host's present key instead of the old one; may be repeated
  --check           only test the logins; change nothing
  --all-pairs       test the login between every two of more than 32 hosts
  --remove          undo everything, on every host and on this machine
  -h, --help        show this help

Exit code 0: every login works; 1: at least one does not.
END
}

port_given='' user_given='' key=$HOME/.ssh/dptrain_ed25519 timeout=10 mode=setup accepted=' ' filter=() hosts=''
fingerprints='' trust_first=no all_pairs=no
while [[ $# -gt 0 ]]; do
    case $1 in
    --ssh-port) need_value "$@"; whole_number "$1" "$2" 1; port_given=$2; shift 2 ;;
    --user) need_value "$@"; user_given=$2; shift 2 ;;
    --key) need_value "$@"; key=$(readlink -m -- "$2"); shift 2 ;;
    --include | --exclude) need_value "$@"; filter+=("$1" "$2"); shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; timeout=$2; shift 2 ;;
    --jobs) need_value "$@"; whole_number "$1" "$2" 1; at_once=$2; shift 2 ;;
    --accept-new-host-key) need_value "$@"; accepted+="$2 "; shift 2 ;;
    --fingerprints)
        need_value "$@"
        [[ -r $2 && ! -d $2 ]] || die 2 "--fingerprints $2: cannot read this file"
        fingerprints=$(readlink -m -- "$2"); shift 2 ;;
    --trust-first-contact) trust_first=yes; shift ;;
    --check) mode=check; shift ;;
    --all-pairs) all_pairs=yes; shift ;;
    --remove) mode=remove; shift ;;
    -*) common_option "$1" ;;
    *)
        [[ -z $hosts ]] || die 2 "unexpected argument '$1' after HOSTS '$hosts'; separate hosts in a list by commas: a,b"
        hosts=$1
        shift
        ;;
    esac
done
[[ -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
end_of_options
for tool in ssh ssh-keygen ssh-keyscan timeout; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; scripts/install_deps.sh installs it (openssh-client)"
done
hosts_read "$hosts" "${filter[@]}"

# The folder is private, because it may hold a private key.
make_work ssh
trap 'interrupted=yes; exit 130' INT
trap 'interrupted=yes; exit 143' TERM HUP
known=$HOME/.ssh/dptrain_known_hosts
failures=0 key_is_new=no strangers=()

# Prints a row of the table of failures. AT is one host or two.
fail_line() { # AT CAUSE ADVICE
    ((failures > 0)) || printf 'these logins fail:\n'
    failures=$((failures + 1))
    show '  %-24s %s\n  %-24s   -> %s' "$1" "$2" '' "$3"
}

# Prints the user's ssh settings without the additions of this script, so that a second run sees what the first saw.
own_config() {
    if [[ -r ~/.ssh/config ]]; then grep -vE '^Include .*dptrain_config$' ~/.ssh/config || true; fi
    printf 'Match all\n'
    [[ ! -r /etc/ssh/ssh_config ]] || printf 'Include /etc/ssh/ssh_config\n'
}

# Fills in settings that HOSTS leaves open. host_target is the address to connect to; its key is pinned under host_pin.
declare -a host_target host_pin
resolve_host() { # INDEX
    local i=$1 name value words=("${base[@]}")
    [[ ${host_port[i]} != - ]] || host_port[i]=${port_given:--}
    [[ ${host_user[i]} != - ]] || host_user[i]=${user_given:--}
    [[ ${host_port[i]} == - ]] || words+=(-p "${host_port[i]}")
    [[ ${host_user[i]} == - ]] || words+=(-l "${host_user[i]}")
    while read -r name value; do
        case $name in
        hostname) host_target[i]=$value ;;
        port) host_port[i]=$value ;;
        user) host_user[i]=$value ;;
        esac
    done < <(ssh -T -G "${words[@]}" "${host_name[i]}")
    [[ -n ${host_target[i]:-} ]] || die 2 "ssh rejects the host '${host_name[i]}'"
    host_pin[i]=${host_target[i]}
    if [[ ${host_port[i]} != 22 ]]; then host_pin[i]="[${host_target[i]}]:${host_port[i]}"; fi
}

config_for() { # IDENTITY_FILE
    local i names alias
    printf '# Written by scripts/setup_ssh.sh of dptrain; --remove deletes it.\n'
    for i in "${!host_name[@]}"; do
        names=${host_name[i]} alias=$(host_alias "${host_name[i]}")
        [[ $alias == "$names" ]] || names+=" $alias"
        printf 'Host %s\n' "$names"
        [[ ${host_target[i]} == "$names" ]] || printf '    HostName %s\n' "${host_target[i]//%/%%}"
        printf '    %s\n' "Port ${host_port[i]}" "User ${host_user[i]}" "IdentityFile $1" 'IdentitiesOnly yes' \
            'UserKnownHostsFile ~/.ssh/dptrain_known_hosts' 'StrictHostKeyChecking yes' 'BatchMode yes'
    done
}

# Prints the hosts that failed before the logins between hosts were tested.
host_lines() {
    local i cause advice
    for i in "${!host_name[@]}"; do
        [[ -e $work/$i.failed ]] || continue
        { read -r cause; read -r advice; } <"$work/$i.failed"
        fail_line "here -> ${host_name[i]}" "$cause" "$advice"
    done
}

# Sets healthy: the indices of hosts that have not failed, nor were done by an earlier --remove.
count_healthy() {
    local i
    healthy=()
    for i in "${!host_name[@]}"; do
        [[ -e $work/$i.failed || -e $work/$i.gone ]] || healthy+=("$i")
    done
}

make_key() {
    if [[ ! -e $key ]]; then
        note "generating the key $key"
        key_is_new=yes
        mkdir -p "$(dirname "$key")" || die 4 "cannot create the folder of $key"
        ssh-keygen -q -t ed25519 -N '' -C dptrain -f "$key" || die 4 "cannot generate the key $key"
    fi
    # A key with a passphrase is an error: mpirun cannot enter it.
    public_text=$(ssh-keygen -y -P '' -f "$key" 2>"$work/error") ||
        die 4 "cannot use the key $key: $(grep -v '^@' "$work/error" | head -n 1) (it needs chmod 600 and no passphrase)"
    public_text=${public_text%% dptrain}' dptrain'
    key_text=$(cat "$key")
}

setup() {
    local i key_text public_text known_text config_text
    (umask 077 && mkdir -p ~/.ssh && touch "$known") || die 4 "cannot write ~/.ssh"
    hosts_each keys_scan "${!host_name[@]}"
    count_healthy
    for i in "${healthy[@]}"; do keys_pin "$i"; done
    keys_meet
    make_key
    # shellcheck disable=SC2088 # ssh's own
    known_text=$(cat "$known") config_text=$(config_for '~/.ssh/dptrain_ed25519')
    remote_script "key_text public_text known_text config_text" "files_install_login files_install files_put" >"$work/script"
    login_all
    # This machine comes last. If it is one of the hosts, it has the hosts' files, unless the key is elsewhere.
    # shellcheck disable=SC2034 # remote_script's and files_install's
    key_text=''
    [[ $key == "$HOME/.ssh/dptrain_ed25519" ]] || config_text=$(config_for "\"${key//%/%%}\"")
    (files_install) || die 4 "cannot write ~/.ssh/config"
    count_healthy
    host_lines
    verify_all
}

remove() {
    local token=$$.$RANDOM i gone
    [[ -e ~/.ssh/dptrain_config ]] || { note "nothing is set up on this machine"; return; }
    # The key does not open these any more.
    gone=$'\n'$(sed -n 's/^# removed from //p' ~/.ssh/dptrain_config)$'\n'
    for i in "${!host_name[@]}"; do
        [[ $gone != *$'\n'"${host_name[i]}"$'\n'* ]] || touch "$work/$i.gone"
    done
    # If this machine is one of the hosts, its files must be removed last.
    touch ~/.ssh/dptrain_remove.$token
    trap '((BASHPID != $$)) || { rm -f ~/.ssh/dptrain_remove.'"$token"'; remove_work; }' EXIT
    remote_script "timeout" "files_remove files_put" "$token" >"$work/script"
    login_all
    host_lines
    rm -f ~/.ssh/dptrain_remove.$token
    if ((failures > 0)); then
        count_healthy
        for i in "${healthy[@]}"; do printf '# removed from %s\n' "${host_name[i]}"; done >>~/.ssh/dptrain_config
        note "the other hosts are done; kept the files on this machine: repair these hosts, or leave them out by --exclude, \
and run --remove again"
        return
    fi
    (files_remove none) || die 4 "cannot write ~/.ssh"
    note "removed from $(count ${#host_name[@]} host) and this machine"
}

base=(-F "$work/own_config")
[[ $mode != check ]] || base=()
own_config >"$work/own_config"
# A check resolves only hosts that fail, for its messages.
[[ $mode == check ]] || for i in "${!host_name[@]}"; do resolve_host "$i"; done
count_healthy
case $mode in
setup) setup ;;
check) verify_all ;;
remove) remove ;;
esac
((failures == 0)) || exit 1
