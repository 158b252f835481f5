#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes hosts of namespaces slow or unequal, one fault after another, and prints the tables of results/check.md. See --help.
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
usage: tests/cluster/check_proof.sh [options]

Creates four hosts (cluster.bash, as root), makes one of them slow or unequal, one fault after another, and prints what
dptrain check says of each as a table; then checks healthy hosts beside busy processes, and counts what it says of them.

  --parts LIST  tables to print [faults,healthy,many]
  --healthy N   number of checks of healthy hosts [50]
  --busy N      busy processes beside them, at most; each check has another number [20]
  -h, --help    show this help

Exit code 1: a fault was not named, or a healthy host failed.
END
}

n_healthy=50 n_busy=20 parts=faults,healthy,many
while [[ $# -gt 0 ]]; do
    case $1 in
    --healthy) need_value "$@"; whole_number "$1" "$2" 1; n_healthy=$((10#$2)); shift 2 ;;
    --busy) need_value "$@"; whole_number "$1" "$2" 0; n_busy=$((10#$2)); shift 2 ;;
    --parts) proof_list 'faults|healthy|many' "$@"; parts=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$tests/../.."
proof_begin
wrong=0 hosts=node1:1,node2:1,node3:1,node4:1

# Checks the hosts, mends the fault, and prints a row: what is wrong must match WORDS. Options of run.sh stand before --.
row() { # FAULT CODE WORDS CHECKS [OF RUN.SH...] [-- OF DPTRAIN CHECK...]
    local fault=$1 code=$2 words=$3 checks=$4 of_run=() found
    shift 4
    while [[ $# -gt 0 && $1 != -- ]]; do of_run+=("$1"); shift; done
    json=$cluster/shared/proof.json
    rm -f "$json"
    BATS_TEST_DESCRIPTION=$fault check "${of_run[@]}" -- --allow-busy --only "$checks" "${@:2}" >"$work/out"
    mend
    found=$(bad ${checks//,/ } | grep -v ' load ' | grep -E -m 1 "$words") || found=''
    if [[ -z $found || $status -ne $code ]]; then
        wrong=$((wrong + 1))
        found="**not as expected**: code $status, $(bad ${checks//,/ } | head -n 1)"
    fi
    printf '| %s | `%s` | %d | %d.%d |\n' "$fault" "$found" "$status" $((seconds / 10)) $((seconds % 10))
}

limit_all() { # RATE OF OTHERS, RATE OF NODE3
    local host
    cluster_limit "$1" 64k
    cluster_net node3 tc qdisc replace dev eth0 root tbf rate "$2" burst 64k latency 20ms
    for host in $(cluster_hosts); do fault_later cluster_net "$host" tc qdisc del dev eth0 root; done
}

fault_other_library() { # HOST
    local library
    library=$(ldd "$DPTRAIN_BIN" | sed -n 's/.*libdnnl.so.[0-9]* => \([^ ]*\).*/\1/p')
    library=$(readlink -f "$library")
    { cat "$library" && echo; } >"$cluster/shared/libdnnl"
    fault_cover "$1" "$cluster/shared/libdnnl" "$library"
}

faults() {
    local slow=(-x LD_PRELOAD="$cluster/shared/sgemm.so")
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o "$cluster/shared/sgemm.so" tests/tools/shim/sgemm.c -ldl
    printf '| fault on node3 | what the check says | code | s |\n|---|---|---:|---:|\n'
    limit_all 1gbit 200mbit
    row "a port at 200 Mbit/s, the others at 1 Gbit/s (tbf)" 1 '^fail node3 bandwidth' network
    limit_all 1gbit 500mbit
    row "a port at 500 Mbit/s, the others at 1 Gbit/s" 0 '^warn node3 bandwidth' network
    fault_loss node3 0.02
    row "2 % of the packets to it are lost (iptables)" 1 '^fail node3 packet loss' reach,network
    fault_loss node3 0.1
    row "10 % of them" 1 '^fail node3 packet loss' reach,network
    for host in node1 node2 node4; do fault_loss "$host" 0.02 node3; done
    row "2 % of the packets from it" 1 '^fail node3 packet loss' reach,network
    fault_loss node3 0.02 node2
    row "2 % of the packets from node2 to it" 1 '^fail node2 packet loss .* to node3' reach,network
    fault_mtu node3 1280
    row "an MTU of 1280, 1500 elsewhere" 1 '^fail node3 MTU' reach
    fault_mtu node3 9000
    row "an MTU of 9000" 1 '^fail node3 MTU' reach
    fault_large node4 node3
    row "full packets from it to node4 are lost" 1 '^fail node3 path MTU .*node4' reach
    sed 's/^10.77.0.2 node2/10.77.0.4 node2/' "$cluster/hosts" >"$cluster/shared/hosts"
    fault_cover node3 "$cluster/shared/hosts" /etc/hosts
    row "node2 has another address in its /etc/hosts" 1 '^fail node3 names' reach
    fault_no_route node3 node2
    row "no route to node2" 1 '^fail node3 ports to node2' reach
    fault_firewall node3 node2 DROP
    row "a firewall drops connections from node2" 1 '^fail node2 ports to node3: timed out' reach
    fault_firewall node3 node2 REJECT
    row "a firewall rejects connections from node2" 1 '^fail node2 ports to node3: refused' reach
    fault_cpu node3
    row "one CPU of two (taskset)" 1 '^fail node3 usable CPUs' machine
    fault_other_library node3
    row "libdnnl of the same version with other bytes" 0 '^warn node3 libraries libdnnl' versions
    row "its products take 10 % longer (LD_PRELOAD), level 2" 0 '^warn node3 GEMM' speed "${slow[@]}" -x SGEMM="2 slow 10" \
        -- --level 2
    row "25 % longer, level 2" 1 '^fail node3 GEMM' speed "${slow[@]}" -x SGEMM="2 slow 25" -- --level 2
    row "wrong products now and then" 1 '^fail node3 results' speed "${slow[@]}" -x SGEMM="2 wrong" -- --level 2
    cluster_net node3 ip address add 10.77.0.2/16 dev eth0
    fault_later cluster_net node3 ip address del 10.77.0.2/16 dev eth0
    BATS_TEST_DESCRIPTION="an address of node2" health "$hosts" -- --only topology >"$work/out"
    mend
    printf '| the address of node2, too | `%s` | %d | %d.%d |\n' "$(grep -m 1 -E 'node2.*(node3|key)' <<<"$output")" "$status" \
        $((seconds / 10)) $((seconds % 10))
    fault_firewall node1 node3 DROP
    BATS_TEST_DESCRIPTION="MPI does not start" health --timeout-start 20 "$hosts" -- --only topology --timeout 20 >"$work/out"
    mend
    printf '| node1 drops connections from it: MPI does not start | `%s` | %d | %d.%d |\n' \
        "$(grep -m 1 ': to ' <<<"$output")" "$status" $((seconds / 10)) $((seconds % 10))
}

# Starts N processes that compute until quiet.
busy() { # N
    local i
    for ((i = 0; i < $1; i++)); do (while :; do :; done) & hogs+=($!); done
}

quiet() {
    [[ ${#hogs[@]} -eq 0 ]] || kill "${hogs[@]}" 2>/dev/null || true
    wait "${hogs[@]}" 2>/dev/null || true
    hogs=()
}

# Counts warnings and failures of what is not load, and seconds.
healthy() {
    local i sec=() n_fail=0 n_warn=0 hogs=()
    json=$cluster/shared/proof.json
    : >"$work/said"
    for ((i = 0; i < n_healthy; i++)); do
        busy $((i * n_busy / n_healthy))
        BATS_TEST_DESCRIPTION="healthy $i beside ${#hogs[@]}" check -- --allow-busy --data "$tiny" --shared . >"$work/out"
        quiet
        sec+=("$seconds")
        bad reach gpu host machine speed clock versions shared network transport | sed "s/^/$i /" >>"$work/said"
    done
    n_fail=$(grep -c ' fail ' "$work/said") || true
    n_warn=$(grep -c ' warn ' "$work/said") || true
    mapfile -t sec < <(printf '%s\n' "${sec[@]}" | sort -n)
    printf '\n%d checks of four healthy hosts beside 0 to %d busy processes on %d CPUs: %d failures, %d warnings, ' "$n_healthy" \
        $((n_busy - 1)) "$(nproc)" "$n_fail" "$n_warn"
    printf 'median %d.%d s, longest %d.%d s.\n' $((sec[n_healthy / 2] / 10)) $((sec[n_healthy / 2] % 10)) $((sec[-1] / 10)) \
        $((sec[-1] % 10))
    sed 's/^[0-9]*/- /' "$work/said"
    [[ $n_fail -eq 0 ]] || wrong=$((wrong + 1))
}

# 64 hosts beside five busy processes. All hosts share the kernel's one table of neighbours, and MPI does not know that their ranks
# share cores, on which waiting ranks must yield.
many() {
    local i list='' hogs=() neighbours
    neighbours=$(sysctl -n net.ipv4.neigh.default.gc_thresh3)
    sysctl -q -w net.ipv4.neigh.default.gc_thresh3=65536
    cluster_down
    cluster_up 64
    cluster_trust
    jobs_setup 60 20
    for ((i = 1; i <= 64; i++)); do list+=,node$i:1; done
    hosts=${list#,} json=$cluster/shared/proof.json
    busy 5
    OMPI_MCA_mpi_yield_when_idle=1 BATS_TEST_DESCRIPTION="64 hosts" timed "$root/scripts/run.sh" -H "$hosts" --no-checks --interface "$cluster_subnet" --transport tcp \
        --timeout-start 300 -- check --timeout 300 --json "$json" --device cpu --shared-bytes 1M --allow-busy --data "$tiny" --shared . \
        >"$work/out"
    quiet
    sysctl -q -w net.ipv4.neigh.default.gc_thresh3="$neighbours"
    printf '\n64 hosts beside 5 busy processes: code %d after %d.%d s from the start of run.sh, %s failures, %s warnings\n' "$status" \
        $((seconds / 10)) $((seconds % 10)) \
        "$(jq '[.lines[] | select(.status == "fail")] | length' "$json")" \
        "$(jq '[.lines[] | select(.status == "warn" and .check != "load")] | length' "$json")"
    bad reach gpu host machine speed clock versions shared network transport | sed 's/^/- /'
}

cluster_up 4
cluster_trust
jobs_setup 60 20
[[ $parts != *faults* ]] || faults
[[ $parts != *healthy* ]] || healthy
[[ $parts != *many* ]] || many
((wrong == 0)) || die 1 "$wrong rows are not as they should be"
