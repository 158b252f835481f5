/* SPDX-License-Identifier: MIT */
/* The index in memory: one relocatable block, and the check that its offsets, counts and names are
 * consistent. The file is left to index_file.c. */
#include "data/shard/index.h"

#include <string.h>

#include "base/mem.h"

/* Sums of such counts cannot overflow; the largest published data set has 6e9 images. */
static const int64_t max_count = (int64_t)1 << 40;

static bool is_count(int64_t n)
{
    return n >= 0 && n <= max_count;
}

/* The block's size for a head's counts; -1 if they are invalid. */
static int64_t block_bytes(const shard_head_t *head)
{
    int64_t n = (int64_t)sizeof *head;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        if (!is_count(head->n_samples[s]) || !is_count(head->n_shards[s])) return -1;
        n += head->n_shards[s] * (int64_t)sizeof(shard_file_t) +
             head->n_samples[s] * (int64_t)sizeof(shard_entry_t);
    }
    if (!is_count(head->n_categories)) return -1;
    return n + head->n_categories * (int64_t)sizeof(shard_category_t);
}

/* Sets the pointers to the parts of a block. */
static void set_block(shard_index_t *index, void *block)
{
    char *at = block;
    const shard_head_t *head = block;
    index->head = block;
    at += sizeof *head;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        index->files[s] = (shard_file_t *)(void *)at;
        at += head->n_shards[s] * (int64_t)sizeof(shard_file_t);
    }
    for (int s = 0; s < SPLIT_COUNT; s++) {
        index->entries[s] = (shard_entry_t *)(void *)at;
        at += head->n_samples[s] * (int64_t)sizeof(shard_entry_t);
    }
    index->categories = (shard_category_t *)(void *)at;
}

_Static_assert(sizeof(shard_head_t) % 8 == 0 && sizeof(shard_file_t) % 8 == 0 &&
                   sizeof(shard_entry_t) % 8 == 0,
               "aligns the parts of a block");

static err_t new_block(int64_t n_block, shard_index_t **out, void *block_out)
{
    shard_index_t *index;
    char *block;
    TRY(mem_new(sizeof *index, "an index of shards", &index));
    err_t err = mem_new((size_t)n_block, "an index of shards", &block);
    if (err == ERR_OK) {
        *out = index;
        memcpy(block_out, &block, sizeof block);
    } else {
        mem_free(&index);
    }
    return err;
}

err_t shard_index_new(const shard_head_t *head, shard_index_t **out)
{
    int64_t n_block = block_bytes(head);
    if (n_block < 0) RAISE(ERR_DATA, "an index of shards with invalid counts");
    shard_index_t *index;
    shard_head_t *block = NULL;
    TRY(new_block(n_block, &index, &block));
    *block = *head;
    block->n_block = n_block;
    set_block(index, block);
    *out = index;
    return ERR_OK;
}

void shard_index_free(shard_index_t **index)
{
    if (!*index) return;
    mem_free(&(*index)->head);
    mem_free(index);
}

const void *shard_index_pack(const shard_index_t *index)
{
    return index->head;
}

err_t shard_index_unpack(const void *block, int64_t n_block, shard_index_t **out)
{
    shard_head_t head;
    if (n_block < (int64_t)sizeof head)
        RAISE(ERR_DATA, "an index of shards is truncated: %lld bytes", (long long)n_block);
    memcpy(&head, block, sizeof head);
    if (head.n_block != n_block || block_bytes(&head) != n_block)
        RAISE(ERR_DATA, "an index of shards has %lld bytes, which do not match its counts",
              (long long)n_block);
    shard_index_t *index;
    char *copy = NULL;
    TRY(new_block(n_block, &index, &copy));
    memcpy(copy, block, (size_t)n_block);
    set_block(index, copy);
    err_t err = shard_index_check(index, "an index in memory");
    if (err == ERR_OK)
        *out = index;
    else
        shard_index_free(&index);
    return err;
}

typedef struct cursor {
    int64_t next, next_notes; /* offsets required of the next record; 0: any */
} cursor_t;

static bool is_in_file(int64_t offset, int64_t n_bytes, int64_t next, const shard_file_t *file)
{
    return n_bytes > 0 && n_bytes <= SHARD_MAX_RECORD && offset >= SEAL_BYTES &&
           offset <= file->n_bytes - n_bytes && (next == 0 || offset == next);
}

static err_t check_entry(const shard_index_t *index, const shard_file_t *file, const shard_entry_t *e,
                         cursor_t *at)
{
    const char *why = NULL;
    if (!is_in_file(e->offset, e->n_bytes, at->next, file)) why = "invalid offset or size of its image";
    if (!is_in_file(e->notes_offset, e->notes_bytes, at->next_notes, file))
        why = "invalid offset or size of its annotations";
    if (e->width < 1 || e->height < 1) why = "invalid width or height";
    if (e->label < -1 || e->label >= index->head->n_categories) why = "invalid label";
    if (why) RAISE(ERR_DATA, "%s", why);
    at->next = e->offset + e->n_bytes;
    at->next_notes = e->notes_offset + e->notes_bytes;
    return ERR_OK;
}

static err_t check_file(const shard_index_t *index, split_t split, int64_t k, int64_t first)
{
    const shard_file_t *file = &index->files[split][k];
    const shard_head_t *head = index->head;
    char name[SHARD_NAME_MAX];
    cursor_t at = {0};
    shard_name(split, k, head->n_shards[split], name);
    if (strncmp(file->name, name, sizeof name) != 0)
        RAISE(ERR_DATA, "shard %lld is not named %s", (long long)k, name);
    if (file->first != first || file->n_samples < 1 || file->n_samples > head->n_samples[split] - first ||
        file->n_bytes < SEAL_BYTES || file->n_annotations < 0 || file->n_crowds < 0)
        RAISE(ERR_DATA, "invalid counts or size of %s", name);
    for (int64_t i = first; i < first + file->n_samples; i++) {
        const shard_entry_t *entry = &index->entries[split][i];
        err_t err = entry->shard == k
                        ? check_entry(index, file, entry, &at)
                        : err_raise(ERR_DATA, __FILE__, __LINE__, "it is listed in another shard");
        if (err != ERR_OK) return err_context(err, "%s, record %lld", name, (long long)(i - first));
    }
    return ERR_OK;
}

static bool is_text(const char *text, size_t n_bytes)
{
    return memchr(text, '\0', n_bytes) != NULL;
}

static err_t check_head(const shard_index_t *index)
{
    const shard_head_t *head = index->head;
    if (head->plan == 0 || !is_text(head->source_kind, sizeof head->source_kind) ||
        !is_text(head->source_path, sizeof head->source_path) || head->resize < 0 ||
        head->resize > INT32_MAX || head->quality < 0 || head->quality > 100 ||
        head->n_categories > INT32_MAX || head->n_shards[0] > INT32_MAX || head->n_shards[1] > INT32_MAX)
        RAISE(ERR_DATA, "invalid head");
    for (int64_t c = 0; c < head->n_categories; c++)
        if (!is_text(index->categories[c].name, SHARD_TEXT_MAX) ||
            !is_text(index->categories[c].supergroup, SHARD_TEXT_MAX))
            RAISE(ERR_DATA, "the name of category %lld is not terminated", (long long)c);
    return ERR_OK;
}

static err_t check_parts(const shard_index_t *index)
{
    TRY(check_head(index));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        int64_t first = 0;
        for (int64_t k = 0; k < index->head->n_shards[s]; k++) {
            TRY(check_file(index, (split_t)s, k, first));
            first += index->files[s][k].n_samples;
        }
        if (first != index->head->n_samples[s])
            RAISE(ERR_DATA, "the shards of %s hold %lld samples, not %lld", split_names[s], (long long)first,
                  (long long)index->head->n_samples[s]);
    }
    return ERR_OK;
}

err_t shard_index_check(const shard_index_t *index, const char *path)
{
    err_t err = check_parts(index);
    return err == ERR_OK ? err : err_context(err, "cannot use the index %s", path);
}

int64_t shard_index_bytes(const shard_index_t *index, split_t split)
{
    int64_t n = 0;
    for (int64_t i = 0; i < index->head->n_samples[split]; i++) n += index->entries[split][i].n_bytes;
    return n;
}
