#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tests what is shown to readers: commands of the pages and examples of every help run, or, where they need hosts, a GPU or time,
# are accepted by the program and the scripts that they start; transcripts, links and pictures are true.
# shellcheck disable=SC2016 # backticks of Markdown
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # every test is a subshell, on purpose; common.bash sets variables, docs.bash reads them

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/docs.bash
load docs
# shellcheck source=tests/cli/coco.bash
load coco

setup_file() {
    # The README shows the profile of a run, which needs some steps.
    make_tiny 1024 32
    mv "$tiny" "$BATS_FILE_TMPDIR/more"
    make_tiny 128 32
}

setup() {
    common_setup
    docs_helps=$BATS_FILE_TMPDIR/helps
    mkdir -p "$docs_helps"
    cd "$root" || return
    [[ -f README.md && -d docs ]] || skip "no pages in this tree"
    pages=(README.md CONTRIBUTING.md docs/*.md)
}

@test "every command in the pages is accepted by the program and the scripts that it starts" {
    docs_folder "$BATS_TEST_TMPDIR/folder"
    docs_check_folder "$BATS_TEST_TMPDIR/folder"
    docs_texts "$BATS_TEST_TMPDIR/texts"
    docs_plain docs_check_pages "$BATS_TEST_TMPDIR" "${pages[@]}" results/*.md data/README.md tests/*/README.md
}

@test "every option, choice and command named in the text exists, and is accepted" {
    docs_folder "$BATS_TEST_TMPDIR/folder"
    docs_check_folder "$BATS_TEST_TMPDIR/folder"
    for command in '' train eval predict replay checkpoint bench report 'report compare' 'report history' 'report html' 'data synth' \
        'data pack' 'data verify' 'data show' check hosts info; do
        docs_help "$command"
    done >"$BATS_TEST_TMPDIR/all"
    for script in scripts/*.sh scripts/bench/*.sh scripts/dev/*.sh scripts/recipes/*.sh data/fetch_*.sh tests/attack/attack.sh; do
        [[ ! -x $script ]] || docs_help "$script"
    done >>"$BATS_TEST_TMPDIR/all"
    # Options of other programs.
    printf -- '%s\n' --output --host-discovery-script --min-np --nnodes --nproc-per-node --rdzv-endpoint --standalone --num-processes --nodes --exclusive \
        --signal --rollback-on-failure --mpi --cap-add >>"$BATS_TEST_TMPDIR/all"
    docs_plain docs_check_text "$BATS_TEST_TMPDIR" "${pages[@]}"
}

@test "every command block marked \`run\` runs, and prints the output on the page" {
    [[ ! -d ${DPTRAIN_DATA:-}/coco_tiny ]] || docs_coco=$DPTRAIN_DATA/coco_tiny
    n=0 failed=0
    for page in "${pages[@]}"; do
        blocks=$BATS_TEST_TMPDIR/$page.blocks folder=$BATS_TEST_TMPDIR/$page.run
        mkdir -p "$blocks"
        docs_split "$page" "$blocks"
        docs_folder "$folder"
        export DPTRAIN_DATA=$folder/shared DPTRAIN_BIN=$dptrain
        # The first pages that people read work as typed on a new machine.
        case $page in
        README.md) docs_new_machine "$folder" "$BATS_FILE_TMPDIR/more" && unset DPTRAIN_DATA ;;
        docs/train.md | docs/checkpoints.md) docs_new_machine "$folder" "$tiny" && unset DPTRAIN_DATA ;;
        esac
        for block in "$blocks"/*; do
            [[ $block == *.@(run|consolerun|consolelike) ]] || continue
            n=$((n + 1))
            began=$SECONDS
            docs_run "$block" "$folder" || { echo "$page:$((10#$(basename "${block%.*}"))) failed"; failed=1; }
            echo "# $page:$((10#$(basename "${block%.*}"))) $((SECONDS - began)) s"
        done
    done
    echo "$n blocks"
    [ "$failed" -eq 0 ]
    [ "$n" -ge 15 ]
}

@test "the algorithms on docs/train.md apply to the run that it names" {
    awk '/^```/ { open = !open; next } open && /^(# dptrain.s algorithms|conv2d )/' docs/train.md >"$BATS_TEST_TMPDIR/algorithms"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/algorithms")" -eq 2 ]
    run "$dptrain" train --data "$tiny" --batch 32 --steps 1 --no-eval --threads 1 --device cpu --out "$out" \
        --algorithms "$BATS_TEST_TMPDIR/algorithms"
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"(1 of 1 lines apply to this run)"* && "$output" != *warning:* ]]
}

@test "quickstart's last words name its run, and run" {
    folder=$BATS_TEST_TMPDIR/quick
    docs_folder "$folder"
    export DPTRAIN_DATA=$folder/shared DPTRAIN_BIN=$dptrain PATH=$folder/bin:$PATH
    cd "$folder"
    scripts/quickstart.sh --skip-install --np 1 --data shared/mnist --out 'runs/a place' </dev/null >said
    sed '1,/^Next:/d' said >next
    cat next
    grep -qF -- "-np 1 train --epochs 3 --out runs/a\\ place --resume auto --data shared/mnist " next
    grep -F ' train ' next >next.sh
    [ "$(wc -l <next.sh)" -eq 2 ]
    run bash -e next.sh
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"resumed from runs/a place/ckpt-"* && "$output" == *"epoch 3 "* ]]
}

@test "commands in messages work as printed, with blanks, quotes and names of built-in data" {
    cd "$BATS_TEST_TMPDIR"
    mkdir bin
    ln -s "$dptrain" bin/dptrain
    PATH=$PWD/bin:$PATH
    train='--model mlp --steps 1 --batch 8 --no-eval --threads 1 --device cpu'
    for folder in digits synthetic "a b's"; do
        dptrain data synth digits --out "$folder" --train 32 --val 16 >said
        words=$(sed -n 's/.*; train on them with //p' said)
        run bash -c "dptrain train $words $train --overwrite --out run"
        echo "$words: $output"
        [[ "$status" -eq 0 && "$output" == *" 32 training, 16 validation "* ]]
    done
    dptrain data pack --from "a b's" --out "the shards" >said
    for shard in the\ shards/train-*.h5; do truncate -s -1 "$shard"; done
    # shellcheck disable=SC2086 # words
    run dptrain train --data "the shards" $train --out run --overwrite
    [ "$status" -eq 3 ]
    advice=$(sed -n "s/ (--max-bad.*//; s/.*; check with //p" <<<"$output")
    run bash -c "$advice"
    echo "$advice: $output"
    [[ "$status" -eq 3 && "$output" == *"not ok "*"the shards/train-"* ]]
}

@test "a page with a wrong command, option or mark is found" {
    for line in 'mpirun -np 2 ./dptrain trian' './dptrain train --epoch 3' 'scripts/no_such.sh hosts' \
        'scripts/run.sh --hostfiles hosts -- train' 'scripts/run.sh -np 2 train --no-such' 'dptrain data pack --form x' \
        'scripts/cluster_health.sh hosts -- --dta x' 'sbatch -N2 scripts/dptrain.sbatch train --outt x'; do
        run docs_check_line "$line"
        echo "$line: $output"
        [ "$status" -eq 1 ]
    done
    docs_folder "$BATS_TEST_TMPDIR/folder"
    docs_check_folder "$BATS_TEST_TMPDIR/folder"
    # Options that exist, but not like this.
    for line in 'dptrain train --algorithms rule' 'mpirun -np 2 dptrain check --only net' 'scripts/run.sh -hostfile hosts -- train --batch x' \
        'scripts/container.sh up --gpus some hosts' 'sbatch -N2 scripts/dptrain.sbatch train --no-eval --target accuracy=1' \
        'scripts/nccl_bw.sh hosts -F x' 'scripts/regress.sh ab a b --b-args "--allreduce no"' 'dptrain data verify x --no-decode --max-image-pixels 1M' \
        'ls >/dev/null && dptrain replay x --steps 3'; do
        ! docs_accept "$BATS_TEST_TMPDIR/folder" <<<"$line" >"$BATS_TEST_TMPDIR/said" || { echo "accepted: $line"; return 1; }
        grep -qE 'refused with code|changes nothing' "$BATS_TEST_TMPDIR/said"
    done
    for span in '--schedule step|steps' '-F' 'dptrain eval x --worst 3' '--algorithms rule'; do
        ! docs_span "$BATS_TEST_TMPDIR/folder" "$span" docs/train.md || { echo "accepted: $span"; return 1; }
    done
    docs_span "$BATS_TEST_TMPDIR/folder" '--algorithms rule' docs/detection.md
    printf '%s\n' '```console' '$ dptrain train' 'nobody prints such a phrase here 12' '```' >"$BATS_TEST_TMPDIR/page.md"
    docs_split "$BATS_TEST_TMPDIR/page.md" "$BATS_TEST_TMPDIR"
    docs_texts "$BATS_TEST_TMPDIR/texts"
    ! docs_words "$BATS_TEST_TMPDIR/0001.console" "$BATS_TEST_TMPDIR/texts" || return 1
    printf '%s\n' '```sh' 'ls' '```' >"$BATS_TEST_TMPDIR/page.md"
    run docs_split "$BATS_TEST_TMPDIR/page.md" "$BATS_TEST_TMPDIR"
    [ "$status" -eq 1 ]
    [[ $output == *"page.md:1: a block of commands needs one of the marks"* ]]
    printf '%s\n' '```sh run' 'false | true' '```' '```console run' '$ echo this' 'that' '```' >"$BATS_TEST_TMPDIR/page.md"
    docs_split "$BATS_TEST_TMPDIR/page.md" "$BATS_TEST_TMPDIR"
    run docs_run "$BATS_TEST_TMPDIR/0001.run" "$BATS_TEST_TMPDIR/folder"
    [ "$status" -eq 1 ]
    run docs_run "$BATS_TEST_TMPDIR/0004.consolerun" "$BATS_TEST_TMPDIR/folder"
    [ "$status" -eq 1 ]
    printf '%s\n' '```console like' '$ echo "step 12: 3.5 s, /a/b"; echo more; echo end 1' 'step 7: 0.1 s, /c/d/b' '…' 'end 3' '```' \
        '```console like' '$ echo took 3.5 MB' 'took 3.5 s' '```' >"$BATS_TEST_TMPDIR/page.md"
    docs_split "$BATS_TEST_TMPDIR/page.md" "$BATS_TEST_TMPDIR"
    docs_run "$BATS_TEST_TMPDIR/0001.consolelike" "$BATS_TEST_TMPDIR/folder"
    run docs_run "$BATS_TEST_TMPDIR/0007.consolelike" "$BATS_TEST_TMPDIR/folder"
    [[ "$status" -eq 1 && $output == *"no line like: took N s"* ]]
}

# Prints a digest of what decides the look of a picture: of pixels that are drawn now from fixed input, or of the files that draw it
# where its pixels differ between machines.
drawing() { # PICTURE
    case $1 in
    mistakes.png)
        (cd "$BATS_TEST_TMPDIR" &&
            "$dptrain" train --data "$tiny" --model mlp --batch 32 --steps 1 --device ref --threads 1 --no-eval --out run --overwrite &&
            "$dptrain" eval run --device ref --threads 1 --worst 12 --png sheet.png) >"$BATS_TEST_TMPDIR/said" || return
        "$magick" "$BATS_TEST_TMPDIR/sheet.png" rgb:- ;;
    contact_sheet.png)
        make_coco "$BATS_TEST_TMPDIR/coco" &&
            (cd "$BATS_TEST_TMPDIR" && "$dptrain" data show coco --out sheet.png --count 7 --tile 120) >"$BATS_TEST_TMPDIR/said" || return
        "$magick" "$BATS_TEST_TMPDIR/sheet.png" rgb:- ;;
    detections.png) sed -n '/^err_t detected_/,/^}/p; /^err_t single_page/,/^}/p' src/data/show/sheet.c ;;
    trace.png) cat scripts/dev/trace_png.py ;;
    *) return 1 ;;
    esac | sha256sum | cut -c 1-16
}

@test "the pictures of the pages show what is drawn today" {
    need_magick
    failed=0
    for picture in results/*.png; do
        name=${picture##*/}
        line="$name $(sha256sum <"$picture" | cut -c 1-16) $(drawing "$name")" || { echo "no drawing of $picture in docs.bats"; failed=1; }
        grep -qxF "$line" tests/interface/pictures.txt || {
            echo "$picture is older than what draws it, or new: make it anew, as its page says; then its line in pictures.txt is"
            echo "$line"
            failed=1
        }
    done
    [ "$failed" -eq 0 ]
    [ "$(grep -vc '^#' tests/interface/pictures.txt)" -eq "$(find results -name '*.png' | wc -l)" ]
}

# Whether accept takes a recording, and its revision is known. Without a suite in its name it has one run of each point.
recording_is_fit() { # FILE
    ! grep -q '"git":"[^"]*-dirty"' "$1" || { echo "$1 is of a revision with changes"; return 1; }
    scripts/regress.sh accept --suite "$(basename "$1" | cut -d - -f 1)" --results "$BATS_TEST_TMPDIR/results" "$1"
}

@test "recordings in results are ones that regress.sh accepts, of a revision without changes" {
    while IFS= read -r file; do recording_is_fit "$file"; done < <(find results -name '*.jsonl' -not -path 'results/runs/*')
    # A good one, one with more than a third of its points disturbed, and one of a changed tree.
    "$dptrain" bench gemm --quick --budget 0.01 --gemm-max 64 --threads 1 --device cpu --out "$BATS_TEST_TMPDIR/made.jsonl" >/dev/null
    cd "$BATS_TEST_TMPDIR"
    sed -E 's/"verdict":"[a-z]+"/"verdict":"ok"/; s/"git":"[^"]*"/"git":"0123abc"/' made.jsonl >quick-good.jsonl
    sed 's/"verdict":"ok"/"verdict":"disturbed"/' quick-good.jsonl >quick-loud.jsonl
    sed 's/"git":"0123abc"/"git":"0123abc-dirty"/' quick-good.jsonl >quick-dirty.jsonl
    cd "$root"
    recording_is_fit "$BATS_TEST_TMPDIR/quick-good.jsonl"
    for file in loud dirty; do
        run recording_is_fit "$BATS_TEST_TMPDIR/quick-$file.jsonl"
        echo "$output"
        [[ "$status" -ne 0 && "$output" == *disturbed* || "$output" == *changes* ]]
    done
}

@test "check_links.sh finds broken links and broken anchors, by file and line" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/docs" "$tree/results"
    printf '%s\n' '# Top' '[a](docs/a.md) [b](docs/a.md#a-b-c) [c](#top) [d](https://example.org/x) `[e](none.md)`' \
        '```' '[f](none.md)' '```' >"$tree/README.md"
    printf '%s\n' '# Title' '## A: `b`, c' '## Twice' '## Twice' '[up](../README.md#top) [again](#twice-1)' \
        '![image](../results/p.png)' >"$tree/docs/a.md"
    touch "$tree/CHANGELOG.md" "$tree/CONTRIBUTING.md" "$tree/results/p.png"
    run scripts/dev/check_links.sh --root "$tree"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]

    printf '%s\n' '[a](docs/b.md)' '[text over' 'lines](docs/a.md#nowhere) and [b](#nowhere)' >>"$tree/README.md"
    printf '%s\n' '[a](a.md) [b](../docs/a.md#twice-2)' >"$tree/results/x.md"
    run scripts/dev/check_links.sh --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    for place in 'README.md:6: docs/b.md: no such file' 'README.md:8: docs/a.md#nowhere: docs/a.md has no' 'README.md:8: #nowhere' \
        'results/x.md:1: a.md: no such file' 'results/x.md:1: ../docs/a.md#twice-2'; do
        grep -qF "$place" <<<"$output" || { echo "missing: $place"; return 1; }
    done
    [ "$(grep -c : <<<"$output")" -eq 6 ]
    rm "$tree/CONTRIBUTING.md"
    run scripts/dev/check_links.sh --root "$tree"
    [ "$status" -eq 4 ]
}
