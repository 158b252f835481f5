# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# run.sh --restarts: starts the job again after a fault, as long as it makes progress. Sourced by run.sh.
#
# The supervisor is one process, and every start of the job another: run.sh with the same words, and DPTRAIN_SUPERVISOR naming
# the supervisor's folder. There, `state` tells the start what is known (variables super_…); the start leaves
#   ranks      its ranks were started: a signal now is for it, and not only for this shell
#   fault      lines `NAME VALUE`: at (hundredths of a second), what, host, rank, phase
#   suspects   hosts that may not answer, one per line
#   families   of mpirun's daemons that may be left on a host, `FAMILY PID OF MPIRUN, HOST`
#   final      a reason why no other start can succeed
# If the supervisor dies, the kernel kills the start, and with it the job.
super_number=0 super_known=no super_again=no super_lenient=no super_newest=-1 super_first_ranks='' super_config='' super_resume=''
super_overwrite='' super_global_batch='' super_per_rank='' super_shards='' super_group='' super_data='' super_device=''
super_lr_scale='' super_lr_batch='' super_parts='' super_timeout='' super_folder='' super_own_folder=no super_command=''

# Reads what must be known of the training's options, and refuses what cannot be restarted.
supervise_read_options() { # DPTRAIN'S ARGUMENTS...
    local code=0
    case ${1:-train} in
    train | -*) ;;
    *) die 2 "--restarts is for dptrain train, which resumes from checkpoints; not for '$1'" ;;
    esac
    super_config=$("$program" "$@" --print-config) || code=$?
    # Its own message says what is wrong; --help and the like have been answered.
    ((code == 0)) || exit "$code"
    if [[ -n $super_config && $super_config != *$'\nresume = '* ]]; then printf '%s\n' "$super_config" && exit 0; fi
    super_resume=$(supervise_option resume) super_overwrite=$(supervise_option overwrite)
    super_lr_scale=$(supervise_option lr-scale) super_lr_batch=$(supervise_option lr-batch)
    super_global_batch=$(supervise_option batch) super_per_rank=$(supervise_option batch-per-rank)
    super_parts=$(supervise_option accumulate) super_shards=$(supervise_option reproducible) super_group=$(supervise_option bn-group)
    super_data=$(supervise_option data) super_device=$(supervise_option device) super_timeout=$(supervise_option timeout)
    super_timeout=${super_timeout%.*}
    number_or '' super_lr_batch super_global_batch super_per_rank super_parts super_shards super_group super_timeout
    # These two are no paths.
    [[ $super_data != @(digits|synthetic) ]] || super_data=''
    super_folder=$(supervise_option out) super_command=$0
    if [[ -z $super_folder ]]; then
        printf -v super_folder 'runs/%s-%(%Y%m%d-%H%M%S)T' "$(supervise_option model)" -1
        super_own_folder=yes
    fi
}

# Prints an option's value, as resolved by the program; nothing if it is not set.
supervise_option() { # NAME
    sed -n "s/^$1 = //p" <<<"$super_config" | tail -n 1
}

# Opens the record of the job's life. A job without an end goes on: its supervisor was killed.
supervise_open() {
    local place pid start clock now fields shown
    super_path=$super_folder
    [[ $super_path == /* ]] || super_path=${wdir:-$PWD}/$super_path
    timeout -k 1 10 test -d "$super_path" || super_made=yes
    life_open "$super_path"
    place=$(life_place)
    process_stat $$ && start=${fields[19]}
    life_clock
    life_origin=$centi supervised_since=$centi # --max-time counts from here, also if the job began earlier
    if [[ -n $life_begun ]]; then
        supervise_adopt "$place"
        life_add job_continue "job=$job_id" "place=$place" "pid:=$$" "start_time:=${start:-}" "folder=$work"
        return
    fi
    options_shown "${given[@]}"
    super_offset=$(life_size "$super_path/metrics.jsonl")
    super_newest=$(life_newest "$super_path")
    [[ $super_overwrite != true ]] || super_offset=0 super_newest=-1
    life_add job_start schema:=1 "job=$job_id" "place=$place" "pid:=$$" "start_time:=${start:-}" "folder=$work" \
        "command:=$(life_list "$0" "${shown[@]}")" "restarts:=$restarts" "min_ranks:=$min_ranks" "wait_hosts:=$wait_hosts" \
        "cool_down:=$cool_down" "metrics_bytes:=$super_offset"
    [[ $super_own_folder == no ]] || note "output $super_folder; if this script is killed, start it again with --out $super_folder"
}

# Takes over the job of a supervisor that was killed. Refuses if it is alive.
supervise_adopt() { # PLACE
    local pid folder fields before id
    pid=$(life_field "$life_supervised" pid) folder=$(life_field "$life_supervised" folder)
    number_or 0 pid
    if [[ $(life_field "$life_supervised" place) == "$1" ]]; then
        if process_stat "$pid" && [[ ${fields[19]} == "$(life_field "$life_supervised" start_time)" ]]; then
            die 2 "$super_folder: job $(life_field "$life_begun" job) is supervised by process $pid: wait for its end, stop it, \
or choose another --out"
        fi
        # Its ranks, which may be about to end, are recognized by this id; the new ones own the folder under it.
        id=$(life_field "$life_begun" job)
        if is_id "$id"; then job_id=$id; fi
        # A name as make_work gives it, and no other path.
        if [[ $folder == "${TMPDIR:-/tmp}/dptrain-job."?????? && ${folder##*.} =~ ^[A-Za-z0-9]{6}$ && -O $folder && ! -L $folder ]]; then
            rm -rf "$folder"
        fi
    fi
    super_known=yes fault_at=$centi
    super_offset=$(life_field "$life_begun" metrics_bytes)
    number_or 0 super_offset
    # Only the wall clock has gone on since.
    before=$(life_field "$life_begun" time)
    if [[ $before =~ ^[0-9T:-]+Z$ ]]; then before=$(date -u -d "$before" +'%s' 2>/dev/null) || before=''; fi
    number_or "$(date -u +'%s')" before
    life_origin=$((life_origin - 100 * ($(date -u +'%s') - before)))
    supervise_count
    supervise_note_steps
    super_newest=$(life_newest "$super_path")
    note "going on with job $(life_field "$life_begun" job), whose supervisor was killed"
}

# Reads what the job's earlier supervisors have counted: starts, hundredths of a second without training, and the ranks of the
# first start.
supervise_count() {
    local starts seconds ranks
    read -r starts seconds ranks < <(own_read "$life_file" | awk '
        function number(key) {
            return match($0, "\"" key "\":[0-9.]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : 0
        }
        /^\{"record":"job_start"/ { starts = down = ranks = 0 }
        /^\{"record":"job_ranks"/ { if (!starts++) ranks = number("ranks") }
        /^\{"record":"job_training"/ { down += number("fault_to_step_sec") }
        END { printf "%d %d %d\n", starts, 100 * down, ranks }') || true
    number_or 0 starts seconds ranks
    super_number=$starts n_restarts=$starts down=$seconds
    ((ranks == 0)) || super_first_ranks=$ranks
}

# The number of ranks of the first start, which leaves it in a file.
supervise_first_ranks() {
    [[ -n $super_first_ranks ]] || super_first_ranks=$(cat "$work/first_ranks" 2>/dev/null) || true
    number_or '' super_first_ranks
}

# Sleeps, but not through a signal.
supervise_nap() { # SECONDS
    sleep "$1" &
    wait $! 2>/dev/null || true
}

# shellcheck disable=SC2317 # the traps call it
supervise_on_signal() { # NAME
    [[ -n $asked && ($1 == USR1 || $asked != USR1) ]] || asked=$1
    signals+=("$1")
    [[ -z $child ]] || supervise_pass_on
}

# Passes signals on to the start. Before its ranks have started, nothing can be saved. If it is not yet a process group, later.
supervise_pass_on() {
    local signal
    for signal in "${signals[@]}"; do
        if [[ -e $work/ranks ]] || ! own_folder "$work"; then
            kill "-$signal" "$child" 2>/dev/null || true
        else
            kill -TERM -- "-$child" 2>/dev/null || return 0
        fi
    done
    signals=()
}

# Starts the job, and waits for its end. Sets code.
supervise_start() {
    local ticks=0 reset=(env "--default-signal=HUP,INT,QUIT,TERM,USR1")
    supervise_first_ranks
    # The start reads a file there as a program.
    keep_work || true
    super_number=$((super_number + 1)) seen=no
    [[ $super_number -eq 1 && $super_known == no ]] || super_again=yes
    super_lenient=$super_again
    ((min_ranks == 0)) || super_lenient=yes
    rm -f "$work"/{ranks,fault,final}
    metrics_at=$(life_size "$super_path/metrics.jsonl")
    declare -p life_file life_origin job_id "${!super_@}" >"$work/state"
    # Background processes ignore SIGINT.
    "${reset[@]}" true 2>/dev/null || reset=(env)
    job_lifeline KILL
    # setsid: Ctrl-C reaches the start through supervise_on_signal only.
    life_clock
    setsid "${reset[@]}" "DPTRAIN_SUPERVISOR=$work" "DPTRAIN_JOB_AGE=$(((centi - supervised_since) / 100))" "${lifeline[@]}" bash "$here/run.sh" "${given[@]}" </dev/null {err}>&- &
    child=$! code=''
    until [[ -n $code ]]; do
        [[ ${#signals[@]} -eq 0 ]] || supervise_pass_on
        ticks=$((ticks + 1))
        job_wait "$child" "$(if [[ $seen == yes ]]; then echo 10; elif ((ticks < 150)); then echo 0.2; else echo 2; fi)"
        [[ $seen == yes ]] || supervise_look_for_step
    done
    child=''
}

# Records that the job trains: the first record of a step since its start.
supervise_look_for_step() {
    local run first from
    # The last line may be torn, and removed by the run.
    grep -q '"record":"step".*}$' < <(supervise_records) || return 0
    seen=yes
    supervise_first_ranks
    run=$(grep -m 1 '"record":"run"' < <(supervise_records)) || true
    first=$(life_field "$run" first_step) from=$(life_field "$run" resumed_from)
    number_or '' first
    life_clock
    life_add job_training "start:=$super_number" "first_step:=$first" "resumed_from=$from" \
        "steps_lost:=$(supervise_lost "$first")" "fault_to_step_sec:=${fault_at:+$(life_seconds $((centi - fault_at)))}"
    if [[ -n $fault_at ]]; then
        down=$((down + centi - fault_at))
        note "training again, $(life_seconds $((centi - fault_at))) s after the fault, from step ${first:-0}"
    fi
    fault_at=''
}

# Prints the records of this start; the file may be a new one.
supervise_records() {
    own_file "$super_path/metrics.jsonl"
    ((file_size >= metrics_at)) || metrics_at=0
    ((file_size == metrics_at)) || own_read "$super_path/metrics.jsonl" "$metrics_at"
}

# Prints how many steps are computed again; nothing if that is not known.
supervise_lost() { # FIRST STEP
    [[ -n $done_steps && -n $1 ]] || return 0
    echo $((done_steps > $1 ? done_steps - $1 : 0))
}

# Sets done_steps from the last record of a step.
supervise_note_steps() {
    local last
    last=$(life_tail "$super_path/metrics.jsonl" | grep '"record":"step".*}$' | tail -n 1) || true
    last=$(life_field "$last" step)
    number_or '' last
    done_steps=${last:+$((last + 1))}
}

# Reads what the start has left about its fault; records it.
supervise_fault() {
    local name value at='' what='' host='' rank='' phase='' step
    while read -r name value; do
        case $name in
        at) at=$value ;;
        what) what=$value ;;
        host) host=$value ;;
        rank) rank=$value ;;
        phase) phase=$value ;;
        esac
    done < <(cat "$work/fault" 2>/dev/null)
    life_clock
    number_or "$centi" at
    number_or '' rank
    # Of several faults in a row, the first is the one that stopped the training.
    fault_at=${fault_at:-$at}
    if ((code > 128)); then
        what="run.sh's start was killed by signal $((code - 128)) (SIG$(kill -l $((code - 128)) 2>/dev/null || echo unknown))"
        note "$what"
    fi
    what=${what:-the job ended with code $code}
    [[ $seen == no ]] || supervise_note_steps
    # Records are written in blocks, so the phase may know a later step.
    step=${phase##*step }
    number_or 0 step
    if ((step > ${done_steps:-0})); then done_steps=$step; fi
    life_add job_fault "start:=$super_number" "code:=$code" "what=$what" "host=$host" "rank:=$rank" "phase=$phase" \
        "steps:=$done_steps" "noticed_sec:=$(life_seconds $((at - life_origin)))"
    fault_what=$what
    rm -f "$work/ranks"
}

# Prints why the run ended, as its last record says.
supervise_why() {
    local line file=$super_path/metrics.jsonl
    own_file "$file"
    line=$(own_read "$file" $((file_size > 65536 ? file_size - 65536 : 0)) | grep -a '^{"record":"end",' | tail -n 1) || true
    line=$(life_field "$line" reason)
    [[ $line =~ ^[A-Za-z0-9\ ]{1,40}$ ]] && echo "$line" || echo finished
}

# Whether another start makes sense; if not, sets reason.
supervise_again() {
    local newest wait=0
    if [[ -n $asked && ($code -ne 0 || $asked == USR1) ]]; then
        reason="stopped by SIG$asked"
        return 1
    fi
    # The shell reports a start that was killed as 128 + signal, and one that was asked to end, by others, too.
    if ((code != 5)) && ! ((code > 128 && code != 129 && code != 130 && code != 143)); then
        reason=$([[ $code -eq 0 ]] && supervise_why || echo "ended with code $code")
        return 1
    fi
    supervise_fault
    code=5
    if [[ -e $work/final ]]; then
        reason=$(<"$work/final")
        return 1
    fi
    newest=$(life_newest "$super_path")
    if ((newest > super_newest)); then used=0 super_newest=$newest; fi
    used=$((used + 1)) n_restarts=$((n_restarts + 1))
    if ((used > restarts)); then
        n_restarts=$((n_restarts - 1))
        reason="$(count "$restarts" restart) without a new checkpoint in between"
        (die 5 "$reason (--restarts); the last fault: $fault_what") || true
        return 1
    fi
    # The first restart comes at once, later ones without progress after a growing pause.
    ((used < 2)) || wait=$((used > 6 ? 60 : 1 << used))
    supervise_say "$newest" "$wait"
    ((wait == 0)) || supervise_nap "$wait"
    [[ -z $asked ]] || { reason="stopped by SIG$asked" code=0; return 1; }
}

supervise_say() { # NEWEST WAIT
    local from="from the checkpoint of step $1" pause=''
    (($1 >= 0)) || from="from the newest checkpoint in $super_folder, if there is one"
    (($2 == 0)) || pause=" in $2 s"
    note "starting again$pause, $from; restart $used of $restarts without a new checkpoint"
}

# Prints hours, minutes and seconds, of hundredths.
supervise_time() { # HUNDREDTHS
    local s=$((($1 + 50) / 100))
    printf '%d:%02d:%02d' $((s / 3600)) $((s / 60 % 60)) $((s % 60))
}

# Prints the summary, and writes the last record.
supervise_end() {
    local good='' n_good=0 lost=0 n_lost=0 wall share='' kept=-1 useful=''
    life_clock
    wall=$((centi - life_origin))
    [[ $code -eq 0 ]] || kept=$(life_newest "$super_path")
    [[ $code -eq 0 || $kept -ge 0 ]] || kept=0
    own_file "$super_path/metrics.jsonl"
    if ((file_size > 0)); then
        read -r good n_good lost n_lost < <(life_steps "$super_path/metrics.jsonl" "$super_offset" "$kept") || true
    fi
    if [[ -n $good ]] && ((wall > 0)); then
        share=$(awk -v good="$good" -v wall="$wall" 'BEGIN { g = 100 * good / wall; printf "%.4f", (g > 1 ? 1 : g) }')
        useful=$(awk -v good="$good" 'BEGIN { printf "%d", 100 * good }')
    fi
    life_add job_end "code:=$code" "reason=$reason" "restarts:=$n_restarts" "useful_steps:=$n_good" "useful_sec:=$good" \
        "lost_steps:=$n_lost" "lost_sec:=$lost" "down_sec:=$(life_seconds "$down")" "wall_sec:=$(life_seconds "$wall")" \
        "goodput:=$share"
    # A job that never trained leaves nothing behind.
    if [[ -n $life_file && $code -ge 1 && $code -le 4 && ${super_made:-no} == yes ]] &&
        ! timeout -k 1 10 test -e "$super_path/metrics.jsonl"; then
        rm -f "$life_file"
        rmdir "$super_path" 2>/dev/null || true
        return
    fi
    [[ -n $share ]] || return 0
    note "$(count "$n_restarts" restart), $n_lost steps computed again; goodput $(awk -v s="$share" 'BEGIN { printf "%.1f", 100 * s }') % \
($(supervise_time "$useful") of steps that were kept, in $(supervise_time "$wall"))"
}

# Supervises the job to its end, and exits with its code.
supervise_run() { # DPTRAIN'S ARGUMENTS...
    local asked='' signals=() child='' code='' reason='' used=0 n_restarts=0 down=0 seen=no fault_at='' fault_what=''
    local done_steps='' metrics_at=0 lifeline=() centi now signal
    supervise_read_options "$@"
    make_work job
    supervise_open
    exec {err}>&2
    for signal in TERM INT HUP USR1; do
        # shellcheck disable=SC2064 # the name of the signal is that of now
        trap "supervise_on_signal $signal" "$signal"
    done
    while :; do
        supervise_start
        supervise_again || break
    done
    trap '' TERM INT HUP USR1
    supervise_stopped
    supervise_end
    exit "$code"
}

# The end of a job that a signal stopped while no rank was running.
supervise_stopped() {
    local shown
    [[ -n $asked && ! -e $work/ranks ]] && own_folder "$work" || return 0
    code=0
    if [[ $asked != USR1 ]]; then code=$((128 + $(kill -l "$asked"))); fi
    note "stopped by SIG$asked (exit code $code)"
    options_say_hidden
    options_shown "${given[@]}"
    note "continue with: $(printf '%q ' "$0" "${shown[@]}")"
}
