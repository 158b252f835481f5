/* SPDX-License-Identifier: MIT */
/* The table of hosts: addresses, quoting for messages, the checks of a complete table (duplicates, loopback, chief), which the
 * readers of all forms share; and the choice of hosts by --include and --exclude, in DeepSpeed's syntax. Host descriptions
 * may be hostile text. */
#include "cluster/hosts/table.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cluster/hosts/hosts.h"

/* At a UTF-8 character. U+0080 … U+009F are control characters, too. */
static bool is_control(const char *text)
{
    unsigned char c = (unsigned char)text[0];
    return c < 0x20 || c == 0x7F || (c == 0xC2 && (unsigned char)text[1] < 0xA0);
}

quoted_t hosts_quote(const char *text, size_t n_bytes)
{
    quoted_t out;
    size_t n = 0, room = sizeof out.text - 8;
    for (size_t i = 0; i < n_bytes;) {
        size_t length = utf8_length(text + i);
        bool plain = length > 0 && length <= n_bytes - i && !is_control(text + i);
        if (!plain) length = 1;
        if (n + length > room) {
            memcpy(out.text + n, "…", sizeof "…");
            return out;
        }
        if (plain)
            memcpy(out.text + n, text + i, length);
        else
            out.text[n] = '?';
        n += length;
        i += length;
    }
    out.text[n] = '\0';
    return out;
}

bool hosts_number(const char *text, size_t n_bytes, int min, int max, int *out)
{
    int64_t value = 0;
    if (n_bytes == 0 || n_bytes > 12) return false;
    for (size_t i = 0; i < n_bytes; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value < min || value > max) return false;
    *out = (int)value;
    return true;
}

err_t hosts_at_line(err_t err, const hosts_t *hosts, int line)
{
    if (err == ERR_OK) return ERR_OK;
    return hosts->is_list ? err_context(err, "%s, entry %d", hosts->source, line)
                          : err_context(err, "%s:%d", hosts->source, line);
}

static bool is_name(const char *text)
{
    int label = 0;
    if (text[0] == '-' || text[0] == '.') return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && !strchr("-_.", *text)) return false;
        label = *text == '.' ? 0 : label + 1;
        if (label > 63 || (*text == '.' && text[1] == '.')) return false;
    }
    return true;
}

/* An IPv6 address in the library's spelling, followed by the zone. */
static bool ipv6_key(const char *text, char out[HOST_KEY_MAX])
{
    struct in6_addr address;
    char digits[INET6_ADDRSTRLEN];
    const char *zone = strchr(text, '%');
    size_t n = zone ? (size_t)(zone - text) : strlen(text);
    if (n >= sizeof digits || (zone && (!is_name(zone + 1) || !zone[1] || strlen(zone) > 32))) return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (inet_pton(AF_INET6, digits, &address) != 1) return false;
    inet_ntop(AF_INET6, &address, digits, sizeof digits);
    snprintf(out, HOST_KEY_MAX, "%s%s", digits, zone ? zone : "");
    return true;
}

/* Addresses are the same if their keys are equal. ERR_DATA if it is not an address. */
static err_t hosts_key(const char *address, size_t n_bytes, char out[HOST_KEY_MAX])
{
    char text[HOST_KEY_MAX];
    struct in_addr ipv4;
    quoted_t shown = hosts_quote(address, n_bytes);
    if (n_bytes == 0) RAISE(ERR_DATA, "missing host name");
    if (n_bytes > 253) RAISE(ERR_DATA, "the host name '%s' is longer than 253 characters", shown.text);
    memcpy(text, address, n_bytes);
    text[n_bytes] = '\0';
    if (memchr(text, '@', n_bytes))
        RAISE(ERR_DATA, "'%s' contains a user name; set username in the host's ssh group", shown.text);
    if (memchr(text, ':', n_bytes)) {
        if (!ipv6_key(text, out))
            RAISE(ERR_DATA, "'%s' is neither a host name nor an IPv6 address", shown.text);
        return ERR_OK;
    }
    /* The system resolves a name of digits as an address: 7 as 0.0.0.7. */
    if (strspn(text, "0123456789.") == n_bytes && inet_pton(AF_INET, text, &ipv4) != 1)
        RAISE(ERR_DATA, "'%s' is not an IPv4 address", shown.text);
    if (!is_name(text))
        RAISE(ERR_DATA, "'%s' is not a host name: expected letters, digits, - _ and .", shown.text);
    for (size_t i = 0; i <= n_bytes; i++) out[i] = (char)tolower((unsigned char)text[i]);
    return ERR_OK;
}

static bool is_loopback(const char *key)
{
    static const char *const names[] = {
        "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::", "::1"};
    size_t n = strlen(key);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(key, names[i]) == 0) return true;
    if (n > 10 && strcmp(key + n - 10, ".localhost") == 0) return true;
    if (strncmp(key, "::ffff:", 7) == 0) key += 7;
    struct in_addr ipv4;
    return inet_pton(AF_INET, key, &ipv4) == 1 && ntohl(ipv4.s_addr) >> 24 == 127;
}

err_t hosts_add(hosts_t *hosts, const char *address, size_t n_bytes, int line, host_t **out)
{
    char key[HOST_KEY_MAX];
    host_t host = {.line = line, .slots = 1};
    TRY(hosts_key(address, n_bytes, key));
    if (hosts->n >= HOSTS_MAX_LINES) RAISE(ERR_DATA, "more than %d lines with hosts", HOSTS_MAX_LINES);
    TRY(arena_text(&hosts->arena, address, n_bytes, &host.address));
    TRY(arena_text(&hosts->arena, key, strlen(key), &host.key));
    TRY(mem_grow(hosts->n + 1, sizeof *hosts->at, "a table of hosts", &hosts->at));
    hosts->at[hosts->n] = host;
    *out = &hosts->at[hosts->n++];
    return ERR_OK;
}

static int compare_ids(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

err_t hosts_sort_ids(int *ids, int n)
{
    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
    for (int i = 1; i < n; i++)
        if (ids[i] == ids[i - 1]) RAISE(ERR_DATA, "%d is given twice", ids[i]);
    return ERR_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const host_t *x = *(const host_t *const *)a, *y = *(const host_t *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x > y) - (x < y);
}

err_t hosts_sort(const hosts_t *hosts, host_t ***out)
{
    host_t **sorted;
    TRY(mem_new_array(hosts->n, sizeof *sorted, "a table of hosts", &sorted));
    for (int i = 0; i < hosts->n; i++) sorted[i] = &hosts->at[i];
    qsort(sorted, (size_t)hosts->n, sizeof *sorted, compare_keys);
    *out = sorted;
    return ERR_OK;
}

err_t hosts_complete(hosts_t *hosts)
{
    host_t **sorted, *again = NULL, *listed = NULL;
    int chief = 0;
    if (hosts->n == 0) RAISE(ERR_DATA, "%s lists no hosts", hosts->source);
    if (hosts->n > HOSTS_MAX)
        return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "more than %d hosts", HOSTS_MAX), hosts,
                             hosts->at[HOSTS_MAX].line);
    TRY(hosts_sort(hosts, &sorted));
    for (int i = 1; i < hosts->n; i++) {
        if (strcmp(sorted[i]->key, sorted[i - 1]->key) != 0 || (again && again < sorted[i])) continue;
        listed = sorted[i - 1];
        again = sorted[i];
    }
    mem_free(&sorted);
    if (again)
        return hosts_at_line(
            err_raise(ERR_DATA, __FILE__, __LINE__,
                      "the host %s is already listed in %s %d; list it once, with all its slots",
                      again->address, hosts->is_list ? "entry" : "line", listed->line),
            hosts, again->line);
    for (int i = 0; hosts->n > 1 && i < hosts->n; i++)
        if (is_loopback(hosts->at[i].key))
            return hosts_at_line(
                err_raise(ERR_DATA, __FILE__, __LINE__,
                          "%s is a loopback address, a different machine on each of the %d hosts; use a name "
                          "that all hosts know",
                          hosts->at[i].address, hosts->n),
                hosts, hosts->at[i].line);
    while (chief < hosts->n && !hosts->at[chief].chief) chief++;
    if (chief == hosts->n) chief = 0;
    host_t first = hosts->at[chief];
    memmove(hosts->at + 1, hosts->at, (size_t)chief * sizeof first);
    hosts->at[0] = first;
    hosts->at[0].chief = true;
    return ERR_OK;
}

err_t hosts_check_text(const char *text, const char *what)
{
    if (strcmp(text, "-") == 0) RAISE(ERR_DATA, "%s: '-' is not a valid value", what);
    for (const char *c = text; *c; c += utf8_length(c)) {
        if (*c == '\n') RAISE(ERR_DATA, "%s has more than one line; join commands with && or ;", what);
        if (utf8_length(c) == 0) RAISE(ERR_DATA, "%s is not UTF-8", what);
        if (is_control(c)) RAISE(ERR_DATA, "%s contains a control character", what);
    }
    return ERR_OK;
}

err_t hosts_check_user(const char *user, const char *what)
{
    size_t n = strlen(user);
    bool plain = n > 0 && user[0] != '-';
    for (size_t i = 0; i < n; i++)
        plain = plain && (isalnum((unsigned char)user[i]) || strchr("-_.@+$", user[i]));
    if (!plain)
        RAISE(
            ERR_DATA,
            "%s '%s' is not a valid user name: expected letters, digits, - _ . @ + and $, and no - in front",
            what, hosts_quote(user, n).text);
    return ERR_OK;
}

void hosts_free(hosts_t *hosts)
{
    mem_free(&hosts->at);
    arena_free(&hosts->arena);
    *hosts = (hosts_t){0};
}

/* ---- --include and --exclude ---- */
typedef struct filter {
    hosts_t *hosts;
    const char *option; /* "--include", "--exclude" */
    bool is_include;
    bool *named; /* by a node of the option so far */
    bool *kept;
} filter_t;

static bool has_slot(const host_t *host, int slot)
{
    for (int i = 0; host->ids && i < host->slots; i++)
        if (host->ids[i] == slot) return true;
    return !host->ids && slot < (host->slots ? host->slots : HOSTS_MAX_LISTED_SLOTS);
}

static bool has_id(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* SLOT[,SLOT…] into ids, at most HOSTS_MAX_LISTED_SLOTS. */
static err_t read_slots(const filter_t *f, const host_t *host, const char *text, const char *end, int *ids,
                        int *n)
{
    for (*n = 0;; (*n)++) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t length = (size_t)((comma ? comma : end) - text);
        int slot;
        if (!hosts_number(text, length, 0, 1 << 20, &slot))
            RAISE(ERR_USAGE, "%s: invalid slot '%s': expected HOST or HOST:SLOT,SLOT,…", f->option,
                  hosts_quote(text, length).text);
        if (!has_slot(host, slot))
            RAISE(ERR_USAGE, "%s: %s has no slot %d; dptrain hosts show lists its slots", f->option,
                  host->address, slot);
        if (has_id(ids, *n, slot))
            RAISE(ERR_USAGE, "%s: slot %d of %s is named twice", f->option, slot, host->address);
        if (*n == HOSTS_MAX_LISTED_SLOTS)
            RAISE(ERR_USAGE, "%s: more than %d slots of %s", f->option, HOSTS_MAX_LISTED_SLOTS,
                  host->address);
        ids[*n] = slot;
        if (!comma) break;
        text = comma + 1;
    }
    (*n)++;
    return ERR_OK;
}

/* Keeps the named slots of a host (--include) or all others (--exclude). */
static err_t choose_slots(filter_t *f, int index, int *named, int n_named)
{
    host_t *host = &f->hosts->at[index];
    if (!host->slots && !f->is_include)
        RAISE(ERR_USAGE, "%s: some slots of %s are named, but %s gives no number of slots for it", f->option,
              host->address, f->hosts->source);
    int *ids, n_left = f->is_include ? n_named : host->slots - n_named, n = 0;
    if (n_left > HOSTS_MAX_LISTED_SLOTS)
        RAISE(ERR_USAGE, "%s leaves %s %d slots, but at most %d can be listed", f->option, host->address,
              n_left, HOSTS_MAX_LISTED_SLOTS);
    TRY(arena_new(&f->hosts->arena, (size_t)n_left * sizeof *ids, &ids));
    for (int i = 0; i < (f->is_include ? n_named : host->slots); i++) {
        int id = f->is_include ? named[i] : host->ids ? host->ids[i] : i;
        if (f->is_include || !has_id(named, n_named, id)) ids[n++] = id;
    }
    TRY(hosts_sort_ids(ids, n));
    host->ids = ids;
    host->slots = n;
    f->kept[index] = n > 0;
    return ERR_OK;
}

/* HOST, HOST:SLOTS, [IPV6]:SLOTS or a bare IPv6 address. */
static err_t apply_node(filter_t *f, const char *text, size_t n)
{
    const char *end = text + n, *colon = memchr(text, ':', n), *address = text;
    char key[HOST_KEY_MAX];
    int index = 0, ids[HOSTS_MAX_LISTED_SLOTS], n_ids;
    bool bare_ipv6 = colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)) && text[0] != '[';
    size_t n_address = colon && !bare_ipv6 ? (size_t)(colon - text) : n;
    if (bare_ipv6) colon = NULL;
    if (n > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', n);
        if (!close || (close + 1 < end && close[1] != ':'))
            RAISE(ERR_USAGE, "%s: invalid '%s': expected [ADDRESS]:SLOT,…", f->option,
                  hosts_quote(text, n).text);
        address++;
        n_address = (size_t)(close - address);
        colon = close + 1 < end ? close + 1 : NULL;
    }
    const quoted_t shown = hosts_quote(address, n_address);
    if (hosts_key(address, n_address, key) != ERR_OK)
        RAISE(ERR_USAGE, "%s: invalid host '%s': expected HOST[:SLOT,…], separated by @", f->option,
              shown.text);
    while (index < f->hosts->n && strcmp(f->hosts->at[index].key, key) != 0) index++;
    if (index == f->hosts->n)
        RAISE(ERR_USAGE, "%s: no host %s in %s", f->option, shown.text, f->hosts->source);
    if (f->named[index])
        RAISE(ERR_USAGE, "%s: %s is named twice; list all its slots after one colon", f->option,
              f->hosts->at[index].address);
    f->named[index] = true;
    f->kept[index] = f->is_include;
    if (!colon) return ERR_OK;
    TRY(read_slots(f, &f->hosts->at[index], colon + 1, end, ids, &n_ids));
    return choose_slots(f, index, ids, n_ids);
}

err_t hosts_filter(hosts_t *hosts, const char *include, const char *exclude)
{
    bool has_include = include && include[0], has_exclude = exclude && exclude[0];
    filter_t f = {hosts, has_include ? "--include" : "--exclude", has_include, NULL, NULL};
    const char *text = has_include ? include : exclude;
    int n = 0;
    if (has_include && has_exclude) RAISE(ERR_USAGE, "--include and --exclude cannot be combined");
    if (!has_include && !has_exclude) return ERR_OK;
    TRY(arena_new(&hosts->arena, (size_t)hosts->n, &f.named));
    TRY(arena_new(&hosts->arena, (size_t)hosts->n, &f.kept));
    memset(f.named, 0, (size_t)hosts->n);
    for (int i = 0; i < hosts->n; i++) f.kept[i] = !has_include;
    for (;;) {
        size_t length = strcspn(text, "@");
        TRY(apply_node(&f, text, length));
        if (!text[length]) break;
        text += length + 1;
    }
    for (int i = 0; i < hosts->n; i++)
        if (f.kept[i]) hosts->at[n++] = hosts->at[i];
    if (n == 0)
        RAISE(ERR_USAGE, "%s %s leaves no hosts of %s", f.option, hosts_quote(exclude, strlen(exclude)).text,
              hosts->source);
    hosts->n = n;
    hosts->at[0].chief = true;
    return ERR_OK;
}
