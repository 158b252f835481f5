#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The output folder: one job at a time writes to it, damaged and renamed checkpoints, records that are cut off or deleted.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 640 64; }

setup() {
    common_setup
    log=$BATS_TEST_TMPDIR/log
    job=''
    training=(train --model mlp --data "$tiny" --batch 64 --threads 1 --no-eval --out "$out")
}

teardown() {
    [[ -z $job ]] || kill -KILL "$job" 2>/dev/null || true
}

# Starts a run that does not end on its own, in the background, and waits for a checkpoint. $job is the program.
start_long() { # ARGUMENTS...
    "$dptrain" "${training[@]}" --steps 100000000 --checkpoint-every 50 "$@" >"$log" 2>&1 3>&- &
    job=$!
    await compgen -G "$out/ckpt-*.h5"
}

await() { # COMMAND...
    local i
    for ((i = 0; i < 1200; i++)); do
        ! "$@" >/dev/null || return 0
        sleep 0.05
    done
    cat "$log"
    return 1
}

# Sets code.
await_end() {
    gone() { ! kill -0 "$job" 2>/dev/null; }
    await gone
    code=0
    wait "$job" || code=$?
    job=''
    cat "$log"
}

# A job of another host; nothing is known about its process.
elsewhere() {
    echo '{"job":"their-job","host":"elsewhere","pid":7,"since":"2026-01-31T12:00:00Z","token":"t","boot":"x",' \
        '"pid_namespace":"y","process_start":9,"beat":1}'
}

@test "after kill -9 the records reach as far as the newest checkpoint" {
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o "$BATS_TEST_TMPDIR/shim.so" "$root"/tests/attack/shim*.c -ldl -pthread
    # Killed as soon as the first checkpoint has its name.
    run env DPTRAIN_FAULT_PACE=0.4 DPTRAIN_FAULT="call=open n=1 act=kill path=$out/ckpt-" LD_PRELOAD="$BATS_TEST_TMPDIR/shim.so" \
        "$dptrain" "${training[@]}" --steps 9 --checkpoint-every 3 --log-every 1000000
    [ "$status" -eq 137 ]
    [ -e "$out/ckpt-000000000003.h5" ]
    [ "$(jq -s 'map(select(.record == "step") | .step) | max' "$out/metrics.jsonl")" -eq 2 ]
}

@test "a folder in use is refused, naming the owner, and the run in it goes on; after kill -9 the next run takes it at once" {
    start_long
    before=$(wc -l <"$out/metrics.jsonl")
    run "$dptrain" "${training[@]}" --steps 10 --overwrite
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"$out is in use by job "*" (host $(uname -n), process $job, since 20"*"choose another --out"* ]]
    more_lines() { (($(wc -l <"$out/metrics.jsonl") > before)); }
    await more_lines
    kill -KILL "$job"
    wait "$job" || true
    [ -e "$out/owner.json" ]
    run on_ranks 2 train -q --out "$out" --resume auto --steps 10
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output != *waiting* ]]
    [ ! -e "$out/owner.json" ]
    run "$dptrain" checkpoint verify "$out"
    [ "$status" -eq 0 ]
}

@test "a folder of another host: the run says what it waits for" {
    mkdir "$out"
    elsewhere >"$out/owner.json"
    "$dptrain" "${training[@]}" --steps 3 >"$log" 2>&1 3>&- &
    job=$!
    await grep -q 'their-job (host elsewhere, process 7, .*is taken over after 60 s' "$log"
    kill -TERM "$job"
    wait "$job" || true
    [ "$(<"$out/owner.json")" = "$(elsewhere)" ]
}

@test "a folder of another host is taken over after a minute without a change, with a message every 5 s" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes a minute; scripts/test.sh --slow"
    mkdir "$out"
    elsewhere >"$out/owner.json"
    mpi_flags 2
    run mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" "${training[@]}" --steps 3 --timeout 20 --stall-warning 10
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^waiting to see' <<<"$output")" -ge 12 ]
    [[ $output != *stall* ]]
}

@test "a run whose folder another job has taken ends with code 4 and writes no more" {
    start_long --log-every 1
    elsewhere >"$out/taken"
    mv "$out/taken" "$out/owner.json"
    await_end
    [ "$code" -eq 4 ]
    grep -q "dptrain: error: .*$out now belongs to job their-job (host elsewhere, process 7" "$log"
    [ "$(<"$out/owner.json")" = "$(elsewhere)" ]
    run jq -e . "$out/metrics.jsonl"
    [ "$status" -eq 0 ]
}

@test "kill -9 of run.sh ends its job; the next one continues" {
    "$root/scripts/run.sh" -np 2 "${training[@]}" --steps 100000000 --checkpoint-every 50 >"$log" 2>&1 3>&- &
    job=$!
    await compgen -G "$out/ckpt-*.h5"
    kill -KILL "$job"
    wait "$job" || true
    run "$root/scripts/run.sh" -np 2 train -q --out "$out" --resume auto --steps 10
    echo "$output"
    [ "$status" -eq 0 ]
    # mpirun got SIGTERM, once, and left rank 0 the time to record it. OpenMPI 5 leaves the ranks no time.
    mpi_version
    ((mpi_major >= 5)) || [ "$(jq -r 'select(.record == "end").reason' "$out/metrics.jsonl" | head -n 1)" = "interrupted by SIGTERM" ]
    no_ranks() { ! pgrep -f -- "--out $out( |\$)"; }
    await no_ranks
}

@test "a renamed checkpoint: an error of verify, passed over by --resume auto with a warning, not the newest" {
    "$dptrain" "${training[@]}" -q --steps 20 --checkpoint-every 10
    mv "$out/ckpt-000000000010.h5" "$out/ckpt-000000099999.h5"
    run "$dptrain" checkpoint verify "$out"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"ckpt-000000099999.h5 was renamed: it holds step 10, not 99999"* ]]
    run "$dptrain" checkpoint verify "$out/ckpt-000000099999.h5"
    [ "$status" -eq 3 ]
    cp "$out/ckpt-000000099999.h5" "$out/best.h5"
    "$dptrain" checkpoint verify "$out/best.h5"
    run "$dptrain" train --out "$out" --resume auto --steps 60 --checkpoint-every 10
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *warning:*"ckpt-000000099999.h5 was renamed"* ]]
    [[ $output == *"at step 20"* ]]
    [ "$(cd "$out" && echo ckpt-*)" = \
        "ckpt-000000000040.h5 ckpt-000000000050.h5 ckpt-000000000060.h5 ckpt-000000099999.h5" ]
}

@test "a record that a full disk cut off does not swallow the next run's first" {
    "$dptrain" "${training[@]}" -q --steps 5
    n=$(wc -l <"$out/metrics.jsonl")
    printf '{"record":"step","step":5,"ep' >>"$out/metrics.jsonl"
    "$dptrain" "${training[@]}" -q --steps 8 --resume auto
    [ "$(jq -r .record "$out/metrics.jsonl" | sed -n "$((n + 1))p")" = run ]
    check_records "$out/metrics.jsonl"
    # A whole one without its line break stays.
    n=$(wc -l <"$out/metrics.jsonl")
    truncate -s -1 "$out/metrics.jsonl"
    "$dptrain" "${training[@]}" -q --steps 9 --resume auto
    [ "$(jq -r .record "$out/metrics.jsonl" | sed -n "$((n + 1))p")" = run ]
    check_records "$out/metrics.jsonl"
}

@test "records that are deleted during the run: a warning, and a new file that begins with the run" {
    start_long --log-every 5
    rm "$out/metrics.jsonl"
    await grep -qs '"record":"checkpoint"' "$out/metrics.jsonl"
    kill -USR1 "$job"
    await_end
    [ "$code" -eq 0 ]
    grep -q "warning: $out/metrics.jsonl was deleted or replaced during the run" "$log"
    [ "$(head -n 1 "$out/metrics.jsonl" | jq -r .record)" = run ]
    check_records "$out/metrics.jsonl"
}

@test "--resume auto with fewer steps or epochs than are done has finished: code 0" {
    "$dptrain" "${training[@]}" -q --steps 33 --warmup 2 --checkpoint-every 11
    for given in "--steps 32" "--steps 5 --trace $BATS_TEST_TMPDIR/trace.json" "--epochs 1" "--epochs 3"; do
        # shellcheck disable=SC2086 # words
        run "$dptrain" train --out "$out" --resume auto $given
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"nothing to do: the checkpoint is at step 33 of "* ]]
    done
    [ "$(cd "$out" && echo ckpt-*)" = "ckpt-000000000011.h5 ckpt-000000000022.h5 ckpt-000000000033.h5" ]
}
