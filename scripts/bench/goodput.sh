#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the goodput of a job whose ranks are killed again and again, beside torchrun's, and prints results/goodput.md.
# See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../lib.sh"
# shellcheck source=scripts/bench/peers/start.sh
. "$here/peers/start.sh"

usage() {
    cat <<'EOT'
usage: scripts/bench/goodput.sh [options]

Trains LeNet-5 on MNIST on 2 ranks, kills one rank a minute by SIGKILL, rank 1 and rank 0 in turn, and measures how much of the
time went into steps that were kept. First dptrain under run.sh --restarts, then PyTorch under torchrun --max-restarts with a
checkpoint, with the same faults. Prints a Markdown page.

  --minutes N   minutes for each of the two [6]
  --every N     steps from one checkpoint to the next, of both [250]
  --batch N     samples per step and rank [64]
  --venv DIR    a Python environment with PyTorch 2.4 or later [none: dptrain alone]
  --data DIR    folder with MNIST's IDX files [$DPTRAIN_DATA/mnist, data/mnist]
  -h, --help    show this help
EOT
}

command="scripts/bench/goodput.sh${*:+ $*}"
minutes=6 every=250 batch=64 venv='' data=''
while [[ $# -gt 0 ]]; do
    case $1 in
    --minutes) need_value "$@"; whole_number "$1" "$2" 1; minutes=$((10#$2)); shift 2 ;;
    --every) need_value "$@"; whole_number "$1" "$2" 1; every=$((10#$2)); shift 2 ;;
    --batch) need_value "$@"; whole_number "$1" "$2" 1; batch=$((10#$2)); shift 2 ;;
    --venv) need_value "$@"; venv=$(folder_option "$1" "$2"); shift 2 ;;
    --data) need_value "$@"; data=$(folder_option "$1" "$2"); shift 2 ;;
    *) common_option "$1" ;;
    esac
done
root=$(readlink -f "$here/../..")
[[ -n $data ]] || data=${DPTRAIN_DATA:+$DPTRAIN_DATA/mnist}
data=$(readlink -f "${data:-$root/data/mnist}")
compgen -G "$data/train-images-idx3-ubyte*" >/dev/null ||
    die 3 "no MNIST in '$data'; run data/fetch_mnist.sh, or pass --data DIR"
cd "$root"
command -v jq >/dev/null || die 4 "jq was not found; run scripts/install_deps.sh --test"
make -s -j "$(nproc)" dptrain >&2 || die 4 "the build failed"
load=$(cut -d ' ' -f 1-3 /proc/loadavg)
make_work goodput
mpi_allow_root
export GLOO_SOCKET_IFNAME=lo XDG_CACHE_HOME=$work/cache
unset OMP_NUM_THREADS

job=''
end_job() {
    local pid
    for pid in $(marked); do kill -KILL "$pid" 2>/dev/null || true; done
    [[ -z $job ]] || { wait "$job" || true; } 2>/dev/null
    job=''
}
trap '((BASHPID != $$)) || { end_job; remove_work; }' EXIT

# Sets centi: hundredths of a second since the machine's start.
clock() { read -r centi _ </proc/uptime && centi=$((10#${centi/./})); }

# Prints the seconds and the number of the steps whose results were kept, and the number of the others: a later run of the file
# repeats the steps from its first one on.
steps_of() { # FILE
    head -c "$(stat -c %s "$1")" "$1" | jq -nRr 'reduce (inputs | fromjson?) as $r ({sec: [], lost: 0};
        if $r.record == "step" then .sec[$r.step] = $r.step_sec
        elif $r.record == "run" and $r.first_step then
            .lost += (.sec[$r.first_step:] | length) | .sec |= .[:$r.first_step]
        else . end) | "\(.sec | add) \(.sec | length) \(.lost)"'
}

# Prints the processes of the job, or of one rank of it: those whose environment has the variables.
marked() { # [VARIABLE=VALUE]
    local environ
    for environ in /proc/[0-9]*/environ; do
        if grep -qsz "^DPTRAIN_GOODPUT=$$\$" "$environ" && grep -qsz "${1:+^$1\$}" "$environ"; then
            environ=${environ#/proc/}
            echo "${environ%/environ}"
        fi
    done
}

# Prints the processes of a rank: those that also have the program's name, and not what started it.
rank_pids() { # VARIABLE RANK NAME
    local pid name
    for pid in $(marked "$1=$2"); do
        read -r name 2>/dev/null <"/proc/$pid/comm" || continue
        [[ $name != "$3"* ]] || echo "$pid"
    done
}

begin() { # NAME
    case $1 in
    dptrain)
        DPTRAIN_GOODPUT=$$ scripts/run.sh -np 2 --restarts 3 -- train --model lenet5 --data "$data" --threads 1 --steps 100000000 \
            --batch-per-rank "$batch" --lr 0.03 --schedule constant --checkpoint-every "$every" --no-eval --out "$work/$1" &
        ;;
    torch)
        DPTRAIN_GOODPUT=$$ OMP_NUM_THREADS=1 "${keep_pages[@]}" "$venv/bin/torchrun" --nproc-per-node 2 --max-restarts 100 --rdzv-backend c10d \
            --rdzv-endpoint localhost:0 "$here/peers/lenet5_elastic.py" --data "$data" --batch "$batch" --every "$every" \
            --out "$work/$1" &
        ;;
    esac >"$work/$1.log" 2>&1 </dev/null
    job=$!
}

# Waits until time T, in hundredths of a second, or until the job has ended.
until_time() { # T
    while clock && ((centi < $1)); do
        kill -0 "$job" 2>/dev/null || die 4 "the job ended: $(tail -n 5 "$log")"
        sleep 0.2
    done
}

# Prints the processes of the job, and what it has said last.
tell_slow() { # NAME RANK
    local pid
    note "$1 does not train again 30 s after rank $2 was killed; load $(cut -d ' ' -f 1-3 /proc/loadavg); its processes:"
    for pid in $(marked); do
        ps -o pid=,stat=,wchan:24=,etimes=,time=,args= -p "$pid" | cut -c 1-150 >&2 || true
    done
    tail -n 5 "$log" >&2
}

# Kills a rank, and waits until the job trains again. Writes a line: kill, first new step.
strike() { # NAME RANK
    local file=$work/$1/metrics.jsonl size killed slow=no variable=OMPI_COMM_WORLD_RANK program=dptrain pids
    [[ $1 == dptrain ]] || variable=RANK program=p
    mapfile -t pids < <(rank_pids "$variable" "$2" "$program")
    size=$(stat -c %s "$file")
    clock && killed=$centi
    kill -KILL "${pids[@]}"
    until tail -c "+$((size + 1))" "$file" | awk '/"record":"run"/ { run = 1 } run && /"record":"step"/ { seen = 1 } END { exit !seen }'; do
        clock
        # A slow start counts, and says where it is; one that never comes ends the measurement.
        if [[ $slow == no ]] && ((centi > killed + 3000)); then slow=yes && tell_slow "$1" "$2"; fi
        ((centi < killed + 40000)) || die 4 "$1 does not train again after rank $2 was killed: $(tail -n 5 "$log")"
        sleep 0.1
    done
    clock
    echo "$killed $centi" >>"$work/$1.strikes"
    note "$1: rank $2 killed; training again after $(((centi - killed) / 100)) s"
}

# Runs one of the two, and sets its figures: wall, good, n_good, lost, n_lost, origin.
measure() { # NAME
    local log=$work/$1.log began centi minute
    mkdir -p "$work/$1"
    clock && began=$centi
    begin "$1"
    if [[ $1 == dptrain ]]; then
        # run.sh's seconds count from its first record.
        until [[ -s $work/$1/job.jsonl ]] || ((centi > began + 3000)); do sleep 0.05 && clock; done
        echo "$centi" >"$work/origin"
    fi
    for ((minute = 0; minute < minutes; minute++)); do
        until_time $((began + 6000 * minute + 3000))
        # A busy machine needs longer for the first start.
        until [[ -s $work/$1/metrics.jsonl ]]; do
            ((centi < began + 18000)) || die 4 "$1 has not trained within three minutes: $(tail -n 5 "$log")"
            until_time $((centi + 20))
        done
        strike "$1" $(((minute + 1) % 2))
    done
    until_time $((began + 6000 * minutes))
    # What follows is not counted: the end by a signal.
    steps_of "$work/$1/metrics.jsonl" >"$work/$1.steps"
    echo "$((6000 * minutes))" >"$work/$1.wall"
    kill -TERM "$job"
    for ((minute = 0; minute < 300; minute++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    end_job
}

# Prints the median and the largest of the numbers.
spread() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f (%.1f)", v[int((NR + 1) / 2)], v[NR] }'; }

# Prints the seconds from each kill to the first sign of it that run.sh has recorded.
noticed() {
    local origin
    origin=$(<"$work/origin")
    paste -d ' ' "$work/dptrain.strikes" <(sed -nE 's/^\{"record":"job_fault".*"noticed_sec":([0-9.]+).*/\1/p' "$work/dptrain/job.jsonl") |
        awk -v origin="$origin" '{ printf "%.2f\n", (origin + 100 * $3 - $1) / 100 }'
}

row() { # NAME TITLE
    local good n_good n_lost
    read -r good n_good n_lost <"$work/$1.steps"
    printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$2" \
        "$(awk -v g="$good" -v w="$(<"$work/$1.wall")" 'BEGIN { printf "**%.1f %%**", 10000 * g / w }')" "$n_good" "$n_lost" \
        "$(awk -v g="$good" -v n="$n_good" 'BEGIN { printf "%.1f", 1000 * g / n }')" \
        "$(if [[ $1 == dptrain ]]; then noticed | spread; else echo -; fi)" \
        "$(awk '{ print ($2 - $1) / 100 }' "$work/$1.strikes" | spread)"
}

measure dptrain
[[ -z $venv ]] || measure torch
cat <<EOT
# Goodput with one killed rank a minute

LeNet-5 on MNIST, 2 ranks with one thread each, $batch samples per rank, a checkpoint every $every steps. Every minute SIGKILL ends one rank, rank 1 and
rank 0 in turn, $minutes times in $minutes minutes. dptrain runs under \`scripts/run.sh --restarts\`, PyTorch under \`torchrun --max-restarts\`
with \`scripts/bench/peers/lenet5_elastic.py\`, which saves and loads a snapshot as PyTorch's own example does. Both evaluate nothing.
Goodput is the time of the steps whose results were kept, divided by the time since the command was given. dptrain compares its replicas
and verifies each checkpoint; the example does neither.

| program | goodput | steps kept | computed again | ms per step | noticed s | training again s |
|---|---:|---:|---:|---:|---:|---:|
EOT
row dptrain "dptrain, \`run.sh --restarts\`"
[[ -z $venv ]] || row torch "PyTorch, \`torchrun --max-restarts\`"
cat <<'EOT'

Seconds from the kill to the first message about it, and to the first new step: median (slowest). dptrain's first new step counts when
its record is in the file.

EOT
software=()
[[ -z $venv ]] || software=("PyTorch" "$("$venv/bin/python" "$here/peers/lenet5_torch.py" --describe 2>/dev/null)")
machine_table "$load" "$command" "${software[@]}"
