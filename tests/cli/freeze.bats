#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# train --freeze: layers that keep their weights and running statistics.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 96 48; }

run_for() { # RANKS FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model mnist-cnn-bn --batch 24 --threads 1 --out "$2" --seed 3 --schedule constant \
        --reproducible 2 --freeze conv1,norm1,fc1 "${@:3}"
}

# Prints the names of a checkpoint's arrays.
arrays() { "$dptrain" checkpoint show "$1" | grep -o '^/[a-z]*/[^ ]*'; }

# Prints those whose values differ from those in the other checkpoint.
changed() { # FILE FILE
    { h5diff "$1" "$2" || [ $? -eq 1 ]; } | sed -nE 's/^dataset: <(.*)> and .*/\1/p'
}

@test "frozen layers keep weights and running statistics, the others learn; no optimizer state for them" {
    run_for 0 "$out" --steps 8 --checkpoint-every 1 --keep 9 --weight-decay 0.1 >"$BATS_TEST_TMPDIR/said"
    grep -q '1,200,234 parameters (1,180,128 frozen)' "$BATS_TEST_TMPDIR/said"
    changed "$out"/ckpt-00000000000{1,8}.h5 >"$BATS_TEST_TMPDIR/changed"
    diff "$BATS_TEST_TMPDIR/changed" <(arrays "$out" | grep -vE '/(conv1|norm1|fc1)/')
    arrays "$out" >"$BATS_TEST_TMPDIR/arrays"
    grep -qx /params/conv1/weight "$BATS_TEST_TMPDIR/arrays"
    grep -qx /states/norm1/running_mean "$BATS_TEST_TMPDIR/arrays"
    grep -qx /optimizer/velocity/conv2/weight "$BATS_TEST_TMPDIR/arrays"
    run grep -E '^/optimizer/[a-z]+/(conv1|norm1|fc1)/' "$BATS_TEST_TMPDIR/arrays"
    [ "$status" -eq 1 ]
}

@test "the same bits on 1 and 2 ranks, resumed or not, with every optimizer and clipping" {
    for optimizer in sgd adamw lars; do
        more=(--optimizer "$optimizer" --clip-norm 0.5 --ema 0.9 --accumulate 2)
        run_for 0 "$out-$optimizer-1" --steps 8 "${more[@]}"
        run_for 2 "$out-$optimizer-2" --steps 4 "${more[@]}"
        run_for 2 "$out-$optimizer-2" --steps 8 --resume auto
        for folder in /params /optimizer /states; do
            h5diff "$out-$optimizer"-{1,2}/ckpt-000000000008.h5 "$folder" "$folder"
        done
    done
}

@test "eval and export use a frozen layer's weights and the moving average of the others" {
    run_for 0 "$out" --epochs 2 --ema 0.5
    last=$(jq -r 'select(.record == "epoch") | .val_loss' "$out/metrics.jsonl" | tail -n 1)
    "$dptrain" eval "$out" --json "$BATS_TEST_TMPDIR/eval.json" >/dev/null
    jq -e --argjson last "$last" '(.loss - $last | fabs) < 1e-5 * $last' "$BATS_TEST_TMPDIR/eval.json"
    "$dptrain" checkpoint export "$out" --out "$BATS_TEST_TMPDIR/w.npz" | grep -q "moving average"
}

@test "names that no layer has, a list that leaves nothing to train, and a change on resume are refused" {
    run "$dptrain" train --data "$tiny" --model lenet5 --freeze conv1,cnv2 --out "$out"
    [ "$status" -eq 2 ]
    [[ "$output" == *"lenet5 has no layer 'cnv2' with parameters to freeze; \`dptrain info --model lenet5\`"* ]]
    [ ! -e "$out" ]
    run "$dptrain" train --data "$tiny" --model lenet5 --freeze pool1 --out "$out"
    [ "$status" -eq 2 ]
    run "$dptrain" train --data "$tiny" --model mlp --freeze fc1,fc2,fc3 --out "$out"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--freeze fc1,fc2,fc3 leaves no layer of mlp to train"* ]]
    run_for 0 "$out" --steps 2
    run "$dptrain" train --out "$out" --resume auto --steps 4 --freeze conv1
    [ "$status" -eq 2 ]
    [[ "$output" == *"cannot change --freeze"* ]]
}
