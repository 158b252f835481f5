/* SPDX-License-Identifier: MIT */
/* The check `gpu`: the device of each rank, ranks that share a GPU, and other work on the GPUs. Their health is in gpu_health.c. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "text/figure.h"
#include "tools/check/cases.h"
#include "tools/check/host.h"

/* ---- Processes of others, computations and memory in use on the GPUs of this host's ranks, which only have opened their
 * contexts ---- */
#define MIB (1024.0 * 1024)

static const double most_busy = 10;     /* percent */
static const double most_memory = 0.25; /* of the GPU's; a context takes 1 to 2 % */

/* Copies the text up to the comma, without blanks around it; returns what follows, or NULL at the end. */
static const char *next_field(const char *at, const char *end, char *out, size_t n_bytes)
{
    const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
    while (at < stop && *at == ' ') at++;
    int n = (int)(stop - at);
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\r')) n--;
    snprintf(out, n_bytes, "%.*s", n, at);
    return comma ? comma + 1 : NULL;
}

static bool parse_app(const char *line, const char *end, smi_app_t *app)
{
    char uuid[64], pid[32], memory[32], *stop;
    const char *at = next_field(line, end, uuid, sizeof uuid);
    *app = (smi_app_t){.memory = -1};
    if (at) at = next_field(at, end, pid, sizeof pid);
    if (at) at = next_field(at, end, memory, sizeof memory);
    if (!at || strncmp(uuid, "GPU-", 4) != 0) return false;
    app->pid = (int)strtol(pid, &stop, 10);
    if (*stop || stop == pid || app->pid <= 0) return false;
    double mib = strtod(memory, &stop);
    if (stop != memory && !*stop) app->memory = MIB * mib;
    while (at < end && *at == ' ') at++;
    for (const char *p = at; p < end; p++) /* only the program of a path */
        if (*p == '/') at = p + 1;
    next_field(at, end, app->name, sizeof app->name);
    smi_plain_uuid(uuid, app->uuid, sizeof app->uuid);
    app->visible = kill(app->pid, 0) == 0 || errno != ESRCH;
    return true;
}

err_t smi_apps_parse(const char *text, smi_app_t apps[SMI_MAX_APPS], int *n)
{
    *n = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length > 0 && *n < SMI_MAX_APPS) {
            if (!parse_app(text, text + length, &apps[*n]))
                RAISE(ERR_DATA, "unexpected output of nvidia-smi: %.*s", length < 200 ? (int)length : 200,
                      text);
            ++*n;
        }
        text += length + (text[length] == '\n');
    }
    return ERR_OK;
}

/* Runs nvidia-smi; errors as smi_query. */
static err_t smi_apps_query(double timeout_sec, smi_app_t apps[SMI_MAX_APPS], int *n)
{
    static const char *const argv[] = {"nvidia-smi",
                                       "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
                                       "--format=csv,noheader,nounits", NULL};
    char text[SMI_MAX_APPS * 256];
    int exit_code;
    *n = 0;
    TRY(process_run(argv, timeout_sec, text, sizeof text, &exit_code));
    if (exit_code != 0) RAISE(ERR_SYSTEM, "nvidia-smi exited with code %d", exit_code);
    return smi_apps_parse(text, apps, n);
}

static bool is_rank(const smi_use_t *use, const smi_app_t *app)
{
    for (int r = 0; r < use->n_ranks; r++)
        if (use->ranks[r].pid == app->pid && strcmp(use->ranks[r].uuid, app->uuid) == 0) return true;
    return false;
}

/* Lists processes of others on a GPU in `out`; returns their number. */
static int list_others(const smi_use_t *use, const char *uuid, char *out, size_t n_bytes)
{
    int n_own = 0, n_hidden = 0, n = 0;
    size_t used = 0;
    out[0] = '\0';
    for (int r = 0; r < use->n_ranks; r++) n_own += strcmp(use->ranks[r].uuid, uuid) == 0;
    for (int i = 0; i < use->n_apps; i++) {
        const smi_app_t *app = &use->apps[i];
        if (strcmp(app->uuid, uuid) != 0) continue;
        if (is_rank(use, app)) {
            n_own--;
        } else if (!app->visible) {
            n_hidden++;
        } else {
            char memory[64] = "";
            if (app->memory >= 0) snprintf(memory, sizeof memory, " with %s", figure_bytes(app->memory).text);
            if (used < n_bytes)
                used += (size_t)snprintf(out + used, n_bytes - used, "%s%s (%d)%s", n ? ", " : "", app->name,
                                         app->pid, memory);
            n++;
        }
    }
    if (n_hidden <= n_own) return n;
    if (used < n_bytes)
        snprintf(out + used, n_bytes - used, "%s%d in another container", n ? ", " : "", n_hidden - n_own);
    return n + n_hidden - n_own;
}

/* Returns the number of lines. */
static int judge_gpu_use(check_t *check, const smi_use_t *use, const smi_gpu_t *gpu)
{
    check_where_t where = check_host(check);
    char others[160];
    bool allowed = check->options->runtime.share_gpu;
    if (list_others(use, gpu->uuid, others, sizeof others) > 0)
        check_line(
            check, where, "GPU use", allowed ? CHECK_WARN : CHECK_FAIL,
            "end those processes (numbers in parentheses), or use other GPUs (--gpus); dptrain processes "
            "are left over from an earlier job",
            "GPU %d: in use by %s", gpu->index, others);
    else if (gpu->busy > most_busy)
        check_line(check, where, "GPU use", CHECK_WARN,
                   "another container or host user computes on it: leave the GPU out, or end that job",
                   "GPU %d: %.0f %% busy although this job is idle", gpu->index, gpu->busy);
    else if (gpu->memory_used > most_memory * gpu->memory_total && gpu->memory_total > 0)
        check_line(check, where, "GPU use", CHECK_WARN,
                   "another container holds it, or a killed process: end it, or reset the GPU",
                   "GPU %d: %s of %s in use", gpu->index, figure_bytes(gpu->memory_used).text,
                   figure_bytes(gpu->memory_total).text);
    else
        return 0;
    return 1;
}

void smi_judge_use(check_t *check, const smi_use_t *use)
{
    int n_bad = 0, n_used = 0;
    for (int i = 0; i < use->n_gpus; i++) {
        bool used = false;
        for (int r = 0; r < use->n_ranks; r++) used |= strcmp(use->ranks[r].uuid, use->gpus[i].uuid) == 0;
        n_used += used;
        if (used) n_bad += judge_gpu_use(check, use, &use->gpus[i]);
    }
    if (n_used > 0 && n_bad == 0)
        check_line(check, check_host(check), "GPU use", CHECK_OK, NULL, "not in use by others%s",
                   use->n_apps < 0 ? " (processes unknown)" : "");
}

/* A rank's GPU, exchanged between ranks. */
typedef struct gpu_entry {
    int host, pid;
    bool has_gpu;
    char uuid[40], name[64];
} gpu_entry_t;

/* ---- The check ---- */
static void report_device(check_t *check)
{
    check_where_t where = check_rank(check);
    if (check->device) {
        check_line(check, where, "device", CHECK_OK, NULL, "%s", check->device->name);
    } else if (!check->backend) {
        check_line(check, where, "device", CHECK_FAIL,
                   "check the driver (nvidia-smi), the container's device files and CUDA_VISIBLE_DEVICES",
                   "%s", check->why_no_backend);
    } else if (check->n_devices > 0) {
        check_line(check, where, "device", CHECK_FAIL,
                   "other ranks have a GPU: repair or exclude this host, or use --device cpu for all", "%s",
                   check->why[0] ? check->why : "no GPU");
    } else {
        check_line(check, where, "device", CHECK_OK, NULL, "%s%s%s%s", check->backend->name,
                   check->why[0] ? " (" : "", check->why, check->why[0] ? ")" : "");
    }
}

/* NCCL refuses two ranks on one GPU, which is rarely intended. */
static void report_sharing(check_t *check, const gpu_entry_t *all)
{
    const comm_t *comm = check->comm;
    int n = 0;
    for (int r = 0; r < comm->size; r++)
        n += all[r].has_gpu && all[r].host == check->host && strcmp(all[r].uuid, all[comm->rank].uuid) == 0;
    if (!all[comm->rank].has_gpu || n < 2) return;
    bool allowed = check->options->runtime.share_gpu;
    check_line(check, check_rank(check), "own GPU", allowed ? CHECK_WARN : CHECK_FAIL,
               "start one rank per GPU, and check --gpus and CUDA_VISIBLE_DEVICES; or use "
               "--share-gpu",
               "%d ranks use one GPU", n);
}

/* Number of distinct GPUs that the ranks of this host use. */
static int count_used_gpus(const check_t *check, const gpu_entry_t *all)
{
    int n = 0;
    for (int r = 0; r < check->comm->size; r++) {
        bool first = all[r].has_gpu && all[r].host == check->host;
        for (int before = 0; first && before < r; before++)
            first = !(all[before].has_gpu && all[before].host == check->host &&
                      strcmp(all[before].uuid, all[r].uuid) == 0);
        n += first;
    }
    return n;
}

static void report_count(check_t *check, int n_gpus, int n_used)
{
    check_where_t where = check_host(check);
    int n_ranks = check->comm->topo.local_size;
    if (check->device && n_gpus < n_ranks && !check->options->runtime.share_gpu)
        check_line(check, where, "GPUs", CHECK_FAIL,
                   "lower the host's slots, or find out why GPUs are missing", "%d for %d ranks", n_gpus,
                   n_ranks);
    else if (n_used == 0)
        check_line(check, where, "GPUs", CHECK_OK, NULL, "%d, none used", n_gpus);
    else if (n_gpus > n_used)
        check_line(check, where, "GPUs", CHECK_WARN,
                   "raise the host's slots (-np, hostfile) if these GPUs are free", "%d of %d are idle",
                   n_gpus - n_used, n_gpus);
    else
        check_line(check, where, "GPUs", CHECK_OK, NULL, "%d for %d ranks", n_gpus, n_ranks);
}

/* --expect-gpus. */
static void report_expected(check_t *check, int n_gpus)
{
    int n = (int)check->options->expect_gpus;
    if (n == 0) return;
    check_line(check, check_host(check), "expected GPUs", n_gpus == n ? CHECK_OK : CHECK_FAIL,
               "a GPU fell off the bus (dmesg | grep Xid), its driver is not loaded (nvidia-smi -L), or the "
               "container does not have it (docker --gpus all)",
               n_gpus == n ? "%d" : "%d instead of %d", n_gpus, n);
}

/* The driver's list, for hosts without nvidia-smi. */
static int count_driver_gpus(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/driver/nvidia/gpus");
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

/* Reports other work on the GPUs of this host's ranks. */
static void report_use(check_t *check, const gpu_entry_t *all, const smi_gpu_t *gpus, int n_gpus)
{
    smi_app_t apps[SMI_MAX_APPS];
    smi_rank_t ranks[SMI_MAX_GPUS] = {{"", 0}};
    smi_use_t use = {.gpus = gpus, .n_gpus = n_gpus, .apps = apps, .ranks = ranks};
    if (smi_apps_query(check->options->smi_timeout_sec, apps, &use.n_apps) != ERR_OK) use.n_apps = -1;
    for (int r = 0; r < check->comm->size && use.n_ranks < SMI_MAX_GPUS; r++) {
        if (all[r].host != check->host || !all[r].has_gpu) continue;
        smi_rank_t *rank = &ranks[use.n_ranks++];
        snprintf(rank->uuid, sizeof rank->uuid, "%s", all[r].uuid);
        rank->pid = all[r].pid;
    }
    smi_judge_use(check, &use);
}

/* Reports GPU health, on each host's first rank; returns the driver's version for comparison. */
static void report_smi(check_t *check, const gpu_entry_t *all, char driver[32])
{
    smi_gpu_t gpus[SMI_MAX_GPUS];
    int n;
    check_where_t where = check_host(check);
    if (!where.speaks) return;
    err_t err = smi_query(check->options->smi_timeout_sec, gpus, &n);
    if (err != ERR_DATA || count_driver_gpus() > 0) xid_report(check);
    switch (err) {
    case ERR_OK:
        break;
    case ERR_DATA:
        check_line(check, where, "nvidia-smi", check->n_devices > 0 ? CHECK_WARN : CHECK_SKIP,
                   check->n_devices > 0 ? "GPU health is unknown; install nvidia-utils" : NULL,
                   "not installed");
        report_expected(check, count_driver_gpus());
        return;
    case ERR_PEER:
        check_line(check, where, "nvidia-smi", CHECK_FAIL,
                   "the driver hangs: check dmesg for Xid errors and restart the host", "%s", err_message());
        return;
    default:
        check_line(check, where, "nvidia-smi", check->n_devices > 0 ? CHECK_FAIL : CHECK_WARN,
                   "check dmesg for Xid errors; a GPU that fell off the bus needs a restart", "%s",
                   err_message());
        return;
    }
    int n_used = count_used_gpus(check, all);
    report_count(check, n, n_used);
    report_expected(check, n);
    const check_fact_t count = {.name = "GPUs of a host",
                                .advice = "find out why GPUs are missing (nvidia-smi -L, dmesg | grep Xid)",
                                .rule = CHECK_EQUAL,
                                .unequal = CHECK_WARN,
                                .value = n};
    check_fact(check, where, &count, "%d", n);
    if (n > 0) snprintf(driver, 32, "%s", gpus[0].driver);
    if (n > 0) smi_judge(check, gpus, n);
    if (n > 0) smi_report_links(check);
    if (n_used > 0) report_use(check, all, gpus, n);
}

static err_t gpu_run(check_t *check)
{
    static const char what[] = "comparing GPUs";
    gpu_entry_t mine = {.host = check->host, .pid = getpid(), .has_gpu = check->device != NULL}, *all = NULL;
    char driver[32] = "";
    err_t err = mem_new_array(check->comm->size, sizeof *all, "GPUs", &all);
    TRY(comm_agree(check->comm, err, what));
    if (check->device) {
        memcpy(mine.uuid, check->device->uuid, sizeof mine.uuid);
        memcpy(mine.name, check->device->name, sizeof mine.name);
    }
    err = comm_allgather(check->comm, &mine, sizeof mine, all, what);
    if (err == ERR_OK) {
        report_device(check);
        report_sharing(check, all);
        report_smi(check, all, driver);
    }
    mem_free(&all);
    TRY(err);
    check_equal(check, "model", CHECK_WARN, "all ranks wait for the slowest; exclude hosts that differ",
                mine.has_gpu ? mine.name : NULL);
    /* NULL on hosts where nvidia-smi failed, which was reported. */
    check_equal(check, "GPU driver", CHECK_WARN, "install the same driver on all hosts",
                driver[0] ? driver : NULL);
    return ERR_OK;
}

const check_case_t check_gpu = {"gpu", "one GPU per rank, not in use by others; health of all GPUs", true,
                                gpu_run};
