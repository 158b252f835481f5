/* SPDX-License-Identifier: MIT */
/* Sizes and scratch of losses of the entries that a label selects; the kernels are in selected.cuh. */
#include "kernels/cuda/selected.h"

/* Parts of a sample that blocks add up; each reads several values a thread. */
static int parts_of(const op_desc_t *desc)
{
    enum { EACH = 2048, MOST = 64 };
    int64_t n = (selected_sizes(desc).n_t - 1) / EACH + 1;
    return n < MOST ? (int)n : MOST;
}

err_t cuda_selected_plan(op_t *op)
{
    const int n_parts = parts_of(&op->desc);
    if (n_parts > 1) op->n_workspace_bytes = (size_t)(op->desc.x[0].dim[0] * n_parts) * sizeof(double);
    return ERR_OK;
}

selected_t cuda_selected(const op_t *op, const op_args_t *args, const selected_formula_t *formula)
{
    const op_desc_t *d = &op->desc;
    const selected_sizes_t size = selected_sizes(d);
    return (selected_t){.n = op_rows(op, args),
                        .n_t = size.n_t,
                        .n_labels = size.n_labels,
                        .n_classes = size.n_x / size.n_t,
                        .n_each = size.n_t / formula->width / size.n_labels,
                        .lowest = selected_lowest(d),
                        .n_parts = parts_of(d),
                        .x = args->x[0].data,
                        .labels = args->x[SELECTED_LABELS].data,
                        .weights = args->x[SELECTED_WEIGHTS].data,
                        .targets = d->n_inputs > SELECTED_TARGETS ? args->x[SELECTED_TARGETS].data : NULL,
                        .loss = args->y[0].data,
                        .parts = args->workspace};
}

err_t cuda_selected_clear(const selected_t *s, float *dx)
{
    if (s->n_classes == 1) return ERR_OK;
    return cuda_memory.zero(dx, (size_t)(s->n * s->n_t * s->n_classes) * sizeof *dx);
}

step_f32_t cuda_selected_scale(const op_args_t *args)
{
    return (step_f32_t){args->loss.scale, cuda_recorded(offsetof(backend_step_t, loss_scale))};
}
