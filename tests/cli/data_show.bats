#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain data show: what is in a source of images, and a contact sheet of it.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 60 20; }

setup() {
    common_setup
    work=$BATS_TEST_TMPDIR
    sheet=$work/sheet.png
}

check() { # CODE WORDS ARGUMENTS...   what dptrain data show says
    run "$dptrain" data show "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

# The numbers in a line of the table.
numbers() { # WORDS AT ITS BEGINNING
    sed -n "s/^ *$1 *\([0-9].*\)/\1/p" <<<"$output" | head -1 | tr -s ' '
}

# Width and height, in the header.
png_size() { # FILE
    od -An -tu1 -j 16 -N 8 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'
}

coco_tiny() {
    coco=${DPTRAIN_DATA:-}/coco_tiny
    [[ -d $coco ]] || skip "there is no \$DPTRAIN_DATA/coco_tiny"
}

@test "usage errors are reported with the right code, before a file is written" {
    check 2 "expected one folder"
    check 2 "expected one folder" "$tiny" "$tiny"
    check 3 "no such folder" "$work/absent"
    mkdir "$work/empty"
    check 3 "no images found in" "$work/empty"
    check 2 "--count" "$tiny" --out "$sheet" --count 0
    check 2 "--tile" "$tiny" --out "$sheet" --tile 5000
    check 2 "choose fewer or smaller tiles" "$tiny" --out "$sheet" --tile 1024 --count 1000
    check 2 "--seed requires --out FILE.png" "$tiny" --seed 3
    check 2 "has no category 'eleven'" "$tiny" --out "$sheet" --category eleven
    check 4 "$work/absent" "$tiny" --out "$work/absent/sheet.png"
    check 2 "$work/empty" "$tiny" --out "$work/empty"
    [ ! -e "$sheet" ]
    [ -z "$(find "$work" -name '.*tmp*')" ]
}

@test "IDX files and their shards: the same numbers, the same sheet; only one process prints" {
    "$dptrain" data pack --from "$tiny" --out "$work/b/digits" --shard-size 4K
    mkdir "$work/a"
    ln -s "$tiny" "$work/a/digits"
    cd "$work/a"
    check 0 "IDX files" digits --out "$work/a.png" --count 12 --tile 64
    [ "$(numbers images)" = "60 20" ]
    [ "$(numbers 'raw pixels')" = "60 20" ]
    [ "$(numbers unreadable)" = "0 0" ]
    [ "$(numbers 'width: min, median, max')" = "28 28 28 28 28 28" ]
    [[ $output == *"10 categories, 10 of them with images"* ]]
    # Shards hold PNGs, IDX files raw pixels.
    numbers_alike() { sed 1d <<<"$output" | grep -Ev '^ *(raw pixels|JPEG|PNG|bytes) '; }
    told=$(numbers_alike)
    cd "$work/b"
    run on_ranks 2 data show digits --out "$work/a.png.2" --count 12 --tile 64
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "digits: shards with index.h5"* ]]
    [ "$(numbers_alike)" = "${told//a.png/a.png.2}" ]
    cmp "$work/a.png" "$work/a.png.2"
    [ "$(png_size "$work/a.png")" = "512 303" ]
}

@test "the seed or a category selects images" {
    check 0 "5 images" "$tiny" --no-read --out "$work/1.png" --count 5 --tile 64
    "$dptrain" data show "$tiny" --no-read --out "$work/1b.png" --count 5 --tile 64 --seed 1
    "$dptrain" data show "$tiny" --no-read --out "$work/2.png" --count 5 --tile 64 --seed 2
    cmp "$work/1.png" "$work/1b.png"
    run cmp -s "$work/1.png" "$work/2.png"
    [ "$status" -eq 1 ]
    run "$dptrain" data show "$tiny" --no-read
    n=$(awk '$1 == "7" { print $2 }' <<<"$output")
    [ "$n" -gt 0 ]
    check 0 "$sheet: $n images" "$tiny" --no-read --out "$sheet" --category 7 --count 1000 --tile 64
}

@test "images that are damaged are counted and named, and the rest is shown" {
    "$dptrain" data pack --from "$tiny" --out "$work/shards"
    shard=$work/shards/val-00000-of-00001.h5
    at=$(LC_ALL=C grep -abom 1 IHDR "$shard" | head -1 | cut -d : -f 1)
    printf '\377' | dd of="$shard" bs=1 seek=$((at + 40)) conv=notrunc status=none
    check 0 "1 of them cannot be decoded" "$work/shards" --out "$sheet" --count 1000 --tile 64
    [ "$(numbers unreadable)" = "0 1" ]
    [[ $output == *"unreadable: "*"val-00000-of-00001.h5"* ]]
    [ -s "$sheet" ]
}

@test "coco_tiny: statistics of its annotations, from the folder and from shards; people are found" {
    coco_tiny
    check 0 "COCO" "$coco" --out "$sheet" --count 8 --tile 120
    lists=("$coco"/annotations/instances_{train,val}2017.json)
    asked() { jq "$1" "${lists[@]}" | paste -sd ' '; }
    [ "$(numbers images)" = "$(asked '.images | length')" ]
    [ "$(numbers JPEG)" = "$(numbers images)" ]
    [ "$(numbers objects)" = "$(asked '[.annotations[] | select(.iscrowd == 0)] | length')" ]
    [ "$(numbers crowds)" = "$(asked '[.annotations[] | select(.iscrowd == 1)] | length')" ]
    [ "$(numbers medium)" = "$(asked '[.annotations[] | select(.iscrowd == 0 and .area >= 1024 and .area < 9216)] | length')" ]
    [ "$(numbers 'images without either')" = "1 2" ]
    [ "$(numbers 'width: min, median, max' | cut -d ' ' -f 1,3,4,6)" = "301 640 351 640" ]
    people=$(jq -s '[.[].annotations[] | select(.category_id == 1 and .iscrowd == 0)] | length' "${lists[@]}")
    [[ $(grep '^person ' <<<"$output" | tr -s ' ') == "person $people "* ]]
    told=$(sed 1,2d <<<"$output") # without the lists
    "$dptrain" data pack --from "$coco" --out "$work/coco_tiny" >&2
    mv "$sheet" "$work/folder.png"
    run "$dptrain" data show "$work/coco_tiny" --out "$sheet" --count 8 --tile 120
    [ "$(sed 1d <<<"$output")" = "$told" ]
    # Identical except for the heading, which names the folder.
    [ "$(png_size "$sheet")" = "$(png_size "$work/folder.png")" ]
    cd "$work" && "$dptrain" data show coco_tiny --no-read --out shards.png --count 8 --tile 120
    cd "$coco/.." && "$dptrain" data show coco_tiny --no-read --out "$work/folder.png" --count 8 --tile 120
    cmp "$work/shards.png" "$work/folder.png"
    check 2 "did you mean 'person'?" "$coco" --out "$sheet" --category persn
    check 2 "no image of $coco has the category zebra" "$coco" --no-read --out "$sheet" --category zebra
}

@test "synth shapes: JPEGs in a folder per class, the same again by the same seed, and nothing is overwritten" {
    cd "$BATS_TEST_TMPDIR"
    "$dptrain" data synth shapes --out a --train 6 --val 4 >said
    grep -q 'wrote 6 training and 4 validation shapes to a; train on them with --data a$' said
    [ "$(cd a && echo */*/*)" = "train/circle/0001.jpg train/circle/0005.jpg train/cross/0002.jpg train/cross/0006.jpg train/square/0003.jpg \
train/triangle/0004.jpg val/circle/0001.jpg val/cross/0002.jpg val/square/0003.jpg val/triangle/0004.jpg" ]
    "$dptrain" data synth shapes --out b --train 6 --val 0 >said
    diff -r a/train b
    run cmp a/train/circle/0001.jpg a/val/circle/0001.jpg
    [ "$status" -eq 1 ]
    "$dptrain" data synth shapes --out c --train 6 --val 0 --seed 2 >said
    run cmp b/circle/0001.jpg c/circle/0001.jpg
    [ "$status" -eq 1 ]
    "$dptrain" data verify a | grep -q 10
    "$dptrain" train --data a --model mlp --input-size 16 --batch 4 --steps 1 --threads 1 --device cpu --out run >said
    grep -q '6 training, 4 validation images of 16×16×3, 4 classes' said
    before=$(find b -type f | xargs cat | sha256sum)
    run "$dptrain" data synth shapes --out b --train 6 --val 0 --seed 2
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"b/circle/0001.jpg exists already"* && $(find b -type f | xargs cat | sha256sum) == "$before" ]]
    run "$dptrain" data synth digits --out d --train 6 --val 0
    [ "$status" -eq 2 ]
    run "$dptrain" data synth shape --out d
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *shapes* ]]
}

@test "synth objects: images as a phone's, and a list with boxes and polygons as a labelling tool's" {
    need_magick
    cd "$BATS_TEST_TMPDIR"
    "$dptrain" data synth objects --out a >said
    grep -q 'wrote 10 training and 0 validation objects to a; train on them with --data a$' said
    [ "$(cd a && echo *)" = "images result.json" ]
    jq -e '(.images | length) == 10 and all(.images[]; .file_name | test("^images/[0-9]{4}.jpg$")) and
        ([.categories[].name] == ["circle", "cross", "square", "triangle"]) and ([.annotations[].id] == [range(1; (.annotations | length) + 1)]) and
        ([.annotations[].image_id] | unique == [range(10)]) and (.annotations | length) >= 20' a/result.json
    # Boxes are those of the polygons, and polygons are in the image.
    jq -e '(.images | map({key: (.id | tostring), value: .}) | from_entries) as $images | all(.annotations[]; $images[.image_id | tostring] as $image |
        .segmentation[0] as $p | [$p[range(0; $p | length; 2)]] as $x | [$p[range(1; $p | length; 2)]] as $y |
        (($x | min) - .bbox[0] | fabs) < 0.01 and (($y | max) - .bbox[1] - .bbox[3] | fabs) < 0.01 and
        ($x | min) >= 0 and ($x | max) <= $image.width and ($y | min) >= 0 and ($y | max) <= $image.height and .area > 400)' a/result.json
    # In the image as shown an object has its colour; every third image is stored turned.
    for i in 1 3; do
        file=a/images/000$i.jpg
        turned=$("$magick" "$file" -format '%[EXIF:Orientation]' info: 2>/dev/null)
        [ "$turned" = "$([ $i -eq 1 ] || echo 6)" ]
        [ "$("$magick" "$file" -auto-orient -format '%w %h' info:)" = "$(jq -r ".images[$i - 1] | \"\(.width) \(.height)\"" a/result.json)" ]
        # A circle is red, a square blue.
        for kind in 0:r 2:b; do
            at=$(jq -r "[.annotations[] | select(.image_id == $i - 1 and .category_id == ${kind%:*})][0].bbox | \"\(.[0] + .[2] / 2 | floor),\(.[1] + .[3] / 2 | floor)\"" a/result.json)
            "$magick" "$file" -auto-orient -blur 0x2 -format "%[fx:p{$at}.${kind#*:}>p{$at}.g+0.2?1:0]" info: >said
            [ "$(<said)" = 1 ]
        done
    done
    "$dptrain" data synth objects --out b --train 4 >said
    cmp a/images/0004.jpg b/images/0004.jpg
    "$dptrain" data synth objects --out c --train 4 --seed 2 >said
    run cmp b/images/0004.jpg c/images/0004.jpg
    [ "$status" -eq 1 ]
    run "$dptrain" data synth objects --out b
    [[ "$status" -eq 2 && "$output" == *"b/result.json exists already"* ]]
    run "$dptrain" data synth objects --out d --val 4
    [[ "$status" -eq 2 && "$output" == *"--val 4"* && ! -e d ]]
}
