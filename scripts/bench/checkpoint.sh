#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the speed of checkpoints, and prints results/checkpoint_speed.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/checkpoint.sh [options]

Compares writing and flushing a checkpoint, with few arrays and with many, with a plain write + fsync of the same bytes,
measures the digest of a file in the page cache and the time that training waits with and without --checkpoint-async, and
prints a Markdown page.

  --folder DIR  folder for the files, on the disk to measure [build/bench-checkpoint]
  --mb N        size of the state in MB [128]
  --pairs N     pairs per comparison [15]
  -h, --help    show this help
EOT
}

command="scripts/bench/checkpoint.sh${*:+ $*}"
folder='' mb=128 pairs=15
while [[ $# -gt 0 ]]; do
    case $1 in
    --folder) need_value "$@"; folder=$(folder_option "$1" "$2"); shift 2 ;;
    --mb) need_value "$@"; whole_number "$1" "$2" 1; mb=$((10#$2)); shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 7; pairs=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/checkpoint >&2 || die 4 "the build failed"
folder=${folder:-build/bench-checkpoint}
mkdir -p "$folder"
make_work checkpoint "$folder"

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
table=$(build/scripts/bench/checkpoint "$work" "$mb" "$pairs")
disk=$(df --output=source,fstype "$work" | tail -n 1 | xargs)

cat <<EOT
# Speed of checkpoints

$table

- dptrain: seconds until \`checkpoint_write\` returns, when the file is on disk, sealed and renamed. plain: one \`write\`
  of the same bytes from memory into a new file, and \`fsync\`. $pairs pairs in alternating order (A B B A …); times are
  medians; ratio is the median of plain / dptrain over pairs, with quartiles. Between writes the old file is deleted and
  the file system synced.
- dptrain can be faster than the plain write because the disk starts writing while the rest is still being copied.
- digest: \`seal_verify\`, which reads and checks every byte of a file; median of 15.
- stall: the time that training waits. dptrain: passing on the state, and, after 0.1 s of arithmetic instead of the next
  forward and backward pass, waiting for the rest of the background thread's copy; plain: waiting until the file is on
  disk (\`--no-checkpoint-async\`). The ratio is the first / the second. A second core was free.

$(machine_table "$load" "$command" disk "$disk" \
    "HDF5, xxHash" "$(make -s info | awk '$1 == "HDF5" { h = $2 } $1 == "xxHash" { x = $2 } END { print h ", " x }')")
EOT
