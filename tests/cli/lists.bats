#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Lists of objects in other layouts than COCO's: what the commands' headers say, and what they leave out. The layouts themselves are
# tested by tests/unit/test_source_coco.c.
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco
bats_require_minimum_version 1.5.0

setup_file() {
    common_setup
    command -v python3 >/dev/null || skip "python3 is not here, which makes the images"
    export tool=$BATS_FILE_TMPDIR/tool # Label Studio's layout
    make_coco "$BATS_FILE_TMPDIR/coco"
    mkdir "$tool"
    mv "$BATS_FILE_TMPDIR/coco/val2017" "$tool/images"
    jq '.images[].file_name |= "..\\upload\\1\\" + .' "$BATS_FILE_TMPDIR/coco/annotations/instances_val2017.json" >"$tool/result.json"
}

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
}

# The exit code, and words of the output.
says() { # CODE WORDS COMMAND...
    run -"$1" "$dptrain" "${@:3}"
    echo "$output"
    [[ $output == *$2* ]]
}

@test "train, eval, data show and data pack say which list they read" {
    local lists='training images/ (result.json), no validation list'
    says 0 "$lists" train --data "$tool" --model mlp --input-size 16 --batch 4 --steps 1 --threads 1 --out run
    [[ $output == *"7 names differ"* && $output == *"validation uses the training images"* ]]
    says 3 "--split train" eval run
    echo '[]' >none.json
    says 3 "--split train" eval --results none.json --data "$tool"
    says 0 "$lists" eval run --split train
    says 0 "$lists" eval run --split train --data "$tool/result.json"
    echo '[{"image_id": 10, "category_id": 1, "bbox": [1, 1, 9, 9], "score": 1}]' >found.json
    says 3 "--split train" eval --results found.json --data "$tool"
    says 0 "AP50" eval --results found.json --data "$tool" --split train
    says 0 "$lists" data show "$tool" --no-read
    says 0 "$lists" data pack --from "$tool" --out shards
    says 3 "--data $tool" data show "$tool/images"
}

@test "missing images: refused, replaced up to --max-bad, or left out" {
    cp -r "$tool" some
    rm some/images/3.png
    local train=(train --data some --model mlp --input-size 16 --batch 6 --steps 2 --threads 1 --out)
    says 3 "--skip-missing" "${train[@]}" run
    [[ $output == *"3.png"*--max-bad* ]]
    says 0 "3.png" "${train[@]}" bad --max-bad 1
    says 0 "1 of 7 images left out" "${train[@]}" skip --skip-missing
    says 0 "packed 6 samples" data pack --from some --out shards --skip-missing
    says 0 "packed 6 samples" data pack --from some --out others --max-bad 1
    says 0 "1 of 7 images left out" data show some --no-read --skip-missing
    rm some/images/*.png
    says 3 "none of the 7 images" data show some --skip-missing
}

@test "a list of which much is left out is refused, and accepted by --max-left-out; the header says what" {
    cp -r "$tool" some
    jq '(.annotations[] | select(.id <= 4) | .bbox[2]) = 0' "$tool/result.json" >some/result.json
    says 3 "--max-left-out 0.31" data show some
    [[ $output == *"4 of 13 objects"* && $output == *"annotation 1"* ]]
    says 0 "4 of 13 objects left out" data show some --no-read --max-left-out 0.31
    says 0 "4 of 13 objects left out" data pack --from some --out shards --max-left-out 1
}

@test "other formats are refused with the command that converts them" {
    cp -r "$tool" some
    rm some/result.json
    echo '<annotation><object>' >some/0.xml
    says 3 "globox convert -f pascalvoc -d some/images" train --data some --out run
}

@test "the command for a folder takes its name for a name" {
    local evil="it's \$(touch made)"
    mkdir -p "$evil/labels" bin
    cp -r "$tool/images" "$evil"
    echo '0 .1 .1 .2 .1 .3 .3' >"$evil/labels/a.txt"
    says 3 supervision train --data "$evil" --out run
    printf '#!/bin/sh\nexit 0\n' >bin/pip
    printf '#!/bin/sh\nshift 2; printf "%%s\\n" "$@"\n' >bin/python3
    chmod +x bin/*
    run env PATH="$PWD/bin:$PATH" bash -c "${output##*To convert: }"
    [ "$output" = "$(printf "$evil/%s\n" images labels data.yaml train.json)" ]
    [ ! -e made ]
}
