/* SPDX-License-Identifier: MIT */
/* Typed values from the YAML tree of a resource spec. Private to spec.c. Errors are ERR_DATA with FILE:LINE;
 * `what` names the value in them. */
#ifndef CLUSTER_HOSTS_SPEC_YAML_H
#define CLUSTER_HOSTS_SPEC_YAML_H

#include <yaml.h>

#include "cluster/hosts/hosts.h"

typedef struct spec {
    hosts_t *hosts; /* its arena holds the texts that are kept */
    yaml_document_t *document;
} spec_t;

enum {
    SPEC_MAX_KEYS = 16,
    SPEC_MAX_NAMES = 1024, /* keys per map with user-defined names */
};

/* The values of a map with known keys, in the order of the list; NULL: absent or empty. */
typedef struct fields {
    yaml_node_t *at[SPEC_MAX_KEYS];
} fields_t;

/* Returns an error at a node. */
#define RAISE_AT(spec, node, ...)                                                                            \
    return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, __VA_ARGS__), (spec)->hosts, spec_line(node))

int spec_line(const yaml_node_t *node); /* from 1 */
yaml_node_t *spec_node(const spec_t *spec, int index);
int spec_pairs(const yaml_node_t *map);
int spec_items(const yaml_node_t *list);

/* Reads a map with only these keys (NULL-terminated), none twice. */
err_t spec_fields(const spec_t *spec, const yaml_node_t *map, const char *what, const char *const *keys,
                  fields_t *out);
/* Checks a map with user-defined keys, none twice. */
err_t spec_named_map(const spec_t *spec, const yaml_node_t *map, const char *what);
/* Key i of a map: its node and text. */
err_t spec_key(const spec_t *spec, const yaml_node_t *map, int i, const char *what, yaml_node_t **node,
               const char **out);

/* The text of a scalar; lives as long as the document. */
err_t spec_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
/* A text that is kept. Trailing line breaks, which YAML's | leaves, are removed. No control characters. */
err_t spec_keep_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
/* As spec_keep_text, with a leading ~/ expanded to $HOME. */
err_t spec_keep_path(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
err_t spec_number(const spec_t *spec, const yaml_node_t *node, const char *what, int min, int max, int *out);
err_t spec_truth(const spec_t *spec, const yaml_node_t *node, const char *what, bool *out);
/* A list of numbers, or a count for 0, 1, …; kept, ascending. *ids: NULL if there are none. */
err_t spec_ids(const spec_t *spec, const yaml_node_t *node, const char *what, int *n, int **ids);

#endif
