# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2015,SC2034,SC2119,SC2154 # variables of attack.sh, of life.sh and of the kinds
# Judges what one fault of a storm did. Sourced by attack.sh.
#
# A kind injects its fault (storm_hit, storm_arm, or storm_struck after an act of its own), sets
#   words   an extended regular expression that the messages since then must match: it names the culprit
#   floor   the least step to resume from [the newest announced checkpoint]
# and says what it expects: storm_resumes, storm_ends, storm_goes_on.

# Runs one fault in the middle of a job, and writes its row; tries again if the job was not where the fault strikes. Fails if
# the job cannot be struck any more: the fault is left for another one.
storm_fault() {
    local at bad named words outcome noticed back found floor n_faults_before out_from turn
    for turn in 1 2 3; do
        at='' bad=() named=- words='' outcome='' noticed='' back='' found=-
        if ! storm_await_progress; then
            storm_recover && storm_await_progress || { note "job ${P[job]:-0} can't be struck by fault $k ($name)" && return 1; }
        fi
        floor=$(storm_announced) n_faults_before=$(life_count fault) out_from=$(stat -c %s "$job_out")
        "strike_$name"
        storm_control
        # The job had ended by then.
        if [[ " ${bad[*]} " =~ \ (code-0|no-resume)\  && $(life_last end reason) == finished ]]; then at='' bad=(); fi
        [[ -z $at && ${#bad[@]} -eq 0 && $turn -lt 3 ]] || break
        note "fault $k ($name, ${P[place]}, job ${P[job]:-0}) has not struck; again"
        storm_recover || return 1
        storm_parse "$rest"
    done
    storm_row
    struck_all=$((struck_all + (${#at} > 0)))
    storm_recover || true
}

# The fault has struck now.
storm_struck() { # WHAT
    at=$(uptime_ms)
    echo "by hand, fault $k: $1" >>"$dir/fault"
}

# Sends a signal to a process of the job, from outside.
storm_hit() { # SIGNAL NAME [RANK]
    local pid
    if [[ $2 == supervisor ]]; then pid=$(job_launcher); else pid=$(job_pids "${@:2}" | head -n 1); fi
    [[ -n $pid ]] && kill "-$1" "$pid" 2>/dev/null && storm_struck "SIG$1 to $2 ${3:-}"
}

# Arms the shim, and waits until it has struck.
storm_arm() { # SPEC
    storm_control "$1"
    storm_await_strike 30
}

storm_await_strike() { # LIMIT
    local until=$(($(uptime_ms) + 1000 * $1))
    until grep -qs "^struck id=$k " "$dir/fault"; do
        (($(uptime_ms) < until)) || return 1
        storm_alive || { sleep 0.2 && grep -qs "^struck id=$k " "$dir/fault" || return 1; }
        sleep 0.05
    done
    at=$(uptime_ms)
}

# A rank that the job has now.
storm_rank() {
    local n
    n=$(life_last ranks ranks)
    echo $((P[rank] % ${n:-1}))
}

# The host of a rank, one rank each, and of a job on this machine its own.
storm_host() { # RANK
    [[ ${P[place]} == hosts ]] || { hostname && return; }
    local list
    list=$(grep '^{"record":"job_ranks"' "$dir/run/job.jsonl" | tail -n 1 | sed -E 's/.*"hosts":\[([^]]*)\].*/\1/; s/"//g')
    cut -d , -f $(($1 + 1)) <<<"$list"
}

# Waits for what becomes of the job: sets outcome to ended (and code), fault, or none.
storm_outcome() { # LIMIT [FAULTS]
    local until=$(($(uptime_ms) + 1000 * $1))
    outcome=none
    while (($(uptime_ms) < until)); do
        if (($(life_count fault) >= n_faults_before + ${2:-1})); then outcome=fault && return; fi
        if ! storm_alive; then
            storm_await_end 1 || true
            outcome=ended
            return
        fi
        # The start that a first kill has caused was to fail, and trains.
        if [[ ${P[first_kill]:-0} == 1 ]] && (($(life_count fault) > n_faults_before)) && storm_training; then return; fi
        sleep 0.1
    done
}

# Whether the current start of the ranks has trained, and no fault came since.
storm_training() {
    [[ $(grep -E '^\{"record":"job_(start|continue|ranks|training|fault|end)"' "$dir/run/job.jsonl" 2>/dev/null | tail -n 1) == '{"record":"job_training"'* ]]
}

# Expected: the job starts again by itself.
storm_resumes() { # [FAULTS]
    [[ -n $at ]] || return 0
    storm_outcome $((timeout_sec + grace_sec + 10 * (${1:-1} - 1))) "${1:-1}"
    case $outcome in
    none) bad+=(hang) ;;
    ended) bad+=("code-$code") ;;
    fault) storm_again ;;
    esac
    storm_judge
}

# The job has noticed the fault: waits until it trains again.
storm_again() {
    local until=$(($(uptime_ms) + 1000 * storm_start_sec)) sec
    until storm_training; do
        if ! storm_alive; then
            storm_await_end 1 || true
            bad+=("code-$code") outcome=ended
            return
        fi
        (($(uptime_ms) < until)) || { bad+=(hang-start) && return; }
        sleep 0.1
    done
    outcome=resumed back=$(($(uptime_ms) - at))
    sec=$(life_last training fault_to_step_sec)
    noticed=$(awk -v back="$back" -v sec="${sec:-0}" 'BEGIN { n = back - 1000 * sec; printf "%d", (n > 0 ? n : 0) }')
    storm_kept_checkpoint
}

# It resumed from no older checkpoint than the newest good one.
storm_kept_checkpoint() {
    local first
    first=$(life_last training first_step)
    ((${first:--1} >= ${floor:-0})) || bad+=(lost-checkpoint)
}

# Expected: the job ends with one of these codes; the fault is mended, and the job is started again by hand. With `or`, it may
# also start again by itself.
storm_ends() { # CODES MEND [or]
    [[ -n $at ]] || { "$2" && return; }
    local starts
    storm_outcome $((timeout_sec + grace_sec + 15)) $((${P[first_kill]:-0} + 1))
    case $outcome in
    none)
        "$2"
        outcome='no effect'
        if ! storm_training; then bad+=(hang); elif [[ ${3:-} != or ]]; then bad+=(accepted); fi
        storm_judge
        return
        ;;
    fault) [[ ${3:-} == or ]] || bad+=(restarted) ;;
    ended)
        back=$(($(uptime_ms) - at))
        [[ " $1 " == *" $code "* ]] || bad+=("code-$code")
        ;;
    esac
    "$2"
    [[ $outcome == ended || ${3:-} != or ]] || storm_again
    if [[ $outcome == ended ]]; then
        outcome="code $code" resume=yes
        starts=$(life_count ranks)
        storm_start
        storm_trains "$starts" || bad+=(no-resume)
    fi
    storm_judge
}

# After storm_start: waits until the job trains again, which had started its ranks N times before.
storm_trains() { # N
    local until=$(($(uptime_ms) + 1000 * storm_start_sec))
    until (($(life_count ranks) > $1)) && storm_training; do
        storm_alive && (($(uptime_ms) < until)) || return 1
        sleep 0.1
    done
    storm_kept_checkpoint
}

# Whether a step was done within the deadline before now, since the first call. Needs seen and since, 0 at first.
storm_moves() {
    local steps now
    steps=$(steps_done) now=$(uptime_ms)
    if ((since == 0 || steps != seen)); then seen=$steps since=$now; fi
    ((now - since < 1000 * (timeout_sec + grace_sec)))
}

# Expected: nothing; training goes on.
storm_goes_on() {
    local steps seen=0 since=0
    [[ -n $at ]] || return 0
    steps=$(steps_done)
    outcome="goes on"
    while (($(steps_done) < steps + 12)); do
        if ! storm_alive; then
            storm_await_end 1 || true
            [[ $code -eq 0 ]] || bad+=("code-$code")
            break
        fi
        if (($(life_count fault) > n_faults_before)); then bad+=(restarted) outcome=fault && storm_again && break; fi
        storm_moves || { bad+=(hang) && break; }
        sleep 0.1
    done
    storm_judge
}

# What the messages since the fault say.
storm_said() {
    tail -c "+$((out_from + 1))" "$job_out" | grep -aE 'error|warning|stall|^run\.sh: ' || true
    tail -n "+$((n_faults_before + 1))" < <(grep '^{"record":"job_fault"' "$dir/run/job.jsonl" 2>/dev/null) || true
}

# The culprit, and the records so far.
storm_judge() {
    if [[ -n $words && $outcome != none ]]; then
        named=yes
        storm_said | grep -aqE -- "$words" || { named=no && bad+=(unnamed); }
    fi
    if [[ -n $(LC_ALL=C comm -23 <(storm_losses "$dir/run") "$work/whole.${P[model]}.${P[shards]}/losses") ]]; then
        [[ ${P[own]:-no} == yes ]] || bad+=(wrong-bits)
    fi
}

# A flipped bit: how many steps after it the difference was found. "Found" counts from the last step that was recorded before.
storm_found_after() {
    local step after
    step=$(sed -nE "s/^struck id=$k step=([0-9]+) .*/\\1/p" "$dir/fault" | head -n 1)
    after=$(storm_said | grep -aoE 'after step [0-9]+' | head -n 1 | grep -oE '[0-9]+') || true
    [[ -n $step && -n $after ]] || return 0
    found=$((after - step - 1))
    # The rank that flipped may be a step behind the record.
    ((found <= storm_check + 1)) || bad+=(late)
}

storm_row() {
    local verdict=${bad[*]:-ok}
    [[ -n $at ]] || { outcome='not struck' named=- verdict=ok; }
    printf '%s\n' "$k" "$name" "${P[place]}" "$([[ -n $at ]] && echo yes || echo no)" "${outcome:--}" "${noticed:--}" "${back:--}" \
        "${verdict// /,}" "$named" "$found" "job=${P[job]:-0} $(storm_parameters)" \
        "$(storm_said | grep -a 'error' | head -n 1 | tr '\t|' ' /' | cut -c 1-300)" | paste -s >>"$work/results.tsv"
    note "fault $k ($name, ${P[place]}, job ${P[job]:-0}): ${outcome:--}, $verdict${back:+, back after $back ms}"
    if [[ -n $out && ${#bad[@]} -gt 0 ]]; then storm_keep "fault$k"; fi
}

storm_parameters() {
    local key text=''
    for key in $(printf '%s\n' "${!P[@]}" | sort); do [[ $key == job ]] || text+=" $key=${P[$key]}"; done
    echo "${text# }"
}

# Brings the job back to training, whatever the fault did.
storm_recover() {
    if storm_alive && [[ " ${bad[*]} " == *" hang"* ]]; then
        job_processes >"$dir/hung"
        job_kill
        { wait "$job" || true; } 2>/dev/null
    fi
    storm_alive && return 0
    [[ $(life_last end code) != 0 || $(life_last end reason) != finished ]] || return 1
    resume=yes
    storm_start
}
