/* SPDX-License-Identifier: MIT */
/* The check `topology`: CPU binding, NUMA nodes and the distance to the GPU, read from sysfs. */
#include "tools/check/host.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "tools/check/cases.h"

enum { MAX_NODES = 64, LINE_TEXT = 4096 };

static bool read_list(const char *path, cpu_set_t *out)
{
    char line[LINE_TEXT];
    CPU_ZERO(out);
    return fs_read_line(path, line, sizeof line) && machine_cpu_list(line, out, sizeof *out) >= 0;
}

static int read_int(const char *path, int otherwise)
{
    char line[32];
    int value;
    return fs_read_line(path, line, sizeof line) && sscanf(line, "%d", &value) == 1 ? value : otherwise;
}

static void find_cores(const cpu_set_t *cpus, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, cpus)) CPU_SET((size_t)machine_core((int)cpu), out);
}

static void find_nodes(const cpu_set_t *cpus, topology_facts_t *out)
{
    for (int node = 0; node < MAX_NODES; node++) {
        char path[128];
        cpu_set_t of_node, both;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        if (!read_list(path, &of_node) || CPU_COUNT(&of_node) == 0) continue;
        out->n_host_nodes++;
        CPU_AND(&both, &of_node, cpus);
        if (CPU_COUNT(&both) > 0) out->nodes |= (uint64_t)1 << node;
    }
}

/* The kernel's file for a node lists its distance to each online node, in order. */
static int read_distance(int from, int to)
{
    char path[128], line[LINE_TEXT];
    cpu_set_t online;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", from);
    if (!fs_read_line(path, line, sizeof line) || !read_list("/sys/devices/system/node/online", &online))
        return 0;
    char *at = line;
    for (int node = 0; node < to; node++)
        if (CPU_ISSET((size_t)node, &online)) strtol(at, &at, 10);
    return (int)strtol(at, NULL, 10);
}

static void find_gpu(const char *pci, topology_facts_t *out)
{
    char path[128], name[24];
    snprintf(name, sizeof name, "%s", pci);
    for (char *p = name; *p; p++) *p = (char)tolower((unsigned char)*p);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", name);
    out->gpu_node = read_int(path, -1);
    for (int node = 0; out->gpu_node >= 0 && node < MAX_NODES; node++) {
        if (!(out->nodes >> node & 1)) continue;
        int distance = read_distance(node, out->gpu_node);
        if (out->gpu_distance == 0 || distance < out->gpu_distance) out->gpu_distance = distance;
    }
}

/* Reads the facts of this rank. */
static void topology_read(const check_t *check, topology_facts_t *out)
{
    const cpu_set_t mine = check->ranks[check->comm->rank].cpus;
    cpu_set_t online, online_cores;
    memset(out, 0, sizeof *out);
    out->host = check->host;
    out->gpu_node = -1;
    out->known = CPU_COUNT(&mine) > 0;
    if (!read_list("/sys/devices/system/cpu/online", &online)) online = mine;
    find_cores(&online, &online_cores);
    find_cores(&mine, &out->cores);
    find_nodes(&mine, out);
    out->n_cpus = CPU_COUNT(&mine);
    out->n_host_cpus = machine_cpus();
    out->n_host_cores = CPU_COUNT(&online_cores);
    out->bound = out->n_cpus < CPU_COUNT(&online);
    if (check->device) find_gpu(check->device->pci, out);
}

static void judge_host_cores(check_t *check, const topology_facts_t *f)
{
    check_where_t where = check_host(check);
    const check_rank_t *me = &check->ranks[check->comm->rank];
    int n = check->comm->topo.local_size;
    bool crowded = n > f->n_host_cores && f->n_host_cores > 0;
    check_line(check, where, "ranks", crowded ? CHECK_WARN : CHECK_OK,
               "ranks compete for CPUs: lower the host's slots", "%d on %d core%s (%d CPU%s)", n,
               f->n_host_cores, f->n_host_cores == 1 ? "" : "s", f->n_host_cpus,
               f->n_host_cpus == 1 ? "" : "s");
    if (me->twin && check->options->runtime.ranks_per_host == 0)
        check_line(check, where, "host name", CHECK_WARN, "give each host a unique name (hostnamectl)",
                   "another host has the same name");
}

/* Number of ranks that share a core with this one, including itself; *n_cores: cores that they have
 * together. */
static int count_sharing(const check_t *check, const topology_facts_t *all, int *n_cores)
{
    const topology_facts_t *f = &all[check->comm->rank];
    cpu_set_t both, together = f->cores;
    int n = 0;
    for (int r = 0; r < check->comm->size; r++) {
        if (all[r].host != f->host || !all[r].known) continue;
        CPU_AND(&both, &all[r].cores, &f->cores);
        if (CPU_COUNT(&both) == 0) continue;
        CPU_OR(&together, &together, &all[r].cores);
        n++;
    }
    *n_cores = CPU_COUNT(&together);
    return n;
}

static void judge_binding(check_t *check, const topology_facts_t *all)
{
    const topology_facts_t *f = &all[check->comm->rank];
    check_where_t where = check_rank(check);
    if (!f->known) {
        check_line(check, where, "CPUs", CHECK_SKIP, NULL, "not reported by the kernel");
        return;
    }
    int n_cores, n = count_sharing(check, all, &n_cores);
    if (f->bound && n > n_cores) {
        check_line(check, where, "CPUs", CHECK_WARN,
                   "two ranks on one core run at half speed: check --bind-to, --map-by and the slots",
                   "%d ranks are bound to the same %d core%s", n, n_cores, n_cores == 1 ? "" : "s");
    } else if (!f->bound && f->n_host_nodes > 1 && check->comm->topo.local_size > 1) {
        check_line(check, where, "CPUs", CHECK_WARN,
                   "ranks migrate between NUMA nodes: use mpirun --bind-to core or --bind-to numa",
                   "not bound, %d NUMA nodes", f->n_host_nodes);
    } else {
        char node[32] = "";
        if (f->bound && (f->nodes & (f->nodes - 1)) == 0 && f->nodes && f->n_host_nodes > 1)
            snprintf(node, sizeof node, " of NUMA node %d", __builtin_ctzll(f->nodes));
        check_line(check, where, "CPUs", CHECK_OK, NULL, "%s %d CPU%s%s",
                   f->bound ? "bound to" : "not bound,", f->n_cpus, f->n_cpus == 1 ? "" : "s", node);
    }
}

static void judge_gpu(check_t *check, const topology_facts_t *f)
{
    check_where_t where = check_rank(check);
    if (f->gpu_node < 0 || !f->known) return;
    if (f->nodes >> f->gpu_node & 1)
        check_line(check, where, "GPU and CPUs", CHECK_OK, NULL, "in one NUMA node");
    else
        check_line(check, where, "GPU and CPUs", CHECK_WARN,
                   "bind the rank to cores of its GPU's node, or reorder the GPUs with --gpus",
                   "the GPU is in NUMA node %d, the CPUs are not (distance %d)", f->gpu_node,
                   f->gpu_distance);
}

void topology_judge(check_t *check, const topology_facts_t *all)
{
    const topology_facts_t *f = &all[check->comm->rank];
    judge_host_cores(check, f);
    judge_binding(check, all);
    judge_gpu(check, f);
}

static err_t topology_run(check_t *check)
{
    static const char what[] = "comparing CPU masks";
    topology_facts_t mine, *all = NULL;
    topology_read(check, &mine);
    TRY(comm_agree(check->comm, mem_new_array(check->comm->size, sizeof *all, "CPU masks", &all), what));
    err_t err = comm_allgather(check->comm, &mine, sizeof mine, all, what);
    if (err == ERR_OK) topology_judge(check, all);
    mem_free(&all);
    return err;
}

const check_case_t check_topology = {"topology", "placement and CPU binding of ranks, distance to their GPUs",
                                     true, topology_run};
