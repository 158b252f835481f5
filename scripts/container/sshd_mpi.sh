#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The first process of an MPIJob's worker: an sshd on port 2222 that runs as the pod's user. The MPI Operator mounts the job's key
# at sshAuthMountPath; it is the host key, and the only one that may log in. See mpijob.sh.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/container/sshd.sh
. "$here/container/sshd.sh"

keys=~/.ssh
for file in id_rsa id_rsa.pub authorized_keys; do
    [[ -r $keys/$file ]] ||
        die 4 "cannot read $keys/$file as user $(id -u): the MPI Operator mounts the job's key at sshAuthMountPath, which must be $keys"
done
sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || die 4 "the image has no sshd"
sshd_clear_sessions
# Read at start, and when sshd is asked to read it again.
settings=$(mktemp /tmp/dptrain-sshd.XXXXXX) || die 4 "cannot write to /tmp"
for name in $(compgen -e); do
    [[ ${!name} == *$'\n'* ]] || printf '%s=%s\n' "$name" "${!name}"
done | sshd_settings 2222 "$keys/id_rsa" "$keys/authorized_keys" >"$settings"
exec "$sshd" -D -e -f "$settings"
