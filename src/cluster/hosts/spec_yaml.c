/* SPDX-License-Identifier: MIT */
/* Reads typed values out of the YAML tree of a resource spec; errors name file and line. */
#include "cluster/hosts/spec_yaml.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/opt.h"
#include "cluster/hosts/parse.h"

int spec_line(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

yaml_node_t *spec_node(const spec_t *spec, int index)
{
    return yaml_document_get_node(spec->document, index);
}

int spec_pairs(const yaml_node_t *map)
{
    return (int)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

int spec_items(const yaml_node_t *list)
{
    return (int)(list->data.sequence.items.top - list->data.sequence.items.start);
}

/* A key without a value, or with ~ or null. */
static bool is_empty(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    const char *text = (const char *)node->data.scalar.value;
    return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

err_t spec_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
{
    *out = ""; /* quiets GCC */
    if (node->type != YAML_SCALAR_NODE)
        RAISE_AT(spec, node, "%s: expected a single value, not a %s", what,
                 node->type == YAML_SEQUENCE_NODE ? "list" : "map");
    *out = (const char *)node->data.scalar.value;
    if (strlen(*out) != node->data.scalar.length) RAISE_AT(spec, node, "%s contains a zero character", what);
    return ERR_OK;
}

err_t spec_key(const spec_t *spec, const yaml_node_t *map, int i, const char *what, yaml_node_t **node,
               const char **out)
{
    *node = spec_node(spec, map->data.mapping.pairs.start[i].key);
    return spec_text(spec, *node, what, out);
}

static err_t unknown_key(const char *key, const char *what, const char *const *keys, int n_keys)
{
    char list[256];
    const char *nearest = opt_nearest(key, keys, n_keys);
    quoted_t shown = hosts_quote(key, strlen(key));
    if (nearest) RAISE(ERR_DATA, "%s: unknown key '%s'; did you mean '%s'?", what, shown.text, nearest);
    opt_join(keys, ", ", list, sizeof list);
    RAISE(ERR_DATA, "%s: unknown key '%s'; expected one of %s", what, shown.text, list);
}

err_t spec_fields(const spec_t *spec, const yaml_node_t *map, const char *what, const char *const *keys,
                  fields_t *out)
{
    int n_keys = 0;
    bool seen[SPEC_MAX_KEYS] = {false};
    *out = (fields_t){{NULL}};
    while (keys[n_keys]) n_keys++;
    ASSERT(n_keys <= SPEC_MAX_KEYS);
    if (map->type != YAML_MAPPING_NODE) RAISE_AT(spec, map, "%s: expected a map (key: value)", what);
    for (int i = 0; i < spec_pairs(map); i++) {
        yaml_node_t *node;
        const char *key;
        int k = 0;
        TRY(spec_key(spec, map, i, what, &node, &key));
        while (k < n_keys && strcmp(keys[k], key) != 0) k++;
        if (k == n_keys)
            return hosts_at_line(unknown_key(key, what, keys, n_keys), spec->hosts, spec_line(node));
        if (seen[k]) RAISE_AT(spec, node, "%s: %s is given twice", what, key);
        seen[k] = true;
        yaml_node_t *value = spec_node(spec, map->data.mapping.pairs.start[i].value);
        if (!is_empty(value)) out->at[k] = value;
    }
    return ERR_OK;
}

err_t spec_keep_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
{
    const char *text, *copy;
    TRY(spec_text(spec, node, what, &text));
    size_t n = strlen(text);
    while (n > 0 && strchr("\r\n", text[n - 1])) n--;
    TRY(arena_text(&spec->hosts->arena, text, n, &copy));
    if (n == 0) RAISE_AT(spec, node, "%s is empty", what);
    TRY(hosts_at_line(hosts_check_text(copy, what), spec->hosts, spec_line(node)));
    *out = copy;
    return ERR_OK;
}

err_t spec_keep_path(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
{
    const char *home = getenv("HOME");
    TRY(spec_keep_text(spec, node, what, out));
    if (home && home[0] == '/' && strncmp(*out, "~/", 2) == 0)
        TRY(arena_format(&spec->hosts->arena, out, "%s%s", home, *out + 1));
    return hosts_at_line(hosts_check_text(*out, what), spec->hosts, spec_line(node));
}

err_t spec_number(const spec_t *spec, const yaml_node_t *node, const char *what, int min, int max, int *out)
{
    const char *text;
    TRY(spec_text(spec, node, what, &text));
    if (!hosts_number(text, strlen(text), min, max, out))
        RAISE_AT(spec, node, "%s: '%s' is not a whole number from %d to %d", what,
                 hosts_quote(text, strlen(text)).text, min, max);
    return ERR_OK;
}

err_t spec_truth(const spec_t *spec, const yaml_node_t *node, const char *what, bool *out)
{
    static const char *const words[] = {"false", "no", "off", "true", "yes", "on"};
    const char *text;
    TRY(spec_text(spec, node, what, &text));
    for (int i = 0; i < 6; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i >= 3;
            return ERR_OK;
        }
    RAISE_AT(spec, node, "%s: '%s' is neither true nor false", what, hosts_quote(text, strlen(text)).text);
}

err_t spec_ids(const spec_t *spec, const yaml_node_t *node, const char *what, int *n, int **ids)
{
    bool is_list = node->type == YAML_SEQUENCE_NODE;
    *ids = NULL;
    *n = is_list ? spec_items(node) : 0;
    if (!is_list) TRY(spec_number(spec, node, what, 0, HOSTS_MAX_LISTED_SLOTS, n));
    if (*n > HOSTS_MAX_LISTED_SLOTS) RAISE_AT(spec, node, "%s: more than %d", what, HOSTS_MAX_LISTED_SLOTS);
    if (*n == 0) return ERR_OK;
    TRY(arena_new(&spec->hosts->arena, (size_t)*n * sizeof **ids, ids));
    for (int i = 0; i < *n; i++) {
        if (!is_list)
            (*ids)[i] = i;
        else
            TRY(spec_number(spec, spec_node(spec, node->data.sequence.items.start[i]), what, 0, 1 << 20,
                            &(*ids)[i]));
    }
    err_t err = hosts_sort_ids(*ids, *n);
    if (err != ERR_OK) err_context(err, "%s", what);
    return hosts_at_line(err, spec->hosts, spec_line(node));
}

err_t spec_named_map(const spec_t *spec, const yaml_node_t *map, const char *what)
{
    yaml_node_t *node;
    const char *key, *other;
    if (map->type != YAML_MAPPING_NODE) RAISE_AT(spec, map, "%s: expected a map (NAME: …)", what);
    if (spec_pairs(map) > SPEC_MAX_NAMES) RAISE_AT(spec, map, "%s: more than %d", what, SPEC_MAX_NAMES);
    for (int i = 0; i < spec_pairs(map); i++)
        for (int k = 0; k <= i; k++) {
            TRY(spec_key(spec, map, k, what, &node, &other));
            TRY(spec_key(spec, map, i, what, &node, &key));
            if (k < i && strcmp(key, other) == 0)
                RAISE_AT(spec, node, "%s: %s is given twice", what, hosts_quote(key, strlen(key)).text);
        }
    return ERR_OK;
}
