#include "nn/scratch.h"

#include "base/rng.h"

enum { PERIOD = 4099 };

int64_t scratch_bytes(const op_desc_t *desc, bool training)
{
    int64_t n = shape_count(desc->x[0]) + shape_count(desc->y);
    for (int i = 0; i < desc->n_params; i++) n += shape_count(desc->param[i]);
    return (training ? 2 : 1) * n * (int64_t)sizeof(float);
}

/* Numbers that repeat, so that big blocks are quickly made. */
static err_t new_floats(shape_t shape, const backend_t *backend, rng_t *rng, const char *what, mirror_t *block,
                        float **out)
{
    int64_t n = shape_count(shape);
    TRY(mirror_new(backend, (size_t)n * sizeof(float), what, block));
    float *host = *out = block->host;
    for (int64_t i = 0; i < n; i++) host[i] = i < PERIOD ? (float)rng_normal(rng) : host[i - PERIOD];
    return ERR_OK;
}

void scratch_free(scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) mirror_free(&s->blocks[i]);
    *s = (scratch_t){NULL};
}

enum { X, Y, DY, DX, PARAM, DPARAM = PARAM + OP_MAX_PARAMS };

err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what, scratch_t *s)
{
    rng_t rng = rng_new(1, RNG_TEST, 0);
    mirror_t *b = s->blocks;
    *s = (scratch_t){NULL};
    err_t err = new_floats(desc->x[0], backend, &rng, what, &b[X], &s->x);
    if (err == ERR_OK) err = new_floats(desc->y, backend, &rng, what, &b[Y], &s->y);
    for (int i = 0; i < desc->n_params && err == ERR_OK; i++) {
        err = new_floats(desc->param[i], backend, &rng, what, &b[PARAM + i], &s->param[i]);
        if (err == ERR_OK && training)
            err = new_floats(desc->param[i], backend, &rng, what, &b[DPARAM + i], &s->dparam[i]);
    }
    if (err == ERR_OK && training) err = new_floats(desc->y, backend, &rng, what, &b[DY], &s->dy);
    if (err == ERR_OK && training) err = new_floats(desc->x[0], backend, &rng, what, &b[DX], &s->dx);
    if (err == ERR_OK) err = scratch_push(s);
    if (err != ERR_OK) scratch_free(s);
    return err;
}

err_t scratch_push(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(mirror_push_all(&s->blocks[i]));
    return ERR_OK;
}

err_t scratch_pull(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(mirror_pull_all(&s->blocks[i]));
    return ERR_OK;
}

err_t scratch_run(const scratch_t *s, const op_t *op, op_pass_t pass, void *saved, void *workspace)
{
    const mirror_t *b = s->blocks;
    op_args_t args = {.x = {b[X].device},
                      .y = b[Y].device,
                      .dy = b[DY].device,
                      .saved = saved,
                      .workspace = workspace,
                      .training = true};
    for (int i = 0; i < OP_MAX_PARAMS; i++) args.param[i] = b[PARAM + i].device;
    if (pass == OP_FORWARD) return op_forward(op, &args);
    if (pass == OP_BACKWARD_DATA) args.dx[0] = b[DX].device;
    for (int i = 0; i < OP_MAX_PARAMS && pass == OP_BACKWARD_WEIGHTS; i++) args.dparam[i] = b[DPARAM + i].device;
    return op_backward(op, &args);
}
