/* SPDX-License-Identifier: MIT */
/* Applies --include and --exclude to a table of hosts, in DeepSpeed's syntax. */
#include <string.h>

#include "cluster/hosts/hosts.h"
#include "cluster/hosts/parse.h"

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

static err_t find_host(const filter_t *f, const char *address, size_t n, int *out)
{
    char key[HOST_KEY_MAX];
    quoted_t shown = hosts_quote(address, n);
    if (hosts_key(address, n, key) != ERR_OK)
        RAISE(ERR_USAGE, "%s: invalid host '%s': expected HOST[:SLOT,…], separated by @", f->option,
              shown.text);
    for (*out = 0; *out < f->hosts->n; (*out)++)
        if (strcmp(f->hosts->at[*out].key, key) == 0) return ERR_OK;
    RAISE(ERR_USAGE, "%s: no host %s in %s", f->option, shown.text, f->hosts->source);
}

/* HOST, HOST:SLOTS, [IPV6]:SLOTS or a bare IPv6 address. */
static err_t apply_node(filter_t *f, const char *text, size_t n)
{
    const char *end = text + n, *colon = memchr(text, ':', n), *address = text;
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
    TRY(find_host(f, address, n_address, &index));
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
