/* SPDX-License-Identifier: MIT */
/* Serialises a sample's annotations, and reads them back without trusting any length. */
#include "data/shard/shard.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are little-endian");

/* In n_truths: annotations are of the image as shown. Beyond every possible number. */
#define NOTES_SHOWN (1u << 31)

typedef struct head {
    int64_t id;
    int32_t width, height, label;
    uint32_t n_name; /* bytes, without the NUL */
    uint32_t n_annotations, n_truths;
} head_t;

typedef struct item {
    int64_t id;
    double area, box[4];
    int32_t category;
    uint8_t crowd, segmentation;
    uint16_t exact; /* 1: exact points follow */
    uint32_t n_polygons, n_points, n_runs, zero;
} item_t;

_Static_assert(sizeof(head_t) == 32 && sizeof(item_t) == 72, "the sizes in data/shard/shard.h");
_Static_assert(SHARD_NOTES_MIN == sizeof(head_t) + SHARD_NOTES_ALIGN, "the shortest name is empty");

size_t shard_notes_most(size_t n_bytes)
{
    return n_bytes / sizeof(item_t);
}

static size_t notes_padded(size_t n_bytes)
{
    return (n_bytes + SHARD_NOTES_ALIGN - 1) / SHARD_NOTES_ALIGN * SHARD_NOTES_ALIGN;
}

/* Size of the part after an annotation's head. */
static uint64_t tail_bytes(const item_t *item)
{
    return notes_padded(4 * (uint64_t)item->n_polygons + (item->exact ? 24 : 8) * (uint64_t)item->n_points +
                        4 * (uint64_t)item->n_runs);
}

static item_t item_of(const annotation_t *a)
{
    uint64_t n_points = 0;
    for (int32_t i = 0; i < a->n_polygons; i++) n_points += (uint64_t)a->n_points[i];
    item_t item = {.id = a->id,
                   .area = a->area,
                   .category = a->category,
                   .crowd = a->crowd,
                   .segmentation = (uint8_t)a->segmentation,
                   .exact = a->exact != NULL,
                   .n_polygons = (uint32_t)a->n_polygons,
                   .n_points = (uint32_t)n_points,
                   .n_runs = (uint32_t)a->n_runs};
    memcpy(item.box, a->box, sizeof item.box);
    return item;
}

static uint64_t count_list_bytes(const annotation_t *annotations, int32_t n_annotations)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < n_annotations; i++) {
        const item_t item = item_of(&annotations[i]);
        n += sizeof item + tail_bytes(&item);
    }
    return n;
}

/* Copies to *at and advances it. */
static void notes_put(char **at, const void *data, size_t n_bytes)
{
    if (n_bytes) memcpy(*at, data, n_bytes);
    *at += n_bytes;
}

static void put_annotations(char **at, const annotation_t *annotations, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *a = &annotations[i];
        const item_t item = item_of(a);
        notes_put(at, &item, sizeof item);
        char *start = *at;
        if (item.exact) notes_put(at, a->exact, 16 * (size_t)item.n_points);
        notes_put(at, a->n_points, 4 * (size_t)item.n_polygons);
        notes_put(at, a->points, 8 * (size_t)item.n_points);
        notes_put(at, a->runs, 4 * (size_t)item.n_runs);
        *at = start + notes_padded((size_t)(*at - start));
    }
}

err_t shard_notes_add(shard_notes_t *notes, const sample_t *sample)
{
    uint64_t n = sizeof(head_t) + notes_padded(strlen(sample->name) + 1) +
                 count_list_bytes(sample->annotations, sample->n_annotations) +
                 count_list_bytes(sample->truths, sample->n_truths);
    if (n > SHARD_MAX_RECORD)
        RAISE(ERR_DATA, "%s: its annotations have %llu bytes; the limit is %d", sample->name,
              (unsigned long long)n, SHARD_MAX_RECORD);
    TRY(mem_grow((int64_t)(notes->n_bytes + n), 1, "annotations of a shard", &notes->block));
    char *at = notes->block + notes->n_bytes, *name;
    memset(at, 0, (size_t)n);
    head_t head = {.id = sample->id,
                   .width = sample->width,
                   .height = sample->height,
                   .label = sample->label,
                   .n_name = (uint32_t)strlen(sample->name),
                   .n_annotations = (uint32_t)sample->n_annotations,
                   .n_truths = (uint32_t)sample->n_truths | (sample->shown ? NOTES_SHOWN : 0)};
    notes_put(&at, &head, sizeof head);
    name = at;
    notes_put(&at, sample->name, head.n_name);
    at = name + notes_padded(head.n_name + 1);
    put_annotations(&at, sample->annotations, sample->n_annotations);
    put_annotations(&at, sample->truths, sample->n_truths);
    notes->n_bytes += (size_t)n;
    ASSERT(at == notes->block + notes->n_bytes);
    return ERR_OK;
}

/* The unread bytes. */
typedef struct rest {
    const char *at;
    size_t n;
} rest_t;

/* Consumes n_bytes; NULL if fewer remain. */
static const void *rest_take(rest_t *rest, uint64_t n_bytes)
{
    if (n_bytes > rest->n) return NULL;
    const void *taken = rest->at;
    rest->at += n_bytes;
    rest->n -= (size_t)n_bytes;
    return taken;
}

static bool all_finite(const double *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static err_t check_polygons(const annotation_t *a, uint64_t n_points)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < a->n_polygons; i++) {
        if (a->n_points[i] < 3) RAISE(ERR_DATA, "it has a polygon of %d points", a->n_points[i]);
        sum += (uint64_t)a->n_points[i];
    }
    if (sum != n_points) RAISE(ERR_DATA, "its polygons do not add up to its number of points");
    for (uint64_t i = 0; i < 2 * n_points; i++)
        if (!isfinite(a->points[i]) || (a->exact && !isfinite(a->exact[i])))
            RAISE(ERR_DATA, "it has a polygon with NaN or infinite coordinates");
    return ERR_OK;
}

/* The counts must match the segmentation's form. */
static bool fits_segmentation(const item_t *item)
{
    switch (item->segmentation) {
    case SEGMENTATION_NONE:
        return item->n_polygons == 0 && item->n_points == 0 && item->n_runs == 0 && !item->exact;
    case SEGMENTATION_POLYGONS:
        return item->n_polygons > 0 && item->n_runs == 0 && item->exact <= 1;
    case SEGMENTATION_RLE:
        return item->n_polygons == 0 && item->n_points == 0 && item->n_runs > 0 && !item->exact;
    default:
        return false;
    }
}

static err_t read_annotation(rest_t *rest, const sample_t *sample, int64_t n_categories, annotation_t *out)
{
    const item_t *item = rest_take(rest, sizeof *item);
    if (!item) RAISE(ERR_DATA, "its annotations are truncated");
    if (item->category < 0 || item->category >= n_categories)
        RAISE(ERR_DATA, "it has an annotation of category %d, but there are %lld", item->category,
              (long long)n_categories);
    if (item->crowd > CROWD_IGNORED || !fits_segmentation(item))
        RAISE(ERR_DATA, "it has an annotation of unknown form");
    if (!isfinite(item->area) || !all_finite(item->box, 4))
        RAISE(ERR_DATA, "it has a box or area that is NaN or infinite");
    const char *tail = rest_take(rest, tail_bytes(item));
    if (!tail) RAISE(ERR_DATA, "its annotations are truncated");
    *out = (annotation_t){.id = item->id,
                          .category = item->category,
                          .crowd = item->crowd,
                          .area = item->area,
                          .segmentation = (segmentation_t)item->segmentation};
    memcpy(out->box, item->box, sizeof out->box);
    if (item->segmentation == SEGMENTATION_POLYGONS) {
        out->n_polygons = (int32_t)item->n_polygons;
        if (item->exact) {
            out->exact = (const double *)(const void *)tail;
            tail += 16 * (size_t)item->n_points;
        }
        out->n_points = (const int32_t *)(const void *)tail;
        out->points = (const float *)(const void *)(tail + 4 * (size_t)item->n_polygons);
        return check_polygons(out, item->n_points);
    }
    if (item->segmentation == SEGMENTATION_RLE) {
        out->n_runs = (int32_t)item->n_runs;
        out->runs = (const uint32_t *)(const void *)tail;
        int64_t sum = 0;
        for (int32_t i = 0; i < out->n_runs; i++) sum += out->runs[i];
        if (sum != (int64_t)sample->width * sample->height)
            RAISE(ERR_DATA, "its runs add up to %lld pixels, but the image has %d×%d", (long long)sum,
                  sample->width, sample->height);
    }
    return ERR_OK;
}

err_t shard_notes_read(const void *bytes, size_t n_bytes, int64_t n_categories, annotation_t *annotations,
                       sample_t *out)
{
    rest_t rest = {bytes, n_bytes};
    ASSERT((uintptr_t)bytes % SHARD_NOTES_ALIGN == 0);
    *out = (sample_t){0};
    if (n_bytes > SHARD_MAX_RECORD) RAISE(ERR_DATA, "its annotations have %zu bytes", n_bytes);
    const head_t *head = rest_take(&rest, sizeof *head);
    const char *name = head ? rest_take(&rest, notes_padded((size_t)head->n_name + 1)) : NULL;
    if (!name) RAISE(ERR_DATA, "its annotations are truncated");
    if (strnlen(name, (size_t)head->n_name + 1) != head->n_name)
        RAISE(ERR_DATA, "its name has a NUL character");
    if (head->width < 1 || head->height < 1) RAISE(ERR_DATA, "its size is %d×%d", head->width, head->height);
    if (head->label < -1 || head->label >= n_categories)
        RAISE(ERR_DATA, "its label is %d, but there are %lld categories", head->label,
              (long long)n_categories);
    const uint32_t n_truths = head->n_truths & ~NOTES_SHOWN;
    if ((uint64_t)head->n_annotations + n_truths > shard_notes_most(rest.n))
        RAISE(ERR_DATA, "its annotations are truncated");
    out->id = head->id;
    out->name = name;
    out->width = head->width;
    out->height = head->height;
    out->shown = (head->n_truths & NOTES_SHOWN) != 0;
    out->label = head->label;
    out->n_annotations = (int32_t)head->n_annotations;
    out->annotations = annotations;
    out->n_truths = (int32_t)n_truths;
    out->truths = n_truths ? annotations + head->n_annotations : NULL;
    for (uint32_t i = 0; i < head->n_annotations + n_truths; i++)
        TRY(read_annotation(&rest, out, n_categories, &annotations[i]));
    if (rest.n != 0) RAISE(ERR_DATA, "%zu extra bytes follow its annotations", rest.n);
    return ERR_OK;
}
