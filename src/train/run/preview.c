/* SPDX-License-Identifier: MIT */
/* --preview: draws the first training samples as the model gets them, on rank 0. They come from a run's own loader, and
 * their pixels are the network's with normalization undone. The drawing is left to data/show. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/watchdog.h"
#include "compute/models/rcnn.h"
#include "data/image/orient.h"
#include "data/load/images.h"
#include "data/load/samples.h"
#include "data/show/sheet.h"
#include "train/detect/targets.h"
#include "train/feed/data.h"
#include "train/run/options.h"
#include "train/run/setup.h"

/* Samples up to LARGE pixels wide are drawn whole, small ones enlarged to about SIDE; of large ones there are FEW. */
enum { MANY = 24, FEW = 12, SIDE = 224, LARGE = 480, TITLE_MAX = FS_PATH_MAX + 256 };

typedef struct preview {
    trainer_t *t;
    const dataset_info_t *info;
    arena_t memory;          /* of the next two, and of the samples' images and annotations */
    category_t *categories;  /* [n_classes] */
    sheet_sample_t *samples; /* [n] */
    int64_t n;
    uint8_t *cut, *mask; /* of an object, in pixels of its image and of the canvas */
    rle_t rle;
} preview_t;

/* Bytes from what pixel_table_t makes of them, rounded: samples may have been interpolated since. */
static err_t put_image(preview_t *p, const float *pixels, int64_t height, int64_t width, image_t *out)
{
    const int64_t n_channels = p->info->channels;
    const pixel_norm_t *norm = &p->info->norm;
    uint8_t *rgb;
    TRY(arena_new(&p->memory, (size_t)(3 * height * width), &rgb));
    for (int64_t i = 0; i < height * width; i++)
        for (int c = 0; c < 3; c++) {
            const int64_t from = n_channels == 3 ? c : 0;
            const double value = 255 * (pixels[i * n_channels + from] * norm->std[from] + norm->mean[from]);
            rgb[3 * i + c] = (uint8_t)fmin(fmax(value + 0.5, 0), 255);
        }
    *out = (image_t){width, height, rgb};
    return ERR_OK;
}

/* TASK_MULTILABEL: an annotation for each category that the sample has, without a place. */
static err_t put_targets(preview_t *p, const float *targets, sample_t *out)
{
    annotation_t *annotations;
    TRY(arena_new(&p->memory, (size_t)p->info->n_classes * sizeof *annotations, &annotations));
    for (int k = 0; k < p->info->n_classes; k++)
        if (targets[k] > 0) annotations[out->n_annotations++] = (annotation_t){.id = k, .category = k};
    out->annotations = annotations;
    return ERR_OK;
}

/* The mask on the canvas: resized with the image by the nearest pixel, as mask_target_make does. */
static err_t put_mask(preview_t *p, const detection_place_t *place, const rle_t *stored, annotation_t *out)
{
    const bool swapped = orient_swaps(place->orientation);
    const mask_view_t view = {.stored = {swapped ? place->image_width : place->image_height,
                                         swapped ? place->image_height : place->image_width},
                              .orientation = place->orientation,
                              .flipped = place->flipped};
    const int64_t height = place->canvas_height, width = place->canvas_width;
    mask_cut_t cut;
    uint32_t *runs;
    TRY(mask_cut_make(stored, &view, &p->cut, &cut));
    TRY(mem_grow(height * width, 1, "a mask", &p->mask));
    memset(p->mask, 0, (size_t)(height * width));
    for (int64_t y = 0; y < place->scaled_height; y++)
        for (int64_t x = 0; x < place->scaled_width; x++) {
            const int64_t row = y * place->image_height / place->scaled_height - cut.y,
                          column = x * place->image_width / place->scaled_width - cut.x;
            if (row >= 0 && row < cut.height && column >= 0 && column < cut.width)
                p->mask[y * width + x] = cut.inside[row * cut.width + column];
        }
    TRY(rle_encode(p->mask, (int32_t)width, (int32_t)height, &p->rle));
    TRY(arena_new(&p->memory, (size_t)p->rle.n * sizeof *runs, &runs));
    memcpy(runs, p->rle.runs, (size_t)p->rle.n * sizeof *runs);
    out->segmentation = SEGMENTATION_RLE;
    out->runs = runs;
    out->n_runs = p->rle.n;
    return ERR_OK;
}

/* TASK_DETECT: sample i of the batch, on its canvas. */
static err_t put_objects(preview_t *p, const batch_t *batch, int64_t i, bool masks, sample_t *out)
{
    const batch_field_t *f = batch->fields;
    const int64_t first = f[DETECTION_BOX].offsets[i], n = f[DETECTION_BOX].offsets[i + 1] - first;
    const float *box = (const float *)f[DETECTION_BOX].data + 4 * first;
    const int32_t *class = (const int32_t *)f[DETECTION_CLASS].data + first,
                  *n_runs = (const int32_t *)f[DETECTION_MASK_N].data + first,
                  *runs = (const int32_t *)f[DETECTION_RUNS].data + f[DETECTION_RUNS].offsets[i];
    annotation_t *annotations;
    detection_place_t place;
    memcpy(&place, (const detection_place_t *)f[DETECTION_FIELD_PLACE].data + i, sizeof place);
    TRY(arena_new(&p->memory, (size_t)(n + 1) * sizeof *annotations, &annotations));
    for (int64_t k = 0; k < n; runs += n_runs[k++]) {
        const float *b = box + 4 * k;
        rle_t stored = {.n = n_runs[k]};
        annotations[k] = (annotation_t){.id = k + 1,
                                        .category = class[k],
                                        .crowd = class[k] == 0 ? CROWD_IGNORED : CROWD_NONE,
                                        .box = {b[0], b[1], (double)b[2] - b[0], (double)b[3] - b[1]}};
        if (!masks || n_runs[k] == 0) continue;
        TRY(arena_new(&p->memory, (size_t)n_runs[k] * sizeof *stored.runs, &stored.runs));
        memcpy(stored.runs, runs, (size_t)n_runs[k] * sizeof *stored.runs);
        TRY(put_mask(p, &place, &stored, &annotations[k]));
    }
    out->n_annotations = (int32_t)n;
    out->annotations = annotations;
    return ERR_OK;
}

static err_t put_name(preview_t *p, int64_t index, sheet_sample_t *out)
{
    char name[CONTENT_NAME_MAX];
    if (images_name(p->t->input.dataset, SPLIT_TRAIN, index, name, sizeof name))
        TRY(arena_format(&p->memory, &out->text, "%s", name));
    else
        TRY(arena_format(&p->memory, &out->text, "#%" PRId64, index));
    out->sample.name = out->text;
    return ERR_OK;
}

static err_t put_sample(preview_t *p, const batch_t *batch, int64_t i)
{
    const dataset_info_t *info = p->info;
    const float *pixels = batch->pixels + i * info->height * info->width * info->channels;
    const void *field = batch->fields[0].data;
    sheet_sample_t *out = &p->samples[p->n++];
    detection_place_t place = {.canvas_height = (int32_t)info->height, .canvas_width = (int32_t)info->width};
    *out = (sheet_sample_t){.sample = {.label = -1}};
    TRY(put_name(p, batch->index[i], out));
    if (info->task == TASK_DETECT) memcpy(&place, (const detection_place_t *)field + i, sizeof place);
    TRY(put_image(p, pixels, place.canvas_height, place.canvas_width, &out->image));
    out->sample.width = place.canvas_width;
    out->sample.height = place.canvas_height;
    if (info->task == TASK_DETECT)
        return put_objects(p, batch, i, rcnn_has_masks(p->t->model.graph), &out->sample);
    if (info->task == TASK_MULTILABEL)
        return put_targets(p, (const float *)field + i * info->n_classes, &out->sample);
    out->sample.label = ((const int32_t *)field)[i];
    return ERR_OK;
}

static int64_t most_samples(const dataset_info_t *info)
{
    return info->width > LARGE / 2 ? FEW : MANY;
}

/* This rank's first samples of the first epoch, from its own batches. */
static err_t take_samples(preview_t *p)
{
    trainer_t *t = p->t;
    const int64_t most = most_samples(p->info), share = t->input.max_local,
                  n_batches = sampler_batches(t->input.sampler), needed = (most + share - 1) / share;
    loader_options_t options = trainer_loader_options(t);
    loader_t *loader = NULL;
    err_t err = ERR_OK;
    options.n_batches = needed < n_batches ? needed : n_batches;
    options.max_local = share < most ? share : most;
    options.first_only = true;
    TRY(arena_new(&p->memory, (size_t)most * sizeof *p->samples, &p->samples));
    TRY(loader_open(&options, &loader));
    for (int64_t b = 0; err == ERR_OK && b < options.n_batches; b++) {
        const batch_t *batch;
        err = loader_next(loader, &batch);
        for (int64_t i = 0; err == ERR_OK && i < batch->n && p->n < most; i++) err = put_sample(p, batch, i);
    }
    loader_close(&loader);
    return err;
}

static err_t name_categories(preview_t *p)
{
    const dataset_info_t *info = p->info;
    TRY(arena_new(&p->memory, (size_t)info->n_classes * sizeof *p->categories, &p->categories));
    for (int k = 0; k < info->n_classes; k++) {
        p->categories[k] = (category_t){.id = k, .supergroup = ""};
        if (info->class_names)
            p->categories[k].name = info->class_names[k];
        else
            TRY(arena_format(&p->memory, &p->categories[k].name, "%d", k));
    }
    return ERR_OK;
}

/* "mean 0.485 0.456 0.406, std 0.229 0.224 0.225" */
static void describe_norm(const dataset_info_t *info, char *out, size_t n_bytes)
{
    const pixel_norm_t *norm = &info->norm;
    size_t n = (size_t)snprintf(out, n_bytes, "mean");
    for (int64_t c = 0; c < info->channels; c++)
        n += (size_t)snprintf(out + n, n_bytes - n, " %.4g", norm->mean[c]);
    n += (size_t)snprintf(out + n, n_bytes - n, ", std");
    for (int64_t c = 0; c < info->channels; c++)
        n += (size_t)snprintf(out + n, n_bytes - n, " %.4g", norm->std[c]);
}

static err_t draw_samples(preview_t *p)
{
    const trainer_t *t = p->t;
    const dataset_info_t *info = p->info;
    const int64_t width = info->width < SIDE ? info->width * (SIDE / info->width) : info->width;
    char of[128], size[48], norm[160], title[TITLE_MAX], about[512];
    page_t *page = NULL;
    TRY(name_categories(p));
    TRY(take_samples(p));
    snprintf(of, sizeof of, "the first %" PRId64 " of %s training samples%s", p->n,
             figure_count(info->n_samples[SPLIT_TRAIN]).text, t->comm->size > 1 ? " that rank 0 gets" : "");
    snprintf(size, sizeof size, "%s%" PRId64 "x%" PRId64 "x%" PRId64,
             info->task == TASK_DETECT ? "canvases of up to " : "", info->height, info->width,
             info->channels);
    describe_norm(info, norm, sizeof norm);
    snprintf(title, sizeof title, "%s: %s", info->source, of);
    snprintf(about, sizeof about, "as %s gets them in epoch 1 with seed %" PRId64 ", %s; undone: %s",
             t->options->model, t->options->seed, size, norm);
    const sheet_samples_t sheet = {.samples = p->samples,
                                   .n = p->n,
                                   .tile = width < SHEET_MIN_TILE ? SHEET_MIN_TILE
                                           : width > LARGE        ? LARGE
                                                                  : width,
                                   .categories = p->categories,
                                   .boxed = info->task == TASK_DETECT,
                                   .title = title,
                                   .about = about};
    TRY(sheet_draw_samples(&sheet, &page));
    const err_t err = page_write_png(page, t->options->preview);
    if (err == ERR_OK) {
        log_info("%s: %s, as %s gets them", t->options->preview, of, t->options->model);
        log_info("  epoch 1, seed %" PRId64 ", %s, normalization undone (%s); %" PRId64 " x %" PRId64
                 " pixels; nothing was trained",
                 t->options->seed, size, norm, page->width, page->height);
        for (int64_t i = 0; i < p->n; i++) log_detail("  sample %" PRId64 ": %s", i + 1, p->samples[i].text);
    }
    page_free(&page);
    return err;
}

static err_t draw_on_rank_0(trainer_t *t)
{
    preview_t p = {.t = t, .info = &t->input.dataset->info};
    const err_t err = draw_samples(&p);
    arena_free(&p.memory);
    rle_free(&p.rle);
    mem_free(&p.cut);
    mem_free(&p.mask);
    return err;
}

err_t trainer_preview(trainer_t *t)
{
    comm_t *comm = t->comm;
    err_t err = comm->rank == 0 ? fs_check_target(t->options->preview) : ERR_OK;
    TRY(comm_agree(comm, err == ERR_OK ? err : err_context(err, "--preview"), "checking --preview"));
    TRY(train_open_input(comm, t->options, &t->input));
    err = trainer_plan_steps(t);
    if (err == ERR_OK) err = trainer_build_graph(t);
    TRY(comm_agree(comm, err, "building the model"));
    train_options_warn_idle(t->options, &t->runtime, t->input.dataset, false);
    trainer_print_data(t);
    watchdog_phase("drawing the first samples");
    err = comm->rank == 0 ? draw_on_rank_0(t) : ERR_OK;
    TRY(comm_barrier_asleep(comm, "drawing the first samples"));
    TRY(comm_agree(comm, err, "drawing the first samples"));
    return t->input.dataset->ops->read ? corrupt_samples_share(comm, &t->input.bad) : ERR_OK;
}
