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

Compares MPI_Allreduce of 8 B to 16 MB as measured by `dptrain bench comm` with a bare loop of the same calls
(scripts/bench/bare_loop.c), and prints a Markdown page. Exit code 1: a median is more than 2 % above the bare loop's.

  -np N         number of ranks, bound to cores [2]
  --pairs N     pairs per comparison [101]
  --quick       3 pairs, as a smoke test with exit code 0
  -h, --help    show this help
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

- MPI_Allreduce, MPI_FLOAT, MPI_SUM, out of place. bench comm: \`collective_run\` under \`bench_measure\`, including
  watchdog and protocol. Bare loop: the same number of calls between two readings of the clock. Both run in the same
  processes, on the same buffers; times are those of the slowest rank.
- $pairs pairs of about 50 ms each, in the order bench loop, loop bench, …; times are medians over the pairs, ratio is
  the median of bench comm / bare loop, with quartiles. Target: ≤ 1.02.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
[[ $status -eq 0 || $quick == yes ]] || die 1 "a median is more than 2 % above the bare loop's"
