/* SPDX-License-Identifier: MIT */
/* The check `load`: what else uses the CPUs. Looks at the host while its ranks sleep, then at what each rank
 * gets while all compute. load_measure.c reads /proc, load_judge.c judges. */
#include "tools/check/load.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/comm/topo.h"
#include "tools/check/cases.h"

static const double idle_sec = 0.4, compute_sec = 0.2;

/* A rank, exchanged between ranks. */
typedef struct load_rank {
    int host, pid;
    cpu_set_t cpus;
    char machine[TOPO_HOST_MAX]; /* hosts of --ranks-per-host have the same */
} load_rank_t;

typedef struct load_host {
    cpu_set_t cpus; /* of its ranks */
    int n_ranks, n_pids;
    int *pids; /* [comm->size]: the first n_pids are on this machine */
} load_host_t;

static void find_host(const check_t *check, const load_rank_t *all, load_host_t *host)
{
    const load_rank_t *me = &all[check->comm->rank];
    for (int r = 0; r < check->comm->size; r++) {
        if (strcmp(all[r].machine, me->machine) == 0) host->pids[host->n_pids++] = all[r].pid;
        if (all[r].host != check->host) continue;
        CPU_OR(&host->cpus, &host->cpus, &all[r].cpus);
        host->n_ranks++;
    }
}

/* Local rank 0 of each host. */
static err_t watch_host(const load_host_t *host, load_facts_t *facts)
{
    load_snapshot_t before = {0}, after = {0};
    err_t err;
    TRY_OUT(err, load_snapshot_read("/proc", &host->cpus, host->pids, host->n_pids, &before));
    clock_sleep(idle_sec);
    TRY_OUT(err, load_snapshot_read("/proc", &host->cpus, host->pids, host->n_pids, &after));
    load_compare(&before, &after, &host->cpus, facts);
out:
    load_snapshot_free(&before);
    load_snapshot_free(&after);
    return err;
}

/* The share of a CPU that this thread gets while it computes. */
static double compute(void)
{
    double start = clock_sec(), used = clock_thread_sec();
    while (clock_sec() - start < compute_sec) continue;
    return (clock_thread_sec() - used) / (clock_sec() - start);
}

/* Computes on all ranks together. Sets the stolen share on local rank 0. */
static void watch_ranks(const load_host_t *host, bool speaks, double *got, double *stolen)
{
    load_snapshot_t before = {.stolen = -1}, after = {.stolen = -1};
    double tick_sec = 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (speaks) load_cpus_read("/proc", &host->cpus, &before);
    *got = compute();
    if (speaks) load_cpus_read("/proc", &host->cpus, &after);
    *stolen = -1;
    if (before.stolen < 0 || after.stolen < 0) return;
    int n = host->n_ranks < CPU_COUNT(&host->cpus) ? host->n_ranks : CPU_COUNT(&host->cpus);
    *stolen = tick_sec * (double)(after.stolen - before.stolen) / (compute_sec * n);
}

/* Collective. Ranks other than local rank 0 sleep while it watches the host. */
static err_t load_watch(check_t *check, const load_host_t *host)
{
    static const char what[] = "looking at the load";
    load_facts_t facts = {.n_cpus = CPU_COUNT(&host->cpus), .busy = -1, .average = -1, .stolen = -1};
    bool speaks = check_host(check).speaks;
    double got, fair = 1;
    err_t err = speaks ? watch_host(host, &facts) : ERR_OK;
    err_t woken = comm_barrier_asleep(check->comm, what);
    TRY(woken);
    TRY(comm_agree(check->comm, err, what));
    watch_ranks(host, speaks, &got, &facts.stolen);
    if (host->n_ranks > facts.n_cpus) fair = (double)facts.n_cpus / host->n_ranks;
    if (speaks) load_judge(check, &facts);
    load_judge_rank(check, got, fair);
    return ERR_OK;
}

static err_t load_run(check_t *check)
{
    static const char what[] = "comparing processes";
    comm_t *comm = check->comm;
    if (comm->topo.simulated) {
        check_line(check, check_job(check), "CPUs", CHECK_SKIP, NULL, "hosts are simulated");
        return ERR_OK;
    }
    load_rank_t mine = {.host = check->host, .pid = getpid()}, *all = NULL;
    load_host_t host = {.n_ranks = 0};
    memcpy(mine.machine, comm->topo.host_name, sizeof mine.machine);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_ZERO(&mine.cpus);
    err_t err = mem_new_array(comm->size, sizeof *all, "processes", &all);
    if (err == ERR_OK) err = mem_new_array(comm->size, sizeof *host.pids, "processes", &host.pids);
    TRY_OUT(err, comm_agree(comm, err, what));
    TRY_OUT(err, comm_allgather(comm, &mine, sizeof mine, all, what));
    find_host(check, all, &host);
    err = load_watch(check, &host);
out:
    mem_free(&all);
    mem_free(&host.pids);
    return err;
}

const check_case_t check_load = {"load", "other work on the CPUs, leftover jobs, stolen time", true,
                                 load_run};
