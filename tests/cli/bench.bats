#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `dptrain bench`: command line, records, and how it ends. The cases have separate tests.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

setup_file() { make_tiny 300 64; }

# One quick measurement of a small step.
quick_step() { # RANKS ARGUMENTS...
    on_ranks "$1" bench step --quick --budget 0.05 --step-data "$tiny" --step-batch 8 --step-algorithms fixed \
        --threads 1 --out "$BATS_TEST_TMPDIR/b.jsonl" "${@:2}"
}

records() { # JQ-CONDITION OF EVERY "bench" RECORD
    jq -es "[.[] | select(.record == \"bench\")] | length > 0 and all($1)" "$BATS_TEST_TMPDIR/b.jsonl" >/dev/null
}

@test "bench --help lists the cases and their options" {
    "$dptrain" bench --help >"$BATS_TEST_TMPDIR/help"
    grep -q '^  step  ' "$BATS_TEST_TMPDIR/help"
    grep -q -- '--ci X' "$BATS_TEST_TMPDIR/help"
    grep -q -- '--step-model' "$BATS_TEST_TMPDIR/help"
    [ "$("$dptrain" bench step --help | grep -c -- '--step-')" -ge 4 ]
}

@test "an unknown case is an error that names the nearest" {
    run -2 "$dptrain" bench
    [[ $output == *"expected a case, such as comm, or all"* ]]
    run -2 "$dptrain" bench --quick gemm
    [[ $output == *"the case 'gemm' must come before the options"* ]]
    run -2 "$dptrain" bench stap
    [[ $output == *"did you mean 'step'"* ]]
    run -2 "$dptrain" bench step step
    [[ $output == *"given twice"* ]]
    run -2 "$dptrain" bench step --step-modle lenet5
    [[ $output == *"step-model"* ]]
    run -2 "$dptrain" bench step --ci 0
    [[ $output == *"invalid --ci '0': out of range"* ]]
    run -2 "$dptrain" bench step --out "" --budget 0.05
    [[ $output == *"--out is empty"* ]]
}

@test "step: weak, strong and alone on two ranks, one record each" {
    quick_step 2 >"$BATS_TEST_TMPDIR/table"
    grep -Eq '^weak +1 ' "$BATS_TEST_TMPDIR/table"
    grep -Eq '^weak +2 ' "$BATS_TEST_TMPDIR/table"
    grep -Eq '^alone +2 ' "$BATS_TEST_TMPDIR/table"
    grep -Eq '^strong +1 +16 ' "$BATS_TEST_TMPDIR/table"
    grep -Eq '^strong +2 +16 ' "$BATS_TEST_TMPDIR/table"
    grep -q 'finished: 5 points' "$BATS_TEST_TMPDIR/table"
    [ "$(grep -c '"record":"bench"' "$BATS_TEST_TMPDIR/b.jsonl")" -eq 5 ]
    records '.case == "step" and .schema == 1 and .key.model == "lenet5" and .n == (.samples | length) and .p50 > 0
        and .min <= .p50 and .p50 <= .p99 and .p99 <= .max and (.verdict | test("ok|inconclusive|disturbed"))
        and .metrics.images_per_sec > 0 and .metrics.compute_share > 0 and .metrics.compute_share < 1'
    # Every point belongs to the bench_run record, which has the fingerprint but no environment.
    jq -es '.[0].id as $id | .[0].record == "bench_run" and all(.[1:][]; .run == $id) and .[-1].record == "bench_end"
        and .[-1].reason == "finished" and .[-1].n_points == 5' "$BATS_TEST_TMPDIR/b.jsonl"
    jq -es '.[0].fingerprint | (.hardware_id | test("^[0-9a-f]{16}$")) and .hardware.cpus > 0 and (.hardware | has("cpu_type"))
        and .software.dptrain != null and .fabric.hosts == 1' "$BATS_TEST_TMPDIR/b.jsonl"
    run grep -c "$HOME" "$BATS_TEST_TMPDIR/b.jsonl"
    [ "$output" -eq 0 ]
}

@test "one rank has one arrangement; a second run appends to the file" {
    quick_step 1 >/dev/null
    quick_step 1 >/dev/null
    [ "$(grep -c '"record":"bench_run"' "$BATS_TEST_TMPDIR/b.jsonl")" -eq 2 ]
    [ "$(jq -r 'select(.record == "bench") | .test' "$BATS_TEST_TMPDIR/b.jsonl" | sort -u)" = weak ]
    [ "$(jq -r 'select(.record == "bench_run") | .id' "$BATS_TEST_TMPDIR/b.jsonl" | sort -u | wc -l)" -eq 2 ]
    [ "$(jq -r 'select(.record == "bench_run") | .fingerprint.hardware_id' "$BATS_TEST_TMPDIR/b.jsonl" | sort -u | wc -l)" -eq 1 ]
}

@test "a missing model or missing data is an error, and the file records the failure" {
    run -2 quick_step 1 --step-stem small
    [[ $output == *"--step-stem "*lenet5* ]]
    run -2 quick_step 1 --step-model lenet6
    [[ $output == *"lenet5"* ]]
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/b.jsonl" | jq -r .reason)" = failed ]
    run -3 "$dptrain" bench step --step-data /nowhere --out "$BATS_TEST_TMPDIR/b.jsonl"
    [[ $output == *"/nowhere"* ]]
}

@test "a full disk and an unwritable path are errors" {
    run -4 "$dptrain" bench step --quick --step-data "$tiny" --out /dev/full
    [[ $output == *"/dev/full"*"No space left"* ]]
    run "$dptrain" bench step --quick --step-data "$tiny" --out /proc/none/b.jsonl
    [ "$status" -ne 0 ]
    [[ $output == *"/proc/none"* ]]
}

# Interrupts a benchmark that is long enough, on N ranks.
ends_on_signal() { # N   N 0: without mpirun
    local long=("$dptrain" bench step --budget 60 --ci 0.000001 --step-data "$tiny" --step-algorithms fixed --threads 1
        --out "$BATS_TEST_TMPDIR/b.jsonl") pid i status=0
    mpi_flags "$1"
    (($1 == 0)) || long=(mpirun "${MPI_FLAGS[@]}" -np "$1" "${long[@]}")
    DPTRAIN_PROGRESS=1 "${long[@]}" >"$BATS_TEST_TMPDIR/table" 2>&1 3>&- &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        ! grep -q 'step of lenet5.* samples' "$BATS_TEST_TMPDIR/table" || break
        sleep 0.1
    done
    kill -INT "$pid"
    wait "$pid" || status=$?
    [ "$status" -eq 1 ]
    grep -q 'interrupted: 0 points' "$BATS_TEST_TMPDIR/table"
    [ "$(grep -c 'interrupted by a signal' "$BATS_TEST_TMPDIR/table")" -eq 1 ]
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/b.jsonl" | jq -r .reason)" = interrupted ]
}

@test "Ctrl-C: measured points are kept, the file records interrupted, one message, exit code 1" { ends_on_signal 0; }

# Ctrl-C to a benchmark as soon as it has said so: sets status.
interrupt_at() { # WORDS ARGUMENTS...
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$dptrain" bench "${@:2}" --threads 1 --out b.jsonl >said 2>&1 3>&- &
    local job=$!
    for _ in {1..3000}; do
        ! grep -q "$1" said || break
        sleep 0.02
    done
    kill -INT "$job"
    status=0
    wait "$job" || status=$?
    cat said
}

@test "Ctrl-C while algorithms are measured: no step is measured, nor those that are left" {
    cd "$BATS_TEST_TMPDIR"
    XDG_CACHE_HOME=$PWD/cache interrupt_at 'measuring the algorithms of' step --step-model resnet18 --step-data "$tiny"
    [ "$status" -eq 1 ]
    [ "$(tail -n 1 b.jsonl | jq -r .reason)" = interrupted ]
    XDG_CACHE_HOME=$PWD/cache run "$dptrain" train --model resnet18 --data "$tiny" --threads 1 --batch 64 --steps 1 --no-eval \
        --measure-time 0 --out run
    [ "$(jq 'select(.record == "run") | .algorithms_by_rule' run/metrics.jsonl)" -gt 0 ]
}

@test "Ctrl-C in the middle of a measurement that takes a minute: it is not waited for" {
    cd "$BATS_TEST_TMPDIR"
    interrupt_at ' host ' gemm --gemm-max 64 --gemm-shapes square --burn gemm:1e8
    [ "$status" -eq 130 ]
    grep -q SIGINT said
}

@test "Ctrl-C to mpirun: the same" {
    mpirun_waits
    ends_on_signal 2
}
