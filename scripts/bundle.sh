#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Packs dptrain with the libraries that compute nodes may lack. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bundle.sh [options]

Packs the program, Open MPI and all shared libraries that they use, except glibc and the GPU driver, into one tarball.
It runs from any folder, on nodes without packages: dptrain-…/dptrain, dptrain-…/mpirun, dptrain-…/scripts/run.sh. On
several hosts, unpack it under the same path on each, or on a shared folder; the path must not contain blanks.

  --with-cuda   include cuBLASLt and NCCL from the toolkit of the build (about 700 MB unpacked), never cuDNN
  --with-tests  include the GPU tests and benchmarks, for scripts/bench/gpu_suite.sh on a machine that cannot build. Without
                --with-cuda, a tarball above 60 MB is refused, and what is large is listed
  --out FILE    the tarball, *.tar.gz or *.tar.xz [dptrain-VERSION-x86_64.tar.gz; with --with-tests, .tar.xz]. xz takes
                minutes and 2 GB of memory, and halves the size; tar needs xz to unpack it, or Python its tarfile
  -h, --help    show this help

Runs make first; variables for make (CUDA=1, CUDA_ARCHS=90) come from the environment. The node's glibc must not be older
than the libraries require; the start script checks this.
EOT
}

with_cuda=no with_tests=no out='' most_mb=60
while [[ $# -gt 0 ]]; do
    case $1 in
    --with-cuda) with_cuda=yes; shift ;;
    --with-tests) with_tests=yes; shift ;;
    --out) need_value "$@"; out=$(readlink -m "$2"); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$here/.."
version=$(cat VERSION)
name=dptrain-$version-$(uname -m)
out=${out:-$PWD/$name.tar.$([[ $with_tests == yes ]] && echo xz || echo gz)}
# The tests contain much of the same code: a window that spans them finds it.
case $out in
*.tar.gz) pack=(gzip) ;;
*.tar.xz) pack=(xz -T 1 "--lzma2=preset=6,dict=192MiB") ;;
*) die 2 "--out $out: expected a name that ends in .tar.gz or .tar.xz" ;;
esac
end_of_options
for tool in ompi_info ldd objdump strip tar "${pack[0]}"; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; run scripts/install_deps.sh --test"
done
[[ -d $(dirname "$out") ]] || die 2 "--out $out: no such folder"

make -s -j "$(nproc)" dptrain >&2 || die 1 "the build failed"
program=${DPTRAIN_BIN:-$PWD/dptrain}
# The RUN lines of GPU tests name the device cuda.
gpu_tests=()
if [[ $with_tests == yes ]]; then
    mapfile -t gpu_tests < <(grep -lE 'RUN .*device=[a-z,]*cuda' tests/unit/test_*.c tests/mpi/test_*.c)
    programs=("${gpu_tests[@]/#/build/}")
    make -s -j "$(nproc)" "${programs[@]%.c}" >&2 || die 1 "the build of the tests failed"
    if compgen -G 'build/kernels/cuda/*.o' >/dev/null; then
        make -s build/scripts/bench/gpu_ops build/scripts/bench/gpu_products >&2 || die 1 "the build of the benchmarks failed"
    fi
fi
cuda_home=$(make -s info | sed -n 's/^CUDA *yes, //p')
[[ $with_cuda == no || -n $cuda_home ]] || die 2 "--with-cuda: this build has no CUDA; run scripts/install_deps.sh --cuda"

make_work bundle
root=$work/$name
mkdir -p "$root"/{bin,lib/none,libexec,scripts,etc}

# Keep Open MPI's folder of plugins relative to its prefix, which OPAL_PREFIX moves.
ompi() { ompi_info --parsable --path "$1" | cut -d : -f 3; }
prefix=$(ompi prefix) plugins=$(ompi pkglibdir)
[[ $plugins == "$prefix"/* && -d $plugins ]] || die 4 "Open MPI's plugins are not below its prefix: $plugins, $prefix"
into=$root/${plugins#"$prefix"/}
mkdir -p "$into" "$root/share/openmpi"
# Leave out plugins for fabrics: their libraries belong to the node's drivers, Debian's Open MPI does not use them by default,
# and NCCL loads the node's libibverbs itself. Leave out OpenSHMEM, and launchers other than ssh and Slurm.
for plugin in "$plugins"/*.so; do
    case ${plugin##*/} in
    *_ucx.so | *_ofi.so | *_openib.so | *_psm*.so | *_flux.so | *_jsm.so) ;;
    mca_atomic_* | mca_memheap_* | mca_scoll_* | mca_spml_* | mca_sshmem_* | libompi_dbg*) ;;
    *) cp -L "$plugin" "$into/" ;;
    esac
done
cp "$(ompi pkgdatadir)"/*.txt "$root/share/openmpi/"
if [[ -d $(ompi sysconfdir) ]]; then cp -rL "$(ompi sysconfdir)" "$root/etc/openmpi"; else mkdir "$root/etc/openmpi"; fi
# OpenMPI 4's mpirun starts ranks itself, that of 5 is a wrapper of PRRTE.
mpi_version
mpi_commands=(mpirun orted)
if ((mpi_major >= 5)); then
    mpi_commands=(mpirun prterun prted)
    cp -rL "$(dirname "$(ompi pkgdatadir)")/prte" "$root/share/prte" || die 4 "Open MPI's folder share/prte was not found"
fi
for command in "${mpi_commands[@]}"; do
    cp -L "$(command -v "$command")" "$root/libexec/$command" || die 4 "Open MPI's $command was not found"
done
# PMIx's plugins belong to its version, so the start script keeps libpmix from those of the node.
pmix=$(ldd "$plugins"/mca_pmix_*.so "$(command -v "${mpi_commands[1]}")" 2>/dev/null | awk '$1 ~ /^libpmix\.so/ && $3 ~ /^\// { print $3; exit }')
mkdir -p "$root/lib/pmix" "$root/share/pmix"
if [[ -n $pmix ]]; then
    pmix=$(dirname "$(readlink -f "$pmix")")
    find "$pmix/pmix" -name '*.so' -exec cp -L {} "$root/lib/pmix/" \; 2>/dev/null || true
    cp "$pmix"/../share/pmix/*.txt "$root/share/pmix/" 2>/dev/null || true
fi
cp "$program" "$root/libexec/dptrain"

# The start script, installed under the name of each program.
start=$work/start
cat >"$start" <<'EOT'
#!/bin/sh
# Starts the program of this name in libexec with the libraries of this folder.
name=${0##*/}
case $0 in
*/*) home=${0%/*} ;;
*) home=$(command -v "$0") && home=${home%/*} ;;
esac
home=$(CDPATH='' cd -P "$home/@UP@" && pwd) || exit 4
wanted=@GLIBC@
# shellcheck disable=SC2046 # two words
set_glibc() { glibc=$2; }
set_glibc $(getconf GNU_LIBC_VERSION 2>/dev/null)
older() { # A B, as in 2.9 2.36
    [ "${1%%.*}" -lt "${2%%.*}" ] || { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${1#*.}" -lt "${2#*.}" ]; }
}
if [ -n "$glibc" ] && older "$glibc" "$wanted"; then
    echo "$name: error: this bundle needs glibc $wanted or later, but this node has $glibc; pack it on a system as old as the oldest node" >&2
    exit 4
fi
LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
OPAL_PREFIX=$home OPAL_SYSCONFDIR=$home/etc/openmpi PRTE_PREFIX=$home PRTE_SYSCONFDIR=$home/etc/openmpi
# PMIx has its folders one by one, as its prefix does not move those that were configured apart.
PMIX_PREFIX=$home PMIX_LIBDIR=$home/lib PMIX_DATADIR=$home/share PMIX_SYSCONFDIR=$home/etc
export LD_LIBRARY_PATH OPAL_PREFIX OPAL_SYSCONFDIR PRTE_PREFIX PRTE_SYSCONFDIR
export PMIX_PREFIX PMIX_LIBDIR PMIX_DATADIR PMIX_SYSCONFDIR
# Do not load the node's plugins of hwloc and UCX, which belong to other libraries. Silence PMIx's warning about missing
# compression, which only large jobs need.
HWLOC_PLUGINS_PATH=$home/lib/none UCX_MODULE_DIR=$home/lib/none PMIX_MCA_pcompress_base_silence_warning=1
export HWLOC_PLUGINS_PATH UCX_MODULE_DIR PMIX_MCA_pcompress_base_silence_warning
# Without /proc, UCX prints an error per process.
[ -r /proc/sys/kernel/random/boot_id ] || export UCX_LOG_LEVEL="${UCX_LOG_LEVEL-fatal}"
# The environment may be empty. mpirun starts its daemon by PATH, and Open MPI 5 ends without HOME.
PATH=$home/bin:${PATH:-/usr/local/bin:/usr/bin:/bin} HOME=${HOME:-/}
export PATH HOME
# The launcher keeps the name of run.sh, by which it is found in the list of processes.
case $name:$1:$CALLED_AS in
dptrain:run:*run.sh) exec bash -c 'exec -a "$CALLED_AS" "$0" "$@"' "$home/libexec/dptrain" "$@" ;;
esac
exec "$home/libexec/$name" "$@"
EOT

scripts=(run.sh container.sh container mpijob.sh mpijob aws.sh aws dptrain.sbatch nccl_bw.sh setup_ssh.sh on_hosts.sh stage_data.sh
    cluster_health.sh cluster lib.sh help.awk regress.sh regress)
if [[ $with_tests == yes ]]; then
    scripts+=(test.sh bench/gpu_suite.sh bench/gpu_losses.sh bench/gpu_steps.sh bench/gpu_detection.sh bench/peers)
    mkdir -p "$root"/{tests/unit,tests/mpi,results,build/tests/unit,build/tests/mpi,build/scripts/bench}
    cp tests/driver.sh "$root/tests/"
    # test.sh reads their RUN lines.
    for source in "${gpu_tests[@]}"; do
        cp "$source" "$root/$source"
        cp "build/${source%.c}" "$root/libexec/"
    done
    for bench in gpu_ops gpu_products; do
        [[ ! -x build/scripts/bench/$bench ]] || cp "build/scripts/bench/$bench" "$root/libexec/"
    done
fi
(cd scripts && tar cf - "${scripts[@]}") | tar xf - -C "$root/scripts"
cp -r README.md docs LICENSE VERSION "$root/"
for file in "$root"/libexec/*; do strip --strip-debug "$file"; done

# All shared libraries, direct and indirect, as listed by ldd. cuDNN is the node's, or PyTorch's, like the driver.
is_of_the_system() { # LIBRARY
    [[ $1 =~ ^(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|mvec|nsl|anl|BrokenLocale|thread_db))\.so || $1 =~ ^lib(cuda|cudnn.*|nvidia.*)\.so ]]
}
ldd "$root"/libexec/* "$into"/*.so "$root"/lib/pmix/*.so 2>/dev/null >"$work/ldd" || true
if missing=$(grep -E '=> not found' "$work/ldd" | sort -u) && [[ -n $missing ]]; then
    die 4 "cannot pack libraries that are missing on this machine:$missing"
fi
while read -r library path; do
    is_of_the_system "$library" || [[ -e $root/lib/$library ]] || cp -L "$path" "$root/lib/$library"
done < <(awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' "$work/ldd" | sort -u)
if [[ $with_cuda == yes ]]; then
    for library in libcublasLt.so libnccl.so; do
        path=$(find -L "$cuda_home/lib64" "$cuda_home/lib" -maxdepth 2 -name "$library.[0-9]*" 2>/dev/null | awk '{ print length, $0 }' |
            sort -n | sed -n '1s/^[0-9]* //p') || true # a toolkit may lack one of the folders
        [[ -n $path ]] || path=$(ldconfig -p | awk -v want="$library." 'index($1, want) == 1 { print $NF; exit }')
        [[ -n $path ]] || die 4 "--with-cuda: $library was not found in $cuda_home; scripts/install_deps.sh --cuda has it"
        cp -L "$path" "$root/lib/${path##*/}"
    done
fi

# The glibc that the libraries require, which is usually older than the one on this machine.
glibc=$(find "$root/lib" "$root/libexec" -type f -exec objdump -T {} + 2>/dev/null |
    grep -oE '\(GLIBC_2\.[0-9]+' | grep -oE '2\.[0-9]+' | sort -u -t . -k 2n | tail -n 1)
[[ -n $glibc ]] || die 4 "cannot tell which glibc the libraries need (objdump -T)"
install_start() { # FILE UP
    sed "s|@UP@|$2|; s|@GLIBC@|$glibc|" "$start" >"$1"
    chmod 755 "$1"
}
for command in dptrain mpirun; do install_start "$root/$command" .; done
for command in dptrain "${mpi_commands[@]}"; do install_start "$root/bin/$command" ..; done
for source in "${gpu_tests[@]}"; do install_start "$root/build/${source%.c}" ../../..; done
for bench in gpu_ops gpu_products; do
    [[ ! -e $root/libexec/$bench ]] || install_start "$root/build/scripts/bench/$bench" ../../..
done

note "packing $(du -sh "$root" | cut -f 1) with ${pack[0]}"
tar -C "$work" --owner=0 --group=0 --numeric-owner --sort=name -c "$name" | "${pack[@]}" >"$out.part" || die 4 "cannot write $out"
n_mb=$(($(stat -c %s "$out.part") / 1000000))
if [[ $with_tests == yes && $with_cuda == no ]] && ((n_mb > most_mb)); then
    rm "$out.part"
    note "the largest files, in MB:"
    (cd "$root" && find . -type f -printf '%s %P\n') | sort -rn | awk 'NR <= 15 { printf "%7.1f %s\n", $1 / 1e6, $2 }' >&2
    die 1 "the tarball has $n_mb MB, and a bundle with tests may have $most_mb; CUDA_ARCHS=90 compiles for one GPU only"
fi
mv "$out.part" "$out" || die 4 "cannot write $out"
note "$out: $(du -h "$out" | cut -f 1), $(du -sh "$root" | cut -f 1) unpacked, for glibc $glibc and later"
