/* SPDX-License-Identifier: MIT */
/* The evaluator: distributes whole batches over ranks, runs forward passes, sums losses. Counting and ranking
 * are left to the task, presenting the result to whoever asked for it. */
#include "train/task/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/sampler.h"
#include "text/progress.h"
#include "train/feed/data.h"

int64_t evaluation_batch(const dataset_t *dataset)
{
    enum { MOST = 128, LEAST = 8, MOST_FLOATS = 5 << 20 };
    const dataset_info_t *info = &dataset->info;
    int64_t n = MOST;
    while (n > LEAST && n * info->height * info->width * info->channels > MOST_FLOATS) n /= 2;
    return n;
}

int64_t evaluation_samples(const dataset_t *dataset, split_t split, int64_t limit)
{
    int64_t n = dataset->info.n_samples[split];
    return limit > 0 && limit < n ? limit : n;
}

split_t evaluation_split(const dataset_t *dataset)
{
    return dataset->info.n_samples[SPLIT_VAL] > 0 ? SPLIT_VAL : SPLIT_TRAIN;
}

static int64_t n_samples(const evaluator_t *e)
{
    return evaluation_samples(e->dataset, e->options.split, e->options.limit);
}

err_t evaluator_open(const evaluator_options_t *options, evaluator_t *out)
{
    err_t err;
    *out = (evaluator_t){.options = *options, .comm = options->comm, .dataset = options->dataset};
    /* Assigns this rank its batches, and so its samples; only the last batch of the split may be smaller. */
    out->batch = evaluation_batch(out->dataset);
    out->n = sampler_split(n_samples(out), out->comm->rank, out->comm->size, out->batch, &out->first);
    out->n_batches = (n_samples(out) + out->batch - 1) / out->batch;
    if (out->n > 0) { /* nothing is read until evaluator_run calls prefetcher_allow */
        sampler_options_t order = {.n_samples = out->n,
                                   .global_batch = out->batch,
                                   .in_order = true,
                                   .origin = out->first,
                                   .block = options->dataset->info.block[options->split]};
        if (n_samples(out) < options->dataset->info.n_samples[options->split]) {
            order.spread = n_samples(out);
            order.spread_over = options->dataset->info.n_samples[options->split];
        }
        TRY_OUT(err, sampler_new(&order, &out->sampler));
        loader_options_t loader = {.dataset = options->dataset,
                                   .split = options->split,
                                   .sampler = out->sampler,
                                   .size = 1,
                                   .max_local = out->n < out->batch ? out->n : out->batch,
                                   .n_threads = options->n_threads,
                                   .timeout_sec = options->timeout_sec,
                                   .norm = options->norm,
                                   .bad = options->bad};
        TRY_OUT(err, prefetcher_open(&loader, options->backend, &out->prefetcher));
    }
    TRY_OUT(err, mem_new_array(out->batch, sizeof *out->index, "evaluation", &out->index));
    /* Copies of the fields: the loader may refill its batch before the results are there. */
    const fields_t *fields = &out->prefetcher.fields;
    for (int k = 0; k < fields->n; k++) {
        TRY_OUT(err, mem_new((size_t)out->batch * field_sample_bytes(&fields->at[k]), "evaluation",
                             &out->fields[k]));
        if (fields->at[k].max_rows)
            TRY_OUT(err, mem_new((size_t)(out->batch + 1) * sizeof(int64_t), "evaluation", &out->offsets[k]));
    }
    TRY_OUT(err, mem_new_array(out->n_batches, sizeof *out->losses, "evaluation", &out->losses));
    out->task = options->task;
    out->metrics = task_metrics_select(out->task->metrics, out->dataset->info.n_classes, false);
    out->evaluation = (task_evaluation_t){.comm = out->comm,
                                          .dataset = out->dataset,
                                          .split = out->options.split,
                                          .metrics = &out->metrics,
                                          .n = n_samples(out),
                                          .n_mine = out->n,
                                          .n_worst = out->options.n_worst};
    TRY_OUT(err, out->task->scoring->open(&out->evaluation));
    if (out->n >= out->batch) TRY_OUT(err, exec_prepare(options->exec, out->batch, false));
    TRY_OUT(err, exec_prepare(options->exec, out->n % out->batch, false));
    return ERR_OK;
out:
    evaluator_close(out);
    return err;
}

void evaluator_close(evaluator_t *e)
{
    prefetcher_close(&e->prefetcher);
    e->prefetcher = (prefetcher_t){0};
    sampler_free(&e->sampler);
    mem_free(&e->index);
    mem_free(&e->losses);
    for (int k = 0; k < FIELDS_MAX; k++) {
        mem_free(&e->fields[k]);
        mem_free(&e->offsets[k]);
    }
    if (e->task) e->task->scoring->close(&e->evaluation);
}

/* Of a batch, in host memory. */
typedef struct results {
    const float *losses, *logits; /* [n], [n, n_classes] */
    const int32_t *predictions;   /* [n]; NULL if the model has none */
} results_t;

/* An output of the model; NULL if it has none of that name. */
static const void *output_of(const evaluator_t *e, const exec_results_t *results, const char *name)
{
    int i = graph_find_output(exec_graph(e->options.exec), name);
    return i < 0 ? NULL : results->output[i];
}

/* Evaluates the batch at `first` of this rank's samples. Adds its losses to *loss. */
static err_t evaluate_batch(evaluator_t *e, int64_t first, double *loss)
{
    exec_results_t all;
    prefetcher_batch_t data;
    const fields_t *layout = &e->prefetcher.fields;
    batch_field_t fields[FIELDS_MAX];
    TRY(prefetcher_next(&e->prefetcher, &data));
    exec_batch_t batch = prefetcher_exec_batch(&e->prefetcher, &data, exec_graph(e->options.exec));
    memcpy(e->index, data.from->index, (size_t)data.n * sizeof *e->index);
    for (int k = 0; k < layout->n; k++) {
        const batch_field_t *field = &data.from->fields[k];
        memcpy(e->fields[k], field->data, batch_field_bytes(&layout->at[k], field, data.from->n));
        if (field->offsets)
            memcpy(e->offsets[k], field->offsets, (size_t)(data.from->n + 1) * sizeof(int64_t));
        fields[k] = (batch_field_t){e->fields[k], e->offsets[k]};
    }
    TRY(exec_forward(e->options.exec, &batch, false));
    TRY(prefetcher_ahead(&e->prefetcher));
    TRY(exec_results(e->options.exec, &all));
    const results_t results = {output_of(e, &all, "loss"), output_of(e, &all, "logits"),
                               output_of(e, &all, "prediction")};
    if (e->options.take) TRY(e->options.take(e->options.take_context, e->index, results.logits, data.n));
    for (int64_t i = 0; i < data.n; i++) *loss += results.losses[i];
    const task_batch_t done = {.first = first,
                               .n = data.n,
                               .index = e->index,
                               .fields = fields,
                               .losses = results.losses,
                               .logits = results.logits,
                               .predictions = results.predictions};
    return e->task->scoring->add(&e->evaluation, &done);
}

enum { LINE_SEC = 5 }; /* between lines of progress */

/* This rank's part: the loss of each batch, and what the task measures. */
static err_t evaluate_local(evaluator_t *e)
{
    memset(e->losses, 0, (size_t)e->n_batches * sizeof *e->losses);
    e->task->scoring->begin(&e->evaluation);
    if (e->n > 0) prefetcher_allow(&e->prefetcher, sampler_batches(e->sampler));
    double told_sec = clock_sec();
    for (int64_t first = 0; first < e->n; first += e->batch) {
        TRY(evaluate_batch(e, first, &e->losses[(e->first + first) / e->batch]));
        int64_t done = first + e->batch < e->n ? first + e->batch : e->n;
        progress_draw("evaluating", done, e->n, "");
        if (!progress_wants_lines() || clock_sec() - told_sec < LINE_SEC) continue;
        log_note("evaluating: %lld of %lld samples", (long long)done, (long long)e->n);
        told_sec = clock_sec();
    }
    return ERR_OK;
}

err_t evaluator_run(evaluator_t *e, evaluation_t *out)
{
    double loss_sum = 0;
    watchdog_phase("evaluating");
    TRY(comm_agree(e->comm, evaluate_local(e), "evaluation"));
    if (e->options.bad) TRY(corrupt_samples_share(e->comm, e->options.bad));
    /* Each batch's loss comes from one rank, the others add zero: the sum in order is bitwise identical on
     * any number of ranks. */
    TRY(comm_allreduce(e->comm, e->losses, e->n_batches, DTYPE_F64, COMM_SUM, "evaluation loss"));
    for (int64_t i = 0; i < e->n_batches; i++) loss_sum += e->losses[i];
    *out = (evaluation_t){.n = n_samples(e), .loss = loss_sum / (double)n_samples(e)};
    for (int i = 0; i < e->metrics.n; i++) out->values[i] = NAN;
    task_put(&e->metrics, "loss", out->loss, out->values);
    return e->task->scoring->end(&e->evaluation, out->values);
}
