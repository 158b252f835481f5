# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Interface, transport and ports: flags for OpenMPI into MPI_FLAGS, variables for NCCL and libfabric into job_env and,
# where hosts differ, into host_extra. Sourced by run.sh.
subnet='' interfaces=()

# The lines `SUBNET HOST INTERFACE SPEED ADDRESS` of all hosts, IPv4 first. Addresses of this machine's own bridges are none
# that others could reach.
network_subnets() {
    local i
    for i in "${!host_name[@]}"; do
        awk -v host="$i" '
            function hex(text) { return index("0123456789abcdef", tolower(text)) - 1 }
            function v4(text, bits,   part, i, n, out) {
                split(text, part, ".")
                for (i = 1; i <= 4; i++) {
                    n = bits >= 8 * i ? 8 : bits > 8 * (i - 1) ? bits - 8 * (i - 1) : 0
                    out = out (i > 1 ? "." : "") int(part[i] / 2 ^ (8 - n)) * 2 ^ (8 - n)
                }
                return out
            }
            # Whole groups of four digits: prefixes of 16, 32, 48, 64 … bits, as networks have.
            function v6(text, bits,   part, n, i, out, gap, k) {
                n = split(text, part, ":"); k = 0
                for (i = 1; i <= n; i++) {
                    if (part[i] == "") { if (!gap++) for (; k < 8 - (n - i); k++) full[k] = "0" }
                    else full[k++] = part[i]
                }
                for (i = 0; i < int(bits / 16); i++) out = out full[i] ":"
                return out (bits < 128 ? ":" : "")
            }
            $1 == "speed" { speed[$2] = $3 }
            $1 == "addr" && $2 !~ /^(lo|docker|virbr|br-|cni|flannel|cali|lxdbr|podman|veth)/ {
                split($3, at, "/"); n++; name[n] = $2; address[n] = at[1]
                net[n] = (index(at[1], ":") ? v6(at[1], at[2]) : v4(at[1], at[2])) "/" at[2]
            }
            END { for (i = 1; i <= n; i++) print net[i], host, name[i], (speed[name[i]] > 0 ? speed[name[i]] : 0), address[i] }
        ' "$facts/$i.out"
    done
}

# Sets subnet and, for each host, its interface there. WISH: an interface, a subnet, or nothing.
network_choose() { # WISH
    local wish=$1 found why i name
    network_subnets >"$work/subnets"
    for i in "${!host_name[@]}"; do
        if probe_fact "$i" noip >/dev/null && [[ -z $wish || $wish == */* ]]; then
            die 4 "${host_name[i]} has no ip command (iproute2) to ask for addresses; --interface NAME says which one to take"
        fi
    done
    if [[ -n $wish && $wish != */* ]]; then
        for i in "${!host_name[@]}"; do
            probe_fact "$i" noip >/dev/null || awk -v i="$i" -v name="$wish" '$2 == i && $3 == name { found = 1 } END { exit !found }' \
                "$work/subnets" || die 4 "--interface $wish: ${host_name[i]} has none of that name with an address:$(network_of "$i")"
            interfaces[i]=$wish
        done
        subnet=$wish
        note "interface $wish: by --interface"
        return
    fi
    # A line for each subnet: how many hosts, the slowest link, whether the hosts were named by it.
    found=$(network_rank "$wish" <"$work/subnets") || true
    if [[ -z $found && -n $wish ]]; then
        for i in "${!host_name[@]}"; do
            grep -qE "^$wish $i " "$work/subnets" || die 4 "--interface $wish: ${host_name[i]} has no address there:$(network_of "$i")"
        done
    elif [[ -z $found ]]; then
        for i in "${!host_name[@]}"; do note "${host_name[i]} has$(network_of "$i")"; done
        die 4 "the hosts share no subnet; where a router joins theirs, --interface NAME says which interface to take"
    fi
    subnet=$(head -n 1 <<<"$found" | cut -d ' ' -f 1)
    for i in "${!host_name[@]}"; do
        interfaces[i]=$(awk -v i="$i" -v net="$subnet" '$2 == i && $1 == net { print $3; exit }' "$work/subnets")
    done
    why='the only one that all hosts share'
    # IPv6 beside IPv4 is the same network once more.
    if (($(cut -d ' ' -f 2 <<<"$found" | grep -c "$([[ $subnet == *:* ]] && echo 1 || echo 0)") > 1)); then
        why='the fastest of those that all hosts share'
    fi
    if [[ -n $wish ]]; then why='by --interface'; fi
    name=$(printf '%s\n' "${interfaces[@]}" | sort -u | paste -sd ,)
    note "interface $name ($subnet): $why"
}

# What host I has, for messages.
network_of() { # I
    awk -v i="$1" '$2 == i { printf "%s %s %s", n++ ? "," : "", $3, $1 } END { if (!n) printf " no address at all" }' "$work/subnets"
}

# Subnets that all hosts have, best first: IPv4, then the fastest, then that of the hosts' own addresses.
network_rank() { # WISH
    awk -v hosts="${#host_name[@]}" -v wish="$1" -v named=" ${host_name[*]} " '
        wish == "" || $1 == wish {
            if (!(($1, $2) in seen)) { seen[$1, $2] = 1; n[$1]++ }
            if ($4 > 0 && (!($1 in low) || $4 < low[$1])) low[$1] = $4
            if (index(named, " " $5 " ")) own[$1] = 1
            if (!($1 in order)) order[$1] = ++count
        }
        END { for (net in n) if (n[net] == hosts)
            print net, (net ~ /:/), -low[net], -own[net], order[net] }' | sort -k2,2n -k3,3n -k4,4n -k5,5n
}

# tcp, ib or efa, and why: what every host has.
transport_choose() { # WISH
    local i efa=0 ib=0 roce=0 n=${#host_name[@]} lacks_efa='' lacks_ib='' why
    for i in "${!host_name[@]}"; do
        if probe_fact "$i" rdma | grep -q '^[^ ]* efa '; then efa=$((efa + 1)); else lacks_efa+=" ${host_name[i]}"; fi
        if probe_fact "$i" rdma | grep -q ' ACTIVE InfiniBand$'; then ib=$((ib + 1)); else lacks_ib+=" ${host_name[i]}"; fi
        if probe_fact "$i" rdma | grep -v '^[^ ]* efa ' | grep -q ' ACTIVE Ethernet$'; then roce=$((roce + 1)); fi
    done
    transport=$1
    case $1 in
    efa) ((efa == n)) || die 4 "--transport efa: there is no EFA device on$lacks_efa" ;;
    # RoCE is the same way of going, over Ethernet.
    ib) ((ib + roce >= n)) || die 4 "--transport ib: there is no active InfiniBand or RoCE port on$lacks_ib" ;;
    tcp) ;;
    auto)
        if ((efa == n)); then transport=efa why='every host has an EFA device'
        elif ((ib == n)); then transport=ib why='every host has an active InfiniBand port'
        else
            transport=tcp why='no host has an EFA device or an active InfiniBand port'
            ((efa == 0)) || why="EFA is on $efa of $n hosts, not on$lacks_efa"
            ((ib == 0)) || why="InfiniBand is active on $ib of $n hosts, not on$lacks_ib"
            ((roce < n)) || why="the hosts' RDMA ports are Ethernet's; where RoCE is set up, use --transport ib"
        fi
        ;;
    esac
    note "transport $transport: ${why:-by --transport}"
    [[ $transport != efa ]] || transport_check_efa
}

# Without the plugin NCCL would go over sockets and say nothing.
transport_check_efa() {
    local i folder
    for i in "${!host_name[@]}"; do
        folder=$(probe_fact "$i" ofi | head -n 1) || true
        if [[ -z $folder ]]; then
            note "${host_name[i]}: aws-ofi-nccl is not where Amazon's installer puts it; NCCL needs its libnccl-net.so in \
LD_LIBRARY_PATH (--env-file), and stops without, because of NCCL_NET"
        elif [[ " ${job_env[*]} " != *" LD_LIBRARY_PATH="* ]]; then
            job_env+=("LD_LIBRARY_PATH=$folder:/opt/amazon/efa/lib64:/opt/amazon/efa/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
        fi
    done
}

# Into MPI_FLAGS, job_env and host_extra. What the environment already says stays.
transport_flags() {
    local shared=vader
    ((mpi_major < 5)) || shared=sm
    case $transport in
    # MPI carries little beside NCCL: it goes over TCP, without the matching layer that would open libfabric as well.
    efa)
        MPI_FLAGS+=(--mca pml ob1 --mca btl "tcp,$shared,self")
        env_default FI_PROVIDER efa
        env_default FI_EFA_USE_DEVICE_RDMA 1
        # Named, so that its absence is NCCL's error and not a slow run.
        env_default NCCL_NET 'AWS Libfabric'
        ;;
    ib)
        MPI_FLAGS+=(--mca pml ucx)
        ((mpi_major >= 5)) || MPI_FLAGS+=(--mca btl ^openib)
        env_default NCCL_NET IB
        ;;
    tcp)
        MPI_FLAGS+=(--mca pml ob1 --mca btl "tcp,$shared,self")
        env_default NCCL_NET Socket
        ;;
    esac
}

network_interface_flags() {
    local i names=()
    ranks_runtime_flag oob_tcp_if_include prte_if_include "$subnet"
    MPI_FLAGS+=(--mca btl_tcp_if_include "$subnet")
    # A subnet that no host was asked about has no names: NCCL then looks for itself.
    [[ -z ${NCCL_SOCKET_IFNAME:-} && ${#interfaces[@]} -gt 0 ]] || return 0
    mapfile -t names < <(printf '%s\n' "${interfaces[@]}" | sort -u)
    # NCCL takes names, not subnets; = is for exactly this name.
    if ((${#names[@]} == 1)); then
        env_default NCCL_SOCKET_IFNAME "=${names[0]}"
    else
        for i in "${!host_name[@]}"; do host_extra[i]+="-x"$'\n'"NCCL_SOCKET_IFNAME==${interfaces[i]}"$'\n'; done
    fi
}

# Ranks listen on a port each; mpirun itself takes every port that it may have, which therefore are a few of their own,
# the last. NCCL has no setting: it listens where the system's ephemeral range lets it.
network_port_flags() { # LOW HIGH
    local i low high n=$(($2 - $1 + 1)) own
    own=$((n < 8 ? 1 : n < 64 ? n / 4 : 16))
    n=$((n - own))
    for i in "${host_ranks[@]}" $((${#host_ranks[@]} > 0 ? 0 : np)); do
        ((i <= n)) || die 2 "--ports $1-$2: $n ports for $i ranks of a host; mpirun takes $own besides: widen the range"
    done
    MPI_FLAGS+=(--mca btl_tcp_port_min_v4 "$1" --mca btl_tcp_port_range_v4 "$n")
    ranks_runtime_flag oob_tcp_dynamic_ipv4_ports oob_tcp_dynamic_ipv4_ports "$(($1 + n))-$2"
    [[ -n $facts ]] || return 0
    for i in "${!host_name[@]}"; do
        read -r low high <<<"$(probe_fact "$i" ephemeral)"
        if [[ -n ${high:-} ]] && ((low < $1 || high > $2)); then
            note "${host_name[i]}: NCCL's ports are the system's, $low-$high: sysctl net.ipv4.ip_local_port_range='$1 $2' limits them"
        fi
    done
}

# All of it, for several hosts.
network_flags() {
    local i
    if [[ $checks == yes ]]; then
        network_choose "$interface"
        transport_choose "$transport"
    else
        [[ -n $interface && $transport != auto ]] || die 2 "--no-checks needs --interface and --transport"
        subnet=$interface
        # The same name on all hosts, unless it is a subnet.
        [[ $interface == */* ]] || for i in "${!host_name[@]}"; do interfaces[i]=$interface; done
    fi
    ranks_spawn_flags "$tree"
    network_interface_flags
    transport_flags
}
