#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Lets every host of a list log in to every other without a question. See --help.
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

Sets up ssh from here to all hosts, and between any two of them, as mpirun needs it; HOSTS is a hostfile, a YAML
specification or a list a:2,b:2, as `dptrain hosts` reads them. In four steps, each safe to repeat:

  pins every host's key in ~/.ssh/dptrain_known_hosts, and prints its fingerprint. A key that has changed is refused
  makes an Ed25519 key and enters it on every host, over a login that works: the key itself, your own keys or agent,
    key_file of HOSTS, or a password: of the variable SSHPASS or asked for once (both need sshpass)
  writes ~/.ssh/dptrain_config with port, user and key of every host, and one Include line at the top of ~/.ssh/config;
    copies them, the key and the pinned keys to every host
  tries every pair of hosts both ways, and names each that fails, why, and what to do

  --ssh-port N      of hosts for which HOSTS has none [~/.ssh/config's, 22]
  --user NAME       of hosts for which HOSTS has none [~/.ssh/config's, your own name]
  --key FILE        the private key, made where there is none [~/.ssh/dptrain_ed25519, which it is called on the hosts]
  --include SPEC, --exclude SPEC   some of the hosts, as dptrain hosts does it
  --timeout SEC     the longest that a login may take [10]
  --jobs N          hosts dealt with at a time [32]
  --accept-new-host-key HOST   pin the key that this host shows now in place of the former; may be repeated
  --check           only try the pairs, with what is set up: nothing is changed
  --remove          undo all of it, on every host and here
  -h, --help        this text

Exit code 0: every pair works; 1: at least one does not.
END
}

port_given='' user_given='' key=$HOME/.ssh/dptrain_ed25519 timeout=10 mode=setup accepted=' ' filter=() hosts=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --ssh-port) need_value "$@"; whole_number "$1" "$2" 1; port_given=$2; shift 2 ;;
    --user) need_value "$@"; user_given=$2; shift 2 ;;
    --key) need_value "$@"; key=$(readlink -m -- "$2"); shift 2 ;;
    --include | --exclude) need_value "$@"; filter+=("$1" "$2"); shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; timeout=$2; shift 2 ;;
    --jobs) need_value "$@"; whole_number "$1" "$2" 1; at_once=$2; shift 2 ;;
    --accept-new-host-key) need_value "$@"; accepted+="$2 "; shift 2 ;;
    --check) mode=check; shift ;;
    --remove) mode=remove; shift ;;
    -*) common_option "$1" ;;
    *)
        [[ -z $hosts ]] || die 2 "one HOSTS, not '$hosts' and '$1'; a list has commas: a,b"
        hosts=$1
        shift
        ;;
    esac
done
[[ -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
for tool in ssh ssh-keygen ssh-keyscan timeout; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; scripts/install_deps.sh installs it (openssh-client)"
done
hosts_read "$hosts" "${filter[@]}"

# Only its owner sees into it: a private key may pass through.
make_work ssh
trap 'interrupted=yes; exit 130' INT
trap 'interrupted=yes; exit 143' TERM HUP
known=$HOME/.ssh/dptrain_known_hosts
failures=0 key_is_new=no

# The table of what does not work. AT is a host or two.
fail_line() { # AT CAUSE ADVICE
    ((failures > 0)) || printf 'these do not work:\n'
    failures=$((failures + 1))
    printf '  %-24s %s\n  %-24s   -> %s\n' "$1" "$2" '' "$3"
}

# The user's own settings, without what this script has added: a second run finds what the first one found.
own_config() {
    if [[ -r ~/.ssh/config ]]; then grep -vE '^Include .*dptrain_config$' ~/.ssh/config || true; fi
    printf 'Match all\n'
    [[ ! -r /etc/ssh/ssh_config ]] || printf 'Include /etc/ssh/ssh_config\n'
}

# Fills in what HOSTS leaves open; host_target is what is connected to, and its key is pinned under host_pin.
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
    [[ -n ${host_target[i]:-} ]] || die 2 "ssh does not take the host '${host_name[i]}'"
    host_pin[i]=${host_target[i]}
    if [[ ${host_port[i]} != 22 ]]; then host_pin[i]="[${host_target[i]}]:${host_port[i]}"; fi
}

config_for() { # IDENTITY_FILE
    local i names alias
    printf '# Written by scripts/setup_ssh.sh of dptrain; --remove takes it away.\n'
    for i in "${!host_name[@]}"; do
        names=${host_name[i]} alias=$(host_alias "${host_name[i]}")
        [[ $alias == "$names" ]] || names+=" $alias"
        printf 'Host %s\n' "$names"
        [[ ${host_target[i]} == "$names" ]] || printf '    HostName %s\n' "${host_target[i]//%/%%}"
        printf '    %s\n' "Port ${host_port[i]}" "User ${host_user[i]}" "IdentityFile $1" 'IdentitiesOnly yes' \
            'UserKnownHostsFile ~/.ssh/dptrain_known_hosts' 'StrictHostKeyChecking yes' 'BatchMode yes'
    done
}

# The hosts that failed before any pair could be tried.
host_lines() {
    local i cause advice
    for i in "${!host_name[@]}"; do
        [[ -e $work/$i.failed ]] || continue
        { read -r cause; read -r advice; } <"$work/$i.failed"
        fail_line "here -> ${host_name[i]}" "$cause" "$advice"
    done
}

# Sets healthy: the indices of hosts that have not failed.
count_healthy() {
    local i
    healthy=()
    for i in "${!host_name[@]}"; do
        [[ -e $work/$i.failed ]] || healthy+=("$i")
    done
}

make_key() {
    if [[ ! -e $key ]]; then
        note "making the key $key"
        key_is_new=yes
        mkdir -p "$(dirname "$key")" || die 4 "cannot make the folder of $key"
        ssh-keygen -q -t ed25519 -N '' -C dptrain -f "$key" || die 4 "cannot make the key $key"
    fi
    # Refused where the key has a passphrase: nobody could type it in for mpirun.
    public_text=$(ssh-keygen -y -P '' -f "$key" 2>"$work/error") ||
        die 4 "the key $key cannot be used: $(grep -v '^@' "$work/error" | head -n 1) (chmod 600, and no passphrase)"
    public_text=${public_text%% dptrain}' dptrain'
    key_text=$(cat "$key")
}

setup() {
    local i key_text public_text known_text config_text
    (umask 077 && mkdir -p ~/.ssh && touch "$known") || die 4 "cannot write ~/.ssh"
    make_key
    hosts_each keys_scan "${!host_name[@]}"
    count_healthy
    for i in "${healthy[@]}"; do keys_pin "$i"; done
    # shellcheck disable=SC2088 # ssh's own
    known_text=$(cat "$known") config_text=$(config_for '~/.ssh/dptrain_ed25519')
    remote_script "key_text public_text known_text config_text" "files_install_login files_install files_put" >"$work/script"
    login_all
    # Here, too, and last: where this machine is one of the hosts this is theirs, unless the key is elsewhere.
    # shellcheck disable=SC2034 # remote_script's and files_install's
    key_text=''
    [[ $key == "$HOME/.ssh/dptrain_ed25519" ]] || config_text=$(config_for "\"$key\"")
    (files_install) || die 4 "cannot write ~/.ssh/config"
    count_healthy
    host_lines
    verify_all
}

remove() {
    local token=$$.$RANDOM
    [[ -e ~/.ssh/dptrain_config ]] || { note "nothing is set up here"; return; }
    # Where this machine is one of the hosts, its files may not go before the others' have.
    touch ~/.ssh/dptrain_remove.$token
    trap '((BASHPID != $$)) || rm -rf "$work" ~/.ssh/dptrain_remove.'"$token" EXIT
    remote_script "timeout" "files_remove files_put" "$token" >"$work/script"
    login_all
    host_lines
    rm -f ~/.ssh/dptrain_remove.$token
    if ((failures > 0)); then
        note "what is here stays, to repeat this when these are repaired; or leave them out by --exclude"
        return
    fi
    (files_remove none) || die 4 "cannot write ~/.ssh"
    note "removed from ${#host_name[@]} hosts and from here"
}

base=(-F "$work/own_config")
[[ $mode != check ]] || base=()
own_config >"$work/own_config"
for i in "${!host_name[@]}"; do resolve_host "$i"; done
count_healthy
case $mode in
setup) setup ;;
check) verify_all ;;
remove) remove ;;
esac
((failures == 0)) || exit 1
