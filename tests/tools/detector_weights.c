/* SPDX-License-Identifier: MIT */
/* Writes initial weights of a model: detector_weights MODEL CLASSES FILE.npz [HEADS], with the names of HEADS, one of
 * model_heads [torchvision]. The heads' are larger, so that a detector finds something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compute/models/model.h"
#include "text/opt.h"
#include "train/weights/weights.h"

static void enlarge_heads(const graph_t *g, float *params)
{
    for (int i = 0; i < g->n_params; i++) {
        const graph_param_t *p = &g->params[i];
        if (!strstr(p->name, "_predictor.") && !strstr(p->name, "rpn.head.")) continue;
        for (int64_t k = 0; k < shape_count(p->shape); k++) params[p->offset + k] *= 4;
    }
}

static err_t write_weights(const char *model, int n_classes, const char *path, model_heads_t heads)
{
    const model_options_t options = {
        .sample = shape_3d(64, 64, 3), .n_classes = n_classes, .compute = DTYPE_F32, .heads = heads};
    graph_t *g = NULL;
    float *params = NULL, *states = NULL;
    err_t err;
    TRY_OUT(err, model_build(model, &options, &g));
    TRY_OUT(err, mem_new_array(g->n_flat_params, sizeof *params, "weights", &params));
    TRY_OUT(err, mem_new_array(g->n_flat_states, sizeof *states, "running statistics", &states));
    graph_init(g, 1, params, states);
    enlarge_heads(g, params);
    err = weights_export(path, model_heads[heads], g, params, states);
out:
    mem_free(&params);
    mem_free(&states);
    graph_free(&g);
    return err;
}

int main(int n, char **words)
{
    const int heads = n == 5 ? opt_index(model_heads, words[4]) : MODEL_HEADS_TORCHVISION;
    if (n < 4 || n > 5 || heads < 0) {
        fprintf(stderr, "usage: detector_weights MODEL CLASSES FILE.npz [HEADS]\n");
        return ERR_USAGE;
    }
    err_t err = write_weights(words[1], atoi(words[2]), words[3], (model_heads_t)heads);
    if (err != ERR_OK) fprintf(stderr, "detector_weights: error: %s\n", err_message());
    return err;
}
