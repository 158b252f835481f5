# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2015,SC2034,SC2154 # variables of attack.sh and of tests/cluster
# Faults of three hosts made of kernel namespaces (tests/cluster): ranks, daemons, hosts, links, data. Layouts: 3x1, and 2x2.
# shellcheck source=tests/cluster/cluster.bash
. "$root/tests/cluster/cluster.bash"
kind host_rank 6
kind host_processes 3
kind host_daemon 2
kind host_lost 2
kind link_cut 3
kind link_flap 1
kind host_data 1
kind host_launcher 1
kind host_shm 1

# A worker's own cluster, with copies of the programs where every host sees them.
hosts_begin() {
    local why
    why=$(cluster_why)
    [[ -z $why ]] || { note "this machine cannot run a cluster: $why"; return 1; }
    # The cluster ends with its owner, the shell that $$ names.
    cluster_up 3 && cluster_trust || return 1
    mkdir -p "$cluster/shared/attack/real"
    cp -r "$work/data" "$work/shim.so" "$cluster/shared/attack/"
    cp "$real" "$cluster/shared/attack/real/dptrain"
    job_wrapper "$cluster/shared/attack" "$cluster/shared/attack/shim.so" "$cluster/shared/attack/real/dptrain"
}

hosts_finish() { cluster_down || true; }

# After a host was killed.
hosts_again() {
    cluster_down || true
    hosts_begin
}

# As job_start, on hosts; the run is in $hdir, which all hosts see.
hosts_start() {
    local list=node1:1,node2:1,node3:1
    [[ ${P[layout]} == 3x1 ]] || list=node1:2,node2:2
    hdir=$cluster/shared/k$k
    mkdir -p "$hdir"
    args=(--allreduce auto)
    job_out=$dir/out
    # shellcheck disable=SC2016 # for the host's shell
    cluster_exec node1 env "DPTRAIN_ATTACK=$id" "DPTRAIN_TIMEOUT_START=$timeout_sec" \
        "DPTRAIN_BIN=$cluster/shared/attack/dptrain" "DPTRAIN_FAULT_LOG=$hdir/fault" "${env_of_job[@]}" sh -c 'cd "$0" && exec "$@"' "$hdir" "$root/scripts/run.sh" -H "$list" --no-checks \
        --interface "$cluster_subnet" --transport tcp --timeout-start 20 --grace 5 -- train --model lenet5 \
        --data "$cluster/shared/attack/data" --batch 48 "${bits[@]}" --steps "$n_steps" --threads 1 --checkpoint-every "$every" \
        --log-every "$log_every" --timeout "$timeout_sec" --out run "${args[@]}" >"$job_out" 2>&1 </dev/null &
    job=$!
    # The oracle's names for what is there.
    ln -sfn "$hdir/run" "$dir/run"
    ln -sfn "$hdir/fault" "$dir/fault"
    ln -sfn "$hdir/fault.steps" "$dir/fault.steps"
}

hosts_draw() {
    local layout rank
    layout=$(pick 3x1 3x1 2x2)
    if [[ $layout == 3x1 ]]; then rank=$(between 0 2); else rank=$(between 0 3); fi
    echo "layout=$layout np=$([[ $layout == 3x1 ]] && echo 3 || echo 4) rank=$rank"
}

# The host of P[rank].
hosts_of_rank() { if [[ ${P[layout]} == 3x1 ]]; then echo "node$((P[rank] + 1))"; else echo "node$((P[rank] / 2 + 1))"; fi; }

# Ends, then continues on one host with the same records: results do not depend on the hosts.
hosts_judge() {
    local shared=$hdir
    judge_end
    rm "$dir/run" "$dir/fault.steps"
    cp -r "$shared/run" "$dir/run" 2>/dev/null || mkdir -p "$dir/run"
    cp "$shared/fault" "$dir/fault.was" 2>/dev/null || true
    data=$work/data
    P[np]=2
    judge_resume
    rm -f "$dir/fault"
    [[ ! -e $dir/fault.was ]] || cp "$dir/fault.was" "$dir/fault"
    rm -rf "$shared"
}

# A job that lasts; waits for P[step].
hosts_begin_job() {
    env_of_job=(DPTRAIN_FAULT_PACE=0.05)
    hosts_start
    job_await_step "${P[step]}" || true
}

draw_host_rank() {
    echo "$(hosts_draw) call=$(pick MPI_Init_thread MPI_Finalize MPI_Bcast MPI_Allgather MPI_Allreduce MPI_Allreduce MPI_Alltoall)" \
        "at=$(between 0 60) act=$(pick stop stop kill kill exit:0 block segv)"
}
run_host_rank() {
    words="[rR]ank ${P[rank]}\\b.*$(hosts_of_rank)|$(hosts_of_rank).*[rR]ank ${P[rank]}\\b"
    [[ ${P[act]} != block ]] || words+='|transport'
    count_np=2
    local of=$((P[rank] > 0)) spec
    spec="rank=${P[rank]} call=${P[call]} act=${P[act]} n=$(nth_call "$of" "${P[call]}" "" "${P[at]}")"
    env_of_job=("DPTRAIN_FAULT=$spec")
    hosts_start
    job_wait
    hosts_judge
}

# Every process of the program on a host is stopped or killed.
draw_host_processes() { echo "$(hosts_draw) step=$(between 1 35) signal=$(pick STOP KILL)"; }
run_host_processes() {
    words="error.*$(hosts_of_rank)"
    hosts_begin_job
    cluster_exec "$(hosts_of_rank)" pkill "-${P[signal]}" -x dptrain && struck_now "$(hosts_of_rank) SIG${P[signal]}"
    job_wait
    hosts_judge
}

# The daemon of mpirun on a host.
draw_host_daemon() { echo "$(hosts_draw) step=$(between 1 35) signal=$(pick STOP KILL)"; }
run_host_daemon() {
    local host
    host=$(hosts_of_rank)
    hosts_begin_job
    if [[ $host == node1 ]]; then
        words='mpirun'
        cluster_exec node1 pkill "-${P[signal]}" -x 'mpirun|prterun' && struck_now "mpirun SIG${P[signal]}"
    else
        words="$host|mpirun"
        cluster_exec "$host" pkill "-${P[signal]}" -x 'orted|prted' && struck_now "orted of $host SIG${P[signal]}"
    fi
    # A stopped daemon may not matter until the end.
    [[ ${P[signal]} == KILL ]] || codes="0 5"
    job_wait
    [[ $code -ne 0 ]] || words=''
    hosts_judge
}

# Power loss.
draw_host_lost() { echo "$(hosts_draw) step=$(between 1 35)"; }
run_host_lost() {
    local host
    host=$(hosts_of_rank)
    # run.sh is on node1; with it goes the job.
    [[ $host != node1 ]] || host=node2
    words="error.*$host"
    hosts_begin_job
    cluster_kill "$host" && struck_now "$host lost"
    job_wait
    hosts_judge
    hosts_again
}

draw_link_cut() { echo "$(hosts_draw) step=$(between 1 35)"; }
run_link_cut() {
    local host
    host=$(hosts_of_rank)
    # Seen from node1, all others are gone.
    words="error.*$host"
    [[ $host != node1 ]] || words='error.*node[123]'
    hosts_begin_job
    cluster_cut "$host" && struck_now "link of $host cut"
    job_wait
    cluster_mend "$host"
    hosts_judge
    if [[ -n $hang ]]; then hosts_again; fi
}

# A link that is away for less than the deadline.
draw_link_flap() { echo "$(hosts_draw) step=$(between 1 35) sec=$(pick 1 2 3)"; }
run_link_flap() {
    codes=0
    hosts_begin_job
    cluster_cut "$(hosts_of_rank)" && struck_now "link of $(hosts_of_rank) away for ${P[sec]} s"
    sleep "${P[sec]}"
    cluster_mend "$(hosts_of_rank)"
    job_wait
    hosts_judge
}

# Another host has other data of the same size.
draw_host_data() { echo "$(hosts_draw) file=$(pick train-images train-labels t10k-images)"; }
run_host_data() {
    local host file changed=$cluster/shared/changed$k
    host=$(hosts_of_rank)
    file=$(cd "$work/data" && echo "${P[file]}"*)
    cp -r "$work/data" "$changed"
    printf '\x07' | dd of="$changed/$file" bs=1 seek=100 conv=notrunc status=none
    cluster_exec "$host" mount --bind "$changed" "$cluster/shared/attack/data"
    codes=3 words="$host|data|rank"
    hosts_start
    struck_now "other data on $host"
    job_wait
    cluster_exec "$host" umount "$cluster/shared/attack/data"
    judge_end
    [[ $code -ne 0 ]] || bad+=(wrong-bits)
    rm -f "$dir/fault" && cp "$hdir/fault" "$dir/fault"
    rm -rf "$hdir" "$changed"
}

# run.sh's host loses the launcher; the others must not go on for ever.
draw_host_launcher() { echo "$(hosts_draw) step=$(between 1 35)"; }
run_host_launcher() {
    codes="137 5"
    hosts_begin_job
    local pid
    pid=$(job_launcher)
    [[ -z $pid ]] || { kill -KILL "$pid" && struck_now "run.sh SIGKILL"; }
    job_wait
    echo "killed: signal 9" >>"$dir/out"
    hosts_judge
}

# A host without room in /dev/shm: the ranks do without shared memory, or say why they cannot start.
draw_host_shm() { echo "$(hosts_draw) size=$(pick 64k 1m 2m)"; }
run_host_shm() {
    local host
    host=$(hosts_of_rank)
    codes="0 4"
    cluster_exec "$host" mount -o "remount,size=${P[size]}" /dev/shm
    hosts_start
    struck_now "/dev/shm of $host has ${P[size]}"
    job_wait
    cluster_exec "$host" mount -o remount,size=1g /dev/shm
    hosts_judge
}
