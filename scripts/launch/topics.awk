# SPDX-License-Identifier: MIT
# A part of a script's help: usage, a paragraph, Examples, and groups of options. A group begins with a heading, `Words, more words:`,
# whose first word, in lower case, is its topic, and ends with other text that is not indented. part=short: what is before the
# groups, and of their options those in `common`, as one list, and the topics. part=topics: these, one in a line. Otherwise the
# groups of the topic `part`.
function is_heading(line) { return line ~ /^[A-Z].*:$/ && line !~ /^Examples:$/ }
is_heading($0) {
    topic = tolower($0)
    sub(/[^a-z].*/, "", topic)
    if (!(topic in seen)) {
        seen[topic]
        topics = topics (topics == "" ? "" : ", ") topic
        if (part == "topics") print topic
    }
    if (topic == part && printed) print ""
}
/^[^ ].*[^:]$/ { topic = "" }
/^[^ ]/ || !NF { is_common = 0 }
/^Examples:$/ { examples = 1 }
part == "short" && !ended { print }
examples && !NF { ended = 1 }
topic == "" { next }
topic == part && NF { print; printed = 1 }
# An option; the lines below it go on with its description.
part == "short" && /^  -/ {
    is_common = 0
    for (i = 1; i <= NF && $i ~ /^-/; i++) {
        word = $i
        sub(/,$/, "", word)
        if (index(" " common " ", " " word " ") && !(word in taken)) is_common = taken[word] = 1
    }
}
part == "short" && is_common {
    if (!listed++) print "Options:"
    print
}
END { if (part == "short") printf "\nMore: %s --help all, or --help TOPIC: %s\n", name, topics }
