#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares training steps of detectors in dptrain and torchvision, and prints the first part of results/detection.md. See
# --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

cases=("maskrcnn_resnet50_fpn,512,704,128" "maskrcnn_resnet50_fpn,800,1088,128" "maskrcnn_resnet50_fpn,800,1088,32"
    "fasterrcnn_resnet50_fpn,512,704,128")

usage() {
    cat <<EOT
usage: scripts/bench/detector_train.sh --venv DIR [options]

Times training steps of detectors on one image with dptrain and with torchvision, one thread each, alternating in rounds,
and prints a Markdown page: ratios with their spread, peak memory, seconds by part beside the least that each part could
take. Weights and proposals are given. Before the first round torchvision tries both memory formats; the faster one counts.

  --venv DIR   a Python environment with PyTorch and torchvision
  --case LIST  NETWORK,HEIGHT,WIDTH,POSITIVES; may be repeated [${cases[0]}
               and three more]
  --steps N    steps of a process; the fastest counts [3]
  --rounds N   number of rounds [3]
  -h, --help   show this help
EOT
}

command="scripts/bench/detector_train.sh${*:+ $*}"
venv='' steps=3 rounds=3 chosen=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --case)
        need_value "$@"
        [[ $2 =~ ^(mask|faster)rcnn_resnet(18|50)_fpn(,[1-9][0-9]{1,3}){3}$ ]] ||
            die 2 "invalid --case '$2': expected NETWORK,HEIGHT,WIDTH,POSITIVES such as ${cases[0]}"
        chosen+=("$2"); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 2; steps=$((10#$2)); shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
((${#chosen[@]} == 0)) || cases=("${chosen[@]}")
[[ -n $venv ]] || die 2 "--venv DIR is required: an environment with PyTorch and torchvision"
"$venv/bin/python" -c 'import torchvision' 2>/dev/null || die 4 "--venv $venv: its Python has no torchvision"
python=$(cd "$venv" && pwd)/bin/python
command=${command//"$venv"/DIR}
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/detector_train >&2 || die 4 "the build failed"
make_work detector_train
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
one_core=()
if may_bind; then one_core=(taskset -c 0); fi

# Appends "CASE NAME ROUND VALUE PART"; parts are also "loss K" of the first step. The first loss is left out: the programs
# draw other anchors.
run() { # NAME PROGRAM…
    local name=$1
    shift
    OMP_NUM_THREADS=1 "${one_core[@]}" "$@" >"$work/out" 2>"$work/log" || { cat "$work/log" >&2; die 4 "failed: $*"; }
    awk -v start="$case	$name	$round" 'BEGIN { OFS = "\t" }
        $1 " " $2 == "step 0:" {
            for (i = 5; i <= 8 && $i ~ /^[0-9.]+;?$/; i++) if ($i + 0 > 0) print start, $i + 0, "loss " i - 3
        }
        $1 != "step" && $NF ~ /^(s|KiB|GFLOP|GFLOP\/s|GB\/s)$/ {
            value = $(NF - 1); NF -= 2; gsub("\t", " "); print start, value, $0
        }' "$work/out" >>"$work/times"
    note "$case, round $round, $name: $(awk '$1 == "all" { print $2, $3 }' "$work/out")"
}

run_torch() { # FORMAT PARTS
    local format=()
    [[ $1 == contiguous ]] || format=(--channels-last)
    run "$1" "${keep_pages[@]}" "$python" scripts/bench/peers/detector_train.py time "$folder" --model "$model" \
        --steps "$steps" --parts "$2" "${format[@]}"
}

folder_of() { # CASE: sets model and folder
    model=${1%%,*} folder=$work/${1//,/-}
}

declare -A best
for case in "${cases[@]}"; do
    folder_of "$case"
    mkdir "$folder"
    IFS=, read -r _ height width positives <<<"$case"
    "$python" scripts/bench/peers/detector_train.py make "$folder" --model "$model" --height "$height" --width "$width" \
        --positives "$positives" >&2 || die 4 "no input"
    round=0
    run_torch contiguous 0
    run_torch channels_last 0
    best[$case]=$(awk -F '\t' -v name="$case" '
        $1 == name && $3 == 0 && $5 == "all" && (!least || $4 < least) { least = $4; format = $2 }
        END { print format }' "$work/times")
done
for ((round = 1; round <= rounds; round++)); do
    for case in "${cases[@]}"; do
        folder_of "$case"
        run dptrain build/scripts/bench/detector_train "$model" "$folder/weights.npz" rule 1 "$steps" - - "$folder/in.npz"
        run_torch "${best[$case]}" 1
    done
done
table=$("$python" scripts/bench/peers/detector_train_table.py "$work/times") || die 4 "no table"

cat <<EOT
# Training steps of a detector

Both programs compute in fp32, and torchvision in eager mode. \`scripts/bench/best.sh\` measures its best: bf16, torch.compile.

$table

- One image, 512 regions given to both programs, so many of them with an object; one thread each${one_core:+, on one core}.
  A step is forward, backward and SGD with momentum; conv1 and layer1 are frozen. The programs alternate in $rounds rounds; a
  process runs $steps steps, of which the fastest counts. First losses of both agree within 1e-4, but for the objectness, for
  which each draws its own anchors.
- torchvision: glibc keeps its freed pages; the memory format is the faster one of a trial before the first round. Its memory
  includes the imports of Python, about 0.7 GB. By part: each part's forward and backward on its own, another step than "all".
- Floor: products at the rate of the core's multiply-adds, measured in the same processes, or every tensor read or written
  once at the rate of a large array that is read or copied, whichever takes longer (\`scripts/bench/detector_floor.h\`). 3 × 3 convolutions of stride 1
  count with a quarter of their products, as in Winograd's F(4×4, 3×3), and without its transforms. Of bytes it is rough: the
  optimizer reads more than it writes, which is faster than a copy, and RoIAlign of 32 regions reads a part of its maps.
- GFLOP: 2 for each multiply-add of the plain algorithm that runs.

$(machine_table "$load, after: $(cut -d ' ' -f 1-3 /proc/loadavg)" "$command" torchvision "$("$python" -c 'import torch, torchvision
print("torch", torch.__version__ + ", torchvision", torchvision.__version__)')")
EOT
