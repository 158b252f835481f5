/* SPDX-License-Identifier: MIT */
/* Opens a source on rank 0 and shares it with all ranks, for packing and verifying. The counterpart for
 * datasets is train/feed/data.c. */
#include "tools/pack/open.h"

#include "cluster/comm/comm.h"
#include "data/source/source.h"

typedef struct opening {
    const char *path;
    const list_rules_t *rules;
    source_t *source;
} opening_t;

static err_t opening_find(void *context, comm_alive_t alive, void *alive_context)
{
    opening_t *o = context;
    return source_open_watched(o->path, o->rules, &(open_watch_t){alive, alive_context}, &o->source);
}

static err_t opening_save(void *context, void **bytes, int64_t *n_bytes)
{
    const opening_t *o = context;
    return source_save(o->source, bytes, n_bytes);
}

static err_t opening_restore(void *context, void **bytes, int64_t n_bytes)
{
    opening_t *o = context;
    return source_restore(bytes, n_bytes, &o->source);
}

err_t pack_open(comm_t *comm, const char *path, const list_rules_t *rules, const char *what, source_t **out)
{
    opening_t opening = {.path = path, .rules = rules};
    const comm_finding_t finding = {what, &opening, opening_find, opening_save, opening_restore};
    err_t err = comm_share(comm, &finding);
    if (err == ERR_OK)
        *out = opening.source;
    else
        source_close(&opening.source);
    return err;
}
