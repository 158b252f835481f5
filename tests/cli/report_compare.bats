#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain report compare: exit codes, output formats, and messages for recordings that it cannot compare.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return
    recording a >base.jsonl
}

# A recording of six starts: gemm, and a step with two parts. Settings: start=N gemm=SEC backward=SEC cpu=NAME id=ID git=HASH
# why=WORD n=STARTS
recording() { # ID [SETTING=VALUE…]
    local id=$1
    shift
    awk -v id="$id" -v n=6 -v gemm=0.001 -v backward=0.008 -v cpu=A -v hardware=1a -v git=abc -v why=finished \
        "${@/#/-v}" '
        # The same numbers on every machine: a sum of uniforms from a generator in awk.
        function uniform() { state = (state * 16807) % 2147483647; return state / 2147483647 }
        function noise(  sum, i) { sum = -6; for (i = 0; i < 12; i++) sum += uniform(); return sum }
        function point(case_name, test, first, second,   i, k, level, a, b, whole, forward, back) {
            level = 1 + 0.003 * noise()
            for (i = 0; i < 40; i++) {
                a = first * level * (1 + 0.01 * noise()); b = second * level * (1 + 0.01 * noise())
                whole = whole (i ? "," : "") a + b; forward = forward (i ? "," : "") a; back = back (i ? "," : "") b
            }
            printf "{\"record\":\"bench\",\"schema\":1,\"run\":\"%s%d\",\"case\":\"%s\",\"test\":\"%s\",", id, s, case_name, test
            printf "\"key\":{\"ranks\":2},\"metrics\":{},\"unit\":\"s\",\"verdict\":\"ok\",\"n\":40,\"p50\":%s,", first + second
            printf "\"batch_n\":[4,4,4,4,4,4,4,4,4,4],\"samples\":[%s]", whole
            if (second) printf ",\"forward_samples\":[%s],\"backward_samples\":[%s]", forward, back
            print "}"
        }
        BEGIN {
            OFMT = CONVFMT = "%.10g"
            for (s = 0; s < n; s++) {
                state = 1000 * (1 + index("abcdef", substr(id, 1, 1))) + 17 * s + 1
                printf "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%s%d\",\"time\":\"2026-11-21T08:0%d:00Z\",", id, s, s
                printf "\"ranks\":2,\"threads\":1,\"options\":{},\"fingerprint\":{\"hardware_id\":\"%s\",\"fabric_id\":\"2b\",", hardware
                printf "\"software_id\":\"3c\",\"hardware\":{\"cpu\":\"%s\"},\"fabric\":{\"hosts\":1},", cpu
                printf "\"software\":{\"git\":\"%s\"}}}\n", git
                point("gemm", "gemm", gemm, 0)
                point("step", "weak", 0.004, backward)
                printf "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%s%d\",\"reason\":\"%s\",\"n_points\":2}\n", id, s, why
            }
        }'
}

compare() { # WANTED CODE, ARGUMENTS…   Into said and err. Recordings do not differ by more than their starts.
    local wanted=$1
    shift
    compare_days "$wanted" --recording-spread 0 "$@"
}

compare_days() { # WANTED CODE, ARGUMENTS…   With the usual variation between recordings.
    local wanted=$1 code=0
    shift
    "$dptrain" report compare "$@" >said 2>err || code=$?
    cat said err
    [ "$code" -eq "$wanted" ]
}

@test "exit code 0 if nothing is worse, otherwise 1, with the table on stdout and one sentence on stderr" {
    recording b >same.jsonl
    compare 0 base.jsonl same.jsonl
    [ ! -s err ]
    [ "$(tail -n 1 said)" = "0 worse, 0 better, 2 same, 0 inconclusive" ]
    recording b backward=0.009 git=def >worse.jsonl
    compare 1 base.jsonl worse.jsonl
    [ "$(wc -l <err)" -eq 1 ]
    grep -qE '^dptrain: error: 1 of 2 metrics is worse: step weak \+[78]\.[0-9] %$' err
    grep -qE '^  step weak  12\.[0-9]+ ms  1[23]\.[0-9]+ ms  \+[78]\.[0-9] % .* < 0\.0001  worse$' said
    grep -qE '^  gemm +998\.[0-9] us .* same$' said
    grep -qE '^  step weak  \+[78]\.[0-9] %, of which backward \+[0-9]+ %, [-+a-z0-9 ,%]+$' said
    grep -qxF 'software: git: "abc" → "def"' said
    tail -n 1 said | grep -qE '^1 worse, 0 better, 1 same, 0 inconclusive; worse: step weak \+[78]\.[0-9] % in backward$'
    grep -qxF '  base     base.jsonl: 6 runs, 2026-11-21T08:00:00Z to 2026-11-21T08:05:00Z, git abc' said
    # On a terminal of 100 columns.
    [ "$(wc -L <said)" -le 100 ]
    compare 0 worse.jsonl base.jsonl
    grep -q '^0 worse, 1 better' said
    compare 0 --min-effect 10% base.jsonl worse.jsonl
    compare 1 --min-effect 0.05 base.jsonl worse.jsonl
}

@test "a comparison that decides nothing: code 6, and its last line says so; --allow-inconclusive gives 0" {
    recording b n=1 >one.jsonl
    compare 6 base.jsonl one.jsonl
    [ "$(tail -n 1 said)" = "0 worse, 0 better, 0 same, 2 inconclusive: nothing was decided" ]
    [ "$(wc -l <err)" -eq 1 ]
    grep -q '^dptrain: error: nothing was decided: 2 of 2 metrics are inconclusive; record more starts' err
    compare 0 --allow-inconclusive base.jsonl one.jsonl
    [ ! -s err ]
    [ "$(tail -n 1 said)" = "0 worse, 0 better, 0 same, 2 inconclusive: nothing was decided" ]
    # One that is worse decides, and so does half of the metrics.
    recording b backward=0.009 >worse.jsonl
    compare 1 --allow-inconclusive base.jsonl worse.jsonl
    recording b n=6 >half.jsonl
    sed -i '/b[1-5]/{/"gemm"/d}' half.jsonl
    compare 0 base.jsonl half.jsonl
    [ "$(tail -n 1 said)" = "0 worse, 0 better, 1 same, 1 inconclusive" ]
}

@test "one recording: their variation is assumed and said; three are measured, or a history tells" {
    recording b backward=0.009 >worse.jsonl
    compare_days 6 base.jsonl worse.jsonl
    grep -q '^  variation  recordings are assumed to differ by 2.00 %' said
    grep -q 'variation between recordings is assumed' said
    recording b backward=0.012 >much.jsonl
    compare_days 1 base.jsonl much.jsonl
    mkdir three
    recording a >three/1.jsonl
    recording c >three/2.jsonl
    recording d >three/3.jsonl
    compare_days 1 three worse.jsonl
    grep -q '^  variation  recordings differ by 0\.' said
    compare_days 1 --format json three worse.jsonl
    jq -e '.base.recordings == 3 and (.metrics[1] | .recording_spread_source == "measured" and .verdict == "worse"
        and .detectable > 0.03 and .detectable < 0.07)' said
    # A history that holds the new recording as well: it is left out.
    recording e >three/4.jsonl
    cp worse.jsonl three/5.jsonl
    sed -i 's/"p50":0.012,/"p50":0.01205,/' three/4.jsonl
    compare_days 1 --history three --format json base.jsonl worse.jsonl
    jq -e '.metrics[1] | .recording_spread_source == "measured" and .recording_spread > 0
        and .recording_spread < 0.01' said
    compare_days 3 --history missing base.jsonl worse.jsonl
    grep -q missing err
    mkdir none
    compare_days 3 --history none base.jsonl worse.jsonl
    # What cannot be read of a history is left out.
    ln -s nowhere three/6.jsonl
    compare_days 1 --history three base.jsonl worse.jsonl
    grep -q 6.jsonl err
    "$dptrain" report html --out page.html --base base.jsonl --history none worse.jsonl || [ $? -eq 3 ]
    grep -q verdicts page.html
}

@test "metrics that must decide: code 6 names the one that did not; or that nobody measured" {
    recording b n=6 >half.jsonl
    sed -i '/b[1-5]/{/"gemm"/d}' half.jsonl
    compare 0 base.jsonl half.jsonl
    compare 0 --must-decide step base.jsonl half.jsonl
    compare 6 --must-decide step/weak,gemm base.jsonl half.jsonl
    grep -q 'gemm must be decided' err
    compare 6 --fail-on-inconclusive base.jsonl half.jsonl
    grep -q '1 of 2 metrics is inconclusive' err
    compare 0 --allow-inconclusive --must-decide gemm base.jsonl half.jsonl
    compare 2 --allow-inconclusive --fail-on-inconclusive base.jsonl half.jsonl
    compare 6 --must-decide step,conv base.jsonl half.jsonl
    grep -q 'conv must be decided' err
    compare 6 --must-decide step/we base.jsonl half.jsonl
    # What is worse is worse first.
    recording b n=6 backward=0.009 >half.jsonl
    sed -i '/b[1-5]/{/"gemm"/d}' half.jsonl
    compare 1 --must-decide gemm base.jsonl half.jsonl
}

@test "the same files give the same bytes; a recording is the same as itself" {
    recording b gemm=0.0013 >new.jsonl
    for format in table markdown json; do
        compare 1 --format "$format" base.jsonl new.jsonl
        cp said first
        compare 1 --format "$format" --out "$out" base.jsonl new.jsonl
        [ ! -s said ]
        cmp first "$out"
    done
    cp base.jsonl copy.jsonl
    compare 0 base.jsonl copy.jsonl
    grep -qE '^  gemm .* 0\.0 % +0\.0 … 0\.0 % +0\.0 % +1\.0000  same$' said
    grep -qx 'both recordings hold the same runs' said
}

@test "JSON: one object with the fields of docs/records.md" {
    recording b backward=0.009 >new.jsonl
    compare 1 --format json base.jsonl new.jsonl
    [ "$(wc -l <said)" -eq 1 ]
    jq -e '.record == "comparison" and .schema == 1 and .verdict == "worse" and .decided
        and .n == {"same":1,"better":0,"worse":1,"inconclusive":0} and .notes == []
        and .options == {"min_effect":0.03,"alpha":0.01,"recording_spread":0,"force":false,"resamples":2000,"seed":1,
            "must_decide":null}
        and .base == {"files":["base.jsonl"],"recordings":1,"runs":6,"runs_excluded":0,"first":"2026-11-21T08:00:00Z",
            "last":"2026-11-21T08:05:00Z","git":"abc"}' said
    jq -e '.metrics | length == 2 and (.[0] | .case == "gemm" and .key == "ranks=2" and .verdict == "same" and .parts == []
        and .attributed_to == null)' said
    jq -e '.metrics[1] | .label == "step weak" and .reason == null and .tested and (.interleaved | not) and .q <= 0.01 and .low > 1
        and .low < .ratio and .ratio < .high and .starts == [6, 6] and .samples == [240, 240] and .attributed_to == "backward"
        and ([.parts[].name] == ["forward", "backward", "other"]) and .parts[1].share > 0.8' said
    # The parts add up to the step, on both sides and in what changed.
    jq -e '.metrics[1] | . as $m | def near($x): (. / $x - 1 | fabs) < 1e-9; (.parts | map(.share) | add | near(1))
        and (.parts | map(.base_sec) | add | near($m.base_sec)) and (.parts | map(.new_sec) | add | near($m.new_sec))' said
    check_records said
    recording c n=1 >one.jsonl
    compare 6 --format json base.jsonl one.jsonl
    jq -e '.verdict == "inconclusive" and .decided == false and (.metrics[1] | .start_spread_assumed and (.reason | startswith("one start on a side"))
        and .starts == [6, 1] and .attributed_to == null)' said
}

@test "Markdown: every row has as many cells as the heading" {
    recording b gemm=0.0011 >new.jsonl
    compare 1 --format markdown base.jsonl new.jsonl
    [ "$(grep '^|' said | tr -cd '|\n' | sort -u)" = "|||||||||" ]
    grep -qxF '| metric | base | new | change | interval | fastest | q | verdict |' said
    grep -qx '## comparison of base.jsonl with new.jsonl' said
}

@test "another machine is rejected with 3, field by field; --force compares with a note" {
    recording b hardware=9f cpu=B >other.jsonl
    compare 3 base.jsonl other.jsonl
    [ ! -s said ]
    grep -qF 'cpu: "A" → "B"; --force compares them anyway' err
    compare 0 --force base.jsonl other.jsonl
    grep -qxF 'compared by --force: cpu: "A" → "B"' said
}

# Of a training run of 40 steps.
training() { # MORE MEMBERS OF THE RECORD run
    printf '{"record":"run","schema":1,"time":"2026-11-28T08:00:00Z","options":{"model":"mlp"},"topology":{"ranks":1,"threads":1},'
    printf '"global_batch":8,"n_steps":40,"first_step":0,"resumed_from":null%s}\n' "$1"
    for ((i = 0; i < 40; i++)); do printf '{"record":"step","step":%d,"epoch":0,"loss":1,"step_sec":0.0%d}\n' "$i" $((10 + i % 3)); done
    printf '{"record":"end","reason":"finished","step":40}\n'
}

@test "training on another generation of CPU is rejected, too; without a record of the hardware there is a note" {
    cd "$BATS_TEST_TMPDIR" || return
    for model in 1 17; do
        training ',"hardware_id":"'"$model"'","hardware":{"cpu":"AMD EPYC","cpu_type":"AuthenticAMD family 25 model '"$model"'"}' \
            >model-$model.jsonl
    done
    training '' >old.jsonl
    run "$dptrain" report compare model-1.jsonl model-17.jsonl
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *'cpu_type: "'*'model 1" → "'*'model 17"'* && $output != *'cpu: '* ]]
    run "$dptrain" report compare model-1.jsonl model-1.jsonl
    [ "$status" -eq 0 ]
    [[ $output != *hardware* ]]
    run "$dptrain" report compare old.jsonl model-1.jsonl
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"did not record the hardware"* ]]
    "$dptrain" report model-17.jsonl | grep -q '^  hardware .*cpu_type AuthenticAMD family 25 model 17$'
}

@test "a folder is several recordings; incomplete runs are left out, or rejected" {
    mkdir new
    recording b n=4 >new/1.jsonl
    recording c n=4 | sed '/c3/d' >new/2.jsonl
    recording d n=1 why=interrupted >new/3.jsonl
    recording e n=2 | head -c 5000 >new/4.jsonl
    echo 'no record' >new/notes.txt
    compare 0 base.jsonl new
    grep -qE '^  new +new/1.jsonl and 3 more files: 3 recordings, 8 runs,' said
    grep -q '^new: incomplete runs left out: d0 (interrupted), e1 (no end record)$' said
    grep -q '^new/4.jsonl: lines left out: 1, the first in line [0-9]*: truncated' said
    grep -q '4.jsonl: line [0-9]* was left out: truncated' err
    compare 3 base.jsonl new/3.jsonl
    grep -qF 'new/3.jsonl: no complete run to compare; left out: d0 (interrupted)' err
    : >empty.jsonl
    compare 3 empty.jsonl base.jsonl
    grep -q 'empty.jsonl: no complete run to compare' err
    sed 's/"schema":1/"schema":2/' base.jsonl >newer.jsonl
    compare 3 base.jsonl newer.jsonl
    grep -q 'their schema is newer than 1' err
    echo 'hello' >foreign.jsonl
    compare 3 base.jsonl foreign.jsonl
    grep -q 'foreign.jsonl: line 1 was left out: it is not JSON' err
    mkdir nothing
    compare 3 base.jsonl nothing
    grep -qF 'no recording (*.jsonl) in the folder nothing' err
    compare 3 base.jsonl missing.jsonl
    grep -q 'cannot read missing.jsonl' err
    head -c 3000 "$dptrain" >new/5.jsonl
    compare 3 base.jsonl new
    grep -q 'new was not read completely, so nothing was compared' err
}

@test "usage: two recordings, sensible options" {
    compare 2 base.jsonl
    grep -q 'expected two recordings, BASE and NEW' err
    compare 2 base.jsonl base.jsonl base.jsonl
    compare 2 --min-effect much base.jsonl base.jsonl
    compare 2 --alpha 0 base.jsonl base.jsonl
    compare 2 --format csv base.jsonl base.jsonl
    compare 0 --help
    grep -q 'usage: dptrain report compare \[options\] BASE NEW' said
}
