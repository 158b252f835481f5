/* SPDX-License-Identifier: MIT */
/* Guest: verifies a resumed run. Its first loss is computed from the checkpoint's weights and the same samples as that of the
 * run before, and compared with its record (resume_record_t), if the run before reached that step. A difference is a warning:
 * it does not end the run. */

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"
#include "text/progress.h"
#include "train/run/trainer.h"

/* Of the losses' difference: relative, and absolute near 0. Other numbers of ranks and threads changed the loss of small
 * models by less than 2e-6 in fp32 and 5e-4 in bf16. */
static const double relative_tolerance = 1e-3, least_tolerance = 1e-5;

typedef struct resume_check {
    const train_options_t *options;
    const runtime_t *runtime;
    const comm_t *comm;
    const train_position_t *at;
    const train_model_t *model;
    const train_task_t *task;
    const train_saving_t *saving;
    metrics_t *records;
} resume_check_t;

/* Whether batch norm has the same groups of samples, in which the loss is computed. */
static bool same_norm_groups(const resume_check_t *s, const resume_record_t *r)
{
    const train_options_t *o = s->options;
    const bool same_ranks = o->reproducible || r->ranks == s->comm->size;
    if (!graph_has_batch_norm(s->model->graph)) return true;
    if (s->task->run.micro_batch > 0) return same_ranks && r->micro_batch == s->task->run.micro_batch;
    if (o->sync_bn || o->bn_group) return true;
    const int64_t shards = o->reproducible ? 1 : r->ranks, shards_now = o->reproducible ? 1 : s->comm->size;
    return shards * r->accumulate == shards_now * o->accumulate;
}

/* Whether --reproducible promises the bits. The number of shards cannot change. */
static bool promises_bits(const resume_check_t *s, const resume_record_t *r)
{
    return s->options->reproducible && r->accumulate == s->options->accumulate &&
           r->micro_batch == s->task->run.micro_batch && r->threads == s->runtime->n_threads &&
           strcmp(r->git, version_git_hash) == 0 && strcmp(r->backend, s->runtime->device) == 0;
}

typedef struct verdict {
    const char *text; /* in the record */
    const char *why;  /* not compared; or NULL */
    double tolerance; /* of the losses; 0: bits */
} verdict_t;

static verdict_t judge_loss(const resume_check_t *s, const resume_record_t *r, double loss)
{
    if (isnan(r->loss)) return (verdict_t){"not compared", "no record of the step", 0};
    if (r->ranks == 0) return (verdict_t){"not compared", "no record of the run before", 0};
    if (!same_norm_groups(s, r))
        return (verdict_t){"not compared", "batch norm has other groups of samples", 0};
    double tolerance = 0;
    if (!promises_bits(s, r))
        tolerance = fmax(relative_tolerance * fmax(fabs(r->loss), fabs(loss)), least_tolerance);
    const double difference = fabs(loss - r->loss);
    const bool equal = loss >= r->loss && loss <= r->loss;
    return (verdict_t){equal ? "equal" : difference <= tolerance ? "close" : "differs", NULL, tolerance};
}

static err_t write_verdict(const resume_check_t *s, const resume_record_t *r, const verdict_t *verdict,
                           double loss)
{
    json_t *j = metrics_begin(s->records, RECORD_RESUME);
    if (!j) return ERR_OK;
    json_int(j, "step", s->at->step - 1);
    json_string(j, "checkpoint", s->saving->resumed_from);
    json_string(j, "verdict", verdict->text);
    json_string(j, "reason", verdict->why);
    json_real(j, "loss", loss);
    json_real(j, "recorded_loss", r->loss);
    json_real(j, "tolerance", verdict->why ? NAN : verdict->tolerance);
    json_int(j, "ranks", s->comm->size);
    json_int(j, "recorded_ranks", r->ranks);
    return metrics_end(s->records, true);
}

static void say_verdict(const resume_check_t *s, const resume_record_t *r, const verdict_t *verdict,
                        double loss)
{
    const bool bits = !(verdict->tolerance > 0);
    if (verdict->why)
        log_detail("resumed: the first loss was not compared: %s", verdict->why);
    else if (strcmp(verdict->text, "differs") != 0)
        log_note("  verified: the loss of step %lld is %s%s", (long long)s->at->step - 1,
                 json_number(loss).text,
                 strcmp(verdict->text, "equal") == 0 ? ", as recorded" : ", close to the record");
    else
        log_warn(
            "the first loss after resuming differs: %s at step %lld, but %s was recorded before (%s); %s",
            json_number(loss).text, (long long)s->at->step - 1, json_number(r->loss).text,
            bits ? "--reproducible promises the same bits" : "more than rounding explains",
            bits ? "dptrain replay finds the host that computed wrongly"
                 : "check the memory of the hosts, and that --data is unchanged");
}

static err_t compare_first(void *state, const step_result_t *result)
{
    const resume_check_t *s = state;
    const resume_record_t *r = &s->saving->record;
    if (result->nth > 1 || s->comm->rank > 0) return ERR_OK;
    const double loss = result->sums[TASK_SUM_LOSS] / (double)result->n;
    const verdict_t verdict = judge_loss(s, r, loss);
    progress_clear_line();
    say_verdict(s, r, &verdict, loss);
    return write_verdict(s, r, &verdict, loss);
}

static bool resume_check_wanted(const trainer_t *t)
{
    return t->saving.resumed_from[0] != '\0';
}

static err_t resume_check_open(trainer_t *t, void *state)
{
    resume_check_t *s = state;
    *s = (resume_check_t){.options = t->options,
                          .runtime = &t->runtime,
                          .comm = t->comm,
                          .at = &t->at,
                          .model = &t->model,
                          .task = &t->task,
                          .saving = &t->saving,
                          .records = &t->output.records};
    return ERR_OK;
}

const guest_t resume_check_guest = {.name = "resume check",
                                    .state_bytes = sizeof(resume_check_t),
                                    .wanted = resume_check_wanted,
                                    .open = resume_check_open,
                                    .after_step = compare_first};
