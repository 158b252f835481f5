# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # work, timeout, settings and the hosts' columns are the caller's
# Asks all hosts side by side, and reads their answers. Sourced by container.sh.

# Runs the first of "FUNCTIONS" on hosts, all of them unless INDEX says which. ARGUMENTS, `-` for none, is a function that sets
# the array args for host I. Answers are in $work/ROUND/I.out.
ask() { # ROUND ARGUMENTS "FUNCTION..." [INDEX...]
    local round=$1 i args indices=("${@:4}")
    ((${#indices[@]} > 0)) || indices=("${!host_name[@]}")
    rm -rf "${work:?}/$round"
    mkdir "$work/$round"
    for i in "${indices[@]}"; do
        args=()
        [[ $2 == - ]] || "$2" "$i"
        remote_script "$settings" "$3" "${args[@]}" >"$work/$round/$i.script"
    done
    hosts_each ask_one "${indices[@]}"
    [[ -z $interrupted ]] || exit 130
}

# As ssh_words; nothing is trusted on first sight, whatever the user's settings say.
login_words() { # INDEX
    ssh_words "$1"
    SSH+=(-o StrictHostKeyChecking=yes)
}

ask_one() { # INDEX
    local SSH
    login_words "$1"
    # After an interruption its files are gone.
    host_ask "$work/$round/$1.script" "$work/$round/$1" "$timeout" "${SSH[@]}" "${host_name[$1]}" 'bash -s' 2>/dev/null || true
}

# Prints the values of host I's facts with this key, one per line; fails if there are none.
said() { # ROUND I KEY
    awk -v key="$3" '$1 == key { sub("^[^ ]* ?", ""); print; found = 1 } END { exit !found }' "$work/$1/$2.out"
}

# Prints the last of these values if it is a whole number, otherwise DEFAULT.
said_number() { # DEFAULT ROUND I KEY
    local value
    value=$(said "${@:2}" | tail -n 1) || true
    number_or "$1" value
    echo "$value"
}

# Prints the last of these values that matches; fails if none does. It goes into settings of other hosts.
said_exactly() { # PATTERN ROUND I KEY
    said "${@:2}" | grep -xE -e "$1" | tail -n 1 | grep .
}

# Whether host I has finished the round; otherwise sets problem, and lost if it was not reached.
answered() { # ROUND I
    local code text
    lost=no
    ! said "$1" "$2" end >/dev/null || return 0
    code=$(<"$work/$1/$2.code") text=$(<"$work/$1/$2.err")
    case $code in
    124) problem="no answer within $timeout s (--timeout)" lost=yes ;;
    255)
        ssh_cause "$code" "$text" "${host_name[$2]}" "${host_port[$2]/#-/22}" "$(hostname)"
        problem="$CAUSE -> $ADVICE" lost=yes
        ;;
    *) problem=${text##*$'\n'} problem="${problem:-the login shell ended with code $code}" ;;
    esac
    return 1
}

# Quotes a script for the login shell, whichever it is.
quoted_bash() { # SCRIPT
    printf "exec bash -c '%s'" "${1//\'/\'\\\'\'}"
}
