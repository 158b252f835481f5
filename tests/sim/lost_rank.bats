#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A rank that hangs or is lost is named by one message, at any size (src/cluster/watch/side_channel.h).
# shellcheck disable=SC2154 # variables of common.bash and sim.bash

load sim

setup_file() { sim_setup 1024 128; }
setup() { common_setup; }

# Expects one message of these words, code 5, and the end in time.
fault() { # WORDS OPTIONS OF simulate.sh
    rm -rf "$out"
    run simulate "${@:2}" --collectives "$out.txt" -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out"
    one_error 5 "$1"
    ended_in_time "$out.txt"
}

@test "64 hosts: the rank that hangs is named in time, with its host and phase" {
    fault 'timed out after 10 s in ".+" \(collective 40\); rank 37 on node37 did not arrive; it was last in ".+" \(rank 0' \
        -np 64 --hang 37@40
}

@test "8 ranks on each of 8 hosts: the rank that hangs is named in time, with its host and phase" {
    fault 'timed out after 10 s in ".+" \(collective 40\); rank 37 on node4 did not arrive; it was last in ".+" \(rank 0' \
        -np 64 --per-host 8 --hang 37@40
}

@test "the rank that is lost is named: alone on its host, the first of a host, another one, rank 0" {
    fault 'the process of rank 37 on node37 has ended.* in ".+" \(rank 0 on node0\)' -np 64 --lose 37@40
    fault 'the process of rank 40 on node5 has ended.* in ".+" \(rank 0 on node0\)' -np 64 --per-host 8 --lose 40@40
    fault 'the process of rank 37 on node4 has ended; it was last in ".+" \(rank 0 on node0\)' -np 64 --per-host 8 --lose 37@40
    fault 'the process of rank 0 on node0 has ended.* in ".+" \(rank 1 on node1\)' -np 64 --lose 0@40
}

@test "20 random ranks of 1,024 hang or are lost: 20 are named in time" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    RANDOM=34
    for ((i = 0; i < 20; i++)); do
        rank=$((RANDOM % 1023 + 1)) at=$((RANDOM % 36 + 4)) per_host=$((i % 2 ? 8 : 1))
        node=node$((rank / per_host))
        if ((i % 4 < 2)); then
            fault "timed out after 10 s in \".+\" \(collective [0-9]+\); rank $rank on $node did not arrive; it was last in \".+\"" \
                -np 1024 --per-host "$per_host" --hang "$rank@$at"
        else
            fault "the process of rank $rank on $node has ended.* in \".+\"" -np 1024 --per-host "$per_host" --lose "$rank@$at"
        fi
    done
}
