/* SPDX-License-Identifier: MIT */
/* Second pass over the parsed records: sorts images, categories and annotations by id, resolves their
 * references, drops duplicates, and clips boxes to their image; truths keep both. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/coco/records.h"

static err_t new_array(coco_records_t *records, int64_t n, size_t element_bytes, void *out_pointer)
{
    return arena_new(&records->kept, (size_t)n * element_bytes, out_pointer);
}

static int by_id(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_categories(const void *a, const void *b)
{
    return by_id(((const category_t *)a)->id, ((const category_t *)b)->id);
}

static err_t arrange_categories(coco_records_t *records, coco_t *out)
{
    category_t *categories = NULL;
    int32_t n = 0;
    TRY(new_array(records, records->n_categories, sizeof *categories, &categories));
    for (const coco_category_record_t *r = records->categories; r; r = r->next) categories[n++] = r->category;
    qsort(categories, (size_t)n, sizeof *categories, compare_categories);
    for (int32_t i = 1; i < n; i++)
        if (categories[i].id == categories[i - 1].id)
            RAISE(ERR_DATA, "duplicate category id %" PRId64 ": %s and %s", categories[i].id,
                  categories[i - 1].name, categories[i].name);
    out->categories = categories;
    out->n_categories = n;
    return ERR_OK;
}

static int compare_images(const void *a, const void *b)
{
    return by_id(((const coco_image_t *)a)->id, ((const coco_image_t *)b)->id);
}

static err_t arrange_images(coco_records_t *records, coco_image_t **images, coco_t *out)
{
    coco_image_t *all = NULL;
    int64_t n = 0;
    TRY(new_array(records, records->n_images, sizeof *all, &all));
    for (const coco_image_record_t *r = records->images; r; r = r->next) all[n++] = r->image;
    qsort(all, (size_t)n, sizeof *all, compare_images);
    for (int64_t i = 1; i < n; i++)
        if (all[i].id == all[i - 1].id)
            RAISE(ERR_DATA, "duplicate image id %" PRId64 ": %s and %s", all[i].id, all[i - 1].name,
                  all[i].name);
    *images = all;
    out->images = all;
    out->n_images = n;
    return ERR_OK;
}

typedef struct numbered {
    int64_t id, number;
    coco_annotation_record_t *record;
} numbered_t;

static int compare_numbered(const void *a, const void *b)
{
    const numbered_t *x = a, *y = b;
    int order = by_id(x->id, y->id);
    return order ? order : by_id(x->number, y->number);
}

/* Keeps the first annotation in the file of each id. */
static err_t leave_out_duplicates(coco_records_t *records)
{
    numbered_t *all = NULL;
    int64_t n = 0, first = INT64_MAX;
    TRY(mem_new_array(records->n_annotations, sizeof *all, "ids of annotations", &all));
    for (coco_annotation_record_t *r = records->annotations; r; r = r->next, n++)
        all[n] = (numbered_t){r->annotation.id, n, r};
    qsort(all, (size_t)n, sizeof *all, compare_numbered);
    coco_flaw_t *flaw = &records->flaws.duplicates;
    for (int64_t i = 1; i < n; i++) {
        if (all[i].id != all[i - 1].id) continue;
        all[i].record->left_out = true;
        flaw->n++;
        if (all[i].number > first) continue;
        first = all[i].number;
        flaw->first = all[i].id;
    }
    mem_free(&all);
    return ERR_OK;
}

/* Clips a box's side to 0 … most. True if it exceeded that by more than the rounding of two decimals. */
static bool cut_side(double *start, double *length, double most)
{
    const double last_digit = 0.01;
    double end = *start + *length;
    bool far = *start < -last_digit || end > most + last_digit;
    if (*start >= 0 && end <= most) return false;
    if (*start < 0) *start = 0;
    if (end > most) end = most;
    *length = end - *start;
    return far;
}

static void check_box(coco_annotation_record_t *record, const coco_image_t *image, coco_flaws_t *flaws)
{
    double *box = record->box;
    memcpy(box, record->annotation.box, sizeof record->box);
    bool far = cut_side(&box[0], &box[2], image->width);
    far |= cut_side(&box[1], &box[3], image->height);
    record->left_out = record->thin_alone || !(box[2] > 0 && box[3] > 0);
    if (record->left_out)
        coco_flaw_count(&flaws->empty, record->annotation.id);
    else if (far)
        coco_flaw_count(&flaws->cut, record->annotation.id);
}

static err_t resolve_annotation(coco_annotation_record_t *record, coco_image_t *images, const coco_t *coco,
                                coco_flaws_t *flaws)
{
    annotation_t *annotation = &record->annotation;
    const coco_image_t wanted_image = {.id = record->image_id};
    const category_t wanted_category = {.id = record->category_id};
    coco_image_t *image =
        bsearch(&wanted_image, images, (size_t)coco->n_images, sizeof *image, compare_images);
    const category_t *category = bsearch(&wanted_category, coco->categories, (size_t)coco->n_categories,
                                         sizeof *category, compare_categories);
    if (!image)
        RAISE(ERR_DATA,
              "annotation %" PRId64 ": image %" PRId64 " is not one of the %" PRId64 " images listed",
              annotation->id, record->image_id, coco->n_images);
    if (!category)
        RAISE(ERR_DATA,
              "annotation %" PRId64 " (image %" PRId64 "): category %" PRId64
              " is not one of the %d categories listed",
              annotation->id, record->image_id, record->category_id, coco->n_categories);
    if (annotation->segmentation == SEGMENTATION_RLE &&
        (record->mask_width != image->width || record->mask_height != image->height))
        RAISE(
            ERR_DATA, "annotation %" PRId64 ": its mask is %d × %d pixels, but image %" PRId64 " is %d × %d",
            annotation->id, record->mask_width, record->mask_height, image->id, image->width, image->height);
    annotation->category = (int32_t)(category - coco->categories);
    record->image = image;
    if (!record->left_out) check_box(record, image, flaws);
    if (image->n_truths == INT32_MAX)
        RAISE(ERR_DATA, "image %" PRId64 " has more than %d annotations", image->id, INT32_MAX);
    image->n_truths++;
    image->n_annotations += !record->left_out;
    return ERR_OK;
}

static bool is_mended(const coco_annotation_record_t *r)
{
    return r->left_out || memcmp(r->box, r->annotation.box, sizeof r->box) != 0;
}

/* Gives images with a mended annotation the truths of their own, and all others none. */
static err_t arrange_truths(coco_records_t *records, coco_image_t *images, const coco_t *out)
{
    annotation_t *all = NULL;
    int64_t n = 0;
    bool *mended = NULL;
    TRY(mem_new_array(out->n_images, sizeof *mended, "mended images", &mended));
    for (const coco_annotation_record_t *r = records->annotations; r; r = r->next)
        mended[r->image - images] |= is_mended(r);
    for (int64_t i = 0; i < out->n_images; i++) n += mended[i] ? images[i].n_truths : 0;
    err_t err = n > 0 ? new_array(records, n, sizeof *all, &all) : ERR_OK;
    for (int64_t i = 0; i < out->n_images && err == ERR_OK; i++) {
        if (mended[i]) {
            images[i].truths = all;
            all += images[i].n_truths;
        }
        images[i].n_truths = 0; /* counted again below */
    }
    for (const coco_annotation_record_t *r = records->annotations; r && err == ERR_OK; r = r->next) {
        annotation_t *truths = (annotation_t *)r->image->truths;
        if (truths) truths[r->image->n_truths++] = r->annotation;
    }
    mem_free(&mended);
    return err;
}

static err_t arrange_annotations(coco_records_t *records, coco_image_t *images, coco_t *out)
{
    annotation_t *all = NULL;
    int64_t n = 0;
    TRY(leave_out_duplicates(records));
    for (coco_annotation_record_t *r = records->annotations; r; r = r->next) {
        TRY(resolve_annotation(r, images, out, &records->flaws));
        n += !r->left_out;
    }
    TRY(arrange_truths(records, images, out));
    TRY(new_array(records, n, sizeof *all, &all));
    annotation_t *place = all;
    for (int64_t i = 0; i < out->n_images; i++) {
        images[i].annotations = place;
        place += images[i].n_annotations;
        images[i].n_annotations = 0; /* counted again below */
    }
    for (const coco_annotation_record_t *r = records->annotations; r; r = r->next) {
        if (r->left_out) continue;
        annotation_t *a = &all[r->image->annotations - all + r->image->n_annotations++];
        *a = r->annotation;
        memcpy(a->box, r->box, sizeof a->box);
    }
    out->n_annotations = n;
    return ERR_OK;
}

err_t coco_arrange(coco_records_t *records, coco_t *out)
{
    coco_image_t *images = NULL;
    TRY(arrange_categories(records, out));
    TRY(arrange_images(records, &images, out));
    if (out->n_images == 0) RAISE(ERR_DATA, "it lists no images");
    if (out->n_categories == 0) RAISE(ERR_DATA, "it lists no categories");
    TRY(arrange_annotations(records, images, out));
    out->flaws = records->flaws;
    return ERR_OK;
}
