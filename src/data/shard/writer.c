/* SPDX-License-Identifier: MIT */
/* Writes images as they arrive and lets HDF5 lay out the file at the end; if HDF5 places the images elsewhere, they are
 * moved. Recovers complete shards when interrupted packing resumes. tools/pack chooses the samples and their order. */
#include "data/shard/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "data/shard/h5.h"
#include "data/shard/shard.h"

/* EXPECTED_OFFSET is where HDF5 1.10 places a large first dataset. */
enum { EXPECTED_OFFSET = 16896, WRITEBACK_BYTES = 8 << 20, PIECE_BYTES = 1 << 20 };

struct shard_writer {
    shard_plan_t plan;
    char folder[FS_PATH_MAX];
    fs_temp_t temp;
    shard_file_t file;
    shard_entry_t *entries;
    shard_notes_t notes;
    annotation_t *annotations; /* scratch for reading back */
    int64_t n_added, n_images; /* samples; bytes of their images */
    int64_t n_begun;           /* bytes of images whose writeback has begun */
};

static err_t shard_path(const shard_plan_t *plan, char out[FS_PATH_MAX])
{
    char name[SHARD_NAME_MAX];
    shard_name(plan->split, plan->number, plan->n_shards, name);
    return fs_join(out, plan->folder, name);
}

err_t shard_create(const shard_plan_t *plan, shard_writer_t **out)
{
    shard_writer_t *w = NULL;
    char path[FS_PATH_MAX];
    ASSERT(plan->n_samples > 0 && plan->plan != 0);
    TRY(mem_new(sizeof *w, "a shard", &w));
    w->plan = *plan;
    w->temp.fd = -1;
    snprintf(w->folder, sizeof w->folder, "%s", plan->folder);
    w->plan.folder = w->folder;
    if (!w->plan.begin) w->plan.begin = EXPECTED_OFFSET;
    shard_name(plan->split, plan->number, plan->n_shards, w->file.name);
    w->file.first = plan->first;
    w->file.n_samples = plan->n_samples;
    err_t err = mem_new_array(plan->n_samples, sizeof *w->entries, "the records of a shard", &w->entries);
    if (err == ERR_OK) err = shard_path(plan, path);
    if (err == ERR_OK) err = fs_temp_open(&w->temp, "shard", path);
    if (err == ERR_OK)
        *out = w;
    else
        shard_discard(&w);
    return err;
}

void shard_discard(shard_writer_t **writer)
{
    shard_writer_t *w = *writer;
    if (!w) return;
    fs_temp_discard(&w->temp);
    mem_free(&w->entries);
    mem_free(&w->notes.block);
    mem_free(&w->annotations);
    mem_free(writer);
}

static err_t check_sample(const sample_t *sample)
{
    if (strlen(sample->name) >= FS_PATH_MAX)
        RAISE(ERR_DATA, "the name %.80s… is longer than %d bytes", sample->name, FS_PATH_MAX - 1);
    if (sample->n_bytes == 0 || !sample->bytes) RAISE(ERR_DATA, "the image %s is empty", sample->name);
    if (sample->n_bytes > SHARD_MAX_RECORD)
        RAISE(ERR_DATA, "the image %s has %zu bytes; the limit is %d", sample->name, sample->n_bytes,
              SHARD_MAX_RECORD);
    return ERR_OK;
}

err_t shard_add(shard_writer_t *w, const sample_t *sample)
{
    size_t at = w->notes.n_bytes;
    ASSERT(w->n_added < w->plan.n_samples);
    TRY(check_sample(sample));
    TRY(shard_notes_add(&w->notes, sample));
    size_t n_notes = w->notes.n_bytes - at;
    sample_t again; /* refuses notes that a reader would refuse */
    TRY(mem_grow((int64_t)shard_notes_most(n_notes), sizeof *w->annotations, "annotations of an image",
                 &w->annotations));
    err_t err = shard_notes_read(w->notes.block + at, n_notes, w->plan.n_categories, w->annotations, &again);
    if (err != ERR_OK) return err_context(err, "cannot pack the image %s", sample->name);
    TRY(fs_temp_write(&w->temp, w->plan.begin + w->n_images, sample->bytes, sample->n_bytes));
    w->entries[w->n_added++] = (shard_entry_t){
        .shard = (int32_t)w->plan.number,
        .label = sample->label,
        .offset = w->n_images, /* relative; shard_commit adds the first image's offset */
        .n_bytes = (int64_t)sample->n_bytes,
        .hash = XXH3_64bits(sample->bytes, sample->n_bytes),
        .notes_offset = (int64_t)at,
        .notes_bytes = (int64_t)n_notes,
        .notes_hash = XXH3_64bits(w->notes.block + at, n_notes),
        .width = sample->width,
        .height = sample->height,
        .id = sample->id,
    };
    w->n_images += (int64_t)sample->n_bytes;
    w->file.n_annotations += sample->n_annotations;
    for (int32_t i = 0; i < sample->n_annotations; i++) w->file.n_crowds += sample->annotations[i].crowd != 0;
    if (w->n_images - w->n_begun >= WRITEBACK_BYTES) { /* leaves little to the final fsync */
        sync_file_range(w->temp.fd, w->plan.begin + (off_t)w->n_begun, (off_t)(w->n_images - w->n_begun),
                        SYNC_FILE_RANGE_WRITE);
        w->n_begun = w->n_images;
    }
    return ERR_OK;
}

/* Moves the images to the offset `to`, starting from the end that is not overwritten, and clears or truncates
 * their old place, because HDF5 writes its own parts when the file is closed. */
static err_t move_images(shard_writer_t *w, int64_t to)
{
    const int64_t from = w->plan.begin, n_all = w->n_images;
    if (to == from) return ERR_OK;
    char *buffer = NULL;
    TRY(mem_new(PIECE_BYTES, "moving images", &buffer));
    err_t err = ERR_OK;
    for (int64_t done = 0; done < n_all && err == ERR_OK;) {
        int64_t n = n_all - done < PIECE_BYTES ? n_all - done : PIECE_BYTES,
                at = to > from ? n_all - done - n : done;
        int reason = fs_read_all(w->temp.fd, from + at, buffer, (size_t)n, NULL);
        if (reason)
            err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot read back the shard %s: %s", w->temp.path,
                            strerror(reason));
        if (err == ERR_OK) err = fs_temp_write(&w->temp, to + at, buffer, (size_t)n);
        done += n;
    }
    /* Clears the part of the old place that the new one leaves; nothing if that is below. */
    const int64_t end = to > from + n_all ? from + n_all : to;
    memset(buffer, 0, PIECE_BYTES);
    for (int64_t at = from; err == ERR_OK && at < end; at += PIECE_BYTES)
        err = fs_temp_write(&w->temp, at, buffer, (size_t)(end - at < PIECE_BYTES ? end - at : PIECE_BYTES));
    mem_free(&buffer);
    if (err == ERR_OK && to < from && ftruncate(w->temp.fd, (off_t)(to + n_all)) != 0)
        return fs_temp_fail(&w->temp, errno);
    return err;
}

err_t shard_commit(shard_writer_t *w)
{
    const h5_attr_t attrs[] = {h5_int("number", w->plan.number),
                               h5_int("n_shards", w->plan.n_shards),
                               h5_int("first", w->file.first),
                               h5_int("n_samples", w->file.n_samples),
                               h5_int("n_annotations", w->file.n_annotations),
                               h5_int("n_crowds", w->file.n_crowds),
                               h5_text("split", split_names[w->plan.split])};
    seal_t seal = {.schema = SHARD_SCHEMA, .plan = w->plan.plan};
    h5_file_t *f = NULL;
    int64_t images, notes;
    err_t err;
    ASSERT(w->n_added == w->plan.n_samples);
    TRY_OUT(err, h5_file_create(&(seal_file_t){w->temp.fd, w->temp.path, "shard"}, &seal, &f));
    TRY_OUT(err, shard_h5_make(f, "/pictures", SHARD_BYTES, w->n_images, NULL, &images));
    TRY_OUT(err,
            shard_h5_make(f, "/annotations", SHARD_BYTES, (int64_t)w->notes.n_bytes, w->notes.block, &notes));
    TRY_OUT(err, shard_h5_make(f, "/records", SHARD_ENTRIES, w->n_added, w->entries, NULL));
    for (size_t i = 0; i < sizeof attrs / sizeof attrs[0]; i++) TRY_OUT(err, h5_file_put_attr(f, &attrs[i]));
    TRY_OUT(err, move_images(w, images));
    for (int64_t i = 0; i < w->n_added; i++) {
        w->entries[i].offset += images;
        w->entries[i].notes_offset += notes;
    }
out:
    TRY(h5_file_close(&f, err, &seal));
    w->file.n_bytes = seal.n_bytes;
    w->file.digest_high = seal.digest_high;
    w->file.digest_low = seal.digest_low;
    return fs_temp_commit(&w->temp);
}

const shard_file_t *shard_written_file(const shard_writer_t *w)
{
    return &w->file;
}

const shard_entry_t *shard_written_entries(const shard_writer_t *w)
{
    return w->entries;
}

err_t shard_temp_path(const shard_plan_t *plan, char out[FS_PATH_MAX])
{
    char path[FS_PATH_MAX], folder[FS_PATH_MAX];
    TRY(shard_path(plan, path));
    return fs_temp_path(path, folder, out);
}

static err_t open_shard(const shard_plan_t *plan, char path[FS_PATH_MAX], int *fd)
{
    TRY(shard_path(plan, path));
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) RAISE(seal_errno_code(errno), "cannot open the shard %s: %s", path, strerror(errno));
    return ERR_OK;
}

bool shard_is_done(const shard_plan_t *plan)
{
    char path[FS_PATH_MAX];
    int fd;
    seal_t seal;
    if (open_shard(plan, path, &fd) != ERR_OK) return false;
    const seal_file_t sealed = {fd, path, "shard"};
    bool done = seal_look(&sealed, &seal) == ERR_OK && seal.schema == SHARD_SCHEMA && seal.plan == plan->plan;
    close(fd);
    return done;
}

err_t shard_load(const shard_plan_t *plan, shard_file_t *file, shard_entry_t *entries)
{
    const struct {
        const char *name;
        int64_t value;
    } wanted[] = {{"number", plan->number},
                  {"n_shards", plan->n_shards},
                  {"first", plan->first},
                  {"n_samples", plan->n_samples}};
    char path[FS_PATH_MAX];
    const char *split;
    int fd;
    h5_contents_t c;
    TRY(open_shard(plan, path, &fd));
    err_t err = ERR_OK;
    TRY_OUT(err, h5_contents_open(&c, &(seal_file_t){fd, path, "shard"}, SHARD_SCHEMA, SHARD_EARLIER));
    const seal_t seal = c.seal;
    if (seal.plan != plan->plan)
        RAISE_OUT(err, ERR_DATA, "the shard %s belongs to another plan: %016" PRIx64 ", not %016" PRIx64,
                  path, seal.plan, plan->plan);
    /* The file must be the part of the plan that its name indicates. */
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int64_t value;
        TRY_OUT(err, h5_contents_int(&c, wanted[i].name, &value));
        if (value != wanted[i].value)
            RAISE_OUT(err, ERR_DATA, "the shard %s has %s %" PRId64 "; expected %" PRId64, path,
                      wanted[i].name, value, wanted[i].value);
    }
    TRY_OUT(err, h5_contents_text(&c, "split", &split));
    if (strcmp(split, split_names[plan->split]) != 0)
        RAISE_OUT(err, ERR_DATA, "the shard %s has split %s; expected %s", path, split,
                  split_names[plan->split]);
    *file = (shard_file_t){.first = plan->first,
                           .n_samples = plan->n_samples,
                           .n_bytes = seal.n_bytes,
                           .digest_high = seal.digest_high,
                           .digest_low = seal.digest_low};
    shard_name(plan->split, plan->number, plan->n_shards, file->name);
    TRY_OUT(err, h5_contents_int(&c, "n_annotations", &file->n_annotations));
    TRY_OUT(err, h5_contents_int(&c, "n_crowds", &file->n_crowds));
    err = shard_h5_read(&c, "/records", SHARD_ENTRIES, plan->n_samples, entries);
out:
    h5_contents_close(&c);
    close(fd);
    return err;
}
