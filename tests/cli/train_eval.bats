#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# When training evaluates, and on how many samples: --eval-every, --eval-samples, --no-eval.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 4 steps per epoch.
setup_file() { make_tiny 80 50; }

# Prints each evaluation as EPOCH or EVALUATION and its step.
evaluated() { # FOLDER
    jq -r 'select((.record == "epoch" or .record == "evaluation") and .val_loss != null) | "\(.record)\(.step)"' \
        "$1/metrics.jsonl" | xargs
}

run_for() { # RANKS FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model mlp --batch 20 --threads 1 --algorithms fixed --out "$2" "${@:3}"
}

@test "--eval-every: epochs or steps, and always the last step; the bits of training stay" {
    run_for 0 "$out-1" --epochs 4
    [ "$(evaluated "$out-1")" = "epoch4 epoch8 epoch12 epoch16" ]
    run_for 0 "$out-3" --epochs 4 --eval-every 3 >"$BATS_TEST_TMPDIR/said"
    [ "$(evaluated "$out-3")" = "epoch12 epoch16" ]
    [ "$(grep -c '^epoch .* validation loss' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    grep -q '^epoch 1  train loss [0-9.]* accuracy [0-9.]*  [0-9.]* images/s' "$BATS_TEST_TMPDIR/said"
    run_for 0 "$out-s" --epochs 4 --eval-every 6s >"$BATS_TEST_TMPDIR/said"
    [ "$(evaluated "$out-s")" = "evaluation6 epoch12 epoch16" ]
    grep -q '^step 6  validation loss [0-9.]* accuracy [0-9.]*' "$BATS_TEST_TMPDIR/said"
    "$dptrain" report --check "$out"-{1,3,s}/metrics.jsonl
    losses "$out-1" | diff - <(losses "$out-3")
    losses "$out-1" | diff - <(losses "$out-s")
    # What each run's last evaluation found.
    for of in 1 3 s; do jq -r 'select(.step == 16) | .val_loss // empty' "$out-$of/metrics.jsonl"; done | uniq | wc -l | grep -x 1
}

@test "--eval-every can change on resume, and plateau follows scheduled evaluations alone" {
    plateau=(--schedule plateau --plateau-patience 1 --plateau-threshold 1000 --eval-every 2)
    run_for 0 "$out-a" "${plateau[@]}" --epochs 7
    # Ends after an epoch that a longer run does not evaluate.
    run_for 0 "$out-b" "${plateau[@]}" --epochs 3
    [ "$(evaluated "$out-b")" = "epoch8 epoch12" ]
    run_for 0 "$out-b" --resume auto --epochs 7
    losses "$out-a" | diff - <(losses "$out-b")
    jq -es 'map(select(.record == "step") | .lr) | unique | length > 1' "$out-a/metrics.jsonl"
    run_for 0 "$out-b" --resume auto --epochs 9 --eval-every 1
    [ "$(evaluated "$out-b")" = "epoch8 epoch12 epoch16 epoch24 epoch28 epoch32 epoch36" ]
}

@test "--eval-samples: evenly spaced samples, the same on any number of ranks; all of them is the default" {
    for n in 0 2; do run_for "$n" "$out-$n" --steps 4 --reproducible 2 --eval-samples 7 >"$BATS_TEST_TMPDIR/said"; done
    grep -q '^epoch 1 .* validation loss [0-9.]* accuracy [0-9.]* (7 samples)' "$BATS_TEST_TMPDIR/said"
    value() { jq -r 'select(.record == "epoch") | .val_loss' "$1/metrics.jsonl"; }
    [ "$(value "$out-0")" = "$(value "$out-2")" ]
    jq -es 'map(select(.record == "epoch")) | all(.val_accuracy * 7 | . - round | fabs < 1e-9)' "$out-0/metrics.jsonl"
    run_for 0 "$out-all" --steps 4 --reproducible 2
    run_for 0 "$out-more" --steps 4 --reproducible 2 --eval-samples 1000
    [ "$(value "$out-all")" = "$(value "$out-more")" ]
    [ "$(value "$out-all")" != "$(value "$out-0")" ]
}

@test "--no-eval: no evaluation, and null in the records" {
    run_for 2 "$out" --epochs 2 --no-eval >"$BATS_TEST_TMPDIR/said"
    [ -z "$(evaluated "$out")" ]
    [ "$(grep -c '^epoch .*validation' "$BATS_TEST_TMPDIR/said")" -eq 0 ]
    [ "$(grep -c '^epoch ' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    "$dptrain" report --check "$out/metrics.jsonl"
    run "$dptrain" train --data "$tiny" --no-eval --eval-every 2 --out "$out-none"
    [ "$status" -eq 2 ]
    [[ $output == *"--no-eval and --eval-every are mutually exclusive"* ]]
    # Asking for evaluations on resume turns them on again.
    run_for 2 "$out" --resume auto --epochs 3 --eval-samples 10
    [ "$(evaluated "$out")" = epoch12 ]
}
