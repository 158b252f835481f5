#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Lists of objects as other programs write them: ids, encodings, thin polygons, ignored objects. tests/unit/test_coco.c has
# the rest.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

setup_file() {
    command -v python3 >/dev/null || return 0
    export coco=$BATS_FILE_TMPDIR/coco list=annotations/instances_val2017.json
    make_coco "$coco"
    jq '.annotations | map({image_id, category_id, bbox, score: 0.9})' "$coco/$list" >"$BATS_FILE_TMPDIR/found.json"
    export found=$BATS_FILE_TMPDIR/found.json
}

setup() {
    common_setup
    [ -n "${coco:-}" ] || skip "python3 is not here, which makes the images"
}

# A copy of the data in which jq changed the list: prints its folder.
changed() { # NAME FILTER
    cp -r "$coco" "$BATS_TEST_TMPDIR/$1"
    jq "$2" "$coco/$list" >"$BATS_TEST_TMPDIR/$1/$list"
    echo "$BATS_TEST_TMPDIR/$1"
}

trains() { # FOLDER ARGUMENTS...
    run "$dptrain" train --model fasterrcnn_resnet18_fpn --min-size 32 --max-size 64 --rpn-topk 50 --box-batch 8 \
        --batch 1 --steps 1 --threads 1 --overwrite --out "$out" --data "$@"
}

ap() { "$dptrain" eval --results "$1" --data "$2" 2>/dev/null | awk '/^AP / { print $NF; exit }'; }

@test "ids that repeat or lack: kept for training, refused for scores, before a training begins" {
    local folder of=$BATS_TEST_TMPDIR
    for folder in "$(changed same '.annotations |= map(.id = 1)')" "$(changed none '.annotations |= map(del(.id))')"; do
        run "$dptrain" data show "$folder" --no-read
        [ "$status" -eq 0 ]
        [[ $output == *"$list"*annotations*id*"first: annotation"* ]]
        [[ $output != *skipped* ]]
        run "$dptrain" eval --results "$found" --data "$folder/$list"
        [ "$status" -eq 3 ]
        [[ $output == *"$list"*id*jq* ]]
        "$dptrain" data pack --from "$folder" --out "$folder-shards"
        run "$dptrain" eval --results "$found" --data "$folder-shards"
        [ "$status" -eq 3 ]
        mkdir "$folder/train2017"
        cp "$folder"/val2017/*.png "$folder/train2017"
        cp "$coco/$list" "$folder/annotations/instances_train2017.json"
        trains "$folder"
        [ "$status" -eq 3 ]
        [[ $output == *--no-eval* ]]
        run cat "$out/metrics.jsonl"
        [[ $output != *'"record":"step"'* ]]
    done
    # What the message says to type.
    jq '.annotations |= [to_entries[] | .value + {id: (.key + 1)}]' "$of/none/$list" >"$of/numbered.json"
    [ "$(ap "$found" "$of/numbered.json")" = 1.0000 ]
    mv "$of/same/$list" "$of/same/annotations/instances_train2017.json"
    rm -r "$of/same/val2017"
    trains "$of/same" --no-eval
    [ "$status" -eq 0 ]
    [[ $output == *"7 training"* ]]
}

@test "byte order marks, UTF-16 and gzip, in lists and in results" {
    local of=$BATS_TEST_TMPDIR from name
    for from in "$coco/$list" "$found"; do
        name=$of/$(basename "$from")
        { printf '\xef\xbb\xbf'; cat "$from"; } >"$name.bom"
        iconv -f UTF-8 -t UTF-16 "$from" >"$name.utf16"
        gzip -c "$from" >"$name.gz"
    done
    for from in bom utf16 gz; do
        [ "$(ap "$of/found.json.$from" "$of/instances_val2017.json.$from")" = 1.0000 ]
    done
    head -c 200 "$of/found.json.gz" >"$of/cut.gz"
    run "$dptrain" eval --results "$of/cut.gz" --data "$coco/$list"
    [ "$status" -eq 3 ]
    [[ $output == *cut.gz*gzip* ]]
}

@test "boxes stay where polygons have two points, and objects to be ignored count in scores" {
    local folder
    folder=$(changed thin '.annotations |= map(.segmentation = [[.bbox[0], .bbox[1], .bbox[0] + 5, .bbox[1] + 5]])')
    run "$dptrain" data show "$folder" --no-read
    [[ $output == *"fewer than 3 points"*"first: annotation 1"* && $output != *skipped* ]]
    [ "$(ap "$found" "$folder")" = 1.0000 ]
    folder=$(changed ignored '.annotations[0].ignore = 1 | .annotations[0] |= del(.area)')
    run "$dptrain" data show "$folder" --no-read
    [[ $output == *'"ignore": 1'*area* ]]
    "$dptrain" data pack --from "$folder" --out "$folder-shards"
    [ "$(ap "$found" "$folder")" = 1.0000 ]
    [ "$(ap "$found" "$folder-shards")" = 1.0000 ]
    run "$dptrain" eval --results "$found" --data "$folder/$list"
    [[ $output == *"warning: "*"$list: 1 annotation has no area"* ]]
}
