# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# Allocations and threads that fail, and limits of the system.
kind memory_own 3
kind memory_any 2
kind memory_thread 1
kind limit_file 2
kind limit_memory 2
kind limit_files 1

draw_memory_own() {
    echo "np=2 rank=$(pick 0 1) call=malloc own=1 at=$(between 0 99) act=fail:ENOMEM times=$(pick 1 0) via=$(pick run run mpirun)"
}
draw_memory_any() {
    echo "np=2 rank=$(pick 0 1) call=$(pick malloc mmap) min=$(pick 4096 65536 1000000) at=$(between 0 60) act=fail:ENOMEM times=1 via=run"
}
draw_memory_thread() { echo "np=2 rank=$(pick 0 1) call=pthread_create at=$(between 0 99) act=fail:EAGAIN times=$(pick 1 0) via=run"; }

run_memory_own() {
    codes="4 5" words='memory|allocat|[rR]ank '
    [[ ${P[via]} != mpirun ]] || codes="4 5 1"
    job_with_shim
    # What can be done without may be left out.
    [[ $code -ne 0 ]] || { codes=0 words=''; }
    judge
}

# Libraries may crash where memory ends; the job ends all the same, and nothing is lost.
run_memory_any() {
    codes="0 4 5 1"
    job_with_shim
    judge
}

run_memory_thread() {
    codes="0 4 5"
    job_with_shim
    judge
}

limit_run() { # OPTIONS OF ulimit
    env_of_job=("DPTRAIN_FAULT_LIMIT=${P[rank]} $1")
    job_start out
    struck_now "limit $1"
    job_wait
    judge
}

# A checkpoint has 3.4 MB, in units of 1 KiB.
draw_limit_file() { echo "np=2 rank=$(pick 0 0 1) limit=$(pick 0 1 16 1000 3000) via=run"; }
run_limit_file() {
    codes="4 5" words='File too large|SIGXFSZ|limit|size'
    # Rank 1 writes no files of the run, unless the limit is so small that MPI cannot start.
    [[ ${P[rank]} == 0 ]] || { codes="0 1 4 5" words=''; }
    limit_run "-f ${P[limit]}"
}

# The address space, in KiB: too little for MPI, for oneDNN, for the model.
draw_limit_memory() { echo "np=2 rank=$(pick 0 1) limit=$(pick 200000 400000 500000 600000 700000 800000 900000 1000000) via=run"; }
run_limit_memory() {
    codes="0 1 4 5"
    limit_run "-v ${P[limit]}"
}

draw_limit_files() { echo "np=2 rank=$(pick 0 1) limit=$(pick 8 16 20 24 28 32 40) via=run"; }
run_limit_files() {
    codes="0 1 4 5"
    limit_run "-n ${P[limit]}"
}
