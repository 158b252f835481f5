# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Finds the hosts that make a job fail, by starting it on subsets of the hosts. Sourced. The caller defines
#   group_fails HOST...    0: a job on these hosts fails, other: it works

# ⌈log2 N⌉
log2() { # N
    local n=$1 up=0
    while ((1 << up < n)); do up=$((up + 1)); done
    echo "$up"
}

# For hosts on which a job fails. Sets bad_hosts to the one host that makes it fail, or to several that fail only together,
# reduced by bisection as far as possible. Finding one of N hosts takes at most 2·⌈log2 N⌉ calls.
find_bad_hosts() { # HOST...
    local half first second
    bad_hosts=("$@")
    while ((${#bad_hosts[@]} > 1)); do
        half=$((${#bad_hosts[@]} / 2))
        first=("${bad_hosts[@]::half}") second=("${bad_hosts[@]:half}")
        if group_fails "${first[@]}"; then
            bad_hosts=("${first[@]}")
        elif group_fails "${second[@]}"; then
            bad_hosts=("${second[@]}")
        else
            find_bad_pair
            return
        fi
    done
}

# Both halves, first and second, work, but the whole fails: finds the hosts of each half that are needed.
find_bad_pair() {
    shrink_beside first second
    shrink_beside second first
    bad_hosts=("${first[@]}" "${second[@]}")
}

# Halves the array SOME while it still fails together with OTHERS.
shrink_beside() { # SOME OTHERS
    local -n some=$1 others=$2
    local half
    while ((${#some[@]} > 1)); do
        half=$((${#some[@]} / 2))
        if group_fails "${some[@]::half}" "${others[@]}"; then
            some=("${some[@]::half}")
        elif group_fails "${some[@]:half}" "${others[@]}"; then
            some=("${some[@]:half}")
        else
            return 0
        fi
    done
}
