/* SPDX-License-Identifier: MIT */
/* Compares the replicas' weights and optimizer state by hashes, and chooses how often. Finding tensors and naming
 * ranks is left to replicas_report.c. */
#include "train/run/replicas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

err_t replicas_parse(train_options_t *o)
{
    const char *text = o->check_replicas;
    char *end = "";
    o->replica_steps = 0;
    o->replicas_off = strcmp(text, "off") == 0;
    if (o->replicas_off || strcmp(text, "auto") == 0) return ERR_OK;
    errno = 0;
    o->replica_steps = strtoll(text, &end, 10);
    if (errno || *end || o->replica_steps < 1 || text[0] < '0' || text[0] > '9')
        RAISE(ERR_USAGE, "invalid --check-replicas '%s': expected auto, off, or steps such as 500", text);
    return ERR_OK;
}

/* A checkpoint in progress must have been copied from there. */
err_t replicas_pull(const trainer_t *t)
{
    if (!t->runtime.backend->memory) return ERR_OK;
    if (t->saving.writer) ckpt_async_copied(t->saving.writer);
    TRY(hd_buffer_pull_all(&t->model.params));
    return optim_pull(t->learning.optim);
}

/* Where the backend computes: nothing is copied. */
static err_t hash_weights(const trainer_t *t, uint64_t *out)
{
    const optim_t *optim = t->learning.optim;
    TRY(hd_buffer_hash(&t->model.params, 0, out));
    for (int i = 0; i < optim->n_buffers; i++) TRY(hd_buffer_hash(&optim->buffers[i].flat, *out, out));
    return ERR_OK;
}

/* The same of the host side. */
static uint64_t hash_copied(const trainer_t *t)
{
    const optim_t *optim = t->learning.optim;
    uint64_t hash = hd_buffer_hash_host(&t->model.params, 0);
    for (int i = 0; i < optim->n_buffers; i++) hash = hd_buffer_hash_host(&optim->buffers[i].flat, hash);
    return hash;
}

/* trainer_average_states leaves the host side up to date. */
static uint64_t hash_states(const trainer_t *t, uint64_t hash)
{
    return XXH3_64bits_withSeed(t->model.states.host, t->model.states.n_bytes, hash);
}

err_t replicas_hash(const trainer_t *t, bool with_states, uint64_t *out)
{
    TRY(hash_weights(t, out));
    if (with_states) *out = hash_states(t, *out);
    return ERR_OK;
}

/* In the writer's thread: a bit that has flipped in rank 0's memory since the comparison is in the copy. */
static err_t check_copied(void *context)
{
    const trainer_t *t = context;
    if (hash_copied(t) == t->replicas.saved_hash) return ERR_OK;
    RAISE(
        ERR_PEER,
        "weights or optimizer state changed while the checkpoint of step %lld was copied, after they had been equal "
        "to those of the other ranks: nothing should change them there. No checkpoint of them was written: continue "
        "with --resume auto, and if this host is named again, test its memory and leave it out",
        (long long)t->replicas.saved_step);
}

err_t replicas_open(trainer_t *t)
{
    static const char what[] = "preparing to compare replicas";
    train_replicas_t *r = &t->replicas;
    r->every = t->options->replica_steps;
    r->last_step = t->at.step;
    if (t->comm->size == 1 || t->options->replicas_off) return ERR_OK;
    TRY(mem_new_array(t->comm->size, sizeof *r->notes, what, &r->notes));
    if (t->saving.writer) ckpt_async_check_copies(t->saving.writer, check_copied, t);
    return ERR_OK;
}

void replicas_close(trainer_t *t)
{
    mem_free(&t->replicas.notes);
}

void replicas_saving(trainer_t *t)
{
    t->replicas.saved_hash = t->replicas.hash;
    t->replicas.saved_step = t->at.step;
}

static double mean(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : 0;
}

/* --check-replicas auto: the interval at which checks take less than 0.5 % of the time, with a margin of a fifth. The
 * same on all ranks. Checks include waiting for the others. */
static void choose_interval(const trainer_t *t, train_replicas_t *r)
{
    double check_sec = 0, step_sec = HUGE_VAL;
    bool warm = t->steps.n_done >= RATE_WARMUP_STEPS && r->n_checks > 0;
    if (t->options->replica_steps > 0 || !warm) return;
    for (int i = 0; i < t->comm->size; i++) {
        check_sec = fmax(check_sec, r->notes[i].check_sec);
        step_sec = fmin(step_sec, r->notes[i].step_sec);
    }
    double steps = ceil(check_sec / (0.004 * step_sec));
    const bool first = r->every == 0;
    r->every = steps < 1e6 ? (int64_t)fmax(steps, 1) : 1000000;
    if (first)
        log_detail("replicas are compared about every %lld step%s: it takes %s", (long long)r->every,
                   r->every == 1 ? "" : "s", figure_time(check_sec).text);
}

err_t replicas_check(trainer_t *t, bool with_states)
{
    train_replicas_t *r = &t->replicas;
    bool equal = true;
    if (!r->notes) return ERR_OK;
    double start = clock_sec();
    err_t err = hash_weights(t, &r->hash);
    /* On the host it cannot fail. */
    if (t->runtime.backend->memory) TRY(comm_agree(t->comm, err, "comparing replicas"));
    replica_note_t mine = {with_states ? hash_states(t, r->hash) : r->hash, mean(r->check_sec, r->n_checks),
                           mean(r->step_sec, r->n_steps)};
    TRY(comm_allgather(t->comm, &mine, sizeof mine, r->notes, "comparing replicas"));
    for (int i = 1; i < t->comm->size; i++) equal &= r->notes[i].hash == r->notes[0].hash;
    if (!equal) {
        TRY(comm_agree(t->comm, replicas_pull(t), "comparing replicas"));
        TRY(replicas_judge(t, with_states));
    }
    choose_interval(t, r);
    const bool again = r->n_checks > 0 && r->last_step == t->at.step && r->last_states == with_states;
    r->last_step = t->at.step;
    r->last_states = with_states;
    r->n_checks++;
    double end = clock_sec();
    r->check_sec += end - start;
    /* The others notice a full disk by their deadline, as with the record of a step. */
    if (!again) TRY(replicas_write_equal(t, with_states));
    r->check_sec += clock_sec() - end;
    trace_add(TRACE_TRAINING,
              &(trace_span_t){"replica check", "phase", start, clock_sec(), t->at.step - 1, 0});
    return ERR_OK;
}

bool replicas_due(const trainer_t *t, int64_t done)
{
    const train_replicas_t *r = &t->replicas;
    return r->notes && r->every > 0 && done - r->last_step >= r->every;
}

err_t replicas_after_step(trainer_t *t, double step_sec)
{
    train_replicas_t *r = &t->replicas;
    bool waits = r->notes && r->every == 0 && t->steps.n_done == RATE_WARMUP_STEPS;
    r->n_steps++;
    r->step_sec += step_sec;
    /* The cost of one is known to the next. */
    for (int i = 0; waits && i < 2 && r->every == 0; i++) TRY(replicas_check(t, false));
    return replicas_due(t, t->at.step) ? replicas_check(t, false) : ERR_OK;
}
