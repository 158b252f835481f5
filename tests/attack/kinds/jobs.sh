# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# Two jobs in one folder, wrong clocks, and caches that are not regular files.
kind jobs_two 3
kind clock_jump 2
kind clock_launcher 2
kind cache_odd 1

draw_jobs_two() { echo "np=2 step=$(between 1 25) how=$(pick resume resume overwrite mpirun) via=run"; }

# The second is refused and names the first, or waits; the first ends as if alone.
run_jobs_two() {
    local first first_out=out.first other wrong
    env_of_job=(DPTRAIN_FAULT_PACE=0.5) # the first runs for 20 s, longer than the second takes to start
    job_start out.first
    first=$job
    job_await_step "${P[step]}" || true
    other=$id
    id=$id.second
    case ${P[how]} in
    resume) job_start out --resume auto ;;
    overwrite) job_start out --overwrite ;;
    mpirun)
        P[via]=mpirun
        job_start out --resume auto
        ;;
    esac
    P[via]=run
    kill -0 "$first" 2>/dev/null && struck_now "a second job"
    job_wait
    local second=$code second_hang=$hang
    id=$other job=$first job_out=$dir/out.first
    job_wait
    [[ -z $second_hang ]] || bad+=("hang-second")
    codes=0 floor=-1
    judge_end
    # The second one must not have run too.
    [[ $second -ne 0 ]] || bad+=(two-owners)
    grep -aqiE 'another (job|run)|in use|owned|owner|belongs' "$dir/out" || bad+=(unnamed)
    words='.'
    for wrong in $(records_wrong "$dir/run"); do bad+=("$wrong"); done
    judge_last
    code=$second
}

# The wall clock of one rank, or of all, is set in the middle of the job.
draw_clock_jump() { echo "np=2 rank=$(pick 0 1) call=clock act=jump:$(pick 86400 -86400 600 -600 2000000000) at=$(between 0 99) via=run"; }
run_clock_jump() {
    codes=0
    job_with_shim
    judge
}

# The wall clock of run.sh is set: forward while the ranks start, or while they write the last checkpoint, which takes some
# seconds; or back, when mpirun no longer answers and a deadline has to end the job.
draw_clock_launcher() { echo "np=2 how=$(pick start asked back) sec=$(pick 600 86400 400000) step=$(between 1 8) via=run"; }
run_clock_launcher() {
    local pid sec=${P[sec]} i
    env_of_job=(DPTRAIN_FAULT_PACE=0.1)
    before_job=(env "LD_PRELOAD=$work/wall_clock.so" "DPTRAIN_CLOCK=$dir/clock")
    case ${P[how]} in
    start) codes=0 env_of_job=("DPTRAIN_FAULT=rank=0 call=MPI_Init_thread act=delay:3") ;;
    asked) codes=143 env_of_job=(DPTRAIN_FAULT_PACE=2.5) ;;
    back) codes="5 143" sec=-$sec ;;
    esac
    job_start out
    if [[ ${P[how]} == start ]]; then
        for ((i = 0; i < 200 && $(job_pids mpirun | wc -l) == 0; i++)); do sleep 0.05; done
        sleep 0.3
    elif [[ ${P[how]} == asked ]]; then
        job_await_step 1 || true
        kill -TERM "$(job_launcher)"
        sleep 0.2
    else
        job_await_step "${P[step]}" || true
        pid=$(job_pids mpirun | head -n 1)
        [[ -z $pid ]] || kill -STOP "$pid"
        pid=$(job_launcher)
        [[ -z $pid ]] || kill -TERM "$pid"
    fi
    echo "$sec" >"$dir/clock"
    kill -0 "$job" 2>/dev/null && struck_now "run.sh's clock set by $sec s"
    job_wait
    judge
}

draw_cache_odd() { echo "np=2 how=$(pick fifo folder file readonly device) via=run"; }
run_cache_odd() {
    local cache=$dir/cache
    codes=0
    mkdir -p "$cache/dptrain"
    case ${P[how]} in
    file) rm -r "$cache/dptrain" && : >"$cache/dptrain" ;;
    readonly) rm -r "$cache" && cache=/proc ;;
    *) cache_fill "$cache" ;;
    esac
    env_of_job=("XDG_CACHE_HOME=$cache")
    # Bits that do not depend on the machine need no measurements, and no cache.
    bits=()
    struck_now "cache: ${P[how]}"
    job_start out
    job_wait
    judge_end
}

# Puts something odd in place of every file that a run makes there.
cache_fill() { # CACHE
    local file
    env_of_job=("XDG_CACHE_HOME=$1")
    bits=()
    job_start out.cache
    job_wait
    rm -rf "$dir/run"
    find "$1" -type f | while read -r file; do
        rm "$file"
        case ${P[how]} in
        fifo) mkfifo "$file" ;;
        folder) mkdir "$file" ;;
        device) ln -s /dev/zero "$file" ;;
        esac
    done
}
