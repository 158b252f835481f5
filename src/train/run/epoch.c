/* SPDX-License-Identifier: MIT */
/* Evaluation during training: when it is due (--eval-every, --no-eval), what surrounds it, and the end of an epoch.
 * Computing it is left to the task, records and lines of the console to guests. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/run/trainer.h"

typedef enum evaluation_due {
    EVALUATION_NONE,
    EVALUATION_SCHEDULED, /* by --eval-every */
    EVALUATION_FINAL,     /* only because the run ends; a longer run has none here */
} evaluation_due_t;

/* The evaluation after a number of steps, the last of which may have ended an epoch. */
static evaluation_due_t evaluation_after(const trainer_t *t, int64_t done, bool epoch_end)
{
    const train_options_t *o = t->options;
    bool by_epoch = o->eval_epochs > 0 && epoch_end && (t->at.epoch + 1) % o->eval_epochs == 0;
    bool by_steps = o->eval_steps > 0 && done % o->eval_steps == 0;
    if (!o->eval) return EVALUATION_NONE;
    if (by_epoch || by_steps) return EVALUATION_SCHEDULED;
    return done == t->steps.n ? EVALUATION_FINAL : EVALUATION_NONE;
}

static bool ends_epoch(const trainer_t *t, int64_t done)
{
    return t->at.batch + done - t->at.step == sampler_batches(t->input.sampler);
}

bool trainer_epoch_follows(const trainer_t *t, int64_t done)
{
    const bool epoch_end = ends_epoch(t, done);
    return epoch_end || done == t->steps.n || evaluation_after(t, done, epoch_end) != EVALUATION_NONE;
}

/* Collective. Swaps weights and their average, if there is one. */
static err_t swap_average(trainer_t *t)
{
    static const char what[] = "swapping weights and their average";
    if (!t->learning.optim->average) return ERR_OK;
    if (t->learning.slices.size) TRY(comm_barrier(t->comm, what)); /* see comm_buffer_gather */
    TRY(comm_agree(t->comm, optim_swap_average(t->learning.optim, t->model.params.device), what));
    return trainer_gather_weights(t);
}

/* Collective. Evaluates the moving average of the weights, if there is one, else the weights. */
static err_t evaluate(trainer_t *t, evaluation_t *out)
{
    double start = clock_sec();
    ASSERT(!t->steps.ahead);
    TRY(trainer_average_states(t));
    TRY(guests_verify(&t->guests, true));
    TRY(comm_agree(t->comm, trainer_begin_change(t, CHANGE_EVALUATION), "evaluation"));
    TRY(swap_average(t));
    TRY(guests_end_change(&t->guests, CHANGE_EVALUATION));
    TRY(t->options->kind->evaluate(&t->task.run, out));
    TRY(guests_begin_change(&t->guests, CHANGE_STEP));
    TRY(swap_average(t));
    t->at.n_no_better++;
    for (int i = 0; i < t->task.metrics.n; i++) {
        if (!task_metric_better(t->task.metrics.at[i], out->values[i], t->at.best[i])) continue;
        t->at.best[i] = out->values[i];
        if (i != t->task.metrics.main) continue;
        t->at.best_step = t->at.step;
        t->at.n_no_better = 0;
    }
    trace_add(TRACE_TRAINING, &(trace_span_t){"evaluation", "phase", start, clock_sec(), t->at.step - 1, 0});
    return ERR_OK;
}

/* A loss that is not finite ends the run, and a scheduled evaluation may lower the learning rate (--schedule
 * plateau). */
static err_t follow_evaluation(trainer_t *t, evaluation_due_t due, const evaluation_t *eval)
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
                 train_rate(&t->learning, t->at.step));
    return ERR_OK;
}

/* Collective. What training measured since the last call, without samples if the run was interrupted here. */
static err_t take_training(trainer_t *t, epoch_result_t *out)
{
    train_input_t *input = &t->input;
    out->input = input->stats;
    out->train_sec = input->stats.step_sec;
    out->images_per_sec = input->n_trained > 0 ? (double)input->n_trained / out->train_sec : 0;
    task_metrics_of_training(&t->task.metrics, t->at.sums, (double)t->at.n_samples, out->trained);
    input->stats = (input_stats_t){0};
    input->n_trained = 0;
    if (!input->dataset->read) return ERR_OK;
    out->input.loader = loader_take_cost(input->prefetcher.loader);
    out->input.copy_sec = prefetcher_take_copy_sec(&input->prefetcher);
    return input_stats_gather(t->comm, &out->input);
}

void train_next_epoch(train_position_t *at)
{
    at->epoch++;
    at->batch = at->n_samples = 0;
    memset(at->sums, 0, sizeof at->sums);
}

err_t trainer_end_epoch(trainer_t *t)
{
    const bool epoch_end = ends_epoch(t, t->at.step);
    const evaluation_due_t due = evaluation_after(t, t->at.step, epoch_end);
    epoch_result_t result = {.between = !epoch_end && t->at.step < t->steps.n,
                             .evaluated = due != EVALUATION_NONE};
    for (int i = 0; i < TASK_MAX_METRICS; i++) result.evaluation.values[i] = NAN;
    if (!result.between) TRY(take_training(t, &result));
    if (!result.between || result.evaluated) {
        const double start = clock_sec();
        if (result.evaluated) TRY(evaluate(t, &result.evaluation));
        result.evaluation_sec = clock_sec() - start;
        TRY(comm_agree(t->comm, guests_after_epoch(&t->guests, &result), "writing metrics"));
        if (result.evaluated) TRY(follow_evaluation(t, due, &result.evaluation));
    }
    TRY(guests_begin_change(&t->guests, CHANGE_STEP));
    t->at.evaluation_due = false;
    if (epoch_end) train_next_epoch(&t->at);
    return ERR_OK;
}
