/* SPDX-License-Identifier: MIT */
/* The steps of a replay. What to compute is left to plan.c, the trainer to train/run/rerun.c, judging to judge.c. */
#include "train/replay/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "train/replay/judge.h"

typedef struct replay {
    const replay_options_t *options;
    runtime_t runtime;
    run_record_t record; /* rank 0 */
    replay_plan_t plan;
    char *run_options;
    rerun_t *rerun;
    judge_t judge; /* its verdict on all ranks, the rest on rank 0 */
} replay_t;

/* Collective. */
static err_t make_plan(replay_t *r)
{
    static const char what[] = "reading the record of the run";
    comm_t *comm = r->runtime.comm;
    const replay_options_t *o = r->options;
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        disk_work_begin("reading", o->folder);
        err = run_record_open(o->folder, &r->record);
        if (err == ERR_OK) err = replay_plan(&r->record, o->folder, o->step, &r->plan, &r->run_options);
        disk_wait_end();
    }
    TRY(comm_agree(comm, err, what));
    TRY(comm_broadcast(comm, &r->plan, sizeof r->plan, 0, what));
    if (!r->run_options) err = mem_new((size_t)r->plan.n_options, "options", &r->run_options);
    TRY(comm_agree(comm, err, what));
    return comm_broadcast(comm, r->run_options, r->plan.n_options, 0, what);
}

static err_t check_ranks(const replay_t *r)
{
    const long long v = r->plan.n_shards;
    if (v % r->runtime.comm->size == 0) return ERR_OK;
    RAISE(ERR_USAGE,
          "the run was made with --reproducible %lld: replay on a number of ranks that divides %lld, not %d",
          v, v, r->runtime.comm->size);
}

/* Collective. On the run's device, if it is the same here. */
static err_t open_device(replay_t *r)
{
    runtime_t *runtime = &r->runtime;
    runtime_options_t options = r->options->runtime;
    options.device = r->plan.device;
    options.threads = r->plan.n_threads;
    TRY(runtime_open_backend(&options, runtime));
    err_t err = ERR_OK;
    if (strcmp(runtime->device, r->plan.backend) != 0)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "the run computed with %s, this machine does with %s, which gives other bits: replay where the "
            "instruction set and the libraries are the run's (DPTRAIN_MAX_ISA lowers the instruction set)",
            r->plan.backend, runtime->device);
    return comm_agree(runtime->comm, err, "comparing instruction sets");
}

/* Collective. */
static err_t open_steps(replay_t *r)
{
    const replay_plan_t *p = &r->plan;
    const rerun_options_t options = {.saved = r->run_options,
                                     .checkpoint = p->checkpoint[0] ? p->checkpoint : NULL,
                                     .data = r->options->data ? r->options->data
                                             : p->data[0]     ? p->data
                                                              : NULL,
                                     .data_xxh3 = p->data_xxh3,
                                     .n_steps = p->to,
                                     .n_threads = (int)p->n_threads,
                                     .micro_batch = p->micro_batch};
    log_info("replaying steps %lld to %lld of %s, from %s, on %d rank%s (--reproducible %lld)",
             (long long)p->from + 1, (long long)p->to, r->options->folder,
             p->checkpoint[0] ? p->checkpoint : "the start of the run", r->runtime.comm->size,
             r->runtime.comm->size > 1 ? "s" : "", (long long)p->n_shards);
    TRY(rerun_open(&options, &r->runtime, &r->rerun));
    r->judge = (judge_t){.record = &r->record, .plan = p, .rerun = r->rerun, .folder = r->options->folder};
    return ERR_OK;
}

/* Collective. */
static err_t share_verdict(replay_t *r, err_t err)
{
    comm_t *comm = r->runtime.comm;
    TRY(comm_agree(comm, err, "comparing bits"));
    return comm_broadcast(comm, &r->judge.differs, sizeof r->judge.differs, 0, "comparing bits");
}

/* Collective. */
static err_t replay_step(replay_t *r)
{
    comm_t *comm = r->runtime.comm;
    judge_orders_t orders = {.averages = false};
    TRY(rerun_step(r->rerun));
    TRY(share_verdict(r, comm->rank == 0 ? judge_gradients(&r->judge, &orders) : ERR_OK));
    if (r->judge.differs) return ERR_OK;
    TRY(comm_broadcast(comm, &orders, sizeof orders, 0, "comparing bits"));
    if (orders.averages) TRY(rerun_average(r->rerun));
    TRY(share_verdict(r, comm->rank == 0 ? judge_state(&r->judge) : ERR_OK));
    if (orders.follows) rerun_follow(r->rerun, orders.value);
    return ERR_OK;
}

static err_t conclude(replay_t *r, double sec)
{
    comm_t *comm = r->runtime.comm;
    judge_t *j = &r->judge;
    const long long n = r->plan.to - r->plan.from;
    TRY(comm_broadcast(comm, &j->verdict, sizeof j->verdict, 0, "comparing bits"));
    if (j->differs) RAISE(ERR_GATE, "the bits differ: %s", j->verdict.text);
    log_info(
        "the bits agree: %lld step%s in %s; compared: the gradients of each rank in %lld, %lld hash%s of weights and "
        "optimizer state, %lld checkpoint%s",
        n, n == 1 ? "" : "s", figure_time(sec).text, (long long)j->n_gradients, (long long)j->n_checks,
        j->n_checks == 1 ? "" : "es", (long long)j->n_checkpoints, j->n_checkpoints == 1 ? "" : "s");
    return ERR_OK;
}

static err_t replay_all(replay_t *r)
{
    TRY(make_plan(r));
    TRY(comm_agree(r->runtime.comm, check_ranks(r), "comparing ranks"));
    TRY(open_device(r));
    TRY(open_steps(r));
    TRY(share_verdict(r, r->runtime.comm->rank == 0 ? judge_start(&r->judge) : ERR_OK));
    const double start = clock_sec();
    while (rerun_position(r->rerun) < r->plan.to && !r->judge.differs) TRY(replay_step(r));
    return conclude(r, clock_sec() - start);
}

err_t replay_run(const replay_options_t *options, void (*abort_job)(err_t code))
{
    replay_t *r;
    TRY(mem_new(sizeof *r, "a replay", &r));
    r->options = options;
    err_t err = runtime_open_comm(&options->runtime, abort_job, &r->runtime);
    if (err == ERR_OK) err = replay_all(r);
    runtime_abort_alone(&r->runtime, err);
    rerun_close(&r->rerun);
    run_record_close(&r->record);
    mem_free(&r->run_options);
    runtime_t runtime = r->runtime;
    mem_free(&r);
    return runtime_close(&runtime, err);
}
