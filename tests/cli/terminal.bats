#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a run prints while it works: bar or lines, -q and -v, at terminals of any width. No assertion depends on time.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
# shellcheck source=tests/cli/terminal.bash
load terminal

bats_require_minimum_version 1.5.0

setup_file() { make_tiny 400 64; }

# Trains at a terminal of COLUMNS columns; prints what it received.
at_terminal() { # COLUMNS TERM ARGUMENTS...
    local command="stty cols $1; '$dptrain' train --data '$tiny' --threads 1 --batch 50 --steps 12 --out '$out' --overwrite ${*:3}"
    TERM=$2 script -qec "$command" /dev/null </dev/null
}

# The bars among that, one per line, without escape sequences.
bars() { tr '\r' '\n' | sed -n 's/\x1b\[J$//p' | grep '\[[#-]*\]'; }

@test "the bar fits the terminal, shows the share of the whole run, and is full at the last step" {
    need_terminal
    for columns in 120 80 45; do
        at_terminal "$columns" xterm >"$BATS_TEST_TMPDIR/said"
        bars <"$BATS_TEST_TMPDIR/said" >"$BATS_TEST_TMPDIR/bars"
        awk -v most="$columns" 'length($0) >= most { exit 1 }' "$BATS_TEST_TMPDIR/bars"
        # 12 steps are one and a half epochs of 8.
        grep -E '2/2 \[#{5,}\] 100 % .* acc.* [0-9.]+  [0-9:]+ left$' "$BATS_TEST_TMPDIR/bars"
        [ "$(grep -E '\[#+\]' "$BATS_TEST_TMPDIR/bars" | grep -v evaluating | grep -vc '100 %')" -eq 0 ]
    done
}

@test "after each redraw the cursor is at the start of the line, so that a resized line is erased whole" {
    need_terminal
    at_terminal 80 xterm >"$BATS_TEST_TMPDIR/said"
    # Each bar ends by erasing what follows, and returns.
    [ "$(grep -aoE '\[[#-]+\]' "$BATS_TEST_TMPDIR/said" | wc -l)" -eq \
        "$(grep -aoP '\[[#-]+\][^\r]*\x1b\[J\r' "$BATS_TEST_TMPDIR/said" | wc -l)" ]
}

@test "TERM=dumb gets lines, without escape sequences; so does a pipe" {
    on_ranks 0 train --data "$tiny" --steps 12 --batch 50 --log-every 6 --out "$out" --overwrite >"$BATS_TEST_TMPDIR/said"
    [ "$(grep -c '^epoch [12]/2  step' "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    need_terminal
    for term in dumb ''; do
        at_terminal 80 "$term" --log-every 6 >"$BATS_TEST_TMPDIR/said"
        run -1 grep $'\e' "$BATS_TEST_TMPDIR/said"
        [ "$(grep -cE '^epoch [12]/2  step (6|12)/12  .* images/s  loss [0-9.]+  accuracy [0-9.]+  [0-9:]+ left' \
            "$BATS_TEST_TMPDIR/said")" -eq 2 ]
    done
}

@test "--progress bar, lines, none, and -q, -v" {
    short=(train --data "$tiny" --threads 1 --batch 50 --steps 12 --log-every 6 --out "$out" --overwrite)
    COLUMNS=60 "$dptrain" "${short[@]}" --progress bar >"$BATS_TEST_TMPDIR/bar"
    bars <"$BATS_TEST_TMPDIR/bar" | grep ' 100 %'
    for none in "--progress none" -q --quiet; do
        # shellcheck disable=SC2086 # two words
        "$dptrain" "${short[@]}" $none >"$BATS_TEST_TMPDIR/none" 2>&1
        run -1 grep -E 'step 6/12|\[#' "$BATS_TEST_TMPDIR/none"
        grep '^finished after 12 steps' "$BATS_TEST_TMPDIR/none"
    done
    run -1 grep -E '^  model|^profile' "$BATS_TEST_TMPDIR/none"
    [ "$(grep -c '^epoch' "$BATS_TEST_TMPDIR/none")" -eq 2 ]
    "$dptrain" "${short[@]}" -v >"$BATS_TEST_TMPDIR/said"
    grep -E '^  compute conv1.*: forward [a-z0-9_/]+, backward_data ' "$BATS_TEST_TMPDIR/said"
    grep '^  layer ' "$BATS_TEST_TMPDIR/said"
    run -2 "$dptrain" "${short[@]}" -q -v
    [[ $output == *"--quiet and --verbose are mutually exclusive"* ]]
    run -2 "$dptrain" "${short[@]}" --progress dots
    [[ $output == *"invalid --progress 'dots': expected one of auto, bar, lines, none"* ]]
    run -2 "$dptrain" report -q
    [[ $output == *"unknown option --quiet"* ]]
    need_terminal
    at_terminal 80 xterm --progress lines --log-every 6 | grep -c '  step 6/12  '
}

@test "run.sh passes on the terminal and its width; none with TERM=dumb" {
    need_terminal
    printed() { # TERM
        TERM=$1 script -qec "stty cols 55; DPTRAIN_BIN=/usr/bin/env '$root/scripts/run.sh' -np 1 --" /dev/null </dev/null | tr -d '\r'
    }
    printed xterm >"$BATS_TEST_TMPDIR/env"
    grep -x COLUMNS=55 "$BATS_TEST_TMPDIR/env"
    grep -x DPTRAIN_PROGRESS=1 "$BATS_TEST_TMPDIR/env"
    grep -x "DPTRAIN_TERMINAL=$(uname -n):/dev/.*" "$BATS_TEST_TMPDIR/env"
    run -1 grep DPTRAIN_PROGRESS <(printed dumb)
}

# The title of a terminal, a sequence begun by C1 in UTF-8, and one by the raw byte.
@test "control characters in names of files, classes, fields and options reach no terminal; other text does" {
    local evil=$'é\e]0;x\a\xc2\x9b2J\x9b3J\x7f' verb
    cd "$BATS_TEST_TMPDIR" || return
    "$dptrain" data show "$tiny" --out one.png --count 1 --tile 64 >/dev/null
    mkdir -p "set$evil"/{a,classname}
    cp one.png "set$evil/a/1.png"
    cp one.png "set$evil/classname/2.png"
    cp one.png "some$evil.png"
    printf '{"record":"step","%s":1}\n{"record":"k%s"}\n' 'é\u001b]0;x\u0007\u009b2J' 'é\u001b]0;x\u0007\u009b2J' >bad.jsonl
    words=(--model mlp --input-size 8 --device ref --threads 1)
    {
        "$dptrain" data show "set$evil"
        "$dptrain" data verify "none$evil" || true
        "$dptrain" train --data "set$evil" "${words[@]}" --batch 2 --steps 1 --out run --verbose
        "$root/build/tests/tools/retable" run/ckpt-000000000001.h5 classname '\u001b]0;x\u0007\u009b2'
        "$dptrain" checkpoint show run
        "$dptrain" checkpoint verify run "none$evil" || true
        "$dptrain" eval run --data "set$evil" --split train --device ref --threads 1 || true # the class was renamed
        "$dptrain" predict run "some$evil.png" "none$evil.png" --device ref --threads 1 --json predicted || true
        cat predicted
        "$dptrain" report run/metrics.jsonl predicted
        for verb in '' --check '--format csv' '--format markdown'; do
            # shellcheck disable=SC2086 # words
            "$dptrain" report $verb bad.jsonl "none$evil" || true
        done
    } >said 2>&1
    # Each command named some of it.
    cat -v said
    [ "$(LC_ALL=C grep -c ']0;x' said)" -gt 20 ]
    grep -qE 'data += seté\?\]0;x' said
    grep -qE '^  [01]\.[0-9]+  \?\]0;x' said
    grep -qE '^bad.jsonl:1: step: unknown field "é\?\]0;x' said
    run env LC_ALL=C grep -anP '[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|(?<![\x80-\xff])[\x80-\x9f]' said
    echo "$output" | cat -v
    [ "$status" -eq 1 ]
}
