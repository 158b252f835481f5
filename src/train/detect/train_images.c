/* SPDX-License-Identifier: MIT */
/* Cuts a batch into micro-batches, takes objects and masks of each image from the loader's fields, and sums gradients
 * and losses over the passes. */
#include "train/detect/train_images.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/ops/hd_buffer.h"
#include "data/load/samples.h"
#include "train/detect/targets.h"

/* The masks of one image, for train_image_masks_t. */
typedef struct image_masks {
    train_images_t *t;
    const detection_place_t *place;
    const int32_t *counts, *runs;
    int64_t n;
} image_masks_t;

struct train_images {
    train_images_options_t options;
    train_image_t *train;
    int n_losses;
    task_sum_t sum_of[GRAPH_MAX_OUTPUTS]; /* of each loss, in the order of exec_batch_t.tally */
    hd_buffer_t tally;                    /* [n_losses][2] of a pass */
    float *added;                         /* gradients of earlier passes; of the backend */
    double *cuts;                         /* [max_local] of a part: not 0: a pass begins with this image */
    /* Of a pass, [max_images]. */
    train_image_input_t *inputs;
    train_image_counts_t *counts;
    image_masks_t *masks;
    box_t *boxes;               /* [max_images][max_objects] */
    train_images_item_t *items; /* [max_local] */
    uint8_t *bitmap;            /* of a mask */
    exec_nonfinite_t found;
    int64_t found_image;
};

static task_sum_t find_sum(const char *loss)
{
    static const struct {
        const char *prefix, *suffix;
        task_sum_t sum;
    } names[] = {{"rpn.", ".objectness_loss", TASK_SUM_OBJECTNESS},
                 {"rpn.", ".box_loss", TASK_SUM_PROPOSAL_BOX},
                 {"box.", ".class_loss", TASK_SUM_CLASS},
                 {"box.", ".box_loss", TASK_SUM_BOX},
                 {"mask.", ".loss", TASK_SUM_MASK}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *end = strrchr(loss, '.');
        if (end && strcmp(end, names[i].suffix) == 0 &&
            strncmp(loss, names[i].prefix, strlen(names[i].prefix)) == 0)
            return names[i].sum;
    }
    ASSERT(!"a loss of compute/models/rcnn.h");
    return TASK_SUM_LOSS;
}

static size_t gradient_bytes(const train_images_t *t)
{
    return (size_t)t->options.image.graph->n_flat_trained * sizeof(float);
}

err_t train_images_new(const train_images_options_t *options, train_images_t **out)
{
    static const char what[] = "images of a micro-batch";
    const backend_t *backend = options->image.backend;
    const int64_t n = options->image.max_images;
    const graph_t *g = exec_graph(options->image.exec);
    train_images_t *t = NULL;
    err_t err;
    TRY(mem_new(sizeof *t, "training of a detector", &t));
    t->options = *options;
    for (int i = 0; i < g->n_nodes; i++)
        if (graph_count_losses(g, i + 1) > graph_count_losses(g, i)) {
            ASSERT(t->n_losses < GRAPH_MAX_OUTPUTS);
            t->sum_of[t->n_losses++] = find_sum(g->nodes[i].name);
        }
    TRY_OUT(err, train_image_new(&options->image, &t->train));
    TRY_OUT(err, hd_buffer_new(backend, (size_t)t->n_losses * 2 * sizeof(float), "losses", &t->tally));
    TRY_OUT(err, mem_new_array(options->max_local, sizeof *t->items, "images of a batch", &t->items));
    TRY_OUT(err, mem_new_array(options->max_local, sizeof *t->cuts, "images of a batch", &t->cuts));
    TRY_OUT(err, mem_new_array(n, sizeof *t->inputs, what, &t->inputs));
    TRY_OUT(err, mem_new_array(n, sizeof *t->counts, what, &t->counts));
    TRY_OUT(err, mem_new_array(n, sizeof *t->masks, what, &t->masks));
    TRY_OUT(err,
            mem_new_array(n * options->image.max_objects, sizeof *t->boxes, "objects of images", &t->boxes));
    if (options->max_local > 1)
        TRY_OUT(err, backend_alloc(backend, gradient_bytes(t), "accumulated gradients", &t->added));
    *out = t;
    return ERR_OK;
out:
    train_images_free(&t);
    *out = NULL;
    return err;
}

void train_images_free(train_images_t **images)
{
    train_images_t *t = *images;
    if (!t) return;
    train_image_free(&t->train);
    hd_buffer_free(&t->tally);
    backend_release(t->options.image.backend, &t->added);
    mem_free(&t->items);
    mem_free(&t->cuts);
    mem_free(&t->inputs);
    mem_free(&t->counts);
    mem_free(&t->masks);
    mem_free(&t->boxes);
    mem_free(&t->bitmap);
    mem_free(images);
}

/* The rows of a ragged field that belong to image i. */
static const void *rows_of(const batch_t *from, int field, int64_t i, size_t row_bytes, int64_t *n)
{
    const batch_field_t *f = &from->fields[field];
    *n = f->offsets[i + 1] - f->offsets[i];
    return (const char *)f->data + (size_t)f->offsets[i] * row_bytes;
}

static err_t get_mask(void *context, int64_t object, mask_cut_t *out)
{
    image_masks_t *m = context;
    const detection_place_t *p = m->place;
    const bool turned = p->orientation > 4;
    const mask_view_t view = {
        .stored = {turned ? p->image_width : p->image_height, turned ? p->image_height : p->image_width},
        .orientation = p->orientation,
        .flipped = p->flipped};
    int64_t first = 0;
    ASSERT(object < m->n);
    *out = (mask_cut_t){0};
    if (m->counts[object] == 0) return ERR_OK;
    for (int64_t k = 0; k < object; k++) first += m->counts[k];
    /* mask_cut_make only reads the runs. */
    const rle_t mask = {(uint32_t *)(uintptr_t)(m->runs + first), m->counts[object]};
    return mask_cut_make(&mask, &view, &m->t->bitmap, out);
}

static const detection_place_t *place_of(const train_images_part_t *part, int64_t i)
{
    return (const detection_place_t *)part->from->fields[DETECTION_FIELD_PLACE].data + i;
}

/* Fills in input k of a pass from image i of the batch. */
static void fill_input(train_images_t *t, const train_images_part_t *part, int64_t i, int64_t k)
{
    const batch_t *from = part->from;
    const detection_place_t *place = place_of(part, i);
    int64_t n, n_runs;
    image_masks_t *masks = &t->masks[k];
    box_t *own = t->boxes + k * t->options.image.max_objects;
    const float *boxes = rows_of(from, DETECTION_BOX, i, 4 * sizeof *boxes, &n);
    const int32_t *classes = rows_of(from, DETECTION_CLASS, i, sizeof *classes, &n);
    *masks = (image_masks_t){.t = t, .place = place};
    masks->counts = rows_of(from, DETECTION_MASK_N, i, sizeof *masks->counts, &masks->n);
    masks->runs = rows_of(from, DETECTION_RUNS, i, sizeof *masks->runs, &n_runs);
    ASSERT(n <= t->options.image.max_objects);
    int64_t n_objects = n;
    while (n_objects > 0 && classes[n_objects - 1] == 0) n_objects--;
    for (int64_t j = 0; j < n; j++, boxes += 4) own[j] = (box_t){boxes[0], boxes[1], boxes[2], boxes[3]};
    t->inputs[k] =
        (train_image_input_t){.pixels = part->pixels + i * part->n_values,
                              .canvas = {place->canvas_height, place->canvas_width},
                              .scaled = {place->scaled_height, place->scaled_width},
                              .image = {place->image_height, place->image_width},
                              .objects = {n_objects, own, classes, n - n_objects},
                              .masks = {get_mask, masks},
                              .draw = {t->options.seed, (uint32_t)from->epoch, (uint32_t)place->image}};
}

/* A pass over n images from image `first` on. */
static err_t run_pass(train_images_t *t, const train_images_part_t *part, int64_t first, int64_t n,
                      float *sums)
{
    const float *tally = t->tally.host;
    exec_batch_t common = *part->common;
    const double start = clock_sec();
    for (int64_t k = 0; k < n; k++) fill_input(t, part, first + k, k);
    memset(t->tally.host, 0, t->tally.n_bytes);
    TRY(hd_buffer_push_all(&t->tally));
    common.tally = t->tally.device;
    TRY(train_image_run(t->train, &common, t->inputs, n, t->counts));
    TRY(hd_buffer_pull_all(&t->tally));
    bool finite = true;
    for (int i = 0; i < t->n_losses; i++) {
        finite = finite && isfinite(tally[2 * i]);
        sums[TASK_SUM_LOSS] += tally[2 * i];
        sums[t->sum_of[i]] += tally[2 * i];
    }
    const double sec = clock_sec() - start;
    for (int64_t k = 0; k < n; k++) {
        const detection_place_t *place = place_of(part, first + k);
        const int64_t n_objects = t->inputs[k].objects.n, n_positives = t->counts[k].n_positives;
        sums[TASK_SUM_POSITIVES] += (float)n_positives;
        sums[TASK_SUM_FOUND] += (float)t->counts[k].n_found;
        sums[TASK_SUM_OBJECTS] += (float)n_objects;
        t->items[first + k] =
            (train_images_item_t){place->image, place->canvas, n_objects, n_positives, sec / (double)n};
    }
    /* Of the first pass with a loss that is not finite. */
    if (t->found.where[0] || finite) return ERR_OK;
    TRY(train_image_find_nonfinite(t->train, &common, t->inputs, n, &t->found));
    t->found_image = t->inputs[t->found.sample].draw.image;
    return ERR_OK;
}

int64_t train_images_pass(int64_t most, int64_t left)
{
    int64_t n = 1;
    while (2 * n <= left) n *= 2;
    return left >= most ? most : n;
}

err_t train_images_run(train_images_t *t, const train_images_part_t *part, float *sums, task_cost_t *cost)
{
    const backend_t *backend = t->options.image.backend;
    const int64_t n_floats = t->options.image.graph->n_flat_trained, most = t->options.image.max_images;
    float *grads = t->options.grads;
    bool added = false;
    if (part->first == 0) t->found.where[0] = '\0';
    if (part->n == 0) return backend_zero(backend, grads, gradient_bytes(t));
    /* Cuts where the canvas changes; with synchronized batch norm where that of any rank does. */
    for (int64_t i = 0; i < part->n; i++) {
        const detection_place_t *place = place_of(part, part->first + i);
        t->cuts[i] = i > 0 && place->canvas != place[-1].canvas;
    }
    if (t->options.sum_shared && most > 1)
        TRY(t->options.sum_shared(t->options.share_context, t->cuts, part->n));
    for (int64_t i = 0, n; i < part->n; i += n) {
        int64_t cut = i + 1; /* the next one */
        while (cut < part->n && !(t->cuts[cut] > 0)) cut++;
        n = train_images_pass(most, cut - i);
        TRY(run_pass(t, part, part->first + i, n, sums));
        for (int64_t k = 0; k < n; k++) {
            cost->boxes += t->counts[k].boxes_sec;
            cost->masks += t->counts[k].masks_sec;
        }
        if (i + n == part->n) break;
        TRY(added ? backend->accumulate(t->added, grads, n_floats, DTYPE_F32)
                  : backend_copy(backend, t->added, grads, gradient_bytes(t)));
        added = true;
    }
    return added ? backend->accumulate(grads, t->added, n_floats, DTYPE_F32) : ERR_OK;
}

const train_images_item_t *train_images_items(const train_images_t *t)
{
    return t->items;
}

const char *train_images_where(const train_images_t *t, int64_t *image)
{
    *image = t->found_image;
    return t->found.where;
}
