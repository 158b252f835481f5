#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mpijob.sh: what it prints is valid for the MPI Operator, and what Kubernetes would refuse is refused first.
# shellcheck disable=SC2016 # for kubelet
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    python=${DPTRAIN_VENV:-$root/build/venv}/bin/python
    schema=${DPTRAIN_DATA:-}/mpijob-v2beta1.json
    cd "$BATS_TEST_TMPDIR" || return
}

mpijob() { "$root/scripts/mpijob.sh" --image registry/dptrain:1 --claim data "$@"; }

manifest() { "$python" "$root/tests/k8s/manifest.py" "$@"; }

# For tests that read YAML.
need_python() {
    "$python" -c 'import jsonschema, yaml' 2>/dev/null || skip "no jsonschema and PyYAML from PyPI (scripts/install_deps.sh --test)"
}

need_schema() {
    need_python
    [ -e "$schema" ] || skip "set DPTRAIN_DATA to a folder with mpijob-v2beta1.json"
}

@test "every combination of options passes the schema of the custom resource" {
    need_schema
    # Without --slow, options that do not depend on each other come together.
    parts=2
    [ -z "${DPTRAIN_TEST_SLOW:-}" ] || parts=8
    more=("--namespace ml --node-selector node.kubernetes.io/instance-type=p5.48xlarge --node-selector a="
        "--toleration nvidia.com/gpu:NoSchedule --toleration team=ml --toleration spot"
        "--cpu 95.5 --memory 1.5Ti --shm 64G --workers 100 --backoff 0 --mount-path /fsx")
    n=0
    for gpus in "" "--gpus 8" "--gpus 8 --slots 4"; do
        for efa in "" "--efa 4" "--efa 32 --hugepages 10Gi"; do
            for ((part = 0; part < parts; part++)); do
                words=''
                for i in 0 1 2; do ((!(parts == 2 ? part : part >> i & 1))) || words+=" ${more[i]}"; done
                for what in "-- train --data mnist" "--regress" "-- check"; do
                    n=$((n + 1))
                    # shellcheck disable=SC2086 # these are words
                    mpijob $gpus $efa $words $what >$n.yaml
                done
            done
        done
    done
    [ "$n" -eq $((27 * parts)) ]
    run manifest check "$schema" ./*.yaml
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the schema refuses deliberate mistakes" {
    need_schema
    mpijob --gpus 8 --efa 1 --namespace ml -- train >good.yaml
    n=0 fields=()
    while IFS='|' read -r change field; do
        n=$((n + 1)) fields+=("^bad$n.yaml: .*$field")
        sed -E "$change" good.yaml >bad$n.yaml
        ! cmp -s good.yaml bad$n.yaml
    done <<'END'
s/^  slotsPerWorker: .*/  slotsPerWorker: "8"/|slotsPerWorker
s/slotsPerWorker/slots/|'slots' was unexpected
s/      replicas: 1/      replicas: one/|replicas
s/memory: "8Gi"/memory: "8GB"/|memory
s/image:/imag:/|'imag' was unexpected
s/kind: MPIJob/kind: MpiJob/|kind
s/v2beta1/v1/|apiVersion
s/runAsUser: 1000/runAsUser: mpiuser/|runAsUser
s/drop: .ALL./drop: ALL/|drop
s/medium: Memory/medium: true/|medium
END
    run manifest check "$schema" good.yaml bad*.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    for field in "${fields[@]}"; do grep "$field" <<<"$output"; done
    [[ "$output" != *good.yaml* ]]
}

@test "the text: user, key, order of start, resources" {
    need_python
    mpijob --name first --namespace ml --workers 2 --gpus 8 --efa 4 --memory 64Gi --toleration nvidia.com/gpu=yes:NoSchedule \
        -- train --data mnist >job.yaml
    cat >expected <<'END'
metadata.namespace ml
spec.slotsPerWorker 8
spec.sshAuthMountPath /home/mpiuser/.ssh
spec.launcherCreationPolicy WaitForWorkersReady
spec.runPolicy.backoffLimit 3
spec.mpiReplicaSpecs.Worker.replicas 2
spec.mpiReplicaSpecs.Worker.template.spec.securityContext.runAsUser 1000
spec.mpiReplicaSpecs.Worker.template.spec.containers.0.readinessProbe.tcpSocket.port 2222
spec.mpiReplicaSpecs.Worker.template.spec.containers.0.resources.limits {'cpu': '8', 'memory': '64Gi', 'nvidia.com/gpu': 8, 'vpc.amazonaws.com/efa': 4, 'hugepages-2Mi': '5Gi'}
spec.mpiReplicaSpecs.Worker.template.spec.containers.0.securityContext.capabilities.add ['IPC_LOCK']
spec.mpiReplicaSpecs.Worker.template.spec.volumes.1.emptyDir {'medium': 'Memory', 'sizeLimit': '32768Mi'}
spec.mpiReplicaSpecs.Worker.template.spec.tolerations [{'key': 'nvidia.com/gpu', 'operator': 'Equal', 'value': 'yes', 'effect': 'NoSchedule'}]
spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.command ['run.sh', '--', 'train', '--data', 'mnist', '--out', 'runs/first', '--resume', 'auto']
spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.securityContext.capabilities.add -
END
    mapfile -t paths < <(cut -d ' ' -f 1 expected)
    manifest get job.yaml "${paths[@]}" | paste -d ' ' <(printf '%s\n' "${paths[@]}") - | diff expected -
    head -n 3 job.yaml
    [ "$(sed -n '1,3s/^#.*/#/p' job.yaml)" = $'#\n#\n#' ]
    grep -q '^# .*Operator 0.5 or later' job.yaml
    grep -q '^# Must exist: the claim data .*nvidia.com/gpu, vpc.amazonaws.com/efa' job.yaml
    # Names that YAML would read as something else.
    mpijob --name "null" --namespace "true" --claim "1e3" -- train >job.yaml
    [ "$(manifest get job.yaml metadata)" = "{'name': 'null', 'namespace': 'true'}" ]
    mpijob --regress -- --suite quick >job.yaml
    run manifest get job.yaml spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.command
    [ "$output" = "['regress.sh', 'run', '--suite', 'quick', '--results', '/shared/results']" ]
}

@test "arguments arrive unchanged" {
    need_python
    words=(bench 'a b' '"quoted"' "it's" $'two\nlines' $'\ttab\x01\x7f' 'back\slash' '$HOME $(HOME) $$ $' '{{x}}' '# no' '- no' '' 'ä€' 'null' '1e3')
    mpijob -- "${words[@]}" >job.yaml
    printf '%s\0' run.sh -- "${words[@]}" >expected
    manifest command job.yaml Launcher >found
    cmp expected found
    run mpijob -- train $'\xff'
    [[ "$status" -eq 2 && "$output" == *"is not UTF-8"* ]]
    # dptrain without a command trains; an argument with an option's name in it is none.
    mpijob -- --name 'a --out b' >job.yaml
    [ "$(manifest command job.yaml Launcher | tr '\0' ' ')" = "run.sh -- --name a --out b --out runs/dptrain --resume auto " ]
    # Options of train are not given twice.
    mpijob -- train --out=/shared/x --resume none >job.yaml
    [ "$(manifest command job.yaml Launcher | tr '\0' ' ')" = "run.sh -- train --out=/shared/x --resume none " ]
}

@test "bad input is named" {
    long=$(printf 'a%.0s' {1..54})
    mpijob --name "$long" -- train >/dev/null
    mpijob --name "$long" --workers 10 -- train >/dev/null
    while IFS='|' read -r words message; do
        # shellcheck disable=SC2086 # these are words
        run mpijob $words -- train
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$message"* ]]
    done <<END
--name First|invalid --name 'First': expected a DNS label
--name a.b|invalid --name 'a.b'
--name 1st|must begin with a letter
--name ${long}a|the host name ${long}a-worker-0 would be longer than 63 characters
--name $long --workers 11|the host name $long-worker-10 would be longer than 63 characters
--namespace a_b|invalid --namespace 'a_b'
--workers 0|invalid --workers '0': expected a whole number, at least 1
--gpus 4 --slots 8|--slots 8 is more than --gpus 4
--efa 1 --hugepages 0|--efa 1 needs huge pages
--hugepages 3Mi|expected a multiple of 2Mi
--memory 64GB|Kubernetes writes 64G (powers of 1000) or 64Gi (powers of 1024)
--memory 64gb|Kubernetes writes 64G (powers of 1000) or 64Gi (powers of 1024)
--memory 8|invalid --memory '8': a worker needs at least 256Mi
--memory 8Gi --shm 8Gi|--shm 8Gi must be less than --memory 8Gi
--shm 0|invalid --shm '0'
--memory 1e10|expected a Kubernetes quantity
--memory 99999999Pi|expected at most 1024Pi
--cpu all|expected a number of CPUs such as 8, 7.5 or 500m
--cpu 0|expected a number of CPUs
--cpu 4Gi|expected a number of CPUs
--cpu 0.5m|expected a number of CPUs
--mount-path data|expected an absolute path
--mount-path /a/../b|expected an absolute path
--mount-path /|would hide a folder
--mount-path /dev/shm|would hide a folder
--mount-path /home/mpiuser/.ssh/|would hide a folder
--mount-path //opt/dptrain|would hide a folder
--node-selector gpu|expected LABEL=VALUE
--node-selector gpu=a/b|is not a label's value
--node-selector a..b/gpu=a|is not a label
--node-selector gpu=a --node-selector gpu=b|--node-selector gpu is given twice
--toleration gpu:Never|the effect is NoSchedule, PreferNoSchedule or NoExecute
--image a:1;b|invalid --image
--image registry/Dptrain|in lower case up to the tag
--image registry/dptrain:|invalid --image
--no-such-option|unknown option '--no-such-option'
word|unexpected argument 'word'
END
    run "$root/scripts/mpijob.sh" --image a -- train
    [[ "$status" -eq 2 && "$output" == *"--claim is missing"* ]]
    run "$root/scripts/mpijob.sh" --claim a -- train
    [[ "$status" -eq 2 && "$output" == *"--image is missing"* ]]
    run mpijob --regress -- train
    [[ "$status" -eq 2 && "$output" == *"unexpected argument 'train': regress.sh run takes options only"* ]]
    run mpijob
    [[ "$status" -eq 2 && "$output" == *"nothing to run"* ]]
    run "$root/scripts/mpijob.sh" --help
    [[ "$status" -eq 0 && "$output" == "usage: scripts/mpijob.sh"* ]]
}
