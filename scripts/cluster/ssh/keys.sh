# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# Looks up, compares and pins host keys. Sourced by setup_ssh.sh.

# Prints type and key of each known_hosts line, sorted.
keys_columns() {
    awk '!/^#/ { for (i = 2; i <= NF; i++) if ($i ~ /^AAAA/) print $(i - 1), $i }' | LC_ALL=C sort -u
}

# Writes the host's keys to $work/I.scan in known_hosts format, or writes $work/I.failed.
keys_scan() { # INDEX
    local i=$1 error
    ssh-keyscan -T "$timeout" -t ed25519 -p "${host_port[i]}" "${host_target[i]}" >"$work/$i.scan" 2>/dev/null || true
    if [[ ! -s $work/$i.scan ]] && error=$(keys_ssh_error "$i" -o UserKnownHostsFile=/dev/null) &&
        [[ $error =~ 'Host key verification failed'|'host key is known' ]]; then
        # An sshd without Ed25519.
        ssh-keyscan -T "$timeout" -t ecdsa,rsa -p "${host_port[i]}" "${host_target[i]}" >"$work/$i.scan" 2>/dev/null ||
            true
    fi
    [[ -s $work/$i.scan ]] || host_fails "$i" 255 "${error:-}"
}

# Prints ssh's message for a login that fails; returns an error if the login works.
keys_ssh_error() { # INDEX OPTION...
    local i=$1
    ! timeout "$((timeout + 5))" ssh -F "$work/own_config" -o BatchMode=yes -o StrictHostKeyChecking=yes \
        -o ConnectTimeout="$timeout" "${@:2}" -p "${host_port[i]}" -l "${host_user[i]}" "${host_name[i]}" true \
        </dev/null 2>&1 >/dev/null
}

host_fails() { # INDEX CODE TEXT
    local i=$1 other
    ssh_cause "$2" "$3" "${host_name[i]}" "${host_port[i]}" "$(hostname)"
    if [[ $CAUSE =~ ^(refused|connection closed) && ${host_port[i]} != 22 ]]; then
        other=$(ssh-keyscan -T 2 -t ed25519 "${host_target[i]}" 2>/dev/null) || true
        [[ -z $other ]] || CAUSE="wrong port: $CAUSE, but one on port 22" ADVICE="--ssh-port 22, or port in HOSTS"
    fi
    printf '%s\n%s\n' "$CAUSE" "$ADVICE" >"$work/$i.failed"
}

keys_fingerprints() { # FILE
    ssh-keygen -lf "$1" | awk '{ printf "%s%s %s", sep, $2, $NF; sep = ", " }'
}

# Whether the file --fingerprints lists the key: under this host's name, or under a name that belongs to none
# of the hosts, such as root@ip-10-0-0-1.
keys_listed() { # INDEX FINGERPRINT
    awk -v key="$2" -v mine="${host_name[$1]} ${host_target[$1]}" -v all="${host_name[*]} ${host_target[*]}" '
        function has(list, name) { return index(" " list " ", " " name " ") > 0 }
        $2 == key {
            sub(/^[^ ]+ +[^ ]+ +/, "")
            sub(/ *\([A-Z0-9-]+\) *\r?$/, "")
            n = split($0, names, /[ ,]+/)
            others = own = 0
            for (i = 1; i <= n; i++) {
                sub(/^[^@]*@/, "", names[i])
                if (names[i] ~ /^\[.*\]:[0-9]+$/) { sub(/^\[/, "", names[i]); sub(/\]:[0-9]+$/, "", names[i]) }
                if (has(mine, names[i])) own = 1
                else if (has(all, names[i])) others = 1
            }
            if (own || !others) found = 1
        }
        END { exit !found }' <"$fingerprints"
}

# Reduces the host's keys to the listed ones; fails if there are none.
keys_expected() { # INDEX
    local i=$1 line
    while IFS= read -r line; do
        if keys_listed "$i" "$(ssh-keygen -lf - <<<"$line" | cut -d ' ' -f 2)"; then printf '%s\n' "$line"; fi
    done < <(grep -v '^#' "$work/$i.scan") >"$work/$i.expected"
    [[ -s $work/$i.expected ]] && mv "$work/$i.expected" "$work/$i.scan"
}

# Compares the host's keys with the expected ones, or else with the pinned ones and with the user's known_hosts. Pins new ones;
# without --fingerprints, unknown ones only add the host to strangers.
keys_pin() { # INDEX
    local i=$1 file old new is_known=no
    new=$(keys_columns <"$work/$i.scan")
    if [[ -n $fingerprints ]]; then
        if ! keys_expected "$i"; then
            printf '%s\n' "unexpected host key: the host sent $(keys_fingerprints "$work/$i.scan"), which $fingerprints does not list for it" \
                "compare with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its console; if they are equal, add that line to \
$fingerprints" >"$work/$i.failed"
            return
        fi
        old=$(ssh-keygen -F "${host_pin[i]}" -f "$known" 2>/dev/null | keys_columns) || true
        [[ $old != "$(keys_columns <"$work/$i.scan")" ]] || return 0
    elif [[ $accepted != *" ${host_name[i]} "* ]]; then
        for file in "$known" ~/.ssh/known_hosts; do
            old=$(ssh-keygen -F "${host_pin[i]}" -f "$file" 2>/dev/null | keys_columns) || true
            [[ -n $old ]] || continue
            if grep -qxF "$old" <<<"$new"; then
                if [[ $file == "$known" ]]; then return; else is_known=yes && continue; fi
            fi
            # The user's file may have keys of other types only.
            if [[ $file != "$known" ]] && ! cut -d ' ' -f 1 <<<"$old" | grep -qxF "$(cut -d ' ' -f 1 <<<"$new")"; then
                continue
            fi
            printf '%s\n' "host key changed: the host sent $(keys_fingerprints "$work/$i.scan"), which is not in $file" \
                "if it was reinstalled, compare with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its \
console, then run setup_ssh.sh --accept-new-host-key ${host_name[i]} HOSTS" >"$work/$i.failed"
            return
        done
        if [[ $is_known == no && $trust_first != yes ]]; then strangers+=("$i") && return; fi
    fi
    keys_keep "$i"
}

keys_keep() { # INDEX
    local i=$1
    note "${host_name[i]}: pinned $(keys_fingerprints "$work/$i.scan")"
    {
        awk -v pin="${host_pin[i]}" '$1 != pin' "$known"
        keys_columns <"$work/$i.scan" | sed "s/^/${host_pin[i]} /"
    } >"$work/known"
    files_put "$known" <"$work/known"
}

# Pins the strangers' keys if a person at the terminal confirms their fingerprints; otherwise these hosts fail.
keys_meet() {
    local i answer=no advice
    ((${#strangers[@]} > 0)) || return 0
    advice="compare with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its console"
    if { : </dev/tty; } 2>/dev/null; then
        {
            printf 'These hosts are contacted for the first time. To exclude a man in the middle, %s:\n' "$advice"
            for i in "${strangers[@]}"; do printf '  %-24s %s\n' "${host_name[i]}" "$(keys_fingerprints "$work/$i.scan")"; done
            printf 'Pin these keys (yes/no)? '
        } >/dev/tty
        IFS= read -r answer </dev/tty || true
    fi
    for i in "${strangers[@]}"; do
        if [[ $answer == [yY]es || $answer == [yY] ]]; then
            keys_keep "$i"
        else
            printf '%s\n' "unknown host key: $(keys_fingerprints "$work/$i.scan")" \
                "$advice, then give the expected ones by --fingerprints FILE, or accept these by --trust-first-contact" >"$work/$i.failed"
        fi
    done
}
