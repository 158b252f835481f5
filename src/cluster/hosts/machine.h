/* SPDX-License-Identifier: MIT */
/* Hardware of this host, as reported by its kernel. Not collective. */
#ifndef CLUSTER_HOSTS_MACHINE_H
#define CLUSTER_HOSTS_MACHINE_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "text/json.h"

/* Such as "Intel(R) Xeon(R) …"; "unknown CPU" if the kernel has no name. Hypervisors give several generations the same. */
void machine_cpu_name(char *out, size_t n_bytes);

/* What tells generations apart. Unknown texts are "". */
typedef struct machine_cpu {
    char name[96];
    /* "AuthenticAMD family 25 model 17 stepping 1", "implementer 0x41 part 0xd0c …"; several: "a, b" */
    char type[128];
    char instructions[192]; /* the sets that matter to kernels: "avx2 fma avx512f", "asimd sve" */
    char caches[64];        /* of a core, without those of instructions: "32K 1024K 32768K" */
    int sockets;            /* 0: unknown */
    char microcode[32];     /* its revision: "0x2b000603" */
} machine_cpu_t;

void machine_cpu(machine_cpu_t *out);
/* Reads what /proc/cpuinfo would hold. */
void machine_cpu_read(FILE *cpuinfo, machine_cpu_t *out);
/* All of it in one line: what a measurement on one CPU says holds on CPUs with the same text. */
enum { MACHINE_CPU_TEXT = 512 };
void machine_cpu_text(char out[MACHINE_CPU_TEXT]);

/* A data or unified cache of a CPU. */
typedef struct machine_cache {
    int level;
    int64_t n_bytes;
    int n_sharers; /* CPUs that share it */
} machine_cache_t;

enum { MACHINE_MAX_CACHES = 4 };

/* Reads FOLDER/index0, index1, …, the nearest cache first, up to MACHINE_MAX_CACHES; NULL: those of CPU 0. Returns their number; 0: unknown. */
int machine_caches(const char *folder, machine_cache_t out[MACHINE_MAX_CACHES]);

/* At most what the caches hold for one of n_ranks ranks of this host with n_cpus CPUs each: all levels, and of a
 * level that CPUs share the rank's part. 0: unknown. */
int64_t machine_cache_bytes(int n_cpus, int n_ranks);

/* CPUs that are online, their cores and sockets, and the NUMA nodes that have some of them. 0: unknown. */
typedef struct machine_layout {
    int cpus, cores, sockets, nodes;
} machine_layout_t;

/* Reads ROOT/sys/devices/system; "": this machine's. */
void machine_layout_read(const char *root, machine_layout_t *out);

int machine_cpus(void);    /* online */
int machine_core(int cpu); /* the first hardware thread of a CPU's core; the CPU itself if unknown */
/* Parses the kernel's "0-3,8,10-11" into a set of n_bytes, or counts only: out NULL. Returns the number of CPUs; -1: malformed,
 * or beyond the set. */
int64_t machine_cpu_list(const char *text, cpu_set_t *out, size_t n_bytes);
int64_t machine_memory_bytes(void); /* 0: unknown */
/* Memory still available: MemAvailable, or less if a control group sets a limit. INT64_MAX: unknown. */
int64_t machine_free_bytes(void);
/* What the process's control groups, of version 1 or 2, and those above leave, including file caches that they can drop.
 * INT64_MAX: no limit.
 *
 *   groups  /proc/self/cgroup
 *   root    /sys/fs/cgroup */
int64_t machine_group_free_bytes(const char *groups, const char *root);

/* What these groups allow. Files as above. */
typedef struct machine_group_limits {
    int64_t memory_bytes; /* INT64_MAX: no limit */
    double cpus;          /* as CPU time per time; INFINITY: no limit */
} machine_group_limits_t;
void machine_group_limits(const char *groups, const char *root, machine_group_limits_t *out);

/* A port to other hosts: an InfiniBand port, or a network interface that is up and not the loopback. */
typedef struct machine_port {
    char name[64];       /* such as "mlx5_0:1", "eth0" */
    double bits_per_sec; /* line rate, one way; 0: unknown to the driver */
} machine_port_t;

enum { MACHINE_MAX_PORTS = 32 };

/* Adds what makes recordings comparable: CPU, memory, and the compute device, to the JSON object that the caller has begun. */
void machine_record(const char *device, json_t *j);

/* Lists ports in order of their names, InfiniBand first; returns their number. */
int machine_ports(machine_port_t out[MACHINE_MAX_PORTS]);

#endif
