#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The cluster itself: what the other tests in this folder stand on.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster

setup_file() {
    if cluster_try 3; then cluster_trust; fi
}

setup() { cluster_or_skip; }

teardown_file() { cluster_down; }

@test "hosts have names, folders and shared memory of their own, and one shared folder" {
    for host in node1 node2 node3; do
        [ "$(cluster_exec $host hostname)" = "$host" ]
        # shellcheck disable=SC2016 # for the host's shell
        cluster_exec $host sh -c 'hostname | tee /tmp/a /dev/shm/a ~/a /run/a >"$0"/$(hostname)' "$cluster/shared"
    done
    [ "$(ls "$cluster/shared")" = $'node1\nnode2\nnode3' ]
    for host in node1 node2 node3; do
        [ "$(cluster_exec $host sh -c 'cat /tmp/a /dev/shm/a ~/a /run/a' | sort -u)" = "$host" ]
        [ "$(cluster_exec $host cat "$cluster/shared/node2")" = node2 ]
        # Nothing of the machine but lo and what the cluster made.
        [ "$(cluster_exec $host ls /sys/class/net)" = $'eth0\nlo' ]
    done
    [ ! -e /run/a ]
    [ "$(hostname)" != node3 ]
}

@test "ssh goes between them by name and by address, and asks for a password where no key is" {
    for pair in node1:node2 node2:node3 node3:10.77.0.1 node1:fd77::1; do
        run cluster_exec "${pair%%:*}" ssh -o BatchMode=yes "${pair#*:}" hostname
        echo "$pair: $output"
        [ "$status" -eq 0 ]
        [[ "$output" == node* ]]
    done
    run cluster_exec node1 ssh -o BatchMode=yes trainer@node2 id -un
    [ "$status" -eq 255 ]
    SSHPASS=$cluster_password run cluster_exec node1 sshpass -e ssh trainer@node2 'id -un; pwd'
    [ "$status" -eq 0 ]
    [ "$output" = $'trainer\n/run/host/home/trainer' ]
}

@test "mpirun starts a rank on every host over ssh" {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run cluster_exec node1 mpirun --mca oob_tcp_if_include "$cluster_subnet" \
        --mca btl_tcp_if_include "$cluster_subnet" -H node1,node2,node3 -np 3 hostname
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = $'node1\nnode2\nnode3' ]
}

@test "a cut cable is felt, and mended" {
    cluster_cut node3
    run cluster_exec node1 ssh -o ConnectTimeout=1 node3 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *"timed out"* || "$output" == *"No route"* ]]
    # The others do not mind.
    [ "$(cluster_exec node1 ssh node2 hostname)" = node2 ]
    cluster_mend node3
    [ "$(cluster_exec node1 ssh node3 hostname)" = node3 ]
}

@test "sshd may be started anew, with another port and another host key" {
    cluster_new_host_key node2
    cluster_sshd node2 -p 2200
    run cluster_exec node1 ssh node2 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *refused* ]]
    run cluster_exec node1 ssh -p 2200 -o StrictHostKeyChecking=accept-new node2 hostname
    [ "$status" -eq 0 ]
    [[ "$output" == *node2 ]]
}

@test "a killed host is silent" {
    cluster_kill node2
    run cluster_exec node1 ssh -o ConnectTimeout=1 node2 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *"timed out"* || "$output" == *"No route"* ]]
    run cluster_exec node2 true
    [ "$status" -ne 0 ]
}

# Of every process that is there: its namespaces.
namespaces() {
    readlink /proc/[0-9]*/ns/{net,pid,uts,mnt} 2>/dev/null | sort -u
}

# What a cluster has: three namespaces of each kind, a line for each; fails when it has not.
its_namespaces() {
    local host
    for host in node1 node2; do readlink "/proc/$(<"$cluster/$host/pid")"/ns/{net,pid,uts,mnt}; done
    readlink "/proc/$(<"$cluster/pid")"/ns/{net,mnt}
}

# Nothing of it is left: neither folder, process, namespace nor mount.
gone() { # FOLDER NAMESPACES
    [[ ! -e $1 ]] || return 1
    ! pgrep -f "$1" || return 1
    ! namespaces | grep -Fx "$2" || return 1
    ! grep -F "$1" /proc/self/mounts
}

@test "nothing is left of a cluster, and two at a time do not meet" {
    other=$cluster
    cluster_up 2
    its=$(its_namespaces)
    [ "$(wc -l <<<"$its")" -eq 10 ]
    run gone "$cluster" "$its"
    [ "$status" -eq 1 ]
    cluster_exec node1 sh -c 'sleep 300 & exec setsid sleep 300' &
    [ "$(cluster_exec node1 hostname)" = node1 ]
    # The names are those of the other one, whose node1 is another.
    mine=$(cluster_exec node1 readlink /proc/self/ns/net)
    [ "$mine" != "$(cluster=$other cluster_exec node1 readlink /proc/self/ns/net)" ]
    folder=$cluster
    cluster_down
    [ -z "${cluster:-}" ]
    gone "$folder" "$its"
    # Once more is no error.
    cluster_down
    cluster=$other
    [ "$(cluster_exec node1 hostname)" = node1 ]
}

@test "a test that is killed leaves nothing either" {
    slow
    # shellcheck disable=SC2016 # for the other shell
    bash -c 'unset cluster; . "$0"; cluster_up 2; its_namespaces() { '"$(declare -f its_namespaces)"'; its_namespaces; }
        { echo "$cluster"; its_namespaces; } >"$1"; kill -KILL $$' \
        "$BATS_TEST_DIRNAME/cluster.bash" "$BATS_TEST_TMPDIR/its" 3>&- || true
    folder=$(head -n 1 "$BATS_TEST_TMPDIR/its")
    its=$(tail -n +2 "$BATS_TEST_TMPDIR/its")
    [ "$(wc -l <<<"$its")" -eq 10 ]
    for ((i = 0; i < 100; i++)); do
        [[ -e $folder ]] || break
        sleep 0.1
    done
    gone "$folder" "$its"
}

@test "a cluster that cannot start says why" {
    run bash -c "unset cluster; . '$BATS_TEST_DIRNAME/cluster.bash'; cluster_up 1 -p no-port"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"did not start"*"Bad port number"* ]]
}

@test "without root there is a reason to skip" {
    cp "$BATS_TEST_DIRNAME/cluster.bash" "$cluster/shared"
    run runuser -u nobody -- bash -c ". '$cluster/shared/cluster.bash'; cluster_why"
    [ "$output" = "network namespaces need root" ]
}
