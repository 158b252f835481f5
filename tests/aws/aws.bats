#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# aws.sh with recorders in place of aws and pcluster: what it prints and calls, and that bad input stops it before a call that
# changes something.
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # variables of recorders.bash

load recorders
# shellcheck source=tests/cli/terminal.bash
load ../cli/terminal

setup() { recorders_up; }

@test "help of every command, and errors in its options, without any call" {
    run aws_sh --help
    [[ "$status" -eq 0 && "$output" == "usage: scripts/aws.sh COMMAND"* ]]
    for verb in config check put up status down; do
        run aws_sh $verb --help
        [[ "$status" -eq 0 && "$output" == "usage: scripts/aws.sh $verb "* ]]
        run aws_sh $verb --no-such-option
        [[ "$status" -eq 2 && "$output" == *"'--no-such-option' of $verb"* ]]
        run aws_sh $verb word
        [[ "$status" -eq 2 && "$output" == *"unexpected argument 'word'"* ]]
        run aws_sh $verb
        [[ "$status" -eq 2 && "$output" == *" is missing"* ]]
    done
    run aws_sh start
    [[ "$status" -eq 2 && "$output" == *"unknown command 'start'"* ]]
    echo 'Region: us-east-1' >c.yaml
    touch dptrain-1.tar.gz
    mkdir empty 'two words'
    touch 'two words/file'
    while IFS='|' read -r words message; do
        # shellcheck disable=SC2086 # these are words
        run aws_sh $words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$message"* ]]
    done <<END
${config[*]} --workers 0|invalid --workers '0': expected a whole number, at least 1
${config[*]} --ssh-from 0.0.0.0/0|lets the whole internet reach the head node's sshd
${config[*]} --ssh-from 10.1.2.3/0 --open|has bits behind /0
${config[*]} --ssh-from 10.1.2.3/8|has bits behind /8; for one address write /32
${config[*]} --ssh-from 10.1.2.300/32|invalid --ssh-from
${config[*]} --ssh-from 10.1.2.3|invalid --ssh-from
${config[*]} --ssh-from 10.1.2.3/33|invalid --ssh-from
${config[*]} --type large|invalid --type 'large'
${config[*]} --head p5|invalid --head 'p5'
${config[*]} --subnets a,b|invalid --subnets
${config[*]} --subnets subnet-0a1b2c3d,subnet-0e0f1011,subnet-0e0f1012|invalid --subnets
${config[*]} --bucket data-1|invalid --bucket 'data-1': expected BUCKET/PREFIX
${config[*]} --bucket Data/lab|invalid --bucket
${config[*]} --bucket data-1/../x|invalid --bucket
${config[*]} --efs shared|invalid --efs
${config[*]} --efa maybe|invalid --efa
${config[*]} --lustre 1000|invalid --lustre '1000': expected 1200, or a multiple of 2400
${config[*]} --key a"b|invalid --key
${config[*]} --region mars|invalid --region 'mars'
check --config none.yaml|no such file
check --config c.yaml --region eu-west-1|--region is eu-west-1, but c.yaml is for us-east-1
check --config c.yaml --name 1st|invalid --name
up --config c.yaml --name first|--yes is missing: there is no terminal
down --name first|--yes is missing
put --bucket data-1/lab --bundle none.tar.gz|scripts/bundle.sh makes it
put --bucket data-1/lab --bundle c.yaml|expected the tarball of scripts/bundle.sh
put --bucket data-1/lab --bundle dptrain-1.tar.gz --data none|no such folder
put --bucket data-1/lab --bundle dptrain-1.tar.gz --data empty|the folder is empty
END
    run aws_sh put --bucket data-1/lab --bundle dptrain-1.tar.gz --data 'two words'
    [[ "$status" -eq 2 && "$output" == *"invalid --data"* ]]
    mkdir -p a/x b/x && touch {a,b}/x/file
    run aws_sh put --bucket data-1/lab --bundle dptrain-1.tar.gz --data a/x --data b/x
    [[ "$status" -eq 2 && "$output" == *"two folders are called x"* ]]
    [ ! -s "$CALLS" ]
    # Without the tools.
    mkdir small
    for tool in bash dirname readlink cat find; do ln -s "$(command -v $tool)" small/; done
    DPTRAIN_AWS_VENV=none PATH=$PWD/small run aws_sh "${config[@]}"
    [[ "$status" -eq 4 && "$output" == *"aws was not found; scripts/install_deps.sh --aws installs it"* ]]
}

# Changes an answer, runs the command, and puts the answer back.
refused() { # OPERATION CODE TEXT WORDS...
    cp "$ANSWERS/$1" kept
    if [[ $2 == - ]]; then answer "$1" "$3"; else fails "$1" "$2" "$3"; fi
    run aws_sh "${@:4}"
    echo "$1 $2: $output"
    mv kept "$ANSWERS/$1"
    [[ "$output" != *no\ answer\ for* ]] && nothing_done
}

@test "credentials, region, type, key, subnets, bucket and file system are asked for before anything is done" {
    run aws_sh "${config[@]}"
    [ "$status" -eq 0 ]
    answer sts.get-caller-identity 'error Unable to locate credentials. You can configure credentials by running "aws configure".'
    touch dptrain-1.tar.gz
    echo 'Region: us-east-1' >c.yaml
    for words in "${config[*]}" "check --config c.yaml" "up --config c.yaml --name first --yes" "status --name first --region us-east-1" \
        "down --name first --yes --region us-east-1" "put --bucket data-1/lab --region us-east-1 --bundle dptrain-1.tar.gz"; do
        # shellcheck disable=SC2086 # these are words
        run aws_sh $words
        echo "$words: $output"
        [[ "$status" -eq 4 && "$output" == *"no credentials: aws configure"* ]]
    done
    answer sts.get-caller-identity 123456789012
    refused sts.get-caller-identity ExpiredToken "The security token included in the request is expired" "${config[@]}"
    [[ "$status" -eq 4 && "$output" == *"the credentials have expired"* ]]
    refused sts.get-caller-identity InvalidClientTokenId "The security token included in the request is invalid." "${config[@]}"
    [[ "$status" -eq 4 && "$output" == *"AWS does not know these credentials"* ]]
    refused ec2.describe-regions InvalidParameterValue "Invalid region: us-east-9" "${config[@]}" --region us-east-9
    [[ "$status" -eq 2 && "$output" == *"unknown --region 'us-east-9'"* ]]
    refused ec2.describe-regions - not-opted-in "${config[@]}"
    [[ "$status" -eq 2 && "$output" == *"is not enabled in this account"* ]]
    refused ec2.describe-instance-types InvalidInstanceType "The following supplied instance types do not exist: [p9.large]" "${config[@]}" --type p9.large
    [[ "$status" -eq 2 && "$output" == *"unknown --head"* ]]
    refused ec2.describe-instance-types - $'True\tarm64\tNone\tNone\t64\tNone\tTrue' "${config[@]}"
    [[ "$status" -eq 2 && "$output" == *"has the architecture arm64"* ]]
    refused ec2.describe-instance-types - $'False\tx86_64\t1\tA10G\t4\t250\tTrue' "${config[@]}" --type g5.xlarge --efa yes
    [[ "$status" -eq 2 && "$output" == *"--efa yes: g5.xlarge has no EFA"* ]]
    refused ec2.describe-instance-types - $'True\tx86_64\tNone\tNone\t192\tNone\tFalse' "${config[@]}" --type hpc7a.96xlarge --spot
    [[ "$status" -eq 2 && "$output" == *"--spot: hpc7a.96xlarge has no spot instances"* ]]
    refused ec2.describe-key-pairs InvalidKeyPair.NotFound "The key pair 'me' does not exist" "${config[@]}"
    [[ "$status" -eq 2 && "$output" == *"no key pair 'me' in us-east-1"* ]]
    refused ec2.describe-subnets InvalidSubnetID.NotFound "The subnet ID 'subnet-0e0f1011' does not exist" "${config[@]}"
    [[ "$status" -eq 2 && "$output" == *"no subnet subnet-0e0f1011"* ]]
    refused ec2.describe-subnets - $'subnet-0a1b2c3d\tvpc-1\ta\nsubnet-0e0f1011\tvpc-2\tb' "${config[@]}"
    [[ "$status" -eq 2 && "$output" == *"are in different networks"* ]]
    for words in "${config[*]}" "put --bucket data-1/lab --region us-east-1 --bundle dptrain-1.tar.gz"; do
        # shellcheck disable=SC2086 # these are words
        refused s3api.get-bucket-location NoSuchBucket "The specified bucket does not exist" $words
        [[ "$status" -eq 2 && "$output" == *"no bucket 'data-1': aws s3 mb"* ]]
        # shellcheck disable=SC2086 # these are words
        refused s3api.get-bucket-location AccessDenied "Access Denied" $words
        [[ "$status" -eq 2 && "$output" == *"belongs to another account than 123456789012"* ]]
        # shellcheck disable=SC2086 # these are words
        refused s3api.get-bucket-location - eu-central-1 $words
        [[ "$status" -eq 2 && "$output" == *"the bucket data-1 is in eu-central-1, and not in us-east-1"* ]]
    done
    # The owner is asked for.
    grep -q 'get-bucket-location --bucket data-1 --expected-bucket-owner 123456789012' "$CALLS"
    fails efs.describe-mount-targets FileSystemNotFound "File system 'fs-01234567' does not exist."
    run aws_sh "${config[@]}" --efs fs-01234567
    [[ "$status" -eq 2 && "$output" == *"no file system 'fs-01234567'"* ]]
    refused ec2.describe-key-pairs UnauthorizedOperation "You are not authorized to perform this operation." "${config[@]}"
    [[ "$status" -eq 4 && "$output" == *"these credentials may not call ec2 describe-key-pairs"* ]]
}

@test "a name that is taken, and a stack that failed, whose first failed resource is named" {
    aws_sh "${config[@]}" >c.yaml
    answer cloudformation.describe-stacks CREATE_COMPLETE
    for words in "check --config c.yaml --name first" "up --config c.yaml --name first --yes"; do
        # shellcheck disable=SC2086 # these are words
        run aws_sh $words
        echo "$output"
        [[ "$status" -eq 2 && "$output" == *"--name first is taken"*"(CREATE_COMPLETE)"* ]]
    done
    answer cloudformation.describe-stacks ROLLBACK_COMPLETE
    # The newest comes first.
    answer cloudformation.describe-stack-events $'first\tAWS::CloudFormation::Stack\tgave up\nWaitCondition\tAWS::CloudFormation::WaitCondition\tlate
HeadNode\tAWS::EC2::Instance\tYou have requested more vCPU capacity than your limit'
    run aws_sh up --config c.yaml --name first --yes
    echo "$output"
    [[ "$status" -eq 2 && "$output" == *"The first resource to fail was HeadNode (AWS::EC2::Instance): You have requested more vCPU"* ]]
    [[ "$output" == *"scripts/aws.sh down --region us-east-1 --name first"* ]]
    nothing_done
}

@test "config: the text, as the options say it" {
    run aws_sh "${config[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    printf '%s\n' "$output" >c.yaml
    while IFS= read -r line; do
        grep -qxF -- "$line" c.yaml || { echo "missing: $line"; return 1; }
    done <<'END'
# A worker has 192 vCPUs, 8 GPUs (H100), 30400 GB of local disks as /scratch.
Region: us-east-1
    SubnetId: subnet-0a1b2c3d
          - subnet-0e0f1011
    KeyName: "me"
    AllowedIps: 203.0.113.7/32
  ScalingStrategy: best-effort
      CapacityType: ONDEMAND
      JobExclusiveAllocation: true
        PlacementGroup:
          InstanceType: p5.48xlarge
          MinCount: 0
          MaxCount: 4
            Enabled: true
            MountDir: /scratch
      DeletionPolicy: Retain
        KeyName: "lab/*"
            KeyName: "lab/*"
      Script: "s3://data-1/lab/node.sh"
    Value: "data-1/lab"
END
    # It may read there, and write nowhere.
    [ "$(grep -c 'BucketName: "data-1"' c.yaml)" -eq 2 ]
    lacks 'EnableWriteAccess|FsxLustre|AdditionalSecurityGroups|SPOT' c.yaml
    answer ec2.describe-instance-types $'False\tx86_64\tNone\tNone\t16\tNone\tTrue'
    answer efs.describe-mount-targets fsmt-1
    answer efs.describe-mount-target-security-groups sg-0123
    aws_sh "${config[@]}" --type c6i.4xlarge --subnets subnet-0a1b2c3d --spot --lustre 2400 --efs fs-01234567 --ssh-from 0.0.0.0/0 --open >d.yaml
    cat d.yaml
    while IFS= read -r line; do
        grep -qxF -- "$line" d.yaml || { echo "missing: $line"; return 1; }
    done <<'END'
# A worker has 16 vCPUs.
    SubnetId: subnet-0a1b2c3d
          - subnet-0a1b2c3d
    AdditionalSecurityGroups:
      - sg-0123
          - sg-0123
    AllowedIps: 0.0.0.0/0
      CapacityType: SPOT
            Enabled: false
      FileSystemId: fs-01234567
      StorageCapacity: 2400
      ImportPath: "s3://data-1/lab"
END
    lacks 'scratch|Retain' d.yaml
    # The region of the profile.
    answer configure.get eu-west-1
    answer s3api.get-bucket-location EU
    words=(config "${config[@]:3}")
    run aws_sh "${words[@]}"
    [[ "$status" -eq 0 && "$output" == *"Region: eu-west-1"* ]]
}

@test "check: findings are printed as ours; errors end with 1" {
    aws_sh "${config[@]}" >c.yaml
    run aws_sh check --config c.yaml --suppress KeyPairValidator --suppress OtherValidator
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"ParallelCluster would create the cluster dptrain in us-east-1"* ]]
    grep -q 'pcluster create-cluster --cluster-name dptrain --cluster-configuration c.yaml --dryrun true --suppress-validators type:KeyPairValidator type:OtherValidator --region us-east-1' "$CALLS"
    cat >"$ANSWERS/create-cluster" <<'END'
{ "FAIL": true,
  "configurationValidationErrors": [
    {
      "level": "WARNING",
      "type": "FirstValidator",
      "message": "the \"first\" one"
    },
    {
      "level": "ERROR",
      "type": "SecondValidator",
      "message": "the second one"
    }
  ],
  "message": "Invalid cluster configuration."
}
END
    run aws_sh check --config c.yaml
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *'aws.sh: warning: the "first" one (FirstValidator)'* ]]
    [[ "$output" == *"aws.sh: error: the second one (SecondValidator)"* ]]
    [[ "$output" == *"ParallelCluster refuses c.yaml: 1 errors"* ]]
    # up does not go on.
    run aws_sh up --config c.yaml --name first --yes
    [ "$status" -eq 1 ]
    nothing_done
    answer create-cluster 'error node: command not found'
    run aws_sh check --config c.yaml
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"pcluster gave no answer: node: command not found"* ]]
}

@test "up prints what runs and what is billed, asks, and creates the cluster once" {
    aws_sh "${config[@]}" --spot --lustre 1200 >c.yaml
    run aws_sh up --config c.yaml --name first --yes
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"head      1 c5.2xlarge, on demand"* && "$output" == *"workers   0 to 4 p5.48xlarge, spot"* ]]
    [[ "$output" == *"a new EFS, which stays"* && "$output" == *"FSx for Lustre, 1200 GiB"* && "$output" == *"Billed: "* ]]
    [ "$(grep -c 'pcluster create-cluster' "$CALLS")" -eq 2 ]
    [ "$(grep -c 'pcluster create-cluster.*dryrun' "$CALLS")" -eq 1 ]
    : >"$CALLS"
    # On a terminal, with the wrong answer.
    need_terminal
    run timeout 60 script -qec "$root/scripts/aws.sh up --config c.yaml --name first" /dev/null <<<"no"
    echo "$output"
    [[ "$output" == *"create the cluster first? Type yes:"*"nothing was done"* ]]
    nothing_done
}

@test "put: bundle, script, data, and the lists last; what is there is not copied again" {
    mkdir -p data/mnist/sub
    echo one >data/mnist/a
    echo two >'data/mnist/sub/b c'
    echo program >dptrain-1.0-x86_64.tar.gz
    put=(put --region us-east-1 --bucket data-1/lab --bundle dptrain-1.0-x86_64.tar.gz --data data/mnist)
    answer s3api.list-multipart-uploads $'lab/data/mnist/a\tid-1'
    answer s3api.abort-multipart-upload ''
    run aws_sh "${put[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"aborted 1 unfinished uploads"* ]]
    grep -q 'abort-multipart-upload --bucket data-1 --key lab/data/mnist/a --upload-id id-1' "$CALLS"
    grep -q 'list-multipart-uploads --bucket data-1 --prefix lab/' "$CALLS"
    (cd "$bucket_folder" && sha256sum --quiet -c SHA256SUMS)
    (cd "$bucket_folder/data/mnist" && sha256sum --quiet -c ../mnist.SHA256SUMS && [ "$(find . -type f | wc -l)" -eq 2 ])
    cmp "$bucket_folder/node.sh" "$root/scripts/aws/node.sh"
    # The lists are the last ones.
    grep -E ' s3 (cp|sync) ' "$CALLS" | grep -v ' s3 cp --only-show-errors s3://' | tail -n 1 | grep -q 'mnist.SHA256SUMS'
    answer s3api.list-multipart-uploads None
    : >"$CALLS"
    # Of the same size, and older: sync would not see it.
    echo six >data/mnist/a
    run aws_sh "${put[@]}"
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"dptrain-1.0-x86_64.tar.gz is there"*"node.sh is there"* ]]
    [ "$(grep -c ' s3 cp --only-show-errors /.*s3://' "$CALLS")" -eq 2 ]
    grep -q " s3 cp --only-show-errors $PWD/data/mnist/a s3://data-1/lab/data/mnist/a\$" "$CALLS"
    # Interrupted: no list.
    answer s3.sync 'error upload failed: Could not connect to the endpoint URL'
    echo ten >data/mnist/a
    run aws_sh "${put[@]}"
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"give the same command to go on with the missing files"* ]]
    run bash -c "cd $bucket_folder/data/mnist && sha256sum --quiet -c ../mnist.SHA256SUMS"
    [ "$status" -eq 0 ]
    printf 'a\nb' >$'data/mnist/new\nline'
    run aws_sh "${put[@]}"
    [[ "$status" -eq 2 && "$output" == *"a newline or a backslash"* ]]
}

@test "status: cluster, head, workers of those asked for, file systems; the failed resource" {
    answer cloudformation.describe-stacks 4
    answer ec2.describe-instances $'running\ti-1\t203.0.113.9\tc5.2xlarge'
    answer cloudformation.list-stack-resources fs-01234567
    answer efs.describe-file-systems $'available\t12000000000'
    answer fsx.describe-file-systems $'AVAILABLE\t1200'
    run aws_sh status --name first --region us-east-1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"head     c5.2xlarge (i-1) running, ssh ubuntu@203.0.113.9"* ]]
    [[ "$output" == *"workers  1 of 4 are up"* && "$output" == *"EFS fs-01234567: available, 12.0 GB"* ]]
    grep -q 'tag:parallelcluster:node-type,Values=Compute' "$CALLS"
    answer cloudformation.describe-stacks CREATE_FAILED
    answer ec2.describe-instances ''
    answer cloudformation.list-stack-resources None
    answer cloudformation.describe-stack-events $'HeadNode\tAWS::EC2::Instance\tno capacity'
    run aws_sh status --name first --region us-east-1
    echo "$output"
    [[ "$status" -eq 1 && "$output" == *"the first resource to fail: HeadNode (AWS::EC2::Instance): no capacity"*"head     none yet"* ]]
    missing_stack
    run aws_sh status --name first --region us-east-1
    [[ "$status" -eq 1 && "$output" == *"there is no cluster first in us-east-1"* ]]
    nothing_done
}

@test "down deletes the cluster, and says what stays and how to remove it" {
    answer cloudformation.describe-stacks data-1/lab
    answer cloudformation.list-stack-resources fs-01234567
    answer delete-cluster '{}'
    run aws_sh down --name first --region us-east-1 --yes
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q 'pcluster delete-cluster --cluster-name first --region us-east-1' "$CALLS"
    [[ "$output" == *"EFS fs-01234567 stays"*"aws efs delete-file-system --region us-east-1 --file-system-id fs-01234567"* ]]
    [[ "$output" == *"aws s3 rm --region us-east-1 --recursive s3://data-1/lab"* ]]
    answer delete-cluster 'error boom'
    run aws_sh down --name first --region us-east-1 --yes
    [[ "$status" -eq 4 && "$output" == *"could not delete the cluster"* ]]
}

@test "secrets are never printed, nor passed as arguments" {
    export AWS_ACCESS_KEY_ID=AKIAABCDEFGHIJKLMNOP AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY AWS_SESSION_TOKEN=FwoGZXIvYXdzEBYaDHqa0AP
    other=aJalrXUtnFEMI/K7MDENG/bPxRfiCYaaAMPLEaEa
    text="bad $AWS_SECRET_ACCESS_KEY $AWS_SESSION_TOKEN $AWS_ACCESS_KEY_ID of https://x?X-Amz-Signature=0123abcd&a=1 $other"
    aws_sh "${config[@]}" >c.yaml
    fails sts.get-caller-identity Other "$text"
    run aws_sh "${config[@]}"
    [[ "$status" -eq 4 && "$output" == *"AWS does not answer"*"(hidden) (hidden) (hidden) of https://x?X-Amz-Signature=(hidden)&a=1 (hidden)"* ]]
    answer sts.get-caller-identity 123456789012
    answer create-cluster "error $text"
    run aws_sh check --config c.yaml
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"(hidden) (hidden) (hidden)"* ]]
    printf '{ "FAIL": 1,\n      "level": "ERROR",\n      "type": "A",\n      "message": "%s"\n}\n' "$text" >"$ANSWERS/create-cluster"
    run aws_sh check --config c.yaml
    [[ "$status" -eq 1 && "$output" == *"(hidden) (hidden) (hidden)"* ]]
    printf '%s\n' "$output" >said
    lacks 'wJalr|FwoG|AKIA|aJalr' said c.yaml "$CALLS"
}
