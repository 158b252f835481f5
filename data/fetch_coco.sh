#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Downloads MS COCO 2017 (images and instance annotations, 20.4 GB) and checks it. Safe to repeat: what is there stays,
# what was begun is resumed. Each part is moved into the folder when it is complete.
set -u
here=$(cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
# shellcheck source=data/fetch.sh
. "$here/fetch.sh"

mirror=${DPTRAIN_COCO_URL:-http://images.cocodataset.org}
# Part, MD5, bytes, path on the mirror, folder in the archive, MB when unpacked
parts=(
    "train cced6f7f71b7629ddf16f17bbcfab6b2 19336861798 zips/train2017.zip train2017 19400"
    "val 442b8da7639aecaf257c1dceb8ba8c80 815585330 zips/val2017.zip val2017 820"
    "annotations f4bbac642086de4f52a3fdda2de5fa2c 252907541 annotations/annotations_trainval2017.zip annotations 820"
)

usage() {
    cat <<'EOF'
usage: data/fetch_coco.sh [--only PART]... [--keep-zips] [FOLDER]

Downloads COCO 2017 into FOLDER (default: coco beside this script): train2017/ (118,287 images), val2017/ (5,000) and
annotations/, with curl or wget, compares the archives' MD5 and unpacks them with unzip. FOLDER gets each part when it is
complete; until then it is in FOLDER.part, or in FOLDER/.part if FOLDER is there. A part whose folder is there is kept; an
interrupted download is resumed. The images are Flickr users', under licences of their own: see
https://cocodataset.org/#termsofuse.

  --only PART   train, val or annotations; may be repeated [all three]
  --keep-zips   keep archives after unpacking them
  -h, --help    show this help

  DPTRAIN_COCO_URL   mirror to use instead of http://images.cocodataset.org: https://…, http://… or file:///…

exit codes: 0 complete · 2 usage · 3 a downloaded or existing archive is not COCO's · 4 network, disk or a missing tool
EOF
}

wants() { # PART
    [ ${#only[@]} = 0 ] && return 0
    local part
    for part in "${only[@]}"; do [ "$part" != "$1" ] || return 0; done
    return 1
}

# A part is complete if its folder exists. annotations/ may have other files, so check for the training instances.
is_there() { # PART NAME
    if [ "$1" = annotations ]; then [ -e "$folder/annotations/instances_train2017.json" ]; else [ -d "$folder/$2" ]; fi
}

need_room() { # MB PART
    local free
    free=$(df -Pm -- "$aside" | awk 'NR == 2 { print $4 }')
    case $free in '' | *[!0-9]*) return ;; esac
    [ "$free" -ge "$1" ] || fail 4 "$folder has $free MB left; $2 takes $1 MB during unpacking"
}

get() { # PART SUM BYTES PATH NAME MB
    local name=${4##*/} zip begun=0 sum
    zip=$folder/$name
    if is_there "$1" "$5"; then
        echo "$5: already there"
        return 0
    fi
    if [ -e "$zip" ]; then
        sum=$(fetch_sum_of "$zip" "$2") || return 4
        # Do not overwrite a file of unknown origin.
        [ "$sum" = "$2" ] || fail 3 "$zip is not COCO's (MD5 $sum); remove it or choose another folder"
    else
        zip=$aside/$name
        # A partial download already takes part of the space.
        [ ! -e "$zip.part" ] || begun=$(wc -c <"$zip.part") || return 4
        need_room $((($3 - (begun < $3 ? begun : $3)) / 1000000 + $6)) "$5"
        echo "$5: from ${mirror%/}/$4"
        fetch_from "${mirror%/}/$4" "$2" "$3" "$zip" "COCO's" || return
    fi
    need_room "$6" "$5"
    fetch_unzip "$zip" "$5" || return
    if [ "$keep" = no ]; then
        rm -f -- "$zip"
    elif [ "$zip" != "$folder/$name" ]; then
        fetch_publish "$name"
    fi
}

only=() keep=no folder=$here/coco n_folders=0
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --keep-zips) keep=yes ;;
        --only)
            case ${2-} in
                train | val | annotations) only+=("$2") ;;
                *) fail 2 "invalid --only '${2-}': expected train, val or annotations" ;;
            esac
            shift
            ;;
        -?*) fail 2 "unknown option $1; --help shows the usage" ;;
        *) folder=$1 n_folders=$((n_folders + 1)) ;;
    esac
    shift
done
[ "$n_folders" -le 1 ] || fail 2 "expected at most one folder, not $n_folders; --help shows the usage"
[ -n "$folder" ] || fail 2 "the folder's name is empty"
fetch_need_tools "$mirror"
command -v unzip >/dev/null || fail 4 "unzip is not installed (apt-get install unzip)"
fetch_begin "$folder"

for entry in "${parts[@]}"; do
    read -r part sum bytes path name mb <<<"$entry"
    wants "$part" || continue
    get "$part" "$sum" "$bytes" "$path" "$name" "$mb"
    case $? in
        0) ;;
        3) fail 3 "no valid $name; set DPTRAIN_COCO_URL to another mirror" ;;
        *) fail 4 "cannot download $name (see above); run this again to resume, or set DPTRAIN_COCO_URL to another mirror" ;;
    esac
done
echo "COCO is in $folder; dptrain data pack --from $(printf %q "$folder") --out SHARDS packs it into shards"
