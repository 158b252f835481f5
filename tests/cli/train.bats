#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The program as a user runs it: training, evaluation, resuming, records, and error messages.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# Enough digits for 210 steps of 32; every process would draw the built-in 70000 again.
setup_file() { make_tiny 6800 140; }

# A short run, the same for every test except for added options.
small_run() { # N ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model lenet5 --steps 12 --batch 50 --threads 1 --out "$out" "${@:2}"
}

# Two ranks: $out-whole is a run, $out the same one after step 7. Trained once for the file.
interrupted_run() {
    local made=$BATS_FILE_TMPDIR/interrupted
    if [[ ! -e $made ]]; then
        small_run 2
        cp -r "$out" "$out-whole"
        small_run 2 --overwrite --checkpoint-every 7
        rm "$out/ckpt-000000000012.h5"
        mkdir "$made.new"
        cp -r "$out" "$made.new/half"
        cp -r "$out-whole" "$made.new/whole"
        mv "$made.new" "$made"
        return
    fi
    cp -r "$made/half" "$out"
    cp -r "$made/whole" "$out-whole"
}

# Fails unless there are records of this kind and the condition holds for each.
records() { # KIND CONDITION [FOLDER]
    jq -es --arg kind "$1" "map(select(.record == \$kind)) | length > 0 and all($2)" "${3:-$out}/metrics.jsonl"
}

# Twelve steps of a model without pooling.
curve_run() { # N FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model mlp --steps 12 --batch 50 --threads 1 --checkpoint-every 2 --keep 9 --no-eval --out "$2" "${@:3}"
    [ "$(losses "$2" | wc -l)" -eq 12 ]
}

same_curve() { # FOLDER FOLDER: losses of 12 steps, and after two steps weights and velocity
    close_curves "$1" "$2" 1e-5
    "$dptrain" checkpoint compare "$1/ckpt-000000000002.h5" "$2/ckpt-000000000002.h5"
}

@test "1, 2, 3 and 4 ranks give the same loss curve, and the same gradients" {
    for n in 1 2 3 4; do
        curve_run "$n" "$out-$n"
        same_curve "$out-1" "$out-$n"
        records run ".topology.ranks == $n" "$out-$n"
    done
    for n in 1 3; do
        on_ranks "$n" train --data "$tiny" --model lenet5 --steps 2 --batch 50 --threads 1 --algorithms fixed --no-eval --out "$out-lenet5-$n"
    done
    close_curves "$out-lenet5-1" "$out-lenet5-3" 1e-5 2
}

@test "evaluation is exact on any number of ranks" {
    small_run 0
    "$dptrain" eval "$out" --data "$tiny" >"$BATS_TEST_TMPDIR/one"
    grep -q '^accuracy' "$BATS_TEST_TMPDIR/one"
    for n in 2 3; do
        on_ranks "$n" eval "$out" --data "$tiny" | diff "$BATS_TEST_TMPDIR/one" -
    done
}

@test "a ragged last batch leaves some ranks without samples" {
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/tiny" --train 101 --val 7
    on_ranks 3 train --data "$BATS_TEST_TMPDIR/tiny" --epochs 2 --batch 50 --model mlp --out "$out"
    # 50 + 50 + 1 samples, twice.
    [ "$(losses "$out" | wc -l)" -eq 6 ]
    on_ranks 0 train --data "$BATS_TEST_TMPDIR/tiny" --epochs 2 --batch 50 --model mlp --out "$out-1"
    losses "$out" >"$BATS_TEST_TMPDIR/a"
    losses "$out-1" >"$BATS_TEST_TMPDIR/b"
    close_columns "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b" 1e-4
}

@test "every record is JSON with the documented fields" {
    small_run 2 --checkpoint-every 6
    jq -e . "$out/metrics.jsonl" >/dev/null
    # How often ranks compare their replicas depends on time.
    [ "$(jq -r 'select(.record != "replicas").record' "$out/metrics.jsonl" | sort | uniq -c | awk '{ print $2 $1 }' | xargs)" = \
        "checkpoint2 end1 epoch1 profile1 run1 step12" ]
    records replicas '.hash | type == "string"'
    records run '.schema == 1 and (.software.git | length > 0) and .options.lr == 0.03
        and (.data.xxh3 | length == 16) and .n_parameters == 431080'
    records step '[.step, .loss, .lr, .step_sec, .data_wait_sec, .forward_sec, .backward_sec,
        .exposed_comm_sec, .optimizer_sec, .cpu_sec] | all(type == "number")'
    records epoch '.val_accuracy >= 0 and .val_accuracy <= 1 and .val_loss > 0 and .train_loss > 0
        and .images_per_sec > 0'
    records checkpoint '.error == null and .stall_sec > 0 and .n_bytes > 3000000'
    records end '(.peak_memory_bytes | length) == 2'
    # Samples over time, whatever delayed a step, without the first 10 steps; and the median of the same steps.
    jq -se '(map(select(.record == "run"))[0].global_batch) as $n | map(select(.record == "step").step_sec)[10:] as $sec |
        def near($x): . / $x - 1 | . * . < 1e-12;
        map(select(.record == "end"))[0] | (.images_per_sec | near($n * ($sec | length) / ($sec | add))) and
        (.median_images_per_sec | near(($sec | map($n / .) | add) / ($sec | length)))' "$out/metrics.jsonl"
    [ -e "$out/ckpt-000000000006.h5" ]
    [ -e "$out/ckpt-000000000012.h5" ]
}

# A kernel that is short of memory takes back pages of programs and files, and a run then touches them again: not in each of three.
@test "steady steps allocate nothing and touch no new pages" {
    for i in 1 2 3; do
        on_ranks 2 train --data "$tiny" --steps 210 --batch 32 --threads 1 --out "$out" --overwrite
        jq -c 'select(.record == "end") | {steady_steps, steady_allocations, steady_page_faults}' "$out/metrics.jsonl"
        records end '.steady_allocations == 0 and .steady_steps == 200'
        ! records end '.steady_page_faults <= 10' || return 0
    done
    return 1
}

@test "the allreduce is chosen and recorded, or as requested; with 2 ranks the bits are the same" {
    small_run 2 | grep -E 'communicator mpi, (host|mpi) allreduce$'
    records run '.topology.allreduce | (.gradients == "host" or .gradients == "mpi") and (.measured | length) > 0
        and all(.measured[]; .bytes > 0 and .host_sec > 0 and .mpi_sec > 0)'
    losses "$out" >"$BATS_TEST_TMPDIR/auto"
    for path in host mpi; do
        small_run 2 --overwrite --allreduce "$path" | grep "communicator mpi, $path allreduce$"
        records run ".topology.allreduce == {gradients: \"$path\", measured: []}"
        losses "$out" | diff - "$BATS_TEST_TMPDIR/auto"
    done
    small_run 1 --overwrite | grep 'communicator mpi$'
    records run '.topology.allreduce.gradients == null'
    run "$dptrain" train --data "$tiny" --allreduce host --out "$out-2"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--allreduce host is not available"* ]]
}

@test "4 ranks on 2 hosts of 2 give the same loss curve" {
    curve_run 0 "$out"
    curve_run 4 "$out-4" --ranks-per-host 2 | grep 'ranks   4 on 2 hosts'
    same_curve "$out" "$out-4"
}

@test "a resumed run continues bit for bit" {
    interrupted_run
    on_ranks 2 train --out "$out" --resume auto --data "$tiny" --threads 1 | grep 'at step 7'
    losses "$out" | tail -n 5 >"$BATS_TEST_TMPDIR/resumed"
    losses "$out-whole" | tail -n 5 | diff - "$BATS_TEST_TMPDIR/resumed"
    # Every weight and the momentum too; only the checkpoint interval differs.
    h5dump -g /params -g /optimizer "$out/ckpt-000000000012.h5" | tail -n +2 >"$BATS_TEST_TMPDIR/a"
    h5dump -g /params -g /optimizer "$out-whole/ckpt-000000000012.h5" | tail -n +2 | diff -q - "$BATS_TEST_TMPDIR/a"
}

@test "the optimizer's state has no denormal numbers, which would make its steps slow" {
    on_ranks 0 train --data digits --model lenet5 --steps 60 --momentum 0.1 --threads 1 --out "$out"
    h5dump -y -w 0 -g /optimizer "$out/ckpt-000000000060.h5" >"$BATS_TEST_TMPDIR/state"
    grep -q 'DATASET' "$BATS_TEST_TMPDIR/state"
    [ "$(grep -cE '[0-9]e-(39|4[0-9])' "$BATS_TEST_TMPDIR/state")" -eq 0 ]
}

@test "a run resumed on another number of ranks continues within rounding" {
    interrupted_run
    on_ranks 3 train --out "$out" --resume auto --data "$tiny" --threads 1
    # Steps 8 and 9. Later ones may part: LeNet-5 has max pooling.
    losses "$out" | sed -n 8,9p >"$BATS_TEST_TMPDIR/resumed"
    losses "$out-whole" | sed -n 8,9p >"$BATS_TEST_TMPDIR/whole"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/whole")" -eq 2 ]
    close_columns "$BATS_TEST_TMPDIR/resumed" "$BATS_TEST_TMPDIR/whole" 1e-5
}

@test "--lr-scale and micro-batches on another number of ranks: the rate stays, --accumulate may change" {
    on_ranks 2 train --data "$tiny" --batch-per-rank 25 --steps 2 --lr-scale linear --schedule constant --threads 1 --out "$out"
    # With the words of its start, and a batch that holds on any number of ranks.
    on_ranks 0 train --out "$out" --resume auto --data "$tiny" --batch 50 --lr-scale linear --steps 3 --accumulate 2 --threads 1
    run on_ranks 3 train --out "$out" --resume auto --data "$tiny" --steps 4 --threads 1
    echo "$output"
    [[ $status -eq 0 && $output == *"  rate "*" from 0.06 = 0.03 × 2 (50 samples per step, --lr is for 25), seed"* ]]
    records step '.lr == 0.06'
    records run '.options."lr-batch" == 25'
}

@test "--lr-scale: the rate follows the samples per step, not the ranks; the header has factor and reason" {
    local ranks
    for ranks in 0 2; do
        run on_ranks $ranks train --data "$tiny" --batch 40 --lr 0.05 --lr-batch 20 --steps 1 --threads 1 --overwrite --out "$out"
        echo "$output"
        [[ $status -eq 0 && $output == *"  rate "*" from 0.1 = 0.05 × 2 (40 samples per step, --lr is for 20), seed"* ]]
        run on_ranks $ranks train --data "$tiny" --batch 40 --lr 0.05 --lr-scale linear --steps 1 --out "$out-none"
        [[ $status -eq 2 && $output == *--batch-per-rank* && $output == *--lr-batch* && ! -e $out-none ]]
    done
    run on_ranks 0 train --data "$tiny" --lr-scale linear --resume auto --out "$out-none"
    [[ $status -eq 2 && $output == *--lr-batch* && ! -e $out-none/metrics.jsonl ]]
}

@test "resume auto skips a damaged checkpoint with a warning; a new folder starts from the beginning" {
    on_ranks 0 train --out "$out" --resume auto --data "$tiny" --model mlp --steps 8 --checkpoint-every 4 |
        grep 'no checkpoint in .* yet'
    printf 'x' | dd of="$out/ckpt-000000000008.h5" bs=1 seek=4000 conv=notrunc status=none
    run on_ranks 0 train --out "$out" --resume auto --data "$tiny"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"skipped: "*"ckpt-000000000008.h5"*"damaged"* ]]
    [[ $output == *"resumed from $out/ckpt-000000000004.h5 at step 4"* ]]
    "$dptrain" checkpoint verify "$out"
}

@test "an older checkpoint is not resumed into a folder with newer ones" {
    small_run 0 --checkpoint-every 6
    run on_ranks 0 train --out "$out" --resume "$out/ckpt-000000000006.h5" --data "$tiny"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"holds checkpoints up to step 12"* ]]
    on_ranks 0 train --out "$out-branch" --resume "$out/ckpt-000000000006.h5" --data "$tiny"
    [ -e "$out-branch/ckpt-000000000012.h5" ]
}

@test "a resumed run keeps its options and rejects changes" {
    small_run 0 --lr 0.01
    run on_ranks 0 train --out "$out" --resume auto --data "$tiny" --lr 0.02
    [ "$status" -eq 2 ]
    [[ $output == *"cannot change --lr 0.02 (it was 0.01)"* ]]
    on_ranks 0 train --out "$out" --resume auto --data "$tiny" --steps 14
    records run '.options.lr == 0.01 and (.n_steps == 12 or (.first_step == 12 and .n_steps == 14))'
    run on_ranks 0 train --out "$out" --resume auto --data "$tiny" --batch 10
    [ "$status" -eq 2 ]
    [[ $output == *"a global batch of 50"* ]]
    run on_ranks 0 train --out "$out" --resume auto --data synthetic
    [ "$status" -eq 3 ]
    [[ $output == *"was not trained on the data of"* ]]
}

@test "a diverged run leaves a usable checkpoint, with exit code 1" {
    run on_ranks 2 train --model mlp --data "$tiny" --steps 20 --lr 1e6 --checkpoint-every 1 --keep 1 --out "$out"
    echo "$output"
    [ "$status" -eq 1 ]
    for file in "$out"/ckpt-*.h5; do
        [ "$("$dptrain" checkpoint show "$file" | grep -c '\bnan\|\binf$')" -le 1 ] # plateau_best begins as inf
    done
    run on_ranks 2 train --model mlp --data "$tiny" --steps 2 --lr 1e6 --out "$out-short"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "a run that reached its target does not train again" {
    on_ranks 0 train --model mlp --data "$tiny" --epochs 2 --target-accuracy 0.5 --out "$out"
    before=$(ls "$out"/ckpt-*)
    on_ranks 0 train --out "$out" --resume auto | grep 'target reached'
    [ "$(ls "$out"/ckpt-*)" = "$before" ]
}

@test "eval uses the training data of the checkpoint, and reports when it is given other data" {
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/od#d" --train 64 --val 10
    on_ranks 0 train --model mlp --data "$BATS_TEST_TMPDIR/od#d" --steps 2 --batch 16 --out "$out"
    on_ranks 2 eval "$out" | grep "od#d (from the checkpoint), 10 validation samples"
    "$dptrain" eval "$out" --data "$tiny" | grep 'not the data'
    on_ranks 0 train --out "$out" --resume auto --steps 3
    run on_ranks 0 train --data "a #b" --out "$out-x"
    [ "$status" -eq 2 ]
    run on_ranks 0 train --data "$tiny" --out ""
    [ "$status" -eq 2 ]
    touch "$BATS_TEST_TMPDIR/file"
    run on_ranks 0 train --data "$tiny" --out "$BATS_TEST_TMPDIR/file/x"
    [ "$status" -eq 2 ]
    [[ $output == *"is a file"* ]]
}

@test "an earlier run is not overwritten by accident" {
    small_run 0
    before=$(ls "$out")
    run small_run 0
    [ "$status" -eq 2 ]
    [[ $output == *"holds an earlier run"* ]]
    [ "$(ls "$out")" = "$before" ]
    small_run 0 --overwrite
}

@test "data is chosen in the documented order" {
    cd "$BATS_TEST_TMPDIR"
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/env/mnist" --train 64 --val 10
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/data/mnist" --train 64 --val 10
    one() { "$dptrain" train --model mlp --steps 1 --out "$out" --overwrite "$@" | grep '^  data'; }
    unset DPTRAIN_DATA
    [[ $(one) == *" data/mnist "* ]]
    [[ $(DPTRAIN_DATA=$BATS_TEST_TMPDIR/env one) == *"env/mnist (from \$DPTRAIN_DATA)"* ]]
    [[ $(DPTRAIN_DATA=$BATS_TEST_TMPDIR/env one --data data/mnist) == *" data/mnist (from --data)"* ]]
    rm data/mnist/*
    run one
    [[ "$status" -eq 0 && "$output" == *"built-in digits"*"data/mnist holds no IDX files"* ]]
    run "$dptrain" train --model mlp --steps 1 --out "$out" --overwrite --data data/mnist
    echo "$output"
    [[ "$status" -eq 3 && "$output" == *data/mnist* ]]
    rm -r data
    [[ $(one) == *"built-in digits"* ]]
}

@test "--data with the name of built-in data and of a folder is refused by every command; a checkpoint knows which it was" {
    cd "$BATS_TEST_TMPDIR"
    small=(--model mlp --batch 8 --threads 1 --device cpu --no-eval)
    "$dptrain" train "${small[@]}" --steps 1 --data digits --out run
    "$dptrain" data synth digits --out digits --train 32 --val 16
    mkdir synthetic
    echo 'data = synthetic' >conf
    for command in "train --data digits" "train --config conf" "eval run --data digits" "predict run x.png --data digits" \
        "replay run --data synthetic" "check --only versions --data digits" "bench step --step-model mlp --quick --step-data digits"; do
        # shellcheck disable=SC2086 # words
        run "$dptrain" $command
        echo "$command: $status: $output"
        [[ "$status" -eq 2 && "$output" == *ambiguous*./* ]]
    done
    run "$dptrain" eval run --threads 1 --device cpu
    [[ "$status" -eq 0 && "$output" == *"10000 validation samples"* ]]
    run "$dptrain" train --resume auto --steps 2 --out run --threads 1 --device cpu
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *" 60,000 training"* ]]
    run "$dptrain" train "${small[@]}" --steps 1 --data ./digits --out other
    [[ "$status" -eq 0 && "$output" == *" 32 training"* ]]
}

@test "invalid options give one message with the right exit code" {
    cd "$BATS_TEST_TMPDIR"
    check() { # CODE PART-OF-THE-MESSAGE RANKS ARGUMENTS...
        run on_ranks "$3" "${@:4}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    }
    # Errors found before MPI starts, and after.
    for n in 0 3; do
        check 2 "did you mean --batch?" "$n" train --bach 3
        check 2 "did you mean 'train'?" "$n" trian
        check 2 "--device cuda is not available" "$n" train --device cuda
        check 3 "no such folder" "$n" train --data nowhere
        check 4 "/proc/nothing" "$n" train --data "$tiny" --out /proc/nothing
    done
    check 2 "expected a whole number" 0 train --epochs 3x
    check 2 "out of range" 0 train --momentum 2
    check 2 "mutually exclusive" 0 train --batch 8 --batch-per-rank 8
    check 2 "did you mean lenet5?" 0 train --model lenet --data "$tiny"
    check 2 "nccl" 0 train --comm nccl
    check 2 "use --wire fp32" 2 train --wire bf16 --device cpu --data "$tiny"
    check 3 "nowhere" 0 eval nowhere.h5
    check 2 "smaller than the 3 ranks" 3 train --data "$tiny" --batch 2
    check 2 "whole run has" 2 train --data "$tiny" --warmup 9 --epochs 2
}

@test "a NaN stops the run and names step and layer" {
    run small_run 2 --lr 1000 --momentum 0
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output =~ "not finite at step "[0-9]+": NaN or Inf first appears in the "(output of layer|parameter)" " ]]
    run small_run 0 --lr 1000 --momentum 0 --accumulate 3 --overwrite
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"NaN or Inf first appears in"* ]]
}

@test "runs that start in the same second have folders of their own" {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    for _ in 1 2 3; do
        "$dptrain" train --model mlp --data "$tiny" --threads 1 --steps 2 --no-eval -q 3>&- &
    done
    wait
    [ "$(find runs -name metrics.jsonl | wc -l)" -eq 3 ]
}

# Prints the process of a rank, from the environment set by mpirun.
rank_pid() { # RANK
    local pid
    for pid in $(pgrep -f "$out"); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
            return
        fi
    done
    return 1
}

start_long_run() { # RANKS
    on_ranks "$1" train --data synthetic --model mlp --epochs 100000 --threads 1 --timeout 10 --log-every 50 --out "$out" \
        >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    job=$!
    for _ in $(seq 1200); do
        ! grep -q 'step 100/' "$BATS_TEST_TMPDIR/log" || return 0
        sleep 0.1
    done
    cat "$BATS_TEST_TMPDIR/log"
    return 1
}

@test "a stopped rank ends the job with one message and code 5" {
    start_long_run 3
    kill -STOP "$(rank_pid 1)"
    status=0
    wait "$job" || status=$?
    cat "$BATS_TEST_TMPDIR/log"
    [ "$status" -eq 5 ]
    [ "$(grep -c 'dptrain: error' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
    grep -q 'timed out after 10 s .*rank 1 on' "$BATS_TEST_TMPDIR/log"
}

@test "a killed rank ends the job; the launcher script reports it with code 5" {
    DPTRAIN_BIN=$dptrain "$root/scripts/run.sh" -np 3 train --data synthetic --model mlp --epochs 100000 --threads 1 \
        --log-every 50 --out "$out" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    job=$!
    for _ in $(seq 1200); do
        ! grep -q 'step 100/' "$BATS_TEST_TMPDIR/log" || break
        sleep 0.1
    done
    kill -KILL "$(rank_pid 2)"
    status=0
    wait "$job" || status=$?
    cat "$BATS_TEST_TMPDIR/log"
    [ "$status" -eq 5 ]
    grep -q "^run.sh: error: rank 2 on $(hostname) was killed by signal 9 (SIGKILL) in \"[^\"]*\".*; restart with" "$BATS_TEST_TMPDIR/log"
    run ls /dev/shm/dptrain-*".$job."*
    [ "$status" -ne 0 ]
}

@test "SIGUSR1 to one rank: checkpoint, then exit code 0" {
    start_long_run 2
    kill -USR1 "$(rank_pid 1)"
    wait "$job"
    grep -q 'stopped by SIGUSR1' "$BATS_TEST_TMPDIR/log"
    step=$(jq -r 'select(.record == "end") | .step' "$out/metrics.jsonl")
    [ -e "$(printf '%s/ckpt-%012d.h5' "$out" "$step")" ]
}

@test "SIGUSR1 to mpirun: checkpoint, then exit code 0; SIGTERM ends the run at once" {
    start_long_run 2
    kill -USR1 "$(pgrep -o -f "(mpirun|prterun).*$out")"
    wait "$job"
    grep -q 'stopped by SIGUSR1' "$BATS_TEST_TMPDIR/log"
    rm -r "$out"
    start_long_run 2
    kill -TERM "$(pgrep -o -f "(mpirun|prterun).*$out")"
    status=0
    wait "$job" || status=$?
    [ "$status" -ne 0 ]
    [ "$(grep -c 'stopped by' "$BATS_TEST_TMPDIR/log")" -eq 0 ]
}

@test "info shows build, devices, models and layers" {
    "$dptrain" --version | grep -q "dptrain $(cat "$root/VERSION")"
    "$dptrain" info | grep -q oneDNN
    "$dptrain" info --model lenet5 | grep -Eq '^conv2 +conv2d +8×8×50 +25050 +1600000 +819200$'
    "$dptrain" info --model lenet5 | grep -Eq '^total +431080 +2293000'
    "$dptrain" info --model resnet50 --input-size 224 --classes 1000 | grep -Eq '^total +25557032 +4089184256 '
    "$dptrain" info --model resnet18 --input-size 224 --classes 1000 | grep -Eq '^total +11689512 +1814073344 '
    "$dptrain" info --model vgg16 --input-size 224 --classes 1000 | grep -Eq '^total +138357544 +15470264320 '
    "$dptrain" info --model resnet18 --input-size 32 --channels 1 --multi-label | grep -Eq '^loss +sigmoid_bce '
    run "$dptrain" info --model maskrcnn_resnet50_fpn --min-size 800
    [[ ${lines[0]} == 'maskrcnn_resnet50_fpn on images of 800×1088×3' ]]
    [[ $output =~ trunk\ +the\ image\ +23454912\ .*total\ +44401393\ +230\.788 ]]
    run "$dptrain" info --model fasterrcnn_resnet18_fpn --height 100 --width 64
    [[ $status -eq 2 && $output == *"multiples of 32, got 100×64×3"* ]]
    run "$dptrain" info --model maskrcnn_resnet18_fpn --bytes
    [[ $status -eq 2 && $output == *"no GPU computes yet"* ]]
    run "$dptrain" info --model lenet5 --min-size 256
    [[ $status -eq 2 && $output == *"are for detectors"* ]]
    run "$dptrain" info --model resnet18 --input-size 32 --width 16
    [ "$status" -eq 2 ]
    [[ $output == *"omit --height and --width"* ]]
    run "$dptrain" info --model lenet5 --height 4
    [ "$status" -eq 2 ]
    [[ $output == *"layer conv1"* && $output == *"1×4×28×1"* ]]
}

@test "make install installs the program under PREFIX" {
    only_slow "manual.bats and dist.bats install it, too"
    make -s -C "$root" install "PREFIX=/opt/here" "DESTDIR=$BATS_TEST_TMPDIR/stage"
    "$BATS_TEST_TMPDIR/stage/opt/here/bin/dptrain" --version
}

@test "the built-in digits: LeNet-5 exceeds 98 % in 300 steps" {
    only_slow "takes 8 s"
    not_with_sanitizers
    on_ranks 2 train --data digits --steps 300 --threads 1 --out "$out"
    records epoch '.val_accuracy > 0.98'
}

@test "real MNIST: at least 0.983 after one epoch on two ranks" {
    not_with_sanitizers
    only_slow "trains 60,000 images, the test before 300 steps"
    [ -n "${DPTRAIN_DATA:-}" ] || skip "DPTRAIN_DATA is not set"
    on_ranks 2 train --model lenet5 --data "$DPTRAIN_DATA/mnist" --epochs 1 --threads 1 --out "$out"
    records epoch '.val_accuracy >= 0.983'
}
