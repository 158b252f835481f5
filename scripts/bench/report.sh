#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the speed of dptrain report, and prints results/report.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/report.sh [options]

Measures time and memory of dptrain report on a gigabyte of generated records, by format and number of threads, and
prints a Markdown page.

  --folder DIR  folder for the records [a temporary folder]
  --quick       use only 100 MB
  --runs N      runs of each; the median counts [5]
  -h, --help    show this help
EOT
}

command="scripts/bench/report.sh${*:+ $*}"
folder='' mb=1000 runs=5
while [[ $# -gt 0 ]]; do
    case $1 in
    --folder) need_value "$@"; folder=$(folder_option "$1" "$2"); shift 2 ;;
    --quick) mb=100; shift ;;
    --runs) need_value "$@"; whole_number "$1" "$2" 1; runs=$((10#$2)); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/report >&2 || die 4 "the build failed"
make_work report "$folder"
build/scripts/bench/report "$mb" "$work/records.jsonl" || die 4 "cannot generate the records"

# Prints the seconds of one report; writes its peak memory in KiB to $work/peak.
one_run() { # THREADS FORMAT
    local start end status=0
    start=$(date +%s%N)
    # perl reads VmHWM, the kernel's figure for the process, which needs no GNU time.
    OMP_NUM_THREADS=$1 perl -e '
        use strict; use warnings;
        my $pid = fork() // exit 4;
        if ($pid == 0) { open STDOUT, ">", "/dev/null"; exec @ARGV or exit 4 }
        my $peak = 0;
        while (waitpid($pid, 1) == 0) {
            if (open my $f, "<", "/proc/$pid/status") { while (<$f>) { $peak = $1 if /^VmHWM:\s+(\d+)/ && $1 > $peak } }
            select undef, undef, undef, 0.005;
        }
        print STDERR "$peak\n"; exit $? >> 8' \
        ./dptrain report --format "$2" "$work/records.jsonl" 2>"$work/peak" || status=$?
    end=$(date +%s%N)
    [[ $status -eq 0 ]] || die 4 "dptrain report failed: $(cat "$work/peak")"
    awk -v ns=$((end - start)) 'BEGIN { printf "%.3f\n", ns / 1e9 }'
}

row() { # THREADS FORMAT
    local i sec=() peak=0 now
    for ((i = 0; i < runs; i++)); do
        sec+=("$(one_run "$1" "$2")")
        now=$(cat "$work/peak")
        peak=$((now > peak ? now : peak))
    done
    printf '%s\n' "${sec[@]}" | sort -n | awk -v threads="$1" -v format="$2" -v peak="$peak" -v bytes="$bytes" '
        { s[NR] = $1 }
        END {
            median = NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2
            printf "| %d | %s | %.2f | %.2f–%.2f | %.0f | %.1f | %.0f |\n", threads, format, median, s[1], s[NR],
                bytes / median / 1e6, 1e9 / (bytes / median), peak / 1024
        }'
}

load=$(cut -d ' ' -f 1-3 /proc/loadavg)
bytes=$(stat -c %s "$work/records.jsonl")
points=$(grep -c '^{"record":"bench",' "$work/records.jsonl")
cat "$work/records.jsonl" >/dev/null # into the page cache, like records that were just written
threads=$(nproc)
if ((threads > 8)); then threads=8; fi
table=$(
    if ((threads > 1)); then row "$threads" table; fi
    row 1 table
    row "$threads" csv
)

cat <<EOT
# Speed of \`dptrain report\`

| threads | format | s, median of $runs | min–max | MB/s | s per GB | peak memory, MiB |
|---:|---|---:|---:|---:|---:|---:|
$table

- $(awk -v b="$bytes" 'BEGIN { printf "%.0f MB", b / 1e6 }') of records, $points points of 100 to 2000 samples
  each (\`scripts/bench/report.c\`), in the page cache. The time is that of the whole process, including output to /dev/null.
- Target: 10 s per GB. Peak memory is \`VmHWM\`. It grows with the number of points, of which the report keeps the figures, but
  not with the number of samples.

$(machine_table "$load" "$command")
EOT
