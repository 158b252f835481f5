/* SPDX-License-Identifier: MIT */
/* A state machine over the parser's events. Members that are used go to the current item (item.c); everything
 * else is skipped. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/coco/records.h"
#include "text/json.h"

/* The innermost enclosing object or array. */
typedef enum place {
    PLACE_OUTSIDE,
    PLACE_FILE, /* the outermost object */
    PLACE_LIST, /* images, categories or annotations */
    PLACE_ITEM,
    PLACE_BOX,
    PLACE_POLYGONS,
    PLACE_POLYGON,
    PLACE_POINT, /* of a polygon: [[[x, y], [x, y], …]] */
    PLACE_MASK,  /* a segmentation that is an object */
    PLACE_COUNTS,
    PLACE_SIZE,
    PLACE_SKIPPED,
} place_t;

struct coco_parser {
    json_parser_t *json;
    coco_records_t *records;
    coco_ends_t ends;
    coco_item_t item;
    place_t places[COCO_MAX_DEPTH];
    int depth;
    coco_list_t list; /* the file's current member; COCO_LIST_COUNT: skipped */
    bool has_list[COCO_LIST_COUNT];
    const char *writer;          /* of the file's format, if a member tells; else NULL */
    const coco_member_t *member; /* of the item; NULL: skipped */
    place_t mask_member;         /* PLACE_COUNTS, PLACE_SIZE, PLACE_SKIPPED */
    int64_t number;              /* of the item in its list */
    int64_t n_read;              /* bytes before this piece */
    int64_t n_events;
    err_t status;
};

static place_t current_place(const coco_parser_t *p)
{
    return p->depth ? p->places[p->depth - 1] : PLACE_OUTSIDE;
}

/* Rejects a value of the wrong type; ERR_OK in members that are skipped. */
static err_t refuse_value(const coco_parser_t *p, const char *got)
{
    switch (current_place(p)) {
    case PLACE_OUTSIDE:
        RAISE(
            ERR_DATA,
            "it is %s; expected an object with images, annotations and categories, as COCO's instances_*.json",
            got);
    case PLACE_FILE:
        if (p->list == COCO_LIST_COUNT) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected a list", coco_list_names[p->list], got);
    case PLACE_LIST:
        RAISE(ERR_DATA, "it is %s; expected an object", got);
    case PLACE_ITEM:
        if (!p->member || p->member->want == COCO_PLACE) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", p->member->name, got, coco_want_words[p->member->want]);
    case PLACE_MASK:
        if (p->mask_member == PLACE_SKIPPED) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", p->mask_member == PLACE_SIZE ? "size" : "counts", got,
              p->mask_member == PLACE_SIZE ? "a list of 2 numbers" : "a list of numbers or a string");
    case PLACE_SKIPPED:
        return ERR_OK;
    default:
        RAISE(ERR_DATA, "\"%s\" holds %s; expected %s", p->member->name, got,
              current_place(p) == PLACE_POLYGONS ? "polygons (lists of numbers)" : "numbers");
    }
}

static bool member_is(const coco_parser_t *p, coco_want_t want)
{
    return current_place(p) == PLACE_ITEM && p->member && p->member->want == want;
}

/* An event's return value: 0 stops the parser. */
static int finish_event(coco_parser_t *p, err_t status)
{
    p->n_events++;
    p->status = status;
    return status == ERR_OK;
}

static int on_null(void *context)
{
    coco_parser_t *p = context;
    if (current_place(p) != PLACE_ITEM || !p->member) return finish_event(p, refuse_value(p, "null"));
    coco_item_null(&p->item, p->member);
    return finish_event(p, ERR_OK);
}

static int on_bool(void *context, int truth)
{
    coco_parser_t *p = context;
    if (!member_is(p, COCO_FLAG)) return finish_event(p, refuse_value(p, truth ? "true" : "false"));
    return finish_event(p, coco_item_number(&p->item, p->member, truth ? "1" : "0", 1));
}

static err_t handle_number(coco_parser_t *p, const char *text, size_t n_text)
{
    switch (current_place(p)) {
    case PLACE_ITEM:
        if (member_is(p, COCO_WHOLE) || member_is(p, COCO_REAL) || member_is(p, COCO_FLAG))
            return coco_item_number(&p->item, p->member, text, n_text);
        if (member_is(p, COCO_TEXT) && p->list == COCO_CATEGORIES) /* "name": 7 */
            return coco_item_text(&p->item, p->member, text, n_text, &p->records->kept);
        break;
    case PLACE_BOX:
        return coco_item_box(&p->item, text, n_text);
    case PLACE_POLYGONS:
        if (p->item.n_lists > 0) break;
        p->item.flat = true;
        return coco_item_point(&p->item, text, n_text);
    case PLACE_POLYGON:
    case PLACE_POINT:
        return coco_item_point(&p->item, text, n_text);
    case PLACE_COUNTS:
        return coco_item_run(&p->item, text, n_text);
    case PLACE_SIZE:
        return coco_item_size(&p->item, text, n_text);
    default:
        break;
    }
    return refuse_value(p, "a number");
}

static int on_number(void *context, const char *text, size_t n_text)
{
    return finish_event(context, handle_number(context, text, n_text));
}

/* Numbers may be strings. */
static err_t handle_string(coco_parser_t *p, const char *text, size_t n_text)
{
    const place_t place = current_place(p);
    if (member_is(p, COCO_TEXT)) return coco_item_text(&p->item, p->member, text, n_text, &p->records->kept);
    if (member_is(p, COCO_PLACE)) return coco_item_place(&p->item, text, n_text);
    if (place == PLACE_MASK && p->mask_member == PLACE_COUNTS)
        return coco_item_packed_runs(&p->item, text, n_text);
    if (place == PLACE_ITEM && p->member && n_text == 0) {
        coco_item_null(&p->item, p->member);
        return ERR_OK;
    }
    const bool number = member_is(p, COCO_WHOLE) || member_is(p, COCO_REAL) || member_is(p, COCO_FLAG) ||
                        place == PLACE_BOX || place == PLACE_POLYGONS || place == PLACE_POLYGON ||
                        place == PLACE_POINT || place == PLACE_COUNTS || place == PLACE_SIZE;
    if (!number) return refuse_value(p, "a string");
    p->item.is_text = true;
    err_t err = handle_number(p, text, n_text);
    p->item.is_text = false;
    return err;
}

static int on_string(void *context, const unsigned char *text, size_t n_text)
{
    return finish_event(context, handle_string(context, (const char *)text, n_text));
}

static bool is_name(const char *name, const unsigned char *text, size_t n_text)
{
    return strlen(name) == n_text && memcmp(name, text, n_text) == 0;
}

static err_t handle_mask_key(coco_parser_t *p, const unsigned char *text, size_t n_text)
{
    bool counts = is_name("counts", text, n_text), size = is_name("size", text, n_text);
    p->mask_member = counts ? PLACE_COUNTS : size ? PLACE_SIZE : PLACE_SKIPPED;
    if ((counts && p->item.has_counts) || (size && p->item.has_size))
        RAISE(ERR_DATA, "duplicate \"%s\"", counts ? "counts" : "size");
    p->item.has_mask_member = true;
    p->item.has_counts |= counts;
    p->item.has_size |= size;
    return ERR_OK;
}

/* Members of other formats. */
static const struct {
    const char *name, *writer;
} foreign[] = {{"shapes", "LabelMe's own format"},
               {"_via_img_metadata", "VIA's own format"},
               {"_via_settings", "VIA's own format"},
               {"videos", "tracks in videos"},
               {"openlabel", "OpenLABEL"},
               {"predictions", "predictions"},
               {"asset", "VoTT's own format"}};

static int on_key(void *context, const unsigned char *text, size_t n_text)
{
    coco_parser_t *p = context;
    if (current_place(p) == PLACE_ITEM)
        return finish_event(p, coco_item_member(&p->item, (const char *)text, n_text, &p->member));
    if (current_place(p) == PLACE_MASK) return finish_event(p, handle_mask_key(p, text, n_text));
    if (current_place(p) == PLACE_FILE) {
        for (p->list = 0; p->list < COCO_LIST_COUNT; p->list++)
            if (is_name(coco_list_names[p->list], text, n_text)) break;
        for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
            if (is_name(foreign[i].name, text, n_text)) p->writer = foreign[i].writer;
    }
    return finish_event(p, ERR_OK);
}

static err_t enter_place(coco_parser_t *p, place_t inside)
{
    if (p->depth == COCO_MAX_DEPTH) RAISE(ERR_DATA, "nested deeper than %d levels", COCO_MAX_DEPTH);
    p->places[p->depth++] = inside;
    return ERR_OK;
}

static err_t enter_list(coco_parser_t *p)
{
    if (p->has_list[p->list]) RAISE(ERR_DATA, "duplicate \"%s\"", coco_list_names[p->list]);
    p->has_list[p->list] = true;
    p->number = 0;
    return enter_place(p, PLACE_LIST);
}

static int on_object(void *context)
{
    coco_parser_t *p = context;
    if (current_place(p) == PLACE_OUTSIDE) return finish_event(p, enter_place(p, PLACE_FILE));
    if (current_place(p) == PLACE_LIST) {
        coco_item_begin(&p->item, p->list);
        p->member = NULL;
        return finish_event(p, enter_place(p, PLACE_ITEM));
    }
    if (member_is(p, COCO_SEGMENTATION)) return finish_event(p, enter_place(p, PLACE_MASK));
    err_t err = refuse_value(p, "an object");
    return finish_event(p, err == ERR_OK ? enter_place(p, PLACE_SKIPPED) : err);
}

static int on_array(void *context)
{
    coco_parser_t *p = context;
    if (current_place(p) == PLACE_FILE && p->list < COCO_LIST_COUNT) return finish_event(p, enter_list(p));
    if (member_is(p, COCO_BOX)) return finish_event(p, enter_place(p, PLACE_BOX));
    if (member_is(p, COCO_SEGMENTATION)) return finish_event(p, enter_place(p, PLACE_POLYGONS));
    if (current_place(p) == PLACE_POLYGONS && !p->item.flat) {
        p->item.n_lists++;
        return finish_event(p, enter_place(p, PLACE_POLYGON));
    }
    if (current_place(p) == PLACE_POLYGON) {
        p->item.point_start = p->item.n_numbers;
        return finish_event(p, enter_place(p, PLACE_POINT));
    }
    if (current_place(p) == PLACE_MASK && p->mask_member != PLACE_SKIPPED)
        return finish_event(p, enter_place(p, p->mask_member));
    const bool file = current_place(p) == PLACE_OUTSIDE;
    err_t err = refuse_value(p, file ? "a list, as files of detections are (eval --results)" : "a list");
    return finish_event(p, err == ERR_OK ? enter_place(p, PLACE_SKIPPED) : err);
}

static err_t leave_place(coco_parser_t *p)
{
    switch (current_place(p)) {
    case PLACE_BOX:
        return coco_item_end_box(&p->item);
    case PLACE_POINT:
        return coco_item_end_point(&p->item);
    case PLACE_POLYGON:
        return coco_item_end_polygon(&p->item);
    case PLACE_POLYGONS:
        return coco_item_end_polygons(&p->item);
    case PLACE_MASK:
        return coco_item_end_mask(&p->item);
    case PLACE_ITEM:
        TRY(coco_item_end(&p->item, p->records, &p->ends));
        p->number++;
        return ERR_OK;
    default:
        return ERR_OK;
    }
}

static int on_close(void *context)
{
    coco_parser_t *p = context;
    err_t err = leave_place(p);
    if (err == ERR_OK) p->depth--;
    return finish_event(p, err);
}

static const json_events_t coco_events = {on_null, on_bool,   on_number, on_string,
                                          on_key,  on_object, on_array,  on_close};

err_t coco_parser_new(coco_records_t *records, coco_parser_t **out)
{
    coco_parser_t *p = NULL;
    TRY(mem_new(sizeof *p, "a COCO parser", &p));
    p->records = records;
    p->ends = (coco_ends_t){&records->images, &records->categories, &records->annotations};
    err_t err = json_parser_new(&coco_events, p, &p->json);
    if (err == ERR_OK)
        *out = p;
    else
        mem_free(&p);
    return err;
}

void coco_parser_free(coco_parser_t **parser)
{
    if (!*parser) return;
    json_parser_free(&(*parser)->json);
    coco_item_free(&(*parser)->item);
    mem_free(parser);
}

/* Prefixes the message with the byte and the element. */
static err_t add_position(const coco_parser_t *p, err_t err)
{
    int64_t byte = p->n_read + (int64_t)json_parser_at(p->json);
    if (p->depth < 2 || p->places[1] != PLACE_LIST) return err_context(err, "byte %" PRId64, byte);
    char known[40] = "";
    if (p->depth > 2 && p->item.has_id) snprintf(known, sizeof known, " (id %" PRId64 ")", p->item.id);
    return err_context(err, "byte %" PRId64 ", %s[%" PRId64 "]%s", byte, coco_list_names[p->list], p->number,
                       known);
}

err_t coco_parser_feed(coco_parser_t *p, const void *bytes, size_t n_bytes)
{
    int64_t n_before = p->n_events;
    err_t err = json_parser_feed(p->json, bytes, n_bytes);
    if (p->status != ERR_OK) return add_position(p, p->status);
    if (err != ERR_OK) return add_position(p, err);
    /* yajl buffers a value until its end. */
    if (p->n_events == n_before && n_bytes >= COCO_MAX_VALUE)
        return add_position(
            p, err_raise(ERR_DATA, __FILE__, __LINE__, "a value takes more than %d bytes", COCO_MAX_VALUE));
    p->n_read += (int64_t)n_bytes;
    return ERR_OK;
}

err_t coco_parser_end(coco_parser_t *p)
{
    err_t err = json_parser_end(p->json);
    if (p->status != ERR_OK) return p->status;
    if (err != ERR_OK)
        RAISE(ERR_DATA,
              "truncated: its JSON is incomplete after %" PRId64 " bytes; download or create the file again",
              p->n_read);
    for (coco_list_t list = 0; list < COCO_LIST_COUNT; list++)
        if (!p->has_list[list])
            RAISE(ERR_DATA, "no \"%s\"%s%s; expected a file like COCO's instances_*.json%s",
                  coco_list_names[list], p->writer ? ", it looks like " : "", p->writer ? p->writer : "",
                  p->writer ? ": export or convert the labels as COCO" : "");
    return ERR_OK;
}
