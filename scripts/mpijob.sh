#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prints a job for Kubernetes' MPI Operator. See --help.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/mpijob/values.sh
. "$here/mpijob/values.sh"
# shellcheck source=scripts/mpijob/manifest.sh
. "$here/mpijob/manifest.sh"

usage() {
    cat <<'EOT'
usage: scripts/mpijob.sh [options] -- dptrain's arguments
       scripts/mpijob.sh [options] --regress [-- options of regress.sh run]

Prints an MPIJob (kubeflow.org/v2beta1) that runs dptrain in the image of `scripts/container.sh build`. Commands start in
the claim's folder. `train` writes to runs/NAME there, and resumes when its launcher starts again. docs/kubernetes.md is
the guide.

  --image IMAGE         image, as the nodes pull it (required)
  --claim NAME          PersistentVolumeClaim with data and output, ReadWriteMany (required)
  --mount-path DIR      where the claim is mounted [/shared]
  --name NAME           name of the job; the workers are NAME-worker-0, … [dptrain]
  --namespace NAME      namespace [kubectl's]
  --workers N           number of workers [1]
  --slots N             ranks on each worker [--gpus, or 1]
  --backoff N           number of times that the launcher starts again after a failure [3]
  --regress             the launcher runs regress.sh run

Each worker has:
  --gpus N              GPUs: nvidia.com/gpu [0]
  --efa N               EFA devices: vpc.amazonaws.com/efa, with huge pages and IPC_LOCK [0]
  --hugepages QUANTITY  huge pages of 2 MiB, which EFA needs [5Gi with --efa]
  --cpu QUANTITY        CPUs [--slots]
  --memory QUANTITY     memory, including /dev/shm [8Gi]
  --shm QUANTITY        most that /dev/shm takes of the memory [half of it]
  --node-selector K=V   only nodes with this label; may be repeated
  --toleration KEY[=VALUE][:EFFECT]   also nodes with this taint; may be repeated

  -h, --help            show this help

QUANTITY is Kubernetes': 500m, 4, 64G (10^9 bytes), 64Gi (2^30 bytes).

Examples:
  # two workers train on the claim's folder mnist
  scripts/mpijob.sh --image registry.example/dptrain:1 --claim shared \
      --workers 2 -- train --data mnist | kubectl apply -f -
  # 8 GPUs and 4 EFA devices each
  scripts/mpijob.sh --image registry.example/dptrain:1-cuda --claim shared \
      --workers 4 --gpus 8 --efa 4 -- bench comm | kubectl apply -f -
EOT
}

image='' claim='' mount_path=/shared name=dptrain namespace='' workers=1 slots='' backoff=3 regress=no
gpus=0 efa=0 hugepages='' cpu='' memory=8Gi shm='' selectors=() tolerations=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --) shift; break ;;
    --regress) regress=yes; shift; continue ;;
    -h | --help) show_usage; exit 0 ;;
    -*) ;;
    *) die 2 "unexpected argument '$1'; dptrain's arguments follow --" ;;
    esac
    case $1 in
    --image | --claim | --mount-path | --name | --namespace | --workers | --slots | --backoff | --gpus | --efa | \
        --hugepages | --cpu | --memory | --shm | --node-selector | --toleration) need_value "$@" ;;
    esac
    case $1 in
    --image) image=$2 ;;
    --claim) claim=$2 ;;
    --mount-path) mount_folder "$2" ;;
    --name) name=$2 ;;
    --namespace) namespace=$2 ;;
    --workers) whole_number "$1" "$2" 1; workers=$((10#$2)) ;;
    --slots) whole_number "$1" "$2" 1; slots=$((10#$2)) ;;
    --backoff) whole_number "$1" "$2" 0; backoff=$((10#$2)) ;;
    --gpus) whole_number "$1" "$2" 0; gpus=$((10#$2)) ;;
    --efa) whole_number "$1" "$2" 0; efa=$((10#$2)) ;;
    --hugepages) quantity "$1" "$2"; hugepages=$2 ;;
    --cpu) cpu_quantity "$1" "$2"; cpu=$2 ;;
    --memory) quantity "$1" "$2"; memory=$2 ;;
    --shm) quantity "$1" "$2"; shm=$2 ;;
    --node-selector) node_selector "$2" ;;
    --toleration) toleration "$2" ;;
    *) common_option "$1" ;;
    esac
    shift 2
done

[[ $regress == yes || $# -gt 0 ]] || die 2 "nothing to run: dptrain's arguments follow --"
[[ -n $image ]] || die 2 "--image is missing: the image of scripts/container.sh build, as the nodes pull it"
image_name "$image"
[[ -n $claim ]] || die 2 "--claim is missing: the PersistentVolumeClaim with the data; kubectl get pvc lists them"
dns_name --claim "$claim" 253
dns_name --name "$name" 63
[[ $name =~ ^[a-z] ]] || die 2 "invalid --name '$name': a job's service has this name, which must begin with a letter"
last=$name-worker-$((workers - 1))
((${#last} <= 63)) || die 2 "invalid --name '$name': the host name $last would be longer than 63 characters"
[[ -z $namespace ]] || dns_name --namespace "$namespace" 63
slots=${slots:-$((gpus > 0 ? gpus : 1))}
((gpus == 0 || slots <= gpus)) || die 2 "--slots $slots is more than --gpus $gpus: every rank needs a GPU of its own"
cpu=${cpu:-$slots}
if ((efa > 0)); then
    hugepages=${hugepages:-5Gi}
    [[ $(bytes "$hugepages") -gt 0 ]] || die 2 "--efa $efa needs huge pages, but --hugepages is $hugepages"
fi
if [[ -n $hugepages ]]; then
    (($(bytes "$hugepages") % 2097152 == 0)) || die 2 "invalid --hugepages '$hugepages': expected a multiple of 2Mi"
    [[ $(bytes "$hugepages") -gt 0 ]] || hugepages=''
fi
(($(bytes "$memory") >= 1 << 28)) || die 2 "invalid --memory '$memory': a worker needs at least 256Mi"
shm=${shm:-$(($(bytes "$memory") / 2097152))Mi}
(($(bytes "$shm") > 0)) || die 2 "invalid --shm '$shm': expected more than 0"
(($(bytes "$shm") < $(bytes "$memory"))) || die 2 "--shm $shm must be less than --memory $memory, which includes it"

command_words "$@"
end_of_words "$@"
manifest
