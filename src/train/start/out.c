/* SPDX-License-Identifier: MIT */
/* Chooses, owns and prepares a run's output folder, clears or refuses an earlier run in it, and opens its files.
 * Writing them is left to train/output and store/checkpoint. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/content.h"
#include "store/checkpoint/store.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* In the folder of a run: the folder of its TensorBoard events. */
#define EVENTS_NAME "tensorboard.txt"

/* Steps of the folder's checkpoints; none if the folder does not exist. */
static err_t list_checkpoints(const char *folder, int64_t **steps, int *n)
{
    *steps = NULL;
    *n = 0;
    return fs_is_folder(folder) ? checkpoint_store_list(folder, steps, n) : ERR_OK;
}

/* --overwrite deletes only the files of a run. */
static err_t clear_earlier_run(const char *folder)
{
    char path[FS_PATH_MAX];
    int64_t *steps;
    int n;
    TRY(fs_join(path, folder, "metrics.jsonl"));
    TRY(list_checkpoints(folder, &steps, &n));
    unlink(path);
    TRY(fs_join(path, folder, CONTENT_RUN_NAME));
    unlink(path);
    TRY(fs_join(path, folder, EVENTS_NAME));
    unlink(path);
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < n; i++) {
        err = checkpoint_store_path(folder, steps[i], path);
        if (err == ERR_OK && unlink(path) != 0)
            err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "--overwrite: cannot remove %s: %s", path,
                            strerror(errno));
    }
    mem_free(&steps);
    return err;
}

/* Fails before --overwrite deletes anything. */
static err_t make_tensorboard_folder(const char *folder)
{
    if (!folder) return ERR_OK;
    err_t err = fs_make_folder(folder);
    if (err == ERR_OK) err = fs_check_writable(folder);
    return err == ERR_OK ? ERR_OK : err_context(err, "--tensorboard");
}

static err_t check_out_folder(const train_options_t *o, const char *folder, const char *resumed_from,
                              int64_t step)
{
    char metrics[FS_PATH_MAX];
    int64_t *steps;
    int n;
    TRY(make_tensorboard_folder(o->tensorboard));
    TRY(trace_file_check(o->trace));
    TRY(checkpoint_store_clean(folder, NULL));
    TRY(fs_join(metrics, folder, "metrics.jsonl"));
    TRY(list_checkpoints(folder, &steps, &n));
    err_t err = ERR_OK;
    /* Checkpoints of later steps would pass for the newest state, except damaged ones that --resume auto
     * skipped. */
    bool ahead = n > 0 && resumed_from[0] && strcmp(o->resume, "auto") != 0 && steps[0] > step;
    bool earlier = (n > 0 || fs_exists(metrics)) && strcmp(o->resume, "none") == 0;
    if (earlier && !o->overwrite)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "%s holds an earlier run; continue it with --resume auto, replace it with --overwrite, or "
            "choose another --out",
            folder);
    else if (ahead)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "%s holds checkpoints up to step %lld, but the run resumes at step %lld from %s; choose another "
            "--out, or move the newer ones away",
            folder, (long long)steps[0], (long long)step, resumed_from);
    mem_free(&steps);
    return err;
}

err_t trainer_check_out(trainer_t *t)
{
    err_t err = ERR_OK;
    if (t->comm->rank == 0) {
        disk_wait_begin("preparing", t->output.folder);
        err = check_out_folder(t->options, t->output.folder, t->saving.resumed_from, t->at.step);
        disk_wait_end();
    }
    return comm_agree(t->comm, err, "creating the output folder");
}

static err_t open_owner(train_output_t *output)
{
    output->made = output->made || !fs_exists(output->folder);
    TRY(fs_make_folder(output->folder));
    TRY(fs_check_writable(output->folder));
    return owner_open(output->folder, getenv("DPTRAIN_JOB"), &owner_times, &output->owner);
}

/* Rank 0. Says what it waits for, again every few seconds. */
static err_t try_own(const train_output_t *output, double *said_sec, bool *owned)
{
    enum { SILENT_SEC = 4 };
    disk_wait_begin("owning", output->folder);
    err_t err = owner_try(output->owner, owned);
    disk_wait_end();
    if (err != ERR_OK) return err;
    if (*owned || clock_sec() - *said_sec < SILENT_SEC) return ERR_OK;
    char text[OWNER_TEXT_MAX];
    owner_describe_wait(output->owner, text);
    log_info("%s", text);
    *said_sec = clock_sec();
    return ERR_OK;
}

/* The other ranks wait in short collectives, so that no deadline ends the wait. */
err_t train_own_folder(comm_t *comm, train_output_t *output)
{
    bool owned = false;
    double said_sec = -HUGE_VAL;
    watchdog_phase("becoming the owner of the output folder");
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        disk_wait_begin("preparing", output->folder);
        err = open_owner(output);
        disk_wait_end();
    }
    TRY(comm_agree(comm, err, "creating the output folder"));
    for (;;) {
        err = comm->rank == 0 ? try_own(output, &said_sec, &owned) : ERR_OK;
        TRY(comm_decide(comm, err, &owned, sizeof owned, "becoming the owner of the output folder"));
        if (owned) return ERR_OK;
        if (comm->rank == 0) clock_sleep(0.5);
    }
}

void train_leave_folder(const train_output_t *output, bool failed)
{
    disk_wait_begin("leaving", output->folder);
    owner_leave(output->owner);
    if (failed && output->made) rmdir(output->folder);
    disk_wait_end();
}

err_t train_choose_folder(const train_options_t *o, train_output_t *output)
{
    if (o->out) {
        if (snprintf(output->folder, sizeof output->folder, "%s", o->out) >= (int)sizeof output->folder)
            RAISE(ERR_USAGE, "--out is longer than %d bytes", FS_PATH_MAX);
        return ERR_OK;
    }
    char date[32];
    clock_stamp(date, sizeof date);
    snprintf(output->folder, sizeof output->folder, "runs/%s-%s", o->model, date);
    disk_wait_begin("creating a folder in", "runs");
    err_t err = fs_make_folder("runs");
    /* Another run may have started in the same second. */
    for (int n = 2; err == ERR_OK && mkdir(output->folder, 0777) != 0 && errno == EEXIST; n++)
        snprintf(output->folder, sizeof output->folder, "runs/%s-%s-%d", o->model, date, n);
    output->made = err == ERR_OK && fs_is_folder(output->folder);
    disk_wait_end();
    return err;
}

/* Rank 0. A run goes on in its folder of events, also if it was started again before its first checkpoint; another run gets its
 * own. */
static err_t open_events(const char *option, int64_t step, train_output_t *output)
{
    char events[FS_PATH_MAX], path[FS_PATH_MAX], record[FS_PATH_MAX], line[FS_PATH_MAX + 1];
    _Static_assert(FS_PATH_MAX >= PATH_MAX, "realpath writes as much");
    if (!option) return ERR_OK;
    TRY(fs_join(path, output->folder, EVENTS_NAME));
    disk_wait_begin("reading", path);
    const bool recorded = fs_read_line(path, record, sizeof record);
    disk_wait_end();
    const bool known = recorded && tensorboard_reopens(option, record, events);
    TRY(known ? tensorboard_open(&output->tensorboard, events, step)
              : tensorboard_open_new(&output->tensorboard, option, step, events));
    const bool moved = strcmp(events, option) != 0;
    log_note("  events  %s%s%s%s", events, moved ? " (" : "", moved ? option : "",
             moved ? " holds those of another run)" : "");
    disk_wait_begin("writing", path);
    /* Resumed, the run may be started elsewhere, or with the path written otherwise. */
    snprintf(line, sizeof line, "%s\n", realpath(events, record) ? record : events);
    err_t err = fs_write_text(path, line);
    disk_wait_end();
    return err;
}

err_t trainer_open_out(trainer_t *t)
{
    const train_options_t *o = t->options;
    bool clears = t->comm->rank == 0 && o->overwrite && strcmp(o->resume, "none") == 0;
    err_t err = owner_verify(t->output.owner);
    if (clears && err == ERR_OK) {
        disk_wait_begin("clearing", t->output.folder);
        err = clear_earlier_run(t->output.folder);
        disk_wait_end();
    }
    /* The writer times out before the ranks that wait for rank 0, so that the error names the disk. */
    const bool shared_out = t->learning.slices.size > 0; /* then its copy has no optimizer state */
    const int64_t n_floats = shared_out ? t->model.graph->n_flat_params + t->model.graph->n_flat_states
                                        : train_state_floats(t->model.graph, t->learning.optim);
    if (t->comm->rank == 0 && err == ERR_OK)
        err = opt_config_write(o->groups, train_options_groups(o), train_options_per_run, &t->saving.options);
    if (t->comm->rank == 0 && err == ERR_OK)
        err = ckpt_async_open(n_floats * (int64_t)sizeof(float), 0.45 * o->runtime.timeout_sec,
                              t->output.owner, &t->saving.writer);
    if (err == ERR_OK) err = metrics_open(&t->output.records, t->output.folder, t->output.owner);
    if (err == ERR_OK && t->comm->rank == 0) err = open_events(o->tensorboard, t->at.step, &t->output);
    return comm_agree(t->comm, err, "opening the output files");
}
