# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of the proofs; work is make_work's
# What the proofs on hosts of namespaces share: options that are lists, start and end, run. Sourced after scripts/lib.sh and
# cluster.bash.

# Fails unless VALUE is a list of the WORDS, which are separated by |.
proof_list() { # WORDS OPTION [VALUE]
    need_value "${@:2}"
    [[ $3 =~ ^($1)(,($1))*$ ]] || die 2 "invalid $2 '$3': expected a list such as ${1%%|*},${1##*|}"
}

# Sets load, as it is before the proof, and work, a folder that is removed in the end, with the hosts.
proof_begin() {
    local why
    why=$(cluster_why)
    [[ -z $why ]] || die 4 "this machine cannot run a cluster: $why"
    load=$(cut -d ' ' -f 1-3 /proc/loadavg)
    make_work proof
    trap '((BASHPID != $$)) || { cluster_down; rm -rf "$work"; }' EXIT
    exec 3>&2
}

# As in bats.
run() { # COMMAND...
    status=0
    output=$("$@" 2>&1 3>&-) || status=$?
    mapfile -t lines <<<"$output"
}
