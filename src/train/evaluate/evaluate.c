/* SPDX-License-Identifier: MIT */
/* The evaluator: distributes whole batches over ranks, runs forward passes, sums counts and losses.
 * Presenting the result is left to evaluation_show.c and mistakes.c. */
#include "train/evaluate/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cluster/comm/watchdog.h"
#include "data/dataset/sampler.h"
#include "train/evaluate/average_precision.h"
#include "train/feed/corrupt_samples.h"

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

/* Assigns this rank its batches, and so its samples; only the last batch of the split may be smaller. */
static void assign_samples(evaluator_t *e)
{
    e->batch = evaluation_batch(e->dataset);
    e->n = sampler_split(n_samples(e), e->comm->rank, e->comm->size, e->batch, &e->first);
    e->n_batches = (n_samples(e) + e->batch - 1) / e->batch;
}

/* Layout of evaluator_t.counts. With many classes the confusion matrix would be larger than the network. */
enum { COUNT_CORRECT, COUNT_TOP5, COUNT_CONFUSION };

static bool has_confusion(const evaluator_t *e)
{
    return !e->dataset->info.multi_label && e->dataset->info.n_classes <= EVAL_FEW;
}

static int64_t n_counts(const evaluator_t *e)
{
    int64_t n_classes = e->dataset->info.n_classes;
    return COUNT_CONFUSION + (has_confusion(e) ? n_classes * n_classes : 0);
}

/* Nothing is read until evaluator_run calls prefetcher_allow. */
static err_t open_evaluator_prefetcher(evaluator_t *e)
{
    const evaluator_options_t *o = &e->options;
    if (e->n == 0) return ERR_OK;
    sampler_options_t order = {.n_samples = e->n,
                               .global_batch = e->batch,
                               .in_order = true,
                               .origin = e->first,
                               .block = o->dataset->info.block[o->split]};
    if (n_samples(e) < o->dataset->info.n_samples[o->split]) {
        order.spread = n_samples(e);
        order.spread_over = o->dataset->info.n_samples[o->split];
    }
    TRY(sampler_new(&order, &e->sampler));
    loader_options_t loader = {.dataset = o->dataset,
                               .split = o->split,
                               .sampler = e->sampler,
                               .size = 1,
                               .max_local = e->n < e->batch ? e->n : e->batch,
                               .n_threads = o->n_threads,
                               .timeout_sec = o->timeout_sec,
                               .norm = o->norm,
                               .bad = o->bad};
    return prefetcher_open(&loader, o->backend, &e->prefetcher);
}

static int64_t n_scores(const evaluator_t *e)
{
    return n_samples(e) * e->dataset->info.n_classes;
}

static err_t make_scores(evaluator_t *e)
{
    TRY(mem_new_array(n_scores(e), sizeof *e->scores, "scores of all samples", &e->scores));
    TRY(mem_new_array(n_scores(e), sizeof *e->targets, "targets of all samples", &e->targets));
    return mem_new_array(e->dataset->info.n_classes, sizeof *e->precisions, "average precisions",
                         &e->precisions);
}

err_t evaluator_open(const evaluator_options_t *options, evaluator_t *out)
{
    *out = (evaluator_t){.options = *options,
                         .comm = options->comm,
                         .dataset = options->dataset,
                         .metrics = task_metrics(&options->dataset->info)};
    assign_samples(out);
    err_t err;
    TRY_OUT(err, open_evaluator_prefetcher(out));
    TRY_OUT(err, mem_new_array(out->batch, sizeof *out->index, "evaluation", &out->index));
    TRY_OUT(err, mem_new_array(out->batch, sizeof *out->labels, "evaluation", &out->labels));
    TRY_OUT(err, mem_new_array(n_counts(out), sizeof *out->counts, "evaluation", &out->counts));
    TRY_OUT(err, mem_new_array(out->n_batches, sizeof *out->losses, "evaluation", &out->losses));
    if (options->dataset->info.multi_label) TRY_OUT(err, make_scores(out));
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
    mem_free(&e->labels);
    mem_free(&e->counts);
    mem_free(&e->losses);
    mem_free(&e->scores);
    mem_free(&e->targets);
    mem_free(&e->precisions);
}

/* softmax(logits)[k] */
static float softmax_probability(const float *logits, int n_classes, int k)
{
    double sum = 0;
    for (int i = 0; i < n_classes; i++) sum += exp((double)logits[i] - logits[k]);
    return (float)(1 / sum);
}

/* Offers the current batch's n samples to the list of worst mistakes. */
static void offer_mistakes(evaluator_t *e, const exec_results_t *results, int64_t n)
{
    int n_classes = e->dataset->info.n_classes;
    const int32_t *labels = e->labels, *predictions = results->predictions;
    for (int64_t i = 0; i < n; i++) {
        if (predictions[i] == labels[i]) continue;
        worst_sample_t sample = {
            .index = e->index[i],
            .label = labels[i],
            .prediction = predictions[i],
            .loss = results->losses[i],
            .probability = softmax_probability(results->logits + i * n_classes, n_classes, predictions[i]),
        };
        worst_offer(e->worst, &sample);
    }
}

/* Counts a batch of single-label samples. */
static void count_batch(evaluator_t *e, const exec_results_t *results, int64_t n)
{
    int n_classes = e->dataset->info.n_classes;
    const int32_t *labels = e->labels, *predictions = results->predictions;
    int64_t *confusion = e->counts + COUNT_CONFUSION;
    for (int64_t i = 0; i < n; i++) {
        e->counts[COUNT_CORRECT] += predictions[i] == labels[i];
        if (has_confusion(e))
            confusion[labels[i] * n_classes + predictions[i]]++;
        else
            e->counts[COUNT_TOP5] += top_k_holds(results->logits + i * n_classes, n_classes, labels[i], 5);
    }
    if (e->worst) offer_mistakes(e, results, n);
}

/* Evaluates the batch that starts at sample `first` of the split. Adds its losses to *loss. */
static err_t evaluate_batch(evaluator_t *e, int64_t first, double *loss)
{
    int n_classes = e->dataset->info.n_classes;
    exec_results_t results;
    prefetcher_batch_t data;
    TRY(prefetcher_next(&e->prefetcher, &data));
    exec_batch_t batch = {.n = data.n,
                          .pixels = data.pixels,
                          .labels = data.labels,
                          .targets = data.targets,
                          .predictions = data.predictions};
    size_t n_row = (size_t)n_classes * sizeof(float);
    memcpy(e->index, data.from->index, (size_t)data.n * sizeof *e->index);
    if (data.labels) memcpy(e->labels, data.from->labels, (size_t)data.n * sizeof *e->labels);
    if (e->targets) memcpy(e->targets + first * n_classes, data.from->targets, (size_t)data.n * n_row);
    TRY(exec_forward(e->options.exec, &batch, false));
    TRY(prefetcher_ahead(&e->prefetcher));
    TRY(exec_results(e->options.exec, &results));
    if (e->options.take) TRY(e->options.take(e->options.take_context, e->index, results.logits, data.n));
    for (int64_t i = 0; i < data.n; i++) *loss += results.losses[i];
    if (e->scores)
        memcpy(e->scores + first * n_classes, results.logits, (size_t)data.n * n_row);
    else
        count_batch(e, &results, data.n);
    return ERR_OK;
}

enum { LINE_SEC = 5 }; /* between lines of progress */

/* This rank's part: the loss of each batch, and the counts. */
static err_t evaluate_local(evaluator_t *e)
{
    memset(e->losses, 0, (size_t)e->n_batches * sizeof *e->losses);
    memset(e->counts, 0, (size_t)n_counts(e) * sizeof *e->counts);
    if (e->scores) memset(e->scores, 0, (size_t)n_scores(e) * sizeof *e->scores);
    if (e->targets) memset(e->targets, 0, (size_t)n_scores(e) * sizeof *e->targets);
    if (e->n > 0) prefetcher_allow(&e->prefetcher, sampler_batches(e->sampler));
    double told_sec = clock_sec();
    for (int64_t first = 0; first < e->n; first += e->batch) {
        TRY(evaluate_batch(e, e->first + first, &e->losses[(e->first + first) / e->batch]));
        int64_t done = first + e->batch < e->n ? first + e->batch : e->n;
        progress_draw("evaluating", done, e->n, "");
        if (!progress_wants_lines() || clock_sec() - told_sec < LINE_SEC) continue;
        log_note("evaluating: %lld of %lld samples", (long long)done, (long long)e->n);
        told_sec = clock_sec();
    }
    return ERR_OK;
}

/* Collective. Average precisions over all samples; each rank holds its own scores and zeros elsewhere. */
static err_t rank_samples(evaluator_t *e, double *mean)
{
    TRY(comm_allreduce(e->comm, e->scores, n_scores(e), DTYPE_F32, COMM_SUM, "evaluation scores"));
    TRY(comm_allreduce(e->comm, e->targets, n_scores(e), DTYPE_F32, COMM_SUM, "evaluation targets"));
    err_t err = average_precision_of_classes(e->scores, e->targets, n_samples(e), e->dataset->info.n_classes,
                                             e->precisions, mean);
    if (isnan(*mean)) *mean = 0;
    return comm_agree(e->comm, err, "average precisions");
}

static void put_value(const evaluator_t *e, const char *metric, double value, evaluation_t *out)
{
    int i = task_metrics_find(&e->metrics, metric);
    if (i >= 0) out->values[i] = value;
}

err_t evaluator_run(evaluator_t *e, evaluation_t *out)
{
    double loss_sum = 0;
    if (e->worst) worst_clear(e->worst);
    watchdog_phase("evaluating");
    TRY(comm_agree(e->comm, evaluate_local(e), "evaluation"));
    if (e->options.bad) TRY(corrupt_samples_share(e->comm, e->options.bad));
    /* Each batch's loss comes from one rank, the others add zero: the sum in order is bitwise identical on
     * any number of ranks. */
    TRY(comm_allreduce(e->comm, e->losses, e->n_batches, DTYPE_F64, COMM_SUM, "evaluation loss"));
    for (int64_t i = 0; i < e->n_batches; i++) loss_sum += e->losses[i];
    TRY(comm_allreduce(e->comm, e->counts, n_counts(e), DTYPE_I64, COMM_SUM, "evaluation counts"));
    if (e->worst) TRY(worst_gather(e->worst));
    double n = (double)n_samples(e), mean_precision = NAN;
    if (e->scores) TRY(rank_samples(e, &mean_precision));
    *out = (evaluation_t){.n = n_samples(e),
                          .n_correct = e->counts[COUNT_CORRECT],
                          .loss = loss_sum / n,
                          .precisions = e->precisions,
                          .confusion = has_confusion(e) ? e->counts + COUNT_CONFUSION : NULL};
    for (int i = 0; i < e->metrics.n; i++) out->values[i] = NAN;
    put_value(e, "loss", out->loss, out);
    if (e->scores) put_value(e, "map", mean_precision, out);
    if (!e->scores) put_value(e, "accuracy", (double)e->counts[COUNT_CORRECT] / n, out);
    if (!e->scores) put_value(e, "top5", (double)e->counts[COUNT_TOP5] / n, out);
    return ERR_OK;
}
