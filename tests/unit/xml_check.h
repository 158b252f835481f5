/* SPDX-License-Identifier: MIT */
/* Whether a text is well-formed XML, as far as what we write goes: no namespaces, comments or sections of
 * CDATA. */
#ifndef TESTS_UNIT_XML_CHECK_H
#define TESTS_UNIT_XML_CHECK_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool fail_at(const char *what, const char *at)
{
    printf("# %s: %.60s\n", what, at);
    return false;
}

/* &amp; and the like, and no other &. */
static inline bool is_reference(const char *at)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (int i = 0; i < 5; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0) return true;
    return false;
}

/* name="value" pairs up to > or />. *end: behind it; *closed: it was />. */
static inline bool parse_attributes(const char *at, const char **end, bool *closed)
{
    for (;;) {
        while (*at == ' ' || *at == '\n') at++;
        *closed = *at == '/';
        if (*closed) at++;
        *end = at + 1;
        if (*at == '>') return true;
        if (*closed || !isalpha((unsigned char)*at)) return fail_at("no attribute", at);
        while (isalnum((unsigned char)*at) || *at == '-') at++;
        if (at[0] != '=' || at[1] != '"') return fail_at("no value", at);
        for (at += 2; *at != '"'; at++)
            if (!*at || *at == '<' || (*at == '&' && !is_reference(at)))
                return fail_at("no end of a value", at);
        at++;
    }
}

/* One element and nothing else. */
static inline bool is_well_formed(const char *at)
{
    char open[16][16];
    int depth = 0, n_roots = 0;
    while (*at) {
        if (*at == '&' && !is_reference(at)) return fail_at("a bare &", at);
        if (*at != '<') {
            if (depth == 0 && !isspace((unsigned char)*at)) return fail_at("text outside", at);
            at++;
            continue;
        }
        bool is_end = at[1] == '/', closed;
        const char *name = at + 1 + is_end;
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz123");
        if (n == 0 || n >= sizeof open[0]) return fail_at("no name", at);
        if (is_end) {
            if (depth == 0 || strncmp(open[depth - 1], name, n) != 0 || open[depth - 1][n] || name[n] != '>')
                return fail_at("another end", at);
            depth--;
            at = name + n + 1;
            continue;
        }
        if (depth == 16) return fail_at("too deep", at);
        snprintf(open[depth], sizeof open[0], "%.*s", (int)n, name);
        n_roots += depth == 0;
        if (!parse_attributes(name + n, &at, &closed)) return false;
        depth += !closed;
    }
    return depth == 0 && n_roots == 1 ? true : fail_at("unfinished", "");
}

#endif
