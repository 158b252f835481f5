#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# When training evaluates, and on which samples: --eval-every, --eval-samples, --no-eval, --val-split; and what follows
# from it: --target, --keep-best, --patience.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 4 steps per epoch.
setup_file() { make_tiny 80 50; }

# Prints each evaluation as EPOCH or EVALUATION and its step.
evaluated() { # FOLDER
    jq -r 'select((.record == "epoch" or .record == "evaluation") and .val_loss != null) | "\(.record)\(.step)"' \
        "$1/metrics.jsonl" | xargs
}

run_for() { # RANKS FOLDER ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --model mlp --batch 20 --threads 1 --algorithms fixed --out "$2" "${@:3}"
}

@test "--eval-every: epochs or steps, and always the last step; the bits of training stay" {
    run_for 0 "$out-1" --epochs 4
    [ "$(evaluated "$out-1")" = "epoch4 epoch8 epoch12 epoch16" ]
    run_for 0 "$out-3" --epochs 4 --eval-every 3 >"$BATS_TEST_TMPDIR/said"
    [ "$(evaluated "$out-3")" = "epoch12 epoch16" ]
    [ "$(grep -c '^epoch .* validation loss' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    grep -q '^epoch 1  train loss [0-9.]* accuracy [0-9.]*  [0-9.]* images/s' "$BATS_TEST_TMPDIR/said"
    run_for 0 "$out-s" --epochs 4 --eval-every 6s >"$BATS_TEST_TMPDIR/said"
    [ "$(evaluated "$out-s")" = "evaluation6 epoch12 epoch16" ]
    grep -q '^step 6  validation loss [0-9.]* accuracy [0-9.]*' "$BATS_TEST_TMPDIR/said"
    check_records "$out"-{1,3,s}/metrics.jsonl
    losses "$out-1" | diff - <(losses "$out-3")
    losses "$out-1" | diff - <(losses "$out-s")
    # What each run's last evaluation found.
    for of in 1 3 s; do jq -r 'select(.step == 16) | .val_loss // empty' "$out-$of/metrics.jsonl"; done | uniq | wc -l | grep -x 1
}

@test "--eval-every can change on resume, and plateau follows scheduled evaluations alone" {
    plateau=(--schedule plateau --plateau-patience 1 --plateau-threshold 1000 --eval-every 2)
    run_for 0 "$out-a" "${plateau[@]}" --epochs 7
    # Ends after an epoch that a longer run does not evaluate.
    run_for 0 "$out-b" "${plateau[@]}" --epochs 3
    [ "$(evaluated "$out-b")" = "epoch8 epoch12" ]
    run_for 0 "$out-b" --resume auto --epochs 7
    losses "$out-a" | diff - <(losses "$out-b")
    jq -es 'map(select(.record == "step") | .lr) | unique | length > 1' "$out-a/metrics.jsonl"
    run_for 0 "$out-b" --resume auto --epochs 9 --eval-every 1
    [ "$(evaluated "$out-b")" = "epoch8 epoch12 epoch16 epoch24 epoch28 epoch32 epoch36" ]
}

@test "--eval-samples: evenly spaced samples, the same on any number of ranks; all of them is the default" {
    for n in 0 2; do run_for "$n" "$out-$n" --steps 4 --reproducible 2 --eval-samples 7 >"$BATS_TEST_TMPDIR/said"; done
    grep -q '^epoch 1 .* validation loss [0-9.]* accuracy [0-9.]* (7 samples)' "$BATS_TEST_TMPDIR/said"
    value() { jq -r 'select(.record == "epoch") | .val_loss' "$1/metrics.jsonl"; }
    [ "$(value "$out-0")" = "$(value "$out-2")" ]
    jq -es 'map(select(.record == "epoch")) | all(.val_accuracy * 7 | . - round | fabs < 1e-9)' "$out-0/metrics.jsonl"
    run_for 0 "$out-all" --steps 4 --reproducible 2
    run_for 0 "$out-more" --steps 4 --reproducible 2 --eval-samples 1000
    [ "$(value "$out-all")" = "$(value "$out-more")" ]
    [ "$(value "$out-all")" != "$(value "$out-0")" ]
}

@test "--no-eval: no evaluation, and null in the records" {
    run_for 2 "$out" --epochs 2 --no-eval >"$BATS_TEST_TMPDIR/said"
    [ -z "$(evaluated "$out")" ]
    [ "$(grep -c '^epoch .*validation' "$BATS_TEST_TMPDIR/said")" -eq 0 ]
    [ "$(grep -c '^epoch ' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    check_records "$out/metrics.jsonl"
    run "$dptrain" train --data "$tiny" --no-eval --eval-every 2 --out "$out-none"
    [ "$status" -eq 2 ]
    [[ $output == *"--no-eval and --eval-every are mutually exclusive"* ]]
    # Asking for evaluations on resume turns them on again.
    run_for 2 "$out" --resume auto --epochs 3 --eval-samples 10
    [ "$(evaluated "$out")" = epoch12 ]
}

@test "--target: any metric of the task, in its direction; --target-accuracy is the main one" {
    run_for 2 "$out-loss" --epochs 50 --target loss=2.2 >"$BATS_TEST_TMPDIR/said"
    grep -q '^target reached' "$BATS_TEST_TMPDIR/said"
    jq -es 'map(select(.record == "epoch").val_loss) | last <= 2.2 and all(.[:-1][]; . > 2.2)' "$out-loss/metrics.jsonl"
    run_for 2 "$out-a" --epochs 50 --target accuracy=0.25
    run_for 2 "$out-b" --epochs 50 --target-accuracy 0.25
    losses "$out-a" | diff - <(losses "$out-b")
    # What is reached stays reached in a resumed run; another target counts from the same validations.
    before=$(losses "$out-a" | wc -l)
    on_ranks 0 train --out "$out-a" --resume auto | grep 'target reached'
    on_ranks 0 train --out "$out-a" --resume auto --target loss=100 | grep 'target reached'
    [ "$(losses "$out-a" | wc -l)" -eq "$before" ]
    run run_for 0 "$out-miss" --epochs 1 --target loss=0.000001
    [ "$status" -eq 1 ]
    [[ $output == *"--target loss=0.000001 was not reached: the best validation loss was "* ]]
    run run_for 0 "$out-none" --epochs 1 --target map=0.5
    [ "$status" -eq 2 ]
    [[ $output == *"--target map=0.5: evaluations of this task measure loss, accuracy"* ]]
}

# The steps of the checkpoints in a folder, newest last.
kept() { # FOLDER
    basename -a "$1"/ckpt-*.h5 | sed 's/ckpt-0*//; s/\.h5//' | xargs
}

# The first step of the highest validation accuracy.
best_of() { # FOLDER
    jq -rs 'map(select(.val_accuracy != null)) | sort_by(-.val_accuracy, .step)[0].step' "$1/metrics.jsonl"
}

@test "--keep-best: the best validation has a checkpoint, which is never pruned, also in a resumed run" {
    wild=(--lr 0.1 --schedule constant --keep 1 --keep-best --eval-every 3s --checkpoint-every 4)
    run_for 2 "$out" "${wild[@]}" --steps 20 >"$BATS_TEST_TMPDIR/said"
    best=$(best_of "$out")
    echo "best step $best; kept: $(kept "$out")"
    [ "$best" -lt 20 ]
    [ "$(kept "$out")" = "$best 20" ]
    grep -q "^best checkpoint $out/ckpt-0*$best.h5: validation accuracy 0\." "$BATS_TEST_TMPDIR/said"
    "$dptrain" checkpoint show "$out/ckpt-000000000020.h5" | grep -Eq "^best_step +$best$"
    on_ranks 0 train --out "$out" --resume auto --threads 1 --steps 44 >"$BATS_TEST_TMPDIR/said"
    grep -q 'resumed from .*ckpt-000000000020' "$BATS_TEST_TMPDIR/said"
    best=$(best_of "$out")
    [ "$(kept "$out")" = "$(printf '%s\n' "$best" 44 | sort -nu | xargs)" ]
    # Without it, the next checkpoint prunes the best like any other.
    on_ranks 0 train --out "$out" --resume auto --threads 1 --steps 48 --no-keep-best >"$BATS_TEST_TMPDIR/said"
    [ "$(kept "$out")" = 48 ]
}

@test "--patience: evaluations without a better one end the run, also a resumed one; DIR/best names the best" {
    # The rate is far too high for accuracy to rise for long.
    wild=(--lr 0.1 --schedule constant --patience 2 --eval-every 3s --epochs 50)
    run_for 2 "$out" "${wild[@]}" >"$BATS_TEST_TMPDIR/said"
    grep '^stopped early (no better accuracy in 2 evaluations) after' "$BATS_TEST_TMPDIR/said"
    "$dptrain" report html "$out" | grep -c 'Incomplete' | grep -x 0
    best=$(best_of "$out")
    last=$(jq -rs 'map(select(.val_accuracy != null)) | sort_by(.step)[-3].step' "$out/metrics.jsonl")
    [ "$best" -eq "$last" ]
    "$dptrain" eval "$out/best" >"$BATS_TEST_TMPDIR/eval"
    grep -q "^checkpoint  $out/ckpt-0*$best.h5\$" "$BATS_TEST_TMPDIR/eval"
    run on_ranks 0 train --resume "$out/best/" --out "$out"
    [ "$status" -eq 2 ]
    [[ $output == *"$out holds checkpoints up to step"*"$out/ckpt-"*"$best.h5"* ]]
    # It has lost its patience, until it gets more; what it counted is in the checkpoint.
    on_ranks 0 train --out "$out" --resume auto --threads 1 | grep '^stopped early'
    before=$(losses "$out" | wc -l)
    on_ranks 0 train --out "$out" --resume auto --threads 1 --patience 3 --steps $((before + 3)) >"$BATS_TEST_TMPDIR/said"
    [ "$(losses "$out" | wc -l)" -gt "$before" ]
    best=$(best_of "$out")
    on_ranks 0 train --resume "$out/best" --out "$out-again" --threads 1 --steps $((best + 1)) >"$BATS_TEST_TMPDIR/said"
    grep -q "resumed from $out/ckpt-0*$best.h5" "$BATS_TEST_TMPDIR/said"
    run "$dptrain" eval "$out-again/best"
    [ "$status" -eq 3 ]
    [[ $output == *"step $best"*--keep-best* ]]
    run "$dptrain" train --data "$tiny" --no-eval --patience 2 --out "$out-none"
    [ "$status" -eq 2 ]
    [[ $output == *--patience* ]]
}

@test "--val-split: eval and shards have the run's validation images, wherever the data is; other data has none" {
    cd "$BATS_TEST_TMPDIR"
    "$dptrain" data synth shapes --out photos --train 40 --val 0 >/dev/null
    small=(--model mlp --input-size 16 --batch 10 --threads 1 --algorithms fixed)
    on_ranks 2 train --data photos "${small[@]}" --epochs 2 --val-split 0.2 --out "$out" >"$BATS_TEST_TMPDIR/said"
    grep -q '32 training, 8 validation images' "$BATS_TEST_TMPDIR/said"
    loss=$(jq -r 'select(.step == 8).val_loss // empty' "$out/metrics.jsonl")
    evaluated_loss() { "$dptrain" eval "$out" --json "$BATS_TEST_TMPDIR/eval.json" "$@" >/dev/null && jq .loss "$BATS_TEST_TMPDIR/eval.json"; }
    same() { jq -en --argjson a "$loss" --argjson b "$1" '($a - $b) / $a | fabs < 1e-5'; }
    same "$(evaluated_loss)"
    mv photos moved
    same "$(evaluated_loss --data moved)"
    "$dptrain" data pack --from moved --out shards --val-split 0.2
    same "$(evaluated_loss --data shards)"
    "$dptrain" data synth shapes --out others --train 40 --val 0 --seed 9 >/dev/null
    run "$dptrain" eval "$out" --data others
    [ "$status" -eq 3 ]
    [[ $output == *"no validation samples"* ]]
    # What it cannot be.
    on_ranks 0 train --resume auto --out "$out" --data moved --epochs 3 >/dev/null
    for wrong in "--resume auto --data moved --val-split 0.3" "--data $tiny --val-split 0.2" "--data shards --val-split 0.2" \
        "--data moved --val-split 20"; do
        # shellcheck disable=SC2086 # words
        run "$dptrain" train $wrong "${small[@]}" --out "$out"
        echo "$wrong: $output"
        [ "$status" -eq 2 ]
        [[ $output == *--val-split* ]]
    done
}
