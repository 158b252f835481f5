#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain replay: steps of a run computed again. A bit that changes in the memory of one rank (tests/tools/shim/flip.c) is found,
# and the rank is named, also where all replicas are equal, or there are only two.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    make_tiny 64 10
    export flip=$BATS_FILE_TMPDIR/flip.so
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o "$flip" "$BATS_TEST_DIRNAME"/../tools/shim/flip.c -ldl
}

small=(--device cpu --model mlp --batch 8 --steps 12 --reproducible 4 --checkpoint-every 4 --keep 9 --log-every 1000000)

# Trains with a bit that changes: WHAT RANK N of flip.c, or "" for none.
train() { # RANKS FLIP ARGUMENTS...
    mpi_flags "$1"
    run env FLIP="$2" mpirun "${MPI_FLAGS[@]}" -x LD_PRELOAD="$flip" -x FLIP -np "$1" "$dptrain" train --data "$tiny" \
        "${small[@]}" --out "$out" "${@:3}"
    echo "$output"
}

replay() { # CODE ARGUMENTS...
    run "$dptrain" replay "$out" "${@:2}"
    echo "$output"
    [ "$status" -eq "$1" ]
}

host=$(uname -n)

@test "the bits of a run agree, also on more ranks; the folder is only read" {
    train 2 '' --check-replicas 2
    [ "$status" -eq 0 ]
    [ "$(jq -r 'select(.record == "replicas" and .equal) | .hash | length' "$out/metrics.jsonl" | sort -u)" = 16 ]
    [ "$(jq -s 'map(select(.record == "step") | .gradients | length) == [range(12) | 2]' "$out/metrics.jsonl")" = true ]
    check_records "$out/metrics.jsonl"
    find "$out" -type f -exec sha256sum {} + | sort >"$BATS_TEST_TMPDIR/before"
    chmod -R a-w "$out"
    replay 0
    [[ $output == *"replaying steps 9 to 12 of $out, from $out/ckpt-000000000008.h5, on 1 rank (--reproducible 4)"* ]]
    [[ $output == *"the bits agree: 4 steps in "*" of each rank in 4, "*" of weights and optimizer state, 1 checkpoint"* ]]
    run on_ranks 2 replay "$out" --step 3
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"replaying steps 1 to 4 of $out, from the start of the run, on 2 ranks"* ]]
    chmod -R u+w "$out"
    find "$out" -type f -exec sha256sum {} + | sort | diff "$BATS_TEST_TMPDIR/before" -
    # A checkpoint that is not what the ranks had compared: it is not the start of a replay.
    sed -i '/"record":"replicas","step":4,/s/"hash":"[0-9a-f]\{4\}/"hash":"0000/' "$out/metrics.jsonl"
    replay 1 --step 5
    [[ $output == *"ckpt-000000000004.h5 has other bits than all ranks held when they were compared just before: they changed in the memory of rank 0 on $host"* ]]
}

@test "two ranks whose weights differ: replay says which is wrong, and since which step" {
    train 2 'weights 1 2' --check-replicas 4
    [ "$status" -eq 5 ]
    [[ $output == *"no majority of the 2 ranks is equal"* ]]
    replay 1
    [[ $output == *"the bits differ: rank 1 on $host computed other gradients in step "*"; rank 0 on $host has this machine's bits. "* ]]
    step=$(sed -n 's/.*other gradients in step \([0-9]*\);.*/\1/p' <<<"$output")
    [[ $output == *"Everything was equal up to step $((step - 1)); "* ]]
}

@test "a gradient that changes before the sum: the replicas stay equal, replay names rank and step" {
    train 2 'gradients 1 13' --check-replicas 4
    [ "$status" -eq 0 ]
    replay 0 --step 10
    replay 1 --step 5
    [[ $output == *"rank 1 on $host computed other gradients in step 7; rank 0 on $host has this machine's bits. Everything was equal up to step 6; "* ]]
}

@test "momentum, and running statistics of batch norm: found, with the rank (--slow)" {
    [[ -n ${DPTRAIN_TEST_SLOW-} ]] || skip "takes 5 s of CPU; --slow"
    train 2 'momentum 1 2' --check-replicas 4
    [ "$status" -eq 5 ]
    replay 1
    [[ $output == *"rank 1 on $host "*"rank 0 on $host has this machine's bits. "* ]]
    rm -r "$out"
    small[3]=mnist-cnn-bn
    train 2 'states 0 2' --check-replicas 4
    [ "$status" -eq 0 ]
    replay 1 --step 5
    [[ $output == *"rank 0 on $host held other running statistics of batch norm after step "*"rank 1 on $host has this machine's bits. "* ]]
    rm -r "$out"
    train 2 '' --check-replicas 4
    replay 0
    replay 0 --step 2
}

@test "what cannot be replayed: code 2 and the reason; no record: code 3" {
    train 1 ''
    [ "$status" -eq 0 ]
    DPTRAIN_MAX_ISA=base replay 2
    [[ $output == *"the run computed with oneDNN "*", this machine does with oneDNN "*"sse41"* ]] || [[ $output == *"this machine does with"* ]]
    run on_ranks 3 replay "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"the run was made with --reproducible 4: replay on a number of ranks that divides 4, not 3"* ]]
    replay 2 --threads 2
    [[ $output == *"--threads: a replay takes it from the record of the run; omit it"* ]]
    replay 3 --step 99
    [[ $output == *"has neither a checkpoint nor a comparison of replicas after step 99"* ]]
    sed -i 's/"git":"[^"]*"/"git":"another"/' "$out/metrics.jsonl"
    replay 2
    [[ $output == *"the run was computed by another build of dptrain (git 'another'; this one: '"* ]]
    sed -i 's/"reproducible":4/"reproducible":0/' "$out/metrics.jsonl"
    replay 2
    [[ $output == *"the run was not made with --reproducible V"* ]]
    rm "$out/metrics.jsonl"
    replay 3
    [[ $output == *"$out holds no record of a run"* ]]
    run "$dptrain" replay
    [ "$status" -eq 2 ]
}
