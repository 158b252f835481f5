#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures a suite several times, keeps the records, and says whether something got slower. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/regress/recording.sh
. "$here/regress/recording.sh"
# shellcheck source=scripts/regress/measure.sh
. "$here/regress/measure.sh"
# shellcheck source=scripts/regress/baseline.sh
. "$here/regress/baseline.sh"
# shellcheck source=scripts/regress/revision.sh
. "$here/regress/revision.sh"
# shellcheck source=scripts/regress/ab.sh
. "$here/regress/ab.sh"

usage() {
    cat <<'EOF'
usage: scripts/regress.sh run [options]
       scripts/regress.sh accept [RECORDING]
       scripts/regress.sh compare [RECORDING] [options] [-- options of dptrain report compare]
       scripts/regress.sh ab REV_A REV_B [options] [-- options of dptrain report compare]
       scripts/regress.sh list
       scripts/regress.sh history|html [-- options of dptrain report history|html]

Regression runs: a suite of `dptrain bench` is started several times, each start adds its records to one recording, and
recordings are compared.

  run       measures the suite into results/runs/DATE-REVISION-SUITE.jsonl, which is called *.partial.jsonl until
            all starts have finished. A run that was stopped or failed stays there under that name and is never
            compared or accepted as whole
  accept    makes the newest whole recording, or the one named, the baseline of its suite on this type of machine, in
            results/baselines: commit it
  compare   compares the newest whole recording, or the one named, with the baseline of its suite, ranks, threads,
            hardware and fabric. Where the newest is the baseline itself, or there is none, it first measures one
  ab        builds both revisions in worktrees (kept programs: build/regress) and measures their suites in turn, A B B A
            A B B A …, so that drift cancels; then compares. Where both know `dptrain bench --turns`, both jobs run at
            the same time and take turns batch by batch. `.` or WORK is the working tree as it is (with DPTRAIN_BIN
            that program), so that two settings are compared by: ab . . --b-args "--allreduce mpi"
  list      recordings and baselines: suite, date, revision, starts, state
  history   dptrain report history of the whole recordings
  html      dptrain report html of the newest recording beside its baseline, into results/runs/SUITE.html or --out FILE

Measuring (run, compare, ab):
  --suite NAME         quick (20 s), standard (some minutes) or full, or a file: a line of words for each call of
                       `dptrain bench`, # begins a comment; it is known by its name without .conf [standard]
  --starts N           starts of the suite; with ab of each side [8]
  --args "WORDS"       more options for each call of dptrain bench
  -np N                ranks [one per core; with hosts as many as they have slots]
  -hostfile FILE, …    where: scripts/run.sh is the launcher, and takes its options of hosts, network and environment.
                       Inside a Slurm allocation its hosts and tasks are taken:
                       sbatch -N2 --ntasks-per-node=8 --wrap "scripts/regress.sh run"
ab:
  --a-args, --b-args "WORDS"   more options for one side only
  --no-turns           one after the other, even where turns could be taken
  --make "WORDS"       more words for make, as ARCH=native
compare:
  --force              with no baseline of this type of machine: compare with the one that differs least
accept, compare, history, html:
  --suite NAME         look at recordings of this suite only

  --results DIR        instead of the tree's results
  -h, --help           this text

Exit codes: compare and ab pass on those of dptrain report compare, where 1 means that something got slower. While
measuring 1 is wrong data. 2 usage, 3 nothing fits (no whole recording, no baseline of this type of machine), 4 the
system failed, or a revision does not build, 5 a rank or host was lost, or the run was stopped.
DPTRAIN_BIN names the program.
EOF
}

# Words with spaces between them into an array; quotes have no meaning.
split_words() { # ARRAY WORDS
    # shellcheck disable=SC2034 # it is the caller's
    local -n into=$1
    # shellcheck disable=SC2034 # the caller's
    read -ra into <<<"$2"
}

verb=${1:-}
case $verb in
run | accept | compare | ab | list | history | html) shift ;;
-h | --help) usage; exit 0 ;;
'') die 2 "say what to do: run, accept, compare, ab, list, history or html; --help explains them" ;;
*) die 2 "there is no '$verb'; there are run, accept, compare, ab, list, history and html" ;;
esac
# shellcheck disable=SC2034 # the parts use them
suite='' starts=0 np=0 launch=() ports=no bench_args=() a_args=() b_args=() turns=auto force=no make_words=() results=''
names=() report_options=()
# shellcheck disable=SC2034 # the parts use them
while [[ $# -gt 0 ]]; do
    case $1 in
    --suite | --starts | --args | --a-args | --b-args | --make | --results | -np | -n | -hostfile | --hostfile | \
        --spec | -H | --host | --include | --exclude | --chief | --num-gpus | --ssh-port | --wdir | --launcher | \
        --interface | --transport | --ports | --env-file | --timeout-start) need_value "$@" ;;
    esac
    case $1 in
    --suite) suite=$2; shift 2 ;;
    --starts) whole_number "$1" "$2" 1; starts=$((10#$2)); shift 2 ;;
    --args) split_words bench_args "$2"; shift 2 ;;
    --a-args) split_words a_args "$2"; shift 2 ;;
    --b-args) split_words b_args "$2"; shift 2 ;;
    --make) split_words make_words "$2"; shift 2 ;;
    --results) results=$2; shift 2 ;;
    --no-turns) turns=no; shift ;;
    --force) force=yes; shift ;;
    -np | -n) whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    -hostfile | --hostfile | --spec | -H | --host | --include | --exclude | --chief | --num-gpus | --ssh-port | \
        --wdir | --launcher | --interface | --transport | --ports | --env-file | --timeout-start)
        [[ $1 != --ports ]] || ports=yes
        launch+=("$1" "$2"); shift 2 ;;
    --no-tree-spawn | --no-checks) launch+=("$1"); shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; report_options=("$@"); break ;;
    -?*) die 2 "unknown option '$1'; --help lists the options" ;;
    *) names+=("$1"); shift ;;
    esac
done
case $verb in
accept | compare) most=1 ;;
ab) most=2 ;;
*) most=0 ;;
esac
if [[ $verb == ab && ${#names[@]} -ne 2 ]]; then die 2 "ab takes two revisions: regress.sh ab REV_A REV_B"; fi
((${#names[@]} <= most)) || die 2 "$verb: unexpected word '${names[most]}'; --help shows what it takes"
case $verb in
run | accept | list)
    ((${#report_options[@]} == 0)) || die 2 "$verb takes nothing behind --, not '${report_options[0]}'" ;;
esac

# A suite is known by its name, wherever its file is.
suite_name=${suite##*/} suite_name=${suite_name%.conf}
# Installed, there is no tree around the scripts.
root=$(readlink -f "$here/..")
[[ -f $root/Makefile ]] || root=''
[[ -z $root || $root == "$PWD" ]] || results=${results:-$root/results}
results=${results:-results}
case $verb in
run) regress_begin; run_suite ;;
accept) regress_begin; accept_recording "${names[@]}" ;;
compare) regress_begin; compare_recording "${names[@]}" ;;
ab) regress_begin; compare_revisions "${names[@]}" ;;
list) list_all ;;
history) show_history ;;
html) show_html ;;
esac
