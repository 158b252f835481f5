#!/usr/bin/env bash
# Downloads MNIST (four .gz files, 11.6 MB) and checks it. Safe to repeat: what is there and right stays, what was
# begun is resumed.
set -u

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

Downloads MNIST's four files into FOLDER (default: mnist beside this script) from a public mirror, with curl or
wget, and checks their SHA-256. Files that are there and right are kept; an interrupted download is resumed.

  DPTRAIN_MNIST_URL   a folder to download from instead of the public mirrors: https://…, http://… or file:///…

exit codes: 0 all four files are there and right · 2 usage · 3 a download, or a file that is there, is not
MNIST's · 4 network, disk or a missing tool
EOF
}

fail() { # code, message
    echo "fetch_mnist.sh: $2" >&2
    exit "$1"
}

sum_of() { # file
    local line
    line=$(sha256sum <"$1") || return 1
    echo "${line%% *}"
}

# Resumes where the file has a beginning; what the tool prints on an error goes through.
download() { # URL, file
    case $1 in
        file://*)
            # A copy: nothing to resume, and wget does not know file://.
            cp -- "${1#file://}" "$2"
            return
            ;;
    esac
    if [ "$tool" = curl ]; then
        local bar=--silent
        [ -t 2 ] && bar=--progress-bar
        curl --fail --location --show-error "$bar" --connect-timeout 20 --speed-limit 1000 --speed-time 60 \
            --retry 2 --continue-at - --output "$2" "$1"
    else
        local bar=--no-verbose
        [ -t 2 ] && bar=--show-progress
        wget --continue --no-verbose "$bar" --timeout=60 --tries=3 --output-document="$2" "$1"
    fi
}

# Brings the part file to its end, or to its beginning where it cannot be resumed.
complete() { # URL, part, bytes
    local code size=0
    [ ! -e "$2" ] || size=$(wc -c <"$2") || return 1
    # As long as the whole and yet not it (see fetch_from): of no use, and no server would resume it.
    [ "$size" -lt "$3" ] || rm -f -- "$2"
    download "$1" "$2"
    code=$?
    # curl's 33: this server cannot resume. Other failures keep the part for the next run.
    if [ "$tool" = curl ] && [ "$code" = 33 ]; then
        rm -f -- "$2"
        download "$1" "$2"
        code=$?
    fi
    return "$code"
}

# 0: right, under its final name. 3: something else came. 4: nothing came.
fetch_from() { # mirror, sum, bytes, name
    local part=$folder/$4.part url=${1%/}/$4 sum='' attempt
    # Twice, as a part from an earlier run may be another file's beginning; the second try starts afresh.
    for attempt in resumed fresh; do
        [ ! -e "$part" ] || sum=$(sum_of "$part") || return 4
        if [ "$sum" != "$2" ]; then
            [ "$attempt" = fresh ] || [ -s "$part" ] || continue
            complete "$url" "$part" "$3" || return 4
            sum=$(sum_of "$part") || return 4
        fi
        [ "$sum" != "$2" ] || break
        rm -f -- "$part"
    done
    if [ "$sum" != "$2" ]; then
        echo "fetch_mnist.sh: $url is not MNIST's: SHA-256 $sum, expected $2" >&2
        return 3
    fi
    mv -f -- "$part" "$folder/$4" || return 4
}

fetch() { # sum, bytes, name
    local mirror code=4 sum
    if [ -e "$folder/${3%.gz}" ]; then
        echo "fetch_mnist.sh: $folder/${3%.gz} is there too; dptrain reads it rather than the .gz" >&2
    fi
    if [ -e "$folder/$3" ]; then
        sum=$(sum_of "$folder/$3") || return 4
        # Other sets use the same names: not ours to overwrite.
        [ "$sum" = "$1" ] || fail 3 "$folder/$3 is not MNIST's (SHA-256 $sum); remove it or choose another folder"
        echo "$3: already there"
        return 0
    fi
    for mirror in "${mirrors[@]}"; do
        echo "$3: from ${mirror%/}"
        fetch_from "$mirror" "$1" "$2" "$3"
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
[ $# -le 1 ] || fail 2 "one folder at most, not $#; --help shows the usage"
folder=${1-$(cd -- "$(dirname -- "$0")" && pwd)/mnist}
[ -n "$folder" ] || fail 2 "the folder's name is empty"

[ -z "${DPTRAIN_MNIST_URL-}" ] || mirrors=("$DPTRAIN_MNIST_URL")
tool=
for candidate in curl wget; do
    if [ -z "$tool" ] && command -v "$candidate" >/dev/null; then tool=$candidate; fi
done
case ${mirrors[0]} in
    file://*) ;;
    *) [ -n "$tool" ] || fail 4 "neither curl nor wget is installed (apt-get install curl)" ;;
esac
command -v sha256sum >/dev/null || fail 4 "sha256sum is not installed (apt-get install coreutils)"
mkdir -p -- "$folder" || fail 4 "cannot make the folder $folder"
[ -w "$folder" ] || fail 4 "cannot write into the folder $folder"

for entry in "${files[@]}"; do
    read -r sum bytes name <<<"$entry"
    fetch "$sum" "$bytes" "$name"
    case $? in
        0) ;;
        3) fail 3 "no mirror has the right $name; another one can be named in DPTRAIN_MNIST_URL" ;;
        *) fail 4 "could not get $name (see above); run this again to resume, or name another mirror in DPTRAIN_MNIST_URL" ;;
    esac
done
echo "MNIST is in $folder"
