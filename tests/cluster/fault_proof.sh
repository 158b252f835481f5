#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Injects every known fault into a cluster of namespaces, and prints results/faults.md: what detected it. See --help.
# shellcheck disable=SC2154 # variables of cluster.bash and jobs.bash
set -euo pipefail
tests=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$tests/../../scripts/lib.sh"
# shellcheck source=tests/cluster/cluster.bash
. "$tests/cluster.bash"
# shellcheck source=tests/cluster/proof.bash
. "$tests/proof.bash"
# shellcheck source=tests/cluster/jobs.bash
. "$tests/jobs.bash"
# shellcheck source=tests/cluster/faults.bash
. "$tests/faults.bash"

usage() {
    cat <<'END'
usage: tests/cluster/fault_proof.sh [options] >results/faults.md

Creates four hosts (cluster.bash, as root), injects one fault after another, and prints a page: what detected the fault,
with message, exit code and time; the number of false alarms on healthy hosts; and the difference between the loss
curves of one, two and four hosts. Takes about ten minutes. MNIST must be in $DPTRAIN_DATA/mnist.

  --parts LIST  sections of the page [faults,healthy,training]
  --healthy N   number of checks of healthy hosts [20]
  --steps N     training steps [938, an epoch]
  -h, --help    show this help

Exit code 1: a fault was not detected as expected, or there was a false alarm.
END
}

command="tests/cluster/fault_proof.sh${*:+ $*}"
n_healthy=20 steps=938 parts=faults,healthy,training
while [[ $# -gt 0 ]]; do
    case $1 in
    --healthy) need_value "$@"; whole_number "$1" "$2" 1; n_healthy=$((10#$2)); shift 2 ;;
    --steps) need_value "$@"; whole_number "$1" "$2" 1; steps=$((10#$2)); shift 2 ;;
    --parts) proof_list 'faults|healthy|training' "$@"; parts=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$tests/../.."
data=${DPTRAIN_DATA:-}/mnist
[[ -d $data ]] || die 2 "no folder mnist in DPTRAIN_DATA"
proof_begin
wrong=0 BATS_TEST_DESCRIPTION="between the faults"
hosts=node1:1,node2:1,node3:1,node4:1

# Adds a row of the table from status, output and seconds, with the first line that contains WORDS, which must exist.
row() { # FAULT FOUND_BY CODE WORDS
    local line shown=${2/ $hosts/}
    shown=${shown//"$cluster"/}
    # Continuation lines of a check begin with six blanks.
    line=$(sed -E ':a;N;$!ba;s/\n      ([^ -])/ \1/g' <<<"$output" | grep -m 1 -E -- "$4" |
        sed -E "s|$cluster/shared|/shared|g; s|$root/||g; s/^ +//; s/  +/ /g" | tr '|`' "/'") || true
    if [[ -z $line || $status -ne $3 ]]; then
        wrong=$((wrong + 1))
        note "$1: code $status, not $3, or nothing with '$4' in:"$'\n'"$output"
        line="NOT DETECTED AS EXPECTED; ${lines[-1]}"
    fi
    ((${#line} <= 150)) || line="${line:0:147}…"
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '| %s | `%s` | `%s` | %d | %d.%d |\n' "$1" "$shown" "$line" "$status" $((seconds / 10)) $((seconds % 10)) \
        >>"$work/rows"
    mend
}

# Detected by cluster_health.sh.
by_health() { # FAULT CODE WORDS ARGUMENTS...
    BATS_TEST_DESCRIPTION=$1 health "${@:4}" >/dev/null
    row "$1" "cluster_health.sh${5:+ ${*:5}}" "$2" "$3"
}

# Detected by run.sh before it starts anything.
by_run() { # FAULT CODE WORDS ARGUMENTS...
    BATS_TEST_DESCRIPTION=$1 timed "$root/scripts/run.sh" -H "$hosts" "${@:4}" "${train[@]}" --data "$tiny" >/dev/null
    row "$1" "run.sh${4:+ ${*:4}}" "$2" "$3"
}

# Breaks a job that has trained for a while, and measures the time until it ends.
by_job() { # FAULT CODE WORDS COMMAND...
    local start
    n_jobs=$((${n_jobs:-0} + 1))
    endless node1 "job$n_jobs" -H node1:1,node2:1 >/dev/null || die 4 "a job does not start"
    start=${EPOCHREALTIME/./}
    "${@:4}"
    ended >"$work/ended"
    # shellcheck disable=SC2034 # row's
    seconds=$(((${EPOCHREALTIME/./} - start) / 100000)) status=$code output=$(grep -v '^epoch ' "$work/ended")
    mapfile -t lines <<<"$output"
    printf '# %s: code %s\n' "$1" "$status" >&3
    row "$1" "run.sh" "$2" "$3"
}

new_host_key() { cluster_new_host_key "$1" && cluster_sshd "$1"; }

# Makes every program on a host see another kernel or another OpenMPI.
other_kernel() { # HOST
    cluster_exec "$1" pkill -x sshd || true
    while cluster_exec "$1" pgrep -x sshd >/dev/null; do sleep 0.02; done
    cluster_exec "$1" setarch "$(uname -m)" --uname-2.6 bash "$tests/inside.bash" sshd
    fault_later cluster_sshd "$1"
}

other_mpi() { # HOST
    local library
    library=$(readlink -f "$(ldconfig -p | awk '/libmpi\.so\./ { print $NF; exit }')")
    sed 's/Open MPI v%d\.%d\.%d/Open MPI v%d.03.%d/' "$library" >"$cluster/shared/libmpi"
    ! cmp -s "$library" "$cluster/shared/libmpi" || die 4 "$library has no version string in the known format"
    fault_cover "$1" "$cluster/shared/libmpi" "$library"
}

small_shm() { # HOST
    cluster_exec "$1" mount -o remount,size=64m /dev/shm
    fault_later cluster_exec "$1" mount -o remount,size=1g /dev/shm
}

quick=(--data tiny --shared . --shared-bytes 1M --device cpu --allow-busy)

before_login() {
    by_health "no ssh login" 1 "here -> node2" "$hosts"
    SSHPASS=$cluster_password timed "$root/scripts/setup_ssh.sh" --trust-first-contact "$hosts" >"$work/setup"
    [[ $status -eq 0 ]] || die 4 "setup_ssh.sh fails: $output"
}

ssh_faults() {
    chmod 644 "$cluster/node2/home/root/.ssh/dptrain_ed25519"
    fault_later chmod 600 "$cluster/node2/home/root/.ssh/dptrain_ed25519"
    by_health "a private key that others may read" 1 "bad permission" "$hosts"
    new_host_key node3
    by_health "a host key that has changed" 1 "host key changed" "$hosts"
    timed "$root/scripts/setup_ssh.sh" --accept-new-host-key node3 "$hosts" >/dev/null
    [[ $status -eq 0 ]] || die 4 "setup_ssh.sh fails: $output"
    cluster_sshd node3 -p 2222
    fault_later cluster_sshd node3
    by_health "sshd on another port" 1 "here -> node3 .*refused|node3 .*wrong port" "$hosts"
    cluster_cut node3
    fault_later cluster_mend node3
    by_health "a host that is down" 1 "node3 .*(no answer|no route)" "$hosts"
    cluster_cut node3
    fault_later cluster_mend node3
    by_run "a host that is down" 4 "node3: probe over ssh failed"
}

host_faults() {
    fault_cover node4 /dev/null "$DPTRAIN_BIN"
    by_run "no program on a host" 4 "node4: no program"
    fault_other_binary node2
    by_run "another binary on a host" 4 "node2: .* differs from the one here"
    fault_other_binary node2
    json=$work/json BATS_TEST_DESCRIPTION="another binary" check -- --only versions >/dev/null
    row "another binary on a host" "dptrain check" 1 "FAIL +node2: versions, dptrain"
    fault_other_data node3
    by_health "another dataset on a host" 1 "FAIL +node3: versions, data" "$hosts" -- "${quick[@]}"
    mkdir -p "$cluster/shared/out" "$cluster/shared/job/folder"
    fault_not_mounted node4 "$cluster/shared/out"
    by_health "the shared folder is not mounted on a host" 1 "FAIL +node4: shared" \
        "$hosts" -- --only shared --shared out --shared-timeout 2 --shared-bytes 1M
    fault_not_mounted node4 "$cluster/shared/job"
    by_run "the folder to run in is not there on a host" 4 "node4: no working folder" \
        --wdir "$cluster/shared/job/folder"
    small_shm node2
    by_health "64 MB of /dev/shm, as in a container" 0 "warn +node2: .*shm" "$hosts" -- "${quick[@]}"
    other_mpi node3
    by_health "another OpenMPI on a host" 1 "FAIL +node3: versions, MPI" "$hosts" -- "${quick[@]}"
    other_kernel node4
    by_health "another kernel on a host" 0 "warn +node4: machine, kernel" "$hosts" -- "${quick[@]}"
}

network_faults() {
    fault_lone_interface node2
    by_run "an interface that only one host has" 4 "has no such interface" --interface eth1
    fault_slow_link node3 || die 4 "this kernel cannot slow down a link"
    by_health "a slow link (50 Mbit/s, $how)" 1 "FAIL +node3: network, bandwidth" "$hosts" -- --only network
    fault_no_route node3 node2
    by_health "a pair that does not reach each other" 1 "node3 -> node2|node2 -> node3" "$hosts"
    fault_no_route node3 node2
    by_health "a pair that does not reach each other" 1 "FAIL +node[23]: reach, ports" \
        --no-ssh --ports 20000-20999 "$hosts" -- --only reach,network --timeout 20
    BATS_TEST_DESCRIPTION=efa health --no-ssh "$hosts" -- --only transport --expect-transport efa >/dev/null
    row "sockets where EFA was expected" "cluster_health.sh … --expect-transport efa" 1 "FAIL .*not efa"
    fault_hanging_daemon node2
    by_health "mpirun's daemon hangs on a host" 1 "node2 keeps the job from starting" --no-ssh --timeout-start 20 \
        "$hosts" -- --only topology
}

job_faults() {
    by_job "a rank is killed" 5 "on node2 was killed by signal 9" cluster_exec node2 pkill -KILL -x dptrain
    by_job "a rank hangs (--timeout 10)" 5 "timed out after 10 s" cluster_exec node2 pkill -STOP -x dptrain
    by_job "mpirun is killed" 5 "run.sh: error" cluster_exec node1 pkill -KILL -x 'mpirun|prterun'
    fault_later cluster_mend node2
    by_job "a link is cut in mid-job" 5 "run.sh: error" cluster_cut node2
}

# Checks healthy hosts. Counts warnings and failures that this machine cannot cause itself.
healthy() {
    local i sec=()
    json=$work/json alarms=0
    for ((i = 1; i <= n_healthy; i++)); do
        BATS_TEST_DESCRIPTION="healthy $i" health --json "$cluster/shared/healthy" "$hosts" -- "${quick[@]}" >/dev/null
        sec+=("$seconds")
        json=$cluster/shared/healthy
        if [[ $status -ne 0 || -n $(bad topology reach machine clock versions shared network transport) ]]; then
            alarms=$((alarms + 1))
            note "a false alarm: code $status"$'\n'"$output"
        fi
    done
    median=$(printf '%s\n' "${sec[@]}" | sort -n |
        awk '{ s[NR] = $1 } END { printf "%.1f", s[int((NR + 1) / 2)] / 10 }')
    health_table=$(grep -vE '^cluster_health.sh: running as root' <<<"$output" | cut -c 1-150)
    wrong=$((wrong + alarms))
}

# Compares the loss curves of N hosts, one rank each, with that of one.
training() {
    local n list
    # Ranks of all hosts share this machine's cores.
    export OMPI_MCA_mpi_yield_when_idle=1
    for n in 1 2 4; do
        list=$(for ((i = 1; i <= n; i++)); do printf 'node%d:1,' "$i"; done)
        on node1 -H "${list%,}" -- train --model lenet5 --data "$data" --steps "$steps" --threads 1 \
            --reproducible 4 --out "mnist$n" >"$work/train$n" 2>&1 3>&- ||
            { cat "$work/train$n" >&2; die 4 "the training on $n hosts fails"; }
        [[ $(losses "mnist$n" | wc -l) -eq $steps ]] || die 4 "the training on $n hosts has not done $steps steps"
        paste <(losses mnist1) <(losses "mnist$n") | awk -v n="$n" -v accuracy="$(jq -r \
            'select(.record == "epoch") | .val_accuracy' "$cluster/shared/mnist$n/metrics.jsonl" | tail -n 1)" '
            { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; last = $2 }
            END { printf "| %d | %d | %.6f | %s | %.2g |\n", n, NR, last, accuracy, most; exit most > 0 }' \
            >>"$work/curves" || { wrong=$((wrong + 1)); note "the loss curve of $n hosts differs"; }
    done
}

cluster_up 4 || die 4 "the cluster does not start"
jobs_setup 300 64 >&2
before_login
if [[ $parts == *faults* ]]; then
    ssh_faults
    host_faults
    network_faults
    job_faults
fi
if [[ $parts == *healthy* ]]; then healthy; fi
if [[ $parts == *training* ]]; then training; fi

if [[ $parts == *faults* ]]; then cat <<END; fi
# Faults of a cluster, and what detects them

Four hosts of namespaces (\`tests/cluster\`), one rank on each, set up by \`scripts/setup_ssh.sh\` with only sshd and a
password. Each row injects one fault, runs the command that a user would run, and shows the first message that names the fault
(shortened), the exit code, and the seconds from the start of the command, or from the fault in a running job (two hosts), to
the exit. The script fails if a fault is not detected as expected.

| fault | detected by | message | code | s |
|---|---|---|---:|---:|
$(cat "$work/rows")

Code 0 is a warning: the job could run. The hosts share the machine's kernel and libraries; another kernel is simulated by
\`setarch --uname-2.6\`, another OpenMPI by a copy of its library with another version string.

END
if [[ $parts == *healthy* ]]; then cat <<END; fi
## False alarms

$n_healthy checks of the healthy hosts, \`cluster_health.sh … -- ${quick[*]}\`: **$alarms** false alarms (an exit code,
or a warning or failure of topology, clock, versions, shared, network or transport). $median s each (median).

\`\`\`
$health_table
\`\`\`

END
if [[ $parts == *training* ]]; then cat <<END; fi
## The same training on one, two and four hosts

LeNet-5 on MNIST, batch 64 over all ranks, by \`run.sh -H …\`. With \`--reproducible 4\` gradients are summed in the same
order on any number of hosts, so the curves must be identical bit for bit. Without it they differ by rounding, which training
amplifies, on four ranks of one host as on four hosts.

| hosts | steps | last loss | validation accuracy | largest difference from the loss on one host |
|---:|---:|---:|---:|---:|
$(cat "$work/curves")

END
cat <<END
## Not run

- EFA and InfiniBand: only recorded logs and synthetic \`/sys\` trees (\`tests/unit/test_check_network.c\`,
  \`tests/cli/run.bats\`)
- GPUs: only recorded output of \`nvidia-smi\`, and the emulator
- OpenMPI 5: not by this script; \`tests/cluster\` has run on 5.0.7
- skewed clocks: only in unit tests, because the hosts share one clock
- another NCCL, HDF5, C library or CPU on a host: only in unit tests
- a real firewall: simulated by a prohibit route

$(machine_table "$load" "$command" hosts "4, namespaces of one machine")
END
((wrong == 0)) || die 1 "$wrong faults not detected as expected, or false alarms"
