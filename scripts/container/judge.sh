# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of container.sh and of ask.sh
# Decides from the answers to host_probe whether every host can run its container. Sourced by container.sh.

# What host_probe needs.
probe_functions="host_probe host_engine host_answers host_image host_port host_limit host_gpus host_words host_env host_spec host_container"
# MiB that a container's own files take; the least /dev/shm, where ranks keep gradients: the engines' default is 64 MiB.
least_space_mb=64 least_shm_mb=256

# Sets megabytes of a size such as 512m.
shm_megabytes() { # SIZE
    megabytes=${1%[kmg]}
    number_or 0 megabytes
    case $1 in
    *k) megabytes=$((megabytes / 1024)) ;;
    *g) megabytes=$((megabytes * 1024)) ;;
    esac
}

# The image that all hosts must have: sets wanted_id and wanted_bytes from the first host, else from this machine's engine, and
# image_from to `first` or `here`; leaves them empty if neither has it.
judge_reference() {
    local kind
    wanted_id='' wanted_bytes='' image_from=first
    read -r wanted_id wanted_bytes < <(said probe 0 image) || true
    number_or 0 wanted_bytes
    [[ -z $wanted_id && $push == yes ]] || return 0
    image_from=here
    for kind in ${engine:-podman docker}; do
        command -v "$kind" >/dev/null || continue
        read -r wanted_id wanted_bytes < <(timeout 20 "$kind" image inspect --format '{{.Id}} {{.Size}}' "$image" 2>/dev/null) || true
        wanted_id=${wanted_id#sha256:}
        number_or 0 wanted_bytes
        if [[ -n $wanted_id ]]; then here_engine=$kind && return; fi
    done
}

# Sets problems: why host I cannot run its container; and push_to: the hosts that need the image.
judge_host() { # I
    local i=$1 kind='' rootless='' id='' state='' ours='' equal='' value free least megabytes problem lost
    problems=()
    if ! answered probe "$i"; then problems+=("$problem") && return; fi
    if said probe "$i" noengine >/dev/null; then
        problems+=("no ${engine:-podman or docker}: install it (apt-get install ${engine:-podman}), or leave the host out by --exclude")
        return
    fi
    if value=$(said probe "$i" silent); then
        problems+=("${value%% *} does not answer: ${value#* } -> start it there, or choose another by --engine")
        return
    fi
    if value=$(said probe "$i" machine); then
        if [[ -n ${first_of[$value]:-} ]]; then
            problems+=("the same machine as ${first_of[$value]}, and a machine has one container of a name: list it once, ${first_of[$value]}:SLOTS")
            return
        fi
        first_of[$value]=${host_name[i]}
    fi
    read -r kind rootless < <(said probe "$i" engine)
    read -r id _ < <(said probe "$i" image) || true
    read -r state ours equal < <(said probe "$i" container) || true
    least=$least_space_mb
    if [[ -z $wanted_id ]]; then
        problems+=("no image $image: build it (scripts/container.sh build), pull it (${kind} pull $image), or name another by --image")
    elif [[ $id != "$wanted_id" ]]; then
        if [[ $push == yes ]]; then
            # The archive, and what is unpacked from it.
            push_to+=("$i") least=$((least + wanted_bytes * 2 / 1000000))
        elif [[ -z $id ]]; then
            problems+=("no image $image, Id ${wanted_id:0:12}: --push sends it there")
        else
            problems+=("image $image has the Id ${id:0:12}, but ${wanted_id:0:12} on ${host_name[0]}: --push sends that one")
        fi
    fi
    read -r value < <(said probe "$i" root) || true
    free=${value%% *}
    number_or '' free
    if [[ -n $free ]] && ((free / 1024 < least)); then
        problems+=("too little space in $kind's data root ${value#* }: $((free / 1024)) MB free, $least MB needed: free some (\
$kind image prune), or move it")
    fi
    if [[ -n $state && $ours != yes ]]; then
        problems+=("$kind has a container $name of somebody else: choose another name by --name")
    elif [[ -n $state && $equal != equal ]]; then
        problems+=("container $name is there, with other options or another image: scripts/container.sh down, then up")
    elif [[ $state != running ]] && value=$(said probe "$i" port); then
        problems+=("port $port is taken by $value: choose another by --port")
    fi
    value=$(said_number 1024 probe "$i" unprivileged)
    if [[ $bridge == no && ($rootless == true || -n $user) ]] && ((port < value)); then
        problems+=("--port $port: only root may open ports below $value, and this container's sshd is not: choose a higher one")
    fi
    while IFS= read -r value; do
        [[ -z $value ]] || problems+=("--mount: no folder $value: create it, or mount it")
    done < <(said probe "$i" nofolder || true)
    if value=$(said probe "$i" nogpus); then problems+=("--gpus all: $value"); fi
    value=$(said probe "$i" shm | tail -n 1) || true
    shm_megabytes "$value"
    if ((megabytes < least_shm_mb)); then
        problems+=("/dev/shm of $megabytes MB is too small for the ranks' gradients: --shm-size ${least_shm_mb}m is the least")
    fi
    if value=$(said probe "$i" open); then
        problems+=("${value#* } holds keys, but has mode ${value%% *} or another owner: remove it, or chmod 700 it")
    fi
    judge_user "$i" "$kind" "$rootless"
}

# A folder of keys that is mounted belongs to the container's user only if root gives it away, or users are mapped.
judge_user() { # I KIND ROOTLESS
    local uid
    [[ -n $user ]] || return 0
    read -r _ uid < <(said probe "$1" name)
    if [[ $uid != 0 && $uid != "$user" && ($2 == docker || $3 == false) ]]; then
        problems+=("--user $user: $2 does not map users, and the login's number is $uid: use --user $uid, or log in as root")
    fi
}

# Prints what up decides by itself, each with the hosts that it is for.
judge_notes() {
    local i value text
    local -A hosts_of=()
    for i in "${!host_name[@]}"; do
        while IFS= read -r text; do
            [[ -z $text ]] || hosts_of[$text]+=" ${host_name[i]}"
        done < <(
            value=$(said_number '' probe "$i" memlock)
            if [[ -n $value ]]; then
                echo "memlock is the login's hard limit, $((value / 1024)) KiB; RDMA needs more (/etc/security/limits.conf)"
            fi
            if value=$(said probe "$i" gpus) && [[ $value == no* ]]; then echo "GPUs are not used: ${value#no }"; fi
            said probe "$i" has | sed 's/^/with /'
        )
    done
    for text in "${!hosts_of[@]}"; do
        value=${hosts_of[$text]# }
        [[ $(wc -w <<<"$value") -lt ${#host_name[@]} || ${#host_name[@]} -eq 1 ]] || value="all ${#host_name[@]} hosts"
        note "$value: $text"
    done
}

# Asks all hosts; ends with 4 if some cannot run their containers, naming each.
judge_all() {
    local i bad=0 problem problems
    local -A first_of=()
    ask probe - "$probe_functions"
    push_to=()
    judge_reference
    for i in "${!host_name[@]}"; do
        judge_host "$i"
        ((${#problems[@]} == 0)) || bad=$((bad + 1))
        for problem in "${problems[@]}"; do note "${host_name[i]}: $problem"; done
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} hosts are not ready; nothing was started"
    judge_notes
}
