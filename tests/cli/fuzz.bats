#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The fuzz targets build, and have no findings within a few seconds; scripts/dev/fuzz.sh keeps findings.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

@test "every fuzz target runs without a finding" {
    only_slow "builds for a minute"
    command -v clang >/dev/null || skip "clang is not installed"
    run "$root/scripts/dev/fuzz.sh" --seconds 5
    echo "$output"
    [ "$status" -eq 0 ]
    for target in $("$root/scripts/dev/fuzz.sh" --list); do [[ "$output" == *"| $target | 5 | "* ]]; done
}

@test "fuzz.sh lists its targets, and rejects others" {
    run "$root/scripts/dev/fuzz.sh" --list
    [ "$status" -eq 0 ]
    [[ "$output" == *png* && "$output" == *jpeg* && "$output" == *idx* ]]
    run "$root/scripts/dev/fuzz.sh" gif
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown target 'gif'"* ]]
}
