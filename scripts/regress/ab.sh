# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Measures two revisions alternately, A B B A A B B A …. Sourced by regress.sh.

# Prints a revision in a form suitable for file names.
ab_name() { # REVISION
    if [[ $1 == . ]]; then echo WORK; else tr -c 'A-Za-z0-9_.\n-' _ <<<"$1"; fi
}

compare_revisions() { # REV_A REV_B
    local side
    local -A programs files revisions=([a]=$1 [b]=$2)
    suite_read "${suite:-standard}"
    ((starts > 0)) || starts=8
    regress_lock
    mpi_allow_root
    for side in a b; do
        revision_program "${revisions[$side]}"
        programs[$side]=$built
    done
    # Make sure that the results can be compared before measuring.
    regress_program
    ab_choose_turns
    warn_of_load "$((np > 0 ? np : $(allowed_cores)))"
    folder=$results/runs/ab-$(date +%Y%m%d-%H%M%S)-$(ab_name "$1")-vs-$(ab_name "$2")
    mkdir "$folder" || die 4 "cannot create the folder $folder"
    unfinished=$folder/turns
    files[a]=$folder/a.partial.jsonl files[b]=$folder/b.partial.jsonl
    ab_measure
    for side in a b; do mv "${files[$side]}" "$folder/$side.jsonl" || die 4 "cannot rename ${files[$side]}"; done
    echo "recordings $folder"
    for side in a b; do
        rec_read "$folder/$side.jsonl"
        rec_want_complete "$folder/$side.jsonl"
        ab_words "$side"
        echo "  $side  ${revisions[$side]}: $(rec_describe)${words_of_side[*]:+, with ${words_of_side[*]}}"
    done
    compare_must_decide "$suite_name"
    compare_files "$folder/a.jsonl" "$folder/b.jsonl"
}

# Alternating by batches needs two concurrent jobs, which cannot share a range of ports.
ab_choose_turns() {
    if [[ $turns == no ]]; then
        return 0
    elif [[ $ports == yes ]]; then
        turns=no
        note "--ports: concurrent jobs cannot share ports; running one start after the other"
    elif bench_knows --turns "${programs[@]}"; then
        turns=yes
    else
        turns=no
        note "a revision lacks bench --turns; running one start after the other"
    fi
}

# Sets words_of_side, the options for one side.
ab_words() { # SIDE
    if [[ $1 == a ]]; then words_of_side=("${a_args[@]}"); else words_of_side=("${b_args[@]}"); fi
}

ab_measure() {
    local i order side clock=no
    if [[ $turns == no ]] && bench_knows --clock "${programs[@]}"; then clock=yes; fi
    SECONDS=0
    for ((i = 0; i < starts; i++)); do
        progress_show "$i" "$starts" "$suite_name, both sides"
        order=(a b)
        if ((i % 2 == 1)); then order=(b a); fi
        if [[ $turns == yes ]]; then
            ab_start_in_turn "$i" "${order[@]}"
        else
            for side in "${order[@]}"; do
                ab_words "$side"
                bench_start "${programs[$side]}" "${files[$side]}" "${words_of_side[@]}"
                ab_judge "$code" "$side" "$i" "$work/log"
            done
            if [[ $clock == yes ]]; then bench_clock "${files[@]}"; fi
        fi
        if ((i == 0)); then warnings_of "$work/log"; fi
    done
    progress_end
    rm -rf "$folder/turns"
}

# As bench_judge, but removes an empty folder.
ab_judge() { # CODE SIDE START LOG
    if [[ $1 -ne 0 || -n $stopped ]]; then
        rm -rf "$folder/turns"
        rmdir "$folder" 2>/dev/null || true
    fi
    bench_judge "$1" "start $(($3 + 1)) of $starts of $2" "$4" "${files[$2]}" \
        "${files[$([[ $2 == a ]] && echo b || echo a)]}"
}

# Runs a start of both sides concurrently, call by call.
ab_start_in_turn() { # START FIRST SECOND
    local call n=0 idle side
    local -A pids
    : >"$work/log.err"
    for call in "${suite_calls[@]}"; do
        meet=$folder/turns/$1-$((n++))
        mkdir -p "$meet"
        meet=$(readlink -f "$meet")
        ab_call "$2" "$call" first
        ab_call "$3" "$call" second
        ab_wait
        for side in "$2" "$3"; do cat "$work/log.$side.err" >>"$work/log.err"; done
        ab_judge "$failed_code" "${failed_side:-$2}" "$1" "$work/log.${failed_side:-$2}"
    done
}

ab_call() { # SIDE CALL first|second
    ab_words "$1"
    bench_words "$2" "${words_of_side[@]}" "--turns=$meet:$3"
    bench_call "${programs[$1]}" "${files[$1]}" "$work/log.$1" "${call_words[@]}" &
    pids[$1]=$!
}

# Waits until both have ended. If one fails, ends the other; if one finishes, the other gets the same time again plus a
# minute. Sets failed_code and failed_side, the first that failed.
ab_wait() {
    local began=$SECONDS deadline=0 side code
    failed_code=0 failed_side=''
    [[ -p $work/idle ]] || mkfifo "$work/idle"
    exec {idle}<>"$work/idle"
    while ((${#pids[@]} > 0)); do
        for side in "${!pids[@]}"; do
            ! kill -0 "${pids[$side]}" 2>/dev/null || continue
            code=0
            wait "${pids[$side]}" || code=$?
            unset "pids[$side]"
            ab_failed "$code" "$side"
            deadline=$((2 * SECONDS - began + 60))
        done
        if ((deadline > 0 && SECONDS > deadline && ${#pids[@]} > 0)); then
            note "side ${!pids[*]} did not end with the other; stopping it"
            ab_failed 5 "${!pids[*]}"
            end_children
            deadline=$((SECONDS + 60))
        fi
        # Sleep without a process that would disturb the measurement: nothing writes to this pipe.
        read -r -t 0.2 -u "$idle" || true
    done
    exec {idle}>&-
}

# Ends both sides after the first failure; after a signal they are already ending.
ab_failed() { # CODE SIDE
    [[ $1 -ne 0 && -z $failed_side ]] || return 0
    failed_code=$1 failed_side=$2
    [[ -n $stopped ]] || end_children
}
