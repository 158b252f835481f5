/* SPDX-License-Identifier: MIT */
/* Opens data and weights on all ranks and runs the detector on each rank's images. Presenting the outcome is left to
 * show_detector.c. */
#include "train/inference/evaluate_detector.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cluster/comm/from_rank0.h"
#include "cluster/comm/watchdog.h"
#include "data/source/share.h"
#include "train/detect/deal.h"
#include "train/inference/show_detector.h"
#include "train/output/disk_wait.h"

const char *const evaluate_detector_scores[] = {"auto", "bbox", "segm", NULL};

enum {
    ROUND = 4,    /* images of each rank between exchanges */
    LINE_SEC = 5, /* between lines of progress */
};

typedef struct detector_run {
    const evaluate_detector_options_t *options;
    comm_t *comm;
    const backend_t *backend;
    source_t *source;
    truths_t *truths; /* rank 0 */
    class_map_t map;
    trained_model_t model;
    canvases_t canvases;
    bool masks;
    detector_t *detector;
    int64_t *mine, n_mine, n_most; /* images of this rank; the most of any rank */
    image_decoder_t *decoder;
    source_buffer_t buffer;
    gather_t gather;
    int64_t n_done; /* of this rank */
    double start_sec, told_sec;
} detector_run_t;

/* Rank 0. */
static err_t find_data(void *context, comm_alive_t alive, void *alive_context)
{
    detector_run_t *run = context;
    const evaluate_detector_options_t *o = run->options;
    const open_watch_t watch = {alive, alive_context};
    if (o->json) TRY(fs_check_target(o->json));
    if (o->png) TRY(fs_check_target(o->png));
    if (o->results) {
        TRY(fs_make_folder(o->results));
        TRY(fs_check_writable(o->results));
    }
    TRY(truths_read(o->data, o->split, &watch, &run->truths));
    return source_open_watched(o->data, &watch, &run->source);
}

static err_t save_data(void *context, void **bytes, int64_t *n_bytes)
{
    return source_save(((detector_run_t *)context)->source, bytes, n_bytes);
}

static err_t restore_data(void *context, void **bytes, int64_t n_bytes)
{
    return source_restore(bytes, n_bytes, &((detector_run_t *)context)->source);
}

static err_t import_weights(detector_run_t *run, const char *path)
{
    err_t err = ERR_OK;
    if (run->comm->rank == 0) {
        disk_work_begin("reading", path);
        err = detector_import(path, &run->options->weights, run->source->path, run->map.n_classes,
                              run->backend, &run->model);
        disk_wait_end();
    }
    TRY(comm_agree(run->comm, err, "reading the weights"));
    return trained_share(run->comm, run->backend, &run->model);
}

/* Rank 0. Rather now than after the last image. */
static err_t check_truth_masks(const truths_t *truths)
{
    for (int64_t i = 0; i < truths->n_images; i++)
        for (int32_t k = 0; k < truths->images[i].n_annotations; k++)
            if (truths->images[i].annotations[k].segmentation == SEGMENTATION_NONE)
                RAISE(ERR_DATA,
                      "annotation %" PRId64 " (image %" PRId64
                      ") has no segmentation, so that masks cannot be "
                      "scored; use --score bbox",
                      truths->images[i].annotations[k].id, truths->images[i].id);
    return ERR_OK;
}

static err_t choose_masks(detector_run_t *run)
{
    TRY(detector_choose_masks(run->model.graph, run->options->score, &run->masks));
    return run->masks && run->comm->rank == 0 ? check_truth_masks(run->truths) : ERR_OK;
}

static err_t open_detector_data(detector_run_t *run, const char *path)
{
    const comm_finding_t finding = {"opening data", run, find_data, save_data, restore_data};
    TRY(comm_share(run->comm, &finding));
    TRY(comm_agree(run->comm, class_map_new(run->source->categories, run->source->n_categories, &run->map),
                   "opening data"));
    TRY(import_weights(run, path));
    return comm_agree(run->comm, choose_masks(run), "reading the weights");
}

/* An error names the image. */
static err_t place_image(detector_run_t *run, int64_t i, canvas_place_t *out)
{
    const split_t split = run->options->split;
    const source_entry_t *entry = &run->source->entries[split][i];
    const map_size_t size = {entry->height, entry->width};
    sample_t sample;
    err_t err = canvas_place(&run->canvases, size, "", out);
    if (err == ERR_OK) return ERR_OK;
    TRY(source_describe(run->source, split, i, &run->buffer, &sample));
    return canvas_place(&run->canvases, size, sample.name, out);
}

/* Checks that every image has a canvas, and deals the images by its area. */
static err_t deal_images(detector_run_t *run)
{
    const source_entry_t *entries = run->source->entries[run->options->split];
    const int64_t n = run->source->n_samples[run->options->split];
    int64_t *areas = NULL;
    err_t err;
    TRY_OUT(err, canvases_new(&run->options->detector.canvas, &run->canvases));
    TRY_OUT(err, mem_new_array(n, sizeof *areas, "dealing images", &areas));
    TRY_OUT(err, mem_new_array(n, sizeof *run->mine, "dealing images", &run->mine));
    for (int64_t i = 0; i < n; i++) {
        err = canvases_add(&run->canvases, (map_size_t){entries[i].height, entries[i].width}, "");
        TRY_OUT(err, err == ERR_DATA ? ERR_OK : err); /* said below */
    }
    for (int64_t i = 0; i < n; i++) {
        canvas_place_t place;
        TRY_OUT(err, place_image(run, i, &place));
        areas[i] = place.canvas.height * place.canvas.width;
    }
    TRY_OUT(err, deal(areas, n, run->comm->rank, run->comm->size, run->mine, &run->n_mine, &run->n_most));
out:
    mem_free(&areas);
    return err;
}

/* This rank's progress stands for all. */
static void tell_progress(void *context)
{
    detector_run_t *run = context;
    const double now_sec = clock_sec();
    char text[64];
    snprintf(
        text, sizeof text, "%s",
        figure_rate((double)(run->n_done * run->comm->size) / (now_sec - run->start_sec), "images/s").text);
    progress_draw("detecting", run->n_done, run->n_mine, run->n_done > 0 ? text : "");
    if (!progress_wants_lines() || now_sec - run->told_sec < LINE_SEC) return;
    log_note("detecting: %s of %s images%s%s%s", figure_count(run->n_done).text,
             figure_count(run->n_mine).text, run->comm->size > 1 ? " of rank 0" : "",
             run->n_done > 0 ? ", " : "", run->n_done > 0 ? text : "");
    run->told_sec = now_sec;
}

static err_t start_detector(detector_run_t *run)
{
    TRY(deal_images(run));
    detector_options_t options = {.canvases = &run->canvases,
                                  .detections = run->options->detector.detections,
                                  .masks = run->masks,
                                  .tick = tell_progress,
                                  .context = run};
    run->gather = (gather_t){.comm = run->comm, .map = &run->map, .masks = run->masks};
    TRY(image_decoder_new((image_limits_t){0}, &run->decoder));
    return detector_start(run->backend, &run->model, &options, &run->detector);
}

static err_t detect_image(detector_run_t *run, int64_t index)
{
    detector_result_t result;
    sample_t sample;
    image_info_t info;
    image_t image;
    TRY(source_read(run->source, run->options->split, index, &run->buffer, &sample));
    const image_bytes_t bytes = {sample.name, sample.bytes, sample.n_bytes};
    TRY(image_info(bytes, &info));
    TRY(image_decode(run->decoder, bytes, &image));
    TRY(detector_run(run->detector, sample.name, &info, &image, true, &result));
    TRY(gather_add(&run->gather, index, sample.id, &result));
    run->n_done++;
    tell_progress(run);
    return ERR_OK;
}

static err_t detect_round(detector_run_t *run, int64_t first)
{
    for (int64_t i = first; i < first + ROUND && i < run->n_mine; i++) TRY(detect_image(run, run->mine[i]));
    return ERR_OK;
}

/* Ranks meet now and then, so that none waits long for the others and an error ends the evaluation soon. */
static err_t detect_all(detector_run_t *run)
{
    static const char what[] = "detecting";
    watchdog_phase("detecting");
    run->start_sec = run->told_sec = clock_sec();
    for (int64_t first = 0; first < run->n_most; first += ROUND) {
        const err_t err = detect_round(run, first);
        TRY(comm_barrier_asleep(run->comm, what));
        TRY(comm_agree(run->comm, err, what));
        TRY(comm_agree(run->comm, gather_exchange(&run->gather), what));
    }
    return ERR_OK;
}

static show_detector_t shown(detector_run_t *run)
{
    return (show_detector_t){.options = run->options,
                             .model = &run->model,
                             .source = run->source,
                             .truths = run->truths,
                             .map = &run->map,
                             .canvases = &run->canvases,
                             .gather = &run->gather,
                             .masks = run->masks};
}

static void free_run(detector_run_t *run)
{
    gather_free(&run->gather);
    if (run->source) source_free_buffer(run->source, &run->buffer);
    image_decoder_free(&run->decoder);
    detector_free(&run->detector);
    trained_free(&run->model);
    class_map_free(&run->map);
    mem_free(&run->mine);
    source_close(&run->source);
    truths_free(&run->truths);
}

err_t evaluate_detector(runtime_t *runtime, const char *path, const evaluate_detector_options_t *options)
{
    detector_run_t run = {.options = options, .comm = runtime->comm, .backend = runtime->backend};
    err_t err;
    TRY_OUT(err, open_detector_data(&run, path));
    TRY_OUT(err, comm_agree(run.comm, start_detector(&run), "planning the model"));
    const bool shows = run.comm->rank == 0;
    const show_detector_t show = shown(&run);
    if (shows) show_detector_header(&show);
    TRY_OUT(err, detect_all(&run));
    TRY_OUT(err, comm_agree(run.comm, shows ? show_detector(&show) : ERR_OK, "scoring detections"));
out:
    free_run(&run);
    return err;
}
