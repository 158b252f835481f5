# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154,SC2016 # variables of aws.sh; backticks are for the reader
# Creates a cluster, after asking. Sourced by aws.sh.

aws_up() {
    ask_region
    ask_name
    check_config
    show_bill
    confirm "create the cluster $name?"
    pcluster_call create-cluster --cluster-name "$name" --cluster-configuration "$file" "${suppressed[@]}" ||
        die 4 "pcluster could not create the cluster: $(answer_message) $(hide <"$work/error" | tail -n 1)"
    note "the cluster $name is being created, for about 10 to 20 minutes: scripts/aws.sh status --region $region --name $name"
}

# Asks on the terminal, unless --yes.
confirm() { # QUESTION
    local answer=''
    [[ $yes == no ]] || return 0
    read -r -p "$1 Type yes: " answer || true
    [[ $answer == yes ]] || die 1 "nothing was done"
}

show_bill() {
    local n_gib
    printf '%s in %s, from %s\n' "$name" "$region" "$file"
    printf '  head      1 %s, on demand, from now until `aws.sh down`\n' "$(from_file InstanceType HeadNode)"
    printf '  workers   0 to %s %s, %s, while jobs run and 10 minutes longer\n' "$(from_file MaxCount SlurmQueues)" \
        "$(from_file InstanceType SlurmQueues)" "$([[ $(from_file CapacityType) == SPOT ]] && echo spot || echo 'on demand')"
    if [[ -n $(from_file FileSystemId) ]]; then
        printf '  /shared   EFS %s, which stays\n' "$(from_file FileSystemId)"
    else
        printf '  /shared   a new EFS, which stays after `aws.sh down`\n'
    fi
    n_gib=$(from_file StorageCapacity)
    [[ -z $n_gib ]] || printf '  /lustre   FSx for Lustre, %s GiB, removed by `aws.sh down`\n' "$n_gib"
    printf 'Billed: instances by the second; EFS by what it holds, reads and writes; %sa root volume (EBS) per instance; S3;\n' \
        "$([[ -z $n_gib ]] || echo 'FSx by its size; ')"
    printf 'traffic through a NAT gateway; logs and a dashboard in CloudWatch. Prices: https://aws.amazon.com/pricing\n'
}
