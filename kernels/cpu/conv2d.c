#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/cpu.h"

static const conv_impl_t *const families[] = {conv_onednn, conv_gemm};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

typedef struct pass_plan {
    const conv_impl_t *impl; /* NULL: not planned */
    conv_problem_t problem;
    void *plan;
} pass_plan_t;

typedef struct conv_plan {
    pass_plan_t pass[OP_PASS_COUNT];
} conv_plan_t;

/* The rule's own choice first. */
static int list(const op_desc_t *desc, op_pass_t pass, bool training, const char **names, int max)
{
    conv_problem_t problem = {desc, pass, training};
    const conv_impl_t *first = conv_onednn_rule(&problem);
    int n = 0;
    if (first && max > 0) names[n++] = first->name;
    for (int i = 0; i < N_FAMILIES; i++)
        for (const conv_impl_t *impl = families[i]; impl->name; impl++)
            if (n < max && impl != first && impl->fits(impl, &problem)) names[n++] = impl->name;
    return n;
}

static const conv_impl_t *find(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        for (const conv_impl_t *impl = families[i]; impl->name; impl++)
            if (strcmp(impl->name, name) == 0) return impl;
    return NULL;
}

static err_t plan_pass(op_t *op, op_pass_t pass, pass_plan_t *out)
{
    char *name = op->algorithms.name[pass];
    size_t n_bytes = 0;
    out->problem = (conv_problem_t){&op->desc, pass, op->training};
    const conv_impl_t *impl = name[0] ? find(name) : conv_onednn_rule(&out->problem);
    if (!impl) RAISE(ERR_SYSTEM, "oneDNN has no implementation of conv2d, %s", op_pass_names[pass]);
    TRY(impl->plan(impl, &out->problem, &out->plan, &n_bytes));
    out->impl = impl;
    strncpy(name, impl->name, OP_ALGORITHM_MAX - 1);
    if (n_bytes > op->n_workspace_bytes) op->n_workspace_bytes = n_bytes;
    return ERR_OK;
}

static void plan_free(conv_plan_t **plan)
{
    if (!*plan) return;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        pass_plan_t *p = &(*plan)->pass[pass];
        if (p->impl) p->impl->unplan(&p->plan);
    }
    mem_free(plan);
}

static err_t plan(op_t *op)
{
    conv_plan_t *p;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    err_t err = ERR_OK;
    for (int pass = 0; pass < (op->training ? OP_PASS_COUNT : 1) && err == ERR_OK; pass++)
        err = plan_pass(op, (op_pass_t)pass, &p->pass[pass]);
    if (err != ERR_OK)
        plan_free(&p);
    else
        op->plan = p;
    return err;
}

static void unplan(op_t *op)
{
    conv_plan_t *p = op->plan;
    plan_free(&p);
    op->plan = NULL;
}

static err_t run(const op_t *op, op_pass_t pass, const op_args_t *args, const conv_buffers_t *buffers)
{
    const pass_plan_t *p = &((const conv_plan_t *)op->plan)->pass[pass];
    return p->impl->run(p->plan, &p->problem, buffers, args->workspace);
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    conv_buffers_t buffers = {
        .x = args->x[0], .weight = args->param[0], .bias = args->param[1], .y = args->y};
    return run(op, OP_FORWARD, args, &buffers);
}

static err_t backward(const op_t *op, const op_args_t *args)
{
    conv_buffers_t buffers = {.x = args->x[0],
                              .weight = args->param[0],
                              .dy = args->dy,
                              .dx = args->dx[0],
                              .dweight = args->dparam[0],
                              .dbias = args->dparam[1]};
    if (args->dx[0]) TRY(run(op, OP_BACKWARD_DATA, args, &buffers));
    return args->dparam[0] ? run(op, OP_BACKWARD_WEIGHTS, args, &buffers) : ERR_OK;
}

const op_kernel_t cpu_conv2d = {
    .plan = plan, .forward = forward, .backward = backward, .unplan = unplan, .list = list};
