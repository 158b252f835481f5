#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the overhead of `dptrain bench comm`, and prints results/bench_comm.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/comm.sh [options]

Compares MPI_Allreduce of 8 B to 16 MB as measured by `dptrain bench comm` with a bare MPI program of the same thread level
(scripts/bench/bare_loop.c), each in processes of its own, in alternating pairs, and prints a Markdown page. Exit code 1: a
median ratio is above 1.1.

  -np N         number of ranks, bound to cores [2]
  --pairs N     pairs per comparison [21]
  --quick       3 pairs, as a smoke test with exit code 0
  -h, --help    show this help
EOT
}

command="scripts/bench/comm.sh${*:+ $*}"
np=2 pairs=21 quick=no
while [[ $# -gt 0 ]]; do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 2; np=$((10#$2)); shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 15; pairs=$((10#$2)); shift 2 ;;
    --quick) quick=yes pairs=3; shift ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/bare_loop >&2 || die 4 "the build failed"
mpi_allow_root
mpi_flags "$np"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
load=$(cut -d ' ' -f 1-3 /proc/loadavg)

# bench comm: sets p50 and min in us, and calls per sample.
by_bench() { # BYTES
    rm -f "$folder/records"
    mpirun "${MPI_FLAGS[@]}" -np "$np" ./dptrain bench comm -b "$1" -e "$1" --inplace out --budget 0.3 --out "$folder/records" \
        >"$folder/said" 2>&1 || { cat "$folder/said" >&2; die 4 "bench comm failed"; }
    local record
    record=$(grep '"record":"bench",' "$folder/records")
    field() { sed -E "s/.*\"$1\":([-+.e0-9]+).*/\1/" <<<"$record"; }
    p50=$(field p50) min=$(field min) calls=$(field per_sample)
}

by_loop() { # LEVEL BYTES CALLS
    read -r loop_p50 loop_min < <(mpirun "${MPI_FLAGS[@]}" -np "$np" build/scripts/bench/bare_loop "$1" "$2" "$3") ||
        die 4 "bare_loop failed"
}

# In the order A B, B A: a drift of the machine meets both alike. A line per pair: both medians, both best samples.
pair_up() { # LEVEL BYTES
    local i
    by_bench "$2" # the calls per sample, for the first pair
    for ((i = 0; i < pairs; i++)); do
        ((i % 2 == 0)) || by_loop "$1" "$2" "$calls"
        by_bench "$2"
        ((i % 2 == 1)) || by_loop "$1" "$2" "$calls"
        echo "$p50 $loop_p50 $min $loop_min"
    done
}

median_of() { # AWK-EXPRESSION, of $1 .. $4 in us
    awk "{ \$1 *= 1e6; \$3 *= 1e6; printf \"%.6f\\n\", $1 }" "$folder/pairs" | sort -g | awk '{ x[NR] = $1 }
        END { printf "%.3f %.3f %.3f\n", x[int((NR + 1) / 2)], x[int((NR + 3) / 4)], x[int((3 * NR + 1) / 4)] }'
}

table='' status=0
for row in funneled:8 single:8 funneled:1024 funneled:65536 funneled:1048576 funneled:16777216; do
    pair_up "${row%:*}" "${row#*:}" >"$folder/pairs"
    read -r ratio low high < <(median_of '$1 / $2')
    read -r ours _ < <(median_of '$1')
    read -r loop _ < <(median_of '$2')
    read -r best _ < <(median_of '$3 / $4')
    table+="| ${row#*:} | ${row%:*} | $ours µs | $loop µs | **$ratio** | $low to $high | $best |"$'\n'
    [[ $row == single:* || $(awk "BEGIN { print ($ratio <= 1.1) }") == 1 ]] || status=1
done

cat <<EOT
# \`dptrain bench comm\` against a bare MPI program

| bytes | thread level of the bare program | bench comm | bare program | ratio | middle half | ratio of the best samples |
|---|---|---|---|---|---|---|
$table
- MPI_Allreduce, MPI_FLOAT, MPI_SUM, out of place, of the same library with the same options of mpirun, without MCA parameters.
  bench comm: \`dptrain bench comm -b N -e N --inplace out --budget 0.3\`, its median. Bare program: scripts/bench/bare_loop.c,
  started alone, as many calls per sample between two readings of the clock. Times are those of the slowest rank.
- dptrain asks MPI for MPI_THREAD_FUNNELED, because its watchdog is a thread. Open MPI takes locks at that level, and none at
  MPI_THREAD_SINGLE; benchmarks that call MPI_Init show the latter.
- $pairs pairs in the order bench bare, bare bench, …; times are medians over the pairs, ratio is the median of bench comm / bare
  program, with quartiles. Target: ≤ 1.1 at the same thread level.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
[[ $status -eq 0 || $quick == yes ]] || die 1 "a median is more than 10 % above the bare program's"
