#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares Mask R-CNN in dptrain and torchvision on one GPU, and prints tables. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/gpu_detection.sh [options]

Makes images with rectangles as objects, and weights by a formula, and prints Markdown: parity (detections on the GPU, on
the CPU and by torchvision; losses on the GPU and on the CPU), then images/s and GPU memory of training and inference with
dptrain and with torchvision, alternating in rounds. dptrain reads and decodes files; torchvision's images are on the GPU
from the start.

  --model NAME      fasterrcnn_ or maskrcnn_, resnet18_fpn or resnet50_fpn [maskrcnn_resnet50_fpn]
  --size W,H        of the images [640,480]
  --min-size N      shorter side after resizing [800]
  --max-size N      most of the longer side [1333]
  --batch N         images of a step of training [4]
  --rounds N        number of rounds [3]
  --steps N         steps per run [40]
  --precision LIST  fp32, tf32, bf16, separated by commas [bf16,tf32,fp32]
  --python CMD      the Python with PyTorch and torchvision [python3]
  --budget SEC      start no new run after this time [1200]
  --timeout SEC     time limit of one run [240]
  --quick           2 rounds of 20 steps, bf16 and tf32
  --device NAME     cuda, or cpu to try this script [cuda]
  -h, --help        show this help

Exit codes: 1 a comparison failed, 4 no GPU.
EOT
}

model=maskrcnn_resnet50_fpn size=640,480 min_size=800 max_size=1333 batch=4 rounds='' steps='' precisions='' python=python3
budget=1200 limit=240 quick=no device=cuda
while [[ $# -gt 0 ]]; do
    case $1 in
    --model) need_value "$@"; model=$2; shift 2 ;;
    --size)
        need_value "$@"
        [[ $2 =~ ^[1-9][0-9]{1,4},[1-9][0-9]{1,4}$ ]] || die 2 "invalid --size '$2': expected WIDTH,HEIGHT such as 640,480"
        size=$2; shift 2 ;;
    --min-size) need_value "$@"; whole_number "$1" "$2" 32; min_size=$((10#$2)); shift 2 ;;
    --max-size) need_value "$@"; whole_number "$1" "$2" 32; max_size=$((10#$2)); shift 2 ;;
    --batch) need_value "$@"; whole_number "$1" "$2" 1; batch=$((10#$2)); shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 6; steps=$((10#$2)); shift 2 ;;
    --precision) need_value "$@"; precisions=$2; shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --budget) need_value "$@"; whole_number "$1" "$2" 1; budget=$((10#$2)); shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; limit=$((10#$2)); shift 2 ;;
    --quick) quick=yes; shift ;;
    --device)
        need_value "$@"
        [[ $2 == cuda || $2 == cpu ]] || die 2 "invalid --device '$2': expected cuda or cpu"
        device=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
if [[ $quick == yes ]]; then read -ra usual <<<'2 20 bf16,tf32'; else read -ra usual <<<'3 40 bf16,tf32,fp32'; fi
rounds=${rounds:-${usual[0]}} steps=${steps:-${usual[1]}} precisions=${precisions:-${usual[2]}}
root=$(readlink -f "$here/../..")
program=${DPTRAIN_BIN:-$root/dptrain}
[[ -x $program ]] || die 4 "$program is not built; run make CUDA=1"
[[ $device == cpu || $("$program" info 2>/dev/null | sed -nE 's/^ +cuda +//p') == *', CUDA '* ]] ||
    die 4 "no GPU: $("$program" info 2>&1 | sed -nE 's/^ +cuda +//p')"
peer=("$python" "$here/peers/detection_cuda.py")
described=$(timeout 120 "${peer[@]}" describe --device "$device" 2>&1) || die 4 "torchvision: $(tail -n 1 <<<"$described")"
make_work detection
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} PYTHONDONTWRITEBYTECODE=1
sizes=(--min-size "$min_size" --max-size "$max_size") set=$work/set left_out=() failed=no
shape=(--device "$device" --model "$model" --width "${size%,*}" --height "${size#*,}")
timeout -k 10 "$limit" "${peer[@]}" make "$set" "${shape[@]}" "${sizes[@]}" >"$work/log" 2>&1 ||
    die 4 "the images: $(tail -n 1 "$work/log")"

# Evaluates; the detections' boxes are in $work/NAME/bbox.json, the numbers in $work/NAME.json.
evaluate() { # NAME OPTION...
    timeout -k 10 "$limit" "$program" eval "$set/weights.npz" --model "$model" --data "$set" --write-results "$work/$1" \
        --json "$work/$1.json" "${@:2}" >"$work/log" 2>&1 </dev/null
}

train() { # NAME OPTION...
    timeout -k 10 "$limit" "$program" train --task detect --model "$model" --data "$set" --weights "$set/weights.npz" --seed 1 \
        --optimizer sgd --lr 1e-6 --batch "$batch" --no-eval --overwrite --out "$work/$1" "${@:2}" \
        >"$work/log" 2>&1 </dev/null
}

losses() { sed -n 's/.*"record":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$work/$1/metrics.jsonl"; } # RUN

parity_row() { # WHAT RESULT STATUS
    echo "| $1 | $2 |"
    (($3 == 0)) || failed=yes
}

# Images as they are, which torchvision then does not resize either. Boxes of random weights.
compare_detections() {
    local native=(--min-size "$(tr , '\n' <<<"$size" | sort -n | head -n 1)" --max-size "$(tr , '\n' <<<"$size" | sort -n | tail -n 1)")
    local shared=("${native[@]}" --score bbox --threads 0) status result
    evaluate gpu --device "$device" "${shared[@]}" || { parity_row "detections" "failed: $(tail -n 1 "$work/log")" 1; return; }
    status=0
    result=$("${peer[@]}" compare "$set" "$work/gpu/bbox.json" "${shape[@]}" "${native[@]}" 2>"$work/log") || status=$?
    parity_row "detections that differ from torchvision's, of all" "${result:-$(tail -n 1 "$work/log")}" "$status"
    evaluate cpu --device cpu "${shared[@]}" || { parity_row "detections on the CPU" "failed: $(tail -n 1 "$work/log")" 1; return; }
    status=0
    result=$("${peer[@]}" compare "$set" "$work/gpu/bbox.json" "$work/cpu/bbox.json" "${shape[@]}" 2>"$work/log") || status=$?
    parity_row "detections on the GPU that differ from the CPU's, of all" "${result:-$(tail -n 1 "$work/log")}" "$status"
}

# Three steps of both, on smaller images, for the CPU's sake.
compare_losses() {
    local status=0 result shared=(--precision fp32 --steps 3 --min-size $((min_size / 2)) --max-size $((max_size / 2)))
    if ! train on-gpu --device "$device" "${shared[@]}" || ! train on-cpu --device cpu "${shared[@]}"; then
        parity_row "losses" "failed: $(grep -v '^ *$' "$work/log" | tail -n 1)" 1
        return
    fi
    result=$(paste <(losses on-gpu) <(losses on-cpu) | awk '
        { d = ($1 - $2) / $2; if (d < 0) d = -d; if (NF != 2) bad = 1; if (d > most) most = d }
        END { printf "%.1e of %d steps", most, NR; exit bad || NR != 3 || most > 1e-3 }') || status=$?
    parity_row "losses on the GPU and on the CPU, largest relative difference" "$result" "$status"
}

# Runs a command while sampling the GPU's memory; sets memory to the most that it took, in bytes.
with_memory() { # COMMAND...
    local before sampler='' status=0
    memory=0
    if [[ $device == cuda ]] && command -v nvidia-smi >/dev/null; then
        nvidia-smi -i 0 --loop-ms=200 --format=csv,noheader,nounits --query-gpu=memory.used >"$work/memory" 2>/dev/null </dev/null &
        sampler=$!
        sleep 0.5
    fi
    "$@" || status=$?
    [[ -n $sampler ]] || return "$status"
    kill "$sampler" 2>/dev/null || true
    wait "$sampler" 2>/dev/null || true
    before=$(head -n 1 "$work/memory")
    memory=$(awk -v before="${before:-0}" '$1 > most { most = $1 } END { printf "%.0f", (most - before) * 1048576 }' "$work/memory")
    return "$status"
}

# Twice: the 32 images that the training set has more than the validation set are timed without the start.
infer() {
    local start middle end
    start=$EPOCHREALTIME
    evaluate found --device "$device" "${sizes[@]}" || return 1
    middle=$EPOCHREALTIME
    evaluate found --split train --device "$device" "${sizes[@]}" || return 1
    end=$EPOCHREALTIME
    awk -v a="$start" -v b="$middle" -v c="$end" 'BEGIN {
        sec = c - b - (b - a); if (sec <= 0) exit 1; printf "{\"images_per_sec\": %.3f}\n", 32 / sec }' >"$work/end"
}

# Writes the record of a run to $work/end.
run() { # train|infer NAME PRECISION
    local layout=()
    rm -f "$work/end"
    if [[ $2 != dptrain ]]; then
        [[ $2 != *-nhwc ]] || layout=(--channels-last)
        with_memory timeout -k 10 "$limit" "${peer[@]}" "$1" "$set" "${shape[@]}" "${sizes[@]}" "${layout[@]}" --precision "$3" \
            --batch "$batch" --steps "$steps" --out "$work/end" >"$work/log" 2>&1 </dev/null
    elif [[ $1 == train ]]; then
        with_memory train run --device "$device" "${sizes[@]}" --precision "$3" --steps "$((steps + 5))" &&
            grep '"record":"end"' "$work/run/metrics.jsonl" >"$work/end"
    else
        with_memory infer
    fi && [[ -s $work/end ]]
}

# Rounds of one kind of work; names in alternating order.
take_rounds() { # train|infer PRECISIONS
    local what=$1 round name precision late=no
    for ((round = 0; round < rounds && SECONDS < budget; round++)); do
        mapfile -t order < <(printf '%s\n' dptrain torchvision torchvision-nhwc | if ((round % 2)); then tac; else cat; fi)
        for precision in ${2//,/ }; do
            for name in "${order[@]}"; do
                [[ $lost != *" $what/$precision/$name "* ]] || continue
                if ((SECONDS >= budget)); then late=yes; continue; fi
                if ! run "$what" "$name" "$precision"; then
                    lost+="$what/$precision/$name "
                    left_out+=("$what, $precision, $name: $(grep -v '^ *$' "$work/log" | tail -n 1)")
                    [[ $name != dptrain ]] || failed=yes
                    continue
                fi
                printf '%s\t%s\t%s\t%s\t{"gpu_bytes": %s, %s\n' "$round" "$([[ $what == train ]] && echo "$batch" || echo 1)" "$precision" \
                    "$name" "$memory" "$(sed 's/^{//' "$work/end")" >>"$work/ends-$what"
                echo "- $what, round $((round + 1)), $precision, $name: $(sed -E \
                    's/.*"(median_)?images_per_sec": *([0-9.]*).*/\2 images\/s/' "$work/end"), after $SECONDS s"
            done
        done
    done
    [[ $late == no ]] || left_out+=("$what: what is missing in the last round: the time limit, $budget s")
}

SECONDS=0 lost=' '
printf '| parity, %s, fp32 | |\n|---|---|\n' "$model"
compare_detections
compare_losses
echo
take_rounds train "$precisions"
take_rounds infer fp32
for what in train infer; do
    if [[ -s $work/ends-$what ]]; then
        # shellcheck disable=SC2016 # Markdown's quotes
        printf '\n%s of `%s`, images of %s × %s on %s/%s. %s\n\n' "$([[ $what == train ]] && echo "Training, $steps steps" || echo Inference)" \
            "$model" "${size%,*}" "${size#*,}" "$min_size" "$max_size" "ratio: torchvision's time over dptrain's, within a round. $described."
        "$python" "$here/peers/gpu_table.py" steps "$work/ends-$what"
    fi
done
echo
for reason in "${left_out[@]}"; do echo "- not measured: $reason"; done
[[ $failed == no ]]
