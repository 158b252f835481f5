#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Checkpoints under faults: kill -9 at random moments, a full disk, a read-only one. scripts/test.sh --slow kills 100
# times instead of 6. If DPTRAIN_TEST_TABLE is set, each test appends its counts to that file as a row of a table:
# fault | trials | checkpoints lost | checkpoints corrupt | final weights equal to the undisturbed run's.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

ranks=2 steps=120 seed=20260203

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    export DATA=$BATS_FILE_TMPDIR/data
    "$BATS_TEST_DIRNAME/../../dptrain" data synth digits --out "$DATA" --train 640 --val 64
}

setup() {
    common_setup
    log=$BATS_TEST_TMPDIR/log
    job=''
    mpi_flags "$ranks"
}

teardown() {
    local pid
    for pid in $(job_pids); do kill -KILL "$pid" 2>/dev/null || true; done
}

# The log of a test that passes is not shown; the table is.
add_to_table() { # FAULT TRIALS LOST CORRUPT EQUAL
    [[ -n ${DPTRAIN_TEST_TABLE:-} ]] || return 0
    printf '| %s | %s | %s | %s | %s |\n' "$@" >>"$DPTRAIN_TEST_TABLE"
}

training=(train --model mlp --batch 64 --steps "$steps" --checkpoint-every 1 --threads 1 --log-every 10)

# Starts or resumes a run in $out in the background; $job is mpirun.
start_job() {
    mpirun "${MPI_FLAGS[@]}" -np "$ranks" "$dptrain" "${training[@]}" --data "$DATA" --resume auto --out "$out" \
        >>"$log" 2>&1 3>&- &
    job=$!
}

# mpirun and its ranks, found by the folder that they write to.
job_pids() { pgrep -f -- "--out $out( |\$)" || true; }

rank_pid() { # RANK
    local pid
    for pid in $(job_pids); do
        if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
            return
        fi
    done
}

# Waits until every process of the job is gone: only one job may write into a folder. A killed process loses its command
# line before it ends (it may wait for the disk), so processes seen earlier are also checked by id.
wait_gone() { # PIDS-SEEN...
    local i pid there
    wait "$job" || status=$?
    for ((i = 0; i < 600; i++)); do
        there=$(job_pids)
        for pid in "$@"; do
            if kill -0 "$pid" 2>/dev/null; then there+=" $pid"; fi
        done
        [[ -n $there ]] || return 0
        sleep 0.1
    done
    echo "processes of the job stay: $there"
    return 1
}

newest_step() {
    local files
    shopt -s nullglob
    files=("$out"/ckpt-*.h5)
    shopt -u nullglob
    ((${#files[@]} > 0)) || { echo -1; return; }
    local name=${files[-1]##*/ckpt-}
    echo $((10#${name%.h5}))
}

# Waits for a checkpoint newer than STEP, or the end of the job.
await_newer() { # STEP
    local i
    for ((i = 0; i < 1200; i++)); do
        (($(newest_step) <= $1)) && kill -0 "$job" 2>/dev/null || return 0
        sleep 0.05
    done
}

# Kills one rank or all at a random moment. Uses and counts in the test's variables.
kill_once() {
    local before victim pid pids
    before=$(newest_step)
    start_job
    # Half of the moments are counted from the start, half from a checkpoint, so that slow machines are also hit during
    # training.
    if ((RANDOM % 2)); then
        await_newer "$before"
        sleep "0.$(printf %03d $((RANDOM % 600)))"
    else
        sleep "$((RANDOM % 3)).$(printf %03d $((200 + RANDOM % 800)))"
    fi
    victim=$((RANDOM % (ranks + 1)))
    kill -0 "$job" 2>/dev/null || victim=none # it is through already
    mapfile -t pids < <(job_pids)
    case $victim in
    none) ;;
    "$ranks") # the whole job
        kill -KILL "${pids[@]}" 2>/dev/null || true
        ;;
    *)
        pid=$(rank_pid "$victim")
        # If the rank has not started yet, mpirun is killed instead.
        kill -KILL "${pid:-$job}" 2>/dev/null || true
        ;;
    esac
    status=0
    wait_gone "${pids[@]}"
    if [[ $victim != none && $status -ne 0 ]]; then n_kills=$((n_kills + 1)); fi
    look_after_kill "$before" "$victim"
}

# Every file named like a checkpoint is valid, and no earlier one is missing.
look_after_kill() { # BEFORE VICTIM
    local now
    now=$(newest_step)
    echo "# kill $n_kills: victim $2, code $status, newest step $1 -> $now"
    if ((now < $1)); then n_lost=$((n_lost + 1)); fi
    if ((now > $1)); then n_during=$((n_during + 1)); fi
    ((now < 0)) || "$dptrain" checkpoint verify "$out" >"$log.verify" 2>&1 || {
        n_corrupt=$((n_corrupt + 1))
        cat "$log.verify"
    }
}

last=$(printf 'ckpt-%012d.h5' "$steps")

finish_and_compare() { # WHOLE
    if [[ ! -e $out/$last ]]; then
        start_job
        status=0
        wait_gone
        [ "$status" -eq 0 ]
    fi
    # Equal contents are equal files, byte for byte: weights, momentum, position and options.
    n_compared=$((n_compared + 1))
    cmp "$out/$last" "$1/$last" || n_different=$((n_different + 1))
    # Remains of killed writers are gone.
    find "$out" -name '.ckpt*'
    [ -z "$(find "$out" -name '.ckpt*')" ]
}

@test "kill -9 of a rank or the whole job at random moments: nothing lost, the same final weights" {
    wanted=6
    [[ -z ${DPTRAIN_TEST_SLOW:-} ]] || wanted=100
    n_kills=0 n_during=0 n_lost=0 n_corrupt=0 n_compared=0 n_different=0
    RANDOM=$seed
    echo "# seed $seed, $wanted kills"
    start_job
    status=0
    wait_gone
    [ "$status" -eq 0 ]
    mv "$out" "$out-whole"
    for ((tries = 0; n_kills < wanted && tries < 3 * wanted; tries++)); do
        kill_once
        if [[ -e $out/$last ]]; then
            finish_and_compare "$out-whole"
            rm -r "$out"
        fi
    done
    [ ! -d "$out" ] || finish_and_compare "$out-whole"
    echo "# $n_kills kills, $n_during of them after new checkpoints; $n_lost lost, $n_corrupt corrupt," \
        "$n_different of $n_compared finished runs differ"
    add_to_table "kill -9 of a rank or the whole job (seed $seed, $ranks ranks, a checkpoint every step)" "$n_kills" \
        "$n_lost" "$n_corrupt" "$((n_compared - n_different)) of $n_compared finished runs"
    [ "$n_kills" -eq "$wanted" ]
    [ "$n_during" -ge $((wanted / 4)) ]
    [ "$n_lost" -eq 0 ]
    [ "$n_corrupt" -eq 0 ]
    [ "$n_different" -eq 0 ]
}

# ---- A full or read-only disk: a small tmpfs in a private mount namespace ----
# Runs a function of this file there; $out is on the small disk. An mlp's checkpoint takes 1.9 MB.
on_small_disk() { # FUNCTION
    mkdir -p "$BATS_TEST_TMPDIR/disk"
    unshare -m true 2>/dev/null || skip "mounts of one's own are not allowed here (unshare -m)"
    unshare -m mount -t tmpfs -o size=1m tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null ||
        skip "mounting a tmpfs is not allowed here"
    out=$BATS_TEST_TMPDIR/disk/run
    export root dptrain out log steps DATA last disk=$BATS_TEST_TMPDIR/disk
    # shellcheck disable=SC2163 # functions are exported
    export -f on_disk try start_on_disk await_end verified no_leftovers await_log "$1"
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -m bash -eu -c 'mount -t tmpfs -o size="$2" tmpfs "$disk"; "$1"' - "$1" "$2"
}

# One rank, with one line per message.
on_disk() {
    "$dptrain" train --model mlp --batch 64 --threads 1 --data "$DATA" --out "$out" "$@" >>"$log" 2>&1
}

try() { # ARGUMENTS...
    code=0
    on_disk "$@" || code=$?
}

# Starts a long run in the background; $job is the program itself, which dies with this shell.
start_on_disk() { # ARGUMENTS...
    "$dptrain" train --model mlp --batch 64 --threads 1 --data "$DATA" --out "$out" --steps 100000 "$@" \
        >>"$log" 2>&1 3>&- &
    job=$!
    trap 'kill -KILL "$job" 2>/dev/null || true' EXIT
}

await_end() {
    code=0
    wait "$job" || code=$?
    trap - EXIT
    grep -v '^epoch' "$log" || true
}

verified() { "$dptrain" checkpoint verify "$out"; }

no_leftovers() { [[ -z $(find "$out" -name '.ckpt*') ]]; }

await_log() { # PATTERN
    local i
    for ((i = 0; i < 1200; i++)); do
        ! grep -q "$1" "$log" || return 0
        sleep 0.05
    done
    cat "$log"
    return 1
}

# Space for two checkpoints; writing the third fails.
full_disk_stop() {
    local how
    for how in --checkpoint-async --no-checkpoint-async; do
        : >"$log"
        try --steps 30 --checkpoint-every 4 --keep 5 --overwrite "$how"
        cat "$log"
        [[ $code -eq 4 ]]
        [[ $(grep -c 'dptrain: error' "$log") -eq 1 ]]
        grep -q "dptrain: error: .*$out/ckpt-000000000012.h5 cannot be written: No space left on device" "$log"
        verified
        [[ $(cd "$out" && echo ckpt-*) == "ckpt-000000000004.h5 ckpt-000000000008.h5" ]]
        no_leftovers
    done
    # With space again it continues and reaches the same result as the undisturbed run.
    mount -o remount,size=64m "$disk"
    on_disk --steps 30 --resume auto
    grep -q 'at step 8' "$log"
    verified
    "$dptrain" train --model mlp --batch 64 --threads 1 --data "$DATA" --out "$disk/whole" --steps 30 \
        --checkpoint-every 4 --keep 5 --no-checkpoint-async
    cmp "$out/ckpt-000000000030.h5" "$disk/whole/ckpt-000000000030.h5"
}

@test "a disk that fills up, --on-checkpoint-error stop: code 4, earlier checkpoints stay intact" {
    on_small_disk full_disk_stop 5m
    add_to_table "full disk in mid-write, --on-checkpoint-error stop" 2 0 0 "yes, resumed with room"
}

# A file fills the disk, and is deleted during the run.
full_disk_continue() {
    dd if=/dev/zero of="$disk/ballast" bs=1M count=21 status=none
    start_on_disk --checkpoint-every 4 --keep 1 --on-checkpoint-error continue --no-checkpoint-async
    local n before
    await_log 'warning: .*No space left on device.*training continues'
    verified
    before=$(cd "$out" && echo ckpt-*)
    [[ $before == ckpt-0*.h5 ]]
    rm "$disk/ballast"
    for ((n = 0; n < 1200; n++)); do
        [[ $(cd "$out" && echo ckpt-*) == "$before" ]] || break
        sleep 0.05
    done
    [[ $(cd "$out" && echo ckpt-*) != "$before" ]]
    kill -USR1 "$job"
    await_end
    [[ $code -eq 0 ]]
    verified
    no_leftovers
}

@test "a disk that fills up, --on-checkpoint-error continue: warning, retry, success once there is space" {
    on_small_disk full_disk_continue 24m
    add_to_table "full disk in mid-write, --on-checkpoint-error continue" 1 0 0 "–"
}

# Becomes read-only, as a file system does after an error.
read_only() {
    local n
    start_on_disk --checkpoint-every 20
    for ((n = 0; n < 1200; n++)); do
        [[ $(find "$out" -name 'ckpt-*' 2>/dev/null | wc -l) -lt 2 ]] || break
        sleep 0.05
    done
    # Remounting fails while a file is open for writing, such as the run's records; a bind mount can be read-only anyway.
    if ! mount -o remount,ro "$disk" 2>/dev/null; then
        mount --bind "$disk" "$disk"
        # The next checkpoint may be open for writing now, so wait until none is.
        for ((n = 0; n < 3000; n++)); do
            ! mount -o remount,ro,bind "$disk" 2>/dev/null || break
            sleep 0.02
        done
        ((n < 3000))
    fi
    await_end
    [[ $code -eq 4 ]]
    grep -q 'dptrain: error: .*Read-only file system' "$log"
    verified
}

@test "a disk that becomes read-only: code 4, earlier checkpoints stay intact" {
    on_small_disk read_only 64m
    add_to_table "disk turned read-only in mid-run, --on-checkpoint-error stop" 1 0 0 "–"
}
