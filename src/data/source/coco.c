/* SPDX-License-Identifier: MIT */
/* COCO's folders as a source: train2017/, val2017/, annotations/. data/coco reads the JSON files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/coco/coco.h"
#include "data/source/parts.h"

static const char *const folders[SPLIT_COUNT] = {"train2017", "val2017"};
static const char *const lists[SPLIT_COUNT] = {"annotations/instances_train2017.json",
                                               "annotations/instances_val2017.json"};

typedef struct impl {
    char folders[SPLIT_COUNT][FS_PATH_MAX];
    coco_t *coco[SPLIT_COUNT]; /* NULL: the split is absent */
    source_entry_t *entries[SPLIT_COUNT];
} impl_t;

err_t source_coco_list(const char *path, split_t split, char out[FS_PATH_MAX])
{
    return fs_join(out, path, lists[split]);
}

static bool has_entry(const char *path, const char *name)
{
    char joined[FS_PATH_MAX];
    return fs_join(joined, path, name) == ERR_OK && fs_exists(joined);
}

static bool is_coco(const char *path)
{
    return has_entry(path, folders[SPLIT_TRAIN]) || has_entry(path, folders[SPLIT_VAL]) ||
           has_entry(path, lists[SPLIT_TRAIN]) || has_entry(path, lists[SPLIT_VAL]);
}

typedef struct notes {
    source_t *source;
    split_t split;
} notes_t;

static void note_line(void *context, const char *line)
{
    const notes_t *notes = context;
    source_note(notes->source, "%s: %s", lists[notes->split], line);
}

static err_t measure_files(const source_t *source, int fd, split_t split)
{
    const impl_t *impl = source->impl;
    const char *folder = impl->folders[split];
    const coco_t *coco = impl->coco[split];
    source_entry_t *entries = impl->entries[split];
    int64_t n_missing = 0;
    const char *first = NULL;
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        bool found = false;
        TRY(source_alive(source));
        entries[i] = (source_entry_t){0, image->width, image->height, -1, 0};
        TRY(source_stat(fd, folder, image->name, &found, &entries[i].n_bytes, &entries[i].time_ns));
        if (found) continue;
        if (n_missing++ == 0) first = image->name;
    }
    if (n_missing > 0)
        RAISE(ERR_DATA,
              "%" PRId64 " of the %" PRId64
              " images in %s are missing from %s, the first is %s; add them, or remove them from the list",
              n_missing, coco->n_images, lists[split], folder, first);
    return ERR_OK;
}

/* Ignores an error, which the next call of source_alive returns again. */
static void report_alive(void *context, int64_t n_read, int64_t n_bytes)
{
    (void)n_read, (void)n_bytes;
    (void)source_alive(context);
}

/* After an error, close_coco frees what was read. */
static err_t open_split(source_t *source, const char *path, split_t split)
{
    impl_t *impl = source->impl;
    char list[FS_PATH_MAX];
    TRY(fs_join(impl->folders[split], path, folders[split]));
    TRY(source_coco_list(path, split, list));
    if (!fs_is_folder(impl->folders[split])) return ERR_OK;
    if (!fs_exists(list))
        RAISE(ERR_DATA, "the annotations of %s are missing: %s", impl->folders[split], list);
    TRY(coco_read(list, report_alive, source, &impl->coco[split]));
    const coco_t *coco = impl->coco[split];
    TRY(mem_new_array(coco->n_images, sizeof(source_entry_t), "a list of images", &impl->entries[split]));
    source->entries[split] = impl->entries[split];
    source->n_samples[split] = coco->n_images;
    coco_tell(coco, &(notes_t){source, split}, note_line);
    int fd = open(impl->folders[split], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_DATA, "cannot open %s: %s", impl->folders[split], strerror(errno));
    err_t err = measure_files(source, fd, split);
    close(fd);
    return err;
}

static err_t compare_categories(const char *path, const coco_t *train, const coco_t *val)
{
    bool same = train->n_categories == val->n_categories;
    int32_t i = 0;
    for (; same && i < train->n_categories; i++) {
        const category_t *a = &train->categories[i], *b = &val->categories[i];
        if (a->id != b->id || strcmp(a->name, b->name) != 0)
            RAISE(ERR_DATA,
                  "%s: category %" PRId64 " (%s) of %s is %" PRId64 " (%s) in %s; both must have the same",
                  path, a->id, a->name, lists[SPLIT_TRAIN], b->id, b->name, lists[SPLIT_VAL]);
    }
    if (!same)
        RAISE(ERR_DATA, "%s: %s has %d categories, %s has %d; both must have the same", path,
              lists[SPLIT_TRAIN], train->n_categories, lists[SPLIT_VAL], val->n_categories);
    return ERR_OK;
}

static err_t open_coco(source_t *source, const char *path)
{
    impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "a source of images", &impl));
    source->impl = impl;
    for (split_t split = 0; split < SPLIT_COUNT; split++) TRY(open_split(source, path, split));
    const coco_t *train = impl->coco[SPLIT_TRAIN], *val = impl->coco[SPLIT_VAL], *any = train ? train : val;
    if (!any)
        RAISE(ERR_DATA, "%s has annotations, but neither %s/ nor %s/ with images", path, folders[SPLIT_TRAIN],
              folders[SPLIT_VAL]);
    if (train && val) TRY(compare_categories(path, train, val));
    source->n_categories = any->n_categories;
    source->categories = any->categories;
    source->has_annotations = true;
    const char *const both[SPLIT_COUNT] = {impl->folders[SPLIT_TRAIN], impl->folders[SPLIT_VAL]};
    return source_look_at_boxes(source, both);
}

static void close_coco(source_t *source)
{
    impl_t *impl = source->impl;
    for (split_t split = 0; impl && split < SPLIT_COUNT; split++) {
        coco_free(&impl->coco[split]);
        mem_free(&impl->entries[split]);
    }
    mem_free(&source->impl);
}

static err_t describe_coco(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                           sample_t *out)
{
    const impl_t *impl = source->impl;
    const coco_image_t *image = &impl->coco[split]->images[index];
    (void)buffer;
    *out = (sample_t){
        .id = image->id,
        .name = image->name,
        .width = image->width,
        .height = image->height,
        .label = -1,
        .n_bytes = (size_t)impl->entries[split][index].n_bytes,
        .n_annotations = image->n_annotations,
        .annotations = image->annotations,
        .n_truths = image->n_truths,
        .truths = image->truths,
    };
    return ERR_OK;
}

static err_t read_coco(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                       sample_t *out)
{
    const impl_t *impl = source->impl;
    TRY(describe_coco(source, split, index, buffer, out));
    return source_load(source, impl->folders[split], buffer, out);
}

static err_t save_coco(const source_t *source, void **bytes, int64_t *n_bytes)
{
    const impl_t *impl = source->impl;
    const char *const both[SPLIT_COUNT] = {impl->folders[SPLIT_TRAIN], impl->folders[SPLIT_VAL]};
    return source_list_save(source, both, bytes, n_bytes);
}

const source_ops_t source_coco = {
    .files = true,
    .kind = "coco",
    .what = "COCO (train2017/ or val2017/, and annotations/instances_….json)",
    .is = is_coco,
    .open = open_coco,
    .close = close_coco,
    .read = read_coco,
    .describe = describe_coco,
    .save = save_coco,
    .restore = source_list_restore,
};
