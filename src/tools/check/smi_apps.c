/* SPDX-License-Identifier: MIT */
/* Finds processes of others, computations and memory in use on the GPUs of this host's ranks, which only have
 * opened their contexts. */
#include "tools/check/smi_apps.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "tools/check/process.h"

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

err_t smi_apps_query(double timeout_sec, smi_app_t apps[SMI_MAX_APPS], int *n)
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
