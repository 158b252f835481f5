#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Classes of image files: the same as evaluation's, for checkpoints and weights, with damaged files among them.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

bats_require_minimum_version 1.5.0

# Writes the validation digits of a folder as FOLDER/INDEX-LABEL.png, or colours them as train|val/NAME/INDEX.png.
export_digits() { # grey|colour IDX-FOLDER FOLDER
    python3 - "$@" <<'END'
import os, struct, sys, zlib

def png(path, rows, colour):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]) // (3 if colour else 1), len(rows), 8, 2 if colour else 0, 0, 0, 0)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header))
        file.write(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))

kind, source, folder = sys.argv[1:]
names = "zero one two three four five six seven eight nine".split()
for split, prefix in (("train", "train"), ("val", "t10k")):
    pixels = open(f"{source}/{prefix}-images-idx3-ubyte", "rb").read()[16:]
    labels = open(f"{source}/{prefix}-labels-idx1-ubyte", "rb").read()[8:]
    for i, label in enumerate(labels):
        rows = [pixels[784 * i + 28 * y:784 * i + 28 * y + 28] for y in range(28)]
        if kind == "grey":
            if split == "val": png(f"{folder}/{i:03d}-{label}.png", rows, False)
        else:
            tinted = [bytes(v * k // 255 for v in row for k in (255, 30 * label % 256, 128)) for row in rows]
            png(f"{folder}/{split}/{names[label]}/{i:03d}.png", tinted + tinted[:i % 9], True)
END
}

setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    make_tiny 300 60
    export digits=$BATS_FILE_TMPDIR/digits colours=$BATS_FILE_TMPDIR/colours RUN=$BATS_FILE_TMPDIR/run
    export_digits grey "$tiny" "$digits"
    with=(--threads 1 --algorithms fixed)
    "$dptrain" train --data "$tiny" --model mlp --epochs 5 --batch 20 "${with[@]}" --out "$RUN" >/dev/null
    export_digits colour "$tiny" "$colours"
    "$dptrain" train --data "$colours" --model mlp --input-size 24 --eval-crop letterbox --epochs 3 --batch 20 --lr 0.01 \
        "${with[@]}" --out "$RUN-colours" >/dev/null
}

setup() {
    common_setup
    [ -n "${digits:-}" ] || skip "python3 is not here, which makes the images"
    cd "$BATS_TEST_TMPDIR" || return
}

predict() { "$dptrain" predict "$@" --threads 1; }

# Counts predictions in FILE whose best class is the label in the image's name, by the program's number or by name.
n_correct() { # FILE
    jq -s 'map(select(.image as $image | .classes[0] as $best
        | ($image | test("-\($best.class).png$")) or ($best.name != null and ($image | contains("/\($best.name)/"))))) | length' "$1"
}

@test "digits in PNG files get evaluation's classes; probabilities sum to 1" {
    predict "$RUN" "$digits" --json p.json --top 1000 >said
    "$dptrain" eval "$RUN" --data "$tiny" --threads 1 --json e.json >/dev/null
    [ "$(wc -l <p.json)" -eq 60 ]
    jq -es --slurpfile e e.json '[range(10) as $l | range(10) as $c
        | (map(select((.image | test("-\($l).png$")) and .classes[0].class == $c)) | length) == $e[0].confusion[$l][$c]] | all' p.json
    jq -es 'all((.classes | length == 10) and ([.classes[].probability] | add - 1 | fabs < 1e-6)
        and ([.classes[].probability] | . == (sort | reverse)))' p.json
    # A block per image: the path, then five classes.
    predict "$RUN" "$digits/000-"* "$digits/001-"* | tail -n +4 >two
    predict -q "$RUN" "$digits/000-"* "$digits/001-"* | tail -n +4 | diff two -
    [ "$(wc -l <two)" -eq 12 ]
    sed -n 1p two | grep -x "$digits/000-[0-9].png"
    sed -n 2p two | grep -Ex '  [01]\.[0-9]{4}  [0-9]'
}

@test "images of a folder get evaluation's transform and their names; a checkpoint knows the names" {
    predict "$RUN-colours" "$colours/val" --json p.json --top 3 >said
    "$dptrain" eval "$RUN-colours" --threads 1 --json e.json >/dev/null
    jq -n --argjson n "$(n_correct p.json)" --slurpfile e e.json '$n / 60 == $e[0].accuracy' | grep -x true
    # The order is evaluation's, by path; so is each class.
    jq -es 'map(.image) | . == sort' p.json
    grep -Eq '^  [01]\.[0-9]{4}  (three|seven)$' said
    "$dptrain" checkpoint show "$RUN-colours" | grep -A 1 '^class_names' | grep -x '  eight'
}

# A disc on a transparent ground. KIND: rgba, grey (with alpha), palette or key (a transparent colour).
export_disc() { # KIND VALUE-OF-DISC FILE
    python3 - "$@" <<'END'
import struct, sys, zlib

kind, value, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ground, disc, colour, more = {
    "rgba": (b"\xff\xff\xff\0", bytes((value, value, value, 255)), 6, b""),
    "grey": (b"\xff\0", bytes((value, 255)), 4, b""),
    "palette": (b"\0", b"\1", 3, b""),
    "key": (b"\xff\xff\xff", bytes((value, value, value)), 2, b""),
    "opaque": (bytes((value, value, value, 255)), bytes((value, value, value, 255)), 6, b""),
}[kind]
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
if kind == "palette": more = chunk(b"PLTE", b"\xff\xff\xff" + bytes((value,) * 3)) + chunk(b"tRNS", b"\0")
if kind == "key": more = chunk(b"tRNS", b"\0\xff" * 3)
rows = b"".join(b"\0" + b"".join(disc if (x - 14) ** 2 + (y - 14) ** 2 < 60 else ground for x in range(28)) for y in range(28))
with open(path, "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, colour, 0, 0, 0)) + more)
    file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}

@test "an image that is black once its transparency is laid over black is named, and predicted" {
    mkdir {black,white}
    for kind in rgba grey palette key; do
        export_disc $kind 0 black/$kind.png
        export_disc $kind 200 white/$kind.png
    done
    # One colour from the start.
    export_disc opaque 200 white/opaque.png
    for run in "$RUN" "$RUN-colours"; do
        predict "$run" white >said 2>err
        run -1 grep warning err
        predict "$run" black >said 2>err
        for kind in rgba grey palette key; do grep "warning: black/$kind.png is .*transparency" err; done
        [ "$(grep -c '^black/' said)" -eq 4 ]
    done
}

@test "a damaged and a missing file are named, the others are predicted, and the exit code is 3" {
    head -c 200 "$digits"/003-* >bad.png
    run predict "$RUN" "$digits"/00{1,2}-* bad.png "$digits"/004-* missing.jpg . --json p.json --out pictures
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"error: 3 of 6 images could not be read"* ]]
    [ "$(grep -c 'warning: cannot decode the image .*bad.png (PNG)' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'warning: cannot read missing.jpg' <<<"$output")" -eq 1 ]
    [ "$(jq -rs 'map(if .error then "bad" else "good" end) | join(" ")' p.json)" = "good good bad good bad bad" ]
    [ "$(find pictures -name '*.png' | sort | sed 's/-[0-9].png//' | xargs)" = "pictures/000001-001 pictures/000002-002 pictures/000004-004" ]
    [ "$(head -c 8 pictures/000001-*.png | od -An -t x1 | tr -d ' ')" = 89504e470d0a1a0a ]
    mkdir empty
    run predict "$RUN" empty
    [ "$status" -eq 3 ]
    [[ $output == *"empty holds no image"* ]]
    run predict pictures/000001-*.png "$RUN"
    [ "$status" -eq 2 ]
    [[ $output == *"is an image; expected a checkpoint"* ]]
}

@test "weights with --model: the data's shape and names, or what the file has" {
    "$dptrain" checkpoint export "$RUN" --out w.npz >/dev/null
    "$dptrain" checkpoint export "$RUN-colours" --out c.npz >/dev/null
    predict "$RUN" "$digits" --json want.json >/dev/null
    predict w.npz "$digits" --model mlp --data "$tiny" --json p.json >/dev/null
    cmp want.json p.json
    predict "$RUN-colours" "$colours/val/two" --json want.json >/dev/null
    predict c.npz "$colours/val/two" --model mlp --input-size 24 --eval-crop letterbox --json p.json >said
    grep -q '^model  *mlp, 10 classes$' said
    cmp want.json p.json
    rm c.classes.txt
    predict c.npz "$colours/val/two" --model mlp --input-size 24 --eval-crop letterbox --json p.json >said
    cmp <(jq -c 'del(.classes[].name)' want.json) p.json
    predict c.npz "$colours/val/two" --model mlp --input-size 24 --eval-crop letterbox --data "$colours" --json p.json >/dev/null
    cmp want.json p.json
    # Independent probabilities.
    predict c.npz "$colours/val/two" --model mlp --input-size 24 --task multilabel --top 10 --json p.json >/dev/null
    jq -es 'any([.classes[].probability] | add - 1 | fabs > 1e-3)' p.json
}

@test "refused in one message, before any work" {
    check() { # CODE PART-OF-THE-MESSAGE ARGUMENTS...
        run predict "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    }
    "$dptrain" checkpoint export "$RUN" --out w.npz >/dev/null
    image=$(echo "$digits"/000-*)
    check 2 "expected a checkpoint, a run folder or weights" "$RUN"
    check 2 "needs --model" w.npz "$image"
    check 2 "--input-size applies to weights" "$RUN" "$image" --input-size 32
    check 3 "without --data, mlp takes RGB images of 224 pixels" w.npz "$image" --model mlp
    mkdir -p data/one
    cp "$image" data/one
    check 3 "data has 1 classes, but" "$RUN-colours" "$image" --data data
    check 3 "none" "$BATS_TEST_TMPDIR/none" "$image"
    check 2 "from 1 to" "$RUN" "$image" --top 0
    check 4 "/proc" "$RUN" "$image" --json /proc/x.json
    run on_ranks 2 predict "$RUN" "$image"
    [ "$status" -eq 2 ]
    [[ $output == *"dptrain predict runs on one rank"* ]]
}

# EMNIST's letters as distributed, with labels from 1, images stored column by column, beside another of its sets. Letter k is a
# bar in row k; upright ones go to upright/LETTER.png.
make_letters() { # FOLDER
    python3 - "$1" <<'END'
import gzip, os, struct, sys, zlib
os.makedirs(sys.argv[1] + "/EMNIST/raw")
os.makedirs("upright")
def put(name, head, data):
    with gzip.open(f"{sys.argv[1]}/EMNIST/raw/emnist-{name}-ubyte.gz", "wb") as f: f.write(head + data)
for part, n in (("train", 208), ("test", 52)):
    labels = bytes(1 + i % 26 for i in range(n))
    pixels = b"".join(bytes(255 * (x == l) for y in range(28) for x in range(28)) for l in labels)
    for name, first in (("letters", 0), ("balanced", 1)):
        put(f"{name}-{part}-images-idx3", struct.pack(">4I", 0x803, n, 28, 28), pixels)
        put(f"{name}-{part}-labels-idx1", struct.pack(">2I", 0x801, n), bytes(l - first for l in labels))
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for l in (1, 17, 26):
    rows = b"".join(b"\0" + bytes([255 * (y == l)]) * 28 for y in range(28))
    with open(f"upright/{'abcdefghijklmnopqrstuvwxyz'[l - 1]}.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}

@test "EMNIST's letters have 26 classes, a to z, from training to predictions of upright images" {
    make_letters em
    run "$dptrain" train --data em --model mlp --steps 1
    [[ $status -eq 3 && $output == *emnist-balanced*emnist-letters* ]]
    "$dptrain" train --data em/emnist-letters --model mlp --batch 26 --epochs 4 --threads 1 --algorithms fixed --out run >said
    grep -Eq '^  data +em/EMNIST/raw/emnist-letters ' said
    grep -q '208 training, 52 validation images of 28×28×1, 26 classes' said
    grep -Eq '^ +labels 1 to 26 .* a to z' said
    "$dptrain" eval run --threads 1 --json e.json >said
    grep -q 'em/EMNIST/raw/emnist-letters' said
    jq -e '.accuracy > 0.9' e.json
    predict run upright --json p.json
    [ "$(jq -rs 'map(.classes[0] | "\(.class) \(.name)") | join(", ")' p.json)" = "0 a, 16 q, 25 z" ]
    "$dptrain" checkpoint export run --out w.npz
    "$dptrain" eval w.npz --model mlp --data em/emnist-letters --threads 1 --json w.json
    jq -es '.[0].accuracy == .[1].accuracy' e.json w.json
    "$dptrain" train --data em/emnist-letters --model mlp --batch 26 --epochs 5 --threads 1 --algorithms fixed --out run --resume auto >said
    grep -q 'resumed from' said
    "$dptrain" data pack --from em/emnist-letters --out packed
    "$dptrain" data show packed --top 26 >said
    grep -Eq '^ *z +10' said
    # Images of fewer digits than a checkpoint knows are evaluated; letters are other classes.
    run "$dptrain" eval "$RUN" --data em/emnist-letters --threads 1
    [[ $status -eq 3 && $output == *26* ]]
    mkdir few
    for part in train t10k; do
        { printf '\0\0\10\3\0\0\0\4\0\0\0\34\0\0\0\34' && tail -c +17 "$tiny/train-images-idx3-ubyte" | head -c 3136; } \
            >few/$part-images-idx3-ubyte
        printf '\0\0\10\1\0\0\0\4\0\1\2\3' >few/$part-labels-idx1-ubyte
    done
    "$dptrain" eval "$RUN" --data few --threads 1 --json few.json
    jq -e '.confusion | length == 10' few.json
    "$dptrain" checkpoint export "$RUN" --out mlp.npz
    "$dptrain" eval mlp.npz --model mlp --data few --threads 1 --json w.json
    jq -es '.[0].accuracy == .[1].accuracy' few.json w.json
    run "$dptrain" eval run --data few --threads 1
    [ "$status" -eq 3 ]
    # So are those of fewer letters, which only rank 0 knows by name.
    mkdir letters
    for k in {1..10}; do echo "$k $((64 + k)) $((96 + k))"; done >letters/emnist-letters-mapping.txt
    for part in train test; do
        cp few/train-images-idx3-ubyte letters/emnist-letters-$part-images-idx3-ubyte
        printf '\0\0\10\1\0\0\0\4\1\2\3\12' >letters/emnist-letters-$part-labels-idx1-ubyte
    done
    on_ranks 2 eval run --data letters --threads 1 --json letters.json
    jq -e '.n_samples == 4' letters.json
    printf '\0\0\10\1\0\0\0\4\3\3\3\3' >few/train-labels-idx1-ubyte
    run "$dptrain" train --data few --model mlp --steps 1 --batch 4
    [[ $status -eq 3 && $output == *few*"one class"*3* ]]
}
