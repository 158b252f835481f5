/* SPDX-License-Identifier: MIT */
/* Evaluates during training and records the result. Computing it is left to train/task and train/detect, an epoch's record
 * to loop.c. */
#include "train/run/validate.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "train/run/interruption.h"
#include "train/run/replicas.h"
#include "train/run/setup.h"
#include "train/run/step.h"

evaluation_due_t trainer_evaluation_due(const trainer_t *t, bool epoch_end, bool last)
{
    const train_options_t *o = t->options;
    bool by_epoch = o->eval_epochs > 0 && epoch_end && (t->at.epoch + 1) % o->eval_epochs == 0;
    bool by_steps = o->eval_steps > 0 && t->at.step % o->eval_steps == 0;
    if (!o->eval) return EVALUATION_NONE;
    if (by_epoch || by_steps) return EVALUATION_SCHEDULED;
    return last ? EVALUATION_FINAL : EVALUATION_NONE;
}

err_t trainer_evaluate(trainer_t *t, evaluation_t *out)
{
    double start = clock_sec();
    ASSERT(!t->steps.ahead);
    TRY(trainer_average_states(t));
    TRY(replicas_check(t, true));
    trainer_release_weights(t);
    interruption_close(t);
    err_t err = interruption_copy(t);
    if (err == ERR_OK) err = optim_swap_average(t->learning.optim, t->model.params.device);
    TRY(comm_agree(t->comm, err, "swapping in the average weights"));
    interruption_open_validation(t);
    TRY(t->options->detects ? detector_evaluate(t, out) : evaluator_run(&t->evaluator, out));
    interruption_close(t);
    TRY(comm_agree(t->comm, optim_swap_average(t->learning.optim, t->model.params.device),
                   "swapping the weights back"));
    for (int i = 0; i < t->task.metrics.n; i++) {
        if (!task_metric_better(t->task.metrics.at[i], out->values[i], t->at.best[i])) continue;
        t->at.best[i] = out->values[i];
        if (i == t->task.metrics.main) t->at.best_step = t->at.step;
    }
    trace_add(TRACE_TRAINING, &(trace_span_t){"evaluation", "phase", start, clock_sec(), t->at.step - 1, 0});
    return ERR_OK;
}

err_t trainer_follow_evaluation(trainer_t *t, evaluation_due_t due, const evaluation_t *eval)
{
    const task_metrics_t *metrics = &t->task.metrics;
    const task_metric_t *watched = metrics->at[metrics->plateau];
    double value = eval->values[metrics->plateau];
    if (!isfinite(eval->loss))
        return comm_agree(
            t->comm,
            err_raise(ERR_GATE, __FILE__, __LINE__,
                      "the validation loss is not finite after step %lld: the weights have diverged; "
                      "lower --lr or add --warmup",
                      (long long)t->at.step),
            "checking the loss");
    bool follows = t->learning.schedule.kind == SCHEDULE_PLATEAU && due == EVALUATION_SCHEDULED;
    if (follows && schedule_plateau_update(&t->learning.plateau, watched->higher_is_better ? -value : value))
        log_info("validation %s has not improved: the learning rate is now %g", watched->label,
                 trainer_rate(t));
    return ERR_OK;
}

void trainer_evaluation_text(const trainer_t *t, const evaluation_t *eval, char out[EVALUATION_TEXT_MAX])
{
    char text[TASK_TEXT_MAX];
    task_metrics_text(&t->task.metrics, eval->values, text);
    int used = snprintf(out, EVALUATION_TEXT_MAX, "validation %s", text);
    if (t->options->eval_samples)
        snprintf(out + used, (size_t)(EVALUATION_TEXT_MAX - used), " (%lld samples)", (long long)eval->n);
}

err_t trainer_evaluation_event(trainer_t *t, const evaluation_t *eval)
{
    tensorboard_scalars_t scalars = {0};
    for (int i = 0; i < t->task.metrics.n; i++)
        tensorboard_add(&scalars, "validation", t->task.metrics.at[i]->label, eval->values[i]);
    return scalars.n ? tensorboard_write(&t->output.tensorboard, t->at.step, scalars.at, scalars.n, true)
                     : ERR_OK;
}

static err_t record_between(trainer_t *t, const evaluation_t *eval, double sec)
{
    json_t *j = metrics_begin(&t->output.records, RECORD_EVALUATION);
    if (!j) return ERR_OK;
    json_int(j, "step", t->at.step);
    json_int(j, "epoch", t->at.epoch);
    task_metrics_json(&t->task.metrics, "val_", false, eval->values, j);
    json_real(j, "eval_sec", sec);
    TRY(metrics_end(&t->output.records, true));
    return trainer_evaluation_event(t, eval);
}

err_t trainer_evaluate_between(trainer_t *t)
{
    evaluation_t eval;
    char text[EVALUATION_TEXT_MAX];
    double start = clock_sec();
    TRY(trainer_evaluate(t, &eval));
    double sec = clock_sec() - start;
    trainer_evaluation_text(t, &eval, text);
    progress_clear_line();
    log_info("step %lld  %s  %s", (long long)t->at.step, text, figure_time(sec).text);
    TRY(comm_agree(t->comm, record_between(t, &eval, sec), "writing metrics"));
    return trainer_follow_evaluation(t, EVALUATION_SCHEDULED, &eval);
}
