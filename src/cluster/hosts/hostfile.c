/* SPDX-License-Identifier: MIT */
/* Parses hostfiles and lists of hosts from text. Checks of the complete table are in parse.c, as they are the
 * same for all forms. */
#include <string.h>

#include "base/opt.h"
#include "cluster/hosts/hosts.h"
#include "cluster/hosts/parse.h"

/* The rest of a line. */
typedef struct words {
    const char *at, *end;
} words_t;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* False at the end of the line, and at a comment. */
static bool skip_blanks(words_t *w)
{
    while (w->at < w->end && is_blank(*w->at)) w->at++;
    return w->at < w->end && *w->at != '#';
}

/* Up to a blank, or to `stop`. */
static size_t take_word(words_t *w, char stop, const char **out)
{
    *out = w->at;
    while (w->at < w->end && !is_blank(*w->at) && *w->at != stop) w->at++;
    return (size_t)(w->at - *out);
}

static err_t unknown_key(const char *key, size_t n)
{
    static const char *const keys[] = {"slots", "max_slots"};
    quoted_t shown = hosts_quote(key, n);
    const char *nearest = opt_nearest(shown.text, keys, 2);
    if (nearest) RAISE(ERR_DATA, "unknown key '%s'; did you mean %s=N?", shown.text, nearest);
    RAISE(ERR_DATA, "unexpected '%s': expected NAME slots=N [max_slots=N]; # begins a comment", shown.text);
}

/* What a line or an entry says of its hosts; 0: nothing. */
typedef struct counts {
    int slots, max_slots;
} counts_t;

/* slots=N or max_slots=N, with blanks around = as OpenMPI allows. */
static err_t read_pair(words_t *w, counts_t *counts)
{
    const char *key, *value;
    size_t n = take_word(w, '=', &key);
    bool is_max = (n == 9 && (strncmp(key, "max_slots", n) == 0 || strncmp(key, "max-slots", n) == 0));
    if (!is_max && !(n == 5 && strncmp(key, "slots", n) == 0)) return unknown_key(key, n);
    if (!skip_blanks(w) || *w->at != '=')
        RAISE(ERR_DATA, "'%.*s' requires a number: %.*s=N", (int)n, key, (int)n, key);
    w->at++;
    skip_blanks(w);
    size_t n_value = take_word(w, '#', &value);
    int *field = is_max ? &counts->max_slots : &counts->slots;
    if (*field > 0) RAISE(ERR_DATA, "%.*s= is given twice", (int)n, key);
    if (!hosts_number(value, n_value, 1, HOSTS_MAX_SLOTS, field))
        RAISE(ERR_DATA, "invalid %.*s=%s: expected a whole number from 1 to %d", (int)n, key,
              hosts_quote(value, n_value).text, HOSTS_MAX_SLOTS);
    return ERR_OK;
}

/* Cuts USER@ off the front of a word. */
static err_t cut_user(hosts_t *hosts, hosts_word_t *word, const char **user)
{
    const char *at = word->n > 0 ? memrchr(word->at, '@', word->n) : NULL;
    if (!at) return ERR_OK;
    TRY(arena_text(&hosts->arena, word->at, (size_t)(at - word->at), user));
    TRY(hosts_check_user(*user, "user"));
    word->n -= (size_t)(at + 1 - word->at);
    word->at = at + 1;
    return ERR_OK;
}

/* Cuts HOST[:SLOTS] at the colon. IPv6 addresses are in brackets, or, without slots, bare if `bare_ipv6`. */
static err_t cut_slots(const char *text, size_t n, bool bare_ipv6, hosts_word_t *name, int *slots)
{
    quoted_t shown = hosts_quote(text, n);
    const char *end = text + n, *close = n > 0 ? memrchr(text, ']', n) : NULL;
    const char *colon = memchr(close ? close : text, ':', (size_t)(end - (close ? close : text)));
    *name = (hosts_word_t){text, colon ? (size_t)(colon - text) : n};
    if (n > 0 && text[0] == '[') {
        if (!close) RAISE(ERR_DATA, "'%s': missing ]", shown.text);
        if (close + 1 < end && close[1] != ':')
            RAISE(ERR_DATA, "invalid '%s': expected [ADDRESS]:SLOTS", shown.text);
        *name = (hosts_word_t){text + 1, (size_t)(close - text - 1)};
        if (!memchr(name->at, ':', name->n))
            RAISE(ERR_DATA, "'%s': brackets are for IPv6 addresses, and for numbers after a name: node[1-4]",
                  shown.text);
    } else if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
        if (!bare_ipv6)
            RAISE(ERR_DATA, "'%s' has several colons; put an IPv6 address in brackets: [fe80::1]:4",
                  shown.text);
        colon = NULL;
        name->n = n;
    }
    if (colon && !hosts_number(colon + 1, (size_t)(end - colon - 1), 1, HOSTS_MAX_SLOTS, slots))
        RAISE(ERR_DATA, "invalid '%s': expected a number of slots from 1 to %d", shown.text, HOSTS_MAX_SLOTS);
    return ERR_OK;
}

/* Adds the hosts of a line or an entry. */
static err_t add_hosts(hosts_t *hosts, hosts_word_t name, const char *user, counts_t counts, int line)
{
    int first = hosts->n;
    if (counts.max_slots > 0 && counts.max_slots < counts.slots)
        RAISE(ERR_DATA, "max_slots=%d is less than slots=%d", counts.max_slots, counts.slots);
    if (!counts.slots) counts.slots = counts.max_slots;
    TRY(hosts_add_range(hosts, name, line));
    for (int i = first; i < hosts->n; i++) {
        hosts->at[i].user = user;
        hosts->at[i].slots = counts.slots;
        hosts->at[i].max_slots = counts.max_slots;
    }
    return ERR_OK;
}

static err_t read_line(hosts_t *hosts, words_t w, int line)
{
    const char *user = NULL;
    hosts_word_t word, name;
    counts_t counts = {0};
    if (!skip_blanks(&w)) return ERR_OK;
    word.n = take_word(&w, '=', &word.at);
    if (w.at < w.end && *w.at == '=') RAISE(ERR_DATA, "missing host name: expected NAME slots=N");
    TRY(cut_user(hosts, &word, &user));
    TRY(cut_slots(word.at, word.n, true, &name, &counts.slots));
    while (skip_blanks(&w)) TRY(read_pair(&w, &counts));
    return add_hosts(hosts, name, user, counts, line);
}

err_t hosts_read_hostfile(const char *text, const char *name, hosts_t *out)
{
    err_t err = ERR_OK;
    *out = (hosts_t){0};
    TRY_OUT(err, arena_text(&out->arena, name, strlen(name), &out->source));
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3; /* the byte order mark that some editors write */
    for (int line = 1; *text; line++) {
        size_t n = strcspn(text, "\n");
        TRY_OUT(err, hosts_at_line(read_line(out, (words_t){text, text + n}, line), out, line));
        text += n + (text[n] == '\n');
    }
    TRY_OUT(err, hosts_add_up(out));
    err = hosts_complete(out);
out:
    if (err != ERR_OK) hosts_free(out);
    return err;
}

/* Up to a comma that is not in brackets. */
static size_t entry_length(const char *text)
{
    size_t n = 0;
    for (bool inside = false; text[n] && (inside || text[n] != ','); n++)
        inside = text[n] == '[' || (inside && text[n] != ']');
    return n;
}

static err_t read_entry(hosts_t *hosts, const char *text, size_t n, int place)
{
    const char *user = NULL;
    hosts_word_t word = {text, n}, name;
    counts_t counts = {.slots = 1};
    TRY(cut_user(hosts, &word, &user));
    TRY(cut_slots(word.at, word.n, false, &name, &counts.slots));
    return add_hosts(hosts, name, user, counts, place);
}

err_t hosts_read_list(const char *text, hosts_t *out)
{
    err_t err = ERR_OK;
    *out = (hosts_t){.source = "the list of hosts", .is_list = true};
    for (int place = 1;; place++) {
        size_t n = entry_length(text);
        TRY_OUT(err, hosts_at_line(read_entry(out, text, n, place), out, place));
        if (!text[n]) break;
        text += n + 1;
    }
    TRY_OUT(err, hosts_add_up(out));
    err = hosts_complete(out);
out:
    if (err != ERR_OK) hosts_free(out);
    return err;
}
