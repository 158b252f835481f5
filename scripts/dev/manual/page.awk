# SPDX-License-Identifier: MIT
# Input: the output of --help=tsv (SCOPE KIND …), then a template in which @VERSION@, @COMMANDS@, @EXAMPLES@,
# @NAME@ and @SUMMARY@ are replaced; the last two are those of the command `only`.

function escaped(text) {
    gsub(/…/, "...", text)
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/`/, "\\(ga", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    return text
}

# Text in roff, with bold options.
function prose(text) {
    text = escaped(text)
    gsub(/\\-\\-[a-z][a-z0-9]*(\\-[a-z0-9]+)*/, "\\fB&\\fR", text)
    return text ~ /^[.']/ ? "\\&" text : text
}

# A command line: words bold, placeholders italic, brackets plain.
function typed(text) {
    gsub(/…/, "...", text)
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/[A-Z][A-Z0-9]*/, "\\fI&\\fB", text)
    gsub(/\[options\]/, "[\\fIoptions\\fB]", text)
    gsub(/[][|]+|\.\.\./, "\\fR&\\fB", text)
    return "\\fB" text "\\fR"
}

function sentence(text) { return prose(toupper(substr(text, 1, 1)) substr(text, 2) ".") }

function out(line) { page = page line "\n" }

function heading(scope) {
    out(".SS dptrain " scope)
    synopsis = 1
    listed = 0
}

# A command line with its description, if there is one.
function end_typed(what) {
    if (pending == "") return
    out(what == "" ? ".PP" : ".TP")
    out(typed(pending))
    if (what != "") out(prose(what))
    pending = ""
}

# Lines of the usage: first the command line, then text.
function usage_line(line,    at) {
    sub(/^usage: /, "       ", line)
    if (synopsis && line ~ /^       [^ ]/) {
        end_typed("")
        sub(/^ +/, "", line)
        at = match(line, /  +[^ ]/)
        pending = at ? substr(line, 1, at - 1) : line
        if (at) end_typed(substr(line, at + RLENGTH - 1))
        return
    }
    if (pending != "" && line ~ /^   +/) {
        sub(/^ +/, "", line)
        end_typed(line)
        return
    }
    end_typed("")
    if (line == "") {
        synopsis = 0
        paragraph = ".PP"
        return
    }
    if (line ~ /^   +/) { # goes on with the line above
        sub(/^ +/, "", line)
        out(prose(line))
    } else if (line ~ /^  / && match(substr(line, 3), /  +/)) {
        at = RSTART + 2
        out(".TP")
        out(".B " prose(substr(line, 3, at - 3)))
        out(prose(substr(line, at + RLENGTH)))
        listed = 1
    } else if (line ~ /^  /) {
        out(".PP")
        out(".RS 4")
        out(prose(substr(line, 3)))
        out(".RE")
        listed = 1
    } else {
        if (paragraph || listed) out(".PP")
        out(prose(line))
        listed = 0
    }
    paragraph = ""
}

function option(    left, right) {
    left = $4 == "flag" ? "" : " \\fI" prose($5) "\\fR"
    right = $4 == "value" && $6 != "" ? " [" $6 "]" : ""
    # A switch that is on by default, unless its help says so.
    if ($4 == "flag" && $6 == "true" && !index($7, "--no-")) right = " [on; --no-" $3 " turns it off]"
    return ".TP\n" prose("--" $3) left "\n" prose($7 right) "\n"
}

function example(what, command) {
    what = prose(toupper(substr(what, 1, 1)) substr(what, 2))
    return ".PP\n" what (what ~ /[?.]$/ ? "" : ":") "\n.PP\n.nf\n.RS 4\n" escaped(command) "\n.RE\n.fi\n"
}

# Prints a group once; later identical groups refer to it.
function end_group() {
    if (options == "") return
    out(".PP")
    if (options in shown) out("\\fB" group "\\fR: as of dptrain " shown[options] ".")
    else {
        out("\\fB" group "\\fR")
        page = page options
        shown[options] = scope
    }
    options = ""
}

FNR == NR {
    if ($2 == "version") version = $3
    if ($2 == "command") summary[$3] = $4
    if ($2 == "verb") summary[$1 " " $3] = $4
    if ($1 == "") next
    if ($1 != scope) {
        end_group()
        scope = $1
        heading(scope)
        said = 0
    }
    if ($2 == "usage") {
        if ($3 !~ /^(usage:|  |$)/) said = 1
        usage_line($3)
    }
    if ($2 == "group") {
        end_typed("")
        end_group()
        # The table's words, where the usage has none.
        if (!said) out(".PP\n" sentence(summary[scope]))
        said = 1
        group = $3
    }
    if ($2 == "option") options = options option()
    if ($2 == "example") examples = examples example($3, $4)
    next
}

FNR == 1 { end_group() }
/^@COMMANDS@$/ { printf "%s", page; next }
/^@EXAMPLES@$/ { printf "%s", examples; next }
{
    gsub(/@VERSION@/, version)
    gsub(/@NAME@/, prose(only))
    gsub(/@TITLE@/, prose(toupper(only)))
    if (/@SUMMARY@/) sub(/@SUMMARY@/, prose(summary[only]))
    print
}
