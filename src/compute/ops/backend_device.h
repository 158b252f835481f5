/* SPDX-License-Identifier: MIT */
/* The tables of a backend that computes on a device with its own memory: memory, recorded steps, and the
 * conversion of images there. Host backends have none of them. */
#ifndef COMPUTE_OPS_BACKEND_DEVICE_H
#define COMPUTE_OPS_BACKEND_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/affine.h"
#include "compute/tensor/pixel_norm.h"

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

#endif
