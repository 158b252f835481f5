#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain train --preview: a sheet of the first training samples, as the model gets them, and nothing else.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/coco.bash
load coco

bats_require_minimum_version 1.5.0

setup_file() {
    make_tiny 100 20
    command -v python3 >/dev/null || return 0
    export coco=$BATS_FILE_TMPDIR/coco
    make_coco "$coco"
    ln -s val2017 "$coco/train2017"
    ln -s instances_val2017.json "$coco/annotations/instances_train2017.json"
}

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
}

# Draws and sets output; leaves the names of the samples in FILE.names.
preview() { # RANKS FILE ARGUMENTS...
    run -0 on_ranks "$1" train --threads 1 -v --preview "$2" "${@:3}"
    echo "$output"
    sed -n 's/^  sample [0-9]*: //p' <<<"$output" >"$2.names"
    [ -s "$2.names" ]
}

need_python() { [ -n "${coco:-}" ] || skip "python3 is not here, which reads the sheets"; }

# A line for each tile of 224 pixels: the MD5 of every 8th pixel. Of a folder of IDX files: of each training image.
tiles() { # SHEET | FOLDER
    python3 - "$1" <<'END'
import hashlib, os, struct, sys, zlib

def rows(data):
    at, packed = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
            assert (depth, colour) == (8, 2)
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + n]
        at += 12 + n
    flat, before, size = zlib.decompress(packed), bytearray(3 * width), 3 * width
    for y in range(height):
        how, row = flat[y * (size + 1)], bytearray(flat[y * (size + 1) + 1:(y + 1) * (size + 1)])
        for i in range(size if how else 0):
            a, b, c = (row[i - 3], before[i], before[i - 3]) if i > 2 else (0, before[i], 0)
            p = a + b - c
            row[i] = (row[i] + [0, a, b, (a + b) // 2,
                                min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]][how]) & 255
        before = row
        yield row

if os.path.isdir(sys.argv[1]):
    data = open(sys.argv[1] + "/train-images-idx3-ubyte", "rb").read()[16:]
    images = [data[i:i + 784] for i in range(0, len(data), 784)]
else:
    sheet, images = list(rows(open(sys.argv[1], "rb").read())), []
    for top in range(74, len(sheet) - 200, 274):
        for left in range(24, len(sheet[0]) // 3 - 200, 240):
            images.append(bytes(sheet[top + y][3 * (left + x)] for y in range(0, 224, 8) for x in range(0, 224, 8)))
for image in images:
    print(hashlib.md5(image).hexdigest())
END
}

@test "images in memory: tile by tile the images that are named, in the order of step 1, on 1 and 2 ranks; nothing else is written" {
    need_python
    mkdir written
    cd written
    preview 0 sheet.png --data "$tiny" --out run
    [ "$(find . | LC_ALL=C sort | paste -sd ' ')" = ". ./sheet.png ./sheet.png.names" ]
    [[ $output == *"sheet.png: the first 24 of 100 training samples"*"28x28x1"*"mean 0."*", std 0."* ]]
    [ "$(sort -u sheet.png.names | wc -l)" -eq 24 ]
    tiles "$tiny" >images
    sed 's/#//' sheet.png.names | while read -r n; do sed -n "$((n + 1))p" images; done >named
    tiles sheet.png >drawn
    diff named drawn
    preview 2 two.png --data "$tiny"
    diff sheet.png.names two.png.names
    tiles two.png | diff drawn -
    [[ $output == *"rank 0"* ]]
    # Over several batches, up to the end of the epoch.
    preview 0 small.png --data "$tiny" --batch 7
    [ "$(wc -l <small.png.names)" -eq 24 ]
}

@test "the seed chooses samples, augmentation changes them; an existing file is replaced" {
    need_python
    echo old >a.png
    preview 0 a.png --data "$tiny"
    preview 0 again.png --data "$tiny" --seed 1
    cmp a.png again.png
    preview 0 seed.png --data "$tiny" --seed 2
    run -1 diff -q a.png.names seed.png.names
    for option in --augment-rotate=30 --jitter-brightness=0.5 --flip; do
        preview 0 b.png --data "$tiny" "$option"
        diff a.png.names b.png.names
        [ "$(paste <(tiles a.png) <(tiles b.png) | awk '$1 != $2' | wc -l)" -gt 3 ]
    done
    # The earlier name of --flip, as an option and in a file.
    preview 0 c.png --data "$tiny" --augment-flip
    [[ $output == *"--augment-flip is an earlier name of --flip"* ]]
    cmp b.png c.png
    printf '%s\n' 'flip = true' 'augment-flip = true' >earlier.conf
    preview 0 c.png --data "$tiny" --config earlier.conf
    [[ $output == *"earlier.conf: augment-flip is an earlier name of flip"* ]]
    cmp b.png c.png
    echo 'augment-flip = false' >earlier.conf
    preview 0 c.png --data "$tiny" --config earlier.conf --flip
    cmp b.png c.png
    # Without it the data decides, also in a file of --print-config.
    "$dptrain" train --data "$tiny" --print-config >now.conf
    [ "$(grep -c flip now.conf)" -eq 0 ]
    preview 0 c.png --config now.conf
    cmp a.png c.png
}

@test "folders, several labels, crops, and detectors: names of classes and files; the detector's are the images of step 1" {
    need_python
    mkdir -p photos/train/{cat,dog}
    cp "$coco"/val2017/[0-3].png photos/train/cat
    cp "$coco"/val2017/[4-6].png photos/train/dog
    preview 0 a.png --data photos --model resnet18 --input-size 64 --batch 4
    [ "$(LC_ALL=C sort a.png.names | paste -sd ' ')" = "cat/0.png cat/1.png cat/2.png cat/3.png dog/4.png dog/5.png dog/6.png" ]
    [[ $output == *"64x64x3"*"mean 0.485 0.456 0.406, std 0.229 0.224 0.225"* ]]
    preview 0 b.png --data photos --model resnet18 --input-size 64 --batch 4 --no-flip --crop warp
    run -1 cmp -s a.png b.png
    preview 2 multi.png --data "$coco" --task multilabel --model resnet18 --input-size 64 --batch 6
    [[ $output == *"rank 0"* ]]
    run -3 "$dptrain" train --data "$coco" --task crops --model resnet18 --input-size 64 --batch 2 --preview none.png
    detector=(--data "$coco" --min-size 64 --max-size 128 --batch 2)
    preview 0 masks.png "${detector[@]}" --model maskrcnn_resnet18_fpn
    preview 0 boxes.png "${detector[@]}" --model fasterrcnn_resnet18_fpn
    diff masks.png.names boxes.png.names
    run -1 cmp -s masks.png boxes.png
    "$dptrain" train "${detector[@]}" --model fasterrcnn_resnet18_fpn --threads 1 --rpn-batch 32 --box-batch 16 --rpn-topk 100 \
        --steps 1 --no-eval --log-every 1 --out run >/dev/null
    diff <(jq -r 'select(.record == "step") | .images[].image | "\(.).png"' run/metrics.jsonl | sort) \
        <(head -n 2 masks.png.names | sort)
}

@test "what is refused, and when" {
    refused() { # CODE WORD ARGUMENTS...
        run "-$1" on_ranks 0 train --threads 1 "${@:3}"
        echo "$output"
        [[ $output == *"$2"* ]]
    }
    refused 2 --resume --data "$tiny" --preview sheet.png --resume auto --out run
    refused 2 --preview --data "$tiny" --preview ''
    mkdir folder
    refused 2 folder --data "$tiny" --preview folder
    # Before the data is opened.
    refused 4 'folder absent' --data nowhere --preview absent/sheet.png
    refused 3 nowhere --data nowhere --preview sheet.png
    refused 2 --batch --data "$tiny" --preview sheet.png --batch 1000
    [ "$(find . | LC_ALL=C sort | paste -sd ' ')" = ". ./folder" ]
    # A configuration is for training.
    run -0 "$dptrain" train --preview sheet.png --print-config
    [[ $output != *preview* ]]
}
