#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs in the cluster's namespaces; called only by cluster.bash. keep → switch → one process per host.
set -euo pipefail

code=$(readlink -f "${BASH_SOURCE[0]}")

# Runs outside: ends the cluster after its owner has ended for any reason, and removes its folder.
keep() { # FOLDER OWNER N OPTION...
    local folder=$1 owner=$2 unshare
    # bats waits for every process that holds its descriptors.
    close_descriptors
    # A process namespace ends with its first process, including nested ones.
    unshare --pid --fork --kill-child --mount --net --uts bash "$code" switch "$folder" "${@:3}" &
    unshare=$!
    tail --pid="$owner" -s 0.5 -f /dev/null &
    wait -n || true
    kill -KILL "$unshare" 2>/dev/null || true
    # unshare ends before its child does.
    while [[ -e $folder/pid ]] && kill -0 "$(<"$folder/pid")" 2>/dev/null; do sleep 0.02; done
    touch "$folder/ended"
    if ! kill -0 "$owner" 2>/dev/null || [[ -e $folder/down ]]; then rm -rf "$folder"; fi
    kill $! 2>/dev/null || true
}

close_descriptors() {
    local fd
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        # 255 is bash's descriptor for this file.
        if ((fd > 2 && fd < 255)); then eval "exec $fd>&-" 2>/dev/null || true; fi
    done
}

# Writes the process id in the machine's namespace; /proc is still the machine's.
write_pid() { # FILE
    local pid
    read -r pid _ </proc/self/stat
    echo "$pid" >"$1"
}

# The first process of the cluster. Its network namespace is the switch, so that names and addresses of several clusters do
# not collide, and the machine's firewall does not apply.
switch() { # FOLDER N OPTION...
    local folder=$1 n=$2 i
    write_pid "$folder/pid"
    mount -t tmpfs tmpfs /run
    ip link add switch type bridge mcast_snooping 0
    ip link set switch up
    for ((i = 1; i <= n; i++)); do
        ip netns add "node$i"
        ip link add "port$i" type veth peer name eth0 netns "node$i"
        ip link set "port$i" master switch up
        # With a separate /sys, which shows the host's interfaces.
        ip netns exec "node$i" unshare --pid --fork --kill-child --mount --uts --ipc \
            bash "$code" host "$folder" "$i" "${@:3}" &
    done
    wait
}

# The first process of a host.
host() { # FOLDER I OPTION...
    local folder=$1 name=node$2 path i=0
    hostname "$name"
    ip link set lo up
    ip address add "10.77.$(($2 / 256)).$(($2 % 256))/16" dev eth0
    # Without IPv6 on the machine, the hosts have none.
    ip address add "fd77::$2/64" dev eth0 nodad 2>/dev/null || true
    ip link set eth0 up
    write_pid "$folder/$name/pid"
    mount -t proc proc /proc
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/sshd /run/host
    mount --bind "$folder/$name" /run/host
    for path in passwd group shadow hosts; do mount --bind "$folder/$path" "/etc/$path"; done
    mount -t tmpfs -o size=1g tmpfs /dev/shm
    # Folders that stay visible even if they are in /tmp: the shared folder, the repository, the data.
    local seen=("$folder/shared" "$(dirname "$(dirname "$(dirname "$code")")")" "${DPTRAIN_DATA:-}")
    for path in "${seen[@]}"; do
        i=$((i + 1))
        mkdir -p "/run/seen/$i"
        [[ $path != /tmp/* || ! -d $path ]] || mount --bind "$path" "/run/seen/$i"
    done
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    i=0
    for path in "${seen[@]}"; do
        i=$((i + 1))
        if mountpoint -q "/run/seen/$i"; then
            mkdir -p "$path"
            mount --move "/run/seen/$i" "$path"
        fi
    done
    cd /
    start_sshd "${@:3}"
    touch /run/host/ready
    # This shell reaps orphans.
    sleep infinity &
    wait $!
}

# Returns when sshd listens.
start_sshd() { # OPTION...
    # The default post-quantum key exchange takes ten times as long.
    cat >/run/host/sshd_config <<'END'
HostKey /run/host/host_key
PidFile none
KexAlgorithms curve25519-sha256
UsePAM no
UseDNS no
PermitRootLogin yes
PasswordAuthentication yes
Subsystem sftp internal-sftp
END
    # From OpenSSH 9.8 on, several failed logins close the port for a while, and the tests make many.
    if /usr/sbin/sshd -t -f /run/host/sshd_config -o PerSourcePenalties=no 2>/dev/null; then
        set -- -o PerSourcePenalties=no "$@"
    fi
    /usr/sbin/sshd -f /run/host/sshd_config -E /run/host/sshd.log "$@"
}

case $1 in
keep) keep "${@:2}" ;;
switch) switch "${@:2}" ;;
host) host "${@:2}" ;;
sshd) start_sshd "${@:2}" ;;
esac
