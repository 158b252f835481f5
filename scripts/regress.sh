#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a benchmark suite several times, keeps the records, and reports whether anything got slower. See --help.
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

# In a plain --help.
usage_common='--suite --starts --args -np -hostfile --no-turns --results'
usage() {
    cat <<'EOF'
usage: scripts/regress.sh run [options]
       scripts/regress.sh accept [--add] [RECORDING]
       scripts/regress.sh compare [RECORDING] [options] [-- report's options]
       scripts/regress.sh ab REV_A REV_B [options] [-- report's options]
       scripts/regress.sh list
       scripts/regress.sh history|html [-- report's options]

Runs a suite of `dptrain bench` several times, collects the records of all starts in one recording, and compares
recordings.

Examples:
  # a baseline before an update, a comparison after it
  scripts/regress.sh run --suite quick && scripts/regress.sh accept --add
  scripts/regress.sh compare --suite quick
  # two revisions, measured alternately
  scripts/regress.sh ab HEAD~1 HEAD --suite quick

Commands:
  run       measures the suite and writes results/runs/DATE-REVISION-SUITE.jsonl, which is named *.partial.jsonl until
            all starts have finished. A stopped or failed run keeps that name and is never compared or accepted
  accept    makes the newest complete recording, or the given one, the baseline of its suite on this type of machine,
            in results/baselines: commit it. With --add it joins the baseline: recordings of three days or more tell
            how much they differ, which comparisons otherwise assume
  compare   compares the newest complete recording, or the given one, with the baseline of its suite, ranks, threads,
            hardware and fabric; earlier recordings in results/runs tell how recordings and starts vary. Measures a
            new recording first if there is none, or only the baseline itself.
            After -- come options of dptrain report compare, for history and html those of its history and html
  ab        builds both revisions in worktrees (programs are kept in build/regress), measures them alternately,
            A B B A A B B A …, so that drift cancels, and compares them. If both support `dptrain bench --turns`, both
            jobs run at the same time and alternate batch by batch. `.` or WORK is the working tree (or DPTRAIN_BIN),
            which allows comparing two settings: ab . . --b-args "--allreduce mpi"
  list      lists recordings and baselines: suite, date, revision, starts, state
  history   runs dptrain report history on the complete recordings
  html      runs dptrain report html on the newest recording and its baseline, into results/runs/SUITE.html or --out FILE

Measuring (run, compare, ab):
  --suite NAME         quick (20 s), standard (some minutes), full, or a file with the arguments of one `dptrain bench`
                       call per line; # begins a comment, and a line `must-decide LIST` names metrics, as gemm or mem/copy,
                       that a comparison must decide. A suite's name is its file name without .conf [standard]
  --starts N           number of starts, with ab per side [8]
  --args "WORDS"       more options for each call of dptrain bench
  -np N                number of ranks [one per GPU or core; with hosts, one per slot]
  -hostfile FILE, …    options of the launcher, scripts/run.sh, for hosts, network and environment. Inside a Slurm
                       allocation its hosts and tasks are used:
                       sbatch -N2 --ntasks-per-node=8 --wrap "scripts/regress.sh run"

Further options, of the commands:
ab:
  --a-args, --b-args "WORDS"   more options for one side only
  --no-turns           run one start after the other, even if alternating is possible
  --make "WORDS"       more arguments for make, such as ARCH=native
compare:
  --force              without a baseline of this type of machine, compare with the most similar one
compare, ab:
  --allow-inconclusive return 0 instead of 6, whatever is inconclusive
accept:
  --add                add the recording to the baseline instead of replacing it
run, accept:
  --force              a recording counts even if more than a third of its points are disturbed
accept, compare, history, html:
  --suite NAME         only use recordings of this suite
all:
  --results DIR        use this folder instead of the tree's results
  -h, --help           show this help

Exit codes: compare and ab return those of dptrain report compare, where 1 means that something got slower, and 6 that
too little was decided: no metric is worse, but more than half are inconclusive, or one that must decide is. While
measuring, 1 means wrong data. 2 usage, 3 no complete recording, a disturbed one to run or accept, or no baseline of
this type of machine, 4 the system failed or a revision does not build, 5 a rank or host was lost, or the run was
stopped.
DPTRAIN_BIN sets the program.
EOF
}

# Splits words at spaces into an array; quotes have no meaning.
split_words() { # ARRAY WORDS
    # shellcheck disable=SC2034 # it is the caller's
    local -n into=$1
    # shellcheck disable=SC2034 # the caller's
    read -ra into <<<"$2"
}

verb=${1:-}
case $verb in
run | accept | compare | ab | list | history | html) shift ;;
-h | --help) show_help "${@:2}" ;;
--help=*) show_help "${verb#*=}" ;;
'') die 2 "expected a command: run, accept, compare, ab, list, history or html; see --help" ;;
*) die 2 "unknown command '$verb'; the commands are run, accept, compare, ab, list, history and html" ;;
esac
# shellcheck disable=SC2034 # the parts use them
suite='' starts=0 np=0 launch=() ports=no add=no bench_args=() a_args=() b_args=() turns=auto force=no make_words=() results=''
names=() report_options=() allow=()
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
    --add) add=yes; shift ;;
    --allow-inconclusive) allow=(--allow-inconclusive); shift ;;
    -np | -n) whole_number "$1" "$2" 1; np=$((10#$2)); shift 2 ;;
    -hostfile | --hostfile | --spec | -H | --host | --include | --exclude | --chief | --num-gpus | --ssh-port | \
        --wdir | --launcher | --interface | --transport | --ports | --env-file | --timeout-start)
        [[ $1 != --ports ]] || ports=yes
        launch+=("$1" "$2"); shift 2 ;;
    --no-tree-spawn | --no-checks) launch+=("$1"); shift ;;
    --) shift; report_options=("$@"); break ;;
    -?*) common_option "$1" ;;
    *) names+=("$1"); shift ;;
    esac
done
case $verb in
accept | compare) most=1 ;;
ab) most=2 ;;
*) most=0 ;;
esac
if [[ $verb == ab && ${#names[@]} -ne 2 ]]; then die 2 "ab takes two revisions: regress.sh ab REV_A REV_B"; fi
((${#names[@]} <= most)) || die 2 "$verb: unexpected argument '${names[most]}'; see --help"
case $verb in
compare | ab) report_options=("${allow[@]}" "${report_options[@]}") ;;
*) ((${#allow[@]} == 0)) || die 2 "$verb does not compare: --allow-inconclusive is for compare and ab" ;;
esac
[[ $add == no || $verb == accept ]] || die 2 "--add is for accept"
case $verb in
run | accept | list)
    ((${#report_options[@]} == 0)) || die 2 "$verb takes no options after --, such as '${report_options[0]}'" ;;
esac
case $verb in
run | ab) end_of_words bench all "${bench_args[@]}" "${a_args[@]}" "${b_args[@]}" ;;
compare | history | html) end_of_words report "$verb" "${report_options[@]}" -- before after ;;
*) end_of_options ;;
esac

# A suite's name does not depend on the folder of its file.
suite_name=${suite##*/} suite_name=${suite_name%.conf}
# Installed scripts have no source tree around them.
root=$(readlink -f "$here/..")
[[ -f $root/Makefile ]] || root=''
[[ -z $root || $root == "$PWD" ]] || results=${results:-$root/results}
results=${results:-results}
case $verb in
run) regress_begin; run_suite; run_report ;;
accept) regress_begin; accept_recording "${names[@]}" ;;
compare) regress_begin; compare_recording "${names[@]}" ;;
ab) regress_begin; compare_revisions "${names[@]}" ;;
list) list_all ;;
history) show_history ;;
html) show_html ;;
esac
