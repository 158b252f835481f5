# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Runs the starts of a suite one after the other, into one recording. Sourced by regress.sh.
stopped='' worktree='' unfinished=''

# Arranges for cleanup at exit and on signals.
regress_begin() {
    make_work regress
    trap '((BASHPID != $$)) || regress_end' EXIT
    trap 'regress_signal INT' INT
    trap 'regress_signal TERM' TERM
    trap 'regress_signal HUP' HUP
}

regress_end() {
    [[ -z $unfinished ]] || rm -rf "$unfinished"
    revision_remove_tree
    rm -rf "$work"
}

# shellcheck disable=SC2317 # the traps call it
regress_signal() { # NAME
    stopped=SIG$1
    [[ -n $(jobs -pr) ]] || die 5 "stopped by $stopped"
    end_children
}

# Ends the children. run.sh stops its ranks itself; make leads a process group, because it leaves its compilers running.
end_children() {
    local pid
    for pid in $(jobs -pr); do
        kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null || true
    done
}

# Runs COMMAND as a child that signals can end; sets code.
await() { # COMMAND...
    local pid
    "$@" &
    pid=$!
    # A trapped signal ends the wait, not the child.
    while :; do
        code=0
        wait "$pid" || code=$?
        kill -0 "$pid" 2>/dev/null || break
    done
}

# Ends the script if FILE, whose name others may have taken, is not a regular file of this user or root.
own_want() { # FILE OPTION
    local code=0 said owner='' kind='' fault='' trial
    said=$(LC_ALL=C timeout -k 1 10 stat -c '%u %F' -- "$1" 2>/dev/null) || code=$?
    ((code != 1)) || return 0 # absent
    ((code == 0)) || die 4 "$1: its folder does not answer"
    read -r owner kind <<<"$said"
    if [[ $kind != regular* ]]; then
        fault="it is a $kind, not a regular file"
    elif [[ $owner != 0 && $owner != "$EUID" ]]; then
        # A server may give all files to one user.
        trial=$(timeout -k 1 10 mktemp "${1%/*}/.dptrain.XXXXXX" 2>/dev/null) || true
        [[ -n $trial && $(stat -c %u "$trial") == "$owner" ]] || fault="it belongs to user $owner"
        [[ -z $trial ]] || rm -f "$trial"
    fi
    [[ -z $fault ]] || die 3 "$1: $fault; remove it, or choose another $2"
}

# Allows one measurement at a time in a tree, because two would disturb each other. The lock ends with its holder.
regress_lock() {
    local status=0 holder
    own_want "$results/runs/.lock" --results
    if ! mkdir -p "$results/runs" || ! : >>"$results/runs/.lock"; then die 4 "cannot write into $results/runs"; fi
    exec {lock}<>"$results/runs/.lock"
    command -v flock >/dev/null || return 0
    flock --nonblock --conflict-exit-code 75 "$lock" || status=$?
    if ((status == 75)); then
        read -r holder <"$results/runs/.lock" || true
        die 4 "another regress.sh${holder:+ (process $holder)} measures into $results/runs; wait for its end"
    fi
    # Some network file systems do not support locks.
    ((status == 0)) || note "cannot lock $results/runs/.lock; make sure that no other regress.sh runs"
    echo "$(hostname):$$" >"$results/runs/.lock"
}

# Sets program; builds it if the tree has none.
regress_program() {
    if [[ -z ${DPTRAIN_BIN:-} && -n $root && ! -x $root/dptrain ]]; then
        note "building dptrain"
        revision_make "$root" "$work/make.log" || revision_make_failed "the tree" "$work/make.log"
    fi
    program=$(find_program) || exit
}

# Warns if the program and the tree differ in revision. Does not rebuild, because the program may have been built with other
# options.
warn_of_revision() {
    local is has
    [[ -n $root && $program == "$root/dptrain" ]] || return 0
    is=$("$program" --version) || die 4 "$program does not start"
    has=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null) || return 0
    [[ $is == *"($has"[,\)]* ]] || note "warning: measuring ${is%%,*}), but the tree is at $has; run make to build it"
}

suite_file='' suite_calls=() suite_must_decide=''

# Sets suite_file; '' if there is none of that name.
suite_find() { # NAME_OR_FILE
    suite_file=$here/regress/suites/$1.conf
    if [[ $1 == */* || $1 == *.conf ]]; then suite_file=$1; fi
    [[ -f $suite_file && -r $suite_file ]] || suite_file=''
}

# Sets suite_name and what the suite's file says.
suite_read() { # NAME_OR_FILE
    local there
    suite_find "$1"
    if [[ -z $suite_file ]]; then
        [[ ! -f $1 || ! -r $1 ]] || die 2 "unknown suite $1; to use the file, pass --suite ./$1"
        there=$(cd "$here/regress/suites" && echo *.conf)
        die 2 "unknown suite $1; the suites are ${there//.conf/}; or pass a file: --suite ./FILE.conf"
    fi
    suite_name=${suite_file##*/} suite_name=${suite_name%.conf}
    [[ $suite_name =~ ^[A-Za-z0-9_.]+$ ]] ||
        die 2 "$suite_file: a suite's name may only contain letters, digits, _ and ., because it is part of recordings' names"
    suite_parse
    ((${#suite_calls[@]} > 0)) || die 2 "$suite_file has no arguments for dptrain bench"
}

# Sets suite_calls, the arguments of each call of dptrain bench, and suite_must_decide, a list for report compare.
suite_parse() {
    local line words
    suite_calls=() suite_must_decide=''
    while IFS= read -r line || [[ -n $line ]]; do
        read -ra words <<<"${line%%#*}"
        line=${words[*]}
        [[ -n $line ]] || continue
        if [[ ${words[0]} == must-decide ]]; then
            read -ra words <<<"${line//,/ }"
            for line in "${words[@]:1}"; do suite_must_decide+=${suite_must_decide:+,}$line; done
            continue
        fi
        [[ " $line" != *" --out"[\ =]* ]] || die 2 "$suite_file: remove --out, which regress.sh sets"
        suite_calls+=("$line")
    done <"$suite_file"
}

# Computes the number of busy CPUs from two readings of the CPU lines of /proc/stat.
busy_cpus() {
    awk '$1 == "cpu" { all = -all; idle = -idle; for (i = 2; i <= 9; i++) all += $i; idle += $5 + $6; next }
        { cpus++ }
        END { printf "%.1f", (all > 0 ? (all - idle) / all * cpus / 2 : 0) }'
}

# Warns if this machine is in use. The load average may come from a run that has just ended, so if it is high, looks at CPUs.
warn_of_load() { # RANKS
    local load others=() stat pid name busy
    read -r load _ </proc/loadavg || return 0
    if awk -v average="$load" -v ranks="$1" 'BEGIN { exit !(average > ranks / 4) }'; then
        busy=$({ grep '^cpu' /proc/stat; sleep 1; grep '^cpu' /proc/stat; } | busy_cpus)
        awk -v busy="$busy" -v ranks="$1" 'BEGIN { exit !(busy > ranks / 4) }' &&
            note "warning: this machine is busy: $busy CPUs in use, load average $load; results will be uncertain"
    fi
    for stat in /proc/[0-9]*/comm; do
        pid=${stat#/proc/} pid=${pid%/comm}
        read -r name 2>/dev/null <"$stat" || continue
        [[ $name != dptrain ]] || others+=("$pid")
    done
    ((${#others[@]} == 0)) ||
        note "warning: dptrain is running on this machine (process ${others[*]}); results will be uncertain"
}

# Execs one call of dptrain bench through run.sh: records go to FILE, tables to LOG, everything else to LOG.err.
bench_call() { # PROGRAM FILE LOG WORDS...
    local program=$1 file=$2 log=$3 ranks=()
    shift 3
    ((np == 0)) || ranks=(-np "$np")
    # Revisions before --ci call it --precision.
    if [[ " $* " == *" --ci "* ]] && ! bench_knows --ci "$program"; then set -- "${@/#--ci/--precision}"; fi
    # Rank 0 may run in a different folder.
    [[ $file == /* ]] || file=$PWD/$file
    DPTRAIN_BIN=$program exec "$here/run.sh" --grace 10 "${ranks[@]}" "${launch[@]}" -- bench "$@" "--out=$file" \
        >"$log" 2>"$log.err"
}

# Sets call_words from a suite's line and the options.
bench_words() { # CALL [MORE...]
    read -ra call_words <<<"$1"
    call_words+=("${clock_words[@]}" "${bench_args[@]}" "${@:2}")
}

# Whether all of these programs support an option of dptrain bench.
bench_knows() { # OPTION PROGRAM...
    local program help
    for program in "${@:2}"; do
        # Old programs list every option without `all`.
        help=$({ "$program" bench --help; "$program" bench --help all; } 2>/dev/null) || true
        [[ $help == *"$1 "* ]] || return 1
    done
}

# Passes the best machine clock of earlier starts to the next one, so that it detects a machine that is slow from the beginning.
# Sets clock_words; for programs that support --clock.
clock_words=()
bench_clock() { # FILES...
    local best
    best=$(sed -nE 's/.*"clock_sec":([0-9.e+-]+)[,}].*/\1/p' "$@" |
        LC_ALL=C awk 'NR == 1 || $1 + 0 < best + 0 { best = $1 } END { print best }')
    [[ -z $best ]] || clock_words=(--clock "$best")
}

# Runs all calls of a start in order; sets code, that of the first failure.
bench_start() { # PROGRAM FILE [MORE...]
    local call
    : >"$work/log.err"
    for call in "${suite_calls[@]}"; do
        bench_words "$call" "${@:3}"
        await bench_call "$1" "$2" "$work/log.call" "${call_words[@]}"
        cat "$work/log.call.err" >>"$work/log.err"
        [[ -z $stopped && $code -eq 0 ]] || return 0
    done
}

# Called after each start: exits if it failed.
bench_judge() { # CODE WHAT LOG FILES...
    local file kept=()
    if [[ $1 -eq 0 && -z $stopped ]]; then
        [[ -s $4 ]] || die 4 "$4 was not written: rank 0 runs on another host, which does not share this folder"
        return 0
    fi
    progress_end
    [[ -n $stopped ]] || tail -n 20 "$3.err" >&2
    for file in "${@:4}"; do [[ ! -s $file ]] || kept+=("$file"); done
    ((${#kept[@]} == 0)) || note "kept the partial recording, which will not be compared: ${kept[*]}"
    [[ -z $stopped ]] || die 5 "stopped by $stopped in $2"
    die "$1" "$2 failed (code $1)"
}

# Prints a progress line; on a terminal, overwrites the previous one.
progress_show() { # DONE ALL WHAT
    local text="start $(($1 + 1)) of $2${3:+, $3}"
    (($1 == 0)) || text+=", $(((SECONDS * ($2 - $1) + $1 - 1) / $1)) s left"
    if [[ -t 2 ]]; then printf '\r\033[K%s: %s' "${0##*/}" "$text" >&2; else note "$text"; fi
}

progress_end() {
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
}

run_suite() {
    local i program counts partial clock=no
    suite_read "${suite:-standard}"
    ((starts > 0)) || starts=8
    regress_lock
    mpi_allow_root
    regress_program
    warn_of_revision
    if bench_knows --clock "$program"; then clock=yes; fi
    warn_of_load "$((np > 0 ? np : $(allowed_cores)))"
    recording=$results/runs/$(date +%Y%m%d-%H%M%S)-$(rec_program_git "$program")-$suite_name.jsonl
    partial=${recording%.jsonl}.partial.jsonl
    [[ ! -e $recording && ! -e $partial ]] || die 4 "$recording already exists"
    SECONDS=0
    for ((i = 0; i < starts; i++)); do
        progress_show "$i" "$starts" "$suite_name"
        bench_start "$program" "$partial"
        bench_judge "$code" "start $((i + 1)) of $starts" "$work/log" "$partial"
        if ((i == 0)); then warnings_of "$work/log"; fi
        if [[ $clock == yes ]]; then bench_clock "$partial"; fi
    done
    progress_end
    mv "$partial" "$recording" || die 4 "cannot rename $partial"
    rec_read "$recording"
    counts=$(rec_disturbed "$recording")
    echo "recording $recording"
    echo "  starts: $starts, points: ${counts#* of }, disturbed: ${counts% of *}; $SECONDS s"
    rec_want_complete "$recording"
    disturbed=no
    ! rec_is_disturbed "$counts" || disturbed=yes
    [[ $disturbed == no || $verb == run ]] || note "more than a third of the points are disturbed"
}

# A measured recording that says little ends `run` with the code that `accept` would have.
run_report() {
    [[ $disturbed == yes && $force == no ]] || return 0
    die 3 "more than a third of the points are disturbed by other load, so accept refuses $recording: run again on a \
quieter machine, or --force"
}

# Prints warnings of the first start only.
warnings_of() { # LOG
    local line
    while IFS= read -r line; do
        progress_end
        printf '%s\n' "$line" >&2
    done < <(grep 'warning:' -- "$1.err")
}

# Prints the revision in a program's --version.
rec_program_git() { # PROGRAM
    local said
    said=$("$1" --version) || die 4 "$1 does not start"
    said=$(sed -nE '1s/.*\(([^,)]*).*/\1/p' <<<"$said" | tr -c 'A-Za-z0-9_.\n-' _)
    echo "${said:-unknown}"
}
