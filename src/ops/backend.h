/* Backends: who computes the operators. One table of function pointers each, chosen once at run time. */
#ifndef OPS_BACKEND_H
#define OPS_BACKEND_H

#include "ops/op.h"

/* One operator on one backend. plan may be NULL (nothing to prepare), unplan too. plan sets op->plan and the
 * two sizes; on an error it must leave nothing behind. list: op_list_algorithms; NULL where there is no
 * choice. A kernel that has it finds in op->algorithms names of its list, or "", and plan leaves there what
 * is used. */
typedef struct op_kernel {
    err_t (*plan)(op_t *op);
    err_t (*forward)(const op_t *op, const op_args_t *args);
    err_t (*backward)(const op_t *op, const op_args_t *args);
    void (*unplan)(op_t *op);
    bool fuses; /* conv2d and linear: their epilogues are understood */
    int (*list)(const op_desc_t *desc, op_pass_t pass, bool training, const char **names, int max);
} op_kernel_t;

/* Optimizers: one pass over a range of the flat buffers. Everywhere g ← gradient_scale·gradient (clipping),
 * and, where an average is kept, average ← d·average + (1−d)·w in the same pass, d = average_decay. State
 * that is not listed is not read. Weight decay λ is coupled (g ← g + λw) but for AdamW.
 *
 * OPTIM_SGD       v ← μv + g;  w ← w − lr·v, or with nesterov w ← w − lr·(g + μv). Polyak 1964; Nesterov 1983
 * in the form of Sutskever et al. 2013 that frameworks use: lr outside v, no dampening. state: v.
 * OPTIM_ADADELTA  s ← ρs + (1−ρ)g²;  Δ = √(u+ε)/√(s+ε)·g;  u ← ρu + (1−ρ)Δ²;  w ← w − lr·Δ. Zeiler 2012; lr
 * is 1 there. state: s, u. OPTIM_ADAMW     m ← β1·m + (1−β1)g;  v ← β2·v + (1−β2)g²; w ← w − lr·λ·w −
 * lr·(m/c1)/(√(v/c2) + ε),  c = 1 − β^t, t = 1 for the first step. Loshchilov & Hutter 2019, algorithm 2, its
 * λ as PyTorch has it: multiplied by the rate. state: m, v. OPTIM_LARS      v ← μv + lr·r·g;  w ← w − v,  r =
 * trust_ratio. You et al. 2017, algorithm 1. state: v. */
typedef enum optim_kind { OPTIM_SGD, OPTIM_ADADELTA, OPTIM_ADAMW, OPTIM_LARS, OPTIM_KIND_COUNT } optim_kind_t;

enum { OPTIM_MAX_STATES = 2 };

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
} optim_args_t;

typedef struct backend {
    const char *name; /* "ref", "cpu", "cuda" */
    /* Once per process, before any plan; n_threads ≥ 1. NULL: nothing to do. */
    err_t (*open)(int n_threads);
    void (*close)(void);
    const op_kernel_t *kernel[OP_KIND_COUNT];
    err_t (*optim[OPTIM_KIND_COUNT])(const optim_args_t *args);
    /* Σ x² over n elements, added up in double and in an order that depends on n alone. */
    err_t (*sum_squares)(const float *x, int64_t n, double *out);
    /* dst += src over n elements (gradients of a tensor that several layers read). */
    err_t (*accumulate)(float *dst, const float *src, int64_t n);
    /* What does the work, for the run record: "oneDNN 2.6.3, avx512_core". */
    void (*describe)(char *out, size_t n_bytes);
} backend_t;

/* "auto", "ref", "cpu" or "cuda". auto takes the best that this build and machine have. An explicit choice
 * that cannot be had is ERR_USAGE saying why; there is no silent fallback. */
err_t backend_find(const char *name, const backend_t **out);

/* Names for --device, NULL-terminated. */
extern const char *const backend_names[];

#endif
