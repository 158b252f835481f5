#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Attacks small training jobs with seeded faults, and judges how each ended. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck disable=SC2034 # the parts use it
root=$(cd "$here/../.." && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../../scripts/lib.sh"
# shellcheck source=tests/attack/plan.sh
. "$here/plan.sh"
# shellcheck source=tests/attack/job.sh
. "$here/job.sh"
# shellcheck source=tests/attack/oracle.sh
. "$here/oracle.sh"
# shellcheck source=tests/attack/page.sh
. "$here/page.sh"
# shellcheck source=tests/attack/storm/plan.sh
. "$here/storm/plan.sh"
# shellcheck source=tests/attack/storm/life.sh
. "$here/storm/life.sh"
# shellcheck source=tests/attack/storm/judge.sh
. "$here/storm/judge.sh"
# shellcheck source=tests/attack/storm/page.sh
. "$here/storm/page.sh"

usage() {
    cat <<'END'
usage: tests/attack/attack.sh [options]

Trains LeNet-5 on digits on 2 to 4 ranks, breaks each job in one way (a rank that stops at its n-th MPI call, a full disk, a
killed launcher, a cut link, …), and judges the outcome: did everything end within the deadline and 10 s; is every announced
checkpoint there; are the records whole; does --resume auto reach the same bits as an undisturbed run; does the message
name the culprit. A fault that was never reached does not count. The faults follow from the seed.

With --storm, jobs run under run.sh --restarts, and each is struck many times: ranks, hosts, links, disks, checkpoints, data, and
flipped bits of one replica. Judged: does the job train again by itself, from the newest good checkpoint, or end with the right
code; who is named; how soon is a flipped bit found; does the job end with the bits of an undisturbed run. Jobs on this
machine, and, as root, on three hosts made of kernel namespaces.

  --storm       a storm, as said
  --sum DIR     no faults: the page of the storms that have run with --out DIR; repeatable
  --seed N      seed of the faults [25]
  --faults N    number of faults, of the kinds of --only [300]
  --minutes M   start no more faults after M minutes
  --fault K     only fault K of the list, or a fault by its words: 'mpi_stop np=2 rank=1 call=MPI_Barrier at=50 act=stop'; keeps
                its folder, and prints what the job printed
  --only WORDS  only kinds that match this extended regular expression
  --no-hosts    a storm on this machine only
  --hosts       the faults of three hosts made of kernel namespaces, instead of those of one host; needs root
  --jobs N      jobs at the same time; they mostly wait [2]
  --timeout SEC the jobs' --timeout [8]
  --out DIR     writes results.tsv, page.md, and the folders of the jobs that failed [none]
  --list        print the faults and exit
  -h, --help    show this help

Exit code 1: a fault did more harm than it may.
END
}

seed=25 n_faults=300 minutes=0 only='' one=0 literal='' hosts=no n_jobs=2 list=no out='' timeout_sec=8
storm=no storm_no_hosts='' sums=()
command="tests/attack/attack.sh${*:+ $*}"
while [[ $# -gt 0 ]]; do
    case $1 in
    --seed | --faults | --minutes | --fault | --jobs | --only | --out | --timeout | --sum) need_value "$@" ;;
    esac
    case $1 in
    --seed) whole_number "$1" "$2" 0; seed=$((10#$2)); shift 2 ;;
    --faults) whole_number "$1" "$2" 1; n_faults=$((10#$2)); shift 2 ;;
    --minutes) whole_number "$1" "$2" 1; minutes=$((10#$2)); shift 2 ;;
    --fault)
        if [[ $2 == *' '* ]]; then literal=$2 one=1; else whole_number "$1" "$2" 1; one=$((10#$2)); fi
        shift 2
        ;;
    --jobs) whole_number "$1" "$2" 1; n_jobs=$((10#$2)); shift 2 ;;
    --timeout) whole_number "$1" "$2" 1; timeout_sec=$((10#$2)); shift 2 ;;
    --only) only=$2; shift 2 ;;
    --hosts) hosts=yes; shift ;;
    --storm) storm=yes; shift ;;
    --sum) storm=yes sums+=("$2"); shift 2 ;;
    --no-hosts) storm_no_hosts='--no-hosts'; shift ;;
    --out) out=$2; shift 2 ;;
    --list) list=yes; shift ;;
    *) common_option "$1" ;;
    esac
done
[[ -z $storm_no_hosts || $storm == yes ]] || die 2 "--no-hosts is for a storm; without --hosts, faults are of one host anyway"
if [[ $storm == yes ]]; then storm_plan; else plan_make; fi
if [[ $list == yes ]]; then
    printf '%s\n' "${plan[@]}"
    exit 0
fi
if [[ ${#sums[@]} -gt 0 ]]; then
    make_work attack
    storm_sum "${sums[@]}"
    exit 0
fi
real=$(find_program)
for tool in jq "${MPICC:-mpicc}" mpirun; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; run scripts/install_deps.sh --test"
done
workers=()
attack_end() {
    local pid folder
    for pid in "${workers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    job_kill_all
    { grep -oE " $work/[^ ]+" /proc/mounts || true; } | sort -r | while read -r folder; do umount -l "$folder" 2>/dev/null || true; done
}

make_work attack
trap '((BASHPID != $$)) || { attack_end; remove_work; }' EXIT
if [[ -n $out ]]; then mkdir -p "$out" && out=$(cd "$out" && pwd); fi
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
mpi_allow_root 2>/dev/null
# Ranks share the cores; probing network libraries takes 0.2 s per start.
export DPTRAIN_BIND=none OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$work/cache
if [[ $storm == yes ]]; then
    unset OMPI_MCA_pml
    storm_prepare
else
    [[ $hosts == yes ]] || export OMPI_MCA_pml=${OMPI_MCA_pml-ob1}
    job_prepare
fi

# A worker takes every n_jobs-th fault. With hosts it has a cluster of its own.
worker() { # I
    local i line
    trap - EXIT
    if [[ $hosts == yes ]]; then hosts_begin || exit 4; fi
    for ((i = $1; i < ${#plan[@]}; i += n_jobs)); do
        ((minutes == 0 || $(uptime_ms) < 60000 * minutes + started)) || break
        line=${plan[i]}
        fault_run "${line%% *}" "${line#* }" || true
    done
    if [[ $hosts == yes ]]; then hosts_finish; fi
}

started=$(uptime_ms)
: >"$work/results.tsv"
if [[ $storm == yes && -n $out ]]; then storm_record; fi
for ((w = 0; w < n_jobs && w < ${#plan[@]}; w++)); do
    if [[ $storm == yes ]]; then storm_worker & else worker "$w" & fi
    workers+=($!)
done
for pid in "${workers[@]}"; do wait "$pid" || note "a worker ended with code $?"; done
workers=()
if [[ $storm == yes ]]; then
    storm_page >"$work/page.md"
    [[ -z $out ]] || sort -n "$out/jobs.tsv" -o "$out/jobs.tsv"
else
    page_write >"$work/page.md"
    [[ -z $out ]] || cp "$work/results.tsv" "$out/results.tsv"
fi
if [[ -n $out ]]; then
    sort -n "$out/results.tsv" -o "$out/results.tsv"
    cp "$work/page.md" "$out/page.md"
else
    cat "$work/page.md"
fi
if [[ $storm == yes ]]; then storm_verdict; else page_verdict; fi
