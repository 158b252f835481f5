#!/usr/bin/env bash
# Runs one entry of the plan that scripts/test.sh made: tests/driver.sh NAME, called by prove.
# A plan's line is NAME, SECONDS and the quoted COMMAND, with tabs between. DPTRAIN_TEST_WORK holds the plan, and
# a log and a temporary folder for each entry.
set -euo pipefail

name=$1
line=$(awk -F '\t' -v name="$name" '$1 == name' "$DPTRAIN_TEST_WORK/plan")
IFS=$'\t' read -r _ seconds quoted <<<"$line"
command=()
eval "command=($quoted)"

TMPDIR=$(mktemp -d "$DPTRAIN_TEST_WORK/t.XXXXXX")
export TMPDIR
log=$DPTRAIN_TEST_WORK/logs/${name//\//__}
mkdir -p "${log%/*}"

status=0
timeout --kill-after=10 "$seconds" "${command[@]}" </dev/null 2>"$log.err" | tee "$log.out" || status=$?
[[ $status -ne 124 ]] || echo "# stopped after $seconds s" >>"$log.err"
if [[ $status -ne 0 ]] || grep -q '^not ok' "$log.out"; then
    {
        echo
        echo "# $name (exit code $status): ${command[*]}"
        grep -A 6 '^not ok' "$log.out" | head -n 60 || true
        tail -n 20 "$log.err"
    } >&2
fi
rm -rf "$TMPDIR"
exit "$status"
