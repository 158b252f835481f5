#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain report on records of a real run and of a bench: complete, broken and foreign ones.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

bats_require_minimum_version 1.5.0

setup_file() { make_tiny 300 64; }

setup() {
    common_setup
    records=$BATS_TEST_TMPDIR/bench.jsonl
    bench ab12 >"$records"
}

point() { # RUN TEST KEY METRICS P50 VERDICT
    printf '{"record":"bench","schema":1,"run":"%s","case":"comm","test":"%s","key":{%s},"metrics":{%s},"unit":"s",' \
        "$1" "$2" "$3" "$4"
    printf '"verdict":"%s","n":7,"per_sample":1,"n_disturbed":0,"disturbances":"","min":1e-06,"p50":%s,"p95":0.02,' "$6" "$5"
    printf '"p99":0.0324,"max":0.04,"mean":0.02,"cv":0.1,"ci95":[0.0269,0.0271],"slowest_rank":1,"slowest_share":1,'
    printf '"samples":[1,2,3,4,5,6,7]}\n'
}

head_of() { # RUN
    printf '{"record":"bench_run","schema":1,"id":"%s","time":"2026-11-21T08:00:00Z","ranks":2,"threads":1,' "$1"
    printf '"options":{},"fingerprint":{"hardware_id":"1a","fabric_id":"2b","software_id":"3c",'
    printf '"hardware":{"cpu":"A|B","cpus":2},"fabric":{"hosts":1},"software":{"git":"abc"}}}\n'
}

bench() { # RUN
    head_of "$1"
    point "$1" all_reduce '"bytes":8,"datatype":"float"' '"busbw_gbs":1.5' 0.027 ok
    point "$1" all_reduce '"bytes":8388608,"datatype":"float"' '"busbw_gbs":31.25' 0.027 inconclusive
    point "$1" broadcast '"bytes":8' '"busbw_gbs":2.5' 2.7e-05 disturbed
    printf '{"record":"bench_end","schema":1,"run":"%s","reason":"finished","n_points":3,"seconds":98.2,"recording_sec":0.1}\n' "$1"
}

@test "a bench: a table per test, constants in its caption, marks explained" {
    "$dptrain" report "$records" >"$BATS_TEST_TMPDIR/said" 2>"$BATS_TEST_TMPDIR/err"
    diff "$BATS_TEST_TMPDIR/said" - <<EOF
bench run ab12 of 2026-11-21T08:00:00Z, finished
  file      $records
  points    3 in 98.20 s
  ranks     2, threads per rank: 1
  hardware  1a: cpu A|B, cpus 2
  fabric    2b: hosts 1
  software  3c: git abc

comm all_reduce: datatype float
  bytes    p50      ± %  p99/p50  n  busbw GB/s
      8  27 ms     0.37     1.20  7       1.500
  8 MiB  27 ms  ~  0.37     1.20  7       31.25

comm broadcast: bytes 8
    p50        ± %  p99/p50  n  busbw GB/s
  27 us  !  370.37  1200.00  7       2.500

~ inconclusive: the precision (--ci) was not reached within the budget.
! disturbed: other load left too few undisturbed samples, so all samples count.
EOF
    [ ! -s "$BATS_TEST_TMPDIR/err" ]
}

@test "a training run: epochs, the phases of a step, the same figures as in the records" {
    on_ranks 2 train --data "$tiny" --threads 1 --out "$out" --batch 50 --epochs 3 >/dev/null
    "$dptrain" report "$out/metrics.jsonl" >"$BATS_TEST_TMPDIR/said"
    grep -qx '  model        lenet5, .* parameters, fp32 on cpu' "$BATS_TEST_TMPDIR/said"
    grep -qx '  ranks        2, hosts: 1, threads per rank: 1, global batch: 50' "$BATS_TEST_TMPDIR/said"
    grep -qE '^  steps        18 of 18, checkpoints: ' "$BATS_TEST_TMPDIR/said"
    # Records count epochs from 0, people from 1.
    [ "$(sed -n '/^epochs/,/^$/p' "$BATS_TEST_TMPDIR/said" | awk '$1 ~ /^[0-9]+$/ { print $1 }' | xargs)" = "1 2 3" ]
    grep -qE '^ +step +data wait +forward +backward +exposed comm +optimizer +other$' "$BATS_TEST_TMPDIR/said"
    grep -qx 'time of a step: median of 8 steps, excluding the first 10 of each process; the parts add up to it' "$BATS_TEST_TMPDIR/said"
    "$dptrain" report --format csv "$out/metrics.jsonl" | tr -d '\r' >"$BATS_TEST_TMPDIR/csv"
    diff <(awk -F , '$6 ~ /^epoch=/ && $7 == "val_loss" { printf "%.9f\n", $8 }' "$BATS_TEST_TMPDIR/csv") \
        <(jq -r 'select(.record == "epoch") | .val_loss' "$out/metrics.jsonl" | awk '{ printf "%.9f\n", $1 }')
    diff <(awk -F , '$6 == "" && $7 ~ /images_per_sec/ { printf "%s %.6f\n", $7, $8 }' "$BATS_TEST_TMPDIR/csv") \
        <(jq -r 'select(.record == "end") | ["images_per_sec", .images_per_sec], ["median_images_per_sec", .median_images_per_sec] |
            join(" ")' "$out/metrics.jsonl" | awk '{ printf "%s %.6f\n", $1, $2 }')
    # Steps that waited: samples over time, and the median beside it.
    sed 's/^\(.*"record":"end".*"images_per_sec":\)[^,]*\(,.*"median_images_per_sec":\)[^,]*/\110077\225079/' "$out/metrics.jsonl" \
        >"$BATS_TEST_TMPDIR/waited.jsonl"
    "$dptrain" report "$BATS_TEST_TMPDIR/waited.jsonl" | grep -qx '  images/s     10077 (median step: 25079)'
    "$dptrain" report html "$BATS_TEST_TMPDIR/waited.jsonl" | grep -qF '10077 (median step: 25079)'
    diff <(awk -F , '$7 == "step_sec" { printf "%.9f\n", $8 }' "$BATS_TEST_TMPDIR/csv") \
        <(jq -s '[.[] | select(.record == "step" and .step >= 10) | .step_sec] | sort | (.[3] + .[4]) / 2' \
            "$out/metrics.jsonl" | awk '{ printf "%.9f\n", $1 }')
}

@test "CSV: one row per figure, fields quoted, lines ended as in RFC 4180" {
    mv "$records" "$BATS_TEST_TMPDIR/a,\"b\".jsonl"
    cd "$BATS_TEST_TMPDIR" || return
    "$dptrain" report --format csv --out csv 'a,"b".jsonl'
    [ "$(head -n 1 csv)" = $'file,line,run,case,test,key,metric,value,unit\r' ]
    grep -qx $'"a,""b"".jsonl",3,ab12,comm,all_reduce,bytes=8388608;datatype=float,busbw_gbs,31.25,GB/s\r' csv
    grep -qx $'"a,""b"".jsonl",4,ab12,comm,broadcast,bytes=8,p50,2.7e-05,s\r' csv
    # One metric and 17 timing figures.
    [ "$(wc -l <csv)" -eq $((1 + 3 * 18)) ]
    [ "$(grep -c $'\r$' csv)" -eq $((1 + 3 * 18)) ]
}

@test "Markdown: every row has as many cells as the heading, special characters are escaped" {
    "$dptrain" report --format markdown "$records" >"$BATS_TEST_TMPDIR/md"
    grep -qx -- '- hardware: 1a: cpu A\\|B, cpus 2' "$BATS_TEST_TMPDIR/md"
    grep -qxF '| bytes | p50 |  | ± % | p99/p50 | n | busbw GB/s |' "$BATS_TEST_TMPDIR/md"
    grep -qxF '|---:|---:|---|---:|---:|---:|---:|' "$BATS_TEST_TMPDIR/md"
    grep -qxF '| 8 MiB | 27 ms | \~ | 0.37 | 1.20 | 7 | 31.25 |' "$BATS_TEST_TMPDIR/md"
}

@test "--case and --test: selected points, or a list of existing ones" {
    "$dptrain" report --test broadcast "$records" >"$BATS_TEST_TMPDIR/said"
    grep -q '^comm broadcast' "$BATS_TEST_TMPDIR/said"
    run grep -q all_reduce "$BATS_TEST_TMPDIR/said"
    [ "$status" -eq 1 ]
    "$dptrain" report --case comm "$records" | grep -q '^comm all_reduce'
    run "$dptrain" report --case com "$records"
    [ "$status" -eq 2 ]
    [[ $output == *"no point has the case 'com'; did you mean 'comm'?"* ]]
    run "$dptrain" report --case comm --test broadcats "$records"
    [ "$status" -eq 2 ]
    [[ $output == *"no point has the test 'broadcats'; did you mean 'broadcast'?"* ]]
    # The only point of a case is unusable.
    point ab12 reduce "$(seq -s, -f '"k%g":1' 65)" '' 1 ok | sed 's/"comm"/"gemm"/' >>"$records"
    for choice in '--case gemm' '--test reduce'; do
        # shellcheck disable=SC2086 # two words
        run "$dptrain" report $choice "$records"
        [ "$status" -eq 3 ]
        [[ $output == *"no usable point matches --case and --test"* ]]
    done
}

@test "--out writes the file atomically" {
    echo old >"$out"
    run "$dptrain" report --out "$out" "$BATS_TEST_TMPDIR/missing.jsonl"
    [ "$status" -eq 3 ]
    [ "$(cat "$out")" = old ]
    run "$dptrain" report --out "$out" "$records"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    diff "$out" <("$dptrain" report "$records")
    run "$dptrain" report --out "$BATS_TEST_TMPDIR" "$records"
    [ "$status" -eq 2 ]
    run "$dptrain" report --out "$BATS_TEST_TMPDIR/none/x" "$records"
    [ "$status" -eq 4 ]
    [[ $output == *"$BATS_TEST_TMPDIR/none/x"* ]]
    [ -z "$(find "$BATS_TEST_TMPDIR" -name '.*tmp*')" ]
    if [ -c /dev/full ]; then
        run bash -c '"$1" report "$2" >/dev/full' - "$dptrain" "$records"
        [ "$status" -eq 4 ]
        [[ $output == *"cannot write standard output"* ]]
    fi
}

@test "standard input, several files, and the same file twice" {
    "$dptrain" report - <"$records" | grep -qx '  file      (stdin)'
    bench cd34 >"$BATS_TEST_TMPDIR/other.jsonl"
    ln "$records" "$BATS_TEST_TMPDIR/link.jsonl"
    "$dptrain" report "$records" "$BATS_TEST_TMPDIR/other.jsonl" "$BATS_TEST_TMPDIR/link.jsonl" \
        >"$BATS_TEST_TMPDIR/said" 2>"$BATS_TEST_TMPDIR/err"
    [ "$(grep -c '^bench run' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    grep -q "link.jsonl is the same file as $records; it is read once" "$BATS_TEST_TMPDIR/err"
    # Another file with the same run.
    cp "$records" "$BATS_TEST_TMPDIR/copy.jsonl"
    "$dptrain" report "$records" "$BATS_TEST_TMPDIR/copy.jsonl" >"$BATS_TEST_TMPDIR/said" 2>"$BATS_TEST_TMPDIR/err"
    diff "$BATS_TEST_TMPDIR/said" <("$dptrain" report "$records")
    grep -q 'copy.jsonl: points left out: 3, the first in line 2: they belong to run ab12' "$BATS_TEST_TMPDIR/err"
}

@test "broken lines: the first is named, the others counted; --strict ends with 3" {
    {
        head_of ab12
        echo 'Traceback (most recent call last):'
        point ab12 all_reduce '"bytes":8' '"busbw_gbs":1.5' 0.027 ok
        echo '[1]'
        point ab12 all_reduce '"bytes":16' '"busbw_gbs":NaN' null ok
        point zz lost '' '' 0.027 ok
        echo '{"record":"bench","schema":7,"run":"ab12","case":"a","test":"b"}'
        bench ab12 | tail -n 1 | head -c 30
    } | sed 's/$/\r/' >"$records"
    "$dptrain" report "$records" >"$BATS_TEST_TMPDIR/said" 2>"$BATS_TEST_TMPDIR/err"
    grep -q "bench.jsonl: 3 lines were left out; the first is line 2: it is not JSON" "$BATS_TEST_TMPDIR/err"
    grep -q "bench.jsonl: records left out: 1, the first in line 7" "$BATS_TEST_TMPDIR/err"
    grep -qE '^ +8  27 ms +0.37 +1.20  7 +1.500$' "$BATS_TEST_TMPDIR/said"
    grep -qE '^ +16 +- +- +-  7 +-$' "$BATS_TEST_TMPDIR/said"
    grep -q 'is null or NaN (points: 1)' "$BATS_TEST_TMPDIR/said"
    grep -q '^unknown run zz' "$BATS_TEST_TMPDIR/said"
    run "$dptrain" report --strict "$records"
    [ "$status" -eq 3 ]
    [[ $output == *"4 lines were left out, which --strict forbids"* ]]
    [[ $output == *"1.500"* ]]
}

@test "--check: accepts documented records, and reports errors in others by file and line" {
    cd "$BATS_TEST_TMPDIR" || return
    "$dptrain" train --data "$tiny" --device cpu --threads 1 --model mlp --batch 8 --epochs 1 --out run >/dev/null 2>&1
    "$dptrain" bench gemm mem --quick --budget 0.01 --gemm-max 64 --mem-bytes 64K --device cpu --threads 1 --out made.jsonl >/dev/null
    "$dptrain" report --check run/metrics.jsonl made.jsonl >said
    [ "$(cat said)" = "$(cat run/metrics.jsonl made.jsonl | wc -l) records checked" ]
    # One line of each kind, each with a different error.
    {
        jq -c 'select(.record == "run") | .topology.ranks = 0' run/metrics.jsonl
        jq -c 'select(.record == "step" and .step == 0) | .step_sec = null' run/metrics.jsonl
        echo
        jq -c 'select(.record == "epoch") | del(.val_loss)' run/metrics.jsonl
        jq -c 'select(.record == "checkpoint") | .n_bytes = 1.5' run/metrics.jsonl
        jq -c 'select(.record == "end") | .more = 1' run/metrics.jsonl
        echo '{"record":"bench_end","schema":2}'
        echo '{"record":"bench_end","schema":1,"run":"a","reason":"bored","n_points":3,"seconds":1,"recording_sec":0}'
        echo '{"record":"party"}'
        echo '[]'
        echo '{"record":'
        jq -c 'select(.record == "step" and .step == 1)' run/metrics.jsonl
    } >faults.jsonl
    status=0
    "$dptrain" report --check faults.jsonl >said 2>err || status=$?
    [ "$status" -eq 3 ]
    diff said - <<'EOF'
faults.jsonl:1: run: "topology": invalid value of "ranks": expected an integer from 1
faults.jsonl:2: step: invalid value of "step_sec": expected a number from 0
faults.jsonl:4: epoch: "val_loss" is missing
faults.jsonl:5: checkpoint: invalid value of "n_bytes": expected an integer from 0
faults.jsonl:6: end: unknown field "more"
faults.jsonl:7: bench_end: invalid value of "schema": expected 1
faults.jsonl:8: bench_end: invalid value of "reason": expected one of: finished, interrupted, failed
faults.jsonl:9: unknown kind of record, "party"
faults.jsonl:10: not a record: not a JSON object
faults.jsonl:11: it is not JSON: parse error: premature EOF
11 records checked
EOF
    grep -q '10 of 11 records do not match docs/records.md' err
    run "$dptrain" report --check missing.jsonl run/metrics.jsonl
    [ "$status" -eq 3 ]
    [[ $output == *"cannot read missing.jsonl"*" records checked"* ]]
    : >empty
    run "$dptrain" report --check empty
    [ "$status" -eq 3 ]
    run "$dptrain" report --check --case comm run/metrics.jsonl
    [ "$status" -eq 2 ]
    # The JSON Schema is as strict.
    judge=("${DPTRAIN_VENV:-$root/build/venv}/bin/python" "$root/tests/cli/records_schema.py" schema.json)
    "$dptrain" report --schema --out schema.json
    "$dptrain" report --schema | diff - schema.json
    run -2 "$dptrain" report --schema run/metrics.jsonl
    run -2 "$dptrain" report --schema --check
    run -2 "$dptrain" report --schema --format csv
    "${judge[@]:0:1}" -c 'import jsonschema' || skip "no jsonschema from PyPI (scripts/install_deps.sh --test)"
    "${judge[@]}" run/metrics.jsonl made.jsonl
    grep -v '^{"record":$' faults.jsonl | grep . >whole.jsonl
    run -1 "${judge[@]}" whole.jsonl
    [ "$(cut -d : -f 2 <<<"$output" | tr '\n' ' ')" = "1 2 3 4 5 6 7 8 9 " ]
}

@test "a run folder stands for its metrics.jsonl" {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir run none
    cp "$records" run/metrics.jsonl
    diff <("$dptrain" report run/metrics.jsonl) <("$dptrain" report run)
    run -3 "$dptrain" report --check run
    [[ $output == *"run/metrics.jsonl:2: "*"5 records checked"* ]]
    run -3 "$dptrain" report none
    [[ $output == "dptrain: error: cannot read none/metrics.jsonl: No such file or directory" ]]
    run -0 "$dptrain" report run run/metrics.jsonl
    [[ $output == *"run/metrics.jsonl is the same file as run; it is read once"* ]]
}

@test "a case with a test of the same name: the title has it once; share_of_peak is headed 'of peak'" {
    { head_of ab12; point ab12 gemm '"m":8' '"share_of_peak":0.5' 0.027 ok | sed 's/"case":"comm"/"case":"gemm"/'; } >"$records"
    run -0 "$dptrain" report "$records"
    [[ $output == *$'\n''gemm: m 8'$'\n'* ]]
    [[ $output == *'of peak'* ]]
}

@test "unreadable files end with 3; other files are reported" {
    cd "$BATS_TEST_TMPDIR" || return
    : >empty
    echo hello >text
    gzip -c "$records" >packed.gz
    head -c 5000 "$dptrain" >binary
    for file in empty text packed.gz binary missing.jsonl .; do
        run "$dptrain" report "$file"
        [ "$status" -eq 3 ]
        echo "$output"
        [[ $output == *error:* ]]
        run "$dptrain" report "$file" "$records"
        [[ $output == *"comm broadcast"* ]]
        [[ $output == *"$file"* ]]
        case $file in empty | text) [ "$status" -eq 0 ] ;; *) [ "$status" -eq 3 ] ;; esac
    done
    run "$dptrain" report packed.gz
    [[ $output == *"gzip -dc FILE | dptrain report -"* ]]
    run "$dptrain" report
    [ "$status" -eq 2 ]
    run "$dptrain" report --format html "$records"
    [ "$status" -eq 2 ]
}

@test "under mpirun one rank prints, without MPI" {
    on_ranks 2 report "$records" >"$BATS_TEST_TMPDIR/said"
    diff "$BATS_TEST_TMPDIR/said" <("$dptrain" report "$records")
}

@test "Ctrl-C ends it at once" {
    mkfifo "$BATS_TEST_TMPDIR/pipe"
    # bash starts background processes with SIGINT ignored.
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$dptrain" report "$BATS_TEST_TMPDIR/pipe" &
    pid=$!
    exec 9>"$BATS_TEST_TMPDIR/pipe" # it is reading now
    kill -INT "$pid"
    status=0
    wait "$pid" || status=$?
    exec 9>&-
    [ "$status" -eq 130 ]
}

@test "escape sequences in records reach no terminal, in any format or message" {
    local e='\u001b[31mX\u009b'
    printf '%s\n' "{\"record\":\"run\",\"schema\":1,\"kind\":\"bench\",\"id\":\"ab$e\",\"time\":\"t$e\",\"hardware\":{\"cpu\":\"A$e\"}}" \
        "{\"record\":\"bench\",\"run\":\"ab$e\",\"case\":\"comm$e\",\"test\":\"t$e\",\"key\":{\"k$e\":\"8$e\"},\"unit\":\"s\",\"samples\":[1,2,3],\"n\":3,\"p50\":2,\"verdict\":\"ok$e\",\"metrics\":{\"m$e\":1}}" \
        "{\"record\":\"end\",\"run\":\"ab$e\",\"reason\":\"fin$e\"}" >"$BATS_TEST_TMPDIR/evil.jsonl"
    cd "$BATS_TEST_TMPDIR" || return
    for words in "report evil.jsonl" "report --format csv evil.jsonl" "report --format markdown evil.jsonl" \
        "report --case q evil.jsonl" "report check evil.jsonl" "report compare evil.jsonl evil.jsonl" \
        "report history evil.jsonl"; do
        # shellcheck disable=SC2086 # words
        "$dptrain" $words >said 2>&1 || true
        [ -s said ]
        run grep -nP '\x1b|\xc2\x9b' said
        echo "$words: $output"
        [ "$status" -eq 1 ]
    done
}

@test "the life of a job: faults, what followed, goodput; restarts are marked in the loss curve" {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir job
    {
        echo '{"record":"run","schema":1,"options":{"model":"mlp"},"n_steps":40,"first_step":0,"resumed_from":null}'
        for ((i = 0; i < 30; i++)); do echo "{\"record\":\"step\",\"step\":$i,\"epoch\":0,\"loss\":1,\"step_sec\":0.1}"; done
        echo '{"record":"run","schema":1,"options":{"model":"mlp"},"n_steps":40,"first_step":20,"resumed_from":"a.h5"}'
        for ((i = 20; i < 40; i++)); do echo "{\"record\":\"step\",\"step\":$i,\"epoch\":0,\"loss\":1,\"step_sec\":0.1}"; done
    } >job/metrics.jsonl
    at='"time":"2026-11-23T20:02:35Z","sec"'
    cat >job/job.jsonl <<EOF2
{"record":"job_start",$at:0.2,"schema":1,"job":"j1","place":"vm b 1","pid":7,"start_time":9,"command":["run.sh"],"restarts":2,"min_ranks":0,"wait_hosts":300,"cool_down":60,"metrics_bytes":0}
{"record":"job_ranks",$at:0.3,"start":1,"ranks":3,"hosts":["a","b"],"newest_checkpoint":-1}
{"record":"job_training",$at:2.4,"start":1,"first_step":0,"resumed_from":null,"steps_lost":null,"fault_to_step_sec":null}
{"record":"job_fault",$at:66.4,"start":1,"code":5,"what":"rank 1 on b was killed","host":"b","rank":1,"phase":"computing step 30","steps":30,"noticed_sec":65}
{"record":"job_left_out",$at:66.5,"host":"b","reason":"no answer","cool_down_sec":60}
{"record":"job_ranks",$at:67,"start":2,"ranks":2,"hosts":["a"],"newest_checkpoint":20}
{"record":"job_training",$at:69,"start":2,"first_step":20,"resumed_from":"a.h5","steps_lost":10,"fault_to_step_sec":4}
{"record":"job_end",$at:71,"code":0,"reason":"finished","restarts":1,"useful_steps":40,"useful_sec":4,"lost_steps":10,"lost_sec":1,"down_sec":4,"wall_sec":71,"goodput":0.0563}
EOF2
    "$dptrain" report job | sed -n '/^job j1/,$p' >said
    diff said - <<EOF3
job j1 of 2026-11-23T20:02:35Z, finished
  file      job/job.jsonl
  goodput   5.63 %: 0:04 of steps that were kept, in 1:11
  restarts  1, steps computed again: 10 in 1 s, without training: 4 s

what happened: at: since the start; then ranks, from step: of the next start
    at  host  rank  steps done  then ranks  from step  lost  training after  what
  1:05  b        1          30           2         20    10             4 s  rank 1 on b was killed
  1:07  b                                                                    left out: no answer

EOF3
    check_records job/job.jsonl
    sed -i 's/"goodput":0.0563/"goodput":"high"/' job/job.jsonl
    run "$dptrain" report --check job/job.jsonl
    [ "$status" -eq 3 ]
    [[ "$output" == *'job/job.jsonl:8: job_end: invalid value of "goodput"'* ]]
    "$dptrain" report html job --out job.html
    grep -q 'Faults and restarts' job.html
    grep -q 'vertical lines: where the run was resumed' job.html
    # Comparisons read recordings only.
    run "$dptrain" report compare job job
    [[ "$output" != *job.jsonl* ]]
}

@test "--check takes a time that grows with the size of a record, whatever is in it" {
    cd "$BATS_TEST_TMPDIR" || return
    # 100,000 members each: other names, equal names; of a record, and of a point's key.
    others=$(seq -s , -f '"train_%.0f":1' 100000) equals=$(yes '"train_same":1' | head -n 100000 | paste -sd ,)
    point='{"record":"bench","schema":1,"run":"1a","case":"c","test":"t","key":{%s},"metrics":{}}\n'
    {
        printf '{"record":"epoch",%s}\n' "$others"
        printf '{"record":"epoch",%s}\n' "$equals"
        # shellcheck disable=SC2059 # the format is ours
        printf "$point$point" "$others" "$equals"
        printf '{"record":"step","x":%s%s}\n' "$(printf '[%.0s' {1..100000})" "$(printf ']%.0s' {1..100000})"
    } >large.jsonl
    # A tenth of a second of CPU each; it was minutes.
    run timeout 120 "$dptrain" report --check large.jsonl
    echo "$output"
    [ "$status" -eq 3 ]
    diff <(grep '^large.jsonl' <<<"$output") - <<'EOF'
large.jsonl:1: epoch: "epoch" is missing
large.jsonl:2: epoch: "train_same" appears twice
large.jsonl:4: bench: "key": "train_same" appears twice
large.jsonl:5: it is nested deeper than 64 levels
EOF
}

# A run folder with validation accuracies by epoch.
put_run() { # FOLDER METRIC LABEL VALUES…
    local epoch=0 value
    mkdir -p "$1"
    {
        printf '{"record":"run","schema":1,"time":"2026-11-21T08:00:00Z","options":{"model":"lenet5"},"topology":{},"n_steps":20,'
        printf '"metrics":[{"name":"%s","label":"%s","unit":"fraction","better":"higher","main":true,"training":true}]}\n' "$2" "$3"
        printf '{"record":"step","step":19,"loss":0.5}\n'
        for value in "${@:4}"; do
            printf '{"record":"epoch","epoch":%d,"step":10,"val_%s":%s}\n' "$epoch" "$2" "$value"
            epoch=$((epoch + 1))
        done
        printf '{"record":"end","reason":"finished","step":20,"images_per_sec":100,"median_images_per_sec":100}\n'
    } >"$1/metrics.jsonl"
}

@test "a folder of runs: one table, best first; runs without records are named" {
    cd "$BATS_TEST_TMPDIR"
    put_run runs/good accuracy accuracy 0.5 0.9 0.8
    put_run runs/better accuracy accuracy 0.95
    put_run runs/silent accuracy accuracy null
    put_run runs/.hidden accuracy accuracy 1
    mkdir runs/started
    cp "$records" runs/bench.jsonl
    run -0 "$dptrain" report runs/
    echo "$output"
    [ "$(awk '/^  runs\// { print $1, $2, $3, $4, $5 }' <<<"$output")" = "$(printf '%s\n' 'runs/better lenet5 95.0 % 1' \
        'runs/good lenet5 90.0 % 2' 'runs/silent lenet5 - - 20')" ]
    [[ "$output" == *"best val accuracy"* && "$output" == *"without metrics.jsonl: runs/started" ]]
    # Runs of another metric stand apart, and the values have names.
    put_run runs/words map mAP 0.99
    run -0 "$dptrain" report --format markdown runs
    echo "$output"
    [ "$(sed -nE 's/^\| runs\/([a-z]+) .*/\1/p' <<<"$output" | xargs)" = "better good words silent" ]
    [[ "$output" == *"| mAP 99.0 % |"* && "$output" == *"| accuracy 95.0 % |"* ]]
    [ "$("$dptrain" report --format csv runs | cut -d , -f 1 | sort -u | grep -c '^runs/')" -eq 4 ]
    # With a run's folder beside it.
    cp -r runs/better best
    run -0 "$dptrain" report runs best
    [ "$(awk '$2 == "lenet5" { print $1 }' <<<"$output" | grep -cx 'best\|runs/[a-z]*')" -eq 5 ]
    run -2 "$dptrain" report runs "$records"
    [[ "$output" == *"$records"* ]]
    run -2 "$dptrain" report --case comm runs
    [[ "$output" == *--case* ]]
    rm -r runs/[bgsw]*/
    run -3 "$dptrain" report runs
    [[ "$output" == *runs* ]]
}
