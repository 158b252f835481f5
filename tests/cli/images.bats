#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Decoded images against an independent decoder, ImageMagick: PNG's conformance images bit for bit, JPEGs within 2.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    tools=$root/build/tests/tools
    suite=${DPTRAIN_PNGSUITE:-$root/build/pngsuite}
}

need_suite() {
    [[ -e $suite/basn0g01.png ]] || skip "PngSuite is not in $suite; scripts/install_deps.sh --test puts it there"
}

# Ours against ImageMagick's: RGBA of 16 bits. Its colours are taken as they are stored: no gamma, no profile.
same_as_magick() { # FILE TOLERANCE OPTION...
    "$magick" "$1" "${@:3}" -depth 16 -endian MSB "rgba:$BATS_TEST_TMPDIR/raw" || return 1
    run "$tools/image_compare" "$1" "$BATS_TEST_TMPDIR/raw" "$2"
    [ "$status" -eq 0 ] || { echo "$1: $output"; return 1; }
}

@test "every good image of PngSuite is decoded as ImageMagick does, bit for bit" {
    need_magick
    need_suite
    local file n=0 bad=0
    for file in "$suite"/[!x]*.png; do
        n=$((n + 1))
        same_as_magick "$file" 0 -set colorspace sRGB || bad=$((bad + 1))
    done
    echo "$n images, $bad not"
    [ "$n" -ge 150 ]
    [ "$bad" -eq 0 ]
}

@test "every broken image of PngSuite is an error that names it and what is wrong" {
    need_suite
    local file n=0 bad=0
    for file in "$suite"/x*.png; do
        n=$((n + 1))
        run "$tools/image_compare" "$file"
        echo "$output"
        [[ $status -eq 3 && $output == *"$file"* ]] || bad=$((bad + 1))
    done
    [ "$n" -ge 14 ]
    [ "$bad" -eq 0 ]
}

@test "our own PNGs of every type and depth are what ImageMagick reads in them" {
    need_magick
    mkdir "$BATS_TEST_TMPDIR/png"
    "$tools/image_samples" png "$BATS_TEST_TMPDIR/png" 20
    local file bad=0
    for file in "$BATS_TEST_TMPDIR"/png/*_[012].png; do same_as_magick "$file" 0 -set colorspace sRGB || bad=$((bad + 1)); done
    [ "$bad" -eq 0 ]
}

@test "JPEGs of every kind and orientation are within 2 of ImageMagick's" {
    need_magick
    mkdir "$BATS_TEST_TMPDIR/jpeg"
    "$tools/image_samples" jpeg "$BATS_TEST_TMPDIR/jpeg" 100
    local file bad=0
    for file in "$BATS_TEST_TMPDIR"/jpeg/*.jpg; do
        same_as_magick "$file" 2 -auto-orient -colorspace sRGB || bad=$((bad + 1))
    done
    [ "$bad" -eq 0 ]
}

@test "photographs are within 2 of ImageMagick's" {
    need_magick
    [[ -d ${DPTRAIN_DATA:-}/coco_tiny/train2017 ]] || skip "no coco_tiny in \$DPTRAIN_DATA"
    local file n=0 bad=0
    for file in "$DPTRAIN_DATA"/coco_tiny/train2017/*.jpg; do
        n=$((n + 1))
        # One in six, for time.
        [[ -n ${DPTRAIN_TEST_SLOW:-} || $((n % 6)) -eq 1 ]] || continue
        same_as_magick "$file" 2 -auto-orient -colorspace sRGB || bad=$((bad + 1))
    done
    [ "$n" -gt 0 ]
    [ "$bad" -eq 0 ]
}
