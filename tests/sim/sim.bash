# SPDX-License-Identifier: MIT
# Functions shared by the tests on simulated hosts: `load sim`, which loads tests/cli/common.bash.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of common.bash

load ../cli/common

# For setup_file: skips the file where the program cannot be simulated. Creates $small, a folder with
# digits of 7x7 pixels, so that the model of a simulated rank is small.
sim_setup() { # TRAINING VALIDATION
    common_setup
    command -v smpirun >/dev/null || skip "SimGrid was not found; scripts/install_deps.sh --sim installs it"
    [[ -e ${DPTRAIN_SMPI_BIN:-$root/build-smpi/dptrain} ]] || skip "build-smpi/dptrain is not built; make SMPI=1 builds it"
    make_tiny "$1" "$2"
    export small=$BATS_FILE_TMPDIR/small
    perl "$root/tests/sim/shrink.pl" "$tiny" "$small"
}

# The options of every run: nothing measured, nothing chosen by the machine.
# shellcheck disable=SC2034 # for the tests
sim_options=(--model mlp --steps 2 --threads 1 --algorithms fixed --device cpu --timeout 10)

simulate() { # OPTIONS OF simulate.sh -- COMMAND...
    "$root/scripts/simulate.sh" "$@"
}

# Prints collectives and simulated seconds before the first sum of gradients.
before_first_sum() { # FILE OF --collectives
    awk -F'\t' '$3 == "gradient allreduce" || $3 == "gradient exchange" { print $1 - 1, $2; exit }' "$1"
}

# The losses of a run: of each step, then of the validation.
sim_losses() { # FOLDER
    jq -r 'select(.record == "step") | .loss' "$1/metrics.jsonl"
    jq -r 'select(.record == "epoch") | .val_loss' "$1/metrics.jsonl"
}

# Fails unless the job ended within its timeout of 10 s and 5 more, in simulated time, after rank 0's last collective.
ended_in_time() { # FILE OF --collectives
    awk -F'\t' '$1 == "end" { end = $2; exit } { last = $2 } END { print end - last; exit !(end > 0 && end - last <= 15) }' "$1"
}

# The names of a run's fields, but for the list of its hosts. When the record of a checkpoint comes depends on the disk.
sim_fields() { # FOLDER
    jq -c 'if .record == "run" then del(.topology.host_of_rank) else . end | [.record, paths | tostring]' "$1/metrics.jsonl" | sort
}

# Fails unless output and code are those of one error.
one_error() { # CODE WORDS
    echo "$output"
    [ "$status" -eq "$1" ]
    [ "$(grep -c 'dptrain: error' <<<"$output")" -eq 1 ]
    grep -qE "dptrain: error: $2" <<<"$output"
}
