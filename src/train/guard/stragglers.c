/* SPDX-License-Identifier: MIT */
/* Guest: carries the ranks' times through the allreduce, and lets rank 0 name the slow ones. Comparing is left to
 * train/output/rank_times.c. */
#include "train/guard/stragglers.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/progress.h"
#include "train/run/trainer.h"

typedef struct stragglers {
    const comm_t *comm;
    const train_position_t *at;
    metrics_t *records;
    rank_times_t times;           /* rank 0 only */
    rank_step_t *steps;           /* [size], of one step; rank 0 only */
    float mine[RANK_SLOT_FLOATS]; /* this rank's slot: times of step `number` */
    int64_t number;
    bool has_times;   /* mine is of a whole batch after the warm-up */
    double spent_sec; /* in the comparison, so far */
} stragglers_t;

const rank_times_t *stragglers_times(const guests_t *guests)
{
    const stragglers_t *s = guests_state(guests, &stragglers_guest);
    return s ? &s->times : NULL;
}

static double enter_of(const float *slot)
{
    return (double)slot[RANK_SLOT_ENTER] + (double)slot[RANK_SLOT_ENTER_LOW];
}

static double exit_of(const float *slot)
{
    return enter_of(slot) + (double)slot[RANK_SLOT_COMM];
}

/* The first to leave the allreduce on the host of rank r, and the last to enter it. */
static void host_bounds(const float *slots, int n, const rank_place_t *places, int r, double *first_exit,
                        double *last_enter)
{
    *first_exit = HUGE_VAL;
    *last_enter = -HUGE_VAL;
    for (int q = 0; q < n; q++) {
        const float *slot = slots + (ptrdiff_t)q * RANK_SLOT_FLOATS;
        if (places[q].host_index != places[r].host_index) continue;
        *first_exit = fmin(*first_exit, exit_of(slot));
        *last_enter = fmax(*last_enter, enter_of(slot));
    }
}

bool stragglers_read(const float *slots, int n, const rank_place_t *places, rank_step_t *out)
{
    double least = HUGE_VAL, first_exit = 0, last_enter = 0; /* least: where no rank waits for another host */
    int host = -1;
    for (int r = 0; r < n; r++) {
        const float *slot = slots + (ptrdiff_t)r * RANK_SLOT_FLOATS;
        if (!(slot[RANK_SLOT_COMPUTE] > 0)) return false;
        /* The ranks of a host are usually neighbours. */
        if (places[r].host_index != host) host_bounds(slots, n, places, r, &first_exit, &last_enter);
        host = places[r].host_index;
        least = fmin(least, fmax(first_exit - last_enter, 0));
        out[r].sec[RANK_COMPUTE] = (double)slot[RANK_SLOT_COMPUTE];
        out[r].sec[RANK_DATA] = (double)slot[RANK_SLOT_DATA];
        out[r].sec[RANK_COMM] = exit_of(slot) - first_exit;
    }
    for (int r = 0; r < n; r++) out[r].sec[RANK_COMM] += least;
    return true;
}

/* The last n that were named. */
static err_t report(stragglers_t *s, int n)
{
    const rank_times_t *times = &s->times;
    for (int i = times->n_named - n; i < times->n_named; i++) {
        const straggler_t *named = &times->named[i];
        char text[RANK_TIMES_TEXT_MAX];
        rank_times_describe(times, named, text);
        progress_clear_line();
        log_warn("%s", text);
        json_t *j = metrics_begin(s->records, RECORD_STRAGGLER);
        if (!j) continue;
        json_int(j, "step", s->at->step);
        rank_times_put(times, named, j);
        TRY(metrics_end(s->records, true));
    }
    return ERR_OK;
}

static void stragglers_put(void *state, float *slots)
{
    stragglers_t *s = state;
    const double start = clock_sec();
    if (s->has_times) memcpy(slots + (ptrdiff_t)s->comm->rank * RANK_SLOT_FLOATS, s->mine, sizeof s->mine);
    s->spent_sec += clock_sec() - start;
}

static err_t stragglers_take(void *state, const float *slots)
{
    stragglers_t *s = state;
    if (!s->steps) return ERR_OK;
    const double start = clock_sec();
    int n = 0;
    if (stragglers_read(slots, s->comm->size, s->times.places, s->steps))
        n = rank_times_add(&s->times, s->number, s->steps, start);
    err_t err = n > 0 ? report(s, n) : ERR_OK;
    s->spent_sec += clock_sec() - start;
    return err;
}

/* Notes the step's times, which follow the gradients of a later one. */
static err_t stragglers_after_step(void *state, const step_result_t *result)
{
    stragglers_t *s = state;
    const step_cost_t *cost = &result->cost;
    const double compute = cost->forward + cost->backward + cost->optimizer - cost->shared;
    const double enter = cost->end - cost->optimizer - cost->comm;
    const float high = (float)enter;
    s->has_times = result->nth > RATE_WARMUP_STEPS && result->whole;
    s->number = result->number;
    s->mine[RANK_SLOT_COMPUTE] = (float)fmax(compute, 1e-9);
    s->mine[RANK_SLOT_DATA] = (float)cost->data;
    s->mine[RANK_SLOT_COMM] = (float)cost->comm;
    s->mine[RANK_SLOT_ENTER] = high;
    s->mine[RANK_SLOT_ENTER_LOW] = (float)(enter - (double)high);
    return ERR_OK;
}

static double stragglers_spent_sec(const void *state)
{
    return ((const stragglers_t *)state)->spent_sec;
}

static bool stragglers_wanted(const trainer_t *t)
{
    return t->comm->size > 1;
}

static int64_t stragglers_floats(const trainer_t *t)
{
    return (int64_t)t->comm->size * RANK_SLOT_FLOATS;
}

/* Largest share of a whole batch / smallest. */
static double share_factor(const train_input_t *input, int size)
{
    double most = 0, least = HUGE_VAL;
    for (int r = 0; r < size; r++) {
        int64_t first;
        double n = (double)sampler_share(input->sampler, input->global_batch, r, size, &first);
        most = fmax(most, n);
        least = fmin(least, n);
    }
    return least > 0 ? most / least : HUGE_VAL;
}

static err_t stragglers_open(trainer_t *t, void *state)
{
    static const char what[] = "preparing to compare the ranks' times";
    const comm_t *comm = t->comm;
    stragglers_t *s = state;
    s->comm = comm;
    s->at = &t->at;
    s->records = &t->output.records;
    if (comm->rank > 0) return ERR_OK;
    TRY(mem_new_array(comm->size, sizeof *s->steps, what, &s->steps));
    return rank_times_open(comm->size, comm->places, t->options->straggler_sec,
                           share_factor(&t->input, comm->size), &s->times);
}

static void stragglers_close(void *state)
{
    stragglers_t *s = state;
    mem_free(&s->steps);
    rank_times_close(&s->times);
}

const guest_t stragglers_guest = {.name = "stragglers",
                                  .state_bytes = sizeof(stragglers_t),
                                  .wanted = stragglers_wanted,
                                  .floats = stragglers_floats,
                                  .open = stragglers_open,
                                  .close = stragglers_close,
                                  .put = stragglers_put,
                                  .take = stragglers_take,
                                  .after_step = stragglers_after_step,
                                  .spent_sec = stragglers_spent_sec};
