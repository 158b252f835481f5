#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tests/attack/attack.sh: the list of faults, the shim, the oracle on made-up outcomes, and a small storm that must do no harm.
# scripts/test.sh --slow runs the whole list, on one host and on three.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    work=$BATS_TEST_TMPDIR here=$root/tests/attack
}

# ---- The oracle, on made-up outcomes ----
# A run of four steps and a checkpoint every two; "verify" accepts files that hold the word good.
made_up() {
    local step
    seed=1 hosts=no n_faults=1 only='' one=0 literal='' timeout_sec=1 bad=() k=1 id=made-up.$$ attack_id=made-up job_out=$work/out
    # shellcheck source=tests/attack/plan.sh
    . "$here/plan.sh"
    # shellcheck source=tests/attack/job.sh
    . "$here/job.sh"
    # shellcheck source=tests/attack/oracle.sh
    . "$here/oracle.sh"
    # shellcheck source=tests/attack/page.sh
    . "$here/page.sh"
    dir=$work/k1 codes=5 words='' floor='' replica=no hang='' took_ms=0 n_steps=4 every=2 grace_sec=1 launcher_sec=1 start_sec=0 real=$work/real
    mkdir -p "$dir/run" "$work/whole.2/run"
    for step in 0 1 2 3; do
        printf '{"record":"step","step":%d,"loss":%d.5}\n' "$step" $((4 - step))
        ((step % 2 == 0)) || printf '{"record":"checkpoint","step":%d,"error":null}\n' $((step + 1))
    done >"$work/whole.2/run/metrics.jsonl"
    cp "$work/whole.2/run/metrics.jsonl" "$dir/run/"
    echo good >"$dir/run/ckpt-000000000002.h5"
    echo good >"$dir/run/ckpt-000000000004.h5"
    # shellcheck disable=SC2016 # for the program
    printf '%s\n' '#!/usr/bin/env bash' 'code=0' 'for f in "$3"/ckpt-*; do if grep -q good "$f"; then echo "ok      $f (5 bytes)"' \
        'else echo "not ok  $f"; code=1; fi; done' 'exit $code' >"$real"
    chmod +x "$real"
    echo "run.sh: error: rank 1 on here was killed" >"$dir/out"
    code=5
}

found() { # FINDINGS
    judge_end
    echo "code $code: found ${bad[*]:-nothing}, expected ${1:-nothing}"
    [ "${bad[*]}" = "$1" ]
    bad=() floor=''
}

@test "the oracle: a good end, and each bad one" {
    made_up
    words='[rR]ank 1\b' found ''
    words='[rR]ank 2\b' found unnamed
    # Named only in a line that is no message.
    echo "rank 2 works" >>"$dir/out"
    words='[rR]ank 2\b' found unnamed
    words=''
    code=1 found code-1
    code=0 codes="0 5" found ''
    hang=ranks found hang-ranks
    hang='' code=5
    # A damaged file is lost only if an announced step goes with it.
    echo bad >"$dir/run/ckpt-000000000002.h5"
    found ''
    echo bad >"$dir/run/ckpt-000000000004.h5"
    echo good >"$dir/run/ckpt-000000000002.h5"
    found lost-checkpoint
    floor=2 found ''
    rm "$dir"/run/ckpt*
    found lost-checkpoint
    echo "epoch 1" >"$dir/out"
    floor=-1 found silent
}

@test "the oracle: records that are torn, lost, or of other bits" {
    made_up
    [ "$(records_wrong "$dir/run")" = "" ]
    # A resumed run repeats steps.
    grep '"step":3' "$dir/run/metrics.jsonl" >>"$dir/run/metrics.jsonl.more"
    cat "$dir/run/metrics.jsonl.more" >>"$dir/run/metrics.jsonl"
    [ "$(records_wrong "$dir/run")" = "" ]
    echo '{"record":"step","st' >>"$dir/run/metrics.jsonl"
    [ "$(records_wrong "$dir/run")" = torn-records ]
    [ "$(records_wrong "$dir/run" 1)" = "" ]
    sed -i '$d; s/"loss":2.5/"loss":2.500001/' "$dir/run/metrics.jsonl"
    [ "$(records_wrong "$dir/run")" = wrong-bits ]
    sed -i '/"step":2,/d' "$dir/run/metrics.jsonl"
    [ "$(records_wrong "$dir/run")" = lost-records ]
    rm "$dir/run/metrics.jsonl"
    [ "$(records_wrong "$dir/run")" = lost-records ]
}

# A program with the name of dptrain that belongs to the job.
lives() { # SECONDS
    cp "$(command -v sleep)" "$work/dptrain"
    env "DPTRAIN_ATTACK=$id" OMPI_COMM_WORLD_RANK=1 "$work/dptrain" "$1" 3>&- &
    rank=$!
}

@test "the oracle: what outlives the deadline is a hang, by name, and is ended" {
    made_up
    lives 60
    job=$rank
    job_wait
    [ "$hang" = ranks ]
    run kill -0 "$rank"
    [ "$status" -ne 0 ]
    # The launcher is gone, its rank is not.
    lives 60
    bash -c 'exit 3' 3>&- &
    job=$!
    job_wait
    [ "$hang/$code" = orphans/3 ]
    env "DPTRAIN_ATTACK=$id" sleep 60 3>&- &
    job=$!
    job_wait
    [ "$hang" = launcher ]
    lives 0.1
    job=$rank
    job_wait
    [ "$hang/$code" = /0 ]
}

@test "the table counts findings once per fault, and decides" {
    made_up
    command='attack' load=0
    row() { printf '%s\n' "$1" "$2" "$3" "$4" 10 "$5" "$6" "a=b" "text" | paste -s >>"$work/results.tsv"; }
    row 1 mpi_stop yes 5 ok yes
    row 2 mpi_flip yes 0 replica-bits -
    row 3 mpi_stop no 0 wrong-bits -
    cd "$root"
    (page_verdict)
    row 4 mpi_stop yes 5 hang-ranks,unnamed no
    row 5 file_lie yes 0 lost-checkpoint,false-success -
    page_write >"$work/page"
    cat "$work/page"
    grep -qF '| mpi_stop | 3 | 2 | 1 | 0 | 0 | 0 | 0 | 0 | 1 of 2 | 0 |' "$work/page"
    grep -qF '| **all** | 5 | 4 | 1 | 1 | 0 | 0 | 1 | 0 | 1 of 2 | 0 |' "$work/page"
    # shellcheck disable=SC2016 # Markdown's quotes
    grep -qF '| file_lie | lost-checkpoint,false-success | 1 | `a=b` | 0 | text |' "$work/page"
    run page_verdict
    [ "$status" -eq 1 ]
}

# ---- The list and the shim ----
@test "the list follows from the seed; --fault prints its line; kinds that do not exist are refused" {
    "$here/attack.sh" --list --faults 70 --seed 3 >"$work/one"
    LC_ALL=C "$here/attack.sh" --list --faults 70 --seed 3 >"$work/two"
    cmp "$work/one" "$work/two"
    [ "$(wc -l <"$work/one")" -eq 70 ]
    [ "$("$here/attack.sh" --list --seed 3 --fault 41)" = "$(sed -n 41p "$work/one")" ]
    run "$here/attack.sh" --list --faults 70 --seed 4
    [ "$output" != "$(cat "$work/one")" ]
    run "$here/attack.sh" --only no_such_kind --list
    [ "$status" -eq 2 ]
    run "$here/attack.sh" --fault 'mpi_stop np=2 rank=1' --list
    [ "$output" = '1 mpi_stop np=2 rank=1' ]
    run "$here/attack.sh" --fault 'no_such_kind np=2' --list
    [ "$status" -eq 2 ]
}

@test "the shim strikes the n-th call, says so, and leaves others alone" {
    "${MPICC:-mpicc}" -shared -fPIC -O2 -Wall -Wextra -Werror -o "$work/shim.so" "$here"/shim*.c -ldl -pthread
    write() { # FAULT
        rm -f "$work"/{x,log}
        run env DPTRAIN_FAULT="$1" DPTRAIN_FAULT_LOG="$work/log" LD_PRELOAD="$work/shim.so" \
            dd if=/dev/zero of="$work/x" bs=4 count=4
    }
    write "call=write path=/x n=3 act=fail:ENOSPC"
    [ "$status" -eq 1 ]
    [[ "$output" == *"No space left on device"* && "$(stat -c %s "$work/x")" -eq 8 ]]
    grep -q '^struck at=[0-9.]* rank=0 call=write n=3 act=fail:ENOSPC path=.*/x$' "$work/log"
    write "call=write path=/x n=2 act=flip"
    [ "$status" -eq 0 ]
    [ "$(od -An -tx1 "$work/x" | tr -d ' \n')" = 00000000000010000000000000000000 ]
    write "call=write path=/x n=2 act=kill"
    [ "$status" -eq 137 ]
    write "call=write path=/x n=2 act=exit:7"
    [ "$status" -eq 7 ]
    # Another rank, another file, a call that never comes.
    for fault in "rank=1 call=write path=/x act=kill" "call=write path=/y act=kill" "call=write path=/x n=9 act=kill"; do
        write "$fault"
        [ "$status" -eq 0 ]
        [ ! -e "$work/log" ]
    done
    write "call=write act=explode"
    [ "$status" -eq 99 ]
}

@test "the list of a storm follows from the seed; its page counts, and decides" {
    "$here/attack.sh" --storm --no-hosts --list --faults 60 --seed 3 >"$work/one"
    "$here/attack.sh" --storm --no-hosts --list --faults 60 --seed 3 | cmp - "$work/one"
    [ "$(wc -l <"$work/one")" -eq 60 ]
    [ "$("$here/attack.sh" --storm --no-hosts --list --seed 3 --fault 41)" = "$(sed -n 41p "$work/one")" ]
    run "$here/attack.sh" --storm --fault 'no_such_kind rank=1' --list
    [ "$status" -eq 2 ]
    # --faults counts those of --only.
    "$here/attack.sh" --storm --no-hosts --list --faults 11 --only '^(flip_states|data_removed)$' >"$work/one"
    [ "$(cut -d ' ' -f 2 "$work/one" | sort | uniq -c | wc -l)/$(wc -l <"$work/one")" = 2/11 ]
    run "$here/attack.sh" --storm --no-hosts --list --only '^link_cut$'
    [ "$status" -eq 2 ]
    run "$here/attack.sh" --no-hosts --list
    [ "$status" -eq 2 ]
    # shellcheck source=tests/attack/storm/page.sh
    . "$here/storm/page.sh"
    declare -A storm_expected=([kill_training]=resumes [flip_before_sum]=replay)
    storm_own=(flip_before_sum)
    row() { printf '%s\n' "$@" | paste -s >>"$work/results.tsv"; }
    row 1 kill_training local yes resumed 1000 3000 ok yes - job=0 ''
    row 2 kill_training local yes resumed 2000 5000 ok yes 3 job=0 ''
    row 3 kill_training local no 'not struck' - - ok - - job=0 ''
    row 4 flip_before_sum local yes 'goes on' - - ok - replayed job=1 ''
    printf '%s\n' 0 local 2 lenet5 6 3 0 no ok | paste -s >"$work/jobs.tsv"
    printf '%s\n' 1 local 2 lenet5 6 1 0 yes wrong-weights | paste -s >>"$work/jobs.tsv"
    (storm_verdict)
    [ "$(storm_counts '')" = "3 2 2 0 0 0 2 2 1 1 0 1.0 2.0 3.0 5.0" ]
    for wrong in hang wrong-bits lost-checkpoint accepted-corrupt late code-3; do
        cp "$work/results.tsv" "$work/kept"
        row 5 kill_training local yes resumed - - "$wrong" - 9 job=0 ''
        run storm_verdict
        [ "$status" -eq 1 ]
        mv "$work/kept" "$work/results.tsv"
    done
    # Two storms, of which the second was interrupted in a job.
    for out in one two; do
        mkdir "$work/sum.$out"
        cp "$work"/{results,jobs}.tsv "$work/sum.$out/"
        printf '%s\n' '0.1 0.2 0.3' "attack.sh --out $out" >"$work/sum.$out/about"
    done
    sed -i 1d "$work/sum.two/jobs.tsv"
    run "$here/attack.sh" --sum "$work/sum.one" --sum "$work/sum.two"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *'| flip_before_sum | 2 | 2 | 2 | 2 | 0 |'*'attack.sh --out one; attack.sh --out two'* ]]
    [[ "$output" == *'3 faults, 2 struck, 2 as expected: '* ]]
    sed -i '1s/ok$/wrong-weights/' "$work/jobs.tsv"
    run storm_verdict
    [ "$status" -eq 1 ]
}

@test "a fault that finds the job elsewhere strikes again, and one without a job gets another" {
    name=made_up k=7 rest='place=local rank=1' struck_all=0 dir=$work out='' job_out=$work/out plan=() jobs_run=0
    declare -A P
    # shellcheck source=tests/attack/job.sh
    . "$here/job.sh"
    # shellcheck source=tests/attack/storm/life.sh
    . "$here/storm/life.sh"
    # shellcheck source=tests/attack/storm/judge.sh
    . "$here/storm/judge.sh"
    : >"$work/out"
    storm_await_progress() { [[ $progress == yes ]]; }
    storm_control() { :; }
    storm_recover() { [[ $alive == yes ]]; }
    storm_parse "$rest"
    progress=yes alive=yes tries=0 strikes_at=3
    strike_made_up() { if (((tries += 1) == strikes_at)); then at=1; fi; }
    storm_fault
    [ "$tries/$struck_all/$(cut -f 4,5 "$work/results.tsv")" = "3/1/$(printf 'yes\t-')" ]
    # Never: it says so.
    strikes_at=0
    storm_fault
    [ "$struck_all/$(tail -n 1 "$work/results.tsv" | cut -f 4,5)" = "1/$(printf 'no\tnot struck')" ]
    # The job has ended.
    progress=no alive=no
    run storm_fault
    [ "$status" -eq 1 ]
    [ "$(wc -l <"$work/results.tsv")" -eq 2 ]
    # Each job takes two of five faults.
    minutes=0 plan=('1 a job=0 place=local' '2 a job=0 place=local' '3 a job=0 place=local' '4 a job=0 place=local' '5 a job=0 place=local')
    storm_life() { lines=("${lines[@]:2}") && echo "$#" >>"$work/lives"; }
    (storm_worker)
    [ "$(paste -sd ' ' "$work/lives")" = "5 3 1" ]
}

# ---- Faults ----
@test "a few faults: nothing hangs, nothing is lost, no bit is wrong" {
    only_slow "takes half a minute"
    mkdir "$work/out"
    run env -u DPTRAIN_BIND nice "$here/attack.sh" --faults 2 --out "$work/out" \
        --only '^(file_checkpoint|file_short|mpi_slow|between_data|clock_jump)$'
    echo "$output"
    cat "$work/out/page.md"
    [ "$status" -eq 0 ]
    [ "$(awk -F '\t' '$3 == "yes"' "$work/out/results.tsv" | wc -l)" -ge 1 ]
}

@test "a storm: jobs start again by themselves, and end with the bits of an undisturbed run" {
    only_slow "takes half a minute, and cli/restarts has a job like its"
    mkdir "$work/out"
    run env -u DPTRAIN_BIND nice "$here/attack.sh" --storm --no-hosts --seed 4 --faults 5 --minutes 5 --out "$work/out" \
        --only '^(flip_weights|kill_write|checkpoint_truncated|supervisor_killed)$'
    echo "$output"
    cat "$work/out/page.md"
    [ "$status" -eq 0 ]
    # A fault that finds the job elsewhere strikes again, so that a slow machine only takes longer.
    [ "$(awk -F '\t' '$4 == "yes"' "$work/out/results.tsv" | wc -l)" -eq 5 ]
    grep -q 'ends with the bits of the undisturbed run' <<<"$output"
}

@test "a storm's fault by its words, as its table has them" {
    only_slow "takes half a minute"
    run env -u DPTRAIN_BIND "$here/attack.sh" --storm --fault 'mpirun_killed job=1 model=lenet5 np=2 place=local shards=6 signal=KILL wait=1'
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q 'ends with the bits of the undisturbed run' <<<"$output"
}

@test "ten minutes of storm, on this machine and on three hosts" {
    only_slow "takes ten minutes"
    run env -u DPTRAIN_BIND "$here/attack.sh" --storm --faults 500 --minutes 10 --jobs 4 --out "$work/out"
    echo "$output"
    cat "$work/out/page.md"
    [ "$status" -eq 0 ]
}

@test "every kind of fault on one host" {
    only_slow "takes half an hour"
    run "$here/attack.sh" --faults 300 --out "$work/out"
    echo "$output"
    cat "$work/out/page.md"
    [ "$status" -eq 0 ]
}

@test "every kind of fault on three hosts" {
    only_slow "takes half an hour"
    why=$(. "$root/tests/cluster/cluster.bash" && cluster_why)
    [[ -z $why ]] || skip "$why"
    run "$here/attack.sh" --hosts --faults 60 --out "$work/out"
    echo "$output"
    cat "$work/out/page.md"
    [ "$status" -eq 0 ]
}
