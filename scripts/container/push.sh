# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of container.sh, ask.sh and judge.sh
# Sends the image to hosts that lack it. Sourced by container.sh.

# Writes the image as an archive that keeps its Id.
push_save() { # ENGINE IMAGE
    local format=docker-archive
    if [[ $1 == docker ]]; then docker save "$2"; return; fi
    if [[ $(podman image inspect --format '{{.ManifestType}}' "$2") == *oci* ]]; then format=oci-archive; fi
    podman save --quiet --format "$format" "$2"
}

# podman keeps the archive in TMPDIR, which may be another disk than the one that was judged.
push_load() { # ENGINE DATA_ROOT
    if [[ $1 == podman && -w $2 ]]; then export TMPDIR=$2; fi
    "$1" load --quiet
}

# The archive goes through this machine: only its logins are certain. Writes $work/push/I.err and I.code.
push_one() { # INDEX
    # At a megabyte a second.
    local i=$1 SSH kind data save=() code=0 limit=(timeout -k 10 $((timeout + wanted_bytes / 1000000)))
    if [[ $image_from == first ]]; then
        login_words 0
        read -r kind _ < <(said probe 0 engine)
        save=("${limit[@]}" "${SSH[@]}" "${host_name[0]}" "$(quoted_bash "$(declare -f push_save); push_save $(printf '%q ' "$kind" "$image")")")
    else
        save=(push_save "$here_engine" "$image")
    fi
    login_words "$i"
    read -r kind _ < <(said probe "$i" engine)
    data=$(said probe "$i" root)
    "${save[@]}" 2>"$work/push/$i.from" </dev/null |
        LC_ALL=C "${limit[@]}" "${SSH[@]}" "${host_name[i]}" "$(quoted_bash "$(declare -f push_load); push_load $(printf '%q ' "$kind" "${data#* }")")" \
            >/dev/null 2>"$work/push/$i.err" || code=$?
    cat "$work/push/$i.from" >>"$work/push/$i.err"
    echo "$code" >"$work/push/$i.code"
}

# Ends with 4 if a host still lacks the image.
push_all() {
    local i id bad=0 at_once=4 text
    ((${#push_to[@]} > 0)) || return 0
    mkdir "$work/push"
    note "sending $image (${wanted_id:0:12}, $((wanted_bytes / 1000000)) MB) to $(count ${#push_to[@]} host)"
    hosts_each push_one "${push_to[@]}"
    ask probe - "$probe_functions" "${push_to[@]}"
    for i in "${push_to[@]}"; do
        id=''
        read -r id _ < <(said probe "$i" image) || true
        [[ $id != "$wanted_id" ]] || continue
        bad=$((bad + 1)) text=$(tail -n 1 "$work/push/$i.err")
        note "${host_name[i]}: the image did not arrive: ${text:-the Id there is ${id:0:12}; build it by scripts/container.sh build, which makes an image that all engines keep}"
    done
    ((bad == 0)) || die 4 "$bad of ${#host_name[@]} hosts lack the image; nothing was started"
}
