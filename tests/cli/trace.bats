#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --trace: a timeline of every rank, in a file for trace viewers.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    trace=$BATS_TEST_TMPDIR/trace.json
}

setup_file() { make_tiny 300 64; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 --batch 20 --out "$out" \
        --trace "$trace" "${@:2}"
}

# Spans with their ends in whole nanoseconds. The conditions below start from this list.
# shellcheck disable=SC2016 # jq's variables
spans='[.traceEvents[] | select(.ph == "X")
    | {pid, tid, name, cat, step: .args.step, bytes: .args.bytes, start: (.ts * 1000 | round),
       end: ((.ts + .dur) * 1000 | round)}]'

holds() { # CONDITION [JQ-ARGUMENTS...]
    jq -e "${@:2}" "$spans as \$spans | $1" "$trace" >/dev/null || {
        echo "does not hold: $1"
        return 1
    }
}

# Spans of a thread are nested or disjoint: each ends before the one that was open when it began.
well_formed() {
    jq -e . "$trace" >/dev/null
    # shellcheck disable=SC2016
    holds '$spans | length > 0 and all(.start >= 0 and .end >= .start)'
    # shellcheck disable=SC2016
    holds '$spans | group_by([.pid, .tid]) | all(sort_by([.start, -.end])
        | reduce .[] as $s ({open: [], ok: true};
            .open |= map(select(. > $s.start)) | .ok = (.ok and (.open | all(. >= $s.end))) | .open += [$s.end])
        | .ok)'
    # Also in file order, because some viewers need the outer span first.
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.tid == 1)] | group_by(.pid) | all(. == sort_by([.start, -.end]))'
}

# The phases and layers of steps FIRST to LAST on every rank, each within its parent.
steps_are_whole() { # RANKS FIRST LAST
    # shellcheck disable=SC2016
    holds '[range($n)] == ([$spans[].pid] | unique)' --argjson n "$1"
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.name == "step")] | group_by(.pid) | length == $n
        and all(map(.step) == [range($first; $last + 1)])' \
        --argjson n "$1" --argjson first "$2" --argjson last "$3"
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.name == "step")] as $steps | ["data wait", "forward", "backward", "allreduce", "optimizer"]
        | all(. as $name | [$spans[] | select(.name == $name)] as $parts | ($parts | length) >= ($steps | length)
            and all($parts[]; . as $p | any($steps[];
                .pid == $p.pid and .step == $p.step and .start <= $p.start and $p.end <= .end)))'
    # Fused layers have a joint name: conv1+relu1+pool1.
    local layers
    layers=$("$dptrain" info --model lenet5 | awk 'NF == 6 && NR > 3 && $1 != "total" { print $1 }' |
        jq -Rn '[inputs] | sort')
    [ "$(jq length <<<"$layers")" -eq 10 ]
    # shellcheck disable=SC2016
    holds '["forward", "backward"] | all(. as $pass | [$spans[] | select(.name == $pass)] | all(. as $p
        | [$spans[] | select(.cat != "phase" and .pid == $p.pid and .start >= $p.start and .end <= $p.end)]
        | map(.name | split("+")[]) | sort == $layers))' --argjson layers "$layers"
}

@test "1, 2 and 3 ranks: every phase and layer of every step, on tracks without overlap" {
    for n in 1 2 3; do
        train "$n" --steps 7 --checkpoint-every 3 --overwrite | grep "trace in $trace; open it in"
        well_formed
        steps_are_whole "$n" 0 6
        # shellcheck disable=SC2016
        holds '[$spans[] | select(.name == "allreduce")] | all(.bytes > 4 * 431080)'
        # shellcheck disable=SC2016
        holds '$spans | group_by(.pid) | all([.[] | select(.name == "evaluation") | .step] == [6]
            and ([.[] | select(.name == "checkpoint") | .step] == [2, 5, 6])
            and ([.[] | select(.name == "fill") | .step] == [range(7)]))'
        # The writer's thread belongs to rank 0.
        # shellcheck disable=SC2016
        holds '[$spans[] | select(.name == "copy" or .name == "write") | [.pid, .name, .step]]
            == [[2, 5, 6][] as $step | [0, "copy", $step], [0, "write", $step]]'
        # shellcheck disable=SC2016
        holds '[$spans[] | select(.name == "fill") | .tid] | unique | length == 1 and .[0] != 1'
    done
}

@test "processes and threads have names; the file has a description" {
    train 2 --steps 3
    holds '[.traceEvents[] | select(.name == "process_name") | .pid, .args.name]
        | .[0] == 0 and (.[1] | test("^rank 0 on .+")) and .[2] == 1 and (.[3] | test("^rank 1 on .+"))'
    holds '[.traceEvents[] | select(.name == "thread_name") | [.pid, .args.name]]
        == [[0, "training"], [0, "loader"], [0, "checkpoint"], [1, "training"], [1, "loader"]]'
    # One host, one clock.
    holds '.otherData | .model == "lenet5" and .ranks == 2 and .clock_error_sec == 0 and (.dptrain | length > 0)'
}

@test "--trace-steps: exactly that many, on every track; 0: all" {
    train 2 --steps 9 --checkpoint-every 2 --trace-steps 4
    well_formed
    steps_are_whole 2 0 3
    # shellcheck disable=SC2016
    holds '[$spans[].step] | max == 3'
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.name == "write") | .step] == [1, 3]'
    train 0 --steps 9 --trace-steps 0 --overwrite
    steps_are_whole 1 0 8
}

@test "a resumed run is traced from its own first step; the checkpoint does not contain the option" {
    train 2 --steps 5 --checkpoint-every 5
    "$dptrain" checkpoint show "$out" | grep -c trace && return 1
    train 2 --resume auto --steps 8 --trace-steps 2
    well_formed
    steps_are_whole 2 5 6
    rm "$trace"
    mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" train --out "$out" --resume auto --steps 9 --data "$tiny"
    [ ! -e "$trace" ]
}

@test "each part of a batch has a forward and a backward span" {
    train 2 --steps 3 --accumulate 2
    well_formed
    steps_are_whole 2 0 2
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.name == "backward") | [.pid, .step]] | group_by(.) | length == 6 and all(length == 2)'
}

@test "reaching a target also ends the trace" {
    train 2 --model mlp --epochs 50 --target-accuracy 0.3
    well_formed
    # shellcheck disable=SC2016
    holds '[$spans[] | select(.name == "evaluation")] | length >= 2'
}

@test "an unwritable file is reported before training" {
    for n in 0 2; do
        trace=/proc/nothing/trace.json
        run train "$n"
        echo "$output"
        [ "$status" -eq 4 ]
        [[ $output == *"--trace /proc/nothing/trace.json: "* ]]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
        trace=$BATS_TEST_TMPDIR
        run train "$n"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ $output == *"is a folder"* ]]
        run train "$n" --trace-steps -1
        [ "$status" -eq 2 ]
    done
    # Nothing was started, so the corrected command can use the same folder.
    [ ! -e "$out/metrics.jsonl" ]
    trace=$BATS_TEST_TMPDIR/trace.json
    train 0 --steps 2
}

small_disk() { # a shell inside mounts of its own
    mount -t tmpfs -o size=16k tmpfs "$BATS_TEST_TMPDIR/disk"
    "$dptrain" train --data "$tiny" --batch 20 --steps 9 --threads 1 --out "$out" \
        --trace "$BATS_TEST_TMPDIR/disk/trace.json" || status=$?
    ls -A "$BATS_TEST_TMPDIR/disk"
    return "${status:-0}"
}

@test "a disk that fills up while the trace is written: code 4 and the path, no file left" {
    mkdir "$BATS_TEST_TMPDIR/disk"
    unshare -m mount -t tmpfs tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null || skip "mounting a tmpfs is not allowed here"
    export -f small_disk
    export dptrain out BATS_TEST_TMPDIR
    run unshare -m bash -c small_disk
    echo "$output"
    [ "$status" -eq 4 ]
    [[ $output == *"cannot write the trace $BATS_TEST_TMPDIR/disk/trace.json: No space left"* ]]
    [[ ${lines[-1]} == *"error"* ]]
    [ -e "$out/ckpt-000000000009.h5" ]
}
