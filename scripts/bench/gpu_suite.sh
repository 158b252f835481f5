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

On a machine with GPUs: builds (or unpacks a bundle), trains a few steps of two models in every precision, runs the GPU
tests, measures and compares with PyTorch (ResNet-50, Mask R-CNN of torchvision, then LeNet-5), cuBLASLt and cuDNN, trains
on one and on all GPUs, and checks memory accesses and races with compute-sanitizer. It prints figures as they are measured and writes one page,
gpu-NAME.md, again after every stage: the stages that passed, failed, were stopped by their time limit or were skipped,
and the reasons. A stage that fails runs once more with the logs of NCCL and cuBLASLt on.

  --bundle FILE   use a bundle made by scripts/bundle.sh --with-tests, on a machine that cannot build
  --out FOLDER    folder of the page [results]; all output goes to FOLDER/gpu-suite.log
  --quick         shorten all stages; takes at most 8 minutes
  --part N        one of five parts, each at most 9.5 minutes, the most valuable first: 1 smoke, tests; 2 resnet;
                  3 detection; 4 steps, operators, products, cudnn; 5 programs, nccl, memcheck, racecheck. Parts share
                  --out
  --budget SEC    time limit per stage [depends on the stage; with --quick and --part also a limit for all stages]
  --only LIST     stages, separated by commas: build smoke tests resnet detection steps operators products cudnn
                  programs nccl memcheck racecheck
  --python CMD    the Python with PyTorch and torchvision [python3]
  --no-build      use the existing ./dptrain and tests
  -h, --help      show this help

Installs nothing. Data: $DPTRAIN_DATA/mnist, data/mnist, or the built-in digits. Exit codes: 0 all stages that ran
passed, 1 a stage failed, 4 no GPU (stages that need none still run, and the page is written), 6 none failed, but a time
limit stopped one.
EOT
}

command="scripts/bench/gpu_suite.sh${*:+ $*}"
stages=(build smoke tests resnet detection steps operators products cudnn programs nccl memcheck racecheck)
parts=('' 'build smoke tests' 'resnet' 'detection' 'steps operators products cudnn' 'programs nccl memcheck racecheck')
bundle='' out='' quick=no part='' budget=0 only=${stages[*]} python=python3 build=yes passed_on=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --bundle) need_value "$@"; bundle=$2; shift 2; continue ;;
    --out) need_value "$@"; out=$(readlink -m "$2"); shift 2; continue ;;
    --quick) quick=yes; passed_on+=("$1"); shift ;;
    --part)
        need_value "$@"
        [[ $2 == [1-5] ]] || die 2 "invalid --part '$2': expected 1, 2, 3, 4 or 5"
        part=$2 only=${parts[$2]} passed_on+=("$1" "$2")
        shift 2 ;;
    --budget) need_value "$@"; whole_number "$1" "$2" 1; budget=$((10#$2)); passed_on+=("$1" "$2"); shift 2 ;;
    --only) need_value "$@"; only=${2//,/ }; passed_on+=("$1" "$2"); shift 2 ;;
    --python) need_value "$@"; python=$2; passed_on+=("$1" "$2"); shift 2 ;;
    --no-build) build=no; shift ;;
    *) common_option "$1" ;;
    esac
done
for word in $only; do
    [[ " ${stages[*]} " == *" $word "* ]] || die 2 "--only: no stage '$word'; the stages are ${stages[*]}"
done
end_of_options
root=$(readlink -f "$here/../..")
out=${out:-$root/results}

make_work suite
if [[ -n $bundle ]]; then
    # Python knows xz even where the machine has neither xz nor a tar that does.
    if command -v python3 >/dev/null; then
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle" "$work"
    else
        tar -xf "$bundle" -C "$work"
    fi 2>"$work/why" || die 3 "cannot unpack --bundle $bundle: $(tail -n 1 "$work/why")"
    suite=$(compgen -G "$work/dptrain-*/scripts/bench/gpu_suite.sh") ||
        die 3 "--bundle $bundle contains no tests; scripts/bundle.sh --with-tests packs them"
    status=0
    "$suite" --no-build --out "$out" "${passed_on[@]}" || status=$?
    exit "$status"
fi
cd "$root"
log=$out/gpu-suite.log
if ! { mkdir -p "$out" && : >"$log"; }; then die 4 "cannot write --out $out"; fi
export DPTRAIN_TEST_LOGS=$work/test-logs
# In an unpacked bundle, programs are in libexec, and start scripts set their library path.
if [[ ! -e Makefile ]]; then build=no; fi
if [[ -x bin/orted || -x bin/prted ]]; then PATH=$root/bin:$PATH; fi

# Adds libraries that are loaded at run time to LD_LIBRARY_PATH: from a toolkit, or from Python packages.
find_libraries() {
    local library folder found
    for library in libcublasLt.so.[0-9]* libnccl.so.[0-9]*; do
        if ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*${library%%.*}\.so\.[0-9]"; then continue; fi
        for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" build/cuda/lib \
            "$(timeout 60 "$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)"; do
            [[ -d $folder ]] || continue
            found=$(find -L "$folder" -maxdepth 3 -name "$library" -print -quit 2>/dev/null) || true
            [[ -n $found ]] || continue
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${found%/*}
            break
        done
    done
}

declare -A result detail
declare -A seconds=([build]=1800 [smoke]=600 [tests]=2400 [resnet]=2400 [detection]=1800 [steps]=2400 [operators]=600
    [products]=1200 [cudnn]=1200 [programs]=600 [nccl]=600 [memcheck]=1800 [racecheck]=1800)
whole=0 # most seconds for all stages; 0: no limit
if [[ -n $part ]]; then
    seconds=([build]=240 [smoke]=120 [tests]=400 [resnet]=540 [detection]=540 [steps]=180 [operators]=110 [products]=130 [cudnn]=120
        [programs]=120 [nccl]=120 [memcheck]=150 [racecheck]=150)
    whole=550
fi
if [[ $quick == yes ]]; then
    seconds=([build]=240 [smoke]=60 [tests]=120 [resnet]=100 [detection]=90 [steps]=60 [operators]=30 [products]=40 [cudnn]=40
        [programs]=40 [nccl]=40 [memcheck]=40 [racecheck]=40)
    whole=460
fi

# Prints the time left for a stage.
time_for() { # STAGE
    local most=${seconds[$1]}
    ((budget == 0 || budget > most)) || most=$budget
    if ((whole > 0 && whole - SECONDS < most)); then most=$((whole - SECONDS)); fi
    echo "$most"
}

# Runs a command, or a function, whose first failure ends it. Output goes to the log at once, from there to the console,
# and at the end to $work/NAME: not through a pipe, which an abandoned child could keep open. Sets status. Not to be called
# in a condition or before ||, where no failure ends a function.
attempt() { # NAME COMMAND...
    local name=$1 begin tailer
    shift
    [[ $(type -t "$1") == function ]] || set -- within "$@"
    begin=$(stat -c %s "$log")
    tail -c "+$((begin + 1))" -f "$log" &
    tailer=$!
    set +e
    (set -e; "$@") >>"$log" 2>"$work/$name.err"
    status=$?
    set -e
    sleep 0.2
    kill "$tailer" 2>/dev/null || true
    wait "$tailer" 2>/dev/null || true
    tail -c "+$((begin + 1))" "$log" >"$work/$name"
    cat "$work/$name.err" >>"$log"
}

# Sets a stage's result: passed, failed, stopped, or not run.
stage() { # NAME COMMAND...
    local name=$1 most status=0 begin=$SECONDS
    if [[ -z $(type -t "$2") ]]; then
        result[$name]='not run' detail[$name]="$2 was not found"
        return
    fi
    most=$(time_for "$name")
    if ((most < 5)); then
        result[$name]='not run' detail[$name]="no time left"
        return
    fi
    note "$name, up to $most s"
    printf '\n== %s\n' "$*" >>"$log"
    deadline=$((SECONDS + most))
    attempt "$@"
    detail[$name]="$((SECONDS - begin)) s"
    case $status in
    0) result[$name]=passed ;;
    77) result[$name]='not run' detail[$name]=$(tail -n 1 "$work/$name.err") ;;
    124 | 137) result[$name]=stopped detail[$name]="after $most s; what it had measured is below" ;;
    *)
        result[$name]=failed detail[$name]="code $status: $(grep -v '^ *$' "$work/$name.err" | tail -n 1)"
        [[ $name == build ]] || run_again "$@"
        ;;
    esac
    [[ -z ${file:-} ]] || page >"$file" || die 4 "cannot write $file"
}

# Once more, with the logs of the libraries.
run_again() { # NAME COMMAND...
    local name=$1 status=0
    ((deadline - SECONDS >= 5)) || return 0
    note "$name failed (${detail[$name]}); again with the libraries' logs"
    printf '\n== %s, again with NCCL_DEBUG=INFO and CUBLASLT_LOG_LEVEL=2\n' "$*" >>"$log"
    cp "$work/$name" "$work/$name.first"
    export NCCL_DEBUG=INFO CUBLASLT_LOG_LEVEL=2 CUBLASLT_LOG_FILE=$out/gpu-suite-$name-cublaslt.log
    attempt "$@" >/dev/null
    unset NCCL_DEBUG CUBLASLT_LOG_LEVEL CUBLASLT_LOG_FILE
    mv "$work/$name.first" "$work/$name"
    detail[$name]+="; again: $( ((status == 0)) && echo passed || echo "code $status"), see the log"
}

wanted() { [[ " $only " == *" $1 "* ]]; }

within() { timeout -k 10 $((deadline > SECONDS ? deadline - SECONDS : 1)) "$@" </dev/null; } # COMMAND...

# Trains under mpirun.
on_gpus() { # NP OPTION...
    local np=$1
    shift
    within scripts/run.sh -np "$np" -- train --data digits --batch 64 --device cuda --overwrite "$@"
}

losses() { sed -n 's/.*"record":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"; }

# Whether the losses of two runs agree at every step.
close_to() { # FOLDER FOLDER TOLERANCE
    paste <(losses "$1") <(losses "$2") |
        awk -v most="$3" '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > most) bad = 1 } END { exit bad || NR == 0 }'
}

# A few steps of each model: each precision, recorded and not. Prints what runs and how fast.
run_smoke() {
    local model precision graph bad=0 rate
    echo "| model | precision | steps recorded | images/s |"
    echo "|---|---|---|---|"
    for model in lenet5 resnet50; do
        for precision in fp32 tf32 bf16; do
            for graph in on off; do
                if within ./dptrain train --data digits --model "$model" --batch 32 --steps 14 --no-eval --overwrite \
                    --device cuda --precision "$precision" --cuda-graph "$graph" --out "$work/smoke-run" >"$work/one" 2>&1; then
                    rate=$(sed -nE 's/.*"record":"end".*"images_per_sec":([0-9]+).*/\1/p' "$work/smoke-run/metrics.jsonl")
                elif ((SECONDS >= deadline)); then
                    return 124
                else
                    bad=$((bad + 1)) rate="failed: $(grep -v '^ *$' "$work/one" | tail -n 1)"
                    echo "$model, $precision, recorded $graph: $rate" >&2
                fi
                echo "| $model | $precision | $graph | ${rate//|/;} |"
            done
        done
    done
    ((bad == 0))
}

# Compares steps with PyTorch's. The last run begins early enough to end in time.
run_steps() { # OPTION...
    local most=$((deadline - SECONDS))
    within scripts/bench/gpu_steps.sh "${quick_flag[@]}" --python "$python" --budget $((most * 2 / 3)) --timeout $((most / 3)) "$@"
}

# Compares detectors with torchvision's. Returns 77 without it.
run_detection() {
    local most=$((deadline - SECONDS))
    "$python" -c 'import torch, torchvision' 2>/dev/null || { echo "no torchvision ($python)" >&2; return 77; }
    within scripts/bench/gpu_detection.sh "${quick_flag[@]}" --python "$python" --budget $((most * 2 / 3)) --timeout $((most / 3))
}

# Ranks start by mpirun. Returns 77 without it.
need_mpirun() { command -v mpirun >/dev/null || { echo "mpirun was not found" >&2; return 77; }; }

run_programs() {
    local cpu=(--data digits --batch 64 --device cpu --overwrite)
    need_mpirun
    within ./dptrain train "${cpu[@]}" --steps 20 --out "$work/cpu"
    on_gpus 1 --steps 20 --out "$work/gpu"
    close_to "$work/cpu" "$work/gpu" 0.02 || { echo "losses on the GPU differ from those on the CPU" >&2; return 1; }
    # Resume a CPU checkpoint on the GPU, and then its checkpoint on the CPU.
    within ./dptrain train --out "$work/cpu" --resume auto --device cuda --steps 40
    within ./dptrain train --out "$work/cpu" --resume auto --device cpu --steps 60
    on_gpus 2 --steps 20 --comm mpi --share-gpu --out "$work/two"
    close_to "$work/gpu" "$work/two" 0.01 || { echo "losses on 2 ranks differ from those on 1 rank" >&2; return 1; }
    echo "CPU and GPU agree; checkpoints resume both ways; 2 ranks on a GPU with --comm mpi agree with 1"
}

run_nccl() {
    local np n_ok=''
    need_mpirun
    on_gpus 1 --steps 20 --out "$work/alone" --comm nccl
    for ((np = 2; np <= n_gpus; np *= 2)); do
        on_gpus "$np" --steps 20 --comm nccl --out "$work/nccl-run"
        close_to "$work/alone" "$work/nccl-run" 0.01 || { echo "losses on $np ranks differ from those on 1 rank" >&2; return 1; }
        mpi_flags "$np"
        within mpirun "${MPI_FLAGS[@]}" -np "$np" ./dptrain bench comm --device cuda --comm nccl --quick --test all \
            -d float,bfloat16 -b 64K -e 64M --out "$work/comm.jsonl"
        n_ok+=" $np"
    done
    echo "1 rank with NCCL${n_ok:+, and agreeing with it: ranks$n_ok}"
    [[ $n_gpus -gt 1 ]] || run_nccl_on_one
}

# Two ranks on the only GPU. NCCL rejects them on one host, so they pretend to have two. Its log is kept.
run_nccl_on_one() {
    local status=0 kept=$out/gpu-suite-nccl-two-ranks.log rank=(./dptrain train --data digits --batch 64 --device cuda --comm nccl
        --share-gpu --steps 20 --overwrite --out "$work/nccl-run")
    echo "not run: NCCL between GPUs, because this machine has one"
    mpi_flags 2 && mpi_parts
    within env NCCL_DEBUG=INFO mpirun "${MPI_FLAGS[@]}" -np 1 env NCCL_HOSTID=suite-a "${rank[@]}" : \
        -np 1 env NCCL_HOSTID=suite-b "${rank[@]}" >"$kept" 2>&1 || status=$?
    if ((status == 0)) && ! close_to "$work/alone" "$work/nccl-run" 0.01; then
        echo "losses of 2 ranks with NCCL on one GPU differ from those of 1 rank; $kept" >&2
        return 1
    fi
    if ((status != 0)); then
        ((SECONDS < deadline)) || return 124
        echo "2 ranks with NCCL on one GPU: $(grep -v '^ *$' "$kept" | tail -n 1); $kept" >&2
        return 1
    fi
    echo "2 ranks with NCCL on one GPU (with different NCCL_HOSTID) agree with 1"
}

# Runs the operator tests under a tool of compute-sanitizer. Returns 77 if the machine does not permit it.
run_sanitizer() { # TOOL
    local sources source program tool libraries=${LD_LIBRARY_PATH:-} n=0 bad=0
    tool=$(command -v compute-sanitizer || compgen -G "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer") ||
        { echo "compute-sanitizer was not found" >&2; return 77; }
    mapfile -t sources < <(grep -lE 'RUN .*device=[a-z,]*cuda' tests/unit/test_op*.c 2>/dev/null)
    for source in "${sources[@]}"; do
        program=build/${source%.c}
        # Run the program, not its start script.
        if [[ -d libexec ]]; then program=libexec/${program##*/} libraries=$root/lib:${LD_LIBRARY_PATH:-}; fi
        if within env "LD_LIBRARY_PATH=$libraries" "$tool" --tool "$1" --error-exitcode 42 "$program" cuda \
            >"$work/one" 2>&1; then
            n=$((n + 1))
        elif grep -qiE 'device not supported|not supported on this|insufficient permissions' "$work/one"; then
            echo "this machine does not permit compute-sanitizer: $(grep -iE -m 1 'not supported|permissions' "$work/one")" >&2
            return 77
        elif ((SECONDS >= deadline)); then
            echo "stopped in $program, after $n programs without a finding" >&2
            return 124
        else
            bad=$((bad + 1))
            echo "$program: $(grep -E '^=+ (ERROR|RACECHECK)|^not ok' "$work/one" | tail -n 3)" >&2
        fi
        cat "$work/one"
    done
    ((n + bad > 0)) || { echo "no operator test runs on the GPU" >&2; return 77; }
    echo "$n programs without a finding, $bad with"
    ((bad == 0))
}

! wanted build || [[ $build == no ]] || stage build make -j "$(nproc)" CUDA=1 tests build/scripts/bench/gpu_ops build/scripts/bench/gpu_products
if [[ ${result[build]:-} == failed ]]; then
    tail -n 20 "$work/build.err" >&2
    die 1 "the build failed (make CUDA=1; $log); use --bundle for a build from another machine"
fi
[[ -x dptrain ]] || die 4 "./dptrain was not found; build it (make CUDA=1), or use --bundle"
find_libraries
mpi_allow_root 2>>"$log"
export XDG_CACHE_HOME=$work/cache DPTRAIN_BIN=$root/dptrain
n_gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
found=$(./dptrain info 2>/dev/null | sed -nE 's/^ +cuda +//p')
have_gpu=no
if [[ $found == *', CUDA '* ]]; then have_gpu=yes; fi
((n_gpus > 0)) || n_gpus=1
gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpu_name=''
[[ -n $gpu_name ]] || gpu_name=${found%%,*}
note "${found:-this build has no CUDA backend}"

quick_flag=()
if [[ $quick == yes || -n $part ]]; then quick_flag=(--quick); fi
skip=()
if [[ $build == no ]]; then skip=(--skip-build); fi

page() {
    local name driver nccl
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || driver=''
    nccl=$(grep -rhoE 'NCCL version [0-9.]+|"nccl":"[^"]*"' "$log" "$work" 2>/dev/null | head -n 1) || nccl=''
    echo "# The GPU suite: $gpu_name"
    echo
    echo "| stage | result | |"
    echo "|---|---|---|"
    for name in "${stages[@]}"; do
        [[ -z ${result[$name]:-} ]] || echo "| $name | ${result[$name]} | ${detail[$name]//|/;} |"
    done
    echo
    for name in smoke tests resnet detection steps operators products cudnn programs nccl; do
        [[ -s $work/$name && ${result[$name]} != 'not run' ]] || continue
        printf '## %s\n\n' "$name"
        # shellcheck disable=SC2016 # Markdown's quotes
        case $name in
        tests) printf '```\n%s\n```\n\n' "$(tail -n 60 "$work/tests")" ;;
        resnet | detection) cat "$work/$name" && echo ;;
        *) grep -vE '^(epoch|finished|dptrain|  [a-z]+ )' "$work/$name" || true
            echo ;;
        esac
    done
    machine_table "$load" "$command" GPU "$gpus" driver "${driver:-unknown}" \
        toolkit "$(nvcc --version 2>/dev/null | sed -n 's/.*release //p' | grep . || echo 'no nvcc')" NCCL "${nccl:-unknown}"
}
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
file=$out/gpu-$(tr -cs 'a-z0-9\n' - <<<"${gpu_name,,}" | sed 's/^-*//; s/-*$//')${part:+-part$part}.md
gpus="$n_gpus × $found"
if [[ $have_gpu == no ]]; then
    gpu_name='no GPU' gpus="none: ${found:-this build has no CUDA backend}"
    file=$out/gpu-none.md
fi

[[ $have_gpu == no ]] || ! wanted smoke || stage smoke run_smoke
! wanted tests || DPTRAIN_GPU_SECONDS=$(time_for tests) stage tests scripts/test.sh --gpu "${skip[@]}"
if [[ $have_gpu == yes ]]; then
    ! wanted resnet || stage resnet run_steps --model resnet50
    ! wanted detection || stage detection run_detection
    ! wanted steps || stage steps run_steps
    ! wanted operators || stage operators build/scripts/bench/gpu_ops "${quick_flag[@]}"
    ! wanted products || stage products build/scripts/bench/gpu_products "${quick_flag[@]}" "$work/convolutions"
    if ! wanted cudnn; then
        :
    elif [[ -s $work/convolutions ]] && "$python" -c 'import torch' 2>/dev/null; then
        stage cudnn "$python" scripts/bench/peers/torch_conv.py "$work/convolutions"
    else
        result[cudnn]='not run' detail[cudnn]="no PyTorch ($python), or no times of dptrain to compare with"
    fi
    ! wanted programs || stage programs run_programs
    ! wanted nccl || stage nccl run_nccl
    ! wanted memcheck || stage memcheck run_sanitizer memcheck
    ! wanted racecheck || stage racecheck run_sanitizer racecheck
else
    # Skipped tests do not count as passed.
    [[ ${result[tests]:-} != passed ]] || result[tests]='not run'
    for name in "${stages[@]}"; do
        if [[ $name != build && -z ${result[$name]:-} ]] && wanted "$name"; then result[$name]='not run'; fi
        [[ ${result[$name]:-} != 'not run' ]] || detail[$name]="no GPU: ${found:-this build has no CUDA backend}"
    done
fi
page >"$file" || die 4 "cannot write $file"
sed -n '3,/^$/p' "$file"
note "$file; full output: $log"
[[ " ${result[*]} " != *" failed "* ]] || exit 1
[[ $have_gpu == yes ]] || die 4 "no GPU: ${found:-this build has no CUDA backend}"
[[ " ${result[*]} " != *" stopped "* ]] || exit 6
