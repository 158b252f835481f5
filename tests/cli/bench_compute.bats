#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `dptrain bench` gemm, conv, mem and io at tiny sizes: tables, records, detection of wrong results, clean-up of
# folders. No assertion depends on time.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell, on purpose; common.bash sets variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    records=$BATS_TEST_TMPDIR/records.jsonl said=$BATS_TEST_TMPDIR/said
}

bench() { # RANKS CASE ARGUMENTS...
    local with=("${@:2}" --budget 0.01 --threads 1 --out "$records")
    [[ " $* " == *" --no-quick "* ]] || with+=(--quick)
    if (($1 > 1)); then
        on_ranks "$1" bench "${with[@]}" >"$said"
    else
        "$dptrain" bench "${with[@]}" >"$said"
    fi
}

# Every line is JSON; the points of a test, as an array, meet the condition.
points() { # TEST CONDITION
    jq -es "map(select(.record == \"bench\" and .test == \"$1\")) | $2" "$records" >/dev/null || {
        echo "does not hold for $1: $2"
        return 1
    }
}

# Fields of every point of a case.
sound() { # CASE POINTS RANKS
    jq -es "map(select(.record == \"bench\" and .case == \"$1\"))
        | length == $2 and all(.key.ranks == $3 and .key.threads == 1 and .key.device == \"cpu\"
            and .metrics.wrong == 0 and .p50 > 0 and .n > 0 and (.samples | length) == .n)
        and (map([.test, .key]) | unique | length) == $2" "$records" >/dev/null || {
        echo "the records of $1 are not sound"
        return 1
    }
}

@test "--samples takes that many samples of each point, whatever their precision" {
    for n in 1 2; do
        rm -f "$records"
        bench "$n" gemm --gemm-max 64 --samples 7 --ci 0.000001
        points gemm 'length > 0 and all(.n == 7 and (.batch_n | add) == 7 and (.samples | length) == 7)'
    done
    run "$dptrain" bench gemm --samples 7 --turns "$BATS_TEST_TMPDIR/turns:first"
    [ "$status" -eq 2 ]
    [[ $output == *"--samples and --turns exclude each other"* ]]
}

@test "gemm: rates are consistent with shapes and times, in the records and in the table" {
    for n in 1 2; do
        for precision in fp32 bf16; do
            rm -f "$records"
            bench "$n" gemm --gemm-max 128 --gemm-precision "$precision"
            sound gemm 5 "$n"
            points gemm "all((.metrics.gflops * .p50 * 1e9) / (2 * .key.m * .key.n * .key.k) | . > 0.9999 and . < 1.0001)"
            points gemm "all(.metrics.gflops_all == $n * .metrics.gflops)"
            # One peak for all points, and none is above it.
            points gemm '(map(.metrics.peak_gflops) | unique | length) == 1 and all(.metrics.share_of_peak <= 1) and
                (map(.metrics.gflops) | max) <= .[0].metrics.peak_gflops'
            points gemm 'map([.key.m, .key.n, .key.k]) == [[64, 64, 64], [128, 128, 128], [64, 500, 800], [64, 10, 500],
                [32, 1000, 2048]]'
            points gemm "all(.key.dtype == \"$([[ $precision == fp32 ]] && echo float32 || echo bfloat16)\")"
        done
    done
    # The line of the peak names what measured it: an instruction, unless a product beat that.
    grep -E '^peak: [0-9.]+ .* per rank \((.*, [0-9]+ threads?|a product of [0-9]+ x [0-9]+ x [0-9]+)\)$' "$said"
    # One row per point under one header, every column under its name.
    [ "$(grep -cE '^  (square|lenet5/fc[12]|resnet50/fc) +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+[~!]? +[0-9.]+ +[0-9.]+ +([0-9.]+ %|-) +0$' "$said")" -eq 5 ]
    [ "$(grep -cE '^  shape +m +n +k +time us +GFLOP/s +all ranks +of peak +wrong$' "$said")" -eq 1 ]
}

@test "a disturbed point shows its best sample and no share of the peak" {
    # Every run of the calibration loop is slower than this.
    bench 1 gemm conv mem io --gemm-max 64 --conv-net lenet5 --mem-bytes 96K --io-bytes 1M --clock 1e-12
    jq -es 'map(select(.record == "bench")) | length > 0 and all(.verdict == "disturbed")
        and (map(select(.case == "gemm" or .case == "conv"))
            | length > 0 and all(.metrics | has("share_of_peak") and .share_of_peak == null and .peak_gflops > 0))' "$records"
    rows=$(grep -cE '[0-9]! ' "$said")
    [ "$rows" -eq "$(jq -s 'map(select(.record == "bench")) | length' "$records")" ]
    [ "$(grep -A 1 -E '[0-9]! ' "$said" | grep -cE '^    best sample: [0-9.]+ [numk]?s, [0-9.]+ (GFLOP|GB)/s$')" -eq "$rows" ]
    [ "$(grep -cE '[0-9] % ' "$said")" -eq 0 ]
}

@test "conv: three passes of each layer, with their algorithms" {
    bench 2 conv --conv-net lenet5 --conv-batch 2
    sound conv 6 2
    for pass in forward backward_data backward_weights; do
        points "$pass" 'map(.key.layer) == ["conv1", "conv2"] and all(.metrics.algorithm != "" and .key.batch == 2)'
        points "$pass" '[.[] | .metrics.gflops * .p50 * 1e9 / 4] | .[0] / 288000, .[1] / 1600000 | . > 0.9999 and . < 1.0001'
    done
    [ "$(grep -cE '^  lenet5/conv[12] +2x[0-9x]+ k5 s1 [25]0 +(forward|backward_data|backward_weights) +[0-9.]+[~!]? +[0-9.]+ +[0-9.]+ +([0-9.]+ %|-) +[a-z0-9_/]+ +0$' "$said")" -eq 6 ]
    rm "$records"
    bench 2 conv --conv-net lenet5 --conv-batch 2 --conv-algorithms measure
    sound conv 6 2
    points forward 'all(.verdict == "disturbed" or .metrics.share_of_peak > 0 and .metrics.share_of_peak <= 1)'
    points forward 'all(.key.algorithms == "measure")'
}

@test "conv: strides, borders and 1x1 of the large networks are correct; the reference backend" {
    bench 1 conv --conv-net resnet50 --conv-batch 1
    points backward_data 'length >= 3 and all(.metrics.wrong == 0)'
    for pass in forward backward_data backward_weights; do
        points "$pass" 'all(.metrics.share_of_peak <= 1)'
    done
    rm "$records"
    bench 1 conv --conv-net lenet5 --conv-batch 1 --device ref
    points forward 'length == 2 and all(.metrics.wrong == 0 and .metrics.algorithm == "ref" and .key.device == "ref")'
}

@test "mem: STREAM's loops and fresh pages" {
    bench 2 mem --mem-bytes 96K --no-quick
    sound mem 6 2
    for loop in copy scale; do
        points "$loop" 'length == 1 and all(.metrics.gbs * 1e9 * .p50 / .metrics.passes_per_iteration
            / (.key.bytes * 2 / 3) | . > 0.9999 and . < 1.0001)'
    done
    for loop in add triad; do
        points "$loop" 'length == 1 and all(.metrics.gbs * 1e9 * .p50 / .metrics.passes_per_iteration
            / .key.bytes | . > 0.9999 and . < 1.0001)'
    done
    points fresh_pages 'length == 2 and (.[0].metrics.faults_per_page >= 1) and all(.metrics.us_per_page > 0)'
    grep -qE '^  given +[0-9.]+ +triad +[0-9.]+[~!]? +[0-9.]+ +[0-9.]+ +0$' "$said"
}

@test "mem: the loops use the widest vectors, and copy is a loop like the others" {
    [[ $dptrain != */build-san/* ]] || skip "the loops are looked at without sanitizers"
    [[ $(nm "$dptrain" 2>&1) == *" t copy_avx2"* ]] || skip "this build has one version of the loops, or no symbols"
    for loop in copy scale add triad; do
        symbol=$(nm "$dptrain" | awk -v name="^${loop}_avx512" '$3 ~ name { print $3; exit }')
        [ -n "$symbol" ]
        code=$(objdump -d --no-show-raw-insn --disassemble="$symbol" "$dptrain")
        [[ $code == *zmm* && $code != *memcpy* ]]
    done
}

@test "mem: a working set for each cache that the kernel reports, and DRAM" {
    [[ -r /sys/devices/system/cpu/cpu0/cache/index0/size ]] || skip "this kernel tells nothing of its caches"
    bench 1 mem
    points triad 'length >= 2 and .[0].key.level == "L1" and .[-1].key.level == "DRAM"
        and (map(.key.bytes) | . == sort) and all(.metrics.wrong == 0)'
}

@test "io: reads return what was written; no files remain" {
    mkdir "$BATS_TEST_TMPDIR/disk"
    bench 2 io --io-dir "$BATS_TEST_TMPDIR/disk" --io-bytes 1M
    sound io 10 2
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/disk")" ]
    for test in raw_write raw_fsync idx_write checkpoint_write; do
        points "$test" 'length == 1 and .[0].key.cache == null and .[0].metrics.active_ranks == 1'
    done
    for test in raw_read idx_read checkpoint_read; do
        # Only files without pages in memory are called cold.
        points "$test" 'length == 2 and .[1].key.cache == "warm" and (.[0] | if .metrics.resident_pages == 0
            then .key.cache == "cold" else .key.cache == "warm?" end)'
    done
    points raw_read 'all(.metrics.active_ranks == 2)'
    points checkpoint_read 'all(.metrics.active_ranks == 1)'
    [ "$(grep -cE '^  (raw|idx|checkpoint)_(read|write|fsync) +(-|cold|warm|warm\?) +[12] +[0-9.]+ +[0-9.]+[~!]? +[0-9.]+ +[0-9.]+ +0$' "$said")" -eq 10 ]
}

@test "io: the default folder is that of the records" {
    bench 1 io --io-bytes 64K
    grep -qF "in $BATS_TEST_TMPDIR/dptrain-bench-" "$said"
    [ -z "$(compgen -G "$BATS_TEST_TMPDIR/dptrain-bench-*")" ]
}

@test "wrong data: code 1, marked in the row and the record" {
    mkdir "$BATS_TEST_TMPDIR/disk"
    finds() { # RANKS JQ-CONDITION-ON-THE-COUNTS ARGUMENTS...
        local status=0
        rm -f "$records"
        bench "$1" "${@:3}" 2>"$BATS_TEST_TMPDIR/errors" || status=$?
        cat "$BATS_TEST_TMPDIR/errors"
        [ "$status" -eq 1 ]
        grep -q 'some results are wrong' "$BATS_TEST_TMPDIR/errors"
        grep -qE ' [1-9][0-9]*$' "$said"
        jq -es "map(select(.record == \"bench\") | .metrics.wrong) | $2" "$records" >/dev/null
    }
    # The row and the column, on both ranks.
    finds 2 'all(. == 4)' gemm --gemm-max 64 --gemm-shapes square --gemm-fault
    finds 1 '. == [1, 0, 0, 1, 0, 0]' conv --conv-net lenet5 --conv-batch 1 --conv-fault forward
    finds 1 '. == [0, 1, 0, 0, 1, 0]' conv --conv-net lenet5 --conv-batch 1 --conv-fault backward_data
    finds 2 '. == [0, 0, 2, 0, 0, 2]' conv --conv-net lenet5 --conv-batch 1 --conv-fault backward_weights
    finds 1 '. == [1, 1, 1, 1, 0, 0]' mem --mem-bytes 64K --no-quick --mem-fault
    finds 1 '. == [0, 0, 1, 1, 0, 1, 1, 0, 1, 1]' io --io-dir "$BATS_TEST_TMPDIR/disk" --io-bytes 64K --io-fault
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/disk")" ]
}

refused() { # CODE WORDS ARGUMENTS...
    run bench 1 "${@:3}"
    echo "$output"
    [ "$status" -eq "$1" ]
    [[ $output == *"$2"* ]]
    # No row of a table.
    [ "$(grep -cE '^  [a-z_/0-9]+ .* [0-9]+$' "$said")" -eq 0 ]
}

@test "invalid options are rejected by name, before anything is measured" {
    touch "$BATS_TEST_TMPDIR/file"
    refused 2 "--gemm-max 12" gemm --gemm-max 12
    refused 2 "invalid --gemm-precision 'fp8': expected one of fp32, tf32, bf16" gemm --gemm-precision fp8
    refused 2 "tf32 needs the tensor cores of a GPU" gemm --device cpu --gemm-precision tf32
    refused 2 "invalid --conv-net 'lenet': expected one of" conv --conv-net lenet
    refused 2 "invalid --conv-batch '1000': out of range" conv --conv-batch 1000
    refused 2 "--mem-bytes 3" mem --mem-bytes 3
    refused 2 "--mem-bytes needs" mem --mem-bytes 900000G
    refused 2 "--io-bytes 1024" io --io-bytes 1K
    refused 2 "--io-bytes" io --io-bytes 900G
    refused 2 "--io-dir is empty" io --io-dir=
    refused 2 "--io-dir $BATS_TEST_TMPDIR/none: no such folder" io --io-dir "$BATS_TEST_TMPDIR/none"
    refused 2 "--io-dir $BATS_TEST_TMPDIR/file is a file" io --io-dir "$BATS_TEST_TMPDIR/file"
    (
        ulimit -f 2000
        refused 2 "(ulimit -f)" io
    )
}

# Runs what follows with $disk a small tmpfs, mounted with these options in a private mount namespace.
on_small_disk() { # OPTIONS ARGUMENTS...
    unshare -m true 2>/dev/null || skip "mounts of one's own are not allowed here (unshare -m)"
    unshare -m mount -t tmpfs -o size=1m tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null ||
        skip "mounting a tmpfs is not allowed here"
    # shellcheck disable=SC2016 # expanded by the inner shell
    run unshare -m bash -uc 'mount -t tmpfs -o "$1" tmpfs "$2"
        "${@:3}" || rc=$?
        ls -A "$2" | sed "s/^/left: /"
        exit ${rc:-0}' - "$1" "$BATS_TEST_TMPDIR/disk" \
        "$dptrain" bench io --quick --budget 0.01 --threads 1 --out "$records" --io-dir "$BATS_TEST_TMPDIR/disk" "${@:2}"
    echo "$output"
}

@test "io: a disk with too little space, one that fills up, a read-only one" {
    mkdir "$BATS_TEST_TMPDIR/disk"
    on_small_disk size=2m --io-bytes 4M
    [ "$status" -eq 2 ]
    [[ $output == *"has 2.0 MiB free, but needs 5.0 MiB: 3.0 MiB too little"* && $output != *left:* ]]
    # Enough space, but no file can be created next to the folder.
    on_small_disk size=8m,nr_inodes=2 --io-bytes 1M
    [ "$status" -eq 4 ]
    [[ $output == *"No space left on device"* && $output != *left:* ]]
    on_small_disk size=8m,ro --io-bytes 1M
    [ "$status" -eq 4 ]
    [[ $output == *"--io-dir: cannot write into the folder"*"Read-only file system"* ]]
    # tmpfs keeps every page.
    on_small_disk size=8m --io-bytes 1M
    [ "$status" -eq 0 ]
    [[ $output != *left:* ]]
    points raw_read '.[-2].key.cache == "warm?" and .[-2].metrics.resident_pages == 256 and .[-2].key.filesystem == "tmpfs"'
}

@test "io: an interrupt also removes the folder" {
    local pid status=0
    mkdir "$BATS_TEST_TMPDIR/disk"
    "$dptrain" bench io --budget 20 --ci 1e-6 --threads 1 --io-bytes 1M --io-dir "$BATS_TEST_TMPDIR/disk" \
        --out "$records" >"$said" 2>"$BATS_TEST_TMPDIR/errors" 3>&- &
    pid=$!
    for ((i = 0; i < 1200; i++)); do
        ! compgen -G "$BATS_TEST_TMPDIR/disk/dptrain-bench-*/file" >/dev/null || break
        sleep 0.05
    done
    ((i < 1200))
    kill -TERM "$pid"
    wait "$pid" || status=$?
    cat "$BATS_TEST_TMPDIR/errors"
    [ "$status" -eq 1 ]
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/disk")" ]
    jq -es '.[-1] | .record == "bench_end" and .reason == "interrupted"' "$records" >/dev/null
}

@test "mem and gemm on an emulated GPU: copies of its memory, products, detection of wrong results" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    bench 1 mem gemm --device cuda --mem-bytes 1M --gemm-shapes square --gemm-max 64
    grep -q "mem: GPU memory copies.*--device cpu measures host memory" "$said"
    points device_copy 'length == 1 and all(.[]; .key.level == "GPU" and .key.bytes == 1048576 and .key.device == "cuda"
        and (.metrics.gbs * .p50 * 1e9 / 2097152 - 1 | fabs) < 1e-6 and .metrics.wrong == 0)'
    points host_to_device 'length == 1 and all(.[]; (.metrics.gbs * .p50 * 1e9 / 1048576 - 1 | fabs) < 1e-6)'
    points device_to_host 'length == 1 and all(.[]; .metrics.wrong == 0)'
    points triad 'length == 0'
    points gemm 'length == 1 and all(.[]; .key.device == "cuda" and .metrics.wrong == 0)'
    run bench 1 mem --device cuda --mem-bytes 64K --mem-fault
    [ "$status" -eq 1 ]
    points device_copy '.[-1].metrics.wrong == 1'
}
