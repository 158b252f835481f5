# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the scripts; sourced, never run. Exit codes are the program's own: 2 usage, 4 system, 5 lost peer.

cpu_folder=/sys/devices/system/cpu/cpu0/topology

die() { # CODE MESSAGE
    printf '%s: error: %s\n' "${0##*/}" "$2" >&2
    exit "$1"
}

note() { printf '%s: %s\n' "${0##*/}" "$1" >&2; }

# For an option that takes a value, with what is left of the arguments.
need_value() { [[ $# -ge 2 ]] || die 2 "$1 wants a value; --help lists the options"; }

whole_number() { # OPTION VALUE MINIMUM
    if ! [[ $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3)); then
        die 2 "$1 wants a whole number from $3 up, not '$2'"
    fi
}

# Sets work, a folder that only its owner sees into, gone at the script's end. A child that is killed before it has become
# its program would run the trap as well: hence the comparison.
make_work() { # NAME [PARENT]
    work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/dptrain-$1.XXXXXX") || die 4 "cannot make a folder in ${2:-${TMPDIR:-/tmp}}"
    trap '((BASHPID != $$)) || rm -rf "$work"' EXIT
}

# dptrain itself; for scripts that have set `here`.
find_program() {
    local candidate
    if [[ -n ${DPTRAIN_BIN:-} ]]; then
        [[ -f $DPTRAIN_BIN && -x $DPTRAIN_BIN ]] || die 4 "DPTRAIN_BIN: $DPTRAIN_BIN is not a program"
        readlink -f "$DPTRAIN_BIN"
        return
    fi
    # In the repository, or as make install puts it.
    # shellcheck disable=SC2154 # the caller's
    for candidate in "$here/../dptrain" "$here/../../../bin/dptrain"; do
        [[ -f $candidate && -x $candidate ]] && { readlink -f "$candidate"; return; }
    done
    command -v dptrain || die 4 "dptrain is not built; type make"
}

# Cores that this process may use: mpirun counts cores as its slots, not hardware threads.
allowed_cores() {
    local cpus seen=" " n=0 range cpu siblings
    cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null) || true
    [[ -n $cpus ]] || { nproc; return; }
    for range in ${cpus//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
            siblings=$(cat "${cpu_folder/cpu0/cpu$cpu}/thread_siblings_list" 2>/dev/null) ||
                siblings=$cpu
            [[ $seen == *" $siblings "* ]] || { seen+="$siblings "; n=$((n + 1)); }
        done
    done
    echo "$n"
}

# mpirun refuses root because a mistake could harm the system. In a container root is often the only user, so
# it is told that this is meant; said once, because children inherit the variables.
mpi_allow_root() {
    [[ $(id -u) -eq 0 ]] || return 0
    if [[ ${OMPI_ALLOW_RUN_AS_ROOT:-}${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-} != 11 ]]; then
        note "running as root: setting OMPI_ALLOW_RUN_AS_ROOT and its _CONFIRM, without which mpirun refuses root"
    fi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# OpenMPI's major version: 4 has ORTE and vader, 5 has PRRTE and sm, with other names for much. 4 where there is none.
mpi_version() {
    local line
    line=$(timeout 10 mpirun --version 2>/dev/null) || true
    mpi_major=4
    if [[ $line =~ \(Open\ MPI\)\ ([0-9]+)\. ]]; then mpi_major=${BASH_REMATCH[1]}; fi
}

# Sets mpi_major, and the array MPI_FLAGS for NP ranks on this machine, or (NP 0) for the hosts that the caller names.
# DPTRAIN_BIND=none switches binding off: two jobs side by side would both be bound to the first cores.
mpi_flags() { # NP
    local np=$1 cores over=(--oversubscribe) no_copy=(btl_vader_single_copy_mechanism none)
    MPI_FLAGS=(-q)
    mpi_version
    if ((mpi_major >= 5)); then MPI_FLAGS=() over=(--map-by :OVERSUBSCRIBE) no_copy=(smsc ^cma); fi
    # With a seccomp filter and no right to trace, as in many containers, the kernel refuses
    # process_vm_readv, and OpenMPI complains about every large message.
    if grep -q '^Seccomp:[[:space:]]*2' /proc/self/status 2>/dev/null && ! may_trace; then
        MPI_FLAGS+=(--mca "${no_copy[@]}")
    fi
    # A chroot without /sys: hwloc would complain once per process.
    [[ -d $cpu_folder ]] || export HWLOC_HIDE_ERRORS=2
    # hwloc looks for an X server in every process, which without an /etc/hosts is a name server's time-out each.
    export HWLOC_COMPONENTS=${HWLOC_COMPONENTS:--gl}
    # Without ssh mpirun does not even start local ranks, unless told that there are no others.
    if ((np > 0 && mpi_major < 5)) && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
        MPI_FLAGS+=(--mca plm isolated)
    fi
    cores=$(allowed_cores)
    if ((np > cores)) || [[ ${DPTRAIN_BIND:-} == none ]] || ! may_bind; then
        ((np == 0)) || MPI_FLAGS+=("${over[@]}")
        MPI_FLAGS+=(--bind-to none)
    elif ((np == 0)); then
        MPI_FLAGS+=(--bind-to core:overload-allowed)
    else
        # Every rank gets its share of the cores for its threads.
        MPI_FLAGS+=(--map-by "slot:PE=$((cores / np))" --bind-to core)
    fi
}

# Bit 19 of the effective capabilities is CAP_SYS_PTRACE.
may_trace() {
    local mask
    mask=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status 2>/dev/null) || return 1
    [[ -n $mask ]] && (((16#$mask >> 19) & 1))
}

# mpirun needs /proc and /sys to bind, some sandboxes refuse it, and it binds to the machine's first cores
# whatever its own affinity mask says, so that a mask that leaves out CPUs forbids binding.
may_bind() {
    [[ -r /proc/self/status && -d $cpu_folder && $(nproc) == "$(nproc --all)" ]] && taskset -c 0 true 2>/dev/null
}

# The table below a page of results: what it was measured on, and how. Rows of its own come as NAME VALUE pairs.
# In the folder of ./dptrain. LOAD: of /proc/loadavg before the measuring.
machine_table() { # LOAD COMMAND [NAME VALUE]...
    local load=$1 command=$2 cpu
    shift 2
    cpu=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
    printf '| | |\n|---|---|\n'
    printf '| machine | %s, %s CPUs usable, %s memory |\n' "${cpu:-unknown}" "$(nproc)" \
        "$(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)"
    while (($# > 0)); do
        printf '| %s | %s |\n' "$1" "$2"
        shift 2
    done
    printf '| system | %s; load before: %s |\n' "$(uname -sr)" "$load"
    printf '| software | %s; %s |\n' "$(./dptrain --version)" "$(mpirun --version | head -n 1)"
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '| date | %s |\n| command | `%s` |\n' "$(date -u +%Y-%m-%d)" "$command"
}
