# SPDX-License-Identifier: MIT
# Stands in for Kubernetes and its MPI Operator: makes what the operator's controller makes of an MPIJob (hostfile, secret, names,
# variables), and runs the pods by podman on the hosts of tests/cluster, as kubelet would. Sourced after tests/container.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of cluster.bash and jobs.bash

# The launcher is on node1, worker I on node I+2. Everything of job NAME is in $cluster/shared/jobs/NAME, of which mpijob is the last one.

manifest() { "$python" "$root/tests/k8s/manifest.py" "$@"; }

# Makes the service's names, the list of workers and the job's key.
operator_apply() { # MANIFEST
    local i n slots
    mpijob=$(manifest get "$1" metadata.name) namespace=$(manifest get "$1" metadata.namespace)
    n=$(manifest get "$1" spec.mpiReplicaSpecs.Worker.replicas) slots=$(manifest get "$1" spec.slotsPerWorker)
    job_folder=$cluster/shared/jobs/$mpijob n_workers=$n
    mkdir -p "$job_folder"/{mpi,ssh}
    cp "$1" "$job_folder/manifest.yaml"
    echo '127.0.0.1 localhost' >"$job_folder/hosts"
    for ((i = 0; i < n; i++)); do
        echo "$mpijob-worker-$i.$mpijob.$namespace.svc slots=$slots"
        echo "10.77.0.$((i + 2)) $mpijob-worker-$i.$mpijob.$namespace.svc $mpijob-worker-$i" >>"$job_folder/hosts"
    done >"$job_folder/mpi/hostfile"
    echo "10.77.0.1 $mpijob-launcher" >>"$job_folder/hosts"
    operator_secret "$job_folder/ssh"
    for ((i = 0; i < n; i++)); do operator_worker "$i"; done
    for ((i = 0; i < n; i++)); do operator_ready "$i"; done
}

# The controller's key is ECDSA, whatever its file is called; a secret's files belong to root, and all may read them.
operator_secret() { # FOLDER
    ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f "$1/id_rsa"
    cp "$1/id_rsa.pub" "$1/authorized_keys"
    chmod 644 "$1"/*
}

# Runs a pod of the manifest in the foreground.
operator_pod() { # HOST NAME ROLE OPTION...
    local words=() command=() place
    place=$(manifest get "$job_folder/manifest.yaml" "spec.mpiReplicaSpecs.$3.template.spec.containers.0.workingDir")
    mapfile -d '' command < <(manifest command "$job_folder/manifest.yaml" "$3")
    words=(--name "$2" --hostname "$2" --network host --user 1000:1000 --cap-drop all --security-opt no-new-privileges
        --volume "$job_folder/ssh:/home/mpiuser/.ssh:ro" --volume "$job_folder/hosts:/etc/hosts:ro"
        --volume "$claim:$place" --workdir "$place" --env HOME=/home/mpiuser --env "K_MPI_JOB_ROLE=${3,}")
    cluster_exec "$1" podman run --quiet "${words[@]}" "${@:4}" "$image" "${command[@]}"
}

operator_worker() { # I
    operator_pod "node$(($1 + 2))" "$mpijob-worker-$1" Worker --detach --shm-size 512m >/dev/null
}

# The readiness probe.
operator_ready() { # I
    local i host=node$(($1 + 2))
    for ((i = 0; i < 600; i++)); do
        if cluster_net "$host" bash -c 'exec 3<>/dev/tcp/127.0.0.1/2222' 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    cluster_exec "$host" podman logs "$mpijob-worker-$1" >&2
    return 1
}

# Runs the Nth launcher of the job, as the Job's controller starts one after the other.
operator_launcher() { # N
    local slots
    slots=$(manifest get "$job_folder/manifest.yaml" spec.slotsPerWorker)
    operator_pod node1 "$mpijob-launcher-$1" Launcher --volume "$job_folder/mpi:/etc/mpi:ro" \
        --env OMPI_MCA_orte_keep_fqdn_hostnames=true --env OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
        --env "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10" --env "OMPI_MCA_orte_set_default_slots=$slots" \
        --env NVIDIA_VISIBLE_DEVICES= --env NVIDIA_DRIVER_CAPABILITIES=
}

operator_delete() {
    local i
    cluster_exec node1 podman rm --force --all --time 0 >/dev/null
    for ((i = 0; i < n_workers; i++)); do cluster_exec "node$((i + 2))" podman rm --force --time 0 "$mpijob-worker-$i" >/dev/null; done
}
