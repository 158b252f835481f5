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

static err_t compare_data(comm_t *comm, const dataset_info_t *info)
{
    uint64_t *hashes;
    TRY(mem_new_array(comm->size, sizeof *hashes, "data hashes", &hashes));
    err_t err = comm_allgather(comm, &info->hash, sizeof *hashes, hashes, "comparing data");
    uint64_t first = hashes[0];
    mem_free(&hashes);
    TRY(err);
    if (info->hash != first)
        err = err_raise(
            ERR_DATA, __FILE__, __LINE__,
            "%s on host %s differs from the data on rank 0's host; copy the same files to every host",
            info->source, comm->topo.host_name);
    return comm_agree(comm, err, "comparing data");
}

/* Datasets of folders and shards transform their own images; the loader transforms images in memory. */
static err_t check_transform(train_input_t *input)
{
    const dataset_info_t *info = &input->dataset->info;
    if (!input->dataset->ops->read && input->transform.task == TASK_DETECT)
        RAISE(
            ERR_USAGE,
            "%s has no annotated objects, which a detector needs; point --data to a COCO folder, or to shards "
            "of one",
            input->where);
    if (!input->dataset->ops->read)
        return transform_resolve_in_memory(&input->transform, info->channels, input->where);
    if (info->task == TASK_DETECT) return ERR_OK;
    if (!info->transform[0] && random_affine_active(&input->transform.affine))
        RAISE(ERR_USAGE,
              "--augment-... options do not apply to %s with --input-size: its pixels are already random",
              input->where);
    return ERR_OK;
}

err_t train_open_input(comm_t *comm, const train_options_t *options, train_input_t *input)
{
    data_choice_t choice = {"", ""};
    input->transform = transform_settings(&options->transform);
    err_t err = options->detects ? detect_train_transform(&options->detect, &input->transform) : ERR_OK;
    TRY(comm_agree(comm, err, "choosing data"));
    if (comm->rank == 0) err = dataset_choose(options->data, choice.where, choice.why);
    TRY(comm_agree(comm, err, "choosing data"));
    TRY(comm_broadcast(comm, &choice, sizeof choice, 0, "choosing data"));
    memcpy(input->where, choice.where, sizeof input->where);
    memcpy(input->why, choice.why, sizeof input->why);
    watchdog_phase("opening data");
    loader_apply_limits(&options->loader);
    TRY(comm_agree(comm, bad_open(options->loader.max_bad, &input->bad), "opening data"));
    TRY(train_open_data(comm, input->where, &input->transform, &input->dataset));
    TRY(comm_agree(comm, check_transform(input), "opening data"));
    TRY(compare_data(comm, &input->dataset->info));
    TRY(content_probe(comm, input->dataset, &input->bad));
    if (comm->rank == 0) err = probe_images(input->dataset, &input->bad);
    return comm_agree(comm, err, "decoding an image of each kind");
}
