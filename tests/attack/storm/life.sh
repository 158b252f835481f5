# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2015,SC2034,SC2119,SC2120,SC2154 # variables of attack.sh and of the kinds
# The life of one job of a storm: training under run.sh --restarts, struck by several faults, to its end. Sourced by attack.sh
# after job.sh.
#
# The job's folder is $dir; `control` in it tells the shim the next fault and the pace (shim_control.c). Each fault sets at
# (when it struck, in ms), what the oracle needs, and what became of the job (judge.sh).
storm_every=6 storm_check=3 storm_restarts=20 storm_pace=0.08 storm_start_sec=180

# The undisturbed runs: their last weights, and the losses of all steps.
storm_prepare() {
    local model shards most
    # Enough steps for the faults of the longest job.
    most=$(printf '%s\n' "${plan[@]}" | grep -o 'job=[0-9]*' | sort | uniq -c | sort -n | awk 'END { print $1 }')
    storm_steps=$((60 + 40 * ${most:-1}))
    job_compile
    # Evaluations that last long enough to be hit.
    rm -r "$work/data" && "$real" data synth digits --out "$work/data" --train 256 --val 160 >/dev/null || die 4 "data synth fails"
    "$real" data pack --from "$work/data" --out "$work/packed" --shard-size 32K >/dev/null || die 4 "data pack fails"
    attack_id=$$.$RANDOM$RANDOM
    for model in lenet5 mnist-cnn-bn; do
        for shards in 6 0; do
            # Those that the list needs.
            [[ $(printf '%s \n' "${plan[@]}" | grep " model=$model " | grep -c " shards=$shards ") -gt 0 ]] || continue
            storm_reference "$model" "$shards" || die 4 "the undisturbed run fails"
        done
    done
}

storm_reference() { # MODEL SHARDS
    local -A P=([model]=$1 [shards]=$2)
    local dir=$work/whole.$1.$2 words=() launch=(env)
    # With --reproducible the bits are those of any number of ranks.
    [[ $2 != 0 ]] || launch=("$root/scripts/run.sh" -np 2 --)
    mkdir -p "$dir"
    storm_words
    [[ $2 == 0 ]] || launch+=("$real")
    (cd "$dir" && DPTRAIN_BIN=$real DPTRAIN_ATTACK=$attack_id.reference OMPI_MCA_pml=ob1 "${launch[@]}" "${words[@]}" --out run) >"$dir/out" 2>&1 || { cat "$dir/out" >&2 && return 1; }
    storm_losses "$dir/run" >"$dir/losses"
    storm_weights "$dir/run" "$dir/weights" || return 1
    rm -rf "$dir/run"
}

# Prints the folder that the job's data are copied from: mnist-cnn-bn trains on shards, lenet5 on IDX files.
storm_source() {
    if [[ ${P[model]} == lenet5 ]]; then echo "$work/data"; else echo "$work/packed"; fi
}

# Sets words: those of dptrain, without --out.
storm_words() {
    words=(train --model "${P[model]}" --data "${data:-$(storm_source)}" --batch 24 --steps "$storm_steps" --threads 1 --lr 0.02
        --algorithms fixed --checkpoint-every "$storm_every" --check-replicas "$storm_check" --eval-every 10s
        --log-every 1000 --timeout "$timeout_sec")
    [[ ${P[model]} == lenet5 ]] || words+=(--input-size 28)
    # What replay begins with.
    [[ ${P[own]:-no} == no ]] || words+=(--keep 20)
    if [[ ${P[shards]} == 0 ]]; then words+=(--allreduce host); else words+=(--reproducible "${P[shards]}"); fi
}

# Writes the last weights and statistics, as one file that is the same for the same bits.
storm_weights() { # FOLDER OUT
    "$real" checkpoint export "$1" --names dptrain --out "$2.npz" >/dev/null 2>&1 && mv "$2.npz" "$2"
}

# Prints STEP LOSS of each step that was kept: a start computes the steps from its first one on again.
storm_losses() { # FOLDER
    [[ ! -f $1/metrics.jsonl ]] || awk '
        function field(key) {
            return match($0, "\"" key "\":[^,}]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : ""
        }
        /"record":"run"/ { first = field("first_step"); if (first != "") for (s = first + 0; s <= last; s++) delete loss[s] }
        /"record":"step"/ { s = field("step") + 0; loss[s] = field("loss"); if (s > last) last = s }
        END { for (s in loss) print s, loss[s] }' "$1/metrics.jsonl" | LC_ALL=C sort
}

# Runs jobs until none is left; has a cluster of its own as soon as one needs hosts.
storm_worker() {
    local cluster='' jobs j lines host turn
    trap - EXIT
    mapfile -t jobs < <(printf '%s\n' "${plan[@]}" | grep -o 'job=[0-9]*' | uniq)
    while j=$(storm_next) && ((j < ${#jobs[@]})); do
        ((minutes == 0 || $(uptime_ms) < 60000 * minutes + started)) || break
        mapfile -t lines < <(printf '%s\n' "${plan[@]}" | grep -F " ${jobs[j]} ")
        if [[ ${lines[0]} == *place=hosts* ]]; then
            [[ -n $cluster ]] || storm_hosts_begin || exit 4
            for host in node1 node2 node3; do cluster_mend "$host"; done
        fi
        # What a job has left when it ends, because the machine was slow, goes on in another one.
        for ((turn = 0; turn < 4 && ${#lines[@]} > 0; turn++)); do storm_life "${lines[@]}"; done
        ((${#lines[@]} == 0)) || note "${#lines[@]} faults of ${jobs[j]} found no job to strike"
    done
    [[ -z $cluster ]] || cluster_down || true
}

# Prints the number of the next job, over all workers.
storm_next() {
    local n
    (
        flock 9
        read -r n 2>/dev/null <"$work/next" || n=0
        echo "$n"
        echo $((n + 1)) >"$work/next"
    ) 9>"$work/next.lock"
}

# Runs the faults of one job, lines of the plan; leaves those that are left in lines.
storm_life() { # LINE...
    local name k dir id job='' job_out data='' resume=no code='' life_bad=() fault_from=0 struck_all=0 words rest storm_away='' timeout_sec=$timeout_sec
    local -A P
    read -r k name rest <<<"$1"
    storm_parse "$rest"
    # TCP comes back some seconds after a link does.
    [[ ${P[place]} != hosts ]] || timeout_sec=$((2 * timeout_sec))
    id=$attack_id.job$k dir=$work/job$k
    [[ ${P[place]} != hosts ]] || dir=$cluster/shared/job$k
    mkdir -p "$dir/disk"
    job_out=$dir/out
    : >"$job_out"
    cp -r "$(storm_source)" "$dir/data" && data=$dir/data
    [[ ${P[place]} == hosts ]] || mount -t tmpfs -o size=512m tmpfs "$dir/disk" 2>/dev/null || : >"$dir/no_mounts"
    ln -s disk/run "$dir/run"
    storm_control
    storm_start
    while ((${#lines[@]} > 0)); do
        if ((minutes > 0 && $(uptime_ms) >= 60000 * minutes + started)); then lines=() && break; fi
        read -r k name rest <<<"${lines[0]}"
        storm_parse "$rest"
        storm_fault || break
        lines=("${lines[@]:1}")
    done
    storm_finish
    umount -l "$dir/disk" 2>/dev/null || true
    rm -rf "$dir"
}

storm_parse() { # WORDS
    local word
    P=()
    for word in $1; do P[${word%%=*}]=${word#*=}; done
}

# Tells the shim the fault from now on; without words, only the pace.
storm_control() { # [SPEC]
    printf 'pace=%s%s\n' "$storm_pace" "${1:+ id=$k $1}" >"$dir/control.new" && mv "$dir/control.new" "$dir/control"
}

# Starts the job, or goes on with it.
storm_start() {
    local launch words environment
    storm_words
    words+=(--out disk/run)
    [[ $resume == no ]] || words+=(--resume auto)
    environment=("DPTRAIN_ATTACK=$id" "DPTRAIN_TIMEOUT_START=$timeout_sec" "DPTRAIN_FAULT_LOG=$dir/fault" "DPTRAIN_FAULT_FILE=$dir/control"
        "DPTRAIN_FAULT_FOLDER=$dir")
    launch=(--restarts "$storm_restarts" --cool-down 4 --wait-hosts 30 --timeout-start 30 --grace 5 -- "${words[@]}")
    if [[ ${P[place]} == hosts ]]; then
        # shellcheck disable=SC2016 # for the host's shell
        cluster_exec node1 env "${environment[@]}" "DPTRAIN_BIN=$cluster/shared/attack/dptrain" sh -c 'cd "$0" && exec "$@"' "$dir" "$root/scripts/run.sh" \
            -H node1:1,node2:1,node3:1 --interface "$cluster_subnet" --transport tcp "${launch[@]}" >>"$job_out" 2>&1 </dev/null &
    else
        # A shell in the background ignores signals, and so would its children.
        (cd "$dir" && exec env --default-signal=HUP,INT,QUIT OMPI_MCA_pml=ob1 "${environment[@]}" "DPTRAIN_BIN=$work/bin/dptrain" \
            "$root/scripts/run.sh" -np "${P[np]}" "${launch[@]}") >>"$job_out" 2>&1 </dev/null &
    fi
    job=$!
    resume=yes
}

storm_alive() { kill -0 "$job" 2>/dev/null; }

life_count() { # RECORD
    local n
    n=$(grep -c "^{\"record\":\"job_$1\"" "$dir/run/job.jsonl" 2>/dev/null) || true
    echo "${n:-0}"
}

# Value of a field in the last record of the job's life.
life_last() { # RECORD FIELD
    local line text="\"$2\":(\"([^\"]*)\"|([^,}]*))"
    line=$(grep "^{\"record\":\"job_$1\"" "$dir/run/job.jsonl" 2>/dev/null | tail -n 1) || true
    [[ $line =~ $text ]] || return 0
    text=${BASH_REMATCH[2]}${BASH_REMATCH[3]}
    [[ $text == null ]] || echo "$text"
}

# The newest checkpoint that the job has announced since its last start, or -1: an older one may have been damaged.
storm_announced() {
    local step
    step=$(sed -nE -e '/"record":"run"/s/.*/-1/p' -e '/"record":"checkpoint"/s/.*"step":([0-9]+).*"error":null.*/\1/p' \
        "$dir/run/metrics.jsonl" 2>/dev/null | tail -n 1)
    echo "${step:--1}"
}

# Waits until the job trains and has saved a checkpoint since its start, so that the budget of restarts is whole again; then
# for P[wait] hundredths of a second. Fails if that takes too long, or the job has ended.
storm_await_progress() {
    local until=$(($(uptime_ms) + 1000 * storm_start_sec)) first
    while storm_alive && (($(uptime_ms) < until)); do
        first=$(life_last training first_step)
        if [[ -n $first ]] && storm_training && (($(storm_announced) > first)); then
            sleep "$(printf '%d.%02d' $((${P[wait]:-0} / 100)) $((${P[wait]:-0} % 100)))"
            return 0
        fi
        sleep 0.1
    done
    return 1
}

# Waits for the job's end; sets code, empty after LIMIT seconds.
storm_await_end() { # LIMIT
    local until=$(($(uptime_ms) + 1000 * $1))
    code=''
    while storm_alive; do
        (($(uptime_ms) < until)) || return 1
        sleep 0.1
    done
    code=0
    { wait "$job" || code=$?; } 2>/dev/null
}

# Lets the job end, and compares its weights with the undisturbed run's. Writes a line of jobs.tsv.
storm_finish() {
    local verdict=() last=$dir/last storm_pace=0
    storm_control
    if ! storm_alive && [[ $(life_last end code) != 0 ]]; then storm_start; fi
    storm_await_end 300 || verdict+=(hang)
    [[ -n $code ]] || { job_kill && code=137; }
    if [[ $code -ne 0 ]]; then
        verdict+=("code-$code")
    elif ! storm_weights "$dir/run" "$last"; then
        verdict+=(no-weights)
    elif ! cmp -s "$last" "$work/whole.${P[model]}.${P[shards]}/weights"; then
        verdict+=(wrong-weights)
    fi
    storm_missing || verdict+=(lost-records)
    printf '%s\n' "${P[job]:-0}" "${P[place]}" "${P[np]}" "${P[model]}" "${P[shards]}" "$struck_all" "$code" "${P[own]:-no}" \
        "$(IFS=, && echo "${verdict[*]:-ok}")" | paste -s >>"$work/jobs.tsv"
    note "job ${P[job]:-0} (${P[place]}, ${P[np]} ranks, ${P[model]}): $struck_all faults, ${verdict[*]:-ends with the bits of the undisturbed run}"
    if [[ -n $out && ${#verdict[@]} -gt 0 && ${P[own]:-no} == no ]]; then storm_keep "job${P[job]:-0}"; fi
}

# Every step has a record.
storm_missing() {
    [[ $(storm_losses "$dir/run" | cut -d ' ' -f 1 | sort -u | wc -l) -eq $storm_steps ]]
}

# Keeps what tells of a failure.
storm_keep() { # NAME
    mkdir -p "$out/$1"
    cp "$dir"/{out,fault} "$dir/run"/*.jsonl "$out/$1/" 2>/dev/null || true
    [[ $1 != job* ]] || cp "$dir/run"/ckpt-* "$out/$1/" 2>/dev/null || true
    printf '%s\n' "${P[@]@K}" >"$out/$1/parameters"
}
