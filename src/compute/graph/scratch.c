/* SPDX-License-Identifier: MIT */
/* Operands for one operator outside of a graph, filled with normally distributed values, and a run of one
 * pass on them. */
#include "compute/graph/scratch.h"

#include "base/rng.h"
#include "compute/tensor/float16.h"

enum { PERIOD = 4099, N_PIECE = 256 * PERIOD };

int64_t scratch_bytes(const op_desc_t *desc, bool training)
{
    int64_t n = shape_count(desc->x[0]) * (int64_t)dtype_size(desc->x_dtype[0]) +
                shape_count(desc->y[0]) * (int64_t)dtype_size(desc->y_dtype[0]);
    for (int i = 0; i < desc->n_params; i++) n += shape_count(desc->param[i]) * (int64_t)sizeof(float);
    return (training ? 2 : 1) * n;
}

/* Generator of values; they repeat, so that large blocks are filled quickly. */
typedef struct maker {
    const backend_t *backend;
    const char *what;
    bool device_only;
    rng_t rng;
} maker_t;

static void fill(maker_t *m, int64_t n, dtype_t dtype, void *block)
{
    float *wide = block;
    uint16_t *narrow = block;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == DTYPE_BF16)
            narrow[i] = i < PERIOD ? bf16_from_float((float)rng_normal(&m->rng)) : narrow[i - PERIOD];
        else
            wide[i] = i < PERIOD ? (float)rng_normal(&m->rng) : wide[i - PERIOD];
    }
}

/* Fills a block on the device with copies of a piece, whose length is a multiple of the values' period. */
static err_t make_on_device(maker_t *m, int64_t n, dtype_t dtype, hd_buffer_t *block)
{
    const backend_t *backend = m->backend;
    const size_t n_bytes = (size_t)n * dtype_size(dtype);
    hd_buffer_t piece;
    TRY(hd_buffer_new(backend, (size_t)(n < N_PIECE ? n : N_PIECE) * dtype_size(dtype), m->what, &piece));
    *block = (hd_buffer_t){.backend = backend, .own_device = true};
    err_t err = backend_alloc(backend, n_bytes, m->what, &block->device);
    if (err != ERR_OK) *block = (hd_buffer_t){0};
    fill(m, n < N_PIECE ? n : N_PIECE, dtype, piece.host);
    if (err == ERR_OK) err = hd_buffer_push_all(&piece);
    for (size_t at = 0; err == ERR_OK && at < n_bytes; at += piece.n_bytes) {
        const size_t left = n_bytes - at;
        err = backend_copy(backend, (char *)block->device + at, piece.device,
                           left < piece.n_bytes ? left : piece.n_bytes);
    }
    if (err == ERR_OK) err = backend_sync(backend);
    hd_buffer_free(&piece);
    return err;
}

static err_t scratch_make(maker_t *m, shape_t shape, dtype_t dtype, hd_buffer_t *block, float **out)
{
    int64_t n = shape_count(shape);
    if (m->device_only) return make_on_device(m, n, dtype, block);
    TRY(hd_buffer_new(m->backend, (size_t)n * dtype_size(dtype), m->what, block));
    if (dtype == DTYPE_F32) *out = block->host;
    fill(m, n, dtype, block->host);
    return ERR_OK;
}

void scratch_free(scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) hd_buffer_free(&s->blocks[i]);
    *s = (scratch_t){NULL};
}

enum { X, Y, DY, DX, PARAM, DPARAM = PARAM + OP_MAX_PARAMS };

static err_t make_all(maker_t m, const op_desc_t *desc, bool training, scratch_t *s)
{
    dtype_t x = desc->x_dtype[0], y = desc->y_dtype[0];
    hd_buffer_t *b = s->blocks;
    *s = (scratch_t){NULL};
    err_t err = scratch_make(&m, desc->x[0], x, &b[X], &s->x);
    if (err == ERR_OK) err = scratch_make(&m, desc->y[0], y, &b[Y], &s->y);
    for (int i = 0; i < desc->n_params && err == ERR_OK; i++) {
        err = scratch_make(&m, desc->param[i], DTYPE_F32, &b[PARAM + i], &s->param[i]);
        if (err == ERR_OK && training)
            err = scratch_make(&m, desc->param[i], DTYPE_F32, &b[DPARAM + i], &s->dparam[i]);
    }
    if (err == ERR_OK && training) err = scratch_make(&m, desc->y[0], y, &b[DY], &s->dy);
    if (err == ERR_OK && training) err = scratch_make(&m, desc->x[0], x, &b[DX], &s->dx);
    if (err == ERR_OK) err = scratch_push(s);
    if (err != ERR_OK) scratch_free(s);
    return err;
}

err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                  scratch_t *s)
{
    return make_all((maker_t){backend, what, false, rng_new(1, RNG_TEST, 0)}, desc, training, s);
}

err_t scratch_new_device(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                         scratch_t *s)
{
    bool device_only = backend->memory != NULL;
    return make_all((maker_t){backend, what, device_only, rng_new(1, RNG_TEST, 0)}, desc, training, s);
}

err_t scratch_push(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(hd_buffer_push_all(&s->blocks[i]));
    return ERR_OK;
}

err_t scratch_pull(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(hd_buffer_pull_all(&s->blocks[i]));
    return ERR_OK;
}

static op_args_t args_of(const scratch_t *s, const op_t *op, op_pass_t pass)
{
    const hd_buffer_t *b = s->blocks;
    op_args_t args = op_args(op);
    args.x[0].data = b[X].device, args.y[0].data = b[Y].device, args.training = true;
    for (int i = 0; i < OP_MAX_PARAMS; i++) args.param[i].data = b[PARAM + i].device;
    if (pass == OP_FORWARD) return args;
    args.dy[0].data = b[DY].device;
    if (pass == OP_BACKWARD_DATA) args.dx[0].data = b[DX].device;
    for (int i = 0; i < OP_MAX_PARAMS && pass == OP_BACKWARD_WEIGHTS; i++)
        args.dparam[i].data = b[DPARAM + i].device;
    return args;
}

err_t scratch_run(const scratch_t *s, const op_t *op, op_pass_t pass, void *saved, void *workspace)
{
    op_args_t args = args_of(s, op, pass);
    args.saved = saved, args.workspace = workspace;
    return pass == OP_FORWARD ? op_forward(op, &args) : op_backward(op, &args);
}

op_work_t scratch_work(const scratch_t *s, const op_t *op, op_pass_t pass)
{
    const op_args_t args = args_of(s, op, pass);
    return op_work(op, &args, pass);
}
