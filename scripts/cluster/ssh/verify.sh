# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # work, timeout and the like are the caller's
# Tests the login between every two hosts. Sourced by setup_ssh.sh.

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

verify_from() { # INDEX
    local i=$1 n=${#healthy[@]} j targets=() addresses=("${host_name[@]}") try
    for ((j = 1; j <= n; j++)); do
        targets+=("${healthy[(rank_of[i] + j) % n]}")
    done
    unset "targets[n - 1]" # itself
    remote_script "timeout targets addresses" verify_targets >"$work/$i.probe"
    for try in 1 2 3; do
        host_ask "$work/$i.probe" "$work/$i.pairs" $(((timeout + 6) * (2 + n / 4))) \
            ssh -T -x -o BatchMode=yes -o ConnectTimeout="$timeout" "${host_name[i]}" 'bash -s'
        grep -qE 'closed by remote|reset by peer' "$work/$i.pairs.err" || break
        sleep "$try"
    done
}

# As ssh_cause, but adds what the installation found on the host that rejects the login.
verify_cause() { # CODE TEXT TO FROM
    local file
    ssh_cause "$1" "$2" "${host_name[$3]}" "${host_port[$3]}" "$4"
    if [[ $CAUSE == prompt* ]] && file=$(grep -s '^writable' "$work/$3.out"); then
        file=$(cut -f 2 <<<"$file" | tr '\n' ' ')
        CAUSE="bad permission: sshd rejects the key because others can write ${file% }"
        ADVICE="on ${host_name[$3]}: chmod go-w ${file% }"
    fi
}

# Tests the logins between healthy hosts, and from this machine to each.
verify_all() {
    local i j n=${#host_name[@]} code text works=0
    rank_of=()
    for i in "${!healthy[@]}"; do rank_of[healthy[i]]=$i; done
    hosts_each verify_from "${healthy[@]}"
    for i in "${healthy[@]}"; do
        code=$(cat "$work/$i.pairs.code")
        if [[ $code -eq 0 ]]; then
            works=$((works + 1))
        elif [[ ! -s $work/$i.pairs.out ]]; then
            verify_cause "$code" "$(<"$work/$i.pairs.err")" "$i" "$(hostname)"
            fail_line "here -> ${host_name[i]}" "$CAUSE; logins from there were not tested" "$ADVICE"
        fi
    done
    for i in "${healthy[@]}"; do
        # No results from a host that was not reached.
        [[ -s $work/$i.pairs.out ]] || continue
        for j in "${healthy[@]}"; do
            if [[ $i == "$j" ]]; then continue; fi
            code=124 text=''
            IFS=$'\t' read -r _ code text < <(grep "^$j"$'\t' "$work/$i.pairs.out") || true
            if [[ $code -eq 0 ]]; then
                works=$((works + 1))
            else
                verify_cause "$code" "$(tr '|' '\n' <<<"$text")" "$j" "${host_name[i]}"
                fail_line "${host_name[i]} -> ${host_name[j]}" "$CAUSE" "$ADVICE"
            fi
        done
    done
    # n from here, and n - 1 from each host.
    printf '%d of %d logins work, from here and between %d hosts\n' "$works" $((n * n)) "$n"
}
