/* SPDX-License-Identifier: MIT */
/* The convolution algorithms of detectors, by a rule: measuring them for every canvas would take minutes, and results
 * would depend on what was measured. */
#include <string.h>

#include "base/mem.h"
#include "compute/graph/plan.h"
#include "compute/models/rcnn.h"

/* The fastest for these layers on AVX-512: of Winograd's algorithms the first, where the map fills its tiles; of the
 * others the second for gradients, most of all for those of weights with a stride. Winograd's gradients are as exact
 * as the others' (results/detection_parity.md). A GPU's own rule is left as it is. */
static const char winograd[] = "winograd/nhwc", product[] = "gemm";
enum { LEAST_CELLS = 256 };

/* Of one image, so that the algorithms do not depend on the micro-batch; of regions of a block. */
static bool is_large(const op_desc_t *desc, int64_t n_images)
{
    const shape_t y = desc->y[0];
    return y.dim[0] / n_images * y.dim[1] * y.dim[2] >= LEAST_CELLS;
}

static bool lists(const char *const *names, int n, const char *name)
{
    bool found = false;
    for (int i = 0; i < n; i++) found = found || strcmp(names[i], name) == 0;
    return found;
}

static err_t choose(const backend_t *backend, const op_desc_t *desc, int64_t n_images, bool training,
                    algorithms_t *out)
{
    const char *names[OP_MAX_ALGORITHMS];
    const bool convolves = desc->kind == OP_CONV2D && desc->compute == DTYPE_F32 && !backend->device;
    for (int pass = 0; pass < (training ? OP_PASS_COUNT : 1) && convolves; pass++) {
        int n = op_list_algorithms(backend, desc, (op_pass_t)pass, training, names, OP_MAX_ALGORITHMS);
        if (is_large(desc, n_images) && lists(names, n, winograd))
            TRY(algorithms_set(out, desc, (op_pass_t)pass, winograd));
        else if (pass != OP_FORWARD && lists(names, n, product))
            TRY(algorithms_set(out, desc, (op_pass_t)pass, product));
    }
    return ERR_OK;
}

err_t rcnn_algorithms(const graph_t *graph, const backend_t *backend, const batch_size_t *sizes, int n_sizes,
                      algorithms_t *out)
{
    graph_t *fused = NULL;
    op_desc_t *descs = NULL;
    err_t err;
    TRY_OUT(err, graph_fuse(graph, backend, &fused));
    TRY_OUT(err, mem_new_array(fused->n_nodes, sizeof *descs, "algorithms", &descs));
    for (int i = 0; i < n_sizes; i++) {
        TRY_OUT(err, graph_infer(fused, sizes[i].n, sizes[i].shapes, descs));
        for (int n = 0; n < fused->n_nodes; n++)
            TRY_OUT(err, choose(backend, &descs[n], fused->nodes[n].section == 0 ? sizes[i].n : 1,
                                sizes[i].training, out));
    }
out:
    mem_free(&descs);
    graph_free(&fused);
    return err;
}
