# SPDX-License-Identifier: MIT
# For tests of aws.sh without AWS: `load recorders`. aws and pcluster are tests/aws/recorder.sh.
# shellcheck shell=bash disable=SC2034,SC2054 # for the tests; commas of aws.sh

# Sets root, bucket_folder and config, the options of a good configuration, and answers of an account where all is well.
recorders_up() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    cd "$BATS_TEST_TMPDIR" || return
    export DPTRAIN_AWS_VENV=$PWD/venv CALLS=$PWD/calls ANSWERS=$PWD/answers S3=$PWD/s3
    unset AWS_REGION AWS_DEFAULT_REGION AWS_PROFILE
    mkdir -p venv/bin answers s3
    cp "$root/tests/aws/recorder.sh" venv/bin/aws
    cp "$root/tests/aws/recorder.sh" venv/bin/pcluster
    : >calls
    bucket_folder=$S3/data-1/lab
    config=(config --region us-east-1 --type p5.48xlarge --workers 4 --key me --ssh-from 203.0.113.7/32
        --subnets subnet-0a1b2c3d,subnet-0e0f1011 --bucket data-1/lab)
    answer sts.get-caller-identity 123456789012
    answer ec2.describe-regions opt-in-not-required
    answer ec2.describe-instance-types $'True\tx86_64\t8\tH100\t192\t30400\tTrue'
    answer ec2.describe-key-pairs me
    answer ec2.describe-subnets $'subnet-0a1b2c3d\tvpc-1\tus-east-1a\nsubnet-0e0f1011\tvpc-1\tus-east-1b'
    answer s3api.get-bucket-location None
    answer s3api.list-multipart-uploads None
    missing_stack
    answer create-cluster '{
  "message": "Request would have succeeded, but DryRun flag is set."
}'
}

answer() { # OPERATION TEXT
    printf '%s\n' "$2" >"$ANSWERS/$1"
}

fails() { # OPERATION CODE TEXT
    answer "$1" "error An error occurred ($2) when calling the operation: $3"
}

missing_stack() {
    fails cloudformation.describe-stacks ValidationError "Stack with id first does not exist"
}

aws_sh() { "$root/scripts/aws.sh" "$@"; }

# Whether the files have no such line.
lacks() { # PATTERN FILE...
    ! grep -E "$@"
}

# Whether nothing was created, changed or copied.
nothing_done() {
    ! grep -vE '^(aws .*(sts get-|describe-|s3api get-|s3api list-|list-stack-resources)|pcluster create-cluster .*--dryrun true|aws configure get )' "$CALLS"
}
