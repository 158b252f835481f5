/* SPDX-License-Identifier: MIT */
/* Reads the CPUs' and processes' use of time from /proc, and compares two such snapshots. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tools/check/load.h"

static const char leftover_name[] = "dptrain"; /* a prefix of the kernel's name of the process */
static const double least_cpus = 0.05;         /* of a culprit */

/* Sums the lines "cpuN …" of the CPUs asked for. */
void load_cpus_read(const char *proc, const cpu_set_t *cpus, load_snapshot_t *out)
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
    if (strncmp(process->at.name, leftover_name, strlen(leftover_name)) != 0) return;
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
