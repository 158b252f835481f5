# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The ranks' environment, as -x flags. Sourced by run.sh.
#
# job_env: NAME (with its value in this environment) or NAME=VALUE; host_extra[I]: flags for host I only, one per line.
job_env=() host_extra=()

# Whether a variable's name suggests a secret. A PKEY is an InfiniBand partition key, not a secret.
env_is_secret() { # NAME
    [[ ${1^^} =~ TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL || (${1^^} == *KEY* && ${1^^} != *PKEY*) ]]
}

# Adds the exported variables with a known prefix. OpenMPI passes its own variables to all hosts.
env_of_prefixes() {
    local name
    for name in "${!NCCL_@}" "${!UCX_@}" "${!FI_@}" "${!DPTRAIN_@}" "${!OMPI_@}"; do
        [[ ${!name@a} == *x* ]] || continue
        if env_is_secret "$name"; then
            note "$name is not passed on: its name suggests a secret"
            unset "$name"
        elif [[ $name != OMPI_* ]]; then
            job_env+=("$name")
        fi
    done
}

# Reads a file of NAME=VALUE lines into the array env_lines.
env_read() { # FILE
    local line n=0 name
    env_lines=()
    [[ -r $1 && ! -d $1 ]] || die 2 "cannot read the environment file $1"
    while IFS= read -r line || [[ -n $line ]]; do
        n=$((n + 1)) line=${line%$'\r'}
        [[ ! $line =~ ^[[:space:]]*(#|$) ]] || continue
        [[ $line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die 2 "$1, line $n: expected NAME=VALUE, not: $line"
        name=${line%%=*}
        if env_is_secret "$name"; then
            note "$1, line $n: $name is not passed on: its name suggests a secret"
        else
            env_lines+=("$line")
        fi
    done <"$1"
}

# Adds an entry to the array, replacing one with the same name.
env_put() { # ARRAY NAME[=VALUE]
    local -n list=$1
    local old kept=()
    for old in "${list[@]}"; do [[ ${old%%=*} == "${2%%=*}" ]] || kept+=("$old"); done
    list=("${kept[@]}" "$2")
}

# Later values win: the environment, ~/.dptrain_env, ./.dptrain_env, --env-file.
env_of_files() { # [FILE...]
    local file line files=()
    [[ ! -e ${HOME:-/nowhere}/.dptrain_env ]] || files+=("$HOME/.dptrain_env")
    [[ ! -e .dptrain_env || .dptrain_env -ef ${HOME:-/nowhere}/.dptrain_env ]] || files+=(.dptrain_env)
    for file in "${files[@]}" "$@"; do
        env_read "$file"
        for line in "${env_lines[@]}"; do env_put job_env "$line"; done
    done
}

# Sets a variable unless it is set already.
env_default() { # NAME VALUE
    local old
    for old in "${job_env[@]}"; do [[ ${old%%=*} != "$1" ]] || return 0; done
    job_env+=("$1=$2")
}

# Adds each host's variables from the hosts' description: shared_envs, env_file, which wins over them, and GPUs.
env_of_hosts() {
    local i line all own shared
    for i in "${!host_name[@]}"; do
        own=() shared=()
        [[ ${host_envs[i]} == - ]] || IFS=$'\t' read -ra shared <<<"${host_envs[i]}"
        for line in "${shared[@]}"; do
            if env_is_secret "${line%%=*}"; then
                note "shared_envs: ${line%%=*} is not passed on: its name suggests a secret"
            else
                env_put own "$line"
            fi
        done
        if [[ ${host_env_file[i]} != - ]]; then
            env_read "${host_env_file[i]}"
            for line in "${env_lines[@]}"; do env_put own "$line"; done
        fi
        all=$(seq -s , 0 $((host_slots[i] - 1)))
        if [[ ${host_gpus[i]} != - && ${host_gpus[i]} != "$all" ]]; then
            env_put own "CUDA_VISIBLE_DEVICES=${host_gpus[i]}"
        fi
        for line in "${own[@]}"; do host_extra[i]+="-x"$'\n'"$line"$'\n'; done
    done
}
