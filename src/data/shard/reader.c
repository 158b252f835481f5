/* SPDX-License-Identifier: MIT */
/* Reads records with pread and compares each with its hash. Open files are kept in a small LRU table. HDF5 is
 * not involved. */
#include "data/shard/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "data/shard/notes.h"
#include "store/h5/seal.h"

/* An open file. */
typedef struct slot {
    split_t split;
    int64_t shard;
    int fd; /* -1: empty */
    int n_users;
    uint64_t last_use;
} slot_t;

struct shard_reader {
    char folder[FS_PATH_MAX];
    const shard_index_t *index;
    pthread_mutex_t lock; /* guards the members below */
    slot_t slots[SHARD_MAX_OPEN];
    uint64_t n_uses;
};

err_t shard_reader_open(const char *folder, const shard_index_t *index, shard_reader_t **out)
{
    shard_reader_t *r;
    if (strlen(folder) >= FS_PATH_MAX) RAISE(ERR_USAGE, "the path %.80s… is too long", folder);
    TRY(mem_new(sizeof *r, "a reader of shards", &r));
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    r->index = index;
    pthread_mutex_init(&r->lock, NULL);
    for (int i = 0; i < SHARD_MAX_OPEN; i++) r->slots[i].fd = -1;
    *out = r;
    return ERR_OK;
}

void shard_reader_close(shard_reader_t **reader)
{
    shard_reader_t *r = *reader;
    if (!r) return;
    for (int i = 0; i < SHARD_MAX_OPEN; i++)
        if (r->slots[i].fd >= 0) close(r->slots[i].fd);
    pthread_mutex_destroy(&r->lock);
    mem_free(reader);
}

const shard_index_t *shard_reader_index(const shard_reader_t *reader)
{
    return reader->index;
}

static err_t open_file(const shard_reader_t *r, const shard_file_t *file, int *out)
{
    char path[FS_PATH_MAX];
    struct stat info;
    TRY(fs_join(path, r->folder, file->name));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(seal_errno_code(errno), "cannot open the shard %s: %s", path, strerror(errno));
    err_t err = ERR_OK;
    if (fstat(fd, &info) != 0)
        err =
            err_raise(seal_errno_code(errno), __FILE__, __LINE__, "the shard %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode) || info.st_size != file->n_bytes) {
        char folder[FS_PATH_MAX];
        fs_quote(r->folder, folder, sizeof folder);
        err = err_raise(
            ERR_DATA, __FILE__, __LINE__,
            "the shard %s has %lld bytes, but %lld in the index: it is truncated or belongs to another plan; "
            "check with dptrain data verify %s",
            path, (long long)info.st_size, (long long)file->n_bytes, folder);
    }
    if (err == ERR_OK)
        *out = fd;
    else
        close(fd);
    return err;
}

/* The slot with this file, or NULL. Under the lock. */
static slot_t *find_slot(shard_reader_t *r, split_t split, int64_t shard)
{
    for (slot_t *slot = r->slots; slot < r->slots + SHARD_MAX_OPEN; slot++)
        if (slot->fd >= 0 && slot->split == split && slot->shard == shard) return slot;
    return NULL;
}

/* An empty slot, or the least recently used free one; NULL: all are in use. Under the lock. */
static slot_t *oldest_slot(shard_reader_t *r)
{
    slot_t *oldest = NULL;
    for (slot_t *slot = r->slots; slot < r->slots + SHARD_MAX_OPEN; slot++) {
        if (slot->fd < 0) return slot;
        if (slot->n_users == 0 && (!oldest || slot->last_use < oldest->last_use)) oldest = slot;
    }
    return oldest;
}

/* Gets the open file. *slot NULL: all slots are in use, and *fd is the caller's own. Files are opened without
 * the lock, because network folders may be slow; if two threads open the same file, the later one closes its
 * own. */
static err_t acquire_file(shard_reader_t *r, split_t split, int64_t shard, slot_t **slot, int *fd)
{
    int opened = -1, old = -1;
    pthread_mutex_lock(&r->lock);
    *slot = find_slot(r, split, shard);
    if (!*slot) {
        pthread_mutex_unlock(&r->lock);
        TRY(open_file(r, &r->index->files[split][shard], &opened));
        pthread_mutex_lock(&r->lock);
        *slot = find_slot(r, split, shard);
        if (*slot) {
            old = opened;
        } else if ((*slot = oldest_slot(r))) {
            old = (*slot)->fd;
            **slot = (slot_t){.split = split, .shard = shard, .fd = opened};
        }
    }
    if (*slot) {
        (*slot)->n_users++;
        (*slot)->last_use = ++r->n_uses;
    }
    *fd = *slot ? (*slot)->fd : opened;
    pthread_mutex_unlock(&r->lock);
    if (old >= 0) close(old);
    return ERR_OK;
}

static void release_file(shard_reader_t *r, slot_t *slot, int fd)
{
    if (!slot) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&r->lock);
    slot->n_users--;
    pthread_mutex_unlock(&r->lock);
}

/* The consecutive records that a call reads. */
typedef struct range {
    const shard_file_t *file;
    const shard_entry_t *entries; /* [n] */
    int64_t n, first;             /* first: number within the split */
    split_t split;
    char *images, *notes; /* images NULL: not requested */
    size_t n_images, n_notes;
} range_t;

static err_t read_all(const shard_reader_t *r, const range_t *range, int fd, int64_t offset, char *out,
                      size_t n_bytes)
{
    size_t n_read;
    int reason = fs_read_all(fd, offset, out, n_bytes, &n_read);
    if (reason)
        RAISE(seal_errno_code(reason), "cannot read the shard %s/%s: %s", r->folder, range->file->name,
              strerror(reason));
    if (n_read < n_bytes) {
        char folder[FS_PATH_MAX];
        fs_quote(r->folder, folder, sizeof folder);
        RAISE(ERR_DATA, "the shard %s/%s is truncated; check with dptrain data verify %s", r->folder,
              range->file->name, folder);
    }
    return ERR_OK;
}

static err_t read_bytes(shard_reader_t *r, const range_t *range)
{
    slot_t *slot = NULL;
    int fd = -1;
    TRY(acquire_file(r, range->split, range->entries[0].shard, &slot, &fd));
    err_t err = ERR_OK;
    if (range->images) err = read_all(r, range, fd, range->entries[0].offset, range->images, range->n_images);
    if (err == ERR_OK)
        err = read_all(r, range, fd, range->entries[0].notes_offset, range->notes, range->n_notes);
    release_file(r, slot, fd);
    return err;
}

/* Prefixes the message with the record. */
static err_t name_record(const shard_reader_t *r, const range_t *range, int64_t i, err_t err)
{
    const shard_entry_t *e = &range->entries[i];
    return err_context(err, "%s/%s, record %lld (sample %lld of %s, id %lld)", r->folder, range->file->name,
                       (long long)(range->first + i - range->file->first), (long long)(range->first + i),
                       split_names[range->split], (long long)e->id);
}

#define IS_DAMAGED                                                                                           \
    "does not match its hash: the file is damaged or was replaced; check with dptrain data verify"

static err_t check_record(const shard_entry_t *e, const char *image, const char *notes, int64_t n_categories,
                          annotation_t *annotations, sample_t *out)
{
    if (image && XXH3_64bits(image, (size_t)e->n_bytes) != e->hash) RAISE(ERR_DATA, "its image " IS_DAMAGED);
    if (XXH3_64bits(notes, (size_t)e->notes_bytes) != e->notes_hash)
        RAISE(ERR_DATA, "its annotation " IS_DAMAGED);
    TRY(shard_notes_read(notes, (size_t)e->notes_bytes, n_categories, annotations, out));
    if (out->id != e->id || out->width != e->width || out->height != e->height || out->label != e->label)
        RAISE(ERR_DATA, "its annotation does not match the index");
    out->bytes = image;
    out->n_bytes = (size_t)e->n_bytes;
    return ERR_OK;
}

static err_t check_records(const shard_reader_t *r, const range_t *range, annotation_t *annotations,
                           sample_t *out)
{
    const shard_entry_t *first = &range->entries[0];
    for (int64_t i = 0; i < range->n; i++) {
        const shard_entry_t *e = &range->entries[i];
        const char *notes = range->notes + (e->notes_offset - first->notes_offset);
        const char *image = range->images ? range->images + (e->offset - first->offset) : NULL;
        if ((e->notes_offset - first->notes_offset) % SHARD_NOTES_ALIGN != 0)
            return name_record(r, range, i,
                               err_raise(ERR_DATA, __FILE__, __LINE__, "its annotation is misaligned"));
        err_t err = check_record(e, image, notes, r->index->head->n_categories, annotations, &out[i]);
        if (err != ERR_OK) return name_record(r, range, i, err);
        annotations += out[i].n_annotations + out[i].n_truths;
    }
    return ERR_OK;
}

/* Discards the buffer's content. */
static err_t reserve_buffer(shard_buffer_t *buffer, size_t n_bytes)
{
    if (n_bytes <= buffer->n_bytes) return ERR_OK;
    mem_free(&buffer->block);
    buffer->n_bytes = 0;
    TRY(mem_new(n_bytes + n_bytes / 4, "samples of a shard", &buffer->block));
    buffer->n_bytes = n_bytes + n_bytes / 4;
    return ERR_OK;
}

static err_t read_range(shard_reader_t *r, range_t *range, bool images, shard_buffer_t *buffer, sample_t *out)
{
    const shard_index_t *index = r->index;
    ASSERT(range->n > 0 && range->first >= 0 &&
           range->first <= index->head->n_samples[range->split] - range->n);
    const shard_entry_t *first = &index->entries[range->split][range->first], *last = &first[range->n - 1];
    ASSERT(last->shard == first->shard);
    range->file = &index->files[range->split][first->shard];
    range->entries = first;
    range->n_images = images ? (size_t)(last->offset + last->n_bytes - first->offset) : 0;
    range->n_notes = (size_t)(last->notes_offset + last->notes_bytes - first->notes_offset);
    size_t n_notes = mem_round(range->n_notes), n_images = mem_round(range->n_images);
    TRY(reserve_buffer(buffer, n_notes + n_images + shard_notes_most(range->n_notes) * sizeof(annotation_t)));
    range->notes = buffer->block;
    if (images) range->images = range->notes + n_notes;
    TRY(read_bytes(r, range));
    return check_records(r, range, (annotation_t *)(void *)(range->notes + n_notes + n_images), out);
}

err_t shard_read_range(shard_reader_t *r, split_t split, int64_t first, int64_t n, shard_buffer_t *buffer,
                       sample_t *out)
{
    range_t range = {.split = split, .first = first, .n = n};
    return read_range(r, &range, true, buffer, out);
}

err_t shard_read(shard_reader_t *r, split_t split, int64_t number, shard_buffer_t *buffer, sample_t *out)
{
    return shard_read_range(r, split, number, 1, buffer, out);
}

err_t shard_describe(shard_reader_t *r, split_t split, int64_t number, shard_buffer_t *buffer, sample_t *out)
{
    range_t range = {.split = split, .first = number, .n = 1};
    return read_range(r, &range, false, buffer, out);
}

int64_t shard_run_length(const shard_index_t *index, split_t split, int64_t first, int64_t most,
                         int64_t n_bytes)
{
    const shard_entry_t *entries = &index->entries[split][first];
    int64_t n = 1, sum = entries[0].n_bytes;
    if (most > index->head->n_samples[split] - first) most = index->head->n_samples[split] - first;
    while (n < most && entries[n].shard == entries[0].shard && sum + entries[n].n_bytes <= n_bytes)
        sum += entries[n++].n_bytes;
    return n;
}
