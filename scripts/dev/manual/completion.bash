# SPDX-License-Identifier: MIT
# Completion of dptrain @VERSION@ for bash 4.2 and later: commands, verbs, options, their values, and files.
# shellcheck shell=bash

declare -gA _dptrain_words=() _dptrain_options=() _dptrain_negated=() _dptrain_more=() _dptrain_values=()
@TABLES@
# Adds the words that match the typed prefix; @file and @dir stand for names in the file system.
_dptrain_offer() { # TYPED WORDS...
    local typed=$1 word
    for word in "${@:2}"; do
        case $word in
        @file | @dir)
            compopt -o filenames 2>/dev/null
            local option=-f names
            [[ $word == @file ]] || option=-d
            mapfile -t names < <(compgen "$option" -- "$typed")
            COMPREPLY+=("${names[@]}")
            ;;
        "$typed"*) COMPREPLY+=("$word") ;;
        esac
    done
}

_dptrain() {
    local typed=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} scope=${COMP_WORDS[1]} at=2
    local values words
    COMPREPLY=()
    # --name=value arrives as three words.
    if [[ $typed == = ]]; then
        typed=''
    elif [[ $before == = ]] && ((COMP_CWORD > 2)); then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD == 1)) && [[ $typed != -* ]]; then
        read -ra words <<<"${_dptrain_words[main]}"
        _dptrain_offer "$typed" "${words[@]}"
        return
    fi
    # `help` and --help before a command are --help behind it.
    if [[ $scope == @(help|--help|-h) ]]; then
        if ((COMP_CWORD == 2)); then
            read -ra words <<<"${_dptrain_words[main]}"
            _dptrain_offer "$typed" "${words[@]}"
            return
        fi
        COMP_WORDS=(dptrain "${COMP_WORDS[2]}" --help "${COMP_WORDS[@]:3}")
        if ((COMP_CWORD > 3)) && [[ -n ${_dptrain_options["${COMP_WORDS[1]} ${COMP_WORDS[3]}"]-} ]]; then
            COMP_WORDS=(dptrain "${COMP_WORDS[1]}" "${COMP_WORDS[3]}" --help "${COMP_WORDS[@]:4}")
        fi
        _dptrain
        return
    fi
    # After the -- of a script: another command, or options of the one that the script runs. `run` needs no -- before a command.
    local i=2 rest=()
    while ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} != -- ]]; do
        if [[ $scope == run && " ${_dptrain_words[main]} " == *" ${COMP_WORDS[i]} "* &&
            -z ${_dptrain_values["run ${COMP_WORDS[i - 1]}"]-} ]]; then
            i=$((i - 1))
            break
        fi
        i=$((i + 1))
    done
    if ((i < COMP_CWORD)); then
        case $scope in
        run) ;;
        health) rest=(check) ;;
        nccl-bw) rest=(bench comm) ;;
        regress) rest=(report compare) ;;
        *) return 0 ;;
        esac
        COMP_WORDS=(dptrain "${rest[@]}" "${COMP_WORDS[@]:i+1}")
        COMP_CWORD=$((COMP_CWORD - i + ${#rest[@]}))
        _dptrain
        return
    fi
    # Without a command the options are those of train.
    if [[ $scope == -* ]]; then scope=train at=1; fi
    [[ -n ${_dptrain_options[$scope]-}${_dptrain_words[$scope]-} ]] || return 0
    if ((COMP_CWORD > at)) && [[ -n ${_dptrain_options["$scope ${COMP_WORDS[at]}"]-} ]]; then
        scope="$scope ${COMP_WORDS[at]}" at=3
    fi
    values=${_dptrain_values["$scope $before"]-}
    if [[ -n $values ]]; then
        read -ra words <<<"${values#=}"
        _dptrain_offer "$typed" "${words[@]}"
        return
    fi
    if [[ $typed == -* ]]; then
        read -ra words <<<"${_dptrain_options[$scope]} --help"
        if [[ $typed == --no-* ]]; then read -ra words <<<"${_dptrain_negated[$scope]}"; fi
        if ((COMP_CWORD == 1)); then words+=(--version); fi
        _dptrain_offer "$typed" "${words[@]}"
        return
    fi
    words=()
    local more=${_dptrain_more[$scope]}
    if ((COMP_CWORD == at)) || [[ $more == words ]]; then read -ra words <<<"${_dptrain_words[$scope]}"; fi
    if [[ $more == files ]] || { [[ $more == later ]] && ((COMP_CWORD > at)); }; then words+=(@file); fi
    _dptrain_offer "$typed" "${words[@]}"
}

complete -F _dptrain dptrain
