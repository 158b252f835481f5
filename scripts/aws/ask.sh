# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of aws.sh
# Asks AWS, and judges the answers, before anything is created. Sourced by aws.sh.

# Finds aws and pcluster: those of install_deps.sh first.
aws_tools() {
    local tool venv=${DPTRAIN_AWS_VENV:-$here/../build/venv-aws}
    [[ ! -d $venv/bin ]] || PATH=$(cd "$venv/bin" && pwd):$PATH
    for tool in aws pcluster; do
        [[ $tool == aws || $verb == @(check|up|down) ]] || continue
        command -v "$tool" >/dev/null ||
            die 4 "$tool was not found; scripts/install_deps.sh --aws installs it, or pip install aws-parallelcluster awscli"
    done
    # Version 2 of aws would page its output.
    export AWS_PAGER=''
}

# Replaces what must not be seen: keys, tokens, and signatures in addresses.
hide() {
    local line secret
    while IFS= read -r line || [[ -n $line ]]; do
        for secret in "${AWS_SECRET_ACCESS_KEY:-}" "${AWS_SESSION_TOKEN:-}" "${AWS_SECURITY_TOKEN:-}"; do
            ((${#secret} < 8)) || line=${line//"$secret"/(hidden)}
        done
        printf '%s\n' "$line"
    done | sed -E 's/(X-Amz-(Signature|Credential|Security-Token)=)[^&" ]*/\1(hidden)/g
        s/(^|[^A-Z0-9])(AKIA|ASIA)[A-Z0-9]{12,}/\1(hidden)/g
        s#(^|[^A-Za-z0-9/+=.-])[A-Za-z0-9+][A-Za-z0-9/+]{39}($|[^A-Za-z0-9/+=])#\1(hidden)\2#g'
}

# Runs aws in the region; its answer is in said, its error in aws_error, without secrets.
ask() { # ARGUMENTS...
    local code=0
    said=$(timeout --foreground 300 aws --region "$region" --output text --cli-connect-timeout 20 "$@" 2>"$work/error" </dev/null) || code=$?
    aws_error=$(hide <"$work/error" | tr '\n' ' ' | sed -E 's/^ +//; s/ +$//; s/^aws: \[ERROR\]: //')
    [[ $code -ne 124 ]] || aws_error="no answer within 300 s"
    return "$code"
}

# As ask, for answers that can only be missing because AWS does not answer, or does not allow the question.
ask_or_die() { # ARGUMENTS...
    ask "$@" && return
    case $aws_error in
    *AccessDenied* | *UnauthorizedOperation* | *'not authorized'*)
        die 4 "these credentials may not call $1 $2; the policy of the user or role must allow it: $aws_error" ;;
    *) die 4 "aws $1 $2: $aws_error" ;;
    esac
}

# Sets account. Asked of the region that every account of the partition has.
ask_credentials() {
    local region=$home
    ask sts get-caller-identity --query Account && { account=$said; return; }
    case $aws_error in
    *'locate credentials'* | *NoCredentials* | *'Partial credentials'* | *'profile'*'could not be found'*)
        die 4 "no credentials: aws configure stores them (aws configure sso for single sign-on), AWS_PROFILE names a profile" ;;
    *Expired* | *'has expired'*) die 4 "the credentials have expired: log in again (aws sso login), or get new ones" ;;
    *InvalidClientTokenId* | *SignatureDoesNotMatch* | *UnrecognizedClient* | *InvalidAccessKeyId*)
        die 4 "AWS does not know these credentials: aws configure list shows where they come from" ;;
    *) die 4 "AWS does not answer: $aws_error" ;;
    esac
}

# Sets region, and home, its partition's first region; ends if the credentials or the region are wrong.
ask_region() {
    region=${region:-${AWS_REGION:-${AWS_DEFAULT_REGION:-$(timeout --foreground 60 aws configure get region 2>/dev/null)}}} || true
    [[ -n $region ]] || die 2 "--region is missing, and neither AWS_REGION nor the profile has one"
    [[ $region =~ ^[a-z]{2}(-[a-z]+)+-[0-9]$ ]] || die 2 "invalid --region '$region': expected a region such as us-east-1"
    case $region in
    cn-*) home=cn-north-1 ;;
    us-gov-*) home=us-gov-west-1 ;;
    *) home=us-east-1 ;;
    esac
    ask_credentials
    if ! ask_regions "$region"; then
        [[ $aws_error == *InvalidParameterValue* ]] || die 4 "aws ec2 describe-regions: $aws_error"
        said=None
    fi
    [[ $said != None ]] || die 2 "unknown --region '$region'; aws ec2 describe-regions --output table lists them"
    [[ $said != not-opted-in ]] ||
        die 2 "--region $region is not enabled in this account: aws account enable-region --region-name $region"
}

ask_regions() { # REGION
    local region=$home
    ask ec2 describe-regions --all-regions --region-names "$1" --query 'Regions[0].OptInStatus'
}

# Sets of a type: has_efa, n_gpus, gpu, n_cpus, disk_gb, and spot_too.
ask_type() { # OPTION TYPE
    local arch=''
    if ! ask ec2 describe-instance-types --instance-types "$2" --query "InstanceTypes[0].[NetworkInfo.EfaSupported, \
ProcessorInfo.SupportedArchitectures[0], GpuInfo.Gpus[0].Count, GpuInfo.Gpus[0].Name, VCpuInfo.DefaultVCpus, \
InstanceStorageInfo.TotalSizeInGB, contains(SupportedUsageClasses, 'spot')]"; then
        [[ $aws_error != *InvalidInstanceType* ]] ||
            die 2 "unknown $1 '$2' in $region; aws ec2 describe-instance-type-offerings --region $region --output text lists the types"
        ask_or_die ec2 describe-instance-types --instance-types "$2"
    fi
    IFS=$'\t' read -r has_efa arch n_gpus gpu n_cpus disk_gb spot_too <<<"$said"
    [[ $arch == x86_64 ]] || die 2 "$1 $2 has the architecture $arch, and dptrain's bundle is for x86_64"
    number_or 0 n_gpus n_cpus disk_gb
}

ask_key() {
    ask ec2 describe-key-pairs --key-names "$key" --query 'KeyPairs[0].KeyName' && return
    [[ $aws_error != *KeyPair.NotFound* ]] ||
        die 2 "no key pair '$key' in $region; aws ec2 import-key-pair --region $region makes one of a public key"
    ask_or_die ec2 describe-key-pairs --key-names "$key"
}

# Ends if a subnet is missing, or if the two are in different networks.
ask_subnets() {
    local vpcs
    # shellcheck disable=SC2086 # one or two words
    if ! ask ec2 describe-subnets --subnet-ids ${subnets//,/ } --query 'Subnets[].[SubnetId, VpcId, AvailabilityZone]'; then
        [[ $aws_error != *InvalidSubnetID.NotFound* ]] ||
            die 2 "unknown --subnets '$subnets' in $region: no subnet $(grep -oE 'subnet-[0-9a-f]+' <<<"$aws_error" | head -n 1)"
        ask_or_die ec2 describe-subnets
    fi
    vpcs=$(cut -f 2 <<<"$said" | sort -u | wc -l)
    [[ $vpcs -eq 1 ]] || die 2 "--subnets $subnets are in different networks (VPCs); take two of the same one"
}

# The bucket must be there, ours, and in the region.
ask_bucket() {
    local place
    if ! ask s3api get-bucket-location --bucket "$bucket" --expected-bucket-owner "$account" --query LocationConstraint; then
        case $aws_error in
        *NoSuchBucket*) die 2 "no bucket '$bucket': aws s3 mb s3://$bucket --region $region makes it" ;;
        *AccessDenied* | *Forbidden*)
            die 2 "the bucket $bucket belongs to another account than $account, or these credentials may not ask for its region" ;;
        *) die 4 "aws s3api get-bucket-location: $aws_error" ;;
        esac
    fi
    place=$said
    [[ $place != None && -n $place ]] || place=us-east-1
    [[ $place != EU ]] || place=eu-west-1
    [[ $place == "$region" ]] || die 2 "the bucket $bucket is in $place, and not in $region: take one in $region"
}

# Sets efs_groups, the security groups that reach an existing file system.
ask_efs() {
    local target
    efs_groups=''
    [[ $efs != new ]] || return 0
    if ! ask efs describe-mount-targets --file-system-id "$efs" --query 'MountTargets[0].MountTargetId'; then
        [[ $aws_error != *FileSystemNotFound* ]] || die 2 "no file system '$efs' in $region: aws efs describe-file-systems lists them"
        ask_or_die efs describe-mount-targets --file-system-id "$efs"
    fi
    target=$said
    [[ $target != None ]] || return 0
    ask_or_die efs describe-mount-target-security-groups --mount-target-id "$target" --query 'SecurityGroups'
    efs_groups=$said
}

# Sets stack to the state of the stack NAME; fails if there is none.
ask_stack() {
    ask cloudformation describe-stacks --stack-name "$name" --query 'Stacks[0].StackStatus' && { stack=$said; return; }
    [[ $aws_error == *'does not exist'* ]] || ask_or_die cloudformation describe-stacks --stack-name "$name"
    return 1
}

# Prints the first resource that failed, which is the last one in the list, and why. Others are cancelled because of it.
first_failure() {
    ask cloudformation describe-stack-events --stack-name "$name" --query "StackEvents[?ends_with(ResourceStatus, '_FAILED') && \
ResourceStatusReason != 'Resource creation cancelled'].[LogicalResourceId, ResourceType, ResourceStatusReason]" || true
    [[ -n $said && $said != None ]] || { echo "AWS no longer says why"; return; }
    tail -n 1 <<<"$said" | awk -F '\t' '{ printf "%s (%s): %s\n", $1, $2, $3 }'
}

# A failed stack is a cluster that can only be deleted.
stack_failed() {
    [[ $stack == *FAILED || $stack == *ROLLBACK* && $stack != UPDATE_ROLLBACK_COMPLETE ]]
}

# The name must be free.
ask_name() {
    ask_stack || return 0
    if stack_failed; then
        die 2 "--name $name is taken by a stack that failed ($stack). The first resource to fail was $(first_failure). \
Remove it by scripts/aws.sh down --region $region --name $name"
    fi
    die 2 "--name $name is taken: there is a stack of this name ($stack)"
}
