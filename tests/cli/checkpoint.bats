#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain checkpoint: showing, verifying, comparing and exporting checkpoints.

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    dptrain=$root/dptrain
    out=$BATS_TEST_TMPDIR/run
}

setup_file() {
    export RUN=$BATS_FILE_TMPDIR/run XDG_CACHE_HOME=${DPTRAIN_TEST_WORK:-$BATS_FILE_TMPDIR}/cache
    "$BATS_TEST_DIRNAME/../../dptrain" train --data digits --model mlp --steps 4 --batch 50 --threads 1 \
        --checkpoint-every 2 --seed 7 --out "$RUN"
}

# The run's two checkpoints, to be damaged.
copy_run() { cp -r "$RUN" "$out"; }

# Changes one byte.
damage() { # FILE OFFSET
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "show prints position, model, data, options and arrays" {
    "$dptrain" checkpoint show "$RUN/ckpt-000000000002.h5" >"$BATS_TEST_TMPDIR/show"
    cat "$BATS_TEST_TMPDIR/show"
    grep -q "^file .*ckpt-000000000002.h5$" "$BATS_TEST_TMPDIR/show"
    grep -q "^size  *$(stat -c %s "$RUN/ckpt-000000000002.h5") bytes" "$BATS_TEST_TMPDIR/show"
    grep -q '^model  *mlp for images of 28×28×1 in 10 classes$' "$BATS_TEST_TMPDIR/show"
    grep -q '^position  *2 steps done; next is batch 3 of epoch 1' "$BATS_TEST_TMPDIR/show"
    grep -Eq '^data  .*digits.*, xxh3 [0-9a-f]{16}$' "$BATS_TEST_TMPDIR/show"
    grep -q '^ranks  *1, 50 samples a step$' "$BATS_TEST_TMPDIR/show"
    grep -q '^  seed = 7$' "$BATS_TEST_TMPDIR/show"
    grep -Eq '^/params/fc3/weight  +float32 +10×128 +OI +5120 +0\.[0-9]+$' "$BATS_TEST_TMPDIR/show"
    grep -Eq '^/optimizer/velocity/fc1/bias  +float32 +256 +O +1024 ' "$BATS_TEST_TMPDIR/show"
}

@test "the columns of show are aligned, and the total is the arrays' sum" {
    # Not every awk counts characters, so × becomes one byte.
    "$dptrain" checkpoint show "$RUN" | sed -n '/^array /,$p' | sed 's/×/x/g' >"$BATS_TEST_TMPDIR/table"
    # The bytes column is right-aligned.
    awk '/^array/ { at = index($0, " bytes ") + 5; next }
        substr($0, at, 1) !~ /[0-9]/ || substr($0, at + 1, 1) ~ /[0-9]/ { print "not aligned: " $0; exit 1 }' \
        "$BATS_TEST_TMPDIR/table"
    awk '/^\// { sum += $5 } /^total/ { total = $2 } END { exit !(total > 0 && sum == total) }' "$BATS_TEST_TMPDIR/table"
}

@test "show prints the numbers in the file" {
    h5dump -d /params/fc3/weight -b LE -o "$BATS_TEST_TMPDIR/weight" "$RUN/ckpt-000000000004.h5" >/dev/null
    rms=$(od -An -v -tf4 -w4 "$BATS_TEST_TMPDIR/weight" | awk '{ sum += $1 * $1 } END { printf "%.4f", sqrt(sum / NR) }')
    shown=$("$dptrain" checkpoint show "$RUN" | awk '$1 == "/params/fc3/weight" { printf "%.4f", $6 }')
    [ "$rms" = "$shown" ]
}

@test "show uses the newest intact checkpoint of a folder and names skipped ones" {
    copy_run
    damage "$out/ckpt-000000000004.h5" 100000
    "$dptrain" checkpoint show "$out" >"$BATS_TEST_TMPDIR/show" 2>"$BATS_TEST_TMPDIR/said"
    grep -q '^position  *2 steps' "$BATS_TEST_TMPDIR/show"
    grep -q 'skipped: .*ckpt-000000000004.h5 is damaged' "$BATS_TEST_TMPDIR/said"
}

@test "verify: every checkpoint of a folder, newest first" {
    run "$dptrain" checkpoint verify "$RUN"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == "ok "*ckpt-000000000004.h5* ]]
    [[ ${lines[1]} == "ok "*ckpt-000000000002.h5* ]]
}

@test "verify: code 3 and the reason if one is damaged; the others are still checked" {
    copy_run
    damage "$out/ckpt-000000000004.h5" 100000
    run "$dptrain" checkpoint verify "$out" "$RUN/ckpt-000000000004.h5"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ ${lines[0]} == "not ok "*ckpt-000000000004.h5*"does not match its checksum"* ]]
    [[ ${lines[1]} == "ok "*ckpt-000000000002.h5* ]]
    [[ ${lines[2]} == "ok "*"$RUN/ckpt-000000000004.h5"* ]]
    [[ $output == *"1 of 3 checkpoints cannot be used"* ]]
    truncate -s 1000 "$out/ckpt-000000000002.h5"
    run "$dptrain" checkpoint verify "$out"
    [ "$status" -eq 3 ]
    [[ $output == *"2 of 2 checkpoints cannot be used"* ]]
}

@test "crafted files with a right seal are refused by verify, and passed over by --resume auto" {
    copy_run
    crafted() { # STEP OLD NEW: step 4 under that number, with that change
        local file
        file=$out/ckpt-$(printf %012d "$1").h5
        [[ $1 -eq 4 ]] || cp "$RUN/ckpt-000000000004.h5" "$file"
        "$root/build/tests/tools/retable" "$file" "$2" "$3"
    }
    crafted 4 '"f4"' '"f2"'
    crafted 5 '"arrays":[' '"x":['
    crafted 6 '[256,784]' '[256,785000000]'
    crafted 7 '"offset":16896' '"offset":7'
    crafted 8 '"step":4' '"step":true'
    run "$dptrain" checkpoint verify "$out"
    echo "$output"
    [ "$status" -eq 3 ]
    [ "$(grep -c '^not ok .* table of contents: ' <<<"$output")" -eq 4 ]
    grep -q 'ckpt-000000000004.h5: the array .* an element type that dptrain never writes$' <<<"$output"
    grep -q 'ckpt-000000000006.h5: .* larger than the whole file$' <<<"$output"
    grep -q 'ckpt-000000000007.h5: .* not within the file$' <<<"$output"
    grep -q '^ok .*ckpt-000000000002.h5 ' <<<"$output"
    run "$dptrain" train --data digits --model mlp --steps 3 --batch 50 --threads 1 --seed 7 --resume auto --out "$out"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"ckpt-000000000002.h5"*"finished after 3 steps"* ]]
}

# Whatever dptrain reads by the table, other programs find by HDF5.
@test "the table of contents says of each array what HDF5 says, and where its bytes are" {
    local file=$RUN/ckpt-000000000004.h5 name offset bytes
    tail -n 1 "$file" | jq -r '.arrays[] | "\(.name) \(.offset) \(4 * reduce .shape[] as $n (1; . * $n)) \(.xxh3)"' >"$BATS_TEST_TMPDIR/arrays"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/arrays")" -eq "$(h5ls -r "$file" | grep -c Dataset)" ]
    while read -r name offset bytes sum; do
        h5dump -d "$name" -b LE -o "$BATS_TEST_TMPDIR/bytes" "$file" >/dev/null
        tail -c +$((offset + 1)) "$file" | head -c "$bytes" | cmp - "$BATS_TEST_TMPDIR/bytes"
        [[ "$(h5dump -a "$name/xxh3" "$file")" == *"\"$sum\""* ]]
    done <"$BATS_TEST_TMPDIR/arrays"
    [ "$(tail -n 1 "$file" | jq .attributes.step)" -eq 4 ]
    h5diff "$file" "$file"
}

@test "files that are not checkpoints are rejected with the right code" {
    check() { # CODE WORDS ARGUMENTS...
        run "$dptrain" checkpoint "${@:3}"
        echo "expected $1 \"$2\", got $status: $output"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
    }
    mkdir "$BATS_TEST_TMPDIR/empty"
    echo text >"$BATS_TEST_TMPDIR/text.h5"
    foreign=$BATS_TEST_TMPDIR/foreign.h5
    printf '\x89HDF\r\n\x1a\n and so on' >"$foreign"
    for verb in show verify; do
        check 3 "no checkpoint in the folder" "$verb" "$BATS_TEST_TMPDIR/empty"
        check 3 "No such file" "$verb" "$BATS_TEST_TMPDIR/absent.h5"
        check 3 "is not a dptrain checkpoint" "$verb" "$BATS_TEST_TMPDIR/text.h5"
        check 3 "is an HDF5 file" "$verb" "$foreign"
        check 2 "expected" "$verb"
    done
    check 2 "expected one checkpoint" show "$RUN" "$RUN"
    check 2 "did you mean 'verify'?" verfy "$RUN"
    check 2 "show, verify, compare, export" prune "$RUN"
    check 2 "show, verify, compare, export"
    check 2 "unknown option" verify --fast "$RUN"
    "$dptrain" checkpoint --help | grep -q 'checkpoint verify'
}

@test "compare: equal checkpoints, a rounding within --within, and a layer that differs" {
    "$dptrain" data synth digits --out "$out-data" --train 100 --val 1
    with=(--data "$out-data" --model mlp --batch 50 --threads 1 --checkpoint-every 1 --no-eval --seed 7)
    "$dptrain" train "${with[@]}" --steps 2 --device cpu --algorithms fixed --out "$out-cpu"
    "$dptrain" train "${with[@]}" --steps 2 --device ref --out "$out-ref"
    "$dptrain" train "${with[@]}" --steps 2 --device cpu --algorithms fixed --momentum 0.901 --out "$out-other"
    run "$dptrain" checkpoint compare "$out-cpu" "$out-cpu/ckpt-000000000002.h5" --within 0
    echo "$output"
    [[ $status -eq 0 && $output == "12 arrays of step 2: 12 equal, 0 differ; largest relative difference 0" ]]
    run "$dptrain" checkpoint compare "$out-cpu" "$out-ref"
    echo "$output"
    [[ $status -eq 0 && ${lines[0]} == array*relative && ${lines[1]} == /*/fc* && $output == *"arrays of step 2: "* ]]
    run "$dptrain" checkpoint compare "$out-cpu" "$out-ref" --within 0
    echo "$output"
    [[ $status -eq 1 && $output == *"error: $out-cpu/ckpt-000000000002.h5 and $out-ref/ckpt-000000000002.h5 differ"* ]]
    # Another momentum changes nothing in step 1, and the velocity of step 2 by about .001.
    run "$dptrain" checkpoint compare "$out-cpu/ckpt-000000000001.h5" "$out-other/ckpt-000000000001.h5" --within 0
    [ "$status" -eq 0 ]
    run "$dptrain" checkpoint compare "$out-cpu" "$out-other"
    echo "$output"
    [[ $status -eq 1 && ${lines[1]} == /optimizer/velocity/fc* && $output == *" of 12 arrays by more than 1e-05 "* ]]
    # The figure is the definition, by h5dump.
    for run in cpu other; do
        h5dump -d /optimizer/velocity/fc3/bias -b LE -o "$BATS_TEST_TMPDIR/$run" "$out-$run/ckpt-000000000002.h5" >/dev/null
        od -An -v -tf4 -w4 "$BATS_TEST_TMPDIR/$run" >"$BATS_TEST_TMPDIR/$run.txt"
    done
    figure=$(paste "$BATS_TEST_TMPDIR/cpu.txt" "$BATS_TEST_TMPDIR/other.txt" | awk 'function size(x) { return x < 0 ? -x : x }
        { if (size($1 - $2) > far) far = size($1 - $2); for (i = 1; i <= 2; i++) if (size($i) > most) most = size($i) }
        END { printf "%.1e", far / most }')
    [ "$figure" = "$(awk '$1 == "/optimizer/velocity/fc3/bias" { printf "%.1e", $6 }' <<<"$output")" ]
    # Exported weights have no step.
    "$dptrain" checkpoint export "$out-cpu" --out "$BATS_TEST_TMPDIR/weights.h5" --names dptrain
    run "$dptrain" checkpoint compare "$BATS_TEST_TMPDIR/weights.h5" "$BATS_TEST_TMPDIR/weights.h5" --within 0
    [[ $status -eq 0 && $output == "6 arrays: 6 equal, 0 differ; "* ]]
    # Nothing else can be compared.
    run "$dptrain" checkpoint compare "$out-cpu/ckpt-000000000001.h5" "$out-cpu"
    [[ $status -eq 3 && $output == *"ckpt-000000000001.h5 is of step 1, "*"ckpt-000000000002.h5 of step 2"* ]]
    "$dptrain" train "${with[@]}" --steps 2 --optimizer adamw --out "$out-adamw"
    run "$dptrain" checkpoint compare "$out-cpu" "$out-adamw"
    [[ $status -eq 3 && $output == *" has /optimizer/velocity/fc1/bias, "*"$out-adamw/"*" does not" ]]
    "$dptrain" train --data "$out-data" --model lenet5 --batch 1 --algorithms fixed --steps 2 --no-eval --out "$out-lenet5"
    run "$dptrain" checkpoint compare "$out-cpu" "$out-lenet5"
    [[ $status -eq 3 && $output == *"model mlp"*"lenet5"* ]]
    run "$dptrain" checkpoint compare "$out-cpu"
    [[ $status -eq 2 && $output == *"two checkpoints"* ]]
    run "$dptrain" checkpoint verify "$out-cpu" --within 1
    [[ $status -eq 2 && $output == *"--within"* ]]
}

@test "an unreadable folder is reported" {
    [ "$(id -u)" -ne 0 ] || skip "root may read every folder"
    mkdir -m 000 "$BATS_TEST_TMPDIR/closed"
    run "$dptrain" checkpoint verify "$BATS_TEST_TMPDIR/closed"
    chmod 700 "$BATS_TEST_TMPDIR/closed"
    [ "$status" -eq 3 ]
    [[ $output == *"Permission denied"* ]]
}
