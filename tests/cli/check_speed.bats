#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain check --only speed: a rank whose products are slow or wrong (tests/tools/shim/sgemm.c) is named, on ranks that count as
# separate hosts.
# shellcheck disable=SC2154 # common.bash and bats set variables

# shellcheck source=tests/cli/common.bash
load common

setup_file() {
    export shim=$BATS_FILE_TMPDIR/sgemm.so
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o "$shim" "$BATS_TEST_DIRNAME"/../tools/shim/sgemm.c -ldl
}

setup() {
    common_setup
    name=$(hostname)
    name=${name:0:63}
    json=$BATS_TEST_TMPDIR/check.json
}

speed() { # FAULT ARGUMENTS...   FAULT: of sgemm.c, "" for none
    mpi_flags 3
    run env SGEMM="$1" mpirun "${MPI_FLAGS[@]}" -x LD_PRELOAD="$shim" -x SGEMM -np 3 "$dptrain" check --device cpu \
        --only speed --ranks-per-host 1 --json "$json" "${@:2}"
    echo "$output"
}

statuses() { # NAME
    jq -r --arg n "$1" '[.lines[] | select(.name == $n) | .status] | join(" ")' "$json"
}

@test "a host at half speed fails and is named" {
    speed "1 slow"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  GEMM             $name#2 .* below the median" <<<"$output"
    [ "$(statuses GEMM)" != "fail fail fail" ]
    [ "$(statuses results)" = "ok ok ok" ]
    [ "$(jq '[.lines[] | select(.name == "GEMM") | .value | numbers] | length' "$json")" -eq 3 ]
}

@test "wrong results are found, and the host is named" {
    speed "2 wrong"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  results          $name#3 .* wrong results" <<<"$output"
    [ "$(statuses results)" = "ok ok fail" ]
}

@test "--level 2: a slow CPU is named" {
    [[ ${DPTRAIN_TEST_SLOW:-} == 1 ]] || skip "only with scripts/test.sh --slow"
    [[ $(nproc) -ge 2 ]] || skip "needs two CPUs"
    speed "1 cpu" --level 2
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  slowest CPU      $name#2 .* CPU 1: " <<<"$output"
    [ "$(statuses "slowest CPU" | grep -o fail)" = fail ]
}

@test "--level 3: every CPU, and a burn-in that finds wrong results" {
    speed "1 wrong" --level 3 --burn-in 6
    [ "$status" -eq 1 ]
    grep -q '^burn-in: [0-9]* of 6 s' <<<"$output"
    [ "$(statuses burn-in | grep -o fail)" = fail ]
    grep -q "^  FAIL  burn-in          $name#2 .* wrong results" <<<"$output"
    [ "$(jq '[.lines[] | select(.name == "slowest CPU")] | length' "$json")" -eq 3 ]
    run "$dptrain" check --only clock --burn-in 5
    grep -q 'warning: .*--burn-in' <<<"$output"
}

@test "--profile: a host slower than the profile fails" {
    "$dptrain" check --device cpu --only speed --write-profile "$BATS_TEST_TMPDIR/profile.json"
    jq '.facts |= map(if .name == "GEMM" then .value *= 2 else . end)' "$BATS_TEST_TMPDIR/profile.json" \
        >"$BATS_TEST_TMPDIR/faster.json"
    run "$dptrain" check --device cpu --only speed --profile "$BATS_TEST_TMPDIR/faster.json"
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  GEMM .* the profile has" <<<"$output"
}

@test "a GPU: copies to it, from it and within it" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    DPTRAIN_EMU_GPUS=1 run "$dptrain" check --only speed --json "$json"
    echo "$output"
    [ "$status" -eq 0 ]
    for line in GEMM H2D D2H "GPU copy" results; do
        [ "$(statuses "$line")" = ok ]
    done
}
