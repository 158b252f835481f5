/* SPDX-License-Identifier: MIT */
/* The check `gpu`: the device of each rank, ranks that share a GPU, and GPU health from nvidia-smi
 * (smi.c). */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tools/check/cases.h"
#include "tools/check/smi_apps.h"

/* A rank's GPU, exchanged between ranks. */
typedef struct gpu_entry {
    int host, pid;
    bool has_gpu;
    char uuid[40], name[64];
} gpu_entry_t;

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
    switch (smi_query(check->options->smi_timeout_sec, gpus, &n)) {
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
    if (n > 0) snprintf(driver, 32, "%s", gpus[0].driver);
    if (n > 0) smi_judge(check, gpus, n);
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
    if (err != ERR_OK || check->n_hosts == 1) return err;
    TRY(check_same(check, "model", CHECK_WARN, "all ranks wait for the slowest; exclude hosts that differ",
                   mine.has_gpu ? mine.name : NULL));
    /* NULL on hosts where nvidia-smi failed, which was reported. */
    return check_same(check, "GPU driver", CHECK_WARN, "install the same driver on all hosts",
                      driver[0] ? driver : NULL);
}

const check_case_t check_gpu = {"gpu", "one GPU per rank, not in use by others; health of all GPUs", true,
                                gpu_run};
