# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# Calls on files that fail, hang, are short, or lie, on checkpoints, records and data.
kind file_checkpoint 5
kind file_records 2
kind file_hang 2
kind file_short 1
kind file_lie 3
kind file_data 2
kind file_open 1

draw_file_checkpoint() {
    echo "np=2 rank=0 call=$(pick open write write fsync rename) path=ckpt at=$(between 0 99)" \
        "act=fail:$(pick ENOSPC EIO EROFS EDQUOT ESTALE) times=$(pick 1 0) via=run on=$(pick stop stop continue)" \
        "async=$(pick yes no)"
}

file_options() {
    [[ ${P[on]:-stop} == stop ]] || args+=(--on-checkpoint-error continue)
    [[ ${P[async]:-yes} == yes ]] || args+=(--no-checkpoint-async)
}

run_file_checkpoint() {
    codes=4
    file_options
    # A failure that passes is made up for by the next checkpoint; of the last one it is an error.
    [[ ${P[on]} == stop ]] || codes="0 4"
    words="ckpt"
    # Reading back opens the file twice; the first time serves only to drop it from the page cache.
    [[ ${P[call]} != open || ${P[times]} == 0 ]] || codes="0 4" words=''
    job_with_shim
    judge
}

draw_file_records() {
    echo "np=2 rank=0 call=$(pick fputs fflush open) path=metrics.jsonl at=$(between 0 99) act=fail:$(pick ENOSPC EIO EROFS)" \
        "times=$(pick 1 0) via=run"
}
run_file_records() {
    codes=4 words='metrics.jsonl'
    job_with_shim
    judge
}

# A disk that does not answer. The message names the wait for the file, not a rank's computing.
draw_file_hang() {
    case $(pick 1 2 3) in
    1) echo "np=2 rank=0 call=$(pick write fsync rename) path=ckpt at=$(between 0 90) act=block via=run async=$(pick yes no)" ;;
    2) echo "np=2 rank=0 call=$(pick fputs fflush) path=metrics.jsonl at=$(between 0 90) act=block via=run" ;;
    3) echo "np=2 rank=$(pick 0 1) call=read path=ubyte at=$(between 0 90) act=block via=run" ;;
    esac
}
run_file_hang() {
    file_options
    codes="4 5"
    case ${P[path]} in
    ckpt) words='[cC]heckpoint|ckpt' ;;
    metrics.jsonl) words='metrics|records' ;;
    *) words='data|reading|loading|opening' ;;
    esac
    job_with_shim
    judge
}

# Fewer bytes than asked for are not an error.
draw_file_short() { echo "np=2 rank=0 call=$(pick read write) path=ckpt at=$(between 0 99) act=short times=$(pick 1 5 0) via=run"; }
run_file_short() {
    codes=0
    job_with_shim
    judge
}

# A device that alters or loses what is written, for one write or from then on: the last good checkpoint stays.
draw_file_lie() {
    echo "np=2 rank=0 call=write path=ckpt at=$(between 10 95) act=$(pick flip flip drop) times=$(pick 1 1 0) via=run"
}
run_file_lie() {
    codes="0 3 4"
    job_with_shim
    # What was altered on the device may be lost, but not every file: one that was good before has to be there.
    floor=-1
    local good
    good=$(good_step "$dir/run")
    ((good > 0)) || bad+=(lost-checkpoint)
    judge_end
    code_lie=$code
    # A run that ended well needs no other; its files were read back.
    if [[ $code -eq 0 ]] && ((good < n_steps)); then bad+=(false-success); fi
    judge_resume
}

# A data file that reads differently, or not at all, on one rank.
draw_file_data() { echo "np=2 rank=$(pick 0 1) call=$(pick read read open) path=ubyte at=$(between 0 99) act=$(pick flip fail:EIO fail:ESTALE) via=run"; }
run_file_data() {
    codes="3 4 5"
    words='ubyte|data'
    job_with_shim
    # Reading the header may stop anywhere; nothing is flipped when a file is opened.
    if [[ ${P[call]} == open && ${P[act]} == flip ]]; then codes=0 words=''; fi
    judge
}

# Any file that a rank opens: also libraries, /proc, locale.
draw_file_open() {
    echo "np=2 rank=$(pick 0 1) call=open at=$(between 0 99) act=fail:$(pick EMFILE EIO ENOENT EACCES) via=run times=1"
}
run_file_open() {
    codes="0 2 3 4 5 1"
    job_with_shim
    judge
}
