# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# Options that users know from other launchers: those of mpirun, which are passed on, and what to write instead of those of
# torchrun and Horovod. Sourced by run.sh.
#
# user_env: words of -x; user_flags: words for mpirun; user_mca: the settings among them; user_places: yes if they say where
# ranks run.
# wanted_nodes: --nnodes; 0: not given.
user_env=() user_flags=() user_mca=() user_places=no wanted_nodes=0

# Options of run.sh that take a value, also as --name=value.
options_with_value=' -np --np -n -N --npernode -npernode --num-gpus --timeout-start --grace -hostfile --hostfile -machinefile
 --machinefile -f --spec -H -host --host --include --exclude --chief --ssh-port --wdir -wdir --launcher --interface --transport
 --ports --env-file --log-dir --restarts --min-ranks --wait-hosts --cool-down --hosts-command -x --mpi-args -bind-to --bind-to
 -map-by --map-by --nproc-per-node
 --nproc_per_node --num_gpus --num-processes --num_processes --nnodes --num-machines --num_machines --max-restarts --max_restarts '
options_take_value() { [[ " ${options_with_value//$'\n'/} " == *" $1 "* ]]; }

# -x NAME[=VALUE]
options_env() { # WORD
    [[ $1 =~ ^[A-Za-z_][A-Za-z0-9_]*(=|$) ]] || die 2 "invalid -x '$1': expected NAME or NAME=VALUE"
    user_env+=("$1")
}

# Sets shown: the words of run.sh's command line, of -x the names alone, since a value may be secret.
options_shown() { # WORD...
    local word last='' args
    shown=()
    for word in "$@"; do
        args=$word
        case $last in
        -x) args=${word%%=*} ;;
        --mpi-args) args=$(options_shown_args "$word") ;;
        esac
        [[ $word != --mpi-args=* ]] || args=--mpi-args=$(options_shown_args "${word#*=}")
        shown+=("$args") last=$word
    done
}

options_shown_args() { # TEXT OF --mpi-args
    local words line shown
    options_words "$1" || true
    options_shown "${words[@]}"
    printf -v line '%q ' "${shown[@]}"
    printf '%s\n' "${line% }"
}

# Says which values a printed command takes from the environment.
options_say_hidden() {
    local word names=''
    for word in "${user_env[@]}"; do [[ $word != *=* ]] || names+=" ${word%%=*}"; done
    [[ -z $names ]] || note "export$names before: values of -x are not shown"
}

# --mca NAME VALUE, and its other spellings.
options_mca() { # OPTION NAME VALUE...
    (($# >= 3)) || die 2 "$1 needs a name and a value, such as: --mca btl_tcp_if_include eth0"
    [[ $3 != -[!0-9]* ]] || die 2 "$1 $2: its value is missing (found '$3')"
    user_mca+=("$2")
    user_flags+=("--${1#"${1%%[!-]*}"}" "$2" "$3")
}

# --bind-to and --map-by replace what run.sh would choose.
options_place() { # OPTION VALUE
    user_places=yes
    user_flags+=("--${1#"${1%%[!-]*}"}" "$2")
}

# Sets words: those of --mpi-args, in which quotes have a shell's meaning. Fails if one is not closed.
options_words() { # TEXT
    local text
    text=$(xargs -n 1 printf '%s\n' <<<"$1" 2>/dev/null) || return
    mapfile -t words <<<"$text"
}

options_mpi_args() { # TEXT
    local words
    options_words "$1" || die 2 "invalid --mpi-args '$1': a quote is not closed"
    set -- "${words[@]}"
    while (($# > 0)); do
        case $1 in
        '') shift ;;
        -x) need_value "$@"; options_env "$2"; shift 2 ;;
        --mca | -mca | --gmca | -gmca | --prtemca) options_mca "$@"; shift 3 ;;
        --bind-to | -bind-to | --map-by | -map-by) need_value "$@"; options_place "$1" "$2"; shift 2 ;;
        -np | --np | -n | -H | -host | --host | -hostfile | --hostfile | -machinefile | --machinefile)
            die 2 "--mpi-args: give $1 to run.sh itself" ;;
        *) user_flags+=("$1"); shift ;;
        esac
    done
}

# Sets hint: what to write instead of an option of another launcher; fails for other words.
options_hint() { # WORD
    case ${1%%=*} in
    --node-rank | --node_rank | --master-addr | --master_addr | --master-port | --master_port | --rdzv-* | --rdzv_* | \
        --machine-rank | --machine_rank | --main-process-* | --main_process_*)
        hint='omit it, run.sh starts the ranks of all hosts, from one of them' ;;
    --log_dir | -r | --redirects | -t | --tee) hint='write --log-dir DIR' ;;
    -p) hint='write --ssh-port PORT' ;;
    --host-discovery-script) hint='write --hosts-command CMD, with --restarts' ;;
    --min-np | --min-num-proc) hint='write --min-ranks M, with --restarts' ;;
    --max-np | --max-num-proc) hint='write -np N, the most ranks, with --restarts' ;;
    --mixed-precision | --mixed_precision) hint='write --precision bf16 behind train' ;;
    --gpu-ids | --gpu_ids) hint='write --gpus LIST behind train' ;;
    --config-file | --config_file) hint='omit it, run.sh needs no file' ;;
    --mpi | --gloo) hint='omit it, mpirun starts the ranks' ;;
    --network-interface | --network-interfaces) hint='write --interface NAME' ;;
    --start-timeout) hint='write --timeout-start SEC' ;;
    --output-filename | -output-filename) hint='write --log-dir DIR' ;;
    --ntasks) hint='write -np N' ;;
    --ntasks-per-node | --tasks-per-node | --gpus-per-node | -ppn | -perhost) hint='write --num-gpus N, the ranks per host' ;;
    -w | --nodelist | -hosts | --hosts) hint='write -H LIST' ;;
    -genv | -env) hint='write -x NAME=VALUE' ;;
    -iface) hint='write --interface NAME' ;;
    --tag-output | -tag-output | --timestamp-output | -timestamp-output) hint='write --log-dir DIR' ;;
    --display-map | -display-map | --display-allocation | --display | --rankfile | -rankfile | -rf | --prefix | --output)
        hint="write --mpi-args \"$1 …\"" ;;
    --num_nodes | --num-nodes) hint='write the hosts by -H or -hostfile' ;;
    *) return 1 ;;
    esac
}

# --nnodes of torchrun: the hosts are counted when they are known.
options_nodes() { # OPTION VALUE
    [[ $2 != *:* ]] || die 2 "$1 $2 is another launcher's: write -hostfile FILE --restarts N --min-ranks M"
    whole_number "$1" "$2" 1
    wanted_nodes=$((10#$2))
}

options_check_nodes() { # NUMBER OF HOSTS, 0: this machine alone
    local n=$(($1 > 0 ? $1 : 1))
    ((wanted_nodes == 0 || wanted_nodes == n)) ||
        die 2 "--nnodes $wanted_nodes, but $(count "$n" host): write the hosts by -H or -hostfile"
}

# Sets skip: how many words, after --, name another launcher whose spellings are taken; 0: none. Ends the script if what such a
# launcher means cannot be taken over word by word.
options_launcher() { # WORD...
    local dashes=0 left=$#
    [[ $1 != -- ]] || { dashes=1 && shift; }
    skip=0
    [[ $# -gt 0 ]] || set -- ''
    set -- "${1##*/}" "${@:2}"
    case "$1/${2:-}/${3:-}" in
    mpirun/* | mpiexec/* | mpiexec.hydra/* | orterun/* | torchrun/* | horovodrun/* | deepspeed/*) skip=1 ;;
    accelerate/launch/*) skip=2 ;;
    python*/-m/torch.distributed.run | python*/-m/torch.distributed.launch) skip=3 ;;
    srun/*) options_given "$left" && options_of_srun "${@:2}" ;;
    accelerate/* | jsrun/* | aprun/* | prun/* | flux/* | colossalai/* | composer/* | bpsrun/* | ray/*)
        options_given "$left" && die 2 "$1 is another launcher's: write $(options_instead -np N)" ;;
    esac
    ((skip == 0)) || skip=$((skip + dashes))
}

# srun's -N counts hosts, run.sh's the ranks of a host, so its words are not taken over, but said.
options_of_srun() { # WORD...
    local taken=()
    while (($# > 0)); do
        if [[ $1 == --*=* ]]; then
            set -- "${1%%=*}" "${1#*=}" "${@:2}"
        elif [[ $1 == -[a-zA-Z][0-9]* ]]; then
            set -- "${1:0:2}" "${1:2}" "${@:2}"
        fi
        case $1/${2:-} in
        -n/[1-9]* | --ntasks/[1-9]*) taken+=(-np "$2") ;;
        --ntasks-per-node/[1-9]* | --tasks-per-node/[1-9]*) taken+=(--num-gpus "$2") ;;
        esac
        shift
    done
    die 2 "srun is another launcher's: write $(options_instead "${taken[@]}"); in an allocation, --launcher srun starts the ranks by it"
}

# Sets shown: the words of run.sh's command line but the last, without values that may be secret.
options_given() { # NUMBER OF LAST WORDS
    options_shown "${given[@]:0:${#given[@]}-$1}"
    [[ ${shown[*]: -1} != -- ]] || unset 'shown[-1]'
}

# Prints run.sh's command for a job that was typed for another launcher.
options_instead() { # WORDS...
    local line
    printf -v line '%q ' "${shown[@]}" "$@"
    [[ $line != "'' " ]] || line=''
    printf '%s\n' "${CALLED_AS:-scripts/run.sh} ${line}-- train …"
}

# What follows the options of another launcher: a command that is not dptrain's.
options_check_program() { # WORD...
    case ${1:-} in
    python* | */python* | *.py | *.sh)
        die 2 "dptrain is the program, not $*: write $(options_instead)" ;;
    esac
}

# Removes mpirun's flag and its NAME, if given, from MPI_FLAGS, with its value.
options_drop() { # FLAG [NAME]
    local i=0 kept=()
    while ((i < ${#MPI_FLAGS[@]})); do
        if [[ ${MPI_FLAGS[i]} == "$1" && ($# -eq 1 || ${MPI_FLAGS[i + 1]} == "$2") ]]; then
            i=$((i + 1 + $#))
            continue
        fi
        kept+=("${MPI_FLAGS[i]}")
        i=$((i + 1))
    done
    MPI_FLAGS=("${kept[@]}")
}

# Adds the user's flags to MPI_FLAGS; mpirun refuses a setting that is given twice.
options_add() {
    local name
    for name in "${user_mca[@]}"; do options_drop --mca "$name" && options_drop --prtemca "$name"; done
    if [[ $user_places == yes ]]; then options_drop --bind-to && options_drop --map-by; fi
    MPI_FLAGS+=("${user_flags[@]}")
}

# Adds the variables of -x, which win over those of files, to the ranks' environment.
options_add_env() {
    local word name
    for word in "${user_env[@]}"; do
        name=${word%%=*}
        if env_is_secret "$name"; then
            note "-x $name is not passed on: its name suggests a secret"
            continue
        fi
        if [[ $word != *=* ]]; then
            if [[ ! -v $name ]]; then note "-x $name: it is not set here" && continue; fi
            word=$name=${!name}
        fi
        env_drop job_env "$name"
        env_put job_private "$word"
    done
}
