/* SPDX-License-Identifier: MIT */
/* Compute backends: one table of function pointers each, chosen once at run time. */
#ifndef COMPUTE_OPS_BACKEND_H
#define COMPUTE_OPS_BACKEND_H

#include "compute/ops/op.h"
#include "compute/tensor/affine.h"
#include "compute/tensor/pixel_norm.h"

/* One operator on one backend.
 *
 *   plan    sets op->plan and the two sizes; leaves nothing allocated on an error. NULL: nothing to prepare
 *   unplan  frees op->plan; may be NULL
 *   list    op_list_algorithms; NULL: there is no choice. Otherwise plan finds in op->algorithms names of its
 *           list, or "", and stores the names that are used */
typedef struct op_kernel {
    err_t (*plan)(op_t *op);
    err_t (*forward)(const op_t *op, const op_args_t *args);
    err_t (*backward)(const op_t *op, const op_args_t *args);
    void (*unplan)(op_t *op);
    bool fuses; /* epilogues, and the second input of batch_norm, are supported */
    bool tf32;  /* conv2d and linear: DTYPE_TF32 products are available */
    /* Accepts x, y and their gradients in DTYPE_BF16. Otherwise, or if plan calls narrow_plan itself, they
     * are converted (narrow.h). */
    bool bf16;
    int (*list)(const op_desc_t *desc, op_pass_t pass, bool training, const char **names, int max);
} op_kernel_t;

/* Optimizers: one pass over a range of the flat buffers. In all of them g ← gradient_scale·gradient
 * (clipping); if an average is kept, average ← d·average + (1−d)·w in the same pass, d = average_decay. State
 * that is not listed is not read. Weight decay λ is coupled (g ← g + λw), except in AdamW.
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
    /* On a device: if this value is not finite, nothing is changed. NULL (always on the host): no
     * condition. */
    const float *guard;
} optim_args_t;

/* Options of backend_t.open. */
typedef struct backend_options {
    int n_threads;           /* CPU threads; ≥ 1 */
    int local_rank;          /* index of this rank on its host */
    const char *gpus;        /* GPUs of local ranks 0, 1, …: "0,2"; NULL: local rank modulo visible GPUs */
    int64_t workspace_bytes; /* most scratch per operator with a choice; 0: the default */
} backend_options_t;

/* The accelerator of an open backend. */
typedef struct backend_device {
    int index;                        /* index in this process, from 0 */
    char name[64], pci[24], uuid[40]; /* such as "NVIDIA H200", "0000:1b:00.0"; uuid identifies a GPU */
    int64_t memory_bytes;
    int capability; /* such as 90 for compute capability 9.0 */
    void *stream;   /* runs all operators, in order */
} backend_device_t;

/* Memory of a backend whose buffers are not host memory. Blocks are 256-byte aligned. Copies, zero and the
 * operators are asynchronous and run in the order of the calls: the host side of a copy must not be touched
 * before sync. */
typedef struct backend_memory {
    /* Zeroed. ERR_SYSTEM names `what`, the size asked for and what is free. */
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
    /* Host memory with fast copies to and from the device. Zeroed. */
    err_t (*alloc_host)(size_t n_bytes, const char *what, void **out);
    void (*release_host)(void *block);
    /* Pins host memory allocated elsewhere; false: not possible, copies are slower. */
    bool (*pin)(void *host, size_t n_bytes);
    void (*unpin)(void *host);
    err_t (*upload)(void *device, const void *host, size_t n_bytes);
    err_t (*download)(void *host, const void *device, size_t n_bytes);
    err_t (*copy)(void *to, const void *from, size_t n_bytes); /* both on the device */
    err_t (*zero)(void *device, size_t n_bytes);
    /* As upload, but concurrent with the operators' work, to memory that no earlier work uses. prefetched
     * makes later work wait for all such copies; prefetch_sync makes the host wait. */
    err_t (*prefetch)(void *device, const void *host, size_t n_bytes);
    err_t (*prefetched)(void);
    err_t (*prefetch_sync)(void);
    /* Waits for all work so far. Errors of the device may surface here. */
    err_t (*sync)(void);
} backend_memory_t;

/* Values that change from step to step and are not in a buffer; the same as the fields of op_args_t and
 * optim_args_t. */
typedef struct backend_step {
    uint64_t step, first_sample;
    float loss_scale;
    double lr, gradient_scale, average_decay, correction[2];
} backend_step_t;

/* Records the work of a step, to run it again in one call (a CUDA graph). While recording, nothing is
 * computed, and nothing may wait. A recorded step uses the same buffers every time; the values of
 * backend_step_t are passed to each launch. */
typedef struct backend_graph {
    err_t (*begin)(void);
    /* Ends the recording, also after an error in between (`failed`); then *out is NULL. */
    err_t (*end)(bool failed, void **out);
    err_t (*launch)(void *graph, const backend_step_t *values);
    void (*release)(void *graph);
} backend_graph_t;

/* Converts images as loaded, [n, h, w, c] of 0 … 255, to network input: normalized, and mapped as described
 * in data/transform/warp.h. Bitwise equal to pixel_table_apply and warp_pixels. */
typedef struct pixels_args {
    const uint8_t *bytes;               /* on the device */
    const affine_t *maps;               /* [n] on the device; NULL: no map */
    int64_t n, height, width, channels; /* channels: at most PIXEL_MAX_CHANNELS */
    pixel_norm_t norm;
    float *pixels; /* on the device */
} pixels_args_t;

enum { BACKEND_MARKS = 16 };

typedef struct backend {
    const char *name; /* "ref", "cpu", "cuda" */
    /* Whether it works on this machine; if not, why[n_bytes] says why. NULL: always. */
    bool (*usable)(char *why, size_t n_bytes);
    /* Once per process, before any plan. NULL: nothing to do. */
    err_t (*open)(const backend_options_t *options);
    void (*close)(void);
    const backend_memory_t *memory; /* NULL: buffers are host memory */
    const backend_graph_t *graph;   /* NULL: no recording */
    /* The device of the open backend. NULL for host backends. */
    const backend_device_t *(*device)(void);
    bool stores_bf16; /* op_desc_t.x_dtype and y_dtype may be bfloat16; host backends only */
    const op_kernel_t *kernel[OP_KIND_COUNT];
    err_t (*optim[OPTIM_KIND_COUNT])(const optim_args_t *args);
    /* Σ x² over n elements, accumulated in double in an order that depends only on n. */
    err_t (*sum_squares)(const float *x, int64_t n, double *out);
    /* dst += src over n elements (gradients of a tensor that several layers read). DTYPE_BF16 only with
     * stores_bf16. */
    err_t (*accumulate)(void *dst, const void *src, int64_t n, dtype_t dtype);
    /* The following are NULL for host backends; callers fall back to plain C. */
    /* totals[0] += Σ losses, totals[1] += number of predictions equal to their labels; predictions may be
     * NULL. */
    err_t (*tally)(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                   float *totals);
    /* Exchanges a and b. */
    err_t (*swap)(float *a, float *b, int64_t n);
    err_t (*pixels)(const pixels_args_t *args);
    /* Rounds as bf16_round does, and widens, on the given stream (gradients being reduced). */
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
    /* mark records a time stamp i after the work so far; seconds is the time between two marks, after
     * sync. */
    err_t (*mark)(int i);
    err_t (*seconds)(int from, int to, double *out);
    /* Implementation and version for the run record, such as "oneDNN 2.6.3, avx512_core". */
    void (*describe)(char *out, size_t n_bytes);
} backend_t;

enum { BACKEND_WHY_MAX = 256 };

/* Finds a backend: "auto", "ref", "cpu" or "cuda". auto takes the best that this build and machine have;
 * `why` then says why it is not a better one ("" if there is none better). An explicit choice that is not
 * available is ERR_USAGE with the reason: there is no silent fallback. */
err_t backend_find(const char *name, const backend_t **out, char why[BACKEND_WHY_MAX]);

/* Opens with default options but n_threads; local rank 0. */
err_t backend_open(const backend_t *backend, int n_threads);

/* Names for --device, NULL-terminated. */
extern const char *const backend_names[];

#endif
