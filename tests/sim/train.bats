#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The real program on simulated hosts (scripts/simulate.sh): training, and what the number of ranks must not change.
# shellcheck disable=SC2154 # variables of common.bash and sim.bash

load sim

setup_file() { sim_setup 1024 128; }
setup() { common_setup; }

same_state() { # CHECKPOINT CHECKPOINT
    local object
    for object in /params /optimizer; do h5diff "$1" "$2" "$object" "$object"; done
}

@test "64 hosts, and 8 with 8 ranks each, train what one real rank does" {
    "$dptrain" train --data "$small" --batch 256 "${sim_options[@]}" --out "$out-1"
    simulate -np 64 -- train --data "$small" --batch 256 "${sim_options[@]}" --out "$out-64"
    simulate -np 64 --per-host 8 -- train --data "$small" --batch 256 --allreduce host "${sim_options[@]}" --out "$out-8x8"
    for n in 64 8x8; do
        close_columns <(sim_losses "$out-1") <(sim_losses "$out-$n") 1e-4
        "$dptrain" checkpoint verify "$out-$n"
    done
}

@test "--reproducible 64 writes the checkpoint of one real rank, bit for bit" {
    "$dptrain" train --data "$small" --batch 256 --reproducible 64 "${sim_options[@]}" --out "$out-1"
    simulate -np 64 -- train --data "$small" --batch 256 --reproducible 64 "${sim_options[@]}" --out "$out-64"
    simulate -np 64 --per-host 8 -- train --data "$small" --batch 256 --reproducible 64 --allreduce host \
        "${sim_options[@]}" --out "$out-8x8"
    for n in 64 8x8; do same_state "$out-1/ckpt-000000000002.h5" "$out-$n/ckpt-000000000002.h5"; done
}

@test "two simulations take the same simulated time" {
    for i in 1 2; do
        simulate -np 16 --collectives "$out-$i.txt" -- train --data "$small" --batch 256 "${sim_options[@]}" --out "$out-$i"
    done
    diff "$out-1.txt" "$out-2.txt"
}

@test "1,024 hosts train, evaluate and write a checkpoint" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    "$dptrain" train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out-1"
    simulate -np 1024 --collectives "$out.txt" -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out-1024" |
        tee "$out.said"
    close_columns <(sim_losses "$out-1") <(sim_losses "$out-1024") 1e-4
    "$dptrain" checkpoint verify "$out-1024"
    before_first_sum "$out.txt"
    before_first_sum "$out.txt" | awk '{ found = 1; exit !($1 <= 45 && $2 <= 0.010) } END { if (!found) exit 1 }'
    # Output and records are those of 16 hosts, but for the list of hosts.
    simulate -np 16 -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out-16" >"$out-16.said"
    [ "$(wc -l <"$out.said")" -eq "$(wc -l <"$out-16.said")" ]
    [[ $(<"$out.said") != *"CPU     short"* ]]
    diff <(sim_fields "$out-16") <(sim_fields "$out-1024")
}

@test "128 hosts with 8 ranks each train what one real rank does" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    "$dptrain" train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out-1"
    simulate -np 1024 --per-host 8 -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out-1024"
    close_columns <(sim_losses "$out-1") <(sim_losses "$out-1024") 1e-4
    "$dptrain" checkpoint verify "$out-1024"
}

@test "a usage error on one rank: one message, code 2" {
    run simulate -np 64 --word 37:--bogus -- train --data "$small" --batch 256 "${sim_options[@]}" --out "$out"
    one_error 2 "unknown option --bogus; .*\(rank 37 on node37\)"
}

@test "a usage error on one rank of 1,024: one message, code 2" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "runs with --slow"
    run simulate -np 1024 --word 777:--bogus -- train --data "$small" --batch 1024 "${sim_options[@]}" --out "$out"
    one_error 2 "unknown option --bogus; .*\(rank 777 on node777\)"
}
