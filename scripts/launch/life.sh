# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of run.sh and of the other parts
# The record of a supervised job's life: job.jsonl in its folder, one JSON object per line (docs/records.md). A record that
# cannot be written never ends a job. Sourced by run.sh.
#
# life_file: the file; empty: none. life_origin: the monotonic time, in hundredths of a second, that `sec` counts from.
life_file='' life_origin=0

# Sets centi: hundredths of a second since an arbitrary time, like `now` of monotonic.
life_clock() {
    local up
    if read -r up _ 2>/dev/null </proc/uptime; then centi=$((10#${up/./})); else monotonic && centi=$((100 * now)); fi
}

life_seconds() { printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); } # HUNDREDTHS

# Sets quoted to a JSON string. Control characters and bytes that are not UTF-8 are dropped.
life_string() { # TEXT
    local text=$1
    if [[ $text == *[^\ -~]* ]]; then
        text=${text//$'\n'/ } text=${text//[[:cntrl:]]/}
        text=$(printf %s "$text" | iconv -f utf-8 -t utf-8 -c 2>/dev/null) || text=${text//[^ -~]/}
    fi
    text=${text//\\/\\\\} text=${text//\"/\\\"}
    quoted="\"$text\""
}

# Prints a JSON array of strings.
life_list() { # [TEXT...]
    local text quoted out=()
    for text in "$@"; do life_string "$text" && out+=("$quoted"); done
    (IFS=, && printf '[%s]' "${out[*]}")
}

# Appends a record. A FIELD is NAME=TEXT, or NAME:=JSON, where an empty value is null.
life_add() { # RECORD FIELD...
    local line field name value quoted centi now
    [[ -n $life_file ]] || return 0
    life_clock
    line="{\"record\":\"$1\",\"time\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",\"sec\":$(life_seconds $((centi - life_origin)))"
    for field in "${@:2}"; do
        name=${field%%=*} value=${field#*=}
        if [[ $name == *: ]]; then
            line+=",\"${name%:}\":${value:-null}"
        elif [[ -z $value ]]; then
            line+=",\"$name\":null"
        else
            life_string "$value"
            line+=",\"$name\":$quoted"
        fi
    done
    own_append "$life_file" "$line}"$'\n' || life_lose
}

life_lose() {
    note "cannot write $life_file${file_fault:+ ($file_fault)}; the job goes on without this record"
    life_file=''
}

# Prints a field of a record that life_add wrote; nothing if it is null or absent.
life_field() { # LINE NAME
    local text="\"$2\":(\"([^\"]*)\"|([^,}]*))"
    [[ $1 =~ $text ]] || return 0
    text=${BASH_REMATCH[2]}${BASH_REMATCH[3]}
    [[ $text == null ]] || printf '%s\n' "$text"
}

# Opens the record in FOLDER, which is created. Sets life_begun and life_supervised: the first record, and the last one of a
# supervisor, of a job that has no end; empty: none.
life_open() { # FOLDER
    local found
    life_file=$1/job.jsonl life_begun='' life_supervised=''
    own_want "$1/metrics.jsonl" --out
    own_want "$life_file" --out
    if ! timeout -k 1 10 mkdir -p "$1" 2>/dev/null || ! own_append "$life_file" ''; then
        life_lose
        return
    fi
    # A supervisor may have been killed while it wrote.
    ((file_size == 0)) || [[ -z $(own_read "$life_file" $((file_size - 1))) ]] || own_append "$life_file" $'\n'
    found=$(own_read "$life_file" | awk '/^\{"record":"job_start".*\}$/ { begun = $0; last = "" }
        /^\{"record":"job_(start|continue)".*\}$/ { last = $0 }
        /^\{"record":"job_end".*\}$/ { begun = last = "" }
        END { if (begun != "") printf "%s\n%s\n", begun, last }') || true
    life_begun=${found%%$'\n'*} life_supervised=${found#*$'\n'}
}

# Identifies the machine, its boot and its space of process ids.
life_place() {
    local boot='' space
    read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id || true
    space=$(readlink /proc/self/ns/pid 2>/dev/null) || true
    printf '%s %s %s\n' "$(hostname)" "$boot" "${space//[!0-9]/}"
}

# Prints the newest step that has a checkpoint in FOLDER; -1: none.
life_newest() { # FOLDER
    local newest
    newest=$(timeout -k 1 10 ls "$1" 2>/dev/null | sed -nE 's/^ckpt-0*([0-9]{1,15})\.h5$/\1/p' | sort -n | tail -n 1) || true
    echo "${newest:--1}"
}

# Prints the bytes of whole lines in FILE, of which a full disk or a kill may have torn the last one; the next run removes it.
life_size() { # FILE
    local torn=0
    own_file "$1"
    [[ -z $file_fault ]] || file_size=0
    if ((file_size > 0)) && [[ -n $(own_read "$1" $((file_size - 1))) ]]; then torn=$(life_tail "$1" | tail -n 1 | wc -c); fi
    echo $((file_size - torn))
}

# Prints the end of FILE, up to 1 MB.
life_tail() { # FILE
    own_file "$1"
    own_read "$1" $((file_size > 1 << 20 ? file_size - (1 << 20) : 0))
}

# Prints, of the records of steps in FILE from byte OFFSET on: seconds and number of the steps whose results were kept, then of
# those that were lost. A later run of the file repeats the steps from its first one on; at the end, steps from KEPT on are
# lost (-1: none).
life_steps() { # FILE OFFSET KEPT
    own_read "$1" "$2" | awk -v kept="$3" '
        # step[1 … n_good] are the steps that count, in ascending order.
        function number(key) {
            value = match($0, "\"" key "\":[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : -1
            return value < 1e15 ? value : -1
        }
        function drop(from) {
            for (; n_good > 0 && step[n_good] >= from; n_good--) { lost += sec[n_good]; n_lost++; good -= sec[n_good] }
        }
        BEGIN { n_good = n_lost = good = lost = 0 }
        !/\}$/ { next }
        /"record":"run"/ { first = number("first_step"); if (first >= 0) drop(first) }
        /"record":"step"/ {
            now = number("step")
            if (now < 0) next
            drop(now)
            step[++n_good] = now; sec[n_good] = number("step_sec"); good += sec[n_good]
        }
        END { if (kept >= 0) drop(kept); printf "%.2f %d %.2f %d\n", good, n_good, lost, n_lost }'
}
