#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares training on a quiet machine with training beside busy processes, and prints results/busy.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/busy.sh [options]

Trains LeNet-5 on MNIST on a quiet machine, beside one busy process, and beside one per CPU; the script starts and stops
these processes. Measures, alternating in rounds: all CPUs by default, with OMP_WAIT_POLICY=passive and active, and with
--threads 1; 2 ranks with one thread each; and PyTorch's DistributedDataParallel on 2 ranks, if --python has PyTorch. Also
measures the time until the first step of ResNet-50 on 2 ranks without cached algorithms. Prints a Markdown page.

  --rounds N    number of rounds [5]
  --steps N     steps per run, the first 10 not counted [300]
  --data DIR    folder with MNIST's IDX files [$DPTRAIN_DATA/mnist, data/mnist]
  --python CMD  the Python with PyTorch [/usr/bin/python3]
  -h, --help    show this help
EOT
}

command="scripts/bench/busy.sh${*:+ $*}"
rounds=5 steps=300 data='' python=/usr/bin/python3
while [[ $# -gt 0 ]]; do
    case $1 in
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 20; steps=$((10#$2)); shift 2 ;;
    --data) need_value "$@"; data=$(folder_option "$1" "$2"); shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
root=$(readlink -f "$here/../..")
[[ -n $data ]] || data=${DPTRAIN_DATA:+$DPTRAIN_DATA/mnist}
data=$(readlink -f "${data:-$root/data/mnist}")
compgen -G "$data/train-images-idx3-ubyte*" >/dev/null ||
    die 3 "no MNIST in '$data'; run data/fetch_mnist.sh, or pass --data DIR"
command -v jq >/dev/null || die 4 "jq is not installed (Debian: apt-get install jq)"
cd "$root"
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
make_work busy
mpi_allow_root
export GLOO_SOCKET_IFNAME=lo XDG_CACHE_HOME=$work/cache
ways=(default passive active one ranks)
if "$python" -c 'import torch' 2>/dev/null; then ways+=(ddp); else note "$python has no PyTorch: no comparison with it"; fi

busy=()
end_busy() {
    [[ ${#busy[@]} -eq 0 ]] || kill "${busy[@]}" 2>/dev/null || true
    busy=()
}
trap '((BASHPID != $$)) || { end_busy; rm -rf "$work"; }' EXIT
begin_busy() { # NUMBER
    local i
    for ((i = 0; i < $1; i++)); do
        (while :; do :; done) &
        busy+=($!)
    done
}

# Prints images/s: the mean over the steps, because a busy process delays some of them.
measure() { # WAY
    local run=("$root/dptrain" train --data "$data" --steps "$steps" --algorithms fixed --out "$work/run" --overwrite)
    rm -rf "$work/run"
    case $1 in
    default) "${run[@]}" ;;
    passive | active) OMP_WAIT_POLICY=$1 "${run[@]}" ;;
    one) "${run[@]}" --threads 1 ;;
    ranks) mpirun "${MPI_FLAGS[@]}" -np 2 "${run[@]}" --threads 1 --batch 128 ;;
    ddp)
        mpirun "${MPI_FLAGS[@]}" -np 2 "$python" "$here/peers/lenet5_torch.py" --ddp --data "$data" --steps "$steps" \
            --out "$work/ddp"
        ;;
    esac >"$work/log" 2>&1 || { cat "$work/log" >&2; die 4 "$1 failed"; }
    if [[ $1 == ddp ]]; then jq .images_per_sec "$work/ddp"; return; fi
    jq -s '(map(select(.record == "run"))[0].global_batch) as $batch | map(select(.record == "step") | .step_sec)[10:] |
        $batch * length / add' "$work/run/metrics.jsonl"
}

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
mpi_flags 2
cpus=$(nproc)
loads=(0 1)
((cpus == 1)) || loads+=("$cpus")
for ((round = 1; round <= rounds; round++)); do
    for n in "${loads[@]}"; do
        begin_busy "$n"
        for way in "${ways[@]}"; do
            speed=$(measure "$way")
            printf '%s %s %s\n' "$n" "$way" "$speed" >>"$work/speeds"
            note "round $round/$rounds, $n busy, $way: $(printf %.0f "$speed") images/s"
        done
        end_busy
    done
done

# Seconds until the first step is recorded.
first_step() {
    local start=$EPOCHREALTIME pid
    rm -rf "$work/run" "$work/cache"
    mpirun "${MPI_FLAGS[@]}" -np 2 "$root/dptrain" train --model resnet50 --data synthetic --input-size 224 --batch 8 --steps 1 \
        --threads 1 --out "$work/run" >"$work/log" 2>&1 &
    pid=$!
    until grep -qs '"record":"step"' "$work/run/metrics.jsonl"; do
        kill -0 "$pid" 2>/dev/null || { cat "$work/log" >&2; die 4 "ResNet-50 failed"; }
        sleep 0.1
    done
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }'
    kill -USR1 "$pid" 2>/dev/null || true
    wait "$pid" || true
}
note "ResNet-50: until the first step"
seconds=$(first_step)

median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print 0 }'; }
speed_of() { awk -v n="$1" -v way="$2" '$1 == n && $2 == way { print $3 }' "$work/speeds" | median; }
row() { # WAY TITLE
    local n
    printf '| %s |' "$2"
    for n in "${loads[@]}"; do printf ' %.0f |' "$(speed_of "$n" "$1")"; done
    printf '\n'
}
# The median of a way's ratios to another within the rounds, with the least and the greatest.
ratio() { # BUSY WAY OTHER…
    awk -v n="$1" -v way="$2" -v others=" ${*:3} " '
        $1 == n && $2 == way { x[++k] = $3 }
        $1 == n && index(others, " " $2 " ") { round = ++seen[$2]; if ($3 > best[round]) best[round] = $3 }
        END { for (i = 1; i <= k; i++) print x[i] / best[i] }' "$work/speeds" | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
ratios() { # TITLE WAY OTHER…
    local n
    printf '| %s |' "$1"
    for n in "${loads[@]}"; do printf ' %s |' "$(ratio "$n" "${@:2}")"; done
    printf '\n'
}
head_row() {
    local n
    printf '| |'
    for n in "${loads[@]}"; do printf ' %s busy |' "$n"; done
    printf '\n|---|'
    for n in "${loads[@]}"; do printf -- '---:|'; done
    printf '\n'
}

# shellcheck disable=SC2016 # Markdown's quotes
cat <<EOT
# Training beside busy processes

LeNet-5 on MNIST, mean images/s over $((steps - 10)) steps, median of $rounds rounds: on a quiet machine, and beside processes
that each spin on a CPU. 64 samples per step and rank.

$(head_row)
$(row default 'all CPUs')
$(row passive 'all CPUs, `OMP_WAIT_POLICY=passive`')
$(row active 'all CPUs, `OMP_WAIT_POLICY=active`')
$(row one '`--threads 1`')
$(row ranks '2 ranks')
$([[ ${ways[-1]} != ddp ]] || row ddp 'PyTorch DDP, 2 ranks')

Ratios within the rounds, median and range:

$(head_row)
$(ratios 'all CPUs over the better wait policy' default passive active)
$(ratios 'all CPUs over `--threads 1`' default one)
$([[ ${ways[-1]} != ddp ]] || ratios '2 ranks over DDP' ranks ddp)

ResNet-50, batch 8, synthetic images of 224×224, 2 ranks, no cached algorithms: the first step was done $seconds s after the
start.

EOT
extra=()
[[ ${ways[-1]} != ddp ]] || extra=(peer "$("$python" "$here/peers/lenet5_torch.py" --describe)")
machine_table "$load" "$command" "${extra[@]}"
