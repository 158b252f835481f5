#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Generates dptrain's manual page and completion from its help. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/dev/manual.sh man|bash [PROGRAM]

Generates files for make install from the program's option tables:

  man   the manual page, for man
  bash  completion for bash (commands, verbs, options, values, files)

PROGRAM is dptrain [the one in this repository]. src/cmd/cmd.h describes its output for --help=tsv; templates are in
scripts/dev/manual.
EOT
}

case ${1-} in
-h | --help) usage; exit 0 ;;
man | bash) ;;
*) die 2 "unknown kind '${1-}': expected man or bash; see --help" ;;
esac
program=${2:-$here/../../dptrain}
[[ -x $program ]] || die 2 "no program $program; run make"

# Prints the help lines of a command, prefixed by the command.
ask() { # COMMAND [VERB]
    local help
    help=$("$program" "$@" --help=tsv) || die 1 "$program $* --help=tsv failed"
    awk -v scope="$*" '{ print scope "\t" $0 }' <<<"$help"
}

# Prints the names of a kind in these lines.
names() { awk -F '\t' -v kind="$1" '$2 == kind { print $3 }' <<<"$2"; }

collect() {
    local lines command verb
    lines=$(ask)
    printf '%s\n' "$lines"
    while read -r command; do
        lines=$(ask "$command")
        printf '%s\n' "$lines"
        while read -r verb; do
            if [[ -n $verb ]]; then ask "$command" "$verb"; fi
        done <<<"$(names verb "$lines")"
    done <<<"$(names command "$lines")"
}

answers=$(collect)
case $1 in
man) awk -F '\t' -f "$here/manual/page.awk" - "$here/manual/page.1" <<<"$answers" ;;
bash) awk -F '\t' -f "$here/manual/completion.awk" - "$here/manual/completion.bash" <<<"$answers" ;;
esac
