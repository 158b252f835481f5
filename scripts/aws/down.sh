# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of aws.sh
# Deletes a cluster, after asking. Sourced by aws.sh.

aws_down() {
    local own_efs place
    ask_region
    ask_stack || die 1 "there is no cluster $name in $region"
    ask_resources AWS::EFS::FileSystem
    own_efs=$said
    place=$(stack_tag dptrain-bucket)
    confirm "delete the cluster $name in $region ($stack), with its jobs and what is on local disks and in /lustre?"
    if [[ $stack != DELETE_IN_PROGRESS ]]; then
        pcluster_call delete-cluster --cluster-name "$name" ||
            die 4 "pcluster could not delete the cluster: $(answer_message) $(hide <"$work/error" | tail -n 1)"
    fi
    note "the cluster $name is being deleted: scripts/aws.sh status --region $region --name $name"
    say_what_stays
}

say_what_stays() {
    local id
    for id in $own_efs; do
        cat <<END
EFS $id stays, and is billed. The next cluster takes it by: scripts/aws.sh config --efs $id …
To delete it with everything in /shared, when the cluster is gone:
  for t in \$(aws efs describe-mount-targets --region $region --file-system-id $id --query 'MountTargets[].MountTargetId' --output text); do
    aws efs delete-mount-target --region $region --mount-target-id \$t; done
  aws efs delete-file-system --region $region --file-system-id $id    # a minute later
END
    done
    [[ -n $place ]] || return 0
    cat <<END
s3://$place stays, and is billed. To delete it:
  aws s3 rm --region $region --recursive s3://$place
END
}
