#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "comm/watchdog.h"
#include "data/sampler.h"

/* This rank's batches, and so its samples; the last batch of all may be smaller. */
static void share_out(evaluator_t *e)
{
    int64_t n_all = e->dataset->info.n_samples[SPLIT_VAL];
    e->n = sampler_split(n_all, e->comm->rank, e->comm->size, EVAL_BATCH, &e->first);
    e->n_batches = (n_all + EVAL_BATCH - 1) / EVAL_BATCH;
}

err_t evaluator_open(comm_t *comm, exec_t *exec, const backend_t *backend, const dataset_t *dataset, double mean,
                     double std, evaluator_t *out)
{
    const dataset_info_t *info = &dataset->info;
    *out = (evaluator_t){.comm = comm, .exec = exec, .dataset = dataset, .mean = mean, .std = std};
    share_out(out);
    int64_t n_pixels = info->height * info->width * info->channels;
    err_t err;
    TRY_OUT(err, mem_new_array(EVAL_BATCH, sizeof *out->index, "evaluation", &out->index));
    size_t n_picture = (size_t)n_pixels * sizeof(float);
    TRY_OUT(err, mirror_new(backend, EVAL_BATCH * n_picture, "evaluation", &out->pixels));
    TRY_OUT(err, mirror_new(backend, EVAL_BATCH * sizeof(int32_t), "evaluation", &out->labels));
    TRY_OUT(err, mirror_new(backend, EVAL_BATCH * sizeof(int32_t), "evaluation", &out->predictions));
    TRY_OUT(err, mem_new_array((int64_t)info->n_classes * info->n_classes, sizeof *out->confusion,
                               "evaluation", &out->confusion));
    TRY_OUT(err, mem_new_array(out->n_batches, sizeof *out->losses, "evaluation", &out->losses));
    if (out->n >= EVAL_BATCH) TRY_OUT(err, exec_prepare(exec, EVAL_BATCH, false));
    TRY_OUT(err, exec_prepare(exec, out->n % EVAL_BATCH, false));
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
    exec_batch_t batch = {.n = n,
                          .pixels = e->pixels.device,
                          .labels = e->labels.device,
                          .predictions = e->predictions.device};
    dataset_read(e->dataset, SPLIT_VAL, e->index, n, e->mean, e->std, e->pixels.host, e->labels.host);
    TRY(mirror_push_all(&e->pixels));
    TRY(mirror_push_all(&e->labels));
    TRY(exec_forward(e->exec, &batch, false));
    TRY(exec_results(e->exec, &results));
    for (int64_t i = 0; i < n; i++) *loss += results.losses[i];
    for (int64_t i = 0; i < n; i++) e->confusion[labels[i] * info->n_classes + results.predictions[i]]++;
    if (e->worst) offer_mistakes(e, &results, n);
    return ERR_OK;
}

/* This rank's part: each batch's loss and the confusion counts. */
static err_t run_local(evaluator_t *e)
{
    const dataset_info_t *info = &e->dataset->info;
    memset(e->losses, 0, (size_t)e->n_batches * sizeof *e->losses);
    memset(e->confusion, 0, (size_t)info->n_classes * (size_t)info->n_classes * sizeof *e->confusion);
    for (int64_t done = 0; done < e->n; done += EVAL_BATCH) {
        int64_t n = e->n - done < EVAL_BATCH ? e->n - done : EVAL_BATCH;
        for (int64_t i = 0; i < n; i++) e->index[i] = e->first + done + i;
        TRY(run_batch(e, n, &e->losses[(e->first + done) / EVAL_BATCH]));
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
    TRY(comm_allreduce(e->comm, e->confusion, (int64_t)info->n_classes * info->n_classes, DTYPE_I64, COMM_SUM,
                       "evaluation counts"));
    if (e->worst) TRY(worst_gather(e->worst));
    int64_t n_correct = 0;
    for (int k = 0; k < info->n_classes; k++) n_correct += e->confusion[k * info->n_classes + k];
    double n = (double)info->n_samples[SPLIT_VAL];
    *out = (evaluation_t){info->n_samples[SPLIT_VAL], n_correct, loss_sum / n, (double)n_correct / n,
                          e->confusion};
    return ERR_OK;
}
