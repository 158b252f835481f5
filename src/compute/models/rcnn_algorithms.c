/* SPDX-License-Identifier: MIT */
/* The convolution algorithms of detectors, by a rule: measuring them for every canvas would take minutes, and results
 * would depend on what was measured. */
#include <string.h>

#include "base/mem.h"
#include "compute/graph/fuse.h"
#include "compute/models/rcnn.h"

/* Of Winograd's algorithms the one that was the fastest for these layers on AVX-512; smaller maps do not fill its
 * tiles. */
static const char winograd[] = "winograd/nhwc";
enum { LEAST_CELLS = 512 };

static bool is_large(const op_desc_t *desc)
{
    const shape_t y = desc->y[0];
    return desc->kind == OP_CONV2D && desc->compute == DTYPE_F32 &&
           y.dim[0] * y.dim[1] * y.dim[2] >= LEAST_CELLS;
}

static bool lists(const char *const *names, int n, const char *name)
{
    bool found = false;
    for (int i = 0; i < n; i++) found = found || strcmp(names[i], name) == 0;
    return found;
}

static err_t choose(const backend_t *backend, const op_desc_t *desc, bool training, algorithms_t *out)
{
    const char *names[OP_MAX_ALGORITHMS];
    for (int pass = 0; pass < (training ? OP_PASS_COUNT : 1) && is_large(desc); pass++) {
        int n = op_list_algorithms(backend, desc, (op_pass_t)pass, training, names, OP_MAX_ALGORITHMS);
        if (lists(names, n, winograd)) TRY(algorithms_set(out, desc, (op_pass_t)pass, winograd));
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
            TRY_OUT(err, choose(backend, &descs[n], sizes[i].training, out));
    }
out:
    mem_free(&descs);
    graph_free(&fused);
    return err;
}
