# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# The list of a storm: jobs, and the faults of each. Sourced by attack.sh after plan.sh, whose pick and between draw.
#
# A file of kinds calls `storm_kind NAME WEIGHT_LOCAL WEIGHT_HOSTS EXPECTED`, where EXPECTED is for the table, and defines
# draw_NAME, which prints parameters, and strike_NAME, which injects one fault and judges it (life.sh, judge.sh). Kinds with
# weights `own own` leave all replicas equal and wrong; each has a job of its own.
declare -A storm_expected=()
storm_local=() storm_hosts=() storm_own=()

storm_kind() { # NAME WEIGHT_LOCAL WEIGHT_HOSTS EXPECTED
    local i
    storm_expected[$1]=$4
    if [[ $2 == own ]]; then storm_own+=("$1") && return; fi
    for ((i = 0; i < $2; i++)); do storm_local+=("$1"); done
    for ((i = 0; i < $3; i++)); do storm_hosts+=("$1"); done
}

# Sets the array order: the words, shuffled by the seed.
storm_shuffle() { # WORD...
    local name drawn i=0
    mapfile -t order < <(for name; do
        draw_number "$name" $((i++))
        echo "$drawn $name"
    done | LC_ALL=C sort -n | cut -d ' ' -f 2)
}

# Prints the place and the settings of job L, which is the same for all of its faults.
storm_job() { # L
    case $(($1 % 7)) in
    3) [[ -n $storm_no_hosts ]] || { echo "place=hosts np=3 model=lenet5 shards=6" && return; } ;;
    5) echo "place=local np=2 model=lenet5 shards=6 own=yes" && return ;;
    esac
    case $(($1 % 7)) in
    1 | 6) echo "place=local np=2 model=mnist-cnn-bn shards=6" ;;
    2) echo "place=local np=3 model=lenet5 shards=6" ;;
    4) echo "place=local np=2 model=lenet5 shards=0" ;;
    *) echo "place=local np=2 model=lenet5 shards=6" ;;
    esac
}

# Whether a kind makes sense in a job with these settings.
storm_suits() { # KIND SETTINGS
    case $1 in
    flip_states | flip_states_before | shard_*) [[ $2 == *model=mnist-cnn-bn* ]] ;;
    data_*) [[ $2 == *model=lenet5* ]] ;;
    # Without --reproducible the sum goes through shared memory, and no call of MPI shows it.
    kill_allreduce | flip_gradient) [[ $2 != *shards=0* ]] ;;
    *) return 0 ;;
    esac
}

# Sets plan: lines `K KIND job=L SETTINGS PARAMETERS`.
storm_plan() {
    local file k=0 l n settings name draw_of=0 order at_local=0 at_hosts=0 at_own=0 local_order hosts_order own_order
    for file in "$here"/attack/storm/kinds/*.sh; do
        # shellcheck source=/dev/null
        . "$file"
    done
    if [[ -n $literal ]]; then
        [[ $(type -t "strike_${literal%% *}") == function ]] || die 2 "no kind of fault is named ${literal%% *}; --list prints the list"
        plan=("1 $literal")
        return
    fi
    if [[ -z $storm_no_hosts ]]; then storm_no_hosts=$(cluster_why); fi
    storm_shuffle "${storm_local[@]}" && local_order=("${order[@]}")
    storm_shuffle "${storm_hosts[@]}" && hosts_order=("${order[@]}")
    storm_shuffle "${storm_own[@]}" && own_order=("${order[@]}")
    plan=()
    for ((l = 0; k < (one > n_faults ? one : n_faults); l++)); do
        draw_of=$((100000 + l))
        settings=$(storm_job "$l") n=8
        if [[ $settings == *own=yes* ]]; then
            name=${own_order[at_own++ % ${#own_order[@]}]} n=1
            [[ $name != flip_states_before ]] || settings=${settings/lenet5/mnist-cnn-bn}
            storm_add
            continue
        fi
        [[ $settings != *place=hosts* ]] || n=5
        while ((n-- > 0)); do
            if [[ $settings == *place=hosts* ]]; then
                name=${hosts_order[at_hosts++ % ${#hosts_order[@]}]}
            else
                name=${local_order[at_local++ % ${#local_order[@]}]}
            fi
            storm_suits "$name" "$settings" || { n=$((n + 1)) && continue; }
            storm_add
        done
    done
    [[ ${#plan[@]} -gt 0 ]] || die 2 "no fault matches; --list prints the list"
}

# Adds one fault; uses the variables of storm_plan.
storm_add() {
    k=$((k + 1)) draw_of=$k
    [[ -z $only || $name =~ $only ]] || return 0
    ((one == 0 || k == one)) || return 0
    ((k <= n_faults || one > 0)) || return 0
    plan+=("$k $name job=$l $settings $("draw_$name")")
}
