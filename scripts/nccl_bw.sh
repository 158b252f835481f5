#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures a cluster's collectives as nccl-tests does. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/nccl_bw.sh [HOSTFILE] [options] [-- dptrain's options]
       scripts/nccl_bw.sh [mpirun …] all_reduce_perf [options] [-- …]

Measures collectives on a cluster with `dptrain bench comm`, prints nccl-tests' table, and writes JSON records. On a
machine with GPUs it measures NCCL with one rank per GPU, otherwise MPI on the CPU. HOSTFILE is mpirun's; without one it
uses all GPUs, or all cores, of this machine. In the second form the words of a command of nccl-tests are understood as
they are typed: those before the program's name go to run.sh, and the name chooses the test.

Examples:
  # NCCL on the GPUs of this machine, or MPI on its cores
  scripts/nccl_bw.sh -b 8 -e 1G -f 2
  # all collectives on the hosts of a file
  scripts/nccl_bw.sh hosts -b 1M -e 1G -f 2 --test all
  # as with nccl-tests: 8 ranks
  scripts/nccl_bw.sh ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 8

Options as in nccl-tests:
  -g, --ngpus N          ranks per process [1]: N ranks, N for each of the -np processes, or N on each host of HOSTFILE
  -t, --nthreads N       the same, for threads: N times as many ranks
  -b, --minbytes SIZE    smallest size: 8, 4K, 1M, 8G [8]
  -e, --maxbytes SIZE    largest size [64M]
  -f, --stepfactor N     factor between sizes [2]
  -i, --stepbytes SIZE   increment between sizes, without -f
  -d, --datatype LIST    int8 uint8 int32 uint32 int64 uint64 half float double bfloat16, separated by commas, or all
                         [float]
  -o, --op LIST          sum prod max min avg, or all [sum]
  -r, --root RANK        root of broadcast, reduce, gather and scatter [0]
  -c, --check N          check every element of a call before each point; 0: do not [1]
  -J, --output_file FILE also write the table as nccl-tests' JSON; if FILE exists, to FILE.0, FILE.1, ...
  -T, --timeout SEC      end the job if a call takes longer [300]
  -p, --parallel_init 1  always: every rank is a process
  -a, --average 3        always: a time is that of the slowest rank
Those that change nothing here, with a line that says why:
  -n, --iters; -w, --warmup_iters; -N, --run_cycles; -m, --agg_iters; -a 0, 1, 2; -G, --cudagraph; -C, --report_cputime;
  -z, --blocking; -R, --local_register; -S, -M, -I, -K, -x, -y
Additional options:
  -np N                  number of processes [slots of HOSTFILE, or GPUs or cores of this machine]
  -H LIST                hosts: a:8,b:8
  --test LIST            all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv
                         hypercube sendrecv bisection all_pairs, separated by commas, or all [all_reduce]
  --expect-busbw GB/s    exit code 1 if a test stays below: its largest busbw over all sizes, each from the median time
  --out FILE             append the records to this file [runs/nccl_bw-DATE.jsonl]
  -h, --help             show this help

dptrain's options --device, --comm and --communicator override the automatic choice: -np 4 -- --device cpu measures MPI
on a machine with one GPU.

Exit codes are dptrain's: 1 wrong data, or below --expect-busbw, 2 usage, 4 system, 5 a rank or host was lost.
EOF
}

known='-b -e -f -i -d -o -r -c -g -t -T -p -a -n -w -N -m -G -C -z -R -S -M -I -K -x -y -J -F -D -V -u -np -H --test --expect-busbw --out'
known_long='--minbytes --maxbytes --stepfactor --stepbytes --datatype --op --root --check --timeout --ngpus --nthreads
 --iters --warmup_iters --run_cycles --agg_iters --average --cudagraph --report_cputime --blocking --local_register
 --parallel_init --report_timestamps --memory --per_iter_timing --per_iter_skip --cta_policy --stream_null --output_file
 --device_implementation --device_cta_count --unalign '
tests=' all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv hypercube sendrecv '
launch=() has_hosts=no np=0 per_host=0 per_process=1 given='' out='' bench=() ignored=() unlike=()

# The words before the program's name, for run.sh; processes become ranks later.
launcher_words() { # WORDS...
    [[ ${1:-} != srun ]] || die 2 "srun is another launcher's: omit it and its options, or write mpirun"
    [[ ${1:-} != @(mpirun|mpiexec|orterun|*/mpirun|*/mpiexec) ]] || shift
    while (($# > 0)); do
        case $1 in
        -np | --np | -n | -c) need_value "$@"; whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
        -N | --npernode | -npernode | --num-gpus)
            need_value "$@"; whole_number "$1" "$2" 1; per_host=$((10#$2)); shift 2 ;;
        -H | --host | -host | -hostfile | --hostfile | -machinefile | --machinefile | --spec)
            need_value "$@"; has_hosts=yes; launch+=("$1" "$2"); shift 2 ;;
        *) launch+=("$1"); shift ;;
        esac
    done
}

# all_reduce_perf, or all_reduce_perf_mpi in a folder.
test_of_program() { # PROGRAM
    local name=${1##*/}
    name=${name%_mpi} name=${name%_perf}
    case $tests in
    *" $name "*) bench+=("--test=$name") ;;
    *) die 2 "$1 is not measured; the tests are${tests% }" ;;
    esac
}

# An option that changes nothing here, unless its value is nccl-tests' default.
unlike() { # OPTION VALUE DEFAULT REASON
    [[ $2 =~ ^[0-9]+$ ]] || die 2 "invalid $1 '$2': expected a whole number"
    [[ $2 == "$3" ]] || unlike+=("$1 $2: $4")
}

ranks_per_process() { # OPTION VALUE
    whole_number "$1" "$2" 1
    per_process=$((per_process * 10#$2)) given="$1 $2"
}

# The words after --; the file of the records is named at the end, too.
bench_words() { # WORDS...
    while (($# > 0)); do
        case $1 in
        --out) need_value "$@"; out=$2; shift ;;
        --out=*) out=${1#*=} ;;
        *) bench+=("$1") ;;
        esac
        shift
    done
}

for ((i = 1; i <= $#; i++)); do
    [[ ${!i} != -- ]] || break
    if [[ ${!i} =~ (^|/)[a-z_]+_perf(_mpi)?$ ]]; then
        launcher_words "${@:1:i-1}"
        test_of_program "${!i}"
        shift "$i"
        break
    fi
done
if [[ $# -gt 0 && $1 != -* && ${#bench[@]} -eq 0 ]]; then
    [[ -f $1 && -r $1 ]] || die 2 "cannot read the hostfile $1"
    launch=(-hostfile "$1") has_hosts=yes
    shift
fi
while [[ $# -gt 0 ]]; do
    # getopt's spellings: --ngpus=8, -g8.
    if [[ $1 == --*=* ]]; then
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
    elif [[ $1 =~ ^-[a-zA-Z][0-9] ]]; then
        set -- "${1:0:2}" "${1:2}" "${@:2}"
    fi
    case $1 in
    -h | --help) show_usage; exit 0 ;;
    --) shift; bench_words "$@"; break ;;
    -hostfile | --hostfile | -machinefile | --machinefile)
        die 2 "$1: give the hostfile as the first word: scripts/nccl_bw.sh ${2:-HOSTFILE} …; --help shows both forms" ;;
    -*)
        [[ " $known ${known_long//$'\n'/} " == *" $1 "* ]] || die 2 "unknown option '$1'; the options are $known; see --help"
        need_value "$@"
        ;;
    *) die 2 "unexpected argument '$1': the hostfile comes first; --help lists the options" ;;
    esac
    case $1 in
    -b | --minbytes) bench+=("--minbytes=$2") ;;
    -e | --maxbytes) bench+=("--maxbytes=$2") ;;
    -f | --stepfactor) bench+=("--stepfactor=$2") ;;
    -i | --stepbytes) bench+=("--stepbytes=$2") ;;
    -d | --datatype) bench+=("--datatype=$2") ;;
    -o | --op) bench+=("--op=$2") ;;
    -r | --root)
        [[ $2 != @(all|-1) ]] || die 2 "$1 $2: one root at a time; repeat with $1 0, $1 1, ..."
        bench+=("--root=$2") ;;
    # nccl-tests counts the calls to check; here it is one per point, or none.
    -c | --check) whole_number "$1" "$2" 0; bench+=("--check=$((10#$2 > 0))") ;;
    -T | --timeout) whole_number "$1" "$2" 0; ((10#$2 == 0)) || bench+=("--timeout=$2") ;;
    -g | --ngpus | -t | --nthreads) ranks_per_process "$1" "$2" ;;
    -n | --iters | -w | --warmup_iters) whole_number "$1" "$2" 0; ignored+=("$1 $2") ;;
    -N | --run_cycles) unlike "$1" "$2" 1 "one table; its points are repeated until precise" ;;
    -m | --agg_iters) unlike "$1" "$2" 1 "calls are not grouped, each is timed alone" ;;
    -a | --average) unlike "$1" "$2" 3 "a time is that of the slowest rank, as with -a 3" ;;
    -G | --cudagraph) unlike "$1" "$2" 0 "calls are launched one by one, not as a CUDA graph" ;;
    -C | --report_cputime) unlike "$1" "$2" 0 "a time ends when the data has arrived, not when the CPU is free" ;;
    -z | --blocking) unlike "$1" "$2" 0 "MPI's calls block, NCCL's are waited for once per sample" ;;
    -R | --local_register) unlike "$1" "$2" 0 "buffers of a benchmark are not registered" ;;
    -p | --parallel_init) whole_number "$1" "$2" 0 ;;
    -S | --report_timestamps) unlike "$1" "$2" 0 "a table's lines have no time of day" ;;
    -M | --memory) unlike "$1" "$2" 0 "memory is not reported" ;;
    -I | --per_iter_timing) unlike "$1" "$2" 0 "the records have every sample" ;;
    -K | --per_iter_skip) unlike "$1" "$2" 0 "the records have every sample" ;;
    -x | --cta_policy) unlike "$1" "$2" '' "calls use NCCL's own policy" ;;
    -y | --stream_null) unlike "$1" "$2" 0 "calls use a stream of their own" ;;
    -J | --output_file) bench+=("--output-file=$2") ;;
    -F) die 2 "$1: write --out FILE; its format is dptrain's, docs/records.md; -J FILE is nccl-tests' JSON" ;;
    -V | --device_cta_count) unlike "$1" "$2" 16 "it belongs to -D" ;;
    -D | --device_implementation) [[ $2 == 0 ]] || die 2 "$1 $2: NCCL's device API is not measured; omit it" ;;
    -u | --unalign) [[ $2 == 0 ]] || die 2 "$1 $2: buffers are aligned; omit it" ;;
    -np) whole_number "$1" "$2" 1; np=$((10#$2)) ;;
    -H) has_hosts=yes; launch+=(-H "$2") ;;
    --test) bench+=("--test=$2") ;;
    --expect-busbw) bench+=("--expect-busbw=$2") ;;
    --out) out=$2 ;;
    esac
    shift 2
done
[[ -z ${NCCL_TESTS_SPLIT:-}${NCCL_TESTS_SPLIT_MASK:-} ]] ||
    die 2 "NCCL_TESTS_SPLIT: ranks are not split; measure a group alone by its own hostfile, or all links by --test bisection"
[[ -z ${NCCL_TESTS_ALLTOALLV_MATRIX_FILE:-} && ${NCCL_TESTS_ALLTOALLV_SPREAD:-1} =~ ^1(\.0*)?$ ]] ||
    die 2 "NCCL_TESTS_ALLTOALLV_…: alltoallv has nccl-tests' default pattern only; unset the variable"
# nccl-tests counts processes with per_process ranks each.
ranks=()
if ((per_host > 0)); then
    ranks=(--num-gpus "$((per_host * per_process))")
elif [[ $np -eq 0 && $has_hosts == yes ]] && ((per_process > 1)); then
    ranks=(--num-gpus "$per_process")
elif [[ $np -eq 0 && $has_hosts == no && -n $given ]]; then
    np=1
fi
np=$((np * per_process))
((np != 1)) || die 2 "${given:--np 1}: a collective needs two ranks or more${given:+; -g N starts N}"
out=${out:-runs/nccl_bw-$(date +%Y%m%d-%H%M%S).jsonl}
end_of_words bench comm "--out=$out" "${bench[@]}"

[[ ${#ignored[@]} -eq 0 ]] ||
    echo "# ${ignored[*]} ignored: points are repeated until the median is precise (-- --budget SEC limits this)"
((${#unlike[@]} == 0)) || printf '# %s\n' "${unlike[@]}"
((np == 0)) || ranks+=(-np "$np")
status=0
"$here/run.sh" "${ranks[@]}" "${launch[@]}" -- bench comm "--out=$out" "${bench[@]}" || status=$?
[[ $status -eq 2 || ! -s $out ]] || echo "# records: $out"
exit "$status"
