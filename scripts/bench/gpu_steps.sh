#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares dptrain's and PyTorch's steps of LeNet-5 or ResNet-50 on one GPU, and prints tables. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/gpu_steps.sh [options]

Trains a model on one GPU with dptrain and with PyTorch, alternating in rounds, and prints Markdown: each run's speed as it
is measured, the algorithms of dptrain's layers, then µs per step, ratios with their spread, GPU memory, the GPU's clocks
before, during and after, and what slowed them down. LeNet-5 on MNIST: also the share of time in which the GPU was idle (with
nsys, if installed). ResNet-50 on random images of 224 x 224: also dptrain-no-cudnn, dptrain where cuDNN cannot be loaded,
the profile by layer, and PyTorch's kernels by name. Modes of PyTorch that fail are skipped and listed.

  --model NAME      lenet5 or resnet50 [lenet5]
  --rounds N        number of rounds [7; resnet50: 5]
  --steps N         steps per run [2000; resnet50: 60]
  --batch LIST      batch sizes [64,1024; resnet50: 256,64]
  --precision LIST  fp32, tf32, bf16, separated by commas [fp32,tf32,bf16; resnet50: bf16,tf32]
  --ways LIST       modes of PyTorch: eager, graph (CUDA graphs), compile (torch.compile); with -nhwc in channels_last
                    [eager,graph,compile; resnet50: eager-nhwc,compile-nhwc,eager,compile]
  --data DIR        folder with MNIST's IDX files [$DPTRAIN_DATA/mnist, data/mnist, or the built-in digits]
  --python CMD      the Python with PyTorch [python3]
  --budget SEC      time limit of all runs [1500]: what would exceed it, by its earlier runs, is not started
  --timeout SEC     time limit of one run [300]
  --logs FOLDER     keep PyTorch's kernels by name there
  --quick           2 rounds of 400 steps, batch 64, fp32 and bf16, without torch.compile; resnet50: 2 rounds of 40
                    steps, batch 256, bf16, channels_last, without cuDNN in the first round only
  -h, --help        show this help

Exit code 4: no GPU.
EOT
}

model=lenet5 rounds='' steps='' batches='' precisions='' ways='' data='' python=python3 budget=1500 limit=300 quick=no logs=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --model)
        need_value "$@"
        [[ $2 == lenet5 || $2 == resnet50 ]] || die 2 "invalid --model '$2': expected lenet5 or resnet50"
        model=$2; shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 20; steps=$((10#$2)); shift 2 ;;
    --batch) need_value "$@"; batches=$2; shift 2 ;;
    --precision) need_value "$@"; precisions=$2; shift 2 ;;
    --ways) need_value "$@"; ways=$2; shift 2 ;;
    --data) need_value "$@"; data=$2; shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --budget) need_value "$@"; whole_number "$1" "$2" 1; budget=$((10#$2)); shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; limit=$((10#$2)); shift 2 ;;
    --logs) need_value "$@"; logs=$2; shift 2 ;;
    --quick) quick=yes; shift ;;
    *) common_option "$1" ;;
    esac
done
# Rounds, steps, batch sizes, precisions and modes unless given; of PyTorch's steps, those before the clock runs, and those
# between two readings of it.
case $model-$quick in
lenet5-no) usual='7 2000 64,1024 fp32,tf32,bf16 eager,graph,compile' ;;
lenet5-yes) usual='2 400 64 fp32,bf16 eager,graph' ;;
resnet50-no) usual='5 60 256,64 bf16,tf32 eager-nhwc,compile-nhwc,eager,compile' ;;
resnet50-yes) usual='2 40 256 bf16 eager-nhwc,compile-nhwc' ;;
esac
read -ra preset <<<"$usual"
rounds=${rounds:-${preset[0]}} steps=${steps:-${preset[1]}} batches=${batches:-${preset[2]}} precisions=${precisions:-${preset[3]}}
ways=${ways:-${preset[4]}} warmup=100 block=50
[[ $model == lenet5 ]] || warmup=12 block=10
root=$(readlink -f "$here/../..")
program=${DPTRAIN_BIN:-$root/dptrain}
[[ -x $program ]] || die 4 "$program is not built; run make CUDA=1"
found=$("$program" info 2>/dev/null | sed -nE 's/^ +cuda +//p')
[[ $found == *', CUDA '* ]] || die 4 "no GPU: $("$program" info 2>&1 | sed -nE 's/^ +cuda +//p')"
make_work gpu
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} PYTHONDONTWRITEBYTECODE=1
if [[ $model == lenet5 && -z $data ]]; then
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
if described=$(timeout 120 "$python" "$here/peers/torch_cuda.py" --describe 2>"$work/why"); then
    IFS=, read -ra words <<<"$ways"
    names+=("${words[@]}")
else
    described='' left_out+=("PyTorch: $(tail -n 1 "$work/why")")
fi

# Files that are no library, in the path before it; what is measured without it is cached apart.
hidden=$work/hidden
mkdir "$hidden"
touch "$hidden"/libcudnn.so{,.9}
without_cudnn=(env "LD_LIBRARY_PATH=$hidden${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "XDG_CACHE_HOME=$hidden")
if [[ $model != resnet50 ]]; then
    :
elif [[ $found =~ cuDNN\ [0-9] && $found != *'not used'* ]]; then
    names+=(dptrain-no-cudnn)
else
    left_out+=("dptrain with cuDNN: $found")
fi

ours=("$program" train --model "$model" --device cuda --steps "$steps" --out "$work/run" --overwrite)
theirs=("$python" "$here/peers/torch_cuda.py" --model "$model" --steps "$steps" --warmup "$warmup" --block "$block"
    --out "$work/end")
case $model in
lenet5) ours+=(--data "$data") theirs+=(--data "$data") ;;
*) ours+=(--data synthetic --input-size 224 --no-eval --profile) ;;
esac

# Writes a run's record to $work/end, and in a mode's first run the kernels of its step to $work/kernels; on failure returns 1
# and adds the reason to left_out.
declare -A took=()
run() { # NAME BATCH PRECISION
    local command=("${ours[@]}") extra=() status=0 begin=$SECONDS sample=0 most=$((budget - SECONDS < limit ? budget - SECONDS : limit))
    rm -f "$work/end" "$work/kernels"
    [[ -z $sampler ]] || sample=$(wc -l <"$work/clocks")
    if [[ $1 != dptrain* ]]; then
        [[ $1 != *-nhwc ]] || extra=(--channels-last)
        [[ $model == lenet5 || -n ${took[$1]:-} ]] || extra+=(--kernels "$work/kernels")
        command=("${theirs[@]}" --way "${1%-nhwc}" "${extra[@]}")
    fi
    [[ $1 != dptrain-no-cudnn ]] || command=("${without_cudnn[@]}" "${ours[@]}")
    timeout -k 5 "$((most > 1 ? most : 1))" "${command[@]}" --batch "$2" --precision "$3" >"$work/log" 2>&1 </dev/null || status=$?
    if [[ $1 == dptrain* && $status == 0 ]]; then grep '"record":"end"' "$work/run/metrics.jsonl" >"$work/end"; fi
    if [[ ! -s $work/end ]]; then
        if [[ $status == 124 || $status == 137 ]]; then
            left_out+=("$1, batch $2, $3: stopped after $((SECONDS - begin)) s")
        else
            left_out+=("$1, batch $2, $3: $(grep -v '^ *$' "$work/log" | tail -n 1)")
        fi
        return 1
    fi
    took[$1]=$((SECONDS - begin))
    # What the run added to the GPU's memory before the first one, in bytes.
    if [[ -n $sampler ]]; then
        awk -F ', ' -v from="$sample" 'NF == 9 { if (!n++) before = $9; if (NR > from && $9 > most) most = $9 }
            END { if (most > before) printf "{\"gpu_bytes\": %.0f, ", (most - before) * 1048576; else printf "{" }' "$work/clocks" >"$work/with"
        sed 's/^{//' "$work/end" >>"$work/with" && mv "$work/with" "$work/end"
    fi
}

# Prints the profile of dptrain's first run.
print_profile() { # BATCH PRECISION
    [[ $model != lenet5 && ! -e $work/profile ]] || return 0
    sed -n '/^profile/,$p' "$work/log" >"$work/profile"
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '\nProfile, batch %s, %s; layers are timed one by one, outside recorded steps:\n\n```\n%s\n```\n\n' "$1" "$2" \
        "$(cat "$work/profile")"
}

# Prints the algorithms of dptrain's layers.
print_algorithms() { # NAME BATCH PRECISION
    command -v "$python" >/dev/null || return 0
    printf '\nAlgorithms of %s, batch %s, %s:\n\n' "$1" "$2" "$3"
    "$python" "$here/peers/gpu_table.py" algorithms "$work/run/metrics.jsonl" || true
    echo
}

# Prints PyTorch's costliest kernels.
print_kernels() { # NAME BATCH PRECISION
    [[ -s $work/kernels ]] || return 0
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '\nKernels of %s, batch %s, %s: ms and launches a step\n\n```\n%s\n```\n\n' "$1" "$2" "$3" \
        "$(head -n 16 "$work/kernels" | cut -c 1-150)"
    if [[ -n $logs ]]; then cp "$work/kernels" "$logs/kernels-$1-$2-$3.txt"; fi
}

sampler=''
if command -v nvidia-smi >/dev/null; then
    nvidia-smi -i 0 --loop-ms=500 --format=csv,noheader,nounits --query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.draw,\
power.limit,temperature.gpu,clocks_throttle_reasons.active,utilization.gpu,memory.used >"$work/clocks" 2>/dev/null </dev/null &
    sampler=$!
    # The first sample is of the idle GPU.
    for ((i = 0; i < 20; i++)); do [[ ! -s $work/clocks ]] || break; sleep 0.1; done
    trap '((BASHPID != $$)) || { kill "$sampler" 2>/dev/null || true; remove_work; }' EXIT
fi

n_rounds=0 failed=' ' late=no
for ((round = 0; round < rounds && SECONDS < budget; round++)); do
    mapfile -t order < <(printf '%s\n' "${names[@]}" | if ((round % 2)); then tac; else cat; fi)
    for precision in ${precisions//,/ }; do
        for name in "${order[@]}"; do
            for batch in ${batches//,/ }; do
                [[ $failed != *" $batch/$precision/$name "* ]] || continue
                [[ $name != dptrain-no-cudnn || $round == 0 || $quick == no ]] || continue
                if ((SECONDS + ${took[$name]:-5} > budget)); then late=yes && continue; fi
                run "$name" "$batch" "$precision" || { failed+="$batch/$precision/$name "; continue; }
                printf '%s\t%s\t%s\t%s\t%s\n' "$round" "$batch" "$precision" "$name" "$(cat "$work/end")" >>"$work/ends"
                echo "- round $((round + 1)), batch $batch, $precision, $name: $(sed \
                    's/.*"median_images_per_sec": *\([0-9]*\).*/\1 images\/s/' "$work/end"), after $SECONDS s"
                [[ $name != dptrain ]] || print_profile "$batch" "$precision"
                [[ $name != dptrain* || $round -gt 0 ]] || print_algorithms "$name" "$batch" "$precision"
                print_kernels "$name" "$batch" "$precision"
            done
        done
    done
    n_rounds=$((round + 1))
done
[[ $late == no ]] || left_out+=("what is missing in the last round: no time left of $budget s")
[[ -s $work/ends ]] || die 1 "nothing could be timed: ${left_out[*]}"

case $model in
lenet5) what="LeNet-5 on $([[ $data == "$work"/* ]] && echo 'the built-in digits' || echo MNIST)" ;;
*) what="ResNet-50 on random images of 224 × 224" ;;
esac
printf '\n%s, %s steps per run, %s rounds in alternating order. %s %s\n\n' "$what" "$steps" "$n_rounds" \
    "ratio: PyTorch's time over dptrain's, within a round." "${described:+$described.}"
if command -v "$python" >/dev/null; then
    "$python" "$here/peers/gpu_table.py" steps "$work/ends"
else
    cut -f 2-4 "$work/ends" | paste - <(sed 's/.*"median_images_per_sec": *\([0-9.e+]*\).*/\1 images\/s/' "$work/ends")
fi
echo
if [[ -n $sampler ]]; then
    kill "$sampler" 2>/dev/null || true
    echo "Clocks, $("$python" "$here/peers/gpu_table.py" clocks "$work/clocks" 2>"$work/why" || tail -n 1 "$work/why" "$work/clocks")."
else
    left_out+=("clocks: nvidia-smi was not found")
fi
echo
if [[ $model != lenet5 ]]; then
    :
elif command -v nsys >/dev/null && command -v "$python" >/dev/null; then
    gaps=''
    for graph in off auto; do
        ((SECONDS < budget)) || break
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
