/* SPDX-License-Identifier: MIT */
/* The detector that a benchmark runs: its name, with ":bf16" for products of bfloat16. */
#ifndef SCRIPTS_BENCH_DETECTION_MODEL_H
#define SCRIPTS_BENCH_DETECTION_MODEL_H

#include <string.h>

#include "base/err.h"
#include "compute/models/model.h"

/* Cuts a precision off the name, and builds the model with 91 classes. */
static inline err_t detection_model_build(char *name, model_options_t *options, graph_t **out)
{
    char *precision = strchr(name, ':');
    if (precision) *precision++ = '\0';
    if (precision && !model_compute(precision, &options->compute))
        RAISE(ERR_USAGE, "%s: unknown precision '%s': expected fp32 or bf16", name, precision);
    options->n_classes = 91;
    return model_build(name, options, out);
}

#endif
