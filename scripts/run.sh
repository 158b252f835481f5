#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Starts dptrain under mpirun, on this machine or on several hosts, and supervises the job. See --help.
set -euo pipefail
# A closed pipe is an error of the write; a handler, because an ignored signal would stay ignored in mpirun.
trap : PIPE
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# Set by supervise.sh, not for the ranks.
supervisor=${DPTRAIN_SUPERVISOR:-}
unset DPTRAIN_SUPERVISOR DPTRAIN_RESUMES
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/hosts.sh
. "$here/cluster/hosts.sh"
# shellcheck source=scripts/launch/hosts.sh
. "$here/launch/hosts.sh"
# shellcheck source=scripts/launch/probe.sh
. "$here/launch/probe.sh"
# shellcheck source=scripts/launch/network.sh
. "$here/launch/network.sh"
# shellcheck source=scripts/launch/options.sh
. "$here/launch/options.sh"
# shellcheck source=scripts/launch/environment.sh
. "$here/launch/environment.sh"
# shellcheck source=scripts/launch/ranks.sh
. "$here/launch/ranks.sh"
# shellcheck source=scripts/launch/resume.sh
. "$here/launch/resume.sh"
# shellcheck source=scripts/launch/said.sh
. "$here/launch/said.sh"
# shellcheck source=scripts/launch/life.sh
. "$here/launch/life.sh"
# shellcheck source=scripts/launch/job.sh
. "$here/launch/job.sh"
# shellcheck source=scripts/launch/fleet.sh
. "$here/launch/fleet.sh"
# shellcheck source=scripts/launch/supervise.sh
. "$here/launch/supervise.sh"

# In a plain --help.
usage_common='-np -hostfile -H --num-gpus --interface --transport -x --log-dir --restarts --dry-run'
usage() {
    cat <<'EOF'
usage: scripts/run.sh [options] [--] [dptrain's arguments]
       scripts/run.sh [options] NUM_GPUS BATCH_PER_GPU HOSTFILE [train options]

Starts dptrain under mpirun with flags that suit this machine or the given hosts, and returns its exit code. SIGTERM,
Ctrl-C or SIGUSR1 makes the job write a checkpoint and stop; a second SIGTERM or Ctrl-C stops it at once.

Examples:
  # LeNet-5 on every core of this machine
  scripts/run.sh -- train --data /shared/mnist --out runs/first
  # on two hosts with 8 ranks each; print the command alone by --dry-run
  scripts/run.sh -H a:8,b:8 -x NCCL_DEBUG=INFO -- train --data /shared/mnist
  # for days: start again on the hosts that are left
  scripts/run.sh -hostfile hosts --restarts 20 -- train --out runs/week

Inside an allocation of Slurm, PBS or LSF the job runs on the allocated hosts (Slurm: scripts/dptrain.sbatch is a batch
script); in the launcher of a Kubernetes MPIJob it runs on the workers (scripts/mpijob.sh prints such a job).

Ranks and hosts:
  -np, --np, -n N      number of ranks [one per core; with hosts, one per slot]
  -hostfile, -machinefile FILE   hosts in the format of OpenMPI, DeepSpeed, MPICH (node:4), Slurm (node[1-4]), PBS or
                       LSF, or a specification, *.yaml; also --spec FILE. Without slots a host has as many as its GPUs
                       where the job uses them, otherwise its cores; several lines of a host add up
  -H LIST              hosts: a:2,b:2,[fd00::7]:2
  --include, --exclude FILTER   keep or drop hosts and slots, in DeepSpeed's syntax: a@b:0,2
  --chief HOST         host of rank 0 [the chief of the specification, or the first host]
  --num-gpus, -N N     ranks per host, overriding slots; also --npernode and --nproc-per-node
  --nnodes N           expect N hosts, as torchrun does; they are named by -hostfile or -H
  --ssh-port PORT      sshd's port, unless the ssh configuration sets one
  --no-tree-spawn      log in to all hosts directly from this one
  --wdir DIR           working folder on every host [the current folder]
  --launcher WHICH     mpirun or srun (inside Slurm) [mpirun]
  --no-checks          start without probing the hosts; several hosts then need --interface and --transport

Network, for several hosts:
  --interface WHICH    a name, or a subnet like 10.0.0.0/24 [the fastest subnet that all hosts share]
  --transport WHICH    efa (with aws-ofi-nccl), ib (UCX) or tcp [auto: the best of these that every host has]
  --ports LOW-HIGH     TCP ports (IPv4) that MPI may use, for firewalls: one per rank of a host, the last ones for
                       mpirun. Concurrent jobs need separate ranges. NCCL uses the system's ephemeral ports

Environment and output of the ranks:
  -x NAME[=VALUE]      a variable for the ranks, with its value here or another one; may be repeated
  --mca NAME VALUE     a setting of OpenMPI, instead of the one that this script would choose; may be repeated
  --bind-to, --map-by WHERE, --mpi-args "WORDS"   passed to mpirun
  --env-file FILE      NAME=VALUE lines for the ranks' environment, after ~/.dptrain_env and ./.dptrain_env (which must
                       belong to you, and not be writable by others). Ranks also inherit LD_LIBRARY_PATH and variables
                       named NCCL_, OMPI_, OMP_, UCX_, FI_, CUDA_ and DPTRAIN_, other hosts all of them but
                       CUDA_VISIBLE_DEVICES. Names with TOKEN, SECRET, PASS, PWD, CREDENTIAL, AUTH, ACCESS, PRIVATE or KEY,
                       or matching DPTRAIN_SECRET_PATTERN, are never passed on. A host's shared_envs and env_file in the
                       specification take precedence
  --log-dir DIR        log the output of rank N, with timestamps, to DIR/rank-N.log on its host, and this script's messages
                       to DIR/run.sh.log here
  --report-bindings    each rank prints the CPUs that it may use

Restarts after faults, docs/cluster.md#run-for-a-week:
  --restarts N         after a lost rank or host (code 5), resume from the newest checkpoint on the hosts that are left, in
                       the same --out; N restarts without a new checkpoint in between end the job. Started again after it
                       was killed itself, this script goes on with the job. Its life is recorded in job.jsonl in --out
  --min-ranks M        wait while fewer ranks are possible, also at the first start [1]
  --wait-hosts SEC     time to wait for hosts, then end with code 5 [300]
  --cool-down SEC      time for which a host is left out that did not answer or failed a check [60]
  --hosts-command CMD  before each start, run CMD, which prints a hostfile or a list of hosts; instead of -hostfile and -H

Other options:
  --timeout-start SEC  end the job if it has printed nothing by then; 0: never [300]
  --grace SEC          time from the first signal to the end of the job [30]
  --dry-run            print the command and exit; still probes the hosts
  -h, --help           show this help

Exit codes are dptrain's. 130, 143: stopped by Ctrl-C or SIGTERM; the last line is the command that continues (0 after
SIGUSR1). 5: a rank was killed by a signal, a host was lost, or a deadline passed. 4: the job did not start, or a host
cannot take part.
Environment: DPTRAIN_BIN is the program, DPTRAIN_BIND=none disables binding, DPTRAIN_ASK_SECONDS is the time that hosts
have to answer a probe [20]. Supports OpenMPI 4.1 and 5.
EOF
}

one_of() { # OPTION VALUE CHOICES...
    [[ " ${*:3} " == *" $2 "* ]] || die 2 "invalid $1 '$2': expected one of ${*:3}"
}

np=0 source='' filters=() chief='' num_gpus=0 ssh_port='' tree=yes wdir='' launcher=mpirun checks=yes
interface='' transport=auto ports='' env_files=() log_dir='' report=no timeout_start=300 grace=30 dry_run=no
restarts='' min_ranks=0 wait_hosts=300 cool_down=60 hosts_command=''
set_source() { # VALUE
    [[ -z $source$hosts_command ]] || die 2 "hosts given twice: $source$hosts_command and $1"
    source=$1
}
given=("$@")
while [[ $# -gt 0 ]]; do
    # A command of another launcher, as it is typed there, alone or behind options.
    options_launcher "$@"
    if ((skip > 0)); then
        given=("${given[@]:0:${#given[@]}-$#}" "${@:skip+1}")
        shift "$skip"
        continue
    fi
    if [[ $1 == --*=* ]] && options_take_value "${1%%=*}"; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
    ! options_take_value "$1" || need_value "$@"
    case $1 in
    -np | --np | -n | --num-processes | --num_processes) whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    --num-gpus | --num_gpus | -N | --npernode | -npernode | --nproc-per-node | --nproc_per_node)
        whole_number "$1" "$2" 1; num_gpus=$((10#$2)); shift 2 ;;
    --nnodes | --num-machines | --num_machines) options_nodes "$1" "$2"; shift 2 ;;
    --standalone | --multi_gpu | --multi-gpu) shift ;;
    -hostfile | --hostfile | -machinefile | --machinefile | -f | --spec) set_source "$2"; shift 2 ;;
    # A single name is a list too; dptrain hosts would treat it as a file.
    -H | -host | --host) set_source "$([[ $2 == *[:,]* ]] && echo "$2" || echo "$2:1")"; shift 2 ;;
    --include | --exclude) filters+=("$1" "$2"); shift 2 ;;
    --chief) chief=$2; shift 2 ;;
    --ssh-port) whole_number "$1" "$2" 1; ssh_port=$2; shift 2 ;;
    --no-tree-spawn) tree=no; shift ;;
    --wdir | -wdir) wdir=$2; shift 2 ;;
    --launcher) one_of "$1" "$2" mpirun srun; launcher=$2; shift 2 ;;
    --no-checks) checks=no; shift ;;
    --interface) interface=$2; shift 2 ;;
    --transport) one_of "$1" "$2" auto efa ib tcp; transport=$2; shift 2 ;;
    --ports)
        if ! [[ $2 =~ ^[0-9]{1,5}-[0-9]{1,5}$ ]] ||
            ((10#${2%-*} < 1024 || 10#${2%-*} >= 10#${2#*-} || 10#${2#*-} > 65535)); then
            die 2 "invalid --ports '$2': expected a range such as 20000-20999, within 1024-65535"
        fi
        ports=$2; shift 2 ;;
    -x) options_env "$2"; shift 2 ;;
    --mca | -mca | --gmca | -gmca | --prtemca) options_mca "$@"; shift 3 ;;
    --mpi-args) options_mpi_args "$2"; shift 2 ;;
    --bind-to | -bind-to | --map-by | -map-by) options_place "$1" "$2"; shift 2 ;;
    --env-file) env_files+=("$2"); shift 2 ;;
    --log-dir) log_dir=$2; shift 2 ;;
    --report-bindings) report=yes; shift ;;
    # Of mpirun: what this script does anyway.
    --allow-run-as-root | -allow-run-as-root | --oversubscribe | -oversubscribe | -q | --quiet) shift ;;
    --restarts | --max-restarts | --max_restarts) whole_number "$1" "$2" 0; restarts=$((10#$2)); shift 2 ;;
    --min-ranks) whole_number "$1" "$2" 1; min_ranks=$((10#$2)); shift 2 ;;
    --wait-hosts) whole_number "$1" "$2" 0; wait_hosts=$((10#$2)); shift 2 ;;
    --cool-down) whole_number "$1" "$2" 0; cool_down=$((10#$2)); shift 2 ;;
    --hosts-command) set_source ''; hosts_command=$2; shift 2 ;;
    --timeout-start) whole_number "$1" "$2" 0; timeout_start=$((10#$2)); shift 2 ;;
    --grace) whole_number "$1" "$2" 0; grace=$((10#$2)); shift 2 ;;
    --dry-run) dry_run=yes; shift ;;
    -h | --help) show_help "${@:2}" ;;
    --help=*) show_help "${1#*=}" ;;
    --) shift; break ;;
    -*)
        ! options_hint "$1" || die 2 "$1 is another launcher's: $hint"
        common_option "$1" "(dptrain's options follow its command, or --)"
        ;;
    *) break ;;
    esac
done
[[ -z ${DPTRAIN_ASK_SECONDS:-} ]] || whole_number DPTRAIN_ASK_SECONDS "$DPTRAIN_ASK_SECONDS" 1
options_given "$#"
# As behind mpirun.
[[ ${1:-} != @(dptrain|*/dptrain) ]] || shift
options_check_program "$@"
# The positional form used by launch recipes for image networks.
if [[ $# -ge 3 && $1 =~ ^[0-9]+$ && $2 =~ ^[0-9]+$ ]]; then
    [[ -f $3 && -r $3 ]] || die 2 "cannot read the hostfile $3"
    whole_number NUM_GPUS "$1" 1
    whole_number BATCH_PER_GPU "$2" 1
    ((np == 0)) || die 2 "NUM_GPUS and -np both set the number of ranks"
    np=$((10#$1)) batch=$2
    set_source "$3"
    shift 3
    [[ ${1:-} != -- ]] || shift
    [[ ${1:-} != train ]] || shift
    set -- train --batch-per-rank "$batch" "$@"
fi

end_of_words "$@"
program=$(find_program)
# A bundle contains mpirun, and its daemon for other hosts.
prefix=''
if [[ -x $here/../bin/orted || -x $here/../bin/prted ]]; then prefix=$(readlink -f "$here/..") && PATH=$prefix/bin:$PATH; fi
program_name=${program##*/}
mpi_allow_root
open_log() {
    [[ -n $log_dir && $dry_run == no ]] || return 0
    say_log=$log_dir/run.sh.log
    [[ $log_dir == /* ]] || say_log=${wdir:-$PWD}/$say_log
    own_file "$say_log"
    [[ -z $file_fault ]] || { say_log='' && own_want "$log_dir/run.sh.log" --log-dir; }
    if ! mkdir -p "${say_log%/*}" 2>/dev/null || ! own_append "$say_log" ''; then
        say_log=''
        note "no log of run.sh: cannot write to $log_dir"
    fi
}
if [[ -n $restarts && -z $supervisor && $dry_run == no ]]; then
    open_log
    supervise_run "$@"
fi
# The launcher of an MPIJob (mpijob.sh) finds its workers here.
if [[ -z $source$hosts_command && ${K_MPI_JOB_ROLE:-} == launcher && -e /etc/mpi/hostfile ]]; then source=/etc/mpi/hostfile; fi
# In an allocation of PBS or LSF: a line per slot.
if [[ -z $source$hosts_command${SLURM_JOB_NODELIST:-} ]]; then
    source=${PBS_NODEFILE:-${LSB_DJOB_HOSTFILE:-}}
    [[ -z $source ]] || note "the hosts are those of this allocation: $source"
fi
make_work run "$supervisor"
hold_sessions
wdir_wanted=${wdir:-$PWD}

# shellcheck source=/dev/null
if [[ -n $supervisor ]]; then . "$supervisor/state"; fi
if [[ $super_lenient == yes && -n $source$hosts_command${SLURM_JOB_NODELIST:-} ]]; then
    fleet_gather
else
    [[ -z $hosts_command ]] || hosts_of_command "$hosts_command" "${supervisor:-$work}"
    hosts_find
    if [[ ${#host_name[@]} -eq 0 ]]; then
        [[ -d $wdir_wanted && -x $wdir_wanted ]] ||
            die 4 "no working folder $wdir_wanted: create it, mount it, or choose another by --wdir"
        ((num_gpus == 0 || np <= num_gpus)) ||
            die 2 "$np ranks, $num_gpus on each host: that needs $(((np + num_gpus - 1) / num_gpus)) hosts; give them by -hostfile or -H"
        [[ $np -gt 0 ]] || np=$num_gpus
        [[ $np -gt 0 ]] || np=$(allowed_cores)
        [[ $super_again == no ]] || fleet_local
    fi
    if [[ $num_gpus -eq 0 ]] && hosts_open; then
        hosts_mark_local
        [[ $hosts_shell != ssh || "${host_local[*]}" == yes ]] || hosts_ssh "$ssh_port" "$work"
        if [[ $checks == yes ]]; then probe_hosts "$work" "$program" "$wdir_wanted" "$prefix"; else probe_ask_slots; fi
        hosts_fill_slots "$@"
        [[ $checks == yes ]] || facts=''
    fi
fi
options_check_nodes "${#host_name[@]}"
if [[ ${#host_name[@]} -gt 0 ]]; then
    hosts_share "$np" "$num_gpus"
    [[ ${#host_local[@]} -gt 0 ]] || hosts_mark_local
    mpi_flags 0
else
    mpi_flags "$np"
fi
if [[ -n $supervisor ]]; then
    [[ -n $super_first_ranks ]] || echo "$np" >"$supervisor/first_ranks"
    fleet_words "$@"
    set -- "${words[@]}"
    export DPTRAIN_RESUMES=1 # ranks that are ended save nothing
fi

# Where ranks find which signal the user sent.
[[ $dry_run == yes ]] || export DPTRAIN_ASKED=$work/asked

# mpirun forwards output through pipes, so tell rank 0 that it ends at a terminal, and at which: its width may change.
if [[ -t 1 && ${TERM:-dumb} != dumb ]]; then
    export DPTRAIN_PROGRESS="${DPTRAIN_PROGRESS:-1}" COLUMNS DPTRAIN_TERMINAL
    exec {screen}>&1 # in $( ) 1 is a pipe
    COLUMNS=$(stty size <&"$screen" 2>/dev/null | cut -d ' ' -f 2) || COLUMNS=80
    DPTRAIN_TERMINAL=$(uname -n):$(tty <&"$screen") || DPTRAIN_TERMINAL=
    exec {screen}>&-
    job_env+=(COLUMNS)
fi
if [[ -n $log_dir ]]; then export DPTRAIN_LOG_DIR=$log_dir; fi
env_of_prefixes
env_of_files "${env_files[@]}"
options_add_env
env_of_hosts

several=no near_gpus=no part_flags=()
if [[ ${#host_name[@]} -gt 1 || ${host_local[0]:-yes} == no ]]; then several=yes; fi
if [[ ${#host_name[@]} -gt 0 ]]; then
    if [[ $several == yes && $hosts_shell == ssh && -z $facts && -z $hosts_said ]]; then hosts_ssh "$ssh_port" "$work"; fi
    if [[ $checks == yes ]]; then
        [[ -n $facts ]] || probe_hosts "$work" "$program" "$wdir_wanted" "$prefix"
        fleet_note_hosts
        if [[ $launcher == mpirun && $user_places == no ]] && ranks_bind_to_gpus; then near_gpus=yes && ranks_drop_binding; fi
    fi
fi
if [[ $several == yes ]]; then
    network_flags
    [[ -z $prefix ]] || part_flags+=(--prefix "$prefix")
fi
[[ -z $ports ]] || network_port_flags $((10#${ports%-*})) $((10#${ports#*-}))
[[ $several == no || -z ${CUDA_VISIBLE_DEVICES+set} || " ${user_env[*]%%=*} " == *" CUDA_VISIBLE_DEVICES "* ]] ||
    note "CUDA_VISIBLE_DEVICES is passed to no other host; -x CUDA_VISIBLE_DEVICES passes it to all"
options_add
[[ -z $wdir && $several == no ]] || part_flags+=(--wdir "$wdir_wanted")
ranks_compose "$@"

given_command=yes
(($# > 0)) || given_command=no
# Advice after a lost rank.
restart='restart with --resume auto' asked_for='for a checkpoint'
[[ ${1:-} != bench ]] || restart='start it again'
# What is asked of the job when it is to stop: train alone saves.
[[ ${1:-train} == @(train|-*) ]] || asked_for='to stop'
advice="; $restart"
[[ -z $supervisor ]] || advice=''
if [[ $dry_run == yes ]]; then
    printf '%q ' "${command[@]}"
    echo
    exit 0
fi
command -v "$launcher" >/dev/null ||
    die 4 "$launcher was not found; run scripts/install_deps.sh"
work_has_space || die 4 "${TMPDIR:-/tmp} is full, and mpirun needs 4 MB there: free some space, or set TMPDIR"
open_log
[[ -z $supervisor ]] || echo "${host_name[0]:-}" >"$supervisor/chief"
life_add job_ranks "start:=$super_number" "ranks:=$np" \
    "hosts:=$(life_list "${host_name[@]:-$(hostname)}")" "newest_checkpoint:=$super_newest"
job_words=("$@")
job_run
