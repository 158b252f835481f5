#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies that includes look down only. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/dev/check_layers.sh [--root DIR] [--build DIR]

Compares every #include in src/ and kernels/ with scripts/dev/layers.txt, which lists the rooms (folders) from the
lowest to the highest, the rooms whose headers each one includes, and the rooms that may include headers of libraries.
A room may only include headers of rooms listed before it, and the rooms of a wing (a folder of src/) are listed
together, so that neither rooms nor wings form cycles. Files must not form cycles either; a .c file and its .h count as
one. After a build, the files of a room must not form circles by the symbols of their objects either, except for those
that the list names (circle ROOM: FILE...), each with its reason. Prints file:line: message for each violation and for
each unused entry of the list; exit code 1 if there is one. Tests may include anything.

  --root DIR   the tree to check [the tree of this script]
  --build DIR  its objects [build]
EOF
}

root=$here/../.. build=build
while [[ $# -gt 0 ]]; do
    case $1 in
    --root) need_value "$@"; root=$2; shift 2 ;;
    --build) need_value "$@"; build=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$root" || die 2 "no such folder: $root"
[[ -d src ]] || die 2 "no src/ in $root"
list=scripts/dev/layers.txt
[[ -f $list ]] || die 4 "no $list in $root"

n_violations=0
violation() { # FILE LINE MESSAGE
    printf '%s:%s: %s\n' "$1" "$2" "$3"
    n_violations=$((n_violations + 1))
}

# From the list: the line of each room, of each dependency "ROOM TARGET" and "PATTERNS ROOM", and of each circle
# "ROOM: FILE..."; patterns in order.
declare -A room_line=() allowed=() used=() wing_seen=() circle_line=()
# FILE:LINE of each include "FROM TO", for files without extensions.
declare -A include_at=()
libraries=()
last_wing=''

read_room() { # LINE ROOM TARGET...
    local line=$1 room=$2 wing=${2%%/*} target
    shift 2
    [[ -z ${room_line[$room]+known} ]] || violation "$list" "$line" "$room is listed twice"
    if [[ $wing != "$last_wing" && -n ${wing_seen[$wing]+known} ]]; then
        violation "$list" "$line" "$room: the rooms of $wing/ are not listed together"
    fi
    for target in "$@"; do
        [[ -n ${room_line[$target]+known} ]] ||
            violation "$list" "$line" "$room includes $target, which is not listed before it"
        allowed["$room $target"]=$line
    done
    room_line[$room]=$line wing_seen[$wing]=1 last_wing=$wing
}

read_entry() { # LINE TEXT
    local line=$1 name=${2%%:*} words room
    read -ra words <<<"${2#*:}"
    if [[ $name == '<'* ]]; then
        libraries+=("$name")
        for room in "${words[@]}"; do allowed["$name $room"]=$line; done
    elif [[ $name == 'circle '* ]]; then
        circle_line["${name#circle }: ${words[*]}"]=$line
    else
        read_room "$line" "$name" "${words[@]}"
    fi
}

read_list() {
    local text entry='' entry_line=0 line=0
    while IFS= read -r text || [[ -n $text ]]; do
        line=$((line + 1))
        case $text in
        '' | '#'*) continue ;;
        ' '*) entry+=$text ;; # continuation
        *)
            [[ -z $entry ]] || read_entry "$entry_line" "$entry"
            entry=$text entry_line=$line
            [[ $text == *:* ]] || die 4 "$list:$line: expected ROOM: or <HEADER>:"
            ;;
        esac
    done <"$list"
    [[ -z $entry ]] || read_entry "$entry_line" "$entry"
}

# Sets room_of to the listed room of PATH (without src/): its folder or a parent; '' if there is none.
find_room() { # PATH
    room_of=$1
    while [[ -z ${room_line[$room_of]+known} ]]; do
        if [[ $room_of != */* ]]; then room_of=''; return; fi
        room_of=${room_of%/*}
    done
}

note_include() { # FILE LINE TARGET
    local from=${1%.*} to=${3%.*}
    [[ $from == "$to" || -n ${include_at["$from $to"]+known} ]] || include_at["$from $to"]=$1:$2
}

check_own() { # ROOM FILE LINE HEADER
    local room=$1 file=$2 line=$3 header=$4
    if [[ $header == *..* ]]; then
        violation "$file" "$line" "\"$header\": use the path from src/, not .."
        return
    elif [[ $header != */* ]]; then
        note_include "$file" "$line" "${file%/*}/$header"
        [[ -e ${file%/*}/$header ]] || violation "$file" "$line" "\"$header\" is not in ${file%/*}"
        return
    fi
    if [[ $header == kernels/* ]]; then
        note_include "$file" "$line" "$header"
    else
        note_include "$file" "$line" "src/$header"
    fi
    find_room "$header"
    if [[ -z $room_of ]]; then
        violation "$file" "$line" "\"$header\" is in no room of $list"
    elif [[ $room_of != "$room" ]]; then
        used["$room $room_of"]=1
        [[ -n ${allowed["$room $room_of"]+known} ]] ||
            violation "$file" "$line" "\"$header\": $list does not let $room include $room_of"
    fi
}

# Returns 0 if the header belongs to a listed library.
check_library() { # ROOM FILE LINE HEADER
    local room=$1 file=$2 line=$3 header=$4 patterns pattern
    for patterns in "${libraries[@]}"; do
        for pattern in $patterns; do
            # shellcheck disable=SC2053 # a pattern
            [[ "<$header>" == $pattern ]] || continue
            used["$patterns $room"]=1
            [[ -n ${allowed["$patterns $room"]+known} ]] ||
                violation "$file" "$line" "<$header>: $list does not let $room include it"
            return 0
        done
    done
    return 1
}

read_list
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
        violation "$file" "$line" "cannot parse this #include"
        continue
    fi
    file=${BASH_REMATCH[1]} line=${BASH_REMATCH[2]} kind=${BASH_REMATCH[3]} header=${BASH_REMATCH[4]}
    find_room "${file#src/}"
    if [[ -z $room_of ]]; then
        violation "$file" "$line" "$file is in no room of $list"
        continue
    fi
    room=$room_of
    # Check for a library's header regardless of the quotes.
    if ! check_library "$room" "$file" "$line" "$header" && [[ $kind == '"' ]]; then
        check_own "$room" "$file" "$line" "$header"
    fi
done <<<"$includes"

# Reports a cycle, in the order of its includes.
report_circle() { # FILE...
    local place=${include_at["$1 $2"]} files=$1 file
    shift
    for file in "$@"; do files+=" -> $file"; done
    violation "${place%:*}" "${place##*:}" "include cycle: $files -> ${files%% *}"
}

check_circles() {
    local line circle=()
    while IFS= read -r line; do
        if [[ $line == *'input contains a loop:' ]]; then
            [[ ${#circle[@]} -eq 0 ]] || report_circle "${circle[@]}"
            circle=()
        elif [[ -n $line ]]; then
            circle+=("${line#*: }")
        fi
    done <<<"$(printf '%s\n' "${!include_at[@]}" | LC_ALL=C sort | LC_ALL=C tsort 2>&1 >/dev/null)"
    [[ ${#circle[@]} -eq 0 ]] || report_circle "${circle[@]}"
}
check_circles

# Succeeds if the list names a circle with these files.
circle_listed() { # ROOM FILE...
    local listed file
    for listed in "${!circle_line[@]}"; do
        [[ ${listed%%:*} == "$1" ]] || continue
        for file in "${@:2}"; do [[ " ${listed#*: } " == *" $file "* ]] || continue 2; done
        used["$listed"]=1
        return 0
    done
    return 1
}

check_symbols() {
    local text room files listed first
    while IFS= read -r text; do
        [[ -n $text ]] || continue
        room=${text%%:*} room=${room#src/}
        read -ra files <<<"${text#*: }"
        circle_listed "$room" "${files[@]}" ||
            violation "${text%%:*}/${files[0]}" 1 "these files use each other's symbols: ${files[*]}"
    done <<<"$("$here/house.sh" --root . --build "$build" --list circles)"
    for listed in "${!circle_line[@]}"; do
        first=${listed%%:*}/${listed#*: } first=${first%% *}
        compgen -G "$build/src/${first%.*}.*o" >/dev/null || compgen -G "$build/${first%.*}.*o" >/dev/null || continue
        [[ -n ${used[$listed]+known} ]] ||
            violation "$list" "${circle_line[$listed]}" "these files no longer use each other's symbols: remove the circle"
    done
}
[[ ! -d $build/src ]] || check_symbols

no_longer() { # ARROW
    if [[ $1 == '<'* ]]; then set -- "${1##* } ${1% *}"; fi
    echo "${1%% *} no longer includes ${1#* }: remove it"
}

while IFS= read -r arrow; do
    [[ -z $arrow ]] || violation "$list" "${allowed[$arrow]}" "$(no_longer "$arrow")"
done <<<"$(for arrow in "${!allowed[@]}"; do [[ -n ${used[$arrow]+known} ]] || echo "$arrow"; done | LC_ALL=C sort)"
[[ $n_violations -eq 0 ]] || die 1 "$n_violations layer violations"
