/* SPDX-License-Identifier: MIT */
/* `dptrain eval` of a detector: opens data and weights on all ranks; shows the outcome on rank 0, with the images that
 * have the most mistakes. Detecting and scoring are left to train/detect and data/score, drawing to data/show. */
#include "train/inference/evaluate_detector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "cluster/comm/comm.h"
#include "cluster/session/disk_wait.h"
#include "data/annotation/mask.h"
#include "data/load/images.h"
#include "data/load/samples.h"
#include "data/score/score.h"
#include "data/show/sheet.h"
#include "data/source/source.h"
#include "train/detect/evaluate.h"

const char *const evaluate_detector_scores[] = {"auto", "bbox", "segm", NULL};

typedef struct detector_run {
    const evaluate_detector_options_t *options;
    comm_t *comm;
    const backend_t *backend;
    source_t *source;
    class_map_t map;
    trained_model_t *model;
    canvases_t canvases;
    bool masks;
    detector_plan_t plan;
    corrupt_samples_t bad;
    detection_evaluator_t *evaluator;
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
    const char *data = o->data ? o->data : run->model->about.data;
    if (!o->data && !fs_exists(data))
        RAISE(ERR_DATA, "%s was trained on %s, which is not here; give --data SRC", run->model->about.path,
              data[0] ? data : "unknown data");
    list_rules_t rules = o->list;
    list_rules_inherit(&rules, &run->model->about.transform.list);
    TRY(source_open_watched(data, &rules, &watch, &run->source));
    if (!run->source->has_annotations)
        RAISE(ERR_DATA, "%s has no annotations; detectors are evaluated on COCO's folder, or shards of one",
              data);
    if (run->source->n_samples[o->split] == 0)
        RAISE(ERR_DATA, "%s has no %s images; --split %s evaluates the others", data, split_words[o->split],
              split_names[o->split == SPLIT_VAL ? SPLIT_TRAIN : SPLIT_VAL]);
    TRY(detector_canvases(run->model, &o->detector, &run->canvases));
    return detection_add_canvases(run->source, o->split, &watch, &run->canvases);
}

static err_t save_data(void *context, void **bytes, int64_t *n_bytes)
{
    return source_save(((detector_run_t *)context)->source, bytes, n_bytes);
}

static err_t restore_data(void *context, void **bytes, int64_t n_bytes)
{
    return source_restore(bytes, n_bytes, &((detector_run_t *)context)->source);
}

static err_t open_detector_data(detector_run_t *run, const char *where)
{
    const comm_finding_t finding = {"opening data", run, find_data, save_data, restore_data};
    TRY(comm_agree(run->comm, bad_open(run->options->max_bad, &run->bad), "opening data"));
    TRY(comm_share(run->comm, &finding));
    TRY(comm_broadcast(run->comm, &run->canvases, sizeof run->canvases, 0, "opening data"));
    TRY(comm_agree(run->comm, class_map_new(run->source->categories, run->source->n_categories, &run->map),
                   "opening data"));
    /* A checkpoint has been read; weights are. */
    const bool root = run->comm->rank == 0, weights = trained_is_weights(where);
    err_t err = ERR_OK;
    if (root && weights) {
        disk_work_begin("reading", where);
        err = detector_import(where, &run->options->weights, run->source->path, run->map.n_classes,
                              run->backend, run->model);
        disk_wait_end();
    } else if (root) {
        err = detector_check_categories(run->model, run->source->categories, run->source->n_categories,
                                        run->source->path);
    }
    TRY(comm_agree(run->comm, err, "reading the weights"));
    if (weights) TRY(trained_share(run->comm, run->backend, run->model));
    return comm_agree(run->comm, detector_choose_masks(run->model->graph, run->options->score, &run->masks),
                      "reading the weights");
}

static const double overlap = 0.5;

static double rightness(const worst_image_t *w)
{
    const double found = 2.0 * w->found, all = found + w->missed + w->wrong;
    return all > 0 ? found / all : 1;
}

static int by_rightness(const void *a, const void *b)
{
    const worst_image_t *x = a, *y = b;
    const double p = rightness(x), q = rightness(y);
    const int32_t m = x->missed + x->wrong, n = y->missed + y->wrong;
    if (p > q || p < q) return p < q ? -1 : 1;
    if (m != n) return m > n ? -1 : 1;
    return (x->image > y->image) - (x->image < y->image);
}

/* The best object that is free; -1: none; -2: it lies in a crowd. */
static int32_t find_truth(const truth_image_t *image, const detection_t *d, const bool *taken)
{
    double best = overlap;
    int32_t found = -1;
    bool in_crowd = false;
    for (int32_t i = 0; i < image->n_annotations; i++) {
        const annotation_t *a = &image->annotations[i];
        if (a->category != d->category || taken[i]) continue;
        const double iou = rle_box_iou(d->box, a->box, a->crowd);
        if (a->crowd)
            in_crowd = in_crowd || iou >= overlap;
        else if (iou >= best)
            best = iou, found = i;
    }
    return found < 0 && in_crowd ? -2 : found;
}

err_t worst_images(const truths_t *truths, const results_t *results, double threshold, worst_image_t *out)
{
    bool *taken = NULL;
    int32_t most = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < truths->n_images; i++)
        if (truths->images[i].n_annotations > most) most = truths->images[i].n_annotations;
    TRY(mem_new_array(most, sizeof *taken, "objects that are found", &taken));
    for (int64_t i = 0; i < truths->n_images; i++) {
        const truth_image_t *image = &truths->images[i];
        worst_image_t *w = &out[i];
        *w = (worst_image_t){.image = (int32_t)i, .first = at};
        while (at < results->n && results->detections[at].image == i) at++;
        w->n = at - w->first;
        memset(taken, 0, (size_t)image->n_annotations * sizeof *taken);
        for (int64_t k = w->first; k < at; k++) {
            if (results->detections[k].score < threshold) continue;
            const int32_t truth = find_truth(image, &results->detections[k], taken);
            if (truth >= 0) taken[truth] = true;
            w->found += truth >= 0;
            w->wrong += truth == -1;
        }
        for (int32_t k = 0; k < image->n_annotations; k++)
            w->missed += !image->annotations[k].crowd && !taken[k];
    }
    qsort(out, (size_t)truths->n_images, sizeof *out, by_rightness);
    mem_free(&taken);
    return ERR_OK;
}

enum { TILE = 320, TEXT = 96 };
static const double drawn_score = 0.5;

static bool has_training_data(const detector_run_t *run)
{
    const dataset_info_t info = {.hash = images_hash(run->source, TASK_DETECT)};
    return strcmp(dataset_hash(&info).text, run->model->about.data_xxh3) == 0;
}

/* Weights, model, data and canvases, before anything is detected. */
static void show_header(const detector_run_t *run)
{
    const truths_t *truths = detection_evaluator_outcome(run->evaluator).truths;
    const trained_about_t *about = &run->model->about;
    char text[1024];
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    table_cell(&t, "model");
    class_map_describe(&run->map, truths->n_categories, text, sizeof text);
    table_cell(&t, "%s, %s", about->model, text);
    if (about->compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s, %s %s images", run->source->path, figure_count(truths->n_images).text,
               split_words[run->options->split]);
    int n;
    for (const char *rest = run->source->about, *line; (line = print_next_line(&rest, &n));) {
        table_cell(&t, "%s", "");
        table_cell(&t, "%.*s", n, line);
    }
    if (!about->weights && !has_training_data(run)) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    table_cell(&t, "canvases");
    canvases_describe(&run->canvases, text, sizeof text);
    table_cell(&t, "%s (height x width)", text);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
}

static err_t write_numbers(const detector_run_t *run, const detection_outcome_t *outcome)
{
    const trained_about_t *about = &run->model->about;
    json_t j = {0};
    json_record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->path);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "model", about->model);
    json_string(&j, "precision", model_precision(about->compute));
    json_string(&j, "data", run->source->path);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(run));
    json_string(&j, "split", split_names[run->options->split]);
    json_int(&j, "n_samples", outcome->truths->n_images);
    json_int(&j, "n_detections", outcome->results->n);
    score_json(outcome->scores, outcome->n_scores, run->options->per_category ? outcome->truths : NULL, &j);
    json_object_end(&j);
    disk_wait_begin("writing", run->options->json);
    err_t err = json_write_file(&j, run->options->json);
    disk_wait_end();
    json_free(&j);
    return err;
}

/* What the sheet shows, one element per image. */
typedef struct drawing {
    worst_image_t *worst; /* of all images */
    int64_t n;
    pick_t *picks;
    sheet_beside_t *beside;
    detected_t *detected;
    char (*texts)[TEXT];
} drawing_t;

static void warn_drawing(const char *message)
{
    log_warn("%s", message);
}

static err_t draw_worst(const detector_run_t *run, const detection_outcome_t *outcome)
{
    const truths_t *truths = outcome->truths;
    drawing_t d = {.n = 0};
    page_t *page = NULL;
    char title[160], about[160];
    int64_t n_bad;
    err_t err;
    TRY_OUT(err, mem_new_array(truths->n_images, sizeof *d.worst, "a picture", &d.worst));
    TRY_OUT(err, worst_images(truths, outcome->results, drawn_score, d.worst));
    d.n = run->options->n_worst < truths->n_images ? run->options->n_worst : truths->n_images;
    TRY_OUT(err, mem_new_array(d.n, sizeof *d.picks, "a picture", &d.picks));
    TRY_OUT(err, mem_new_array(d.n, sizeof *d.beside, "a picture", &d.beside));
    TRY_OUT(err, mem_new_array(d.n, sizeof *d.detected, "a picture", &d.detected));
    TRY_OUT(err, mem_new_array(d.n, sizeof *d.texts, "a picture", &d.texts));
    for (int64_t i = 0; i < d.n; i++) {
        const worst_image_t *w = &d.worst[i];
        d.picks[i] = (pick_t){.split = run->options->split, .index = outcome->images[w->image].index};
        TRY_OUT(err, detected_set(&d.detected[i], outcome->results->detections + w->first, w->n,
                                  truths->categories, drawn_score));
        snprintf(d.texts[i], TEXT, "%d found, %d missed, %d wrong", w->found, w->missed, w->wrong);
        d.beside[i] = (sheet_beside_t){&d.detected[i], d.texts[i]};
    }
    snprintf(title, sizeof title, "The %s worst of %s %s images", figure_count(d.n).text,
             figure_count(truths->n_images).text, split_words[run->options->split]);
    snprintf(about, sizeof about, "Annotations, and on the right detections with a score of at least %g",
             drawn_score);
    const sheet_t sheet = {.source = run->source,
                           .picks = d.picks,
                           .n = d.n,
                           .tile = TILE,
                           .beside = d.beside,
                           .title = title,
                           .about = about,
                           .tell = warn_drawing};
    TRY_OUT(err, sheet_draw(&sheet, &n_bad, &page));
    disk_wait_begin("writing", run->options->png);
    err = page_write_png(page, run->options->png);
    disk_wait_end();
    if (err == ERR_OK) log_info("\nimage    %s, %s worst images", run->options->png, figure_count(d.n).text);
out:
    page_free(&page);
    for (int64_t i = 0; d.detected && i < d.n; i++) detected_free(&d.detected[i]);
    mem_free(&d.worst);
    mem_free(&d.picks);
    mem_free(&d.beside);
    mem_free(&d.detected);
    mem_free(&d.texts);
    return err;
}

static err_t show_results(const detector_run_t *run)
{
    const detection_outcome_t outcome = detection_evaluator_outcome(run->evaluator);
    char path[FS_PATH_MAX], name[32];
    log_info("found    %s objects", figure_count(outcome.results->n).text);
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT && run->options->results; type++) {
        if (!outcome.results->has[type]) continue;
        snprintf(name, sizeof name, "%s.json", score_type_names[type]);
        TRY(fs_join(path, run->options->results, name));
        disk_wait_begin("writing", path);
        const err_t err = results_write(outcome.results, outcome.truths, type, path);
        disk_wait_end();
        TRY(err);
        log_info("results  %s", path);
    }
    return ERR_OK;
}

err_t evaluate_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                        const evaluate_detector_options_t *options)
{
    detector_run_t run = {
        .options = options, .comm = runtime->comm, .backend = runtime->backend, .model = model};
    const bool shows = runtime->comm->rank == 0;
    detection_numbers_t numbers;
    err_t err;
    TRY_OUT(err, open_detector_data(&run, where));
    if (!options->threads_given) TRY_OUT(err, trained_set_threads(&model->about, runtime));
    TRY_OUT(err, detector_plan_make(runtime, model, &run.canvases, &run.plan));
    const detection_evaluator_options_t evaluator = {.comm = run.comm,
                                                     .graph = model->graph,
                                                     .backend = run.backend,
                                                     .params = model->params.device,
                                                     .states = model->states.device,
                                                     .exec = run.plan.exec,
                                                     .norm = model->about.norm,
                                                     .source = run.source,
                                                     .split = options->split,
                                                     .canvases = &run.canvases,
                                                     .map = &run.map,
                                                     .detections = options->detector.detections,
                                                     .masks = run.masks,
                                                     .advice = "; use --score bbox",
                                                     .bad = &run.bad};
    err = detection_evaluator_open(&evaluator, &run.evaluator);
    if (err == ERR_OK && run.plan.exec) err = exec_ready(run.plan.exec);
    TRY_OUT(err, comm_agree(run.comm, err, "planning the model"));
    if (shows) show_header(&run);
    TRY_OUT(err, detection_evaluator_detect(run.evaluator));
    TRY_OUT(err, comm_agree(run.comm, shows ? show_results(&run) : ERR_OK, "writing detections"));
    TRY_OUT(err, detection_evaluator_score(run.evaluator, &numbers));
    if (shows) {
        const detection_outcome_t outcome = detection_evaluator_outcome(run.evaluator);
        log_info("%s", "");
        score_print(outcome.scores, outcome.n_scores, options->per_category ? outcome.truths : NULL);
        if (options->json) err = write_numbers(&run, &outcome);
        if (err == ERR_OK && options->png) err = draw_worst(&run, &outcome);
    }
    err = comm_agree(run.comm, err, "showing the result");
out:
    detection_evaluator_close(&run.evaluator);
    detector_plan_free(&run.plan);
    class_map_free(&run.map);
    bad_close(&run.bad);
    source_close(&run.source);
    return err;
}
