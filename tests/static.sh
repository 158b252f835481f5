#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the source tree, as TAP. Run in the root of the repository:
# tests/static.sh shellcheck|layers|links|headers|heads|format
# shellcheck disable=SC2317 # report calls the functions by name
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

# Lists sources that do not open with the licence line and a head comment.
check_heads() {
    local file
    find src kernels -name '*.c' -o -name '*.cu' | LC_ALL=C sort | while read -r file; do
        [[ $(head -c 256 "$file") == "/* $licence */"$'\n/* '[!$'\n']* ]] || echo "$file: no licence line, or no head below it"
    done | no_output
}

# Lists headers, tests and scripts without the licence line, which scripts have after the interpreter line.
check_licences() {
    local file
    {
        find src kernels tests scripts \( -name '*.h' -o -name '*.cuh' \) -o -path 'tests/*.c' -o -path 'tests/*.cc' -o -path 'scripts/*.c'
        find .ci scripts tests data -name '*.sh' -o -name '*.bash' -o -name '*.bats' -o -name '*.awk' -o -name '*.py'
    } | LC_ALL=C sort | while read -r file; do
        head -n 2 "$file" | grep -qF "$licence" || echo "$file: no licence line"
    done | no_output
}

# Lists output for people that does not pass through base/log or text/table, which keep control characters from
# terminals. dptrain train --print-config prints what --config reads.
check_prints() {
    { grep -rnE '(^|[^A-Za-z_])(printf|vprintf|puts|putchar)\(|(fprintf|vfprintf|fputs|fputc|fwrite)\(([^;]*, )?(stdout|stderr)[,)]' src \
        --include='*.[ch]' --exclude-dir=base --exclude-dir=text | grep -v '^src/cmd/train.c:[0-9]*:.*fputs(text, stdout)' || true; } | no_output
}

# Prints its input; succeeds if it is empty.
no_output() {
    ! grep .
}

failed=0
licence='SPDX-License-Identifier: MIT'
case $1 in
shellcheck)
    # Tests and benchmarks take a minute of CPU more.
    unless_slow=(! -path 'tests/*' ! -path 'scripts/bench/*')
    [[ -z ${DPTRAIN_TEST_SLOW:-} ]] || unless_slow=()
    mapfile -t files <<<"$(find .ci scripts tests data -maxdepth 3 -type f "${unless_slow[@]}" \
        \( -name '*.sh' -o -name '*.bats' -o -name '*.bash' -o -path .ci/run \) | LC_ALL=C sort)"
    echo 1..1
    # In one call, so that shared libraries are read once.
    report 1 "${#files[@]} scripts" shellcheck -x "${files[@]}"
    ;;
layers)
    echo 1..1
    report 1 "includes look down only" scripts/dev/check_layers.sh
    ;;
links)
    echo 1..1
    report 1 "links are valid" scripts/dev/check_links.sh
    ;;
headers)
    echo 1..1
    report 1 "every header compiles on its own" make -s check-headers
    ;;
heads)
    echo 1..3
    report 1 "every source opens with the licence line and a head" check_heads
    report 2 "every header, test and script has the licence line" check_licences
    report 3 "what people read is printed by base/log and text/table" check_prints
    ;;
format)
    if "${DPTRAIN_VENV:-build/venv}/bin/clang-format" --version >/dev/null 2>&1; then
        echo 1..1
        report 1 "sources are formatted (make format)" make -s check-format
    else
        echo "1..0 # SKIP no clang-format from scripts/install_deps.sh --test"
    fi
    ;;
*)
    echo "tests/static.sh: unknown check '$1'" >&2
    exit 2
    ;;
esac
exit "$failed"
