# SPDX-License-Identifier: MIT
# Checks blocks of commands in the pages: `load docs`. docs/adding.md describes the marks.
# shellcheck shell=bash
# shellcheck disable=SC2154 # root, dptrain: common.bash sets them; docs_coco, docs_helps: the test does

docs_marks="run hosts gpu network long"
# Options that some help has, as NAME OPTION; -g because `load` is a function.
declare -gA docs_known=()

# Writes each fenced block of a page to a file LINE.MARK in the folder, without fence and indentation. LINE is the fence's; MARK
# is `none` for text. Commands without a mark are an error.
docs_split() { # PAGE FOLDER
    awk -v folder="$2" -v page="$1" -v known=" $docs_marks " '
        /^ *```/ && !open {
            open = 1; line = FNR; indent = match($0, /`/) - 1
            n = split(substr($0, indent + 4), info, " ")
            mark = info[1] == "sh" || info[1] == "bash" ? info[2] : info[1] == "console" ? "console" info[2] : "none"
            if (info[1] ~ /^(sh|bash)$/ && (n != 2 || index(known, " " mark " ") == 0) ||
                info[1] == "console" && info[2] !~ /^(run|like)?$/) {
                printf "%s:%d: a block of commands needs one of the marks%s\n", page, FNR, known
                bad = 1
            }
            file = sprintf("%s/%04d.%s", folder, line, mark)
            printf "" >file
            next
        }
        /^ *```/ { open = 0; close(file); next }
        open { print substr($0, length($0) > indent ? indent + 1 : length($0) + 1) >file }
        END { exit bad }' "$1"
}

# Prints the commands of a block, one per line, without comments; in a transcript, those after the prompts.
docs_commands() { # FILE
    case $1 in
    *.console*) sed -n 's/^\$ //p' "$1" ;;
    *) cat "$1" ;;
    esac | sed -E ':a; /\\$/{ N; s/ *\\\n */ /; ta; }; s/(^|[[:space:]])#.*//; /^[[:space:]]*$/d'
}

# Prints --help (all) of dptrain's `train`, `data pack` …, or of a script by its path.
docs_help() { # NAME
    local file=$docs_helps/${1//[\/ ]/_}.txt command=("$dptrain") words
    if [[ ! -e $file ]]; then
        if [[ $1 == *.sh ]]; then command=("$root/$1"); else read -ra words <<<"$1" && command+=("${words[@]}"); fi
        if [[ $1 == *.sh ]]; then command+=(--help); else command+=(--help all); fi
        "${command[@]}" >"$file" 2>&1 || return
    fi
    cat "$file"
}

docs_has_option() { # OPTION, the help on standard input
    local option=${1%%=*}
    local either=$option
    [[ $option != --no-* ]] || either="$option|--${option#--no-}"
    [[ $option == --help || $option == -h ]] || grep -qE -- "(^|[^A-Za-z0-9-])($either)([^A-Za-z0-9-]|\$)"
}

# Whether the help of a command or a script has an option.
docs_knows() { # NAME OPTION
    [[ -z ${docs_known[$1 $2]-} ]] || return 0
    { docs_help "$1"; [[ $1 != scripts/recipes/* ]] || docs_help train; } | docs_has_option "$2" || return
    docs_known[$1 $2]=yes
}

# Prints the command whose options follow `--`.
docs_after_dashes() { # NAME
    case $1 in
    run | scripts/run.sh) echo train ;;
    health | scripts/cluster_health.sh) echo check ;;
    nccl-bw | scripts/nccl_bw.sh) echo bench ;;
    regress | scripts/regress.sh) echo "report compare" ;;
    scripts/container.sh) echo scripts/run.sh ;;
    esac
}

# Checks that subcommands, scripts and options of a line exist. Prints what does not.
docs_check_line() { # LINE
    local words word name='' next=''
    [[ -n ${docs_verbs-} ]] || docs_verbs=$(docs_help '' | sed -nE 's/^  ([a-z-]+) .*/\1/p' | tr '\n' ' ')
    read -ra words <<<"$1"
    for word in "${words[@]}"; do
        word=${word#[\"\']} word=${word%[\"\';]}
        case $word in
        '&&' | '|' | '>'*) name='' next='' ;;
        dptrain | */dptrain) name=train next=command ;;
        scripts/dptrain.sbatch) name=train next=command ;;
        scripts/*.sh | data/*.sh)
            [[ -x $root/$word ]] || { echo "no script $word"; return 1; }
            name=$word next=''
            [[ $word != scripts/run.sh ]] || next=maybe
            ;;
        --) name=$(docs_after_dashes "$name") next=maybe ;;
        -[a-zA-Z]* | --[a-z]*)
            [[ $next != command ]] || next=''
            [[ -n $name ]] || continue
            docs_knows "$name" "$word" || { echo "$name has no option $word"; return 1; }
            ;;
        *)
            if [[ $next == command && " $docs_verbs" == *" $word "* || $next == maybe && $word =~ ^(train|eval|bench|check)$ ]]; then
                name=$word next=''
                [[ $word != data && $word != report ]] || next=verb
            elif [[ $next == command ]]; then
                echo "dptrain has no command $word"
                return 1
            elif [[ $next == verb ]]; then
                next=''
                [[ $word != [a-z]* || $word == *[./]* ]] || name+=" $word"
            fi
            ;;
        esac
    done
}

# Prepares a folder to run commands in: the program, the scripts, and small data instead of the pages' large data.
docs_folder() { # FOLDER
    local real
    real=$(command -v mpirun)
    mkdir -p "$1/bin" "$1/shared" "$1/data" "$1/runs"
    ln -s "$root/scripts" "$root/results" "$1"
    ln -s "$dptrain" "$1/dptrain"
    ln -s "$dptrain" "$1/bin/dptrain"
    ln -s "$tiny" "$1/shared/mnist"
    ln -s "${docs_coco:-$tiny}" "$1/data/coco"
    printf '#!/bin/sh\n' >"$1/bin/make"
    mpi_flags 2
    # Add this machine's flags unless the caller binds ranks.
    # shellcheck disable=SC2016 # for the wrapper
    printf '#!/usr/bin/env bash\n[[ " $* " != *" --bind-to "* ]] || exec %q "$@"\nexec %q %s "$@"\n' \
        "$real" "$real" "${MPI_FLAGS[*]@Q}" >"$1/bin/mpirun"
    chmod +x "$1"/bin/m*
}

# Replaces commands of the pages: install and build nothing, and do not run the test suite.
docs_substitute() { # FOLDER
    sed -E -e "s#/shared/#$1/shared/#g" -e 's#^scripts/quickstart.sh#& --skip-install --out runs/quickstart#' \
        -e 's#^scripts/install_deps.sh#& --list#' -e 's#^scripts/test.sh#& --help#'
}

# Reduces lines to their words: numbers, hashes, paths, instruction sets and widths of columns differ between machines, and with
# their speed the units of times and the number of threads.
docs_form() {
    sed -E -e 's#[^ (]*/([^ /]*)#\1#g' -e 's/\b[0-9a-f]{16}\b/N/g' -e 's/[-+]?[0-9][0-9,.]*(e-?[0-9]+)?|\binf\b/N/g' -e 's/ +/ /g' -e 's/ $//' \
        -e 's/\b(avx|amx|sse)[a-zN0-9_]*/ISA/' -e 's/\b(host|mpi) allreduce/ALLREDUCE/' -e 's/(most expensive layer|hint): .*/LAST/' \
        -e '/^ not on a GPU: /d' -e 's/\bN ms\b/N s/g' -e 's/\bN threads\b/N thread/' -e 's/^( machine = ).*(; cpu)/\1CPU\2/'
}

# Whether the output has every line that the page shows, in this order, with other numbers.
docs_like() { # BLOCK OUTPUT
    awk 'NR == FNR { said[n++] = $0; next }
        /^\$ / || /^ *…$/ { next }
        { for (i = at; i < n && said[i] != $0; i++); if (i == n) { print "the output has no line like: " $0; bad = 1 } else at = i + 1 }
        END { exit bad }' <(docs_form <"$2") <(docs_form <"$1")
}

# Runs a block in the folder; prints its output if it fails or if the output differs from the page.
docs_run() { # FILE FOLDER
    local said code=0 command
    said=$1.said
    case $1 in
    *.run)
        { echo 'set -euo pipefail'; docs_substitute "$2" <"$1"; } >"$1.sh"
        (cd "$2" && PATH=$2/bin:$PATH bash "$1.sh") </dev/null >"$said" 2>&1 || code=$?
        [[ $code -eq 0 ]] || { cat "$1.sh" "$said"; echo "exit code $code"; return 1; }
        ;;
    *.consolerun | *.consolelike)
        while read -r command; do
            printf '$ %s\n' "$command"
            (cd "$2" && PATH=$2/bin:$PATH bash -c "$command") </dev/null 2>&1
        done < <(docs_commands "$1" | docs_substitute "$2") >"$said"
        if [[ $1 == *.consolerun ]]; then diff "$1" "$said"; else docs_like "$1" "$said" || { cat "$said"; return 1; }; fi
        ;;
    esac
}
