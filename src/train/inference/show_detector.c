/* SPDX-License-Identifier: MIT */
/* Logs, writes and draws. Scoring is data/score's, drawing data/show's. */
#include "train/inference/show_detector.h"

#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/print.h"
#include "base/record.h"
#include "base/table.h"
#include "cluster/session/disk_wait.h"
#include "data/load/images.h"
#include "data/score/score.h"
#include "data/show/sheet.h"
#include "train/detect/worst_images.h"

enum { TILE = 320, TEXT = 96 };
static const double drawn_score = 0.5;

static bool has_training_data(const show_detector_t *s)
{
    const dataset_info_t info = {.hash = images_hash(s->source, TASK_DETECT)};
    return strcmp(dataset_hash(&info).text, s->model->about.data_xxh3) == 0;
}

void show_detector_header(const show_detector_t *s)
{
    const truths_t *truths = detection_evaluator_outcome(s->evaluator).truths;
    const trained_about_t *about = &s->model->about;
    char text[1024];
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->path, about->averaged ? " (moving average of its weights)" : "");
    table_cell(&t, "model");
    class_map_describe(s->map, truths->n_categories, text, sizeof text);
    table_cell(&t, "%s, %s", about->model, text);
    if (about->compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s, %s %s images", s->source->path, figure_count(truths->n_images).text,
               split_words[s->options->split]);
    int n;
    for (const char *rest = s->source->about, *line; (line = print_next_line(&rest, &n));) {
        table_cell(&t, "%s", "");
        table_cell(&t, "%.*s", n, line);
    }
    if (!about->weights && !has_training_data(s)) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    table_cell(&t, "canvases");
    canvases_describe(s->canvases, text, sizeof text);
    table_cell(&t, "%s (height x width)", text);
    table_log(&t);
    table_free(&t);
    log_info("%s", "");
}

static err_t write_results(const show_detector_t *s, const detection_outcome_t *outcome)
{
    char path[FS_PATH_MAX], name[32];
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT && s->options->results; type++) {
        if (!outcome->results->has[type]) continue;
        snprintf(name, sizeof name, "%s.json", score_type_names[type]);
        TRY(fs_join(path, s->options->results, name));
        disk_wait_begin("writing", path);
        err_t err = results_write(outcome->results, outcome->truths, type, path);
        disk_wait_end();
        TRY(err);
        log_info("results  %s", path);
    }
    return ERR_OK;
}

static err_t write_numbers(const show_detector_t *s, const detection_outcome_t *outcome)
{
    const trained_about_t *about = &s->model->about;
    json_t j = {0};
    json_record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->path);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "model", about->model);
    json_string(&j, "precision", model_precision(about->compute));
    json_string(&j, "data", s->source->path);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(s));
    json_string(&j, "split", split_names[s->options->split]);
    json_int(&j, "n_samples", outcome->truths->n_images);
    json_int(&j, "n_detections", outcome->results->n);
    score_json(outcome->scores, outcome->n_scores, s->options->per_category ? outcome->truths : NULL, &j);
    json_object_end(&j);
    disk_wait_begin("writing", s->options->json);
    err_t err = json_write_file(&j, s->options->json);
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

static void free_drawing(drawing_t *d)
{
    for (int64_t i = 0; d->detected && i < d->n; i++) detected_free(&d->detected[i]);
    mem_free(&d->worst);
    mem_free(&d->picks);
    mem_free(&d->beside);
    mem_free(&d->detected);
    mem_free(&d->texts);
}

static err_t prepare_drawing(const show_detector_t *s, const detection_outcome_t *outcome, drawing_t *d)
{
    const truths_t *truths = outcome->truths;
    TRY(mem_new_array(truths->n_images, sizeof *d->worst, "a picture", &d->worst));
    TRY(worst_images(truths, outcome->results, drawn_score, d->worst));
    d->n = s->options->n_worst < truths->n_images ? s->options->n_worst : truths->n_images;
    TRY(mem_new_array(d->n, sizeof *d->picks, "a picture", &d->picks));
    TRY(mem_new_array(d->n, sizeof *d->beside, "a picture", &d->beside));
    TRY(mem_new_array(d->n, sizeof *d->detected, "a picture", &d->detected));
    TRY(mem_new_array(d->n, sizeof *d->texts, "a picture", &d->texts));
    for (int64_t i = 0; i < d->n; i++) {
        const worst_image_t *w = &d->worst[i];
        d->picks[i] = (pick_t){.split = s->options->split, .index = outcome->images[w->image].index};
        TRY(detected_set(&d->detected[i], outcome->results->detections + w->first, w->n, truths->categories,
                         drawn_score));
        snprintf(d->texts[i], TEXT, "%d found, %d missed, %d wrong", w->found, w->missed, w->wrong);
        d->beside[i] = (sheet_beside_t){&d->detected[i], d->texts[i]};
    }
    return ERR_OK;
}

static void warn_drawing(const char *message)
{
    log_warn("%s", message);
}

static err_t draw_worst(const show_detector_t *s, const detection_outcome_t *outcome)
{
    drawing_t d = {.n = 0};
    page_t *page = NULL;
    char title[160], about[160];
    int64_t n_bad;
    err_t err;
    TRY_OUT(err, prepare_drawing(s, outcome, &d));
    snprintf(title, sizeof title, "The %s worst of %s %s images", figure_count(d.n).text,
             figure_count(outcome->truths->n_images).text, split_words[s->options->split]);
    snprintf(about, sizeof about, "Annotations, and on the right detections with a score of at least %g",
             drawn_score);
    const sheet_t sheet = {.source = s->source,
                           .picks = d.picks,
                           .n = d.n,
                           .tile = TILE,
                           .beside = d.beside,
                           .title = title,
                           .about = about,
                           .tell = warn_drawing};
    TRY_OUT(err, sheet_draw(&sheet, &n_bad, &page));
    disk_wait_begin("writing", s->options->png);
    err = page_write_png(page, s->options->png);
    disk_wait_end();
    if (err == ERR_OK) log_info("\nimage    %s, %s worst images", s->options->png, figure_count(d.n).text);
out:
    page_free(&page);
    free_drawing(&d);
    return err;
}

err_t show_detector_results(const show_detector_t *s)
{
    const detection_outcome_t outcome = detection_evaluator_outcome(s->evaluator);
    log_info("found    %s objects", figure_count(outcome.results->n).text);
    return write_results(s, &outcome);
}

err_t show_detector_scores(const show_detector_t *s)
{
    const detection_outcome_t outcome = detection_evaluator_outcome(s->evaluator);
    log_info("%s", "");
    score_print(outcome.scores, outcome.n_scores, s->options->per_category ? outcome.truths : NULL);
    if (s->options->json) TRY(write_numbers(s, &outcome));
    return s->options->png ? draw_worst(s, &outcome) : ERR_OK;
}
