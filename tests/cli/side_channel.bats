#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A rank that holds up other hosts is named, by one message (src/cluster/watch/side_channel.h). Every rank counts as a host.
# tests/cluster/side_proof.sh does this on hosts made of namespaces, with more faults.

load common
# shellcheck disable=SC2154 # variables of common.bash

# Starts an endless job on 3 hosts, waits until it has trained for a while, and calls FAULT PID_OF_RANK. Writes the exit code.
broken_job() { # NAME RANK FAULT...
    local i job code=0 pid said=$BATS_FILE_TMPDIR/$1.out
    mpi_flags 3
    mpirun "${MPI_FLAGS[@]}" -np 3 "$dptrain" train --model mlp --batch 30 --threads 1 --algorithms fixed --allreduce mpi \
        --data "$tiny" --epochs 100000 --ranks-per-host 1 --timeout 10 --checkpoint-every 1000000 --stall-warning 0 --out "$BATS_FILE_TMPDIR/$1" \
        >"$said" 2>&1 &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if grep -qs '^epoch 30 ' "$said"; then break; fi
        sleep 0.1
    done
    for pid in $(pgrep -P "$job"); do
        if grep -qsz "^OMPI_COMM_WORLD_RANK=$2$" "/proc/$pid/environ"; then "${@:3}" "$pid"; fi
    done
    wait "$job" || code=$?
    echo "$code" >"$BATS_FILE_TMPDIR/$1.code"
}

# shellcheck disable=SC2154 # root
hang() { # PID
    "$root/build/tests/tools/hang_thread" "$1" &
}

# The jobs mostly wait, so they run side by side.
setup_file() {
    common_setup
    export OMPI_MCA_mpi_yield_when_idle=1
    make_tiny 300 64
    broken_job hung 1 hang >/dev/null 2>&1 3>&- &
    broken_job stopped 0 kill -STOP >/dev/null 2>&1 3>&- &
    broken_job killed 2 kill -KILL >/dev/null 2>&1 3>&- &
    wait
}

# Fails unless the job ended with CODE and a single error, with the words.
names() { # NAME CODE WORDS
    local said=$BATS_FILE_TMPDIR/$1.out
    cat "$said"
    [ "$(<"$BATS_FILE_TMPDIR/$1.code")" -eq "$2" ]
    [ "$(grep -c 'dptrain: error' "$said")" -eq 1 ]
    grep -qE "dptrain: error: $3" "$said"
}

@test "one host of three hangs while it computes: rank 0 names its rank and phase" {
    names hung 5 'timed out after 10 s in ".*" \(collective [0-9]+\); rank 1 on [^ ]+ did not arrive; it was last in ".+" \(rank 0'
}

@test "rank 0 is stopped: the next host names it" {
    names stopped 5 'timed out after 10 s in .*; rank 0 on [^ ]+ does not answer: .*; [0-9.]+ s ago, it was in ".+" \(rank 1'
}

@test "a rank is killed: its process has ended" {
    names killed 137 'the process of rank 2 on [^ ]+ has ended; [0-9.]+ s before, it was in ".+" \(rank 0'
}
