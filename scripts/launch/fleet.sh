# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh, of its supervisor and of the other parts
# The hosts of a supervised job when it starts again: asks all of them side by side, leaves out those that do not answer or
# are not fit, and waits while too few are left. Sourced by run.sh.
#
# Besides the facts of probe.sh, host I has
#   folder records|job (what of the run's folder it sees: records of steps, or only the job's) · newest STEP (of its checkpoints)
#   data missing
#   check CODE · fail TEXT · same NAME VALUE (must be equal on all hosts)
# In $supervisor, left_out has lines `HOST UNTIL`, in monotonic seconds; names, `HOST ITS OWN NAME`; gpus.HOST, the number of GPUs at
# its first start.

# Runs on each host, before probe_host: ends what is left of the job's earlier starts, and looks at what the job needs.
fleet_host() { # CHECKS JOB FAMILIES PROGRAM WDIR PREFIX FOLDER DATA [OPTIONS OF DPTRAIN CHECK...]
    local checks=$1 job=$2 families=$3 program=$4 wdir=$5 prefix=$6 folder=$7 data=$8 i family
    # Ranks that were told to end save a checkpoint first.
    for ((i = 0; i < 15; i++)); do
        grep -qszxF "DPTRAIN_JOB=$job" /proc/[0-9]*/environ || break
        sleep 0.1
    done
    job_sweep_host "$job" '' '' >/dev/null
    for family in $families; do job_sweep_host "$job" "${family%:*}" "${family#*:}" >/dev/null; done
    if cd "$wdir" 2>/dev/null; then
        if timeout -k 1 5 test -e "$folder/metrics.jsonl"; then
            echo "folder records"
        elif timeout -k 1 5 grep -qsF "\"job\":\"$job\"" "$folder/job.jsonl"; then
            echo "folder job"
        fi
        timeout -k 1 5 ls "$folder" 2>/dev/null | sed -nE 's/^ckpt-0*([0-9]{1,15})\.h5$/newest \1/p' | sort -k 2n | tail -n 1
        [[ -z $data ]] || timeout -k 1 5 test -e "$data" || echo "data missing"
        [[ $checks == no ]] || fleet_check "$program" "$folder" "${@:9}"
    fi
    if [[ $checks == no ]]; then probe_slots && echo end; else probe_host "$program" "$wdir" "$prefix"; fi
}

# Runs on each host: a check of this host alone. The data is compared by the job itself.
fleet_check() { # PROGRAM FOLDER [OPTIONS...]
    local file code=0 line
    file=$(mktemp "${TMPDIR:-/tmp}/dptrain-check.XXXXXX" 2>/dev/null) || return 0
    timeout -k 1 15 "$1" check --only gpu,host,versions --data digits --smi-timeout 10 --out "$2" --json "$file" "${@:3}" \
        >/dev/null 2>&1 </dev/null || code=$?
    echo "check $code"
    tr '{' '\n' <"$file" | sed -nE -e 's/.*"check":"([^"]*)","name":"([^"]*)","status":"fail","found":"([^"]*)".*/fail \1, \2: \3/p' \
        -e 's/.*"name":"(NCCL|config)","status":"[^"]*","found":"([^"]*)".*/same \1 \2/p'
    rm -f "$file"
    read -r line < <(mpirun --version 2>/dev/null) || true
    echo "same OpenMPI ${line:-not found}"
}

# Keeps the hosts with these names, in this order, and their facts.
hosts_select() { # NAME...
    local list i name kept=() new=$facts.kept
    for name in "$@"; do
        for i in "${!host_name[@]}"; do [[ ${host_name[i]} != "$name" ]] || kept+=("$i"); done
    done
    for list in host_name host_slots host_gpus host_port host_user host_key host_env_file host_setup host_envs host_local \
        host_alias; do
        local -n values=$list
        local old=("${values[@]}")
        values=()
        for i in "${kept[@]}"; do values+=("${old[i]}"); done
    done
    [[ -n $facts ]] || return 0
    rm -rf "$new" && mkdir "$new"
    for i in "${!kept[@]}"; do cp "$facts/${kept[i]}.out" "$new/$i.out"; done
    facts=$new
    probe_read
}

# Reads the list of hosts, which may have changed. Fails, with a note, if it cannot be read now.
fleet_find() {
    local said
    hosts_clear
    facts=''
    [[ -z $hosts_command ]] || hosts_of_command "$hosts_command" "$supervisor"
    # In a shell of its own, because an error exits.
    if ! said=$(hosts_find 2>&1); then
        note "the list of hosts cannot be read: ${said#*error: }"
        return 1
    fi
    hosts_find 2>/dev/null
    hosts_mark_local
    if [[ $hosts_shell == ssh && (${#host_name[@]} -gt 1 || ${host_local[0]} == no) ]]; then hosts_ssh "$ssh_port" "$work"; fi
}

# Removes the hosts in their cool-down, unless the job waits for hosts anyway.
fleet_drop_cooling() {
    local name until kept=() now
    monotonic
    declare -A cooling=()
    while read -r name until; do number_or 0 until; ((until <= now)) || cooling[$name]=yes; done < <(cat "$supervisor/left_out" 2>/dev/null)
    for name in "${host_name[@]}"; do [[ -n ${cooling[$name]:-} ]] || kept+=("$name"); done
    hosts_select "${kept[@]}"
}

# Asks all hosts: sets facts. Hosts that the fault has made suspect get less time.
fleet_ask() {
    local i options=() families='' family pid
    host_patience=()
    for i in "${!host_name[@]}"; do
        if hosts_listed "$i" "$supervisor/suspects"; then host_patience[i]=2; fi
    done
    [[ -z $super_device || $super_device == auto ]] || options+=(--device "$super_device")
    while read -r family pid _; do families+="$family:$pid "; done < <(sort -u -k 1,2 "$supervisor/families" 2>/dev/null)
    facts=$work/facts
    rm -rf "$facts" "$facts.kept"
    remote_script "cpu_folder probe_ofi" "fleet_host fleet_check job_sweep_host job_hex probe_host probe_slots allowed_cores" "$checks" "$job_id" "$families" "$program" \
        "$wdir_wanted" "$prefix" "$super_folder" "$super_data" "${options[@]}" |
        hosts_ask "$facts" "${DPTRAIN_ASK_SECONDS:-20}"
    probe_read
    [[ -n $families ]] || return 0
    # A host that has answered has none of them any more; a long job would otherwise look for more and more.
    for i in "${!host_name[@]}"; do
        ! probe_has "$i" end || echo "${host_name[i]}"
    done | awk 'NR == FNR { answered[$1]; next } !($3 in answered)' - "$supervisor/families" >"$work/families"
    mv "$work/families" "$supervisor/families"
}

# Sets problems: why host I cannot take part; empty if it can. CHECKED: whether the check works on any host.
fleet_judge() { # I HASH CHECKED
    local name value text code now_gpus then_gpus
    problems=()
    if [[ $checks == yes ]]; then probe_judge "$1" "$2" "$program" "$wdir_wanted" || return 0; fi
    if ! probe_has "$1" end; then
        hosts_cause "$facts" "$1" "${host_patience[$1]:-${DPTRAIN_ASK_SECONDS:-20}}"
        problems=("$CAUSE") && return 0
    fi
    if probe_has "$1" data; then problems+=("no data at $super_data"); fi
    if probe_has "$1" fail; then
        while IFS= read -r text; do problems+=("dptrain check: $text"); done <<<"${fact[$1 fail]}"
    fi
    code=${fact[$1 check]:-0}
    # Without the job's environment the program may not run here at all; then nothing is known.
    if ((code > 1)) && [[ $3 == yes ]]; then problems+=("dptrain check ended with code $code"); fi
    while read -r name value; do
        [[ -z $name || $value == "${fleet_same[$name]-$value}" ]] || problems+=("$name: $value; most hosts have ${fleet_same[$name]}")
    done <<<"${fact[$1 same]:-}"
    fleet_gpus "$1"
    if read -r then_gpus 2>/dev/null <"$supervisor/gpus.${host_name[$1]}" && number_or 0 then_gpus && ((now_gpus < then_gpus)); then
        problems+=("$now_gpus of $then_gpus GPUs are left")
    fi
}

# Sets now_gpus: the number of host I's GPUs.
fleet_gpus() { # I
    local lines=()
    now_gpus=0
    if probe_has "$1" gpu; then mapfile -t lines <<<"${fact[$1 gpu]}" && now_gpus=${#lines[@]}; fi
}

# Notes of each host, at its first start, how many GPUs it has and how it calls itself.
fleet_note_hosts() {
    local i now_gpus
    [[ -n $supervisor && -n $facts ]] || return 0
    for i in "${!host_name[@]}"; do
        [[ ! -e $supervisor/gpus.${host_name[i]} ]] || continue
        fleet_gpus "$i"
        echo "$now_gpus" >"$supervisor/gpus.${host_name[i]}"
        echo "${host_name[i]} ${fact[$i name]:-}" >>"$supervisor/names"
    done
}

# Sets fit: the names of hosts that can take part. Says of each other one, once, why it is left out.
fleet_sift() {
    local i hash='' name checked=no text now
    local -A fleet_same=()
    [[ $checks == no ]] || hash=$(sha256sum <"$program" | cut -d ' ' -f 1)
    for i in "${!host_name[@]}"; do
        [[ ${fact[$i check]:-9} -gt 1 ]] || checked=yes
        while read -r name _; do [[ -z $name ]] || fleet_same[$name]=''; done <<<"${fact[$i same]:-}"
    done
    for name in "${!fleet_same[@]}"; do
        fleet_same[$name]=$(for i in "${!host_name[@]}"; do printf '%s\n' "${fact[$i same]:-}"; done |
            sed -n "s/^$name //p" | sort | uniq -c | sort -k1,1nr -s | sed -nE '1s/^ *[0-9]+ //p')
    done
    fit=()
    monotonic
    for i in "${!host_name[@]}"; do
        fleet_judge "$i" "$hash" "$checked"
        if [[ ${#problems[@]} -eq 0 ]]; then fit+=("${host_name[i]}") && continue; fi
        text=$(printf '; %s' "${problems[@]}")
        fleet_leave_out "${host_name[i]}" "${text#; }"
    done
}

fleet_leave_out() { # HOST WHY
    echo "$1 $((now + cool_down))" >>"$supervisor/left_out"
    [[ ${fleet_said[$1]:-} != "$2" ]] || return 0
    fleet_said[$1]=$2
    note "$1 is left out for $cool_down s: $2"
    life_add job_left_out "host=$1" "reason=$2" "cool_down_sec:=$cool_down"
}

# Puts a host first that has the run's folder, and its newest checkpoint: rank 0 resumes there. Fails if the folder may be on a
# host that is not left.
fleet_order() {
    local i newest best=-2 at='' names=() shared=no chief=''
    read -r chief 2>/dev/null <"$supervisor/chief" || true
    for i in "${!host_name[@]}"; do
        case ${fact[$i folder]:-} in
        records)
            newest=${fact[$i newest]:--1}
            if ((newest > best)); then best=$newest at=$i; fi
            ;;
        job) shared=yes ;;
        esac
        # Its rank 0 would have made the folder.
        [[ ${host_name[i]} != "$chief" ]] || shared=yes
    done
    if [[ -z $at ]]; then
        [[ $shared == no && -n $chief ]] || return 0
        fleet_why="none of them has $super_folder, and $chief is not among them; put the folder where all hosts see it"
        return 1
    fi
    ((best <= super_newest)) || super_newest=$best
    ((at > 0)) || return 0
    names=("${host_name[at]}")
    for i in "${!host_name[@]}"; do ((i == at)) || names+=("${host_name[i]}"); done
    note "rank 0 moves to ${host_name[at]}, which has the newest checkpoint"
    hosts_select "${names[@]}"
}

# Sets np to the largest number of ranks that the training allows, at most N; fails if it is below --min-ranks.
fleet_number() { # N
    local n most=$1
    if ((super_asked_np > 0 && super_asked_np < most)); then most=$super_asked_np; fi
    for ((n = most; n > 1; n--)); do ! fleet_allows "$n" || break; done
    if ((n < min_ranks || n < 1)); then
        fleet_why="they have slots for $1 ranks, and --min-ranks is $min_ranks"
        ((n == most)) || fleet_why="they have slots for $1 ranks, but $(fleet_rule), and --min-ranks is $min_ranks"
        return 1
    fi
    np=$n
    ((n == most)) || note "$most ranks are available, but $(fleet_rule): going on with $n"
}

# The samples of a step are fixed; their number need not divide by that of the ranks.
fleet_allows() { # N
    local shards=${super_shards:-0} batch=${super_global_batch:-0} group=${super_group:-1}
    ((shards == 0 || shards % $1 == 0)) && ((batch == 0 || batch / group >= $1))
}

# Prints which numbers of ranks the training allows.
fleet_rule() {
    local n all=() most=${super_shards:-0}
    if ((most > 0)); then
        for ((n = 1; n <= most; n++)); do ! fleet_allows "$n" || all+=("$n"); done
        echo "--reproducible $super_shards works on ${all[*]} ranks"
    else
        echo "a batch of $super_global_batch samples works on up to $((super_global_batch / ${super_group:-1})) ranks"
    fi
}

# Asks the hosts once. Fails, with the reason in fleet_why, if they are too few.
fleet_round() {
    local i slots=0 fit
    fleet_why='their list cannot be read'
    fleet_find || return 1
    [[ $waiting == yes ]] || fleet_drop_cooling
    fleet_why='none of them answers'
    ((${#host_name[@]} > 0)) || return 1
    fleet_ask
    fleet_sift
    hosts_select "${fit[@]}"
    ((${#host_name[@]} > 0)) || return 1
    fleet_order || return 1
    ((num_gpus > 0)) || hosts_fill_slots
    for i in "${!host_name[@]}"; do slots=$((slots + (num_gpus > 0 ? num_gpus : host_slots[i]))); done
    fleet_number "$slots"
}

# Gathers the hosts that can take part, and sets np. Waits for --wait-hosts if they are too few.
fleet_gather() {
    local waiting=no until=0 fleet_why='' now
    local -A fleet_said=()
    super_asked_np=$np
    [[ -z $super_per_rank || -z $super_first_ranks ]] || super_global_batch=$((super_per_rank * super_first_ranks))
    until fleet_round; do fleet_wait "$fleet_why" "too few hosts"; done
    rm -f "$supervisor/suspects"
}

# Waits for a moment, or ends this start when --wait-hosts has passed.
fleet_wait() { # WHY REASON
    monotonic
    if [[ $waiting == no ]]; then
        waiting=yes until=$((now + wait_hosts))
        ((wait_hosts == 0)) || note "waiting for hosts, for at most $wait_hosts s: $1"
        life_add job_wait "reason=$1" "min_ranks:=$min_ranks"
    fi
    if ((now >= until)); then
        echo "$2" >"$supervisor/final"
        die 5 "no start was possible within $wait_hosts s (--wait-hosts): $1"
    fi
    sleep 1
}

# The same for a job on this machine alone: waits until the check succeeds.
fleet_local() {
    local waiting=no until=0 problems text now
    [[ $checks == yes ]] || return 0
    until fleet_local_round; do fleet_wait "$text" "this host is not fit"; done
    facts=''
}

fleet_local_round() {
    local host_name host_local=(yes) host_alias host_slots=("$np")
    local -A fleet_same=()
    host_name=("$(hostname)") host_alias=("$(hostname)")
    fleet_ask
    fleet_judge 0 "$(sha256sum <"$program" | cut -d ' ' -f 1)" no
    text=$(printf '; %s' "${problems[@]}") text=${text#; }
    [[ ${#problems[@]} -eq 0 ]]
}

# Sets words: dptrain's arguments, with what a later start changes.
fleet_words() { # DPTRAIN'S ARGUMENTS...
    local word skip=no drop=() add=()
    words=("$@")
    ((${#words[@]} > 0)) || words=(train)
    [[ $super_own_folder == no ]] || add+=(--out "$super_folder")
    # --resume FILE counts until the run has a checkpoint of its own.
    if [[ $super_again == yes && ($super_newest -ge 0 || $super_resume == @(|none|auto)) ]]; then
        drop+=(--resume --overwrite) add+=(--resume auto)
        [[ $super_overwrite != true ]] || add+=(--no-overwrite)
    fi
    if [[ -n $super_per_rank && -n $super_first_ranks && $super_first_ranks -ne $np ]]; then
        drop+=(--batch-per-rank) add+=(--batch "$super_global_batch")
        # The rate's reference, which a checkpoint would keep.
        [[ $super_newest -ge 0 || -n $super_lr_batch || ${super_lr_scale:-none} == none ]] || add+=(--lr-batch "$super_per_rank")
        note "the batch of $super_global_batch samples is kept on $np ranks"
    fi
    # More samples per rank, in parts that are not larger than before: as much memory. The shards of --reproducible stay as they
    # are, one after the other; cut in other parts, they would have other bits.
    if [[ -n $super_parts && ${super_shards:-0} == 0 && $super_again == yes ]] && ((super_first_ranks > np)); then
        drop+=(--accumulate) add+=(--accumulate $((super_parts * ((super_first_ranks + np - 1) / np))))
    fi
    set -- "${words[@]}"
    words=()
    for word in "$@"; do
        if [[ $skip == yes ]]; then skip=no && continue; fi
        if [[ " ${drop[*]} " == *" ${word%%=*} "* ]]; then
            [[ $word == *=* || $word == --overwrite ]] || skip=yes
            continue
        fi
        words+=("$word")
    done
    words+=("${add[@]}")
}
