#!/usr/bin/env bash
# Proves that `dptrain bench comm` measures MPI and not itself, and prints results/bench_comm.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench_comm.sh [options]

Measures, and prints as a Markdown page: MPI_Allreduce of 8 B to 16 MB by `dptrain bench comm` and by a bare loop of
the same calls (scripts/bench/bare_loop.c), in pairs. Exit code 1: a median is more than 2 % above the bare loop's.

  -np N         ranks, bound to cores [2]
  --pairs N     pairs of each comparison [21]
  --budget SEC  for one measurement [0.5]
  --quick       3 pairs of 0.1 s, only to see that it works; the exit code is then 0
  -h, --help    this text
EOT
}

command="scripts/bench_comm.sh${*:+ $*}"
np=2 pairs=21 budget=0.5 quick=no
while [[ $# -gt 0 ]]; do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 2; np=$((10#$2)); shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 15; pairs=$((10#$2)); shift 2 ;;
    --budget)
        need_value "$@"
        [[ $2 =~ ^[0-9]*\.?[0-9]+$ ]] || die 2 "$1 wants a number of seconds, not '$2'"
        budget=$2; shift 2 ;;
    --quick) quick=yes pairs=3 budget=0.1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown option '$1'; --help lists the options" ;;
    esac
done
cd "$here/.."
make -s -j "$(nproc)" dptrain build/scripts/bench/bare_loop >&2 || die 4 "the build failed"
mpi_allow_root
mpi_flags "$np"
work=$(mktemp -d "${TMPDIR:-/tmp}/dptrain-bench.XXXXXX") || die 4 "cannot make a folder in ${TMPDIR:-/tmp}"
trap 'rm -rf "$work"' EXIT

# Each prints seconds.
by_bench() { # BYTES
    rm -f "$work/records"
    mpirun "${MPI_FLAGS[@]}" -np "$np" ./dptrain bench comm --out "$work/records" -b "$1" -e "$1" --inplace out \
        --check 0 --budget "$budget" --precision 0.0001 >"$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
    sed -n 's/.*"p50":\([0-9.e-]*\).*/\1/p' "$work/records"
}
by_loop() { # BYTES
    mpirun "${MPI_FLAGS[@]}" -np "$np" build/scripts/bench/bare_loop "$1" "$budget"
}

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
for ((i = 0; i < pairs; i++)); do
    for bytes in 8 1024 65536 1048576 16777216; do
        # In the order A B, B A, so that a drift of the machine meets both alike.
        if ((i % 2)); then
            bench=$(by_bench "$bytes") && loop=$(by_loop "$bytes")
        else
            loop=$(by_loop "$bytes") && bench=$(by_bench "$bytes")
        fi || die 4 "the benchmark failed"
        echo "$bytes $bench $loop" >>"$work/pairs"
    done
done

# stdin: numbers; prints the quantile by linear interpolation.
quantile() { # Q
    sort -g | awk -v q="$1" '{ v[NR] = $1 } END { h = (NR - 1) * q + 1; i = int(h)
        printf "%.6g", i < NR ? v[i] + (h - i) * (v[i + 1] - v[i]) : v[NR] }'
}
of_size() { # BYTES EXPRESSION
    awk -v bytes="$1" "\$1 == bytes { printf \"%.9g\\n\", $2 }" "$work/pairs"
}
missed=0 table=''
# shellcheck disable=SC2016 # these are awk's fields
for bytes in 8 1024 65536 1048576 16777216; do
    ratio=$(of_size "$bytes" '$2 / $3' | quantile 0.5)
    table+=$(printf '| %s | %.2f µs | %.2f µs | **%.3f** | %.3f to %.3f |' "$bytes" \
        "$(of_size "$bytes" '1e6 * $2' | quantile 0.5)" "$(of_size "$bytes" '1e6 * $3' | quantile 0.5)" "$ratio" \
        "$(of_size "$bytes" '$2 / $3' | quantile 0.25)" "$(of_size "$bytes" '$2 / $3' | quantile 0.75)")$'\n'
    awk -v r="$ratio" 'BEGIN { exit r > 1.02 }' || missed=1
done

cat <<EOT
# \`dptrain bench comm\` against a bare loop

| bytes | bench comm | bare loop | ratio | middle half |
|---|---|---|---|---|
$table
- MPI_Allreduce, MPI_FLOAT, MPI_SUM, out of place. bench comm: \`--check 0 --inplace out --budget $budget\`, watchdog and
  protocol included. Bare loop: \`scripts/bench/bare_loop.c\`, the same calls between two readings of the clock. Both ask
  MPI for MPI_THREAD_FUNNELED, take samples of the slowest rank's mean time per call, of 20 µs or more each, with a barrier
  before each 50 ms of them, and give the median.
- $pairs pairs, each of two programs started one after the other, in the order loop bench, bench loop, …; times are
  medians over the pairs, ratio is the median of bench comm / bare loop, the middle half its quartiles. Bar: ≤ 1.02.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
[[ $missed -eq 0 || $quick == yes ]] || die 1 "a median is more than 2 % above the bare loop's"
