/* SPDX-License-Identifier: MIT */
/* Optimizers as a backend computes them: the formulas, the arguments of one pass over a range of the flat
 * parameter buffer, and the norms that clipping and LARS need. Learning rates and which parameters decay are
 * left to train/learn. */
#ifndef COMPUTE_OPS_OPTIM_ARGS_H
#define COMPUTE_OPS_OPTIM_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* In all of them g ← gradient_scale·gradient (clipping). If an average is kept, the same pass computes
 * average ← d·average + (1−d)·w, with d = average_decay. Weight decay λ is coupled (g ← g + λw), except in
 * AdamW. An optimizer reads and writes only the states listed for it.
 *
 *   OPTIM_SGD       v ← μv + g
 *                   w ← w − lr·v, or with nesterov w ← w − lr·(g + μv)
 *                   Polyak 1964; Nesterov 1983 in the form of Sutskever et al. 2013 that frameworks use:
 *                   lr outside v, no dampening. State: v
 *   OPTIM_ADADELTA  s ← ρs + (1−ρ)g²
 *                   Δ = √(u+ε)/√(s+ε)·g
 *                   u ← ρu + (1−ρ)Δ²
 *                   w ← w − lr·Δ
 *                   Zeiler 2012, where lr is 1. State: s, u
 *   OPTIM_ADAMW     m ← β1·m + (1−β1)g
 *                   v ← β2·v + (1−β2)g²
 *                   w ← w − lr·λ·w − lr·(m/c1)/(√(v/c2) + ε),  c = 1 − β^t, t = 1 for the first step
 *                   Loshchilov & Hutter 2019, algorithm 2, with λ multiplied by lr as in PyTorch. State: m, v
 *   OPTIM_LARS      v ← μv + lr·r·g,  r = trust_ratio
 *                   w ← w − v
 *                   You et al. 2017, algorithm 1. State: v */
typedef enum optim_kind { OPTIM_SGD, OPTIM_ADADELTA, OPTIM_ADAMW, OPTIM_LARS, OPTIM_KIND_COUNT } optim_kind_t;

enum { OPTIM_MAX_STATES = 2 };

/* A range of the flat buffers. */
typedef struct optim_span {
    int64_t first, n; /* for optim_args_t multiples of 4 */
    bool is_weight;   /* has weight decay and a trust ratio; otherwise its decay is 0 and its ratio 1 */
} optim_span_t;

typedef struct optim_args {
    float *weight;
    const float *gradient;
    float *state[OPTIM_MAX_STATES];
    float *average; /* NULL: none */
    int64_t n;
    double lr, gradient_scale, weight_decay, average_decay;
    double momentum;      /* μ: SGD, LARS */
    double rho;           /* Adadelta */
    double beta[2];       /* AdamW */
    double correction[2]; /* AdamW: 1 − β^t */
    double epsilon;       /* Adadelta, AdamW */
    double trust_ratio;   /* LARS */
    bool nesterov;        /* SGD */
    /* Values on the device that replace gradient_scale and trust_ratio: where optim_norms_t.out has them. If
     * the scale is not finite, nothing is changed. NULL: the values above, as always on the host. */
    const double *scale_at, *ratio_at;
    /* Ranges that are treated differently, in one pass, on the device: [n_spans] in ascending order, which cover
     * the n elements. ratio_at, if any, has the ratio of each. Arrays are 16-byte aligned. NULL: all elements are
     * treated alike, as always on the host. */
    const optim_span_t *spans;
    int n_spans;
    /* Values on the device: if *guard is not finite, nothing is changed, neither now nor by later calls with
     * the same `halted`, which is then 1 and must begin as 0. NULL: no condition, as always on the host. */
    const float *guard;
    float *halted;
} optim_args_t;

/* Values of optim_norms_t.out: the norm of all gradients, their scale, the ratio of group i. */
enum { OPTIM_NORM, OPTIM_SCALE, OPTIM_RATIO };

/* Gradient norms, the scale that clips them and LARS's trust ratios, in double. All pointers are the device's. Squares are summed
 * cell by cell, so that cells may be computed apart; then the cells of a group.
 *
 *   scale  clip_norm/‖g‖ if clip_norm > 0 and ‖g‖ exceeds it, otherwise 1; NaN if ‖g‖ is not finite
 *   ratio  trust·‖w‖ / (scale·‖g‖ + weight_decay·‖w‖ + epsilon) over the group; 1 if a norm is 0 */
typedef struct optim_norms {
    const float *weight, *gradient;
    const optim_span_t *cells;  /* [n_cells] of the buffers; an empty one has the sum 0 */
    const optim_span_t *groups; /* [n_groups]: cells [first, first + n) */
    int n_cells, n_groups;
    int64_t n;         /* elements in all cells */
    int64_t n_longest; /* no cell has more; the order in a cell depends on it */
    double clip_norm;  /* 0: no clipping */
    double trust;      /* 0: no ratios; then weight is not read */
    double weight_decay, epsilon;
    double *squares; /* [n_cells] of gradients, then as many of weights, if there are ratios */
    double *sums;    /* the same of groups; scratch of `norms` */
    double *out;     /* OPTIM_RATIO + n_groups; without ratios OPTIM_RATIO */
} optim_norms_t;

#endif
