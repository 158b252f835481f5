#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Folders of images as other programs lay them out: which folder is which split, what is not used, and what is refused because
# only its form is that of classes. The layouts themselves are tested by tests/unit/test_source.c.
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

setup_file() {
    common_setup
    export shapes=$BATS_FILE_TMPDIR/shapes
    "$dptrain" data synth shapes --out "$shapes" --train 16 --val 8 >/dev/null
    rm -r "$shapes"/*/{square,triangle} # circle and cross remain
    mv "$shapes/val" "$shapes/Valid"
    cp -r "$shapes/Valid" "$shapes/test"
    touch "$shapes/labels.csv"
    export trained=$BATS_FILE_TMPDIR/trained
    "$dptrain" train --data "$shapes" --model mlp --input-size 16 --batch 4 --steps 2 --threads 1 --out "$trained" \
        >"$BATS_FILE_TMPDIR/said" 2>&1
}

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
}

refused() { # NOUN DATA [ARGUMENTS...]
    run -3 "$dptrain" train --data "$2" --model mlp --input-size 16 --batch 2 --steps 1 --threads 1 --out "$out" "${@:3}"
    echo "$output"
    [[ $output == *"$1"* ]]
    [ ! -e "$out" ]
}

# The sum of the samples' losses, and the number of right answers.
scores() { # DATA [ARGUMENTS...]
    "$dptrain" eval "$trained" --data "$1" --json scores.json "${@:2}" >said
    jq -r '"\(.loss * .n_samples) \(.accuracy * .n_samples)"' scores.json
}

@test "the header says which folder is which split, and names what is not used once" {
    grep -q '^ *training train/, validation Valid/$' "$BATS_FILE_TMPDIR/said"
    [ "$(grep -c 'not used.*test/, labels.csv' "$BATS_FILE_TMPDIR/said")" -eq 1 ]
    [ "$(grep -c labels.csv "$BATS_FILE_TMPDIR/said")" -eq 1 ]
    [ "$(jq -r 'select(.record == "run") | .data.n_val' "$trained/metrics.jsonl")" -eq "$(find "$shapes/Valid" -type f | wc -l)" ]
}

@test "so do data show and data pack" {
    for line in "data show $shapes --no-read" "data pack --from $shapes --out shards"; do
        # shellcheck disable=SC2086 # words
        "$dptrain" $line >said 2>/dev/null
        grep -q 'training train/, validation Valid/$' said
    done
}

@test "one class is refused, as a folder and as shards, by train and check; so are images without folders of classes" {
    cp -r "$shapes" one
    rm -r one/*/cross
    refused circle one
    "$dptrain" data pack --from one --out shards >/dev/null
    refused circle shards
    run -1 "$dptrain" check --only versions --data one
    [[ $output == *circle* ]]
    mkdir level
    mv one/train level/archive
    cp -r "$shapes/train/cross" level/archive/cross
    refused "--data level/archive" level
    mkdir flat
    mv level/archive flat/train
    mv flat/train/*/* flat/train
    rmdir flat/train/c*
    refused "flat/train holds" flat
}

@test "eval takes a folder with some of the model's classes, or without a training folder; labels follow the names" {
    read -r loss right <<<"$(scores "$shapes")"
    for class in circle cross; do
        mkdir -p "$class/val" "splits/valid"
        cp -r "$shapes/Valid/$class" "$class/val/"
        cp -r "$shapes/Valid/$class" splits/valid/
        scores "$class"
        grep -q 'validation val/' said
    done >each
    awk -v loss="$loss" -v right="$right" '{ l += $1; r += $2 }
        END { d = l - loss; e = r - right; exit !(NR == 2 && d * d < 1e-8 && e * e < 1e-8) }' each
    [ "$(scores splits)" = "$loss $right" ]
    mkdir splits/test
    run -3 "$dptrain" eval "$trained" --data splits --split train
    [[ $output == *"--split val"* ]]
    refused 'valid/ is the name of a split' splits
    mv circle/val/circle circle/val/disc
    run -3 "$dptrain" eval "$trained" --data circle
    [[ $output == *disc* ]]
}
