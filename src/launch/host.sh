# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What a host runs for the launcher, by `bash -s`: ask.c sends these functions, and a call of one of them. They print lines `KEY VALUE…`,
# which ask.c reads, and `end`. DPTRAIN_SYSFS replaces /sys in tests.
#
#   name NAME · machine ID (of its boot and namespaces) · shell PATH (of logins) · program SHA256|missing · wdir ok|missing
#   full FOLDER (for temporary files) · orted yes|no · ephemeral LOW HIGH
#   addr INTERFACE ADDRESS/BITS · noip · speed INTERFACE MBIT
#   rdma DEVICE DRIVER STATE LINK (efa, mlx5_core; ACTIVE; InfiniBand, Ethernet) · ofi FOLDER (of aws-ofi-nccl)
#   gpu BUS CPUS (the ones near it) · gpus N · cores N (that a job may use)
#   folder records|job (what of the run's folder it sees) · newest STEP (of its checkpoints) · data missing
#   check CODE · fail TEXT · same NAME VALUE (must be equal on all hosts)
#   phase RANK TEXT (of a killed rank) · swept TEXT · alive yes|stopped|no

# Cores, not hardware threads, that a process may use: mpirun counts them as slots.
count_cores() {
    local cpus seen=" " n=0 range cpu siblings
    cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null) || true
    [[ -n $cpus ]] || { nproc; return; }
    for range in ${cpus//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
            read -r siblings 2>/dev/null <"/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" || siblings=$cpu
            [[ $seen == *" $siblings "* ]] || { seen+="$siblings "; n=$((n + 1)); }
        done
    done
    echo "$n"
}

say_slots() {
    local gpus=0
    if command -v nvidia-smi >/dev/null; then
        gpus=$(timeout 10 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
        # Empty and -1 hide all.
        if [[ ${gpus:-0} != 0 && -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
            gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c '^[^-]') || true
        fi
    fi
    echo "gpus ${gpus:-0}"
    echo "cores $(count_cores)"
}

slots() { say_slots && echo end; }

say_devices() { # FOLDERS OF AWS-OFI-NCCL
    local sys=${DPTRAIN_SYSFS:-/sys} device speed driver state link folder bus cpus
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
    for folder in $1; do
        [[ ! -e $folder/libnccl-net.so ]] || echo "ofi $folder"
    done
    if command -v nvidia-smi >/dev/null; then
        timeout 10 nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader 2>/dev/null |
            tr '[:upper:]' '[:lower:]' | while read -r bus; do
            bus=${bus#0000}
            if read -r cpus 2>/dev/null <"$sys/bus/pci/devices/$bus/local_cpulist"; then echo "gpu $bus $cpus"; fi
        done
    fi
}

probe() { # PROGRAM WDIR PREFIX FOLDERS
    local program=$1 wdir=$2 file boot=''
    echo "name $(hostname)"
    read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
    echo "machine $boot-$(readlink /proc/self/ns/net /proc/self/ns/uts 2>/dev/null | tr -dc 0-9)"
    echo "shell $(getent passwd "$(id -u)" | cut -d : -f 7)"
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
        echo noip
    fi
    say_devices "$4"
    say_slots
    echo end
}

# Whether a rank is here, and whether any of them runs.
alive() { # JOB
    local path line said=no
    while read -r path; do
        read -r line 2>/dev/null <"${path%environ}stat" || continue
        line=${line##*) }
        case ${line:0:1} in
        [ZX]) ;;
        [Tt]) [[ $said == yes ]] || said=stopped ;;
        *) said=yes ;;
        esac
    done < <(grep -lszxF "DPTRAIN_JOB=$1" /proc/[0-9]*/environ)
    echo "alive $said"
    echo end
}

# Prints what names of the ranks' shared memory contain: in OpenMPI 4 the number after the daemons', in 5 a hash of the daemons' name.
family_hex() { # FAMILY
    local name=${1%@*} hash=0 i most=0xffffffff code
    if [[ $1 != *@* ]]; then
        printf %x $(($1 + 1))
        return
    fi
    for ((i = 0; i < ${#name}; i++)); do
        printf -v code %d "'${name:i:1}"
        hash=$(((hash + code) & most)) hash=$(((hash + (hash << 10)) & most)) hash=$((hash ^ (hash >> 6)))
    done
    hash=$(((hash + (hash << 3)) & most)) hash=$((hash ^ (hash >> 11))) hash=$(((hash + (hash << 15)) & most))
    printf %x $((((hash >> 16) ^ (hash & 0xffff)) << 16 | 1))
}

# Removes the remains of a job: processes, OpenMPI's shared memory and session folders, found by this job's ids. Says their number,
# after the last phases of killed ranks.
clean() { # JOB FAMILY MPIRUN
    local job=$1 family=$2 mpirun=$3 n=0 files=0 pid hex daemon name path text number='' i alive killed=' '
    # Until they have ended, which takes a moment, killed processes hold memory, GPUs and ports.
    for ((i = 0; i < 30; i++)); do
        mapfile -t alive < <(grep -lszxF "DPTRAIN_JOB=$job" /proc/[0-9]*/environ)
        ((${#alive[@]} > 0)) || break
        for pid in "${alive[@]//[!0-9]/}"; do
            [[ $killed != *" $pid "* ]] || continue
            if kill -KILL "$pid" 2>/dev/null; then n=$((n + 1)); fi
            killed+="$pid "
        done
        sleep 0.1
    done
    # The last phases of ranks that were killed (cluster/watch/deadline.h).
    for path in /dev/shm/dptrain-"$job".*; do
        [[ -f $path && -O $path && ! -L $path ]] || continue
        IFS= read -rd '' text <"$path" || true
        echo "phase ${path##*.} $text"
        rm -f "$path"
    done
    if [[ -n $family ]]; then
        hex=$(family_hex "$family")
        [[ $family == *@* ]] || number=$((family >> 16))
        while read -r daemon; do
            pid=${daemon#/proc/} pid=${pid%/cmdline}
            read -r name <"/proc/$pid/comm" || continue
            if [[ $name == @(orted|prted) ]] && kill -KILL "$pid" 2>/dev/null; then n=$((n + 1)); fi
        done < <(grep -lszxF "$family" /proc/[0-9]*/cmdline)
        for path in /dev/shm/*."$hex".* "${TMPDIR:-/tmp}"/ompi.*."$(id -u)"/{jf."$number",pid."$mpirun"} \
            "${TMPDIR:-/tmp}"/prte*/pmix.*.tool."$family"; do
            [[ $path != */pmix.* ]] || path=${path%/*}
            if [[ -O $path && ! -L $path ]] && rm -rf "$path"; then files=$((files + 1)); fi
        done
    fi 2>/dev/null
    # Of a launcher that was killed: nobody holds the lock.
    for path in "${TMPDIR:-/tmp}"/dptrain-run.??????; do
        [[ -d $path && -O $path && ! -L $path ]] && flock -n "$path" rm -rf "$path"
    done 2>/dev/null
    ((n + files == 0)) || echo "swept $n processes, $files files and folders"
}

sweep() { clean "$@" && echo end; } # JOB FAMILY MPIRUN

# A check of this host alone. The data is compared by the job itself.
check() { # PROGRAM FOLDER [OPTIONS...]
    local file code=0 line
    file=$(mktemp "${TMPDIR:-/tmp}/dptrain-check.XXXXXX" 2>/dev/null) || return 0
    timeout -k 1 15 "$1" check --only gpu,host,versions --data digits --smi-timeout 10 --out "$2" --json "$file" "${@:3}" \
        >/dev/null 2>&1 </dev/null || code=$?
    echo "check $code"
    tr '{' '\n' <"$file" | sed -nE -e 's/.*"check":"([^"]*)","name":"([^"]*)","status":"fail","found":"([^"]*)".*/fail \1, \2: \3/p' \
        -e 's/.*"name":"(NCCL|config)","status":"[^"]*","found":"([^"]*)".*/same \1 \2/p'
    rm -f "$file"
    read -r line < <(mpirun --version 2>/dev/null) || true
    echo "same OpenMPI ${line:-not found}"
}

# Before a start after a fault: ends what is left of the job's earlier starts, looks at what the job needs, and probes.
fleet() { # CHECKS "JOB [EARLIER]" FAMILIES PROGRAM WDIR PREFIX FOLDERS FOLDER DATA [OPTIONS OF DPTRAIN CHECK...]
    local job=${2%% *} program=$4 wdir=$5 folder=$8 data=$9 i family path
    # Ranks that were told to end save a checkpoint first.
    for ((i = 0; i < 15; i++)); do
        grep -qszxF "DPTRAIN_JOB=$job" /proc/[0-9]*/environ || break
        sleep 0.1
    done
    clean "$job" '' '' >/dev/null
    # The job's supervisor was on another host; its ranks end by themselves, but for their last phases.
    for path in /dev/shm/dptrain-"${2#* }".*; do
        [[ ! -f $path || ! -O $path || -L $path ]] || rm -f "$path"
    done
    for family in $3; do clean "$job" "${family%:*}" "${family#*:}" >/dev/null; done
    [[ -z $6 ]] || PATH=$6/bin:$PATH
    if cd "$wdir" 2>/dev/null; then
        if timeout -k 1 5 test -e "$folder/metrics.jsonl"; then
            echo "folder records"
        elif timeout -k 1 5 grep -qsF "\"job\":\"$job\"" "$folder/job.jsonl"; then
            echo "folder job"
        fi
        timeout -k 1 5 ls "$folder" 2>/dev/null | sed -nE 's/^ckpt-0*([0-9]{1,15})\.h5$/newest \1/p' | sort -k 2n | tail -n 1
        [[ -z $data ]] || timeout -k 1 5 test -e "$data" || echo "data missing"
        [[ $1 == no ]] || check "$program" "$folder" "${@:10}"
    fi
    if [[ $1 == no ]]; then slots; else probe "$program" "$wdir" "$6" "$7"; fi
}
