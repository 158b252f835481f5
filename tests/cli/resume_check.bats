#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The first loss of a resumed run is compared with the record of the same step.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 64 10; }

small=(train --device cpu --threads 1 --algorithms fixed --batch 8 --no-eval -q)

# Trains to step 6, then leaves the checkpoint of step 4 as the newest: as after a crash.
crashed() { # ARGUMENTS...
    "$dptrain" "${small[@]}" --data "$tiny" --steps 6 --checkpoint-every 4 --out "$out" "$@"
    rewind
}

rewind() { rm "$out"/ckpt-*[67].h5; }

verdict() {
    jq -r 'select(.record == "resume") | "\(.step) \(.verdict) \(.recorded_ranks)->\(.ranks) \(.tolerance > 0) \(.reason)"' \
        "$out/metrics.jsonl" | tail -n 1
}

# Changes the recorded loss of step 4 in its last digits: by a part in 10^N.
spoil() { # N
    awk -v n="$1" '/"record":"step","step":4,/ { match($0, /"loss":[0-9.]+/); x = substr($0, RSTART + 7, RLENGTH - 7)
        sub(/"loss":[0-9.]+/, sprintf("\"loss\":%.17g", x * (1 + 10 ^ -n))) } { print }' "$out/metrics.jsonl" >"$out/new"
    mv "$out/new" "$out/metrics.jsonl"
}

@test "the same loss, on one rank and on two; within rounding; and another one" {
    crashed --model mlp
    run "$dptrain" train --out "$out" --resume auto --steps 7
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"verified: the loss of step 4 is "*", as recorded"* ]]
    [ "$(verdict)" = '4 equal 1->1 true null' ]
    rewind
    run on_ranks 2 train --out "$out" --resume auto -q
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(verdict) =~ ^'4 '(equal|close)' 1->2 true null'$ ]]
    rewind
    spoil 4
    "$dptrain" train --out "$out" --resume auto -q
    [ "$(verdict)" = '4 close 2->1 true null' ]
    rewind
    spoil 2
    run "$dptrain" train --out "$out" --resume auto -q
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(verdict)" = '4 differs 1->1 true null' ]
    [[ $output =~ "warning: the first loss after resuming differs: "[0-9.]+" at step 4, but "[0-9.]+" was recorded before" ]]
    check_records "$out/metrics.jsonl"
    [[ $("$dptrain" report "$out/metrics.jsonl") == *'resumed: 4 (first loss: differs)'* ]]
}

@test "--reproducible: the bits, on another number of ranks too" {
    crashed --model mlp --reproducible 4
    run on_ranks 2 train --out "$out" --resume auto -q
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(verdict)" = '4 equal 1->2 false null' ]
    rewind
    spoil 12
    run "$dptrain" train --out "$out" --resume auto -q
    [ "$status" -eq 0 ]
    [ "$(verdict)" = '4 differs 2->1 false null' ]
    [[ $output == *'--reproducible promises the same bits'*'dptrain replay'* ]]
}

@test "nothing to compare with: no record, and other groups of batch norm" {
    crashed --model mnist-cnn-bn
    on_ranks 2 train --out "$out" --resume auto -q
    [ "$(verdict)" = '4 not compared 1->2 false batch norm has other groups of samples' ]
    rewind
    rm "$out/metrics.jsonl"
    "$dptrain" train --out "$out" --resume auto -q
    [ "$(verdict)" = '4 not compared 0->1 false no record of the step' ]
}
