#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Micro-batches of a detector: several ranks, shards, a resume, options that exclude each other.
# tests/unit/test_micro_batch compares losses and gradients.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

setup_file() {
    command -v python3 >/dev/null || return 0
    export coco=$BATS_FILE_TMPDIR/coco
    make_coco "$coco"
    cp -r "$coco/val2017" "$coco/train2017"
    cp "$coco/annotations/instances_val2017.json" "$coco/annotations/instances_train2017.json"
}

setup() {
    common_setup
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
}

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --model fasterrcnn_resnet18_fpn --data "$coco" --min-size 32 --max-size 64 --rpn-batch 32 \
        --box-batch 16 --rpn-topk 100 --threads 1 --no-eval --log-every 1 --out "$out" "${@:2}"
}

losses() { # FOLDER: of the steps, to the last digit
    jq -c 'select(.record == "step") | [.step, .loss, .loss_objectness, .loss_box_reg, .recall, .positives]' "$1/metrics.jsonl"
}

@test "records, and a resume with another number, whose algorithms the checkpoint lacks" {
    sizes() { h5dump -a algorithms "$out/ckpt-00000000000$1.h5" | grep -o 'conv2d float32 n=[0-9]*' | sort -u | cut -d ' ' -f 3 | xargs; }
    train 0 --norm frozen --batch 2 --steps 1
    [ "$(sizes 1)" = n=1 ]
    on_ranks 0 train --data "$coco" --out "$out" --resume auto --steps 2 --micro-batch 9 >"$BATS_TEST_TMPDIR/said"
    grep -F 'batch   2 (up to 2 per rank, 2 at a time)' "$BATS_TEST_TMPDIR/said"
    jq -es 'map(select(.record == "run") | [.micro_batch, .options["micro-batch"]]) == [[1, 0], [2, 9]]' "$out/metrics.jsonl"
    check_records "$out/metrics.jsonl"
    [ "$(sizes 2)" = "n=1 n=2" ]
}

# Canvases are mixed: two ranks have other passes, unless they agree.
@test "--sync-bn: ranks whose images have other canvases have the same passes" {
    [ -n "${DPTRAIN_TEST_SLOW:-}" ] || skip "tests/unit/test_micro_batch cuts passes where another rank's canvas changes; this is --slow"
    cp -r "$coco" "$BATS_TEST_TMPDIR/six"
    jq '.images |= .[:6] | .annotations |= map(select(.image_id != 28))' "$coco/annotations/instances_train2017.json" \
        >"$BATS_TEST_TMPDIR/six/annotations/instances_train2017.json"
    coco=$BATS_TEST_TMPDIR/six
    train 2 --norm batch --sync-bn --micro-batch 9 --batch 6 --steps 1
    jq -es 'map(select(.images)) | .[0].images | (map(.canvas) | unique | length > 1) and length == 6' "$out/metrics.jsonl"
}

@test "--reproducible: the same bits on 1, 2 and 4 ranks and resumed on another number; within rounding those of one image" {
    [ -n "${DPTRAIN_TEST_SLOW:-}" ] || skip "tests/unit/test_micro_batch compares passes of all sizes; this is --slow"
    local options=(--norm frozen --batch 7 --steps 2 --checkpoint-every 1 --reproducible 4)
    for n in 1 2 4; do
        out=$BATS_TEST_TMPDIR/$n train "$n" "${options[@]}" --micro-batch 2
    done
    diff <(losses "$BATS_TEST_TMPDIR/1") <(losses "$BATS_TEST_TMPDIR/2")
    diff <(losses "$BATS_TEST_TMPDIR/1") <(losses "$BATS_TEST_TMPDIR/4")
    h5diff "$BATS_TEST_TMPDIR/1/ckpt-000000000002.h5" "$BATS_TEST_TMPDIR/4/ckpt-000000000002.h5" /params /params
    rm "$BATS_TEST_TMPDIR/2/ckpt-000000000002.h5"
    on_ranks 1 train --data "$coco" --out "$BATS_TEST_TMPDIR/2" --resume auto
    h5diff "$BATS_TEST_TMPDIR/1/ckpt-000000000002.h5" "$BATS_TEST_TMPDIR/2/ckpt-000000000002.h5" /params /params
    for n in 1 2 4; do
        out=$BATS_TEST_TMPDIR/free-$n train "$n" --norm frozen --batch 7 --steps 1 --micro-batch "$n"
        jq -es --argjson n "$n" '.[0].micro_batch == ([$n, (7 / $n | ceil)] | min)' "$BATS_TEST_TMPDIR/free-$n/metrics.jsonl"
        paste <(jq 'select(.record == "step") | .loss' "$BATS_TEST_TMPDIR/1/metrics.jsonl" | head -n 1) \
            <(jq 'select(.record == "step") | .loss' "$BATS_TEST_TMPDIR/free-$n/metrics.jsonl") |
            awk '{ d = $1 / $2 - 1; if (d > 1e-5 || d < -1e-5) { print; exit 1 } }'
    done
}

fails() { # WORDS ARGUMENTS...
    run "$dptrain" train --data "$coco" --out "$out" "${@:2}"
    echo "expected 2 \"$1\", got $status: $output"
    [ "$status" -eq 2 ]
    [[ $output == *"$1"* ]]
}

@test "options that exclude each other" {
    local model=(--model fasterrcnn_resnet18_fpn)
    fails "--accumulate does not apply to detectors" "${model[@]}" --accumulate 2 --micro-batch 2
    [[ $output == *"--micro-batch N sets how many are computed at a time"* ]]
    fails "--bn-group does not apply to detectors" "${model[@]}" --bn-group 2 --micro-batch 2
    fails "--micro-batch" "${model[@]}" --micro-batch 65
    fails "--micro-batch" "${model[@]}" --micro-batch 0
    fails "--micro-batch applies to detectors" --model resnet18 --micro-batch 2
}
