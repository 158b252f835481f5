/* SPDX-License-Identifier: MIT */
/* Classifies image files with evaluation's batches, transforms and algorithms, and shows the classes. Detectors are
 * left to predict_detector.c, which writes the same kinds of files. */
#include "train/inference/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "data/load/samples.h"
#include "data/show/objects.h"
#include "data/show/sheet.h"
#include "train/run/choose_algorithms.h"
#include "train/task/evaluate.h"

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
    const char *const *names = p->info->class_names;
    if (names)
        snprintf(out.text, sizeof out.text, "%s", names[p->best[i].class]);
    else
        snprintf(out.text, sizeof out.text, "%d", p->best[i].class);
    return out;
}

void prediction_print(const prediction_t *p)
{
    log_info("%s", p->image);
    for (int i = 0; i < p->n; i++) log_info("  %.4f  %s", p->best[i].probability, class_text(p, i).text);
}

void prediction_json(const prediction_t *p, const char *error, json_t *j)
{
    json_record_begin(j, RECORD_PREDICTION);
    json_string(j, "image", p->image);
    if (error) {
        json_string(j, "error", error);
    } else {
        json_array_begin(j, "classes");
        for (int i = 0; i < p->n; i++) {
            json_object_begin(j, NULL);
            json_int(j, "class", p->best[i].class);
            if (p->info->class_names) json_string(j, "name", p->info->class_names[p->best[i].class]);
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

err_t prediction_draw(const prediction_t *p, const image_t *image, page_t **out)
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

typedef struct predict_run {
    const predict_options_t *options;
    const image_list_t *list;
    weights_options_t weights;
    const backend_t *backend;
    comm_t *comm;
    trained_model_t *model;
    dataset_t *data;   /* of --data; may be NULL */
    dataset_info_t as; /* the images as the model takes them */
    dataset_t *files;
    algorithm_choice_t algorithms;
    exec_t *exec;
    evaluator_t evaluator;
    prediction_t prediction; /* of the current image */
    int64_t n_bad;
    prediction_files_t files_out;
    image_decoder_t *decoder;
} predict_run_t;

static err_t read_model(predict_run_t *run, const char *where)
{
    const predict_options_t *o = run->options;
    trained_model_t *m = run->model;
    transform_settings_t transform;
    char data[FS_PATH_MAX], why[128];
    run->weights = o->weights;
    weights_take_size(where, &run->weights);
    if (o->data) {
        transform = m->about.transform;
        if (trained_is_weights(where)) TRY(weights_transform(&run->weights, &transform));
        TRY(dataset_choose(o->data, data, why));
        TRY(dataset_open(data, &transform, &run->data));
    }
    const dataset_info_t *info = run->data ? &run->data->info : NULL;
    if (trained_is_weights(where)) TRY(trained_import(where, &run->weights, info, run->backend, m));
    if (info && info->n_classes != m->about.n_classes)
        RAISE(ERR_DATA, "%s has %d classes, but %s has %d", info->source, info->n_classes, m->about.path,
              m->about.n_classes);
    return ERR_OK;
}

static err_t open_files(predict_run_t *run)
{
    trained_about_t *about = &run->model->about;
    transform_settings_t settings = about->transform;
    const int64_t *d = about->sample.dim;
    run->as =
        (dataset_info_t){.height = d[1],
                         .width = d[2],
                         .channels = d[3],
                         .n_classes = about->n_classes,
                         .class_names = run->data && run->data->info.class_names ? run->data->info.class_names
                                                                                 : run->model->class_names,
                         .task = about->task,
                         .norm = about->norm};
    snprintf(run->as.source, sizeof run->as.source, "the images");
    /* Models of images in memory are recognised by their input, which transforms of folders cannot produce. */
    int64_t size = settings.input_size ? settings.input_size : TRANSFORM_INPUT_SIZE;
    bool resized = d[3] == 3 && d[1] == size && d[2] == size;
    bool annotated = samples_of(about->task)->annotated;
    if (resized) TRY(transform_resolve(&settings, annotated, about->path));
    image_files_options_t options = {run->list, &run->as, resized ? &settings : NULL};
    return image_files_open(&options, &run->files);
}

static err_t write_picture(predict_run_t *run, int64_t index)
{
    const char *path = run->prediction.image;
    char to[FS_PATH_MAX], *file = NULL;
    size_t n_bytes;
    image_t image;
    page_t *page = NULL;
    err_t err;
    if (!run->options->out) return ERR_OK;
    TRY(prediction_files_picture(&run->files_out, index, path, to));
    TRY_OUT(err, image_file_read(path, &file, &n_bytes));
    TRY_OUT(err, image_decode(run->decoder, (image_bytes_t){path, file, n_bytes}, &image));
    TRY_OUT(err, prediction_draw(&run->prediction, &image, &page));
    err = page_write_png(page, to);
out:
    page_free(&page);
    mem_free(&file);
    return err;
}

static err_t take_batch(void *context, const int64_t *index, const float *logits, int64_t n)
{
    predict_run_t *run = context;
    prediction_t *p = &run->prediction;
    for (int64_t i = 0; i < n; i++) {
        p->image = run->list->paths[index[i]];
        const char *error = image_files_error(run->files, index[i]);
        prediction_rank(logits + i * run->as.n_classes, run->as.n_classes, task_of(&run->as)->probability,
                        p->n, p->best);
        err_t err = error ? ERR_OK : write_picture(run, index[i]);
        /* Damage outside the part that the model sees. */
        if (err == ERR_DATA) error = err_message();
        TRY(err == ERR_DATA ? ERR_OK : err);
        if (!error && image_files_black(run->files, index[i])) log_warn(IMAGE_FILES_BLACK, p->image);
        if (!error) prediction_print(p);
        if (error) run->n_bad++, log_warn("%s", error);
        if (!run->files_out.stream) continue;
        prediction_json(p, error, &run->files_out.json);
        TRY(prediction_files_line(&run->files_out));
    }
    return ERR_OK;
}

static err_t build_predictor(predict_run_t *run, const runtime_t *runtime)
{
    trained_model_t *m = run->model;
    TRY(trained_exec_new(m, run->backend, &run->algorithms.table, &run->exec));
    evaluator_options_t options = {.comm = run->comm,
                                   .exec = run->exec,
                                   .backend = run->backend,
                                   .dataset = run->files,
                                   .split = SPLIT_VAL,
                                   .norm = m->about.norm,
                                   .n_threads =
                                       prefetcher_threads(runtime, run->files, run->options->loader_threads),
                                   .timeout_sec = run->options->timeout_sec,
                                   .take = take_batch,
                                   .take_context = run};
    TRY(evaluator_open(&options, &run->evaluator));
    run->prediction.info = &run->as;
    run->prediction.n = (int)(run->options->top < run->as.n_classes ? run->options->top : run->as.n_classes);
    TRY(mem_new_array(run->prediction.n, sizeof *run->prediction.best, "predictions", &run->prediction.best));
    return exec_ready(run->exec);
}

err_t predict_images(runtime_t *runtime, const char *where, trained_model_t *model, const image_list_t *list,
                     const predict_options_t *options)
{
    predict_run_t run = {.options = options,
                         .model = model,
                         .list = list,
                         .backend = runtime->backend,
                         .comm = runtime->comm,
                         .files_out = {.file = {.fd = -1}}};
    const trained_about_t *about = &model->about;
    evaluation_t unused;
    err_t err = ERR_OK;
    if (run.comm->size > 1)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain predict runs on one rank, not %d",
                        run.comm->size);
    TRY(comm_agree(run.comm, err, "starting"));
    TRY_OUT(err, read_model(&run, where));
    TRY_OUT(err, open_files(&run));
    TRY_OUT(err, prediction_files_open(options->out, options->json, &run.files_out));
    if (options->out) TRY_OUT(err, image_decoder_new((image_limits_t){0}, &run.decoder));
    /* Evaluation's, so that an image gets the same scores. */
    algorithm_request_t request = {.saved = model->algorithms,
                                   .runtime = runtime,
                                   .graph = model->graph,
                                   .timeout_sec = options->timeout_sec};
    int64_t n = list->n, batch = evaluation_batch(run.files);
    batch_size_add(request.sizes, &request.n_sizes, n < batch ? n : batch, false);
    batch_size_add(request.sizes, &request.n_sizes, n % batch, false);
    TRY_OUT(err, algorithm_choice_make(&request, &run.algorithms));
    TRY_OUT(err, build_predictor(&run, runtime));
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    table_cell(&t, "model");
    const char *per_image = task_get(about->task)->per_image;
    table_cell(&t, "%s, %d classes%s%s", about->model, about->n_classes, per_image ? ", " : "",
               per_image ? per_image : "");
    if (about->input[0]) {
        table_cell(&t, "images");
        table_cell(&t, "%s", about->input);
    }
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
    TRY_OUT(err, evaluator_run(&run.evaluator, &unused));
    TRY_OUT(err, prediction_files_commit(&run.files_out));
    if (run.n_bad > 0)
        RAISE_OUT(err, ERR_DATA, "%" PRId64 " of %" PRId64 " images could not be read", run.n_bad, list->n);
out:
    prediction_files_close(&run.files_out);
    image_decoder_free(&run.decoder);
    evaluator_close(&run.evaluator);
    mem_free(&run.prediction.best);
    exec_free(&run.exec);
    dataset_close(&run.files);
    dataset_close(&run.data);
    algorithm_choice_free(&run.algorithms);
    return err;
}
