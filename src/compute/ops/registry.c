/* SPDX-License-Identifier: MIT */
/* The backends by name, and the choice that --device auto makes. */
#include "compute/ops/backend.h"

#include <stdio.h>
#include <string.h>

const char *const backend_names[] = {"auto", "ref", "cpu", "cuda", NULL};

/* NULL, with the reason in `why`, if this build or machine has no CUDA. */
static const backend_t *find_cuda(char why[BACKEND_WHY_MAX])
{
    why[0] = '\0';
#ifdef DPTRAIN_CUDA
    return backend_cuda.usable(why, BACKEND_WHY_MAX) ? &backend_cuda : NULL;
#else
    snprintf(why, BACKEND_WHY_MAX, "this build has no CUDA backend (make CUDA=1)");
    return NULL;
#endif
}

err_t backend_find(const char *name, const backend_t **out, char why[BACKEND_WHY_MAX])
{
    why[0] = '\0';
    if (strcmp(name, "auto") == 0) {
        const backend_t *cuda = find_cuda(why);
        *out = cuda ? cuda : &backend_cpu;
    } else if (strcmp(name, "cpu") == 0) {
        *out = &backend_cpu;
    } else if (strcmp(name, "ref") == 0) {
        *out = &backend_ref;
    } else if (strcmp(name, "cuda") == 0) {
        *out = find_cuda(why);
        if (!*out) RAISE(ERR_USAGE, "--device cuda is not available: %s; use --device cpu (or auto)", why);
    } else {
        RAISE(ERR_USAGE, "invalid --device '%s': expected auto, ref, cpu or cuda", name);
    }
    return ERR_OK;
}

err_t backend_find_counted(const char *name, backend_heard_t heard, void *context, const backend_t **out)
{
    if (strcmp(name, "cuda") != 0) RAISE(ERR_USAGE, "only the launches of --device cuda can be counted");
#ifdef DPTRAIN_CUDA
    *out = backend_cuda.counted(heard, context);
    return ERR_OK;
#else
    (void)heard, (void)context, (void)out;
    RAISE(ERR_USAGE, "this build has no CUDA backend (make CUDA=1)");
#endif
}

err_t backend_open(const backend_t *backend, int n_threads)
{
    backend_options_t options = {.n_threads = n_threads};
    return backend->open ? backend->open(&options) : ERR_OK;
}
