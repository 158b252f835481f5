#include "nn/scratch.h"

#include "base/mem.h"
#include "base/rng.h"

enum { PERIOD = 4099 };

int64_t scratch_bytes(const op_desc_t *desc, bool training)
{
    int64_t n = shape_count(desc->x[0]) + shape_count(desc->y);
    for (int i = 0; i < desc->n_params; i++) n += shape_count(desc->param[i]);
    return (training ? 2 : 1) * n * (int64_t)sizeof(float);
}

static err_t new_floats(shape_t shape, rng_t *rng, const char *what, float **out)
{
    int64_t n = shape_count(shape);
    TRY(mem_new_array(n, sizeof(float), what, out));
    for (int64_t i = 0; i < n; i++) (*out)[i] = i < PERIOD ? (float)rng_normal(rng) : (*out)[i - PERIOD];
    return ERR_OK;
}

void scratch_free(scratch_t *s)
{
    mem_free(&s->x), mem_free(&s->y), mem_free(&s->dy), mem_free(&s->dx);
    for (int i = 0; i < OP_MAX_PARAMS; i++) mem_free(&s->param[i]), mem_free(&s->dparam[i]);
}

err_t scratch_new(const op_desc_t *desc, bool training, const char *what, scratch_t *s)
{
    rng_t rng = rng_new(1, RNG_TEST, 0);
    *s = (scratch_t){NULL};
    err_t err = new_floats(desc->x[0], &rng, what, &s->x);
    if (err == ERR_OK) err = new_floats(desc->y, &rng, what, &s->y);
    for (int i = 0; i < desc->n_params && err == ERR_OK; i++) {
        err = new_floats(desc->param[i], &rng, what, &s->param[i]);
        if (err == ERR_OK && training) err = new_floats(desc->param[i], &rng, what, &s->dparam[i]);
    }
    if (err == ERR_OK && training) err = new_floats(desc->y, &rng, what, &s->dy);
    if (err == ERR_OK && training) err = new_floats(desc->x[0], &rng, what, &s->dx);
    if (err != ERR_OK) scratch_free(s);
    return err;
}

err_t scratch_run(const scratch_t *s, const op_t *op, op_pass_t pass, void *saved, void *workspace)
{
    op_args_t args = {
        .x = {s->x}, .y = s->y, .dy = s->dy, .saved = saved, .workspace = workspace, .training = true};
    for (int i = 0; i < OP_MAX_PARAMS; i++) args.param[i] = s->param[i];
    if (pass == OP_FORWARD) return op_forward(op, &args);
    if (pass == OP_BACKWARD_DATA) args.dx[0] = s->dx;
    for (int i = 0; i < OP_MAX_PARAMS && pass == OP_BACKWARD_WEIGHTS; i++) args.dparam[i] = s->dparam[i];
    return op_backward(op, &args);
}
