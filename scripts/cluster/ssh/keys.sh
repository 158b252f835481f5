# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# Host keys: looked up, compared, pinned. Sourced by setup_ssh.sh.

# Type and key of each of known_hosts' lines, sorted.
keys_columns() {
    awk '!/^#/ { for (i = 2; i <= NF; i++) if ($i ~ /^AAAA/) print $(i - 1), $i }' | LC_ALL=C sort -u
}

# Leaves $work/I.scan, the host's keys as known_hosts has them, or $work/I.failed.
keys_scan() { # INDEX
    local i=$1 error
    ssh-keyscan -T "$timeout" -t ed25519 -p "${host_port[i]}" "${host_target[i]}" >"$work/$i.scan" 2>/dev/null || true
    if [[ ! -s $work/$i.scan ]] && error=$(keys_ssh_error "$i" -o UserKnownHostsFile=/dev/null) &&
        [[ $error =~ 'Host key verification failed'|'host key is known' ]]; then
        # An sshd without that type.
        ssh-keyscan -T "$timeout" -t ecdsa,rsa -p "${host_port[i]}" "${host_target[i]}" >"$work/$i.scan" 2>/dev/null ||
            true
    fi
    [[ -s $work/$i.scan ]] || host_fails "$i" 255 "${error:-}"
}

# What ssh says of a login that fails. Fails where it does not.
keys_ssh_error() { # INDEX OPTION...
    local i=$1
    ! timeout "$((timeout + 5))" ssh -F "$work/own_config" -o BatchMode=yes -o StrictHostKeyChecking=yes \
        -o ConnectTimeout="$timeout" "${@:2}" -p "${host_port[i]}" -l "${host_user[i]}" "${host_name[i]}" true \
        </dev/null 2>&1 >/dev/null
}

host_fails() { # INDEX CODE TEXT
    local i=$1 other
    ssh_cause "$2" "$3" "${host_name[i]}" "${host_port[i]}" "$(hostname)"
    if [[ $CAUSE =~ ^(refused|closed) && ${host_port[i]} != 22 ]]; then
        other=$(ssh-keyscan -T 2 -t ed25519 "${host_target[i]}" 2>/dev/null) || true
        [[ -z $other ]] || CAUSE="wrong port: $CAUSE, but one on port 22" ADVICE="--ssh-port 22, or port in HOSTS"
    fi
    printf '%s\n%s\n' "$CAUSE" "$ADVICE" >"$work/$i.failed"
}

keys_fingerprints() { # FILE
    ssh-keygen -lf "$1" | awk '{ printf "%s%s %s", sep, $2, $NF; sep = ", " }'
}

# Compares what the host showed with what was pinned and what the user's ssh has known before; pins what is new.
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
            # The user's file may know keys of other types alone.
            if [[ $file != "$known" ]] && ! cut -d ' ' -f 1 <<<"$old" | grep -qxF "$(cut -d ' ' -f 1 <<<"$new")"; then
                continue
            fi
            printf '%s\n' "host key changed: it shows $(keys_fingerprints "$work/$i.scan"), not what is in $file" \
                "if it was installed anew, compare with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its \
console, then setup_ssh.sh --accept-new-host-key ${host_name[i]} HOSTS" >"$work/$i.failed"
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
