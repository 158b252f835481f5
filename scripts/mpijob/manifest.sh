# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of mpijob.sh
# Writes the MPIJob. Sourced by mpijob.sh.

# User and folders of scripts/container/Containerfile.
user=1000 home=/home/mpiuser

# Whether an option is among the arguments.
has_option() { # OPTION ARGUMENTS
    local argument
    for argument in "${@:2}"; do [[ $argument != "$1" && $argument != "$1"=* ]] || return 0; done
    return 1
}

# Sets words: what the launcher runs.
command_words() { # ARGUMENTS
    local argument
    for argument; do
        iconv -f UTF-8 -t UTF-8 <<<"$argument" >/dev/null 2>&1 ||
            die 2 "$(printf '%q' "$argument") is not UTF-8, and Kubernetes reads nothing else"
    done
    if [[ $regress == yes ]]; then
        [[ $# -eq 0 || $1 == -* ]] || die 2 "unexpected argument '$1': regress.sh run takes options only"
        words=(regress.sh run "$@")
        has_option --results "$@" || words+=(--results "$mount_path/results")
        return
    fi
    words=(run.sh -- "$@")
    # dptrain without a command trains.
    [[ $1 == train || $1 == -* ]] && [[ $1 != @(-h|--help|--version) ]] || return 0
    has_option --out "$@" || words+=(--out "runs/$name")
    has_option --resume "$@" || words+=(--resume auto)
}

# The lines that a reader sees first.
manifest_head() {
    local needs="the claim $claim with access mode ReadWriteMany, writable by user $user" plugins=''
    if ((gpus > 0)); then plugins=nvidia.com/gpu; fi
    if ((efa > 0)); then plugins+="${plugins:+, }vpc.amazonaws.com/efa"; fi
    cat <<END
# Written by mpijob.sh of dptrain, for Kubernetes' MPI Operator 0.5 or later.
# Must exist: $needs${plugins:+; device plugins for $plugins}.
# Log: kubectl logs -f${namespace:+ -n $namespace} job/$name-launcher
END
}

# The launcher and the workers run as the same user, with the claim in the same place.
pod_settings() { # INDENT
    local i
    cat <<END | sed "s/^/$1/"
securityContext:
  runAsUser: $user
  runAsGroup: $user
  runAsNonRoot: true
  fsGroup: $user
  fsGroupChangePolicy: OnRootMismatch
END
    if ((${#selectors[@]} > 0)); then
        printf '%snodeSelector:\n' "$1"
        for i in "${selectors[@]}"; do printf '%s  %s: %s\n' "$1" "$(quoted "${i%%=*}")" "$(quoted "${i#*=}")"; done
    fi
    ((${#tolerations[@]} > 0)) || return 0
    printf '%stolerations:\n' "$1"
    for i in "${tolerations[@]}"; do toleration_entry "$1" "${i%:*}" "${i##*:}"; done
}

toleration_entry() { # INDENT KEY[=VALUE] EFFECT
    printf '%s  - key: %s\n' "$1" "$(quoted "${2%%=*}")"
    if [[ $2 == *=* ]]; then
        printf '%s    operator: Equal\n%s    value: %s\n' "$1" "$1" "$(quoted "${2#*=}")"
    else
        printf '%s    operator: Exists\n' "$1"
    fi
    [[ -z $3 ]] || printf '%s    effect: %s\n' "$1" "$3"
}

# The claim, and a /dev/shm of SHM.
volume_mounts() { # INDENT [SHM]
    printf "$1%s\n" "volumeMounts:" "  - name: shared" "    mountPath: $(quoted "$mount_path")"
    [[ -z ${2:-} ]] || printf "$1%s\n" "  - name: shm" "    mountPath: /dev/shm"
}

volumes() { # INDENT [SHM]
    printf "$1%s\n" "volumes:" "  - name: shared" "    persistentVolumeClaim:" "      claimName: $(quoted "$claim")"
    [[ -z ${2:-} ]] || printf "$1%s\n" "  - name: shm" "    emptyDir:" "      medium: Memory" "      sizeLimit: $(quoted "$2")"
}

# A container of the image, which starts in the claim.
container() { # INDENT NAME COMMAND...
    local word
    printf "$1%s\n" "- name: $2" "  image: $(quoted "$image")" "  workingDir: $(quoted "$mount_path")" "  env:" \
        "    - name: HOME" "      value: $home" "  command:"
    for word in "${@:3}"; do printf '%s    - %s\n' "$1" "$(argument "$word")"; done
    printf "$1%s\n" "  securityContext:" "    allowPrivilegeEscalation: false" "    capabilities:" "      drop: [ALL]"
}

worker_resources() {
    printf '                limits:\n'
    printf '                  %s\n' "cpu: $(quoted "$cpu")" "memory: $(quoted "$memory")"
    ((gpus == 0)) || printf '                  nvidia.com/gpu: %d\n' "$gpus"
    ((efa == 0)) || printf '                  vpc.amazonaws.com/efa: %d\n' "$efa"
    [[ -z $hugepages ]] || printf '                  hugepages-2Mi: %s\n' "$(quoted "$hugepages")"
}

manifest() {
    manifest_head
    cat <<END
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: $(quoted "$name")
END
    [[ -z $namespace ]] || printf '  namespace: %s\n' "$(quoted "$namespace")"
    cat <<END
spec:
  slotsPerWorker: $slots
  sshAuthMountPath: $home/.ssh
  launcherCreationPolicy: WaitForWorkersReady
  runPolicy:
    backoffLimit: $backoff
    cleanPodPolicy: Running
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
$(pod_settings '          ')
          containers:
$(container '            ' launcher "${words[@]}")
              resources:
                requests: {cpu: 500m, memory: 512Mi}
                limits: {memory: 2Gi}
$(volume_mounts '              ')
$(volumes '          ')
    Worker:
      replicas: $workers
      restartPolicy: OnFailure
      template:
        spec:
$(pod_settings '          ')
          containers:
$(container '            ' worker sshd_mpi)
END
    ((efa == 0)) || printf '                  add: [IPC_LOCK]\n'
    cat <<END
              readinessProbe:
                tcpSocket: {port: 2222}
                periodSeconds: 2
              resources:
$(worker_resources)
$(volume_mounts '              ' "$shm")
$(volumes '          ' "$shm")
END
}
