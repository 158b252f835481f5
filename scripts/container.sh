#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the container image, and runs one container on every host. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/cluster/hosts.sh
. "$here/cluster/hosts.sh"
# shellcheck source=scripts/cluster/ssh/files.sh
. "$here/cluster/ssh/files.sh"
# shellcheck source=scripts/cluster/ssh/keys.sh
. "$here/cluster/ssh/keys.sh"
# shellcheck source=scripts/container/usage.sh
. "$here/container/usage.sh"
# shellcheck source=scripts/container/environment.sh
. "$here/container/environment.sh"
# shellcheck source=scripts/container/sshd.sh
. "$here/container/sshd.sh"
# shellcheck source=scripts/container/host.sh
. "$here/container/host.sh"
# shellcheck source=scripts/container/ask.sh
. "$here/container/ask.sh"
# shellcheck source=scripts/container/build.sh
. "$here/container/build.sh"
# shellcheck source=scripts/container/judge.sh
. "$here/container/judge.sh"
# shellcheck source=scripts/container/push.sh
. "$here/container/push.sh"
# shellcheck source=scripts/container/up.sh
. "$here/container/up.sh"
# shellcheck source=scripts/container/exec.sh
. "$here/container/exec.sh"
# shellcheck source=scripts/container/down.sh
. "$here/container/down.sh"

case ${1:-} in
build | up | check | exec | down) verb=$1 ;;
'') die 2 "the command is missing: build, up, check, exec or down; --help explains them" ;;
-*) common_option "$1" ;;
*) die 2 "unknown command '$1': expected build, up, check, exec or down" ;;
esac
shift

# Settings of the hosts' functions, for remote_script.
engine='' image=dptrain name=dptrain port=12345 shm='' mounts=() gpus=auto bridge=no user='' read_only=no env_text=''
settings="engine image name port shm mounts gpus bridge user read_only env_text"
hosts='' filter=() timeout=60 push=no dry_run=no env_files=() build_args=() words=()

# Options that a command does not take are unknown to it.
takes() { # OPTION
    case $verb:$1 in
    build:--engine | build:--image | build:--build-arg | build:--dry-run) ;;
    build:* | *:--build-arg) return 1 ;;
    up:--image | up:--push | up:--port | up:--shm-size | up:--mount | up:--gpus | up:--env-file | up:--user) ;;
    up:--read-only | up:--bridge | up:--dry-run) ;;
    *:--engine | *:--name | *:--include | *:--exclude | *:--timeout) ;;
    *) return 1 ;;
    esac
}

mount_option() { # VALUE
    [[ $1 =~ ^(/[^:,]*)(:(/[^:,]*))?(:(ro|rw))?$ ]] ||
        die 2 "invalid --mount '$1': expected FOLDER, FOLDER:PATH or FOLDER:PATH:ro, with absolute paths"
    local place=${BASH_REMATCH[3]:-${BASH_REMATCH[1]}} mount=${BASH_REMATCH[1]} only=${BASH_REMATCH[5]/rw/}
    case $(tr -s / <<<"$place/") in
    / | /dev/* | /proc/* | /run/ | /run/dptrain/* | /sys/* | /opt/ | /opt/dptrain/*)
        die 2 "invalid --mount '$1': $place would hide a folder that the container needs; choose another path in it: $mount:/shared" ;;
    esac
    [[ " ${mounts[*]/%:ro/} " != *":$place "* ]] || die 2 "--mount: two folders for $place in the container"
    mounts+=("$mount:$place${only:+:ro}")
}

while [[ $# -gt 0 ]]; do
    case $1 in
    --) shift; words=("$@"); break ;;
    -*) takes "$1" || common_option "$1" "of $verb" ;;
    esac
    case $1 in
    --push) push=yes; shift; continue ;;
    --bridge) bridge=yes; shift; continue ;;
    --read-only) read_only=yes; shift; continue ;;
    --dry-run) dry_run=yes; shift; continue ;;
    -*) need_value "$@" ;;
    esac
    case $1 in
    --engine) engine=$2 ;;
    --image)
        [[ $2 =~ ^[A-Za-z0-9][A-Za-z0-9._/:@-]*$ ]] || die 2 "invalid --image '$2': expected a name such as registry.example/dptrain:1"
        image=$2 ;;
    --build-arg) build_args+=(--build-arg "$2") ;;
    --name)
        [[ $2 =~ ^[A-Za-z0-9][A-Za-z0-9_.-]*$ ]] || die 2 "invalid --name '$2': expected letters, digits, and any of _.-"
        name=$2 ;;
    --port)
        whole_number "$1" "$2" 1
        port=$((10#$2))
        ((port < 65536)) || die 2 "invalid --port '$2': expected a number below 65536" ;;
    --shm-size)
        [[ $2 =~ ^[1-9][0-9]*[kmg]$ ]] || die 2 "invalid --shm-size '$2': expected a size such as 512m or 16g"
        shm=$2 ;;
    --mount) mount_option "$2" ;;
    --gpus) gpus=$2 ;;
    --env-file) env_files+=("$2") ;;
    --user) whole_number "$1" "$2" 1; user=$((10#$2)) ;;
    --timeout) whole_number "$1" "$2" 1; timeout=$((10#$2)) ;;
    --include | --exclude) filter+=("$1" "$2") ;;
    -*) common_option "$1" ;;
    *)
        [[ $verb != build ]] || die 2 "unexpected argument '$1': build takes options only"
        [[ -z $hosts ]] || die 2 "unexpected argument '$1' after HOSTS '$hosts'; separate hosts in a list by commas: a,b"
        hosts=$1
        shift
        continue ;;
    esac
    shift 2
done
case $engine in
'' | podman | docker) ;;
buildah) [[ $verb == build ]] || die 2 "invalid --engine 'buildah': it builds images, and runs none; expected podman or docker" ;;
*) die 2 "invalid --engine '$engine': expected podman$([[ $verb != build ]] || echo ', buildah') or docker" ;;
esac
[[ $gpus == @(auto|all|none) ]] || die 2 "invalid --gpus '$gpus': expected auto, all or none"
[[ $verb == exec || $verb == check || ${#words[@]} -eq 0 ]] || die 2 "unexpected argument '${words[0]}' after --"
[[ $verb != exec || ${#words[@]} -gt 0 ]] || die 2 "nothing to do: pass -- COMMAND"
[[ $verb == build || -n $hosts ]] || die 2 "HOSTS is missing; --help explains it"
end_of_options
if [[ $verb == build ]]; then
    container_build
    exit
fi
for tool in ssh ssh-keygen timeout; do
    command -v "$tool" >/dev/null || die 4 "$tool was not found; scripts/install_deps.sh installs it (openssh-client)"
done
env_read "${env_files[@]}"
# A single name is a list too.
if [[ $hosts != *[/:,]* && ! -e $hosts ]]; then hosts+=:1; fi
hosts_read "$hosts" "${filter[@]}"
make_work container
trap 'interrupted=yes; exit 130' INT
trap 'interrupted=yes; exit 143' TERM HUP
case $verb in
up) container_up ;;
check) container_check ;;
exec) container_exec "${words[@]}" ;;
down) container_down ;;
esac
