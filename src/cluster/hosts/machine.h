/* What this host is made of, as its kernel tells. Not collective. */
#ifndef CLUSTER_HOSTS_MACHINE_H
#define CLUSTER_HOSTS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* "Intel(R) Xeon(R) …"; "unknown CPU" where the kernel has no name. */
void machine_cpu_name(char *out, size_t n_bytes);
int machine_cpus(void);             /* online */
int64_t machine_memory_bytes(void); /* 0: not known */
/* What could still be had: MemAvailable, or less where a control group sets a limit. INT64_MAX: not known. */
int64_t machine_free_bytes(void);

/* A port to other hosts: an InfiniBand port, or a network interface that is up and not the loopback. */
typedef struct machine_port {
    char name[64];       /* "mlx5_0:1", "eth0" */
    double bits_per_sec; /* line rate, one way; 0: the driver does not tell */
} machine_port_t;

enum { MACHINE_MAX_PORTS = 32 };

/* In the order of their names, InfiniBand first; how many. */
int machine_ports(machine_port_t out[MACHINE_MAX_PORTS]);

#endif
