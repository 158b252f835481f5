/* SPDX-License-Identifier: MIT */
/* Reads a file in two passes: feeds it to the parser; then sorts images, categories and annotations by id, resolves
 * their references, drops duplicates, and clips boxes to their image (truths keep both), and refuses boxes that mean
 * something else. Tells what was unusual. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
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

static int compare_names(const void *a, const void *b)
{
    const category_t *x = *(const category_t *const *)a, *y = *(const category_t *const *)b;
    const int order = strcmp(x->name, y->name);
    return order ? order : by_id(x->id, y->id);
}

static int compare_images(const void *a, const void *b)
{
    return by_id(((const coco_image_t *)a)->id, ((const coco_image_t *)b)->id);
}

typedef struct numbered {
    int64_t id, number;
    uint64_t hash; /* of those with the id of another */
    coco_annotation_record_t *record;
} numbered_t;

static int compare_numbered(const void *a, const void *b)
{
    const numbered_t *x = a, *y = b;
    int order = by_id(x->id, y->id);
    return order ? order : by_id(x->number, y->number);
}

static int compare_hashes(const void *a, const void *b)
{
    const numbered_t *x = a, *y = b;
    const int order = (x->hash > y->hash) - (x->hash < y->hash);
    return order ? order : by_id(x->number, y->number);
}

static size_t count_points(const annotation_t *a)
{
    size_t n = 0;
    for (int32_t i = 0; i < a->n_polygons; i++) n += (size_t)a->n_points[i];
    return n;
}

/* Of what makes an object: all but its id and its area. */
static uint64_t hash_object(const coco_annotation_record_t *r)
{
    const annotation_t *a = &r->annotation;
    const int64_t values[] = {r->image_id,     r->category_id, a->crowd, r->ignored,
                              a->segmentation, a->n_polygons,  a->n_runs};
    uint64_t hash = XXH3_64bits_withSeed(values, sizeof values, 0);
    hash = XXH3_64bits_withSeed(a->box, sizeof a->box, hash);
    if (a->n_polygons > 0)
        hash = XXH3_64bits_withSeed(a->points, 2 * count_points(a) * sizeof *a->points, hash);
    if (a->n_runs > 0) hash = XXH3_64bits_withSeed(a->runs, (size_t)a->n_runs * sizeof *a->runs, hash);
    return hash;
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool same_object(const coco_annotation_record_t *x, const coco_annotation_record_t *y)
{
    const annotation_t *a = &x->annotation, *b = &y->annotation;
    if (x->image_id != y->image_id || x->category_id != y->category_id || x->ignored != y->ignored ||
        a->crowd != b->crowd || a->segmentation != b->segmentation || a->n_polygons != b->n_polygons ||
        a->n_runs != b->n_runs || !a->exact != !b->exact)
        return false;
    if (!same_bytes(a->box, b->box, sizeof a->box) ||
        !same_bytes(a->n_points, b->n_points, (size_t)a->n_polygons * sizeof *a->n_points))
        return false;
    const size_t n = 2 * count_points(a);
    return same_bytes(a->points, b->points, n * sizeof *a->points) &&
           (!a->exact || same_bytes(a->exact, b->exact, n * sizeof *a->exact)) &&
           same_bytes(a->runs, b->runs, (size_t)a->n_runs * sizeof *a->runs);
}

/* Of several annotations with one id: leaves out what an earlier one is too. Returns how many stay. */
static int64_t leave_out_copies(numbered_t *all, int64_t n)
{
    int64_t n_left = n, kept = 0;
    for (int64_t i = 0; i < n; i++) all[i].hash = hash_object(all[i].record);
    qsort(all, (size_t)n, sizeof *all, compare_hashes);
    for (int64_t i = 1; i < n; i++) {
        const bool same = all[i].hash == all[kept].hash && same_object(all[i].record, all[kept].record);
        if (!same) kept = i;
        all[i].record->left_out = same;
        n_left -= same;
    }
    qsort(all, (size_t)n, sizeof *all, compare_numbered);
    return n_left;
}

/* Counts those of a flaw; `first` is the first one in the file. */
static void count_at(coco_flaw_t *flaw, int64_t *first, const numbered_t *a)
{
    flaw->n++;
    if (flaw->n > 1 && a->number > *first) return;
    *first = a->number;
    flaw->first = a->id;
}

/* Annotations with one id are other objects unless they are the same in everything. */
static err_t find_repeated_ids(coco_records_t *records)
{
    numbered_t *all = NULL;
    int64_t n = 0, first_copy = 0, first_same = 0;
    TRY(mem_new_array(records->n_annotations, sizeof *all, "ids of annotations", &all));
    for (coco_annotation_record_t *r = records->annotations; r; r = r->next, n++)
        all[n] = (numbered_t){.id = r->annotation.id, .number = n, .record = r};
    qsort(all, (size_t)n, sizeof *all, compare_numbered);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && all[end].id == all[i].id;) end++;
        if (end == i + 1) continue;
        const bool several = leave_out_copies(all + i, end - i) > 1;
        for (int64_t k = i; k < end; k++)
            if (all[k].record->left_out)
                count_at(&records->flaws.duplicates, &first_copy, &all[k]);
            else if (several)
                count_at(&records->flaws.same_ids, &first_same, &all[k]);
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
    const bool negative = box[2] < 0 || box[3] < 0;
    bool far = cut_side(&box[0], &box[2], image->width);
    far |= cut_side(&box[1], &box[3], image->height);
    record->left_out = negative || !(box[2] > 0 && box[3] > 0);
    if (negative)
        coco_flaw_count(&flaws->negative, record->annotation.id);
    else if (record->left_out)
        coco_flaw_count(&flaws->empty, record->annotation.id);
    else if (far)
        coco_flaw_count(&flaws->cut, record->annotation.id);
}

/* Boxes by what their numbers may mean. */
typedef struct census {
    int64_t n, n_beyond, n_not_corners, n_shares, n_points, first_beyond, first;
} census_t;

static void census_add(census_t *c, const coco_annotation_record_t *record, const coco_image_t *image)
{
    const double *b = record->annotation.box, width = image->width, height = image->height;
    const double slack = 0.1; /* of a side: more than a careless hand's */
    const bool beyond = b[0] + b[2] > width * (1 + slack) || b[1] + b[3] > height * (1 + slack);
    c->n++;
    if (beyond && c->n_beyond++ == 0) c->first_beyond = record->annotation.id;
    c->n_not_corners +=
        !(b[0] > -1 && b[1] > -1 && b[2] >= b[0] && b[3] >= b[1] && b[2] <= width + 1 && b[3] <= height + 1);
    const bool share = image->width >= 16 && image->height >= 16 && b[0] >= -slack && b[1] >= -slack &&
                       b[2] >= 0 && b[3] >= 0 && fmax(fmax(b[0], b[1]), fmax(b[2], b[3])) <= 1 + slack;
    if (share && c->n_shares++ == 0) c->first = record->annotation.id;
    c->n_points += share && (b[2] <= 0 || b[3] <= 0);
}

/* Refuses boxes that are not x, y, width and height in pixels. */
static err_t check_meaning(const census_t *c)
{
    /* Nearly all fit: a box is rarely wider than it is far from the left, and higher than from the top. */
    enum { ENOUGH = 3, SHARE = 4, FEW = 50 };
    if (c->n_shares > c->n_points && FEW * (c->n - c->n_shares) <= c->n)
        RAISE(ERR_DATA,
              "%" PRId64 " of its %" PRId64
              " boxes lie between 0 and 1, as normalized ones do; COCO's are in pixels: multiply x and width "
              "by the image's width, y and height by its height (first: annotation %" PRId64 ")",
              c->n_shares, c->n, c->first);
    if (c->n >= ENOUGH && SHARE * c->n_beyond >= c->n && FEW * c->n_not_corners <= c->n)
        RAISE(
            ERR_DATA,
            "%" PRId64 " of its %" PRId64 " boxes exceed their image as x, y, width, height, and %" PRId64
            " as corners x1, y1, x2, y2 (first: "
            "annotation %" PRId64
            "); COCO has x, y, width, height: jq '.annotations[].bbox |= [.[0], .[1], .[2] - .[0], .[3] - .[1]]'",
            c->n_beyond, c->n, c->n_not_corners, c->first_beyond);
    return ERR_OK;
}

static err_t resolve_annotation(coco_annotation_record_t *record, coco_image_t *images, const coco_t *coco,
                                coco_flaws_t *flaws, census_t *census)
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
    census_add(census, record, image);
    if (!record->left_out) check_box(record, image, flaws);
    if (image->n_truths == INT32_MAX)
        RAISE(ERR_DATA, "image %" PRId64 " has more than %d annotations", image->id, INT32_MAX);
    image->n_truths++;
    image->n_annotations += !record->left_out;
    return ERR_OK;
}

/* Gives images with a mended annotation the truths of their own, and all others none. */
static err_t arrange_truths(coco_records_t *records, coco_image_t *images, const coco_t *out)
{
    annotation_t *all = NULL;
    int64_t n = 0;
    bool *mended = NULL;
    TRY(mem_new_array(out->n_images, sizeof *mended, "mended images", &mended));
    for (const coco_annotation_record_t *r = records->annotations; r; r = r->next)
        mended[r->image - images] |= r->left_out || (r->ignored && !r->annotation.crowd) ||
                                     memcmp(r->box, r->annotation.box, sizeof r->box) != 0;
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
    census_t census = {0};
    TRY(find_repeated_ids(records));
    for (coco_annotation_record_t *r = records->annotations; r; r = r->next) {
        TRY(resolve_annotation(r, images, out, &records->flaws, &census));
        n += !r->left_out;
    }
    TRY(check_meaning(&census));
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
        if (r->ignored && !a->crowd) a->crowd = CROWD_IGNORED;
    }
    out->n_annotations = n;
    out->n_listed = records->n_annotations;
    return ERR_OK;
}

/* Sorts the records, resolves ids, clips boxes, and fills in *out except its memory. Arrays come from
 * records->kept. ERR_DATA names ids. */
static err_t arrange_records(coco_records_t *records, coco_t *out)
{
    category_t *categories = NULL;
    const category_t **by_name = NULL;
    coco_image_t *images = NULL;
    int32_t n_categories = 0;
    int64_t n_images = 0;
    TRY(new_array(records, records->n_categories, sizeof *categories, &categories));
    for (const coco_category_record_t *r = records->categories; r; r = r->next)
        categories[n_categories++] = r->category;
    qsort(categories, (size_t)n_categories, sizeof *categories, compare_categories);
    for (int32_t i = 1; i < n_categories; i++)
        if (categories[i].id == categories[i - 1].id)
            RAISE(ERR_DATA, "duplicate category id %" PRId64 ": %s and %s", categories[i].id,
                  categories[i - 1].name, categories[i].name);
    out->categories = categories;
    out->n_categories = n_categories;
    TRY(mem_new_array(n_categories, sizeof *by_name, "names of categories", &by_name));
    for (int32_t i = 0; i < n_categories; i++) by_name[i] = &categories[i];
    qsort(by_name, (size_t)n_categories, sizeof *by_name, compare_names);
    for (int32_t i = 1; i < n_categories; i++)
        if (strcmp(by_name[i]->name, by_name[i - 1]->name) == 0)
            coco_flaw_count(&records->flaws.same_names, by_name[i]->id);
    mem_free(&by_name);
    TRY(new_array(records, records->n_images, sizeof *images, &images));
    for (const coco_image_record_t *r = records->images; r; r = r->next) images[n_images++] = r->image;
    qsort(images, (size_t)n_images, sizeof *images, compare_images);
    for (int64_t i = 1; i < n_images; i++)
        if (images[i].id == images[i - 1].id)
            RAISE(ERR_DATA, "duplicate image id %" PRId64 ": %s and %s", images[i].id, images[i - 1].name,
                  images[i].name);
    out->images = images;
    out->n_images = n_images;
    if (n_images == 0) RAISE(ERR_DATA, "it lists no images");
    if (n_categories == 0) RAISE(ERR_DATA, "it lists no categories");
    TRY(arrange_annotations(records, images, out));
    out->flaws = records->flaws;
    return ERR_OK;
}

static err_t feed_parser(void *context, const void *bytes, size_t n_bytes)
{
    return coco_parser_feed(context, bytes, n_bytes);
}

err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out)
{
    coco_t *coco = NULL;
    arena_t *kept = NULL;
    coco_records_t records = {0};
    coco_parser_t *parser = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new(sizeof *coco, "COCO's annotations", &coco));
    TRY_OUT(err, mem_new(sizeof *kept, "COCO's annotations", &kept));
    coco->memory = kept;
    err = coco_parser_new(&records, &parser);
    const coco_stream_t stream = {parser, feed_parser, context, progress, &coco->encoding};
    if (err == ERR_OK) err = coco_stream(path, &stream);
    if (err == ERR_OK) err = coco_parser_end(parser);
    if (err == ERR_OK) err = arrange_records(&records, coco);
    coco_parser_free(&parser);
    *kept = records.kept;
    if (err == ERR_OK) {
        *out = coco;
        coco = NULL;
    } else {
        err_context(err, "%s", path);
    }
out:
    arena_free(&records.arena);
    coco_free(&coco);
    return err;
}

void coco_free(coco_t **coco)
{
    if (!*coco) return;
    if ((*coco)->memory) arena_free((*coco)->memory);
    mem_free(&(*coco)->memory);
    mem_free(coco);
}

typedef enum list { ANNOTATION, IMAGE, CATEGORY, ANY } list_t;

typedef struct words {
    size_t flaw; /* its offset in coco_flaws_t */
    list_t list; /* of the first one's id */
    coco_effect_t effect;
    const char *one, *several;
} words_t;

#define FLAW(member) offsetof(coco_flaws_t, member)
static const words_t words[] = {
    {FLAW(empty), ANNOTATION, COCO_LEFT_OUT, "annotation without area in its image was skipped",
     "annotations without area in their image were skipped"},
    {FLAW(negative), ANNOTATION, COCO_LEFT_OUT, "annotation with a negative width or height was skipped",
     "annotations with a negative width or height were skipped"},
    {FLAW(duplicates), ANNOTATION, COCO_LEFT_OUT, "annotation that is listed twice, with its id, was skipped",
     "annotations that are listed twice, with their ids, were skipped"},
    {FLAW(ignored), ANNOTATION, COCO_SCORES,
     "annotation has \"ignore\": 1: neither a target nor background in training; scores count it, as pycocotools does",
     "annotations have \"ignore\": 1: neither targets nor background in training; scores count them, as pycocotools "
     "does"},
    {FLAW(cut), ANNOTATION, COCO_TRAINING, "box exceeded its image and was clipped",
     "boxes exceeded their image and were clipped"},
    {FLAW(thin), ANNOTATION, COCO_TRAINING,
     "annotation had polygons of fewer than 3 points, which were skipped",
     "annotations had polygons of fewer than 3 points, which were skipped"},
    {FLAW(no_mask), ANNOTATION, COCO_SCORES,
     "annotation has only polygons of fewer than 3 points: its box is kept, it has no mask",
     "annotations have only polygons of fewer than 3 points: their boxes are kept, they have no mask"},
    {FLAW(loose), ANNOTATION, COCO_SCORES,
     "annotation has a polygon in other brackets, which was taken as one",
     "annotations have a polygon in other brackets, which was taken as one"},
    {FLAW(same_ids), ANNOTATION, COCO_TRAINING,
     "annotation has the id of another and was kept; training needs no ids, scores need one for each",
     "annotations have the id of another and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_ids), ANNOTATION, COCO_TRAINING,
     "annotation has no integer as its id and was kept; training needs no ids, scores need one for each",
     "annotations have no integers as their ids and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_areas), ANNOTATION, COCO_SCORES,
     "annotation has no area; it is the mask's, else the box's: scores by size depend on it",
     "annotations have no area; it is the mask's, else the box's: scores by size depend on it"},
    {FLAW(no_boxes), ANNOTATION, COCO_SCORES, "annotation has no box; it is the one around its mask",
     "annotations have no box; it is the one around their mask"},
    {FLAW(texts), ANY, COCO_SCORES, "element has numbers as strings, which were read",
     "elements have numbers as strings, which were read"},
    {FLAW(no_names), CATEGORY, COCO_SCORES, "category has no name; it is called by its id",
     "categories have no name; they are called by their ids"},
    {FLAW(same_names), CATEGORY, COCO_TRAINING, "category has the name of another; they stay two classes",
     "categories have the name of another; they stay classes of their own"},
    {FLAW(no_files), IMAGE, COCO_TRAINING, "image has no file_name; it is the end of its path or coco_url",
     "images have no file_name; it is the end of their path or coco_url"},
    {FLAW(federated), IMAGE, COCO_SCORES,
     "image has neg_category_ids, as in LVIS; scores are COCO's, not LVIS's",
     "images have neg_category_ids, as in LVIS; scores are COCO's, not LVIS's"},
};

void coco_tell(const coco_t *coco, void *context, coco_listen_t *listen)
{
    static const char *const lists[] = {[IMAGE] = "image", [CATEGORY] = "category", [ANY] = "id"};
    if (coco->encoding.gzip) listen(context, COCO_SCORES, "it is compressed by gzip, and was decompressed");
    if (coco->encoding.utf16)
        listen(context, COCO_SCORES, "it is text in UTF-16, and was converted to UTF-8");
    if (coco->encoding.bom)
        listen(context, COCO_SCORES, "it begins with a byte order mark, which was skipped");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const words_t *w = &words[i];
        const coco_flaw_t *flaw = (const coco_flaw_t *)(const void *)((const char *)&coco->flaws + w->flaw);
        char line[256];
        if (flaw->n == 0) continue;
        const int n = snprintf(line, sizeof line, "%" PRId64 " %s (first: ", flaw->n,
                               flaw->n == 1 ? w->one : w->several);
        if (n >= 0 && (size_t)n < sizeof line) {
            if (w->list == ANNOTATION)
                snprintf(line + n, sizeof line - (size_t)n, "%s)", annotation_name(flaw->first).text);
            else
                snprintf(line + n, sizeof line - (size_t)n, "%s %" PRId64 ")", lists[w->list], flaw->first);
        }
        listen(context, w->effect, line);
    }
}
