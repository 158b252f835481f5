# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# An sshd in a container: its settings, and what comes before it. Sourced by container.sh, whose hosts run it too, and by sshd_mpi.

# Prints sshd's settings: keys only. Sessions get the environment on standard input, lines NAME=VALUE of which the last counts.
sshd_settings() { # PORT HOST_KEY AUTHORIZED_KEYS
    printf '%s\n' "Port $1" "HostKey $2" "AuthorizedKeysFile $3" \
        'PasswordAuthentication no' 'KbdInteractiveAuthentication no' 'PermitRootLogin prohibit-password' 'UsePAM no' \
        'UseDNS no' 'PidFile none' 'PrintMotd no' 'X11Forwarding no' 'AllowTcpForwarding no' 'AllowAgentForwarding no' \
        'MaxStartups 100'
    # The folder of keys is mounted read-only, and belongs to neither root nor the container's user.
    echo 'StrictModes no'
    printf 'SetEnv'
    # sshd reads the first SetEnv line only.
    awk -F = '/^[A-Za-z_][A-Za-z0-9_]*=/ && $1 !~ /^(HOME|HOSTNAME|TERM|PWD)$/ {
            if (!($1 in value)) order[++n] = $1
            value[$1] = substr($0, length($1) + 2)
        }
        END { for (i = 1; i <= n; i++) {
            text = value[order[i]]
            gsub(/[\\"]/, "\\\\&", text)
            printf " %s=\"%s\"", order[i], text
        } }'
    printf '\n'
}

# Removes the folders of MPI's daemons that died with the container. One that starts again has the same process numbers, and a
# daemon of OpenMPI 5 ends if there is a folder of its number. A mounted /tmp may be the host's, with daemons that live.
sshd_clear_sessions() {
    [[ $(stat -c %d /tmp) != "$(stat -c %d /)" ]] || rm -rf /tmp/ompi.* /tmp/prte* || true
}
