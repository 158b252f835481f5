#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what starting a job on many hosts costs the host that starts it, and prints results/launch.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/launch_scale.sh [options]

Runs setup_ssh.sh --check and run.sh --dry-run for lists of hosts with 8 GPUs each. ssh is a stand-in that answers at once,
so the figures are their own CPU time; a real ssh adds about 10 ms per login. Prints a Markdown page.

  --hosts LIST  numbers of hosts [16,64,256,1024]
  --rounds N    number of rounds [3]
  -h, --help    show this help
EOT
}

command="scripts/bench/launch_scale.sh${*:+ $*}"
numbers=16,64,256,1024 rounds=3
while [[ $# -gt 0 ]]; do
    case $1 in
    --hosts)
        need_value "$@"
        [[ $2 =~ ^[0-9]{1,4}(,[0-9]{1,4})*$ ]] || die 2 "invalid --hosts '$2': expected numbers such as 16,64"
        numbers=$2; shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
cd "$here/../.."
DPTRAIN_BIN=$PWD/dptrain
[[ -x $DPTRAIN_BIN ]] || die 4 "dptrain is not built; run make"
STAND_IN_PROGRAM=$(sha256sum <"$DPTRAIN_BIN" | cut -d ' ' -f 1)
make_work launch
mkdir "$work/bin" "$work/home"
cc -O2 -o "$work/bin/ssh" "$here/ssh_stand_in.c" || die 4 "cannot compile ssh_stand_in.c"
export DPTRAIN_BIN STAND_IN_PROGRAM PATH=$work/bin:$PATH HOME=$work/home

# Prints CPU and elapsed seconds of a command, whose output must contain TEXT.
measure() { # TEXT COMMAND...
    local TIMEFORMAT='%U %S %R'
    { time "${@:2}" >"$work/said" 2>&1; } 2>"$work/time" || die 1 "${*:2} failed: $(tail -n 1 "$work/said")"
    grep -qF -- "$1" "$work/said" || die 1 "${*:2} did not print '$1'"
    awk '{ print $1 + $2, $3 }' "$work/time"
}

# Prints the median of column N, with the range.
column() { # FILE N
    sort -k "$2,$2n" "$1" | awk -v n="$2" '{ v[NR] = $n } END { printf "%.1f (%.1f to %.1f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

IFS=, read -ra sizes <<<"$numbers"
for n in "${sizes[@]}"; do
    for ((i = 1; i <= n; i++)); do echo "10.77.$((i / 256)).$((i % 256)) slots=8"; done >"$work/hosts.$n"
done
for ((round = 1; round <= rounds; round++)); do
    for n in "${sizes[@]}"; do
        note "round $round of $rounds: $n hosts"
        measure 'logins work' scripts/setup_ssh.sh --check "$work/hosts.$n" >>"$work/check.$n"
        measure 'DPTRAIN_CPUS' scripts/run.sh -hostfile "$work/hosts.$n" --dry-run -- train >>"$work/run.$n"
    done
done

cat <<'EOT'
# What a start on many hosts costs

Seconds on the host that starts the job, for hosts of 8 GPUs each. ssh is a stand-in that answers at once, so that the time of
the scripts themselves is left; a real login adds about 10 ms of CPU time, 1,024 of them 10 s. Median (lowest to highest).

| hosts | `setup_ssh.sh --check`, CPU s | elapsed s | `run.sh --dry-run`, CPU s | elapsed s |
|---:|---:|---:|---:|---:|
EOT
for n in "${sizes[@]}"; do
    printf '| %d | %s | %s | %s | %s |\n' "$n" "$(column "$work/check.$n" 1)" "$(column "$work/check.$n" 2)" \
        "$(column "$work/run.$n" 1)" "$(column "$work/run.$n" 2)"
done
printf '| goal, 1,024 hosts | 30 | | 3 | |\n\n'
machine_table "$load" "$command"
