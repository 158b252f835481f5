# SPDX-License-Identifier: MIT
# Checks commands of the pages and of the helps' examples: `load docs`. docs/adding.md describes the marks. A command is run
# (docs_run), or its words are checked by the program that it starts (docs_accept); docs_check_line also knows the others.
# shellcheck shell=bash
# shellcheck disable=SC2154 # root, dptrain: common.bash sets them; docs_coco, docs_helps: the test does

docs_marks="run hosts gpu network long"
# Whether some help has an option, by NAME OPTION, helps by NAME, and values that are accepted, by OPTION VALUE; -g because `load` is
# a function.
declare -gA docs_known=() docs_read=() docs_taken=()

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
        # The examples are not a proof of their options.
        "${command[@]}" --help all 2>&1 | sed '/^Examples:$/,/^$/d' >"$file" || return
    fi
    cat "$file"
}

docs_has_option() { # OPTION HELP
    local option=${1%%=*}
    local either=$option
    [[ $option != --no-* ]] || either="$option|--${option#--no-}"
    [[ $option == --help || $option == -h || $2 =~ (^|[^A-Za-z0-9-])($either)([^A-Za-z0-9-]|$) ]]
}

# Whether the help of a command or a script has an option.
docs_knows() { # NAME OPTION
    if [[ -z ${docs_known[$1 $2]-} ]]; then
        if [[ -z ${docs_read[$1]-} ]]; then docs_read[$1]=$(docs_help "$1"; [[ $1 != scripts/recipes/* ]] || docs_help train); fi
        docs_known[$1 $2]=no
        ! docs_has_option "$2" "${docs_read[$1]}" || docs_known[$1 $2]=yes
    fi
    [[ ${docs_known[$1 $2]} == yes ]]
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

# Prints the examples of a help, one per line.
docs_examples() { # NAME
    local command=("$dptrain") words
    if [[ $1 == *.sh ]]; then command=("$root/$1"); else read -ra words <<<"$1" && command+=("${words[@]}"); fi
    "${command[@]}" --help | sed -n '/^Examples:$/,/^$/{ /^  [^#]/p; }' | sed -E ':a; /\\$/{ N; s/ *\\\n */ /; ta; }; s/^  //'
}

# Checks that subcommands, scripts and options of a line exist. Prints what does not.
docs_check_line() { # LINE
    local words word name='' next=''
    [[ -n ${docs_verbs-} ]] || docs_verbs=$(docs_help '' | sed -nE 's/^  ([a-z-]+) .*/\1/p' | tr '\n' ' ')'help version '
    read -ra words <<<"$1"
    for word in "${words[@]}"; do
        word=${word#[\"\']} word=${word%[\"\';]}
        case $word in
        '&&' | '|' | '>'*) name='' next='' ;;
        dptrain | */dptrain) name=train next=command ;;
        scripts/dptrain.sbatch) name=train next=command ;;
        scripts/*.sh | data/*.sh | tests/attack/attack.sh)
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

# Checks the words of commands by what they start: every command line of dptrain and of its scripts is parsed and validated,
# and nothing runs. Stand-ins replace the launchers, which start the program once, and other programs, which do nothing. Input
# that is missing here (code 3) is the business of a run. Prints what is refused, or changes nothing.
docs_accept() { # FOLDER, the commands on standard input
    local said=$1/accept.said
    {
        # shellcheck disable=SC2016 # for the script
        echo 'trap '\''code=$?; ((code == 3)) || { echo "refused with code $code: $BASH_COMMAND"; bad=1; }'\'' ERR; bad=0'
        # What a person answers, and files that earlier commands would have made.
        docs_substitute "$1" | sed -E 's/ && /\n/g; s/ …$//; s/\bNAME(,mpi)?$/mpi/; s/--comm NAME/--comm mpi/
            s/(^|\n)build\/[^\n]*/\1:/g; s/aws\.sh (up|down)/& --yes/; s/aws\.sh put/& --bundle dptrain-0.tar.gz/'
        # shellcheck disable=SC2016
        echo 'exit "$bad"'
    } >"$1/accept.sh"
    if ! (cd "$1" && PATH=$1/check:$1/bin:$1/scripts:$PATH DPTRAIN_CHECK_OPTIONS=1 bash accept.sh) </dev/null >"$said" 2>&1 ||
        grep -q ' changes nothing ' "$said"; then
        grep -v 'DPTRAIN_CHECK_OPTIONS is set' "$said"
        return 1
    fi
}

# Prepares the stand-ins of docs_accept.
docs_check_folder() { # FOLDER
    local name
    mkdir -p "$1/check" "$1/data/coco_shards" "$1/shared/coco" "$1/work" "$1/scratch"
    touch "$1/dptrain-0.tar.gz" "$1/data/coco_shards/index.h5"
    for name in ssh git curl kubectl podman tail tar make jq python3; do printf '#!/bin/sh\n' >"$1/check/$name"; done
    # shellcheck disable=SC2016 # for the stand-in
    for name in mpirun sbatch srun ch-run; do
        printf '%s\n' '#!/usr/bin/env bash' 'while (($# > 1)) && [[ $1 != dptrain && ! ($1 == */* && -f $1 && -x $1) ]]; do' \
            '    if [[ $1 == --wrap ]]; then exec bash -c "$2"; fi' '    [[ $1 != build/tests/* ]] || exit 0' '    shift' 'done' \
            'SLURM_JOB_NUM_NODES=2 exec "$@"' >"$1/check/$name"
    done
    chmod +x "$1"/check/*
    echo 'node1 slots=8' >"$1/hosts"
    # The specification that the page shows.
    # shellcheck disable=SC2016 # backticks of Markdown
    sed -n '/^```yaml$/,/^```$/{ /^```/!p; }' "$root/docs/cluster.md" >"$1/cluster.yaml"
}

# Writes the first validation image of $tiny as PNG.
docs_digit() { # FILE
    perl -MCompress::Zlib -e '
        open my $in, "<:raw", $ARGV[0] or die "$ARGV[0]: $!"; seek $in, 16, 0; read $in, my $pixels, 784;
        open my $out, ">:raw", $ARGV[1] or die "$ARGV[1]: $!";
        print $out "\x89PNG\r\n\x1a\n";
        for (["IHDR", pack "NNCCCCC", 28, 28, 8, 0, 0, 0, 0], ["IDAT", compress(join "", map "\0$_", unpack "(a28)*", $pixels)], ["IEND", ""]) {
            print $out pack("N", length $_->[1]), $_->[0], $_->[1], pack("N", crc32("$_->[0]$_->[1]"));
        }' "$tiny/t10k-images-idx3-ubyte" "$1"
}

# Prepares a folder to run commands in: the program, the scripts, and small data instead of the pages' large data.
docs_folder() { # FOLDER
    local real
    real=$(command -v mpirun)
    mkdir -p "$1/bin" "$1/shared" "$1/data" "$1/runs"
    ln -s "$root/scripts" "$root/results" "$root/docs" "$1"
    ln -s "$root"/data/*.sh "$1/data"
    ln -s "$dptrain" "$1/dptrain"
    ln -s "$dptrain" "$1/bin/dptrain"
    ln -s "$tiny" "$1/shared/mnist"
    ln -s "${docs_coco:-$tiny}" "$1/data/coco"
    docs_digit "$1/digit.png"
    printf '#!/bin/sh\n' >"$1/bin/make"
    mpi_flags 2
    # Add this machine's flags unless the caller binds ranks.
    # shellcheck disable=SC2016 # for the wrapper
    printf '#!/usr/bin/env bash\n[[ " $* " != *" --bind-to "* ]] || exec %q "$@"\nexec %q %s "$@"\n' \
        "$real" "$real" "${MPI_FLAGS[*]@Q}" >"$1/bin/mpirun"
    chmod +x "$1"/bin/m*
}

# Makes the folder that of a newcomer, who has downloaded MNIST: no shared folder, no program on the path.
docs_new_machine() { # FOLDER DATA
    rm -r "$1/shared" "$1/bin/dptrain" "$1/digit.png"
    ln -s "$2" "$1/data/mnist"
}

# Replaces commands of the pages: install and build nothing, do not run the test suite, and train on few and small images.
docs_substitute() { # FOLDER
    sed -E -e 's#(/shared|/opt)/dptrain/#./#g; s#=/shared/dptrain( |$)#=.\1#; s#^cd /.*#:#; s#^git clone .*#:#' \
        -e "s#(^|[ =:])/(shared|data|scratch)(/|$)#\\1$1/\\2\\3#g" -e 's#^scripts/quickstart.sh#& --skip-install --out runs/quickstart#' \
        -e 's#^scripts/install_deps.sh#& --list#' -e 's#^scripts/test.sh#& --help#' \
        -e 's#^(dptrain data synth shapes .*--train) 200#\1 40#' -e 's#^(dptrain train .*--input-size 72 .*)--epochs 8#\1--epochs 1#' \
        -e 's#^dptrain train .*--input-size 72#& --algorithms fixed#' \
        -e 's#^(dptrain data synth objects --out [a-z]+)#\1 --train 5#' \
        -e 's#^(dptrain train .*--min-size 128 .*)--epochs 40 --eval-every 10#\1--epochs 3 --eval-every 1#; s#^( +)--epochs 50 --eval-every 10#\1--epochs 1#'
}

# Reduces lines to their words: numbers, hashes, paths, instruction sets and widths of columns differ between machines, and with
# their speed the units of times, the number of threads, and whether the median step is named.
docs_form() {
    sed -E -e 's#[^ (]*/([^ /]*)#\1#g' -e 's/\b[0-9a-f]{16}\b/N/g' -e 's/[-+]?[0-9][0-9,.]*(e-?[0-9]+)?|\binf\b/N/g' -e 's/ +/ /g' -e 's/ $//' \
        -e 's/^( machine = ).*(; cpu)/\1CPU\2/' -e 's/\b(avx|amx|sse)[a-zN0-9_]*/ISA/' -e 's/\b(host|mpi) allreduce/ALLREDUCE/' \
        -e 's/(most expensive layer|hint): .*/LAST/' -e 's/ \(median step: N\)//' \
        -e '/^ not on a GPU: /d' -e 's/\bN ms\b/N s/g' -e 's/\bN threads\b/N thread/'
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
        # Downloads are checked like commands that are not run.
        { echo 'set -euo pipefail'; docs_substitute "$2" <"$1" | sed 's#^data/fetch_#DPTRAIN_CHECK_OPTIONS=1 &#'; } >"$1.sh"
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

# Writes the texts of the program and its scripts, without their figures, for docs_words.
docs_texts() { # FILE
    # Neighbouring strings of C are one.
    { find "$root/src" -name '*.[ch]' -exec cat {} + | perl -0pe 's/\\n"/"/g; s/"\s*\n\s*"//g; s/" *PRI\w+ *"//g' | grep -o '"[^"]*"'
        find "$root/scripts" -name '*.sh' -exec grep -hvE '^ *#' {} + ; } |
        sed -E 's/([a-z])%s/\1s/g; s/%[-+ 0-9.*]*(l|ll|z)?[a-z]/ 0 /g; s/\\n/ 0 /g; s/[^A-Za-z0-9]*\$[({]?[A-Za-z_][^ "]*/ 0 /g' | tr -s ' \t' ' ' >"$1"
}

# Prints PLACE, SPAN and LINE, with tabs between, of the commands and options in `backticks` outside the blocks.
docs_spans() { # PAGES...
    perl -ne '
        if (/^ *```/) { $code = !$code } elsif (!$code) {
            for my $span (/`([^`]+)`/g) {
                my $plain = $span =~ s/\\\|/|/gr;
                print "$ARGV:$.\t$plain\t$_" if $plain =~ /^(dptrain |scripts\/\S+\.sh |data\/\S+\.sh|mpirun .*dptrain|-[a-zA-Z]( |$)|--[a-z][a-z0-9-]*[ =])/;
            }
        }
        close ARGV if eof' "$@"
}

# Whether a span is accepted: a command with words for all of its values by the program; another command by its options; a choice,
# as in `--schedule step|cosine`, by one of the commands that have the option; a short option by some help.
docs_span() { # FOLDER SPAN PAGE
    local option value word
    case $2 in
    'dptrain COMMAND '* | 'dptrain <'*) ;;
    --*)
        option=${2%%[ =]*}
        for value in $(tr '|' ' ' <<<"${2#*[ =]}"); do
            [[ $value =~ ^[a-z0-9_][a-z0-9_.,%-]*$ ]] || continue
            docs_option "$1" "$option" "$value" "$3" || { echo "no command takes $option $value"; return 1; }
        done ;;
    -?*)
        [[ " -hostfile -np -machinefile " != *" ${2%% *} "* ]] || return 0
        for word in scripts/run.sh scripts/nccl_bw.sh train; do ! docs_knows "$word" "${2%% *}" || return 0; done
        echo "no help has ${2%% *}"
        return 1 ;;
    *)
        docs_check_line "$2" || return
        # Placeholders are in capitals, and options may stand without their values.
        [[ $2 =~ …|\<|\||[A-Z]{2}|\ [A-Z](\ |$) || ! $2 =~ \ -[^\ ]+\ [^-] ]] || docs_accept "$1" <<<"$2" ;;
    esac
}

# Commands that accept an option if any does, as NAME|WORDS; those of detectors are described on a page of their own.
docs_commands_with_options='train|
train|--checkpoint-every auto
train|--mtbf 6h
train|--batch-per-rank 8
train|--out x
train|--weights x.npz
train|--model resnet18
eval|x
eval|x.npz --model lenet5
eval|x.npz --model maskrcnn_resnet50_fpn --data x
predict|x y.png
predict|x.npz y.png --model maskrcnn_resnet50_fpn
replay|x
checkpoint|show x
bench|all
report|x
report compare|x y
report history|x
report html|x
data synth|digits --out x
data pack|--from x --out y
data pack|--from x --out y --resize 8
data verify|x
data show|x --out y.png
check|
hosts|show a:1,b:1
info|--model lenet5
info|--model maskrcnn_resnet50_fpn'
docs_commands_of_detectors='train|--model maskrcnn_resnet50_fpn
train|--model maskrcnn_resnet50_fpn --weights x.npz'

# Whether a command of the program accepts an option's value, or the option is a script's alone.
docs_option() { # FOLDER OPTION VALUE PAGE
    local name words known=no all=$docs_commands_with_options
    [[ -z ${docs_taken[$2 $3]-} ]] || return 0
    [[ $4 != docs/detection.md ]] || all+=$'\n'$docs_commands_of_detectors
    while IFS='|' read -r name words; do
        docs_knows "$name" "$2" || continue
        known=yes
        # shellcheck disable=SC2086 # words
        ! DPTRAIN_CHECK_OPTIONS=1 "$dptrain" $name $words "$2" "$3" >"$1/accept.said" 2>&1 || { [[ $4 == docs/detection.md ]] || docs_taken[$2 $3]=yes; return 0; }
    done <<<"$all"
    [[ $known == no ]]
}

# Whether the program or a script prints what a transcript shows that cannot be run here: of each line at least half of the
# neighbouring words, which have two letters or more and one space between. Figures and names of files and hosts do not count.
docs_words() { # BLOCK TEXTS
    perl -e '
        open my $texts, "<", $ARGV[1] or die;
        my %printed;
        while (<$texts>) { $printed{$1} = 1 while /(?<!\w)(?=([a-z]{2,} [a-z]{2,})(?!\w))/g }
        open my $block, "<", $ARGV[0] or die;
        my $bad = 0;
        while (<$block>) {
            next if /^\$ / || /^ *[-\w]+ = /;
            my ($n, @new) = 0;
            while (/(?<![^ (])(?=([a-z]{2,} [a-z]{2,})(?![\w\/.=-]))/g) { $n++; push @new, $1 if !$printed{$1}; }
            next if 2 * @new <= $n;
            print "no text of the program has: ", join(" | ", @new), "\n"; $bad = 1;
        }
        exit $bad' "$1" "$2"
}

# Runs a function of this file without bats, whose trap on every command makes loops slow.
docs_plain() { # FUNCTION ARGUMENTS...
    root=$root dptrain=$dptrain docs_helps=$docs_helps tiny=$tiny bash -c '. "$root/tests/cli/docs.bash"; "$@"' _ "$@"
}

# Checks all commands of the pages' blocks, and the words of transcripts, in WORK/folder with WORK/texts.
docs_check_pages() { # WORK PAGES...
    local page blocks block place line n=0 accepted=0 words=0 failed=0
    for page in "${@:2}"; do
        blocks=$1/$page
        mkdir -p "$blocks"
        docs_split "$page" "$blocks" || failed=1
        for block in "$blocks"/*.*; do
            [[ -e $block && $block != *.none ]] || continue
            place=${block%.*} place=$page:$((10#${place##*/}))
            if [[ $block != *.@(run|consolerun|consolelike) ]]; then
                docs_commands "$block" | docs_accept "$1/folder" || { echo "$place: refused"; failed=1; }
                accepted=$((accepted + $(docs_commands "$block" | wc -l)))
            fi
            if [[ $block == *.console ]]; then
                words=$((words + 1))
                docs_words "$block" "$1/texts" || { echo "$place: prints other words"; failed=1; }
            fi
            while IFS= read -r line; do
                n=$((n + 1))
                docs_check_line "$line" || { echo "$place: $line"; failed=1; }
            done < <(docs_commands "$block")
        done
    done
    echo "$n commands, of which $accepted are checked and the others run; $words transcripts compared by words"
    ((failed == 0 && n >= 60))
}

# Checks the options, values and commands in the text of the pages, in WORK/folder; WORK/all has all helps.
docs_check_text() { # WORK PAGES...
    local option place span line all failed=0 n=0
    local -A seen=()
    all=$(<"$1/all")
    # shellcheck disable=SC2016 # backticks of Markdown
    while read -r option; do
        docs_has_option "$option" "$all" || { echo "no help has $option"; failed=1; }
    done < <(awk '/^ *```/ { code = !code } !code' "${@:2}" | grep -oE '`[^`]+`' |
        grep -vE '^`(pip|globox|labelme2coco|datum) ' | grep -oE -- '(^|[ `(])--[a-z][a-z0-9-]*' | tr -d ' `(' | sort -u)
    # With their places and lines. What is not accepted is said to be refused.
    while IFS=$'\t' read -r place span line; do
        n=$((n + 1))
        [[ -z ${seen[$span ${place%%:*}]-} ]] || continue
        seen[$span ${place%%:*}]=yes
        docs_span "$1/folder" "$span" "${place%%:*}" || [[ $line == *refused* ]] || { echo "$place: $span"; failed=1; }
    done < <(docs_spans "${@:2}")
    echo "$n commands, values and short options in the text"
    ((failed == 0))
}

# Whether an example needs other hosts, a GPU, another build, or more than seconds.
docs_needs_more() { # LINE
    [[ -n ${DPTRAIN_TEST_SLOW:-} || $1 != *"-np 8 "* ]] || return 0
    [[ $1 != "dptrain hosts "* && $1 =~ -hostfile|-H\ |ssh-setup|health|forecast|stage_data|kubectl|simulate|regress|nccl|resnet|runs/coco|bench\ (comm|all) ]]
}

# Runs the examples of helps in the folder, those of one help in order, or checks them as docs_accept does.
docs_check_examples() { # FOLDER COMMANDS...
    local folder=$1 command line failed=0 n_run=0 n_accepted=0
    for command in "${@:2}"; do
        docs_examples "$command" >"$folder/examples"
        [[ $command == scripts/* || $(wc -l <"$folder/examples") -eq 3 ]] || { echo "$command: not three examples"; failed=1; }
        case $command in
        train | run) rm -rf "$folder/runs/first" ;;
        replay)
            rm -rf "$folder/runs/first"
            "$dptrain" train --data "$tiny" --reproducible 2 --steps 4 --checkpoint-every 2 --out "$folder/runs/first" >/dev/null
            cp -r "$folder/runs/first" "$folder/runs/second" ;;
        esac
        while IFS= read -r line; do
            docs_check_line "$line" || { echo "$command: $line"; failed=1; }
            if docs_needs_more "$line"; then
                n_accepted=$((n_accepted + 1))
                docs_accept "$folder" <<<"$line" || { echo "$command: $line"; failed=1; }
                continue
            fi
            n_run=$((n_run + 1))
            # Equal recordings decide nothing (6), and a machine that runs tests is busy.
            sed -E 's/--step 300/--step 1/; s/category person/category cat/; s/--out digits$/& --train 300 --val 50/
                s/^dptrain check$/& --allow-busy/
                s/^dptrain report compare .*/& || (($? == 6))/' <<<"$line" >"$folder/$n_run.run"
            docs_run "$folder/$n_run.run" "$folder" || { echo "$command: $line"; failed=1; }
            # A name of built-in data is not the folder's.
            [[ $line != *--data*digits* ]] || grep -q '300 training, 50 validation' "$folder/$n_run.run.said" ||
                { echo "$command: trains on other data: $line"; failed=1; }
        done <"$folder/examples"
    done
    echo "$n_run examples run, $n_accepted are checked"
    ((failed == 0 && n_run >= 40))
}
