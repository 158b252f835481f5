#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain forecast from two hosts against real runs on four and eight, whose ports the kernel limits (tbf), so that the
# network decides and not the CPUs that they share. Sums go around a ring, eagerly: OpenMPI's rendezvous costs more on four
# hosts than on two (results/predicted.md). Takes a quarter of an hour: only with --slow. FORECAST_TABLE=FILE receives the
# table for results/predicted.md.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster
load jobs

ring=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4
    --mca btl_tcp_eager_limit 1048576 --mca btl_tcp_rndv_eager_limit 1048576)

setup_file() {
    [[ -n ${DPTRAIN_TEST_SLOW-} ]] || return 0
    cluster_try 8 || return 0
    cluster_trust
    jobs_setup 640 64
    cluster_limit 20mbit 64k || export no_tbf="this kernel has no tbf"
}

teardown_file() { cluster_down; }

setup() {
    slow
    cluster_or_skip
    [[ -z ${no_tbf-} ]] || skip "$no_tbf"
}

places() { # N
    local i list=
    for ((i = 1; i <= $1; i++)); do list+=${list:+,}node$i:1; done
    echo "$list"
}

# From 256 KiB: tbf lets the beginning of smaller messages pass at once.
measure() { # NAME
    on node1 -H "$(places 2)" "${ring[@]}" -- bench comm --test all_reduce -b 256K -e 4M -f 2 --inplace in --budget 1 \
        --out "$1.jsonl"
}

# The median step after the first ten.
median() { # FOLDER
    jq -s '[.[] | select(.record == "step" and .step >= 10).step_sec] | sort | .[length / 2 | floor]' \
        "$cluster/shared/$1/metrics.jsonl"
}

run_on() { # N NAME MODEL BATCH STEPS
    on node1 -H "$(places "$1")" "${ring[@]}" -- train --model "$3" --batch $(($1 * $4)) --threads 1 --algorithms fixed --no-eval \
        --check-replicas off --data "$tiny" --steps "$5" --out "$2"
}

# Forecast and measured step, and whether the interval holds it. Sets off, in percent, and inside.
compare() { # HOSTS ALONE NETWORK RUN LABEL
    local said real
    said=$("$DPTRAIN_BIN" forecast "$cluster/shared/$2" "$cluster/shared/$3.jsonl" --hosts "$1" --algorithm ring \
        --format json)
    real=$(median "$4")
    off=$(jq --argjson real "$real" '100 * (.points[0].step_sec / $real - 1)' <<<"$said")
    inside=$(jq --argjson real "$real" '.points[0] | if .step_low_sec <= $real and $real <= .step_high_sec then 1 else 0 end' \
        <<<"$said")
    jq -r --arg name "$5" --argjson hosts "$1" --argjson real "$real" --argjson off "$off" '.points[0] | [$name, $hosts,
        ([.step_sec, .step_low_sec, .step_high_sec, $real][] * 1e3 | round), ($off * 10 | round / 10)] |
        "| " + (map(tostring) | join(" | ")) + " |"' <<<"$said" | tee -a "${FORECAST_TABLE:-/dev/null}" >&3
}

within() { awk -v off="$off" -v most="$1" 'BEGIN { exit !(off <= most && off >= -most) }'; } # PERCENT

@test "from 2 hosts at 20 Mbit/s: 4 hosts within 5 %, 8 within 20 %, both in the 90 % interval" {
    cluster_limit 20mbit 64k
    run_on 1 alone lenet5 8 120
    measure two
    run_on 4 four lenet5 8 30
    compare 4 alone two four "lenet5, batch 8, 20 Mbit/s"
    [ "$inside" -eq 1 ]
    within 5
    run_on 8 eight lenet5 8 30
    compare 8 alone two eight "lenet5, batch 8, 20 Mbit/s"
    [ "$inside" -eq 1 ]
    within 20
}

@test "20 settings of model, batch and rate: 9 of 10 measured steps lie in the 90 % interval" {
    n=0
    for batch in 4 16; do
        run_on 1 "mlp-$batch" mlp "$batch" 120
        run_on 1 "lenet5-$batch" lenet5 "$batch" 120
    done
    for rate in 20 30 40 50 60; do
        cluster_limit "${rate}mbit" 64k
        measure "at$rate"
        for model in mlp lenet5; do
            for batch in 4 16; do
                run_on 4 "four$rate-$model-$batch" "$model" "$batch" 24
                compare 4 "$model-$batch" "at$rate" "four$rate-$model-$batch" "$model, batch $batch, $rate Mbit/s"
                n=$((n + inside))
            done
        done
    done
    echo "$n of 20"
    [ "$n" -ge 18 ]
}
