# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # verb is container.sh's
# The texts of --help. Sourced by container.sh.

usage() {
    if [[ -z ${verb:-} ]]; then usage_all && return; fi
    "usage_$verb"
    [[ $verb == build ]] || usage_hosts
}

usage_all() {
    cat <<'END'
usage: scripts/container.sh COMMAND [options] [HOSTS] [-- …]

Runs dptrain in containers, one on every host, by podman or docker. HOSTS is a hostfile, a YAML specification or a list
a:2,b:2, as for `dptrain hosts`. Logins must not prompt; run scripts/setup_ssh.sh first. docs/containers.md is the guide.

  build   build the image from this source tree
  up      ask all hosts whether they are ready, then start one container on each; they reach each other by ssh
  check   print the state of every container, then run scripts/cluster_health.sh in the first one
  exec    run a command in the first host's container, such as run.sh
  down    remove containers, keys and folders from all hosts

container.sh COMMAND --help lists the options of one command; here are all of them:

END
    for verb in build up check exec down; do
        "usage_$verb"
        [[ $verb != build ]] || echo
    done
    usage_hosts
}

usage_build() {
    cat <<'END'
usage: scripts/container.sh build [options]

Builds the image from this source tree by scripts/container/Containerfile, with podman, buildah or docker. It contains the
program, Open MPI and their libraries in /opt/dptrain, sshd, rsync and ip, and neither host keys nor secrets.

  --engine WHICH        podman, buildah or docker [the first of these that is there]
  --image NAME          name of the image [dptrain]
  --build-arg NAME=VALUE   CUDA=1: with cuBLASLt and NCCL, for hosts with GPUs; BASE=IMAGE: another base than
                        debian:12-slim; may be repeated
  --dry-run             print the command and exit
  -h, --help            show this help
END
}

usage_up() {
    cat <<'END'
usage: scripts/container.sh up [options] HOSTS

Asks all hosts side by side whether they are ready, and names each that is not. Then starts one container on every host,
with the host's network, and an sshd of its own that accepts one key. Host keys are made on the hosts; nothing is trusted
on first sight. Safe to repeat: containers that are as wanted are kept, stopped ones are started again. The last line is
the command that runs a job.

  --engine WHICH        podman or docker [what is there, podman first]
  --image NAME          image, the same on all hosts [dptrain]
  --push                send the image to hosts that lack it, from the first host, or from this machine
  --port N              port of the containers' sshd [12345]
  --name NAME           name of the containers [dptrain]
  --shm-size SIZE       size of /dev/shm, as 16g [half of the host's memory]
  --mount A[:B[:ro]]    make the host's folder A visible as B [A] in the container; may be repeated. Commands start in
                        the first one that is not read-only
  --gpus WHICH          auto, all or none. all: an error if a host's engine cannot pass GPUs on [auto]
  --env-file FILE       NAME=VALUE lines for the containers' environment; names that suggest secrets are left out
  --user N              user in the container, by number: 1000 is mpiuser [the image's, root]
  --read-only           mount the container's root read-only, with /tmp and /run in memory
  --bridge              no sshd in the containers: the hosts' sshd runs one restricted key's commands in them
  --dry-run             print the engine's command for every host; starts nothing, still asks the hosts
END
}

usage_check() {
    cat <<'END'
usage: scripts/container.sh check [options] HOSTS [-- options of dptrain check]

Prints the state of the container of every host, then runs scripts/cluster_health.sh in the first one. Exit code: 4 if a
container is missing or does not run, otherwise that of cluster_health.sh.

  --name NAME           name of the containers [dptrain]
  --engine WHICH        podman or docker [the one that runs the container]
END
}

usage_exec() {
    cat <<'END'
usage: scripts/container.sh exec [options] HOSTS -- COMMAND

Runs the command in the first host's container, with standard input and output, and returns its exit code. A single word
is a line for bash ('cd /data && ls'); several words are a command and its arguments, passed unchanged. SIGTERM and Ctrl-C
are passed on.

  --name NAME           name of the container [dptrain]
  --engine WHICH        podman or docker [the one that runs the container]
END
}

usage_down() {
    cat <<'END'
usage: scripts/container.sh down [options] HOSTS

Removes the containers of `up` and all keys and folders that it made. Safe to repeat. Containers of others with the same
name are left alone. Exit code 5: hosts were not reached; they are named.

  --name NAME           name of the containers [dptrain]
  --engine WHICH        podman or docker [the one that runs the container]
END
}

usage_hosts() {
    cat <<'END'
  --include SPEC, --exclude SPEC   keep or drop hosts, as for dptrain hosts
  --timeout SEC         time that a host has for each step [60]
  -h, --help            show this help
END
}
