# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# How dptrain and its peers are started when they are timed in turn: sourced, behind lib.sh.

# Freed pages stay with the process: no step has to have pages zeroed again. Blocks beyond the threshold, which glibc
# lets nobody raise above 32 MB, stay too where none are mapped.
# shellcheck disable=SC2034 # the caller's
keep_pages=(env MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TOP_PAD_=67108864
    MALLOC_MMAP_MAX_=0)

# One core for each rank, also where there are more.
# shellcheck disable=SC2154 # work: the caller's, by make_work
start() { # NP PROGRAM…
    local np=$1
    shift
    mpi_flags "$np"
    # OMP_NUM_THREADS not in the caller: nproc, which mpi_flags asks, listens to it.
    mpirun "${MPI_FLAGS[@]/#slot:PE=*/slot:PE=1}" -np "$np" env OMP_NUM_THREADS=1 "$@" >"$work/log" 2>&1 </dev/null ||
        { cat "$work/log" >&2; die 4 "this run failed: $*"; }
}
