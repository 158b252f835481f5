# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of container.sh
# Builds the image on this machine. Sourced by container.sh.

container_build() {
    local candidate root=$here/.. revision command=()
    if [[ -z $engine ]]; then
        for candidate in podman buildah docker; do
            if command -v "$candidate" >/dev/null; then engine=$candidate && break; fi
        done
        [[ -n $engine ]] || die 4 "no podman, buildah or docker was found (apt-get install podman)"
    fi
    command -v "$engine" >/dev/null || die 4 "$engine was not found"
    [[ -e $root/Makefile ]] || die 4 "build needs the source tree; a bundle has none"
    root=$(cd "$root" && pwd)
    revision=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null) || revision=unknown
    command=("$engine" build --file "$here/container/Containerfile" --tag "$image" --build-arg "REVISION=$revision")
    # The Id of such an image is the same for all engines, and survives docker's archives.
    [[ $engine == docker ]] || command+=(--format docker)
    command+=("${build_args[@]}" "$root")
    if [[ $dry_run == yes ]]; then
        printf '%q ' "${command[@]}"
        echo
        return
    fi
    "${command[@]}" || die 4 "$engine could not build the image (code $?)"
    if [[ $engine == buildah ]]; then
        note "built $image: Id $(buildah images --format '{{.ID}}, {{.Size}}' "$image" | head -n 1)"
    else
        note "built $image: $("$engine" image inspect --format 'Id {{.Id}}, {{.Size}} bytes' "$image")"
    fi
}
