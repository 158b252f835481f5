/* SPDX-License-Identifier: MIT */
/* Decides where a run's number of threads comes from: the user, the checkpoint, or a measurement, which is left to
 * choose_threads.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "train/run/options.h"
#include "train/run/setup.h"

/* Nothing is printed while threads are measured, so that the header follows soon. */
static const double longest_sec = 3;

/* Samples of rank 0's first part of a whole batch. */
static int64_t first_part(const trainer_t *t)
{
    int64_t first, n_shard = sampler_shard(t->input.sampler, t->input.global_batch, 0, t->comm->size, &first);
    return trainer_part(t, n_shard, 0, &first);
}

/* oneDNN's sums depend on the number of threads, so a resumed run keeps the checkpoint's. */
static err_t choose_threads(trainer_t *t)
{
    const train_options_t *o = t->options;
    runtime_t *runtime = &t->runtime;
    const bool given = o->runtime.threads > 0 && train_options_given(o, "threads");
    const bool saved = t->saving.saved_threads > 0 && !given;
    const int n = narrow_int(saved ? t->saving.saved_threads : o->runtime.threads);
    const bool repeats = strcmp(o->algorithms, "measure") != 0 && strcmp(o->algorithms, TRAIN_BY_RULE) != 0;
    if (n == 0 && !t->saving.keeps_bits && !repeats) {
        thread_request_t request = {.runtime = runtime,
                                    .graph = t->model.graph,
                                    .n = first_part(t),
                                    .limit_sec = fmin(o->measure_sec, longest_sec)};
        return thread_choice_make(&request, &t->threads);
    }
    snprintf(t->threads.from, sizeof t->threads.from, "%s",
             saved    ? "checkpoint"
             : given  ? "option"
             : n == 0 ? "share"
                      : "fixed");
    if (saved && n > runtime->n_allowed_cpus)
        log_warn(
            "the checkpoint's %d threads per rank exceed the %d CPUs that a rank may use: expect lower speed; "
            "with --threads %d the results differ in the last digits",
            n, runtime->n_allowed_cpus, runtime->n_cpus);
    err_t err = n > 0 ? runtime_set_threads(runtime, n) : ERR_OK;
    return comm_agree(t->comm, err, "setting the number of threads");
}

/* Checkpoints keep the number of threads if all ranks have the same. */
static err_t compare_threads(trainer_t *t)
{
    int64_t most[2] = {t->runtime.n_threads, -t->runtime.n_threads};
    TRY(comm_allreduce(t->comm, most, 2, DTYPE_I64, COMM_MAX, "comparing the numbers of threads"));
    t->n_threads = most[0] == -most[1] ? most[0] : 0;
    return ERR_OK;
}

err_t trainer_set_threads(trainer_t *t)
{
    TRY(choose_threads(t));
    return compare_threads(t);
}
