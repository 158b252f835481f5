# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Baselines: accepting a recording, finding the matching baseline, comparing. Sourced by regress.sh.

# A baseline is a recording, NAME.jsonl, or several, the files of a folder NAME.

# Prints the path of the baseline for the recording just read, without .jsonl.
baseline_path() { # SUITE
    echo "$results/baselines/$1-${rec_ranks}x$rec_threads-$rec_hardware-$rec_fabric"
}

# Sets baseline, a file or a folder, for the recording just read; '' if there is none.
baseline_find() { # SUITE
    local path
    path=$(baseline_path "$1")
    baseline=$path.jsonl
    [[ -f $baseline ]] || baseline=$path
    [[ -e $baseline ]] || baseline=''
}

# Prints the recordings of a baseline, oldest first.
baseline_files() { # BASELINE
    if [[ -d $1 ]]; then rec_files "$1"; else printf '%s\n' "$1"; fi
}

# Reads the first recording of a baseline.
baseline_read() { # BASELINE
    local file
    read -r file < <(baseline_files "$1") || die 3 "the folder $1 has no recording; remove it"
    rec_read "$file"
}

# Whether a recording of the baseline has the runs of the recording just read.
baseline_has() { # BASELINE IDS
    local file
    while IFS= read -r file; do
        rec_read "$file"
        [[ $rec_ids != "$2" ]] || return 0
    done < <(baseline_files "$1")
    return 1
}

# Prints the suite of a recording, from its name or --suite.
baseline_suite() { # FILE
    local said
    [[ -f $1 ]] || die 3 "no such recording: $1"
    said=$(rec_suite "$1")
    [[ -z $suite_name || -z $said || $suite_name == "$said" ]] ||
        die 2 "${1##*/} belongs to suite $said, not $suite_name"
    said=${said:-$suite_name}
    [[ -n $said ]] || die 2 "the name ${1##*/} does not contain its suite; pass --suite NAME"
    echo "$said"
}

# Dies if too many points of a recording were disturbed, unless forced: later comparisons could only be inconclusive, or wrong.
baseline_want_undisturbed() { # FILE
    local counts
    counts=$(rec_disturbed "$1")
    rec_is_disturbed "$counts" || return 0
    [[ $force == yes ]] ||
        die 3 "$1: $counts points were disturbed by other load, more than a third; run again on a quieter machine, or --force"
    note "accepting ${1##*/} although $counts points were disturbed (--force)"
}

accept_recording() { # [RECORDING]
    local file=${1:-} its_suite path ids
    if [[ -z $file ]]; then
        rec_newest "$suite_name"
        [[ -n $newest ]] ||
            die 3 "no complete recording${suite_name:+ of $suite_name} in $results/runs; run regress.sh run"
        file=$newest
    fi
    its_suite=$(baseline_suite "$file")
    mkdir -p "$results/baselines" || die 4 "cannot create the folder $results/baselines"
    rec_read "$file"
    rec_want_complete "$file"
    baseline_want_undisturbed "$file"
    path=$(baseline_path "$its_suite") ids=$rec_ids
    baseline_find "$its_suite"
    [[ ! $file -ef $baseline && ! ${file%/*} -ef $baseline ]] || die 2 "$file is the baseline, or belongs to it"
    if [[ $add == yes && -n $baseline ]]; then
        ! baseline_has "$baseline" "$ids" || die 2 "$file is already in the baseline $baseline"
        baseline_add "$file"
    else
        baseline_replace "$file"
    fi
}

# Replaces the baseline by a recording, atomically.
baseline_replace() { # RECORDING
    local was='it is the first of its kind' n
    if [[ -n $baseline ]]; then
        baseline_read "$baseline"
        n=$(baseline_files "$baseline" | wc -l)
        was="it replaces $(rec_describe)$( ((n == 1)) || echo ", and $((n - 1)) more")"
        rec_read "$1"
    fi
    baseline_copy "$1" "$path.jsonl"
    [[ ! -d $path ]] || rm -r -- "$path" || die 4 "cannot remove $path"
    echo "baseline $path.jsonl"
    echo "  is now $(rec_describe), from ${1##*/}"
    echo "  $was"
}

# Adds a recording to the baseline, which becomes a folder.
baseline_add() { # RECORDING
    local n to
    # Replacing the baseline was stopped before its folder was gone.
    [[ ! -f $baseline || ! -d $path ]] || rm -r -- "$path" || die 4 "cannot remove $path"
    mkdir -p "$path" || die 4 "cannot create the folder $path"
    if [[ -f $baseline ]]; then
        rec_read "$baseline"
        mv -- "$baseline" "$path/$(rec_name "$its_suite").jsonl" || die 4 "cannot move $baseline into $path"
    fi
    rec_read "$1"
    to=$path/$(rec_name "$its_suite")
    while [[ -e $to.jsonl ]]; do to+=_; done
    baseline_copy "$1" "$to.jsonl"
    n=$(rec_files "$path" | wc -l)
    echo "baseline $path"
    echo "  now also has $(rec_describe), from ${1##*/}: $(count "$n" recording)"
    ((n >= 3)) || note "add recordings of other days: the variation between recordings is measured from 3 on"
}

# Prints a name like those of results/runs for the recording just read.
rec_name() { # SUITE
    local time=${rec_time//[-:Z]/}
    tr -c 'A-Za-z0-9_.\n-' _ <<<"${time/T/-}-${rec_git:-unknown}-$1"
}

baseline_copy() { # FILE TO
    unfinished=$2.new
    if ! cp -- "$1" "$unfinished" || ! mv -- "$unfinished" "$2"; then die 4 "cannot write $2"; fi
    unfinished=''
}

rec_describe() {
    echo "revision $rec_git of $rec_time, $(count "$rec_starts" start)"
}

# Prints the differences between the baselines and the recording just read; sets nearest, the most similar one of the suite.
baseline_list() { # RECORDING SUITE
    local file there n least=99 differs ranks=$rec_ranks threads=$rec_threads hardware=$rec_hardware fabric=$rec_fabric
    nearest=''
    [[ -n $(baseline_all) ]] || note '  none'
    while IFS= read -r file; do
        if [[ $(rec_suite "$file") != "$2" ]]; then
            note "  ${file##*/}: suite $(rec_suite "$file")"
            continue
        fi
        baseline_read "$file"
        read -r there < <(baseline_files "$file")
        differs='' n=0
        if [[ $rec_ranks != "$ranks" ]]; then
            differs+="; ranks: $rec_ranks there, $ranks here" n=$((n + 1))
        fi
        if [[ $rec_threads != "$threads" ]]; then
            differs+="; threads: $rec_threads there, $threads here" n=$((n + 1))
        fi
        if [[ $rec_hardware != "$hardware" ]]; then
            differs+="; $(fields_that_differ hardware fabric "$there" "$1")" n=$((n + 2))
        fi
        if [[ $rec_fabric != "$fabric" ]]; then
            differs+="; $(fields_that_differ fabric software "$there" "$1")" n=$((n + 2))
        fi
        note "  ${file##*/}: ${differs#; }"
        if ((n < least)); then least=$n nearest=$file; fi
    done < <(baseline_all)
}

# Prints all baselines.
baseline_all() {
    local path
    rec_files "$results/baselines"
    for path in "$results"/baselines/*/; do
        path=${path%/}
        [[ ! -d $path || -z $(rec_suite "$path") || -f $path.jsonl ]] || printf '%s\n' "$path"
    done
}

# Prints the fields that differ in a part of the fingerprint, which extends to the NEXT part.
fields_that_differ() { # PART NEXT THERE HERE
    local there here
    there=$(rec_fields "$1" "$2" "$3") here=$(rec_fields "$1" "$2" "$4")
    echo "$1: $(comm -23 <(echo "$there") <(echo "$here") | paste -sd ,) there, $(
        comm -13 <(echo "$there") <(echo "$here") | paste -sd ,) here" | tr -d '"'
}

rec_fields() { # PART NEXT FILE
    sed -nE "/^\{\"record\":\"bench_run\",/ { s/.*[{,]\"$1\":\{(.*)\},\"$2\":\{.*/\1/p; q }" -- "$3" |
        grep -oE '"[^"]*":("[^"]*"|[^][{},]+)' | LC_ALL=C sort
}

# Sets newest to the newest complete recording of the suite other than the baseline, measuring one if there is none.
compare_newest() {
    local ids=''
    rec_newest "$suite_name"
    if [[ -n $newest ]]; then
        suite=${suite:-$(rec_suite "$newest")}
        baseline_find "$(rec_suite "$newest")"
        if [[ -n $baseline ]]; then
            ids=$rec_ids
            if ! baseline_has "$baseline" "$ids"; then
                compare_as_it_is
                return 0
            fi
            note "the newest recording, ${newest##*/}, is the baseline itself; measuring another"
        else
            compare_as_it_is
            return 0
        fi
        # Measure with the same starts and ranks.
        baseline_read "$baseline"
        ((starts > 0)) || starts=$rec_starts
        if [[ ${#launch[@]} -eq 0 && $np -eq 0 ]]; then
            ((rec_hosts <= 1)) || [[ -n ${SLURM_JOB_NODELIST:-} ]] ||
                die 2 "the baseline was measured on $rec_hosts hosts; pass -hostfile FILE, or the recording to compare"
            [[ -n ${SLURM_JOB_NODELIST:-} ]] || np=$rec_ranks
        fi
    else
        compgen -G "$results/baselines/${suite_name:-standard}-*" >/dev/null ||
            die 3 "no recording and no baseline of ${suite_name:-standard} in $results: run, then accept"
        note "no complete recording${suite_name:+ of $suite_name} in $results/runs; measuring one"
    fi
    run_suite
    newest=$recording
    rec_read "$newest"
}

# Uses an existing recording; prints a note if the program has changed since.
compare_as_it_is() {
    local git
    rec_read "$newest"
    git=$(rec_program_git "$(find_program)")
    [[ $git == "$rec_git" ]] ||
        note "the newest recording is of revision $rec_git, but the program is $git; regress.sh run measures it"
}

compare_recording() { # [RECORDING]
    local program file=${1:-} its_suite
    if [[ -n $file ]]; then
        its_suite=$(baseline_suite "$file")
        rec_read "$file"
        rec_want_complete "$file"
    else
        compare_newest
        file=$newest its_suite=$(rec_suite "$newest")
    fi
    baseline_find "$its_suite"
    if [[ -z $baseline ]]; then
        note "no baseline of $its_suite matches ${file##*/}; existing baselines:"
        baseline_list "$file" "$its_suite"
        [[ -n $nearest ]] ||
            die 3 "no baseline of $its_suite in $results/baselines; accept makes this recording one"
        [[ $force == yes ]] ||
            die 3 "no baseline of this type of machine: accept makes this recording one, --force uses ${nearest##*/}"
        baseline=$nearest
        report_options=(--force "${report_options[@]}")
    fi
    # Earlier recordings tell how recordings vary.
    if [[ " ${report_options[*]}" != *" --history"[\ =]* && -n $(rec_files "$results/runs") ]]; then
        report_options=(--history "$results/runs" "${report_options[@]}")
    fi
    compare_must_decide "$its_suite"
    compare_files "$baseline" "$file"
}

# The metrics that the suite's file wants decided, where the file is known.
compare_must_decide() { # SUITE
    [[ " ${report_options[*]}" != *" --must-decide"[\ =]* ]] || return 0
    suite_must_decide=''
    if [[ -z ${suite_file:-} ]]; then suite_find "${suite:-$1}"; fi
    if [[ -n $suite_file ]]; then suite_parse; fi
    [[ -z $suite_must_decide ]] || report_options=(--must-decide "$suite_must_decide" "${report_options[@]}")
}

# Compares with this tree's program, and exits with its code.
compare_files() { # BASE NEW
    local program
    program=$(find_program) || exit
    note "comparing $1 with $2"
    exit_code=0
    "$program" report compare "$1" "$2" "${report_options[@]}" || exit_code=$?
    exit "$exit_code"
}
