# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of aws.sh
# Judges options without asking AWS. Sourced by aws.sh.

judge_config() {
    required type key ssh_from subnets bucket
    [[ $key =~ ^[A-Za-z0-9][A-Za-z0-9\ ._:+@=-]{0,254}$ ]] || die 2 "invalid --key '$key': expected the name of a key pair"
    judge_cidr
    type_name --type "$type"
    type_name --head "$head"
    [[ $subnets =~ ^subnet-[0-9a-f]{8,17}(,subnet-[0-9a-f]{8,17})?$ ]] ||
        die 2 "invalid --subnets '$subnets': expected subnet-…, or two, separated by a comma: the head node's and the workers'"
    judge_bucket
    [[ $efs == new || $efs =~ ^fs-[0-9a-f]{8,17}$ ]] || die 2 "invalid --efs '$efs': expected new, or the id of a file system, fs-…"
    [[ -z $lustre ]] || ((lustre == 1200 || lustre % 2400 == 0)) || die 2 "invalid --lustre '$lustre': expected 1200, or a multiple of 2400"
    [[ $efa == @(auto|yes|no) ]] || die 2 "invalid --efa '$efa': expected auto, yes or no"
}

judge_check() {
    required file
    [[ -n $name ]] || name=dptrain
    judge_name
    judge_file
}

judge_put() {
    local folder names=' '
    required bucket
    judge_bucket
    bundle=${bundle:-$here/../dptrain-$(cat "$here/../VERSION" 2>/dev/null)-x86_64.tar.gz}
    [[ -f $bundle ]] || die 2 "--bundle: no file $bundle; scripts/bundle.sh makes it (--with-cuda for GPUs)"
    [[ ${bundle##*/} =~ ^dptrain-[A-Za-z0-9._-]+\.tar\.(gz|xz)$ ]] ||
        die 2 "invalid --bundle '$bundle': expected the tarball of scripts/bundle.sh"
    for folder in "${data[@]}"; do
        [[ -d $folder ]] || die 2 "--data $folder: no such folder"
        folder=$(cd "$folder" && pwd)
        [[ ${folder##*/} =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] ||
            die 2 "invalid --data '$folder': its last part is its name in the bucket, and may have letters, digits, and any of ._-"
        [[ $names != *" ${folder##*/} "* ]] || die 2 "--data: two folders are called ${folder##*/}, and would become one"
        names+="${folder##*/} "
        [[ -n $(find -L "$folder" -type f -print -quit) ]] || die 2 "--data $folder: the folder is empty"
    done
}

judge_up() {
    required name file
    judge_name
    judge_file
    # Without a terminal nobody answers.
    [[ $yes == yes || -t 0 ]] || die 2 "--yes is missing: there is no terminal to ask whether to create the cluster"
}

judge_status() {
    required name
    judge_name
}

judge_down() {
    judge_status
    [[ $yes == yes || -t 0 ]] || die 2 "--yes is missing: there is no terminal to ask whether to delete the cluster"
}

required() { # VARIABLE...
    local variable option
    for variable; do
        option=--${variable//_/-}
        [[ $variable != file ]] || option=--config
        [[ -n ${!variable} ]] || die 2 "$option is missing; scripts/aws.sh $verb --help explains it"
    done
}

type_name() { # OPTION VALUE
    [[ $2 =~ ^[a-z][a-z0-9-]*\.[a-z0-9-]+$ ]] || die 2 "invalid $1 '$2': expected a type such as p5.48xlarge"
}

judge_name() {
    [[ $name =~ ^[A-Za-z][A-Za-z0-9-]{0,59}$ ]] ||
        die 2 "invalid --name '$name': expected at most 60 letters, digits and -, beginning with a letter"
}

# Sets bucket and prefix.
judge_bucket() {
    [[ $bucket =~ ^(s3://)?([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*)/?$ ]] ||
        die 2 "invalid --bucket '$bucket': expected BUCKET/PREFIX, with letters, digits, and any of ._- in PREFIX"
    bucket=${BASH_REMATCH[2]} prefix=${BASH_REMATCH[3]}
}

# Also a network address with bits behind the prefix is an error: it is more often a slip than a network.
judge_cidr() {
    local part bits address=0 expected="expected addresses such as 203.0.113.7/32"
    [[ $ssh_from =~ ^([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})$ ]] ||
        die 2 "invalid --ssh-from '$ssh_from': $expected"
    bits=$((10#${BASH_REMATCH[5]}))
    for part in "${BASH_REMATCH[@]:1:4}"; do
        ((10#$part < 256)) || die 2 "invalid --ssh-from '$ssh_from': $expected"
        address=$((address << 8 | 10#$part))
    done
    ((bits <= 32)) || die 2 "invalid --ssh-from '$ssh_from': $expected"
    ((bits == 32 || (address & (1 << (32 - bits)) - 1) == 0)) ||
        die 2 "invalid --ssh-from '$ssh_from': the address has bits behind /$bits; for one address write /32"
    ((bits > 0)) || [[ $open == yes ]] ||
        die 2 "--ssh-from $ssh_from lets the whole internet reach the head node's sshd: give your own address, or --open as well"
}

# Prints the value of a line `KEY: value` of the configuration, of the first one below the line BELOW.
from_file() { # KEY [BELOW]
    awk -v key="$1:" -v below="${2:-}" '
        { line = $0; sub(/^ *(- )?/, "", line) }
        below == "" || index(line, below ":") == 1 { found = 1 }
        found && index(line, key) == 1 {
            sub(/^[^:]*: */, "", line); sub(/ *(#.*)?$/, "", line); gsub(/"/, "", line)
            print line
            exit
        }' "$file"
}

# The region of the file wins, as for pcluster.
judge_file() {
    local own
    [[ -f $file && -r $file ]] || die 2 "--config $file: no such file"
    own=$(from_file Region)
    [[ -z $own || -z $region || $own == "$region" ]] || die 2 "--region is $region, but $file is for $own"
    region=${own:-$region}
}
