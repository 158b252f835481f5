#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Ctrl-C and SIGTERM during training: exit codes, what is saved, what is said, and that the run continues with the same losses.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 2 steps of 64 in an epoch.
setup_file() { make_tiny 128 64; }

setup() {
    common_setup
    log=$BATS_TEST_TMPDIR/log
    words=(train --data "$tiny" --threads 1 --algorithms fixed --schedule constant --log-every 1)
    endless=("${words[@]}" --out "$out" --epochs 100000)
}

# Starts a command in the background: sets job. bash starts such processes with SIGINT ignored.
launch() { # COMMAND...
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$@" >"$log" 2>&1 3>&- &
    job=$!
}

launch_on() { # RANKS ARGUMENTS...
    if (($1 == 0)); then
        launch "$dptrain" "${@:2}"
    else
        mpi_flags "$1"
        launch mpirun "${MPI_FLAGS[@]}" -np "$1" "$dptrain" "${@:2}"
    fi
}

# Waits until the metrics have a step.
wait_step() { # STEP
    for _ in {1..3000}; do
        ! grep -qs "\"record\":\"step\",\"step\":$1," "$out/metrics.jsonl" || return 0
        kill -0 "$job" 2>/dev/null || break
        sleep 0.02
    done
    cat "$log"
    return 1
}

# Sends the signal, sets status, and fails unless the metrics are whole lines of JSON.
signalled() { # SIGNAL [PROCESS]
    kill -s "$1" "${2:-$job}"
    status=0
    wait "$job" || status=$?
    cat "$log"
    [[ ! -e $out/metrics.jsonl ]] || { [ -z "$(tail -c 1 "$out/metrics.jsonl")" ] && jq -e . "$out/metrics.jsonl" >/dev/null; }
}

# Sets step, of the checkpoint that the message names; it is intact.
named_checkpoint() {
    local path
    path=$(grep -F "; continue with --resume auto --out $out" "$log" | tail -n 1)
    path=${path#checkpoint } path=${path%%; continue*}
    "$dptrain" checkpoint verify "$path"
    step=${path##*/ckpt-} step=$((10#${step%.h5}))
}

# Continues to a step, and fails unless losses and validation are those of an uninterrupted run.
continues() { # RANKS LAST_STEP ARGUMENTS...
    local folder
    on_ranks "$1" "${words[@]}" "${@:3}" --steps "$2" --out "$out" --resume auto >"$log"
    on_ranks "$1" "${words[@]}" "${@:3}" --steps "$2" --out "$out-whole" >"$log"
    losses "$out" | diff - <(losses "$out-whole")
    for folder in "$out" "$out-whole"; do
        # A validation that was recorded, but interrupted before its checkpoint, is repeated.
        jq -c 'select(.record == "epoch") | [.epoch, .step, .val_loss, .val_accuracy, .train_loss]' "$folder/metrics.jsonl" |
            uniq >"$folder.epochs"
    done
    diff "$out.epochs" "$out-whole.epochs"
}

@test "alone: SIGINT saves the last finished step, and the run continues with the same losses" {
    launch_on 0 "${endless[@]}" --checkpoint-every 100000
    wait_step 4
    signalled INT
    [ "$status" -eq 130 ]
    named_checkpoint
    grep -q "^interrupted by SIGINT after step $step of " "$log"
    [ "$(jq -c 'select(.record == "end") | [.reason, .step]' "$out/metrics.jsonl")" = "[\"interrupted by SIGINT\",$step]" ]
    continues 0 $((step + 3)) --checkpoint-every 100000
}

@test "one thread receives signals, and it computes nothing" {
    # A signal frame on a thread in oneDNN's sgemm overwrites the heap.
    launch_on 0 "${endless[@]}"
    wait_step 4
    receivers=$(awk -v main="$job" '/^Pid:/ { id = $2 } /^SigBlk:/ { mask = substr($2, length($2) - 3)
        # SIGHUP, SIGINT, SIGUSR1, SIGTERM: bits 0, 1, 9, 14
        if (mask !~ /^[4567cdef][2367abef].[37bf]$/) print (id == main ? "main" : "other") }' /proc/"$job"/task/*/status)
    signalled TERM
    echo "$receivers"
    [ "$receivers" = other ]
}

@test "a reader of stdout that has stopped: the checkpoint is written, and stderr names it" {
    mkfifo "$BATS_TEST_TMPDIR/pipe"
    exec 4<>"$BATS_TEST_TMPDIR/pipe" # never read
    "$dptrain" "${endless[@]}" --checkpoint-every 100000 >"$BATS_TEST_TMPDIR/pipe" 2>"$log" 3>&- 4>&- &
    job=$!
    # Until a write blocks: the pipe holds 64 KiB, and a step prints 100 to 170 bytes.
    n=-1 m=0 same=0
    until ((m > 300 && same > 3)); do
        kill -0 "$job"
        n=$m
        sleep 0.2
        m=$(wc -l <"$out/metrics.jsonl") || m=0
        same=$((m == n ? same + 1 : 0))
    done 2>/dev/null
    signalled TERM
    [ "$status" -eq 143 ]
    named_checkpoint
    [ "$(jq -c 'select(.record == "end") | [.reason, .step]' "$out/metrics.jsonl")" = "[\"interrupted by SIGTERM\",$step]" ]
}

@test "mpirun: rank 0 saves in the time that mpirun leaves, and the last line explains code 1" {
    mpirun_waits
    launch_on 2 "${endless[@]}" --reproducible 2 --checkpoint-every 100000
    wait_step 4
    signalled INT
    [ "$status" -eq 1 ]
    named_checkpoint
    grep -q "^interrupted by SIGTERM after step $step of " "$log"
    # Open MPI may add that a rank's memory cannot be read any more: [host:process] Read -1, …
    [[ "$(grep -v '^\[[^]]*:[0-9]*\] ' "$log" | tail -n 1)" == "after Ctrl-C or SIGTERM, mpirun returns 1 "* ]]
    [ "$(grep -c 'dptrain: error' "$log")" -eq 0 ]
    continues 0 $((step + 1)) --reproducible 2 --checkpoint-every 100000
}

@test "SIGUSR1 during the last step: the run validates, and has finished" {
    # Each step but the first takes 50 times its time, so that the second one has not ended when the signal comes.
    launch_on 0 "${words[@]}" --steps 2 --burn forward:50 --out "$out"
    wait_step 0
    signalled USR1
    [ "$status" -eq 0 ]
    grep -q '^finished after 2 steps' "$log"
    [ "$(jq -s 'map(select(.record == "epoch" and .val_loss != null)) | length' "$out/metrics.jsonl")" -eq 1 ]
}

@test "a GPU, with the next step in flight: SIGINT and SIGUSR1 save a finished step, and the run continues with the same losses" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    for signal in INT USR1; do
        mlp=(--device cuda --model mlp --batch 4 --checkpoint-every 100000)
        launch_on 0 "${words[@]}" "${mlp[@]}" --epochs 100000 --out "$out"
        wait_step 14 # from step 10 on, the next step has begun when the results of a step are read
        signalled "$signal"
        [ "$status" -eq "$([[ $signal == INT ]] && echo 130 || echo 0)" ]
        named_checkpoint
        [ "$(jq 'select(.record == "step") | .step' "$out/metrics.jsonl" | tail -n 1)" -eq $((step - 1)) ]
        continues 0 $((step + 3)) "${mlp[@]}"
        rm -r "$out" "$out-whole"
    done
}

@test "run.sh: 130 and 143 after a checkpoint, and the command that continues; 0 after SIGUSR1" {
    for signal in INT TERM USR1; do
        out=$BATS_TEST_TMPDIR/of\ $signal
        DPTRAIN_BIN=$dptrain launch "$root/scripts/run.sh" -np 1 "${words[@]}" --epochs 100000 --overwrite --out "$out"
        wait_step 4
        signalled "$signal"
        grep -q "^checkpoint $out/ckpt-[0-9]*.h5; continue with --resume auto --out '$out'\$" "$log"
        # Ranks get SIGUSR1; what they say and record is what the user sent.
        grep -q "^stopped by SIG$signal after " "$log"
        [ "$(jq -r 'select(.record == "end") | .reason' "$out/metrics.jsonl")" = "stopped by SIG$signal" ]
        [[ $signal == USR1 || $(grep -c SIGUSR1 "$log") -eq 0 ]]
        if [[ $signal == USR1 ]]; then [ "$status" -eq 0 ] && continue; fi
        [ "$status" -eq $((128 + $(kill -l "$signal"))) ]
        grep -q "^run.sh: stopped by SIG$signal (exit code $status)\$" "$log"
        grep -q "^run.sh: checkpoint $out/ckpt-[0-9]*.h5\$" "$log"
        [ "$(tail -n 1 "$log")" = \
            "run.sh: continue with: $root/scripts/run.sh -np 1 ${words[*]} --epochs 100000 --resume auto --out '$out'" ]
    done
}

@test "while algorithms are measured: no checkpoint is promised" {
    XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache launch_on 0 train --data "$tiny" --model resnet18 --out "$out"
    # Until the process catches SIGTERM.
    for _ in {1..3000}; do
        mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$job/status")
        ((!(16#$mask >> 14 & 1))) || break
        sleep 0.02
    done
    signalled TERM
    [ "$status" -eq 143 ]
    [ "$(tail -n 1 "$log")" = "no checkpoint yet; start again with the same command" ]
    [ -z "$(ls "$out" 2>/dev/null)" ]
}

@test "SIGUSR1 while algorithms are measured: the rest is left to the rule, and no step begins" {
    XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache launch_on 0 train --data "$tiny" --threads 1 --model resnet18 --out "$out"
    for _ in {1..3000}; do
        ! grep -q 'measuring the algorithms of' "$log" || break
        sleep 0.02
    done
    signalled USR1
    [ "$status" -eq 0 ]
    grep '^stopped by SIGUSR1 after 0 steps' "$log"
    jq -es '.[0].algorithms_by_rule > 0 and all(.record != "step")' "$out/metrics.jsonl"
    "$dptrain" report "$out/metrics.jsonl"
}

@test "during validation: the step before it is saved, and the run continues with the validation" {
    "$dptrain" data synth digits --out "$BATS_TEST_TMPDIR/long" --train 64 --val 10000
    words+=(--ema 0.5) endless+=(--ema 0.5)
    for list in words endless; do
        declare -n line=$list
        line=("${line[@]/$tiny/$BATS_TEST_TMPDIR/long}")
    done
    # Nearly all the time is validation.
    for resume in none auto auto auto auto; do
        launch_on 0 "${endless[@]}" --resume "$resume"
        wait_step "${step:-0}"
        signalled TERM
        [ "$status" -eq 143 ]
        named_checkpoint
        ! grep -q ', during validation$' "$log" || break
    done
    grep -q ', during validation$' "$log"
    named_checkpoint
    continues 0 "$step"
}

@test "ranks with different batch norm statistics: the last checkpoint is named, and why it is not newer" {
    mpirun_waits
    launch_on 2 "${endless[@]}" --model mnist-cnn-bn --checkpoint-every 3
    wait_step 3
    signalled TERM
    [ "$status" -eq 1 ]
    named_checkpoint
    # Saved as usual, or during validation, when rank 0 has the averages.
    grep -q '^not saved: the ranks hold different running statistics' "$log" || ((step % 3 == 0 || step % 2 == 0))
}

@test "signals at random moments: each ends the run in time, and the losses stay the same" {
    n=2
    [[ -z ${DPTRAIN_TEST_SLOW:-} ]] || n=100
    for ((i = 0; i < n; i++)); do
        resume=none signal=$((i % 2 ? 15 : 2))
        [[ ! -e $out/metrics.jsonl ]] || resume=auto
        launch_on $((i % 4 == 3 ? 2 : 0)) "${words[@]}" --out "$out" --checkpoint-every 1 --epochs 100000 --resume "$resume"
        sleep 0.$((RANDOM % 9 + 1))
        signalled "$signal"
        [ "$status" -eq $((i % 4 == 3 ? 1 : 128 + signal)) ]
    done
    last=0
    [[ ! -e $out/metrics.jsonl ]] || last=$(jq -s 'map(select(.record == "step") | .step) | max // 0' "$out/metrics.jsonl")
    # Ranks and a single process add in different orders.
    if ((n == 2)); then continues 0 $((last + 2)) --checkpoint-every 1; fi
}
