#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks of the source itself, as TAP. Run from the repository's root: tests/static.sh shellcheck|layers|links|headers
set -euo pipefail

report() { # NUMBER NAME COMMAND...
    local number=$1 name=$2 output
    shift 2
    if output=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf '%s\n' "$output" | sed 's/^/# /'
        failed=1
    fi
}

failed=0
case $1 in
shellcheck)
    mapfile -t files <<<"$(find .ci scripts tests data -maxdepth 3 -type f \
        \( -name '*.sh' -o -name '*.bats' -o -name '*.bash' -o -path .ci/run \) | LC_ALL=C sort)"
    echo 1..1
    # In one go: what many of them source is read once.
    report 1 "${#files[@]} scripts" shellcheck -x "${files[@]}"
    ;;
layers)
    echo 1..1
    report 1 "includes look down only" scripts/check_layers.sh
    ;;
links)
    echo 1..1
    report 1 "links lead somewhere" scripts/dev/check_links.sh
    ;;
headers)
    echo 1..1
    report 1 "every header compiles on its own" make -s check-headers
    ;;
*)
    echo "tests/static.sh: there is no check '$1'" >&2
    exit 2
    ;;
esac
exit "$failed"
