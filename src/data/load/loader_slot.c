/* SPDX-License-Identifier: MIT */
/* Allocates the memory of one batch and fills in its samples: reads, normalises and augments them (or keeps
 * bytes, for a GPU), and replaces a corrupt sample by the next readable one. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "data/load/loader_private.h"
#include "data/transform/transform.h"
#include "data/transform/warp.h"

/* Allocates `count` elements and touches their pages. */
static err_t make_block(const loader_t *loader, int64_t count, size_t element_bytes, const char *what,
                        void *out_pointer)
{
    void **out = out_pointer;
    size_t n_bytes = (size_t)count * element_bytes;
    if (loader->options.alloc)
        TRY(loader->options.alloc(n_bytes, what, out));
    else
        TRY(mem_new_array(count, element_bytes, what, out));
    mem_touch(*out, n_bytes);
    return ERR_OK;
}

static void release_block(const loader_t *loader, void *in_out_pointer)
{
    void **block = in_out_pointer;
    if (!loader->options.release) {
        mem_free(block);
        return;
    }
    if (*block) loader->options.release(*block);
    *block = NULL;
}

static err_t make_field(const loader_t *loader, const field_t *field, batch_field_t *out)
{
    int64_t n = loader->options.max_local;
    TRY(make_block(loader, n, field_sample_bytes(field), "a batch of fields", &out->data));
    if (field->max_rows == 0) return ERR_OK;
    TRY(mem_new_array(n + 1, sizeof *out->offsets, "offsets of a batch", &out->offsets));
    mem_touch(out->offsets, (size_t)(n + 1) * sizeof *out->offsets);
    return ERR_OK;
}

err_t loader_make_slot(const loader_t *loader, slot_t *slot)
{
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    int64_t n = o->max_local, n_image = info->height * info->width * info->channels;
    batch_t *b = &slot->batch;
    TRY(mem_new_array(n, sizeof *slot->wanted, "indices of a batch", &slot->wanted));
    TRY(mem_new_array(n, sizeof *b->index, "indices of a batch", &b->index));
    if (o->raw)
        TRY(make_block(loader, n * n_image, sizeof *b->bytes, "a batch of pixels", &b->bytes));
    else
        TRY(make_block(loader, n * n_image, sizeof *b->pixels, "a batch of pixels", &b->pixels));
    if (o->raw && loader->moved) TRY(make_block(loader, n, sizeof *b->maps, "a batch of maps", &b->maps));
    if (o->raw && samples_of(info->task)->on_canvas)
        TRY(mem_new_array(n, sizeof *b->places, "places of a batch", &b->places));
    for (int k = 0; k < loader->fields.n; k++) TRY(make_field(loader, &loader->fields.at[k], &b->fields[k]));
    return ERR_OK;
}

void loader_free_slot(const loader_t *loader, slot_t *slot)
{
    batch_t *batch = &slot->batch;
    release_block(loader, &batch->pixels);
    release_block(loader, &batch->bytes);
    release_block(loader, &batch->maps);
    for (int k = 0; k < FIELDS_MAX; k++) {
        release_block(loader, &batch->fields[k].data);
        mem_free(&batch->fields[k].offsets);
    }
    mem_free(&batch->places);
    mem_free(&batch->index);
    mem_free(&slot->wanted);
}

err_t loader_make_worker(loader_t *loader, worker_t *w)
{
    const dataset_info_t *info = &loader->options.dataset->info;
    int64_t n_image = info->height * info->width * info->channels;
    w->loader = loader;
    TRY(dataset_reader_open(loader->options.dataset, &w->reader));
    if (loader->options.raw) return ERR_OK;
    if (loader->jittered) TRY(mem_new_array(n_image, sizeof *w->bytes, "an image to jitter", &w->bytes));
    if (!loader->moved) return ERR_OK;
    TRY(mem_new_array(n_image, sizeof *w->image, "an image to move", &w->image));
    mem_touch(w->image, (size_t)n_image * sizeof *w->image);
    return ERR_OK;
}

void loader_free_worker(worker_t *w)
{
    dataset_reader_close(&w->reader);
    mem_free(&w->bytes);
    mem_free(&w->image);
}

/* Jitter precedes the map, because backends that prepare pixels themselves receive bytes and maps. */
static void jitter_sample(const loader_t *loader, const batch_t *batch, int64_t i, uint8_t *bytes)
{
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    const image_rect_t whole = {0, 0, (double)info->width, (double)info->height};
    const transform_t t = transform_random(o->transform, o->seed, batch->epoch, batch->index[i], whole);
    jitter_apply(&t.jitter, bytes, info->height * info->width, info->channels);
}

/* Puts an image on its canvas, or notes where it goes. */
static void put_on_canvas(const loader_t *loader, batch_t *batch, int64_t i, const dataset_sample_t *sample)
{
    const dataset_info_t *info = &loader->options.dataset->info;
    const canvas_place_t *place = sample->place;
    const int64_t first = i * info->height * info->width * info->channels;
    ASSERT(!loader->jittered && !loader->moved);
    if (!loader->options.raw) {
        canvas_normalize(place, sample->bytes, &loader->table, batch->pixels + first);
        return;
    }
    batch->places[i] = *place;
    memcpy(batch->bytes + first, sample->bytes,
           (size_t)(place->scaled.height * place->scaled.width * info->channels));
}

/* Transforms an image into its place in the batch. */
static void put_sample(worker_t *w, slot_t *slot, int64_t i, const dataset_sample_t *sample)
{
    const loader_t *loader = w->loader;
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    batch_t *batch = &slot->batch;
    int64_t n_pixels = info->height * info->width, n_values = n_pixels * info->channels;
    const uint8_t *bytes = sample->bytes;
    if (sample->place) {
        put_on_canvas(loader, batch, i, sample);
        return;
    }
    if (o->raw || loader->jittered) {
        uint8_t *own = o->raw ? batch->bytes + i * n_values : w->bytes;
        memcpy(own, bytes, (size_t)n_values);
        if (loader->jittered) jitter_sample(loader, batch, i, own);
        bytes = own;
    }
    float *pixels = o->raw ? NULL : batch->pixels + i * n_values;
    if (!o->raw) pixel_table_apply(&loader->table, bytes, n_pixels, loader->moved ? w->image : pixels);
    if (!loader->moved) return;
    affine_t map = transform_in_memory(o->transform, o->seed, batch->epoch, batch->index[i],
                                       (map_size_t){info->height, info->width});
    if (o->raw)
        batch->maps[i] = map;
    else
        warp_pixels(&map, w->image, info->height, info->width, info->channels, pixels);
}

/* Reads the sample at *index or the first readable one after it, and sets *index to it. Samples that are
 * known to be corrupt are tried again: damage may affect only a part, and results must not depend on what
 * other threads have seen so far. */
static err_t read_sample(worker_t *w, int64_t epoch, int64_t *index, const field_place_t *fields,
                         dataset_sample_t *out)
{
    const loader_options_t *o = &w->loader->options;
    int64_t n = o->dataset->info.n_samples[o->split];
    dataset_request_t request = {.split = o->split,
                                 .index = *index,
                                 .random = o->random,
                                 .seed = o->seed,
                                 .epoch = epoch,
                                 .fields = fields};
    for (int64_t tries = 0; tries < n; tries++, request.index = (request.index + 1) % n) {
        request.near = sampler_near(o->sampler, request.index, o->size);
        err_t err = dataset_read(&w->reader, &request, out);
        *index = request.index;
        if (err != ERR_DATA || !o->bad) return err;
        TRY(bad_add(o->bad, o->split, w->reader.image, CORRUPT_REPLACED));
    }
    RAISE(ERR_DATA, "none of the %" PRId64 " %s images of %s can be read", n, split_words[o->split],
          o->dataset->info.source);
}

/* Where sample i of a batch being filled has its rows. Ragged rows are apart until loader_pack_fields, and
 * offsets[i + 1] holds their number. */
static field_place_t place_of(const field_t *field, const batch_field_t *in, int64_t i)
{
    char *data = in->data;
    return (field_place_t){data + (size_t)i * field_sample_bytes(field),
                           in->offsets ? in->offsets + i + 1 : NULL};
}

void loader_pack_fields(const loader_t *loader, slot_t *slot)
{
    for (int k = 0; k < loader->fields.n; k++) {
        const field_t *field = &loader->fields.at[k];
        batch_field_t *in = &slot->batch.fields[k];
        size_t n_row = field_row_bytes(field), n_sample = field_sample_bytes(field);
        char *data = in->data;
        if (!in->offsets) continue;
        in->offsets[0] = 0;
        for (int64_t i = 0; i < slot->batch.n; i++) {
            int64_t n_rows = in->offsets[i + 1];
            ASSERT(n_rows >= 0 && n_rows <= field->max_rows);
            memmove(data + (size_t)in->offsets[i] * n_row, data + (size_t)i * n_sample,
                    (size_t)n_rows * n_row);
            in->offsets[i + 1] = in->offsets[i] + n_rows;
        }
    }
}

err_t loader_fill_sample(worker_t *w, slot_t *slot, int64_t i)
{
    batch_t *batch = &slot->batch;
    dataset_sample_t sample;
    field_place_t places[FIELDS_MAX];
    const fields_t *fields = &w->loader->fields;
    for (int k = 0; k < fields->n; k++) places[k] = place_of(&fields->at[k], &batch->fields[k], i);
    batch->index[i] = slot->wanted[i];
    TRY(read_sample(w, batch->epoch, &batch->index[i], places, &sample));
    put_sample(w, slot, i, &sample);
    return ERR_OK;
}
