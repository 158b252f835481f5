#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the error rates of regression runs, and prints results/regress_proof.md. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/regress_proof.sh [options] [PART]...

Measures the error rates of `dptrain report compare`, and prints a Markdown page. Parts (default: all):

  synthetic  synthetic samples and histories with known truth: false alarms, coverage of intervals, detections
  resampled  comparisons of block-resampled recordings of one build: false alarms, and the power curve
  alike      this build against itself, by scripts/regress.sh ab: false alarms
  slowed     this build against itself with an injected slowdown in one phase of a step or one case, by
             scripts/regress.sh ab: detections, and whether the phase is blamed
  busy       both beside other processes that share the CPUs: this build against itself, and with larger slowdowns

Recordings are kept in --folder and not measured again, so a stopped run can continue. Needs jq, and an otherwise idle
machine for about three hours.

  --folder DIR     folder of recordings [build/regress_proof]
  --recordings N   recordings for `resampled` [12]
  --alike N        runs of this build against itself [40]
  --slowed N       runs slowed by 5 %, cycling through the phases [64]
  --busy N         runs slowed by 10 % beside other processes, and half as many runs of this build against itself [20]
  --processes N    other processes of `busy`; every fourth moves memory, the others compute [9]
  --trials N       resampled comparisons per row [1000]
  --starts N       starts of the suite per run [8]
  --suite NAME     suite [quick]
  -h, --help       show this help
EOT
}

command="scripts/bench/regress_proof.sh${*:+ $*}"
folder=$here/../../build/regress_proof recordings=12 alike=40 slowed=64 busy=20 processes=9 trials=1000 starts=8 suite=quick parts=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --folder | --suite) need_value "$@" ;;
    --alike | --slowed | --busy) need_value "$@"; whole_number "$1" "$2" 0 ;;
    --recordings | --processes | --trials | --starts) need_value "$@"; whole_number "$1" "$2" 1 ;;
    esac
    case $1 in
    --folder) folder=$2; shift 2 ;;
    --recordings) recordings=$((10#$2)); shift 2 ;;
    --alike) alike=$((10#$2)); shift 2 ;;
    --slowed) slowed=$((10#$2)); shift 2 ;;
    --busy) busy=$((10#$2)); shift 2 ;;
    --processes) processes=$((10#$2)); shift 2 ;;
    --trials) trials=$((10#$2)); shift 2 ;;
    --starts) starts=$((10#$2)); shift 2 ;;
    --suite) suite=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    synthetic | resampled | alike | slowed | busy) parts+=("$1"); shift ;;
    *) die 2 "unknown argument '$1'; --help lists options and parts" ;;
    esac
done
((${#parts[@]} > 0)) || parts=(synthetic resampled alike slowed busy)
((recordings >= 2)) || die 2 "invalid --recordings $recordings: expected 2 or more"
command -v jq >/dev/null || die 4 "jq was not found; scripts/install_deps.sh --test installs it"
cd "$here/../.."
make -s -j "$(nproc)" dptrain build/scripts/bench/{stats_errors,regress_resample,proportion} >&2 || die 4 "the build failed"
mkdir -p "$folder" || die 4 "cannot make $folder"
folder=$(cd "$folder" && pwd)
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
# Phases that --burn slows down, and cases whose metrics it slows.
phases=(gemm mem comm backward forward optimizer allreduce data)

wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

share() { build/scripts/bench/proportion "$1" "$2"; }

median() { sort -n | awk '{ x[NR] = $1 } END { if (NR) printf "%.1f", NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }

# Measures one interleaved pair of recordings, unless it exists.
take_pair() { # FOLDER [OPTIONS OF BENCH FOR THE SECOND]
    local code=0 start=$SECONDS
    [[ ! -f $1/b.jsonl ]] || return 0
    rm -rf "$1.new"
    mkdir -p "$1.new"
    scripts/regress.sh ab . . --suite "$suite" --starts "$starts" --results "$1.new" --b-args "${2:-}" \
        >"$1.new/log" 2>&1 || code=$?
    ((code <= 1 || code == 6)) || { tail -n 5 "$1.new/log" >&2; die 4 "$1: regress.sh ab ended with code $code"; }
    mv "$1.new"/runs/ab-*/{a,b}.jsonl "$1.new"
    rm -r "$1.new/runs"
    mv "$1.new" "$1"
    note "${1#"$folder"/}: $((SECONDS - start)) s"
}

# Prints the verdicts of a pair as one line of JSON.
compare_pair() { # FOLDER MIN-EFFECT
    local code=0
    ./dptrain report compare --min-effect "$2" --format json --out "$work/verdict" "$1/a.jsonl" "$1/b.jsonl" \
        2>"$work/said" || code=$?
    ((code <= 1 || code == 6)) || { cat "$work/said" >&2; die 4 "cannot compare $1"; }
    jq -c --argjson code "$code" '. + {code: $code}' "$work/verdict"
}

# Prints the machine's noise: for each metric the spread of its medians over starts, and of the interleaved ratios.
print_spread() { # FILE OF VERDICTS
    jq -rs '[.[].metrics[]] | group_by(.label) | map({label: .[0].label,
            error: ([.[].error | values] | sort | .[length / 2 | floor]), n: length,
            off: ([.[].ratio | values | log | fabs] | sort | .[length / 2 | floor])})
        | sort_by(.error)[] | "| \(.label) | \(1e4 * .error | round / 100) | \(1e4 * .off | round / 100) |"' "$1"
}

synthetic() {
    printf '\n## Synthetic samples and histories\n\n'
    build/scripts/bench/stats_errors
}

resampled() {
    local i names=() pairs=()
    for ((i = 1; i <= recordings; i++)); do
        if [[ ! -f $folder/recording-$i.jsonl ]]; then
            rm -rf "$folder/recording"
            scripts/regress.sh run --suite "$suite" --starts "$starts" --results "$folder/recording" >"$folder/log" 2>&1 ||
                { tail -n 5 "$folder/log" >&2; die 4 "regress.sh run failed"; }
            mv "$folder"/recording/runs/*.jsonl "$folder/recording-$i.jsonl"
            note "recording $i of $recordings"
        fi
        names+=("$folder/recording-$i.jsonl")
    done
    printf '\n## Resampled recordings of one build\n\n'
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '%s separate recordings (`scripts/regress.sh run --suite %s`), one after the other; each comparison uses two of them.\n\n' \
        "$recordings" "$suite"
    build/scripts/bench/regress_resample --trials "$trials" "${names[@]}"
    for ((i = 1; i <= alike; i++)); do
        [[ ! -f $folder/alike-$i/b.jsonl ]] || pairs+=("$folder/alike-$i/a.jsonl" "$folder/alike-$i/b.jsonl")
    done
    ((${#pairs[@]} > 0)) || return 0
    for i in 0.03 0.015; do
        # shellcheck disable=SC2016 # Markdown's quotes
        printf '\nThe %s interleaved pairs of the next section; each comparison uses one of them, with `--min-effect %s`.\n\n' \
            $((${#pairs[@]} / 2)) "$i"
        build/scripts/bench/regress_resample --trials "$trials" --min-effect "$i" --in-turn "${pairs[@]}"
    done
}

take_alike() { # NAME N
    local i
    for ((i = 1; i <= $2; i++)); do take_pair "$folder/$1-$i"; done
}

others=()

# Runs COMMAND beside other processes.
beside_others() { # COMMAND...
    local i
    for ((i = 1; i <= processes; i++)); do
        if ((i % 4 == 0)); then
            dd if=/dev/zero of=/dev/null bs=4M status=none &
        else
            (while :; do :; done) &
        fi
        others+=($!)
    done
    "$@"
    end_others
}

end_others() {
    ((${#others[@]} == 0)) || kill "${others[@]}" 2>/dev/null || true
    others=()
}

alike() {
    printf '\n## This build against itself\n\n'
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '%s runs of `scripts/regress.sh ab . . --suite %s --starts %s`.\n\n' "$alike" "$suite" "$starts"
    alike_table alike "$alike"
}

alike_table() { # NAME N
    local i effect
    printf '| minimum effect | a metric worse or better | metrics same | metrics inconclusive |\n|---:|---:|---:|---:|\n'
    for effect in 0.03 0.015; do
        for ((i = 1; i <= $2; i++)); do compare_pair "$folder/$1-$i" "$effect"; done >"$work/$effect"
        printf '| %s | %s | %s | %s |\n' "$effect" \
            "$(share "$(jq -s 'map(.n.worse + .n.better) | add' "$work/$effect")" "$(jq -s 'map(.metrics | length) | add' "$work/$effect")")" \
            "$(jq -s 'map(.n.same) | add' "$work/$effect")" "$(jq -s 'map(.n.inconclusive) | add' "$work/$effect")"
    done
    printf '\n| metric | standard error of a change, %% (median) | measured change without a real one, %% (median) |\n|---|---:|---:|\n'
    print_spread "$work/0.03"
}

# Each run injects a slowdown into the next phase.
take_slowed() { # NAME N SHARE
    local i
    for ((i = 1; i <= $2; i++)); do
        take_pair "$folder/$1-$i" "--burn ${phases[(i - 1) % ${#phases[@]}]}:$3"
    done
}

# Found: a metric of the slowed case is worse. Blamed: for a step, the report also names the phase.
judge() { # PHASE; verdicts on the standard input
    jq -c --arg phase "$1" '($phase | IN("gemm", "conv", "mem", "comm")) as $is_case
        | (if $is_case then $phase else "step" end) as $case
        | [.metrics[] | select(.case == $case)] as $hit | [.metrics[] | select(.case != $case)] as $others
        | {found: any($hit[]; .verdict == "worse"),
           blamed: (if $is_case then true else any($hit[]; .verdict == "worse" and .attributed_to == $phase) end),
           wrong: ([$others[] | select(.verdict == "worse" or .verdict == "better")] | length), others: ($others | length),
           change: ([$hit[].ratio | values | 100 * (. - 1)] | if . == [] then null else add / length end)}'
}

slowed_table() { # NAME N MIN-EFFECT
    local i phase file
    printf '| phase | found | phase blamed | other metrics worse or better | median change, %% |\n|---|---:|---:|---:|---:|\n'
    rm -f "$work"/judged-*
    for ((i = 1; i <= $2; i++)); do
        phase=${phases[(i - 1) % ${#phases[@]}]}
        compare_pair "$folder/$1-$i" "$3" | judge "$phase" | tee -a "$work/judged-all" >>"$work/judged-$phase"
    done
    for phase in "${phases[@]}" all; do
        file=$work/judged-$phase
        [[ -f $file ]] || continue
        i=$(wc -l <"$file")
        printf '| %s | %s | %s | %s | %s |\n' "$phase" "$(share "$(grep -c '"found":true' "$file")" "$i")" \
            "$(share "$(grep -c '"found":true,"blamed":true' "$file")" "$i")" \
            "$(share "$(jq -s 'map(.wrong) | add' "$file")" "$(jq -s 'map(.others) | add' "$file")")" \
            "$(jq '.change | values' "$file" | median)"
    done
}

slowed() {
    printf '\n## Injected slowdowns\n\n'
    cat <<'EOT'
`--burn` adds a share of the fastest step's time to one of its phases, or a share of each iteration's time to one case. Found: a
metric of that case is worse. Blamed: for a step, the report also names that phase. 5 %, minimum effect 3 %:

EOT
    slowed_table slowed "$slowed" 0.03
}

busy() {
    printf '\n## On a busy machine\n\nBeside %s other processes on %s CPUs. This build against itself, %s runs:\n\n' "$processes" "$(nproc)" \
        $((busy / 2))
    ((busy < 2)) || alike_table busy-alike $((busy / 2))
    printf '\nSlowed by 10 %%, minimum effect 3 %%:\n\n'
    slowed_table busy "$busy" 0.03
}

make_work regress_proof
trap '((BASHPID != $$)) || { end_others; remove_work; }' EXIT
# Measure first, so that a stopped run loses nothing.
if wanted alike; then take_alike alike "$alike"; fi
if wanted slowed; then take_slowed slowed "$slowed" 0.05; fi
if wanted busy; then
    beside_others take_alike busy-alike $((busy / 2))
    beside_others take_slowed busy "$busy" 0.1
fi
printf '# How often the verdict of regression runs is wrong\n\n'
printf 'Shares have 95 %% intervals (Clopper–Pearson).\n'
for part in synthetic resampled alike slowed busy; do
    if wanted "$part"; then "$part"; fi
done
printf '\n'
machine_table "$load" "$command"
