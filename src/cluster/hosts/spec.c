/* SPDX-License-Identifier: MIT */
/* Builds the table of hosts from a resource spec in YAML. Reading values out of the YAML tree is left to
 * spec_yaml.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "cluster/hosts/hosts.h"
#include "cluster/hosts/parse.h"
#include "cluster/hosts/spec_yaml.h"

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

static err_t read_devices(const spec_t *spec, const yaml_node_t *cpus, const yaml_node_t *gpus, host_t *host)
{
    int n_cpus = 0, n_gpus = 0, *cpu_ids = NULL, *gpu_ids = NULL;
    if (cpus) TRY(spec_ids(spec, cpus, "cpus", &n_cpus, &cpu_ids));
    if (gpus) TRY(spec_ids(spec, gpus, "gpus", &n_gpus, &gpu_ids));
    host->gpus = n_gpus ? HOST_GPUS_KNOWN : HOST_GPUS_NONE;
    host->ids = n_gpus ? gpu_ids : cpu_ids;
    host->slots = n_gpus ? n_gpus : n_cpus ? n_cpus : 1;
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
    bool is_chief = nodes->n == 1;
    TRY(spec_fields(spec, map, "nodes", keys, &f));
    if (!f.at[ADDRESS]) RAISE_AT(spec, map, "nodes: missing address");
    TRY(spec_text(spec, f.at[ADDRESS], "address", &address));
    TRY(hosts_at_line(hosts_add(spec->hosts, address, strlen(address), spec_line(map), &host), spec->hosts,
                      spec_line(f.at[ADDRESS])));
    TRY(read_devices(spec, f.at[CPUS], f.at[GPUS], host));
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
