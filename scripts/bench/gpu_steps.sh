#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares dptrain's and PyTorch's steps of LeNet-5 on one GPU, and prints tables. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/gpu_steps.sh [options]

Trains LeNet-5 on MNIST on one GPU with dptrain and with PyTorch (eager, CUDA graphs, torch.compile), alternating in
rounds, and prints Markdown: µs per step, ratios with their spread, and the share of time in which the GPU was idle (with
nsys, if installed). Modes of PyTorch that fail are skipped and listed.

  --rounds N        number of rounds [7]
  --steps N         steps per run [2000]
  --batch LIST      batch sizes [64,1024]
  --precision LIST  fp32, tf32, bf16, separated by commas [fp32,tf32,bf16]
  --ways LIST       modes of PyTorch: eager, graph, compile [eager,graph,compile]
  --data DIR        folder with MNIST's IDX files [$DPTRAIN_DATA/mnist, data/mnist, or the built-in digits]
  --python CMD      the Python with PyTorch [python3]
  --budget SEC      start no new round after this time [1500]
  --timeout SEC     time limit of one run [300]
  --quick           2 rounds of 400 steps, batch 64, fp32 and bf16, without torch.compile
  -h, --help        show this help

Exit code 4: no GPU.
EOT
}

rounds=7 steps=2000 batches=64,1024 precisions=fp32,tf32,bf16 ways=eager,graph,compile data='' python=python3
budget=1500 limit=300
while [[ $# -gt 0 ]]; do
    case $1 in
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 100; steps=$((10#$2)); shift 2 ;;
    --batch) need_value "$@"; batches=$2; shift 2 ;;
    --precision) need_value "$@"; precisions=$2; shift 2 ;;
    --ways) need_value "$@"; ways=$2; shift 2 ;;
    --data) need_value "$@"; data=$2; shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --budget) need_value "$@"; whole_number "$1" "$2" 1; budget=$((10#$2)); shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; limit=$((10#$2)); shift 2 ;;
    --quick) rounds=2 steps=400 batches=64 precisions=fp32,bf16 ways=eager,graph; shift ;;
    *) common_option "$1" ;;
    esac
done
root=$(readlink -f "$here/../..")
program=${DPTRAIN_BIN:-$root/dptrain}
[[ -x $program ]] || die 4 "$program is not built; run make CUDA=1"
[[ $("$program" info 2>/dev/null | sed -nE 's/^ +cuda +//p') == *', CUDA '* ]] ||
    die 4 "no GPU: $("$program" info 2>&1 | sed -nE 's/^ +cuda +//p')"
make_work gpu
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} PYTHONDONTWRITEBYTECODE=1
if [[ -z $data ]]; then
    data=$root/data/mnist
    [[ -z ${DPTRAIN_DATA:-} ]] || data=$DPTRAIN_DATA/mnist
    if ! compgen -G "$data/train-images-idx3-ubyte*" >/dev/null; then
        # The digits have the same number and size of images; PyTorch reads the files.
        data=$work/digits
        "$program" data synth digits --out "$data" >&2 || die 4 "cannot write the built-in digits to $data"
    fi
fi

left_out=()
names=(dptrain)
if described=$(timeout 120 "$python" "$here/peers/lenet5_torch_cuda.py" --describe 2>"$work/why"); then
    IFS=, read -ra words <<<"$ways"
    names+=("${words[@]}")
else
    described='' left_out+=("PyTorch: $(tail -n 1 "$work/why")")
fi

# Writes a run's record to $work/end; on failure returns 1 and adds the reason to left_out.
run() { # NAME BATCH PRECISION
    local command=("$program" train --model lenet5 --data "$data" --device cuda --precision "$3" --batch "$2"
        --steps "$steps" --out "$work/run" --overwrite)
    if [[ $1 != dptrain ]]; then
        command=("$python" "$here/peers/lenet5_torch_cuda.py" --way "$1" --precision "$3" --batch "$2" --data "$data"
            --steps "$steps" --out "$work/end")
    fi
    if ! timeout -k 10 "$limit" "${command[@]}" >"$work/log" 2>&1 </dev/null; then
        left_out+=("$1, batch $2, $3: $(grep -v '^ *$' "$work/log" | tail -n 1)")
        return 1
    fi
    [[ $1 != dptrain ]] || grep '"record":"end"' "$work/run/metrics.jsonl" >"$work/end"
}

SECONDS=0 done_rounds=0 failed=' '
for ((round = 0; round < rounds && SECONDS < budget; round++)); do
    mapfile -t order < <(printf '%s\n' "${names[@]}" | if ((round % 2)); then tac; else cat; fi)
    for batch in ${batches//,/ }; do
        for precision in ${precisions//,/ }; do
            for name in "${order[@]}"; do
                [[ $failed != *" $batch/$precision/$name "* ]] || continue
                run "$name" "$batch" "$precision" || { failed+="$batch/$precision/$name "; continue; }
                printf '%s\t%s\t%s\t%s\t%s\n' "$round" "$batch" "$precision" "$name" "$(cat "$work/end")" >>"$work/ends"
            done
        done
    done
    done_rounds=$((round + 1))
    note "round $done_rounds/$rounds after $SECONDS s"
done
[[ -s $work/ends ]] || die 1 "nothing could be timed: ${left_out[*]}"

echo "LeNet-5 on $([[ $data == "$work"/* ]] && echo 'the built-in digits' || echo MNIST), $steps steps per run, $done_rounds rounds \
in alternating order. ratio: PyTorch's time over dptrain's, within a round. ${described:+$described.}"
echo
if command -v "$python" >/dev/null; then
    "$python" "$here/peers/gpu_table.py" steps "$work/ends"
else
    cut -f 2-4 "$work/ends" | paste - <(sed 's/.*"images_per_sec": *\([0-9.e+]*\).*/\1 images\/s/' "$work/ends")
fi
echo
if command -v nsys >/dev/null && command -v "$python" >/dev/null; then
    gaps=''
    for graph in off auto; do
        if timeout -k 10 "$limit" nsys profile -t cuda --cuda-graph-trace=node -o "$work/$graph" "$program" train \
            --model lenet5 --data "$data" --device cuda --steps 1000 --cuda-graph "$graph" --out "$work/run" --overwrite \
            >"$work/log" 2>&1 &&
            timeout -k 10 "$limit" nsys stats -q --report cuda_gpu_trace --format csv "$work/$graph.nsys-rep" >"$work/trace" 2>>"$work/log" &&
            share=$("$python" "$here/peers/gpu_table.py" gaps "$work/trace" 2>>"$work/log"); then
            gaps+="--cuda-graph $graph: $share % of the time; "
        else
            left_out+=("launch gaps, --cuda-graph $graph: $(tail -n 1 "$work/log")")
        fi
    done
    [[ -z $gaps ]] || echo "The GPU was idle for (nsys, batch 64, with tracing, which is slower): ${gaps%; }."
else
    left_out+=("launch gaps: nsys was not found")
fi
for reason in "${left_out[@]}"; do echo "- not measured: $reason"; done
