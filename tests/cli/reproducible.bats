#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --reproducible: the same bits on any number of ranks; --bn-group and --sync-bn: batch norm independent of the ranks.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 150 samples in batches of 60: the last one has 30.
setup_file() { make_tiny 150 140; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" "${@:2}"
}

# All numbers of the training, to the last digit.
curve() { # FOLDER
    jq -c 'select(.record == "step" or .record == "epoch") |
        [.step, .loss, .accuracy, .gradient_norm, .lr, .train_loss, .val_loss, .val_accuracy]' "$1/metrics.jsonl"
}

same_state() { # CHECKPOINT CHECKPOINT
    local object
    for object in /params /states /optimizer; do h5diff "$1" "$2" "$object" "$object"; done
}

# Batch norm, dropout, augmentation, accumulation, clipping, a moving average, a ragged last batch.
everything=(--model mnist-cnn-bn --batch 60 --epochs 2 --accumulate 2 --optimizer adadelta --lr 1 --schedule plateau
    --plateau-patience 1 --clip-norm 1 --ema 0.9 --augment-rotate 8 --augment-shift 0.08 --flip
    --label-smoothing 0.1 --weight-decay 1e-4)

@test "1, 2 and 4 ranks train the same bits, including batch norm and dropout" {
    for n in 1 2 4; do
        train "$n" "${everything[@]}" --reproducible 4 --out "$out$n"
        [ "$(curve "$out$n" | wc -l)" -eq 8 ]
        diff <(curve "${out}1") <(curve "$out$n")
        same_state "${out}1/ckpt-000000000006.h5" "$out$n/ckpt-000000000006.h5"
    done
    # Without it the bits differ, so the comparison works.
    for n in 1 2; do train "$n" "${everything[@]}" --threads 1 --out "$out-plain$n"; done
    run diff -q <(curve "$out-plain1") <(curve "$out-plain2")
    [ "$status" -eq 1 ]
}

@test "a run resumes on another number of ranks, in the middle of an epoch, bit for bit" {
    train 4 "${everything[@]}" --reproducible 4 --checkpoint-every 4 --keep 9 --out "$out"
    mkdir "$out-again"
    cp "$out/ckpt-000000000004.h5" "$out-again"
    # The shards and the single thread come from the checkpoint.
    train 2 --resume auto --out "$out-again"
    same_state "$out/ckpt-000000000006.h5" "$out-again/ckpt-000000000006.h5"
    run train 3 --resume auto --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--reproducible 4 requires a number of ranks that divides 4, not 3"* ]]
}

@test "options that break --reproducible are rejected" {
    run train 3 --reproducible 4 --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--reproducible 4 requires a number of ranks that divides 4, not 3"* ]]
    run train 2 --reproducible 4 --model mnist-cnn-bn --sync-bn --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--sync-bn is not available with --reproducible"* ]]
    run train 2 --reproducible 4 --lr-scale linear --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--lr-scale none"* ]]
    run train 2 --reproducible 8 --batch 6 --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"more shards than it has samples"* ]]
    [ ! -e "$out" ]
}

@test "--bn-group and --sync-bn: the loss curve does not depend on the number of ranks" {
    norm=(--model mnist-cnn-bn --batch 60 --steps 2 --threads 1 --seed 3)
    for n in 1 2 3; do
        train "$n" "${norm[@]}" --bn-group 10 --out "$out-group$n"
        train "$n" "${norm[@]}" --sync-bn --out "$out-sync$n"
    done
    train 3 "${norm[@]}" --out "$out-local3"
    for n in 2 3; do
        close_curves "$out-group1" "$out-group$n" 1e-5
        close_curves "$out-sync1" "$out-sync$n" 1e-5
    done
    # On one rank, synchronised statistics are those of the batch; on three, local ones differ.
    run close_curves "$out-sync1" "$out-local3" 1e-3
    [ "$status" -eq 1 ]
    run close_curves "$out-sync1" "$out-group1" 1e-3
    [ "$status" -eq 1 ]
}

@test "invalid batch norm options are rejected" {
    run train 2 --model lenet5 --sync-bn --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"lenet5 has no batch norm"* ]]
    run train 2 --model mnist-cnn-bn --sync-bn --bn-group 5 --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"mutually exclusive"* ]]
    run train 2 --model mnist-cnn-bn --bn-group 60 --batch 60 --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"1 groups of --bn-group 60, too few for 2 ranks"* ]]
    # 150 samples: the last batch of an epoch has one, for two ranks.
    run train 2 --model mnist-cnn-bn --sync-bn --batch 149 --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"the last batch of an epoch has 1"* ]]
}
