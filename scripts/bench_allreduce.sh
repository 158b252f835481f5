#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the allreduce of gradients inside a host, and prints results/allreduce.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench_allreduce.sh [options]

Measures, and prints as a Markdown page: the sum of a shared gradient buffer over the ranks of this machine, through
their shared memory and by MPI_Allreduce, from 4 B to 64 MB, and an in-place add as the floor.

  -np N         ranks, bound to cores [2]
  --pairs N     pairs of each comparison [31]
  -h, --help    this text
EOT
}

command="scripts/bench_allreduce.sh${*:+ $*}"
np=2 pairs=31
while [[ $# -gt 0 ]]; do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 2; np=$((10#$2)); shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 15; pairs=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/.."
make -s -j "$(nproc)" dptrain build/scripts/bench/allreduce >&2 || die 4 "the build failed"
mpi_allow_root
mpi_flags "$np"

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
table=$(mpirun "${MPI_FLAGS[@]}" -np "$np" build/scripts/bench/allreduce "$pairs") || die 4 "the benchmark failed"

cat <<EOT
# Speed of the allreduce inside a host

$table

- host: \`comm_buffer_allreduce\` through the memory that the ranks share (\`--allreduce host\`), watchdog included. MPI:
  \`MPI_Allreduce\`, MPI_IN_PLACE, F32, MPI_SUM, on the same buffer. Times are medians of the slowest rank's mean time
  per call: up to 1 KB of calls in a row, from 4 KB up of calls that each follow a barrier, before which every rank has
  written new values into its part, as a backward pass does. $pairs samples of each, in the order host MPI add,
  add MPI host, …; ratio is the median over these of MPI / host, the middle half its quartiles. Bars: 64 KB to 64 MB
  ≥ 3.5 (better: 5), up to 1 KB ≥ 1 (better: 1.3).
- an add: \`a[i] += b[i]\` over as many elements as a rank's slice of the sum has, in the same shared memory, all ranks
  at once. It moves 3 values an element; a rank of the allreduce reads and writes the element in the parts of all
  ranks, which is $((2 * np)). The last ratio is that of bytes moved a second, host / add. Bar: ≥ 0.9 from 4 MB up.
  Within caches the two differ: the add finds its values in its own, the allreduce half of them in another core's.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
