#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Brings a folder of data from a shared folder to the local disk of every host. See --help.
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

Copies the folder SOURCE, as it is mounted on each host, to DEST on the host's own disk: on all hosts at once, several files at
a time, with a line of progress from each. Every file is read back and compared (SHA-256) before it gets its name; shards
are verified by `dptrain data verify` besides. What is there already, with size and time the same, is kept, and an interrupted
copy goes on with the files that are missing. Links are followed: DEST has the files. What else is in DEST stays, and is told.
Of several SOURCEs, which are the same folder by several mounts, each host measures how fast it can read and takes the fastest.

  --here         on this machine alone: in a job, `srun --ntasks-per-node=1 scripts/stage_data.sh --here ...`
  --files N      files at a time on each host [4]
  --probe MB     how much is read of each SOURCE to measure it [256]
  --every SEC    between two lines of progress [5]
  --timeout SEC  the longest that a host may take [0: no limit]
  --jobs N, --ssh-port N, --user NAME, --key FILE, --include SPEC, --exclude SPEC   as on_hosts.sh has them
  -h, --help     this text

Exit code 0: DEST is whole everywhere. 1: a file could not be copied, or came out other than it went in. 3: a host has none of
the SOURCEs, or shards are damaged. 4: no room. 5: a host was not reached.
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
    ((${#words[@]} >= 3)) || die 2 "HOSTS, SOURCE and DEST are wanted (or --here, SOURCE and DEST); --help explains them"
    hosts=${words[0]} words=("${words[@]:1}")
else
    ((${#words[@]} >= 2)) || die 2 "--here wants SOURCE and DEST; --help explains them"
    ((${#options[@]} == 0)) || die 2 "--here is on this machine alone: ${options[0]} has no meaning"
fi
dest=${words[-1]} sources=("${words[@]:0:${#words[@]}-1}")
for folder in "${words[@]}"; do
    [[ $folder == /* ]] || die 2 "'$folder' is not an absolute path: hosts have other working folders"
done
for folder in "${sources[@]}"; do
    [[ ${dest%/}/ != "${folder%/}"/* ]] || die 2 "$dest is SOURCE, or in it: $folder; the copy would be copied, too"
done

# ---- on the hosts, by bash

# What is in it, as find's FORMAT shows it. A link that leads nowhere is listed: it is told when it cannot be copied.
files_of() { # FOLDER FORMAT
    (cd "$1" && find -L . \( -type f -o -type l \) -printf "$2")
}

# MB/s of reading, past the page cache where the file system can.
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

# Sets source: the fastest of those that are here.
choose_source() {
    local folder rate most=-1
    source=''
    for folder in "${sources[@]}"; do
        if [[ ! -d $folder ]]; then
            echo "there is no $folder"
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

# The copy is hashed as it is written, and once more as the disk has it.
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
        echo "error: $3 is on the disk not as it was written"
        return 1
    fi
    touch -r "$from" "$part" && mv -f "$part" "$to"
}

show_progress() { # BYTES
    local before now
    before=$(du -sb "$dest" | cut -f 1)
    # It ends with who shows it, killed or not; and who reads what is shown must not wait for the sleep.
    while sleep "$every" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        now=$(du -sb "$dest" | cut -f 1)
        awk -v now="$now" -v all="$1" -v rate=$(((now - before) / every)) \
            'BEGIN { printf "%.2f of %.2f GB, %.0f MB/s\n", now / 1e9, all / 1e9, rate / 1e6 }'
        before=$now
    done
}

# What is in DEST beside the files of SOURCE, which a folder of images would be trained with.
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
    # Not read into two names: it would take blanks from a name's end.
    while IFS= read -r -d '' line; do
        size=${line%% *} name=${line#* }
        all=$((all + size))
        same_file "$source/$name" "$dest/$name" || missing=$((missing + size))
    done < <(files_of "$source" '%s %P\0')
    free=$(df -PB1 "$dest" | awk 'NR == 2 { print $4 }')
    if ((missing > free)); then
        echo "error: $dest has room for $((free / 1000000)) MB, and $((missing / 1000000)) MB are missing"
        return 4
    fi
    show_progress "$all" &
    watch=$!
    export -f copy_one same_file
    files_of "$source" '%P\0' |
        xargs -0 -r -P "$files" -n 1 bash -c "copy_one \"\$@\"" _ "$source" "$dest" || code=$?
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    # xargs says 123 where any command failed.
    if ((code != 0)); then
        echo "error: $dest is not whole; the same call goes on with what is missing"
        return 1
    fi
    echo "$dest is whole: $((all / 1000000)) MB in $((SECONDS - start)) s, $((missing / 1000000)) MB of them copied"
    tell_others
    [[ -f $dest/manifest.json ]] || return 0
    program=$(command -v dptrain) || program=$dptrain
    if [[ ! -x $program ]]; then
        echo "dptrain is not on this host: its shards were compared as files only"
        return 0
    fi
    "$program" data verify "$dest"
}

# ---- from here

# Only for verifying shards.
dptrain=$(find_program 2>/dev/null) || dptrain=''
if [[ $alone == yes ]]; then
    stage || exit
    exit 0
fi
exec "$here/on_hosts.sh" "${options[@]}" "$hosts" -- "$(remote_script "sources dest files probe every dptrain" \
    "stage choose_source files_of read_rate same_file copy_one show_progress tell_others")"
