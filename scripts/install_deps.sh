#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the packages that dptrain needs. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/install_deps.sh [--test] [--sim] [--cuda] [--cudnn] [--aws] [--list]

Installs the packages that dptrain needs with apt-get on Debian or Ubuntu, as root or through sudo. Safe to repeat:
installed packages are left alone. On other systems, and where this user may not install packages, it lists what is missing
and where it looked, and ends with code 4; where there is dnf, with the names of RHEL 9. Libraries of the site or of your own
count where PKG_CONFIG_PATH, HDF5_DIR, CPATH, LIBRARY_PATH and MPICC lead to them (docs/platforms.md). Run on Debian 12 and
13; not run on Ubuntu 24.04, which has the same names, and RHEL 9.

  --test   also install what scripts/test.sh needs. TensorBoard's reader, pycocotools, jsonschema, clang-format, … come
           from PyPI into build/venv (or DPTRAIN_VENV), PNG's conformance suite (PngSuite, 174 KB) from the source of Debian's
           libspng into build/pngsuite (or DPTRAIN_PNGSUITE); if they are not available, their tests are skipped.
           Includes openssh-server, podman and rsync. Where it installs them, their services neither start nor are enabled
           (systemctl enable --now ssh starts sshd); those that are there already stay as they are. 90 MB to download
  --sim    also install SimGrid for scripts/simulate.sh, included in --test: 25 MB to download, 0.2 GB on disk
  --cuda   also install CUDA's compiler, runtime, cuBLAS and NCCL unless nvcc is found: from PyPI into build/cuda (or
           DPTRAIN_CUDA_HOME), where make finds them. Downloads 0.7 GB and takes 1.1 GB on disk and a minute or two;
           this part needs neither root nor a GPU. Building needs toolkit 12 or later (Debian 12's
           nvidia-cuda-toolkit is 11.8), running needs a driver that supports the toolkit
  --cudnn  the same, and cuDNN 9 for that toolkit, whose convolutions --algorithms measure then also tries, unless its headers
           are found: from PyPI into build/cuda/cudnn (or DPTRAIN_CUDA_HOME), also for a toolkit that was found elsewhere.
           Downloads 0.6 GB and takes 1.0 GB on disk; this part needs neither root nor a GPU
  --aws    also install what scripts/aws.sh needs: AWS ParallelCluster and the aws command from PyPI into build/venv-aws (or
           DPTRAIN_AWS_VENV), with moto, which plays AWS in its tests; nodejs from Debian. Takes 0.6 GB on disk and a minute
  --list   print the Debian packages and exit; with --cuda, --cudnn or --aws also those from PyPI
EOF
}

# gcc includes OpenMP and the sanitizers. openssh-client starts ranks on other hosts; mpirun looks for it even on a single
# host. curl, unzip and ca-certificates are for data/fetch_*.sh.
packages=(gcc libc6-dev make pkg-config git openmpi-bin libopenmpi-dev libdnnl-dev libhdf5-dev libxxhash-dev
    zlib1g-dev libpng-dev libjpeg-dev protobuf-c-compiler libprotobuf-c-dev libisal-dev libyajl-dev libyaml-dev libzip-dev
    openssh-client curl unzip ca-certificates)
# The command line tests look into records with jq, into checkpoints with h5dump, and start programs with perl. iproute2, iptables,
# openssh-server, rsync and sshpass are for tests/cluster, podman and runc for tests/container, debootstrap for tests/platform,
# imagemagick is the other decoder of images, strace counts what a reader of shards opens, xz packs bundles.
test_packages=(bats debootstrap hdf5-tools imagemagick iproute2 iptables jq openssh-server perl podman procps python3-venv rsync
    runc shellcheck sshpass strace xz-utils)
# SimGrid, LGPL, for simulated hosts (make SMPI=1), which no other build uses.
sim_packages=(libsimgrid-dev)
# The same for RHEL 9 with CRB and EPEL. Not run.
rpm_packages=(gcc glibc-devel make pkgconf-pkg-config git openmpi openmpi-devel onednn-devel hdf5-devel xxhash-devel
    zlib-devel libpng-devel libjpeg-turbo-devel protobuf-c-compiler protobuf-c-devel isa-l-devel yajl-devel libyaml-devel
    libzip-devel openssh-clients curl unzip ca-certificates)
rpm_test_packages=(bats hdf5 ImageMagick iproute iptables-nft jq libasan libubsan openssh-server perl podman procps-ng python3 rsync runc
    ShellCheck sshpass strace xz)
# TensorBoard's reader, COCO's masks, readers of weights and networks, and a validator of JSON schemas with their
# dependencies, for tests; clang-format, whose versions format differently. 40 MB to download.
venv=${DPTRAIN_VENV:-$here/../build/venv}
pip_packages=(tensorboard==2.20.0 numpy==2.2.6 protobuf==6.31.1 absl-py==2.3.1
    pycocotools==2.0.11 safetensors==0.8.0 onnxruntime==1.20.1 clang-format==14.0.6 jsonschema==4.17.3 attrs==25.3.0
    pyrsistent==0.20.0 pyyaml==6.0.2)
# PNG's conformance images, good and broken: what they are, whichever release they come from.
pngsuite=${DPTRAIN_PNGSUITE:-$here/../build/pngsuite}
pngsuite_source=libspng
pngsuite_sha256=46b7342494c0fc424e97ef3e632a9b0e8f8ba8ab577a10caec5dc133b668331a
# All from one toolkit, so that they work together. nvcc calls nvvm, and its headers include crt and cccl.
cuda_home=${DPTRAIN_CUDA_HOME:-$here/../build/cuda}
cuda_packages=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9)
# By the toolkit's major version. Some of cuDNN's engines compile kernels by NVRTC, which they find beside them.
declare -A cudnn_packages=(
    [12]="nvidia-cudnn-cu12==9.28.0.42 nvidia-cuda-nvrtc-cu12==12.9.86"
    [13]="nvidia-cudnn-cu13==9.28.1.4 nvidia-cuda-nvrtc==13.0.88")

# ParallelCluster loads setuptools' pkg_resources, which later versions lack. The others that it needs agree with these.
aws_venv=${DPTRAIN_AWS_VENV:-$here/../build/venv-aws}
aws_packages=(aws-parallelcluster==3.16.1 awscli==1.46.3 boto3==1.44.8 "moto[server]==5.2.5" setuptools==80.9.0)

missing_packages() {
    local package status
    for package in "${packages[@]}"; do
        # shellcheck disable=SC2016 # ${...} is dpkg-query's own
        status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null) || status=
        [[ $status == *installed* && $status != *not-installed* ]] || printf '%s\n' "$package"
    done
}

# Debian starts the services of these packages, and enables them; tests start their own.
service_packages=(openssh-server podman rsync)
policy=${DPTRAIN_POLICY_RC:-/usr/sbin/policy-rc.d}
as_root=() served=() held=no

# Until release_services, also after a signal, keeps the services of $served from starting as they are installed.
hold_services() {
    trap '((BASHPID != $$)) || release_services' EXIT
    [[ ! -e $policy ]] || return 0
    held=yes
    # shellcheck disable=SC2016 # for the other shell
    "${as_root[@]}" sh -c 'printf "%s\n" "#!/bin/sh" "# From install_deps.sh, until apt-get ends." \
        "case \" \$*\" in *\" ssh\"* | *\" podman\"* | *\" rsync\"*) exit 101 ;; esac" >"$1" && chmod 755 "$1"' sh "$policy"
}

# Disables what the packages of $served have enabled.
release_services() {
    local files units names name
    trap - EXIT
    [[ $held == no ]] || "${as_root[@]}" rm -f "$policy"
    files=$(dpkg -L "${served[@]}" 2>/dev/null) || true
    # Not the templates NAME@.
    mapfile -t units <<<"$(sed -nE 's,^(/usr)?/lib/systemd/system/([^/@]+\.(service|socket|timer))$,\2,p' <<<"$files")"
    mapfile -t names <<<"$(sed -nE 's,^/etc/init\.d/([^/]+)$,\1,p' <<<"$files")"
    if [[ -n ${units[*]} ]] && command -v systemctl >/dev/null; then
        "${as_root[@]}" systemctl -q disable "${units[@]}" || note "cannot disable ${units[*]}"
        [[ ! -d /run/systemd/system ]] || "${as_root[@]}" systemctl -q stop "${units[@]}" || true
    elif [[ -n ${names[*]} ]] && command -v update-rc.d >/dev/null; then
        for name in "${names[@]}"; do "${as_root[@]}" update-rc.d "$name" disable || note "cannot disable $name"; done
    fi
}

install_with_apt() {
    local missing things package
    # No process substitution: a bare chroot may lack /proc, and therefore /dev/fd.
    mapfile -t missing <<<"$(missing_packages)"
    if [[ -z ${missing[*]} ]]; then
        note "everything is installed"
        return
    fi
    if [[ $(id -u) -ne 0 ]]; then
        # The site's or the user's own may serve.
        mapfile -t things <<<"$(missing_things "${test_commands[@]}")"
        if [[ -z ${things[*]} ]]; then
            note "the build finds all that it needs; not installed, and not asked for, as that takes root: ${missing[*]}"
            return
        fi
        may_sudo || list_missing "this user cannot install packages; as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    note "installing ${missing[*]}"
    "${as_root[@]}" apt-get -q update || die 4 "apt-get update failed; is the package mirror reachable?"
    for package in "${service_packages[@]}"; do
        [[ " ${missing[*]} " != *" $package "* ]] || served+=("$package")
    done
    [[ ${#served[@]} -eq 0 ]] || hold_services
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
        "${missing[@]}" || die 4 "apt-get could not install: ${missing[*]}"
    [[ ${#served[@]} -eq 0 ]] || release_services
}

# Prints missing commands and libraries, one per line, by generic names. Looks where make looks.
missing_things() {
    local command module cc mpicc=${MPICC:-mpicc} find=${PKG_CONFIG:-pkg-config} flags said
    read -ra cc <<<"${CC:-gcc}"
    for command in "${cc[0]}" make "$find" "$mpicc" mpirun "${PROTOC_C:-protoc-c}" "$@"; do
        command -v "$command" >/dev/null || printf 'the command %s\n' "$command"
    done
    if command -v "$mpicc" >/dev/null; then
        said=$("$mpicc" --showme:version 2>&1) || true
        [[ $said == *"Open MPI"* ]] || printf "Open MPI's mpicc (%s --showme:version: %s)\n" "$mpicc" "${said%%$'\n'*}"
    fi
    for module in libxxhash zlib libpng libjpeg libprotobuf-c libisal yajl yaml-0.1 libzip; do
        "$find" --exists "$module" 2>/dev/null || printf 'the library %s with its headers (%s.pc)\n' "$module" "$module"
    done
    [[ -n ${HDF5_DIR:-} && -e $HDF5_DIR/include/hdf5.h ]] || "$find" --exists hdf5-serial 2>/dev/null ||
        "$find" --exists hdf5 2>/dev/null || printf 'the library HDF5 (1.10 or later) with its headers (hdf5.pc)\n'
    read -ra flags <<<"$("$find" --cflags --libs dnnl 2>/dev/null || echo -ldnnl)"
    printf '#include <dnnl.h>\nint main(void) { return !dnnl_version(); }\n' |
        "${cc[@]}" -x c - -o /dev/null "${flags[@]}" >/dev/null 2>&1 ||
        printf 'the library oneDNN (version 2 or 3) with its headers (dnnl.h)\n'
}

# Whether sudo lets this user become root; it may ask for a password at a terminal.
may_sudo() {
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }
}

# Ends the script with what is in `things`, and where it was looked for.
list_missing() { # WHAT TO DO
    local find=${PKG_CONFIG:-pkg-config} folders
    folders=$("$find" --variable pc_path pkg-config 2>/dev/null) || true
    note "missing:"
    printf '  %s\n' "${things[@]}" >&2
    note "looked for"
    printf '  %-10s in %s\n' commands "PATH=$PATH${MPICC:+, MPICC=$MPICC}${PROTOC_C:+, PROTOC_C=$PROTOC_C}" \
        libraries "PKG_CONFIG_PATH=${PKG_CONFIG_PATH:-(not set)}, by $find, and ${PKG_CONFIG_LIBDIR:-${folders:-its own folders}}" \
        HDF5 "these and HDF5_DIR=${HDF5_DIR:-(not set)}" \
        oneDNN "these and, by ${CC:-gcc}, CPATH=${CPATH:-(not set)}, LIBRARY_PATH=${LIBRARY_PATH:-(not set)} and its own folders" >&2
    note "without root, set these variables to where your site, or you, have installed them: docs/platforms.md#without-root"
    die 4 "$1"
}

check_without_apt() {
    local things
    mapfile -t things <<<"$(missing_things "$@")"
    [[ -n ${things[*]} ]] || return 0
    if command -v dnf >/dev/null; then
        note "on RHEL 9 with the repositories CRB and EPEL, by these names, which have not been tried; \
then module load mpi/openmpi-x86_64"
        printf '  dnf install %s\n' "${rpm_packages[*]}" >&2
    fi
    list_missing "apt-get was not found; install Open MPI 4.1 or later, gcc, make, and the packages that contain these"
}

# Never an error: a machine may lack Python or access to PyPI, or have a Python that the packages do not support.
install_venv() {
    local log
    if [[ -x $venv/bin/python && $(cat "$venv/packages" 2>/dev/null) == "${pip_packages[*]}" ]]; then return; fi
    note "installing ${pip_packages[*]} into $venv"
    if ! log=$({ python3 -m venv "$venv" &&
        timeout 300 "$venv/bin/python" -m pip install -q --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
            --no-compile --only-binary :all: "${pip_packages[@]}"; } 2>&1); then
        note "could not install the packages from PyPI, so their tests will be skipped: \
${log##*$'\n'}"
        return
    fi
    printf '%s\n' "${pip_packages[*]}" >"$venv/packages"
}

# Downloads the source package from Debian's mirror; apt's own lists stay unchanged. Never an error.
fetch_pngsuite() { # FOLDER
    local apt=(apt-get -q -o "Dir::Etc::SourceList=$1/list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache")
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/images"
    # shellcheck disable=SC2016 # $(...) is for apt
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -vE -- '-(updates|security|backports) ' >"$1/list" || return 1
    "${apt[@]}" update && (cd "$1" && "${apt[@]}" source --download-only --tar-only "$pngsuite_source") || return 1
    tar -xf "$1/$pngsuite_source"_*.orig.tar.* -C "$1/images" --strip-components=3 --wildcards '*/tests/images/*.png'
}

install_pngsuite() {
    local log part=$pngsuite.part
    [[ ! -e $pngsuite/basn0g01.png ]] || return 0
    note "fetching PngSuite into $pngsuite"
    rm -rf "$part"
    if ! log=$(fetch_pngsuite "$part" 2>&1) || [[ $(cat "$part"/images/*.png | sha256sum) != "$pngsuite_sha256  -" ]]; then
        note "could not fetch PngSuite, so its tests will be skipped: ${log##*$'\n'}"
    else
        mkdir -p "$pngsuite" && cp "$part"/images/*.png "$pngsuite/"
    fi
    rm -rf "$part"
}

# Sets nvcc to the compiler that make takes: in PATH, of CUDA_HOME, or in cuda_home from an earlier call.
find_nvcc() {
    for nvcc in nvcc ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$cuda_home/bin/nvcc"; do
        if nvcc=$(command -v "$nvcc"); then return; fi
    done
    return 1
}

cuda_found() {
    local nvcc
    find_nvcc || return 1
    if [[ $nvcc != "$cuda_home/bin/nvcc" ]]; then
        note "found nvcc: $nvcc"
        return
    fi
    [[ $(cat "$cuda_home/packages" 2>/dev/null) == "${cuda_packages[*]}" ]] || return 1
    note "CUDA is in $cuda_home"
}

# Installs packages from PyPI into a temporary folder, and sets site to where they are. The caller moves what it needs to its
# place by a rename, so that this is always complete.
install_from_pypi() { # NAME FOLDER ADVICE PACKAGES...
    local log name=$1 part=$2 advice=$3
    command -v python3 >/dev/null || die 4 "installing $name requires python3 with venv (python3-venv). $advice"
    rm -rf "$part"
    mkdir -p "$part" || die 4 "cannot create the folder $part; set DPTRAIN_CUDA_HOME to another"
    if ! log=$({ python3 -m venv "$part/venv" &&
        timeout 1800 "$part/venv/bin/pip" install -q --disable-pip-version-check --retries 2 --timeout 60 --no-deps \
            --no-compile --no-cache-dir --only-binary :all: "${@:4}"; } 2>&1); then
        rm -rf "$part"
        die 4 "could not install $name from PyPI: ${log##*$'\n'}; check that it is reachable (for a mirror, set \
PIP_INDEX_URL) and that $(dirname "$cuda_home") has 2 GB free. $advice"
    fi
    site=$(printf '%s\n' "$part"/venv/lib/python3*/site-packages/nvidia | head -n 1)
}

# The wheels contain parts of a toolkit in site-packages/nvidia: cu13/{bin,include,lib,nvvm} and nccl/{include,lib}.
install_cuda() {
    local site part=$cuda_home.part advice="Alternatively use NVIDIA's installer; make CUDA=0 builds without CUDA"
    if cuda_found; then return; fi
    [[ $(uname -m) == x86_64 ]] || die 4 "PyPI has CUDA for x86-64 only; install a CUDA toolkit (12 or later) and NCCL"
    note "installing ${cuda_packages[0]} and related packages into $cuda_home (0.7 GB to download)"
    install_from_pypi CUDA "$part" "$advice" "${cuda_packages[@]}"
    if ! { mkdir "$part/cuda" && cp -a --link "$site"/cu13/. "$site"/nccl/. "$part/cuda/" &&
        ln -s lib "$part/cuda/lib64" && "$part/cuda/bin/nvcc" --version >/dev/null; }; then
        rm -rf "$part"
        die 4 "unexpected layout of PyPI's CUDA packages; please report this. $advice"
    fi
    printf '%s\n' "${cuda_packages[*]}" >"$part/cuda/packages"
    [[ ! -e $cuda_home/cudnn ]] || mv "$cuda_home/cudnn" "$part/cuda/"
    if ! { rm -rf "$cuda_home" && mv "$part/cuda" "$cuda_home"; }; then die 4 "cannot write $cuda_home"; fi
    rm -rf "$part"
}

# Sets toolkit, and wheels to cuDNN's for it.
choose_cudnn() {
    local nvcc='' major=13
    if find_nvcc; then
        toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
        major=$("$nvcc" --version | sed -nE 's/.*release ([0-9]+)\..*/\1/p')
    fi
    read -ra wheels <<<"${cudnn_packages[${major:-0}]:-}"
    [[ ${#wheels[@]} -gt 0 ]] || die 4 "--cudnn: $nvcc is of CUDA ${major:-(unknown)}, and PyPI has cuDNN for CUDA 12 and 13; \
install cuDNN 9 from NVIDIA, and set CUDNN_HOME to its folder"
}

# Wheels: cudnn/{include,lib}; NVRTC in cu13/lib or cuda_nvrtc/lib.
install_cudnn() {
    local site wheels toolkit home=$cuda_home/cudnn part=$cuda_home/cudnn.part
    local advice="The build works without cuDNN, and then lacks its algorithms"
    choose_cudnn
    if "${CC:-gcc}" -E -x c ${CUDNN_HOME:+-isystem "$CUDNN_HOME/include"} -isystem "$toolkit/include" - \
        <<<$'#include <cudnn.h>\n#if CUDNN_MAJOR != 9\n#error\n#endif' >/dev/null 2>&1; then
        note "found cuDNN's headers for $toolkit"
        return
    fi
    if [[ $(cat "$home/packages" 2>/dev/null) == "${wheels[*]}" ]]; then
        note "cuDNN is in $home"
        return
    fi
    note "installing ${wheels[*]} into $home (0.6 GB to download)"
    install_from_pypi cuDNN "$part" "$advice" "${wheels[@]}"
    if ! { mkdir "$part/cudnn" && cp -a --link "$site"/cudnn/{include,lib} "$part/cudnn/" &&
        cp -a --link "$site"/*/lib/libnvrtc{,-builtins}.so.* "$part/cudnn/lib/"; }; then
        rm -rf "$part"
        die 4 "unexpected layout of PyPI's cuDNN packages; please report this. $advice"
    fi
    printf '%s\n' "${wheels[*]}" >"$part/cudnn/packages"
    if ! { rm -rf "$home" && mv "$part/cudnn" "$home"; }; then die 4 "cannot write $home"; fi
    rm -rf "$part"
}

install_aws() {
    local log
    if [[ -x $aws_venv/bin/pcluster && $(cat "$aws_venv/packages" 2>/dev/null) == "${aws_packages[*]}" ]]; then
        note "AWS ParallelCluster is in $aws_venv"
        return
    fi
    command -v python3 >/dev/null || die 4 "--aws requires python3 with venv (python3-venv)"
    note "installing ${aws_packages[*]} into $aws_venv"
    rm -rf "$aws_venv"
    if ! log=$({ python3 -m venv "$aws_venv" &&
        timeout 1800 "$aws_venv/bin/python" -m pip install -q --disable-pip-version-check --retries 2 --timeout 60 \
            "${aws_packages[@]}" && "$aws_venv/bin/pcluster" version; } 2>&1); then
        die 4 "could not install AWS ParallelCluster from PyPI: ${log##*$'\n'}; for a mirror, set PIP_INDEX_URL"
    fi
    printf '%s\n' "${aws_packages[*]}" >"$aws_venv/packages"
}

list=no with_tests=no with_cuda=no with_cudnn=no with_aws=no test_commands=()
for word in "$@"; do
    case $word in
    --test)
        with_tests=yes packages+=("${test_packages[@]}" "${sim_packages[@]}") rpm_packages+=("${rpm_test_packages[@]}")
        test_commands=(bats h5dump jq perl pgrep shellcheck xz)
        ;;
    --sim) packages+=("${sim_packages[@]}") ;;
    --cuda | --cudnn)
        with_cuda=yes packages+=(g++ python3-venv)
        [[ $word == --cuda ]] || with_cudnn=yes
        ;;
    --aws) with_aws=yes packages+=(nodejs python3-venv) ;;
    --list) list=yes ;;
    *) common_option "$word" ;;
    esac
done
end_of_options

if [[ $list == yes ]]; then
    printf '%s\n' "${packages[@]}"
    [[ $with_cuda == no ]] || printf '%s\n' "${cuda_packages[@]}"
    [[ $with_cudnn == no ]] || { choose_cudnn && printf '%s\n' "${wheels[@]}"; }
    [[ $with_aws == no ]] || printf '%s\n' "${aws_packages[@]}"
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    install_with_apt
else
    check_without_apt "${test_commands[@]}"
fi
if [[ $with_tests == yes && $list == no ]]; then install_venv; install_pngsuite; fi
if [[ $with_cuda == yes && $list == no ]]; then install_cuda; fi
if [[ $with_cudnn == yes && $list == no ]]; then install_cudnn; fi
if [[ $with_aws == yes && $list == no ]]; then install_aws; fi
