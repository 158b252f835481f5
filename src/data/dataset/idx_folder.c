/* SPDX-License-Identifier: MIT */
/* A data set of four IDX files as a dataset in memory: MNIST and its relatives. Classes come from the training labels.
 * idx.c implements the file format, idx_find.c finds the files. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"

/* Larger than any set of images that a rank should hold in memory. */
static const int64_t max_file_bytes = (int64_t)8 << 30;

enum { N_LABELS = UINT8_MAX + 1, NAME_BYTES = 8, ABOUT_BYTES = 2048, N_DIGITS = 10, MAX_MAPPING = 1 << 16 };

typedef struct impl {
    char text[N_LABELS][NAME_BYTES];
    const char *names[N_LABELS];
    char about[ABOUT_BYTES];
} impl_t;

typedef struct idx_data {
    idx_found_t found;
    char labels_path[SPLIT_COUNT][FS_PATH_MAX];
    uint8_t *pixels[SPLIT_COUNT], *labels[SPLIT_COUNT]; /* the dataset's */
    shape_t images[SPLIT_COUNT];                        /* [n, h, w] */
    bool seen[N_LABELS];                                /* by training */
    int first, last;                                    /* training labels */
} idx_data_t;

/* The dataset owns what was read, even after an error. */
static err_t read_split(dataset_t *dataset, idx_data_t *d, split_t split)
{
    char images_path[FS_PATH_MAX];
    int64_t n_labels;
    TRY(idx_file(&d->found, split, true, images_path));
    TRY(idx_file(&d->found, split, false, d->labels_path[split]));
    TRY(idx_read_labels(d->labels_path[split], max_file_bytes, &n_labels, &d->labels[split]));
    dataset->labels[split] = d->labels[split];
    TRY(idx_read(images_path, 3, max_file_bytes, &d->images[split], &d->pixels[split]));
    dataset->pixels[split] = d->pixels[split];
    if (d->images[split].dim[0] != n_labels)
        RAISE(ERR_DATA, "%s holds %" PRId64 " images, but %s holds %" PRId64 " labels; they must match",
              images_path, d->images[split].dim[0], d->labels_path[split], n_labels);
    return ERR_OK;
}

static void idx_about(impl_t *impl, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void idx_about(impl_t *impl, const char *format, ...)
{
    const size_t used = strlen(impl->about);
    va_list values;
    va_start(values, format);
    if (used) snprintf(impl->about + used, ABOUT_BYTES - used, "\n");
    const size_t at = strlen(impl->about);
    vsnprintf(impl->about + at, ABOUT_BYTES - at, format, values);
    va_end(values);
}

/* Classes are the training labels from 0 up to the largest, so that a label is its class's number. Labels that are counted
 * from 1, as EMNIST's letters are, become classes from 0: nothing could be learned of a class before them. Up to 9 they are
 * rather digits without a zero. */
static err_t number_classes(idx_data_t *d, dataset_info_t *info)
{
    const uint8_t *train = d->labels[SPLIT_TRAIN], *val = d->labels[SPLIT_VAL];
    d->first = N_LABELS, d->last = 0;
    for (int64_t i = 0; i < info->n_samples[SPLIT_TRAIN]; i++) d->seen[train[i]] = true;
    for (int k = 0; k < N_LABELS; k++) {
        if (!d->seen[k]) continue;
        if (k < d->first) d->first = k;
        d->last = k;
    }
    d->first = d->first == 1 && d->last >= N_DIGITS ? 1 : 0;
    info->n_classes = d->last + 1 - d->first;
    for (int64_t i = 0; i < info->n_samples[SPLIT_VAL]; i++)
        if (val[i] < d->first || val[i] > d->last)
            RAISE(ERR_DATA,
                  "%s: label %d at sample %" PRId64
                  " is not among the classes of training, whose labels are %d to %d in %s",
                  d->labels_path[SPLIT_VAL], val[i], i, d->first, d->last, d->labels_path[SPLIT_TRAIN]);
    for (split_t split = 0; split < SPLIT_COUNT && d->first > 0; split++)
        for (int64_t i = 0; i < info->n_samples[split]; i++) d->labels[split][i] -= (uint8_t)d->first;
    return ERR_OK;
}

/* Names by EMNIST's mapping: a line "LABEL CODE" or "LABEL CODE CODE" (letters: capital and small) per class, codes in ASCII.
 * Labels that training does not have are passed over. False if it does not name every class. */
static bool take_mapping(const idx_data_t *d, int n_classes, char *text, impl_t *impl)
{
    int n = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        char *at;
        const long label = strtol(line, &at, 10);
        if (at == line) continue;
        long code = 0;
        for (char *end; (void)strtol(at, &end, 10), end != at; at = end) code = strtol(at, NULL, 10);
        if (label < d->first || label > d->last) continue;
        if (code <= ' ' || code > '~') return false;
        const long k = label - d->first;
        if (!impl->names[k]) n++;
        snprintf(impl->text[k], NAME_BYTES, "%c", (int)code);
        impl->names[k] = impl->text[k];
    }
    return n == n_classes;
}

static bool is_emnist(const idx_data_t *d)
{
    return strncasecmp(d->found.set.name, "emnist", 6) == 0;
}

/* EMNIST's sets are known without their mapping. `first`: the label of the first class. */
static const char *known_alphabet(int n_classes, int first)
{
    static const char *const of_0[] = {"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt",
                                       "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"};
    static const char of_1[] = "abcdefghijklmnopqrstuvwxyz";
    if (first == 1) return n_classes == (int)strlen(of_1) ? of_1 : NULL;
    for (int i = 0; i < 2; i++)
        if (n_classes == (int)strlen(of_0[i])) return of_0[i];
    return NULL;
}

/* Leaves the numbers that labels are without names, unless they are counted from 1. */
static err_t name_classes(const idx_data_t *d, dataset_info_t *info, impl_t *impl)
{
    const idx_set_t *set = &d->found.set;
    const char *alphabet = is_emnist(d) ? known_alphabet(info->n_classes, d->first) : NULL;
    bool mapped = false;
    for (int i = 0; i < 2 && set->name[0] && !mapped; i++) {
        char name[IDX_SET_MAX + 32], path[FS_PATH_MAX], *text = NULL;
        snprintf(name, sizeof name, "%s%s-mapping.txt", i ? "gzip/" : "", set->name);
        TRY(fs_join(path, d->found.folder, name));
        if (!fs_exists(path)) continue;
        if (fs_read_text(path, MAX_MAPPING, &text) == ERR_OK)
            mapped = take_mapping(d, info->n_classes, text, impl);
        mem_free(&text);
        if (!mapped) idx_about(impl, "%s is not used: it does not name each of the classes", path);
    }
    for (int k = 0; k < info->n_classes && !mapped; k++) {
        if (alphabet)
            snprintf(impl->text[k], NAME_BYTES, "%c", alphabet[k]);
        else
            snprintf(impl->text[k], NAME_BYTES, "%d", k + d->first);
        impl->names[k] = impl->text[k];
    }
    if (mapped || alphabet || d->first > 0) info->class_names = impl->names;
    return ERR_OK;
}

/* EMNIST's images are stored column by column. */
static void transpose(uint8_t *pixels, shape_t *images, uint8_t *space)
{
    const int64_t n = images->dim[0], h = images->dim[1], w = images->dim[2];
    for (int64_t i = 0; i < n; i++) {
        uint8_t *image = pixels + i * h * w;
        memcpy(space, image, (size_t)(h * w));
        for (int64_t y = 0; y < w; y++)
            for (int64_t x = 0; x < h; x++) image[y * h + x] = space[x * w + y];
    }
    images->dim[1] = w;
    images->dim[2] = h;
}

static err_t turn_images(idx_data_t *d, impl_t *impl)
{
    uint8_t *space = NULL;
    if (!is_emnist(d)) return ERR_OK;
    TRY(mem_new((size_t)(d->images[SPLIT_TRAIN].dim[1] * d->images[SPLIT_TRAIN].dim[2]), "an image", &space));
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        transpose(d->pixels[split], &d->images[split], space);
    mem_free(&space);
    idx_about(impl, "images are transposed: EMNIST stores them column by column");
    return ERR_OK;
}

/* What a user may not expect of the classes. */
static void describe_classes(const idx_data_t *d, const dataset_info_t *info, impl_t *impl)
{
    enum { TOLD = 8 };
    char list[8 * TOLD] = "";
    int n = 0;
    for (int k = d->first; k <= d->last; k++) {
        if (d->seen[k] || n++ >= TOLD) continue;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", k);
    }
    if (d->first > 0)
        idx_about(impl, "labels %d to %d are classes 0 to %d, named %s to %s", d->first, d->last,
                  info->n_classes - 1, info->class_names[0], info->class_names[info->n_classes - 1]);
    if (n > 0)
        idx_about(impl, "no training image has the label%s %s%s (of %d to %d)", n > 1 ? "s" : "", list,
                  n > TOLD ? ", …" : "", d->first, d->last);
    if (d->found.others[0])
        idx_about(impl, "not used: %s; --data %s/NAME chooses another set", d->found.others, d->found.folder);
}

static err_t open_set(dataset_t *dataset, const char *where, idx_data_t *d)
{
    dataset_info_t *info = &dataset->info;
    impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "names of classes", &impl));
    dataset->impl = impl;
    TRY(idx_locate(where, &d->found));
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        TRY(read_split(dataset, d, split));
        info->n_samples[split] = d->images[split].dim[0];
    }
    const shape_t *train = &d->images[SPLIT_TRAIN], *val = &d->images[SPLIT_VAL];
    if (train->dim[1] != val->dim[1] || train->dim[2] != val->dim[2])
        RAISE(ERR_DATA,
              "%s: the training images are %" PRId64 "×%" PRId64 " pixels, but those of t10k are %" PRId64
              "×%" PRId64,
              where, train->dim[1], train->dim[2], val->dim[1], val->dim[2]);
    TRY(number_classes(d, info));
    TRY(name_classes(d, info, impl));
    TRY(turn_images(d, impl));
    describe_classes(d, info, impl);
    info->about = impl->about;
    info->height = train->dim[1];
    info->width = train->dim[2];
    info->channels = 1;
    if (d->found.set.name[0]) return fs_join(info->source, d->found.folder, d->found.set.name);
    return fs_join(info->source, "", d->found.folder);
}

static err_t open_folder(dataset_t *dataset, const char *where, const transform_settings_t *settings)
{
    (void)settings;
    idx_data_t *d = NULL;
    TRY(mem_new(sizeof *d, "a list of files", &d));
    err_t err = open_set(dataset, where, d);
    mem_free(&d);
    return err;
}

static void close_folder(dataset_t *dataset)
{
    dataset_free_memory(dataset);
    mem_free(&dataset->impl);
}

const dataset_ops_t dataset_idx = {.kind = "idx", .open = open_folder, .close = close_folder};
