#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --shard-optimizer: the same weights and the same checkpoint as without it, on any number of ranks and hosts; what it refuses.
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 150 140; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --algorithms fixed --threads 1 --epochs "${epochs:-2}" "${@:2}"
}

# Norms of tensors that slices cut, a moving average that is evaluated, accumulation, a ragged last batch.
adamw=(--batch 60 --optimizer adamw --lr 0.002 --weight-decay 0.01 --clip-norm 0.5 --ema 0.9 --accumulate 2)
lars=(--batch 60 --optimizer lars --lr 0.5 --weight-decay 1e-4 --clip-norm 1 --ema 0.9)

last() { echo "$1/ckpt-000000000006.h5"; }

# Writes the same bytes sharded and not.
same_run() { # RANKS ARGUMENTS...
    rm -rf "$out" "$out-sharded"
    train "$1" "${@:2}" --out "$out"
    train "$1" "${@:2}" --shard-optimizer --out "$out-sharded"
    cmp "$(last "$out")" "$(last "$out-sharded")"
    diff <(curve "$out") <(curve "$out-sharded")
    check_records "$out-sharded/metrics.jsonl"
}

curve() { # FOLDER
    jq -c 'select(.record == "step" or .record == "epoch") | [.step, .loss, .gradient_norm, .val_loss]' "$1/metrics.jsonl"
}

@test "a checkpoint has the same bytes as an unsharded run's" {
    same_run 2 "${adamw[@]}" --model mnist-cnn-bn
    same_run 2 "${lars[@]}"
    same_run 2 "${adamw[@]}" --allreduce mpi
    same_run 2 "${adamw[@]}" --model mlp --freeze fc2 --no-checkpoint-async --checkpoint-every 2
}

@test "so it has with --reproducible, on 1, 2 and 4 ranks, and on hosts with one rank and more" {
    only_slow "the test above compares most of it"
    same_run 4 "${adamw[@]}" --model mnist-cnn-bn --reproducible 4
    cp -r "$out-sharded" "$out-four"
    same_run 2 "${adamw[@]}" --model mnist-cnn-bn --reproducible 4
    h5diff "$(last "$out-four")" "$(last "$out-sharded")" /optimizer /optimizer
    h5diff "$(last "$out-four")" "$(last "$out-sharded")" /params /params
    same_run 3 "${adamw[@]}" --ranks-per-host 2 --reproducible 3
    [[ -n ${DPTRAIN_TEST_SLOW-} ]] || return 0
    same_run 3 "${adamw[@]}"
    same_run 2 "${adamw[@]}" --ranks-per-host 1
    same_run 4 "${adamw[@]}" --ranks-per-host 2 --reproducible 4
}

@test "a run resumes sharded, unsharded, on more ranks and on one, bit for bit" {
    train 4 "${adamw[@]}" --reproducible 4 --checkpoint-every 2 --keep 9 --out "$out"
    for how in "1 --shard-optimizer" "2 --shard-optimizer"; do
        rm -rf "$out-again"
        mkdir "$out-again"
        cp "$out/ckpt-000000000004.h5" "$out-again"
        # shellcheck disable=SC2086 # ranks and an option
        train ${how%% *} ${how#* } --resume auto --out "$out-again"
        for part in /params /optimizer; do h5diff "$(last "$out")" "$(last "$out-again")" $part $part; done
    done
    train 2 "${adamw[@]}" --reproducible 4 --checkpoint-every 4 --keep 9 --shard-optimizer --out "$out-sharded"
    rm "$(last "$out-sharded")"
    train 4 --resume auto --out "$out-sharded"
    for part in /params /optimizer; do h5diff "$(last "$out")" "$(last "$out-sharded")" $part $part; done
}

@test "each rank holds its part, and says so" {
    epochs=5
    run train 2 "${adamw[@]}" --shard-optimizer --profile --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"shards "*" of optimizer state per rank, of "* ]]
    [[ $output == *reduce-scatter*optimizer*allgather* ]]
    jq -se 'map(select(.record == "run"))[0] | .topology.optimizer_bytes as $part
        | (.n_parameters * 4 * 3) as $whole | $part >= $whole / 2 and $part <= $whole / 2 * 1.01' "$out/metrics.jsonl"
    jq -se 'map(select(.record == "step")) | length == 15 and all(.allgather_sec <= .exposed_comm_sec)' "$out/metrics.jsonl"
    jq -se 'map(select(.record == "profile")) | all(.allgather_sec > 0)' "$out/metrics.jsonl"
    jq -se 'map(select(.record == "replicas" and .weights_only)) | length > 0' "$out/metrics.jsonl"
}

@test "dptrain replay computes the steps of a sharded run again" {
    train 2 "${adamw[@]}" --reproducible 2 --check-replicas 1 --shard-optimizer --out "$out"
    run "$dptrain" replay "$out"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "one rank, and more ranks than a model has parameters to share out" {
    run train 1 "${adamw[@]}" --shard-optimizer --out "$out"
    [ "$status" -eq 0 ]
    [[ $output == *"shards "*"one rank"* ]]
    # 1,290 parameters, in pieces of 256.
    run train 8 --shard-optimizer --model mlp --freeze fc1,fc2 --batch 60 --out "$out-small"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *--shard-optimizer*1,290*8\ ranks* ]]
    train 4 --shard-optimizer --model mlp --freeze fc1,fc2 --batch 60 --out "$out-four"
}

@test "bench step measures a sharded step" {
    run on_ranks 2 bench step --shard-optimizer --no-step-scaling --step-data "$tiny" --step-batch 16 --budget 0.2 --out "$out.jsonl"
    echo "$output"
    [ "$status" -eq 0 ]
    check_records "$out.jsonl"
    jq -se 'map(select(.key.shard_optimizer)) | length > 0' "$out.jsonl"
}

@test "Ctrl-C says why the step is not saved, and the run goes on from its last checkpoint" {
    mpirun_waits
    mpi_flags 2
    mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" train --data "$tiny" --batch 60 --steps 100000 --checkpoint-every 50 --no-eval \
        --shard-optimizer --out "$out" >"$out.log" 2>&1 &
    for ((i = 0; i < 300; i++)); do
        compgen -G "$out/ckpt-*.h5" >/dev/null && break
        sleep 0.1
    done
    kill -TERM $!
    wait $! || true
    cat "$out.log"
    grep -q "not saved: .*--shard-optimizer" "$out.log"
    "$dptrain" checkpoint verify "$out"/ckpt-*.h5
}
