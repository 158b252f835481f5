#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs missing packages, builds, and runs every test. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/test.sh [options]

Installs missing packages, builds, and runs every test: C tests according to their RUN lines, command line tests (bats),
cluster, container, Kubernetes and AWS tests on hosts made of namespaces (as root), checks of the source, and the C tests again
with the address and undefined-behaviour sanitizers. Prints a line for each: its place, its verdict, its seconds and, from the
second run on, the time left. Then what was skipped, by reason, what failed, and `N passed, N failed, N skipped`: an entry
is skipped if none of its checks ran. Logs are written to build/test-logs, or to DPTRAIN_TEST_LOGS; beside it, the entries' seconds.

  --only PATTERN  run only entries whose name matches the extended regular expression
  --list          print the names of the entries and exit
  --san           run only the tests with sanitizers
  --no-san        run only the tests without sanitizers
  --gpu           run only the C tests of the CUDA backend, on this machine's GPUs, or if DPTRAIN_BIN is build/emu/dptrain,
                  on the emulated one; without a GPU they are skipped, with the reason. Installs nothing; once built,
                  needs only bash and the usual tools
  --slow          also run tests that take minutes (DPTRAIN_TEST_SLOW=1 in the tests), the emulated CUDA device with
                  sanitizers, and CPU and command line tests with DPTRAIN_MAX_ISA set to avx2, avx512 and avx512_bf16
  --jobs N        number of concurrent tests; from 2 on, ranks are not bound to cores [1; with --gpu the number of cores, at
                  most 8]
  --skip-install  do not install missing packages, among them openssh-server, podman and rsync, whose services neither start
                  nor are enabled (install_deps.sh --test)
  --skip-build    use the existing programs
  -h, --help      show this help

Set DPTRAIN_DATA to a folder with mnist/*.gz to test with real MNIST. Exit code 1: a test failed.
EOF
}

only='' plain=yes san=yes jobs='' install=yes list=no slow=no gpu=no may_build=yes
while [[ $# -gt 0 ]]; do
    case $1 in
    --only) need_value "$@"; only=$2; shift 2 ;;
    --list) list=yes; shift ;;
    --san) plain=no; shift ;;
    --no-san) san=no; shift ;;
    --gpu) gpu=yes san=no; shift ;;
    --slow) slow=yes; shift ;;
    --jobs) need_value "$@"; whole_number "$1" "$2" 1; jobs=$2; shift 2 ;;
    --skip-install) install=no; shift ;;
    --skip-build) may_build=no; shift ;;
    *) common_option "$1" ;;
    esac
done
[[ $plain == yes || $san == yes || $gpu != no ]] || die 2 "--san and --no-san leave nothing to run"
if [[ -z $jobs ]]; then
    jobs=1
    [[ $gpu == no ]] || jobs=$(nproc)
    ((jobs <= 8)) || jobs=8
fi
cd "$here/.."

# The reason why no device can be emulated, or empty.
emu_why='no Makefile'
[[ ! -e Makefile ]] || emu_why=$(make -s emu-why 2>/dev/null) || emu_why='make emu-why fails'

plan=''
entry() { # NAME SECONDS COMMAND...
    local words
    [[ -z $only || $1 =~ $only ]] || return 0
    printf -v words '%q ' "${@:3}"
    plan+=$1$'\t'$2$'\t'$words$'\n'
}

# The RUN lines, in the heads of the tests below their licence lines: run_line[FILE KEY], values separated by spaces.
declare -A run_line=()
c_tests=()
for source in tests/unit/test_*.c tests/mpi/test_*.c; do
    [[ ! -e $source ]] || c_tests+=("$source")
done
while read -r source key values; do
    run_line["$source $key"]=${values//,/ }
done < <([[ ${#c_tests[@]} -eq 0 ]] || awk '
    FNR == 1 { head = 1; if (/SPDX/) next }
    head && /RUN / {
        for (i = 1; i <= NF; i++) if (match($i, /^[a-z]+=[a-z0-9_,]+/)) print FILENAME, key($i), values($i)
    }
    /\*\// { head = 0 }
    function key(word) { return substr(word, 1, index(word, "=") - 1) }
    function values(word) { return substr(word, index(word, "=") + 1, RLENGTH - index(word, "=")) }' "${c_tests[@]}")

# Sets run_flags: mpi_flags for a number of ranks, found once. Threads of ranks that share cores would only wait for each other.
declare -A flags_of=()
rank_flags() { # NP
    if [[ -z ${flags_of[$1]-} ]]; then
        mpi_flags "$1"
        flags_of[$1]=$([[ ${MPI_FLAGS[*]} != *none* ]] || printf 'OMP_NUM_THREADS=1\n'; printf '%s\n' mpirun "${MPI_FLAGS[@]}")
    fi
    mapfile -t run_flags <<<"${flags_of[$1]}"
}

# Adds an entry for each combination of ranks and device, that of slow= in the RUN line only with --slow. With sanitizers, uses
# san= if present (slow: only with --slow); with a capped instruction set (isa-CAP/), only the CPU.
c_entries() { # SOURCE PREFIX BUILD SECONDS MAX_NP ENVIRONMENT...
    local source=$1 prefix=$2 build=$3 seconds=$4 max_np=$5 np nps=() device devices label test launch program san late run_flags
    test=${source#tests/} test=${test%.c}
    devices=${run_line["$source device"]-} san=${run_line["$source san"]-} late=${run_line["$source slow"]-}
    if [[ $prefix == san/ ]]; then
        case $slow:$san in
        *: | yes:slow) ;;
        no:slow) return 0 ;;
        *) devices=$san ;;
        esac
        late+=' cuda'
    fi
    if [[ $prefix == isa-* ]]; then
        [[ " $devices " == *' cpu '* ]] || return 0
        devices=cpu
    fi
    if [[ -n $devices && $slow == no && $gpu == no ]]; then
        for device in $late; do devices=" $devices " devices=${devices/ $device / }; done
        [[ -n ${devices// /} ]] || return 0
    fi
    for np in ${run_line["$source np"]-0}; do
        ((np > max_np)) || nps+=("$np")
    done
    # Sanitizers are slow, and one number of ranks shows them most of the code.
    if [[ $prefix == san/ && $slow == no ]]; then
        for np in "${nps[@]}"; do ((np < nps[0])) || nps[0]=$np; done
        nps=("${nps[@]:0:1}")
    fi
    for np in "${nps[@]}"; do
        launch=("${@:6}")
        if ((np > 0)); then
            rank_flags "$np"
            launch+=("${run_flags[@]}" -np "$np")
            # Suppressions name MPI's libraries, which lie deep in a stack and have no frame pointers.
            [[ $prefix != san/ ]] || launch+=(env "LD_PRELOAD=$work/no_dlclose.so" "$asan:fast_unwind_on_malloc=0")
        fi
        for device in ${devices:-none}; do
            [[ $gpu == no || $device == cuda ]] || continue
            label='' program=("$build/tests/$test")
            # Test machines have no GPU, so kernels run on the emulator (tests/emu).
            [[ $gpu == real || $device != cuda ]] || program=("$build/emu/$test")
            [[ $device == none ]] || program+=("$device")
            ((np == 0)) || label="np=$np"
            [[ $device == none ]] || label+="${label:+ }$device"
            if [[ $gpu == no && $device == cuda && -n $emu_why ]]; then
                entry "$prefix$test [$label]" 10 printf '1..0 # SKIP %s\n' "$emu_why"
            else
                entry "$prefix$test${label:+ [$label]}" "$seconds" env "${launch[@]}" "${program[@]}"
            fi
        done
    done
}

# Sets gpu to real or emulated, and why, the reason why device=cuda is not available on this machine, or empty.
find_gpu() {
    local answer
    gpu=real why=''
    if ! answer=$("${DPTRAIN_BIN:-./dptrain}" info 2>&1); then
        why="dptrain info fails: ${answer##*$'\n'}"
        return
    fi
    # The row of the device has the GPU and its libraries, or the reason why there is none.
    answer=$(sed -nE 's/^ +cuda +//p' <<<"$answer")
    [[ $answer == *', CUDA '* ]] || why=${answer:-this build has no CUDA backend}
    [[ $answer != 'emulated GPU,'* ]] || gpu=emulated
}

# Plans only the entries `[… cuda]`, with the existing programs.
make_gpu_plan() {
    local source why name
    find_gpu
    for source in "${c_tests[@]}"; do
        [[ " ${run_line["$source device"]-} " == *" cuda "* ]] || continue
        if [[ -n $why && $list == no ]]; then
            name=${source#tests/}
            entry "${name%.c} [cuda]" 10 printf '1..0 # SKIP %s\n' "$why"
        else
            c_entries "$source" "" build "${DPTRAIN_GPU_SECONDS:-600}" 64 LC_ALL=C
        fi
    done
}

# Prints the values of DPTRAIN_MAX_ISA below the best that this CPU supports.
isa_caps() {
    local flags caps=()
    flags=" $(grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null) "
    [[ $flags != *" avx2 "* ]] || caps+=(avx2)
    [[ $flags != *" avx512bw "* ]] || caps+=(avx512)
    [[ $flags != *" avx512_bf16 "* ]] || caps+=(avx512_bf16)
    [[ $flags != *" amx_bf16 "* ]] || caps+=(amx)
    ((${#caps[@]} < 2)) || printf '%s\n' "${caps[@]:0:${#caps[@]}-1}"
}

# Adds the tests with isa= in their RUN line; with --slow all CPU tests, and the command line tests.
isa_entries() {
    local cap source
    for cap in $(isa_caps); do
        for source in tests/cli/*.bats; do
            [[ -e $source && $slow == yes ]] || continue
            entry "isa-$cap/cli/$(basename "$source" .bats)" 1800 env -u DPTRAIN_TEST_SLOW "DPTRAIN_MAX_ISA=$cap" bats --tap "$source"
        done
        for source in "${c_tests[@]}"; do
            [[ $slow == yes || " ${run_line["$source isa"]-} " == *" $cap "* ]] || continue
            c_entries "$source" "isa-$cap/" build 600 64 LC_ALL=C "DPTRAIN_MAX_ISA=$cap" OMP_WAIT_POLICY=passive
        done
    done
}

# Adds the emulator's tests.
emu_entries() { # PREFIX BUILD ENVIRONMENT...
    local source name
    for source in tests/emu/test_*.cc; do
        name=${source#tests/emu/} name=${name%.cc}
        [[ -z $emu_why ]] || continue
        entry "$1emu/$name" 300 env "${@:3}" "$2/emu/tests/$name"
    done
}

# Adds the entries of bats. Tests of hosts mostly wait, so one starts with every third of the others.
bats_entries() {
    local source seconds i=0 n=0 order=()
    local hosts=(tests/container/*.bats tests/k8s/*.bats tests/aws/*.bats tests/cluster/*.bats tests/sim/*.bats tests/platform/*.bats)
    for source in tests/cli/train.bats $(find tests/cli -name '*.bats' ! -name train.bats | LC_ALL=C sort); do
        order+=("$source")
        ((n++ % 3 > 0)) || order+=("${hosts[@]:i++:1}")
    done
    for source in "${order[@]}" "${hosts[@]:i}"; do
        [[ -e $source ]] || continue
        case $slow:$source in
        yes:tests/platform/*) seconds=10800 ;;
        yes:*) seconds=3600 ;;
        no:tests/cli/*) seconds=900 ;;
        *) seconds=600 ;;
        esac
        source=${source#tests/}
        entry "${source%.bats}" "$seconds" bats --tap "tests/$source"
    done
}

make_plan() {
    local source
    # The stack that finds uses after return, GCC 14's default, is not aligned for vectors of 64 bytes.
    local own_stack=detect_stack_use_after_return=0
    local asan=ASAN_OPTIONS=detect_leaks=${detect_leaks:-1}:verify_asan_link_order=0:$own_stack
    local lsan=LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
    # The longest entries start first, so that with --jobs none runs alone at the end.
    # The program itself. Without the leak check's library, because jq, h5dump etc. would be preloaded too.
    [[ $san == no ]] || entry san/cli/train 600 env "DPTRAIN_BIN=$PWD/build-san/dptrain" "$lsan" \
        "ASAN_OPTIONS=detect_leaks=0:$own_stack" bats --tap \
        -f "ragged|keeps its options$([[ $slow == no ]] || echo '|bit for bit|exact on any')" tests/cli/train.bats
    [[ $san == no ]] || entry san/fuzz/mutations 600 env "ASAN_OPTIONS=detect_leaks=0:$own_stack" bats --tap tests/fuzz/mutations.bats
    [[ $plain == no ]] || bats_entries
    if [[ $plain == yes ]]; then
        for source in shellcheck layers links headers heads format; do entry "source/$source" 900 tests/static.sh "$source"; done
    fi
    for source in "${c_tests[@]}"; do
        [[ $san == yes ]] || continue
        c_entries "$source" "san/" build-san 300 2 "$asan" UBSAN_OPTIONS=print_stacktrace=1 OMP_WAIT_POLICY=passive \
            "$lsan"
    done
    if [[ $san == yes && $slow == yes ]]; then emu_entries san/ build-san "$asan" UBSAN_OPTIONS=print_stacktrace=1 "$lsan"; fi
    if [[ $plain == yes ]]; then
        emu_entries "" build LC_ALL=C
        isa_entries
    fi
    for source in "${c_tests[@]}"; do
        [[ $plain == yes ]] || continue
        # MALLOC_PERTURB_ fills freed memory, which exposes reads of it.
        c_entries "$source" "" build 240 64 LC_ALL=C MALLOC_PERTURB_=165 OMP_WAIT_POLICY=passive
    done
}

# The leak check needs /proc and the right to trace, which some containers forbid; the other checks work without.
probe_leak_check() {
    [[ -r /proc/self/maps ]] || die 4 "the sanitizers need /proc (mount -t proc proc /proc), or use --no-san"
    detect_leaks=1
    # OpenMPI unloads its plugins, and suppressions cannot match leaks in unloaded code.
    echo 'int dlclose(void *handle) { return handle == 0; }' |
        "${CC:-gcc}" -shared -fPIC -x c -o "$work/no_dlclose.so" - || die 4 "the compiler cannot build a shared library"
    echo 'int main(void) { return 0; }' | "${CC:-gcc}" -fsanitize=address -x c -o "$work/probe" - ||
        die 4 "the compiler has no address sanitizer; use --no-san to skip these tests"
    if ! ASAN_OPTIONS=detect_leaks=1 "$work/probe" >/dev/null 2>&1; then
        detect_leaks=0
        note "leak detection is not available (tracing is not permitted); other checks run"
    fi
}

# An unpacked bundle has nothing to build.
[[ -e Makefile ]] || may_build=no install=no
if [[ $install == yes && $list == no && $gpu == no ]]; then "$here/install_deps.sh" --test; fi
make_work test
if ((jobs > 1)); then
    # Waiting ranks yield the CPU; polling took half of the total time.
    export DPTRAIN_BIND=none OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle-1} \
        OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
fi
if [[ $san == yes && $list == no ]]; then probe_leak_check; fi
if [[ $list == no ]]; then mpi_allow_root; fi
# All ranks are on this machine. Probing network libraries costs 0.2 s per start of MPI; tests/cli/bench_comm.bats unsets this
# to test OpenMPI's default.
export OMPI_MCA_pml=${OMPI_MCA_pml-ob1}
if [[ $gpu != no ]]; then
    # Build first: the program detects GPUs.
    if [[ $may_build == yes && $list == no ]]; then make -j "$(nproc)" tests || die 1 "the build failed"; fi
    make_gpu_plan
else
    make_plan
fi
[[ -n $plan || -n $only ]] || die 2 "no test runs on this device"
[[ -n $plan ]] || die 2 "no test matches '$only'; --list prints the names"
mapfile -t names <<<"$(cut -f 1 <<<"${plan%$'\n'}")"
if [[ $list == yes ]]; then
    printf '%s\n' "${names[@]}"
    exit 0
fi

if [[ $may_build == yes && ($plan == *build/tests/* || $plan == *bats*) ]]; then
    make -j "$(nproc)" tests || die 1 "the build failed"
fi
if [[ $may_build == yes && $plan == *tests/sim/* ]] && pkg-config --exists simgrid; then
    make -j "$(nproc)" SMPI=1 || die 1 "the build for simulated hosts failed"
fi
if [[ $may_build == yes && $plan == *build/emu/* ]]; then
    make -j "$(nproc)" emu-tests || die 1 "the build of the emulated CUDA device failed"
fi
if [[ $may_build == yes && $plan == *build-san/emu/* ]]; then
    make -j "$(nproc)" SAN=address,undefined emu-tests || die 1 "the build of the emulated CUDA device failed"
fi
mapfile -t targets < <(grep -oE 'build-san/(tests/[a-z]+/[a-z0-9_]+|dptrain)' <<<"$plan" | sort -u)
[[ $plan != *tests/fuzz/* ]] || targets+=(mutations)
if [[ $may_build == yes && ${#targets[@]} -gt 0 ]]; then
    # Code compiled by nvcc has no sanitizers.
    make -j "$(nproc)" SAN=address,undefined CUDA="$([[ $slow == yes ]] && echo auto || echo 0)" "${targets[@]}" ||
        die 1 "the build with sanitizers failed"
fi

printf '%s' "$plan" >"$work/plan"
: >"$work/verdicts"
mkdir "$work/logs"
export DPTRAIN_TEST_WORK=$work
if [[ $slow == yes ]]; then export DPTRAIN_TEST_SLOW=1; fi
status=0 logs=${DPTRAIN_TEST_LOGS:-build/test-logs}
times=$(dirname "$logs")/test-times
# For the time left: the entries' seconds in an earlier run, or the mean, shared by those that run at once.
if [[ -s $times ]]; then
    awk -F '\t' -v jobs="$jobs" '
        file == "times" { sec[$1] = $2; sum += $2; n++; next }
        { printf "%s\t%.3f\n", $1, ($1 in sec ? sec[$1] : sum / n) / jobs }' file=times "$times" file=plan "$work/plan" >"$work/times"
fi
printf '%s\0' "${names[@]}" | xargs -0 -n 1 -P "$jobs" tests/driver.sh || status=1
rm -rf "$logs"
mkdir -p "$(dirname "$logs")" && cp -r "$work/logs" "$logs"
[[ -e $times ]] || : >"$times"
awk -F '\t' '{ sec[$(NF == 2 ? 1 : 4)] = $(NF == 2 ? 2 : 3) } END { for (name in sec) print name "\t" sec[name] }' \
    "$times" "$work/verdicts" >"$times.new" && mv "$times.new" "$times"

# By reason: how many entries ran no check, how many checks were skipped, and in which entries.
skips=$(awk '
    function whole() { if (!ran && first != "") entries[first]++; ran = 0; first = "" }
    function count(n, one, many) { return n == 0 ? "" : n " " (n == 1 ? one : many) }
    FNR == 1 { whole() }
    !/^(ok|not ok|1\.\.0)( |$)/ { next }
    {
        reason = match(tolower($0), /# *skip */) ? substr($0, RSTART + RLENGTH) : ""
        if ($1 == "not" || ($1 == "ok" && !RSTART)) { ran++; next }
        if (reason == "") reason = "no reason given"
        # Each test has its own words for this one.
        if (reason ~ /--slow/) reason = "scripts/test.sh --slow runs it"
        if (first == "") first = reason
        checks[reason] += $1 == "ok"
        name = FILENAME
        gsub(/.*\/|\.out$/, "", name); gsub(/__/, "/", name)
        if (seen[reason, name]++) next
        if (++n[reason] <= 3) names[reason] = names[reason] (n[reason] > 1 ? ", " : "") name
        else if (n[reason] == 4) names[reason] = names[reason] ", …"
    }
    END {
        whole()
        for (reason in names) {
            what = count(entries[reason] + 0, "entry", "entries") (entries[reason] && checks[reason] ? ", " : "")
            what = what count(checks[reason], "check", "checks")
            printf "%d\t%d\t  %s: %s (%s)\n", entries[reason], checks[reason], what, reason, names[reason]
        }
    }' "$work"/logs/*.out | LC_ALL=C sort -t $'\t' -k 1,1nr -k 2,2nr -k 3 | cut -f 3-) || true
[[ -z $skips ]] || printf '\nSkipped:\n%s\n' "$skips"
failed=$(awk -F '\t' '$1 != "ok" && $1 !~ /^skipped: / { printf "  %s: %s\n", $4, $1 }' "$work/verdicts") || true
[[ -z $failed ]] || printf '\nFailed:\n%s\n' "$failed"
n_run=$(wc -l <"$work/verdicts") n_failed=$(grep -c . <<<"$failed") || true
n_skipped=$(grep -c '^skipped: ' "$work/verdicts") || true
((n_run == ${#names[@]})) || { status=1 && note "$((${#names[@]} - n_run)) entries did not run"; }
printf '\n%s entries, %s checks, %s s\n%s passed, %s failed, %s skipped\n' "${#names[@]}" \
    "$(awk -F '\t' '{ n += $2 } END { print n + 0 }' "$work/verdicts")" "$SECONDS" "$((n_run - n_failed - n_skipped))" \
    "$((${#names[@]} - n_run + n_failed))" "$n_skipped"
exit "$status"
