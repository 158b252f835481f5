#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs one entry of the plan made by scripts/test.sh: tests/driver.sh NAME, called by prove. A line of the plan has NAME,
# SECONDS and the quoted COMMAND, separated by tabs. DPTRAIN_TEST_WORK contains the plan, and a log and a temporary folder
# for each entry.
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
timeout --kill-after=10 "$seconds" "${command[@]}" </dev/null >"$log.out" 2>"$log.err" || status=$?
# prove treats a plan of 0 as skipped, regardless of the rest.
if grep -q '^1\.\.0' "$log.out" && { [[ $status -ne 0 ]] || grep -qE '^(not )?ok\b' "$log.out"; }; then
    sed -i 's/^/# /' "$log.out"
    printf '1..1\nnot ok 1 - skipped, but checks ran or the exit code was not 0 (%s)\n' "$status" >>"$log.out"
    [[ $status -ne 0 ]] || status=1
fi
cat "$log.out"
[[ $status -ne 124 ]] || echo "# stopped after $seconds s" >>"$log.err"
if [[ $status -ne 0 ]] || grep -q '^not ok' "$log.out"; then
    {
        echo
        echo "# $name (exit code $status): ${command[*]}"
        # Each failed check with the first and the last lines of what it printed.
        awk 'function rest() { for (i = n > 15 ? n - 15 : 0; i < n; i++) print said[i]; n = m = 0 }
             !/^#/ { rest(); failed = /^not ok/ }
             failed && m++ < 6 { print; next }
             failed { said[n++] = $0 }
             END { rest() }' "$log.out" | head -n 120
        tail -n 20 "$log.err"
    } >&2
fi
rm -rf "$TMPDIR"
exit "$status"
