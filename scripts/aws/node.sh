#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs on the nodes of a cluster of aws.sh, alone, as ParallelCluster's OnNodeConfigured. See --help.
set -euo pipefail

shared=${DPTRAIN_SHARED:-/shared} log=${DPTRAIN_NODE_LOG:-/var/log/dptrain-node.log}

usage() {
    cat <<'END'
usage: node.sh head s3://BUCKET/PREFIX USER
       node.sh worker
       node.sh data s3://BUCKET/PREFIX NAME [DEST]

head    unpacks the bundle below PREFIX in /shared, as /shared/dptrain, and makes /shared/data and /shared/work for USER
worker  raises the limits of jobs: locked memory, open files
data    copies data/NAME below PREFIX to DEST [/shared/data/NAME], and compares every file with its SHA-256 sum

Safe to repeat: what is there is kept. Messages also go to /var/log/dptrain-node.log. Exit code: 0, 2 (usage), 3 (the bundle
differs from its sum) or 4.
END
}

say() { # MESSAGE
    # What aws says is data, which must not steer a terminal.
    set -- "$(LC_ALL=C tr -d '\000-\010\013-\037\177' <<<"$1")"
    echo "node.sh: $1" >&2
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) node.sh: $1" >>"$log" 2>/dev/null || true
}

die() { # CODE MESSAGE
    say "error: $2"
    exit "$1"
}

# Copies an object. Its bucket may not be listed, so everything is named by a list of sums.
fetch() { # OBJECT FILE
    local why
    why=$(timeout --foreground 3600 aws s3 cp --only-show-errors "$1" "$2" 2>&1) ||
        die 4 "cannot copy $1: ${why##*$'\n'}; scripts/aws.sh put copies it there, and the node's role must allow to read it"
}

# Writes atomically, if the text differs. Sets changed.
write_file() { # FILE TEXT
    [[ ! -f $1 || $(<"$1") != "$2" ]] || return 0
    mkdir -p "${1%/*}"
    printf '%s\n' "$2" >"$1.new"
    mv -f "$1.new" "$1"
    changed=yes
    say "wrote $1"
}

setup_head() { # PLACE USER
    local sum bundle into version part=''
    id "$2" >/dev/null 2>&1 || die 2 "no user $2 on this node"
    [[ -d $shared ]] || die 4 "no folder $shared on this node: is the file system mounted?"
    part=$(mktemp -d "$shared/.node.XXXXXX") || die 4 "cannot write to $shared"
    # shellcheck disable=SC2064 # as it is now
    trap "rm -rf '$part'" EXIT
    fetch "$1/SHA256SUMS" "$part/SHA256SUMS"
    read -r sum bundle < <(grep -E '^[0-9a-f]{64}  dptrain-[A-Za-z0-9._-]+\.tar\.(gz|xz)$' "$part/SHA256SUMS") ||
        die 3 "$1/SHA256SUMS names no bundle; give scripts/aws.sh put again"
    # Jobs may be running from another version.
    into=$shared/${bundle%.tar.*}-${sum:0:8}
    if [[ ! -d $into ]]; then
        fetch "$1/$bundle" "$part/$bundle"
        [[ $(sha256sum <"$part/$bundle") == "$sum  -" ]] ||
            die 3 "$1/$bundle differs from its SHA-256 sum; give scripts/aws.sh put again"
        mkdir "$part/tree"
        tar -C "$part/tree" --no-same-owner -xf "$part/$bundle" || die 4 "cannot unpack $bundle in $shared"
        mv "$part/tree"/dptrain-* "$into"
        say "unpacked $bundle as $into"
    fi
    version=$("$into/dptrain" --version 2>&1) || die 4 "$into/dptrain does not run on this node: ${version##*$'\n'}"
    ln -sfn "${into##*/}" "$part/link"
    mv -T "$part/link" "$shared/dptrain"
    install -d -o "$2" "$shared/data" "$shared/work"
    say "$shared/dptrain is ${version%%$'\n'*} in $into"
}

setup_worker() {
    changed=no
    write_file /etc/security/limits.d/90-dptrain.conf '* - memlock unlimited
* - nofile 65536'
    # Slurm's jobs have the limits of its daemon.
    write_file /etc/systemd/system/slurmd.service.d/90-dptrain.conf '[Service]
LimitMEMLOCK=infinity
LimitNOFILE=65536'
    if [[ $changed == yes ]] && [[ -d /run/systemd/system ]]; then
        systemctl daemon-reload || die 4 "systemctl daemon-reload failed"
        # It starts after this script; here it runs only if this script is repeated, and its jobs survive.
        systemctl try-restart slurmd || die 4 "slurmd does not start again"
    fi
}

# Copies one file, if it is not there with the right sum.
fetch_one() { # PLACE DEST SUM NAME
    local to=$2/$4 part
    [[ /$4/ != */../* && $4 != /* ]] || die 3 "the list of sums names $4, which is outside of $2"
    part=${to%/*}/.${to##*/}.part
    [[ ! -f $to || $(sha256sum <"$to") != "$3  -" ]] || return 0
    mkdir -p "${to%/*}"
    fetch "$1/$4" "$part"
    [[ $(sha256sum <"$part") == "$3  -" ]] || { rm -f "$part"; die 3 "$1/$4 differs from its SHA-256 sum"; }
    mv -f "$part" "$to"
}

fetch_data() { # PLACE DEST
    local list code=0
    mkdir -p "$2" || die 4 "cannot write to $2"
    list=$2/.SHA256SUMS
    fetch "$1.SHA256SUMS" "$list"
    export -f fetch_one fetch say die
    export log
    # Sums, two blanks, names: a name may have blanks.
    sed -E 's/^([0-9a-f]{64})  /\1\n/' "$list" | tr '\n' '\0' |
        xargs -0 -r -n 2 -P 8 bash -c "fetch_one \"\$@\"" _ "$1" "$2" || code=$?
    ((code == 0)) || die 4 "$2 is incomplete; give the same command to go on with the missing files"
    say "$2 is complete: $(wc -l <"$list") files"
}

case ${1:-} in
-h | --help) usage; exit 0 ;;
esac
case ${1:-}:$# in
head:3 | data:[34]) [[ $2 =~ ^s3://[a-z0-9.-]+/.+$ ]] || die 2 "'$2' is not s3://BUCKET/PREFIX" ;;&
head:3 | data:[34] | worker:1) [[ -z ${DPTRAIN_CHECK_OPTIONS:-} ]] || exit 0 ;;&
head:3 | data:[34]) command -v aws >/dev/null || die 4 "the aws command was not found on this node" ;;&
head:3) setup_head "${2%/}" "$3" ;;
worker:1) setup_worker ;;
data:[34]) fetch_data "${2%/}/data/$3" "${4:-$shared/data/$3}" ;;
*) die 2 "expected head, worker or data with their arguments; --help explains them" ;;
esac
