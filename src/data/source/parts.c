/* SPDX-License-Identifier: MIT */
/* What the kinds of sources share: calls to the kind, lists of images, notes to the user, buffers and files, in which pixels boxes of images
 * with an EXIF orientation are given, training samples that validate, the hash of a source without a stored one, and the
 * relocatable block of a source that is a list of images, whose lengths and indices are checked when it is restored.
 * registry.c lists the kinds. */
#include "data/source/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

void source_close(source_t **source)
{
    source_t *s = *source;
    if (!s) return;
    if (s->ops->close) s->ops->close(s);
    for (split_t split = 0; split < SPLIT_COUNT && !s->block; split++) {
        mem_free(&s->samples[split]);
        mem_free(&s->entries[split]);
    }
    mem_free(&s->block);
    arena_free(&s->arena);
    mem_free(source);
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

/* Makes room for n_bytes and discards the buffer's content. */
static err_t source_reserve(source_buffer_t *buffer, size_t n_bytes)
{
    if (n_bytes <= buffer->n_bytes) return ERR_OK;
    mem_free(&buffer->block);
    buffer->n_bytes = 0;
    size_t room = n_bytes + n_bytes / 4; /* so that few later images exceed it */
    TRY(mem_new(room, "a compressed image", &buffer->block));
    buffer->n_bytes = room;
    return ERR_OK;
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

/* Reads a file of sample->n_bytes. Sets the sample's width and height, or if they are not 0, compares them and sets
 * `shown`. */
static err_t parts_load(const source_t *source, const char *folder, source_buffer_t *buffer, sample_t *sample)
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

err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out)
{
    ASSERT(index >= 0 && index < source->n_samples[split]);
    if (source->ops->read) return source->ops->read(source, split, index, buffer, out);
    *out = source->samples[split][index];
    return out->bytes ? ERR_OK : parts_load(source, source->folders[split], buffer, out);
}

err_t source_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out)
{
    const source_ops_t *ops = source->ops;
    ASSERT(index >= 0 && index < source->n_samples[split]);
    if (ops->read) return (ops->describe ? ops->describe : ops->read)(source, split, index, buffer, out);
    *out = source->samples[split][index];
    out->bytes = NULL;
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

err_t source_look_at_boxes(source_t *source)
{
    const list_boxes_t rule = source->rules ? source->rules->boxes : LIST_BOXES_AUTO;
    enum { MOST = 64 };
    source_buffer_t buffer = {0};
    /* Looked at; with an orientation; of these by what their size tells. */
    int32_t n_looked = 0, n_turned = 0, n_told[LIST_BOXES_COUNT] = {0};
    err_t err = ERR_OK;
    source->boxes = (source_boxes_t){.shown = rule == LIST_BOXES_SHOWN, .forced = rule != LIST_BOXES_AUTO};
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n_all = source->n_samples[split], n = n_all < MOST ? n_all : MOST;
        for (int64_t i = 0; i < n; i++) {
            char path[FS_PATH_MAX];
            sample_t sample;
            image_info_t info;
            TRY_OUT(err, source_alive(source));
            TRY_OUT(err, source_describe(source, split, i * n_all / n, &buffer, &sample));
            err = parts_look(source->folders[split], &buffer, &sample, path, &info);
            if (err == ERR_DATA) {
                err = ERR_OK;
                continue;
            }
            if (err != ERR_OK) goto out;
            n_looked++;
            const list_boxes_t told = parts_boxes(&sample, &info);
            if (info.orientation == 1 || told == LIST_BOXES_COUNT) continue;
            TRY_OUT(err, parts_take_boxes(&source->boxes, path, &info, &sample));
            n_turned++;
            n_told[told]++;
        }
    }
    source->boxes.n_shown = n_told[LIST_BOXES_SHOWN];
    if (rule == LIST_BOXES_AUTO)
        source->boxes.shown = n_told[LIST_BOXES_SHOWN] > 0 && n_told[LIST_BOXES_STORED] == 0;
    if (n_turned == 0) goto out;
    const int32_t n_stored = n_told[LIST_BOXES_STORED], n_shown = n_told[LIST_BOXES_SHOWN];
    char what[160];
    if (n_stored && n_shown)
        snprintf(what, sizeof what, "by their sizes %d as shown and %d as stored, others as stored", n_shown,
                 n_stored);
    else
        snprintf(what, sizeof what, "as %s (%s)", source->boxes.shown ? "shown" : "stored",
                 source->boxes.forced  ? "--exif-boxes"
                 : n_stored || n_shown ? "by their sizes"
                                       : "their sizes do not tell; --exif-boxes decides");
    source_tell(source, "EXIF: %d of %d image%s looked at %s turned; boxes %s", n_turned, n_looked,
                n_looked == 1 ? "" : "s", n_turned == 1 ? "is" : "are", what);
out:
    source_free_buffer(source, &buffer);
    return err;
}

static int64_t count_points(const annotation_t *a)
{
    int64_t n = 0;
    for (int32_t i = 0; i < a->n_polygons; i++) n += a->n_points[i];
    return n;
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
    const int64_t n_points = count_points(a);
    const int64_t counts[] = {a->id, a->category, a->crowd, a->segmentation, a->n_polygons, a->n_runs};
    const double reals[] = {a->area, a->box[0], a->box[1], a->box[2], a->box[3]};
    hash = hash_part(counts, sizeof counts, hash);
    hash = hash_part(reals, sizeof reals, hash);
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

/* A training sample with its random number. */
typedef struct draw {
    int32_t label;
    uint64_t number;
    int64_t index;
} draw_t;

static int compare_draws(const void *a, const void *b)
{
    const draw_t *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Of n samples of a class: at least one validates, and one trains. */
static int64_t count_held_out(int64_t n, double share)
{
    const int64_t most = n - 1, wanted = llround(share * (double)n);
    if (most < 1) return 0;
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

/* Marks the samples that validate. Images without labels, as those of lists of objects, are one class. */
static err_t draw_holdout(const source_t *source, const holdout_t *holdout, bool *held, int64_t *n_held)
{
    const int64_t n = source->n_samples[SPLIT_TRAIN];
    const uint64_t key = rng_key((uint64_t)holdout->seed, RNG_HOLDOUT);
    draw_t *draws = NULL;
    TRY(mem_new_array(n, sizeof *draws, "a list of images", &draws));
    for (int64_t i = 0; i < n; i++) {
        const rng_block_t b = rng_philox(key, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
        draws[i] = (draw_t){source->entries[SPLIT_TRAIN][i].label, (uint64_t)b.word[0] << 32 | b.word[1], i};
    }
    qsort(draws, (size_t)n, sizeof *draws, compare_draws);
    for (int64_t from = 0, to = 0; from < n; from = to) {
        while (to < n && draws[to].label == draws[from].label) to++;
        const int64_t n_class = count_held_out(to - from, holdout->share);
        for (int64_t i = from; i < from + n_class; i++) held[draws[i].index] = true;
        *n_held += n_class;
    }
    mem_free(&draws);
    return ERR_OK;
}

err_t source_hold_out(source_t *source, const holdout_t *holdout)
{
    const int64_t n = source->n_samples[SPLIT_TRAIN];
    sample_t **samples = source->samples;
    source_entry_t **entries = source->entries;
    bool *held = NULL;
    int64_t n_held = 0, n_moved = 0;
    err_t err = ERR_OK;
    if (source->n_samples[SPLIT_VAL] > 0 || !samples[SPLIT_TRAIN]) {
        if (!holdout->required) return ERR_OK;
        if (source->n_samples[SPLIT_VAL] == 0)
            RAISE(
                ERR_USAGE,
                "--val-split: %s holds shards, which keep the parts that they were packed with; pack the images again "
                "with data pack --val-split %g",
                source->path, holdout->share);
        const char *folder = source->folders[SPLIT_VAL];
        RAISE(ERR_USAGE,
              "--val-split: %s has validation images of its own%s%s; omit the option, or move them away",
              source->path, folder[0] ? ", in " : "", folder);
    }
    TRY_OUT(err, mem_new_array(n, sizeof *held, "a list of images", &held));
    TRY_OUT(err, draw_holdout(source, holdout, held, &n_held));
    if (n_held == 0 && !holdout->required) goto out;
    if (n_held == 0)
        RAISE_OUT(err, ERR_DATA,
                  "--val-split: no class of %s has two images, one to train on and one to validate",
                  source->path);
    TRY_OUT(err, source_list_new(source, SPLIT_VAL, n_held));
    for (int64_t i = 0; i < n; i++) {
        const split_t to = held[i] ? SPLIT_VAL : SPLIT_TRAIN;
        const int64_t at = held[i] ? n_moved++ : i - n_moved;
        samples[to][at] = samples[SPLIT_TRAIN][i];
        entries[to][at] = entries[SPLIT_TRAIN][i];
    }
    source->n_samples[SPLIT_TRAIN] = n - n_held;
    memcpy(source->folders[SPLIT_VAL], source->folders[SPLIT_TRAIN], FS_PATH_MAX);
    source_tell(source,
                "validation: %" PRId64 " of the %" PRId64
                " training images, %g %% of %s (--val-split, --seed %" PRId64 ")",
                n_held, n, 100 * holdout->share, source->has_annotations ? "them" : "each class",
                holdout->seed);
out:
    mem_free(&held);
    return err;
}

/* The head of the block; the counted elements follow in the order of parts_t. */
typedef struct list {
    source_frame_t frame;
    char folders[SPLIT_COUNT][FS_PATH_MAX];
    char notes[SOURCE_NOTES_MAX];
    uint64_t hash;
    int64_t has_annotations, has_bytes, boxes_shown, boxes_forced;
    int64_t n_samples[SPLIT_COUNT], n_categories;
    int64_t n_annotations, n_exact, n_points, n_polygons, n_runs, n_text, n_image_bytes;
} list_t;

_Static_assert(sizeof(list_t) % 8 == 0, "aligns the elements that follow");

typedef struct parts {
    category_t *categories;
    sample_t *samples[SPLIT_COUNT];
    source_entry_t *entries[SPLIT_COUNT];
    annotation_t *annotations; /* with truths */
    double *exact;             /* [n_exact, 2] */
    float *points;             /* [n_points, 2] */
    int32_t *polygons;
    uint32_t *runs;
    char *text; /* names, each with its NUL */
    uint8_t *images;
} parts_t;

err_t source_list_new(source_t *source, split_t split, int64_t n)
{
    TRY(mem_new_array(n, sizeof *source->samples[split], "a list of images", &source->samples[split]));
    TRY(mem_new_array(n, sizeof *source->entries[split], "a list of images", &source->entries[split]));
    source->n_samples[split] = n;
    return ERR_OK;
}

/* Sets *out_pointer to n elements at *offset and advances it. block NULL: only counts. */
static void list_place(char *block, int64_t *offset, int64_t n, size_t element_bytes, void *out_pointer)
{
    char *at = block ? block + *offset : NULL;
    memcpy(out_pointer, &at, sizeof at);
    *offset += n * (int64_t)element_bytes;
}

/* Returns the block's size. Elements that need alignment come first. */
static int64_t place_parts(const list_t *list, void *block, parts_t *out)
{
    int64_t at = (int64_t)sizeof *list;
    list_place(block, &at, list->n_categories, sizeof *out->categories, &out->categories);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        list_place(block, &at, list->n_samples[s], sizeof(sample_t), &out->samples[s]);
        list_place(block, &at, list->n_samples[s], sizeof(source_entry_t), &out->entries[s]);
    }
    list_place(block, &at, list->n_annotations, sizeof *out->annotations, &out->annotations);
    list_place(block, &at, list->n_exact, 2 * sizeof *out->exact, &out->exact);
    list_place(block, &at, list->n_points, 2 * sizeof *out->points, &out->points);
    list_place(block, &at, list->n_polygons, sizeof *out->polygons, &out->polygons);
    list_place(block, &at, list->n_runs, sizeof *out->runs, &out->runs);
    list_place(block, &at, list->n_text, 1, &out->text);
    list_place(block, &at, list->n_image_bytes, 1, &out->images);
    return at;
}

static void count_annotations(const annotation_t *annotations, int32_t n, list_t *list)
{
    list->n_annotations += n;
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *a = &annotations[i];
        list->n_exact += a->exact ? count_points(a) : 0;
        list->n_points += count_points(a);
        list->n_polygons += a->n_polygons;
        list->n_runs += a->n_runs;
    }
}

/* Copies n elements to *at_pointer and advances it. */
static void list_put(void *at_pointer, const void *from, int64_t n, size_t element_bytes)
{
    char *at;
    size_t n_bytes = (size_t)n * element_bytes;
    memcpy(&at, at_pointer, sizeof at);
    if (n_bytes) memcpy(at, from, n_bytes);
    at += n_bytes;
    memcpy(at_pointer, &at, sizeof at);
}

static void put_text(parts_t *at, const char *text)
{
    list_put(&at->text, text, (int64_t)strlen(text) + 1, 1);
}

/* Without their pointers; of `exact` it only matters later whether it is NULL. */
static void put_annotations(parts_t *at, const annotation_t *annotations, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *a = &annotations[i];
        if (a->exact) list_put(&at->exact, a->exact, count_points(a), 2 * sizeof *a->exact);
        list_put(&at->points, a->points, count_points(a), 2 * sizeof *a->points);
        list_put(&at->polygons, a->n_points, a->n_polygons, sizeof *a->n_points);
        list_put(&at->runs, a->runs, a->n_runs, sizeof *a->runs);
        *at->annotations = *a;
        at->annotations->n_points = NULL, at->annotations->points = NULL, at->annotations->runs = NULL;
        at->annotations++;
    }
}

/* Counts every sample (at NULL) or writes it to the block. */
static err_t visit_samples(const source_t *source, list_t *list, parts_t *at)
{
    err_t err = ERR_OK;
    source_buffer_t buffer = {0};
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            sample_t sample;
            TRY_OUT(err,
                    (list->has_bytes ? source_read : source_describe)(source, split, i, &buffer, &sample));
            if (!at) {
                list->n_text += (int64_t)strlen(sample.name) + 1;
                if (list->has_bytes) list->n_image_bytes += (int64_t)sample.n_bytes;
                count_annotations(sample.annotations, sample.n_annotations, list);
                count_annotations(sample.truths, sample.n_truths, list);
                continue;
            }
            sample_t *to = at->samples[split]++;
            *to = sample;
            put_text(at, sample.name);
            if (sample.bytes) list_put(&at->images, sample.bytes, (int64_t)sample.n_bytes, 1);
            to->name = NULL, to->bytes = NULL, to->annotations = NULL, to->truths = NULL;
            put_annotations(at, sample.annotations, sample.n_annotations);
            put_annotations(at, sample.truths, sample.n_truths);
        }
out:
    source_free_buffer(source, &buffer);
    return err;
}

err_t source_list_save(const source_t *source, void **bytes, int64_t *n_bytes)
{
    list_t *list = NULL, *block = NULL;
    parts_t parts;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *list, "a list of images", &list));
    list->hash = source->hash;
    list->has_annotations = source->has_annotations;
    list->has_bytes = source->ops->raw;
    list->boxes_shown = source->boxes.shown;
    list->boxes_forced = source->boxes.forced;
    list->n_categories = source->n_categories;
    memcpy(list->notes, source->notes, sizeof list->notes);
    memcpy(list->folders, source->folders, sizeof list->folders);
    memcpy(list->n_samples, source->n_samples, sizeof list->n_samples);
    for (int32_t i = 0; i < source->n_categories; i++)
        list->n_text +=
            (int64_t)(strlen(source->categories[i].name) + strlen(source->categories[i].supergroup)) + 2;
    TRY_OUT(err, visit_samples(source, list, NULL));
    *n_bytes = place_parts(list, NULL, &parts);
    TRY_OUT(err, mem_new((size_t)*n_bytes, "a list of images", &block));
    *block = *list;
    place_parts(block, block, &parts);
    for (int32_t i = 0; i < source->n_categories; i++) {
        const category_t *category = &source->categories[i];
        *parts.categories++ = (category_t){.id = category->id};
        put_text(&parts, category->name);
        put_text(&parts, category->supergroup);
    }
    for (int s = 0; s < SPLIT_COUNT; s++)
        list_put(&parts.entries[s], source->entries[s], source->n_samples[s], sizeof(source_entry_t));
    TRY_OUT(err, visit_samples(source, block, &parts));
    *bytes = block;
    block = NULL;
out:
    mem_free(&block);
    mem_free(&list);
    return err;
}

/* Sets *out_pointer to the next n elements of a part that ends at `end`, and advances *at_pointer. False if
 * fewer remain. */
static bool list_take(void *at_pointer, const void *end, int64_t n, size_t element_bytes, void *out_pointer)
{
    char *at;
    memcpy(&at, at_pointer, sizeof at);
    if (n < 0 || n > ((const char *)end - at) / (int64_t)element_bytes) return false;
    memcpy(out_pointer, &at, sizeof at);
    at += n * (int64_t)element_bytes;
    memcpy(at_pointer, &at, sizeof at);
    return true;
}

static bool take_text(parts_t *at, const parts_t *end, const char **out)
{
    size_t room = (size_t)(end->text - at->text), n = strnlen(at->text, room);
    return n < room && list_take(&at->text, end->text, (int64_t)n + 1, 1, out);
}

static bool take_annotations(parts_t *at, const parts_t *end, int32_t n_categories, int32_t n,
                             const annotation_t **out)
{
    annotation_t *annotations = NULL;
    if (!list_take(&at->annotations, end->annotations, n, sizeof *annotations, &annotations)) return false;
    for (int32_t i = 0; i < n; i++) {
        annotation_t *a = &annotations[i];
        if (a->category < 0 || a->category >= n_categories ||
            !list_take(&at->polygons, end->polygons, a->n_polygons, sizeof *a->n_points, &a->n_points))
            return false;
        for (int32_t k = 0; k < a->n_polygons; k++)
            if (a->n_points[k] < 0) return false;
        if (a->exact && !list_take(&at->exact, end->exact, count_points(a), 2 * sizeof *a->exact, &a->exact))
            return false;
        if (!list_take(&at->points, end->points, count_points(a), 2 * sizeof *a->points, &a->points) ||
            !list_take(&at->runs, end->runs, a->n_runs, sizeof *a->runs, &a->runs))
            return false;
    }
    *out = annotations;
    return true;
}

static bool take_sample(parts_t *at, const parts_t *end, const list_t *list, sample_t *sample)
{
    int32_t n_categories = (int32_t)list->n_categories;
    if (sample->label < -1 || sample->label >= n_categories || !take_text(at, end, &sample->name) ||
        !take_annotations(at, end, n_categories, sample->n_annotations, &sample->annotations) ||
        (sample->n_truths != 0 &&
         !take_annotations(at, end, n_categories, sample->n_truths, &sample->truths)))
        return false;
    if (!list->has_bytes) return true;
    return sample->n_bytes <= INT64_MAX &&
           list_take(&at->images, end->images, (int64_t)sample->n_bytes, 1, &sample->bytes);
}

/* Restores all pointers; false if a length or an index is wrong. */
static bool link_parts(const list_t *list, const parts_t *parts)
{
    parts_t at = *parts;
    parts_t end = *parts; /* the end of each part */
    end.annotations += list->n_annotations;
    end.exact += 2 * list->n_exact;
    end.points += 2 * list->n_points;
    end.polygons += list->n_polygons;
    end.runs += list->n_runs;
    end.text += list->n_text;
    end.images += list->n_image_bytes;
    for (int64_t i = 0; i < list->n_categories; i++)
        if (!take_text(&at, &end, &parts->categories[i].name) ||
            !take_text(&at, &end, &parts->categories[i].supergroup))
            return false;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < list->n_samples[split]; i++)
            if (!take_sample(&at, &end, list, &parts->samples[split][i])) return false;
    return at.annotations == end.annotations && at.exact == end.exact && at.points == end.points &&
           at.polygons == end.polygons && at.runs == end.runs && at.text == end.text &&
           at.images == end.images;
}

/* Checks first that no count exceeds the block, so that their sum cannot overflow. */
static bool is_whole(list_t *list, int64_t n_bytes, parts_t *parts)
{
    if (n_bytes < (int64_t)sizeof *list) return false;
    const int64_t counts[] = {list->n_samples[SPLIT_TRAIN],
                              list->n_samples[SPLIT_VAL],
                              list->n_categories,
                              list->n_annotations,
                              list->n_exact,
                              list->n_points,
                              list->n_polygons,
                              list->n_runs,
                              list->n_text,
                              list->n_image_bytes};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] < 0 || counts[i] > n_bytes) return false;
    return list->n_categories <= INT32_MAX && place_parts(list, list, parts) == n_bytes &&
           memchr(list->notes, '\0', sizeof list->notes) &&
           memchr(list->folders[SPLIT_TRAIN], '\0', sizeof list->folders[SPLIT_TRAIN]) &&
           memchr(list->folders[SPLIT_VAL], '\0', sizeof list->folders[SPLIT_VAL]) && link_parts(list, parts);
}

err_t source_list_restore(source_t *source, void **bytes, int64_t n_bytes)
{
    list_t *list = *bytes;
    parts_t parts;
    if (!is_whole(list, n_bytes, &parts))
        RAISE(ERR_DATA, "the list of data from rank 0 is damaged: its lengths do not match");
    source->block = list;
    *bytes = NULL;
    memcpy(source->folders, list->folders, sizeof source->folders);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        source->n_samples[s] = list->n_samples[s];
        source->samples[s] = parts.samples[s];
        source->entries[s] = parts.entries[s];
    }
    source->n_categories = (int32_t)list->n_categories;
    source->categories = parts.categories;
    source->has_annotations = list->has_annotations != 0;
    source->boxes = (source_boxes_t){.shown = list->boxes_shown != 0, .forced = list->boxes_forced != 0};
    source->hash = list->hash;
    memcpy(source->notes, list->notes, sizeof source->notes);
    for (int s = 0; s < SPLIT_COUNT && !list->has_bytes; s++) {
        int64_t n = list->n_samples[s], step = n > 1 ? n - 1 : 1; /* the first and the last */
        const sample_t *samples = parts.samples[s];
        for (int64_t i = 0; i < n; i += step)
            if (samples[i].n_bytes > 0) /* otherwise it is missing on rank 0, too (--max-bad) */
                TRY(source_check_file(list->folders[s], samples[i].name, (int64_t)samples[i].n_bytes));
    }
    return ERR_OK;
}
