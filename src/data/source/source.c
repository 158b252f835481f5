#include "data/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/xxh3.h"
#include "data/image/image.h"
#include "data/source/parts.h"

const char *const source_split_words[SPLIT_COUNT] = {"train", "val"};

/* Shards are first, as their files are known by name. The folder of classes is last: the others have folders in them, too.
 */
static const source_ops_t *const kinds[] = {&source_shards, &source_coco, &source_idx, &source_folder};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static err_t find_kind(const char *path, const source_ops_t **out)
{
    if (!fs_is_folder(path))
        RAISE(ERR_DATA, "%s: %s", path, fs_exists(path) ? "this is not a folder" : "there is no such folder");
    for (int i = 0; i < N_KINDS; i++) {
        if (!kinds[i]->is(path)) continue;
        *out = kinds[i];
        return ERR_OK;
    }
    char wanted[512] = "";
    for (int i = 0; i < N_KINDS; i++) {
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s %s", i ? ";" : "", kinds[i]->what);
    }
    RAISE(ERR_DATA, "%s holds no pictures that can be read. Wanted is one of:%s", path, wanted);
}

const source_ops_t *source_kind(const char *name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->kind, name) == 0) return kinds[i];
    return NULL;
}

err_t source_alive(const source_t *source)
{
    return source->watch ? source->watch->alive(source->watch->context) : ERR_OK;
}

/* Each part is hashed with the hash of those before it as the seed. */
static uint64_t hash_part(const void *part, size_t n_bytes, uint64_t before)
{
    return XXH3_64bits_withSeed(part, n_bytes, before);
}

static uint64_t hash_text(const char *text, uint64_t before)
{
    return hash_part(text, strlen(text) + 1, before);
}

static uint64_t hash_annotation(const annotation_t *a, uint64_t hash)
{
    int64_t n_points = 0;
    const int64_t counts[] = {a->id, a->category, a->crowd, a->outline, a->n_polygons, a->n_runs};
    const double reals[] = {a->area, a->box[0], a->box[1], a->box[2], a->box[3]};
    hash = hash_part(counts, sizeof counts, hash);
    hash = hash_part(reals, sizeof reals, hash);
    for (int32_t i = 0; i < a->n_polygons; i++) n_points += a->n_points[i];
    if (a->n_polygons) hash = hash_part(a->n_points, (size_t)a->n_polygons * sizeof *a->n_points, hash);
    if (n_points) hash = hash_part(a->points, (size_t)n_points * 2 * sizeof *a->points, hash);
    if (a->n_runs) hash = hash_part(a->runs, (size_t)a->n_runs * sizeof *a->runs, hash);
    return hash;
}

static uint64_t hash_sample(const sample_t *sample, uint64_t hash)
{
    const int64_t numbers[] = {sample->id, (int64_t)sample->n_bytes, sample->label, sample->n_annotations};
    hash = hash_part(numbers, sizeof numbers, hash_text(sample->name, hash));
    for (int32_t i = 0; i < sample->n_annotations; i++) hash = hash_annotation(&sample->annotations[i], hash);
    return hash;
}

static err_t measure_hash(source_t *source)
{
    err_t err = ERR_OK;
    source_buffer_t buffer = {0};
    const int64_t sizes[] = {source->n_samples[SPLIT_TRAIN], source->n_samples[SPLIT_VAL],
                             source->n_categories, source->has_annotations};
    uint64_t hash = hash_part(sizes, sizeof sizes, 0);
    for (int32_t i = 0; i < source->n_categories; i++) {
        const category_t *category = &source->categories[i];
        hash = hash_part(&category->id, sizeof category->id, hash);
        hash = hash_text(category->supergroup, hash_text(category->name, hash));
    }
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            sample_t sample;
            TRY_OUT(err, source_alive(source));
            TRY_OUT(err, source_describe(source, split, i, &buffer, &sample));
            hash = hash_sample(&sample, hash);
        }
    source->hash = hash;
out:
    source_free_buffer(source, &buffer);
    return err;
}

err_t source_open(const char *path, source_t **out)
{
    return source_open_watched(path, NULL, out);
}

err_t source_open_watched(const char *path, const open_watch_t *watch, source_t **out)
{
    const source_ops_t *kind = NULL;
    source_t *source = NULL;
    err_t err = ERR_OK;
    TRY(find_kind(path, &kind));
    TRY(mem_new(sizeof *source, "a source of pictures", &source));
    source->ops = kind;
    source->watch = watch;
    TRY_OUT(err, fs_join(source->path, "", path));
    TRY_OUT(err, kind->open(source, path));
    if (!source->hash) TRY_OUT(err, measure_hash(source));
    source->watch = NULL;
    *out = source;
    return ERR_OK;
out:
    source_close(&source);
    return err;
}

err_t source_classes(const char *path, split_t split, char out[FS_PATH_MAX])
{
    const source_ops_t *kind = NULL;
    out[0] = '\0';
    TRY(find_kind(path, &kind));
    return kind->classes ? kind->classes(path, split, out) : ERR_OK;
}

void source_close(source_t **source)
{
    if (!*source) return;
    (*source)->ops->close(*source);
    mem_free(source);
}

err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out)
{
    ASSERT(index >= 0 && index < source->n_samples[split]);
    return source->ops->read(source, split, index, buffer, out);
}

err_t source_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out)
{
    ASSERT(index >= 0 && index < source->n_samples[split]);
    return (source->ops->describe ? source->ops->describe : source->ops->read)(source, split, index, buffer,
                                                                               out);
}

void source_free_buffer(const source_t *source, source_buffer_t *buffer)
{
    if (source->ops->free_buffer) source->ops->free_buffer(buffer);
    mem_free(&buffer->block);
    *buffer = (source_buffer_t){0};
}

void source_note(source_t *source, const char *format, ...)
{
    size_t used = strlen(source->notes), room = sizeof source->notes - used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(source->notes + used, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n + 2 > room)
        source->notes[used] = '\0';
    else
        memcpy(source->notes + used + n, "\n", 2);
}

void source_warn_notes(const source_t *source)
{
    for (const char *line = source->notes; *line;) {
        int n = (int)strcspn(line, "\n");
        if (n > 0) log_warn("%.*s", n, line);
        line += n + (line[n] == '\n');
    }
}

err_t source_reserve(source_buffer_t *buffer, size_t n_bytes)
{
    if (n_bytes <= buffer->n_bytes) return ERR_OK;
    mem_free(&buffer->block);
    buffer->n_bytes = 0;
    /* Some more: pictures differ in size, and few of them are to be larger than all before. */
    size_t room = n_bytes + n_bytes / 4;
    TRY(mem_new(room, "a compressed picture", &buffer->block));
    buffer->n_bytes = room;
    return ERR_OK;
}

bool source_name_is_clean(const char *name)
{
    for (size_t n; *name; name += n) {
        n = utf8_length(name);
        if (n == 0 || utf8_is_control(name, n)) return false;
    }
    return true;
}

static err_t check_file(const char *folder, const char *name, const struct stat *info)
{
    if (!S_ISREG(info->st_mode)) RAISE(ERR_DATA, "%s/%s is not a regular file", folder, name);
    if (info->st_size > SOURCE_MAX_PICTURE)
        RAISE(ERR_DATA, "%s/%s has %lld bytes; a picture may have up to %d", folder, name,
              (long long)info->st_size, SOURCE_MAX_PICTURE);
    return ERR_OK;
}

err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes)
{
    struct stat info;
    *found = fstatat(folder_fd, name, &info, 0) == 0;
    if (!*found && errno == ENOENT) return ERR_OK;
    if (!*found) RAISE(ERR_DATA, "%s/%s cannot be reached: %s", folder, name, strerror(errno));
    TRY(check_file(folder, name, &info));
    *n_bytes = info.st_size;
    return ERR_OK;
}

static err_t read_bytes(int fd, const char *path, uint8_t *out, int64_t n_bytes)
{
    for (int64_t got = 0; got < n_bytes;) {
        ssize_t n = read(fd, out + got, (size_t)(n_bytes - got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) RAISE(ERR_SYSTEM, "%s: reading failed: %s", path, strerror(errno));
        if (n == 0) RAISE(ERR_DATA, "%s ends after %" PRId64 " of %" PRId64 " bytes", path, got, n_bytes);
        got += n;
    }
    return ERR_OK;
}

static err_t read_file(const char *folder, source_buffer_t *buffer, sample_t *sample, char *path)
{
    struct stat info;
    err_t err = ERR_OK;
    TRY(fs_join(path, folder, sample->name));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(ERR_DATA, "%s cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "%s: fstat failed: %s", path, strerror(errno));
    TRY_OUT(err, check_file(folder, sample->name, &info));
    if (info.st_size != (int64_t)sample->n_bytes)
        RAISE_OUT(err, ERR_DATA, "%s has %lld bytes now; it had %zu when the folder was opened", path,
                  (long long)info.st_size, sample->n_bytes);
    TRY_OUT(err, source_reserve(buffer, sample->n_bytes));
    TRY_OUT(err, read_bytes(fd, path, buffer->block, (int64_t)sample->n_bytes));
    sample->bytes = buffer->block;
out:
    close(fd);
    return err;
}

err_t source_load(const char *folder, source_buffer_t *buffer, sample_t *sample)
{
    char path[FS_PATH_MAX];
    image_info_t info;
    TRY(read_file(folder, buffer, sample, path));
    TRY(image_info((image_bytes_t){path, sample->bytes, sample->n_bytes}, &info));
    if (info.stored_width > INT32_MAX || info.stored_height > INT32_MAX)
        RAISE(ERR_DATA, "%s says that it is %" PRId64 " × %" PRId64 " pixels", path, info.stored_width,
              info.stored_height);
    if (sample->width && (sample->width != info.stored_width || sample->height != info.stored_height))
        RAISE(ERR_DATA, "%s is %" PRId64 " × %" PRId64 " pixels, but its annotations are of one of %d × %d",
              path, info.stored_width, info.stored_height, sample->width, sample->height);
    sample->width = (int32_t)info.stored_width;
    sample->height = (int32_t)info.stored_height;
    return ERR_OK;
}
