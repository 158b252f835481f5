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

Measures collectives on a cluster with `dptrain bench comm`, prints nccl-tests' table, and writes JSON records. On a
machine with GPUs it measures NCCL with one rank per GPU, otherwise MPI on the CPU. HOSTFILE is mpirun's; without one it
uses all GPUs, or all cores, of this machine. These options are the same as nccl-tests':

  -b, --minbytes SIZE    smallest size: 8, 4K, 1M, 8G [8]
  -e, --maxbytes SIZE    largest size [64M]
  -f, --stepfactor N     factor between sizes [2]
  -i, --stepbytes SIZE   increment between sizes, without -f
  -d, --datatype LIST    int8 uint8 int32 uint32 int64 uint64 float double, separated by commas, or all [float];
                         with GPUs also half bfloat16
  -o, --op LIST          sum prod max min, or all [sum]
  -r, --root RANK        root of broadcast and reduce [0]
  -c, --check 0|1        check every element of a call before each point [1]
  -n, --iters N          ignored: points are repeated until the median is precise
  -w, --warmup_iters N   ignored
  -g, --ngpus 1          only 1: each rank is a process
Additional options:
  -np N                  number of ranks [slots of HOSTFILE, or GPUs or cores of this machine]
  --test LIST            all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv bisection
                         all_pairs, separated by commas, or all [all_reduce]
  --out FILE             append the records to this file [runs/nccl_bw-DATE.jsonl]
  -h, --help             show this help

dptrain's options --device, --comm and --communicator override the automatic choice.

Exit codes are dptrain's: 1 wrong data, 2 usage, 4 system, 5 a rank or host was lost.
EOF
}

known='-b -e -f -i -d -o -r -c -n -w -g -np --test --out'
hosts=() np=0 out='' bench=() ignored=()
if [[ $# -gt 0 && $1 != -* ]]; then
    [[ -f $1 && -r $1 ]] || die 2 "cannot read the hostfile $1"
    hosts=(-hostfile "$1")
    shift
fi
while [[ $# -gt 0 ]]; do
    case $1 in
    -b | --minbytes) need_value "$@"; bench+=("--minbytes=$2"); shift 2 ;;
    -e | --maxbytes) need_value "$@"; bench+=("--maxbytes=$2"); shift 2 ;;
    -f | --stepfactor) need_value "$@"; bench+=("--stepfactor=$2"); shift 2 ;;
    -i | --stepbytes) need_value "$@"; bench+=("--stepbytes=$2"); shift 2 ;;
    -d | --datatype) need_value "$@"; bench+=("--datatype=$2"); shift 2 ;;
    -o | --op) need_value "$@"; bench+=("--op=$2"); shift 2 ;;
    -r | --root) need_value "$@"; bench+=("--root=$2"); shift 2 ;;
    # nccl-tests counts the calls to check; here it is one per point, or none.
    -c | --check) need_value "$@"; whole_number "$1" "$2" 0; bench+=("--check=$((10#$2 > 0))"); shift 2 ;;
    -n | --iters | -w | --warmup_iters)
        need_value "$@"; whole_number "$1" "$2" 0; ignored+=("$1 $2"); shift 2 ;;
    -g | --ngpus)
        need_value "$@"; whole_number "$1" "$2" 1
        ((10#$2 == 1)) || die 2 "$1 $2: every rank is a process; set their number by -np"
        shift 2 ;;
    -np) need_value "$@"; whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    --test) need_value "$@"; bench+=("--test=$2"); shift 2 ;;
    --out) need_value "$@"; out=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; bench+=("$@"); break ;;
    -*) die 2 "unknown option '$1'; the options are $known; see --help" ;;
    *) die 2 "unexpected argument '$1': the hostfile comes first; --help lists the options" ;;
    esac
done
chosen=''
for word in "${bench[@]}"; do
    case $word in --device | --device=* | --comm | --comm=* | --communicator | --communicator=*) chosen=yes ;; esac
done
n_gpus=0
if command -v nvidia-smi >/dev/null; then n_gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true; fi
who='no GPU on this machine: measuring MPI on the CPU'
if [[ -n $chosen ]]; then
    who='measuring as the options request'
elif [[ $n_gpus -eq 1 && ${#hosts[@]} -eq 0 && $np -eq 0 ]]; then
    who='only one GPU, and a collective needs two: measuring MPI on the CPU'
    bench=(--device=cpu "${bench[@]}")
elif ((n_gpus > 0)); then
    who="$n_gpus GPU$( ((n_gpus == 1)) || echo s) on this machine: measuring NCCL"
    bench=(--device=cuda --comm=nccl "${bench[@]}")
    [[ ${#hosts[@]} -gt 0 || $np -gt 0 ]] || np=$n_gpus
fi
if [[ ${#hosts[@]} -eq 0 && $np -eq 0 ]]; then
    np=$(allowed_cores)
    ((np > 1)) || die 2 "a collective needs two ranks, and this machine has one core; -np 2 lets them share it"
fi
((np != 1)) || die 2 "-np 1: a collective needs two ranks or more"
out=${out:-runs/nccl_bw-$(date +%Y%m%d-%H%M%S).jsonl}

echo "# $who"
[[ ${#ignored[@]} -eq 0 ]] ||
    echo "# ${ignored[*]} ignored: points are repeated until the median is precise (-- --budget SEC limits this)"
ranks=()
((np == 0)) || ranks=(-np "$np")
status=0
"$here/run.sh" "${ranks[@]}" "${hosts[@]}" -- bench comm "--out=$out" "${bench[@]}" || status=$?
[[ ! -e $out ]] || echo "# records: $out"
exit "$status"
