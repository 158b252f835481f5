#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the networks of Mask R-CNN in dptrain and torchvision, and prints results/detector.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/detector.sh --venv DIR [options]

Times the inference of a detector on one image with dptrain and with torchvision, one thread each, alternating in rounds,
and prints a Markdown page: seconds by part, ratios with their spread, peak memory, versions. Weights are random, and the
numbers of regions and detections are given. torchvision runs with both memory formats; the faster one counts.

  --venv DIR      a Python environment with PyTorch and torchvision
  --model NAME    maskrcnn_resnet50_fpn or fasterrcnn_resnet50_fpn [maskrcnn_resnet50_fpn]
  --height N      of the canvas, in pixels [800]
  --width N       [1088]
  --regions N     [1000]
  --detections N  [100]
  --rounds N      number of rounds [5]
  -h, --help      show this help
EOT
}

command="scripts/bench/detector.sh${*:+ $*}"
venv='' model=maskrcnn_resnet50_fpn height=800 width=1088 regions=1000 detections=100 rounds=5
while [[ $# -gt 0 ]]; do
    case $1 in
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --model) need_value "$@"; model=$2; shift 2 ;;
    --height) need_value "$@"; whole_number "$1" "$2" 32; height=$((10#$2)); shift 2 ;;
    --width) need_value "$@"; whole_number "$1" "$2" 32; width=$((10#$2)); shift 2 ;;
    --regions) need_value "$@"; whole_number "$1" "$2" 1; regions=$((10#$2)); shift 2 ;;
    --detections) need_value "$@"; whole_number "$1" "$2" 1; detections=$((10#$2)); shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
[[ -n $venv ]] || die 2 "--venv DIR is required: an environment with PyTorch and torchvision"
"$venv/bin/python" -c 'import torchvision' 2>/dev/null || die 4 "--venv $venv: its Python has no torchvision"
python=$(cd "$venv" && pwd)/bin/python
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/detector >&2 || die 4 "the build failed"
make_work detector
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
one_core=()
if may_bind; then one_core=(taskset -c 0); fi
masks=$detections
[[ $model == mask* ]] || masks=0

run() { # NAME PROGRAM…: appends "NAME ROUND SECONDS PART"
    local name=$1
    shift
    OMP_NUM_THREADS=1 "${one_core[@]}" "$@" >"$work/out" 2>"$work/log" || { cat "$work/log" >&2; die 4 "failed: $*"; }
    awk -v name="$name" -v round="$round" '$NF == "s" || $NF == "KiB" {
        sec = $(NF - 1); NF -= 2; print name "\t" round "\t" sec "\t" $0 }' "$work/out" >>"$work/times"
    note "round $round/$rounds, $name: $(awk '$1 == "all"' "$work/out")"
}

peer=("${keep_pages[@]}" "$python" scripts/bench/peers/detection_torch.py --model "$model" --height "$height" --width "$width"
    --regions "$regions" --masks "$masks" --runs 2)
for ((round = 1; round <= rounds; round++)); do
    run dptrain build/scripts/bench/detector run "$model" "$height" "$width" 1 rule "$regions" "$masks" 2
    run contiguous "${peer[@]}"
    run channels_last "${peer[@]}" --channels-last
done

read -r best table < <("$python" scripts/bench/peers/detection_table.py "$work/times") || die 4 "no table"
cat <<EOT
# Inference of a detector

Both programs compute in fp32, and torchvision in eager mode. \`scripts/bench/best.sh\` measures its best: bf16, torch.compile.

| seconds, median of $rounds rounds | dptrain | torchvision | ratio (lowest to highest) |
|---|---:|---:|---:|
$(printf '%b' "$table")

- \`$model\` on a canvas of $height × $width, $regions regions, $masks masks, one thread each${one_core:+, on one core}. The programs
  alternate; each process runs twice, the faster run counts. torchvision's faster memory format was $best, and glibc keeps
  its freed pages.
- Not included in either: reading and resizing the image, proposals, suppression, pasting masks. Target: 1.3 times as
  fast, at most 0.6 of the memory.
- dptrain's convolutions are chosen by the rule of \`rcnn_algorithms\`: Winograd for 3 × 3 with stride 1.

$(machine_table "$load" "$command" torchvision "$("$python" -c 'import torch, torchvision
print("torch", torch.__version__ + ", torchvision", torchvision.__version__)')")
EOT
