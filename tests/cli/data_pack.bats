#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain data pack and verify: from images to shards, and back to the bit that was flipped.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 300 40; }

setup() {
    common_setup
    # In memory if possible, because every shard waits for its disk.
    work=$(mktemp -d /dev/shm/dptrain-test-XXXXXX 2>/dev/null || mktemp -d)
    shards=$work/shards
}

teardown() { rm -rf "$work"; }

coco_tiny() {
    coco=${DPTRAIN_DATA:-}/coco_tiny
    [[ -d $coco ]] || skip "there is no \$DPTRAIN_DATA/coco_tiny"
}

check() { # CODE WORDS ARGUMENTS...   what dptrain data says
    run "$dptrain" data "${@:3}"
    echo "expected $1 \"$2\", got $status: $output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
}

# Changes one byte.
damage() { # FILE OFFSET
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# A member of a shard's first record, read by HDF5's own tool.
first_record() { # FILE MEMBER-NUMBER
    h5dump -d /records -s 0 -c 1 -y -w 200 "$1" | sed -n 's/^ *\([-0-9]*\),\{0,1\}$/\1/p' | sed -n "$2p"
}

no_leftovers() { # FOLDER
    local left
    left=$(find "$1" -name '.*tmp*')
    echo "left: ${left:-none}"
    [[ -z $left ]]
}

@test "usage errors are reported with the right code" {
    check 2 "expected a verb"
    check 2 "did you mean 'verify'?" verfy
    check 2 "--from SRC is required" pack --out "$shards"
    check 2 "--out DST is required" pack --from "$tiny"
    check 2 "--quality requires --resize" pack --from "$tiny" --out "$shards" --quality 80
    check 2 "unknown option" pack --from "$tiny" --out "$shards" --shards 3
    check 2 "is the source itself" pack --from "$tiny" --out "$tiny/."
    check 3 "$BATS_TEST_TMPDIR/absent" pack --from "$BATS_TEST_TMPDIR/absent" --out "$shards"
    [ ! -e "$shards" ]
    mkdir "$BATS_TEST_TMPDIR/empty"
    check 3 "$BATS_TEST_TMPDIR/empty" pack --from "$BATS_TEST_TMPDIR/empty" --out "$shards"
    touch "$BATS_TEST_TMPDIR/file"
    check 2 "$BATS_TEST_TMPDIR/file is a file" pack --from "$tiny" --out "$BATS_TEST_TMPDIR/file"
    check 2 "expected one folder" verify
    check 3 "$BATS_TEST_TMPDIR/absent" verify "$BATS_TEST_TMPDIR/absent"
}

@test "shards cannot be packed into the folders of classes, where they would be read as a class" {
    folder=$BATS_TEST_TMPDIR/folder
    mkdir -p "$folder"/{cat,dog}
    touch "$folder/cat/1.png" "$folder/dog/1.png"
    ln -s "$folder" "$BATS_TEST_TMPDIR/link"
    for out in "$folder/shards" "$folder/new/shards/" "$BATS_TEST_TMPDIR/link/shards" "$folder/dog/../shards"; do
        check 2 "$out is in $folder" pack --from "$folder" --out "$out"
        [ "$(ls "$folder")" = "$(printf 'cat\ndog')" ]
    done
    cd "$folder"
    check 2 "shards is in ." pack --from . --out shards
    mkdir shards
    check 2 "$folder/shards is in $folder" pack --from "$folder" --out "$folder/shards"
    rmdir shards
    # Beside it, with the same beginning of the name: fine as far as that goes, and no image is in these files.
    check 3 "cat/1.png" pack --from "$folder" --out "$folder-shards"
    mkdir "$folder/train"
    mv cat dog train
    check 2 "$folder/train/shards is in $folder/train" pack --from "$folder" --out "$folder/train/shards"
    check 2 "$folder/val/shards is in $folder/val" pack --from "$folder" --out "$folder/val/shards"
    check 3 "cat/1.png" pack --from "$folder" --out "$folder/shards"
    check 3 "cat/1.png" pack --from "$folder" --out "$folder/shards"
}

@test "help has lines of up to 100 columns" {
    for verb in "" synth pack verify show; do
        # shellcheck disable=SC2086 # no word is no verb
        run "$dptrain" data $verb --help
        [ "$status" -eq 0 ]
        [[ $output == *"usage: "* ]]
        awk -v verb="$verb" 'length($0) > 100 { print verb ": " $0; bad = 1 } END { exit bad }' <<<"$output"
    done
}

@test "IDX files: the same shards on 1, 2 and 3 ranks, all intact" {
    for np in 0 2 3; do
        on_ranks "$np" data pack --from "$tiny" --out "$shards-$np" --shard-size 16K
        [ "$np" -eq 0 ] || diff -r "$shards-0" "$shards-$np"
        run on_ranks "$np" data verify "$shards-$np"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"340 samples in "*"every byte verified"* ]]
    done
    jq -e '.splits.train.samples == 300 and .splits.val.samples == 40 and (.categories | length) == 10' \
        "$shards-0/manifest.json"
    # Shards are also a source: larger shards of them hold the same samples.
    "$dptrain" data pack --from "$shards-0" --out "$shards-again" --shard-size 1G
    [ "$(jq -r .data_xxh3 "$shards-again/manifest.json")" = "$(jq -r .data_xxh3 "$shards-0/manifest.json")" ]
    [ "$(ls "$shards-again")" = $'index.h5\nmanifest.json\ntrain-00000-of-00001.h5\nval-00000-of-00001.h5' ]
}

@test "an interrupted packing resumes, and repairs damage" {
    "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 16K
    n=$(find "$shards" -name '*-of-*.h5' | wc -l)
    ((n > 4))
    cp -r "$shards" "$shards-whole"
    rm "$shards"/train-00001-*.h5 "$shards"/manifest.json
    run "$dptrain" data verify "$shards"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"not ok"*"train-00001-of-"*"No such file"* ]]
    run "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 16K
    echo "$output"
    [[ $output == *"$((n - 1)) of these shards were already complete"* ]]
    diff -r "$shards" "$shards-whole"
    # One bit of an image: verify names the record, packing mends it.
    file=$(find "$shards" -name 'train-00000-*')
    damage "$file" "$(($(first_record "$file" 3) + 20))"
    run "$dptrain" data verify "$shards"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"not ok  $file, record 0 (\""*"id "*"its image is damaged"* ]]
    run "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 16K
    [[ $output == *"rewriting a shard: "*"does not match its checksum"* ]]
    "$dptrain" data verify "$shards"
    # A damaged index is detected before it is used.
    damage "$shards/index.h5" 3000
    check 3 "the index $shards/index.h5 is damaged" verify "$shards"
    "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 16K
    diff -r "$shards" "$shards-whole"
}

@test "another packing in the folder is rejected, and replaced with --force" {
    "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 16K
    cp -r "$shards" "$shards-whole"
    check 2 "holds shards of other data" pack --from "$tiny" --out "$shards" --shard-size 32K
    diff -r "$shards" "$shards-whole"
    echo mine >"$shards/notes.txt"
    "$dptrain" data pack --from "$tiny" --out "$shards" --shard-size 1M --force
    [ "$(ls "$shards")" = $'index.h5\nmanifest.json\nnotes.txt\ntrain-00000-of-00001.h5\nval-00000-of-00001.h5' ]
    "$dptrain" data verify "$shards"
}

@test "a folder that ranks do not share is rejected before anything is packed" {
    mkdir "$shards"
    unshare -m mount -t tmpfs tmpfs "$shards" 2>/dev/null || skip "mounting is not allowed here"
    mpi_flags 2 && mpi_parts
    pack=("$dptrain" data pack --from "$tiny" --out "$shards")
    # shellcheck disable=SC2016 # the other shell's words
    run mpirun "${MPI_FLAGS[@]}" -np 1 "${pack[@]}" : \
        -np 1 unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' "$shards" "${pack[@]}"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"on this host is not rank 0's"* ]]
    [ -z "$(ls -A "$shards")" ]
}

@test "a signal leaves only complete shards" {
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/digits" --train 6000 --val 10
    "$dptrain" data pack --from "$BATS_TEST_TMPDIR/digits" --out "$shards" --shard-size 8K >/dev/null 2>&1 3>&- &
    pid=$!
    for ((i = 0; i < 6000; i++)); do
        [[ ! -e $shards ]] || [[ -z $(find "$shards" -name 'train-*') ]] || break
        sleep 0.01
    done
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 143 ]
    no_leftovers "$shards"
    [ ! -e "$shards/manifest.json" ]
    check 3 "packing was not finished" verify "$shards"
    run "$dptrain" data pack --from "$BATS_TEST_TMPDIR/digits" --out "$shards" --shard-size 8K
    echo "$output"
    [[ $output == *"of these shards were already complete"* ]]
    "$dptrain" data verify "$shards"
}

@test "a signal at the moment a shard's file is made leaves nothing" {
    command -v strace >/dev/null || skip "no strace here"
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/digits" --train 100 --val 10
    pack=("$dptrain" data pack --from "$BATS_TEST_TMPDIR/digits" --out)
    trace=(strace -o "$BATS_TEST_TMPDIR/trace" -e trace=openat)
    "${trace[@]}" "${pack[@]}" "$BATS_TEST_TMPDIR/whole" || skip "tracing is not permitted here"
    n=$(grep -nm 1 'train-.*tmp-.*O_CREAT' "$BATS_TEST_TMPDIR/trace" | cut -d : -f 1)
    # The call that makes the file returns long after it has made it.
    "${trace[@]}" -e "inject=openat:delay_exit=4000000:when=$n" "${pack[@]}" "$shards" 3>&- &
    pid=$!
    for ((i = 0; i < 6000; i++)); do
        ! find "$shards" -name '.train-*tmp*' 2>/dev/null | grep -q . || break
        sleep 0.01
    done
    pkill -TERM -P "$pid" -x dptrain
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 143 ]
    grep 'train-.*tmp-.*O_CREAT' "$BATS_TEST_TMPDIR/trace"
    no_leftovers "$shards"
}

@test "a full disk is reported, nothing is lost, and with space the packing continues" {
    [ "$(id -u)" -eq 0 ] || skip "mounting a small tmpfs takes root"
    mkdir "$shards"
    unshare -m true 2>/dev/null || skip "mounting a small tmpfs is not allowed here"
    # shellcheck disable=SC2016 # the inner shell's
    run unshare -m bash -c '
        set -e
        mount -t tmpfs -o size=256k tmpfs "$2" || exit 77
        code=0
        "$1" data pack --from "$3" --out "$2" --shard-size 16K || code=$?
        echo "code $code"
        ls -A "$2"
        mount -o remount,size=16m "$2"
        "$1" data pack --from "$3" --out "$2" --shard-size 16K
        "$1" data verify "$2"
        mount -o remount,ro "$2"
        code=0
        "$1" data pack --from "$3" --out "$2" --shard-size 16K || code=$?
        echo "read-only: code $code"' _ "$dptrain" "$shards" "$tiny"
    echo "$output"
    [ "$status" -ne 77 ] || skip "mounting a small tmpfs is not allowed here"
    [ "$status" -eq 0 ]
    [[ $output == *"No space left on device"*"code 4"* ]]
    [[ $output != *.tmp-* ]]
    [[ $output == *"of these shards were already complete"*"every byte verified"* ]]
    [[ $output == *"Read-only file system"*"read-only: code 4"* ]]
}

@test "COCO: packs, verifies, keeps the images' bytes" {
    coco_tiny
    "$dptrain" data verify "$coco"
    on_ranks 2 data pack --from "$coco" --out "$shards" --shard-size 2M
    on_ranks 2 data verify "$shards"
    jq -e '.splits.train.samples == 50 and .splits.val.samples == 50 and .splits.train.annotations == 470 and
        .splits.val.annotations == 382 and .splits.train.crowds == 5 and (.categories | length) == 80 and
        .categories[79].name == "toothbrush" and .source.kind == "coco" and .splits.train.picture_bytes == 7096006' \
        "$shards/manifest.json"
    file=$(find "$shards" -name 'train-00000-*')
    tail -c "+$(($(first_record "$file" 3) + 1))" "$file" | head -c "$(first_record "$file" 4)" |
        cmp - "$coco/train2017/000000005802.jpg"
    # Each file's digest is the one in the manifest.
    if command -v xxh128sum >/dev/null; then
        while read -r name digest; do
            [ "$(tail -c +513 "$shards/$name" | xxh128sum | cut -d ' ' -f 1)" = "$digest" ]
        done < <(jq -r '.splits[].shards[], .index | "\(.name) \(.xxh3_128)"' "$shards/manifest.json")
    fi
}

@test "--resize: smaller images, which the manifest says, and the others as they were" {
    coco_tiny
    "$dptrain" data pack --from "$coco" --out "$shards" --resize 100
    "$dptrain" data verify "$shards"
    jq -e '.pictures.shorter_side == 100 and .pictures.jpeg_quality == 90 and .splits.train.samples == 50 and
        .splits.train.annotations == 470 and .splits.train.picture_bytes < 1000000' "$shards/manifest.json"
    "$dptrain" data pack --from "$coco" --out "$shards-whole" --resize 4000
    jq -e '.splits.train.picture_bytes == 7096006' "$shards-whole/manifest.json"
}

@test "an image folder: classes, labels, a damaged file" {
    coco_tiny
    folder=$BATS_TEST_TMPDIR/folder
    mkdir -p "$folder"/train/{cat,dog} "$folder"/val/{cat,dog}
    cp "$coco"/train2017/00000000*.jpg "$folder/train/cat"
    cp "$coco"/train2017/0000001*.jpg "$folder/train/dog"
    cp "$coco"/val2017/00000000*.jpg "$folder/val/dog"
    chmod -R u+w "$folder"
    "$dptrain" data pack --from "$folder" --out "$shards"
    "$dptrain" data verify "$shards"
    jq -e '[.categories[].name] == ["cat", "dog"] and .source.kind == "folder" and .splits.train.annotations == 0' \
        "$shards/manifest.json"
    victim=$(find "$folder/train/dog" -name '*.jpg' | sort | head -n 1)
    truncate -s 100 "$victim"
    run on_ranks 2 data verify "$folder"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"not ok"*"${victim##*/}"* ]]
}

# A folder of images in two classes with a truncated JPEG and a PNG of which one byte of the pixels was changed. Their
# headers are intact. Sets folder.
bad_folder() {
    folder=$BATS_TEST_TMPDIR/images
    mkdir -p "$folder"/train/{a,b} "$folder/val/a"
    "$root/build/tests/tools/image_samples" jpeg "$folder/train/a" 100
    "$root/build/tests/tools/image_samples" png "$folder/train/b" 30
    cp "$folder"/train/a/turn[1-4].jpg "$folder/val/a"
    n_images=$(find "$folder" -type f | wc -l)
    truncate -s "$(($(stat -c %s "$folder/train/a/turn3.jpg") * 2 / 3))" "$folder/train/a/turn3.jpg"
    damaged=$(find "$folder/train/b" -size +1 | sort | tail -n 1)
    damage "$damaged" $(($(stat -c %s "$damaged") / 2))
}

names_both() { [[ $output == *"a/turn3.jpg"* && $output == *"b/${damaged##*/}"* ]]; }

@test "truncated and damaged images are found by decoding: verify names all of them" {
    bad_folder
    run on_ranks 2 data verify "$folder"
    echo "$output"
    [ "$status" -eq 3 ]
    [ "$(grep -c '^not ok ' <<<"$output")" -eq 2 ]
    names_both
    run "$dptrain" data verify "$folder" --no-decode
    [ "$status" -eq 0 ]
    "$dptrain" data pack --from "$folder" --out "$shards" --no-decode
    run "$dptrain" data verify "$shards" --threads 3
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"these images were packed in this state"* ]]
    [ "$(grep -c '^not ok ' <<<"$output")" -eq 2 ]
    names_both
    # A record that its hash has named is not named again.
    file=$(find "$shards" -name 'val-00000-*')
    damage "$file" "$(($(first_record "$file" 3) + 700))"
    run "$dptrain" data verify "$shards"
    echo "$output"
    [ "$(grep -c 'turn1.jpg' <<<"$output")" -eq 1 ]
    [[ $output == *"rewrites the damaged shards"* ]]
    run "$dptrain" data verify "$shards" --no-decode
    [ "$status" -eq 3 ]
    [[ $output != *turn3.jpg* ]]
}

@test "pack names all unusable images, and with --max-bad leaves them out" {
    bad_folder
    run "$dptrain" data pack --from "$folder" --out "$shards"
    echo "$output"
    [ "$status" -eq 3 ]
    names_both
    [[ $output == *"2 images cannot be used"*"--max-bad 2"* ]]
    [ -z "$(ls "$shards")" ]
    run "$dptrain" data pack --from "$folder" --out "$shards" --max-bad 1
    [ "$status" -eq 3 ]
    for np in 0 3; do
        run on_ranks "$np" data pack --from "$folder" --out "$shards-$np" --max-bad 2 --shard-size 64K
        echo "$output"
        [ "$status" -eq 0 ]
        names_both
        [[ $output == *"packed $((n_images - 2)) samples"*"2 images were left out"* ]]
    done
    "$dptrain" data verify "$shards-0"
    diff -r "$shards-0" "$shards-3"
    # Again: everything is kept.
    run "$dptrain" data pack --from "$folder" --out "$shards-0" --max-bad 2 --shard-size 64K
    echo "$output"
    [[ $output == *"of these shards were already complete"* ]]
    check 2 "exclude each other" pack --from "$folder" --out "$shards" --no-decode --max-bad 2
    # The folder is refused before images are decoded.
    check 2 "holds shards of other data" pack --from "$folder" --out "$shards-0"
    [[ $output != *turn3.jpg* ]]
}
