#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --max-time: a run whose time is over ends with a checkpoint and exit code 0, and goes on when it is started again.
# shellcheck disable=SC2154 # common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 2 steps of 64 in an epoch.
setup_file() { make_tiny 128 64; }

setup() {
    common_setup
    words=(train --data "$tiny" --threads 1 --algorithms fixed --schedule constant --no-eval --out "$out")
}

# Sets step: the last of the metrics, whose checkpoint is intact and named for the next start.
ended_in_time() { # OUTPUT
    step=$(jq -s 'map(select(.record == "end")) | last.step' "$out/metrics.jsonl")
    [ "$(jq -rs 'map(select(.record == "end")) | last.reason' "$out/metrics.jsonl")" = "time limit reached" ]
    "$dptrain" checkpoint verify "$out/ckpt-$(printf %012d "$step").h5"
    [[ $1 == *"--resume auto --out $out"* ]]
}

# Of the only process in the metrics: the last step began in time, and not so early that others would have fitted. A slow start
# leaves time for one step.
only_in_time() { # LIMIT
    jq -es --argjson limit "$1" '
        (map(select(.record == "run")) | first.start_sec) as $start
        | (map(select(.record == "step") | .step_sec)) as $steps
        | ($steps | .[1:] | max // 0) as $longest
        | ($start + ($steps | add)) as $over
        | if $steps | length == 1 then $over > $limit / 2
          else $over - $steps[-1] <= $limit and $over + 3 * $longest + 0.5 > $limit / 2 end' "$out/metrics.jsonl"
}

@test "a run ends at its limit, with 0, and goes on to the same end" {
    for np in 0 2; do
        rm -rf "$out"
        run on_ranks "$np" "${words[@]}" --epochs 100000 --max-time 2s
        echo "$output"
        [ "$status" -eq 0 ]
        ended_in_time "$output"
        only_in_time 2
        run on_ranks "$np" "${words[@]}" --steps $((step + 3)) --resume auto
        echo "$output"
        [ "$status" -eq 0 ] # the limit was that start's
        [ "$(losses "$out" | wc -l)" -eq $((step + 3)) ]
        [ "$(jq -rs 'map(select(.record == "end")) | last.reason' "$out/metrics.jsonl")" = finished ]
    done
}

@test "a limit shorter than the start and the first step leaves one step" {
    for i in 1 2; do
        run on_ranks 2 "${words[@]}" --epochs 100000 --max-time 0.001s --resume auto
        echo "$output"
        [ "$status" -eq 0 ]
        ended_in_time "$output"
        [ "$step" -eq "$i" ]
    done
}

@test "the limit counts from the first start of a job" {
    DPTRAIN_JOB_AGE=7200 run "$dptrain" "${words[@]}" --epochs 100000 --max-time 2h
    echo "$output"
    [ "$status" -eq 0 ]
    ended_in_time "$output"
    [ "$step" -eq 1 ]
    for odd in 1e9 -7200 now 99999999999999999999 ""; do
        DPTRAIN_JOB_AGE=$odd run "$dptrain" "${words[@]}" --steps 4 --overwrite --max-time 1h
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(losses "$out" | wc -l)" -eq 4 ]
    done
}

@test "run.sh --restarts does not start again what ended in time" {
    run "$root/scripts/run.sh" -np 2 --restarts 3 -- "${words[@]}" --epochs 100000 --max-time 3s
    echo "$output"
    [ "$status" -eq 0 ]
    ended_in_time "$output"
    [ "$(jq -r 'select(.record == "job_end") | [.restarts, .reason] | @tsv' "$out/job.jsonl")" = $'0\ttime limit reached' ]
}

@test "what is not a duration is refused" {
    for odd in 2 0s -1m 2hours "" 1e400s; do
        run "$dptrain" "${words[@]}" --max-time "$odd"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ $output == *--max-time* ]]
    done
    [ ! -e "$out" ]
}
