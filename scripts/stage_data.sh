#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copies a data set from a shared folder to the local disk of every host. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/hosts.sh
. "$here/cluster/hosts.sh"

usage() {
    cat <<'END'
usage: scripts/stage_data.sh [options] HOSTS SOURCE... DEST
       scripts/stage_data.sh [options] --here SOURCE... DEST

Copies the folder SOURCE, as mounted on each host, to DEST on the host's local disk: on all hosts in parallel, several files
at a time, with progress from each host. Every file is read back and compared (SHA-256) before it gets its final name; shards
are also verified by `dptrain data verify`. Files with the same size and time are kept, so an interrupted copy continues with
the missing files. Links are followed. Other files in DEST are kept and reported. If the same folder is mounted several times,
give every mount as a SOURCE: each host measures their read speed and uses the fastest.

  --here         only this machine: in a job, `srun --ntasks-per-node=1 scripts/stage_data.sh --here ...`
  --files N      files in parallel on each host [4]
  --probe MB     amount of data to read from each SOURCE to measure it [256]
  --every SEC    interval between progress lines [5]
  --timeout SEC  time limit per host [0: no limit]
  --jobs N, --ssh-port N, --user NAME, --key FILE, --include SPEC, --exclude SPEC   as for on_hosts.sh
  -h, --help     show this help

Exit code 0: DEST is complete on every host. 1: a file could not be copied, or its copy differs. 3: a host has none of the
SOURCEs, or shards are damaged. 4: not enough space. 5: a host was not reached.

Examples:
  # to each host's own disk
  scripts/stage_data.sh node1,node2 /shared/coco /scratch/coco
  # the faster of two mounts of one file system, host by host
  scripts/stage_data.sh hosts /efs-a/coco /efs-b/coco /scratch/coco
  # in a Slurm job
  srun --ntasks-per-node=1 scripts/stage_data.sh --here /shared/coco /tmp/coco
END
}

alone=no files=4 probe=256 every=5 hosts='' words=() options=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --here) alone=yes; shift ;;
    --files) need_value "$@"; whole_number "$1" "$2" 1; files=$((10#$2)); shift 2 ;;
    --probe) need_value "$@"; whole_number "$1" "$2" 1; probe=$((10#$2)); shift 2 ;;
    --every) need_value "$@"; whole_number "$1" "$2" 1; every=$((10#$2)); shift 2 ;;
    --timeout | --jobs | --ssh-port | --user | --key | --include | --exclude)
        need_value "$@"
        options+=("$1" "$2")
        shift 2
        ;;
    -*) common_option "$1" ;;
    *) words+=("$1"); shift ;;
    esac
done
if [[ $alone == no ]]; then
    ((${#words[@]} >= 3)) || die 2 "expected HOSTS, SOURCE and DEST (or --here, SOURCE and DEST); see --help"
    hosts=${words[0]} words=("${words[@]:1}")
else
    ((${#words[@]} >= 2)) || die 2 "--here: expected SOURCE and DEST; see --help"
    ((${#options[@]} == 0)) || die 2 "--here uses only this machine and excludes ${options[0]}"
fi
dest=${words[-1]} sources=("${words[@]:0:${#words[@]}-1}")
for folder in "${words[@]}"; do
    [[ $folder == /* ]] || die 2 "'$folder' is not an absolute path; working folders differ between hosts"
done
for folder in "${sources[@]}"; do
    [[ ${dest%/}/ != "${folder%/}"/* ]] || die 2 "$dest is the same as SOURCE or inside it: $folder"
done
end_of_options

# ---- on the hosts, by bash

# Lists a folder in find's FORMAT. Includes broken links, so that they are reported when they cannot be copied.
files_of() { # FOLDER FORMAT
    (cd "$1" && find -L . \( -type f -o -type l \) -printf "$2")
}

# Prints the read speed in MB/s, bypassing the page cache if the file system supports it.
read_rate() { # FOLDER
    local left=$((probe << 20)) line size name start end
    start=$(date +%s%N)
    while IFS= read -r -d '' line; do
        size=${line%% *} name=${line#* }
        dd if="$1/$name" of=/dev/null bs=8M count=$(((left + (8 << 20) - 1) >> 23)) iflag=direct status=none 2>/dev/null ||
            dd if="$1/$name" of=/dev/null bs=8M count=$(((left + (8 << 20) - 1) >> 23)) status=none || return
        left=$((left - size))
        ((left > 0)) || break
    done < <(files_of "$1" '%s %P\0' | sort -zrn)
    end=$(date +%s%N)
    echo $((((probe << 20) - (left > 0 ? left : 0)) * 1000 / (end - start + 1)))
}

# Sets source to the fastest one on this host.
choose_source() {
    local folder rate most=-1
    source=''
    for folder in "${sources[@]}"; do
        if [[ ! -d $folder ]]; then
            echo "no such folder: $folder"
            continue
        fi
        rate=0
        if ((${#sources[@]} > 1)); then
            rate=$(read_rate "$folder") || { echo "$folder cannot be read"; continue; }
            echo "$folder: $rate MB/s"
        fi
        if ((rate > most)); then most=$rate source=$folder; fi
    done
    [[ -n $source ]]
}

same_file() { # FILE FILE
    [[ -f $2 && $(stat -c '%s %Y' "$1") == "$(stat -c '%s %Y' "$2")" ]]
}

# Hashes the data while writing it, and again when reading it back from disk.
copy_one() { # SOURCE DEST NAME
    set -o pipefail
    local from=$1/$3 to=$2/$3 part sum
    part=${to%/*}/.${to##*/}.part
    same_file "$from" "$to" && return 0
    mkdir -p "${to%/*}" || return
    sum=$(tee "$part" <"$from" | sha256sum) || { echo "error: $3 cannot be copied"; return 1; }
    # Flushed, and out of the page cache.
    dd of="$part" oflag=nocache conv=notrunc,fdatasync count=0 status=none || return
    if [[ $(sha256sum <"$part") != "$sum" ]]; then
        echo "error: $3 was not read back from disk as written"
        return 1
    fi
    touch -r "$from" "$part" && mv -f "$part" "$to"
}

show_progress() { # BYTES
    local before now
    before=$(du -sb "$dest" | cut -f 1)
    number_or 0 before
    # Ends with its parent, even if that is killed. The reader of the output must not wait for the sleep.
    while sleep "$every" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        now=$(du -sb "$dest" | cut -f 1)
        number_or 0 now
        awk -v now="$now" -v all="$1" -v rate=$(((now - before) / every)) \
            'BEGIN { printf "%.2f of %.2f GB, %.0f MB/s\n", now / 1e9, all / 1e9, rate / 1e6 }'
        before=$now
    done
}

# Reports additional files in DEST, which would become part of the training data.
tell_others() {
    local others
    mapfile -d '' others < <(LC_ALL=C comm -z -13 <(files_of "$source" '%P\0' | LC_ALL=C sort -z) \
        <(files_of "$dest" '%P\0' | LC_ALL=C sort -z))
    ((${#others[@]} == 0)) || echo "$dest also holds ${#others[@]} files that $source does not have; the first is ${others[0]}"
}

stage() {
    set -o pipefail
    local all=0 missing=0 free line size name code=0 start=$SECONDS watch program
    choose_source || { echo "error: no SOURCE is on this host"; return 3; }
    mkdir -p "$dest" || return 4
    find "$dest" -name '.*.part' -type f -delete
    # Do not read into two variables, which would strip blanks from the end of a name.
    while IFS= read -r -d '' line; do
        size=${line%% *} name=${line#* }
        all=$((all + size))
        same_file "$source/$name" "$dest/$name" || missing=$((missing + size))
    done < <(files_of "$source" '%s %P\0')
    free=$(df -PB1 "$dest" | awk 'NR == 2 { print $4 }')
    number_or 0 free
    if ((missing > free)); then
        echo "error: $dest has $((free / 1000000)) MB free, but $((missing / 1000000)) MB are missing"
        return 4
    fi
    show_progress "$all" &
    watch=$!
    export -f copy_one same_file
    files_of "$source" '%P\0' |
        xargs -0 -r -P "$files" -n 1 bash -c "copy_one \"\$@\"" _ "$source" "$dest" || code=$?
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    # xargs returns 123 if any command failed.
    if ((code != 0)); then
        echo "error: $dest is incomplete; run the same command again to copy the missing files"
        return 1
    fi
    echo "$dest is complete: $((all / 1000000)) MB in $((SECONDS - start)) s, $((missing / 1000000)) MB of them copied"
    tell_others
    [[ -f $dest/manifest.json ]] || return 0
    program=$(command -v dptrain) || program=$dptrain
    if [[ ! -x $program ]]; then
        echo "dptrain is not on this host, so its shards were only compared as files"
        return 0
    fi
    "$program" data verify "$dest"
}

# ---- from here

# Needed only to verify shards.
dptrain=$(find_program 2>/dev/null) || dptrain=''
if [[ $alone == yes ]]; then
    { stage || exit; } | plain_lines || exit
    exit 0
fi
exec "$here/on_hosts.sh" "${options[@]}" "$hosts" -- "$(remote_script "sources dest files probe every dptrain" \
    "stage choose_source files_of read_rate same_file copy_one show_progress tell_others number_or")"
