# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# The first login to each host, by any method that works. Sourced by setup_ssh.sh.

# Runs $work/script on the host, output to $work/I.out. HOW: key (the generated one), own (the user's keys) or password.
login_as() { # INDEX HOW
    local i=$1 words
    words=(ssh -F "$work/own_config" -T -x -o StrictHostKeyChecking=yes -o UserKnownHostsFile="\"$known\""
        -o ConnectTimeout="$timeout" -p "${host_port[i]}" -l "${host_user[i]}")
    case $2 in
    key) words+=(-o BatchMode=yes -o IdentitiesOnly=yes -o IdentityFile="\"${key//%/%%}\"") ;;
    own) words+=(-o BatchMode=yes); [[ ${host_key[i]} == - ]] || words+=(-o IdentityFile="\"${host_key[i]//%/%%}\"") ;;
    password)
        words=(sshpass -e "${words[@]}" -o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1
            -o 'PreferredAuthentications=password,keyboard-interactive')
        ;;
    esac
    host_ask "$work/script" "$work/$i" $((timeout * 3)) "${words[@]}" "${host_name[i]}" 'bash -s'
    return "$(<"$work/$i.code")"
}

# Tries the generated key first, then the user's keys.
login_by_key() { # INDEX
    local code=255
    # No host knows a key that was just generated.
    [[ $key_is_new == yes ]] || { code=0; login_as "$1" key || code=$?; }
    if [[ $code -eq 255 ]]; then code=0; login_as "$1" own || code=$?; fi
    login_done "$1" "$code"
}

login_by_password() { # INDEX
    local code=0
    rm -f "$work/$1.failed" "$work/$1.denied"
    login_as "$1" password || code=$?
    login_done "$1" "$code"
    # 5: sshpass's code for a wrong password.
    if [[ $code -eq 5 || -e $work/$1.denied ]]; then
        printf '%s\n' "prompt: password rejected" \
            "check ${host_user[$1]}'s password, and that sshd accepts passwords; otherwise use key_file in HOSTS, or ssh-add" \
            >"$work/$1.failed"
    fi
}

login_done() { # INDEX CODE
    local text
    text=$(cat "$work/$1.err")
    [[ $2 -ne 0 ]] || return 0
    if [[ $2 -eq 255 || $2 -eq 124 ]]; then
        host_fails "$1" "$2" "$text"
        if [[ $text == *'Permission denied'* ]]; then touch "$work/$1.denied"; fi
    else
        printf '%s\n' "on the host: ${text##*$'\n'}" "check free space and write permission of ~/.ssh there" >"$work/$1.failed"
    fi
}

# Logs in to every healthy host by any method that works.
login_all() {
    local denied=() i
    count_healthy
    hosts_each login_by_key "${healthy[@]}"
    for i in "${healthy[@]}"; do
        [[ ! -e $work/$i.denied ]] || denied+=("$i")
    done
    ((${#denied[@]} > 0)) || return 0
    if [[ -z ${SSHPASS+set} ]] && { : </dev/tty; } 2>/dev/null; then
        printf 'password of %s at %s%s: ' "${host_user[denied[0]]}" "${host_name[denied[0]]}" \
            "$( ((${#denied[@]} == 1)) || echo " and $((${#denied[@]} - 1)) more")" >/dev/tty
        IFS= read -rs SSHPASS </dev/tty
        export SSHPASS
        echo >/dev/tty
    fi
    if [[ -z ${SSHPASS+set} ]]; then
        for i in "${denied[@]}"; do
            printf '%s\n' "prompt: no key was accepted, and ${host_user[i]}'s password cannot be entered without a terminal" \
                "export SSHPASS, load a key that works (ssh-add), or set key_file in HOSTS. If it worked \
before, on ${host_name[i]}: chmod go-w ~ ~/.ssh ~/.ssh/authorized_keys" >"$work/$i.failed"
        done
    else
        command -v sshpass >/dev/null || die 4 "sshpass, needed for password logins, was not found (apt-get install sshpass)"
        hosts_each login_by_password "${denied[@]}"
    fi
}
