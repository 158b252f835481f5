/* SPDX-License-Identifier: MIT */
/* Reads records with pread and compares each with its hash; open files are kept in a small LRU table, pieces in a
 * reference-counted one. Verifying a shard also compares it with its seal and its own table; tools/pack/verify.c divides
 * shards over the ranks. */
#include "data/shard/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "data/shard/h5.h"
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
    if (!slot) {
        close(fd);
        return err;
    }
    pthread_mutex_lock(&r->lock);
    slot->n_users--;
    pthread_mutex_unlock(&r->lock);
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
    const size_t n = n_notes + n_images + shard_notes_most(range->n_notes) * sizeof(annotation_t);
    if (n > buffer->n_bytes) { /* its content is not needed any more */
        mem_free(&buffer->block);
        buffer->n_bytes = 0;
        TRY(mem_new(n + n / 4, "samples of a shard", &buffer->block));
        buffer->n_bytes = n + n / 4;
    }
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

typedef enum state { LOADING, READY, BROKEN } state_t;

struct shard_piece {
    shard_pieces_t *owner;
    split_t split;
    int64_t first, n, n_uses;
    state_t state; /* from here to last_use: under the owner's lock */
    int n_users;
    int64_t n_used;
    uint64_t last_use;
    /* Written by the loading thread, then constant. */
    shard_buffer_t buffer;
    sample_t *samples; /* [n] */
};

struct shard_pieces {
    shard_reader_t *reader;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t loaded;
    shard_piece_t **items;
    int64_t n_items;
    uint64_t n_uses;
};

err_t shard_pieces_new(shard_reader_t *reader, shard_pieces_t **out)
{
    TRY(mem_new(sizeof **out, "pieces of shards", out));
    (*out)->reader = reader;
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->loaded, NULL);
    return ERR_OK;
}

void shard_pieces_free(shard_pieces_t **pieces)
{
    shard_pieces_t *p = *pieces;
    if (!p) return;
    for (int64_t i = 0; i < p->n_items; i++) {
        mem_free(&p->items[i]->buffer.block);
        mem_free(&p->items[i]->samples);
        mem_free(&p->items[i]);
    }
    mem_free(&p->items);
    pthread_cond_destroy(&p->loaded);
    pthread_mutex_destroy(&p->lock);
    mem_free(pieces);
}

/* Clips the run to the record's shard. False: too short or too large for a piece. */
static bool cut_run(const shard_index_t *index, split_t split, int64_t number, const shard_near_t *near,
                    shard_near_t *out)
{
    const shard_entry_t *entries = index->entries[split];
    const shard_file_t *file = &index->files[split][entries[number].shard];
    int64_t end = near->first + near->n, file_end = file->first + file->n_samples;
    if (number < near->first || number >= end) return false;
    out->first = near->first > file->first ? near->first : file->first;
    out->n = (end < file_end ? end : file_end) - out->first;
    out->n_uses = near->n_uses * out->n / near->n;
    out->n_pieces = near->n_pieces < SHARD_PIECES_MAX ? near->n_pieces : SHARD_PIECES_MAX;
    const shard_entry_t *from = &entries[out->first], *to = &from[out->n - 1];
    int64_t n_images = to->offset + to->n_bytes - from->offset;
    int64_t n_notes = to->notes_offset + to->notes_bytes - from->notes_offset;
    return out->n > 1 && n_images <= SHARD_PIECE_MAX && n_notes <= SHARD_PIECE_MAX - n_images;
}

/* The functions down to hold_piece are called under the lock, which it releases while it loads. */

static shard_piece_t *find_piece(const shard_pieces_t *p, split_t split, const shard_near_t *run)
{
    for (int64_t i = 0; i < p->n_items; i++) {
        shard_piece_t *piece = p->items[i];
        if (piece->split == split && piece->first == run->first && piece->n == run->n) return piece;
    }
    return NULL;
}

/* The least recently used free piece, among those that are used up or among all; NULL if none. */
static shard_piece_t *oldest_piece(const shard_pieces_t *p, bool used_up)
{
    shard_piece_t *found = NULL;
    for (int64_t i = 0; i < p->n_items; i++) {
        shard_piece_t *piece = p->items[i];
        if (piece->n_users > 0 || (used_up && piece->n_used < piece->n_uses)) continue;
        if (!found || piece->last_use < found->last_use) found = piece;
    }
    return found;
}

/* Holds the piece with a run, loading it if no other thread does; NULL: no piece is free. */
static err_t hold_piece(shard_pieces_t *p, split_t split, const shard_near_t *run, shard_piece_t **out)
{
    shard_piece_t *piece = find_piece(p, split, run);
    *out = NULL;
    if (piece) {
        piece->n_users++;
        while (piece->state == LOADING) pthread_cond_wait(&p->loaded, &p->lock);
    } else {
        piece = oldest_piece(p, true);
        if (!piece && p->n_items < run->n_pieces) {
            TRY(mem_grow(p->n_items + 1, sizeof *p->items, "a list of pieces", &p->items));
            TRY(mem_new(sizeof *piece, "a piece of a shard", &piece));
            piece->owner = p;
            p->items[p->n_items++] = piece;
        }
        if (!piece) piece = oldest_piece(p, false);
        if (!piece) return ERR_OK;
        piece->split = split, piece->first = run->first, piece->n = run->n, piece->n_uses = run->n_uses;
        piece->n_used = 0, piece->n_users = 1, piece->state = LOADING;
        pthread_mutex_unlock(&p->lock);
        err_t err = mem_grow(piece->n, sizeof *piece->samples, "samples of a piece", &piece->samples);
        if (err == ERR_OK)
            err = shard_read_range(p->reader, split, piece->first, piece->n, &piece->buffer, piece->samples);
        pthread_mutex_lock(&p->lock);
        piece->state = err == ERR_OK ? READY : BROKEN;
        pthread_cond_broadcast(&p->loaded);
    }
    piece->n_used++;
    piece->last_use = ++p->n_uses;
    *out = piece;
    return ERR_OK;
}

err_t shard_pieces_read(shard_pieces_t *p, split_t split, int64_t number, const shard_near_t *near,
                        shard_buffer_t *buffer, shard_piece_t **held, sample_t *out)
{
    shard_near_t run;
    shard_piece_t *piece = NULL;
    *held = NULL;
    if (cut_run(p->reader->index, split, number, near, &run)) {
        pthread_mutex_lock(&p->lock);
        err_t err = hold_piece(p, split, &run, &piece);
        pthread_mutex_unlock(&p->lock);
        TRY(err);
    }
    if (piece && piece->state == READY) {
        *out = piece->samples[number - run.first];
        *held = piece;
        return ERR_OK;
    }
    shard_pieces_release(&piece);
    return shard_read(p->reader, split, number, buffer, out);
}

void shard_pieces_release(shard_piece_t **held)
{
    if (!*held) return;
    shard_pieces_t *p = (*held)->owner;
    pthread_mutex_lock(&p->lock);
    (*held)->n_users--;
    pthread_mutex_unlock(&p->lock);
    *held = NULL;
}

typedef struct look {
    char path[FS_PATH_MAX];
    int fd;
    const shard_index_t *index;
    const shard_file_t *file;
    const shard_entry_t *entries; /* [file->n_samples] */
    const shard_report_t *report;
    int64_t n_told;
    char *buffer;
    annotation_t *annotations;
} look_t;

static void look_tell(look_t *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void look_tell(look_t *l, const char *format, ...)
{
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->n_told++;
    l->report->tell(l->report->context, text);
}

/* Reads up to n_bytes to buffer + skip; fewer if the file ends or is damaged there. */
static err_t read_some(look_t *l, int64_t offset, size_t skip, size_t n_bytes, size_t *n_read)
{
    int reason = fs_read_all(l->fd, offset, l->buffer + skip, n_bytes, n_read);
    if (reason && seal_errno_code(reason) == ERR_SYSTEM)
        RAISE(ERR_SYSTEM, "cannot read the shard %s: %s", l->path, strerror(reason));
    return ERR_OK;
}

/* Compares one record with the index. */
static err_t look_at_record(look_t *l, int64_t i)
{
    const shard_entry_t *e = &l->entries[i];
    sample_t sample = {0};
    char name[FS_PATH_MAX + 8] = "";
    size_t n_notes, n_image, skip = mem_round((size_t)e->notes_bytes);
    TRY(mem_grow((int64_t)skip + e->n_bytes, 1, "a record of a shard", &l->buffer));
    TRY(mem_grow((int64_t)shard_notes_most((size_t)e->notes_bytes), sizeof *l->annotations,
                 "annotations of a record", &l->annotations));
    TRY(read_some(l, e->notes_offset, 0, (size_t)e->notes_bytes, &n_notes));
    TRY(read_some(l, e->offset, skip, (size_t)e->n_bytes, &n_image));
    bool notes_cut = n_notes < (size_t)e->notes_bytes, image_cut = n_image < (size_t)e->n_bytes;
    bool notes_fine = !notes_cut && XXH3_64bits(l->buffer, n_notes) == e->notes_hash;
    bool image_fine = !image_cut && XXH3_64bits(l->buffer + skip, n_image) == e->hash;
    const char *why = NULL;
    if (notes_fine) {
        if (shard_notes_read(l->buffer, n_notes, l->index->head->n_categories, l->annotations, &sample) !=
            ERR_OK)
            why = err_message();
        else if (sample.id != e->id || sample.label != e->label || sample.width != e->width ||
                 sample.height != e->height)
            why = "its annotation does not match the index";
        else
            snprintf(name, sizeof name, "\"%s\", ", sample.name);
    }
    if (notes_fine && image_fine && !why) return ERR_OK;
    if (!why && image_cut)
        why = notes_cut ? "it is truncated or unreadable" : "its image is truncated or unreadable";
    if (!why && notes_cut) why = "its annotation is truncated or unreadable";
    if (!why && image_fine) why = "its annotation is damaged";
    if (!why) why = notes_fine ? "its image is damaged" : "its image and its annotation are damaged";
    look_tell(l, "%s, record %" PRId64 " (%sid %" PRId64 "): %s", l->path, i, name, e->id, why);
    return ERR_OK;
}

/* Compares the file's table with the index. */
static err_t compare_tables(const look_t *l, const h5_contents_t *c)
{
    shard_entry_t *entries = NULL;
    const shard_file_t *file = l->file;
    const seal_t *seal = &c->seal;
    if (seal->plan != l->index->head->plan)
        RAISE(ERR_DATA, "the shard %s is intact, but belongs to another plan than " SHARD_INDEX_NAME,
              l->path);
    if (seal->n_bytes != file->n_bytes || seal->digest_high != file->digest_high ||
        seal->digest_low != file->digest_low)
        RAISE(ERR_DATA, "the shard %s is intact, but not the one in " SHARD_INDEX_NAME, l->path);
    TRY(mem_new_array(file->n_samples, sizeof *entries, "the records of a shard", &entries));
    err_t err = shard_h5_read(c, "/records", SHARD_ENTRIES, file->n_samples, entries);
    if (err == ERR_OK && memcmp(entries, l->entries, (size_t)file->n_samples * sizeof *entries) != 0)
        err = err_raise(ERR_DATA, __FILE__, __LINE__,
                        "the records of the shard %s differ from " SHARD_INDEX_NAME, l->path);
    mem_free(&entries);
    return err;
}

err_t shard_verify(const char *folder, const shard_index_t *index, split_t split, int64_t number,
                   const shard_report_t *report)
{
    look_t l = {.index = index, .file = &index->files[split][number], .report = report};
    l.entries = &index->entries[split][l.file->first];
    TRY(fs_join(l.path, folder, l.file->name));
    l.fd = open(l.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (l.fd < 0 && seal_errno_code(errno) == ERR_SYSTEM)
        RAISE(ERR_SYSTEM, "cannot open the shard %s: %s", l.path, strerror(errno));
    if (l.fd < 0) {
        look_tell(&l, "cannot open the shard %s: %s", l.path, strerror(errno));
        return ERR_OK;
    }
    h5_contents_t c;
    err_info_t whole;
    err_t err = h5_contents_open(&c, &(seal_file_t){l.fd, l.path, "shard"}, SHARD_SCHEMA, SHARD_EARLIER);
    if (err == ERR_OK) err = compare_tables(&l, &c);
    h5_contents_close(&c);
    if (err != ERR_OK && err != ERR_DATA) goto out;
    err_take(err, &whole);
    err = ERR_OK;
    for (int64_t i = 0; i < l.file->n_samples; i++) TRY_OUT(err, look_at_record(&l, i));
    if (whole.code != ERR_OK)
        look_tell(&l, l.n_told == 0 ? "%s; all its records are intact" : "%s", whole.message);
out:
    close(l.fd);
    mem_free(&l.buffer);
    mem_free(&l.annotations);
    return err;
}
