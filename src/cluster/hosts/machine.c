/* SPDX-License-Identifier: MIT */
/* Reads CPU, memory and network ports of this machine from /proc and /sys. What is missing there is reported
 * as unknown, never as an error. */
#include "cluster/hosts/machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

void machine_cpu_name(char *out, size_t n_bytes)
{
    char line[256];
    snprintf(out, n_bytes, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", strlen("model name")) != 0) continue;
        const char *name = colon + 1 + strspn(colon + 1, " \t");
        snprintf(out, n_bytes, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    if (file) fclose(file);
}

int machine_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static int64_t from_meminfo(const char *key, int64_t otherwise)
{
    char line[128];
    int64_t bytes = otherwise;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) bytes = 1024 * strtoll(line + strlen(key), NULL, 10);
    if (file) fclose(file);
    return bytes;
}

/* Reads a file with one number; returns `otherwise` if it has none ("max"). */
static int64_t read_number(const char *path, int64_t otherwise)
{
    long long value;
    char line[64];
    return fs_read_line(path, line, sizeof line) && sscanf(line, "%lld", &value) == 1 ? value : otherwise;
}

int64_t machine_memory_bytes(void)
{
    return from_meminfo("MemTotal:", 0);
}

/* Of the control group (version 2) that a container sees at the root of the mount. */
static int64_t group_free_bytes(void)
{
    int64_t limit = read_number("/sys/fs/cgroup/memory.max", INT64_MAX);
    if (limit == INT64_MAX) return INT64_MAX;
    int64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
    return used < limit ? limit - used : 0;
}

int64_t machine_free_bytes(void)
{
    int64_t host = from_meminfo("MemAvailable:", INT64_MAX), group = group_free_bytes();
    return host < group ? host : group;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Calls `add` for each entry of a folder, sorted by name. */
static void each_entry(const char *folder, void (*add)(const char *name, machine_port_t *out, int *n),
                       machine_port_t *out, int *n)
{
    struct dirent **entries;
    int n_entries = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n_entries; i++) {
        if (*n < MACHINE_MAX_PORTS) add(entries[i]->d_name, out, n);
        free(entries[i]);
    }
    if (n_entries >= 0) free(entries);
}

/* /sys/class/infiniband/NAME/ports/1/rate: "200 Gb/sec (4X HDR)". */
static void add_infiniband(const char *name, machine_port_t *out, int *n)
{
    char path[256], line[64];
    double gbits = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.64s/ports/1/rate", name);
    if (!fs_exists(path)) return;
    if (!fs_read_line(path, line, sizeof line) || sscanf(line, "%lf", &gbits) != 1) gbits = 0;
    snprintf(out[*n].name, sizeof out[*n].name, "%.60s:1", name);
    out[(*n)++].bits_per_sec = 1e9 * gbits;
}

/* The file holds Mbit/s; -1 or an error if the driver does not know. */
static void add_interface(const char *name, machine_port_t *out, int *n)
{
    char path[256], state[16];
    if (strcmp(name, "lo") == 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/operstate", name);
    if (!fs_read_line(path, state, sizeof state) || strcmp(state, "up") != 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/speed", name);
    int64_t megabits = read_number(path, 0);
    snprintf(out[*n].name, sizeof out[*n].name, "%.63s", name);
    out[(*n)++].bits_per_sec = megabits > 0 ? 1e6 * (double)megabits : 0;
}

int machine_ports(machine_port_t out[MACHINE_MAX_PORTS])
{
    int n = 0;
    each_entry("/sys/class/infiniband", add_infiniband, out, &n);
    each_entry("/sys/class/net", add_interface, out, &n);
    return n;
}
