# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions of the download scripts. Sourced. A file is downloaded as NAME.part in a folder aside, resumed after an interruption,
# verified, and renamed. What is complete is moved into the data's folder: a failure leaves none that was not there before.
# Checksums of 64 hexadecimal digits are SHA-256, those of 32 MD5.

me=${0##*/}

fail() { # CODE MESSAGE
    echo "$me: $2" >&2
    exit "$1"
}

# The first after the command line is checked; end_of_options of scripts/lib.sh, as it is called there.
fetch_need_tools() { # URL
    [ -z "${DPTRAIN_CHECK_OPTIONS-}" ] || exit 0
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

# Sets folder, and aside: FOLDER.part, or FOLDER/.part if the folder is there. An aside with nothing in it goes at the end.
fetch_begin() { # FOLDER
    folder=$1
    while [ "${folder%/}" != "$folder" ] && [ "$folder" != / ]; do folder=${folder%/}; done
    aside=$folder.part
    if [ -d "$folder" ]; then
        [ -w "$folder" ] || fail 4 "cannot write into the folder $folder"
        [ -d "$aside" ] || aside=$folder/.part
    elif [ -e "$folder" ] || [ -L "$folder" ]; then
        fail 4 "cannot create the folder $folder: another file has its name"
    fi
    mkdir -p -- "$aside" || fail 4 "cannot create the folder $aside"
    [ -w "$aside" ] || fail 4 "cannot write into the folder $aside"
    trap fetch_leave EXIT
}

fetch_leave() {
    [ ! -d "$aside" ] || find "$aside" -maxdepth 1 -name '*.part' -type f -empty -delete
    rmdir -- "$aside" 2>/dev/null
}

# Moves a file or a folder from aside into the data's folder.
fetch_publish() { # NAME
    mkdir -p -- "$folder" && mv -f -- "$aside/$1" "$folder/"
}

fetch_sum_of() { # FILE SUM OF THE SAME KIND
    local line
    if [ ${#2} = 32 ]; then line=$(md5sum <"$1"); else line=$(sha256sum <"$1"); fi || return 1
    echo "${line%% *}"
}

# Resumes if the file exists. The tool prints its own errors.
fetch_download() { # URL FILE
    case $1 in
        file://*)
            # Copy, because wget does not support file://.
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

# Completes the part file, or downloads it again if it cannot be resumed.
fetch_complete() { # URL PART BYTES
    local code size=0
    [ ! -e "$2" ] || size=$(wc -c <"$2") || return 1
    # Full length but a wrong checksum (see fetch_from): useless, and not resumable.
    [ "$size" -lt "$3" ] || rm -f -- "$2"
    fetch_download "$1" "$2"
    code=$?
    # curl's 33: the server cannot resume. Other failures keep the part for the next run.
    if [ "$tool" = curl ] && [ "$code" = 33 ]; then
        rm -f -- "$2"
        fetch_download "$1" "$2"
        code=$?
    fi
    return "$code"
}

# Returns 0 if the file is verified and renamed, 3 if the download is another file, 4 if the download failed.
fetch_from() { # URL SUM BYTES FILE WHOSE
    local part=$4.part sum='' attempt
    # Twice, because a part from an earlier run may belong to another file; the second try starts from scratch.
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

# Unpacks the archive's folder NAME aside, and moves it into the data's folder when it is complete. Returns 0, 3 for a
# damaged archive, or 4 for lack of space.
fetch_unzip() { # ZIP NAME
    local temp=$aside/unpacked code file kept
    rm -rf -- "$temp"
    mkdir -- "$temp" || return 4
    unzip -q "$1" "$2/*" -d "$temp"
    code=$?
    if [ "$code" = 0 ]; then
        # Add to an existing folder, such as annotations of another year.
        if [ -d "$folder/$2" ]; then
            for file in "$temp/$2"/*; do
                kept=$folder/$2/${file##*/}
                if [ ! -e "$kept" ] || cmp -s -- "$file" "$kept"; then continue; fi
                rm -rf -- "$temp"
                fail 3 "$kept differs from the archive's; move it away, or choose another folder"
            done
            mv -f -- "$temp/$2"/* "$folder/$2/" || return 4
        else
            fetch_publish "unpacked/$2" || return 4
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
