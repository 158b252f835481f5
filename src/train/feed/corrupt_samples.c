/* SPDX-License-Identifier: MIT */
/* Exchanges newly found corrupt samples between all ranks, and warns about each once. The list itself is
 * data/load/corrupt.c. */
#include "train/feed/corrupt_samples.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"

static const char what[] = "telling of bad images";

/* What one rank tells. The first error stays. */
static void hear(corrupt_samples_t *bad, const corrupt_sample_t *told, err_info_t *error)
{
    bool is_new = false;
    err_t err = bad_take(bad, told, &is_new);
    if (err != ERR_OK && error->code == ERR_OK) err_take(err, error);
    if (!is_new || err != ERR_OK) return;
    progress_clear_line();
    log_warn("%s; another image takes its place", told->reason);
}

/* One of each rank at a time, until nobody has more: there are few of them. */
static err_t tell(comm_t *comm, corrupt_samples_t *bad, corrupt_sample_t *told, err_info_t *error)
{
    for (bool more = true; more;) {
        const corrupt_sample_t mine = bad_offer(bad);
        TRY(comm_allgather(comm, &mine, sizeof mine, told, what));
        more = false;
        for (int r = 0; r < comm->size; r++) {
            if (told[r].index < 0) continue;
            hear(bad, &told[r], error);
            more = true;
        }
    }
    return ERR_OK;
}

err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad)
{
    corrupt_sample_t *told = NULL;
    err_info_t error = {.code = ERR_OK};
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *told, what, &told), what));
    err_t err = tell(comm, bad, told, &error);
    mem_free(&told);
    TRY(err);
    return comm_agree(comm, err_put(&error), what);
}
