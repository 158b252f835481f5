/* SPDX-License-Identifier: MIT */
/* The hosts of a job: reads a hostfile, list or resource spec into a table. Contacts neither the hosts nor a
 * name server, and does not use MPI. Not collective.
 *
 * Errors in a text are ERR_DATA with "FILE:LINE: …". Texts may be hostile: nothing in a table contains a
 * control character, addresses and users contain no character that is special to a shell or ssh, and none
 * begins with a dash. */
#ifndef CLUSTER_HOSTS_HOSTS_H
#define CLUSTER_HOSTS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum {
    HOSTS_MAX_FILE_BYTES = 16 << 20,
    HOSTS_MAX = 1 << 16,           /* hosts per table */
    HOSTS_MAX_LINES = 1 << 20,     /* of a text, which may name a host several times */
    HOSTS_MAX_SLOTS = 1 << 20,     /* on one host */
    HOSTS_MAX_LISTED_SLOTS = 1024, /* per host, if their ids are listed: GPUs, --include, --exclude */
};

typedef enum host_gpus {
    HOST_GPUS_UNKNOWN, /* a hostfile or list: slots may or may not be GPUs */
    HOST_GPUS_NONE,    /* a resource spec without GPUs: slots are CPUs */
    HOST_GPUS_KNOWN,   /* slots are GPUs */
} host_gpus_t;

typedef struct host_env {
    const char *name, *value;
} host_env_t;

/* Texts not given are NULL, numbers not given are 0. */
typedef struct host {
    const char *address; /* name, IPv4 address, or IPv6 address without brackets, possibly with %zone */
    const char *key;     /* equal for spellings of the same address (case; zeros of IPv6) */
    int line;            /* line of the text; in a list, the position, from 1 */
    int slots;           /* ranks; 0: as many as the host has GPUs or cores, see hosts_read_hostfile */
    int max_slots;       /* at least slots */
    const int *ids;      /* ids of slots, ascending; NULL: 0 … slots - 1 */
    host_gpus_t gpus;
    bool chief; /* where rank 0 runs */
    int port;   /* port of sshd */
    const char *user, *key_file;
    const char *env_file;   /* file with environment variables for the ranks */
    const char *setup;      /* a shell command to run before the program, one line */
    const char *ssh_group;  /* name of the group in the spec */
    const host_env_t *envs; /* shared_envs: environment of the ranks */
    int n_envs;
    double bandwidth_gbits; /* network_bandwidth, Gbit/s */
} host_t;

/* A zeroed table is empty. Texts live as long as the table. */
typedef struct hosts {
    host_t *at; /* the chief first, then the others in text order */
    int n;
    const char *source; /* the file's name, or "the list of hosts" */
    bool is_list;
    arena_t arena;
} hosts_t;

/* Reads and checks a description: at least one host, no duplicates in a spec, one chief, and no loopback address among
 * several hosts. On failure the table is empty.
 *
 *   source  an existing file: a resource spec if the name ends in .yaml or .yml, else a hostfile. Otherwise,
 *           a
 *           word with a colon or comma and without a slash is a list, whose errors are ERR_USAGE. Anything
 *           else is a missing file: ERR_DATA */
err_t hosts_read(const char *source, hosts_t *out);

/* The three forms from NUL-terminated text; `name` is for messages. Checked as by hosts_read. */

/* NAME [slots=N] [max_slots=N] per line, # begins a comment: the common subset of OpenMPI's and DeepSpeed's
 * hostfiles. NAME:N is MPICH's form, node[1-4] and node[01-04,7] are Slurm's. USER@NAME sets the user. The
 * first host is the chief.
 *
 * Without slots a host has max_slots, or else as many as it has GPUs if the job uses them, otherwise cores
 * (OpenMPI's rule). They are not known here: slots is 0, and who starts ranks asks the host. A host in several
 * lines has the slots of all of them. There a line without slots is one slot, as in the hostfiles of PBS and
 * LSF, and so is then every line without slots of the file. */
err_t hosts_read_hostfile(const char *text, const char *name, hosts_t *out);
/* [USER@]HOST[:SLOTS],…; slots defaults to 1, as in mpirun -H. IPv6 addresses are in brackets; ranges and hosts that
 * are named several times as in hostfiles. The first host is the chief. */
err_t hosts_read_list(const char *text, hosts_t *out);
/* YAML:
 *
 *   nodes: [{address, cpus, gpus, chief, ssh_config, port, network_bandwidth}, …]
 *   ssh: {NAME: {key_file, username, port, shared_envs: {NAME: value}, env_file, setup}, …}
 *
 * cpus and gpus are a list of ids or a count. Slots are the GPUs if there are any, else the CPUs, else 1.
 * Exactly one node is chief; with a single node, chief may be omitted. All others name their ssh group by
 * ssh_config. A node's port overrides its group's. A leading ~/ of a path is this user's home folder.
 * python_venv is an older name of setup. */
err_t hosts_read_spec(const char *text, const char *name, hosts_t *out);

void hosts_free(hosts_t *hosts);

/* Keeps the hosts in `include`, or drops those in `exclude`; NULL or "": not given. At most one of them may
 * be given. Syntax and meaning are DeepSpeed's: NODE[@NODE…] with NODE = HOST[:SLOT[,SLOT…]]; without slots,
 * all slots of the host; hosts keep their order. Unlike in DeepSpeed, where the last one wins, naming a host
 * twice is an error. IPv6 addresses with slots are in brackets. If the chief is dropped, the first remaining
 * host becomes chief. ERR_USAGE: bad syntax, unknown host or slot, nothing left; the table may then only be
 * freed. */
err_t hosts_filter(hosts_t *hosts, const char *include, const char *exclude);

/* Defaults for hosts without these values; 0 and NULL: no default. ERR_USAGE for values that a spec must not
 * have. */
err_t hosts_default_login(hosts_t *hosts, int64_t port, const char *user, const char *key_file);

/* Writes an OpenMPI hostfile. A host whose slots are not known is a name alone. */
void hosts_write_hostfile(const hosts_t *hosts, FILE *out);
/* Writes a line `KEY "PATH"` of ssh_config(5); % is doubled, as ssh expands it. */
void hosts_write_path(const char *key, const char *path, FILE *out);
/* Writes a Host block of ssh_config(5) for each host, for logins without prompts. ERR_USAGE if a path cannot
 * be expressed.
 *
 *   known_hosts  the only file with host keys; NULL: ssh's defaults */
err_t hosts_write_ssh_config(const hosts_t *hosts, const char *known_hosts, FILE *out);
/* Writes a human-readable table; one JSON object; or tab-separated values, one line per host without a
 * header. Fields of the latter: address, slots, ids of slots (comma-separated), port, user, key_file, yes or
 * no for chief, env_file, setup, and from the tenth field on one NAME=VALUE of shared_envs each. A missing
 * value, also of slots, is "-". No text contains a tab, so nothing is quoted. */
err_t hosts_write_table(const hosts_t *hosts, FILE *out);
err_t hosts_write_json(const hosts_t *hosts, FILE *out);
void hosts_write_tsv(const hosts_t *hosts, FILE *out);

#endif
