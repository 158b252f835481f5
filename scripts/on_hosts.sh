#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a command on all hosts of a list, or copies a file to them. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/hosts.sh
. "$here/cluster/hosts.sh"

usage() {
    cat <<'END'
usage: scripts/on_hosts.sh [options] HOSTS -- COMMAND
       scripts/on_hosts.sh [options] HOSTS --copy FILE [DEST] [-- COMMAND]

Runs the command on all hosts in parallel, in the user's home folder, and prefixes its output with the host's name.
HOSTS is a hostfile, a YAML specification or a list a:2,b:2. A single word is a line for bash ('cd /data && ls');
several words are a command and its arguments, passed unchanged. Standard input is empty. Ctrl-C, SIGTERM and --timeout
also end the command on the hosts: SIGTERM, 5 s later SIGKILL. Logins must not prompt; run scripts/setup_ssh.sh first.

  --copy FILE [DEST]  copy a file or a whole folder to the same path on every host, or to DEST, by rsync, and compare
                      SHA-256 sums; identical copies are left alone
  --timeout SEC       time limit per host for the copy, and for the command [0: no limit]
  --jobs N            number of hosts in parallel [32]
  --ssh-port N, --user NAME, --key FILE   for hosts without one in HOSTS [as in ~/.ssh/config]
  --include SPEC, --exclude SPEC   keep or drop hosts, as for dptrain hosts
  -h, --help          show this help

Exit code 0: all hosts ended with 0. 1: a copy failed. 5: a host was not reached, was lost, or had to be stopped.
Otherwise the largest code of a host; a table at the end lists hosts and codes.
END
}

timeout=0 hosts='' copy='' dest='' words=() filter=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --copy)
        need_value "$@"
        copy=$2
        shift 2
        if [[ $# -gt 0 && -n $hosts && $1 != -* ]]; then dest=$1; shift; fi
        ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 0; timeout=$2; shift 2 ;;
    --jobs) need_value "$@"; whole_number "$1" "$2" 1; at_once=$2; shift 2 ;;
    --ssh-port) need_value "$@"; whole_number "$1" "$2" 1; port_given=$2; shift 2 ;;
    --user) need_value "$@"; user_given=$2; shift 2 ;;
    --key) need_value "$@"; key_given=$2; shift 2 ;;
    --include | --exclude) need_value "$@"; filter+=("$1" "$2"); shift 2 ;;
    --) shift; words=("$@"); break ;;
    -*) common_option "$1" ;;
    *)
        [[ -z $hosts ]] || die 2 "unexpected argument '$1' after HOSTS '$hosts'; the command follows --"
        hosts=$1
        shift
        ;;
    esac
done
[[ -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
[[ ${#words[@]} -gt 0 || -n $copy ]] || die 2 "nothing to do: pass -- COMMAND or --copy FILE"
end_of_options
[[ -z $copy || -e $copy ]] || die 3 "--copy: no such file: $copy"
command -v ssh >/dev/null || die 4 "ssh was not found; scripts/install_deps.sh installs it (openssh-client)"
[[ -z $copy ]] || command -v rsync >/dev/null || die 4 "rsync was not found (apt-get install rsync)"
hosts_read "$hosts" "${filter[@]}"

make_work hosts
# Each host's shell ends its own command, and is awaited.
stop() { # CODE
    interrupted=$1
    # shellcheck disable=SC2046 # numbers
    kill -TERM $(jobs -rp) 2>/dev/null || true
}
trap 'stop 130' INT
trap 'stop 143' TERM HUP

# ---- on the hosts, by bash

# Runs $command until it ends, or until standard input does, which means that ssh or this script is gone.
run_until_eof() {
    local job watch code=0 ended=''
    exec 3<&0
    setsid bash -c "$command" </dev/null 3<&- &
    job=$!
    trap 'ended=yes; kill -TERM -- "-$job" 2>/dev/null
        { sleep 5; kill -KILL -- "-$job"; } >/dev/null 2>&1 &' USR1
    { while read -r _; do :; done; kill -USR1 $$; } <&3 >/dev/null 2>&1 &
    watch=$!
    exec 3<&-
    while :; do
        wait "$job" 2>/dev/null
        code=$?
        kill -0 "$job" 2>/dev/null || break
    done
    # Its children also get 5 s.
    while [[ -n $ended ]] && kill -0 -- "-$job" 2>/dev/null; do sleep 0.1; done
    kill "$watch" 2>/dev/null
    exit "$code"
}

# Prints the SHA-256 of a file, or of the names and contents of all files in a folder; `none` if it does not exist.
content_hash() { # PATH
    if [[ -d $1 ]]; then
        (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum) | sha256sum | cut -d ' ' -f 1
    elif [[ -e $1 ]]; then
        sha256sum <"$1" | cut -d ' ' -f 1
    else
        mkdir -p "$(dirname "$1")" && echo none
    fi
}

# ---- from here

# Uses plain ssh even if pdsh or clush exist: both return only the largest exit code, and leave commands running on the hosts
# when they are stopped. ssh's input is the script, then a pipe that stays open: when it closes, for any reason, the host ends
# the command.
run_command() { # INDEX
    local i=$1 name lifeline=$work/$1.in job ended='' out_filter='' err_filter=''
    # A terminal sends these to all processes; this shell waits for the script to stop it.
    trap '' INT HUP
    name=$(printf '%-*s' $((widest + 1)) "${host_name[i]}:")
    [[ ! -t 1 ]] || out_filter=$plain_filter
    [[ ! -t 2 ]] || err_filter=$plain_filter
    ssh_words "$i"
    mkfifo "$lifeline"
    exec 9<>"$lifeline"
    {
        { { talk "$i" 2>&3 | LC_ALL=C sed -u "$out_filter s|^|$name |" >&4; } 3>&1 | tee "$work/$i.err" |
            LC_ALL=C sed -u "$err_filter s|^|$name |" >&2; } 4>&1
    } <"$lifeline" 9>&- &
    job=$!
    trap 'ended="stopped by a signal"; exec 9>&-' TERM
    remote_script command run_until_eof >&9
    if ((timeout > 0)); then sleep "$timeout" >/dev/null 2>&1 9>&- & fi
    wait -n || true
    if [[ ! -e $work/$i.code && -z $ended ]]; then
        ended="ended after $timeout s"
        exec 9>&-
    fi
    if [[ -n $ended ]]; then
        echo "$ended" >"$work/$i.ended"
        # The host needs this long to end the command; a cut link would wait forever.
        sleep 8 >/dev/null 2>&1 &
        wait -n || true
        [[ -e $work/$i.code ]] || kill "$(cat "$work/$i.pid")" 2>/dev/null || true
    fi
    wait "$job" || true
    # shellcheck disable=SC2046 # process ids of the timers
    kill $(jobs -rp) 2>/dev/null || true
}

# Runs ssh; writes its process id and exit code to files.
talk() { # INDEX
    local code=0
    LC_ALL=C "${SSH[@]}" "${host_name[$1]}" bash -s <&0 &
    echo $! >"$work/$1.pid"
    wait $! || code=$?
    echo "$code" >"$work/$1.code"
}

remote_hash() { # INDEX
    LC_ALL=C timeout "$timeout" "${SSH[@]}" "${host_name[$1]}" bash -s <"$work/hash" 2>"$work/$1.err"
}

# Lets a signal to this shell end the command.
killable() { # COMMAND...
    "$@" <&0 &
    # shellcheck disable=SC2064 # now
    trap "kill $! 2>/dev/null" TERM
    wait $!
}

copy_file() { # INDEX
    local i=$1 at=${host_name[$1]} code=0 found
    trap '' INT HUP
    ssh_words "$i"
    [[ $at != *:* ]] || at="[$at]"
    found=$(remote_hash "$i") || code=$?
    if [[ $code -eq 0 && $found != "$hash" ]]; then
        # --checksum: a damaged file may have the right size and time.
        LC_ALL=C killable timeout "$timeout" rsync -a --checksum ${folder:+--delete} -e "$(printf '%q ' "${SSH[@]}")" \
            "$copy${folder:+/}" "$at:$dest${folder:+/}" </dev/null 2>"$work/$i.err" >&2 || code=$?
        if [[ $code -eq 0 ]]; then found=$(remote_hash "$i") || code=$?; fi
        if [[ $code -eq 0 && $found != "$hash" ]]; then
            printf 'hash mismatch: %s there, %s here\n' "${found:0:16}" "${hash:0:16}" >"$work/$i.err"
            code=1
        fi
    fi
    echo "$code" >"$work/$i.code"
    [[ $code -ne 124 ]] || echo "ended after $timeout s" >"$work/$i.ended"
}

# Prints a table of the hosts that failed; sets worst to the exit code, see --help. STAGE: copy or command.
report() { # STAGE
    local i code rows='' n=0 said
    worst=0
    for i in "${!host_name[@]}"; do
        code=$(cat "$work/$i.code" 2>/dev/null) || code=''
        [[ $code != 0 || -e $work/$i.ended ]] || continue
        n=$((n + 1))
        said=$(head -n 1 "$work/$i.err" 2>/dev/null) || true
        CAUSE="exit code $code" ADVICE=''
        if [[ -e $work/$i.ended ]]; then
            CAUSE=$(cat "$work/$i.ended") code=5
        elif [[ -z $code ]]; then
            CAUSE='not started' code=5
        elif [[ $code -eq 255 ]]; then
            ssh_cause "$code" "$(cat "$work/$i.err")" "${host_name[i]}" "${host_port[i]/#-/${port_given:-22}}" \
                "$(hostname)"
            code=5
        elif [[ $1 == copy ]]; then
            CAUSE=${said:-rsync ended with code $code} code=1
        fi
        if ((code == 5 || (worst != 5 && code > worst))); then worst=$code; fi
        rows+=$(printf '  %-*s  %s' "$widest" "${host_name[i]}" "$CAUSE${ADVICE:+ -> $ADVICE}")$'\n'
    done
    [[ $n -eq 0 ]] || note "the $1 failed on $n of ${#host_name[@]} hosts"$'\n'"${rows%$'\n'}"
}

finish() { # STAGE
    report "$1"
    [[ -z $interrupted ]] || exit "$interrupted"
    ((worst == 0)) || exit "$worst"
}

# As plain_text, for output on a terminal.
plain_filter="s/\r//g; s/[$plain_control]/?/g; s/"$'\xc2'"[$plain_high]/?/g;"
widest=$(printf '%s\n' "${host_name[@]}" | wc -L)
if [[ -n $copy ]]; then
    copy=$(readlink -f -- "$copy") folder=''
    dest=${dest:-$copy}
    if [[ -d $copy ]]; then folder=yes; fi
    hash=$(content_hash "$copy")
    remote_script dest content_hash "$dest" >"$work/hash"
    hosts_each copy_file "${!host_name[@]}"
    finish copy
    note "$dest is identical on $(count ${#host_name[@]} host) (SHA-256 ${hash:0:16}…)"
    rm -f "$work"/*.err
fi
if [[ ${#words[@]} -gt 0 ]]; then
    rm -f "$work"/*.code
    # shellcheck disable=SC2034 # remote_script's
    if [[ ${#words[@]} -eq 1 ]]; then command=${words[0]}; else command=$(printf '%q ' "${words[@]}"); fi
    hosts_each run_command "${!host_name[@]}"
    finish command
fi
