#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Stands in for aws and pcluster: writes its arguments to $CALLS, and answers a call such as `ec2 describe-subnets` with the file
# $ANSWERS/ec2.describe-subnets; a first line `error …` is an error. `s3 cp` and `s3 sync` copy to and from the folder $S3.
set -euo pipefail
printf '%s %s\n' "${0##*/}" "$*" >>"$CALLS"
words=()
while (($# > 0)); do
    case $1 in
    --region | --output | --cli-connect-timeout) shift ;;
    --only-show-errors) ;;
    *) words+=("$1") ;;
    esac
    shift
done
operation=${words[0]}
[[ ${0##*/} == pcluster ]] || operation+=.${words[1]}
answer=$ANSWERS/$operation
if [[ -e $answer ]]; then
    read -r first <"$answer" || true
    [[ $first != error\ * ]] || { echo "${first#error }" >&2; exit 254; }
    cat "$answer"
    [[ $operation != create-cluster || $first != *FAIL* ]] || exit 1
    exit
fi
case $operation in
s3.cp)
    from=${words[2]/#s3:\//"$S3"} to=${words[3]/#s3:\//"$S3"}
    [[ -e $from ]] || { echo "fatal error: An error occurred (404) when calling the HeadObject operation: Key does not exist" >&2; exit 1; }
    mkdir -p "${to%/*}" && cp -p "$from" "$to"
    ;;
s3.sync)
    to=${words[3]/#s3:\//"$S3"}
    mkdir -p "$to" && cp -rLp "${words[2]}/." "$to"
    ;;
*) echo "no answer for $operation" >&2; exit 255 ;;
esac
