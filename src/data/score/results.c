/* SPDX-License-Identifier: MIT */
/* Results in memory, writing them, and reading them: a state machine over the parser's events, as data/coco/parse.c is for
 * annotations. */
#include "data/score/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/coco/coco.h"
#include "text/json.h"

const char *const score_type_names[SCORE_TYPE_COUNT] = {"bbox", "segm"};

err_t results_new(bool boxes, bool masks, results_t **out)
{
    results_t *results = NULL;
    TRY(mem_new(sizeof *results, "results", &results));
    results->has[SCORE_BBOX] = boxes;
    results->has[SCORE_SEGM] = masks;
    *out = results;
    return ERR_OK;
}

void results_free(results_t **results)
{
    if (!*results) return;
    mem_free(&(*results)->detections);
    arena_free(&(*results)->texts);
    mem_free(results);
}

err_t results_add(results_t *results, const detection_t *detection)
{
    const char *mask = NULL;
    TRY(mem_grow(results->n + 1, sizeof *detection, "results", &results->detections));
    if (results->has[SCORE_SEGM])
        TRY(arena_text(&results->texts, detection->mask, strlen(detection->mask), &mask));
    results->detections[results->n] = *detection;
    results->detections[results->n++].mask = mask;
    return ERR_OK;
}

err_t results_write(const results_t *results, const truths_t *truths, score_type_t type, const char *path)
{
    json_t j = {0};
    ASSERT(results->has[type]);
    json_array_begin(&j, NULL);
    for (int64_t i = 0; i < results->n && j.status == ERR_OK; i++) {
        const detection_t *d = &results->detections[i];
        const truth_image_t *image = &truths->images[d->image];
        json_object_begin(&j, NULL);
        json_int(&j, "image_id", image->id);
        json_int(&j, "category_id", truths->categories[d->category].id);
        if (type == SCORE_BBOX) {
            json_array_begin(&j, "bbox");
            for (int k = 0; k < 4; k++) json_real(&j, NULL, d->box[k]);
            json_array_end(&j);
        } else {
            json_object_begin(&j, "segmentation");
            json_array_begin(&j, "size");
            json_int(&j, NULL, image->height);
            json_int(&j, NULL, image->width);
            json_array_end(&j);
            json_string(&j, "counts", d->mask);
            json_object_end(&j);
        }
        json_real(&j, "score", d->score);
        json_object_end(&j);
    }
    json_array_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}

typedef enum results_member {
    RESULTS_IMAGE,
    RESULTS_CATEGORY,
    RESULTS_SCORE,
    RESULTS_BOX,
    RESULTS_MASK,
    RESULTS_N_MEMBERS
} results_member_t;

static const struct {
    const char *name, *want;
    const char *likes[4]; /* what other programs call it */
} members[RESULTS_N_MEMBERS] = {
    {"image_id", "an integer", {"image", "imageId"}},
    {"category_id", "an integer", {"category", "class", "class_id", "label"}},
    {"score", "a number", {"scores", "confidence", "conf", "probability"}},
    {"bbox", "a list of 4 numbers", {"box", "boxes", "bboxes"}},
    {"segmentation", "an object with counts and size (compressed RLE)", {"mask", "masks", "rle"}}};

/* A detection being read; its memory is reused. */
typedef struct results_item {
    bool has[RESULTS_N_MEMBERS], has_counts;
    int64_t image_id, category_id, size[2];
    double score, box[4];
    int n_box, n_size;
    bool is_text;                        /* numbers come as strings */
    rle_t runs;                          /* counts, as numbers or from `text` */
    char *text;                          /* counts as text */
    size_t n_text;                       /* 0: none */
    const char *like[RESULTS_N_MEMBERS]; /* the name that it has instead; NULL: none */
} results_item_t;

/* A number, or a string that holds one, as item->is_text says. */
static err_t item_int(results_item_t *item, const char *text, size_t n_text, int64_t *out)
{
    return item->is_text ? json_text_int(text, n_text, out) : json_parse_int(text, n_text, out);
}

static err_t item_real(results_item_t *item, const char *text, size_t n_text, double *out)
{
    return item->is_text ? json_text_real(text, n_text, out) : json_parse_real(text, n_text, out);
}

/* Appends a number to the box. */
static err_t item_box(results_item_t *item, const char *text, size_t n_text)
{
    if (item->n_box == 4) RAISE(ERR_DATA, "more than 4 numbers");
    TRY(item_real(item, text, n_text, &item->box[item->n_box++]));
    if (item->n_box > 2 && item->box[item->n_box - 1] < 0)
        RAISE(ERR_DATA, "a negative %s, %.*s", item->n_box == 3 ? "width" : "height", (int)n_text, text);
    return ERR_OK;
}

static err_t item_run(results_item_t *item, const char *text, size_t n_text)
{
    int64_t run = 0;
    TRY(item_int(item, text, n_text, &run));
    if (run < 0 || run > COCO_MAX_PIXELS) RAISE(ERR_DATA, "\"counts\" has a run of %" PRId64 " pixels", run);
    if (item->runs.n == COCO_MAX_RUNS) RAISE(ERR_DATA, "\"counts\" has more than %d runs", COCO_MAX_RUNS);
    TRY(mem_grow(item->runs.n + 1, sizeof *item->runs.runs, "runs of a mask", &item->runs.runs));
    item->runs.runs[item->runs.n++] = (uint32_t)run;
    return ERR_OK;
}

/* "counts" as a string: compressed RLE. */
static err_t item_text(results_item_t *item, const unsigned char *text, size_t n_text)
{
    if (n_text > COCO_MAX_RUNS)
        RAISE(ERR_DATA, "\"counts\" has %zu bytes; expected at most %d", n_text, COCO_MAX_RUNS);
    item->has_counts = n_text > 0;
    if (n_text == 0) return ERR_OK;
    TRY(mem_grow((int64_t)n_text + 1, 1, "text of a mask", &item->text));
    TRY(mem_grow((int64_t)n_text, sizeof *item->runs.runs, "runs of a mask", &item->runs.runs));
    memcpy(item->text, text, n_text);
    item->text[n_text] = '\0';
    item->n_text = n_text;
    return rle_parse(item->text, n_text, item->runs.runs, &item->runs.n);
}

/* Checks the mask once its image is known; *out is its compressed RLE, the item's. */
static err_t item_end_mask(results_item_t *item, const truth_image_t *image, const char **out)
{
    if (!item->has_counts || item->n_size < 2)
        RAISE(ERR_DATA, "\"segmentation\" has no %s",
              item->has_counts ? "\"size\" of 2 numbers" : "\"counts\"");
    if (item->size[0] != image->height || item->size[1] != image->width)
        RAISE(ERR_DATA,
              "its mask has %" PRId64 " × %" PRId64 " pixels (width × height), but the image has %d × %d",
              item->size[1], item->size[0], image->width, image->height);
    TRY(rle_check(&item->runs, image->width, image->height));
    if (item->n_text == 0) { /* from numbers */
        TRY(mem_grow(RLE_TEXT_PER_RUN * (int64_t)item->runs.n + 1, 1, "text of a mask", &item->text));
        rle_format(&item->runs, item->text);
    }
    *out = item->text;
    return ERR_OK;
}

/* The innermost enclosing object or array. */
typedef enum place {
    PLACE_OUTSIDE,
    PLACE_FILE, /* an object around the list */
    PLACE_LIST,
    PLACE_ITEM,
    PLACE_BOX,
    PLACE_MASK,
    PLACE_SIZE,
    PLACE_COUNTS,
    PLACE_EMPTY, /* a box or a mask that must hold nothing */
    PLACE_SKIPPED,
} place_t;

/* What programs call the list in an object around it. */
static const char *const list_names[] = {"annotations", "detections", "predictions", "results"};
enum { N_LISTS = sizeof list_names / sizeof *list_names };

/* Categories that the ground truth lacks. */
typedef struct strangers {
    int64_t *ids; /* sorted */
    int n;
    int64_t n_results;
    int64_t image_id, category_id, byte, result; /* of the first */
} strangers_t;
enum { MOST_STRANGERS = 4096 }; /* ids that are kept */

typedef struct reader {
    json_parser_t *json;
    const truths_t *truths;
    score_type_t want;
    results_t *results;
    strangers_t strangers;
    place_t places[RESULTS_MAX_DEPTH];
    int depth;
    bool is_object;          /* the file, not a list */
    int list;                /* the file's current member; N_LISTS: skipped */
    results_member_t member; /* of the item; RESULTS_N_MEMBERS: skipped */
    place_t part;            /* of the mask: PLACE_SIZE, PLACE_COUNTS, PLACE_SKIPPED */
    results_item_t item;
    int64_t n_read, n_events, n_items;
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
    case PLACE_FILE:
        if (r->list == N_LISTS) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected a list of results", list_names[r->list], got);
    case PLACE_LIST:
        RAISE(ERR_DATA, "it is %s; expected an object", got);
    case PLACE_ITEM:
        if (r->member == RESULTS_N_MEMBERS) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", members[r->member].name, got, members[r->member].want);
    case PLACE_MASK:
        if (r->part == PLACE_SKIPPED) return ERR_OK;
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s", r->part == PLACE_SIZE ? "size" : "counts", got,
              r->part == PLACE_SIZE ? "height and width" : "compressed RLE, a string");
    case PLACE_SKIPPED:
        return ERR_OK;
    case PLACE_EMPTY:
        RAISE(ERR_DATA, "\"%s\" is %s; expected %s%s", members[r->member].name,
              r->member == RESULTS_MASK ? "a list of polygons, as in annotations, which --data takes"
                                        : "an object",
              members[r->member].want, r->member == RESULTS_MASK ? "; --score bbox leaves masks out" : "");
    default:
        RAISE(ERR_DATA, "\"%s\" holds %s; expected numbers", members[r->member].name, got);
    }
}

/* An event's return value: 0 stops the parser. */
static int finish_event(reader_t *r, err_t status)
{
    r->n_events++;
    r->status = status;
    return status == ERR_OK;
}

static bool member_may_be_empty(const reader_t *r)
{
    return current_place(r) == PLACE_ITEM && (r->member == RESULTS_BOX || r->member == RESULTS_MASK);
}

/* Boxes and masks may be null, which is as good as absent. */
static int on_null(void *context)
{
    reader_t *r = context;
    if (member_may_be_empty(r))
        r->item.has[r->member] = false;
    else if (current_place(r) == PLACE_MASK && r->part == PLACE_COUNTS)
        r->item.has_counts = false;
    else if (current_place(r) != PLACE_MASK || r->part != PLACE_SIZE)
        return finish_event(r, refuse_value(r, "null"));
    return finish_event(r, ERR_OK);
}

static int on_bool(void *context, int truth)
{
    return finish_event(context, refuse_value(context, truth ? "true" : "false"));
}

static err_t handle_number(reader_t *r, const char *text, size_t n_text)
{
    results_item_t *item = &r->item;
    err_t err;
    switch (current_place(r)) {
    case PLACE_ITEM:
        if (r->member == RESULTS_IMAGE)
            err = item_int(item, text, n_text, &item->image_id);
        else if (r->member == RESULTS_CATEGORY)
            err = item_int(item, text, n_text, &item->category_id);
        else if (r->member == RESULTS_SCORE)
            err = item_real(item, text, n_text, &item->score);
        else
            return refuse_value(r, "a number");
        break;
    case PLACE_BOX:
        err = item_box(item, text, n_text);
        break;
    case PLACE_SIZE:
        err = item->n_size < 2 ? item_int(item, text, n_text, &item->size[item->n_size++])
                               : err_raise(ERR_DATA, __FILE__, __LINE__, "\"size\" has more than 2 numbers");
        break;
    case PLACE_COUNTS:
        err = item_run(item, text, n_text);
        break;
    default:
        return refuse_value(r, "a number");
    }
    return err == ERR_OK ? ERR_OK : err_context(err, "\"%s\"", members[r->member].name);
}

static int on_number(void *context, const char *text, size_t n_text)
{
    return finish_event(context, handle_number(context, text, n_text));
}

static bool number_is_wanted(const reader_t *r)
{
    switch (current_place(r)) {
    case PLACE_ITEM:
        return r->member == RESULTS_IMAGE || r->member == RESULTS_CATEGORY || r->member == RESULTS_SCORE;
    case PLACE_BOX:
    case PLACE_SIZE:
    case PLACE_COUNTS:
        return true;
    default:
        return false;
    }
}

static int on_string(void *context, const unsigned char *text, size_t n_text)
{
    reader_t *r = context;
    if (current_place(r) == PLACE_MASK && r->part == PLACE_COUNTS)
        return finish_event(r, item_text(&r->item, text, n_text));
    if (n_text == 0 && member_may_be_empty(r)) {
        r->item.has[r->member] = false;
        return finish_event(r, ERR_OK);
    }
    if (!number_is_wanted(r)) return finish_event(r, refuse_value(r, "a string"));
    r->item.is_text = r->results->has_texts = true;
    err_t err = handle_number(r, (const char *)text, n_text);
    r->item.is_text = false;
    return finish_event(r, err);
}

static bool is_name(const char *name, const unsigned char *text, size_t n_text)
{
    return strlen(name) == n_text && memcmp(name, text, n_text) == 0;
}

/* A key at the top of a file that is an object: of the list inside it, or a sign that the file is something else. */
static err_t handle_list(reader_t *r, const unsigned char *text, size_t n_text)
{
    if (is_name("record", text, n_text))
        RAISE(ERR_DATA, "it is a record of dptrain; the detections of `dptrain eval RUN --write-results DIR` "
                        "can be scored");
    for (results_member_t m = 0; m < RESULTS_N_MEMBERS; m++)
        if (is_name(members[m].name, text, n_text))
            RAISE(ERR_DATA, "it is one result, not a list; if the file has one per line, "
                            "`jq -s . FILE` makes a list of them");
    for (r->list = 0; r->list < N_LISTS; r->list++)
        if (is_name(list_names[r->list], text, n_text)) break;
    if (r->list < N_LISTS && r->results->list)
        RAISE(ERR_DATA, "it has \"%s\" and \"%s\"; give a file with one list of results", r->results->list,
              list_names[r->list]);
    return ERR_OK;
}

static err_t handle_member(reader_t *r, const unsigned char *text, size_t n_text)
{
    for (r->member = 0; r->member < RESULTS_N_MEMBERS; r->member++)
        if (is_name(members[r->member].name, text, n_text)) break;
    if (r->member == RESULTS_MASK && r->want == SCORE_BBOX) r->member = RESULTS_N_MEMBERS;
    if (r->member == RESULTS_N_MEMBERS) {
        /* Keeps a name of other programs for the message. */
        for (results_member_t m = 0; m < RESULTS_N_MEMBERS; m++)
            for (size_t i = 0; i < sizeof members->likes / sizeof *members->likes; i++)
                if (members[m].likes[i] && is_name(members[m].likes[i], text, n_text))
                    r->item.like[m] = members[m].likes[i];
        return ERR_OK;
    }
    if (r->item.has[r->member]) RAISE(ERR_DATA, "duplicate \"%s\"", members[r->member].name);
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
    if (current_place(r) == PLACE_FILE) return finish_event(r, handle_list(r, text, n_text));
    if (current_place(r) == PLACE_ITEM) return finish_event(r, handle_member(r, text, n_text));
    if (current_place(r) == PLACE_MASK) return finish_event(r, handle_part(r, text, n_text));
    if (current_place(r) == PLACE_EMPTY) return finish_event(r, refuse_value(r, "an object"));
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
    place_t place = current_place(r);
    if (place == PLACE_OUTSIDE) {
        r->is_object = true;
        return finish_event(r, enter_place(r, PLACE_FILE));
    }
    if (place == PLACE_LIST) {
        r->n_items++;
        r->item = (results_item_t){.runs.runs = r->item.runs.runs, .text = r->item.text};
        r->member = RESULTS_N_MEMBERS;
        return finish_event(r, enter_place(r, PLACE_ITEM));
    }
    if (place == PLACE_ITEM && r->member == RESULTS_MASK) return finish_event(r, enter_place(r, PLACE_MASK));
    if (place == PLACE_EMPTY || member_may_be_empty(r)) return finish_event(r, enter_place(r, PLACE_EMPTY));
    err_t err = refuse_value(r, "an object");
    return finish_event(r, err == ERR_OK ? enter_place(r, PLACE_SKIPPED) : err);
}

static int on_array(void *context)
{
    reader_t *r = context;
    place_t place = current_place(r);
    if (place == PLACE_OUTSIDE) return finish_event(r, enter_place(r, PLACE_LIST));
    if (place == PLACE_FILE && r->list < N_LISTS) {
        r->results->list = list_names[r->list];
        return finish_event(r, enter_place(r, PLACE_LIST));
    }
    if (place == PLACE_ITEM && r->member == RESULTS_BOX) return finish_event(r, enter_place(r, PLACE_BOX));
    if (place == PLACE_MASK && r->part != PLACE_SKIPPED) return finish_event(r, enter_place(r, r->part));
    if (place == PLACE_EMPTY || member_may_be_empty(r)) return finish_event(r, enter_place(r, PLACE_EMPTY));
    err_t err = refuse_value(r, "a list");
    return finish_event(r, err == ERR_OK ? enter_place(r, PLACE_SKIPPED) : err);
}

static const results_member_t type_members[SCORE_TYPE_COUNT] = {RESULTS_BOX, RESULTS_MASK};

/* Names what it has in its place. */
static err_t refuse_without(const reader_t *r, results_member_t member, const char *why)
{
    const char *like = r->item.like[member];
    if (like) RAISE(ERR_DATA, "no \"%s\", but \"%s\"; rename it", members[member].name, like);
    RAISE(ERR_DATA, "no \"%s\"%s", members[member].name, why);
}

/* Every detection must have what the first one has. */
static err_t check_types(reader_t *r)
{
    results_item_t *item = &r->item;
    results_t *results = r->results;
    if (r->want != SCORE_TYPE_COUNT && !item->has[type_members[r->want]])
        return refuse_without(r, type_members[r->want],
                              r->want == SCORE_BBOX ? "; --score bbox scores boxes"
                                                    : "; --score segm scores masks");
    if (!item->has[RESULTS_BOX] && !item->has[RESULTS_MASK])
        return refuse_without(r, item->like[RESULTS_MASK] ? RESULTS_MASK : RESULTS_BOX,
                              " and no \"segmentation\"");
    if (results->n == 0) {
        results->has[SCORE_BBOX] = results->box_areas = item->has[RESULTS_BOX];
        results->has[SCORE_SEGM] = item->has[RESULTS_MASK];
    }
    for (int type = 0; type < SCORE_TYPE_COUNT; type++) {
        const results_member_t member = type_members[type];
        if (item->has[member] != results->has[type])
            RAISE(ERR_DATA,
                  "%s \"%s\", unlike the first result; a file has boxes, masks, or both in every result%s",
                  item->has[member] ? "it has" : "no", members[member].name,
                  item->has[RESULTS_BOX] && results->has[SCORE_BBOX] ? "; --score bbox leaves masks out"
                                                                     : "");
    }
    return ERR_OK;
}

static int64_t byte_at(const reader_t *r)
{
    return r->n_read + (int64_t)json_parser_at(r->json);
}

/* The file is read to its end, for the ids may say how it numbers categories. */
static err_t note_stranger(reader_t *r)
{
    strangers_t *s = &r->strangers;
    const int64_t id = r->item.category_id;
    if (s->n_results++ == 0) {
        s->image_id = r->item.image_id;
        s->category_id = id;
        s->byte = byte_at(r);
        s->result = r->n_items - 1;
    }
    int at = s->n;
    while (at > 0 && s->ids[at - 1] > id) at--;
    if ((at > 0 && s->ids[at - 1] == id) || s->n == MOST_STRANGERS) return ERR_OK;
    TRY(mem_grow(s->n + 1, sizeof *s->ids, "ids of categories", &s->ids));
    memmove(&s->ids[at + 1], &s->ids[at], (size_t)(s->n - at) * sizeof *s->ids);
    s->ids[at] = id;
    s->n++;
    return ERR_OK;
}

/* Whether all ids of the file are in first..first + n - 1. */
static bool ids_are_within(const reader_t *r, int64_t first, int64_t n)
{
    const strangers_t *s = &r->strangers;
    if (s->ids[0] < first || s->ids[s->n - 1] >= first + n) return false;
    for (int64_t i = 0; i < r->results->n; i++) {
        const int64_t id = r->truths->categories[r->results->detections[i].category].id;
        if (id < first || id >= first + n) return false;
    }
    return true;
}

static bool id_fits_moved(const reader_t *r, int64_t id, int64_t step)
{
    return truths_category(r->truths, (int64_t)((uint64_t)id + (uint64_t)step)) >= 0;
}

/* Whether all ids of the file, moved by `step`, are the ground truth's. */
static bool ids_fit_moved(const reader_t *r, int64_t step)
{
    const strangers_t *s = &r->strangers;
    for (int i = 0; i < s->n; i++)
        if (!id_fits_moved(r, s->ids[i], step)) return false;
    for (int64_t i = 0; i < r->results->n; i++)
        if (!id_fits_moved(r, r->truths->categories[r->results->detections[i].category].id, step))
            return false;
    return true;
}

static err_t refuse_strangers(const reader_t *r)
{
    const strangers_t *s = &r->strangers;
    const truths_t *truths = r->truths;
    const category_t *first = truths->categories, *last = first + truths->n_categories - 1;
    const bool from_0 = ids_are_within(r, 0, truths->n_categories) || ids_fit_moved(r, 1),
               from_1 = ids_are_within(r, 1, truths->n_categories), one_more = ids_fit_moved(r, -1);
    char why[256];
    if (truths->n_categories == 0)
        snprintf(why, sizeof why, "which has none");
    else if (from_0 + (from_1 || one_more) == 1)
        snprintf(why, sizeof why,
                 "whose ids are %" PRId64 " to %" PRId64
                 "; the results seem to %s: write the ids of the ground truth, %" PRId64
                 " for the first (%.64s)",
                 first->id, last->id,
                 from_0   ? "count categories from 0"
                 : from_1 ? "count categories from 1"
                          : "have ids that are one more",
                 first->id, first->name);
    else
        snprintf(why, sizeof why,
                 "whose ids are %" PRId64 " to %" PRId64
                 "; leave out the results of such categories (%" PRId64 " of %" PRId64
                 ", which pycocotools skips), or write the ids of the ground truth",
                 first->id, last->id, s->n_results, r->n_items);
    RAISE(ERR_DATA,
          "byte %" PRId64 ", result %" PRId64 " (image %" PRId64 "): category %" PRId64
          " is not one of the %d categories of the ground truth, %s",
          s->byte, s->result, s->image_id, s->category_id, truths->n_categories, why);
}

static err_t end_item(reader_t *r)
{
    results_item_t *item = &r->item;
    const truths_t *truths = r->truths;
    detection_t d = {.score = item->score};
    for (results_member_t m = RESULTS_IMAGE; m <= RESULTS_SCORE; m++)
        if (!item->has[m])
            return refuse_without(r, m,
                                  m == RESULTS_SCORE ? "; without scores it is a list of annotations, which "
                                                       "--data takes, and --results takes detections"
                                                     : "");
    TRY(check_types(r));
    d.image = truths_image(truths, item->image_id);
    d.category = truths_category(truths, item->category_id);
    if (d.image < 0)
        RAISE(ERR_DATA, "image %" PRId64 " is not one of the %" PRId64 " images of the ground truth",
              item->image_id, truths->n_images);
    if (d.category < 0) return note_stranger(r);
    memcpy(d.box, item->box, sizeof d.box);
    if (item->has[RESULTS_MASK]) TRY(item_end_mask(item, &truths->images[d.image], &d.mask));
    return results_add(r->results, &d);
}

static int on_close(void *context)
{
    reader_t *r = context;
    place_t place = current_place(r);
    const int n_box = r->item.n_box;
    err_t err = place == PLACE_ITEM ? end_item(r) : ERR_OK;
    if (place == PLACE_BOX) r->item.has[RESULTS_BOX] = n_box > 0; /* an empty one counts as absent */
    if (place == PLACE_BOX && n_box != 0 && n_box != 4)
        err = err_raise(ERR_DATA, __FILE__, __LINE__,
                        "\"bbox\" has %d numbers; expected 4: x, y, width, height", n_box);
    const bool no_mask = r->item.n_size == 0 && r->item.n_text == 0 && r->item.runs.n == 0;
    if (place == PLACE_EMPTY || (place == PLACE_MASK && no_mask)) r->item.has[r->member] = false;
    if (err == ERR_OK) r->depth--;
    return finish_event(r, err);
}

static const json_events_t events = {on_null, on_bool,   on_number, on_string,
                                     on_key,  on_object, on_array,  on_close};

/* Prefixes the message with the byte and the result. */
static err_t add_position(const reader_t *r, err_t err)
{
    const int64_t byte = byte_at(r);
    if (r->depth < (r->results->list ? 3 : 2)) return err_context(err, "byte %" PRId64, byte);
    char known[40] = "";
    if (r->item.has[RESULTS_IMAGE] && r->member != RESULTS_IMAGE)
        snprintf(known, sizeof known, " (image %" PRId64 ")", r->item.image_id);
    return err_context(err, "byte %" PRId64 ", result %" PRId64 "%s", byte, r->n_items - 1, known);
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

err_t results_read(const char *path, const truths_t *truths, score_type_t want, const open_watch_t *watch,
                   results_t **out)
{
    reader_t r = {
        .truths = truths, .want = want, .list = N_LISTS, .member = RESULTS_N_MEMBERS, .watch = watch};
    const coco_stream_t stream = {.context = &r, .feed = feed_reader};
    err_t err;
    TRY_OUT(err, results_new(false, false, &r.results));
    TRY_OUT(err, json_parser_new(&events, &r, &r.json));
    TRY_OUT(err, coco_stream(path, &stream));
    err = json_parser_end(r.json);
    if (r.status != ERR_OK) TRY_OUT(err, r.status);
    if (err != ERR_OK)
        RAISE_OUT(err, ERR_DATA,
                  "truncated: its JSON is incomplete after %" PRId64 " bytes; write the file again",
                  r.n_read);
    results_t *results = r.results;
    if (r.is_object && !results->list)
        RAISE_OUT(err, ERR_DATA,
                  "it is an object; expected a list of results, as COCO's results format has it");
    if (r.strangers.n_results > 0) TRY_OUT(err, refuse_strangers(&r));
    if (want != SCORE_TYPE_COUNT && results->n > 0) {
        results->has[SCORE_BBOX] = want == SCORE_BBOX;
        results->has[SCORE_SEGM] = want == SCORE_SEGM;
    }
    *out = results;
    r.results = NULL;
out:
    if (err != ERR_OK) err_context(err, "%s", path);
    json_parser_free(&r.json);
    rle_free(&r.item.runs);
    mem_free(&r.item.text);
    mem_free(&r.strangers.ids);
    results_free(&r.results);
    return err;
}
