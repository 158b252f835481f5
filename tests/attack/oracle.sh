# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # variables of attack.sh and of the kinds
# Judges what a fault did. Sourced by attack.sh.
#
# A kind sets what it expects before its run ends:
#   codes        exit codes that are right
#   words        extended regular expressions, one per line, that the messages must match: they name the culprit
#                they count only in errors, warnings, and lines of run.sh
#   floor        the least step that has to survive [the newest announced checkpoint]
#   replica      yes: only comparing replicas can show this fault, so wrong bits are the excepted class

# Runs one fault in a folder of its own, and writes its row of results.tsv.
fault_run() { # K "KIND KEY=VALUE..."
    local k=$1 name=${2%% *} word id=$attack_id.$1 bad=() dir=$work/k$1 data='' codes=5 words='' floor='' replica=no
    local job='' job_out='' code='' hang='' took_ms=0 env_of_job=() args=() before_job=() resume=(--resume auto)
    local log_every=10 bits=(--reproducible 12) params=${2#"$name "}
    P=()
    for word in ${2#"$name"}; do P[${word%%=*}]=${word#*=}; done
    args=(--allreduce "${P[allreduce]:-host}")
    mkdir -p "$dir"
    "run_$name"
    fault_row
}

fault_row() {
    local struck=yes named=- verdict
    [[ -s $dir/fault ]] || struck=no
    if [[ -n $words ]]; then
        named=yes
        [[ " ${bad[*]} " != *" unnamed "* ]] || named=no
    fi
    verdict=${bad[*]:-ok}
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$k" "$name" "$struck" "$code" "$took_ms" "${verdict// /,}" "$named" "$params" \
        "$(fault_message)" >>"$work/results.tsv"
    printf '%s: fault %s (%s %s): %s, code %s%s\n' "${0##*/}" "$k" "$name" "$params" \
        "$([[ $struck == yes ]] && echo "$verdict" || echo "not struck")" "$code" "${bad[*]:+; $(fault_message)}" >&2
    if ((one > 0)); then
        cat "$dir/fault" "$dir"/out* >&2 2>/dev/null || true
        cp -r "$dir" "${out:-${TMPDIR:-/tmp}}/attack.k$k.$$" && note "its folder: ${out:-${TMPDIR:-/tmp}}/attack.k$k.$$"
    elif [[ -n $out && ${#bad[@]} -gt 0 && $struck == yes ]]; then
        mkdir -p "$out/k$k" && cp "$dir"/{out*,fault,hung} "$out/k$k/" 2>/dev/null || true
        records_of "$dir/run" >"$out/k$k/metrics.jsonl"
    fi
    rm -rf "$dir"
}

# The job's message, for the table.
fault_message() {
    { grep -ahE 'error:|FAIL' "$dir/out" || [[ $code -eq 0 ]] || tail -n 1 "$dir/out" || true; } 2>/dev/null | grep -av ' Killed  ' | head -n 1 | tr '\t|' ' /' | cut -c 1-240
}

# A pipe in its place would never end.
records_of() { # FOLDER
    if [[ -f $1/metrics.jsonl ]]; then cat "$1/metrics.jsonl"; fi
}

# Prints the step of the newest file that verifies, or -1.
good_step() {
    local step
    step=$({ "$real" checkpoint verify "$1" 2>/dev/null || true; } | sed -nE 's/^ok +.*ckpt-0*([0-9]+)\.h5.*/\1/p' | sort -n | tail -n 1)
    echo "${step:--1}"
}

# Step of the newest checkpoint that the records or the output announce, or -1.
announced_step() {
    {
        records_of "$dir/run" | jq -R 'fromjson? | select(.record == "checkpoint" and .error == null) | .step'
        sed -nE 's/^checkpoint run\/ckpt-0*([0-9]+)\.h5.*/\1/p' "$dir/out" 2>/dev/null
        echo -1
    } | sort -n | tail -n 1
}

losses_of() { records_of "$1" | jq -R 'fromjson? | select(.record == "step") | "\(.step) \(.loss)"' | sort -u; } # FOLDER

# What is wrong with the records of a run that has ended well; nothing if all is right. With an argument, that many
# lines may be torn: those that a crash or a full disk cut off, which must not spoil others.
records_wrong() { # FOLDER [LINES]
    local torn missing extra
    torn=$(records_of "$1" | jq -R 'try (fromjson | empty) catch 1' | wc -l)
    ((torn <= ${2:-0})) || echo torn-records
    losses_of "$1" >"$dir/losses"
    losses_of "$work/whole.2/run" >"$dir/losses.right"
    missing=$(comm -13 <(cut -d ' ' -f 1 "$dir/losses" | sort -u) <(cut -d ' ' -f 1 "$dir/losses.right" | sort -u) | wc -l)
    extra=$(comm -23 "$dir/losses" "$dir/losses.right" | wc -l)
    ((missing == 0)) || echo lost-records
    ((extra == 0)) || echo wrong-bits
}

# The first run has ended: its end, and what it left.
judge_end() {
    local word
    [[ -z $hang ]] || bad+=("hang-$hang")
    [[ " $codes " == *" $code "* || -n $hang ]] || bad+=("code-$code")
    while IFS= read -r word; do
        [[ -z $word ]] || grep -aE 'error|warning|stall|^[a-z_]+\.sh: |^mpirun (noticed|detected)' "$dir"/out | grep -aqE -- "$word" || { bad+=(unnamed); break; }
    done <<<"$words"
    # A silent end.
    if [[ $code -ne 0 && -z $hang ]] && ! grep -aqiE 'error|stopped by|interrupt|signal' "$dir/out"; then bad+=(silent); fi
    [[ -n $floor ]] || floor=$(announced_step)
    if (($(good_step "$dir/run") < floor)); then bad+=(lost-checkpoint); fi
}

# Continues undisturbed, and compares with the undisturbed run.
judge_resume() { # [TORN LINES]
    local first=$code first_hang=$hang first_ms=$took_ms first_steps wrong
    if [[ $first -eq 0 && -z $first_hang && ! -e $dir/run/$(ckpt_name "$n_steps") ]] &&
        ! grep -aqE '^stopped (by SIG|on request)' "$dir/out"; then bad+=(false-success); fi
    env_of_job=() before_job=()
    P[via]=run
    job_start out.resumed "${resume[@]}"
    job_wait
    if [[ $code -ne 0 || -n $hang ]]; then
        bad+=("no-resume")
    else
        for wrong in $(records_wrong "$dir/run" "${1:-0}"); do
            if [[ $wrong == wrong-bits && $replica == yes ]]; then bad+=(replica-bits); else bad+=("$wrong"); fi
        done
        [[ " ${bad[*]} " == *-bits* ]] || judge_last
    fi
    code=$first hang=$first_hang took_ms=$first_ms
}

ckpt_name() { printf 'ckpt-%012d.h5' "$1"; }

# The last checkpoint equals the undisturbed run's: every weight, optimizer value and option.
judge_last() {
    local last
    last=$(ckpt_name "$n_steps")
    if [[ -n $data ]]; then return; fi # its path is in the file
    if [[ ! -e $dir/run/$last ]]; then
        bad+=(no-last-checkpoint)
    elif [[ ${args[*]} == "--allreduce host" ]] && ! cmp -s "$dir/run/$last" "$work/whole.${P[np]}/run/$last"; then
        bad+=(wrong-weights)
    fi
}

judge() { # [TORN LINES]
    judge_end
    judge_resume "$@"
}
