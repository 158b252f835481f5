#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain check and cluster_health.sh between hosts: healthy hosts pass, and each fault is reported with its host.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster
load jobs
load faults

setup_file() {
    cluster_try 4 || return 0
    cluster_trust
    jobs_setup 60 20
}

teardown_file() { cluster_down; }

setup() {
    cluster_or_skip
    json=$cluster/shared/$BATS_TEST_NUMBER.json
}

hosts=node1:1,node2:1,node3:1,node4:1

@test "four healthy hosts are ready, repeatedly" {
    times=1
    if [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]]; then times=20; fi
    for ((i = 0; i < times; i++)); do
        # mpirun uses ports of the range, and leaves enough for the ranks of its host.
        health --json "$json" --ports 20000-20999 $hosts -- --data tiny --shared . --shared-bytes 1M --device cpu --allow-busy
        [[ "$output" != *"bind() failed"* ]]
        [ "$status" -eq 0 ]
        grep -qxE 'ready(, with warnings)?' <<<"$output"
        [ -z "$(bad topology reach machine clock versions network transport)" ]
        [ "$(jq '[.lines[] | select(.status == "fail")] | length' "$json")" -eq 0 ]
    done
    jq -e '.hosts == 4 and .ranks == 4' "$json"
    [[ "$output" == *"all 12 pairs connect"* ]]
    [[ "$output" == *"TCP via eth0"* ]]
}

@test "a host with another binary is named" {
    fault_other_binary node2
    check -- --only versions
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad versions)" == "fail node2 dptrain "* ]]
    [ "$(bad versions | wc -l)" -eq 1 ]
}

@test "a host that fails is drained by its name, and remembered when it is mended" {
    words=(-- --only versions --history "$cluster/shared/h.jsonl"
        --drain-command "$cluster/shared/drain NodeName={host} Reason={reason}")
    printf '#!/bin/sh\nprintf "<%%s>" "$@" >>%s\n' "$cluster/shared/drained" >"$cluster/shared/drain"
    chmod +x "$cluster/shared/drain"
    fault_other_binary node2
    check "${words[@]}"
    mend
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $(<"$cluster/shared/drained") == "<NodeName=node2><Reason=dptrain check: versions dptrain: "*">" ]]
    grep -q '^drained node2: versions dptrain: ' <<<"$output"
    check "${words[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -qx 'node2 failed the check before this one (versions dptrain 1)' <<<"$output"
    [ "$(grep -o NodeName "$cluster/shared/drained" | wc -l)" -eq 1 ]
}

@test "a host with another dataset is named" {
    slow
    fault_other_data node3
    check -- --only versions --data tiny
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad versions)" == "fail node3 "* ]]
    [ "$(bad versions | wc -l)" -eq 1 ]
}

@test "a host without the shared mount is named" {
    mkdir "$cluster/shared/out"
    fault_not_mounted node4 "$cluster/shared/out"
    check -- --only shared --shared "$cluster/shared/out" --shared-timeout 10
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad shared)" == *"fail node4 "* ]]
    [ "$(bad shared | cut -d ' ' -f 2 | sort -u)" = node4 ]
}

@test "an interface that only one host has is named" {
    slow
    fault_lone_interface node2
    # MPI gets no interface, so it may choose any.
    timed env OMPI_MCA_oob_tcp_if_include="$cluster_subnet" mpirun -q --bind-to none -H "$hosts" "$DPTRAIN_BIN" check \
        --timeout 20 --json "$json" --only reach
    mend
    [ "$(bad reach)" = "warn node2 interfaces eth1 10.88.0.0/24 is on this host only" ]
}

@test "a slow link is reported with its host" {
    slow
    fault_slow_link node3 || skip "this kernel has neither netem nor tbf"
    echo "by $how"
    check -- --only network
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad network)" == "fail node3 bandwidth "*" to the others"* ]]
    [ "$(bad network | wc -l)" -eq 1 ]
}

@test "a pair that cannot reach each other is named, in each direction" {
    slow
    # The start needs no messages between these two.
    fault_no_route node3 node2
    check -- --only reach,network --ports 20000-20999
    mend
    [ "$status" -eq 1 ]
    [ "$(bad reach | sort)" = $'fail node2 ports to node3: timed out\nfail node3 ports to node2: no route' ]
    [[ "$output" == *"not all hosts reach each other"* ]]
}

@test "a host with another MTU, and one that loses packets, are named" {
    fault_mtu node3 1280
    check -- --only reach
    mend
    [ "$status" -eq 1 ]
    [ "$(bad reach)" = "fail node3 MTU 1280 bytes; node1 has 1500 bytes" ]
    fault_loss node3 0.05 || skip "iptables cannot drop packets here"
    check -- --only reach
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad reach)" == "fail node3 packet loss "*" of what is sent to it" ]]
}

@test "packets that a host sends, or one pair, are lost" {
    slow
    for host in node1 node2 node4; do fault_loss "$host" 0.05 node3 || skip "iptables cannot drop packets here"; done
    check -- --only reach
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad reach)" == "fail node3 packet loss "*" of what it sends" ]]
    fault_loss node3 0.05 node2
    check -- --only reach
    mend
    [[ "$(bad reach)" == "fail node2 packet loss "*" of what it sends to node3" ]]
}

@test "full packets that a path does not carry" {
    slow
    fault_large node4 node3 || skip "iptables cannot drop packets here"
    check -- --only reach
    mend
    [ "$status" -eq 1 ]
    [ "$(bad reach)" = "fail node3 path MTU full packets to node4 are lost: 1500 bytes" ]
}

@test "a name that leads elsewhere on one host" {
    slow
    sed 's/^10.77.0.2 node2/10.77.0.4 node2/' "$cluster/hosts" >"$cluster/shared/hosts"
    fault_cover node3 "$cluster/shared/hosts" /etc/hosts
    check -- --only reach
    mend
    [ "$status" -eq 1 ]
    [ "$(bad reach)" = "fail node3 names node2 is 10.77.0.4 here, an address of node4" ]
}

@test "an address of two hosts is named before the start" {
    slow
    cluster_net node3 ip address add 10.77.0.2/16 dev eth0
    health $hosts -- --only topology
    cluster_net node3 ip address del 10.77.0.2/16 dev eth0
    [ "$status" -eq 1 ]
    # Which of the two answers is chance: with ssh it may be the one with another key.
    [[ "$output" == *"10.77.0.2 is an address of node2 and of node3"* || "$output" == *"node2"*"key"* ]]
}

@test "firewalls are named by pair and direction, where MPI does not start" {
    slow
    fault_firewall node1 node3 DROP || skip "iptables cannot drop packets here"
    fault_firewall node4 node2 REJECT
    health --timeout-start 20 $hosts -- --only topology --timeout 20
    mend
    [ "$status" -eq 1 ]
    grep -qx 'node3: to node1, 10.77.0.1: timed out' <<<"$output"
    grep -qx 'node2: to node4, 10.77.0.4: refused' <<<"$output"
    [ "$(grep -c ': to ' <<<"$output")" -eq 2 ]
}

@test "a port at a fifth of the others' rate is a failure" {
    slow
    cluster_limit 1gbit 64k || skip "this kernel has no tbf"
    cluster_net node3 tc qdisc replace dev eth0 root tbf rate 200mbit burst 64k latency 20ms
    check -- --only network
    for host in $(cluster_hosts); do cluster_net "$host" tc qdisc del dev eth0 root; done
    [ "$status" -eq 1 ]
    [[ "$(bad network)" == "fail node3 bandwidth "*" to the others, "* ]]
}

@test "a host with half the CPUs is named" {
    fault_cpu node3
    check -- --only machine
    mend
    [ "$status" -eq 1 ]
    [[ "$(bad machine)" == "fail node3 usable CPUs 1; node1 has "* ]]
}

@test "an unexpected transport is a failure, an unused EFA a warning" {
    slow
    check -- --only transport --expect-transport efa
    [ "$status" -eq 1 ]
    [[ "$(bad transport)" == *"fail node3 MPI TCP via eth0 (tcp), not efa"* ]]
    [[ "$(bad transport)" == *"fail node3 device no active port"* ]]
    # As the kernel lists an Amazon adapter.
    mkdir -p "$cluster/shared/infiniband/rdmap0s31/"{device,ports/1/hw_counters}
    echo 0x1d0f >"$cluster/shared/infiniband/rdmap0s31/device/vendor"
    echo "4: ACTIVE" >"$cluster/shared/infiniband/rdmap0s31/ports/1/state"
    echo 0 >"$cluster/shared/infiniband/rdmap0s31/ports/1/hw_counters/tx_bytes"
    check -- --only transport --infiniband "$cluster/shared/infiniband"
    [ "$status" -eq 0 ]
    [[ "$(bad transport)" == *"warn node2 MPI TCP via eth0 (tcp)"*"although EFA is available"* ]]
    check -- --only transport --expect-transport tcp
    [ "$status" -eq 0 ]
    [ -z "$(bad transport)" ]
}

@test "a host whose link is down is named, with and without the ssh test" {
    slow
    cluster_cut node3
    health $hosts
    [ "$status" -eq 1 ]
    [[ "$output" == *node3*"no answer in time"* || "$output" == *node3*"no route"* ]]
    [ "$seconds" -lt 300 ]
    health --no-ssh $hosts
    cluster_mend node3
    [ "$status" -eq 1 ]
    [[ "$output" == *"node3: probe over ssh failed"* ]]
    [ "$seconds" -lt 400 ]
}

@test "a host with a hanging daemon, which no message names, is found by bisection" {
    slow
    fault_hanging_daemon node2
    health --no-ssh --timeout-start 20 $hosts -- --only topology
    mend
    [ "$status" -eq 1 ]
    [[ "${lines[-1]}" == *"node2 keeps the job from starting"* ]]
    [ "$(grep -c ': start [0-9]' <<<"$output")" -le 4 ]
}

@test "thirty-two hosts are ready; one whose sshd has stopped is named" {
    slow
    cluster_down
    cluster_up 32
    cluster_trust
    jobs_setup 60 20
    local i list=''
    for ((i = 1; i <= 32; i++)); do list+=,node$i:1; done
    health --timeout 550 --timeout-start 300 "${list#,}" -- --only topology,host,versions --device cpu
    [ "$status" -eq 0 ]
    [[ "$output" == *'1024 of 1024 logins work, from here and between 32 hosts'* ]]
    grep -qxE 'ready(, with warnings)?' <<<"$output"
    cluster_exec node21 pkill -x sshd
    health "${list#,}" -- --only versions
    [ "$status" -eq 1 ]
    [[ "$output" == *'-> node21 '*'refused: no sshd listens on port 22'* ]]
}
