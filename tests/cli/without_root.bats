#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Building without root, with libraries in a prefix: what quickstart.sh and install_deps.sh say, and what make finds. The prefix
# has links to this machine's libraries, which are hidden elsewhere. tests/platform/without_root.bats builds and runs.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets root

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    prefix=$BATS_TEST_TMPDIR/site tools=$BATS_TEST_TMPDIR/tools
    mkdir -p "$prefix"/{bin,include,lib/pkgconfig} "$tools"
    # All of the system's commands but those of MPI and of packages.
    ln -sf /usr/bin/* "$tools"
    rm -f "$tools"/{apt-get,dnf,dpkg-query,sudo,nvcc} "$tools"/*{mpi,orte,prte}*
    unset CC MPICC HDF5_DIR CPATH CUDA_HOME PKG_CONFIG PROTOC_C
    for module in libxxhash zlib libpng libjpeg libprotobuf-c libisal yajl yaml-0.1 libzip; do
        printf '%s\n' "Name: $module" "Description: $module" "Version: $(pkg-config --modversion "$module")" \
            "Cflags: $(pkg-config --cflags "$module")" "Libs: $(pkg-config --libs "$module")" >"$prefix/lib/pkgconfig/$module.pc"
    done
    hdf5="hdf5-serial"
    pkg-config --exists "$hdf5" || hdf5=hdf5
    # env's words for a user of the prefix.
    site=(PATH="$tools" PKG_CONFIG_LIBDIR="$BATS_TEST_TMPDIR/none" PKG_CONFIG_PATH="$prefix/lib/pkgconfig")
}

# Puts HDF5 into the prefix, with its file for pkg-config where it is asked for.
add_hdf5() { # [pc]
    local library soname folder
    library=$(pkg-config --variable=libdir "$hdf5")/libhdf5.so
    [[ -e $library ]] || library=$(pkg-config --libs-only-L "$hdf5" | sed 's/^-L//; s/ *$//')/libhdf5.so
    soname=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
    folder=$(pkg-config --cflags-only-I "$hdf5" | sed 's/^-I//; s/ .*//')
    ln -s "$(readlink -f "$library")" "$prefix/lib/libhdf5.so"
    ln -s "$(readlink -f "$library")" "$prefix/lib/$soname"
    ln -s "${folder:-/usr/include}"/*.h "$prefix/include/"
    [[ ${1-} != pc ]] || printf '%s\n' 'Name: hdf5' 'Description: HDF5' 'Version: 1.10' "Cflags: -I$prefix/include" \
        "Libs: -L$prefix/lib -lhdf5" >"$prefix/lib/pkgconfig/hdf5.pc"
}

add_mpi() { for tool in mpicc mpirun; do ln -s "$(command -v "$tool")" "$prefix/bin/$tool"; done; }

# A tree with stand-ins of what quickstart.sh starts, in $tree.
make_tree() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/scripts"
    cp "$root"/scripts/{quickstart,install_deps,lib}.sh "$tree/scripts/"
    printf '#!/bin/sh\necho "the program: $*"\n' >"$tree/dptrain"
    printf '#!/bin/sh\nwhile [ "$1" != --out ]; do shift; done\nmkdir -p "$2"; echo >"$2/ckpt-1.h5"; command -v mpirun\n' >"$tree/scripts/run.sh"
    rm "$tools/make"
    printf '#!/bin/sh\necho "make runs"\n' >"$tools/make"
    chmod +x "$tree/dptrain" "$tree/scripts/run.sh" "$tools/make"
}

@test "quickstart.sh names what is missing and where it looked, and builds nothing" {
    make_tree
    run env "${site[@]}" "$tree/scripts/quickstart.sh"
    echo "$output"
    [ "$status" -eq 4 ]
    for word in "command mpicc" "command mpirun" HDF5 "PKG_CONFIG_PATH=$prefix/lib/pkgconfig" "HDF5_DIR=(not set)" "PATH=$tools" platforms.md; do
        [[ "$output" == *"$word"* ]] || { echo "no $word"; return 1; }
    done
    [[ "$output" != *libpng* && "$output" != *oneDNN\ \(* && "$output" != *"make runs"* ]]
    # MPICC of another MPI.
    add_hdf5 pc
    printf '#!/bin/sh\necho "gcc: error: $1" >&2; exit 1\n' >"$prefix/bin/mpicc"
    chmod +x "$prefix/bin/mpicc"
    run env "${site[@]}" MPICC="$prefix/bin/mpicc" "$tree/scripts/quickstart.sh"
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"Open MPI's mpicc ($prefix/bin/mpicc "*"MPICC=$prefix/bin/mpicc"* && "$output" != *HDF5\ \(* ]]
}

@test "quickstart.sh builds and runs with the site's MPI and HDF5" {
    make_tree
    add_hdf5
    add_mpi
    run env "${site[@]}" MPICC="$prefix/bin/mpicc" HDF5_DIR="$prefix" "$tree/scripts/quickstart.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    # mpirun is the one beside mpicc.
    [[ "$output" == *"export PATH=$prefix/bin:"*"make runs"*$'\n'"$prefix/bin/mpirun"$'\n'*"the program: eval "* ]]
}

@test "a user who may not install packages: apt-get is not started, and not needed if the build finds everything" {
    for command in apt-get sudo; do printf '#!/bin/sh\necho "%s $*" >>"$CALLS"\nexit 1\n' "$command" >"$tools/$command"; done
    printf '#!/bin/sh\ncase $* in *libhdf5-dev*) exit 1 ;; esac\necho installed\n' >"$tools/dpkg-query"
    rm "$tools/id"
    printf '#!/bin/sh\necho 1000\n' >"$tools/id"
    chmod +x "$tools"/{apt-get,sudo,dpkg-query,id}
    export CALLS=$BATS_TEST_TMPDIR/calls
    add_mpi
    run env "${site[@]}" MPICC="$prefix/bin/mpicc" PATH="$prefix/bin:$tools" "$root/scripts/install_deps.sh" </dev/null
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *HDF5*"PKG_CONFIG_PATH=$prefix"*"as root: apt-get install libhdf5-dev"* ]]
    [ "$(grep -c apt-get "$CALLS")" -eq 0 ]
    rm -f "$CALLS"
    add_hdf5 pc
    run env "${site[@]}" PATH="$prefix/bin:$tools" "$root/scripts/install_deps.sh" </dev/null
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"libhdf5-dev"* ]]
    [ ! -e "$CALLS" ]
}

@test "make takes HDF5 from the prefix, at run time too, by pkg-config or HDF5_DIR" {
    add_mpi
    add_hdf5 pc
    printf '#include <hdf5.h>\nint main(void) { return H5open() < 0; }\n' >"$BATS_TEST_TMPDIR/x.c"
    for word in PKG_CONFIG_PATH="$prefix/lib/pkgconfig" HDF5_DIR="$prefix"; do
        [[ $word != HDF5* ]] || rm "$prefix/lib/pkgconfig/hdf5.pc"
        env "${site[@]}" MPICC="$prefix/bin/mpicc" "$word" make -s -C "$root" info CUDA=0 >"$BATS_TEST_TMPDIR/info"
        cat "$BATS_TEST_TMPDIR/info"
        read -ra flags <<<"$(sed -n 's/^flags *//p' "$BATS_TEST_TMPDIR/info")"
        read -ra libraries <<<"$(sed -n 's/^libraries *//p' "$BATS_TEST_TMPDIR/info")"
        "${CC:-cc}" "${flags[@]}" -o "$BATS_TEST_TMPDIR/x" "$BATS_TEST_TMPDIR/x.c" "${libraries[@]}"
        env -u LD_LIBRARY_PATH "$BATS_TEST_TMPDIR/x"
        env -u LD_LIBRARY_PATH ldd "$BATS_TEST_TMPDIR/x" | grep -F "=> $prefix/lib/libhdf5"
    done
    # By name, and at once.
    mv "$prefix/lib/pkgconfig/libzip.pc" "$BATS_TEST_TMPDIR"
    run env "${site[@]}" MPICC="$prefix/bin/mpicc" HDF5_DIR="$prefix" make -s -C "$root" info CUDA=0
    [[ "$status" -eq 2 && "$output" == *"libzip was not found"* ]]
    mv "$BATS_TEST_TMPDIR/libzip.pc" "$prefix/lib/pkgconfig"
    run env "${site[@]}" MPICC=true HDF5_DIR="$prefix" make -s -C "$root" info CUDA=0
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"true is not that of Open MPI"* ]]
}
