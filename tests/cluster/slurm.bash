# SPDX-License-Identifier: MIT
# Runs Slurm on this machine for tests: `. slurm.bash`. All its files, with a separate munged, are in $slurm.
# shellcheck shell=bash

# Prints why Slurm cannot run, or nothing if it can. Its packages are large, so tests do not install them.
slurm_why() {
    local tool
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || { echo "takes a minute: scripts/test.sh --slow"; return; }
    [[ $(id -u) -eq 0 ]] || { echo "slurmd needs root"; return; }
    for tool in munged slurmctld slurmd sbatch scontrol; do
        PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
            { echo "no $tool here (apt-get install slurmctld slurmd slurm-client munge)"; return; }
    done
}

# The first node is this machine; further ones have the given names, and their slurmd runs here too.
slurm_up() { # [NAME...]
    local name i port
    slurm=$(mktemp -d /tmp/dptrain-slurm.XXXXXX) || return
    export slurm SLURM_CONF=$slurm/slurm.conf PATH=$PATH:/usr/sbin
    chmod 755 "$slurm"
    name=$(hostname -s)
    mkdir "$slurm"/{state,spool,munge}
    (umask 077 && head -c 1024 /dev/urandom >"$slurm/munge/key")
    port=$((30000 + RANDOM % 9000))
    cat >"$slurm/slurm.conf" <<EOF
ClusterName=dptrain
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket
CredType=cred/munge
SlurmctldPort=$((20000 + RANDOM % 9000))
SlurmdPort=$port
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
InactiveLimit=0
KillWait=5
NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
EOF
    for ((i = 1; i <= $#; i++)); do
        echo "NodeName=${!i} NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$(nproc) State=UNKNOWN" >>"$slurm/slurm.conf"
    done
    echo 'CgroupPlugin=cgroup/v1' >"$slurm/cgroup.conf"
    # All in the foreground, so that their ids are known.
    munged --foreground --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" \
        --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" \
        >"$slurm/munged.out" 2>&1 3>&- &
    slurm_pids=$!
    for ((i = 0; i < 600; i++)); do [[ ! -S $slurm/munge/socket ]] || break; sleep 0.1; done
    slurmctld -D >"$slurm/slurmctld.out" 2>&1 3>&- &
    slurm_pids+=" $!"
    for name in "$name" "$@"; do
        slurmd -D -N "$name" >"$slurm/slurmd-$name.out" 2>&1 3>&- &
        slurm_pids+=" $!"
    done
    export slurm_pids
    for ((i = 0; i < 300; i++)); do
        if [[ $(sinfo --noheader --Node --format %t 2>/dev/null | grep -cx idle) -gt $# ]]; then return 0; fi
        sleep 0.2
    done
    echo "Slurm did not start:" >&2
    tail -n 5 "$slurm"/*.log "$slurm"/*.out >&2
    return 1
}

slurm_down() {
    local pid
    [[ -n ${slurm:-} ]] || return 0
    scancel --quiet --state=running --state=pending --user=root 2>/dev/null || true
    for pid in $slurm_pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $slurm_pids; do
        for ((i = 0; i < 600; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$slurm"
}

# Prints a value of `scontrol show job`, or nothing if Slurm has forgotten the job.
slurm_job() { # JOB KEY
    scontrol --oneliner show job "$1" 2>/dev/null | grep -oE " $2=[^ ]*" | cut -d = -f 2 || true
}
