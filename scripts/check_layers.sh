#!/usr/bin/env bash
# Verifies that includes look down only. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/check_layers.sh [--root DIR]

Looks at every #include under src/ and kernels/. Each room sees itself and the rooms below it; kernels are seen by
nobody; mpi.h, hdf5.h and the CUDA headers stay in the rooms made for them. Prints file:line: message for each
violation and ends with code 1 when there is one. Tests may include anything.

  --root DIR  the tree to look at [the one this script is in]
EOF
}

root=$here/..
while [[ $# -gt 0 ]]; do
    case $1 in
    --root) need_value "$@"; root=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown option '$1'; --help lists the options" ;;
    esac
done
cd "$root" || die 2 "there is no folder $root"
[[ -d src ]] || die 2 "there is no src/ in $root"

# What each room may include besides itself.
declare -A sees=(
    [base]=""
    [stats]="base"
    [chart]="base"
    [tensor]="base"
    [cluster]="base tensor"
    [comm]="base tensor cluster"
    [ops]="base tensor cluster comm"
    [nn]="base tensor cluster comm ops"
    [models]="base tensor cluster comm ops nn"
    [image]="base"
    [sample]="base"
    [coco]="base sample"
    [shard]="base sample"
    [data]="base tensor image sample coco shard"
    [checkpoint]="base tensor"
    [train]="base tensor cluster comm ops nn models data checkpoint"
    [bench]="base tensor cluster comm ops nn models data checkpoint train"
    [report]="base"
    [picture]="base data train image sample"
    [regress]="base stats report"
    [html]="base chart stats report regress"
    [check]="base tensor cluster comm ops nn models data checkpoint train bench"
    [pack]="base tensor cluster comm image sample coco shard data"
    [cmd]="base tensor cluster comm ops nn models data checkpoint train bench check report picture regress html image pack"
    [main.c]="cmd comm base"
    [kernels]="base tensor ops"
)

n_violations=0
violation() { # FILE LINE MESSAGE
    printf '%s:%s: %s\n' "$1" "$2" "$3"
    n_violations=$((n_violations + 1))
}

check_own() { # ROOM FILE LINE HEADER
    local room=$1 file=$2 line=$3 header=$4 target allowed
    target=${header%%/*}
    if [[ $header == *..* ]]; then
        violation "$file" "$line" "\"$header\": include by the path from src/, not by .."
    elif [[ $header != */* ]]; then
        [[ -e ${file%/*}/$header ]] || violation "$file" "$line" "\"$header\" is not in ${file%/*}"
    elif [[ $target == kernels ]]; then
        [[ ${header%/*} == "${file%/*}" ]] ||
            violation "$file" "$line" "\"$header\": kernels/ is reached through the backend table only"
    elif [[ -z ${sees[$target]+known} ]]; then
        violation "$file" "$line" "\"$header\" is in no known room of src/"
    elif [[ $target != "$room" ]]; then
        allowed=" ${sees[$room]} "
        [[ $allowed == *" $target "* ]] ||
            violation "$file" "$line" "\"$header\": $room sees ${sees[$room]:-nothing but itself}"
    fi
}

check_foreign() { # FILE LINE HEADER
    local file=$1 line=$2 header=$3
    case $header in
    mpi.h)
        [[ $file == src/comm/* || $file == src/cluster/* || $file == src/main.c ]] ||
            violation "$file" "$line" "<$header> belongs to src/comm, src/cluster and src/main.c" ;;
    hdf5.h | H5*.h)
        [[ $file == src/checkpoint/* || $file == src/data/* || $file == src/shard/* || $file == src/base/h5* ]] ||
            violation "$file" "$line" "<$header> belongs to src/checkpoint, src/shard, src/data and src/base/h5*" ;;
    jpeglib.h | jerror.h | png.h)
        [[ $file == src/image/* ]] || violation "$file" "$line" "<$header> belongs to src/image" ;;
    nccl*.h | cuda_runtime_api.h)
        [[ $file == kernels/cuda/* || $file == src/comm/nccl*.[ch] ]] ||
            violation "$file" "$line" "<$header> belongs to kernels/cuda and src/comm/nccl*" ;;
    cuda*.h | cublas*.h | cudnn*.h | curand*.h)
        [[ $file == kernels/cuda/* ]] || violation "$file" "$line" "<$header> belongs to kernels/cuda" ;;
    esac
}

folders=(src)
[[ ! -d kernels ]] || folders+=(kernels)
status=0
includes=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' '^[[:space:]]*#[[:space:]]*include\>' \
    "${folders[@]}") || status=$?
[[ $status -eq 0 ]] || die 4 "no #include was found under $root"

pattern='^([^:]+):([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)'
while IFS= read -r text; do
    if ! [[ $text =~ $pattern ]]; then
        IFS=: read -r file line _ <<<"$text"
        violation "$file" "$line" "an #include that this check cannot read"
        continue
    fi
    file=${BASH_REMATCH[1]} line=${BASH_REMATCH[2]} kind=${BASH_REMATCH[3]} header=${BASH_REMATCH[4]}
    # src/ROOM/x.c, src/main.c or kernels/BACKEND/x.c
    room=${file#src/} room=${room%%/*}
    if [[ -z ${sees[$room]+known} ]]; then
        violation "$file" "$line" "$file is in no known room; add it to scripts/check_layers.sh"
        continue
    fi
    # However it is quoted, a foreign library's header is one.
    check_foreign "$file" "$line" "$header"
    if [[ $kind == '"' ]]; then check_own "$room" "$file" "$line" "$header"; fi
done <<<"$includes"
[[ $n_violations -eq 0 ]] || die 1 "$n_violations includes break the layers"
