#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# NCCL errors: all end with code 5 and a message. NCCL benchmarks: `bench comm`. Both on the emulated device of tests/emu
# (`make emu-tests`).
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # jq's names; subshells, on purpose; common.bash

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

setup() {
    common_setup
    program=$root/build/emu/mpi/test_nccl
    [[ -x $program ]] || skip "build/emu/mpi/test_nccl is not built (make emu-tests; it needs CUDA's headers)"
    export DPTRAIN_EMU_GPUS=3
    mpi_flags 3
}

# Sums forever with a deadline of 10 s, on 3 ranks.
sums() { # MODE
    run timeout 60 mpirun "${MPI_FLAGS[@]}" -np 3 "$program" cuda "$1"
    echo "$output"
}

@test "an NCCL error ends the job with code 5, and advice" {
    DPTRAIN_EMU_NCCL_ASYNC_ERROR=1:5 sums sums
    [ "$status" -eq 5 ]
    grep -q 'NCCL lost a peer or its network during "gradient allreduce"' <<<"$output"
    grep -q 'restart from the last checkpoint (rank [0-9] on ' <<<"$output"
    [ "$(grep -c 'NCCL lost a peer' <<<"$output")" -eq 1 ]
}

@test "the same in a recorded step, without ncclCommAbort, which would wait for the recording" {
    DPTRAIN_EMU_NCCL_ASYNC_ERROR=1:5 sums sums-recorded
    [ "$status" -eq 5 ]
    [ "$(grep -c 'NCCL lost a peer' <<<"$output")" -eq 1 ]
    [[ $output != *ncclCommAbort* ]]
}

@test "a rank that does not join NCCL ends the job with code 5 and the names of the hosts" {
    DPTRAIN_EMU_NCCL_INIT_HANG=1 sums sums
    [ "$status" -eq 5 ]
    grep -q "did not come up in 10 s on any of the ranks 0 to 2, on $(hostname | cut -d . -f 1)" <<<"$output"
    grep -q NCCL_SOCKET_IFNAME <<<"$output"
}

@test "a rank that does not join an allreduce ends the job with code 5 and its name" {
    sums stall
    [ "$status" -eq 5 ]
    grep -q 'timed out after 10 s in "gradient allreduce" (the GPU.s collective' <<<"$output"
    grep -q 'rank 2 on .* did not arrive; it was last in "something else"' <<<"$output"
}

@test "the same in a recorded step" {
    sums stall-recorded
    [ "$status" -eq 5 ]
    grep -q 'timed out after 10 s in "gradient allreduce" (in a recorded step)' <<<"$output"
    grep -q 'rank 2 on .* is elsewhere; it was last in "something else"' <<<"$output"
}

# bench_nccl RANKS OPTIONS...: a point takes some hundredths of a second.
bench_nccl() {
    dptrain=$root/build/emu/dptrain
    records=$BATS_TEST_TMPDIR/records
    run --separate-stderr on_ranks "$1" bench comm --device cuda --out "$records" --quick --budget 0.01 "${@:2}"
    echo "$output"
    echo "$stderr"
}

recorded() { # JQ's words, of all points
    jq -e -c 'select(.record == "bench")' "$records" | jq -e -s "$@"
}

@test "bench comm: every collective and type is correct between three GPUs, recorded as NCCL's" {
    bench_nccl 3 --comm nccl --test all -d float,half,bfloat16,int64 -b 1K -e 1K
    [ "$status" -eq 0 ]
    [ "$(grep -c '# Out of bounds values : 0 OK' <<<"$output")" -eq 12 ]
    [[ "$output" == *"# all_reduce, nccl, NCCL 2."*": 3 ranks on 1 host"* ]]
    # Seven collectives in and out of place, four out of place only, and three pairs; hypercube needs 2 or 4 ranks.
    [[ "$output" == *"# hypercube: skipped, 3 ranks"* ]]
    recorded 'length == 4 * (7 * 2 + 4 + 3) and all(.[]; .metrics.wrong == 0 and .key.communicator == "nccl" and
        .key.ranks == 3 and (.metrics.algorithm | startswith("NCCL 2.")))'
    recorded 'all(.[] | select(.test == "alltoall" or .test == "alltoallv" or .test == "sendrecv"); .key.in_place | not)'
    recorded 'all(.[]; ({all_reduce: (4 / 3), all_gather: (2 / 3), reduce_scatter: (2 / 3), alltoall: (2 / 3),
        alltoallv: (2 / 3), gather: (2 / 3), scatter: (2 / 3)}[.test]
        // 1) as $factor | (.metrics.busbw_gbs / .metrics.algbw_gbs / $factor - 1) | fabs < 1e-6)'
}

@test "bench comm: a flipped bit is detected after every NCCL collective" {
    bench_nccl 2 --test all -d half -b 4K -e 4K -r 1 --inject 1:17
    [ "$status" -eq 1 ]
    # The root's input is its result, so all of them have a wrong element.
    [ "$(grep -c '# wrong data: .* half; rank 1 on .*: element 17 of .* instead of ' <<<"$output")" -eq 21 ]
    recorded 'length == 21 and all(.[]; .metrics.wrong == 1)'
}

@test "bench comm: gather, scatter, alltoallv and hypercube between four GPUs, from another root" {
    DPTRAIN_EMU_GPUS=4 bench_nccl 4 --test gather,scatter,alltoallv,hypercube -d float,int8 -b 4K -e 4K -r 3
    [ "$status" -eq 0 ]
    recorded 'length == 2 * (2 + 2 + 1 + 2) and all(.[]; .metrics.wrong == 0 and .key.communicator == "nccl")'
    # nccl-tests counts three pieces of four for hypercube, and of an alltoallv what a rank sends.
    recorded 'all(.[]; (.metrics.algbw_gbs * .p50 * 1e9 / .key.bytes / ({hypercube: 0.75}[.test] // 1) - 1) | fabs < 1e-6)'
    recorded '[.[] | select(.test == "alltoallv") | .key.bytes] == [672 + 1360 + 2048, 672 + 1360 + 2048]'
}

@test "bench comm: -J names GPUs and NCCL's version as nccl-tests does" {
    cd "$BATS_TEST_TMPDIR"
    bench_nccl 2 --comm nccl -b 1K -e 1K -J x.json
    [ "$status" -eq 0 ]
    jq -e '.nccl_version > 20000 and .config.ngpus == 1 and .config.blocking_collectives == "false"
        and (.config.devices | map(.device) == [0, 1] and all(.[]; .device_hex | test("^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}$")))' x.json
}

@test "bench comm: NCCL next to MPI, and operations that one of them lacks" {
    bench_nccl 2 --communicator nccl,mpi -b 1K -e 1K -o max
    [ "$status" -eq 0 ]
    recorded '[.[].key.communicator] == ["nccl", "nccl", "mpi", "mpi"] and all(.[]; .metrics.wrong == 0)'
    bench_nccl 2 --communicator nccl,host -d half
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--datatype half: the host communicator supports only"* ]]
    bench_nccl 2 --test alltoall --inplace in
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"NCCL supports alltoall only out of place"* ]]
    bench_nccl 2 --comm mpi --communicator nccl
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--communicator nccl needs GPUs"*"--comm nccl"* ]]
}

@test "bench comm: averages; of floats on three GPUs they are not checked, because NCCL rounds" {
    bench_nccl 2 --communicator nccl,mpi -b 1K -e 1K -o avg -d half,int32,double
    [ "$status" -eq 0 ]
    recorded 'length == 12 and all(.[]; .metrics.wrong == 0 and .key.redop == "avg")'
    [[ "$output" =~ "#  Rank  1 Group  0 Pid "\ *[0-9]+" on "[^$'\n']*" device  1 ["[0-9a-f:.]+"] " ]]
    rm "$records"
    bench_nccl 3 --comm nccl -b 1K -e 1K -o avg -d float,int32
    [ "$status" -eq 0 ]
    [[ "$output" == *"# float, avg is not checked: NCCL multiplies by 1/3 first, which rounds"* ]]
    recorded '[.[] | select(.key.datatype == "int32") | .metrics.wrong] == [0, 0]'
    recorded '[.[] | select(.key.datatype == "float") | .metrics.wrong] == [null, null]'
}

@test "bench comm: an NCCL error ends the job with code 5 and the collective's name" {
    DPTRAIN_EMU_NCCL_ASYNC_ERROR=1:5 bench_nccl 3 --test all_gather -b 1K -e 1K
    [ "$status" -eq 5 ]
    [[ "$stderr" == *'NCCL lost a peer or its network during "all_gather"'* ]]
}

@test "bench comm: a rank that is stuck in a call still reports that NCCL lost a peer" {
    DPTRAIN_EMU_NCCL_CALL_HANG=0 DPTRAIN_EMU_NCCL_ASYNC_ERROR=1:1 bench_nccl 2 --test all_gather -b 1K -e 1K
    [ "$status" -eq 5 ]
    [[ "$stderr" == *'NCCL lost a peer or its network during "all_gather"'*"(rank 0 on "* ]]
}

@test "nccl_bw.sh measures NCCL if nvidia-smi reports GPUs, one rank per GPU" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\nprintf "GPU %%d: emulated\\n" 0 1 2\n' >"$BATS_TEST_TMPDIR/bin/nvidia-smi"
    chmod +x "$BATS_TEST_TMPDIR/bin/nvidia-smi"
    export DPTRAIN_BIN=$root/build/emu/dptrain PATH=$BATS_TEST_TMPDIR/bin:$PATH
    run --separate-stderr "$root/scripts/nccl_bw.sh" -b 1K -e 1K -d half --out "$BATS_TEST_TMPDIR/records" -- --quick \
        --budget 0.02
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"3 ranks, one per GPU"* ]]
    [[ "$output" == *"# all_reduce, nccl, NCCL 2."*": 3 ranks on 1 host"* ]]
    run --separate-stderr "$root/scripts/nccl_bw.sh" -np 2 -b 1K -e 1K --out "$BATS_TEST_TMPDIR/records" -- --quick \
        --budget 0.02 --device cpu
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"# all_reduce, mpi, Open MPI"* ]]
}
