# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # variables of aws.sh
# Lets ParallelCluster judge a configuration. Sourced by aws.sh.

aws_check() {
    ask_region
    ask_name
    check_config
    note "$file: ParallelCluster would create the cluster $name in $region"
}

# Runs pcluster; its answer, a JSON document, is in $work/answer. It keeps a log of its own in ~/.parallelcluster.
pcluster_call() { # ARGUMENTS...
    timeout --foreground 600 pcluster "$@" --region "$region" >"$work/answer" 2>"$work/error" </dev/null
}

# Prints LEVEL, TYPE and MESSAGE of each finding, from the answer's lines.
findings() {
    awk '
        function value(line) {
            sub(/^[^:]*: "/, "", line); sub(/",?$/, "", line)
            gsub(/\\n/, " ", line); gsub(/\\"/, "\"", line); gsub(/\\\\/, "\\", line)
            return line
        }
        /^ *"level":/ { level = value($0) }
        /^ *"type":/ { type = value($0) }
        /^      "message":/ { printf "%s\t%s\t%s\n", level, type, value($0) }' "$work/answer" | hide
}

# The message of the answer as a whole.
answer_message() {
    sed -nE 's/^  "message": "(.*)",?$/\1/p' "$work/answer" | sed 's/\\"/"/g; s/\\n/ /g' | hide | head -n 1
}

# Ends with 1 if there are errors, which are printed as ours; warnings and notes are printed too. Sets suppressed.
check_config() {
    local level kind text message bad=0 lost
    suppressed=()
    if ((${#suppress[@]} > 0)); then suppressed=(--suppress-validators "${suppress[@]/#/type:}"); fi
    pcluster_call create-cluster --cluster-name "$name" --cluster-configuration "$file" --dryrun true "${suppressed[@]}" || true
    message=$(answer_message)
    while IFS=$'\t' read -r level kind text; do
        [[ -n $level ]] || continue
        if [[ $level == ERROR ]]; then bad=$((bad + 1)); fi
        note "${level,,}: $text ($kind)"
    done < <(findings)
    ((bad == 0)) || die 1 "ParallelCluster refuses $file: $bad errors"
    case $message in
    *'would have succeeded'*) ;;
    '')
        lost=$(hide <"$work/error" | tail -n 3 | tr '\n' ' ')
        die 4 "pcluster gave no answer: $lost" ;;
    *) die 1 "ParallelCluster refuses $file: $message" ;;
    esac
}
