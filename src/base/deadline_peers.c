/* SPDX-License-Identifier: MIT */
/* Finds this job's ranks on this host by the environment of their processes, and each one's stage by the name
 * of its thread. Whether to speak is left to deadline.c. */
#include "base/deadline_peers.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/process.h"

enum { MAX_NAMED = 4, MAX_RANKS = 1024, ENVIRON_BYTES = 1 << 18 };

static const char *const names[DEADLINE_N_STAGES] = {"dp-start", "dp-init", "dp-run", "dp-finalize",
                                                     "dp-exit"};

const char *deadline_stage_name(deadline_stage_t stage)
{
    return names[stage];
}

typedef struct look {
    deadline_stage_t stage;
    deadline_peers_t *out;
    int n_named;
    bool seen[MAX_RANKS];
    char program[PATH_MAX], host[65];
    const char *job;
} look_t;

/* The value of a variable in a process's environment. */
static const char *find_variable(const char *environment, size_t n_bytes, const char *name)
{
    size_t n_name = strlen(name);
    for (size_t at = 0; at < n_bytes; at += strlen(environment + at) + 1)
        if (strncmp(environment + at, name, n_name) == 0 && environment[at + n_name] == '=')
            return environment + at + n_name + 1;
    return NULL;
}

/* The rank of a process; −1 if it is not one of this job's. */
static int rank_of(const look_t *look, long pid)
{
    static char environment[ENVIRON_BYTES];
    char path[64], program[PATH_MAX] = "";
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%ld/exe", pid);
    if (readlink(path, program, sizeof program - 1) < 0 || strcmp(program, look->program) != 0) return -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int reason = fs_read_all(fd, FS_HERE, environment, sizeof environment - 1, &n);
    close(fd);
    environment[n] = '\0';
    const char *job = reason ? NULL : find_variable(environment, n, "PMIX_NAMESPACE");
    const char *rank = job && strcmp(job, look->job) == 0 ? find_variable(environment, n, "PMIX_RANK") : NULL;
    return rank && isdigit((unsigned char)rank[0]) ? atoi(rank) : -1;
}

/* DEADLINE_N_STAGES: unknown, before the first line of main. */
static deadline_stage_t stage_of(long pid)
{
    char path[300], name[32];
    deadline_stage_t stage = DEADLINE_N_STAGES;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/comm", pid, entry->d_name);
        if (entry->d_name[0] == '.' || !fs_read_line(path, name, sizeof name)) continue;
        for (int i = 0; i < DEADLINE_N_STAGES; i++)
            if (strcmp(name, names[i]) == 0) stage = (deadline_stage_t)i;
    }
    if (tasks) closedir(tasks);
    return stage;
}

/* What keeps a rank from this one's stage; NULL: nothing. */
static const char *what_keeps(const look_t *look, char state, deadline_stage_t stage)
{
    if (state == 'T' || state == 't') return "is stopped (SIGSTOP, or a debugger)";
    if (state == 'Z' || state == 'X') return "has ended";
    if (stage == DEADLINE_N_STAGES) return "has not started";
    if (stage >= look->stage) return NULL;
    return state == 'D'                   ? "waits for a disk or a device"
           : look->stage == DEADLINE_INIT ? "has not reached MPI_Init"
                                          : "has not reached MPI_Finalize";
}

static void look_at(look_t *look, long pid)
{
    int rank = rank_of(look, pid);
    if (rank < 0) return;
    look->out->n_seen++;
    if (rank < MAX_RANKS) look->seen[rank] = true;
    if (rank == launch_rank()) return;
    deadline_stage_t stage = stage_of(pid);
    process_t process;
    const char *why = what_keeps(look, process_read("/proc", pid, &process) ? process.state : '\0', stage);
    if (!why && stage == look->stage && rank < launch_rank()) look->out->first = false;
    if (!why) return;
    look->out->n_absent++;
    if (look->n_named++ < MAX_NAMED)
        message_append(&look->out->found, "; rank %d on %s (process %ld) %s", rank, look->host, pid, why);
}

static void look_at_launcher(look_t *look)
{
    process_t launcher;
    if (process_read("/proc", getppid(), &launcher) && launcher.state == 'T')
        message_append(&look->out->found, "; %s on %s (process %d), which started it, is stopped",
                       launcher.name, look->host, launcher.pid);
}

/* Ranks of this host that are missing in /proc: their numbers if the job has only this host, else how many. */
static void add_gone(look_t *look)
{
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    int n_local = text ? atoi(text) : 0, n_gone = n_local - look->out->n_seen;
    if (look->out->n_seen == 0 || n_gone <= 0) return;
    look->out->n_absent += n_gone;
    if (n_local != launch_size() || n_local > MAX_RANKS || n_gone > MAX_NAMED) {
        message_append(&look->out->found, "; %d of the %d ranks of %s %s not running", n_gone, n_local,
                       look->host, n_gone == 1 ? "is" : "are");
        return;
    }
    for (int rank = 0; rank < n_local; rank++)
        if (!look->seen[rank])
            message_append(&look->out->found, "; rank %d on %s is not running", rank, look->host);
}

void deadline_peers_look(deadline_stage_t stage, deadline_peers_t *out)
{
    look_t look = {.stage = stage, .out = out, .job = getenv("PMIX_NAMESPACE")};
    *out = (deadline_peers_t){.first = true};
    gethostname(look.host, sizeof look.host - 1);
    DIR *all = look.job && readlink("/proc/self/exe", look.program, sizeof look.program - 1) > 0
                   ? opendir("/proc")
                   : NULL;
    struct dirent *entry;
    while (all && (entry = readdir(all)))
        if (isdigit((unsigned char)entry->d_name[0])) look_at(&look, strtol(entry->d_name, NULL, 10));
    if (all) closedir(all);
    if (look.n_named > MAX_NAMED)
        message_append(&look.out->found, "; and %d more on %s", look.n_named - MAX_NAMED, look.host);
    add_gone(&look);
    look_at_launcher(&look);
}
