#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies a list of hosts by ssh and dptrain check, and finds hosts that make a job fail. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/group_test.sh
. "$here/cluster/group_test.sh"

usage() {
    cat <<'END'
usage: scripts/cluster_health.sh [options] HOSTS [--] [options of dptrain check]

Verifies hosts before a job starts. HOSTS is a hostfile, a YAML specification or a list a:2,b:2, as for `dptrain hosts`.

Examples:
  # ssh, network, clocks and GPUs of all hosts
  scripts/cluster_health.sh hosts
  # exactly 8 GPUs each; what follows -- are options of dptrain check
  scripts/cluster_health.sh --expect-gpus 8 hosts -- --level 2 --history h.jsonl
  # two hosts, over EFA alone
  scripts/cluster_health.sh --transport efa node1:8,node2:8

There are four steps:
  1. Test ssh between the hosts (scripts/setup_ssh.sh --check).
  2. Run `dptrain check` on all of them (scripts/run.sh), which names problems, hosts and remedies.
  3. If that does not start or does not end, connect every host to every other one without MPI (dptrain
     check --reach), which names firewalls by pair and direction, and addresses that another machine answers.
  4. If all connect, and no message names a host, find the bad host by bisection: one of N hosts takes at most 2 log2 N starts.

  --expect-gpus N      fail if a host does not have exactly N GPUs
  --strict             fail on warnings, too, such as a busy host or processes of another job
  --json FILE          let dptrain check also write all lines to FILE
  --timeout SEC        time limit of a check [300]
  --timeout-start SEC  time limit for a check to start [60]
  --no-ssh             skip steps 1 and 3, for instance inside Slurm
  --no-search          skip steps 3 and 4
  --include SPEC, --exclude SPEC, --ssh-port N         as for setup_ssh.sh and run.sh
  --interface WHICH, --transport WHICH, --ports LO-HI, --num-gpus N, --env-file FILE   as for run.sh; with a transport
                       other than auto the check fails if data takes another one
  -h, --help           show this help

The check warns about load, stolen CPU time, and dptrain processes of other jobs, and fails if the job's GPUs are in use.

Exit codes: 0 ready; 1 a host or a pair of hosts fails; 2 usage; 3 HOSTS cannot be read; 4 nothing can be started; 5 the
check failed, but no host was found to be the cause.
END
}

both=() reach_options=() run_options=() check_options=() json='' timeout=300 timeout_start=60 ssh=yes search=yes hosts=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --expect-gpus) need_value "$@"; whole_number "$1" "$2" 1; check_options+=("$1" "$2"); shift 2 ;;
    --strict) check_options+=("$1"); shift ;;
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
    --ports) need_value "$@"; run_options+=("$1" "$2"); reach_options=("$1" "$2"); shift 2 ;;
    --interface | --num-gpus | --env-file) need_value "$@"; run_options+=("$1" "$2"); shift 2 ;;
    --) shift; break ;;
    -*) common_option "$1" "(those of dptrain check follow HOSTS and --)" ;;
    *)
        [[ -z $hosts ]] || break
        hosts=$1
        shift
        ;;
    esac
done
[[ -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
check_options+=("$@")
end_of_words check "${check_options[@]}"
# A single name is a list too; dptrain hosts would treat it as a file.
if [[ $hosts != *[/:,]* && ! -e $hosts ]]; then hosts+=:1; fi
source=(-hostfile "$hosts")

# Groups are selected by name, so starts of a group need only ssh's port from the options of both scripts.
filters=() port=()
for ((i = 0; i < ${#both[@]}; i += 2)); do
    if [[ ${both[i]} == --ssh-port ]]; then port=("${both[@]:i:2}"); else filters+=("${both[@]:i:2}"); fi
done
program=$(find_program)
table=$("$program" hosts show --format tsv "${filters[@]}" "$hosts") || exit
# Names of all hosts.
mapfile -t names < <(cut -f 1 <<<"$table")

make_work health

# Sets code. At the time limit run.sh gets SIGTERM, and ends the job in an orderly way. Its messages go to FILE.
start_check() { # FILE ARGUMENTS...
    local said=$1
    shift
    code=0
    # In the foreground, so that Ctrl-C reaches run.sh.
    timeout --foreground --kill-after=60 "$timeout" "$here/run.sh" "${source[@]}" "${run_options[@]}" \
        --timeout-start "$timeout_start" --grace 1 "$@" 2>"$said" || code=$?
}

# The search only asks whether a check of some hosts starts: that check writes no files and drains nobody.
group_options=()
for ((i = 0; i < ${#check_options[@]}; i++)); do
    case ${check_options[i]} in
    --json | --history | --drain-command | --write-profile) i=$((i + 1)) ;;
    --json=* | --history=* | --drain-command=* | --write-profile=*) ;;
    *) group_options+=("${check_options[i]}") ;;
    esac
done

# A job that started and returned a result, good or bad, counts as working.
n_groups=0
# shellcheck disable=SC2317 # find_bad_hosts calls it
group_fails() { # HOST...
    local spec
    spec=$(IFS=@ && echo "$*")
    n_groups=$((n_groups + 1))
    start_check "$work/group" "${port[@]}" --include "$spec" -- check "${group_options[@]}" >/dev/null
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

# Whether the messages name some hosts, but not all. Ignores mpirun's prefix [HOST:PID], which only shows the sender.
names_some() { # FILE
    local name n=0
    sed '/: cleaned up after the job/d; s/\[[^]]*\]//g' "$1" >"$work/words"
    for name in "${names[@]}"; do
        if grep -qE "(^|[^A-Za-z0-9.-])${name//./\\.}([^A-Za-z0-9-]|\$)" "$work/words"; then n=$((n + 1)); fi
    done
    ((n > 0 && n < ${#names[@]}))
}

if [[ $ssh == yes && ${#names[@]} -gt 1 ]]; then
    note "1. ssh between ${#names[@]} hosts"
    code=0
    "$here/setup_ssh.sh" --check "${both[@]}" "$hosts" || code=$?
    [[ $code -ne 1 ]] ||
        die 1 "ssh does not work between these hosts; run scripts/setup_ssh.sh, or leave hosts out by --exclude"
    [[ $code -eq 0 ]] || exit "$code"
fi

note "2. dptrain check on $(count ${#names[@]} host)"
start_check "$work/said" "${both[@]}" -- check "${check_options[@]}" ${json:+--json "$json"}
cat "$work/said" >&2
((code > 3)) || exit "$code"
if [[ $code -eq 124 || $code -eq 137 ]]; then note "the check did not end within $timeout s (--timeout)"; fi
# Every host connects to every other one without MPI, which may not even start across a firewall.
if [[ $ssh == yes && $search == yes && ${#names[@]} -gt 1 ]]; then
    note "3. connecting ${#names[@]} hosts without MPI"
    list=$(IFS=, && echo "${names[*]}")
    code=0
    "$here/on_hosts.sh" "${both[@]}" --jobs "${#names[@]}" --timeout 60 "$hosts" -- "$(readlink -f "$program")" check \
        --reach "$list" "${reach_options[@]}" >"$work/reach" 2>"$work/reach.err" || code=$?
    grep ': to ' "$work/reach" >"$work/unreached" || true
    if [[ -s $work/unreached ]]; then
        plain_lines <"$work/unreached"
        advice="open the ports between these hosts, or pass open ones by --ports; look for the rule by iptables -L, nft list \
ruleset, or the security group"
        if grep -q 'answered by\|the name' "$work/unreached"; then
            advice="give each host an address and a name of its own, the same on all hosts (ip address, /etc/hosts)"
        fi
        die 1 "$advice"
    fi
    [[ $code -eq 0 ]] || plain_lines <"$work/reach.err" >&2
    [[ $code -ne 0 ]] || note "all hosts reach each other over TCP"
fi

if names_some "$work/said"; then die 1 "the check did not end; see the message above for the hosts at fault"; fi
if [[ $search == no || ${#names[@]} -eq 1 ]]; then die 5 "the check did not start or did not end (code $code)"; fi

note "4. looking for the bad one of ${#names[@]}, in at most $((2 * $(log2 "${#names[@]}"))) starts"
find_bad_hosts "${names[@]}"
[[ ! -s $work/failed ]] || tail -n 4 "$work/failed" >&2
if [[ ${#bad_hosts[@]} -eq 1 ]]; then
    die 1 "${bad_hosts[0]} keeps the job from starting (found in $n_groups starts): repair it, or --exclude it and run \
this again"
fi
die 1 "a combination of hosts keeps the job from starting: ${bad_hosts[*]} (subsets start; found in $n_groups starts): \
check addresses, firewall, MTU and MPI versions between them"
