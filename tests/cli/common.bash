# SPDX-License-Identifier: MIT
# Functions shared by the command line tests: `load common`. A file with its own setup calls common_setup in it.
# shellcheck shell=bash

# Sets root, dptrain, out, and sources lib.sh; does not bind to cores or write to the user's cache.
common_setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    dptrain=${DPTRAIN_BIN:-$root/dptrain}
    # shellcheck disable=SC2034 # for the tests
    out=$BATS_TEST_TMPDIR/run
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DPTRAIN_BIND=none
    # Measure algorithms once for all tests.
    export XDG_CACHE_HOME=${DPTRAIN_TEST_WORK:-$BATS_FILE_TMPDIR}/cache
    # shellcheck source=scripts/lib.sh
    . "$root/scripts/lib.sh"
}

setup() { common_setup; }

# For setup_file: creates $tiny, a folder with digits as IDX files.
make_tiny() { # TRAINING VALIDATION
    export tiny=$BATS_FILE_TMPDIR/tiny
    "${DPTRAIN_BIN:-$BATS_TEST_DIRNAME/../../dptrain}" data synth digits --out "$tiny" --train "$1" --val "$2"
}

# Checks records with dptrain report --check and, if jsonschema is installed, by the schema of dptrain report --schema.
check_records() { # FILES...
    local python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    "$dptrain" report --check "$@"
    "$python" -c 'import jsonschema' 2>/dev/null || return 0
    "$dptrain" report --schema --out "$BATS_TEST_TMPDIR/records.schema.json"
    "$python" "$root/tests/cli/records_schema.py" "$BATS_TEST_TMPDIR/records.schema.json" "$@"
}

on_ranks() { # N ARGUMENTS...   N 0: without mpirun
    if (($1 == 0)); then
        "$dptrain" "${@:2}"
        return
    fi
    mpi_flags "$1"
    mpirun "${MPI_FLAGS[@]}" -np "$1" "$dptrain" "${@:2}"
}

# For tests of signals to bare mpirun. OpenMPI 5.0.7 kills the ranks 0.2 s after SIGTERM, and forwards no output meanwhile; run.sh
# asks by SIGUSR1. OpenMPI 4 kills them after 1 s, here 4 s but in slow tests: a rank may wait for a CPU for a second.
mpirun_waits() {
    mpi_version
    ((mpi_major < 5)) || skip "mpirun of OpenMPI 5 leaves the ranks no time"
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || export OMPI_MCA_odls_base_sigkill_timeout=4
}

# Prints the loss of every step, one per line.
losses() { # FOLDER OF A RUN
    jq -r 'select(.record == "step") | .loss' "$1/metrics.jsonl"
}

# Compares two columns of numbers, of equal length, within a tolerance.
close_columns() { # FILE FILE TOLERANCE
    paste "$1" "$2" |
        awk -v most="$3" '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > most) bad = 1 } END { exit bad || NR == 0 }'
}

# Compares the losses of two runs, all or those of the first steps. Of models with max pooling only the first two: where two cells
# of a window tie within rounding, another rounding changes a gradient, and the losses of later steps by up to .03.
close_curves() { # FOLDER FOLDER TOLERANCE [STEPS]
    local n=${4:-$(losses "$1" | wc -l)}
    [ "$(losses "$1" | head -n "$n" | wc -l)" -eq "$n" ] || return 1
    close_columns <(losses "$1" | head -n "$n") <(losses "$2" | { if [[ -n ${4:-} ]]; then head -n "$4"; else cat; fi; }) "$3"
}

# Prints the largest difference between the losses of two runs, of all or of the first steps.
distance() { # FOLDER FOLDER [STEPS]
    paste <(losses "$1") <(losses "$2") | head -n "${3:-1000000}" |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { print NR ? most + 0 : "nothing" }'
}

between() { # LOW X HIGH
    awk -v low="$1" -v x="$2" -v high="$3" 'BEGIN { exit !(low < x && x < high) }'
}

# For tests that only scripts/test.sh --slow runs.
only_slow() { # WHY
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "$1; scripts/test.sh --slow runs it"
}

# For tests that are slow with sanitizers and gain nothing from them.
not_with_sanitizers() {
    [[ $dptrain != */build-san/* ]] || skip "accuracies are looked at without sanitizers"
}

# Sets magick: ImageMagick's own program, by any of its names.
need_magick() {
    local candidate
    for candidate in magick convert-im6.q16 convert /usr/bin/convert; do
        if [[ $("$candidate" -version 2>/dev/null) == *ImageMagick* ]]; then
            magick=$candidate
            return
        fi
    done
    skip "ImageMagick is not installed; scripts/install_deps.sh --test installs it"
}
