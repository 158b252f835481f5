# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The job's standard error, and what mpirun or srun says in it about lost ranks. Sourced by run.sh, before job.sh.

said_summary='^\[[^]]*\] ([0-9]+ more process|Set MCA parameter "orte_base_help)|^mpirun: Forwarding signal |plm:ssh: Warning: setpgid|^\[[^]]*\] Delaying for 1 seconds'
said_of_host='lost communication with a remote daemon.*Remote daemon ?: [^ ]+ on node ([^ ]+)'
said_of_signal='process rank ([0-9]+) with PID [0-9]+ on( node)? ([^ ]+) exited on signal ([0-9]+)'
said_of_left='process rank ([0-9]+) with PID [0-9]+ on( node)? ([^ ]+) exiting improperly'
said_of_code='Process name: \[[^ ]*,([0-9]+)\] Exit code: ([0-9]+)'
said_of_abort='MPI_ABORT was invoked on rank ([0-9]+) .*rrorcode:? ([0-9]+)'
said_of_silent='rank [0-9]+ on ([^ ]+) does not answer'
said_of_srun_code='srun: error: ([^ ]+): tasks? ([0-9]+)[^:]*: Exited with exit code ([0-9]+)'
said_of_srun_signal='srun: error: ([^ ]+): tasks? ([0-9]+)[^:]*: [A-Z]'

# The first sign that the job is ending.
said_of_end='error: |noticed that process|exiting improperly|lost communication with|MPI_ABORT was invoked|non-zero status'

# Forwards the job's standard error, without OpenMPI's own messages: they come between lines of dashes and go to $work/said, to be
# read at the end. Reads on if nobody reads its output any more.
said_forward() {
    local line inside=no centi now plain
    trap '' INT HUP TERM USR1 PIPE
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line =~ $said_of_end && ! -e $work/ends_at ]]; then
            life_clock
            echo "$centi" >"$work/ends_at" || true
        fi
        if [[ $line =~ ^-{70,80}$ ]]; then
            if [[ $inside == yes ]]; then inside=no; else inside=yes; fi
            continue
        fi
        if [[ $inside == yes && $line != dptrain:* ]]; then
            { echo "$line" >>"$work/said"; } 2>/dev/null || true
            continue
        fi
        [[ $line != 'srun: error:'* ]] || echo "$line" >>"$work/said" || true
        [[ $line != *'error: '* || -e $work/spoke ]] || echo "${line#*error: }" >"$work/spoke" || true
        [[ $line != *'An error occurred in MPI_Init'* ]] || : >"$work/no_mpi" || true
        if [[ $line =~ $said_of_silent ]]; then echo "${BASH_REMATCH[1]}" >>"$work/silent" || true; fi
        [[ $line != *'check the other hosts'* ]] || : >"$work/elsewhere" || true
        # Follow mpirun's summaries of messages.
        [[ $line =~ $said_summary ]] || { plain_text "$line" && printf '%s\n' "$plain"; } || true
    done 2>>"$work/errors"
}

# Sets lost: how the first rank or host was lost (signal, left, code, host), or empty; lost_rank, lost_host, lost_code.
said_read() {
    local text
    lost='' lost_rank='' lost_host='' lost_code=0
    text=$(tr -s '[:space:]' ' ' 2>/dev/null <"$work/said") || true
    if [[ $text =~ $said_of_host ]]; then
        lost=host lost_host=${BASH_REMATCH[1]}
    elif [[ $text =~ $said_of_signal ]]; then
        lost=signal lost_rank=${BASH_REMATCH[1]} lost_host=${BASH_REMATCH[3]} lost_code=${BASH_REMATCH[4]}
    elif [[ $text =~ $said_of_left ]]; then
        lost=left lost_rank=${BASH_REMATCH[1]} lost_host=${BASH_REMATCH[3]}
    elif [[ $text =~ $said_of_code || $text =~ $said_of_abort ]]; then
        lost=code lost_rank=${BASH_REMATCH[1]} lost_code=${BASH_REMATCH[2]}
    elif [[ $text =~ $said_of_srun_code ]]; then
        lost=code lost_host=${BASH_REMATCH[1]} lost_rank=${BASH_REMATCH[2]} lost_code=${BASH_REMATCH[3]}
    elif [[ $text =~ $said_of_srun_signal ]]; then
        # Its words for a signal vary, but its exit code is 128 plus the number.
        lost=signal lost_host=${BASH_REMATCH[1]} lost_rank=${BASH_REMATCH[2]} lost_code=$(($1 > 128 ? $1 - 128 : 0))
    fi
    number_or 0 lost_code
    number_or '' lost_rank
    [[ $lost == host || -z $lost || -n $lost_host ]] || lost_host=$(said_host "$lost_rank")
}

# Whether MPI itself did not start on a rank. Not every rank's words arrive.
said_no_mpi() { # CODE
    [[ -e $work/no_mpi ]] || grep -qsE 'MPI_INIT failed|requested component was not found' "$work/said" ||
        { [[ $1 -eq 1 && -z $lost && -z $why ]] && ! job_started; }
}

# Prints the host of a rank: hosts take ranks in their order.
said_host() { # RANK
    local i n=0
    for i in "${!host_ranks[@]}"; do
        n=$((n + host_ranks[i]))
        if (($1 < n)); then echo "${host_alias[i]}" && return; fi
    done
    hostname
}

# Prints how the rank or host was lost, with the rank's last phase, which the hosts reported in job_sweep.
said_describe() {
    local who="rank $lost_rank on $lost_host" last=''
    last=$(sed -n "s/^phase $lost_rank //p" <<<"$phases" | head -n 1) || true
    [[ -z $last ]] || last=" in \"$last\""
    case $lost in
    host) echo "lost the connection to mpirun's daemon on $lost_host: the host, its network or the daemon failed" ;;
    signal)
        if ((lost_code == 9)); then last+="; the kernel does that when memory runs out (dmesg on $lost_host)"; fi
        echo "$who was killed by signal $lost_code (SIG$(kill -l "$lost_code" 2>/dev/null || echo unknown))$last"
        ;;
    left) echo "$who ended without a word, with exit code 0$last" ;;
    code) echo "$who ended with exit code $lost_code$last" ;;
    esac
}

# Leaves to the supervisor what is known of the fault. Without WHAT, the ranks have said it.
said_tell() { # [WHAT]
    local what=${1:-} host=$lost_host rank=$lost_rank phase='' centi now
    [[ -n $supervisor ]] || return 0
    if [[ -s $work/spoke && ${what:-mpirun outlived} == 'mpirun outlived'* ]]; then read -r what <"$work/spoke"; fi
    # A rank that ends the job with a code speaks for another one.
    if [[ (-z $rank$host || $lost == code) && $what =~ rank\ ([0-9]+)\ on\ ([^][:space:],\;:\)]+) ]]; then
        rank=${BASH_REMATCH[1]} host=${BASH_REMATCH[2]}
        number_or '' rank
    fi
    [[ -z $rank ]] || phase=$(sed -n "s/^phase $rank //p" <<<"$phases" | head -n 1) || true
    if [[ -z $phase && $what =~ (was|is)\ (last\ )?in\ \"([^\"]*)\" ]]; then phase=${BASH_REMATCH[3]}; fi
    life_clock
    {
        cat "$work/ends_at" 2>/dev/null || echo "$centi"
        printf '%s\n' "$what" "$host" "$rank" "$phase"
    } | paste -d ' ' <(printf '%s\n' at what host rank phase) - >"$supervisor/fault"
    [[ ! -s $work/silent ]] || cat "$work/silent" >>"$supervisor/suspects"
}
