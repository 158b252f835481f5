# SPDX-License-Identifier: MIT
# Prints a script's help, which lib.sh pipes in, or finds an option in it.
#
#   word=--option  the option that is nearest to it, by the rule of opt_nearest (src/text/opt.c); nothing if none is near
#   part=topics    the topics. A group of options begins with a heading, `Words, more words:`, whose first word, in lower case,
#                  is its topic, and ends with other text that is not indented
#   part=TOPIC     the groups of this topic
#   part=short     what precedes the groups, of their options those in `common`, and the topics; `name` is the script's
#   width=N        wrapped. An entry is a paragraph, or an option with its description: its lines are joined, and further lines
#                  begin below the first word of the description. Lines of usage and examples stay as they are
#   commands=1     with the names of dptrain's commands instead of those of the scripts

function distance(a, b,   row, i, j, diagonal, best) {
    for (j = 0; j <= length(b); j++) row[j] = j
    for (i = 1; i <= length(a); i++) {
        diagonal = row[0]
        row[0] = i
        for (j = 1; j <= length(b); j++) {
            best = diagonal + (substr(a, i, 1) != substr(b, j, 1))
            if (row[j] + 1 < best) best = row[j] + 1
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1
            diagonal = row[j]
            row[j] = best
        }
    }
    return row[length(b)]
}

function compare(option,   name, d) {
    name = option
    sub(/^-*/, "", name)
    d = distance(word, name)
    if (d < near) { near = d; nearest = option }
    # One with parts added is the other: --batch-size and --batch.
    if (d < far && (index(word "-", name "-") == 1 || index(name "-", word "-") == 1)) { far = d; longer = option }
}

function put(line) {
    if (commands) {
        gsub(/scripts\/run\.sh/, "dptrain run", line)
        gsub(/scripts\/regress\.sh/, "dptrain regress", line)
        gsub(/scripts\/setup_ssh\.sh/, "dptrain ssh-setup", line)
        gsub(/scripts\/cluster_health\.sh/, "dptrain health", line)
        gsub(/scripts\/nccl_bw\.sh/, "dptrain nccl-bw", line)
    }
    print line
}

# Prints the entry that head and text hold.
function flush(   n, words, i, line) {
    if (text == "") return
    n = split(text, words, " ")
    line = head
    for (i = 1; i <= n; i++) {
        if (line ~ /[^ ]$/ && length(line) >= hang && length(line) + 1 + length(words[i]) > width) {
            put(line)
            line = ""
        }
        if (length(line) < hang && !(i == 1 && head ~ /^ +$/)) line = line sprintf("%" (hang - length(line)) "s", "")
        line = line (line ~ /[^ ]$/ ? " " : "") words[i]
    }
    put(line)
    text = head = ""
}

# Sets head to the first n characters of the line, without blanks at the end, and text to the others.
function cut(line, n) {
    hang = n
    head = substr(line, 1, n)
    sub(/ +$/, "", head)
    text = substr(line, n + 1)
}

function wrap(line,   indent) {
    if (line ~ /^Examples:/) verbatim = 1
    if (line ~ /^ *$/) verbatim = 0
    if (verbatim || line ~ /^(usage:| +scripts\/| *$)/ || (line ~ /:$/ && length(line) <= width)) {
        flush()
        column = 0
        put(line)
        return
    }
    match(line, /^ */)
    indent = RLENGTH
    if (text != "" && (indent == hang || indent == column) && line !~ /^ *-/) {
        text = text " " substr(line, indent + 1)
        return
    }
    flush()
    hang = indent
    text = substr(line, indent + 1)
    # An option or a word, two blanks, and what it means.
    if (line ~ /^ +(-|[a-z]+  )/ && match(text, /   *[^ ]/)) {
        cut(line, indent + RSTART + RLENGTH - 2)
        if (length(head) > width - 10) {
            text = substr(head, indent + 1) " " text
            head = sprintf("%" indent "s", "")
            hang = indent + 2
        }
        # Longer than the column of descriptions.
        if (column && hang > column) {
            head = head "  "
            hang = column
        }
        if (head ~ /[^ ]/) column = hang
    } else if (match(text, /^[0-9]+\. /)) cut(line, indent + RLENGTH)
}

function show(line) { if (width) wrap(line); else put(line) }

BEGIN {
    finds = word != ""
    sub(/=.*/, "", word)
    sub(/^-*/, "", word)
    near = int(length(word) / 3) + 2 # anything farther is not a typing error
    if (near > 3) near = 3
    far = 1000
}
finds {
    if (/^ +-/) for (i = 1; i <= NF; i++) if (match($i, /^--?[a-z][a-z0-9-]*/)) compare(substr($i, 1, RLENGTH))
    next
}
part == "" { show($0); next }
/^[A-Z].*:$/ && !/^Examples:$/ {
    topic = tolower($0)
    sub(/[^a-z].*/, "", topic)
    if (!(topic in seen)) {
        seen[topic]
        topics = topics (topics == "" ? "" : ", ") topic
        if (part == "topics") print topic
    }
    if (topic == part && shown) show("")
}
/^[^ ].*[^:]$/ { topic = "" }
/^[^ ]/ || !NF { is_common = 0 }
/^Examples:$/ { examples = 1 }
part == "short" && !ended { show($0) }
examples && !NF { ended = 1 }
topic == "" { next }
topic == part && NF { show($0); shown = 1 }
# An option; the lines below it go on with its description.
part == "short" && /^  -/ {
    is_common = 0
    for (i = 1; i <= NF && $i ~ /^-/; i++) {
        option = $i
        sub(/,$/, "", option)
        if (index(" " common " ", " " option " ") && !(option in taken)) is_common = taken[option] = 1
    }
}
part == "short" && is_common {
    if (!listed++) show("Options:")
    show($0)
}
END {
    if (finds) print nearest ? nearest : longer
    if (part == "short") { show(""); show("More: " name " --help all, or --help TOPIC: " topics) }
    flush()
}
