#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the reading of COCO annotations, and prints results/coco_json.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/coco.sh [options]

Compares dptrain, Python's json.load and pycocotools in reading a file of COCO annotations, and prints a Markdown page
with time and memory. The file is generated from $DPTRAIN_DATA/coco_tiny. Needs pycocotools (scripts/install_deps.sh
--test).

  --folder DIR  folder for the file [a temporary folder]
  --mb N        its size in 10^6 bytes [450]
  --runs N      runs per program; the median counts [3]
  -h, --help    show this help
EOT
}

command="scripts/bench/coco.sh${*:+ $*}"
folder='' mb=450 runs=3
while [[ $# -gt 0 ]]; do
    case $1 in
    --folder) need_value "$@"; folder=$(folder_option "$1" "$2"); shift 2 ;;
    --mb) need_value "$@"; whole_number "$1" "$2" 1; mb=$((10#$2)); shift 2 ;;
    --runs) need_value "$@"; whole_number "$1" "$2" 1; runs=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
tiny=${DPTRAIN_DATA:-}/coco_tiny/annotations/instances_train2017.json
[[ -e $tiny ]] || die 3 "no such file: $tiny; set DPTRAIN_DATA to the folder of coco_tiny"
tiny=$(readlink -f "$tiny")
python=${DPTRAIN_VENV:-$here/../../build/venv}/bin/python
"$python" -c 'import pycocotools.mask' 2>/dev/null ||
    die 4 "pycocotools is not in ${python%/bin/python}; scripts/install_deps.sh --test installs it"
python=$(cd "$(dirname "$python")" && pwd)/python
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/coco_read >&2 || die 4 "the build failed"
make_work coco "$folder"
"$python" scripts/bench/coco_json.py "$tiny" "$mb" "$work/instances.json" || die 4 "cannot generate the file"

read_once() { # NAME
    case $1 in
    dptrain) build/scripts/bench/coco_read "$work/instances.json" ;;
    *) "$python" scripts/bench/coco_read.py "$1" "$work/instances.json" ;;
    esac
}

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
bytes=$(stat -c %s "$work/instances.json")
cat "$work/instances.json" >/dev/null # into the page cache, so that the disk is not measured
names=(dptrain json pycocotools)
for ((round = 1; round <= runs; round++)); do
    for name in "${names[@]}"; do
        line=$(read_once "$name") || die 4 "$name failed"
        note "round $round/$runs, $name: $line"
        printf '%s %s\n' "$name" "$line" >>"$work/times"
    done
done
[[ $(awk '{ print $4, $5 }' "$work/times" | sort -u | wc -l) -eq 1 ]] || die 4 "the programs disagree on the number of images or annotations"
read -r _ _ _ images annotations <"$work/times"

row() { # NAME TITLE
    awk -v name="$1" '$1 == name { print $2, $3 }' "$work/times" | sort -n | awk -v title="$2" -v bytes="$bytes" '
        { s[NR] = $1; if ($2 > peak) peak = $2 }
        END {
            median = NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2
            printf "| %s | %.2f | %.2f–%.2f | %.0f | %.0f |\n", title, median, s[1], s[NR], bytes / median / 1e6, peak / 1024
        }'
}

# shellcheck disable=SC2016 # Markdown's quotes
table=$(
    row dptrain '`coco_read` (`src/data/coco`)'
    row json 'Python, `json.load`'
    row pycocotools 'pycocotools, `COCO(file)`'
)

cat <<EOT
# Reading COCO's annotations

| | s, median of $runs | least–most | MB/s | peak memory, MiB |
|---|---:|---:|---:|---:|
$table

- $(awk -v b="$bytes" 'BEGIN { printf "%.0f MB", b / 1e6 }'), $images images, $annotations annotations: those of coco_tiny, repeated with new
  ids (\`scripts/bench/coco_json.py\`), in the page cache. One thread each; the programs alternate.
- Target: 60 s and 1 GB for 450 MB. Peak memory is \`VmHWM\` of the process after reading, with all data still in memory.

$(machine_table "$load" "$command" python "$("$python" --version)")
EOT
