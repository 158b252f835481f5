#!/usr/bin/env bats
# stage_data.sh on this machine; over ssh it is on_hosts.sh, which tests/cluster/ssh.bats has.
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

@test "a folder is copied whole, and what is there is kept" {
    run "$stage" --here --probe 1 "$BATS_TEST_TMPDIR/nowhere" "$from" "$to"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"there is no $BATS_TEST_TMPDIR/nowhere"* ]]
    [[ $output == *"$to is whole: 3 MB"*"3 MB of them copied"* ]]
    diff -r "$from" "$to"
    before=$(stat -c %i "$to/one")
    rm "$to/a folder/two"
    echo left >"$to/.one.part"
    run "$stage" --here "$from" "$to"
    [ "$status" -eq 0 ]
    diff -r "$from" "$to"
    [ "$(stat -c %i "$to/one")" = "$before" ]
    # Another size or time is another file.
    echo more >>"$from/one"
    run "$stage" --here "$from" "$to"
    [ "$status" -eq 0 ]
    diff -r "$from" "$to"
}

@test "each of several sources is measured" {
    cp -r "$from" "$BATS_TEST_TMPDIR/mount"
    run "$stage" --here --probe 1 "$from" "$BATS_TEST_TMPDIR/mount" "$to"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'MB/s$' <<<"$output")" -eq 2 ]
    diff -r "$from" "$to"
}

@test "wrong words, no source and no room are said" {
    run "$stage" --here "$from"
    [ "$status" -eq 2 ]
    run "$stage" --here from "$to"
    [ "$status" -eq 2 ]
    [[ $output == *"not an absolute path"* ]]
    run "$stage" --here "$from" "$from"
    [ "$status" -eq 2 ]
    run "$stage" --here "$BATS_TEST_TMPDIR/nowhere" "$to"
    [ "$status" -eq 3 ]
    [ ! -e "$to" ]
    mkdir "$to"
    mount -t tmpfs -o size=1m tmpfs "$to" 2>/dev/null || skip "mounting is not allowed here"
    run "$stage" --here "$from" "$to"
    umount "$to"
    [ "$status" -eq 4 ]
    [[ $output == *"has room for 1 MB, and 3 MB are missing"* ]]
}
