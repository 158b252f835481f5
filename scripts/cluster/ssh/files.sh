# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# Changes to ~/.ssh, on this machine and on the hosts, where bash runs these functions. Sourced by setup_ssh.sh.

# Replaces the file by standard input atomically, because hosts may share the folder and do this at the same time. Keeps
# symbolic links.
files_put() { # FILE
    local target part
    target=$(readlink -f "$1") && part=$(mktemp "$target.XXXXXX") && cat >"$part" || return
    [[ ! -e $target ]] || chmod --reference="$target" "$part"
    mv "$part" "$target"
}

# Installs key, pinned keys and settings in ~/.ssh. Other files keep their contents.
files_install() {
    local line='Include ~/.ssh/dptrain_config' text=''
    umask 077
    mkdir -p ~/.ssh || return
    if [[ -n $key_text ]]; then
        # ssh ignores a key that others can read.
        [[ ! -e ~/.ssh/dptrain_ed25519 ]] || chmod 600 ~/.ssh/dptrain_ed25519 || return
        files_put ~/.ssh/dptrain_ed25519 <<<"$key_text" && files_put ~/.ssh/dptrain_ed25519.pub <<<"$public_text" &&
            files_put ~/.ssh/dptrain_known_hosts <<<"$known_text" || return
    fi
    files_put ~/.ssh/dptrain_config <<<"$config_text" || return
    # Before any Host line; after one it would apply to that host only.
    if [[ $(head -n 1 ~/.ssh/config 2>/dev/null) != "$line" ]]; then
        [[ ! -e ~/.ssh/config ]] || text=$(grep -vxF "$line" ~/.ssh/config)
        printf '%s\n' "$line" ${text:+"$text"} | files_put ~/.ssh/config
    fi
}

# Authorizes the key. Prints `writable`, tab and path for permissions that make sshd ignore it.
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
    # SELinux needs labels on new files.
    if command -v restorecon >/dev/null; then restorecon -R ~/.ssh >/dev/null 2>&1; fi
    return 0
}

# Removes everything, except if this ~/.ssh belongs to the machine that runs the script, which comes last.
files_remove() { # TOKEN
    local blob='' file text
    [[ ! -e ~/.ssh/dptrain_remove.$1 ]] || return 0
    umask 077
    if [[ -r ~/.ssh/dptrain_ed25519.pub ]]; then
        read -r _ blob _ <~/.ssh/dptrain_ed25519.pub
    elif [[ -r ~/.ssh/dptrain_ed25519 ]]; then
        read -r _ blob _ < <(ssh-keygen -y -P '' -f ~/.ssh/dptrain_ed25519 2>/dev/null)
    fi
    for file in authorized_keys config; do
        [[ -e ~/.ssh/$file ]] || continue
        text=$(awk -v key="$blob" '$0 != "Include ~/.ssh/dptrain_config" && !(key != "" && index($0, key))' ~/.ssh/$file)
        if [[ -z $text ]]; then
            rm -f ~/.ssh/$file
        elif [[ $text != "$(cat ~/.ssh/$file)" ]]; then
            files_put ~/.ssh/$file <<<"$text" || return
        fi
    done
    rm -f ~/.ssh/dptrain_{config,known_hosts,ed25519,ed25519.pub} || return
    rmdir ~/.ssh 2>/dev/null || true
}
