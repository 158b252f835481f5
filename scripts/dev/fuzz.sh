#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes the readers of files. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/dev/fuzz.sh [options] [TARGET...]

Builds the fuzz targets (make fuzz: clang's libFuzzer with the address and undefined-behaviour sanitizers), makes seeds,
runs the targets one after the other, and prints a Markdown table: CPU seconds, number of inputs, coverage at the start
(seeds and corpus) and at the end, findings. A finding is an input that crashes a reader, violates its header's contract,
or takes 10 s or 2 GB. Findings are kept in build/fuzz/findings/TARGET; `build/fuzz/PROGRAM FINDING` reproduces one.
Inputs with new coverage are kept in build/fuzz/corpus/TARGET for the next run.

  --seconds N  duration of each target [60]
  --mutations N
               instead, without clang: N mutations of each target's seeds, always the same, with gcc's sanitizers (make
               mutations); `build-san/mutations/PROGRAM FINDING` reproduces a finding. scripts/test.sh runs these
  --list       print the targets and exit
  --no-build   use the existing programs
  -h, --help   show this help

Exit code 1: there are findings. 4: no clang with libFuzzer (Debian: apt-get install clang).
EOT
}

# For each TARGET its PROGRAM, tests/fuzz/fuzz_PROGRAM.c, and the longest input in bytes. Seeds are below.
declare -A program=([png]=image [jpeg]=image [idx]=idx [coco]=coco [results]=results [shard]=shard [checkpoint]=checkpoint [arrays]=arrays [launch]=launch [job]=job)
declare -A longest=([png]=16384 [jpeg]=16384 [idx]=4096 [coco]=4096 [results]=4096 [shard]=32768 [checkpoint]=49152 [arrays]=4096 [launch]=4096 [job]=4096)
targets=(png jpeg idx coco results shard checkpoint arrays launch job)

# The first byte selects the kind of input: a shard, an index, an index in memory, a record's annotations, a shard's table of
# contents, an index's.
make_shard_seeds() { # FOLDER
    "$dptrain" data synth digits --out "$1/digits" --train 3 --val 1 >&2
    "$dptrain" data pack --from "$1/digits" --out "$1/packed" >&2
    { printf '\0'; cat "$1"/packed/train-*.h5; } >"$1/shard"
    { printf '\1'; cat "$1/packed/index.h5"; } >"$1/index"
    # The plan is that of the target.
    plan() { sed -E 's/("plan":")[0-9a-f]*/\10000000000000001/'; }
    { printf '\4'; tail -q -n 1 "$1"/packed/train-*.h5 | plan; } >"$1/shard-table"
    { printf '\5'; tail -n 1 "$1/packed/index.h5" | plan; } >"$1/index-table"
    # In the layout of src/data/shard/shard.h: 2 × 3 pixels, the name "a", one annotation with RLE 1, 5.
    {
        printf '\3\7\0\0\0\0\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0'
        head -c 48 /dev/zero
        printf '\1\0\0\0\1\2\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\5\0\0\0'
    } >"$1/notes"
    rm -r "$1/digits" "$1/packed"
}

# The first byte selects an answer of a host, a hostfile, a list, a specification, or Slurm's slots.
make_launch_seeds() { # FOLDER
    printf '\0%s\n' 'name a' 'machine b-12' 'shell /bin/sh' 'program 12ab' 'wdir ok' 'full /tmp' 'orted yes' 'ephemeral 32768 60999' \
        'addr eth0 10.0.0.1/24' 'addr ib0 fd00::1/64' 'speed eth0 1000' 'rdma mlx5_0 mlx5_core ACTIVE InfiniBand' 'ofi /opt/a' \
        'gpu :3b:00.0 0-7,16-23' 'gpus 1' 'cores 8' 'folder records' 'newest 12' 'data missing' 'check 1' 'fail gpu, GPUs: x' \
        'same NCCL 2.19' 'phase 1 computing step 3' 'swept 1 processes' 'alive yes' end | sed '2,$s/^.//' >"$1/answer"
    printf '\1# all\nnode1 slots=2 max_slots=4\nme@node[02-04,7]:3\nfd00::2\nnode1\n' >"$1/hostfile"
    printf '\2a:2,b[1-3]:4,[fd00::7]:2,me@c' >"$1/list"
    printf '\3nodes: [{address: a, cpus: [0, 1], chief: true}, {address: b, gpus: 4, ssh_config: s, port: 22}]\nssh: {s: {username: me, shared_envs: {A: b}}}\n' >"$1/spec"
    printf '\0042(x3),1,16(x2)' >"$1/slurm"
}

make_job_seeds() { # FOLDER
    {
        printf '{"record":"job_start","time":"2026-01-31T12:00:00Z","sec":0,"schema":1,"job":"j-1","place":"h b 1","pid":7,"start_time":9,"command":["x"],"restarts":1,"min_ranks":0,"wait_hosts":3,"cool_down":6,"metrics_bytes":0}\n'
        printf '%s\n' '{"record":"job_ranks","time":"2026-01-31T12:00:00Z","sec":0,"start":1,"ranks":2,"hosts":["h"],"newest_checkpoint":-1}' \
            '{"record":"job_training","time":"2026-01-31T12:00:01Z","sec":1,"start":1,"first_step":0,"resumed_from":null,"steps_lost":null,"fault_to_step_sec":1.5}'
    } >"$1/job"
    printf '%s\n' '{"record":"run","first_step":0,"resumed_from":null}' '{"record":"step","step":0,"step_sec":0.5}' \
        '{"record":"step","step":1,"step_sec":0.25}' '{"record":"run","first_step":1}' '{"record":"end","reason":"finished"}' >"$1/metrics"
}

# Polygons and boxes, RLE as numbers and as text, skipped values; one file for each.
make_coco_seeds() { # FOLDER
    local outline n=0 images='"images":[{"id":7,"file_name":"a/b.jpg","width":4,"height":3,"license":null}]' \
        categories='"categories":[{"id":1,"name":"dog","supercategory":"animal"}]' \
        outlines=('"segmentation":[[0.5,0,3,0.25,3e0,2.5],[1,1,2,2,1,2,0,1]],'
            '"segmentation":null,"x":{"y":[true,{}]},' '"segmentation":{"size":[3,4],"counts":[2,4,6]},'
            '"segmentation":{"counts":"243","size":[3,4]},')
    for outline in "${outlines[@]}"; do
        printf '{%s,%s,"annotations":[{"id":%d,"image_id":7,"category_id":1,%s%s}]}' "$images" "$categories" "$n" \
            "$outline" '"iscrowd":0,"area":3.5,"bbox":[0,0.5,2,1.25]' >"$1/$n"
        n=$((n + 1))
    done
    printf '{"info":{"year":2017},%s,%s,"annotations":[],"licenses":[]}\n' "$categories" "$images" >"$1/empty"
}

# Of the image and the category in tests/fuzz/fuzz_results.c: boxes, compressed and plain masks, both.
make_results_seeds() { # FOLDER
    local what n=0 mask='"segmentation":{"size":[3,4],"counts":"243"}' box='"bbox":[0,0.5,2,1.25]'
    for what in "$box" "$mask" "$box,$mask" '"segmentation":{"counts":[2,4,6],"size":[3,4],"x":[{}]},"bbox":[]'; do
        printf '[{"image_id":7,"category_id":1,"score":0.5,%s},{"x":null,%s,"score":1e0,"category_id":1.0,"image_id":7}]' \
            "$what" "$what" >"$1/$n"
        n=$((n + 1))
    done
}

make_seeds() { # TARGET FOLDER
    case $1 in
    png | jpeg) "$build/tests/tools/image_samples" "$1" "$2" 24 ;;
    idx)
        # Two images of 3 × 2, four labels, QMNIST's of two images; as they are and packed.
        printf '\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\2abcdefABCDEF' >"$2/images"
        printf '\0\0\10\1\0\0\0\4\1\2\3\4' >"$2/labels"
        { printf '\0\0\14\2\0\0\0\2\0\0\0\10' && printf '\0\0\0\3%.0s' {1..16}; } >"$2/qmnist"
        gzip -kn "$2/images" "$2/labels"
        ;;
    coco) make_coco_seeds "$2" ;;
    results) make_results_seeds "$2" ;;
    shard) make_shard_seeds "$2" ;;
    launch) make_launch_seeds "$2" ;;
    job) make_job_seeds "$2" ;;
    arrays)
        # Floats of each type; the length of the header is 240.
        printf '%-240s%s' '{"__metadata__":{"format":"pt","dptrain":"note"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}, "b.c":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},"d":{"dtype":"F64","shape":[],"data_offsets":[14,22]}}' \
            1234567890123456789012 >"$2/part"
        { printf '\360\0\0\0\0\0\0\0' && cat "$2/part"; } >"$2/tensors"
        rm "$2/part"
        ;;
    checkpoint)
        # The first byte selects a file, or a table of contents.
        printf '\0dptrain checkpoint 2\nxxh3-128 %032d\nbytes 600\n' 0 >"$2/seal"
        truncate -s 601 "$2/seal"
        "$build/tests/tools/checkpoint_sample" "$2/file"
        { printf '\0'; cat "$2/file"; } >"$2/whole"
        { printf '\1'; tail -n 1 "$2/file"; } >"$2/table"
        rm "$2/file"
        ;;
    esac
}

seconds=60 mutations=0 may_build=yes build=build dptrain=./dptrain chosen=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --seconds) need_value "$@"; whole_number "$1" "$2" 1; seconds=$((10#$2)); shift 2 ;;
    --mutations) need_value "$@"; whole_number "$1" "$2" 1; mutations=$((10#$2)); shift 2 ;;
    --list) printf '%s\n' "${targets[@]}"; exit 0 ;;
    --no-build) may_build=no; shift ;;
    -*) common_option "$1" ;;
    *) [[ -n ${program[$1]:-} ]] || die 2 "unknown target '$1'; --list prints the targets"
        chosen+=("$1"); shift ;;
    esac
done
[[ ${#chosen[@]} -gt 0 ]] || chosen=("${targets[@]}")
cd "$here/../.."
if ((mutations > 0)); then
    build=build-san dptrain=build-san/dptrain
    [[ $may_build == no ]] || make -s -j "$(nproc)" CUDA=0 SAN=address,undefined mutations >&2 || die 4 "the build failed"
elif [[ $may_build == yes ]]; then
    command -v "${FUZZ_CC:-clang}" >/dev/null || die 4 "clang was not found (Debian: apt-get install clang)"
    make -s -j "$(nproc)" all fuzz >&2 || die 4 "the build failed; check that libFuzzer is installed (Debian: apt-get install clang)"
fi

# Prints libFuzzer's figures of this name; the first comes from the seeds alone.
figures() { sed -nE "s/.*$1:? +([0-9]+).*/\1/p" "$2"; }
first() { figures "$@" | sed -n 1p; }
last() { figures "$@" | tail -n 1; }

# Runs tests/fuzz/mutate.c within 300 s of CPU and 2 GB, and prints a row. An input that ends the program stays.
mutate() { # NAME PROGRAM LONGEST
    local input=build/fuzz/findings/$1/mutation log=build/fuzz/$1.log failed=0
    (
        ulimit -t 300
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}:hard_rss_limit_mb=2048:max_allocation_size_mb=2048
        time "$2" "build/fuzz/seeds/$1" "$mutations" "$3" "$input" >"$log" 2>&1
    ) 2>"$log.cpu" || failed=1
    printf '| %s | - | %s | %s | - | - | - | %s |\n' "$1" "$(tail -n 1 "$log.cpu" | awk '{ printf "%.2f", $1 + $2 }')" "$mutations" "$failed"
    ((failed == 0)) || { note "$1: $2 $input ended: $(grep -m 1 -E 'broken:|ERROR:|runtime error:' "$log" || tail -n 1 "$log")" && return 1; }
}

status=0 TIMEFORMAT="%U %S"
printf '| target | seconds | CPU seconds | inputs | coverage: start | end | corpus | findings |\n'
printf '|---|---:|---:|---:|---:|---:|---:|---:|\n'
for target in "${chosen[@]}"; do
    name=$target
    corpus=build/fuzz/corpus/$name seeds=build/fuzz/seeds/$name findings=build/fuzz/findings/$name
    log=build/fuzz/$name.log
    rm -rf "$seeds"
    mkdir -p "$corpus" "$seeds" "$findings"
    make_seeds "$target" "$seeds" || die 4 "cannot make seeds for $target"
    if ((mutations > 0)); then
        mutate "$name" "$build/mutations/${program[$target]}" "${longest[$target]}" || status=1
        continue
    fi
    note "$name: $seconds s"
    {
        time "build/fuzz/${program[$target]}" -max_total_time="$seconds" -max_len="${longest[$target]}" -timeout=10 \
            -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/" "$corpus" "$seeds" >"$log" 2>&1
    } 2>"$log.cpu" || status=1
    cpu=$(tail -n 1 "$log.cpu" | awk '{ print $1 + $2 }')
    n=$(find "$findings" -type f | wc -l)
    if [[ $n -gt 0 ]]; then
        status=1
        note "$name has findings; see the end of $log"
    fi
    printf '| %s | %s | %.0f | %s | %s | %s | %s | %s |\n' "$name" "$seconds" "$cpu" \
        "$(last stat::number_of_executed_units "$log")" "$(first cov "$log")" "$(last cov "$log")" \
        "$(find "$corpus" -type f | wc -l)" "$n"
done
[[ $status -eq 0 ]] || die 1 "there are findings: see build/fuzz/findings"
