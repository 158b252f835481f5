#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# check and bench on simulated hosts: what is slow is named, and nothing else; times are those of the described network.
# shellcheck disable=SC2154 # variables of common.bash and sim.bash

load sim

setup_file() { sim_setup 64 16; }
setup() { common_setup; }

# Checks the network; writes host, name and text of each finding that is not ok to $out.found, and expects N of them.
findings() { # N OPTIONS OF simulate.sh
    rm -f "$out.json"
    simulate "${@:2}" -- check --only network --json "$out.json" --timeout 10 || (($? == 1))
    jq -r '.lines[] | select(.status == "warn" or .status == "fail") | "\(.host) \(.name) \(.found)"' "$out.json" >"$out.found"
    [ "$(wc -l <"$out.found")" -eq "$1" ]
}

# On N hosts, more than 16.
names_what_is_slow() { # N
    local half=$(($1 / 2))
    findings 0 -np "$1"
    findings 1 -np "$1" --slow node17:10
    grep -qE '^node17 bandwidth .* to the others' "$out.found"
    findings 1 -np "$1" --slow-pair node3,node9:10
    grep -qE '^node3 bandwidth .* to node9; others have' "$out.found"
    findings 1 -np "$1" --switches "2:$((4 * half))"
    grep -qE "^null bandwidth 2 groups \(node0 \+$((half - 1)), node$half \+$((half - 1))\)" "$out.found"
}

@test "64 hosts: every check ends, and says nothing of the network" {
    run simulate -np 64 -- check --timeout 10 --data "$small" --shared "$BATS_TEST_TMPDIR" --json "$out.json"
    echo "$output"
    ((status <= 1))
    jq -e '.hosts == 64 and .ranks == 64 and
        all(.lines[] | select(.check == "network" or .check == "clock"); .status == "ok" or .status == "skip")' "$out.json"
}

@test "64 hosts: a slow host, a slow pair and two switches are named, and nothing else" {
    names_what_is_slow 64
}

@test "256 hosts: a slow host, a slow pair and two switches are named, and nothing else" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    names_what_is_slow 256
}

@test "64 hosts on two switches that share a slow connection: pairs are not slow by themselves" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    findings 0 -np 64 --switches 2:8
    jq -e 'any(.lines[]; .name == "shared links" and (.found | test("^[0-9]+ pairs are slow only while all hosts send$")))' \
        "$out.json"
    findings 1 -np 64 --switches 2:8 --slow-pair node3,node9:10
    grep -qE '^node3 bandwidth .* to node9; others have' "$out.found"
}

@test "bench --samples takes so many, in the time that the network needs" {
    simulate -np 2 --gbps 8 --latency 3us -- bench comm --samples 7 --test sendrecv -b 1M -e 1M --inplace out --out "$out.jsonl"
    jq -es 'map(select(.record == "bench"))
        | length == 1 and all(.n == 7 and .verdict == "ok" and all(.samples[]; . > 1.0515e-3 and . < 1.06e-3))' "$out.jsonl"
}
