#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares data pack and data verify with their lower bounds, and prints results/pack.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/pack.sh [options]

Creates a folder of JPEGs (copies of $DPTRAIN_DATA/coco_tiny), packs it and verifies the shards on one rank. Compares this
with writing the same bytes into one file (cat, fsync), reading the shards twice (cat), and hashing them (xxh128sum from
Debian's xxhash), and prints a Markdown page. All input is in the page cache.

  --folder DIR  folder for the files, which take three times --mb [a temporary folder]
  --mb N        10^6 bytes of images, about [400]
  --rounds N    number of rounds; the median counts [5]
  -h, --help    show this help
EOT
}

command="scripts/bench/pack.sh${*:+ $*}"
folder='' mb=400 rounds=5
while [[ $# -gt 0 ]]; do
    case $1 in
    --folder) need_value "$@"; folder=$(folder_option "$1" "$2"); shift 2 ;;
    --mb) need_value "$@"; whole_number "$1" "$2" 1; mb=$((10#$2)); shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
tiny=${DPTRAIN_DATA:-}/coco_tiny/train2017
compgen -G "$tiny/*.jpg" >/dev/null || die 3 "no *.jpg in '$tiny'; set DPTRAIN_DATA to the folder of coco_tiny"
tiny=$(readlink -f "$tiny")
cd "$here/../.."
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work pack "$folder"

one=$(du -cb "$tiny"/*.jpg | awk 'END { print $1 }')
copies=$(((mb * 1000000 + one - 1) / one))
for ((i = 0; i < copies; i++)); do
    mkdir -p "$work/images/class$((i % 10))"
    for image in "$tiny"/*.jpg; do cp "$image" "$work/images/class$((i % 10))/$i-${image##*/}"; done
done
n=$((copies * $(find "$tiny" -name '*.jpg' | wc -l))) bytes=$((copies * one))
note "$n images, $((bytes / 1000000)) MB"

command -v xxh128sum >/dev/null || die 4 "xxh128sum is not installed (Debian: apt-get install xxhash)"
names=(pack write verify read hash)
# shellcheck disable=SC2016 # Markdown's quotes
declare -A title=([pack]='`dptrain data pack`' [write]='the images into one file, `fsync`'
    [verify]='`dptrain data verify`' [read]='the shards read twice' [hash]='`xxh128sum` of the shards')

once() { # NAME
    case $1 in
    pack) ./dptrain data pack --from "$work/images" --out "$work/shards" --force --shard-size 64M ;;
    write) find "$work/images" -name '*.jpg' -exec cat {} + >"$work/all" && sync "$work/all" ;;
    verify) ./dptrain data verify "$work/shards" ;;
    read) cat "$work"/shards/*.h5 "$work"/shards/*.h5 >/dev/null ;;
    hash) xxh128sum "$work"/shards/*.h5 ;;
    esac >"$work/out" 2>"$work/log" || { cat "$work/log" >&2; die 4 "$1 failed"; }
}
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
once pack # the first one waits for earlier writes
once write
sync -f "$work"
TIMEFORMAT='%R %U %S'
for ((round = 1; round <= rounds; round++)); do
    for name in "${names[@]}"; do
        { time once "$name"; } 2>"$work/time"
        printf '%s %s\n' "$name" "$(cat "$work/time")" >>"$work/times"
        note "round $round/$rounds, $name: $(cat "$work/time") s (real, user, system)"
        sync -f "$work"
    done
done

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
row() { # NAME FLOOR
    local s cpu ratio
    s=$(awk -v name="$1" '$1 == name { print $2 }' "$work/times" | median)
    cpu=$(awk -v name="$1" '$1 == name { print $3 + $4 }' "$work/times" | median)
    ratio=$(awk -v a="$1" -v b="$2" '$1 == a { x[++n] = $2 } $1 == b { y[++m] = $2 }
        END { for (i = 1; i <= n && i <= m; i++) print x[i] / y[i] }' "$work/times" | median)
    awk -v title="${title[$1]}" -v s="$s" -v cpu="$cpu" -v bytes="$bytes" -v ratio="$ratio" \
        'BEGIN { printf "| %s | %.2f | %.2f | %.0f | %.2f |\n", title, s, cpu, bytes / s / 1e6, ratio }'
}

cat <<EOT
# Packing and verifying

$n JPEGs, $((bytes / 1000000)) MB, on one rank, within one folder ($(stat -f -c %T "$work")), all in the page cache; times
include flushing to disk. Median of $rounds rounds; the floor is the row below, and the ratio is taken within each round.

| | s | CPU s | MB/s | ratio to floor |
|---|---:|---:|---:|---:|
$(row pack write)
$(row write write)
$(row verify read)
$(row read read)
$(row hash read)

Beyond the floor, packing hashes each image, reads each shard back for its digest, and flushes it before the next one is
begun; verifying hashes every byte twice, for the file and for its record.

EOT
machine_table "$load" "$command"
