/* SPDX-License-Identifier: MIT */
/* Writes the initial weights of a model with torchvision's names, for scripts/bench/peers/init_torch.py:
 * initial_weights MODEL SIDE CHANNELS CLASSES FILE.npz */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "compute/models/model.h"
#include "train/weights/weights.h"

enum { SEED = 1 };

static err_t write_weights(const char *model, const model_options_t *options, const char *path)
{
    graph_t *g = NULL;
    float *params = NULL, *states = NULL;
    err_t err;
    TRY_OUT(err, model_build(model, options, &g));
    TRY_OUT(err, mem_new_array(g->n_flat_params, sizeof *params, "weights", &params));
    TRY_OUT(err, mem_new_array(g->n_flat_states + 1, sizeof *states, "running statistics", &states));
    graph_init(g, SEED, params, states);
    err = weights_export(path, "torchvision", g, params, states);
out:
    mem_free(&params);
    mem_free(&states);
    graph_free(&g);
    return err;
}

int main(int n, char **words)
{
    if (n != 6) {
        fprintf(stderr, "usage: initial_weights MODEL SIDE CHANNELS CLASSES FILE.npz\n");
        return ERR_USAGE;
    }
    const int side = atoi(words[2]);
    const model_options_t options = {.sample = shape_3d(side, side, atoi(words[3])),
                                     .n_classes = atoi(words[4]),
                                     .compute = DTYPE_F32,
                                     .norm = GRAPH_NORM_BATCH};
    err_t err = write_weights(words[1], &options, words[5]);
    if (err != ERR_OK) fprintf(stderr, "initial_weights: error: %s\n", err_message());
    return err;
}
