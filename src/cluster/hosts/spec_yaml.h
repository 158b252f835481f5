/* Values out of the tree that libyaml makes of a resource spec. For spec.c alone. Errors are ERR_DATA with
 * FILE:LINE; `what` names the value in them. */
#ifndef CLUSTER_HOSTS_SPEC_YAML_H
#define CLUSTER_HOSTS_SPEC_YAML_H

#include <yaml.h>

#include "cluster/hosts/hosts.h"

typedef struct spec {
    hosts_t *hosts; /* its arena holds what is kept */
    yaml_document_t *document;
} spec_t;

enum {
    SPEC_MAX_KEYS = 16,
    SPEC_MAX_NAMES = 1024, /* keys in a map of the user's names */
};

/* The values of a map with known keys, in the order of the list; NULL: absent, or empty. */
typedef struct fields {
    yaml_node_t *at[SPEC_MAX_KEYS];
} fields_t;

/* Leaves with an error at a node. */
#define RAISE_AT(spec, node, ...)                                                                            \
    return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, __VA_ARGS__), (spec)->hosts, spec_line(node))

int spec_line(const yaml_node_t *node); /* from 1 */
yaml_node_t *spec_node(const spec_t *spec, int index);
int spec_pairs(const yaml_node_t *map);
int spec_items(const yaml_node_t *list);

/* A map that has no other keys than these (NULL-terminated), none twice. */
err_t spec_fields(const spec_t *spec, const yaml_node_t *map, const char *what, const char *const *keys,
                  fields_t *out);
/* A map whose keys are names of the user's, none twice. */
err_t spec_named_map(const spec_t *spec, const yaml_node_t *map, const char *what);
/* Key i of a map, the node and its text. */
err_t spec_key(const spec_t *spec, const yaml_node_t *map, int i, const char *what, yaml_node_t **node,
               const char **out);

/* A scalar's text, which lives as long as the document. */
err_t spec_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
/* A text that is kept; line breaks at its end, which YAML's | leaves there, go. No control characters. */
err_t spec_keep_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
/* The same, with $HOME for a ~ in front of a slash. */
err_t spec_keep_path(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out);
err_t spec_number(const spec_t *spec, const yaml_node_t *node, const char *what, int min, int max, int *out);
err_t spec_truth(const spec_t *spec, const yaml_node_t *node, const char *what, bool *out);
/* A list of numbers, or how many there are, counted from 0; kept, ascending. *ids: NULL where there are none.
 */
err_t spec_ids(const spec_t *spec, const yaml_node_t *node, const char *what, int *n, int **ids);

#endif
