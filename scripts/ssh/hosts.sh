# shellcheck shell=bash
# shellcheck disable=SC2034 # CAUSE and ADVICE are for the caller
# What the scripts that go to other hosts by ssh share; sourced behind lib.sh, never run.

# Columns of `dptrain hosts show --format tsv`, an element for each host; '-' where HOSTS says nothing.
declare -a host_address host_port host_user host_key
# How many hosts are dealt with at a time.
at_once=32
# Set by a signal: no further host is begun.
interrupted=''

# HOSTS: a hostfile, a YAML specification or a list a:2,b:2; FILTER: --include or --exclude with its value.
hosts_read() { # HOSTS [FILTER...]
    local program table address port user key
    program=$(find_program) || exit
    # It says itself what is wrong with HOSTS.
    table=$("$program" hosts show --format tsv "${@:2}" "$1") || exit
    while IFS=$'\t' read -r address _ _ port user key _; do
        host_address+=("$address") host_port+=("$port") host_user+=("$user") host_key+=("$key")
    done <<<"$table"
}

# FUNCTION I for each index, side by side; waits for all. What they find out they write into files.
for_hosts() { # FUNCTION INDEX...
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

# The shell commands that define VARIABLES and FUNCTIONS and call the first FUNCTION with the ARGUMENTS, for `bash -s`
# on a host: whatever the login shell is there, it need not quote anything, and no list of processes shows a key.
remote_script() { # "VARIABLE..." "FUNCTION..." [ARGUMENT...]
    local variables functions
    read -ra variables <<<"$1"
    read -ra functions <<<"$2"
    declare -p "${variables[@]}"
    declare -f "${functions[@]}"
    printf '%q ' "${functions[0]}" "${@:3}"
    # bash reads its script as it goes.
    printf '\nexit\n'
}

# What an ssh from FROM has died of, as its messages TEXT say: sets CAUSE, and ADVICE, what to do. Where they say
# nothing that is known, CAUSE is their last line.
ssh_cause() { # CODE TEXT ADDRESS PORT FROM
    local code=$1 text=$2 address=$3 port=$4 from=$5 file
    file=$(sed -nE "s/.*Permissions [0-9]+ for '([^']*)'.*/\1/p; s/.*Bad owner or permissions on ([^ ]*).*/\1/p" \
        <<<"$text" | head -n 1)
    case $text in
    *'UNPROTECTED PRIVATE KEY FILE'* | *'Bad owner or permissions on '*)
        CAUSE="bad permission: ssh does not use $file, which others may read or write"
        ADVICE="on $from: chmod 600 $file"
        ;;
    *'HOST IDENTIFICATION HAS CHANGED'*)
        CAUSE="host key changed: $address shows another than was pinned"
        ADVICE="if it was installed anew: setup_ssh.sh --accept-new-host-key $address HOSTS; else see who answers there"
        ;;
    *'host key is known for'* | *'Host key verification failed'*)
        CAUSE="host key of $address is not known on $from" ADVICE="scripts/setup_ssh.sh HOSTS pins it"
        ;;
    *'Could not resolve hostname'*)
        CAUSE="name does not resolve on $from"
        ADVICE="add $address to DNS or to /etc/hosts on $from, or write its address into HOSTS"
        ;;
    *'Connection refused'*)
        CAUSE="refused: no sshd listens on port $port"
        ADVICE="on $address: start sshd, or name its port (--ssh-port, or port in HOSTS)"
        ;;
    *'No route to host'* | *'etwork is unreachable'*)
        CAUSE="no route from $from"
        ADVICE="is $address switched on, its cable in, its address in a network that $from reaches?"
        ;;
    *'timed out'* | *'Timeout, server'*)
        CAUSE="no answer in time" ADVICE="is $address up, and does no firewall drop port $port?"
        ;;
    *'Permission denied'*)
        CAUSE="prompt: sshd does not take the key and would ask for a password"
        ADVICE="scripts/setup_ssh.sh HOSTS; if that was done, on $address: chmod go-w ~ ~/.ssh ~/.ssh/authorized_keys"
        ;;
    *'invalid format'* | *'invalid characters'* | *'banner exchange'*)
        CAUSE="wrong port: what answers on port $port is no sshd"
        ADVICE="name sshd's port (--ssh-port, or port in HOSTS)"
        ;;
    *'closed by'* | *'reset by'* | *'kex_exchange_identification'*)
        CAUSE="closed before the login on port $port"
        ADVICE="is that port sshd's? If so, its log on $address says why (MaxStartups, AllowUsers, fail2ban)"
        ;;
    *)
        text=${text%$'\n'}
        CAUSE=${text##*$'\n'}
        [[ -n $CAUSE ]] || CAUSE="ssh ended with code $code"
        ADVICE="ssh -v $address on $from says more"
        ;;
    esac
}
