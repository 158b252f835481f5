# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of regress.sh and of the other parts
# Builds programs of revisions in worktrees. Sourced by regress.sh.

# Builds the program in FOLDER as in this tree; a worktree gets this tree's CUDA.
revision_make() { # FOLDER LOG [WORDS...]
    await setsid make -C "$1" -j "$(nproc)" "${@:3}" "${make_words[@]}" dptrain >"$2" 2>&1
    [[ -z $stopped ]] || die 5 "stopped by $stopped while building"
    [[ $code -eq 0 && -x $1/dptrain ]]
}

revision_make_failed() { # WHAT LOG
    tail -n 20 "$2" >&2
    if [[ $2 == "$work"/* ]]; then die 4 "$1 does not build; run scripts/install_deps.sh for missing packages"; fi
    die 4 "$1 does not build; full log: $2"
}

# Removes the worktree, and stale entries in git's list of worktrees.
revision_remove_tree() {
    [[ -n $worktree ]] || return 0
    git -C "$root" worktree remove --force "$worktree" 2>/dev/null || rm -rf "$worktree"
    git -C "$root" worktree prune || true
    worktree=''
}

# Removes worktrees of killed scripts, whose process is gone.
revision_sweep() {
    for worktree in "$root"/build/regress/tree-*; do
        if [[ -d $worktree ]] && ! kill -0 "${worktree##*.}" 2>/dev/null; then revision_remove_tree; fi
    done
    worktree=''
}

# Sets cuda_words, arguments for make that give a worktree the CUDA of this tree.
revision_cuda() {
    local has
    has=$(make -C "$root" -s info "${make_words[@]}" 2>/dev/null | sed -nE 's/^CUDA +//p') || has=''
    cuda_words=(CUDA=0)
    if [[ $has == yes,* ]]; then
        cuda_words=(CUDA=1 "CUDA_HOME=$(sed -E 's/^yes, *//' <<<"$has")")
    fi
}

tree_is_built=no cuda_words=()

# Sets built to the program of a revision, from build/regress if it was built before.
revision_program() { # REVISION
    local sha key log
    if [[ $1 == . || $1 == WORK ]]; then
        if [[ -z ${DPTRAIN_BIN:-} && -n $root && $tree_is_built == no ]]; then
            tree_is_built=yes
            note "building the working tree"
            revision_make "$root" "$work/make.log" || revision_make_failed "the working tree" "$work/make.log"
        fi
        built=$(find_program) || exit
        return 0
    fi
    [[ -n $root && -e $root/.git ]] ||
        die 2 "$1: these scripts are not in a git repository; use . for the installed program"
    sha=$(git -C "$root" rev-parse --verify --quiet --end-of-options "$1^{commit}") ||
        die 2 "no revision $1 in $root; expected a branch, tag or commit, or . for the working tree"
    sha=${sha:0:12}
    ((${#cuda_words[@]} > 0)) || revision_cuda
    key=$sha-$(cksum <<<"${cuda_words[*]} ${make_words[*]}" | cut -d ' ' -f 1)
    built=$root/build/regress/$key/dptrain
    if [[ -x $built ]]; then
        note "$1 ($sha) is already built: $built"
        return 0
    fi
    mkdir -p "$root/build/regress" || die 4 "cannot create the folder $root/build/regress"
    note "building $1 ($sha)"
    revision_sweep
    worktree=$root/build/regress/tree-$sha.$$ log=$work/make.log
    if ! git -C "$root" worktree add --quiet --force --detach "$worktree" "$sha" >"$log" 2>&1 ||
        ! revision_make "$worktree" "$log" "${cuda_words[@]}"; then
        cp "$log" "${built%/*}.log" || true
        revision_make_failed "$1 ($sha)" "${built%/*}.log"
    fi
    if ! mkdir -p "${built%/*}" || ! mv "$worktree/dptrain" "$built"; then die 4 "cannot write $built"; fi
    rm -f "${built%/*}.log"
    revision_remove_tree
}
