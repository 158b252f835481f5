#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# container.sh on three hosts with podman: engine, images, sshd, keys and jobs are real; hosts are namespaces, GPUs made up.
# Each test goes on with the containers of the one before.
# shellcheck disable=SC2016 # for the hosts' shells
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose
# shellcheck disable=SC2154 # cluster_* and others come from the loaded files

load ../cluster/cluster
load ../cluster/jobs
load container

hosts=node1,node2,node3

setup_file() { container_try 3 || true; }

setup() {
    cluster_or_skip
    container_options
}

teardown_file() { container_down; }

# Runs a command in the first container.
inside() { container exec $hosts -- "$@"; }

# Runs a job in the containers.
job() { inside run.sh -hostfile /run/dptrain/hosts "${train[@]}" --data "$tiny" --allreduce mpi "$@"; }

@test "up, a job on port 12345, check: the losses of the job without containers" {
    run container up "${options[@]}" $hosts
    expect 0 "node3  started **node3:12345  user root  /dev/shm **run a job: **exec $hosts -- run.sh -hostfile /run/dptrain/hosts -- train"
    run job --steps 20 --out inside
    expect 0 "3 on 3 hosts"
    on node1 -H node1:1,node2:1,node3:1 --env-file env "${train[@]}" --data "$tiny" --allreduce mpi --steps 20 --out outside
    [ "$(losses inside | wc -l)" -eq 20 ]
    diff <(losses inside) <(losses outside)
    run container check $hosts -- --device cpu --shared-bytes 1M --only host,versions
    expect 0 "node3  running **sshd on port 12345**dptrain check**ready"
    # The login key is on the first host alone, and others read nothing.
    [ -e "$cluster/node1/home/root/.dptrain/dptrain@node1/inside/login_key" ]
    [ ! -e "$cluster/node2/home/root/.dptrain/dptrain@node2/inside/login_key" ]
    [ -z "$(find "$cluster"/node*/home/root/.dptrain -type d -perm /077)" ]
}

@test "exec: standard input, exit codes, unchanged arguments, signals" {
    run inside sh -c 'echo "$1"; exit 7' x 'a  b'
    expect 7 "a  b"
    [ "$(echo input | inside cat)" = input ]
    [ "$(inside 'cd / && pwd; echo $OMP_WAIT_POLICY')" = $'/\npassive' ]
    # Sessions of sshd have the same environment, and keys are the only way in.
    run inside 'ssh -F $DPTRAIN_SSH_CONFIG node2 "echo \$OMP_WAIT_POLICY; command -v orted prted run.sh; hostname"'
    expect 0 $'passive\n/opt/dptrain/bin/'?rted$'\n/opt/dptrain/scripts/run.sh\nnode2'
    run cluster_exec node1 ssh -p 12345 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null node2 true
    expect 255 "Permission denied (publickey)"
    inside "trap 'echo told; exit 9' TERM; touch $cluster/shared/waits; while :; do sleep 0.1; done" >"$cluster/shared/told" 3>&- &
    pid=$!
    while [ ! -e "$cluster/shared/waits" ]; do sleep 0.1; done
    cluster_exec node1 pkill -TERM -of 'container.sh exec .*waits'
    code=0
    wait $pid || code=$?
    [ "$code" -eq 9 ]
    [ "$(<"$cluster/shared/told")" = told ]
}

# Starts an endless job in the containers, and waits until it trains. Sets out, and job for `ended`.
# shellcheck disable=SC2034
endless_job() { # NAME ARGUMENTS...
    local i
    out=$cluster/shared/$1.out
    job --epochs 100000 --timeout 10 --out "$1" "${@:2}" >"$out" 2>&1 3>&- &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        if grep -qs '^epoch [0-9]*  train' "$out"; then return 0; fi
        sleep 0.1
    done
    cat "$out"
    return 1
}

@test "a container killed in mid-job: code 5, the host named; started again, the job goes on" {
    endless_job killed --checkpoint-every 20
    cluster_exec node2 podman exec dptrain mkdir /tmp/prted.node2.7.0
    cluster_exec node2 podman kill dptrain
    SECONDS=0
    ended
    seconds=$SECONDS
    [ "$code" -eq 5 ]
    echo "# code 5 after $seconds s" >&3
    [ "$seconds" -le 60 ] # on a busy machine it has taken 13
    grep -q 'error: .*node2' "$out"
    run container check $hosts
    expect 4 "node2  exited **up starts it again**1 of 3 containers are not ready"
    run container up "${options[@]}" $hosts
    expect 0 "node1  kept **node2  restarted "
    # A daemon of OpenMPI 5 does not share its folder with the dead one whose process number it has.
    [ -z "$(cluster_exec node2 podman exec dptrain find /tmp -maxdepth 1 -name 'prte*')" ]
    last=$(find "$cluster/shared/killed" -name 'ckpt-*.h5' | sort | tail -n 1)
    endless_job killed --resume auto
    grep "${last##*/}" "$out"
    cluster_exec node1 pkill -TERM -of 'container.sh exec .*--resume auto'
    ended
    [ "$code" -eq 143 ]
    grep -q 'continue with --resume auto' "$out"
}

@test "every host that is not ready is named, before anything starts" {
    run container up "${options[@]}" --name second --mount /nowhere --gpus all --shm-size 64m $hosts
    expect 4 "node3: port 12345 is taken by sshd (process "
    expect 4 "node3: --mount: no folder /nowhere"
    expect 4 "node3: --gpus all: podman finds no CDI specification"
    expect 4 "node3: /dev/shm of 64 MB is too small"
    expect 4 "3 of 3 hosts are not ready; nothing was started"
    chmod 755 "$cluster/node2/home/root/.dptrain/dptrain@node2"
    run container up "${options[@]}" --shm-size 1g --user 1000 --port 100 $hosts
    expect 4 "node1: container dptrain is there, with other options"
    expect 4 "node1: --port 100: only root may open ports below 1024"
    expect 4 "node2: **dptrain@node2 holds keys, but has mode 755"
    chmod 700 "$cluster/node2/home/root/.dptrain/dptrain@node2"
    run container up "${options[@]}" node1,10.77.0.1
    expect 4 "10.77.0.1: the same machine as node1, and a machine has one container of a name"
    # Somebody else's container; an engine that does not answer; no image, and no space for one.
    cluster_exec node1 podman create --quiet --name second "$image" true
    printf '#!/bin/sh\necho "Error: cannot connect to the service" >&2\nexit 125\n' >"$cluster/shared/silent"
    chmod +x "$cluster/shared/silent"
    cluster_exec node2 mount --bind "$cluster/shared/silent" /usr/bin/podman
    cluster_exec node3 mkdir /run/small
    cluster_exec node3 mount -t tmpfs -o size=32m tmpfs /run/small
    container_store node3 /run/small
    run container up "${options[@]}" --name second --port 12400 $hosts
    expect 4 "node1: podman has a container second of somebody else"
    expect 4 "node2: podman does not answer: cannot connect to the service"
    expect 4 "node3: no image $image, Id "
    expect 4 "node3: too little space in podman's data root /run/small: 31 MB free"
    cluster_exec node2 umount /usr/bin/podman
    # Room for a container, but not for the image.
    cluster_exec node3 mount -o remount,size=100m /run/small
    run container up "${options[@]}" --name second --port 12400 --push node2,node3
    expect 4 "node3: too little space in podman's data root /run/small: "
    [ "$(cluster_exec node3 podman images --quiet | wc -l)" -eq 0 ]
    run container down --name second node1
    expect 0 "left podman's container second alone"
    cluster_exec node1 podman rm second
}

@test "an engine that is not there; another image; --push; no sshd; a changed host key" {
    for tool in $(type -ap docker); do cluster_exec node1 mount --bind "$cluster/shared/env" "$tool"; done
    run container up "${options[@]}" --engine docker node1
    expect 4 "node1: no docker: install it"
    container_store node3 /run/host/other
    tar -C "$cluster/shared" -c env | cluster_exec node3 podman import --quiet - "$image"
    run container up "${options[@]}" --name second --port 12400 node1,node3
    expect 4 "node3: image $image has the Id "
    # From this machine, because the first host has none.
    container_store node3 /run/host/third
    run container up "${options[@]}" --name second --port 12400 --push node3
    expect 0 "sending $image **to 1 host**node3  started "
    run container down --name second node3
    expect 0 "node3: removed container,folder"
    container_store node3
    mkdir -p "$cluster/shared/empty"
    run container up "${options[@]}" --name second --port 12400 --mount "$cluster/shared/empty:/usr/sbin:ro" node1
    expect 4 "node1: no answer from sshd on port 12400 **its last line: the image has no sshd"
    run container down --name second node1
    expect 0 "node1: removed container,folder"
    cluster_exec node2 sh -c 'cd ~/.dptrain/dptrain@node2/inside && rm host_key* && ssh-keygen -q -t ed25519 -N "" -f host_key'
    cluster_exec node2 podman restart --time 1 dptrain
    run inside run.sh -hostfile /run/dptrain/hosts --dry-run
    expect 4 "node2: probe over ssh failed: host key changed"
}

@test "two up at once start one container; an interrupted one says what to do" {
    container up "${options[@]}" --name second --port 12400 node1 >"$cluster/other" 2>&1 3>&- &
    other=$!
    run container up "${options[@]}" --name second --port 12400 node1
    expect 0 "node1  "
    wait $other
    [ "$({ echo "$output"; cat "$cluster/other"; } | grep -oE '^node1  (started|kept)' | sort | tr '\n' ' ')" = "node1  kept node1  started " ]
    run container down --name second node1
    expect 0 "node1: removed container,folder"
    # Its engine takes long.
    printf '#!/bin/sh\ncase $1 in run) touch %s; sleep 100 ;; *) exec %s/podman "$@" ;; esac\n' "$cluster/shared/runs" \
        /run/real >"$cluster/shared/slow"
    chmod +x "$cluster/shared/slow"
    cluster_exec node1 sh -c "mkdir -p /run/real && cp /usr/bin/podman /run/real/ && mount --bind $cluster/shared/slow /usr/bin/podman"
    container up "${options[@]}" --name second --port 12400 node1 >"$cluster/other" 2>&1 3>&- &
    other=$!
    for ((i = 0; i < 1200; i++)); do
        if [ -e "$cluster/shared/runs" ]; then break; fi
        sleep 0.1
    done
    cluster_exec node1 pkill -TERM -of 'container.sh up .*second'
    code=0
    wait $other || code=$?
    cat "$cluster/other"
    [ "$code" -eq 143 ]
    grep -q 'interrupted; scripts/container.sh down removes what was made' "$cluster/other"
    cluster_exec node1 pkill -f 'sleep 100' || true
    # The shell that waited for it may still read the file.
    for ((i = 0; i < 600; i++)); do
        if cluster_exec node1 umount /usr/bin/podman 2>/dev/null; then break; fi
        sleep 0.1
    done
    [ "$i" -lt 600 ]
    run container down --name second node1
    expect 0 "node1: removed "
}

@test "the limits of the login are those of the container, and named" {
    cluster_exec node2 pkill -x sshd
    while cluster_exec node2 pgrep -x sshd; do sleep 0.1; done
    cluster_exec node2 prlimit --memlock=65536 --nofile=5000 setpriv --bounding-set=-sys_resource bash "$cluster_code/inside.bash" sshd
    run container up "${options[@]}" --name second --port 12400 --dry-run node1,node2
    expect 0 "node2: memlock is the login's hard limit, 64 KiB"
    expect 0 "node1: podman run **--ulimit memlock=** --ulimit nofile=** --ulimit nproc=** "
    expect 0 "node2: podman run **--ulimit memlock=65536:65536 --ulimit nofile=5000:5000 "
    cluster_sshd node2
}

# Gives a host another /dev, with an InfiniBand device, and a folder of EFA's.
fabric() { # HOST
    cluster_exec "$1" sh -ec 'mkdir /run/dev && mount -t tmpfs tmpfs /run/dev && cd /run/dev
        cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty . && { [ ! -e /dev/fuse ] || cp -a /dev/fuse .; }
        mkdir infiniband shm pts && mknod infiniband/uverbs0 c 231 192
        for i in shm pts; do mount --bind /dev/$i $i; done
        ln -s /proc/self/fd fd && ln -s pts/ptmx ptmx && mount --rbind /run/dev /dev
        mount -t tmpfs tmpfs /opt && mkdir -p /opt/amazon/efa/lib64'
}

@test "GPUs by CDI, InfiniBand, EFA: the command, and the devices inside" {
    fabric node1
    cluster_exec node1 mkdir /run/cdi
    printf '#!/bin/bash\n[[ -c /dev/nvidia0 ]] && echo "GPU 0: made up"\n' >"$cluster/shared/nvidia-smi"
    chmod +x "$cluster/shared/nvidia-smi"
    cat >"$cluster/shared/nvidia.json" <<END
{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {
"deviceNodes": [{"path": "/dev/nvidia0", "type": "c", "major": 1, "minor": 3}],
"mounts": [{"hostPath": "$cluster/shared/nvidia-smi", "containerPath": "/usr/bin/nvidia-smi", "options": ["ro", "bind"]}]}}]}
END
    # A specification without the device: the container has no GPU.
    sed 's/"deviceNodes": .*,$//' "$cluster/shared/nvidia.json" | cluster_exec node1 tee /run/cdi/nvidia.json
    run container up "${options[@]}" --name gpus --port 12400 --gpus all node1
    expect 4 "node1: nvidia-smi -L shows 0 GPUs in the container"
    run container down --name gpus node1
    expect 0 "removed container,folder"
    cluster_exec node1 cp "$cluster/shared/nvidia.json" /run/cdi/
    run container up "${options[@]}" --name gpus --port 12400 --dry-run --gpus all node1
    expect 0 "with /dev/infiniband**podman run **--device /dev/infiniband **/opt/amazon:/opt/amazon:ro --device nvidia.com/gpu=all $image "
    run container up "${options[@]}" --name gpus --port 12400 --gpus all node1
    expect 0 "node1  started "
    run container exec --name gpus node1 -- 'nvidia-smi -L; ls -d /dev/infiniband/uverbs0 /opt/amazon/efa/lib64; echo $LD_LIBRARY_PATH'
    expect 0 $'GPU 0: made up\n/dev/infiniband/uverbs0\n/opt/amazon/efa/lib64\n/opt/amazon/efa/lib64:'
    container down --name gpus node1
}

# Fails if a container, key or folder of container.sh is left.
nothing_left() {
    local host left
    for host in node1 node2 node3; do
        [ -z "$(cluster_exec $host podman ps --all --quiet)" ]
        # What training measured stays in the user's cache, for the next run.
        left=$(cluster_exec $host find . -mindepth 1 -not -path './.cache' -not -path './.cache/dptrain*' -not -path './.ssh*')
        echo "$host: $left"
        [ -z "$left" ]
        cmp "$cluster/key.pub" "$cluster/$host/home/root/.ssh/authorized_keys"
    done
}

@test "down removes everything, twice; a host that is not reached is named" {
    cluster_sshd node3 -p 2222
    run container down $hosts
    expect 5 "node3: refused: no sshd listens on port 22**not removed from node3 (not reached)"
    cluster_sshd node3
    run container down $hosts
    expect 0 "node1: removed nothing**node3: removed container,folder"
    run container down $hosts
    expect 0 "node3: removed nothing"
    nothing_left
}

@test "--bridge: exit code, standard input, a job, a killed mpirun, and nothing left" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes 13 s; scripts/test.sh --slow runs it"
    run container up "${options[@]}" --bridge $hosts
    expect 0 "node2  started **through sshd of node2:22"
    login="ssh -F /run/dptrain/ssh_config"
    run inside "$login node2 'hostname; exit 3'"
    expect 3 node2
    [ "$(echo input | inside "$login node3 cat")" = input ]
    # The key opens the container, not the host.
    run inside "$login node2 test -e /run/host"
    [ "$status" -eq 1 ]
    run job --steps 20 --out bridged
    expect 0 "3 on 3 hosts"
    diff <(losses inside) <(losses bridged)
    endless_job orphans
    cluster_exec node1 pkill -KILL -x 'mpirun|prterun'
    ended
    [ "$code" -eq 5 ]
    for host in node1 node2 node3; do
        # Without podman's own warnings.
        output=$(cluster_exec $host podman exec dptrain sh -c \
            'ls /dev/shm 2>&1; for i in dptrain orted prted mpirun prterun; do pgrep -lx $i; done; true' 2>/dev/null)
        echo "$host: $output"
        [ -z "$output" ]
    done
    container down $hosts
    nothing_left
}
