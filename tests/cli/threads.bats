#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The number of threads: chosen for small models, kept in the cache and in checkpoints, and recorded. The choice itself is
# tested with made-up times, in tests/mpi/test_threads.c.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() { make_tiny 100 20; }

setup() {
    common_setup
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    cpus=$(nproc)
    ((cpus > 1)) || skip "one CPU leaves no choice"
    words=(train --data "$tiny" --device cpu --model mlp --batch 20 --checkpoint-every 2 --keep 9)
}

of() { # FOLDER   number and origin of the newest run's threads
    jq -sr 'map(select(.record == "run"))[-1].topology | "\(.threads) \(.threads_from)"' "$1/metrics.jsonl"
}

# Puts a number for the model of $words in the cache. -v prints the key when the cache does not have it.
cache_says() { # THREADS
    rm -rf "$XDG_CACHE_HOME"
    key=$("$dptrain" "${words[@]}" --steps 1 -v --out "$BATS_TEST_TMPDIR/key" --overwrite |
        sed -n 's/^  measuring threads for //p')
    [ -n "$key" ]
    mkdir -p "$XDG_CACHE_HOME/dptrain"
    printf '%s = %d\n' "$key" "$1" >"$XDG_CACHE_HOME/dptrain/threads.txt"
}

@test "a new run takes the number that was measured, and says so" {
    cache_says 1
    run "$dptrain" "${words[@]}" --steps 2 -v --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"  ranks   1 on 1 host, 1 thread each of $cpus (measured by an earlier run), cpu ("* ]]
    [[ $output != *"measuring threads"* ]]
    [ "$(of "$out")" = '1 cache' ]
    check_records "$out/metrics.jsonl"
    cache_says "$cpus"
    "$dptrain" "${words[@]}" --steps 2 --out "$out" --overwrite | grep "1 host, $cpus threads each, cpu"
    [ "$(of "$out")" = "$cpus cache" ]
}

@test "a number that the user gives is taken; fixed and reproducible runs measure nothing" {
    for more in '--threads 2/2 option' "--algorithms fixed/$cpus share" '--reproducible 2/1 fixed' "--measure-time 0/$cpus share"; do
        read -ra given <<<"${more%/*}"
        run "$dptrain" "${words[@]}" "${given[@]}" --steps 1 -v --out "$out" --overwrite
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output != *"measuring threads"* ]]
        [ "$(of "$out")" = "${more#*/}" ]
    done
    [ ! -e "$XDG_CACHE_HOME/dptrain/threads.txt" ]
}

@test "a resumed run keeps the checkpoint's number, and its bits" {
    cache_says 1
    "$dptrain" "${words[@]}" --steps 6 --out "$out"
    mkdir "$out-2"
    cp "$out/ckpt-000000000002.h5" "$out-2"
    cp -r "$out-2" "$out-3"
    cp -r "$out-2" "$out-4"
    cache_says "$cpus"
    "$dptrain" "${words[@]}" --steps 6 --resume auto --out "$out-2" |
        grep "1 thread each of $cpus (as in the checkpoint)"
    [ "$(of "$out-2")" = '1 checkpoint' ]
    diff <(losses "$out" | tail -n 4) <(losses "$out-2")
    h5diff "$out/ckpt-000000000006.h5" "$out-2/ckpt-000000000006.h5" /params /params
    # A number that is given wins; another number of ranks is another run.
    "$dptrain" "${words[@]}" --steps 3 --resume auto --threads 2 --out "$out-3"
    [ "$(of "$out-3")" = '2 option' ]
    on_ranks 2 "${words[@]}" --steps 3 --resume auto --out "$out-4"
    [[ $(of "$out-4") != *checkpoint ]]
}

@test "a checkpoint's number that exceeds the CPUs is kept, with a warning; --reproducible keeps it on any ranks" {
    many=$((cpus + 1))
    "$dptrain" "${words[@]}" --reproducible 2 --threads "$many" --steps 2 --out "$out"
    cp -r "$out" "$out-2"
    run "$dptrain" "${words[@]}" --reproducible 2 --steps 3 --resume auto --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"the checkpoint's $many threads per rank exceed the $cpus CPUs that a rank may use"* ]]
    [ "$(of "$out")" = "$many checkpoint" ]
    on_ranks 2 "${words[@]}" --steps 3 --resume auto --out "$out-2"
    [ "$(of "$out-2")" = "$many checkpoint" ]
    diff <(losses "$out" | tail -n 1) <(losses "$out-2" | tail -n 1)
}

@test "eval takes the fewer threads of the run, unless they are given" {
    cache_says 1
    "$dptrain" "${words[@]}" --steps 2 --out "$out"
    "$dptrain" eval "$out" -v --json "$out/eval.json" | grep "^threads  1 of $cpus per rank, as in training"
    diff <(jq .loss "$out/eval.json") <(jq -s 'map(select(.record == "epoch"))[-1].val_loss' "$out/metrics.jsonl")
    run "$dptrain" eval "$out" -v --threads 2
    [ "$status" -eq 0 ]
    [[ $output != *"as in training"* ]]
}

@test "a FIFO in place of the cache is passed over" {
    mkdir -p "$XDG_CACHE_HOME/dptrain"
    mkfifo "$XDG_CACHE_HOME/dptrain/threads.txt"
    run timeout 60 "$dptrain" "${words[@]}" --steps 2 --timeout 30 --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"warning: the cache of thread numbers is ignored: $XDG_CACHE_HOME/dptrain/threads.txt is not a regular file"* ]]
    [[ $(of "$out") != *cache ]]
}
