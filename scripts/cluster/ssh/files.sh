# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# What is done to ~/.ssh, here and on hosts: bash runs these functions there. Sourced by setup_ssh.sh.

# Standard input becomes the file, which is whole at any time: hosts may share the folder, and do this at once. A
# symbolic link stays one.
files_put() { # FILE
    local target part
    target=$(readlink -f "$1") && part=$(mktemp "$target.XXXXXX") && cat >"$part" || return
    [[ ! -e $target ]] || chmod --reference="$target" "$part"
    mv "$part" "$target"
}

# Puts key, pinned keys and settings into ~/.ssh; existing files but these keep all that is in them.
files_install() {
    local line='Include ~/.ssh/dptrain_config' text=''
    umask 077
    mkdir -p ~/.ssh || return
    if [[ -n $key_text ]]; then
        # ssh does not use a key that others may read.
        [[ ! -e ~/.ssh/dptrain_ed25519 ]] || chmod 600 ~/.ssh/dptrain_ed25519 || return
        files_put ~/.ssh/dptrain_ed25519 <<<"$key_text" && files_put ~/.ssh/dptrain_ed25519.pub <<<"$public_text" &&
            files_put ~/.ssh/dptrain_known_hosts <<<"$known_text" || return
    fi
    files_put ~/.ssh/dptrain_config <<<"$config_text" || return
    # Before any Host line: behind one it would hold for that host alone.
    if [[ $(head -n 1 ~/.ssh/config 2>/dev/null) != "$line" ]]; then
        [[ ! -e ~/.ssh/config ]] || text=$(grep -vxF "$line" ~/.ssh/config)
        printf '%s\n' "$line" ${text:+"$text"} | files_put ~/.ssh/config
    fi
}

# Opens the account to the key. Says `writable`, tab and path for what keeps sshd from looking at it.
files_install_login() {
    local keys=~/.ssh/authorized_keys blob file text=''
    read -r _ blob _ <<<"$public_text"
    files_install || return
    [[ ! -e $keys ]] || text=$(cat "$keys")
    if [[ $text != *"$blob"* ]]; then
        printf '%s\n' ${text:+"$text"} "$public_text" | files_put "$keys" || return
    fi
    for file in ~ ~/.ssh "$keys"; do
        [[ -z $(find -L "$file" -maxdepth 0 -perm /022) ]] || printf 'writable\t%s\n' "$file"
    done
    # Where SELinux is at work a new file needs its label.
    if command -v restorecon >/dev/null; then restorecon -R ~/.ssh >/dev/null 2>&1; fi
    return 0
}

# Takes everything away again. Not where ~/.ssh is the one of the machine that the script runs on: that one comes last.
files_remove() { # TOKEN
    local blob='' file text
    [[ ! -e ~/.ssh/dptrain_remove.$1 ]] || return 0
    umask 077
    [[ ! -r ~/.ssh/dptrain_ed25519.pub ]] || read -r _ blob _ <~/.ssh/dptrain_ed25519.pub
    for file in authorized_keys config; do
        [[ -e ~/.ssh/$file ]] || continue
        text=$(grep -vxF 'Include ~/.ssh/dptrain_config' ~/.ssh/$file | grep -vF "${blob:-no key}")
        if [[ -z $text ]]; then
            rm -f ~/.ssh/$file
        elif [[ $text != "$(cat ~/.ssh/$file)" ]]; then
            files_put ~/.ssh/$file <<<"$text" || return
        fi
    done
    rm -f ~/.ssh/dptrain_{config,known_hosts,ed25519,ed25519.pub} || return
    rmdir ~/.ssh 2>/dev/null || true
}
