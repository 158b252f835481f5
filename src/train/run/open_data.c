/* SPDX-License-Identifier: MIT */
/* Chooses and opens the data of a run on all ranks, compares it between hosts, and decodes a few images, so
 * that unusable data is refused at once. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/comm/watchdog.h"
#include "train/feed/content.h"
#include "train/feed/data.h"
#include "train/feed/probe.h"
#include "train/run/setup.h"

typedef struct data_choice {
    char where[FS_PATH_MAX];
    char why[128];
} data_choice_t;

static err_t compare_data(trainer_t *t)
{
    uint64_t *hashes;
    TRY(mem_new_array(t->comm->size, sizeof *hashes, "data hashes", &hashes));
    err_t err = comm_allgather(t->comm, &t->dataset->info.hash, sizeof *hashes, hashes, "comparing data");
    uint64_t first = hashes[0];
    mem_free(&hashes);
    TRY(err);
    if (t->dataset->info.hash != first)
        err = err_raise(
            ERR_DATA, __FILE__, __LINE__,
            "%s on host %s differs from the data on rank 0's host; copy the same files to every host",
            t->dataset->info.source, t->comm->topo.host_name);
    return comm_agree(t->comm, err, "comparing data");
}

/* Datasets of folders and shards transform their own images; the loader transforms images in memory. */
static err_t check_transform(trainer_t *t)
{
    const dataset_info_t *info = &t->dataset->info;
    if (!t->dataset->ops->read)
        return transform_resolve_in_memory(&t->transform, info->channels, t->data_where);
    if (!info->transform[0] && random_affine_active(&t->transform.affine))
        RAISE(ERR_USAGE,
              "--augment-... options do not apply to %s with --input-size: its pixels are already random",
              t->data_where);
    return ERR_OK;
}

err_t trainer_open_data(trainer_t *t)
{
    data_choice_t choice = {"", ""};
    t->transform = transform_settings(&t->options->transform);
    err_t err = ERR_OK;
    if (t->comm->rank == 0) err = dataset_choose(t->options->data, choice.where, choice.why);
    TRY(comm_agree(t->comm, err, "choosing data"));
    TRY(comm_broadcast(t->comm, &choice, sizeof choice, 0, "choosing data"));
    memcpy(t->data_where, choice.where, sizeof t->data_where);
    memcpy(t->data_why, choice.why, sizeof t->data_why);
    watchdog_phase("opening data");
    loader_apply_limits(&t->options->loader);
    TRY(comm_agree(t->comm, bad_open(t->options->loader.max_bad, &t->bad), "opening data"));
    TRY(train_open_data(t->comm, t->data_where, &t->transform, &t->dataset));
    TRY(comm_agree(t->comm, check_transform(t), "opening data"));
    TRY(compare_data(t));
    TRY(content_probe(t->comm, t->dataset, &t->bad));
    if (t->comm->rank == 0) err = probe_images(t->dataset, &t->bad);
    return comm_agree(t->comm, err, "decoding an image of each kind");
}
