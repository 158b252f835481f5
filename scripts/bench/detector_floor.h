/* SPDX-License-Identifier: MIT */
/* The least time that a step's layers could take on this core: products at the rate of its multiply-adds, bytes at the
 * rate of a large array that is read or copied, whichever takes longer. 3x3 convolutions of stride 1 are counted with a quarter of their
 * products, as Winograd's F(4x4, 3x3) has, and without its transforms. */
#ifndef SCRIPTS_BENCH_DETECTOR_FLOOR_H
#define SCRIPTS_BENCH_DETECTOR_FLOOR_H

#include <math.h>
#include <string.h>

#include "compute/graph/exec.h"

typedef struct floor_rates {
    double flops, bytes; /* per second */
} floor_rates_t;

static inline err_t floor_measure(const backend_t *backend, floor_rates_t *out)
{
    backend_peak_t flops, bytes;
    TRY(backend->peak_flops(DTYPE_F32, &flops));
    TRY(backend->peak_bytes(64 << 20, &bytes));
    *out = (floor_rates_t){flops.per_sec, bytes.per_sec};
    return ERR_OK;
}

static inline double floor_tensors(const shape_t *shape, int n)
{
    double elements = 0;
    for (int i = 0; i < n; i++) elements += (double)shape_count(shape[i]);
    return 4 * elements;
}

static inline double floor_products(const op_desc_t *d, double macs)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    const bool winograd = d->kind == OP_CONV2D && a->groups == 1 && a->kernel_h == 3 && a->kernel_w == 3 &&
                          a->stride_h == 1 && a->stride_w == 1 && a->dilation_h == 1 && a->dilation_w == 1;
    return winograd ? macs / 4 : macs;
}

/* Bytes of a layer's inputs, of which some may belong to another section: those of RoIAlign are maps of the image. */
static inline double floor_inputs(const graph_t *g, const graph_node_t *node, double rows)
{
    double bytes = 0;
    for (int i = 0; i < node->desc.n_inputs; i++) {
        const bool whole = g->values[node->input[i]].section == 0;
        bytes += (whole ? 1 : rows) * floor_tensors(&node->desc.x[i], 1);
    }
    return bytes;
}

/* Seconds of both passes of a layer, each tensor read or written once: forward x, y and the parameters; backward x, dy,
 * dx, the parameters and their gradients.
 *
 *   rows  of the layer's section; 1 for an image
 *   cost  what really ran: a pass without seconds did not */
static inline double floor_of_layer(const graph_t *g, const graph_node_t *node, const exec_cost_t *cost,
                                    double rows, const floor_rates_t *rates)
{
    const op_desc_t *d = &node->desc;
    const double x = floor_inputs(g, node, rows), y = rows * floor_tensors(d->y, d->n_outputs),
                 w = floor_tensors(d->param, d->n_params);
    const double forward =
        fmax(2 * floor_products(d, cost->forward_macs) / rates->flops, (x + y + w) / rates->bytes);
    if (cost->backward_sec <= 0) return forward;
    const double passes = op_macs(d) > 0 ? cost->backward_macs / fmax(cost->forward_macs, 1) : 2;
    const double bytes = passes > 1 ? 2 * x + y + 2 * w : x + y + w; /* one gradient or both */
    return forward + fmax(2 * floor_products(d, cost->backward_macs) / rates->flops, bytes / rates->bytes);
}

#endif
