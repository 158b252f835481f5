#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Compares the interface that users' scripts rely on with the lists in tests/interface: options, record fields, contents
# of a checkpoint, algorithms, exit codes, and the bits of --reproducible. Differences are printed. After an intended change,
# update the lists by DPTRAIN_UPDATE_INTERFACE=1 bats tests/cli/interface.bats, and review them with the commit.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 64 10; }

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 "${@:2}" >/dev/null
}

# Compares the lines of standard input with a list, in any order.
same_as_list() { # NAME
    local list=$root/tests/interface/$1.txt now=$BATS_TEST_TMPDIR/$1.now
    LC_ALL=C sort -u >"$now"
    [ -s "$now" ]
    if [[ -n ${DPTRAIN_UPDATE_INTERFACE-} ]]; then
        cp "$now" "$list"
        return
    fi
    diff -u --label "tests/interface/$1.txt" --label "this build" "$list" "$now" || {
        echo "If this is meant: DPTRAIN_UPDATE_INTERFACE=1 bats tests/cli/interface.bats"
        return 1
    }
}

# NAME --key VALUE [default], one line per option, or its name with one dash. A default that is in no table ends the help text.
options() { # COMMAND...
    "$dptrain" "$@" --help=tsv | awk -F '\t' -v name="$*" '
        $1 == "option" {
            def = $3 != "flag" && $5 != "" ? " [" $5 "]" : match($6, / \[[^]]*\]$/) ? substr($6, RSTART) : ""
            print name, "--" $2 ($4 == "" ? "" : " " $4) def
        }
        $1 == "switch" {
            print name, $2, $3
        }'
}

@test "commands, verbs, and their options with placeholders and defaults" {
    commands=$("$dptrain" --help=tsv | sed -n 's/^command\t\([^\t]*\).*/\1/p')
    verbs=("data synth" "data pack" "data verify" "data show" "report compare" "report history" "report html"
        "checkpoint show" "checkpoint verify" "checkpoint compare" "checkpoint export" "hosts show" "hosts hostfile" "hosts ssh-config")
    {
        for command in $commands; do
            echo "$command"
            options "$command"
        done
        for verb in "${verbs[@]}"; do
            echo "$verb"
            # shellcheck disable=SC2086 # two words
            options $verb
        done
    } >"$BATS_TEST_TMPDIR/options"
    same_as_list options <"$BATS_TEST_TMPDIR/options"
}

# KIND path.of.a.field, for every named field in records. Elements of arrays count as one. Layer names depend on the model,
# fused layers on the CPU, and ports on the machine, so they are left out.
fields() { # FILES... of records
    jq -r '.record as $kind
        | if .fingerprint then .fingerprint.fabric.ports = [] else . end
        | if .algorithms | type == "object" then .algorithms |= {LAYER: ([.[]] | add // {})} else . end
        | [paths] | map(map(select(type == "string"))) | unique | .[] | select(length > 0)
        | $kind + " " + join(".")' "$@"
}

# Screens are 80 columns wide; --help all lists everything that --help omits. tests/cli/help.bats has their topics.
@test "help: every screen fits 80 columns, and every option is common or under --help all" {
    for command in '' train eval predict replay checkpoint bench report 'report compare' 'report history' 'report html' data 'data synth' \
        'data pack' 'data verify' 'data show' check hosts info run; do
        read -ra words <<<"$command"
        "$dptrain" "${words[@]}" --help >"$BATS_TEST_TMPDIR/common"
        "$dptrain" "${words[@]}" --help all >"$BATS_TEST_TMPDIR/all"
        run env LC_ALL=C.UTF-8 grep -nE '.{81}| $' "$BATS_TEST_TMPDIR/common" "$BATS_TEST_TMPDIR/all"
        [ "$status" -eq 1 ] || { echo "$command: $output"; return 1; }
        [[ -n $command ]] || continue
        [ "$("$dptrain" "${words[@]}" --help=tsv | grep -c ^option)" -eq "$(grep -c '^  --' "$BATS_TEST_TMPDIR/all")" ]
        more="More: dptrain $command --help all"
        if [ "$(grep -c '^  --' "$BATS_TEST_TMPDIR/common")" -lt "$(grep -c '^  --' "$BATS_TEST_TMPDIR/all")" ]; then
            grep -q "^$more" "$BATS_TEST_TMPDIR/common"
        fi
        run grep -q "^$more" "$BATS_TEST_TMPDIR/all"
        [ "$status" -eq 1 ]
    done
    "$dptrain" train --help | grep -q '^  --batch N '
    [ "$("$dptrain" train --help | grep -c -- --shuffle-window)" -eq 0 ]
    diff <("$dptrain" train --help all) <("$dptrain" train --help=all)
}

kinds() { "$dptrain" report --schema | jq -r '.anyOf[].properties.record.const' | sort -u; }

@test "records: the names of their fields" {
    cd "$BATS_TEST_TMPDIR"
    train 2 --device cpu --batch 8 --epochs 2 --clip-norm 1 --eval-every 3s --out idx
    # Images in shards are read by threads, and shown in views.
    "$dptrain" data pack --from "$tiny" --out shards >/dev/null
    on_ranks 2 train --data shards --device cpu --input-size 28 --model mlp --threads 1 --batch 8 --steps 2 --out shown \
        >/dev/null
    on_ranks 2 bench all --device cpu --quick --budget 0.001 --ci 1 --threads 1 --gemm-max 64 --mem-bytes 64K \
        --conv-net lenet5 --conv-batch 1 --io-bytes 64K --io-dir . --step-batch 4 --step-data "$tiny" \
        --step-algorithms fixed --maxbytes 8 --test all_reduce,bisection,all_pairs --out bench.jsonl >/dev/null
    on_ranks 2 train --out shown --resume auto --steps 3 -q
    "$dptrain" report compare --format json bench.jsonl bench.jsonl >compare.json || true
    "$dptrain" report history --format json bench.jsonl >history.json
    "$dptrain" eval idx --data "$tiny" --device cpu --threads 1 --json eval.json >/dev/null
    "$dptrain" eval idx --data "$tiny" --device cpu --threads 1 --png image.png >/dev/null
    "$dptrain" predict idx image.png --device cpu --threads 1 --json predicted.json >/dev/null
    run "$dptrain" predict idx image.png eval.json --device cpu --threads 1 --json failed.json
    "$dptrain" check --only clock,versions --json check.json --write-profile profile.json >/dev/null
    "$dptrain" check --device cpu --only gpu --expect-gpus 500 --history checks.jsonl >/dev/null || true
    "$dptrain" hosts show a:2,b:2 --format json | jq -c '{record: "hosts"} + .' >hosts.json
    # dptrain report reads what was written: all kinds but a slow rank (stragglers.bats) and jobs (restarts.bats).
    all=(idx/metrics.jsonl shown/metrics.jsonl {bench,compare,history,check,profile,checks,eval,predicted,failed}.json*)
    check_records "${all[@]}"
    for format in table markdown csv; do "$dptrain" report --strict --format "$format" "${all[@]}" >report.$format; done
    "$dptrain" report html "${all[@]}" --out page.html
    for words in 'replicas     equal, comparisons: ' 'evaluation of idx' 'prediction for image.png' 'check of 20' 'comparison: ' 'lines'; do
        grep -qF "$words" report.table
    done
    # The same machine has the same id in both.
    [ "$(jq -r 'select(.hardware_id or .fingerprint) | .hardware_id // .fingerprint.hardware_id' idx/metrics.jsonl bench.jsonl | sort -u | wc -l)" -eq 1 ]
    for kind in eval prediction check comparison history; do grep -q ",$kind," report.csv; done
    run grep 'Unusable lines' page.html
    [ "$status" -eq 1 ]
    diff <(jq -r .record "${all[@]}" | sort -u) \
        <(kinds | grep -v '^job_\|^straggler$')
    {
        fields idx/metrics.jsonl shown/metrics.jsonl bench.jsonl compare.json history.json check.json profile.json checks.jsonl hosts.json eval.json predicted.json failed.json
        echo "csv $("$dptrain" report --format csv bench.jsonl | head -1 | tr -d '\r')"
    } >names
    same_as_list records <names
}

@test "records are written only under the kinds that src/records lists" {
    cd "$root"
    run grep -rnE 'json_string\([^;]*"record"' src --include='*.[ch]'
    echo "$output"
    [ "$(wc -l <<<"$output")" -eq 1 ]
    [[ $output == src/records/record.c:* ]]
}

# The part of docs/records.md between its marks.
@test "records: the tables in docs/records.md are those of this build" {
    page=$root/docs/records.md
    cd "$BATS_TEST_TMPDIR"
    {
        sed '/^<!-- fields:/q' "$page"
        "$dptrain" report --schema --format markdown
        sed -n '/^<!-- end of fields -->/,$p' "$page"
    } >now.md
    if [[ -n ${DPTRAIN_UPDATE_INTERFACE-} ]]; then cp now.md "$page"; fi
    diff -u "$page" now.md || {
        echo "If this is meant: DPTRAIN_UPDATE_INTERFACE=1 bats tests/cli/interface.bats"
        return 1
    }
    # Nothing is left blank, and no cell is cut off.
    [ "$(grep -c '^| `' now.md)" -gt 400 ]
    run grep -nE '^\| `[^|]*\|([^|]*\| +\||[^|]*\|[^|]*\|.+)$' <(sed -n '/^<!-- fields:/,$p' now.md)
    [ "$status" -eq 1 ]
}

# Prints a checkpoint's root attributes, and one line per array with type, shape and attributes.
contents() { # FILE
    h5dump -A "$1" | awk '
        { gsub(/"/, "") }
        $1 == "GROUP" || $1 == "DATASET" { name[++n] = $2; at[depth] = n }
        $1 == "DATASET" { array = n; type = ""; shape = ""; attrs = "" }
        $1 == "ATTRIBUTE" && array { attrs = attrs " " $2; inside = depth }
        $1 == "ATTRIBUTE" && !array { print "attribute", $2; inside = depth }
        $1 == "DATATYPE" && array && !inside { type = $2 }
        $1 == "DATASPACE" && array && !inside { shape = $0; sub(/^[^(]*\( */, "", shape); sub(/ *\).*/, "", shape); gsub(/, /, "x", shape) }
        { depth += gsub(/{/, "{") - gsub(/}/, "}") }
        inside && depth <= inside { inside = 0 }
        (depth in at) {
            if (array == n && array) {
                path = ""
                for (i = 2; i <= n; i++) path = path "/" name[i]
                print path, type, shape, "attributes:" attrs
                array = 0
            }
            n--
            delete at[depth]
        }'
}

everything=(--model mnist-cnn-bn --batch 4 --steps 2 --optimizer adamw --ema 0.9 --schedule plateau --clip-norm 1
    --augment-rotate 8 --reproducible 2 --algorithms fixed)

@test "a checkpoint: attributes, and names, types and shapes of its arrays" {
    train 0 --device cpu "${everything[@]}" --out "$out"
    contents "$out"/ckpt-000000000002.h5 >"$BATS_TEST_TMPDIR/contents"
    for optimizer in sgd nesterov adadelta lars; do
        train 0 --device cpu --model mlp --batch 8 --steps 1 --optimizer "$optimizer" --overwrite --out "$out"
        contents "$out"/ckpt-000000000001.h5 | sed -n "s|^/optimizer|$optimizer /optimizer|p" >>"$BATS_TEST_TMPDIR/contents"
    done
    same_as_list checkpoint <"$BATS_TEST_TMPDIR/contents"
}

# The hash of each array in a checkpoint, and the loss of each step.
bits() { # FOLDER
    h5dump -A "$1"/ckpt-*.h5 | awk '
        { gsub(/"/, "") }
        $1 == "GROUP" || $1 == "DATASET" { name[++n] = $2; at[depth] = n }
        $1 == "ATTRIBUTE" { wanted = $2 == "xxh3" }
        $1 == "(0):" && wanted {
            path = ""
            for (i = 2; i <= n; i++) path = path "/" name[i]
            print path, $2
            wanted = 0
        }
        { depth += gsub(/{/, "{") - gsub(/}/, "}") }
        (depth in at) { n--; delete at[depth] }'
    jq -r 'select(.record == "step") | "loss of step \(.step): \(.loss)"' "$1/metrics.jsonl"
    jq -r 'select(.record == "run") | "data \(.data.xxh3)"' "$1/metrics.jsonl"
}

@test "the bits of --reproducible" {
    # The device ref does not depend on the CPU: it sums in order, and the compiler fuses nothing.
    train 0 --device ref "${everything[@]}" --out "$out-ref"
    bits "$out-ref" >"$BATS_TEST_TMPDIR/ref"
    same_as_list bits <"$BATS_TEST_TMPDIR/ref"
    # The device cpu depends on the vector width, so there is no list: 1 and 2 ranks must agree.
    for n in 0 2; do
        train "$n" --device cpu "${everything[@]}" --out "$out-cpu$n"
        bits "$out-cpu$n" >"$BATS_TEST_TMPDIR/cpu$n"
    done
    diff "$BATS_TEST_TMPDIR/cpu0" "$BATS_TEST_TMPDIR/cpu2"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/cpu0")" -eq "$(wc -l <"$BATS_TEST_TMPDIR/ref")" ]
}

@test "algorithms: the names that --algorithms FILE accepts" {
    layer='n=8 x=26x26x32 k=64x3x3 stride=1x1 pad=0x0 dilation=1x1 groups=1 epilogue=relu+pool2x2'
    for precision in fp32 bf16; do
        of="conv2d float32 $layer"
        [[ $precision == fp32 ]] || of="conv2d bfloat16 $layer narrow=xy"
        for pass in forward backward_data backward_weights; do
            echo "$of $pass = none" >"$BATS_TEST_TMPDIR/table"
            run train 0 --device cpu --model mnist-cnn --precision "$precision" --batch 8 --steps 1 --out "$out" \
                --algorithms "$BATS_TEST_TMPDIR/table"
            [ "$status" -eq 2 ]
            [[ $output == *"$of, $pass: algorithm 'none' is not available; choose from "* ]]
            tr ',' '\n' <<<"${output##*choose from }" | sed "s/^ */$precision $pass /"
        done
    done | LC_ALL=C sort >"$BATS_TEST_TMPDIR/names"
    more=()
    [[ $("$dptrain" info) != *"oneDNN 3."* ]] || more=("$root/tests/interface/algorithms_onednn3.txt")
    if [[ -z ${more[*]} && ${DPTRAIN_MAX_ISA:-amx} == amx ]] && grep -q -w amx_bf16 /proc/cpuinfo; then
        same_as_list algorithms <"$BATS_TEST_TMPDIR/names"
    else
        # The list is that of oneDNN 2 on a CPU with AMX. Others have only some of these, and oneDNN 3 has more.
        [ -s "$BATS_TEST_TMPDIR/names" ]
        LC_ALL=C sort "$root/tests/interface/algorithms.txt" "${more[@]}" | LC_ALL=C comm -23 "$BATS_TEST_TMPDIR/names" - >"$BATS_TEST_TMPDIR/others"
        cat "$BATS_TEST_TMPDIR/others"
        [ ! -s "$BATS_TEST_TMPDIR/others" ]
    fi
}

code() { # WHAT COMMAND...
    local status=0
    "${@:2}" >/dev/null 2>&1 || status=$?
    echo "$1: $status"
}

# Prints the exit code of a run without mpirun that a signal ends.
code_of_signal() { # SIGNAL
    local folder=$out-$1 status=0 pid
    # bash starts background processes with SIGINT ignored.
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$dptrain" train --data "$tiny" --threads 1 --device cpu --model mlp \
        --steps 100000000 --out "$folder" >/dev/null 2>&1 3>&- &
    pid=$!
    for _ in {1..600}; do
        [[ ! -e $folder/metrics.jsonl ]] || ! grep -q '"step"' "$folder/metrics.jsonl" || break
        sleep 0.1
    done
    kill -s "$1" "$pid"
    wait "$pid" || status=$?
    echo "training alone, SIG$1: $status"
}

# A recording of one start, which decides nothing.
one_start() { # ID
    printf '{"record":"bench_run","schema":1,"id":"%s","time":"","ranks":1,"threads":1,"options":{},"fingerprint":{}}\n' "$1"
    printf '{"record":"bench","schema":1,"run":"%s","case":"gemm","test":"gemm","key":{},"metrics":{},"unit":"s",' "$1"
    printf '"verdict":"ok","n":4,"p50":1,"samples":[1,1.01,1,1.01]}\n'
    printf '{"record":"bench_end","schema":1,"run":"%s","reason":"finished","n_points":1}\n' "$1"
}

@test "exit codes" {
    train 0 --device cpu --steps 1 --out "$out"
    head -c 100000 "$out/ckpt-000000000001.h5" >"$BATS_TEST_TMPDIR/half.h5"
    short=(train --model mlp --steps 1 --overwrite)
    with_data=("${short[@]}" --data "$tiny" --out "$out-short")
    {
        code "help" "$dptrain" --help
        code "help of a command" "$dptrain" train --help
        code "version" "$dptrain" --version
        code "a run that finished" "$dptrain" "${with_data[@]}"
        code "target accuracy missed" "$dptrain" "${with_data[@]}" --target-accuracy 1
        code "unknown command" "$dptrain" trian
        code "unknown verb" "$dptrain" data shwo
        code "unknown option" "$dptrain" train --bacth 3
        code "option without its value" "$dptrain" train --batch
        code "option out of range" "$dptrain" train --batch -1
        code "option that is not a number" "$dptrain" train --batch 1x
        code "option given twice" "$dptrain" train --batch 1 --batch 1
        code "a word too many" "$dptrain" train data
        code "unknown model" "$dptrain" train --data "$tiny" --model lenet6 --out "$out-none"
        code "folder of an earlier run" "$dptrain" train --data "$tiny" --steps 1 --out "$out"
        code "missing data" "$dptrain" "${short[@]}" --data "$BATS_TEST_TMPDIR/none" --out "$out-none"
        code "image that cannot be read" "$dptrain" predict "$out" "$BATS_TEST_TMPDIR/half.h5"
        code "missing checkpoint" "$dptrain" eval "$BATS_TEST_TMPDIR/none"
        code "damaged checkpoint" "$dptrain" checkpoint verify "$BATS_TEST_TMPDIR/half.h5"
        code "output that cannot be written" "$dptrain" "${short[@]}" --data "$tiny" --out /proc/none
        code "missing records" "$dptrain" report "$BATS_TEST_TMPDIR/none"
        code "a comparison that decided nothing" "$dptrain" report compare <(one_start a) <(one_start b)
        code "missing hostfile" "$dptrain" hosts show "$BATS_TEST_TMPDIR/none"
        for signal in INT TERM USR1; do code_of_signal "$signal"; done
    } >"$BATS_TEST_TMPDIR/codes"
    same_as_list exit_codes <"$BATS_TEST_TMPDIR/codes"
}
