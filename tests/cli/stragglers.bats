#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Slow ranks are named, with host and phase: in a warning, the records, the profile and the report. The hidden --burn slows
# one phase of one rank by a multiple of the step.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 64 10; }

slow() { # RANKS BURN ARGUMENTS...
    run on_ranks "$1" train --device cpu --threads 1 --model mlp --algorithms fixed --batch 8 --no-eval --data "$tiny" \
        --straggler-window 0 --burn "$2" --out "$out" "${@:3}"
    echo "$output"
    [ "$status" -eq 0 ]
}

field() { # JQ FILTER of the straggler record
    jq -r "select(.record == \"straggler\") | $1" "$out/metrics.jsonl"
}

@test "a rank that computes slowly: named once, in the warning, the record, the profile and the report" {
    slow 2 backward:40@1 --steps 64 --profile
    local name
    name='rank 1 on '$(uname -n)' is slow: compute took '
    [ "$(grep -c "warning: $name" <<<"$output")" -eq 1 ]
    [[ $output == *"slowest rank, compute: 1 on "*"straggler: $name"* ]]
    [ "$(field '"\(.rank) \(.n_ranks) \(.host) \(.phase) \(.sec > 1.3 * .usual_sec) \(.last_step - .first_step >= 49)"')" = \
        "1 1 $(uname -n) compute true true" ]
    [ "$(jq -c 'select(.record == "profile") | [.slowest_ranks[0].rank, .stragglers[0].rank]' "$out/metrics.jsonl")" = '[1,1]' ]
    jq -se 'map(select(.record == "end"))[0].safety_sec | all(.[]; . > 0) and .stragglers + .watchdog_calls < .steps' \
        "$out/metrics.jsonl"
    check_records "$out/metrics.jsonl"
    run "$dptrain" report --strict "$out/metrics.jsonl"
    echo "$output"
    [[ $output == *$'\nstragglers: slow ranks'*"rank  host"*"phase"*$'\n  1 '*compute* ]]
    "$dptrain" report html "$out/metrics.jsonl" --out "$BATS_TEST_TMPDIR/page.html"
    grep -q '>Stragglers: slow ranks' "$BATS_TEST_TMPDIR/page.html"
    grep -q "class=\"warns\">slow ranks: rank 1 on $(uname -n)" "$BATS_TEST_TMPDIR/page.html"
}

@test "with --reproducible, and in the wait for data: the victim that waits is not named" {
    slow 2 data:40@0 --steps 64 --reproducible 2
    [ "$(field '"\(.rank) \(.phase)"')" = '0 data' ]
    [[ $output != *'rank 1 on '*' is slow'* ]]
}

@test "after the sum: communication (--slow)" {
    [[ -n ${DPTRAIN_TEST_SLOW-} ]] || skip "the arithmetic is in test_rank_times; scripts/test.sh --slow runs it"
    slow 2 allreduce:40@1 --steps 64
    [ "$(field '"\(.rank) \(.phase)"')" = '1 communication' ]
}

@test "one rank: nobody is named" {
    slow 0 backward:1 --steps 25
    [ -z "$(field .rank)" ]
    jq -se 'map(select(.record == "end"))[0].safety_sec | .stragglers == 0 and .steps > 0' "$out/metrics.jsonl"
}
