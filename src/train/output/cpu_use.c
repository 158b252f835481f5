/* SPDX-License-Identifier: MIT */
/* Gathers and words how the ranks share their CPUs. Advice is left to the header and the profile. */
#include "train/output/cpu_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/mem.h"
#include "base/process.h"

static int64_t count_switches(void)
{
    struct rusage usage;
    if (!launch_owns_process()) return 0; /* of all ranks, in real time */
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

void cpu_watch_open(cpu_watch_t *watch)
{
    contention_open(&watch->contention);
    cpu_watch_restart(watch);
}

void cpu_watch_restart(cpu_watch_t *watch)
{
    contention_update(&watch->contention);
    watch->since_sec = clock_sec();
    watch->n_switches = count_switches();
}

void cpu_watch_close(cpu_watch_t *watch)
{
    contention_close(&watch->contention);
}

typedef struct rank_use {
    double wait_share, switches_per_sec, load;
    int host, n_threads, n_cpus;
} rank_use_t;

/* Of the host of rank `first`. */
static void add_host(const rank_use_t *all, int size, int first, cpu_use_t *out)
{
    int n_ranks = 0, n_threads = 0;
    for (int r = 0; r < size; r++) {
        if (all[r].host != all[first].host) continue;
        n_ranks++;
        n_threads += all[r].n_threads;
    }
    if (out->n_cpus > 0 && n_threads * out->n_cpus <= out->n_threads * all[first].n_cpus) return;
    out->n_ranks = n_ranks;
    out->n_threads = n_threads;
    out->n_cpus = all[first].n_cpus;
}

err_t cpu_use_gather(comm_t *comm, const cpu_watch_t *watch, int n_threads, int n_cpus, cpu_use_t *out)
{
    static const char what[] = "comparing CPU use";
    const double sec = clock_sec() - watch->since_sec;
    rank_use_t *all, mine = {.wait_share = contention_share(&watch->contention),
                             .host = comm->topo.host,
                             .n_threads = n_threads,
                             .n_cpus = n_cpus};
    if (sec > 0) mine.switches_per_sec = (double)(count_switches() - watch->n_switches) / sec;
    if (getloadavg(&mine.load, 1) != 1) mine.load = 0;
    *out = (cpu_use_t){.n_cpus = 0};
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, what, &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    for (int r = 0; err == ERR_OK && r < comm->size; r++) {
        if (all[r].wait_share > out->wait_share) out->wait_share = all[r].wait_share;
        if (all[r].load > out->load) out->load = all[r].load;
        out->switches_per_sec += all[r].switches_per_sec;
        add_host(all, comm->size, r, out);
    }
    mem_free(&all);
    return err;
}

bool cpu_use_crowded(const cpu_use_t *use)
{
    return use->n_threads > use->n_cpus && use->n_cpus > 0;
}

bool cpu_use_short(const cpu_use_t *use)
{
    return cpu_use_crowded(use) || use->wait_share >= CPU_USE_SHORT;
}

void cpu_use_text(const cpu_use_t *use, char out[CPU_USE_TEXT_MAX])
{
    /* Threads then wait for each other's CPUs at every layer: a detector's step took four times as long on two
     * threads as on one at a load of 10 per CPU. */
    const bool threads_wait = use->n_threads > use->n_ranks && use->wait_share >= 0.5;
    int n = 0;
    out[0] = '\0';
    if (cpu_use_crowded(use))
        n = snprintf(out, CPU_USE_TEXT_MAX, "%d threads of %d rank%s share %d CPU%s", use->n_threads,
                     use->n_ranks, use->n_ranks > 1 ? "s" : "", use->n_cpus, use->n_cpus > 1 ? "s" : "");
    if (use->wait_share >= CPU_USE_SHORT)
        snprintf(out + n, CPU_USE_TEXT_MAX - (size_t)n,
                 "%sranks waited for a CPU %s of the time (%.0f involuntary switches/s, load %.1f)%s",
                 n ? "; " : "", figure_share(use->wait_share).text, use->switches_per_sec, use->load,
                 threads_wait ? "; try --threads 1" : "");
}

void cpu_use_json(const cpu_use_t *use, json_t *j)
{
    json_real(j, "cpu_wait_share", use->wait_share);
    json_real(j, "involuntary_switches_per_sec", use->switches_per_sec);
    json_real(j, "load", use->load);
}
