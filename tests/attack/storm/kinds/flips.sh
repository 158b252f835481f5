# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh and of the storm
# One flipped bit of one replica. What makes the replicas differ is found within K steps; what changes all of them alike is not.
storm_kind flip_weights 5 2 'resumes, rank named'
storm_kind flip_momentum 4 1 'resumes, rank named'
storm_kind flip_gradient 4 1 'resumes, rank named'
storm_kind flip_states 3 0 'resumes, rank named'
storm_kind flip_before_sum own own 'replay'
storm_kind flip_states_before own own 'replay'

draw_flip() { echo "rank=$(between 0 11) wait=$(between 0 40) pos=$(between 0 99) bit=$(between 0 31)"; }
draw_flip_weights() { echo "$(draw_flip) after=0.$(between 0 2)$(between 0 9)"; }
draw_flip_momentum() { draw_flip_weights; }
draw_flip_gradient() { echo "$(draw_flip) n=$(between 1 12)"; }
draw_flip_states() { draw_flip; }
draw_flip_before_sum() { echo "$(draw_flip) n=$(between 1 12)"; }
draw_flip_states_before() { draw_flip; }

# The bit may vanish by rounding, or be one of padding: then the replicas stay equal, and right.
storm_flip() { # SPEC
    local rank
    rank=$(storm_rank)
    storm_arm "rank=$rank $1 pos=${P[pos]} bit=${P[bit]} act=flip"
    [[ -n $at ]] || return 0
    if storm_unharmed; then
        outcome='no difference' found=none
        storm_judge
        return
    fi
    storm_names "$rank"
    storm_resumes
    storm_found_after
}

# Whether the job goes on through two more comparisons.
storm_unharmed() {
    local last=$(($(steps_done) + 3 * storm_check)) seen=0 since=0
    while storm_alive && (($(life_count fault) == n_faults_before)); do
        (($(steps_done) <= last)) || return 0
        storm_moves || return 1
        sleep 0.1
    done
    return 1
}

strike_flip_weights() { storm_flip "call=weights after=${P[after]}"; }
strike_flip_momentum() { storm_flip "call=momentum after=${P[after]}"; }
# The sum, as one rank receives it.
strike_flip_gradient() { storm_flip "call=MPI_Allgather min=1000 n=${P[n]}"; }
# Running statistics, after they were averaged.
strike_flip_states() { storm_flip "call=states"; }

# All replicas become wrong together; the run ends with other bits, and says nothing.
storm_flip_all() { # SPEC
    storm_arm "rank=$(storm_rank) $1 pos=${P[pos]} bit=${P[bit]} act=flip"
    storm_goes_on
    [[ -z $at ]] || storm_replay
}
strike_flip_before_sum() { storm_flip_all "call=MPI_Alltoall min=1000 n=${P[n]}"; }
strike_flip_states_before() { storm_flip_all "call=mpi_send min=512"; }

# Sets found to what replay says of the steps after the last recorded one: replayed, or equal.
storm_replay() {
    local step more code=0
    step=$(sed -nE "s/^struck id=$k step=([0-9]+) .*/\1/p" "$dir/fault" | head -n 1)
    for more in 0 2 4; do
        code=0
        (cd "$dir" && "$real" replay disk/run --step $((${step:-0} + more))) >"$dir/replay" 2>&1 || code=$?
        [[ $code -eq 0 ]] || break
    done
    case $code in
    0) found=equal ;;
    1) found=replayed ;;
    *) bad+=("replay-$code") ;;
    esac
}
