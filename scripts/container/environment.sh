# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # variables of container.sh
# The variables of --env-file, by the rules of `dptrain run` (src/launch/environment.c). Sourced by container.sh.

# Whether a variable's name suggests a secret. A PKEY is an InfiniBand partition key, not a secret.
env_is_secret() { # NAME
    case ${1^^} in
    PWD | OLDPWD | DPTRAIN_SECRET_PATTERN) return 1 ;;
    *TOKEN* | *SECRET* | *PASS* | *PWD* | *CREDENTIAL* | *AUTH* | *ACCESS* | *PRIVATE*) return 0 ;;
    *PKEY*) ;;
    *KEY*) return 0 ;;
    esac
    [[ -n ${DPTRAIN_SECRET_PATTERN:-} && ${1^^} =~ ${DPTRAIN_SECRET_PATTERN^^} ]]
}

# Sets env_text to the NAME=VALUE lines of the files; a later value of a name wins.
env_read() { # [FILE...]
    local file line n name code=0 lines=()
    local -A at=()
    # Bash takes a pattern that is none as one that never matches.
    grep -qE -e "${DPTRAIN_SECRET_PATTERN:-}" </dev/null 2>/dev/null || code=$?
    ((code < 2)) || die 2 "invalid DPTRAIN_SECRET_PATTERN '$DPTRAIN_SECRET_PATTERN': expected an extended regular expression"
    for file in "$@"; do
        [[ -r $file && ! -d $file ]] || die 2 "cannot read the environment file $file"
        n=0
        while IFS= read -r line || [[ -n $line ]]; do
            n=$((n + 1)) line=${line%$'\r'}
            [[ ! $line =~ ^[[:space:]]*(#|$) ]] || continue
            [[ $line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die 2 "$file, line $n: expected NAME=VALUE, not: $line"
            name=${line%%=*}
            if env_is_secret "$name"; then
                note "$file, line $n: $name is not passed on: its name suggests a secret"
            else
                at[$name]=${at[$name]:-${#lines[@]}}
                lines[${at[$name]}]=$line
            fi
        done <"$file"
    done
    ((${#lines[@]} == 0)) || env_text=$(printf '%s\n' "${lines[@]}")
}
