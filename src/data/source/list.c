/* SPDX-License-Identifier: MIT */
/* Serialises a source that is a list of images into one relocatable block, and restores it, checking every
 * length and index. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/source/parts.h"

/* The head of the block; the counted elements follow in the order of parts_t. */
typedef struct list {
    source_frame_t frame;
    char folders[SPLIT_COUNT][FS_PATH_MAX];
    char notes[SOURCE_NOTES_MAX];
    uint64_t hash;
    int64_t has_annotations, has_bytes, boxes_shown, boxes_forced;
    int64_t n_samples[SPLIT_COUNT], n_categories;
    int64_t n_annotations, n_exact, n_points, n_polygons, n_runs, n_text, n_image_bytes;
} list_t;

_Static_assert(sizeof(list_t) % 8 == 0, "aligns the elements that follow");

typedef struct parts {
    category_t *categories;
    sample_t *samples[SPLIT_COUNT];
    source_entry_t *entries[SPLIT_COUNT];
    annotation_t *annotations; /* with truths */
    double *exact;             /* [n_exact, 2] */
    float *points;             /* [n_points, 2] */
    int32_t *polygons;
    uint32_t *runs;
    char *text; /* names, each with its NUL */
    uint8_t *images;
} parts_t;

typedef struct impl {
    source_ops_t ops; /* the kind's, with this file's functions */
    list_t *list;     /* the block */
    parts_t parts;
} impl_t;

/* Sets *out_pointer to n elements at *offset and advances it. block NULL: only counts. */
static void list_place(char *block, int64_t *offset, int64_t n, size_t element_bytes, void *out_pointer)
{
    char *at = block ? block + *offset : NULL;
    memcpy(out_pointer, &at, sizeof at);
    *offset += n * (int64_t)element_bytes;
}

/* Returns the block's size. Elements that need alignment come first. */
static int64_t place_parts(const list_t *list, void *block, parts_t *out)
{
    int64_t at = (int64_t)sizeof *list;
    list_place(block, &at, list->n_categories, sizeof *out->categories, &out->categories);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        list_place(block, &at, list->n_samples[s], sizeof(sample_t), &out->samples[s]);
        list_place(block, &at, list->n_samples[s], sizeof(source_entry_t), &out->entries[s]);
    }
    list_place(block, &at, list->n_annotations, sizeof *out->annotations, &out->annotations);
    list_place(block, &at, list->n_exact, 2 * sizeof *out->exact, &out->exact);
    list_place(block, &at, list->n_points, 2 * sizeof *out->points, &out->points);
    list_place(block, &at, list->n_polygons, sizeof *out->polygons, &out->polygons);
    list_place(block, &at, list->n_runs, sizeof *out->runs, &out->runs);
    list_place(block, &at, list->n_text, 1, &out->text);
    list_place(block, &at, list->n_image_bytes, 1, &out->images);
    return at;
}

static int64_t count_points(const annotation_t *a)
{
    int64_t n = 0;
    for (int32_t i = 0; i < a->n_polygons; i++) n += a->n_points[i];
    return n;
}

static void count_annotations(const annotation_t *annotations, int32_t n, list_t *list)
{
    list->n_annotations += n;
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *a = &annotations[i];
        list->n_exact += a->exact ? count_points(a) : 0;
        list->n_points += count_points(a);
        list->n_polygons += a->n_polygons;
        list->n_runs += a->n_runs;
    }
}

static void count_sample(const sample_t *sample, list_t *list)
{
    list->n_text += (int64_t)strlen(sample->name) + 1;
    if (list->has_bytes) list->n_image_bytes += (int64_t)sample->n_bytes;
    count_annotations(sample->annotations, sample->n_annotations, list);
    count_annotations(sample->truths, sample->n_truths, list);
}

/* Copies n elements to *at_pointer and advances it. */
static void list_put(void *at_pointer, const void *from, int64_t n, size_t element_bytes)
{
    char *at;
    size_t n_bytes = (size_t)n * element_bytes;
    memcpy(&at, at_pointer, sizeof at);
    if (n_bytes) memcpy(at, from, n_bytes);
    at += n_bytes;
    memcpy(at_pointer, &at, sizeof at);
}

static void put_text(parts_t *at, const char *text)
{
    list_put(&at->text, text, (int64_t)strlen(text) + 1, 1);
}

/* Without their pointers; of `exact` it only matters later whether it is NULL. */
static void put_annotations(parts_t *at, const annotation_t *annotations, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *a = &annotations[i];
        if (a->exact) list_put(&at->exact, a->exact, count_points(a), 2 * sizeof *a->exact);
        list_put(&at->points, a->points, count_points(a), 2 * sizeof *a->points);
        list_put(&at->polygons, a->n_points, a->n_polygons, sizeof *a->n_points);
        list_put(&at->runs, a->runs, a->n_runs, sizeof *a->runs);
        *at->annotations = *a;
        at->annotations->n_points = NULL, at->annotations->points = NULL, at->annotations->runs = NULL;
        at->annotations++;
    }
}

static void put_sample(parts_t *at, split_t split, const sample_t *sample)
{
    sample_t *to = at->samples[split]++;
    *to = *sample;
    put_text(at, sample->name);
    if (sample->bytes) list_put(&at->images, sample->bytes, (int64_t)sample->n_bytes, 1);
    to->name = NULL, to->bytes = NULL, to->annotations = NULL, to->truths = NULL;
    put_annotations(at, sample->annotations, sample->n_annotations);
    put_annotations(at, sample->truths, sample->n_truths);
}

/* Counts every sample (at NULL) or writes it to the block. */
static err_t visit_samples(const source_t *source, list_t *list, parts_t *at)
{
    err_t err = ERR_OK;
    source_buffer_t buffer = {0};
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            sample_t sample;
            TRY_OUT(err,
                    (list->has_bytes ? source_read : source_describe)(source, split, i, &buffer, &sample));
            if (at)
                put_sample(at, split, &sample);
            else
                count_sample(&sample, list);
        }
out:
    source_free_buffer(source, &buffer);
    return err;
}

err_t source_list_save(const source_t *source, const char *const folders[SPLIT_COUNT], void **bytes,
                       int64_t *n_bytes)
{
    list_t *list = NULL, *block = NULL;
    parts_t parts;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *list, "a list of images", &list));
    list->hash = source->hash;
    list->has_annotations = source->has_annotations;
    list->has_bytes = folders == NULL;
    list->boxes_shown = source->boxes.shown;
    list->boxes_forced = source->boxes.forced;
    list->n_categories = source->n_categories;
    memcpy(list->notes, source->notes, sizeof list->notes);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        list->n_samples[s] = source->n_samples[s];
        if (folders) snprintf(list->folders[s], sizeof list->folders[s], "%s", folders[s]);
    }
    for (int32_t i = 0; i < source->n_categories; i++)
        list->n_text +=
            (int64_t)(strlen(source->categories[i].name) + strlen(source->categories[i].supergroup)) + 2;
    TRY_OUT(err, visit_samples(source, list, NULL));
    *n_bytes = place_parts(list, NULL, &parts);
    TRY_OUT(err, mem_new((size_t)*n_bytes, "a list of images", &block));
    *block = *list;
    place_parts(block, block, &parts);
    for (int32_t i = 0; i < source->n_categories; i++) {
        const category_t *category = &source->categories[i];
        *parts.categories++ = (category_t){.id = category->id};
        put_text(&parts, category->name);
        put_text(&parts, category->supergroup);
    }
    for (int s = 0; s < SPLIT_COUNT; s++)
        list_put(&parts.entries[s], source->entries[s], source->n_samples[s], sizeof(source_entry_t));
    TRY_OUT(err, visit_samples(source, block, &parts));
    *bytes = block;
    block = NULL;
out:
    mem_free(&block);
    mem_free(&list);
    return err;
}

/* Sets *out_pointer to the next n elements of a part that ends at `end`, and advances *at_pointer. False if
 * fewer remain. */
static bool list_take(void *at_pointer, const void *end, int64_t n, size_t element_bytes, void *out_pointer)
{
    char *at;
    memcpy(&at, at_pointer, sizeof at);
    if (n < 0 || n > ((const char *)end - at) / (int64_t)element_bytes) return false;
    memcpy(out_pointer, &at, sizeof at);
    at += n * (int64_t)element_bytes;
    memcpy(at_pointer, &at, sizeof at);
    return true;
}

static bool take_text(parts_t *at, const parts_t *end, const char **out)
{
    size_t room = (size_t)(end->text - at->text), n = strnlen(at->text, room);
    return n < room && list_take(&at->text, end->text, (int64_t)n + 1, 1, out);
}

static bool take_annotations(parts_t *at, const parts_t *end, int32_t n_categories, int32_t n,
                             const annotation_t **out)
{
    annotation_t *annotations = NULL;
    if (!list_take(&at->annotations, end->annotations, n, sizeof *annotations, &annotations)) return false;
    for (int32_t i = 0; i < n; i++) {
        annotation_t *a = &annotations[i];
        if (a->category < 0 || a->category >= n_categories ||
            !list_take(&at->polygons, end->polygons, a->n_polygons, sizeof *a->n_points, &a->n_points))
            return false;
        for (int32_t k = 0; k < a->n_polygons; k++)
            if (a->n_points[k] < 0) return false;
        if (a->exact && !list_take(&at->exact, end->exact, count_points(a), 2 * sizeof *a->exact, &a->exact))
            return false;
        if (!list_take(&at->points, end->points, count_points(a), 2 * sizeof *a->points, &a->points) ||
            !list_take(&at->runs, end->runs, a->n_runs, sizeof *a->runs, &a->runs))
            return false;
    }
    *out = annotations;
    return true;
}

static bool take_sample(parts_t *at, const parts_t *end, const list_t *list, sample_t *sample)
{
    int32_t n_categories = (int32_t)list->n_categories;
    if (sample->label < -1 || sample->label >= n_categories || !take_text(at, end, &sample->name) ||
        !take_annotations(at, end, n_categories, sample->n_annotations, &sample->annotations) ||
        (sample->n_truths != 0 &&
         !take_annotations(at, end, n_categories, sample->n_truths, &sample->truths)))
        return false;
    if (!list->has_bytes) return true;
    return sample->n_bytes <= INT64_MAX &&
           list_take(&at->images, end->images, (int64_t)sample->n_bytes, 1, &sample->bytes);
}

/* Restores all pointers; false if a length or an index is wrong. */
static bool link_parts(const list_t *list, const parts_t *parts)
{
    parts_t at = *parts;
    parts_t end = *parts; /* the end of each part */
    end.annotations += list->n_annotations;
    end.exact += 2 * list->n_exact;
    end.points += 2 * list->n_points;
    end.polygons += list->n_polygons;
    end.runs += list->n_runs;
    end.text += list->n_text;
    end.images += list->n_image_bytes;
    for (int64_t i = 0; i < list->n_categories; i++)
        if (!take_text(&at, &end, &parts->categories[i].name) ||
            !take_text(&at, &end, &parts->categories[i].supergroup))
            return false;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < list->n_samples[split]; i++)
            if (!take_sample(&at, &end, list, &parts->samples[split][i])) return false;
    return at.annotations == end.annotations && at.exact == end.exact && at.points == end.points &&
           at.polygons == end.polygons && at.runs == end.runs && at.text == end.text &&
           at.images == end.images;
}

/* Checks first that no count exceeds the block, so that their sum cannot overflow. */
static bool is_whole(list_t *list, int64_t n_bytes, parts_t *parts)
{
    if (n_bytes < (int64_t)sizeof *list) return false;
    const int64_t counts[] = {list->n_samples[SPLIT_TRAIN],
                              list->n_samples[SPLIT_VAL],
                              list->n_categories,
                              list->n_annotations,
                              list->n_exact,
                              list->n_points,
                              list->n_polygons,
                              list->n_runs,
                              list->n_text,
                              list->n_image_bytes};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] < 0 || counts[i] > n_bytes) return false;
    return list->n_categories <= INT32_MAX && place_parts(list, list, parts) == n_bytes &&
           memchr(list->notes, '\0', sizeof list->notes) &&
           memchr(list->folders[SPLIT_TRAIN], '\0', sizeof list->folders[SPLIT_TRAIN]) &&
           memchr(list->folders[SPLIT_VAL], '\0', sizeof list->folders[SPLIT_VAL]) && link_parts(list, parts);
}

static void close_list(source_t *source)
{
    impl_t *impl = source->impl;
    mem_free(&impl->list);
    mem_free(&source->impl);
}

static err_t describe_listed(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                             sample_t *out)
{
    const impl_t *impl = source->impl;
    (void)buffer;
    *out = impl->parts.samples[split][index];
    out->bytes = NULL;
    return ERR_OK;
}

static err_t read_listed(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                         sample_t *out)
{
    const impl_t *impl = source->impl;
    *out = impl->parts.samples[split][index];
    return impl->list->has_bytes ? ERR_OK : source_load(source, impl->list->folders[split], buffer, out);
}

static err_t save_listed(const source_t *source, void **bytes, int64_t *n_bytes)
{
    const list_t *list = ((const impl_t *)source->impl)->list;
    const char *const folders[SPLIT_COUNT] = {list->folders[SPLIT_TRAIN], list->folders[SPLIT_VAL]};
    return source_list_save(source, list->has_bytes ? NULL : folders, bytes, n_bytes);
}

err_t source_list_restore(source_t *source, void **bytes, int64_t n_bytes)
{
    impl_t *impl = NULL;
    list_t *list = *bytes;
    parts_t parts;
    if (!is_whole(list, n_bytes, &parts))
        RAISE(ERR_DATA, "the list of data from rank 0 is damaged: its lengths do not match");
    TRY(mem_new(sizeof *impl, "a list of images", &impl));
    *impl = (impl_t){*source->ops, list, parts};
    impl->ops.close = close_list;
    impl->ops.read = read_listed;
    impl->ops.describe = describe_listed;
    impl->ops.save = save_listed;
    source->ops = &impl->ops;
    source->impl = impl;
    *bytes = NULL;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        source->n_samples[s] = list->n_samples[s];
        source->entries[s] = parts.entries[s];
    }
    source->n_categories = (int32_t)list->n_categories;
    source->categories = parts.categories;
    source->has_annotations = list->has_annotations != 0;
    source->boxes = (source_boxes_t){.shown = list->boxes_shown != 0, .forced = list->boxes_forced != 0};
    source->hash = list->hash;
    memcpy(source->notes, list->notes, sizeof source->notes);
    for (int s = 0; s < SPLIT_COUNT && !list->has_bytes; s++) {
        int64_t n = list->n_samples[s], step = n > 1 ? n - 1 : 1; /* the first and the last */
        const sample_t *samples = parts.samples[s];
        for (int64_t i = 0; i < n; i += step)
            if (samples[i].n_bytes > 0) /* otherwise it is missing on rank 0, too (--max-bad) */
                TRY(source_check_file(list->folders[s], samples[i].name, (int64_t)samples[i].n_bytes));
    }
    return ERR_OK;
}
