# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# Signals from outside to a rank, to mpirun, and to run.sh, at start, in training, and at the end.
kind signal_rank 4
kind signal_mpirun 4
kind signal_launcher 4
kind launcher_again 2

signal_draw() { # SIGNAL...
    local np
    np=$(pick 2 3)
    echo "np=$np rank=$(between 0 $((np - 1))) signal=$(pick "$@") step=$(pick 0 1 "$(between 2 38)" "$(between 3 37)" 38 39) via=run"
}
draw_signal_rank() { signal_draw KILL STOP SEGV TERM ABRT BUS; }
draw_signal_mpirun() { signal_draw KILL STOP SEGV TERM INT HUP; }
draw_signal_launcher() { signal_draw KILL STOP TERM INT HUP USR1; }
draw_launcher_again() { echo "np=2 step=$(between 1 30) via=run how=$(pick resume resume overwrite)"; }

signal_target() { if [[ $1 == launcher ]]; then job_launcher; else job_pids "$@" | head -n 1; fi; } # PROCESS [RANK]

# Starts a job that lasts, and sends a signal to one of its processes at a step.
signal_send() { # PROCESS [RANK]
    local pid=''
    env_of_job+=(DPTRAIN_FAULT_PACE=0.05)
    job_start out
    if [[ ${P[step]} == 0 ]]; then
        local i
        for ((i = 0; i < 200; i++)); do
            pid=$(signal_target "$@")
            [[ -z $pid ]] || break
            sleep 0.02
        done
    else
        job_await_step "${P[step]}" || true
        pid=$(signal_target "$@")
    fi
    [[ -z $pid ]] || { kill -"${P[signal]}" "$pid" 2>/dev/null && struck_now "$1 ${2:-} $pid SIG${P[signal]}"; }
    job_wait
}

run_signal_rank() {
    words="[rR]ank ${P[rank]}\\b"
    # In its last moments everything may be done.
    codes="5"
    [[ ${P[step]} -lt 38 ]] || codes="0 5"
    signal_send dptrain "${P[rank]}"
    # SIGTERM asks a rank to end: the job stops and says so.
    [[ ${P[signal]} != TERM ]] || { codes+=" 0 1 143" words=''; }
    [[ $code -ne 0 ]] || words=''
    judge
}

run_signal_mpirun() {
    words='error:.*mpirun'
    codes="5"
    [[ ${P[step]} -lt 38 ]] || codes="0 5"
    signal_send mpirun
    case ${P[signal]} in TERM | INT | HUP) codes+=" 1 130 143" words='' ;; esac
    [[ $code -ne 0 ]] || words=''
    judge
}

# run.sh killed or stopped: the job must not outlive it for ever, and the next one finds everything.
run_signal_launcher() {
    codes="5"
    case ${P[signal]} in
    TERM) codes=143 ;;
    INT) codes=130 ;;
    HUP) codes=129 ;;
    USR1) codes="0 5" ;;
    KILL) codes=137 ;;
    STOP) codes="0 5 137" ;;
    esac
    [[ ${P[step]} -lt 38 && ${P[step]} -gt 0 ]] || codes+=" 0 5"
    if [[ ${P[signal]} == STOP ]]; then stopped_launcher; else signal_send launcher; fi
    # The signal came too late.
    if grep -aq '^finished after' "$dir/out"; then codes+=" 0"; fi
    # Nobody is left to say a word.
    if [[ ${P[signal]} == KILL || ${P[step]} == 0 ]]; then echo "killed by a signal" >>"$dir/out"; fi
    judge
}

# A stopped launcher goes on after some seconds; ranks may have ended in between.
stopped_launcher() {
    local pid
    env_of_job+=(DPTRAIN_FAULT_PACE=0.05)
    job_start out
    job_await_step "${P[step]}" || true
    pid=$(job_launcher)
    if [[ -n $pid ]] && kill -STOP "$pid" 2>/dev/null; then
        struck_now "run.sh SIGSTOP"
        sleep 4
        kill -CONT "$pid"
    fi
    job_wait
}

# run.sh is killed, and a scheduler starts it again at once: ranks of the first may still be there.
run_launcher_again() {
    local pid first
    env_of_job=(DPTRAIN_FAULT_PACE=0.15)
    job_start out
    job_await_step "${P[step]}" || true
    pid=$(job_launcher)
    [[ -n $pid ]] || { job_wait; return 0; }
    kill -KILL "$pid" && struck_now "run.sh SIGKILL, started again"
    wait "$job" 2>/dev/null || true
    first=$(job_pids dptrain | wc -l)
    floor=$(announced_step)
    if [[ ${P[how]} == overwrite ]]; then resume=(--overwrite) floor=-1; fi
    judge_again
}

judge_again() {
    local i wrong
    env_of_job=(DPTRAIN_FAULT_PACE=0.05)
    # The successor may wait for the first to die, or be refused while it lives.
    for ((i = 0; i < 8; i++)); do
        job_start out "${resume[@]}"
        job_wait
        [[ $code -ne 0 && -z $hang ]] || break
        sleep 1
    done
    codes=0
    judge_end
    for wrong in $(records_wrong "$dir/run"); do bad+=("$wrong"); done
    judge_last
}
