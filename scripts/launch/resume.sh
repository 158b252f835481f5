# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of run.sh and of job.sh
# The end of a job that SIGINT, SIGTERM or SIGHUP stopped: exit code, checkpoint, and the command that continues it. Sourced by
# run.sh, which sets given (its own arguments) and given_command (whether they go on after run.sh's options).

# Whether the signal, and not a failure of the job, is why it ended with this code. A benchmark that is interrupted returns 1.
resume_is_due() { # CODE
    [[ $stage != asked || $1 -eq 0 || $1 -gt 5 || ($1 -eq 1 && $restart != *--resume*) ]]
}

# Prints this command line with other options for the run's folder.
resume_command() { # WORDS OF A SHELL
    local word skip=no words=("${super_command:-$0}") shown
    options_shown "${given[@]}"
    for word in "${shown[@]}"; do
        if [[ $skip == yes ]]; then skip=no && continue; fi
        case $word in
        --resume | --out) skip=yes ;;
        --resume=* | --out=* | --overwrite | --overwrite=*) ;;
        *) words+=("$word") ;;
        esac
    done
    [[ $given_command == yes ]] || words+=(train)
    printf '%q ' "${words[@]}"
    printf '%s\n' "$1"
}

# Whether the output ends with a run that has finished.
resume_finished() {
    grep -aq '^finished after ' "$work/last" 2>/dev/null
}

# Exits with 128 + the signal's number, or with 0 if the run had finished by then.
resume_finish() { # CODE
    local code line=''
    code=$((128 + $(kill -l "$stopped_by")))
    if resume_finished && [[ $stage == asked && $1 -eq 0 ]]; then
        note "SIG$stopped_by: the run had finished"
        exit 0
    fi
    [[ $stage == asked ]] || job_sweep
    note "stopped by SIG$stopped_by (exit code $code)"
    line=$(grep -aE '^(checkpoint .*; continue with|no checkpoint yet; start again with) ' "$work/last" 2>/dev/null | tail -n 1) || true
    case $line in
    *' with --resume '*)
        note "${line%%; *}"
        options_say_hidden
        note "continue with: $(resume_command "--resume ${line#* with --resume }")"
        ;;
    no*) note "$line" ;;
    *) note "$restart" ;;
    esac
    exit "$code"
}
