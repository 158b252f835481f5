#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The contents of image folders and COCO: compared between hosts, with earlier readings, and when a run is resumed.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# Three classes by colour, or COCO with a category for each; all files have the same size. `make_images KIND FOLDER`
make_images() {
    python3 - "$@" <<'END'
import json, os, struct, sys, zlib

def png(path, colour, seed):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = bytearray()
    for y in range(20):
        rows.append(0)
        for x in range(24):
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            rows += bytes(max(0, min(255, c + (seed >> 16) % 61 - 30)) for c in colour)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 20, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(bytes(rows), 0)) + chunk(b"IEND", b""))

kind, folder = sys.argv[1:]
colours = {"blue": (60, 90, 190), "green": (70, 160, 80), "red": (180, 70, 60)}
for split, n in (("train", 12), ("val", 4)):
    images, objects = [], []
    for k, (name, colour) in enumerate(colours.items()):
        os.makedirs(f"{folder}/{split}2017" if kind == "coco" else f"{folder}/{split}/{name}", exist_ok=True)
        for i in range(n):
            number = 100 * k + i
            path = f"{split}2017/{number:04d}.png" if kind == "coco" else f"{split}/{name}/{i:03d}.png"
            png(f"{folder}/{path}", colour, 1000 * k + i + n)
            images.append({"id": number, "file_name": os.path.basename(path), "width": 24, "height": 20})
            objects.append({"id": number + 1, "image_id": number, "category_id": k + 1, "bbox": [1, 1, 20, 16],
                            "area": 320, "iscrowd": 0, "segmentation": [[1, 1, 21, 1, 21, 17, 1, 17]]})
    if kind == "coco":
        os.makedirs(f"{folder}/annotations", exist_ok=True)
        categories = [{"id": k + 1, "name": name, "supercategory": "colour"} for k, name in enumerate(colours)]
        with open(f"{folder}/annotations/instances_{split}2017.json", "w") as file:
            json.dump({"images": images, "annotations": objects, "categories": categories}, file)
END
}

setup() {
    common_setup
    command -v python3 >/dev/null || skip "python3 is not here, which makes the images"
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    cd "$BATS_TEST_TMPDIR" || return
    make_images folder images
    with=(--model mlp --input-size 16 --batch 12 --lr 0.02 --threads 1 --algorithms fixed --timeout 60)
}

# Puts the bytes of one file into another, whose size and time stay.
replace() { # FILE BY
    touch -r "$1" time
    cp "$2" "$1"
    touch -r time "$1"
}

exchange() { # FOLDER FOLDER
    mv "$1" aside
    mv "$2" "$1"
    mv aside "$2"
}

fails() { # CODE PATTERN COMMAND...
    run "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    grep -Eq "$2" <<<"$output"
}

# Each rank is a host, in a folder of its own.
two_hosts() { # COMMAND ARGUMENTS...
    mpi_flags 2 && mpi_parts
    mpirun "${MPI_FLAGS[@]}" -np 1 --wdir "$PWD/0" "$dptrain" "$1" --ranks-per-host 1 "${@:2}" : \
        -np 1 --wdir "$PWD/1" "$dptrain" "$1" --ranks-per-host 1 "${@:2}"
}

@test "a run is not resumed on other bytes: two exchanged classes, one changed file" {
    on_ranks 2 train --data images --out "$out" "${with[@]}" --steps 4 --checkpoint-every 2
    [ -f "$out/content.xxh3" ]
    ls "$out" >before
    exchange images/train/red images/train/blue
    fails 3 '(blue|red)/0.*has changed since the resumed run read it' on_ranks 2 train --out "$out" --resume auto --steps 9
    rm -r cache # the run itself knows
    fails 3 '(blue|red)/0.*has changed since the resumed run read it' on_ranks 0 train --out "$out" --resume auto --steps 9
    exchange images/train/red images/train/blue
    # Another time is no matter, other bytes are; a validation image this time.
    cp images/val/green/002.png kept
    cp images/val/green/003.png images/val/green/002.png
    fails 3 'green/002.png \(validation.*has changed since' on_ranks 0 train --out "$out" --resume auto --steps 9
    diff before <(ls "$out")
    cp kept images/val/green/002.png
    on_ranks 0 train --out "$out" --resume auto --steps 9
}

@test "a file that changes within a run ends it" {
    # The second epoch reads what the first has read; the files change in between.
    cat >change <<'END'
for ((i = 0; i < 1200; i++)); do [ -e run/ckpt-000000000003.h5 ] && break; sleep 0.05; done
for i in 0 1; do for file in images/train/red/*.png; do cp images/train/blue/000.png part && mv part "$file"; done; done
END
    bash change &
    fails 3 'red/0.*has changed since this run read it' \
        timeout 60 "$dptrain" train --data images --out run "${with[@]}" --epochs 100000 --keep 1000000 --checkpoint-every 3
    wait
}

@test "a file that changes but not its time: a new run, eval and check name it, until it is touched" {
    "$dptrain" train --data images --out "$out" "${with[@]}" --epochs 1
    [ "$(find cache -name 'content-*.xxh3' | wc -l)" -eq 1 ]
    "$dptrain" check --only versions --data images --content >said
    grep -q '^  ok    content .* 48 files read$' said
    grep -q '^  ok    data .* of names and sizes$' said
    replace images/val/red/001.png images/val/red/000.png
    changed='red/001.png \(validation.*has changed, but neither its size nor its time'
    fails 3 "$changed" "$dptrain" train --data images --out other "${with[@]}" --epochs 1
    fails 3 "$changed" "$dptrain" eval "$out" --threads 1
    run "$dptrain" check --only versions --data images --content
    [ "$status" -eq 1 ]
    [[ $(tr -s ' \n' ' ' <<<"$output") == *"1 of 48 files changed since they were last read, but not their size and time, the first is red/001.png"* ]]
    touch images/val/red/001.png
    "$dptrain" check --only versions --data images --content >said
    grep -q '^  ok    content .* 48 files read, 1 new or modified$' said
    "$dptrain" train --data images --out other --overwrite "${with[@]}" --epochs 1
}

@test "hosts whose files have the same names and sizes, but not the same bytes" {
    mkdir 0 1
    cp -rp images 0/images
    cp -rp images 1/images
    two_hosts check --only versions --data images --content >said
    grep -q '^  ok    content .* 48 files read$' said
    rm -r cache
    cp images/train/red/004.png 1/images/train/blue/007.png
    run two_hosts check --only versions --data images --content
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q '^  ok    data ' <<<"$output"
    [[ $(tr -s ' \n' ' ' <<<"$output") == *"1 files differ, the first: blue/007.png (training, images) differs between host "* ]]
    fails 3 'blue/007.png \(training, images\) differs between host [^ ]+ and host [^ ]+; copy' \
        two_hosts train --data images --out "$out" "${with[@]}" --epochs 1
    [ ! -e "$out" ]
}

@test "COCO, and data that is compared otherwise" {
    make_images coco coco
    "$dptrain" check --only versions --data coco --content | grep '^  ok    content .* 48 files read$'
    replace coco/train2017/0105.png coco/train2017/0007.png
    fails 3 '0105.png \(training, .*neither its size' "$dptrain" train --data coco --out "$out" "${with[@]}" --epochs 1
    "$dptrain" data pack --from images --out shards
    "$dptrain" check --only versions --data shards --content | grep '^  skip  content .* shards are sealed'
    "$dptrain" data synth digits --out digits --train 20 --val 10
    "$dptrain" check --only versions --data ./digits --content | grep '^  skip  content .* all bytes are in the hash'
}

@test "a cache that is a FIFO, damaged or not writable does not matter" {
    "$dptrain" train --data images --out "$out" "${with[@]}" --steps 2
    file=$(find cache -name 'content-*.xxh3')
    rm "$file"
    mkfifo "$file"
    timeout 120 "$dptrain" train --data images --out "$out" --overwrite "${with[@]}" --steps 2 2>said
    grep -q 'hashes of files are ignored: .* is not a regular file' said
    [ -f "$file" ]
    echo garbage >"$file"
    "$dptrain" train --data images --out "$out" --overwrite "${with[@]}" --steps 2 2>said
    grep -q 'hashes of files are ignored: .* is not a file of hashes' said
    XDG_CACHE_HOME=/dev/null "$dptrain" train --data images --out "$out" --overwrite "${with[@]}" --steps 2 2>said
    grep -q 'hashes of files are ' said
    [ -f "$out/content.xxh3" ]
}
