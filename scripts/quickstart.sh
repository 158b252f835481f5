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
results. It downloads only packages: without --data the network learns the built-in digits (data/fetch_mnist.sh
downloads MNIST). Safe to repeat: a previous run is replaced.

  --epochs N      passes over the training set [1]
  --np N          number of ranks [2]
  --data DIR      data set [dptrain's default, see dptrain train --help]
  --out DIR       folder of the run; an earlier run in it is replaced [runs/quickstart]
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
root=$(readlink -f "$here/..")
out=${out:-$root/runs/quickstart}

step() { printf '\n== %s\n' "$1"; }

if [[ $install == yes ]]; then
    step "Installing missing packages"
    "$here/install_deps.sh"
fi
step "Building"
make -C "$root" --no-print-directory -j "$(nproc)" || die 4 "the build failed"

mpi_allow_root
export DPTRAIN_BIN=$root/dptrain
step "Training LeNet-5 on $np ranks"
"$here/run.sh" -np "$np" train --model lenet5 --out "$out" --overwrite --epochs "$epochs" "${data[@]}"

step "Evaluating"
"$root/dptrain" eval "$out" "${data[@]}"

step "Done"
cat <<EOF
program     $root/dptrain
run         $out
metrics     $out/metrics.jsonl
checkpoint  $(find "$out" -name 'ckpt-*.h5' | sort | tail -n 1)

Next:
  scripts/run.sh -np 2 train --epochs 3                # train again
  ./dptrain predict runs/quickstart IMAGE…             # classes of images
  ./dptrain train --help
  scripts/test.sh                                      # every test
EOF
