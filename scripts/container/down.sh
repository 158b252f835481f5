# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of container.sh and ask.sh
# down: removes everything on all hosts. Sourced by container.sh.

container_down() {
    local i code=0 problem lost what left=() stuck=() value
    ask remove - "host_remove host_container files_put"
    for i in "${!host_name[@]}"; do
        if ! answered remove "$i"; then
            note "${host_name[i]}: $problem"
            if [[ $lost == yes ]]; then left+=("${host_name[i]}"); else stuck+=("${host_name[i]}"); fi
            continue
        fi
        what=$(said remove "$i" removed | paste -sd ,) || true
        if value=$(said remove "$i" foreign); then
            note "${host_name[i]}: left $value's container $name alone: it is somebody else's"
        fi
        if value=$(said remove "$i" stuck); then
            note "${host_name[i]}: $value"
            stuck+=("${host_name[i]}")
        fi
        note "${host_name[i]}: removed ${what:-nothing: there was nothing}"
    done
    ((${#stuck[@]} == 0)) || code=4
    ((${#left[@]} == 0)) || code=5
    [[ $code -eq 0 ]] || die "$code" "not removed from${left[*]:+ ${left[*]} (not reached)}${stuck[*]:+ ${stuck[*]}}: run down again"
}
