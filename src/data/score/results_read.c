/* SPDX-License-Identifier: MIT */
/* Reads results: a state machine over the parser's events, as data/coco/parse.c is for annotations. Members of
 * a detection are results_item.c's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_events.h"
#include "base/mem.h"
#include "data/coco/stream.h"
#include "data/score/results_item.h"

/* The innermost enclosing object or array. */
typedef enum place {
    PLACE_OUTSIDE,
    PLACE_LIST,
    PLACE_ITEM,
    PLACE_BOX,
    PLACE_MASK,
    PLACE_SIZE,
    PLACE_COUNTS,
    PLACE_SKIPPED,
} place_t;

typedef struct reader {
    json_parser_t *json;
    const truths_t *truths;
    results_t *results;
    place_t places[RESULTS_MAX_DEPTH];
    int depth;
    results_member_t member; /* of the item; RESULTS_N_MEMBERS: skipped */
    place_t part;            /* of the mask: PLACE_SIZE, PLACE_COUNTS, PLACE_SKIPPED */
    results_item_t item;
    int64_t n_read, n_events;
    err_t status;
    const open_watch_t *watch;
} reader_t;

static place_t current_place(const reader_t *r)
{
    return r->depth ? r->places[r->depth - 1] : PLACE_OUTSIDE;
}

/* Rejects a value of the wrong type; ERR_OK in members that are skipped. */
static err_t refuse_value(const reader_t *r, const char *got)
{
    switch (current_place(r)) {
    case PLACE_OUTSIDE:
        RAISE(ERR_DATA, "it is %s; expected a list of results, as COCO's results format has it", got);
    case PLACE_LIST:
        RAISE(ERR_DATA, "it is %s; expected an object", got);
    case PLACE_ITEM:
        if (r->member == RESULTS_N_MEMBERS) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", results_members[r->member].name, got,
              results_members[r->member].want);
    case PLACE_MASK:
        if (r->part == PLACE_SKIPPED) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", r->part == PLACE_SIZE ? "size" : "counts", got,
              r->part == PLACE_SIZE ? "height and width" : "compressed RLE, a string");
    case PLACE_SKIPPED:
        return ERR_OK;
    default:
        RAISE(ERR_DATA, "\"%s\" holds %s; expected numbers", results_members[r->member].name, got);
    }
}

/* An event's return value: 0 stops the parser. */
static int finish_event(reader_t *r, err_t status)
{
    r->n_events++;
    r->status = status;
    return status == ERR_OK;
}

/* Boxes and masks may be null, which is as good as absent. */
static int on_null(void *context)
{
    reader_t *r = context;
    bool absent = current_place(r) == PLACE_ITEM && (r->member == RESULTS_BOX || r->member == RESULTS_MASK);
    if (absent) r->item.has[r->member] = false;
    return finish_event(r, absent ? ERR_OK : refuse_value(r, "null"));
}

static int on_bool(void *context, int truth)
{
    return finish_event(context, refuse_value(context, truth ? "true" : "false"));
}

static err_t read_member(reader_t *r, const char *text, size_t n_text)
{
    results_item_t *item = &r->item;
    switch (r->member) {
    case RESULTS_IMAGE:
        return results_item_id(text, n_text, &item->image_id);
    case RESULTS_CATEGORY:
        return results_item_id(text, n_text, &item->category_id);
    case RESULTS_SCORE:
        return json_parse_real(text, n_text, &item->score);
    default:
        return refuse_value(r, "a number");
    }
}

static err_t handle_number(reader_t *r, const char *text, size_t n_text)
{
    err_t err;
    switch (current_place(r)) {
    case PLACE_ITEM:
        if (r->member == RESULTS_N_MEMBERS || r->member == RESULTS_BOX || r->member == RESULTS_MASK)
            return refuse_value(r, "a number");
        err = read_member(r, text, n_text);
        break;
    case PLACE_BOX:
        err = results_item_box(&r->item, text, n_text);
        break;
    case PLACE_SIZE:
        err = results_item_size(&r->item, text, n_text);
        break;
    case PLACE_COUNTS:
        err = results_item_run(&r->item, text, n_text);
        break;
    default:
        return refuse_value(r, "a number");
    }
    return err == ERR_OK ? ERR_OK : err_context(err, "\"%s\"", results_members[r->member].name);
}

static int on_number(void *context, const char *text, size_t n_text)
{
    return finish_event(context, handle_number(context, text, n_text));
}

static int on_string(void *context, const unsigned char *text, size_t n_text)
{
    reader_t *r = context;
    if (current_place(r) == PLACE_MASK && r->part == PLACE_COUNTS)
        return finish_event(r, results_item_text(&r->item, text, n_text));
    return finish_event(r, refuse_value(r, "a string"));
}

static bool is_name(const char *name, const unsigned char *text, size_t n_text)
{
    return strlen(name) == n_text && memcmp(name, text, n_text) == 0;
}

static err_t handle_member(reader_t *r, const unsigned char *text, size_t n_text)
{
    for (r->member = 0; r->member < RESULTS_N_MEMBERS; r->member++)
        if (is_name(results_members[r->member].name, text, n_text)) break;
    if (r->member == RESULTS_N_MEMBERS) return ERR_OK;
    if (r->item.has[r->member]) RAISE(ERR_DATA, "duplicate \"%s\"", results_members[r->member].name);
    r->item.has[r->member] = true;
    return ERR_OK;
}

static err_t handle_part(reader_t *r, const unsigned char *text, size_t n_text)
{
    results_item_t *item = &r->item;
    bool counts = is_name("counts", text, n_text), size = is_name("size", text, n_text);
    r->part = counts ? PLACE_COUNTS : size ? PLACE_SIZE : PLACE_SKIPPED;
    if ((counts && item->has_counts) || (size && item->n_size > 0))
        RAISE(ERR_DATA, "duplicate \"%s\"", counts ? "counts" : "size");
    item->has_counts |= counts;
    return ERR_OK;
}

static int on_key(void *context, const unsigned char *text, size_t n_text)
{
    reader_t *r = context;
    if (current_place(r) == PLACE_ITEM) return finish_event(r, handle_member(r, text, n_text));
    if (current_place(r) == PLACE_MASK) return finish_event(r, handle_part(r, text, n_text));
    return finish_event(r, ERR_OK);
}

static err_t enter_place(reader_t *r, place_t inside)
{
    if (r->depth == RESULTS_MAX_DEPTH) RAISE(ERR_DATA, "nested deeper than %d levels", RESULTS_MAX_DEPTH);
    r->places[r->depth++] = inside;
    return ERR_OK;
}

static int on_object(void *context)
{
    reader_t *r = context;
    if (current_place(r) == PLACE_LIST) {
        r->item = (results_item_t){.runs.runs = r->item.runs.runs, .text = r->item.text};
        r->member = RESULTS_N_MEMBERS;
        return finish_event(r, enter_place(r, PLACE_ITEM));
    }
    if (current_place(r) == PLACE_ITEM && r->member == RESULTS_MASK)
        return finish_event(r, enter_place(r, PLACE_MASK));
    err_t err = refuse_value(r, "an object");
    return finish_event(r, err == ERR_OK ? enter_place(r, PLACE_SKIPPED) : err);
}

static int on_array(void *context)
{
    reader_t *r = context;
    place_t place = current_place(r);
    if (place == PLACE_OUTSIDE) return finish_event(r, enter_place(r, PLACE_LIST));
    if (place == PLACE_ITEM && r->member == RESULTS_BOX) return finish_event(r, enter_place(r, PLACE_BOX));
    if (place == PLACE_MASK && r->part != PLACE_SKIPPED) return finish_event(r, enter_place(r, r->part));
    err_t err =
        refuse_value(r, place == PLACE_ITEM && r->member == RESULTS_MASK ? "a list of polygons" : "a list");
    return finish_event(r, err == ERR_OK ? enter_place(r, PLACE_SKIPPED) : err);
}

/* Every detection must have what the first one has. */
static err_t check_types(reader_t *r)
{
    results_item_t *item = &r->item;
    results_t *results = r->results;
    if (!item->has[RESULTS_BOX] && !item->has[RESULTS_MASK])
        RAISE(ERR_DATA, "no \"bbox\" and no \"segmentation\"");
    if (results->n == 0) {
        results->has[SCORE_BBOX] = results->box_areas = item->has[RESULTS_BOX];
        results->has[SCORE_SEGM] = item->has[RESULTS_MASK];
    }
    for (int type = 0; type < SCORE_TYPE_COUNT; type++) {
        const results_member_t member = type == SCORE_BBOX ? RESULTS_BOX : RESULTS_MASK;
        if (item->has[member] != results->has[type])
            RAISE(ERR_DATA,
                  "%s \"%s\", unlike the first result; a file has boxes, masks, or both in every result",
                  item->has[member] ? "it has" : "no", results_members[member].name);
    }
    return ERR_OK;
}

static err_t end_item(reader_t *r)
{
    results_item_t *item = &r->item;
    const truths_t *truths = r->truths;
    detection_t d = {.score = item->score};
    for (results_member_t m = RESULTS_IMAGE; m <= RESULTS_SCORE; m++)
        if (!item->has[m]) RAISE(ERR_DATA, "no \"%s\"", results_members[m].name);
    TRY(check_types(r));
    d.image = truths_image(truths, item->image_id);
    d.category = truths_category(truths, item->category_id);
    if (d.image < 0)
        RAISE(ERR_DATA, "image %" PRId64 " is not one of the %" PRId64 " images of the ground truth",
              item->image_id, truths->n_images);
    if (d.category < 0)
        RAISE(ERR_DATA, "category %" PRId64 " is not one of the %d categories of the ground truth",
              item->category_id, truths->n_categories);
    memcpy(d.box, item->box, sizeof d.box);
    if (item->has[RESULTS_MASK]) TRY(results_item_end_mask(item, &truths->images[d.image], &d.mask));
    return results_add(r->results, &d);
}

static int on_close(void *context)
{
    reader_t *r = context;
    place_t place = current_place(r);
    err_t err = place == PLACE_BOX    ? results_item_end_box(&r->item)
                : place == PLACE_ITEM ? end_item(r)
                                      : ERR_OK;
    if (err == ERR_OK) r->depth--;
    return finish_event(r, err);
}

static const json_events_t events = {on_null, on_bool,   on_number, on_string,
                                     on_key,  on_object, on_array,  on_close};

/* Prefixes the message with the byte and the result. */
static err_t add_position(const reader_t *r, err_t err)
{
    int64_t byte = r->n_read + (int64_t)json_parser_at(r->json);
    if (r->depth < 2) return err_context(err, "byte %" PRId64, byte);
    char known[40] = "";
    if (r->item.has[RESULTS_IMAGE] && r->member != RESULTS_IMAGE)
        snprintf(known, sizeof known, " (image %" PRId64 ")", r->item.image_id);
    return err_context(err, "byte %" PRId64 ", result %" PRId64 "%s", byte, r->results->n, known);
}

static err_t feed_reader(void *context, const void *bytes, size_t n_bytes)
{
    reader_t *r = context;
    int64_t n_before = r->n_events;
    if (r->watch) TRY(r->watch->alive(r->watch->context));
    err_t err = json_parser_feed(r->json, bytes, n_bytes);
    if (r->status != ERR_OK) return add_position(r, r->status);
    if (err != ERR_OK) return add_position(r, err);
    /* The parser buffers a value until its end. */
    if (r->n_events == n_before && n_bytes >= COCO_MAX_VALUE)
        return add_position(
            r, err_raise(ERR_DATA, __FILE__, __LINE__, "a value takes more than %d bytes", COCO_MAX_VALUE));
    r->n_read += (int64_t)n_bytes;
    return ERR_OK;
}

static err_t end_reader(reader_t *r)
{
    err_t err = json_parser_end(r->json);
    if (r->status != ERR_OK) return r->status;
    if (err != ERR_OK)
        RAISE(ERR_DATA, "truncated: its JSON is incomplete after %" PRId64 " bytes; write the file again",
              r->n_read);
    if (r->results->n == 0)
        RAISE(ERR_DATA, "it holds no results, so that it does not say whether boxes or masks were meant");
    return ERR_OK;
}

err_t results_read(const char *path, const truths_t *truths, const open_watch_t *watch, results_t **out)
{
    reader_t r = {.truths = truths, .member = RESULTS_N_MEMBERS, .watch = watch};
    const coco_stream_t stream = {.context = &r, .feed = feed_reader};
    err_t err;
    TRY_OUT(err, results_new(false, false, &r.results));
    TRY_OUT(err, json_parser_new(&events, &r, &r.json));
    TRY_OUT(err, coco_stream(path, &stream));
    TRY_OUT(err, end_reader(&r));
    *out = r.results;
    r.results = NULL;
out:
    if (err != ERR_OK) err_context(err, "%s", path);
    json_parser_free(&r.json);
    rle_free(&r.item.runs);
    mem_free(&r.item.text);
    results_free(&r.results);
    return err;
}
