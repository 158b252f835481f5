#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Releases: make dist, the revision of builds from it, the changelog, and the formats that docs/compatibility.md lists.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

# A clone of this tree, with its changes as the last commit.
setup_file() {
    common_setup
    make_tiny 32 8
    git -C "$root" ls-files >/dev/null 2>&1 || return 0
    export clone=$BATS_FILE_TMPDIR/clone
    mkdir "$clone"
    git -C "$root" ls-files -z | (cd "$root" && tar --null -T - --ignore-failed-read -cf - 2>/dev/null) | tar -xf - -C "$clone"
    git -C "$clone" init -q
    git -C "$clone" config user.name x
    git -C "$clone" config user.email x@localhost
    git -C "$clone" add -A -f
    git -C "$clone" commit -qm x
    version=$(cat "$root/VERSION") hash=$(git -C "$clone" rev-parse --short=12 HEAD)
    # Packed quickly.
    export version hash XZ_OPT=-0 packed=$BATS_FILE_TMPDIR/packed.tar.xz
    make -s -C "$clone" dist && mv "$clone/dptrain-$version.tar.xz" "$packed"
}

need_clone() { [[ -n ${clone-} ]] || skip "no git repository here"; }

@test "make dist packs the commit's files under one folder, of root, the same bytes each time" {
    need_clone
    cd "$clone"
    diff <(tar -tf "$packed" | grep -v '/$') <(git ls-files | sed "s,^,dptrain-$version/,")
    tar -tvf "$packed" | awk '$1 !~ /^[-dl]rw[-x]r-[-x]r-[-x]$/ && $1 !~ /^l/ || $2 != "root/root" { print; bad = 1 } END { exit bad }'
    touch README.md
    (umask 077 && TZ=Asia/Tokyo make -s dist)
    cmp "dptrain-$version.tar.xz" "$packed"
    # What is not in the commit is not in the tarball.
    echo >>README.md
    run make -s dist
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *commit* ]]
    git checkout -q README.md
    git tag -a -m x v9
    make -n build/src/base/version.o CUDA=0 | grep -F "DPTRAIN_GIT_HASH='\"$hash\"'"
}

@test "a build from the tarball knows its revision, also inside another repository" {
    need_clone
    cd "$BATS_TEST_TMPDIR"
    git init -q
    git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m other
    tar -xf "$packed"
    cd "dptrain-$version"
    make -s info CUDA=0 | grep -qx "version *$version ($hash)"
    make -s build/src/base/version.o CUDA=0
    # The program with this object in place of its own: the archive's is then not needed.
    if [[ -e $root/build/src/main.o && -e $root/build/libdptrain.a && $dptrain == "$root/dptrain" ]]; then
        read -ra libraries <<<"$(make -s -C "$root" info | sed -n 's/^libraries *//p')"
        kernels=("$root"/build/libkernels.a)
        [[ -e ${kernels[0]} ]] || kernels=()
        mpicc -o program "$root/build/src/main.o" build/src/base/version.o -Wl,--start-group "$root/build/libdptrain.a" "${kernels[@]}" \
            -Wl,--end-group "${libraries[@]}"
        run ./program --version
        echo "$output"
        [[ "$status" -eq 0 && "$output" == "dptrain $version ($hash, "* ]]
    fi
    run make -s dist
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"not a clone"* ]]
}

@test "the changelog has what is not released on top, and this version" {
    cd "$root"
    [[ -f CHANGELOG.md ]] || skip "no pages in this tree"
    mapfile -t headings < <(sed -n 's/^## //p' CHANGELOG.md)
    [[ ${headings[0]} == Unreleased || ${headings[0]} == "$(cat VERSION)"* ]]
    printf '%s\n' "${headings[@]}" | grep -qE "^$(sed 's/\./\\./g' VERSION)( |$)"
}

# Prints the number that docs/compatibility.md has in the row of a file.
listed() { # FIRST WORDS OF THE ROW
    sed -nE "s/^\| $1[^|]*\| [^|0-9]*([0-9]+)[^|]*\|.*/\1/p" "$root/docs/compatibility.md"
}

@test "docs/compatibility.md lists the formats that are written" {
    [[ -f $root/docs/compatibility.md ]] || skip "no pages in this tree"
    cd "$BATS_TEST_TMPDIR"
    "$dptrain" train --data "$tiny" --model mlp --steps 1 --batch 8 --no-eval --threads 1 --device cpu --out run >said
    "$dptrain" checkpoint export run --out weights.h5 >said
    "$dptrain" data pack --from "$tiny" --out shards >said
    schema() { head -n 1 "$1" | sed -nE 's/^dptrain [a-z]+ ([0-9]+).*/\1/p'; }
    [ "$(listed 'checkpoint, ')" = "$(schema run/ckpt-000000000001.h5)" ]
    [ "$(listed 'weights, .\.h5')" = "$(schema weights.h5)" ]
    [ "$(listed 'shards, ')" = "$(schema shards/index.h5)" ]
    [ "$(listed 'shards, ')" = "$(jq .schema shards/manifest.json)" ]
    [ "$(listed 'records, ')" = "$(jq 'select(.record == "run") | .schema' run/metrics.jsonl)" ]
    [ "$(listed 'algorithms, ')" = "$("$dptrain" checkpoint show run | sed -n "s/^  # dptrain's algorithms, format //p")" ]
    [ "$(listed 'hashes of data, ')" = "$(grep -oE 'dptrain content [0-9]+' "$root/src/data/dataset/content.c" | grep -oE '[0-9]+$')" ]
}
