/* SPDX-License-Identifier: MIT */
/* Parses hostfiles and lists of hosts from text: also Slurm's ranges node[1-4], and several lines for the same host, as PBS
 * and LSF write them. Checks of the complete table are in table.c, as they are the same for all forms. */
#include <string.h>

#include "base/mem.h"
#include "cluster/hosts/hosts.h"
#include "cluster/hosts/table.h"
#include "text/opt.h"

/* A part of a text. */
typedef struct hosts_word {
    const char *at;
    size_t n;
} hosts_word_t;

/* ---- Hosts in numbers ---- */
/* A name that is being put together. */
typedef struct range {
    hosts_t *hosts;
    int line;
    char name[HOST_KEY_MAX];
} range_t;

static err_t raise_range(const char *text, size_t n)
{
    RAISE(ERR_DATA, "invalid '%s': expected numbers in brackets, such as node[1-4] or node[01-04,7]",
          hosts_quote(text, n).text);
}

static err_t append_text(range_t *r, size_t used, const char *text, size_t n)
{
    if (used + n >= sizeof r->name)
        RAISE(ERR_DATA, "the host name '%s' is longer than 253 characters", hosts_quote(text, n).text);
    memcpy(r->name + used, text, n);
    r->name[used + n] = '\0';
    return ERR_OK;
}

static err_t add_rest(range_t *r, size_t used, const char *rest, size_t n);

/* FIRST[-LAST], with as many digits as FIRST has, each followed by `rest`. */
static err_t add_numbers(range_t *r, size_t used, hosts_word_t numbers, hosts_word_t rest)
{
    int first, last;
    char digits[16];
    const char *dash = memchr(numbers.at, '-', numbers.n);
    size_t n_first = dash ? (size_t)(dash - numbers.at) : numbers.n;
    if (!hosts_number(numbers.at, n_first, 0, 999999999, &first)) return raise_range(numbers.at, numbers.n);
    last = first;
    if (dash && !hosts_number(dash + 1, numbers.n - n_first - 1, first, 999999999, &last))
        return raise_range(numbers.at, numbers.n);
    for (int i = first; i <= last; i++) {
        int n = snprintf(digits, sizeof digits, "%0*d", (int)n_first, i);
        TRY(append_text(r, used, digits, (size_t)n));
        TRY(add_rest(r, used + (size_t)n, rest.at, rest.n));
    }
    return ERR_OK;
}

/* Recursive: a name may have several brackets, and at most 253 characters. */
static err_t add_rest(range_t *r, size_t used, const char *rest, size_t n)
{
    host_t *host;
    const char *open = memchr(rest, '[', n), *close = memchr(rest, ']', n), *end = rest + n;
    if (!open && !close) {
        TRY(append_text(r, used, rest, n));
        return hosts_add(r->hosts, r->name, used + n, r->line, &host);
    }
    if (!open || !close || close < open) return raise_range(rest, n);
    TRY(append_text(r, used, rest, (size_t)(open - rest)));
    used += (size_t)(open - rest);
    for (const char *at = open + 1;; at++) {
        const char *comma = memchr(at, ',', (size_t)(close - at));
        hosts_word_t numbers = {at, (size_t)((comma ? comma : close) - at)};
        TRY(add_numbers(r, used, numbers, (hosts_word_t){close + 1, (size_t)(end - close - 1)}));
        if (!comma) return ERR_OK;
        at = comma;
    }
}

/* A line without slots is one slot. */
static err_t merge(const hosts_t *hosts, host_t *first, host_t *again)
{
    if (first->user && again->user && strcmp(first->user, again->user) != 0)
        return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "%s has two users: %s in %s %d, and %s",
                                       again->address, hosts_quote(first->user, strlen(first->user)).text,
                                       hosts->is_list ? "entry" : "line", first->line,
                                       hosts_quote(again->user, strlen(again->user)).text),
                             hosts, again->line);
    if (!first->user) first->user = again->user;
    if (!first->slots) first->slots = 1;
    first->slots += again->slots ? again->slots : 1;
    first->max_slots = first->max_slots && again->max_slots ? first->max_slots + again->max_slots : 0;
    again->key = NULL;
    if (first->slots <= HOSTS_MAX_SLOTS) return ERR_OK;
    return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "%s has more than %d slots in total",
                                   again->address, HOSTS_MAX_SLOTS),
                         hosts, again->line);
}

/* Makes one host of all lines with the same address: their slots add up. Among several, a line without slots
 * counts as one slot, and so then does every other such line of the text. ERR_DATA with the position: too
 * many. */
static err_t add_up(hosts_t *hosts)
{
    host_t **sorted;
    bool counts_lines = false; /* whether some line without slots is that of a host with several */
    int n = 0;
    if (hosts->n == 0) return ERR_OK;
    TRY(hosts_sort(hosts, &sorted));
    err_t err = ERR_OK;
    for (int i = 1, first = 0; err == ERR_OK && i < hosts->n; i++) {
        if (strcmp(sorted[i]->key, sorted[first]->key) != 0) {
            first = i;
            continue;
        }
        counts_lines |= !sorted[first]->slots || !sorted[i]->slots;
        err = merge(hosts, sorted[first], sorted[i]);
    }
    mem_free(&sorted);
    TRY(err);
    for (int i = 0; i < hosts->n; i++) {
        if (!hosts->at[i].key) continue;
        hosts->at[n] = hosts->at[i];
        if (counts_lines && !hosts->at[n].slots) hosts->at[n].slots = 1;
        n++;
    }
    hosts->n = n;
    return ERR_OK;
}

/* ---- Lines and entries ---- */
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

static err_t refuse_word(const char *key, size_t n)
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
    if (!is_max && !(n == 5 && strncmp(key, "slots", n) == 0)) return refuse_word(key, n);
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
    if (memchr(name.at, '[', name.n)) { /* Slurm's form: node[1-4], node[01-04,7], r[1-2]n[1-8] */
        range_t range = {.hosts = hosts, .line = line};
        if (name.n >= sizeof range.name)
            RAISE(ERR_DATA, "the host name '%s' is longer than 253 characters",
                  hosts_quote(name.at, name.n).text);
        TRY(add_rest(&range, 0, name.at, name.n));
    } else {
        host_t *host;
        TRY(hosts_add(hosts, name.at, name.n, line, &host));
    }
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
    TRY_OUT(err, add_up(out));
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
    TRY_OUT(err, add_up(out));
    err = hosts_complete(out);
out:
    if (err != ERR_OK) hosts_free(out);
    return err;
}
