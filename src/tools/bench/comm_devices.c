/* SPDX-License-Identifier: MIT */
/* The block `Using devices` above the tables of `bench comm`, in nccl-tests' form: where every rank runs. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "tools/bench/comm_case.h"

typedef struct device_line {
    char text[256];
} device_line_t;

/* "0-3,8" */
static void format_cpus(char *out, size_t n_bytes)
{
    cpu_set_t cpus;
    size_t used = 0;
    out[0] = '\0';
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return;
    for (int i = 0; i < CPU_SETSIZE && used + 16 < n_bytes; i++) {
        int last = i;
        if (!CPU_ISSET(i, &cpus)) continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) last++;
        used += (size_t)snprintf(out + used, n_bytes - used, last > i ? "%s%d-%d" : "%s%d", used ? "," : "",
                                 i, last);
        i = last;
    }
}

static void describe_rank(const comm_session_t *s, char *out, size_t n_bytes)
{
    const backend_t *backend = s->bench->runtime.backend;
    const backend_device_t *gpu = backend->device ? backend->device() : NULL;
    const topo_t *topo = &s->bench->comm->topo;
    char where[72], name[64];
    if (gpu) {
        snprintf(where, sizeof where, "%2d [%s]", gpu->index, gpu->pci);
        snprintf(name, sizeof name, "%s", gpu->name);
    } else {
        char cpus[48];
        format_cpus(cpus, sizeof cpus);
        snprintf(where, sizeof where, "%s [%s]", backend->name, cpus);
        machine_cpu_name(name, sizeof name);
    }
    snprintf(out, n_bytes, "#  Rank %2d Group %2d Pid %6d on %10s device %s %s", topo->rank, 0, (int)getpid(),
             topo->host_name, where, name);
}

err_t comm_devices_print(comm_session_t *s)
{
    comm_t *comm = s->bench->comm;
    device_line_t mine = {0}, *all = NULL;
    describe_rank(s, mine.text, sizeof mine.text);
    err_t err = mem_new_array(comm->size, sizeof *all, "the list of devices", &all);
    TRY(comm_agree(comm, err, "listing the devices"));
    err = comm_allgather(comm, &mine, sizeof mine, all, "listing the devices");
    if (err == ERR_OK) {
        bench_print("# Using devices");
        for (int r = 0; r < comm->size; r++) bench_print("%s", all[r].text);
        bench_print("#");
    }
    mem_free(&all);
    return err;
}
