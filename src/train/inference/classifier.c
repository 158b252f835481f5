/* SPDX-License-Identifier: MIT */
/* Classifiers at work: evaluating them on data opened as in training; classifying image files with evaluation's batches,
 * transforms and algorithms. The evaluation itself is left to train/task/evaluate.c. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/load/samples.h"
#include "data/show/objects.h"
#include "data/show/page.h"
#include "data/show/sheet.h"
#include "records/record.h"
#include "train/feed/data.h"
#include "train/inference/trained_model.h"
#include "train/start/choose.h"
#include "train/task/evaluate.h"

/* Where an evaluation finds its data; rank 0 decides. */
typedef struct eval_data {
    char where[FS_PATH_MAX], why[256];
    int64_t input_size; /* of weights_options_t */
} eval_data_t;

/* A model's answer for one image: its best classes. */
typedef struct prediction {
    const char *image; /* path */
    const char *const *names;
    int n; /* of best */
    prediction_class_t *best;
} prediction_t;

typedef struct classifier_run {
    const inference_options_t *options;
    const runtime_t *runtime;
    comm_t *comm;
    const backend_t *backend;
    trained_model_t *model;
    weights_options_t weights; /* with the size that the file has */
    dataset_t *dataset;        /* what runs through the model */
    algorithm_choice_t algorithms;
    exec_t *exec;
    evaluator_t evaluator;
    /* Evaluation. */
    eval_data_t data;
    corrupt_samples_t bad;
    /* Prediction. */
    dataset_t *named;        /* --data; may be NULL */
    dataset_info_t as;       /* the images as the model takes them */
    prediction_t prediction; /* of the current image */
    int64_t n_bad;
    prediction_files_t files;
    image_decoder_t *decoder;
} classifier_run_t;

static err_t check_options(const char *model, const inference_options_t *o, const opt_group_t *groups,
                           int n_groups)
{
    static const char detectors[] = "Detectors"; /* with which the titles of their groups begin */
    if (o->per_category) RAISE(ERR_USAGE, "--per-category requires --results FILE or a detector");
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].given >> i & 1 && strncmp(groups[g].title, detectors, strlen(detectors)) == 0)
                RAISE(ERR_USAGE, "--%s applies to detectors such as maskrcnn_resnet50_fpn, not to %s",
                      groups[g].table[i].key, model);
    return ERR_OK;
}

/* Collective. Training's algorithms and batch sizes, so that results match its own evaluation bit for bit. */
static err_t choose_algorithms(classifier_run_t *run, split_t split)
{
    algorithm_request_t request = {.saved = run->model->algorithms,
                                   .runtime = run->runtime,
                                   .graph = run->model->graph,
                                   .timeout_sec = run->options->timeout_sec};
    int64_t n = run->dataset->info.n_samples[split], batch = evaluation_batch(run->dataset);
    batch_size_add(request.sizes, &request.n_sizes, n < batch ? n : batch, false);
    batch_size_add(request.sizes, &request.n_sizes, n % batch, false);
    return algorithm_choice_make(&request, &run->algorithms);
}

/* more: what evaluation and prediction do not share. */
static err_t plan(classifier_run_t *run, const evaluator_options_t *more)
{
    evaluator_options_t options = *more;
    TRY(trained_exec_new(run->model, run->backend, &run->algorithms.table, &run->exec));
    options.comm = run->comm;
    options.exec = run->exec;
    options.backend = run->backend;
    options.dataset = run->dataset;
    options.task = task_of(&run->dataset->info);
    options.norm = run->model->about.norm;
    options.n_threads = prefetcher_threads(run->runtime, run->dataset, run->options->loader.threads);
    options.timeout_sec = run->options->timeout_sec;
    TRY(evaluator_open(&options, &run->evaluator));
    return exec_ready(run->exec);
}

static void close_run(classifier_run_t *run)
{
    prediction_files_close(&run->files);
    image_decoder_free(&run->decoder);
    evaluator_close(&run->evaluator);
    mem_free(&run->prediction.best);
    exec_free(&run->exec);
    dataset_close(&run->dataset);
    dataset_close(&run->named);
    bad_close(&run->bad);
    algorithm_choice_free(&run->algorithms);
}

/* Rank 0. */
static err_t choose_files(classifier_run_t *run)
{
    const inference_options_t *o = run->options;
    weights_take_size(o->where, &run->weights);
    run->data.input_size = run->weights.input_size;
    if (o->png) TRY(fs_check_target(o->png));
    if (o->json) TRY(fs_check_target(o->json));
    /* --data, or else the checkpoint's data if found here, or else training's default. */
    const char *trained = run->model->about.data;
    const bool lost = !o->data && strchr(trained, '/') && !dataset_is_there(trained);
    if (o->data || lost || !trained[0]) {
        TRY(dataset_choose(o->data, run->data.where, run->data.why));
        const size_t used = strlen(run->data.why), n = sizeof run->data.why - used;
        const char *name = strlen(trained) < 64 ? trained : "data";
        if (lost) snprintf(run->data.why + used, n, "; training's %s is not here", name);
        return ERR_OK;
    }
    TRY(dataset_choose(trained, run->data.where, run->data.why));
    snprintf(run->data.why, sizeof run->data.why, "from the checkpoint");
    return ERR_OK;
}

/* Rank 0, which alone has the model's names. IDX files have as many classes as their labels show; a few images may show
 * only the first of the model's. */
static bool shows_first_classes(const dataset_t *dataset, const trained_model_t *model)
{
    const dataset_info_t *info = &dataset->info;
    const char *const *names = info->class_names, *const *others = model->class_names;
    bool same = !dataset->read && info->n_classes < model->about.build.n_classes;
    for (int k = 0; same && k < info->n_classes; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", k);
        same = strcmp(names ? names[k] : number, others ? others[k] : number) == 0;
    }
    return same;
}

/* Rank 0. A folder may lack classes of the model, so that labels are matched by the classes' names. */
static err_t match_classes(const dataset_info_t *info, const trained_model_t *model, int32_t *labels)
{
    const int n = model->about.build.n_classes;
    for (int i = 0, next = 0; i < info->n_classes; i++) {
        int k = 0; /* both are usually in the same order */
        while (k < n && strcmp(info->class_names[i], model->class_names[(next + k) % n]) != 0) k++;
        if (k == n)
            RAISE(ERR_DATA, "%s has the class %s, which the model lacks", info->source, info->class_names[i]);
        labels[i] = (next + k) % n;
        next = labels[i] + 1;
    }
    return ERR_OK;
}

/* Collective. */
static err_t take_labels(classifier_run_t *run)
{
    static const char what[] = "comparing classes";
    const trained_model_t *model = run->model;
    const dataset_info_t *info = &run->dataset->info;
    int32_t *labels = NULL;
    bool named = run->comm->rank == 0 && model->class_names && dataset_has_labels(run->dataset);
    TRY(comm_broadcast(run->comm, &named, sizeof named, 0, what));
    if (!named) return ERR_OK;
    err_t err = mem_new_array(info->n_classes, sizeof *labels, what, &labels);
    if (err == ERR_OK && run->comm->rank == 0) err = match_classes(info, model, labels);
    TRY_OUT(err, comm_agree(run->comm, err, what));
    TRY_OUT(err, comm_broadcast(run->comm, labels, (size_t)info->n_classes * sizeof *labels, 0, what));
    TRY_OUT(err, comm_agree(run->comm, dataset_set_labels(run->dataset, labels, model->about.build.n_classes),
                            what));
out:
    mem_free(&labels);
    return err;
}

static err_t check_data(classifier_run_t *run)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    const split_t split = run->options->split;
    const task_t *task = task_of(info), *trained = task_of_graph(run->model->graph, info->task);
    if (strcmp(trained->about, task->about) != 0)
        RAISE(ERR_DATA, "the samples of %s have %s, but the checkpoint was trained on samples with %s",
              info->source, task->about, trained->about);
    if (!task->scoring->draw && run->options->png)
        RAISE(ERR_USAGE, "--png: evaluations of the task %s (%s) have no picture", task->name, info->source);
    if (info->n_samples[split] == 0)
        RAISE(ERR_DATA, "%s has no %s samples; --split %s evaluates the %s samples", info->source,
              split_words[split], split_names[!split], split_words[!split]);
    const shape_t have = shape_3d(info->height, info->width, info->channels), want = about->build.sample;
    if (!shape_equal(have, want) || info->n_classes != about->build.n_classes)
        RAISE(ERR_DATA, "%s has images of %s in %d classes, but the checkpoint was trained on %s in %d",
              info->source, shape_format(have).text, info->n_classes, shape_format(want).text,
              about->build.n_classes);
    return ERR_OK;
}

static bool has_training_data(const classifier_run_t *run)
{
    return strcmp(dataset_hash(&run->dataset->info).text, run->model->about.data_xxh3) == 0;
}

/* Collective. A checkpoint determines how its data is opened; data determines the model that weights are imported
 * into. */
static err_t open_data_and_model(classifier_run_t *run)
{
    const inference_options_t *o = run->options;
    const bool weights = run->model->about.weights;
    transform_settings_t transform = {0};
    err_t err = ERR_OK;
    run->weights = o->weights;
    TRY(comm_agree(run->comm, run->comm->rank == 0 ? choose_files(run) : ERR_OK, "choosing data"));
    TRY(comm_broadcast(run->comm, &run->data, sizeof run->data, 0, "choosing data"));
    run->weights.input_size = run->data.input_size;
    if (weights) TRY(comm_agree(run->comm, weights_transform(&run->weights, &transform), "opening data"));
    TRY(comm_agree(run->comm, bad_open(o->loader.max_bad, &run->bad), "opening data"));
    const list_rules_t saved = run->model->about.transform.list;
    if (!weights) transform = run->model->about.transform;
    transform.list = list_rules(&o->loader.list, o->loader.max_bad);
    if (!weights) list_rules_inherit(&transform.list, &saved);
    TRY(train_open_data(run->comm, run->data.where, &transform, &run->dataset));
    /* The run's share is of its own data. */
    if (transform.list.holdout.share > 0 && !has_training_data(run)) {
        log_warn("%s is not the data whose images the run held out (--val-split): it is evaluated as it is",
                 run->data.where);
        dataset_close(&run->dataset);
        transform.list.holdout.share = 0;
        TRY(train_open_data(run->comm, run->data.where, &transform, &run->dataset));
    }
    if (weights) {
        if (run->comm->rank == 0)
            err = trained_import(o->where, &run->weights, &run->dataset->info, run->backend, run->model);
        TRY(comm_agree(run->comm, err, "reading the weights"));
        TRY(trained_share(run->comm, run->backend, run->model));
    }
    bool more = run->comm->rank == 0 && shows_first_classes(run->dataset, run->model);
    TRY(comm_broadcast(run->comm, &more, sizeof more, 0, "comparing classes"));
    if (more) {
        run->dataset->info.n_classes = run->model->about.build.n_classes;
        run->dataset->info.class_names = run->model->class_names;
    }
    TRY(take_labels(run));
    return comm_agree(run->comm, check_data(run), "opening data");
}

/* Metrics to four digits. */
static void print_result(const classifier_run_t *run, const char *const *names, const evaluation_t *eval)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    const task_metrics_t *metrics = &run->evaluator.metrics;
    char data[FS_PATH_MAX + 512];
    snprintf(data, sizeof data, "%s (%s), %lld %s samples", info->source, run->data.why, (long long)eval->n,
             split_words[run->options->split]);
    table_t t = trained_table(about, NULL, data, info->about, !about->weights && !has_training_data(run));
    /* The first metric, the loss, comes last. */
    for (int k = 1; k <= metrics->n; k++) {
        int i = k % metrics->n;
        if (metrics->at[i]->always_null) continue;
        table_cell(&t, "%s", metrics->at[i]->label);
        table_cell(&t, "%.4f", eval->values[i]);
    }
    table_log(&t);
    table_free(&t);
    run->evaluator.task->scoring->print(&run->evaluator.evaluation, names);
}

/* One JSON object with all digits; docs/records.md describes its fields. */
static err_t write_result(const classifier_run_t *run, const evaluation_t *eval, const char *path)
{
    const trained_about_t *about = &run->model->about;
    const dataset_info_t *info = &run->dataset->info;
    const task_metrics_t *metrics = &run->evaluator.metrics;
    json_t j = {0};
    record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->path);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "precision", model_precision(about->build.compute));
    json_string(&j, "data", info->source);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(run));
    json_string(&j, "split", split_names[run->options->split]);
    json_int(&j, "n_samples", eval->n);
    for (int i = 0; i < metrics->n; i++)
        if (!metrics->at[i]->always_null) json_real(&j, metrics->at[i]->name, eval->values[i]);
    run->evaluator.task->scoring->json(&run->evaluator.evaluation, &j);
    json_object_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}

/* Rank 0 prints and writes. */
static err_t show_result(const classifier_run_t *run, const evaluation_t *eval)
{
    const inference_options_t *o = run->options;
    const char *const *names = run->dataset->info.class_names;
    if (!names) names = run->model->class_names;
    print_result(run, names, eval);
    if (run->comm->rank != 0) return ERR_OK;
    err_t err = ERR_OK;
    if (o->json) {
        disk_wait_begin("writing", o->json);
        err = write_result(run, eval, o->json);
        disk_wait_end();
    }
    if (err != ERR_OK || !o->png) return err;
    page_t *page = NULL;
    char shown[TASK_PICTURE_TEXT_MAX];
    TRY(run->evaluator.task->scoring->draw(&run->evaluator.evaluation, names, run->model->about.path, &page,
                                           shown));
    disk_wait_begin("writing", o->png);
    err = page_write_png(page, o->png);
    disk_wait_end();
    page_free(&page);
    if (err == ERR_OK) log_info("\nimage    %s, %s", o->png, shown);
    return err;
}

static err_t evaluate(runtime_t *runtime, trained_model_t *model, const inference_options_t *o)
{
    classifier_run_t run = {.options = o,
                            .runtime = runtime,
                            .comm = runtime->comm,
                            .backend = runtime->backend,
                            .model = model,
                            .files = {.file = {.fd = -1}}};
    evaluation_t eval;
    err_t err;
    TRY_OUT(err, open_data_and_model(&run));
    if (!o->threads_given) TRY_OUT(err, trained_set_threads(&model->about, runtime));
    TRY_OUT(err, choose_algorithms(&run, o->split));
    const evaluator_options_t more = {.split = o->split,
                                      .bad = run.dataset->read ? &run.bad : NULL,
                                      .n_worst = o->png ? (int)o->n_worst : 0};
    TRY_OUT(err, comm_agree(run.comm, plan(&run, &more), "planning the model"));
    TRY_OUT(err, evaluator_run(&run.evaluator, &eval));
    TRY_OUT(err, comm_agree(run.comm, show_result(&run, &eval), "showing the result"));
out:
    close_run(&run);
    return err;
}

/* NaN ranks below all other scores. */
static bool is_better(const float *logits, int a, int b)
{
    if (isnan(logits[a]) || isnan(logits[b])) return !isnan(logits[a]) || (isnan(logits[b]) && a < b);
    return logits[a] > logits[b] || (!(logits[a] < logits[b]) && a < b);
}

void prediction_rank(const float *logits, int n_classes,
                     double (*probability)(const float *logits, int n_classes, int k), int n,
                     prediction_class_t *out)
{
    int n_kept = 0;
    for (int k = 0; k < n_classes; k++) {
        int at = n_kept < n ? n_kept++ : n;
        for (; at > 0 && is_better(logits, k, out[at - 1].class); at--)
            if (at < n) out[at] = out[at - 1];
        if (at < n) out[at].class = k;
    }
    for (int i = 0; i < n; i++) out[i].probability = probability(logits, n_classes, out[i].class);
}

/* The class's name, or its number. */
typedef struct class_text {
    char text[256];
} class_text_t;

static class_text_t class_text(const prediction_t *p, int i)
{
    class_text_t out;
    if (p->names)
        snprintf(out.text, sizeof out.text, "%s", p->names[p->best[i].class]);
    else
        snprintf(out.text, sizeof out.text, "%d", p->best[i].class);
    return out;
}

static void print_prediction(const prediction_t *p)
{
    log_info("%s", p->image);
    for (int i = 0; i < p->n; i++) log_info("  %.4f  %s", p->best[i].probability, class_text(p, i).text);
}

/* docs/records.md describes the fields.
 *
 *   error  why the image could not be read, instead of its classes; or NULL */
static void write_prediction(const prediction_t *p, const char *error, json_t *j)
{
    record_begin(j, RECORD_PREDICTION);
    json_string(j, "image", p->image);
    if (error) {
        json_string(j, "error", error);
    } else {
        json_array_begin(j, "classes");
        for (int i = 0; i < p->n; i++) {
            json_object_begin(j, NULL);
            json_int(j, "class", p->best[i].class);
            if (p->names) json_string(j, "name", p->names[p->best[i].class]);
            json_real(j, "probability", p->best[i].probability);
            json_object_end(j);
        }
        json_array_end(j);
    }
    json_object_end(j);
}

/* In pixels. */
enum { LINE = 22, SCALE = 2, BAR = 18, NUMBER = 92 };

static const rgb_t ink = {32, 36, 42}, faint = {100, 106, 114}, bar_blue = {176, 203, 232};

/* Draws the image, reduced or enlarged to a handy size, above its classes. */
static err_t draw_prediction(const prediction_t *p, const image_t *image, page_t **out)
{
    page_box_t at;
    char text[32];
    TRY(single_page(image, (p->n + 1) * LINE, &at, out));
    page_t *page = *out;
    int64_t y = at.y + at.height + SINGLE_GAP;
    const int64_t width = page->width - 2 * SINGLE_MARGIN;
    caption_fitting(page, SINGLE_MARGIN, y, width, (text_style_t){1, faint}, p->image);
    y += LINE;
    for (int i = 0; i < p->n; i++, y += LINE) {
        double probability = p->best[i].probability;
        const double share = probability > 0 ? fmin(probability, 1) : 0; /* NaN: 0 */
        const int64_t filled = (int64_t)(share * (double)width);
        page_fill(page, (page_box_t){SINGLE_MARGIN, y, filled, BAR}, bar_blue);
        snprintf(text, sizeof text, "%.4f", probability);
        page_text(page, SINGLE_MARGIN + 2, y + 2, (text_style_t){SCALE, ink}, text);
        caption_fitting(page, SINGLE_MARGIN + NUMBER, y + 2, width - NUMBER, (text_style_t){SCALE, ink},
                        class_text(p, i).text);
    }
    return ERR_OK;
}

static err_t read_model(classifier_run_t *run)
{
    const inference_options_t *o = run->options;
    trained_model_t *m = run->model;
    transform_settings_t transform;
    char data[FS_PATH_MAX], why[128];
    run->weights = o->weights;
    weights_take_size(o->where, &run->weights);
    if (o->data) {
        transform = m->about.transform;
        if (m->about.weights) TRY(weights_transform(&run->weights, &transform));
        TRY(dataset_choose(o->data, data, why));
        TRY(dataset_open(data, &transform, &run->named));
    }
    const dataset_info_t *info = run->named ? &run->named->info : NULL;
    if (m->about.weights) TRY(trained_import(o->where, &run->weights, info, run->backend, m));
    if (info && info->n_classes != m->about.build.n_classes)
        RAISE(ERR_DATA, "%s has %d classes, but %s has %d", info->source, info->n_classes, m->about.path,
              m->about.build.n_classes);
    return ERR_OK;
}

static err_t open_files(classifier_run_t *run)
{
    trained_about_t *about = &run->model->about;
    transform_settings_t settings = about->transform;
    const int64_t *d = about->build.sample.dim;
    run->as = (dataset_info_t){.height = d[0],
                               .width = d[1],
                               .channels = d[2],
                               .n_classes = about->build.n_classes,
                               .class_names = run->named && run->named->info.class_names && !about->classes[0]
                                                  ? run->named->info.class_names
                                                  : run->model->class_names,
                               .task = about->task,
                               .norm = about->norm};
    snprintf(run->as.source, sizeof run->as.source, "the images");
    /* Models of images in memory are recognised by their input, which transforms of folders cannot produce. */
    int64_t size = settings.input_size ? settings.input_size : TRANSFORM_INPUT_SIZE;
    bool resized = d[2] == 3 && d[0] == size && d[1] == size;
    bool annotated = samples_of(about->task)->annotated;
    if (resized) TRY(transform_resolve(&settings, annotated, about->path));
    image_files_options_t options = {run->options->images, &run->as, resized ? &settings : NULL};
    return image_files_open(&options, &run->dataset);
}

static err_t write_picture(classifier_run_t *run, int64_t index)
{
    const char *path = run->prediction.image;
    char to[FS_PATH_MAX], *file = NULL;
    size_t n_bytes;
    image_t image;
    page_t *page = NULL;
    err_t err;
    if (!run->options->out) return ERR_OK;
    TRY(prediction_files_picture(&run->files, index, path, to));
    TRY_OUT(err, image_file_read(path, &file, &n_bytes));
    TRY_OUT(err, image_decode(run->decoder, (image_bytes_t){path, file, n_bytes}, &image));
    TRY_OUT(err, draw_prediction(&run->prediction, &image, &page));
    err = page_write_png(page, to);
out:
    page_free(&page);
    mem_free(&file);
    return err;
}

static err_t take_batch(void *context, const int64_t *index, const float *logits, int64_t n)
{
    classifier_run_t *run = context;
    prediction_t *p = &run->prediction;
    for (int64_t i = 0; i < n; i++) {
        p->image = run->options->images->paths[index[i]];
        const char *error = image_files_error(run->dataset, index[i]);
        prediction_rank(logits + i * run->as.n_classes, run->as.n_classes,
                        task_of(&run->as)->scoring->probability, p->n, p->best);
        err_t err = error ? ERR_OK : write_picture(run, index[i]);
        /* Damage outside the part that the model sees. */
        if (err == ERR_DATA) error = err_message();
        TRY(err == ERR_DATA ? ERR_OK : err);
        if (!error && image_files_black(run->dataset, index[i])) log_warn(IMAGE_FILES_BLACK, p->image);
        if (!error) print_prediction(p);
        if (error) run->n_bad++, log_warn("%s", error);
        if (!run->files.stream) continue;
        write_prediction(p, error, &run->files.json);
        TRY(prediction_files_line(&run->files));
    }
    return ERR_OK;
}

static err_t predict(runtime_t *runtime, trained_model_t *model, const inference_options_t *o)
{
    classifier_run_t run = {.options = o,
                            .runtime = runtime,
                            .comm = runtime->comm,
                            .backend = runtime->backend,
                            .model = model,
                            .files = {.file = {.fd = -1}}};
    const evaluator_options_t more = {.split = SPLIT_VAL, .take = take_batch, .take_context = &run};
    evaluation_t unused;
    err_t err;
    TRY_OUT(err, read_model(&run));
    TRY_OUT(err, open_files(&run));
    TRY_OUT(err, prediction_files_open(o->out, o->json, &run.files));
    if (o->out) TRY_OUT(err, image_decoder_new((image_limits_t){0}, &run.decoder));
    TRY_OUT(err, choose_algorithms(&run, SPLIT_VAL));
    TRY_OUT(err, plan(&run, &more));
    run.prediction.names = run.as.class_names;
    run.prediction.n = (int)(o->top < run.as.n_classes ? o->top : run.as.n_classes);
    TRY_OUT(err, mem_new_array(run.prediction.n, sizeof *run.prediction.best, "predictions",
                               &run.prediction.best));
    const char *per_image = task_get(model->about.task)->per_image;
    char text[128];
    snprintf(text, sizeof text, "%d classes%s%s", run.as.n_classes, per_image ? ", " : "",
             per_image ? per_image : "");
    table_t t = trained_table(&model->about, text, NULL, NULL, false);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
    TRY_OUT(err, evaluator_run(&run.evaluator, &unused));
    TRY_OUT(err, prediction_files_commit(&run.files));
    if (run.n_bad > 0)
        RAISE_OUT(err, ERR_DATA, "%" PRId64 " of %" PRId64 " images could not be read", run.n_bad,
                  o->images->n);
out:
    close_run(&run);
    return err;
}

const inference_t inference_classifier = {
    .check_options = check_options, .evaluate = evaluate, .predict = predict};
