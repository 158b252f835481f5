/* SPDX-License-Identifier: MIT */
/* Guests of a run: what watches, guards, records and shows it. The loop (loop.c), a step (step.c), checkpoints (state.c)
 * and evaluations (epoch.c) do not know them: at the points below they call all that take part, in the order of the
 * registry (train/guard/registry.c). A guest that has nothing to do in a run is not among them and costs nothing. */
#ifndef TRAIN_RUN_GUEST_H
#define TRAIN_RUN_GUEST_H

#include "text/json.h"
#include "train/feed/input_stats.h"
#include "train/task/metric.h"

struct trainer;

/* The cost of one step: seconds by phase, memory blocks allocated, pages touched for the first time. */
typedef struct step_cost {
    double data, forward, backward, comm, optimizer, total;
    double gather;       /* of comm, the weight allgather of --shard-optimizer */
    double shared;       /* of total, waiting for --sync-bn */
    double cpu;          /* of all threads of this process */
    double boxes, masks; /* of detectors, on the host: task_cost_t */
    double end;          /* when it ended, by clock_sec */
    int64_t n_allocations, n_page_faults;
} step_cost_t;

typedef struct step_result {
    int64_t number, epoch; /* of the step */
    int64_t nth;           /* in this process, from 1 */
    double rate;           /* learning rate */
    double sums[TASK_N_SUMS];
    int64_t n;       /* samples that the sums are over, of all ranks */
    bool whole;      /* a whole batch, not the smaller last one of an epoch */
    bool save, stop; /* requested by a guest on any rank; with a step in flight, in the result of that one */
    step_cost_t cost;
} step_result_t;

/* An epoch, the part of it that ran in this process, or an evaluation inside an epoch. */
typedef struct epoch_result {
    bool between;   /* inside an epoch: only the evaluation is set */
    bool evaluated; /* otherwise the evaluation's values are NAN */
    evaluation_t evaluation;
    double evaluation_sec;
    input_stats_t input;
    double train_sec, images_per_sec;
    double trained[TASK_MAX_METRICS]; /* values of training */
} epoch_result_t;

typedef struct run_end {
    const char *why; /* "finished" */
    bool stopped;    /* before its last step, to be continued */
} run_end_t;

/* What a guest may request on any rank, for all of them. */
enum { REQUEST_SAVE = 1, REQUEST_STOP = 2 };

/* Weights, optimizer state and position change in a step, and weights change places with their moving average around an
 * evaluation. */
typedef enum change { CHANGE_STEP, CHANGE_EVALUATION } change_t;

/* Every member but the name may be NULL. `state` has state_bytes bytes of its own, zeroed before open and freed after close;
 * 0: it is the trainer_t. Not collective, unless stated otherwise; collective
 * ones return the same error on all ranks. */
typedef struct guest {
    const char *name;
    size_t state_bytes;

    /* Whether it takes part: if on some ranks alone, none of its members calls collectives. NULL: always. */
    bool (*wanted)(const struct trainer *t);
    /* Floats in the tail of every step's allreduce, the same on all ranks. */
    int64_t (*floats)(const struct trainer *t);
    /* After set-up, with final weights; the ranks agree on errors. begin: as the loop begins; likewise. */
    err_t (*open)(struct trainer *t, void *state);
    err_t (*begin)(void *state);
    void (*close)(void *state);

    /* Before the loop, where REQUEST_STOP alone matters, and before each step: REQUEST_…, which is met after that step, or one
     * later where that one is in flight by then. On a GPU the step before may still be in flight.
     *
     *   begins  a step begins */
    unsigned (*requests)(void *state, bool begins);
    /* Before a step, with its floats cleared: sets this rank's. take: the sums over all ranks, before the update, unless
     * a device has made it already. */
    void (*put)(void *state, float *floats);
    err_t (*take)(void *state, const float *floats);
    /* Whether this guest may save, end or verify the run after `done` steps in all, and so needs the weights as they are
     * then. Otherwise a GPU may have begun the next step before after_step and what follows it. The same on all ranks,
     * unless the job is being ended. */
    bool (*pauses)(const void *state, int64_t done);
    /* begin_change: weights, optimizer state or position in host memory are about to change: before the update of a step
     * (not of one that a device runs through), around the moving average of an evaluation, before the next epoch.
     * end_change: they belong together again: as the loop begins, after an evaluation and the end of an epoch, and, with
     * CHANGE_EVALUATION and averaged running statistics, for the time of an evaluation. After a step, after_step tells. */
    err_t (*begin_change)(void *state, change_t change);
    err_t (*end_change)(void *state, change_t change);
    /* Collective. After a step; the position has moved on. Host memory holds the state of that step until the next
     * begin_change, unless a device runs steps through. */
    err_t (*after_step)(void *state, const step_result_t *result);

    /* Collective. Verifies the state, with no step in flight: before an evaluation or a checkpoint, and where a loss is
     * not finite.
     *
     *   with_states  running statistics have been averaged, too */
    err_t (*verify)(void *state, bool with_states);
    /* After an epoch or an evaluation; the ranks agree on errors. */
    err_t (*after_epoch)(void *state, const epoch_result_t *result);
    /* Why the run is over before its last step, which follows from what all ranks know after a step that pauses. NULL: it is
     * not. */
    const char *(*over)(const void *state);
    /* Why the run stopped, if this guest requested it; or NULL, as on ranks that did not. */
    const char *(*why)(const void *state);

    /* Whether a checkpoint is due after a step and what followed it; the same on all ranks. */
    bool (*saves)(const void *state, bool epoch_end);
    /* Collective. Before a checkpoint is made.
     *
     *   lasting  at the end of an epoch or of the run */
    err_t (*before_save)(void *state, bool lasting);
    /* Rank 0: a checkpoint goes to the writer; the writer has finished one, whose record gets fields. */
    void (*saving)(void *state);
    void (*saved)(void *state, double cost_sec, json_t *j);

    /* Collective. After the last step and checkpoint. */
    err_t (*at_end)(void *state, const run_end_t *end);
    /* Seconds that it has cost this rank, for the `end` record. */
    double (*spent_sec)(const void *state);
} guest_t;

/* The guests that take part. */
enum { GUESTS_MAX = 24 };
typedef struct guests {
    const guest_t *const *registry; /* what they were chosen from; ends with NULL */
    int n;
    struct {
        const guest_t *guest;
        void *state;
        int64_t n_floats;
    } at[GUESTS_MAX];
    int64_t n_floats; /* of all */
} guests_t;

/* Chooses from a registry. Collective ones agree by `wanted`. */
void guests_choose(const guest_t *const *registry, const struct trainer *t, guests_t *out);
err_t guests_open(guests_t *guests, struct trainer *t);
void guests_close(guests_t *guests);
/* NULL: it does not take part. */
void *guests_state(const guests_t *guests, const guest_t *guest);

/* Each calls the member of its name. */
err_t guests_begin(guests_t *guests);
unsigned guests_requests(guests_t *guests, bool begins);
void guests_put(guests_t *guests, float *floats);
err_t guests_take(guests_t *guests, const float *floats);
bool guests_pauses(const guests_t *guests, int64_t done);
err_t guests_begin_change(guests_t *guests, change_t change);
err_t guests_end_change(guests_t *guests, change_t change);
err_t guests_after_step(guests_t *guests, const step_result_t *result);
err_t guests_verify(guests_t *guests, bool with_states);
err_t guests_after_epoch(guests_t *guests, const epoch_result_t *result);
const char *guests_over(const guests_t *guests);
const char *guests_why(const guests_t *guests);
bool guests_saves(const guests_t *guests, bool epoch_end);
err_t guests_before_save(guests_t *guests, bool lasting);
void guests_saving(guests_t *guests);
void guests_saved(guests_t *guests, double cost_sec, json_t *j);
err_t guests_at_end(guests_t *guests, const run_end_t *end);

#endif
