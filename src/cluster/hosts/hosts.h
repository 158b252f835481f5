/* The hosts of a job: what a hostfile, a list or a resource spec says, read into one table. Nothing is asked
 * of the hosts or of a name server, and there is no MPI. Not collective.
 *
 * Errors of a text are ERR_DATA with "FILE:LINE: …". Texts may be hostile: nothing in a table holds a control
 * character, addresses and users hold no character that a shell or ssh takes for anything but a letter, and
 * none begins with a dash. */
#ifndef CLUSTER_HOSTS_HOSTS_H
#define CLUSTER_HOSTS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"

enum {
    HOSTS_MAX_FILE_BYTES = 16 << 20,
    HOSTS_MAX = 1 << 16,       /* hosts in a table */
    HOSTS_MAX_SLOTS = 1 << 20, /* on one host */
    HOSTS_MAX_LISTED_SLOTS =
        1024, /* on one host, where their numbers are listed: GPUs, --include, --exclude */
};

typedef enum host_gpus {
    HOST_GPUS_UNKNOWN, /* a hostfile or list: slots may be GPUs or not */
    HOST_GPUS_NONE,    /* a resource spec names none: slots are CPUs */
    HOST_GPUS_KNOWN,   /* slots are GPUs */
} host_gpus_t;

typedef struct host_env {
    const char *name, *value;
} host_env_t;

/* Texts are NULL and numbers 0 where nothing is said. */
typedef struct host {
    const char *address; /* a name, an IPv4 address, or an IPv6 address without brackets, maybe with %zone */
    const char *key;     /* equal for two spellings of one address (case; zeros of IPv6) */
    int line;            /* of the text; in a list, its place, from 1 */
    int slots;           /* ranks, at least 1 */
    int max_slots;       /* at least slots */
    const int *ids;      /* ids of slots, ascending; NULL: 0 … slots - 1 */
    host_gpus_t gpus;
    bool chief; /* where rank 0 runs */
    int port;   /* sshd's */
    const char *user, *key_file;
    const char *env_file;   /* environment for the ranks, a file */
    const char *setup;      /* a shell command to run before the program, one line */
    const char *ssh_group;  /* of the spec, by name */
    const host_env_t *envs; /* shared_envs: environment for the ranks */
    int n_envs;
    double bandwidth_gbits; /* network_bandwidth, Gbit/s */
} host_t;

/* A zeroed table is empty. Texts live as long as the table. */
typedef struct hosts {
    host_t *at; /* the chief first, the others in the order of the text */
    int n;
    const char *source; /* the file's name, or "the list of hosts" */
    bool is_list;
    int capacity;
    arena_t arena;
} hosts_t;

/* Reads what `source` names, and is complete: at least one host, none twice, one chief, no loopback address
 * beside other hosts. An existing file is a resource spec where its name ends in .yaml or .yml, else a
 * hostfile. Where there is no such file, a word without a slash and with a colon or comma is a list; errors
 * in it are ERR_USAGE. Anything else is a file that is missing: ERR_DATA. On failure the table is empty. */
err_t hosts_read(const char *source, hosts_t *out);

/* The three forms from text, NUL-terminated; `name` is for messages. Complete as hosts_read. */

/* NAME [slots=N] [max_slots=N] a line, # begins a comment: the common part of OpenMPI's and DeepSpeed's.
 * Without slots= it is one: OpenMPI would count the host's cores, which cannot be known from here. The first
 * host is the chief. */
err_t hosts_read_hostfile(const char *text, const char *name, hosts_t *out);
/* HOST[:SLOTS],…; an IPv6 address is in brackets. The first is the chief. */
err_t hosts_read_list(const char *text, hosts_t *out);
/* YAML:
 *   nodes: [{address, cpus, gpus, chief, ssh_config, port, network_bandwidth}, …]
 *   ssh: {NAME: {key_file, username, port, shared_envs: {NAME: value}, env_file, setup}, …}
 * cpus and gpus are a list of numbers or a count. Slots are the GPUs where there are some, else the CPUs,
 * else 1. Exactly one node is chief; where there is one node only, chief may be left out. All others name
 * their ssh group by ssh_config. A node's port goes before its group's. ~/ at the beginning of a path is this
 * user's home folder. python_venv is an older name of setup. */
err_t hosts_read_spec(const char *text, const char *name, hosts_t *out);

void hosts_free(hosts_t *hosts);

/* Keeps what `include` names, or drops what `exclude` names; NULL or "": nothing is said. One of both at
 * most. DeepSpeed's form and meaning: NODE[@NODE…] with NODE = HOST[:SLOT[,SLOT…]], all slots of a host where
 * none is named; hosts keep their order. Naming a host twice, which DeepSpeed answers with the last, is an
 * error. IPv6 addresses with slots are in brackets. The first host that is left is chief where the chief is
 * not. ERR_USAGE: bad form, no such host or slot, nothing left; the table then is for hosts_free alone. */
err_t hosts_filter(hosts_t *hosts, const char *include, const char *exclude);

/* For hosts of which nothing is said; 0 and NULL: no default. ERR_USAGE where a spec would be refused. */
err_t hosts_default_login(hosts_t *hosts, int64_t port, const char *user, const char *key_file);

/* An OpenMPI hostfile. */
void hosts_write_hostfile(const hosts_t *hosts, FILE *out);
/* One Host block of ssh_config(5) for each host, for logins without prompts; known_hosts: the only file with
 * host keys, NULL: ssh's own. ERR_USAGE where it cannot be written down. */
err_t hosts_write_ssh_config(const hosts_t *hosts, const char *known_hosts, FILE *out);
/* For people; for jq, one object; and for shell scripts, a host a line, no header, nothing is "-":
 * address, slots, ids of slots with commas, port, user, key_file, yes or no for chief, env_file, setup, and from
 * the tenth field on one NAME=VALUE of shared_envs each, as a line of an env_file: no text holds a tab, so that
 * nothing is quoted and nothing need be evaluated. */
void hosts_write_table(const hosts_t *hosts, FILE *out);
err_t hosts_write_json(const hosts_t *hosts, FILE *out);
void hosts_write_tsv(const hosts_t *hosts, FILE *out);

#endif
