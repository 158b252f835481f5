#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/nccl_bw.sh: nccl-tests' options and commands as they are typed there. dptrain bench comm has bench_comm.bats, NCCL
# nccl.bats.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # jq's names; subshells, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

records() { # JQ's words
    jq -e -c 'select(.record == "bench")' "$BATS_TEST_TMPDIR/records" | jq -e -s "$@"
}

# The script beside a run.sh that prints its words.
copy_of_script() {
    mkdir -p "$BATS_TEST_TMPDIR/scripts"
    cp "$root/scripts/nccl_bw.sh" "$root/scripts/lib.sh" "$BATS_TEST_TMPDIR/scripts"
    printf '#!/bin/sh\necho "run.sh $*"\n' >"$BATS_TEST_TMPDIR/scripts/run.sh"
    chmod +x "$BATS_TEST_TMPDIR/scripts/run.sh"
    cd "$BATS_TEST_TMPDIR" || return
    printf 'a slots=8\nb slots=8\n' >hosts
}

# What run.sh gets, without the path of the records, and what is said about it.
words() { # WORDS...
    run scripts/nccl_bw.sh "$@"
    echo "$*: $output"
    said=$(grep '^# -' <<<"$output") || true
    called=$(sed -n 's/^run\.sh \(.*\)--out=[^ ]* *\(.*\)/\1\2/p' <<<"$output") called=${called% }
}

gives() { # WORDS-OF-RUN.SH WORDS...
    words "${@:2}"
    [ "$status" -eq 0 ]
    [ "$called" = "$1" ]
}

# The command lines of its README, of today and of 2022.
@test "every command of nccl-tests' README runs as typed" {
    copy_of_script
    gives "-np 8 -- bench comm --test=all_reduce --minbytes=8 --maxbytes=128M --stepfactor=2" \
        ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 8
    [ -z "$said" ]
    gives "--num-gpus 8 -np 64 -- bench comm --test=all_reduce --minbytes=8 --maxbytes=8G --stepfactor=2" \
        mpirun -np 64 -N 8 ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1
    gives "-np 40 -- bench comm --test=all_reduce --minbytes=8 --maxbytes=128M --stepfactor=2" \
        mpirun -np 10 ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 4
    # As people combine them.
    gives "-np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO --mca btl tcp,self -- bench comm --test=reduce_scatter --minbytes=1G" \
        mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO --mca btl tcp,self /opt/nccl-tests/build/reduce_scatter_perf_mpi -b 1G
    gives "-np 8 -- bench comm --test=alltoall --maxbytes=1G" alltoall_perf -e 1G -g 8
    gives "-hostfile hosts -- bench comm --minbytes=8 --maxbytes=8G --stepfactor=2" hosts -b 8 -e 8G -f 2
    gives "--num-gpus 8 -hostfile hosts -- bench comm" hosts -g 8
    for option in "--out mine" "--out=mine"; do
        # shellcheck disable=SC2086 # two words
        gives "-np 2 -- bench comm --quick --budget 1" -np 2 -- --quick $option --budget 1
        [[ $output == *"bench comm --out=mine --quick"* ]]
    done
    words mpirun --allow-run-as-root --oversubscribe -np 2 all_reduce_perf -b 8
    [ "$status" -eq 0 ]
    words srun -n 2 --mpi=pmix ./build/all_reduce_perf -b 8
    [ "$status" -eq 2 ]
    [[ "$output" == *"srun is another launcher's: omit it and its options, or write mpirun"* ]]
    words ./build/all_reduce_perf -b 8 -g 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"-g 1: a collective needs two ranks or more; -g N starts N"* ]]
    words alltoallw_perf -b 8
    [ "$status" -eq 2 ]
    [[ "$output" == *"alltoallw_perf is not measured; "*" hypercube "* ]]
    for test in gather scatter alltoallv hypercube; do
        gives "-np 4 -- bench comm --test=$test" "${test}_perf" -g 4
    done
    gives "-np 2 -- bench comm --output-file=x.json --output-file=y.json" -np 2 -J x.json --output_file=y.json
    NCCL_TESTS_ALLTOALLV_SPREAD=1.0 gives "-np 4 -- bench comm --test=alltoallv" alltoallv_perf -g 4
    for variable in SPREAD=0.5 MATRIX_FILE=traffic.txt; do
        export "NCCL_TESTS_ALLTOALLV_$variable"
        words alltoallv_perf -g 4
        [ "$status" -eq 2 ]
        [[ "$output" == *NCCL_TESTS_ALLTOALLV_* ]]
        unset "NCCL_TESTS_ALLTOALLV_${variable%=*}"
    done
    NCCL_TESTS_SPLIT="AND 0x7" words -b 8
    [ "$status" -eq 2 ]
    [[ "$output" == *"NCCL_TESTS_SPLIT: ranks are not split; "* ]]
}

@test "every option of nccl-tests' README has its meaning, or one line that says why not" {
    local option
    copy_of_script
    gives "-np 6 -- bench comm" -t 2 -g 3
    gives "-np 12 -- bench comm" -np 2 --nthreads 2 --ngpus=3
    gives "-np 4 -- bench comm --check=0 --root=1 --datatype=half --op=avg --stepbytes=1M --timeout=20" \
        -g4 -c 0 -r 1 -d half -o avg -i 1M -T 20 -p 1
    [ -z "$said" ]
    gives "-np 2 -- bench comm --check=1" -np 2 -c 5 -T 0 -p 0 -m 1 -a 3 -G 0 -C 0 -z 0 -R 0 -N 1 -S 0 -M 0 -I 0 -K 0 -D 0 -V 16 -u 0
    [ -z "$said" ]
    for option in "-m 4" "-a 0" "-a 1" "-a 2" "-G 5" "-C 1" "-z 1" "-z 3" "-R 1" "-R 2" "-N 0" "-S 1" "-M 1" "-I 1" "-K 3" "-x 1" \
        "--agg_iters 4" "--average 1" "--cudagraph 5" "--report_cputime 1" "--blocking 1" "--local_register 1"; do
        # shellcheck disable=SC2086 # these are words
        gives "-np 2 -- bench comm" -np 2 $option
        [[ "$said" == "# $option: "?* && "$said" != *$'\n'* ]]
    done
    for option in "-D 1|device API" "-u 1|aligned" "-F x.json|-J FILE" "-r all|one root at a time"; do
        # shellcheck disable=SC2086 # these are words
        words -np 2 ${option%|*}
        [ "$status" -eq 2 ]
        [[ "$output" == *"error: ${option%% *}"*"${option#*|}"* ]]
    done
    words -np 2 -m two
    [ "$status" -eq 2 ]
    [[ "$output" == *"invalid -m 'two': expected a whole number"* ]]
}

@test "-g N starts N ranks, listed under Using devices" {
    export DPTRAIN_BIN=$dptrain
    run --separate-stderr "$root/scripts/nccl_bw.sh" ./build/all_reduce_perf -b 1K -e 4K -f 2 -g 3 -d half -o avg -T 100 \
        --out "$BATS_TEST_TMPDIR/records" -- --quick --budget 0.02
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^#  Rank  [012] Group  0 Pid +[0-9]+ on ' <<<"$output")" -eq 3 ]
    records 'length == 6 and all(.[]; .key.ranks == 3 and .key.datatype == "half" and .key.redop == "avg" and .metrics.wrong == 0)'
}

@test "prints nccl-tests' table on two ranks, and the path of the records" {
    export DPTRAIN_BIN=$dptrain
    unset OMPI_MCA_pml # as a user starts it
    run --separate-stderr "$root/scripts/nccl_bw.sh" -np 2 -b 1K -e 4K -f 2 -n 20 -w 5 -g 1 -c 1 -d int8 -o max \
        --out "$BATS_TEST_TMPDIR/records" -- --quick --budget 0.02
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ranks   2 on 1 host"*" cpu "*"# all_reduce, mpi, Open MPI"* ]]
    [[ "${lines[0]}" == "# -n 20 -w 5 ignored:"* ]]
    [ "$(awk '/^ +[0-9]/ { print $1, $2, $3, $4, $5, $9, $13 }' <<<"$output")" = "\
1024 1024 int8 max -1 0 0
2048 2048 int8 max -1 0 0
4096 4096 int8 max -1 0 0" ]
    [ "${lines[-1]}" = "# records: $BATS_TEST_TMPDIR/records" ]
    records 'length == 6'
}

@test "--expect-busbw: a test that stays below ends with code 1, after all tests and their records" {
    export DPTRAIN_BIN=$dptrain
    args=(-np 2 -b 1K -e 4K -f 2 --out "$BATS_TEST_TMPDIR/records")
    run "$root/scripts/nccl_bw.sh" "${args[@]}" --test all_reduce,broadcast --expect-busbw=500000 -- --quick --budget 0.02
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^# Max bus bandwidth .*500000 expected FAILED$' <<<"$output")" -eq 2 ]
    [[ "$output" == *"error: below --expect-busbw 500000: all_reduce of mpi reached "*" GB/s, broadcast of mpi reached "* ]]
    [[ "$output" == *"# records: $BATS_TEST_TMPDIR/records"* ]]
    [ "$(jq -r 'select(.record == "bench_end").reason' "$BATS_TEST_TMPDIR/records")" = finished ]
    # The largest of all, not the mean.
    most=$(records 'map(select(.test == "all_reduce").metrics.busbw_gbs) | max')
    awk -v most="$most" '/^# Max/ { exit ($5 - most) ^ 2 > (1e-4 * most) ^ 2 }' <<<"$(tr -s ' :' ' ' <<<"$output")"
    run "$root/scripts/nccl_bw.sh" "${args[@]}" --expect-busbw 0.00001 -- --quick --budget 0.02
    [ "$status" -eq 0 ]
    for wrong in abc 0 -5; do
        run "$root/scripts/nccl_bw.sh" "${args[@]}" --expect-busbw "$wrong"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"--expect-busbw '$wrong'"* ]]
    done
}

@test "passes a hostfile on, and exit codes back" {
    export DPTRAIN_BIN=$dptrain
    echo "localhost slots=2" >"$BATS_TEST_TMPDIR/hosts"
    # Records of an earlier run.
    echo '{}' >"$BATS_TEST_TMPDIR/records"
    run "$root/scripts/nccl_bw.sh" "$BATS_TEST_TMPDIR/hosts" -b x --out "$BATS_TEST_TMPDIR/records"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "$output" == *minbytes*x* && "$output" != *"# records"* ]]
    rm "$BATS_TEST_TMPDIR/records"
    run "$root/scripts/nccl_bw.sh" "$BATS_TEST_TMPDIR/hosts" -b 1K -e 1K --out "$BATS_TEST_TMPDIR/records" -- \
        --quick --budget 0.02 --inject 0:3
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"2 ranks on 1 host"* ]]
    run "$root/scripts/nccl_bw.sh" -np 2 -d flot --out "$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean 'float'"* && "$output" != *"# records"* ]]
    # Records that could not be written are not promised.
    run "$root/scripts/nccl_bw.sh" -np 2 -b 1K -e 1K --out "$BATS_TEST_TMPDIR"
    [ "$status" -eq 2 ]
    [[ "$output" == *"is a folder"* && "$output" != *"# records"* ]]
    run "$root/scripts/nccl_bw.sh" -hostfile "$BATS_TEST_TMPDIR/hosts" -b 1K
    [ "$status" -eq 2 ]
    [[ "$output" == *"give the hostfile as the first word: scripts/nccl_bw.sh $BATS_TEST_TMPDIR/hosts"* ]]
}

@test "has help, and lists its options" {
    run "$root/scripts/nccl_bw.sh" --help
    [ "$status" -eq 0 ]
    [[ "$output" == "usage: scripts/nccl_bw.sh"* ]]
    run "$root/scripts/nccl_bw.sh" -Z 3
    [ "$status" -eq 2 ]
    [[ "$output" == *"'-Z'"*"-b -e -f"* ]]
    run "$root/scripts/nccl_bw.sh" /no/such/hosts
    [ "$status" -eq 2 ]
    [[ "$output" == *"cannot read the hostfile /no/such/hosts"* ]]
    run "$root/scripts/nccl_bw.sh" -b 8 hosts
    [ "$status" -eq 2 ]
    [[ "$output" == *"the hostfile comes first"* ]]
    run "$root/scripts/nccl_bw.sh" -np 1
    [ "$status" -eq 2 ]
    for option in -b -np -n -g --nthreads --out; do
        run "$root/scripts/nccl_bw.sh" "$option"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$option needs a value"* ]]
    done
}
