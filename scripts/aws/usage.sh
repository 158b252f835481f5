# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # verb is aws.sh's
# The texts of --help. Sourced by aws.sh.

usage() {
    if [[ -z ${verb:-} ]]; then usage_all && return; fi
    "usage_$verb"
    usage_common
}

usage_all() {
    cat <<'END'
usage: scripts/aws.sh COMMAND [options]

Runs dptrain on a Slurm cluster that AWS ParallelCluster makes. Needs its `pcluster` and the `aws` command
(scripts/install_deps.sh --aws), and credentials, which it never prints. docs/aws.md is the guide.

  config  print a configuration for ParallelCluster
  check   let ParallelCluster check a configuration; creates nothing
  put     copy the bundle, the nodes' script and data to S3
  up      show what will run and what is billed, ask, and create the cluster
  status  print the state of the cluster, its nodes and its file systems
  down    delete the cluster; says what stays, and how to remove that too

aws.sh COMMAND --help lists the options of one command; here are all of them:

END
    for verb in config check put up status down; do
        "usage_$verb"
        echo
    done
    usage_common
}

usage_config() {
    cat <<'END'
usage: scripts/aws.sh config [options] > cluster.yaml

Asks AWS about the type, the key pair, the subnets, the bucket and the file system, and prints a configuration for
ParallelCluster 3: a head node, a queue `train`, and EFS as /shared, which outlives the cluster.

  --type TYPE           type of the workers, as p5.48xlarge (required)
  --workers N           most workers; they run while jobs need them [2]
  --key NAME            key pair for logins (required)
  --ssh-from CIDR       addresses that may log in to the head node, as 203.0.113.7/32 (required)
  --open                allow 0.0.0.0/0 for --ssh-from
  --subnets A[,B]       subnets of the head node and of the workers, or one for both (required)
  --bucket B/PREFIX     where `put` copies to; the nodes may read there, and nowhere else (required)
  --efs new|fs-…        file system for /shared: a new one, or an existing one [new]
  --lustre GIB          also FSx for Lustre, linked to BUCKET/PREFIX, as /lustre: 1200, or a multiple of 2400
  --spot                spot instances as workers
  --efa auto|yes|no     Elastic Fabric Adapter [auto: if the type has it]
  --head TYPE           type of the head node [c5.2xlarge]
END
}

usage_check() {
    cat <<'END'
usage: scripts/aws.sh check [options] --config FILE

Runs ParallelCluster's own checks on the configuration (a dry run), and prints what they found. Exit code 1: there are errors.

  --config FILE         the configuration (required)
  --name NAME           name that the cluster will have [dptrain]
  --suppress CHECK      leave out a check of ParallelCluster, by the name that is printed with its message; may be repeated
END
}

usage_put() {
    cat <<'END'
usage: scripts/aws.sh put [options] --bucket B/PREFIX

Copies the bundle of scripts/bundle.sh and the nodes' script to B/PREFIX, and data to B/PREFIX/data, with a list of
SHA-256 sums for each, which comes last. Files that are there are not copied again: after an interruption, give the same command.

  --bucket B/PREFIX     bucket, and a folder in it (required)
  --bundle FILE         the bundle [dptrain-VERSION-x86_64.tar.gz in dptrain's folder]
  --data DIR            a data set, as B/PREFIX/data/NAME, where NAME is DIR's; may be repeated
END
}

usage_up() {
    cat <<'END'
usage: scripts/aws.sh up [options] --name NAME --config FILE

Runs `check`, prints instances, storage and what is billed, asks, and creates the cluster.

  --name NAME           name of the cluster (required)
  --config FILE         the configuration (required)
  --suppress CHECK      as for check
  --yes                 do not ask
END
}

usage_status() {
    cat <<'END'
usage: scripts/aws.sh status --name NAME

Prints the state of the cluster, its head node, the workers that came up of those asked for, and its file systems. If the cluster
failed, prints the first resource that did. Exit code 1: the cluster failed.

  --name NAME           name of the cluster (required)
END
}

usage_down() {
    cat <<'END'
usage: scripts/aws.sh down [options] --name NAME

Asks, and deletes the cluster. EFS and the bucket stay; prints the commands that remove them.

  --name NAME           name of the cluster (required)
  --yes                 do not ask
END
}

usage_common() {
    cat <<'END'
  --region REGION       region [that of --config, $AWS_REGION, or the profile's]
  -h, --help            show this help

Credentials come from the environment, a profile ($AWS_PROFILE) or the instance, as for the aws command.
END
}
