#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Scores of detections: pycocotools' numbers, the same from folders, shards and any number of ranks; bad input.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# tests/score/expected.json has pycocotools' numbers of these sets; the last test but one makes it again.
N_SETS=3

setup_file() {
    export sets=$BATS_FILE_TMPDIR/sets
    mkdir "$sets"
    local make=$BATS_TEST_DIRNAME/../score/sets.py
    python3 "$make" folder "$sets/coco"
    python3 "$make" make "$sets/coco/annotations/instances_val2017.json" "$sets" 1 "$N_SETS"
}

setup() {
    common_setup
    sets_py=$root/tests/score/sets.py
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    cd "$BATS_TEST_TMPDIR" || return
}

# Prints the scores of the sets in a folder as one object.
score_sets() { # FOLDER N SOURCE [OPTION...]
    local i kind separator='{'
    for ((i = 0; i < $2; i++)); do
        for kind in bbox segm both; do
            "$dptrain" eval --results "$1/$i.$kind.json" --data "$3" "${@:4}" --json one.json >/dev/null || return
            printf '%s"%s.%s":%s' "$separator" "$i" "$kind" "$(cat one.json)"
            separator=,
        done
    done
    printf '}\n'
}

needs_pycocotools() {
    "$python" -c 'import pycocotools.mask' 2>/dev/null || skip "there is no pycocotools; scripts/install_deps.sh --test installs it"
}

check() { # CODE WORDS ARGUMENTS...   what dptrain eval says
    run "$dptrain" eval "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

@test "the numbers are pycocotools'" {
    score_sets "$sets" "$N_SETS" "$sets/coco" >ours.json
    python3 "$sets_py" compare ours.json "$root/tests/score/expected.json"
    [ "$(jq length ours.json)" -eq $((3 * N_SETS)) ]
}

@test "a folder, its shards and its file give the same bytes, on 1, 2 and 3 ranks, in one file or two" {
    "$dptrain" data pack --from "$sets/coco" --out shards --shard-size 2K >/dev/null
    "$dptrain" eval --results "$sets/1.both.json" --data "$sets/coco" --per-category --json folder.json >text
    jq -e '(.bbox.categories | length) == 5 and .bbox.AP > 0.1 and .segm.categories[4].AP == -1
        and (.bbox | keys_unsorted[:12]) == ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]' folder.json
    grep -Eq '^AP50 +0.50 +all +100 +0\.[0-9]{4} +0\.[0-9]{4}$' text
    grep -Eq '^kind 1000 +0 ' text
    for n in 1 2 3; do
        on_ranks "$n" eval --results "$sets/1.both.json" --data shards --per-category --json "$n.json" >"text$n"
        cmp folder.json "$n.json"
        diff <(tail -n +2 text) <(tail -n +2 "text$n")
    done
    # An area is the mask's where there is no box, so that two files are not one with both.
    annotations=$sets/coco/annotations/instances_val2017.json
    "$dptrain" eval --results "$sets/1.segm.json" "$sets/1.bbox.json" --data "$annotations" --json two.json >two
    [ "$(grep -c '^results' two)" -eq 2 ]
    "$dptrain" eval --results "$sets/1.segm.json" --data shards --json segm.json >/dev/null
    jq -e --slurpfile one folder.json --slurpfile segm segm.json \
        '.bbox == ($one[0].bbox | del(.categories)) and .segm == $segm[0].segm' two.json
    # Only the annotations are read.
    rm -rf folder
    cp -r "$sets/coco" folder
    rm folder/val2017/*
    "$dptrain" eval --results "$sets/1.bbox.json" --data folder >/dev/null
}

# Such numbers are 0 in this program's arithmetic.
@test "scores that are denormal numbers keep their order" {
    jq 'sort_by(.score) | unique_by(.score) | sort_by(.bbox)' "$sets/0.bbox.json" >plain.json
    jq 'map(.score *= 1e-310)' plain.json >small.json
    for set in plain small; do "$dptrain" eval --results $set.json --data "$sets/coco" --json $set.out >said; done
    jq -e '.bbox.AP > 0.05' plain.out
    cmp plain.out small.out
}

@test "bad input is refused: what, where, what to do" {
    both=$sets/0.both.json boxes=$sets/0.bbox.json
    check 2 "expected a checkpoint, a run folder or weights (.npz, .safetensors), or --results FILE"
    check 2 "--results requires --data SRC" --results "$boxes"
    check 2 "--png does not apply to --results" --results "$boxes" --data "$sets/coco" --png x.png
    check 2 "--model does not apply to --results" --results "$boxes" --data "$sets/coco" --model lenet5
    check 3 "both have boxes; score them in two runs" --results "$boxes" "$both" --data "$sets/coco"
    check 3 "absent.json: cannot open it" --results absent.json --data "$sets/coco"
    check 3 "--split val" --results "$boxes" --data "$sets/coco" --split train
    check 3 "nowhere: no such folder" --results "$boxes" --data nowhere
    "$dptrain" data synth digits --out digits --train 10 --val 10
    check 3 "has no annotations" --results "$boxes" --data digits
    head -c 3000 "$both" >cut.json
    check 3 "cut.json: truncated" --results cut.json --data "$sets/coco"
    jq '.[3].image_id = 1000000' "$boxes" >other.json
    check 3 "image 1000000 is not one of the 24 images" --results other.json --data "$sets/coco"
    for n in 1 2; do
        run on_ranks "$n" eval --results other.json --data "$sets/coco"
        [ "$status" -eq 3 ]
        [ "$(grep -c 'image 1000000' <<<"$output")" -eq 1 ]
    done
    jq 'del(.annotations[0].segmentation)' "$sets/coco/annotations/instances_val2017.json" >bare.json
    check 3 "has no segmentation, so that masks cannot be scored; score boxes" --results "$both" --data bare.json
    check 0 "1 of" --results "$both" --data bare.json --skip-unmasked --json skip.out
    jq 'del(.annotations[0])' bare.json >less.json
    check 0 "AP50" --results "$both" --data less.json --json less.out
    cmp skip.out less.out
    check 0 "AP50" --results "$boxes" --data bare.json
    run "$dptrain" eval --results "$boxes" --data bare.json --json "$BATS_TEST_TMPDIR/absent/x/y.json"
    [ "$status" -ne 0 ]
}

@test "a file without detections scores 0: by --score, by its name, or as what the other file has not" {
    echo '[]' >none.json
    cp none.json bbox.json
    cp none.json x.segm.json
    data=$sets/coco/annotations/instances_val2017.json boxes=$sets/0.bbox.json
    check 3 "none.json holds no results" --results none.json --data "$data"
    [[ $output == *"--score"* ]]
    check 3 "none.json holds no results" --results none.json none.json --data "$data"
    "$dptrain" eval --results "$boxes" --data "$data" --json boxes.json >/dev/null
    for type in bbox segm; do
        check 0 "scored as" --results none.json --data "$data" --score "$type" --json "0.$type.json"
        jq -e --arg type "$type" '(keys == [$type]) and .[$type].AP == 0 and .[$type].AR100 == 0' "0.$type.json"
    done
    check 0 "scored as boxes" --results bbox.json --data "$data" --json one.json
    cmp one.json 0.bbox.json
    gzip -k bbox.json
    check 0 "scored as boxes" --results bbox.json.gz --data "$data"
    check 0 "scored as masks" --results x.segm.json --data "$data" --json one.json
    cmp one.json 0.segm.json
    check 0 "bbox" --results x.segm.json bbox.json --data "$data" --json two.json
    jq -e '.bbox.AP == 0 and .segm.AP == 0' two.json
    check 0 "scored as masks" --results none.json "$boxes" --data "$data" --json two.json
    jq -e --slurpfile one boxes.json '.bbox == $one[0].bbox and .segm.AP == 0' two.json
    check 3 "both have boxes" --results "$boxes" bbox.json --data "$data"
    check 0 "none.json" --results none.json "$boxes" --data "$data" --score bbox --json two.json
    cmp two.json boxes.json
    # One type of a file with both.
    "$dptrain" eval --results "$sets/0.both.json" --data "$data" --json both.json >/dev/null
    for type in bbox segm; do
        check 0 "$type" --results "$sets/0.both.json" --data "$data" --score "$type" --json one.json
        jq -e --arg type "$type" --slurpfile both both.json '. == {($type): $both[0][$type]}' one.json
    done
    check 3 "segmentation" --results "$boxes" --data "$data" --score segm
    # Annotations and detections in each other's place.
    check 3 "--data" --results "$data" --data "$data"
    check 3 "--results" --results "$data" --data "$boxes"
}

@test "an object with id 0: a warning, and pycocotools' score" {
    jq '.annotations |= (to_entries | map(.value + {id: .key}))' "$sets/coco/annotations/instances_val2017.json" >zero.json
    for n in 1 2; do
        run on_ranks "$n" eval --results "$sets/0.bbox.json" --data zero.json
        [ "$status" -eq 0 ]
        [ "$(grep -c 'warning: annotation id 0 ' <<<"$output")" -eq 1 ]
    done
    jq '.annotations[].id += 1' zero.json >one.json
    run "$dptrain" eval --results "$sets/0.bbox.json" --data one.json
    [[ $status -eq 0 && $output != *warning:* ]]
}

@test "two million detections take at most twice the file's size in memory (--slow)" {
    only_slow "takes half a minute"
    not_with_sanitizers
    python3 - "$sets/coco/annotations/instances_val2017.json" many.json <<'END'
import json, random, sys
rng = random.Random(1)
images = [image["id"] for image in json.load(open(sys.argv[1]))["images"]]
with open(sys.argv[2], "w") as file:
    for i in range(2000000):
        file.write(f'{"," if i else "["}{{"image_id":{rng.choice(images)},"category_id":{rng.choice((1, 3, 4))},'
                   f'"bbox":[{i % 90},{i % 77},{1 + i % 50},{1 + i % 40}],"score":{rng.random():.6f}}}\n')
    file.write("]")
END
    bytes=$(stat -c %s many.json)
    peak=$(/usr/bin/time -f %M "$dptrain" eval --results many.json --data "$sets/coco" 2>&1 >text | tail -n 1)
    echo "$bytes bytes, peak $peak KiB"
    grep -q '^AP ' text
    [ $((peak * 1024)) -lt $((2 * bytes + 100000000)) ]
}

@test "tests/score/expected.json is what pycocotools says (--slow)" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "scripts/test.sh --slow runs it"
    needs_pycocotools
    "$python" "$sets_py" expect "$sets/coco/annotations/instances_val2017.json" "$sets" "$N_SETS" >theirs.json
    python3 "$sets_py" compare theirs.json "$root/tests/score/expected.json"
}

@test "200 sets on coco_tiny, folder and shards, are scored as by pycocotools (--slow)" {
    only_slow "takes ten minutes"
    coco=${DPTRAIN_DATA:-}/coco_tiny
    [[ -d $coco ]] || skip "there is no \$DPTRAIN_DATA/coco_tiny"
    needs_pycocotools
    "$dptrain" data pack --from "$coco" --out shards >/dev/null
    for split in train val; do
        annotations=$coco/annotations/instances_${split}2017.json
        mkdir "$split"
        SHAPES=1 "$python" "$sets_py" make "$annotations" "$split" 2 100
        "$python" "$sets_py" expect "$annotations" "$split" 100 >theirs.json
        score_sets "$split" 100 "$coco" --split "$split" >folder.json
        score_sets "$split" 100 shards --split "$split" >shards.json
        cmp folder.json shards.json
        python3 "$sets_py" compare folder.json theirs.json
    done
}
