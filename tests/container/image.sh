#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prints a tar of a root folder for a test's image: programs of this machine with their libraries, and a bundle in /opt/dptrain.
# Without a network, this stands in for the base and the packages of scripts/container/Containerfile.
# tests/container/image.sh BUNDLE.tar.gz >root.tar
set -euo pipefail

root=$(mktemp -d "${TMPDIR:-/tmp}/dptrain-image.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},etc,opt/dptrain,proc,sys,dev,run/sshd,tmp,var/tmp,root,home/mpiuser}
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
chmod 1777 "$root/tmp" "$root/var/tmp"
chmod 700 "$root/root"

# What coreutils, util-linux, procps, iproute2, openssh and rsync put into a Debian image.
programs=(awk bash basename cat chgrp chmod chown cmp comm cp cut date dd df dirname du env false find flock getconf getent
    grep gzip head hostname id install ip kill ln ls md5sum mkdir mkfifo mktemp mount mv nproc od paste pgrep pkill printenv
    printf ps pwd readlink realpath rm rmdir rsync sed seq setpriv setsid sh sha256sum sleep sort ss ssh ssh-keygen stat stty tail
    tar taskset tee test timeout touch tr true tty uname uniq wc xargs)
PATH=$PATH:/usr/sbin:/sbin
files=()
for program in "${programs[@]}"; do
    path=$(type -P "$program") || { echo "image.sh: no $program here" >&2; exit 4; }
    cp -L "$path" "$root/usr/bin/$program"
    files+=("$path")
done
cp -L /usr/sbin/sshd "$root/usr/sbin/sshd"
# From OpenSSH 9.8 on, sshd starts other programs for each connection.
for path in /usr/lib/openssh/sshd-{session,auth}; do
    [[ -e $path ]] || continue
    mkdir -p "$root/usr/lib/openssh" && cp -L "$path" "$root$path"
    files+=("$path")
done
# ldd prints paths with and without /usr; both folders are one.
ldd "${files[@]}" /usr/sbin/sshd 2>/dev/null | grep -oE '/(usr/)?lib[^ ]*\.so[^ ]*' | sed 's|^/usr||' | sort -u |
    while read -r library; do
        mkdir -p "$root/usr${library%/*}"
        cp -L "$library" "$root/usr$library"
    done
# The bundle has its own libraries, except glibc's.
for library in libdl libm libpthread librt libresolv libutil; do
    cp -L "/lib/x86_64-linux-gnu/$library".so.[0-9]* "$root/usr/lib/x86_64-linux-gnu/"
done
printf '%s\n' root:x:0:0:root:/root:/bin/bash sshd:x:101:65534::/run/sshd:/usr/sbin/nologin \
    mpiuser:x:1000:1000::/home/mpiuser:/bin/bash nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin >"$root/etc/passwd"
printf '%s\n' root:x:0: mpiuser:x:1000: nogroup:x:65534: >"$root/etc/group"
printf '%s:*:19000:0:99999:7:::\n' root sshd mpiuser >"$root/etc/shadow"
chmod 600 "$root/etc/shadow"
chown 1000:1000 "$root/home/mpiuser"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
mkdir "$root/etc/ssh"
cp "$(dirname "${BASH_SOURCE[0]}")/../../scripts/container/ssh_mpi.conf" "$root/etc/ssh/ssh_config"
ln -s /opt/dptrain/scripts/container/sshd_mpi.sh "$root/usr/bin/sshd_mpi"
tar -xzf "$1" -C "$root/opt/dptrain" --strip-components=1
tar -C "$root" --numeric-owner -c .
