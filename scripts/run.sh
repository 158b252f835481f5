#!/usr/bin/env bash
# Starts dptrain under mpirun and owns the job until its end. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/run.sh [options] [--] [dptrain's arguments]

Starts dptrain under mpirun with the flags that fit this machine, passes its exit code on, and sees to it that
the job ends: SIGTERM or Ctrl-C asks it for a checkpoint and an orderly end, a second one ends it at once.

  -np N                ranks [one per core; with -hostfile or -H what those say]
  -hostfile FILE       hosts, in mpirun's format
  -H LIST              hosts: a:2,b:2
  --timeout-start SEC  end the job when it has printed nothing by then; 0: never [300]
  --grace SEC          from the first signal to the end of the job [30]
  --dry-run            print the mpirun command and stop
  -h, --help           this text

Exit codes are dptrain's own. A rank killed by a signal, a lost host and a job that had to be ended give 5, a job
that could not be started 4.
DPTRAIN_BIN names the program; DPTRAIN_BIND=none switches binding off.
EOF
}

np=0 hosts=() timeout_start=300 grace=30 dry_run=no
while [[ $# -gt 0 ]]; do
    case $1 in
    -np | -n) need_value "$@"; whole_number "$1" "$2" 1; np=$2; shift 2 ;;
    -hostfile | --hostfile) need_value "$@"; hosts+=(--hostfile "$2"); shift 2 ;;
    -H | --host) need_value "$@"; hosts+=(-H "$2"); shift 2 ;;
    --timeout-start) need_value "$@"; whole_number "$1" "$2" 0; timeout_start=$2; shift 2 ;;
    --grace) need_value "$@"; whole_number "$1" "$2" 0; grace=$2; shift 2 ;;
    --dry-run) dry_run=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) die 2 "unknown option '$1'; --help lists them (dptrain's own options follow its command, or --)" ;;
    *) break ;;
    esac
done

program=$(find_program)
# A bundle brings its own mpirun.
if [[ -x $here/../bin/orted ]]; then PATH=$(readlink -f "$here/../bin"):$PATH; fi
program_name=${program##*/}
mpi_allow_root
if [[ ${#hosts[@]} -gt 0 ]]; then
    mpi_flags 0
else
    [[ $np -gt 0 ]] || np=$(allowed_cores)
    mpi_flags "$np"
fi
# mpirun's forwarding is no terminal, so rank 0 is told that there is one at its end.
if [[ -t 1 ]]; then
    export DPTRAIN_PROGRESS="${DPTRAIN_PROGRESS:-1}" COLUMNS
    COLUMNS=$(stty size <&1 2>/dev/null | cut -d ' ' -f 2) || COLUMNS=80
    MPI_FLAGS+=(-x COLUMNS)
fi
for name in "${!DPTRAIN_@}"; do
    if [[ ${!name@a} == *x* ]]; then MPI_FLAGS+=(-x "$name"); fi
done
[[ $np -eq 0 ]] || MPI_FLAGS+=(-np "$np")
command=(mpirun "${MPI_FLAGS[@]}" "${hosts[@]}" "$program" "$@")
# What makes up for a lost rank.
restart='restart with --resume auto'
[[ ${1:-} != bench ]] || restart='start it again'
if [[ $dry_run == yes ]]; then
    printf '%q ' "${command[@]}"
    echo
    exit 0
fi
command -v mpirun >/dev/null || die 4 "mpirun was not found; scripts/install_deps.sh installs or lists what is missing"

work=$(mktemp -d "${TMPDIR:-/tmp}/dptrain-run.XXXXXX") || die 4 "cannot make a folder in ${TMPDIR:-/tmp}"
trap 'rm -rf "$work"' EXIT

# What rank 0 prints goes through here, so that its first byte shows that the job has started.
forward() {
    trap '' INT HUP TERM
    dd bs=1 count=1 of="$work/first" status=none
    if [[ -s $work/first ]]; then
        mv "$work/first" "$work/started"
        exec cat "$work/started" -
    fi
}

mpirun_pid='' stage=running why='''' deadline=0 n_signals=0
# Each step is harder than the one before; the deadline leads to the next.
harder() { # STAGE SECONDS
    stage=$1 deadline=$((SECONDS + $2))
    case $stage in
    asked) kill -USR1 "$mpirun_pid" ;;
    told) kill -TERM "$mpirun_pid" ;;
    killed) local_ranks && kill -KILL "$mpirun_pid" "${ranks[@]}" ;;
    esac 2>/dev/null || true
}

# shellcheck disable=SC2317 # the traps call it
on_signal() { # NAME
    n_signals=$((n_signals + 1))
    [[ $stage == running || $stage == asked ]] || return 0
    why="the job was stopped by SIG$1"
    if [[ $n_signals -eq 1 && -e $work/started ]]; then
        note "SIG$1: asking the job for a checkpoint and its end within $grace s; once more ends it at once"
        harder asked "$grace"
    else
        harder told 10
    fi
}

# Sets the array ranks: mpirun's children on this host that run the program; none where /proc does not tell.
local_ranks() {
    local pid pids name
    ranks=()
    read -ra pids <<<"$(cat "/proc/$mpirun_pid/task/"*/children 2>/dev/null)"
    for pid in "${pids[@]}"; do
        read -r name 2>/dev/null <"/proc/$pid/comm" || continue
        if [[ $name == "${program_name:0:15}" ]]; then ranks+=("$pid"); fi
    done
}

# Looks at the deadlines. With a host's link cut, mpirun can stay for minutes after its ranks have left.
had_ranks=no ranks_gone_at=''
check_deadlines() {
    if [[ $stage != running ]]; then
        if ((SECONDS < deadline)); then return; fi
        if [[ $stage == asked ]]; then harder told 10; else harder killed 600; fi
    elif [[ ! -e $work/started ]] && ((timeout_start > 0 && SECONDS >= timeout_start)); then
        why="the job printed nothing within $timeout_start s (--timeout-start)"
        harder told 10
    elif local_ranks && [[ ${#ranks[@]} -gt 0 ]]; then
        had_ranks=yes ranks_gone_at=''
    elif [[ $had_ranks == yes ]]; then
        ranks_gone_at=${ranks_gone_at:-$SECONDS}
        if ((SECONDS - ranks_gone_at >= 15)); then why="mpirun outlived its ranks" && harder told 10; fi
    fi
}

# Ends with the exit code for mpirun's, and one message where dptrain cannot have given one.
finish() { # CODE
    local code=$1
    if [[ $stage == told || $stage == killed || ($stage == asked && $code -gt 5) ]]; then
        die 5 "$why; $restart"
    fi
    if [[ ! -e $work/started ]] && ((code == 1 || code > 128)); then
        # -q silences mpirun's own reasons; so start again without it, only to look for the program.
        timeout 60 mpirun "${MPI_FLAGS[@]:1}" "${hosts[@]}" test -x "$program" >&2 ||
            die 4 "mpirun could not start $program on every host (its code was $code)"
    fi
    ((code > 5)) || exit "$code"
    if ((code > 128 && code < 193)); then
        die 5 "a rank was killed by signal $((code - 128)) (SIG$(kill -l $((code - 128)))); $restart"
    fi
    die 5 "mpirun ended with code $code, as when a host is lost; $restart"
}

mkfifo "$work/stdout"
forward <"$work/stdout" &
forward_pid=$!
trap 'on_signal TERM' TERM
trap 'on_signal INT' INT
trap 'on_signal HUP' HUP
# setsid: Ctrl-C reaches mpirun through on_signal only.
setsid "${command[@]}" </dev/null >"$work/stdout" &
mpirun_pid=$!
SECONDS=0 code=''
until [[ -n $code ]]; do
    sleep 1 &
    tick=$!
    status=0
    wait -n -p ended "$mpirun_pid" "$tick" || status=$?
    # A signal ends the wait too; `ended` is empty then.
    [[ ${ended:-} != "$mpirun_pid" ]] || code=$status
    # 127: the shell has already noted its end.
    if [[ -z ${ended:-} && $status -eq 127 ]]; then code=0 && wait "$mpirun_pid" || code=$?; fi
    [[ -n $code ]] || check_deadlines
    kill "$tick" 2>/dev/null || true
done
# The rest of the output; but a stray process that still holds the pipe must not keep us.
for ((i = 0; i < 250; i++)); do
    kill -0 "$forward_pid" 2>/dev/null || break
    sleep 0.02
done
{ kill -KILL "$forward_pid" && wait "$forward_pid"; } 2>/dev/null || true
finish "$code"
