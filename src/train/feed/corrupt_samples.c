/* SPDX-License-Identifier: MIT */
/* Exchanges newly found corrupt samples between all ranks, and warns about each once. The list itself is left
 * to data/load/loader.c. */
#include "train/feed/corrupt_samples.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"

static const char what[] = "sharing corrupt samples";

/* Adds one rank's sample. *error keeps the first error. */
static void add_sample(corrupt_samples_t *bad, const corrupt_sample_t *sample, err_info_t *error)
{
    bool is_new = false;
    err_t err = bad_take(bad, sample, &is_new);
    if (err != ERR_OK && error->code == ERR_OK) err_take(err, error);
    if (!is_new || err != ERR_OK) return;
    progress_clear_line();
    log_warn("%s; %s", sample->reason, corrupt_fates[sample->fate]);
}

/* Exchanges one sample per rank at a time until no rank has more; they are few. */
static err_t exchange_samples(comm_t *comm, corrupt_samples_t *bad, corrupt_sample_t *all, err_info_t *error)
{
    for (bool more = true; more;) {
        const corrupt_sample_t mine = bad_offer(bad);
        TRY(comm_allgather(comm, &mine, sizeof mine, all, what));
        more = false;
        for (int r = 0; r < comm->size; r++) {
            if (all[r].index < 0) continue;
            add_sample(bad, &all[r], error);
            more = true;
        }
    }
    return ERR_OK;
}

err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad)
{
    corrupt_sample_t *all = NULL;
    err_info_t error = {.code = ERR_OK};
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, what, &all), what));
    err_t err = exchange_samples(comm, bad, all, &error);
    mem_free(&all);
    TRY(err);
    return comm_agree(comm, err_put(&error), what);
}
