/* SPDX-License-Identifier: MIT */
/* Collects findings on each rank and gathers them. */
#include "tools/pack/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void findings_add(findings_t *f, const char *what, int64_t sample)
{
    size_t n = strlen(what) + 1;
    if (f->status != ERR_OK) return;
    f->status = mem_grow(f->n + 1, sizeof *f->samples, "list of findings", &f->samples);
    if (f->status != ERR_OK) return;
    f->samples[f->n++] = sample;
    if (f->n > FINDINGS_MAX) return;
    f->status = mem_grow((int64_t)(f->n_bytes + n), 1, "list of findings", &f->text);
    if (f->status != ERR_OK) return;
    memcpy(f->text + f->n_bytes, what, n);
    f->n_bytes += n;
}

void findings_free(findings_t *f)
{
    mem_free(&f->text);
    mem_free(&f->samples);
    *f = (findings_t){0};
}

/* Broadcasts a rank's block; *out is allocated on all ranks. Collective. */
static err_t share_block(comm_t *comm, int from, const void *mine, int64_t n_bytes, void *out)
{
    static const char what[] = "gathering the findings";
    char *block;
    TRY(comm_agree(comm, mem_new((size_t)n_bytes, "list of findings", &block), what));
    if (from == comm->rank) memcpy(block, mine, (size_t)n_bytes);
    err_t err = comm_broadcast(comm, block, n_bytes, from, what);
    if (err == ERR_OK)
        memcpy(out, &block, sizeof block);
    else
        mem_free(&block);
    return err;
}

err_t findings_tell(comm_t *comm, const findings_t *f, void (*tell)(void *context, const char *what),
                    void *context, int64_t *n)
{
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t counts[2] = {(int64_t)f->n_bytes, f->n};
        char *text = NULL;
        TRY(comm_broadcast(comm, counts, sizeof counts, rank, "gathering the findings"));
        if (counts[0] == 0) continue;
        TRY(share_block(comm, rank, f->text, counts[0], &text));
        for (int64_t at = 0; comm->rank == 0 && at < counts[0]; at += (int64_t)strlen(text + at) + 1)
            tell(context, text + at);
        if (comm->rank == 0 && counts[1] > FINDINGS_MAX) tell(context, "… and more");
        mem_free(&text);
    }
    *n = f->n;
    return comm_allreduce(comm, n, 1, DTYPE_I64, COMM_SUM, "counting the findings");
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

err_t findings_samples(comm_t *comm, const findings_t *f, int64_t **out, int64_t *n)
{
    int64_t *all = NULL;
    err_t err = ERR_OK;
    *n = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t count = f->n, *samples = NULL;
        TRY_OUT(err, comm_broadcast(comm, &count, sizeof count, rank, "gathering the findings"));
        if (count == 0) continue;
        TRY_OUT(err, share_block(comm, rank, f->samples, count * (int64_t)sizeof *samples, &samples));
        err = mem_grow(*n + count, sizeof *all, "list of findings", &all);
        if (err == ERR_OK) memcpy(all + *n, samples, (size_t)count * sizeof *all);
        mem_free(&samples);
        TRY_OUT(err, comm_agree(comm, err, "gathering the findings"));
        *n += count;
    }
    if (*n > 0) qsort(all, (size_t)*n, sizeof *all, compare_numbers);
    *out = all;
    return ERR_OK;
out:
    mem_free(&all);
    return err;
}
