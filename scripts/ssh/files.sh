# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# What is done to ~/.ssh, here and on hosts: bash runs these functions there. Sourced by setup_ssh.sh.

# Puts key, pinned keys and settings into ~/.ssh; existing files but these keep all that is in them.
install_files() {
    local line='Include ~/.ssh/dptrain_config' text=''
    umask 077
    mkdir -p ~/.ssh || return
    write_own() { cat >"$1.$$" && mv "$1.$$" "$1"; }
    if [[ -n $key_text ]]; then
        write_own ~/.ssh/dptrain_ed25519 <<<"$key_text" && write_own ~/.ssh/dptrain_ed25519.pub <<<"$public_text" &&
            write_own ~/.ssh/dptrain_known_hosts <<<"$known_text" || return
    fi
    write_own ~/.ssh/dptrain_config <<<"$config_text" || return
    # Before any Host line: behind one it would hold for that host alone.
    if [[ $(head -n 1 ~/.ssh/config 2>/dev/null) != "$line" ]]; then
        [[ ! -e ~/.ssh/config ]] || text=$(grep -vxF "$line" ~/.ssh/config)
        # Written in place: a symbolic link stays one.
        printf '%s\n' "$line" ${text:+"$text"} >~/.ssh/config
    fi
}

# Opens the account to the key. Says `writable`, tab and path for what keeps sshd from looking at it.
install_login() {
    local keys=~/.ssh/authorized_keys blob file
    read -r _ blob _ <<<"$public_text"
    install_files || return
    if ! grep -qsF "$blob" "$keys"; then
        # A last line without its end would swallow ours.
        [[ ! -s $keys || -z $(tail -c 1 "$keys") ]] || echo >>"$keys"
        printf '%s\n' "$public_text" >>"$keys" || return
    fi
    for file in ~ ~/.ssh "$keys"; do
        [[ -z $(find -L "$file" -maxdepth 0 -perm /022) ]] || printf 'writable\t%s\n' "$file"
    done
    # Where SELinux is at work a new file needs its label.
    if command -v restorecon >/dev/null; then restorecon -R ~/.ssh >/dev/null 2>&1; fi
    return 0
}

# Takes everything away again. Not where ~/.ssh is the one of the machine that the script runs on: that one comes last.
remove_files() { # TOKEN
    local blob='' text
    [[ ! -e ~/.ssh/dptrain_remove.$1 ]] || return 0
    umask 077
    [[ ! -r ~/.ssh/dptrain_ed25519.pub ]] || read -r _ blob _ <~/.ssh/dptrain_ed25519.pub
    if [[ -n $blob && -e ~/.ssh/authorized_keys ]]; then
        text=$(grep -vF "$blob" ~/.ssh/authorized_keys)
        printf '%s' "$text" ${text:+$'\n'} >~/.ssh/authorized_keys || return
        [[ -n $text ]] || rm -f ~/.ssh/authorized_keys
    fi
    if [[ -e ~/.ssh/config ]]; then
        text=$(grep -vxF 'Include ~/.ssh/dptrain_config' ~/.ssh/config)
        printf '%s' "$text" ${text:+$'\n'} >~/.ssh/config || return
        [[ -n $text ]] || rm -f ~/.ssh/config
    fi
    rm -f ~/.ssh/dptrain_{config,known_hosts,ed25519,ed25519.pub} || return
    rmdir ~/.ssh 2>/dev/null || true
}
