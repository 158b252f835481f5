#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run.sh --restarts between hosts that are lost, over ssh and with mpirun, which tests/cli/restarts.bats fakes.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster
load jobs

setup_file() {
    cluster_try 3 || return 0
    cluster_trust
    export OMPI_MCA_mpi_yield_when_idle=1
    jobs_setup 300 64
}

teardown_file() { cluster_down; }

setup() { cluster_or_skip; }

life() { jq -r "select(.record == \"job_$2\") | $3" "$cluster/shared/$1/job.jsonl"; } # FOLDER RECORD JQ

# Waits until the job of a folder has trained after N faults.
trains() { # FOLDER N
    local i
    for ((i = 0; i < 1200; i++)); do
        (($(grep -c job_training "$cluster/shared/$1/job.jsonl" 2>/dev/null) <= $2)) || return 0
        sleep 0.1
    done
    cat "$out"
    return 1
}

stop() { # FOLDER
    cluster_exec node1 pkill -TERM -o -f scripts/run.sh
    ended
    [ "$code" -eq 143 ]
    grep -v '^epoch' "$out"
}

@test "a host that is lost: the job goes on without it" {
    endless node1 lost -H node1:1,node2:1,node3:1 --restarts 3
    trains lost 0
    start=${EPOCHREALTIME/./}
    cluster_kill node3
    trains lost 1
    printf '# trains again after %s ms\n' $(((${EPOCHREALTIME/./} - start) / 1000)) >&3
    stop lost
    # What ends first: the ranks' --timeout, or mpirun's patience.
    grep -q "error: lost the connection to mpirun's daemon on node3\|rank 2 on node3 does not answer" "$out"
    grep -q 'node3 is left out for 60 s: probe over ssh failed: no answer within 2 s' "$out"
    [ "$(life lost ranks '.hosts | join(" ")')" = $'node1 node2 node3\nnode1 node2' ]
    [ "$(life lost fault '[.code, .host] | @tsv')" = $'5\tnode3' ]
    clean node1 node2
}

@test "the supervisor and its host are lost: started again elsewhere, the job goes on" {
    slow
    endless node1 moved -H node1:1,node2:1 --restarts 3
    trains moved 0
    cluster_exec node1 pkill -KILL -f scripts/run.sh
    ended
    [ "$code" -eq 137 ]
    endless node2 moved -H node1:1,node2:1 --restarts 3
    trains moved 1
    cluster_exec node2 pkill -TERM -o -f scripts/run.sh
    ended
    [ "$code" -eq 143 ]
    [ "$(life moved training .first_step | tail -n 1)" -gt 0 ]
    # mpirun ends the ranks of a supervisor that was killed. Without a reader it may be killed itself, and leaves its own folder.
    for _ in {1..100}; do
        cluster_exec node1 sh -c 'rm -rf /tmp/ompi.*/pid.*; pgrep "dptrain|mpirun|prterun"' >/dev/null || break
        sleep 0.1
    done
    clean node1 node2
}
