#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares initial weights and first steps of dptrain's models with those of PyTorch and torchvision, and prints
# results/init.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

# MODEL SIDE CHANNELS CLASSES
weights=("lenet5 28 1 10" "mlp 28 1 10" "mnist-cnn 28 1 10" "mnist-cnn-bn 28 1 10" "vgg16 32 3 10" "vgg16 224 3 1000"
    "resnet18 32 3 10" "resnet18 224 3 1000" "resnet50 32 3 10" "resnet50 224 3 1000" "fasterrcnn_resnet18_fpn 64 3 91"
    "fasterrcnn_resnet50_fpn 64 3 91" "maskrcnn_resnet18_fpn 64 3 91" "maskrcnn_resnet50_fpn 64 3 91")
# MODEL SIDE BATCH OPTIMIZER RATE
curves=("lenet5 28 64 sgd 0.03" "mlp 28 64 sgd 0.03" "mnist-cnn 28 32 sgd 0.03" "mnist-cnn-bn 28 32 sgd 0.03"
    "vgg16 32 8 adamw 1e-4" "resnet18 32 8 adamw 1e-3" "resnet50 32 4 adamw 5e-4"
    "fasterrcnn_resnet18_fpn 96 2 adamw 1e-4")

usage() {
    cat <<EOT
usage: scripts/bench/init.sh --venv DIR --data MNIST --coco COCO [options]

Compares the initial weights of every model, tensor by tensor, with those of torchvision or of PyTorch's layers, then
trains models with both programs from their own initial weights, and prints a Markdown page.

  --venv DIR    a Python environment with PyTorch and torchvision
  --data MNIST  folder of MNIST's four files
  --coco COCO   a folder as COCO's, for the detector
  --models LIST train only these, separated by commas
                [$(for c in "${curves[@]}"; do printf '%s ' "${c%% *}"; done)]
  --steps N     steps of a training [100]
  --seeds N     seeds of each program [3]
  --keep DIR    keep figures here, and use those that are there
  -h, --help    show this help
EOT
}

command="scripts/bench/init.sh${*:+ $*}"
venv='' mnist='' coco='' steps=100 seeds=3 keep='' chosen=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --data) need_value "$@"; mnist=$(folder_option "$1" "$2"); shift 2 ;;
    --coco) need_value "$@"; coco=$(folder_option "$1" "$2"); shift 2 ;;
    --models) need_value "$@"; chosen=,$2,; shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 20; steps=$((10#$2)); shift 2 ;;
    --seeds) need_value "$@"; whole_number "$1" "$2" 2; seeds=$((10#$2)); shift 2 ;;
    --keep) need_value "$@"; keep=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
[[ -n $venv && -n $mnist && -n $coco ]] || die 2 "--venv, --data and --coco are required"
"$venv/bin/python" -c 'import torchvision' 2>/dev/null || die 4 "--venv $venv: its Python has no torchvision"
python=$(cd "$venv" && pwd)/bin/python
command=${command//"$venv"/DIR} command=${command//"$mnist"/MNIST} command=${command//"$coco"/COCO}
[[ -z $keep ]] || { mkdir -p "$keep" && command=${command//"$keep"/FIGURES} keep=$(cd "$keep" && pwd); }
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/initial_weights >&2 || die 4 "the build failed"
make_work init
figures=${keep:-$work/figures}
mkdir -p "$figures"
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
peer=scripts/bench/peers/init_torch.py

# Runs a program whose last words are shown if it fails.
quietly() { # PROGRAM…
    OMP_NUM_THREADS=1 "$@" 2>"$work/log" || { tail -n 20 "$work/log" >&2; die 4 "failed: $*"; }
}

for weight in "${weights[@]}"; do
    read -r model side channels classes <<<"$weight"
    file=$figures/$model.weights.$side
    [[ ! -s $file ]] || continue
    quietly build/scripts/bench/initial_weights "$model" "$side" "$channels" "$classes" "$work/weights.npz"
    quietly "$python" "$peer" weights "$work/weights.npz" --model "$model" --side "$side" --classes "$classes" >"$work/row" && mv "$work/row" "$file"
    note "$weight: compared"
done

quietly "$python" "$peer" images --data "$mnist" --out "$work/digits"

# Prints the losses of a training.
train() { # PROGRAM SEED
    local data=$mnist ours=() theirs=()
    case $model in
    *rcnn*)
        data=$coco theirs=(--classes 81)
        ours=(--warmup-steps 0 --norm batch --micro-batch 2 --rpn-batch 64 --box-batch 64 --min-size 96 --max-size 128 --no-flip) ;;
    vgg* | resnet*) data=$work/digits ours=(--input-size "$side" --crop warp --no-flip) ;;
    esac
    if [[ $1 == torch ]]; then
        quietly "$python" "$peer" train --model "$model" --data "$data" --side "$side" --batch "$batch" --lr "$rate" \
            --optimizer "$optimizer" --steps "$steps" --seed "$2" "${theirs[@]}"
        return
    fi
    [[ $model == *rcnn* ]] || ours+=(--algorithms fixed)
    quietly ./dptrain train --model "$model" --data "$data" --batch "$batch" --lr "$rate" --schedule constant --steps "$steps" \
        --optimizer "$optimizer" --seed "$2" --threads 1 --device cpu --no-eval --quiet --overwrite --out "$work/run" "${ours[@]}" >&2
    jq -r 'select(.record == "step") | .loss' "$work/run/metrics.jsonl"
}

trained=()
for curve in "${curves[@]}"; do
    read -r model side batch optimizer rate <<<"$curve"
    [[ -z $chosen || $chosen == *,$model,* ]] || continue
    trained+=("$model")
    for ((seed = 1; seed <= seeds; seed++)); do
        for program in dptrain torch; do
            file=$figures/$model.$program.$seed
            [[ -s $file ]] || { train "$program" "$seed" >"$work/losses" && mv "$work/losses" "$file"; }
            note "$model, $program, seed $seed: $(tail -n 1 "$file")"
        done
    done
done
learned=$("$python" "$peer" table "$figures" "${trained[@]}") || die 4 "no table"

cat <<EOT
# Initial weights beside PyTorch's

## Distributions

Every tensor of every model, dptrain's beside those of the same model in torchvision; models that torchvision does not have, and
the small stem, beside PyTorch's layers. \`tests/unit/test_init.c\` has the rules.

| model | side, classes | tensors | constant | largest KS | large | standard deviation | fourth moment | bounds | different |
|---|---|---:|---:|---:|---:|---:|---:|---:|---|
$(for weight in "${weights[@]}"; do read -r model side _ <<<"$weight" && cat "$figures/$model.weights.$side"; done)

- constant: tensors of one value in torchvision, equal in every value.
- largest KS: the two samples' Kolmogorov-Smirnov statistic over all other tensors, times √(nm/(n+m)), of at most 200,000 values
  each. In two samples of one distribution a tensor's is above 1.63 once in a hundred times, above 2.6, the limit, once in 300,000.
- standard deviation, fourth moment over the squared variance, and bounds of uniform ones: the largest relative difference of
  tensors with at least 10,000 values ("large").

## The first $steps steps

Both programs from their own initial weights, on the same images in their own order, $seeds seeds each. Loss in the first step, in
the mean of all, and in the mean of the last 20: dptrain's mean ± standard deviation over seeds; PyTorch's; the difference of the
means in standard errors (of $seeds and $seeds seeds: beyond ±2.8 once in 20 times).

| model | first step | all $steps | last 20 |
|---|---|---|---|
$learned

- lenet5, mlp and the CNNs: MNIST. vgg16 and the ResNets: MNIST's first 1600 training digits on 32×32 pixels, light in dark colours
  (\`$peer images\`). The detector: images of at most 128 pixels from a COCO folder, batch norm trained.
- Constant rates, SGD with a momentum of 0.9 or AdamW without decay. Batch, optimizer, rate:
  $(for curve in "${curves[@]}"; do
        read -r model side batch optimizer rate <<<"$curve"
        printf '%s %s, %s, %s; ' "$model" "$batch" "$optimizer" "$rate"
    done | sed 's/; $/./' | fold -s -w 126 | sed 's/ *$//; 2,$s/^/  /')

$(machine_table "$load, after: $(cut -d ' ' -f 1-3 /proc/loadavg)" "$command" torchvision "$("$python" -c 'import torch, torchvision
print("torch", torch.__version__ + ", torchvision", torchvision.__version__)')")
EOT
