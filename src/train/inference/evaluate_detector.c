/* SPDX-License-Identifier: MIT */
/* Opens data and weights on all ranks. Detecting and scoring are left to train/evaluate, presenting the outcome to
 * show_detector.c. */
#include "train/inference/evaluate_detector.h"

#include <stdio.h>

#include "cluster/comm/from_rank0.h"
#include "cluster/session/disk_wait.h"
#include "data/load/detection.h"
#include "data/source/share.h"
#include "train/inference/show_detector.h"

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

/* A checkpoint has been read; weights are. */
static err_t fit_model(detector_run_t *run, const char *where)
{
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
    return weights ? trained_share(run->comm, run->backend, run->model) : ERR_OK;
}

static err_t open_detector_data(detector_run_t *run, const char *where)
{
    const comm_finding_t finding = {"opening data", run, find_data, save_data, restore_data};
    TRY(comm_agree(run->comm, bad_open(run->options->max_bad, &run->bad), "opening data"));
    TRY(comm_share(run->comm, &finding));
    TRY(comm_broadcast(run->comm, &run->canvases, sizeof run->canvases, 0, "opening data"));
    TRY(comm_agree(run->comm, class_map_new(run->source->categories, run->source->n_categories, &run->map),
                   "opening data"));
    TRY(fit_model(run, where));
    return comm_agree(run->comm, detector_choose_masks(run->model->graph, run->options->score, &run->masks),
                      "reading the weights");
}

static err_t open_detection_evaluator(detector_run_t *run)
{
    const detection_evaluator_options_t options = {.comm = run->comm,
                                                   .graph = run->model->graph,
                                                   .backend = run->backend,
                                                   .params = run->model->params.device,
                                                   .states = run->model->states.device,
                                                   .exec = run->plan.exec,
                                                   .norm = run->model->about.norm,
                                                   .source = run->source,
                                                   .split = run->options->split,
                                                   .canvases = &run->canvases,
                                                   .map = &run->map,
                                                   .detections = run->options->detector.detections,
                                                   .masks = run->masks,
                                                   .advice = "; use --score bbox",
                                                   .bad = &run->bad};
    TRY(detection_evaluator_open(&options, &run->evaluator));
    return run->plan.exec ? exec_ready(run->plan.exec) : ERR_OK;
}

static err_t evaluate_and_show(detector_run_t *run)
{
    const bool shows = run->comm->rank == 0;
    detection_numbers_t numbers;
    const show_detector_t show = {.options = run->options,
                                  .model = run->model,
                                  .source = run->source,
                                  .map = &run->map,
                                  .canvases = &run->canvases,
                                  .evaluator = run->evaluator};
    if (shows) show_detector_header(&show);
    TRY(detection_evaluator_detect(run->evaluator));
    TRY(comm_agree(run->comm, shows ? show_detector_results(&show) : ERR_OK, "writing detections"));
    TRY(detection_evaluator_score(run->evaluator, &numbers));
    return comm_agree(run->comm, shows ? show_detector_scores(&show) : ERR_OK, "showing the result");
}

err_t evaluate_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                        const evaluate_detector_options_t *options)
{
    detector_run_t run = {
        .options = options, .comm = runtime->comm, .backend = runtime->backend, .model = model};
    err_t err;
    TRY_OUT(err, open_detector_data(&run, where));
    if (!options->threads_given) TRY_OUT(err, trained_set_threads(&model->about, runtime));
    TRY_OUT(err, detector_plan_make(runtime, model, &run.canvases, &run.plan));
    TRY_OUT(err, comm_agree(run.comm, open_detection_evaluator(&run), "planning the model"));
    err = evaluate_and_show(&run);
out:
    detection_evaluator_close(&run.evaluator);
    detector_plan_free(&run.plan);
    class_map_free(&run.map);
    bad_close(&run.bad);
    source_close(&run.source);
    return err;
}
