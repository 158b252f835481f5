#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Replays recorded costs of detection training on many numbers of ranks. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/detection_balance.sh RUN|FILE.jsonl...

Replays the images that `dptrain train --task detect` recorded, in the output folder RUN or in FILE.jsonl, on 2 to 64 ranks
with 1, 2 and 4 images each, by the program's own sampler, and prints a Markdown page: the mean of the ranks' seconds over
those of the slowest, with and without dealing, and how seconds follow from canvases, objects and positives. Builds a small
program first.

  -h, --help  show this help
EOT
}

command="scripts/bench/detection_balance.sh RUN"
files=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -*) common_option "$1" ;;
    *)
        if [[ -d $1 ]]; then files+=("$(readlink -f "$1/metrics.jsonl")"); else files+=("$(readlink -f "$1")"); fi
        shift ;;
    esac
done
((${#files[@]} > 0)) || die 2 "expected the output folder or the records of a run; --help explains"
cd "$here/../.."
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
make -s -j "$(nproc)" dptrain build/scripts/bench/balance >&2 || die 4 "the build failed"
make_work balance
status=0
build/scripts/bench/balance "${files[@]}" >"$work/table" 2>"$work/why" || status=$?
((status == 0)) || die "$status" "$(cat "$work/why")"

cat <<EOT
# Balance of detection training

The mean of the ranks' seconds over the slowest rank's, 1 being balanced, of 200 batches drawn from the recorded images:

$(cat "$work/table")
- The recorded seconds are those of an image's forward and backward pass on its rank. The program's own sampler
  (\`src/data/dataset/sampler.h\`) makes and deals the batches; the estimate is \`detection_cost\` (\`src/data/load/samples.c\`),
  which knows canvas and objects. Reading data and summing gradients are not included.
- One image a rank leaves nothing to deal; batches of one canvas are what helps there.

$(machine_table "$load" "$command")
EOT
