/* SPDX-License-Identifier: MIT */
/* Divides a source into shards by size, and hashes everything that determines the shards' content. */
#include "tools/pack/shard_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* Counts the samples from `first` on that fill one shard; returns their bytes. */
static int64_t plan_shard(const source_t *source, split_t split, int64_t first, int64_t shard_bytes,
                          int64_t *n)
{
    const source_entry_t *entries = source->entries[split];
    int64_t end = source->n_samples[split], at = first, sum = 0;
    while (at < end && (at == first || sum + entries[at].n_bytes <= shard_bytes))
        sum += entries[at++].n_bytes;
    *n = at - first;
    return sum;
}

static int64_t count_shards(const source_t *source, split_t split, int64_t shard_bytes)
{
    int64_t n_shards = 0, n;
    for (int64_t first = 0; first < source->n_samples[split]; first += n, n_shards++)
        plan_shard(source, split, first, shard_bytes, &n);
    return n_shards;
}

static err_t hash_plan(const source_t *source, const pack_options_t *options, uint64_t *out)
{
    const int64_t numbers[] = {SHARD_SCHEMA,
                               (int64_t)source->hash,
                               options->shard_bytes,
                               options->resize,
                               options->resize ? options->quality : 0,
                               source->n_samples[SPLIT_TRAIN],
                               source->n_samples[SPLIT_VAL]};
    XXH3_state_t *state = XXH3_createState();
    if (!state) RAISE(ERR_SYSTEM, "out of memory for the plan's hash");
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, numbers, sizeof numbers);
    for (int split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++)
            XXH3_64bits_update(state, &source->entries[split][i].n_bytes, sizeof(int64_t));
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    *out = hash ? hash : 1;
    return ERR_OK;
}

static uint64_t hash_data(const source_t *source, const pack_options_t *options)
{
    const uint64_t numbers[] = {source->hash, (uint64_t)options->resize, (uint64_t)options->quality};
    return options->resize ? XXH3_64bits(numbers, sizeof numbers) : source->hash;
}

err_t pack_plan_make(const source_t *source, const pack_options_t *options, pack_plan_t *out)
{
    int64_t n_shards[SPLIT_COUNT], k = 0;
    *out = (pack_plan_t){0};
    for (int s = 0; s < SPLIT_COUNT; s++) {
        n_shards[s] = count_shards(source, (split_t)s, options->shard_bytes);
        out->n_shards += n_shards[s];
    }
    if (out->n_shards == 0) RAISE(ERR_DATA, "%s has no samples to pack", source->path);
    if (out->n_shards > INT32_MAX)
        RAISE(ERR_USAGE, "--shard-size %lld is too small: it would yield more than %d shards",
              (long long)options->shard_bytes, INT32_MAX);
    TRY(hash_plan(source, options, &out->hash));
    out->data_hash = hash_data(source, options);
    TRY(mem_new_array(out->n_shards, sizeof *out->shards, "a plan of shards", &out->shards));
    TRY(mem_new_array(out->n_shards, sizeof *out->shard_bytes, "a plan of shards", &out->shard_bytes));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        int64_t first = 0;
        for (int64_t number = 0; number < n_shards[s]; number++, k++) {
            shard_plan_t *shard = &out->shards[k];
            *shard = (shard_plan_t){.folder = options->out,
                                    .split = (split_t)s,
                                    .number = number,
                                    .n_shards = n_shards[s],
                                    .first = first,
                                    .n_categories = source->n_categories,
                                    .plan = out->hash};
            out->shard_bytes[k] =
                plan_shard(source, (split_t)s, first, options->shard_bytes, &shard->n_samples);
            out->n_bytes += out->shard_bytes[k];
            first += shard->n_samples;
        }
    }
    return ERR_OK;
}

void pack_plan_free(pack_plan_t *plan)
{
    mem_free(&plan->shards);
    mem_free(&plan->shard_bytes);
}

err_t pack_plan_head(const source_t *source, const pack_options_t *options, const pack_plan_t *plan,
                     shard_head_t *out)
{
    *out = (shard_head_t){.n_categories = source->n_categories,
                          .has_annotations = source->has_annotations,
                          .shard_bytes = options->shard_bytes,
                          .resize = options->resize,
                          .quality = options->resize ? options->quality : 0,
                          .plan = plan->hash,
                          .data_hash = plan->data_hash};
    for (int64_t k = 0; k < plan->n_shards; k++) out->n_shards[plan->shards[k].split]++;
    for (int s = 0; s < SPLIT_COUNT; s++) out->n_samples[s] = source->n_samples[s];
    for (int32_t c = 0; c < source->n_categories; c++)
        if (strlen(source->categories[c].name) >= SHARD_TEXT_MAX ||
            strlen(source->categories[c].supergroup) >= SHARD_TEXT_MAX)
            RAISE(ERR_DATA, "the category %.60s… has a name or supercategory longer than %d bytes",
                  source->categories[c].name, SHARD_TEXT_MAX - 1);
    snprintf(out->source_kind, sizeof out->source_kind, "%s", source->ops->kind);
    snprintf(out->source_path, sizeof out->source_path, "%s", source->path);
    return ERR_OK;
}
