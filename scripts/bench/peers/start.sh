# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Starts dptrain and its peers for comparisons. Sourced after lib.sh.

# Makes glibc keep freed pages, so that no step needs new zeroed pages. MMAP_MAX 0 also keeps blocks above the mmap threshold,
# which glibc limits to 32 MB.
# shellcheck disable=SC2034 # the caller's
keep_pages=(env MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TOP_PAD_=67108864
    MALLOC_MMAP_MAX_=0)

# Runs one rank per core, even if there are more cores.
# shellcheck disable=SC2154 # work: the caller's, by make_work
start() { # NP PROGRAM…
    local np=$1
    shift
    mpi_flags "$np"
    # Set OMP_NUM_THREADS only here, because nproc, which mpi_flags uses, honours it.
    mpirun "${MPI_FLAGS[@]/#slot:PE=*/slot:PE=1}" -np "$np" env OMP_NUM_THREADS=1 "$@" >"$work/log" 2>&1 </dev/null ||
        { cat "$work/log" >&2; die 4 "run failed: $*"; }
}
