#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The cluster itself, on which the other tests in this folder rely.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster
# shellcheck source=tests/cli/terminal.bash
load ../cli/terminal

setup_file() {
    if cluster_try 3; then cluster_trust; fi
}

setup() { cluster_or_skip; }

teardown_file() { cluster_down; }

@test "hosts have separate names, folders and shared memory, and one shared folder" {
    for host in node1 node2 node3; do
        [ "$(cluster_exec $host hostname)" = "$host" ]
        # shellcheck disable=SC2016 # for the host's shell
        cluster_exec $host sh -c 'hostname | tee /tmp/a /dev/shm/a ~/a /run/a >"$0"/$(hostname)' "$cluster/shared"
    done
    [ "$(ls "$cluster/shared")" = $'node1\nnode2\nnode3' ]
    for host in node1 node2 node3; do
        [ "$(cluster_exec $host sh -c 'cat /tmp/a /dev/shm/a ~/a /run/a' | sort -u)" = "$host" ]
        [ "$(cluster_exec $host cat "$cluster/shared/node2")" = node2 ]
        # Only lo and the interfaces made by the cluster.
        [ "$(cluster_exec $host ls /sys/class/net)" = $'eth0\nlo' ]
    done
    [ ! -e /run/a ]
    [ "$(hostname)" != node3 ]
}

@test "ssh works between them by name and by address, and asks for a password without a key" {
    for pair in node1:node2 node2:node3 node3:10.77.0.1 node1:fd77::1; do
        run cluster_exec "${pair%%:*}" ssh -o BatchMode=yes "${pair#*:}" hostname
        echo "$pair: $output"
        [ "$status" -eq 0 ]
        [[ "$output" == node* ]]
    done
    run cluster_exec node1 ssh -o BatchMode=yes trainer@node2 id -un
    [ "$status" -eq 255 ]
    need_terminal # sshpass
    SSHPASS=$cluster_password run cluster_exec node1 sshpass -e ssh trainer@node2 'id -un; pwd'
    [ "$status" -eq 0 ]
    [ "$output" = $'trainer\n/run/host/home/trainer' ]
}

@test "mpirun starts a rank on every host over ssh" {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    cluster_exec node1 mpirun --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include "$cluster_subnet" \
        -H node1,node2,node3 -np 3 hostname >"$BATS_TEST_TMPDIR/names"
    [ "$(sort "$BATS_TEST_TMPDIR/names")" = $'node1\nnode2\nnode3' ]
}

@test "a disconnected host is unreachable until it is reconnected" {
    cluster_cut node3
    run cluster_exec node1 ssh -o ConnectTimeout=1 node3 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *"timed out"* || "$output" == *"No route"* ]]
    # The others are not affected.
    [ "$(cluster_exec node1 ssh node2 hostname)" = node2 ]
    cluster_mend node3
    [ "$(cluster_exec node1 ssh node3 hostname)" = node3 ]
}

@test "sshd restarts with another port and another host key" {
    cluster_new_host_key node2
    cluster_sshd node2 -p 2200
    run cluster_exec node1 ssh node2 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *refused* ]]
    run cluster_exec node1 ssh -p 2200 -o StrictHostKeyChecking=accept-new node2 hostname
    [ "$status" -eq 0 ]
    [[ "$output" == *node2 ]]
}

@test "a killed host does not respond" {
    cluster_kill node2
    run cluster_exec node1 ssh -o ConnectTimeout=1 node2 hostname
    [ "$status" -eq 255 ]
    [[ "$output" == *"timed out"* || "$output" == *"No route"* ]]
    run cluster_exec node2 true
    [ "$status" -ne 0 ]
}

# Prints the namespaces of every process.
namespaces() {
    readlink /proc/[0-9]*/ns/{net,pid,uts,mnt} 2>/dev/null | sort -u
}

# Prints a cluster's three namespaces of each kind, one per line; fails if they do not exist.
its_namespaces() {
    local host
    for host in node1 node2; do readlink "/proc/$(<"$cluster/$host/pid")"/ns/{net,pid,uts,mnt}; done
    readlink "/proc/$(<"$cluster/pid")"/ns/{net,mnt}
}

# Fails if a folder, process, namespace or mount of the cluster is left.
gone() { # FOLDER NAMESPACES
    [[ ! -e $1 ]] || return 1
    ! pgrep -f "$1" || return 1
    ! namespaces | grep -Fx "$2" || return 1
    ! grep -F "$1" /proc/self/mounts
}

@test "a cluster leaves nothing behind, and two clusters do not interfere" {
    other=$cluster
    cluster_up 2
    its=$(its_namespaces)
    [ "$(wc -l <<<"$its")" -eq 10 ]
    run gone "$cluster" "$its"
    [ "$status" -eq 1 ]
    cluster_exec node1 sh -c 'sleep 300 & exec setsid sleep 300' &
    [ "$(cluster_exec node1 hostname)" = node1 ]
    # The names belong to the other cluster, with a different node1.
    mine=$(cluster_exec node1 readlink /proc/self/ns/net)
    [ "$mine" != "$(cluster=$other cluster_exec node1 readlink /proc/self/ns/net)" ]
    folder=$cluster
    cluster_down
    [ -z "${cluster:-}" ]
    gone "$folder" "$its"
    # Repeating it is not an error.
    cluster_down
    cluster=$other
    [ "$(cluster_exec node1 hostname)" = node1 ]
}

@test "a killed test leaves nothing behind either" {
    slow
    # shellcheck disable=SC2016 # for the other shell
    bash -c 'unset cluster; . "$0"; cluster_up 2; its_namespaces() { '"$(declare -f its_namespaces)"'; its_namespaces; }
        { echo "$cluster"; its_namespaces; } >"$1"; kill -KILL $$' \
        "$BATS_TEST_DIRNAME/cluster.bash" "$BATS_TEST_TMPDIR/its" 3>&- || true
    folder=$(head -n 1 "$BATS_TEST_TMPDIR/its")
    its=$(tail -n +2 "$BATS_TEST_TMPDIR/its")
    [ "$(wc -l <<<"$its")" -eq 10 ]
    for ((i = 0; i < 600; i++)); do
        [[ -e $folder ]] || break
        sleep 0.1
    done
    gone "$folder" "$its"
}

@test "a cluster that cannot start prints the reason" {
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
