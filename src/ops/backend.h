/* Backends: who computes the operators. One table of function pointers each, chosen once at run time. */
#ifndef OPS_BACKEND_H
#define OPS_BACKEND_H

#include "ops/op.h"

/* One operator on one backend. plan may be NULL (nothing to prepare), unplan too. plan sets op->plan and the
 * two sizes; on an error it must leave nothing behind. */
typedef struct op_kernel {
    err_t (*plan)(op_t *op);
    err_t (*forward)(const op_t *op, const op_args_t *args);
    err_t (*backward)(const op_t *op, const op_args_t *args);
    void (*unplan)(op_t *op);
} op_kernel_t;

/* SGD with momentum over n elements of the flat buffers, in one pass:
 *   v ← momentum·v + g;  w ← w − lr·v          (Polyak 1964, in the form all frameworks use) */
typedef struct sgd_args {
    float *weight;
    const float *gradient;
    float *velocity;
    int64_t n;
    float lr, momentum;
} sgd_args_t;

typedef struct backend {
    const char *name; /* "ref", "cpu", "cuda" */
    /* Once per process, before any plan; n_threads ≥ 1. NULL: nothing to do. */
    err_t (*open)(int n_threads);
    void (*close)(void);
    const op_kernel_t *kernel[OP_KIND_COUNT];
    err_t (*sgd)(const sgd_args_t *args);
    /* dst += src over n elements (gradients of a tensor that several layers read). */
    err_t (*accumulate)(float *dst, const float *src, int64_t n);
    /* What does the work, for the run record: "oneDNN 2.6.3, avx512_core". */
    void (*describe)(char *out, size_t n_bytes);
} backend_t;

/* "auto", "ref", "cpu" or "cuda". auto takes the best that this build and machine have. An explicit choice that
 * cannot be had is ERR_USAGE saying why; there is no silent fallback. */
err_t backend_find(const char *name, const backend_t **out);

/* Names for --device, NULL-terminated. */
extern const char *const backend_names[];

#endif
