#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The same job in every engine and mode: docker with a daemon on each host, rootless podman, another user on a read-only root,
# Charliecloud, and the image of the Containerfile. Takes minutes: scripts/test.sh --slow. DPTRAIN_TEST_BASE is a tar of a base
# that is there already, instead of debootstrap's.
# shellcheck disable=SC2016 # for the hosts' shells
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* and others come from the loaded files

load ../cluster/cluster
load ../cluster/jobs
load container

hosts=node1,node2

setup_file() {
    if [[ -z ${DPTRAIN_TEST_SLOW:-} ]]; then
        export cluster_missing="only with scripts/test.sh --slow"
        return
    fi
    container_try 2 || return 0
    container_options
    on node1 -H node1:1,node2:1 --env-file env "${job[@]}" --data "$tiny" --out outside
}

job=(-- train --model mlp --batch 20 --threads 1 --algorithms fixed --allreduce mpi --steps 20)

setup() {
    cluster_or_skip
    container_options
    job+=(--data "$tiny")
}

# A test that failed may have left its containers, and the port with them.
teardown() {
    [[ -n ${cluster:-} ]] || return 0
    for host in node1 node2; do cluster_exec $host pkill -KILL -f /run/dptrain/worker || true; done
}

teardown_file() { container_down; }

needs() { # TOOL...
    local tool
    for tool; do
        command -v "$tool" >/dev/null || skip "no $tool here (apt-get install docker.io uidmap charliecloud debootstrap buildah)"
    done
}

# up, the job, its losses against those without containers, down.
whole() { # NAME HOSTS OPTION...
    local name=$1 list=$2
    shift 2
    run container up "${options[@]}" "$@" "$list"
    expect 0 "run a job"
    run container exec "$list" -- run.sh -hostfile /run/dptrain/hosts "${job[@]}" --out "$name"
    expect 0 "2 on 2 hosts"
    diff <(losses outside) <(losses "$name")
    run container check "$list" -- --device cpu --shared-bytes 1M --only host,versions
    expect 0 "ready"
    run container down "$list"
    expect 0 "removed container"
}

@test "podman as root; as user 1000 on a read-only root; bridged" {
    whole root $hosts
    whole mpiuser $hosts --user 1000 --read-only
    whole bridged $hosts --bridge
}

@test "an sshd that hangs: the last line of the container" {
    mkdir "$cluster/shared/hangs"
    printf '#!/bin/bash\necho "waiting for entropy" >&2\nexec sleep 1000\n' >"$cluster/shared/hangs/sshd"
    chmod +x "$cluster/shared/hangs/sshd"
    run container up "${options[@]}" --timeout 10 --mount "$cluster/shared/hangs:/usr/sbin:ro" node2
    expect 4 "node2: no answer from sshd on port 12345 within 10 s; the container is running; its last line: waiting for entropy"
    container down node2
}

# Starts docker's daemon on a host.
dockerd_up() { # HOST OPTION...
    local i
    # shellcheck disable=SC2024
    cluster_exec "$1" setsid dockerd --data-root /run/host/docker --exec-root /run/docker --pidfile /run/docker.pid \
        --host unix:///run/docker.sock "${@:2}" --iptables=false --ip6tables=false --bridge=none >"$cluster/$1/dockerd.log" 2>&1 3>&- &
    for ((i = 0; i < 600; i++)); do
        ! cluster_exec "$1" docker info 2>/dev/null | grep -q 'Docker Root Dir' || return 0
        sleep 0.2
    done
    tail -n 5 "$cluster/$1/dockerd.log"
    return 1
}

@test "docker: a daemon on each host, --push, plain and bridged; a daemon that is silent" {
    needs dockerd docker
    dockerd_up node1 --add-runtime nvidia=/usr/sbin/runc
    dockerd_up node2
    podman --root "$cluster/shared/store" --runroot "$cluster/runroot" save --quiet --format docker-archive "$image" |
        cluster_exec node1 docker load
    cluster_exec node1 docker tag "localhost/$image" "$image"
    whole docker $hosts --engine docker --push
    whole docker_bridge $hosts --engine docker --bridge
    run container up "${options[@]}" --engine docker --gpus all --dry-run node1
    expect 0 "docker run **--gpus all $image "
    run container up "${options[@]}" --engine docker --gpus all --push $hosts
    expect 4 "node2: --gpus all: docker has no runtime nvidia"
    cluster_exec node2 pkill -x dockerd
    while cluster_exec node2 pgrep -x dockerd; do sleep 0.1; done
    run container up "${options[@]}" --engine docker $hosts
    expect 4 "node2: docker does not answer: "
}

@test "rootless podman: the job, and a port below 1024" {
    needs newuidmap
    printf 'trainer:200000:65536\n' >"$cluster/shared/subids"
    install -d -m 700 "$cluster/node1/home/trainer/.ssh"
    for host in node1 node2; do
        for file in subuid subgid; do
            [[ -e /etc/$file ]] || touch "/etc/$file"
            cluster_exec $host mount --bind "$cluster/shared/subids" /etc/$file
        done
        install -d -m 700 "$cluster/$host/home/trainer/.ssh"
        install -m 600 "$cluster/key.pub" "$cluster/$host/home/trainer/.ssh/authorized_keys"
        mkdir -p "$cluster/$host/home/trainer/.config/containers"
        printf '[storage]\ndriver = "overlay"\n' >"$cluster/$host/home/trainer/.config/containers/storage.conf"
        chown -R 60000:60000 "$cluster/$host/home/trainer"
        cluster_exec $host chmod 666 /dev/fuse
    done
    printf '%s\n' 'nodes:' '  - {address: node1, chief: true, ssh_config: a}' '  - {address: node2, ssh_config: a}' \
        'ssh:' '  a: {username: trainer}' >"$cluster/shared/trainer.yaml"
    podman --root "$cluster/shared/store" --runroot "$cluster/runroot" save --quiet --format docker-archive "$image" |
        cluster_exec node1 ssh trainer@node1 podman load --quiet
    run container up "${options[@]}" --port 1000 --push "$cluster/shared/trainer.yaml"
    expect 4 "node1: --port 1000: only root may open ports below 1024"
    whole rootless "$cluster/shared/trainer.yaml" --push
    whole rootless_bridge "$cluster/shared/trainer.yaml" --bridge
    whole rootless_mpiuser "$cluster/shared/trainer.yaml" --user 1000 --read-only
}

@test "Charliecloud: mpirun outside, a container for each rank" {
    needs ch-run
    mkdir "$cluster/shared/charliecloud.root"
    "$container_code/image.sh" "${DPTRAIN_TEST_BUNDLE:-$cluster/bundle.tar.gz}" | tar -x -C "$cluster/shared/charliecloud.root"
    mkdir -p "$cluster/shared/charliecloud.root$cluster/shared"
    OMPI_MCA_mpi_yield_when_idle=1 run cluster_exec node1 mpirun --mca oob_tcp_if_include "$cluster_subnet" \
        --mca btl_tcp_if_include "$cluster_subnet" -x OMPI_MCA_mpi_yield_when_idle -H node1:1,node2:1 -np 2 \
        ch-run --bind "$cluster/shared:$cluster/shared" --cd "$cluster/shared" "$cluster/shared/charliecloud.root" -- \
        /opt/dptrain/dptrain "${job[@]:1}" --out charliecloud
    expect 0 "2 on 2 hosts"
    diff <(losses outside) <(losses charliecloud)
}

# A base for the Containerfile, as small as Debian's own.
base() {
    if [[ -n ${DPTRAIN_TEST_BASE:-} ]]; then cat "$DPTRAIN_TEST_BASE"; return; fi
    debootstrap --variant=minbase bookworm "$cluster/base" >"$cluster/base.log" 2>&1 || { tail -n 3 "$cluster/base.log"; return 1; }
    rm -rf "$cluster"/base/{var/cache/apt,var/lib/apt/lists,usr/share/{doc,man,info,locale}}/*
    tar -C "$cluster/base" --numeric-owner -c .
    rm -rf "$cluster/base"
}

@test "the Containerfile on Debian's base: at most 250 MB, no keys, and the job" {
    needs podman
    [[ -n ${DPTRAIN_TEST_BASE:-} ]] || needs debootstrap
    export CONTAINERS_CONF=$cluster/shared/containers.conf
    printf '%s\n' '[engine]' 'runtime = "runc"' 'cgroup_manager = "cgroupfs"' 'events_logger = "file"' '[containers]' \
        'netns = "host"' 'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]' >"$CONTAINERS_CONF"
    export CONTAINERS_STORAGE_CONF=$cluster/shared/storage.conf
    printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$cluster/shared/store\"" "runroot = \"$cluster/runroot\"" \
        >"$CONTAINERS_STORAGE_CONF"
    base | podman import --quiet - debian-base
    run "$root/scripts/container.sh" build --engine podman --image built --build-arg BASE=localhost/debian-base
    expect 0 "container.sh: built built: Id "
    bytes=$(podman image inspect --format '{{.Size}}' built)
    printf '# the image has %s MB\n' $((bytes / 1000000)) >&3
    ((bytes <= 250000000))
    podman save --quiet --format docker-archive built >"$cluster/built.tar"
    for layer in $(tar -tf "$cluster/built.tar" | grep '^[0-9a-f]*\.tar$'); do
        tar -xOf "$cluster/built.tar" "$layer" | tar -t
    done >"$cluster/names"
    grep -q 'opt/dptrain/dptrain$' "$cluster/names"
    run grep -E 'ssh_host_.*key|id_(rsa|ed25519)|login_key' "$cluster/names"
    [ -z "$output" ]
    revision=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null) || revision=unknown
    run podman run --rm --network host --user mpiuser --read-only built dptrain --version
    expect 0 "dptrain $(<"$root/VERSION") ($revision, "
    image=built container_options
    whole built $hosts
    whole built_mpiuser $hosts --user 1000 --read-only
}
