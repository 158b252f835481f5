# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of aws.sh
# Prints what a cluster has. Sourced by aws.sh.

aws_status() {
    ask_region
    ask_stack || die 1 "there is no cluster $name in $region"
    show 'cluster  %s in %s: %s' "$name" "$region" "$stack"
    if stack_failed; then show '         the first resource to fail: %s' "$(first_failure)"; fi
    status_head
    status_workers
    status_files
    ! stack_failed || exit 1
}

# Sets said to the rows STATE, ID, ADDRESS, TYPE of instances.
ask_instances() { # HeadNode|Compute ADDRESS
    ask_or_die ec2 describe-instances --filters "Name=tag:parallelcluster:cluster-name,Values=$name" \
        "Name=tag:parallelcluster:node-type,Values=$1" 'Name=instance-state-name,Values=pending,running,stopping,stopped' \
        --query "Reservations[].Instances[].[State.Name, InstanceId, $2, InstanceType]"
}

status_head() {
    local state id address kind
    ask_instances HeadNode PublicIpAddress
    IFS=$'\t' read -r state id address kind <<<"$said"
    if [[ -z $state || $state == None ]]; then echo 'head     none yet' && return; fi
    [[ -n $address && $address != None ]] || address=''
    show 'head     %s (%s) %s%s' "$kind" "$id" "$state" "${address:+, ssh ubuntu@$address}"
}

# A tag of the stack.
stack_tag() { # KEY
    ask cloudformation describe-stacks --stack-name "$name" --query "Stacks[0].Tags[?Key=='$1'].Value | [0]" || true
    if [[ -n $said && $said != None ]]; then echo "$said"; fi
}

status_workers() {
    local asked state id address kind n=0 rows=''
    asked=$(stack_tag dptrain-workers)
    ask_instances Compute PrivateIpAddress
    while IFS=$'\t' read -r state id address kind; do
        [[ -n $state && $state != None ]] || continue
        if [[ $state == running ]]; then n=$((n + 1)); fi
        rows+="         $id $state $address $kind"$'\n'
    done <<<"$said"
    show 'workers  %s of %s are up; they start when a job needs them\n%s' "$n" "${asked:-?}" "$rows" | sed '/^$/d'
}

# Sets said to the ids of the stack's resources of a type.
ask_resources() { # TYPE
    ask_or_die cloudformation list-stack-resources --stack-name "$name" \
        --query "StackResourceSummaries[?ResourceType=='$1' && ResourceStatus!='DELETE_COMPLETE'].PhysicalResourceId"
    [[ $said != None ]] || said=''
}

status_files() {
    local id
    ask_resources AWS::EFS::FileSystem
    for id in $said; do
        ask_or_die efs describe-file-systems --file-system-id "$id" --query 'FileSystems[0].[LifeCycleState, SizeInBytes.Value]'
        printf '%s\n' "$said" | awk -v id="$id" '{ printf "/shared  EFS %s: %s, %.1f GB\n", id, $1, $2 / 1e9 }'
    done
    ask_resources AWS::FSx::FileSystem
    for id in $said; do
        ask_or_die fsx describe-file-systems --file-system-ids "$id" --query 'FileSystems[0].[Lifecycle, StorageCapacity]'
        printf '%s\n' "$said" | awk -v id="$id" '{ printf "/lustre  FSx %s: %s, %d GiB\n", id, $1, $2 }'
    done
}
