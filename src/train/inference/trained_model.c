/* SPDX-License-Identifier: MIT */
/* Reads a trained model on rank 0 and rebuilds it on all ranks. Choosing data for it is left to the callers.
 */
#include "train/inference/trained_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "cluster/session/disk_wait.h"
#include "compute/models/rcnn.h"
#include "train/detect/detector.h"
#include "train/run/choose_algorithms.h"
#include "train/run/options.h"
#include "train/task/task.h"
#include "train/weights/model_file.h"
#include "train/weights/weights.h"

enum { INPUT_MAX = 4096 };

/* Detectors have no task in common with these. */
static const char *const tasks[] = {"auto", "classify", "multilabel", "crops", NULL};
static const char *const eval_crops[] = {"auto", "center", "letterbox", "warp", NULL};

#define FIELD(name) offsetof(weights_options_t, name)
const opt_t weights_option_table[] = {
    {"model", OPT_STRING, FIELD(model), NULL, 0, 0, NULL, "NAME",
     "model that the weights are for; dptrain info lists them", OPT_COMMON},
    {"weights-names", OPT_STRING, FIELD(names), "torchvision", 0, 0, NULL, "TABLE",
     "parameter names in the file: torchvision, detectron2, tensorpack, huggingface, dptrain, or a file of rules",
     OPT_MORE},
    {"input-size", OPT_INT, FIELD(input_size), NULL, TRANSFORM_INPUT_MIN, INPUT_MAX, NULL, "N",
     "height and width of the model's input, in pixels [as the file says, or 224]", OPT_MORE},
    {"stem", OPT_CHOICE, FIELD(stem), "auto", 0, 0, model_stems, NULL,
     "of ResNets: first layers, as in train; auto: those of the file", OPT_MORE},
    {"task", OPT_CHOICE, FIELD(task), "auto", 0, 0, tasks, NULL,
     "labels: one class per image, several (COCO), or one per annotated object; auto: by the data", OPT_MORE},
    {"eval-crop", OPT_CHOICE, FIELD(eval_crop), "auto", 0, 0, eval_crops, NULL,
     "evaluation crop; auto: center; with annotations: warp", OPT_MORE},
    {"norm-eps", OPT_REAL, FIELD(norm_epsilon), "1e-5", 0, 1, NULL, "X",
     "epsilon of batch norm; torchvision's published detectors have 0", OPT_MORE},
};
const int n_weights_options = sizeof weights_option_table / sizeof weights_option_table[0];

bool trained_is_weights(const char *path)
{
    return fs_has_suffix(path, ".npz") && !fs_is_folder(path);
}

err_t weights_options_check(const weights_options_t *o, const opt_group_t *group, const char *path)
{
    if (trained_is_weights(path)) {
        if (!o->model) RAISE(ERR_USAGE, "%s needs --model NAME; dptrain info lists the models", path);
        return model_stem(o->stem) == MODEL_STEM_AUTO ? ERR_OK : model_check_residual(o->model, "stem");
    }
    for (int i = 0; i < group->n; i++)
        if (group->given >> i & 1)
            RAISE(ERR_USAGE, "--%s applies to weights (FILE.npz); the checkpoint %s has its own",
                  group->table[i].key, path);
    return ERR_OK;
}

void weights_take_size(const char *path, weights_options_t *o)
{
    weights_note_t note;
    if (o->input_size || !trained_is_weights(path)) return;
    weights_read_note(path, &note);
    /* Images of folders become squares in colour; those in memory have their own size. */
    if (strcmp(note.model, o->model) != 0 || note.height != note.width || note.channels != 3) return;
    if (note.height < TRANSFORM_INPUT_MIN || note.height > INPUT_MAX) return;
    o->input_size = note.height;
    o->size_of_file = true;
}

err_t weights_transform(const weights_options_t *o, transform_settings_t *out)
{
    transform_options_t t = {0};
    opt_group_t group = {"", transform_option_table, n_transform_options, &t, 0};
    TRY(opt_defaults(&group, 1));
    t.input_size = o->input_size;
    t.task = o->task;
    t.eval_crop = o->eval_crop;
    *out = transform_settings(&t);
    return ERR_OK;
}

static err_t allocate_weights(const backend_t *backend, trained_model_t *m)
{
    const graph_t *g = m->graph;
    TRY(hd_buffer_new(backend, (size_t)g->n_flat_params * sizeof(float), "weights", &m->params));
    return hd_buffer_new(backend, (size_t)g->n_flat_states * sizeof(float), "running statistics", &m->states);
}

static err_t build_model(const backend_t *backend, trained_model_t *m)
{
    const trained_about_t *about = &m->about;
    const int64_t *d = about->sample.dim;
    model_options_t options = {.sample = shape_3d(d[1], d[2], d[3]),
                               .n_classes = about->n_classes,
                               .norm = about->batch_norm,
                               .stem = about->stem,
                               .norm_epsilon = &about->norm_epsilon,
                               .box_block = about->box_block,
                               .mask_block = about->mask_block,
                               .compute = about->compute,
                               .freeze = m->freeze && m->freeze[0] ? m->freeze : NULL};
    task_get(about->task)->set_model(&options);
    TRY(model_build(about->model, &options, &m->graph));
    return allocate_weights(backend, m);
}

/* A run in progress may delete the file after it is located; a newer one then exists. */
static err_t open_checkpoint(const char *where, char *path, checkpoint_t **out)
{
    enum { TRIES = 5 };
    for (int try = 1;; try++) {
        TRY(model_file_locate(where, path, NULL));
        err_t err = checkpoint_open(path, out);
        if (err == ERR_OK || try == TRIES || fs_exists(path) || !fs_is_folder(where)) return err;
    }
}

/* A text attribute; NULL if checkpoints of earlier versions lack it. */
static err_t find_text(const checkpoint_t *checkpoint, const char *name, const char **out)
{
    *out = NULL;
    return checkpoint_find_attr(checkpoint, name) ? checkpoint_get_text(checkpoint, name, out) : ERR_OK;
}

/* Those of a detector: their ids are in the file, and their names are those of its outputs. */
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
    TRY_OUT(err, class_map_new(m->categories, m->n_categories, &map));
    if (map.n_classes != m->about.n_classes)
        RAISE_OUT(err, ERR_DATA, "%s: its %d categories make %d outputs, but the model has %d", m->about.path,
                  (int)m->n_categories, map.n_classes, m->about.n_classes);
    for (int32_t i = 0; i < m->n_categories && m->class_names; i++)
        m->categories[i].name = m->class_names[map.output[i]];
out:
    class_map_free(&map);
    mem_free(&ids);
    return err;
}

/* Rank 0. */
static err_t read_checkpoint(const char *where, const backend_t *backend, trained_model_t *m)
{
    trained_about_t *about = &m->about;
    checkpoint_t *checkpoint = NULL;
    const char *text;
    err_t err;
    TRY(open_checkpoint(where, about->path, &checkpoint));
    TRY_OUT(err, model_file_graph(checkpoint, &m->graph, &about->norm));
    TRY_OUT(err, find_text(checkpoint, "options", &text));
    if (text) TRY_OUT(err, mem_strdup(text, &m->options));
    if (text) TRY_OUT(err, train_options_transform(text, &about->transform));
    TRY_OUT(err, find_text(checkpoint, "algorithms", &text));
    if (text) TRY_OUT(err, mem_strdup(text, &m->algorithms));
    TRY_OUT(err, find_text(checkpoint, "frozen_layers", &text));
    if (text) TRY_OUT(err, mem_strdup(text, &m->freeze));
    TRY_OUT(err, find_text(checkpoint, "class_names", &text));
    if (text) TRY_OUT(err, mem_strdup(text, &m->class_text));
    TRY_OUT(err, find_text(checkpoint, "data", &text));
    snprintf(about->data, sizeof about->data, "%s", text ? text : "");
    if (checkpoint_find_attr(checkpoint, "threads")) {
        TRY_OUT(err, checkpoint_get_int(checkpoint, "n_ranks", &about->n_ranks));
        TRY_OUT(err, checkpoint_get_int(checkpoint, "threads", &about->n_threads));
    }
    TRY_OUT(err, checkpoint_get_text(checkpoint, "data_xxh3", &text));
    snprintf(about->data_xxh3, sizeof about->data_xxh3, "%s", text);
    TRY_OUT(err, allocate_weights(backend, m));
    TRY_OUT(err,
            model_file_read(checkpoint, m->graph, m->params.host, m->states.host, NULL, &about->averaged));
    snprintf(about->model, sizeof about->model, "%s", m->graph->model);
    about->sample = graph_shape(m->graph, 0);
    about->n_classes = model_classes(m->graph);
    about->compute = m->graph->compute;
    about->detects = rcnn_is(m->graph);
    if (about->detects) about->box_block = rcnn_box_block(m->graph);
    if (about->detects) about->mask_block = rcnn_mask_block(m->graph);
    if (about->detects) about->batch_norm = m->graph->frozen_norms ? MODEL_NORM_FROZEN : MODEL_NORM_BATCH;
    about->norm_epsilon = m->graph->norm_epsilon;
    about->stem = model_stem_of(m->graph);
    about->task = task_of_graph(m->graph, about->transform.task)->id;
    if (m->class_text) {
        /* Names that do not match the number of classes are dropped. */
        int n = 0, n_classes = m->about.n_classes;
        TRY_OUT(err, mem_new_array(n_classes, sizeof *m->class_names, "names of classes", &m->class_names));
        for (char *name = m->class_text, *end; name; name = end ? end + 1 : NULL) {
            end = strchr(name, '\n');
            if (end) *end = '\0';
            if (n < n_classes) m->class_names[n] = name;
            n++;
        }
        if (n != n_classes) mem_free(&m->class_names);
    }
    if (about->detects) err = read_categories(checkpoint, m);
out:
    checkpoint_close(&checkpoint);
    return err;
}

/* The model with one class, to ask a file for what it has. */
static err_t build_any(const trained_about_t *about, graph_t **out)
{
    const int64_t *d = about->sample.dim;
    const model_options_t any = {.sample = shape_3d(d[1], d[2], d[3]), .n_classes = 1, .compute = DTYPE_F32};
    return model_build(about->model, &any, out);
}

/* The number of classes in the file: the outputs of its classifier. */
static err_t count_classes(const char *path, const weights_options_t *options, const trained_about_t *about,
                           int *out)
{
    graph_t *graph = NULL;
    TRY(build_any(about, &graph));
    err_t err = weights_count_classes(path, options->names, graph, out);
    graph_free(&graph);
    return err;
}

/* The stem of a ResNet, from the option or the file. */
static err_t choose_stem(const char *path, const weights_options_t *options, trained_about_t *about)
{
    graph_t *graph = NULL;
    about->stem = model_stem(options->stem);
    if (about->detects || about->stem != MODEL_STEM_AUTO) return ERR_OK;
    TRY(build_any(about, &graph));
    err_t err = ERR_OK;
    if (model_stem_of(graph) != MODEL_STEM_AUTO)
        err = weights_find_stem(path, options->names, graph, &about->stem);
    graph_free(&graph);
    return err;
}

/* What images the weights take, and why. */
static void describe_input(const weights_options_t *options, trained_about_t *about)
{
    const int64_t *d = about->sample.dim;
    snprintf(about->input, sizeof about->input, "%s, %s%s%s", shape_format(shape_3d(d[1], d[2], d[3])).text,
             options->size_of_file ? "from the file"
             : options->input_size ? "--input-size"
                                   : "the default (--input-size)",
             about->stem ? "; stem " : "", about->stem ? model_stems[about->stem] : "");
}

static err_t describe_weights(const char *path, const weights_options_t *options, const dataset_info_t *info,
                              trained_about_t *about)
{
    if (snprintf(about->path, sizeof about->path, "%s", path) >= FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path of the weights is longer than %d bytes", FS_PATH_MAX);
    if (snprintf(about->model, sizeof about->model, "%s", options->model) >= GRAPH_NAME_MAX)
        RAISE(ERR_USAGE, "unknown model '%s'; `dptrain info` lists them", options->model);
    about->weights = true;
    about->detects = model_detects(options->model);
    about->norm_epsilon = options->norm_epsilon;
    about->compute = DTYPE_F32;
    TRY(weights_transform(options, &about->transform));
    if (info) {
        about->sample = shape_4d(1, info->height, info->width, info->channels);
        about->n_classes = info->n_classes;
        about->task = info->task;
        about->norm = info->norm;
        int n = 0;
        TRY(choose_stem(path, options, about));
        if (info->transform[0]) describe_input(options, about);
        if (info->n_classes == 0) return count_classes(path, options, about, &about->n_classes);
        /* Of digits not all may be among the labels. Weights of another model are left to their import. */
        if (strcmp(info->kind, "idx") == 0 && !info->class_names &&
            count_classes(path, options, about, &n) == ERR_OK && n > about->n_classes)
            about->n_classes = n;
        return ERR_OK;
    }
    int64_t size = options->input_size ? options->input_size : TRANSFORM_INPUT_SIZE;
    about->sample = shape_4d(1, size, size, 3);
    about->task = about->transform.task;
    about->norm = pixel_norm_imagenet();
    TRY(choose_stem(path, options, about));
    describe_input(options, about);
    return count_classes(path, options, about, &about->n_classes);
}

err_t trained_import(const char *path, const weights_options_t *options, const dataset_info_t *info,
                     const backend_t *backend, trained_model_t *m)
{
    weights_report_t report;
    TRY(describe_weights(path, options, info, &m->about));
    TRY(build_model(backend, m));
    err_t err = weights_import(path, options->names, m->graph, m->params.host, m->states.host, &report);
    if (err == ERR_DATA && !info)
        return err_context(err, "without --data, %s takes RGB images of %lld pixels", options->model,
                           (long long)m->about.sample.dim[1]);
    TRY(err);
    if (report.prefix[0]) log_note("weights   %s, without the prefix '%s' of all names", path, report.prefix);
    if (report.reinitialized[0])
        RAISE(ERR_DATA, "%s does not have all of %s for the %d classes of %s: %s", path, options->model,
              m->about.n_classes, info ? info->source : "the model", report.reinitialized);
    if (m->about.input[0] && !options->input_size && m->about.stem == MODEL_STEM_SMALL)
        RAISE(
            ERR_USAGE,
            "%s has a network for small images (stem small: %s), whose size it does not say; give training's "
            "--input-size",
            path, model_stem_about(MODEL_STEM_SMALL));
    return ERR_OK;
}

err_t trained_open(comm_t *comm, const char *where, const backend_t *backend, trained_model_t *out)
{
    err_t err = ERR_OK;
    if (trained_is_weights(where)) return ERR_OK;
    if (comm->rank == 0) {
        disk_work_begin("reading", where);
        err = read_checkpoint(where, backend, out);
        disk_wait_end();
    }
    TRY(comm_agree(comm, err, "loading the checkpoint"));
    return trained_share(comm, backend, out);
}

err_t trained_set_threads(const trained_about_t *about, runtime_t *runtime)
{
    if (about->n_ranks != runtime->comm->size || about->n_threads <= 0) return ERR_OK;
    const bool fewer = about->n_threads < runtime->n_threads;
    if (fewer)
        log_detail("threads  %d of %d per rank, as in training", (int)about->n_threads, runtime->n_cpus);
    err_t err = fewer ? runtime_set_threads(runtime, (int)about->n_threads) : ERR_OK;
    return comm_agree(runtime->comm, err, "setting the number of threads");
}

err_t trained_share(comm_t *comm, const backend_t *backend, trained_model_t *m)
{
    static const char what[] = "broadcasting the model's settings";
    int64_t n_bytes = 0;
    void *text = NULL;
    TRY(comm_broadcast(comm, &m->about, sizeof m->about, 0, what));
    err_t err = comm->rank == 0 && !m->freeze ? mem_strdup("", &m->freeze) : ERR_OK;
    TRY(comm_agree(comm, err, what));
    if (m->freeze) text = m->freeze, n_bytes = (int64_t)strlen(m->freeze) + 1;
    err = comm_broadcast_block(comm, &text, &n_bytes, what);
    m->freeze = text;
    TRY(err);
    TRY(comm_agree(comm, comm->rank == 0 ? ERR_OK : build_model(backend, m), "building the model"));
    int64_t n_params = m->graph->n_flat_params, n_states = m->graph->n_flat_states;
    TRY(comm_broadcast(comm, m->params.host, n_params * (int64_t)sizeof(float), 0, "broadcasting weights"));
    return comm_broadcast(comm, m->states.host, n_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}

void trained_free(trained_model_t *m)
{
    graph_free(&m->graph);
    hd_buffer_free(&m->params);
    hd_buffer_free(&m->states);
    mem_free(&m->algorithms);
    mem_free(&m->freeze);
    mem_free(&m->options);
    mem_free(&m->categories);
    mem_free(&m->class_names);
    mem_free(&m->class_text);
}

err_t detector_check_options(const char *model, const opt_group_t *own, int n_own, opt_group_t *groups,
                             int n_groups, const char *const *others)
{
    if (model_detects(model)) {
        for (; *others; others++)
            if (opt_given(groups, n_groups, *others))
                RAISE(ERR_USAGE, "--%s does not apply to detectors such as %s", *others, model);
        return ERR_OK;
    }
    for (int g = 0; g < n_own; g++)
        for (int i = 0; i < own[g].n; i++)
            if (own[g].given >> i & 1)
                RAISE(ERR_USAGE, "--%s applies to detectors such as maskrcnn_resnet50_fpn%s%s",
                      own[g].table[i].key, model ? ", not to " : "; add --model", model ? model : "");
    return ERR_OK;
}

err_t detector_canvases(const trained_model_t *model, const detector_settings_t *settings, canvases_t *out)
{
    detector_settings_t chosen = *settings;
    canvas_options_t saved;
    opt_group_t to = {"", canvas_option_table, n_canvas_options, &chosen.canvas, 0}, from = to;
    char *storage = NULL;
    err_t err;
    from.values = &saved;
    if (model->options) TRY_OUT(err, train_options_canvas(model->options, &saved, &storage));
    for (int i = 0; i < to.n && model->options; i++)
        if (!(settings->canvas_given >> i & 1)) opt_copy(&to, &from, i);
    err = canvases_new(&chosen.canvas, out);
    if (err == ERR_OK && out->exact)
        out->min_sizes[0] = out->min_size, out->n_min_sizes = 1; /* evaluation's */
out:
    mem_free(&storage);
    return err;
}

err_t detector_check_categories(const trained_model_t *model, const category_t *categories,
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

err_t detector_import(const char *path, const weights_options_t *options, const char *source, int n_classes,
                      const backend_t *backend, trained_model_t *out)
{
    enum { SIDE = 224 }; /* of the graph's own canvas; others are planned as images need them */
    dataset_info_t info = {
        .height = SIDE, .width = SIDE, .channels = 3, .task = TASK_CLASSIFY, .norm = pixel_norm_imagenet()};
    snprintf(info.source, sizeof info.source, "the model");
    TRY(trained_import(path, options, &info, backend, out));
    if (source && out->about.n_classes != n_classes)
        RAISE(
            ERR_DATA,
            "%s has %d classes, the background included, but the categories of %s make %d; use the data that the "
            "weights were trained on, or data with the same categories",
            path, out->about.n_classes, source, n_classes);
    return ERR_OK;
}

err_t detector_choose_masks(const graph_t *graph, const char *score, bool *masks)
{
    const bool has = rcnn_has_masks(graph);
    if (!has && strcmp(score, "segm") == 0)
        RAISE(
            ERR_USAGE,
            "--score segm: %s finds no masks; use maskrcnn_resnet50_fpn or another model with masks, or --score "
            "bbox",
            graph->model);
    *masks = has && strcmp(score, "bbox") != 0;
    return ERR_OK;
}

err_t trained_exec_new(const trained_model_t *model, const backend_t *backend, const algorithms_t *algorithms,
                       exec_t **out)
{
    const exec_options_t options = {.graph = model->graph,
                                    .backend = backend,
                                    .params = model->params.device,
                                    .states = model->states.device,
                                    .algorithms = algorithms};
    TRY(hd_buffer_push_all(&model->params));
    TRY(hd_buffer_push_all(&model->states));
    return algorithms ? exec_new(&options, out) : ERR_OK;
}

err_t detector_plan_make(const runtime_t *runtime, const trained_model_t *model, const canvases_t *canvases,
                         detector_plan_t *out)
{
    algorithm_request_t request = {.saved = model->algorithms,
                                   .runtime = runtime,
                                   .graph = model->graph,
                                   .timeout_sec = runtime->comm->options.timeout_sec};
    algorithm_choice_t choice = {.text = NULL};
    shape_t *shapes = NULL;
    err_t err;
    if (!model->about.weights) {
        err = detector_shapes(model->graph, canvases, &shapes);
        TRY_OUT(err, comm_agree(runtime->comm, err, "choosing algorithms"));
        for (; request.n_sizes < canvases->n; request.n_sizes++)
            request.sizes[request.n_sizes] =
                (batch_size_t){1, false, shapes + request.n_sizes * GRAPH_MAX_INPUTS};
        TRY_OUT(err, algorithm_choice_make(&request, &choice));
        /* The checkpoint's table, completed by the rule. A run without one had the backend's defaults. */
        if (choice.table.n > 0) {
            err = rcnn_algorithms(model->graph, runtime->backend, request.sizes, request.n_sizes,
                                  &out->algorithms);
            if (err == ERR_OK)
                err = algorithms_read(&out->algorithms, choice.text, "the checkpoint's algorithms", true);
        }
        TRY_OUT(err, comm_agree(runtime->comm, err, "choosing algorithms"));
    }
    err =
        trained_exec_new(model, runtime->backend, model->about.weights ? NULL : &out->algorithms, &out->exec);
    err = comm_agree(runtime->comm, err, "planning the model");
out:
    algorithm_choice_free(&choice);
    mem_free(&shapes);
    return err;
}

void detector_plan_free(detector_plan_t *plan)
{
    exec_free(&plan->exec);
    algorithms_free(&plan->algorithms);
}
