#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Seeded mutations through every fuzz target, compiled by the build's compiler with sanitizers: with clang or without, a target
# that no longer compiles or links is noticed, as is what a few thousand inputs find. tests/cli/fuzz.bats runs libFuzzer.

setup() { root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd); }

@test "every fuzz target takes mutations of its seeds without a finding" {
    local n=${DPTRAIN_TEST_SLOW:+40000}
    n=${n:-1000}
    run "$root/scripts/dev/fuzz.sh" --no-build --mutations "$n"
    echo "$output"
    [ "$status" -eq 0 ]
    for target in $("$root/scripts/dev/fuzz.sh" --list); do [[ $output =~ "| $target | - | "[0-9.]+" | $n | - | - | - | 0 |" ]]; done
}

@test "an input that ends a target is kept, and ends it again" {
    cd "$BATS_TEST_TMPDIR"
    printf '#include "tests/fuzz/fuzz.h"\n%s\n' \
        'int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { MUST(!getenv("BREAKS") || n == 0 || data[0] != 0xff); return 0; }' >target.c
    "${CC:-gcc}" -D_GNU_SOURCE -I"$root" -I"$root/src" -o target target.c "$root/build-san/tests/fuzz/mutate.o" \
        "$root/build-san/libfuzzed.a" -fsanitize=address,undefined -fopenmp -lz -lxxhash -lm -ldl
    mkdir seeds && printf ab >seeds/a && printf abc >seeds/b
    run ./target seeds 10 8 input
    [ "$status" -eq 0 ]
    [ "$output" = "2 seeds, 10 mutations" ]
    [ ! -e input ]
    BREAKS=1 run ./target seeds 100000 8 input
    [ "$status" -ne 0 ]
    [[ $output == *"data[0] != 0xff"* ]]
    [ "$(head -c 1 input | od -An -tx1)" = " ff" ]
    BREAKS=1 run ./target input
    [ "$status" -ne 0 ]
}
