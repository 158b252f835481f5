#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Evaluating and predicting with a detector: the same bytes on any number of ranks and from shards, files of results
# and pictures; bad input. Weights are random, so the numbers mean nothing.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

# Another folder with the same images, its annotations changed by jq.
change() { # FILTER FOLDER
    mkdir -p "$2/annotations"
    cp -r "$coco/val2017" "$2"
    jq "$1" "$coco/annotations/instances_val2017.json" >"$2/annotations/instances_val2017.json"
}

setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    export coco=$BATS_FILE_TMPDIR/coco weights=$BATS_FILE_TMPDIR/mask.npz
    make_coco "$coco"
    "$root/build/tests/tools/detector_weights" maskrcnn_resnet18_fpn 3 "$weights"
}

setup() {
    common_setup
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
    cd "$BATS_TEST_TMPDIR" || return
    sizes=(--min-size 32 --max-size 64 --detections 10)
    mask=(--model maskrcnn_resnet18_fpn "${sizes[@]}" --device cpu --threads 1)
}

fails() { # CODE WORDS ARGUMENTS...
    run "$dptrain" "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

@test "the same bytes on 1 and 3 ranks, from shards, and of images alone; the files score alike" {
    for n in 0 3 ${DPTRAIN_TEST_SLOW:+2}; do
        on_ranks "$n" eval "$weights" --data "$coco" "${mask[@]}" --json "$n.json" --write-results "r$n" >"said$n"
        cmp 0.json "$n.json"
        diff -r r0 "r$n"
    done
    grep -q '^model .*maskrcnn_resnet18_fpn, 3 classes: the background, and 2 categories by their ids' said0
    grep -q '^canvases .*32x64\|^canvases .*64x32' said0
    [ "$(jq length r0/bbox.json)" -gt 30 ]
    "$dptrain" data pack --from "$coco" --out shards --shard-size 4K >/dev/null
    "$dptrain" eval "$weights" --data shards "${mask[@]}" --write-results rs --per-category >said
    diff -r r0 rs
    grep -q '^dog ' said
    "$dptrain" eval --results r0/bbox.json r0/segm.json --data "$coco" --json scored.json >/dev/null
    jq -e --slurpfile one 0.json '.bbox == $one[0].bbox and .segm == $one[0].segm' scored.json
    jq -e '.n_samples == 7 and .bbox.AP > -1' 0.json
    # Images alone: what evaluation finds, with names; pictures and lines.
    "$dptrain" predict "$weights" "$coco/val2017" "${mask[@]}" --data "$coco" --out shown --threshold 0.2 >said
    [ "$(find shown -name '*.png' | wc -l)" -eq 7 ]
    [ "$(wc -l <shown/predictions.json)" -eq 7 ]
    jq -s 'map(.objects[]) | map({score, bbox})' shown/predictions.json >predicted
    jq 'map({score, bbox})' r0/bbox.json | cmp - predicted
    jq -se '.[0].width == 96 and .[0].height == 64 and (.[0].objects[0] | .segmentation.size == [64, 96] and
            (.name == "cat" or .name == "dog"))' shown/predictions.json
    "$dptrain" predict "$weights" "$coco/val2017/3.png" "${mask[@]}" --canvas exact --json one.json >said
    grep -q '^canvases .*32x32 ' said
    jq -e '.objects[0] | has("name") | not' one.json
}

@test "boxes alone; annotations beside detections" {
    "$dptrain" eval "$weights" --data "$coco" "${mask[@]}" --score bbox --json b.json --png sheet.png --worst 3 >said
    jq -e '.segm == null and .bbox.AP > -1' b.json
    grep -q '^image .*sheet.png, 3 worst images' said
    [ "$(head -c 4 sheet.png | tail -c 3)" = PNG ]
    # A detector that finds nothing, as in its first epochs; and an object with id 0, which is named once.
    mkdir zero zero/annotations
    cp -r "$coco/val2017" zero
    jq '.annotations[].id -= 1' "$coco/annotations/instances_val2017.json" >zero/annotations/instances_val2017.json
    "$dptrain" eval "$weights" --data zero "${mask[@]}" --score-threshold 1 --write-results none --json none.json >said 2>&1
    [ "$(grep -c 'warning: annotation id 0 ' said)" -eq 1 ]
    "$dptrain" eval --results none/bbox.json none/segm.json --data "$coco" --json scored.json >said
    jq -e --slurpfile one none.json '.bbox.AP == 0 and .segm.AP == 0 and .bbox == $one[0].bbox and .segm == $one[0].segm' scored.json
}

@test "bad input" {
    fails 2 "finds no masks" eval "$weights" --data "$coco" --model fasterrcnn_resnet18_fpn "${sizes[@]}" --score segm
    fails 2 "--data SRC" eval "$weights" "${mask[@]}"
    fails 2 "--input-size does not apply to detectors" eval "$weights" "${mask[@]}" --data "$coco" --input-size 64
    fails 2 "--min-size applies to detectors" eval "$weights" --model resnet18 --data "$coco" --min-size 64
    fails 2 "invalid --canvas 'big'" eval "$weights" "${mask[@]}" --data "$coco" --canvas big
    fails 2 "none holds the image 1.png" eval "$weights" "${mask[@]}" --data "$coco" --canvas 32x64
    fails 2 "--min-size 800 exceeds --max-size 32" eval "$weights" --model maskrcnn_resnet18_fpn --data "$coco" --max-size 32
    fails 3 "has 3 classes, the background included, but the categories of three make 4" eval "$weights" "${mask[@]}" --data "$(three)"
    fails 3 "use --score bbox" eval "$weights" "${mask[@]}" --data "$(bare)"
    fails 3 "has 3 classes" predict "$weights" "$coco/val2017/0.png" "${mask[@]}" --data "$(three)"
    fails 2 "--top does not apply to detectors" predict "$weights" "$coco/val2017/0.png" "${mask[@]}" --top 3
}

three() { change '.categories += [{"id": 3, "name": "cow", "supercategory": ""}]' three && echo three; }
bare() { change '.annotations[0] |= del(.segmentation)' bare && echo bare; }

@test "images that cannot be read or are too narrow are named; the others are predicted" {
    mkdir few
    cp "$coco/val2017/0.png" few
    head -c 200 "$coco/val2017/1.png" >few/cut.png
    printf 'P' >few/empty.jpg
    python3 - <<'END'
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
with open("few/thin.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 90, 20, 8, 0, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(bytes(91 * 20))) + chunk(b"IEND", b""))
END
    run "$dptrain" predict "$weights" few "${mask[@]}" --json all.json
    [ "$status" -eq 3 ]
    [[ $output == *"3 of 4 images could not be predicted"* && $output == *"thin.png"*"at least 32"* ]]
    jq -se 'length == 4 and (map(select(.error)) | length) == 3 and (map(select(.objects)) | length) == 1' all.json
}
