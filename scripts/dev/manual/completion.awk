# SPDX-License-Identifier: MIT
# Input: the output of --help=tsv (SCOPE KIND …), then a template in which @TABLES@ is replaced.

# The completions of an option's value: words, @file, @dir.
function values(key, placeholder,    parts, n, i, list) {
    if (key ~ /(^|-)model$/) return models
    if (placeholder ~ /[:(]/) return ""
    n = split(placeholder, parts, "|")
    for (i = 1; i <= n; i++) {
        if (parts[i] ~ /^(FILE|PATH|TABLE|SRC)/) list = list " @file"
        else if (parts[i] ~ /^(DIR|DST|FOLDER)$/) list = list " @dir"
        else if (parts[i] !~ /[A-Z]/) list = list " " parts[i]
    }
    return list
}

# Whether the usage has arguments besides options.
function takes_files(line) {
    sub(/^.*dptrain /, "", line)
    sub(/  .*/, "", line)
    gsub(/\[[^]]*\]/, "", line)
    gsub(/--[a-z-]+ [^ ]+/, "", line)
    return line ~ /[A-Z]/
}

function row(table, key, value) { rows = rows "_dptrain_" table "[\"" key "\"]=\"" value "\"\n" }

FNR == NR && $2 == "version" { version = $3 }
FNR == NR && $2 == "command" { words["main"] = words["main"] " " $3 }
FNR == NR && $2 == "model" { models = models " " $3 }
FNR == NR && $1 != "" && !($1 in known) {
    known[$1] = 1
    scopes[++n_scopes] = $1
}
FNR == NR && $2 ~ /^(verb|word|case)$/ { words[$1] = words[$1] " " $3 }
FNR == NR && $2 == "case" { cases[$1] }
FNR == NR && $2 == "word" { shared[$1] }
# What may follow --help: topics, and verbs, which have a help of their own.
FNR == NR && ($2 == "topic" || $2 == "verb") { topics[$1] = topics[$1] " " $3 }
FNR == NR && $2 == "group" && !(($1, $4) in topic) {
    topic[$1, $4]
    topics[$1] = topics[$1] " " $4
}
FNR == NR && $2 == "usage" {
    if ($3 ~ /^usage:/) synopsis = 1
    if ($3 == "") synopsis = 0
    if (synopsis && takes_files($3)) files[$1] = 1
}
FNR == NR && $2 == "option" {
    options[$1] = options[$1] " --" $3
    if ($4 == "flag") negated[$1] = negated[$1] " --no-" $3
    if ($4 == "flag" && $6 == "true") options[$1] = options[$1] " --no-" $3
    if ($4 == "value") valued[++n_valued] = $1 SUBSEP "--" $3 SUBSEP $5
}
# A script's, with its dashes.
FNR == NR && $2 == "switch" {
    options[$1] = options[$1] " " $3
    files[$1] = 1
    if ($4 != "") valued[++n_valued] = $1 SUBSEP $3 SUBSEP $4
}
FNR == NR { next }

FNR == 1 {
    row("words", "main", words["main"])
    for (i = 1; i <= n_scopes; i++) {
        scope = scopes[i]
        row("words", scope, words[scope])
        row("options", scope, options[scope])
        row("negated", scope, negated[scope])
        if (topics[scope] != "") row("values", scope " --help", "=" topics[scope] " all")
        # More of the same words, files, or files after a verb.
        row("more", scope, (scope in cases) ? "words" : !(scope in files) || options[scope] == "" ? "" : \
            (scope in shared) ? "later" : "files")
    }
    for (i = 1; i <= n_valued; i++) {
        split(valued[i], part, SUBSEP)
        row("values", part[1] " " part[2], "=" values(part[2], part[3]))
    }
}
/^@TABLES@$/ { printf "%s", rows; next }
{ gsub(/@VERSION@/, version); print }
