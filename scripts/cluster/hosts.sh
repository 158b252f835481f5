# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what is set here is for the caller; work is the caller's
# Reads a list of hosts, runs commands on all of them in parallel, and explains ssh's errors. Sourced after lib.sh.

# Columns of `dptrain hosts show --format tsv`, one element per host, the chief first; - if HOSTS does not set it.
# host_gpus is separated by commas.
host_name=() host_slots=() host_gpus=() host_port=() host_user=() host_key=()
ssh_causes=${BASH_SOURCE[0]%/*}/ssh_causes.tsv
# Number of hosts handled in parallel.
at_once=32
port_given='' user_given='' key_given=''
# Set by a signal: start no further host.
interrupted=''

# HOSTS: a hostfile, a YAML specification or a list a:2,b:2; FILTER: --include or --exclude with its value.
hosts_read() { # HOSTS [FILTER...]
    local program table name slots gpus port user key
    program=$(find_program) || exit
    # It prints errors in HOSTS itself.
    table=$("$program" hosts show --format tsv "$1" "${@:2}") || exit
    while IFS=$'\t' read -r name slots gpus port user key _; do
        [[ $slots == - ]] || number_or 1 slots
        [[ $gpus =~ ^[0-9]+(,[0-9]+)*$ ]] || gpus=-
        host_name+=("$name") host_slots+=("$slots") host_gpus+=("$gpus") host_port+=("$port") host_user+=("$user")
        host_key+=("$key")
    done <<<"$table"
}

# Prints the host's name for mpirun. IPv6 addresses get an alias, because colons have a meaning in mpirun's lists; the ssh
# configuration of setup_ssh.sh or run.sh resolves it.
host_alias() { # NAME
    if [[ $1 == *:* ]]; then echo "ip6-${1//[:%]/-}"; else echo "$1"; fi
}

# Runs FUNCTION I for each index in parallel, and waits for all. Results go into files.
hosts_each() { # FUNCTION INDEX...
    local function=$1 i running=() n=0
    shift
    for i in "$@"; do
        # Counted only if there may be too many: a count in a process of its own for each host costs more than the host.
        while ((n >= at_once)); do
            jobs -rp >"$work/running" && mapfile -t running <"$work/running" && n=${#running[@]}
            if ((n >= at_once)); then wait -n || true; fi
        done
        [[ -z $interrupted ]] || break
        "$function" "$i" &
        n=$((n + 1))
    done
    # A signal interrupts a wait.
    while [[ -n $(jobs -rp) ]]; do wait || true; done
}

# Runs COMMAND, a local or remote shell, with the file SCRIPT as input, for at most SECONDS. Writes OUT.out, OUT.err and
# OUT.code: the shell's exit code, 124 after a timeout, 255 for an ssh error.
host_ask() { # SCRIPT OUT SECONDS COMMAND...
    local code=0
    LC_ALL=C timeout -k 1 "$3" "${@:4}" <"$1" >"$2.out" 2>"$2.err" || code=$?
    # It had to be killed.
    [[ $code -ne 137 ]] || code=124
    echo "$code" >"$2.code"
}

# Prints shell commands that define VARIABLES and FUNCTIONS and call the first FUNCTION with the ARGUMENTS, for `bash -s` on a
# host: this works with any login shell, needs no quoting, and keeps keys out of process lists.
remote_script() { # "VARIABLE..." "FUNCTION..." [ARGUMENT...]
    local variables functions
    read -ra variables <<<"$1"
    read -ra functions <<<"$2"
    # Without a name, declare would print all variables.
    ((${#variables[@]} == 0)) || declare -p "${variables[@]}"
    declare -f "${functions[@]}"
    printf '%q ' "${functions[0]}" "${@:3}"
    # bash reads its script as it runs, so end it explicitly.
    printf '\nexit\n'
}

# Sets SSH, the ssh command and options that precede the host. port_given, user_given and key_given are for hosts without one in
# HOSTS, empty for those of the ssh configuration.
ssh_words() { # INDEX
    local i=$1 port user key
    port=${host_port[i]} user=${host_user[i]} key=${host_key[i]}
    [[ $port != - ]] || port=$port_given
    [[ $user != - ]] || user=$user_given
    [[ $key != - ]] || key=$key_given
    # A lost host is detected after half a minute.
    SSH=(ssh -T -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 ${port:+-p "$port"}
        ${user:+-l "$user"} ${key:+-i "${key/#\~/$HOME}"})
}

# Explains why ssh from FROM failed, given its messages TEXT or host_ask's CODE: sets CAUSE and ADVICE. For unknown messages,
# CAUSE is their last line.
ssh_cause() { # CODE TEXT NAME PORT FROM
    local code=$1 text=$2 name=$3 port=$4 from=$5 file messages message line
    number_or 255 code
    [[ $code -ne 124 ]] || text+=$'\nConnection timed out'
    file=$(sed -nE "s/.*Permissions [0-9]+ for '([^']*)'.*/\1/p; s/.*Bad owner or permissions on ([^ ]*).*/\1/p" \
        <<<"$text" | head -n 1)
    while IFS=$'\t' read -r line CAUSE ADVICE; do
        [[ $line != '#'* ]] || continue
        IFS='|' read -ra messages <<<"$line"
        for message in "${messages[@]}"; do
            [[ $text == *"$message"* ]] || continue
            # Last the host's name, because that of a link-local address has a %.
            CAUSE=${CAUSE//%p/"$port"} CAUSE=${CAUSE//%h/"$from"} CAUSE=${CAUSE//%f/"$file"} CAUSE=${CAUSE//%n/"$name"}
            ADVICE=${ADVICE//%p/"$port"} ADVICE=${ADVICE//%h/"$from"} ADVICE=${ADVICE//%f/"$file"} ADVICE=${ADVICE//%n/"$name"}
            return
        done
    done <"$ssh_causes"
    text=${text%$'\n'}
    CAUSE=${text##*$'\n'}
    [[ -n $CAUSE ]] || CAUSE="ssh ended with code $code"
    ADVICE="run ssh -v $name on $from for details"
}
