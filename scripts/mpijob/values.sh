# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of mpijob.sh
# What Kubernetes accepts as a name, a label or a quantity. Sourced by mpijob.sh.

# A label of a DNS name, or, up to 253 characters, several with dots.
dns_name() { # OPTION VALUE LENGTH
    local label='[a-z0-9]([-a-z0-9]*[a-z0-9])?' expected='a DNS label: lower-case letters, digits and -'
    if (($3 > 63)); then label="$label(\.$label)*" expected='a DNS name: lower-case letters, digits, - and .'; fi
    [[ $2 =~ ^$label$ ]] || die 2 "invalid $1 '$2': expected $expected, with a letter or digit at both ends"
    ((${#2} <= $3)) || die 2 "invalid $1 '$2': expected at most $3 characters"
}

quantity() { # OPTION VALUE
    local number='([0-9]{1,12}(\.[0-9]{1,3})?)'
    if [[ $2 =~ ^$number([kKmMgGtT])i?[bB]$ ]]; then
        local number=${BASH_REMATCH[1]} unit=${BASH_REMATCH[3]^}
        die 2 "invalid $1 '$2': Kubernetes writes $number${unit/K/k} (powers of 1000) or $number${unit}i (powers of 1024)"
    fi
    [[ $2 =~ ^$number(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$ ]] ||
        die 2 "invalid $1 '$2': expected a Kubernetes quantity such as 500m, 4, 64G or 64Gi"
    # 2^60: sums of such values fit the shell's integers.
    awk -v bytes="$(bytes "$2")" 'BEGIN { exit bytes > 2 ^ 60 }' || die 2 "invalid $1 '$2': expected at most 1024Pi"
}

# Kubernetes divides a CPU into 1000 parts.
cpu_quantity() { # OPTION VALUE
    [[ $2 =~ ^([0-9]{1,6}(\.[0-9]{1,3})?|[0-9]{1,9}m)$ && $2 =~ [1-9] ]] ||
        die 2 "invalid $1 '$2': expected a number of CPUs such as 8, 7.5 or 500m"
}

# Kubernetes names no registry without a letter or digit at both ends, and no upper case except in tags.
image_name() { # VALUE
    local part='[a-z0-9]([a-z0-9._-]*[a-z0-9])?'
    [[ $1 =~ ^$part(:[0-9]+)?(/$part)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$ ]] ||
        die 2 "invalid --image '$1': expected a name such as registry.example/dptrain:1.0, in lower case up to the tag"
}

# Sets mount_path, without a slash at its end. Folders that the pod has must stay visible.
mount_folder() { # VALUE
    [[ $1 =~ ^/[^:]*$ && $1/ != */./* && $1/ != */../* && $1 != *$'\n'* ]] ||
        die 2 "invalid --mount-path '$1': expected an absolute path without ':', '.' and '..'"
    mount_path=$(tr -s / <<<"$1")
    mount_path=${mount_path%/}
    case $mount_path in
    '' | /bin | /boot | /dev | /etc | /home | /lib | /lib64 | /opt | /proc | /root | /run | /sbin | /sys | /tmp | /usr | /var | \
        /bin/* | /dev/* | /etc/* | /lib/* | /lib64/* | /proc/* | /run/* | /sbin/* | /sys/* | /usr/* | \
        "$home" | "$home"/* | /opt/dptrain | /opt/dptrain/*)
        die 2 "invalid --mount-path '$1': the claim would hide a folder of the system, of dptrain or of the job's key; expected one such as /shared" ;;
    esac
}

# Prints a quantity as a whole number, of bytes or CPUs.
bytes() { # QUANTITY
    awk -v text="$1" 'BEGIN {
        unit = text; sub(/^[0-9.]+/, "", unit)
        factor = unit == "m" ? 1e-3 : 1
        i = index("kMGTP", substr(unit, 1, 1)); if (unit ~ /^K/) i = 1
        if (unit != "" && i > 0) factor = (unit ~ /i$/ ? 1024 : 1000) ^ i
        printf "%.0f\n", int((text + 0) * factor)
    }'
}

# A label of a node, or the key of a taint: an optional DNS name and a name.
label_key() { # OPTION KEY VALUE
    local word='[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?' domain='[a-z0-9]([-a-z0-9]*[a-z0-9])?'
    domain="$domain(\.$domain)*/"
    [[ $2 =~ ^($domain)?$word$ ]] || die 2 "invalid $1: '$2' is not a label such as node.kubernetes.io/instance-type"
    [[ -z $3 || $3 =~ ^$word$ ]] || die 2 "invalid $1: '$3' is not a label's value: letters, digits, and any of -_. inside"
}

node_selector() { # KEY=VALUE
    [[ $1 == *=* ]] || die 2 "invalid --node-selector '$1': expected LABEL=VALUE"
    label_key --node-selector "${1%%=*}" "${1#*=}"
    [[ " ${selectors[*]%%=*} " != *" ${1%%=*} "* ]] || die 2 "--node-selector ${1%%=*} is given twice: a node has one value of it"
    selectors+=("$1")
}

toleration() { # KEY[=VALUE][:EFFECT]
    local effect='' key=$1
    if [[ $key == *:* ]]; then effect=${key##*:} key=${key%:*}; fi
    [[ $effect == @(|NoSchedule|PreferNoSchedule|NoExecute) && $1 != *: ]] ||
        die 2 "invalid --toleration '$1': the effect is NoSchedule, PreferNoSchedule or NoExecute"
    label_key --toleration "${key%%=*}" "$([[ $key != *=* ]] || echo "${key#*=}")"
    tolerations+=("$key:$effect")
}

# Prints a string in double quotes, which YAML reads as JSON does.
quoted() { # TEXT
    local text=$1 LC_ALL=C i code
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    for ((i = 1; i < 32; i++)); do
        printf -v code '\\x%02x' "$i"
        printf -v code '%b' "$code"
        [[ $text != *"$code"* ]] || text=${text//"$code"/$(printf '\\u%04x' "$i")}
    done
    printf '"%s"' "${text//$'\x7f'/\\u007f}"
}

# Prints an element of args. Kubernetes replaces $(NAME) by a variable, and $$ by $.
argument() { # TEXT
    quoted "${1//\$/\$\$}"
}
