/* SPDX-License-Identifier: MIT */
/* Shared by the readers of all forms: addresses, quoting for messages, and the checks of a complete table
 * (duplicates, loopback, chief). Host descriptions may be hostile text. */
#include "cluster/hosts/parse.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

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

err_t hosts_key(const char *address, size_t n_bytes, char out[HOST_KEY_MAX])
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

/* Equal keys keep the order of the text. */
static int compare_keys(const void *a, const void *b)
{
    const host_t *x = *(const host_t *const *)a, *y = *(const host_t *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x > y) - (x < y);
}

static err_t check_duplicates(const hosts_t *hosts)
{
    const host_t **sorted, *again = NULL, *first = NULL;
    TRY(mem_new_array(hosts->n, sizeof *sorted, "a table of hosts", &sorted));
    for (int i = 0; i < hosts->n; i++) sorted[i] = &hosts->at[i];
    qsort(sorted, (size_t)hosts->n, sizeof *sorted, compare_keys);
    for (int i = 1; i < hosts->n; i++) {
        if (strcmp(sorted[i]->key, sorted[i - 1]->key) != 0 || (again && again < sorted[i])) continue;
        first = sorted[i - 1];
        again = sorted[i];
    }
    mem_free(&sorted);
    if (again)
        return hosts_at_line(
            err_raise(ERR_DATA, __FILE__, __LINE__,
                      "the host %s is already listed in %s %d; list it once, with all its slots",
                      again->address, hosts->is_list ? "entry" : "line", first->line),
            hosts, again->line);
    return ERR_OK;
}

static err_t check_loopback(const hosts_t *hosts)
{
    for (int i = 0; hosts->n > 1 && i < hosts->n; i++)
        if (is_loopback(hosts->at[i].key))
            return hosts_at_line(
                err_raise(ERR_DATA, __FILE__, __LINE__,
                          "%s is a loopback address, a different machine on each of the %d hosts; use a name "
                          "that all hosts know",
                          hosts->at[i].address, hosts->n),
                hosts, hosts->at[i].line);
    return ERR_OK;
}

err_t hosts_complete(hosts_t *hosts)
{
    int chief = 0;
    if (hosts->n == 0) RAISE(ERR_DATA, "%s lists no hosts", hosts->source);
    if (hosts->n > HOSTS_MAX)
        return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "more than %d hosts", HOSTS_MAX), hosts,
                             hosts->at[HOSTS_MAX].line);
    TRY(check_duplicates(hosts));
    TRY(check_loopback(hosts));
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
