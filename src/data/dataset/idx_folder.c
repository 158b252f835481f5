/* SPDX-License-Identifier: MIT */
/* A folder with MNIST's four IDX files as a dataset in memory. idx.c implements the file format. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"

/* Larger than any set of images that a rank should hold in memory. */
static const int64_t max_file_bytes = (int64_t)8 << 30;

enum { N_CLASSES = 10 };

/* form: bit 0: compressed, bit 1: with a dot. */
static void idx_format_name(split_t split, bool images, int form, char out[IDX_NAME_MAX])
{
    snprintf(out, IDX_NAME_MAX, "%s-%s%cidx%d-ubyte%s", split == SPLIT_TRAIN ? "train" : "t10k",
             images ? "images" : "labels", form < 2 ? '-' : '.', images ? 3 : 1, form % 2 ? ".gz" : "");
}

void idx_name(split_t split, bool images, char out[IDX_NAME_MAX])
{
    idx_format_name(split, images, 0, out);
}

err_t idx_find(const char *folder, split_t split, bool images, char *out)
{
    char name[IDX_NAME_MAX];
    for (int form = 0; form < 4; form++) {
        idx_format_name(split, images, form, name);
        TRY(fs_join(out, folder, name));
        struct stat info;
        if (stat(out, &info) == 0) return ERR_OK;
        if (errno != ENOENT) RAISE(ERR_DATA, "cannot access %s: %s", out, strerror(errno));
    }
    idx_name(split, images, name);
    RAISE(
        ERR_DATA,
        "no file %s (or .gz) in the folder %s; download MNIST with data/fetch_mnist.sh, or use --data digits, "
        "which needs no files",
        name, folder);
}

err_t idx_find_any(const char *folder, char *out)
{
    err_t err = ERR_DATA;
    for (int i = 0; err != ERR_OK && i < 2 * SPLIT_COUNT; i++)
        err = idx_find(folder, (split_t)(i / 2), i % 2, out);
    return err;
}

static err_t check_labels(const char *path, const uint8_t *labels, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= N_CLASSES)
            RAISE(ERR_DATA, "%s: label %d at sample %" PRId64 " is out of range 0..%d", path, labels[i], i,
                  N_CLASSES - 1);
    return ERR_OK;
}

/* *images: [n, h, w]. The dataset owns what was read, even after an error. */
static err_t read_split(dataset_t *dataset, const char *folder, split_t split, shape_t *images)
{
    char images_path[FS_PATH_MAX], labels_path[FS_PATH_MAX];
    TRY(idx_find(folder, split, true, images_path));
    TRY(idx_find(folder, split, false, labels_path));

    uint8_t *values;
    shape_t labels;
    TRY(idx_read(labels_path, 1, max_file_bytes, &labels, &values));
    dataset->labels[split] = values;
    TRY(check_labels(labels_path, values, labels.dim[0]));
    TRY(idx_read(images_path, 3, max_file_bytes, images, &values));
    dataset->pixels[split] = values;
    if (images->dim[0] != labels.dim[0])
        RAISE(ERR_DATA, "%s holds %" PRId64 " images, but %s holds %" PRId64 " labels; they must match",
              images_path, images->dim[0], labels_path, labels.dim[0]);
    return ERR_OK;
}

static err_t open_folder(dataset_t *dataset, const char *where, const transform_settings_t *settings)
{
    (void)settings;
    if (!fs_is_folder(where))
        RAISE(ERR_DATA, "the data folder %s %s; " DATASET_EXPECTED, where,
              fs_exists(where) ? "is not a folder" : "does not exist");
    shape_t images[SPLIT_COUNT];
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        TRY(read_split(dataset, where, split, &images[split]));
    const shape_t *train = &images[SPLIT_TRAIN], *val = &images[SPLIT_VAL];
    if (train->dim[1] != val->dim[1] || train->dim[2] != val->dim[2])
        RAISE(ERR_DATA,
              "%s: the training images are %" PRId64 "×%" PRId64 " pixels, but those of t10k are %" PRId64
              "×%" PRId64,
              where, train->dim[1], train->dim[2], val->dim[1], val->dim[2]);

    dataset_info_t *info = &dataset->info;
    snprintf(info->source, sizeof info->source, "%s", where);
    for (split_t split = 0; split < SPLIT_COUNT; split++) info->n_samples[split] = images[split].dim[0];
    info->height = train->dim[1];
    info->width = train->dim[2];
    info->channels = 1;
    info->n_classes = N_CLASSES;
    return ERR_OK;
}

const dataset_ops_t dataset_idx = {.kind = "idx", .open = open_folder, .close = dataset_free_memory};
