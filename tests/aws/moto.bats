#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# aws.sh with ParallelCluster and the aws command themselves, against a moto server on the loopback interface: no call leaves this
# machine. Only with scripts/test.sh --slow, and after scripts/install_deps.sh --aws.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # public and private: moto.py

# shellcheck source=tests/cluster/slurm.bash
. "$BATS_TEST_DIRNAME/../cluster/slurm.bash"

# ParallelCluster's checks that moto cannot answer: it wants a disk in a dry run of RunInstances, and does not tell a key's type.
suppressed=(--suppress HeadNodeLaunchTemplateValidator --suppress ComputeResourceLaunchTemplateValidator --suppress KeyPairValidator)

moto_why() {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || { echo "takes minutes: scripts/test.sh --slow"; return; }
    "$venv/bin/pcluster" version >/dev/null 2>&1 || echo "no ParallelCluster here (scripts/install_deps.sh --aws)"
}

setup_file() {
    local i
    export root venv moto_missing moto_pid moto=$BATS_FILE_TMPDIR
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    venv=${DPTRAIN_AWS_VENV:-$root/build/venv-aws}
    moto_missing=$(moto_why)
    [[ -z $moto_missing ]] || return 0
    # Nothing of the user's account: a request that missed the server would fail.
    export HOME=$moto AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=not-a-real-secret AWS_EC2_METADATA_DISABLED=true
    unset AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_SESSION_TOKEN
    python "$root/tests/aws/moto.py" image "$moto/images.json"
    for ((i = 0; i < 20; i++)); do
        export AWS_ENDPOINT_URL=http://127.0.0.1:$((21000 + RANDOM % 9000))
        MOTO_AMIS_PATH=$moto/images.json "$venv/bin/moto_server" -H 127.0.0.1 -p "${AWS_ENDPOINT_URL##*:}" >"$moto/server.log" 2>&1 3>&- &
        moto_pid=$!
        if moto_answers; then break; fi
    done
    moto_py account >"$moto/account"
}

# Fails if the server has ended, for instance because its port was taken.
moto_answers() {
    local i
    for ((i = 0; i < 600; i++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/${AWS_ENDPOINT_URL##*:}") 2>/dev/null; then kill -0 "$moto_pid"; return; fi
        kill -0 "$moto_pid" 2>/dev/null || return 1
        sleep 0.2
    done
    return 1
}

python() { "$venv/bin/python" "$@"; }

moto_py() { python "$root/tests/aws/moto.py" "$@"; }

teardown_file() {
    [[ -z ${moto_pid:-} ]] || kill "$moto_pid" 2>/dev/null || true
}

setup() {
    [[ -z $moto_missing ]] || skip "$moto_missing"
    cd "$BATS_TEST_TMPDIR" || return
    # shellcheck source=/dev/null
    . <(tr ' ' '\n' <"$moto/account")
    config=(config --region us-east-1 --workers 2 --key me --ssh-from 203.0.113.7/32 --subnets "$public,$private" --bucket lab-bucket/lab)
}

aws_sh() { "$root/scripts/aws.sh" "$@"; }

# Puts a script for the nodes into the bucket, which ParallelCluster looks for.
node_script() {
    "$venv/bin/aws" --region us-east-1 s3 cp --only-show-errors "$root/scripts/aws/node.sh" s3://lab-bucket/lab/node.sh
}

@test "ParallelCluster accepts what config prints: p4d, p5 and c5n, with EFA; also with Lustre and spot" {
    node_script
    while read -r type words; do
        # shellcheck disable=SC2086 # these are words
        aws_sh "${config[@]}" --type "$type" $words >"$type.yaml"
        grep -A 1 'Efa:' "$type.yaml" | grep -q 'Enabled: true'
        run aws_sh check --config "$type.yaml" "${suppressed[@]}"
        echo "$type: $output"
        [[ "$status" -eq 0 && "$output" == *"ParallelCluster would create the cluster dptrain in us-east-1"* && "$output" != *" error: "* ]]
    done <<'END'
p4d.24xlarge
p5.48xlarge --lustre 2400
c5n.18xlarge --spot --head c5.xlarge
END
    # Without --suppress these three, and no other, are refused.
    run aws_sh check --config c5n.18xlarge.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"refuses c5n.18xlarge.yaml: 3 errors"* ]]
    for ((i = 1; i < ${#suppressed[@]}; i += 2)); do [[ "$output" == *"(${suppressed[i]})"* ]]; done
}

@test "ParallelCluster refuses g5.xlarge with EFA, an unknown subnet, a wrong CIDR; the messages are printed as ours" {
    node_script
    aws_sh "${config[@]}" --type g5.xlarge >good.yaml
    grep -A 1 'Efa:' good.yaml | grep -q 'Enabled: false'
    run aws_sh check --config good.yaml "${suppressed[@]}"
    [ "$status" -eq 0 ]
    while IFS='|' read -r change message; do
        sed -E "$change" good.yaml >bad.yaml
        ! cmp -s good.yaml bad.yaml
        run aws_sh check --config bad.yaml "${suppressed[@]}"
        echo "$change: $output"
        [ "$status" -eq 1 ]
        [[ "$output" == *"aws.sh: error: "*"$message"* && "$output" == *"ParallelCluster refuses bad.yaml: "* ]]
    done <<'END'
s/Enabled: false/Enabled: true/|does not support EFA
s/SubnetId: subnet-.*/SubnetId: subnet-00000000000000000/|subnet-00000000000000000
s#AllowedIps: .*#AllowedIps: 203.0.113.0/33#|203.0.113.0/33
END
}

@test "what AWS answers to bad input is told in our words" {
    while IFS='|' read -r words message; do
        # shellcheck disable=SC2086 # these are words
        run aws_sh "${config[@]}" --type c5n.18xlarge $words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$message"* ]]
    done <<'END'
--region us-east-9|unknown --region 'us-east-9'
--type c5n.huge|unknown --type 'c5n.huge' in us-east-1
--type m6g.large|has the architecture arm64
--type c5n.large --efa yes|c5n.large has no EFA
--key nobody|no key pair 'nobody' in us-east-1
--subnets subnet-00000000000000000|no subnet subnet-00000000000000000
--bucket absent-bucket/lab|no bucket 'absent-bucket': aws s3 mb
--bucket far-bucket/lab|the bucket far-bucket is in eu-west-1, and not in us-east-1
--efs fs-0123456789abcdef0|no file system 'fs-0123456789abcdef0'
END
    echo x >dptrain-1.tar.gz
    run aws_sh put --region us-east-1 --bucket absent-bucket/lab --bundle dptrain-1.tar.gz
    [[ "$status" -eq 2 && "$output" == *"no bucket 'absent-bucket'"* ]]
    run env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$root/scripts/aws.sh" "${config[@]}" --type c5n.18xlarge
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"no credentials: aws configure"* ]]
}

@test "put, killed and repeated: contents are equal, unfinished uploads are gone, and the nodes read it" {
    mkdir -p data/set/sub
    for ((i = 0; i < 12; i++)); do head -c 200000 /dev/urandom >"data/set/sub/file $i"; done
    head -c 60000000 /dev/urandom >data/set/large
    mkdir -p dptrain-9-x86_64
    printf '#!/bin/sh\necho dptrain 9\n' >dptrain-9-x86_64/dptrain
    chmod +x dptrain-9-x86_64/dptrain
    tar -czf dptrain-9-x86_64.tar.gz dptrain-9-x86_64
    put=(put --region us-east-1 --bucket lab-bucket/put --bundle dptrain-9-x86_64.tar.gz --data data/set)
    # Slow enough to be killed in the middle.
    printf '%s\n' '[default]' 's3 =' '  max_bandwidth = 500KB/s' >slow.conf
    AWS_CONFIG_FILE=$PWD/slow.conf setsid "$root/scripts/aws.sh" "${put[@]}" >first.out 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 3000; i++)); do
        grep -qE 'PUT /lab-bucket/put/data/set/' "$moto/server.log" && break
        kill -0 "$job"
        sleep 0.02
    done
    kill -KILL -- "-$job"
    wait "$job" || true
    cat first.out
    [ "$(moto_py keys lab-bucket | grep -c '^put/data/set/')" -lt 13 ]
    [ "$(moto_py keys lab-bucket | grep -c 'set.SHA256SUMS')" -eq 0 ]
    moto_py upload lab-bucket put/data/set/large
    run aws_sh "${put[@]}"
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"aborted "*" unfinished uploads"* && "$output" == *"dptrain-9-x86_64.tar.gz is there"* ]]
    run moto_py compare lab-bucket put/data/set data/set
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$(moto_py uploads lab-bucket)" ]
    export DPTRAIN_SHARED=$PWD/shared DPTRAIN_NODE_LOG=$PWD/node.log PATH=$venv/bin:$PATH
    mkdir shared
    "$root/scripts/aws/node.sh" head s3://lab-bucket/put "$(id -un)"
    [ "$("$DPTRAIN_SHARED/dptrain/dptrain")" = "dptrain 9" ]
    "$root/scripts/aws/node.sh" data s3://lab-bucket/put set
    diff -r -x .SHA256SUMS data/set "$DPTRAIN_SHARED/data/set"
    # The same size, and older than the copy.
    printf x | dd of='data/set/sub/file 7' conv=notrunc status=none
    touch -d 2020-01-01 'data/set/sub/file 7'
    aws_sh "${put[@]}"
    moto_py compare lab-bucket put/data/set data/set
}

@test "status of a cluster, and a name that is taken" {
    moto_py cluster first 4
    run aws_sh status --region us-east-1 --name first
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"cluster  first in us-east-1: CREATE_COMPLETE"* && "$output" == *"c5.2xlarge (i-"*") running, ssh ubuntu@"* ]]
    [[ "$output" == *"workers  3 of 4 are up"* && "$output" == *"/shared  EFS fs-"*": available, 0.0 GB"* ]]
    [ "$(grep -c ' running 10\.\| running 172\.' <<<"$output")" -eq 3 ]
    node_script
    aws_sh "${config[@]}" --type c5n.18xlarge >c.yaml
    run aws_sh up --config c.yaml --name first --yes "${suppressed[@]}"
    [[ "$status" -eq 2 && "$output" == *"--name first is taken: there is a stack of this name (CREATE_COMPLETE)"* ]]
}

@test "from the bucket to a running and resumed job: bundle, put, node.sh, Slurm" {
    why=$(slurm_why)
    [[ -z $why ]] || skip "$why"
    CUDA=0 "$root/scripts/bundle.sh" --out "$PWD/dptrain-0-x86_64.tar.gz"
    mkdir -p data shared
    "${DPTRAIN_BIN:-$root/dptrain}" data synth digits --out data/digits --train 300 --val 64
    aws_sh put --region us-east-1 --bucket lab-bucket/job --bundle dptrain-0-x86_64.tar.gz --data data/digits
    export DPTRAIN_SHARED=$PWD/shared DPTRAIN_NODE_LOG=$PWD/node.log
    PATH=$venv/bin:$PATH "$root/scripts/aws/node.sh" head s3://lab-bucket/job "$(id -un)"
    PATH=$venv/bin:$PATH "$root/scripts/aws/node.sh" data s3://lab-bucket/job digits
    export DPTRAIN_BIND=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DPTRAIN_HOME=$PWD/shared/dptrain
    export DPTRAIN_STAGE=$PWD/shared/data/digits:$PWD/scratch/digits
    unset DPTRAIN_BIN
    cd shared/work
    # shellcheck disable=SC2119 # without a second node
    slurm_up
    job=$(sbatch --parsable --nodes=1-2 --ntasks=2 --time=10 "$DPTRAIN_HOME/scripts/dptrain.sbatch" train --model mlp --batch 20 \
        --threads 1 --algorithms fixed --lr 0.01 --data "$BATS_TEST_TMPDIR/scratch/digits" --epochs 200)
    wait_line '^epoch 2 '
    scancel --signal=USR1 --batch "$job"
    wait_line "requeueing job $job (code 0, restart 1)"
    wait_line '^finished after 3000 steps'
    slurm_down
    grep -q "digits is complete" "dptrain-$job.out"
    grep -q "resumed from runs/slurm-$job/.* at step" "dptrain-$job.out"
}

# Waits for a line of the job's output.
wait_line() { # PATTERN
    local i
    for ((i = 0; i < 900; i++)); do
        if grep -qs -- "$1" "dptrain-$job.out"; then return 0; fi
        # A requeued job waits for a while first.
        if [[ $(slurm_job "$job" Reason) == BeginTime ]]; then scontrol update "JobId=$job" StartTime=now && sleep 3; fi
        sleep 0.2
    done
    cat "dptrain-$job.out"
    slurm_down
    return 1
}
