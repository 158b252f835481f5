/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint export`: rebuilds the model from a checkpoint and hands its weights to weights.c. */
#include "train/weights/export.h"

#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/weights/model_file.h"
#include "train/weights/weights.h"

/* Refuses to replace the checkpoint by its weights. */
static err_t check_not_checkpoint(const char *from, const char *to)
{
    struct stat a, b;
    if (stat(from, &a) == 0 && stat(to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        RAISE(ERR_USAGE, "--out %s is the checkpoint itself; choose another file", to);
    return ERR_OK;
}

err_t export_checkpoint(const char *where, const char *to, const char *names)
{
    char path[FS_PATH_MAX];
    checkpoint_t *c = NULL;
    graph_t *g = NULL;
    float *params = NULL, *states = NULL;
    pixel_norm_t norm;
    bool averaged = false;
    err_t err = ERR_OK;
    TRY(model_file_locate(where, path, NULL));
    TRY(check_not_checkpoint(path, to));
    TRY_OUT(err, checkpoint_open(path, &c));
    TRY_OUT(err, model_file_graph(c, &g, &norm));
    TRY_OUT(err, mem_new_array(g->n_flat_params, sizeof *params, "weights", &params));
    TRY_OUT(err, mem_new_array(g->n_flat_states, sizeof *states, "running statistics", &states));
    TRY_OUT(err, model_file_read(c, g, params, states, NULL, &averaged));
    TRY_OUT(err, weights_export(to, names, g, params, states));
    log_info("%s: %d arrays of %s, name table %s%s", to, g->n_params + g->n_states, g->model, names,
             averaged ? " (moving average of the weights)" : "");
    const int n_channels = (int)graph_shape(g, 0).dim[3];
    for (int k = 0; k < n_channels; k++)
        log_info("pixels are normalized as (value / 255 - %.6g) / %.6g%s", norm.mean[k], norm.std[k],
                 n_channels == 1 ? ""
                 : k == 0        ? " in the first channel"
                                 : " in the next");
out:
    mem_free(&params);
    mem_free(&states);
    graph_free(&g);
    checkpoint_close(&c);
    return err;
}
