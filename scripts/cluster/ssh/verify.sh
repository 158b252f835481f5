# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# Tests the logins between hosts: of up to 32 hosts between every two, of more from here to each, from each to the next one, and
# from each to four others. Sourced by setup_ssh.sh.
verify_most=32 verify_random=4

# Prints a line for each target: its index, ssh's exit code, ssh's message. Limits concurrency: sshd accepts only ten
# connections that have not logged in yet, and every host is contacted by all others.
verify_targets() {
    local i
    verify_target() { # INDEX ADDRESS
        local code text try
        for try in 1 2 3; do
            code=0
            text=$(LC_ALL=C timeout $((timeout + 5)) ssh -x -o BatchMode=yes -o ConnectTimeout="$timeout" "$2" true \
                </dev/null 2>&1) || code=$?
            case $code:$text in 255:*'closed by remote'* | 255:*'reset by peer'*) sleep "$try" ;; *) break ;; esac
        done
        printf '%s\t%s\t%s\n' "$1" "$code" "$(printf %s "$text" | tr '\n\r\t' '|  ')"
    }
    for i in "${targets[@]}"; do
        while (($(jobs -rp | wc -l) >= 4)); do wait -n; done
        verify_target "$i" "${addresses[i]}" &
    done
    wait
}

# Whether every host logs in to every other.
verify_every() { ((${#healthy[@]} <= verify_most)) || [[ $all_pairs == yes ]]; }

# Sets partners[I] to the indices of the hosts that host I logs in to. Random ones are the same every time.
verify_plan() {
    local n=${#healthy[@]} i j k drawn
    for ((i = 0; i < n; i++)); do
        drawn=' '
        if verify_every; then
            for ((k = 1; k < n; k++)); do drawn+="${healthy[(i + k) % n]} "; done
        else
            RANDOM=$((i + 1)) drawn+="${healthy[(i + 1) % n]} "
            for ((k = 0; k < verify_random; )); do
                j=${healthy[(RANDOM * 32768 + RANDOM) % n]}
                if [[ $j == "${healthy[i]}" || $drawn == *" $j "* ]]; then continue; fi
                drawn+="$j " k=$((k + 1))
            done
        fi
        partners[healthy[i]]=$drawn
    done
}

verify_from() { # INDEX
    local i=$1 j targets=() addresses=() try
    read -ra targets <<<"${partners[i]}"
    for j in "${targets[@]}"; do addresses[j]=${host_name[j]}; done
    remote_script "timeout targets addresses" verify_targets >"$work/$i.probe"
    for try in 1 2 3; do
        host_ask "$work/$i.probe" "$work/$i.pairs" $(((timeout + 6) * (2 + ${#targets[@]} / 4))) \
            ssh -T -x -o BatchMode=yes -o ConnectTimeout="$timeout" "${host_name[i]}" 'bash -s'
        grep -qE 'closed by remote|reset by peer' "$work/$i.pairs.err" || break
        sleep "$try"
    done
}

# As ssh_cause, but adds what the installation found on the host that rejects the login.
verify_cause() { # CODE TEXT TO FROM
    local file
    [[ -n ${host_target[$3]:-} ]] || resolve_host "$3"
    ssh_cause "$1" "$2" "${host_name[$3]}" "${host_port[$3]}" "$4"
    if [[ $CAUSE == prompt* ]] && file=$(grep -s '^writable' "$work/$3.out"); then
        file=$(cut -f 2 <<<"$file" | tr '\n' ' ')
        CAUSE="bad permission: sshd rejects the key because others can write ${file% }"
        ADVICE="on ${host_name[$3]}: chmod go-w ${file% }"
    fi
}

# Tests the logins between healthy hosts, and from this machine to each.
verify_all() {
    local i code n=${#host_name[@]} works=0 all partners=() between
    between="between $(count "$n" host)"
    verify_plan
    hosts_each verify_from "${healthy[@]}"
    for i in "${healthy[@]}"; do
        read -r code <"$work/$i.pairs.code"
        if [[ $code -eq 0 ]]; then
            works=$((works + 1))
        elif [[ ! -s $work/$i.pairs.out ]]; then
            verify_cause "$code" "$(<"$work/$i.pairs.err")" "$i" "$(hostname)"
            fail_line "here -> ${host_name[i]}" "$CAUSE; logins from there were not tested" "$ADVICE"
        fi
    done
    for i in "${healthy[@]}"; do
        # No results from a host that was not reached.
        if [[ -s $work/$i.pairs.out ]]; then verify_read "$i"; fi
    done
    # n from here, and those between the hosts, of which n - 1 from each.
    if verify_every; then
        all=$((n * n))
    else
        between="from each of $n hosts to $((verify_random + 1)) others (--all-pairs tests every two)"
        all=$((n * (verify_random + 2)))
    fi
    printf '%d of %d logins work, from here and %s\n' "$works" "$all" "$between"
}

# Counts the logins of host I that work, and prints the others.
verify_read() { # I
    local i=$1 j code text codes=() texts=()
    while IFS=$'\t' read -r j code text; do
        number_or '' j code
        [[ -z $j ]] || codes[j]=$code texts[j]=$text
    done <"$work/$i.pairs.out"
    for j in ${partners[i]}; do
        if [[ ${codes[j]:-} == 0 ]]; then works=$((works + 1)) && continue; fi
        verify_cause "${codes[j]:-124}" "${texts[j]//|/$'\n'}" "$j" "${host_name[i]}"
        fail_line "${host_name[i]} -> ${host_name[j]}" "$CAUSE" "$ADVICE"
    done
}
