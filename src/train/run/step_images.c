/* SPDX-License-Identifier: MIT */
/* A detector's part of a step, and its record. Passes over images are left to train/detect. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "data/load/images.h"
#include "train/run/step.h"

/* Seconds of backward passes so far; on a GPU they are not timed. */
static double backward_sec(const exec_t *exec)
{
    const exec_cost_t *costs = exec_costs(exec);
    double sec = 0;
    for (int i = 0; i < exec_graph(exec)->n_nodes; i++) sec += costs[i].backward_sec;
    return sec;
}

err_t step_compute_images(train_step_t *step, const exec_batch_t *shard)
{
    trainer_t *t = step->t;
    const dataset_info_t *info = &t->input.dataset->info;
    const train_images_part_t part = {.from = step->data.from,
                                      .pixels = step->data.pixels,
                                      .n_values = info->height * info->width * info->channels,
                                      .first = (int64_t)(shard->first_sample - step->batch.first_sample),
                                      .n = shard->n,
                                      .common = shard};
    double start, end, backward = backward_sec(t->model.exec);
    TRY(step_note(t, step->number, MARK_BEGIN, &start));
    TRY(train_images_run(t->model.images, &part, step_tail(t, step->number) + TAIL_SUMS, &step->images));
    TRY(hd_buffer_push_all(&t->learning.tails[step_slot(step->number)]));
    step_slowdown(t, "forward", part.n);
    step_slowdown(t, "backward", part.n);
    TRY(step_note(t, step->number, MARK_FORWARD, &end));
    TRY(step_note(t, step->number, MARK_BACKWARD, &end));
    if (step_on_device(t) && !t->steps.plan.in_parts) return ERR_OK;
    backward = backward_sec(t->model.exec) - backward;
    step->cost.backward += backward;
    step->cost.forward += end - start - backward;
    step_trace(step->number, "images", start, end, 0);
    return ERR_OK;
}

/* An image of any rank. */
typedef struct image_record {
    train_images_item_t item;
    int rank;
} image_record_t;

static err_t gather_images(trainer_t *t, int64_t n, image_record_t **all, int64_t *n_all)
{
    int64_t first;
    const int64_t n_local = sampler_share(t->input.sampler, n, t->comm->rank, t->comm->size, &first);
    image_record_t *mine = NULL;
    err_t err = mem_new_array(n_local, sizeof *mine, "the images of a step", &mine);
    for (int64_t i = 0; err == ERR_OK && i < n_local; i++)
        mine[i] = (image_record_t){train_images_items(t->model.images)[i], t->comm->rank};
    err = comm_agree(t->comm, err, "recording images");
    if (err == ERR_OK)
        err = task_gather(t->comm, mine, n_local * (int64_t)sizeof *mine, "recording images", all, n_all);
    *n_all /= (int64_t)sizeof *mine;
    mem_free(&mine);
    return err;
}

static void record_image(const image_record_t *r, const canvases_t *canvases, json_t *j)
{
    char canvas[48];
    const map_size_t size = canvases->size[r->item.canvas];
    snprintf(canvas, sizeof canvas, "%lldx%lld", (long long)size.height, (long long)size.width);
    json_object_begin(j, NULL);
    json_int(j, "image", r->item.image);
    json_string(j, "canvas", canvas);
    json_int(j, "objects", r->item.n_objects);
    json_int(j, "positives", r->item.n_positives);
    json_real(j, "sec", r->item.sec);
    json_int(j, "rank", r->rank);
    json_object_end(j);
}

err_t trainer_record_images(trainer_t *t, int64_t n, json_t *j)
{
    images_detection_t data;
    image_record_t *all = NULL;
    int64_t n_all = 0;
    if (!images_detection(t->input.dataset, &data)) return ERR_OK;
    err_t err = gather_images(t, n, &all, &n_all);
    if (err == ERR_OK && j) {
        json_array_begin(j, "images");
        for (int64_t i = 0; i < n_all; i++) record_image(&all[i], data.canvases, j);
        json_array_end(j);
    }
    mem_free(&all);
    return err;
}
