#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Proves that `dptrain bench comm` measures MPI and not itself, and prints results/bench_comm.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/comm.sh [options]

Measures, and prints as a Markdown page: MPI_Allreduce of 8 B to 16 MB as `dptrain bench comm` does it and in a bare
loop of the same calls, in turn (scripts/bench/bare_loop.c). Exit code 1: a median is more than 2 % above the bare loop's.

  -np N         ranks, bound to cores [2]
  --pairs N     pairs of each comparison [101]
  --quick       3 pairs, only to see that it works; the exit code is then 0
  -h, --help    this text
EOT
}

command="scripts/bench/comm.sh${*:+ $*}"
np=2 pairs=101 quick=no
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

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
status=0
table=$(mpirun "${MPI_FLAGS[@]}" -np "$np" build/scripts/bench/bare_loop "$pairs") || status=$?
[[ $(wc -l <<<"$table") -eq 5 ]] || die 4 "the benchmark failed"

cat <<EOT
# \`dptrain bench comm\` against a bare loop

| bytes | bench comm | bare loop | ratio | middle half |
|---|---|---|---|---|
$table

- MPI_Allreduce, MPI_FLOAT, MPI_SUM, out of place. bench comm: \`collective_run\` under \`bench_measure\`, watchdog and
  protocol included. Bare loop: the same calls between two readings of the clock, as many of them. Both in the same
  processes, on the same buffers; times are those of the slowest rank.
- $pairs pairs of about 50 ms each, in the order bench loop, loop bench, …; times are medians over the pairs, ratio is
  the median of bench comm / bare loop, the middle half its quartiles. Bar: ≤ 1.02.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
[[ $status -eq 0 || $quick == yes ]] || die 1 "a median is more than 2 % above the bare loop's"
