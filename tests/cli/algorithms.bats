#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --algorithms: measured choices are identical on all ranks, kept in the cache and in checkpoints, and recorded.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
}

setup_file() { make_tiny 300 200; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 "${@:2}"
}

lenet=(--model lenet5 --batch 50 --steps 9 --seed 5)

# Named after the first of the fused layers: conv2+relu2+pool2 is conv2.
chosen() {
    jq -c 'select(.record == "run") | .algorithms | with_entries(.key |= split("+")[0])' "$1/metrics.jsonl"
}
from() { jq -r 'select(.record == "run") | .algorithms_from' "$1/metrics.jsonl"; }
cache_file() { echo "$XDG_CACHE_HOME"/dptrain/algorithms-????????????????.txt; }

# The line of LeNet-5's second convolution on 25 samples.
conv2='conv2d float32 n=25 x=12x12x20 k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1 epilogue=relu+pool2x2'

@test "measured once, recorded, identical on all ranks; the second start uses the cache, bit for bit" {
    run train 2 "${lenet[@]}" --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"algorithms measured ("* ]]
    [ "$(from "$out")" = measured ]
    # Each pass of each convolution has a name.
    [ "$(chosen "$out" | jq -r 'to_entries[] | .key + " " +
        (.value | [.forward, .backward_data, .backward_weights] | all(length > 0) | tostring)' |
        xargs)" = "conv1 true conv2 true" ]
    [ -f "$(cache_file)" ]
    [ "$(find "$XDG_CACHE_HOME" -type f | wc -l)" -eq 1 ]
    grep -q "^machine = .*; cpu (.*); 1 thread;" "$(cache_file)"
    grep -q "^$conv2 forward = " "$(cache_file)"
    cp "$(cache_file)" "$BATS_TEST_TMPDIR/before"

    train 2 "${lenet[@]}" --out "$out-2" | grep 'algorithms from cache'
    [ "$(from "$out-2")" = cache ]
    [ "$(chosen "$out")" = "$(chosen "$out-2")" ]
    diff "$BATS_TEST_TMPDIR/before" "$(cache_file)"
    diff <(losses "$out") <(losses "$out-2")

    # The record shows rank 0's choice for every rank's plan.
    name=$(chosen "$out" | jq -r .conv2.forward)
    grep -q "^$conv2 forward = $name\$" "$(cache_file)"
}

# Training's batches of 50 have no line, so the weights are those of the other run.
@test "eval uses the checkpoint's algorithms and reproduces the run's evaluation bit for bit" {
    for n in 128 72; do
        echo "conv2d float32 n=$n x=12x12x20 k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1 epilogue=relu+pool2x2 forward = gemm"
    done >"$BATS_TEST_TMPDIR/table"
    for rule in fixed "$BATS_TEST_TMPDIR/table"; do
        name=$out-${rule##*/}
        train 0 "${lenet[@]}" --algorithms "$rule" --out "$name"
        jq -r 'select(.record == "epoch") | .val_loss' "$name/metrics.jsonl" | tail -1 >"$name/want"
        for n in 1 2; do
            on_ranks "$n" eval "$name" --threads 1 --json "$name/eval.json"
            jq -r .loss "$name/eval.json" | diff "$name/want" -
        done
    done
    h5diff "$out-fixed/ckpt-000000000009.h5" "$out-table/ckpt-000000000009.h5" /params /params
    run diff "$out-fixed/want" "$out-table/want"
    [ "$status" -eq 1 ]
}

# Batch norm keeps this convolution unfused: without an epilogue its key is the same on both backends.
@test "eval on a backend without these algorithms uses the backend's rule, with a notice" {
    echo "conv2d float32 n=10 x=28x28x1 k=32x3x3 stride=1x1 pad=0x0 dilation=1x1 groups=1 forward = gemm" \
        >"$BATS_TEST_TMPDIR/table"
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/few" --train 40 --val 10
    "$dptrain" train --data "$BATS_TEST_TMPDIR/few" --model mnist-cnn-bn --batch 8 --steps 1 --threads 1 \
        --algorithms "$BATS_TEST_TMPDIR/table" --out "$out"
    run "$dptrain" eval "$out" --device ref
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"1 algorithms of the checkpoint are not available here"*"accuracy "* ]]
}

@test "all ranks use rank 0's choice" {
    # Rank 1 reads another cache with other choices; only rank 0's counts.
    train 2 "${lenet[@]}" --out "$out-first" >/dev/null
    other=$BATS_TEST_TMPDIR/other
    mkdir -p "$other/dptrain"
    sed 's/forward = .*/forward = gemm/' "$(cache_file)" >"$other/dptrain/$(basename "$(cache_file)")"
    sed -i 's/forward = .*/forward = onednn\/jit/' "$(cache_file)"
    mpi_flags 2 && mpi_parts
    n=0
    for pair in "$XDG_CACHE_HOME $other" "$XDG_CACHE_HOME $XDG_CACHE_HOME"; do
        # shellcheck disable=SC2086
        set -- $pair
        mpirun "${MPI_FLAGS[@]}" -np 1 -x "XDG_CACHE_HOME=$1" "$dptrain" train --data "$tiny" --threads 1 "${lenet[@]}" \
            --out "$out" --overwrite : -np 1 -x "XDG_CACHE_HOME=$2" "$dptrain" train --data "$tiny" --threads 1 \
            "${lenet[@]}" --out "$out" --overwrite
        [ "$(chosen "$out" | jq -r .conv2.forward)" = onednn/jit ]
        n=$((n + 1))
        losses "$out" >"$BATS_TEST_TMPDIR/losses.$n"
    done
    diff "$BATS_TEST_TMPDIR/losses.1" "$BATS_TEST_TMPDIR/losses.2"
}

@test "a file forces an algorithm, which is recorded" {
    table=$BATS_TEST_TMPDIR/table.txt
    for name in gemm onednn/jit blocked; do
        printf '# mine\n\n%s forward = %s\n%s backward_data = gemm\n' "$conv2" "$name" "$conv2" >"$table"
        run train 2 "${lenet[@]}" --algorithms "$table" --out "$out" --overwrite
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"algorithms from a file (2 of 2 lines apply to this run)"* ]]
        [ "$(from "$out")" = file ]
        [ "$(chosen "$out" | jq -r '.conv2 | .forward, .backward_data' | xargs)" = "$name gemm" ]
    done
    # Nothing was measured.
    [ ! -e "$XDG_CACHE_HOME" ]
    # A cache file has the same format.
    train 2 "${lenet[@]}" --out "$out-m"
    train 2 "${lenet[@]}" --algorithms "$(cache_file)" --out "$out-f"
    [ "$(chosen "$out-m")" = "$(chosen "$out-f")" ]
    diff <(losses "$out-m") <(losses "$out-f")
    printf '%s forward = gemm\n' "${conv2/n=25/n=77}" >"$table"
    train 2 "${lenet[@]}" --algorithms "$table" --out "$out" --overwrite 2>&1 |
        grep 'none of its 1 lines matches a layer of this run'
}

@test "an invalid file ends the run with code 2" {
    only_slow "test_algorithms has unknown names"
    table=$BATS_TEST_TMPDIR/table.txt
    run train 2 "${lenet[@]}" --algorithms "$table" --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"--algorithms: cannot read $table"* ]]
    printf '# mine\n%s forward = gemm\n%s sideways = gemm\n' "$conv2" "$conv2" >"$table"
    run train 2 "${lenet[@]}" --algorithms "$table" --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"$table, line 3: "* ]]
    printf '%s forward = magic\n' "$conv2" >"$table"
    run train 2 "${lenet[@]}" --algorithms "$table" --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"layer conv2+relu2+pool2: $conv2, forward: algorithm 'magic' is not available"*gemm* ]]
    run train 2 "${lenet[@]}" --algorithms '' --out "$out"
    [ "$status" -eq 2 ]
    [ ! -e "$out" ]
}

@test "fixed: nothing is measured, and the name is the backend's" {
    train 0 "${lenet[@]}" --algorithms fixed --out "$out" | grep 'algorithms fixed'
    [ "$(from "$out")" = fixed ]
    [ "$(chosen "$out" | jq '.conv1.forward | length > 0')" = true ]
    [ ! -e "$XDG_CACHE_HOME" ]
    # The same under --reproducible, which rejects measured algorithms.
    train 2 "${lenet[@]}" --reproducible 2 --out "$out-r" | grep 'algorithms fixed'
    [ ! -e "$XDG_CACHE_HOME" ]
    run train 2 "${lenet[@]}" --reproducible 2 --algorithms measure --out "$out-no"
    [ "$status" -eq 2 ]
    [[ $output == *"--reproducible excludes --algorithms measure"* ]]
    # eval measures nothing either.
    "$dptrain" eval "$out" --data "$tiny"
    [ ! -e "$XDG_CACHE_HOME" ]
}

@test "measured and fixed algorithms train alike" {
    only_slow "takes 8 s"
    for model in lenet5 mnist-cnn; do
        train 2 --model "$model" --batch 16 --steps 2 --out "$out-m-$model"
        train 2 --model "$model" --batch 16 --steps 2 --algorithms fixed --out "$out-f-$model"
        close_curves "$out-m-$model" "$out-f-$model" 1e-5 2
    done
}

@test "a resumed run uses the checkpoint's algorithms, bit for bit" {
    train 2 "${lenet[@]}" --checkpoint-every 4 --keep 9 --out "$out"
    mkdir "$out-again"
    cp "$out/ckpt-000000000004.h5" "$out-again"
    # A cache with other choices.
    name=gemm
    [ "$(chosen "$out" | jq -r .conv2.forward)" != gemm ] || name=onednn/jit
    sed -i "s,forward = .*,forward = $name," "$(cache_file)"
    train 2 --resume auto --out "$out-again" | grep 'algorithms from the checkpoint'
    [ "$(from "$out-again")" = checkpoint ]
    [ "$(chosen "$out")" = "$(chosen "$out-again")" ]
    diff <(losses "$out" | tail -n 5) <(losses "$out-again")
    for object in /params /optimizer; do
        h5diff "$out/ckpt-000000000009.h5" "$out-again/ckpt-000000000009.h5" "$object" "$object"
    done
    # The run's file may be gone; an algorithm that is given now wins.
    printf '%s forward = gemm\n' "$conv2" >"$BATS_TEST_TMPDIR/table.txt"
    train 2 "${lenet[@]}" --checkpoint-every 4 --keep 9 --algorithms "$BATS_TEST_TMPDIR/table.txt" --out "$out-file"
    rm "$BATS_TEST_TMPDIR/table.txt" "$out-file/ckpt-000000000009.h5"
    cp -r "$out-file" "$out-fixed"
    train 2 --resume auto --out "$out-file" | grep 'algorithms from the checkpoint'
    [ "$(chosen "$out-file" | tail -n 1 | jq -r .conv2.forward)" = gemm ]
    train 2 --resume auto --algorithms fixed --out "$out-fixed" | grep 'algorithms fixed'
    [ "$(chosen "$out-fixed" | tail -n 1 | jq -r .conv2.forward)" != gemm ]
}

@test "algorithms measured on another machine are measured again, with a notice" {
    train 1 "${lenet[@]}" --checkpoint-every 4 --out "$out"
    rm "$out/ckpt-000000000009.h5"
    # A different number of threads counts as another machine.
    mpi_flags 1
    run mpirun "${MPI_FLAGS[@]}" -np 1 "$dptrain" train --data "$tiny" --threads 2 --resume auto --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"the checkpoint's algorithms are for "*"1 thread"*"choosing again for "*"2 threads"* ]]
    [[ $output == *"algorithms measured ("* ]]
    [ "$(find "$XDG_CACHE_HOME" -type f | wc -l)" -eq 2 ]
}

@test "a damaged or unusable cache costs at most a warning" {
    train 0 "${lenet[@]}" --out "$out"
    printf 'nonsense\n' >>"$(cache_file)"
    run train 0 "${lenet[@]}" --out "$out" --overwrite
    [ "$status" -eq 0 ]
    [[ $output == *"$(cache_file), line "*" is ignored"* ]]
    [[ $output == *"algorithms from cache"* ]]
    # What was measured on another generation of the CPU, or by an earlier version, is measured again.
    grep -qE '^machine = .*(family|implementer|unknown CPU)' "$(cache_file)"
    sed -i '/nonsense/d; s/^machine = .*/machine = AMD EPYC; cpu (oneDNN); 1 thread; format 1/' "$(cache_file)"
    run train 0 "${lenet[@]}" --out "$out" --overwrite
    [[ $output == *"algorithms measured"* && $output != *ignored* ]]
    # An unknown algorithm is measured again, and the cache repaired.
    sed -i '/nonsense/d; s/forward = .*/forward = magic/' "$(cache_file)"
    train 0 "${lenet[@]}" --out "$out" --overwrite | grep 'algorithms measured'
    run grep -c magic "$(cache_file)"
    [ "$output" = 0 ]
    # Binary data; a folder in place of the file; a file in place of the folder.
    head -c 3000 /dev/urandom >"$(cache_file)"
    train 0 "${lenet[@]}" --out "$out" --overwrite | grep 'algorithms measured'
    file=$(cache_file)
    rm "$file"
    mkdir "$file"
    train 0 "${lenet[@]}" --out "$out" --overwrite 2>&1 | grep 'the measured algorithms are not cached'
    rm -r "$XDG_CACHE_HOME"
    touch "$XDG_CACHE_HOME"
    run train 0 "${lenet[@]}" --out "$out" --overwrite
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'not cached' <<<"$output")" -eq 1 ]
    # No temporary file is left.
    [ -z "$(find "$BATS_TEST_TMPDIR" -name '*.tmp-*')" ]
}
