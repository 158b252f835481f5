/* SPDX-License-Identifier: MIT */
/* A folder of shards as a source, read through data/shard. Missing shard files are found when it is opened.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/shard/reader.h"
#include "data/source/parts.h"

typedef struct shards {
    shard_index_t *index;
    shard_reader_t *reader;
    shard_pieces_t *pieces;
} shards_t;

/* Also true for unfinished packing, which opening then reports. */
static bool is_shards(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));)
        found = strcmp(entry->d_name, SHARD_INDEX_NAME) == 0 || shard_is_name(entry->d_name);
    if (dir) closedir(dir);
    return found;
}

/* Finds the shard of this file name in the index. */
static bool find_shard(const shard_index_t *index, const char *name, int *split, int64_t *number)
{
    const char *digits = strchr(name, '-');
    if (!shard_is_name(name) || !digits) return false;
    *number = strtoll(digits + 1, NULL, 10);
    for (*split = 0; *split < SPLIT_COUNT; (*split)++)
        if (*number < index->head->n_shards[*split] && strcmp(index->files[*split][*number].name, name) == 0)
            return true;
    return false;
}

/* Finds missing shards now rather than when they are read, which can be an epoch later. Listing the folder is
 * faster on a network than a stat of each file. */
static err_t check_files(const char *path, const shard_index_t *index)
{
    bool *found[SPLIT_COUNT] = {NULL};
    const char *first = NULL;
    int64_t n = 0, n_missing = 0, number;
    int split;
    DIR *dir = NULL;
    err_t err;
    for (int s = 0; s < SPLIT_COUNT; s++)
        TRY_OUT(err,
                mem_new_array(index->head->n_shards[s], sizeof *found[s], "a list of shards", &found[s]));
    dir = opendir(path);
    if (!dir) RAISE_OUT(err, ERR_DATA, "cannot list %s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        if (find_shard(index, entry->d_name, &split, &number)) found[split][number] = true;
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t k = 0; k < index->head->n_shards[s]; k++, n++) {
            if (found[s][k]) continue;
            if (!first) first = index->files[s][k].name;
            n_missing++;
        }
    if (n_missing > 0)
        RAISE_OUT(
            err, ERR_DATA,
            "%s lacks %lld of the %lld shards in its index, the first is %s; copy them again, or recreate "
            "them with dptrain data pack",
            path, (long long)n_missing, (long long)n, first);
out:
    if (dir) closedir(dir);
    for (int s = 0; s < SPLIT_COUNT; s++) mem_free(&found[s]);
    return err;
}

static void close_shards(source_t *source)
{
    shards_t *shards = source->impl;
    if (!shards) return;
    shard_pieces_free(&shards->pieces);
    shard_reader_close(&shards->reader);
    shard_index_free(&shards->index);
    mem_free(&source->impl);
}

/* Takes ownership of the index. */
static err_t use_index(source_t *source, const char *path, shard_index_t *index)
{
    shards_t *shards;
    err_t err = mem_new(sizeof *shards, "a folder of shards", &shards);
    if (err != ERR_OK) shard_index_free(&index);
    TRY(err);
    source->impl = shards;
    shards->index = index;
    TRY_OUT(err, shard_reader_open(path, shards->index, &shards->reader));
    TRY_OUT(err, shard_pieces_new(shards->reader, &shards->pieces));
    const shard_head_t *head = index->head;
    category_t *categories; /* texts point into the index */
    TRY_OUT(err, arena_new(&source->arena, (size_t)head->n_categories * sizeof *categories, &categories));
    for (int64_t i = 0; i < head->n_categories; i++) {
        const shard_category_t *c = &index->categories[i];
        categories[i] = (category_t){c->id, c->name, c->supergroup};
    }
    for (int split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n = head->n_samples[split];
        source_entry_t **entries = &source->entries[split];
        TRY_OUT(err, mem_new_array(n, sizeof **entries, "a list of samples", entries));
        for (int64_t i = 0; i < n; i++) {
            const shard_entry_t *e = &index->entries[split][i];
            (*entries)[i] = (source_entry_t){e->n_bytes, e->width, e->height, e->label, 0};
        }
        source->n_samples[split] = n;
    }
    source->n_categories = (int32_t)head->n_categories;
    source->categories = categories;
    source->has_annotations = head->has_annotations != 0;
    source->hash = head->data_hash;
out:
    if (err != ERR_OK) close_shards(source);
    return err;
}

static err_t open_shards(source_t *source, const char *path)
{
    shard_index_t *index = NULL;
    if (source->rules && source->rules->boxes != LIST_BOXES_AUTO)
        source_tell(source, "--exif-boxes has no effect on shards: they keep what boxes were taken for");
    TRY(shard_index_read(path, &index, NULL));
    err_t err = check_files(path, index);
    if (err != ERR_OK) shard_index_free(&index);
    TRY(err);
    return use_index(source, path, index);
}

static err_t save_shards(const source_t *source, void **bytes, int64_t *n_bytes)
{
    const shard_index_t *index = ((const shards_t *)source->impl)->index;
    char *block;
    *n_bytes = (int64_t)sizeof(source_frame_t) + index->head->n_block;
    TRY(mem_new((size_t)*n_bytes, "an index of shards", &block));
    memcpy(block + sizeof(source_frame_t), shard_index_pack(index), (size_t)index->head->n_block);
    *bytes = block;
    return ERR_OK;
}

static err_t restore_shards(source_t *source, void **bytes, int64_t n_bytes)
{
    shard_index_t *index = NULL;
    const int64_t n_frame = (int64_t)sizeof(source_frame_t);
    TRY(shard_index_unpack((const char *)*bytes + n_frame, n_bytes - n_frame, &index));
    TRY(use_index(source, source->path, index));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        int64_t n = index->head->n_shards[s], step = n > 1 ? n - 1 : 1; /* the first and the last */
        for (int64_t k = 0; k < n; k += step)
            TRY(source_check_file(source->path, index->files[s][k].name, index->files[s][k].n_bytes));
    }
    return ERR_OK;
}

static err_t read_shards(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                         sample_t *out)
{
    const shards_t *shards = source->impl;
    const source_near_t *w = &buffer->near;
    shard_buffer_t own = {buffer->block, buffer->n_bytes};
    shard_piece_t *held = buffer->impl;
    shard_pieces_release(&held);
    shard_near_t near = {w->first, w->n, w->n_uses, w->n_runs};
    err_t err = shard_pieces_read(shards->pieces, split, index, &near, &own, &held, out);
    buffer->block = own.block;
    buffer->n_bytes = own.n_bytes;
    buffer->impl = held;
    return err;
}

static void free_shards_buffer(source_buffer_t *buffer)
{
    shard_piece_t *held = buffer->impl;
    shard_pieces_release(&held);
}

static err_t describe_shards(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                             sample_t *out)
{
    const shards_t *shards = source->impl;
    shard_buffer_t own = {buffer->block, buffer->n_bytes};
    err_t err = shard_describe(shards->reader, split, index, &own, out);
    buffer->block = own.block;
    buffer->n_bytes = own.n_bytes;
    return err;
}

const source_ops_t source_shards = {
    .kind = "shards",
    .what = "shards with index.h5, written by dptrain data pack",
    .is = is_shards,
    .open = open_shards,
    .close = close_shards,
    .read = read_shards,
    .free_buffer = free_shards_buffer,
    .describe = describe_shards,
    .save = save_shards,
    .restore = restore_shards,
};
