/* SPDX-License-Identifier: MIT */
/* Weights and images by a formula, so that dptrain and torchvision compare without files:
 * scripts/bench/peers/detection_formula.py in C. */
#ifndef TESTS_FORMULA_H
#define TESTS_FORMULA_H

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "compute/tensor/tensor.h"

static inline uint64_t formula_key(const char *name)
{
    uint64_t value = 0xCBF29CE484222325u;
    for (; *name; name++) value = (value ^ (unsigned char)*name) * 0x100000001B3u;
    return value;
}

/* Number i of the sequence `key`, in [-1, 1). Blocks of four numbers are cached in *block. */
typedef struct formula {
    uint64_t key;
    rng_block_t block;
} formula_t;

static inline double formula_next(formula_t *f, int64_t i)
{
    if (i % 4 == 0) f->block = rng_philox(f->key, (uint32_t)(i / 4), 0, 0, 0);
    return (double)f->block.word[i % 4] * 0x1p-31 - 1;
}

/* The first fitting part of a layer's name. */
static inline double formula_gain(const char *name)
{
    static const struct {
        const char *part;
        double gain;
    } gains[] = {
        {"body.conv1", 0.5},   {"conv2", 0.7},          {"conv3", 0.5},     {"inner_blocks", .5},
        {"layer_blocks", 0.7}, {"cls_logits", 2.0},     {"cls_score", 2.5}, {"rpn.head.bbox_pred", 0.4},
        {"bbox_pred", 2.0},    {"mask_fcn_logits", 1.0}};
    for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++)
        if (strstr(name, gains[i].part)) return gains[i].gain;
    return 1.4;
}

/* A tensor of torchvision's state_dict, in its shape. */
static inline void formula_weight(const char *name, shape_t shape, float *out)
{
    const char *leaf = strrchr(name, '.') + 1;
    const int64_t n = shape_count(shape);
    const int64_t fan_in = strstr(name, "conv5_mask") ? shape.dim[0] : n / shape.dim[0];
    double base = 0, scale;
    if (strcmp(leaf, "running_var") == 0 || (strcmp(leaf, "weight") == 0 && shape.n_dims == 1))
        base = 1, scale = 0.5;
    else if (strcmp(leaf, "running_mean") == 0)
        scale = 0.3;
    else if (strcmp(leaf, "bias") == 0)
        scale = 0.1;
    else
        scale = formula_gain(name) * sqrt(3.0 / (double)fan_in);
    formula_t f = {.key = formula_key(name)};
    for (int64_t i = 0; i < n; i++) out[i] = (float)(base + scale * formula_next(&f, i));
}

/* [canvas_height, canvas_width, 3]: blocks of 1, 8 and 32 pixels; 0 outside of height × width. */
static inline void formula_image(int64_t height, int64_t width, int64_t canvas_width, int64_t n, float *out)
{
    static const char *const names[] = {"image.1", "image.8", "image.32"};
    static const int64_t sides[] = {1, 8, 32};
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = i / (3 * canvas_width), x = i / 3 % canvas_width;
        double sum = 0;
        for (int k = 0; k < 3; k++) {
            const int64_t columns = (canvas_width + sides[k] - 1) / sides[k];
            const int64_t at = (y / sides[k] * columns + x / sides[k]) * 3 + i % 3;
            const rng_block_t b = rng_philox(formula_key(names[k]), (uint32_t)(at / 4), 0, 0, 0);
            sum += (double)b.word[at % 4] * 0x1p-31 - 1;
        }
        out[i] = y < height && x < width ? (float)sum : 0;
    }
}

#endif
