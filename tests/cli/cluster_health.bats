#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/cluster_health.sh without hosts: the search by groups, and handling a check that does not start.
# shellcheck disable=SC2154,SC2030,SC2031 # common.bash and bats set variables; every test is a subshell, on purpose

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    group_test=$BATS_TEST_DIRNAME/../../scripts/cluster/group_test.sh
}

# A launcher that fails if all hosts of one of the bad sets take part: "3", or "1+5".
group_fails() { # HOST...
    local set host all
    n_calls=$((n_calls + 1))
    for set in $bad_sets; do
        all=yes
        for host in ${set//+/ }; do
            if [[ " $* " != *" $host "* ]]; then all=no; fi
        done
        if [[ $all == yes ]]; then return 0; fi
    done
    return 1
}

@test "each bad host of 2 to 64 is found within twice the binary logarithm" {
    # bats traces every command, which would take minutes here.
    cat >"$BATS_TEST_TMPDIR/all.sh" <<'END'
. "$1"
for ((n = 2; n <= 64; n++)); do
    mapfile -t hosts < <(seq 1 "$n")
    for ((up = 0; 1 << up < n; up++)); do :; done
    worst=0
    for ((bad = 1; bad <= n; bad++)); do
        n_calls=0 bad_sets=$bad
        find_bad_hosts "${hosts[@]}"
        [[ ${bad_hosts[*]} == "$bad" ]] || { echo "of $n: $bad, found ${bad_hosts[*]}"; exit 1; }
        if ((n_calls > worst)); then worst=$n_calls; fi
    done
    echo "$n hosts: at most $worst starts"
    ((worst >= up && worst <= 2 * up)) || exit 1
done
END
    declare -f group_fails >>"$BATS_TEST_TMPDIR/functions.sh"
    run bash -c '. "$1"; set -- "$2" "$3"; . "$2"' - "$BATS_TEST_TMPDIR/functions.sh" "$group_test" \
        "$BATS_TEST_TMPDIR/all.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 63 ]
}

@test "one of two bad hosts is found, and two that fail only together" {
    # shellcheck source=scripts/cluster/group_test.sh
    . "$group_test"
    mapfile -t hosts < <(seq 1 16)
    n_calls=0 bad_sets="6 13"
    find_bad_hosts "${hosts[@]}"
    [ "${bad_hosts[*]}" = 6 ]
    for pair in 1+16 8+9 2+3 11+12 5+14; do
        n_calls=0 bad_sets=$pair
        find_bad_hosts "${hosts[@]}"
        echo "$pair: ${bad_hosts[*]} in $n_calls"
        [ "${bad_hosts[*]}" = "${pair/+/ }" ]
        [ "$n_calls" -le 16 ]
    done
    # Four of which all are needed cannot be taken apart any further than that.
    bad_sets=1+2+9+10
    find_bad_hosts "${hosts[@]}"
    [ "${bad_hosts[*]}" = "1 2 9 10" ]
    # It only failed once.
    bad_sets=''
    find_bad_hosts 1 2 3 4
    [ "${bad_hosts[*]}" = "1 2 3 4" ]
}

# The script with stand-ins for run.sh and setup_ssh.sh. RUN is run.sh's body, which finds the hosts in $included.
stand_ins() { # RUN
    mkdir -p "$out/scripts"
    cp "$BATS_TEST_DIRNAME"/../../scripts/{cluster_health,lib}.sh "$out/scripts"
    cp -r "$BATS_TEST_DIRNAME"/../../scripts/cluster "$out/scripts"
    {
        echo "#!/usr/bin/env bash"
        # shellcheck disable=SC2016 # for the stand-in
        echo 'echo "$*" >>"${0%/*}/calls"; included=all
            for ((i = 1; i < $#; i++)); do
                if [[ ${!i} == --include ]]; then i=$((i + 1)); included=@${!i}@; fi
            done'
        echo "$1"
    } >"$out/scripts/run.sh"
    # shellcheck disable=SC2016 # for the stand-in
    printf '#!/bin/sh\n%s\n' 'echo "$*" >>"${0%/*}/ssh_calls"; exit ${SSH_CODE:-0}' >"$out/scripts/setup_ssh.sh"
    chmod +x "$out"/scripts/*.sh
    health=$out/scripts/cluster_health.sh
    export DPTRAIN_BIN=$dptrain
}

@test "a host that keeps the check from starting is named" {
    # shellcheck disable=SC2016 # for the stand-in
    stand_ins 'if [[ $included == all || $included == *@c@* ]]; then
        echo "run.sh: error: it printed nothing" >&2
        exit 5
    fi'
    run "$health" --ssh-port 2222 --ports 20000-20099 a,b:2,c,d -- --only topology
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "${lines[-1]}" == *"c keeps the job from starting"* ]]
    [ "$(wc -l <"$out/scripts/calls")" -le 5 ]
    grep -qx -- "-hostfile a,b:2,c,d --ports 20000-20099 --timeout-start 60 --grace 1 --ssh-port 2222 -- \
check --only topology" "$out/scripts/calls"
    grep -q -- '--ssh-port 2222 --include a@b -- check' "$out/scripts/calls"
    [ "$(<"$out/scripts/ssh_calls")" = "--check --ssh-port 2222 a,b:2,c,d" ]
}

@test "options of the check follow --; the search for a bad host writes and drains nothing" {
    # shellcheck disable=SC2016 # for the stand-in
    stand_ins 'if [[ $included == all || $included == *@b@* ]]; then exit 5; fi; exit 1'
    words=(--level 2 --profile p --allow-busy --expect-busbw 10)
    run "$health" --no-ssh a,b -- "${words[@]}" --history h --drain-command 'true {host}' --write-profile=w --json j
    echo "$output"
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == *"b keeps the job from starting"* ]]
    grep -qx -- ".* -- check ${words[*]} --history h --drain-command true {host} --write-profile=w --json j" \
        <(head -n 1 "$out/scripts/calls")
    [ "$(sed 1d "$out/scripts/calls" | grep -cv -- "-- check ${words[*]}\$")" -eq 0 ]
    # A cluster whose hosts were drained is not ready.
    stand_ins 'echo "drained b: why"; exit 1'
    run "$health" --no-ssh a,b -- --drain-command true
    [ "$status" -eq 1 ]
    [[ $output == *"drained b: why"* ]]
}

@test "what the check says is passed on, and no search follows an answer" {
    # shellcheck disable=SC2016 # for the stand-in
    stand_ins 'echo "the table"; exit ${RUN_CODE:-0}'
    for code in 0 1 2 3; do
        RUN_CODE=$code run "$health" --transport ib --json x.json a,b
        [ "$status" -eq "$code" ]
        [[ "$output" == *"the table"* ]]
    done
    [ "$(wc -l <"$out/scripts/calls")" -eq 4 ]
    [[ $(tail -n 1 "$out/scripts/calls") == *"--transport ib "*"check --expect-transport ib --json x.json" ]]
    run "$health" --no-ssh --expect-gpus 8 --strict a,b
    [[ $(tail -n 1 "$out/scripts/calls") == *"-- check --expect-gpus 8 --strict" ]]
    sed -i '$d' "$out/scripts/calls"
    SSH_CODE=1 run "$health" a,b
    [ "$status" -eq 1 ]
    [[ "${lines[-1]}" == *"ssh does not work"* ]]
    [ "$(wc -l <"$out/scripts/calls")" -eq 4 ]
    RUN_CODE=5 run "$health" --no-ssh --no-search a,b
    [ "$status" -eq 5 ]
}

@test "a message that names a host is believed; one that names its speaker is not" {
    # shellcheck disable=SC2016 # for the stand-in
    stand_ins 'echo "$SAID" >&2; exit 5'
    SAID='run.sh: error: b.x: no answer' run "$health" a.x,b.x,c.x
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(wc -l <"$out/scripts/calls")" -eq 1 ]
    SAID='[a.x:123] ORTE has lost communication' run "$health" a.x,b.x,c.x
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(wc -l <"$out/scripts/calls")" -gt 2 ]
}

@test "a check that does not end is ended, within its deadline" {
    stand_ins 'exec sleep 600'
    SECONDS=0
    run "$health" --timeout 1 --no-search a,b
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"did not end within 1 s"* ]]
    [ "$SECONDS" -lt 60 ]
}

@test "wrong use, and hosts that cannot be read" {
    stand_ins true
    run "$health" --help
    [ "$status" -eq 0 ]
    for arguments in "" "--timeout x a,b" "--expect-gpus many a,b" "--frobnicate a,b" "--json" "a:0,b"; do
        # shellcheck disable=SC2086 # words
        run "$health" $arguments
        echo "$arguments: $output"
        [ "$status" -eq 2 ]
    done
    run "$health" "$out/none.txt"
    [ "$status" -eq 3 ]
}
