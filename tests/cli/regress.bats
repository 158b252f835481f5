#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# regress.sh: recordings, baselines, alternating revisions. dptrain and mpirun are fakes that measure nothing, except in the
# last test.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    regress=$root/scripts/regress.sh
    bin=$BATS_TEST_TMPDIR/bin
    export FAKE_LOG=$BATS_TEST_TMPDIR/log HOME=$BATS_TEST_TMPDIR TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$bin" "$TMPDIR"
    cd "$BATS_TEST_TMPDIR" || return
    # Execs the program.
    stand_in mpirun <<<'[[ $1 != --version ]] || exit 0
        while [[ $1 != */dptrain ]]; do shift; done
        exec "$@"'
    fake_body >"$bin/body"
    fake dptrain 0123456789ab >"$bin/dptrain"
    chmod +x "$bin/dptrain"
    export DPTRAIN_BIN=$bin/dptrain PATH=$bin:$PATH FAKE_BODY=$bin/body
    echo 'gemm --budget 0.1 # one' >tiny.conf
}

stand_in() { # NAME, its body on standard input
    { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# Creates a program NAME of REVISION. Each start is logged in $FAKE_LOG.
fake() { # NAME REVISION
    printf '#!/usr/bin/env bash\nname=%s revision=%s\n. "$FAKE_BODY"\n' "$1" "$2"
}

# FAKE_END: what start number FAKE_AT does: failed, killed (no end), wait. FAKE_WAITS, FAKE_FAILS: the program with that
# name waits or fails. FAKE_TURNS, FAKE_CLOCK: bench has --turns, --clock.
fake_body() {
    cat <<'EOF'
case "$1 ${2:-}" in
"--version ") echo "dptrain 0.1.0 ($revision, GCC)"; exit ;;
"bench --help") echo "--budget SEC"; [[ ${3:-} != all ]] || echo "${FAKE_CI:+--ci X} ${FAKE_TURNS:+--turns FOLDER} ${FAKE_CLOCK:+--clock SEC}"; exit ;;
"report compare") echo "compared: ${*:3}"; exit "${FAKE_CODE:-0}" ;;
"report "*) echo "reported: ${*:2}"; exit ;;
esac
for word; do case $word in --out=*) out=${word#*=} ;; esac; done
echo "$name ${*:2}" | sed 's/ --out=.*//' >>"$FAKE_LOG"
id=$(printf '%04x%04x' $$ $RANDOM)
record() { printf '{"record":"%s","schema":1,%s}\n' "$1" "$2" >>"$out"; }
finish() { record bench_end "\"run\":\"$id\",\"reason\":\"$1\",\"n_points\":0"; }
head='"time":"2026-11-21T08:00:00Z","ranks":1,"threads":2,"options":{"threads":0,"clock":'$RANDOM'},'
head+='"fingerprint":{"hardware_id":"1a",'
head+='"fabric_id":"2b","software_id":"3c","hardware":{"cpu":"A, B","cpus":2},"fabric":{"hosts":1,"ports":'
head+='[{"name":"eth0","gbit_per_sec":10}]},"software":'
record bench_run "\"id\":\"$id\",$head{\"git\":\"$revision\"}}"
echo measuring
[[ -z ${FAKE_CLOCK:-} ]] || printf '{"record":"bench","clock_sec":%s}\n' {5000..1000}e-09 >>"$out"
what=''
[[ $(grep -c . "$FAKE_LOG") -ne ${FAKE_AT:-1} ]] || what=${FAKE_END:-}
[[ -z ${FAKE_WAITS:-} || $name != "$FAKE_WAITS" ]] || what=wait
[[ -z ${FAKE_FAILS:-} || $name != "$FAKE_FAILS" ]] || what=failed
case $what in
failed)
    # Wait until the other one exists.
    until [[ -z ${FAKE_WAITS:-} || -e $FAKE_LOG.waits ]]; do sleep 0.1; done
    echo "error: wrong data was found" >&2
    finish failed
    exit 1 ;;
killed) exit 5 ;;
wait)
    trap 'finish interrupted; exit 1' USR1 TERM
    touch "$FAKE_LOG.waits"
    for ((i = 0; i < 600; i++)); do sleep 0.1; done ;;
esac
finish finished
EOF
}

# Waits for a file, at most 60 s.
appears() { # FILE
    local i
    for ((i = 0; i < 600; i++)); do
        [[ ! -e $1 ]] || return 0
        sleep 0.1
    done
    return 1
}

has() { # WORDS...
    local word
    for word; do
        [[ "$output" == *"$word"* ]] || { printf 'without "%s":\n%s\n' "$word" "$output"; return 1; }
    done
}

go() { # ARGUMENTS...
    run "$regress" "$@" --results results
    echo "$output"
}

measure() { # [OPTIONS...]
    go run --suite ./tiny.conf --starts 2 -np 1 "$@"
}

# Lists the folder without the lock.
runs() { ls results/runs; }

@test "a suite with --ci runs on revisions that call it --precision" {
    echo 'gemm --ci 1e-6' >ci.conf
    "$regress" run --suite ./ci.conf --starts 1 --results results
    FAKE_CI=yes "$regress" run --suite ./ci.conf --starts 1 --results results2
    [ "$(cat "$FAKE_LOG")" = $'dptrain gemm --precision 1e-6\ndptrain gemm --ci 1e-6' ]
}

@test "busy CPUs are counted between two readings" {
    # shellcheck source=scripts/regress/measure.sh
    . "$root/scripts/regress/measure.sh"
    run busy_cpus <<<'cpu 100 0 100 800 0 0 0 0
cpu0 50 0 50 400 0 0 0 0
cpu1 50 0 50 400 0 0 0 0
cpu 250 0 100 850 0 0 0 0
cpu0 150 0 50 400 0 0 0 0
cpu1 100 0 50 450 0 0 0 0'
    [ "$output" = 1.5 ]
    [ ! -e 0 ]
}

@test "options of bench are found although its short help omits them" {
    # shellcheck source=scripts/regress/measure.sh
    . "$root/scripts/regress/measure.sh"
    bench_knows --turns "$root/dptrain"
    bench_knows --clock "$root/dptrain"
    run bench_knows --no-such-option "$root/dptrain"
    [ "$status" -eq 1 ]
}

@test "usage: unknown words are rejected, and the known ones listed" {
    go; [ "$status" -eq 2 ]
    run "$regress"; [ "$status" -eq 2 ]; has "run, accept, compare"
    go measure; [ "$status" -eq 2 ]
    go run --fast; [ "$status" -eq 2 ]
    go run tiny; [ "$status" -eq 2 ]
    go run --starts 0; [ "$status" -eq 2 ]
    go ab HEAD; [ "$status" -eq 2 ]; has "two revisions"
    go run --suite tiny; [ "$status" -eq 2 ]; has "full quick standard"
    echo 'gemm --out x' >out.conf
    go run --suite ./out.conf; [ "$status" -eq 2 ]; has "--out"
    echo '# nothing' >out.conf
    go run --suite ./out.conf; [ "$status" -eq 2 ]
    run "$regress" run --help; [ "$status" -eq 0 ]
    [ ! -e results ]
}

@test "run, accept, compare: a recording of all starts, its baseline, and another recording to compare" {
    measure --args '--device cpu'
    [ "$status" -eq 0 ]
    [ "$(cat log)" = "$(printf 'dptrain gemm --budget 0.1 --device cpu\n%.0s' 1 2)" ]
    [[ "$(runs)" =~ ^[0-9]{8}-[0-9]{6}-0123456789ab-tiny.jsonl$ ]]
    first=results/runs/$(runs)
    [ "$(grep -c bench_end "$first")" -eq 2 ]
    go accept
    [ "$status" -eq 0 ]
    has "the first of its kind"
    cmp "$first" results/baselines/tiny-1x2-1a-2b.jsonl
    go accept "$first"
    has "it replaces revision 0123456789ab of 2026-11-21T08:00:00Z, 2 starts"
    # The newest is the baseline, so it measures again with as many starts; options and the verdict's code are passed on.
    sleep 1
    FAKE_CODE=1 run "$regress" compare --suite ./tiny.conf --results results -- --min-effect 0.1
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(runs | wc -l)" -eq 2 ]
    second=results/runs/$(runs | tail -n 1)
    has "is the baseline itself" "compared: results/baselines/tiny-1x2-1a-2b.jsonl $second --history results/runs --min-effect 0.1"
    # Now the newest is another recording.
    go compare
    [ "$status" -eq 0 ]
    [ "$(runs | wc -l)" -eq 2 ]
    go compare "$first"
    has "compared: results/baselines/tiny-1x2-1a-2b.jsonl $first"
    go list
    [ "$(grep -c '  complete  .*tiny .* 0123456789ab  *2 ' <<<"$output")" -eq 3 ]
    go html
    has "reported: html --base results/baselines/tiny-1x2-1a-2b.jsonl --out results/runs/tiny.html $second"
    go history
    has "reported: history $first $second"
    [ -z "$(ls "$TMPDIR")" ]
}

@test "an undecided comparison: its code is passed on, and --allow-inconclusive reaches dptrain" {
    measure
    go accept
    FAKE_CODE=6 go compare results/runs/*
    [ "$status" -eq 6 ]
    run "$regress" compare --allow-inconclusive results/runs/* --results results -- --alpha 0.1
    has "compared: results/baselines/tiny-1x2-1a-2b.jsonl results/runs/$(runs) --history results/runs --allow-inconclusive --alpha 0.1"
    go accept --allow-inconclusive
    [ "$status" -eq 2 ]
}

@test "accept refuses a recording with more than a third of its points disturbed, unless forced" {
    measure
    file=results/runs/$(runs)
    # Points do not belong to a run here; two of six are disturbed, then three of seven.
    for verdict in ok ok ok ok disturbed disturbed; do
        printf '{"record":"bench","schema":1,"verdict":"%s"}\n' "$verdict"
    done >>"$file"
    go accept
    [ "$status" -eq 0 ]
    echo '{"record":"bench","schema":1,"verdict":"disturbed"}' >>"$file"
    go accept
    [ "$status" -eq 3 ]
    has "3 of 7 points were disturbed" "--force"
    [ "$(grep -c disturbed results/baselines/*)" -eq 2 ]
    go accept --force
    [ "$status" -eq 0 ]
    [ "$(grep -c disturbed results/baselines/*)" -eq 3 ]
}

@test "run of a disturbed recording has accept's code, and keeps it" {
    sed -i 's/^echo measuring$/record bench '"'"'"verdict":"disturbed"'"'"'/' "$bin/body"
    measure
    [ "$status" -eq 3 ]
    has "more than a third of the points are disturbed" "recording results/runs/$(runs)"
    [[ "$(runs)" != *partial* ]]
    sleep 1
    measure --force
    [ "$status" -eq 0 ]
}

@test "accept --add: a baseline of several recordings is a folder, which accept replaces by a recording" {
    measure
    first=results/runs/$(runs)
    go accept --add
    [ "$status" -eq 0 ]
    [ -f results/baselines/tiny-1x2-1a-2b.jsonl ]
    go accept --add
    [ "$status" -eq 2 ]
    has "already in the baseline"
    sleep 1
    measure
    second=results/runs/$(runs | tail -n 1)
    sed -i 's/2026-11-21T08/2026-11-22T08/' "$second"
    go accept --add
    [ "$status" -eq 0 ]
    has "2 recordings" "from 3 on"
    [ "$(ls results/baselines)" = tiny-1x2-1a-2b ]
    [ "$(ls results/baselines/*)" = $'20261121-080000-0123456789ab-tiny.jsonl\n20261122-080000-0123456789ab-tiny.jsonl' ]
    cmp "$second" results/baselines/*/20261122*
    go accept --add "$first"
    [ "$status" -eq 2 ]
    go compare "$first"
    has "compared: results/baselines/tiny-1x2-1a-2b $first --history results/runs"
    go list
    has "baseline of several recordings, results/baselines/tiny-1x2-1a-2b"
    # The newest is in it, so another is measured.
    sleep 1
    go compare --suite ./tiny.conf
    has "is the baseline itself"
    go html
    has "reported: html --base results/baselines/tiny-1x2-1a-2b --out"
    go accept "$second"
    [ "$status" -eq 0 ]
    has "it replaces revision 0123456789ab of 2026-11-21T08:00:00Z, 2 starts, and 1 more"
    [ "$(ls results/baselines)" = tiny-1x2-1a-2b.jsonl ]
    go run --add
    [ "$status" -eq 2 ]
}

@test "a suite's metrics that must decide are passed on" {
    printf 'gemm --budget 0.1\nmust-decide gemm mem/copy # both\nmust-decide step\n' >tiny.conf
    measure
    [ "$(cat log)" = "$(printf 'dptrain gemm --budget 0.1\n%.0s' 1 2)" ]
    go accept
    run "$regress" compare results/runs/* --suite ./tiny.conf --results results
    echo "$output"
    has "--must-decide gemm,mem/copy,step"
    go compare results/runs/*
    [[ "$output" != *must-decide* ]]
}

@test "later starts get the best clock of earlier ones" {
    FAKE_CLOCK=1 measure
    [ "$status" -eq 0 ]
    [ "$(cat log)" = $'dptrain gemm --budget 0.1\ndptrain gemm --budget 0.1 --clock 1000e-09' ]
}

@test "a start that fails: its code, what it said, and what was measured is kept as partial and never used as complete" {
    FAKE_END=failed FAKE_AT=2 measure
    [ "$status" -eq 1 ]
    has "wrong data was found" "start 2 of 2 failed" ".partial.jsonl"
    partial=results/runs/$(runs)
    [[ $partial == *-tiny.partial.jsonl ]]
    go accept; [ "$status" -eq 3 ]
    go accept "$partial"; [ "$status" -eq 3 ]; has "partial"
    go compare "$partial"; [ "$status" -eq 3 ]; has "partial"
    # Regardless of the name.
    whole=${partial/.partial/}
    cp "$partial" "$whole"
    go accept "$whole"; [ "$status" -eq 3 ]; has "did not finish"
    sed -i '$d' "$whole"
    go accept "$whole"; [ "$status" -eq 3 ]; has "truncated"
    : >"$whole"
    go accept "$whole"; [ "$status" -eq 3 ]
    head -n 2 "$partial" >"$whole"
    head -n 2 "$partial" | sed 's/"1a"/"1b"/' >>"$whole"
    go accept "$whole"; [ "$status" -eq 3 ]; has "several programs, machines"
    go accept none.jsonl; [ "$status" -eq 3 ]
    go accept; [ "$status" -eq 3 ]; has "mixed: skipped"
    [ -z "$(ls results/baselines 2>/dev/null)" ]
}

@test "stopped by a signal: code 5, partial, no leftovers; meanwhile a second one is rejected" {
    export FAKE_END=wait FAKE_AT=2
    "$regress" run --suite ./tiny.conf --starts 2 -np 1 --results results >said 2>&1 3>&- &
    pid=$!
    appears log.waits
    go run --suite ./tiny.conf -np 1
    [ "$status" -eq 4 ]
    has "another regress.sh (process $(hostname):$pid) measures into results/runs"
    kill -TERM "$pid"
    wait "$pid" || status=$?
    cat said
    [ "$status" -eq 5 ]
    grep 'stopped by SIGTERM in start 2 of 2' said
    grep 'kept the partial recording, which will not be compared: .*partial.jsonl' said
    [[ "$(runs)" == *-tiny.partial.jsonl ]]
    [ -z "$(ls "$TMPDIR")" ]
    unset FAKE_END
    measure
    [ "$status" -eq 0 ]
}

@test "a baseline from another machine: code 3 and the differences, unless forced" {
    measure
    go compare
    [ "$status" -eq 3 ]
    has "accept makes this recording one"
    go accept
    base=results/baselines/tiny-1x2-1a-2b.jsonl
    sed 's/"1a"/"9a"/; s/"cpus":2/"cpus":64/; s/"ranks":1/"ranks":4/' "$base" >results/baselines/tiny-4x2-9a-2b.jsonl
    sed 's/"2b"/"9b"/; s/"gbit_per_sec":10/"gbit_per_sec":100/' "$base" >results/baselines/tiny-1x2-1a-9b.jsonl
    cp "$base" results/baselines/other-1x2-1a-2b.jsonl
    rm "$base"
    go compare
    [ "$status" -eq 3 ]
    has "other-1x2-1a-2b.jsonl: suite other" "--force" accept \
        "tiny-4x2-9a-2b.jsonl: ranks: 4 there, 1 here; hardware: cpus:64 there, cpus:2 here" \
        "tiny-1x2-1a-9b.jsonl: fabric: gbit_per_sec:100 there, gbit_per_sec:10 here"
    [[ "$output" != *compared* ]]
    go compare --force
    [ "$status" -eq 0 ]
    has "compared: results/baselines/tiny-1x2-1a-9b.jsonl results/runs/$(runs) --history results/runs --force"
}

# A repository whose revisions `one` and `two` are programs with these names, and `bad` does not build.
make_repository() {
    mkdir tree
    cp -r "$root/scripts" tree/scripts
    # With the launcher of this tree.
    ln -sf "$root/scripts/run.sh" tree/scripts/run.sh
    regress=$BATS_TEST_TMPDIR/tree/scripts/regress.sh
    cat >tree/Makefile <<'EOF'
dptrain: program
	@echo $(CUDA) >>$(FAKE_LOG).made
	cp program dptrain
	chmod +x dptrain
EOF
    printf 'build/\nresults/\n/dptrain\n' >tree/.gitignore
    git -C tree init -q
    git -C tree config user.name x
    git -C tree config user.email x@localhost
    for name in one two; do
        fake "$name" "$name" >tree/program
        git -C tree add -A
        git -C tree commit -qm "$name"
        git -C tree tag "$name"
    done
    git -C tree rm -q program
    git -C tree commit -qm bad
    git -C tree tag bad
    git -C tree reset -q --hard two
    unset DPTRAIN_BIN
}

@test "ab: two revisions built in worktrees, A B B A, kept programs" {
    make_repository
    FAKE_CODE=1 run "$regress" ab one two --suite ./tiny.conf --starts 3 -np 1 \
        --b-args '--burn step:0.05' -- --alpha 0.1
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(cut -d ' ' -f 1 log | xargs)" = "one two two one one two" ]
    [ "$(grep -c -- --burn log)" -eq 3 ]
    grep 'two gemm --budget 0.1 --burn step:0.05' log
    folder=$(echo "$BATS_TEST_TMPDIR"/tree/results/runs/ab-*-one-vs-two)
    [ "$(ls "$folder")" = $'a.jsonl\nb.jsonl' ]
    has "compared: $folder/a.jsonl $folder/b.jsonl --alpha 0.1" "a  one: revision one" "with --burn step:0.05"
    [ "$(grep -c bench_end "$folder/a.jsonl")" -eq 3 ]
    [ "$(git -C tree worktree list | wc -l)" -eq 1 ]
    [ -z "$(git -C tree status --short)" ]
    # Both were built, and this tree's program.
    [ "$(wc -l <log.made)" -eq 3 ]
    run "$regress" ab two . --suite ./tiny.conf --starts 1 -np 1
    [ "$status" -eq 0 ]
    has "is already built"
    [ "$(wc -l <log.made)" -eq 3 ]
    # Two settings of one program.
    run "$regress" ab . . --suite ./tiny.conf --starts 1 -np 1 --a-args '--allreduce host' --b-args '--allreduce mpi'
    [ "$status" -eq 0 ]
    [ "$(tail -n 2 log | grep -o 'host\|mpi' | xargs)" = "host mpi" ]
    run "$regress" list
    [ "$(grep -c '^  complete' <<<"$output")" -eq 6 ]
}

@test "ab: an unknown revision is 2, one that does not build is 4, with make's output" {
    make_repository
    run "$regress" ab one none --suite ./tiny.conf
    echo "$output"
    [ "$status" -eq 2 ]
    has "no revision none"
    run "$regress" ab one bad --suite ./tiny.conf
    echo "$output"
    [ "$status" -eq 4 ]
    has "No rule to make target 'program'" "bad (" "full log: $BATS_TEST_TMPDIR/tree/build/regress/"
    grep "No rule to make" "${output##*full log: }"
    [ "$(git -C tree worktree list | wc -l)" -eq 1 ]
    [ -z "$(ls tree/results/runs)" ]
    [ ! -e log ]
}

@test "ab interleaved: both run concurrently with the same folder; when one fails the other is stopped" {
    make_repository
    export FAKE_TURNS=1
    run "$regress" ab one two --suite ./tiny.conf --starts 2 -np 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(sed 's/.*--turns=.*turns.//' log | sort | xargs)" = "0-0:first 0-0:second 1-0:first 1-0:second" ]
    [ "$(grep -c 'one .*0-0:first\|two .*1-0:first' log)" -eq 2 ]
    folder=$(echo tree/results/runs/ab-*-one-vs-two)
    [ "$(ls "$folder")" = $'a.jsonl\nb.jsonl' ]
    rm -rf log "$folder"
    run "$regress" ab one two --suite ./tiny.conf --starts 2 -np 1 --no-turns
    [ "$(grep -c turns log)" -eq 0 ]
    rm -rf log tree/results/runs/*
    # One side waits until it is stopped.
    FAKE_WAITS=one FAKE_FAILS=two run "$regress" ab one two --suite ./tiny.conf --starts 1 -np 1
    echo "$output"
    [ "$status" -eq 1 ]
    has "start 1 of 1 of b failed" "wrong data" "a.partial.jsonl"
    grep -c interrupted tree/results/runs/ab-*/a.partial.jsonl
    [ "$(ls tree/results/runs/ab-*/)" = $'a.partial.jsonl\nb.partial.jsonl' ]
}

@test "inside Slurm: the allocation's hosts are probed and used" {
    export SLURM_JOB_NODELIST='[a-b]' SLURM_TASKS_PER_NODE='1(x2)'
    stand_in scontrol <<<'printf "a\nb\n"'
    stand_in srun <<<'echo "srun $*" >>"$FAKE_LOG.srun"; exit 1'
    go run --suite ./tiny.conf --starts 1
    [ "$status" -eq 4 ]
    grep -- '--nodelist=a' log.srun
    has "start 1 of 1 failed"
    [ -z "$(runs)" ]
}

@test "a real suite of one second: run, accept, compare" {
    dptrain=$root/dptrain
    export PATH=${PATH#*:} DPTRAIN_BIN=$dptrain
    echo 'gemm --gemm-shapes square --gemm-max 64 --budget 0.02' >tiny.conf
    # The machine may be busy.
    measure --force
    [ "$status" -eq 0 ]
    go accept --force
    [ "$status" -eq 0 ]
    sleep 1
    go compare --suite ./tiny.conf
    [ "$status" -le 1 ] || [ "$status" -eq 6 ]
    [ "$(runs | wc -l)" -eq 2 ]
    go list
    [ "$(grep -c '^  complete' <<<"$output")" -eq 3 ]
}
