# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the download scripts; sourced, never run. A file is downloaded as NAME.part, resumed where it was
# interrupted, compared with its checksum, and only then renamed: 64 hexadecimal digits are a SHA-256, 32 an MD5.

me=${0##*/}

fail() { # CODE MESSAGE
    echo "$me: $2" >&2
    exit "$1"
}

fetch_need_tools() { # URL
    tool=
    local candidate
    for candidate in curl wget; do
        if [ -z "$tool" ] && command -v "$candidate" >/dev/null; then tool=$candidate; fi
    done
    case $1 in
        file://*) ;;
        *) [ -n "$tool" ] || fail 4 "neither curl nor wget is installed (apt-get install curl)" ;;
    esac
    command -v sha256sum >/dev/null || fail 4 "sha256sum is not installed (apt-get install coreutils)"
}

fetch_make_folder() { # FOLDER
    mkdir -p -- "$1" || fail 4 "cannot make the folder $1"
    [ -w "$1" ] || fail 4 "cannot write into the folder $1"
}

fetch_sum_of() { # FILE SUM OF THE SAME KIND
    local line
    if [ ${#2} = 32 ]; then line=$(md5sum <"$1"); else line=$(sha256sum <"$1"); fi || return 1
    echo "${line%% *}"
}

# Resumes where the file has a beginning; what the tool prints on an error goes through.
fetch_download() { # URL FILE
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
fetch_complete() { # URL PART BYTES
    local code size=0
    [ ! -e "$2" ] || size=$(wc -c <"$2") || return 1
    # As long as the whole and yet not it (see fetch_from): of no use, and no server would resume it.
    [ "$size" -lt "$3" ] || rm -f -- "$2"
    fetch_download "$1" "$2"
    code=$?
    # curl's 33: this server cannot resume. Other failures keep the part for the next run.
    if [ "$tool" = curl ] && [ "$code" = 33 ]; then
        rm -f -- "$2"
        fetch_download "$1" "$2"
        code=$?
    fi
    return "$code"
}

# 0: right, under its name. 3: something else came. 4: nothing came.
fetch_from() { # URL SUM BYTES FILE WHOSE
    local part=$4.part sum='' attempt
    # Twice, as a part from an earlier run may be another file's beginning; the second try starts afresh.
    for attempt in resumed fresh; do
        [ ! -e "$part" ] || sum=$(fetch_sum_of "$part" "$2") || return 4
        if [ "$sum" != "$2" ]; then
            [ "$attempt" = fresh ] || [ -s "$part" ] || continue
            fetch_complete "$1" "$part" "$3" || return 4
            sum=$(fetch_sum_of "$part" "$2") || return 4
        fi
        [ "$sum" != "$2" ] || break
        rm -f -- "$part"
    done
    if [ "$sum" != "$2" ]; then
        echo "$me: $1 is not $5: checksum $sum, expected $2" >&2
        return 3
    fi
    mv -f -- "$part" "$4" || return 4
}

# Unpacks the archive's folder NAME into FOLDER, under a name of its own until it is whole: 0, or 3 for a damaged
# archive, 4 for want of room.
fetch_unzip() { # ZIP NAME FOLDER
    local temp=$3/.$2.part code file kept
    rm -rf -- "$temp"
    mkdir -- "$temp" || return 4
    unzip -q "$1" "$2/*" -d "$temp"
    code=$?
    if [ "$code" = 0 ]; then
        # Beside what is there already: annotations of another year, say.
        if [ -d "$3/$2" ]; then
            for file in "$temp/$2"/*; do
                kept=$3/$2/${file##*/}
                if [ ! -e "$kept" ] || cmp -s -- "$file" "$kept"; then continue; fi
                rm -rf -- "$temp"
                fail 3 "$kept is not the archive's; move it away, or choose another folder"
            done
            mv -f -- "$temp/$2"/* "$3/$2/" || return 4
        else
            mv -- "$temp/$2" "$3/$2" || return 4
        fi
        rm -rf -- "$temp"
        return 0
    fi
    rm -rf -- "$temp"
    echo "$me: unzip $1 ended with code $code" >&2
    # 50: the disk is full (unzip(1)).
    [ "$code" = 50 ] && return 4
    return 3
}
