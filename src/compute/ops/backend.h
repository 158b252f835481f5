/* SPDX-License-Identifier: MIT */
/* Compute backends: one table of function pointers each, chosen once at run time. Those that compute on a device with
 * its own memory have further tables: memory, recorded steps, and the conversion of images there. */
#ifndef COMPUTE_OPS_BACKEND_H
#define COMPUTE_OPS_BACKEND_H

#include <stddef.h>

#include "compute/ops/op.h"
#include "compute/ops/optim_args.h"
#include "compute/tensor/pixels.h"

/* The accelerator of an open backend. */
typedef struct backend_device {
    int index;     /* in this process, from 0 */
    char name[64]; /* such as "NVIDIA H200" */
    char pci[24];  /* such as "0000:1b:00.0" */
    char uuid[40]; /* identifies a GPU */
    int64_t memory_bytes;
    int capability; /* such as 90 for compute capability 9.0 */
    void *stream;   /* runs all operators, in order */
} backend_device_t;

/* Device memory. Blocks are 256-byte aligned. Copies, zero and the operators are asynchronous and run in the
 * order of the calls: do not touch the host side of a copy before sync.
 *
 *   alloc          zeroed device memory; ERR_SYSTEM names `what`, the size requested and the size free
 *   alloc_host     zeroed host memory with fast copies to and from the device
 *   pin            pins host memory allocated elsewhere; false: not possible, copies are slower
 *   upload         host to device
 *   download       device to host
 *   copy           device to device
 *   prefetch       as upload, but concurrent with the operators, to memory that no earlier work uses
 *   prefetched     makes later work wait for all prefetches so far
 *   prefetch_sync  makes the host wait for them
 *   hash           word_hash (base/hash.h) of a block or its beginning, computed there; waits
 *   sync           makes the host wait for all work so far; errors of the device may surface here */
typedef struct backend_memory {
    err_t (*alloc)(size_t n_bytes, const char *what, void **out);
    void (*release)(void *block);
    err_t (*alloc_host)(size_t n_bytes, const char *what, void **out);
    void (*release_host)(void *block);
    bool (*pin)(void *host, size_t n_bytes);
    void (*unpin)(void *host);
    err_t (*upload)(void *device, const void *host, size_t n_bytes);
    err_t (*download)(void *host, const void *device, size_t n_bytes);
    err_t (*copy)(void *to, const void *from, size_t n_bytes);
    err_t (*zero)(void *device, size_t n_bytes);
    err_t (*prefetch)(void *device, const void *host, size_t n_bytes);
    err_t (*prefetched)(void);
    err_t (*prefetch_sync)(void);
    err_t (*hash)(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out);
    err_t (*sync)(void);
} backend_memory_t;

/* Values that change from step to step and are not in a buffer. They mean the same as the fields of op_args_t
 * and optim_args_t. */
typedef struct backend_step {
    uint64_t step, first_sample;
    float loss_scale;
    double lr, average_decay, correction[2];
} backend_step_t;

/* Steps that may be in flight: while one is running, the host may launch the next. */
enum { BACKEND_SLOTS = 2 };

/* Records the work of a step, to run it again in one call (a CUDA graph). While recording, nothing is
 * computed, and nothing may wait. A recorded step uses the same buffers every time, also on the host: steps
 * that may be in flight at once are recorded in different slots.
 *
 *   begin   slot < BACKEND_SLOTS: where launches put the values that the recording copies to the device
 *   end     ends the recording, also after an error in between (`failed`); then *out is NULL
 *   launch  runs the recorded step with these values. The last step launched in this slot, which is that of
 *           begin, must have ended */
typedef struct backend_graph {
    err_t (*begin)(int slot);
    err_t (*end)(bool failed, void **out);
    err_t (*launch)(void *graph, int slot, const backend_step_t *values);
    void (*release)(void *graph);
} backend_graph_t;

/* A canvas with an image at its top left; beside it the input is 0, which is the mean colour. */
typedef struct pixels_canvas {
    int64_t height, width;
    int64_t image_height, image_width; /* at most the canvas's */
} pixels_canvas_t;

/* Converts images as loaded, [n, h, w, c] of 0 … 255, to network input: normalized, and mapped as described
 * in data/transform/map.h. Bitwise equal to pixel_table_apply and warp_pixels.
 *
 *   canvases  [n], on the host, not read after the call; NULL: none. Sample i still has room for h × w × c values,
 *             and its image and its canvas are at the beginning of theirs; bitwise equal to canvas_normalize
 *             (data/transform/canvas.h). Without maps; a canvas has less than 2^31 values */
typedef struct pixels_args {
    const uint8_t *bytes; /* on the device */
    const affine_t *maps; /* [n] on the device; NULL: no map */
    const pixels_canvas_t *canvases;
    int64_t n, height, width, channels; /* channels: at most PIXEL_MAX_CHANNELS */
    pixel_norm_t norm;
    float *pixels; /* on the device */
} pixels_args_t;

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
 *                (narrow_plan)
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
 *   squares      fills optim_norms_t.squares, in an order that depends only on lengths of cells; does not wait
 *   norms        fills .out from .squares, in an order that depends only on the groups; does not wait
 *   swap         exchanges a and b
 *   pixels       images to network input (pixels_args_t)
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
    err_t (*squares)(const optim_norms_t *args);
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

/* The tables, each defined in kernels/<name>/backend.c; backend_cuda only with DPTRAIN_CUDA. */
extern const backend_t backend_ref, backend_cpu, backend_cuda;

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
