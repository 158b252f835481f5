/* SPDX-License-Identifier: MIT */
/* Opens a dataset on rank 0 and shares it with all ranks, so that folders are listed once. The exchange is
 * left to cluster/comm/from_rank0.h; the counterpart for sources is tools/pack/open.c. */
#include "train/feed/data.h"

#include "cluster/comm/from_rank0.h"
#include "train/feed/content.h"

static const char what[] = "opening data";

typedef struct opening {
    const char *where;
    const transform_settings_t *settings;
    dataset_t *dataset;
} opening_t;

static err_t data_find(void *context, comm_alive_t alive, void *alive_context)
{
    opening_t *o = context;
    return dataset_open_watched(o->where, o->settings, &(open_watch_t){alive, alive_context}, &o->dataset);
}

static err_t data_save(void *context, void **bytes, int64_t *n_bytes)
{
    const opening_t *o = context;
    return dataset_save(o->dataset, bytes, n_bytes);
}

static err_t data_restore(void *context, void **bytes, int64_t n_bytes)
{
    opening_t *o = context;
    return dataset_restore(o->settings, bytes, n_bytes, &o->dataset);
}

err_t train_open_data(comm_t *comm, const char *where, const transform_settings_t *settings, dataset_t **out)
{
    opening_t opening = {where, settings, NULL};
    const comm_finding_t finding = {what, &opening, data_find, data_save, data_restore};
    bool shared = comm->size > 1 && comm->rank == 0 && dataset_is_shared(where);
    TRY(comm_broadcast(comm, &shared, sizeof shared, 0, what));
    err_t err = shared ? comm_share(comm, &finding)
                       : comm_agree(comm, dataset_open(where, settings, &opening.dataset), what);
    if (err == ERR_OK) err = content_begin(comm, opening.dataset);
    if (err == ERR_OK)
        *out = opening.dataset;
    else
        dataset_close(&opening.dataset);
    return err;
}
