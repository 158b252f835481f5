#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the collectives of a cluster as nccl-tests does. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/nccl_bw.sh [HOSTFILE] [options] [-- dptrain's options]

Sweeps collectives over a cluster with `dptrain bench comm`, and prints nccl-tests' table; the records go beside it
as JSON lines. Where this machine has GPUs NCCL is measured, a rank on each; else MPI on the CPU. HOSTFILE is mpirun's;
without one all GPUs of this machine take part, or all its cores. Options are nccl-tests' own:

  -b, --minbytes SIZE    smallest size: 8, 4K, 1M, 8G [8]
  -e, --maxbytes SIZE    largest size [64M]
  -f, --stepfactor N     each size is N times the one before [2]
  -i, --stepbytes SIZE   or by so many bytes larger, where -f is not given
  -d, --datatype LIST    int8 uint8 int32 uint32 int64 uint64 float double, with commas between, or all [float];
                         with GPUs also half bfloat16
  -o, --op LIST          sum prod max min, or all [sum]
  -r, --root RANK        of broadcast and reduce [0]
  -c, --check 0|1        compare every element of a call before each point [1]
  -n, --iters N          taken, but the protocol decides: it repeats until the median is known
  -w, --warmup_iters N   taken, but the protocol decides
  -g, --ngpus 1          one rank is one process
and ours:
  -np N                  ranks [as many as HOSTFILE has slots, or this machine GPUs or cores]
  --test LIST            all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv bisection
                         all_pairs, with commas between, or all [all_reduce]
  --out FILE             add the records to this file [runs/nccl_bw-DATE.jsonl]
  -h, --help             this text

What dptrain's options say of --device, --comm or --communicator goes before what the machine has.

Exit codes are dptrain's: 1 wrong data, 2 usage, 4 system, 5 a rank or host was lost.
EOF
}

known='-b -e -f -i -d -o -r -c -n -w -g -np --test --out'
hosts=() np=0 out='' bench=() ignored=()
if [[ $# -gt 0 && $1 != -* ]]; then
    [[ -f $1 && -r $1 ]] || die 2 "there is no hostfile $1"
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
    # nccl-tests counts the calls that it checks; here it is one a point, or none.
    -c | --check) need_value "$@"; whole_number "$1" "$2" 0; bench+=("--check=$((10#$2 > 0))"); shift 2 ;;
    -n | --iters | -w | --warmup_iters)
        need_value "$@"; whole_number "$1" "$2" 0; ignored+=("$1 $2"); shift 2 ;;
    -g | --ngpus)
        need_value "$@"; whole_number "$1" "$2" 1
        ((10#$2 == 1)) || die 2 "$1 $2: here every rank is a process of its own; use -np for their number"
        shift 2 ;;
    -np) need_value "$@"; whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    --test) need_value "$@"; bench+=("--test=$2"); shift 2 ;;
    --out) need_value "$@"; out=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; bench+=("$@"); break ;;
    -*) die 2 "unknown option '$1'; there are $known; --help explains them" ;;
    *) die 2 "unexpected word '$1': the hostfile comes first; --help lists the options" ;;
    esac
done
chosen=''
for word in "${bench[@]}"; do
    case $word in --device | --device=* | --comm | --comm=* | --communicator | --communicator=*) chosen=yes ;; esac
done
n_gpus=0
if command -v nvidia-smi >/dev/null; then n_gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true; fi
who='no GPU here: measuring MPI on the CPU'
if [[ -n $chosen ]]; then
    who='measuring what the options say'
elif [[ $n_gpus -eq 1 && ${#hosts[@]} -eq 0 && $np -eq 0 ]]; then
    who='one GPU here, and a collective takes two: measuring MPI on the CPU'
    bench=(--device=cpu "${bench[@]}")
elif ((n_gpus > 0)); then
    who="$n_gpus GPU$( ((n_gpus == 1)) || echo s) here: measuring NCCL"
    bench=(--device=cuda --comm=nccl "${bench[@]}")
    [[ ${#hosts[@]} -gt 0 || $np -gt 0 ]] || np=$n_gpus
fi
if [[ ${#hosts[@]} -eq 0 && $np -eq 0 ]]; then
    np=$(allowed_cores)
    ((np > 1)) || die 2 "this machine has one core, and a collective takes two ranks; -np 2 lets them share it"
fi
((np != 1)) || die 2 "-np 1: a collective takes two ranks or more"
out=${out:-runs/nccl_bw-$(date +%Y%m%d-%H%M%S).jsonl}

echo "# $who"
[[ ${#ignored[@]} -eq 0 ]] ||
    echo "# ${ignored[*]}: the protocol decides how often; it repeats until the median is known (-- --budget SEC limits it)"
ranks=()
((np == 0)) || ranks=(-np "$np")
status=0
"$here/run.sh" "${ranks[@]}" "${hosts[@]}" -- bench comm "--out=$out" "${bench[@]}" || status=$?
[[ ! -e $out ]] || echo "# records: $out"
exit "$status"
