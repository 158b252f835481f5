/* SPDX-License-Identifier: MIT */
/* What all kinds of sources share: calls to the kind, notes to the user, buffers and files, in which pixels boxes of images
 * with an EXIF orientation are given, and the hash of a source without a stored one. registry.c lists the kinds. */
#include "data/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/source/parts.h"

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

err_t source_info(const sample_t *sample, const char *name, image_info_t *out)
{
    TRY(image_info((image_bytes_t){name, sample->bytes, sample->n_bytes}, out));
    if (!sample->shown) return ERR_OK;
    out->stored_width = out->width;
    out->stored_height = out->height;
    out->orientation = 1;
    return ERR_OK;
}

void source_free_buffer(const source_t *source, source_buffer_t *buffer)
{
    if (source->ops->free_buffer) source->ops->free_buffer(buffer);
    mem_free(&buffer->block);
    *buffer = (source_buffer_t){0};
}

void source_warn_notes(const source_t *source)
{
    int n;
    for (const char *rest = source->notes, *line; (line = print_next_line(&rest, &n));)
        if (n > 0) log_warn("%.*s", n, line);
}

int64_t source_stored_bytes(const source_t *source, const source_entry_t *entry)
{
    return source->ops->raw ? (int64_t)entry->width * entry->height : entry->n_bytes;
}

err_t source_alive(const source_t *source)
{
    return source->watch ? source->watch->alive(source->watch->context) : ERR_OK;
}

/* Appends a line with the given end, or drops it if it does not fit. */
static void parts_add_line(char *text, size_t n_bytes, const char *end, const char *format, va_list args)
{
    const size_t used = strlen(text), room = n_bytes - used;
    int n = vsnprintf(text + used, room, format, args);
    if (n < 0 || (size_t)n + strlen(end) + 1 > room)
        text[used] = '\0';
    else
        memcpy(text + used + n, end, strlen(end) + 1);
}

void source_note(source_t *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    parts_add_line(source->notes, sizeof source->notes, "\n", format, args);
    va_end(args);
}

void source_tell(source_t *source, const char *format, ...)
{
    char line[SOURCE_ABOUT_MAX] = "";
    va_list args;
    va_start(args, format);
    parts_add_line(line, sizeof line, "", format, args);
    va_end(args);
    folder_mask_line(line);
    const size_t used = strlen(source->about);
    if (used + strlen(line) + 2 > sizeof source->about) return;
    snprintf(source->about + used, sizeof source->about - used, "%s%s", used ? "\n" : "", line);
}

err_t source_reserve(source_buffer_t *buffer, size_t n_bytes)
{
    if (n_bytes <= buffer->n_bytes) return ERR_OK;
    mem_free(&buffer->block);
    buffer->n_bytes = 0;
    size_t room = n_bytes + n_bytes / 4; /* so that few later images exceed it */
    TRY(mem_new(room, "a compressed image", &buffer->block));
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
    if (info->st_size > SOURCE_MAX_IMAGE)
        RAISE(ERR_DATA, "%s/%s has %lld bytes; the limit for an image is %d", folder, name,
              (long long)info->st_size, SOURCE_MAX_IMAGE);
    return ERR_OK;
}

err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes,
                  int64_t *time_ns)
{
    struct stat info;
    *found = fstatat(folder_fd, name, &info, 0) == 0;
    if (!*found && errno == ENOENT) return ERR_OK;
    if (!*found) RAISE(ERR_DATA, "cannot access %s/%s: %s", folder, name, strerror(errno));
    TRY(check_file(folder, name, &info));
    *n_bytes = info.st_size;
    *time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    return ERR_OK;
}

/* Up to `most` bytes of the file. */
static err_t parts_read_file(const char *folder, size_t most, source_buffer_t *buffer, sample_t *sample,
                             char *path)
{
    struct stat info;
    err_t err = ERR_OK;
    const size_t n = sample->n_bytes < most ? sample->n_bytes : most;
    TRY(fs_join(path, folder, sample->name));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(ERR_DATA, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "%s: fstat failed: %s", path, strerror(errno));
    TRY_OUT(err, check_file(folder, sample->name, &info));
    if (info.st_size != (int64_t)sample->n_bytes)
        RAISE_OUT(err, ERR_DATA, "%s changed: it has %lld bytes, but had %zu when the folder was opened",
                  path, (long long)info.st_size, sample->n_bytes);
    TRY_OUT(err, source_reserve(buffer, n));
    size_t n_read;
    int reason = fs_read_all(fd, FS_HERE, buffer->block, n, &n_read);
    if (reason) RAISE_OUT(err, ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
    if (n_read < n) RAISE_OUT(err, ERR_DATA, "%s ends after %zu of %zu bytes", path, n_read, n);
    sample->bytes = buffer->block;
out:
    close(fd);
    return err;
}

/* For which pixels the size of an image in its list is: LIST_BOXES_AUTO, if it is the same as stored and as shown;
 * LIST_BOXES_COUNT, if it is neither. */
static list_boxes_t parts_boxes(const sample_t *sample, const image_info_t *info)
{
    const bool stored = sample->width == info->stored_width && sample->height == info->stored_height,
               shown = sample->width == info->width && sample->height == info->height;
    return stored && shown ? LIST_BOXES_AUTO
           : stored        ? LIST_BOXES_STORED
           : shown         ? LIST_BOXES_SHOWN
                           : LIST_BOXES_COUNT;
}

static err_t parts_take_boxes(const source_boxes_t *boxes, const char *path, const image_info_t *info,
                              sample_t *sample)
{
    const list_boxes_t told = parts_boxes(sample, info);
    if (told == LIST_BOXES_COUNT) {
        char as_shown[64] = "";
        if (info->width != info->stored_width)
            snprintf(as_shown, sizeof as_shown, " (%" PRId64 " × %" PRId64 " as shown)", info->width,
                     info->height);
        RAISE(ERR_DATA,
              "%s is %" PRId64 " × %" PRId64
              " pixels%s, but its annotations are for %d × %d; scale them, or put back the image that was "
              "annotated",
              path, info->stored_width, info->stored_height, as_shown, sample->width, sample->height);
    }
    const bool shown = told == LIST_BOXES_AUTO ? boxes->shown : told == LIST_BOXES_SHOWN;
    if (boxes->forced && shown != boxes->shown)
        RAISE(
            ERR_DATA,
            "%s has an EXIF orientation, and its size in the list, %d × %d, is the one as %s, but --exif-boxes is "
            "%s; use --exif-boxes %s, or leave it out to go by the images' sizes",
            path, sample->width, sample->height, list_boxes[told],
            list_boxes[boxes->shown ? LIST_BOXES_SHOWN : LIST_BOXES_STORED], list_boxes[told]);
    sample->shown = shown && info->orientation != 1;
    return ERR_OK;
}

err_t source_check_file(const char *folder, const char *name, int64_t n_bytes)
{
    char path[FS_PATH_MAX];
    struct stat info;
    TRY(fs_join(path, folder, name));
    if (stat(path, &info) != 0)
        RAISE(
            ERR_DATA,
            "cannot access %s on this host: %s; rank 0 found it, and every host needs the same files at the "
            "same path",
            path, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size != n_bytes)
        RAISE(ERR_DATA,
              "%s has %lld bytes on this host, but %" PRId64 " on rank 0's; every host needs the same files",
              path, (long long)info.st_size, n_bytes);
    return ERR_OK;
}

err_t source_load(const source_t *source, const char *folder, source_buffer_t *buffer, sample_t *sample)
{
    char path[FS_PATH_MAX];
    image_info_t info;
    TRY(parts_read_file(folder, SIZE_MAX, buffer, sample, path));
    TRY(image_info((image_bytes_t){path, sample->bytes, sample->n_bytes}, &info));
    if (info.stored_width > INT32_MAX || info.stored_height > INT32_MAX)
        RAISE(ERR_DATA, "%s is too large: %" PRId64 " × %" PRId64 " pixels", path, info.stored_width,
              info.stored_height);
    if (sample->width) return parts_take_boxes(&source->boxes, path, &info, sample);
    sample->width = (int32_t)info.stored_width;
    sample->height = (int32_t)info.stored_height;
    return ERR_OK;
}

/* Reads an image's headers: from its first bytes, and only if they do not suffice from all. An orientation behind the
 * first bytes of a PNG is not seen. */
static err_t parts_look(const char *folder, source_buffer_t *buffer, sample_t *sample, char *path,
                        image_info_t *info)
{
    enum { FIRST_BYTES = 64 << 10 };
    TRY(parts_read_file(folder, FIRST_BYTES, buffer, sample, path));
    const bool whole = sample->n_bytes <= FIRST_BYTES;
    const err_t err =
        image_info((image_bytes_t){path, sample->bytes, whole ? sample->n_bytes : FIRST_BYTES}, info);
    if (err != ERR_DATA || whole) return err;
    TRY(parts_read_file(folder, SIZE_MAX, buffer, sample, path));
    return image_info((image_bytes_t){path, sample->bytes, sample->n_bytes}, info);
}

typedef struct looks {
    int32_t n, n_turned,
        n_told[LIST_BOXES_COUNT]; /* looked at; with an orientation; of these by what their size tells */
} looks_t;

static err_t parts_look_at_split(source_t *source, split_t split, const char *folder, source_buffer_t *buffer,
                                 looks_t *looks)
{
    enum { MOST = 64 };
    const int64_t n_all = source->n_samples[split], n = n_all < MOST ? n_all : MOST;
    for (int64_t i = 0; i < n; i++) {
        char path[FS_PATH_MAX];
        sample_t sample;
        image_info_t info;
        TRY(source_alive(source));
        TRY(source_describe(source, split, i * n_all / n, buffer, &sample));
        err_t err = parts_look(folder, buffer, &sample, path, &info);
        if (err == ERR_DATA) continue;
        TRY(err);
        looks->n++;
        const list_boxes_t told = parts_boxes(&sample, &info);
        if (info.orientation == 1 || told == LIST_BOXES_COUNT) continue;
        TRY(parts_take_boxes(&source->boxes, path, &info, &sample));
        looks->n_turned++;
        looks->n_told[told]++;
    }
    return ERR_OK;
}

static void parts_tell_boxes(source_t *source, const looks_t *looks)
{
    const char *usual = source->boxes.shown ? "shown" : "stored";
    const int32_t n_stored = looks->n_told[LIST_BOXES_STORED], n_shown = looks->n_told[LIST_BOXES_SHOWN];
    char what[160];
    if (n_stored && n_shown)
        snprintf(what, sizeof what, "by their sizes %d as shown and %d as stored, others as stored", n_shown,
                 n_stored);
    else
        snprintf(what, sizeof what, "as %s (%s)", usual,
                 source->boxes.forced  ? "--exif-boxes"
                 : n_stored || n_shown ? "by their sizes"
                                       : "their sizes do not tell; --exif-boxes decides");
    source_tell(source, "EXIF: %d of %d image%s looked at %s turned; boxes %s", looks->n_turned, looks->n,
                looks->n == 1 ? "" : "s", looks->n_turned == 1 ? "is" : "are", what);
}

err_t source_look_at_boxes(source_t *source, const char *const folders[SPLIT_COUNT])
{
    const list_boxes_t rule = source->rules ? source->rules->boxes : LIST_BOXES_AUTO;
    source_buffer_t buffer = {0};
    looks_t looks = {0};
    err_t err = ERR_OK;
    source->boxes = (source_boxes_t){.shown = rule == LIST_BOXES_SHOWN, .forced = rule != LIST_BOXES_AUTO};
    for (split_t split = 0; err == ERR_OK && split < SPLIT_COUNT; split++)
        if (folders[split] && source->n_samples[split] > 0)
            err = parts_look_at_split(source, split, folders[split], &buffer, &looks);
    source_free_buffer(source, &buffer);
    TRY(err);
    source->boxes.n_shown = looks.n_told[LIST_BOXES_SHOWN];
    if (rule == LIST_BOXES_AUTO)
        source->boxes.shown = looks.n_told[LIST_BOXES_SHOWN] > 0 && looks.n_told[LIST_BOXES_STORED] == 0;
    if (looks.n_turned > 0) parts_tell_boxes(source, &looks);
    return ERR_OK;
}

/* Seeds each part's hash with that of the preceding parts. */
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
    const int64_t counts[] = {a->id, a->category, a->crowd, a->segmentation, a->n_polygons, a->n_runs};
    const double reals[] = {a->area, a->box[0], a->box[1], a->box[2], a->box[3]};
    hash = hash_part(counts, sizeof counts, hash);
    hash = hash_part(reals, sizeof reals, hash);
    for (int32_t i = 0; i < a->n_polygons; i++) n_points += a->n_points[i];
    if (a->n_polygons) hash = hash_part(a->n_points, (size_t)a->n_polygons * sizeof *a->n_points, hash);
    if (n_points) hash = hash_part(a->points, (size_t)n_points * 2 * sizeof *a->points, hash);
    if (a->n_runs) hash = hash_part(a->runs, (size_t)a->n_runs * sizeof *a->runs, hash);
    return hash;
}

err_t source_measure_hash(source_t *source)
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
            const int64_t numbers[] = {sample.id, (int64_t)sample.n_bytes, sample.label,
                                       sample.n_annotations};
            hash = hash_part(numbers, sizeof numbers, hash_text(sample.name, hash));
            for (int32_t k = 0; k < sample.n_annotations; k++)
                hash = hash_annotation(&sample.annotations[k], hash);
        }
    const int64_t boxes[] = {source->boxes.shown, source->boxes.n_shown};
    if (boxes[0] || boxes[1]) hash = hash_part(boxes, sizeof boxes, hash);
    source->hash = hash;
out:
    source_free_buffer(source, &buffer);
    return err;
}
