# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The hosts of a job, and asking all of them at once. Sourced by run.sh.
#
# An element for each host, the chief first: host_name, host_slots, host_ranks (of this job), host_gpus (`0,2` or -),
# host_port, host_user, host_key, host_env, host_setup (- where there is none), host_local (yes for this machine).
# hosts_shell is how others are reached: ssh or srun.
host_name=() host_slots=() host_ranks=() host_gpus=() host_port=() host_user=() host_key=() host_env=() host_setup=()
host_local=() hosts_shell=ssh
ssh_options=(-o BatchMode=yes -o ConnectTimeout=10) ssh_own_config=no
# What setup_ssh.sh writes, on every host.
ssh_config=${HOME:-}/.ssh/dptrain_config

# From `dptrain hosts show`; SOURCE is a hostfile, a YAML specification or a list like a:2,b:2.
hosts_read() { # PROGRAM SOURCE CHIEF [FILTER...]
    local rows name slots gpus port user key chief env setup first=''
    rows=$("$1" hosts show --format tsv "$2" "${@:4}") || exit $?
    [[ -n $rows ]] || die 2 "$2: dptrain hosts names no host"
    while IFS=$'\t' read -r name slots gpus port user key chief env setup; do
        if [[ $name == "$3" || ($3 == '' && $chief == yes) ]]; then first=${#host_name[@]}; fi
        host_name+=("$name") host_slots+=("$slots") host_gpus+=("${gpus:--}") host_port+=("${port:--}")
        host_user+=("${user:--}") host_key+=("${key:--}") host_env+=("${env:--}") host_setup+=("${setup:--}")
    done <<<"$rows"
    [[ $3 == '' || -n $first ]] || die 2 "--chief $3: the hosts are ${host_name[*]}"
    if [[ -n $first ]]; then hosts_first "$first"; fi
}

# Of a Slurm allocation: its hosts, with as many slots as tasks were asked for.
hosts_of_slurm() { # CHIEF
    local names counts=() part i
    names=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || die 4 "scontrol cannot tell this allocation's hosts"
    mapfile -t host_name <<<"$names"
    # As in 2(x3),1.
    for part in ${SLURM_TASKS_PER_NODE//,/ }; do
        for ((i = 0; i < $([[ $part == *x* ]] && tr -dc 0-9 <<<"${part#*x}" || echo 1); i++)); do
            counts+=("${part%%(*}")
        done
    done
    for i in "${!host_name[@]}"; do
        host_slots+=("${counts[i]:-1}") host_gpus+=(-) host_port+=(-) host_user+=(-) host_key+=(-) host_env+=(-)
        host_setup+=(-)
        if [[ ${host_name[i]} == "$1" ]]; then part=$i; fi
    done
    hosts_shell=srun
    [[ -z $1 ]] || [[ " ${host_name[*]} " == *" $1 "* ]] || die 2 "--chief $1: the hosts are ${host_name[*]}"
    [[ -z $1 ]] || hosts_first "$part"
}

hosts_first() { # INDEX
    local list value i=$1
    for list in host_name host_slots host_gpus host_port host_user host_key host_env host_setup; do
        local -n values=$list
        value=${values[i]}
        unset "values[i]"
        values=("$value" "${values[@]}")
    done
}

# Shares N ranks out, host by host; 0: as many as there are slots. Sets np.
hosts_share() { # N SLOTS_EACH
    local i total=0 left
    for i in "${!host_name[@]}"; do
        if (($2 > 0)); then host_slots[i]=$2; fi
        total=$((total + host_slots[i]))
    done
    left=$(($1 > 0 ? $1 : total))
    ((left <= total)) || die 2 "$1 ranks, but the hosts have $total slots: say slots=N in the hostfile, or HOST:N in -H"
    np=$left
    for i in "${!host_name[@]}"; do
        host_ranks[i]=$((left < host_slots[i] ? left : host_slots[i]))
        left=$((left - host_ranks[i]))
    done
    # Hosts that are left without a rank take no part.
    for ((i = ${#host_name[@]} - 1; i > 0 && host_ranks[i] == 0; i--)); do unset "host_name[i]" "host_ranks[i]"; done
}

# Which hosts are this machine, by name or by address.
hosts_mark_local() {
    local i mine address
    mine=" localhost ip6-localhost $(hostname 2>/dev/null) $(hostname -s 2>/dev/null) "
    mine+=$(ip -o addr 2>/dev/null | awk '{ sub("/.*", "", $4); printf "%s ", $4 }') || true
    for i in "${!host_name[@]}"; do
        host_local[i]=no
        if [[ $mine == *" ${host_name[i]} "* ]]; then host_local[i]=yes; continue; fi
        [[ $hosts_shell == ssh ]] || continue
        address=$(getent ahosts "${host_name[i]}" 2>/dev/null | awk 'NR == 1 { print $1 }') || true
        [[ -z $address || $mine != *" $address "* ]] || host_local[i]=yes
    done
}

# How ssh reaches them: setup_ssh.sh's configuration where it has these hosts, else one from the hosts' own port, user and
# key. Sets ssh_options; the latter is in FOLDER, on this host alone.
hosts_ssh() { # PORT FOLDER
    local i covered=yes special=no
    if [[ -n $1 ]]; then ssh_options+=(-p "$1"); fi
    for i in "${!host_name[@]}"; do
        [[ ${host_local[i]} == yes ]] || hosts_in_config "${host_name[i]}" || covered=no
        [[ ${host_port[i]}${host_user[i]}${host_key[i]} == --- ]] || special=yes
    done
    if [[ $covered == yes && -r $ssh_config ]]; then
        ssh_options=(-F "$ssh_config" "${ssh_options[@]}")
    elif [[ $special == yes ]]; then
        for i in "${!host_name[@]}"; do
            printf 'Host %s\n' "${host_name[i]}"
            [[ ${host_port[i]} == - ]] || printf '  Port %s\n' "${host_port[i]}"
            [[ ${host_user[i]} == - ]] || printf '  User %s\n' "${host_user[i]}"
            [[ ${host_key[i]} == - ]] || printf '  IdentityFile %s\n' "${host_key[i]}"
        done >"$2/ssh_config"
        printf 'Match all\n  Include %s\n' "${HOME:-}/.ssh/config" >>"$2/ssh_config"
        ssh_options=(-F "$2/ssh_config" "${ssh_options[@]}") ssh_own_config=yes
    fi
}

hosts_in_config() { # NAME
    [[ -r $ssh_config ]] && awk -v name="$1" 'tolower($1) == "host" { for (i = 2; i <= NF; i++) if ($i == name) found = 1 }
        END { exit !found }' "$ssh_config"
}

# Runs a script of bash's on every host at once, this one included, each for at most SECONDS. What host I prints is in
# FOLDER/I.out and .err, its exit code in .code (124: out of time, 255: ssh could not).
hosts_ask() { # FOLDER SECONDS SCRIPT ARGUMENTS...
    local folder=$1 seconds=$2 script=$3 i running=0
    mkdir -p "$folder"
    for i in "${!host_name[@]}"; do
        # Two hundred at a time: each is an ssh.
        if ((running++ >= 200)); then wait -n || true; fi
        hosts_ask_one "$i" "$seconds" "$script" "${@:4}" >"$folder/$i.out" 2>"$folder/$i.err" &
        asked[i]=$!
    done
    for i in "${!host_name[@]}"; do
        local code=0
        wait "${asked[i]}" || code=$?
        echo "$code" >"$folder/$i.code"
    done
}

hosts_ask_one() { # INDEX SECONDS SCRIPT ARGUMENTS...
    local words remote=(bash -s)
    printf -v words '%q ' bash -s -- "${@:4}"
    case ${host_local[$1]}$hosts_shell in
    yes*) remote=(bash -s -- "${@:4}") ;;
    *srun) remote=(srun --overlap --quiet --nodes=1 --ntasks=1 "--nodelist=${host_name[$1]}" bash -s -- "${@:4}") ;;
    *ssh) remote=(ssh "${ssh_options[@]}" "${host_name[$1]}" "$words") ;;
    esac
    exec timeout -k 1 "$2" "${remote[@]}" <<<"$3"
}
