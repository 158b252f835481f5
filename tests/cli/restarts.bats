#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run.sh --restarts: which ends start the job again, with which arguments, on which hosts, and its record. mpirun, ssh and
# dptrain are fakes, except in the last test; tests/cluster/restarts.bats has real hosts.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    run_sh=$root/scripts/run.sh
    bin=$BATS_TEST_TMPDIR/bin
    real_path=$PATH
    export HOSTS=$BATS_TEST_TMPDIR/hosts HOME=$BATS_TEST_TMPDIR/home OUT=$BATS_TEST_TMPDIR/out
    mkdir "$bin" "$HOSTS" "$HOME"
    cd "$BATS_TEST_TMPDIR" || return
    # The training's options, and a check, which fails on a host with a file `bad`.
    stand_in dptrain <<<'case " $* " in
        *" --print-config "*) printf "%s\n" "model = mlp" "resume = none" "overwrite = ${OVERWRITE:-false}" "out = $OUT" ${CONFIG:-}; exit ;;
        *" check "*) while [[ $1 != --json ]]; do shift; done
            [[ -e $HOSTS/${FAKE_HOST:-none}/bad ]] || exit 0
            echo "{\"check\":\"gpu\",\"name\":\"GPUs\",\"status\":\"fail\",\"found\":\"GPU 1 fell off the bus\"}" >"$2"; exit 1 ;;
        esac'
    stand_in ssh <<<'host=${*: -2:1}
        [[ -d $HOSTS/$host && ! -e $HOSTS/$host/down ]] || { echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; }
        export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        eval "${!#}"'
    stand_in ip <<<'cat "$HOSTS/${FAKE_HOST:-none}/addr" 2>/dev/null'
    stand_in orted </dev/null
    stand_in hostname <<<'echo "${FAKE_HOST:-head}"'
    # mpirun number N runs the N-th of the lines in $PLAN.
    export PLAN=$BATS_TEST_TMPDIR/plan COUNT=$BATS_TEST_TMPDIR/count
    stand_in mpirun <<<'if [[ $1 == --version ]]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi
        echo "${*//[[:cntrl:]]/ }" >>"$HOSTS/mpirun.words"; n=$(wc -l <"$HOSTS/mpirun.words"); echo started
        checkpoint() { : >"$OUT/ckpt-$(printf %012d "$1").h5"; }
        records() { local s; echo "{\"record\":\"run\",\"first_step\":$1,\"resumed_from\":null}" >>"$OUT/metrics.jsonl"
            for ((s = $1; s < $2; s++)); do echo "{\"record\":\"step\",\"step\":$s,\"step_sec\":0.001}"; done >>"$OUT/metrics.jsonl"; }
        eval "$(sed -n "${n}p" "$PLAN")"'
    export DPTRAIN_BIN=$bin/dptrain PATH=$bin:$PATH DPTRAIN_BIND=none DPTRAIN_ASK_SECONDS=10
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset NCCL_SOCKET_IFNAME NCCL_NET SLURM_JOB_NODELIST
}

stand_in() { # NAME, the body on stdin
    { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

host() { # NAME ADDRESS
    mkdir -p "$HOSTS/$1/sys/class/net"
    printf '2: eth0    inet %s/24 brd + scope global eth0\n' "$2" >"$HOSTS/$1/addr"
}

plan() { printf '%s\n' "$@" >"$PLAN"; } # LINE...

supervised() { # ARGUMENTS...
    rm -f "$HOSTS/mpirun.words"
    run timeout -k 1 60 "$run_sh" "$@"
    echo "$status: $output"
}

starts() { wc -l <"$HOSTS/mpirun.words"; }

words() { sed -n "${1}p" "$HOSTS/mpirun.words"; } # NUMBER OF THE START

life() { jq -r "select(.record == \"job_$1\") | $2" "$OUT/job.jsonl"; } # RECORD JQ

wait_for() { # COMMAND...
    local i
    for ((i = 0; i < 1200; i++)); do
        ! "$@" || return 0
        sleep 0.05
    done
    return 1
}

@test "only code 5 starts the job again; every other code is the job's" {
    for code in 0 1 4; do
        rm -rf "$OUT"
        plan "[[ $code == 0 ]] || echo 'dptrain: error: it failed' >&2; exit $code"
        supervised -np 2 --restarts 3 -- train
        [ "$status" -eq "$code" ]
        [ "$(starts)" -eq 1 ]
    done
    # A job that never trained leaves no folder behind.
    plan 'exit 4'
    rm -rf "$OUT"
    supervised -np 2 --restarts 3 -- train
    [ ! -e "$OUT" ]
    plan 'records 0 30; checkpoint 20; exit 5' 'records 20 40; sleep 0.5; exit 0'
    supervised -np 2 --restarts 1 -- train --model mlp --resume=none --overwrite
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
    [[ "$(words 1)" == *"train --model mlp --resume=none --overwrite" ]]
    [[ "$(words 2)" == *"-np 2 $bin/dptrain train --model mlp --resume auto" ]]
    [[ "$output" == *"starting again, from the checkpoint of step 20; restart 1 of 1 without a new checkpoint"* ]]
    [[ "$output" == *"1 restart, 10 steps computed again; goodput "* ]]
}

@test "the record of the job's life" {
    host=$(uname -n)
    rule=$(printf '%074d' 0 | tr 0 -)
    plan "records 0 30; checkpoint 20; printf '%s\n' $rule 'process rank 1 with PID 7 on node far exited on signal 9 (Killed).' $rule >&2; exit 137" \
        'records 20 40; sleep 0.5; exit 0'
    supervised -np 2 --restarts 5 -- train
    [ "$status" -eq 0 ]
    cat "$OUT/job.jsonl"
    [ "$(jq -r .record "$OUT/job.jsonl" | tr '\n' ' ')" = \
        "job_start job_ranks job_training job_fault job_ranks job_training job_end " ]
    "$root/dptrain" report --check "$OUT/job.jsonl"
    "$root/dptrain" report --strict "$OUT/job.jsonl"
    [ "$(life start '[.schema, .restarts, .command[-2:][]] | @tsv')" = "1	5	--	train" ]
    [ "$(life ranks '[.start, .ranks, .hosts[0]] | @tsv')" = $'1\t2\t'"$host"$'\n2\t2\t'"$host" ]
    [ "$(life fault '[.code, .host, .rank, .steps] | @tsv')" = $'5\tfar\t1\t30' ]
    [[ "$(life fault .what)" == "rank 1 on far was killed by signal 9 (SIGKILL);"* ]]
    [ "$(life training '[.start, .first_step, .steps_lost] | @tsv')" = $'1\t0\t\n2\t20\t10' ]
    [ "$(life training '.fault_to_step_sec > 0' | tail -n 1)" = true ]
    [ "$(life end '[.code, .reason, .restarts, .useful_steps, .lost_steps] | @tsv')" = $'0\tfinished\t1\t40\t10' ]
    [ "$(life end '.goodput > 0 and .goodput < 1')" = true ]
}

@test "a record that a full disk has torn counts for nothing" {
    mkdir -p "$OUT"
    printf '{"record":"step","step":7,"ste' >"$OUT/metrics.jsonl"
    # As a run does that finds it.
    cut='sed -i "\$d" "$OUT/metrics.jsonl"'
    plan "$cut; records 0 30; checkpoint 20; printf '{\"record\":\"step\",\"step\":30,\"ste' >>\"\$OUT/metrics.jsonl\"; sleep 0.5; exit 5" \
        "sleep 0.7; $cut; records 20 40; sleep 0.7; exit 0"
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(life training '[.first_step, .steps_lost] | @tsv' | tail -n 1)" = $'20\t10' ]
    [ "$(life end '[.useful_steps, .lost_steps, .lost_sec] | @tsv')" = $'40\t10\t0.01' ]
}

@test "restarts without a new checkpoint in between end the job; progress earns them back" {
    plan 'exit 5' 'exit 5' 'exit 5'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 5 ]
    [ "$(starts)" -eq 2 ]
    [[ "$output" == *"error: 1 restart without a new checkpoint in between (--restarts); the last fault: "* ]]
    [[ "$output" == *"starting again, from the newest checkpoint in $OUT, if there is one; restart 1 of 1"* ]]
    [ "$(life end .reason)" = "1 restart without a new checkpoint in between" ]
    plan 'checkpoint 10; exit 5' 'checkpoint 20; exit 5' 'checkpoint 30; exit 5' 'exit 5' 'exit 5'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 5 ]
    [ "$(starts)" -eq 4 ]
    plan 'exit 5'
    supervised -np 2 --restarts 0 -- train
    [ "$status" -eq 5 ]
    [ "$(starts)" -eq 1 ]
}

# Starts a supervised job in the background, which stays up to the signal. Sets job.
background() { # ARGUMENTS...
    rm -f "$HOSTS/mpirun.words" log
    env --default-signal=INT "$run_sh" "$@" >log 2>&1 3>&- &
    job=$!
}

ended() { # sets code
    code=0
    wait "$job" || code=$?
    cat log
}

# SIGUSR1 asks the job for a checkpoint also when CLEANING has removed files of the launcher.
asks_for_checkpoint() { # CLEANING
    plan 'trap "echo checkpoint; exit 0" USR1; trap "exit 1" TERM; '"$1"'; touch "$HOSTS/up"; while :; do sleep 0.05; done'
    background -np 2 --restarts 3 -- train
    wait_for grep -q '^started' log
    wait_for test -e "$HOSTS/up"
    kill -USR1 "$job"
    ended
    [ "$code" -eq 0 ]
    grep -q '^checkpoint$' log
}

@test "a job whose only rank is stopped starts again after --timeout" {
    mkdir "$HOSTS/rank"
    cp "$(command -v sleep)" "$HOSTS/rank/dptrain"
    plan '"$HOSTS/rank/dptrain" 60 & until [[ $(<"/proc/$!/comm") == dptrain ]]; do :; done; kill -STOP "$!"; wait' 'exit 0'
    stand_in dptrain <<<'[[ " $* " != *" --print-config "* ]] || printf "%s\n" "model = mlp" "resume = none" "out = $OUT" "timeout = 1"'
    supervised -np 1 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
    [[ "$output" == *"run.sh: error: no rank has run for 1 s (--timeout): all are stopped (SIGSTOP)"* ]]
}

@test "a signal ends the job once, and nothing is started again" {
    waits='trap "echo checkpoint; exit 0" USR1; trap "exit 1" TERM; touch "$HOSTS/up"; while :; do sleep 0.05; done'
    for signal in INT TERM USR1; do
        rm -rf "$OUT" "$HOSTS/up"
        plan "$waits"
        background -np 2 --restarts 3 -- train
        wait_for grep -q '^started' log
        wait_for test -e "$HOSTS/up"
        kill "-$signal" "$job"
        ended
        [ "$code" -eq "$([[ $signal == USR1 ]] && echo 0 || echo $((128 + $(kill -l $signal))))" ]
        [ "$(starts)" -eq 1 ]
        [ "$(grep -c 'asking the job for a checkpoint' log)" -eq 1 ]
        grep -q '^checkpoint$' log
        [ "$(life end .reason)" = "stopped by SIG$signal" ]
        # The command that continues is the supervised one.
        [[ $signal == USR1 ]] || grep -q -- "continue with: .*--restarts 3\|restart with --resume auto" log
    done
}

@test "a signal between two starts ends the job" {
    plan 'exit 5' 'exit 5' 'exit 5'
    background -np 2 --restarts 5 -- train
    # The second restart waits a while.
    wait_for grep -q 'starting again in 4 s' log
    kill -TERM "$job"
    ended
    [ "$code" -eq 143 ]
    [ "$(starts)" -eq 2 ]
    grep -q 'stopped by SIGTERM (exit code 143)' log
    grep -q -- 'continue with: .*run.sh -np 2 --restarts 5 -- train' log
}

@test "a signal while a fault is being ended: nothing is started again" {
    # A job that says nothing is told to end, and takes its time.
    stand_in mpirun <<<'[[ $1 != --version ]] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
        echo start >>"$HOSTS/mpirun.words"
        trap "touch \"\$HOSTS/told\"; until [[ -e \$HOSTS/go ]]; do sleep 0.05; done; exit 1" TERM; while :; do sleep 0.05; done'
    background -np 2 --restarts 3 --timeout-start 1 -- train
    wait_for test -e "$HOSTS/told"
    kill -TERM "$job"
    touch "$HOSTS/go"
    ended
    [ "$code" -eq 143 ]
    [ "$(starts)" -eq 1 ]
    grep -q -- 'continue with: .*--restarts 3' log
    [ "$(life end .reason)" = "stopped by SIGTERM" ]
    # A host is slow to say what is left there.
    three_hosts
    stand_in mpirun <<<'[[ $1 != --version ]] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
        echo start >>"$HOSTS/mpirun.words"; echo started; exit 5'
    stand_in ssh <<<'host=${*: -2:1}; export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        script=$(cat; echo x)
        [[ $host != n2 ]] || ! grep -q "^sweep " <<<"$script" || { touch "$HOSTS/asked"; until [[ -e $HOSTS/done ]]; do sleep 0.05; done; }
        bash -s <<<"${script%x}"'
    rm -rf "$OUT"
    background -H n1:1,n2:1 --restarts 3 -- train
    wait_for test -e "$HOSTS/asked"
    kill -INT "$job"
    touch "$HOSTS/done"
    ended
    [ "$code" -eq 130 ]
    [ "$(starts)" -eq 1 ]
    [ "$(life end .reason)" = "stopped by SIGINT" ]
}

@test "before the first start the program is asked for its options: a signal ends that, and a program that hangs is named" {
    plan 'exit 0'
    stand_in dptrain <<<'touch "$HOSTS/asked"; [[ -z ${DPTRAIN_MONOTONIC:-} ]] || echo 300 >"$DPTRAIN_MONOTONIC"; exec sleep 300'
    background -np 2 --restarts 3 -- train
    wait_for test -e "$HOSTS/asked"
    kill -INT "$job"
    ended
    [ "$code" -eq 130 ]
    grep -q -- 'continue with: .*run.sh -np 2 --restarts 3 -- train' log
    [[ ! -e $OUT && ! -e $HOSTS/mpirun.words ]]
    cc -shared -fPIC -o clock.so "$root/tests/attack/wall_clock.c" || skip "cc does not work here"
    LD_PRELOAD=$PWD/clock.so DPTRAIN_MONOTONIC=$PWD/sec supervised -np 2 --restarts 3 -- train
    [ "$status" -eq 4 ]
    [[ "$output" == *"error: $bin/dptrain --print-config "* && ! -e $HOSTS/mpirun.words ]]
}

@test "values of -x are neither recorded nor printed; the printed command takes them from the environment" {
    words=(-np 2 --restarts 5 -x MINE=hunter2 --mpi-args '-x "OTHER=hunter2 b" --tag-output' -x THIRD -- train)
    # The ranks' wrapper has several lines.
    mapfile -t lines < <(yes 'exit 5' | head -n 20)
    plan "${lines[@]}"
    background "${words[@]}"
    wait_for grep -q 'starting again in 4 s' log
    kill -TERM "$job"
    ended
    [ "$code" -eq 143 ]
    lines=('trap "echo \"checkpoint x; continue with --resume auto --out x\"; exit 0" USR1; touch "$HOSTS/up"; while :; do sleep 0.05; done')
    plan "${lines[@]}" "${lines[@]}" "${lines[@]}" "${lines[@]}"
    rm "$HOSTS/mpirun.words"
    mv log first
    "$run_sh" "${words[@]:0:2}" "${words[@]:4}" >>log 2>&1 3>&- &
    job=$!
    wait_for grep -q '^started' log
    wait_for test -e "$HOSTS/up"
    kill -TERM "$job"
    ended
    [ "$code" -eq 143 ]
    cat first >>log
    ! grep -r hunter2 log "$OUT" || return 1
    grep -q -- 'continue with: .*run.sh -np 2 --restarts 5 -x MINE --mpi-args .-x OTHER --tag-output. -x THIRD -- train' log
    grep -q -- 'continue with: .*run.sh -np 2 -x MINE --mpi-args .-x OTHER --tag-output. -x THIRD -- train --resume auto' log
    [ "$(grep -c 'export MINE OTHER before' log)" -eq 2 ]
    [[ "$(life start '.command | join(" ")')" == *"--restarts 5 -x MINE --mpi-args -x "*OTHER*" -x THIRD -- train" ]]
}

@test "without a command the printed one has it, and goes on" {
    plan 'trap "echo \"checkpoint x; continue with --resume auto --out x\"; exit 0" USR1; touch "$HOSTS/up"; while :; do sleep 0.05; done'
    background -np 2 --restarts 3
    wait_for grep -q '^started' log
    wait_for test -e "$HOSTS/up"
    kill -TERM "$job"
    ended
    [ "$code" -eq 143 ]
    plan '' 'exit 0'
    eval "timeout 60 $(sed -n 's/.*continue with: //p' log)"
    [[ "$(words 2)" == *" $bin/dptrain train --resume auto --out x" ]]
}

@test "a supervisor that is killed takes its ranks along; started again, it goes on with the same job" {
    plan 'echo $$ >"$HOSTS/pid"; records 0 5; checkpoint 5; exec sleep 60' 'records 5 9; exit 0'
    background -np 2 --restarts 3 -- train
    wait_for test -s "$HOSTS/pid"
    wait_for grep -q job_training "$OUT/job.jsonl"
    # Two supervisors of one folder: the second is refused.
    run "$run_sh" -np 2 --restarts 3 -- train
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "$output" == *"$OUT: job "*" is supervised by process $job"* ]]
    kill -KILL "$job"
    wait "$job" || true
    gone() { ! kill -0 "$(<"$HOSTS/pid")" 2>/dev/null; }
    wait_for gone
    before=$(words 1)
    run "$run_sh" -np 2 --restarts 3 -- train
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"going on with job "*", whose supervisor was killed"* ]]
    [[ "$(words 2)" == *" train --resume auto" ]]
    # The ranks own the folder under the same name.
    [ "$(grep -o 'DPTRAIN_JOB=[^ ]*' <<<"$before")" = "$(words 2 | grep -o 'DPTRAIN_JOB=[^ ]*')" ]
    [ "$(jq -r .record "$OUT/job.jsonl" | tr '\n' ' ')" = \
        "job_start job_ranks job_training job_continue job_ranks job_training job_end " ]
    "$root/dptrain" report --check "$OUT/job.jsonl"
    "$root/dptrain" report --strict "$OUT/job.jsonl"
    # The next one is another job.
    plan 'exit 3'
    supervised -np 2 --restarts 3 -- train
    [ "$status" -eq 3 ]
    [[ "$output" != *"going on"* && "$(words 1)" != *resume* ]]
}

# The record of a job whose supervisor is dead, with these changes by sed.
begun() { # ID [CHANGE]
    local place
    place="$(uname -n) $(<"/proc/sys/kernel/random/boot_id") $(readlink /proc/self/ns/pid | tr -dc 0-9)"
    sed "${2-}" <<<"{\"record\":\"job_start\",\"time\":\"2026-01-31T12:00:00Z\",\"sec\":0,\"schema\":1,\"job\":\"$1\",\
\"place\":\"$place\",\"pid\":999999999,\"start_time\":1,\"command\":[\"run.sh\"],\"restarts\":1,\"min_ranks\":0,\
\"wait_hosts\":300,\"cool_down\":60,\"metrics_bytes\":0}"
}

# A start of its ranks.
began() { # [CHANGE]
    sed "${1-}" <<<'{"record":"job_ranks","time":"2026-01-31T12:00:01Z","sec":1,"start":1,"ranks":2,"hosts":["a"],"newest_checkpoint":-1}'
}

@test "a line of job.jsonl that is not a job record is refused, with file and line, and no command in it runs" {
    local code='BASH_VERSINFO[$(>"$HOSTS/PWN")]' metrics
    metrics='{"record":"checkpoint","step":7,"file":"ckpt-000000000007.h5","bytes":1,"sec":0.5,"stall_sec":0.5}'
    # The line, and what it is to say. Of the first one, and of one after a good one.
    refused() { # LINE WORDS
        local n
        for n in 1 2; do
            rm -rf "$OUT" && mkdir "$OUT"
            ((n == 1)) || begun gone >"$OUT/job.jsonl"
            printf '%b\n' "$1" >>"$OUT/job.jsonl"
            began >>"$OUT/job.jsonl"
            cp "$OUT/job.jsonl" before
            supervised -np 2 --restarts 1 -- train
            [ "$status" -eq 3 ]
            [[ "$output" == *"error: $OUT/job.jsonl:$n: "*"$2"* && "$output" != *": :"* ]]
            [[ ! -e $HOSTS/PWN && ! -e $HOSTS/mpirun.words ]]
            cmp before "$OUT/job.jsonl"
        done
    }
    plan 'exit 0'
    refused "$(begun gone "s|:999999999|:$code|")" JSON
    refused "$(begun gone 's/:999999999/:"1 + 1"/')" '"pid"'
    refused "$(begun gone 's/:999999999/:-4/')" '"pid"'
    refused "$(begun gone 's/"metrics_bytes":0/"metrics_bytes":08/')" JSON
    refused "$(begun gone 's/"metrics_bytes":0/"metrics_bytes":1e999/')" ''
    refused "$(begun gone 's/"metrics_bytes":0/"metrics_bytes":null/')" '"metrics_bytes"'
    refused "$(begun gone 's/"schema":1/"schema":2/')" '"schema"'
    refused "$(begun gone 's/"sec":0,//')" '"sec"'
    refused "$(begun gone 's/"sec":0,/&&/')" '"sec"'
    refused "$(begun gone 's/}$/,"hook":"touch PWN"}/')" '"hook"'
    refused "$(began "s|:2,|:$code,|")" JSON
    refused "$(began 's/:2,/:"2",/')" '"ranks"'
    refused "$(began 's/"hosts":\[[^]]*\]/"hosts":{}/')" '"hosts"'
    refused "$(began 's/job_ranks/job_hosts/')" job_hosts
    # A record that is right, of another file.
    refused "$metrics" checkpoint
    for line in '' '[]' 7 null '\0' '\0377\0376' "$(began) $(began)" "$(printf '[%.0s' {1..5000})"; do refused "$line" ''; done
    # A line that is longer than any record.
    refused "$(began "s/\"a\"/\"$(printf 'a%.0s' {1..100000})\"/; s/a\{50000\}/&&&&&&&&&&&&/")" ''
}

@test "an id in job.jsonl is no pattern, a torn last line is dropped, and foreign lines of metrics.jsonl count for nothing" {
    local code='BASH_VERSINFO[$(>"$HOSTS/PWN")]' id others=() other word
    id=job$$$RANDOM
    for word in "x$id" "$id.y" "${id}xy"; do
        env "DPTRAIN_JOB=$word" sleep 60 3>&- &
        others+=("$!")
    done
    for word in ".$id" "$id.." '.*' "[a-z0-9]*" '*/$(>PWN)' "$id\\\\|x$id"; do
        rm -rf "$OUT" && mkdir "$OUT"
        { begun "$word"; printf '{"record":"job_ranks","time":"2026-01-31T12:0'; } >"$OUT/job.jsonl"
        printf '%s\n' "{\"record\":\"step\",\"step\":$code}" '' 'not JSON' >"$OUT/metrics.jsonl"
        # The records of the start that now comes.
        plan "echo '{\"record\":\"run\",\"first_step\":$code}' >>\"\$OUT/metrics.jsonl\"; records 0 1
            echo '{\"record\":\"step\",\"step\":$code}' >>\"\$OUT/metrics.jsonl\"; exit 5" 'sleep 0.5; exit 0'
        sed -i ':a; N; $!ba; s/\n  */; /' "$PLAN"
        supervised -np 2 --restarts 1 -- train
        [ "$status" -eq 0 ]
        [[ ! -e $HOSTS/PWN && ! -e PWN ]]
        [ "$(starts)" -eq 2 ]
        [[ "$(words 2)" =~ DPTRAIN_JOB=[A-Za-z0-9._-]+\  ]]
        for other in "${others[@]}"; do kill -0 "$other"; done
        [ "$(life end '[.code, .restarts, .useful_steps] | @tsv')" = $'0\t1\t1' ]
        "$root/dptrain" report --check "$OUT/job.jsonl"
    done
    kill "${others[@]}"
    # A time that is none: the job is as old as its new supervisor.
    begun gone 's/2026-01-31T12:00:00Z/yesterday/' >"$OUT/job.jsonl"
    plan 'exit 0'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(life end '.wall_sec < 600')" = true ]
}

# The launcher's system calls, with a library's for some files.
preload() {
    "${CC:-gcc}" -shared -fPIC -O1 -o shim.so "$root/tests/tools/shim/files.c"
}

with_shim() { # VARIABLE=VALUE COMMAND...
    export LD_PRELOAD=$PWD/shim.so "${1?}"
    "${@:2}"
    unset LD_PRELOAD "${1%%=*}"
}

@test "the run's records must be regular files of one's own; no link is followed, and no fifo or server awaited" {
    preload
    refused() { # CODE FILE WORDS [VARIABLE=VALUE]
        local run=(supervised)
        [[ -z ${4-} ]] || run=(with_shim "$4" supervised)
        "${run[@]}" -np 2 --restarts 1 "${log[@]}" -- train
        [ "$status" -eq "$1" ]
        [[ "$output" == *"error: "*"$2: "*"$3"* && ! -e $HOSTS/mpirun.words ]]
        [ "$(<kept)" = mine ]
        rm -rf "$OUT" logs
    }
    plan 'exit 0'
    echo mine >kept
    log=(--log-dir logs)
    for file in "$OUT/job.jsonl" "$OUT/metrics.jsonl" logs/run.sh.log; do
        mkdir -p "$OUT" logs
        ln -s "$PWD/kept" "$file"
        refused 3 "$file" "symbolic link"
        mkdir -p "$OUT" logs
        mkfifo "$file"
        refused 3 "$file" fifo
        mkdir -p "$OUT" logs
        touch "$file"
        refused 3 "$file" "user 60000" "SHIM_FOREIGN=$(realpath "$file")"
    done
    log=()
    for file in "$OUT/metrics.jsonl" "$OUT/job.jsonl"; do
        mkdir "$OUT"
        touch "$file"
        SECONDS=0
        refused 4 "$file" "does not answer" "SHIM_SLOW=$file"
        ((SECONDS < 28))
    done
    # A record that cannot be read is kept.
    mkdir "$OUT"
    begun gone | tee before >"$OUT/job.jsonl"
    with_shim "SHIM_UNREAD=$OUT/job.jsonl" supervised -np 2 --restarts 1 -- train
    cmp before <(head -n 1 "$OUT/job.jsonl")
    # A server that gives all files to one user.
    rm -r "$OUT"
    mkdir "$OUT"
    touch "$OUT/job.jsonl"
    with_shim "SHIM_FOREIGN=$OUT" supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(ls -A "$OUT")" = job.jsonl ]
    [ "$(life end .code)" -eq 0 ]
    # Without a library.
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    chown 60000 "$OUT/job.jsonl"
    refused 3 "$OUT/job.jsonl" "user 60000"
}

@test "a cleaned folder for temporary files neither ends the job nor its restarts" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    sed -i 's/ ${CONFIG:-};/ "batch-per-rank = 8";/' "$bin/dptrain"
    clean='sleep 0.3; until rm -r "$TMPDIR"/dptrain-run.*; do :; done; sleep 1.8'
    plan "records 0 3; $clean; checkpoint 3; exit 5" "records 3 6; $clean; exit 0"
    supervised -np 2 --restarts 1 --timeout-start 1 -- train
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
    [[ "$output" != *"printed nothing"* && "$(words 2)" == *"-np 2 "*"train --resume auto" ]]
    [ "$(life end '[.code, .restarts, .useful_steps] | @tsv')" = $'0\t1\t6' ]
    [ -z "$(ls "$TMPDIR")" ]
    asks_for_checkpoint 'rm -r "$TMPDIR"/dptrain-run.*'
}

@test "a killed launcher takes its ranks along, also on a kernel without pidfd_open" {
    preload
    plan 'echo $$ >"$HOSTS/pid"; exec sleep 90'
    with_shim SHIM_NO_PIDFD=1 background -np 2 -- train
    wait_for test -s "$HOSTS/pid"
    wait_for grep -q '^started' log
    kill -KILL "$job"
    wait "$job" || true
    gone() { ! kill -0 "$(<"$HOSTS/pid")" 2>/dev/null; }
    wait_for gone
    # Its code is known, too.
    plan '' 'exit 3'
    with_shim SHIM_NO_PIDFD=1 run timeout 60 "$run_sh" -np 2 -- train
    [ "$status" -eq 3 ]
}

@test "a record in a folder that did not answer is kept when the job fails" {
    preload
    mkdir "$OUT"
    { begun gone; began; } | tee before >"$OUT/job.jsonl"
    plan 'exit 3'
    with_shim "SHIM_SLOW_FOLDER=$OUT" supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 3 ]
    [[ "$output" == *"$OUT/job.jsonl"* ]]
    cmp before "$OUT/job.jsonl"
}

@test "a log whose folder does not answer any more delays the launcher, and does not hold it" {
    preload
    plan 'touch logs/run.sh.log.stuck; exit 5' 'exit 0'
    with_shim "SHIM_STUCK=$PWD/logs/run.sh.log" supervised -np 2 --restarts 1 --log-dir logs -- train
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
    [[ "$output" == *"restart 1 of 1"* && -e logs/run.sh.log ]]
}

# Starts two supervisors of one job, the second one when COMMAND succeeds. Sets codes and losers: the log of the one that is refused.
both() { # COMMAND...
    local k
    rm -f "$HOSTS"/{mpirun.words,go} code.*
    plan 'until [[ -e $HOSTS/go ]]; do sleep 0.05; done; exit 0'
    for k in 1 2; do
        ((k == 1)) || wait_for "$@"
        (code=0; timeout 60 "$run_sh" -np 2 --restarts 1 -- train >"log.$k" 2>&1 || code=$?; echo "$code" >"code.$k") 3>&- &
    done
    SECONDS=0
    wait_for compgen -G 'code.*' >/dev/null
    ((SECONDS < 20)) # about a second; the other one goes on until it is told
    lost=$(cat code.*)
    wait_for test -e "$HOSTS/mpirun.words"
    touch "$HOSTS/go"
    wait
    head log.*
    codes=$(sort code.* | paste -sd ' ')
    [ "$codes" = "0 2" ]
    [ "$lost" = 2 ]
    [ "$(starts)" -eq 1 ]
    ! grep -qs 'process 999999999' log.* || return 1
    loser=log.$([[ $(<code.1) == 2 ]] && echo 1 || echo 2)
    grep -q "error: $OUT: .*supervised" "$loser"
    [ "$(grep -l 'going on with job gone' log.*)" != "$loser" ]
    "$root/dptrain" report --check "$OUT/job.jsonl"
    [ "$(jq -r .record "$OUT/job.jsonl" | uniq | paste -sd ' ')" = "job_start job_continue job_ranks job_end" ]
}

@test "of two supervisors that take the job of a killed one at once, one goes on, and the other ends with 2" {
    for _ in {1..5}; do
        rm -rf "$OUT" && mkdir "$OUT"
        begun gone >"$OUT/job.jsonl"
        both true
    done
}

@test "where files cannot be locked, the living process that job.jsonl names is the job's supervisor" {
    preload
    for _ in 1 2; do
        rm -rf "$OUT" && mkdir "$OUT"
        begun gone >"$OUT/job.jsonl"
        with_shim SHIM_NO_LOCK=1 both grep -q job_ranks "$OUT/job.jsonl"
        grep -q "is supervised by process $(jq -r 'select(.record == "job_continue").pid' "$OUT/job.jsonl")" "$loser"
        # At once: the last one that has recorded itself.
        rm -rf "$OUT" && mkdir "$OUT"
        begun gone >"$OUT/job.jsonl"
        with_shim SHIM_NO_LOCK=1 both true
        grep -q "is supervised by process $(jq -r 'select(.record == "job_continue").pid' "$OUT/job.jsonl" | tail -n 1)" "$loser"
    done
}

@test "a folder with a blank or a newline in its name" {
    local out
    for out in ' runs/x' 'runs/y ' $'runs/a\nb' $'runs/c\n'; do
        OUT=$PWD/$out
        plan 'records 0 5; checkpoint 5; exit 5' 'records 5 9; sleep 0.5; exit 0'
        supervised -np 2 --restarts 1 -- train --out "$out"
        [ "$status" -eq 0 ]
        [ "$(starts)" -eq 2 ]
        [[ "$output" == *"the checkpoint of step 5;"* ]]
        [ "$(life end '[.code, .restarts, .useful_steps] | @tsv')" = $'0\t1\t9' ]
    done
    [ "$(find . -name job.jsonl -printf . | wc -c)" -eq 4 ]
}

@test "without TMPDIR a job runs to its end, waits to start again until it is back, and says so" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    plan 'records 0 5; checkpoint 5; rm -rf "$TMPDIR"; sleep 1.2; exit 0'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(life end '[.code, .useful_steps] | @tsv')" = $'0\t5' ]
    # Removed while the job runs, and not back between its starts. This host is not fit, then; hosts that have theirs are.
    three_hosts
    sed -i 's|^ *eval|export TMPDIR=$HOSTS/$host; &|' "$bin/ssh"
    for hosts in '-np 2' '-H n1:1,n2:1'; do
        rm -rf "$OUT"
        mkdir -p "$TMPDIR"
        plan 'records 0 5; checkpoint 5; rm -rf "$TMPDIR"; exit 5' 'exit 0'
        # shellcheck disable=SC2086 # two words
        supervised $hosts --restarts 1 --wait-hosts 1 -- train
        [ "$status" -eq "$([[ $hosts == -np* ]] && echo 5 || echo 4)" ]
        [ "$(starts)" -eq 1 ]
        [ "$(grep -c 'error: ' <<<"$output")" -eq 1 ]
        [[ "$(grep 'error: ' <<<"$output")" == *"$TMPDIR"* ]]
        [ "$(life fault '[.code, .steps] | @tsv' | head -n 1)" = $'5\t5' ]
        [ "$(life end .code)" -eq "$status" ]
    done
    # It comes back while the job waits.
    rm -rf "$OUT" "$TMPDIR" log
    mkdir "$TMPDIR"
    plan 'records 0 5; checkpoint 5; rm -rf "$TMPDIR"; exit 5' 'records 5 9; sleep 0.5; exit 0'
    (wait_for grep -qs 'waiting for hosts' log && mkdir "$TMPDIR") 3>&- &
    background -np 2 --restarts 1 -- train
    ended
    [ "$code" -eq 0 ]
    [ "$(life end '[.restarts, .useful_steps] | @tsv')" = $'1\t9' ]
    [ -z "$(ls "$TMPDIR")" ]
    rm -rf "$OUT"
    asks_for_checkpoint 'rm -rf "$TMPDIR"'
}

@test "a fifo or a link in place of job.jsonl while the job runs: nothing is written there, and the record is whole" {
    echo mine >kept
    for put in mkfifo 'ln -s "$PWD/kept"' mkdir; do
        rm -rf "$OUT"
        plan "records 0 5; checkpoint 5; mv \"\$OUT/job.jsonl\" held; $put \"\$OUT/job.jsonl\"; exit 5" 'records 5 9; sleep 0.5; exit 0'
        supervised -np 2 --restarts 1 -- train
        [ "$status" -eq 0 ]
        [ "$(starts)" -eq 2 ]
        [ "$(<kept)" = mine ]
        [ "$(jq -r .record held | paste -sd ' ')" = "job_start job_ranks job_training job_fault job_ranks job_training job_end" ]
        [[ $put != mkfifo || -p $OUT/job.jsonl ]]
        # The next job says what is wrong there.
        supervised -np 2 --restarts 1 -- train
        [ "$status" -eq 3 ]
        [[ "$output" == *"$OUT/job.jsonl: "* && ! -e $HOSTS/mpirun.words ]]
    done
}

@test "a supervisor that is killed between two starts, or while it asks hosts: the next one goes on" {
    # Waits after the second fault.
    plan 'records 0 5; exit 5' 'exit 5' 'records 5 9; sleep 0.5; exit 0'
    background -np 2 --restarts 5 -- train
    wait_for grep -q 'starting again in 4 s' log
    kill -KILL "$job"
    wait "$job" || true
    run timeout 60 "$run_sh" -np 2 --restarts 5 -- train
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 3 ]
    [[ "$output" == *"going on with job "*", whose supervisor was killed"* && "$(words 3)" == *"train --resume auto" ]]
    [ "$(life end '[.code, .restarts, .useful_steps] | @tsv')" = $'0\t2\t9' ]
    # n2 does not answer the question before the second start, nor the sweep before it.
    three_hosts
    stand_in ssh <<<'host=${*: -2:1}; export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        script=$(cat; echo x)
        part=$(grep -oE "^(sweep|fleet|probe) " <<<"$script")
        [[ $host != n2 || ! -e $HOSTS/${part% }.hangs ]] || { echo $$ >"$HOSTS/${part% }.asked"; exec sleep 60; }
        bash -s <<<"${script%x}"'
    for part in sweep fleet; do
        rm -rf "$OUT"
        plan "records 0 5; checkpoint 5; touch \"\$HOSTS/$part.hangs\"; exit 5" 'records 5 9; sleep 0.5; exit 0'
        background -H n1:1,n2:1 --restarts 5 -- train
        wait_for test -s "$HOSTS/$part.asked"
        kill -KILL "$job"
        wait "$job" || true
        # What it asked ends with it.
        gone() { [[ $(ps -o stat= -p "$(<"$HOSTS/$part.asked")") != [^Z]* ]]; }
        wait_for gone
        rm "$HOSTS/$part.hangs"
        run timeout 60 "$run_sh" -H n1:1,n2:1 --restarts 5 -- train
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(starts)" -eq 2 ]
        [[ "$(words 2)" == *"-np 2 -H n1:1,n2:1 "*"train --resume auto" ]]
        [ "$(life end '[.code, .useful_steps] | @tsv')" = $'0\t9' ]
        "$root/dptrain" report --check "$OUT/job.jsonl"
    done
}

@test "a full disk under the run's folder: its record is lost, with one message, and the job goes on" {
    mkdir disk
    unshare -m mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null || skip "this user cannot mount a tmpfs"
    OUT=$PWD/disk/run
    plan 'records 0 5; checkpoint 5; head -c 2M /dev/zero >"$OUT/fill" 2>&-; exit 5' 'exit 5' 'rm "$OUT/fill"; exit 0'
    # A page of the file is left, which the command fills.
    run unshare -m bash -c 'mount -t tmpfs -o size=1m tmpfs disk; timeout 60 "$@" && cp "$OUT/job.jsonl" held
        timeout 60 "$@" && cp "$OUT/job.jsonl" next' - "$run_sh" -np 2 --restarts 3 -- train --long "$(printf 'a%.0s' {1..3000})"
    echo "$status: $output"
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 4 ]
    [ "$(grep -c "cannot write $OUT/job.jsonl (No space left on device)" <<<"$output")" -eq 1 ]
    # What was written before can be read, and the torn rest is dropped.
    [ "$(head -n 2 held | jq -r .record | paste -sd ' ')" = "job_start job_ranks" ]
    [[ "$(jq -r .record next | paste -sd ' ')" == "job_start job_ranks "*" job_continue job_ranks job_end" ]]
    "$root/dptrain" report --check next
}

@test "a folder that job.jsonl names is refused, and nothing is removed" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir -p "$TMPDIR"/dptrain-{job,run}.{z,abc123} precious abc123
    plan 'exit 0'
    for folder in abc123 "$TMPDIR/dptrain-job.z/../../precious" "$TMPDIR/dptrain-job.abc123" "$TMPDIR/dptrain-run.abc123" "$PWD/precious"; do
        rm -rf "$OUT" && mkdir "$OUT"
        begun gone "s|}\$|,\"folder\":\"$folder\"}|" >"$OUT/job.jsonl"
        supervised -np 2 --restarts 1 -- train
        [ "$status" -eq 3 ]
        [[ "$output" == *"$OUT/job.jsonl:1: "*'"folder"'* && ! -e $HOSTS/mpirun.words ]]
        [[ -d precious && -d abc123 && "$(cd "$TMPDIR" && echo *)" == "dptrain-job.abc123 dptrain-job.z dptrain-run.abc123 dptrain-run.z" ]]
    done
}

@test "steps that a file claims do not hang the summary" {
    plan 'records 0 3; echo "{\"record\":\"step\",\"step\":900000000000000,\"step_sec\":1e999}" >>"$OUT/metrics.jsonl"; records 1 3; sleep 0.5; exit 0'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(life end '[.useful_steps, .lost_steps] | @tsv')" = $'3\t3' ]
}

@test "what a host answers at a restart is data" {
    three_hosts
    sed -i 's/^ *eval/[[ $host != n2 ]] || cat "$HOSTS\/noise"; &/' "$bin/ssh"
    printf '%s\n' 'same x//;1e>"$HOSTS/PWN"; y' 'check BASH_VERSINFO[$(>"$HOSTS/PWN")]' 'newest BASH_VERSINFO[$(>"$HOSTS/PWN")]' >"$HOSTS/noise"
    plan 'exit 5' 'exit 0'
    supervised -H n1:1,n2:1 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ ! -e "$HOSTS/PWN" ]
    [[ "$(words 2)" == *"-np 2 -H n1:1,n2:1 "* ]]
}

@test "a killed supervisor is dead, even if its parent does not wait for it" {
    plan 'records 0 5; checkpoint 5; exec sleep 60' 'records 5 9; exit 0'
    # shellcheck disable=SC2016 # Perl's
    perl -e 'my $pid = fork; exec @ARGV if !$pid; sleep 60' "$run_sh" -np 2 --restarts 3 -- train \
        >log 2>&1 3>&- &
    parent=$!
    wait_for grep -qs job_training "$OUT/job.jsonl"
    supervisor=$(jq -r 'select(.record == "job_start").pid' "$OUT/job.jsonl")
    kill -KILL "$supervisor"
    run timeout 60 "$run_sh" -np 2 --restarts 3 -- train
    echo "$output"
    grep -q '^State:.Z' "/proc/$supervisor/status"
    kill "$parent"
    [ "$status" -eq 0 ]
    [[ "$output" == *"going on with job "*", whose supervisor was killed"* ]]
}

@test "mpirun that is killed is a fault like others, and its ranks are ended" {
    plan 'env "$(grep -o "DPTRAIN_JOB=[^ ]*" <<<"$*")" sleep 60 >&- 2>&- & echo $! >"$HOSTS/rank"; records 0 5; checkpoint 5; kill -KILL $$' \
        'records 5 9; sleep 0.5; exit 0'
    supervised -np 2 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
    [[ "$output" == *"run.sh: error: mpirun was killed by signal 9 (SIGKILL)"* ]]
    [ "$(life fault '[.code, .host, .rank, .steps] | @tsv')" = $'5\t\t\t5' ]
    [[ "$(life fault .what)" == *mpirun*SIGKILL* ]]
    # Its parent may not wait for it.
    [[ ! -e /proc/$(<"$HOSTS/rank")/environ || -z "$(tr -d '\0' <"/proc/$(<"$HOSTS/rank")/environ")" ]]
}

three_hosts() {
    local i
    for i in 1 2 3; do host "n$i" "10.0.0.$i"; done
}

# mpirun's report of a lost daemon, and its code.
lost() { # HOST
    local rule
    rule=$(printf '%074d' 0 | tr 0 -)
    cat <<<"touch \"\$HOSTS/$1/down\"; printf '%s\n' $rule 'ORTE has lost communication with a remote daemon.' \
'Remote daemon: [[1,0],1] on node $1' $rule >&2; exit 205"
}

@test "a host that does not answer is left out, and comes back after its cool-down" {
    three_hosts
    plan "$(lost n2)" 'checkpoint 1; exit 5' 'rm "$HOSTS/n2/down"; sleep 2.2; checkpoint 2; exit 5' 'exit 0'
    supervised -H n1:2,n2:2,n3:2 --restarts 1 --cool-down 2 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 1)" == *"-np 6 -H n1:2,n2:2,n3:2 "* && "$(words 1)" == *"oob_tcp_keepalive_time 2"* ]]
    [[ "$(words 2)" == *"-np 4 -H n1:2,n3:2 "* ]]
    [[ "$(words 3)" == *"-np 4 -H n1:2,n3:2 "* ]]
    [[ "$(words 4)" == *"-np 6 -H n1:2,n2:2,n3:2 "* ]]
    [[ "$output" == *"n2 is left out for 2 s: probe over ssh failed: refused: no sshd"* ]]
    [ "$(life fault .host | head -n 1)" = n2 ]
    [ "$(life left_out .host | sort -u)" = n2 ]
    [ "$(life ranks '.hosts | join(" ")' | sed -n 2p)" = "n1 n3" ]
}

@test "daemons of earlier starts are looked for on hosts that have not answered since, and no longer" {
    three_hosts
    # What each question to the hosts before a start says of earlier daemons.
    stand_in ssh <<<'host=${*: -2:1}; [[ ! -e $HOSTS/$host/down ]] || { echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; }
        export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        script=$(cat; echo x)
        call=$(grep "^fleet " <<<"$script") && { eval "set -- $call"; echo "$host ${4% }" >>"$HOSTS/families"; }
        bash -s <<<"${script%x}"'
    uri='eval set -- $(tail -n 1 "$HOSTS/mpirun.words"); while [[ $1 != --report-uri ]]; do shift; done; echo "$((n << 16)).0;tcp://" >"$2"
        echo "start $n $$" >>"$HOSTS/families"'
    uri=${uri//$'\n'/;}
    plan "$uri; checkpoint 1; exit 5" "$uri; $(lost n2)" "$uri; checkpoint 3; rm \"\$HOSTS/n2/down\"; exit 5" "$uri; checkpoint 4; exit 5" \
        "$uri; exit 0"
    supervised -H n1:2,n2:2,n3:2 --restarts 2 --cool-down 0 -- train
    cat "$HOSTS/families"
    [ "$status" -eq 0 ]
    pid=$(sed -n 's/^start 2 //p' "$HOSTS/families")
    lost=$((2 << 16)):$pid
    # Hosts are asked side by side.
    between() { sed "0,/^start $1 /d; /^start/,\$d" "$HOSTS/families" | sort | paste -sd ,; } # START
    [ "$(between 1)" = "n1 ,n2 ,n3 " ]
    [ "$(between 2)" = "n1 $lost,n3 $lost" ]
    [ "$(between 3)" = "n1 $lost,n2 $lost,n3 $lost" ]
    [ "$(between 4)" = "n1 ,n2 ,n3 " ]
}

@test "a host is left out if it fails a check, or differs from the others" {
    three_hosts
    touch "$HOSTS/n3/bad"
    stand_in mpirun.n1 <<<'echo "mpirun (Open MPI) 4.1.3"'
    stand_in ssh <<<'host=${*: -2:1}; export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        if [[ $host == n1 && -e $HOSTS/other ]]; then mkdir -p "$HOSTS/bin1"; ln -sf "$(command -v mpirun.n1)" "$HOSTS/bin1/mpirun"; PATH=$HOSTS/bin1:$PATH; fi
        eval "${!#}"'
    plan 'touch "$HOSTS/other"; exit 5' 'exit 0'
    host n4 10.0.0.4
    supervised -H n1:1,n2:1,n3:1,n4:1 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 1)" == *"-H n1:1,n2:1,n3:1,n4:1 "* ]]
    [[ "$(words 2)" == *"-np 2 -H n2:1,n4:1 "* ]]
    [[ "$output" == *"n3 is left out for 60 s: dptrain check: gpu, GPUs: GPU 1 fell off the bus"* ]]
    [[ "$output" == *"n1 is left out for 60 s: OpenMPI: mpirun (Open MPI) 4.1.3; most hosts have mpirun (Open MPI) 4.1.4"* ]]
}

@test "too few hosts: the job waits, then goes on or ends with 5" {
    three_hosts
    # Comes back while the job waits, in its cool-down.
    plan "$(lost n2)" 'exit 0'
    (wait_for grep -q 'waiting for hosts' log && rm "$HOSTS/n2/down") 3>&- &
    background -H n1:2,n2:2 --restarts 1 --min-ranks 3 -- train
    ended
    [ "$code" -eq 0 ]
    [[ "$(words 2)" == *"-np 4 -H n1:2,n2:2 "* ]]
    grep -q 'waiting for hosts, for at most 300 s: they have slots for 2 ranks, and --min-ranks is 3' log
    [ "$(life wait .min_ranks)" -eq 3 ]
    "$root/dptrain" report --check "$OUT/job.jsonl"
    "$root/dptrain" report --strict "$OUT/job.jsonl"
    plan "$(lost n2)" 'exit 0'
    supervised -H n1:2,n2:2 --restarts 9 --min-ranks 3 --wait-hosts 0 -- train
    [ "$status" -eq 5 ]
    [ "$(starts)" -eq 1 ]
    [[ "$output" == *"error: no start was possible within 0 s (--wait-hosts): they have slots for 2 ranks"* ]]
    [ "$(life end .reason | tail -n 1)" = "too few hosts" ]
    # A signal ends the wait.
    rm "$HOSTS/n2/down" log
    plan "$(lost n2)" 'exit 0'
    background -H n1:2,n2:2 --restarts 9 --min-ranks 3 -- train
    wait_for grep -q 'waiting for hosts' log
    kill -INT "$job"
    ended
    [ "$code" -eq 130 ]
    [ "$(starts)" -eq 1 ]
}

@test "inside Slurm: on the nodes that are left; the batch script requeues the job when they are too few" {
    three_hosts
    export SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' SLURM_SUBMIT_DIR=$PWD DPTRAIN_HOME=$root
    # Slurm ends the script of a job that it requeues.
    stand_in scontrol <<<'case "$*" in
        "show hostnames n[1-2]") printf "n1\nn2\n" ;;
        "requeue 7") : >"$HOSTS/requeued"; kill "$PPID" ;;
        esac'
    stand_in srun <<<'for word; do case $word in --nodelist=*) export FAKE_HOST=${word#*=} ;; bash) break ;; esac; shift; done
        [[ ! -e $HOSTS/$FAKE_HOST/down ]] || { echo "srun: error: Unable to create step: Required node not available" >&2; exit 1; }
        DPTRAIN_SYSFS=$HOSTS/$FAKE_HOST/sys exec "$@"'
    plan "$(lost n2)" 'checkpoint 2; exit 0'
    DPTRAIN_RESTARTS=2 run timeout 60 "$root/scripts/dptrain.sbatch" train --out "$OUT"
    echo "$status: $output"
    [ "$status" -eq 0 ]
    [[ "$(words 1)" == *"-np 4 -H n1:2,n2:2 "* ]]
    [[ "$(words 2)" == *"-np 2 -H n1:2 "*"--resume auto"* ]]
    [[ "$output" == *"n2 is left out for 60 s: probe over srun failed"* && ! -e $HOSTS/requeued ]]
    [ "$(life ranks '.hosts | join(" ")' | sed -n 2p)" = n1 ]
    rm "$HOSTS"/{n2/down,mpirun.words}
    DPTRAIN_RESTARTS=2 DPTRAIN_MIN_RANKS=3 DPTRAIN_WAIT_HOSTS=0 run timeout 60 "$root/scripts/dptrain.sbatch" train --out "$OUT"
    echo "$status: $output"
    [ "$(starts)" -eq 1 ]
    [[ "$output" == *"they have slots for 2 ranks, and --min-ranks is 3"* && "$output" == *"requeueing job 7 (code 5, restart 1)"* ]]
    [ -e "$HOSTS/requeued" ]
}

@test "hosts come and go: the command is asked before each start" {
    three_hosts
    printf 'n1 slots=2\nn2 slots=2\n' >list
    plan 'echo "n3:4" >list; exit 5' 'rm list; checkpoint 1; exit 5' 'exit 0'
    supervised --hosts-command 'cat list' --restarts 1 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 1)" == *"-np 4 -H n1:2,n2:2 "* && "$(words 2)" == *"-np 4 -H n3:4 "* && "$(words 3)" == *"-np 4 -H n3:4 "* ]]
    [[ "$output" == *"--hosts-command failed (code 1) or printed nothing; the hosts are those of its last success"* ]]
    supervised --hosts-command 'cat list' -- train
    [ "$status" -eq 4 ]
    supervised --hosts-command 'cat list' -H a:1 -- train
    [ "$status" -eq 2 ]
}

@test "the global batch and the shards decide about the number of ranks" {
    three_hosts
    export CONFIG
    sed -i 's/ ${CONFIG:-};/; tr "_" " " <<<"${CONFIG:-}" | tr "," "\\n";/' "$bin/dptrain"
    CONFIG=reproducible_=_6,batch_=_64
    plan "$(lost n3)" 'exit 0'
    supervised -H n1:2,n2:3,n3:1 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 2)" == *"-np 3 -H n1:2,n2:1 "* ]]
    [[ "$output" == *"5 ranks are available, but --reproducible 6 works on 1 2 3 6 ranks: going on with 3"* ]]
    rm "$HOSTS/n3/down"
    plan "$(lost n3)" 'exit 0'
    supervised -H n1:2,n2:3,n3:1 --restarts 1 --min-ranks 4 --wait-hosts 0 -- train
    [ "$status" -eq 5 ]
    [[ "$output" == *"they have slots for 5 ranks, but --reproducible 6 works on 1 2 3 6 ranks, and --min-ranks is 4"* ]]
    # A batch per rank becomes that of the whole job.
    rm "$HOSTS/n3/down"
    CONFIG=batch-per-rank_=_32,accumulate_=_2
    plan "$(lost n3)" 'exit 0'
    supervised -H n1:2,n2:3,n3:1 --restarts 1 -- train --batch-per-rank 32 --lr 1
    [ "$status" -eq 0 ]
    [[ "$(words 2)" == *"-np 5 -H n1:2,n2:3 "*" train --lr 1 --resume auto --batch 192 --accumulate 4" ]]
    # The rate stays that of the batch, also without a checkpoint that keeps its reference.
    rm "$HOSTS/n3/down"
    CONFIG=batch-per-rank_=_32,lr-scale_=_linear,accumulate_=_1
    plan "$(lost n3)" 'exit 0'
    supervised -H n1:2,n2:3,n3:1 --restarts 1 -- train --batch-per-rank 32 --lr-scale linear
    [ "$status" -eq 0 ]
    [[ "$(words 2)" == *" --batch 192 --lr-batch 32 --accumulate 2" ]]
    # The shards of a reproducible run keep their size, and its bits.
    rm "$HOSTS/n3/down"
    CONFIG=reproducible_=_6,batch_=_60,accumulate_=_1
    plan "$(lost n3)" 'exit 0'
    supervised -H n1:2,n2:1,n3:3 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 2)" == *"-np 3 -H n1:2,n2:1 "* && "$(words 2)" != *--accumulate* ]]
}

@test "rank 0 moves to a host that has the run's folder; without one, the run does not begin again" {
    three_hosts
    # A folder of its own on each host.
    stand_in ssh <<<'host=${*: -2:1}; [[ ! -e $HOSTS/$host/down ]] || exit 255
        export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys; sed "s|$OUT|$HOSTS/$host/run|g" | bash -s'
    made='mkdir -p "$HOSTS/n3/run"; touch "$HOSTS/n3/run/metrics.jsonl" "$HOSTS/n3/run/ckpt-000000000007.h5"; exit 5'
    plan "$made" 'exit 0'
    supervised -H n1:1,n2:1,n3:1 --restarts 1 -- train
    [ "$status" -eq 0 ]
    [[ "$(words 2)" == *"-np 3 -H n3:1,n1:1,n2:1 "* ]]
    [[ "$output" == *"rank 0 moves to n3, which has the newest checkpoint"* ]]
    plan 'touch "$HOSTS/n3/down"; exit 5' 'exit 0'
    supervised -H n1:1,n2:1,n3:1 --chief n3 --restarts 1 --wait-hosts 0 -- train
    [ "$status" -eq 5 ]
    [[ "$output" == *"none of them has $OUT, and n3 is not among them; put the folder where all hosts see it"* ]]
}

@test "built-in data is no path that a host could lack" {
    stand_in dptrain <<<'case "$*" in *--print-config*) printf "%s\n" "model = mlp" "resume = auto" "data = digits" "out = $OUT" ;; esac'
    plan 'checkpoint 10; exit 137' 'exit 0'
    supervised -np 2 --restarts 3 --wait-hosts 1 -- train
    [ "$status" -eq 0 ]
    [ "$(starts)" -eq 2 ]
}

@test "an environment file that is a pipe counts for every start" {
    plan 'eval "$DPTRAIN_ENV_0"; echo "first $MINE"; exit 5' 'eval "$DPTRAIN_ENV_0"; echo "second $MINE"; exit 0'
    run timeout 60 bash -c '"$1" -np 2 --restarts 3 --env-file <(echo MINE=here) -- train' _ "$run_sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"first here"*"second here"* ]]
}

@test "an allocation whose hosts are unknown or in a file: the same hosts at the first and at later starts" {
    # Slurm without scontrol.
    plan 'exit 5' 'exit 0'
    SLURM_JOB_NODELIST='n[1-2]' PATH=$bin:/usr/bin:/bin supervised -np 2 --restarts 3 --wait-hosts 1 -- train
    [ "$status" -eq 0 ]
    # PBS: too few hosts are waited for at the first start, too.
    host n1 10.0.0.1
    host n2 10.0.0.2
    touch "$HOSTS/n2/down"
    printf '%s\n' n1 n1 n2 n2 >nodes
    plan 'exit 0'
    PBS_NODEFILE=$PWD/nodes supervised --restarts 3 --min-ranks 3 --wait-hosts 1 -- train
    [ "$status" -eq 5 ]
    [[ "$output" == *"waiting for hosts, for at most 1 s"* ]]
}

@test "what cannot be restarted is a usage error" {
    supervised -np 2 --restarts 3 -- bench step
    [ "$status" -eq 2 ]
    [[ "$output" == *"--restarts is for dptrain train"* ]]
    supervised -np 2 --restarts x -- train
    [ "$status" -eq 2 ]
    stand_in dptrain <<<'echo "dptrain: error: unknown option" >&2; exit 2'
    supervised -np 2 --restarts 3 -- train --no-such
    [ "$status" -eq 2 ]
    [ "$output" = "2: dptrain: error: unknown option" ] || [[ "$output" == "dptrain: error: unknown option" ]]
    [ ! -e "$OUT" ]
}

@test "each start is told how old the job is, for --max-time" {
    plan 'echo "$DPTRAIN_JOB_AGE" >>"$HOSTS/ages"; sleep 1.5; checkpoint 5; exit 5' 'echo "$DPTRAIN_JOB_AGE" >>"$HOSTS/ages"'
    supervised -np 2 --restarts 3 -- train
    [ "$status" -eq 0 ]
    mapfile -t ages <"$HOSTS/ages"
    [ "${ages[0]}" -lt "${ages[1]}" ]
}

@test "a rank that dies: training ends with the weights of a run without faults" {
    export PATH=$real_path DPTRAIN_BIN=$root/dptrain OMPI_MCA_mpi_yield_when_idle=1
    command -v mpirun >/dev/null || skip "mpirun is not here"
    "$DPTRAIN_BIN" data synth digits --out tiny --train 300 --val 64
    train=(train --model mlp --data tiny --batch 20 --threads 1 --reproducible 2 --steps 1000 --checkpoint-every 10)
    "$DPTRAIN_BIN" "${train[@]}" --out whole
    OUT=$BATS_TEST_TMPDIR/hurt
    "$run_sh" -np 2 --restarts 3 -- "${train[@]}" --out hurt >log 2>&1 3>&- &
    job=$!
    for n in 1 2; do
        # Rank 1, after which mpirun ends rank 0 by SIGTERM, and then rank 0.
        wait_for eval '(($(grep -s job_training hurt/job.jsonl | wc -l) == n)) || ! kill -0 "$job" 2>&-'
        for pid in $(pgrep -x dptrain); do
            environ=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ") || true
            [[ $environ != *"PWD=$PWD"* || $environ != *"OMPI_COMM_WORLD_RANK=$((2 - n))"* ]] || kill -KILL "$pid"
        done
    done
    ended
    [ "$code" -eq 0 ]
    cmp <("$DPTRAIN_BIN" checkpoint show whole | grep -E '^/') <("$DPTRAIN_BIN" checkpoint show hurt | grep -E '^/')
    # On a fast machine the job can end before the second one is hit.
    faults=$(life fault '[.rank, .code] | @tsv')
    [[ $faults == $'1\t5' || $faults == $'1\t5\n0\t5' ]]
    # Nothing is resumed from but checkpoints before which all ranks compared their weights.
    [ "$(jq -s '[.[] | select(.record == "run") | .first_step % 10] | add' hurt/metrics.jsonl)" -eq 0 ]
    n=$(wc -l <<<"$faults")
    [ "$(life end '[.code, .restarts, .useful_steps] | @tsv')" = $'0\t'"$n"$'\t1000' ]
    [ "$(jq -r 'select(.record == "step") | .step' hurt/metrics.jsonl | sort -nu | wc -l)" -eq 1000 ]
    tail -n 1 log | grep -E 'run.sh: [12] restarts?, [0-9]+ steps computed again; goodput [0-9.]+ %'
}
