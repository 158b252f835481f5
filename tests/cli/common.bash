# What the command line tests share: `load common`. A file with a setup of its own calls common_setup in it.
# shellcheck shell=bash

# Sets root, dptrain, out, and mpi_flags' home; nothing is bound to cores, nothing goes into the user's cache.
common_setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    dptrain=${DPTRAIN_BIN:-$root/dptrain}
    # shellcheck disable=SC2034 # for the tests
    out=$BATS_TEST_TMPDIR/run
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DPTRAIN_BIND=none
    # Algorithms are measured once for all tests.
    export XDG_CACHE_HOME=${DPTRAIN_TEST_WORK:-$BATS_FILE_TMPDIR}/cache
    # shellcheck source=scripts/lib.sh
    . "$root/scripts/lib.sh"
}

setup() { common_setup; }

# For setup_file: a folder with digits as IDX files, $tiny.
make_tiny() { # TRAINING VALIDATION
    export tiny=$BATS_FILE_TMPDIR/tiny
    "${DPTRAIN_BIN:-$BATS_TEST_DIRNAME/../../dptrain}" data synth digits --out "$tiny" --train "$1" --val "$2"
}

on_ranks() { # N ARGUMENTS...
    mpi_flags "$1"
    mpirun "${MPI_FLAGS[@]}" -np "$1" "$dptrain" "${@:2}"
}
