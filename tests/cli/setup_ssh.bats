#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# setup_ssh.sh: first contact, expected host keys, what --remove leaves. The hosts are folders; ssh and ssh-keyscan are fakes.
# tests/cluster/ssh.bats uses real ones.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

# shellcheck source=tests/cli/terminal.bash
load terminal

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    bin=$BATS_TEST_TMPDIR/bin
    export HOSTS=$BATS_TEST_TMPDIR/hosts HOME="$BATS_TEST_TMPDIR/my home" SSH
    SSH=$(command -v ssh) || skip "ssh is not here"
    mkdir "$bin" "$HOSTS" "$HOME"
    cd "$BATS_TEST_TMPDIR" || return
    unset SSHPASS
    stand_in dptrain <<<'tr , "\n" <<<"$5" | awk -F: -v OFS="\t" "{ print \$1, 1, \"-\", \"-\", \"-\", \"-\", \"no\", \"-\", \"-\", \"-\" }"'
    stand_in ssh-keyscan <<<'[[ "$*" != *ed25519* ]] || sed "s/^/${!#} /" "$HOSTS/${!#}/key.pub"'
    # ssh OPTIONS HOST COMMAND
    stand_in ssh <<<'for word; do [[ $word != -G ]] || exec "$SSH" "$@"; done
        printf "%s\n" "$@" >>"$HOSTS/words"
        [[ ! -e $HOSTS/asks ]] || { echo "Permission denied" >&2; exit 255; }
        [[ ! -e $HOSTS/${*: -2:1}/dead ]] || { echo "ssh: connect to host ${*: -2:1} port 22: Connection timed out" >&2; exit 255; }
        HOME=$HOSTS/${*: -2:1} exec bash -c "${!#}"'
    export DPTRAIN_BIN=$bin/dptrain PATH=$bin:$PATH
    for host in a b; do
        mkdir "$HOSTS/$host"
        ssh-keygen -q -t ed25519 -N '' -C "root@$host" -f "$HOSTS/$host/key"
    done
    pins=$HOME/.ssh/dptrain_known_hosts
}

stand_in() { # NAME, the body on stdin
    { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# Without a terminal.
setup_ssh() {
    run setsid -w "$root/scripts/setup_ssh.sh" "$@"
    echo "$status: $output"
}

print_of() { ssh-keygen -lf "$HOSTS/$1/key.pub"; } # HOST

@test "first contact: an error without a terminal, a question with one, or --trust-first-contact" {
    setup_ssh a,b
    [ "$status" -eq 1 ]
    [[ "$output" == *"unknown host key: $(print_of a | cut -d ' ' -f 2) (ED25519)"*"--fingerprints FILE"*"--trust-first-contact"* ]]
    [ ! -s "$pins" ]
    [ ! -e "$HOSTS/words" ]
    need_terminal
    command -v sshpass >/dev/null || skip "sshpass is not here"
    SSHPASS=no run sshpass -e -P 'Pin these keys' env -u SSHPASS "$root/scripts/setup_ssh.sh" a
    echo "$output"
    [ "$status" -eq 1 ]
    [ ! -s "$pins" ]
    SSHPASS=yes run sshpass -e -P 'Pin these keys' env -u SSHPASS "$root/scripts/setup_ssh.sh" a
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(<"$pins")" = "a $(cut -d ' ' -f 1,2 "$HOSTS/a/key.pub")" ]
    # A host that is known needs neither.
    setup_ssh a
    [ "$status" -eq 0 ]
    setup_ssh a,b --trust-first-contact
    [ "$status" -eq 0 ]
    [[ "$output" == *"b: pinned"* && "$output" != *"a: pinned"* ]]
}

@test "--fingerprints: only listed keys are pinned, each for its host" {
    print_of a >expected
    setup_ssh a,b --fingerprints expected
    [ "$status" -eq 1 ]
    [[ "$output" == *"a: pinned"*"here -> b"*"unexpected host key: the host sent $(print_of b | cut -d ' ' -f 2)"* ]]
    [ "$(wc -l <"$pins")" -eq 1 ]
    # The key of one host does not do for another one.
    cp "$HOSTS/a/key.pub" "$HOSTS/b/key.pub"
    print_of a | sed 's/root@a/a,10.0.0.1/' >expected
    setup_ssh a,b --fingerprints expected
    [ "$status" -eq 1 ]
    [ "$(cut -d ' ' -f 1 "$pins")" = a ]
    # A name that is no host's; and a reinstalled host, whose new key is listed.
    rm "$HOSTS"/{a,b}/key*
    for host in a b; do ssh-keygen -q -t ed25519 -N '' -C "root@ip-10-0-0-$host" -f "$HOSTS/$host/key"; done
    setup_ssh a,b --trust-first-contact
    [ "$status" -eq 1 ]
    [[ "$output" == *"host key changed"* ]]
    { print_of a; print_of b; } >expected
    setup_ssh a,b --fingerprints expected
    [ "$status" -eq 0 ]
    [ "$(sort "$pins")" = "$(for host in a b; do echo "$host $(cut -d ' ' -f 1,2 "$HOSTS/$host/key.pub")"; done)" ]
    setup_ssh a --fingerprints nothing
    [ "$status" -eq 2 ]
}

@test "--remove without a public key keeps every foreign line of authorized_keys" {
    # shellcheck source=scripts/cluster/ssh/files.sh
    . "$root/scripts/cluster/ssh/files.sh"
    mkdir "$HOME/.ssh"
    kept=$'# no key of dptrain below\nssh-ed25519 AAAAB3 no key\nssh-ed25519 AAAAB4 other'
    printf '%s\n' "$kept" >"$HOME/.ssh/authorized_keys"
    touch "$HOME/.ssh/dptrain_config"
    files_remove none
    [ "$(<"$HOME/.ssh/authorized_keys")" = "$kept" ]
    # The private key tells which line to delete.
    ssh-keygen -q -t ed25519 -N '' -C dptrain -f "$HOME/.ssh/dptrain_ed25519"
    cat "$HOME/.ssh/dptrain_ed25519.pub" >>"$HOME/.ssh/authorized_keys"
    rm "$HOME/.ssh/dptrain_ed25519.pub"
    files_remove none
    [ "$(<"$HOME/.ssh/authorized_keys")" = "$kept" ]
    [ "$(ls "$HOME/.ssh")" = authorized_keys ]
}

@test "--remove names a dead host, and asks the others only once" {
    setup_ssh --trust-first-contact a,b
    [ "$status" -eq 0 ]
    touch "$HOSTS/b/dead"
    setup_ssh --remove a,b
    [ "$status" -eq 1 ]
    [[ "$output" == *"here -> b "*"the other hosts are done"*"--exclude"* ]]
    [ ! -e "$HOSTS/a/.ssh/dptrain_config" ]
    [ -e "$HOME/.ssh/dptrain_ed25519" ]
    # The key no longer opens a.
    : >"$HOSTS/words"
    setup_ssh --remove a,b
    [ "$status" -eq 1 ]
    [ "$(grep -cx a "$HOSTS/words")" -eq 0 ]
    grep -qx b "$HOSTS/words"
    # As with --exclude b.
    setup_ssh --remove a
    [ "$status" -eq 0 ]
    [ ! -e "$HOME/.ssh/dptrain_config" ]
}

@test "key paths with blanks" {
    setup_ssh --trust-first-contact --key 'my keys/the 1%' a
    [ "$status" -eq 0 ]
    [ -e 'my keys/the 1%' ]
    [ "$("$SSH" -G -F "$HOME/.ssh/dptrain_config" a | grep '^identityfile')" = "identityfile $PWD/my keys/the 1%%" ]
    # Each word is one option for ssh.
    setup_ssh --key 'my keys/the 1%' a
    [ "$status" -eq 0 ]
    grep -qxF "UserKnownHostsFile=\"$HOME/.ssh/dptrain_known_hosts\"" "$HOSTS/words"
    grep -qxF "IdentityFile=\"$PWD/my keys/the 1%%\"" "$HOSTS/words"
    [ "$("$SSH" -G -o "IdentityFile=\"$PWD/my keys/the 1%%\"" a | grep '^identityfile')" = "identityfile $PWD/my keys/the 1%%" ]
}

@test "of more than 32 hosts each logs in to the next one and to four others" {
    local i list=''
    for ((i = 1; i <= 33; i++)); do mkdir "$HOSTS/h$i" && list+=,h$i; done
    touch "$HOSTS/h7/dead"
    setup_ssh --check "${list#,}"
    [ "$status" -eq 1 ]
    [[ "$output" == *'here -> h7 '*'no answer in time; logins from there were not tested'*'h6 -> h7 '* ]]
    [[ "$output" != *'-> h8 '* ]]
    # Neither those to h7, nor the five from it.
    [ "${lines[-1]}" = "$((198 - 5 - $(grep -c -- '-> h7 ' <<<"$output"))) of 198 logins work, from here and from each of 33 hosts \
to 5 others (--all-pairs tests every two)" ]
    # Every host is asked from here, and by the one before it, which is h7 for h8.
    for ((i = 1; i <= 33; i++)); do [ "$(grep -cxF "h$i" "$HOSTS/words")" -ge $((i == 8 ? 1 : 2)) ]; done
}

@test "the plan of the logins: every two of few hosts or with --all-pairs, otherwise a ring and the same random ones each time" {
    # shellcheck source=scripts/cluster/ssh/verify.sh
    . "$root/scripts/cluster/ssh/verify.sh"
    local all_pairs=no healthy=({0..31}) partners=() i first
    verify_plan
    [ "${partners[31]}" = " $(seq -s ' ' 0 30) " ]
    # Host 3 has failed before.
    healthy=(0 1 2 {4..63}) partners=()
    verify_plan
    for i in "${healthy[@]}"; do
        [ "$(tr ' ' '\n' <<<"${partners[i]}" | grep . | sort -u | wc -l)" -eq 5 ]
        [[ "${partners[i]}" != *" $i "* && "${partners[i]}" != *' 3 '* ]]
    done
    [[ "${partners[2]}" == ' 4 '* && "${partners[63]}" == ' 0 '* ]]
    first=${partners[*]} partners=()
    verify_plan
    [ "${partners[*]}" = "$first" ]
    all_pairs=yes
    verify_plan
    [ "$(wc -w <<<"${partners[*]}")" -eq $((63 * 62)) ]
}
