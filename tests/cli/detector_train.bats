#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Training a detector: the same bits on any number of ranks, after a resume and from shards; records; bad input.
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
    # An image without an object to train on.
    export thin=$BATS_FILE_TMPDIR/thin
    cp -r "$coco" "$thin"
    jq '.annotations |= map(if .image_id == 10 then .bbox[2] = 1 else . end)' \
        "$coco/annotations/instances_train2017.json" >"$thin/annotations/instances_train2017.json"
}

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
}

# Settings of a run are variables, which tests change.
train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --model "${model:-fasterrcnn_resnet18_fpn}" --data "${data:-$coco}" --min-size 64 \
        --max-size "${max_size:-64}" --rpn-batch 32 --box-batch 16 --rpn-topk 100 --mask-block "${mask_block:-4}" --batch "${batch:-2}" \
        --threads 1 --out "$out" "${@:2}"
}

# All numbers of the training, to the last digit, that do not depend on the ranks.
curve() { # FOLDER
    jq -c 'select(.record == "step" or .record == "epoch") | del(.images, .gradients) |
        with_entries(select(.key | test("sec|share|images") | not))' "$1/metrics.jsonl"
}

same_state() { # CHECKPOINT CHECKPOINT
    local object
    for object in /params /states /optimizer; do h5diff "$1" "$2" "$object" "$object"; done
}

@test "--reproducible: the same bits on 1 and 2 ranks, and resumed on the other in the middle of an epoch" {
    local last=ckpt-000000000002.h5 one=$out-1 two=$out-2 model=maskrcnn_resnet18_fpn
    local options=(--reproducible 2 --norm batch --steps 2 --eval-samples 1 --checkpoint-every 1)
    out=$one train 0 "${options[@]}"
    "$dptrain" checkpoint show "$one" | grep "^mask_block  *4$"
    "$dptrain" checkpoint show "$one" | grep "^box_block  *64$"
    out=$two train 2 "${options[@]}"
    diff <(curve "$one") <(curve "$two")
    [ "$(curve "$one" | wc -l)" -eq 3 ]
    check_records "$one/metrics.jsonl"
    same_state "$one/$last" "$two/$last"
    rm "$two/$last"
    run on_ranks 0 train --data "$coco" --out "$two" --resume auto --max-size 96
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --max-size 96 (it was 64)"* ]]
    on_ranks 0 train --data "$coco" --out "$two" --resume auto
    same_state "$one/$last" "$two/$last"
    # The epoch's means include the step before the resume.
    diff <(curve "$one" | tail -n 1) <(curve "$two" | tail -n 1)
}

@test "1 and 4 ranks: the same losses within rounding, whatever images share a step" {
    [ -n "${DPTRAIN_TEST_SLOW:-}" ] || skip "the test before compares bits on 1 and 2 ranks; this is --slow"
    for n in 1 4; do
        out=$BATS_TEST_TMPDIR/$n batch=4 train "$n" --steps 2 --norm frozen --no-eval --log-every 1
    done
    close_curves "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/4" 1e-4
    # The images of a step, each on one rank.
    jq -es 'map(select(.record == "step")) | all((.images | length) == (if .step == 0 then 4 else 3 end))' "$BATS_TEST_TMPDIR/4/metrics.jsonl"
    images() { jq -c 'select(.images) | [.images[] | [.image, .canvas, .objects]] | sort' "$1/metrics.jsonl"; }
    diff <(images "$BATS_TEST_TMPDIR/1") <(images "$BATS_TEST_TMPDIR/4")
    jq -es 'map(select(.images)) | .[0].images | map(.rank) | sort == [0, 1, 2, 3]' "$BATS_TEST_TMPDIR/4/metrics.jsonl"
}

@test "a folder and its shards, 1 and 4 loader threads: the same bits" {
    [ -n "${DPTRAIN_TEST_SLOW:-}" ] || skip "tests/unit/test_detection_data compares the samples; this is --slow"
    "$dptrain" data pack --from "$coco" --out "$BATS_TEST_TMPDIR/shards" --shard-size 20K
    export model=maskrcnn_resnet18_fpn
    out=$out-folder train 0 --steps 2 --no-eval --loader-threads 1
    out=$out-shards data=$BATS_TEST_TMPDIR/shards train 0 --steps 2 --no-eval --loader-threads 4
    diff <(curve "$out-folder") <(curve "$out-shards")
}

@test "five losses and their sum, recall, average precision; the header names canvases and what is left out" {
    data=$thin
    run train 2 --steps 1 --norm batch --sync-bn --eval-samples 2 --target ap_box=0.99
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"6 training, 7 validation images, 2 categories"* ]]
    [[ $output == *"1 training image without objects left out"* ]]
    [[ $output == *"  canvas  "*"64x64 ("* ]]
    [[ $output == *"--target ap_box=0.99 was not reached: the best validation box AP was 0."* ]]
    jq -es 'map(select(.record == "step")) | all(
        (.loss - .loss_objectness - .loss_rpn_box_reg - .loss_classifier - .loss_box_reg | fabs) < 1e-5
        and .positives >= 1 and .loss_mask == null)' "$out/metrics.jsonl"
    check_records "$out/metrics.jsonl"
    jq -es 'map(select(.record == "epoch")) | length == 1 and all(.val_ap_box >= 0 and has("val_ap_large_box") and
        (has("val_ap_mask") or has("val_loss") | not))' "$out/metrics.jsonl"
}

fails() { # CODE WORDS RANKS ARGUMENTS...
    run train "${@:3}" --overwrite
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

@test "defaults of detectors: rate by the batch, warm-up, algorithms" {
    config() { "$dptrain" train --model maskrcnn_resnet18_fpn "$@" --print-config; }
    config --weights trunk.npz | grep -x 'lr = 0.02'
    config --weights trunk.npz | grep -x 'optimizer = sgd'
    # Without weights.
    config | grep -x 'lr = 0.0003'
    config | grep -x 'optimizer = adamw'
    config --optimizer sgd | grep -x 'lr = 0.02'
    config --lr 0.01 | grep -x 'optimizer = sgd'
    config --momentum 0.8 | grep -x 'lr = 0.02'
    config | grep -x 'algorithms = rule'
    config --batch 4 --optimizer sgd | grep -x 'lr = 0.005'
    config --batch 4 --optimizer adamw | grep -x 'lr = 0.001'
    # A printed configuration asks for no other run.
    config >"$BATS_TEST_TMPDIR/conf"
    config --config "$BATS_TEST_TMPDIR/conf" | diff "$BATS_TEST_TMPDIR/conf" -
    batch=1 train 0 --optimizer sgd --steps 4 --no-eval --checkpoint-every 3 >"$BATS_TEST_TMPDIR/said"
    grep '  rate    sgd, cosine from 0.00125 after 1 step of warm-up, seed 1' "$BATS_TEST_TMPDIR/said"
    "$dptrain" checkpoint show "$out" | grep 'warmup-steps = 1$'
    run "$dptrain" train --model lenet5 --algorithms rule
    [ "$status" -eq 2 ]
    [[ $output == *"--algorithms rule applies to detectors; lenet5 has"* ]]
    rm "$out"/ckpt-000000000004.h5
    on_ranks 0 train --data "$coco" --out "$out" --resume auto --algorithms measure --measure-time 0 >"$BATS_TEST_TMPDIR/said"
    grep '  rate    sgd, cosine from 0.00125 after 1 step of warm-up, seed 1' "$BATS_TEST_TMPDIR/said"
}

@test "norms: group without weights, the file's with group norm's; a warning where statistics are those of one image" {
    train 0 --steps 1 --lr 1e-6 >said
    grep '^ *norm group: ' said
    "$dptrain" checkpoint show "$out" | grep '^norm  *group$'
    "$dptrain" checkpoint export "$out" --out group.npz >/dev/null
    "$dptrain" eval "$out" --threads 1 --write-results . >said && mv bbox.json own.json
    "$dptrain" eval group.npz --model fasterrcnn_resnet18_fpn --data "$coco" --min-size 64 --max-size 64 --threads 1 --write-results . >said
    grep '^norm  *group$' said
    # The run's regions are computed in smaller blocks, and AVX2's sums depend on the number of rows.
    jq -es '(.[0] | length) > 100 and ([.[] | map(.image_id, .category_id)] | .[0] == .[1]) and
        ([.[] | map(.score, .bbox[] / 64)] | transpose | all(.[0] - .[1] | fabs < 1e-5))' own.json bbox.json
    out=$out-one train 0 --steps 1 --norm batch --no-eval >said 2>&1
    grep '^ *norm batch: ' said
    grep 'warning: batch norm has the statistics of one image' said
    [ -z "${DPTRAIN_TEST_SLOW:-}" ] || {
        out=$out-two train 0 --steps 1 --norm batch --micro-batch 2 --no-eval >said 2>&1
        [ "$(grep -c 'warning: batch norm' said)" -eq 0 ]
        out=$out-fine train 0 --steps 1 --weights group.npz --no-eval >said
        grep '^ *norm group: ' said
    }
}

@test "--skip-unmasked: objects without a segmentation are neither trained nor scored" {
    only_slow "unit tests have the parts"
    cp -r "$coco" bare
    local split
    for split in train val; do
        jq 'del(.annotations[3].segmentation)' "$coco/annotations/instances_${split}2017.json" \
            >"bare/annotations/instances_${split}2017.json"
    done
    data=$PWD/bare
    model=maskrcnn_resnet18_fpn fails 3 "--skip-unmasked leaves such objects out" 0
    model=maskrcnn_resnet18_fpn train 0 --skip-unmasked --steps 1 --lr 1e-6 >said 2>&1
    grep 'training: flipped at random, images with objects; without objects that have no segmentation' said
    grep 'warning: 1 of the 13 training objects have no segmentation, the first is annotation 4 of image 16: they are left out' said
    grep 'truth .*1 of 13 annotations left out (--skip-unmasked)' said
    "$dptrain" eval "$out" --threads 1 --json one.json >said
    grep 'truth .*1 of 13 annotations left out (--skip-unmasked)' said
    jq 'del(.annotations[3])' bare/annotations/instances_val2017.json >less.json && mv less.json bare/annotations/instances_val2017.json
    "$dptrain" eval "$out" --data bare --threads 1 --json two.json >said
    jq -es '.[0].bbox == .[1].bbox and .[0].segm == .[1].segm' one.json two.json
}

@test "bad input" {
    fails 2 "--accumulate does not apply to detectors" 0 --accumulate 2
    fails 2 "--bn-group does not apply to detectors" 0 --bn-group 2
    fails 2 "--task multilabel: fasterrcnn_resnet18_fpn is a detector" 0 --task multilabel
    model=resnet18 fails 2 "--trainable-layers applies to detectors" 0 --trainable-layers 3
    fails 2 "smaller than the 3 ranks" 3
    fails 2 "fasterrcnn_resnet18_fpn has no batch norm that is trained; add --norm batch" 2 --sync-bn --norm frozen
    fails 2 "add --norm batch" 2 --sync-bn
    fails 2 "the last one of an epoch has 1" 2 --sync-bn --norm batch
    max_size=32 fails 2 "--max-size" 0
    fails 2 ".png" 0 --canvas 64x32
    mask_block=6 fails 2 "expected a multiple of 4" 0
    fails 2 "evaluations of this task measure ap_box, " 0 --target loss=0.1
    # Without a checkpoint, the model is the default.
    run on_ranks 2 train --out "$BATS_TEST_TMPDIR/none" --resume auto --max-size 64
    [ "$status" -eq 2 ]
    [[ $output == *"--max-size applies to detectors"* ]]
    data=digits fails 2 "digits has no annotated objects" 0
    run "$dptrain" train --model resnet18 --task detect --data "$coco" --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--task detect needs a detector"* ]]
    cp -r "$coco" "$BATS_TEST_TMPDIR/bare"
    jq '.annotations |= map(del(.segmentation))' "$coco/annotations/instances_train2017.json" \
        >"$BATS_TEST_TMPDIR/bare/annotations/instances_train2017.json"
    data=$BATS_TEST_TMPDIR/bare
    model=maskrcnn_resnet18_fpn fails 3 "objects of $data have no segmentation, which maskrcnn_resnet18_fpn needs" 0
    [[ $output == *"annotation 1 of image 10; --skip-unmasked leaves such objects out"* ]]
    model=maskrcnn_resnet18_fpn fails 3 "has no training images with objects" 0 --skip-unmasked
    jq '.annotations |= map(.bbox[2] = 0.5)' "$coco/annotations/instances_train2017.json" \
        >"$BATS_TEST_TMPDIR/bare/annotations/instances_train2017.json"
    fails 3 "has no training images with objects: neither crowds nor objects outside of their image count" 0
    [[ $output == *"--keep-empty trains on images without objects"* ]]
}

# One image of 60 × 40, shown 40 × 60, or a copy that is stored upright, and a list of it.
turned_coco() { # FOLDER LIST'S-WIDTH HEIGHT BOX [upright]
    mkdir -p "$1/train2017" "$1/annotations"
    python3 - "$1/train2017/a.png" "${5:-}" <<'END'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def pixel(x, y):
    return (230, 40, 40) if 10 <= x < 30 and 5 <= y < 15 else (x, y, 160)
if sys.argv[2]:
    lines = [[pixel(y, 39 - x) for x in range(40)] for y in range(60)]
else:
    lines = [[pixel(x, y) for x in range(60)] for y in range(40)]
rows = b"".join(b"\0" + bytes(v for p in line for v in p) for line in lines)
exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 2, 0, 0, 0))
    + (b"" if sys.argv[2] else chunk(b"eXIf", exif)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
    jq -n --argjson width "$2" --argjson height "$3" --argjson box "$4" '{categories: [{id: 1, name: "red"}],
        images: [{id: 1, file_name: "a.png", $width, $height}],
        annotations: [{id: 1, image_id: 1, category_id: 1, iscrowd: 0, area: 200, bbox: $box}]}' \
        >"$1/annotations/instances_train2017.json"
}

@test "a photograph stored sideways: boxes as shown or as stored, by its size in the list; --exif-boxes" {
    only_slow "unit tests have the parts"
    local dir=$BATS_TEST_TMPDIR frame
    turned_coco "$dir/shown" 40 60 "[25, 10, 10, 20]"
    turned_coco "$dir/stored" 60 40 "[10, 5, 20, 10]"
    turned_coco "$dir/other" 30 20 "[5, 5, 10, 10]"
    turned_coco "$dir/upright" 40 60 "[25, 10, 10, 20]" upright
    for frame in upright shown stored; do
        data=$dir/$frame batch=1 out=$dir/o-$frame train 0 --steps 1 --no-eval >"$dir/$frame.txt"
        cat "$dir/$frame.txt"
        [ "$frame" = upright ] || grep "EXIF: 1 of 1 .*as $frame" "$dir/$frame.txt"
        (cd "$dir" && ln -sfn "$frame" set && "$dptrain" data show set --out "$frame.png")
    done
    [ -n "$(curve "$dir/o-upright")" ]
    for frame in shown stored; do
        [ "$(curve "$dir/o-$frame")" = "$(curve "$dir/o-upright")" ]
        cmp "$dir/$frame.png" "$dir/upright.png"
    done
    # What is found is in the list's pixels.
    for frame in upright shown stored; do
        "$dptrain" eval "$dir/o-upright" --data "$dir/$frame" --split train --score-threshold 0 --detections 3 --threads 1 \
            --write-results "$dir/r-$frame"
    done
    cmp "$dir/r-shown/bbox.json" "$dir/r-upright/bbox.json"
    [ "$(<"$dir/r-stored/bbox.json")" != "$(<"$dir/r-upright/bbox.json")" ]
    data=$dir/shown fails 3 "a.png" 0 --exif-boxes stored
    [[ $output == *"40 × 60"*"--exif-boxes"* ]]
    data=$dir/stored fails 3 "a.png" 0 --exif-boxes shown
    data=$dir/other fails 3 "60 × 40" 0
    [[ $output == *"40 × 60"*"30 × 20"* ]]
}

@test "a damaged image is replaced within --max-bad, a NaN names layer, step and image" {
    cp -r "$thin" "$BATS_TEST_TMPDIR/coco"
    printf 'x' >"$BATS_TEST_TMPDIR/coco/train2017/3.png"
    data=$BATS_TEST_TMPDIR/coco batch=4
    run train 2 --steps 2 --no-eval --max-bad 1 --keep-empty
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *3.png* && $output == *"7 training, 7 validation"* ]]
    run train 0 --steps 2 --no-eval --overwrite
    [ "$status" -eq 3 ]
    [[ $output == *3.png* ]]
    data=$coco batch=2
    run train 2 --lr 1e6 --warmup-steps 0 --steps 4 --no-eval --overwrite
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output =~ "not finite at step "[0-9]+": NaN or Inf first appears in the "(output of layer|parameter)" ".*" for image "[0-9]".png;" ]]
}
