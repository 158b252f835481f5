#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares a training step with its lower bound, layer by layer, and prints results/step_floor.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/step.sh [options]

Trains a model on one rank with one thread, and prints a Markdown page with the time of a step, layer by layer, and its
lower bound: its FLOPs at the machine's measured peak. Needs jq.

  --model NAME  model [lenet5]
  --batch N     batch size [64]
  --runs N      number of runs; the one with the fastest median step counts [7]
  --steps N     steps per run [300]
  --data DIR    as for dptrain train
  -h, --help    show this help
EOT
}

command="scripts/bench/step.sh${*:+ $*}"
model=lenet5 batch=64 runs=7 steps=300 data=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --model) need_value "$@"; model=$2; shift 2 ;;
    --batch) need_value "$@"; whole_number "$1" "$2" 1; batch=$((10#$2)); shift 2 ;;
    --runs) need_value "$@"; whole_number "$1" "$2" 1; runs=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 50; steps=$((10#$2)); shift 2 ;;
    --data) need_value "$@"; data=(--data "$(readlink -f "$2")"); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
command -v jq >/dev/null || die 4 "jq was not found; scripts/install_deps.sh --test installs it"
cd "$here/../.."
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work step
export XDG_CACHE_HOME=$work/cache

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
for ((i = 0; i < runs; i++)); do
    ./dptrain train --model "$model" --batch "$batch" --steps "$steps" --threads 1 "${data[@]}" --out "$work/$i" \
        >"$work/log" 2>&1 || { cat "$work/log" >&2; die 4 "the run failed"; }
    rate=$(jq 'select(.record == "end") | .median_images_per_sec' "$work/$i/metrics.jsonl")
    note "run $((i + 1))/$runs: ${rate%.*} images/s"
    printf '%s\t%s\n' "$rate" "$work/$i/metrics.jsonl"
done >"$work/rates"
best=$(sort -rn "$work/rates" | head -n 1)
rate=${best%%$'\t'*} records=${best#*$'\t'}
parameters=$(jq 'select(.record == "run") | .n_parameters' "$records")
peak=$(cat "$work"/[0-9]*/metrics.jsonl | jq -s 'map(select(.record == "profile") | .peak_gflops) | max')

cat <<EOT
# A step of $model compared with its floor

Batch $batch, one rank, one thread: $(printf '%.0f' "$rate") images/s (median of steady steps, best of $runs runs).

$(jq -r --argjson peak "$peak" --argjson batch "$batch" --argjson rate "$rate" --argjson parameters "$parameters" '
    def ms: . * 1e5 | round / 100;
    def cell: if . == 0 then "" else tostring end;
    select(.record == "profile") | . as $p
    | ([$p.layers[] | .gflops * (.forward_sec + .backward_sec)] | add) as $flops
    | ["| layer | forward, ms | backward, ms | MFLOP | floor, ms | of the peak |", "|---|---|---|---|---|---|"]
    + [$p.layers[] | (.gflops * (.forward_sec + .backward_sec)) as $f
        | "| \(.name) | \(.forward_sec | ms) | \(.backward_sec | ms) | \($f * 1e4 | round / 10 | cell) | \($f / $peak | ms | cell) | \(if $f > 0 then "\(100 * .gflops / $peak | round) %" else "" end) |"]
    + ["| optimizer | | \($p.optimizer_sec | ms) | | | \(20 * $parameters / $p.optimizer_sec / 1e8 | round / 10) GB/s |",
       "| data, allreduce, other | | \($p.data_wait_sec + $p.exposed_comm_sec + $p.other_sec | ms) | | | |",
       "| step, mean | | \($p.step_sec | ms) | \($flops * 1e4 | round / 10) | **\($flops / $peak | ms)** | **\(100 * $flops / $peak / $p.step_sec | round) %** |",
       "| step, median | | **\($batch / $rate | ms)** | | | **\(100 * $flops / $peak / ($batch / $rate) | round) %** |"]
    | .[]' "$records")

- MFLOP: 2 per multiply-add of a step; no gradient of the first layer's input. Floor: these at the peak,
  $(printf '%.0f' "$peak") GFLOP/s, what the core's multiply-adds reached at the end of the same runs. Times of
  layers are means over the steps, which include disturbances; the median step does not.
- The time above the floor: transposes into the batch's layout and back (a tenth of a convolution), ReLU and pooling with
  their byte masks, tiles whose channels do not fill vectors, matrix products with only 64 rows.
- optimizer: reads weights, gradients and velocity and writes weights and velocity, 20 bytes per parameter.

$(machine_table "$load" "$command" backend "$(jq -r 'select(.record == "run") | .software.backend' "$records")")
EOT
