#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# An MPIJob on three hosts, as user 1000: pods, sshd, ssh and jobs are real; hosts are namespaces, Kubernetes is played.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # variables of the loaded files

load ../cluster/cluster
load ../cluster/jobs
load ../container/container
load operator

setup_file() {
    container_try 3 || return 0
    export claim=$cluster/shared/claim
    mkdir "$claim"
    cp -r "$tiny" "$claim/tiny"
    # Ranks share two cores.
    printf '%s\n' OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive DPTRAIN_BIND=none >"$claim/.dptrain_env"
    chown -R 1000:1000 "$claim"
}

setup() {
    cluster_or_skip
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    "$python" -c 'import jsonschema, yaml' 2>/dev/null || skip "no jsonschema and PyYAML from PyPI (scripts/install_deps.sh --test)"
}

teardown() { [[ -n ${cluster_missing:-} || -z ${mpijob:-} ]] || operator_delete; }

teardown_file() { container_down; }

apply() { # NAME ARGUMENTS...
    "$root/scripts/mpijob.sh" --name "$1" --namespace ml --image "$image" --claim data --workers 2 "${train[@]}" --data tiny \
        --allreduce mpi "${@:2}" >"$cluster/$1.yaml"
    operator_apply "$cluster/$1.yaml"
}

@test "a job ends with 0, with the losses of the job outside; its files belong to user 1000" {
    apply first --steps 20
    run operator_launcher 1
    expect 0 "2 on 2 hosts"
    on node1 -H node2:1,node3:1 --env-file claim/.dptrain_env "${train[@]}" --data "$tiny" --allreduce mpi --steps 20 --out outside
    [ "$(losses outside | wc -l)" -eq 20 ]
    diff <(losses claim/runs/first) <(losses outside)
    [ -z "$(find "$claim/runs/first" ! -uid 1000)" ]
}

# shellcheck disable=SC2034 # job is for `ended`
@test "a killed worker: code 5, the worker is named; the next launcher resumes" {
    apply killed --epochs 100000 --timeout 10 --checkpoint-every 20
    out=$cluster/killed.out
    operator_launcher 1 >"$out" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if grep -qs '^epoch 2 ' "$out"; then break; fi
        sleep 0.1
    done
    cluster_exec node3 podman kill killed-worker-1
    ended
    [ "$code" -eq 5 ]
    grep -q 'error: .*killed-worker-1' "$out"
    last=$(find "$claim/runs/killed" -name 'ckpt-*.h5' | sort | tail -n 1)
    [ -n "$last" ]
    # kubelet starts it again.
    cluster_exec node3 podman start killed-worker-1
    operator_ready 1
    : >"$out" # the loop below must not read the last launcher's
    operator_launcher 2 >"$out" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if grep -qs "${last##*/}" "$out"; then break; fi
        sleep 0.1
    done
    cluster_exec node1 podman kill --signal TERM killed-launcher-2
    ended
    [ "$code" -eq 143 ]
    grep -q "${last##*/}" "$out"
    # As docs/kubernetes.md says: a checkpoint, and the job is complete.
    : >"$out" # the loop below must not read the last launcher's
    operator_launcher 3 >"$out" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if grep -qs '^epoch [0-9]*  train' "$out"; then break; fi
        sleep 0.1
    done
    cluster_exec node1 podman exec killed-launcher-3 pkill -USR1 -o -f run.sh
    ended
    [ "$code" -eq 0 ]
    [ "$(find "$claim/runs/killed" -name 'ckpt-*.h5' | sort | tail -n 1)" != "$last" ]
}

@test "--regress: a suite on the workers, its recording in the claim" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes 7 s; scripts/test.sh --slow runs it"
    printf 'comm --quick --budget 0.1 --minbytes 64K --maxbytes 64K --inplace in\n' >"$claim/small.conf"
    "$root/scripts/mpijob.sh" --name regress --namespace ml --image "$image" --claim data --workers 2 \
        --regress -- --suite ./small.conf --starts 1 >"$cluster/regress.yaml"
    operator_apply "$cluster/regress.yaml"
    run operator_launcher 1
    expect 0 ""
    [ "$(jq -c 'select(.record == "bench_run") | [.ranks, .fingerprint.fabric.hosts]' "$claim"/results/runs/*-small.jsonl)" = "[2,2]" ]
}

@test "a foreign host key is refused" {
    apply foreign --steps 1
    operator_secret "$(mkdir "$cluster/shared/other" && echo "$cluster/shared/other")"
    # The right login key, and another host key: somebody else on the worker's address.
    cp "$job_folder/ssh/authorized_keys" "$cluster/shared/other/"
    cluster_exec node3 podman rm --force --time 0 foreign-worker-1
    own=$job_folder
    cp -r "$own" "$cluster/shared/jobs/theirs"
    cp "$cluster/shared/other"/* "$cluster/shared/jobs/theirs/ssh/"
    job_folder=$cluster/shared/jobs/theirs
    operator_worker 1
    operator_ready 1
    job_folder=$own
    run operator_launcher 1
    expect 4 "foreign-worker-1.foreign.ml.svc: **host key"
    [ ! -e "$claim/runs/foreign" ]
}
