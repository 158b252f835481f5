# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# A run was killed after 25 steps; then its files are damaged; then it continues.
kind between_checkpoint 5
kind between_records 2
kind between_options 2
kind between_data 2

half() { cp -r "$work/half.${P[np]}/run" "$dir/run"; }
newest() { find "$dir/run" -name 'ckpt-*.h5' | sort | tail -n 1; }

# Continues after the damage; DAMAGED lines may stay torn.
continue_half() { # [DAMAGED]
    local wrong
    job_start out --resume auto
    job_wait
    judge_end
    [[ $code -eq 0 ]] || return 0
    for wrong in $(records_wrong "$dir/run" "${1:-0}"); do bad+=("$wrong"); done
    judge_last
}

# The newest file is damaged in one way. An older one is good.
draw_between_checkpoint() {
    echo "np=2 how=$(pick flip flip truncate empty renamed renamed zeros folder fifo unreadable all swapped) at=$(between 0 99) via=run"
}
run_between_checkpoint() {
    local file size at byte older
    half
    file=$(newest) size=$(stat -c %s "$(newest)") codes=0 floor=-1
    at=$((size * P[at] / 100))
    case ${P[how]} in
    flip)
        byte=$(od -An -tu1 -j "$at" -N 1 "$file")
        # shellcheck disable=SC2059 # the byte as an escape
        printf "$(printf '\\x%02x' $((byte ^ 16)))" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
        words='ckpt'
        ;;
    truncate) truncate -s "$at" "$file" && words='ckpt' ;;
    empty) : >"$file" && words='ckpt' ;;
    zeros) dd if=/dev/zero of="$file" bs=1 seek="$at" count=4096 conv=notrunc status=none && words='ckpt' ;;
    # A name that promises more than is inside.
    renamed) cp "$file" "$dir/run/ckpt-000000099999.h5" && words='ckpt-000000099999' ;;
    folder) mkdir "$dir/run/ckpt-000000000039.h5" ;;
    fifo) mkfifo "$dir/run/ckpt-000000000039.h5" ;;
    unreadable) ln -s /nowhere/at/all "$dir/run/ckpt-000000000039.h5" ;;
    swapped)
        # Two files with exchanged names.
        older=$(find "$dir/run" -name 'ckpt-*.h5' | sort | tail -n 2 | head -n 1)
        mv "$file" "$dir/x" && mv "$older" "$file" && mv "$dir/x" "$older" && words='ckpt'
        ;;
    all)
        find "$dir/run" -name 'ckpt-*.h5' -exec truncate -s 1000 {} + && codes=3 words='ckpt|checkpoint'
        ;;
    esac
    struck_now "${P[how]}"
    continue_half
    # The file must not become the newest again.
    if [[ ${P[how]} == renamed && $code -eq 0 && " ${bad[*]} " != *wrong* ]]; then
        job_start out.again --resume auto
        job_wait
        if [[ $code -ne 0 ]] || grep -aq 'resumed from .*099999' "$dir/out.again"; then bad+=(stale-checkpoint); fi
    fi
}

draw_between_records() { echo "np=2 how=$(pick torn torn deleted empty folder fifo binary readonly) via=run"; }
run_between_records() {
    local file=$dir/run/metrics.jsonl torn=0
    half
    codes=0 floor=-1
    case ${P[how]} in
    torn) printf '{"record":"step","step":24,"lo' >>"$file" && torn=1 ;;
    binary) head -c 1000 /dev/urandom >>"$file" && torn=20 ;;
    deleted) rm "$file" ;;
    empty) : >"$file" ;;
    folder) rm "$file" && mkdir "$file" && codes=4 words='metrics.jsonl' ;;
    fifo) rm "$file" && mkfifo "$file" && codes="3 4" words='metrics.jsonl' ;;
    readonly) rm "$file" && ln -s /proc/version "$file" && codes=4 words='metrics.jsonl' ;;
    esac
    struck_now "${P[how]}"
    continue_half "$torn"
    # Records that somebody deleted cannot be there; those of this run are.
    if [[ ${P[how]} == deleted || ${P[how]} == empty ]]; then
        bad=("${bad[@]/lost-records/}")
        mapfile -t bad < <(printf '%s\n' "${bad[@]}" | grep .)
        [[ $(losses_of "$dir/run" | wc -l) -ge 10 ]] || bad+=(lost-records)
    fi
}

# Options of the resumed run that make no sense with what is done.
draw_between_options() { echo "np=2 how=$(pick fewer fewer epochs equal model batch seed finished) steps=$(between 1 20) via=run"; }
run_between_options() {
    half
    floor=-1 codes=2 words='--'
    case ${P[how]} in
    fewer) codes="0 2" words='steps' args+=(--steps "${P[steps]:-8}") ;;
    epochs) codes="0 2" words='epochs' args+=(--epochs $((1 + ${P[steps]:-8} / 7))) ;;
    equal) codes="0 2" words='' args+=(--steps 24) ;;
    model) words='model' args+=(--model mlp) ;;
    batch) words='batch' args+=(--batch 24) ;;
    seed) words='seed' args+=(--seed 9) ;;
    finished)
        rm -r "$dir/run" && cp -r "$work/whole.${P[np]}/run" "$dir/run"
        codes=0 words=''
        ;;
    esac
    struck_now "${P[how]}"
    between_start
    # It has done all that is asked for, and says so.
    if [[ $code -eq 0 && -n $words ]]; then
        words=''
        grep -aqE 'nothing to do|finished' "$dir/out" || bad+=(silent)
    fi
    judge_end
}

# The words of the job without those that the fault sets itself.
between_start() {
    local word skip=no words_of_job=() steps=$n_steps
    if [[ ${P[how]} == fewer || ${P[how]} == equal ]]; then n_steps=${args[-1]} args=("${args[@]:0:${#args[@]}-2}"); fi
    before_job=(bash -c "$(declare -f replace_option); replace_option \"\$@\"" "${args[@]: -2:1}" "${args[@]: -1}")
    [[ ${#args[@]} -gt 2 ]] || before_job=()
    if [[ ${#before_job[@]} -gt 0 ]]; then args=("${args[@]:0:${#args[@]}-2}"); fi
    job_start out --resume auto
    job_wait
    n_steps=$steps
}

# Runs a command with another value of an option; epochs replace steps.
# shellcheck disable=SC2317 # called by the shell of before_job
replace_option() { # VALUE COMMAND...   ($0 is the option)
    local value=$1 list=() i
    shift
    for ((i = 1; i <= $#; i++)); do
        if [[ ${!i} == "$0" || ($0 == --epochs && ${!i} == --steps) ]]; then i=$((i + 1)) && continue; fi
        list+=("${!i}")
    done
    exec "${list[@]}" "$0" "$value"
}

# Other data than the checkpoint was trained on.
draw_between_data() { echo "np=2 how=$(pick image label truncated gone fifo smaller) via=run"; }
run_between_data() {
    local file
    half
    cp -r "$work/data" "$dir/data"
    data=$dir/data codes=3 floor=-1 words="data|ubyte"
    file=$(find "$data" -name 'train-images*' | head -n 1)
    case ${P[how]} in
    image) printf x | dd of="$file" bs=1 seek=5000 conv=notrunc status=none ;;
    label) printf '\x01\x02\x03' | dd of="$(find "$data" -name 'train-labels*')" bs=1 seek=30 conv=notrunc status=none ;;
    truncated) truncate -s 5000 "$file" ;;
    gone) rm "$file" ;;
    fifo) rm "$file" && mkfifo "$file" ;;
    smaller) rm -r "$data" && "$real" data synth digits --out "$data" --train 200 --val 64 >/dev/null ;;
    esac
    codes="2 3"
    struck_now "${P[how]}"
    job_start out --resume auto
    job_wait
    judge_end
}
