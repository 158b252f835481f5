#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A cluster on AWS by ParallelCluster: its configuration, its data, its life. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/aws/usage.sh
. "$here/aws/usage.sh"
# shellcheck source=scripts/aws/values.sh
. "$here/aws/values.sh"
# shellcheck source=scripts/aws/ask.sh
. "$here/aws/ask.sh"
# shellcheck source=scripts/aws/config.sh
. "$here/aws/config.sh"
# shellcheck source=scripts/aws/check.sh
. "$here/aws/check.sh"
# shellcheck source=scripts/aws/put.sh
. "$here/aws/put.sh"
# shellcheck source=scripts/aws/up.sh
. "$here/aws/up.sh"
# shellcheck source=scripts/aws/status.sh
. "$here/aws/status.sh"
# shellcheck source=scripts/aws/down.sh
. "$here/aws/down.sh"

case ${1:-} in
config | check | put | up | status | down) verb=$1 ;;
'') die 2 "the command is missing: config, check, put, up, status or down; --help explains them" ;;
-*) common_option "$1" ;;
*) die 2 "unknown command '$1': expected config, check, put, up, status or down" ;;
esac
shift

region='' key='' ssh_from='' open=no type='' workers=2 subnets='' bucket='' efs=new lustre='' spot=no efa=auto head=c5.2xlarge
name='' file='' suppress=() bundle='' data=() yes=no

# Options that a command does not take are unknown to it.
takes() { # OPTION
    case $verb:$1 in
    *:--region) ;;
    config:--key | config:--ssh-from | config:--open | config:--type | config:--workers | config:--subnets) ;;
    config:--bucket | config:--efs | config:--lustre | config:--spot | config:--efa | config:--head) ;;
    check:--config | check:--name | check:--suppress) ;;
    put:--bucket | put:--bundle | put:--data) ;;
    up:--config | up:--name | up:--suppress | up:--yes) ;;
    status:--name | down:--name | down:--yes) ;;
    *) return 1 ;;
    esac
}

while [[ $# -gt 0 ]]; do
    case $1 in
    -*) takes "$1" || common_option "$1" "of $verb" ;;
    *) die 2 "unexpected argument '$1': $verb takes options only" ;;
    esac
    case $1 in
    --open) open=yes; shift; continue ;;
    --spot) spot=yes; shift; continue ;;
    --yes) yes=yes; shift; continue ;;
    esac
    need_value "$@"
    case $1 in
    --region) region=$2 ;;
    --key) key=$2 ;;
    --ssh-from) ssh_from=$2 ;;
    --type) type=$2 ;;
    --workers) whole_number "$1" "$2" 1; workers=$((10#$2)) ;;
    --subnets) subnets=$2 ;;
    --bucket) bucket=$2 ;;
    --efs) efs=$2 ;;
    --lustre) whole_number "$1" "$2" 1; lustre=$((10#$2)) ;;
    --efa) efa=$2 ;;
    --head) head=$2 ;;
    --name) name=$2 ;;
    --config) file=$2 ;;
    --suppress) suppress+=("$2") ;;
    --bundle) bundle=$2 ;;
    --data) data+=("$2") ;;
    esac
    shift 2
done
"judge_$verb"
end_of_options
aws_tools
make_work aws
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"aws_$verb"
