/* SPDX-License-Identifier: MIT */
/* Dropout with masks drawn from the counter-based generator of base/rng.h: keyed by layer, step and global
 * sample, so that they depend neither on threads nor on ranks. */
#include <string.h>

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* Saved: one byte per element, 1 if it is kept. */
static err_t cpu_dropout_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.y[0]) : 0;
    return ERR_OK;
}

static float scale_of(const op_t *op)
{
    return (float)(1 / (1 - op->desc.attr.dropout.rate));
}

LOOP_CLONES(mask_and_scale, (float *y, const float *x, const uint8_t *keep, float scale, int64_t n),
            (y, x, keep, scale, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float value = x[i], kept = keep[i] ? value : 0;
        y[i] = kept * scale;
    }
}

/* Blocks of random words drawn together, so that the loop vectorizes; four elements each. */
enum { DRAW = 16 };

/* keep[0..n) for elements first, first + 1, … of a sample. first: a multiple of 4. */
LOOP_CLONES(draw_mask,
            (const op_t *op, const op_args_t *args, uint64_t sample, int64_t first, int64_t n, uint8_t *keep),
            (op, args, sample, first, n, keep))
{
    /* Rate 0 gives 2^32, hence 64 bits. */
    uint64_t threshold = (uint64_t)((1 - op->desc.attr.dropout.rate) * 4294967296.0),
             step = args->dropout.step;
    uint64_t key = args->dropout.key;
    uint32_t layer = args->dropout.layer, word[4][DRAW];
    uint8_t drawn[4 * DRAW];
    for (int64_t i = 0; i < n; i += 4 * DRAW) {
        uint32_t block = (uint32_t)((first + i) / 4);
#pragma omp simd
        for (int b = 0; b < DRAW; b++) {
            rng_block_t random = rng_dropout_block(key, layer, step, sample, block + (uint32_t)b);
            word[0][b] = random.word[0], word[1][b] = random.word[1];
            word[2][b] = random.word[2], word[3][b] = random.word[3];
        }
        for (int b = 0; b < DRAW; b++)
            for (int j = 0; j < 4; j++) drawn[4 * b + j] = word[j][b] < threshold;
        memcpy(keep + i, drawn, (size_t)loop_count(i, n, 4 * DRAW));
    }
}

enum { MASK_BLOCK = 1024 };

static void forward_sample(const op_t *op, const op_args_t *args, int64_t sample)
{
    int64_t n = shape_sample_count(op->desc.y[0]), offset = sample * n;
    const float *x = (const float *)args->x[0].data + offset;
    float *y = (float *)args->y[0].data + offset, scale = scale_of(op);
    uint8_t *saved = op->n_saved_bytes ? (uint8_t *)args->saved + offset : NULL;
    for (int64_t i = 0; i < n; i += MASK_BLOCK) {
        uint8_t mask[MASK_BLOCK], *keep = saved ? saved + i : mask;
        int64_t count = loop_count(i, n, MASK_BLOCK);
        draw_mask(op, args, args->dropout.first_sample + (uint64_t)sample, i, count, keep);
        mask_and_scale(y + i, x + i, keep, scale, count);
    }
}

/* Evaluation: y = x, and the mask keeps everything, in case backward is called. */
static void forward_identity(const op_t *op, const op_args_t *args)
{
    size_t n = (size_t)shape_count(op->desc.y[0]);
    if (args->y[0].data != args->x[0].data) memcpy(args->y[0].data, args->x[0].data, n * sizeof(float));
    if (op->n_saved_bytes) memset(args->saved, 1, n);
}

static err_t cpu_dropout_forward(const op_t *op, const op_args_t *args)
{
    if (!args->training) {
        forward_identity(op, args);
        return ERR_OK;
    }
    int64_t n_samples = op->desc.y[0].dim[0];
#pragma omp parallel for schedule(static) if (shape_count(op->desc.y[0]) > LOOP_FORK_MIN)
    for (int64_t sample = 0; sample < n_samples; sample++) forward_sample(op, args, sample);
    return ERR_OK;
}

static err_t cpu_dropout_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const float *dy = args->dy[0].data;
    const uint8_t *saved = args->saved;
    float *dx = args->dx[0].data, scale = scale_of(op);
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK)
        mask_and_scale(dx + i, dy + i, saved + i, scale, loop_count(i, n, LOOP_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_dropout = {
    .plan = cpu_dropout_plan, .forward = cpu_dropout_forward, .backward = cpu_dropout_backward};
