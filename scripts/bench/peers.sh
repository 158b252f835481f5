#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares dptrain and PyTorch on LeNet-5, and prints results/peers.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/peers.sh [options]

Trains LeNet-5 on MNIST with dptrain and with PyTorch, alternating in rounds, and prints a Markdown page: images/s,
ratios with their spread, peak memory, versions. Each rank has one thread on its own core. PyTorch is Debian's
python3-torch, with default and with tuned settings; 1 rank is a plain process, 2 are DistributedDataParallel over gloo.

  --pairs N     number of rounds [9]
  --steps N     steps per run, including 10 of warm-up [300]
  --batch N     samples per step and rank [64]
  --ranks LIST  numbers of ranks [1,2]
  --venv DIR    a Python environment with a newer PyTorch (2.4 or later), to compare as well
  --data DIR    folder with MNIST's IDX files [$DPTRAIN_DATA/mnist, data/mnist]
  --python CMD  the Python with Debian's PyTorch [/usr/bin/python3]
  --install     install Debian's packages first: python3-torch, libopenblas0-pthread
  --quick       2 rounds of 60 steps, as a smoke test
  -h, --help    show this help
EOT
}

command="scripts/bench/peers.sh${*:+ $*}"
pairs=9 steps=300 batch=64 ranks=1,2 venv='' data='' python=/usr/bin/python3 install=no
# Without OpenBLAS Debian's PyTorch multiplies with the reference BLAS, at a third of its speed.
packages=(python3-torch libopenblas0-pthread)
while [[ $# -gt 0 ]]; do
    case $1 in
    --pairs) need_value "$@"; whole_number "$1" "$2" 7; pairs=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 20; steps=$((10#$2)); shift 2 ;;
    --batch) need_value "$@"; whole_number "$1" "$2" 1; batch=$((10#$2)); shift 2 ;;
    --ranks) need_value "$@"; ranks=$2; shift 2 ;;
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --data) need_value "$@"; data=$2; shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --install) install=yes; shift ;;
    --quick) pairs=2 steps=60; shift ;;
    *) common_option "$1" ;;
    esac
done
[[ $ranks =~ ^[1-9][0-9]?(,[1-9][0-9]?)*$ ]] || die 2 "invalid --ranks '$ranks': expected a list such as 1,2"
[[ -z $venv || -x $venv/bin/python ]] || die 2 "--venv $venv: no such program: $venv/bin/python"
root=$(readlink -f "$here/../..")
if [[ -z $data ]]; then
    data=$root/data/mnist
    [[ -z ${DPTRAIN_DATA:-} ]] || data=$DPTRAIN_DATA/mnist
fi
compgen -G "$data/train-images-idx3-ubyte*" >/dev/null ||
    die 3 "no MNIST in '$data'; run data/fetch_mnist.sh, or pass --data DIR"
data=$(readlink -f "$data")

# Debian's PyTorch loads the target of libblas.so.3.
blas_path() { readlink -f "$(ldconfig -p 2>/dev/null | awk '$1 == "libblas.so.3" { print $NF; exit }')"; }
if [[ $install == yes ]]; then
    command -v apt-get >/dev/null || die 4 "--install: apt-get was not found; install PyTorch yourself"
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}" >&2 ||
        die 4 "apt-get could not install ${packages[*]}; run as root, after apt-get update"
fi
"$python" -c 'import torch' 2>/dev/null ||
    die 4 "$python has no PyTorch: --install installs ${packages[*]}; --python selects another Python"
[[ $(blas_path) != */blas/libblas.so* ]] ||
    die 4 "PyTorch would use the reference BLAS, which is slow: --install installs ${packages[1]}"

cd "$root"
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work peers
mpi_allow_root
export GLOO_SOCKET_IFNAME=lo XDG_CACHE_HOME=$work/cache

ours() { # NP OPTION…
    local np=$1
    shift
    start "$np" ./dptrain train --model lenet5 --data "$data" --threads 1 --steps "$steps" --overwrite \
        --batch-per-rank "$batch" --out "$work/ours" "$@"
    grep '"record":"end"' "$work/ours/metrics.jsonl" >"$work/end"
}

# Runs NP separate processes at the same time: the same work without an allreduce.
apart() { # NP
    # shellcheck disable=SC2016 # for the inner shell
    start "$1" bash -c 'exec env -u OMPI_COMM_WORLD_RANK -u PMIX_RANK "$@" --out "$0/$OMPI_COMM_WORLD_RANK"' \
        "$work/apart" ./dptrain train --model lenet5 --data "$data" --threads 1 --steps "$steps" --overwrite \
        --batch "$batch" --comm self
    grep -h '"record":"end"' "$work"/apart/*/metrics.jsonl | "$python" -c 'import json, sys
ends = [json.loads(line) for line in sys.stdin]
print(json.dumps({"median_images_per_sec": sum(end["median_images_per_sec"] for end in ends),
                  "peak_memory_bytes": [max(end["peak_memory_bytes"]) for end in ends]}))' >"$work/end"
}

theirs() { # NP PYTHON OPTION…
    local np=$1 ddp=()
    shift
    if ((np > 1)); then ddp=(--ddp); fi
    # A different port in each run, because the previous one may still be closing.
    MASTER_PORT=$((20000 + RANDOM % 10000)) start "$np" "$@" "${ddp[@]}" --data "$data" --threads 1 \
        --steps "$steps" --batch "$batch" --out "$work/end"
}

run() { # NAME NP
    local peer=scripts/bench/peers/lenet5_torch.py newest=$venv/bin/python
    case $1 in
    dptrain) ours "$2" ;;
    dptrain-apart) apart "$2" ;;
    dptrain-bf16) ours "$2" --precision bf16 ;;
    torch) theirs "$2" "$python" "$peer" ;;
    torch-best) theirs "$2" "${keep_pages[@]}" "$python" "$peer" --channels-last ;;
    torch-bf16) theirs "$2" "${keep_pages[@]}" "$python" "$peer" --channels-last --bf16 ;;
    newest) theirs "$2" "$newest" "$peer" ;;
    newest-best) theirs "$2" "${keep_pages[@]}" "$newest" "$peer" --channels-last --fused ;;
    newest-bf16) theirs "$2" "${keep_pages[@]}" "$newest" "$peer" --channels-last --fused --bf16 ;;
    esac
}

names=(dptrain dptrain-apart torch torch-best)
[[ -z $venv ]] || names+=(newest newest-best)
if [[ $(./dptrain train --help) == *--precision* ]]; then
    names+=(dptrain-bf16 torch-bf16)
    [[ -z $venv ]] || names+=(newest-bf16)
fi
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
for ((round = 0; round < pairs; round++)); do
    # Reverse the order in every other round.
    mapfile -t order < <(printf '%s\n' "${names[@]}" | if ((round % 2)); then tac; else cat; fi)
    for np in ${ranks//,/ }; do
        for name in "${order[@]}"; do
            [[ $name != dptrain-apart || $np -gt 1 ]] || continue
            run "$name" "$np"
            printf '%s\t%s\t%s\t%s\n' "$round" "$np" "$name" "$(cat "$work/end")" >>"$work/ends"
            note "round $((round + 1))/$pairs, $np ranks, $name: $(sed 's/.*"median_images_per_sec": *\([0-9]*\).*/\1/' "$work/end") images/s"
        done
    done
done

cpu=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
flags=$(grep -m 1 '^flags' /proc/cpuinfo | grep -o -w -E 'avx2|avx512f|avx512_[a-z0-9]*|amx_[a-z0-9]*' | xargs)
described='not timed: no --venv'
[[ -z $venv ]] || described=$("$venv/bin/python" scripts/bench/peers/lenet5_torch.py --describe 2>/dev/null)
bound="each rank to a core"
may_bind || bound="not bound: this machine does not support binding"
cat <<EOT
# dptrain compared with PyTorch

LeNet-5 on MNIST, batch $batch and one thread per rank.

$("$python" scripts/bench/peers/table.py "$work/ends")

- A run is $steps whole steps (fetching the batch, forward, backward, allreduce, optimizer) without the first 10; its figure is
  that of the median step. The programs alternate for $pairs rounds, with the order reversed in every other round. images/s: median
  over rounds, with quartiles. ratio: dptrain's median over the program's, then the ratio within rounds: minimum, quartiles, maximum.
- dptrain-apart: the same number of separate processes at the same time, figures added; the difference is the allreduce.
- torch: the program in \`scripts/bench/peers\` with default settings. best: \`--channels-last\`, and glibc set to keep freed pages
  (\`${keep_pages[*]:1}\`). newest: the same in the environment of \`--venv\`; its
  best also uses \`--fused\`. bf16: best under \`torch.autocast\`.
- 2 ranks of PyTorch are DistributedDataParallel over gloo. memory: \`ru_maxrss\` of the largest rank, in 10⁶ bytes.

| | |
|---|---|
| machine | ${cpu:-unknown} ($flags), $(nproc) CPUs usable, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo) memory |
| system | $(uname -sr); load before: $load |
| bound | $bound |
| dptrain | $(./dptrain --version), $(sed -n 's/.*"backend":"\([^"]*\)".*/\1/p' "$work/ours/metrics.jsonl") |
| torch | $("$python" scripts/bench/peers/lenet5_torch.py --describe) |
| newest | $described |
| MPI | $(mpirun --version | head -n 1) |
| date | $(date -u +%Y-%m-%d) |
| command | \`$command\` |
EOT
