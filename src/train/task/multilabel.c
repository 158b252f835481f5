/* SPDX-License-Identifier: MIT */
/* The task multilabel: any number of classes per image. Its evaluation ranks all samples for each class;
 * metric.c computes the metric. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/models/model.h"
#include "text/table.h"
#include "train/task/evaluate.h"
#include "train/task/metric.h"

static const task_metric_t metrics[] = {
    {.name = "loss", .label = "loss", .training = TASK_SUM_LOSS, .steers_plateau = true},
    {.name = "accuracy", .label = "accuracy", .training = TASK_SUM_NONE, .always_null = true},
    {.name = "map",
     .label = "mAP",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .is_main = true,
     .training = TASK_SUM_NONE},
    {.name = NULL},
};

typedef struct ranking {
    float *scores, *targets; /* of this rank's samples, [n_mine, classes] */
    double *precisions;      /* [classes]; NaN without a positive sample */
} ranking_t;

static bool fits(const graph_t *graph)
{
    return model_multi_label(graph);
}

static double probability(const float *logits, int n_classes, int k)
{
    (void)n_classes;
    return 1 / (1 + exp(-(double)logits[k]));
}

static err_t open_ranking(task_evaluation_t *e)
{
    ranking_t *r;
    int64_t n_classes = e->dataset->info.n_classes;
    TRY(mem_new(sizeof *r, "an evaluation", &r));
    e->impl = r;
    TRY(mem_new_array(e->n_mine * n_classes, sizeof *r->scores, "scores of samples", &r->scores));
    TRY(mem_new_array(e->n_mine * n_classes, sizeof *r->targets, "targets of samples", &r->targets));
    return mem_new_array(n_classes, sizeof *r->precisions, "average precisions", &r->precisions);
}

static void close_ranking(task_evaluation_t *e)
{
    ranking_t *r = e->impl;
    if (!r) return;
    mem_free(&r->scores);
    mem_free(&r->targets);
    mem_free(&r->precisions);
    mem_free(&e->impl);
}

/* Every evaluation overwrites all scores. */
static void begin_ranking(task_evaluation_t *e)
{
    (void)e;
}

static err_t add_scores(task_evaluation_t *e, const task_batch_t *batch)
{
    ranking_t *r = e->impl;
    int64_t n_classes = e->dataset->info.n_classes, at = batch->first * n_classes;
    size_t n_bytes = (size_t)(batch->n * n_classes) * sizeof(float);
    memcpy(r->scores + at, batch->logits, n_bytes);
    memcpy(r->targets + at, batch->fields[0].data, n_bytes);
    return ERR_OK;
}

/* Ranks have whole batches in the order of the samples: in rank order, the pieces are all samples in order. */
static err_t end_ranking(task_evaluation_t *e, double *values)
{
    ranking_t *r = e->impl;
    int n_classes = e->dataset->info.n_classes;
    int64_t n_bytes = e->n_mine * n_classes * (int64_t)sizeof(float), n_all;
    float *scores = NULL, *targets = NULL;
    double mean = NAN;
    err_t err;
    TRY_OUT(err, task_gather(e->comm, r->scores, n_bytes, "evaluation scores", &scores, &n_all));
    TRY_OUT(err, task_gather(e->comm, r->targets, n_bytes, "evaluation targets", &targets, &n_all));
    ASSERT(n_all == e->n * n_classes * (int64_t)sizeof(float));
    err = average_precision_of_classes(scores, targets, e->n, n_classes, r->precisions, &mean);
    TRY_OUT(err, comm_agree(e->comm, err, "average precisions"));
    task_put(e->metrics, "map", isnan(mean) ? 0 : mean, values);
out:
    mem_free(&scores);
    mem_free(&targets);
    return err;
}

static void print_precisions(const task_evaluation_t *e, const char *const *class_names)
{
    const double *precisions = ((const ranking_t *)e->impl)->precisions;
    table_t table = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2, .indent = 2};
    int n_without = 0;
    table_section(&table, "average precision");
    for (int k = 0; k < e->dataset->info.n_classes; k++) {
        if (isnan(precisions[k])) {
            n_without++;
            continue;
        }
        table_cell(&table, "%.4f", precisions[k]);
        table_cell(&table, "%s", class_names[k]);
    }
    log_info("%s", "");
    table_log(&table);
    table_free(&table);
    if (n_without > 0)
        log_info("  %d class%s no positive sample", n_without, n_without == 1 ? " has" : "es have");
}

static void json_precisions(const task_evaluation_t *e, json_t *j)
{
    json_array_begin(j, "average_precision");
    for (int k = 0; k < e->dataset->info.n_classes; k++)
        json_real(j, NULL, ((const ranking_t *)e->impl)->precisions[k]);
    json_array_end(j);
}

static const task_scoring_t scoring = {.probability = probability,
                                       .open = open_ranking,
                                       .close = close_ranking,
                                       .begin = begin_ranking,
                                       .add = add_scores,
                                       .end = end_ranking,
                                       .print = print_precisions,
                                       .json = json_precisions};

const task_t task_multilabel = {.name = "multilabel",
                                .id = TASK_MULTILABEL,
                                .kind = &task_classifiers,
                                .about = "any number of classes",
                                .per_image = "any number per image",
                                .metrics = metrics,
                                .whole_images = true,
                                .multi_label = true,
                                .scoring = &scoring,
                                .fits = fits};
