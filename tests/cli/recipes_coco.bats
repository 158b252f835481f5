#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The recipes for COCO's detectors. Here their files are read, and with --slow each trains two steps of small images from
# COCO's first images; whole runs need GPUs and days.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

detectors=(coco_maskrcnn_1x coco_maskrcnn_aws coco_fasterrcnn coco_trunk_detector)

setup() {
    common_setup
    recipes=$root/scripts/recipes
    coco=${DPTRAIN_DATA:-}/coco_tiny
    cd "$BATS_TEST_TMPDIR" || return
}

config_has() { # FILE 'KEY = VALUE'...
    local line
    for line in "${@:2}"; do grep -qx "$line" "$1" || { echo "no '$line' in $1"; return 1; }; done
}

@test "every file is read; its sums are those of its source" {
    for name in "${detectors[@]}" coco_trunk_crops; do
        "$dptrain" train --config "$recipes/$name.conf" --print-config >"$name"
    done
    config_has coco_maskrcnn_1x 'model = maskrcnn_resnet50_fpn' 'weights = resnet50.npz' 'batch = 16' 'epochs = 26' \
        'lr = 0.02' 'lr-milestones = 16,22' 'warmup-steps = 1000' 'warmup-from = 0.001' 'weight-decay = 0.0001' \
        'decay-all = true' 'min-size = 800' 'max-size = 1333' 'task = detect'
    # The same but for masks.
    diff <(sed 's/^model = maskrcnn/model = fasterrcnn/' coco_maskrcnn_1x) coco_fasterrcnn
    # 0.00125 for each of 32 · 4 images.
    config_has coco_maskrcnn_aws 'batch = 128' 'epochs = 24' 'lr = 0.16' 'lr-milestones = 16,20' 'clip-norm = 0.36' \
        'decay-all = false'
    config_has coco_trunk_crops 'task = crops' 'model = resnet18'
    config_has coco_trunk_detector 'norm = frozen' 'trainable-layers = 3'
}

@test "the trunk's script: help, what it refuses, and three stages that continue where they were stopped" {
    "$recipes/coco_trunk.sh" --help | grep -q coco_trunk_detector.conf
    run "$recipes/coco_trunk.sh" --epochs 3
    [ "$status" -eq 2 ]
    [[ $output == *"unknown option '--epochs'"* ]]
    run "$recipes/coco_trunk.sh" -np 2
    [ "$status" -eq 2 ]
    [[ $output == *"--data DIR is missing"* ]]
    only_slow "training takes half a minute"
    [[ -d $coco ]] || skip "no $coco"
    crops=(--input-size 96 --batch 16 --steps 2 --warmup 0 --eval-samples 16 --algorithms fixed --threads 1)
    detector=(--min-size 64 --max-size 96 --batch 2 --warmup-steps 0 --box-batch 32 --no-eval --threads 1)
    three=("$recipes/coco_trunk.sh" -np 2 --data "$coco" --out ct --crops "${crops[@]}" --detector "${detector[@]}")
    "${three[@]}" --steps 1 >said
    grep -q 'only the trunk is imported' said
    [ -e ct/trunk.npz ]
    "${three[@]}" --steps 2 >again
    run grep -c crops again
    [ "$output" = 0 ]
    jq -es 'map(select(.record == "step").step) == [0, 1]' ct/detector/metrics.jsonl
}

@test "two steps of every detector, from a trunk's weights" {
    only_slow "takes minutes"
    [[ -d $coco ]] || skip "no $coco"
    not_with_sanitizers
    for net in resnet18 resnet50; do
        "$dptrain" train --task crops --model "$net" --data "$coco" --input-size 96 --batch 4 --steps 1 --no-eval \
            --algorithms fixed --threads 1 --out "$net"
        "$dptrain" checkpoint export "$net" --out "$net.npz"
        rm -r "$net"
    done
    for name in "${detectors[@]}"; do
        weights=$(sed -n 's/^weights = //p' "$recipes/$name.conf")
        on_ranks 2 train --config "$recipes/$name.conf" --data "$coco" --weights "${weights:-resnet18.npz}" --batch 4 \
            --steps 2 --warmup-steps 1 --min-size 64 --max-size 96 --box-batch 32 --eval-samples 2 --threads 1 --out run >said
        grep -q 'only the trunk is imported' said
        jq -es 'map(select(.record == "step")) | length == 2 and all(.[]; .loss > 0 and .loss_box_reg > 0)' run/metrics.jsonl
        jq -es 'map(select(.record == "epoch")) | .[0].val_ap_box >= 0' run/metrics.jsonl
        rm -r run
    done
}
