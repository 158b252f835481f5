/* SPDX-License-Identifier: MIT */
/* Runs a detector over image files. Drawing is data/show's. */
#include "train/inference/predict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "compute/models/model.h"
#include "data/annotation/sample.h"
#include "data/show/sheet.h"
#include "data/source/source.h"

typedef struct predict_detector {
    const predict_detector_options_t *options;
    const image_list_t *list;
    const runtime_t *runtime;
    source_t *source; /* of --data, a folder */
    truths_t *truths; /* of --data, a file */
    class_map_t map;
    arena_t names;
    const category_t *categories;
    int32_t n_categories;
    bool named; /* categories have names */
    trained_model_t *model;
    canvases_t canvases;
    bool masks;
    detector_plan_t plan;
    detector_t *detector;
    image_decoder_t *decoder;
    prediction_files_t files;
    /* Of the current image. */
    char *file;
    detection_t *detections;
    arena_t texts;
    detected_t drawn;
    int64_t n_bad;
} predict_detector_t;

static err_t read_weights(predict_detector_t *run, const char *where)
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
    if (run->categories) TRY(class_map_new(run->categories, run->n_categories, &run->map));
    if (trained_is_weights(where))
        TRY(detector_import(where, &run->options->weights, data, run->map.n_classes, run->runtime->backend,
                            run->model));
    else if (data)
        TRY(detector_check_categories(run->model, run->categories, run->n_categories, data));
    if (!run->categories) {
        /* Weights without --data: classes are their own names. */
        const int n = model_classes(run->model->graph) - 1;
        category_t *categories;
        TRY(arena_new(&run->names, (size_t)(n + 1) * sizeof *categories, &categories));
        for (int i = 0; i < n; i++) {
            categories[i] = (category_t){.id = i + 1, .supergroup = ""};
            TRY(arena_format(&run->names, &categories[i].name, "%d", i + 1));
        }
        run->categories = categories;
        run->n_categories = n;
        TRY(class_map_new(categories, n, &run->map));
    }
    run->named = run->options->data || (run->model->categories && run->model->class_names);
    return detector_choose_masks(run->model->graph, "auto", &run->masks);
}

static err_t read_image(predict_detector_t *run, int64_t i, image_bytes_t *bytes, image_info_t *info)
{
    char *file = NULL;
    mem_free(&run->file);
    bytes->name = run->list->paths[i];
    TRY(image_file_read(bytes->name, &file, &bytes->n_bytes));
    bytes->bytes = run->file = file;
    return image_info(*bytes, info);
}

static err_t start(predict_detector_t *run)
{
    const predict_detector_options_t *o = run->options;
    char json[FS_PATH_MAX];
    if (o->out && !o->json) TRY(fs_join(json, o->out, "predictions.json"));
    TRY(prediction_files_open(o->out, o->json ? o->json : o->out ? json : NULL, &run->files));
    /* Exact canvases need the sizes of all images. What is wrong with one is said when its turn comes. */
    TRY(detector_canvases(run->model, &run->options->detector, &run->canvases));
    for (int64_t i = 0; run->canvases.exact && i < run->list->n; i++) {
        image_bytes_t bytes;
        image_info_t info;
        err_t err = read_image(run, i, &bytes, &info);
        if (err == ERR_OK)
            err = canvases_add(&run->canvases, (map_size_t){info.height, info.width}, bytes.name);
        TRY(err == ERR_DATA ? ERR_OK : err);
    }
    TRY(image_decoder_new((image_limits_t){0}, &run->decoder));
    TRY(detector_plan_make(run->runtime, run->model, &run->canvases, &run->plan));
    const detector_options_t options = {.graph = run->model->graph,
                                        .backend = run->runtime->backend,
                                        .params = run->model->params.device,
                                        .states = run->model->states.device,
                                        .exec = run->plan.exec,
                                        .canvases = &run->canvases,
                                        .norm = run->model->about.norm,
                                        .detections = o->detector.detections,
                                        .masks = run->masks};
    TRY(detector_new(&options, &run->detector));
    return run->plan.exec ? exec_ready(run->plan.exec) : ERR_OK;
}

static err_t write_line(predict_detector_t *run, const char *name, const image_t *image, int64_t n,
                        const char *error)
{
    json_t *j = &run->files.json;
    json_record_begin(j, RECORD_PREDICTION);
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
static err_t detect_file(predict_detector_t *run, int64_t i, image_t *image, int64_t *n)
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

static err_t predict_file(predict_detector_t *run, int64_t i)
{
    image_t image;
    int64_t n, n_printed = 0;
    const char *name = run->list->paths[i];
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

err_t predict_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                       const image_list_t *list, const predict_detector_options_t *options)
{
    predict_detector_t run = {
        .options = options, .list = list, .runtime = runtime, .model = model, .files = {.file = {.fd = -1}}};
    err_t err = ERR_OK;
    if (runtime->comm->size > 1)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain predict runs on one rank, not %d",
                        runtime->comm->size);
    TRY(comm_agree(runtime->comm, err, "starting"));
    TRY_OUT(err, read_weights(&run, where));
    TRY_OUT(err, start(&run));
    char text[1024];
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    const trained_about_t *about = &run.model->about;
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    table_cell(&t, "model");
    class_map_describe(&run.map, run.n_categories, text, sizeof text);
    table_cell(&t, "%s, %s", about->model, text);
    table_cell(&t, "canvases");
    canvases_describe(&run.canvases, text, sizeof text);
    table_cell(&t, "%s (height x width)", text);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
    for (int64_t i = 0; i < list->n; i++) TRY_OUT(err, predict_file(&run, i));
    TRY_OUT(err, prediction_files_commit(&run.files));
    if (run.n_bad > 0)
        RAISE_OUT(err, ERR_DATA, "%" PRId64 " of %" PRId64 " images could not be predicted", run.n_bad,
                  list->n);
out:
    prediction_files_close(&run.files);
    detected_free(&run.drawn);
    arena_free(&run.texts);
    arena_free(&run.names);
    mem_free(&run.detections);
    mem_free(&run.file);
    image_decoder_free(&run.decoder);
    detector_free(&run.detector);
    detector_plan_free(&run.plan);
    class_map_free(&run.map);
    source_close(&run.source);
    truths_free(&run.truths);
    return err;
}
