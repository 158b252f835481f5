/* SPDX-License-Identifier: MIT */
/* Reads and writes index.h5. index.c checks that its content is consistent. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "data/shard/h5.h"
#include "data/shard/index.h"

/* The head's numbers, as attributes. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"n_train", offsetof(shard_head_t, n_samples[SPLIT_TRAIN])},
    {"n_val", offsetof(shard_head_t, n_samples[SPLIT_VAL])},
    {"n_train_shards", offsetof(shard_head_t, n_shards[SPLIT_TRAIN])},
    {"n_val_shards", offsetof(shard_head_t, n_shards[SPLIT_VAL])},
    {"n_categories", offsetof(shard_head_t, n_categories)},
    {"has_annotations", offsetof(shard_head_t, has_annotations)},
    {"shard_bytes", offsetof(shard_head_t, shard_bytes)},
    {"resize", offsetof(shard_head_t, resize)},
    {"quality", offsetof(shard_head_t, quality)},
};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0], N_PARTS = 2 * SPLIT_COUNT + 1 };

static err_t write_attributes(const shard_head_t *head, const h5_file_t *f)
{
    TRY(shard_h5_write_int(f, "schema", SHARD_SCHEMA));
    for (int i = 0; i < N_NUMBERS; i++) {
        int64_t value;
        memcpy(&value, (const char *)head + numbers[i].offset, sizeof value);
        TRY(shard_h5_write_int(f, numbers[i].name, value));
    }
    TRY(shard_h5_write_hash(f, "plan", head->plan));
    TRY(shard_h5_write_hash(f, "data_xxh3", head->data_hash));
    TRY(shard_h5_write_text(f, "source_kind", head->source_kind));
    return shard_h5_write_text(f, "source_path", head->source_path);
}

static err_t write_hdf5(const shard_index_t *index, const fs_temp_t *temp, seal_part_t parts[N_PARTS])
{
    h5_file_t f;
    const shard_head_t *head = index->head;
    char name[64];
    err_t err;
    TRY_OUT(err, h5_file_create(&f, temp->kind, temp->path, temp->fd));
    TRY_OUT(err, write_attributes(head, &f));
    TRY_OUT(err, shard_h5_make(&f, "categories", SHARD_CATEGORIES, head->n_categories, index->categories,
                               parts++));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        TRY_OUT(err, h5_file_make_group(&f, split_names[s]));
        snprintf(name, sizeof name, "%s/shards", split_names[s]);
        TRY_OUT(err, shard_h5_make(&f, name, SHARD_FILES, head->n_shards[s], index->files[s], parts++));
        snprintf(name, sizeof name, "%s/records", split_names[s]);
        TRY_OUT(err, shard_h5_make(&f, name, SHARD_ENTRIES, head->n_samples[s], index->entries[s], parts++));
    }
out:
    return h5_file_close(&f, err);
}

err_t shard_index_write(const shard_index_t *index, const char *folder, seal_t *seal)
{
    fs_temp_t temp;
    char path[FS_PATH_MAX];
    seal_part_t parts[N_PARTS];
    err_t err;
    int n = 0;
    *seal = (seal_t){.schema = SHARD_SCHEMA, .plan = index->head->plan};
    TRY(fs_join(path, folder, SHARD_INDEX_NAME));
    TRY_OUT(err, fs_temp_open(&temp, "index", path));
    TRY_OUT(err, write_hdf5(index, &temp, parts));
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].n_bytes > 0) parts[n++] = parts[i];
    const seal_file_t sealed = {temp.fd, temp.path, temp.kind};
    TRY_OUT(err, seal_write(&sealed, parts, n, seal));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}

static err_t read_head(const h5_tree_t *tree, const seal_t *seal, shard_head_t *head)
{
    for (int i = 0; i < N_NUMBERS; i++) {
        int64_t value;
        TRY(shard_h5_read_int(tree, numbers[i].name, &value));
        memcpy((char *)head + numbers[i].offset, &value, sizeof value);
    }
    head->plan = seal->plan;
    TRY(shard_h5_read_hash(tree, "data_xxh3", &head->data_hash));
    TRY(shard_h5_read_text(tree, "source_kind", head->source_kind, sizeof head->source_kind));
    TRY(shard_h5_read_text(tree, "source_path", head->source_path, sizeof head->source_path));
    /* Counts are limited by the file's size, so that hostile ones cost no memory. */
    int64_t most = seal->n_bytes / (int64_t)sizeof(shard_entry_t);
    bool fits =
        head->n_categories >= 0 && head->n_categories <= seal->n_bytes / (int64_t)sizeof(shard_category_t);
    for (int s = 0; s < SPLIT_COUNT; s++)
        fits &= head->n_samples[s] >= 0 && head->n_samples[s] <= most && head->n_shards[s] >= 0 &&
                head->n_shards[s] <= most;
    if (!fits) RAISE(ERR_DATA, "the index %s has larger counts than its size allows", tree->file.path);
    return ERR_OK;
}

static err_t read_parts(const h5_tree_t *tree, const shard_index_t *index)
{
    const shard_head_t *head = index->head;
    char name[64];
    TRY(shard_h5_read(tree, "/categories", SHARD_CATEGORIES, head->n_categories, index->categories));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        snprintf(name, sizeof name, "/%s/shards", split_names[s]);
        TRY(shard_h5_read(tree, name, SHARD_FILES, head->n_shards[s], index->files[s]));
        snprintf(name, sizeof name, "/%s/records", split_names[s]);
        TRY(shard_h5_read(tree, name, SHARD_ENTRIES, head->n_samples[s], index->entries[s]));
    }
    return ERR_OK;
}

static err_t read_index(const char *path, int fd, shard_index_t **index, seal_t *seal)
{
    const seal_file_t sealed = {fd, path, "index"};
    h5_tree_t tree;
    shard_head_t head = {0};
    err_t err;
    TRY_OUT(err, shard_h5_open(&tree, &sealed, seal));
    TRY_OUT(err, read_head(&tree, seal, &head));
    TRY_OUT(err, shard_index_new(&head, index));
    err = read_parts(&tree, *index);
out:
    h5_tree_close(&tree);
    return err;
}

err_t shard_index_read(const char *folder, shard_index_t **out, seal_t *seal)
{
    char path[FS_PATH_MAX];
    seal_t own;
    shard_index_t *index = NULL;
    TRY(fs_join(path, folder, SHARD_INDEX_NAME));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && fs_is_folder(folder))
        RAISE(ERR_DATA,
              "%s has no " SHARD_INDEX_NAME ": packing was not finished; run dptrain data pack again to "
              "continue it",
              folder);
    if (fd < 0) RAISE(seal_errno_code(errno), "cannot open the index %s: %s", path, strerror(errno));
    err_t err = read_index(path, fd, &index, seal ? seal : &own);
    close(fd);
    if (err == ERR_OK) err = shard_index_check(index, path);
    if (err == ERR_OK)
        *out = index;
    else
        shard_index_free(&index);
    return err;
}
