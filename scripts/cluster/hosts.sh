# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is for the caller
# The hosts of a list, what is done on all of them side by side, and why ssh fails. Sourced behind lib.sh, never run.

# Columns of `dptrain hosts show --format tsv`, an element for each host, the chief first; - where HOSTS says nothing.
# host_gpus has commas, host_envs NAME=VALUE with tabs between them.
host_name=() host_slots=() host_gpus=() host_port=() host_user=() host_key=() host_env_file=() host_setup=() host_envs=()
# How many hosts are dealt with at a time.
at_once=32
# Set by a signal: no further host is begun.
interrupted=''

# HOSTS: a hostfile, a YAML specification or a list a:2,b:2; FILTER: --include or --exclude with its value.
hosts_read() { # HOSTS [FILTER...]
    local program table name slots gpus port user key env_file setup envs
    program=$(find_program) || exit
    # It says itself what is wrong with HOSTS.
    table=$("$program" hosts show --format tsv "$1" "${@:2}") || exit
    while IFS=$'\t' read -r name slots gpus port user key _ env_file setup envs; do
        host_name+=("$name") host_slots+=("$slots") host_gpus+=("$gpus") host_port+=("$port") host_user+=("$user")
        host_key+=("$key") host_env_file+=("$env_file") host_setup+=("$setup") host_envs+=("$envs")
    done <<<"$table"
}

# The host's name where an address of IPv6 cannot be one: mpirun's lists have colons of their own. ssh's configuration, of
# setup_ssh.sh or run.sh, says what it stands for.
host_alias() { # NAME
    if [[ $1 == *:* ]]; then echo "ip6-${1//[:%]/-}"; else echo "$1"; fi
}

# FUNCTION I for each index, side by side; waits for all. What they find out they write into files.
hosts_each() { # FUNCTION INDEX...
    local function=$1 i
    shift
    for i in "$@"; do
        while (($(jobs -rp | wc -l) >= at_once)); do wait -n || true; done
        [[ -z $interrupted ]] || break
        "$function" "$i" &
    done
    # A signal interrupts a wait.
    while [[ -n $(jobs -rp) ]]; do wait || true; done
}

# Runs COMMAND, a shell somewhere, with the file SCRIPT as its input, for at most SECONDS. Leaves OUT.out, OUT.err and
# OUT.code: the shell's own, 124 when the time was over, ssh's 255.
host_ask() { # SCRIPT OUT SECONDS COMMAND...
    local code=0
    LC_ALL=C timeout -k 1 "$3" "${@:4}" <"$1" >"$2.out" 2>"$2.err" || code=$?
    # It did not end when it was told to.
    [[ $code -ne 137 ]] || code=124
    echo "$code" >"$2.code"
}

# The shell commands that define VARIABLES and FUNCTIONS and call the first FUNCTION with the ARGUMENTS, for `bash -s`
# on a host: whatever the login shell is there, it need not quote anything, and no list of processes shows a key.
remote_script() { # "VARIABLE..." "FUNCTION..." [ARGUMENT...]
    local variables functions
    read -ra variables <<<"$1"
    read -ra functions <<<"$2"
    # Without a name it would print all that there are.
    ((${#variables[@]} == 0)) || declare -p "${variables[@]}"
    declare -f "${functions[@]}"
    printf '%q ' "${functions[0]}" "${@:3}"
    # bash reads its script as it goes.
    printf '\nexit\n'
}

# What an ssh from FROM has died of, as its messages TEXT say, or host_ask's CODE: sets CAUSE, and ADVICE, what to do.
# Where they say nothing that is known, CAUSE is their last line.
ssh_cause() { # CODE TEXT NAME PORT FROM
    local code=$1 text=$2 name=$3 port=$4 from=$5 file
    [[ $code -ne 124 ]] || text+=$'\nConnection timed out'
    file=$(sed -nE "s/.*Permissions [0-9]+ for '([^']*)'.*/\1/p; s/.*Bad owner or permissions on ([^ ]*).*/\1/p" \
        <<<"$text" | head -n 1)
    case $text in
    *'UNPROTECTED PRIVATE KEY FILE'* | *'Bad owner or permissions on '*)
        CAUSE="bad permission: ssh does not use $file, which others may read or write"
        ADVICE="on $from: chmod 600 $file"
        ;;
    *'HOST IDENTIFICATION HAS CHANGED'*)
        CAUSE="host key changed: $name shows another than was pinned"
        ADVICE="if it was installed anew: setup_ssh.sh --accept-new-host-key $name HOSTS; else see who answers there"
        ;;
    *'host key is known for'* | *'Host key verification failed'*)
        CAUSE="host key of $name is not known on $from" ADVICE="scripts/setup_ssh.sh HOSTS pins it"
        ;;
    *'Could not resolve hostname'*)
        CAUSE="name does not resolve on $from"
        ADVICE="add $name to DNS or to /etc/hosts on $from, or write its address into HOSTS"
        ;;
    *'Connection refused'*)
        CAUSE="refused: no sshd listens on port $port"
        ADVICE="on $name: start sshd, or name its port (--ssh-port, or port in HOSTS)"
        ;;
    *'No route to host'* | *'etwork is unreachable'*)
        CAUSE="no route from $from"
        ADVICE="is $name switched on, its cable in, its address in a network that $from reaches?"
        ;;
    *'timed out'* | *'Timeout, server'*)
        CAUSE="no answer in time" ADVICE="is $name up, and does no firewall drop port $port?"
        ;;
    *'Permission denied'*)
        CAUSE="prompt: sshd does not take the key and would ask for a password"
        ADVICE="scripts/setup_ssh.sh HOSTS; if that was done, on $name: chmod go-w ~ ~/.ssh ~/.ssh/authorized_keys"
        ;;
    *'invalid format'* | *'invalid characters'* | *'banner exchange'*)
        CAUSE="wrong port: what answers on port $port is no sshd"
        ADVICE="name sshd's port (--ssh-port, or port in HOSTS)"
        ;;
    *'closed by'* | *'reset by'* | *'kex_exchange_identification'*)
        CAUSE="closed before the login on port $port"
        ADVICE="is that port sshd's? If so, its log on $name says why (MaxStartups, AllowUsers, fail2ban)"
        ;;
    *)
        text=${text%$'\n'}
        CAUSE=${text##*$'\n'}
        [[ -n $CAUSE ]] || CAUSE="ssh ended with code $code"
        ADVICE="ssh -v $name on $from says more"
        ;;
    esac
}
