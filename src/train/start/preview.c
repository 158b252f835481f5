/* SPDX-License-Identifier: MIT */
/* --preview: draws the first training samples as the model gets them, on rank 0. They come from a run's own loader, and
 * their pixels are the network's with normalization undone. The drawing is left to data/show. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/log.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/dataset.h"
#include "data/show/sheet.h"
#include "text/figure.h"
#include "train/feed/data.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* Samples up to LARGE pixels wide are drawn whole, small ones enlarged to about SIDE; of large ones there are FEW. */
enum { MANY = 24, FEW = 12, SIDE = 224, LARGE = 480, TITLE_MAX = FS_PATH_MAX + 256 };

typedef struct preview {
    trainer_t *t;
    const dataset_info_t *info;
    arena_t memory;          /* of the next two, and of the samples' images and annotations */
    category_t *categories;  /* [n_classes] */
    sheet_sample_t *samples; /* [n] */
    int64_t n;
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

static err_t put_name(preview_t *p, int64_t index, sheet_sample_t *out)
{
    char name[CONTENT_NAME_MAX];
    if (dataset_name(p->t->input.dataset, SPLIT_TRAIN, index, name, sizeof name))
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
    sheet_sample_t *out = &p->samples[p->n++];
    *out = (sheet_sample_t){.sample = {.label = -1, .height = info->height, .width = info->width}};
    TRY(put_name(p, batch->index[i], out));
    TRY(p->t->options->kind->show(&p->t->task.run, batch, i, &p->memory, &out->sample));
    return put_image(p, pixels, out->sample.height, out->sample.width, &out->image);
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
             t->options->kind->on_canvas ? "canvases of up to " : "", info->height, info->width,
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
                                   .boxed = t->options->kind->on_canvas,
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

err_t trainer_preview(trainer_t *t)
{
    comm_t *comm = t->comm;
    err_t err = comm->rank == 0 ? fs_check_target(t->options->preview) : ERR_OK;
    TRY(comm_agree(comm, err == ERR_OK ? err : err_context(err, "--preview"), "checking --preview"));
    TRY(trainer_ask_weights(t));
    TRY(train_open_input(t));
    err = trainer_plan_steps(t);
    if (err == ERR_OK) err = trainer_build_graph(t);
    TRY(comm_agree(comm, err, "building the model"));
    train_options_warn_idle(t->options, &t->runtime, t->input.dataset, false);
    train_print_data(t->options, &t->input, &t->task.run);
    watchdog_phase("drawing the first samples");
    preview_t p = {.t = t, .info = &t->input.dataset->info};
    err = comm->rank == 0 ? draw_samples(&p) : ERR_OK;
    arena_free(&p.memory);
    TRY(comm_barrier_asleep(comm, "drawing the first samples"));
    TRY(comm_agree(comm, err, "drawing the first samples"));
    return t->input.dataset->read ? corrupt_samples_share(comm, &t->input.bad) : ERR_OK;
}
