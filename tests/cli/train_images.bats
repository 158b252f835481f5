#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Training on folders of images: the same on any number of ranks and loader threads, resumed, with damaged images.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

bats_require_minimum_version 1.5.0

# Four classes by colour, images of several sizes; `make_images FOLDER TRAINING VALIDATION` (of each class).
make_images() {
    python3 - "$@" <<'END'
import os, struct, sys, zlib

def png(path, width, height, colour, seed):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            rows += bytes(max(0, min(255, c + (seed >> 16) % 61 - 30)) for c in colour)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b""))

folder, counts = sys.argv[1], {"train": int(sys.argv[2]), "val": int(sys.argv[3])}
colours = {"blue": (60, 90, 190), "green": (70, 160, 80), "grey": (120, 125, 120), "red": (180, 70, 60)}
for split, n in counts.items():
    for k, (name, colour) in enumerate(colours.items()):
        os.makedirs(f"{folder}/{split}/{name}")
        for i in range(n):
            png(f"{folder}/{split}/{name}/{i:03d}.png", 30 + 7 * (i % 5), 44 - 5 * (i % 4), colour, 1000 * k + i + n)
END
}

setup_file() {
    common_setup
    command -v python3 >/dev/null || return 0
    export images=$BATS_FILE_TMPDIR/images
    make_images "$images" 20 6
}

setup() {
    common_setup
    [ -n "${images:-}" ] || skip "python3 is not here, which makes the images"
}

image_run() { # RANKS FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$images" --out "$2" --model mlp --input-size 16 --batch 20 --threads 1 --lr 0.05 \
        --seed 3 "${@:3}"
}

records() { # KIND CONDITION   of all of that kind, in $out
    jq -se "map(select(.record == \"$1\")) | length > 0 and all($2)" "$out/metrics.jsonl" >/dev/null
}

look() { # ARGUMENTS...   -> output, with a preview for a training
    run -0 "$dptrain" train --data "$images" --model mlp --batch 20 --threads 1 --preview "$BATS_TEST_TMPDIR/seen.png" "$@"
    echo "$output"
}

@test "the header has the images' size and what the model gets; enlarging them unasked is a warning" {
    look
    [[ $output == *"29 to 44"*"the model gets 224×224 (--input-size)"*"warning: $images: "*"--input-size 34 "* ]]
    look --input-size 224
    [[ $output == *"the model gets 224×224"* && $output != *warning* ]]
    look --input-size 16
    [[ $output == *"the model gets 16×16"* && $output != *warning* ]]
    images=$BATS_TEST_TMPDIR/alike
    mkdir -p "$images/train/"{a,b}
    for i in 1 2 3 4 5 6 7 8 9 10; do
        cp "$BATS_FILE_TMPDIR/images/train/red/000.png" "$images/train/a/$i.png"
        cp "$BATS_FILE_TMPDIR/images/train/blue/000.png" "$images/train/b/$i.png"
    done
    look --input-size 16
    [[ $output == *"images: 30×44 ("*"; the model gets 16×16"* ]]
    cp "$BATS_FILE_TMPDIR/images/train/red/001.png" "$images/train/a/11.png"
    look --input-size 16
    [[ $output == *"images: mostly 30×44 ("* ]]
}

@test "the loss curve is that of one rank, and the same to the bit on any number of loader threads" {
    image_run 0 "$out" --epochs 4 --loader-threads 1 >"$BATS_TEST_TMPDIR/said"
    grep -q '80 training, 24 validation images of 16×16×3, 4 classes' "$BATS_TEST_TMPDIR/said"
    grep -q 'classify; training: random crops, 8 % or more of the area, flipped at random; evaluation: center; 1 loader thread per rank' \
        "$BATS_TEST_TMPDIR/said"
    image_run 0 "$out-threads" --epochs 4 --loader-threads 4
    diff <(losses "$out") <(losses "$out-threads")
    image_run 2 "$out-ranks" --epochs 4 --loader-threads 2
    close_curves "$out" "$out-ranks" 1e-4
    records epoch '.epoch < 3 or .val_accuracy > 0.9'
    records epoch '.load_decode_sec > 0 and .load_read_sec > 0 and .load_busy_sec > 0 and .data_wait_share >= 0
                   and .load_copy_sec >= 0'
    # An epoch that waited is reported, with the stage that it waited for.
    [ "$(grep -c 'of step time was spent waiting for images; loader threads spend' "$BATS_TEST_TMPDIR/said")" -eq \
        "$(jq -s 'map(select(.record == "epoch" and .data_wait_share >= 0.05)) | length' "$out/metrics.jsonl")" ]
    records run '.data.kind == "images" and .data.n_classes == 4 and .options."input-size" == 16
                 and .topology.loader_threads == 1 and (.data.transform | startswith("classify"))'
    records end '.corrupt_samples == 0'
    for n in 0 2; do
        on_ranks "$n" eval "$out" --threads 1 >"$BATS_TEST_TMPDIR/eval$n"
        diff <(grep -v '^check' "$BATS_TEST_TMPDIR/eval0") <(grep -v '^check' "$BATS_TEST_TMPDIR/eval$n")
    done
    grep -q '24 validation samples' "$BATS_TEST_TMPDIR/eval0"
    accuracy=$(jq -r 'select(.record == "epoch" and .epoch == 3) | .val_accuracy' "$out/metrics.jsonl")
    grep -q "^accuracy  *$(printf %.4f "$accuracy")" "$BATS_TEST_TMPDIR/eval0"
    grep -Eq '^ *red +[0-9]+ ' "$BATS_TEST_TMPDIR/eval0"
    on_ranks 2 eval "$out" --split train --png "$BATS_TEST_TMPDIR/mistakes.png" | grep '80 training samples'
    [ -s "$BATS_TEST_TMPDIR/mistakes.png" ]
}

@test "a resumed run sees what an unbroken one sees, on another number of ranks" {
    image_run 2 "$out" --steps 8 --jitter-brightness 0.4 --jitter-saturation 0.4
    cp -r "$out" "$out-whole"
    image_run 2 "$out" --steps 8 --jitter-brightness 0.4 --jitter-saturation 0.4 --overwrite --checkpoint-every 3
    rm "$out"/ckpt-00000000000[68].h5
    on_ranks 0 train --out "$out" --resume auto --threads 1 --loader-threads 3
    losses "$out" | tail -n 5 >"$BATS_TEST_TMPDIR/resumed"
    losses "$out-whole" | tail -n 5 >"$BATS_TEST_TMPDIR/whole"
    close_columns "$BATS_TEST_TMPDIR/resumed" "$BATS_TEST_TMPDIR/whole" 1e-4
    run on_ranks 0 train --out "$out" --resume auto --crop center
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --crop center (it was auto)"* ]]
}

@test "affine maps join crops and jitter: the same on any number of ranks and loader threads, and resumed" {
    with=(--steps 8 --crop-scale 0.3 --jitter-contrast 0.3 --augment-rotate 20 --augment-shift 0.1 --augment-shear 5
        --augment-zoom 0.2 --flip)
    image_run 0 "$out" "${with[@]}" --loader-threads 1 --checkpoint-every 3 >"$BATS_TEST_TMPDIR/said"
    grep -q 'random crops, 30 % or more of the area, flipped at random, moved by affine maps, colours jittered; evaluation: center' \
        "$BATS_TEST_TMPDIR/said"
    image_run 2 "$out-ranks" "${with[@]}" --loader-threads 3
    close_curves "$out" "$out-ranks" 1e-4
    image_run 0 "$out-crop" --steps 8 --crop-scale 0.3 --jitter-contrast 0.3
    run diff <(losses "$out") <(losses "$out-crop")
    [ "$status" -eq 1 ]
    cp -r "$out" "$out-resumed"
    rm "$out-resumed"/ckpt-00000000000[68].h5
    on_ranks 2 train --out "$out-resumed" --resume auto --threads 1
    losses "$out-resumed" | tail -n 5 >"$BATS_TEST_TMPDIR/resumed"
    losses "$out" | tail -n 5 >"$BATS_TEST_TMPDIR/whole"
    close_columns "$BATS_TEST_TMPDIR/resumed" "$BATS_TEST_TMPDIR/whole" 1e-4
    for crop in warp ${DPTRAIN_TEST_SLOW:+center letterbox}; do
        image_run 0 "$out-$crop" --steps 2 --crop "$crop" --augment-rotate 90
    done
}

@test "images in memory take random crops and jitter beside affine maps, on any number of ranks" {
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/digits" --train 64 --val 10
    with=(--data "$BATS_TEST_TMPDIR/digits" --model mlp --batch 16 --steps 8 --threads 1 --crop random --crop-scale 0.5
        --jitter-brightness 0.3 --jitter-contrast 0.3 --augment-rotate 8 --no-flip)
    on_ranks 0 train --out "$out" "${with[@]}" --loader-threads 1
    on_ranks 2 train --out "$out-ranks" "${with[@]}" --loader-threads 3
    close_curves "$out" "$out-ranks" 1e-4
}

@test "a damaged image fails the run, or is named once and replaced" {
    cp -r "$images" "$BATS_TEST_TMPDIR/damaged"
    images=$BATS_TEST_TMPDIR/damaged
    truncate -s 300 "$images/train/green/007.png"
    run image_run 2 "$out-bad" --epochs 1
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"green/007.png"*"--max-bad"* ]]
    [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    truncate -s 200 "$images/val/red/001.png"
    for n in 0 2; do
        image_run "$n" "$out-$n" --epochs 2 --max-bad 2 >"$BATS_TEST_TMPDIR/said" 2>&1
        cat "$BATS_TEST_TMPDIR/said"
        [ "$(grep -c 'green/007.png' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
        [ "$(grep -c 'red/001.png' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
        grep -q '2 of 104 images could not be read' "$BATS_TEST_TMPDIR/said"
        [ "$(jq 'select(.record == "end") | .corrupt_samples' "$out-$n/metrics.jsonl")" -eq 2 ]
    done
    close_curves "$out-0" "$out-2" 1e-4
    run image_run 0 "$out-x" --epochs 1 --max-bad 1
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"2 images cannot be read, and --max-bad allows 1"* ]]
    run on_ranks 0 eval "$out-0"
    [ "$status" -eq 3 ]
    [[ $output == *"red/001.png"* ]]
    on_ranks 2 eval "$out-0" --max-bad 1 2>&1 | grep 'red/001.png'
}

@test "options that do not fit the data are refused in one message" {
    local ranks=2
    check() { # CODE PART-OF-THE-MESSAGE ARGUMENTS...
        run on_ranks "$ranks" train --out "$out" --model mlp --steps 1 "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    }
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/digits" --train 64 --val 10
    check 2 "--input-size applies to folders of images" --data "$BATS_TEST_TMPDIR/digits" --input-size 32
    check 2 "--crop center applies to folders of images" --data "$BATS_TEST_TMPDIR/digits" --crop center
    ranks=0
    check 2 "--crop-scale needs --crop random" --data "$BATS_TEST_TMPDIR/digits" --crop-scale 0.5
    check 2 "--jitter-saturation needs colour images" --data "$BATS_TEST_TMPDIR/digits" --jitter-saturation 0.5
    check 2 "--augment-flip is an earlier name of --flip; give one of them" --data "$images" --augment-flip --no-flip
    check 2 "--augment-flip is an earlier name of --flip; give one of them" --data "$images" --no-augment-flip --flip
    check 2 "its pixels are already random" --data synthetic --input-size 16 --augment-rotate 5
    check 2 "its pixels are already random" --data synthetic --input-size 16 --flip
    check 2 "its pixels are already random" --data synthetic --input-size 16 --augment-flip
    check 2 "--task multilabel needs images with annotations" --data "$images" --task multilabel
    check 2 "--crop-scale needs --crop random" --data "$images" --crop letterbox --crop-scale 0.5
    mkdir "$BATS_TEST_TMPDIR/empty"
    check 3 "$BATS_TEST_TMPDIR/empty" --data "$BATS_TEST_TMPDIR/empty"
    # What --print-config writes of images' options does not stand in the way of other data.
    "$dptrain" train --data "$BATS_TEST_TMPDIR/digits" --model mlp --epochs 1 --out "$out" --print-config >"$BATS_TEST_TMPDIR/conf"
    on_ranks 0 train --config "$BATS_TEST_TMPDIR/conf"
}

@test "a folder without validation images is evaluated on those that it has, and says so" {
    cp -r "$images/train" "$BATS_TEST_TMPDIR/all"
    images=$BATS_TEST_TMPDIR/all
    image_run 2 "$out" --steps 2 >"$BATS_TEST_TMPDIR/said" 2>&1
    grep -q 'no validation images' "$BATS_TEST_TMPDIR/said"
    image_run 0 "$out-no-eval" --steps 1 --no-eval >"$BATS_TEST_TMPDIR/said" 2>&1
    [ "$(grep -c 'no validation images' "$BATS_TEST_TMPDIR/said")" -eq 0 ]
    run on_ranks 0 eval "$out"
    [ "$status" -eq 3 ]
    [[ $output == *"--split train"* ]]
}

@test "real COCO images: several labels, and objects, the same on 1 and 2 ranks" {
    [ -d "${DPTRAIN_DATA:-}/coco_tiny" ] || skip "no \$DPTRAIN_DATA/coco_tiny"
    for task in multilabel crops; do
        for n in 0 2; do
            on_ranks "$n" train --data "$DPTRAIN_DATA/coco_tiny" --task "$task" --model mlp --input-size 32 --batch 16 \
                --steps 4 --threads 1 --lr 0.01 --out "$out-$task-$n"
        done
        close_curves "$out-$task-0" "$out-$task-2" 1e-4
    done
    jq -se 'map(select(.record == "epoch")) | length > 0 and all(.val_map > 0 and .val_map < 1 and .val_accuracy == null)' \
        "$out-multilabel-0/metrics.jsonl"
    for n in 0 2; do on_ranks "$n" eval "$out-multilabel-0" --split train --threads 1 >"$BATS_TEST_TMPDIR/eval$n"; done
    diff "$BATS_TEST_TMPDIR/eval0" "$BATS_TEST_TMPDIR/eval2"
    grep -Eq '^mAP +0\.' "$BATS_TEST_TMPDIR/eval0"
    grep -Eq '^  [01]\.[0-9]{4}  person$' "$BATS_TEST_TMPDIR/eval0"
    run on_ranks 0 eval "$out-multilabel-0" --png x.png
    [ "$status" -eq 2 ]
}

@test "a folder and its shards give the same bits: losses, checkpoints, evaluation" {
    here=$BATS_TEST_TMPDIR
    check() { # FOLDER ARGUMENTS...
        # Small shards, which end within blocks.
        rm -rf "$here/shards"
        "$dptrain" data pack --from "$1" --out "$here/shards" --shard-size 40K
        for from in "$1" "$here/shards"; do
            ln -sfn "$from" "$here/data" # checkpoints keep the name
            on_ranks 2 train --data "$here/data" --model mlp --input-size 16 --batch 12 --steps 8 --threads 1 \
                --algorithms fixed --loader-threads 2 --overwrite --out "$here/now" "${@:2}" >"$here/said"
            on_ranks 2 eval "$here/now" --threads 1 | grep -v '^check\|training train/, ' >"$here/now/evaluated"
            [[ $* != *--shuffle-block* ]] || grep -q 'shuffled in blocks of [47] samples' "$here/said"
            [[ $from == */shards ]] || rm -rf "$here/folder"
            [[ $from == */shards ]] || mv "$here/now" "$here/folder"
        done
        diff <(losses "$here/now") <(losses "$here/folder")
        cmp "$here"/{now,folder}/ckpt-000000000008.h5
        diff "$here"/{now,folder}/evaluated
    }
    check "$images"
    check "$images" --shuffle-block 4 --shuffle-window 3
    if [ -n "${DPTRAIN_TEST_SLOW:-}" ] && [ -d "${DPTRAIN_DATA:-}/coco_tiny" ]; then
        check "$DPTRAIN_DATA/coco_tiny" --task multilabel
        check "$DPTRAIN_DATA/coco_tiny" --task crops --shuffle-block 7 --shuffle-window 4
    fi
}

@test "shards that are missing, cut short or damaged are named, before training where that can be seen" {
    "$dptrain" data pack --from "$images" --out "$BATS_TEST_TMPDIR/whole" --shard-size 40K
    check() { # WORDS   of training on 2 ranks
        run on_ranks 2 train --data "$BATS_TEST_TMPDIR/shards" --model mlp --input-size 16 --batch 20 --epochs 1 \
            --out "$out" --overwrite --max-bad 100
        echo "expected \"$1\", got $status: $output"
        [ "$status" -eq 3 ]
        [[ $output == *$1* ]]
        rm -rf "$BATS_TEST_TMPDIR/shards"
        cp -r "$BATS_TEST_TMPDIR/whole" "$BATS_TEST_TMPDIR/shards"
    }
    check "no such folder"
    rm "$BATS_TEST_TMPDIR/shards"/val-00001-*
    check "lacks 1 of the 7 shards in its index, the first is val-00001-"
    rm "$BATS_TEST_TMPDIR/shards/index.h5"
    check "packing was not finished"
    truncate -s 8000 "$BATS_TEST_TMPDIR/shards/index.h5"
    check "index.h5 is damaged"
    # One image of a piece: it alone is bad.
    shard=("$BATS_TEST_TMPDIR/shards"/train-00001-*)
    printf 'no' | dd of="${shard[0]}" bs=1 seek=$(($(stat -c %s "${shard[0]}") / 2)) conv=notrunc status=none
    on_ranks 2 train --data "$BATS_TEST_TMPDIR/shards" --model mlp --input-size 16 --batch 20 --epochs 1 --out "$out" \
        --overwrite --max-bad 1 --shuffle-block 5 --shuffle-window 4 2>&1 | tee "$BATS_TEST_TMPDIR/said"
    grep -q "1 of 104 images could not be read" "$BATS_TEST_TMPDIR/said"
    grep -q "record .* does not match its hash" "$BATS_TEST_TMPDIR/said"
}

@test "shuffled in blocks, a run is the same on any number of ranks, and resumed" {
    "$dptrain" data pack --from "$images" --out "$BATS_TEST_TMPDIR/shards" --shard-size 40K
    images=$BATS_TEST_TMPDIR/shards
    blocks=(--shuffle-block 4 --shuffle-window 5 --steps 8)
    image_run 3 "$out" "${blocks[@]}"
    image_run 0 "$out-0" "${blocks[@]}"
    close_curves "$out" "$out-0" 1e-4
    jq -se 'map(select(.record == "run"))[0].data.shuffle_block == 4' "$out/metrics.jsonl"
    image_run 0 "$out-1" --steps 8
    run close_curves "$out-0" "$out-1" 1e-4
    [ "$status" -ne 0 ]
    image_run 2 "$out-2" "${blocks[@]}" --checkpoint-every 3
    rm "$out-2"/ckpt-00000000000[68].h5
    on_ranks 0 train --out "$out-2" --resume auto --threads 1
    close_columns <(losses "$out-2" | tail -n 5) <(losses "$out" | tail -n 5) 1e-4
    run on_ranks 0 train --out "$out-2" --resume auto --shuffle-block 1
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --shuffle-block 1 (it was 4)"* ]]
}

@test "shards are read in pieces, by one rank each" {
    strace -o /dev/null true 2>/dev/null || skip "strace is not here, or may not trace"
    "$dptrain" data pack --from "$images" --out "$BATS_TEST_TMPDIR/shards"
    reads() { # ARGUMENTS...   of shards of one split and epoch, in all
        rm -f "$BATS_TEST_TMPDIR"/trace.*
        mpi_flags 2
        ASAN_OPTIONS=detect_leaks=0 mpirun "${MPI_FLAGS[@]}" -np 2 strace -f -ff -y -e trace=pread64 \
            -o "$BATS_TEST_TMPDIR/trace" "$dptrain" train --data "$BATS_TEST_TMPDIR/shards" --out "$out" --overwrite \
            --model mlp --input-size 16 --batch 20 --threads 1 --loader-threads 2 --epochs 1 "$@" >/dev/null
        for split in train val; do cat "$BATS_TEST_TMPDIR"/trace.* | grep -c "/$split-00000-of-00001.h5>"; done
    }
    # 80 samples in 16 blocks of 5; 24 images for evaluation, which are one piece.
    run reads --shuffle-block 5 --shuffle-window 4
    echo "$output"
    [ "${lines[0]}" -ge 32 ]
    [ "${lines[0]}" -le 48 ]
    [ "${lines[1]}" -ge 2 ]
    [ "${lines[1]}" -le 4 ]
    run reads --shuffle-block 1
    echo "$output"
    [ "${lines[0]}" -eq 162 ] # with the one sample that is decoded at the start
}

@test "ResNet-18 learns COCO's images by heart on 2 ranks, from shards, stopped halfway and resumed on 1 and on 3" {
    only_slow "takes minutes"
    [ -d "${DPTRAIN_DATA:-}/coco_tiny" ] || skip "no \$DPTRAIN_DATA/coco_tiny"
    shards=$BATS_TEST_TMPDIR/shards
    on_ranks 2 data pack --from "$DPTRAIN_DATA/coco_tiny" --out "$shards" --shard-size 2M
    on_ranks 2 data verify "$shards"
    mpi_flags 2
    mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" train --data "$shards" --task multilabel --model resnet18 \
        --input-size 64 --crop warp --batch 10 --epochs 40 --optimizer adamw --threads 1 --checkpoint-every 100 \
        --out "$out" >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    pid=$!
    until [ -e "$out/ckpt-000000000100.h5" ] || ! kill -0 "$pid"; do sleep 0.2; done
    kill -USR1 "$pid"
    wait "$pid"
    grep 'stopped by SIGUSR1' "$BATS_TEST_TMPDIR/said"
    for n in 1 3; do
        cp -r "$out" "$out-$n"
        on_ranks "$n" train --out "$out-$n" --resume auto --threads 1 | grep 'finished after 200 steps'
        map=$(on_ranks 0 eval "$out-$n" --split train --threads 1 | sed -n 's/^mAP *//p')
        echo "# $n ranks: train mAP $map" >&3
        between 0.9 "$map" 1.000001
    done
}

@test "of many categories no table of confusions is kept, which would be larger than the memory" {
    coco=$BATS_TEST_TMPDIR/coco
    mkdir -p "$coco/train2017" "$coco/annotations"
    cp "$images/train/blue/000.png" "$coco/train2017/1.png"
    awk 'BEGIN {
        printf "{\"images\": [{\"id\": 1, \"file_name\": \"1.png\", \"width\": 30, \"height\": 44}], \"annotations\": ["
        for (i = 1; i <= 2; i++) {
            if (i > 1) printf ", "
            printf "{\"id\": %d, \"image_id\": 1, \"category_id\": %d, \"bbox\": [1, 1, 20, 20], \"area\": 400}", i, i
        }
        printf "], \"categories\": ["
        for (i = 1; i <= 65000; i++) printf "%s{\"id\": %d, \"name\": \"c%d\"}", (i > 1 ? ", " : ""), i, i
        print "]}"
    }' >"$coco/annotations/instances_train2017.json"
    run "$dptrain" train --data "$coco" --model mlp --input-size 8 --batch 1 --steps 1 --out "$BATS_TEST_TMPDIR/run"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *mAP* ]]
}

# $script on each of 3 ranks, in a folder of the rank's own that holds `data`; what it does is in $traces.RANK.
on_hosts() { # ARGUMENTS...
    local host
    traces=$BATS_TEST_TMPDIR/trace
    for host in 0 1 2; do
        mkdir -p "$BATS_TEST_TMPDIR/host$host"
        [ -e "$BATS_TEST_TMPDIR/host$host/data" ] || ln -s "$shared" "$BATS_TEST_TMPDIR/host$host/data"
    done
    cat >"$BATS_TEST_TMPDIR/rank" <<END_OF_SCRIPT
#!/usr/bin/env bash
rank=\$OMPI_COMM_WORLD_RANK
cd "$BATS_TEST_TMPDIR/host\$rank" || exit 1
[ -z "$tracer" ] || exec timeout -k 5 120 $tracer -o "$traces.\$rank" "\$@"
exec "\$@"
END_OF_SCRIPT
    chmod +x "$BATS_TEST_TMPDIR/rank"
    rm -f "$traces".*
    mpi_flags 3
    timeout -k 5 150 mpirun "${MPI_FLAGS[@]}" -np 3 "$BATS_TEST_TMPDIR/rank" "$dptrain" "$@"
}

# Of each rank, how often its trace has that.
count_calls() { # PATTERN
    local rank
    for rank in 0 1 2; do
        [ -s "$traces.$rank" ]
        grep -Ec "$1" "$traces.$rank" || true
    done | xargs
}

@test "of 3 ranks one lists images, annotations and shards, and the others ask for no more than they read" {
    only_slow "test_source_share has what ranks get"
    strace -f -o /dev/null true 2>/dev/null || skip "strace is not here, or may not trace"
    tracer="strace -f -e trace=stat,lstat,newfstatat,statx,open,openat,getdents64"
    shared=$images
    stats='(stat|statx|newfstatat)\(.*\.(png|jpg)"'
    on_hosts data pack --from data --out "$BATS_TEST_TMPDIR/shards" --shard-size 8K
    [ "$(count_calls "$stats")" = "104 4 4" ]
    on_hosts train --data data --out "$out" --model mlp --input-size 16 --batch 12 --steps 2 --threads 1
    [ "$(count_calls "$stats")" = "104 4 4" ]
    grep -q 'getdents64' "$traces.0"
    # No folder of images is opened elsewhere.
    [ "$(count_calls 'open.*data/(train|val)(/[a-z]+)?",.*O_DIRECTORY' | cut -d ' ' -f 2-)" = "0 0" ]
    if [ -n "${DPTRAIN_TEST_SLOW:-}" ]; then
        on_hosts eval "$out" --data data --threads 1
        [ "$(count_calls "$stats")" = "104 4 4" ]
    fi

    # The run's folder of shards: the index is rank 0's affair.
    shared=$BATS_TEST_TMPDIR/shards
    rm "$BATS_TEST_TMPDIR"/host?/data
    on_hosts train --data data --out "$out-shards" --model mlp --input-size 16 --batch 12 --steps 2 --threads 1
    [ "$(count_calls 'open.*index\.h5".* = [0-9]')" = "1 0 0" ]
    close_curves "$out" "$out-shards" 0

    [ -n "${DPTRAIN_TEST_SLOW:-}" ] && [ -d "${DPTRAIN_DATA:-}/coco_tiny" ] || return 0
    shared=$DPTRAIN_DATA/coco_tiny
    rm "$BATS_TEST_TMPDIR"/host?/data
    on_hosts data verify data
    [ "$(count_calls "$stats")" = "100 4 4" ]
    [ "$(count_calls 'open.*instances_train2017\.json".* = [0-9]')" = "1 0 0" ]
}

@test "bad data on one host is reported once, with the host and the rank" {
    check() { # CODE PATTERN ARGUMENTS...
        run on_hosts "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
        grep -Eq "$2" <<<"$output"
    }
    tracer='' shared=$images
    training=(train --data data --out "$out" --model mlp --input-size 16 --batch 80 --steps 1 --threads 1)
    packing=(data pack --from data --out "$BATS_TEST_TMPDIR/shards" --shard-size 1K)
    check 3 "absent: no such folder" data pack --from absent --out "$BATS_TEST_TMPDIR/shards"
    check 3 "absent: no such folder" train --data absent --out "$out"
    # The last image is missing on host 1, then one in the middle, then all.
    rm "$BATS_TEST_TMPDIR/host1/data"
    cp -r "$images" "$BATS_TEST_TMPDIR/host1/data"
    rm "$BATS_TEST_TMPDIR/host1/data/val/red/005.png"
    for words in "${training[*]}" "${packing[*]}"; do
        # shellcheck disable=SC2086 # words
        check 3 "rank 1 on [^ ]+: cannot access data/val/red/005.png on this host" $words
    done
    cp "$images/val/red/005.png" "$BATS_TEST_TMPDIR/host1/data/val/red/"
    rm "$BATS_TEST_TMPDIR/host1/data/train/green/"*
    check 3 "cannot open data/train/green/0[0-9][0-9].png.*\\(rank 1 on " "${training[@]}"
    check 3 "rank 1 on [^ ]+: cannot open data/train/green/0[0-9][0-9].png" "${packing[@]}"
    rm -r "$BATS_TEST_TMPDIR/host1/data"
    mkdir "$BATS_TEST_TMPDIR/host1/data"
    check 3 "rank 1 on [^ ]+: cannot access data/train/blue/000.png on this host" "${training[@]}"
}

@test "--max-image-pixels: larger images are refused by train, eval, predict, pack and verify" {
    image_run 0 "$out" --steps 2 --max-image-pixels 2552 >/dev/null
    for command in "train --data $images --input-size 16 --model mlp --batch 20 --steps 1 --out $out-2" "eval $out" \
        "predict $out $images/val/red" "data pack --from $images --out $out-pack" "data verify $images"; do
        # shellcheck disable=SC2086 # words
        run "$dptrain" $command --max-image-pixels 2500
        echo "$output"
        [ "$status" -eq 3 ]
        [[ $output == *"58 x 44 pixels, more than --max-image-pixels 2500"* ]]
    done
}
