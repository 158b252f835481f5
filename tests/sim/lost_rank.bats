#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A rank that hangs or is lost is named by one message, at any size (src/cluster/comm/side_channel.h).
# shellcheck disable=SC2154 # variables of common.bash and sim.bash

load sim

setup_file() { sim_setup 1024 128; }
setup() { common_setup; }

fault() { # OPTIONS OF simulate.sh
    rm -rf "$out"
    run simulate "$@" -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out"
}

@test "64 hosts: the rank that hangs is named, with its host and phase" {
    fault -np 64 --hang 37@57
    one_error 5 'timed out after 10 s in ".+" \(collective 57\); rank 37 on node37 did not arrive; it was last in ".+" \(rank 0'
}

@test "8 ranks on each of 8 hosts: the rank that hangs is named, with its host and phase" {
    fault -np 64 --per-host 8 --hang 37@57
    one_error 5 'timed out after 10 s in ".+" \(collective 57\); rank 37 on node4 did not arrive; it was last in ".+" \(rank 0'
}

@test "the rank that is lost is named: alone on its host, the first of a host, another one, rank 0" {
    fault -np 64 --lose 37@57
    one_error 5 'the process of rank 37 on node37 has ended.* \(rank 0 on node0\)'
    fault -np 64 --per-host 8 --lose 40@57
    one_error 5 'the process of rank 40 on node5 has ended.* \(rank 0 on node0\)'
    fault -np 64 --per-host 8 --lose 37@57
    one_error 5 'the process of rank 37 on node4 has ended; it was last in ".+" \(rank 0 on node0\)'
    fault -np 64 --lose 0@57
    one_error 5 'the process of rank 0 on node0 has ended.* \(rank 1 on node1\)'
}

@test "20 random ranks of 1,024 hang or are lost: 20 are named" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    RANDOM=34
    for ((i = 0; i < 20; i++)); do
        rank=$((RANDOM % 1023 + 1)) at=$((RANDOM % 30 + 30)) per_host=$((i % 2 ? 8 : 1))
        node=node$((rank / per_host))
        if ((i % 4 < 2)); then
            fault -np 1024 --per-host "$per_host" --hang "$rank@$at"
            one_error 5 "timed out after 10 s in \".+\" \(collective [0-9]+\); rank $rank on $node did not arrive; it was last in \".+\""
        else
            fault -np 1024 --per-host "$per_host" --lose "$rank@$at"
            one_error 5 "the process of rank $rank on $node has ended"
        fi
    done
}
