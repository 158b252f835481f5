#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains mnist-cnn with the recipe in mnist_advanced.conf. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/recipes/mnist_advanced.sh [-np N] [dptrain options]

Runs Horovod's advanced MNIST example: mnist-cnn, 12 epochs, Adadelta with a learning rate scaled by the number of ranks,
warm-up, reduce-on-plateau and augmentation, as set in mnist_advanced.conf. Options of `dptrain train` may follow and
override the file: --data DIR, --epochs N, --target-accuracy 0.992, --out DIR …

  -np N       number of ranks [2]
  -h, --help  show this help
EOF
}

np=2
case ${1:-} in
-np) need_value "$@"; whole_number "$1" "$2" 1; np=$2; shift 2 ;;
-h | --help) usage; exit 0 ;;
esac
DPTRAIN_BIN=$(find_program)
export DPTRAIN_BIN
exec "$here/run.sh" -np "$np" train --config "$here/recipes/mnist_advanced.conf" "$@"
