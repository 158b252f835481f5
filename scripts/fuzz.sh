#!/usr/bin/env bash
# Feeds readers of files with bytes that try to break them. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/fuzz.sh [options] [TARGET...]

Builds the fuzz targets (make fuzz: clang's libFuzzer, with the sanitizers of addresses and of undefined behaviour), makes
seeds for them, runs one after the other, and prints a Markdown table: inputs tried, places in the code that they
reached, findings. A finding is an input that crashes a reader, breaks a promise of its header, takes 10 s or 2 GB; it is
kept in build/fuzz/findings/TARGET, and `build/fuzz/PROGRAM FINDING` shows it again. Inputs that reached something new are
kept in build/fuzz/corpus/TARGET for the next time.

  --seconds N  of each target [60]
  --list       print the targets and stop
  --no-build   take the programs as they are
  -h, --help   this text

Exit code 1: there are findings. 4: no clang with libFuzzer (Debian: apt-get install clang).
EOT
}

# TARGET: PROGRAM, of tests/fuzz/fuzz_PROGRAM.c, and the longest input in bytes. Seeds are below.
declare -A program=([png]=image [jpeg]=image [idx]=idx [shard]=shard [checkpoint]=checkpoint)
declare -A longest=([png]=16384 [jpeg]=16384 [idx]=4096 [shard]=32768 [checkpoint]=4096)
targets=(png jpeg idx shard checkpoint)

# The first byte says how the rest is read: a shard, an index, an index in memory, a record's annotations.
make_shard_seeds() { # FOLDER
    ./dptrain data synth digits --out "$1/digits" --train 3 --val 1 >&2
    ./dptrain data pack --from "$1/digits" --out "$1/packed" >&2
    { printf '\0'; cat "$1"/packed/train-*.h5; } >"$1/shard"
    { printf '\1'; cat "$1/packed/index.h5"; } >"$1/index"
    # As src/shard/notes.h says: 2 × 3 pixels, the name "a", one annotation with runs 1, 5.
    {
        printf '\3\7\0\0\0\0\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0'
        head -c 48 /dev/zero
        printf '\1\0\0\0\1\2\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\5\0\0\0'
    } >"$1/notes"
    rm -r "$1/digits" "$1/packed"
}

make_seeds() { # TARGET FOLDER
    case $1 in
    png | jpeg) build/tests/tools/image_samples "$1" "$2" 24 ;;
    idx)
        # Two pictures of 3 × 2, four labels; as they are and packed.
        printf '\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\2abcdefABCDEF' >"$2/pictures"
        printf '\0\0\10\1\0\0\0\4\1\2\3\4' >"$2/labels"
        gzip -kn "$2/pictures" "$2/labels"
        ;;
    shard) make_shard_seeds "$2" ;;
    checkpoint)
        printf 'dptrain checkpoint 1\nxxh3-128 %032d\nbytes 600\n' 0 >"$2/seal"
        truncate -s 600 "$2/seal"
        ;;
    esac
}

seconds=60 build=yes chosen=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --seconds) need_value "$@"; whole_number "$1" "$2" 1; seconds=$((10#$2)); shift 2 ;;
    --list) printf '%s\n' "${targets[@]}"; exit 0 ;;
    --no-build) build=no; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) die 2 "unknown option '$1'; --help lists the options" ;;
    *) [[ -n ${program[$1]:-} ]] || die 2 "there is no target '$1'; --list prints them"
        chosen+=("$1"); shift ;;
    esac
done
[[ ${#chosen[@]} -gt 0 ]] || chosen=("${targets[@]}")
cd "$here/.."
if [[ $build == yes ]]; then
    command -v "${FUZZ_CC:-clang}" >/dev/null || die 4 "clang was not found (Debian: apt-get install clang)"
    make -s -j "$(nproc)" all fuzz >&2 || die 4 "the build failed; is libFuzzer there (Debian: apt-get install clang)?"
fi

# The last figure of libFuzzer's that has this name.
figure() { sed -nE "s/.*$1:? +([0-9]+).*/\1/p" build/fuzz/"$2".log | tail -n 1; }

status=0
printf '| target | seconds | inputs | places reached | corpus | findings |\n|---|---:|---:|---:|---:|---:|\n'
for target in "${chosen[@]}"; do
    corpus=build/fuzz/corpus/$target seeds=build/fuzz/seeds/$target findings=build/fuzz/findings/$target
    rm -rf "$seeds"
    mkdir -p "$corpus" "$seeds" "$findings"
    make_seeds "$target" "$seeds" || die 4 "no seeds could be made for $target"
    note "$target: $seconds s"
    "build/fuzz/${program[$target]}" -max_total_time="$seconds" -max_len="${longest[$target]}" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/" "$corpus" "$seeds" \
        >"build/fuzz/$target.log" 2>&1 || status=1
    n=$(find "$findings" -type f | wc -l)
    if [[ $n -gt 0 ]]; then
        status=1
        note "$target has findings: the end of build/fuzz/$target.log says more"
    fi
    printf '| %s | %s | %s | %s | %s | %s |\n' "$target" "$seconds" \
        "$(figure stat::number_of_executed_units "$target")" "$(figure cov "$target")" \
        "$(find "$corpus" -type f | wc -l)" "$n"
done
[[ $status -eq 0 ]] || die 1 "the readers are to be mended: build/fuzz/findings"
