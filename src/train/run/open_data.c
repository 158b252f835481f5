/* SPDX-License-Identifier: MIT */
/* Chooses and opens the data of a run on all ranks, compares it between hosts, and decodes a few images, so
 * that unusable data is refused at once. */
#include <stdio.h>
#include <string.h>

#include "cluster/comm/watchdog.h"
#include "train/feed/data.h"
#include "train/run/setup.h"

/* For the sizes of images, where a shared folder is slow. */
#define LOOK_SEC 0.3

typedef struct data_choice {
    char where[FS_PATH_MAX];
    char why[128];
} data_choice_t;

static err_t compare_data(const comm_t *comm, const dataset_info_t *info, uint64_t of_rank_0)
{
    if (info->hash == of_rank_0) return ERR_OK;
    RAISE(ERR_DATA, "%s on host %s differs from the data on rank 0's host; copy the same files to every host",
          info->source, comm->topo.host_name);
}

/* Datasets of folders and shards transform their own images; the loader transforms images in memory. */
static err_t check_transform(train_input_t *input)
{
    const dataset_info_t *info = &input->dataset->info;
    if (!input->dataset->ops->read)
        return transform_resolve_in_memory(&input->transform, info->channels, input->where);
    if (!info->transform[0] && random_affine_active(&input->transform.affine))
        RAISE(ERR_USAGE,
              "--augment-... options do not apply to %s with --input-size: its pixels are already random",
              input->where);
    return ERR_OK;
}

err_t train_open_input(comm_t *comm, const train_options_t *options, train_input_t *input)
{
    data_choice_t choice = {"", ""};
    err_t err = comm->rank == 0 ? dataset_choose(options->data, choice.where, choice.why) : ERR_OK;
    TRY(comm_decide(comm, err, &choice, sizeof choice, "choosing data"));
    memcpy(input->where, choice.where, sizeof input->where);
    memcpy(input->why, choice.why, sizeof input->why);
    watchdog_phase("opening data");
    loader_apply_limits(&options->loader);
    input->transform = transform_settings(&options->transform);
    if (options->kind->transform) err = options->kind->transform(&options->detect, &input->transform);
    input->transform.list = list_rules(&options->loader.list, options->loader.max_bad);
    if (err == ERR_OK) err = bad_open(options->loader.max_bad, &input->bad);
    TRY(comm_agree(comm, err, "opening data"));
    TRY(train_open_data(comm, input->where, &input->transform, &input->dataset));
    err = comm->rank == 0 ? dataset_check_training(input->dataset) : ERR_OK;
    TRY(comm_agree(comm, err, "opening data"));
    const dataset_info_t *info = &input->dataset->info;
    uint64_t hash = info->hash;
    TRY(comm_broadcast(comm, &hash, sizeof hash, 0, "comparing data"));
    err = compare_data(comm, info, hash);
    if (err == ERR_OK) err = check_transform(input);
    TRY(comm_agree(comm, err, "comparing data"));
    TRY(content_probe(comm, input->dataset, &input->bad));
    if (comm->rank == 0) err = probe_images(input->dataset, &input->bad);
    if (comm->rank == 0 && err == ERR_OK) images_look(input->dataset, LOOK_SEC, &input->sizes);
    return comm_agree(comm, err, "decoding an image of each kind");
}
