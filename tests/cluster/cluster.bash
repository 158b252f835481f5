# SPDX-License-Identifier: MIT
# Hosts of a cluster on one machine, out of namespaces: `load cluster` in bats, or source it. See README.md.
# shellcheck shell=bash
#
# All state is in the folder $cluster, which is exported: a cluster made in setup_file is there in every test.
#   $cluster/shared        the shared folder: the same path in every host and outside
#   $cluster/NODE/         what is NODE's own, seen there as /run/host: home/root, home/trainer, sshd.log, host keys
# Hosts are node1, node2, …: 10.77.0.1, 10.77.0.2, … and fd77::1, fd77::2, … on eth0.

# shellcheck disable=SC2034 # for the tests
cluster_subnet=10.77.0.0/24
# Of root and of trainer, the ordinary user, on every host.
cluster_password=correct-horse

cluster_code=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What stands in the way of a cluster here; nothing where nothing does.
cluster_why() {
    local tool
    [[ $(id -u) -eq 0 ]] || { echo "network namespaces need root"; return; }
    for tool in ip unshare nsenter ssh ssh-keygen /usr/sbin/sshd rsync sshpass; do
        command -v "$tool" >/dev/null || { echo "no ${tool##*/} here (scripts/install_deps.sh --test)"; return; }
    done
    # Containers often refuse namespaces, and some kernels have no veth or no bridge.
    unshare --net --mount --uts --ipc --pid --fork --kill-child sh -c 'mount -t tmpfs tmpfs /run && ip netns add a &&
        ip link add s type bridge && ip link add p type veth peer name eth0 netns a && mount -t proc proc /proc' \
        >/dev/null 2>&1 || echo "namespaces, veth or bridges are refused here"
}

# For setup, with a cluster that setup_file made by cluster_try: bats 1.8 cannot skip in setup_file.
cluster_or_skip() {
    [[ -z ${cluster_missing:-} ]] || skip "$cluster_missing"
    [[ -n ${cluster:-} ]] || { echo "there is no cluster: setup_file failed" >&2; return 1; }
}

# For setup_file. Fails where there can be no cluster, and where it does not start.
cluster_try() { # N [OPTION...]
    cluster_missing=$(cluster_why)
    export cluster_missing
    [[ -z $cluster_missing ]] && cluster_up "$@"
}

# For tests that wait for long.
slow() {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "only with scripts/test.sh --slow"
}

# N hosts with a running sshd each, port 22 unless OPTIONS for sshd say otherwise. It ends with the shell that made it.
cluster_up() { # N [OPTION...]
    local n=$1 i
    cluster=$(mktemp -d /tmp/dptrain-cluster.XXXXXX) || return
    export cluster
    chmod 755 "$cluster"
    mkdir -m 1777 "$cluster/shared"
    {
        printf '127.0.0.1 localhost\n::1 localhost\n'
        for ((i = 1; i <= n; i++)); do printf '10.77.0.%d node%d\nfd77::%d node%d\n' "$i" "$i" "$i" "$i"; done
    } >"$cluster/hosts"
    cluster_users
    for ((i = 1; i <= n; i++)); do cluster_folder "node$i"; done
    ssh-keygen -q -t ed25519 -N '' -C cluster -f "$cluster/key"
    # In a session of its own: a signal for the test's group leaves it its time to clean up.
    setsid bash "$cluster_code/inside.bash" keep "$cluster" "$$" "$n" "${@:2}" >"$cluster/log" 2>&1 </dev/null &
    disown
    for ((i = 0; i < 500; i++)); do
        if [[ $(find "$cluster" -maxdepth 2 -name ready | wc -l) -eq $n ]]; then return 0; fi
        [[ ! -e $cluster/ended ]] || break
        sleep 0.02
    done
    echo "the cluster did not start:" >&2
    cat "$cluster/log" >&2
    cluster_down
    return 1
}

# The users' tables that hosts see: root and trainer with homes of the host's own, and a password.
cluster_users() {
    local hash
    hash=$(perl -e 'print crypt($ARGV[0], q($6$cluster$))' "$cluster_password")
    grep -vE '^(root|trainer):' /etc/passwd >"$cluster/passwd"
    printf '%s\n' root:x:0:0::/run/host/home/root:/bin/bash trainer:x:60000:60000::/run/host/home/trainer:/bin/bash \
        >>"$cluster/passwd"
    { grep -v '^trainer:' /etc/group; echo trainer:x:60000:; } >"$cluster/group"
    printf '%s:%s:19000:0:99999:7:::\n' root "$hash" trainer "$hash" sshd '*' >"$cluster/shadow"
    chmod 600 "$cluster/shadow"
}

cluster_folder() { # HOST
    mkdir -p "$cluster/$1/home/root" "$cluster/$1/home/trainer"
    chmod 700 "$cluster/$1"/home/*
    chown 60000:60000 "$cluster/$1/home/trainer"
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$cluster/$1/host_key"
}

# Ends every process of the cluster, and with them its namespaces, links and mounts. Without a cluster it does nothing.
cluster_down() {
    local i
    [[ -n ${cluster:-} ]] || return 0
    # The keeper removes the folder when all are gone.
    touch "$cluster/down"
    [[ ! -e $cluster/pid ]] || kill -KILL "$(<"$cluster/pid")" 2>/dev/null || true
    for ((i = 0; i < 500; i++)); do
        [[ -e $cluster ]] || { unset cluster; return 0; }
        [[ ! -e $cluster/ended ]] || rm -rf "$cluster"
        sleep 0.02
    done
    echo "$cluster did not end within 10 s" >&2
    return 1
}

# As root, in root's home, with the caller's environment.
cluster_exec() { # HOST COMMAND...
    nsenter --target "$(<"$cluster/$1/pid")" --mount --uts --ipc --net --pid \
        env -u TMPDIR -C /run/host/home/root HOME=/run/host/home/root USER=root LOGNAME=root "${@:2}"
}

# With the host's network, but the machine's programs and files.
cluster_net() { # HOST COMMAND...
    nsenter --target "$(<"$cluster/$1/pid")" --net "${@:2}"
}

# Pulls the cable at the switch: nothing arrives, nobody is told; routes and addresses stay.
cluster_cut() { # HOST
    nsenter --target "$(<"$cluster/pid")" --net ip link set "port${1#node}" down
}

cluster_mend() { # HOST
    nsenter --target "$(<"$cluster/pid")" --net ip link set "port${1#node}" up
}

# As if switched off: every process of the host dies, and nothing answers for it.
cluster_kill() { # HOST
    local pid i
    pid=$(<"$cluster/$1/pid")
    cluster_cut "$1"
    kill -KILL "$pid"
    for ((i = 0; i < 500; i++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.02
    done
    return 1
}

# Starts sshd anew, with these options in place of the former; sessions end.
cluster_sshd() { # HOST OPTION...
    cluster_exec "$1" pkill -x sshd || true
    while cluster_exec "$1" pgrep -x sshd >/dev/null; do sleep 0.02; done
    cluster_exec "$1" bash "$cluster_code/inside.bash" sshd "${@:2}"
}

# As after a new installation.
cluster_new_host_key() { # HOST
    rm "$cluster/$1"/host_key*
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$cluster/$1/host_key"
}

# Every root may log in to every root, and knows its host key: for tests that begin behind setup_ssh.sh.
cluster_trust() {
    local host
    for host in $(cluster_hosts); do
        install -d -m 700 "$cluster/$host/home/root/.ssh"
        install -m 600 "$cluster/key" "$cluster/$host/home/root/.ssh/id_ed25519"
        install -m 600 "$cluster/key.pub" "$cluster/$host/home/root/.ssh/authorized_keys"
        cluster_known_hosts >"$cluster/$host/home/root/.ssh/known_hosts"
    done
}

# The true host keys, for port 22.
cluster_known_hosts() {
    local host
    for host in $(cluster_hosts); do
        printf '%s,10.77.0.%s,fd77::%s %s\n' "$host" "${host#node}" "${host#node}" "$(<"$cluster/$host/host_key.pub")"
    done
}

# Names, in order.
cluster_hosts() {
    find "$cluster" -maxdepth 1 -name 'node*' -printf '%f\n' | sort -V
}
