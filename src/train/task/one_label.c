/* SPDX-License-Identifier: MIT */
/* Counts correct predictions and confusions, and keeps the worst mistakes. Choosing and drawing these is left to
 * mistakes.c. */
#include "train/task/one_label.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/models/model.h"
#include "text/table.h"
#include "train/task/metric.h"

/* With many classes the confusion matrix would be larger than the network; the five best scores say more. */
enum { FEW_CLASSES = 20 };

const task_metric_t one_label_metrics[] = {
    {.name = "loss", .label = "loss", .training = TASK_SUM_LOSS, .steers_plateau = true},
    {.name = "accuracy",
     .label = "accuracy",
     .brief = "acc",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .is_main = true,
     .training = TASK_SUM_CORRECT},
    {.name = "top5",
     .label = "top-5",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .training = TASK_SUM_NONE,
     .more_classes_than = FEW_CLASSES},
    {.name = NULL},
};

/* Layout of counts; the confusions are [label][prediction]. */
enum { COUNT_CORRECT, COUNT_TOP5, COUNT_CONFUSION };

typedef struct counting {
    int64_t *counts;
    worst_t worst; /* with a picture */
} counting_t;

bool one_label_fits(const graph_t *graph)
{
    return !model_multi_label(graph);
}

static double probability(const float *logits, int n_classes, int k)
{
    double sum = 0;
    for (int i = 0; i < n_classes; i++) sum += exp((double)logits[i] - logits[k]);
    return 1 / sum;
}

static int n_classes_of(const task_evaluation_t *e)
{
    return e->dataset->info.n_classes;
}

static bool has_confusion(const task_evaluation_t *e)
{
    return n_classes_of(e) <= FEW_CLASSES;
}

static int64_t n_counts(const task_evaluation_t *e)
{
    return COUNT_CONFUSION + (has_confusion(e) ? (int64_t)n_classes_of(e) * n_classes_of(e) : 0);
}

static err_t open_counts(task_evaluation_t *e)
{
    counting_t *c;
    TRY(mem_new(sizeof *c, "an evaluation", &c));
    e->impl = c;
    TRY(mem_new_array(n_counts(e), sizeof *c->counts, "an evaluation", &c->counts));
    return e->n_worst > 0 ? worst_new(e->comm, e->n_worst, &c->worst) : ERR_OK;
}

static void close_counts(task_evaluation_t *e)
{
    counting_t *c = e->impl;
    if (!c) return;
    mem_free(&c->counts);
    worst_free(&c->worst);
    mem_free(&e->impl);
}

static void begin_counts(task_evaluation_t *e)
{
    counting_t *c = e->impl;
    memset(c->counts, 0, (size_t)n_counts(e) * sizeof *c->counts);
    if (e->n_worst > 0) worst_clear(&c->worst);
}

static err_t add_counts(task_evaluation_t *e, const task_batch_t *batch)
{
    int n_classes = n_classes_of(e);
    counting_t *c = e->impl;
    const int32_t *labels = batch->fields[0].data;
    int64_t *confusion = c->counts + COUNT_CONFUSION;
    for (int64_t i = 0; i < batch->n; i++) {
        c->counts[COUNT_CORRECT] += batch->predictions[i] == labels[i];
        if (has_confusion(e))
            confusion[labels[i] * n_classes + batch->predictions[i]]++;
        else
            c->counts[COUNT_TOP5] += top_k_holds(batch->logits + i * n_classes, n_classes, labels[i], 5);
    }
    for (int64_t i = 0; i < batch->n && e->n_worst > 0; i++) {
        const int32_t prediction = batch->predictions[i];
        if (prediction == labels[i]) continue;
        const worst_sample_t sample = {
            .index = batch->index[i],
            .label = labels[i],
            .prediction = prediction,
            .loss = batch->losses[i],
            .probability = (float)probability(batch->logits + i * n_classes, n_classes, prediction),
        };
        worst_offer(&c->worst, &sample);
    }
    return ERR_OK;
}

static err_t end_counts(task_evaluation_t *e, double *values)
{
    counting_t *c = e->impl;
    TRY(comm_allreduce(e->comm, c->counts, n_counts(e), DTYPE_I64, COMM_SUM, "evaluation counts"));
    if (e->n_worst > 0) TRY(worst_gather(&c->worst));
    task_put(e->metrics, "accuracy", (double)c->counts[COUNT_CORRECT] / (double)e->n, values);
    task_put(e->metrics, "top5", (double)c->counts[COUNT_TOP5] / (double)e->n, values);
    return ERR_OK;
}

/* Rows have the classes' names; columns too, if all are short. */
static void print_confusion(const task_evaluation_t *e, const char *const *names)
{
    enum { MAX_HEADINGS = 80 };
    int n = n_classes_of(e), n_text = 0;
    const int64_t *confusion = ((const counting_t *)e->impl)->counts + COUNT_CONFUSION;
    char headings[FEW_CLASSES][12];
    if (!has_confusion(e)) return;
    table_t table = {.n_columns = 1 + n};
    table.columns[0].min_width = 5;
    for (int k = 0; names && k < n; k++) n_text += 2 + table_text_width(names[k]);
    table.columns[0].is_text = names != NULL;
    for (int k = 0; k < n; k++) {
        snprintf(headings[k], sizeof headings[k], "%d", k);
        table.columns[1 + k] = (table_column_t){
            .heading = n_text <= MAX_HEADINGS && names ? names[k] : headings[k], .min_width = 4};
    }
    for (int label = 0; label < n; label++) {
        if (!names)
            table_cell(&table, "%d", label);
        else if (n_text <= MAX_HEADINGS)
            table_cell(&table, "%s", names[label]);
        else
            table_cell(&table, "%d %s", label, names[label]);
        for (int k = 0; k < n; k++) table_cell(&table, "%lld", (long long)confusion[label * n + k]);
    }
    log_info("\nconfusion  rows: label, columns: prediction");
    table_log(&table);
    table_free(&table);
}

static void json_confusion(const task_evaluation_t *e, json_t *j)
{
    int n = n_classes_of(e);
    const int64_t *confusion = ((const counting_t *)e->impl)->counts + COUNT_CONFUSION;
    if (!has_confusion(e)) return;
    json_array_begin(j, "confusion");
    for (int label = 0; label < n; label++) {
        json_array_begin(j, NULL);
        for (int k = 0; k < n; k++) json_int(j, NULL, confusion[label * n + k]);
        json_array_end(j);
    }
    json_array_end(j);
}

static err_t draw_mistakes(const task_evaluation_t *e, const char *const *names, const char *model,
                           page_t **out, char shown[TASK_PICTURE_TEXT_MAX])
{
    const counting_t *c = e->impl;
    int64_t n_wrong = e->n - c->counts[COUNT_CORRECT];
    mistakes_t mistakes = {model, e->dataset, e->split, e->n, n_wrong, &c->worst, names};
    snprintf(shown, TASK_PICTURE_TEXT_MAX, "%d of %lld mistakes", c->worst.n, (long long)n_wrong);
    return mistakes_draw(&mistakes, out);
}

const task_scoring_t one_label_scoring = {.probability = probability,
                                          .open = open_counts,
                                          .close = close_counts,
                                          .begin = begin_counts,
                                          .add = add_counts,
                                          .end = end_counts,
                                          .print = print_confusion,
                                          .json = json_confusion,
                                          .draw = draw_mistakes};
