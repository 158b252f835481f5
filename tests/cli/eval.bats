#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Evaluation with an image of the worst mistakes: the same on any number of ranks, and refused before any work.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# One model that still makes mistakes serves all tests.
setup_file() {
    common_setup
    export data=$BATS_FILE_TMPDIR/data run_folder=$BATS_FILE_TMPDIR/run
    "$dptrain" data synth digits --out "$data" --train 2000 --val 2000
    "$dptrain" train --data "$data" --model lenet5 --steps 12 --batch 50 --threads 1 --out "$run_folder"
}

setup() {
    common_setup
    out=$run_folder
    cd "$BATS_TEST_TMPDIR" || return
}

# Prints the width or height in a PNG file.
png_size() { # FILE OFFSET
    od -An -j "$2" -N 4 -t u1 "$1" | awk '{ print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }'
}

@test "the image is the same to the byte on 1, 2 and 3 ranks" {
    for n in 1 2 3; do
        on_ranks "$n" eval "$out" --data "$data" --threads 1 --png "$n.png" >"text$n"
        grep -q "^image    $n.png, 40 of [0-9]* mistakes" "text$n"
        [ "$(head -c 8 "$n.png" | od -An -t x1 | tr -d ' ')" = 89504e470d0a1a0a ]
        cmp 1.png "$n.png"
        diff <(grep -v '^image' text1) <(grep -v '^image' "text$n")
    done
    [ "$(png_size 1.png 16)" -eq 1100 ]
    [ -z "$(find . -name '.*.tmp-*')" ]
}

@test "the image replaces an older one, and its number of mistakes is chosen" {
    echo old >mistakes.png
    on_ranks 2 eval "$out" --data "$data" --png mistakes.png --worst 3 | grep '3 of'
    small=$(png_size mistakes.png 20)
    on_ranks 2 eval "$out" --data "$data" --png mistakes.png --worst 400 | grep '400 of'
    [ "$(png_size mistakes.png 20)" -gt $((10 * small)) ]
    [ "$(find . -maxdepth 1 -type f)" = ./mistakes.png ]
}

@test "more places than mistakes: all mistakes are shown" {
    "$dptrain" data synth digits --out tiny --train 64 --val 7
    for n in 1 3; do on_ranks "$n" eval "$out" --data tiny --threads 1 --png "$n.png" >text; done
    cmp 1.png 3.png
    grep -Eq '^image    3.png, ([1-7]) of \1 mistakes' text
}

@test "--json has all digits, identical on any number of ranks; an invalid path is rejected before any work" {
    for n in 1 3; do on_ranks "$n" eval "$out" --data "$data" --threads 1 --json "$n.json" >"text$n"; done
    cmp 1.json 3.json
    jq -es 'length == 1 and (.[0] | .record == "eval" and .split == "val" and .n_samples == 2000 and .matches_training_data
        and (.confusion | length == 10) and ([.confusion[][]] | add) == 2000
        and ([range(10) as $k | .confusion[$k][$k]] | add) / 2000 == .accuracy)' 1.json
    [ "$(sed -n 's/^loss *//p' text1)" = "$(printf %.4f "$(jq .loss 1.json)")" ]
    run "$dptrain" eval "$out" --data "$data" --json missing/folder/x.json
    echo "$output"
    [ "$status" -eq 4 ]
    [[ $output == *"missing/folder"* && $output != *accuracy* ]]
}

@test "without --png nothing is drawn and the output is unchanged" {
    on_ranks 2 eval "$out" --data "$data" --threads 1 >plain
    on_ranks 2 eval "$out" --data "$data" --threads 1 --png a.png | grep -v '^image' >drawn
    diff plain <(sed '${/^$/d}' drawn)
    [ "$(grep -c image plain)" -eq 0 ]
}

@test "an image that cannot be is refused in one message, before evaluating" {
    check() { # CODE PART-OF-THE-MESSAGE RANKS ARGUMENTS...
        run on_ranks "$3" eval "$out" --data "$data" "${@:4}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
        [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
        [[ $output != *accuracy* ]]
    }
    mkdir folder
    for n in 0 3; do
        check 4 "/nonexistent" "$n" --png /nonexistent/a.png
        check 4 "/proc" "$n" --png /proc/a.png
        check 2 "folder, not the name of a file" "$n" --png folder
        check 2 "folder, not the name of a file" "$n" --png folder/
        check 2 "from 1 to 400" "$n" --png a.png --worst 0
        check 2 "from 1 to 400" "$n" --png a.png --worst 401
        check 2 "expected a whole number" "$n" --png a.png --worst many
        check 2 "--worst requires --png" "$n" --worst 3
    done
    [ ! -e a.png ]
    [ -z "$(ls -A folder)" ]
}

@test "other data than training's is said to be used when training's is not there" {
    mkdir -p there/data elsewhere
    cp "$data"/* there/data
    (cd there && "$dptrain" train --data ./data --model lenet5 --steps 1 --batch 50 --no-eval --threads 1 --out run)
    mkdir -p default/mnist && cp "$data"/* default/mnist
    cd elsewhere
    DPTRAIN_DATA=../default "$dptrain" eval ../there/run --threads 1 | grep 'default/mnist (from .*DPTRAIN_DATA; .*\./data'
}
