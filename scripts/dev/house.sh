#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prints how finely the source is cut into files and functions. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/dev/house.sh [--root DIR] [--build DIR] [--list WHAT]

Prints figures of the files in src/ and kernels/: how many, how long, how many functions are statics with one call
site, and how many names are external for the sake of one other file. A room is a folder.

  --root DIR   the tree to read [the tree of this script]
  --build DIR  its objects, whose symbols are read; without them the figures of symbols are left out [build]
  --list WHAT  print one line for each of these instead of the figures:
                 rooms      files and lines of each room
                 statics    statics whose name occurs twice in their file: the definition and one use
                 functions  functions with their lines, the longest first
                 names      external names used by one other file, which is in the same room
                 circles    files of a room that use each other's symbols
EOF
}

root=$here/../.. build=build list=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --root) need_value "$@"; root=$2; shift 2 ;;
    --build) need_value "$@"; build=$2; shift 2 ;;
    --list) need_value "$@"; list=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$root" || die 2 "no such folder: $root"
[[ -d src ]] || die 2 "no src/ in $root"
folders=(src)
[[ ! -d kernels ]] || folders+=(kernels)
mapfile -t sources < <(find "${folders[@]}" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.proto' | LC_ALL=C sort)

list_rooms() {
    wc -l "${sources[@]}" | awk '$2 ~ /\// { room = $2; sub(/\/[^\/]*$/, "", room); n[room]++; lines[room] += $1 }
        END { for (room in n) print n[room], lines[room], room }' | LC_ALL=C sort -k1,1rn -k3
}

# FILE LINES static|external USES NAME of each function; USES counts its name in the file without comments and strings.
# The style puts a function's braces, and nothing else's, on lines of their own.
list_functions() {
    awk '
    function finish(    i) {
        for (i = 1; i <= n_functions; i++) print file, lines[i], linkage[i], uses[names[i]], names[i]
        n_functions = 0
        delete uses
    }
    FNR == 1 { finish(); file = FILENAME; head = ""; start = comment = 0 }
    {
        text = $0
        gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
        if (comment) {
            if (!sub(/^.*\*\//, "", text)) next
            comment = 0
        }
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
        sub(/\/\/.*/, "", text)
        comment = sub(/\/\*.*/, "", text)
        n_words = split(text, words, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n_words; i++) uses[words[i]]++
    }
    text == "{" && head != "" {
        gsub(/__(attribute|launch_bounds)__ *\(+[^)]*\)+/, "", head)
        name = head
        sub(/ *\(.*/, "", name)
        sub(/.*[^A-Za-z0-9_]/, "", name)
        if (name ~ /_CLONES$/) { # static clones of a function, named by the first argument
            name = head
            sub(/^[^(]*\(/, "static ", head)
            sub(/^[^(]*\(/, "", name)
            sub(/[^A-Za-z0-9_].*/, "", name)
        }
        names[++n_functions] = name
        linkage[n_functions] = head ~ /(^| )static / ? "static" : "external"
        start = head_line
        head = ""
        next
    }
    text == "}" && start { lines[n_functions] = FNR - start + 1; start = 0 }
    text ~ /^#/ || text ~ /[;}] *$/ || text == "" { head = ""; next }
    { if (head == "") head_line = FNR; head = head " " text }
    END { finish() }' "${sources[@]}"
}

# USER DEFINER NAME of each symbol that a file uses and another one defines.
list_uses() {
    local file objects=()
    for file in "${sources[@]}"; do
        case $file in
        *.c) file=${file%.c}.o ;;
        *.cu) file=$file.o ;;
        *) continue ;;
        esac
        [[ ! -f $build/$file ]] || objects+=("$file")
    done
    [[ ${#objects[@]} -gt 0 ]] || return 0
    (cd "$build"; nm --format=posix --print-file-name "${objects[@]}") | awk '
    { file = $1; sub(/:$/, "", file); if (!sub(/\.cu\.o$/, ".cu", file)) sub(/\.o$/, ".c", file) }
    $3 ~ /^[TDBRC]$/ { definer[$2] = file }
    $3 == "U" { used[file " " $2] }
    END {
        for (use in used) {
            split(use, part, " ")
            if (part[2] in definer) print part[1], definer[part[2]], part[2]
        }
    }' | LC_ALL=C sort
}

# DEFINER USER NAME.
list_names() {
    list_uses | awk '
    function room(file) { sub(/\/[^\/]*$/, "", file); return file }
    { n[$3]++; user[$3] = $1; definer[$3] = $2 }
    END { for (name in n) if (n[name] == 1 && room(user[name]) == room(definer[name])) print definer[name], user[name], name }' |
        LC_ALL=C sort
}

# ROOM: FILE... for each group of files that reach each other.
list_circles() {
    list_uses | awk '
    function room(file) { sub(/\/[^\/]*$/, "", file); return file }
    function visit(from, file,    n, i, used) {
        n = split(uses[file], used, " ")
        for (i = 1; i <= n; i++)
            if (!((from, used[i]) in reaches)) {
                reaches[from, used[i]]
                visit(from, used[i])
            }
    }
    room($1) == room($2) && !seen[$1, $2]++ {
        if (!($1 in uses)) files[++n_files] = $1
        uses[$1] = uses[$1] " " $2
    }
    END {
        for (i = 1; i <= n_files; i++) visit(files[i], files[i])
        for (i = 1; i <= n_files; i++) {
            if (done[files[i]] || !((files[i], files[i]) in reaches)) continue
            printf "%s:", room(files[i])
            for (j = i; j <= n_files; j++)
                if ((files[i], files[j]) in reaches && (files[j], files[i]) in reaches) {
                    done[files[j]] = 1
                    printf " %s", substr(files[j], length(room(files[j])) + 2)
                }
            print ""
        }
    }'
}

figure() { printf '%-46s %s\n' "$1" "$2"; }

print_figures() {
    local counts
    counts=$(wc -l "${sources[@]}" | grep -v ' total$')
    figure 'files' "${#sources[@]}"
    figure 'lines' "$(awk '{ n += $1 } END { print n }' <<<"$counts")"
    figure 'lines of a .c, mean' "$(awk '/\.c$/ { n++; lines += $1 } END { printf "%d\n", lines / n }' <<<"$counts")"
    figure 'longest file' "$(sort -rn <<<"$counts" | awk 'NR == 1 { print $1 ", " $2 }')"
    figure 'largest room' "$(list_rooms | awk 'NR == 1 { print $1 " files, " $3 }')"
    list_functions | awk '
    { n++; n_src += /^src/; if ($2 > 120) n_long++ }
    $3 == "static" && $4 == 2 { once++; once_src += /^src/ }
    END {
        printf "%-46s %d\n", "functions", n
        printf "%-46s %d\n", "functions over 120 lines", n_long
        printf "%-46s %.1f %% (src: %.1f %%)\n", "statics used once", 100 * once / n, 100 * once_src / n_src
    }'
    [[ -d $build/src ]] || return 0
    figure 'external names used by one file of their room' "$(list_names | wc -l)"
    figure 'circles of files in a room' "$(list_circles | wc -l)"
}

case $list in
'') print_figures ;;
rooms) list_rooms ;;
statics) list_functions | awk '$3 == "static" && $4 == 2 { print $1, $5, $2 }' ;;
functions) list_functions | awk '{ print $2, $1, $5 }' | LC_ALL=C sort -k1,1rn -k2 ;;
names) list_names ;;
circles) list_circles ;;
*) die 2 "invalid --list '$list': expected rooms, statics, functions, names or circles" ;;
esac
