/* SPDX-License-Identifier: MIT */
/* Collects the members of one image, category or annotation, and appends its record when it ends. parse.c
 * decides where a member may occur. */
#include "data/coco/item.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_events.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/annotation/mask.h"

const char *const coco_list_names[] = {"images", "categories", "annotations"};
const char *const coco_want_words[] = {"an integer",
                                       "a number",
                                       "0 or 1",
                                       "a string",
                                       "a list of 4 numbers",
                                       "a list of polygons or an object with counts and size"};

static const coco_member_t members[] = {
    {COCO_IMAGES, "id", COCO_WHOLE, true, offsetof(coco_item_t, id)},
    {COCO_IMAGES, "file_name", COCO_TEXT, true, offsetof(coco_item_t, name)},
    {COCO_IMAGES, "width", COCO_WHOLE, true, offsetof(coco_item_t, width)},
    {COCO_IMAGES, "height", COCO_WHOLE, true, offsetof(coco_item_t, height)},
    {COCO_CATEGORIES, "id", COCO_WHOLE, true, offsetof(coco_item_t, id)},
    {COCO_CATEGORIES, "name", COCO_TEXT, true, offsetof(coco_item_t, name)},
    {COCO_CATEGORIES, "supercategory", COCO_TEXT, false, offsetof(coco_item_t, supergroup)},
    {COCO_ANNOTATIONS, "id", COCO_WHOLE, true, offsetof(coco_item_t, id)},
    {COCO_ANNOTATIONS, "image_id", COCO_WHOLE, true, offsetof(coco_item_t, image_id)},
    {COCO_ANNOTATIONS, "category_id", COCO_WHOLE, true, offsetof(coco_item_t, category_id)},
    {COCO_ANNOTATIONS, "iscrowd", COCO_FLAG, false, offsetof(coco_item_t, crowd)},
    {COCO_ANNOTATIONS, "area", COCO_REAL, true, offsetof(coco_item_t, area)},
    {COCO_ANNOTATIONS, "bbox", COCO_BOX, true, 0},
    {COCO_ANNOTATIONS, "segmentation", COCO_SEGMENTATION, false, 0},
};
enum { N_MEMBERS = sizeof members / sizeof *members };

void coco_item_free(coco_item_t *item)
{
    mem_free(&item->numbers);
    mem_free(&item->n_points);
    mem_free(&item->runs);
}

void coco_item_begin(coco_item_t *item, coco_list_t list)
{
    *item = (coco_item_t){
        .list = list,
        .supergroup = "",
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
        if (m->list != item->list || strlen(m->name) != n_name || memcmp(m->name, name, n_name) != 0)
            continue;
        if (item->seen & 1u << i) RAISE(ERR_DATA, "duplicate \"%s\"", m->name);
        item->seen |= 1u << i;
        *out = m;
        break;
    }
    return ERR_OK;
}

err_t coco_item_number(coco_item_t *item, const coco_member_t *member, const char *text, size_t n_text)
{
    void *place = (char *)item + member->offset;
    err_t err = member->want == COCO_REAL ? json_parse_real(text, n_text, place)
                                          : json_parse_int(text, n_text, place);
    if (err != ERR_OK) return err_context(err, "\"%s\"", member->name);
    item->has_id |= member->offset == offsetof(coco_item_t, id);
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

err_t coco_item_box(coco_item_t *item, const char *text, size_t n_text)
{
    if (item->n_box == 4) RAISE(ERR_DATA, "\"bbox\" has more than 4 numbers");
    err_t err = json_parse_real(text, n_text, &item->box[item->n_box++]);
    return err == ERR_OK ? ERR_OK : err_context(err, "\"bbox\"");
}

err_t coco_item_end_box(coco_item_t *item)
{
    if (item->n_box < 4)
        RAISE(ERR_DATA, "\"bbox\" has %d numbers; expected 4: x, y, width, height", item->n_box);
    return ERR_OK;
}

err_t coco_item_point(coco_item_t *item, const char *text, size_t n_text)
{
    double value = 0;
    err_t err = json_parse_real(text, n_text, &value);
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

err_t coco_item_end_polygon(coco_item_t *item)
{
    int64_t n = item->n_numbers - item->polygon_start;
    if (n % 2)
        RAISE(ERR_DATA, "\"segmentation\" has a polygon of %" PRId64 " numbers; expected pairs of x and y",
              n);
    if (n < 6) {
        item->thin = true;
        item->n_numbers = item->polygon_start;
        return ERR_OK;
    }
    TRY(mem_grow(item->n_polygons + 1, sizeof *item->n_points, "polygons", &item->n_points));
    item->n_points[item->n_polygons++] = (int32_t)(n / 2);
    item->polygon_start = item->n_numbers;
    return ERR_OK;
}

err_t coco_item_run(coco_item_t *item, const char *text, size_t n_text)
{
    int64_t run = 0;
    err_t err = json_parse_int(text, n_text, &run);
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
    err_t err = json_parse_int(text, n_text, &item->size[item->n_size++]);
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

/* The file must be inside the folder of images. */
static err_t check_file_name(const char *name)
{
    if (!*name) RAISE(ERR_DATA, "\"file_name\" is empty");
    bool leaves = name[0] == '/';
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        leaves |= strncmp(part, "..", 2) == 0 && (!part[2] || part[2] == '/');
    }
    if (leaves) RAISE(ERR_DATA, "\"file_name\" points outside the folder of images: %s", name);
    return ERR_OK;
}

static err_t end_image(const coco_item_t *item, coco_records_t *records, coco_image_record_t ***end)
{
    coco_image_record_t *record = NULL;
    TRY(check_file_name(item->name));
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
    if (!*item->name) RAISE(ERR_DATA, "\"name\" is empty");
    if (records->n_categories == COCO_MAX_CATEGORIES)
        RAISE(ERR_DATA, "more than %d categories", COCO_MAX_CATEGORIES);
    TRY(arena_new(&records->arena, sizeof *record, &record));
    *record = (coco_category_record_t){.category = {item->id, item->name, item->supergroup}};
    **end = record;
    *end = &record->next;
    records->n_categories++;
    return ERR_OK;
}

/* Copies the polygons to `kept`: as floats, and as they are where a float does not tell them. */
static err_t keep_polygons(const coco_item_t *item, arena_t *kept, annotation_t *out)
{
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

/* Copies the polygons or runs to `kept`. */
static err_t keep_segmentation(const coco_item_t *item, arena_t *kept, annotation_t *out)
{
    size_t n_runs = (size_t)item->n_runs * sizeof(uint32_t);
    if (item->has_mask) {
        uint32_t *runs = NULL;
        TRY(arena_new(kept, n_runs, &runs));
        memcpy(runs, item->runs, n_runs);
        out->segmentation = SEGMENTATION_RLE;
        out->n_runs = (int32_t)item->n_runs;
        out->runs = runs;
    } else if (item->n_polygons > 0) {
        TRY(keep_polygons(item, kept, out));
    }
    return ERR_OK;
}

static err_t end_annotation(const coco_item_t *item, coco_records_t *records, coco_annotation_record_t ***end)
{
    coco_annotation_record_t *record = NULL;
    if (item->crowd != 0 && item->crowd != 1)
        RAISE(ERR_DATA, "\"iscrowd\" is %" PRId64 "; expected 0 or 1", item->crowd);
    if (item->area < 0) RAISE(ERR_DATA, "\"area\" is %g; expected 0 or more", item->area);
    TRY(arena_new(&records->arena, sizeof *record, &record));
    *record = (coco_annotation_record_t){
        .annotation = {.id = item->id, .crowd = item->crowd == 1, .area = item->area},
        .image_id = item->image_id,
        .category_id = item->category_id,
        .thin_alone = item->thin && item->n_polygons == 0,
    };
    memcpy(record->annotation.box, item->box, sizeof item->box);
    if (item->has_mask) {
        record->mask_height = (int32_t)item->size[0];
        record->mask_width = (int32_t)item->size[1];
    }
    if (item->thin) coco_flaw_count(&records->flaws.thin, item->id);
    TRY(keep_segmentation(item, &records->kept, &record->annotation));
    **end = record;
    *end = &record->next;
    records->n_annotations++;
    return ERR_OK;
}

err_t coco_item_end(coco_item_t *item, coco_records_t *records, coco_ends_t *ends)
{
    for (int i = 0; i < N_MEMBERS; i++)
        if (members[i].list == item->list && members[i].needed && !(item->seen & 1u << i))
            RAISE(ERR_DATA, "no \"%s\"", members[i].name);
    if (item->list == COCO_IMAGES) return end_image(item, records, &ends->image);
    if (item->list == COCO_CATEGORIES) return end_category(item, records, &ends->category);
    return end_annotation(item, records, &ends->annotation);
}
