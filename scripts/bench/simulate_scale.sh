#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the program on up to 1,024 simulated hosts, and prints results/simulated.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/simulate_scale.sh [options]

Trains, checks networks, and lets ranks hang or be lost, by simulate.sh. Prints a Markdown page.

  --faults N    number of faults [20]
  -h, --help    show this help
EOT
}

command="scripts/bench/simulate_scale.sh${*:+ $*}"
n_faults=20
while [[ $# -gt 0 ]]; do
    case $1 in
    --faults) need_value "$@"; whole_number "$1" "$2" 1; n_faults=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
cd "$here/../.."
DPTRAIN_BIN=$PWD/dptrain
[[ -x $DPTRAIN_BIN ]] || die 4 "dptrain is not built; run make"
make_work simulated
./dptrain data synth digits --out "$work/digits" --train 1024 --val 128 >/dev/null
perl tests/sim/shrink.pl "$work/digits" "$work/small"
train=(train --data "$work/small" --batch 1024 --model mlp --steps 2 --threads 1 --algorithms fixed --device cpu --timeout 10)

# Sets elapsed and cpu, in seconds; the output goes to a file. Codes of other kinds of ends are the caller's.
simulate() { # WORDS OF simulate.sh
    local TIMEFORMAT='%R %U %S' code=0
    { time scripts/simulate.sh "$@" >"$work/said" 2>&1 || code=$?; } 2>"$work/time"
    read -r elapsed cpu < <(awk '{ printf "%.0f %.0f\n", $1, $2 + $3 }' "$work/time")
    return "$code"
}

train_row() { # NAME WORDS OF simulate.sh
    note "training on $1"
    rm -rf "$work/run"
    simulate "${@:2}" --collectives "$work/collectives" -- "${train[@]}" --out "$work/run" || die 1 "$1: $(tail -n 1 "$work/said")"
    printf '| %s | %d | %d | %s | %s | %d | %d |\n' "$1" "$elapsed" "$cpu" \
        "$(jq -r 'select(.record == "end") | .peak_memory_bytes | max / 1e8 | round / 10' "$work/run/metrics.jsonl")" \
        "$(awk -F'\t' '$3 == "gradient allreduce" { printf "%d | %.1f", $1 - 1, 1e3 * $2; exit }' "$work/collectives")" \
        "$(wc -l <"$work/said")" "$(jq -c 'del(.topology.host_of_rank?)' "$work/run/metrics.jsonl" | wc -c)"
}

check_row() { # HOSTS WHAT WORDS OF simulate.sh
    note "check of $1 hosts: $2"
    rm -f "$work/check.json"
    simulate -np "$1" "${@:3}" -- check --only network --json "$work/check.json" || (($? == 1)) || die 1 "$(tail -n 1 "$work/said")"
    printf '| %d | %s | %d | %d | %s |\n' "$1" "$2" "$elapsed" "$cpu" "$(jq -r '[.lines[]
        | select(.status == "warn" or .status == "fail") | (.host // "the job") + ": " + .name + " " + .found]
        | if length == 0 then "nothing" else join("; ") end' "$work/check.json")"
}

# Half of the faults hang, half are lost; half on 1,024 hosts, half on 128.
fault_rows() {
    local kind layout per_host rank n_done at_sec
    for kind in hang lose; do
        for layout in '1,024 × 1' '128 × 8'; do
            [[ $layout == 128* ]] && per_host=8 || per_host=1
            n_done=0
            : >"$work/late"
            for ((i = 0; i < (n_faults + 3) / 4; i++)); do
                rank=$((RANDOM % 1023 + 1))
                note "$layout, rank $rank: $kind"
                rm -rf "$work/run"
                simulate -np 1024 --per-host "$per_host" --"$kind" "$rank@$((RANDOM % 36 + 4))" \
                    --collectives "$work/collectives" -- "${train[@]}" --out "$work/run" && die 1 "the job did not fail"
                at_sec=$(awk -F'\t' '$1 == "end" { print $2 - last; exit } { last = $2 }' "$work/collectives")
                echo "$at_sec" >>"$work/late"
                if (($(grep -c 'dptrain: error' "$work/said") == 1)) &&
                    grep -qE "dptrain: error: .*rank $rank on node$((rank / per_host)) .*in \"[^\"]+\"" "$work/said"; then
                    n_done=$((n_done + 1))
                else
                    cat "$work/said" >&2
                fi
            done
            printf '| %s | %s | %d | %d | %s |\n' "$kind" "$layout" "$i" "$n_done" "$(sort -g "$work/late" | tail -n 1 | xargs printf '%.1f')"
        done
    done
}

RANDOM=34
cat <<'EOT'
# The program on simulated hosts

The real program on [simulated hosts](../docs/simulate.md): 25 Gbit/s, 2 µs, all ranks in one process.

Two steps of a small model, an evaluation and a checkpoint. Output and `metrics.jsonl` (here without `host_of_rank`, the one array
with an element for each rank) must not grow with the ranks.

| hosts × ranks | elapsed s | CPU s | memory GB | collectives before the first sum of gradients | simulated ms until then | lines of output | bytes of metrics.jsonl |
|---|---:|---:|---:|---:|---:|---:|---:|
EOT
train_row '64 × 1' -np 64
train_row '8 × 8' -np 64 --per-host 8
train_row '1,024 × 1' -np 1024
train_row '128 × 8' -np 1024 --per-host 8
cat <<'EOT'
| goal at 1,024 ranks | 120 | | 8 | 45 | 10 | | |

`check --only network`, with one fault in the network.

| hosts | fault | elapsed s | CPU s | warnings |
|---:|---|---:|---:|---|
EOT
for n in 64 256; do
    check_row "$n" 'none'
    check_row "$n" 'node17 has a tenth of the bandwidth' --slow node17:10
    check_row "$n" 'node3 to node9 has a tenth of the bandwidth' --slow-pair node3,node9:10
    check_row "$n" 'two switches, connected by a quarter of the bandwidth of a host' --switches "2:$((2 * n))"
done
cat <<'EOT'

A random rank hangs or is lost at a random collective. It is named if the job ends with one message, which has the rank, its host
and its phase. `--timeout 10`: the goal is 15 s of simulated time.

| fault | hosts × ranks | faults | named | longest time from the last collective to the end, simulated s |
|---|---|---:|---:|---:|
EOT
fault_rows
printf '\n'
machine_table "$load" "$command"
