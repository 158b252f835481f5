# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of aws.sh and ask.sh
# Writes a configuration for ParallelCluster. Sourced by aws.sh.

# Its user submits the jobs; its glibc is newer than that of the bundle.
os=ubuntu2404 os_user=ubuntu

aws_config() {
    ask_region
    ask_type --head "$head"
    ask_type --type "$type"
    [[ $efa != yes || $has_efa == True ]] || die 2 "--efa yes: $type has no EFA; leave --efa out, or take another --type"
    [[ $spot == no || $spot_too == True ]] || die 2 "--spot: $type has no spot instances"
    if [[ $efa == auto ]]; then efa=$([[ $has_efa == True ]] && echo yes || echo no); fi
    ask_key
    ask_subnets
    ask_bucket
    ask_efs
    configuration
}

# Settings of the head node and of the queue: what they may read, and what they run when they have started.
node_settings() { # INDENT ARGUMENT...
    local word
    cat <<END | sed "s/^/$1/"
Iam:
  S3Access:
    - BucketName: "$bucket"
      KeyName: "$prefix/*"
CustomActions:
  OnNodeConfigured:
    Script: "s3://$bucket/$prefix/node.sh"
    Args:
END
    for word in "${@:2}"; do printf '%s      - "%s"\n' "$1" "$word"; done
}

# Nodes reach an existing file system as members of its security groups. The lines follow one without a newline.
security_groups() { # INDENT
    local group
    [[ -n $efs_groups ]] || return 0
    printf '\n%sAdditionalSecurityGroups:' "$1"
    for group in $efs_groups; do printf '\n%s  - %s' "$1" "$group"; done
}

configuration() {
    local n_tasks=$n_gpus what="$n_cpus vCPUs"
    ((n_tasks > 0)) || n_tasks=$((n_cpus / 2))
    if ((n_gpus > 0)); then what+=", $n_gpus GPUs ($gpu)"; fi
    if ((disk_gb > 0)); then what+=", $disk_gb GB of local disks as /scratch"; fi
    cat <<END
# Written by aws.sh of dptrain, for AWS ParallelCluster 3. docs/aws.md is the guide.
# A worker has $what.
# sbatch --nodes=1-$workers --ntasks-per-node=$n_tasks /shared/dptrain/scripts/dptrain.sbatch train …
Region: $region
Image:
  Os: $os
HeadNode:
  InstanceType: $head
  Networking:
    SubnetId: ${subnets%,*}$(security_groups '    ')
  Ssh:
    KeyName: "$key"
    AllowedIps: $ssh_from
$(node_settings '  ' head "s3://$bucket/$prefix" "$os_user")
Scheduling:
  Scheduler: slurm
  # Nodes that come up are used, if others do not.
  ScalingStrategy: best-effort
  SlurmQueues:
    - Name: train
      CapacityType: $([[ $spot == yes ]] && echo SPOT || echo ONDEMAND)
      JobExclusiveAllocation: true
      Networking:
        SubnetIds:
          - ${subnets#*,}$(security_groups '        ')
        PlacementGroup:
          Enabled: true
END
    ((disk_gb == 0)) || printf '      %s\n' 'ComputeSettings:' '  LocalStorage:' '    EphemeralVolume:' '      MountDir: /scratch'
    cat <<END
      ComputeResources:
        - Name: workers
          InstanceType: $type
          MinCount: 0
          MaxCount: $workers
          Efa:
            Enabled: $([[ $efa == yes ]] && echo true || echo false)
$(node_settings '      ' worker)
SharedStorage:
  - Name: shared
    MountDir: /shared
    StorageType: Efs
    EfsSettings:
END
    if [[ $efs == new ]]; then
        printf '      %s\n' 'Encrypted: true' 'DeletionPolicy: Retain'
    else
        printf '      FileSystemId: %s\n' "$efs"
    fi
    if [[ -n $lustre ]]; then
        cat <<END
  - Name: lustre
    MountDir: /lustre
    StorageType: FsxLustre
    FsxLustreSettings:
      StorageCapacity: $lustre
      DeploymentType: SCRATCH_2
      ImportPath: "s3://$bucket/$prefix"
      DeletionPolicy: Delete
END
    fi
    cat <<END
Tags:
  - Key: dptrain-workers
    Value: "$workers"
  - Key: dptrain-bucket
    Value: "$bucket/$prefix"
END
}
