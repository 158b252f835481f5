/* SPDX-License-Identifier: MIT */
/* Losses of the entries that a label selects: the shape rule, and the loops over the entries of a sample. */
#include "compute/ops/selected.h"

#include <string.h>

selected_sizes_t selected_sizes(const op_desc_t *desc)
{
    const shape_t *x = desc->x;
    return (selected_sizes_t){shape_sample_count(x[0]),
                              shape_sample_count(x[desc->n_inputs > SELECTED_TARGETS ? SELECTED_TARGETS : 0]),
                              shape_sample_count(x[SELECTED_LABELS])};
}

int32_t selected_lowest(const op_desc_t *desc)
{
    return desc->kind == OP_SMOOTH_L1 ? desc->attr.smooth_l1.lowest : 0;
}

err_t selected_infer(op_desc_t *desc, const char *name, const selected_formula_t *formula)
{
    const shape_t *x = desc->x;
    const selected_sizes_t n = selected_sizes(desc);
    const bool targets = desc->n_inputs > SELECTED_TARGETS;
    bool fits = n.n_t % formula->width == 0 && n.n_x % n.n_t == 0 &&
                n.n_t / formula->width % n.n_labels == 0 &&
                n.n_labels == shape_sample_count(x[SELECTED_WEIGHTS]);
    for (int i = 1; i < desc->n_inputs; i++) fits = fits && x[i].dim[0] == x[0].dim[0];
    if (!fits)
        RAISE(ERR_USAGE, "%s: predictions %s, labels %s, weights %s and targets %s do not fit together", name,
              shape_format(x[0]).text, shape_format(x[SELECTED_LABELS]).text,
              shape_format(x[SELECTED_WEIGHTS]).text,
              targets ? shape_format(x[SELECTED_TARGETS]).text : "of the labels");
    desc->x_dtype[SELECTED_LABELS] = DTYPE_I32;
    desc->y[0] = shape_1d(x[0].dim[0]);
    return ERR_OK;
}

/* One sample. */
typedef struct sample {
    const float *x, *targets, *weights;
    const int32_t *labels;
    int64_t n_entries, n_labels, n_classes;
    int width;
    int32_t lowest;
} sample_t;

static sample_t sample_of(const op_t *op, const op_args_t *args, int width, int64_t n)
{
    const selected_sizes_t count = selected_sizes(&op->desc);
    const float *targets = op->desc.n_inputs > SELECTED_TARGETS ? args->x[SELECTED_TARGETS].data : NULL;
    return (sample_t){(const float *)args->x[0].data + n * count.n_x,
                      targets ? targets + n * count.n_t : NULL,
                      (const float *)args->x[SELECTED_WEIGHTS].data + n * count.n_labels,
                      (const int32_t *)args->x[SELECTED_LABELS].data + n * count.n_labels,
                      count.n_t / width,
                      count.n_labels,
                      count.n_x / count.n_t,
                      width,
                      selected_lowest(&op->desc)};
}

/* Where the predictions of entry i begin; -1: it does not count. Its weight, and its target k. */
static int64_t predictions_of(const sample_t *s, int64_t i)
{
    int32_t label = s->labels[i * s->n_labels / s->n_entries];
    if (label < s->lowest) return -1;
    if (s->n_classes == 1) return i * s->width;
    ASSERT(label < s->n_classes);
    return (i * s->n_classes + label) * s->width;
}

static double weight_of(const sample_t *s, int64_t i)
{
    return s->weights[i * s->n_labels / s->n_entries];
}

static double target_of(const sample_t *s, int64_t i, int k)
{
    return s->targets ? s->targets[i * s->width + k] : (double)s->labels[i * s->n_labels / s->n_entries];
}

float selected_loss(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n)
{
    const sample_t s = sample_of(op, args, formula->width, n);
    double sum = 0;
    for (int64_t i = 0; i < s.n_entries; i++) {
        int64_t at = predictions_of(&s, i);
        for (int k = 0; k < s.width && at >= 0; k++)
            sum += weight_of(&s, i) * formula->loss(&op->desc.attr, s.x[at + k], target_of(&s, i, k));
    }
    return (float)sum;
}

void selected_gradient(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n)
{
    const sample_t s = sample_of(op, args, formula->width, n);
    const int64_t n_x = shape_sample_count(op->desc.x[0]);
    const double scale = (double)args->loss.scale * args->loss.weight;
    float *dx = (float *)args->dx[0].data + n * n_x;
    memset(dx, 0, (size_t)n_x * sizeof *dx);
    for (int64_t i = 0; i < s.n_entries; i++) {
        int64_t at = predictions_of(&s, i);
        for (int k = 0; k < s.width && at >= 0; k++)
            dx[at + k] = (float)(weight_of(&s, i) * scale *
                                 formula->slope(&op->desc.attr, s.x[at + k], target_of(&s, i, k)));
    }
}
