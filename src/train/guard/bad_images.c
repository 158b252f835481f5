/* SPDX-License-Identifier: MIT */
/* Guest: images that could not be read. The ranks hear of new ones in the step's sums, and then share them
 * (train/feed/data.h). */
#include "train/feed/data.h"
#include "train/run/trainer.h"

typedef struct bad_images {
    comm_t *comm;
    const dataset_t *dataset;
    corrupt_samples_t *bad;
    bool found; /* by a rank */
} bad_images_t;

/* Of images in memory, too, which cannot be corrupt: how many floats are summed may change the order of the sums. */
static int64_t bad_images_floats(const trainer_t *t)
{
    (void)t;
    return 1;
}

static void bad_images_put(void *state, float *found)
{
    *found = bad_unshared(((bad_images_t *)state)->bad) > 0 ? 1 : 0;
}

static err_t bad_images_take(void *state, const float *found)
{
    ((bad_images_t *)state)->found = *found > 0;
    return ERR_OK;
}

static err_t bad_images_after_step(void *state, const step_result_t *result)
{
    const bad_images_t *s = state;
    (void)result;
    return s->found ? corrupt_samples_share(s->comm, s->bad) : ERR_OK;
}

static err_t bad_images_at_end(void *state, const run_end_t *end)
{
    const bad_images_t *s = state;
    (void)end;
    return s->dataset->read ? corrupt_samples_share(s->comm, s->bad) : ERR_OK;
}

static err_t bad_images_open(trainer_t *t, void *state)
{
    bad_images_t *s = state;
    *s = (bad_images_t){.comm = t->comm, .dataset = t->input.dataset, .bad = &t->input.bad};
    return ERR_OK;
}

const guest_t bad_images_guest = {.name = "bad images",
                                  .state_bytes = sizeof(bad_images_t),
                                  .floats = bad_images_floats,
                                  .open = bad_images_open,
                                  .put = bad_images_put,
                                  .take = bad_images_take,
                                  .after_step = bad_images_after_step,
                                  .at_end = bad_images_at_end};
