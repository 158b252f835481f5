/* SPDX-License-Identifier: MIT */
/* Guest: --max-time. The run stops so that its last step and its checkpoint end in time, as far as they take no longer
 * than those before; at least one step is made, so that a job that is started again and again comes to its end. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/run/trainer.h"

typedef struct time_limit {
    const train_saving_t *saving;
    double end_sec;     /* by clock_sec */
    double longest_sec; /* of a step, but the first, unless it is the only one */
    bool wished;
} time_limit_t;

/* Rank 0's clock decides. */
static bool wanted(const trainer_t *t)
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

static err_t time_limit_open(trainer_t *t, void **state)
{
    time_limit_t *limit;
    TRY(mem_new(sizeof *limit, "--max-time", &limit));
    *state = limit;
    limit->saving = &t->saving;
    limit->end_sec = clock_sec() + t->options->max_sec - job_sec();
    return ERR_OK;
}

static err_t note_step(void *state, const step_result_t *r)
{
    time_limit_t *limit = state;
    if (r->nth == 2 || r->cost.total > limit->longest_sec) limit->longest_sec = r->cost.total;
    return ERR_OK;
}

static unsigned wishes(void *state, bool begins)
{
    time_limit_t *limit = state;
    const double sec = limit->longest_sec + limit->saving->cost_sec;
    limit->wished |= begins && clock_sec() + sec >= limit->end_sec;
    return limit->wished ? WISH_STOP : 0;
}

static const char *why(const void *state)
{
    return ((const time_limit_t *)state)->wished ? "time limit reached" : NULL;
}

const guest_t time_limit_guest = {.name = "time limit",
                                  .wanted = wanted,
                                  .open = time_limit_open,
                                  .close = guest_free_state,
                                  .wishes = wishes,
                                  .after_step = note_step,
                                  .why = why};
