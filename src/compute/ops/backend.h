/* Backends: who computes the operators. One table of function pointers each, chosen once at run time. */
#ifndef COMPUTE_OPS_BACKEND_H
#define COMPUTE_OPS_BACKEND_H

#include "compute/ops/op.h"
#include "compute/tensor/affine.h"
#include "compute/tensor/pixel_norm.h"

/* One operator on one backend. plan may be NULL (nothing to prepare), unplan too. plan sets op->plan and the
 * two sizes; on an error it must leave nothing behind. list: op_list_algorithms; NULL where there is no
 * choice. A kernel that has it finds in op->algorithms names of its list, or "", and plan leaves there what
 * is used. */
typedef struct op_kernel {
    err_t (*plan)(op_t *op);
    err_t (*forward)(const op_t *op, const op_args_t *args);
    err_t (*backward)(const op_t *op, const op_args_t *args);
    void (*unplan)(op_t *op);
    bool fuses; /* conv2d, linear and batch_norm: epilogues are understood, and the latter's second input */
    bool tf32;  /* conv2d and linear: DTYPE_TF32 products can be had */
    /* Takes x, y and their gradients in DTYPE_BF16; for others, and where a plan calls narrow_plan itself,
     * they are converted (narrow.h). */
    bool bf16;
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
    /* On a device: nothing is changed when this number is not finite. NULL, and always on the host: no
     * condition. */
    const float *guard;
} optim_args_t;

/* What a backend is opened with. */
typedef struct backend_options {
    int n_threads;    /* of the CPU; ≥ 1 */
    int local_rank;   /* which of its host's ranks this is */
    const char *gpus; /* "0,2": the GPU of local rank 0, 1, …; NULL: local rank modulo what is visible */
    int64_t workspace_bytes; /* most scratch that an operator with a choice may take; 0: the backend's own */
} backend_options_t;

/* The accelerator of an open backend. */
typedef struct backend_device {
    int index;                        /* in this process, from 0 */
    char name[64], pci[24], uuid[40]; /* "NVIDIA H200", "0000:1b:00.0"; uuid tells GPUs of a host apart */
    int64_t memory_bytes;
    int capability; /* 90: compute capability 9.0 */
    void *stream;   /* all work of the operators, in order */
} backend_device_t;

/* Of a backend whose buffers are not host memory. Blocks are 256-byte aligned. Copies, zero and the operators
 * run in the order in which they were called, and the calls return at once: the host side of a copy is to be
 * left alone until sync. */
typedef struct backend_memory {
    /* Zeroed. ERR_SYSTEM naming `what`, how much was asked for and what is free. */
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
    /* Host memory that copies to and from the device are fast with. Zeroed. */
    err_t (*alloc_host)(size_t n_bytes, const char *what, void **out);
    void (*release_host)(void *block);
    /* Makes host memory of somebody else such memory, and no more; false: it cannot be, and copies are
     * slower. */
    bool (*pin)(void *host, size_t n_bytes);
    void (*unpin)(void *host);
    err_t (*upload)(void *device, const void *host, size_t n_bytes);
    err_t (*download)(void *host, const void *device, size_t n_bytes);
    err_t (*copy)(void *to, const void *from, size_t n_bytes); /* both on the device */
    err_t (*zero)(void *device, size_t n_bytes);
    /* As upload, but beside the operators' work, to memory that nothing given so far uses; prefetched makes
     * what is given afterwards wait for all such copies, prefetch_sync the host. */
    err_t (*prefetch)(void *device, const void *host, size_t n_bytes);
    err_t (*prefetched)(void);
    err_t (*prefetch_sync)(void);
    /* Waits for everything so far. Errors of the device surface here, too. */
    err_t (*sync)(void);
} backend_memory_t;

/* What changes from step to step and is not in a buffer; op_args_t's and optim_args_t's fields of the same
 * names. */
typedef struct backend_step {
    uint64_t step, first_sample;
    float loss_scale;
    double lr, gradient_scale, average_decay, correction[2];
} backend_step_t;

/* Recording what a step does, to run it again in one call (CUDA graphs). While it is recorded nothing is
 * computed, and nothing may wait. A recorded step reads and writes the same buffers every time; the values of
 * backend_step_t are given anew. */
typedef struct backend_graph {
    err_t (*begin)(void);
    /* Ends what begin began, also after an error in between (`failed`), when *out is NULL. */
    err_t (*end)(bool failed, void **out);
    err_t (*launch)(void *graph, const backend_step_t *values);
    void (*release)(void *graph);
} backend_graph_t;

/* Pictures as a loader has them, [n, h, w, c] of 0 … 255, to what training reads: normalised, and moved as
 * data/transform/augment.h says. The same bits as pixel_table_apply and augment_affine give. */
typedef struct pixels_args {
    const uint8_t *bytes; /* on the device */
    const affine_t *maps; /* [n] on the device; NULL: as they are */
    int64_t n, height, width, channels; /* at most PIXEL_MAX_CHANNELS */
    pixel_norm_t norm;
    float *pixels; /* on the device */
} pixels_args_t;

enum { BACKEND_MARKS = 16 };

typedef struct backend {
    const char *name; /* "ref", "cpu", "cuda" */
    /* Whether it can work on this machine; why[n_bytes] says why not. NULL: always. */
    bool (*usable)(char *why, size_t n_bytes);
    /* Once per process, before any plan. NULL: nothing to do. */
    err_t (*open)(const backend_options_t *options);
    void (*close)(void);
    const backend_memory_t *memory; /* NULL: buffers are host memory */
    const backend_graph_t *graph;   /* NULL: no recording */
    /* NULL on the host. Of the open backend. */
    const backend_device_t *(*device)(void);
    bool stores_bf16; /* between operators, op_desc_t.x_dtype and y_dtype; only on the host */
    const op_kernel_t *kernel[OP_KIND_COUNT];
    err_t (*optim[OPTIM_KIND_COUNT])(const optim_args_t *args);
    /* Σ x² over n elements, added up in double and in an order that depends on n alone. */
    err_t (*sum_squares)(const float *x, int64_t n, double *out);
    /* dst += src over n elements (gradients of a tensor that several layers read); DTYPE_BF16 only where the
     * backend stores it. */
    err_t (*accumulate)(void *dst, const void *src, int64_t n, dtype_t dtype);
    /* The following are NULL on the host, where who needs them does it himself. */
    /* totals[0] += Σ losses, totals[1] += how many predictions are their labels; predictions NULL: none. */
    err_t (*tally)(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                   float *totals);
    /* Exchanges a and b. */
    err_t (*swap)(float *a, float *b, int64_t n);
    err_t (*pixels)(const pixels_args_t *args);
    /* Rounded as bf16_round does, and back, on a stream of the caller's (gradients on their way). */
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
    /* Notes the time at which the work so far is done as mark i; seconds between two marks, after sync. */
    err_t (*mark)(int i);
    err_t (*seconds)(int from, int to, double *out);
    /* What does the work, for the run record: "oneDNN 2.6.3, avx512_core". */
    void (*describe)(char *out, size_t n_bytes);
} backend_t;

enum { BACKEND_WHY_MAX = 256 };

/* "auto", "ref", "cpu" or "cuda". auto takes the best that this build and machine have, and why says why it
 * is not a better one ("" where there is none). An explicit choice that cannot be had is ERR_USAGE saying
 * why; there is no silent fallback. */
err_t backend_find(const char *name, const backend_t **out, char why[BACKEND_WHY_MAX]);

/* Opens with the defaults: n_threads, local rank 0. */
err_t backend_open(const backend_t *backend, int n_threads);

/* Names for --device, NULL-terminated. */
extern const char *const backend_names[];

#endif
