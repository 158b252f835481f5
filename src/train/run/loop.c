/* SPDX-License-Identifier: MIT */
/* The training loop: steps, epochs, checkpoints, records, and the end of a run. A single step is left to
 * step.c, evaluation to validate.c, setup to setup.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/stats.h"
#include "cluster/comm/watchdog.h"
#include "cluster/session/disk_wait.h"
#include "cluster/session/signals.h"
#include "store/checkpoint/store.h"
#include "train/output/status.h"
#include "train/run/end_record.h"
#include "train/run/interruption.h"
#include "train/run/replicas.h"
#include "train/run/resume_check.h"
#include "train/run/setup.h"
#include "train/run/step.h"
#include "train/run/validate.h"

/* --reproducible: the hash of the gradients that each rank computed, for dptrain replay. */
static void put_gradients(const trainer_t *t, json_t *j)
{
    if (!t->learning.shards) return;
    json_array_begin(j, "gradients");
    for (int r = 0; r < t->comm->size; r++)
        json_hex(j, NULL, shards_gradient_hash(t->learning.shards, t->comm->size, r), 8);
    json_array_end(j);
}

static void put_step(const trainer_t *t, const double *values, const step_cost_t *cost, json_t *j)
{
    json_int(j, "step", t->at.step);
    json_int(j, "epoch", t->at.epoch);
    task_metrics_json(&t->task.metrics, "", true, values, j);
    json_real(j, "lr", trainer_rate(t));
    if (!isnan(t->learning.optim->gradient_norm))
        json_real(j, "gradient_norm", t->learning.optim->gradient_norm);
    json_real(j, "step_sec", cost->total);
    json_real(j, "data_wait_sec", cost->data);
    json_real(j, "forward_sec", cost->forward);
    json_real(j, "backward_sec", cost->backward);
    json_real(j, "exposed_comm_sec", cost->comm);
    json_real(j, "optimizer_sec", cost->optimizer);
    json_real(j, "cpu_sec", cost->cpu);
    put_gradients(t, j);
}

static err_t record_step(trainer_t *t, const step_result_t *result, const step_cost_t *cost)
{
    bool sampled = t->at.step % t->options->log_every == 0;
    bool flush = sampled || t->telemetry.n_first_steps == 0; /* the first: scripts/launch waits for it */
    const task_metrics_t *metrics = &t->task.metrics;
    double values[TASK_MAX_METRICS];
    json_t *j = metrics_begin(&t->output.records, RECORD_STEP);
    task_metrics_of_training(metrics, result->sums, (double)result->n, values);
    if (j) put_step(t, values, cost, j);
    if (sampled) TRY(trainer_record_images(t, result->n, j));
    if (!j) return ERR_OK;
    TRY(metrics_end(&t->output.records, flush));
    tensorboard_scalars_t scalars = {0};
    for (int i = 0; i < metrics->n; i++) tensorboard_add(&scalars, "train", metrics->at[i]->label, values[i]);
    tensorboard_add(&scalars, "train", "learning_rate", trainer_rate(t));
    tensorboard_add(&scalars, "train", "images_per_sec", (double)result->n / cost->total);
    tensorboard_add(&scalars, "train", "gradient_norm", t->learning.optim->gradient_norm);
    return tensorboard_write(&t->output.tensorboard, t->at.step + 1, scalars.at, scalars.n, flush);
}

/* The first metrics of training, over the epoch so far. */
static void put_status_values(const trainer_t *t, status_value_t out[STATUS_VALUES])
{
    const task_metrics_t *metrics = &t->task.metrics;
    double values[TASK_MAX_METRICS];
    task_metrics_of_training(metrics, t->at.sums, (double)t->at.n_samples, values);
    for (int i = 0, n = 0; i < metrics->n && n < STATUS_VALUES; i++)
        if (metrics->at[i]->training != TASK_SUM_NONE)
            out[n++] = (status_value_t){metrics->at[i]->label, metrics->at[i]->brief, values[i]};
}

enum { LINE_SEC = 30 };

static void show_step(trainer_t *t)
{
    bool due =
        t->at.step % t->options->log_every == 0 || clock_sec() - t->telemetry.last_line_sec >= LINE_SEC;
    if (!progress_active() && !(progress_wants_lines() && due)) return;
    int64_t per_epoch = sampler_batches(t->input.sampler);
    status_t status = {.epoch = t->at.epoch + 1,
                       .n_epochs = (t->n_steps + per_epoch - 1) / per_epoch,
                       .step = t->at.step,
                       .n_steps = t->n_steps,
                       .images_per_sec = (double)t->input.global_batch / t->telemetry.smooth_step_sec,
                       .left_sec = (double)(t->n_steps - t->at.step) * t->telemetry.smooth_step_sec};
    put_status_values(t, status.values);
    status_draw(&status);
    if (progress_active()) return;
    char line[STATUS_MAX];
    status_line(&status, line, sizeof line);
    log_note("%s", line);
    t->telemetry.last_line_sec = clock_sec();
}

/* Times layers in steady steps on the CPU. On a GPU, where timing synchronizes after every layer, in the last
 * steps of the warm-up. */
static void time_layers(exec_t *exec, const telemetry_t *telemetry, const runtime_t *runtime)
{
    bool waits = runtime->backend->memory != NULL;
    bool begins = telemetry->n_first_steps == RATE_WARMUP_STEPS - LAYER_STEPS;
    if (begins || !waits) exec_clear_costs(exec);
    if (begins) exec_time_layers(exec, true);
    if (telemetry->n_first_steps == RATE_WARMUP_STEPS) exec_time_layers(exec, false);
}

static void account_step(trainer_t *t, const step_result_t *result, const step_cost_t *cost)
{
    trainer_advance(t, result);
    t->input.stats.wait_sec += cost->data;
    t->input.stats.step_sec += cost->total;
    telemetry_add(&t->telemetry, cost, result->n, result->n == t->input.global_batch);
    if (t->telemetry.n_first_steps <= RATE_WARMUP_STEPS)
        time_layers(t->model.exec, &t->telemetry, &t->runtime);
}

/* Collective. The input-pipeline statistics since the last call. */
static err_t take_input_stats(comm_t *comm, train_input_t *input, input_stats_t *out)
{
    *out = input->stats;
    input->stats = (input_stats_t){0};
    if (!input->dataset->ops->read) return ERR_OK;
    out->loader = loader_take_cost(input->prefetcher.loader);
    out->copy_sec = prefetcher_take_copy_sec(&input->prefetcher);
    return input_stats_gather(comm, out);
}

/* Results of an epoch. */
typedef struct epoch {
    bool evaluated;
    evaluation_t eval; /* unless evaluated, its values are NaN */
    input_stats_t input_stats;
    double train_sec, images_per_sec, eval_sec; /* eval_sec: if evaluated */
    double trained[TASK_MAX_METRICS];           /* of training */
} epoch_t;

static void show_epoch(const trainer_t *t, const epoch_t *e)
{
    char trained[TASK_TEXT_MAX], validated[EVALUATION_TEXT_MAX] = "", waited[INPUT_STATS_TEXT_MAX];
    task_metrics_text(&t->task.metrics, e->trained, trained);
    if (e->evaluated) trainer_evaluation_text(t, &e->eval, validated);
    progress_clear_line();
    log_info("epoch %lld  train %s%s%s  %s  %s", (long long)t->at.epoch + 1, trained,
             validated[0] ? "  " : "", validated, figure_rate(e->images_per_sec, "images/s").text,
             figure_time(e->train_sec).text);
    input_stats_text(&e->input_stats, waited);
    if (waited[0]) log_info("         %s", waited);
}

static err_t record_epoch(trainer_t *t, const epoch_t *e)
{
    json_t *j = metrics_begin(&t->output.records, RECORD_EPOCH);
    if (!j) return ERR_OK;
    json_int(j, "epoch", t->at.epoch);
    json_int(j, "step", t->at.step);
    task_metrics_json(&t->task.metrics, "train_", true, e->trained, j);
    task_metrics_json(&t->task.metrics, "val_", false, e->eval.values, j);
    json_real(j, "images_per_sec", e->images_per_sec);
    json_real(j, "train_sec", e->train_sec);
    if (e->evaluated) json_real(j, "eval_sec", e->eval_sec);
    input_stats_json(&e->input_stats, j);
    TRY(metrics_end(&t->output.records, true));
    return e->evaluated ? trainer_evaluation_event(t, &e->eval) : ERR_OK;
}

/* Also called after the last step of a run that ends inside an epoch; the position then stays. Without
 * samples in this process (n_trained 0) if the run was interrupted here. */
static err_t end_epoch(trainer_t *t, evaluation_due_t due, double train_sec, int64_t n_trained)
{
    epoch_t epoch = {.evaluated = due != EVALUATION_NONE,
                     .train_sec = train_sec,
                     .images_per_sec = n_trained > 0 ? (double)n_trained / train_sec : 0};
    task_metrics_of_training(&t->task.metrics, t->at.sums, (double)t->at.n_samples, epoch.trained);
    for (int i = 0; i < TASK_MAX_METRICS; i++) epoch.eval.values[i] = NAN;
    TRY(take_input_stats(t->comm, &t->input, &epoch.input_stats));
    const double start = clock_sec();
    if (epoch.evaluated) TRY(trainer_evaluate(t, &epoch.eval));
    epoch.eval_sec = clock_sec() - start;
    show_epoch(t, &epoch);
    TRY(comm_agree(t->comm, record_epoch(t, &epoch), "writing metrics"));
    if (epoch.evaluated) TRY(trainer_follow_evaluation(t, due, &epoch.eval));
    t->at.evaluation_due = false;
    if (t->at.batch == sampler_batches(t->input.sampler)) trainer_next_epoch(t);
    return ERR_OK;
}

/* Comes last: measuring the peak needs memory and time. */
static err_t report_profile(trainer_t *t)
{
    int64_t n_steps = t->telemetry.n_first_steps - RATE_WARMUP_STEPS;
    if (n_steps <= 0) {
        if (t->options->profile)
            log_info("no profile: the first %d steps of a process are not measured", RATE_WARMUP_STEPS);
        return ERR_OK;
    }
    profile_t profile;
    cpu_use_t cpu;
    TRY(cpu_use_gather(t->comm, &t->telemetry.cpu_watch, t->runtime.n_threads, t->runtime.n_host_cpus, &cpu));
    profile_run_t run = {.exec = t->model.exec,
                         .backend = t->runtime.backend,
                         .sums = &t->telemetry.steady,
                         .n_steps = n_steps,
                         .sum_sec = comm_buffer_sec(&t->learning.buffer),
                         .cpu = &cpu,
                         .may_measure =
                             strcmp(t->options->algorithms, "fixed") == 0 && !t->options->reproducible,
                         .boxes_sec = t->telemetry.boxes_sec,
                         .masks_sec = t->telemetry.masks_sec,
                         .times = &t->stragglers.times,
                         .n_layer_steps = t->runtime.backend->memory ? LAYER_STEPS : n_steps};
    err_t err = profile_gather(t->comm, &run, &profile);
    if (err == ERR_OK) {
        log_level_t level = log_get_level();
        if (level > LOG_QUIET) profile_print(&profile, t->options->profile || level == LOG_VERBOSE);
        json_t *j = metrics_begin(&t->output.records, RECORD_PROFILE);
        if (j) profile_json(&profile, j);
        err = comm_agree(t->comm, metrics_end(&t->output.records, true), "writing metrics");
    }
    profile_free(&profile);
    return err;
}

static void show_how_to_resume(const trainer_t *t)
{
    char text[INTERRUPTION_TEXT_MAX];
    if (t->comm->rank != 0) return;
    interruption_how_to_resume(t, text);
    log_info("%s", text);
}

/* Whether the folder has the step's checkpoint. */
static bool has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX])
{
    if (step < 0) return false;
    disk_wait_begin("listing", folder);
    bool saved = checkpoint_store_path(folder, step, path) == ERR_OK && fs_exists(path);
    disk_wait_end();
    return saved;
}

static void show_checkpoints(const trainer_t *t)
{
    char path[FS_PATH_MAX];
    const task_metrics_t *metrics = &t->task.metrics;
    if (has_checkpoint(t->output.folder, t->at.step, path)) log_info("checkpoint %s", path);
    if (t->options->keep_best && has_checkpoint(t->output.folder, t->at.best_step, path))
        log_info("best checkpoint %s: validation %s %.4f", path, metrics->at[metrics->main]->label,
                 t->at.best[metrics->main]);
}

static err_t checkpoint_if_due(trainer_t *t, bool due, bool epoch_end)
{
    const train_options_t *o = t->options;
    bool by_epoch = epoch_end && o->checkpoint_steps == 0 && o->checkpoint_sec <= 0 && !o->checkpoint_auto;
    bool by_steps = o->checkpoint_steps > 0 && t->at.step % o->checkpoint_steps == 0;
    bool by_best = o->keep_best && t->at.best_step == t->at.step && t->saving.last_step != t->at.step;
    return due || by_epoch || by_steps || by_best ? trainer_checkpoint(t, false) : ERR_OK;
}

/* The end of an epoch or a validation, if one is due, and a checkpoint. Resumed here after an interruption
 * without samples (n_trained 0). */
static err_t finish_step(trainer_t *t, double train_sec, int64_t n_trained, bool checkpoint_due)
{
    bool epoch_end = t->at.batch == sampler_batches(t->input.sampler), last = t->at.step == t->n_steps;
    if (t->at.evaluation_due) {
        evaluation_due_t due = trainer_evaluation_due(t, epoch_end, last);
        if (epoch_end || last)
            TRY(end_epoch(t, due, train_sec, n_trained));
        else if (due != EVALUATION_NONE)
            TRY(trainer_evaluate_between(t));
        t->at.evaluation_due = false;
    }
    TRY(interruption_open(t));
    return checkpoint_if_due(t, checkpoint_due, epoch_end);
}

static bool target_reached(const trainer_t *t)
{
    return train_target_reached(&t->target, &t->task.metrics, t->at.best);
}

/* Evaluation returns the same numbers on every rank. */
static err_t check_target(const trainer_t *t)
{
    err_t err = train_target_judge(&t->target, &t->task.metrics, t->at.best);
    return comm_agree(t->comm, err, "checking the target");
}

/* Whether something is due after step t->at.step that needs its weights. */
static bool pauses_after_step(const trainer_t *t)
{
    const train_options_t *o = t->options;
    int64_t done = t->at.step + 1;
    bool evaluates = o->eval && o->eval_steps > 0 && done % o->eval_steps == 0;
    bool saves = o->checkpoint_steps > 0 && done % o->checkpoint_steps == 0;
    return evaluates || saves || replicas_due(t, done) || done == t->n_steps ||
           t->at.batch + 1 == sampler_batches(t->input.sampler);
}

/* Collective. A signal during start-up: no step begins, as it may take long. */
static err_t stop_before_steps(const trainer_t *t, bool *stop)
{
    int32_t asked = stop_requested();
    TRY(comm_allreduce(t->comm, &asked, 1, DTYPE_I32, COMM_MAX, "start-up"));
    *stop = asked > 0;
    return ERR_OK;
}

err_t trainer_loop(trainer_t *t)
{
    bool stop = false;
    double train_sec = 0;
    int64_t n_trained = 0;
    t->saving.last_sec = t->telemetry.last_line_sec = clock_sec();
    t->saving.last_step = t->at.step;
    watchdog_time_calls(true);
    TRY(comm_agree(t->comm, interruption_prepare(t), "start-up"));
    TRY(interruption_open(t));
    TRY(stop_before_steps(t, &stop));
    if (t->at.evaluation_due && !stop) TRY(finish_step(t, 0, 0, false));
    if (t->at.step >= t->n_steps)
        log_info("nothing to do: the checkpoint is at step %lld of %lld; --steps and --epochs are totals",
                 (long long)t->at.step, (long long)t->n_steps);
    while (t->at.step < t->n_steps && !stop && !target_reached(t)) {
        step_result_t result = {0};
        step_cost_t cost = {0};
        /* The others notice a rank that fails alone here by their deadline, or at once when the job ends. */
        TRY(trainer_step(t, !pauses_after_step(t), &result, &cost));
        TRY(resume_check_step(t, &result));
        TRY(record_step(t, &result, &cost));
        account_step(t, &result, &cost);
        train_sec += cost.total;
        n_trained += result.n;
        stop = result.stop;
        bool epoch_end = t->at.batch == sampler_batches(t->input.sampler);
        bool last = t->at.step == t->n_steps;
        t->at.evaluation_due =
            epoch_end || last || trainer_evaluation_due(t, epoch_end, last) != EVALUATION_NONE;
        TRY(interruption_open(t));
        if (t->telemetry.n_first_steps == 1) progress_lines(LINE_SEC); /* show_step has its own */
        if (result.bad_found) TRY(corrupt_samples_share(t->comm, &t->input.bad));
        show_step(t);
        TRY(replicas_after_step(t, cost.total));
        TRY(finish_step(t, train_sec, n_trained, result.checkpoint_due));
        if (epoch_end) train_sec = 0, n_trained = 0;
    }
    progress_clear_line();
    if (t->saving.last_step != t->at.step) TRY(trainer_checkpoint(t, true));
    TRY(trainer_finish_checkpoints(t));
    if (t->input.dataset->ops->read) TRY(corrupt_samples_share(t->comm, &t->input.bad));
    bool reached = target_reached(t);
    stop = stop && t->at.step < t->n_steps && !reached;
    TRY(replicas_record(t));
    TRY(end_record(t, reached ? "target reached" : stop ? stop_words() : "finished"));
    if (!stop) show_checkpoints(t);
    TRY(report_profile(t));
    TRY(trace_file_write(&t->output.trace));
    if (stop) show_how_to_resume(t);
    return stop ? ERR_OK : check_target(t);
}
