#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Starts dptrain under mpirun, on this machine or on several hosts, and supervises the job: the door of `dptrain run`. See --help.
set -euo pipefail
fail() { # MESSAGE
    # Standard error may be closed.
    printf '%s: error: %s\n' "${0##*/}" "$1" >&2 2>/dev/null || true
    exit 4
}

# A process for each of these would be a tenth of the time until mpirun starts.
here=${BASH_SOURCE[0]}
[[ ! -L $here ]] || here=$(readlink -f "$here")
[[ $here == */* ]] || here=./$here
here=${here%/*}
# Of the tree or the bundle, of the installation, or in the PATH. DPTRAIN_BIN is the ranks' program, and may be another one.
for program in "$here/../dptrain" "$here/../../../bin/dptrain" dptrain; do
    [[ $program == */* ]] || program=$(command -v dptrain || true)
    [[ -f $program && -x $program ]] || continue
    # Such a program starts this script.
    [[ ${CALLED_AS:-} != 'dptrain run' ]] || fail "$program is older than this script; run make"
    # The process keeps this script's name, and messages say how it was called.
    # shellcheck disable=SC2093 # the first one
    CALLED_AS=$0 exec -a "$0" "$program" run "$@"
done
fail 'dptrain is not built; run make'
