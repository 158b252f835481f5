#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs dptrain on simulated hosts. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/simulate.sh -np N [options] -- COMMAND [dptrain's options]

Runs `dptrain COMMAND` on N ranks of simulated hosts, node0, node1, …, in one process on this machine: the real program on
SimGrid's MPI. It computes, reads and writes as always; only time is simulated. Messages take the time of the described
network, computing takes none, so that times and rates tell what communication costs, and two runs tell the same. Build
with `scripts/install_deps.sh --sim` and `make SMPI=1`.

  -np N              ranks
  --per-host K       ranks per host [1]
  --gbps B           bandwidth of each host's link, in Gbit/s [25]
  --latency T        one way between two hosts: 2us, 500ns, 1ms [2us]
  --slow HOST:F      this host's link has 1/F of the bandwidth; may be repeated
  --slow-pair A,B:F  between these two hosts there is 1/F of the bandwidth; may be repeated
  --switches S:F     the hosts are connected to S switches, whose connection has 1/F of the bandwidth of their hosts
  --hang RANK[@N]    this rank stops before its Nth collective, and never goes on [40]
  --lose RANK[@N]    this rank is killed before its Nth collective [40]
  --word RANK:WORD   adds WORD to the command line of this rank alone
  --collectives FILE writes number, simulated seconds and name of each of rank 0's collectives; of a job that fails also its end
  -h, --help         show this help

Tested with train, check and bench (whose --samples 1 is enough). Exit codes are dptrain's. A simulated rank of a small model
takes 6 MB of memory; its copy of the program takes 3 MB in /dev/shm, or in TMPDIR if /dev/shm lacks space.

Examples:
  # 16 hosts on 4 switches, a quarter of the bandwidth between them
  scripts/simulate.sh -np 16 --switches 4:4 -- bench comm -e 1M --samples 1
  # which rank does the watchdog name?
  scripts/simulate.sh -np 16 --hang 5 -- train --steps 100 --timeout 10
EOF
}

need_rank() { # OPTION VALUE PATTERN
    [[ $2 =~ ^([0-9]{1,6})$3$ ]] || die 2 "invalid $1 '$2'; --help shows the form"
    ((10#${BASH_REMATCH[1]} < np)) || die 2 "$1 $2: the ranks are 0 … $((np - 1))"
}

# Prints the index of nodeI.
host_index() { # OPTION HOST
    if ! [[ $2 =~ ^node([0-9]{1,6})$ ]] || ((10#${BASH_REMATCH[1]} >= n_hosts)); then
        die 2 "invalid $1 '$2': the hosts are node0 … node$((n_hosts - 1))"
    fi
    echo "$((10#${BASH_REMATCH[1]}))"
}

switch_of() { # INDEX OF A HOST
    echo "$((((($1 + 1) * ${switches%:*}) - 1) / n_hosts))"
}

# One zone per switch. A link per direction and host, each with half of the latency.
write_platform() {
    awk -v n="$n_hosts" -v gbps="$gbps" -v lat="$latency_ns" -v slow="${slow[*]}" -v pairs="${pairs[*]}" \
        -v switches="${switches%:*}" -v share="${switches#*:}" '
        function link(id, rate, ns) {
            printf "      <link id=\"%s\" bandwidth=\"%.9gBps\" latency=\"%.9gs\"/>\n", id, rate, ns * 1e-9
        }
        BEGIN {
            bytes = gbps * 1e9 / 8
            k = split(slow, words, " ")
            for (i = 1; i <= k; i++) { split(words[i], w, ":"); factor[w[1]] = w[2] }
            print "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
            print "<platform version=\"4.1\">\n  <zone id=\"job\" routing=\"Full\">"
            for (s = 0; s < switches; s++) {
                printf "    <zone id=\"switch%d\" routing=\"Cluster\">\n", s
                first = int(n * s / switches); last = int(n * (s + 1) / switches)
                for (h = first; h < last; h++) {
                    rate = bytes / (h in factor ? factor[h] : 1)
                    printf "      <host id=\"node%d\" speed=\"1Gf\"/>\n", h
                    link("up" h, rate, lat / 2); link("down" h, rate, lat / 2)
                }
                for (h = first; h < last; h++)
                    printf "      <host_link id=\"node%d\" up=\"up%d\" down=\"down%d\"/>\n", h, h, h
                k = split(pairs, words, " ")
                for (i = 1; i <= k; i++) {
                    split(words[i], w, ":")
                    if (w[1] < first || w[1] >= last || w[2] < first || w[2] >= last) continue
                    link("there" i, bytes / w[3], lat); link("back" i, bytes / w[3], lat)
                    bypass[s] = bypass[s] sprintf("      <bypassRoute src=\"node%d\" dst=\"node%d\"><link_ctn id=\"there%d\"/></bypassRoute>\n", w[1], w[2], i)
                    bypass[s] = bypass[s] sprintf("      <bypassRoute src=\"node%d\" dst=\"node%d\"><link_ctn id=\"back%d\"/></bypassRoute>\n", w[2], w[1], i)
                }
                printf "      <router id=\"router%d\"/>\n%s    </zone>\n", s, bypass[s]
            }
            for (s = 0; s < switches && switches > 1; s++) {
                link("out" s, bytes * n / switches / share, 0); link("in" s, bytes * n / switches / share, 0)
            }
            for (s = 0; s < switches; s++) for (t = 0; t < switches; t++) if (s != t)
                printf "    <zoneRoute src=\"switch%d\" dst=\"switch%d\" gw_src=\"router%d\" gw_dst=\"router%d\" symmetrical=\"NO\"><link_ctn id=\"out%d\"/><link_ctn id=\"in%d\"/></zoneRoute>\n", s, t, s, t, s, t
            print "  </zone>\n</platform>"
        }'
}

np=0 per_host=1 gbps=25 latency=2us slow_words=() pair_words=() switches=1:1 hang='' lose='' word='' collectives=''
while [[ $# -gt 0 ]]; do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    --per-host) need_value "$@"; whole_number "$1" "$2" 1; per_host=$((10#$2)); shift 2 ;;
    --gbps) need_value "$@"; gbps=$2; shift 2 ;;
    --latency) need_value "$@"; latency=$2; shift 2 ;;
    --slow) need_value "$@"; slow_words+=("$2"); shift 2 ;;
    --slow-pair) need_value "$@"; pair_words+=("$2"); shift 2 ;;
    --switches) need_value "$@"; switches=$2; shift 2 ;;
    --hang) need_value "$@"; hang=$2; shift 2 ;;
    --lose) need_value "$@"; lose=$2; shift 2 ;;
    --word) need_value "$@"; word=$2; shift 2 ;;
    --collectives) need_value "$@"; collectives=$2; shift 2 ;;
    --) shift; break ;;
    *) common_option "$1" ;;
    esac
done
((np > 0)) || die 2 "-np N, the number of ranks, is missing; --help lists the options"
[[ $# -gt 0 ]] || die 2 "expected a command of dptrain after --, such as: -- train --epochs 1"
number='[0-9]{1,6}(\.[0-9]{1,6})?'
[[ $gbps =~ ^$number$ && $gbps =~ [1-9] ]] || die 2 "invalid --gbps '$gbps': expected a number above 0"
[[ $latency =~ ^($number)(ns|us|ms)$ ]] || die 2 "invalid --latency '$latency': expected such as 2us"
declare -A ns=([ns]=1 [us]=1000 [ms]=1000000)
latency_ns=$(awk -v t="${BASH_REMATCH[1]}" -v f="${ns[${BASH_REMATCH[3]}]}" 'BEGIN { print t * f }')
[[ $switches =~ ^[1-9][0-9]{0,3}:$number$ ]] || die 2 "invalid --switches '$switches': expected such as 2:4"
n_hosts=$(((np + per_host - 1) / per_host))
slow=() pairs=()
for w in "${slow_words[@]}"; do
    [[ $w =~ ^(.*):($number)$ ]] || die 2 "invalid --slow '$w': expected such as node17:10"
    factor=${BASH_REMATCH[2]}
    index=$(host_index --slow "${BASH_REMATCH[1]}")
    slow+=("$index:$factor")
done
for w in "${pair_words[@]}"; do
    [[ $w =~ ^(.*),(.*):($number)$ ]] || die 2 "invalid --slow-pair '$w': expected such as node3,node9:10"
    names=("${BASH_REMATCH[@]:1:3}")
    first=$(host_index --slow-pair "${names[0]}") second=$(host_index --slow-pair "${names[1]}")
    [[ $(switch_of "$first") == $(switch_of "$second") ]] ||
        die 2 "--slow-pair $w: ${names[0]} and ${names[1]} are connected to different switches"
    pairs+=("$first:$second:${names[2]}")
done
[[ -z $hang ]] || need_rank --hang "$hang" '(@[0-9]{1,9})?'
[[ -z $lose ]] || need_rank --lose "$lose" '(@[0-9]{1,9})?'
[[ -z $word ]] || need_rank --word "$word" ':[^ ]+'
for w in "$@"; do
    [[ $w != *[[:space:]]* && -n $w ]] || die 2 "'$w': smpirun passes no empty words, and none with spaces"
done
end_of_words "$@"
command -v smpirun >/dev/null || die 4 "SimGrid was not found; run scripts/install_deps.sh --sim"
program=${DPTRAIN_SMPI_BIN:-$here/../build-smpi/dptrain}
[[ -f $program ]] || die 4 "$program is not built; run make SMPI=1"

# The copies of the program, in memory if there is space.
size=$(stat -c %s "$program") parent=${TMPDIR:-/tmp}
free=$(df --output=avail -B1 /dev/shm 2>/dev/null | tail -n 1) || true
number_or 0 free size
((free < size * np)) || parent=/dev/shm
make_work simulate "$parent"
strip -o "$work/dptrain" "$program"
write_platform >"$work/platform.xml"
for ((rank = 0; rank < np; rank++)); do echo "node$((rank / per_host))"; done >"$work/hosts"

order() { # VARIABLE VALUE
    [[ -z $2 ]] || export "DPTRAIN_SIM_$1=$2"
}
at_default() { # VALUE
    [[ -z $1 || $1 == *@* ]] && echo "${1/@/:}" || echo "$1:40"
}
order HANG "$(at_default "$hang")"
order LOSE "$(at_default "$lose")"
order WORD "$word"
order COLLECTIVES "$collectives"
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true
export OMP_NUM_THREADS=1

# With factors of 1 a message takes latency + size/bandwidth. SimGrid's default algorithms for collectives do not end at
# this size within hours.
simgrid=("--cfg=smpi/tmpdir:$work" --cfg=smpi/privatization:dlopen --cfg=smpi/simulate-computation:no --cfg=smpi/errors-are-fatal:no
    --cfg=smpi/coll-selector:ompi --cfg=smpi/bcast:binomial_tree
    --cfg=smpi/bw-factor:"0:1" --cfg=smpi/lat-factor:"0:1" --cfg=network/weight-S:0 --cfg=network/crosstraffic:no
    --cfg=network/loopback-bw:1e10 --cfg=network/loopback-lat:5e-7
    --cfg=contexts/stack-size:1024 --log=root.thres:critical)
status=0
# smpirun's own last line is dropped.
smpirun -np "$np" -platform "$work/platform.xml" -hostfile "$work/hosts" -quiet "${simgrid[@]}" \
    "$work/dptrain" "$@" > >(grep --line-buffered -v '^Execution failed with code ') || status=$?
wait
exit "$status"
