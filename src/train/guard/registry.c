/* SPDX-License-Identifier: MIT */
/* The guests of a run in the order in which they are called. A step is on record before a signal may save its position
 * (interruption); then ranks are compared, and the user is told; the end record sums up what came before it. */
#include "base/log.h"
#include "cluster/session/disk_wait.h"
#include "cluster/session/signals.h"
#include "store/checkpoint/store.h"
#include "train/feed/data.h"
#include "train/guard/end_record.h"
#include "train/guard/guard.h"
#include "train/guard/interruption.h"
#include "train/run/replicas.h"
#include "train/run/resume_check.h"
#include "train/run/setup.h"
#include "train/run/stragglers.h"

extern const guest_t checkpoint_interval_guest, records_guest, telemetry_guest, status_guest, target_guest;

/* to be replaced by guests in files of their own */
static err_t take_trainer(trainer_t *t, void **state)
{
    *state = t;
    return ERR_OK;
}

static bool resumes(const trainer_t *t)
{
    return t->comm->rank == 0 && t->saving.resumed_from[0];
}
static err_t resume_after(void *t, const step_result_t *r)
{
    return resume_check_step(t, r);
}
static const guest_t resume_guest = {
    .name = "resume check", .wanted = resumes, .open = take_trainer, .after_step = resume_after};

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

static int64_t one(const trainer_t *t)
{
    (void)t;
    return 1;
}
static void corrupt_put(void *s, float *f)
{
    trainer_t *t = s;
    f[0] = bad_unshared(&t->input.bad) > 0 ? 1 : 0;
}
static bool corrupt_found;
static err_t corrupt_take(void *s, const float *f)
{
    (void)s;
    corrupt_found = f[0] > 0;
    return ERR_OK;
}
static err_t corrupt_after(void *s, const step_result_t *r)
{
    trainer_t *t = s;
    (void)r;
    return corrupt_found ? corrupt_samples_share(t->comm, &t->input.bad) : ERR_OK;
}
static err_t corrupt_end(void *s, const run_end_t *e)
{
    trainer_t *t = s;
    (void)e;
    return t->input.dataset->ops->read ? corrupt_samples_share(t->comm, &t->input.bad) : ERR_OK;
}
static const guest_t bad_guest = {.name = "bad images",
                                  .open = take_trainer,
                                  .floats = one,
                                  .put = corrupt_put,
                                  .take = corrupt_take,
                                  .after_step = corrupt_after,
                                  .at_end = corrupt_end};

static err_t rep_open(trainer_t *t, void **s)
{
    *s = t;
    return replicas_open(t);
}
static void rep_close(void **s)
{
    if (*s) replicas_close(*s);
}
static err_t rep_after(void *t, const step_result_t *r)
{
    return replicas_after_step(t, r->cost.total);
}
static err_t rep_verify(void *t, bool with)
{
    return replicas_check(t, with);
}
static bool rep_pauses(const void *t, int64_t done)
{
    return replicas_due(t, done);
}
static void rep_saving(void *t)
{
    replicas_saving(t);
}
static err_t rep_end(void *t, const run_end_t *e)
{
    (void)e;
    return replicas_record(t);
}
static double rep_spent(const void *t)
{
    return ((const trainer_t *)t)->replicas.check_sec;
}
static const guest_t replicas_guest = {.name = "replicas",
                                       .open = rep_open,
                                       .close = rep_close,
                                       .after_step = rep_after,
                                       .verify = rep_verify,
                                       .pauses = rep_pauses,
                                       .saving = rep_saving,
                                       .at_end = rep_end,
                                       .spent_sec = rep_spent};

static err_t str_open(trainer_t *t, void **s)
{
    *s = t;
    return stragglers_open(t);
}
static void str_close(void **s)
{
    if (*s) stragglers_close(*s);
}
static void str_put(void *t, float *f)
{
    stragglers_put(t, f);
}
static err_t str_take(void *t, const float *f)
{
    return stragglers_take(t, f);
}
static err_t str_after(void *t, const step_result_t *r)
{
    stragglers_note(t, r);
    return ERR_OK;
}
static double str_spent(const void *t)
{
    return ((const trainer_t *)t)->stragglers.spent_sec;
}
static const guest_t stragglers_guest = {.name = "stragglers",
                                         .floats = stragglers_floats,
                                         .open = str_open,
                                         .close = str_close,
                                         .put = str_put,
                                         .take = str_take,
                                         .after_step = str_after,
                                         .spent_sec = str_spent};

static err_t cmp_before(void *s, bool lasting)
{
    trainer_t *t = s;
    return train_compare_files(t->comm, &t->input, t->output.folder, lasting);
}
static const guest_t compare_guest = {
    .name = "compare files", .open = take_trainer, .before_save = cmp_before};

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
    &resume_guest,
    &records_guest,
    &interruption_guest,
    &bad_guest,
    &replicas_guest,
    &stragglers_guest,
    &checkpoint_interval_guest,
    &compare_guest,
    &end_guest,
    &best_guest,
    &telemetry_guest,
    &status_guest,
    &stop_guest,
    &target_guest,
    NULL,
};
