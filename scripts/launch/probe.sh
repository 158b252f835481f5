# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Probes all hosts in one round before the start, and decides whether the job can run there. Sourced by run.sh.
#
# Facts about host I are lines `KEY VALUES…` in $facts/I.out:
#   name NAME · program SHA256|missing · wdir ok|missing · full FOLDER (for temporary files) · orted yes|no
#   ephemeral LOW HIGH · end
#   addr INTERFACE ADDRESS/BITS · speed INTERFACE MBIT
#   rdma DEVICE DRIVER STATE LINK (efa, mlx5_core; ACTIVE; InfiniBand, Ethernet) · ofi FOLDER (of aws-ofi-nccl)
#   gpu BUS CPUS (the ones near it) · gpus N · cores N (that a job may use)
#
# After probe_read they are in fact["I KEY"], several of one key in lines. What is not of this form is not a fact: a login shell may
# print words of its own first.
facts=''
declare -A fact=()
# A number or a range of CPUs. Folders of aws-ofi-nccl: ranks of all hosts load what is there.
probe_cpus='(0|[1-9][0-9]{0,5})(-[1-9][0-9]{0,5})?' probe_ofi="/opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib64 /opt/aws-ofi-nccl/lib${DPTRAIN_OFI_NCCL:+ $DPTRAIN_OFI_NCCL}"

# Runs on each host.
probe_slots() {
    local gpus=0
    if command -v nvidia-smi >/dev/null; then
        gpus=$(timeout 10 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
        if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .); fi
    fi
    echo "gpus ${gpus:-0}"
    echo "cores $(allowed_cores)"
}

# Runs on each host. DPTRAIN_SYSFS replaces /sys in tests.
probe_host() { # PROGRAM WDIR PREFIX
    local program=$1 wdir=$2 prefix=$3 sys=${DPTRAIN_SYSFS:-/sys} device speed driver state link folder bus cpus file
    echo "name $(hostname)"
    if [[ -f $program && -x $program ]]; then echo "program $(sha256sum <"$program" | cut -d ' ' -f 1)"; else echo "program missing"; fi
    if [[ -d $wdir && -x $wdir ]]; then echo "wdir ok"; else echo "wdir missing"; fi
    if ! file=$(mktemp "${TMPDIR:-/tmp}/dptrain-probe.XXXXXX" 2>/dev/null) ||
        ! head -c 4194304 /dev/zero 2>/dev/null >"$file"; then
        echo "full ${TMPDIR:-/tmp}"
    fi
    [[ -z $file ]] || rm -f "$file"
    if [[ -n $prefix ]]; then PATH=$prefix/bin:$PATH; fi
    if command -v orted >/dev/null || command -v prted >/dev/null; then echo "orted yes"; else echo "orted no"; fi
    echo "ephemeral $(tr '\t' ' ' 2>/dev/null </proc/sys/net/ipv4/ip_local_port_range)"
    PATH=$PATH:/usr/sbin:/sbin
    if command -v ip >/dev/null; then
        ip -o addr show scope global up | awk '{ print "addr", $2, $4 }'
    else
        echo "noip"
    fi
    for device in "$sys"/class/net/*; do
        if read -r speed 2>/dev/null <"$device/speed"; then echo "speed ${device##*/} $speed"; fi
    done 2>/dev/null
    for device in "$sys"/class/infiniband/*; do
        [[ -e $device ]] || continue
        driver=$(readlink "$device/device/driver") state=none link=none
        read -r state 2>/dev/null <"$device/ports/1/state"
        read -r link 2>/dev/null <"$device/ports/1/link_layer"
        echo "rdma ${device##*/} ${driver##*/} ${state##* } $link"
    done
    for folder in $probe_ofi; do
        [[ ! -e $folder/libnccl-net.so ]] || echo "ofi $folder"
    done
    if command -v nvidia-smi >/dev/null; then
        timeout 10 nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader 2>/dev/null |
            tr '[:upper:]' '[:lower:]' | while read -r bus; do
            bus=${bus#0000}
            if read -r cpus 2>/dev/null <"$sys/bus/pci/devices/$bus/local_cpulist"; then echo "gpu $bus $cpus"; fi
        done
    fi
    probe_slots
    echo end
}

# Reads the facts of all hosts.
probe_read() {
    local i key value
    fact=()
    for i in "${!host_name[@]}"; do
        while read -r key value; do
            case $key in
            gpus | cores | newest | check)
                number_or '' value
                [[ -n $value ]] || continue
                ;;
            name) is_id "$value" || continue ;;
            ephemeral) [[ $value =~ ^[0-9]{1,5}\ [0-9]{1,5}$ ]] || continue ;;
            gpu) [[ $value =~ ^[0-9a-f:.]+\ $probe_cpus(,$probe_cpus)*$ ]] || continue ;;
            same) [[ $value =~ ^(NCCL|config|OpenMPI)\  ]] || continue ;;
            ofi) [[ " $probe_ofi " == *" $value "* ]] || continue ;;
            esac
            # The last one counts.
            [[ $key == @(gpu|rdma|ofi|fail|same) && -n ${fact[$i $key]+has} ]] || fact[$i $key]=''
            fact[$i $key]+=${fact[$i $key]:+$'\n'}$value
        done <"$facts/$i.out"
    done
}

# Whether host I has said KEY.
probe_has() { # I KEY
    [[ -n ${fact[$1 $2]+has} ]]
}

# Asks all hosts for their slots alone; exits with 4 if one does not answer.
probe_ask_slots() {
    local i
    facts=$work/facts
    remote_script cpu_folder "probe_slots allowed_cores" | hosts_ask "$facts" "${DPTRAIN_ASK_SECONDS:-20}"
    probe_read
    for i in "${!host_name[@]}"; do
        ! probe_has "$i" cores || continue
        hosts_cause "$facts" "$i" "${DPTRAIN_ASK_SECONDS:-20}"
        die 4 "${host_name[i]} has no slots=N, and does not say its cores: $CAUSE${ADVICE:+ -> $ADVICE}"
    done
}

# Probes all hosts; exits with 4 if the job cannot run on some, naming each.
probe_hosts() { # FOLDER PROGRAM WDIR PREFIX
    local i bad=0 hash problem problems
    facts=$1/facts
    remote_script "cpu_folder probe_ofi" "probe_host probe_slots allowed_cores" "$2" "$3" "$4" | hosts_ask "$facts" "${DPTRAIN_ASK_SECONDS:-20}"
    probe_read
    hash=$(sha256sum <"$2" | cut -d ' ' -f 1)
    for i in "${!host_name[@]}"; do
        probe_judge "$i" "$hash" "$2" "$3" && continue
        bad=$((bad + 1))
        for problem in "${problems[@]}"; do note "${host_name[i]}: $problem"; done
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} hosts cannot take part; --no-checks starts without probing them"
}

# Sets problems: why the job cannot run on a host. Fails if there are any.
probe_judge() { # INDEX HASH PROGRAM WDIR
    local seconds=${host_patience[$1]:-${DPTRAIN_ASK_SECONDS:-20}}
    problems=()
    if ! probe_has "$1" end; then
        hosts_cause "$facts" "$1" "$seconds"
        problems=("probe over $hosts_shell failed: $CAUSE${ADVICE:+ -> $ADVICE}")
        return 1
    fi
    case ${fact[$1 program]} in
    missing) problems+=("no program $3: copy it there (scripts/on_hosts.sh --copy), or share its folder") ;;
    "$2") ;;
    *) problems+=("$3 differs from the one here (SHA-256): copy it there (scripts/on_hosts.sh --copy)") ;;
    esac
    if [[ ${fact[$1 wdir]} != ok ]]; then
        problems+=("no working folder $4: create it, mount it, or choose another by --wdir")
    fi
    if probe_has "$1" full; then
        problems+=("${fact[$1 full]} is full or not writable, and MPI needs 4 MB there: free some space, or set TMPDIR")
    fi
    if [[ ${fact[$1 orted]} != yes && $launcher == mpirun && ${host_local[$1]} == no && $hosts_shell == ssh ]]; then
        problems+=("OpenMPI's orted is not in the PATH of a non-interactive shell: install OpenMPI, or set PATH in .bashrc")
    fi
    ((${#problems[@]} == 0))
}
