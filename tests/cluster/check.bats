#!/usr/bin/env bats
# dptrain check and cluster_health.sh between real hosts: all is well, and each fault by the name of its host.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster

setup_file() {
    cluster_try 4 || return 0
    cluster_trust
    export root tiny=$cluster/shared/tiny DPTRAIN_BIN OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DPTRAIN_BIND=none
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    DPTRAIN_BIN=$(readlink -f "${DPTRAIN_BIN:-$root/dptrain}")
    unset OMPI_MCA_pml
    "$DPTRAIN_BIN" data synth digits --out "$tiny" --train 60 --val 20
}

teardown_file() { cluster_down; }

setup() {
    cluster_or_skip
    json=$cluster/shared/$BATS_TEST_NUMBER.json
}

hosts=node1:1,node2:1,node3:1,node4:1

# In the shared folder of node1. Sets seconds, beside run's variables.
timed() { # COMMAND...
    local start=${EPOCHREALTIME/./}
    # shellcheck disable=SC2016 # for the host's shell
    run cluster_exec node1 setsid -w sh -c 'cd "$0" && exec "$@"' "$cluster/shared" "$@"
    seconds=$(((${EPOCHREALTIME/./} - start) / 100000))
    printf '# %s: code %s after %s.%s s\n' "$BATS_TEST_DESCRIPTION" "$status" $((seconds / 10)) $((seconds % 10)) >&3
    echo "$output"
}

health() { timed "$root/scripts/cluster_health.sh" "$@"; }

# As a job that is started without asking hosts first, so that it is dptrain check that finds out.
check() { # [OF RUN.SH...] -- OF DPTRAIN CHECK...
    local words=()
    while [[ $1 != -- ]]; do words+=("$1"); shift; done
    timed "$root/scripts/run.sh" -H "$hosts" --no-checks --interface "$cluster_subnet" --transport tcp "${words[@]}" -- \
        check --timeout 20 --json "$json" --device cpu --shared-bytes 1M "${@:2}"
}

# STATUS HOST TEXT of the lines of a check that are not ok.
bad() { # CHECK...
    local name
    for name; do
        jq -r --arg c "$name" '.lines[] | select(.check == $c and (.status | IN("warn", "fail")))
            | [.status, .host // "job", .name, .found] | join(" ")' "$json"
    done
}

on_net() { # HOST COMMAND...
    nsenter --target "$(<"$cluster/$1/pid")" --net "${@:2}"
}

@test "four healthy hosts are ready, again and again" {
    times=3
    if [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]]; then times=20; fi
    for ((i = 0; i < times; i++)); do
        health --json "$json" $hosts -- --data tiny --shared . --shared-bytes 1M --device cpu
        [ "$status" -eq 0 ]
        grep -qx ready <<<"$output"
        [ -z "$(bad topology clock versions network transport)" ]
        [ "$(jq '[.lines[] | select(.status == "fail")] | length' "$json")" -eq 0 ]
    done
    jq -e '.hosts == 4 and .ranks == 4' "$json"
    [[ "$output" == *"all 12 pairs connect"* ]]
    [[ "$output" == *"TCP by eth0"* ]]
}

@test "a host with another binary is named" {
    { cat "$DPTRAIN_BIN" && echo; } >"$cluster/shared/other"
    chmod +x "$cluster/shared/other"
    cluster_exec node2 mount --bind "$cluster/shared/other" "$DPTRAIN_BIN"
    check -- --only versions
    cluster_exec node2 umount "$DPTRAIN_BIN"
    [ "$status" -eq 1 ]
    [[ "$(bad versions)" == "fail node2 dptrain "* ]]
    [ "$(bad versions | wc -l)" -eq 1 ]
}

@test "a host with another dataset is named" {
    cp -r "$tiny" "$cluster/shared/changed"
    file=$(find "$cluster/shared/changed" -type f | sort | head -n 1)
    printf x | dd of="$file" bs=1 seek=100 conv=notrunc status=none
    cluster_exec node3 mount --bind "$cluster/shared/changed" "$tiny"
    check -- --only versions --data tiny
    cluster_exec node3 umount "$tiny"
    [ "$status" -eq 1 ]
    [[ "$(bad versions)" == "fail node3 "* ]]
    [ "$(bad versions | wc -l)" -eq 1 ]
}

@test "a host without the shared mount is named" {
    mkdir "$cluster/shared/out"
    cluster_exec node4 mount -t tmpfs tmpfs "$cluster/shared/out"
    check -- --only shared --shared "$cluster/shared/out" --shared-timeout 2
    cluster_exec node4 umount "$cluster/shared/out"
    [ "$status" -eq 1 ]
    [[ "$(bad shared)" == *"fail node4 "* ]]
    [ "$(bad shared | cut -d ' ' -f 2 | sort -u)" = node4 ]
}

@test "an interface that one host alone has is named" {
    on_net node2 ip link add eth1 type veth peer name eth2
    on_net node2 ip address add 10.88.0.2/24 dev eth1
    on_net node2 ip link set eth1 up
    on_net node2 ip link set eth2 up
    # MPI is told nothing, so that it may take any.
    timed env OMPI_MCA_oob_tcp_if_include="$cluster_subnet" mpirun -q --bind-to none -H "$hosts" "$DPTRAIN_BIN" check \
        --timeout 20 --json "$json" --only network
    on_net node2 ip link del eth1
    [ "$(bad network)" = "warn node2 interfaces eth1 10.88.0.0/24 is on this host only" ]
}

@test "a slow link is named, by its host" {
    if on_net node3 tc qdisc add dev eth0 root netem rate 50mbit 2>/dev/null; then
        how=netem
    elif on_net node3 tc qdisc add dev eth0 root tbf rate 50mbit burst 32k latency 50ms 2>/dev/null; then
        how=tbf
    else
        skip "this kernel has neither netem nor tbf"
    fi
    echo "by $how"
    check -- --only network
    on_net node3 tc qdisc del dev eth0 root
    [ "$status" -eq 1 ]
    [[ "$(bad network)" == "fail node3 bandwidth "*" to the others"* ]]
    [ "$(bad network | wc -l)" -eq 1 ]
}

@test "a pair that does not reach each other is named, in each direction" {
    # The start needs no messages between these two.
    on_net node3 ip route add prohibit 10.77.0.2/32
    check -- --only network --ports 20000-20999
    on_net node3 ip route del prohibit 10.77.0.2/32
    [ "$status" -eq 1 ]
    [ "$(bad network | sort)" = $'fail node2 ports to node3: timed out\nfail node3 ports to node2: no route' ]
    [[ "$output" == *"not all hosts reach each other"* ]]
}

@test "another transport than expected is a failure, EFA that is not used a warning" {
    check -- --only transport --expect-transport efa
    [ "$status" -eq 1 ]
    [[ "$(bad transport)" == *"fail node3 MPI TCP by eth0 (tcp), not efa"* ]]
    [[ "$(bad transport)" == *"fail node3 device no active port"* ]]
    # As the kernel lists an adapter of Amazon's.
    mkdir -p "$cluster/shared/infiniband/rdmap0s31/"{device,ports/1/hw_counters}
    echo 0x1d0f >"$cluster/shared/infiniband/rdmap0s31/device/vendor"
    echo "4: ACTIVE" >"$cluster/shared/infiniband/rdmap0s31/ports/1/state"
    echo 0 >"$cluster/shared/infiniband/rdmap0s31/ports/1/hw_counters/tx_bytes"
    check -- --only transport --infiniband "$cluster/shared/infiniband"
    [ "$status" -eq 0 ]
    [[ "$(bad transport)" == *"warn node2 MPI TCP by eth0 (tcp)"*"though there is EFA"* ]]
    check -- --only transport --expect-transport tcp
    [ "$status" -eq 0 ]
    [ -z "$(bad transport)" ]
}

@test "a host whose link is down is named, with ssh's pairs and without" {
    cluster_cut node3
    health $hosts
    [ "$status" -eq 1 ]
    [[ "$output" == *node3*"no answer in time"* || "$output" == *node3*"no route"* ]]
    [ "$seconds" -lt 300 ]
    health --no-ssh $hosts
    cluster_mend node3
    [ "$status" -eq 1 ]
    [[ "$output" == *"node3: cannot be asked"* ]]
    [ "$seconds" -lt 400 ]
}

@test "a host whose daemon hangs, which no message names, is found by groups" {
    printf '#!/bin/sh\nexec sleep 600\n' >"$cluster/shared/orted"
    chmod +x "$cluster/shared/orted"
    orted=$(readlink -f "$(command -v orted)")
    cluster_exec node2 mount --bind "$cluster/shared/orted" "$orted"
    if [[ ${DPTRAIN_TEST_SLOW:-} != 1 ]]; then hosts=node1:1,node2:1; fi
    health --no-ssh --timeout-start 6 $hosts -- --only topology
    cluster_exec node2 umount "$orted"
    [ "$status" -eq 1 ]
    [[ "${lines[-1]}" == *"node2 keeps the job from starting"* ]]
    [ "$(grep -c ': start [0-9]' <<<"$output")" -le 4 ]
}
