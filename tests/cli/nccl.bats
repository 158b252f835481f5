#!/usr/bin/env bats
# NCCL in trouble: every end has code 5 and a message, on the emulated device of tests/emu (`make emu-tests`).
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    program=$root/build/emu/mpi/test_nccl
    [[ -x $program ]] || skip "build/emu/mpi/test_nccl is not built (make emu-tests; it needs CUDA's headers)"
    export DPTRAIN_EMU_GPUS=3
    mpi_flags 3
}

# Sums for ever with a deadline of 2 s, on 3 ranks.
sums() { # MODE
    run timeout 60 mpirun "${MPI_FLAGS[@]}" -np 3 "$program" cuda "$1"
    echo "$output"
}

@test "an error of NCCL's own ends the job with code 5, and what to do" {
    DPTRAIN_EMU_NCCL_ASYNC_ERROR=1:5 sums sums
    [ "$status" -eq 5 ]
    grep -q 'NCCL lost a peer or its network during "gradient allreduce"' <<<"$output"
    grep -q 'start again from the last checkpoint (rank [0-9] on ' <<<"$output"
    [ "$(grep -c 'NCCL lost a peer' <<<"$output")" -eq 1 ]
}

@test "a rank that does not come to NCCL ends the job with code 5 and the names of the hosts" {
    DPTRAIN_EMU_NCCL_INIT_HANG=1 sums sums
    [ "$status" -eq 5 ]
    grep -q "did not come up in 2 s on any of the ranks 0 to 2, on $(hostname | cut -d . -f 1)" <<<"$output"
    grep -q NCCL_SOCKET_IFNAME <<<"$output"
}

@test "a sum that a rank does not come to ends the job with code 5 and its name" {
    sums stall
    [ "$status" -eq 5 ]
    grep -q 'timed out after 2 s in "gradient allreduce" (the GPU.s collective' <<<"$output"
    grep -q 'rank 2 on .* did not arrive; it was last in "something else"' <<<"$output"
}

@test "also in a recorded step" {
    sums stall-recorded
    [ "$status" -eq 5 ]
    grep -q 'timed out after 2 s in "gradient allreduce" (in a recorded step)' <<<"$output"
    grep -q 'rank 2 on .* is elsewhere; it was last in "something else"' <<<"$output"
}
