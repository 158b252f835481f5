/* SPDX-License-Identifier: MIT */
/* The parts of direct convolutions that do not depend on the instruction set: sizes, packed weights, padded images.
 * The arithmetic is in tile.h. */
#include "kernels/cpu/direct/direct.h"

#include <omp.h>
#include <string.h>

#include "kernels/cpu/loop.h"

int64_t direct_padded(const direct_isa_t *isa, int64_t n)
{
    return (n + isa->n_tile - 1) / isa->n_tile * isa->n_tile;
}

int direct_block(int64_t k)
{
    static const int blocks[] = {10, 8, 5, 4};
    int best = blocks[0];
    for (int i = 1; i < 4; i++) {
        int64_t rest = (blocks[i] - k % blocks[i]) % blocks[i], least = (best - k % best) % best;
        if (rest < least) best = blocks[i];
    }
    return best;
}

/* Vector loads may begin at the last value and reach beyond it. */
enum { SLACK = 64 };

int64_t direct_image_size(const direct_conv_t *v)
{
    return (v->h + 2 * v->pad_h) * (v->w + 2 * v->pad_w) * v->c + SLACK;
}

int64_t direct_dense_size(const direct_conv_t *v)
{
    return v->oh * v->ow * v->k + SLACK;
}

int64_t direct_packed_size(const direct_conv_t *v)
{
    int64_t most = v->k > v->c ? v->k : v->c, least = v->k < v->c ? v->k : v->c;
    return (int64_t)v->r * v->s * (most + 10) * (least + 10);
}

int64_t direct_workspace_size(const direct_conv_t *v)
{
    int64_t n_sums = (int64_t)v->r * (v->s * v->c + SLACK) * (v->k + SLACK);
    return n_sums + omp_get_max_threads() * (direct_image_size(v) + direct_dense_size(v));
}

/* packed[j][tap][block]: outputs from j · block on. */
void direct_pack_forward(const direct_conv_t *v, const float *weights, float *packed)
{
    int block = direct_block(v->k);
    int64_t n_taps = (int64_t)v->r * v->s * v->c;
    for (int64_t first = 0; first < v->k; first += block)
        for (int64_t tap = 0; tap < n_taps; tap++)
            for (int64_t k = first; k < first + block; k++)
                *packed++ = k < v->k ? weights[k * n_taps + tap] : 0;
}

/* packed[j][r][s][k][block]: inputs from j · block on. */
void direct_pack_backward(const direct_conv_t *v, const float *weights, float *packed)
{
    int block = direct_block(v->c);
    int64_t n_cells = (int64_t)v->r * v->s;
    for (int64_t first = 0; first < v->c; first += block)
        for (int64_t cell = 0; cell < n_cells; cell++)
            for (int64_t k = 0; k < v->k; k++)
                for (int64_t c = first; c < first + block; c++)
                    *packed++ = c < v->c ? weights[(k * n_cells + cell) * v->c + c] : 0;
}

void direct_pad_image(const direct_conv_t *v, const float *image, float *padded)
{
    int64_t row = v->w * v->c, padded_row = (v->w + 2 * v->pad_w) * v->c;
    if (v->pad_h || v->pad_w) memset(padded, 0, (size_t)(direct_image_size(v) - SLACK) * sizeof *padded);
    for (int64_t h = 0; h < v->h; h++)
        memcpy(padded + (h + v->pad_h) * padded_row + v->pad_w * v->c, image + h * row,
               (size_t)row * sizeof *image);
}
