/* SPDX-License-Identifier: MIT */
/* Guest: the records of steps, epochs and evaluations in metrics.jsonl, and the console's lines of epochs
 * and evaluations. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "text/figure.h"
#include "text/progress.h"
#include "train/run/trainer.h"

/* --reproducible: the hash of the gradients that each rank computed, for dptrain replay. */
static void put_gradients(const virtual_shards_t *shards, int size, json_t *j)
{
    if (!shards) return;
    json_array_begin(j, "gradients");
    for (int r = 0; r < size; r++) json_hex(j, NULL, virtual_shards_gradient_hash(shards, size, r), 8);
    json_array_end(j);
}

static void put_step(const trainer_t *t, const step_result_t *r, json_t *j)
{
    double values[TASK_MAX_METRICS];
    const double gradient_norm = t->learning.optim->gradient_norm;
    task_metrics_of_training(&t->task.metrics, r->sums, (double)r->n, values);
    json_int(j, "step", r->number);
    json_int(j, "epoch", r->epoch);
    task_metrics_json(&t->task.metrics, "", true, values, j);
    json_real(j, "lr", r->rate);
    if (!isnan(gradient_norm)) json_real(j, "gradient_norm", gradient_norm);
    json_real(j, "step_sec", r->cost.total);
    json_real(j, "data_wait_sec", r->cost.data);
    json_real(j, "forward_sec", r->cost.forward);
    json_real(j, "backward_sec", r->cost.backward);
    json_real(j, "exposed_comm_sec", r->cost.comm);
    if (t->learning.slices.size) json_real(j, "allgather_sec", r->cost.gather);
    json_real(j, "optimizer_sec", r->cost.optimizer);
    json_real(j, "cpu_sec", r->cost.cpu);
    put_gradients(t->learning.shards, t->comm->size, j);
}

static err_t record_step(void *trainer, const step_result_t *r)
{
    trainer_t *t = trainer;
    const bool sampled = r->number % t->options->log_every == 0;
    json_t *j = metrics_begin(&t->output.records, RECORD_STEP);
    if (j) put_step(t, r, j);
    if (sampled && t->options->kind->record) TRY(t->options->kind->record(&t->task.run, r->n, j));
    return metrics_end(&t->output.records, sampled || r->nth == 1); /* scripts/launch waits for the first */
}

enum { EVALUATION_TEXT_MAX = TASK_TEXT_MAX + 64 };

/* "validation loss 0.1234 accuracy 0.9876"; of some samples (--eval-samples) with their number. */
static void evaluation_text(const task_metrics_t *metrics, const evaluation_t *eval, bool some,
                            char out[EVALUATION_TEXT_MAX])
{
    char text[TASK_TEXT_MAX];
    task_metrics_text(metrics, eval->values, text);
    int used = snprintf(out, EVALUATION_TEXT_MAX, "validation %s", text);
    if (some)
        snprintf(out + used, (size_t)(EVALUATION_TEXT_MAX - used), " (%lld samples)", (long long)eval->n);
}

static void show_epoch(const trainer_t *t, const epoch_result_t *r)
{
    char trained[TASK_TEXT_MAX], validated[EVALUATION_TEXT_MAX] = "", waited[INPUT_STATS_TEXT_MAX];
    if (r->evaluated)
        evaluation_text(&t->task.metrics, &r->evaluation, t->options->eval_samples > 0, validated);
    progress_clear_line();
    if (r->between) {
        log_info("step %lld  %s  %s", (long long)t->at.step, validated, figure_time(r->evaluation_sec).text);
        return;
    }
    task_metrics_text(&t->task.metrics, r->trained, trained);
    log_info("epoch %lld  train %s%s%s  %s  %s", (long long)t->at.epoch + 1, trained,
             validated[0] ? "  " : "", validated, figure_rate(r->images_per_sec, "images/s").text,
             figure_time(r->train_sec).text);
    input_stats_text(&r->input, waited);
    if (waited[0]) log_info("         %s", waited);
}

static err_t record_epoch(void *trainer, const epoch_result_t *r)
{
    trainer_t *t = trainer;
    const task_metrics_t *metrics = &t->task.metrics;
    show_epoch(t, r);
    json_t *j = metrics_begin(&t->output.records, r->between ? RECORD_EVALUATION : RECORD_EPOCH);
    if (!j) return ERR_OK;
    if (r->between) json_int(j, "step", t->at.step);
    json_int(j, "epoch", t->at.epoch);
    if (!r->between) {
        json_int(j, "step", t->at.step);
        task_metrics_json(metrics, "train_", true, r->trained, j);
    }
    task_metrics_json(metrics, "val_", false, r->evaluation.values, j);
    if (!r->between) {
        json_real(j, "images_per_sec", r->images_per_sec);
        json_real(j, "train_sec", r->train_sec);
    }
    if (r->evaluated) json_real(j, "eval_sec", r->evaluation_sec);
    if (r->evaluated && t->options->kind->put_evaluation) t->options->kind->put_evaluation(&t->task.run, j);
    if (!r->between) input_stats_json(&r->input, j);
    return metrics_end(&t->output.records, true);
}

const guest_t records_guest = {.name = "records", .after_step = record_step, .after_epoch = record_epoch};
