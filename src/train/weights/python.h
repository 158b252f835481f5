/* SPDX-License-Identifier: MIT */
/* Python for messages: lines that convert other programs' files, and lines that load exported weights into PyTorch.
 * Private to this room. Not collective; raises nothing. */
#ifndef TRAIN_WEIGHTS_PYTHON_H
#define TRAIN_WEIGHTS_PYTHON_H

#include <stdbool.h>

#include "base/file_kind.h"
#include "compute/graph/graph.h"

enum { PYTHON_LINES_MAX = 1536 };

typedef struct python {
    char lines[PYTHON_LINES_MAX]; /* two */
    const char *more;             /* what to know of them, after "; "; "": nothing */
} python_t;

/* Lines that write the weights of another program's file as .npz, beside it. False: not of this kind. */
bool python_convert(file_kind_t kind, const char *path, python_t *out);

/* Lines that build the model in PyTorch, and load what was exported to `path` by torchvision's names; for ONNX, lines that
 * run it. */
void python_load(const graph_t *graph, const char *path, python_t *out);

#endif
