/* SPDX-License-Identifier: MIT */
/* Chooses and deals images, runs the detector on this rank's, scores on rank 0. Finding objects in an image is left
 * to detector.c, the numbers to data/score. */
#include "train/detect/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/watch/watchdog.h"
#include "data/load/samples.h"
#include "text/figure.h"
#include "text/progress.h"
#include "train/feed/data.h"
#include "train/task/task.h"

/* What all ranks detect, collected on rank 0. The outcome does not depend on the number of ranks or the order of
 * images. */
typedef struct gather {
    comm_t *comm;
    const class_map_t *map;
    bool masks;
    /* This rank's since the last exchange. */
    char *bytes;
    int64_t n_bytes;
    /* Rank 0: of all ranks, in order of arrival. */
    gather_image_t *images;
    int64_t n_images;
    detection_t *detections;
    int64_t n_detections;
    arena_t masks_text;
} gather_t;

/* As bytes: an image's head, then its detections, each followed by the text of its mask. */
typedef struct head {
    int64_t index, id, n;
} head_t;

typedef struct item {
    double score, box[4];
    int32_t category;
    int32_t n_text; /* bytes that follow */
} item_t;

static err_t append(gather_t *g, const void *from, size_t n)
{
    TRY(mem_grow(g->n_bytes + (int64_t)n, 1, "detections", &g->bytes));
    memcpy(g->bytes + g->n_bytes, from, n);
    g->n_bytes += (int64_t)n;
    return ERR_OK;
}

/* Adds an image of this rank. Detections of outputs that are no category are left out. */
static err_t gather_add(gather_t *g, int64_t index, int64_t id, const detector_result_t *result)
{
    head_t head = {index, id, 0};
    for (int64_t i = 0; i < result->n; i++) head.n += g->map->category[result->objects[i].class] >= 0;
    TRY(append(g, &head, sizeof head));
    for (int64_t i = 0; i < result->n; i++) {
        const detector_object_t *object = &result->objects[i];
        item_t item = {.score = object->score, .category = g->map->category[object->class]};
        const int64_t at = g->n_bytes;
        if (item.category < 0) continue;
        memcpy(item.box, object->box, sizeof item.box);
        TRY(append(g, &item, sizeof item));
        if (!g->masks) continue;
        TRY(mem_grow(g->n_bytes + RLE_TEXT_PER_RUN * (int64_t)object->mask.n + 1, 1, "detections",
                     &g->bytes));
        item.n_text = (int32_t)rle_format(&object->mask, g->bytes + g->n_bytes);
        g->n_bytes += item.n_text;
        memcpy(g->bytes + at, &item, sizeof item);
    }
    return ERR_OK;
}

static void take(const char **at, void *to, size_t n)
{
    memcpy(to, *at, n);
    *at += n;
}

static err_t keep_image(gather_t *g, const char **at)
{
    head_t head;
    take(at, &head, sizeof head);
    TRY(mem_grow(g->n_images + 1, sizeof *g->images, "images", &g->images));
    TRY(mem_grow(g->n_detections + head.n, sizeof *g->detections, "detections", &g->detections));
    g->images[g->n_images++] = (gather_image_t){head.index, head.id, g->n_detections, head.n};
    for (int64_t i = 0; i < head.n; i++) {
        detection_t *d = &g->detections[g->n_detections++];
        item_t item;
        take(at, &item, sizeof item);
        *d = (detection_t){.category = item.category, .score = item.score};
        memcpy(d->box, item.box, sizeof d->box);
        if (g->masks) TRY(arena_text(&g->masks_text, *at, (size_t)item.n_text, &d->mask));
        *at += item.n_text;
    }
    return ERR_OK;
}

/* Collective. Sends what was added to rank 0. */
static err_t gather_exchange(gather_t *g)
{
    char *all = NULL;
    int64_t n_all;
    err_t err = task_gather(g->comm, g->bytes, g->n_bytes, "collecting detections", &all, &n_all);
    g->n_bytes = 0;
    if (g->comm->rank == 0)
        for (const char *at = all; err == ERR_OK && at < all + n_all;) err = keep_image(g, &at);
    mem_free(&all);
    return err;
}

static int by_id(const void *a, const void *b)
{
    const gather_image_t *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Rank 0. Sorts by image, in the order of the truths' images, and returns the results of all. */
static err_t gather_finish(gather_t *g, const truths_t *truths, results_t **out)
{
    results_t *results = NULL;
    err_t err;
    TRY_OUT(err, results_new(true, g->masks, &results));
    qsort(g->images, (size_t)g->n_images, sizeof *g->images, by_id);
    for (int64_t i = 0; i < g->n_images; i++) {
        const gather_image_t *image = &g->images[i];
        const int32_t row = truths_image(truths, image->id);
        if (row < 0) RAISE_OUT(err, ERR_DATA, "the image %" PRId64 " is not annotated", image->id);
        for (int64_t k = image->first; k < image->first + image->n; k++) {
            g->detections[k].image = row;
            TRY_OUT(err, results_add(results, &g->detections[k]));
        }
    }
    *out = results;
    return ERR_OK;
out:
    results_free(&results);
    return err;
}

enum {
    ROUND = 4,    /* images of each rank between exchanges */
    LINE_SEC = 5, /* between lines of progress */
};

struct detection_evaluator {
    detection_evaluator_options_t options;
    comm_t *comm;
    int64_t n_images; /* to evaluate, of all ranks */
    int64_t *mine, n_mine,
        n_most;          /* images of this rank, by their number in the split; the most of any rank */
    canvases_t canvases; /* that the images need */
    detector_t *detector;
    image_decoder_t *decoder;
    source_buffer_t buffer;
    /* Of a run. */
    gather_t gather;
    results_t *results; /* rank 0 */
    score_t *scores[SCORE_TYPE_COUNT];
    int n_scores;
    int64_t n_done; /* of this rank */
    double start_sec, told_sec;
    truths_t *truths; /* rank 0 */
};

/* The number in the split of image k of those that are evaluated. */
static int64_t image_at(const detection_evaluator_t *e, int64_t k)
{
    const int64_t n_all = e->options.source->n_samples[e->options.split];
    return k * n_all / e->n_images;
}

static map_size_t size_of(const detection_evaluator_t *e, int64_t image)
{
    const source_entry_t *entry = &e->options.source->entries[e->options.split][image];
    return (map_size_t){entry->height, entry->width};
}

/* Places an image of the list's size; if no canvas holds it, as shown. An error names the image. */
static err_t place_image(detection_evaluator_t *e, int64_t image, canvas_place_t *out)
{
    const detection_evaluator_options_t *o = &e->options;
    sample_t sample;
    map_size_t shown;
    if (canvas_place(o->canvases, size_of(e, image), "", out) == ERR_OK) return ERR_OK;
    TRY(detection_shown_size(o->source, o->split, image, &e->buffer, &sample, &shown));
    return canvas_place(o->canvases, shown, sample.name, out);
}

/* Marks the image's canvas as needed, and that of the image turned, whose orientation is not known yet. Returns the
 * area. Images that cannot be placed are reported in a run, with those that cannot be read. */
static err_t need_canvas(detection_evaluator_t *e, int64_t image, bool *needed, double *area)
{
    const detection_evaluator_options_t *o = &e->options;
    const bool forgives = o->bad && o->bad->max > 0;
    const map_size_t size = size_of(e, image);
    canvas_place_t place;
    *area = 0;
    const err_t err = place_image(e, image, &place);
    if (err == ERR_DATA && forgives) return ERR_OK;
    TRY(err);
    needed[place.index] = true;
    *area = (double)(place.canvas.height * place.canvas.width);
    if (canvas_place(o->canvases, (map_size_t){size.width, size.height}, "", &place) == ERR_OK)
        needed[place.index] = true;
    return ERR_OK;
}

static err_t deal_images(detection_evaluator_t *e)
{
    bool needed[CANVAS_MAX] = {false};
    double *areas = NULL;
    err_t err;
    TRY_OUT(err, mem_new_array(e->n_images, sizeof *areas, "dealing images", &areas));
    TRY_OUT(err, mem_new_array(e->n_images, sizeof *e->mine, "dealing images", &e->mine));
    for (int64_t k = 0; k < e->n_images; k++) TRY_OUT(err, need_canvas(e, image_at(e, k), needed, &areas[k]));
    /* Each image keeps its canvas, which was the smallest of more. */
    const canvases_t *all = e->options.canvases;
    canvases_t *kept = &e->canvases;
    *kept = *all;
    kept->exact = false;
    kept->n = 0;
    for (int i = 0; i < all->n; i++)
        if (needed[i]) kept->size[kept->n++] = all->size[i];
    if (kept->n == 0) *kept = *all;
    TRY_OUT(err,
            sampler_deal(areas, e->n_images, e->comm->rank, e->comm->size, e->mine, &e->n_mine, &e->n_most));
    for (int64_t i = 0; i < e->n_mine; i++) e->mine[i] = image_at(e, e->mine[i]);
out:
    mem_free(&areas);
    return err;
}

/* Rank 0. */
static err_t collect_truths(detection_evaluator_t *e)
{
    const detection_evaluator_options_t *o = &e->options;
    int64_t *images = NULL;
    err_t err;
    TRY_OUT(err, mem_new_array(e->n_images, sizeof *images, "ground truth", &images));
    for (int64_t k = 0; k < e->n_images; k++) images[k] = image_at(e, k);
    err = truths_of_source(o->source, o->split, images, e->n_images, NULL, &e->truths);
    if (err == ERR_DATA && o->list_advice)
        err = err_raise(err, __FILE__, __LINE__, "%s%s", err_message(), o->list_advice);
    TRY_OUT(err, err);
    truths_warn(e->truths);
    if (o->skip_unmasked) truths_skip_unmasked(e->truths);
    /* Rather now than after the last image. */
    const truth_image_t *image;
    const annotation_t *bare = o->masks ? truths_unmasked(e->truths, &image) : NULL;
    if (bare)
        RAISE_OUT(
            err, ERR_DATA,
            "annotation %" PRId64 " (image %" PRId64
            ") has no segmentation, so that masks cannot be scored; --skip-unmasked leaves such objects out%s",
            bare->id, image->id, o->advice ? o->advice : "");
out:
    mem_free(&images);
    return err;
}

/* This rank's progress stands for all. */
static void tell_progress(void *context)
{
    detection_evaluator_t *e = context;
    const double now_sec = clock_sec();
    char text[64];
    snprintf(text, sizeof text, "%s",
             figure_rate((double)(e->n_done * e->comm->size) / (now_sec - e->start_sec), "images/s").text);
    progress_draw("evaluating", e->n_done, e->n_mine, e->n_done > 0 ? text : "");
    if (!progress_wants_lines() || now_sec - e->told_sec < LINE_SEC) return;
    log_note("evaluating: %s of %s images%s%s%s", figure_count(e->n_done).text, figure_count(e->n_mine).text,
             e->comm->size > 1 ? " of rank 0" : "", e->n_done > 0 ? ", " : "", e->n_done > 0 ? text : "");
    e->told_sec = now_sec;
}

err_t detection_evaluator_open(const detection_evaluator_options_t *options, detection_evaluator_t **out)
{
    const source_t *source = options->source;
    const int64_t n_all = source->n_samples[options->split];
    detection_evaluator_t *e = NULL;
    err_t err;
    if (n_all == 0) RAISE(ERR_DATA, "%s has no %s images", source->path, split_words[options->split]);
    TRY(mem_new(sizeof *e, "an evaluator", &e));
    e->options = *options;
    e->comm = options->comm;
    e->n_images = options->limit > 0 && options->limit < n_all ? options->limit : n_all;
    if (e->comm->rank == 0) TRY_OUT(err, collect_truths(e));
    TRY_OUT(err, deal_images(e));
    const detector_options_t detector = {.graph = options->graph,
                                         .backend = options->backend,
                                         .params = options->params,
                                         .states = options->states,
                                         .exec = options->exec,
                                         .canvases = &e->canvases,
                                         .norm = options->norm,
                                         .detections = options->detections,
                                         .masks = options->masks,
                                         .tick = tell_progress,
                                         .context = e};
    TRY_OUT(err, image_decoder_new((image_limits_t){0}, &e->decoder));
    TRY_OUT(err, detector_new(&detector, &e->detector));
    *out = e;
    return ERR_OK;
out:
    detection_evaluator_close(&e);
    return err;
}

static void forget_run(detection_evaluator_t *e)
{
    mem_free(&e->gather.bytes);
    mem_free(&e->gather.images);
    mem_free(&e->gather.detections);
    arena_free(&e->gather.masks_text);
    results_free(&e->results);
    for (int i = 0; i < e->n_scores; i++) score_free(&e->scores[i]);
    e->n_scores = 0;
}

void detection_evaluator_close(detection_evaluator_t **evaluator)
{
    detection_evaluator_t *e = *evaluator;
    if (!e) return;
    forget_run(e);
    truths_free(&e->truths);
    source_free_buffer(e->options.source, &e->buffer);
    image_decoder_free(&e->decoder);
    detector_free(&e->detector);
    mem_free(&e->mine);
    mem_free(evaluator);
}

static err_t find_objects(detection_evaluator_t *e, int64_t image, detector_result_t *result)
{
    const detection_evaluator_options_t *o = &e->options;
    char name[FS_PATH_MAX + 512]; /* as the loader's */
    sample_t sample;
    image_info_t info;
    image_t pixels;
    TRY(source_read(o->source, o->split, image, &e->buffer, &sample));
    snprintf(name, sizeof name, "%s (%s, %s)", sample.name, split_words[o->split], o->source->path);
    const image_bytes_t bytes = {name, sample.bytes, sample.n_bytes};
    TRY(source_info(&sample, name, &info));
    TRY(image_decode(e->decoder, bytes, &pixels));
    return detector_run(e->detector, name, &info, &pixels, true, result);
}

static err_t detect_image(detection_evaluator_t *e, int64_t image)
{
    const detection_evaluator_options_t *o = &e->options;
    detector_result_t result = {0};
    sample_t sample;
    const err_t err = find_objects(e, image, &result);
    if (err != ERR_DATA || !o->bad)
        TRY(err);
    else
        TRY(bad_add(o->bad, o->split, image, CORRUPT_EMPTY));
    TRY(source_describe(o->source, o->split, image, &e->buffer, &sample));
    TRY(gather_add(&e->gather, image, sample.id, &result));
    e->n_done++;
    tell_progress(e);
    return ERR_OK;
}

err_t detection_evaluator_detect(detection_evaluator_t *e)
{
    static const char what[] = "evaluation";
    watchdog_phase("evaluating");
    forget_run(e);
    e->gather = (gather_t){.comm = e->comm, .map = e->options.map, .masks = e->options.masks};
    e->n_done = 0;
    e->start_sec = e->told_sec = clock_sec();
    /* Ranks meet now and then, so that none waits long for the others and an error ends the evaluation soon. */
    for (int64_t first = 0; first < e->n_most; first += ROUND) {
        err_t err = ERR_OK;
        for (int64_t i = first; err == ERR_OK && i < first + ROUND && i < e->n_mine; i++)
            err = detect_image(e, e->mine[i]);
        TRY(comm_barrier_asleep(e->comm, what));
        TRY(comm_agree(e->comm, err, what));
        TRY(comm_agree(e->comm, gather_exchange(&e->gather), what));
    }
    if (e->options.bad) TRY(corrupt_samples_share(e->comm, e->options.bad));
    const err_t err = e->comm->rank == 0 ? gather_finish(&e->gather, e->truths, &e->results) : ERR_OK;
    return comm_agree(e->comm, err, "collecting detections");
}

/* Rank 0. */
static err_t score_types(detection_evaluator_t *e, detection_numbers_t *out)
{
    const results_t *results = e->results;
    ASSERT(results && e->n_scores == 0);
    out->n_detections = results->n;
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT; type++) {
        if (!results->has[type]) continue;
        score_t **score = &e->scores[e->n_scores];
        TRY(score_results(results, e->truths, type, NULL, score));
        e->n_scores++;
        out->has[type] = true;
        for (int k = 0; k < SCORE_NUMBERS; k++) out->numbers[type][k] = (*score)->numbers[k];
    }
    return ERR_OK;
}

err_t detection_evaluator_score(detection_evaluator_t *e, detection_numbers_t *out)
{
    static const char what[] = "scoring detections";
    *out = (detection_numbers_t){.n_images = e->n_images};
    for (int type = 0; type < SCORE_TYPE_COUNT; type++)
        for (int k = 0; k < SCORE_NUMBERS; k++) out->numbers[type][k] = NAN;
    TRY(comm_agree(e->comm, e->comm->rank == 0 ? score_types(e, out) : ERR_OK, what));
    return comm_broadcast(e->comm, out, sizeof *out, 0, what);
}

err_t detection_evaluator_run(detection_evaluator_t *e, detection_numbers_t *out)
{
    err_t err = detection_evaluator_detect(e);
    if (err == ERR_OK) err = detection_evaluator_score(e, out);
    forget_run(e);
    return err;
}

detection_outcome_t detection_evaluator_outcome(const detection_evaluator_t *e)
{
    detection_outcome_t out = {
        .truths = e->truths, .results = e->results, .images = e->gather.images, .n_scores = e->n_scores};
    for (int i = 0; i < e->n_scores; i++) out.scores[i] = e->scores[i];
    return out;
}
