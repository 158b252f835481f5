/* SPDX-License-Identifier: MIT */
/* Losses of the entries that a label selects: the shape rule, and the loops over the entries of a sample. */
#include "compute/ops/selected.h"

#include <string.h>

err_t selected_infer(op_desc_t *desc, const char *name, const selected_formula_t *formula)
{
    const shape_t *x = desc->x;
    int64_t n_x = shape_sample_count(x[0]), n_t = shape_sample_count(x[2]),
            n_labels = shape_sample_count(x[1]);
    bool fits = n_t % formula->width == 0 && n_x % n_t == 0 && n_t / formula->width % n_labels == 0 &&
                n_labels == shape_sample_count(x[3]);
    for (int i = 1; i < desc->n_inputs; i++) fits = fits && x[i].dim[0] == x[0].dim[0];
    if (!fits)
        RAISE(ERR_USAGE, "%s: predictions %s, labels %s, targets %s and weights %s do not fit together", name,
              shape_format(x[0]).text, shape_format(x[1]).text, shape_format(x[2]).text,
              shape_format(x[3]).text);
    desc->x_dtype[1] = DTYPE_I32;
    desc->y[0] = shape_1d(x[0].dim[0]);
    return ERR_OK;
}

/* One sample. */
typedef struct sample {
    const float *x, *targets, *weights;
    const int32_t *labels;
    int64_t n_entries, n_labels, n_classes;
} sample_t;

static sample_t sample_of(const op_t *op, const op_args_t *args, int width, int64_t n)
{
    const shape_t *x = op->desc.x;
    int64_t n_x = shape_sample_count(x[0]), n_t = shape_sample_count(x[2]),
            n_labels = shape_sample_count(x[1]);
    return (sample_t){(const float *)args->x[0].data + n * n_x,
                      (const float *)args->x[2].data + n * n_t,
                      (const float *)args->x[3].data + n * n_labels,
                      (const int32_t *)args->x[1].data + n * n_labels,
                      n_t / width,
                      n_labels,
                      n_x / n_t};
}

/* Where the predictions of entry i begin; -1: it has no label. */
static int64_t predictions_of(const sample_t *s, int width, int64_t i)
{
    int32_t label = s->labels[i * s->n_labels / s->n_entries];
    ASSERT(label < s->n_classes);
    return label < 0 ? -1 : (i * s->n_classes + label) * width;
}

float selected_loss(const op_t *op, const op_args_t *args, const selected_formula_t *formula, int64_t n)
{
    const sample_t s = sample_of(op, args, formula->width, n);
    double sum = 0;
    for (int64_t i = 0; i < s.n_entries; i++) {
        int64_t at = predictions_of(&s, formula->width, i);
        for (int k = 0; k < formula->width && at >= 0; k++)
            sum += s.weights[i * s.n_labels / s.n_entries] *
                   formula->loss(&op->desc.attr, s.x[at + k], s.targets[i * formula->width + k]);
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
        int64_t at = predictions_of(&s, formula->width, i);
        for (int k = 0; k < formula->width && at >= 0; k++)
            dx[at + k] =
                (float)(s.weights[i * s.n_labels / s.n_entries] * scale *
                        formula->slope(&op->desc.attr, s.x[at + k], s.targets[i * formula->width + k]));
    }
}
