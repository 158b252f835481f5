# SPDX-License-Identifier: MIT
# Starts jobs and checks on a cluster's hosts. Sourced after cluster.bash, in bats or by fault_proof.sh. Durations of checks go
# to descriptor 3; `run` is from bats.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of bats, of cluster.bash and for the tests

# For setup_file, after cluster_trust or setup_ssh.sh: exports root, DPTRAIN_BIN, and tiny, a folder of digits in the shared
# folder.
jobs_setup() { # TRAINING VALIDATION
    export root tiny=$cluster/shared/tiny DPTRAIN_BIN DPTRAIN_BIND=none
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    root=$(cd "$cluster_code/../.." && pwd)
    DPTRAIN_BIN=$(readlink -f "${DPTRAIN_BIN:-$root/dptrain}")
    unset OMPI_MCA_pml
    "$DPTRAIN_BIN" data synth digits --out "$tiny" --train "$1" --val "$2"
}

# Runs run.sh in the shared folder.
on() { # HOST RUN.SH'S ARGUMENTS...
    # shellcheck disable=SC2016 # for the host's shell
    cluster_exec "$1" sh -c 'cd "$0" && exec "$@"' "$cluster/shared" "$root/scripts/run.sh" "${@:2}"
}

# Runs a command in the shared folder on node1. Sets seconds (in tenths) in addition to the variables of `run`.
timed() { # COMMAND...
    local start=${EPOCHREALTIME/./}
    # shellcheck disable=SC2016 # for the host's shell
    run cluster_exec node1 setsid -w sh -c 'cd "$0" && exec "$@"' "$cluster/shared" "$@"
    seconds=$(((${EPOCHREALTIME/./} - start) / 100000))
    printf '# %s: code %s after %s.%s s\n' "$BATS_TEST_DESCRIPTION" "$status" $((seconds / 10)) $((seconds % 10)) >&3
    echo "$output"
}

health() { timed "$root/scripts/cluster_health.sh" "$@"; }

# Runs dptrain check on $hosts without probing them first, so that the check itself finds faults. Writes $json.
check() { # [OF RUN.SH...] -- OF DPTRAIN CHECK...
    local words=()
    while [[ $1 != -- ]]; do words+=("$1"); shift; done
    timed "$root/scripts/run.sh" -H "$hosts" --no-checks --interface "$cluster_subnet" --transport tcp "${words[@]}" \
        -- check --timeout 20 --json "$json" --device cpu --shared-bytes 1M "${@:2}"
}

# Prints STATUS HOST TEXT of the warnings and failures of a check.
bad() { # CHECK...
    local name
    for name; do
        jq -r --arg c "$name" '.lines[] | select(.check == $c and (.status | IN("warn", "fail")))
            | [.status, .host // "job", .name, .found] | join(" ")' "$json"
    done
}

train=(-- train --model mlp --batch 20 --threads 1 --algorithms fixed)

# Starts an endless job and waits until it trains. Sets job, and out, its output $cluster/shared/NAME.out.
endless() { # HOST NAME ARGUMENTS...
    local i
    out=$cluster/shared/$2.out
    on "$1" "${@:3}" "${train[@]}" --data "$tiny" --epochs 100000 --timeout 10 --out "$2" >"$out" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if (($(grep -cs '^epoch [0-9]* ' "$out") > 1)); then return 0; fi
        sleep 0.1
    done
    cat "$out"
    return 1
}

ended() { # sets code
    code=0
    wait "$job" || code=$?
    cat "$out"
}

# Fails if anything of a job is left on a host. Of a process that has ended but for the kernel's last steps, exe is gone.
clean() { # HOST...
    local host left
    for host; do
        # shellcheck disable=SC2016 # for the host's shell
        left=$(cluster_exec "$host" sh -c 'ls -d /dev/shm/* /tmp/ompi.*/jf.* /tmp/ompi.*/pid.* /tmp/prte* /tmp/dptrain-run.*
            pgrep -l "dptrain|orted|prted|mpirun|prterun" | while read -r pid name; do
                [ ! -e "/proc/$pid/exe" ] || echo "$pid $name"; done' 2>/dev/null) || true
        [[ -z $left ]] || { echo "$host: $left"; return 1; }
    done
}

losses() { jq -r 'select(.record == "step") | .loss' "$cluster/shared/$1/metrics.jsonl"; }
