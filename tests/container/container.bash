# SPDX-License-Identifier: MIT
# Gives the hosts of tests/cluster an engine. Sourced after cluster.bash and jobs.bash.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of cluster.bash, jobs.bash and for the tests

container_code=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Program data of podman on a host; /etc/containers there is one of the host's own folders.
container_root=/run/host/storage

# Prints why this machine cannot run containers, or nothing if it can.
container_why() {
    local tool why
    why=$(cluster_why)
    [[ -z $why ]] || { echo "$why"; return; }
    for tool in podman runc; do
        command -v "$tool" >/dev/null || { echo "no $tool here (scripts/install_deps.sh --test)"; return; }
    done
    [[ -r /proc/self/cgroup && -d /sys/fs/cgroup ]] || echo "no cgroups here"
}

# For setup_file: hosts that trust each other, jobs, podman on every host, and the image $image in the machine's store.
container_try() { # N
    cluster_missing=$(container_why)
    export cluster_missing
    [[ -z $cluster_missing ]] && cluster_up "$1" || return 1
    cluster_trust
    jobs_setup 300 64
    export image=dptrain-test
    container_image || return 1
    for host in $(cluster_hosts); do container_podman "$host"; done
}

# Imports the image into the machine's store, which all hosts read. DPTRAIN_TEST_BUNDLE is a bundle that is there already.
container_image() {
    local store=$cluster/shared/store
    local bundle=${DPTRAIN_TEST_BUNDLE:-$cluster/bundle.tar.gz}
    [[ -e $bundle ]] || "$root/scripts/bundle.sh" --out "$bundle" || return
    "$container_code/image.sh" "$bundle" |
        podman --root "$store" --runroot "$cluster/runroot" --storage-driver overlay import --quiet \
            --change 'ENV PATH=/opt/dptrain/bin:/opt/dptrain/scripts:/usr/bin:/usr/sbin' --change 'CMD bash' - "$image" || return
    rm -f "$cluster/bundle.tar.gz"
}

# Gives a host podman's storage in ROOT, with the machine's images; or, in another folder, without them.
container_store() { # HOST [ROOT]
    local images="additionalimagestores = [\"$cluster/shared/store\"]"
    [[ -z ${2:-} ]] || images=''
    cat >"$cluster/$1/containers/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "${2:-$container_root}"
runroot = "/run/containers/storage${2:+-other}"
[storage.options]
$images
END
}

# Gives a host podman with its own configuration and storage, and cgroups.
container_podman() { # HOST
    local host=$1 folder=$cluster/$1/containers
    mkdir -p "$folder" "$cluster/$host/storage"
    container_store "$host"
    cat >"$folder/containers.conf" <<'END'
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
END
    cp /etc/containers/policy.json "$folder/" 2>/dev/null || echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$folder/policy.json"
    cluster_exec "$host" mkdir -p /etc/containers
    cluster_exec "$host" mount --bind /run/host/containers /etc/containers
    container_cgroups "$host"
}

# A host's /sys is new, and has no cgroups.
container_cgroups() { # HOST
    local controller
    if grep -q '^cgroup2\? /sys/fs/cgroup cgroup2' /proc/self/mounts; then
        cluster_exec "$1" mount -t cgroup2 cgroup2 /sys/fs/cgroup
        return
    fi
    cluster_exec "$1" mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    while read -r controller; do
        cluster_exec "$1" mkdir -p "$controller"
        cluster_exec "$1" mount -t cgroup -o "$(container_controller "${controller##*/}")" cgroup "$controller"
    done < <(awk '$3 == "cgroup" { print $2 }' /proc/self/mounts)
}

container_controller() { # NAME
    if [[ $1 == systemd ]]; then echo none,name=systemd; else echo "$1"; fi
}

# Ends containers and hosts, and removes the cgroups that podman left on the machine.
container_down() {
    local host ids
    [[ -n ${cluster:-} ]] || return 0
    for host in $(cluster_hosts); do
        cluster_exec "$host" podman rm --force --all --time 0 >/dev/null 2>&1 3>&- &
    done
    wait
    ids=$(find "$cluster" -path '*/overlay-containers/*' -prune -printf '%f\n')
    cluster_down
    container_sweep "$ids"
}

# Removes the cgroups of containers, and their parents if they are empty.
container_sweep() { # IDS
    local id
    for id in $1; do
        find /sys/fs/cgroup -depth -type d -path "*/libpod_parent/*$id*" -exec rmdir {} + 2>/dev/null || true
    done
    find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' -exec rmdir {} + 2>/dev/null || true
}

# Runs container.sh on node1.
container() { # COMMAND ARGUMENTS...
    cluster_exec node1 setsid -w "$root/scripts/container.sh" "$@"
}

# Options of up: the image, the folder of data and output, and settings for hosts that share two cores.
container_options() {
    printf '%s\n' OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive DPTRAIN_BIND=none >"$cluster/shared/env"
    options=(--image "$image" --mount "$cluster/shared" --env-file "$cluster/shared/env")
}

# Expects this code, and these words in this order, from `run`.
expect() { # CODE WORDS
    [[ $status -ne $1 || $output != *${2//\*\*/*}* ]] || return 0
    printf 'exit code %d\n%s\n' "$status" "$output"
    return 1
}
