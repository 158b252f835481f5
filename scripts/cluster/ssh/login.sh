# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# The first login of each host: over whatever works. Sourced by setup_ssh.sh.

# Runs $work/script on the host; leaves $work/I.out. HOW: key (the one that is set up), own (what the user has) or
# password.
login_as() { # INDEX HOW
    local i=$1 words
    words=(ssh -F "$work/own_config" -T -x -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$known"
        -o ConnectTimeout="$timeout" -p "${host_port[i]}" -l "${host_user[i]}")
    case $2 in
    key) words+=(-o BatchMode=yes -o IdentitiesOnly=yes -i "$key") ;;
    own) words+=(-o BatchMode=yes); [[ ${host_key[i]} == - ]] || words+=(-i "${host_key[i]/#\~/$HOME}") ;;
    password)
        words=(sshpass -e "${words[@]}" -o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1
            -o 'PreferredAuthentications=password,keyboard-interactive')
        ;;
    esac
    host_ask "$work/script" "$work/$i" $((timeout * 3)) "${words[@]}" "${host_name[i]}" 'bash -s'
    return "$(<"$work/$i.code")"
}

# By a key: the new one first, then what the user has.
login_by_key() { # INDEX
    local code=255
    # No host knows a new one.
    [[ $key_is_new == yes ]] || { code=0; login_as "$1" key || code=$?; }
    if [[ $code -eq 255 ]]; then code=0; login_as "$1" own || code=$?; fi
    login_done "$1" "$code"
}

login_by_password() { # INDEX
    local code=0
    rm -f "$work/$1.failed" "$work/$1.denied"
    login_as "$1" password || code=$?
    login_done "$1" "$code"
    # 5 is sshpass's own code for it.
    if [[ $code -eq 5 || -e $work/$1.denied ]]; then
        printf '%s\n' "prompt: the password is not taken" \
            "is it ${host_user[$1]}'s, and does that sshd take passwords? Else key_file in HOSTS, or ssh-add" \
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
        printf '%s\n' "on the host: ${text##*$'\n'}" "is there room, and is ~/.ssh writable there?" >"$work/$1.failed"
    fi
}

# Enters every healthy host over whatever login works.
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
            printf '%s\n' "prompt: no key is taken, and there is no terminal to ask for ${host_user[i]}'s password" \
                "export SSHPASS, load a key that works (ssh-add), or name a key_file in HOSTS. If it worked \
before, on ${host_name[i]}: chmod go-w ~ ~/.ssh ~/.ssh/authorized_keys" >"$work/$i.failed"
        done
    else
        command -v sshpass >/dev/null || die 4 "sshpass, which gives ssh a password, was not found (apt-get install it)"
        hosts_each login_by_password "${denied[@]}"
    fi
}
