/* SPDX-License-Identifier: MIT */
/* Named values that a sample has beside its image, as "label" or "target": what a task needs of its
 * annotations. */
#ifndef DATA_DATASET_FIELD_H
#define DATA_DATASET_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compute/tensor/tensor.h"

enum { FIELDS_MAX = 8 };

/* A field has one row per sample, or 0 … max_rows of them (ragged). */
typedef struct field {
    const char *name; /* of the model's input that it is for */
    dtype_t dtype;
    int64_t row;      /* elements of a row */
    int64_t max_rows; /* per sample; 0: not ragged */
} field_t;

typedef struct fields {
    int n;
    bool on_host; /* the host reads them in the middle of a step: they stay in its memory */
    field_t at[FIELDS_MAX];
} fields_t;

/* Where to write a sample's rows of a field. */
typedef struct field_place {
    void *data;      /* room for one row, or max_rows */
    int64_t *n_rows; /* ragged: receives their number; otherwise NULL */
} field_place_t;

/* A field of a batch of n samples: the rows of all samples, one after another. */
typedef struct batch_field {
    void *data;
    int64_t *offsets; /* ragged: [n + 1], sample i has rows offsets[i] … offsets[i + 1]; otherwise NULL */
} batch_field_t;

/* Of kinds whose samples have a label alone. places: the request's, or NULL. */
static inline void field_put_label(const field_place_t *places, int32_t label)
{
    if (places) memcpy(places[0].data, &label, sizeof label);
}

static inline size_t field_row_bytes(const field_t *field)
{
    return (size_t)field->row * dtype_size(field->dtype);
}

/* The most bytes of a sample. */
static inline size_t field_sample_bytes(const field_t *field)
{
    return field_row_bytes(field) * (size_t)(field->max_rows ? field->max_rows : 1);
}

/* The bytes of a batch. */
static inline size_t batch_field_bytes(const field_t *field, const batch_field_t *of, int64_t n)
{
    return field_row_bytes(field) * (size_t)(of->offsets ? of->offsets[n] : n);
}

#endif
