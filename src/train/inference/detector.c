/* SPDX-License-Identifier: MIT */
/* Detectors at work: evaluating them on annotated images, with the images that have the most mistakes; finding the objects
 * in image files. Detecting and scoring are left to train/detect and data/score, drawing to data/show. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "compute/models/rcnn.h"
#include "data/annotation/mask.h"
#include "data/dataset/dataset.h"
#include "data/load/samples.h"
#include "data/show/sheet.h"
#include "data/source/source.h"
#include "records/record.h"
#include "text/figure.h"
#include "train/detect/evaluate.h"
#include "train/detect/train_options.h"
#include "train/inference/trained_model.h"
#include "train/start/choose.h"
#include "train/start/options.h"
#include "train/weights/weights.h"

typedef struct detector_run {
    const inference_options_t *options;
    const runtime_t *runtime;
    comm_t *comm;
    trained_model_t *model;
    source_t *source; /* of the data, a folder; or NULL */
    class_map_t map;
    canvases_t canvases;
    bool masks;
    algorithms_t algorithms;
    exec_t *exec; /* detector_options_t's; NULL: weights' */
    /* Evaluation. */
    corrupt_samples_t bad;
    detection_evaluator_t *evaluator;
    /* Prediction. */
    truths_t *truths; /* of --data, a file */
    arena_t names;
    const category_t *categories;
    int32_t n_categories;
    bool named; /* categories have names */
    detector_t *detector;
    image_decoder_t *decoder;
    prediction_files_t files;
    /* Of the current image. */
    char *file;
    detection_t *detections;
    arena_t texts;
    detected_t drawn;
    int64_t n_bad;
} detector_run_t;

static err_t check_options(const char *model, const inference_options_t *o, const opt_group_t *groups,
                           int n_groups)
{
    static const char *const others[] = {"top",  "loader-threads", "input-size", "stem",
                                         "task", "eval-crop",      NULL};
    if (o->weights.model && !o->images && !o->data)
        RAISE(ERR_USAGE, "%s requires --data SRC: COCO's folder, or shards of one", model);
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].given >> i & 1 && opt_listed(others, groups[g].table[i].key))
                RAISE(ERR_USAGE, "--%s does not apply to detectors such as %s", groups[g].table[i].key,
                      model);
    return ERR_OK;
}

/* The categories of its objects: their ids are in the file, their names are those of its outputs. */
static err_t read_categories(const checkpoint_t *checkpoint, trained_model_t *m)
{
    int64_t *ids = NULL;
    class_map_t map = {0};
    const char *text;
    err_t err;
    TRY(checkpoint_get_text(checkpoint, "category_ids", &text));
    TRY_OUT(err, category_ids_read(text, &ids, &m->n_categories));
    TRY_OUT(err, mem_new_array(m->n_categories, sizeof *m->categories, "categories", &m->categories));
    for (int32_t i = 0; i < m->n_categories; i++)
        m->categories[i] = (category_t){.id = ids[i], .name = "", .supergroup = ""};
    TRY_OUT(err, class_map_new(m->categories, m->n_categories, m->about.build.n_classes, &map));
    if (map.n_classes != m->about.build.n_classes)
        RAISE_OUT(err, ERR_DATA, "%s: its %d categories make %d outputs, but the model has %d", m->about.path,
                  (int)m->n_categories, map.n_classes, m->about.build.n_classes);
    for (int32_t i = 0; i < m->n_categories && m->class_names; i++)
        m->categories[i].name = m->class_names[map.output[i]];
out:
    class_map_free(&map);
    mem_free(&ids);
    return err;
}

/* Rank 0. What the options of canvases leave open is as in the run of a checkpoint. */
static err_t choose_canvases(detector_run_t *run)
{
    const trained_model_t *model = run->model;
    const inference_options_t *o = run->options;
    model_heads_t heads = model->about.build.heads; /* of weights, which are read later, their names' */
    canvas_options_t chosen = o->canvas, saved;
    opt_group_t to = {"", canvas_option_table, n_canvas_options, &chosen, 0}, from = to;
    char *storage = NULL;
    err_t err;
    from.values = &saved;
    if (model->options) TRY_OUT(err, train_options_canvas(model->options, &saved, &storage));
    for (int i = 0; i < to.n && model->options; i++)
        if (!(o->canvas_given >> i & 1)) opt_copy(&to, &from, i);
    if (model->about.weights) TRY_OUT(err, weights_find_heads(o->weights.names, &heads));
    err = canvases_new(&chosen, &run->canvases);
    run->canvases.nearest = heads != MODEL_HEADS_TORCHVISION;
    if (err == ERR_OK && run->canvases.exact)
        run->canvases.min_sizes[0] = run->canvases.min_size, run->canvases.n_min_sizes = 1; /* evaluation's */
out:
    mem_free(&storage);
    return err;
}

/* Rank 0. Compares the classes of a checkpoint with those of data: other categories cannot have its outputs. Warns of
 * other names.
 *
 *   data  for messages */
static err_t check_categories(const trained_model_t *model, const category_t *categories,
                              int32_t n_categories, const char *data)
{
    const char *path = model->about.path;
    int32_t renamed = -1;
    if (n_categories != model->n_categories)
        RAISE(
            ERR_DATA,
            "%s finds objects of %d categories, but %s has %d; use the data that it was trained on, or data "
            "with the same categories",
            path, (int)model->n_categories, data, (int)n_categories);
    for (int32_t i = n_categories - 1; i >= 0; i--) {
        const category_t *own = &model->categories[i], *other = &categories[i];
        if (own->id != other->id)
            RAISE(ERR_DATA,
                  "%s finds objects of category %" PRId64
                  " (%s), which %s does not have; use the data that it "
                  "was trained on, or data with the same categories",
                  path, own->id, own->name, data);
        if (strcmp(own->name, other->name) == 0) continue;
        renamed = i;
        for (int32_t k = 0; k < n_categories; k++)
            if (strcmp(model->categories[k].name, other->name) == 0)
                RAISE(ERR_DATA,
                      "%s numbers its categories otherwise than %s: %s is %" PRId64 ", in the model %" PRId64
                      "; give the list the model's ids",
                      data, path, other->name, other->id, model->categories[k].id);
    }
    if (renamed >= 0)
        log_warn("category %" PRId64 " is %s in %s, but was %s when the model was trained",
                 categories[renamed].id, categories[renamed].name, data, model->categories[renamed].name);
    return ERR_OK;
}

/* Rank 0. Imports weights, whose classes are counted in the file. */
static err_t import_weights(detector_run_t *run)
{
    enum { SIDE = 224 }; /* of the graph's own canvas; others are planned as images need them */
    const inference_options_t *o = run->options;
    dataset_info_t info = {
        .height = SIDE, .width = SIDE, .channels = 3, .task = TASK_CLASSIFY, .norm = pixel_norm_imagenet()};
    snprintf(info.source, sizeof info.source, "the model");
    return trained_import(o->where, &o->weights, &info, run->runtime->backend, run->model);
}

/* Which output is which of the categories; `source` has them. */
static err_t map_categories(detector_run_t *run, const category_t *categories, int32_t n, const char *source)
{
    const int n_outputs = run->model->about.build.n_classes;
    TRY(class_map_new(categories, n, n_outputs, &run->map));
    if (n_outputs != run->map.n_classes)
        RAISE(
            ERR_DATA,
            "%s has %d classes, the background included, but the categories of %s make %d; use the data that the "
            "weights were trained on, or data with the same categories",
            run->options->where, n_outputs, source, run->map.n_classes);
    return ERR_OK;
}

/* Whether masks are wanted, which the model may lack. */
static err_t choose_masks(detector_run_t *run, score_type_t wanted)
{
    const graph_t *graph = run->model->graph;
    const bool has = rcnn_has_masks(graph);
    if (!has && wanted == SCORE_SEGM)
        RAISE(
            ERR_USAGE,
            "--score segm: %s finds no masks; use maskrcnn_resnet50_fpn or another model with masks, or --score "
            "bbox",
            graph->model);
    run->masks = has && wanted != SCORE_BBOX;
    return ERR_OK;
}

/* Collective. Pushes the weights to the device. A checkpoint gets an executor with its own algorithms, for the bits of
 * its run's evaluation; rcnn_algorithms decides on canvases that the run did not have. */
static err_t plan(detector_run_t *run)
{
    const trained_model_t *model = run->model;
    const backend_t *backend = run->runtime->backend;
    algorithm_request_t request = {.saved = model->algorithms,
                                   .runtime = run->runtime,
                                   .graph = model->graph,
                                   .timeout_sec = run->comm->options.timeout_sec};
    algorithm_choice_t choice = {.text = NULL};
    shape_t *shapes = NULL;
    err_t err;
    if (!model->about.weights) {
        err = detector_shapes(model->graph, &run->canvases, &shapes);
        TRY_OUT(err, comm_agree(run->comm, err, "choosing algorithms"));
        for (; request.n_sizes < run->canvases.n; request.n_sizes++)
            request.sizes[request.n_sizes] =
                (batch_size_t){1, false, shapes + request.n_sizes * GRAPH_MAX_INPUTS};
        TRY_OUT(err, algorithm_choice_make(&request, &choice));
        /* The checkpoint's table, completed by the rule. A run without one had the backend's defaults. */
        if (choice.table.n > 0) {
            err = rcnn_algorithms(model->graph, backend, request.sizes, request.n_sizes, &run->algorithms);
            if (err == ERR_OK)
                err = algorithms_read(&run->algorithms, choice.text, "the checkpoint's algorithms", true);
        }
        TRY_OUT(err, comm_agree(run->comm, err, "choosing algorithms"));
    }
    err = trained_exec_new(model, backend, model->about.weights ? NULL : &run->algorithms, &run->exec);
    err = comm_agree(run->comm, err, "planning the model");
out:
    algorithm_choice_free(&choice);
    mem_free(&shapes);
    return err;
}

static void close_run(detector_run_t *run)
{
    prediction_files_close(&run->files);
    detected_free(&run->drawn);
    arena_free(&run->texts);
    arena_free(&run->names);
    mem_free(&run->detections);
    mem_free(&run->file);
    image_decoder_free(&run->decoder);
    detector_free(&run->detector);
    detection_evaluator_close(&run->evaluator);
    exec_free(&run->exec);
    algorithms_free(&run->algorithms);
    class_map_free(&run->map);
    bad_close(&run->bad);
    source_close(&run->source);
    truths_free(&run->truths);
}

static bool has_training_data(const detector_run_t *run)
{
    const dataset_info_t info = {.hash = dataset_hash_source(run->source->hash, TASK_DETECT)};
    return strcmp(dataset_hash(&info).text, run->model->about.data_xxh3) == 0;
}

/* Rank 0. */
static err_t find_data(void *context, comm_alive_t alive, void *alive_context)
{
    detector_run_t *run = context;
    const inference_options_t *o = run->options;
    const open_watch_t watch = {alive, alive_context};
    if (o->json) TRY(fs_check_target(o->json));
    if (o->png) TRY(fs_check_target(o->png));
    if (o->write_results) {
        TRY(fs_make_folder(o->write_results));
        TRY(fs_check_writable(o->write_results));
    }
    const char *data = o->data ? o->data : run->model->about.data;
    if (!o->data && !fs_exists(data))
        RAISE(ERR_DATA, "%s was trained on %s, which is not here; give --data SRC", run->model->about.path,
              data[0] ? data : "unknown data");
    list_rules_t rules = list_rules(&o->loader.list, o->loader.max_bad);
    list_rules_inherit(&rules, &run->model->about.transform.list);
    TRY(source_open_watched(data, &rules, &watch, &run->source));
    /* The run's share is of its own data. */
    if (rules.holdout.share > 0 && !has_training_data(run)) {
        log_warn("%s is not the data whose images the run held out (--val-split): it is evaluated as it is",
                 data);
        source_close(&run->source);
        rules.holdout.share = 0;
        TRY(source_open_watched(data, &rules, &watch, &run->source));
    }
    if (!run->source->has_annotations)
        RAISE(ERR_DATA, "%s has no annotations; detectors are evaluated on COCO's folder, or shards of one",
              data);
    if (run->source->n_samples[o->split] == 0)
        RAISE(ERR_DATA, "%s has no %s images; --split %s evaluates the others", data, split_words[o->split],
              split_names[o->split == SPLIT_VAL ? SPLIT_TRAIN : SPLIT_VAL]);
    TRY(choose_canvases(run));
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

static err_t open_data(detector_run_t *run)
{
    const comm_finding_t finding = {"opening data", run, find_data, save_data, restore_data};
    const inference_options_t *o = run->options;
    TRY(comm_agree(run->comm, bad_open(o->loader.max_bad, &run->bad), "opening data"));
    TRY(comm_share(run->comm, &finding));
    TRY(comm_broadcast(run->comm, &run->canvases, sizeof run->canvases, 0, "opening data"));
    const source_t *source = run->source;
    /* A checkpoint has been read; weights are. */
    const bool root = run->comm->rank == 0, weights = run->model->about.weights;
    err_t err = ERR_OK;
    if (root && weights) {
        disk_work_begin("reading", o->where);
        err = import_weights(run);
        disk_wait_end();
    } else if (root) {
        err = check_categories(run->model, source->categories, source->n_categories, source->path);
    }
    TRY(comm_agree(run->comm, err, "reading the weights"));
    if (weights) TRY(trained_share(run->comm, run->runtime->backend, run->model));
    err = map_categories(run, source->categories, source->n_categories, source->path);
    if (err == ERR_OK) err = choose_masks(run, o->score);
    return comm_agree(run->comm, err, "reading the weights");
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

static void input_rows(const detector_run_t *run, table_t *t)
{
    const graph_t *graph = run->model->graph;
    char text[1024];
    if (graph->norm == GRAPH_NORM_GROUP) table_cell(t, "norm"), table_cell(t, "group");
    if (rcnn_aligned(graph)) {
        table_cell(t, "heads");
        table_cell(t, "%s: %s", model_heads[rcnn_heads(graph)], rcnn_about_aligned);
    }
    if (rcnn_stride_1x1(graph)) table_cell(t, "trunk"), table_cell(t, "%s", rcnn_about_stride_1x1);
    canvases_describe(&run->canvases, text, sizeof text);
    table_cell(t, "canvases");
    table_cell(t, "%s (height x width)%s", text,
               detections_interpolate(&run->options->detections) ? "; resized as by torchvision" : "");
}

/* Weights, model, data and canvases, before anything is detected. */
static void show_header(const detector_run_t *run)
{
    const truths_t *truths = detection_evaluator_outcome(run->evaluator).truths;
    const trained_about_t *about = &run->model->about;
    char text[1024], data[FS_PATH_MAX + 512];
    class_map_describe(&run->map, truths->n_categories, text, sizeof text);
    snprintf(data, sizeof data, "%s, %s %s images", run->source->path, figure_count(truths->n_images).text,
             split_words[run->options->split]);
    table_t t =
        trained_table(about, text, data, run->source->about, !about->weights && !has_training_data(run));
    input_rows(run, &t);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
}

static err_t write_numbers(const detector_run_t *run, const detection_outcome_t *outcome)
{
    const trained_about_t *about = &run->model->about;
    json_t j = {0};
    record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->path);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "model", about->model);
    json_string(&j, "precision", model_precision(about->build.compute));
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
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT && run->options->write_results; type++) {
        if (!outcome.results->has[type]) continue;
        snprintf(name, sizeof name, "%s.json", score_type_names[type]);
        TRY(fs_join(path, run->options->write_results, name));
        disk_wait_begin("writing", path);
        const err_t err = results_write(outcome.results, outcome.truths, type, path);
        disk_wait_end();
        TRY(err);
        log_info("results  %s", path);
    }
    return ERR_OK;
}

static err_t evaluate(runtime_t *runtime, trained_model_t *model, const inference_options_t *o)
{
    detector_run_t run = {.options = o,
                          .runtime = runtime,
                          .comm = runtime->comm,
                          .model = model,
                          .files = {.file = {.fd = -1}}};
    const bool shows = runtime->comm->rank == 0;
    detection_numbers_t numbers;
    err_t err;
    TRY_OUT(err, open_data(&run));
    if (!o->threads_given) TRY_OUT(err, trained_set_threads(&model->about, runtime));
    TRY_OUT(err, plan(&run));
    const detection_evaluator_options_t evaluator = {.comm = run.comm,
                                                     .graph = model->graph,
                                                     .backend = runtime->backend,
                                                     .params = model->params.device,
                                                     .states = model->states.device,
                                                     .exec = run.exec,
                                                     .norm = model->about.norm,
                                                     .source = run.source,
                                                     .split = o->split,
                                                     .canvases = &run.canvases,
                                                     .map = &run.map,
                                                     .detections = o->detections,
                                                     .masks = run.masks,
                                                     .skip_unmasked = o->skip_unmasked ||
                                                                      model->about.transform.skip_unmasked,
                                                     .advice = "; use --score bbox",
                                                     .bad = &run.bad};
    err = detection_evaluator_open(&evaluator, &run.evaluator);
    if (err == ERR_OK && run.exec) err = exec_ready(run.exec);
    TRY_OUT(err, comm_agree(run.comm, err, "planning the model"));
    if (shows) show_header(&run);
    TRY_OUT(err, detection_evaluator_detect(run.evaluator));
    TRY_OUT(err, comm_agree(run.comm, shows ? show_results(&run) : ERR_OK, "writing detections"));
    TRY_OUT(err, detection_evaluator_score(run.evaluator, &numbers));
    if (shows) {
        const detection_outcome_t outcome = detection_evaluator_outcome(run.evaluator);
        log_info("%s", "");
        score_print(outcome.scores, outcome.n_scores, o->per_category ? outcome.truths : NULL);
        if (o->json) err = write_numbers(&run, &outcome);
        if (err == ERR_OK && o->png) err = draw_worst(&run, &outcome);
    }
    err = comm_agree(run.comm, err, "showing the result");
out:
    close_run(&run);
    return err;
}

static err_t read_weights(detector_run_t *run)
{
    const char *data = run->options->data;
    if (!data) {
        run->categories = run->model->categories;
        run->n_categories = run->model->n_categories;
    } else if (fs_is_folder(data)) {
        TRY(source_open(data, &run->source));
        run->categories = run->source->categories;
        run->n_categories = run->source->n_categories;
    } else {
        TRY(truths_read(data, SPLIT_VAL, NULL, &run->truths));
        run->categories = run->truths->categories;
        run->n_categories = run->truths->n_categories;
    }
    if (run->model->about.weights)
        TRY(import_weights(run));
    else if (data)
        TRY(check_categories(run->model, run->categories, run->n_categories, data));
    if (run->categories)
        TRY(map_categories(run, run->categories, run->n_categories, data ? data : run->model->about.path));
    if (!run->categories) {
        /* Weights without --data: classes have the names of the file beside them, or are their own. */
        const int n = model_classes(run->model->graph) - 1;
        const char **names = run->model->class_names;
        category_t *categories;
        TRY(arena_new(&run->names, (size_t)(n + 1) * sizeof *categories, &categories));
        for (int i = 0; i < n; i++) {
            categories[i] = (category_t){.id = i + 1, .supergroup = ""};
            if (names && names[i + 1][0])
                categories[i].name = names[i + 1];
            else
                TRY(arena_format(&run->names, &categories[i].name, "%d", i + 1));
        }
        run->categories = categories;
        run->n_categories = n;
        TRY(map_categories(run, categories, n, "the file"));
    }
    run->named = run->options->data || run->model->class_names != NULL;
    return choose_masks(run, SCORE_TYPE_COUNT);
}

static err_t read_image(detector_run_t *run, int64_t i, image_bytes_t *bytes, image_info_t *info)
{
    char *file = NULL;
    mem_free(&run->file);
    bytes->name = run->options->images->paths[i];
    TRY(image_file_read(bytes->name, &file, &bytes->n_bytes));
    bytes->bytes = run->file = file;
    return image_info(*bytes, info);
}

static err_t start(detector_run_t *run)
{
    const inference_options_t *o = run->options;
    char json[FS_PATH_MAX];
    if (o->out && !o->json) TRY(fs_join(json, o->out, "predictions.json"));
    TRY(prediction_files_open(o->out, o->json ? o->json : o->out ? json : NULL, &run->files));
    /* Exact canvases need the sizes of all images. What is wrong with one is said when its turn comes. */
    TRY(choose_canvases(run));
    for (int64_t i = 0; run->canvases.exact && i < run->options->images->n; i++) {
        image_bytes_t bytes;
        image_info_t info;
        err_t err = read_image(run, i, &bytes, &info);
        if (err == ERR_OK)
            err = canvases_add(&run->canvases, (map_size_t){info.height, info.width}, bytes.name);
        TRY(err == ERR_DATA ? ERR_OK : err);
    }
    TRY(image_decoder_new((image_limits_t){0}, &run->decoder));
    TRY(plan(run));
    const detector_options_t options = {.graph = run->model->graph,
                                        .backend = run->runtime->backend,
                                        .params = run->model->params.device,
                                        .states = run->model->states.device,
                                        .exec = run->exec,
                                        .canvases = &run->canvases,
                                        .norm = run->model->about.norm,
                                        .detections = o->detections,
                                        .masks = run->masks};
    TRY(detector_new(&options, &run->detector));
    return run->exec ? exec_ready(run->exec) : ERR_OK;
}

static err_t write_line(detector_run_t *run, const char *name, const image_t *image, int64_t n,
                        const char *error)
{
    json_t *j = &run->files.json;
    record_begin(j, RECORD_PREDICTION);
    json_string(j, "image", name);
    if (error) {
        json_string(j, "error", error);
    } else {
        json_int(j, "width", image->width);
        json_int(j, "height", image->height);
        json_array_begin(j, "objects");
        for (int64_t i = 0; i < n; i++) {
            const detection_t *d = &run->detections[i];
            const category_t *category = &run->categories[d->category];
            json_object_begin(j, NULL);
            json_int(j, "category_id", category->id);
            if (run->named) json_string(j, "name", category->name);
            json_real(j, "score", d->score);
            json_array_begin(j, "bbox");
            for (int k = 0; k < 4; k++) json_real(j, NULL, d->box[k]);
            json_array_end(j);
            if (d->mask) {
                json_object_begin(j, "segmentation");
                json_array_begin(j, "size");
                json_int(j, NULL, image->height);
                json_int(j, NULL, image->width);
                json_array_end(j);
                json_string(j, "counts", d->mask);
                json_object_end(j);
            }
            json_object_end(j);
        }
        json_array_end(j);
    }
    json_object_end(j);
    return prediction_files_line(&run->files);
}

/* ERR_DATA: this image cannot be read or does not suit. */
static err_t detect_file(detector_run_t *run, int64_t i, image_t *image, int64_t *n)
{
    image_bytes_t bytes;
    image_info_t info;
    detector_result_t result;
    TRY(read_image(run, i, &bytes, &info));
    TRY(image_decode(run->decoder, bytes, image));
    if (info.transparent && image_is_black(image)) log_warn(IMAGE_FILES_BLACK, bytes.name);
    TRY(detector_run(run->detector, bytes.name, &info, image, false, &result));
    /* Detections of categories. */
    *n = 0;
    arena_reset(&run->texts);
    TRY(mem_grow(result.n + 1, sizeof *run->detections, "detections", &run->detections));
    for (int64_t k = 0; k < result.n; k++) {
        const detector_object_t *from = &result.objects[k];
        detection_t *to = &run->detections[*n];
        char *text;
        if (run->map.category[from->class] < 0) continue;
        *to = (detection_t){.category = run->map.category[from->class], .score = from->score};
        memcpy(to->box, from->box, sizeof to->box);
        if (run->masks) {
            TRY(arena_new(&run->texts, RLE_TEXT_PER_RUN * (size_t)from->mask.n + 1, &text));
            rle_format(&from->mask, text);
            to->mask = text;
        }
        ++*n;
    }
    return ERR_OK;
}

static err_t predict_file(detector_run_t *run, int64_t i)
{
    image_t image;
    int64_t n, n_printed = 0;
    const char *name = run->options->images->paths[i];
    char to[FS_PATH_MAX];
    page_t *page = NULL;
    err_t err = detect_file(run, i, &image, &n);
    if (err == ERR_DATA) {
        run->n_bad++;
        log_warn("%s", err_message());
        return write_line(run, name, NULL, 0, err_message());
    }
    TRY(err);
    log_info("%s", name);
    for (int64_t k = 0; k < n; k++) {
        const detection_t *d = &run->detections[k];
        if (!(d->score >= run->options->threshold)) continue;
        log_info("  %.4f  %s, %.0f x %.0f at %.0f, %.0f", d->score, run->categories[d->category].name,
                 d->box[2], d->box[3], d->box[0], d->box[1]);
        n_printed++;
    }
    if (n_printed == 0) log_info("  nothing with a score of at least %g", run->options->threshold);
    TRY(write_line(run, name, &image, n, NULL));
    if (!run->options->out) return ERR_OK;
    const detected_page_t drawing = {name, &image, run->categories, &run->drawn};
    TRY(prediction_files_picture(&run->files, i, name, to));
    TRY(detected_set(&run->drawn, run->detections, n, run->categories, run->options->threshold));
    TRY(detected_draw(&drawing, &page));
    err = page_write_png(page, to);
    page_free(&page);
    return err;
}

static err_t predict(runtime_t *runtime, trained_model_t *model, const inference_options_t *o)
{
    detector_run_t run = {.options = o,
                          .runtime = runtime,
                          .comm = runtime->comm,
                          .model = model,
                          .files = {.file = {.fd = -1}}};
    err_t err;
    TRY_OUT(err, read_weights(&run));
    TRY_OUT(err, start(&run));
    char text[1024];
    class_map_describe(&run.map, run.n_categories, text, sizeof text);
    table_t t = trained_table(&model->about, text, NULL, NULL, false);
    input_rows(&run, &t);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
    for (int64_t i = 0; i < o->images->n; i++) TRY_OUT(err, predict_file(&run, i));
    TRY_OUT(err, prediction_files_commit(&run.files));
    if (run.n_bad > 0)
        RAISE_OUT(err, ERR_DATA, "%" PRId64 " of %" PRId64 " images could not be predicted", run.n_bad,
                  o->images->n);
out:
    close_run(&run);
    return err;
}

const inference_t inference_detector = {
    .check_options = check_options, .read = read_categories, .evaluate = evaluate, .predict = predict};
