#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the manual page and the completion of dptrain from its own help. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/dev/manual.sh man|bash [PROGRAM]

Prints what make install puts beside the program, made from its tables of options:

  man   the manual page, for man
  bash  completion for bash (commands, verbs, options, values, files)

PROGRAM is the dptrain to ask [the one in this repository]. What it answers to --help=tsv is described in
src/cmd/cmd.h; texts around it are in scripts/dev/manual.
EOT
}

case ${1-} in
-h | --help) usage; exit 0 ;;
man | bash) ;;
*) die 2 "'${1-}' is neither man nor bash; --help says more" ;;
esac
program=${2:-$here/../../dptrain}
[[ -x $program ]] || die 2 "there is no program $program; build it with make"

# Every line that the help of a command has, with the command in front.
ask() { # COMMAND [VERB]
    local help
    help=$("$program" "$@" --help=tsv) || die 1 "$program $* --help=tsv failed"
    awk -v scope="$*" '{ print scope "\t" $0 }' <<<"$help"
}

# Names of a kind among such lines.
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
