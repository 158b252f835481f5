/* SPDX-License-Identifier: MIT */
/* The samples of the tasks: labels and targets; crops of objects; images with objects, their boxes, classes and masks.
 * Reading and resizing are left to dataset.c. */
#include "data/load/samples.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/orient.h"
#include "data/transform/settings.h"

/* What an image has for training. */
typedef struct census {
    int64_t n_objects, n_ignored, n_runs, most_mask_runs, n_unmasked;
    int64_t unmasked; /* the first one's id */
    bool usable;      /* a box of more than a pixel */
} census_t;

/* What training takes an annotation for. */
static crowd_t crowd_of(const annotation_t *a, bool skip_unmasked)
{
    return !a->crowd && skip_unmasked && a->segmentation == SEGMENTATION_NONE ? CROWD_IGNORED : a->crowd;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static census_t count_objects(const sample_t *sample, bool skip_unmasked)
{
    census_t c = {0};
    for (int32_t k = 0; k < sample->n_annotations; k++) {
        const annotation_t *a = &sample->annotations[k];
        const crowd_t crowd = crowd_of(a, skip_unmasked);
        c.n_ignored += crowd == CROWD_IGNORED;
        if (!a->crowd && a->segmentation == SEGMENTATION_NONE && c.n_unmasked++ == 0) c.unmasked = a->id;
        if (crowd) continue;
        c.n_objects++;
        const int64_t n_runs = mask_max_runs(a, sample->width);
        c.n_runs += n_runs;
        c.most_mask_runs = larger(c.most_mask_runs, n_runs);
        c.usable = c.usable || (a->box[2] > 1 && a->box[3] > 1);
    }
    return c;
}

err_t detection_shown_size(const source_t *source, split_t split, int64_t i, source_buffer_t *buffer,
                           sample_t *sample, map_size_t *out)
{
    const source_entry_t *entry = &source->entries[split][i];
    image_info_t info;
    *out = (map_size_t){entry->height, entry->width};
    err_t err = source_read(source, split, i, buffer, sample);
    if (err == ERR_OK) err = image_info((image_bytes_t){sample->name, sample->bytes, sample->n_bytes}, &info);
    if (err == ERR_OK) *out = (map_size_t){info.height, info.width};
    return err == ERR_DATA ? source_describe(source, split, i, buffer, sample) : err;
}

err_t detection_add_canvases(const source_t *source, split_t split, const open_watch_t *watch,
                             canvases_t *canvases)
{
    const source_entry_t *entries = source->entries[split];
    const int64_t n = canvases->exact ? source->n_samples[split] : 0;
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    for (int64_t i = 0; i < n; i++) {
        err = canvases_add(canvases, (map_size_t){entries[i].height, entries[i].width}, "");
        TRY(err == ERR_DATA ? ERR_OK : err);
    }
    for (int64_t i = 0; err == ERR_OK && i < n; i++) {
        canvases_t more = *canvases;
        if (canvases_add(&more, (map_size_t){entries[i].width, entries[i].height}, "") == ERR_OK &&
            more.n == canvases->n)
            continue; /* nothing would be to add for it turned */
        if (watch) TRY_OUT(err, watch->alive(watch->context));
        sample_t sample;
        map_size_t size;
        TRY_OUT(err, detection_shown_size(source, split, i, &buffer, &sample, &size));
        err = canvases_add(canvases, size, sample.name);
        if (err == ERR_DATA) err = ERR_OK;
    }
out:
    source_free_buffer(source, &buffer);
    return err;
}

/* Of shapes that no canvas suits, the loader tells (--max-bad). */
static err_t check_canvas(const source_t *source, const canvases_t *canvases, int64_t image,
                          source_buffer_t *buffer)
{
    const source_entry_t *entry = &source->entries[SPLIT_TRAIN][image];
    const map_size_t stored = {entry->height, entry->width};
    canvas_place_t place;
    for (int i = 0; i < canvases->n_min_sizes; i++) {
        const int64_t min_size = canvases->min_sizes[i];
        sample_t sample;
        map_size_t size;
        if (canvas_place_at(canvases, min_size, stored, "", &place) != ERR_USAGE) continue;
        TRY(detection_shown_size(source, SPLIT_TRAIN, image, buffer, &sample, &size));
        TRY(canvas_place_at(canvases, min_size, size, sample.name, &place));
    }
    return ERR_OK;
}

/* Lists the samples, counts their objects, and completes exact canvases; reads every annotation of the source.
 * ERR_DATA names an image that exceeds DETECTION_MAX_OBJECTS or _RUNS. ERR_USAGE: no canvas holds a training image, which
 * is named; detection_add_canvases. */
static err_t detection_list(const source_t *source, const transform_settings_t *settings,
                            const open_watch_t *watch, sample_list_t *out)
{
    dataset_objects_t *objects = &out->objects;
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    out->canvases = settings->canvases;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n_images = source->n_samples[split];
        if (n_images > 0)
            TRY_OUT(err, mem_grow(out->n[split] + n_images, sizeof *out->of[split], "the list of samples",
                                  &out->of[split]));
        for (int64_t i = 0; i < n_images; i++) {
            sample_t sample;
            TRY_OUT(err, source_describe(source, split, i, &buffer, &sample));
            const census_t c = count_objects(&sample, settings->skip_unmasked);
            const bool keeps = split != SPLIT_TRAIN || settings->keep_empty || c.usable;
            if (split == SPLIT_TRAIN && (keeps || settings->skip_unmasked)) {
                if (objects->n_unmasked == 0)
                    objects->unmasked = c.unmasked, objects->unmasked_image = sample.id;
                objects->n_unmasked += c.n_unmasked;
            }
            if (!keeps) {
                objects->n_left_out++;
                continue;
            }
            const int64_t n = c.n_objects + c.n_ignored;
            if (n > DETECTION_MAX_OBJECTS)
                RAISE_OUT(err, ERR_DATA,
                          "%s of %s has %" PRId64 " objects; detection takes up to %d in an image",
                          sample.name, source->path, n, DETECTION_MAX_OBJECTS);
            if (c.n_runs > DETECTION_MAX_RUNS)
                RAISE_OUT(err, ERR_DATA,
                          "the masks of %s of %s have up to %" PRId64
                          " runs; detection takes %d in an image; shrink it or leave "
                          "it out",
                          sample.name, source->path, c.n_runs, DETECTION_MAX_RUNS);
            objects->most = larger(objects->most, n);
            objects->most_runs = larger(objects->most_runs, c.n_runs);
            objects->most_mask_runs = larger(objects->most_mask_runs, c.most_mask_runs);
            if (split == SPLIT_TRAIN) objects->n_train += c.n_objects;
            out->of[split][out->n[split]++] = (sample_ref_t){(int32_t)i, (int32_t)c.n_objects};
        }
        TRY_OUT(err, detection_add_canvases(source, split, watch, &out->canvases));
    }
    for (int64_t i = 0; err == ERR_OK && i < out->n[SPLIT_TRAIN]; i++)
        err = check_canvas(source, &out->canvases, out->of[SPLIT_TRAIN][i].image, &buffer);
out:
    source_free_buffer(source, &buffer);
    return err;
}

err_t detection_find_place(const transform_settings_t *s, const dataset_request_t *request, int64_t image,
                           const image_info_t *info, const char *name, detection_view_t *out)
{
    canvas_view_t view = {.min_size = s->canvases.min_size};
    if (request->random) view = transform_view(s, request->seed, request->epoch, image);
    out->info = *info;
    out->image = image;
    out->flipped = view.flipped;
    return canvas_place_at(&s->canvases, view.min_size, (map_size_t){info->height, info->width}, name,
                           &out->place);
}

static void detection_fields(const dataset_info_t *info, fields_t *out)
{
    const int64_t n = larger(info->objects.most, 1), n_runs = larger(info->objects.most_runs, 1);
    out->at[DETECTION_FIELD_PLACE] = (field_t){"place", DTYPE_I32, DETECTION_PLACE, 0};
    out->at[DETECTION_BOX] = (field_t){"box", DTYPE_F32, 4, n};
    out->at[DETECTION_CLASS] = (field_t){"class", DTYPE_I32, 1, n};
    out->at[DETECTION_MASK_N] = (field_t){"mask.n", DTYPE_I32, 1, n};
    out->at[DETECTION_RUNS] = (field_t){"mask.runs", DTYPE_I32, 1, n_runs};
    out->n = DETECTION_RUNS + 1;
    out->on_host = true;
}

/* As torchvision's transforms: turned, flipped, then scaled with the image. */
static void put_box(const detection_view_t *v, const double *stored, float *out)
{
    const map_size_t image = v->place.image, scaled = v->place.scaled;
    image_rect_t box = orient_to_shown(v->info.orientation, v->info.stored_width, v->info.stored_height,
                                       (image_rect_t){stored[0], stored[1], stored[2], stored[3]});
    if (v->flipped) box.x = (double)image.width - box.x - box.width;
    const double x = (double)scaled.width / (double)image.width,
                 y = (double)scaled.height / (double)image.height;
    out[0] = (float)(box.x * x);
    out[1] = (float)(box.y * y);
    out[2] = (float)((box.x + box.width) * x);
    out[3] = (float)((box.y + box.height) * y);
}

/* Appends the runs of an object's mask. */
static err_t put_mask(const dataset_info_t *info, const samples_item_t *item, const annotation_t *a,
                      const field_place_t *runs, int32_t *n_runs)
{
    const sample_t *sample = item->sample;
    rle_t *rle = &item->scratch->rle;
    int32_t *out = (int32_t *)runs->data + *runs->n_rows;
    const err_t err = mask_encode(a, sample->width, sample->height, &item->scratch->mask, rle);
    if (err == ERR_DATA) {
        err_info_t why;
        err_take(err, &why);
        RAISE(ERR_DATA, "annotation %" PRId64 " of %s: %s", a->id, item->name, why.message);
    }
    TRY(err);
    if (rle->n > info->objects.most_runs - *runs->n_rows)
        RAISE(ERR_DATA, "%s has other annotations than when it was opened", item->name);
    memcpy(out, rle->runs, (size_t)rle->n * sizeof *out);
    *runs->n_rows += rle->n;
    *n_runs = rle->n;
    return ERR_OK;
}

err_t detection_scratch_reserve(const dataset_info_t *info, detection_scratch_t *s)
{
    const int64_t n_runs = info->objects.most_mask_runs;
    TRY(mem_grow(n_runs, sizeof *s->rle.runs, "runs of a mask", &s->rle.runs));
    return mask_scratch_reserve(&s->mask, n_runs);
}

void detection_scratch_free(detection_scratch_t *s)
{
    mask_scratch_free(&s->mask);
    rle_free(&s->rle);
}

static err_t detection_fill(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out)
{
    const detection_view_t *v = item->view;
    const canvas_place_t *p = &v->place;
    const detection_place_t place = {.image = (int32_t)v->image,
                                     .canvas = p->index,
                                     .canvas_height = (int32_t)p->canvas.height,
                                     .canvas_width = (int32_t)p->canvas.width,
                                     .scaled_height = (int32_t)p->scaled.height,
                                     .scaled_width = (int32_t)p->scaled.width,
                                     .image_height = (int32_t)p->image.height,
                                     .image_width = (int32_t)p->image.width,
                                     .orientation = v->info.orientation,
                                     .flipped = v->flipped};
    float *boxes = out[DETECTION_BOX].data;
    int32_t *classes = out[DETECTION_CLASS].data, *n_runs = out[DETECTION_MASK_N].data;
    err_t err = ERR_OK;
    int64_t n = 0;
    memcpy(out[DETECTION_FIELD_PLACE].data, &place, sizeof place);
    *out[DETECTION_RUNS].n_rows = 0;
    for (int ignored = 0; ignored <= 1; ignored++)
        for (int32_t k = 0; k < item->sample->n_annotations; k++) {
            const annotation_t *a = &item->sample->annotations[k];
            if (crowd_of(a, item->skip_unmasked) != (ignored ? CROWD_IGNORED : CROWD_NONE)) continue;
            if (n == info->objects.most)
                RAISE_OUT(err, ERR_DATA, "%s has other annotations than when it was opened", item->name);
            put_box(v, a->box, boxes + 4 * n);
            classes[n] = ignored ? 0 : item->outputs[a->category];
            n_runs[n] = 0;
            if (!ignored && a->segmentation != SEGMENTATION_NONE)
                TRY_OUT(err, put_mask(info, item, a, &out[DETECTION_RUNS], &n_runs[n]));
            n++;
        }
out:
    *out[DETECTION_BOX].n_rows = *out[DETECTION_CLASS].n_rows = *out[DETECTION_MASK_N].n_rows = n;
    return err;
}

double detection_cost(map_size_t canvas, int64_t n_objects)
{
    /* Seconds of Mask R-CNN with ResNet-50 on one core (results/detection.md): box head and optimizer; trunk, pyramid and
     * proposal head on 800 x 1088; mask head of 128 positives. Positives as in results/detection_balance.md: half of
     * the most at 20 objects. Only ratios count. */
    static const double image_sec = 0.5, canvas_sec = 5.2, mask_sec = 2.1, canvas_area = 800 * 1088,
                        half = 20;
    const double n = (double)n_objects;
    return image_sec + canvas_sec * (double)(canvas.height * canvas.width) / canvas_area +
           mask_sec * n / (n + half);
}

void detection_weigh(const transform_settings_t *settings, const source_entry_t *image, int64_t n_objects,
                     const canvas_view_t *view, sampler_weight_t *out)
{
    canvas_place_t place;
    *out = (sampler_weight_t){0};
    if (canvas_place_at(&settings->canvases, view->min_size, (map_size_t){image->height, image->width},
                        "an image", &place) != ERR_OK)
        return;
    out->group = place.index;
    out->cost = detection_cost(place.canvas, n_objects);
}

static bool is_sample(const annotation_t *a)
{
    return !a->crowd && a->area >= TRANSFORM_MIN_AREA && a->box[2] > 0 && a->box[3] > 0;
}

/* The samples of --task crops: one per annotated object, except crowds and objects of less than TRANSFORM_MIN_AREA
 * pixels. */
static err_t list_crops(const source_t *source, const transform_settings_t *settings,
                        const open_watch_t *watch, sample_list_t *out)
{
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    (void)settings, (void)watch;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            sample_t sample;
            TRY_OUT(err, source_describe(source, split, i, &buffer, &sample));
            if (sample.n_annotations > 0)
                TRY_OUT(err, mem_grow(out->n[split] + sample.n_annotations, sizeof *out->of[split],
                                      "the list of samples", &out->of[split]));
            for (int32_t k = 0; k < sample.n_annotations; k++)
                if (is_sample(&sample.annotations[k]))
                    out->of[split][out->n[split]++] = (sample_ref_t){(int32_t)i, k};
        }
out:
    source_free_buffer(source, &buffer);
    return err;
}

static void label_field(const dataset_info_t *info, fields_t *out)
{
    (void)info;
    out->at[out->n++] = (field_t){.name = "label", .dtype = DTYPE_I32, .row = 1};
}

static err_t fill_label(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out)
{
    int32_t label = item->object ? item->object->category : item->sample->label;
    if (label < 0 || label >= info->n_classes)
        RAISE(ERR_DATA, "%s: its label %d is out of range 0..%d", item->name, label, info->n_classes - 1);
    memcpy(out->data, &label, sizeof label);
    return ERR_OK;
}

static void target_field(const dataset_info_t *info, fields_t *out)
{
    out->at[out->n++] = (field_t){.name = "target", .dtype = DTYPE_F32, .row = info->n_classes};
}

/* 1 for each category that the image has, else 0. */
static err_t fill_targets(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out)
{
    const sample_t *sample = item->sample;
    float *targets = out->data;
    for (int k = 0; k < info->n_classes; k++) targets[k] = 0;
    for (int32_t i = 0; i < sample->n_annotations; i++) targets[sample->annotations[i].category] = 1;
    return ERR_OK;
}

static const samples_ops_t tasks[TASK_COUNT] = {
    [TASK_AUTO] = {.one_label = true, .fields = label_field, .fill = fill_label, .none = "training images"},
    [TASK_CLASSIFY] = {.one_label = true,
                       .fields = label_field,
                       .fill = fill_label,
                       .none = "training images"},
    [TASK_MULTILABEL] = {.annotated = true,
                         .fields = target_field,
                         .fill = fill_targets,
                         .none = "training images"},
    [TASK_CROPS] = {.annotated = true,
                    .of_objects = true,
                    .one_label = true,
                    .list = list_crops,
                    .none = "annotated objects of 32x32 pixels or more to train on",
                    .fields = label_field,
                    .fill = fill_label},
    [TASK_DETECT] =
        {.annotated = true,
         .on_canvas = true,
         .list = detection_list,
         .none = "training images with objects: neither crowds nor objects outside of their image count, "
                 "and one box has to be wider and higher than a pixel; --keep-empty trains on images "
                 "without objects",
         .fields = detection_fields,
         .fill = detection_fill},
};

const samples_ops_t *samples_of(transform_task_t task)
{
    ASSERT(task >= 0 && task < TASK_COUNT && tasks[task].fill);
    return &tasks[task];
}

fields_t samples_fields(const dataset_info_t *info)
{
    fields_t out = {0};
    samples_of(info->task)->fields(info, &out);
    return out;
}
