#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # dptrain is common_setup's
# scripts/bundle.sh: runs in a root folder with only glibc, sh and the unpacked bundle (chroot), or, without root, with
# an empty environment and a check of every library.
load common

setup_file() {
    export bundled=$BATS_FILE_TMPDIR/bundle.tar.gz
    "$BATS_TEST_DIRNAME/../../scripts/bundle.sh" --out "$bundled"
}

# Sets home, the bundle unpacked in a path with a blank, and node, the command prefix to run there.
make_node() {
    local root=$BATS_TEST_TMPDIR/node tool library
    mkdir -p "$root/a place" "$root"/{bin,tmp,dev/shm,etc}
    tar -xzf "$bundled" -C "$root/a place"
    home=$(echo "$root/a place/"dptrain-*)
    node=(env -i)
    PATH=$PATH:/usr/sbin:/sbin
    [[ $(id -u) -eq 0 && -x $(command -v chroot) ]] || return 0
    for tool in sh getconf env rm; do
        cp "$(command -v "$tool")" "$root/bin/$tool"
        for library in $(ldd "$(command -v "$tool")" | grep -oE '/[^ ]+\.so[^ ]*'); do
            mkdir -p "$root${library%/*}" && cp -Ln "$library" "$root$library"
        done
    done
    # Only glibc's libraries.
    for library in $(ldd "$dptrain" | grep -oE '/[^ ]*/(ld-linux[^ ]*|lib(c|m|dl|pthread|rt|resolv|util)\.so[^ ]*)'); do
        mkdir -p "$root${library%/*}" && cp -Ln "$library" "$root$library"
    done
    cp -a /dev/null /dev/zero /dev/urandom "$root/dev/" 2>/dev/null || return 0
    chroot "$root" /bin/sh -c true 2>/dev/null || return 0
    mkdir -p "$root/usr/bin" && cp "$root/bin/env" "$root/usr/bin/"
    echo root:x:0:0::/: >"$root/etc/passwd"
    node=(env -i "$(command -v chroot)" "$root")
    home=${home#"$root"}
}

@test "the unpacked bundle needs only glibc: version, info, training, two ranks" {
    make_node
    run "${node[@]}" "$home/dptrain" --version
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == "$("$root/dptrain" --version)" ]]
    run "${node[@]}" "$home/dptrain" info
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *oneDNN* ]]
    options=(--data digits --steps 3 --batch 8 --device cpu --algorithms fixed --threads 1)
    run "${node[@]}" "$home/dptrain" train "${options[@]}" --out /tmp/bundle-one --overwrite
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"finished after 3 steps"* ]]
    run "${node[@]}" /usr/bin/env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_HIDE_ERRORS=2 HWLOC_COMPONENTS=-gl \
        "$home/mpirun" --mca plm isolated --oversubscribe --bind-to none -np 2 "$home/dptrain" train "${options[@]}" \
        --out /tmp/bundle-two --overwrite
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ranks   2 on 1 host"* && "$output" == *"finished after 3 steps"* && "$output" != *Sorry* ]]
}

@test "only glibc's libraries come from outside" {
    make_node
    home=$(echo "$BATS_TEST_TMPDIR/node/a place/"dptrain-*)
    options=(--data digits --steps 1 --batch 8 --device cpu --algorithms fixed --threads 1)
    env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_DEBUG=libs "LD_DEBUG_OUTPUT=$BATS_TEST_TMPDIR/ld" \
        "$home/mpirun" --mca plm isolated --oversubscribe --bind-to none -np 2 "$home/dptrain" train "${options[@]}" \
        --out "$BATS_TEST_TMPDIR/run"
    # The programs and the libraries that they load, except the start script's shell and getconf.
    grep -l 'calling init: .*libopen-rte' "$BATS_TEST_TMPDIR"/ld.* >"$BATS_TEST_TMPDIR/programs"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/programs")" -ge 3 ]
    xargs grep -hoE 'calling init: .*' <"$BATS_TEST_TMPDIR/programs" | sed 's/calling init: //' | sort -u >"$BATS_TEST_TMPDIR/opened"
    grep -q 'libdnnl\.so' "$BATS_TEST_TMPDIR/opened"
    # PMIx has one folder of plugins, and checks their version itself.
    run grep -vE "^$home/|/pmix_mca_|/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|util)\.so[^/]*)\$" "$BATS_TEST_TMPDIR/opened"
    echo "$output"
    [ -z "$output" ]
}

@test "a node with an older glibc is rejected with a message" {
    make_node
    home=$(echo "$BATS_TEST_TMPDIR/node/a place/"dptrain-*)
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho glibc 2.9\n' >"$BATS_TEST_TMPDIR/bin/getconf"
    chmod +x "$BATS_TEST_TMPDIR/bin/getconf"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run "$home/dptrain" --version
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"needs glibc 2."*"this node has 2.9"* ]]
}

@test "the bundle's run.sh uses the bundle's program and mpirun" {
    make_node
    home=$(echo "$BATS_TEST_TMPDIR/node/a place/"dptrain-*)
    unset DPTRAIN_BIN
    run "$home/scripts/run.sh" -np 2 train --data digits --steps 2 --batch 8 --device cpu --algorithms fixed \
        --out "$BATS_TEST_TMPDIR/run"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"finished after 2 steps"* ]]
    run "$home/scripts/run.sh" -np 2 --dry-run train
    [[ "$output" == *"/bin/mpirun "* || "$output" == mpirun* ]]
}
