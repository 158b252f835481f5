# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016,SC2154 # variables of attack.sh
# The page of a storm. Sourced by attack.sh.
#
# Columns of results.tsv: fault, kind, place, struck, outcome, ms until it was noticed, ms until training again, findings or ok,
# culprit named (yes, no, - where nothing has to be named), steps until a flipped bit was found or what replay says, parameters, message.
# Of jobs.tsv: job, place, ranks, model, shards, faults, code, own (yes: its fault leaves replicas equal), findings or ok.

# The rows go to --out as they come, so that a storm that is interrupted counts.
storm_record() {
    local file
    for file in results.tsv jobs.tsv; do
        : >"$out/$file"
        ln -sf "$out/$file" "$work/$file"
    done
    printf '%s\n' "$load" "$command" >"$out/about"
}

# Prints the page of several storms, and judges them. A job that was interrupted does not count.
storm_sum() { # DIR...
    local folder i=0 loads=() commands=() about
    for folder; do
        i=$((i + 1))
        [[ -s $folder/jobs.tsv && -s $folder/about ]] || die 2 "$folder: no storm has written here; run one with --storm --out $folder"
        awk -F '\t' -v OFS='\t' -v i="$i" -v jobs="$work/jobs.tsv" -v results="$work/results.tsv" '
            NR == FNR { ended[$1] = 1; $1 = i "." $1; print >>jobs; next }
            { job = $11; sub(/^job=/, "", job); sub(/ .*/, "", job) }
            job in ended { sub(/^job=/, "job=" i ".", $11); $1 = i "." $1; print >>results }' "$folder/jobs.tsv" "$folder/results.tsv"
        mapfile -t about <"$folder/about"
        loads+=("${about[0]}") commands+=("${about[1]}")
    done
    load=$(printf '%s; ' "${loads[@]}") load=${load%; }
    command=$(printf '%s; ' "${commands[@]}") command=${command%; }
    storm_page
    storm_verdict
}

# Prints, of a kind (empty: all that must be met): faults, struck, as expected, hangs, checkpoints, wrong, named, to name, found,
# to find, and seconds: noticed (median, slowest), training again (median, slowest).
storm_counts() { # KIND
    awk -F '\t' -v kind="$1" -v own=" ${storm_own[*]} " '
        function middle(values, n,   i, j, t) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && values[j] < values[j - 1]; j--) { t = values[j]; values[j] = values[j - 1]; values[j - 1] = t }
            return n ? sprintf("%.1f %.1f", values[int((n + 1) / 2)] / 1000, values[n] / 1000) : "- -"
        }
        kind != "" && $2 != kind { next }
        kind == "" && index(own, " " $2 " ") { next }
        { n++ }
        $4 != "yes" { next }
        { struck++ }
        $8 == "ok" { ok++ }
        $8 ~ /hang/ { hangs++ }
        $8 ~ /lost-checkpoint|accepted-corrupt|no-resume/ { ckpt++ }
        $8 ~ /wrong-/ { wrong++ }
        $9 == "yes" { named++ }
        $9 != "-" { to_name++ }
        $10 ~ /^-?[0-9]+$/ { to_find++; if ($8 !~ /late/) found++ }
        $10 == "none" { vanished++ }
        $6 != "-" { noticed[++n_noticed] = $6 }
        $7 != "-" { back[++n_back] = $7 }
        END { print n + 0, struck + 0, ok + 0, hangs + 0, ckpt + 0, wrong + 0, named + 0, to_name + 0, found + 0, to_find + 0, vanished + 0, middle(noticed, n_noticed), middle(back, n_back) }' \
        "$work/results.tsv"
}

storm_page_row() { # NAME EXPECTED COUNTS...
    local found=-
    ((${12} + ${13} == 0)) || found="${11} of ${12}"
    [[ ${13} -eq 0 ]] || found+=", ${13} vanished"
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" \
        "$([[ ${10} -eq 0 ]] && echo - || echo "$9 of ${10}")" "$found" "${14} (${15})" "${16} (${17})"
}

storm_page() {
    local name counts
    storm_page_head
    for name in $(printf '%s\n' "${!storm_expected[@]}" | sort); do
        read -ra counts < <(storm_counts "$name")
        [[ ${counts[0]} -eq 0 || " ${storm_own[*]} " == *" $name "* ]] || storm_page_row "$name" "${storm_expected[$name]}" "${counts[@]}"
    done
    read -ra counts < <(storm_counts "")
    storm_page_row '**all**' '' "${counts[@]}"
    storm_page_own
    storm_page_jobs
    storm_page_failures
    (cd "$root" && machine_table "$load" "$command")
}

storm_page_head() {
    cat <<END
# A storm

Jobs train under \`scripts/run.sh --restarts $storm_restarts\`, and each is struck several times: a checkpoint every $storm_every steps,
\`--check-replicas $storm_check --timeout $timeout_sec\` (hosts: $((2 * timeout_sec))), \`--reproducible 6\` or, on two ranks, without. Steps are slowed to about $storm_pace s, so that
faults find the job at work. \`tests/attack/attack.sh --help\` describes the run, \`tests/attack/storm/kinds\` the faults. A fault
counts if it struck.

| column | meaning |
|---|---|
| expected | resumes: the job starts again by itself and trains; ends with N: the job ends with this code, and goes on when the fault is mended and the job started by hand; goes on: nothing happens |
| ok | faults after which all of the other columns are as they should be |
| hangs | neither noticed nor ended $grace_sec s after the deadline, or no training $storm_start_sec s later |
| checkpoints | training went on from an older checkpoint than the newest good one, or from a damaged one |
| wrong | a step had another loss than in the undisturbed run |
| named | the messages name the rank, host, or file |
| found | flipped bits found by the comparison of replicas within K = $storm_check steps; vanished: rounded away, or padding |
| noticed s, again s | seconds from the fault to its first sign, and to the first new step: median (slowest) |

END
    printf '| fault | expected | faults | struck | ok | hangs | checkpoints | wrong | named | found | noticed s | again s |\n'
    printf '|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n'
}

# Faults that leave the replicas equal.
storm_page_own() {
    local name
    printf '\nCounted apart, a bit that flips in one rank before what it belongs to is summed or averaged over ranks: replicas stay equal, and the\n'
    printf 'comparison of replicas cannot find it; only `dptrain replay`, which computes the steps again, can. It is run a few steps later.\n\n'
    printf '| fault | faults | struck | wrong bits at the end | replay finds other bits | replay finds equal bits |\n|---|---:|---:|---:|---:|---:|\n'
    for name in "${storm_own[@]}"; do storm_page_own_row "$name"; done
}

# A flip that a sum has rounded away leaves equal bits.
storm_page_own_row() { # KIND
    awk -F '\t' -v kind="$1" '
        NR == FNR { if ($2 != kind) next; n++; if ($4 == "yes") { struck++; split($11, w, " "); job[substr(w[1], 5)] = 1 } replayed += $10 == "replayed"; equal += $10 == "equal"; next }
        ($1 in job) && $9 != "ok" { wrong++ }
        END { printf "| %s | %d | %d | %d | %d | %d |\n", kind, n, struck, wrong, replayed, equal }' "$work/results.tsv" "$work/jobs.tsv"
}

storm_page_jobs() {
    printf '\nJobs, compared at their ends with the undisturbed run: every weight and running statistic, bit for bit.\n\n'
    printf '| place | ranks | model | jobs | faults | same bits | other ends |\n|---|---:|---|---:|---:|---:|---:|\n'
    awk -F '\t' '$8 == "no" { key = $2 " | " $3 " | " $4 ($5 == 0 ? ", not `--reproducible`" : ""); n[key]++; faults[key] += $6; if ($9 == "ok") same[key]++ }
        END { for (key in n) printf "| %s | %d | %d | %d | %d |\n", key, n[key], faults[key], same[key], n[key] - same[key] }' "$work/jobs.tsv" | sort
    printf '\n'
}

storm_page_failures() {
    { awk -F '\t' '$4 == "yes" && $8 != "ok" { printf "| %s | %s | `%s` | %s | %s |\n", $2, $8, $11, $5, $12 }' "$work/results.tsv" | sort
        awk -F '\t' '$8 == "no" && $9 != "ok" { printf "| (end of job %s) | %s | | code %s | |\n", $1, $9, $7 }' "$work/jobs.tsv"; } >"$work/failed"
    [[ -s $work/failed ]] || return 0
    printf 'Not as expected; `tests/attack/attack.sh --storm --fault "KIND PARAMETERS"` repeats one:\n\n'
    printf '| fault | findings | parameters | outcome | message |\n|---|---|---|---|---|\n'
    cat "$work/failed"
    printf '\n'
}

# Exits with 1 if a bar is missed.
storm_verdict() {
    local counts other
    read -ra counts < <(storm_counts "")
    other=$(awk -F '\t' '$8 == "no" && $9 != "ok"' "$work/jobs.tsv" | wc -l)
    note "${counts[0]} faults, ${counts[1]} struck, ${counts[2]} as expected: ${counts[3]} hangs, ${counts[4]} checkpoints lost or wrongly taken, \
${counts[5]} wrong results, ${counts[6]} of ${counts[7]} culprits named, ${counts[8]} of ${counts[9]} flipped bits found in time; $other jobs with another end"
    ((counts[3] + counts[4] + counts[5] + other == 0 && counts[8] == counts[9] && 100 * counts[6] >= 95 * counts[7])) || exit 1
    # A storm that strikes nothing proves nothing.
    awk -F '\t' '$4 == "yes" { any = 1 } END { exit !any }' "$work/results.tsv" || exit 1
    # What is left are other codes.
    ((counts[2] >= counts[1] - (counts[7] - counts[6]))) || exit 1
}
