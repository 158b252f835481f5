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
    [[ -z $only || $1 =~ $only ]] || return 0
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
    flip_states | shard_*) [[ $2 == *model=mnist-cnn-bn* ]] ;;
    data_*) [[ $2 == *model=lenet5* ]] ;;
    # Without --reproducible the sum goes through shared memory, and no call of MPI shows it.
    kill_allreduce | flip_gradient) [[ $2 != *shards=0* ]] ;;
    *) return 0 ;;
    esac
}

# Sets name to the next kind of a list that makes sense in a job; fails if none does.
storm_pick() { # LIST SETTINGS
    local -n list=$1
    local i
    for ((i = 0; i < ${#list[@]}; i++)); do
        name=${list[taken[$1] % ${#list[@]}]}
        taken[$1]=$((taken[$1] + 1))
        ! storm_suits "$name" "$2" || return 0
    done
    return 1
}

# Sets plan: lines `K KIND job=L SETTINGS PARAMETERS`.
storm_plan() {
    local file k=0 l n settings name list draw_of=0 order local_order hosts_order own_order empty=0
    local -A taken=([local_order]=0 [hosts_order]=0 [own_order]=0)
    for file in "$here"/storm/kinds/*.sh; do
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
    # With --only, a job may suit none of the kinds; all seven sorts of jobs, no kind.
    for ((l = 0; k < (one > n_faults ? one : n_faults) && empty < 7; l++)); do
        draw_of=$((100000 + l))
        settings=$(storm_job "$l") list=local_order n=8 empty=$((empty + 1))
        if [[ $settings == *place=hosts* ]]; then list=hosts_order n=5; fi
        if [[ $settings == *own=yes* ]]; then list=own_order n=1; fi
        while ((n-- > 0)) && storm_pick "$list" "$settings"; do
            [[ $name != flip_states_before ]] || settings=${settings/lenet5/mnist-cnn-bn}
            storm_add && empty=0
        done
    done
    [[ ${#plan[@]} -gt 0 ]] || die 2 "no fault matches; --list prints the list"
}

# Adds one fault; uses the variables of storm_plan.
storm_add() {
    k=$((k + 1)) draw_of=$k
    ((one == 0 || k == one)) || return 0
    ((k <= n_faults || one > 0)) || return 0
    plan+=("$k $name job=$l $settings $("draw_$name")")
}
