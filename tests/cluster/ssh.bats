#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# setup_ssh.sh and on_hosts.sh between hosts with only sshd and a password.
# shellcheck disable=SC2016 # for the hosts' shells
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* come from cluster.bash

load cluster
# shellcheck source=tests/cli/terminal.bash
load ../cli/terminal

hosts=node1,node2,node3

setup_file() {
    cluster_try 3 || true
}

setup() {
    cluster_or_skip
    need_terminal # sshpass
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    unset SSHPASS
    # The build with sanitizers is slow, and host lists have separate tests.
    export DPTRAIN_BIN=$root/dptrain
}

teardown_file() { cluster_down; }

# Runs on node1, or on $from.
setup_ssh() { cluster_exec "${from:-node1}" setsid -w "$root/scripts/setup_ssh.sh" --trust-first-contact "$@"; }
on_hosts() { cluster_exec "${from:-node1}" "$root/scripts/on_hosts.sh" "$@"; }

# Expects this code, and these words in this order, from `run`.
expect() { # CODE WORDS
    [[ $status -ne $1 || $output != *${2//\*\*/*}* ]] || return 0
    printf 'exit code %d\n%s\n' "$status" "$output"
    return 1
}

@test "without a login and without a terminal it names the missing password, and changes no host" {
    run setup_ssh $hosts
    expect 1 "here -> node1 "
    expect 1 "here -> node3 "
    expect 1 "prompt: no key was accepted, and root's password cannot be entered without a terminal"
    for host in node1 node2 node3; do [ ! -e "$cluster/$host/home/root/.ssh/authorized_keys" ]; done
    SSHPASS=wrong run setup_ssh node2:1
    expect 1 "prompt: password rejected"
    [ ! -e "$cluster/node2/home/root/.ssh/authorized_keys" ]
    # With a terminal, provided by sshpass, it asks.
    SSHPASS=$cluster_password run cluster_exec node1 sshpass -e -P 'password of root at node2' env -u SSHPASS \
        "$root/scripts/setup_ssh.sh" --trust-first-contact node2:1
    expect 0 "1 of 1 logins work"
    run setup_ssh --remove node2:1
    expect 0 "removed from 1 host and this machine"
}

@test "a password is enough; then every login works and mpirun starts everywhere" {
    # Existing files are kept.
    mkdir -m 700 "$cluster/node2/home/root/.ssh"
    printf 'Host other\n    Port 3\n' >"$cluster/node2/home/root/.ssh/config"
    printf 'ssh-ed25519 AAAAB3 somebody' >"$cluster/node2/home/root/.ssh/authorized_keys"
    chmod 600 "$cluster/node2/home/root/.ssh"/*
    SSHPASS=$cluster_password run setup_ssh $hosts
    expect 0 "9 of 9 logins work"
    for host in node1 node2 node3; do
        # The pinned key is the actual one.
        line="$host $(cut -d ' ' -f 1,2 "$cluster/$host/host_key.pub")"
        grep -xF "$line" "$cluster/node3/home/root/.ssh/dptrain_known_hosts"
        [ "$(stat -c %a "$cluster/$host/home/root/.ssh/dptrain_ed25519")" = 600 ]
    done
    [ "$(head -n 1 "$cluster/node2/home/root/.ssh/config")" = 'Include ~/.ssh/dptrain_config' ]
    [ "$(tail -n +2 "$cluster/node2/home/root/.ssh/config")" = $'Host other\n    Port 3' ]
    [ "$(head -n 1 "$cluster/node2/home/root/.ssh/authorized_keys")" = 'ssh-ed25519 AAAAB3 somebody' ]
    # Without options on the command line.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run cluster_exec node3 mpirun --mca oob_tcp_if_include eth0 \
        --mca btl_tcp_if_include "$cluster_subnet" --mca plm_rsh_no_tree_spawn 0 -H $hosts -np 3 hostname
    echo "$output"
    expect 0 ""
    # mpirun prints a warning if its child is faster, a race in mpirun.
    [ "$(grep -v 'setpgid.* failed in parent' <<<"$output" | sort)" = $'node1\nnode2\nnode3' ]
}

@test "it is safe to repeat, also from another host, and then needs no password" {
    before=$(cd "$cluster" && sha256sum node*/home/root/.ssh/*)
    from=node2 run setup_ssh $hosts
    expect 0 "9 of 9 logins work"
    [[ "$output" != *pinned* && "$output" != *generating* ]]
    diff <(echo "$before") <(cd "$cluster" && sha256sum node*/home/root/.ssh/*)
}

@test "a private key or home with wrong permissions is named, and so are the affected logins" {
    slow
    chmod 644 "$cluster/node2/home/root/.ssh/dptrain_ed25519"
    chmod 777 "$cluster/node3/home/root"
    run setup_ssh --check $hosts
    expect 1 "here -> node3 **prompt: sshd rejects the key**on node3: chmod go-w ~"
    expect 1 "node1 -> node3 "
    expect 1 "node2 -> node1 **bad permission: ssh rejects **dptrain_ed25519**on node2: chmod 600 "
    expect 1 "3 of 9 logins work"
    [[ "$output" != *"node1 -> node2"* ]]
    # With a login it can look there.
    chmod 600 "$cluster/node2/home/root/.ssh/dptrain_ed25519"
    SSHPASS=$cluster_password run setup_ssh node1,node3
    expect 1 "node1 -> node3 **bad permission: sshd rejects the key because others can write /run/host/home/root"
    chmod 700 "$cluster/node3/home/root"
    chmod 640 "$cluster/node1/home/root/.ssh/dptrain_ed25519"
    run setup_ssh $hosts
    expect 4 "cannot use the key **dptrain_ed25519: **too open**chmod 600"
    chmod 600 "$cluster/node1/home/root/.ssh/dptrain_ed25519"
}

@test "a changed host key is rejected until it is accepted explicitly" {
    cluster_new_host_key node3
    cluster_sshd node3
    run setup_ssh --check node1,node3
    expect 1 "node1 -> node3 **host key changed"
    run setup_ssh node1,node3
    expect 1 "here -> node3 **host key changed: the host sent SHA256:**--accept-new-host-key node3"
    # Accepting it does not accept another host's.
    run setup_ssh --accept-new-host-key node2 node1,node3
    expect 1 "host key changed"
    run setup_ssh --accept-new-host-key node3 $hosts
    expect 0 "node3: pinned SHA256:**9 of 9 logins work"
    # Keys known to the user's ssh count too.
    printf 'node3 %s\n' "$(cut -d ' ' -f 1,2 "$cluster/node2/host_key.pub")" \
        >"$cluster/node1/home/root/.ssh/known_hosts"
    sed -i /node3/d "$cluster/node1/home/root/.ssh/dptrain_known_hosts"
    run setup_ssh node1,node3
    expect 1 "here -> node3 **host key changed**which is not in /run/host/home/root/.ssh/known_hosts"
    rm "$cluster/node1/home/root/.ssh/known_hosts"
    run setup_ssh $hosts
    expect 0 "9 of 9 logins work"
}

@test "a wrong port, an unknown name and a host that is down are distinguished" {
    slow
    cluster_sshd node3 -p 2222
    cluster_cut node2
    run setup_ssh --timeout 10 node1,node2,node3,node9
    expect 1 "here -> node2 **no "
    expect 1 "here -> node3 **refused: no sshd listens on port 22"
    expect 1 "here -> node9 **name does not resolve on node1"
    expect 1 "1 of 16 logins work"
    cluster_mend node2
    printf '%s\n' 'nodes:' '  - {address: node1, chief: true}' '  - {address: node3, port: 2222, ssh_config: a}' \
        'ssh:' '  a: {username: root}' >"$cluster/shared/hosts.yaml"
    run setup_ssh "$cluster/shared/hosts.yaml"
    expect 0 "4 of 4 logins work"
    run setup_ssh --ssh-port 2222 node1,node3
    expect 1 "here -> node1 **wrong port: **but one on port 22"
    cluster_sshd node3
    run setup_ssh $hosts
    expect 0 "9 of 9 logins work"
}

@test "on_hosts.sh: every line with its host, unchanged arguments, actual exit codes" {
    run on_hosts $hosts -- sh -c 'echo "$1" $(hostname); echo error >&2' x 'a  b'
    expect 0 ""
    [ "$(sort <<<"$output")" = "$(printf 'node%d: a  b node%d\nnode%d: error\n' 1 1 1 2 2 2 3 3 3 | sort)" ]
    run on_hosts $hosts -- 'exit $(hostname | tr -dc 23)'
    expect 3 "the command failed on 2 of 3 hosts"
    expect 3 "  node2  exit code 2"
    expect 3 "  node3  exit code 3"
    cluster_sshd node2 -p 2222
    run on_hosts $hosts -- true
    expect 5 "  node2  refused: no sshd listens on port 22"
    # ssh's code may also be the command's.
    run on_hosts node3:1 -- 'exit 255'
    expect 5 "node3"
    cluster_sshd node2
}

# Fails if the process still exists after 60 s.
no_process() { # PATTERN
    local i
    for ((i = 0; i < 600; i++)); do
        pgrep -f "$1" >/dev/null || return 0
        sleep 0.1
    done
    return 1
}

@test "on_hosts.sh: a deadline or a signal ends the command on the hosts, including children" {
    slow
    nap=7$$
    run on_hosts --timeout 10 $hosts -- "sleep $nap & [ \$(hostname) = node1 ] || wait; kill \$!"
    expect 5 "the command failed on 2 of 3 hosts"
    expect 5 "node3  ended after 10 s"
    no_process "sleep $nap"
    on_hosts $hosts -- "touch $cluster/shared/\$(hostname); sleep $nap" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    script=$!
    while [ "$(find "$cluster/shared" -name 'node*' | wc -l)" -lt 3 ]; do sleep 0.1; done
    pgrep -f "sleep $nap"
    cluster_exec node1 pkill -TERM -o -f 'bash .*on_hosts.sh'
    wait $script || status=$?
    output=$(<"$BATS_TEST_TMPDIR/out")
    expect 143 "stopped by a signal"
    no_process "sleep $nap"
    # Ctrl-C reaches every process of the terminal.
    rm "$cluster"/shared/node*
    { while [ "$(find "$cluster/shared" -name 'node*' | wc -l)" -lt 3 ]; do sleep 0.1; done; printf '\003'; sleep 1; } |
        cluster_exec node1 script -qec "'$root/scripts/on_hosts.sh' $hosts -- \
            'touch $cluster/shared/\$(hostname); sleep $nap'" /dev/null >"$BATS_TEST_TMPDIR/out" || status=$?
    output=$(<"$BATS_TEST_TMPDIR/out")
    expect 130 "node3  stopped by a signal"
    no_process "sleep $nap"
}

@test "on_hosts.sh --copy: files and folders, compared by hash" {
    slow
    cluster_exec node1 sh -c 'mkdir -p /tmp/d/e; echo 1 >"/tmp/d/a b"; echo 2 >/tmp/d/e/c'
    run on_hosts $hosts --copy /tmp/d /tmp/new/d -- cat '/tmp/new/d/a b'
    expect 0 "/tmp/new/d is identical on 3 hosts"
    expect 0 "node3: 1"
    # The same size and time, but different contents.
    cluster_exec node2 sh -c 'echo 3 >/tmp/new/d/e/c; touch -r "/tmp/new/d/a b" /tmp/new/d/e/c; echo >/tmp/new/d/more'
    run on_hosts $hosts --copy /tmp/d /tmp/new/d
    expect 0 "identical on 3 hosts"
    [ "$(cluster_exec node2 cat /tmp/new/d/e/c)" = 2 ]
    run cluster_exec node2 test -e /tmp/new/d/more
    [ "$status" -eq 1 ]
    # A corrupt copy.
    cluster_exec node1 sh -c 'mkdir /tmp/bin; echo other >/tmp/file
        printf "#!/bin/sh\nssh node2 \"echo bad >/tmp/file\"\n" >/tmp/bin/rsync; chmod +x /tmp/bin/rsync'
    PATH=/tmp/bin:$PATH run on_hosts node1,node2 --copy /tmp/file
    expect 1 "the copy failed on 1 of 2 hosts"$'\n'"  node2  hash mismatch"
    cluster_exec node2 mount -o remount,ro /tmp
    run on_hosts $hosts --copy /tmp/file
    expect 1 "  node2  rsync: **Read-only file system"
    cluster_exec node2 mount -o remount,rw /tmp
    run on_hosts $hosts --copy /tmp/nothing
    expect 3 "no such file: /tmp/nothing"
}

@test "--remove removes everything on every host, and nothing else" {
    cluster_cut node3
    run cluster_exec node1 timeout 60 "$root/scripts/setup_ssh.sh" --remove --timeout 10 $hosts
    expect 1 "here -> node3 "
    [ -e "$cluster/node1/home/root/.ssh/dptrain_config" ]
    [ ! -e "$cluster/node2/home/root/.ssh/dptrain_config" ]
    cluster_mend node3
    # Without a password: node2 no longer accepts the key.
    run setup_ssh --remove $hosts
    expect 0 "removed from 3 hosts and this machine"
    [ "$(find "$cluster/node2/home/root/.ssh" -type f -printf '%f\n' | sort)" = $'authorized_keys\nconfig' ]
    [ "$(<"$cluster/node2/home/root/.ssh/config")" = $'Host other\n    Port 3' ]
    [ "$(<"$cluster/node2/home/root/.ssh/authorized_keys")" = 'ssh-ed25519 AAAAB3 somebody' ]
    for host in node1 node3; do [ ! -e "$cluster/$host/home/root/.ssh" ]; done
    run setup_ssh --remove $hosts
    expect 0 "nothing is set up on this machine"
}

@test "an ordinary user with a separate key, installed over a login by key" {
    mkdir -m 700 "$cluster"/node{1,2,3}/home/trainer/.ssh
    for host in node1 node2 node3; do
        install -m 600 "$cluster/key.pub" "$cluster/$host/home/trainer/.ssh/authorized_keys"
        chown -R 60000:60000 "$cluster/$host/home/trainer"
    done
    install -m 600 "$cluster/key" "$cluster/node1/home/root/login"
    mkdir "$cluster/node1/home/root/keys"
    printf 'nodes:\n  - {address: 10.77.0.1, chief: true, ssh_config: all}\n  - {address: "fd77::2", ssh_config: all}
ssh:\n  all: {username: trainer, key_file: /run/host/home/root/login}\n' >"$cluster/shared/hosts.yaml"
    run setup_ssh --key keys/own "$cluster/shared/hosts.yaml"
    expect 0 "4 of 4 logins work"
    [ -e "$cluster/node1/home/root/keys/own" ]
    # An IPv6 address also has the alias that run.sh uses for mpirun.
    run on_hosts "$cluster/shared/hosts.yaml" -- 'id -un; ssh 10.77.0.1 hostname; ssh ip6-fd77--2 hostname'
    expect 0 "fd77::2:   trainer"
    expect 0 "10.77.0.1: node2"
    run setup_ssh --remove --key keys/own "$cluster/shared/hosts.yaml"
    expect 0 "removed from 2 hosts"
    [ "$(ls -A "$cluster/node2/home/trainer/.ssh")" = authorized_keys ]
}

@test "hosts may share a home: files written concurrently are complete and unique" {
    mkdir -m 700 "$cluster/shared/home" "$cluster/shared/home/.ssh"
    printf 'Host other\n    Port 3\n' >"$cluster/shared/home/.ssh/config"
    for host in node1 node2 node3; do cluster_exec $host mount --bind "$cluster/shared/home" /run/host/home/root; done
    SSHPASS=$cluster_password run setup_ssh $hosts
    expect 0 "9 of 9 logins work"
    [ "$(wc -l <"$cluster/shared/home/.ssh/authorized_keys")" -eq 1 ]
    [ "$(<"$cluster/shared/home/.ssh/config")" = $'Include ~/.ssh/dptrain_config\nHost other\n    Port 3' ]
    [ "$(find "$cluster/shared/home/.ssh" -type f | wc -l)" -eq 6 ]
    run setup_ssh --remove $hosts
    expect 0 "removed from 3 hosts and this machine"
    [ "$(ls -A "$cluster/shared/home/.ssh")" = config ]
    [ "$(<"$cluster/shared/home/.ssh/config")" = $'Host other\n    Port 3' ]
}
