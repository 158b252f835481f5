#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Downloads and verifies MNIST (four .gz files, 11.6 MB). Safe to repeat: valid files are kept, interrupted downloads resumed.
# The folder gets its files when all four are valid.
set -u
here=$(cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
# shellcheck source=data/fetch.sh
. "$here/fetch.sh"

mirrors=(
    https://ossci-datasets.s3.amazonaws.com/mnist/
    https://storage.googleapis.com/cvdf-datasets/mnist/
)
# SHA-256, bytes, name
files=(
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 9912422 train-images-idx3-ubyte.gz"
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c 28881 train-labels-idx1-ubyte.gz"
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 1648877 t10k-images-idx3-ubyte.gz"
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 4542 t10k-labels-idx1-ubyte.gz"
)

usage() {
    cat <<'EOF'
usage: data/fetch_mnist.sh [FOLDER]

Downloads MNIST's four files into FOLDER (default: mnist next to this script) from a public mirror, with curl or wget,
and verifies their SHA-256. Valid files are kept; interrupted downloads are resumed. FOLDER gets its files when all four
are valid; until then they are in FOLDER.part, or in FOLDER/.part if FOLDER is there.

  DPTRAIN_MNIST_URL   mirror to use instead of the public ones: https://…, http://… or file:///…

exit codes: 0 all four files are valid · 2 usage · 3 a downloaded or existing file is not MNIST's · 4 network, disk or a
missing tool
EOF
}

fetch() { # sum, bytes, name
    local mirror code=4 sum
    if [ -e "$folder/${3%.gz}" ]; then
        echo "fetch_mnist.sh: $folder/${3%.gz} exists too; dptrain reads it instead of the .gz" >&2
    fi
    if [ -e "$folder/$3" ]; then
        sum=$(fetch_sum_of "$folder/$3" "$1") || return 4
        # Do not overwrite: other data sets use the same names.
        [ "$sum" = "$1" ] || fail 3 "$folder/$3 is not MNIST's (SHA-256 $sum); remove it or choose another folder"
        echo "$3: already there"
        return 0
    fi
    if [ -e "$aside/$3" ]; then
        sum=$(fetch_sum_of "$aside/$3" "$1") || return 4
        [ "$sum" != "$1" ] || return 0
    fi
    for mirror in "${mirrors[@]}"; do
        echo "$3: from ${mirror%/}"
        fetch_from "${mirror%/}/$3" "$1" "$2" "$aside/$3" "MNIST's"
        code=$?
        [ "$code" = 0 ] && return 0
    done
    return "$code"
}

case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
    -?*) fail 2 "unknown option $1; --help shows the usage" ;;
esac
[ $# -le 1 ] || fail 2 "expected at most one folder, not $#; --help shows the usage"
folder=${1-$here/mnist}
[ -n "$folder" ] || fail 2 "the folder's name is empty"

[ -z "${DPTRAIN_MNIST_URL-}" ] || mirrors=("$DPTRAIN_MNIST_URL")
fetch_need_tools "${mirrors[0]}"
fetch_begin "$folder"

for entry in "${files[@]}"; do
    read -r sum bytes name <<<"$entry"
    fetch "$sum" "$bytes" "$name"
    case $? in
        0) ;;
        3) fail 3 "no mirror has a valid $name; set DPTRAIN_MNIST_URL to another one" ;;
        *) fail 4 "cannot download $name (see above); run this again to resume, or set DPTRAIN_MNIST_URL to another mirror" ;;
    esac
done
for entry in "${files[@]}"; do
    name=${entry##* }
    [ -e "$folder/$name" ] || fetch_publish "$name" || fail 4 "cannot write into $folder"
done
echo "MNIST is in $folder"
