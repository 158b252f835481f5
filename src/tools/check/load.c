/* SPDX-License-Identifier: MIT */
/* The check `load`: what else uses the CPUs. Looks at the host while its ranks sleep, then at what each rank gets while all
 * compute. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cluster/hosts/topo.h"
#include "text/figure.h"
#include "tools/check/cases.h"
#include "tools/check/host.h"

/* ---- Reading: the CPUs' and processes' use of time, of /proc ---- */
static const char leftover_name[] = "dptrain"; /* a prefix of the kernel's name of the process */
static const double least_cpus = 0.05;         /* of a culprit */

/* Sums the lines "cpuN …" of the CPUs asked for. */
static void load_cpus_read(const char *proc, const cpu_set_t *cpus, load_snapshot_t *out)
{
    char path[FS_PATH_MAX], line[512];
    out->stolen = -1;
    if (fs_join(path, proc, "stat") != ERR_OK) return;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        long long user, nice, system, irq, soft, stolen = 0;
        size_t cpu;
        int n = sscanf(line, "cpu%zu %lld %lld %lld %*d %*d %lld %lld %lld", &cpu, &user, &nice, &system,
                       &irq, &soft, &stolen);
        if (strncmp(line, "cpu", 3) != 0 || !isdigit((unsigned char)line[3])) continue;
        if (n < 6 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, cpus)) continue;
        out->busy += user + nice + system + irq + soft;
        if (n == 7) out->stolen = (out->stolen < 0 ? 0 : out->stolen) + stolen;
    }
    if (file) fclose(file);
}

static bool read_process(const char *proc, const char *pid, load_process_t *out)
{
    char path[FS_PATH_MAX];
    struct stat info;
    *out = (load_process_t){.of_job = false};
    if (!process_read(proc, strtol(pid, NULL, 10), &out->at)) return false;
    snprintf(path, sizeof path, "%s/%d/stat", proc, out->at.pid);
    out->mine = stat(path, &info) == 0 && info.st_uid == geteuid();
    return true;
}

static err_t add_process(const load_process_t *process, load_snapshot_t *out)
{
    TRY(mem_grow(out->n + 1, sizeof *out->processes, "a list of processes", &out->processes));
    out->processes[out->n++] = *process;
    return ERR_OK;
}

static bool has_leftover_name(const load_process_t *process)
{
    return strncmp(process->at.name, leftover_name, strlen(leftover_name)) == 0;
}

/* NULL: hidden, or gone. */
static load_process_t *find_parent(const load_snapshot_t *in, const load_process_t *process)
{
    for (int64_t i = 0; process->at.parent > 0 && i < in->n; i++)
        if (in->processes[i].at.pid == process->at.parent) return &in->processes[i];
    return NULL;
}

/* The job's launcher, `dptrain run`, is above its ranks, and its guard below it. */
static void mark_launchers(load_snapshot_t *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        load_process_t *above = s->processes[i].of_job ? find_parent(s, &s->processes[i]) : NULL;
        /* What was read over a while may have circles. */
        for (int64_t depth = 0; above && depth < s->n; depth++, above = find_parent(s, above))
            above->of_job |= has_leftover_name(above);
    }
    for (int64_t i = 0; i < s->n; i++) {
        const load_process_t *parent =
            has_leftover_name(&s->processes[i]) ? find_parent(s, &s->processes[i]) : NULL;
        if (parent && parent->of_job) s->processes[i].of_job = true;
    }
}

err_t load_snapshot_read(const char *proc, const cpu_set_t *cpus, const int *pids, int n_pids,
                         load_snapshot_t *out)
{
    err_t err = ERR_OK;
    *out = (load_snapshot_t){.sec = clock_sec()};
    load_cpus_read(proc, cpus, out);
    DIR *dir = opendir(proc);
    for (struct dirent *entry; err == ERR_OK && dir && (entry = readdir(dir));) {
        load_process_t process;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_process(proc, entry->d_name, &process))
            continue;
        for (int i = 0; i < n_pids; i++) process.of_job |= pids[i] == process.at.pid;
        err = add_process(&process, out);
    }
    if (dir) closedir(dir);
    mark_launchers(out);
    if (err != ERR_OK) load_snapshot_free(out);
    return err;
}

void load_snapshot_free(load_snapshot_t *snapshot)
{
    mem_free(&snapshot->processes);
    snapshot->n = 0;
}

/* NULL: not running then. */
static const load_process_t *find_process(const load_snapshot_t *in, const load_process_t *process)
{
    for (int64_t i = 0; i < in->n; i++)
        if (in->processes[i].at.pid == process->at.pid && in->processes[i].at.started == process->at.started)
            return &in->processes[i];
    return NULL;
}

/* Inserts by use of CPUs, the most first. */
static void note_culprit(const load_process_t *process, load_facts_t *facts)
{
    int at = facts->n_culprits;
    while (at > 0 && facts->culprits[at - 1].cpus < process->cpus) at--;
    if (at == LOAD_MAX_CULPRITS) return;
    if (facts->n_culprits < LOAD_MAX_CULPRITS) facts->n_culprits++;
    for (int i = facts->n_culprits - 1; i > at; i--) facts->culprits[i] = facts->culprits[i - 1];
    facts->culprits[at] = *process;
}

static void note_leftover(const load_process_t *process, double uptime_sec, double tick_sec,
                          load_facts_t *facts)
{
    double age = uptime_sec - tick_sec * (double)process->at.started;
    if (process->of_job || !process->mine || process->at.state == 'Z') return;
    if (!has_leftover_name(process)) return;
    if (facts->n_leftovers < LOAD_MAX_LEFTOVERS) facts->leftovers[facts->n_leftovers] = *process;
    facts->n_leftovers++;
    if (age > facts->oldest_sec) facts->oldest_sec = age;
}

static double read_number(const char *path, double otherwise)
{
    char line[128];
    double value;
    return fs_read_line(path, line, sizeof line) && sscanf(line, "%lf", &value) == 1 ? value : otherwise;
}

void load_compare(const load_snapshot_t *before, load_snapshot_t *after, const cpu_set_t *cpus,
                  load_facts_t *facts)
{
    double tick_sec = 1.0 / (double)sysconf(_SC_CLK_TCK), sec = after->sec - before->sec;
    double uptime_sec = read_number("/proc/uptime", 0), own = 0;
    if (sec <= 0) return;
    facts->n_cpus = CPU_COUNT(cpus);
    for (int64_t i = 0; i < after->n; i++) {
        load_process_t *process = &after->processes[i];
        const load_process_t *then = find_process(before, process);
        process->cpus = then ? tick_sec * (double)(process->at.ticks - then->at.ticks) / sec : 0;
        bool on_cpus =
            process->at.cpu >= 0 && process->at.cpu < CPU_SETSIZE && CPU_ISSET((size_t)process->at.cpu, cpus);
        if (process->of_job)
            own += process->cpus;
        else if (on_cpus && process->cpus >= least_cpus)
            note_culprit(process, facts);
        note_leftover(process, uptime_sec, tick_sec, facts);
    }
    facts->busy = tick_sec * (double)(after->busy - before->busy) / sec - own;
    if (facts->busy < 0) facts->busy = 0;
    facts->average = read_number("/proc/loadavg", -1);
}

/* ---- Judging. What can end before the job starts is a warning; --strict turns warnings into failures ---- */
static const double busy_share = 0.1;    /* of the job's CPUs */
static const double busy_process = 0.5;  /* CPUs of one process: it halves the speed of a rank bound there */
static const double stolen_share = 0.05; /* one tick of the kernel in 0.2 s */
static const double got_share = 0.9;     /* of the fair share */
static const double least_share = 0.5;   /* below it the job runs at less than half its speed: a failure */

static void judge_cpus(check_t *check, const load_facts_t *f)
{
    char text[256], average[32] = "";
    size_t used = (size_t)snprintf(text, sizeof text, "%.1f of %d CPU%s in use by others", f->busy, f->n_cpus,
                                   f->n_cpus == 1 ? "" : "s");
    bool busy =
        f->busy > busy_share * f->n_cpus || (f->n_culprits > 0 && f->culprits[0].cpus >= busy_process);
    for (int i = 0; busy && i < f->n_culprits && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f (%d)", i ? ", " : ": ",
                                 f->culprits[i].at.name, f->culprits[i].cpus, f->culprits[i].at.pid);
    if (busy && f->average >= 0) snprintf(average, sizeof average, "; load average %.1f", f->average);
    if (f->busy < 0)
        check_line(check, check_host(check), "CPUs in use", CHECK_SKIP, NULL, "not reported by the kernel");
    else
        check_measured(
            check, check_host(check), "CPUs in use", busy ? CHECK_WARN : CHECK_OK,
            "all ranks wait for the slowest: end those processes (numbers in parentheses), or leave "
            "the host out; unnamed ones are in another container",
            check_less(f->busy), "%s%s", text, average);
}

static void judge_leftovers(check_t *check, const load_facts_t *f)
{
    char text[256] = "";
    size_t used = 0;
    if (f->n_leftovers == 0) {
        check_line(check, check_host(check), "other jobs", CHECK_OK, NULL, "no other dptrain process");
        return;
    }
    for (int i = 0; i < f->n_leftovers && i < LOAD_MAX_LEFTOVERS && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "", f->leftovers[i].at.pid);
    check_line(
        check, check_host(check), "other jobs", CHECK_WARN,
        "if they are left over from an earlier job: kill PROCESS, with -9 if it stays; otherwise wait for "
        "that job to end",
        "%d other dptrain process%s of this user, the oldest for %s: %s%s", f->n_leftovers,
        f->n_leftovers == 1 ? "" : "es", figure_duration(f->oldest_sec).text, text,
        f->n_leftovers > LOAD_MAX_LEFTOVERS ? " …" : "");
}

void load_judge(check_t *check, const load_facts_t *f)
{
    judge_cpus(check, f);
    judge_leftovers(check, f);
    if (f->stolen < 0)
        check_line(check, check_host(check), "stolen time", CHECK_SKIP, NULL, "not reported by the kernel");
    else
        check_measured(check, check_host(check), "stolen time",
                       f->stolen > stolen_share ? CHECK_WARN : CHECK_OK,
                       "the hypervisor gives these CPUs to other virtual machines: use dedicated cores, or "
                       "leave the host out",
                       check_less(f->stolen), "%s of the CPU time", figure_share(f->stolen).text);
}

void load_judge_rank(check_t *check, double got, double fair)
{
    if (got >= got_share * fair)
        check_measured(check, check_rank(check), "CPU time", CHECK_OK, NULL, check_more(got),
                       "gets %s of a CPU", figure_share(got).text);
    else /* rounded, so that ranks have equal lines */
        check_measured(
            check, check_rank(check), "CPU time",
            got < least_share * fair && !check->options->allow_busy ? CHECK_FAIL : CHECK_WARN,
            "another process on the same core, another virtual machine, or a quota (docker --cpus, "
            "cpu.max) takes the rest; --allow-busy lets the check pass",
            check_more(got), "gets about %s of a CPU", figure_share(0.1 * rint(10 * got)).text);
}

/* ---- The check ---- */
static const double idle_sec = 0.4, compute_sec = 0.2;

/* A rank, exchanged between ranks. */
typedef struct load_rank {
    int pid;
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
        if (check->ranks[r].host != check->host) continue;
        CPU_OR(&host->cpus, &host->cpus, &check->ranks[r].cpus);
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
    load_rank_t mine = {.pid = getpid()}, *all = NULL;
    load_host_t host = {.n_ranks = 0};
    memcpy(mine.machine, comm->topo.host_name, sizeof mine.machine);
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
