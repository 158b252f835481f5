/* SPDX-License-Identifier: MIT */
/* Finds the record of the step that a resumed run computes first, and compares the losses. Loading the checkpoint is left
 * to resume.c. */
#include "train/run/resume_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/version.h"
#include "cluster/session/disk_wait.h"
#include "train/output/metrics.h"

typedef struct search {
    trainer_t *t;
    json_reader_t reader;
    resume_record_t *out;
    bool has_loss, has_cost;
} search_t;

static bool begins(const char *line, size_t n_bytes, const char *kind)
{
    char text[48];
    const size_t n = (size_t)snprintf(text, sizeof text, "{\"record\":\"%s\",", kind);
    return n_bytes > n && memcmp(line, text, n) == 0;
}

static void take_text(const json_value_t *object, const char *key, char *out, size_t n_bytes)
{
    const char *text = "";
    json_get_text(object, key, &text);
    snprintf(out, n_bytes, "%s", text);
}

static void take_run(const json_value_t *record, resume_record_t *out)
{
    const json_value_t *options = json_get(record, "options"), *topology = json_get(record, "topology"),
                       *software = json_get(record, "software");
    out->accumulate = 1;
    json_get_int(options, "accumulate", &out->accumulate);
    json_get_int(record, "micro_batch", &out->micro_batch);
    json_get_int(topology, "ranks", &out->ranks);
    json_get_int(topology, "threads", &out->threads);
    take_text(software, "git", out->git, sizeof out->git);
    take_text(software, "backend", out->backend, sizeof out->backend);
}

/* Visits records from the last to the first: the step's, then that of the process that computed it. */
static bool visit(void *context, const char *line, size_t n_bytes)
{
    search_t *s = context;
    const json_value_t *record;
    const bool is_run = begins(line, n_bytes, "run"), is_step = begins(line, n_bytes, "step"),
               is_checkpoint = begins(line, n_bytes, "checkpoint");
    int64_t step = -1;
    if (!(is_run && s->has_loss) && !(is_step && !s->has_loss) && !(is_checkpoint && !s->has_cost))
        return true;
    json_reader_reset(&s->reader);
    if (json_read(&s->reader, line, n_bytes, &record) != ERR_OK) return true; /* cut off */
    if (is_checkpoint) s->has_cost = json_get_real(record, "cost_sec", &s->out->cost_sec);
    if (is_step && json_get_int(record, "step", &step) && step == s->t->at.step)
        s->has_loss = json_get_real(record, "loss", &s->out->loss);
    if (is_run) take_run(record, s->out);
    return !is_run;
}

void resume_check_read(trainer_t *t)
{
    char path[FS_PATH_MAX], *slash;
    resume_record_t *record = &t->saving.record;
    search_t search = {.t = t, .out = record};
    *record = (resume_record_t){.loss = NAN};
    snprintf(path, sizeof path, "%s", t->saving.resumed_from);
    slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (snprintf(path + n, sizeof path - n, "metrics.jsonl") >= (int)(sizeof path - n)) return;
    disk_work_begin("reading", path);
    if (metrics_tail(path, visit, &search) != ERR_OK)
        log_warn("the resumed run is not compared with its records: %s", err_message());
    disk_wait_end();
    json_reader_free(&search.reader);
}

/* Whether batch norm has the same groups of samples, in which the loss is computed. */
static bool same_norm_groups(const trainer_t *t, const resume_record_t *r)
{
    const train_options_t *o = t->options;
    const graph_t *g = t->model.graph;
    bool has_norm = false;
    for (int i = 0; i < g->n_nodes; i++)
        has_norm |= g->nodes[i].desc.kind == OP_BATCH_NORM && !g->nodes[i].desc.attr.batch_norm.frozen;
    const bool same_ranks = o->reproducible || r->ranks == t->comm->size;
    if (!has_norm) return true;
    if (t->task.run.micro_batch > 0) return same_ranks && r->micro_batch == t->task.run.micro_batch;
    if (o->sync_bn || o->bn_group) return true;
    const int64_t shards = o->reproducible ? 1 : r->ranks, shards_now = o->reproducible ? 1 : t->comm->size;
    return shards * r->accumulate == shards_now * o->accumulate;
}

/* Whether --reproducible promises the bits. The number of shards cannot change. */
static bool promises_bits(const trainer_t *t, const resume_record_t *r)
{
    return t->options->reproducible && r->accumulate == t->options->accumulate &&
           r->micro_batch == t->task.run.micro_batch && r->threads == t->runtime.n_threads &&
           strcmp(r->git, version_git_hash) == 0 && strcmp(r->backend, t->runtime.device) == 0;
}

typedef struct verdict {
    const char *text; /* in the record */
    const char *why;  /* not compared; or NULL */
    double tolerance; /* of the losses; 0: bits */
} verdict_t;

static verdict_t judge(const trainer_t *t, const resume_record_t *r, double loss)
{
    if (isnan(r->loss)) return (verdict_t){"not compared", "no record of the step", 0};
    if (r->ranks == 0) return (verdict_t){"not compared", "no record of the run before", 0};
    if (!same_norm_groups(t, r))
        return (verdict_t){"not compared", "batch norm has other groups of samples", 0};
    double tolerance = 0;
    if (!promises_bits(t, r))
        tolerance = fmax(RESUME_TOLERANCE * fmax(fabs(r->loss), fabs(loss)), RESUME_TOLERANCE_LEAST);
    const double difference = fabs(loss - r->loss);
    const bool equal = loss >= r->loss && loss <= r->loss;
    return (verdict_t){equal ? "equal" : difference <= tolerance ? "close" : "differs", NULL, tolerance};
}

static err_t write_record(trainer_t *t, const resume_record_t *r, const verdict_t *verdict, double loss)
{
    json_t *j = metrics_begin(&t->output.records, RECORD_RESUME);
    if (!j) return ERR_OK;
    json_int(j, "step", t->at.step - 1);
    json_string(j, "checkpoint", t->saving.resumed_from);
    json_string(j, "verdict", verdict->text);
    json_string(j, "reason", verdict->why);
    json_real(j, "loss", loss);
    json_real(j, "recorded_loss", r->loss);
    json_real(j, "tolerance", verdict->why ? NAN : verdict->tolerance);
    json_int(j, "ranks", t->comm->size);
    json_int(j, "recorded_ranks", r->ranks);
    return metrics_end(&t->output.records, true);
}

static void say(const trainer_t *t, const resume_record_t *r, const verdict_t *verdict, double loss)
{
    const bool bits = !(verdict->tolerance > 0);
    if (verdict->why)
        log_detail("resumed: the first loss was not compared: %s", verdict->why);
    else if (strcmp(verdict->text, "differs") != 0)
        log_note("  verified: the loss of step %lld is %s%s", (long long)t->at.step - 1,
                 json_number(loss).text,
                 strcmp(verdict->text, "equal") == 0 ? ", as recorded" : ", close to the record");
    else
        log_warn(
            "the first loss after resuming differs: %s at step %lld, but %s was recorded before (%s); %s",
            json_number(loss).text, (long long)t->at.step - 1, json_number(r->loss).text,
            bits ? "--reproducible promises the same bits" : "more than rounding explains",
            bits ? "dptrain replay finds the host that computed wrongly"
                 : "check the memory of the hosts, and that --data is unchanged");
}

err_t resume_check_step(trainer_t *t, const step_result_t *result)
{
    const resume_record_t *r = &t->saving.record;
    if (result->nth > 1) return ERR_OK;
    const double loss = result->sums[TASK_SUM_LOSS] / (double)result->n;
    const verdict_t verdict = judge(t, r, loss);
    progress_clear_line();
    say(t, r, &verdict, loss);
    return write_record(t, r, &verdict, loss);
}
