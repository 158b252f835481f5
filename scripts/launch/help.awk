# SPDX-License-Identifier: MIT
# Wraps a script's help at `width` columns. An entry is a paragraph, or an option with its description; its lines are joined, and
# further lines begin below the first word of the description. Lines of usage and examples stay as they are.
function flush(   n, words, i, line, at) {
    if (text == "") return
    n = split(text, words, " ")
    line = head
    at = length(head) > hang ? length(head) : hang
    for (i = 1; i <= n; i++) {
        if (line ~ /[^ ]$/ && length(line) >= hang && length(line) + 1 + length(words[i]) > width) {
            print line
            line = ""
        }
        if (length(line) < hang && !(i == 1 && head ~ /^ +$/)) line = line sprintf("%" (hang - length(line)) "s", "")
        line = line (line ~ /[^ ]$/ ? " " : "") words[i]
    }
    print line
    text = head = ""
}
/^Examples:/ { verbatim = 1 }
/^ *$/ { verbatim = 0 }
/^(usage:| +scripts\/)/ || verbatim || /^ *$/ || (/:$/ && length($0) <= width) { flush(); column = 0; print; next }
{
    match($0, /^ */)
    indent = RLENGTH
    if (text != "" && (indent == hang || indent == column) && !match($0, /^ *-/)) {
        text = text " " substr($0, indent + 1)
        next
    }
    flush()
    hang = indent
    text = substr($0, indent + 1)
    # An option or a word, two blanks, and what it means.
    if (match($0, /^ +(-|[a-z]+  )/) && match(text, /   *[^ ]/)) {
        hang = indent + RSTART + RLENGTH - 2
        head = substr($0, 1, hang)
        sub(/ +$/, "", head)
        text = substr($0, hang + 1)
        if (length(head) > width - 10) {
            text = head " " text
            head = ""
            hang = indent + 2
            text = substr(text, indent + 1)
            head = sprintf("%" indent "s", "")
        }
        # Longer than the column of descriptions.
        if (column && hang > column) {
            head = head "  "
            hang = column
        }
        if (head ~ /[^ ]/) column = hang
    } else if (match(text, /^[0-9]+\. /)) {
        hang = indent + RLENGTH
        head = substr($0, 1, hang)
        sub(/ +$/, "", head)
        text = substr($0, hang + 1)
    }
}
END { flush() }
