#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs, builds, trains and evaluates in one command. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/quickstart.sh [options]

Installs missing packages, builds dptrain, trains LeNet-5 on two MPI ranks, evaluates it, and prints the paths of the
results. It downloads only packages, 130 MB on a new Debian 12: without --data the network learns the built-in digits
(data/fetch_mnist.sh downloads MNIST). Takes three minutes on two cores. Safe to repeat: a previous run is replaced.
Where the user cannot write, it runs the program that is built there. Without root it builds with what the site or the
user has installed: PKG_CONFIG_PATH, HDF5_DIR, CPATH, LIBRARY_PATH and MPICC lead to it (docs/platforms.md).

  --epochs N      passes over the training set [1]
  --np N          number of ranks [2]
  --data DIR      data set [dptrain's default, see dptrain train --help]
  --out DIR       folder of the run; an earlier run in it is replaced [runs/quickstart of this tree; of the current folder
                  if the tree belongs to another user]
  --skip-install  do not install missing packages
  -h, --help      show this help
EOF
}

epochs=1 np=2 data=() out='' install=yes
while [[ $# -gt 0 ]]; do
    case $1 in
    --epochs) need_value "$@"; whole_number "$1" "$2" 1; epochs=$2; shift 2 ;;
    --np | -np) need_value "$@"; whole_number "$1" "$2" 1; np=$2; shift 2 ;;
    --data) need_value "$@"; data=(--data "$2"); shift 2 ;;
    --out) need_value "$@"; out=$2; shift 2 ;;
    --skip-install) install=no; shift ;;
    *) common_option "$1" ;;
    esac
done
end_of_options
root=$(readlink -f "$here/..")

# Whether this user can build here, and put runs here.
own_tree() {
    local place
    for place in "$root" "$root/build" "$root/dptrain" "$root/runs"; do
        [[ ! -e $place || -w $place ]] || return 1
    done
}

# mpirun must be of the same MPI as mpicc.
if mpi=$(command -v "${MPICC:-}"); then
    mpi=$(cd "${mpi%/*}" && pwd)
    if [[ -x $mpi/mpirun && $(command -v mpirun) != "$mpi/mpirun" ]]; then
        note "using $mpi/mpirun, beside MPICC; for later commands: export PATH=$(printf %q "$mpi"):\$PATH"
        export PATH=$mpi:$PATH
    fi
fi

step() { printf '\n== %s\n' "$1"; }

if [[ $install == yes ]]; then
    step "Installing missing packages"
    "$here/install_deps.sh"
fi
if own_tree; then
    step "Building"
    make -C "$root" --no-print-directory -j "$(nproc)" || die 4 "the build failed"
    out=${out:-$root/runs/quickstart}
else
    [[ -x $root/dptrain ]] || die 4 "cannot build in $root, which belongs to $(stat -c %U "$root"): copy it to a folder of \
yours, or ask that user to run make"
    note "cannot write to $root, which belongs to $(stat -c %U "$root"): running the program that is built there"
    out=${out:-$PWD/runs/quickstart}
fi

mpi_allow_root
export DPTRAIN_BIN=$root/dptrain
step "Training LeNet-5 on $np ranks"
"$here/run.sh" -np "$np" train --model lenet5 --out "$out" --overwrite --epochs "$epochs" "${data[@]}"

step "Evaluating"
"$root/dptrain" eval "$out" "${data[@]}"

# A path as it is typed in the current folder.
typed() { # PATH
    local path
    path=$(realpath --relative-base="$PWD" "$1")
    [[ $path == /* || $1 != "$root/dptrain" ]] || path=./$path
    printf '%q' "$path"
}

program=$(typed "$root/dptrain") run=$(typed "$out") start=$(typed "$here/run.sh")
words=''
((${#data[@]} == 0)) || printf -v words ' %q' "${data[@]}"
step "Done"
cat <<EOF
program     $root/dptrain
run         $out
metrics     $out/metrics.jsonl
checkpoint  $(find "$out" -name 'ckpt-*.h5' | sort | tail -n 1)

Next:
  $start -np $np train --epochs $((epochs + 2)) --out $run --resume auto$words    # two more epochs
  $program predict $run IMAGE…    # classes of images
  $program train --help
  $(typed "$here/test.sh")    # every test
EOF
