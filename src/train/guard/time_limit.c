/* SPDX-License-Identifier: MIT */
/* Guest: --max-time. The run stops so that its last step, the evaluation that follows it and its checkpoint end in time, as
 * far as they take no longer than those before. At least one step is made, so that a job that is started again and again
 * comes to its end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/run/trainer.h"
#include "train/task/evaluate.h"

typedef struct time_limit {
    const trainer_t *t;
    double end_sec;        /* by clock_sec */
    double step_sec;       /* the longest, but for the first of the process, unless it is the only one */
    double evaluation_sec; /* the longest; -1: none yet */
    bool requested;
} time_limit_t;

/* Rank 0's clock decides. */
static bool time_limit_wanted(const trainer_t *t)
{
    return t->comm->rank == 0 && t->options->max_sec > 0;
}

/* Seconds since the job started: run.sh --restarts tells a later start how old the job was, in seconds. */
static double job_sec(void)
{
    const char *age = getenv("DPTRAIN_JOB_AGE");
    const bool valid = age && age[0] && strlen(age) < 10 && strspn(age, "0123456789") == strlen(age);
    return clock_process_sec() + (valid ? (double)strtol(age, NULL, 10) : 0);
}

static err_t time_limit_open(trainer_t *t, void *state)
{
    time_limit_t *limit = state;
    *limit = (time_limit_t){
        .t = t, .end_sec = clock_sec() + t->options->max_sec - job_sec(), .evaluation_sec = -1};
    return ERR_OK;
}

static err_t time_limit_after_step(void *state, const step_result_t *r)
{
    time_limit_t *limit = state;
    if (r->nth == 2 || r->cost.total > limit->step_sec) limit->step_sec = r->cost.total;
    return ERR_OK;
}

static err_t time_limit_after_epoch(void *state, const epoch_result_t *r)
{
    time_limit_t *limit = state;
    if (r->evaluated) limit->evaluation_sec = fmax(limit->evaluation_sec, r->evaluation_sec);
    return ERR_OK;
}

/* Of the evaluations after the steps in (from, to]. Before the first one, an image is assumed to take as long as in
 * training. */
static double evaluations_sec(const time_limit_t *limit, int64_t from, int64_t to)
{
    const trainer_t *t = limit->t;
    const dataset_t *dataset = t->input.dataset;
    double sec = 0, one_sec = limit->evaluation_sec;
    if (one_sec < 0)
        one_sec = limit->step_sec / (double)t->input.global_batch *
                  (double)evaluation_samples(dataset, evaluation_split(dataset), t->options->eval_samples);
    for (int64_t done = from + 1; t->options->eval && done <= to; done++)
        sec += trainer_epoch_follows(t, done) ? one_sec : 0;
    return sec;
}

/* A last checkpoint waits for one that is being written. Before the first one, 100 MB/s are assumed. */
static double checkpoints_sec(const trainer_t *t)
{
    const int64_t n_floats = train_state_floats(t->model.graph, t->learning.optim);
    const double written_sec = t->saving.written_sec;
    return written_sec > 0 ? 2 * written_sec : (double)n_floats * sizeof(float) / 1e8;
}

/* Whether the step that begins is the last (on a GPU one of those that are in flight by then), because another would not
 * end in time. */
static unsigned time_limit_requests(void *state, bool begins)
{
    time_limit_t *limit = state;
    const trainer_t *t = limit->t;
    const int n_steps = t->steps.plan.ahead ? BACKEND_SLOTS + 2 : 2;
    if (!begins) return 0;
    const double sec = n_steps * limit->step_sec + evaluations_sec(limit, t->at.step, t->at.step + n_steps) +
                       checkpoints_sec(t);
    limit->requested |= clock_sec() + sec >= limit->end_sec;
    return limit->requested ? REQUEST_STOP : 0;
}

static const char *time_limit_why(const void *state)
{
    return ((const time_limit_t *)state)->requested ? "time limit reached" : NULL;
}

const guest_t time_limit_guest = {.name = "time limit",
                                  .state_bytes = sizeof(time_limit_t),
                                  .wanted = time_limit_wanted,
                                  .open = time_limit_open,
                                  .requests = time_limit_requests,
                                  .after_step = time_limit_after_step,
                                  .after_epoch = time_limit_after_epoch,
                                  .why = time_limit_why};
