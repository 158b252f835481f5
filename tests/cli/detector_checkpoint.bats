#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Checkpoints of detectors: evaluation has the bits of the run's own, on any number of ranks; predicting with the names of
# the classes; options and data that do not fit.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

# The objects of the set are a part of what the weights find, so that the numbers are not 0.
setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    cd "$BATS_FILE_TMPDIR" || return
    export coco=$PWD/coco run=$PWD/run digits=$PWD/digits
    local list=coco/annotations/instances_val2017.json sizes=(--min-size 32 --max-size 64 --threads 1)
    make_coco coco
    "$root/build/tests/tools/detector_weights" fasterrcnn_resnet18_fpn 3 box.npz
    "$dptrain" eval box.npz --model fasterrcnn_resnet18_fpn --data coco "${sizes[@]}" --write-results . >said
    jq --slurpfile found bbox.json '.annotations = [$found[0] | to_entries[] | select(.key % 5 == 0) | .key as $k | .value |
        {id: ($k + 1), iscrowd: 0, area: (.bbox[2] * .bbox[3]), image_id, category_id, bbox}]' "$list" >part.json
    mv part.json "$list"
    cp -r coco/val2017 coco/train2017
    cp "$list" coco/annotations/instances_train2017.json
    "$dptrain" train --model fasterrcnn_resnet18_fpn --weights box.npz --data "$coco" "${sizes[@]}" --norm batch \
        --trainable-layers 3 --batch 2 --steps 1 --box-batch 32 --lr 1e-5 --momentum 0 --out "$run" >said
    "$dptrain" train --model lenet5 --data digits --steps 1 --batch 8 --no-eval --threads 1 --out "$digits" >said
}

setup() {
    common_setup
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
    cd "$BATS_TEST_TMPDIR" || return
}

fails() { # CODE WORDS ARGUMENTS...
    run "$dptrain" "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

# The set with its list of validation images changed by jq.
change() { # FILTER FOLDER
    mkdir -p "$2/annotations"
    cp -r "$coco/val2017" "$2"
    jq "$1" "$coco/annotations/instances_val2017.json" >"$2/annotations/instances_val2017.json"
}

@test "the numbers of the run's own evaluation, on 1 and 2 ranks" {
    for n in 1 2; do on_ranks "$n" eval "$run" --threads 1 --json "$n.json" >"said$n"; done
    cmp 1.json 2.json
    jq -se 'map(select(.val_ap_box != null)) | last | [.val_ap_box, .val_ap50_box, .val_ap_small_box]' "$run/metrics.jsonl" >own
    jq -e '.bbox | [.AP, .AP50, .APs]' 1.json | cmp - own
    jq -e '.bbox.AP > 0 and .matches_training_data and .n_samples == 7' 1.json
    grep -q '^checkpoint .*ckpt-000000000001.h5$' said1
    grep -q '^model .*fasterrcnn_resnet18_fpn, 3 classes: ' said1
    grep -q '^canvases .*32x64' said1
    "$dptrain" eval "$run" --canvas 128x128 --detections 5 --json few.json --split train >said
    grep -q '^canvases .*128x128 ' said
    jq -e '.n_detections == 35 and .split == "train"' few.json
}

@test "a frozen part and the classes are in the file" {
    "$dptrain" checkpoint show "$run" >said
    grep -q '^norm  *batch$' said
    grep -q '^frozen_layers  *backbone.body.conv1,backbone.body.bn1,backbone.body.layer1' said
    grep -q '^category_ids  *1 2$' said
}

@test "objects with their names, with and without the data; of weights, by the file beside them" {
    "$dptrain" predict "$run" "$coco/val2017/0.png" --threads 1 --json one.json --threshold 0.1 >said
    "$dptrain" predict "$run" "$coco/val2017/0.png" --threads 1 --json two.json --data "$coco" >/dev/null
    cmp one.json two.json
    grep -q '^  0\.[0-9]*  \(cat\|dog\), ' said
    jq -e '.objects | length > 10 and all(.name == (if .category_id == 1 then "cat" else "dog" end))' one.json
    "$dptrain" checkpoint export "$run" --out own.safetensors | grep "MaskRCNN\|FasterRCNN(resnet_fpn_backbone(backbone_name='resnet18', weights=None), 3)$"
    "$dptrain" predict own.safetensors "$coco/val2017/0.png" --model fasterrcnn_resnet18_fpn --min-size 32 --max-size 64 --threads 1 \
        --json two.json | grep '^classes  *own.classes.txt$'
    jq -e '.objects | length > 0 and all(.name == (if .category_id == 1 then "cat" else "dog" end))' two.json
}

@test "options of the other kind of model" {
    fails 2 "--min-size applies to detectors such as maskrcnn_resnet50_fpn, not to lenet5" eval "$digits" --min-size 64
    fails 2 "--per-category requires" eval "$digits" --per-category
    fails 2 "--threshold applies to detectors such as maskrcnn_resnet50_fpn, not to lenet5" predict "$digits" "$coco/val2017/0.png" --threshold 0.1
    fails 2 "--loader-threads does not apply to detectors such as fasterrcnn_resnet18_fpn" eval "$run" --loader-threads 1
    fails 2 "fasterrcnn_resnet18_fpn is a detector" checkpoint export "$run" --out net.onnx
    fails 2 "--top does not apply to detectors such as fasterrcnn_resnet18_fpn" predict "$run" "$coco/val2017/0.png" --top 1
    fails 2 "--model applies to weights" eval "$run" --model fasterrcnn_resnet18_fpn
    fails 2 "--min-size 128 exceeds --max-size 64" eval "$run" --min-size 128
    fails 2 "finds no masks" eval "$run" --score segm
}

@test "an image that cannot be read ends an evaluation, or has no detections" {
    change . torn
    printf x >torn/val2017/3.png
    fails 3 "torn/val2017/3.png is neither" eval "$run" --data torn
    [[ $output == *"(--max-bad N goes on without up to N such images)"* ]]
    fails 0 "; it counts as an image without detections" eval "$run" --data torn --max-bad 1 --nms 1 --json torn.json
    jq -e '.n_samples == 7 and .n_detections == 600' torn.json
}

@test "data with other classes, or gone" {
    change '.categories[1].id = 4 | .annotations = []' other
    change '.categories += [{"id": 3, "name": "cow"}]' more
    change '.categories[1].name = "wolf"' renamed
    fails 3 "finds objects of category 2 (dog), which other does not have" eval "$run" --data other
    fails 3 "finds objects of 2 categories, but more has 3" eval "$run" --data more
    fails 3 "finds objects of 2 categories, but more has 3" predict "$run" "$coco/val2017/0.png" --data more
    fails 0 "category 2 is wolf in renamed, but was dog" eval "$run" --data renamed --json renamed.json
    change '.categories |= [.[0] + {name: .[1].name}, .[1] + {name: .[0].name}]' swapped
    fails 3 "cat is 2, in the model 1" eval "$run" --data swapped
    jq -e '.matches_training_data == false' renamed.json
    fails 3 "--split val evaluates the others" eval "$run" --data renamed --split train
    mv "$coco" "$coco-gone"
    run "$dptrain" eval "$run"
    mv "$coco-gone" "$coco"
    [ "$status" -eq 3 ]
    [[ $output == *"was trained on $coco, which is not here; give --data"* ]]
}
