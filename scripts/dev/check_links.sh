#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies the links of the pages. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/dev/check_links.sh [--root DIR]

Checks every Markdown link into this tree in README.md, CHANGELOG.md, CONTRIBUTING.md, docs/*.md and results/*.md: the file
must exist, and an #anchor must be a heading of the page. Prints file:line: message for each broken link, with exit code 1 if there
is one. Links to other sites are not followed.

  --root DIR  the tree to check [the tree of this script]
EOT
}

root=$here/../..
while [[ $# -gt 0 ]]; do
    case $1 in
    --root) need_value "$@"; root=$2; shift 2 ;;
    *) common_option "$1" ;;
    esac
done
cd "$root" || die 2 "no such folder: $root"
shopt -s nullglob
pages=(README.md CHANGELOG.md CONTRIBUTING.md docs/*.md results/*.md)
for page in "${pages[@]}"; do [[ -f $page ]] || die 4 "no $page in $root"; done

# Prints LINE TARGET of every link, ignoring code: fenced blocks, and spans within a line.
links() { # FILE
    awk '/^ *```/ { code = !code; next }
        code { next }
        {
            gsub(/`[^`]*`/, "code")
            while (match($0, /\]\([^) ]*/)) {
                print FNR, substr($0, RSTART + 2, RLENGTH - 2)
                $0 = substr($0, RSTART + RLENGTH)
            }
        }' "$1"
}

# Prints the anchors that GitHub generates for the headings of a page; non-ASCII characters are dropped on both sides.
anchors() { # FILE
    LC_ALL=C awk '/^ *```/ { code = !code }
        !code && /^#+ / {
            sub(/^#+ +/, "")
            $0 = tolower($0)
            gsub(/\]\([^)]*\)/, "")
            gsub(/[^a-z0-9 _-]/, "")
            gsub(/ /, "-")
            print $0 (seen[$0]++ ? "-" seen[$0] - 1 : "")
        }' "$1"
}

n_broken=0
broken() { # FILE LINE MESSAGE
    printf '%s:%s: %s\n' "$1" "$2" "$3"
    n_broken=$((n_broken + 1))
}

check_link() { # FILE LINE TARGET
    local file=$1 line=$2 target=$3 path anchor
    path=${target%%#*} anchor=''
    [[ $target != *#* ]] || anchor=${target#*#}
    if [[ -z $path ]]; then
        path=$file
    else
        path=$(dirname "$file")/$path
    fi
    if [[ ! -e $path ]]; then
        broken "$file" "$line" "$target: no such file: ${path#./}"
    elif [[ -n $anchor ]] && ! anchors "$path" | grep -qxF -- "$anchor"; then
        broken "$file" "$line" "$target: ${path#./} has no such heading"
    fi
}

for page in "${pages[@]}"; do
    while read -r line target; do
        [[ $target =~ ^[a-z]+: ]] || check_link "$page" "$line" "$target"
    done < <(links "$page")
done
[[ $n_broken -eq 0 ]] || die 1 "$n_broken links are broken"
