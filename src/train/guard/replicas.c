/* SPDX-License-Identifier: MIT */
/* Guest: --check-replicas: whether all ranks hold the same weights, and the same optimizer state unless it is shared out.
 * Each rank hashes its own, and one allgather of 64-bit hashes compares them; after a difference, which tensors differ and
 * on which ranks. The records keep the hashes, for dptrain replay. */
#include "train/guard/replicas.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/figure.h"
#include "train/run/trainer.h"

/* What a rank tells the others at each comparison: of its weights and optimizer state, and the means so far. */
typedef struct replica_note {
    uint64_t hash;
    double check_sec, step_sec;
} replica_note_t;

typedef struct replicas {
    comm_t *comm;
    const train_position_t *at;
    const train_model_t *model;
    const train_learning_t *learning;
    metrics_t *records;
    guests_t *guests;
    ckpt_async_t *writer;       /* rank 0 only */
    bool on_device, automatic;  /* where the backend computes; the interval is chosen */
    replica_note_t *notes;      /* [size], of the last check */
    int64_t every;              /* steps; 0: not chosen yet */
    int64_t last_step;          /* steps done at the last check, or at the start */
    bool last_states;           /* it compared running statistics, too */
    int64_t n_checks, n_steps;  /* of this process */
    double check_sec, step_sec; /* their sums */
    uint64_t hash;              /* weights and optimizer state at the last check */
    uint64_t saved_hash;        /* and at the last checkpoint; read by the writer's thread */
    int64_t saved_step;
} replicas_t;

/* What is compared of the optimizer. NULL: nothing, because each rank has a state of its own. */
static const optim_t *compared_optim(const replicas_t *s)
{
    return s->learning->slices.size ? NULL : s->learning->optim;
}

static int n_buffers(const replicas_t *s)
{
    return compared_optim(s) ? s->learning->optim->n_buffers : 0;
}

/* A checkpoint in progress must have been copied from there. */
static err_t pull(const replicas_t *s)
{
    if (s->on_device && s->writer) ckpt_async_copied(s->writer);
    TRY(hd_buffer_pull_all(&s->model->params));
    return optim_pull(s->learning->optim);
}

static uint64_t hash_states(const hd_buffer_t *states, uint64_t hash)
{
    return XXH3_64bits_withSeed(states->host, states->n_bytes, hash);
}

err_t replicas_hash(const train_model_t *model, const optim_t *optim, bool with_states, uint64_t *out)
{
    TRY(hd_buffer_hash(&model->params, 0, out));
    for (int i = 0; optim && i < optim->n_buffers; i++)
        TRY(hd_buffer_hash(&optim->buffers[i].flat, *out, out));
    if (with_states) *out = hash_states(&model->states, *out);
    return ERR_OK;
}

/* In the writer's thread: a bit that has flipped in rank 0's memory since the comparison is in the copy. */
static err_t check_copied(void *context)
{
    const replicas_t *s = context;
    const optim_t *optim = s->learning->optim;
    uint64_t hash = hd_buffer_hash_host(&s->model->params, 0);
    for (int i = 0; i < n_buffers(s); i++) hash = hd_buffer_hash_host(&optim->buffers[i].flat, hash);
    if (hash == s->saved_hash) return ERR_OK;
    RAISE(
        ERR_PEER,
        "weights or optimizer state changed while the checkpoint of step %lld was copied, after they had been equal "
        "to those of the other ranks: nothing should change them there. No checkpoint of them was written: continue "
        "with --resume auto, and if this host is named again, test its memory and leave it out",
        (long long)s->saved_step);
}

typedef struct held {
    const char *of; /* the optimizer's buffer; NULL: the model's own */
    const graph_param_t *param;
    const float *values; /* NULL: the optimizer has none of a frozen parameter */
} held_t;

static int count_tensors(const replicas_t *s, bool with_states)
{
    const graph_t *g = s->model->graph;
    return g->n_params * (1 + n_buffers(s)) + (with_states ? g->n_states : 0);
}

/* Weights, then each buffer of the optimizer, then running statistics. */
static held_t tensor_at(const replicas_t *s, int i)
{
    const graph_t *g = s->model->graph;
    const optim_t *optim = s->learning->optim;
    const int block = i / g->n_params;
    const hd_buffer_t *flat = &s->model->params;
    held_t tensor = {.param = &g->params[i % g->n_params]};
    if (block > n_buffers(s)) {
        tensor.param = &g->states[i - g->n_params * (1 + n_buffers(s))];
        flat = &s->model->states;
    } else if (block > 0) {
        tensor.of = optim->buffers[block - 1].name;
        flat = &optim->buffers[block - 1].flat;
        if (tensor.param->frozen) return tensor;
    }
    tensor.values = (const float *)flat->host + tensor.param->offset;
    return tensor;
}

/* All NaN hash alike: which bits a sum of two NaN has depends on their order. */
static uint64_t hash_values(const float *values, int64_t n, bool *finite)
{
    enum { CHUNK = 1024 };
    float chunk[CHUNK];
    uint64_t hash = 0;
    for (int64_t i = 0; values && i < n; i += CHUNK) {
        const int64_t count = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t k = 0; k < count; k++) {
            chunk[k] = isnan(values[i + k]) ? NAN : values[i + k];
            *finite &= isfinite(chunk[k]) != 0;
        }
        hash = XXH3_64bits_withSeed(chunk, (size_t)count * sizeof *chunk, hash);
    }
    return hash;
}

/* What each rank holds. */
typedef struct holdings {
    const replicas_t *s;
    int n_tensors;
    uint64_t *hashes; /* [size][n_tensors + 1]; the last: whether a value is NaN or Inf */
    int *alike;       /* [size]: the lowest rank that holds the same */
    int majority;     /* the lowest rank of it; -1: none */
    int n_majority;
    bool some_finite, some_not;
} holdings_t;

static const uint64_t *row_of(const holdings_t *h, int rank)
{
    return h->hashes + (int64_t)rank * (h->n_tensors + 1);
}

static bool is_finite(const holdings_t *h, int rank)
{
    return row_of(h, rank)[h->n_tensors] == 0;
}

static void group_ranks(holdings_t *h)
{
    const int size = h->s->comm->size;
    h->majority = -1;
    for (int r = 0; r < size; r++) {
        int same = 0;
        while (memcmp(row_of(h, same), row_of(h, r), (size_t)(h->n_tensors + 1) * sizeof(uint64_t)) != 0)
            same++;
        h->alike[r] = same;
        h->some_finite |= is_finite(h, r);
        h->some_not |= !is_finite(h, r);
    }
    for (int r = 0; r < size; r++) {
        int n = 0;
        for (int i = 0; i < size; i++) n += h->alike[i] == r;
        if (2 * n > size) h->majority = r, h->n_majority = n;
    }
}

/* Without a majority, those with NaN are wrong, if others have none. */
static bool is_named(const holdings_t *h, int rank)
{
    if (h->majority >= 0) return h->alike[rank] != h->majority;
    return !(h->some_finite && is_finite(h, rank) && h->some_not);
}

/* Without a majority, rank 0 is compared with the first that differs, and the others with rank 0. */
static bool tensor_differs(const holdings_t *h, int rank, int i)
{
    int other = h->majority < 0 ? 0 : h->majority;
    while (h->alike[other] == h->alike[rank]) other++;
    return row_of(h, rank)[i] != row_of(h, other)[i];
}

static void append_tensor(const holdings_t *h, int i, message_t *m)
{
    const held_t tensor = tensor_at(h->s, i);
    message_append(m, "%s%s%s", tensor.of ? tensor.of : "", tensor.of ? " of " : "", tensor.param->name);
}

/* Warns of a rank, with the first of its tensors. */
static void list_tensors(const holdings_t *h, int rank)
{
    enum { SHOWN = 6 };
    message_t m = {0};
    int n = 0;
    for (int i = 0; i < h->n_tensors; i++) {
        if (!tensor_differs(h, rank, i) || n++ >= SHOWN) continue;
        message_append(&m, "%s", n > 1 ? ", " : "");
        append_tensor(h, i, &m);
    }
    log_warn("rank %d on %s: %d of %d tensors differ: %s%s", rank, h->s->comm->places[rank].host, n,
             h->n_tensors, m.text, n > SHOWN ? ", …" : "");
}

static void put_rank(const holdings_t *h, int rank, json_t *j)
{
    json_object_begin(j, NULL);
    json_int(j, "rank", rank);
    json_string(j, "host", h->s->comm->places[rank].host);
    json_array_begin(j, "tensors");
    for (int i = 0; i < h->n_tensors; i++) {
        message_t m = {0};
        if (!tensor_differs(h, rank, i)) continue;
        append_tensor(h, i, &m);
        json_string(j, NULL, m.text);
    }
    json_array_end(j);
    json_object_end(j);
}

/* What dptrain replay compares: the common hash, or each rank's, and those of the running statistics before they were
 * averaged. */
static void put_hashes(const replicas_t *s, bool equal, bool with_states, json_t *j)
{
    const replica_note_t *notes = s->notes;
    const virtual_shards_t *shards = s->learning->shards;
    json_bool(j, "with_states", with_states);
    if (!compared_optim(s)) json_bool(j, "weights_only", true);
    if (equal) json_hex(j, "hash", notes[0].hash, 16);
    if (!equal) json_array_begin(j, "hashes");
    for (int rank = 0; !equal && rank < s->comm->size; rank++) json_hex(j, NULL, notes[rank].hash, 16);
    if (!equal) json_array_end(j);
    if (!with_states || !shards || shards->n_states == 0) return;
    json_array_begin(j, "rank_states");
    for (int rank = 0; rank < s->comm->size; rank++)
        json_hex(j, NULL, virtual_shards_states_hash(shards, s->comm->size, rank), 8);
    json_array_end(j);
}

/* h: NULL if they are equal. */
static err_t write_replicas(replicas_t *s, const holdings_t *h, bool with_states)
{
    json_t *j = metrics_begin(s->records, RECORD_REPLICAS);
    if (!j) return ERR_OK;
    json_int(j, "step", s->at->step);
    json_bool(j, "equal", !h);
    if (h || (s->n_checks > 0 && s->last_step == s->at->step)) put_hashes(s, !h, with_states, j);
    json_int(j, "every", s->every);
    json_int(j, "n_checks", s->n_checks);
    json_real(j, "check_sec", s->check_sec);
    json_array_begin(j, "ranks");
    for (int rank = 0; h && rank < s->comm->size; rank++)
        if (is_named(h, rank)) put_rank(h, rank, j);
    json_array_end(j);
    return metrics_end(s->records, h != NULL);
}

/* The same message on all ranks. */
static err_t name_ranks(const replicas_t *s, const holdings_t *h)
{
    enum { SHOWN = 8 };
    const int size = s->comm->size;
    message_t who = {0}, than = {0}, since = {0};
    int n = 0;
    for (int r = 0; r < size; r++)
        if (is_named(h, r) && n++ < SHOWN)
            message_append(&who, "%srank %d on %s", n > 1 ? ", " : "", r, s->comm->places[r].host);
    if (n > SHOWN) message_append(&who, " and %d more", n - SHOWN);
    if (h->majority < 0 && h->some_finite && h->some_not)
        message_append(&than, "the others hold no NaN or Inf");
    else if (h->majority < 0)
        message_append(&than, "no majority of the %d ranks is equal, so any of them may be wrong%s", size,
                       s->learning->shards ? " (dptrain replay tells which)" : "");
    else
        message_append(&than, "the other %d ranks are equal", h->n_majority);
    if (s->n_checks > 0)
        message_append(&since, "all were equal after step %lld", (long long)s->last_step);
    else
        message_append(&since, "this was the first comparison");
    RAISE(ERR_PEER,
          "weights%s differ between ranks after step %lld: %s; %s; %s. No checkpoint of "
          "them was written: continue with --resume auto, and if a host is named again, test its memory "
          "and leave it out",
          compared_optim(s) ? " or optimizer state" : "", (long long)s->at->step, who.text, than.text,
          since.text);
}

static err_t report_difference(replicas_t *s, holdings_t *h, bool with_states)
{
    enum { LISTED = 16 };
    int n = 0;
    group_ranks(h);
    if (h->majority == 0 && h->n_majority == s->comm->size) return ERR_OK;
    TRY(guests_begin_change(s->guests, CHANGE_STEP)); /* a signal must not save these weights */
    for (int r = 0; r < s->comm->size; r++)
        if (is_named(h, r) && n++ < LISTED) list_tensors(h, r);
    TRY(comm_agree(s->comm, write_replicas(s, h, with_states), "writing metrics"));
    return comm_agree(s->comm, name_ranks(s, h), "comparing replicas");
}

/* Asks which tensors differ, and names the ranks: ERR_PEER. ERR_OK if only padding or the bits of NaN differ. */
static err_t compare_replicas(replicas_t *s, bool with_states)
{
    static const char what[] = "comparing replicas";
    const int n = count_tensors(s, with_states);
    holdings_t h = {.s = s, .n_tensors = n};
    uint64_t *mine = NULL;
    bool finite = true;
    err_t err = mem_new_array(n + 1, sizeof *mine, what, &mine);
    if (err == ERR_OK)
        err = mem_new_array((n + INT64_C(1)) * s->comm->size, sizeof *h.hashes, what, &h.hashes);
    if (err == ERR_OK) err = mem_new_array(s->comm->size, sizeof *h.alike, what, &h.alike);
    TRY_OUT(err, comm_agree(s->comm, err, what));
    for (int i = 0; i < n; i++) {
        const held_t tensor = tensor_at(s, i);
        mine[i] = hash_values(tensor.values, shape_count(tensor.param->shape), &finite);
    }
    mine[n] = !finite;
    TRY_OUT(err, comm_allgather(s->comm, mine, (n + 1) * (int64_t)sizeof *mine, h.hashes, what));
    err = report_difference(s, &h, with_states);
out:
    mem_free(&mine);
    mem_free(&h.hashes);
    mem_free(&h.alike);
    return err;
}

static double mean(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : 0;
}

/* --check-replicas auto: the interval at which checks take less than 0.5 % of the time, with a margin of a fifth. The
 * same on all ranks. Checks include waiting for the others. */
static void choose_interval(replicas_t *s)
{
    double check_sec = 0, step_sec = HUGE_VAL;
    if (!s->automatic || s->n_steps < RATE_WARMUP_STEPS || s->n_checks == 0) return;
    for (int i = 0; i < s->comm->size; i++) {
        check_sec = fmax(check_sec, s->notes[i].check_sec);
        step_sec = fmin(step_sec, s->notes[i].step_sec);
    }
    double steps = ceil(check_sec / (0.004 * step_sec));
    const bool first = s->every == 0;
    s->every = steps < 1e6 ? (int64_t)fmax(steps, 1) : 1000000;
    if (first)
        log_detail("replicas are compared about every %lld step%s: it takes %s", (long long)s->every,
                   s->every == 1 ? "" : "s", figure_time(check_sec).text);
}

/* ERR_PEER: they differ. The message names the minority's ranks, or all where no majority is equal, and rank 0 records
 * their tensors. */
static err_t replicas_verify(void *state, bool with_states)
{
    replicas_t *s = state;
    bool equal = true;
    double start = clock_sec();
    err_t err = replicas_hash(s->model, compared_optim(s), false, &s->hash);
    /* On the host it cannot fail. */
    if (s->on_device) TRY(comm_agree(s->comm, err, "comparing replicas"));
    replica_note_t mine = {s->hash, mean(s->check_sec, s->n_checks), mean(s->step_sec, s->n_steps)};
    if (with_states) mine.hash = hash_states(&s->model->states, s->hash);
    TRY(comm_allgather(s->comm, &mine, sizeof mine, s->notes, "comparing replicas"));
    for (int i = 1; i < s->comm->size; i++) equal &= s->notes[i].hash == s->notes[0].hash;
    if (!equal) {
        TRY(comm_agree(s->comm, pull(s), "comparing replicas"));
        TRY(compare_replicas(s, with_states));
    }
    choose_interval(s);
    const bool again = s->n_checks > 0 && s->last_step == s->at->step && s->last_states == with_states;
    s->last_step = s->at->step;
    s->last_states = with_states;
    s->n_checks++;
    double end = clock_sec();
    s->check_sec += end - start;
    /* The others notice a full disk by their deadline, as with the record of a step. */
    if (!again) TRY(write_replicas(s, NULL, with_states));
    s->check_sec += clock_sec() - end;
    trace_add(TRACE_TRAINING,
              &(trace_span_t){"replica check", "phase", start, clock_sec(), s->at->step - 1, 0});
    return ERR_OK;
}

static bool replicas_due(const void *state, int64_t done)
{
    const replicas_t *s = state;
    return s->every > 0 && done - s->last_step >= s->every;
}

/* --check-replicas auto chooses its interval at the end of the warm-up and again at each check. */
static err_t replicas_after_step(void *state, const step_result_t *result)
{
    replicas_t *s = state;
    const bool waits = s->every == 0 && result->nth == RATE_WARMUP_STEPS;
    s->n_steps++;
    s->step_sec += result->cost.total;
    /* The cost of one is known to the next. */
    for (int i = 0; waits && i < 2 && s->every == 0; i++) TRY(replicas_verify(s, false));
    return replicas_due(s, s->at->step) ? replicas_verify(s, false) : ERR_OK;
}

/* The writer then makes sure that what it has copied is what was compared. */
static void replicas_saving(void *state)
{
    replicas_t *s = state;
    s->saved_hash = s->hash;
    s->saved_step = s->at->step;
}

static err_t replicas_at_end(void *state, const run_end_t *end)
{
    replicas_t *s = state;
    (void)end;
    return comm_agree(s->comm, write_replicas(s, NULL, s->last_states), "writing metrics");
}

static double replicas_spent_sec(const void *state)
{
    return ((const replicas_t *)state)->check_sec;
}

static bool replicas_wanted(const trainer_t *t)
{
    return t->comm->size > 1 && !t->options->replicas_off;
}

static err_t replicas_open(trainer_t *t, void *state)
{
    static const char what[] = "preparing to compare replicas";
    replicas_t *s = state;
    *s = (replicas_t){.comm = t->comm,
                      .at = &t->at,
                      .model = &t->model,
                      .learning = &t->learning,
                      .records = &t->output.records,
                      .guests = &t->guests,
                      .writer = t->saving.writer,
                      .on_device = t->runtime.backend->memory != NULL,
                      .automatic = t->options->replica_steps == 0,
                      .every = t->options->replica_steps,
                      .last_step = t->at.step};
    TRY(mem_new_array(t->comm->size, sizeof *s->notes, what, &s->notes));
    if (s->writer) ckpt_async_check_copies(s->writer, check_copied, s);
    return ERR_OK;
}

static void replicas_close(void *state)
{
    replicas_t *s = state;
    mem_free(&s->notes);
}

const guest_t replicas_guest = {.name = "replicas",
                                .state_bytes = sizeof(replicas_t),
                                .wanted = replicas_wanted,
                                .open = replicas_open,
                                .close = replicas_close,
                                .after_step = replicas_after_step,
                                .pauses = replicas_due,
                                .verify = replicas_verify,
                                .saving = replicas_saving,
                                .at_end = replicas_at_end,
                                .spent_sec = replicas_spent_sec};
