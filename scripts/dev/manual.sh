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
       scripts/dev/manual.sh pages PROGRAM DIR

Generates files for make install from the program's option tables and the help of its scripts:

  man    the manual page dptrain(1)
  bash   completion for bash (commands, verbs, options, values, files)
  pages  every manual page, in DIR: dptrain.1, and dptrain-COMMAND.1 for each command

PROGRAM is dptrain [the one in this repository]. src/cmd/cmd.h describes its output for --help=tsv; templates are in
scripts/dev/manual.
EOT
}

case ${1-} in
-h | --help) usage; exit 0 ;;
man | bash) ;;
pages) [[ $# -eq 3 ]] || die 2 "pages needs a program and a folder; see --help" ;;
*) die 2 "unknown kind '${1-}': expected man, bash or pages; see --help" ;;
esac
program=${2:-$here/../../dptrain}
[[ -x $program ]] || die 2 "no program $program; run make"

# Prints a script's help in the form of --help=tsv, with the name of its command. Its options are also lines
# `switch OPTION VALUE`, for the completion.
ask_script() { # COMMAND SCRIPT
    local help
    help=$(CALLED_AS="dptrain $1" "$2" --help all) || die 1 "$2 --help all failed"
    CALLED_AS="dptrain $1" "$2" --help | awk 'sub(/^More: .*TOPIC: /, "") { gsub(/, /, "\ntopic\t"); print "topic\t" $0 }'
    awk -v command="$1" '
        BEGIN { OFS = "\t" }
        /^Examples:$/ { examples = 1 }
        examples && /^  #/ { what = substr($0, 5) }
        examples && /^  [^#]/ { print "example", what, substr($0, 3) }
        examples && $0 == "" { examples = 0 }
        examples { next }
        { print "usage", $0 }
        $0 == "" { described = 1 }
        !described && match($0, "dptrain " command " [a-z|]+") {
            at = RSTART + length("dptrain " command " ")
            n = split(substr($0, at, RSTART + RLENGTH - at), word, "|")
            for (i = 1; i <= n; i++) print "word", word[i]
        }
        /^  -/ && match($0, /  [^ ].*/) {
            text = substr($0, 3)
            if (at = match(text, /  +[^ ]/)) text = substr(text, 1, at - 1)
            groups = split(text, group, /; */)
            for (g = 1; g <= groups; g++) {
                n = split(group[g], word, /,? +/)
                value[n + 1] = ""
                # A placeholder is the value of all options before it; other words are the description.
                for (i = n; i >= 1; i--) value[i] = word[i] ~ /^-/ ? value[i + 1] : word[i] ~ /^[A-Z0-9"]/ ? word[i] : ""
                for (i = 1; i <= n; i++)
                    if (word[i] ~ /^--?[A-Za-z][A-Za-z_-]*$/ && word[i] !~ /^(-h|--help)$/ && !(word[i] in seen)) {
                        seen[word[i]]
                        print "switch", word[i], value[i]
                    }
            }
        }' <<<"$help"
}

# Prints the help lines of a command, prefixed by the command.
ask() { # COMMAND [VERB]
    local help
    help=$("$program" "$@" --help=tsv) || die 1 "$program $* --help=tsv failed"
    if [[ $help == script$'\t'* ]]; then help=$(ask_script "$1" "${help#*$'\t'}"); fi
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

# The page of one command, or of all.
page() { # [COMMAND]
    awk -F '\t' -v only="${1-}" '$1 == "" || only == "" || $1 == only || index($1, only " ") == 1' <<<"$answers" |
        awk -F '\t' -v only="${1-}" -f "$here/manual/page.awk" - "$here/manual/${1:+command.}page.1"
}

write_pages() { # DIR
    local command
    mkdir -p "$1"
    page >"$1/dptrain.1"
    while read -r command; do page "$command" >"$1/dptrain-$command.1"; done <<<"$(names command "$(ask)")"
}

case $1 in
pages) write_pages "$3" ;;
man) page ;;
bash) awk -F '\t' -f "$here/manual/completion.awk" - "$here/manual/completion.bash" <<<"$answers" ;;
esac
