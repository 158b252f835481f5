/* SPDX-License-Identifier: MIT */
/* What classifiers and detectors share: reading a trained model on rank 0 and rebuilding it on all ranks, the options of
 * weights, the files of predictions. Choosing data is left to the kinds of models. */
#include "train/inference/trained_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "cluster/session/disk_wait.h"
#include "store/checkpoint/arrays.h"
#include "train/start/options.h"
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
     "epsilon of norms; torchvision's published detectors have 0", OPT_MORE},
};
const int n_weights_options = sizeof weights_option_table / sizeof weights_option_table[0];

/* Whether the path names weights rather than a checkpoint. */
static bool is_weights(const char *path)
{
    return arrays_named(path) && !fs_is_folder(path);
}

err_t weights_options_check(const inference_options_t *options, const opt_group_t *group)
{
    const weights_options_t *o = &options->weights;
    if (is_weights(options->where)) {
        if (!o->model)
            RAISE(ERR_USAGE, "%s needs --model NAME; dptrain info lists the models", options->where);
        return model_stem(o->stem) == MODEL_STEM_AUTO ? ERR_OK : model_check_residual(o->model, "stem");
    }
    if (group->given) TRY(weights_check_file(options->where));
    for (int i = 0; i < group->n; i++)
        if (group->given >> i & 1)
            RAISE(ERR_USAGE, "--%s applies to weights; the checkpoint %s has its own", group->table[i].key,
                  options->where);
    return ERR_OK;
}

void weights_take_size(const char *path, weights_options_t *o)
{
    weights_note_t note;
    if (o->input_size || !o->model) return;
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
    model_options_t options = about->build;
    options.norm_epsilon = &about->norm_epsilon;
    options.freeze = m->freeze && m->freeze[0] ? m->freeze : NULL;
    options.multi_label = task_get(about->task)->multi_label;
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
        if (err == ERR_OK || try == TRIES || fs_exists(path) || strcmp(path, where) == 0) return err;
    }
}

/* A text attribute; NULL if it is missing. Free it with mem_free. */
static err_t copy_text(const checkpoint_t *checkpoint, const char *name, char **out)
{
    const char *text;
    if (!checkpoint_find_attr(checkpoint, name)) return ERR_OK;
    TRY(checkpoint_get_text(checkpoint, name, &text));
    return mem_strdup(text, out);
}

/* Names classes by the lines of class_text; by nothing if they are not as many. */
static err_t split_class_names(trained_model_t *m)
{
    int n = 0, n_classes = m->about.build.n_classes;
    TRY(mem_new_array(n_classes, sizeof *m->class_names, "names of classes", &m->class_names));
    for (char *name = m->class_text, *end; name; name = end ? end + 1 : NULL) {
        end = strchr(name, '\n');
        if (end) *end = '\0';
        if (n < n_classes) m->class_names[n] = name;
        n++;
    }
    if (n != n_classes) mem_free(&m->class_names);
    return ERR_OK;
}

/* Of weights, by the file beside them, if it is there. */
static err_t read_class_names(const char *path, trained_model_t *m)
{
    enum { TEXT_MAX = 1 << 24 };
    char beside[FS_PATH_MAX];
    size_t n = 0;
    TRY(weights_classes_path(path, beside));
    if (!fs_exists(beside)) return ERR_OK;
    err_t err = fs_read_text(beside, TEXT_MAX, &m->class_text);
    if (err != ERR_OK) return err_context(ERR_DATA, "names of classes");
    for (const char *at = m->class_text; *at; at++) /* lines may end in \r\n */
        if (*at != '\r') m->class_text[n++] = *at;
    while (n > 0 && m->class_text[n - 1] == '\n') n--;
    m->class_text[n] = '\0';
    TRY(split_class_names(m));
    if (m->class_names)
        snprintf(m->about.classes, sizeof m->about.classes, "%s", beside);
    else
        log_warn("%s does not have a line for each of the model's %d classes, and is left out", beside,
                 m->about.build.n_classes);
    return ERR_OK;
}

/* Rank 0. */
static err_t read_checkpoint(const char *where, const backend_t *backend, trained_read_t read_rest,
                             trained_model_t *m)
{
    trained_about_t *about = &m->about;
    checkpoint_t *checkpoint = NULL;
    const char *text;
    err_t err;
    TRY(open_checkpoint(where, about->path, &checkpoint));
    TRY_OUT(err, model_file_graph(checkpoint, &m->graph, &about->norm));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "options", &text));
    TRY_OUT(err, mem_strdup(text, &m->options));
    TRY_OUT(err, train_options_transform(m->options, &about->transform));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "algorithms", &text));
    TRY_OUT(err, mem_strdup(text, &m->algorithms));
    TRY_OUT(err, copy_text(checkpoint, "frozen_layers", &m->freeze));
    TRY_OUT(err, copy_text(checkpoint, "class_names", &m->class_text));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "data", &text));
    snprintf(about->data, sizeof about->data, "%s", text);
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
    about->build = model_options_of(m->graph);
    about->norm_epsilon = m->graph->norm_epsilon;
    about->task = task_of_graph(m->graph, about->transform.task)->id;
    if (m->class_text) TRY_OUT(err, split_class_names(m));
    err = read_rest(checkpoint, m);
out:
    checkpoint_close(&checkpoint);
    return err;
}

/* The number of classes in the file: the outputs of its classifier. */
static err_t count_classes(const char *path, const weights_options_t *options, const trained_about_t *about,
                           int *out)
{
    const model_options_t any = {.sample = about->build.sample, .n_classes = 1, .compute = DTYPE_F32};
    graph_t *graph = NULL;
    TRY(model_build(about->model, &any, &graph));
    err_t err = weights_count_classes(path, options->names, graph, out);
    graph_free(&graph);
    return err;
}

/* From the options or the file. */
static err_t choose_form(const char *path, const weights_options_t *options, trained_about_t *about)
{
    model_form_t form;
    TRY(weights_find_form(path, options->names, about->model, about->build.sample, &form));
    const model_stem_t stem = model_stem(options->stem);
    about->build.stem = stem == MODEL_STEM_AUTO ? form.stem : stem;
    about->build.norm = form.norm;
    about->build.heads = form.heads;
    about->build.stride_1x1 = form.stride_1x1;
    if (about->build.n_classes == 0) about->build.n_classes = form.n_outputs;
    return ERR_OK;
}

/* What images the weights take, and why. */
static void describe_input(const weights_options_t *options, trained_about_t *about)
{
    const model_stem_t stem = about->build.stem;
    snprintf(about->input, sizeof about->input, "%s, %s%s%s", shape_format(about->build.sample).text,
             options->size_of_file ? "from the file"
             : options->input_size ? "--input-size"
                                   : "the default (--input-size)",
             stem ? "; stem " : "", stem ? model_stems[stem] : "");
}

static err_t describe_weights(const char *path, const weights_options_t *options, const dataset_info_t *info,
                              trained_about_t *about)
{
    if (snprintf(about->path, sizeof about->path, "%s", path) >= FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path of the weights is longer than %d bytes", FS_PATH_MAX);
    if (snprintf(about->model, sizeof about->model, "%s", options->model) >= GRAPH_NAME_MAX)
        RAISE(ERR_USAGE, "unknown model '%s'; `dptrain info` lists them", options->model);
    about->norm_epsilon = options->norm_epsilon;
    about->build.compute = DTYPE_F32;
    TRY(weights_transform(options, &about->transform));
    if (info) {
        about->build.sample = shape_3d(info->height, info->width, info->channels);
        about->build.n_classes = info->n_classes;
        about->task = info->task;
        about->norm = info->norm;
        int n = 0;
        TRY(choose_form(path, options, about));
        if (info->transform[0]) describe_input(options, about);
        if (info->n_classes == 0 && about->build.n_classes > 0) return ERR_OK; /* a detector's */
        if (info->n_classes == 0) return count_classes(path, options, about, &about->build.n_classes);
        /* Of digits not all may be among the labels. Weights of another model are left to their import. */
        if (strcmp(info->kind, "idx") == 0 && !info->class_names &&
            count_classes(path, options, about, &n) == ERR_OK && n > about->build.n_classes)
            about->build.n_classes = n;
        return ERR_OK;
    }
    int64_t size = options->input_size ? options->input_size : TRANSFORM_INPUT_SIZE;
    about->build.sample = shape_3d(size, size, 3);
    about->task = about->transform.task;
    about->norm = pixel_norm_imagenet();
    TRY(choose_form(path, options, about));
    describe_input(options, about);
    return count_classes(path, options, about, &about->build.n_classes);
}

err_t trained_import(const char *path, const weights_options_t *options, const dataset_info_t *info,
                     const backend_t *backend, trained_model_t *m)
{
    weights_report_t report;
    TRY(describe_weights(path, options, info, &m->about));
    TRY(build_model(backend, m));
    TRY(read_class_names(path, m));
    err_t err = weights_import(path, options->names, m->graph, m->params.host, m->states.host, &report);
    if (err == ERR_DATA && !info)
        return err_context(err, "without --data, %s takes RGB images of %lld pixels", options->model,
                           (long long)m->about.build.sample.dim[0]);
    TRY(err);
    if (report.prefix[0]) log_note("weights   %s, without the prefix '%s' of all names", path, report.prefix);
    if (report.reinitialized[0])
        RAISE(ERR_DATA, "%s does not have all of %s for the %d classes of %s: %s", path, options->model,
              m->about.build.n_classes, info ? info->source : "the model", report.reinitialized);
    if (m->about.input[0] && !options->input_size && m->about.build.stem == MODEL_STEM_SMALL)
        RAISE(
            ERR_USAGE,
            "%s has a network for small images (stem small: %s), whose size it does not say; give training's "
            "--input-size",
            path, model_stem_about(MODEL_STEM_SMALL));
    return ERR_OK;
}

err_t trained_open(comm_t *comm, const char *where, const backend_t *backend, trained_read_t read_rest,
                   trained_model_t *out)
{
    err_t err = ERR_OK;
    out->about.weights = is_weights(where);
    if (out->about.weights) return ERR_OK;
    if (comm->rank == 0) {
        disk_work_begin("reading", where);
        err = read_checkpoint(where, backend, read_rest, out);
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

table_t trained_table(const trained_about_t *about, const char *model, const char *data, const char *lines,
                      bool is_other)
{
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    if (model) {
        table_cell(&t, "model");
        table_cell(&t, "%s, %s", about->model, model);
    }
    if (about->input[0]) {
        table_cell(&t, "images");
        table_cell(&t, "%s", about->input);
    }
    if (about->classes[0]) {
        table_cell(&t, "classes");
        table_cell(&t, "%s", about->classes);
    }
    if (!data) return t;
    if (about->build.compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->build.compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s", data);
    int n;
    for (const char *rest = lines, *line; (line = print_next_line(&rest, &n));) {
        table_cell(&t, "%s", "");
        table_cell(&t, "%.*s", n, line);
    }
    if (is_other) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    return t;
}

err_t prediction_files_open(const char *folder, const char *json, prediction_files_t *out)
{
    *out = (prediction_files_t){.folder = folder, .file = {.fd = -1}};
    if (folder) {
        TRY(fs_make_folder(folder));
        TRY(fs_check_writable(folder));
    }
    if (!json) return ERR_OK;
    TRY(fs_temp_open(&out->file, "file", json));
    return fs_temp_stream(&out->file, &out->stream);
}

err_t prediction_files_line(prediction_files_t *files)
{
    TRY(files->json.status);
    if (files->stream && fprintf(files->stream, "%s\n", files->json.text) < 0)
        return fs_temp_fail(&files->file, errno);
    json_reset(&files->json);
    return ERR_OK;
}

err_t prediction_files_picture(const prediction_files_t *files, int64_t index, const char *image,
                               char out[FS_PATH_MAX])
{
    char name[300];
    const char *slash = strrchr(image, '/'), *base = slash ? slash + 1 : image, *dot = strrchr(base, '.');
    int n = dot ? (int)(dot - base) : (int)strlen(base);
    snprintf(name, sizeof name, "%06" PRId64 "-%.*s.png", index + 1, n < 240 ? n : 240, base);
    return fs_join(out, files->folder, name);
}

err_t prediction_files_commit(prediction_files_t *files)
{
    FILE *stream = files->stream;
    if (!stream) return ERR_OK;
    files->stream = NULL;
    if (fclose(stream) != 0) return fs_temp_fail(&files->file, errno);
    return fs_temp_commit(&files->file);
}

void prediction_files_close(prediction_files_t *files)
{
    if (files->stream) fclose(files->stream);
    files->stream = NULL;
    fs_temp_discard(&files->file);
    json_free(&files->json);
}
