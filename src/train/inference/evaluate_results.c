/* SPDX-License-Identifier: MIT */
/* Scores files of detections on rank 0. Reading and scoring are data/score's. */
#include "train/inference/inference.h"

#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "data/score/score.h"
#include "text/figure.h"

typedef struct scoring {
    const inference_options_t *options;
    const char *const *files;
    truths_t *truths;
    score_t *scores[SCORE_TYPE_COUNT]; /* NULL: not in the files */
    bool untyped[2];                   /* files without detections */
    char notes[2][64];                 /* on how a file was read */
} scoring_t;

static const char *const type_words[SCORE_TYPE_COUNT] = {"boxes", "masks"};

static err_t score_type(scoring_t *s, const results_t *results, score_type_t type, const open_watch_t *watch)
{
    if (s->scores[type])
        RAISE(ERR_DATA, "%s and %s both have %s; score them in two runs", s->files[0], s->files[1],
              type_words[type]);
    return score_results(results, s->truths, type, watch, &s->scores[type]);
}

static err_t score_file(scoring_t *s, int file, const open_watch_t *watch)
{
    results_t *results = NULL;
    err_t err;
    TRY_OUT(err, results_read(s->files[file], s->truths, s->options->score, watch, &results));
    s->untyped[file] = results->n == 0;
    snprintf(s->notes[file], sizeof s->notes[file], "%s%s%s%s", results->list ? ", its list \"" : "",
             results->list ? results->list : "", results->list ? "\"" : "",
             results->has_texts ? ", with numbers in strings" : "");
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT; type++)
        if (results->has[type]) TRY_OUT(err, score_type(s, results, type, watch));
out:
    results_free(&results);
    return err;
}

/* "bbox.json", "x.bbox.json" and "x_bbox.json" are of boxes, also with ".gz". */
static bool name_says(const char *path, score_type_t type)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char end[16];
    const size_t n_end = (size_t)snprintf(end, sizeof end, "%s.json", score_type_names[type]);
    size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".gz") == 0) n -= 3;
    if (n < n_end || strncmp(name + n - n_end, end, n_end) != 0) return false;
    return n == n_end || strchr("._- ", name[n - n_end - 1]) != NULL;
}

/* A file without detections does not say what it has none of. */
static err_t score_untyped(scoring_t *s, int file, const open_watch_t *watch)
{
    const char *path = s->files[file], *why = "--score";
    score_type_t type = s->options->score;
    results_t *results = NULL;
    if (type != SCORE_TYPE_COUNT && s->scores[type]) { /* the other file's */
        snprintf(s->notes[file], sizeof s->notes[file], ", without detections");
        return ERR_OK;
    }
    for (score_type_t t = 0; t < SCORE_TYPE_COUNT && type == SCORE_TYPE_COUNT; t++)
        if (name_says(path, t)) {
            type = t;
            why = "from its name";
        }
    if (type == SCORE_TYPE_COUNT && !s->scores[SCORE_BBOX] != !s->scores[SCORE_SEGM]) {
        type = s->scores[SCORE_BBOX] ? SCORE_SEGM : SCORE_BBOX;
        why = "the other file has none";
    }
    if (type == SCORE_TYPE_COUNT)
        RAISE(ERR_DATA,
              "%s holds no results, so that it does not say whether boxes or masks were meant; say "
              "it with --score bbox or --score segm",
              path);
    snprintf(s->notes[file], sizeof s->notes[file], ", without detections; scored as %s (%s)",
             type_words[type], why);
    TRY(results_new(type == SCORE_BBOX, type == SCORE_SEGM, &results));
    err_t err = score_type(s, results, type, watch);
    results_free(&results);
    return err;
}

/* Rank 0. */
static err_t find_scores(void *context, comm_alive_t alive, void *alive_context)
{
    scoring_t *s = context;
    const open_watch_t watch = {alive, alive_context};
    if (s->options->json) TRY(fs_check_target(s->options->json));
    TRY(truths_read(s->options->data, s->options->split, &watch, &s->truths));
    truths_warn(s->truths);
    if (s->options->skip_unmasked) truths_skip_unmasked(s->truths);
    for (int i = 0; i < 2; i++)
        if (s->files[i]) TRY(score_file(s, i, &watch));
    for (int i = 0; i < 2; i++)
        if (s->untyped[i]) TRY(score_untyped(s, i, &watch));
    return ERR_OK;
}

/* The other ranks need to know only that it is done. */
static err_t save_nothing(void *context, void **bytes, int64_t *n_bytes)
{
    (void)context;
    *n_bytes = 1;
    return mem_new(1, "a message", bytes);
}

static err_t restore_nothing(void *context, void **bytes, int64_t n_bytes)
{
    (void)context, (void)bytes, (void)n_bytes;
    return ERR_OK;
}

err_t evaluate_results(comm_t *comm, const char *const files[2], const inference_options_t *options)
{
    static const char what[] = "scoring results";
    scoring_t scoring = {.options = options, .files = files};
    const comm_finding_t finding = {what, &scoring, find_scores, save_nothing, restore_nothing};
    err_t err;
    TRY_OUT(err, comm_share(comm, &finding));
    if (comm->rank == 0) {
        const score_t *scores[SCORE_TYPE_COUNT];
        const truths_t *named = options->per_category ? scoring.truths : NULL;
        int n = 0;
        for (int type = 0; type < SCORE_TYPE_COUNT; type++)
            if (scoring.scores[type]) scores[n++] = scoring.scores[type];
        log_info("data     %s, %s images, %s objects, %s crowds", options->data,
                 figure_count(scoring.truths->n_images).text, figure_count(scores[0]->n_truths).text,
                 figure_count(scores[0]->n_crowds).text);
        for (int i = 0; i < 2; i++)
            if (files[i]) log_info("results  %s%s", files[i], scoring.notes[i]);
        log_info("%s", "");
        score_print(scores, n, named);
        if (options->json) {
            json_t j = {0};
            json_object_begin(&j, NULL);
            score_json(scores, n, named, &j);
            json_object_end(&j);
            err = json_write_file(&j, options->json);
            json_free(&j);
        }
    }
    err = comm_agree(comm, err, what);
out:
    for (int type = 0; type < SCORE_TYPE_COUNT; type++) score_free(&scoring.scores[type]);
    truths_free(&scoring.truths);
    return err;
}
