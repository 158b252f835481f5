#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tests the manual page and completion generated from the program's help, and their installation.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

setup() {
    common_setup
    manual=$root/scripts/dev/manual.sh page=$BATS_TEST_TMPDIR/dptrain.1
}

@test "the page has every command and every option" {
    "$manual" man "$dptrain" >"$page"
    local line
    while read -r line; do
        if [[ $line == *--* ]]; then
            line=${line#*--} line="--${line%% *}"
            grep -qF "\\fB${line//-/\\-}\\fR" "$page" || { echo "no option $line"; false; }
        elif [[ $line =~ ^run\ (-[A-Za-z]+)\  ]]; then # an option's other name, in its text
            grep -qE "also .*\\\\${BASH_REMATCH[1]}([,; ]|\$)" "$page" || { echo "no option ${BASH_REMATCH[1]}"; false; }
        elif [[ ! $line =~ ^(checkpoint|hosts)\ . ]]; then # their verbs have no options of their own
            grep -qxF ".SS dptrain $line" "$page" || { echo "no command $line"; false; }
        fi
    done <"$root/tests/interface/options.txt"
    # Options shared by several commands are described once.
    [ "$(grep -cF '\fB\-\-cuda\-graph\fR \fIauto|on|off\fR' "$page")" -eq 1 ]
    run cat "$page"
    [[ $output != *@VERSION@* && $output != *@COMMANDS@* ]]
}

@test "the page is well formed, and fits 80 columns" {
    "$manual" man "$dptrain" >"$page"
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W error "$page"
    fi
    command -v groff >/dev/null || skip "groff is not installed"
    groff -man -Tutf8 -k -ww -P-cbou -rLL=80n "$page" >"$BATS_TEST_TMPDIR/text" 2>"$BATS_TEST_TMPDIR/warnings"
    cat "$BATS_TEST_TMPDIR/warnings"
    [ ! -s "$BATS_TEST_TMPDIR/warnings" ]
    for section in NAME SYNOPSIS DESCRIPTION COMMANDS "EXIT STATUS" FILES ENVIRONMENT EXAMPLES "SEE ALSO"; do
        grep -qx "$section" "$BATS_TEST_TMPDIR/text" || { echo "no section $section"; false; }
    done
    grep -qx '   dptrain train' "$BATS_TEST_TMPDIR/text"
    grep -qx '       --batch N' "$BATS_TEST_TMPDIR/text"
    # Examples may be wider.
    [ "$(sed '/^EXAMPLES/,$d' "$BATS_TEST_TMPDIR/text" | LC_ALL=C.UTF-8 awk 'length > 82' | wc -l)" -eq 0 ]
}

# Prints the completions of the last word.
offered() { # WORDS...
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _dptrain
    printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd " "
}

offers() { # EXPECTED WORDS...
    local got
    got=$(offered "${@:2}")
    [[ $got == "$1" ]] || {
        echo "for '${*:2}' it offers '$got', not '$1'"
        return 1
    }
}

@test "completion: commands, verbs, options, values, files" {
    "$manual" bash "$dptrain" >"$BATS_TEST_TMPDIR/completion"
    # shellcheck source=/dev/null
    . "$BATS_TEST_TMPDIR/completion"
    complete -p dptrain
    mkdir -p "$BATS_TEST_TMPDIR/here/runs"
    touch "$BATS_TEST_TMPDIR/here/rules.txt" "$BATS_TEST_TMPDIR/here/compare.jsonl"
    cd "$BATS_TEST_TMPDIR/here"
    offers "$("$dptrain" --help=tsv | sed -n 's/^command\t\([^\t]*\).*/\1/p' | LC_ALL=C sort | paste -sd " ")" dptrain ''
    offers 'check checkpoint' dptrain ch
    offers 'pack show synth verify' dptrain data ''
    offers 'compare export show verify' dptrain checkpoint ''
    offers 'digits objects shapes' dptrain data synth ''
    offers 'comm conv' dptrain bench gemm co
    offers 'compare compare.jsonl' dptrain report c
    offers 'compare.jsonl' dptrain report compare c
    # All options of a command, and of train without one.
    offers "$("$dptrain" train --help all | sed -n 's/^  \(--[^ ]*\).*/\1/p' | cat - <(echo --help) \
        <(echo --no-checkpoint-async --no-eval --no-flip --no-nccl-register | tr ' ' '\n') | LC_ALL=C sort | paste -sd " ")" dptrain train --
    offers '--momentum' dptrain --mom
    offers '--version' dptrain --vers
    offers '--no-overwrite' dptrain train --no-o
    offers '--resize' dptrain data pack --re
    offers '' dptrain data show --re-
    # Values: choices, also after =; models; words or a file; folders; nothing for numbers.
    offers 'auto cpu cuda ref' dptrain train --device ''
    offers 'cpu cuda' dptrain train --device = c
    offers 'auto cpu cuda ref' dptrain --model lenet5 --device =
    offers 'resnet101 resnet152 resnet18 resnet34 resnet50' dptrain info --model res
    offers 'resnet101 resnet152 resnet18 resnet34 resnet50' dptrain bench step --step-model res
    offers 'auto compare.jsonl none rules.txt runs' dptrain train --resume ''
    offers 'runs' dptrain train --out ''
    offers '' dptrain train --batch ''
    offers '--minbytes' dptrain nccl-bw --mi
    offers 'compare.jsonl rules.txt runs' dptrain run -hostfile ''
    offers 'ab accept compare history html list run' dptrain regress ''
    # Options of scripts: capital ones, several in a line, each once; the values of N(s|m|h|d) are no words.
    offers '' dptrain train --mtbf ''
    offers '-H' dptrain run -H
    offers '-N' dptrain run -N
    for option in -{a,C,G,H,I,K,M,N,R,S,T}; do offers "$option" dptrain nccl-bw "$option"; done
    offers '--report_cputime --root --run_cycles' dptrain nccl-bw --r
    offers 'compare.jsonl rules.txt runs' dptrain regress -hostfile ''
    # The program's options after --.
    offers '--schedule --seed --shard-optimizer --share-gpu --shuffle-block --shuffle-window --skip-missing --skip-unmasked --stall-warning --stem --steps --sync-bn' dptrain run -np 2 -- train --s
    offers '--momentum' dptrain run -- --mom
    offers 'train' dptrain run -- tr
    offers '--momentum' dptrain run -np 2 -hostfile hosts train --mom
    offers '--maxbytes' dptrain run bench comm --maxb
    offers 'cpu cuda' dptrain run -hostfile hosts -- train --device = c
    offers '--datatype' dptrain nccl-bw hosts -- --datat
    offers '--share-gpu' dptrain health hosts -- --share-g
    # What has a help of its own, and its topics.
    offers 'check checkpoint' dptrain help ch
    offers 'check checkpoint' dptrain --help ch
    offers 'data detectors' dptrain train --help d
    offers 'data detectors' dptrain help train d
    offers 'all compare history html options' dptrain report --help ''
    offers 'output' dptrain help data pack ou
    offers 'network' dptrain run --help n
    # Files for commands that take some.
    offers 'rules.txt runs' dptrain eval ru
    offers 'rules.txt runs' dptrain checkpoint show ru
    offers 'rules.txt runs' dptrain hosts hostfile ru
    offers '' dptrain train ru
    offers '' dptrain none ''
}

# Runs the scripts by their commands, and the program's `run` by its door.
starts_scripts() { # PROGRAM RUN.SH
    local pair
    for pair in ssh-setup=setup_ssh health=cluster_health nccl-bw=nccl_bw regress=regress; do
        # Its help names the command, not a path that an installation does not have.
        "$1" "${pair%=*}" --help >"$BATS_TEST_TMPDIR/help" || return
        diff <("$root/scripts/${pair#*=}.sh" --help | sed -E 's,scripts/(run|regress)\.sh,dptrain \1,g; s,scripts/nccl_bw\.sh,dptrain nccl-bw,g
            s,scripts/setup_ssh\.sh,dptrain ssh-setup,g; s,scripts/cluster_health\.sh,dptrain health,g') "$BATS_TEST_TMPDIR/help" || return
        grep -q "^usage: dptrain ${pair%=*} " "$BATS_TEST_TMPDIR/help" || return
        run "$1" "${pair%=*}" --no-such-option
        [[ "$status" -eq 2 && "$output" == "${pair#*=}.sh: error: "* ]] || { echo "$pair: $output"; return 1; }
    done
    for pair in --help '--help all'; do
        # shellcheck disable=SC2086 # words
        "$1" run $pair >"$BATS_TEST_TMPDIR/help" || return
        # shellcheck disable=SC2086
        diff <("$2" $pair) "$BATS_TEST_TMPDIR/help" || return
        grep -q "^usage: dptrain run " "$BATS_TEST_TMPDIR/help" || return
    done
    # Messages name what was typed.
    run "$1" run --no-such-option
    [[ "$status" -eq 2 && "$output" == "dptrain run: error: "* ]] || { echo "run: $output"; return 1; }
    run "$2" --no-such-option
    [[ "$status" -eq 2 && "$output" == "run.sh: error: "* ]] || { echo "run.sh: $output"; return 1; }
}

@test "dptrain ssh-setup, health, nccl-bw and regress start the scripts, run.sh starts dptrain run, but not under mpirun" {
    starts_scripts "$dptrain" "$root/scripts/run.sh"
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 run "$dptrain" run -np 2
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"dptrain run starts mpirun itself: leave out the mpirun before it"* ]]
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 run "$root/scripts/run.sh" -np 2
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"starts mpirun itself: leave out the mpirun before it"* ]]
    WORLD_SIZE=2 RANK=0 run "$dptrain" health hosts # set in every pod of a PyTorchJob
    [[ "$status" -eq 2 && "$output" == *"env -u WORLD_SIZE dptrain health"* ]]
    mkdir "$BATS_TEST_TMPDIR/alone"
    cp "$dptrain" "$BATS_TEST_TMPDIR/alone/dptrain"
    run "$BATS_TEST_TMPDIR/alone/dptrain" health hosts
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"no cluster_health.sh in $BATS_TEST_TMPDIR/alone/scripts or "* ]]
    # The program blocks signals for its threads; the script gets none of that.
    mkdir "$BATS_TEST_TMPDIR/alone/scripts"
    printf '#!/bin/sh\ngrep -E "Sig(Blk|Ign)" /proc/self/status\n' >"$BATS_TEST_TMPDIR/alone/scripts/cluster_health.sh"
    chmod +x "$BATS_TEST_TMPDIR/alone/scripts/cluster_health.sh"
    diff <("$BATS_TEST_TMPDIR/alone/scripts/cluster_health.sh") <("$BATS_TEST_TMPDIR/alone/dptrain" health)
    # `run` needs no script beside it, and the door finds the program that it lies with, or one in the PATH.
    run -0 "$BATS_TEST_TMPDIR/alone/dptrain" run --help
    cp "$root/scripts/run.sh" "$BATS_TEST_TMPDIR/alone/scripts/"
    run -0 "$BATS_TEST_TMPDIR/alone/scripts/run.sh" --help network
    rm "$BATS_TEST_TMPDIR/alone/dptrain"
    PATH=${dptrain%/*}:$PATH run -0 "$BATS_TEST_TMPDIR/alone/scripts/run.sh" --help network
    PATH=/usr/bin:/bin run -4 "$BATS_TEST_TMPDIR/alone/scripts/run.sh" --help
    [[ "$output" == "run.sh: error: dptrain is not built; run make" ]]
}

@test "make install installs them for man and bash, and make uninstall removes them" {
    dest=$BATS_TEST_TMPDIR/dest
    mkdir -p "$dest/opt/bin" "$dest/opt/share/man"
    # Use the existing program, because other tests are running it.
    run make -s -C "$root" -o dptrain install DESTDIR="$dest" PREFIX=/opt
    echo "$output"
    [ "$status" -eq 0 ]
    diff <("$manual" man "$root/dptrain") "$dest/opt/share/man/man1/dptrain.1"
    while read -r command; do
        page=$dest/opt/share/man/man1/dptrain-$command.1
        grep -qE "^\.SS dptrain $command( |\$)" "$page"
        # The help's examples, with the name of the command.
        sed -n '/^\.SH EXAMPLES$/,/^\.SH EXIT/p' "$page" | sed 's/\\(ti/~/g; s/\\//g' >"$BATS_TEST_TMPDIR/examples"
        "$root/dptrain" "$command" --help | sed -n '/^Examples:$/,/^$/s/^  \([^#]\)/\1/p' |
            sed "s|scripts/[a-z_]*\.sh|dptrain $command|g" >"$BATS_TEST_TMPDIR/lines"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/lines")" -eq 3 ]
        while IFS= read -r line; do
            grep -qxF -e "$line" "$BATS_TEST_TMPDIR/examples" || { echo "$command: no example '$line'"; false; }
        done <"$BATS_TEST_TMPDIR/lines"
        if command -v man >/dev/null; then
            man --warnings -l "$page" >"$BATS_TEST_TMPDIR/text" 2>"$BATS_TEST_TMPDIR/warnings"
            grep -q "^ *dptrain-$command - " "$BATS_TEST_TMPDIR/text"
            [ ! -s "$BATS_TEST_TMPDIR/warnings" ]
        fi
    done < <("$root/dptrain" --help=tsv | sed -n 's/^command\t\([^\t]*\).*/\1/p')
    "$root/scripts/dev/check_links.sh" --root "$dest/opt/share/doc/dptrain"
    diff <("$manual" bash "$root/dptrain") "$dest/opt/share/bash-completion/completions/dptrain"
    diff <("$root/dptrain" --version) <("$dest/opt/bin/dptrain" --version)
    [ -z "$(nm "$dest/opt/bin/dptrain" 2>/dev/null)" ]
    starts_scripts "$dest/opt/bin/dptrain" "$dest/opt/share/dptrain/scripts/run.sh"
    run env -u DPTRAIN_BIN "$dest/opt/bin/dptrain" run -np 1 --dry-run -- train
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *" $dest/opt/bin/dptrain train"* ]]
    # The recipes, and what they start.
    recipes=$dest/opt/share/dptrain/scripts/recipes
    diff -r "$root/scripts/recipes" "$recipes"
    env -u DPTRAIN_BIN "$recipes/mnist_advanced.sh" -np 1 --print-config | grep -qx 'model = mnist-cnn'
    run env -u DPTRAIN_BIN "$recipes/coco_trunk.sh" --help
    [ "$status" -eq 0 ]
    make -s -C "$root" -o dptrain uninstall DESTDIR="$dest" PREFIX=/opt
    [ "$(cd "$dest/opt" && find . | LC_ALL=C sort | paste -sd ' ')" = ". ./bin ./share ./share/man" ]
}

@test "manual.sh: usage errors" {
    run "$manual" --help
    [ "$status" -eq 0 ]
    [[ $output == "usage: scripts/dev/manual.sh man|bash"* ]]
    run "$manual" html
    [ "$status" -eq 2 ]
    [[ $output == *"unknown kind 'html'"* ]]
    run "$manual" man "$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 2 ]
    [[ $output == *"no program"* ]]
}
