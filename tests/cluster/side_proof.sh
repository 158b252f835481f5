#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Breaks jobs on hosts of namespaces, and prints results/side_channel.md: which rank the job named. See --help.
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

usage() {
    cat <<'END'
usage: tests/cluster/side_proof.sh [options] >results/side_channel.md

Starts jobs on four hosts with one rank each and on two with two (cluster.bash, as root), breaks a random rank or host
in mid-job, and prints a page: whether one message named the rank, its host and its phase, and how soon. A fifth host
starts the jobs. Takes about 25 minutes.

  --each N       faults of each kind and layout [4]
  --kinds LIST   of hang,stop,kill,lost,cut [all]
  --seed N       chooses the ranks [1]
  -h, --help     show this help

Exit code 1: a fault was not named as expected.
END
}

command="tests/cluster/side_proof.sh${*:+ $*}"
each=4 kinds=hang,stop,kill,lost,cut RANDOM=1 seed=1 timeout_sec=10
while [[ $# -gt 0 ]]; do
    case $1 in
    --each) need_value "$@"; whole_number "$1" "$2" 1; each=$((10#$2)); shift 2 ;;
    --seed) need_value "$@"; whole_number "$1" "$2" 0; seed=$((10#$2)); shift 2 ;;
    --kinds) proof_list 'hang|stop|kill|lost|cut' "$@"; kinds=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
RANDOM=$seed
cd "$tests/../.."
tool=$PWD/build/tests/tools/hang_thread
[[ -x $tool ]] || make CUDA=0 build/tests/tools/hang_thread >&2
proof_begin
# Ranks of all hosts share this machine's cores.
export OMPI_MCA_mpi_yield_when_idle=1
n_named=0 n_faults=0

build_cluster() {
    cluster_down
    cluster_up 5 || die 4 "the cluster does not start"
    cluster_trust
    jobs_setup 300 64 >&2
}

# Prints the process of a rank, as its host numbers it.
rank_pid() { # HOST RANK
    # shellcheck disable=SC2016 # for the host's shell
    cluster_exec "$1" bash -c 'for e in $(grep -lsz "^OMPI_COMM_WORLD_RANK=$0$" /proc/[0-9]*/environ); do
        e=${e#/proc/} e=${e%/environ}
        [[ $(cat "/proc/$e/comm") != dptrain ]] || echo "$e"
    done' "$2"
}

# Each line of the job's output, with the time.
stamp() {
    local line
    while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done
}

# Starts an endless job and waits until it trains. Sets job and said.
start_job() { # NAME HOSTS
    local i
    said=$work/$1.out
    {
        code=0
        on node5 -H "$2" "${train[@]}" --allreduce mpi --data "$tiny" --epochs 100000 --timeout "$timeout_sec" \
            --out "$1" 2>&1 3>&- || code=$?
        echo "$code" >"$work/$1.code"
    } | stamp >"$said" &
    job=$!
    for ((i = 0; i < 900; i++)); do
        if grep -q ' epoch 2 ' "$said"; then return 0; fi
        sleep 0.1
    done
    cat "$said" >&2
    die 4 "a job does not start"
}

break_it() { # KIND HOST RANK
    local pid i
    pid=$(rank_pid "$2" "$3")
    [[ -n $pid ]] || die 4 "rank $3 is not on $2"
    broken=$EPOCHREALTIME
    case $1 in
    hang)
        rm -f "$work/tool"
        cluster_exec "$2" "$tool" "$pid" >"$work/tool" 2>&1 3>&- &
        tool_pid=$!
        # It looks for a moment in which the rank computes.
        for ((i = 0; i < 600; i++)); do
            broken=$EPOCHREALTIME
            ! grep -qs stopped "$work/tool" || break
            sleep 0.05
        done
        ;;
    stop) cluster_exec "$2" kill -STOP "$pid" ;;
    kill) cluster_exec "$2" kill -KILL "$pid" ;;
    lost) cluster_kill "$2" ;;
    cut) cluster_cut "$2" ;;
    esac
}

seconds_between() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; } # FROM TO

# Breaks a job, and adds a row to the table.
fault() { # KIND LAYOUT
    local rank=$((RANDOM % 4)) host hosts name code spoken said_sec end_sec verdict line ranks
    n_faults=$((n_faults + 1)) name=job$n_faults hosts=node1:1,node2:1,node3:1,node4:1
    host=node$((rank + 1)) ranks=$rank
    if [[ $2 == 2x2 ]]; then
        host=node$((rank / 2 + 1)) hosts=node1:2,node2:2
        # Of a host that is gone, either rank may be named.
        if [[ $1 == lost || $1 == cut ]]; then ranks="[$((rank / 2 * 2))$((rank / 2 * 2 + 1))]"; fi
    fi
    start_job "$name" "$hosts"
    break_it "$1" "$host" "$rank"
    wait "$job" || true
    end_sec=$(seconds_between "$broken" "$EPOCHREALTIME") code=$(<"$work/$name.code")
    # Messages that name a rank and its phase.
    spoken=$(grep -E 'dptrain: (error|warning): .*rank [0-9]+ on node' "$said" | grep -v ' stall: ' || true)
    line=$(head -n 1 <<<"$spoken")
    said_sec=$(seconds_between "$broken" "${line%% *}")
    verdict=named
    [[ $(grep -c . <<<"$spoken") -eq 1 ]] || verdict='not one message'
    [[ $code -eq 5 ]] || verdict="code $code"
    awk -v t="$said_sec" -v most=$((timeout_sec + 5)) 'BEGIN { exit t > most }' || verdict=late
    grep -qE "rank $ranks on $host .* (in|was in) \"[^\"]+\"" <<<"$spoken" || verdict='not named'
    if [[ $verdict == named ]]; then n_named=$((n_named + 1)); else note "$1 $2 rank $rank: $verdict"$'\n'"$(cat "$said")"; fi
    line=${line#*dptrain: *: } line=${line//|//}
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '| %s | %s | %s on %s | %s | %s | %s | %s | `%s` |\n' "$1" "${2/x/ × }" "$rank" "$host" "$verdict" "$said_sec" \
        "$end_sec" "$code" "${line//\`/\'}" >>"$work/rows"
    printf '# %s %s rank %s: %s after %s s\n' "$1" "$2" "$rank" "$verdict" "$said_sec" >&3
    if [[ $1 == hang ]]; then wait "$tool_pid" || true; fi
    if [[ $1 == cut ]]; then cluster_mend "$host"; fi
    if [[ $1 == lost ]]; then build_cluster; fi
}

build_cluster
for layout in 4x1 2x2; do
    for kind in ${kinds//,/ }; do
        for ((i = 0; i < each; i++)); do fault "$kind" "$layout"; done
    done
done

cat <<END
# Which rank holds a job up

Jobs on four hosts with one rank each and on two with two (namespaces, \`tests/cluster\`), started from a fifth, with
\`--timeout $timeout_sec\`. A random rank or its host is broken in mid-job. Hang: its main thread is stopped while it computes. Stop:
SIGSTOP. Kill: SIGKILL. Lost: every process of the host is killed, and its link is cut. Cut: only the link. A fault counts as
named if the job prints exactly one message with the rank, its host and what it was last in, at most
$((timeout_sec + 5)) s after the fault (\`--timeout\` + 5), and ends with code 5. For a host that is lost or cut off, any of its
ranks will do.

**$n_named of $n_faults faults are named.**

| fault | hosts × ranks | rank | verdict | message after s | end after s | code | message |
|---|---|---|---|---:|---:|---:|---|
$(cat "$work/rows")

A killed rank is named when its connection closes, before \`--timeout\`. After a lost host or a cut link the end takes long
because \`run.sh\` waits for mpirun, which outlives its ranks, and for the host that it cannot clean up.

$(machine_table "$load" "$command" hosts "5, namespaces of one machine")
END
((n_named == n_faults)) || die 1 "$((n_faults - n_named)) faults were not named as expected"
