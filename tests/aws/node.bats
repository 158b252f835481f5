#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# node.sh as ParallelCluster runs it, as root on a host of its own: /etc and /var/log are the host's, S3 is a folder.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # variables of cluster.bash

load ../cluster/cluster

setup_file() {
    cluster_try 1 || return 0
    local folder
    # The host's own.
    for folder in /etc/security /etc/systemd /var/log; do
        [[ ! -d $folder ]] || cluster_exec node1 mount -t tmpfs tmpfs "$folder"
    done
}

setup() {
    local folder
    cluster_or_skip
    for folder in /etc/security /etc/systemd /var/log; do [[ -d $folder ]] || skip "no $folder here to cover"; done
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    place=$cluster/shared/$BATS_TEST_NUMBER
    mkdir -p "$place"/{bin,answers,s3/data-1/lab,shared}
    export CALLS=$place/calls ANSWERS=$place/answers S3=$place/s3 DPTRAIN_SHARED=$place/shared PATH=$place/bin:$PATH
    cp "$root/tests/aws/recorder.sh" "$place/bin/aws"
    cp "$root/scripts/aws/node.sh" "$place/node.sh"
    lab=$S3/data-1/lab
}

teardown_file() { cluster_down; }

# Uploads a bundle whose program prints its version, or fails.
bundle() { # VERSION [COMMAND]
    mkdir -p "$place/new/dptrain-$1-x86_64"
    printf '#!/bin/sh\n%s\n' "${2:-echo dptrain $1}" >"$place/new/dptrain-$1-x86_64/dptrain"
    chmod +x "$place/new/dptrain-$1-x86_64/dptrain"
    rm -f "$lab"/dptrain-*
    tar -C "$place/new" -czf "$lab/dptrain-$1-x86_64.tar.gz" "dptrain-$1-x86_64"
    (cd "$lab" && sha256sum dptrain-* >SHA256SUMS)
}

node() { cluster_exec node1 "$place/node.sh" "$@"; }

@test "head: the bundle is unpacked, again nothing is done, and a new one replaces it for new jobs" {
    bundle 1.0
    run node head s3://data-1/lab trainer
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$("$DPTRAIN_SHARED/dptrain/dptrain")" = "dptrain 1.0" ]
    first=$(readlink -f "$DPTRAIN_SHARED/dptrain")
    [ "$(stat -c %u "$DPTRAIN_SHARED/work" "$DPTRAIN_SHARED/data" | sort -u)" = 60000 ]
    # The host's log, not this machine's.
    cluster_exec node1 grep -q 'node.sh: .* is dptrain 1.0 in ' /var/log/dptrain-node.log
    : >"$CALLS"
    run node head s3://data-1/lab trainer
    [ "$status" -eq 0 ]
    [ "$(wc -l <"$CALLS")" -eq 1 ]
    bundle 1.1
    run node head s3://data-1/lab/ trainer
    echo "$output"
    [[ "$status" -eq 0 && "$("$DPTRAIN_SHARED/dptrain/dptrain")" == "dptrain 1.1" && -x $first/dptrain ]]
    [ -z "$(find "$DPTRAIN_SHARED" -name '.node.*')" ]
}

@test "head: what is wrong is logged, and the program that is there stays" {
    bundle 1.0
    node head s3://data-1/lab trainer
    bundle 1.1
    echo more >>"$lab/dptrain-1.1-x86_64.tar.gz"
    run node head s3://data-1/lab trainer
    echo "$output"
    [[ "$status" -eq 3 && "$output" == *"error: s3://data-1/lab/dptrain-1.1-x86_64.tar.gz differs from its SHA-256 sum"* ]]
    cluster_exec node1 grep -q 'error: .* differs from its SHA-256 sum' /var/log/dptrain-node.log
    bundle 1.2 'echo needs a later glibc >&2; exit 1'
    run node head s3://data-1/lab trainer
    [[ "$status" -eq 4 && "$output" == *"does not run on this node: needs a later glibc"* ]]
    rm "$lab"/*
    run node head s3://data-1/lab trainer
    [[ "$status" -eq 4 && "$output" == *"cannot copy s3://data-1/lab/SHA256SUMS"*"scripts/aws.sh put"* ]]
    echo "no sums" >"$lab/SHA256SUMS"
    run node head s3://data-1/lab trainer
    [[ "$status" -eq 3 && "$output" == *"names no bundle"* ]]
    run node head s3://data-1/lab nobody-here
    [[ "$status" -eq 2 && "$output" == *"no user nobody-here"* ]]
    DPTRAIN_SHARED=$place/none run node head s3://data-1/lab trainer
    [[ "$status" -eq 4 && "$output" == *"is the file system mounted?"* ]]
    [ "$("$DPTRAIN_SHARED/dptrain/dptrain")" = "dptrain 1.0" ]
    [ -z "$(find "$DPTRAIN_SHARED" -name '.node.*')" ]
    for words in "" "head" "head lab trainer" "worker now" "data s3://data-1/lab" "data data-1 x"; do
        # shellcheck disable=SC2086 # these are words
        run node $words
        [ "$status" -eq 2 ]
    done
    run node --help
    [[ "$status" -eq 0 && "$output" == "usage: node.sh head"* ]]
}

@test "worker: limits of logins and of slurmd, written once" {
    run node worker
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"wrote /etc/security/limits.d/90-dptrain.conf"*"wrote /etc/systemd/system/slurmd.service.d/90-dptrain.conf"* ]]
    cluster_exec node1 grep -qx '\* - memlock unlimited' /etc/security/limits.d/90-dptrain.conf
    cluster_exec node1 grep -qx 'LimitMEMLOCK=infinity' /etc/systemd/system/slurmd.service.d/90-dptrain.conf
    [ ! -e /etc/security/limits.d/90-dptrain.conf ]
    run node worker
    [[ "$status" -eq 0 && -z "$output" ]]
}

@test "data: every file with the right bytes; what is there is kept; a wrong sum is named" {
    mkdir -p "$lab/data/mnist/sub"
    echo one >"$lab/data/mnist/a"
    echo two >"$lab/data/mnist/sub/b c"
    (cd "$lab/data/mnist" && find . -type f -printf '%P\0' | xargs -0 sha256sum >../mnist.SHA256SUMS)
    run node data s3://data-1/lab mnist
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"/data/mnist is complete: 2 files"* ]]
    diff -r -x .SHA256SUMS "$lab/data/mnist" "$DPTRAIN_SHARED/data/mnist"
    : >"$CALLS"
    echo torn >"$DPTRAIN_SHARED/data/mnist/a"
    run node data s3://data-1/lab mnist
    [[ "$status" -eq 0 && "$(cat "$DPTRAIN_SHARED/data/mnist/a")" == one ]]
    # The list and the file.
    [ "$(wc -l <"$CALLS")" -eq 2 ]
    echo other >"$lab/data/mnist/a"
    run node data s3://data-1/lab mnist "$place/shared/fresh"
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"data/mnist/a differs from its SHA-256 sum"*"is incomplete"* ]]
    [ ! -e "$place/shared/fresh/a" ]
    run node data s3://data-1/lab coco
    [[ "$status" -eq 4 && "$output" == *"cannot copy s3://data-1/lab/data/coco.SHA256SUMS"* ]]
}
