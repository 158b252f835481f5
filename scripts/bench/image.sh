#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares JPEG decoding with bare libjpeg-turbo, torchvision and Pillow, and prints results/image.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/image.sh [options]

Makes training samples from photographs (a random resized crop to 224 × 224, randomly flipped) on one core, with dptrain,
torchvision and Pillow, alternating in rounds, and times bare libjpeg-turbo on the same decoding. Prints a Markdown page:
images per second, ratios with their spread, versions. Torchvision is Debian's python3-torchvision.

  --images DIR  folder of *.jpg [$DPTRAIN_DATA/coco_tiny/train2017]
  --rounds N      number of rounds [9]
  --crops N       of each image and round [10]
  --python CMD    the Python with Debian's torchvision [/usr/bin/python3]
  --venv DIR      a Python environment with a newer torchvision, to compare as well
  --install       install Debian's packages first: python3-torchvision, python3-pil
  --quick         2 rounds of 2 crops, as a smoke test
  -h, --help      show this help
EOT
}

command="scripts/bench/image.sh${*:+ $*}"
images='' rounds=9 crops=10 python=/usr/bin/python3 venv='' install=no
packages=(python3-torchvision python3-pil)
while [[ $# -gt 0 ]]; do
    case $1 in
    --images) need_value "$@"; images=$2; shift 2 ;;
    --rounds) need_value "$@"; whole_number "$1" "$2" 1; rounds=$((10#$2)); shift 2 ;;
    --crops) need_value "$@"; whole_number "$1" "$2" 1; crops=$((10#$2)); shift 2 ;;
    --python) need_value "$@"; python=$2; shift 2 ;;
    --venv) need_value "$@"; venv=$2; shift 2 ;;
    --install) install=yes; shift ;;
    --quick) rounds=2 crops=2; shift ;;
    *) common_option "$1" ;;
    esac
done
[[ -z $venv || -x $venv/bin/python ]] || die 2 "--venv $venv: no such program: $venv/bin/python"
if [[ -z $images ]]; then
    [[ -n ${DPTRAIN_DATA:-} ]] || die 2 "no photographs: pass --images DIR (a folder of *.jpg), or set DPTRAIN_DATA"
    images=$DPTRAIN_DATA/coco_tiny/train2017
fi
compgen -G "$images/*.jpg" >/dev/null || die 3 "there are no *.jpg in '$images'"
images=$(readlink -f "$images")
if [[ $install == yes ]]; then
    command -v apt-get >/dev/null || die 4 "--install: apt-get was not found; install torchvision yourself"
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}" >&2 ||
        die 4 "apt-get could not install ${packages[*]}; run as root, after apt-get update"
fi
"$python" -c 'import torchvision, PIL' 2>/dev/null ||
    die 4 "$python has no torchvision: --install installs ${packages[*]}; --python selects another Python"

cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/image >&2 || die 4 "the build failed"
make_work image
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
one_core=()
if may_bind; then one_core=(taskset -c 0); fi

run() { # PREFIX PROGRAM…
    local prefix=$1
    shift
    OMP_NUM_THREADS=1 "${one_core[@]}" "$@" "$images" "$crops" "$((round + 1))" >"$work/out" 2>"$work/log" ||
        { cat "$work/log" >&2; die 4 "failed: $*"; }
    sed "s/^/$round $prefix/" "$work/out" >>"$work/times"
}

for ((round = 0; round < rounds; round++)); do
    order=(ours debian)
    [[ -z $venv ]] || order+=(newest)
    if ((round % 2)); then mapfile -t order < <(printf '%s\n' "${order[@]}" | tac); fi
    for who in "${order[@]}"; do
        case $who in
        ours) run '' build/scripts/bench/image ;;
        debian) run '' "$python" scripts/bench/peers/image_torch.py ;;
        newest) run newest- "$venv/bin/python" scripts/bench/peers/image_torch.py ;;
        esac
    done
    note "round $((round + 1))/$rounds"
done

# Median and quartiles of a column of numbers.
spread() { sort -g | awk '{ v[NR] = $1 } END { n = NR; printf "%.4g (%.4g–%.4g)", v[int((n + 1) / 2)], v[int((n + 3) / 4)], v[int((3 * n + 1) / 4)] }'; }
rates() { awk -v name="$1" '$2 == name { print $3 }' "$work/times" | spread; }
ratios() { awk -v a="$1" -v b="$2" '$2 == a { x[$1] = $3 } $2 == b { y[$1] = $3 } END { for (r in x) if (r in y) print x[r] / y[r] }' "$work/times" | spread; }
row() { # NAME TEXT
    printf '| %s | %s | %s |\n' "$2" "$(rates "$1")" "$(ratios crop "$1")"
}

n_images=$(find "$images" -name '*.jpg' | wc -l)
cat <<EOT
# JPEG decoding

Training samples from $n_images photographs ($(du -cb "$images"/*.jpg | awk 'END { printf "%.0f", $1 / 1000 / '"$n_images"' }') KB each on average): a random resized crop (area 8 to 100 %, aspect 3/4 to 4/3) to
224 × 224, on one core. Figures: median of $rounds rounds (quartiles); the ratio is taken within each round.

| | images/s | dptrain's sample / this |
|---|---:|---:|
$(row crop "dptrain: file read, part decoded, resized")
$(row whole "dptrain, the whole image decoded")
$(row torchvision "torchvision: \`read_image\`, \`RandomResizedCrop(224)\`, flip")
$(row antialiased "torchvision, \`antialias=True\`, which is what dptrain does")
$(row pillow "Pillow: \`convert(\"RGB\")\`, \`RandomResizedCrop(224)\`, flip")
EOT
if [[ -n $venv ]]; then
    row newest-torchvision "newer torchvision"
    row newest-antialiased "newer torchvision, \`antialias=True\`"
    row newest-pillow "newer Pillow"
fi
cat <<EOT

| libjpeg-turbo | images/s | |
|---|---:|---|
| bare: the same regions at the same scales, from memory | $(rates bare) | |
| \`image_decode_part\`, from memory | $(rates part) | $(ratios part bare) of bare |
| dptrain's sample: file read, part decoded, resized | $(rates crop) | $(ratios crop bare) of bare |

EOT
described=$("$python" scripts/bench/peers/image_torch.py --describe 2>/dev/null)
[[ -z $venv ]] || described+="; newer: $("$venv/bin/python" scripts/bench/peers/image_torch.py --describe 2>/dev/null)"
machine_table "$load" "$command" libjpeg-turbo "$(pkg-config --modversion libjpeg)" peers "$described"
