#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --precision bf16: products of operands rounded to bfloat16, everything else as in fp32.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 600 140; }

small_run() { # N FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model lenet5 --steps 12 --batch 50 --threads 1 --out "$2" "${@:3}"
}

accuracy() { # FOLDER
    "$dptrain" eval "$1" --threads 1 | sed -n 's/^accuracy *//p'
}

# An operand's relative error is at most 2^-8, and the loss begins at ln 10. Measured over three seeds, the largest
# difference in the first two steps: 1e-4 from fp32, and 2e-7 between 1 and 2 ranks, where a float's last bit can decide to
# which bfloat16 it goes. Later steps have ties in max pooling, too.
@test "the loss curve is near that of fp32 and not the same, on any number of ranks" {
    small_run 2 "$out-fp32"
    small_run 2 "$out-bf16" --precision bf16 | grep '^  model .*, bf16$'
    far=$(distance "$out-fp32" "$out-bf16" 2)
    echo "from fp32: $far"
    between 1e-6 "$far" 0.002
    small_run 0 "$out-one" --precision bf16
    near=$(distance "$out-bf16" "$out-one" 2)
    echo "on one rank: $near"
    between -1 "$near" 0.0005
    jq -es 'map(select(.record == "run")) | length == 1 and .[0].options.precision == "bf16"' \
        "$out-bf16/metrics.jsonl"
}

@test "a resumed run keeps its precision, and rejects another" {
    small_run 0 "$out" --precision bf16 --checkpoint-every 6 --keep 9
    mkdir "$out-again"
    cp "$out/ckpt-000000000006.h5" "$out-again"
    on_ranks 0 train --data "$tiny" --resume auto --threads 1 --out "$out-again" | grep '^  model .*, bf16$'
    h5diff "$out/ckpt-000000000012.h5" "$out-again/ckpt-000000000012.h5" /params /params
    run on_ranks 0 train --data "$tiny" --resume auto --out "$out" --precision fp32
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --precision fp32 (it was bf16)"* ]]
    run on_ranks 0 train --data "$tiny" --precision fp8 --out "$out-x"
    [ "$status" -eq 2 ]
    [[ $output == *"bf16"* ]]
}

@test "eval computes in the precision of training, on every rank" {
    small_run 0 "$out" --precision bf16
    for n in 1 3; do
        on_ranks "$n" eval "$out" --threads 1 >"$BATS_TEST_TMPDIR/text$n"
        grep '^precision  *bf16' "$BATS_TEST_TMPDIR/text$n"
    done
    diff "$BATS_TEST_TMPDIR/text1" "$BATS_TEST_TMPDIR/text3"
    # Equal to the run's last evaluation to the last bit.
    on_ranks 2 eval "$out" --threads 1 --json "$BATS_TEST_TMPDIR/eval.json"
    jq -r 'select(.record == "epoch") | [.val_loss, .val_accuracy] | @text' "$out/metrics.jsonl" | tail -1 >"$BATS_TEST_TMPDIR/want"
    jq -r '[.loss, .accuracy] | @text' "$BATS_TEST_TMPDIR/eval.json" | diff "$BATS_TEST_TMPDIR/want" -
}

@test "--reproducible gives the same bits on 1 and 2 ranks" {
    for n in 1 2; do small_run "$n" "$out$n" --precision bf16 --reproducible 2; done
    diff <(losses "${out}1") <(losses "${out}2")
    h5diff "${out}1/ckpt-000000000012.h5" "${out}2/ckpt-000000000012.h5" /params /params
}

# The mean of three seeds, because the accuracy of a single run varies nearly as much as the tolerance.
@test "LeNet-5 on MNIST: an epoch reaches the accuracy of fp32 within 0.1 point" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes minutes; scripts/test.sh --slow"
    [[ -d ${DPTRAIN_DATA:-}/mnist ]] || skip "no MNIST at \$DPTRAIN_DATA/mnist"
    for seed in 1 2 3; do
        for p in fp32 bf16; do
            on_ranks 2 train --data "$DPTRAIN_DATA/mnist" --epochs 1 --seed "$seed" --threads 1 --precision "$p" \
                --out "$out-$p-$seed"
        done
        echo "$(accuracy "$out-fp32-$seed") $(accuracy "$out-bf16-$seed")" >>"$BATS_TEST_TMPDIR/accuracies"
    done
    cat "$BATS_TEST_TMPDIR/accuracies"
    between -0.001 "$(awk '{ sum += $2 - $1 } END { print NR == 3 ? sum / NR : 1 }' "$BATS_TEST_TMPDIR/accuracies")" 0.001
}
