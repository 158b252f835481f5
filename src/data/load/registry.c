/* SPDX-License-Identifier: MIT */
/* The kinds of datasets, and the choice of the kind from --data. Opening is left to each kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset/dataset.h"
#include "data/dataset/idx.h"
#include "data/dataset/synth.h"
#include "data/load/images.h"
#include "data/load/samples.h"
#include "data/source/source.h"

enum { WHY_MAX = 128 };

/* A list of COCO's form. */
static bool is_list(const char *where)
{
    return fs_exists(where) && !fs_is_folder(where) && source_coco.is(where);
}

static const dataset_ops_t *built_in(const char *where)
{
    static const dataset_ops_t *const kinds[] = {&dataset_digits, &dataset_synthetic};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(where, kinds[i]->kind) == 0) return kinds[i];
    return NULL;
}

bool dataset_is_there(const char *where)
{
    return built_in(where) || fs_is_folder(where) || idx_is(where) || is_list(where);
}

bool dataset_is_built_in(const char *where)
{
    return built_in(where) != NULL;
}

err_t dataset_check_name(const char *option)
{
    if (!option || !built_in(option) || !fs_is_folder(option)) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "--data %s is ambiguous: built-in data, and a folder here; write ./%s for the folder, or rename it to use the "
        "built-in data",
        option, option);
}

/* Why a default folder is passed over; NULL: it has MNIST's files, or cannot be read, which opening it reports. An
 * interrupted download or a folder made ahead must not keep a first run from starting. */
static const char *why_not(const char *folder)
{
    if (!fs_is_folder(folder)) return "does not exist";
    return idx_is(folder) || access(folder, R_OK | X_OK) != 0 ? NULL : "holds no IDX files";
}

err_t dataset_choose(const char *option, char *where, char *why)
{
    if (option) {
        if (!*option) RAISE(ERR_USAGE, "--data is empty; expected a folder, digits, or synthetic");
        TRY(fs_join(where, "", option));
        snprintf(why, WHY_MAX, "from --data");
        if (dataset_is_there(option)) return ERR_OK;
        char hint[1024];
        idx_hint(option, hint, sizeof hint);
        RAISE(ERR_DATA, "--data %s: %s%s%s", option, fs_exists(option) ? "not a folder" : "no such folder",
              hint[0] ? hint : "; ", hint[0] ? "" : DATASET_EXPECTED);
    }
    const char *root = getenv("DPTRAIN_DATA"), *not_there = NULL, *not_here;
    if (root && *root) {
        TRY(fs_join(where, root, "mnist"));
        snprintf(why, WHY_MAX, "from $DPTRAIN_DATA");
        not_there = why_not(where);
        if (!not_there) return ERR_OK;
    }
    char passed_over[64] = "";
    if (not_there) snprintf(passed_over, sizeof passed_over, "$DPTRAIN_DATA/mnist %s", not_there);
    snprintf(where, FS_PATH_MAX, "data/mnist");
    not_here = why_not(where);
    if (!not_here) {
        snprintf(why, WHY_MAX, "the default folder%s%s", not_there ? "; " : "", passed_over);
        return ERR_OK;
    }
    snprintf(where, FS_PATH_MAX, "digits");
    snprintf(why, WHY_MAX, "%s%sdata/mnist %s; data/fetch_mnist.sh downloads MNIST", passed_over,
             not_there ? ", " : "", not_here);
    return ERR_OK;
}

static const dataset_ops_t *kind_of(const char *where)
{
    const dataset_ops_t *kind = built_in(where);
    if (kind) return kind;
    /* One of the four files is enough; that kind then reports what is wrong with the others. */
    const bool images = fs_is_folder(where) ? !idx_is(where) : is_list(where);
    return images ? &dataset_images : &dataset_idx;
}

static const transform_settings_t by_default;

static err_t new_dataset(const dataset_ops_t *kind, dataset_t **out)
{
    TRY(mem_new(sizeof **out, "a dataset", out));
    (*out)->ops = kind;
    (*out)->info.kind = kind->kind;
    for (split_t split = 0; split < SPLIT_COUNT; split++) (*out)->info.block[split] = 1;
    return ERR_OK;
}

err_t dataset_open(const char *where, const transform_settings_t *settings, dataset_t **out)
{
    return dataset_open_watched(where, settings, NULL, out);
}

err_t dataset_open_watched(const char *where, const transform_settings_t *settings, const open_watch_t *watch,
                           dataset_t **out)
{
    const dataset_ops_t *kind = kind_of(where);
    dataset_t *dataset = NULL;
    TRY(new_dataset(kind, &dataset));
    dataset->watch = watch;
    err_t err = kind->open(dataset, where, settings ? settings : &by_default);
    if (err != ERR_OK) {
        dataset_close(&dataset);
        return err;
    }
    dataset->watch = NULL;
    if (!dataset->ops->read) dataset_measure(dataset); /* opening may have replaced ops */
    *out = dataset;
    return ERR_OK;
}

/* Of images in memory, all may have the same of several labels. */
static bool labels_differ(const dataset_t *dataset)
{
    const uint8_t *labels = dataset->labels[SPLIT_TRAIN];
    const int64_t n = dataset->info.n_samples[SPLIT_TRAIN];
    return !labels || n < 2 || memcmp(labels, labels + 1, (size_t)(n - 1)) != 0;
}

err_t dataset_check_training(const dataset_t *dataset)
{
    const dataset_info_t *info = &dataset->info;
    const samples_ops_t *samples = samples_of(info->task);
    const char *hint = info->hint ? info->hint : "", *begin = hint[0] ? "; " : "";
    if (info->n_samples[SPLIT_TRAIN] < 1)
        RAISE(ERR_DATA, "%s has no %s%s%s", info->source, samples->none, begin, hint);
    if (!samples->one_label || (info->n_classes > 1 && labels_differ(dataset))) return ERR_OK;
    char class_name[32];
    const int k = info->n_classes > 1 ? dataset->labels[SPLIT_TRAIN][0] : 0;
    snprintf(class_name, sizeof class_name, "%d", k);
    RAISE(ERR_DATA,
          "%s has training images of one class only, %s, so that every answer would be right: accuracy 1, "
          "loss 0, nothing learned%s%s",
          info->source, info->class_names ? info->class_names[k] : class_name, begin, hint);
}

bool dataset_is_shared(const char *where)
{
    return kind_of(where)->save != NULL;
}

err_t dataset_save(const dataset_t *dataset, void **bytes, int64_t *n_bytes)
{
    return dataset->ops->save(dataset, bytes, n_bytes);
}

err_t dataset_restore(const transform_settings_t *settings, void **bytes, int64_t n_bytes, dataset_t **out)
{
    dataset_t *dataset = NULL;
    TRY(new_dataset(&dataset_images, &dataset)); /* the only kind that is shared */
    err_t err = dataset->ops->restore(dataset, settings ? settings : &by_default, bytes, n_bytes);
    if (err == ERR_OK)
        *out = dataset;
    else
        dataset_close(&dataset);
    return err;
}
