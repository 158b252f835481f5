# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2013,SC2015,SC2034,SC2154 # variables of attack.sh
# Starts a job, watches it until it ends or hangs, and finds its processes. Sourced by attack.sh.
#
# A fault works in $dir, with its parameters in the array P. Every process of a job has DPTRAIN_ATTACK=$id in its environment.
declare -A P
n_steps=40 every=4 log_every=10 bits=(--reproducible 12) grace_sec=10 launcher_sec=35 start_sec=60

uptime_ms() { # monotonic, unlike $SECONDS
    local up
    read -r up _ </proc/uptime
    echo "$((10#${up/./}))0"
}

# The shim, the wrapper that preloads it into the ranks only, and the data.
job_compile() {
    "${MPICC:-mpicc}" -shared -fPIC -O2 -Wall -o "$work/shim.so" "$here"/shim*.c -ldl -pthread ||
        die 4 "the shim does not compile"
    "${CC:-cc}" -shared -fPIC -O2 -Wall -o "$work/wall_clock.so" "$here/wall_clock.c" || die 4 "wall_clock.c does not compile"
    "$real" data synth digits --out "$work/data" --train 256 --val 64 >/dev/null || die 4 "data synth fails"
    job_wrapper "$work/bin" "$work/shim.so" "$real"
}

# The same, and the undisturbed runs.
job_prepare() {
    job_compile
    printf -v attack_id '%s.%s' "$$" "$RANDOM$RANDOM"
    local np
    for np in 2 3; do
        job_reference "$np" whole "" "$n_steps" || die 4 "the undisturbed run fails"
        # Killed after a while, for faults between two runs.
        job_reference "$np" half "rank=0 call=fputs path=metrics.jsonl n=30 act=kill" 0 || die 4 "no run to continue"
    done
}

job_wrapper() { # FOLDER SHIM PROGRAM
    mkdir -p "$1"
    # Named like the program, because run.sh finds ranks by name. A limit is "RANK OPTIONS OF ulimit"; one in a file is for one
    # start.
    cat >"$1/dptrain" <<END
#!/usr/bin/env bash
[[ -n \${OMPI_COMM_WORLD_RANK:-} ]] || exec "$3" "\$@"
if [[ -n \${DPTRAIN_FAULT_FOLDER:-} ]] && grep -qs "^\$OMPI_COMM_WORLD_RANK " "\$DPTRAIN_FAULT_FOLDER/limit"; then
    mv "\$DPTRAIN_FAULT_FOLDER/limit" "\$DPTRAIN_FAULT_FOLDER/limit.\$\$"
    DPTRAIN_FAULT_LIMIT=\$(<"\$DPTRAIN_FAULT_FOLDER/limit.\$\$")
fi
if [[ -n \${DPTRAIN_FAULT_LIMIT:-} && \${DPTRAIN_FAULT_LIMIT%% *} == "\${OMPI_COMM_WORLD_RANK:-}" ]]; then
    # shellcheck disable=SC2086
    ulimit \${DPTRAIN_FAULT_LIMIT#* } || exit 98
fi
exec env LD_PRELOAD="$2" "$3" "\$@"
END
    chmod +x "$1/dptrain"
}

job_reference() { # NP NAME FAULT STEPS
    local id=$attack_id.reference before_job=()
    dir=$work/$2.$1 P=([np]=$1 [via]=run) args=(--allreduce host)
    mkdir -p "$dir"
    env_of_job=("DPTRAIN_FAULT_COUNT=$dir/count" ${3:+"DPTRAIN_FAULT=$3"})
    job_start out && job_wait
    if [[ $4 -gt 0 && ($code -ne 0 || $(steps_done) -ne $4) ]]; then
        cat "$dir/out" >&2
        return 1
    fi
    rm -f "$dir"/fault*
    find "$dir/run" -name 'ckpt-*' | grep -q .
}

# Starts dptrain train in $dir in the background, with $env_of_job, and $args besides. Sets job, job_out.
env_of_job=() args=()
job_start() { # OUTPUT [--resume auto …]
    local words launch
    words=(train --model lenet5 --data "${data:-$work/data}" --batch 48 "${bits[@]}" --steps "$n_steps" --threads 1
        --checkpoint-every "$every" --log-every "$log_every" --timeout "$timeout_sec" --out run "${args[@]}" "${@:2}")
    job_out=$dir/$1
    if [[ ${P[via]:-run} == mpirun ]]; then
        mpi_flags "${P[np]}"
        # With mpirun's own messages, as a user starts it.
        if [[ ${MPI_FLAGS[0]} == -q ]]; then MPI_FLAGS=("${MPI_FLAGS[@]:1}"); fi
        launch=(mpirun "${MPI_FLAGS[@]}" -np "${P[np]}" "$work/bin/dptrain")
    else
        launch=("$root/scripts/run.sh" -np "${P[np]}" --timeout-start 20 --grace 5 --)
    fi
    # A shell in the background, or nohup, ignores signals, and so would its children.
    (cd "$dir" && exec env --default-signal=HUP,INT,QUIT "DPTRAIN_ATTACK=$id" "DPTRAIN_TIMEOUT_START=$timeout_sec" \
        "DPTRAIN_BIN=$work/bin/dptrain" "DPTRAIN_FAULT_LOG=$dir/fault" \
        "${env_of_job[@]}" "${before_job[@]}" "${launch[@]}" "${words[@]}") >"$job_out" 2>&1 </dev/null &
    job=$!
}
before_job=()

# Prints PID NAME RANK of each live process of the job. run.sh, which has become `dptrain run`, is named
# launcher here.
job_processes() {
    local pid name of environ
    for environ in $(grep -lsz "^DPTRAIN_ATTACK=$id\$" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${environ#/proc/} pid=${pid%/environ}
        read -r name 2>/dev/null <"/proc/$pid/comm" || continue
        of=$(tr '\0' '\n' 2>/dev/null <"$environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p') || true
        [[ -n $of || $(readlink "/proc/$pid/exe") != */dptrain ]] || name=launcher
        echo "$pid $name ${of:--}"
    done
}

job_pids() { # NAME [RANK]
    job_processes | awk -v name="$1" -v rank="${2:-}" '$2 == name && (rank == "" || $3 == rank) { print $1 }' | sort -n
}

# The launcher itself: its children are younger, but may have lower numbers.
job_launcher() {
    local pid name of fields
    while read -r pid name of; do
        [[ $name == launcher ]] && process_stat "$pid" || continue
        echo "${fields[19]} $pid"
    done < <(job_processes) | sort -n | sed -n '1s/.* //p'
}

# All processes of this job, by id.
job_kill() {
    local pid
    for pid in $(job_processes | cut -d ' ' -f 1); do kill -KILL "$pid" 2>/dev/null || true; done
}

job_kill_all() {
    local environ
    for environ in $(grep -lsz "^DPTRAIN_ATTACK=${attack_id:-none}\\." /proc/[0-9]*/environ 2>/dev/null); do
        environ=${environ#/proc/}
        kill -KILL "${environ%/environ}" 2>/dev/null || true
    done
}

steps_done() { stat -L -c %s "$dir/fault.steps" 2>/dev/null || echo 0; }

# Waits until the job has recorded STEP steps; fails if it has ended.
job_await_step() { # STEP
    local i
    for ((i = 0; i < 600; i++)); do
        (($(steps_done) < $1)) || return 0
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# A fault from outside has struck; only then may the outcome count.
struck_now() { # WHAT
    local at
    at=$(uptime_ms)
    echo "struck at=$((at / 1000)).00 $1" >>"$dir/fault"
}

# What shows that training goes on, or that the fault has struck just now. Messages and records written at
# the end do not count.
job_progress() { stat -L -c %s "$dir/fault" "$dir/fault.steps" 2>/dev/null | tr '\n' ' '; }

# Waits until the launcher and every process of the job has ended. Sets code, took_ms since the fault or the last progress,
# and hang: a name if something outlived the deadline, which runs from the last progress; a start that no
# fault has struck may take longer. Launchers have some more time after their last rank.
job_wait() {
    local last now seen='' progress ranks gone=0 limit
    code='' hang='' last=$(uptime_ms)
    while :; do
        now=$(uptime_ms) progress=$(job_progress)
        if [[ $progress != "$seen" ]]; then seen=$progress last=$now; fi
        if [[ -z $code ]] && ! kill -0 "$job" 2>/dev/null; then
            code=0
            { wait "$job" || code=$?; } 2>/dev/null
        fi
        ranks=$(job_pids dptrain | wc -l)
        if ((ranks > 0)); then gone=0; elif ((gone == 0)); then gone=$now; fi
        if [[ -n $code ]] && ((ranks == 0)); then break; fi
        limit=$((timeout_sec + grace_sec))
        [[ -s $dir/fault && $job_out == "$dir/out" ]] || limit=$((limit + start_sec))
        if ((ranks > 0 && now - last > 1000 * limit)); then
            hang=ranks
            [[ -z $code ]] || hang=orphans
        elif [[ -z $code ]] && ((gone > 0 && now - gone > 1000 * launcher_sec)); then
            hang=launcher
        fi
        [[ -z $hang ]] || break
        sleep 0.25
    done
    took_ms=$((now - last))
    [[ -z $hang ]] || job_processes >"$dir/hung"
    if [[ -n $hang ]]; then job_kill; fi
    { wait "$job" || true; } 2>/dev/null
    code=${code:-137}
}

# Turns at=PERCENT into the number of a call, from the undisturbed run's counts.
nth_call() { # RANK CALL PATH PERCENT
    local n
    n=$(awk -v name="$2${3:+:$3}" '$1 == name { print $2 }' "$work/whole.${count_np:-${P[np]}}/count.$1" 2>/dev/null)
    echo $((1 + ${n:-1} * $4 / 100))
}

# Runs the job with the fault of P: rank, call, act, and path, at (percent of its calls), times, min, own.
job_with_shim() {
    local spec key
    spec="rank=${P[rank]} call=${P[call]} act=${P[act]} n=$(nth_call "${P[rank]}" "${P[call]}" "${P[path]:-}" "${P[at]:-0}")"
    for key in path times min own; do [[ -z ${P[$key]:-} ]] || spec+=" $key=${P[$key]}"; done
    env_of_job+=("DPTRAIN_FAULT=$spec")
    job_start out
    job_wait
}
