#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Nothing waits for ever: not the start or the end of MPI, not a disk, not the end of a process. Ranks are stopped, and
# disks cease to answer, by a preloaded library (tests/tools/shim).
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

load common

setup_file() {
    export STALL_SO=$BATS_FILE_TMPDIR/stall.so
    "${CC:-gcc}" -shared -fPIC -o "$STALL_SO" "$BATS_TEST_DIRNAME/../tools/shim/stall.c" -ldl
    make_tiny 128 16
}

setup() {
    common_setup
    training=(train --model mlp --data "$tiny" --batch 32 --steps 8 --threads 1 --no-eval --out "$out")
    mpi_flags 2
    job=''
}

teardown() {
    local pid
    for pid in $(pgrep -f -- "--out $out( |\$)" || true) $job; do kill -KILL "$pid" 2>/dev/null || true; done
}

# Runs the program on two ranks with the library.
stalled() { # VARIABLE=VALUE... -- ARGUMENTS...
    local variables=()
    [[ $dptrain != */build-san/* ]] || skip "a sanitizer must be loaded first"
    while [[ $1 != -- ]]; do variables+=("$1") && shift; done
    run timeout 60 mpirun "${MPI_FLAGS[@]}" -np 2 env "LD_PRELOAD=$STALL_SO" "${variables[@]}" "$dptrain" \
        "${training[@]}" "${@:2}"
    echo "$output"
}

said_once() { # PATTERN
    [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    grep -q "dptrain: error: $1" <<<"$output"
}

@test "a rank stopped in MPI_Init: the others name it, code 5" {
    # mpirun continues the rank and kills it a second later: its own deadline must not end in that second.
    stalled STALL=MPI_Init STALL_RANK=1 DPTRAIN_TIMEOUT_START=10 --
    [ "$status" -eq 5 ]
    said_once 'timed out after 10 s in MPI_Init; rank 1 on .* is stopped .*(rank 0 on '
}

@test "a rank stopped in MPI_Finalize: the others name it, and say that all is saved" {
    # The steps before it need less, however busy the machine is.
    stalled STALL=MPI_Finalize STALL_RANK=0 -- --timeout 10
    [ "$status" -eq 5 ]
    said_once 'timed out after 10 s in MPI_Finalize; rank 0 on .* is stopped .*; all ranks had .* saved their work (rank 1 '
    "$dptrain" checkpoint verify "$out"
}

@test "a disk that does not answer is named" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "the next test does the same without mpirun (--slow)"
    stalled STALL=metrics.jsonl STALL_FROM=3 -- --timeout 10
    [ "$status" -eq 5 ]
    said_once 'timed out after 10 s in .*"writing records to .*metrics.jsonl"'
}

@test "without mpirun, too" {
    [[ $dptrain != */build-san/* ]] || skip "a sanitizer must be loaded first"
    run timeout 60 env "LD_PRELOAD=$STALL_SO" STALL=metrics.jsonl STALL_FROM=3 "$dptrain" "${training[@]}" --timeout 10
    [ "$status" -eq 5 ]
    said_once 'timed out after 10 s in "writing records to .*/metrics.jsonl": the file system does not answer'
}

@test "ranks leave although mpirun is stopped" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "waits for a deadline (--slow)"
    local pid pids i
    mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" "${training[@]/#8/100000000}" --timeout 10 >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        [[ ! -s $out/metrics.jsonl ]] || break
        sleep 0.05
    done
    mapfile -t pids < <(pgrep -P "$job" -x dptrain)
    cat "$BATS_TEST_TMPDIR/log"
    [ "${#pids[@]}" -eq 2 ]
    kill -STOP "$job"
    kill -KILL "${pids[1]}"
    for ((i = 0; i < 600; i++)); do
        [[ $(cut -d ' ' -f 3 "/proc/${pids[0]}/stat") != Z ]] || break
        sleep 0.1
    done
    [ "$(cut -d ' ' -f 3 "/proc/${pids[0]}/stat")" = Z ]
    kill -CONT "$job"
    status=0
    wait "$job" || status=$?
    cat "$BATS_TEST_TMPDIR/log"
    [ "$status" -eq 5 ]
}

@test "an error of one rank before MPI_Init is printed, with its rank" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "tests/unit/test_deadline.c does the same without mpirun (--slow)"
    mpi_parts
    run mpirun "${MPI_FLAGS[@]}" -np 1 "$dptrain" "${training[@]}" : -np 1 "$dptrain" train --config "$out/none"
    echo "$output"
    [ "$status" -eq 2 ]
    said_once "cannot read $out/none: No such file or directory (rank 1 on "
}

@test "a file larger than the limit is an error with its name, code 4" {
    run bash -c 'ulimit -f "$1" && shift && "$@"' - 1 "$dptrain" "${training[@]}"
    [ "$status" -eq 4 ]
    said_once "cannot write $out/metrics.jsonl: File too large"
}

@test "a file size limit that MPI cannot work with is named, code 4" {
    # shellcheck disable=SC2016 # for the rank's shell
    run timeout 60 mpirun "${MPI_FLAGS[@]}" -np 2 bash -c 'ulimit -f 3000; exec "$0" "$@"' "$dptrain" "${training[@]}"
    echo "$output"
    [ "$status" -eq 4 ]
    grep -q "dptrain: error: the file size limit (ulimit -f) is 2.9 MiB, but MPI's shared memory needs files of 8.0 MiB" <<<"$output"
}

@test "a FIFO in place of the algorithms' cache is passed over" {
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    local file
    run "$dptrain" train --model lenet5 --data "$tiny" --batch 32 --steps 1 --threads 1 --no-eval --measure-time 20 --out "$out"
    [ "$status" -eq 0 ]
    file=$(echo "$XDG_CACHE_HOME"/dptrain/algorithms-*.txt)
    rm "$file"
    mkfifo "$file"
    run timeout 60 "$dptrain" train --model lenet5 --data "$tiny" --batch 32 --steps 1 --threads 1 --no-eval --measure-time 20 \
        --out "$out" --overwrite
    [ "$status" -eq 0 ]
    grep -q "warning: the algorithm cache is ignored: $file is not a regular file" <<<"$output"
}

@test "a memory limit ends a run with code 4 and its cause, wherever it hits" {
    not_with_sanitizers
    local limit first=300000 step=200000
    [[ -z ${DPTRAIN_TEST_SLOW:-} ]] || first=280000 step=4000
    for ((limit = first; limit <= 480000; limit += step)); do
        run bash -c 'ulimit -v "$1" && shift && "$@"' - "$limit" timeout 60 "$dptrain" train --model resnet18 --data synthetic \
            --batch 32 --steps 1 --threads 2 --no-eval --algorithms fixed --out "$out" --overwrite
        echo "$limit: $status $output"
        [[ $status -eq 0 || $status -eq 4 ]]
        [[ $status -eq 0 || $output == *"dptrain: error: "*"memory"* || $output == *"dptrain: error: cannot start"* ]]
    done
}
