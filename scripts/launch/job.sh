# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Runs a job under mpirun or srun: output, deadlines, signals, exit code, cleanup. Sourced by run.sh, which sets command, work,
# program_name, job_words, grace, timeout_start, restart, advice, launcher, supervisor; after resume.sh.
mpirun_pid='' stage=running why='' stopped_by='' deadline=0 n_signals=0 signalled_at=0
# Names this job, over hosts and containers and however often it starts its ranks. Ranks have it as DPTRAIN_JOB and own the
# output folder under this name. No child of this shell but the ranks may have it (job_sweep).
unset DPTRAIN_JOB
read -r job_id 2>/dev/null </proc/sys/kernel/random/uuid || job_id=$RANDOM$RANDOM$RANDOM
printf -v job_id '%(%Y%m%dT%H%M%S)T-%s-%s' -1 $$ "${job_id%%-*}"

# Forwards the output of rank 0; its first bytes show that the job has started. Reads on if nobody reads its output any more:
# a closed pipe must not end the job. Nor must the loss of $work, so the first bytes go through descriptors: first and again.
job_forward() {
    local errors input both reader writer from to
    trap '' INT HUP TERM USR1 PIPE
    exec {errors}>>"$work/errors" {input}<&0
    dd bs=64K count=1 status=none >&"$first"
    [[ -s $work/first || ! -e $work/first ]] || return 0
    mv "$work/first" "$work/started" 2>/dev/null || true
    # No process substitution: it needs /proc. Nor a coprocess: bash forgets one that has ended at once. To open both ends of a fifo
    # waits for nobody; then each can be opened.
    if {
        mkfifo "$work/copy" "$work/whole" &&
            exec {both}<>"$work/copy" && exec {reader}<"$work/copy" && exec {writer}>"$work/copy" {both}>&- &&
            exec {both}<>"$work/whole" && exec {from}<"$work/whole" && exec {to}>"$work/whole" {both}>&-
    } 2>/dev/null; then
        # The last lines say where an interrupted run stands (resume.sh).
        { tail -c 16384 >"$work/last.part" && mv "$work/last.part" "$work/last"; } <&"$reader" {writer}>&- {from}<&- {to}>&- 2>/dev/null &
        { cat <&"$again" && exec cat <&"$input"; } >&"$to" {reader}<&- {writer}>&- {from}<&- {to}>&- 2>/dev/null &
        # It keeps the writer until it has opened its own.
        exec tee --output-error=warn "$work/copy" <&"$from" {reader}<&- {to}>&- 2>&"$errors"
    fi
    cat <&"$again" && exec cat 2>&"$errors"
}

# Whether the job has printed something. Remembered, since somebody may remove the file.
started=no
job_started() {
    if [[ -e $work/started || -s /dev/fd/$first ]]; then started=yes; fi
    [[ $started == yes ]]
}

# Goes on without what was in $work, if it was removed.
job_keep_work() {
    # Nothing is known of the ranks' last words.
    keep_work || : >"$work/spoke"
    [[ -z $supervisor ]] || own_folder "$supervisor" || supervisor=$work
}

# Notes once that an output is gone, such as a closed pipe.
output_gone=no
job_check_output() {
    local reason
    [[ $output_gone == no && -s $work/errors ]] || return 0
    output_gone=yes
    read -r reason <"$work/errors"
    note "the job's output cannot be written any more (${reason##*: }); the job goes on" 2>&"$err"
}

# Enters the next, harsher stage of stopping the job; its deadline leads to the one after.
job_press() { # STAGE SECONDS
    monotonic
    stage=$1 deadline=$((now + $2))
    case $stage in
    asked) kill -USR1 "$mpirun_pid" ;;
    told) kill -TERM "$mpirun_pid" ;;
    killed) job_local_ranks && job_session && kill -KILL "$mpirun_pid" "${ranks[@]}" "${session[@]}" ;;
    esac 2>/dev/null || true
}

# shellcheck disable=SC2317 # the traps call it
job_on_signal() { # NAME
    [[ $stage == running || $stage == asked ]] || return 0
    # Schedulers send SIGUSR1 to request a stop; it never ends the job at once.
    [[ $1 != USR1 || $stage == running ]] || return 0
    # One signal may come twice: to all processes of a service, and again from the supervisor.
    life_clock
    ((n_signals == 0 || centi - signalled_at > 20)) || return 0
    signalled_at=$centi
    [[ $1 == USR1 ]] || n_signals=$((n_signals + 1))
    why="the job was stopped by SIG$1"
    [[ $1 == USR1 ]] || stopped_by=$1
    if [[ $1 == USR1 ]] && ! job_started; then
        note "SIGUSR1: the job has not started yet; ending it" 2>&"$err"
        job_press told 10
    elif [[ $stage == running && $n_signals -le 1 ]] && job_started; then
        note "SIG$1: asking the job $asked_for; it has $grace s (a second signal ends it at once)" 2>&"$err"
        # For the ranks' words and records (stop_words): they get SIGUSR1.
        { echo "SIG$1" >"$work/asked"; } 2>/dev/null || true
        job_press asked "$grace"
    else
        job_press told 10
    fi
}

# Sets the array ranks: mpirun's children on this host that run the program; empty without /proc. Those that have ended stay
# as zombies if mpirun is stopped. Sets n_stopped: how many of them are stopped.
job_local_ranks() {
    local pid pids name fields
    ranks=() n_stopped=0
    read -ra pids <<<"$(cat "/proc/$mpirun_pid/task/"*/children 2>/dev/null)"
    for pid in "${pids[@]}"; do
        read -r name 2>/dev/null <"/proc/$pid/comm" || continue
        [[ $name == "${program_name:0:15}" ]] || continue
        process_stat "$pid" || continue
        ranks+=("$pid")
        [[ ${fields[0]} != T ]] || n_stopped=$((n_stopped + 1))
    done
}

# Sets the array session: the processes that mpirun started, including ssh, which would otherwise keep the output open.
job_session() {
    local pid fields
    session=()
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        if process_stat "$pid" && [[ ${fields[3]} == "$mpirun_pid" ]]; then session+=("$pid"); fi
    done
}

# Runs on the hosts: prints whether a process of the job is alive.
job_alive() { # JOB
    if grep -lszxF "DPTRAIN_JOB=$1" /proc/[0-9]*/environ | grep -q .; then echo alive; else echo none; fi
}

# If no rank is on this host, asks the other hosts from time to time whether they have one, and sets far_ranks. It is `no` if
# hosts answered and none has a rank, or if no host has answered several times.
far_ranks=yes far_asked='' far_pid='' far_silent=0
job_look_far() {
    if [[ -n $far_pid ]]; then
        if kill -0 "$far_pid" 2>/dev/null; then return; fi
        wait "$far_pid" 2>/dev/null || true
        far_pid='' far_asked=$now far_silent=$((far_silent + 1))
        if grep -qs . "$work"/far/*.out; then far_silent=0 far_ranks=no; fi
        if grep -qs alive "$work"/far/*.out; then far_ranks=yes; fi
        if ((far_silent > 3)); then far_ranks=no; fi
    elif ((now - far_asked >= 30)); then
        job_keep_work
        remote_script '' job_alive "$job_id" 2>/dev/null | hosts_ask "$work/far" 15 >/dev/null 2>&1 &
        far_pid=$!
    fi
}

job_has_ranks() {
    job_local_ranks
    [[ ${#ranks[@]} -eq 0 ]] || return 0
    [[ ${#host_name[@]} -gt 0 && " ${host_local[*]} " != *" yes "* && $launcher == mpirun ]] || return 1
    job_look_far
    [[ $far_ranks == yes ]]
}

# If all ranks are stopped, none is left to notice. Counts looks of about a second each, since this script may be stopped with them,
# as by scontrol suspend, and go on before them.
stopped_for=0
job_check_stopped() {
    if [[ $several == yes ]] || ((n_stopped == 0 || n_stopped < ${#ranks[@]})); then
        stopped_for=0
        return
    fi
    stopped_for=$((stopped_for + 1))
    [[ -n $super_timeout ]] || job_find_timeout
    ((stopped_for > super_timeout)) || return 0
    why="no rank has run for $super_timeout s (--timeout): all are stopped (SIGSTOP)"
    job_press killed 600
}

# Sets super_timeout to the ranks' --timeout, in seconds.
job_find_timeout() {
    local word last=''
    # That of train may be in a file.
    super_timeout=$(timeout 10 "$program" "${job_words[@]}" --print-config 2>/dev/null </dev/null | sed -n 's/^timeout = //p' | tail -n 1) || true
    for word in "${job_words[@]}"; do
        [[ $word != --timeout=* ]] || super_timeout=${word#*=}
        [[ $last != --timeout ]] || super_timeout=$word
        last=$word
    done
    super_timeout=${super_timeout%.*}
    number_or 300 super_timeout
}

# Checks the deadlines. If a host's link is cut, mpirun can outlive its ranks by minutes.
had_ranks=no ranks_gone_at='' most_ranks=0
job_check_deadlines() {
    local fields patience=15
    monotonic
    if [[ $stage != running ]]; then
        if ((now < deadline)); then return; fi
        if [[ $stage == asked ]]; then job_press told 10; else job_press killed 600; fi
    elif ! job_started && ((timeout_start > 0 && now - started_at >= timeout_start)); then
        why="the job printed nothing within $timeout_start s (--timeout-start)"
        job_press told 10
    elif job_has_ranks; then
        had_ranks=yes ranks_gone_at=''
        # mpirun speaks of a dead rank only after it has ended the others.
        if ((${#ranks[@]} < most_ranks)) && [[ ! -e $work/ends_at ]]; then life_clock && echo "$centi" >"$work/ends_at"; fi
        most_ranks=${#ranks[@]}
        job_check_stopped
    elif [[ $had_ranks == yes ]]; then
        ranks_gone_at=${ranks_gone_at:-$now}
        # Ranks have named a host that does not answer: mpirun will not end by itself.
        [[ ! -e $work/silent ]] || patience=3
        if ((now - ranks_gone_at >= patience)); then
            why="mpirun outlived its ranks"
            if process_stat "$mpirun_pid" && [[ ${fields[0]} == T ]]; then
                why="mpirun is stopped (SIGSTOP), and its ranks have ended"
                job_press killed 600
            # On several hosts it would wait for unreachable daemons, and then crash.
            elif [[ $several == yes ]]; then
                job_press killed 600
            else
                job_press told 10
            fi
        fi
    fi
}

# Runs on the hosts. Prints what names of the ranks' shared memory contain: in OpenMPI 4 the number after the daemons', in 5 a
# hash of the daemons' name.
job_hex() { # FAMILY
    local name=${1%@*} hash=0 i most=0xffffffff code
    if [[ $1 != *@* ]]; then
        printf %x $(($1 + 1))
        return
    fi
    for ((i = 0; i < ${#name}; i++)); do
        printf -v code %d "'${name:i:1}"
        hash=$(((hash + code) & most)) hash=$(((hash + (hash << 10)) & most)) hash=$((hash ^ (hash >> 6)))
    done
    hash=$(((hash + (hash << 3)) & most)) hash=$((hash ^ (hash >> 11))) hash=$(((hash + (hash << 15)) & most))
    printf %x $((((hash >> 16) ^ (hash & 0xffff)) << 16 | 1))
}

# Runs on the hosts. Removes the remains of the job: processes, OpenMPI's shared memory and session folders, found by this
# job's ids. Prints their number, after the last phases of killed ranks.
job_sweep_host() { # JOB FAMILY MPIRUN
    local job=$1 family=$2 mpirun=$3 n=0 files=0 pid hex daemon name path text number='' i alive killed=' '
    # Until they have ended, which takes a moment, killed processes hold memory, GPUs and ports.
    for ((i = 0; i < 30; i++)); do
        mapfile -t alive < <(grep -lszxF "DPTRAIN_JOB=$job" /proc/[0-9]*/environ)
        ((${#alive[@]} > 0)) || break
        for pid in "${alive[@]//[!0-9]/}"; do
            [[ $killed != *" $pid "* ]] || continue
            if kill -KILL "$pid" 2>/dev/null; then n=$((n + 1)); fi
            killed+="$pid "
        done
        sleep 0.1
    done
    # The last phases of ranks that were killed (base/deadline.h).
    for path in /dev/shm/dptrain-"$job".*; do
        [[ -f $path && -O $path && ! -L $path ]] || continue
        IFS= read -rd '' text <"$path" || true
        echo "phase ${path##*.} $text"
        rm -f "$path"
    done
    if [[ -n $family ]]; then
        hex=$(job_hex "$family")
        [[ $family == *@* ]] || number=$((family >> 16))
        while read -r daemon; do
            pid=${daemon#/proc/} pid=${pid%/cmdline}
            read -r name <"/proc/$pid/comm" || continue
            if [[ $name == @(orted|prted) ]] && kill -KILL "$pid" 2>/dev/null; then n=$((n + 1)); fi
        done < <(grep -lszxF "$family" /proc/[0-9]*/cmdline)
        for path in /dev/shm/*."$hex".* "${TMPDIR:-/tmp}"/ompi.*."$(id -u)"/{jf."$number",pid."$mpirun"} \
            "${TMPDIR:-/tmp}"/prte*/pmix.*.tool."$family"; do
            [[ $path != */pmix.* ]] || path=${path%/*}
            if [[ -O $path && ! -L $path ]] && rm -rf "$path"; then files=$((files + 1)); fi
        done
    fi 2>/dev/null
    ((n + files == 0)) || echo "swept $n processes, $files files and folders"
}

# Sets phases: lines "phase RANK TEXT" of killed ranks; unreached: hosts; and tmp_full.
swept=no tmp_full=no phases='' unreached=()
job_sweep() {
    local family='' uri i said code sweep=$work/sweep
    [[ $swept == no ]] || return 0
    swept=yes
    read -r uri 2>/dev/null <"$work/uri" || true
    # The daemons' number or, in OpenMPI 5, name.
    if [[ ${uri:-} =~ ^([0-9]{1,15}|[A-Za-z0-9._-]+@0)\.0\; ]]; then family=${BASH_REMATCH[1]}; fi
    if [[ ${#host_name[@]} -eq 0 ]]; then
        host_name=("$(hostname)") host_local=(yes)
    elif [[ " ${host_local[*]} " != *" yes "* ]]; then
        host_name+=("this host") host_local+=(yes)
    fi
    # This has a deadline, and no signal is needed any more.
    trap '' TERM INT HUP USR1
    job_note_silent
    if ! work_has_space; then
        tmp_full=yes
        sweep=$(mktemp -d /dev/shm/dptrain-run.XXXXXX) || return 0
    fi
    remote_script '' "job_sweep_host job_hex" "$job_id" "$family" "$mpirun_pid" | hosts_ask "$sweep" 15 2>/dev/null
    phases=$(cat "$sweep"/*.out | grep -aE '^phase (0|[1-9][0-9]{0,8}) ') || true
    for i in "${!host_name[@]}"; do
        read -r code <"$sweep/$i.code"
        said=$(tail -n 1 "$sweep/$i.out")
        if [[ $said == swept* ]]; then note "${host_name[i]}: ${said/swept/cleaned up after the job:}"; fi
        ((code == 124 || code == 255)) || continue
        unreached+=("${host_name[i]}")
        if [[ -n $supervisor ]]; then
            echo "${host_name[i]}" >>"$supervisor/suspects"
            [[ -z $family ]] || echo "$family $mpirun_pid ${host_name[i]}" >>"$supervisor/families"
            continue
        fi
        note "${host_name[i]} could not be reached; files of the job may remain in its /dev/shm and /tmp"
    done
    [[ $tmp_full == no ]] || rm -rf "$sweep"
}

# Gives hosts less time to answer that have not answered the ranks or mpirun. A supervisor asks them again.
job_note_silent() {
    local i
    [[ $lost != host ]] || echo "$lost_host" >>"$work/silent"
    host_patience=()
    for i in "${!host_name[@]}"; do
        ! hosts_listed "$i" "$work/silent" || host_patience[i]=$([[ -n $supervisor ]] && echo 0 || echo 4)
    done
}

# Names the ranks that did not end by themselves, if a rank of another host could not.
job_name_ranks() {
    local rank text
    [[ -e $work/elsewhere ]] || return 0
    while read -r _ rank text; do
        [[ -z $rank ]] || note "rank $rank on $(said_host "$rank") had not ended; it was in \"$text\""
    done <<<"$phases"
}

# As die, after cleaning up, which also collects the last phases. Without a message, said_describe has it.
job_die() { # CODE [MESSAGE]
    local code=$1 message
    job_sweep
    message=${2:-$(said_describe)}
    # Where mpirun did not name the host itself.
    if [[ -z $lost && ${#unreached[@]} -gt 0 && ${#unreached[@]} -lt ${#host_name[@]} ]]; then
        message="${message%"$advice"}; no answer from ${unreached[*]}"
    fi
    if [[ $tmp_full == yes ]]; then
        code=4 message="${message%"$advice"}; ${TMPDIR:-/tmp} is full, which can end MPI: free some space, or set TMPDIR"
    fi
    said_tell "${message%"$advice"}"
    if [[ $code -eq 5 ]]; then message="${message%"$advice"}$advice"; fi
    (die "$code" "$message") || true
    exit "$code"
}

# Exits with the code for mpirun's, and with a message if dptrain cannot have printed one.
job_finish() { # CODE
    local code=$1 flags=() flag
    job_keep_work
    said_read "$code"
    # mpirun 5.0.7 may end with a segmentation fault after it has said this.
    if [[ $lost == code ]] && ((code > 6 && lost_code >= 1 && lost_code <= 6)); then code=$lost_code; fi
    if [[ -n $stopped_by ]] && resume_is_due "$code"; then resume_finish "$code"; fi
    if [[ $stage == told || $stage == killed || ($stage == asked && $code -gt 6) ]]; then
        job_die 5 "$why"
    fi
    # A daemon's code differs from the one that mpirun noticed.
    if [[ $lost == signal || $lost == left ]]; then job_die 5; fi
    # mpirun 5.0.7 may end with 0 after it has lost a host in mid-job.
    if [[ $lost == host && ($code -eq 0 || ! -e $work/spoke) ]] && ! resume_finished; then job_die 5; fi
    if ! job_started && [[ $launcher == mpirun && -z $lost ]] && ((code == 1 || code > 128)); then
        work_has_space || job_die 4 "the job did not start"
        # A supervisor leaves out a host that was lost while the job started.
        if [[ -n $supervisor ]]; then job_sweep; fi
        ((${#unreached[@]} == 0)) || job_die 5 "the job did not start"
        # -q silences mpirun's errors, so start again without it, only to look for the program.
        for flag in "${MPI_FLAGS[@]}"; do [[ $flag == -q ]] || flags+=("$flag"); done
        timeout 60 mpirun "${flags[@]}" "${try[@]}" test -x "$program" >&2 ||
            job_die 4 "mpirun could not start $program on every host (exit code $code)"
    fi
    if ((code == 5)); then
        job_sweep
        job_name_ranks
    fi
    # In a job that goes on, a host may have been lost at that moment.
    if [[ $code -gt 0 && $launcher == mpirun && $lost != host && ! -e $work/spoke ]] &&
        ((super_number <= 1)) && said_no_mpi "$code"; then
        head -n 40 "$work/said" 2>/dev/null | plain_lines >&2 || true
        job_die 4 "MPI could not start; check --mca, --mpi-args and variables named OMPI_MCA_"
    fi
    # Of a rank's code mpirun would have spoken: this one is its own.
    if [[ $code -eq 1 && $launcher == mpirun && -z $lost && ! -e $work/spoke ]] && ! grep -qs non-zero "$work/said" &&
        ! resume_finished; then
        job_die 5 "mpirun ended with exit code 1, and no rank did; a signal may have stopped it"
    fi
    if ((code <= 6)); then
        if [[ $lost == code && ! -e $work/spoke ]] && ((code >= 1 && code == lost_code)); then
            job_sweep
            # A rank that ends through main leaves no last phase.
            if grep -q "^phase $lost_rank " <<<"$phases"; then job_die 5; fi
            # Its last words may be lost, or there were none.
            note "$(said_describe)"
        elif [[ $code -eq 1 && ! -e $work/spoke ]] && resume_finished; then
            note "$launcher ended with exit code 1 after the run had finished; a signal may have stopped it"
        fi
        said_tell
        exit "$code"
    fi
    [[ -z $lost ]] || job_die 5
    if ((code > 128 && code < 193)); then
        # On a full disk said_forward could not keep what mpirun said of a rank.
        work_has_space || job_die 5 "the job was killed by signal $((code - 128)) (SIG$(kill -l $((code - 128))))"
        job_die 5 "$launcher was killed by signal $((code - 128)) (SIG$(kill -l $((code - 128))))"
    fi
    job_die 5 "$launcher ended with code $code, which usually means that a host is lost"
}

# Sets the array lifeline, a prefix of a command: the kernel sends it the signal when this shell dies, however it dies, so that
# no job goes on without run.sh.
job_lifeline() { # SIGNAL
    lifeline=(setpriv --pdeathsig "$1")
    "${lifeline[@]}" true 2>/dev/null || lifeline=()
}

# Waits for a child for at most SEC, or until a signal. Sets code if it has ended; else empty.
job_wait() { # PID SEC
    local tick status=0 ended=''
    code=''
    sleep "$2" &
    tick=$!
    # wait -n does not return for a child that the shell has reaped already, as while a trap or another command ran. Hide the
    # shell's message about a killed child.
    { ! kill -0 "$1" || wait -n -p ended "$1" "$tick"; } 2>/dev/null || status=$?
    # A signal ends the wait too, with `ended` empty.
    [[ ${ended:-} != "$1" ]] || code=$status
    # The shell keeps the code of a reaped child for a plain wait.
    if [[ -z $code ]] && ! kill -0 "$1" 2>/dev/null; then
        code=0
        wait "$1" 2>/dev/null || code=$?
    fi
    kill "$tick" 2>/dev/null || true
}

job_run() {
    local code='' forward_pid said_pid i lifeline
    job_lifeline TERM
    # Traps write to err, because stderr may be redirected when they run.
    exec {err}>&2
    mkfifo "$work/stdout" "$work/stderr"
    exec {first}<>"$work/first"
    exec {again}<"$work/first"
    job_forward <"$work/stdout" {err}>&- &
    forward_pid=$!
    exec {again}<&-
    said_forward <"$work/stderr" >&2 {err}>&- {first}>&- &
    said_pid=$!
    # mpirun's messages name lost ranks; said_forward keeps them from the user.
    [[ ${command[1]:-} != -q ]] || command=(mpirun "${command[@]:2}")
    # setsid: Ctrl-C reaches mpirun through job_on_signal only.
    setsid "${lifeline[@]}" "${command[@]}" </dev/null >"$work/stdout" 2>"$work/stderr" {err}>&- {first}>&- &
    mpirun_pid=$!
    trap 'job_on_signal TERM' TERM
    trap 'job_on_signal INT' INT
    trap 'job_on_signal HUP' HUP
    trap 'job_on_signal USR1' USR1
    [[ -z $supervisor ]] || : >"$supervisor/ranks"
    monotonic
    started_at=$now far_asked=$now
    until [[ -n $code ]]; do
        job_wait "$mpirun_pid" 1
        job_check_output
        [[ -n $code ]] || job_check_deadlines
    done
    # Wait for the rest of the output, but not forever: a stray process may hold the pipe open.
    for ((i = 0; i < 1000; i++)); do
        kill -0 "$forward_pid" 2>/dev/null || kill -0 "$said_pid" 2>/dev/null || break
        sleep 0.02
    done
    { kill -KILL "$forward_pid" "$said_pid"; wait "$forward_pid" "$said_pid"; } 2>/dev/null || true
    # The last lines are written by a child of job_forward's.
    for ((i = 0; i < 1000; i++)); do
        [[ -e $work/started && ! -e $work/last ]] || break
        sleep 0.02
    done
    job_check_output
    job_finish "$code"
}
