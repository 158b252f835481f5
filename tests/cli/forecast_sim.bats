#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The closed form of dptrain forecast against SimGrid's engine, message by message (tests/sim/step.c): within 0.5 % of the
# step, with ranks that vary within 1 %.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    if [[ ! -e /usr/include/simgrid/engine.h ]]; then
        export why="SimGrid is not installed (Debian: libsimgrid-dev)"
        return
    fi
    make -s build/tests/sim/step
}

setup() {
    common_setup
    [[ -z ${why-} ]] || skip "$why"
}

# Messages take α + bytes / B: without SimGrid's model of TCP.
simulated() { # PERCENT MODEL HOSTS ring|tree SPREAD STEPS
    "$root/build/tests/sim/step" "${@:2}" --log=root.thres:warning --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 \
        --cfg=network/crosstraffic:0 --cfg=network/bandwidth-factor:1 --cfg=network/latency-factor:1 \
        --cfg=network/weight-S:0 | tee "$BATS_TEST_TMPDIR/said"
    awk -v most="$1" '/error/ { n++; if ($NF > most || $NF < -most) exit 1 } END { if (n != 1) exit 1 }' \
        "$BATS_TEST_TMPDIR/said"
}

@test "without noise: three models, ring and tree, 4 to 256 hosts, within 0.5 %" {
    for model in lenet5 resnet50 vgg16; do
        for hosts in 4 16 64; do
            simulated 0.5 "$model" "$hosts" ring 0 1
            simulated 0.5 "$model" "$hosts" tree 0 1
        done
        simulated 0.5 "$model" 256 tree 0 1
    done
}

@test "with ranks that vary by 5 %: within 1 %" {
    simulated 1 vgg16 4 ring 0.05 400
    simulated 1 resnet50 16 ring 0.05 60
    simulated 1 resnet50 64 tree 0.05 50
    simulated 1 lenet5 16 tree 0.05 200
}

@test "256 hosts in a ring, and with noise" {
    [[ -n ${DPTRAIN_TEST_SLOW-} ]] || skip "takes a minute: scripts/test.sh --slow"
    for model in lenet5 resnet50 vgg16; do
        simulated 0.5 "$model" 256 ring 0 1
        simulated 1 "$model" 256 tree 0.05 20
    done
}
