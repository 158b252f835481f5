#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the training of a detector on two ranks with torchvision's. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/detector_ranks.sh --venv DIR --data COCO [options]

Times training steps of a detector on real images: dptrain on one and two ranks, torchvision with DistributedDataParallel
(gloo) on two, one thread each, alternating in rounds. torchvision gets the images of dptrain's ranks, decoded before.
Prints a section of results/detection.md: seconds per step, ratios with their spread, waiting for data, what two ranks lose.

  --venv DIR      a Python environment with PyTorch, torchvision and pycocotools
  --data COCO     COCO's folder
  --model NAME    [maskrcnn_resnet50_fpn]
  --batch N       images of a step [4]
  --steps N       steps of a run; the first two are left out [8]
  --min-size N    [400]
  --max-size N    [608]
  --rounds N      number of rounds [3]
  -h, --help      show this help
EOT
}

command="scripts/bench/detector_ranks.sh${*:+ $*}"
venv='' data='' model=maskrcnn_resnet50_fpn batch=4 steps=8 min_size=400 max_size=608 rounds=3
while [[ $# -gt 0 ]]; do
    case $1 in
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --data) need_value "$@"; data=$2; shift 2 ;;
    --model) need_value "$@"; model=$2; shift 2 ;;
    --batch) need_value "$@"; whole_number "$1" "$2" 2; batch=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 3; steps=$((10#$2)); shift 2 ;;
    --min-size) need_value "$@"; whole_number "$1" "$2" 32; min_size=$((10#$2)); shift 2 ;;
    --max-size) need_value "$@"; whole_number "$1" "$2" 32; max_size=$((10#$2)); shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
[[ -n $venv ]] || die 2 "--venv DIR is required: an environment with PyTorch, torchvision and pycocotools"
[[ -n $data ]] || die 2 "--data COCO is required: a folder with train2017 and annotations"
[[ -r $data/annotations/instances_train2017.json ]] || die 2 "--data $data: it has no annotations/instances_train2017.json"
"$venv/bin/python" -c 'import torchvision, pycocotools' 2>/dev/null ||
    die 4 "--venv $venv: its Python has no torchvision or no pycocotools"
python=$(cd "$venv" && pwd)/bin/python
command=${command//"$venv"/DIR} command=${command//"$data"/COCO}
data=$(readlink -f "$data")
cd "$here/../.."
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work detector_ranks
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
"$python" scripts/bench/peers/detector_train.py make --model "$model" --height 224 --width 224 "$work" >&2 ||
    die 4 "no weights"

# Appends "NAME ROUND SECONDS WAITED" of each step but the first two.
run_dptrain() { # RANKS ROUND
    start "$1" ./dptrain train --model "$model" --weights "$work/weights.npz" --data "$data" --min-size "$min_size" \
        --max-size "$max_size" --batch "$batch" --steps "$steps" --lr 1e-5 --no-flip --no-eval --log-every 1 --threads 1 \
        --decay-all --weight-decay 1e-4 --loader-threads 1 --out "$work/run$1" --overwrite
    jq -r --arg name "dptrain$1" --arg round "$2" 'select(.record == "step" and .step >= 2) |
        [$name, $round, .step_sec, .data_wait_sec] | @tsv' "$work/run$1/metrics.jsonl" >>"$work/times"
    cp "$work/run$1/metrics.jsonl" "$work/$1-$2.jsonl"
}

run_torch() { # NAME ROUND FORMAT STEPS
    local port=$((20000 + RANDOM % 20000)) pids=() format=() rank
    [[ $3 == contiguous ]] || format=(--channels-last)
    for rank in 0 1; do
        env OMP_NUM_THREADS=1 RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${keep_pages[@]}" \
            "$python" scripts/bench/peers/detector_ddp.py --model "$model" --weights "$work/weights.npz" --data "$data" \
            --records "$work/run2/metrics.jsonl" --min-size "$min_size" --max-size "$max_size" --steps "$4" "${format[@]}" \
            >"$work/torch$rank" 2>"$work/log$rank" &
        pids+=($!)
    done
    for rank in 0 1; do wait "${pids[$rank]}" || { cat "$work/log$rank" >&2; die 4 "torchvision failed"; }; done
    grep -E '^[0-9.]+$' "$work/torch0" | sed "s/^/$1\t$2\t/; s/\$/\t0/" >>"$work/times"
}

for ((round = 1; round <= rounds; round++)); do
    run_dptrain 1 "$round"
    run_dptrain 2 "$round"
    if ((round == 1)); then
        for format in contiguous channels_last; do run_torch "$format" 0 "$format" 4; done
        best=$(awk '$2 == 0 { sum[$1] += $3 }
            END { print sum["contiguous"] < sum["channels_last"] ? "contiguous" : "channels_last" }' "$work/times")
    fi
    run_torch torch2 "$round" "$best" "$steps"
    note "round $round/$rounds"
done
table=$("$python" scripts/bench/peers/detector_ranks_table.py "$work") || die 4 "no table"
cat <<EOT
## Two ranks, real images

$table

- \`$model\`, $steps steps of $batch images of COCO, shorter side $min_size, longer at most $max_size pixels, the first two left out;
  $rounds rounds in turn, one thread a rank. Both programs propose regions themselves.
- torchvision: DistributedDataParallel with gloo, the same images on the same ranks, decoded before; glibc keeps its freed pages;
  $best, the faster memory format of a trial.
- Seconds of images: forward and backward pass. Balance: their mean over ranks by the slowest rank's, a step each: what dealing
  leaves. Images beside another rank: seconds of one rank by those of two, of the same images.

$(machine_table "$load, after: $(cut -d ' ' -f 1-3 /proc/loadavg)" "$command" torchvision "$("$python" -c 'import torch, torchvision
print("torch", torch.__version__ + ", torchvision", torchvision.__version__)')")
EOT
