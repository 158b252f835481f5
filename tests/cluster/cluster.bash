# SPDX-License-Identifier: MIT
# Builds the hosts of a cluster on one machine from namespaces: `load cluster` in bats, or source it. See README.md.
# shellcheck shell=bash
#
# All state is in the folder $cluster, which is exported, so that a cluster made in setup_file exists in every test.
#   $cluster/shared        the shared folder, with the same path on every host and outside
#   $cluster/NODE/         NODE's files, /run/host on the host: home/root, home/trainer, sshd.log, host keys
# Hosts are node1, node2, …, node1024: 10.77.0.1, 10.77.0.2, …, 10.77.4.0 and fd77::1, fd77::2, … on eth0.

# shellcheck disable=SC2034 # for the tests
cluster_subnet=10.77.0.0/16
# Password of root and of trainer, the ordinary user, on every host.
cluster_password=correct-horse

cluster_code=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

cluster_address() { echo "10.77.$(($1 / 256)).$(($1 % 256))"; } # NUMBER OF THE HOST

# Prints why this machine cannot run a cluster, or nothing if it can.
cluster_why() {
    local tool
    [[ $(id -u) -eq 0 ]] || { echo "network namespaces need root"; return; }
    for tool in ip unshare nsenter ssh ssh-keygen /usr/sbin/sshd rsync sshpass; do
        command -v "$tool" >/dev/null || { echo "no ${tool##*/} here (scripts/install_deps.sh --test)"; return; }
    done
    # Containers often forbid namespaces, and some kernels lack veth or bridges.
    unshare --net --mount --uts --ipc --pid --fork --kill-child sh -c 'mount -t tmpfs tmpfs /run && ip netns add a &&
        ip link add s type bridge && ip link add p type veth peer name eth0 netns a && mount -t proc proc /proc' \
        >/dev/null 2>&1 || echo "namespaces, veth or bridges are not available"
}

# For setup, after cluster_try in setup_file, because bats 1.8 cannot skip in setup_file.
cluster_or_skip() {
    [[ -z ${cluster_missing:-} ]] || skip "$cluster_missing"
    [[ -n ${cluster:-} ]] || { echo "no cluster: setup_file failed" >&2; return 1; }
}

# For setup_file. Fails if this machine cannot run a cluster, or if the cluster does not start.
cluster_try() { # N [OPTION...]
    cluster_missing=$(cluster_why)
    export cluster_missing
    [[ -z $cluster_missing ]] && cluster_up "$@"
}

# Marks a test with long waits.
slow() {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "only with scripts/test.sh --slow"
}

# Starts N hosts, each running sshd, on port 22 unless OPTIONS for sshd change it. The cluster ends with the shell that made it.
cluster_up() { # N [OPTION...]
    local n=$1 i
    cluster=$(mktemp -d /tmp/dptrain-cluster.XXXXXX) || return
    export cluster
    chmod 755 "$cluster"
    mkdir -m 1777 "$cluster/shared"
    {
        printf '127.0.0.1 localhost\n::1 localhost\n'
        for ((i = 1; i <= n; i++)); do printf '%s node%d\nfd77::%d node%d\n' "$(cluster_address "$i")" "$i" "$i" "$i"; done
    } >"$cluster/hosts"
    cluster_users
    for ((i = 1; i <= n; i++)); do cluster_folder "node$i"; done
    ssh-keygen -q -t ed25519 -N '' -C cluster -f "$cluster/key"
    # In a separate session, so that a signal to the test's group leaves it time to clean up.
    setsid bash "$cluster_code/inside.bash" keep "$cluster" "$$" "$n" "${@:2}" >"$cluster/log" 2>&1 </dev/null &
    disown
    for ((i = 0; i < 3000 + 50 * n; i++)); do
        if [[ $(find "$cluster" -maxdepth 2 -name ready | wc -l) -eq $n ]]; then return 0; fi
        [[ ! -e $cluster/ended ]] || break
        sleep 0.02
    done
    echo "the cluster did not start:" >&2
    cat "$cluster/log" >&2
    cluster_down
    return 1
}

# Writes the hosts' user tables: root and trainer with homes on the host, and a password.
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

# Ends every process of the cluster, and thereby its namespaces, links and mounts. Does nothing without a cluster.
cluster_down() {
    local i
    [[ -n ${cluster:-} ]] || return 0
    # The keeper removes the folder after the last process.
    touch "$cluster/down"
    [[ ! -e $cluster/pid ]] || kill -KILL "$(<"$cluster/pid")" 2>/dev/null || true
    for ((i = 0; i < 3000; i++)); do
        [[ -e $cluster ]] || { unset cluster; return 0; }
        [[ ! -e $cluster/ended ]] || rm -rf "$cluster"
        sleep 0.02
    done
    echo "$cluster did not end within a minute" >&2
    return 1
}

# Runs a command on a host as root, in root's home, with the caller's environment.
cluster_exec() { # HOST COMMAND...
    nsenter --target "$(<"$cluster/$1/pid")" --mount --uts --ipc --net --pid \
        env -u TMPDIR -C /run/host/home/root HOME=/run/host/home/root USER=root LOGNAME=root "${@:2}"
}

# Runs a command in a host's network namespace, with the machine's programs and files.
cluster_net() { # HOST COMMAND...
    nsenter --target "$(<"$cluster/$1/pid")" --net "${@:2}"
}

# Disconnects a host at the switch; its routes and addresses stay.
cluster_cut() { # HOST
    nsenter --target "$(<"$cluster/pid")" --net ip link set "port${1#node}" down
}

cluster_mend() { # HOST
    nsenter --target "$(<"$cluster/pid")" --net ip link set "port${1#node}" up
}

# Limits what each host sends, by tbf, with a short queue: OpenMPI's small messages wait in it. Fails if the kernel has no tbf.
cluster_limit() { # RATE BURST
    local host
    for host in $(cluster_hosts); do
        cluster_net "$host" tc qdisc replace dev eth0 root tbf rate "$1" burst "$2" latency 20ms || return
    done
}

# Simulates power loss: kills every process of the host, and nothing answers any more.
cluster_kill() { # HOST
    local pid i
    pid=$(<"$cluster/$1/pid")
    cluster_cut "$1"
    kill -KILL "$pid"
    for ((i = 0; i < 3000; i++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.02
    done
    return 1
}

# Restarts sshd with the given options instead of the previous ones; sessions end.
cluster_sshd() { # HOST OPTION...
    cluster_exec "$1" pkill -x sshd || true
    while cluster_exec "$1" pgrep -x sshd >/dev/null; do sleep 0.02; done
    cluster_exec "$1" bash "$cluster_code/inside.bash" sshd "${@:2}"
}

# Replaces the host key, as a reinstallation does.
cluster_new_host_key() { # HOST
    rm "$cluster/$1"/host_key*
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$cluster/$1/host_key"
}

# Lets every root log in to every host, with known host keys, for tests that need the result of setup_ssh.sh.
cluster_trust() {
    local host
    for host in $(cluster_hosts); do
        install -d -m 700 "$cluster/$host/home/root/.ssh"
        install -m 600 "$cluster/key" "$cluster/$host/home/root/.ssh/id_ed25519"
        install -m 600 "$cluster/key.pub" "$cluster/$host/home/root/.ssh/authorized_keys"
        cluster_known_hosts >"$cluster/$host/home/root/.ssh/known_hosts"
    done
}

# Prints the actual host keys, for port 22.
cluster_known_hosts() {
    local host
    for host in $(cluster_hosts); do
        printf '%s,%s,fd77::%s %s\n' "$host" "$(cluster_address "${host#node}")" "${host#node}" "$(<"$cluster/$host/host_key.pub")"
    done
}

# Prints the host names in order.
cluster_hosts() {
    find "$cluster" -maxdepth 1 -name 'node*' -printf '%f\n' | sort -V
}
