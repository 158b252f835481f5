#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A task's metrics wherever they are read: console, records, TensorBoard, and every format of dptrain report.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 24 images in 24 classes, as a folder and as COCO with two objects per image.
make_images() { # FOLDER COCO
    python3 - "$@" <<'END'
import json, os, struct, sys, zlib

def png(path, colour):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(16 * (b"\0" + 16 * bytes(colour)))) + chunk(b"IEND", b""))

folder, coco = sys.argv[1:]
n = 24
names = [f"c{k:02d}" for k in range(n)]
os.makedirs(f"{coco}/annotations")
for split in "train", "val":
    os.makedirs(f"{coco}/{split}2017")
    images, objects = [], []
    for k, name in enumerate(names):
        colour = (10 * k, 255 - 10 * k, 80 * (k % 3))
        os.makedirs(f"{folder}/{split}/{name}")
        png(f"{folder}/{split}/{name}/0.png", colour)
        png(f"{coco}/{split}2017/{k}.png", colour)
        images.append({"id": k, "file_name": f"{k}.png", "width": 16, "height": 16})
        for i in range(2):
            objects.append({"id": len(objects) + 1, "image_id": k, "category_id": (k + i) % n + 1,
                            "bbox": [1, 1, 12, 12], "area": 144, "iscrowd": 0,
                            "segmentation": [[1, 1, 13, 1, 13, 13, 1, 13]]})
    categories = [{"id": k + 1, "name": name, "supercategory": "colour"} for k, name in enumerate(names)]
    with open(f"{coco}/annotations/instances_{split}2017.json", "w") as file:
        json.dump({"images": images, "annotations": objects, "categories": categories}, file)
END
}

setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    export images=$BATS_FILE_TMPDIR/images coco=$BATS_FILE_TMPDIR/coco
    make_images "$images" "$coco"
}

setup() {
    common_setup
    [ -n "${images:-}" ] || skip "python3 is not here, which makes the images"
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    board=$BATS_TEST_TMPDIR/board
}

short_run() { # DATA ARGUMENTS...
    on_ranks 2 train --data "$1" --model mlp --input-size 16 --batch 12 --epochs 3 --threads 1 --out "$out" \
        --tensorboard "$board" "${@:2}" >"$BATS_TEST_TMPDIR/said"
    check_records "$out/metrics.jsonl"
}

# The last value of a field of the epoch records, as report prints fractions.
percent() { # FIELD
    jq -rs "map(select(.record == \"epoch\"))[-1].$1" "$out/metrics.jsonl" | awk '{ printf "%.1f %%\n", 100 * $1 }'
}

# Every format of the report has the metric, with the values of the records.
reported() { # NAME LABEL TITLE
    "$dptrain" report "$out/metrics.jsonl" >text
    grep -q "val $2" text
    grep -Eq "^ *3 .* $(percent "val_$1") " text
    "$dptrain" report --format markdown "$out/metrics.jsonl" | grep -q "| val $2 |"
    diff <("$dptrain" report --format csv "$out/metrics.jsonl" | tr -d '\r' | awk -F, -v f="val_$1" '$7 == f { print $8 + 0 }') \
        <(jq -r "select(.record == \"epoch\") | .val_$1" "$out/metrics.jsonl" | awk '{ print $1 + 0 }')
    "$dptrain" report html "$out/metrics.jsonl" --out page.html >/dev/null
    grep -q "<h3>$3</h3>\|>$3<" page.html
}

tags() { # FOLDER
    "$python" - "$1" <<'END'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(*events.Tags()["scalars"])
END
}

has_events() { # TAG
    "$python" -c 'import tensorboard' 2>/dev/null || return 0
    [[ " $(tags "$board") " == *" $1 "* ]]
}

@test "several classes per image: mAP in every format of the report, in TensorBoard, and as the main metric" {
    cd "$BATS_TEST_TMPDIR"
    short_run "$coco" --task multilabel
    jq -se '.[0].metrics | map([.name, .main, .better, .unit]) == [["loss", false, "lower", "number"],
        ["map", true, "higher", "fraction"]]' "$out/metrics.jsonl"
    reported map mAP mAP
    grep -q '>validation mAP, ' page.html
    run grep -c accuracy text
    [ "$output" -eq 0 ]
    has_events validation/mAP
    has_events train/loss
    run has_events validation/accuracy
    "$python" -c 'import tensorboard' 2>/dev/null && [ "$status" -eq 1 ]
    grep -Eq '^epoch 3 +train loss [0-9.]+ +validation loss [0-9.]+ mAP [01]\.[0-9]{4} ' said
}

@test "one of many classes: accuracy and top-5 in every format of the report and in TensorBoard" {
    cd "$BATS_TEST_TMPDIR"
    short_run "$images"
    reported accuracy accuracy Accuracy
    reported top5 top-5 top-5
    grep -q '>validation accuracy, ' page.html
    has_events validation/accuracy
    has_events validation/top-5
    grep -Eq 'validation loss [0-9.]+ accuracy [01]\.[0-9]{4} top-5 [01]\.[0-9]{4} ' said
}

@test "records of earlier versions, without a table of metrics: as before, and with what they recorded" {
    cd "$BATS_TEST_TMPDIR"
    short_run "$images"
    jq -c 'del(.metrics)' "$out/metrics.jsonl" >earlier.jsonl
    "$dptrain" report --check earlier.jsonl
    cp "$out/metrics.jsonl" now.jsonl
    diff <("$dptrain" report earlier.jsonl) <("$dptrain" report now.jsonl | sed 's/now\.jsonl/earlier.jsonl/')
    # A run without validation has the columns that it always had.
    jq -c 'del(.metrics, .val_top5) | if .record == "epoch" then .val_loss = null | .val_accuracy = null else . end' \
        now.jsonl >none.jsonl
    "$dptrain" report none.jsonl | grep -Eq '^ *epoch  train loss  train accuracy  val loss  val accuracy  images/s$'
    "$dptrain" report --format csv none.jsonl | tr -d '\r' | awk -F, '$6 == "epoch=0" { print $7 }' | paste -sd ' ' |
        grep -qx 'train_loss train_accuracy val_loss val_accuracy images_per_sec'
    on_ranks 1 train --data "$coco" --task multilabel --model mlp --input-size 16 --batch 12 --epochs 2 --threads 1 \
        --out several >/dev/null
    jq -c 'del(.metrics)' several/metrics.jsonl >earlier.jsonl
    "$dptrain" report earlier.jsonl | grep -q 'val accuracy  val mAP'
    "$dptrain" report html earlier.jsonl now.jsonl --out page.html >/dev/null
    grep -Eq '>[0-9.]+ %</b><span class="said">validation mAP, ' page.html
    grep -q '>validation accuracy, ' page.html
}
