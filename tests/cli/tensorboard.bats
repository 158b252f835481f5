#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --tensorboard, read by TensorBoard's reader.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    board=$BATS_TEST_TMPDIR/board
}

# 100 digits in batches of 20: 5 steps per epoch.
short_run() { # ARGUMENTS...
    [ -d "$BATS_FILE_TMPDIR/digits" ] ||
        "$dptrain" data synth digits --out "$BATS_FILE_TMPDIR/digits" --train 100 --val 20
    on_ranks 2 train --data "$BATS_FILE_TMPDIR/digits" --threads 1 --out "$out" \
        --tensorboard "$board" "$@"
}

need_reader() {
    "$python" -c 'import tensorboard' 2>/dev/null ||
        skip "TensorBoard is not in ${python%/bin/python}; scripts/install_deps.sh --test installs it"
}

# Prints TAG STEP VALUE, each tag in the file's order.
read_back() { # FOLDER
    "$python" - "$1" <<'EOF' | sort -s -k 1,1
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
for tag in events.Tags()["scalars"]:
    for event in events.Scalars(tag):
        print(tag, event.step, repr(event.value))
EOF
}

# The same lines from the records; for repeated steps the newest counts.
expected() {
    jq -rs 'def newest(kind): map(select(.record == kind)) | group_by(.step) | map(last);
        (newest("step")[] | (.step + 1) as $at
            | "train/loss \($at) \(.loss)", "train/accuracy \($at) \(.accuracy)",
              "train/learning_rate \($at) \(.lr)", "train/images_per_sec \($at) \(20 / .step_sec)",
              (.gradient_norm // empty | "train/gradient_norm \($at) \(.)")),
        (newest("epoch")[] | "validation/loss \(.step) \(.val_loss)",
              "validation/accuracy \(.step) \(.val_accuracy)")' "$out/metrics.jsonl" | sort -s -k 1,1
}

# Tags and steps are equal, values up to the last bits of a float.
same_scalars() { # FILE FILE
    [ "$(wc -l <"$1")" -eq "$(wc -l <"$2")" ]
    paste -d ' ' "$1" "$2" | awk '{ d = $3 - $6; if (d < 0) d = -d; size = $6 < 0 ? -$6 : $6
        if (NF != 6 || $1 != $4 || $2 != $5 || d > 1e-6 * size) { print "differs: " $0; bad = 1 } }
        END { exit bad || NR == 0 }'
}

@test "TensorBoard reads the values in the records" {
    need_reader
    short_run --model mlp --batch 20 --steps 12 --clip-norm 1
    [ "$(find "$board" -type f | wc -l)" -eq 1 ]
    [[ $(ls "$board") =~ ^events\.out\.tfevents\.[0-9]{10}\..+\.[0-9]+$ ]]
    read_back "$board" >"$BATS_TEST_TMPDIR/read"
    expected >"$BATS_TEST_TMPDIR/expected"
    # 12 steps with 5 scalars; validation after steps 5, 10 and 12.
    [ "$(wc -l <"$BATS_TEST_TMPDIR/expected")" -eq 66 ]
    same_scalars "$BATS_TEST_TMPDIR/read" "$BATS_TEST_TMPDIR/expected"
}

@test "a resumed run continues its series, and a new run starts its own" {
    need_reader
    short_run --model mlp --batch 20 --epochs 3
    rm "$out/ckpt-000000000015.h5"
    # Continues after step 10, which has a validation.
    short_run --resume auto --epochs 4 | grep 'at step 10'
    [ "$(find "$board" -type f | wc -l)" -eq 2 ]
    read_back "$board" >"$BATS_TEST_TMPDIR/read"
    expected >"$BATS_TEST_TMPDIR/expected"
    [ "$(grep -c train/loss "$BATS_TEST_TMPDIR/read")" -eq 20 ]
    [ "$(awk '/validation.loss/ { print $2 }' "$BATS_TEST_TMPDIR/read" | xargs)" = "5 10 15 20" ]
    same_scalars "$BATS_TEST_TMPDIR/read" "$BATS_TEST_TMPDIR/expected"

    # Another run gets a folder in that folder, and goes on in it.
    cp "$BATS_TEST_TMPDIR/read" "$BATS_TEST_TMPDIR/first"
    short_run --model mlp --batch 20 --steps 3 --overwrite | grep "$board/run-2"
    short_run --resume auto --steps 5 | grep "$board/run-2"
    read_back "$board" | diff "$BATS_TEST_TMPDIR/first" -
    read_back "$board/run-2" >"$BATS_TEST_TMPDIR/read"
    expected >"$BATS_TEST_TMPDIR/expected"
    [ "$(grep -c train/loss "$BATS_TEST_TMPDIR/read")" -eq 5 ]
    same_scalars "$BATS_TEST_TMPDIR/read" "$BATS_TEST_TMPDIR/expected"

    # A start without a checkpoint continues those of the start before; in another output folder it is another run.
    rm "$out"/ckpt-*
    short_run --model mlp --batch 20 --steps 3 --resume auto | grep "events *$board/run-2"
    [ "$(find "$board/run-2" -type f | wc -l)" -eq 3 ]
    # However the folder is written.
    (cd "$BATS_TEST_TMPDIR" && board=./board/ short_run --resume auto --steps 4 | grep 'events *./board/run-2')
    from=$out out=$BATS_TEST_TMPDIR/elsewhere
    short_run --resume "$from" --steps 4 | grep "events *$board/run-3"
    # What another program left in that file is no path to write to.
    echo "$board/../elsewhere" >"$out/tensorboard.txt"
    short_run --resume auto --steps 5 | grep "events *$board/run-4"
    # Nor does a run come to another's events by another option.
    cp -r "$board" "$board-2"
    board=$board-2
    short_run --resume auto --steps 6 | grep "events *$board/run-5"
}

@test "the folder belongs to one start, not to the checkpoint" {
    short_run --model mlp --batch 20 --steps 3
    rm -r "$board"
    mpi_flags 1
    mpirun "${MPI_FLAGS[@]}" -np 1 "$dptrain" train --data "$BATS_FILE_TMPDIR/digits" --threads 1 --out "$out" \
        --resume auto --steps 5
    [ ! -e "$board" ]
}

@test "a file truncated in its last record yields the others, and a resumed run continues from there" {
    need_reader
    short_run --model mlp --batch 20 --steps 3
    file=$(find "$board" -type f)
    read_back "$board" | grep -v validation >"$BATS_TEST_TMPDIR/whole"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/whole")" -eq 12 ]
    for bytes in 1 4 30; do
        truncate -s "-$bytes" "$file"
        read_back "$board" | diff "$BATS_TEST_TMPDIR/whole" -
    done
    # It does not hide the output of a later start either.
    short_run --resume auto --steps 5
    read_back "$board" | awk '/train.loss/ { print $2 } /validation.loss/ { print "v" $2 }' | xargs |
        grep -x '1 2 3 4 5 v5'
}

@test "an unwritable folder is an error before anything is trained or removed" {
    short_run --model mlp --batch 20 --steps 3
    before=$(cat "$out/metrics.jsonl")
    board=/proc/dptrain
    run short_run --model mlp --batch 20 --steps 3 --overwrite
    echo "$output"
    [ "$status" -eq 4 ]
    [[ $output == *"--tensorboard: cannot create the folder /proc/dptrain"* ]]
    board=$out/metrics.jsonl
    run short_run --model mlp --batch 20 --steps 3 --overwrite
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"$board is a file"* ]]
    [ "$before" = "$(cat "$out/metrics.jsonl")" ]
    board=
    run short_run --model mlp --steps 3
    [ "$status" -eq 2 ]
    [[ $output == *"invalid --tensorboard ''"* ]]
}
