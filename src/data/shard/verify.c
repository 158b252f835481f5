/* SPDX-License-Identifier: MIT */
/* Checks one shard against its seal, its own table and the index, then each record against its hashes.
 * tools/pack/verify.c divides shards over the ranks. */
#include "data/shard/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "data/shard/h5.h"
#include "data/shard/notes.h"

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
static err_t compare_tables(const look_t *l, const h5_tree_t *tree, const seal_t *seal)
{
    shard_entry_t *entries = NULL;
    const shard_file_t *file = l->file;
    if (seal->plan != l->index->head->plan)
        RAISE(ERR_DATA, "the shard %s is intact, but belongs to another plan than " SHARD_INDEX_NAME,
              l->path);
    if (seal->n_bytes != file->n_bytes || seal->digest_high != file->digest_high ||
        seal->digest_low != file->digest_low)
        RAISE(ERR_DATA, "the shard %s is intact, but not the one in " SHARD_INDEX_NAME, l->path);
    TRY(mem_new_array(file->n_samples, sizeof *entries, "the records of a shard", &entries));
    err_t err = shard_h5_read(tree, "/records", SHARD_ENTRIES, file->n_samples, entries);
    if (err == ERR_OK && memcmp(entries, l->entries, (size_t)file->n_samples * sizeof *entries) != 0)
        err = err_raise(ERR_DATA, __FILE__, __LINE__,
                        "the records of the shard %s differ from " SHARD_INDEX_NAME, l->path);
    mem_free(&entries);
    return err;
}

static err_t look_at_file(const look_t *l)
{
    const seal_file_t sealed = {l->fd, l->path, "shard"};
    h5_tree_t tree;
    seal_t seal;
    err_t err = shard_h5_open(&tree, &sealed, &seal);
    if (err == ERR_OK) err = compare_tables(l, &tree, &seal);
    h5_tree_close(&tree);
    return err;
}

static err_t look_at_all(look_t *l)
{
    err_info_t whole;
    err_t err = look_at_file(l);
    if (err != ERR_OK && err != ERR_DATA) return err;
    err_take(err, &whole);
    for (int64_t i = 0; i < l->file->n_samples; i++) TRY(look_at_record(l, i));
    if (whole.code == ERR_OK) return ERR_OK;
    if (l->n_told == 0)
        look_tell(l, "%s; all its records are intact", whole.message);
    else
        look_tell(l, "%s", whole.message);
    return ERR_OK;
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
    err_t err = look_at_all(&l);
    close(l.fd);
    mem_free(&l.buffer);
    mem_free(&l.annotations);
    return err;
}
