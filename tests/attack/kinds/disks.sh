# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # variables of attack.sh
# Disks and folders that fill up, become read-only, disappear; needs root for mounts, and skips those without.
kind disk_full 3
kind disk_readonly 1
kind disk_temp 1
kind folder_gone 2
kind output_gone 2

mount_tmpfs() { # FOLDER OPTIONS
    mkdir -p "$1"
    mount -t tmpfs -o "$2" tmpfs "$1" 2>/dev/null
}

# Room for N checkpoints of 3.4 MB, besides the records.
draw_disk_full() { echo "np=2 size=$(pick 1m 3m 5m 8m 10m 12m) via=run on=$(pick stop stop continue) async=$(pick yes no) again=$(pick room room full)"; }
run_disk_full() {
    codes=4 words='No space left on device'
    [[ ${P[on]} == stop ]] || codes="0 4"
    mount_tmpfs "$dir/run" "size=${P[size]}" || return 0
    file_options
    env_of_job=()
    job_start out --keep 5
    job_wait
    grep -aqE 'No space|Disk|space' "$dir/out" && struck_now "full disk of ${P[size]}"
    judge_end
    if [[ ${P[again]} == full ]]; then
        # Once more without room: it fails the same way, and spoils nothing.
        codes=4
        job_start out.again --resume auto --keep 5
        job_wait
        [[ " $codes 0 " == *" $code "* ]] || bad+=("again-code-$code")
        (($(good_step "$dir/run") >= floor)) || bad+=(lost-checkpoint)
    fi
    mount -o remount,size=64m "$dir/run"
    # A line that the full disk cut off may stay torn.
    args+=(--keep 5)
    judge_resume_kept 1
    umount "$dir/run"
}

# As judge_resume, but the last checkpoint also holds another --keep.
judge_resume_kept() {
    data=$work/data
    judge_resume "$@"
}

draw_disk_readonly() { echo "np=2 step=$(between 1 35) via=run"; }
run_disk_readonly() {
    codes=4 words='Read-only file system'
    mkdir -p "$dir/run"
    mount_tmpfs "$dir/run" size=64m || return 0
    env_of_job=(DPTRAIN_FAULT_PACE=0.1)
    job_start out
    job_await_step "${P[step]}" || true
    # The records stay open through the mount below; new files are opened through this one.
    mount --bind "$dir/run" "$dir/run"
    local i
    for ((i = 0; i < 50; i++)); do
        if mount -o remount,ro,bind "$dir/run" 2>/dev/null; then struck_now "read-only"; break; fi
        sleep 0.02
    done
    job_wait
    judge_end
    umount "$dir/run" # the copy that is read-only
    judge_resume 1
    umount "$dir/run"
}

# TMPDIR or /dev/shm without room: nothing of the job is lost, and it does not start, or starts without.
draw_disk_temp() { echo "np=2 size=$(pick 4k 64k 200k 1m) via=run"; }
run_disk_temp() {
    codes="0 4"
    mkdir -p "$dir/tmp"
    mount_tmpfs "$dir/tmp" "size=${P[size]}" || return 0
    dd if=/dev/zero of="$dir/tmp/ballast" bs=1k count=2048 status=none 2>/dev/null || true
    env_of_job=("TMPDIR=$dir/tmp")
    job_start out
    struck_now "full TMPDIR"
    job_wait
    judge_end
    umount "$dir/tmp"
    judge_resume
}

# Something deletes or moves what the run writes.
draw_folder_gone() { echo "np=2 step=$(between 1 35) what=$(pick folder records checkpoints moved) via=run"; }
run_folder_gone() {
    env_of_job=(DPTRAIN_FAULT_PACE=0.1)
    job_start out
    job_await_step "${P[step]}" || true
    case ${P[what]} in
    folder) mv "$dir/run" "$dir/moved" && rm -rf "$dir/moved" ;;
    moved) mv "$dir/run" "$dir/moved" ;;
    records) rm -f "$dir/run/metrics.jsonl" ;;
    checkpoints) rm -f "$dir"/run/ckpt-* ;;
    esac
    kill -0 "$job" 2>/dev/null && struck_now "${P[what]} gone"
    job_wait
    floor=-1
    case ${P[what]} in
    # The next checkpoint is there again.
    checkpoints)
        codes=0
        judge
        ;;
    # A word about it, and the records go on in a new file, or the run stops.
    records)
        codes="0 4" words='metrics.jsonl|records'
        judge_end
        [[ $code -ne 0 || -s $dir/run/metrics.jsonl ]] || bad+=(lost-records)
        ;;
    *)
        codes=4 words='run'
        judge_end
        ;;
    esac
}

# The reader of run.sh's output goes away, or its output was closed from the start. Training goes on to its end.
draw_output_gone() { echo "np=2 step=$(between 0 35) how=$(pick head head closed full) via=$(pick run run run mpirun)"; }
run_output_gone() {
    local reader
    codes=0
    env_of_job=(DPTRAIN_FAULT_PACE=0.1)
    log_every=1
    case ${P[how]} in
    closed) before_job=(bash -c 'exec "$0" "$@" >&-') ;;
    full) before_job=(bash -c 'exec "$0" "$@" >/dev/full') ;;
    head) before_job=(bash -c 'exec "$0" "$@" > >(head -n 3) 2>&1') ;;
    esac
    job_start out
    struck_now "output ${P[how]}"
    job_wait
    # A full device that takes the output is an error that may be told.
    [[ ${P[how]} != full ]] || codes="0 4"
    # mpirun has to live with its own output.
    [[ ${P[via]} != mpirun ]] || { codes+=" $code" && echo "error: mpirun's output" >>"$dir/out"; }
    data=$work/data
    judge
}
