# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Interface, transport and ports: adds OpenMPI's flags to MPI_FLAGS, and variables for NCCL and libfabric to job_env or, if
# hosts differ, to host_extra. Sourced by run.sh.
subnet='' interfaces=()

# Prints lines `SUBNET HOST INTERFACE SPEED ADDRESS` for all hosts, IPv4 first. Skips local bridges, which other hosts cannot
# reach.
network_subnets() {
    local i files=()
    for i in "${!host_name[@]}"; do files+=("$facts/$i.out"); done
    awk '
        function v4(text, bits,   part, i, n, out) {
            split(text, part, ".")
            for (i = 1; i <= 4; i++) {
                n = bits >= 8 * i ? 8 : bits > 8 * (i - 1) ? bits - 8 * (i - 1) : 0
                out = out (i > 1 ? "." : "") int(part[i] / 2 ^ (8 - n)) * 2 ^ (8 - n)
            }
            return out
        }
        # Whole groups of four digits: prefixes of 16, 32, 48, 64 … bits, as is usual.
        function v6(text, bits,   part, n, i, out, gap, k, full) {
            n = split(text, part, ":"); k = 0
            for (i = 1; i <= n; i++) {
                if (part[i] == "") { if (!gap++) for (; k < 8 - (n - i); k++) full[k] = "0" }
                else full[k++] = part[i]
            }
            for (i = 0; i < int(bits / 16); i++) out = out full[i] ":"
            return out (bits < 128 ? ":" : "")
        }
        function host_ends(   i) {
            for (i = 1; i <= n; i++) print net[i], host, name[i], (speed[name[i]] > 0 ? speed[name[i]] : 0), address[i]
            n = 0
            split("", speed)
        }
        FNR == 1 { host_ends(); host = FILENAME; sub(".*/", "", host); sub("[.]out$", "", host) }
        $1 == "speed" { speed[$2] = $3 }
        $1 == "addr" && $2 ~ /^[A-Za-z0-9_.:@-]+$/ && $3 ~ /^[0-9A-Fa-f.:]+\/[0-9][0-9]?[0-9]?$/ && $2 !~ /^(lo|docker|virbr|br-|cni|flannel|cali|lxdbr|podman|veth)/ {
            split($3, at, "/"); n++; name[n] = $2; address[n] = at[1]
            net[n] = (index(at[1], ":") ? v6(at[1], at[2]) : v4(at[1], at[2])) "/" at[2]
        }
        END { host_ends() }' "${files[@]}"
}

# Sets subnet and each host's interface in it. REQUEST: an interface, a subnet, or empty.
network_choose() { # REQUEST
    local request=$1 found why i name
    network_subnets >"$work/subnets"
    for i in "${!host_name[@]}"; do
        if probe_has "$i" noip && [[ -z $request || $request == */* ]]; then
            die 4 "${host_name[i]} has no ip command (iproute2) to list addresses; choose an interface by --interface NAME"
        fi
    done
    if [[ -n $request && $request != */* ]]; then
        for i in "${!host_name[@]}"; do
            probe_has "$i" noip || awk -v i="$i" -v name="$request" '$2 == i && $3 == name { found = 1 } END { exit !found }' \
                "$work/subnets" || die 4 "--interface $request: ${host_name[i]} has no such interface with an address:$(network_of "$i")"
            interfaces[i]=$request
        done
        subnet=$request
        note "interface $request: set by --interface"
        return
    fi
    # One line per shared subnet, best first.
    found=$(network_rank "$request" <"$work/subnets") || true
    if [[ -z $found && -n $request ]]; then
        for i in "${!host_name[@]}"; do
            awk -v i="$i" -v net="$request" '$1 == net && $2 == i { found = 1 } END { exit !found }' "$work/subnets" || die 4 "--interface $request: ${host_name[i]} has no address there:$(network_of "$i")"
        done
    elif [[ -z $found ]]; then
        for i in "${!host_name[@]}"; do note "${host_name[i]} has$(network_of "$i")"; done
        die 4 "the hosts share no subnet; if their subnets are routed, choose an interface by --interface NAME"
    fi
    subnet=$(head -n 1 <<<"$found" | cut -d ' ' -f 1)
    while read -r i name; do interfaces[i]=$name; done \
        < <(awk -v net="$subnet" '$1 == net && !($2 in seen) { seen[$2] = 1; print $2, $3 }' "$work/subnets")
    why='the only one that all hosts share'
    # IPv6 next to IPv4 is the same network.
    if (($(cut -d ' ' -f 2 <<<"$found" | grep -c "$([[ $subnet == *:* ]] && echo 1 || echo 0)") > 1)); then
        why='the fastest that all hosts share'
    fi
    if [[ -n $request ]]; then why='set by --interface'; fi
    name=$(printf '%s\n' "${interfaces[@]}" | sort -u | paste -sd ,)
    note "interface $name ($subnet): $why"
}

# Prints the interfaces of host I, for messages.
network_of() { # I
    awk -v i="$1" '$2 == i { printf "%s %s %s", n++ ? "," : "", $3, $1 } END { if (!n) printf " no address at all" }' "$work/subnets"
}

# Prints the subnets that all hosts share, best first: IPv4, then the fastest, then the one of the hosts' given addresses.
network_rank() { # REQUEST
    awk -v hosts="${#host_name[@]}" -v request="$1" -v named=" ${host_name[*]} " '
        request == "" || $1 == request {
            if (!(($1, $2) in seen)) { seen[$1, $2] = 1; n[$1]++ }
            if ($4 > 0 && (!($1 in low) || $4 < low[$1])) low[$1] = $4
            if (index(named, " " $5 " ")) own[$1] = 1
            if (!($1 in order)) order[$1] = ++count
        }
        END { for (net in n) if (n[net] == hosts)
            print net, (net ~ /:/), -low[net], -own[net], order[net] }' | sort -k2,2n -k3,3n -k4,4n -k5,5n
}

# Sets kinds: which of efa, ib and roce host I has ready.
network_rdma() { # I
    local driver state link
    kinds=''
    while read -r _ driver state link; do
        if [[ $driver == efa ]]; then
            kinds+=' efa'
        elif [[ "$state $link" == 'ACTIVE Ethernet' ]]; then
            kinds+=' roce'
        fi
        [[ "$state $link" != 'ACTIVE InfiniBand' ]] || kinds+=' ib'
    done <<<"${fact[$1 rdma]:-}"
}

# Chooses tcp, ib or efa, whatever every host has, and prints the reason.
transport_choose() { # REQUEST
    local i efa=0 ib=0 roce=0 n=${#host_name[@]} lacks_efa='' lacks_ib='' why kinds
    for i in "${!host_name[@]}"; do
        network_rdma "$i"
        if [[ $kinds == *efa* ]]; then efa=$((efa + 1)); else lacks_efa+=" ${host_name[i]}"; fi
        if [[ $kinds == *ib* ]]; then ib=$((ib + 1)); else lacks_ib+=" ${host_name[i]}"; fi
        [[ $kinds != *roce* ]] || roce=$((roce + 1))
    done
    transport=$1
    case $1 in
    efa) ((efa == n)) || die 4 "--transport efa: no EFA device on$lacks_efa" ;;
    # RoCE is the same transport over Ethernet.
    ib) ((ib + roce >= n)) || die 4 "--transport ib: no active InfiniBand or RoCE port on$lacks_ib" ;;
    tcp) ;;
    auto)
        if ((efa == n)); then transport=efa why='every host has an EFA device'
        elif ((ib == n)); then transport=ib why='every host has an active InfiniBand port'
        else
            transport=tcp why='no host has an EFA device or an active InfiniBand port'
            ((efa == 0)) || why="EFA is on $efa of $n hosts, not on$lacks_efa"
            ((ib == 0)) || why="InfiniBand is active on $ib of $n hosts, not on$lacks_ib"
            ((roce < n)) || why="the hosts' RDMA ports are Ethernet; if RoCE is set up, use --transport ib"
        fi
        ;;
    esac
    note "transport $transport: ${why:-set by --transport}"
    [[ $transport != efa ]] || transport_check_efa
}

# Without the plugin NCCL would silently use sockets.
transport_check_efa() {
    local i folder
    for i in "${!host_name[@]}"; do
        folder=${fact[$i ofi]:-} folder=${folder%%$'\n'*}
        if [[ -z $folder ]]; then
            note "${host_name[i]}: aws-ofi-nccl was not found in the folders of Amazon's installer; add the folder of \
libnccl-net.so to LD_LIBRARY_PATH (--env-file), or NCCL will fail"
        elif [[ " ${job_env[*]} ${job_private[*]} " != *" LD_LIBRARY_PATH="* ]]; then
            job_env+=("LD_LIBRARY_PATH=$folder:/opt/amazon/efa/lib64:/opt/amazon/efa/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
        fi
    done
}

# Adds to MPI_FLAGS, job_env and host_extra. Variables that are already set keep their values.
transport_flags() {
    # OpenMPI's default for large messages, put, hardly sends while it receives.
    local shared=vader tcp=(--mca btl_tcp_flags send)
    # OpenMPI 5's other component warns of all ranks of the same host.
    if ((mpi_major >= 5)); then shared=sm tcp+=(--mca opal_reachable weighted); fi
    case $transport in
    # MPI carries little next to NCCL, so use TCP, without the matching layer that would open libfabric as well.
    efa)
        MPI_FLAGS+=(--mca pml ob1 --mca btl "tcp,$shared,self" "${tcp[@]}")
        env_default FI_PROVIDER efa
        env_default FI_EFA_USE_DEVICE_RDMA 1
        # Set explicitly, so that a missing plugin is an NCCL error, not a slow run.
        env_default NCCL_NET 'AWS Libfabric'
        ;;
    ib)
        MPI_FLAGS+=(--mca pml ucx)
        ((mpi_major >= 5)) || MPI_FLAGS+=(--mca btl ^openib)
        env_default NCCL_NET IB
        ;;
    tcp)
        MPI_FLAGS+=(--mca pml ob1 --mca btl "tcp,$shared,self" "${tcp[@]}")
        env_default NCCL_NET Socket
        ;;
    esac
}

network_interface_flags() {
    local i names=() runtime=$subnet
    # Without a probe the subnet's interfaces are unknown; NCCL then chooses.
    [[ ${#interfaces[@]} -eq 0 ]] || mapfile -t names < <(printf '%s\n' "${interfaces[@]}" | sort -u)
    # PRRTE before 3.0.9 does not find the subnet of an interface that has several addresses.
    [[ $mpi_major -lt 5 || ${#names[@]} -eq 0 ]] || runtime=$(IFS=, && echo "${names[*]}")
    ranks_runtime_flag oob_tcp_if_include prte_if_include "$runtime"
    MPI_FLAGS+=(--mca btl_tcp_if_include "$subnet")
    [[ -z ${NCCL_SOCKET_IFNAME:-} && ${#names[@]} -gt 0 ]] || return 0
    # NCCL takes names, not subnets; = requests an exact match.
    if ((${#names[@]} == 1)); then
        env_default NCCL_SOCKET_IFNAME "=${names[0]}"
    else
        for i in "${!host_name[@]}"; do host_extra[i]+="-x"$'\n'"NCCL_SOCKET_IFNAME==${interfaces[i]}"$'\n'; done
    fi
}

# Each rank listens on one port. mpirun uses every port that it is given, so it gets a few separate ones, the last. NCCL has no
# setting: it uses the system's ephemeral range.
network_port_flags() { # LOW HIGH
    local i low high n=$(($2 - $1 + 1)) own
    own=$((n < 8 ? 1 : n < 64 ? n / 4 : 16))
    n=$((n - own))
    for i in "${host_ranks[@]}" $((${#host_ranks[@]} > 0 ? 0 : np)); do
        ((i <= n)) || die 2 "--ports $1-$2: $n ports for $i ranks of a host, plus $own for mpirun: widen the range"
    done
    MPI_FLAGS+=(--mca btl_tcp_port_min_v4 "$1" --mca btl_tcp_port_range_v4 "$n")
    ranks_runtime_flag oob_tcp_dynamic_ipv4_ports oob_tcp_dynamic_ipv4_ports "$(($1 + n))-$2"
    [[ -n $facts ]] || return 0
    for i in "${!host_name[@]}"; do
        read -r low high <<<"${fact[$i ephemeral]:-}"
        number_or '' low high
        if [[ -n $high ]] && ((low < $1 || high > $2)); then
            note "${host_name[i]}: NCCL uses the system's ports, $low-$high; sysctl net.ipv4.ip_local_port_range='$1 $2' limits them"
        fi
    done
}

# Sets interface, transport and their flags for several hosts.
network_flags() {
    local i
    if [[ $checks == yes ]]; then
        network_choose "$interface"
        transport_choose "$transport"
    else
        [[ -n $interface && $transport != auto ]] || die 2 "--no-checks with several hosts requires --interface and --transport"
        subnet=$interface
        # A name is the same on all hosts; a subnet may not be.
        [[ $interface == */* ]] || for i in "${!host_name[@]}"; do interfaces[i]=$interface; done
    fi
    ranks_spawn_flags "$tree"
    ranks_patience_flags
    [[ -z $supervisor ]] || ranks_keepalive_flags
    network_interface_flags
    transport_flags
}
