#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The profile at the end of a run: output and records. No assertion depends on time.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 300 64; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 --out "$out" "${@:2}"
}

profile() { # CONDITION of the one record
    jq -es "map(select(.record == \"profile\")) | length == 1 and (.[0] | $1)" "$out/metrics.jsonl" >/dev/null || {
        echo "does not hold: $1"
        return 1
    }
}

# No layer is above its bound, by products that are those of its algorithm; those with products have one.
bounded() {
    profile '[.layers[] | select(.gflops > 0)] | length > 0 and all(.bound != null)'
    profile '[.layers[] | .share_of_bound // 0, .share_of_peak] | all(. >= 0 and . <= 1)'
    profile '[.layers[] | select(.bound) | .forward_least_sec <= .forward_sec and .backward_least_sec <= .backward_sec
        and ((.forward_least_sec + .backward_least_sec) / (.forward_sec + .backward_sec) / .share_of_bound
            | . > 0.999999 and . < 1.000001) and .share_of_peak <= 1.000001 * .share_of_bound] | all'
    profile '.peak_gflops >= .measured_peak_gflops and (.peak_from | length) > 0'
}

@test "the record: shares of a step, layers in order of cost, counted products" {
    for n in 1 2; do
        train "$n" --batch 50 --steps 17 --overwrite
        profile ".steps == 7 and .ranks == $n and .peak_gflops > 0 and (.hints | length) <= 3"
        profile '[.data_wait_sec, .forward_sec, .backward_sec, .exposed_comm_sec, .optimizer_sec, .other_sec] | all(. >= 0)'
        profile '(.data_wait_sec + .forward_sec + .backward_sec + .exposed_comm_sec + .optimizer_sec + .other_sec)
            / .step_sec | . > 0.999999 and . < 1.000001'
        profile '[.layers[].name | split("+")[]] | sort == ["conv1", "conv2", "fc1", "fc2", "loss", "pool1", "pool2", "relu1", "relu2", "relu3"]'
        profile '[.layers[] | .forward_sec + .backward_sec] | . == (sort | reverse) and all(. > 0)'
        profile '([.layers[].share] | add) <= 1 and ([.layers[].forward_sec] | add) <= .forward_sec
            and ([.layers[].backward_sec] | add) <= .backward_sec'
        # 2 FLOPs per multiply-add of a rank's 50 / n samples; no gradient of the first layer's input.
        profile "[.layers[] | {(.name | split(\"+\")[0]): (.gflops * 1e9 * (.forward_sec + .backward_sec) * $n / 50)}] | add
            | [.conv1 / 1152000, .conv2 / 9600000, .fc1 / 2400000, .fc2 / 30000] | all(. > 0.999999 and . < 1.000001)"
        profile '[.layers[] | select(.operator == "relu" or .operator == "pool2d") | .gflops, .share_of_peak] | all(. == 0)'
        bounded
    done
}

@test "the output by default: five lines, the last a hint or the most expensive layer" {
    train 2 --batch 50 --steps 15 >"$BATS_TEST_TMPDIR/said"
    sed -n '/^profile/,$p' "$BATS_TEST_TMPDIR/said" >"$BATS_TEST_TMPDIR/block"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/block")" -eq 5 ]
    grep -q '^profile, mean of 5 steady steps on 2 ranks (--profile ' "$BATS_TEST_TMPDIR/block"
    grep -qE '^ +data wait  +forward  +backward  +exposed comm  +optimizer  +other  +step$' "$BATS_TEST_TMPDIR/block"
    tail -n 1 "$BATS_TEST_TMPDIR/block" | grep -E '^  (hint: |most expensive layer: [a-z0-9+]+ \([a-z0-9]+\), [0-9.]+ % of step$)'
}

@test "--profile of a run that is too short says so" {
    train 0 --batch 50 --steps 2 --no-eval --profile >"$BATS_TEST_TMPDIR/said"
    grep -x 'no profile: the first 10 steps of a process are not measured' "$BATS_TEST_TMPDIR/said"
    run jq -es 'any(.record == "profile")' "$out/metrics.jsonl"
    [ "$output" = false ]
}

@test "the output of --profile: phases, five layers with both passes, the peak; the same figures as in the record" {
    train 2 --batch 50 --steps 15 --profile --algorithms fixed >"$BATS_TEST_TMPDIR/said"
    grep -qx 'profile, mean of 5 steady steps on 2 ranks' "$BATS_TEST_TMPDIR/said"
    sed -n '/^profile/,$p' "$BATS_TEST_TMPDIR/said" >"$BATS_TEST_TMPDIR/block"
    # Seven numbers under seven names; the percentages are of the step.
    awk '$1 == "%" { sum = $2 + $3 + $4 + $5 + $6 + $7; ok = NF == 8 && $8 == "100.0" && sum > 99.6 && sum < 100.4 }
        END { exit !ok }' "$BATS_TEST_TMPDIR/block"
    [ "$(grep -cE '^  (conv|fc|relu|pool|loss)[0-9]*(\+[a-z0-9]+)* +forward ' "$BATS_TEST_TMPDIR/block")" -eq 5 ]
    # Name and milliseconds of forward, then milliseconds of backward; how near each is to its bound.
    awk '$2 == "forward" { print $1, $3 } $1 == "backward" { print $1, $2 }' "$BATS_TEST_TMPDIR/block" |
        diff - <(jq -r 'select(.record == "profile") | .layers[:5][] | [.name, 1000 * .forward_sec, 1000 * .backward_sec] | @tsv' \
            "$out/metrics.jsonl" | awk '{ printf "%s %.3f\n", $1, $2; if ($3 > 0) printf "backward %.3f\n", $3 }')
    awk '/^  (conv|fc)/ || $1 == "backward" { i = index($0, "products") ; if (i) print substr($0, i + 8) + 0 }' \
        "$BATS_TEST_TMPDIR/block" | diff - <(jq -r 'select(.record == "profile") | .layers[:5][] | select(.bound) |
            100 * .forward_least_sec / .forward_sec, 100 * .backward_least_sec / .backward_sec' "$out/metrics.jsonl" |
            awk '{ printf "%.0f\n", $1 }')
    # The algorithms of conv2, as --algorithms names them: backward's two, or one name for both.
    jq -r 'select(.record == "profile") | .layers[] | select(.name | startswith("conv2")) | .algorithms |
        .forward, ([.backward_data, .backward_weights] | unique_by(.) | length)' "$out/metrics.jsonl" >"$BATS_TEST_TMPDIR/names"
    grep -E "^  conv2[+a-z0-9]* +forward .* $(sed -n 1p "$BATS_TEST_TMPDIR/names")\$" "$BATS_TEST_TMPDIR/block"
    grep -qE '^  peak of products: [0-9.]+ [GT]FLOP/s per rank' "$BATS_TEST_TMPDIR/block"
    diff <(sed -n 's/^  hint: //p' "$BATS_TEST_TMPDIR/block") \
        <(jq -r 'select(.record == "profile") | .hints[]' "$out/metrics.jsonl")
    # Lines of the table fit a terminal of 80 columns.
    [ "$(sed -n '/^  layer /,/^  peak/p' "$BATS_TEST_TMPDIR/block" | sed '$d' | wc -L)" -le 80 ]
}

@test "no layer is above its bound: Winograd is judged by its own products" {
    for n in 1 2; do
        for pass in forward backward_data backward_weights; do
            echo "conv2d float32 n=$((4 / n)) x=26x26x32 k=64x3x3 stride=1x1 pad=0x0 dilation=1x1 groups=1" \
                "epilogue=relu+pool2x2 $pass = winograd/nhwc"
        done >"$BATS_TEST_TMPDIR/algorithms"
        train "$n" --model mnist-cnn --batch 8 --accumulate 2 --steps 12 --no-eval --overwrite \
            --algorithms "$BATS_TEST_TMPDIR/algorithms"
        bounded
        profile '.layers[] | select(.name | startswith("conv2")) | [.algorithms[]] == ["winograd/nhwc", "winograd/nhwc", "winograd/nhwc"]'
        # Of 24×24 pixels 6×6 tiles of 36 products; of 26×26, 6×6 tiles, 12 half ones of 24, and one of 16.
        profile ".peak_gflops as \$peak | .layers[] | select(.name | startswith(\"conv2\"))
            | .share_of_peak * \$peak * 1e9 * (.forward_sec + .backward_sec) / (2 * 8 / $n * 32 * 64 * (1296 + 1600 + 1296))
            | . > 0.999999 and . < 1.000001"
    done
    # Frozen layers have no backward, or half of one.
    train 2 --model mnist-cnn --batch 4 --steps 11 --no-eval --overwrite --precision bf16 --freeze conv1,fc1
    bounded
    profile '.layers[] | select(.name | startswith("conv1")) | .backward_sec == 0 and .backward_least_sec == 0'
}

@test "bfloat16 on a GPU: no layer is above its bound" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    train 0 --device cuda --precision bf16 --batch 2 --steps 11 --no-eval
    bounded
    profile '[.layers[] | select(.algorithms) | .name | split("+")[0]] | sort == ["conv1", "conv2", "fc1", "fc2"]'
}

@test "a run that ends within the warm-up has no profile" {
    train 2 --batch 50 --steps 10 >"$BATS_TEST_TMPDIR/said"
    run grep -cE '^profile|"record": *"profile"' "$BATS_TEST_TMPDIR/said" "$out/metrics.jsonl"
    [ "$status" -eq 1 ]
    train 2 --resume auto --steps 12 >"$BATS_TEST_TMPDIR/said"
    run grep -c '^profile' "$BATS_TEST_TMPDIR/said"
    [ "$status" -eq 1 ]
}

@test "the reference backend, a batch in parts, ranks without samples in the last batch" {
    # 149 + 149 + 2 samples per epoch.
    for device in ref cpu; do
        train 3 --model mlp --device "$device" --epochs 5 --accumulate 2 --batch 149 --overwrite
        profile '.steps == 5 and ([.layers[].share] | add) <= 1'
        # Naive C has no peak to be judged by.
        [[ $device != ref ]] || profile '.peak_gflops == null and all(.layers[]; .bound == null and .forward_least_sec == 0)'
    done
    bounded
}
