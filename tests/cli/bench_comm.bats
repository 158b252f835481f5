#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain bench comm: nccl-tests' tables, records, rejected options, wrong data.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # jq's names; subshells, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common
bats_require_minimum_version 1.5.0

# bench_comm RANKS OPTIONS...: a point takes some hundredths of a second.
bench_comm() {
    on_ranks "$1" bench comm --out "$BATS_TEST_TMPDIR/records" --quick --budget 0.02 "${@:2}"
}

records() { # JQ's words
    jq -e -c 'select(.record == "bench")' "$BATS_TEST_TMPDIR/records" | jq -e -s "$@"
}

@test "a table has nccl-tests' columns, one row per size, and a record for each half of a row" {
    run --separate-stderr bench_comm 2 -b 1K -e 16K -f 4
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"out-of-place                     in-place"* ]]
    [[ "$output" == *"size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw"* ]]
    [[ "$output" == *"(B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)"* ]]
    [[ "$output" == *"# Out of bounds values : 0 OK"* && "$output" == *"# Avg bus bandwidth    : "* ]]
    rows=$(grep -E '^ +[0-9]' <<<"$output")
    [ "$(awk '{ print $1, $2, $3, $4, $5, $9, $13, $14 }' <<<"$rows")" = "\
1024 256 float sum -1 0 0 mpi,
4096 1024 float sum -1 0 0 mpi,
16384 4096 float sum -1 0 0 mpi," ]
    # On two ranks busbw is algbw.
    awk '$6 <= 0 || $7 != $8 || $11 != $12 { exit 1 }' <<<"$rows"
    records 'length == 6'
    records 'map(.key.bytes) == [1024, 1024, 4096, 4096, 16384, 16384]'
    records 'map(.key.in_place) == [false, true, false, true, false, true]'
}

@test "disturbed points: marks, best samples, and the average with and without them" {
    run --separate-stderr bench_comm 2 -b 1K -e 4K -f 4 --clock 1e-12
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE ' out-of-place! \(best [0-9.]+ [num]?s\)  in-place! \(best [0-9.]+ [num]?s\)$' <<<"$output")" -eq 2 ]
    # nccl-tests' line is as it is there.
    grep -qE '^# Avg bus bandwidth    : [0-9.e-]+$' <<<"$output"
    grep -qE '^# Avg of undisturbed   : -, .* 4 points' <<<"$output"
    records 'length == 4 and all(.[]; .verdict == "disturbed" and .min > 0)'
    bench_comm 2 -b 1K -e 1K --test all_pairs --clock 1e-12 | grep -cE '^# (slow|fast)est pair: .* GB/s each way ! \(best sample: [0-9.]+\)$'
}

@test "a record has its key, and figures consistent with its time" {
    bench_comm 3 -b 48K -e 48K --test all_reduce,all_gather,broadcast -d int32 -o max -r 1
    records 'length == 6 and all(.[]; .case == "comm" and .schema == 1 and .metrics.wrong == 0)'
    records 'all(.[]; .key | (keys == ["bytes", "communicator", "count", "datatype", "hosts", "in_place", "ranks",
        "redop", "root"]) and .ranks == 3 and .hosts == 1 and .communicator == "mpi" and .datatype == "int32")'
    records '[.[0, 2, 4] | [.test, .key.count, .key.redop, .key.root]] == [["all_reduce", 12288, "max", -1],
        ["all_gather", 4096, "none", -1], ["broadcast", 12288, "none", 1]]'
    records 'all(.[]; (.metrics.algbw_gbs * .p50 * 1e9 / .key.bytes - 1) | fabs < 1e-6)'
    records 'all(.[]; ({all_reduce: (4 / 3), all_gather: (2 / 3), broadcast: 1}[.test] as $factor
        | .metrics.busbw_gbs / .metrics.algbw_gbs / $factor - 1) | fabs < 1e-6)'
    records 'all(.[]; .metrics.line_rate_gbs == null and .metrics.above_line_rate == false)'
}

@test "every collective, type and operation is correct on two ranks" {
    run --separate-stderr on_ranks 2 bench comm --out "$BATS_TEST_TMPDIR/records" --quick --budget 0.001 --ci 1 \
        --test all -d all -o all -b 512 -e 512
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '# Out of bounds values : 0 OK' <<<"$output")" -eq 13 ]
    # 3 collectives × 10 types × 5 operations, 8 × 10, in both places, alltoallv × 10, and one pair × 10.
    records 'length == 2 * (3 * 10 * 5 + 8 * 10) + 10 + 10 and all(.[]; .metrics.wrong == 0)'
}

@test "half, bfloat16 and averages by MPI, on three ranks; a flipped bit is detected" {
    run --separate-stderr bench_comm 3 -d half,bfloat16,int8 -o avg,max --test all_reduce,reduce_scatter,reduce -b 3000 -e 3000
    echo "$output"
    [ "$status" -eq 0 ]
    records 'length == 3 * 3 * 2 * 2 and all(.[]; .metrics.wrong == 0)'
    records '[.[].key.redop] | unique == ["avg", "max"]'
    run --separate-stderr bench_comm 3 -d half -o avg -b 3000 -e 3000 --inject 2:17
    [ "$status" -eq 1 ]
    [ "$(grep -c '# wrong data: all_reduce.* half; rank 2 on .*: element 17 of 1500 is ' <<<"$output")" -eq 2 ]
}

@test "the block Using devices has a line per rank, as nccl-tests'" {
    run --separate-stderr bench_comm 3 -b 1K -e 1K
    echo "$output"
    grep -A 5 '^# Using devices$' <<<"$output" >"$BATS_TEST_TMPDIR/block"
    for rank in 0 1 2; do
        grep -qE "^#  Rank  $rank Group  0 Pid +[0-9]+ on +$(hostname | cut -d . -f 1) device cpu \[[0-9,-]+\] [^ ]" \
            "$BATS_TEST_TMPDIR/block"
    done
    [[ "$(sed -n 5,6p "$BATS_TEST_TMPDIR/block")" == $'#\n# all_reduce, mpi, '* ]]
}

@test "a flipped bit is detected in every collective: named, counted, exit code 1" {
    run --separate-stderr bench_comm 2 --test all -b 4K -e 4K --inject 1:17
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '# Out of bounds values : 2 FAILED' <<<"$output")" -eq 11 ]
    [ "$(grep -c '# Out of bounds values : 1 FAILED' <<<"$output")" -eq 2 ]
    [ "$(grep -c '# wrong data: .* rank 1 on .*: element 17 of .* instead of ' <<<"$output")" -eq 24 ]
    records 'length == 24 and all(.[]; .metrics.wrong == 1)'
    [ "$(awk '/^ +[0-9]/ && $3 == "float" && ($9 != 1 || $13 != 1 && $13 != "N/A")' <<<"$output")" = "" ]
    [[ "$stderr" == *"some results are wrong"* ]]
    run bench_comm 2 -b 4K -e 4K --inject 1:17 --check 0
    [ "$status" -eq 0 ]
    [[ "$output" == *"not checked"* ]]
}

@test "host: only in place, in the ranks' shared memory" {
    run --separate-stderr bench_comm 2 -b 64 -e 64K -f 32 --communicator host,mpi
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE 'N/A +N/A +N/A +N/A .* 0  host, shared buffer' <<<"$output")" -eq 3 ]
    records '[.[] | select(.key.communicator == "host")] | length == 3 and all(.[]; .key.in_place)'
    for words in "--test all_gather" "--datatype double" "--op max" "--inplace out"; do
        # shellcheck disable=SC2086 # these are words
        run bench_comm 0 --communicator host $words
        echo "$output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$words: the host communicator supports only in-place all_reduce"* ]]
    done
    run bench_comm 2 --communicator host --inject 0:3 -b 64 -e 64
    [ "$status" -eq 1 ]
    run bench_comm 2 --communicator host --allreduce mpi
    [ "$status" -eq 2 ]
    [[ "$output" == *"--allreduce mpi rules it out"* ]]
}

@test "two hosts of two ranks: host count, and marks above the line rate" {
    run --separate-stderr bench_comm 4 -b 64K -e 64K --ranks-per-host 2 --line-rate 0.0001 --test all_reduce,all_pairs \
        --communicator mpi
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"4 ranks on 2 hosts"* && "$output" == *"# line rate: 0.0001 GB/s"* ]]
    grep -qE ' in-place[~!]?\*( \(best .*\))?$' <<<"$output"
    [[ "$output" == *"# * above the line rate of 0.0001 GB/s"* ]]
    records 'all(.[]; .key.hosts == 2 and .metrics.line_rate_gbs == 0.0001)'
    records '[.[] | select(.test == "all_reduce")] | length == 2 and all(.[]; .metrics.above_line_rate)'
    # The shares of the line rate, which one host does not have; - of a disturbed point.
    [[ "$output" == *" of line rate"* ]]
    awk '/^ +65536 / { n++; if ($14 != "-" && $14 < 1e5 * $8 * .5 || $15 != "-" && $15 < 1e5 * $12 * .5 || $16 != "mpi,") bad = 1 } END { exit bad || n != 1 }' <<<"$output"
    # Ranks 0 and 1 are on one host, so nothing between them crosses the network.
    records '[.[] | select(.test == "all_pairs") | [.key.rank_a, .key.rank_b, .metrics.above_line_rate]] ==
        [[0, 1, false], [0, 2, true], [0, 3, true], [1, 2, true], [1, 3, true], [2, 3, false]]'
    grep -qE '^# slowest pair: rank [0-3] \(.+\) and rank [0-3] \(.+\), [0-9.]+ GB/s each way(, [0-9]+ % of the line rate| ! .*)?$' <<<"$output"
    grep -qE '^# fastest pair: rank [0-3] \(.+\) and rank [0-3] \(.+\), [0-9.]+ GB/s each way(, [0-9]+ % of the line rate| ! .*)?$' <<<"$output"
    run bench_comm 4 -b 64K -e 64K --ranks-per-host 2 --communicator host
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "sizes are rounded as in nccl-tests, with a note; no remaining size is an error" {
    run --separate-stderr bench_comm 3 -b 16 -e 1000 -f 4 --test alltoall
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"# skipped, too small for 16 bytes per rank: 16"* ]]
    [[ "$output" == *"# sizes are rounded down to 16 bytes per rank"* ]]
    [ "$(awk '/^ +[0-9]/ { print $1, $2 }' <<<"$output")" = $'48 4\n240 20' ]
    run bench_comm 2 -b 3 -e 3
    [ "$status" -eq 2 ]
    [[ "$output" == *"no size from 3 to 3 bytes is large enough"* ]]
}

@test "gather, scatter, alltoallv and hypercube have nccl-tests' sizes and factors; hypercube needs 2, 4, 8, … ranks" {
    for ranks in 2 3 4; do
        rm -f "$BATS_TEST_TMPDIR/records"
        run --separate-stderr bench_comm "$ranks" -b 6K -e 6K --test gather,scatter,alltoallv,hypercube -r 1
        echo "$output"
        if ((ranks == 3)); then
            [ "$status" -eq 2 ]
            [[ "$stderr" == *"--test hypercube"*" 3"* ]]
            bench_comm 3 -b 6K -e 6K --test gather,scatter,alltoallv -r 1
        else
            [ "$status" -eq 0 ]
        fi
        records --argjson n "$ranks" '(($n - 1) / $n) as $part
            | all(.[]; .metrics.wrong == 0 and .key.redop == "none" and .key.root == ({gather: 1, scatter: 1}[.test] // -1)
              and ((.metrics.busbw_gbs * .p50 * 1e9 / .key.bytes / $part - 1) | fabs < 1e-6)
              and .key.count == (6144 / $n / 16 | floor * 16 / 4))
            and (map(select(.test == "alltoallv" and .key.in_place)) | length == 0)'
    done
}

@test "-J writes nccl-tests' JSON: its keys, the table's figures, null for what is not known" {
    cd "$BATS_TEST_TMPDIR"
    export NCCL_DEBUG=WARN SECRET=hidden
    for file in x.json x.json.0 x.json.1; do # an existing file stays
        rm -f records
        run --separate-stderr bench_comm 3 -b 1K -e 4K -f 4 --test reduce -d int32 -o max -r 2 -J x.json
        [ "$status" -eq 0 ]
        [[ "$output" == *"# Writing JSON output to $file"* ]]
    done
    [ "$(jq -c keys_unsorted x.json)" = '["version","start_time","args","env","nccl_version","config","results","out_of_bounds","average_bus_bandwidth","errors","end_time"]' ]
    [ "$(jq -c '.config | keys_unsorted' x.json)" = '["nthreads","ngpus","minimum_bytes","maximum_bytes","step_factor","warmup_iters","iterations","aggregated_iterations","validation","graph","blocking_collectives","per_iter_timing","per_iter_skip","parallel_init","devices"]' ]
    [ "$(jq -c '.config.devices | map(keys_unsorted) | unique' x.json)" = '[["rank","group","pid","hostname","device","device_hex","device_info"]]' ]
    [ "$(jq -c '.results | map(keys_unsorted) | unique' x.json)" = '[["size","count","type","redop","root","out_of_place","in_place","actual_iterations","experiment_name"]]' ]
    jq -e '.version == 3 and .nccl_version == null and .config.iterations == null and .config.ngpus == null
        and (.config.devices | map(.rank) == [0, 1, 2] and all(.[]; .device == null and .pid > 0))
        and ([.results[] | .size, .count, .type, .redop, (.root | tonumber), .out_of_place.nwrong]
            == [1024, 256, "int32", "max", 2, 0, 4096, 1024, "int32", "max", 2, 0])
        and .out_of_bounds == {count: 0, okay: "true"} and .average_bus_bandwidth.okay == "unchecked"
        and (.env | index("NCCL_DEBUG=WARN") != null and all(.[]; test("SECRET|orte_") | not))
        and (.args | index("-J") != null)' x.json
    [ "$(jq -c '[.results[] | .out_of_place.time, .in_place.time]' x.json.1)" = \
        "$(records -c '[.[].p50 * 1e6]')" ]
    run --separate-stderr bench_comm 2 -b 1K -e 1K --test alltoallv --inject 1:3 -J wrong.json
    [ "$status" -eq 1 ]
    jq -e '.results[0].in_place == null and .results[0].out_of_place.nwrong == 1 and .out_of_bounds == {count: 1, okay: "false"}' wrong.json
}

@test "-J is refused where it cannot be written, before anything is measured; a full disk is an error" {
    cd "$BATS_TEST_TMPDIR"
    for file in missing/x.json "$PWD"; do
        run --separate-stderr bench_comm 2 -b 1K -e 1K -J "$file"
        [ "$status" -eq 4 ]
        [[ "$stderr" == *"-J"*"'$file'"* && "$output" != *"# all_reduce"* ]]
    done
    run --separate-stderr bench_comm 2 -b 1K -e 1K -J /dev/full
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"-J"*"/dev/full"* ]]
    for words in "--test all" "--test reduce,all_reduce" "--test all_pairs" "--communicator mpi,host"; do
        # shellcheck disable=SC2086 # these are words
        run --separate-stderr bench_comm 2 -b 1K -e 1K -J x.json $words
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"-J"*"one table"* ]]
    done
    [ ! -e x.json ]
}

@test "unsupported measurements are rejected with a message" {
    refuse() { # WORDS-OF-THE-MESSAGE RANKS OPTIONS...
        run bench_comm "${@:2}"
        echo "${*:2}: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$1"* ]]
    }
    refuse "needs 2 ranks or more" 1
    run "$dptrain" bench comm --out "$BATS_TEST_TMPDIR/records"
    [ "$status" -eq 2 ]
    [[ "$output" == *"mpirun -np 2"* ]]
    refuse "no size to measure" 0 -b 1M -e 1K
    refuse "no size from 1 to 2 bytes is large enough" 2 -b 1 -e 2
    [[ "$output" == *"# no point was measured"* && "$output" != *"Out of bounds"* ]]
    refuse "never grow" 0 -f 1
    refuse "did you mean 'float'" 0 -d flot
    refuse "the host communicator supports only" 0 -d half --communicator host
    refuse "the host communicator supports only" 0 -o avg --communicator host
    refuse "did you mean 'prod'" 0 -o prd
    refuse "did you mean 'avg'" 0 --op mean
    refuse "did you mean 'all_gather'" 0 --test all_gathr
    refuse "auto cannot be combined" 0 --communicator auto,mpi
    refuse "--comm nccl" 2 --communicator nccl
    refuse "ranks are 0 to 1" 2 -r 2
    refuse "invalid --inject '3': expected RANK:ELEMENT" 0 --inject 3
    refuse "on each rank, but" 2 -b 900000G -e 900000G
    refuse "out of range" 0 -b 0
}

@test "a killed rank: one message, code 5" {
    local log=$BATS_TEST_TMPDIR/log status=0 job
    DPTRAIN_BIN=$dptrain DPTRAIN_PROGRESS=1 "$root/scripts/run.sh" -np 2 -- bench comm -b 1M -e 1M --budget 60 \
        --ci 0.000001 --out "$BATS_TEST_TMPDIR/records" >"$log" 2>&1 3>&- &
    job=$!
    for _ in $(seq 600); do
        ! grep -q 'all_reduce of 1048576 bytes.* samples' "$log" || break
        sleep 0.1
    done
    pkill -KILL -n -f "^[^ ]*dptrain bench comm .*$BATS_TEST_TMPDIR/records" || { cat "$log"; return 1; }
    wait "$job" || status=$?
    cat "$log"
    [ "$status" -eq 5 ]
    [ "$(grep -c 'rank [01] on .* was killed by signal 9 (SIGKILL) in "[^"]*".*; start it again' "$log")" -eq 1 ]
}
