# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The ranks' environment. Values that users give stay out of command lines, which every user of a host can read. Sourced by
# run.sh.
#
# -x flags: job_env: NAME (with its value in this environment) or NAME=VALUE, chosen by run.sh; host_extra[I]: flags for host I
# only, one per line. Values of files and specifications: job_private: NAME=VALUE; host_private[I]: for host I only, one per
# line.
job_env=() host_extra=() job_private=() host_private=() n_bundles=0

# Whether a variable's name suggests a secret. A PKEY is an InfiniBand partition key, not a secret.
env_is_secret() { # NAME
    case ${1^^} in
    PWD | OLDPWD | DPTRAIN_SECRET_PATTERN) return 1 ;;
    *TOKEN* | *SECRET* | *PASS* | *PWD* | *CREDENTIAL* | *AUTH* | *ACCESS* | *PRIVATE*) return 0 ;;
    *PKEY*) ;;
    *KEY*) return 0 ;;
    esac
    [[ -n ${DPTRAIN_SECRET_PATTERN:-} && ${1^^} =~ ${DPTRAIN_SECRET_PATTERN^^} ]]
}

env_check_pattern() {
    local code=0
    [[ -n ${DPTRAIN_SECRET_PATTERN:-} ]] || return 0
    grep -qE -e "$DPTRAIN_SECRET_PATTERN" </dev/null 2>/dev/null || code=$?
    ((code < 2)) || die 2 "invalid DPTRAIN_SECRET_PATTERN '$DPTRAIN_SECRET_PATTERN': expected an extended regular expression"
}

# Adds the exported variables with a known prefix. OpenMPI passes its own variables to all hosts. CUDA_VISIBLE_DEVICES numbers
# the GPUs of this host, where ranks inherit it.
env_of_prefixes() {
    local name
    env_check_pattern
    for name in "${!NCCL_@}" "${!UCX_@}" "${!FI_@}" "${!DPTRAIN_@}" "${!OMPI_@}" "${!OMP_@}" "${!CUDA_@}" "${!LD_LIBRARY_PATH@}"; do
        [[ ${!name@a} == *x* && $name != @(DPTRAIN_SECRET_PATTERN|CUDA_VISIBLE_DEVICES) ]] || continue
        if env_is_secret "$name"; then
            note "$name is not passed on: its name suggests a secret"
            unset "$name"
        elif [[ $name != OMPI_* ]]; then
            job_env+=("$name")
        fi
    done
}

# Whether a variable names or configures code that a program, its loader, its shell or MPI runs.
env_loads_code() { # NAME
    case ${1^^} in
    LD_* | *PATH | *PRELOAD* | *PLUGIN* | *MODULE* | *INJECTION* | *LIBRARIES | *LIBDIR | *PREFIX | *AGENT | *_FILES | NCCL_CONF_FILE) return 0 ;;
    HOME | ENV | BASH* | SHELLOPTS | IFS | PS4 | PROMPT_COMMAND | PYTHON* | PERL* | OPENSSL_* | GLIBC_TUNABLES | OPAL_*) return 0 ;;
    OMPI_COMM_* | PMIX_[!M]* | DPTRAIN_CPUS) return 0 ;;
    esac
    return 1
}

# Reads a file of NAME=VALUE lines into the array env_lines. FILE is its name in messages. PATH: only for the current folder's file.
env_read() { # FILE [PATH]
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
        elif [[ $# -gt 1 ]] && env_loads_code "$name"; then
            note "$1, line $n: $name is not taken from here, because it can load code; use --env-file"
        else
            env_lines+=("$line")
        fi
    done <"${2:-$1}"
}

# Removes the entries with this name from the array.
env_drop() { # ARRAY NAME
    local -n from=$1
    local old kept=()
    for old in "${from[@]}"; do [[ ${old%%=*} == "$2" ]] || kept+=("$old"); done
    from=("${kept[@]}")
}

# Adds an entry to the array, replacing one with the same name.
env_put() { # ARRAY NAME=VALUE
    local -n list=$1
    env_drop "$1" "${2%%=*}"
    list+=("$2")
}

# Later values win: the environment, ~/.dptrain_env, ./.dptrain_env, --env-file.
env_of_files() { # [FILE...]
    local file
    if [[ -e ${HOME:-/nowhere}/.dptrain_env ]]; then env_of_file "$HOME/.dptrain_env"; fi
    if [[ -e .dptrain_env && ! .dptrain_env -ef ${HOME:-/nowhere}/.dptrain_env ]]; then env_of_folder; fi
    for file in "$@"; do env_of_file "$file"; done
    ((${#job_private[@]} == 0)) || note "variables from files, values not shown: ${job_private[*]%%=*}"
}

env_of_file() { # FILE [PATH]
    local line
    env_read "$@"
    for line in "${env_lines[@]}"; do
        env_drop job_env "${line%%=*}"
        env_put job_private "$line"
    done
}

# Reads .dptrain_env of the current folder, where others may have put it: only if this user or root owns it and nobody else can
# write it.
env_of_folder() {
    local fd owner link mode file=$PWD/.dptrain_env
    [[ -f .dptrain_env && -r .dptrain_env ]] || { note "ignoring $file: it is not a readable file"; return; }
    exec {fd}<.dptrain_env
    link=$(stat -c %u .dptrain_env)
    read -r owner mode < <(stat -Lc '%u %a' "/dev/fd/$fd")
    if [[ " 0 $(id -u) " != *" $owner "* || " 0 $(id -u) " != *" $link "* ]]; then
        note "ignoring $file: it belongs to another user; --env-file .dptrain_env reads it"
    elif ((8#$mode & 8#022)); then
        note "ignoring $file: others can write it; chmod go-w .dptrain_env"
    else
        note "reading $file"
        env_of_file "$file" "/dev/fd/$fd"
    fi
    exec {fd}<&-
}

# Puts NAME=VALUE lines into one exported variable, for ranks_prefix, and sets bundle to its name; empty without lines.
env_bundle() { # [LINE...]
    bundle=''
    (($# > 0)) || return 0
    bundle=DPTRAIN_ENV_$((n_bundles++))
    printf -v "$bundle" 'export %q\n' "$@"
    export "${bundle?}"
}

# As env_bundle, with all lines for host I.
env_bundle_host() { # I
    local line own=() all=("${job_private[@]}")
    mapfile -t own < <(printf %s "${host_private[$1]:-}")
    for line in "${own[@]}"; do env_put all "$line"; done
    [[ ${host_extra[$1]:-} != *CUDA_VISIBLE_DEVICES=* ]] || env_drop all CUDA_VISIBLE_DEVICES
    env_bundle "${all[@]}"
}

# Sets a variable unless it is set already.
env_default() { # NAME VALUE
    local old
    for old in "${job_env[@]}" "${job_private[@]}"; do [[ ${old%%=*} != "$1" ]] || return 0; done
    job_env+=("$1=$2")
}

# Adds each host's variables from the hosts' description: shared_envs, env_file, which wins over them, and GPUs.
env_of_hosts() {
    local i line own shared
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
        if [[ ${host_gpus[i]} != - && ${host_gpus[i]} != "$(seq -s , 0 $((host_slots[i] - 1)))" ]]; then
            env_drop own CUDA_VISIBLE_DEVICES
            host_extra[i]+="-x"$'\n'"CUDA_VISIBLE_DEVICES=${host_gpus[i]}"$'\n'
        fi
        for line in "${own[@]}"; do host_private[i]+=$line$'\n'; done
    done
}
