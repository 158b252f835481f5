#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs all tests and measurements that need a GPU, and writes one report. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/gpu_suite.sh [options]

On a machine with GPUs, builds or unpacks a bundle, and runs the stages below, the most valuable first. Prints figures as
they are measured, and writes them to one page, gpu-NAME.md, again after every stage: the stages that passed, failed, were
stopped by their time limit or were skipped, and the reasons. Without --quick, a stage that fails runs once more with the
logs of NCCL and cuBLASLt on.

  tests       the GPU tests, eight at a time
  smoke       a few steps of LeNet-5 and ResNet-50 in every precision, recorded and not
  losses      losses and gradients beside the CPU's, on one rank and on two, by seed (gpu_losses.sh)
  sanitizer   memory accesses and races of training steps and tests, with compute-sanitizer
  resnet      ResNet-50 with and without cuDNN beside PyTorch, eager and with torch.compile, whose kernels are listed by
              name: images/s, GPU memory, and the algorithms of each layer
  detection   Mask R-CNN beside torchvision: detections, losses, images/s and memory
  products    matrix products beside cuBLASLt, 3×3 convolutions beside cuDNN
  operators   operators that move memory beside a copy
  ncu         the kernels of a step of ResNet-50 by their time, the three costliest ones in detail, with Nsight Compute
  steps       LeNet-5 beside PyTorch
  comm        dptrain bench comm with NCCL on all GPUs, if there are several

  --bundle FILE   use a bundle made by scripts/bundle.sh --with-tests, on a machine that cannot build
  --out FOLDER    folder of the page [results], of gpu-suite.log with all output, and of gpu-suite-logs.tar.gz
  --quick         shorten all stages: at most 400 s, or 150 s with --only tests,resnet, without the build
  --budget SEC    time limit of all stages, without the build. Each stage gets what is left, in the order above
  --only LIST     stages, separated by commas
  --python CMD    the Python with PyTorch and torchvision [python3]
  --no-build      use the existing ./dptrain and tests
  -h, --help      show this help

Installs nothing. With DPTRAIN_BIN=build/emu/dptrain (make emu-tests) runs, on the emulated GPU and without time limits, the
stages that need no real one. Data: $DPTRAIN_DATA/mnist, data/mnist, or the built-in digits. Exit codes: 0 all stages that
ran passed, 1 a stage failed, 4 no GPU, 6 none failed, but the time was too short for one.
EOT
}

command="scripts/bench/gpu_suite.sh${*:+ $*}"
stages=(tests smoke losses sanitizer resnet detection products operators ncu steps comm)
bundle='' out='' quick=no budget=0 only=${stages[*]} python=python3 build=yes passed_on=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --bundle) need_value "$@"; bundle=$2; shift 2; continue ;;
    --out) need_value "$@"; out=$(readlink -m "$2"); shift 2; continue ;;
    --quick) quick=yes; passed_on+=("$1"); shift ;;
    --budget) need_value "$@"; whole_number "$1" "$2" 1; budget=$((10#$2)); shift 2 ;;
    --only)
        need_value "$@"
        [[ $2 =~ ^[a-z]+(,[a-z]+)*$ ]] || die 2 "invalid --only '$2': expected stages, separated by commas: ${stages[*]}"
        only=${2//,/ } passed_on+=("$1" "$2")
        shift 2 ;;
    --python) need_value "$@"; python=$2; passed_on+=("$1" "$2"); shift 2 ;;
    --no-build) build=no; shift ;;
    *) common_option "$1" ;;
    esac
done
for word in $only; do
    [[ " ${stages[*]} " == *" $word "* ]] || die 2 "--only: no stage '$word'; the stages are ${stages[*]}"
done
end_of_options
wanted() { [[ " $only " == *" $1 "* ]]; } # STAGE

# The most seconds of a stage.
declare -A seconds=([tests]=2400 [smoke]=600 [losses]=1200 [sanitizer]=1800 [resnet]=2400 [detection]=1800 [products]=1800
    [operators]=600 [ncu]=600 [steps]=2400 [comm]=900)
quick_flag=()
if [[ $quick == yes ]]; then
    seconds=([tests]=60 [smoke]=30 [losses]=60 [sanitizer]=55 [resnet]=82 [detection]=75 [products]=45 [operators]=25 [ncu]=50
        [steps]=40 [comm]=40)
    quick_flag=(--quick) most=6
    for word in $only; do most=$((most + seconds[$word])); done
    ((most <= 390)) || most=390
    ((budget > 0)) || budget=$most
fi
root=$(readlink -f "$here/../..")
out=${out:-$root/results}

make_work suite
if [[ -n $bundle ]]; then
    # Python knows xz even where the machine has neither xz nor a tar that does.
    if command -v python3 >/dev/null; then
        timeout 120 python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle" "$work"
    else
        timeout 120 tar -xf "$bundle" -C "$work"
    fi 2>"$work/why" || die 3 "cannot unpack --bundle $bundle: $(tail -n 1 "$work/why")"
    suite=$(compgen -G "$work/dptrain-*/scripts/bench/gpu_suite.sh") ||
        die 3 "--bundle $bundle contains no tests; scripts/bundle.sh --with-tests packs them"
    note "unpacked in $SECONDS s"
    ((budget == 0)) || passed_on+=(--budget "$((budget > SECONDS ? budget - SECONDS : 1))")
    status=0
    unset DPTRAIN_BIN
    # In the background, so that a signal reaches it at once.
    "$suite" --no-build --out "$out" "${passed_on[@]}" &
    trap 'kill $! 2>/dev/null || true; wait' INT TERM HUP
    wait $! || status=$?
    exit "$status"
fi
cd "$root"
log=$out/gpu-suite.log logs=$work/logs
if ! { mkdir -p "$out" "$logs" && : >>"$log"; }; then die 4 "cannot write --out $out"; fi
# Two suites would mix their logs and pages.
exec {lock}<"$log"
flock -n -E 75 "$lock" 2>/dev/null || (($? != 75)) || die 4 "--out $out is in use by another suite"
: >"$log"
export DPTRAIN_TEST_LOGS=$logs/tests
# In an unpacked bundle, programs are in libexec, and start scripts set their library path.
if [[ ! -e Makefile ]]; then build=no; fi
if [[ -x bin/orted || -x bin/prted ]]; then PATH=$root/bin:$PATH; fi

# Adds libraries that are loaded at run time to LD_LIBRARY_PATH: from a toolkit, or from Python packages.
find_libraries() {
    local library folder found
    for library in libcublasLt.so.[0-9]* libnccl.so.[0-9]* libcudnn.so.9; do
        if ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*${library//./\\.}"; then continue; fi
        for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" build/cuda \
            "$(timeout 60 "$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)"; do
            [[ -d $folder ]] || continue
            found=$(find -L "$folder" -maxdepth 3 -name "$library" -print -quit 2>/dev/null) || true
            [[ -n $found ]] || continue
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${found%/*}
            break
        done
    done
}

# Runs a command as a session of its own until the stage's deadline.
within() { # COMMAND...
    local left=$((deadline - SECONDS)) status=0
    setsid timeout -k 5 "$((left > 1 ? left : 1))" "$@" </dev/null &
    echo $! >>"$work/sessions"
    wait $! || status=$?
    return "$status"
}

# Kills what is left of the sessions that FILE lists: a timeout kills its own group only.
sweep() { # FILE
    local sessions process fields
    [[ -s $1 ]] || return 0
    sessions=" $(tr '\n' ' ' <"$1")"
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        if process_stat "$process" && [[ $sessions == *" ${fields[3]} "* ]]; then kill -KILL "$process" 2>/dev/null || true; fi
    done
    : >"$1"
}

# Runs a function, whose first failure ends it, or a command. Its output goes to $work/NAME and NAME.err, from there at once to
# the console and the log. Sets status.
attempt() { # NAME COMMAND...
    local name=$1 shown
    shift
    [[ $(type -t "$1") == function ]] || set -- within "$@"
    : >"$work/$name" && : >"$work/$name.err"
    (set -e; "$@") >"$work/$name" 2>"$work/$name.err" </dev/null &
    running=$!
    { tail --pid="$running" -s 0.2 -q -n +1 -f "$work/$name" "$work/$name.err" 2>/dev/null | plain_lines | tee -a "$log"; } &
    shown=$!
    status=0
    wait "$running" || status=$?
    running=''
    sweep "$work/sessions"
    wait "$shown" || true
}

# Sets a stage's result: passed, failed, stopped, or not run. Prints it, and writes the page.
declare -A result detail
stage() { # NAME COMMAND...
    local name=$1 most=${seconds[$1]} status=0 begin=$SECONDS
    ((ends == 0 || ends - SECONDS > most)) || most=$((ends - SECONDS))
    if [[ -z $(type -t "$2") ]]; then
        skip "$name" "$2 was not found"
    elif ((most < 5)); then
        skip "$name" "no time left" && late=yes
    else
        note "$name, up to $most s, at $SECONDS s"
        printf '\n== %s\n' "$*" >>"$log"
        deadline=$((SECONDS + most))
        attempt "$@"
        detail[$name]="$((SECONDS - begin)) s"
        case $status in
        0) result[$name]=passed ;;
        77) skip "$name" "$(tail -n 1 "$work/$name.err")" ;;
        6 | 124 | 137) result[$name]=stopped detail[$name]="after $((SECONDS - begin)) s; what it had measured is below" ;;
        *)
            result[$name]=failed detail[$name]="code $status: $(grep -v '^ *$' "$work/$name.err" | tail -n 1 | grep . || echo 'see below')"
            [[ $quick == yes ]] || run_again "$@"
            ;;
        esac
    fi
    note "$name: ${result[$name]}, ${detail[$name]}"
    write
}

skip() { result[$1]='not run' detail[$1]=$2; } # STAGE REASON

# Once more, with the logs of the libraries.
run_again() { # NAME COMMAND...
    local name=$1 status=0 library=$logs/$1-cublaslt.log
    ((deadline - SECONDS >= 5)) || return 0
    note "$name failed (${detail[$name]}); again with the libraries' logs"
    printf '\n== %s, again with NCCL_DEBUG=INFO and CUBLASLT_LOG_LEVEL=2\n' "$*" >>"$log"
    cp "$work/$name" "$work/$name.first" && cp "$work/$name.err" "$work/$name.err.first"
    export NCCL_DEBUG=INFO CUBLASLT_LOG_LEVEL=2 CUBLASLT_LOG_FILE=$library.whole
    attempt "$@" >/dev/null
    unset NCCL_DEBUG CUBLASLT_LOG_LEVEL CUBLASLT_LOG_FILE
    [[ ! -e $library.whole ]] || { tail -n 5000 "$library.whole" >"$library" && rm "$library.whole"; }
    mv "$work/$name.first" "$work/$name" && mv "$work/$name.err.first" "$work/$name.err"
    detail[$name]+="; again: $( ((status == 0)) && echo passed || echo "code $status"), see the log"
}

run_tests() {
    # A test that hangs is named.
    export DPTRAIN_GPU_SECONDS=$((deadline - SECONDS > 16 ? deadline - SECONDS - 6 : 10))
    within scripts/test.sh --gpu --skip-build
}

# A few steps of a model. Prints what ran, and its last loss; a failure also to smoke.bad.
smoke() { # MODEL PRECISION GRAPH
    local name=smoke-$1-$2-$3 said
    if within "$program" train "${smoke_options[@]}" --model "$1" --no-eval --overwrite --device cuda --precision "$2" \
        --cuda-graph "$3" --out "$work/$name" >"$logs/$name.txt" 2>&1; then
        said=$(losses "$work/$name" | tail -n 1) || said='no record'
    elif ((SECONDS >= deadline)); then
        said="did not end"
    else
        said="failed: $(grep -v '^ *$' "$logs/$name.txt" | tail -n 1 || true)"
        echo "$1, $2, recorded $3: $said" | tee -a "$work/smoke.bad" >&2
    fi
    echo "| $1 | $2 | $3 | ${said//|/;} |"
}

# Four at a time: none of it is timed.
run_smoke() {
    local model precision graph n=0 models=(lenet5 resnet50) smoke_options=(--data digits --batch 32 --steps 14)
    # The emulator takes 40 s for a step of ResNet-50.
    [[ $emulated == no ]] || models=(lenet5 resnet18) smoke_options=(--data synthetic --input-size 32 --batch 2 --steps 3)
    rm -f "$work/smoke.bad"
    echo "| model | precision | steps recorded | last loss |"
    echo "|---|---|---|---|"
    for model in "${models[@]}"; do
        for precision in fp32 tf32 bf16; do
            for graph in on off; do
                smoke "$model" "$precision" "$graph" &
                ((++n % 4)) || wait
            done
        done
    done
    wait
    [[ ! -s $work/smoke.bad ]] || return 1
    ((SECONDS < deadline)) || return 124
}

run_losses() {
    [[ -x scripts/bench/gpu_losses.sh ]] || { echo "scripts/bench/gpu_losses.sh was not found" >&2; return 77; }
    local left=$((deadline - SECONDS))
    # A run that hangs is a row of the table before the stage is stopped.
    within scripts/bench/gpu_losses.sh "${quick_flag[@]}" --gpus "$n_gpus" --budget "$((left * 3 / 4))" \
        --timeout "$((left < 240 ? left / 2 : 120))"
}

# One program under a tool of compute-sanitizer. Prints its verdict, and notes it in sanitizer.verdicts.
sanitize() { # NAME TOOL PROGRAM...
    local name=$1 status=0 begin=$SECONDS verdict summary file=$logs/sanitizer-$1.txt
    within env "LD_LIBRARY_PATH=$libraries" "$tool" --tool "$2" --error-exitcode 42 --print-limit 20 "${@:3}" >"$file" 2>&1 || status=$?
    summary=$(sed -n 's/^=* *\(.*SUMMARY\)/\1/p' "$file" | tail -n 1)
    if ((status == 0)) && [[ -n $summary ]]; then
        verdict="clean: $summary"
    elif grep -qiE 'device not supported|not supported on this|insufficient permissions' "$file"; then
        verdict="refused: $(grep -iE -m 1 'not supported|permissions' "$file" || true)"
    elif ((status == 124 || status == 137)); then
        verdict="did not end within $((SECONDS - begin)) s"
    else
        verdict="$([[ $status == 42 ]] && echo finding || echo "failed, code $status"): $(grep -v '^ *$' "$file" | tail -n 1 | sed 's/^=* *//')"
        { echo "$name, $2:" && { grep -E -A 8 -m 2 '^=+ (Error|Warning|Invalid|Uninit|Potential|Race)|^not ok' "$file" || tail -n 12 "$file"; }; } >&2
    fi
    echo "$verdict" >>"$work/sanitizer.verdicts"
    echo "| $name | $2 | ${verdict//|/;} | $((SECONDS - begin)) s |"
}

# All at once: the GPU is idle while a program is instrumented. Racecheck takes long for each launch, hence few and small steps.
run_sanitizer() {
    local tool source sources n=0 tests=build/tests/unit libraries=${LD_LIBRARY_PATH:-} main=$program
    local digits=(--data digits --no-eval --overwrite --device cuda --algorithms fixed)
    tool=$(command -v compute-sanitizer || compgen -G "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer") ||
        { echo "compute-sanitizer was not found" >&2; return 77; }
    # The programs, not their start scripts.
    if [[ -d libexec ]]; then tests=libexec main=libexec/dptrain libraries=$root/lib:$libraries; fi
    rm -f "$work/sanitizer.verdicts"
    echo "| program | tool | verdict | |"
    echo "|---|---|---|---|"
    sanitize lenet5-race racecheck "$main" train "${digits[@]}" --batch 4 --steps 1 --cuda-graph off --out "$work/race-lenet5" &
    sanitize lenet5-bf16 memcheck "$main" train "${digits[@]}" --batch 32 --steps 13 --precision bf16 --out "$work/mem-lenet5" &
    sanitize lenet5-init initcheck "$main" train "${digits[@]}" --batch 32 --steps 13 --cuda-graph off --out "$work/init-lenet5" &
    sanitize resnet18-race racecheck "$main" train --data synthetic --input-size 32 --model resnet18 --batch 2 --steps 1 --no-eval \
        --overwrite --device cuda --precision bf16 --algorithms fixed --cuda-graph off --out "$work/race-resnet18" &
    sanitize roi_align-race racecheck "$tests/test_roi_align" cuda &
    sanitize fused_norm-race racecheck "$tests/test_op_fused_norm" cuda &
    sanitize fused_norm memcheck "$tests/test_op_fused_norm" cuda &
    wait
    if [[ $quick == no ]]; then
        mapfile -t sources < <(grep -lE 'RUN .*device=[a-z,]*cuda' tests/unit/test_op*.c)
        for source in "${sources[@]}"; do
            source=${source##*/} source=${source%.c}
            sanitize "${source#test_}-mem" memcheck "$tests/$source" cuda &
            sanitize "${source#test_}-race" racecheck "$tests/$source" cuda &
            (((n += 2) % 8)) || wait
        done
        wait
    fi
    [[ -s $work/sanitizer.verdicts ]] || { echo "no program has a verdict" >&2; return 1; }
    if grep -qE '^(finding|failed)' "$work/sanitizer.verdicts"; then return 1; fi
    if grep -q '^did not end' "$work/sanitizer.verdicts"; then return 124; fi
    if ! grep -q '^clean' "$work/sanitizer.verdicts"; then
        echo "this machine does not permit compute-sanitizer: see $out/gpu-suite-logs.tar.gz" >&2
        return 77
    fi
}

# torch.compile takes a minute: begins with it while tests run, which come first, and keeps the results for the stage resnet.
export TORCHINDUCTOR_CACHE_DIR=$work/inductor
compile_early() {
    (
        export TMPDIR=$work
        setsid nice timeout -k 5 240 "$python" scripts/bench/peers/torch_cuda.py --model resnet50 --way compile --channels-last --batch 256 \
            --precision bf16 --steps 10 --warmup 12 --block 10 >"$logs/compile.txt" 2>&1 </dev/null &
        echo $! >"$work/compile.session"
        wait $! || true
        echo "$SECONDS" >"$work/compiled"
    ) &
}

# Steps beside PyTorch's. Nothing is timed before torch.compile has ended.
run_steps() { # OPTION...
    local until=$((deadline - 45))
    if [[ $* == *resnet50* ]]; then
        while [[ ! -e $work/compiled ]] && ((SECONDS < until)); do sleep 0.2; done
        if [[ -e $work/compiled ]]; then
            echo "torch.compile had ended at $(<"$work/compiled") s"
            # What it chose by time while tests used the GPU, it chooses again.
            find "$TORCHINDUCTOR_CACHE_DIR" -name '*.best_config' -delete 2>/dev/null || true
        else
            sweep "$work/compile.session"
            echo "torch.compile did not end beforehand, at $SECONDS s"
        fi
        echo
    fi
    within scripts/bench/gpu_steps.sh "${quick_flag[@]}" --python "$python" --budget "$((deadline - SECONDS - 4))" --logs "$logs" "$@"
}

# Without importing them, which takes seconds.
has_modules() { # MODULE...
    within "$python" -c 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))' "$@" 2>/dev/null
}

# Compares detectors with torchvision's. Returns 77 without it.
run_detection() {
    has_modules torch torchvision || { echo "no torchvision ($python)" >&2; return 77; }
    within scripts/bench/gpu_detection.sh "${quick_flag[@]}" --python "$python" --budget "$((deadline - SECONDS - 4))"
}

run_products() {
    within build/scripts/bench/gpu_products "${quick_flag[@]}" "$work/convolutions"
    echo
    if [[ -s $work/convolutions ]] && has_modules torch; then
        within "$python" scripts/bench/peers/torch_conv.py "$work/convolutions"
    else
        echo "cuDNN: not run, as there is no PyTorch ($python)"
    fi
}

# ncu replays a kernel for each group of counters: few counters for all launches of a step, all for three of them. The step
# uses the algorithms that the stage resnet found, or finds them first.
run_ncu() {
    local tool name index n=0 status=0 main=$program libraries=${LD_LIBRARY_PATH:-}
    tool=$(command -v ncu || compgen -G "${CUDA_HOME:-/usr/local/cuda}/bin/ncu") || { echo "ncu was not found" >&2; return 77; }
    if [[ -d libexec ]]; then main=libexec/dptrain libraries=$root/lib:$libraries; fi
    local step=("$main" train --model resnet50 --data synthetic --input-size 224 --batch 256 --precision bf16 --steps 1 --no-eval
        --cuda-graph off --device cuda --overwrite --out "$work/ncu-run")
    local profile=(env "LD_LIBRARY_PATH=$libraries" "$tool" --csv --print-units base --print-kernel-base function --clock-control none)
    if [[ ${result[resnet]:-} != passed ]]; then
        within env "LD_LIBRARY_PATH=$libraries" "${step[@]}" >"$logs/ncu-step.txt" 2>&1 || { tail -n 1 "$logs/ncu-step.txt" >&2; return 1; }
    fi
    within "${profile[@]}" --cache-control none --launch-count 900 \
        --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum "${step[@]}" >"$logs/ncu.csv" 2>&1 || status=$?
    if grep -q ERR_NVGPUCTRPERM "$logs/ncu.csv"; then
        echo "this machine does not permit ncu to read counters" >&2
        return 77
    elif ((status != 0)); then
        ((SECONDS < deadline)) || return 124
        grep '^==ERROR' "$logs/ncu.csv" >&2 || tail -n 3 "$logs/ncu.csv" >&2
        return 1
    fi
    "$python" scripts/bench/peers/gpu_table.py kernels "$logs/ncu.csv"
    "$python" scripts/bench/peers/gpu_table.py costliest "$logs/ncu.csv" >"$work/costliest"
    while read -r index name; do
        n=$((n + 1))
        within "${profile[@]}" --kernel-name "$name" --launch-skip "$index" --launch-count 1 --section SpeedOfLight --section Occupancy \
            --section WarpStateStats --section LaunchStats --section MemoryWorkloadAnalysis "${step[@]}" >"$logs/ncu-$n.csv" 2>&1 || {
            ((SECONDS < deadline)) || return 124
            echo "$name: $(grep '^==ERROR' "$logs/ncu-$n.csv" | tail -n 1)" >&2
            return 1
        }
        echo
        "$python" scripts/bench/peers/gpu_table.py counters "$logs/ncu-$n.csv"
    done <"$work/costliest"
}

run_comm() {
    local np
    command -v mpirun >/dev/null || { echo "mpirun was not found" >&2; return 77; }
    ((n_gpus > 1)) || { echo "this machine has one GPU" >&2; return 77; }
    for ((np = 2; np <= n_gpus; np *= 2)); do
        mpi_flags "$np"
        within mpirun "${MPI_FLAGS[@]}" -np "$np" "$program" bench comm --device cuda --comm nccl --quick --test all \
            -d float,bfloat16 -b 64K -e 64M --out "$logs/comm-$np.jsonl"
    done
}

page() {
    local name driver nccl
    driver=$(timeout 10 nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || driver=''
    nccl=$(grep -rhoE 'NCCL version [0-9.]+|"nccl":"[^"]*"' "$log" "$work" --include='*.log' --include='*.jsonl' --include='*.txt' \
        2>/dev/null | head -n 1) || nccl=''
    echo "# The GPU suite: $gpu_name"
    echo
    echo "| stage | result | |"
    echo "|---|---|---|"
    for name in "${stages[@]}"; do
        [[ -z ${result[$name]:-} ]] || echo "| $name | ${result[$name]} | ${detail[$name]//|/;} |"
    done
    echo
    for name in "${stages[@]}"; do
        [[ -n ${result[$name]:-} && ${result[$name]} != 'not run' && -s $work/$name ]] || continue
        printf '## %s\n\n' "$name"
        # shellcheck disable=SC2016 # Markdown's quotes
        case $name in
        tests | comm) printf '```\n%s\n```\n\n' "$(tail -n 100 "$work/$name")" ;;
        *) cat "$work/$name" && echo ;;
        esac
        [[ ${result[$name]} != passed && -s $work/$name.err ]] || continue
        # shellcheck disable=SC2016 # Markdown's quotes
        printf 'Messages:\n\n```\n%s\n```\n\n' "$(tail -n 40 "$work/$name.err")"
    done
    machine_table "$load" "$command" GPU "$gpus" driver "${driver:-unknown}" \
        toolkit "$(nvcc --version 2>/dev/null | sed -n 's/.*release //p' | grep . || echo 'no nvcc')" NCCL "${nccl:-unknown}"
}

# Writes the page, and all logs into one file.
write() {
    if ! { page | plain_lines >"$file.part" && mv "$file.part" "$file"; }; then die 4 "cannot write $file"; fi
    # 1: a log that grows meanwhile.
    tar -czf "$out/gpu-suite-logs.tar.gz" -C "$work" logs 2>/dev/null || (($? == 1)) || rm -f "$out/gpu-suite-logs.tar.gz"
}

# A signal ends the stage, and the page tells what was measured.
interrupted() {
    trap '' INT TERM HUP
    [[ -z ${running:-} ]] || kill "$running" 2>/dev/null || true
    sweep "$work/sessions"
    sweep "$work/compile.session"
    for name in "${stages[@]}"; do
        [[ ! -e $work/$name || -n ${result[$name]:-} ]] || result[$name]=stopped detail[$name]="by a signal, after $SECONDS s"
    done
    write
    exit 143
}

running='' deadline=0 ends=0 status=0 late=no
if [[ $build == yes ]]; then
    note "building"
    make -j "$(nproc)" CUDA=1 tests build/scripts/bench/gpu_ops build/scripts/bench/gpu_products >"$work/build" 2>&1 || {
        cat "$work/build" >>"$log"
        tail -n 20 "$work/build" >&2
        die 1 "the build failed (make CUDA=1; $log); use --bundle for a build from another machine"
    }
    SECONDS=0
fi
program=${DPTRAIN_BIN:-$root/dptrain}
[[ -x $program ]] || die 4 "$program was not found; build it (make CUDA=1), or use --bundle"
((budget == 0)) || ends=$budget
find_libraries
mpi_allow_root 2>>"$log"
export XDG_CACHE_HOME=$work/cache DPTRAIN_BIN=$program PYTHONUNBUFFERED=1
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
found=$(timeout 60 "$program" info 2>/dev/null | sed -nE 's/^ +cuda +//p')
if [[ $found != *', CUDA '* ]]; then
    gpu_name='no GPU' gpus="none: ${found:-this build has no CUDA backend}" file=$out/gpu-none.md
    for word in $only; do skip "$word" "no GPU: ${found:-this build has no CUDA backend}"; done
    write
    die 4 "no GPU: ${found:-this build has no CUDA backend}"
fi
emulated=no
if [[ $found == 'emulated GPU,'* ]]; then
    emulated=yes ends=0
    for name in "${stages[@]}"; do seconds[$name]=3600; done
fi
n_gpus=$(timeout 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
[[ $emulated == no ]] || n_gpus=${DPTRAIN_EMU_GPUS:-1}
number_or 1 n_gpus
((n_gpus > 0)) || n_gpus=1
gpu_name=$(timeout 20 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpu_name=''
[[ -n $gpu_name && $emulated == no ]] || gpu_name=${found%%,*}
gpus="$n_gpus × $found"
file=$out/gpu-$(tr -cs 'a-z0-9\n' - <<<"${gpu_name,,}" | sed 's/^-*//; s/-*$//').md
note "$found"
trap '((BASHPID != $$)) || { sweep "$work/sessions"; sweep "$work/compile.session"; remove_work; flock -u "$lock" 2>/dev/null || true; }' EXIT
trap interrupted INT TERM HUP

declare -A of=([tests]=run_tests [smoke]=run_smoke [losses]=run_losses [sanitizer]=run_sanitizer [resnet]='run_steps --model resnet50'
    [detection]=run_detection [products]=run_products [operators]="build/scripts/bench/gpu_ops ${quick_flag[*]}" [ncu]=run_ncu
    [steps]=run_steps [comm]=run_comm)
if [[ $emulated == no ]] && wanted resnet; then compile_early; fi
for name in "${stages[@]}"; do
    wanted "$name" || continue
    if [[ $emulated == yes && " tests smoke losses comm " != *" $name "* ]]; then
        skip "$name" "the GPU is emulated"
        note "$name: not run, ${detail[$name]}"
        continue
    fi
    read -ra words <<<"${of[$name]}"
    stage "$name" "${words[@]}"
done
write
sed -n '3,/^$/p' "$file"
note "$file; full output: $log; $SECONDS s"
[[ " ${result[*]} " != *" failed "* ]] || exit 1
[[ $late == no && " ${result[*]} " != *" stopped "* ]] || exit 6
