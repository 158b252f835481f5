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
  --budget SEC      time limit of all runs [1200]: what would exceed it, by its earlier runs, is not started
  --timeout SEC     time limit of one run [240]
  --quick           2 rounds of 20 steps, bf16, torchvision only in channels_last
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
names=(dptrain torchvision-nhwc torchvision)
if [[ $quick == yes ]]; then
    read -ra usual <<<'2 20 bf16'
    unset 'names[2]'
else
    read -ra usual <<<'3 40 bf16,tf32,fp32'
fi
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

until=$budget
time_left() { # prints the time limit of a run
    local most=$((until - SECONDS < limit ? until - SECONDS : limit))
    echo $((most > 1 ? most : 1))
}

timeout -k 5 "$(time_left)" "${peer[@]}" make "$set" "${shape[@]}" "${sizes[@]}" >"$work/make.log" 2>&1 ||
    die 4 "the images: $(tail -n 1 "$work/make.log")"

# Evaluates; the detections' boxes are in $work/NAME/bbox.json, the numbers in $work/NAME.json, messages in $work/NAME.log.
evaluate() { # NAME OPTION...
    timeout -k 5 "$(time_left)" "$program" eval "$set/weights.npz" --model "$model" --data "$set" --write-results "$work/$1" \
        --json "$work/$1.json" "${@:2}" >"$work/$1.log" 2>&1 </dev/null
}

train() { # NAME OPTION...
    timeout -k 5 "$(time_left)" "$program" train --task detect --model "$model" --data "$set" --weights "$set/weights.npz" --seed 1 \
        --optimizer sgd --lr 1e-6 --batch "$batch" --no-eval --overwrite --out "$work/$1" "${@:2}" \
        >"$work/$1.log" 2>&1 </dev/null
}

last_words() { grep -v '^ *$' "$work/$1.log" | tail -n 1; } # RUN

parity_row() { # WHAT RESULT STATUS
    echo "| $1 | $2 |"
    (($3 == 0)) || failed=yes
}

# Images as they are, which torchvision then does not resize either. Boxes of random weights. Losses: three steps, on smaller
# images, for the CPU's sake. None of it is timed, so all of it runs at once, for at most half of the budget.
compare() {
    local native=(--min-size "$(tr , '\n' <<<"$size" | sort -n | head -n 1)" --max-size "$(tr , '\n' <<<"$size" | sort -n | tail -n 1)")
    local shared=("${native[@]}" --score bbox --threads 0) status result name
    local steps3=(--precision fp32 --steps 3 --min-size $((min_size / 2)) --max-size $((max_size / 2)))
    until=$((SECONDS + (budget - SECONDS) / 2))
    # Threads that wait must not keep those of the others from their cores.
    local -x OMP_WAIT_POLICY=passive
    {
        evaluate gpu --device "$device" "${shared[@]}" && touch "$work/gpu.done" &&
            timeout -k 5 "$(time_left)" "${peer[@]}" compare "$set" "$work/gpu/bbox.json" "${shape[@]}" "${native[@]}" \
                >"$work/torchvision.said" 2>"$work/torchvision.log" && touch "$work/torchvision.done"
    } &
    { evaluate cpu --device cpu "${shared[@]}" && touch "$work/cpu.done"; } &
    { train on-gpu --device "$device" "${steps3[@]}" && touch "$work/on-gpu.done"; } &
    { train on-cpu --device cpu "${steps3[@]}" && touch "$work/on-cpu.done"; } &
    wait
    for name in gpu cpu torchvision on-gpu on-cpu; do
        if [[ -e $work/$name.done || ($name == torchvision && ! -e $work/gpu.done) ]]; then
            :
        elif ((SECONDS >= until)); then
            left_out+=("parity, ${name/on-/losses on the }: stopped after $SECONDS s")
        elif [[ $name != torchvision || ! -s $work/torchvision.said ]]; then
            parity_row "${name/on-/losses on the }" "failed: $(last_words "$name")" 1
        fi
    done
    if [[ -s $work/torchvision.said ]]; then
        status=1
        [[ ! -e $work/torchvision.done ]] || status=0
        parity_row "detections that differ from torchvision's, of all" "$(<"$work/torchvision.said")" "$status"
    fi
    if [[ -e $work/gpu.done && -e $work/cpu.done ]]; then
        until=$budget
        status=0
        result=$(timeout -k 5 "$(time_left)" "${peer[@]}" compare "$set" "$work/gpu/bbox.json" "$work/cpu/bbox.json" "${shape[@]}" \
            2>"$work/both.log") || status=$?
        if ((status == 124 || status == 137)); then
            left_out+=("parity, detections on the GPU and the CPU: stopped after $SECONDS s")
        else
            parity_row "detections on the GPU that differ from the CPU's, of all" "${result:-failed: $(last_words both)}" "$status"
        fi
    fi
    [[ -e $work/on-gpu.done && -e $work/on-cpu.done ]] || return 0
    status=0
    result=$(paste <(losses "$work/on-gpu") <(losses "$work/on-cpu") | awk '
        { d = ($1 - $2) / $2; if (d < 0) d = -d; if (NF != 2) bad = 1; if (d > most) most = d; said = said ", " $1 " and " $2 }
        END { printf "%.1e of %d steps%s", most, NR, said; exit bad || NR != 3 || most > 1e-3 }') || status=$?
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
    evaluate run --device "$device" "${sizes[@]}" || return 1
    middle=$EPOCHREALTIME
    evaluate run --split train --device "$device" "${sizes[@]}" || return 1
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
        with_memory timeout -k 5 "$(time_left)" "${peer[@]}" "$1" "$set" "${shape[@]}" "${sizes[@]}" "${layout[@]}" --precision "$3" \
            --batch "$batch" --steps "$steps" --out "$work/end" >"$work/run.log" 2>&1 </dev/null
    elif [[ $1 == train ]]; then
        with_memory train run --device "$device" "${sizes[@]}" --precision "$3" --steps "$((steps + 5))" &&
            grep '"record":"end"' "$work/run/metrics.jsonl" >"$work/end"
    else
        with_memory infer
    fi && [[ -s $work/end ]]
}

# A round of one kind of work; names in alternating order.
late=no
take_round() { # NUMBER train|infer PRECISIONS
    local what=$2 name precision begin
    mapfile -t order < <(printf '%s\n' "${names[@]}" | if (($1 % 2)); then cat; else tac; fi)
    for precision in ${3//,/ }; do
        for name in "${order[@]}"; do
            [[ $lost != *" $what/$precision/$name "* ]] || continue
            if ((SECONDS + ${took[$what $name]:-5} > budget)); then
                late=yes
                continue
            fi
            begin=$SECONDS
            if ! run "$what" "$name" "$precision"; then
                if ((SECONDS >= budget)); then
                    left_out+=("$what, $precision, $name: stopped after $((SECONDS - begin)) s")
                    continue
                fi
                lost+="$what/$precision/$name "
                left_out+=("$what, $precision, $name: $(last_words run)")
                [[ $name != dptrain ]] || failed=yes
                continue
            fi
            took[$what $name]=$((SECONDS - begin))
            printf '%s\t%s\t%s\t%s\t{"gpu_bytes": %s, %s\n' "$1" "$([[ $what == train ]] && echo "$batch" || echo 1)" "$precision" \
                "$name" "$memory" "$(sed 's/^{//' "$work/end")" >>"$work/ends-$what"
            echo "- $what, round $1, $precision, $name: $(sed -E \
                's/.*"(median_)?images_per_sec": *([0-9]*\.?[0-9]{0,2}).*/\2 images\/s/' "$work/end"), after $SECONDS s"
        done
    done
}

lost=' '
declare -A took=()
printf '| parity, %s, fp32 | |\n|---|---|\n' "$model"
compare
until=$budget
echo
for ((round = 1; round <= rounds && SECONDS < budget; round++)); do
    take_round "$round" train "$precisions"
    take_round "$round" infer fp32
done
[[ $late == no ]] || left_out+=("what is missing in the tables: no time left of $budget s")
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
