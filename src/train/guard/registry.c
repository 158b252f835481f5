/* SPDX-License-Identifier: MIT */
/* The guests of a run in the order in which they are called. A step is on record before a signal may save its position
 * (interruption); then ranks are compared, and the user is told; the end record sums up what came before it. */
#include "base/log.h"
#include "cluster/session/disk_wait.h"
#include "cluster/session/signals.h"
#include "store/checkpoint/store.h"
#include "train/guard/end_record.h"
#include "train/guard/guard.h"
#include "train/guard/interruption.h"
#include "train/run/setup.h"

extern const guest_t resume_check_guest, bad_images_guest, replicas_guest, stragglers_guest,
    compare_files_guest, checkpoint_interval_guest, records_guest, telemetry_guest, status_guest,
    target_guest, time_limit_guest;

/* to be replaced by guests in files of their own */
static err_t take_trainer(trainer_t *t, void **state)
{
    *state = t;
    return ERR_OK;
}

static err_t int_begin(void *t)
{
    return interruption_prepare(t);
}
static err_t int_change(void *t, change_t c)
{
    interruption_close(t);
    return c == CHANGE_EVALUATION ? interruption_copy(t) : ERR_OK;
}
static err_t int_end(void *t, change_t c)
{
    if (c == CHANGE_STEP) return interruption_open(t);
    interruption_open_validation(t);
    return ERR_OK;
}
static err_t int_after(void *t, const step_result_t *r)
{
    (void)r;
    return interruption_open(t);
}
static bool int_pauses(const void *t, int64_t done)
{
    (void)t;
    (void)done;
    return interrupt_arrived();
}
static const guest_t interruption_guest = {.name = "interruption",
                                           .open = take_trainer,
                                           .begin = int_begin,
                                           .begin_change = int_change,
                                           .end_change = int_end,
                                           .after_step = int_after,
                                           .pauses = int_pauses};

static bool has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX])
{
    if (step < 0) return false;
    disk_wait_begin("listing", folder);
    bool saved = checkpoint_store_path(folder, step, path) == ERR_OK && fs_exists(path);
    disk_wait_end();
    return saved;
}
static bool best_saves(const void *s, bool e)
{
    const trainer_t *t = s;
    (void)e;
    return t->options->keep_best && t->at.best_step == t->at.step && t->saving.last_step != t->at.step;
}
static err_t best_end(void *s, const run_end_t *e)
{
    trainer_t *t = s;
    char path[FS_PATH_MAX];
    const task_metrics_t *metrics = &t->task.metrics;
    if (e->stopped) return ERR_OK;
    if (has_checkpoint(t->output.folder, t->at.step, path)) log_info("checkpoint %s", path);
    if (t->options->keep_best && has_checkpoint(t->output.folder, t->at.best_step, path))
        log_info("best checkpoint %s: validation %s %.4f", path, metrics->at[metrics->main]->label,
                 t->at.best[metrics->main]);
    return ERR_OK;
}
static const guest_t best_guest = {
    .name = "keep best", .open = take_trainer, .saves = best_saves, .at_end = best_end};

static err_t endrec(void *t, const run_end_t *e)
{
    return end_record(t, e->why);
}
static const guest_t end_guest = {.name = "end record", .open = take_trainer, .at_end = endrec};

static unsigned stop_wishes(void *t, bool begins)
{
    (void)begins;
    (void)t;
    return stop_requested() ? WISH_STOP : 0;
}
static const char *stop_why(const void *t)
{
    (void)t;
    return stop_words();
}
static err_t stop_end(void *s, const run_end_t *e)
{
    trainer_t *t = s;
    char text[INTERRUPTION_TEXT_MAX];
    if (!e->stopped || t->comm->rank != 0) return ERR_OK;
    interruption_how_to_resume(t, text);
    log_info("%s", text);
    return ERR_OK;
}
static const guest_t stop_guest = {
    .name = "stop", .open = take_trainer, .wishes = stop_wishes, .why = stop_why, .at_end = stop_end};

const guest_t *const guest_registry[] = {
    &resume_check_guest,
    &records_guest,
    &interruption_guest,
    &bad_images_guest,
    &replicas_guest,
    &stragglers_guest,
    &checkpoint_interval_guest,
    &compare_files_guest,
    &end_guest,
    &best_guest,
    &telemetry_guest,
    &status_guest,
    &time_limit_guest,
    &stop_guest,
    &target_guest,
    NULL,
};
