#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains mnist-cnn by the recipe in mnist_advanced.conf. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/recipes/mnist_advanced.sh [-np N] [dptrain options]

Horovod's advanced MNIST example as a dptrain run: mnist-cnn, 12 epochs, Adadelta with a rate scaled by the ranks,
warm-up, reduce-on-plateau and augmentation, as mnist_advanced.conf beside this script says. Options of `dptrain train`
may follow and win over the file: --data DIR, --epochs N, --target-accuracy 0.992, --out DIR …

  -np N       ranks [2]
  -h, --help  this text
EOF
}

np=2
case ${1:-} in
-np) need_value "$@"; whole_number "$1" "$2" 1; np=$2; shift 2 ;;
-h | --help) usage; exit 0 ;;
esac
export DPTRAIN_BIN=${DPTRAIN_BIN:-$(readlink -f "$here/../../dptrain")}
exec "$here/../run.sh" -np "$np" train --config "$here/mnist_advanced.conf" "$@"
