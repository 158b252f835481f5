/* SPDX-License-Identifier: MIT */
/* Compute backends: one table of function pointers each, chosen once at run time. */
#ifndef COMPUTE_OPS_BACKEND_H
#define COMPUTE_OPS_BACKEND_H

#include "compute/ops/backend_device.h"
#include "compute/ops/op.h"
#include "compute/ops/optim_args.h"

/* One operator on one backend.
 *
 *   plan         sets op->plan and the two sizes; on an error it leaves nothing allocated. NULL: nothing to
 *                prepare. If there is a list, op->algorithms holds a name of it or "" for each pass; plan
 *                stores the names it uses
 *   unplan       frees op->plan; may be NULL
 *   fuses        epilogues, and the second input of batch_norm, are supported
 *   accumulates  gradients are added where op_args_t asks for it
 *                (roi_align: term by term); otherwise the kernel never sees these flags: op_backward adds
 *                what it writes
 *   tf32         conv2d and linear: DTYPE_TF32 products are supported
 *   bf16         x, y and their gradients may be DTYPE_BF16, all of them; otherwise they are converted
 *                (narrow.h)
 *   mixes        with bf16: some may be float32
 *   list         op_list_algorithms; NULL: a single algorithm. only: NULL, or the only name of interest: where that
 *                is cheaper, the others are not asked
 *   macs         op_work_t.macs of a planned pass, or less than 0: those with pixels inside the image, as with
 *                NULL */
typedef struct op_kernel {
    err_t (*plan)(op_t *op);
    err_t (*forward)(const op_t *op, const op_args_t *args);
    err_t (*backward)(const op_t *op, const op_args_t *args);
    void (*unplan)(op_t *op);
    bool fuses, accumulates, tf32, bf16, mixes;
    int (*list)(const op_desc_t *desc, op_pass_t pass, bool training, const char *only, const char **names,
                int max);
    double (*macs)(const op_t *op, op_pass_t pass);
} op_kernel_t;

/* Options of backend_t.open. */
typedef struct backend_options {
    int n_threads;           /* CPU threads; ≥ 1 */
    int local_rank;          /* index of this rank on its host */
    const char *gpus;        /* GPUs of local ranks 0, 1, …: "0,2"; NULL: local rank modulo visible GPUs */
    int64_t workspace_bytes; /* most scratch per operator with several algorithms; 0: the default */
} backend_options_t;

enum { BACKEND_MARKS = 16 };

/* Hears of a launch: the kernel's name, static, and the bytes of every array that it reads or writes. */
typedef void (*backend_heard_t)(void *context, const char *kernel, int64_t n_bytes);

/* What this rank's hardware does at most. */
typedef struct backend_peak {
    double per_sec;
    int n_threads;       /* of the host, that run at once; 0: a device */
    int64_t cache_bytes; /* of a device; 0: the host's */
    char from[40];       /* what measured it: "vdpbf16ps", "a product of 8192 x 8192 x 8192" */
} backend_peak_t;

/* The functions of a backend. Fields may be NULL only where noted.
 *
 *   usable       whether the backend works on this machine; if not, why[n_bytes] gets the reason. NULL:
 *                always
 *   open         once per process, before any plan. NULL: nothing to do
 *   device       the device of the open backend; NULL on host backends, as are memory and graph
 *   stores_bf16  op_desc_t.x_dtype and y_dtype may be bfloat16
 *   sum_squares  Σ x² over n elements, accumulated in double in an order that depends only on n; host
 *                backends only
 *   accumulate   dst += src over n elements (gradients that are sums: op_args_t.accumulate_dx). DTYPE_BF16
 *                only with stores_bf16
 *   peak_flops   FLOP/s of products in this type, 2 per multiply-add, in tens of milliseconds: of the CPU's best
 *                instruction, or of a device's best product of large matrices of that type. NULL: unknown
 *   peak_bytes   bytes per second, read or written beyond the caches; n_bytes: of an array that exceeds the
 *                host's caches. NULL: unknown
 *   describe     implementation and version for the run record, such as "oneDNN 2.6.3, avx512_core"
 *   describe_algorithms  the same of libraries that only some algorithms need, which are loaded for this, such
 *                as "cuDNN 9.19.0". NULL: there are none
 *
 * NULL on host backends, where callers fall back to plain C:
 *
 *   tally        totals[0] += Σ losses, totals[1] += number of predictions equal to their labels;
 *                predictions may be NULL
 *   norms        optim_norms_t, in an order that depends only on the spans; does not wait
 *   swap         exchanges a and b
 *   pixels       images to network input (backend_device.h)
 *   narrow       rounds as bf16_round does, on the given stream (gradients being reduced, copies of tensors)
 *   widen        the reverse of narrow
 *   mark         records time stamp i < BACKEND_MARKS after the work so far
 *   wait         makes the host wait for the work before a mark made outside of recordings
 *   seconds      time between two marks; call it after waiting for both
 *   counted      this backend without a device: launches are reported instead of run, and device memory does
 *                not exist. One at a time; other functions of this table must not be in use */
typedef struct backend {
    const char *name;
    bool (*usable)(char *why, size_t n_bytes);
    err_t (*open)(const backend_options_t *options);
    void (*close)(void);
    const backend_device_t *(*device)(void);
    const backend_memory_t *memory;
    const backend_graph_t *graph;
    bool stores_bf16;
    const op_kernel_t *kernel[OP_KIND_COUNT];
    err_t (*optim[OPTIM_KIND_COUNT])(const optim_args_t *args);
    err_t (*sum_squares)(const float *x, int64_t n, double *out);
    err_t (*norms)(const optim_norms_t *args);
    err_t (*accumulate)(void *dst, const void *src, int64_t n, dtype_t dtype);
    err_t (*tally)(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                   float *totals);
    err_t (*swap)(float *a, float *b, int64_t n);
    err_t (*pixels)(const pixels_args_t *args);
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
    err_t (*mark)(int i);
    err_t (*wait)(int mark);
    err_t (*seconds)(int from, int to, double *out);
    const struct backend *(*counted)(backend_heard_t heard, void *context);
    err_t (*peak_flops)(dtype_t compute, backend_peak_t *out);
    err_t (*peak_bytes)(int64_t n_bytes, backend_peak_t *out);
    void (*describe)(char *out, size_t n_bytes);
    void (*describe_algorithms)(char *out, size_t n_bytes);
} backend_t;

enum { BACKEND_WHY_MAX = 256 };

/* Finds a backend by name. An explicit choice that is not available is ERR_USAGE with the reason: there is no
 * silent fallback.
 *
 *   name  "auto", "ref", "cpu" or "cuda"; auto picks the fastest available in this build on this machine
 *   why   with auto, why a faster backend was not picked; "" if there is none */
err_t backend_find(const char *name, const backend_t **out, char why[BACKEND_WHY_MAX]);

/* backend_t.counted of the backend of this name; ERR_USAGE if it has none or this build lacks it. Needs no
 * device. */
err_t backend_find_counted(const char *name, backend_heard_t heard, void *context, const backend_t **out);

/* Opens with default options except n_threads; local rank 0. */
err_t backend_open(const backend_t *backend, int n_threads);

/* Names for --device, NULL-terminated. */
extern const char *const backend_names[];

#endif
