/* SPDX-License-Identifier: MIT */
/* The steps of a replay, computed by a trainer without folder and records, and the judgement on them: who computed
 * wrongly. What to compute is left to plan.c. */
#include "train/replay/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "text/figure.h"
#include "train/guard/replicas.h"
#include "train/replay/plan.h"
#include "train/start/options.h"
#include "train/start/setup.h"
#include "train/weights/model_file.h"

/* Compares what is computed again with what the run recorded; rank 0. A wrong rank's gradients reach all others in the
 * next sum, so the first difference decides: gradients come before the weights that they change, and each step before
 * the next. */
typedef struct judge {
    run_record_t *record;
    const replay_plan_t *plan;
    const trainer_t *t;
    const char *folder;
    int64_t n_gradients, n_checks, n_checkpoints; /* compared and found equal */
    bool differs;
    message_t verdict; /* if it differs */
} judge_t;

/* What the run did after a step. */
typedef struct judge_orders {
    bool averages, follows;
    double value; /* of the metric that it follows */
} judge_orders_t;

/* The process of the job that computed the last step. */
static int start_now(const judge_t *j)
{
    return run_record_start_of(j->record, j->plan->start, j->t->at.step);
}

/* ---- Words ---- */
enum { SHOWN = 8 };

/* "rank 1 on b, rank 3 on c" */
static void list_ranks(judge_t *j, const bool *named, int n, message_t *out)
{
    const run_start_t *start = &j->record->starts[start_now(j)];
    const json_value_t *run = NULL, *host = NULL;
    int n_named = 0;
    if (run_record_read(j->record, start->line, start->n_line, &run) == ERR_OK) {
        const json_value_t *hosts = json_get(json_get(run, "topology"), "host_of_rank");
        host = hosts ? hosts->first : NULL;
    }
    for (int r = 0; r < n; r++, host = host ? host->next : NULL) {
        if (!named[r] || n_named++ >= SHOWN) continue;
        message_append(out, "%srank %d", n_named > 1 ? ", " : "", r);
        if (host && host->kind == JSON_STRING) message_append(out, " on %s", host->text);
    }
    if (n_named > SHOWN) message_append(out, " and %d more", n_named - SHOWN);
}

static const char advice[] = "test the memory of the named host, and leave it out";
static const char doubt[] = "replay on another host to exclude this one";

/* What is wrong on some ranks, right on the others.
 *
 *   what  with the verb: "computed other gradients in step 7" */
static void name_some(judge_t *j, const bool *wrong, int n, int n_wrong, const char *what)
{
    bool right[4096];
    message_t bad = {0}, good = {0};
    for (int r = 0; r < n; r++) right[r] = !wrong[r];
    list_ranks(j, wrong, n, &bad);
    list_ranks(j, right, n, &good);
    message_append(&j->verdict, "%s %s; %s%s this machine's bits. Everything was equal up to step %lld; %s",
                   bad.text, what, good.text, n - n_wrong > 1 ? " have" : " has",
                   (long long)j->t->at.step - 1, advice);
}

/* ---- Gradients ---- */
static void say_gradients(judge_t *j, const bool *wrong, int n, int n_wrong)
{
    const long long step = j->t->at.step;
    char what[80];
    message_t all = {0};
    j->differs = true;
    snprintf(what, sizeof what, "computed other gradients in step %lld", step);
    if (n_wrong < n) {
        name_some(j, wrong, n, n_wrong, what);
        return;
    }
    list_ranks(j, wrong, n, &all);
    if (n == 1)
        message_append(&j->verdict, "%s %s than this machine; everything was equal up to step %lld; %s",
                       all.text, what, step - 1, doubt);
    else if (step - 1 > j->plan->from)
        message_append(
            &j->verdict,
            "no rank computed this machine's gradients in step %lld, although all did in step %lld: the sum of "
            "those, or the update that followed, was wrong on all ranks alike (%s); %s",
            step, step - 1, all.text, doubt);
    else
        message_append(&j->verdict,
                       "no rank computed this machine's gradients in step %lld, the first one (%s); %s", step,
                       all.text, doubt);
}

/* The step record's hashes, one per rank of the run. */
static err_t compare_gradients(judge_t *j, const json_value_t *hashes)
{
    enum { MAX_RANKS = 4096 };
    bool wrong[MAX_RANKS];
    const int n = (int)hashes->n;
    int n_wrong = 0, r = 0;
    if (hashes->n < 1 || hashes->n > MAX_RANKS || j->plan->n_shards % hashes->n != 0)
        RAISE(ERR_DATA, "%s: a step with the gradients of %lld ranks, but %lld shards", j->record->path,
              (long long)hashes->n, (long long)j->plan->n_shards);
    for (const json_value_t *at = hashes->first; at; at = at->next, r++) {
        uint64_t hash;
        if (!run_record_hex(at, &hash))
            RAISE(ERR_DATA, "%s: a step whose gradients have no hash", j->record->path);
        wrong[r] = hash != virtual_shards_gradient_hash(j->t->learning.shards, n, r);
        n_wrong += wrong[r];
    }
    if (n_wrong > 0)
        say_gradients(j, wrong, n, n_wrong);
    else
        j->n_gradients++;
    return ERR_OK;
}

static bool is_now(const judge_t *j, const run_event_t *event)
{
    return event->step == j->t->at.step && event->start == start_now(j);
}

/* The gradients of the ranks, and what follows. */
static err_t judge_gradients(judge_t *j, judge_orders_t *orders)
{
    const json_value_t *step = run_record_step(j->record, start_now(j), j->t->at.step - 1);
    const json_value_t *hashes = json_get(step, "gradients");
    *orders = (judge_orders_t){.averages = false};
    if (hashes && hashes->kind == JSON_ARRAY) TRY(compare_gradients(j, hashes));
    if (j->differs) return ERR_OK;
    const task_metrics_t *metrics = &j->t->task.metrics;
    const char *followed = /* by --schedule plateau */
        j->t->learning.schedule.kind == SCHEDULE_PLATEAU ? metrics->at[metrics->plateau]->name : NULL;
    char path[FS_PATH_MAX];
    orders->averages = j->t->at.step == j->plan->to && replay_has_checkpoint(j->folder, j->plan->to, path);
    for (int i = 0; i < j->record->n_events; i++) {
        const run_event_t *e = &j->record->events[i];
        const json_value_t *value;
        char name[64];
        if (!is_now(j, e)) continue;
        orders->averages |= e->kind != RUN_CHECK || e->with_states;
        if (e->kind != RUN_EVALUATION || !followed) continue;
        TRY(run_record_read(j->record, e->line, e->n_line, &value));
        snprintf(name, sizeof name, "val_%s", followed);
        orders->follows |= json_get_real(value, name, &orders->value);
    }
    return ERR_OK;
}

/* ---- Weights and optimizer state ---- */
/* The running statistics that each rank had are known, too: they are named before their average, in which all share. */
static err_t compare_rank_states(judge_t *j, const json_value_t *check)
{
    enum { MAX_RANKS = 4096 };
    bool wrong[MAX_RANKS];
    char what[96];
    const json_value_t *states = json_get(check, "rank_states");
    int n_wrong = 0, r = 0;
    if (!states || states->n < 1 || states->n > MAX_RANKS || j->plan->n_shards % states->n != 0)
        return ERR_OK;
    const int n = (int)states->n;
    for (const json_value_t *at = states->first; at; at = at->next, r++) {
        uint64_t hash = 0;
        wrong[r] =
            !run_record_hex(at, &hash) || hash != virtual_shards_states_hash(j->t->learning.shards, n, r);
        n_wrong += wrong[r];
    }
    if (n_wrong == 0 || n_wrong == n) return ERR_OK;
    j->differs = true;
    snprintf(what, sizeof what, "held other running statistics of batch norm after step %lld",
             (long long)j->t->at.step);
    name_some(j, wrong, n, n_wrong, what);
    return ERR_OK;
}

/* The hash of this machine's state, of what the ranks compared. */
static err_t hash_as(const judge_t *j, const json_value_t *check, bool with_states, uint64_t *out)
{
    const bool weights_only = json_get(check, "weights_only") != NULL;
    return replicas_hash(&j->t->model, weights_only ? NULL : j->t->learning.optim, with_states, out);
}

static err_t compare_check(judge_t *j, const run_event_t *event)
{
    enum { MAX_RANKS = 4096 };
    bool wrong[MAX_RANKS];
    const json_value_t *check;
    uint64_t mine, hash = 0;
    char what[96];
    message_t all = {0};
    TRY(run_record_read(j->record, event->line, event->n_line, &check));
    TRY(hash_as(j, check, event->with_states, &mine));
    if (event->with_states) TRY(compare_rank_states(j, check));
    if (j->differs) return ERR_OK;
    const json_value_t *hashes = json_get(check, "hashes"), *at = hashes ? hashes->first : NULL;
    const int64_t n = hashes ? hashes->n : j->plan->n_ranks;
    int n_wrong = 0;
    if (n < 1 || n > MAX_RANKS)
        RAISE(ERR_DATA, "%s: a comparison of %lld ranks", j->record->path, (long long)n);
    for (int r = 0; r < n; r++, at = at ? at->next : NULL) {
        if (!run_record_hex(hashes ? at : json_get(check, "hash"), &hash))
            RAISE(ERR_DATA, "%s: a comparison without hashes after step %lld", j->record->path,
                  (long long)event->step);
        wrong[r] = hash != mine;
        n_wrong += wrong[r];
    }
    j->n_checks += n_wrong == 0;
    j->differs = n_wrong > 0;
    snprintf(what, sizeof what, "held other weights or optimizer state after step %lld",
             (long long)event->step);
    if (n_wrong == n) {
        list_ranks(j, wrong, (int)n, &all);
        message_append(
            &j->verdict,
            "after step %lld no rank held this machine's weights, optimizer state or running statistics, although "
            "their gradients were equal up to then (%s%s): a sum or an update was wrong%s; %s",
            (long long)j->t->at.step, all.text, !hashes ? ", equal among each other" : "",
            !hashes ? " on all ranks alike" : "", doubt);
    } else if (n_wrong > 0)
        name_some(j, wrong, (int)n, n_wrong, what);
    return ERR_OK;
}

static err_t compare_arrays(checkpoint_t *checkpoint, const ckpt_content_t *mine, message_t *differ,
                            int *n_differ)
{
    enum { NAMED = 6 };
    for (int i = 0; i < mine->n_arrays; i++) {
        const ckpt_array_t *array = &mine->arrays[i], *saved = checkpoint_find(checkpoint, array->name);
        int64_t n_bytes = 0;
        void *data = NULL;
        if (saved) TRY(checkpoint_read_new(checkpoint, saved, &n_bytes, &data));
        const bool same = saved && n_bytes == shape_count(array->shape) * (int64_t)dtype_size(array->dtype) &&
                          memcmp(data, array->data, (size_t)n_bytes) == 0;
        mem_free(&data);
        if (same) continue;
        if (++*n_differ <= NAMED) message_append(differ, "%s%s", *n_differ > 1 ? ", " : "", array->name);
    }
    if (*n_differ > NAMED) message_append(differ, ", …");
    return ERR_OK;
}

/* Rank 0. Compares the state with a checkpoint of the same step, bit by bit. ERR_DATA: it cannot be read.
 *
 *   differ  receives the names of the first arrays that differ */
static err_t compare_checkpoint(const trainer_t *t, const char *path, message_t *differ, int *n_differ,
                                int *n_all)
{
    model_content_t content;
    checkpoint_t *checkpoint = NULL;
    const model_file_t file = {.graph = t->model.graph,
                               .norm = t->input.dataset->info.norm,
                               .params = t->model.params.host,
                               .states = t->model.states.host,
                               .optim = t->learning.optim};
    *differ = (message_t){0};
    *n_differ = *n_all = 0;
    TRY(hd_buffer_pull_all(&t->model.params));
    TRY(optim_pull(t->learning.optim));
    TRY(checkpoint_open(path, &checkpoint));
    err_t err = model_file_content(&file, &content);
    if (err == ERR_OK) {
        err = compare_arrays(checkpoint, &content.content, differ, n_differ);
        *n_all = content.content.n_arrays;
        model_file_release(&content);
    }
    checkpoint_close(&checkpoint);
    return err;
}

/* Then, with the orders carried out: weights, optimizer state, running statistics. */
static err_t judge_state(judge_t *j)
{
    const int64_t step = j->t->at.step;
    char path[FS_PATH_MAX];
    bool saved = step == j->plan->to;
    for (int i = 0; i < j->record->n_events && !j->differs; i++) {
        const run_event_t *e = &j->record->events[i];
        if (!is_now(j, e)) continue;
        if (e->kind == RUN_CHECK) TRY(compare_check(j, e));
        saved |= e->kind == RUN_CHECKPOINT;
    }
    if (!saved || j->differs || !replay_has_checkpoint(j->folder, step, path)) return ERR_OK;
    message_t arrays;
    int n_differ, n_all;
    TRY(compare_checkpoint(j->t, path, &arrays, &n_differ, &n_all));
    j->n_checkpoints += n_differ == 0;
    j->differs = n_differ > 0;
    if (!j->differs) return ERR_OK;
    const bool rank_0[] = {true};
    message_t writer = {0};
    list_ranks(j, rank_0, 1, &writer);
    message_append(
        &j->verdict,
        "%s has other bits in %d of %d arrays (%s), although the gradients were equal up to step %lld: they "
        "changed in the memory of %s, which wrote it, or in a sum or an update on all ranks; %s",
        path, n_differ, n_all, arrays.text, (long long)step, writer.text, doubt);
    return ERR_OK;
}

/* Before the first step: the checkpoint against the ranks' comparison of replicas just before it was written. */
static err_t judge_start(judge_t *j)
{
    const bool rank_0[] = {true};
    message_t writer = {0};
    for (int i = 0; i < j->record->n_events && !j->differs; i++) {
        const run_event_t *e = &j->record->events[i];
        const json_value_t *check;
        uint64_t mine, hash;
        if (e->kind != RUN_CHECK || e->differs || !is_now(j, e)) continue;
        TRY(run_record_read(j->record, e->line, e->n_line, &check));
        TRY(hash_as(j, check, e->with_states, &mine));
        j->differs = run_record_hex(json_get(check, "hash"), &hash) && hash != mine;
    }
    if (!j->differs) return ERR_OK;
    list_ranks(j, rank_0, 1, &writer);
    message_append(
        &j->verdict,
        "%s has other bits than all ranks held when they were compared just before: they changed in the "
        "memory of %s, which wrote it; %s. Replay and resume from another checkpoint",
        j->plan->checkpoint, writer.text, advice);
    return ERR_OK;
}

/* ---- The steps ---- */
typedef struct replay {
    const replay_options_t *options;
    run_record_t record; /* rank 0 */
    replay_plan_t plan;
    char *saved; /* the run's options, "key = value" lines; with --reproducible */
    train_options_t run_options;
    char *storage; /* text that they point into */
    trainer_t t;
    judge_t judge; /* its verdict on all ranks, the rest on rank 0 */
} replay_t;

/* Collective. */
static err_t make_plan(replay_t *r)
{
    static const char what[] = "reading the record of the run";
    comm_t *comm = r->t.runtime.comm;
    const replay_options_t *o = r->options;
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        disk_work_begin("reading", o->folder);
        err = run_record_open(o->folder, &r->record);
        if (err == ERR_OK) err = replay_plan(&r->record, o->folder, o->step, &r->plan, &r->saved);
        disk_wait_end();
    }
    TRY(comm_agree(comm, err, what));
    TRY(comm_broadcast(comm, &r->plan, sizeof r->plan, 0, what));
    if (!r->saved) err = mem_new((size_t)r->plan.n_options, "options", &r->saved);
    TRY(comm_agree(comm, err, what));
    return comm_broadcast(comm, r->saved, r->plan.n_options, 0, what);
}

/* The options of the record, which a resumed run may have changed since its checkpoint. */
static err_t take_options(replay_t *r)
{
    train_options_t *options = &r->run_options;
    const replay_plan_t *p = &r->plan;
    mem_free(&r->storage);
    TRY(train_options_inherit(options, r->saved, &r->storage));
    if (p->data[0]) options->data = p->data;
    if (r->options->data) options->data = r->options->data;
    options->eval = false; /* it changes no bits */
    options->runtime.threads = p->n_threads;
    if (p->micro_batch > 0) options->detect.micro_batch = p->micro_batch;
    return ERR_OK;
}

static err_t make_options(replay_t *r)
{
    TRY(train_options_bind(&r->run_options));
    TRY(take_options(r));
    if (r->plan.checkpoint[0]) r->run_options.resume = r->plan.checkpoint;
    return ERR_OK;
}

static err_t check_data(const dataset_info_t *info, const char *xxh3)
{
    if (strcmp(dataset_hash(info).text, xxh3) == 0) return ERR_OK;
    RAISE(ERR_DATA, "%s is not the data of the run; point --data to the same files", info->source);
}

/* Collective. */
static err_t set_up(replay_t *r)
{
    static const char what[] = "preparing a replay";
    trainer_t *t = &r->t;
    TRY(comm_agree(t->comm, make_options(r), what));
    TRY(trainer_find_checkpoint(t));
    TRY(comm_agree(t->comm, take_options(r), what));
    TRY(trainer_build(t));
    TRY(comm_agree(t->comm, check_data(&t->input.dataset->info, r->plan.data_xxh3), what));
    ASSERT(t->options->reproducible > 0);
    TRY(trainer_restore(t));
    /* The checkpoint may have been written while the validation of its step was due. */
    if (train_epoch_ended(&t->at, &t->input)) train_next_epoch(&t->at);
    t->at.evaluation_due = false;
    t->steps.n = r->plan.to; /* the schedule knows the run's own length */
    t->saving.saved_threads = r->plan.n_threads;
    TRY(trainer_set_threads(t));
    TRY(trainer_prepare(t));
    TRY(trainer_plan(t, NULL));
    return trainer_begin(t);
}

/* Collective. */
static err_t share_verdict(replay_t *r, err_t err)
{
    comm_t *comm = r->t.runtime.comm;
    TRY(comm_agree(comm, err, "comparing bits"));
    return comm_broadcast(comm, &r->judge.differs, sizeof r->judge.differs, 0, "comparing bits");
}

/* Collective. */
static err_t replay_step(replay_t *r)
{
    comm_t *comm = r->t.runtime.comm;
    judge_orders_t orders = {.averages = false};
    trainer_t *t = &r->t;
    step_result_t result;
    TRY(trainer_step(t, &result));
    if (train_epoch_ended(&t->at, &t->input)) train_next_epoch(&t->at);
    TRY(share_verdict(r, comm->rank == 0 ? judge_gradients(&r->judge, &orders) : ERR_OK));
    if (r->judge.differs) return ERR_OK;
    TRY(comm_broadcast(comm, &orders, sizeof orders, 0, "comparing bits"));
    if (orders.averages) TRY(trainer_average_states(t));
    TRY(share_verdict(r, comm->rank == 0 ? judge_state(&r->judge) : ERR_OK));
    if (orders.follows) {
        const task_metrics_t *metrics = &t->task.metrics;
        const bool higher = metrics->at[metrics->plateau]->higher_is_better;
        schedule_plateau_update(&t->learning.plateau, higher ? -orders.value : orders.value);
    }
    return ERR_OK;
}

/* Collective. */
static err_t replay_all(replay_t *r)
{
    runtime_t *runtime = &r->t.runtime;
    const replay_plan_t *p = &r->plan;
    const judge_t *j = &r->judge;
    TRY(make_plan(r));
    err_t err = ERR_OK;
    const long long n_shards = p->n_shards;
    if (n_shards % runtime->comm->size != 0)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "the run was made with --reproducible %lld: replay on a number of ranks that divides %lld, not %d",
            n_shards, n_shards, runtime->comm->size);
    TRY(comm_agree(runtime->comm, err, "comparing ranks"));
    /* On the run's device, if it is the same here. */
    runtime_options_t own = r->options->runtime;
    own.device = p->device;
    own.threads = p->n_threads;
    TRY(runtime_open_backend(&own, runtime));
    if (strcmp(runtime->device, p->backend) != 0)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "the run computed with %s, this machine does with %s, which gives other bits: replay where the "
            "instruction set and the libraries are the run's (DPTRAIN_MAX_ISA lowers the instruction set)",
            p->backend, runtime->device);
    TRY(comm_agree(runtime->comm, err, "comparing instruction sets"));
    log_info("replaying steps %lld to %lld of %s, from %s, on %d rank%s (--reproducible %lld)",
             (long long)p->from + 1, (long long)p->to, r->options->folder,
             p->checkpoint[0] ? p->checkpoint : "the start of the run", runtime->comm->size,
             runtime->comm->size > 1 ? "s" : "", n_shards);
    TRY(set_up(r));
    r->judge = (judge_t){.record = &r->record, .plan = p, .t = &r->t, .folder = r->options->folder};
    TRY(share_verdict(r, runtime->comm->rank == 0 ? judge_start(&r->judge) : ERR_OK));
    const double start = clock_sec();
    while (r->t.at.step < p->to && !r->judge.differs) TRY(replay_step(r));
    const double sec = clock_sec() - start;
    const long long n = p->to - p->from;
    TRY(comm_broadcast(runtime->comm, &r->judge.verdict, sizeof r->judge.verdict, 0, "comparing bits"));
    if (j->differs) RAISE(ERR_GATE, "the bits differ: %s", j->verdict.text);
    log_info(
        "the bits agree: %lld step%s in %s; compared: the gradients of each rank in %lld, %lld hash%s of weights and "
        "optimizer state, %lld checkpoint%s",
        n, n == 1 ? "" : "s", figure_time(sec).text, (long long)j->n_gradients, (long long)j->n_checks,
        j->n_checks == 1 ? "" : "es", (long long)j->n_checkpoints, j->n_checkpoints == 1 ? "" : "s");
    return ERR_OK;
}

err_t replay_run(const replay_options_t *options, void (*abort_job)(err_t code))
{
    replay_t *r;
    TRY(mem_new(sizeof *r, "a replay", &r));
    r->options = options;
    r->t.options = &r->run_options;
    err_t err = runtime_open_comm(&options->runtime, abort_job, &r->t.runtime);
    r->t.comm = r->t.runtime.comm;
    if (err == ERR_OK) err = replay_all(r);
    runtime_abort_alone(&r->t.runtime, err);
    trainer_teardown(&r->t);
    run_record_close(&r->record);
    mem_free(&r->saved);
    mem_free(&r->storage);
    runtime_t runtime = r->t.runtime;
    mem_free(&r);
    return runtime_close(&runtime, err);
}
