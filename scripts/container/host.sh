# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the settings below are shipped with the functions
# What container.sh does on a host. bash runs these functions there (remote_script), so each round names the ones it needs.
# Settings: name, engine (or empty), image, port, shm (or empty), mounts, gpus, bridge, user (or empty), read_only, env_text.
#
# A container belongs to a folder ~/.dptrain/NAME@HOST of mode 700:
#   env       the container's environment        bridge    the forced command of --bridge
#   engine    the one that runs it               lock      held by the up that works on it
#   inside/   mounted on /run/dptrain: worker, sshd_config, host_key, authorized_keys; on the first host also login_key,
#             ssh_config, known_hosts, hosts
# Facts are lines `KEY VALUES…` on standard output; `end` is the last one of a round that did not fail.

# Sets kind to the engine, and folder; fails without an engine.
host_engine() {
    local candidate
    folder=$HOME/.dptrain/$name@$(uname -n) kind=''
    PATH=$PATH:/usr/sbin:/sbin
    for candidate in ${engine:-podman docker}; do
        # bash names files that are not executable, too.
        if [[ -x $(command -v "$candidate") ]]; then kind=$candidate && return; fi
    done
    return 1
}

# Prints whether the engine answers. Sets rootless and data_root.
host_answers() {
    local said code=0
    if [[ $kind == podman ]]; then
        said=$(timeout 20 podman info --format '{{.Host.Security.Rootless}}|{{.Store.GraphRoot}}|' 2>&1) || code=$?
    else
        said=$(timeout 20 docker info --format '{{.SecurityOptions}}|{{.DockerRootDir}}|{{.Runtimes}}' 2>&1) || code=$?
    fi
    said=$(tail -n 1 <<<"$said")
    if ((code == 124)); then said='no answer within 20 s'; fi
    # docker info ends with 0 if only its client answers.
    if ((code != 0)) || [[ $said != *'|/'* ]]; then echo "silent $kind ${said#*rror: }" && return 1; fi
    IFS='|' read -r rootless data_root runtimes <<<"$said"
    if [[ $kind == docker ]]; then rootless=$([[ $rootless == *name=rootless* ]] && echo true || echo false); fi
    echo "engine $kind $rootless"
    echo "root $(df -Pk "$data_root" 2>/dev/null | awk 'NR == 2 { print $4 }') $data_root"
}

# Prints the image's Id and bytes; sets image_id and image_env.
host_image() {
    local size=''
    image_id='' image_env=''
    IFS='|' read -r image_id size < <("$kind" image inspect --format '{{.Id}}|{{.Size}}' "$image" 2>/dev/null)
    [[ -n $image_id ]] || return 0
    image_id=${image_id#sha256:}
    image_env=$("$kind" image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$image" 2>/dev/null)
    echo "image $image_id $size"
}

# Prints the program that listens on the port.
host_port() {
    local line
    line=$(ss -Hltnp "sport = :$port" 2>/dev/null | head -n 1)
    [[ -n $line ]] || return 0
    if [[ $line =~ \(\(\"([^\"]+)\",pid=([0-9]+) ]]; then
        echo "port ${BASH_REMATCH[1]} (process ${BASH_REMATCH[2]})"
    else
        echo "port a program of another user"
    fi
}

# Prints a limit that a container may have, SOFT:HARD: the wanted number, or the hard limit of this login or of docker's daemon
# without the right to raise it (CAP_SYS_RESOURCE, bit 24).
host_limit() { # FLAG NAME WANTED
    local hard='' mask pid
    if [[ $kind == docker ]]; then
        pid=$(pgrep -xo dockerd) || true
        mask=$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/${pid:-none}/status" 2>/dev/null)
        if [[ -n $mask ]] && ! (((16#$mask >> 24) & 1)); then
            hard=$(awk -v name="$2" 'index($0, name) == 1 { print $(NF - 1) }' "/proc/$pid/limits")
        fi
    elif ! (ulimit "-$1" "$3") 2>/dev/null; then
        hard=$(ulimit -H "-$1")
        # ulimit counts KiB.
        if [[ $1 == l && $hard != unlimited ]]; then hard=$((hard * 1024)); fi
    fi
    hard=${hard:-$3}
    if [[ $hard =~ ^[0-9]+$ && $3 != unlimited ]] && ((hard > $3)); then hard=$3; fi
    hard=${hard/unlimited/-1}
    echo "$hard:$hard"
}

# Sets gpu_words and prints what is used, or why not.
host_gpus() {
    local has=no can=no why
    gpu_words=()
    [[ $gpus != none ]] || return 0
    [[ ! -e /dev/nvidiactl ]] || has=yes
    if [[ $kind == podman ]]; then
        why='podman finds no CDI specification for nvidia.com/gpu: run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml'
        if grep -qs 'nvidia\.com/gpu' /etc/cdi/*.{yaml,yml,json} /var/run/cdi/*.{yaml,yml,json}; then can=yes; fi
    else
        why='docker has no runtime nvidia: install the NVIDIA Container Toolkit, then nvidia-ctk runtime configure'
        if [[ $runtimes == *nvidia* ]]; then can=yes; fi
    fi
    if [[ $can == yes && ($gpus == all || $has == yes || $kind == podman) ]]; then
        # podman takes --gpus, and gives none.
        if [[ $kind == podman ]]; then gpu_words=(--device nvidia.com/gpu=all); else gpu_words=(--gpus all); fi
        echo "gpus yes"
    elif [[ $gpus == all ]]; then
        echo "nogpus $why"
    elif [[ $has == yes ]]; then
        echo "gpus no $why"
    fi
}

# Sets words, the command that starts the container, and prints what of it depends on the host.
host_words() {
    local memlock place mount
    if [[ -z $shm ]]; then shm=$(awk '/^MemTotal:/ { print int($2 / 2048) "m" }' /proc/meminfo); fi
    memlock=$(host_limit l 'Max locked memory' unlimited)
    echo "shm $shm"
    [[ $memlock == -1:-1 ]] || echo "memlock ${memlock%:*}"
    words=("$kind" run --detach --pull never --name "$name" --label "dptrain.container=$name" --label "dptrain.owner=$(id -un)"
        --network host --uts host --shm-size "$shm" --pids-limit -1 --security-opt label=disable
        --ulimit "memlock=$memlock" --ulimit "nofile=$(host_limit n 'Max open files' 1048576)"
        --ulimit "nproc=$(host_limit u 'Max processes' unlimited)"
        --env-file "$folder/env" --volume "$folder/inside:/run/dptrain:ro")
    if [[ -n $user ]]; then words+=(--user "$user:$user"); fi
    if [[ -n $user && $rootless == true && $kind == podman ]]; then words+=(--userns "keep-id:uid=$user,gid=$user"); fi
    if [[ $read_only == yes ]]; then
        words+=(--read-only)
        for place in /tmp:mode=1777,exec /run:mode=755 /var/tmp:mode=1777; do words+=(--tmpfs "$place"); done
    fi
    place=''
    for mount in "${mounts[@]}"; do
        words+=(--volume "$mount")
        if [[ -z $place && $mount != *:ro ]]; then place=${mount#*:}; fi
        [[ -d ${mount%%:*} ]] || echo "nofolder ${mount%%:*}"
    done
    if [[ -n $place ]]; then words+=(--workdir "$place"); fi
    if [[ -d /dev/infiniband ]]; then words+=(--device /dev/infiniband) && echo "has /dev/infiniband"; fi
    if [[ -d /opt/amazon && " ${mounts[*]/%:ro/} " != *":/opt/amazon "* ]]; then words+=(--volume /opt/amazon:/opt/amazon:ro) && echo "has /opt/amazon"; fi
    host_gpus
    words+=("${gpu_words[@]}" "$image" /bin/bash /run/dptrain/worker)
}

# Prints the container's environment: ours, and the user's, which wins.
host_env() {
    local libraries=''
    printf '%s\n' DPTRAIN_SSH_CONFIG=/run/dptrain/ssh_config OMPI_MCA_plm_rsh_no_tree_spawn=1 PRTE_MCA_plm_ssh_no_tree_spawn=1
    [[ $read_only == no ]] || echo XDG_CACHE_HOME=/tmp/.cache
    if [[ -d /opt/amazon ]]; then
        libraries=$(sed -n 's/^LD_LIBRARY_PATH=//p' <<<"$image_env")
        echo "LD_LIBRARY_PATH=${libraries:+$libraries:}/opt/amazon/efa/lib64:/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib"
    fi
    [[ -z $env_text ]] || printf '%s\n' "$env_text"
}

# Sets spec, which tells containers apart.
host_spec() {
    spec=$({ printf '%q ' "${words[@]}" "$image_id" "$bridge" "$port" && host_env; } | sha256sum | cut -c 1-16)
}

# Sets found to the state of the container of this name, or empty; ours, found_spec and found_image.
host_container() {
    local owner='' label=''
    found='' found_spec='' found_image='' ours=no
    IFS='|' read -r found label owner found_spec found_image < <("$kind" container inspect --format \
        '{{.State.Status}}|{{index .Config.Labels "dptrain.container"}}|{{index .Config.Labels "dptrain.owner"}}|{{index .Config.Labels "dptrain.spec"}}|{{.Image}}' \
        "$name" 2>/dev/null)
    if [[ $label == "$name" && $owner == "$(id -un)" ]]; then ours=yes; fi
}

# The first round: everything that up and check must know.
host_probe() {
    local folder kind rootless data_root runtimes='' words gpu_words image_id image_env spec found found_spec found_image ours mode
    echo "name $(uname -n) $(id -u)"
    [[ ! -r /proc/sys/kernel/random/boot_id ]] || echo "machine $(</proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/net)"
    if ! host_engine; then echo "noengine"; echo end; return; fi
    if ! host_answers; then echo end; return; fi
    host_image
    host_words
    host_spec
    host_container
    if [[ -n $found ]]; then echo "container $found $ours $([[ $found_spec == "$spec" ]] && echo equal || echo other)"; fi
    [[ $bridge == yes ]] || host_port
    echo "unprivileged $(cat /proc/sys/net/ipv4/ip_unprivileged_port_start 2>/dev/null || echo 1024)"
    if [[ -e $folder ]]; then
        mode=$(stat -c %a "$folder")
        if [[ ! -O $folder || -L $folder || $mode != 700 ]]; then echo "open $mode $folder"; fi
    fi
    printf 'command'
    printf ' %q' "${words[@]}"
    printf '\nend\n'
}

# Waits until no other up works on this container; descriptor 9 is closed in what stays.
host_lock() { # SECONDS
    command -v flock >/dev/null || return 0
    exec 9>"$folder/lock" || return
    flock -w "$1" 9 || { echo "another up works on the container $name: $folder/lock is locked" >&2; return 1; }
}

# The second round: makes the folder, the container's host key and, on the first host, the login key. Their private halves
# never leave the host.
host_keys() { # FIRST(yes|no) SECONDS
    local folder kind
    host_engine || return
    umask 077
    mkdir -p "$folder/inside" && host_lock "$2" || return
    [[ -s $folder/inside/host_key ]] ||
        ssh-keygen -q -t ed25519 -N '' -C "dptrain-$name@$(uname -n)" -f "$folder/inside/host_key" || return
    if [[ $1 == yes && ! -s $folder/inside/login_key ]]; then
        ssh-keygen -q -t ed25519 -N '' -C "dptrain-container-$name" -f "$folder/inside/login_key" || return
    elif [[ $1 == no ]]; then
        rm -f "$folder"/inside/{login_key,login_key.pub,ssh_config,known_hosts,hosts}
    fi
    echo "host_key $(cut -d ' ' -f 1,2 "$folder/inside/host_key.pub")"
    [[ $1 == no ]] || echo "login_key $(cat "$folder/inside/login_key.pub")"
    # For --bridge.
    echo "home $HOME"
    echo end
}

# The first process of every container. bash reaps what mpirun leaves behind.
host_worker() {
    echo '# Written by container.sh of dptrain: the first process of the container.'
    declare -f sshd_clear_sessions
    cat <<'END'
trap 'exit 0' TERM INT
sshd_clear_sessions
if [[ -e /run/dptrain/sshd_config ]]; then
    sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || { echo "the image has no sshd" >&2; exit 127; }
    mkdir -p /run/sshd 2>/dev/null
    "$sshd" -D -e -f /run/dptrain/sshd_config &
else
    sleep infinity &
fi
wait $!
END
}

# The third round: starts the container, or keeps it if it is equal, and waits until its sshd answers.
host_start() { # LOGIN_KEY SECONDS
    local folder kind rootless data_root runtimes='' words gpu_words image_id image_env spec found found_spec found_image ours
    local said
    host_engine && host_answers >/dev/null || return
    umask 077
    host_lock "$2" || return
    {
        host_image
        host_words
        host_spec
        host_container
        words=("${words[@]:0:2}" --label "dptrain.spec=$spec" "${words[@]:2}")
    } >/dev/null
    if [[ -n $found && $found_spec != "$spec" ]]; then
        echo "failed another up has started the container with other options meanwhile"; echo end; return
    fi
    host_env >"$folder/env"
    host_worker | files_put "$folder/inside/worker" && files_put "$folder/inside/authorized_keys" <<<"$1" || return
    echo "$kind" >"$folder/engine"
    if [[ $bridge == yes ]]; then
        rm -f "$folder/inside/sshd_config"
        host_bridge "$1" || return
    else
        { printf '%s\n' "$image_env" && host_env; } |
            sshd_settings "$port" /run/dptrain/host_key /run/dptrain/authorized_keys | files_put "$folder/inside/sshd_config" || return
    fi
    host_give_user || return
    if [[ $found == running ]]; then
        echo "kept $("$kind" container inspect --format '{{.Id}}' "$name" | cut -c 1-12)"
    elif [[ -n $found ]]; then
        said=$(timeout "$2" "$kind" start "$name" 2>&1 9>&-) || { echo "failed ${said##*$'\n'}"; echo end; return; }
        echo "restarted $("$kind" container inspect --format '{{.Id}}' "$name" | cut -c 1-12)"
    else
        said=$(timeout "$2" "${words[@]}" 2>&1 9>&-) || {
            "$kind" rm -f "$name" >/dev/null 2>&1
            echo "failed ${said##*$'\n'}"; echo end; return
        }
        echo "started ${said: -64:12}"
    fi
    exec 9>&-
    host_settle "$2"
    echo end
}

# rootful engines do not map users.
host_give_user() {
    if [[ -z $user || $(id -u) -ne 0 ]]; then return 0; fi
    chown -R "$user:$user" "$folder/inside"
}

# Waits until the container works, and prints its user, /dev/shm and GPUs.
host_settle() { # SECONDS
    local said='' state
    SECONDS=0
    while ((SECONDS < $1)); do
        state=$("$kind" container inspect --format '{{.State.Status}}' "$name" 2>/dev/null)
        if [[ $state != running ]]; then break; fi
        if [[ $bridge == yes ]]; then said=SSH && break; fi
        if { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then
            read -rt 2 said <&3 || true
            exec 3>&-
            [[ $said != SSH-* ]] || break
        fi
        sleep 0.1
    done
    if [[ $said != SSH* ]]; then
        echo "noanswer $state"
        echo "log $("$kind" logs --tail 1 "$name" 2>&1 | tail -n 1)"
        return
    fi
    # Podman may warn of its host at each call.
    # shellcheck disable=SC2016 # for the container's shell
    said=$(timeout 20 "$kind" exec "$name" /bin/bash -c 'id -un; df -Pk /dev/shm | tail -n 1
        [[ -z $1 ]] || nvidia-smi -L 2>&1 | grep -c "^GPU "' _ "${gpu_words[*]}" 2>/dev/null)
    echo "user $(sed -n 1p <<<"$said")"
    echo "shm $(sed -n 2p <<<"$said" | awk '{ print $2 }')"
    [[ -z ${gpu_words[*]} ]] || echo "seen $(sed -n 3p <<<"$said") $(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"
}

# The last round, on the first host: the settings of the container's ssh, then a login from there to every other host. Prints
# lines `login I CODE`, tab, ssh's message.
host_join() { # SSH_CONFIG KNOWN_HOSTS HOSTS TARGET...
    local folder kind
    host_engine || return
    umask 077
    files_put "$folder/inside/ssh_config" <<<"$1" && files_put "$folder/inside/known_hosts" <<<"$2" &&
        files_put "$folder/inside/hosts" <<<"$3" || return
    host_give_user || return
    { declare -f inside_logins; printf 'inside_logins'; printf ' %q' "${@:4}"; printf '\nexit\n'; } |
        "$kind" exec -i "$name" /bin/bash -s
    echo end
}

# Runs in the first container.
inside_logins() { # TARGET...
    local i=0 target
    inside_login() { # INDEX TARGET
        local code=0 text
        text=$(LC_ALL=C timeout 15 ssh -F /run/dptrain/ssh_config -o ConnectTimeout=10 "$2" true </dev/null 2>&1) || code=$?
        printf 'login %s %s\t%s\n' "$1" "$code" "$(printf %s "$text" | tr '\n\r\t' '|  ')"
    }
    for target; do
        i=$((i + 1))
        while (($(jobs -rp | wc -l) >= 16)); do wait -n; done
        inside_login "$i" "$target" &
    done
    wait
}

# Writes the forced command, and authorizes the key for it alone. Hosts may share the home folder.
host_bridge() { # LOGIN_KEY
    local keys=$HOME/.ssh/authorized_keys blob text='' variable
    {
        echo '# Written by container.sh of dptrain: what the login key of its containers may run.'
        for variable in PATH XDG_RUNTIME_DIR DOCKER_HOST; do
            [[ -z ${!variable:-} ]] || printf 'export %s=%q\n' "$variable" "${!variable}"
        done
        # shellcheck disable=SC2016 # for the host's shell
        printf 'exec %q exec -i %q /bin/bash -c "${SSH_ORIGINAL_COMMAND:-exit}"\n' "$kind" "$name"
    } | files_put "$folder/bridge" || return
    read -r _ blob _ <<<"$1"
    mkdir -p ~/.ssh || return
    [[ ! -e $keys ]] || text=$(awk -v name="dptrain-container-$name" -v key="$blob" \
        '!($NF == name && index($0, "restrict,command=") == 1) || index($0, key)' "$keys")
    if [[ $text != *"$blob"* ]]; then
        # shellcheck disable=SC2016 # for sshd's shell
        printf '%s\n' ${text:+"$text"} \
            "restrict,command=\"exec bash ~/.dptrain/$name@\$(uname -n)/bridge\" $1" | files_put "$keys"
    fi
}

# down: removes container, folder and authorized key. Prints `removed WHAT`, `foreign ENGINE` for a container that is not ours, or `stuck WHY`.
host_remove() {
    local folder kind='' candidate found='' found_spec found_image ours said keys=$HOME/.ssh/authorized_keys text
    folder=$HOME/.dptrain/$name@$(uname -n)
    for candidate in $(cat "$folder/engine" 2>/dev/null || echo "${engine:-podman docker}"); do
        kind=$candidate
        command -v "$kind" >/dev/null || continue
        host_container
        if [[ -z $found && -e $folder/engine ]] && ! said=$(timeout 20 "$kind" ps -q 2>&1); then
            echo "stuck $kind does not answer: $(tail -n 1 <<<"$said")"
            echo end
            return
        fi
        if [[ -n $found && $ours == no ]]; then
            echo "foreign $kind"
        elif [[ -n $found ]]; then
            said=$(timeout 60 "$kind" rm -f "$name" 2>&1) || { echo "stuck $(tail -n 1 <<<"$said")"; echo end; return; }
            echo "removed container"
        fi
    done
    if [[ -e $keys ]] && ! text=$(awk -v name="dptrain-container-$name" \
        '$NF == name && index($0, "restrict,command=") == 1 { found = 1; next } { print } END { exit found }' "$keys"); then
        umask 077
        if [[ -n $text ]]; then files_put "$keys" <<<"$text"; else rm -f "$keys"; fi
        echo "removed key"
    fi
    if [[ -e $folder || -L $folder ]]; then rm -rf "$folder" && echo "removed folder"; fi
    rmdir ~/.dptrain 2>/dev/null
    echo end
}
