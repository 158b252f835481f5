/* SPDX-License-Identifier: MIT */
/* The kinds of sources, and the detection of a folder's kind by its content; a saved source names its kind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/source/parts.h"

/* In order of detection. Shards have the most specific file names; image folders come last, because the
 * others may contain folders, too. */
static const source_ops_t *const kinds[] = {&source_shards, &source_coco, &source_idx, &source_folder};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

err_t source_find_kind(const char *path, const source_ops_t **out)
{
    char hint[1024], files[256] = "";
    if (!fs_is_folder(path) && !idx_is(path) && !source_coco.is(path)) {
        idx_hint(path, hint, sizeof hint);
        RAISE(ERR_DATA, "%s: %s%s", path, fs_exists(path) ? "not a folder" : "no such folder", hint);
    }
    for (int i = 0; i < N_KINDS; i++) {
        if (kinds[i] == &source_folder) TRY(formats_refuse(path));
        if (!kinds[i]->is(path)) continue;
        *out = kinds[i];
        return ERR_OK;
    }
    char expected[512] = "";
    for (int i = 0; i < N_KINDS; i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i ? "; " : "", kinds[i]->what);
    }
    idx_hint(path, hint, sizeof hint);
    arena_t arena = {0}; /* ", but files such as train.csv" where there are only files that no kind reads */
    folder_list_t list = {.n_images = 0};
    if (folder_list(&arena, path, &list) == ERR_OK && list.others.n > 0)
        snprintf(files, sizeof files, ", but files such as %.128s", list.others.names[0]);
    folder_mask_line(files);
    folder_list_free(&list);
    arena_free(&arena);
    RAISE(ERR_DATA, "no images found in %s%s%s; expected one of: %s", path, files, hint, expected);
}

static const source_ops_t *find_kind_named(const char *name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->kind, name) == 0) return kinds[i];
    return NULL;
}

err_t source_open(const char *path, source_t **out)
{
    return source_open_watched(path, NULL, NULL, out);
}

err_t source_open_watched(const char *path, const list_rules_t *rules, const open_watch_t *watch,
                          source_t **out)
{
    const source_ops_t *kind = NULL;
    source_t *source = NULL;
    err_t err = ERR_OK;
    TRY(source_find_kind(path, &kind));
    TRY(mem_new(sizeof *source, "a source of images", &source));
    source->ops = kind;
    source->watch = watch;
    source->rules = rules;
    TRY_OUT(err, fs_join(source->path, "", path));
    TRY_OUT(err, kind->open(source, path));
    if (rules && rules->holdout.share > 0) TRY_OUT(err, source_hold_out(source, &rules->holdout));
    if (!source->hash) TRY_OUT(err, source_measure_hash(source));
    source->watch = NULL;
    source->rules = NULL;
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
    TRY(source_find_kind(path, &kind));
    return kind->classes ? kind->classes(path, split, out) : ERR_OK;
}

err_t source_save(const source_t *source, void **bytes, int64_t *n_bytes)
{
    TRY(source->ops->save ? source->ops->save(source, bytes, n_bytes)
                          : source_list_save(source, bytes, n_bytes));
    source_frame_t *frame = *bytes;
    frame->n_bytes = *n_bytes;
    snprintf(frame->kind, sizeof frame->kind, "%s", source->ops->kind);
    memcpy(frame->path, source->path, sizeof frame->path);
    return ERR_OK;
}

err_t source_restore(void **bytes, int64_t n_bytes, source_t **out)
{
    source_t *source = NULL;
    err_t err = ERR_OK;
    const source_frame_t *frame = *bytes;
    if (n_bytes < (int64_t)sizeof *frame || frame->n_bytes != n_bytes ||
        !memchr(frame->path, '\0', sizeof frame->path) || !memchr(frame->kind, '\0', sizeof frame->kind) ||
        !find_kind_named(frame->kind))
        RAISE(ERR_DATA, "the list of data from rank 0 is damaged: %" PRId64 " bytes", n_bytes);
    TRY(mem_new(sizeof *source, "a source of images", &source));
    source->ops = find_kind_named(frame->kind);
    memcpy(source->path, frame->path, sizeof source->path);
    TRY_OUT(err, source->ops->restore ? source->ops->restore(source, bytes, n_bytes)
                                      : source_list_restore(source, bytes, n_bytes));
    mem_free(bytes);
    *out = source;
    return ERR_OK;
out:
    source_close(&source);
    return err;
}
