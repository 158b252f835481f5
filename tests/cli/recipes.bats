#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Recipes: config files, optimizers, augmentation, accumulation, targets, and their invariants.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 300 64; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 "${@:2}"
}

# At a higher rate Adadelta, which divides gradients by their size, amplifies rounding.
recipe=(--model mnist-cnn --batch 60 --optimizer adadelta --lr 0.03 --schedule plateau --augment-rotate 8
    --augment-shift 0.08 --augment-shear 0.3 --augment-zoom 0.08 --ema 0.9 --clip-norm 5 --weight-decay 1e-4)

@test "a config file: written, read, overridden by the command line, with line numbers in errors" {
    "$dptrain" train --print-config "${recipe[@]}" >"$BATS_TEST_TMPDIR/a.conf"
    "$dptrain" train --print-config --config "$BATS_TEST_TMPDIR/a.conf" | diff "$BATS_TEST_TMPDIR/a.conf" -
    "$dptrain" train --print-config --config "$BATS_TEST_TMPDIR/a.conf" --lr 0.25 --steps 7 --batch-per-rank 3 \
        >"$BATS_TEST_TMPDIR/b.conf"
    grep -qx 'lr = 0.25' "$BATS_TEST_TMPDIR/b.conf"
    grep -qx 'steps = 7' "$BATS_TEST_TMPDIR/b.conf"
    grep -qx 'batch-per-rank = 3' "$BATS_TEST_TMPDIR/b.conf"
    printf '# comment\nlr = 0.1\n\nlearning = 2\n' >"$BATS_TEST_TMPDIR/c.conf"
    run "$dptrain" train --config "$BATS_TEST_TMPDIR/c.conf"
    [ "$status" -eq 2 ]
    [[ $output == *"c.conf, line 4: unknown option"* ]]
    printf 'lr = 0.1\nlr = 0.2\n' >"$BATS_TEST_TMPDIR/d.conf"
    run "$dptrain" train --config "$BATS_TEST_TMPDIR/d.conf"
    [ "$status" -eq 2 ]
    [[ $output == *"line 2: lr is given twice"* ]]
    run "$dptrain" train --config "$BATS_TEST_TMPDIR/missing.conf"
    [ "$status" -eq 2 ]
    [[ $output == *"missing.conf: No such file"* ]]
}

@test "what contradicts the command line in a config file gives way; within one of them it is an error" {
    local conf=$BATS_TEST_TMPDIR/a.conf print=("$dptrain" train --print-config --config "$BATS_TEST_TMPDIR/a.conf")
    printf 'eval-every = 75s\neval-samples = 9\nkeep-best = true\ntarget = loss=0.1\n' >"$conf"
    "${print[@]}" --no-eval >"$conf.out"
    grep -qx 'eval = false' "$conf.out"
    [ "$(grep -Ec 'eval-every|eval-samples|keep-best = true|target =' "$conf.out")" -eq 0 ]
    "${print[@]}" --eval-every 2 | grep -x 'eval-every = 2'
    for typed in '--eval-every 75s' '--target loss=0.1' --keep-best; do
        printf 'eval = false\n' >"$conf"
        # shellcheck disable=SC2086 # words
        "${print[@]}" $typed >"$conf.out"
        [ "$(grep -c '^eval = false' "$conf.out")" -eq 0 ]
    done
    printf 'bn-group = 4\nwarmup = 2\n' >"$conf"
    "${print[@]}" --model mnist-cnn-bn --sync-bn --warmup-steps 3 >"$conf.out"
    [ "$(grep -Exc 'bn-group = 4|warmup = 2' "$conf.out")" -eq 0 ]
    run "${print[@]}" --no-eval --eval-every 3
    [ "$status" -eq 2 ]
    printf 'eval = false\neval-every = 3\n' >"$conf"
    run "${print[@]}"
    [ "$status" -eq 2 ]
    for warmup in 'warmup-steps = 50' 'warmup = 50'; do
        printf '%s\n' "$warmup" >"$conf"
        "$dptrain" train --config "$conf" --model lenet5 --data digits --steps 6 --no-eval --out "$out" --overwrite |
            grep '  rate .* after 1 step of warm-up'
        printf '%s\nsteps = 6\n' "$warmup" >"$conf"
        run "$dptrain" train --config "$conf" --model lenet5 --data digits --no-eval --out "$out" --overwrite
        [ "$status" -eq 2 ]
        [[ $output == *"--warmup"*"the whole run has 6"* ]]
    done
}

@test "the whole recipe: 1, 2 and 3 ranks give the same loss curve, including augmentation and dropout" {
    only_slow "takes 6 s, and cli/reproducible has such runs"
    # The fastest algorithms depend on a rank's share of the batch, and each rounds differently.
    for n in 1 2 3; do train "$n" "${recipe[@]}" --algorithms fixed --steps 2 --out "$out$n"; done
    close_curves "${out}1" "${out}2" 2e-6
    close_curves "${out}1" "${out}3" 2e-6
}

@test "resuming in the middle of an epoch with augmentation, dropout, Adadelta and a moving average is bit for bit" {
    train 2 "${recipe[@]}" --steps 9 --checkpoint-every 7 --out "$out"
    cp -r "$out" "$out-whole"
    rm "$out/ckpt-000000000009.h5"
    train 2 --out "$out" --resume auto
    cmp "$out/ckpt-000000000009.h5" "$out-whole/ckpt-000000000009.h5"
}

@test "accumulation gives the same step as one big batch" {
    train 0 "${recipe[@]}" --algorithms fixed --steps 2 --out "$out"
    for parts in 2 7; do
        train 0 "${recipe[@]}" --algorithms fixed --steps 2 --accumulate "$parts" --out "$out-$parts"
        close_curves "$out" "$out-$parts" 2e-6
    done
}

@test "every optimizer and schedule learns" {
    for optimizer in sgd nesterov adadelta adamw; do
        train 0 --model mlp --optimizer "$optimizer" --batch 30 --epochs 8 --out "$out-$optimizer"
        jq -es 'map(select(.record == "epoch")) | .[7].train_loss < .[0].train_loss / 2' "$out-$optimizer/metrics.jsonl"
    done
    for schedule in constant step cosine polynomial plateau; do
        train 0 --model mlp --schedule "$schedule" --batch 30 --epochs 2 --out "$out-$schedule"
        jq -es 'map(select(.record == "epoch")) | .[1].train_loss < .[0].train_loss' "$out-$schedule/metrics.jsonl"
    done
}

@test "reaching the target stops the run; missing it is exit code 1" {
    train 2 --model mlp --batch 30 --epochs 50 --target-accuracy 0.5 --out "$out"
    jq -es 'map(select(.record == "end")) | .[0].reason == "target reached" and .[0].step < 500' "$out/metrics.jsonl"
    run train 2 --model mlp --batch 30 --epochs 1 --target-accuracy 1 --out "$out" --overwrite
    [ "$status" -eq 1 ]
    [[ $output == *"was not reached: the best validation accuracy was"* ]]
}

@test "evaluation uses the moving average of the weights if there is one" {
    train 0 "${recipe[@]}" --steps 10 --out "$out"
    want=$(jq -r 'select(.record == "epoch") | .val_loss' "$out/metrics.jsonl" | tail -n 1)
    "$dptrain" eval "$out" --data "$tiny" --threads 1 >"$BATS_TEST_TMPDIR/eval"
    grep -q 'moving average' "$BATS_TEST_TMPDIR/eval"
    grep -qx "loss  *$(printf %.4f "$want")" "$BATS_TEST_TMPDIR/eval"
}

@test "invalid options" {
    check() { # PART-OF-THE-MESSAGE ARGUMENTS...
        run "$dptrain" train --data "$tiny" --out "$out" "${@:2}"
        echo "expected \"$1\", got $status: $output"
        [ "$status" -eq 2 ]
        [[ $output == *"$1"* ]]
    }
    check "expected one of" --optimizer adam
    check "out of range" --augment-zoom 2
    check "out of range" --ema 1
    check "whole run has" --warmup 3 --epochs 3
}

@test "the recipe script has help and passes its file on" {
    "$root/scripts/recipes/mnist_advanced.sh" --help | grep -q mnist_advanced.conf
    "$dptrain" train --config "$root/scripts/recipes/mnist_advanced.conf" --print-config | grep -qx 'optimizer = adadelta'
}
