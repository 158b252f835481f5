#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains a detector whose trunk is a classifier of our own, instead of one from ImageNet. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/recipes/coco_trunk.sh [-np N] --data DIR [--out DIR]
           [--crops OPTIONS...] [--detector OPTIONS...]

Trains Mask R-CNN with ResNet-18 on COCO without weights of other programs:

  OUT/crops      a classifier of the annotated objects, cut out one by one: coco_trunk_crops.conf
  OUT/trunk.npz  its weights, by dptrain checkpoint export
  OUT/detector   the detector, which starts from them with frozen batch norm: coco_trunk_detector.conf

If it was stopped, the same command continues. A stage that has finished is not repeated.

  -np N           number of ranks [2]
  --data DIR      COCO's folder, or shards of it
  --out DIR       folder of the three [runs/coco-trunk]
  --crops ...     options of `dptrain train` that override the classifier's file, such as --epochs 2; they end at
                  --detector
  --detector ...  the same for the detector; they end at --crops
  -h, --help      show this help
EOF
}

np=2 data='' out=runs/coco-trunk stage=''
crops=() detector=()
while (($#)); do
    case $1 in
    -np) need_value "$@"; whole_number "$1" "$2" 1; np=$2; shift 2 ;;
    --data) need_value "$@"; data=$(folder_option "$1" "$2"); shift 2 ;;
    --out) need_value "$@"; out=$2; shift 2 ;;
    --crops | --detector) break ;;
    *) common_option "$1" ;;
    esac
done
for word; do
    case $word in
    --crops | --detector) stage=$word ;;
    *) if [[ $stage == --crops ]]; then crops+=("$word"); else detector+=("$word"); fi ;;
    esac
done
[[ -n $data ]] || die 2 "--data DIR is missing: COCO's folder, or shards of it"

DPTRAIN_BIN=$(find_program)
export DPTRAIN_BIN

# A planned stop (SIGUSR1) ends a stage with code 0, too, but not the next ones.
train() { # FOLDER OPTIONS...
    "$here/run.sh" -np "$np" train --data "$data" --out "$1" --resume auto "${@:2}"
    if tail -n 2 "$1/metrics.jsonl" | grep -q '"stopped '; then exit 0; fi
}

if [[ ! -e $out/trunk.npz ]]; then
    mkdir -p "$out"
    train "$out/crops" --config "$here/recipes/coco_trunk_crops.conf" ${crops[@]+"${crops[@]}"}
    "$DPTRAIN_BIN" checkpoint export "$out/crops" --out "$out/trunk.npz"
fi
train "$out/detector" --config "$here/recipes/coco_trunk_detector.conf" --weights "$out/trunk.npz" ${detector[@]+"${detector[@]}"}
