/* SPDX-License-Identifier: MIT */
/* Collects the ground truth from COCO's file or from a source. Copies only what a source does not keep. */
#include "data/score/truths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/coco/coco.h"

typedef struct memory {
    coco_t *coco;
    source_t *source; /* own; NULL: none, or borrowed */
    truth_image_t *images;
    arena_t arena;
} memory_t;

static int by_image(const void *a, const void *b)
{
    int64_t x = ((const truth_image_t *)a)->id, y = ((const truth_image_t *)b)->id;
    return (x > y) - (x < y);
}

static int by_category(const void *a, const void *b)
{
    int64_t x = ((const category_t *)a)->id, y = ((const category_t *)b)->id;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int32_t truths_image(const truths_t *truths, int64_t id)
{
    const truth_image_t wanted = {.id = id},
                        *image = bsearch(&wanted, truths->images, (size_t)truths->n_images, sizeof wanted,
                                         by_image);
    return image ? (int32_t)(image - truths->images) : -1;
}

int32_t truths_category(const truths_t *truths, int64_t id)
{
    const category_t wanted = {.id = id},
                     *category = bsearch(&wanted, truths->categories, (size_t)truths->n_categories,
                                         sizeof wanted, by_category);
    return category ? (int32_t)(category - truths->categories) : -1;
}

/* Copies n elements; NULL stays NULL. */
static err_t copy_array(arena_t *arena, const void *from, size_t n_bytes, void *out_pointer)
{
    void *copy = NULL;
    if (from) TRY(arena_new(arena, n_bytes, &copy));
    if (from && n_bytes > 0) memcpy(copy, from, n_bytes);
    memcpy(out_pointer, &copy, sizeof copy);
    return ERR_OK;
}

/* A sample's truths are its annotations unless it has others. */
static err_t copy_image(memory_t *memory, const sample_t *sample, truth_image_t *out)
{
    arena_t *arena = &memory->arena;
    annotation_t *annotations = NULL;
    int32_t n = sample->truths ? sample->n_truths : sample->n_annotations;
    TRY(copy_array(arena, sample->truths ? sample->truths : sample->annotations,
                   (size_t)n * sizeof *annotations, &annotations));
    for (int32_t i = 0; i < n; i++) {
        annotation_t *a = &annotations[i];
        size_t n_points = 0;
        for (int32_t k = 0; k < a->n_polygons; k++) n_points += (size_t)a->n_points[k];
        TRY(copy_array(arena, a->n_points, (size_t)a->n_polygons * sizeof *a->n_points, &a->n_points));
        TRY(copy_array(arena, a->points, 2 * n_points * sizeof *a->points, &a->points));
        TRY(copy_array(arena, a->exact, 2 * n_points * sizeof *a->exact, &a->exact));
        TRY(copy_array(arena, a->runs, (size_t)a->n_runs * sizeof *a->runs, &a->runs));
    }
    *out = (truth_image_t){sample->id, sample->width, sample->height, n, annotations};
    return ERR_OK;
}

/* Of some images of the split; NULL: of all. */
static err_t take_source(const source_t *source, split_t split, const int64_t *images, int64_t n,
                         const open_watch_t *watch, truths_t *truths)
{
    memory_t *memory = truths->memory;
    if (!source->has_annotations)
        RAISE(ERR_DATA,
              "%s has no annotations; results are scored against COCO's annotations, in a folder, "
              "in shards of one, or in a file like instances_val2017.json",
              source->path);
    truths->n_categories = source->n_categories;
    truths->categories = source->categories;
    truths->n_images = images ? n : source->n_samples[split];
    TRY(mem_new_array(truths->n_images, sizeof *memory->images, "ground truth", &memory->images));
    err_t err = ERR_OK;
    source_buffer_t buffer = {0};
    sample_t sample;
    for (int64_t i = 0; i < truths->n_images; i++) {
        if (watch) TRY_OUT(err, watch->alive(watch->context));
        TRY_OUT(err, source_describe(source, split, images ? images[i] : i, &buffer, &sample));
        TRY_OUT(err, copy_image(memory, &sample, &memory->images[i]));
    }
out:
    source_free_buffer(source, &buffer);
    return err;
}

/* Ignores an error, which the next call returns again. */
static void report_alive(void *context, int64_t n_read, int64_t n_bytes)
{
    const open_watch_t *watch = context;
    (void)n_read, (void)n_bytes;
    if (watch) (void)watch->alive(watch->context);
}

static void warn_line(void *path, coco_effect_t effect, const char *line)
{
    if (effect == COCO_SCORES) log_warn("%s: %s", (const char *)path, line);
}

static err_t read_coco(const char *path, const open_watch_t *watch, truths_t *truths, memory_t *memory)
{
    TRY(coco_read(path, report_alive, (void *)watch, &memory->coco));
    const coco_t *coco = memory->coco;
    coco_tell(coco, (void *)(uintptr_t)path, warn_line);
    truths->n_categories = coco->n_categories;
    truths->categories = coco->categories;
    truths->n_images = coco->n_images;
    TRY(mem_new_array(truths->n_images, sizeof *memory->images, "ground truth", &memory->images));
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        memory->images[i] = (truth_image_t){image->id, image->width, image->height,
                                            image->truths ? image->n_truths : image->n_annotations,
                                            image->truths ? image->truths : image->annotations};
    }
    return ERR_OK;
}

static err_t read_any(const char *path, split_t split, const open_watch_t *watch, truths_t *truths,
                      memory_t *memory)
{
    char list[FS_PATH_MAX], other[FS_PATH_MAX];
    const source_ops_t *kind = NULL;
    if (fs_exists(path) && !fs_is_folder(path)) return read_coco(path, watch, truths, memory);
    TRY(source_find_kind(path, &kind));
    if (kind != &source_coco) {
        TRY(source_open_watched(path, NULL, watch, &memory->source));
        return take_source(memory->source, split, NULL, 0, watch, truths);
    }
    TRY(source_coco_list(path, split, list));
    if (!fs_exists(list) && source_coco_list(path, !split, other) == ERR_OK && fs_exists(other))
        RAISE(ERR_DATA, "%s has no list of %s images; --split %s scores against %s", path, split_words[split],
              split_names[!split], other);
    if (!fs_exists(list))
        RAISE(ERR_DATA, "the annotations of the %s images are missing: %s", split_words[split], list);
    return read_coco(list, watch, truths, memory);
}

/* Sorts, and finds what occurs twice. */
static err_t check_truths(const char *path, split_t split, truths_t *truths, memory_t *memory)
{
    static const char number_them[] =
        "number the list's annotations: jq '.annotations |= [to_entries[] | .value + {id: "
        "(.key + 1)}]'";
    int64_t *ids = NULL, n = 0;
    err_t err = ERR_OK;
    if (truths->n_images == 0) RAISE(ERR_DATA, "%s has no %s images", path, split_words[split]);
    if (truths->n_images > INT32_MAX) RAISE(ERR_DATA, "%s has more than %d images", path, INT32_MAX);
    qsort(memory->images, (size_t)truths->n_images, sizeof *memory->images, by_image);
    truths->images = memory->images;
    for (int64_t i = 1; i < truths->n_images; i++)
        if (truths->images[i].id == truths->images[i - 1].id)
            RAISE(ERR_DATA, "%s: duplicate image id %" PRId64, path, truths->images[i].id);
    for (int32_t i = 1; i < truths->n_categories; i++)
        if (truths->categories[i].id <= truths->categories[i - 1].id)
            RAISE(ERR_DATA, "%s: its categories are not sorted by id", path);
    for (int64_t i = 0; i < truths->n_images; i++) truths->n_annotations += truths->images[i].n_annotations;
    TRY(mem_new_array(truths->n_annotations, sizeof *ids, "ids of annotations", &ids));
    for (int64_t i = 0; i < truths->n_images; i++)
        for (int32_t k = 0; k < truths->images[i].n_annotations; k++)
            ids[n++] = truths->images[i].annotations[k].id;
    qsort(ids, (size_t)n, sizeof *ids, by_value);
    int64_t n_bare = 0, n_repeated = 0, first = 0;
    while (n_bare < n && ids[n_bare] < ANNOTATION_FIRST_ID) n_bare++;
    for (int64_t i = 1; i < n; i++)
        if (ids[i] == ids[i - 1] && n_repeated++ == 0) first = ids[i];
    if (n_bare > 0)
        RAISE_OUT(err, ERR_DATA,
                  "%s: %" PRId64 " annotation%s no integer as id, and scores need one for each; %s", path,
                  n_bare, n_bare == 1 ? " has" : "s have", number_them);
    if (n_repeated > 0)
        RAISE_OUT(err, ERR_DATA,
                  "%s: annotation id %" PRId64
                  " occurs twice%s, and pycocotools would score the last one twice; %s",
                  path, first, n_repeated > 1 ? ", and so do others" : "", number_them);
out:
    mem_free(&ids);
    return err;
}

void truths_warn(const truths_t *truths)
{
    for (int64_t i = 0; i < truths->n_images; i++)
        for (int32_t k = 0; k < truths->images[i].n_annotations; k++) {
            const annotation_t *a = &truths->images[i].annotations[k];
            if (a->id == 0 && !a->crowd)
                log_warn("annotation id 0 (image %" PRId64
                         ") never counts as found, in pycocotools and here; number annotations from 1: jq "
                         "'.annotations[].id += 1'",
                         truths->images[i].id);
        }
}

const annotation_t *truths_unmasked(const truths_t *truths, const truth_image_t **image)
{
    for (int64_t i = 0; i < truths->n_images; i++)
        for (int32_t k = 0; k < truths->images[i].n_annotations; k++) {
            *image = &truths->images[i];
            if ((*image)->annotations[k].segmentation == SEGMENTATION_NONE) return &(*image)->annotations[k];
        }
    return NULL;
}

void truths_skip_unmasked(truths_t *truths)
{
    const memory_t *memory = truths->memory;
    const truth_image_t *image;
    const annotation_t *first = truths_unmasked(truths, &image);
    const int64_t n_all = truths->n_annotations, id = first ? first->id : 0;
    if (!first) return;
    truths->n_annotations = 0;
    for (int64_t i = 0; i < truths->n_images; i++) {
        annotation_t *own = (annotation_t *)(uintptr_t)memory->images[i].annotations;
        int32_t n = 0;
        for (int32_t k = 0; k < memory->images[i].n_annotations; k++)
            if (own[k].segmentation != SEGMENTATION_NONE) own[n++] = own[k];
        memory->images[i].n_annotations = n;
        truths->n_annotations += n;
    }
    log_note("truth    %" PRId64 " of %" PRId64
             " annotations left out (--skip-unmasked): they have no segmentation, the first is %" PRId64
             " of image %" PRId64,
             n_all - truths->n_annotations, n_all, id, image->id);
}

static err_t new_truths(truths_t **out)
{
    memory_t *memory = NULL;
    TRY(mem_new(sizeof **out, "ground truth", out));
    TRY(mem_new(sizeof *memory, "ground truth", &memory));
    (*out)->memory = memory;
    return ERR_OK;
}

err_t truths_read(const char *path, split_t split, const open_watch_t *watch, truths_t **out)
{
    truths_t *truths = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, new_truths(&truths));
    TRY_OUT(err, read_any(path, split, watch, truths, truths->memory));
    TRY_OUT(err, check_truths(path, split, truths, truths->memory));
    *out = truths;
    return ERR_OK;
out:
    truths_free(&truths);
    return err;
}

err_t truths_of_source(const source_t *source, split_t split, const int64_t *images, int64_t n,
                       const open_watch_t *watch, truths_t **out)
{
    truths_t *truths = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, new_truths(&truths));
    TRY_OUT(err, take_source(source, split, images, n, watch, truths));
    TRY_OUT(err, check_truths(source->path, split, truths, truths->memory));
    *out = truths;
    return ERR_OK;
out:
    truths_free(&truths);
    return err;
}

void truths_free(truths_t **truths)
{
    if (!*truths) return;
    memory_t *memory = (*truths)->memory;
    if (memory) {
        coco_free(&memory->coco);
        source_close(&memory->source);
        mem_free(&memory->images);
        arena_free(&memory->arena);
        mem_free(&memory);
    }
    mem_free(truths);
}
