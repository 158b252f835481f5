#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# stage_data.sh on this machine; over ssh it uses on_hosts.sh, which tests/cluster/ssh.bats tests.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    stage=$root/scripts/stage_data.sh
    from=$BATS_TEST_TMPDIR/from to=$BATS_TEST_TMPDIR/to
    mkdir -p "$from/a folder"
    head -c 3000000 /dev/urandom >"$from/one"
    head -c 1000 /dev/urandom >"$from/a folder/two"
    : >"$from/empty"
}

@test "a folder is copied completely, and existing files are kept" {
    run "$stage" --here --probe 1 "$BATS_TEST_TMPDIR/nowhere" "$from" "$to"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"no such folder: $BATS_TEST_TMPDIR/nowhere"* ]]
    [[ $output == *"$to is complete: 3 MB"*"3 MB of them copied"* ]]
    diff -r "$from" "$to"
    before=$(stat -c %i "$to/one")
    rm "$to/a folder/two"
    echo left >"$to/.one.part"
    run "$stage" --here "$from" "$to"
    [ "$status" -eq 0 ]
    diff -r "$from" "$to"
    [ "$(stat -c %i "$to/one")" = "$before" ]
    # A file with another size or time is copied again.
    echo more >>"$from/one"
    run "$stage" --here "$from" "$to"
    [ "$status" -eq 0 ]
    diff -r "$from" "$to"
}

@test "links are followed, a broken link makes a copy incomplete, and additional files are reported" {
    echo far >"$BATS_TEST_TMPDIR/far"
    mkdir "$BATS_TEST_TMPDIR/class"
    echo near >"$BATS_TEST_TMPDIR/class/1"
    ln -s "$BATS_TEST_TMPDIR/far" "$from/link"
    ln -s "$BATS_TEST_TMPDIR/class" "$from/class"
    mkdir "$to"
    touch "$to/an old one"
    run "$stage" --here "$from" "$to"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"$to also holds 1 files that $from does not have; the first is an old one"* ]]
    [ ! -L "$to/link" ]
    rm "$to/an old one"
    diff -r "$from" "$to"
    run "$stage" --here "$from" "$to"
    [[ $output != *"also holds"* ]]
    ln -s nowhere "$from/broken"
    run "$stage" --here "$from" "$to"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"broken cannot be copied"*"is incomplete"* ]]
}

@test "on a host, too, an unreadable folder makes a copy incomplete; the progress line ends with the copy" {
    # remote_script sends the script's functions, but not its settings.
    # shellcheck disable=SC2034 # used by remote_script, by name
    sources=("$from") dest=$to files=2 probe=1 every=60 dptrain=''
    (
        # shellcheck source=scripts/cluster/hosts.sh
        . "$root/scripts/cluster/hosts.sh"
        # shellcheck disable=SC1090 # between the two lines are functions alone
        . <(sed -n '/^# ---- on the hosts/,/^# ---- from here/p' "$stage")
        remote_script "sources dest files probe every dptrain" "$(sed -nE 's/^ *"(stage [a-z_ ]+)".*/\1/p' "$stage")"
    ) >"$BATS_TEST_TMPDIR/remote"
    # A reader of its output sees the end when the script ends.
    before=$SECONDS
    run timeout 50 bash -c "bash '$BATS_TEST_TMPDIR/remote' | cat" 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    ((SECONDS - before < 50))
    diff -r "$from" "$to"
    ln -s . "$from/loop"
    run timeout 50 bash "$BATS_TEST_TMPDIR/remote" 3>&-
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"is incomplete"* ]]
}

@test "each of several sources is measured" {
    cp -r "$from" "$BATS_TEST_TMPDIR/mount"
    run "$stage" --here --probe 1 "$from" "$BATS_TEST_TMPDIR/mount" "$to"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'MB/s$' <<<"$output")" -eq 2 ]
    diff -r "$from" "$to"
}

@test "names with blanks, newlines and tabs are preserved" {
    mkdir "$from/end "
    for name in 'end /of a name ' ' beginning' $'a line\nand another\n ' $'tab\t' '-n' '*'; do
        echo "$name" >"$from/$name"
    done
    run "$stage" --here --probe 1 "$from" "$from" "$to"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output != *"cannot be read"* ]]
    diff -r "$from" "$to"
    run "$stage" --here "$from" "$to"
    [ "$status" -eq 0 ]
    [[ $output == *" 0 MB of them copied"* && $output != *"also holds"* ]]
    # Existing files are not counted as missing.
    head -c 3000000 /dev/zero >"$from/end /of a name "
    "$stage" --here "$from" "$to"
    run "$stage" --here "$from" "$to"
    [[ $output == *"6 MB in "*" 0 MB of them copied"* ]]
}

@test "usage errors, a missing source and lack of space are reported" {
    run "$stage" --here "$from"
    [ "$status" -eq 2 ]
    run "$stage" --here from "$to"
    [ "$status" -eq 2 ]
    [[ $output == *"not an absolute path"* ]]
    run "$stage" --here "$from" "$from"
    [ "$status" -eq 2 ]
    run "$stage" --here "$from" "$from/a folder/copy"
    [ "$status" -eq 2 ]
    run "$stage" --here "$BATS_TEST_TMPDIR/nowhere" "$to"
    [ "$status" -eq 3 ]
    [ ! -e "$to" ]
    mkdir "$to"
    mount -t tmpfs -o size=1m tmpfs "$to" 2>/dev/null || skip "mounting is not allowed here"
    run "$stage" --here "$from" "$to"
    umount "$to"
    [ "$status" -eq 4 ]
    [[ $output == *"has 1 MB free, but 3 MB are missing"* ]]
}
