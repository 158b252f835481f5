# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh and of the storm
# Ranks, mpirun and the supervisor: killed and stopped.
storm_kind kill_training 5 4 resumes
storm_kind kill_start 3 1 resumes
storm_kind kill_allreduce 3 1 resumes
storm_kind kill_evaluation 4 1 resumes
storm_kind kill_copy 3 1 resumes
storm_kind kill_write 5 1 resumes
storm_kind stop_forever 3 2 resumes
storm_kind stop_briefly 3 1 'goes on'
storm_kind mpirun_killed 4 2 resumes
storm_kind supervisor_killed 4 2 'started again, resumes'
storm_kind memory_limit 3 0 'ends with 4, or resumes'

storm_draw_rank() { echo "rank=$(between 0 11) wait=$(between 0 60)"; }
draw_kill_training() { storm_draw_rank; }
draw_kill_start() { echo "$(storm_draw_rank) call=$(pick MPI_Init_thread MPI_Init_thread MPI_Comm_split MPI_Bcast)"; }
draw_kill_allreduce() { storm_draw_rank; }
draw_kill_evaluation() { storm_draw_rank; }
draw_kill_copy() { storm_draw_rank; }
draw_kill_write() { echo "rank=0 wait=$(between 0 60) call=$(pick write write write fsync rename open) n=$(between 1 30)"; }
draw_stop_forever() { storm_draw_rank; }
draw_stop_briefly() { echo "$(storm_draw_rank) sec=$(pick 1 2 4)"; }
draw_mpirun_killed() { echo "wait=$(between 0 60) signal=$(pick KILL KILL SEGV TERM)"; }
draw_supervisor_killed() { echo "wait=$(between 0 60)"; }
draw_memory_limit() { echo "$(storm_draw_rank) limit=$(pick 200000 400000 500000 600000 700000 800000)"; }

# A rank that is named, with its host.
storm_names() { # RANK
    words="[rR]ank $1 on $(storm_host "$1")|[rR]ank $1 .*$(storm_host "$1")|\"host\":\"$(storm_host "$1")[^\"]*\",\"rank\":$1,"
}

strike_kill_training() {
    local rank
    rank=$(storm_rank)
    storm_names "$rank"
    storm_hit KILL dptrain "$rank"
    storm_resumes
}

# Arms a fault of the next start of the ranks, and makes them start by killing one.
storm_at_next_start() { # SPEC
    local rank
    rank=$(storm_rank)
    storm_names "$rank"
    storm_control "rank=$rank start=1 $1"
    storm_hit KILL dptrain "$(((rank + 1) % $(life_last ranks ranks)))"
    at=''
    storm_await_strike 40
    storm_resumes 2
}

strike_kill_start() { storm_at_next_start "call=${P[call]} act=kill"; }

# The exchange of the first step's gradients.
strike_kill_allreduce() { storm_at_next_start "call=MPI_Alltoall min=1000 act=kill"; }

storm_kill_in() { # SPEC
    local rank
    rank=$(storm_rank)
    storm_names "$rank"
    storm_arm "rank=$rank $1 act=kill"
    storm_resumes
}

strike_kill_evaluation() { storm_kill_in "call=phase path=evaluating"; }
# The copy begins when the rank has handed its weights over, and goes on during the next step.
strike_kill_copy() { storm_kill_in "call=phase path=writing"; }
strike_kill_write() {
    local n=${P[n]}
    # Each is called once per checkpoint.
    [[ ${P[call]} == write ]] || n=1
    storm_kill_in "call=${P[call]} path=ckpt n=$n"
}

strike_stop_forever() {
    local rank
    rank=$(storm_rank)
    storm_names "$rank"
    storm_hit STOP dptrain "$rank"
    storm_resumes
}

strike_stop_briefly() {
    local rank
    rank=$(storm_rank)
    storm_hit STOP dptrain "$rank" || return 0
    sleep "${P[sec]}"
    storm_continue "$rank"
    storm_goes_on
}

storm_continue() { # RANK
    local pid
    pid=$(job_pids dptrain "$1" | head -n 1)
    [[ -z $pid ]] || kill -CONT "$pid" 2>/dev/null || true
}

strike_mpirun_killed() {
    words='mpirun (was killed|ended|outlived)'
    storm_hit "${P[signal]}" mpirun
    storm_resumes
}

# run.sh itself: its ranks end with it, and the same command goes on.
strike_supervisor_killed() {
    local until starts
    starts=$(life_count ranks)
    storm_hit KILL supervisor || return 0
    until=$(($(uptime_ms) + 1000 * (timeout_sec + grace_sec)))
    storm_await_end 5 || true
    while [[ -n $(job_pids dptrain) ]]; do
        (($(uptime_ms) < until)) || { bad+=(hang) && job_kill && break; }
        sleep 0.1
    done
    words='going on with job'
    storm_start
    outcome=none
    if storm_trains "$starts"; then outcome=resumed back=$(($(uptime_ms) - at)); else bad+=(no-resume); fi
    storm_judge
}

# One start of one rank has little memory. It says so, or dies of it.
strike_memory_limit() {
    local rank
    rank=$(storm_rank)
    echo "$rank -v ${P[limit]}" >"$dir/limit"
    P[first_kill]=1
    storm_hit KILL dptrain "$rank"
    storm_names "$rank"
    words+='|memory|allocat'
    storm_ends 4 storm_unlimit or
}

storm_unlimit() { rm -f "$dir/limit"; }
