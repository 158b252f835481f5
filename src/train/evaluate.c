#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "comm/watchdog.h"
#include "data/sampler.h"
#include "train/average_precision.h"

int64_t evaluation_batch(const dataset_t *dataset)
{
    enum { MOST = 128, LEAST = 8, MOST_FLOATS = 5 << 20 };
    const dataset_info_t *info = &dataset->info;
    int64_t n = MOST;
    while (n > LEAST && n * info->height * info->width * info->channels > MOST_FLOATS) n /= 2;
    return n;
}

/* This rank's batches, and so its samples; the last batch of all may be smaller. */
static void share_out(evaluator_t *e)
{
    int64_t n_all = e->dataset->info.n_samples[SPLIT_VAL];
    e->batch = evaluation_batch(e->dataset);
    e->n = sampler_split(n_all, e->comm->rank, e->comm->size, e->batch, &e->first);
    e->n_batches = (n_all + e->batch - 1) / e->batch;
}

/* Of the evaluator's confusion and what is behind it. */
static int64_t n_counts(const evaluator_t *e)
{
    int64_t n_classes = e->dataset->info.n_classes;
    return n_classes * n_classes + 1;
}

err_t evaluator_open(comm_t *comm, exec_t *exec, const backend_t *backend, const dataset_t *dataset,
                     double mean, double std, evaluator_t *out)
{
    const dataset_info_t *info = &dataset->info;
    *out = (evaluator_t){.comm = comm, .exec = exec, .dataset = dataset, .mean = mean, .std = std};
    share_out(out);
    int64_t n_pixels = info->height * info->width * info->channels;
    err_t err;
    TRY_OUT(err, mem_new_array(out->batch, sizeof *out->index, "evaluation", &out->index));
    size_t n_pictures = (size_t)(out->batch * n_pixels) * sizeof(float),
           n_labels = (size_t)out->batch * sizeof(int32_t);
    TRY_OUT(err, mirror_new(backend, n_pictures, "evaluation", &out->pixels));
    TRY_OUT(err, mirror_new(backend, n_labels, "evaluation", &out->labels));
    TRY_OUT(err, mirror_new(backend, n_labels, "evaluation", &out->predictions));
    TRY_OUT(err, mem_new_array(n_counts(out), sizeof *out->confusion, "evaluation", &out->confusion));
    TRY_OUT(err, mem_new_array(out->n_batches, sizeof *out->losses, "evaluation", &out->losses));
    if (out->n >= out->batch) TRY_OUT(err, exec_prepare(exec, out->batch, false));
    TRY_OUT(err, exec_prepare(exec, out->n % out->batch, false));
    return ERR_OK;
out:
    evaluator_close(out);
    return err;
}

void evaluator_close(evaluator_t *e)
{
    mem_free(&e->index);
    mirror_free(&e->pixels);
    mirror_free(&e->labels);
    mirror_free(&e->predictions);
    mem_free(&e->confusion);
    mem_free(&e->losses);
}

/* softmax(logits)[k] */
static float probability(const float *logits, int n_classes, int k)
{
    double sum = 0;
    for (int i = 0; i < n_classes; i++) sum += exp((double)logits[i] - logits[k]);
    return (float)(1 / sum);
}

/* Of the n samples that were evaluated last. */
static void offer_mistakes(evaluator_t *e, const exec_results_t *results, int64_t n)
{
    int n_classes = e->dataset->info.n_classes;
    const int32_t *labels = e->labels.host, *predictions = results->predictions;
    for (int64_t i = 0; i < n; i++) {
        if (predictions[i] == labels[i]) continue;
        worst_sample_t sample = {
            .index = e->index[i],
            .label = labels[i],
            .prediction = predictions[i],
            .loss = results->losses[i],
            .probability = probability(results->logits + i * n_classes, n_classes, predictions[i]),
        };
        worst_offer(e->worst, &sample);
    }
}

/* One batch, whose samples are in e->index; *loss: the sum of its losses. */
static err_t run_batch(evaluator_t *e, int64_t n, double *loss)
{
    const dataset_info_t *info = &e->dataset->info;
    const int32_t *labels = e->labels.host;
    exec_results_t results;
    exec_batch_t batch = {
        .n = n, .pixels = e->pixels.device, .labels = e->labels.device, .predictions = e->predictions.device};
    dataset_read(e->dataset, SPLIT_VAL, e->index, n, e->mean, e->std, e->pixels.host, e->labels.host);
    TRY(mirror_push_all(&e->pixels));
    TRY(mirror_push_all(&e->labels));
    TRY(exec_forward(e->exec, &batch, false));
    TRY(exec_results(e->exec, &results));
    for (int64_t i = 0; i < n; i++) *loss += results.losses[i];
    for (int64_t i = 0; i < n; i++) e->confusion[labels[i] * info->n_classes + results.predictions[i]]++;
    int64_t *n_top5 = &e->confusion[n_counts(e) - 1];
    for (int64_t i = 0; i < n && info->n_classes > EVAL_FEW; i++)
        *n_top5 += top_k_holds(results.logits + i * info->n_classes, info->n_classes, labels[i], 5);
    if (e->worst) offer_mistakes(e, &results, n);
    return ERR_OK;
}

/* This rank's part: each batch's loss and the confusion counts. */
static err_t run_local(evaluator_t *e)
{
    memset(e->losses, 0, (size_t)e->n_batches * sizeof *e->losses);
    memset(e->confusion, 0, (size_t)n_counts(e) * sizeof *e->confusion);
    for (int64_t done = 0; done < e->n; done += e->batch) {
        int64_t n = e->n - done < e->batch ? e->n - done : e->batch;
        for (int64_t i = 0; i < n; i++) e->index[i] = e->first + done + i;
        TRY(run_batch(e, n, &e->losses[(e->first + done) / e->batch]));
        progress_draw("evaluating", done + n, e->n, "");
    }
    return ERR_OK;
}

err_t evaluator_run(evaluator_t *e, evaluation_t *out)
{
    const dataset_info_t *info = &e->dataset->info;
    double loss_sum = 0;
    if (e->worst) worst_clear(e->worst);
    watchdog_phase("evaluating");
    TRY(comm_agree(e->comm, run_local(e), "evaluation"));
    /* Every batch has one rank's loss and zeros: the sum in order has the same bits on any number of ranks.
     */
    TRY(comm_allreduce(e->comm, e->losses, e->n_batches, DTYPE_F64, COMM_SUM, "evaluation loss"));
    for (int64_t i = 0; i < e->n_batches; i++) loss_sum += e->losses[i];
    TRY(comm_allreduce(e->comm, e->confusion, n_counts(e), DTYPE_I64, COMM_SUM, "evaluation counts"));
    if (e->worst) TRY(worst_gather(e->worst));
    int64_t n_correct = 0;
    for (int k = 0; k < info->n_classes; k++) n_correct += e->confusion[k * info->n_classes + k];
    double n = (double)info->n_samples[SPLIT_VAL];
    *out =
        (evaluation_t){.n = info->n_samples[SPLIT_VAL],
                       .n_correct = n_correct,
                       .loss = loss_sum / n,
                       .accuracy = (double)n_correct / n,
                       .top5 = info->n_classes > EVAL_FEW ? (double)e->confusion[n_counts(e) - 1] / n : NAN,
                       .confusion = e->confusion};
    return ERR_OK;
}
