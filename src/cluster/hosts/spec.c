/* SPDX-License-Identifier: MIT */
/* Builds the table of hosts from a resource spec in YAML: typed values out of the YAML tree, groups, nodes; errors name file
 * and line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "cluster/hosts/hosts.h"
#include "cluster/hosts/table.h"
#include "text/opt.h"

/* ---- Typed values. `what` names the value in errors, which are ERR_DATA with FILE:LINE ---- */
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

/* From 1. */
static int spec_line(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

static yaml_node_t *spec_node(const spec_t *spec, int index)
{
    return yaml_document_get_node(spec->document, index);
}

static int spec_pairs(const yaml_node_t *map)
{
    return (int)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

static int spec_items(const yaml_node_t *list)
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

/* The text of a scalar; lives as long as the document. */
static err_t spec_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
{
    *out = ""; /* quiets GCC */
    if (node->type != YAML_SCALAR_NODE)
        RAISE_AT(spec, node, "%s: expected a single value, not a %s", what,
                 node->type == YAML_SEQUENCE_NODE ? "list" : "map");
    *out = (const char *)node->data.scalar.value;
    if (strlen(*out) != node->data.scalar.length) RAISE_AT(spec, node, "%s contains a zero character", what);
    return ERR_OK;
}

/* Key i of a map: its node and text. */
static err_t spec_key(const spec_t *spec, const yaml_node_t *map, int i, const char *what, yaml_node_t **node,
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

/* Reads a map with only these keys (NULL-terminated), none twice. */
static err_t spec_fields(const spec_t *spec, const yaml_node_t *map, const char *what,
                         const char *const *keys, fields_t *out)
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

/* A text that is kept. Trailing line breaks, which YAML's | leaves, are removed. No control characters. */
static err_t spec_keep_text(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
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

/* As spec_keep_text, with a leading ~/ expanded to $HOME. */
static err_t spec_keep_path(const spec_t *spec, const yaml_node_t *node, const char *what, const char **out)
{
    const char *home = getenv("HOME");
    TRY(spec_keep_text(spec, node, what, out));
    if (home && home[0] == '/' && strncmp(*out, "~/", 2) == 0)
        TRY(arena_format(&spec->hosts->arena, out, "%s%s", home, *out + 1));
    return hosts_at_line(hosts_check_text(*out, what), spec->hosts, spec_line(node));
}

static err_t spec_number(const spec_t *spec, const yaml_node_t *node, const char *what, int min, int max,
                         int *out)
{
    const char *text;
    TRY(spec_text(spec, node, what, &text));
    if (!hosts_number(text, strlen(text), min, max, out))
        RAISE_AT(spec, node, "%s: '%s' is not a whole number from %d to %d", what,
                 hosts_quote(text, strlen(text)).text, min, max);
    return ERR_OK;
}

static err_t spec_truth(const spec_t *spec, const yaml_node_t *node, const char *what, bool *out)
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

/* A list of numbers, or a count for 0, 1, …; kept, ascending. *ids: NULL if there are none. */
static err_t spec_ids(const spec_t *spec, const yaml_node_t *node, const char *what, int *n, int **ids)
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

/* Checks a map with user-defined keys, none twice. */
static err_t spec_named_map(const spec_t *spec, const yaml_node_t *map, const char *what)
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

/* ---- The table ---- */
/* A group under ssh:. */
typedef struct group {
    const char *name;
    const char *key_file, *user, *env_file, *setup;
    const host_env_t *envs;
    int n_envs, port;
} group_t;

typedef struct groups {
    group_t *at;
    const char **names; /* of all groups, for suggestions */
    int n;
} groups_t;

typedef struct nodes {
    groups_t groups;
    int n;
    int chief_line;              /* 0: none so far */
    const yaml_node_t *no_login; /* first node, other than the chief, without ssh_config */
} nodes_t;

static err_t read_envs(const spec_t *spec, const yaml_node_t *map, group_t *group)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    host_env_t *envs;
    TRY(spec_named_map(spec, map, "shared_envs"));
    TRY(arena_new(&spec->hosts->arena, (size_t)spec_pairs(map) * sizeof *envs, &envs));
    for (int i = 0; i < spec_pairs(map); i++) {
        yaml_node_t *node, *value = spec_node(spec, map->data.mapping.pairs.start[i].value);
        const char *name;
        TRY(spec_key(spec, map, i, "shared_envs", &node, &name));
        size_t n = strlen(name);
        if (n == 0 || strspn(name, letters) != n || (name[0] >= '0' && name[0] <= '9'))
            RAISE_AT(spec, node, "shared_envs: '%s' is not a valid variable name", hosts_quote(name, n).text);
        TRY(arena_text(&spec->hosts->arena, name, n, &envs[i].name));
        TRY(spec_text(spec, value, "shared_envs", &name));
        TRY(hosts_at_line(*name && strcmp(name, "-") != 0 ? hosts_check_text(name, envs[i].name) : ERR_OK,
                          spec->hosts, spec_line(value)));
        TRY(arena_text(&spec->hosts->arena, name, strlen(name), &envs[i].value));
    }
    group->envs = envs;
    group->n_envs = spec_pairs(map);
    return ERR_OK;
}

static err_t read_group(const spec_t *spec, const yaml_node_t *map, group_t *group)
{
    enum { KEY_FILE, USERNAME, PORT, SHARED_ENVS, ENV_FILE, SETUP, PYTHON_VENV };
    static const char *const keys[] = {"key_file", "username", "port",        "shared_envs",
                                       "env_file", "setup",    "python_venv", NULL};
    fields_t f;
    TRY(spec_fields(spec, map, "ssh", keys, &f));
    if (f.at[SETUP] && f.at[PYTHON_VENV])
        RAISE_AT(spec, f.at[PYTHON_VENV], "python_venv is the old name of setup; give only one of them");
    yaml_node_t *setup = f.at[SETUP] ? f.at[SETUP] : f.at[PYTHON_VENV];
    if (f.at[KEY_FILE]) TRY(spec_keep_path(spec, f.at[KEY_FILE], "key_file", &group->key_file));
    if (f.at[ENV_FILE]) TRY(spec_keep_path(spec, f.at[ENV_FILE], "env_file", &group->env_file));
    if (setup) TRY(spec_keep_text(spec, setup, "setup", &group->setup));
    if (f.at[PORT]) TRY(spec_number(spec, f.at[PORT], "port", 1, 65535, &group->port));
    if (f.at[SHARED_ENVS]) TRY(read_envs(spec, f.at[SHARED_ENVS], group));
    if (!f.at[USERNAME]) return ERR_OK;
    TRY(spec_keep_text(spec, f.at[USERNAME], "username", &group->user));
    return hosts_at_line(hosts_check_user(group->user, "username"), spec->hosts, spec_line(f.at[USERNAME]));
}

static err_t read_groups(const spec_t *spec, const yaml_node_t *map, groups_t *out)
{
    TRY(spec_named_map(spec, map, "ssh"));
    out->n = spec_pairs(map);
    TRY(arena_new(&spec->hosts->arena, (size_t)out->n * sizeof *out->at, &out->at));
    TRY(arena_new(&spec->hosts->arena, (size_t)out->n * sizeof *out->names, &out->names));
    for (int i = 0; i < out->n; i++) {
        group_t group = {0};
        yaml_node_t *node;
        const char *name;
        TRY(spec_key(spec, map, i, "ssh", &node, &name));
        if (!*name) RAISE_AT(spec, node, "ssh: a group has no name");
        TRY(hosts_at_line(hosts_check_text(name, "the name of an ssh group"), spec->hosts, spec_line(node)));
        TRY(arena_text(&spec->hosts->arena, name, strlen(name), &group.name));
        TRY(read_group(spec, spec_node(spec, map->data.mapping.pairs.start[i].value), &group));
        out->at[i] = group;
        out->names[i] = group.name;
    }
    return ERR_OK;
}

static err_t read_login(const spec_t *spec, const yaml_node_t *node, const groups_t *groups, host_t *host)
{
    const char *name;
    const group_t *group = NULL;
    TRY(spec_text(spec, node, "ssh_config", &name));
    for (int i = 0; i < groups->n && !group; i++)
        if (strcmp(groups->at[i].name, name) == 0) group = &groups->at[i];
    if (!group) {
        const char *nearest = opt_nearest(name, groups->names, groups->n);
        RAISE_AT(spec, node, "ssh_config: no group '%s' under ssh:%s%s%s",
                 hosts_quote(name, strlen(name)).text, nearest ? "; did you mean '" : "",
                 nearest ? hosts_quote(nearest, strlen(nearest)).text : "", nearest ? "'?" : "");
    }
    host->ssh_group = group->name;
    host->user = group->user;
    host->key_file = group->key_file;
    host->env_file = group->env_file;
    host->setup = group->setup;
    host->envs = group->envs;
    host->n_envs = group->n_envs;
    if (host->port == 0) host->port = group->port;
    return ERR_OK;
}

static err_t read_bandwidth(const spec_t *spec, const yaml_node_t *node, double *out)
{
    const char *text;
    char *end;
    TRY(spec_text(spec, node, "network_bandwidth", &text));
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out) || *out <= 0)
        RAISE_AT(spec, node, "network_bandwidth: '%s' is not a positive number of Gbit/s",
                 hosts_quote(text, strlen(text)).text);
    return ERR_OK;
}

static err_t read_node(const spec_t *spec, const yaml_node_t *map, nodes_t *nodes)
{
    enum { ADDRESS, CPUS, GPUS, CHIEF, SSH_CONFIG, PORT, BANDWIDTH };
    static const char *const keys[] = {"address",           "cpus", "gpus", "chief", "ssh_config", "port",
                                       "network_bandwidth", NULL};
    fields_t f;
    host_t *host;
    const char *address;
    int n_cpus = 0, n_gpus = 0, *cpu_ids = NULL, *gpu_ids = NULL;
    bool is_chief = nodes->n == 1;
    TRY(spec_fields(spec, map, "nodes", keys, &f));
    if (!f.at[ADDRESS]) RAISE_AT(spec, map, "nodes: missing address");
    TRY(spec_text(spec, f.at[ADDRESS], "address", &address));
    TRY(hosts_at_line(hosts_add(spec->hosts, address, strlen(address), spec_line(map), &host), spec->hosts,
                      spec_line(f.at[ADDRESS])));
    if (f.at[CPUS]) TRY(spec_ids(spec, f.at[CPUS], "cpus", &n_cpus, &cpu_ids));
    if (f.at[GPUS]) TRY(spec_ids(spec, f.at[GPUS], "gpus", &n_gpus, &gpu_ids));
    host->gpus = n_gpus ? HOST_GPUS_KNOWN : HOST_GPUS_NONE;
    host->ids = n_gpus ? gpu_ids : cpu_ids;
    host->slots = n_gpus ? n_gpus : n_cpus ? n_cpus : 1;
    if (f.at[PORT]) TRY(spec_number(spec, f.at[PORT], "port", 1, 65535, &host->port));
    if (f.at[BANDWIDTH]) TRY(read_bandwidth(spec, f.at[BANDWIDTH], &host->bandwidth_gbits));
    if (f.at[CHIEF]) TRY(spec_truth(spec, f.at[CHIEF], "chief", &is_chief));
    host->chief = is_chief;
    if (is_chief && nodes->chief_line)
        RAISE_AT(spec, f.at[CHIEF], "%s is a second chief; the first is in line %d", address,
                 nodes->chief_line);
    if (is_chief) nodes->chief_line = spec_line(map);
    if (f.at[SSH_CONFIG]) return read_login(spec, f.at[SSH_CONFIG], &nodes->groups, host);
    if (!is_chief && !nodes->no_login) nodes->no_login = map;
    return ERR_OK;
}

static err_t read_document(const spec_t *spec)
{
    enum { NODES, SSH };
    static const char *const keys[] = {"nodes", "ssh", NULL};
    fields_t f;
    nodes_t nodes = {0};
    yaml_node_t *root = yaml_document_get_root_node(spec->document);
    if (!root) RAISE(ERR_DATA, "%s is empty; expected nodes:", spec->hosts->source);
    TRY(spec_fields(spec, root, "a resource spec", keys, &f));
    if (!f.at[NODES]) RAISE_AT(spec, root, "missing nodes:");
    if (f.at[NODES]->type != YAML_SEQUENCE_NODE) RAISE_AT(spec, f.at[NODES], "nodes: expected a list");
    if (f.at[SSH]) TRY(read_groups(spec, f.at[SSH], &nodes.groups));
    nodes.n = spec_items(f.at[NODES]);
    for (int i = 0; i < nodes.n; i++)
        TRY(read_node(spec, spec_node(spec, f.at[NODES]->data.sequence.items.start[i]), &nodes));
    if (nodes.n > 0 && !nodes.chief_line)
        RAISE_AT(spec, f.at[NODES], "no node is the chief; set chief: true for the node where rank 0 runs");
    if (nodes.no_login)
        RAISE_AT(spec, nodes.no_login,
                 "nodes other than the chief require ssh_config, the name of a group under ssh:");
    return ERR_OK;
}

/* Raises libyaml's error. */
static err_t raise_parser(const yaml_parser_t *parser, const hosts_t *hosts)
{
    if (parser->error == YAML_MEMORY_ERROR) RAISE(ERR_SYSTEM, "out of memory reading %s", hosts->source);
    int line = 1 + (int)parser->problem_mark.line;
    /* For an invalid byte, libyaml gives only its offset. */
    if (parser->error == YAML_READER_ERROR) {
        line = 1;
        const unsigned char *text = parser->input.string.start, *end = parser->input.string.end;
        for (size_t i = 0; i < parser->problem_offset && text + i < end; i++) line += text[i] == '\n';
    }
    return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "not YAML: %s%s%s", parser->problem,
                                   parser->context ? " " : "", parser->context ? parser->context : ""),
                         hosts, line);
}

/* Checks, before the tree is built, for a single document with limited depth and anchors: libyaml's time is
 * quadratic in both. */
static err_t look_over(yaml_parser_t *parser, hosts_t *hosts)
{
    enum { MAX_DEPTH = 16, MAX_ANCHORS = 256 };
    int depth = 0, n_anchors = 0, n_documents = 0;
    for (bool at_end = false; !at_end;) {
        yaml_event_t event;
        const char *wrong = NULL;
        if (!yaml_parser_parse(parser, &event)) return raise_parser(parser, hosts);
        int line = 1 + (int)event.start_mark.line;
        at_end = event.type == YAML_STREAM_END_EVENT;
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        n_documents += event.type == YAML_DOCUMENT_START_EVENT;
        n_anchors += (event.type == YAML_SCALAR_EVENT && event.data.scalar.anchor) ||
                     (event.type == YAML_SEQUENCE_START_EVENT && event.data.sequence_start.anchor) ||
                     (event.type == YAML_MAPPING_START_EVENT && event.data.mapping_start.anchor);
        if (depth > MAX_DEPTH) wrong = "lists and maps are nested too deeply for a resource spec";
        if (n_anchors > MAX_ANCHORS) wrong = "too many anchors (&) for a resource spec";
        if (n_documents > 1) wrong = "a second document (---) begins here";
        yaml_event_delete(&event);
        if (wrong) return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "%s", wrong), hosts, line);
    }
    return ERR_OK;
}

static err_t read_tree(yaml_parser_t *parser, hosts_t *hosts)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document)) return raise_parser(parser, hosts);
    spec_t spec = {hosts, &document};
    err_t err = read_document(&spec);
    yaml_document_delete(&document);
    return err == ERR_OK ? hosts_complete(hosts) : err;
}

typedef err_t pass_t(yaml_parser_t *parser, hosts_t *hosts);

static err_t pass_over(const char *text, hosts_t *hosts, pass_t *pass)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) RAISE(ERR_SYSTEM, "out of memory reading %s", hosts->source);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    err_t err = pass(&parser, hosts);
    yaml_parser_delete(&parser);
    return err;
}

err_t hosts_read_spec(const char *text, const char *name, hosts_t *out)
{
    *out = (hosts_t){0};
    err_t err = arena_text(&out->arena, name, strlen(name), &out->source);
    if (err == ERR_OK) err = pass_over(text, out, look_over);
    if (err == ERR_OK) err = pass_over(text, out, read_tree);
    if (err != ERR_OK) hosts_free(out);
    return err;
}
