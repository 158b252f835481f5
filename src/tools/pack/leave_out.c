/* SPDX-License-Identifier: MIT */
/* Renumbers the samples of a source. */
#include "tools/pack/leave_out.h"

#include "base/hash.h"
#include "base/mem.h"

typedef struct leave_out {
    const source_t *of;
    source_ops_t ops;
    source_entry_t *entries[SPLIT_COUNT];
    int64_t *numbers[SPLIT_COUNT]; /* in `of` */
} leave_out_t;

static void close_rest(source_t *source)
{
    leave_out_t *l = source->impl;
    if (!l) return;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        mem_free(&l->entries[s]);
        mem_free(&l->numbers[s]);
    }
    mem_free(&source->impl);
}

static err_t read_rest(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                       sample_t *out)
{
    const leave_out_t *l = source->impl;
    return source_read(l->of, split, l->numbers[split][index], buffer, out);
}

static err_t describe_rest(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                           sample_t *out)
{
    const leave_out_t *l = source->impl;
    return source_describe(l->of, split, l->numbers[split][index], buffer, out);
}

static err_t number_rest(source_t *source, const int64_t *samples, int64_t n)
{
    leave_out_t *l = source->impl;
    int64_t at = 0, next = 0; /* sample over both splits; the next to leave out */
    for (int s = 0; s < SPLIT_COUNT; s++) {
        TRY(mem_new_array(l->of->n_samples[s], sizeof *l->entries[s], "a list of samples", &l->entries[s]));
        TRY(mem_new_array(l->of->n_samples[s], sizeof *l->numbers[s], "a list of samples", &l->numbers[s]));
        source->n_samples[s] = 0;
        source->entries[s] = l->entries[s];
        for (int64_t i = 0; i < l->of->n_samples[s]; i++, at++) {
            if (next < n && samples[next] == at) {
                next++;
                continue;
            }
            int64_t k = source->n_samples[s]++;
            l->entries[s][k] = l->of->entries[s][i];
            l->numbers[s][k] = i;
        }
    }
    source->hash = XXH3_64bits_withSeed(samples, (size_t)n * sizeof *samples, l->of->hash);
    return ERR_OK;
}

err_t leave_out_open(const source_t *of, const int64_t *samples, int64_t n, source_t **out)
{
    leave_out_t *l;
    source_t *source;
    TRY(mem_new(sizeof *source, "a source", &source));
    *source = *of;
    source->impl = NULL;
    err_t err = mem_new(sizeof *l, "a source", &l);
    if (err == ERR_OK) {
        *l = (leave_out_t){.of = of, .ops = *of->ops};
        l->ops.close = close_rest;
        l->ops.read = read_rest;
        l->ops.describe = describe_rest;
        source->ops = &l->ops;
        source->impl = l;
        err = number_rest(source, samples, n);
    }
    if (err == ERR_OK) {
        *out = source;
        return ERR_OK;
    }
    close_rest(source);
    mem_free(&source);
    return err;
}
