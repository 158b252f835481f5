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
    local word='[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?' domain='[a-z0-9]([-a-z0-9.]*[a-z0-9])?/'
    [[ $2 =~ ^($domain)?$word$ ]] || die 2 "invalid $1: '$2' is not a label such as node.kubernetes.io/instance-type"
    [[ -z $3 || $3 =~ ^$word$ ]] || die 2 "invalid $1: '$3' is not a label's value: letters, digits, and any of -_. inside"
}

node_selector() { # KEY=VALUE
    [[ $1 == *=* ]] || die 2 "invalid --node-selector '$1': expected LABEL=VALUE"
    label_key --node-selector "${1%%=*}" "${1#*=}"
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
