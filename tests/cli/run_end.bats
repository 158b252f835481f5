#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# How run.sh watches a job and names its end: lost ranks, closed pipes, clocks that are set, full disks. mpirun is a fake that
# prints what OpenMPI prints, except where ranks really die.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    run_sh=$root/scripts/run.sh
    bin=$BATS_TEST_TMPDIR/bin
    real_path=$PATH
    mkdir "$bin"
    cd "$BATS_TEST_TMPDIR" || return
    export DPTRAIN_BIN=/bin/true PATH=$bin:$PATH DPTRAIN_BIND=none FLAG=$BATS_TEST_TMPDIR/flag
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset SLURM_JOB_NODELIST
    host=$(hostname)
}

stand_in() { # NAME, the body on stdin
    { printf '#!/usr/bin/env bash\nif [[ $1 == --version ]]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi\n'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# mpirun prints TEXT as OpenMPI does, and ends with CODE.
mpirun_says() { # CODE TEXT
    local rule
    rule=$(printf '%074d' 0 | tr 0 -)
    stand_in mpirun <<<"echo started; printf '%s\n' $rule $(printf %q "$2") $rule 'a line of a rank' >&2; exit $1"
}

ends_with() { # CODE WORDS
    run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq "$1" ]
    [[ "$output" == *"$2"* && "$output" == *"a line of a rank"* && "$output" != *------* ]]
    [ "$(grep -c '^run.sh:' <<<"$output")" -eq 1 ]
}

@test "every lost rank is named, with host and cause, from what mpirun prints" {
    mpirun_says 137 "mpirun noticed that process rank 3 with PID 77 on node far exited on signal 9 (Killed)."
    ends_with 5 "run.sh: error: rank 3 on far was killed by signal 9 (SIGKILL); the kernel does that when memory runs out (dmesg \
on far); restart with --resume auto"
    mpirun_says 139 "prterun noticed that process rank 0 with PID 5 on node near exited on
signal 11 (Segmentation fault)."
    ends_with 5 "error: rank 0 on near was killed by signal 11 (SIGSEGV); restart with"
    mpirun_says 1 "mpirun has exited due to process rank 1 with PID 0 on
node far exiting improperly. There are three reasons this could occur:"
    ends_with 5 "error: rank 1 on far ended without a word, with exit code 0; restart with"
    mpirun_says 7 "mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[5173,1],2]
  Exit code:    7"
    ends_with 5 "error: rank 2 on $host ended with exit code 7; restart with"
    mpirun_says 205 "ORTE has lost communication with a remote daemon.

  HNP daemon   : [[58888,0],0] on node near
  Remote daemon: [[58888,0],1] on node far

This is usually due to either a failure of the TCP network"
    ends_with 5 "error: lost the connection to mpirun's daemon on far: the host, its network or the daemon failed; restart with"
    # mpirun 5.0.7 may end with 0, unless the ranks' last words show that they had finished.
    mpirun_says 0 "PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-near-352@0,0] on node near
  Remote daemon: [prterun-near-352@0,1] on node far"
    ends_with 5 "error: lost the connection to mpirun's daemon on far: the host, its network or the daemon failed; restart with"
    sed -i 's/echo started/echo finished after 1 s/' "$bin/mpirun"
    run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq 0 ]
    # mpirun 5.0.7 itself may crash afterwards.
    mpirun_says 139 "prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-near-85@1,1]
   Exit code:    3"
    ends_with 3 "run.sh: rank 1 on $host ended with exit code 3"
    mpirun_says 139 "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[42645,1],1]
  Errorcode: 4"
    ends_with 4 "run.sh: rank 1 on $host ended with exit code 4"
    # Without such words nothing but mpirun itself is left.
    mpirun_says 137 "something else"
    ends_with 5 "error: mpirun was killed by signal 9 (SIGKILL); restart with"
    # It ends so after SIGTERM.
    mpirun_says 1 "something else"
    ends_with 5 "error: mpirun ended with exit code 1, and no rank did; a signal may have stopped it; restart with"
}

@test "MPI that does not start is code 4, with its words" {
    mpirun_says 1 "A requested component was not found, or was unable to be opened.  This
means that this component is either not installed or is unable to be used on your system
Component: bogus"
    ends_with 4 "error: MPI could not start; check --mca, --mpi-args and variables named OMPI_MCA_"
    [[ "$output" == *"Component: bogus"* && "$output" != *"restart with"* ]]
    stand_in mpirun <<<'echo "interrupted by SIGTERM"; echo "[vm:1] *** An error occurred in MPI_Init_thread" >&2; exit 1'
    run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq 4 ]
    # OpenMPI 5 has a code of the rank.
    rule=$(printf '%074d' 0 | tr 0 -)
    stand_in mpirun <<<"echo '*** An error occurred in MPI_Init_thread' >&2
        printf '%s\n' $rule 'Process name: [prterun-near-85@1,1] Exit code: 14' $rule >&2; exit 14"
    run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq 4 ]
    export PATH=$real_path DPTRAIN_BIN=$root/dptrain
    command -v mpirun >/dev/null || skip "mpirun is not here"
    run "$run_sh" -np 2 --mca btl bogus train --steps 1 --data digits --no-eval
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"MPI could not start"* ]]
}

@test "a rank that ends with an error and says nothing is named; one that spoke is not" {
    words="Process name: [[5173,1],2] Exit code: 4"
    mpirun_says 4 "$words"
    ends_with 4 "run.sh: rank 2 on $host ended with exit code 4"
    rule=$(printf '%074d' 0 | tr 0 -)
    stand_in mpirun <<<"echo started; printf '%s\n' 'dptrain: error: no data (rank 2)' $rule '$words' $rule >&2; exit 4"
    run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq 4 ]
    [ "$output" = $'started\ndptrain: error: no data (rank 2)' ] || [ "$output" = $'dptrain: error: no data (rank 2)\nstarted' ]
}

@test "a rank that leaves a running job is lost, and named with its last phase" {
    export PATH=$real_path
    command -v mpirun >/dev/null || skip "mpirun is not here"
    # As a library that calls _exit: the program has noted a phase, and MPI is not finalized.
    printf '%s\n' '#include <mpi.h>' '#include <stdio.h>' '#include <stdlib.h>' '#include <unistd.h>' '#include <fcntl.h>' \
        'int main(int n, char **words) { int rank; MPI_Init(&n, &words); MPI_Comm_rank(MPI_COMM_WORLD, &rank);' \
        'char path[200]; snprintf(path, sizeof path, "/dev/shm/dptrain-%s.%d", getenv("DPTRAIN_JOB"), rank);' \
        'int file = open(path, O_RDWR | O_CREAT, 0600); if (write(file, "computing step 41\0old", 21) < 0) return 3;' \
        'puts("on"); fflush(stdout); MPI_Barrier(MPI_COMM_WORLD); if (rank == 1) _exit(atoi(getenv("CODE"))); pause(); }' >leaves.c
    mpicc -o leaves leaves.c || skip "mpicc does not work here"
    for CODE in 0 1; do
        CODE=$CODE DPTRAIN_BIN=$PWD/leaves run timeout 60 "$run_sh" -np 2
        echo "$output"
        [ "$status" -eq 5 ]
        how=$([[ $CODE == 0 ]] && echo "without a word, with" || echo with)
        [[ "$output" == *"run.sh: error: rank 1 on $host ended $how exit code $CODE in \"computing step 41\"; restart"* ]]
        [[ "$output" != *-----* ]]
    done
}

@test "a job all of whose ranks are stopped ends with 5 after --timeout" {
    mkdir rank
    cp "$(command -v sleep)" rank/dptrain
    export DPTRAIN_BIN=$PWD/rank/dptrain
    stand_in mpirun <<<'rank/dptrain 60 & until [[ $(<"/proc/$!/comm") == dptrain ]]; do :; done; kill -STOP "$!"; echo started; wait'
    for words in "train --timeout 1" "bench comm --timeout=10e-1"; do
        # shellcheck disable=SC2086 # these are words
        run timeout 40 "$run_sh" -np 1 -- $words
        echo "$output"
        [ "$status" -eq 5 ]
        [[ "$output" == *"run.sh: error: no rank has run for 1 s (--timeout)"*SIGSTOP* ]]
    done
    # The program's own word counts.
    stand_in dptrain <<<'[[ " $* " != *" --print-config "* ]] || echo "timeout = 1"'
    DPTRAIN_BIN=$bin/dptrain run timeout 40 "$run_sh" -np 1 -- train --timeout 90
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"no rank has run for 1 s (--timeout)"* ]]
    # Of two ranks one runs.
    stand_in mpirun <<<'"$DPTRAIN_BIN" 60 & until [[ $(<"/proc/$!/comm") == dptrain ]]; do :; done; kill -STOP "$!"; echo started; "$DPTRAIN_BIN" 4; kill -KILL $!; exit 3'
    run timeout 40 "$run_sh" -np 1 -- train --timeout 1
    echo "$output"
    [ "$status" -eq 3 ]
}

@test "a stopped mpirun whose ranks have ended is killed, and named" {
    export DPTRAIN_BIN=/bin/sleep
    stand_in mpirun <<<'sleep 2.5 & echo started; kill -STOP $$; touch "$FLAG"'
    run timeout 60 "$run_sh" -np 1
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"run.sh: error: mpirun is stopped (SIGSTOP), and its ranks have ended; restart with"* ]]
    [ ! -e "$FLAG" ]
}

# The job's code and output while CLEANING runs beside it, in mpirun (before its output, after it) or all the time.
cleaned() { # BEFORE AFTER ALL-THE-TIME
    BEFORE=$1 AFTER=$2 stand_in mpirun <<<'eval "$BEFORE"; echo started; echo "a word" >&2; sleep 0.2; eval "$AFTER"; sleep "$LONG"
        if [[ -n ${WHAT:-} ]]; then printf "%s\n" "$RULE" "$WHAT" "$RULE" >&2; fi; echo goes on; exit "$CODE"'
    rm -f "$FLAG"
    (while [[ ! -e $FLAG ]]; do eval "$3"; sleep 0.01; done) 3>&- &
    local cleaner=$!
    BEFORE=$1 AFTER=$2 run --separate-stderr timeout 60 "$run_sh" -np 3 --timeout-start 1
    touch "$FLAG"
    wait "$cleaner"
    # shellcheck disable=SC2154 # bats sets it
    echo "$status: $output / $stderr"
    [ -z "$(ls "$TMPDIR")" ]
}

@test "a job goes on when its folder for temporary files is cleaned, and keeps its code and output" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp CODE RULE WHAT LONG
    bats_require_minimum_version 1.5.0
    mkdir "$TMPDIR"
    RULE=$(printf '%074d' 0 | tr 0 -)
    # Again if run.sh adds a file while rm is at it.
    local clean='rm -rf "$TMPDIR"/dptrain-run.* 2>/dev/null || rm -rf "$TMPDIR"/dptrain-run.*' words
    # The long one reaches --timeout-start.
    for words in "0|0|2|" "1|5|0.2|" "3|3|0.2|" "137|5|0.2|process rank 1 with PID 7 on node far exited on signal 9 (Killed)."; do
        IFS='|' read -r CODE code LONG WHAT <<<"$words"
        cleaned : : :
        [ "$status" -eq "$code" ]
        [[ "$output" == *started*"goes on"* && "$stderr" == *"a word"* && "$stderr" != *"printed nothing"* ]]
        expected="$status: $output / $stderr"
        for moment in "$clean : :" ": $clean :" "$clean $clean :" ": : $clean"; do
            read -r before after always <<<"${moment//"$clean"/clean}"
            cleaned "${before/clean/$clean}" "${after/clean/$clean}" "${always/clean/$clean}"
            [ "$status: $output / $stderr" = "$expected" ]
        done
    done
}

@test "ranks learn which signal the user sent, also if the folder for temporary files is cleaned" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp CLEAN
    mkdir "$TMPDIR"
    for CLEAN in : 'rm -r "$TMPDIR"/dptrain-run.*'; do
        stand_in mpirun <<<'trap "echo asked: \$(<\$DPTRAIN_ASKED); exit 0" USR1; eval "$CLEAN"; echo started
            for ((i = 0; i < 600; i++)); do sleep 0.1; done'
        rm -f log # the first job's word is not the second's
        "$run_sh" -np 1 >log 2>&1 3>&- &
        job=$!
        while ! grep -qs '^started' log; do sleep 0.05; done
        kill -TERM "$job"
        code=0
        wait "$job" || code=$?
        cat log
        [ "$code" -eq 143 ]
        grep -qx 'asked: SIGTERM' log
        [ -z "$(ls "$TMPDIR")" ]
    done
}

@test "a signal that comes when the run has finished: code 0" {
    stand_in mpirun <<<'trap "echo finished after 40 steps; exit 0" USR1; echo started; while :; do sleep 0.1; done'
    "$run_sh" -np 1 >log 2>&1 &
    job=$!
    # The job has started when its first words have passed run.sh.
    while ! grep -qs '^started' log; do sleep 0.05; done
    kill -TERM "$job"
    wait "$job"
    cat log
    [ "$(tail -n 1 log)" = "run.sh: SIGTERM: the run had finished" ]
    # To mpirun itself.
    stand_in mpirun <<<'echo started; echo finished after 40 steps; exit 1'
    run "$run_sh" -np 1
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "run.sh: mpirun ended with exit code 1 after the run had finished; a signal may have stopped it" ]
}

@test "a rank that no other host could name is named if it had to be killed" {
    stand_in mpirun <<<'for word; do [[ $word != DPTRAIN_JOB=* ]] || job=${word#*=}; done
        echo started; echo ending >"/dev/shm/dptrain-$job.2"; echo "dptrain: error: $WORDS (rank 1 on far)" >&2; exit 5'
    WORDS='timed out; check the other hosts' run "$run_sh" -np 4
    echo "$output"
    [ "$status" -eq 5 ]
    [ "${lines[-1]}" = "run.sh: rank 2 on $host had not ended; it was in \"ending\"" ]
    WORDS='timed out; rank 2 on near did not arrive' run "$run_sh" -np 4
    echo "$output"
    [[ "$output" != *"run.sh: rank"* ]]
}

# The job goes on to its end after the reader of its output has left; its last line reaches nobody.
closes() { # REDIRECTION OF STANDARD ERROR
    local code
    stand_in mpirun <<<'echo started; while [[ ! -e $FLAG ]]; do sleep 0.05; done
        for ((i = 0; i < 2000; i++)); do echo "line $i, long enough to fill what a pipe holds"; echo "err $i" >&2; done
        touch "$FLAG.end"; exit 3'
    rm -rf "$FLAG" "$FLAG.end" logs
    { code=0; eval 'timeout 60 "$run_sh" -np 1 --log-dir logs '"$1" || code=$?; echo "$code" >code; } |
        { read -r _; exec <&-; touch "$FLAG"; while [[ ! -e code ]]; do sleep 0.05; done; }
    echo "code $(<code)"
    [ "$(<code)" -eq 3 ]
    [ -e "$FLAG.end" ]
    cat logs/run.sh.log
    [ "$(grep -c "Z run.sh: the job's output cannot be written any more (Broken pipe); the job goes on" logs/run.sh.log)" -eq 1 ]
    rm code
}

@test "a closed pipe does not end the job: it runs on to its own code, and the log says so" {
    closes '2>errors'
    grep -q "the job's output cannot be written any more" errors
    closes '2>&1'
}

@test "closed streams start a job, and its output arrives on those that are open" {
    stand_in mpirun <<<'echo started; echo "a word" >&2; read -r line || echo "no input"; exit 3'
    for closed in '2>&-' '<&-' '<&- 2>&-'; do
        run timeout 60 bash -c '"$0" -np 1 '"$closed" "$run_sh"
        echo "$closed: $status: $output"
        [ "$status" -eq 3 ]
        [[ "$output" == *started*"no input"* ]]
        [[ $closed == *2* || "$output" == *"a word"* ]]
    done
    for closed in '>&-' '<&- >&-' '<&- >&- 2>&-'; do
        timeout 60 bash -c '"$0" -np 1 '"$closed" "$run_sh" 2>errors && code=0 || code=$?
        echo "$closed: $code: $(<errors)"
        [ "$code" -eq 3 ]
        [[ $closed == *2* || "$(<errors)" == *"a word"* ]]
    done
    sed -i 's/exit 3/exit 0/' "$bin/mpirun"
    run timeout 60 bash -c '"$0" -np 1 2>&-' "$run_sh"
    [ "$status" -eq 0 ]
    [[ "$output" == *started*"no input"* ]]
}

@test "while a job runs, the launcher has mpirun and a guard as children, and no helper that could end the job" {
    stand_in mpirun <<<'echo $$ >"$FLAG.new"; mv "$FLAG.new" "$FLAG"; echo started; while [[ ! -e $FLAG.end ]]; do sleep 0.05; done; exit 3'
    for words in "" "--log-dir logs" "--timeout-start 600 --grace 5"; do
        rm -f "$FLAG" "$FLAG.end" log
        # shellcheck disable=SC2086 # these are words
        "$run_sh" -np 1 $words >log 2>&1 3>&- &
        job=$!
        until grep -qs started log && [[ -e $FLAG ]]; do sleep 0.05; done
        ls /proc/$job/task/*/children || skip "this kernel does not list children"
        for ((i = 0; i < 15; i++)); do
            children=''
            # shellcheck disable=SC2013 # a line of words
            for pid in $(cat /proc/$job/task/*/children); do [[ $(<"/proc/$pid/comm") == dptrain-guard ]] || children+=$pid; done
            [ "$children" = "$(<"$FLAG")" ]
            sleep 0.1
        done
        # The guard only ends mpirun when the launcher is gone.
        pkill -KILL -P "$job" -x dptrain-guard
        sleep 0.2
        touch "$FLAG.end"
        code=0
        wait "$job" || code=$?
        cat log
        [ "$code" -eq 3 ]
    done
}

@test "SIGCHLD that is ignored, as some daemons leave it, does not take mpirun's exit code" {
    stand_in mpirun <<<'echo started; exit 3'
    run timeout -k 1 30 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' "$run_sh" -np 1
    echo "$output"
    [ "$status" -eq 3 ]
}

@test "standard error that nobody reads does not keep a signal from the job" {
    stand_in mpirun <<<'trap "touch \"$FLAG.asked\"; exit 0" USR1; echo started; yes error | head -c 300000 >&2 & while :; do sleep 0.05; done'
    mkfifo pipe
    # A reader that does not read.
    # shellcheck disable=SC2217 # it does not read
    sleep 120 <pipe 3>&- &
    reader=$!
    "$run_sh" -np 1 >log 2>pipe 3>&- &
    job=$!
    while ! grep -qs started log; do sleep 0.05; done
    sleep 0.5
    kill -TERM "$job"
    for ((i = 0; i < 400; i++)); do [[ ! -e $FLAG.asked ]] || break; sleep 0.05; done
    kill "$reader"
    code=0
    wait "$job" || code=$?
    [[ -e $FLAG.asked && $code -eq 143 ]]
}

@test "mpirun that cannot be executed is code 4, with the system's reason" {
    stand_in mpirun </dev/null
    printf 'BIG=%0200000d\n' 0 >big.env
    run "$run_sh" -np 1 --env-file big.env
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"error: "*mpirun*"Argument list too long"* ]]
}

@test "a guard that is stopped does not hold the launcher" {
    stand_in mpirun <<<'echo started; while [[ ! -e $FLAG.end ]]; do sleep 0.05; done; exit 3'
    timeout -k 1 60 "$run_sh" -np 1 >log 2>&1 3>&- &
    job=$!
    while ! grep -qs started log; do sleep 0.05; done
    for pid in $(pgrep -x dptrain-guard); do
        [[ $(ps -o ppid= -p "$(ps -o ppid= -p "$pid" | tr -d ' ')" | tr -d ' ') != "$job" ]] || kill -STOP "$pid"
    done
    touch "$FLAG.end"
    code=0
    wait "$job" || code=$?
    cat log
    [ "$code" -eq 3 ]
}

@test "output that another process has made non-blocking arrives whole" {
    stand_in mpirun <<<'yes output | head -c 500000; exit 0'
    run bash -c 'perl -e "use Fcntl; fcntl(STDOUT, F_SETFL, O_NONBLOCK | O_WRONLY); exec @ARGV" "$0" -np 1 | { sleep 1; wc -c; }' "$run_sh"
    echo "$output"
    [ "$output" = 500000 ]
}

@test "another user's folder of OpenMPI's sessions is not used: code 4" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    sessions=$TMPDIR/ompi.$(uname -n | cut -d . -f 1).$(id -u)
    stand_in mpirun <<<'touch "$FLAG"; echo started'
    mkdir -p elsewhere "$TMPDIR"
    # What is not a folder is not followed.
    ln -s ../elsewhere "$sessions"
    run "$run_sh" -np 1
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"$sessions "* && ! -e $FLAG && -z $(ls elsewhere) ]]
    rm "$sessions"
    [ "$(id -u)" -eq 0 ] || skip "only root can give a folder away"
    mkdir -m 777 "$sessions"
    chown 60000 "$sessions"
    run "$run_sh" -np 1
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"$sessions "*60000* && ! -e $FLAG && -z $(ls "$sessions") ]]
    # OpenMPI 5 has no such folder.
    sed -i 's/4\.1\.4/5.0.6/' "$bin/mpirun"
    run "$run_sh" -np 1
    [ "$status" -eq 0 ]
}

@test "deadlines do not depend on the clock" {
    cc -shared -fPIC -o jump.so "$root/tests/attack/wall_clock.c" || skip "cc does not work here"
    export DPTRAIN_CLOCK=$PWD/clock
    # An hour forward: the job is not too late.
    stand_in mpirun <<<'echo 3600 >"$DPTRAIN_CLOCK"; sleep 1.5; echo started; exit 3'
    LD_PRELOAD=$PWD/jump.so run "$run_sh" -np 1 --timeout-start 600
    echo "$output"
    [ "$status" -eq 3 ]
    # An hour back: the deadline still comes.
    rm "$DPTRAIN_CLOCK"
    stand_in mpirun <<<'trap "exit 1" TERM; echo -3600 >"$DPTRAIN_CLOCK"; while [[ ! -e $FLAG.end ]]; do sleep 0.1; done'
    LD_PRELOAD=$PWD/jump.so run timeout -k 1 60 "$run_sh" -np 1 --timeout-start 1
    touch "$FLAG.end"
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"printed nothing within 1 s"* ]]
}

@test "a full folder for temporary files: code 4, and nothing starts" {
    stand_in mpirun <<<'touch "$FLAG"'
    # A limit of files is no full disk.
    run bash -c 'ulimit -f 1000; exec "$0" -np 1' "$run_sh"
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"1024000 bytes (ulimit -f)"*"needs 4 MB"* && "$output" != *full* ]]
    [ ! -e "$FLAG" ]
    # Filled while the job runs: restarting would not help.
    [ "$(id -u)" -eq 0 ] || skip "only root can mount a small disk"
    mkdir small
    mount -t tmpfs -o size=8m tmpfs small 2>/dev/null || skip "mounts are not allowed here"
    rule=$(printf '%074d' 0 | tr 0 -)
    stand_in mpirun <<<"echo started; until grep -q started log; do sleep 0.05; done; head -c 9000000 /dev/zero >small/fill
        printf '%s\n' $rule 'process rank 0 with PID 7 on node far exited on signal 7 (Bus error).' $rule >&2; exit 135"
    code=0
    TMPDIR=$PWD/small timeout 60 "$run_sh" -np 1 >log 2>&1 || code=$?
    output=$(<log)
    # Full before the start.
    rm -f "$FLAG"
    stand_in mpirun <<<'touch "$FLAG"'
    TMPDIR=$PWD/small run "$run_sh" -np 1
    umount small
    echo "$status: $output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"$PWD/small is full, and mpirun needs 4 MB there: free some space, or set TMPDIR"* ]]
    [ ! -e "$FLAG" ]
    status=$code output=$(<log)
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"rank 0 on far was killed by signal 7 (SIGBUS); $PWD/small is full, which can end MPI"* ]]
}
