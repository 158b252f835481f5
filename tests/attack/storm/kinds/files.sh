# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh and of the storm
# Disks, checkpoints and data under a job that starts again.
storm_kind disk_full 3 0 'ends with 4'
storm_kind disk_readonly 2 0 'ends with 4'
storm_kind folder_deleted 3 0 'ends with 4'
storm_kind checkpoint_truncated 3 1 'resumes from the one before'
storm_kind checkpoint_flipped 4 1 'resumes from the one before'
storm_kind data_flipped 2 0 'ends with 3'
storm_kind data_removed 2 0 'ends with 3'
storm_kind shard_flipped 3 0 'ends with 3'
storm_kind shard_removed 2 0 'ends with 3'

draw_disk_full() { echo "wait=$(between 0 60)"; }
draw_disk_readonly() { echo "wait=$(between 0 60)"; }
draw_folder_deleted() { echo "wait=$(between 0 60)"; }
draw_checkpoint_truncated() { echo "rank=$(between 0 11) wait=$(between 0 40) at=$(between 0 99)"; }
draw_checkpoint_flipped() { draw_checkpoint_truncated; }
draw_data_flipped() { echo "rank=$(between 0 11) wait=$(between 0 40) file=$(pick train-images train-labels) at=$(between 10 99)"; }
draw_data_removed() { echo "rank=$(between 0 11) wait=$(between 0 40) file=$(pick train-images train-labels t10k-images)"; }

draw_shard_flipped() { echo "wait=$(between 0 40) file=$(pick train val)-0000$(between 0 2) at=$(between 35 80)"; }
draw_shard_removed() { echo "rank=$(between 0 11) wait=$(between 0 40) file=$(pick train val)-0000$(between 0 2)"; }

strike_disk_full() {
    [[ ! -e $dir/no_mounts ]] || return 0
    # The last block too.
    dd if=/dev/zero of="$dir/disk/ballast" bs=4k status=none 2>/dev/null
    storm_struck "full disk"
    words='No space left on device'
    storm_ends 4 storm_make_room
}
storm_make_room() { rm -f "$dir/disk/ballast"; }

strike_disk_readonly() {
    local i
    [[ ! -e $dir/no_mounts ]] || return 0
    # The records stay open through the mount below; new files are opened through this one.
    mount --bind "$dir/disk" "$dir/disk"
    for ((i = 0; i < 50; i++)); do
        if mount -o remount,ro,bind "$dir/disk" 2>/dev/null; then storm_struck "read-only" && break; fi
        sleep 0.02
    done
    words='Read-only file system'
    storm_ends 4 storm_writable
}
storm_writable() { umount "$dir/disk"; }

# The folder is put back before the job is started again, as from a backup.
strike_folder_deleted() {
    mv "$dir/disk/run" "$dir/disk/moved" && storm_struck "folder moved away"
    words='disk/run'
    storm_ends 4 storm_restore
}
storm_restore() {
    rm -rf "$dir/disk/run"
    mv "$dir/disk/moved" "$dir/disk/run"
}

# Damages the newest checkpoint while no rank runs: between two starts of the ranks. The supervisor is held until then.
storm_damage() { # HOW
    local file size at_byte newest supervisor first
    # There must be one before it.
    storm_await_checkpoints 2 || return 0
    supervisor=$(job_launcher)
    kill -STOP "$supervisor" 2>/dev/null || return 0
    storm_hit KILL dptrain "$(storm_rank)"
    storm_await_no_ranks || { storm_release "$supervisor" && at='' && return; }
    file=$(find "$dir/run/" -name 'ckpt-*.h5' | sort | tail -n 1)
    newest=${file##*ckpt-} newest=$((10#${newest%.h5}))
    size=$(stat -c %s "$file") at_byte=$((size * P[at] / 100))
    if [[ $1 == truncate ]]; then
        truncate -s "$at_byte" "$file"
    else
        storm_flip_byte "$file" "$at_byte"
    fi
    storm_struck "$1 ${file##*/} at $at_byte"
    floor=$(storm_before "$newest") words="ckpt-0*$newest"
    storm_release "$supervisor"
    storm_resumes
    first=$(life_last training first_step)
    [[ $outcome != resumed ]] || ((${first:--1} < newest)) || bad+=(accepted-corrupt)
}

# Lets a held supervisor go on. On a host, nsenter, its parent, has stopped too.
storm_release() { # PID
    local fields
    process_stat "$1" && kill -CONT "${fields[1]}"
    kill -CONT "$1"
}

# Waits until the job has announced N checkpoints since its last start.
storm_await_checkpoints() { # N
    local n seen=0 since=0
    while storm_alive && storm_moves; do
        n=$(awk '/"record":"run"/ { n = 0 } /"record":"checkpoint".*"error":null/ { n++ } END { print n + 0 }' "$dir/run/metrics.jsonl")
        ((n < $1)) || return 0
        sleep 0.1
    done
    return 1
}

# Waits until the current start of the ranks is over, and mpirun with it.
storm_await_no_ranks() {
    local until=$(($(uptime_ms) + 1000 * (timeout_sec + grace_sec)))
    while [[ -n $(job_processes | awk '$2 == "dptrain" || $2 == "mpirun"') ]]; do
        (($(uptime_ms) < until)) || return 1
        sleep 0.1
    done
}

storm_flip_byte() { # FILE BYTE
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the byte as an escape
    printf "$(printf '\\x%02x' $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# The checkpoint before one.
storm_before() { # STEP
    find "$dir/run/" -name 'ckpt-*.h5' | sed -nE 's/.*ckpt-0*([0-9]+)\.h5/\1/p' | awk -v newest="$1" '$1 < newest' | sort -n | tail -n 1
}

strike_checkpoint_truncated() { storm_damage truncate; }
strike_checkpoint_flipped() { storm_damage flip; }

# Data is read at the start, so a rank is killed.
storm_data() {
    # Bytes are compared as a whole, so that the folder is named.
    P[first_kill]=1 words="$data|${P[file]}"
    storm_hit KILL dptrain "$(storm_rank)"
    storm_ends 3 storm_data_back
}
storm_data_back() { cp "$(storm_source)"/* "$dir/data/"; }

strike_data_flipped() {
    local file
    file=$(find "$dir/data/" -name "${P[file]}*")
    storm_flip_byte "$file" $(($(stat -c %s "$file") * P[at] / 100))
    storm_data
}

strike_data_removed() {
    rm "$(find "$dir/data/" -name "${P[file]}*")"
    storm_data
}

# Images are read and compared with their hashes all the time, so that no rank needs to be killed. The middle of a shard is images.
strike_shard_flipped() {
    local file
    file=$(find "$dir/data/" -name "${P[file]}*")
    storm_flip_byte "$file" $(($(stat -c %s "$file") * P[at] / 100))
    storm_struck "flip in ${file##*/}" && words=${P[file]}
    storm_ends 3 storm_data_back
}

# Shards stay open; those that are missing show at a start.
strike_shard_removed() { strike_data_removed; }
