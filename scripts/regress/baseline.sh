# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Baselines: making one of a recording, finding the one that fits, comparing. Sourced by regress.sh.

# Where the baseline for the recording just read is.
baseline_path() { # SUITE
    echo "$results/baselines/$1-${rec_ranks}x$rec_threads-$rec_hardware-$rec_fabric.jsonl"
}

# Sets baseline, for the recording just read; '' where there is none.
baseline_find() { # SUITE
    baseline=$(baseline_path "$1")
    [[ -f $baseline ]] || baseline=''
}

# The suite of a recording, by its name or --suite.
baseline_suite() { # FILE
    local said
    [[ -f $1 ]] || die 3 "there is no recording $1"
    said=$(rec_suite "$1")
    [[ -z $suite_name || -z $said || $suite_name == "$said" ]] ||
        die 2 "${1##*/} is of the suite $said, not of $suite_name"
    said=${said:-$suite_name}
    [[ -n $said ]] || die 2 "the name of ${1##*/} does not say its suite; give --suite NAME"
    echo "$said"
}

accept_recording() { # [RECORDING]
    local file=${1:-} its_suite path was='it is the first of its kind'
    if [[ -z $file ]]; then
        rec_newest "$suite_name"
        [[ -n $newest ]] ||
            die 3 "there is no whole recording${suite_name:+ of $suite_name} in $results/runs; regress.sh run makes one"
        file=$newest
    fi
    its_suite=$(baseline_suite "$file")
    mkdir -p "$results/baselines" || die 4 "cannot make the folder $results/baselines"
    rec_read "$file"
    rec_want_whole "$file"
    path=$(baseline_path "$its_suite")
    [[ ! "$file" -ef "$path" ]] || die 2 "$file is the baseline"
    if [[ -f $path ]]; then
        rec_read "$path"
        was="it replaces $(rec_describe)"
        rec_read "$file"
    fi
    # Whole or not at all.
    unfinished=$path.new
    if ! cp -- "$file" "$unfinished" || ! mv -- "$unfinished" "$path"; then die 4 "cannot write $path"; fi
    unfinished=''
    echo "baseline $path"
    echo "  is now $(rec_describe), from ${file##*/}"
    echo "  $was"
}

rec_describe() {
    echo "revision $rec_git of $rec_time, $rec_starts start$( ((rec_starts == 1)) || echo s)"
}

# Says why the baselines do not fit the recording just read; sets nearest, the one of the suite that differs least.
baseline_list() { # RECORDING SUITE
    local file n least=99 differs ranks=$rec_ranks threads=$rec_threads hardware=$rec_hardware fabric=$rec_fabric
    nearest=''
    [[ -n $(rec_files "$results/baselines") ]] || note '  none'
    while IFS= read -r file; do
        if [[ $(rec_suite "$file") != "$2" ]]; then
            note "  ${file##*/}: suite $(rec_suite "$file")"
            continue
        fi
        rec_read "$file"
        differs='' n=0
        if [[ $rec_ranks != "$ranks" ]]; then
            differs+="; ranks: $rec_ranks there, $ranks here" n=$((n + 1))
        fi
        if [[ $rec_threads != "$threads" ]]; then
            differs+="; threads: $rec_threads there, $threads here" n=$((n + 1))
        fi
        if [[ $rec_hardware != "$hardware" ]]; then
            differs+="; $(fields_that_differ hardware fabric "$file" "$1")" n=$((n + 2))
        fi
        if [[ $rec_fabric != "$fabric" ]]; then
            differs+="; $(fields_that_differ fabric software "$file" "$1")" n=$((n + 2))
        fi
        note "  ${file##*/}: ${differs#; }"
        if ((n < least)); then least=$n nearest=$file; fi
    done < <(rec_files "$results/baselines")
}

# Of a part of the fingerprint, which goes up to the NEXT one.
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

# The newest whole recording of the suite that is not the baseline itself, measured where there is none. Sets newest.
compare_newest() {
    local ids=''
    rec_newest "$suite_name"
    if [[ -n $newest ]]; then
        suite=${suite:-$(rec_suite "$newest")}
        baseline_find "$(rec_suite "$newest")"
        if [[ -n $baseline ]]; then
            ids=$rec_ids
            rec_read "$baseline"
            if [[ $ids != "$rec_ids" ]]; then
                compare_as_it_is
                return 0
            fi
            note "the newest recording, ${newest##*/}, is the baseline itself; measuring another"
        else
            compare_as_it_is
            return 0
        fi
        # As it was measured.
        ((starts > 0)) || starts=$rec_starts
        if [[ ${#launch[@]} -eq 0 && $np -eq 0 ]]; then
            ((rec_hosts <= 1)) || [[ -n ${SLURM_JOB_NODELIST:-} ]] ||
                die 2 "the baseline is of $rec_hosts hosts; name them (-hostfile FILE), or the recording to compare"
            [[ -n ${SLURM_JOB_NODELIST:-} ]] || np=$rec_ranks
        fi
    else
        compgen -G "$results/baselines/${suite_name:-standard}-*.jsonl" >/dev/null ||
            die 3 "there is neither a recording nor a baseline of ${suite_name:-standard} in $results: run, then accept"
        note "there is no whole recording${suite_name:+ of $suite_name} in $results/runs; measuring one"
    fi
    run_suite
    newest=$recording
    rec_read "$newest"
}

# The newest recording was measured before; maybe the program is another by now.
compare_as_it_is() {
    local git
    rec_read "$newest"
    git=$(rec_program_git "$(find_program)")
    [[ $git == "$rec_git" ]] ||
        note "the newest recording is of revision $rec_git, the program of $git: run measures that"
}

compare_recording() { # [RECORDING]
    local program file=${1:-} its_suite
    if [[ -n $file ]]; then
        its_suite=$(baseline_suite "$file")
        rec_read "$file"
        rec_want_whole "$file"
    else
        compare_newest
        file=$newest its_suite=$(rec_suite "$newest")
    fi
    baseline_find "$its_suite"
    if [[ -z $baseline ]]; then
        note "no baseline of $its_suite fits ${file##*/}; there are:"
        baseline_list "$file" "$its_suite"
        [[ -n $nearest ]] ||
            die 3 "there is no baseline of $its_suite in $results/baselines; accept makes this recording one"
        [[ $force == yes ]] ||
            die 3 "no baseline of this type of machine: accept makes this recording one, --force takes ${nearest##*/}"
        baseline=$nearest
        report_options=(--force "${report_options[@]}")
    fi
    compare_files "$baseline" "$file"
}

# By this tree's program; its exit code is the script's.
compare_files() { # BASE NEW
    local program
    program=$(find_program) || exit
    note "comparing $1 with $2"
    exit_code=0
    "$program" report compare "$1" "$2" "${report_options[@]}" || exit_code=$?
    exit "$exit_code"
}
