# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Finds who spoils a job by starting it on some of the hosts at a time; sourced, never run. The caller defines
#   group_fails HOST...    0: a job on these hosts fails, other: it is fine

# ⌈log2 N⌉
log2() { # N
    local n=$1 up=0
    while ((1 << up < n)); do up=$((up + 1)); done
    echo "$up"
}

# Of hosts on which together a job fails. Sets bad_hosts: one host that fails alone or with others whose parts are fine;
# several when only those together fail, by halves as far as that leads. One of N hosts takes at most 2·⌈log2 N⌉ calls.
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

# Both halves, first and second, are fine, and the whole is not: who of the one is needed, then who of the other.
find_bad_pair() {
    shrink_beside first second
    shrink_beside second first
    bad_hosts=("${first[@]}" "${second[@]}")
}

# Halves the array SOME as long as it fails beside all of OTHERS.
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
