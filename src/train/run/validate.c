/* SPDX-License-Identifier: MIT */
/* Evaluates during training and records the result. Computing it is left to train/evaluate, an epoch's record
 * to loop.c. */
#include "train/run/validate.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/trace.h"
#include "train/run/interruption.h"
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
    TRY(trainer_average_states(t));
    trainer_release_weights(t);
    interruption_close(t);
    err_t err = interruption_copy(t);
    if (err == ERR_OK) err = optim_swap_average(t->optim, t->params.device);
    TRY(comm_agree(t->comm, err, "swapping in the average weights"));
    interruption_open_validation(t);
    TRY(evaluator_run(&t->evaluator, out));
    interruption_close(t);
    TRY(comm_agree(t->comm, optim_swap_average(t->optim, t->params.device), "swapping the weights back"));
    if (out->accuracy > t->at.best_accuracy) t->at.best_accuracy = out->accuracy;
    trace_add(TRACE_TRAINING, &(trace_span_t){"evaluation", "phase", start, clock_sec(), t->at.step - 1, 0});
    return ERR_OK;
}

err_t trainer_follow_evaluation(trainer_t *t, evaluation_due_t due, const evaluation_t *eval)
{
    if (!isfinite(eval->loss))
        return comm_agree(
            t->comm,
            err_raise(ERR_GATE, __FILE__, __LINE__,
                      "the validation loss is not finite after step %lld: the weights have diverged; "
                      "lower --lr or add --warmup",
                      (long long)t->at.step),
            "checking the loss");
    bool watched = t->schedule.kind == SCHEDULE_PLATEAU && due == EVALUATION_SCHEDULED;
    if (watched && schedule_plateau_update(&t->plateau, eval->loss))
        log_info("validation loss has not improved: the learning rate is now %g", trainer_rate(t));
    return ERR_OK;
}

void trainer_evaluation_text(const trainer_t *t, const evaluation_t *eval, char out[EVALUATION_TEXT_MAX])
{
    int used = snprintf(out, EVALUATION_TEXT_MAX, "validation loss %.4f %s %.4f", eval->loss,
                        t->dataset->info.multi_label ? "mAP" : "accuracy", eval->accuracy);
    if (!isnan(eval->top5))
        used += snprintf(out + used, (size_t)(EVALUATION_TEXT_MAX - used), " top-5 %.4f", eval->top5);
    if (t->options->eval_samples)
        snprintf(out + used, (size_t)(EVALUATION_TEXT_MAX - used), " (%lld samples)", (long long)eval->n);
}

void trainer_evaluation_json(const trainer_t *t, const evaluation_t *eval, json_t *j)
{
    bool multi_label = t->dataset->info.multi_label;
    json_real(j, "val_loss", eval->loss);
    json_real(j, "val_accuracy", multi_label ? NAN : eval->accuracy);
    if (multi_label) json_real(j, "val_map", eval->accuracy);
    if (!isnan(eval->top5)) json_real(j, "val_top5", eval->top5);
}

err_t trainer_evaluation_event(trainer_t *t, const evaluation_t *eval)
{
    const tensorboard_scalar_t scalars[] = {
        {"validation/loss", eval->loss},
        {t->dataset->info.multi_label ? "validation/mAP" : "validation/accuracy", eval->accuracy}};
    return tensorboard_write(&t->tensorboard, t->at.step, scalars, 2, true);
}

static err_t record_between(trainer_t *t, const evaluation_t *eval, double sec)
{
    json_t *j = metrics_begin(&t->metrics, "evaluation");
    if (!j) return ERR_OK;
    json_int(j, "step", t->at.step);
    json_int(j, "epoch", t->at.epoch);
    trainer_evaluation_json(t, eval, j);
    json_real(j, "eval_sec", sec);
    TRY(metrics_end(&t->metrics, true));
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
