#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Faults of every kind on hosts made of namespaces: one message names the rank. tests/cli/side_channel.bats has a few.

load cluster

@test "hung, stopped, killed and lost ranks are named, with host and phase, within the deadline + 5 s" {
    slow
    why=$(cluster_why)
    [[ -z $why ]] || skip "$why"
    # shellcheck disable=SC2154 # of cluster.bash
    run "$cluster_code/side_proof.sh" --each 4 --seed "$RANDOM"
    echo "$output"
    [ "$status" -eq 0 ]
}
