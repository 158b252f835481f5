#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Detectors of TensorPack and Detectron2: they find what these programs find, are trained further and exported.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    export coco=$BATS_FILE_TMPDIR/coco weights=$BATS_FILE_TMPDIR/tensorpack.npz
    make_coco "$coco"
    cp -r "$coco/val2017" "$coco/train2017"
    cp "$coco/annotations/instances_val2017.json" "$coco/annotations/instances_train2017.json"
    "$root/build/tests/tools/detector_weights" maskrcnn_resnet18_fpn 81 "$weights" tensorpack
}

setup() {
    common_setup
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    cd "$BATS_TEST_TMPDIR" || return
    sizes=(--min-size 32 --max-size 64 --device cpu --threads 1)
    mask=(--model maskrcnn_resnet18_fpn --weights-names tensorpack "${sizes[@]}")
}

need_coco() {
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
}

# The objects that predict finds are those that the same arithmetic in NumPy finds.
finds_its_own() { # STYLE NAMES
    "$python" -c 'import numpy, pycocotools' 2>/dev/null ||
        skip "numpy or pycocotools is not in ${python%/bin/python}; scripts/install_deps.sh --test installs them"
    "$python" "$root/tests/cli/foreign_detector.py" make "$1" .
    "$dptrain" predict weights.npz image.png --model maskrcnn_resnet50_fpn --weights-names "$2" --data list.json \
        --min-size 160 --max-size 224 --detections 20 --json found.json --device cpu | tee said
    grep -q "^heads *$2: " said
    "$python" "$root/tests/cli/foreign_detector.py" check "$1" found.json
    rm weights.npz
}

@test "a detector of TensorPack finds what it finds there" {
    finds_its_own tensorpack tensorpack
    ! grep -q "MSRA" said
}

@test "a detector of Detectron2, its trunk of MSRA" {
    only_slow "TensorPack takes the same paths"
    finds_its_own detectron2 detectron2
    grep -q "^trunk *MSRA's" said
}

@test "a detector of Detectron2, its trunk of torchvision" {
    [ -n "${DPTRAIN_TEST_SLOW:-}" ] || skip "differs from the one before by its trunk, which is torchvision's (--slow)"
    finds_its_own detectron2-rgb detectron2
    ! grep -q "MSRA" said
}

@test "trained further on other classes, evaluated and exported" {
    need_coco
    "$dptrain" train --data "$coco" --weights "$weights" "${mask[@]}" --batch 2 --box-batch 64 --rpn-topk 200 --steps 2 --no-eval --out run 2>&1 | tee said
    grep -q "heads tensorpack" said
    grep -q "weights .*, name table tensorpack; .*mask_fcn_logits are reinitialized: 'fastrcnn/outputs/class/W' is" said
    "$dptrain" eval run --data "$coco" --device cpu --threads 1 --score-threshold 0.01 --write-results own | tee said
    grep -q "^heads *tensorpack" said
    "$dptrain" checkpoint export run --out back.npz --names tensorpack
    "$dptrain" eval back.npz --data "$coco" "${mask[@]}" --score-threshold 0.01 --write-results back
    [ "$(jq length own/segm.json)" -gt 0 ]
    cmp own/segm.json back/segm.json
    run "$dptrain" checkpoint export run --out other.npz
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"heads of tensorpack"*"--names tensorpack"* ]]
}

@test "81 outputs are the rows of 80 categories, whatever their ids, also in a resumed run" {
    need_coco
    cp -r "$coco" ids
    for list in train val; do
        jq '.categories = [range(1; 91) | select(. % 9 != 0) | {id: ., name: "kind \(.)"}]' \
            "$coco/annotations/instances_${list}2017.json" >"ids/annotations/instances_${list}2017.json"
    done
    "$dptrain" train --data ids --weights "$weights" "${mask[@]}" --batch 2 --box-batch 64 --rpn-topk 200 --steps 1 --no-eval --out run | tee said
    grep -q "weights .*, name table tensorpack$" said
    "$dptrain" train --resume run --out run --steps 2 | tee said
    grep -q "heads tensorpack" said
    "$dptrain" predict run ids/val2017/0.png --device cpu | tee said
    grep -q "81 classes: the background, and 80 categories by their rows" said
    # 64.5 pixels are 65.
    small=(--min-size 43 --max-size 96 --canvas exact --device cpu)
    "$dptrain" predict run ids/val2017/0.png "${small[@]}" | grep "^canvases *64x96 "
    "$dptrain" predict "$weights" ids/val2017/0.png --model maskrcnn_resnet18_fpn --weights-names tensorpack "${small[@]}" |
        grep "^canvases *64x96 "
    # Names of another program are told apart.
    run "$dptrain" eval "$weights" --data ids --model maskrcnn_resnet18_fpn "${sizes[@]}"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"no array 'roi_heads.box_predictor.cls_score.bias'"*"--weights-names tensorpack"* ]]
}
