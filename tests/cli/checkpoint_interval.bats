#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --checkpoint-every auto: checkpoints in Young's interval, from their measured cost and --mtbf.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 64 10; }

small=(train --device cpu --threads 1 --algorithms fixed --batch 8 --no-eval --model mlp)

@test "--checkpoint-every auto: the interval follows from the cost and --mtbf, and a resumed run knows it" {
    run "$dptrain" "${small[@]}" --data "$tiny" --steps 20 --checkpoint-every auto --mtbf 2d --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'saves   auto, for a failure every 2d: a checkpoint after 10 steps measures the cost'* ]]
    [[ $output =~ "saves   every "[0-9.]+' '[mun]?s" (auto: a checkpoint stops training for "[0-9.]+' '[mun]?"s, a failure is expected every 2d)" ]]
    jq -se 'map(select(.record == "checkpoint")) | length == 2 and .[0].step == 11 and all(.cost_sec > 0) and
        (.[0].interval_sec / (2 * .[0].cost_sec * 172800 | sqrt) - 1 | fabs < 1e-6)' "$out/metrics.jsonl"
    run "$dptrain" train --out "$out" --resume auto --steps 22
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ "saves   every "[0-9.]+ && $output != *'measures the cost'* ]]
    check_records "$out/metrics.jsonl"
    "$dptrain" train --out "$out" --resume auto --steps 24 --checkpoint-every 5 -q
}

@test "options that do not fit" {
    local -A says=(['--checkpoint-every auto']='requires --mtbf' ['--mtbf 6h']='requires --checkpoint-every auto'
        ['--checkpoint-every auto --mtbf 6']="invalid --mtbf '6': expected a duration such as 90m, 6h or 2d"
        ['--checkpoint-every often']="invalid --checkpoint-every 'often': expected steps such as 500, minutes such as 10m, or auto")
    local options
    for options in "${!says[@]}"; do
        # shellcheck disable=SC2086 # several words
        run "$dptrain" "${small[@]}" -q --data "$tiny" --out "$out" $options
        [ "$status" -eq 2 ]
        [[ $output == *"${says[$options]}"* ]]
    done
}
