#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures --shard-optimizer, and prints results/shard_optimizer.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"
# shellcheck source=tests/cluster/cluster.bash
. "$here/../../tests/cluster/cluster.bash"

usage() {
    cat <<'EOF'
usage: scripts/bench/shard_optimizer.sh [options]

Compares training with and without --shard-optimizer, and prints a Markdown page: memory per rank; images per second in pairs of
runs, on one host and, for root, on two made of namespaces; PyTorch's ZeroRedundancyOptimizer; and runs of which a rank is killed
and that resume. Needs jq, h5diff, and an otherwise idle machine for about half an hour.

  --only LIST   parts, separated by commas: memory speed hosts peers kills [all]
  --pairs N     pairs of runs per row [8]
  --kills N     runs of which a rank is killed [50]
  --python CMD  the Python with PyTorch [python3]; without PyTorch that part is left out
  -h, --help    show this help
EOF
}

command="scripts/bench/shard_optimizer.sh${*:+ $*}"
pairs=8 kills=50 python=python3 only=memory,speed,hosts,peers,kills
while [[ $# -gt 0 ]]; do
    case $1 in
    --only)
        need_value "$@"
        [[ $2 =~ ^(memory|speed|hosts|peers|kills)(,(memory|speed|hosts|peers|kills))*$ ]] ||
            die 2 "invalid --only '$2': expected some of memory, speed, hosts, peers and kills, separated by commas"
        only=$2; shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 1; pairs=$((10#$2)); shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --kills) need_value "$@"; whole_number "$1" "$2" 0; kills=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
for tool in jq h5diff; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; scripts/install_deps.sh --test installs it"
done
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
make_work shard_optimizer
run=$work/run
state=(--optimizer adamw --ema 0.99)

train() { # RANKS|hosts ARGUMENTS...
    local given=(train --out "$run" --threads 1 --data digits --no-eval --checkpoint-every 1000000 "${@:2}")
    rm -rf "$run"
    if [[ $1 == hosts ]]; then
        cluster_exec node1 "$PWD/scripts/run.sh" -H node1:1,node2:1 --bind-to none -- "${given[@]}"
    else
        mpi_flags "$1"
        mpirun "${MPI_FLAGS[@]}" -np "$1" ./dptrain "${given[@]}"
    fi >"$work/said" 2>&1 || { tail -n 5 "$work/said" >&2; die 4 "training failed"; }
}

field() { # RECORD FIELD
    jq -r "select(.record == \"$1\") | $2" "$run/metrics.jsonl"
}

mib() { awk "BEGIN { printf \"%.1f\", $1 / 1048576 }"; }

memory_row() { # RANKS
    local sharded plain plain_peak
    train "$1" --model resnet50 --batch $((2 * $1)) --steps 2 --algorithms fixed "${state[@]}"
    plain=$(field run .topology.optimizer_bytes) plain_peak=$(field end '.peak_memory_bytes[1]')
    train "$1" --model resnet50 --batch $((2 * $1)) --steps 2 --algorithms fixed "${state[@]}" --shard-optimizer
    sharded=$(field run .topology.optimizer_bytes)
    printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$(mib "$plain")" "$(mib "$sharded")" \
        "$(awk "BEGIN { printf \"%.4f\", $sharded / $plain }")" "$(mib "$plain_peak")" "$(mib "$(field end '.peak_memory_bytes[1]')")"
    note "memory on $1 ranks"
}

# Runs two commands in turn, which print images per second. Prints a row: medians, and the ratio of the second to the first.
pairs_row() { # NAME COMMAND COMMAND
    local i way other rates=() commands=("${@:2}")
    for ((i = 0; i < pairs; i++)); do
        for way in 0 1; do
            other=$(((way + i) % 2))
            rates[other]=$("${commands[other]}")
        done
        echo "${rates[0]} ${rates[1]}"
    done | jq -Rrs --arg name "$1" '
        def at($q): sort | ((length - 1) * $q) as $i | .[$i | floor] + ($i - ($i | floor)) * (.[$i | ceil] - .[$i | floor]);
        def two: 1000 * . | round / 1000;
        [split("\n")[] | select(. != "") | split(" ") | map(tonumber)]
        | (map(.[1] / .[0])) as $r
        | "| \($name) | \(map(.[0]) | at(0.5) | round) | \(map(.[1]) | at(0.5) | round) | \($r | at(0.5) | two) (\($r
            | at(0.25) | two)–\($r | at(0.75) | two)) |"'
    note "$1"
}

plain() { train "${speed[@]}" && field end .median_images_per_sec; }
sharded() { train "${speed[@]}" --shard-optimizer && field end .median_images_per_sec; }

speed_row() { # NAME RANKS|hosts ARGUMENTS...
    speed=("${@:2}")
    pairs_row "$1" plain sharded
}

# LeNet-5 with AdamW on 2 ranks.
peer() {
    # A different port in each run, because the previous one may still be closing.
    MASTER_PORT=$((20000 + RANDOM % 10000)) start 2 "${keep_pages[@]}" "$python" scripts/bench/peers/lenet5_torch.py --ddp --adamw \
        --lr 0.001 --data "$work/digits" --no-eval --steps 400 --log-every 400 --out "$work/peer" "${peer[@]}"
    jq .median_images_per_sec "$work/peer"
}

peer_rows() {
    local way ways=("" --channels-last --bf16 "--bf16 --channels-last") fused best=0 rate name n_ways=0
    "$python" -c 'import torch' 2>/dev/null || { echo "Left out: $python has no PyTorch."; return; }
    export GLOO_SOCKET_IFNAME=lo
    ./dptrain data synth digits --out "$work/digits" >/dev/null
    # torch.compile needs a compiler and Python's headers.
    for way in "${ways[@]}"; do ways+=("$way --compile"); done
    for fused in "" --fused; do
        for way in "${ways[@]}"; do
            read -ra peer <<<"--zero $fused $way"
            rate=$(peer) || continue
            note "PyTorch ${peer[*]}: $rate"
            n_ways=$((n_ways + 1))
            if awk "BEGIN { exit !($rate > $best) }"; then best=$rate name=${peer[*]}; fi
        done
    done
    printf 'PyTorch is the best of %s ways: `%s`.\n\n' "$n_ways" "$name"
    printf '| | PyTorch | dptrain, sharded | ratio |\n|---|---:|---:|---:|\n'
    read -ra peer <<<"$name"
    speed=(2 --model lenet5 --steps 1500 --optimizer adamw --lr 0.001 --batch 128)
    pairs_row 'DistributedDataParallel, ZeroRedundancyOptimizer' peer sharded
    read -ra peer <<<"${name/--zero/}"
    pairs_row 'DistributedDataParallel, AdamW whole on each rank' peer sharded
}

# Kills a rank in a step whose update is held up, and resumes until the run is over.
kills_row() {
    local i starts job victims n_same=0 n_starts=0 part
    local options=(--model lenet5 --steps 60 --reproducible 2 --checkpoint-every 10 --keep 9 --no-eval --data digits "${state[@]}")
    mpi_flags 2
    mpirun "${MPI_FLAGS[@]}" -np 2 ./dptrain train "${options[@]}" --out "$work/whole" >"$work/said" 2>&1
    for ((i = 0; i < kills; i++)); do
        rm -rf "$work/run"
        for ((starts = 1; starts <= 9; starts++)); do
            n_starts=$((n_starts + 1))
            mpirun "${MPI_FLAGS[@]}" -np 2 ./dptrain train "${options[@]}" --shard-optimizer --burn optimizer:5 --resume auto \
                --out "$work/run" >"$work/said" 2>&1 &
            job=$!
            # The first two starts are struck.
            if ((starts <= 2)); then
                sleep "$(awk -v seed="$i$starts" 'BEGIN { srand(seed); printf "%.3f", 0.9 + 0.9 * rand() }')"
                mapfile -t victims < <(pgrep -P "$job")
                ((${#victims[@]} == 0)) || kill -KILL "${victims[i % ${#victims[@]}]}" 2>/dev/null || true
            fi
            if wait "$job"; then break; fi
        done
        for part in /params /optimizer; do
            h5diff -q "$work/whole/ckpt-000000000060.h5" "$work/run/ckpt-000000000060.h5" $part $part || continue 2
        done
        n_same=$((n_same + 1))
    done
    printf '%s of %s runs ended with the bits of an undisturbed run without the option, after %s starts in all.\n' \
        "$n_same" "$kills" "$n_starts"
}

wanted() { [[ ,$only, == *,$1,* ]]; }

cat <<'EOF'
# The optimizer's state shared out

Training on built-in digits with and without `--shard-optimizer`, one thread per rank. Ratios are medians of pairs of runs, with
quartiles.
EOF
if wanted memory; then
    cat <<'EOF'

## Memory per rank

ResNet-50, AdamW with a moving average of the weights, 2 samples per rank; MiB, of the rank that has most. The peak includes a
checkpoint.

| ranks | state | state, sharded | ratio | peak | peak, sharded |
|---:|---:|---:|---:|---:|---:|
EOF
    memory_row 2
    memory_row 4
fi
if wanted speed; then
    printf '\n## Images per second on 2 ranks of a host\n\n%s pairs a row.\n\n| | plain | sharded | ratio |\n|---|---:|---:|---:|\n' "$pairs"
    speed_row 'LeNet-5, SGD' 2 --model lenet5 --steps 1500
    speed_row 'LeNet-5, AdamW, average' 2 --model lenet5 --steps 1500 "${state[@]}"
    speed_row 'ResNet-18, batch 16, SGD' 2 --model resnet18 --batch 16 --steps 40 --algorithms fixed
    speed_row 'ResNet-18, batch 16, AdamW, average' 2 --model resnet18 --batch 16 --steps 40 --algorithms fixed "${state[@]}"
fi
if wanted hosts; then
    missing=$(cluster_why)
    [[ -z $missing ]] || die 4 "no hosts: $missing; --only leaves them out"
    printf '\n## Images per second on two hosts\n\nHosts are namespaces, with a rank each; messages go over TCP. %s pairs a row.\n\n' "$pairs"
    printf '| | plain | sharded | ratio |\n|---|---:|---:|---:|\n'
    cluster_up 2 || die 4 "the hosts did not start"
    trap '((BASHPID != $$)) || { cluster_down; remove_work; }' EXIT
    cluster_trust
    run=$cluster/shared/run
    speed_row 'LeNet-5, SGD' hosts --model lenet5 --steps 1000
    speed_row 'LeNet-5, AdamW, average' hosts --model lenet5 --steps 1000 "${state[@]}"
    cluster_limit 1gbit 64k || die 4 "this kernel has no tbf"
    speed_row 'LeNet-5, AdamW, average, ports limited to 1 Gbit/s' hosts --model lenet5 --steps 300 "${state[@]}"
    cluster_down
    trap '((BASHPID != $$)) || remove_work' EXIT
    run=$work/run
fi
if wanted peers; then
    printf '\n## Beside PyTorch\n\nLeNet-5, AdamW, 64 samples per rank, 2 ranks, images per second, %s pairs a row. ' "$pairs"
    peer_rows
fi
if wanted kills; then
    cat <<'EOF'

## Killed ranks

LeNet-5 with `--reproducible 2`, a checkpoint every 10 of 60 steps. A rank is killed at a random time, mostly between reduce-scatter
and allgather, where an injected slowdown holds it up; the run resumes, and is struck once more.

EOF
    kills_row
fi
printf '\n'
machine_table "$load" "$command"
