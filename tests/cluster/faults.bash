# SPDX-License-Identifier: MIT
# Injects faults into a cluster's hosts. Sourced after jobs.bash. `mend` undoes all faults.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of cluster.bash and jobs.bash
fault_undo=()

fault_later() { fault_undo+=("$(printf '%q ' "$@")"); } # COMMAND...

mend() {
    local i
    for ((i = ${#fault_undo[@]} - 1; i >= 0; i--)); do eval "${fault_undo[i]}"; done
    fault_undo=()
}

# Mounts another file or folder over PATH.
fault_cover() { # HOST WITH PATH
    cluster_exec "$1" mount --bind "$2" "$3"
    fault_later cluster_exec "$1" umount "$3"
}

fault_other_binary() { # HOST
    { cat "$DPTRAIN_BIN" && echo; } >"$cluster/shared/other"
    chmod +x "$cluster/shared/other"
    fault_cover "$1" "$cluster/shared/other" "$DPTRAIN_BIN"
}

fault_other_data() { # HOST
    local file
    rm -rf "$cluster/shared/changed"
    cp -r "$tiny" "$cluster/shared/changed"
    file=$(find "$cluster/shared/changed" -type f | sort | head -n 1)
    printf x | dd of="$file" bs=1 seek=100 conv=notrunc status=none
    fault_cover "$1" "$cluster/shared/changed" "$tiny"
}

# Replaces a shared folder by an empty local one.
fault_not_mounted() { # HOST FOLDER
    cluster_exec "$1" mount -t tmpfs tmpfs "$2"
    fault_later cluster_exec "$1" umount "$2"
}

# Adds eth1, which no other host has.
fault_lone_interface() { # HOST
    cluster_net "$1" ip link add eth1 type veth peer name eth2
    cluster_net "$1" ip address add 10.88.0.2/24 dev eth1
    cluster_net "$1" ip link set eth1 up
    cluster_net "$1" ip link set eth2 up
    fault_later cluster_net "$1" ip link del eth1
}

# Limits a link to 50 Mbit/s. Sets how; fails if the kernel cannot.
fault_slow_link() { # HOST
    if cluster_net "$1" tc qdisc add dev eth0 root netem rate 50mbit 2>/dev/null; then
        how=netem
    elif cluster_net "$1" tc qdisc add dev eth0 root tbf rate 50mbit burst 32k latency 50ms 2>/dev/null; then
        # shellcheck disable=SC2034 # for the test
        how=tbf
    else
        return 1
    fi
    fault_later cluster_net "$1" tc qdisc del dev eth0 root
}

# Blocks both directions, since replies are blocked too. IPv4, and IPv6 if available.
fault_no_route() { # HOST TO
    local to
    for to in "$(cluster_address "${2#node}")/32" "fd77::${2#node}/128"; do
        if cluster_net "$1" ip route add prohibit "$to" 2>/dev/null; then
            fault_later cluster_net "$1" ip route del prohibit "$to"
        fi
    done
    ((${#fault_undo[@]} > 0))
}

# Makes mpirun's daemon start and hang.
fault_hanging_daemon() { # HOST
    printf '#!/bin/sh\nexec sleep 600\n' >"$cluster/shared/daemon"
    chmod +x "$cluster/shared/daemon"
    fault_cover "$1" "$cluster/shared/daemon" "$(readlink -f "$(command -v orted || command -v prted)")"
}

fault_mtu() { # HOST BYTES
    cluster_net "$1" ip link set eth0 mtu "$2"
    fault_later cluster_net "$1" ip link set eth0 mtu 1500
}

# Loses a share of the TCP packets that arrive, from all or one host.
fault_loss() { # HOST SHARE [FROM]
    local from=()
    [[ $# -lt 3 ]] || from=(-s "$(cluster_address "${3#node}")")
    cluster_net "$1" iptables -A INPUT -p tcp "${from[@]}" -m statistic --mode random --probability "$2" -j DROP ||
        return
    fault_later cluster_net "$1" iptables -F INPUT
}

# Loses large TCP packets from a host, as a switch with a smaller MTU does.
fault_large() { # HOST FROM
    cluster_net "$1" iptables -A INPUT -p tcp -s "$(cluster_address "${2#node}")" --dport 1024:65535 -m length \
        --length 1300:65535 -j DROP || return
    fault_later cluster_net "$1" iptables -F INPUT
}

# Lets no connection in from a host, except ssh's. IPv4, and IPv6 if available.
fault_firewall() { # HOST FROM DROP|REJECT
    cluster_net "$1" iptables -A INPUT -p tcp --syn -s "$(cluster_address "${2#node}")" --dport 1024:65535 -j "$3" || return
    fault_later cluster_net "$1" iptables -F INPUT
    if cluster_net "$1" ip6tables -A INPUT -p tcp --syn -s "fd77::${2#node}" --dport 1024:65535 -j "$3" 2>/dev/null; then
        fault_later cluster_net "$1" ip6tables -F INPUT
    fi
}

# Leaves the host's processes one CPU: those that sshd starts.
fault_cpu() { # HOST
    local pid
    for pid in $(cluster_exec "$1" pgrep -x sshd); do cluster_exec "$1" taskset -pc 0 "$pid" >/dev/null; done
    fault_later cluster_exec "$1" sh -c 'for pid in $(pgrep -x sshd); do taskset -pc 0-1023 $pid; done >/dev/null 2>&1'
}
