# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2013,SC2016,SC2154 # variables of attack.sh
# The table of results: what each kind of fault did. Sourced by attack.sh.
#
# Columns of results.tsv: fault, kind, struck, exit code, ms since the last progress, findings or ok, culprit named (yes, no,
# - where nothing has to be named), parameters, message.

# Prints faults, struck, hangs, lost checkpoints, lost records, wrong results, replica, other, named, to name, and the
# slowest end in seconds.
page_counts() { # KIND, or empty for all
    awk -F '\t' -v kind="$1" '
        kind != "" && $2 != kind { next }
        { n++ }
        $3 != "yes" { next }
        { struck++; if ($6 !~ /hang-/ && $5 > slowest) slowest = $5 }
        $6 ~ /hang-|no-end/ { hangs++ }
        $6 ~ /lost-checkpoint|no-last-checkpoint|false-success|stale-checkpoint|no-resume/ { ckpt++ }
        $6 ~ /-records/ { records++ }
        $6 ~ /wrong-bits|wrong-weights|two-owners/ { wrong++ }
        $6 ~ /replica-bits/ { replica++ }
        $6 ~ /code-|silent/ { other++ }
        $7 == "yes" { named++ }
        $7 != "-" { to_name++ }
        END { print n + 0, struck + 0, hangs + 0, ckpt + 0, records + 0, wrong + 0, replica + 0, other + 0, named + 0, to_name + 0, int(slowest / 1000 + 0.5) }' \
        "$work/results.tsv"
}

page_row() { # NAME COUNTS...
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "${@:1:9}" "${10} of ${11}" "${12}"
}

page_head() {
    cat <<END
# Jobs under attack

Each fault breaks one training job: LeNet-5 on 256 digits, $n_steps steps, a checkpoint every $every steps, \`--timeout $timeout_sec\`,
\`--reproducible 12\`, by \`scripts/run.sh\` or bare \`mpirun\`. \`tests/attack/attack.sh --help\` describes the run, \`tests/attack/\` the kinds.
A fault counts if it struck.

| column | counts faults after which |
|---|---|
| hangs | a rank or a process of the job was alive $grace_sec s after the deadline, counted from the last progress, or the launcher $launcher_sec s after its last rank |
| checkpoints | an announced checkpoint was gone, \`--resume auto\` failed, or code 0 came without the last checkpoint |
| records | steps were missing in metrics.jsonl, or lines torn |
| wrong | the run, or its continuation, had other bits than the undisturbed run, and did not say so |
| replica | the same, where only comparing replicas can show it: a result of MPI flipped on one rank |
| code | the exit code was not the documented one, or the end was silent |
| named | a message named the rank, file or program that failed, of those faults that have one |
| slowest s | seconds from the last progress to the end of the job; hangs left out |
END
}

page_write() {
    local name counts
    if [[ $hosts == yes ]]; then
        printf '## On three hosts\n\nHosts are kernel namespaces (`tests/cluster`): one rank on each (3x1), or two on each of two (2x2).\n'
    else
        page_head
    fi
    cat <<'END'

| kind | faults | struck | hangs | checkpoints | records | wrong | replica | code | named | slowest s |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
END
    for name in $(cut -f 2 "$work/results.tsv" | sort -u); do
        read -ra counts < <(page_counts "$name")
        page_row "$name" "${counts[@]}"
    done
    read -ra counts < <(page_counts "")
    page_row "**all**" "${counts[@]}"
    printf '\n'
    page_failures
    (cd "$root" && machine_table "$load" "$command")
}

# One fault of each failing class, to run again.
page_failures() {
    awk -F '\t' '$3 == "yes" && $6 != "ok" && $6 != "replica-bits"' "$work/results.tsv" | sort -t $'\t' -k 2,2 -k 6,6 -k 1,1n >"$work/failed"
    [[ -s $work/failed ]] || return 0
    printf 'Failures by kind and finding, with one fault of each, to repeat by `tests/attack/attack.sh%s --fault "KIND PARAMETERS"`:\n\n' \
        "$([[ $hosts == no ]] || echo ' --hosts')"
    printf '| kind | findings | faults | parameters | code | message |\n|---|---|---:|---|---:|---|\n'
    awk -F '\t' '
        function flush() { if (n) printf "| %s | %s | %d | `%s` | %s | %s |\n", kind, found, n, params, code, text }
        $2 "\t" $6 != key { flush(); key = $2 "\t" $6; kind = $2; found = $6; n = 0; code = $4; params = $8; text = $9 }
        { n++ }
        END { flush() }' "$work/failed"
    printf '\n'
}

# Exits with 1 if a bar is missed.
page_verdict() {
    local counts
    read -ra counts < <(page_counts "")
    note "${counts[0]} faults, ${counts[1]} struck: ${counts[2]} hangs, ${counts[3]} lost checkpoints, ${counts[4]} lost records, ${counts[5]} wrong results (and ${counts[6]} of one replica), ${counts[7]} other codes, ${counts[8]} of ${counts[9]} culprits named"
    ((counts[2] + counts[3] + counts[4] + counts[5] + counts[7] == 0 && 100 * counts[8] >= 95 * counts[9])) || exit 1
}
