/* SPDX-License-Identifier: MIT */
/* Collective driver of `dptrain data verify`: divides shards and samples over the ranks and gathers the findings
 * on rank 0. data/shard/reader.c checks one shard, scan.c images. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "data/image/image.h"
#include "data/shard/reader.h"
#include "tools/pack/pack.h"
#include "tools/pack/parts.h"

typedef struct verifier {
    comm_t *comm;
    const char *path;
    shard_index_t *index; /* NULL: a source other than shards */
    source_t *source;
    int64_t now; /* current shard, counted over both splits */
    findings_t findings;
    int64_t n_unusable;
} verifier_t;

static void note_damage(void *context, const char *what)
{
    verifier_t *v = context;
    findings_add(&v->findings, what, -1);
}

static err_t step_shard(void *context, int64_t *n_done, bool *finished)
{
    verifier_t *v = context;
    const int64_t *counts = v->index->head->n_shards;
    const shard_report_t report = {note_damage, v};
    int64_t number = v->now;
    *finished = number >= counts[SPLIT_TRAIN] + counts[SPLIT_VAL];
    if (*finished) return ERR_OK;
    split_t split = scan_split(counts, &number);
    v->now += v->comm->size;
    TRY(shard_verify(v->path, v->index, split, number, &report));
    *n_done = v->index->files[split][number].n_bytes;
    return v->findings.status;
}

/* On rank 0. A damaged index is fatal: there is nothing to compare the shards with. */
static err_t read_index(verifier_t *v)
{
    seal_t seal = {0};
    err_t err = shard_index_read(v->path, &v->index, &seal);
    if (err == ERR_DATA && (!seal.schema || seal.schema == SHARD_SCHEMA))
        return err_context(
            err, "cannot verify the shards without their index; to rebuild it, run dptrain data pack on the "
                 "same source, which keeps intact shards");
    TRY(err);
    err = shard_manifest_check(v->index, &seal, v->path);
    if (err != ERR_DATA) return err;
    note_damage(v, err_message());
    return v->findings.status;
}

/* Of the shards' files, or of all images. */
static int64_t count_bytes(const verifier_t *v, bool images)
{
    int64_t n = 0;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        for (int64_t k = 0; v->index && !images && k < v->index->head->n_shards[s]; k++)
            n += v->index->files[s][k].n_bytes;
        for (int64_t i = 0; v->index && images && i < v->index->head->n_samples[s]; i++)
            n += v->index->entries[s][i].n_bytes;
        for (int64_t i = 0; v->source && i < v->source->n_samples[s]; i++)
            n += v->source->entries[s][i].n_bytes;
    }
    return n;
}

/* Collective. */
static err_t check_shards(verifier_t *v, const pack_verify_options_t *options)
{
    const pack_work_t work = {"verifying", count_bytes(v, false), v, step_shard};
    shard_reader_t *reader = NULL;
    TRY(pack_work_run(v->comm, &work));
    if (!options->decode) return ERR_OK;
    TRY(comm_agree(v->comm, shard_reader_open(v->path, v->index, &reader), "opening the shards"));
    const scan_options_t scan = {.label = "decoding",
                                 .shards = reader,
                                 .path = v->path,
                                 .n_samples = v->index->head->n_samples,
                                 .n_bytes = count_bytes(v, true),
                                 .decode = true,
                                 .n_threads = options->n_threads};
    v->n_unusable = -v->findings.n;
    err_t err = scan_run(v->comm, &scan, &v->findings);
    v->n_unusable += v->findings.n;
    shard_reader_close(&reader);
    TRY(err);
    return comm_allreduce(v->comm, &v->n_unusable, 1, DTYPE_I64, COMM_SUM, "counting the findings");
}

/* Collective. */
static err_t open_target(verifier_t *v, bool *shards)
{
    *shards = v->comm->rank == 0 && source_shards.is(v->path);
    TRY(comm_broadcast(v->comm, shards, sizeof *shards, 0, "inspecting the folder"));
    if (!*shards) {
        TRY(pack_open(v->comm, v->path, NULL, "opening the data", &v->source));
        source_warn_notes(v->source);
        return ERR_OK;
    }
    TRY(comm_agree(v->comm, v->comm->rank == 0 ? read_index(v) : ERR_OK, "reading the index"));
    /* Sends rank 0's index to all ranks, so that the file is read once. Collective. */
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

err_t pack_verify(comm_t *comm, const char *path, const pack_verify_options_t *options,
                  void (*tell)(void *context, const char *what), void *context, pack_verdict_t *out)
{
    verifier_t v = {.comm = comm, .path = path, .now = comm->rank};
    bool shards = false;
    err_t err;
    *out = (pack_verdict_t){0};
    TRY_OUT(err, open_target(&v, &shards));
    out->decoded = options->decode && (shards || scan_can_decode(v.source));
    if (shards) {
        TRY_OUT(err, check_shards(&v, options));
    } else {
        const scan_options_t scan = {.label = "verifying",
                                     .source = v.source,
                                     .path = path,
                                     .n_samples = v.source->n_samples,
                                     .n_bytes = count_bytes(&v, true),
                                     .decode = out->decoded,
                                     .n_threads = options->n_threads};
        TRY_OUT(err, scan_run(comm, &scan, &v.findings));
    }
    TRY_OUT(err, findings_tell(comm, &v.findings, tell, context, &out->n_damaged));
    out->shards = shards;
    out->annotated = !shards && v.source->has_annotations;
    out->n_unusable = v.n_unusable;
    out->n_bytes = shards ? count_bytes(&v, false) : 0;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        for (int64_t i = 0; !shards && i < v.source->n_samples[s]; i++)
            out->n_bytes += source_stored_bytes(v.source, &v.source->entries[s][i]);
        out->n_samples += shards ? v.index->head->n_samples[s] : v.source->n_samples[s];
        out->n_files += shards ? v.index->head->n_shards[s] : 0;
    }
out:
    source_close(&v.source);
    shard_index_free(&v.index);
    findings_free(&v.findings);
    return err;
}
