#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the gradient allreduce within a host, and prints results/allreduce.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/allreduce.sh [options]

Compares the allreduce in shared memory with MPI_Allreduce on the ranks of this machine, from 4 B to 64 MB, with an
in-place add as the lower bound, and prints a Markdown page.

  -np N         number of ranks, bound to cores [2]
  --pairs N     pairs per comparison [31]
  -h, --help    show this help
EOT
}

command="scripts/bench/allreduce.sh${*:+ $*}"
np=2 pairs=31
while [[ $# -gt 0 ]]; do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 2; np=$((10#$2)); shift 2 ;;
    --pairs) need_value "$@"; whole_number "$1" "$2" 15; pairs=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/allreduce >&2 || die 4 "the build failed"
mpi_allow_root
mpi_flags "$np"

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
table=$(mpirun "${MPI_FLAGS[@]}" -np "$np" build/scripts/bench/allreduce "$pairs") || die 4 "the benchmark failed"

cat <<EOT
# Speed of the allreduce within a host

$table

- host: \`comm_buffer_allreduce\` in shared memory (\`--allreduce host\`), including the watchdog. MPI: \`MPI_Allreduce\`,
  MPI_IN_PLACE, F32, MPI_SUM, on the same buffer. Times are medians of the slowest rank's mean time per call: up to 1 KB
  of consecutive calls, from 4 KB on of calls that each follow a barrier, before which every rank writes new values into
  its part, as a backward pass does. $pairs samples of each, in the order host MPI add, add MPI host, …; ratio is the
  median of MPI / host, with quartiles. Targets: ≥ 3.5 from 64 KB to 64 MB (stretch: 5), ≥ 1 up to 1 KB (stretch: 1.3).
- an add: \`a[i] += b[i]\` over as many elements as a rank's slice, in the same shared memory, on all ranks at once. It
  moves 3 values per element; a rank of the allreduce reads and writes the element in the parts of all ranks, which makes
  $((2 * np)). The last ratio is that of the byte rates, host / add. Target: ≥ 0.9 from 4 MB on. Within caches the two
  differ: the add finds its values in its own cache, the allreduce half of them in another core's.

$(machine_table "$load" "$command" ranks "$np: mpirun ${MPI_FLAGS[*]}")
EOT
