#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain forecast: from records of a real run and a network whose α and B are known; bad input is refused, and says what
# to record instead. The formulas are tested by tests/unit/test_forecast.c.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

bats_require_minimum_version 1.5.0

setup_file() {
    make_tiny 640 64
    export trained=$BATS_FILE_TMPDIR/trained
    common_setup
    "$dptrain" train --data "$tiny" --model lenet5 --steps 40 --batch 16 --threads 1 --out "$trained" >/dev/null
    # Times that are known: forward 0.03 s, backward 0.06 s, optimizer 0.01 s; steps of 0.1 s, with noise of 2 %.
    jq -c 'if .record == "step" then .step_sec = 0.1 * (1 + 0.02 * ((.step * 7 % 11) - 5) / 5) | .exposed_comm_sec = 0
        elif .record == "profile" then .data_wait_sec = 0 | .forward_sec = 0.03 | .backward_sec = 0.06 |
            .optimizer_sec = 0.01 | .other_sec = 0
        elif .record == "run" then .start_sec = 30
        elif .record == "epoch" and .eval_sec then .eval_sec = 8
        elif .record == "checkpoint" then .cost_sec = 2
        else . end' "$trained/metrics.jsonl" >"$BATS_FILE_TMPDIR/run.jsonl"
    export run_records=$BATS_FILE_TMPDIR/run.jsonl
    export backend
    backend=$(jq -r 'select(.record == "run") | .software.backend' "$run_records")
}

setup() {
    common_setup
    bench=$BATS_TEST_TMPDIR/bench.jsonl
    bench 2 >"$bench"
}

# A recording of all_reduce by recursive halving and doubling between HOSTS, with α = 50 us and B = 8 Gbit/s.
bench() { # HOSTS [HARDWARE ID [JQ FILTER]]
    jq -nc --argjson hosts "$1" --arg id "${2:-1a}" --arg backend "$backend" '
        {record: "bench_run", schema: 1, id: "ab\($hosts)", time: "2026-11-21T08:00:00Z", ranks: $hosts, threads: 1,
            options: {}, fingerprint: {hardware_id: $id, fabric_id: "2b", software_id: "3c",
            hardware: {cpu: "A", cpus: 2, device: "cpu"}, fabric: {hosts: $hosts}, software: {backend: $backend}}},
        (range(10; 27; 2) as $k | pow(2; $k) as $n | ($hosts | log2) as $s |
            (2 * $s * 5e-5 + 2 * ($hosts - 1) / $hosts * $n * 1e-9) as $t |
            {record: "bench", schema: 1, run: "ab\($hosts)", case: "comm", test: "all_reduce",
            key: {bytes: $n, count: ($n / 4), datatype: "float", redop: "sum", root: -1, in_place: true,
                communicator: "mpi", ranks: $hosts, hosts: $hosts},
            metrics: {line_rate_gbs: 1.25}, unit: "s", verdict: "ok", n: 20, per_sample: 1, n_disturbed: 0,
            disturbances: "", min: $t, p50: $t, p95: $t, p99: $t, max: $t, mean: $t, cv: 0, ci95: [$t, $t],
            slowest_rank: 0, slowest_share: 1, samples: [$t]}),
        {record: "bench_end", schema: 1, run: "ab\($hosts)", reason: "finished", n_points: 9, seconds: 1,
            recording_sec: 0}' | jq -c "${3:-.}"
}

forecast() { # ARGUMENTS...
    "$dptrain" forecast "$run_records" "$bench" "$@"
}

refused() { # CODE TEXT ARGUMENTS...
    run --separate-stderr "$dptrain" forecast "${@:3}"
    echo "$stderr"
    [ "$status" -eq "$1" ]
    [[ $stderr == *"$2"* ]]
    [ -z "$output" ]
}

@test "a known network: step, efficiency and limit are those of the formula, in any order of the files" {
    forecast --hosts 2,8 --format json >"$BATS_TEST_TMPDIR/json"
    "$dptrain" forecast "$bench" "$run_records" --hosts 2,8 --format json | jq 'del(.inputs)' | diff - <(jq 'del(.inputs)' \
        "$BATS_TEST_TMPDIR/json")
    # 431,080 parameters: one sum after backward. The slowest of 8 is between the mean and 2 % above.
    jq -e '.points[1] | .hosts == 8 and .limit == "compute" and .step_sec > 0.1 + 3e-4 + 14 / 8 * 431080 * 4e-9 and
        .step_sec < 0.102 + 3e-4 + 14 / 8 * 431100 * 4e-9 and .efficiency_low <= .efficiency and
        .efficiency <= .efficiency_high and .reasons == []' "$BATS_TEST_TMPDIR/json"
    jq -e '[.inputs[] | select(.origin == "assumed").name] == ["algorithm"]' "$BATS_TEST_TMPDIR/json"
}

@test "more hosts, other networks, assumed layers: at least ±8 points, and why" {
    forecast --hosts 8,9 --gbps 10,40 --format json >"$BATS_TEST_TMPDIR/json"
    jq -e '[.points[] | .reasons | length] == [0, 1, 1, 2]' "$BATS_TEST_TMPDIR/json"
    jq -e '[.points[1:][] | (.efficiency - .efficiency_low >= 0.0799) and
        ((.efficiency_high - .efficiency >= 0.0799) or .efficiency_high == 1)] | all' "$BATS_TEST_TMPDIR/json"
    jq -e '.inputs[] | select(.name == "network") | .origin == "given" and (.value | contains("ports'"'"' 10"))' \
        "$BATS_TEST_TMPDIR/json"
    forecast --hosts 4 --model resnet18 --batch 4 >"$BATS_TEST_TMPDIR/said"
    grep 'layer times .* assumed .* resnet18 was not measured' "$BATS_TEST_TMPDIR/said"
    grep '^\* at least ±8 points: layer times are assumed' "$BATS_TEST_TMPDIR/said"
}

@test "bf16 and buckets overlap as NCCL's, and the note says that the measured communicator has neither" {
    forecast --hosts 4 --wire bf16 --bucket 1M >"$BATS_TEST_TMPDIR/said"
    grep 'gradients .* given .* 842' "$BATS_TEST_TMPDIR/said"
    grep 'buckets .* given .* 1.0 MiB, summed during backward' "$BATS_TEST_TMPDIR/said"
    grep "^note: --wire bf16 and --bucket are NCCL's" "$BATS_TEST_TMPDIR/said"
}

@test "--job: start, steps, evaluations and checkpoints add up to hours" {
    forecast --hosts 4 --job --epochs 10 --samples 6400 --format json >"$BATS_TEST_TMPDIR/json"
    # 10 epochs of 100 steps; evaluations of 8 s on one rank, shared by four.
    jq -e '.points[0] | (.job_sec - (30 + 1000 * .step_sec + 10 * 2 + 10 * 2)) | fabs < 1e-6' "$BATS_TEST_TMPDIR/json"
    jq -e '[.inputs[] | select(.name | IN("start", "evaluation", "checkpoint")).origin] == ["measured", "measured", "measured"]' \
        "$BATS_TEST_TMPDIR/json"
    jq -c 'if .record == "run" then del(.start_sec) else . end' "$run_records" >"$BATS_TEST_TMPDIR/old.jsonl"
    "$dptrain" forecast "$BATS_TEST_TMPDIR/old.jsonl" "$bench" --hosts 4 --job |
        grep 'start .* assumed .* 0 s: the run did not record it'
}

@test "the record: report checks it, prints it, and draws it" {
    forecast --hosts 2,8,64 --gbps 25,100 --job --out "$out.jsonl" >/dev/null
    "$dptrain" report --check "$out.jsonl"
    "$dptrain" report "$out.jsonl" >"$BATS_TEST_TMPDIR/said"
    grep 'forecast of lenet5, 16 samples per rank' "$BATS_TEST_TMPDIR/said"
    grep '^ *64 .* 100 Gbit/s .* compute\|^ *64 .* 100 Gbit/s .* slowest rank' "$BATS_TEST_TMPDIR/said"
    grep 'at least ±8 points' "$BATS_TEST_TMPDIR/said"
    "$dptrain" report html "$out.jsonl" --out "$out.html" >/dev/null
    grep 'id="forecast"' "$out.html"
    grep "90 % interval" "$out.html" | grep -q "<svg"
}

@test "no network, no layer times, no hosts: refused, with what to record" {
    refused 3 "no measurement of the network" "$run_records" --hosts 4
    bench 1 >"$BATS_TEST_TMPDIR/one.jsonl"
    refused 3 "no all_reduce between hosts" "$run_records" "$BATS_TEST_TMPDIR/one.jsonl" --hosts 4
    refused 3 "no layer times" "$bench" --hosts 4
    refused 2 "expected --hosts" "$run_records" "$bench"
    refused 2 "invalid --hosts '2;4'" "$run_records" "$bench" --hosts '2;4'
    refused 2 "invalid --gbps '-1'" "$run_records" "$bench" --hosts 4 --gbps=-1
    refused 3 "no forecast from the others" "$run_records" "$bench" "$BATS_TEST_TMPDIR/none" --hosts 4
}

@test "records of different machines are refused" {
    bench 4 9f >"$BATS_TEST_TMPDIR/other.jsonl"
    refused 3 "records of different machines" "$run_records" "$bench" "$BATS_TEST_TMPDIR/other.jsonl" --hosts 4
    jq -c 'if .record == "run" then .software.backend = "oneDNN 9, vector" else . end' "$run_records" \
        >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 3 "trained with oneDNN 9, vector" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4
}

@test "one sample, layer times of another model, two models: refused" {
    jq -c 'select(.record != "step" or .step == 20)' "$run_records" >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 3 "1 timed step of lenet5" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4
    jq -c 'if .record == "profile" then .layers[0].name = "layer4.1.conv2" else . end' "$run_records" \
        >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 3 "layer times of another model: lenet5 has no layer layer4.1.conv2" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" \
        --hosts 4
    jq -c 'if .record == "profile" then .layers |= map(select(.name != "fc2")) else . end' "$run_records" \
        >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 3 "no time of lenet5's layer fc2" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4
    jq -c 'if .record == "run" then .n_parameters = 5 else . end' "$run_records" >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 3 "recorded 5 parameters" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4
    jq -c 'if .record == "run" then .options.model = "mlp" else . end' "$run_records" >"$BATS_TEST_TMPDIR/run.jsonl"
    refused 2 "choose one with --model" "$run_records" "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4
}

@test "a latency or bandwidth below zero is refused" {
    # shellcheck disable=SC2016 # of jq
    local below='if .record == "bench" then .p50 = (.key.bytes * 1e-9 - 5e-7) else . end'
    bench 2 1a "$below" >"$bench"
    refused 3 "latency of the network is below zero" "$run_records" "$bench" --hosts 4
    bench 2 1a 'if .record == "bench" then .p50 = 1e-3 - .key.bytes * 1e-12 else . end' >"$bench"
    refused 3 "bandwidth of the network is not above zero" "$run_records" "$bench" --hosts 4
}

@test "points of too few samples for an interval are marked: their error is assumed" {
    bench 2 1a 'if .record == "bench" and .key.bytes < 5000 then .ci95 = [null, null] | .n = 1 | .cv = null else . end' >"$bench"
    forecast --hosts 4 --format json >"$BATS_TEST_TMPDIR/json"
    jq -e '[.inputs[] | select(.name == "error of points") | .origin, .value] ==
        ["assumed", "10 % for 2 of 9 points: too few samples to tell"]' "$BATS_TEST_TMPDIR/json"
}

@test "few steps and steps of rank 0 alone are marked" {
    forecast --hosts 4 | grep '^note: fewer than 100 steps'
    jq -c 'if .record == "run" then .topology.ranks = 2 | .global_batch = 32 elif .record == "profile" then
        del(.rank_samples) else . end' "$run_records" >"$BATS_TEST_TMPDIR/run.jsonl"
    "$dptrain" forecast "$BATS_TEST_TMPDIR/run.jsonl" "$bench" --hosts 4 | grep "^note: only rank 0's steps"
}

@test "options without effect are told" {
    forecast --hosts 4 --epochs 9 | grep '^note: --epochs and --samples have no effect'
    forecast --hosts 4 --gflops 9 | grep '^note: --gflops and --input-size have no effect'
    forecast --hosts 4 --epochs 9 --job >"$BATS_TEST_TMPDIR/said"
    [ "$(grep -c 'no effect' "$BATS_TEST_TMPDIR/said")" -eq 0 ]
}

@test "steps of every rank are recorded, and count" {
    on_ranks 2 train --data "$tiny" --model lenet5 --steps 40 --batch 16 --threads 1 --out "$out" >/dev/null
    "$dptrain" report --check "$out/metrics.jsonl"
    [ "$(jq 'select(.record == "profile").rank_samples | length' "$out/metrics.jsonl")" -ge 50 ]
    "$dptrain" forecast "$out" "$bench" --hosts 4 | grep 'spread of steps .* measured .* steps of every rank'
}
