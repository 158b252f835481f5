#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures MPI's sums over TCP with messages put, OpenMPI's default, and sent, as run.sh asks; prints results/tcp.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=tests/cluster/cluster.bash
. "$here/../../tests/cluster/cluster.bash"

usage() {
    cat <<'EOT'
usage: scripts/bench/tcp.sh [options]

Measures sums of 4 MiB over 2 and 4 hosts made of namespaces, whose ports the kernel limits to 20 Mbit/s, to 1 Gbit/s or not
at all: with btl_tcp_flags put and send, in turn. Prints a Markdown page. Needs root.

  --rounds N    turns for each line of the table [5]
  -h, --help    show this help
EOT
}

command="scripts/bench/tcp.sh${*:+ $*}"
rounds=5
while [[ $# -gt 0 ]]; do
    case $1 in
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
missing=$(cluster_why)
[[ -z $missing ]] || die 4 "$missing"
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
make_work tcp
cluster_up 4 || die 4 "the hosts did not start"
trap 'cluster_down; rm -rf "$work"' EXIT
cluster_trust

# Prints the median, in seconds.
sum() { # HOSTS FLAGS
    local hosts=node1:1,node2:1
    (($1 == 2)) || hosts+=,node3:1,node4:1
    rm -f "$cluster/shared/sum.jsonl"
    cluster_exec node1 "$PWD/scripts/run.sh" -H "$hosts" --mca btl_tcp_flags "$2" -- bench comm --test all_reduce -b 4M -e 4M \
        --inplace in --budget 2 --out "$cluster/shared/sum.jsonl" >"$work/said" 2>&1 ||
        die 4 "bench comm failed: $(tail -n 1 "$work/said")"
    jq 'select(.record == "bench").p50' "$cluster/shared/sum.jsonl"
}

# Hosts begin without a limit.
for rate in none 20mbit 1gbit; do
    [[ $rate == none ]] || cluster_limit "$rate" 64k || die 4 "this kernel has no tbf"
    for hosts in 2 4; do
        for ((round = 0; round < rounds; round++)); do
            note "$rate, $hosts hosts, round $((round + 1)) of $rounds"
            order=("send,put,inplace" send)
            ((round % 2 == 0)) || order=(send "send,put,inplace")
            for flags in "${order[@]}"; do echo "$rate $hosts $round $flags $(sum "$hosts" "$flags")"; done
        done
    done
done >"$work/times"

cat <<EOT
# Sums over TCP, sent or put

OpenMPI's TCP moves large messages by *put*, in which the receiver asks for every part. While two ranks exchange, one direction
then waits for the other. \`run.sh\` sets \`--mca btl_tcp_flags send\`.

| port | hosts | put ms | send ms | floor ms | put / send | from | to |
|---|---|---|---|---|---|---|---|
EOT
python3 - "$work/times" <<'EOT'
import statistics
import sys

RATES = {"20mbit": ("20 Mbit/s", 20e6), "1gbit": ("1 Gbit/s", 1e9), "none": ("not limited", 0)}
points = {}
for line in open(sys.argv[1]):
    rate, hosts, turn, flags, sec = line.split()
    points.setdefault((rate, int(hosts)), {}).setdefault(turn, {})["put" in flags] = float(sec)
for (rate, hosts), turns in points.items():
    put, sent = ([turn[way] for turn in turns.values()] for way in (True, False))
    ratios = sorted(turn[True] / turn[False] for turn in turns.values())
    name, bits = RATES[rate]
    # Halving and doubling, and rings, move 2 (n - 1) / n of the bytes in each direction.
    floor = f"{2 * (hosts - 1) / hosts * (4 << 20) * 8 / bits * 1e3:.4g}" if bits else ""
    print(f"| {name} | {hosts} | {statistics.median(put) * 1e3:.4g} | {statistics.median(sent) * 1e3:.4g} | {floor} "
          f"| {statistics.median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} |")
EOT
cat <<EOT

- \`dptrain bench comm --test all_reduce\`, 4 MiB of floats, one rank per host. Times are medians of $rounds rounds, put and send in
  turn; put / send is the median of the rounds' ratios, with the least and the greatest. Floor: the bytes at the port's rate.

$(machine_table "$load" "$command")
EOT
