#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2154 # dptrain is common_setup's
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
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

# Sets flags, for two ranks in an environment without ssh.
make_flags() {
    mpi_version
    flags=(--mca plm isolated --oversubscribe --bind-to none)
    ((mpi_major < 5)) || flags=(--map-by :OVERSUBSCRIBE --bind-to none --mca btl ^tcp)
}

@test "the unpacked bundle needs only glibc: version, info, training, two ranks" {
    make_node
    make_flags
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
        "$home/mpirun" "${flags[@]}" -np 2 "$home/dptrain" train "${options[@]}" \
        --out /tmp/bundle-two --overwrite
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ranks   2 on 1 host"* && "$output" == *"finished after 3 steps"* && "$output" != *Sorry* ]]
}

@test "only glibc's libraries come from outside" {
    make_node
    make_flags
    home=$(echo "$BATS_TEST_TMPDIR/node/a place/"dptrain-*)
    options=(--data digits --steps 1 --batch 8 --device cpu --algorithms fixed --threads 1)
    env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_DEBUG=libs "LD_DEBUG_OUTPUT=$BATS_TEST_TMPDIR/ld" \
        "$home/mpirun" "${flags[@]}" -np 2 "$home/dptrain" train "${options[@]}" \
        --out "$BATS_TEST_TMPDIR/run"
    # The programs and the libraries that they load, except the start script's shell and getconf.
    grep -lE 'calling init: .*lib(open-rte|open-pal|prrte)' "$BATS_TEST_TMPDIR"/ld.* >"$BATS_TEST_TMPDIR/programs"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/programs")" -ge 3 ]
    xargs grep -hoE 'calling init: .*' <"$BATS_TEST_TMPDIR/programs" | sed 's/calling init: //' | sort -u >"$BATS_TEST_TMPDIR/opened"
    grep -q 'libdnnl\.so' "$BATS_TEST_TMPDIR/opened"
    run grep -vE "^$home/|/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|util)\.so[^/]*)\$" "$BATS_TEST_TMPDIR/opened"
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

# A tree in which bundle.sh packs tests: make does nothing, and the programs are copies of true.
make_tree() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{tests/unit,tests/mpi,build/tests/unit,build/scripts/bench,docs,bin}
    cp -r "$root/scripts" "$tree/"
    cp "$root"/{README.md,LICENSE,VERSION} "$tree/"
    cp "$root/tests/driver.sh" "$tree/tests/"
    printf '/* RUN np=0 device=cuda */\n' >"$tree/tests/unit/test_op_fake.c"
    touch "$tree/tests/mpi/test_none.c"
    printf '#!/bin/sh\n[ "$*" != "-s info" ] || echo "CUDA      no"\n' >"$tree/bin/make"
    chmod +x "$tree/bin/make"
    cp /bin/true "$tree/build/tests/unit/test_op_fake"
    cp /bin/true "$tree/dptrain"
}

@test "--with-cuda packs cuBLASLt and NCCL, and a bundle never cuDNN, not even if a program is linked with it" {
    make_tree
    local toolkit=$BATS_TEST_TMPDIR/toolkit bundled
    mkdir -p "$toolkit"/{lib64,cudnn/lib}
    printf 'int cudnnGetVersion(void) { return 0; }\n' | gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 -x c - -o "$toolkit/lib64/libcudnn.so.9"
    printf 'int cudnnGetVersion(void);\nint main(void) { return cudnnGetVersion(); }\n' |
        gcc -x c - -o "$tree/dptrain" -L"$toolkit/lib64" -l:libcudnn.so.9 -Wl,-rpath,"$toolkit/lib64"
    cp "$toolkit/lib64/libcudnn.so.9" "$toolkit/lib64/libcublasLt.so.13"
    cp "$toolkit/lib64/libcudnn.so.9" "$toolkit/lib64/libnccl.so.2"
    cp "$toolkit/lib64/libcudnn.so.9" "$toolkit/cudnn/lib/"
    printf '#!/bin/sh\n[ "$*" != "-s info" ] || printf "%%s\\n" "CUDA      yes, %s" "cuDNN     9.28.1, %s/cudnn/include"\n' "$toolkit" "$toolkit" \
        >"$tree/bin/make"
    unset DPTRAIN_BIN
    PATH=$tree/bin:$PATH run "$tree/scripts/bundle.sh" --with-cuda --out "$BATS_TEST_TMPDIR/cuda.tar.gz"
    echo "$output"
    [ "$status" -eq 0 ]
    bundled=$(tar -tzf "$BATS_TEST_TMPDIR/cuda.tar.gz")
    [[ $bundled == *lib/libcublasLt.so.13* && $bundled == *lib/libnccl.so.2* && $bundled != *cudnn* ]]
}

@test "a bundle with tests is xz, is unpacked by Python, and runs the suite without perl; above 60 MB it is refused" {
    only_slow "takes 7 s"
    make_tree
    unset DPTRAIN_BIN
    # A small window, because the usual one takes 2 GB.
    printf '#!/bin/sh\nif [ -e "$0.large" ]; then cat >/dev/null; head -c 61000000 /dev/zero; else exec %s -0; fi\n' \
        "$(command -v xz)" >"$tree/bin/xz"
    chmod +x "$tree/bin/xz"
    PATH=$tree/bin:$PATH run "$tree/scripts/bundle.sh" --with-tests
    echo "$output"
    [ "$status" -eq 0 ]
    packed=$(echo "$tree"/dptrain-*.tar.xz)
    [ "$(head -c 6 "$packed" | od -An -tx1)" = " fd 37 7a 58 5a 00" ]

    mkdir "$BATS_TEST_TMPDIR/few"
    for tool in awk bash cat chmod cp cut date dirname env find getconf grep gzip head id mkdir mktemp mv nproc od \
        readlink rm sed setsid sh sleep sort stat tail tar timeout tr uname wc xargs; do ln -s "$(command -v "$tool")" "$BATS_TEST_TMPDIR/few/$tool"; done
    ln -s /usr/bin/printf "$BATS_TEST_TMPDIR/few/"
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$BATS_TEST_TMPDIR/few/python3"
    PATH=$BATS_TEST_TMPDIR/few run "$root/scripts/bench/gpu_suite.sh" --bundle "$packed" --out "$BATS_TEST_TMPDIR/out" --quick --only tests
    echo "$output"
    [ "$status" -eq 4 ]
    [[ $output == *"no GPU"* ]]
    grep -q '| tests | not run | no GPU' "$BATS_TEST_TMPDIR/out/gpu-none.md"

    rm "$packed"
    touch "$tree/bin/xz.large"
    head -c 7000000 /dev/zero >"$tree/docs/large"
    PATH=$tree/bin:$PATH run "$tree/scripts/bundle.sh" --with-tests
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"    7.0 docs/large"*"has 61 MB, and a bundle with tests may have 60;"* && ! -e $packed && ! -e $packed.part ]]
    run "$tree/scripts/bundle.sh" --out "$BATS_TEST_TMPDIR/bundle.zip"
    [ "$status" -eq 2 ]
}
