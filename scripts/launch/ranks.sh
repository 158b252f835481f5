# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Composes the command that starts the ranks: placement, binding near GPUs, the wrapper around the program. Sourced by run.sh.

# Adds a setting of the runtime: ORTE in OpenMPI 4, PRRTE in 5.
ranks_runtime_flag() { # NAME_IN_4 NAME_IN_5 VALUE
    if ((mpi_major < 5)); then MPI_FLAGS+=(--mca "$1" "$3"); else MPI_FLAGS+=(--prtemca "$2" "$3"); fi
}

# Sets how daemons are started on the hosts: through the tree if every host has setup_ssh.sh's configuration, otherwise from here,
# at most 128 logins at a time.
ranks_spawn_flags() { # TREE(yes|no)
    local agent
    [[ $hosts_shell == ssh ]] || return 0
    printf -v agent '%s ' "${ssh_options[@]}"
    ranks_runtime_flag plm_rsh_args plm_ssh_args "${agent% }"
    if [[ $1 == no || $ssh_own_config == yes ]] || ((${#host_name[@]} > 64)) && [[ $ssh_all_ways == no ]]; then
        ranks_runtime_flag plm_rsh_no_tree_spawn plm_ssh_no_tree_spawn 1
        ranks_runtime_flag plm_rsh_num_concurrent plm_ssh_num_concurrent 128
    fi
}

# A rank of OpenMPI 5 that loses its connection to another ends the job. If it waits a second, mpirun hears of the lost rank before.
ranks_patience_flags() {
    ((mpi_major < 5)) || MPI_FLAGS+=(--mca opal_abort_delay 1)
}

# Makes mpirun notice a host that is lost after 10 s at most, while a link that is cut for 5 s does no harm. By default it takes
# 8 minutes, or --timeout.
ranks_keepalive_flags() {
    local setting
    for setting in time:2 intvl:2 probes:4; do
        ! compgen -e | grep -qE "^(OMPI|PRTE)_MCA_oob_tcp_keepalive_${setting%:*}\$" || continue
        ranks_runtime_flag "oob_tcp_keepalive_${setting%:*}" "oob_tcp_keepalive_${setting%:*}" "${setting#*:}"
    done
}

# Prints the CPUs of each of N local ranks, `0-7;8-15`: those near its GPU, divided among GPUs that share them. Prints nothing
# unless the CPUs of all GPUs are known.
ranks_cpus() { # N WANTED(GPUS, or -) GPUS(lines BUS CPUS)
    local -a gpus wanted lists
    local rank list out=()
    mapfile -t gpus <<<"$3"
    if [[ $2 == - ]]; then wanted=("${!gpus[@]}"); else IFS=, read -ra wanted <<<"$2"; fi
    [[ -n $3 && ${#wanted[@]} -gt 0 ]] || return 0
    local -A count=() nth=()
    for ((rank = 0; rank < $1; rank++)); do
        list=${gpus[wanted[rank % ${#wanted[@]}]]:-}
        [[ -n $list ]] || return 0
        lists[rank]=${list#* }
        count[${lists[rank]}]=$((${count[${lists[rank]}]:-0} + 1))
    done
    for rank in "${!lists[@]}"; do
        list=${lists[rank]}
        out+=("$(ranks_cpu_share "$list" "${nth[$list]:-0}" "${count[$list]}")")
        nth[$list]=$((${nth[$list]:-0} + 1))
    done
    (IFS=';' && echo "${out[*]}")
}

# Prints part K of N of a list like 0-15,64-79. Divides every range, so that the hardware threads of a core stay together.
ranks_cpu_share() { # LIST K N
    local range low high n out=()
    for range in ${1//,/ }; do
        low=${range%-*} high=${range#*-} n=$((${range#*-} - ${range%-*} + 1))
        if ((n < $3)); then out+=("$range"); continue; fi
        high=$((low + n * ($2 + 1) / $3 - 1)) low=$((low + n * $2 / $3))
        out+=("$low-$high")
    done
    (IFS=, && echo "${out[*]}")
}

# Binds ranks near their GPUs; fails unless every host's GPUs are known.
ranks_bind_to_gpus() {
    local i cpus lists=() flag kept=() like
    # Most hosts are equal.
    local -A known=()
    [[ ${DPTRAIN_BIND:-} != none ]] || return 1
    for i in "${!host_name[@]}"; do
        like="${host_ranks[i]} ${host_gpus[i]} ${fact[$i gpu]:-}"
        [[ -n ${known[$like]+known} ]] || known[$like]=$(ranks_cpus "${host_ranks[i]}" "${host_gpus[i]}" "${fact[$i gpu]:-}")
        lists[i]=${known[$like]}
        [[ -n ${lists[i]} ]] || return 1
    done
    for i in "${!host_name[@]}"; do host_extra[i]+="-x"$'\n'"DPTRAIN_CPUS=${lists[i]}"$'\n'; done
    # The probe lists GPUs by bus.
    env_default CUDA_DEVICE_ORDER PCI_BUS_ID
    note "ranks are bound near their GPUs: ${lists[0]} on ${host_name[0]}"
}

# Sets the array before, a wrapper that sets the variables in BUNDLE (env_bundle), runs the host's setup, binds the rank,
# reports the binding, and then execs the program.
ranks_prefix() { # SETUP GPUS(yes|no) REPORT(yes|no) [BUNDLE]
    local script=''
    before=()
    [[ -z ${4:-} ]] || script+="eval \"\$$4\"; unset $4"$'\n'
    [[ $1 == - ]] || script+="$1"$'\n'
    if [[ $2 == yes ]]; then
        # shellcheck disable=SC2016 # for the rank's shell
        script+='IFS=";" read -ra cpus <<<"${DPTRAIN_CPUS:-}"
l=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}
[[ $l =~ ^[0-9]+$ ]] || exit 4
[[ -z ${cpus[l]:-} ]] || taskset -cp "${cpus[l]}" $$ >/dev/null || exit 4
'
    fi
    if [[ $3 == yes ]]; then
        # shellcheck disable=SC2016 # for the rank's shell
        script+='printf "rank %s on %s: CPUs %s\n" "${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}" "$(hostname)" \
"$(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)" >&2
'
    fi
    # shellcheck disable=SC2016 # for the rank's shell
    [[ -z $script ]] || before=(bash -c "${script}"'exec "$0" "$@"')
}

# Sets the array parts, the arguments after mpirun's flags: one part for each group of consecutive hosts with the same
# settings. Folder and environment apply only to their part, so each part repeats part_flags.
ranks_parts() { # NEAR_GPUS REPORT WORDS...
    local i near=$1 say=$2 list='' n=0 extra=()
    shift 2
    parts=()
    for i in "${!host_name[@]}"; do
        list+=,${host_alias[i]}:${host_ranks[i]} n=$((n + host_ranks[i]))
        if ranks_go_on "$i"; then continue; fi
        env_bundle_host "$i"
        ranks_prefix "${host_setup[i]}" "$near" "$say" "$bundle"
        mapfile -t extra < <(printf %s "${host_extra[i]:-}")
        [[ ${#parts[@]} -eq 0 ]] || parts+=(:)
        parts+=("${part_flags[@]}" "${extra[@]}" ${bundle:+-x "$bundle"} -np "$n" -H "${list#,}" "${before[@]}" "$@")
        list='' n=0
    done
    [[ " ${parts[*]} " != *' : '* || $mpi_major -lt 5 ]] || ranks_parts_in_5
}

# See mpi_parts. The daemons need it in their environment too.
ranks_parts_in_5() {
    mpi_parts
    [[ $several == no || " ${MPI_FLAGS[*]} " == *' prte_launch_agent '* ]] ||
        MPI_FLAGS+=(--prtemca prte_launch_agent "env PMIX_MCA_mca_base_param_files=$PMIX_MCA_mca_base_param_files prted")
}

# Whether host I and the next one are in the same part. Within a part OpenMPI starts with the local host, wherever it is in
# the list, so a chief on another host needs a separate part.
ranks_go_on() { # I
    local next=$(($1 + 1))
    ((next < ${#host_name[@]})) || return 1
    [[ ${host_extra[$1]:-}${host_private[$1]:-}${host_setup[$1]} == \
        "${host_extra[next]:-}${host_private[next]:-}${host_setup[next]}" ]] || return 1
    [[ $1 -gt 0 || ${host_local[0]} == yes || " ${host_local[*]} " != *" yes "* ]]
}

# Removes the binding flags of mpi_flags; the ranks bind themselves.
ranks_drop_binding() {
    local flag kept=() skip=no
    for flag in "${MPI_FLAGS[@]}"; do
        if [[ $skip == yes ]]; then
            skip=no
        elif [[ $flag == --bind-to || $flag == --map-by ]]; then
            skip=yes
        else
            kept+=("$flag")
        fi
    done
    MPI_FLAGS=("${kept[@]}" --bind-to none)
}

# Sets the arrays command and, for a test start without the program, try.
ranks_compose() { # DPTRAIN'S ARGUMENTS...
    local variable
    if [[ $launcher == srun ]]; then
        ranks_compose_srun "$@"
        return
    fi
    for variable in "${job_env[@]}"; do part_flags+=(-x "$variable"); done
    # The job's id identifies its processes during cleanup.
    [[ $dry_run == yes ]] || MPI_FLAGS+=(--report-uri "$work/uri") part_flags+=(-x "DPTRAIN_JOB=$job_id")
    if [[ ${#host_name[@]} -gt 0 ]]; then
        ranks_parts "$near_gpus" "$report" "$program" "$@"
        try=("${part_flags[@]}" -H "$(IFS=, && echo "${host_alias[*]}")")
    else
        env_bundle "${job_private[@]}"
        ranks_prefix - no "$report" "$bundle"
        parts=("${part_flags[@]}" ${bundle:+-x "$bundle"} -np "$np" "${before[@]}" "$program" "$@") try=(-np "$np")
    fi
    command=(mpirun "${MPI_FLAGS[@]}" "${parts[@]}")
}

# srun starts ranks without mpirun; OpenMPI's settings become variables. Slurm binds ranks and passes on the environment, from
# which secrets are removed.
ranks_compose_srun() { # DPTRAIN'S ARGUMENTS...
    local i name variable kinds type settings=() where=()
    for ((i = 0; i < ${#user_flags[@]}; i += 3)); do
        [[ ${user_flags[i]} == --mca ]] ||
            die 2 "--launcher srun: ${user_flags[i]} is mpirun's; use --launcher mpirun"
    done
    # Nodes of the allocation that are left out.
    [[ $super_lenient == no ]] || where=("--nodes=${#host_name[@]}" "--nodelist=$(IFS=, && echo "${host_name[*]}")")
    for i in "${!host_name[@]}"; do
        [[ -z ${host_extra[i]:-}${host_private[i]:-} && ${host_setup[i]} == - ]] ||
            die 2 "--launcher srun: ${host_name[i]} has its own variables or setup; use --launcher mpirun"
    done
    for ((i = 0; i < ${#MPI_FLAGS[@]}; i++)); do
        if [[ ${MPI_FLAGS[i]} == --mca && ! ${MPI_FLAGS[i + 1]} =~ ^(plm|oob) ]]; then
            settings+=("OMPI_MCA_${MPI_FLAGS[i + 1]}=${MPI_FLAGS[i + 2]}")
        fi
    done
    for variable in "${job_env[@]}"; do [[ $variable != *=* ]] || settings+=("$variable"); done
    [[ $dry_run == yes ]] || settings+=("DPTRAIN_JOB=$job_id")
    while IFS= read -r name; do
        if env_is_secret "$name"; then settings=(-u "$name" "${settings[@]}"); fi
    done < <(compgen -e)
    kinds=$(srun --mpi=list 2>&1) || true
    type=$(grep -owE 'pmix|pmi2' <<<"$kinds" | sort -r | head -n 1)
    [[ -n $type ]] || die 4 "this Slurm has no pmix or pmi2 plugin, which MPI needs; use --launcher mpirun"
    env_bundle "${job_private[@]}"
    ranks_prefix - no "$report" "$bundle"
    command=(env "${settings[@]}" srun "--mpi=$type" --ntasks "$np" "--chdir=$wdir_wanted" "${where[@]}"
        "${before[@]}" "$program" "$@")
    try=()
}
