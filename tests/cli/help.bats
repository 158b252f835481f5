#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the program says about its options: help at terminals of any width, examples, what to write instead of other
# programs' options, and warnings of options that change nothing.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # every test is a subshell, on purpose; common.bash sets variables, docs.bash reads them

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/docs.bash
load docs
# shellcheck source=tests/cli/terminal.bash
load terminal
# shellcheck source=tests/cli/coco.bash
load coco
bats_require_minimum_version 1.5.0

setup_file() { make_tiny 64 16; }

commands=("" train eval predict replay checkpoint bench report "report compare" "report history" "report html" data
    "data synth"
    "data pack" "data verify" "data show" check hosts info run)

# Prints --help all at a terminal of COLUMNS columns.
at_terminal() { # COLUMNS COMMAND
    TERM=xterm script -qec "stty cols $1; '$dptrain' $2 --help all" /dev/null </dev/null | tr -d '\r'
}

@test "help wraps at the terminal's width, up to 120 columns; at 80 in a pipe" {
    need_terminal
    for columns in 60 80 132; do
        at_terminal "$columns" train >"$BATS_TEST_TMPDIR/$columns"
        at_terminal "$columns" "data pack" >>"$BATS_TEST_TMPDIR/$columns"
        at_terminal "$columns" run >>"$BATS_TEST_TMPDIR/$columns"
    done
    export LC_ALL=C.UTF-8
    # Commands are not cut.
    run -1 grep -E '.{61}' <(grep -vE '^usage|^ +(mpirun|dptrain) ' "$BATS_TEST_TMPDIR/60")
    run -1 grep -E '.{81}' "$BATS_TEST_TMPDIR/80"
    run -1 grep -E '.{121}' "$BATS_TEST_TMPDIR/132"
    grep -qE '.{76}' "$BATS_TEST_TMPDIR/80"
    grep -qE '.{112}' "$BATS_TEST_TMPDIR/132"
    # The same words.
    [ "$(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/60" | md5sum)" = "$(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/132" | md5sum)" ]
    { "$dptrain" train --help all; "$dptrain" data pack --help all; "$dptrain" run --help all; } | diff - "$BATS_TEST_TMPDIR/80"
    # Without room for two columns the text is below the option, and no word is cut.
    for columns in 40 59; do
        at_terminal "$columns" train >"$BATS_TEST_TMPDIR/$columns"
        at_terminal "$columns" "data pack" >>"$BATS_TEST_TMPDIR/$columns"
        at_terminal "$columns" run >>"$BATS_TEST_TMPDIR/$columns"
        diff <(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/132") <(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/$columns")
        run -1 grep -E ".{$((columns + 1))}" <(grep -vE '^usage|^ +(mpirun|dptrain|--|#) ?' "$BATS_TEST_TMPDIR/$columns")
        grep -qx -- '  --batch N' "$BATS_TEST_TMPDIR/$columns"
        grep -q '^      global batch size' "$BATS_TEST_TMPDIR/$columns"
    done
}

@test "the scripts' help wraps at the terminal's width, up to 120 columns, with the same words" {
    need_terminal
    export LC_ALL=C.UTF-8
    for script in nccl_bw cluster_health setup_ssh regress aws; do
        "$root/scripts/$script.sh" --help >"$BATS_TEST_TMPDIR/whole"
        TERM=xterm script -qec "stty cols 80; '$root/scripts/$script.sh' --help" /dev/null </dev/null | tr -d '\r' >"$BATS_TEST_TMPDIR/80"
        # Commands are not cut: they must be short.
        run -1 grep -E '.{81}' "$BATS_TEST_TMPDIR/80"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/80")" -gt "$(wc -l <"$BATS_TEST_TMPDIR/whole")" ]
        diff <(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/whole") <(tr -s ' \n' '\n' <"$BATS_TEST_TMPDIR/80")
    done
    TERM=xterm script -qec "stty cols 126; '$root/scripts/aws.sh' --help" /dev/null </dev/null | tr -d '\r' >"$BATS_TEST_TMPDIR/126"
    run -1 grep -E '.{121}' "$BATS_TEST_TMPDIR/126"
    grep -qE '.{115}' "$BATS_TEST_TMPDIR/126"
}

@test "the options of train are in groups of at most 16" {
    "$dptrain" train --help all | awk '
        /^[A-Z].*:$/ { group = $0; n[group] = 0 }
        /^  --/ { n[group]++ }
        END { for (g in n) if (g !~ /^Examples/) { groups++; if (n[g] == 0 || n[g] > 16) { print g, n[g]; bad = 1 } }; exit bad || groups < 14 }'
    "$dptrain" train --help all | grep -x "Checkpoints:"
}

says() { # STATUS WORDS-OF-THE-MESSAGE COMMAND...
    run "$dptrain" "${@:3}"
    echo "${*:3}: $status: $output"
    [ "$status" -eq "$1" ]
    [[ "$output" == *"$2"* ]]
}

# Prints the options that a help lists, each in a line.
listed() { # WORDS...
    "$dptrain" "$@" | sed -n 's/^  \(--[^ ]*\).*/\1/p'
}

@test "a plain --help fits a screen: examples, then about 15 options" {
    local command words
    for command in "${commands[@]}"; do
        read -ra words <<<"$command"
        "$dptrain" "${words[@]}" --help >"$BATS_TEST_TMPDIR/short"
        echo "$command: $(wc -l <"$BATS_TEST_TMPDIR/short") lines"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/short")" -le 45 ]
        [ "$(grep -c '^  --' "$BATS_TEST_TMPDIR/short")" -le 18 ]
        # What one types first stands before what is to be read: the usage, a paragraph, the examples.
        [ "$(grep -n '^Examples:$' "$BATS_TEST_TMPDIR/short" | cut -d : -f 1)" -le 24 ]
        run sed -n '/^Options:$\|^  --/,$p' "$BATS_TEST_TMPDIR/short"
        [[ $output != *Examples:* ]]
    done
    for command in train eval predict replay bench check; do
        run listed $command --help
        [[ ! " ${lines[*]} " =~ \ --(comm|threads|timeout|gpus|share-gpu|workspace)\  ]]
    done
    need_terminal
    for command in run regress; do
        TERM=xterm script -qec "stty cols 80; '$dptrain' $command --help" /dev/null </dev/null >"$BATS_TEST_TMPDIR/short"
        echo "$command: $(wc -l <"$BATS_TEST_TMPDIR/short") lines"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/short")" -le 45 ]
    done
}

@test "--help TOPIC: each option is under exactly one topic; the short help names the topics" {
    local command words topic topics
    for command in "${commands[@]:1}" regress; do
        read -ra words <<<"$command"
        if [[ $command == regress ]]; then
            topics=$("$dptrain" "$command" --help | sed -n 's/^More: .*TOPIC: //p')
            topics=${topics//, /$'\n'}
        else
            topics=$("$dptrain" "${words[@]}" --help=tsv | awk -F '\t' '$1 == "group" && !seen[$3]++ { print $3 }')
        fi
        while read -r topic; do
            [[ -n $topic ]] || continue
            "$dptrain" "${words[@]}" --help "$topic"
        done <<<"$topics" | sed -n 's/^  \(--*[a-zA-Z][^ ]*\).*/\1/p' | LC_ALL=C sort >"$BATS_TEST_TMPDIR/topics"
        "$dptrain" "${words[@]}" --help all | sed '/^Examples:$/,/^$/d' | sed -n 's/^  \(--*[a-zA-Z][^ ]*\).*/\1/p' | LC_ALL=C sort |
            diff - "$BATS_TEST_TMPDIR/topics" || { echo "$command"; return 1; }
        [ "$(wc -l <<<"$topics")" -gt 1 ] || continue
        run "$dptrain" "${words[@]}" --help
        [[ $(tr -s ' \n' ' ' <<<"$output") == *" --help all, or --help TOPIC: $(paste -sd , <<<"$topics" | sed 's/,/, /g') " ]]
    done
    diff <("$dptrain" train --help gpu) <("$dptrain" train --help=gpu)
    [ "$(listed train --help gpu | head -1)" = --gpus ]
    # Three groups.
    [ "$("$dptrain" train --help data | grep -cx 'Data.*:')" -eq 3 ]
    # The case's options, and those of all.
    [ "$("$dptrain" bench comm --help comm)" = "$("$dptrain" bench --help comm)" ]
    # After other words, and before other options.
    diff <("$dptrain" train --help) <("$dptrain" train --epochs 3 --help --lr 1)
    says 2 "'checkpoints'" train --help checkpoint
    [[ $output == *"data, model, run, "*" and all" ]]
    says 2 "'learning'" train --help lr
    says 2 "'nonesuch'" train --help nonesuch
    says 2 "'nonesuch'" data --help nonesuch
    says 2 "'nonesuch'" report compare --help=nonesuch
    says 2 "did you mean 'network'?" run --help networks
    says 2 "'nonesuch'" regress --help nonesuch
}

@test "help and version are words, too" {
    diff <("$dptrain" help) <("$dptrain" --help)
    diff <("$dptrain" help train) <("$dptrain" train --help)
    diff <("$dptrain" --help train) <("$dptrain" train -h)
    diff <("$dptrain" help train data) <("$dptrain" train --help data)
    diff <("$dptrain" help data pack) <("$dptrain" data pack --help)
    diff <("$dptrain" help data pack output) <("$dptrain" data pack --help output)
    diff <("$dptrain" help report options) <("$dptrain" report --help options)
    diff <("$dptrain" help run network) <("$dptrain" run --help network)
    for verb in "checkpoint show" "hosts ssh-config" "report compare" "data show"; do
        # shellcheck disable=SC2086 # two words
        diff <("$dptrain" help $verb) <("$dptrain" $verb --help)
    done
    diff <("$dptrain" version) <("$dptrain" --version)
    says 2 "did you mean 'train'" help trian
    # Once, by rank 0.
    [ "$(on_ranks 2 help train | grep -c '^usage: ')" -eq 1 ]
    run on_ranks 2 train --help nonesuch
    [[ "$status" -eq 2 && $(grep -c "'nonesuch'" <<<"$output") -eq 1 ]]
}

# Makes what the examples read, small, in the folder of docs_folder.
examples_folder() { # FOLDER
    local i
    (
        cd "$1"
        rm data/coco
        ln -s "$tiny" data/mnist
        make_coco coco
        cp coco/annotations/instances_val2017.json .
        echo '[{"image_id": 10, "category_id": 1, "bbox": [1, 1, 10, 10], "score": 0.9}]' >bbox.json
        mkdir -p photos/cat photos/dog before after recordings
        for i in 0 1 2 3 4 5; do cp "coco/val2017/$i.png" "photos/$( ((i % 2)) && echo cat || echo dog)"; done
        PATH=$1/bin:$PATH mpirun -np 2 dptrain bench comm step --quick --budget 0.01 --minbytes 1K --maxbytes 1K --step-batch 8 \
            --step-budget 0.01 --step-algorithms fixed --threads 1 --device cpu --no-step-scaling --step-data synthetic --out bench.jsonl
        for i in before.jsonl after.jsonl before/1.jsonl after/1.jsonl recordings/1.jsonl; do cp bench.jsonl "$i"; done
    ) >"$1/made" 2>&1 || { cat "$1/made"; return 1; }
}

@test "every command and script has three examples, which run or are accepted" {
    docs_helps=$BATS_TEST_TMPDIR/helps folder=$BATS_TEST_TMPDIR/folder
    mkdir -p "$docs_helps"
    docs_folder "$folder"
    docs_check_folder "$folder"
    examples_folder "$folder"
    export DPTRAIN_DATA=$folder/shared DPTRAIN_BIN=$dptrain
    docs_plain docs_check_examples "$folder" "${commands[@]}" ssh-setup health nccl-bw regress scripts/stage_data.sh scripts/mpijob.sh \
        scripts/simulate.sh
}

@test "a command that is not one: what to type instead" {
    local pair word
    for pair in "export|checkpoint export" "test|eval" "validate|eval" "evaluate|eval" "infer|predict" "resume|train --out DIR --resume auto" \
        "benchmark|bench" "pack|data pack" "synth|data synth" "list|info" "compare|checkpoint compare or dptrain report compare" "gemm|bench gemm" "torchrun|run" \
        "show|checkpoint show or dptrain data show or dptrain hosts show" "verify|checkpoint verify or dptrain data verify"; do
        says 2 "unknown command '${pair%%|*}'; write dptrain ${pair#*|}" "${pair%%|*}"
        [ "${#lines[@]}" -eq 1 ]
    done
    # Every word of the table names a command that is there.
    while read -r word; do
        run -0 env DPTRAIN_CHECK_OPTIONS=1 "$dptrain" help "$word"
    done < <(sed -n 's/^    {"[a-z|_0-9-]*", "\([a-z-]*\)[ "].*},$/\1/p' "$root/src/cmd/cmd.c" | grep -v '^--' | sort -u)
}

@test "options of other programs: one line says what to write" {
    local pair
    for pair in "--batch-size=8|--batch N over all ranks, or --batch-per-rank N" "--batch_size=8|--batch N over all ranks" \
        "--learning-rate=1|--lr X" "--base-lr=1|--lr X" "--workers=4|--loader-threads N" "--num-epochs=3|--epochs N" \
        "--gpu=0|--gpus LIST" "--evaluate|dptrain eval CHECKPOINT" "--arch=resnet50|--model NAME" "--no-cuda|--device cpu" \
        "--wd=0.1|--weight-decay X" "--fp16|--precision bf16" "--pretrained|--weights FILE" "--print-freq=10|--log-every N" \
        "--fp16-allreduce|--wire bf16, with NCCL" "--dtype=bfloat16|--precision bf16" "--nesterov|--optimizer nesterov" \
        "--world-size=2|mpirun -np N dptrain" "--weight_decay=0|--weight-decay"; do
        says 2 "unknown option ${pair%%[=|]*}; write ${pair#*|}" train "${pair%%|*}"
        [ "${#lines[@]}" -eq 1 ]
    done
    says 2 "unknown option --precision; write --ci X" bench gemm --precision 0.05
    says 2 "unknown option --batch-size; write --step-batch N" bench step --batch-size 8
    says 2 "unknown option --dtype; write --datatype LIST" bench comm --dtype float
    says 2 "unknown option --checkpoint; write dptrain eval CHECKPOINT" eval --checkpoint x
    for pair in --test-batch-size --val-batch-size; do
        says 2 "unknown option $pair; omit it: evaluation sets its own batch size" train "$pair" 8
    done
    for pair in --local_rank --local-rank; do says 2 "unknown option $pair; omit it: mpirun sets the ranks" train "$pair=0"; done
}

# Trains one step; prints the warnings.
warnings() { # OPTIONS...
    "$dptrain" train --data "$tiny" --model mlp --batch 8 --steps 1 --device cpu --threads 1 --out "$out" --overwrite "$@" 2>&1 >/dev/null |
        grep -F -e ' changes nothing '
}

@test "options that change nothing in this run are warned of, once each" {
    warnings --momentum 0.5 --optimizer adadelta --lars-trust 0.1 --lr-power 3 --trace-steps 5 --decay-all --eval \
        --max-bad 2 >"$BATS_TEST_TMPDIR/said"
    cat "$BATS_TEST_TMPDIR/said"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 7 ]
    grep -F -e "--momentum changes nothing in this run: it is for --optimizer sgd, nesterov or lars" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--lars-trust changes nothing in this run: it is for --optimizer lars" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--lr-power changes nothing in this run: it is for --schedule polynomial" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--trace-steps changes nothing without --trace" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--decay-all changes nothing without --weight-decay" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--eval changes nothing in this run: it is for resuming a run with --no-eval; dptrain eval CHECKPOINT" "$BATS_TEST_TMPDIR/said"
    grep -F -e "--max-bad changes nothing in this run: it is for folders of images and shards" "$BATS_TEST_TMPDIR/said"
    run -1 warnings --momentum 0.5 --optimizer nesterov --schedule polynomial --lr-power 3 --no-eval --decay-all --weight-decay 0.1
    # What has an effect: threads load images in memory, too, and the time limit counts for the number of threads.
    run -1 warnings --loader-threads 2 --measure-time 1
    on_ranks 2 train --data "$tiny" --model mlp --batch 8 --steps 1 --device cpu --threads 1 --out "$out" --overwrite --bucket 2M \
        --momentum 0.5 2>"$BATS_TEST_TMPDIR/said"
    [ "$(grep -cxF "dptrain: warning: --bucket changes nothing in this run: it is for gradients that NCCL sums between GPUs" \
        "$BATS_TEST_TMPDIR/said")" -eq 1 ]
    # A file may list all options, as --print-config does.
    "$dptrain" train --data "$tiny" --optimizer adamw --print-config >"$BATS_TEST_TMPDIR/config"
    run -1 warnings --config "$BATS_TEST_TMPDIR/config"
}

# Prints the options that are warned of, sorted.
idle() { # COMMAND AND OPTIONS...
    "$dptrain" "$@" 2>"$BATS_TEST_TMPDIR/idle" >/dev/null || (($? == 1)) || echo "failed with code $?"
    sed -nE 's/^dptrain: warning: --([a-z-]+) changes nothing .*/\1/p' "$BATS_TEST_TMPDIR/idle" | LC_ALL=C sort | paste -sd ' '
}

@test "bench, check and data warn of options that change nothing" {
    cd "$BATS_TEST_TMPDIR"
    bench=(--quick --budget 0.01 --ci 1 --device cpu --threads 1 --out out.jsonl)
    [ "$(idle bench gemm "${bench[@]}" --gemm-max 64 --gemm-shapes training --workspace 1G --cuda-graph off)" = "cuda-graph gemm-max workspace" ]
    [ "$(idle bench gemm "${bench[@]}" --gemm-max 64 --gemm-shapes square)" = "" ]
    [ "$(idle bench gemm "${bench[@]}" --gemm-max 64 --samples 1)" = "budget ci" ]
    on_ranks 2 bench comm "${bench[@]}" --test all_gather --op max --root 1 --maxbytes 64 --stepfactor 2 --stepbytes 8 --bucket 2M 2>said
    cat said
    for option in op root stepbytes bucket; do
        [ "$(grep -c "^dptrain: warning: --$option changes nothing in this run: it is for " said)" -eq 1 ]
    done
    on_ranks 2 bench comm "${bench[@]}" --test all_gather,reduce --op max --root 1 --maxbytes 64 --allreduce mpi 2>said
    run -1 grep 'changes nothing' said
    [ "$(idle check --list --strict --device cpu --gpus 0)" = "gpus strict" ]
    [ "$(idle check --only clock --device cpu --data "$tiny" --ports 1024-2048 --expect-transport tcp --threads 1 --shared-bytes 1M)" = \
        "data expect-transport ports shared-bytes threads" ]
    [ "$(idle check --only versions --device cpu --data "$tiny")" = "" ]
    [ "$(idle data pack --from "$tiny" --out packed --no-decode --threads 2 --max-image-pixels 1M)" = "max-image-pixels threads" ]
    [ "$(idle data pack --from "$tiny" --out resized --resize 8 --no-decode --max-image-pixels 1M)" = "" ]
    [ "$(idle data verify packed --no-decode --max-image-pixels 1M)" = "max-image-pixels" ]
}

@test "a full disk under standard output is an error of every command" {
    [[ -c /dev/full ]] || skip "there is no /dev/full"
    cd "$BATS_TEST_TMPDIR"
    train=(train --data "$tiny" --model mlp --steps 1 --threads 1 --device cpu --algorithms fixed --out run)
    "$dptrain" "${train[@]}" >/dev/null
    for words in help --version info "check --list" "check --only clock" "checkpoint verify run" "eval run" "${train[*]} --overwrite"; do
        echo "$words"
        # shellcheck disable=SC2086 # words
        run -4 bash -c "'$dptrain' $words 2>&1 >/dev/full"
        [ "$(grep -cE '^dptrain: error: cannot write .*: (No space left on device|part of it is lost)' <<<"$output")" -eq 1 ]
    done
}

@test "closed standard output and error: no file takes their numbers, and the messages" {
    cd "$BATS_TEST_TMPDIR"
    train=(train --data "$tiny" --model mlp --steps 1 --threads 1 --device cpu --algorithms fixed --out run)
    strace -f -e trace=write -o calls true 2>/dev/null || skip "strace does not work here"
    strace -f -e trace=openat,write -o calls "$dptrain" "${train[@]}" >&- 2>&-
    grep -q '"finished after 1 step' calls
    run -1 grep -E 'EBADF|openat\(.*(run/|/dev/shm).* = [12]$' calls
}

@test "detectors' options with a classifier are refused" {
    says 2 "--min-size applies to detectors" train --model lenet5 --min-size 600
}
