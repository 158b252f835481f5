# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# The list of faults. Sourced by attack.sh, which sets seed, n_faults, only, one, literal, hosts.
#
# A file of kinds/ calls `kind NAME WEIGHT` and defines draw_NAME, which prints parameters as KEY=VALUE words, and run_NAME,
# which runs one fault (job.sh, oracle.sh).
kinds=() plan=()

kind() { # NAME WEIGHT
    local i
    [[ -z $only || $1 =~ $only ]] || return 0
    for ((i = 0; i < $2; i++)); do kinds+=("$1"); done
}

# Sets `drawn` to a number that follows from the seed, the fault, and the words: bash's own RANDOM starts anew in subshells.
draw_number() { # WORD...
    local text="$*" i code
    drawn=$((seed * 1000003 + draw_of * 7919))
    for ((i = 0; i < ${#text}; i++)); do
        printf -v code %d "'${text:i:1}"
        drawn=$((drawn * 33 + code))
    done
    for i in 1 2 3; do drawn=$((drawn * 6364136223846793005 + 1442695040888963407)); done
    drawn=$(((drawn >> 33) & 0x3fffffff))
}

# Prints one of the words.
pick() { # WORD...
    local drawn
    draw_number "$@"
    shift $((drawn % $#))
    echo "$1"
}

between() { # LOW HIGH
    local drawn
    draw_number "$@"
    echo $(($1 + drawn % ($2 - $1 + 1)))
}

# Kinds follow in turn, a heavier one more often, so that every part of the list has all of them.
plan_make() {
    local file k name order=() draw_of=0 drawn i=0
    for file in "$here"/kinds/*.sh; do
        if [[ ${file##*/} == hosts.sh ]]; then [[ $hosts == yes ]] || continue; else [[ $hosts == no ]] || continue; fi
        # shellcheck source=/dev/null
        . "$file"
    done
    if [[ -n $literal ]]; then
        [[ $(type -t "run_${literal%% *}") == function ]] || die 2 "no kind of fault is named ${literal%% *}; --list prints the list"
        plan=("1 $literal")
        return
    fi
    [[ ${#kinds[@]} -gt 0 ]] || die 2 "no fault matches; --list prints the list"
    # Shuffled, the same way under every awk and sort.
    mapfile -t order < <(for name in "${kinds[@]}"; do
        draw_number "$name" $((i++))
        echo "$drawn $name"
    done | LC_ALL=C sort -n | cut -d ' ' -f 2)
    for ((k = 1; k <= (one > n_faults ? one : n_faults); k++)); do
        name=${order[(k - 1) % ${#order[@]}]}
        draw_of=$k
        ((one == 0 || k == one)) || continue
        plan+=("$k $name $("draw_$name")")
    done
    [[ ${#plan[@]} -gt 0 ]] || die 2 "no fault matches; --list prints the list"
}
