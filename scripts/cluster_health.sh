#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Proves a list of hosts: ssh, then dptrain check on all of them; finds the host that spoils it. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/group_test.sh
. "$here/cluster/group_test.sh"

usage() {
    cat <<'END'
usage: scripts/cluster_health.sh [options] HOSTS [--] [options of dptrain check]

Proves hosts before a job starts; HOSTS is a hostfile, a YAML specification or a list a:2,b:2, as `dptrain hosts` reads
them. In three steps:

  tries every pair of hosts by ssh (scripts/setup_ssh.sh --check)
  runs `dptrain check` on all of them (scripts/run.sh), which says what is wrong with which host, and what to do
  where that does not start, or ends without naming a host: starts it on halves of the hosts, and halves of what fails,
    until the bad one is left; one of N takes at most 2 log2 N starts

  --json FILE          dptrain check also writes all lines to FILE
  --timeout SEC        the longest that a check may take [300]
  --timeout-start SEC  the longest until it must have started [60]
  --no-ssh             leave out the first step, as inside Slurm
  --no-search          leave out the last
  --include SPEC, --exclude SPEC, --ssh-port N         as of setup_ssh.sh and run.sh
  --interface WHICH, --transport WHICH, --ports LO-HI, --num-gpus N, --env-file FILE   as of run.sh; with a transport
                       other than auto the check fails where data goes another way
  -h, --help           this text

Exit codes: 0 ready; 1 a host, or a pair of hosts, fails, and is named; 2 usage; 3 HOSTS cannot be read; 4 nothing can
be started; 5 the check ended, and no host could be found that it was for.
END
}

both=() run_options=() check_options=() json='' timeout=300 timeout_start=60 ssh=yes search=yes hosts=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --json) need_value "$@"; json=$2; shift 2 ;;
    --timeout) need_value "$@"; whole_number "$1" "$2" 1; timeout=$((10#$2)); shift 2 ;;
    --timeout-start) need_value "$@"; whole_number "$1" "$2" 1; timeout_start=$((10#$2)); shift 2 ;;
    --no-ssh) ssh=no; shift ;;
    --no-search) search=no; shift ;;
    --include | --exclude | --ssh-port) need_value "$@"; both+=("$1" "$2"); shift 2 ;;
    --transport)
        need_value "$@"
        run_options+=("$1" "$2")
        if [[ $2 != auto ]]; then check_options+=(--expect-transport "$2"); fi
        shift 2
        ;;
    --interface | --ports | --num-gpus | --env-file) need_value "$@"; run_options+=("$1" "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) die 2 "unknown option '$1'; --help lists the options (those of dptrain check follow HOSTS and --)" ;;
    *)
        [[ -z $hosts ]] || break
        hosts=$1
        shift
        ;;
    esac
done
[[ -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
check_options+=("$@")
# A name alone is a list, too; dptrain hosts would take it for a file.
if [[ $hosts != *[/:,]* && ! -e $hosts ]]; then hosts+=:1; fi
source=(-hostfile "$hosts")

# Groups are chosen by name, so that only ssh's port is left of what both scripts are told.
filters=() port=()
for ((i = 0; i < ${#both[@]}; i += 2)); do
    if [[ ${both[i]} == --ssh-port ]]; then port=("${both[@]:i:2}"); else filters+=("${both[@]:i:2}"); fi
done
program=$(find_program)
table=$("$program" hosts show --format tsv "${filters[@]}" "$hosts") || exit
# Names of all hosts.
mapfile -t names < <(cut -f 1 <<<"$table")

make_work health

# Sets code. The time limit sends run.sh SIGTERM, which ends the job in its order. What it says goes to FILE.
start_check() { # FILE ARGUMENTS...
    local said=$1
    shift
    code=0
    # In the foreground: Ctrl-C reaches run.sh.
    timeout --foreground --kill-after=60 "$timeout" "$here/run.sh" "${source[@]}" "${run_options[@]}" \
        --timeout-start "$timeout_start" --grace 1 "$@" 2>"$said" || code=$?
}

# A job that came up and gave an answer, good or bad, is none that a host keeps from starting.
n_groups=0
# shellcheck disable=SC2317 # find_bad_hosts calls it
group_fails() { # HOST...
    local spec
    spec=$(IFS=@ && echo "$*")
    n_groups=$((n_groups + 1))
    start_check "$work/group" "${port[@]}" --include "$spec" -- check "${check_options[@]}" >/dev/null
    if ((code > 3)); then
        cp "$work/group" "$work/failed"
        note "start $n_groups: $# of ${#names[@]} hosts ($(shorten "$@")): fails with code $code"
    else
        note "start $n_groups: $# of ${#names[@]} hosts ($(shorten "$@")): starts"
        return 1
    fi
}

shorten() { # HOST...
    if (($# > 4)); then echo "$1 … ${!#}"; else echo "$*"; fi
}

# Whether what was said names some of the hosts, and not all, as at fault. mpirun's [HOST:PID] only tells who speaks.
names_some() { # FILE
    local name n=0
    sed 's/\[[^]]*\]//g' "$1" >"$work/words"
    for name in "${names[@]}"; do
        if grep -qE "(^|[^A-Za-z0-9.-])${name//./\\.}([^A-Za-z0-9-]|\$)" "$work/words"; then n=$((n + 1)); fi
    done
    ((n > 0 && n < ${#names[@]}))
}

if [[ $ssh == yes && ${#names[@]} -gt 1 ]]; then
    note "1. ssh between every two of ${#names[@]} hosts"
    code=0
    "$here/setup_ssh.sh" --check "${both[@]}" "$hosts" || code=$?
    [[ $code -ne 1 ]] ||
        die 1 "ssh does not work between these hosts; scripts/setup_ssh.sh sets it up; --exclude leaves hosts out"
    [[ $code -eq 0 ]] || exit "$code"
fi

note "2. dptrain check on ${#names[@]} hosts"
start_check "$work/said" "${both[@]}" -- check "${check_options[@]}" ${json:+--json "$json"}
cat "$work/said" >&2
((code > 3)) || exit "$code"
if [[ $code -eq 124 || $code -eq 137 ]]; then note "the check did not end within $timeout s (--timeout)"; fi
if names_some "$work/said"; then die 1 "the check did not end; the message above names who is to blame"; fi
if [[ $search == no || ${#names[@]} -eq 1 ]]; then die 5 "the check did not start or did not end (code $code)"; fi

note "3. it names no host; looking for the bad one of ${#names[@]}, in at most $((2 * $(log2 "${#names[@]}"))) starts"
find_bad_hosts "${names[@]}"
[[ ! -s $work/failed ]] || tail -n 4 "$work/failed" >&2
if [[ ${#bad_hosts[@]} -eq 1 ]]; then
    die 1 "${bad_hosts[0]} keeps the job from starting (found in $n_groups starts): look at it, or --exclude it and \
run this again"
fi
die 1 "a combination keeps the job from starting, not one host: ${bad_hosts[*]} (parts of it start; found in \
$n_groups starts): look at what is between them: addresses, firewall, MTU, versions of MPI"
