#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The start of a run: cheap checks, then the header, then measuring, which is shown and bounded. Nothing depends on time.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 192 128; }

setup() {
    common_setup
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
}

train() { # RANKS ARGUMENTS...
    on_ranks "$1" train --data "$tiny" --threads 1 --steps 3 "${@:2}"
}

# The line of $output that begins with a text, by number.
line_of() {
    local number
    number=$(grep -nF -m 1 -- "$1" <<<"$output")
    echo "${number%%:*}"
}

# A command fails with a code and a message, before the header, and leaves neither a cache nor a folder.
refused() { # CODE MESSAGE COMMAND...
    run "${@:3}"
    echo "$output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
    [[ $output != *"  model "* && $output != *measuring* ]]
    [ ! -e "$XDG_CACHE_HOME" ]
    [ ! -e "$out" ]
}

from() { jq -r 'select(.record == "run") | .algorithms_from' "$1/metrics.jsonl" | tail -n 1; }
by_rule() { jq -r 'select(.record == "run") | .algorithms_by_rule' "$1/metrics.jsonl" | tail -n 1; }

@test "the header comes before measuring, which shows the layer and the time left" {
    run train 0 --out "$out"
    [ "$status" -eq 0 ]
    [[ $output == *"  measuring the algorithms of 4 layers, for at most 20 s (--measure-time)"* ]]
    for line in model data ranks batch rate output; do
        [ "$(line_of "  $line ")" -lt "$(line_of '  measuring ')" ]
    done
    [[ $output == *"  batch   64 (up to 64 per rank), 3 steps, 3 per epoch"* ]]
    [ "$(line_of '  measuring ')" -lt "$(line_of '  compute algorithms measured (')" ]

    COLUMNS=100 DPTRAIN_PROGRESS=1 XDG_CACHE_HOME=$BATS_TEST_TMPDIR/second run train 0 --out "$out-bar"
    [ "$status" -eq 0 ]
    [[ $output == *"measuring algorithms ["*" left  layer 1/4, conv2+relu2+pool2"* ]]
    [[ $output != *"for at most"* ]]
}

@test "--measure-time: the rest takes the rule, a resumed run keeps it, a later new run measures" {
    run train 2 --measure-time 0 --checkpoint-every 2 --keep 9 --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"  compute algorithms fixed (none measured in time, see --measure-time)"* ]]
    [[ $output != *"  measuring "* ]]
    [ "$(from "$out")" = fixed ]
    [ "$(by_rule "$out")" -gt 0 ]
    [ ! -e "$XDG_CACHE_HOME" ]

    mkdir "$out-again"
    cp "$out/ckpt-000000000002.h5" "$out-again"
    on_ranks 2 train --data "$tiny" --threads 1 --resume auto --out "$out-again" |
        grep 'algorithms from the checkpoint'
    diff <(losses "$out" | tail -n 1) <(losses "$out-again")
    [ ! -e "$XDG_CACHE_HOME" ]

    train 2 --out "$out-new" | grep 'algorithms measured'
    [ "$(by_rule "$out-new")" -eq 0 ]
    run train 0 --measure-time -1 --out "$out-no"
    [ "$status" -eq 2 ]
}

@test "measurements serve other numbers of ranks and near batches" {
    train 0 --out "$out"
    train 2 --out "$out-2" | grep 'compute algorithms from cache'
    [ "$(from "$out-2")" = cache ]
    train 0 --batch 48 --out "$out-near" | grep 'compute algorithms from cache'
    # 20 samples fill vectors differently.
    train 0 --batch 20 --out "$out-far" | grep 'compute algorithms measured'
}

@test "weights, data and folder are checked before anything is measured" {
    printf 'no weights' >"$BATS_TEST_TMPDIR/bad.npz"
    refused 3 bad.npz train 0 --weights "$BATS_TEST_TMPDIR/bad.npz" --out "$out"
    printf 'a file' >"$BATS_TEST_TMPDIR/file"
    refused 2 file train 0 --out "$BATS_TEST_TMPDIR/file"
    refused 3 nowhere on_ranks 0 train --data "$BATS_TEST_TMPDIR/nowhere" --out "$out"
    refused 4 no-such train 0 --trace "$BATS_TEST_TMPDIR/no-such/trace.json" --out "$out"
    train 0 --algorithms fixed --out "$out-old"
    refused 2 'holds an earlier run' train 0 --out "$out-old"
    # An earlier run is not deleted by one that fails.
    refused 3 bad.npz train 0 --weights "$BATS_TEST_TMPDIR/bad.npz" --overwrite --out "$out-old"
    [ -s "$out-old/metrics.jsonl" ]
}

@test "an image of each format and split is decoded before anything is measured" {
    command -v python3 >/dev/null || skip "python3 is not here, which makes the images"
    images=$BATS_TEST_TMPDIR/images
    python3 - "$images" <<'END'
import os, struct, sys, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
for split in "train", "val":
    for name in "cat", "dog":
        os.makedirs(f"{sys.argv[1]}/{split}/{name}")
        for i in range(9):
            pixels = zlib.compress(bytes([0] + [20 * i + len(name)] * 8) * 8)
            with open(f"{sys.argv[1]}/{split}/{name}/{i}.png", "wb") as file:
                file.write(head + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
END
    pictures=(train --data "$images" --input-size 28 --threads 1 --batch 8 --steps 2 --out "$out")
    for broken in train/dog/x.jpg val/cat/y.PNG; do
        printf '\377\330\377\340 not a JPEG' >"$images/$broken"
        if [[ $broken == val* ]]; then # the first of its format
            rm "$images"/val/*/?.png
            cp "$images/train/cat/1.png" "$images/val/dog/1.png"
        fi
        refused 3 "${broken#*/}" on_ranks 2 "${pictures[@]}"
        run on_ranks 0 "${pictures[@]}" --max-bad 3
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"${broken#*/}"* ]]
        rm -r "$out" "$XDG_CACHE_HOME" "${images:?}/$broken"
    done
}

@test "too many ranks for the cores: the header, the profile and the records say so, and no hint blames the allreduce" {
    command -v taskset >/dev/null || skip "taskset is not here"
    mpi_flags 2
    run taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" train \
        --data "$tiny" --threads 1 --batch 32 --steps 14 --algorithms fixed --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"  CPU     short: 2 threads of 2 ranks share 1 CPU"*"hint: short of CPU: 2 threads of 2 ranks share 1 CPU"* ]]
    [[ $output != *"step time is allreduce"* ]]
    jq -se 'map(select(.record == "run"))[0].topology | .cpus == 1 and .cpu_wait_share >= 0 and .load >= 0' \
        "$out/metrics.jsonl"
    jq -se 'map(select(.record == "profile"))[0] | .involuntary_switches_per_sec >= 0 and .cpu_wait_share >= 0
        and .allreduce_sec <= .exposed_comm_sec * 1.000001' "$out/metrics.jsonl"
}

# Starts N ranks as a launcher does that MPI knows nothing of, and prints what each said, and its code.
launched() { # SIZE RANK N COMMAND...   the names of the launcher's variables
    local rank pids=()
    for ((rank = 0; rank < $3; rank++)); do
        env "$1=$3" "$2=$rank" "${@:4}" >"$BATS_TEST_TMPDIR/rank.$rank" 2>&1 3>&- &
        pids+=($!)
    done
    for rank in "${!pids[@]}"; do
        local code=0
        wait "${pids[rank]}" || code=$?
        cat "$BATS_TEST_TMPDIR/rank.$rank"
        echo "rank $rank: code $code"
    done
}

# One sentence, of rank 0, that names the variable, and code 2 everywhere.
unseen() { # VARIABLE COMMAND...
    run "${@:2}"
    echo "$output"
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[0]} == "dptrain: error: MPI sees 1 rank, "*" started 2 ($1)"*" dptrain ...'"*"'env -u $1 dptrain ...'" ]]
    [[ ${lines[1]} == "rank 0: code 2" && ${lines[2]} == "rank 1: code 2" ]]
    [ -z "$(ls -A)" ]
}

@test "ranks that MPI does not see: code 2 and one sentence, of each launcher and in each command; nothing is written" {
    local pair command
    mkdir "$BATS_TEST_TMPDIR/empty"
    cd "$BATS_TEST_TMPDIR/empty"
    for pair in OMPI_COMM_WORLD_SIZE:OMPI_COMM_WORLD_RANK PMI_SIZE:PMI_RANK MV2_COMM_WORLD_SIZE:MV2_COMM_WORLD_RANK WORLD_SIZE:RANK \
        HOROVOD_SIZE:HOROVOD_RANK JSM_NAMESPACE_SIZE:JSM_NAMESPACE_RANK FLUX_JOB_SIZE:FLUX_TASK_RANK; do
        unseen "${pair%:*}" launched "${pair%:*}" "${pair#*:}" 2 "$dptrain" train --data "$tiny"
    done
    for command in "" train "train --comm mpi" "train --comm self" check "bench mem" "eval x" "predict x y.png" "replay x" \
        "data pack --from $tiny --out y" "data verify $tiny"; do
        # Slurm's other variables, without which Open MPI does not know it.
        # shellcheck disable=SC2086 # words
        SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_NTASKS=2 unseen SLURM_STEP_NUM_TASKS \
            launched SLURM_STEP_NUM_TASKS SLURM_PROCID 2 "$dptrain" $command
    done
}

@test "launchers around each other: mpirun in a step of Slurm sees its ranks, a shell of srun --pty is alone" {
    export SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0
    WORLD_SIZE=8 RANK=0 run train 2 --algorithms fixed --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"  ranks   2 on 1 host"* ]]
    SLURM_PTY_PORT=4000 SLURM_TASK_PID=1 run train 0 --algorithms fixed --overwrite --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"  ranks   1 on 1 host"* ]]
}

@test "where ranks may not read each other's memory: no word of Open MPI's, the same bits, and check says so" {
    forbid=$root/build/tests/tools/forbid_peer_memory
    "$forbid" true || skip "no seccomp filter can be set"
    mpi_flags 2
    words=(train --data "$tiny" --threads 1 --steps 3 --algorithms fixed --allreduce mpi --quiet --out)
    mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" "${words[@]}" "$out-free"
    run "$forbid" mpirun "${MPI_FLAGS[@]}" -np 2 "$dptrain" "${words[@]}" "$out"
    echo "$output"
    [[ $status -eq 0 && $output != *"Read -1"* && $output != *single*copy* ]]
    diff <(losses "$out-free") <(losses "$out")
    run mpirun "${MPI_FLAGS[@]}" -np 2 "$forbid" "$dptrain" check --only host --json "$BATS_TEST_TMPDIR/check.json"
    echo "$output"
    [[ $status -eq 0 && $output != *"Read -1"* && $output == *--cap-add=SYS_PTRACE* ]]
    jq -e '.lines[] | select(.name == "memory copies") | .status == "warn" and (.found | contains("seccomp"))' "$BATS_TEST_TMPDIR/check.json"
}
