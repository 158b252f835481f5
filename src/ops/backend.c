#include "ops/backend.h"

#include <string.h>

#include "ops/registry.h"

const char *const backend_names[] = {"auto", "ref", "cpu", "cuda", NULL};

err_t backend_find(const char *name, const backend_t **out)
{
    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0)
        *out = &backend_cpu;
    else if (strcmp(name, "ref") == 0)
        *out = &backend_ref;
    else if (strcmp(name, "cuda") == 0)
        RAISE(ERR_USAGE, "--device cuda: this build has no CUDA backend; use --device cpu (or auto)");
    else
        RAISE(ERR_USAGE, "there is no device '%s'; choose auto, ref, cpu or cuda", name);
    return ERR_OK;
}
