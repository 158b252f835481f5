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

# Compares the host's keys with the pinned ones and with the user's known_hosts; pins new ones.
keys_pin() { # INDEX
    local i=$1 file old new
    new=$(keys_columns <"$work/$i.scan")
    if [[ $accepted != *" ${host_name[i]} "* ]]; then
        for file in "$known" ~/.ssh/known_hosts; do
            old=$(ssh-keygen -F "${host_pin[i]}" -f "$file" 2>/dev/null | keys_columns) || true
            [[ -n $old ]] || continue
            if grep -qxF "$old" <<<"$new"; then
                if [[ $file == "$known" ]]; then return; else continue; fi
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
    fi
    note "${host_name[i]}: pinned $(keys_fingerprints "$work/$i.scan")"
    {
        awk -v pin="${host_pin[i]}" '$1 != pin' "$known"
        keys_columns <"$work/$i.scan" | sed "s/^/${host_pin[i]} /"
    } >"$work/known"
    files_put "$known" <"$work/known"
}
