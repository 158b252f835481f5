# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of container.sh, ask.sh and judge.sh
# up: keys, containers, and the logins between them. Sourced by container.sh.

start_functions="host_start host_lock host_engine host_answers host_image host_limit host_gpus host_words host_env host_spec host_container \
host_worker sshd_settings sshd_clear_sessions host_bridge host_give_user host_settle files_put"

up_key_arguments() { # I
    args=("$([[ $1 == 0 ]] && echo yes || echo no)" "$seconds")
}
up_start_arguments() { # I
    args=("$login_key" "$seconds")
}
up_join_arguments() { # I
    args=("$(up_ssh_config)" "$(up_known_hosts)" "$(up_hosts)" "${targets[@]}")
}

# Fails with 4 if a host has not finished the round.
up_finished() { # ROUND
    local i bad=0 problem lost
    for i in "${!host_name[@]}"; do
        answered "$1" "$i" && continue
        bad=$((bad + 1))
        note "${host_name[i]}: $problem"
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} hosts failed; scripts/container.sh down removes what was made"
}

# Sets target, target_port, target_user and known_files as this machine's ssh has them.
up_login() { # I
    local SSH key value
    login_words "$1"
    known_files=''
    while read -r key value; do
        case $key in
        hostname) target=$value ;;
        port) target_port=$value ;;
        user) target_user=$value ;;
        userknownhostsfile | globalknownhostsfile) known_files+=" $value" ;;
        esac
    done < <("${SSH[@]}" -G "${host_name[$1]}")
}

# Prints the settings of ssh in the first container.
up_ssh_config() {
    local i alias target target_port target_user known_files to
    echo '# Written by container.sh of dptrain.'
    for i in "${!host_name[@]}"; do
        up_login "$i"
        alias=$(host_alias "${host_name[i]}") to=$port
        if [[ $bridge == yes ]]; then to=$target_port; else target_user=$(said_exactly '[A-Za-z0-9._-]+' start "$i" user); fi
        printf 'Host %s%s\n' "$alias" "$([[ $alias == "${host_name[i]}" ]] || echo " ${host_name[i]}")"
        printf '    %s\n' "HostName ${target//%/%%}" "Port $to" "User $target_user" "HostKeyAlias $alias"
    done
    printf 'Host *\n'
    printf '    %s\n' 'IdentityFile /run/dptrain/login_key' 'IdentitiesOnly yes' 'StrictHostKeyChecking yes' \
        'UserKnownHostsFile /run/dptrain/known_hosts' 'GlobalKnownHostsFile /dev/null' 'UpdateHostKeys no' 'BatchMode yes'
}

# Prints the keys of the containers, which the hosts made and told over pinned logins; with --bridge those of the hosts, as
# they are pinned on this machine.
up_known_hosts() {
    local i pin file target target_port target_user known_files
    for i in "${!host_name[@]}"; do
        if [[ $bridge == no ]]; then
            printf '%s %s\n' "$(host_alias "${host_name[i]}")" "$(said_exactly 'ssh-ed25519 [A-Za-z0-9+/=]+' keys "$i" host_key)"
            continue
        fi
        up_login "$i"
        pin=$target
        if [[ $target_port != 22 ]]; then pin="[$target]:$target_port"; fi
        for file in $known_files; do
            file=${file/#\~/$HOME}
            [[ ! -r $file ]] || ssh-keygen -F "$pin" -f "$file" 2>/dev/null || true
        done | keys_columns | sed "s/^/$(host_alias "${host_name[i]}") /"
    done
}

# Prints the hostfile for run.sh.
up_hosts() {
    local i
    for i in "${!host_name[@]}"; do
        [[ ${host_slots[i]} != - ]] || { echo "${host_name[i]}" && continue; }
        echo "${host_name[i]} slots=${host_slots[i]}"
    done
}

# Judges what host_start said; ends with 4 if a container does not work.
up_judge_start() {
    local i bad=0 value seen own megabytes problem
    for i in "${!host_name[@]}"; do
        problem=''
        if value=$(said start "$i" failed); then
            problem=$value
        elif value=$(said start "$i" noanswer); then
            problem="no answer from sshd on port $port within $timeout s; the container is ${value:-gone}; its last line: $(said start "$i" log)"
        else
            value=$(said_number 0 start "$i" shm)
            shm_megabytes "$(said probe "$i" shm | tail -n 1)"
            # A whole number of pages.
            if ((value / 1024 < megabytes - 1)); then
                problem="/dev/shm has $((value / 1024)) MB in the container instead of $megabytes MB"
            elif read -r seen own < <(said start "$i" seen) && number_or 0 seen own && { ((seen == 0)) || ((own > 0 && seen != own)); }; then
                problem="nvidia-smi -L shows $seen GPUs in the container$( ((own == 0)) || echo ", and $own on the host")"
            elif ! said_exactly '[A-Za-z0-9._-]+' start "$i" user >/dev/null; then
                problem="the container does not say its user"
            elif [[ $bridge == no ]] && ! said_exactly 'ssh-ed25519 [A-Za-z0-9+/=]+' keys "$i" host_key >/dev/null; then
                problem="its host key is not a line of ssh-keygen's"
            fi
        fi
        [[ -n $problem ]] || continue
        bad=$((bad + 1))
        note "${host_name[i]}: $problem"
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} containers do not work; scripts/container.sh down removes them"
}

# Ends with 4 if the first container cannot log in to another one.
up_judge_join() {
    local i code text bad=0
    for ((i = 1; i < ${#host_name[@]}; i++)); do
        code=124 text=''
        IFS=$'\t' read -r code text < <(said join 0 login | grep "^$i " | cut -d ' ' -f 2-) || true
        [[ $code != 0 ]] || continue
        ssh_cause "$code" "$(tr '|' '\n' <<<"$text")" "${host_name[i]}" "$port" "the container of ${host_name[0]}"
        bad=$((bad + 1))
        note "${host_name[0]} -> ${host_name[i]}: $CAUSE -> $ADVICE"
    done
    ((bad == 0)) || die 4 "$bad containers cannot be reached from that of ${host_name[0]}; scripts/container.sh down removes them"
}

# Prints what runs where, and how to use it.
up_table() {
    local i what id target target_port target_user known_files widest how
    widest=$(printf '%s\n' "${host_name[@]}" | wc -L)
    for i in "${!host_name[@]}"; do
        up_login "$i"
        for what in kept restarted started; do
            id=$(said start "$i" $what) && break
        done
        how="$target:$port"
        if [[ $bridge == yes ]]; then how="through sshd of $target:$target_port"; fi
        show '%-*s  %-9s %s  %s  user %s  /dev/shm %d MB' "$widest" "${host_name[i]}" "$what" "$id" "$how" \
            "$(said start "$i" user)" $(($(said_number 0 start "$i" shm) / 1024))
    done
    [[ " ${host_gpus[*]} " =~ ^[\ -]*$ ]] ||
        note "/run/dptrain/hosts has no GPU numbers: give them to run.sh by --include"
    words=(exec)
    [[ $name == dptrain ]] || words+=(--name "$name")
    printf 'run a job: %s %s -- run.sh -hostfile /run/dptrain/hosts -- train …\n' "$0" "${words[*]} ${filter[*]}${filter[*]:+ }$hosts"
}

# shellcheck disable=SC2317 # the traps call it
up_interrupted() { # CODE
    note "interrupted; scripts/container.sh down removes what was made"
    # shellcheck disable=SC2034 # hosts_each reads it
    interrupted=yes
    exit "$1"
}

container_up() {
    local i push_to wanted_id wanted_bytes image_from here_engine='' login_key targets=() seconds=$timeout
    judge_all
    if [[ $dry_run == yes ]]; then
        for i in "${!host_name[@]}"; do show '%s: %s' "${host_name[i]}" "$(said probe "$i" command)"; done
        return
    fi
    push_all
    trap 'up_interrupted 130' INT
    trap 'up_interrupted 143' TERM HUP
    ask keys up_key_arguments "host_keys host_engine host_lock"
    up_finished keys
    login_key=$(said_exactly 'ssh-ed25519 [A-Za-z0-9+/=]+ [A-Za-z0-9._-]+' keys 0 login_key) ||
        die 4 "${host_name[0]}: its login key is not a line of ssh-keygen's"
    # A container that does not answer in time has a last line to tell.
    timeout=$((2 * seconds + 30)) ask start up_start_arguments "$start_functions"
    up_finished start
    up_judge_start
    for ((i = 1; i < ${#host_name[@]}; i++)); do targets+=("$(host_alias "${host_name[i]}")"); done
    ask join up_join_arguments "host_join host_engine host_give_user inside_logins files_put" 0
    answered join 0 || die 4 "${host_name[0]}: $problem"
    up_judge_join
    up_table
}
