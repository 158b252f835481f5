/* SPDX-License-Identifier: MIT */
/* After replicas differ: which tensors, and which ranks hold what the others do not. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/guard/interruption.h"
#include "train/run/replicas.h"

typedef struct held {
    const char *of; /* the optimizer's buffer; NULL: the model's own */
    const graph_param_t *param;
    const float *values; /* NULL: the optimizer has none of a frozen parameter */
} held_t;

static int count_tensors(const trainer_t *t, bool with_states)
{
    const graph_t *g = t->model.graph;
    return g->n_params * (1 + t->learning.optim->n_buffers) + (with_states ? g->n_states : 0);
}

/* Weights, then each buffer of the optimizer, then running statistics. */
static held_t tensor_at(const trainer_t *t, int i)
{
    const graph_t *g = t->model.graph;
    const optim_t *optim = t->learning.optim;
    const int block = i / g->n_params;
    const hd_buffer_t *flat = &t->model.params;
    held_t tensor = {.param = &g->params[i % g->n_params]};
    if (block > optim->n_buffers) {
        tensor.param = &g->states[i - g->n_params * (1 + optim->n_buffers)];
        flat = &t->model.states;
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
    const trainer_t *t;
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
    const int size = h->t->comm->size;
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
    const held_t tensor = tensor_at(h->t, i);
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
    log_warn("rank %d on %s: %d of %d tensors differ: %s%s", rank, h->t->comm->places[rank].host, n,
             h->n_tensors, m.text, n > SHOWN ? ", …" : "");
}

static void put_rank(const holdings_t *h, int rank, json_t *j)
{
    json_object_begin(j, NULL);
    json_int(j, "rank", rank);
    json_string(j, "host", h->t->comm->places[rank].host);
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
static void put_hashes(const trainer_t *t, bool equal, bool with_states, json_t *j)
{
    const replica_note_t *notes = t->replicas.notes;
    const shards_t *shards = t->learning.shards;
    json_bool(j, "with_states", with_states);
    if (equal) json_hex(j, "hash", notes[0].hash, 16);
    if (!equal) json_array_begin(j, "hashes");
    for (int rank = 0; !equal && rank < t->comm->size; rank++) json_hex(j, NULL, notes[rank].hash, 16);
    if (!equal) json_array_end(j);
    if (!with_states || !shards || shards->n_states == 0) return;
    json_array_begin(j, "rank_states");
    for (int rank = 0; rank < t->comm->size; rank++)
        json_hex(j, NULL, shards_states_hash(shards, t->comm->size, rank), 8);
    json_array_end(j);
}

/* h: NULL if they are equal. */
static err_t write_record(trainer_t *t, const holdings_t *h, bool with_states)
{
    const train_replicas_t *r = &t->replicas;
    json_t *j = metrics_begin(&t->output.records, RECORD_REPLICAS);
    if (!j) return ERR_OK;
    json_int(j, "step", t->at.step);
    json_bool(j, "equal", !h);
    if (h || (r->n_checks > 0 && r->last_step == t->at.step)) put_hashes(t, !h, with_states, j);
    json_int(j, "every", r->every);
    json_int(j, "n_checks", r->n_checks);
    json_real(j, "check_sec", r->check_sec);
    json_array_begin(j, "ranks");
    for (int rank = 0; h && rank < t->comm->size; rank++)
        if (is_named(h, rank)) put_rank(h, rank, j);
    json_array_end(j);
    return metrics_end(&t->output.records, h != NULL);
}

err_t replicas_write_equal(trainer_t *t, bool with_states)
{
    return write_record(t, NULL, with_states);
}

err_t replicas_record(trainer_t *t)
{
    if (!t->replicas.notes) return ERR_OK;
    return comm_agree(t->comm, write_record(t, NULL, t->replicas.last_states), "writing metrics");
}

/* The same message on all ranks. */
static err_t name_ranks(const trainer_t *t, const holdings_t *h)
{
    enum { SHOWN = 8 };
    const int size = t->comm->size;
    message_t who = {0}, than = {0}, since = {0};
    int n = 0;
    for (int r = 0; r < size; r++)
        if (is_named(h, r) && n++ < SHOWN)
            message_append(&who, "%srank %d on %s", n > 1 ? ", " : "", r, t->comm->places[r].host);
    if (n > SHOWN) message_append(&who, " and %d more", n - SHOWN);
    if (h->majority < 0 && h->some_finite && h->some_not)
        message_append(&than, "the others hold no NaN or Inf");
    else if (h->majority < 0)
        message_append(&than, "no majority of the %d ranks is equal, so any of them may be wrong%s", size,
                       t->learning.shards ? " (dptrain replay tells which)" : "");
    else
        message_append(&than, "the other %d ranks are equal", h->n_majority);
    if (t->replicas.n_checks > 0)
        message_append(&since, "all were equal after step %lld", (long long)t->replicas.last_step);
    else
        message_append(&since, "this was the first comparison");
    RAISE(ERR_PEER,
          "weights or optimizer state differ between ranks after step %lld: %s; %s; %s. No checkpoint of "
          "them was written: continue with --resume auto, and if a host is named again, test its memory "
          "and leave it out",
          (long long)t->at.step, who.text, than.text, since.text);
}

static err_t report(trainer_t *t, holdings_t *h, bool with_states)
{
    enum { LISTED = 16 };
    int n = 0;
    group_ranks(h);
    if (h->majority == 0 && h->n_majority == t->comm->size) return ERR_OK;
    interruption_close(t); /* a signal must not save these weights */
    for (int r = 0; r < t->comm->size; r++)
        if (is_named(h, r) && n++ < LISTED) list_tensors(h, r);
    TRY(comm_agree(t->comm, write_record(t, h, with_states), "writing metrics"));
    return comm_agree(t->comm, name_ranks(t, h), "comparing replicas");
}

err_t replicas_judge(trainer_t *t, bool with_states)
{
    static const char what[] = "comparing replicas";
    const int n = count_tensors(t, with_states);
    holdings_t h = {.t = t, .n_tensors = n};
    uint64_t *mine = NULL;
    bool finite = true;
    err_t err = mem_new_array(n + 1, sizeof *mine, what, &mine);
    if (err == ERR_OK)
        err = mem_new_array((n + INT64_C(1)) * t->comm->size, sizeof *h.hashes, what, &h.hashes);
    if (err == ERR_OK) err = mem_new_array(t->comm->size, sizeof *h.alike, what, &h.alike);
    TRY_OUT(err, comm_agree(t->comm, err, what));
    for (int i = 0; i < n; i++) {
        const held_t tensor = tensor_at(t, i);
        mine[i] = hash_values(tensor.values, shape_count(tensor.param->shape), &finite);
    }
    mine[n] = !finite;
    TRY_OUT(err, comm_allgather(t->comm, mine, (n + 1) * (int64_t)sizeof *mine, h.hashes, what));
    err = report(t, &h, with_states);
out:
    mem_free(&mine);
    mem_free(&h.hashes);
    mem_free(&h.alike);
    return err;
}
