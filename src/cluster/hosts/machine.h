/* SPDX-License-Identifier: MIT */
/* Hardware of this host, as reported by its kernel. Not collective. */
#ifndef CLUSTER_HOSTS_MACHINE_H
#define CLUSTER_HOSTS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Such as "Intel(R) Xeon(R) …"; "unknown CPU" if the kernel has no name. */
void machine_cpu_name(char *out, size_t n_bytes);
int machine_cpus(void);             /* online */
int64_t machine_memory_bytes(void); /* 0: unknown */
/* Memory still available: MemAvailable, or less if a control group sets a limit. INT64_MAX: unknown. */
int64_t machine_free_bytes(void);

/* A port to other hosts: an InfiniBand port, or a network interface that is up and not the loopback. */
typedef struct machine_port {
    char name[64];       /* such as "mlx5_0:1", "eth0" */
    double bits_per_sec; /* line rate, one way; 0: unknown to the driver */
} machine_port_t;

enum { MACHINE_MAX_PORTS = 32 };

/* Lists ports in order of their names, InfiniBand first; returns their number. */
int machine_ports(machine_port_t out[MACHINE_MAX_PORTS]);

#endif
