/* SPDX-License-Identifier: MIT */
/* Collects the members of one image, category or annotation, and appends its record when it ends. parse.c
 * decides where a member may occur. */
#include "data/coco/records.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/annotation/mask.h"
#include "text/json.h"

const char *const coco_list_names[] = {"images", "categories", "annotations"};
const char *const coco_want_words[] = {"an integer",
                                       "a number",
                                       "0 or 1",
                                       "a string",
                                       "a string",
                                       "a list of 4 numbers",
                                       "a list of polygons or an object with counts and size"};

#define NAMED(name) name, sizeof name - 1
static const coco_member_t members[] = {
    {COCO_IMAGES, NAMED("id"), COCO_WHOLE, true, offsetof(coco_item_t, id)},
    {COCO_IMAGES, NAMED("file_name"), COCO_TEXT, false, offsetof(coco_item_t, name)},
    {COCO_IMAGES, NAMED("width"), COCO_WHOLE, true, offsetof(coco_item_t, width)},
    {COCO_IMAGES, NAMED("height"), COCO_WHOLE, true, offsetof(coco_item_t, height)},
    {COCO_IMAGES, NAMED("path"), COCO_PLACE, false, 0},
    {COCO_IMAGES, NAMED("coco_url"), COCO_PLACE, false, 0},
    {COCO_CATEGORIES, NAMED("id"), COCO_WHOLE, true, offsetof(coco_item_t, id)},
    {COCO_CATEGORIES, NAMED("name"), COCO_TEXT, false, offsetof(coco_item_t, name)},
    {COCO_CATEGORIES, NAMED("supercategory"), COCO_TEXT, false, offsetof(coco_item_t, supergroup)},
    {COCO_ANNOTATIONS, NAMED("id"), COCO_WHOLE, false, offsetof(coco_item_t, id)},
    {COCO_ANNOTATIONS, NAMED("image_id"), COCO_WHOLE, true, offsetof(coco_item_t, image_id)},
    {COCO_ANNOTATIONS, NAMED("category_id"), COCO_WHOLE, true, offsetof(coco_item_t, category_id)},
    {COCO_ANNOTATIONS, NAMED("iscrowd"), COCO_FLAG, false, offsetof(coco_item_t, crowd)},
    {COCO_ANNOTATIONS, NAMED("ignore"), COCO_FLAG, false, offsetof(coco_item_t, ignored)},
    {COCO_ANNOTATIONS, NAMED("area"), COCO_REAL, false, offsetof(coco_item_t, area)},
    {COCO_ANNOTATIONS, NAMED("bbox"), COCO_BOX, false, 0},
    {COCO_ANNOTATIONS, NAMED("segmentation"), COCO_SEGMENTATION, false, 0},
};
enum { N_MEMBERS = sizeof members / sizeof *members };

static const struct {
    coco_list_t list;
    const char *name;
    size_t n_name;
    coco_mark_t mark;
} marks[] = {
    {COCO_ANNOTATIONS, NAMED("caption"), COCO_CAPTIONS},
    {COCO_ANNOTATIONS, NAMED("segments_info"), COCO_PANOPTIC},
    {COCO_ANNOTATIONS, NAMED("video_id"), COCO_VIDEOS},
    {COCO_ANNOTATIONS, NAMED("bboxes"), COCO_VIDEOS},
    {COCO_IMAGES, NAMED("neg_category_ids"), COCO_FEDERATED},
};

void coco_item_free(coco_item_t *item)
{
    mem_free(&item->place);
    mem_free(&item->numbers);
    mem_free(&item->n_points);
    mem_free(&item->runs);
}

void coco_item_begin(coco_item_t *item, coco_list_t list)
{
    *item = (coco_item_t){
        .list = list,
        .supergroup = "",
        .place = item->place,
        .numbers = item->numbers,
        .n_points = item->n_points,
        .runs = item->runs,
    };
}

err_t coco_item_member(coco_item_t *item, const char *name, size_t n_name, const coco_member_t **out)
{
    *out = NULL;
    for (int i = 0; i < N_MEMBERS; i++) {
        const coco_member_t *m = &members[i];
        if (m->list != item->list || m->n_name != n_name || memcmp(m->name, name, n_name) != 0) continue;
        if (item->seen & 1u << i) RAISE(ERR_DATA, "duplicate \"%s\"", m->name);
        item->seen |= 1u << i;
        *out = m;
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i].list == item->list && marks[i].n_name == n_name &&
            memcmp(marks[i].name, name, n_name) == 0)
            item->marks |= marks[i].mark;
    return ERR_OK;
}

void coco_item_null(coco_item_t *item, const coco_member_t *member)
{
    item->seen &= ~(1u << (member - members));
}

static err_t take_int(coco_item_t *item, const char *text, size_t n_text, int64_t *out)
{
    const err_t err = item->is_text ? json_text_int(text, n_text, out) : json_parse_int(text, n_text, out);
    item->has_text |= item->is_text && err == ERR_OK;
    return err;
}

static err_t take_real(coco_item_t *item, const char *text, size_t n_text, double *out)
{
    item->has_text |= item->is_text;
    return item->is_text ? json_text_real(text, n_text, out) : json_parse_real(text, n_text, out);
}

err_t coco_item_number(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text)
{
    void *place = (char *)item + member->offset;
    const char *numbered =
        place == &item->category_id || (place == &item->id && item->list == COCO_CATEGORIES) ? "categories"
        : place == &item->id || place == &item->image_id                                     ? "images"
                                                                                             : NULL;
    err_t err = member->want == COCO_REAL ? take_real(item, text, n_text, place)
                                          : take_int(item, text, n_text, place);
    if (err == ERR_DATA && item->is_text && place == &item->id && item->list == COCO_ANNOTATIONS) {
        err_info_t ignored;
        err_take(err, &ignored);
        coco_item_null(item, member);
        return ERR_OK;
    }
    if (err != ERR_OK && item->is_text && numbered)
        err = err_raise(err, __FILE__, __LINE__,
                        "%s; number the %s, and write the numbers wherever they are meant", err_message(),
                        numbered);
    if (err != ERR_OK) return err_context(err, "\"%s\"", member->name);
    item->has_id |= member->offset == offsetof(coco_item_t, id);
    item->has_area |= member->offset == offsetof(coco_item_t, area);
    return ERR_OK;
}

err_t coco_item_text(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text,
                     arena_t *kept)
{
    const char *copy = NULL;
    if (n_text > COCO_MAX_NAME)
        RAISE(ERR_DATA, "\"%s\" is longer than %d bytes", member->name, COCO_MAX_NAME);
    if (n_text && memchr(text, 0, n_text)) RAISE(ERR_DATA, "\"%s\" has a NUL character", member->name);
    TRY(arena_text(kept, text, n_text, &copy));
    /* yajl accepts surrogates and overlong sequences. */
    for (const char *s = copy; *s; s += utf8_length(s)) {
        size_t n = utf8_length(s);
        if (n == 0) RAISE(ERR_DATA, "\"%s\" is not valid UTF-8", member->name);
        if (utf8_is_control(s, n)) RAISE(ERR_DATA, "\"%s\" has a control character", member->name);
    }
    memcpy((char *)item + member->offset, &copy, sizeof copy);
    return ERR_OK;
}

/* The last component, without a URL's query. The first of several members counts. */
err_t coco_item_place(coco_item_t *item, const char *text, size_t n_text)
{
    const char *slash, *query = n_text ? memchr(text, '?', n_text) : NULL;
    if (item->n_place > 0) return ERR_OK;
    if (query) n_text = (size_t)(query - text);
    slash = memrchr(text, '/', n_text);
    if (slash) n_text -= (size_t)(slash + 1 - text), text = slash + 1;
    if (n_text == 0 || n_text > COCO_MAX_NAME) return ERR_OK;
    TRY(mem_grow(COCO_MAX_NAME, 1, "a path", &item->place));
    memcpy(item->place, text, n_text);
    item->n_place = n_text;
    return ERR_OK;
}

err_t coco_item_box(coco_item_t *item, const char *text, size_t n_text)
{
    if (item->n_box == 4) RAISE(ERR_DATA, "\"bbox\" has more than 4 numbers");
    err_t err = take_real(item, text, n_text, &item->box[item->n_box++]);
    return err == ERR_OK ? ERR_OK : err_context(err, "\"bbox\"");
}

err_t coco_item_end_box(coco_item_t *item)
{
    if (item->n_box == 0 || item->n_box == 4) return ERR_OK;
    RAISE(ERR_DATA, "\"bbox\" has %d numbers; expected 4: x, y, width, height", item->n_box);
}

err_t coco_item_point(coco_item_t *item, const char *text, size_t n_text)
{
    double value = 0;
    err_t err = take_real(item, text, n_text, &value);
    if (err != ERR_OK) return err_context(err, "\"segmentation\"");
    if (fabs(value) > COCO_MAX_COORDINATE)
        RAISE(ERR_DATA, "\"segmentation\" has the coordinate %g; the limit is %d", value,
              COCO_MAX_COORDINATE);
    if (item->n_numbers == 2 * (int64_t)COCO_MAX_POINTS)
        RAISE(ERR_DATA, "\"segmentation\" has more than %d points", COCO_MAX_POINTS);
    TRY(mem_grow(item->n_numbers + 1, sizeof *item->numbers, "points of polygons", &item->numbers));
    item->numbers[item->n_numbers++] = value;
    return ERR_OK;
}

err_t coco_item_end_point(coco_item_t *item)
{
    const int64_t n = item->n_numbers - item->point_start;
    if (n >= 4 && item->point_start == item->polygon_start) { /* a polygon, a bracket deeper */
        item->loose = true;
        return coco_item_end_polygon(item);
    }
    if (n != 2) RAISE(ERR_DATA, "\"segmentation\" has a point of %" PRId64 " numbers; expected x and y", n);
    item->loose = true;
    return ERR_OK;
}

static err_t add_polygon(coco_item_t *item, int64_t n_numbers)
{
    TRY(mem_grow(item->n_polygons + 1, sizeof *item->n_points, "polygons", &item->n_points));
    item->n_points[item->n_polygons++] = (int32_t)(n_numbers / 2);
    item->polygon_start = item->n_numbers;
    return ERR_OK;
}

err_t coco_item_end_polygon(coco_item_t *item)
{
    const int64_t n = item->n_numbers - item->polygon_start;
    if (n % 2)
        RAISE(ERR_DATA, "\"segmentation\" has a polygon of %" PRId64 " numbers; expected pairs of x and y",
              n);
    if (n == 0) return ERR_OK;
    if (n == 2 && !item->mixed) {
        item->n_pairs++;
        item->polygon_start = item->n_numbers;
        return ERR_OK;
    }
    item->mixed = true;
    if (item->n_pairs > 0) { /* they are thin polygons, rather than points of one */
        memmove(item->numbers, item->numbers + item->polygon_start, (size_t)n * sizeof *item->numbers);
        item->n_numbers = n;
        item->polygon_start = item->n_pairs = 0;
        item->thin = true;
    }
    if (n >= 6) return add_polygon(item, n);
    item->thin = true;
    item->n_numbers = item->polygon_start;
    return ERR_OK;
}

err_t coco_item_end_polygons(coco_item_t *item)
{
    if (item->flat) TRY(coco_item_end_polygon(item));
    item->loose |= item->flat || item->n_pairs >= 3;
    if (item->n_pairs >= 3) return add_polygon(item, item->n_numbers);
    item->thin |= item->n_pairs > 0;
    if (item->n_pairs > 0) item->n_numbers = 0;
    return ERR_OK;
}

err_t coco_item_run(coco_item_t *item, const char *text, size_t n_text)
{
    int64_t run = 0;
    err_t err = take_int(item, text, n_text, &run);
    if (err != ERR_OK) return err_context(err, "\"counts\"");
    if (run < 0 || run > COCO_MAX_PIXELS) RAISE(ERR_DATA, "\"counts\" has a run of %" PRId64 " pixels", run);
    if (item->n_runs == COCO_MAX_RUNS) RAISE(ERR_DATA, "\"counts\" has more than %d runs", COCO_MAX_RUNS);
    TRY(mem_grow(item->n_runs + 1, sizeof *item->runs, "runs of a mask", &item->runs));
    item->runs[item->n_runs++] = (uint32_t)run;
    return ERR_OK;
}

err_t coco_item_packed_runs(coco_item_t *item, const char *text, size_t n_text)
{
    int32_t n = 0;
    if (n_text > COCO_MAX_RUNS) RAISE(ERR_DATA, "\"counts\" is longer than %d bytes", COCO_MAX_RUNS);
    TRY(mem_grow((int64_t)n_text, sizeof *item->runs, "runs of a mask", &item->runs));
    TRY(rle_parse(text, n_text, item->runs, &n));
    item->n_runs = n;
    return ERR_OK;
}

err_t coco_item_size(coco_item_t *item, const char *text, size_t n_text)
{
    if (item->n_size == 2) RAISE(ERR_DATA, "\"size\" has more than 2 numbers");
    err_t err = take_int(item, text, n_text, &item->size[item->n_size++]);
    return err == ERR_OK ? ERR_OK : err_context(err, "\"size\"");
}

static err_t check_size(const char *whose, int64_t width, int64_t height)
{
    if (width >= 1 && height >= 1 && width <= COCO_MAX_PIXELS && height <= COCO_MAX_PIXELS / width)
        return ERR_OK;
    RAISE(ERR_DATA, "%s is %" PRId64 " × %" PRId64 " pixels; expected 1 to %d in total", whose, width, height,
          COCO_MAX_PIXELS);
}

err_t coco_item_end_mask(coco_item_t *item)
{
    int64_t sum = 0;
    if (!item->has_mask_member) return ERR_OK; /* {} */
    if (!item->has_counts || item->n_size < 2)
        RAISE(ERR_DATA, "\"segmentation\" is an object without %s",
              item->has_counts ? "a \"size\" of 2 numbers" : "\"counts\"");
    TRY(check_size("the mask", item->size[1], item->size[0]));
    for (int64_t i = 0; i < item->n_runs; i++) sum += item->runs[i];
    if (sum != item->size[0] * item->size[1])
        RAISE(ERR_DATA,
              "the runs of \"counts\" add up to %" PRId64 " pixels, but \"size\" is %" PRId64 " × %" PRId64,
              sum, item->size[0], item->size[1]);
    item->has_mask = true;
    return ERR_OK;
}

static err_t end_image(coco_item_t *item, coco_records_t *records, coco_image_record_t ***end)
{
    static const coco_member_t name = {COCO_IMAGES, NAMED("file_name"), COCO_TEXT, false,
                                       offsetof(coco_item_t, name)};
    coco_image_record_t *record = NULL;
    if ((!item->name || !*item->name) && item->n_place > 0) {
        TRY(coco_item_text(item, &name, item->place, item->n_place, &records->kept));
        coco_flaw_count(&records->flaws.no_files, item->id);
    }
    if (!item->name) RAISE(ERR_DATA, "no \"file_name\"");
    if (item->marks & COCO_FEDERATED) coco_flaw_count(&records->flaws.federated, item->id);
    if (!*item->name) RAISE(ERR_DATA, "\"file_name\" is empty");
    TRY(check_size("the image", item->width, item->height));
    TRY(arena_new(&records->arena, sizeof *record, &record));
    *record = (coco_image_record_t){.image = {.id = item->id,
                                              .name = item->name,
                                              .width = (int32_t)item->width,
                                              .height = (int32_t)item->height}};
    **end = record;
    *end = &record->next;
    records->n_images++;
    return ERR_OK;
}

static err_t end_category(const coco_item_t *item, coco_records_t *records, coco_category_record_t ***end)
{
    coco_category_record_t *record = NULL;
    const char *name = item->name;
    if (!name || !*name) {
        char text[40];
        int n = snprintf(text, sizeof text, "category %" PRId64, item->id);
        TRY(arena_text(&records->kept, text, (size_t)n, &name));
        coco_flaw_count(&records->flaws.no_names, item->id);
    }
    if (records->n_categories == COCO_MAX_CATEGORIES)
        RAISE(ERR_DATA, "more than %d categories", COCO_MAX_CATEGORIES);
    TRY(arena_new(&records->arena, sizeof *record, &record));
    *record = (coco_category_record_t){.category = {item->id, name, item->supergroup}};
    **end = record;
    *end = &record->next;
    records->n_categories++;
    return ERR_OK;
}

/* Copies the runs or the polygons to `kept`: polygons as floats, and as they are where a float does not tell them. */
static err_t keep_segmentation(const coco_item_t *item, arena_t *kept, annotation_t *out)
{
    if (item->has_mask) {
        size_t n_runs = (size_t)item->n_runs * sizeof(uint32_t);
        uint32_t *runs = NULL;
        TRY(arena_new(kept, n_runs, &runs));
        memcpy(runs, item->runs, n_runs);
        out->segmentation = SEGMENTATION_RLE;
        out->n_runs = (int32_t)item->n_runs;
        out->runs = runs;
        return ERR_OK;
    }
    if (item->n_polygons == 0) return ERR_OK;
    size_t n = (size_t)item->n_numbers, n_polygons = (size_t)item->n_polygons;
    float *points = NULL;
    int32_t *n_points = NULL;
    double *exact = NULL;
    bool lost = false;
    TRY(arena_new(kept, n * sizeof *points, &points));
    TRY(arena_new(kept, n_polygons * sizeof *n_points, &n_points));
    memcpy(n_points, item->n_points, n_polygons * sizeof *n_points);
    for (size_t i = 0; i < n; i++) {
        points[i] = (float)item->numbers[i];
        double again = mask_widen(points[i]);
        lost |= memcmp(&again, &item->numbers[i], sizeof again) != 0;
    }
    if (lost) {
        TRY(arena_new(kept, n * sizeof *exact, &exact));
        memcpy(exact, item->numbers, n * sizeof *exact);
    }
    out->segmentation = SEGMENTATION_POLYGONS;
    out->n_polygons = (int32_t)item->n_polygons;
    out->n_points = n_points;
    out->points = points;
    out->exact = exact;
    return ERR_OK;
}

/* The box around the polygons or the runs. */
static err_t find_box(const coco_item_t *item, double box[4])
{
    if (item->has_mask) {
        const rle_t rle = {item->runs, (int32_t)item->n_runs};
        rle_box(&rle, (int32_t)item->size[1], (int32_t)item->size[0], box);
        return ERR_OK;
    }
    if (item->n_polygons == 0)
        RAISE(ERR_DATA,
              "no \"bbox\", and no \"segmentation\" to find it from; complete or remove the annotation");
    double least[2] = {item->numbers[0], item->numbers[1]}, most[2] = {least[0], least[1]};
    for (int64_t i = 2; i < item->n_numbers; i++) {
        least[i % 2] = fmin(least[i % 2], item->numbers[i]);
        most[i % 2] = fmax(most[i % 2], item->numbers[i]);
    }
    memcpy(box, (const double[]){least[0], least[1], most[0] - least[0], most[1] - least[1]},
           4 * sizeof *box);
    return ERR_OK;
}

/* The area in the runs or the polygons (the shoelace formula), as Detectron2 has it; else the box's. */
static double find_area(const coco_item_t *item, const double box[4])
{
    if (item->has_mask) {
        const rle_t rle = {item->runs, (int32_t)item->n_runs};
        return rle_area(&rle);
    }
    if (item->n_polygons == 0) return fabs(box[2] * box[3]);
    double sum = 0;
    const double *at = item->numbers;
    for (int64_t k = 0; k < item->n_polygons; k++) {
        const int64_t n = item->n_points[k];
        double twice = 0;
        for (int64_t i = 0; i < n; i++) {
            const double *next = at + 2 * ((i + 1) % n);
            twice += at[2 * i] * next[1] - next[0] * at[2 * i + 1];
        }
        sum += fabs(twice) / 2;
        at += 2 * n;
    }
    return sum;
}

static err_t end_annotation(const coco_item_t *item, coco_records_t *records, coco_annotation_record_t ***end)
{
    coco_annotation_record_t *record = NULL;
    coco_flaws_t *flaws = &records->flaws;
    if (item->crowd != 0 && item->crowd != 1)
        RAISE(ERR_DATA, "\"iscrowd\" is %" PRId64 "; expected 0 or 1", item->crowd);
    if (item->area < 0) RAISE(ERR_DATA, "\"area\" is %g; expected 0 or more", item->area);
    if (item->has_id && item->id < ANNOTATION_FIRST_ID)
        RAISE(ERR_DATA, "\"id\" is %" PRId64 "; expected at least %" PRId64, item->id, ANNOTATION_FIRST_ID);
    TRY(arena_new(&records->arena, sizeof *record, &record));
    *record = (coco_annotation_record_t){
        .annotation = {.id = item->has_id ? item->id : INT64_MIN + records->n_annotations,
                       .crowd = item->crowd == 1,
                       .area = item->area},
        .image_id = item->image_id,
        .category_id = item->category_id,
        .ignored = item->ignored != 0,
    };
    annotation_t *a = &record->annotation;
    if (item->n_box == 4)
        memcpy(a->box, item->box, sizeof item->box);
    else
        TRY(find_box(item, a->box));
    if (!item->has_area) a->area = find_area(item, a->box);
    if (item->has_mask) {
        record->mask_height = (int32_t)item->size[0];
        record->mask_width = (int32_t)item->size[1];
    }
    if (item->thin) coco_flaw_count(item->n_polygons > 0 ? &flaws->thin : &flaws->no_mask, a->id);
    if (item->loose) coco_flaw_count(&flaws->loose, a->id);
    if (item->n_box < 4) coco_flaw_count(&flaws->no_boxes, a->id);
    if (!item->has_area) coco_flaw_count(&flaws->no_areas, a->id);
    if (!item->has_id) coco_flaw_count(&flaws->no_ids, a->id);
    if (record->ignored) coco_flaw_count(&flaws->ignored, a->id);
    TRY(keep_segmentation(item, &records->kept, a));
    **end = record;
    *end = &record->next;
    records->n_annotations++;
    return ERR_OK;
}

/* Refuses an item that lacks a member. */
static err_t refuse_without(const coco_item_t *item, const char *name)
{
    if (item->marks & COCO_CAPTIONS)
        RAISE(ERR_DATA, "it has captions, not objects; use instances_*.json in place of captions_*.json");
    if (item->marks & COCO_PANOPTIC)
        RAISE(ERR_DATA,
              "it has panoptic segments, not objects; use instances_*.json in place of panoptic_*.json, or "
              "convert it by panopticapi's panoptic2detection_coco_format.py");
    if (item->marks & COCO_VIDEOS)
        RAISE(ERR_DATA, "it has tracks in videos, not objects in images; convert each frame to an image");
    RAISE(ERR_DATA, "no \"%s\"%s", name,
          *name == 'w' || *name == 'h' ? "; write each image's width and height into the list" : "");
}

err_t coco_item_end(coco_item_t *item, coco_records_t *records, coco_ends_t *ends)
{
    for (int i = 0; i < N_MEMBERS; i++)
        if (members[i].list == item->list && members[i].needed && !(item->seen & 1u << i))
            return refuse_without(item, members[i].name);
    if (item->has_text) coco_flaw_count(&records->flaws.texts, item->id);
    if (item->list == COCO_IMAGES) return end_image(item, records, &ends->image);
    if (item->list == COCO_CATEGORIES) return end_category(item, records, &ends->category);
    return end_annotation(item, records, &ends->annotation);
}
