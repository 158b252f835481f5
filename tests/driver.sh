#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs one entry of the plan made by scripts/test.sh, tests/driver.sh NAME, and judges its TAP output. A line of the plan has
# NAME, SECONDS and the quoted COMMAND, separated by tabs. DPTRAIN_TEST_WORK contains the plan, a log and a temporary folder
# for each entry, and `verdicts`: a line of VERDICT, number of checks without the skipped ones, seconds and NAME each, separated
# by tabs; of an earlier run, `times`: NAME and seconds of all entries, divided by the number that run at once.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "${BASH_SOURCE[0]%/*}/../scripts/lib.sh"

name=$1
line=$(awk -F '\t' -v name="$name" '$1 == name' "$DPTRAIN_TEST_WORK/plan")
IFS=$'\t' read -r _ seconds quoted <<<"$line"
command=()
eval "command=($quoted)"

TMPDIR=$(mktemp -d "$DPTRAIN_TEST_WORK/t.XXXXXX")
export TMPDIR
hold_sessions
log=$DPTRAIN_TEST_WORK/logs/${name//\//__}
mkdir -p "${log%/*}"
[[ ! -t 2 ]] || printf '\r\033[K%s …\r' "$name" >&2

# timeout has a process group of its own, which a signal to the driver's does not reach.
# shellcheck disable=SC2317 # the traps call it
stop() {
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
    rm -rf "$TMPDIR"
    exit 130
}
status=0 begin=${EPOCHREALTIME/./}
# Without job control, SIGINT would be ignored in the background, and in all that the test starts.
set -m
timeout --kill-after=10 "$seconds" "${command[@]}" </dev/null >"$log.out" 2>"$log.err" &
pid=$!
set +m
trap stop INT TERM HUP
wait "$pid" || status=$?
ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
times >"$log.times"
[[ $status -ne 137 || $ms -lt ${seconds}000 ]] || status=124

# Prints the number of checks that ran, that of skipped ones, and `ok`, `skipped: REASON` or what is wrong.
judge() {
    awk -v status="$status" -v seconds="$seconds" '
        function check(number) {
            n++
            if (number ~ /^[0-9]+$/ && number + 0 != n) disorder = 1
            if ($1 == "ok" && match(tolower($0), /# *skip */)) { skips++; if (skips == 1) why = substr($0, RSTART + RLENGTH) }
        }
        /^1\.\.[0-9]+/ && !planned { planned = 1; plan = substr($1, 4) + 0; if (match(tolower($0), /# *skip */)) why = substr($0, RSTART + RLENGTH) }
        /^ok( |$)/ { check($2) }
        /^not ok( |$)/ { check($3); bad++ }
        /^Bail out!/ { bail = 1 }
        END {
            printf "%d %d ", n - skips, skips
            if (status == 124) print "stopped after " seconds " s"
            else if (bail) print "bailed out"
            else if (planned && plan == 0 && (n || status)) print "skipped, but " (n ? "checks ran" : "the exit code is " status)
            else if (bad) print bad " of " plan " checks failed"
            else if (status) print "exit code " status
            else if (!planned) print "no plan"
            else if (n != plan) print n " of " plan " checks ran"
            else if (disorder) print "checks are out of order"
            else if (skips == n) print "skipped: " (why == "" ? "no reason given" : why)
            else print "ok"
        }' "$log.out"
}
seconds_taken=$((ms / 1000)).$((ms / 100 % 10))
read -r n_checks n_skipped verdict < <(judge)
printf '%s\t%s\t%s\t%s\n' "$verdict" "$n_checks" "$seconds_taken" "$name" >>"$DPTRAIN_TEST_WORK/verdicts"

# Prints the place of the entry among those that ended, or the time left, if an earlier run tells.
progress() { # place|left
    local known=$DPTRAIN_TEST_WORK/times
    [[ -e $known ]] || known=/dev/null
    awk -F '\t' -v name="$name" -v what="$1" '
        file == "plan" { n++ }
        file == "times" { sec[$1] = $2; left += $2 }
        file == "verdicts" { left -= sec[$4]; ended++; if ($4 == name) place = ended }
        END {
            if (what == "place") print place " of " n
            else if (left >= 0.5 && ended < n) printf ", %.0f %s left", left < 90 ? left : left / 60, left < 90 ? "s" : "min"
        }' file=plan "$DPTRAIN_TEST_WORK/plan" file=times "$known" file=verdicts "$DPTRAIN_TEST_WORK/verdicts"
}
dots=........................................................
skipped=''
((n_skipped == 0 || n_checks == 0)) || skipped=" ($n_skipped of $((n_checks + n_skipped)) checks skipped)"
printf '[%(%H:%M:%S)T] %s  %s %s %s%s  %s s, %s s of CPU%s\n' -1 "$(progress place)" "$name" "${dots:${#name} < 52 ? ${#name} : 52}" \
    "$verdict" "$skipped" "$seconds_taken" "$(awk -F '[ms ]+' 'END { printf "%.1f", 60 * ($1 + $3) + $2 + $4 }' "$log.times")" \
    "$(progress left)"
rm -rf "$TMPDIR" "$log.times"
if [[ $verdict == ok || $verdict == skipped:* ]]; then exit 0; fi
{
    printf '\n# %s: %s: %s\n' "$name" "$verdict" "${command[*]}"
    # Each failed check with the first and the last lines of what it printed.
    awk 'function rest() { for (i = n > 15 ? n - 15 : 0; i < n; i++) print said[i]; n = m = 0 }
         !/^#/ { rest(); failed = /^not ok/ }
         failed && m++ < 6 { print; next }
         failed { said[n++] = $0 }
         END { rest() }' "$log.out" | head -n 120
    tail -n 20 "$log.err"
} >"$log.why"
# At once, so that entries which fail at the same time do not mix.
cat "$log.why" >&2
rm "$log.why"
exit 1
