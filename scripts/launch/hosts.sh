# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The hosts of a job: Slurm allocations, ranks per host, how to reach them. Sourced by run.sh after scripts/cluster/hosts.sh,
# which defines the columns of the host list.
#
# Additional columns: host_ranks (of this job), host_local (yes for this machine), host_alias (its name for mpirun and ssh).
# hosts_shell is the way to reach other hosts: ssh or srun.
# host_patience: seconds that a host has to answer, if not as long as the others; 0: it is not asked.
host_ranks=() host_local=() host_alias=() host_patience=() hosts_shell=ssh
# ssh_own_config: yes if only this host has the configuration; ssh_all_ways: yes if every host can log in to every other.
ssh_options=() ssh_own_config=no ssh_all_ways=no
# Written by setup_ssh.sh on every host; container.sh has another in its containers.
ssh_config=${DPTRAIN_SSH_CONFIG:-${HOME:-}/.ssh/dptrain_config}
# Number of concurrent ssh processes.
at_once=128

hosts_clear() {
    host_name=() host_slots=() host_gpus=() host_port=() host_user=() host_key=() host_env_file=() host_setup=() host_envs=()
    host_ranks=() host_local=() host_alias=() host_patience=() hosts_shell=ssh
    ssh_options=(-o BatchMode=yes -o ConnectTimeout=10) ssh_own_config=no ssh_all_ways=no
}
hosts_clear

# Runs --hosts-command, and sets source to a file with what it prints: a hostfile, or a list. If it fails, the hosts of its last
# success stay.
hosts_of_command() { # COMMAND FOLDER
    local code=0 words
    timeout -k 5 60 bash -c "$1" </dev/null >"$2/hosts.new" || code=$?
    if ((code == 0)) && grep -q '[^[:space:]]' "$2/hosts.new"; then
        # A list in one line, as -H takes it.
        read -r words <"$2/hosts.new"
        if [[ $(grep -c . "$2/hosts.new") -eq 1 && $words == *:* && $words != *[[:space:]]* ]]; then
            # A comma in brackets belongs to a range: node[1-2,5]:4.
            sed -E ':in; s/(\[[^],]*),/\1;/; t in; s/,/\n/g' "$2/hosts.new" | sed -E 's/;/,/g; /:[0-9]+$/!s/$/ slots=1/' \
                >"$2/hosts.lines" && mv "$2/hosts.lines" "$2/hosts.new"
        fi
        mv "$2/hosts.new" "$2/hosts"
    elif [[ -e $2/hosts ]]; then
        note "--hosts-command failed (code $code) or printed nothing; the hosts are those of its last success"
    else
        die 4 "--hosts-command failed (code $code) or printed nothing: $1"
    fi
    source=$2/hosts
}

# Fills the list of hosts from `source` or the Slurm allocation; leaves it empty for a job on this machine alone.
hosts_find() {
    if [[ -n $source ]]; then
        hosts_read "$source" "${filters[@]}"
    elif [[ -n ${SLURM_JOB_NODELIST:-} ]] && command -v scontrol >/dev/null; then
        hosts_of_slurm
    elif [[ -n $chief || ${#filters[@]} -gt 0 || $launcher == srun ]]; then
        local option="${filters[0]:---launcher srun}"
        [[ -z $chief ]] || option=--chief
        die 2 "$option needs hosts: -hostfile, -H, or a Slurm allocation"
    elif [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
        note "in a Slurm allocation, but scontrol was not found: using this machine alone"
    fi
    ((${#host_name[@]} > 0)) || return 0
    # A chief that is lost is replaced.
    [[ -z $chief || ($super_lenient == yes && " ${host_name[*]} " != *" $chief "*) ]] || hosts_first "$chief"
    if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then hosts_shell=srun; fi
    [[ $launcher == mpirun || $hosts_shell == srun ]] || die 2 "--launcher srun: not in a Slurm allocation"
}

# Reads the hosts of a Slurm allocation, with one slot per requested task.
hosts_of_slurm() {
    local names counts=() part i
    names=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || die 4 "scontrol cannot list the hosts of this allocation"
    mapfile -t host_name <<<"$names"
    for i in "${!host_name[@]}"; do
        if ! is_id "${host_name[i]}" || [[ ${host_name[i]} == -* ]]; then die 4 "scontrol lists '${host_name[i]}', which is not a host name"; fi
    done
    # The format is 2(x3),1.
    for part in ${SLURM_TASKS_PER_NODE//,/ }; do
        for ((i = 0; i < $([[ $part == *x* ]] && tr -dc 0-9 <<<"${part#*x}" || echo 1); i++)); do
            counts+=("${part%%(*}")
            number_or 1 "counts[-1]"
        done
    done
    for i in "${!host_name[@]}"; do
        host_slots+=("${counts[i]:-1}") host_gpus+=(-) host_port+=(-) host_user+=(-) host_key+=(-) host_env_file+=(-)
        host_setup+=(-) host_envs+=(-)
    done
}

# Moves the host of rank 0 to the front.
hosts_first() { # NAME
    local list value i=0
    while ((i < ${#host_name[@]})) && [[ ${host_name[i]} != "$1" ]]; do i=$((i + 1)); done
    ((i < ${#host_name[@]})) || die 2 "--chief $1: the hosts are ${host_name[*]}"
    for list in host_name host_slots host_gpus host_port host_user host_key host_env_file host_setup host_envs; do
        local -n values=$list
        value=${values[i]}
        unset "values[i]"
        values=("$value" "${values[@]}")
    done
}

# Whether some hosts have the slots that they say themselves.
hosts_open() {
    local slots
    for slots in "${host_slots[@]}"; do [[ $slots != - ]] || return 0; done
    return 1
}

# Gives those hosts their slots, from the facts of probe.sh: one per GPU if the job uses GPUs and the host has some, otherwise
# one per core, as OpenMPI does.
hosts_fill_slots() { # DPTRAIN'S ARGUMENTS...
    local i gpus cores kind gpu_job=yes said
    local -A like=()
    ! hosts_use_no_gpus "$@" || gpu_job=no
    for i in "${!host_name[@]}"; do
        [[ ${host_slots[i]} == - ]] || continue
        gpus=${fact[$i gpus]:-0} cores=${fact[$i cores]:-1}
        kind=GPU host_slots[i]=$gpus
        if [[ $gpu_job == no || $gpus -eq 0 ]]; then kind=core host_slots[i]=$cores; fi
        like["${host_slots[i]}, one per $kind"]+=" ${host_name[i]}"
    done
    for kind in "${!like[@]}"; do
        said="slots of${like[$kind]}: $kind"
        [[ $hosts_said == *"|$said|"* ]] || note "$said"
        hosts_said+="|$said|"
    done
}
hosts_said=''

# Whether the job's options, or the program's, rule GPUs out.
hosts_use_no_gpus() { # DPTRAIN'S ARGUMENTS...
    local word last='' device=${super_device:-auto}
    for word in "$@"; do
        if [[ $word == --device=* || $last == --device ]]; then device=${word#--device=}; fi
        last=$word
    done
    [[ $device == @(cpu|ref) ]]
}

# Assigns N ranks to hosts in order; 0: one per slot. Sets np.
hosts_share() { # N SLOTS_EACH
    local i total=0 left
    for i in "${!host_name[@]}"; do
        if (($2 > 0)); then host_slots[i]=$2; fi
        total=$((total + host_slots[i]))
    done
    left=$(($1 > 0 ? $1 : total))
    ((left <= total)) || die 2 "$1 ranks, but the hosts have $(count "$total" slot): set slots=N in the hostfile, or HOST:N in -H"
    np=$left
    for i in "${!host_name[@]}"; do
        host_ranks[i]=$((left < host_slots[i] ? left : host_slots[i]))
        left=$((left - host_ranks[i]))
    done
    # Drop hosts without ranks.
    for ((i = ${#host_name[@]} - 1; i > 0 && host_ranks[i] == 0; i--)); do unset "host_name[i]" "host_ranks[i]"; done
}

# Finds out which hosts are this machine, by name or by address, and sets each host's name for mpirun.
hosts_mark_local() {
    local i mine address others=() found=' '
    mine=" localhost ip6-localhost $(hostname 2>/dev/null) $(hostname -s 2>/dev/null) "
    mine+=$(ip -o addr 2>/dev/null | awk '{ sub("/.*", "", $4); printf "%s ", $4 }') || true
    for i in "${!host_name[@]}"; do
        host_local[i]=no host_alias[i]=${host_name[i]}
        [[ ${host_name[i]} != *:* ]] || host_alias[i]=$(host_alias "${host_name[i]}")
        if [[ $mine == *" ${host_name[i]} "* ]]; then host_local[i]=yes; else others+=("$i"); fi
    done
    # All names in one process, for a limited time; one by one only if an address of this machine is among the answers.
    if [[ $hosts_shell == ssh && ${#others[@]} -gt 0 ]]; then
        while read -r address _; do
            [[ $mine != *" $address "* ]] || found+="$address "
        done < <(for i in "${others[@]}"; do printf '%s\n' "${host_name[i]}"; done | timeout 10 xargs getent ahosts 2>/dev/null)
    fi
    [[ $found != ' ' ]] || others=()
    for i in "${others[@]}"; do
        address=$(getent ahosts "${host_name[i]}" 2>/dev/null | awk 'NR == 1 { print $1 }') || true
        [[ -z $address || $mine != *" $address "* ]] || host_local[i]=yes
    done
    for i in "${!host_name[@]}"; do
        if [[ ${host_local[i]} == yes && ${host_name[i]} == *:* ]]; then host_alias[i]=$(hostname); fi
    done
}

# Sets ssh_options: uses setup_ssh.sh's configuration if it covers these hosts, otherwise one in FOLDER, on this host only,
# with the hosts' port, user and key.
hosts_ssh() { # PORT FOLDER
    local i special=no others=()
    if [[ -n $1 ]]; then ssh_options+=(-p "$1"); fi
    for i in "${!host_name[@]}"; do
        [[ ${host_local[i]} == yes ]] || others+=("${host_alias[i]}")
        [[ ${host_port[i]}${host_user[i]}${host_key[i]} == --- && ${host_name[i]} != *:* ]] || special=yes
    done
    if hosts_in_config "${others[@]}"; then
        ssh_options=(-F "$ssh_config" "${ssh_options[@]}") ssh_all_ways=yes
    elif [[ $special == yes ]]; then
        for i in "${!host_name[@]}"; do
            printf 'Host %s\n' "${host_alias[i]}"
            [[ ${host_alias[i]} == "${host_name[i]}" ]] || printf '  HostName %s\n' "${host_name[i]//%/%%}"
            [[ ${host_port[i]} == - ]] || printf '  Port %s\n' "${host_port[i]}"
            [[ ${host_user[i]} == - ]] || printf '  User %s\n' "${host_user[i]}"
            [[ ${host_key[i]} == - ]] || printf '  IdentityFile "%s"\n' "${host_key[i]//%/%%}"
        done >"$2/ssh_config"
        printf 'Match all\n  Include "%s"\n' "${HOME:-}/.ssh/config" >>"$2/ssh_config"
        ssh_options=(-F "$2/ssh_config" "${ssh_options[@]}") ssh_own_config=yes
    fi
}

# Whether setup_ssh.sh's configuration has all of these hosts.
hosts_in_config() { # NAME...
    local words name
    local -A known=()
    [[ -r $ssh_config ]] || return 1
    while read -ra words; do
        [[ ${words[0]:-} != [Hh]ost ]] || for name in "${words[@]:1}"; do known[$name]=yes; done
    done <"$ssh_config"
    for name in "$@"; do [[ -n ${known[$name]:-} ]] || return 1; done
}

# Runs a bash script from standard input on all hosts in parallel, including this one: host_ask with OUT FOLDER/I. Call it at
# the end of a pipe, so that it waits for no other child of run.sh.
hosts_ask() { # FOLDER SECONDS
    local folder=$1 seconds=$2
    mkdir -p "$folder"
    cat >"$folder/script"
    hosts_each hosts_ask_one "${!host_name[@]}"
}

hosts_ask_one() { # INDEX
    local shell=(bash -s) seconds=${host_patience[$1]:-$seconds}
    if ((seconds == 0)); then
        : >"$folder/$1.out"
        : >"$folder/$1.err"
        echo 124 >"$folder/$1.code"
        return
    fi
    case ${host_local[$1]}$hosts_shell in
    yes*) ;;
    *srun) shell=(srun --overlap --quiet --nodes=1 --ntasks=1 "--nodelist=${host_name[$1]}" bash -s) ;;
    *ssh) shell=(ssh "${ssh_options[@]}" "${host_alias[$1]}" 'bash -s') ;;
    esac
    host_ask "$folder/script" "$folder/$1" "$seconds" "${shell[@]}"
}

# Whether host I is in a file of host names, which may be those that the hosts call themselves.
hosts_listed() { # I FILE
    local name own list
    [[ -s $2 ]] || return 1
    own=$(awk -v host="${host_name[$1]}" '$1 == host { print $2; exit }' "$supervisor/names" 2>/dev/null) || true
    list=" ${host_name[$1]} ${host_alias[$1]:-} $own "
    # Some names have a domain; an address has none.
    for name in "${host_name[$1]}" "$own"; do [[ -z $name ]] || [[ $name =~ ^[0-9.]+$|: ]] || list+="${name%%.*} "; done
    while read -r name; do [[ $list != *" $name "* && $list != *" ${name%%.*} "* ]] || return 0; done <"$2"
    return 1
}

# Sets CAUSE and ADVICE for host I, which did not answer.
hosts_cause() { # FOLDER INDEX SECONDS
    local code port text
    read -r code <"$1/$2.code"
    text=$(<"$1/$2.err")
    CAUSE=${text##*$'\n'} ADVICE=''
    if [[ $hosts_shell == ssh && $code -ne 0 ]]; then
        port=$(ssh -G "${ssh_options[@]}" "${host_alias[$2]}" 2>/dev/null | awk '$1 == "port" { print $2 }') || true
        ssh_cause "$code" "$text" "${host_name[$2]}" "${port:-22}" "$(hostname)"
    fi
    case $code in
    0) CAUSE='no output from the probe' ADVICE='check that its login shell works and that bash is installed' ;;
    124) CAUSE="no answer within $3 s" ;;
    esac
    CAUSE=${CAUSE:-code $code}
}
