#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares dptrain and PyTorch on ResNets, and prints results/resnet.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/resnet.sh [options]

Trains ResNets on random images with dptrain and with PyTorch, alternating in rounds, and prints a Markdown page:
milliseconds per step, ratios with their spread, peak memory, page faults, a breakdown of dptrain's step and its lower
bound, versions. Each rank has one thread on its own core. PyTorch is tuned (channels_last, freed pages kept); 1 rank is
a plain process, 2 are DistributedDataParallel over gloo. Needs jq.

  --cases LIST  MODEL:SIDE:BATCH[:bf16], with the batch per rank; bf16: bfloat16 products, in PyTorch by autocast
                [resnet18:32:8,resnet18:32:32,resnet18:224:8,resnet18:224:32,resnet50:224:8,resnet50:224:32; on CPUs
                with AMX also the cases at 224 with bf16]
  --ranks LIST  numbers of ranks [1,2]
  --pairs N     number of rounds [5]
  --steps N     steps per run, including 10 of warm-up [20]
  --venv DIR    a Python environment with a newer PyTorch (2.4 or later), to use instead of Debian's
  --python CMD  the Python with Debian's PyTorch [/usr/bin/python3]
  --quick       2 rounds of resnet18:32:8, as a smoke test
  -h, --help    show this help
EOT
}

command="scripts/bench/resnet.sh${*:+ $*}"
large=resnet18:224:8,resnet18:224:32,resnet50:224:8,resnet50:224:32
cases=resnet18:32:8,resnet18:32:32,$large
if grep -q -m 1 '^flags.*amx_bf16' /proc/cpuinfo; then cases+=,${large//,/:bf16,}:bf16; fi
ranks=1,2 pairs=5 steps=20 venv='' python=/usr/bin/python3
while [[ $# -gt 0 ]]; do
    case $1 in
    --cases) need_value "$@"; cases=$2; shift 2 ;;
    --ranks) need_value "$@"; ranks=$2; shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 1; pairs=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 12; steps=$((10#$2)); shift 2 ;;
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --quick) pairs=2 cases=resnet18:32:8; shift ;;
    *) common_option "$1" ;;
    esac
done
[[ $ranks =~ ^[1-9][0-9]?(,[1-9][0-9]?)*$ ]] || die 2 "invalid --ranks '$ranks': expected a list such as 1,2"
one='resnet(18|50):[1-9][0-9]{1,3}:[1-9][0-9]{0,3}(:bf16)?'
[[ $cases =~ ^$one(,$one)*$ ]] || die 2 "invalid --cases '$cases': expected a list such as resnet18:224:8,resnet50:224:8"
[[ -z $venv || -x $venv/bin/python ]] || die 2 "--venv $venv: no such program: $venv/bin/python"
command -v jq >/dev/null || die 4 "jq was not found; scripts/install_deps.sh --test installs it"
fused=()
if [[ -n $venv ]]; then python=$venv/bin/python fused=(--fused); fi
"$python" -c 'import torch' 2>/dev/null ||
    die 4 "$python has no PyTorch: scripts/bench/peers.sh --install installs Debian's; --venv selects another"

cd "$here/../.."
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work resnet
mpi_allow_root
export GLOO_SOCKET_IFNAME=lo XDG_CACHE_HOME=$work/cache

ours() { # NP MODEL SIDE BATCH PRECISION
    local records=$work/ours/metrics.jsonl
    start "$1" ./dptrain train --model "$2" --data synthetic --input-size "$3" --threads 1 --steps "$steps" \
        --overwrite --batch-per-rank "$4" --precision "$5" --out "$work/ours"
    jq -c 'select(.record == "end")' "$records" >"$work/end"
    jq -c --arg case "$case" --argjson np "$1" 'select(.record == "profile") + {case: $case, np: $np}' "$records" \
        >>"$work/profiles"
}

theirs() { # NP MODEL SIDE BATCH PRECISION
    local more=()
    if (($1 > 1)); then more=(--ddp); fi
    if [[ $5 == bf16 ]]; then more+=(--bf16); fi
    # A different port in each run, because the previous one may still be closing.
    MASTER_PORT=$((20000 + RANDOM % 10000)) start "$1" "${keep_pages[@]}" "$python" scripts/bench/peers/resnet_torch.py \
        --channels-last "${fused[@]}" "${more[@]}" --model "$2" --side "$3" --batch "$4" --threads 1 --steps "$steps" \
        --warmup 10 --out "$work/end"
}

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
for ((round = 0; round < pairs; round++)); do
    # Reverse the order in every other round.
    order=(ours theirs)
    if ((round % 2)); then order=(theirs ours); fi
    for case in ${cases//,/ }; do
        IFS=: read -r model side batch precision <<<"$case"
        precision=${precision:-fp32}
        for np in ${ranks//,/ }; do
            for who in "${order[@]}"; do
                "$who" "$np" "$model" "$side" "$batch" "$precision"
                jq -c --arg case "$case" --argjson np "$np" --arg who "$who" --argjson round "$round" \
                    '{case: $case, np: $np, who: $who, round: $round, rate: .median_images_per_sec,
                      cpu: (.steady_cpu_sec / .steady_steps),
                      memory: (.peak_memory_bytes | max),
                      faults: (.faults_per_step // (.steady_page_faults / .steady_steps))}' "$work/end" >>"$work/ends"
                rate=$(jq '.median_images_per_sec * 10 | round / 10' "$work/end")
                note "round $((round + 1))/$pairs, $case, $np ranks, $who: $rate images/s"
            done
        done
    done
done

# shellcheck disable=SC2016 # variables of jq
table='
def quantile($q): sort | ((length - 1) * $q) as $at | ($at | floor) as $low
    | .[$low] + (.[$at | ceil] - .[$low]) * ($at - $low);
def round_to($n): . * $n | round / $n;
group_by([.case, .np])[] | . as $all
| (.[0].case | split(":")) as [$model, $side, $batch, $precision]
| (map(select(.who == "ours"))) as $ours | (map(select(.who == "theirs"))) as $theirs
| [$ours[] as $a | $theirs[] | select(.round == $a.round) | $a.rate / .rate] as $ratios
| ($ours | map(.rate) | quantile(0.5)) as $o | ($theirs | map(.rate) | quantile(0.5)) as $t
| ($ours | map(.cpu) | quantile(0.5)) as $oc | ($theirs | map(.cpu) | quantile(0.5)) as $tc
| ($ours | map(.memory) | quantile(0.5)) as $om | ($theirs | map(.memory) | quantile(0.5)) as $tm
| (if $precision then 1.5 elif ($batch | tonumber) >= 32 then 1.2 else 1.05 end) as $target
| (($batch | tonumber) * .[0].np * 1e3) as $images
| "| \($model) | \($side) | \($batch) | \($precision // "fp32") | \(.[0].np) | \($images / $o | round) | "
  + "\($images / $t | round) | **\($o / $t | round_to(100))** | "
  + ([0, 0.25, 0.75, 1] | map(. as $q | $ratios | quantile($q) | round_to(100) | tostring)
     | "\(.[0]), \(.[1]) to \(.[2]), \(.[3]) | ")
  + "\(($ours | map(.rate) | max) / ($theirs | map(.rate) | max) | round_to(100)) | "
  + "\($oc * 1e3 | round), \($tc * 1e3 | round) | **\($tc / $oc | round_to(100))** | "
  + "\(if $o / $t >= $target then "yes" else "no: \($target)" end) | "
  + "\($om / 1e6 | round) | \($tm / 1e6 | round) | \($om / $tm | round_to(100)) | "
  + "\($ours | map(.faults) | quantile(0.5) | round), \($theirs | map(.faults) | quantile(0.5) | round) |"'

# shellcheck disable=SC2016
floor='
def ms: . * 1e3 | round;
def part($kinds): [.layers[] | select(.operator as $k | $kinds | index($k)) | .forward_sec + .backward_sec] | add // 0;
[group_by([.case, .np])[] | sort_by(.step_sec)[0]] as $best
| $best[] | (.case | split(":")) as [$model, $side, $batch, $precision] | . as $p
| ([.layers[] | .gflops * (.forward_sec + .backward_sec)] | add) as $flops
| part(["conv2d", "linear"]) as $products
| "| \($model) | \($side) | \($batch) | \($precision // "fp32") | \(.np) | \(.step_sec | ms) | \($products | ms) | \(part(["batch_norm"]) | ms) | "
  + "\(part(["relu"]) | ms) | \(part(["add"]) | ms) | \(part(["pool2d"]) | ms) | \(.optimizer_sec | ms) | "
  + "\(.data_wait_sec + .exposed_comm_sec | ms) | **\((.step_sec - $products) / .step_sec * 100 | round) %** | "
  + "\($flops | round) | \(.peak_gflops | round) | \($flops / .peak_gflops | ms) | \($flops / $products / .peak_gflops * 100 | round) % |"'

described=$("$python" scripts/bench/peers/resnet_torch.py --describe 2>/dev/null)
backend=$(jq -r 'select(.record == "run") | .software.backend' "$work/ours/metrics.jsonl")
cat <<EOT
# ResNets compared with PyTorch

Whole training steps on random images, one thread on each rank. Target in float32: 1.05 times PyTorch's speed at
batches of 8, 1.2 at 32; with products of bfloat16 on AMX (PyTorch under torch.autocast): 1.5; at most 0.7 of its memory.

| model | side | batch a rank | precision | ranks | dptrain, ms | PyTorch, ms | ratio | over rounds | fastest runs | CPU, ms | ratio | target met | dptrain, MB | PyTorch, MB | share | faults a step |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
$(jq -s -r "$table" "$work/ends")

- A run is $steps steps (fetching the batch, forward, backward, allreduce, optimizer) without the first 10; its
  figure is that of the median step. The programs alternate for $pairs rounds, with the order reversed in every other
  round. ratio: dptrain's median rate over PyTorch's, then the ratio within rounds: minimum, quartiles, maximum; then the
  ratio of the fastest runs, which other tenants disturbed least.
- CPU: CPU time of a step on rank 0, dptrain's and PyTorch's, which is less sensitive to other tenants, and their ratio; on
  2 ranks dptrain waits for the other rank by polling, PyTorch by sleeping.
- PyTorch: \`scripts/bench/peers/resnet_torch.py --channels-last${fused[*]:+ ${fused[*]}}\`, and glibc told to keep freed
  pages (\`${keep_pages[*]:1}\`);
  2 ranks are DistributedDataParallel over gloo. memory: \`ru_maxrss\` of the largest rank, in 10⁶ bytes. faults: page
  faults per step, dptrain's and PyTorch's.

## Breakdown of dptrain's step

From the fastest run; milliseconds of a mean step. Floor: the multiply-adds of direct convolution at the peak that a
product of two large matrices reached at the end of the same run; Winograd needs fewer multiply-adds, so more than 100 %
of the peak is possible. not products: everything except convolution and linear; target: 20 %.

| model | side | batch | precision | ranks | step | products | batch norm | ReLU | add | pooling | optimizer | data, allreduce | not products | GFLOP | peak, GFLOP/s | floor | of it |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
$(jq -s -r "$floor" "$work/profiles")

$(machine_table "$load" "$command" PyTorch "$described" backend "$backend")
EOT
