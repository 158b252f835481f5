#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --check-replicas: a rank whose weights change is found and named before a checkpoint of them is written. The gradients that
# one rank receives are altered by tests/attack's shim.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    make_tiny 64 10
    export shim=$BATS_FILE_TMPDIR/shim.so
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o "$shim" "$BATS_TEST_DIRNAME"/../attack/shim*.c -ldl -pthread
}

small=(train --device cpu --threads 1 --model mlp --algorithms fixed --batch 8 --allreduce mpi --log-every 1000000)

# Trains for 12 steps, with a checkpoint after each fourth. Rank 1 receives other gradients in step 5, counted from 1.
altered() { # RANKS BYTE ARGUMENTS...
    mpi_flags "$1"
    run env DPTRAIN_FAULT="rank=1 call=MPI_Allreduce min=10000 n=5 act=fill:$2" DPTRAIN_FAULT_LOG="$BATS_TEST_TMPDIR/log" \
        mpirun "${MPI_FLAGS[@]}" -x LD_PRELOAD="$shim" -np "$1" "$dptrain" "${small[@]}" --data "$tiny" --steps 12 \
        --checkpoint-every 4 --keep 9 --out "$out" "${@:3}"
    echo "$output"
    grep -q '^struck .* rank=1 ' "$BATS_TEST_TMPDIR/log"
}

field() { # JQ FILTER of the last replicas record
    jq -r "select(.record == \"replicas\") | $1" "$out/metrics.jsonl" | tail -n 1
}

@test "three ranks: the one that differs is named, with its tensors; code 5, and no checkpoint of it" {
    altered 3 0 --check-replicas 2
    [ "$status" -eq 5 ]
    [[ $output == *"differ between ranks after step 6: rank 1 on $(uname -n); the other 2 ranks are equal; all were equal after step 4. "* ]]
    [[ $output == *"warning: rank 1 on $(uname -n): "*" of "*" tensors differ: "*"velocity of "* ]]
    [ "$(cd "$out" && echo ckpt-*)" = ckpt-000000000004.h5 ]
    [ "$(field '"\(.step) \(.equal) \(.every) \([.ranks[].rank])"')" = '6 false 2 [1]' ]
    [ "$(field '.ranks[0].tensors | length > 0')" = true ]
    check_records "$out/metrics.jsonl"
    "$dptrain" report --strict "$out/metrics.jsonl" | grep -q "^  replicas     differ after step 6: rank 1 on $(uname -n)$"
    run on_ranks 3 train --out "$out" --resume auto -q --check-replicas auto
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(field '"\(.step) \(.equal) \(.ranks)"')" = '12 true []' ]
}

@test "two ranks: both are named, before the checkpoint that is due" {
    altered 2 0 --check-replicas 1000
    [ "$status" -eq 5 ]
    [[ $output == *"after step 8: rank 0 on "*", rank 1 on "*"; no majority of the 2 ranks is equal"*"all were equal after step 4. "* ]]
    [ "$(cd "$out" && echo ckpt-*)" = ckpt-000000000004.h5 ]
}

@test "rank 0's weights change between the comparison and the copy for the checkpoint: it is not written" {
    mpi_flags 2
    run env DPTRAIN_FAULT="rank=0 call=compared n=2 act=flip" DPTRAIN_FAULT_LOG="$BATS_TEST_TMPDIR/log" mpirun "${MPI_FLAGS[@]}" \
        -x LD_PRELOAD="$shim" -np 2 "$dptrain" "${small[@]}" --data "$tiny" --steps 12 --checkpoint-every 4 --check-replicas 4 \
        --keep 9 --out "$out"
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"rank 0 on $(uname -n): weights or optimizer state changed while the checkpoint of step 4 was copied"* ]]
    [ -z "$(find "$out" -name 'ckpt-*')" ]
}

@test "before an evaluation" {
    altered 2 0 --check-replicas 1000 --eval-every 6s
    [ "$status" -eq 5 ]
    [[ $output == *"after step 6: "*"all were equal after step 4. "* ]]
    [ "$(jq -s 'map(select(.record == "evaluation")) | length' "$out/metrics.jsonl")" -eq 0 ]
}

@test "NaN in one rank's weights: code 5 and this rank, instead of advice on the learning rate" {
    altered 2 255 --check-replicas 1000
    [ "$status" -eq 5 ]
    [[ $output == *"after step 5: rank 1 on $(uname -n); the others hold no NaN or Inf; "* ]]
    [[ $output != *--lr* ]]
}

@test "off: nothing is found; auto chooses an interval, and equal ranks stay equal" {
    altered 2 0 --check-replicas off
    [ "$status" -eq 0 ]
    [ -z "$(field .step)" ]
    run on_ranks 2 train --device cpu --threads 1 --model mnist-cnn-bn --algorithms fixed --batch 8 --data "$tiny" --steps 14 \
        --optimizer adamw --ema 0.9 --clip-norm 1 --eval-every 4s --no-checkpoint-async --checkpoint-every 3 --out "$out" --overwrite
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(field '.equal and .every >= 1 and .n_checks >= 10')" = true ]
    for text in 0 -1 1x often ''; do
        run "$dptrain" "${small[@]}" --data "$tiny" --check-replicas "$text" --out "$out-none"
        [ "$status" -eq 2 ]
        [[ $output == *"invalid --check-replicas '$text': expected auto, off, or steps such as 500"* ]]
    done
}
