#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The batch script under a real Slurm started here, of this machine and a second node on it; only with scripts/test.sh --slow.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

# shellcheck source=tests/cluster/slurm.bash
. "$BATS_TEST_DIRNAME/slurm.bash"

setup_file() {
    # bats 1.8 cannot skip here.
    export slurm_missing
    slurm_missing=$(slurm_why)
    [[ -z $slurm_missing ]] || return 0
    export DPTRAIN_BIND=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export root DPTRAIN_HOME XDG_CACHE_HOME=${DPTRAIN_TEST_WORK:-$BATS_FILE_TMPDIR}/cache
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    DPTRAIN_HOME=$root
    export tiny=$BATS_FILE_TMPDIR/tiny
    "${DPTRAIN_BIN:-$root/dptrain}" data synth digits --out "$tiny" --train 300 --val 64
    slurm_up second
}

teardown_file() { slurm_down; }

setup() {
    [[ -z $slurm_missing ]] || skip "$slurm_missing"
    cd "$BATS_TEST_TMPDIR" || return
    # Its ranks would look for it under its name.
    second down
}

submit() { # SBATCH'S OPTIONS -- ARGUMENTS; sets job
    local options=()
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    job=$(sbatch --parsable --ntasks=2 --time=5 "${options[@]}" "$root/scripts/dptrain.sbatch" "${@:2}")
}

# Lets jobs have the second node, or not.
second() { # resume|down
    scontrol update NodeName=second "State=$1" Reason="no capacity"
}

# Waits until the job's output contains the text; fails after a minute, or if the job has failed.
wait_output() { # TEXT [TIMES]
    local i
    for ((i = 0; i < 600; i++)); do
        if [[ $(grep -c -- "$1" "dptrain-$job.out" 2>/dev/null) -ge ${2:-1} ]]; then return 0; fi
        # A requeued job waits for a while first.
        if [[ $(slurm_job "$job" Reason) == BeginTime ]]; then scontrol update "JobId=$job" StartTime=now && sleep 3; fi
        sleep 0.2
    done
    cat "dptrain-$job.out"
    return 1
}

wait_state() { # STATE
    local i
    for ((i = 0; i < 600; i++)); do
        if [[ $(slurm_job "$job" JobState) == "$1" ]]; then return 0; fi
        sleep 0.2
    done
    scontrol show job "$job"
    cat "dptrain-$job.out"
    return 1
}

train=(train --model mlp --batch 20 --threads 1 --algorithms fixed --lr 0.01)

@test "a job pre-empted by SIGUSR1 is requeued, resumes from its checkpoint and ends" {
    submit -- "${train[@]}" --data "$tiny" --epochs 200
    wait_output '^epoch 1 '
    scancel --signal=USR1 --batch "$job"
    wait_output "requeueing job $job (code 0, restart 1)"
    wait_output '^finished after 3000 steps' 1
    wait_state COMPLETED
    grep -v '^epoch' "dptrain-$job.out"
    [ "$(slurm_job "$job" Restarts)" = 1 ]
    grep -q 'asking the job for a checkpoint' "dptrain-$job.out"
    # The checkpoint was written where the job stopped, and the second run resumed there.
    grep -q 'resumed from .* at step' "dptrain-$job.out"
    [ "$(sed -nE 's/^stopped by SIGUSR1 after ([0-9]+) steps.*/\1/p' "dptrain-$job.out")" = \
        "$(sed -nE 's/.*resumed from .* at step ([0-9]+)$/\1/p' "dptrain-$job.out")" ]
}

@test "ranks started by srun" {
    DPTRAIN_LAUNCHER=srun submit -- "${train[@]}" --data "$tiny" --steps 3
    wait_output '^finished after 3 steps'
    wait_state COMPLETED
    grep -q 'ranks   2 on 1 host' "dptrain-$job.out"
}

@test "an error of dptrain is the job's, and it is not requeued" {
    submit -- train --data /no/such/folder
    wait_state FAILED
    cat "dptrain-$job.out"
    [[ "$(slurm_job "$job" ExitCode)" == [234]:0 ]]
    [ "$(grep -c requeueing "dptrain-$job.out")" -eq 0 ]
}

@test "a rank that is killed: the job starts again inside its allocation" {
    DPTRAIN_RESTARTS=2 submit -- "${train[@]}" --data "$tiny" --epochs 200 --checkpoint-every 50
    wait_output '^epoch 1 '
    for pid in $(pgrep -x dptrain); do
        environ=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ") || true
        [[ $environ != *"PWD=$PWD"* || $environ != *"OMPI_COMM_WORLD_RANK=1"* ]] || kill -KILL "$pid"
    done
    wait_output 'training again, [0-9.]* s after the fault'
    wait_output '^finished after 3000 steps'
    wait_state COMPLETED
    [ "$(slurm_job "$job" Restarts)" = 0 ]
    grep -q 'rank 1 on .* was killed by signal 9' "dptrain-$job.out"
}

@test "--nodes=1-2 with one node down: the job runs on the other, and names both" {
    submit --nodes=2 -- "${train[@]}" --data "$tiny" --steps 3
    two=$job
    submit --nodes=1-2 --ntasks-per-node=2 --exclusive -- "${train[@]}" --data "$tiny" --steps 3
    wait_output '^finished after 3 steps'
    wait_state COMPLETED
    cat "dptrain-$job.out"
    grep -qx "dptrain.sbatch: nodes of job $job: $(hostname -s)" "dptrain-$job.out"
    grep -qx 'dptrain.sbatch: not available: second (down: no capacity)' "dptrain-$job.out"
    grep -q 'ranks   2 on 1 host' "dptrain-$job.out"
    # Who asks for two nodes waits.
    [ "$(slurm_job "$two" JobState)" = PENDING ]
    scancel "$two"
    # With both up, the same request has both.
    second resume
    job=$(sbatch --parsable --nodes=1-2 --ntasks=4 --ntasks-per-node=2 --exclusive --output=both --wrap 'printenv SLURM_JOB_NUM_NODES')
    wait_state COMPLETED
    [ "$(cat both)" = 2 ]
}

@test "data is staged on every node before the job" {
    DPTRAIN_STAGE=$tiny:$BATS_TEST_TMPDIR/local submit -- "${train[@]}" --data "$BATS_TEST_TMPDIR/local" --steps 3
    wait_output '^finished after 3 steps'
    wait_state COMPLETED
    cat "dptrain-$job.out"
    grep -q "local is complete: " "dptrain-$job.out"
    diff -r "$tiny" "$BATS_TEST_TMPDIR/local"
}
