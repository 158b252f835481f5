# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of container.sh and ask.sh
# exec and check: commands in the first container. Sourced by container.sh.

# Runs on the first host. TOKEN marks the command, so that a signal finds it.
exec_on_host() { # NAME ENGINE FLAGS TOKEN WORDS...
    local name=$1 engine=$2 flags=$3 token=$4 folder
    shift 4
    folder=$HOME/.dptrain/$name@$(uname -n)
    PATH=$PATH:/usr/sbin:/sbin
    [[ ! -r $folder/engine ]] || engine=$(<"$folder/engine")
    if [[ -z $engine || $("$engine" container inspect --format '{{.State.Running}}' "$name" 2>/dev/null) != true ]]; then
        echo "container.sh: error: no container $name runs on $(uname -n): start it by container.sh up" >&2
        exit 4
    fi
    exec "$engine" exec "$flags" --env "CONTAINER_EXEC=$token" "$name" "$@"
}

# Runs on the first host: signals the command itself, the process without a parent in the container.
exec_signal() { # NAME ENGINE SIGNAL TOKEN
    local engine=$2 folder
    folder=$HOME/.dptrain/$1@$(uname -n)
    PATH=$PATH:/usr/sbin:/sbin
    [[ ! -r $folder/engine ]] || engine=$(<"$folder/engine")
    # shellcheck disable=SC2016 # for the container's shell
    "$engine" exec "$1" /bin/bash -c 'for file in $(grep -lszxF "CONTAINER_EXEC=$2" /proc/[0-9]*/environ); do
        pid=${file#/proc/} pid=${pid%/environ}
        ! grep -qs "^PPid:[[:space:]]*0\$" "/proc/$pid/status" || kill "-$1" "$pid"
    done' _ "$3" "$4"
}

# Returns the command's exit code; 5 if the host is lost.
container_exec() { # WORD...
    local SSH token=$$.$RANDOM$RANDOM flags=-i code=0 command
    if (($# == 1)); then command=(/bin/bash -c "$1"); else command=("$@"); fi
    login_words 0
    if [[ -t 0 && -t 1 ]]; then flags=-it SSH=(ssh -t "${SSH[@]:2}"); fi
    command=("$(quoted_bash "$(declare -f exec_on_host); exec_on_host $(printf '%q ' "$name" "$engine" $flags "$token" "${command[@]}")")")
    if [[ $flags == -it ]]; then
        # The terminal's signals go to the command.
        trap '' INT
        "${SSH[@]}" "${host_name[0]}" "${command[@]}" || code=$?
    else
        trap 'exec_pass INT' INT
        trap 'exec_pass TERM' TERM
        trap 'exec_pass HUP' HUP
        trap 'exec_pass USR1' USR1
        exec_talk "${command[@]}" <&0 &
        # A signal ends a wait.
        until [[ -e $work/exec.code || -z $(jobs -rp) ]]; do wait || true; done
        code=$(cat "$work/exec.code" 2>/dev/null) || code=255
    fi
    [[ $code -ne 255 ]] || die 5 "${host_name[0]} was not reached, or was lost; if not, the command ended with 255"
    return "$code"
}

# Runs ssh; writes its process id and exit code to files. setsid: Ctrl-C must not end ssh before the command.
exec_talk() { # COMMAND
    local code=0
    setsid "${SSH[@]}" "${host_name[0]}" "$@" <&0 &
    echo $! >"$work/exec.pid"
    wait $! || code=$?
    echo "$code" >"$work/exec.part" && mv "$work/exec.part" "$work/exec.code"
}

# shellcheck disable=SC2317 # the traps call it
exec_pass() { # SIGNAL
    local SSH
    login_words 0
    "${SSH[@]}" "${host_name[0]}" "$(quoted_bash "$(declare -f exec_signal); exec_signal $(printf '%q ' "$name" "$engine" "$1" "$token")")" \
        </dev/null >/dev/null 2>&1 || kill "$(<"$work/exec.pid")" 2>/dev/null || true
}

# Runs on the hosts: prints `state STATUS SINCE`, `image ID`, and `sshd PORT ANSWER`.
host_state() {
    local folder kind='' status since id said='' port
    host_engine || { echo noengine; echo end; return; }
    [[ ! -r $folder/engine ]] || kind=$(<"$folder/engine")
    IFS='|' read -r status since id < <("$kind" container inspect --format '{{.State.Status}}|{{.State.StartedAt}}|{{.Image}}' "$name" 2>/dev/null)
    echo "state ${status:-none} ${since%%.*}"
    id=${id#sha256:}
    echo "image ${id:0:12}"
    port=$(sed -n 's/^Port //p' "$folder/inside/sshd_config" 2>/dev/null)
    if [[ $status == running && -n $port ]]; then
        if { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then read -rt 5 said <&3 || true; fi
        echo "sshd $port $said"
    fi
    echo end
}

container_check() {
    # shellcheck disable=SC2034 # answered sets it
    local i bad=0 problem lost state image_there port text widest first=''
    widest=$(printf '%s\n' "${host_name[@]}" | wc -L)
    ask state - "host_state host_engine"
    for i in "${!host_name[@]}"; do
        if ! answered state "$i"; then
            text=$problem state=lost
        elif said state "$i" noengine >/dev/null; then
            text="no ${engine:-podman or docker}" state=lost
        else
            state=$(said state "$i" state) || state=unknown
            image_there=$(said state "$i" image) || image_there=unknown
            text="$state, image $image_there"
            [[ $state != none* ]] || text="no container $name: scripts/container.sh up"
            [[ $state != exited* && $state != stopped* ]] || text+=": scripts/container.sh up starts it again"
            if port=$(said state "$i" sshd); then
                text+=", sshd on port ${port%% *}"
                if [[ $port != *SSH-* ]]; then text+=" does not answer" state=silent; fi
            fi
            if [[ -n $first && $image_there != "$first" && $state == running* ]]; then
                text+=", not ${host_name[0]}'s $first" state=other
            fi
            [[ $i != 0 ]] || first=$image_there
        fi
        [[ $state == running* ]] || bad=$((bad + 1))
        show '%-*s  %s' "$widest" "${host_name[i]}" "$text"
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} containers are not ready"
    # The login key is on the first host alone, so logins between the others are not tested.
    container_exec cluster_health.sh --no-ssh /run/dptrain/hosts -- "${words[@]}"
}
