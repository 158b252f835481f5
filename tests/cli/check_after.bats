#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain check --history and --drain-command. tests/unit/test_check_after.c has more hosts, and lines of strangers.
# shellcheck disable=SC2154 # common.bash and bats set variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    name=$(hostname)
    name=${name:0:63}
    cd "$BATS_TEST_TMPDIR" || return
}

# Two hosts with a config each; they fail if it differs.
with_configs() { # ONE OTHER ARGUMENTS...
    mkdir -p 0 1
    echo "epochs = $1" >0/run.conf
    echo "epochs = $2" >1/run.conf
    mpi_flags 2 && mpi_parts
    run mpirun "${MPI_FLAGS[@]}" -np 1 --wdir 0 "$dptrain" check --ranks-per-host 1 --only versions --config run.conf "${@:3}" : \
        -np 1 --wdir 1 "$dptrain" check --ranks-per-host 1 --only versions --config run.conf "${@:3}"
    echo "$output"
}

@test "--history: a host that failed before is named although it is fine now" {
    history=$PWD/new/history.jsonl
    with_configs 3 3 --history "$history"
    [ "$status" -eq 0 ]
    [[ $output != *"before this one"* ]]
    with_configs 3 4 --history "$history"
    [ "$status" -eq 1 ]
    with_configs 3 3 --history "$history"
    [ "$status" -eq 0 ]
    grep -qx "$name#2 failed 1 of the 2 checks before this one (versions config 1)" <<<"$output"
    [ "$(grep -c "before this one" <<<"$output")" -eq 1 ]
    check_records "$history"
    [ "$(jq -c '[.ready, (.hosts | map(.status))]' "$history" | xargs)" = \
        "[true,[ok,ok]] [false,[ok,fail]] [true,[ok,ok]]" ]
    "$dptrain" report "$history" | grep -q 'versions config fail'
    printf 'x\n{"record":"step"}\n' >>"$history"
    with_configs 3 3 --history "$history"
    [ "$status" -eq 0 ]
    grep -q "^2 lines of .*history.jsonl are not read" <<<"$(tr -s '\n ' '  ' <<<"$output" | sed 's/2 lines/\n&/')"
}

@test "--history: what cannot be written is found before the checks, a full disk does not cost the verdict" {
    mkfifo fifo
    echo kept >target
    ln -s target link
    for file in "fifo:3" "link:3" "/dev/full:3" "/proc/none/file:4" "$PWD:2"; do
        run "$dptrain" check --only clock --history "${file%:*}"
        echo "$file: $status $output"
        [ "$status" -eq "${file##*:}" ]
        [[ $output == *"${file:0:4}"* && $output != *"checking clock"* ]]
    done
    [ "$(<target)" = kept ]
    if [[ $EUID -eq 0 ]]; then
        echo mine >theirs
        chown 12345 theirs
        run "$dptrain" check --only clock --history theirs
        [ "$status" -eq 3 ]
        [[ $output == *"user 12345"* ]]
    fi
    printf '%01023d\n' 0 >full
    run bash -c 'ulimit -f 1; exec "$0" check --only clock --history full' "$dptrain"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"full lacks this check: File too large"* ]]
}

@test "--drain-command: gets host and reason as words; its failure is a warning" {
    printf '#!/bin/sh\nprintf "<%%s>\\n" "$@"  >>words\n[ ! -e broken ] || { echo "no such node"; echo more; exit 7; }\n' >drain
    chmod +x drain
    args=(check --device cpu --only gpu --expect-gpus 500)
    # shellcheck disable=SC2016 # for no shell to expand
    run "$dptrain" "${args[@]}" --drain-command './drain $(touch x)   NodeName={host} Reason={reason};'
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(<words)" = "<\$(touch>
<x)>
<NodeName=$name>
<Reason=dptrain check: gpu expected GPUs: $(sed -n 's/.*expected GPUs: //p' <<<"$output" | tail -n 1);>" ]
    grep -q "^drained $name: gpu expected GPUs: .* instead of 500$" <<<"$output"
    rm words
    touch broken
    run "$dptrain" "${args[@]}" --drain-command ./drain
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"$name is not drained: ./drain ended with exit code 7: no such node"* && $output != *more* ]]
    [ "$(wc -l <words)" -eq 2 ]
    rm words
    run "$dptrain" check --only clock --drain-command ./drain
    [ "$status" -eq 0 ]
    [ ! -e words ]
}

@test "--drain-command: what cannot be run is refused before the checks" {
    for command in '' ' ' "sh -c 'drain it'" "/none/drain" "no-such-drain {host}" "$PWD"; do
        run "$dptrain" check --only clock --drain-command="$command"
        echo "$command: $output"
        [ "$status" -eq 2 ]
        [[ $output == *--drain-command* && $output != *"checking clock"* ]]
    done
    run "$dptrain" check --only clock --ranks-per-host 1 --drain-command true
    [ "$status" -eq 2 ]
    [[ $output == *--ranks-per-host* ]]
}
