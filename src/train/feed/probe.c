/* SPDX-License-Identifier: MIT */
/* Decodes one image of each format and split, so that unusable data ends a run at once. All other images are
 * left to the loader. */
#include "train/feed/probe.h"

#include <string.h>

#include "base/mem.h"

enum { MAX_LOOKS = 64, MAX_FORMATS = 8 };

typedef struct formats {
    char name[MAX_FORMATS][DATASET_FORMAT_MAX];
    int n;
} formats_t;

static bool is_known(const formats_t *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0) return true;
    return false;
}

/* Reads a sample unless its format is known. A corrupt one leaves its format unknown. */
static err_t probe_sample(dataset_reader_t *reader, dataset_request_t *request, formats_t *known,
                          corrupt_samples_t *bad)
{
    const dataset_ops_t *ops = reader->dataset->ops;
    char format[DATASET_FORMAT_MAX] = "";
    dataset_sample_t sample;
    if (ops->format) TRY(ops->format(reader, request->split, request->index, format));
    if (known->n == MAX_FORMATS || is_known(known, format)) return ERR_OK;
    err_t err = dataset_read(reader, request, &sample);
    if (err == ERR_DATA) return bad_add(bad, request->split, reader->image, CORRUPT_REPLACED);
    if (err == ERR_OK) memcpy(known->name[known->n++], format, sizeof format);
    return err;
}

static err_t probe_split(dataset_reader_t *reader, split_t split, corrupt_samples_t *bad)
{
    const int64_t n = reader->dataset->info.n_samples[split], looks = n < MAX_LOOKS ? n : MAX_LOOKS;
    formats_t known = {.n = 0};
    for (int64_t i = 0; i < looks; i++) {
        dataset_request_t request = {.split = split, .index = i * n / looks};
        TRY(probe_sample(reader, &request, &known, bad));
    }
    return ERR_OK;
}

err_t probe_images(const dataset_t *dataset, corrupt_samples_t *bad)
{
    dataset_reader_t reader = {0};
    err_t err = ERR_OK;
    if (!dataset->ops->read) return ERR_OK;
    TRY_OUT(err, dataset_reader_open(dataset, &reader));
    for (split_t split = 0; split < SPLIT_COUNT; split++) TRY_OUT(err, probe_split(&reader, split, bad));
out:
    dataset_reader_close(&reader);
    return err;
}
