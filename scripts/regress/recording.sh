# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Reads, finds and lists recordings. Sourced by regress.sh.
#
# A recording is a file of records of `dptrain bench`, with a run (bench_run … bench_end) for each call. Its name is
# DATE-TIME-REVISION-SUITE.jsonl, or *.partial.jsonl until all starts have finished; a baseline's name is
# SUITE-RANKSxTHREADS-HARDWARE-FABRIC.jsonl, or without .jsonl a folder, with ids of the fingerprint.

# Sets rec_state: complete, partial (from its name), empty, truncated, failed, mixed. From the bench_run records sets rec_ids
# (all), rec_n_runs, rec_starts, and from the first rec_time, rec_git, rec_ranks, rec_threads, rec_hardware, rec_fabric,
# rec_hosts.
rec_read() { # FILE
    local heads ends n_ends n_finished n_prints n_calls head
    [[ -f $1 && -r $1 ]] || die 3 "no such recording: $1"
    heads=$(grep '^{"record":"bench_run",' -- "$1") || true
    ends=$(grep '^{"record":"bench_end",.*}$' -- "$1") || true
    rec_n_runs=$(grep -c . <<<"$heads") || true
    n_ends=$(grep -c . <<<"$ends") || true
    n_finished=$(grep -cE '"(why|reason)":"finished"' <<<"$ends") || true
    # A call has the same options in every start, except --turns and --clock.
    n_calls=$(sed 's/.*"options"://; s/,"fingerprint":.*//; s/"turns":"[^"]*"//; s/"clock":[^,}]*//' <<<"$heads" |
        sort -u | wc -l)
    n_prints=$(sed -E 's/.*("ranks":[0-9]+,"threads":[0-9]+),.*"fingerprint"/\1/; /^$/d' <<<"$heads" | sort -u | wc -l)
    rec_starts=$(((rec_n_runs + n_calls - 1) / n_calls))
    rec_ids=$(rec_text id <<<"$heads" | paste -sd ' ')
    head=${heads%%$'\n'*}
    rec_time=$(rec_text time <<<"$head") rec_git=$(rec_text git <<<"$head")
    rec_ranks=$(rec_number ranks <<<"$head") rec_threads=$(rec_number threads <<<"$head")
    rec_hardware=$(rec_text hardware_id <<<"$head") rec_fabric=$(rec_text fabric_id <<<"$head")
    rec_hosts=$(rec_number hosts <<<"$head")
    number_or '' rec_ranks rec_threads rec_hosts
    # They become part of a baseline's name.
    is_id "$rec_hardware" || rec_hardware=''
    is_id "$rec_fabric" || rec_fabric=''
    if [[ $1 == *.partial.jsonl ]]; then
        rec_state=partial
    elif ((rec_n_runs == 0)); then
        rec_state=empty
    elif ((n_ends != rec_n_runs)) || [[ -z $rec_hardware || -z $rec_fabric ]]; then
        rec_state=truncated
    elif ((n_finished != rec_n_runs)); then
        rec_state=failed
    elif ((n_prints != 1)); then
        rec_state=mixed
    else
        rec_state=complete
    fi
}

# Print the value of a key on each line: the first with that name. The program writes records without spaces.
rec_text() { rec_value "$1" '"[^"]*"' | tr -d '"'; } # KEY
rec_number() { rec_value "$1" '[0-9]+'; }              # KEY
rec_value() { # KEY PATTERN
    awk -v key="\"$1\":" -v value="$2" 'match($0, key value) {
        print substr($0, RSTART + length(key), RLENGTH - length(key))
    }'
}

# Dies unless the recording just read is complete.
rec_want_complete() { # FILE
    case $rec_state in
    complete) return 0 ;;
    partial) die 3 "$1 is partial: it was stopped or failed before all starts had finished; run regress.sh run again" ;;
    empty) die 3 "$1 has no run of dptrain bench" ;;
    truncated) die 3 "$1 is truncated: a run has no end; run regress.sh run again" ;;
    failed) die 3 "$1 has runs that did not finish: wrong data was found, or they were stopped; see dptrain report" ;;
    mixed) die 3 "$1 has runs of several programs, machines or numbers of ranks; run regress.sh run again" ;;
    esac
}

# Prints "N of M": the points of a recording that other load disturbed, and all of them.
rec_disturbed() { # FILE
    awk '/^\{"record":"bench",/ { n++; if (/"verdict":"disturbed"/) bad++ } END { printf "%d of %d\n", bad, n }' "$1"
}

# Whether more than a third of the points are disturbed.
rec_is_disturbed() { # COUNTS
    ((3 * ${1% of *} > ${1#* of }))
}

# Prints the suite in the name of a recording or baseline, or nothing.
rec_suite() { # FILE
    local name=${1##*/}
    name=${name%.jsonl} name=${name%.partial}
    if [[ $name =~ ^[0-9]{8}-[0-9]{6}-.+-([A-Za-z0-9_.]+)$ ]]; then
        echo "${BASH_REMATCH[1]}"
    elif [[ $name =~ ^([A-Za-z0-9_.]+)-[0-9]+x[0-9]+-[0-9a-f]+-[0-9a-f]+$ ]]; then
        echo "${BASH_REMATCH[1]}"
    fi
}

# Finds and reads the newest complete recording, of the suite if given. Sets newest; '' if there is none.
rec_newest() { # [SUITE]
    local file
    newest=''
    # Names begin with the date.
    while IFS= read -r file; do
        [[ -n $(rec_suite "$file") ]] || continue
        [[ -z ${1:-} || $(rec_suite "$file") == "$1" ]] || continue
        rec_read "$file"
        if [[ $rec_state == complete ]]; then
            newest=$file
            return 0
        fi
        note "${file##*/} is newer, but $rec_state: skipped"
    done < <(rec_files "$results/runs" | sort -r)
}

# Prints the recordings in a folder, oldest first.
rec_files() { # FOLDER
    local file
    for file in "$1"/*.jsonl; do
        [[ ! -f $file ]] || printf '%s\n' "$file"
    done
}

list_some() { # TITLE FILES...
    local file title=$1
    shift
    printf '%s\n' "$title"
    (($# > 0)) || { echo '  none'; return; }
    printf '  %-10s  %-10s  %-20s  %-19s  %6s  %s\n' state suite date revision starts file
    for file; do
        rec_read "$file"
        show '  %-10s  %-10s  %-20s  %-19s  %6s  %s' "$rec_state" "$(rec_suite "$file")" "${rec_time:--}" \
            "${rec_git:--}" "$rec_starts" "${file##*/}"
    done
}

list_all() {
    local files=() folders=() folder
    mapfile -t files < <(rec_files "$results/runs")
    list_some "recordings in $results/runs" "${files[@]}"
    for folder in "$results"/runs/ab-*/; do
        [[ -d $folder ]] || continue
        mapfile -t files < <(rec_files "${folder%/}")
        list_some "${folder%/}" "${files[@]}"
    done
    mapfile -t files < <(rec_files "$results/baselines")
    list_some "baselines in $results/baselines" "${files[@]}"
    while IFS= read -r folder; do
        [[ -d $folder ]] || continue
        mapfile -t files < <(rec_files "$folder")
        list_some "baseline of several recordings, $folder" "${files[@]}"
    done < <(baseline_all)
}

show_history() {
    local program file files=()
    program=$(find_program) || exit
    while IFS= read -r file; do
        [[ -z $suite_name || $(rec_suite "$file") == "$suite_name" ]] || continue
        rec_read "$file"
        if [[ $rec_state == complete ]]; then files+=("$file"); fi
    done < <(rec_files "$results/runs")
    [[ ${#files[@]} -gt 0 ]] ||
        die 3 "no complete recording${suite_name:+ of $suite_name} in $results/runs; run regress.sh run"
    "$program" report history "${files[@]}" "${report_options[@]}"
}

show_html() {
    local program words=() ids its_suite
    program=$(find_program) || exit
    rec_newest "$suite_name"
    [[ -n $newest ]] ||
        die 3 "no complete recording${suite_name:+ of $suite_name} in $results/runs; run regress.sh run"
    its_suite=$(rec_suite "$newest") ids=$rec_ids
    baseline_find "$its_suite"
    if [[ -n $baseline ]] && ! baseline_has "$baseline" "$ids"; then words+=(--base "$baseline"); fi
    if [[ " ${report_options[*]}" != *" --out"[\ =]* ]]; then
        words+=(--out "$results/runs/$its_suite.html")
        note "writing $results/runs/$its_suite.html"
    fi
    "$program" report html "${words[@]}" "$newest" "${report_options[@]}"
}
