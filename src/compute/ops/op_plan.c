/* SPDX-License-Identifier: MIT */
/* Binds operators to a backend, with the requested algorithms. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/ops/narrow.h"

int op_list_algorithms(const backend_t *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    return kernel && kernel->list ? kernel->list(desc, pass, training, NULL, names, max) : 0;
}

bool op_has_algorithm(const backend_t *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                      const char *name)
{
    const char *names[OP_MAX_ALGORITHMS];
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    int n = kernel && kernel->list ? kernel->list(desc, pass, training, name, names, OP_MAX_ALGORITHMS) : 0;
    while (n > 0 && strcmp(names[n - 1], name) != 0) n--;
    return n > 0;
}

/* Stores the requested algorithm of one pass, if the backend has it. */
static err_t want_algorithm(op_t *op, op_pass_t pass, const char *wanted)
{
    const char *names[OP_MAX_ALGORITHMS];
    char key[OP_KEY_MAX], choice[512] = "";
    if (!wanted[0]) return ERR_OK;
    if (op_has_algorithm(op->backend, &op->desc, pass, op->training, wanted)) {
        snprintf(op->algorithms.name[pass], OP_ALGORITHM_MAX, "%s", wanted);
        return ERR_OK;
    }
    int n = op_list_algorithms(op->backend, &op->desc, pass, op->training, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(choice);
        snprintf(choice + used, sizeof choice - used, "%s%s", used ? ", " : "", names[i]);
    }
    /* A backend lists only algorithms that it could set up. */
    TRY(mem_check_room("setting up algorithms"));
    op_key(&op->desc, key);
    if (n == 0)
        RAISE(ERR_USAGE, "%s, %s: the %s backend offers no choice of algorithms, but '%s' was requested", key,
              op_pass_names[pass], op->backend->name, wanted);
    RAISE(ERR_USAGE, "%s, %s: algorithm '%s' is not available; choose from %s", key, op_pass_names[pass],
          wanted, choice);
}

err_t op_plan(const backend_t *backend, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
              op_t **out)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    if (!kernel)
        RAISE(ERR_SYSTEM, "the %s backend has no %s; use --device cpu", backend->name,
              op_traits(desc->kind)->name);
    if (desc->compute == DTYPE_TF32 && !kernel->tf32)
        RAISE(ERR_USAGE, "tf32 needs the tensor cores of a GPU; use --device cuda, or --precision fp32");
    ASSERT(kernel->fuses || !op_is_fused(desc));
    ASSERT(backend->stores_bf16 || !op_is_narrow(desc));
    op_t *op;
    TRY(mem_new(sizeof *op, "an operator", &op));
    *op = (op_t){.desc = *desc,
                 .backend = backend,
                 .training = training,
                 .reads_x = op_traits(desc->kind)->backward_needs_x,
                 .reads_y = op_traits(desc->kind)->backward_needs_y,
                 .adds_dx = kernel->accumulates,
                 .adds_dparam = kernel->accumulates};
    err_t err = ERR_OK;
    int n_passes = wanted ? training ? OP_PASS_COUNT : 1 : 0;
    for (int pass = 0; pass < n_passes && err == ERR_OK; pass++)
        err = want_algorithm(op, (op_pass_t)pass, wanted->name[pass]);
    if (err == ERR_OK && kernel->plan) err = kernel->plan(op);
    bool takes = kernel->bf16 && (kernel->mixes || op_is_all_narrow(desc));
    if (err == ERR_OK && op_is_narrow(desc) && !takes) narrow_plan(op);
    if (err != ERR_OK) {
        mem_free(&op);
        return err;
    }
    *out = op;
    return ERR_OK;
}

void op_free(op_t **op)
{
    if (!*op) return;
    const op_kernel_t *kernel = (*op)->backend->kernel[(*op)->desc.kind];
    if (kernel->unplan) kernel->unplan(*op);
    mem_free(op);
}
