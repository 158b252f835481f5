#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds, and runs every test. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'EOF'
usage: scripts/test.sh [options]

Installs what is missing, builds, and runs every test through prove: C tests as their RUN lines say, command line
tests (bats), those on hosts made of namespaces (as root), checks of the source, and the C tests again with the address
and undefined-behaviour sanitizers. The logs are left in build/test-logs, or where DPTRAIN_TEST_LOGS says.

  --only PATTERN  only the entries whose name matches the extended regular expression
  --list          print the entries' names and stop
  --san           only the sanitizers' half
  --no-san        without the sanitizers' half
  --gpu           only the C tests of the CUDA backend on this machine's GPUs; each is skipped, with the reason, where
                  there is none. Neither installs, nor needs more than bash and perl once it is built
  --slow          also what takes minutes (DPTRAIN_TEST_SLOW=1 in the tests), the emulated CUDA device with sanitizers, and
                  the C tests of the CPU and the command line's with DPTRAIN_MAX_ISA at avx2, avx512 and avx512_bf16
  --jobs N        tests at a time; from 2 up ranks are not bound to cores [1]
  --skip-install  do not look for missing packages
  --skip-build    take the programs as they are
  -h, --help      this text

Real MNIST is used where DPTRAIN_DATA names a folder with mnist/*.gz in it. Exit code 1: a test failed.
EOF
}

only='' plain=yes san=yes jobs=1 install=yes list=no slow=no gpu=no may_build=yes
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
[[ $plain == yes || $san == yes || $gpu == yes ]] || die 2 "--san and --no-san leave nothing to run"
cd "$here/.."

# Why no device is emulated here; nothing when one is.
emu_why='there is nothing to build here'
[[ ! -e Makefile ]] || emu_why=$(make -s emu-why 2>/dev/null) || emu_why='make emu-why fails'

plan=''
entry() { # NAME SECONDS COMMAND...
    local name=$1 seconds=$2
    shift 2
    [[ -z $only || $name =~ $only ]] || return 0
    plan+=$name$'\t'$seconds$'\t'$(printf '%q ' "$@")$'\n'
}

# `key` in the RUN line of a test's head, the comment below the licence line, as words.
run_values() { # FILE KEY
    sed -nE "1{ /SPDX/d; }; /RUN /{ s/.*[[:space:]]$2=([a-z0-9_,]+).*/\1/p; }; /\\*\\//q" "$1" | tr ',' ' '
}

# A line for each combination of ranks and device; with sanitizers those of san=, where the RUN line has it; with an
# instruction set capped (isa-CAP/) the CPU alone.
c_entries() { # SOURCE PREFIX BUILD SECONDS MAX_NP ENVIRONMENT...
    local source=$1 prefix=$2 build=$3 seconds=$4 max_np=$5 np device devices label test launch program
    test=${source#tests/} test=${test%.c}
    devices=$(run_values "$source" device)
    if [[ $prefix == san/ ]]; then
        devices=$(run_values "$source" san | grep . || echo "$devices")
        [[ $slow == yes ]] || devices=$(tr ' ' '\n' <<<"$devices" | grep -vx cuda) || return 0
    fi
    [[ $prefix != isa-* ]] || devices=$(tr ' ' '\n' <<<"$devices" | grep -x cpu) || return 0
    for np in $(run_values "$source" np | grep . || echo 0); do
        ((np <= max_np)) || continue
        launch=("${@:6}")
        if ((np > 0)); then
            mpi_flags "$np"
            # Threads of ranks that share cores would only wait for each other.
            [[ ${MPI_FLAGS[*]} != *none* ]] || launch+=(OMP_NUM_THREADS=1)
            launch+=(mpirun "${MPI_FLAGS[@]}" -np "$np")
            [[ $prefix != san/ ]] || launch+=(env "LD_PRELOAD=$work/no_dlclose.so")
        fi
        for device in ${devices:-none}; do
            [[ $gpu == no || $device == cuda ]] || continue
            label='' program=("$build/tests/$test")
            # Machines for tests have no GPU: kernels run on the emulated one (tests/emu).
            [[ $gpu == yes || $device != cuda ]] || program=("$build/emu/$test")
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

# What stands in the way of device=cuda on this machine; nothing where nothing does.
no_gpu() {
    local answer
    if ! answer=$("${DPTRAIN_BIN:-./dptrain}" info 2>&1); then
        echo "dptrain info fails: ${answer##*$'\n'}"
        return
    fi
    # The row of the device: a GPU with its libraries, or why there is none.
    answer=$(sed -nE 's/^ +cuda +//p' <<<"$answer")
    [[ $answer == *', CUDA '* ]] || echo "${answer:-this build has no CUDA backend}"
}

# The entries `[… cuda]` alone, with the programs as they are built.
make_gpu_plan() {
    local source why name
    why=$(no_gpu)
    for source in tests/unit/test_*.c tests/mpi/test_*.c; do
        [[ -e $source && " $(run_values "$source" device) " == *" cuda "* ]] || continue
        if [[ -n $why && $list == no ]]; then
            name=${source#tests/}
            entry "${name%.c} [cuda]" 10 printf '1..0 # SKIP %s\n' "$why"
        else
            c_entries "$source" "" build "${DPTRAIN_GPU_SECONDS:-600}" 64 LC_ALL=C
        fi
    done
}

# The caps of DPTRAIN_MAX_ISA that this CPU can emulate.
isa_caps() {
    local flags
    flags=" $(grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null) "
    [[ $flags != *" avx2 "* ]] || echo avx2
    [[ $flags != *" avx512bw "* ]] || echo avx512
    [[ $flags != *" avx512_bf16 "* ]] || echo avx512_bf16
}

# The tests that name caps in their RUN line (isa=); with --slow all that compute on the CPU, and the command line's.
isa_entries() {
    local cap source
    for cap in $(isa_caps); do
        for source in tests/cli/*.bats; do
            [[ -e $source && $slow == yes ]] || continue
            entry "isa-$cap/cli/$(basename "$source" .bats)" 1800 env -u DPTRAIN_TEST_SLOW "DPTRAIN_MAX_ISA=$cap" bats --tap "$source"
        done
        for source in tests/unit/test_*.c tests/mpi/test_*.c; do
            [[ -e $source && ($slow == yes || " $(run_values "$source" isa) " == *" $cap "*) ]] || continue
            c_entries "$source" "isa-$cap/" build 600 64 LC_ALL=C "DPTRAIN_MAX_ISA=$cap" OMP_WAIT_POLICY=passive
        done
    done
}

# The emulator's own tests.
emu_entries() { # PREFIX BUILD ENVIRONMENT...
    local source name
    for source in tests/emu/test_*.cc; do
        name=${source#tests/emu/} name=${name%.cc}
        [[ -z $emu_why ]] || continue
        entry "$1emu/$name" 300 env "${@:3}" "$2/emu/tests/$name"
    done
}

make_plan() {
    local source
    # Slow unwinding: libraries without frame pointers would hide whose a leak is.
    local asan=ASAN_OPTIONS=detect_leaks=${detect_leaks:-1}:fast_unwind_on_malloc=0:verify_asan_link_order=0
    local lsan=LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
    # What takes longest begins first, so that with --jobs no long entry runs alone at the end.
    # The program itself; jq, h5dump and their like would be preloaded too, hence without the leak check's library.
    [[ $san == no ]] || entry san/cli/train 600 env "DPTRAIN_BIN=$PWD/build-san/dptrain" "$lsan" \
        "ASAN_OPTIONS=detect_leaks=0" bats --tap -f 'ragged|bit for bit|keeps its options|exact on any' \
        tests/cli/train.bats
    for source in tests/cli/train.bats $(find tests/cli -name '*.bats' ! -name train.bats | LC_ALL=C sort); do
        [[ -e $source && $plain == yes ]] || continue
        entry "cli/$(basename "$source" .bats)" "$([[ $slow == yes ]] && echo 3600 || echo 900)" bats --tap "$source"
    done
    for source in tests/cluster/*.bats; do
        [[ -e $source && $plain == yes ]] || continue
        entry "cluster/$(basename "$source" .bats)" "$([[ $slow == yes ]] && echo 3600 || echo 600)" bats --tap "$source"
    done
    if [[ $plain == yes ]]; then
        for source in shellcheck layers links headers heads format; do entry "source/$source" 300 tests/static.sh "$source"; done
    fi
    for source in tests/unit/test_*.c tests/mpi/test_*.c; do
        [[ -e $source && $san == yes ]] || continue
        c_entries "$source" "san/" build-san 300 2 "$asan" UBSAN_OPTIONS=print_stacktrace=1 OMP_WAIT_POLICY=passive \
            "$lsan"
    done
    if [[ $san == yes && $slow == yes ]]; then emu_entries san/ build-san "$asan" UBSAN_OPTIONS=print_stacktrace=1 "$lsan"; fi
    if [[ $plain == yes ]]; then
        emu_entries "" build LC_ALL=C
        isa_entries
    fi
    for source in tests/unit/test_*.c tests/mpi/test_*.c; do
        [[ -e $source && $plain == yes ]] || continue
        # Freed memory is filled: what still reads it is found out.
        c_entries "$source" "" build 240 64 LC_ALL=C MALLOC_PERTURB_=165 OMP_WAIT_POLICY=passive
    done
}

# The leak check needs /proc and the right to trace, which some containers refuse; the rest works without.
probe_leak_check() {
    [[ -r /proc/self/maps ]] || die 4 "the sanitizers need /proc (mount -t proc proc /proc), or use --no-san"
    detect_leaks=1
    # OpenMPI unloads its plugins, and a leak in code that is gone has no name that could be suppressed.
    echo 'int dlclose(void *handle) { return handle == 0; }' |
        "${CC:-gcc}" -shared -fPIC -x c -o "$work/no_dlclose.so" - || die 4 "the compiler cannot make a library"
    echo 'int main(void) { return 0; }' | "${CC:-gcc}" -fsanitize=address -x c -o "$work/probe" - ||
        die 4 "the compiler has no address sanitizer; use --no-san to leave that half out"
    if ! ASAN_OPTIONS=detect_leaks=1 "$work/probe" >/dev/null 2>&1; then
        detect_leaks=0
        note "leaks cannot be looked for here (tracing is refused); the other checks run"
    fi
}

# In an unpacked bundle there is nothing to build.
[[ -e Makefile ]] || may_build=no install=no
if [[ $install == yes && $list == no && $gpu == no ]]; then "$here/install_deps.sh" --test; fi
make_work test
if ((jobs > 1)); then
    # Who waits lets others compute: ranks that poll took half of all time.
    export DPTRAIN_BIND=none OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle-1} \
        OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
fi
if [[ $san == yes && $list == no ]]; then probe_leak_check; fi
if [[ $list == no ]]; then mpi_allow_root; fi
# All ranks are on this machine. Looking for a network's own library takes every start of MPI 0.2 s; that OpenMPI finds
# its way unasked is seen where a test unsets it (tests/cli/bench_comm.bats).
export OMPI_MCA_pml=${OMPI_MCA_pml-ob1}
if [[ $gpu == yes ]]; then
    # First: whether there is a GPU is the program's to say.
    if [[ $may_build == yes && $list == no ]]; then make -j "$(nproc)" tests || die 1 "the build failed"; fi
    make_gpu_plan
else
    make_plan
fi
[[ -n $plan || -n $only ]] || die 2 "no test runs on this device"
[[ -n $plan ]] || die 2 "no test's name matches '$only'; --list prints them"
mapfile -t names <<<"$(cut -f 1 <<<"${plan%$'\n'}")"
if [[ $list == yes ]]; then
    printf '%s\n' "${names[@]}"
    exit 0
fi

command -v prove >/dev/null || die 4 "prove was not found; scripts/install_deps.sh --test installs it (perl)"
if [[ $may_build == yes && ($plan == *build/tests/* || $plan == *bats*) ]]; then
    make -j "$(nproc)" tests || die 1 "the build failed"
fi
if [[ $may_build == yes && $plan == *build/emu/* ]]; then
    make -j "$(nproc)" emu-tests || die 1 "the build of the emulated CUDA device failed"
fi
if [[ $may_build == yes && $plan == *build-san/emu/* ]]; then
    make -j "$(nproc)" SAN=address,undefined emu-tests || die 1 "the build of the emulated CUDA device failed"
fi
if [[ $may_build == yes && $plan == *build-san/* ]]; then
    # nvcc's half of the program has no sanitizers.
    make -j "$(nproc)" SAN=address,undefined CUDA="$([[ $slow == yes ]] && echo auto || echo 0)" tests ||
        die 1 "the build with sanitizers failed"
fi

printf '%s' "$plan" >"$work/plan"
mkdir "$work/logs"
export DPTRAIN_TEST_WORK=$work
if [[ $slow == yes ]]; then export DPTRAIN_TEST_SLOW=1; fi
status=0
prove --timer --jobs "$jobs" --exec tests/driver.sh "${names[@]}" 2>&1 | tee "$work/prove" || status=1
logs=${DPTRAIN_TEST_LOGS:-build/test-logs}
rm -rf "$logs"
mkdir -p "$(dirname "$logs")" && cp -r "$work/logs" "$logs"

skips=$(cd "$work/logs" && grep -riE '^(ok|not ok|1\.\.0).*# *skip' --include='*.out' . | sort) || true
if [[ -n $skips ]]; then
    printf '\nSkipped:\n'
    sed -E 's|^\./||; s|__|/|g; s|\.out:|: |; s|: (ok [0-9]+ *-? *\|1\.\.0 *)|: |' <<<"$skips"
fi
printf '\n'
tail -n 2 "$work/prove"
exit "$status"
