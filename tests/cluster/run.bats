#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run.sh between hosts: over ssh and with mpirun, which tests/cli/run.bats fakes.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash
# shellcheck disable=SC2016 # words for the hosts' shells

load cluster
load jobs

setup_file() {
    cluster_try 3 || return 0
    cluster_trust
    jobs_setup 300 64
}

teardown_file() { cluster_down; }

setup() { cluster_or_skip; }

@test "one host and two give the same loss curve; rank 0 is on the chief; each rank has a log" {
    on node1 -np 2 "${train[@]}" --data "$tiny" --steps 20 --out one
    run on node1 -H node1:1,node2:1 --chief node2 --report-bindings --log-dir /tmp/logs \
        "${train[@]}" --data "$tiny" --steps 20 --out two
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"interface eth0 (10.77.0.0/16): the only one"* && "$output" == *"rank 0 on node2: CPUs"* ]]
    [ "$(losses one | wc -l)" -eq 20 ]
    paste <(losses one) <(losses two) | awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad }'
    # Rank 1 is silent on the terminal, not in its log.
    cluster_exec node1 grep -q '^20..-..-..T.*Z finished after 20 steps' /tmp/logs/rank-1.log
    cluster_exec node2 grep -q 'finished after 20 steps' /tmp/logs/rank-0.log
    clean node1 node2
}

@test "hosts by IPv6 addresses; variables and folder of a specification reach the ranks on every host" {
    cat >"$cluster/shared/hosts.yaml" <<'EOF'
nodes: [{address: "fd77::1", chief: true, ssh_config: a}, {address: "fd77::2", ssh_config: b}]
ssh:
  a: {shared_envs: {SAY: "one  'x' $y"}, setup: 'echo "$SAY,$DPTRAIN_ALL" >"said.$(hostname)"; grep -slFf <(printf %s "$SAY") /proc/[0-9]*/cmdline >"seen.$(hostname)"; true'}
  b: {shared_envs: {SAY: two=three}, setup: 'echo "$SAY,$DPTRAIN_ALL" >"said.$(hostname)"; grep -slFf <(printf %s "$SAY") /proc/[0-9]*/cmdline >"seen.$(hostname)"; true'}
EOF
    mkdir -p "$cluster/shared/here"
    DPTRAIN_ALL=all run on node1 --wdir "$cluster/shared/here" --spec hosts.yaml "${train[@]}" --data "$tiny" --steps 2
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(<"$cluster/shared/here/said.node1")" = "one  'x' \$y,all" ]
    [ "$(<"$cluster/shared/here/said.node2")" = "two=three,all" ]
    # No host's process list shows the values.
    [ -z "$(cat "$cluster/shared/here"/seen.node{1,2})" ]
    clean node1 node2
}

# A program for run.sh that says on each host what it finds there.
tells() { # SHELL WORDS
    printf '#!/bin/sh\n[ "$1" != hosts ] || exec %q "$@"\n%s\n' "$DPTRAIN_BIN" "$1" >"$cluster/shared/tells"
    chmod +x "$cluster/shared/tells"
}

@test "variables on all hosts: of -x, and by their names; CUDA_VISIBLE_DEVICES is the first host's alone" {
    tells 'env >"env.$(hostname)"'
    LD_LIBRARY_PATH=/opt/lib OMP_SCHEDULE=static CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 HERE='a b' \
        DPTRAIN_BIN=$cluster/shared/tells run on node1 -H node1:1,node2:1 -x HERE -x SAY="it's \$x" -mca pml ob1 \
        --mpi-args '-x MORE=1 --tag-output' train
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"CUDA_VISIBLE_DEVICES is passed to no other host; -x CUDA_VISIBLE_DEVICES passes it to all"* ]]
    for host in node1 node2; do
        for line in OMP_SCHEDULE=static CUDA_DEVICE_ORDER=PCI_BUS_ID 'HERE=a b' "SAY=it's \$x" MORE=1 OMPI_MCA_pml=ob1; do
            grep -qxF "$line" "$cluster/shared/env.$host" || { echo "$host lacks $line"; cat "$cluster/shared/env.$host"; false; }
        done
        # mpirun puts OpenMPI's own folder first.
        grep -qE '^LD_LIBRARY_PATH=(.*:)?/opt/lib(:|$)' "$cluster/shared/env.$host"
    done
    [ "$(grep -c '^CUDA_VISIBLE_DEVICES=' "$cluster/shared/env.node2")" -eq 0 ]
    DPTRAIN_BIN=$cluster/shared/tells run on node1 -H node1:1,node2:1 -x CUDA_VISIBLE_DEVICES=3 train
    grep -qx CUDA_VISIBLE_DEVICES=3 "$cluster/shared/env.node2"
}

@test "hostfiles of OpenMPI, PBS, MPICH and Slurm start their ranks on the hosts that they name" {
    local form cores
    cores=$(. "$root/scripts/lib.sh" && allowed_cores)
    tells 'echo "$(hostname)" >>"placed.$OMPI_COMM_WORLD_RANK"'
    for form in "node1 slots=2\nnode2 slots=1|node1 node1 node2" "node1\nnode2\nnode1|node1 node1 node2" \
        "node2:2\nnode1:1|node2 node2 node1" "node[1-2]:1|node1 node2" "# none\nnode2|$(printf "node2 %.0s" $(seq "$cores"))"; do
        printf '%b\n' "${form%|*}" >"$cluster/shared/form"
        rm -f "$cluster"/shared/placed.*
        DPTRAIN_BIN=$cluster/shared/tells run on node1 -machinefile form train
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(cat "$cluster"/shared/placed.* | xargs)" = "$(xargs <<<"${form#*|}")" ]
    done
    clean node1 node2
}

@test "an interface that only one host has is not used; a different program is detected" {
    cluster_exec node3 ip link add fast type veth peer name other
    cluster_exec node3 ip addr add 10.99.0.1/24 dev fast
    cluster_exec node3 ip link set fast up
    run on node3 -H node3:1,node1:1 --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"btl_tcp_if_include 10.77.0.0/16"* ]]
    run on node3 -H node3:1,node1:1 --dry-run --interface fast
    [ "$status" -eq 4 ]
    [[ "$output" == *"node1 has no such interface"* ]]
    cluster_exec node3 mount --bind /bin/true "$DPTRAIN_BIN"
    run on node1 -H node1:1,node3:1,node9:1 "${train[@]}" --data "$tiny"
    cluster_exec node3 umount "$DPTRAIN_BIN"
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"node3: $DPTRAIN_BIN differs from the one here"* ]]
    [[ "$output" == *"node9: probe over ssh failed: name does not resolve on node1 -> add node9 to DNS"* ]]
    [[ "$output" != *"node1: "* ]]
}

@test "a rank killed on another host: code 5, and nothing is left on any host" {
    endless node1 killed -H node1:2,node2:2
    cluster_exec node2 pkill -KILL -x dptrain
    ended
    [ "$code" -eq 5 ]
    grep -q 'rank [23] on node2 was killed by signal 9 (SIGKILL) in "[^"]*".*; restart' "$out"
    clean node1 node2
}

@test "one rank per host, one stopped in MPI_Init: it is named, with its host" {
    "${CC:-gcc}" -shared -fPIC -o "$cluster/shared/stall.so" "$root/tests/tools/shim/stall.c" -ldl
    printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$cluster/shared/stall.so" "$DPTRAIN_BIN" >"$cluster/shared/dptrain"
    chmod +x "$cluster/shared/dptrain"
    printf '%s\n' STALL=MPI_Init STALL_RANK=1 >"$cluster/shared/stall"
    DPTRAIN_BIN=$cluster/shared/dptrain DPTRAIN_TIMEOUT_START=10 run on node1 -H node1:1,node2:1 --env-file "$cluster/shared/stall" \
        "${train[@]}" --data "$tiny" --steps 2
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *'rank 1 on node2 had not ended; it was in "MPI_Init, stopped for '*' s"'* ]]
    clean node1 node2
}

@test "SIGTERM from a host without ranks: a checkpoint on the others, and code 143" {
    endless node3 asked -H node1:1,node2:1
    cluster_exec node3 pkill -TERM -o -f scripts/run.sh
    ended
    [ "$code" -eq 143 ]
    ls "$cluster/shared/asked"/ckpt-*.h5
    clean node1 node2 node3
}

@test "mpirun killed: the job's daemons and ranks are gone from all hosts" {
    slow
    endless node1 orphans -H node1:2,node2:2
    cluster_exec node1 pkill -KILL -x 'mpirun|prterun'
    ended
    [ "$code" -eq 5 ]
    grep -q 'mpirun was killed by signal 9 (SIGKILL)' "$out"
    clean node1 node2
}

@test "a link that is cut: the job still ends with code 5, and names the host that it could not clean up" {
    slow
    endless node1 cut -H node1:1,node2:1
    cluster_cut node2
    SECONDS=0
    ended
    cluster_mend node2
    [ "$code" -eq 5 ]
    grep -q 'mpirun outlived its ranks\|which usually means that a host is lost' "$out"
    grep -q 'node2 could not be reached' "$out"
    grep -q 'error: .*node2' "$out"
    ((SECONDS < 60))
    clean node1
}

@test "hosts whose names are alike up to the first dot are several; where mpirun takes them for one, the job ends with 4" {
    local i h words=(-H "worker.rack1.example:1,worker.rack2.example:1") setting=(--mca orte_keep_fqdn_hostnames 0)
    . "$root/scripts/lib.sh" && mpi_version
    ((mpi_major < 5)) || setting=(--prtemca prte_keep_fqdn_hostnames 0)
    cp "$cluster/hosts" "$cluster/hosts.kept"
    for i in 1 2; do
        echo "$(cluster_address $i) worker.rack$i.example" >>"$cluster/hosts"
        for h in $(cluster_hosts); do
            echo "worker.rack$i.example $(<"$cluster/node$i/host_key.pub")" >>"$cluster/$h/home/root/.ssh/known_hosts"
        done
        cluster_exec node$i hostname worker
    done
    run on node1 "${words[@]}" "${train[@]}" --data "$tiny" --steps 2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"2 on 2 hosts"* ]]
    run on node1 "${words[@]}" "${setting[@]}" "${train[@]}" --data "$tiny" --steps 2
    echo "$output"
    for i in 1 2; do cluster_exec node$i hostname node$i; done
    cat "$cluster/hosts.kept" >"$cluster/hosts"
    [ "$status" -eq 4 ]
    [[ "$output" == *"error: the ranks are on 1 host, and the list has 2"* ]]
}

@test "all ranks are stopped, on every host: the job ends with 5 after --timeout" {
    slow
    endless node1 still -H node1:1,node2:1
    for host in node1 node2; do cluster_exec "$host" pkill -STOP -x dptrain; done
    ended
    [ "$code" -eq 5 ]
    grep -q 'error: no rank has run for 10 s (--timeout): all are stopped (SIGSTOP)' "$out"
    clean node1 node2
}

@test "mpirun's ssh session to a host is killed: code 5, and the host is named" {
    endless node1 session -H node1:1,node2:1
    cluster_exec node1 pkill -KILL -x ssh
    ended
    [ "$code" -eq 5 ]
    grep -q 'error: mpirun ended with code .*node2' "$out"
    clean node2
}
