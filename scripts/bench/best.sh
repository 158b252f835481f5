#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the best of dptrain with the best of PyTorch on CPUs, and prints results/best.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

all_cases=lenet5:64:1,lenet5:64:2,resnet18:8:1,resnet18:8:2,resnet18:32:1,resnet50:8:1,resnet50:32:1,maskrcnn:train,maskrcnn:infer

usage() {
    cat <<EOT
usage: scripts/bench/best.sh --venv DIR --records FILE [options]
       scripts/bench/best.sh --page FILE

Compares dptrain with PyTorch, each at its best, one thread per rank, each rank on its own core. A trial of each model runs
all candidates once: dptrain in fp32 and bf16; PyTorch in fp32 and bf16 (torch.autocast), each contiguous, channels_last,
and channels_last with torch.compile; with the fused optimizer, and glibc set to keep freed pages. Then dptrain's two and,
in each precision, PyTorch's fastest alternate in rounds, with the order reversed in every other round; also its second
one if it took at most a tenth longer. Needs jq, g++, and Python.h.

  --records FILE  appends a record after each run. Runs that it already has are not repeated: an interrupted measurement
                  goes on where it stopped. FILE.cache keeps compiled code and measured algorithms
  --venv DIR      a Python environment with PyTorch and torchvision
  --cases LIST    MODEL:BATCH:RANKS with lenet5, resnet18 or resnet50 and the batch per rank; maskrcnn:train, a step of
                  Mask R-CNN ResNet-50-FPN on an image of 512×704; maskrcnn:infer, its inference on one of 800×1088
                  [$all_cases]
  --pairs N       number of rounds [3]
  --trial-all     a trial of each case; otherwise of the first case of each model, and of both of maskrcnn
  --data DIR      folder with MNIST's IDX files [\$DPTRAIN_DATA/mnist, data/mnist]
  --prepare       only build, and fill FILE.cache by torch.compile, which takes minutes per case; on a busy machine too
  --quick         1 round of two timed steps per run, as a smoke test
  --page FILE     print the page of these records
  -h, --help      show this help
EOT
}

command="scripts/bench/best.sh${*:+ $*}"
cases=$all_cases pairs=3 venv='' data='' records='' page='' trial_all=no prepare=no quick=no
while [[ $# -gt 0 ]]; do
    case $1 in
    --records) need_value "$@"; records=$2; shift 2 ;;
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --cases) need_value "$@"; cases=$2; shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 1; pairs=$((10#$2)); shift 2 ;;
    --data) need_value "$@"; data=$2; shift 2 ;;
    --trial-all) trial_all=yes; shift ;;
    --prepare) prepare=yes; shift ;;
    --quick) quick=yes pairs=1; shift ;;
    --page) need_value "$@"; page=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
if [[ -n $page ]]; then
    [[ -r $page ]] || die 2 "--page $page: no such file"
    exec python3 "$here/peers/best_page.py" "$page"
fi
[[ -n $records ]] || die 2 "--records FILE is required: the file that each run is added to"
[[ -d $(dirname "$records") ]] || die 2 "--records $records: no such folder: $(dirname "$records")"
one='((lenet5|resnet18|resnet50):[1-9][0-9]{0,3}:[1-9][0-9]?|maskrcnn:(train|infer))'
[[ $cases =~ ^$one(,$one)*$ ]] || die 2 "invalid --cases '$cases': expected a list such as resnet18:8:1,maskrcnn:train"
[[ -n $venv ]] || die 2 "--venv DIR is required: an environment with PyTorch and torchvision"
"$venv/bin/python" -c 'import torch, torchvision' 2>/dev/null || die 4 "--venv $venv: its Python has no torch or no torchvision"
for tool in jq g++; do command -v "$tool" >/dev/null || die 4 "$tool was not found; scripts/install_deps.sh --test installs it"; done
python=$(cd "$venv" && pwd)/bin/python
"$python" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
    die 4 "--venv $venv: Python.h is missing, which torch.compile needs: install its Python's headers"
root=$(readlink -f "$here/../..")
if [[ -z $data ]]; then
    data=$root/data/mnist
    [[ -z ${DPTRAIN_DATA:-} ]] || data=$DPTRAIN_DATA/mnist
fi
[[ $cases != *lenet5* ]] || compgen -G "$data/train-images-idx3-ubyte*" >/dev/null ||
    die 3 "no MNIST in '$data'; run data/fetch_mnist.sh, or pass --data DIR"
command=${command//"$venv"/DIR} command=${command//"$records"/FILE} command=${command//"$data"/MNIST}
records=$(readlink -f "$records") cache=$(readlink -f "$records").cache

cd "$root"
make -s -j "$(nproc)" dptrain build/scripts/bench/detector build/scripts/bench/detector_train >&2 || die 4 "the build failed"
make_work best
mpi_allow_root
mkdir -p "$cache"
export GLOO_SOCKET_IFNAME=lo XDG_CACHE_HOME=$cache TORCHINDUCTOR_CACHE_DIR=$cache/inductor

# Steps of a run: to warm up, and timed. Those of the trial are fewer.
steps_of() { # CASE PHASE: sets warmup and steps
    case $1 in
    lenet5:*) warmup=20 steps=100 ;;
    resnet18:[1-9]:*) warmup=2 steps=6 ;;
    resnet50:[1-9]:*) warmup=2 steps=3 ;;
    resnet18:* | maskrcnn:infer) warmup=1 steps=2 ;;
    *) warmup=1 steps=1 ;;
    esac
    if [[ $2 == trial ]]; then steps=$(((steps + 1) / 2)); fi
    if [[ $quick == yes ]]; then warmup=2 steps=2; fi
    if [[ $2 == compile ]]; then warmup=1 steps=1; fi
}

# Writes {sec, cpu_sec, memory_bytes, images, losses} of a run to $work/end: seconds of the median step on rank 0.
classifier() { # WHO PRECISION WAY
    local model batch np more=() source=(--data "$data")
    IFS=: read -r model batch np <<<"$case"
    if [[ $1 == dptrain ]]; then
        [[ $model == lenet5 ]] || source=(--data synthetic --input-size 224)
        start "$np" ./dptrain train --model "$model" "${source[@]}" --threads 1 --steps $((warmup + steps)) --no-eval \
            --batch-per-rank "$batch" --precision "$2" --measure-time 120 --out "$work/ours" --overwrite
        jq -c -s --argjson skip "$warmup" --argjson images $((batch * np)) '
            def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
            map(select(.record == "step"))[$skip:] as $steps
            | {sec: ($steps | map(.step_sec) | median), cpu_sec: ($steps | map(.cpu_sec) | median), images: $images,
               memory_bytes: (map(select(.record == "end"))[0].peak_memory_bytes | max)}' \
            "$work/ours/metrics.jsonl" >"$work/end"
        return
    fi
    if ((np > 1)); then more+=(--ddp); fi
    if [[ $2 == bf16 ]]; then more+=(--bf16); fi
    [[ $3 == contiguous ]] || more+=(--channels-last)
    [[ $3 != compile ]] || more+=(--compile)
    if [[ $model == lenet5 ]]; then
        more+=("${source[@]}" --no-eval)
        set -- lenet5_torch.py
    else
        more+=(--model "$model" --side 224)
        set -- resnet_torch.py
    fi
    # A different port in each run, because the previous one may still be closing.
    MASTER_PORT=$((20000 + RANDOM % 10000)) start "$np" "${keep_pages[@]}" "$python" "scripts/bench/peers/$1" --fused \
        "${more[@]}" --batch "$batch" --threads 1 --steps $((warmup + steps)) --warmup "$warmup" --out "$work/record"
    jq -c --argjson images $((batch * np)) '{sec: .step_sec, cpu_sec: .step_cpu_sec, images: $images,
        memory_bytes: (.peak_memory_bytes | max)}' "$work/record" >"$work/end"
}

# Of detectors the fastest step counts.
detector() { # WHO PRECISION WAY
    local program model=maskrcnn_resnet50_fpn runs=$((warmup + steps)) folder=$work/maskrcnn more=()
    [[ $3 != compile ]] || runs=$((runs + 1)) # the first two compile
    if [[ $1 == torch ]]; then
        if [[ $2 == bf16 ]]; then more+=(--bf16); fi
        [[ $3 == contiguous ]] || more+=(--channels-last)
        [[ $3 != compile ]] || more+=(--compile)
    elif [[ $2 == bf16 ]]; then
        model+=:bf16
    fi
    case $case,$1 in
    maskrcnn:train,*)
        if [[ ! -d $folder ]]; then
            mkdir "$folder"
            "$python" scripts/bench/peers/detector_train.py make "$folder" --model "$model" >&2 || die 4 "no input"
        fi
        program=(build/scripts/bench/detector_train "$model" "$folder/weights.npz" rule 1 "$runs" - - "$folder/in.npz")
        [[ $1 == dptrain ]] || program=("${keep_pages[@]}" "$python" scripts/bench/peers/detector_train.py time "$folder"
            --model "$model" --steps "$runs" --parts 0 --fused "${more[@]}")
        ;;
    *,dptrain) program=(build/scripts/bench/detector run "$model" 800 1088 1 rule 1000 100 "$runs") ;;
    *) program=("${keep_pages[@]}" "$python" scripts/bench/peers/detection_torch.py --model "$model" --runs "$runs" "${more[@]}") ;;
    esac
    start 1 "${program[@]}"
    # Losses of the first step, without the objectness: each program draws its own anchors.
    awk '$1 " " $2 == "step 0:" { for (i = 5; i <= 8; i++) losses = losses (i > 5 ? "," : "") $i + 0 }
        NF == 3 && $1 == "all" { sec = $2 }
        $1 " " $2 == "CPU time" { cpu = $3 }
        $1 " " $2 == "peak memory" { kib = $3 }
        END { if (sec > 0) printf "{\"sec\":%s,\"cpu_sec\":%s,\"images\":1,\"memory_bytes\":%.0f,\"losses\":[%s]}\n",
            sec, cpu, 1024 * kib, losses }' "$work/log" >"$work/end"
}

# Runs a candidate, unless the records have it.
run() { # PHASE ROUND WHO PRECISION WAY
    local id="$case $1 $2 $3 $4 $5"
    if grep -qsF "\"id\":\"$id\"" "$records"; then return; fi
    steps_of "$case" "$1"
    case $case in
    maskrcnn:*) detector "$3" "$4" "$5" ;;
    *) classifier "$3" "$4" "$5" ;;
    esac
    [[ -s $work/end ]] || { cat "$work/log" >&2; die 4 "no figure: $id"; }
    note "$id: $(jq -r '"\(.sec * 1e3 | round) ms, \(.cpu_sec * 1e3 | round) ms of CPU time, \(.images / .sec * 100 | round / 100) images/s"' "$work/end")"
    [[ $1 != compile ]] || return 0
    jq -c --arg id "$id" --arg case "$case" --arg phase "$1" --argjson round "$2" --arg who "$3" --arg precision "$4" \
        --arg way "$5" --arg load "$(cut -d ' ' -f 1 /proc/loadavg)" --argjson steps "$steps" \
        '{record: "run", id: $id, case: $case, phase: $phase, round: $round, who: $who, precision: $precision, way: $way,
          steps: $steps, load: ($load | tonumber)} + .' "$work/end" >>"$records"
}

# Prints the case whose trial chooses the candidates of this one.
trial_of() { # CASE
    local other
    if [[ $trial_all == no && $1 != maskrcnn:* ]]; then
        for other in ${cases//,/ }; do
            if [[ ${other%%:*} == "${1%%:*}" ]]; then echo "$other"; return; fi
        done
    fi
    echo "$1"
}

# Prints the candidates of the rounds: dptrain's, and PyTorch's chosen by the trial.
finalists() {
    printf 'dptrain %s\n' 'fp32 rule' 'bf16 rule'
    jq -r -s --arg case "$(trial_of "$case")" 'map(select(.record == "run" and .case == $case and .phase == "trial" and .who == "torch"))
        | group_by(.precision)[] | sort_by(.sec) | .[0].sec as $best | .[:2][] | select(.sec <= 1.1 * $best)
        | "torch \(.precision) \(.way)"' "$records"
}

if [[ $prepare == yes ]]; then
    export DPTRAIN_BIND=none # torch.compile starts a compiler per CPU
    for case in ${cases//,/ }; do
        for precision in fp32 bf16; do run compile 0 torch "$precision" compile; done
    done
    note "FILE.cache is ready: the same command without --prepare measures"
    exit 0
fi

cpu="family $(awk -F ': ' '/^cpu family/ { print $2; exit }' /proc/cpuinfo), model $(
    awk -F ': ' '/^model\t/ { print $2; exit }' /proc/cpuinfo): $(
    grep -m 1 '^flags' /proc/cpuinfo | grep -o -w -E 'avx2|avx512f|avx512_vnni|avx512_bf16|amx_[a-z0-9]*' | xargs)"
described=$("$python" scripts/bench/peers/lenet5_torch.py --describe 2>/dev/null)
programs="$cpu; $(./dptrain --version); $described"
others=$(jq -r --arg programs "$programs" 'select(.record == "machine" and .programs != $programs) | .programs' "$records" 2>/dev/null |
    head -n 1) || true
[[ -z $others ]] || die 2 "--records FILE has runs of other programs ($others); these are $programs: use another file"
machine_table "$(cut -d ' ' -f 1-3 /proc/loadavg)" "$command" CPU "$cpu" PyTorch "$described" |
    jq -c -R -s --arg programs "$programs" --arg pages "${keep_pages[*]:1}" \
        '{record: "machine", programs: $programs, table: ., keep_pages: $pages}' >>"$records"
for case in ${cases//,/ }; do
    if [[ $(trial_of "$case") == "$case" ]]; then
        for precision in fp32 bf16; do
            run trial 0 dptrain "$precision" rule
            for way in contiguous channels_last compile; do run trial 0 torch "$precision" "$way"; done
        done
    fi
    mapfile -t chosen < <(finalists)
    for ((round = 1; round <= pairs; round++)); do
        mapfile -t order < <(printf '%s\n' "${chosen[@]}" | if ((round % 2 == 0)); then tac; else cat; fi)
        for candidate in "${order[@]}"; do
            read -r who precision way <<<"$candidate"
            run round "$round" "$who" "$precision" "$way"
        done
    done
done
note "scripts/bench/best.sh --page FILE prints the page"
