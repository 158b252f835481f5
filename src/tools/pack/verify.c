/* SPDX-License-Identifier: MIT */
/* Collective driver of `dptrain data verify`: divides shards or samples over the ranks and gathers the
 * findings on rank 0. data/shard/verify.c checks one shard. */
#include "tools/pack/verify.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cluster/comm/from_rank0.h"
#include "data/image/image.h"
#include "data/shard/verify.h"
#include "tools/pack/open.h"
#include "tools/pack/work.h"

enum { MAX_TOLD = 1000 };

typedef struct verifier {
    comm_t *comm;
    const char *path;
    shard_index_t *index; /* NULL: a source other than shards */
    source_t *source;
    source_buffer_t buffer;
    int64_t now; /* current shard or sample, counted over both splits */
    char *told;  /* findings, each with its NUL */
    size_t n_told_bytes;
    int64_t n_told;
    err_t status; /* of noting findings */
} verifier_t;

static void note_damage(void *context, const char *what)
{
    verifier_t *v = context;
    size_t n = strlen(what) + 1;
    v->n_told++;
    if (v->n_told > MAX_TOLD || v->status != ERR_OK) return;
    v->status = mem_grow((int64_t)(v->n_told_bytes + n), 1, "list of damage", &v->told);
    if (v->status != ERR_OK) return;
    memcpy(v->told + v->n_told_bytes, what, n);
    v->n_told_bytes += n;
}

/* Notes ERR_DATA as a finding; returns other errors. */
static err_t note_error(verifier_t *v, err_t err)
{
    if (err != ERR_DATA) return err;
    note_damage(v, err_message());
    return v->status;
}

/* Turns a number counted over both splits into one within its split. */
static split_t split_of(const int64_t counts[SPLIT_COUNT], int64_t *number)
{
    if (*number < counts[SPLIT_TRAIN]) return SPLIT_TRAIN;
    *number -= counts[SPLIT_TRAIN];
    return SPLIT_VAL;
}

static err_t step_shard(void *context, int64_t *n_done, bool *finished)
{
    verifier_t *v = context;
    const int64_t *counts = v->index->head->n_shards;
    const shard_report_t report = {note_damage, v};
    int64_t number = v->now;
    *finished = number >= counts[SPLIT_TRAIN] + counts[SPLIT_VAL];
    if (*finished) return ERR_OK;
    split_t split = split_of(counts, &number);
    v->now += v->comm->size;
    TRY(shard_verify(v->path, v->index, (split_t)split, number, &report));
    *n_done = v->index->files[split][number].n_bytes;
    return v->status;
}

static err_t check_sample(verifier_t *v, split_t split, int64_t number)
{
    sample_t sample;
    image_info_t info;
    TRY(source_read(v->source, split, number, &v->buffer, &sample));
    TRY(image_info((image_bytes_t){sample.name, sample.bytes, sample.n_bytes}, &info));
    if (info.stored_width != sample.width || info.stored_height != sample.height)
        RAISE(ERR_DATA, "the image %s is %lld×%lld, but listed as %d×%d", sample.name,
              (long long)info.stored_width, (long long)info.stored_height, sample.width, sample.height);
    return ERR_OK;
}

static err_t step_sample(void *context, int64_t *n_done, bool *finished)
{
    verifier_t *v = context;
    const int64_t *counts = v->source->n_samples;
    int64_t number = v->now;
    *finished = number >= counts[SPLIT_TRAIN] + counts[SPLIT_VAL];
    if (*finished) return ERR_OK;
    split_t split = split_of(counts, &number);
    v->now += v->comm->size;
    *n_done = v->source->entries[split][number].n_bytes;
    return note_error(v, check_sample(v, split, number));
}

/* On rank 0. A damaged index is fatal: there is nothing to compare the shards with. */
static err_t read_index(verifier_t *v)
{
    seal_t seal;
    err_t err = shard_index_read(v->path, &v->index, &seal);
    if (err == ERR_DATA)
        return err_context(
            err, "cannot verify the shards without their index; to rebuild it, run dptrain data pack on the "
                 "same source, which keeps intact shards");
    TRY(err);
    return note_error(v, shard_manifest_check(v->index, &seal, v->path));
}

/* Sends rank 0's index to all ranks, so that the file is read once. Collective. */
static err_t share_index(verifier_t *v)
{
    int64_t n_block = v->index ? v->index->head->n_block : 0;
    void *block = v->index ? v->index->head : NULL;
    TRY(comm_broadcast_block(v->comm, &block, &n_block, "sending the index"));
    err_t err = ERR_OK;
    if (!v->index) {
        err = shard_index_unpack(block, n_block, &v->index);
        mem_free(&block);
    }
    return comm_agree(v->comm, err, "reading the index");
}

static int64_t count_bytes(const verifier_t *v)
{
    int64_t n = 0;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        if (v->index)
            for (int64_t k = 0; k < v->index->head->n_shards[s]; k++) n += v->index->files[s][k].n_bytes;
        else
            for (int64_t i = 0; i < v->source->n_samples[s]; i++) n += v->source->entries[s][i].n_bytes;
    }
    return n;
}

/* Reports the findings on rank 0, in order of ranks. Collective. */
static err_t tell_all(verifier_t *v, void (*tell)(void *context, const char *what), void *context)
{
    for (int rank = 0; rank < v->comm->size; rank++) {
        int64_t counts[2] = {(int64_t)v->n_told_bytes, v->n_told};
        char *text = NULL;
        TRY(comm_broadcast(v->comm, counts, sizeof counts, rank, "gathering the damage"));
        if (counts[0] == 0) continue;
        err_t err = mem_new((size_t)counts[0], "list of damage", &text);
        err = comm_agree(v->comm, err, "gathering the damage");
        if (err == ERR_OK && rank == v->comm->rank) memcpy(text, v->told, (size_t)counts[0]);
        if (err == ERR_OK) err = comm_broadcast(v->comm, text, counts[0], rank, "gathering the damage");
        for (int64_t at = 0; err == ERR_OK && v->comm->rank == 0 && at < counts[0];
             at += (int64_t)strlen(text + at) + 1)
            tell(context, text + at);
        if (err == ERR_OK && v->comm->rank == 0 && counts[1] > MAX_TOLD) tell(context, "… and more");
        mem_free(&text);
        TRY(err);
    }
    return comm_allreduce(v->comm, &v->n_told, 1, DTYPE_I64, COMM_SUM, "counting the damage");
}

/* Collective. */
static err_t open_target(verifier_t *v, bool *shards)
{
    *shards = v->comm->rank == 0 && source_shards.is(v->path);
    TRY(comm_broadcast(v->comm, shards, sizeof *shards, 0, "inspecting the folder"));
    if (!*shards) {
        TRY(pack_open(v->comm, v->path, "opening the data", &v->source));
        source_warn_notes(v->source);
        return ERR_OK;
    }
    TRY(comm_agree(v->comm, v->comm->rank == 0 ? read_index(v) : ERR_OK, "reading the index"));
    return share_index(v);
}

err_t pack_verify(comm_t *comm, const char *path, void (*tell)(void *context, const char *what),
                  void *context, pack_verdict_t *out)
{
    verifier_t v = {.comm = comm, .path = path, .now = comm->rank};
    bool shards = false;
    err_t err;
    *out = (pack_verdict_t){0};
    TRY_OUT(err, open_target(&v, &shards));
    const pack_work_t work = {"verifying", count_bytes(&v), &v, shards ? step_shard : step_sample};
    TRY_OUT(err, pack_work_run(comm, &work));
    TRY_OUT(err, tell_all(&v, tell, context));
    *out = (pack_verdict_t){.shards = shards, .n_bytes = work.n_total, .n_damaged = v.n_told};
    for (int s = 0; s < SPLIT_COUNT; s++) {
        out->n_samples += shards ? v.index->head->n_samples[s] : v.source->n_samples[s];
        out->n_files += shards ? v.index->head->n_shards[s] : 0;
    }
out:
    if (v.source) source_free_buffer(v.source, &v.buffer);
    source_close(&v.source);
    shard_index_free(&v.index);
    mem_free(&v.told);
    return err;
}
