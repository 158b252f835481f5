# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions shared by the scripts. Sourced. Exit codes are dptrain's: 2 usage, 4 system, 5 lost peer.

cpu_folder=/sys/devices/system/cpu/cpu0/topology

# What files and hosts say can steer a terminal. All that shows it goes through plain_text: say, note, die, show and plain_lines.
# Bytes, as a bracket expression has them: control characters but newline, tab and CR; then those of UTF-8 after \xc2.
plain_control=$'\x01-\b\v\f\x0e-\x1f\x7f' plain_high=$'\x80-\x9f'

# Sets plain to TEXT with ? in place of control characters. Newlines and tabs stay; CR, which ends ssh's lines, is dropped.
plain_text() { # TEXT
    local LC_ALL=C
    plain=${1//$'\r'/}
    plain=${plain//[$plain_control]/?}
    plain=${plain//$'\xc2'[$plain_high]/?}
}

# Copies lines.
plain_lines() {
    local line plain
    while IFS= read -r line || [[ -n $line ]]; do plain_text "$line" && printf '%s\n' "$plain"; done
}

# As printf, with a newline at the end.
show() { # FORMAT ARGUMENT...
    local text plain
    # shellcheck disable=SC2059 # the caller's
    printf -v text "$@"
    plain_text "$text"
    printf '%s\n' "$plain"
}

# Whether standard error is still open does not matter.
say() { # MESSAGE
    local plain
    plain_text "$1"
    printf '%s: %s\n' "${0##*/}" "$plain" >&2 2>/dev/null || true
}

die() { # CODE MESSAGE
    say "error: $2"
    exit "$1"
}

note() { say "$1"; }

# Prints "1 host" or "2 hosts".
count() { echo "$1 $2$([[ $1 == 1 ]] || echo s)"; } # NUMBER WORD

# What files, hosts and programs say is data, but arithmetic evaluates it: ((x)) runs the command in x='a[$(command)]'. So whatever
# is computed or compared with goes through number_or first, and names through is_id.

# Sets each VARIABLE that is not a whole number to DEFAULT. Takes up to 15 digits, so that sums and products cannot overflow, and
# removes zeros in front, which would mean octal.
number_or() { # DEFAULT VARIABLE...
    local -n number_or_it
    for number_or_it in "${@:2}"; do
        if [[ ${number_or_it:-} =~ ^0*(0|[1-9][0-9]{0,14})$ ]]; then number_or_it=${BASH_REMATCH[1]}; else number_or_it=$1; fi
    done
}

is_id() { [[ $1 =~ ^[A-Za-z0-9._-]+$ ]]; } # TEXT

# Sets the array fields to what follows the name in /proc/PID/stat: state, parent, group, session, … [19]: start. Fails if
# the process has ended, also if its parent has not waited for it yet: as process 1 of a container, it may never.
process_stat() { # PID
    local line
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    # The name may contain spaces.
    # shellcheck disable=SC2034 # for the caller
    read -ra fields <<<"${line##*) }"
    [[ ${fields[0]} != [ZX] ]]
}

# Prints the losses of a run's steps.
losses() { sed -n 's/.*"record":"step".*"loss":\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; } # RUN

# Call with the remaining arguments for an option that takes a value.
need_value() { [[ $# -ge 2 ]] || die 2 "$1 needs a value; --help lists the options"; }

whole_number() { # OPTION VALUE MINIMUM
    if ! [[ $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3)); then
        die 2 "invalid $1 '$2': expected a whole number, at least $3"
    fi
}

# Prints the script's help, or of a script that sets usage_common the common options, or those of a topic, or `all`. Wrapped at
# a terminal's width, up to 120 columns. Started as a command of dptrain, which sets CALLED_AS, it names the commands instead of
# the scripts.
show_usage() { # [TOPIC]
    local columns=0 screen part='' commands=''
    [[ ${CALLED_AS:-} != 'dptrain '* ]] || commands=1
    [[ -z ${usage_common:-} || ${1:-} == all ]] || part=${1:-short}
    if [[ -t 1 ]]; then
        exec {screen}>&1 # in $( ) 1 is a pipe
        columns=$(stty size <&"$screen" 2>/dev/null | cut -d ' ' -f 2) || columns=0
        exec {screen}>&-
    fi
    ((columns >= 40)) || columns=0
    [[ -n $part$commands || $columns -gt 0 ]] || { usage; return; }
    help_of -v part="$part" -v name="scripts/${0##*/}" -v common="${usage_common:-}" -v commands="$commands" \
        -v width=$((columns < 120 ? columns : 120))
}

# A part of the script's help, or the option in it that is nearest to a word.
help_of() { usage | awk "$@" -f "$(dirname "${BASH_SOURCE[0]}")/help.awk"; } # VARIABLES OF help.awk...

# --help, and its topic, if the next word is one: prints it, or ends the script with code 2 if there is none of this name.
show_help() { # [WORD]
    local topics
    if [[ -n ${usage_common:-} && ${1:--} != -* && $1 != all ]]; then
        topics=$(help_of -v part=topics)
        grep -qxF -e "$1" <<<"$topics" ||
            die 2 "unknown topic '$1' of --help; the topics are ${topics//$'\n'/, } and all"
    fi
    [[ ${1:--} != -* ]] || set --
    show_usage "$@"
    exit 0
}

# The last case of a loop over options: --help, or an error.
common_option() { # WORD [WHERE]
    local nearest=''
    case $1 in
    -h | --help) show_usage; exit 0 ;;
    -*) nearest=$(help_of -v word="$1") ;;
    esac
    die 2 "unknown option '$1'${2:+ $2}; ${nearest:+did you mean $nearest? }--help lists the options"
}

# Called when a script's command line has been checked. With DPTRAIN_CHECK_OPTIONS set, for tests of examples, it ends here.
end_of_options() { [[ -z ${DPTRAIN_CHECK_OPTIONS:-} ]] || exit 0; }

# The same for a script that starts the program, which then checks the words that it would get.
end_of_words() { # [WORDS FOR THE PROGRAM...]
    [[ -z ${DPTRAIN_CHECK_OPTIONS:-} || $# -eq 0 ]] || exec "$(find_program)" "$@"
    end_of_options
}

# Prints the absolute path of an existing folder.
folder_option() { # OPTION VALUE
    [[ -d $2 ]] || die 2 "$1 $2: no such folder"
    (cd "$2" && pwd)
}

# Creates a private folder, sets work to it, and removes it when the script ends. A child killed between fork and exec runs
# the trap as well, hence the comparison.
make_work() { # NAME [PARENT]
    work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/dptrain-$1.XXXXXX") || die 4 "cannot create a folder in ${2:-${TMPDIR:-/tmp}}"
    trap '((BASHPID != $$)) || remove_work' EXIT
}

# Never fails: the trap's failure would become the script's exit code. A child that is about to end may still write there.
remove_work() {
    rm -rf "$work" 2>/dev/null || { sleep 0.2; rm -rf "$work"; } || true
    [[ -z ${held_session:-} ]] || rmdir "$held_session" "${held_session%/*}" 2>/dev/null || true
}

# Keeps the folder of OpenMPI 4's sessions until remove_work: an mpirun fails if another creates or removes it at the same moment.
hold_sessions() {
    local host
    read -r host 2>/dev/null </proc/sys/kernel/hostname || return 0
    held_session=${OMPI_MCA_orte_tmpdir_base:-${TMPDIR:-/tmp}}/ompi.${host%%.*}.$UID/dptrain.$$
    # Another script may remove the empty folder in between.
    for _ in 1 2 3; do
        if (umask 077 && mkdir -p "$held_session") 2>/dev/null; then return; fi
    done
    held_session=''
}

# Prints the path of dptrain.
find_program() {
    local candidate here
    if [[ -n ${DPTRAIN_BIN:-} ]]; then
        [[ -f $DPTRAIN_BIN && -x $DPTRAIN_BIN ]] || die 4 "DPTRAIN_BIN: $DPTRAIN_BIN is not a program"
        readlink -f "$DPTRAIN_BIN"
        return
    fi
    here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
    # In the repository, then installed.
    for candidate in "$here/../dptrain" "$here/../../../bin/dptrain"; do
        [[ -f $candidate && -x $candidate ]] && { readlink -f "$candidate"; return; }
    done
    command -v dptrain || die 4 "dptrain is not built; run make"
}

# Number of cores that this process may use; mpirun counts cores as slots, not hardware threads.
allowed_cores() {
    local cpus seen=" " n=0 range cpu siblings
    cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null) || true
    [[ -n $cpus ]] || { nproc; return; }
    for range in ${cpus//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
            siblings=$(cat "${cpu_folder/cpu0/cpu$cpu}/thread_siblings_list" 2>/dev/null) ||
                siblings=$cpu
            [[ $seen == *" $siblings "* ]] || { seen+="$siblings "; n=$((n + 1)); }
        done
    done
    echo "$n"
}

# mpirun refuses to run as root because a mistake could harm the system. In a container root is often the only user, so
# allow it. The note appears once, because children inherit the variables.
mpi_allow_root() {
    [[ $(id -u) -eq 0 ]] || return 0
    if [[ ${OMPI_ALLOW_RUN_AS_ROOT:-}${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-} != 11 ]]; then
        note "running as root: setting OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, which mpirun requires"
    fi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# Sets mpi_major to OpenMPI's major version, or 4 without mpirun. Version 4 has ORTE and vader; 5 has PRRTE and sm, with
# different option names.
mpi_version() {
    local line
    line=$(timeout 10 mpirun --version 2>/dev/null) || true
    mpi_major=4
    if [[ $line =~ \(Open\ MPI\)\ ([0-9]+)\. ]]; then mpi_major=${BASH_REMATCH[1]}; fi
}

# Sets mpi_major, and the array MPI_FLAGS for NP ranks on this machine, or (NP 0) for hosts that the caller adds.
# DPTRAIN_BIND=none disables binding: two concurrent jobs would both be bound to the first cores.
mpi_flags() { # NP
    local np=$1 cores over=(--oversubscribe)
    MPI_FLAGS=(-q)
    mpi_version
    if ((mpi_major >= 5)); then
        # Raw: otherwise it holds a line back until its end, which a progress line does not reach.
        MPI_FLAGS=(--output :raw) over=(--map-by :OVERSUBSCRIBE)
        # Ranks of one machine need no TCP, and it warns of interfaces that cannot reach each other.
        [[ $np -eq 0 || -n ${OMPI_MCA_btl-} ]] || MPI_FLAGS+=(--mca btl ^tcp)
    fi
    # In a chroot without /sys, hwloc prints an error per process.
    [[ -d $cpu_folder ]] || export HWLOC_HIDE_ERRORS=2
    # Without /proc, UCX prints an error per process.
    [[ -r /proc/sys/kernel/random/boot_id ]] || export UCX_LOG_LEVEL=${UCX_LOG_LEVEL-fatal}
    # hwloc looks for an X server in every process, which without /etc/hosts waits for a DNS timeout.
    export HWLOC_COMPONENTS=${HWLOC_COMPONENTS:--gl}
    # Without ssh, mpirun starts local ranks only in isolated mode.
    if ((np > 0 && mpi_major < 5)) && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
        MPI_FLAGS+=(--mca plm isolated)
    fi
    cores=$(allowed_cores)
    if ((np > cores)) || [[ ${DPTRAIN_BIND:-} == none ]] || ! may_bind; then
        ((np == 0)) || MPI_FLAGS+=("${over[@]}")
        MPI_FLAGS+=(--bind-to none)
    elif ((np == 0)); then
        MPI_FLAGS+=(--bind-to core:overload-allowed)
    else
        # Divide the cores among the ranks, for their threads.
        MPI_FLAGS+=(--map-by "slot:PE=$((cores / np))" --bind-to core)
    fi
}

# Call after mpi_flags if the command has several parts, separated by `:`. PMIx before 5.0.11 then ends with a segmentation fault
# where its parameter files contain settings of OpenMPI, as Debian's do (open-mpi/ompi#13303); the ranks read those themselves.
mpi_parts() {
    ((mpi_major < 5)) || export PMIX_MCA_mca_base_param_files=${PMIX_MCA_mca_base_param_files-none}
}

# mpirun needs /proc and /sys to bind, and some sandboxes forbid it. It binds to the machine's first cores regardless of its
# own affinity mask, so do not bind if the mask excludes CPUs.
may_bind() {
    [[ -r /proc/self/status && -d $cpu_folder && $(nproc) == "$(nproc --all)" ]] && taskset -c 0 true 2>/dev/null
}

# Prints the table at the end of a results page: machine, software, command, and additional rows as NAME VALUE pairs. Runs in
# the folder of ./dptrain. LOAD is from /proc/loadavg before the measurement.
machine_table() { # LOAD COMMAND [NAME VALUE]...
    local load=$1 command=$2 cpu
    shift 2
    cpu=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
    printf '| | |\n|---|---|\n'
    printf '| machine | %s, %s CPUs usable, %s memory |\n' "${cpu:-unknown}" "$(nproc)" \
        "$(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)"
    while (($# > 0)); do
        printf '| %s | %s |\n' "$1" "$2"
        shift 2
    done
    printf '| system | %s; load before: %s |\n' "$(uname -sr)" "$load"
    printf '| software | %s; %s |\n' "$(timeout 10 ./dptrain --version)" "$(timeout 10 mpirun --version | head -n 1)"
    # shellcheck disable=SC2016 # Markdown's quotes
    printf '| date | %s |\n| command | `%s` |\n' "$(date -u +%Y-%m-%d)" "$command"
}
