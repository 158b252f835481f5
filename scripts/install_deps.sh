#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what building and running dptrain needs. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/install_deps.sh [--test] [--cuda] [--list]

Installs what dptrain needs on Debian or Ubuntu with apt-get (as root, or through sudo). Safe to repeat: when
everything is there it does nothing. Elsewhere it looks whether everything is there and otherwise prints what
is missing and ends with code 4.

  --test   also what scripts/test.sh needs, with TensorBoard's reader, pycocotools and clang-format from PyPI in
           build/venv (or in the folder that DPTRAIN_VENV names); where these are not available, their tests are
           skipped. It includes openssh-server, which Debian starts where services run: systemctl disable --now ssh. PNG's
           conformance images (PngSuite, 174 KB) come from the source of Debian's libspng into build/pngsuite (or
           into the folder that DPTRAIN_PNGSUITE names); without them theirs are skipped
  --cuda   also CUDA's compiler, runtime, cuBLAS and NCCL, where no nvcc is found: from PyPI into build/cuda (or
           into the folder that DPTRAIN_CUDA_HOME names), where make looks too. About 0.7 GB to download and 1.1 GB
           on disk, a minute or two; no root needed for this part, and no GPU. Building with CUDA needs toolkit 12
           or later (Debian 12's own nvidia-cuda-toolkit is 11.8), running it a driver that supports the toolkit
  --list   print the Debian packages and stop; with --cuda also PyPI's
EOF
}

# gcc brings OpenMP and the sanitizers. openssh-client starts ranks on other hosts; mpirun looks for it on one
# host too. curl, unzip and ca-certificates are for data/fetch_*.sh.
packages=(gcc libc6-dev make pkg-config git openmpi-bin libopenmpi-dev libdnnl-dev libhdf5-dev libxxhash-dev
    zlib1g-dev libpng-dev libjpeg-dev protobuf-c-compiler libprotobuf-c-dev libisal-dev libyajl-dev libyaml-dev libzip-dev
    openssh-client curl unzip ca-certificates)
# perl has prove; the command line tests look into records with jq, into checkpoints with h5dump. iproute2,
# openssh-server, rsync and sshpass are for tests/cluster, imagemagick is the other decoder of images, strace counts
# what a reader of shards opens.
test_packages=(bats hdf5-tools imagemagick iproute2 jq openssh-server perl procps python3-venv rsync shellcheck sshpass
    strace)
# TensorBoard's own reader and COCO's own masks, for their tests, with what they import; the formatter, whose versions
# differ in what they make of the same file. 24 MB to download.
venv=${DPTRAIN_VENV:-$here/../build/venv}
pip_packages=(tensorboard==2.20.0 numpy==2.2.6 protobuf==6.31.1 absl-py==2.3.1
    pycocotools==2.0.11 clang-format==14.0.6)
# PNG's conformance images, good and broken: what they are, whichever release they come from.
pngsuite=${DPTRAIN_PNGSUITE:-$here/../build/pngsuite}
pngsuite_source=libspng
pngsuite_sha256=46b7342494c0fc424e97ef3e632a9b0e8f8ba8ab577a10caec5dc133b668331a
# Of one toolkit: these compile and link together. nvcc calls nvvm, and its headers include crt and cccl.
cuda_home=${DPTRAIN_CUDA_HOME:-$here/../build/cuda}
cuda_packages=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9)

missing_packages() {
    local package status
    for package in "${packages[@]}"; do
        # shellcheck disable=SC2016 # ${...} is dpkg-query's own
        status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null) || status=
        [[ $status == *installed* && $status != *not-installed* ]] || printf '%s\n' "$package"
    done
}

install_with_apt() {
    local missing as_root=()
    # Not by process substitution: a bare chroot may lack /proc, and with it /dev/fd.
    mapfile -t missing <<<"$(missing_packages)"
    if [[ -z ${missing[*]} ]]; then
        note "everything is installed"
        return
    fi
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null || die 4 "root is needed (there is no sudo): apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    note "installing ${missing[*]}"
    "${as_root[@]}" apt-get -q update || die 4 "apt-get update failed; is the package mirror reachable?"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
        "${missing[@]}" || die 4 "apt-get could not install: ${missing[*]}"
}

# One line for each thing that is not there, in generic names.
missing_things() {
    local command module
    for command in gcc make pkg-config git mpicc mpirun protoc-c "$@"; do
        command -v "$command" >/dev/null || printf 'the command %s\n' "$command"
    done
    for module in libxxhash zlib libpng libjpeg libprotobuf-c libisal yajl yaml-0.1 libzip; do
        pkg-config --exists "$module" 2>/dev/null || printf 'the library %s with its headers\n' "$module"
    done
    pkg-config --exists hdf5-serial 2>/dev/null || pkg-config --exists hdf5 2>/dev/null ||
        printf 'the library HDF5 (1.10 or later) with its headers\n'
    echo '#include <dnnl.h>' | gcc -E -x c - >/dev/null 2>&1 ||
        printf 'the library oneDNN (version 2) with its headers\n'
}

check_without_apt() {
    local missing
    mapfile -t missing <<<"$(missing_things "$@")"
    [[ -n ${missing[*]} ]] || return 0
    note "apt-get is not here; please install OpenMPI 4.1 or later, gcc and make with the packages that have:"
    printf '  %s\n' "${missing[@]}"
    exit 4
}

# Never an error: a machine may have no Python, no way to PyPI, or another Python than the packages have.
install_venv() {
    local log
    if [[ -x $venv/bin/python && $(cat "$venv/packages" 2>/dev/null) == "${pip_packages[*]}" ]]; then return; fi
    note "installing ${pip_packages[*]} into $venv"
    if ! log=$({ python3 -m venv "$venv" &&
        timeout 300 "$venv/bin/python" -m pip install -q --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
            --no-compile --only-binary :all: "${pip_packages[@]}"; } 2>&1); then
        note "the packages from PyPI could not be installed, so their tests will be skipped: \
${log##*$'\n'}"
        return
    fi
    printf '%s\n' "${pip_packages[*]}" >"$venv/packages"
}

# Source packages from where Debian's packages come from; apt's own lists stay as they are. Never an error.
fetch_pngsuite() { # FOLDER
    local apt=(apt-get -q -o "Dir::Etc::SourceList=$1/list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache")
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/images"
    # shellcheck disable=SC2016 # $(...) are apt's own
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -vE -- '-(updates|security|backports) ' >"$1/list" || return 1
    "${apt[@]}" update && (cd "$1" && "${apt[@]}" source --download-only "$pngsuite_source") || return 1
    tar -xf "$1/$pngsuite_source"_*.orig.tar.* -C "$1/images" --strip-components=3 --wildcards '*/tests/images/*.png'
}

install_pngsuite() {
    local log part=$pngsuite.part
    [[ ! -e $pngsuite/basn0g01.png ]] || return 0
    note "fetching PngSuite into $pngsuite"
    rm -rf "$part"
    if ! log=$(fetch_pngsuite "$part" 2>&1) || [[ $(cat "$part"/images/*.png | sha256sum) != "$pngsuite_sha256  -" ]]; then
        note "PngSuite could not be had, so its tests will be skipped: ${log##*$'\n'}"
    else
        mkdir -p "$pngsuite" && cp "$part"/images/*.png "$pngsuite/"
    fi
    rm -rf "$part"
}

# The toolkit that is there: nvcc's of PATH, or what an earlier call has put into cuda_home.
cuda_found() {
    local nvcc
    for nvcc in nvcc ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"}; do
        command -v "$nvcc" >/dev/null || continue
        note "nvcc is here: $(command -v "$nvcc")"
        return
    done
    [[ -x $cuda_home/bin/nvcc && $(cat "$cuda_home/packages" 2>/dev/null) == "${cuda_packages[*]}" ]] || return 1
    note "CUDA is in $cuda_home"
}

# The wheels hold a toolkit in parts, each below site-packages/nvidia: cu13/{bin,include,lib,nvvm}, and
# nccl/{include,lib}. Put together in a folder beside, then renamed, so that what is there is whole.
install_cuda() {
    local log part=$cuda_home.part site what="NVIDIA has installers, too; make CUDA=0 builds without"
    if cuda_found; then return; fi
    [[ $(uname -m) == x86_64 ]] || die 4 "PyPI's CUDA is for x86-64; please install a CUDA toolkit (12 or later) and NCCL"
    command -v python3 >/dev/null || die 4 "--cuda needs python3 with its venv (python3-venv). $what"
    note "installing ${cuda_packages[0]} and what belongs to it into $cuda_home (0.7 GB to download)"
    rm -rf "$part"
    mkdir -p "$part" || die 4 "cannot make the folder $part; DPTRAIN_CUDA_HOME names another place"
    if ! log=$({ python3 -m venv "$part/venv" &&
        timeout 1800 "$part/venv/bin/pip" install -q --disable-pip-version-check --retries 2 --timeout 60 --no-deps \
            --no-compile --no-cache-dir --only-binary :all: "${cuda_packages[@]}"; } 2>&1); then
        rm -rf "$part"
        die 4 "CUDA could not be had from PyPI: ${log##*$'\n'}; is it reachable (a mirror: PIP_INDEX_URL), \
and are 2 GB free in $(dirname "$cuda_home")? $what"
    fi
    site=$(printf '%s\n' "$part"/venv/lib/python3*/site-packages/nvidia | head -n 1)
    if ! { mkdir "$part/cuda" && cp -a --link "$site"/cu13/. "$site"/nccl/. "$part/cuda/" &&
        ln -s lib "$part/cuda/lib64" && "$part/cuda/bin/nvcc" --version >/dev/null; }; then
        rm -rf "$part"
        die 4 "PyPI's CUDA is not laid out as it was; please report this. $what"
    fi
    printf '%s\n' "${cuda_packages[*]}" >"$part/cuda/packages"
    if ! { rm -rf "$cuda_home" && mv "$part/cuda" "$cuda_home"; }; then die 4 "cannot write $cuda_home"; fi
    rm -rf "$part"
}

list=no with_tests=no with_cuda=no test_commands=()
for word in "$@"; do
    case $word in
    --test) with_tests=yes packages+=("${test_packages[@]}") test_commands=(bats h5dump jq pgrep prove shellcheck) ;;
    --cuda) with_cuda=yes packages+=(g++ python3-venv) ;;
    --list) list=yes ;;
    *) common_option "$word" ;;
    esac
done

if [[ $list == yes ]]; then
    printf '%s\n' "${packages[@]}"
    [[ $with_cuda == no ]] || printf '%s\n' "${cuda_packages[@]}"
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    install_with_apt
else
    check_without_apt "${test_commands[@]}"
fi
if [[ $with_tests == yes && $list == no ]]; then install_venv; install_pngsuite; fi
if [[ $with_cuda == yes && $list == no ]]; then install_cuda; fi
