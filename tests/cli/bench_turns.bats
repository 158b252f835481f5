#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain bench --turns: two jobs that alternate batch by batch. And --burn, an injected slowdown.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    turns=$BATS_TEST_TMPDIR/turns
    quick=(bench step --step-data synthetic --step-batch 8 --step-algorithms fixed --no-step-scaling --threads 1 --budget 0.1)
}

# A session folder each: two mpiruns that create the common one at the same moment can fail (hold_sessions).
job() { # RANKS first|second ARGUMENTS...
    mkdir -p "$BATS_TEST_TMPDIR/session.$2"
    TMPDIR=$BATS_TEST_TMPDIR/session.$2 on_ranks "$1" "${@:3}" --turns "$turns:$2" \
        --out "$BATS_TEST_TMPDIR/$2.jsonl" >"$BATS_TEST_TMPDIR/$2.log" 2>&1
}

@test "two jobs take the same number of batches, and each record names the other run" {
    for n in 1 2; do
        job "$n" first "${quick[@]}" --timeout 60 3>&- &
        job "$n" second "${quick[@]}" --timeout 60 || { cat "$BATS_TEST_TMPDIR"/*.log; false; }
        wait $!
        jq -es --slurpfile second "$BATS_TEST_TMPDIR/second.jsonl" '.[0].interleaved_with == $second[0].id
            and $second[0].interleaved_with == .[0].id and .[0].id != $second[0].id
            and (.[1].batch_n | length) == ($second[1].batch_n | length) and (.[1].batch_n | length) % 2 == 0
            and all(.[1].batch_n[]; . > 0) and .[1].clock_sec > 0
            and ([.[1] | .data_samples, .forward_samples, .backward_samples, .allreduce_samples, .optimizer_samples | length]
                | unique) == [.[1].n]
            and .[-1].reason == "finished" and $second[-1].reason == "finished"' "$BATS_TEST_TMPDIR/first.jsonl"
        rm "$BATS_TEST_TMPDIR"/*.jsonl
    done
}

@test "a job without a partner waits for --timeout" {
    for n in 1 2; do
        run job "$n" first "${quick[@]}" --timeout 10
        [ "$status" -eq 5 ]
        grep -q 'the other job did not start within 10 s' "$BATS_TEST_TMPDIR/first.log"
        [ ! -s "$BATS_TEST_TMPDIR/first.jsonl" ]
    done
    mkdir "$turns.files"
    echo kept >"$turns.files/second"
    run -2 "$dptrain" "${quick[@]}" --turns "$turns.files:first" --out "$BATS_TEST_TMPDIR/b.jsonl"
    [[ $output == *"second' exists and is not a FIFO"* ]]
    [ "$(cat "$turns.files/second")" = kept ]
    run -2 "$dptrain" "${quick[@]}" --turns "$turns:third"
    [[ $output == *"FOLDER:first or FOLDER:second"* ]]
}

@test "a signal ends the wait for a turn, and the file records interrupted" {
    # The first job is stopped during its turn, so the second waits forever.
    long=(bench step --step-data synthetic --step-batch 8 --step-algorithms fixed --no-step-scaling --threads 1 --budget 60)
    "$dptrain" "${long[@]}" --turns "$turns:first" --out "$BATS_TEST_TMPDIR/first.jsonl" >"$BATS_TEST_TMPDIR/first.log" 2>&1 3>&- &
    local first=$! second status=0 i
    "$dptrain" "${long[@]}" --turns "$turns:second" --out "$BATS_TEST_TMPDIR/second.jsonl" >"$BATS_TEST_TMPDIR/second.log" 2>&1 3>&- &
    second=$!
    for ((i = 0; i < 1200; i++)); do
        [[ ! -s $BATS_TEST_TMPDIR/second.jsonl ]] || break
        sleep 0.05
    done
    kill -STOP "$first"
    kill -INT "$second"
    wait "$second" || status=$?
    kill -CONT "$first"
    kill -INT "$first"
    wait "$first" || true
    [ "$status" -eq 1 ]
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/second.jsonl" | jq -r '.record + " " + .reason')" = "bench_end interrupted" ]
    grep -q 'interrupted by a signal' "$BATS_TEST_TMPDIR/second.log"
}

@test "jobs with different measurements get an error; the remaining one continues alone" {
    job 1 first "${quick[@]}" 3>&- &
    run job 1 second bench gemm --gemm-max 64 --gemm-shapes square --budget 0.1
    [ "$status" -eq 2 ]
    grep -q 'measures .*64.* while the other job measures step of lenet5' "$BATS_TEST_TMPDIR/second.log"
    wait $!
    grep -q 'has ended; the remaining points are measured alone' "$BATS_TEST_TMPDIR/first.log"
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/first.jsonl" | jq -r .reason)" = finished ]
}

@test "--burn slows down one phase of a step, or the iterations of one case" {
    only_slow "takes 10 s"
    # Thirty times the step's time, so that nothing else can take as long.
    for phase in forward backward optimizer; do
        on_ranks 1 "${quick[@]}" --burn "$phase:30" --out "$BATS_TEST_TMPDIR/b.jsonl" >/dev/null
        jq -es --arg part "${phase}_samples" '[.[] | select(.record == "bench")][-1] |
            (.[$part] | sort | .[length / 2 | floor]) > 0.6 * .p50' "$BATS_TEST_TMPDIR/b.jsonl"
    done
    run -2 "$dptrain" "${quick[@]}" --burn backwards:1
    [[ $output == *"--burn: unknown phase 'backwards'; did you mean backward?"* ]]
    run -2 "$dptrain" "${quick[@]}" --burn backward:-1
    [[ $output == *"PHASE:SHARE"* ]]
    # Thirty times longer, beyond any noise of the minimum time.
    for more in '' '--burn gemm:30'; do
        # shellcheck disable=SC2086 # words
        "$dptrain" bench gemm --gemm-shapes square --gemm-max 64 --threads 1 --budget 0.05 $more --out "$BATS_TEST_TMPDIR/g.jsonl" >/dev/null
    done
    jq -es '[.[] | select(.record == "bench")] | .[1].min > 5 * .[0].min' "$BATS_TEST_TMPDIR/g.jsonl"
    "$dptrain" bench --help all >"$BATS_TEST_TMPDIR/help"
    run grep -c burn "$BATS_TEST_TMPDIR/help"
    [ "$output" -eq 0 ]
}
