#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain report history: output for synthetic recordings in each format, and exit codes.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# 14 recordings of 2 starts: allreduces of 8 bytes, which do not change, and of 8 MiB, which are 2 % slower from the 9th
# of the month on, with another MPI. Names are in reverse order. The 4th was interrupted. Recordings of another machine, each
# twice as slow as the one before, are in between.
setup_file() {
    export runs=$BATS_FILE_TMPDIR/runs
    mkdir "$runs"
    for day in {1..14}; do
        recording "$day" 1a $((day == 4)) >"$runs/suite-$((99 - day)).jsonl"
    done
    for day in {1..3}; do recording "$day" 7b 0 >"$runs/suite-5$day.jsonl"; done
}

recording() { # DAY MACHINE INTERRUPTED [DRIFT A DAY]
    # Park and Miller's generator, because awks differ in theirs.
    awk -v day="$1" -v machine="$2" -v interrupted="$3" -v drift="${4:-0}" '
    function noise() { seed = seed * 16807 % 2147483647; return 1 + 0.002 * seed / 2147483647 }
    BEGIN {
        seed = 1000003 * day
        for (start = 1; start <= 2; start++) {
            run = sprintf("%s%02d%d", machine, day, start)
            printf "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%s\",", run
            printf "\"time\":\"2026-11-%02dT10:12:0%dZ\",", day, start
            printf "\"ranks\":2,\"threads\":1,\"fingerprint\":{\"hardware_id\":\"%s\",\"fabric_id\":\"2b\",", machine
            printf "\"hardware\":{\"cpu\":\"A|B\"},\"fabric\":{\"hosts\":1},\"software\":{\"git\":\"abc%02d\",", day
            printf "\"mpi\":\"Open MPI v4.1.%d\",\"kernel\":\"6.1.0-28\"}}}\n", day < 9 ? 4 : 6
            for (bytes = 8; bytes <= 8388608; bytes *= 1048576) {
                sec = (bytes == 8 ? 1e-6 : 3e-3) * noise()
                if (bytes > 8 && day >= 9) sec *= 1.02
                if (machine != "1a") sec *= 2 ^ day
                if (bytes > 8) sec *= 1 + drift * day
                printf "{\"record\":\"bench\",\"schema\":1,\"run\":\"%s\",\"case\":\"comm\",", run
                printf "\"test\":\"all_reduce\",\"key\":{\"bytes\":%d,\"datatype\":\"float\"},", bytes
                printf "\"metrics\":{},\"unit\":\"s\",\"verdict\":\"ok\","
                printf "\"p50\":%.9g,\"clock_sec\":%.9g}\n", sec, 1e-3 * noise()
            }
            if (interrupted && start == 2) continue
            printf "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%s\",\"reason\":\"finished\",\"n_points\":2}\n", run
        }
    }'
}

setup() {
    common_setup
    said=$BATS_TEST_TMPDIR/said
    err=$BATS_TEST_TMPDIR/err
}

history() { # ARGUMENTS...
    "$dptrain" report history "$@" >"$said" 2>"$err"
}

fails() { # CODE ARGUMENTS...
    local status=0
    history "${@:2}" || status=$?
    [ "$status" -eq "$1" ] || { echo "exit code $status, not $1" && return 1; }
}

@test "a change: its date, its size, the revisions and the software on both sides" {
    history "$runs"
    [ ! -s "$err" ]
    sed -n '/^Changed between/,/^Metrics:/p' "$said" | sed '$d' >"$said.change"
    sed -E 's/ +0\.[0-9]+$/ P/' "$said.change" | diff - <(cat <<END
Changed between 2026-11-08 10:12 (abc08) and 2026-11-09 10:12 (abc09)
  software  different revision; also changed:
  mpi       Open MPI v4.1.4 → Open MPI v4.1.6

Metrics that changed: levels before and after
  metric                         before     after         change      p
  comm all_reduce bytes 8 MiB  3.003 ms  3.063 ms  +2.0 % slower P

END
    )
    LC_ALL=C.UTF-8 grep -qE '^  comm all_reduce bytes 8 MiB +[▁▂▃]{3}·[▁▂▃]{4}[▆▇█]{6} .* 3\.06. ms .* 13 +\+2\.0 %$' "$said"
    grep -qx 'Metrics: 3; with a change: 1, without: 2, in 13 recordings over 13.0 days.' "$said"
}

@test "separate groups and omissions are reported; no line is too wide; the same bytes for any order of files" {
    history "$runs"
    [ "$(grep -c '^History$' "$said")" -eq 2 ]
    grep -qx '  hardware     1a: cpu A|B' "$said"
    grep -qx '  hardware    7b: cpu A|B' "$said"
    grep -qx '  recordings   14 (starts: 28), 2026-11-01 10:12 to 2026-11-14 10:12, 13.0 days' "$said"
    grep -qx "  interrupted  1, the newest $runs/suite-95.jsonl" "$said"
    grep -qx 'Metrics with too few recordings: 3; a change point needs 6 undisturbed values, 3 on .*' "$said"
    grep -qx 'Each combination of hardware, fabric, ranks and threads has its own history.' "$said"
    LC_ALL=C awk '{ gsub(/[\200-\277]/, "") } length > 110 && !/interrupted/ { exit 1 }' "$said"
    mv "$said" "$said.1"
    mapfile -t backwards < <(printf '%s\n' "$runs"/*.jsonl | sort -r)
    history "${backwards[@]}"
    diff "$said.1" "$said"
    history "$runs" "$runs/suite-98.jsonl"
    grep -q '^Left out: recordings named twice or .*: 1, the first in ' "$said"
    cp "$runs/suite-98.jsonl" "$BATS_TEST_TMPDIR/suite-98.partial.jsonl"
    fails 3 "$BATS_TEST_TMPDIR/suite-98.partial.jsonl"
    grep -q 'found 1, of which 1 interrupted$' "$err"
}

@test "JSON and CSV contain recordings, values, levels and changes; files are written atomically" {
    local json=$BATS_TEST_TMPDIR/a.json
    history --format json --out "$json" "$runs"
    [ ! -s "$said" ]
    jq -e '.record == "history" and .options == {"min_effect": 0.01, "alpha": 0.01, "last": 0}' "$json"
    jq -e '.groups | length == 2 and .[0].hardware_id == "1a" and (.[0].recordings | length) == 14' "$json"
    jq -e '.groups[0] as $g | $g.metrics[1] | .key == "bytes=8388608;datatype=float" and (.values | length) == 13
        and (.changes | length) == 1 and (.changes[0] | $g.recordings[.before].git == "abc08"
            and $g.recordings[.after].git == "abc09" and .ratio > 1.018 and .ratio < 1.022 and .p <= .q and .q <= 0.01
            and .software == {"mpi": ["Open MPI v4.1.4", "Open MPI v4.1.6"]})' "$json"
    jq -e '.groups[0].recordings[3] | .complete == false and .starts == 2' "$json"
    history --format csv --case comm "$runs"
    tr -d '\r' <"$said" | awk -F , 'NR == 1 { if ($18 != "change_ratio") exit 1 } NF != 18 { exit 1 }
        $10 ~ /^bytes=8388608/ && $18 { if ($5 != "2026-11-09T10:12:01Z") exit 1; n++ } END { exit n != 1 || NR != 33 }'
    history --format markdown --test all_reduce "$runs"
    grep -qE '^\| comm all\\?_reduce bytes 8 MiB \| 3\.003 ms \| 3\.063 ms \| \+2\.0 % slower \| [0-9.]+ \|$' "$said"
}

@test "a drift is no change: its size, over how many recordings, and no date" {
    mkdir "$BATS_TEST_TMPDIR/drift"
    for day in {1..8}; do
        recording "$day" 1a 0 0.005 >"$BATS_TEST_TMPDIR/drift/$day.jsonl"
        # Without the step of the 9th.
        recording "$((day + 8))" 1a 0 0.005 | awk '/8388608/ && match($0, /"p50":[^,]*/) {
            sec = substr($0, RSTART + 6, RLENGTH - 6) / 1.02
            $0 = substr($0, 1, RSTART + 5) sprintf("%.9g", sec) substr($0, RSTART + RLENGTH)
        } { print }' >"$BATS_TEST_TMPDIR/drift/$((day + 8)).jsonl"
    done
    history "$BATS_TEST_TMPDIR/drift"
    cat "$said"
    run grep Changed "$said"
    [ "$status" -eq 1 ]
    grep -qE '^  comm all_reduce bytes 8 MiB  \+7\.[0-9] % slower over 16 recordings, no single date' "$said"
    grep -q '^Metrics: 3; with a change: 0, with a drift: 1, without: 2' "$said"
    history --format json "$BATS_TEST_TMPDIR/drift"
    jq -e '.groups[0].metrics[1] | .changes == [] and .drift.first == 0 and .drift.last == 15 and .drift.to_sec > .drift.from_sec' "$said"
    fails 1 --fail-on-change 3 "$BATS_TEST_TMPDIR/drift"
    "$dptrain" report html --out "$BATS_TEST_TMPDIR/page.html" --history "$BATS_TEST_TMPDIR/drift"
    grep -q 'Drift: +7\.[0-9] % over 16 recordings, no single date' "$BATS_TEST_TMPDIR/page.html"
    grep -q 'No change of 1 % or more' "$BATS_TEST_TMPDIR/page.html"
}

@test "options select metrics and changes" {
    history --last 5 "$runs"
    grep -qx '  recordings  5 (starts: 10), 2026-11-10 10:12 to 2026-11-14 10:12, 4.0 days' "$said"
    run grep Changed "$said"
    [ "$status" -eq 1 ]
    history --min-effect 3% "$runs"
    run grep Changed "$said"
    [ "$status" -eq 1 ]
    history --fail-on-change 5 "$runs"
    fails 1 --fail-on-change 6 "$runs"
    grep -q '^Changed between' "$said"
    grep -q '1 metric became slower within the newest 6 recordings$' "$err"
    history --fail-on-change 3 "$runs"
    # 5 recordings show no change point.
    fails 6 --fail-on-change 3 --last 5 "$runs"
    grep -q 'nothing was decided: a change needs 6 undisturbed recordings' "$err"
    history --fail-on-change 3 --last 5 --allow-inconclusive "$runs"
    history --last 5 "$runs"
    for few in 1 2; do
        fails 2 --fail-on-change "$few" "$runs"
        grep -q 'invalid --fail-on-change' "$err"
    done
}

@test "exit codes: 2 for usage errors, 3 for bad input" {
    fails 2
    grep -q 'expected a folder of recordings' "$err"
    fails 2 --min-effect x "$runs"
    fails 2 --case gem "$runs"
    grep -q "no point of the recordings has the case 'gem'" "$err"
    mkdir "$BATS_TEST_TMPDIR/none"
    fails 3 "$BATS_TEST_TMPDIR/none"
    grep -q 'no recording (\*.jsonl)' "$err"
    fails 3 "$BATS_TEST_TMPDIR/nowhere"
    printf '{"record":"bench_run","schema":9}\n{"record":"ben' >"$BATS_TEST_TMPDIR/none/a.jsonl"
    fails 3 "$BATS_TEST_TMPDIR/none"
    fails 3 "$runs" "$BATS_TEST_TMPDIR/nowhere"
    grep -q '^Changed between' "$said"
    history "$runs" "$BATS_TEST_TMPDIR/none"
    grep -qx "Left out: records whose schema is newer than this dptrain reads: 1, the first in .*/a.jsonl." "$said"
}
