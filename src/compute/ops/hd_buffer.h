/* SPDX-License-Identifier: MIT */
/* Host/device buffers: memory with a side that the host reads and writes and a side that a backend computes
 * on. On host backends both sides are the same memory, and push and pull do nothing. Not collective. */
#ifndef COMPUTE_OPS_HD_BUFFER_H
#define COMPUTE_OPS_HD_BUFFER_H

#include "compute/ops/backend.h"

typedef struct hd_buffer {
    void *host, *device;
    size_t n_bytes;
    const backend_t *backend;
    bool own_host, own_device; /* allocated here */
    bool pinned;               /* the caller's host side was pinned here */
} hd_buffer_t;

/* Allocates both sides, zeroed; host pages are touched. ERR_SYSTEM names `what`. */
err_t hd_buffer_new(const backend_t *backend, size_t n_bytes, const char *what, hd_buffer_t *out);

/* As hd_buffer_new, around memory of the caller, which must outlive the buffer and is not zeroed.
 *
 *   host    the host side, which is pinned; NULL: allocated here
 *   device  the device side; NULL: allocated here, always on host backends */
err_t hd_buffer_wrap(const backend_t *backend, size_t n_bytes, const char *what, void *host, void *device,
                     hd_buffer_t *out);

/* Accepts an all-zero buffer, and leaves one. */
void hd_buffer_free(hd_buffer_t *buffer);

/* Copies host to device, in order with the backend's work. Do not touch the host side before hd_buffer_pull
 * or backend_sync has returned. */
err_t hd_buffer_push(const hd_buffer_t *buffer, size_t offset, size_t n_bytes);
err_t hd_buffer_push_all(const hd_buffer_t *buffer);

/* Copies device to host; pull also waits for the copy. pull_begin can be part of a recorded step. */
err_t hd_buffer_pull_begin(const hd_buffer_t *buffer, size_t offset, size_t n_bytes);
err_t hd_buffer_pull(const hd_buffer_t *buffer, size_t offset, size_t n_bytes);
err_t hd_buffer_pull_all(const hd_buffer_t *buffer);

/* A 64-bit hash of the device side, which is not copied: XXH3 on host backends, word_hash elsewhere. Waits for the work
 * so far. hd_buffer_hash_host: of the host side, the same for the same bytes. */
err_t hd_buffer_hash(const hd_buffer_t *buffer, uint64_t seed, uint64_t *out);
uint64_t hd_buffer_hash_host(const hd_buffer_t *buffer, uint64_t seed);

/* Memory that only the backend reads and writes: on its device, or from base/mem.h. Zeroed.
 *
 *   out_pointer     address of a pointer of any type
 *   in_out_pointer  address of a pointer, which may be NULL and is set to NULL */
err_t backend_alloc(const backend_t *backend, size_t n_bytes, const char *what, void *out_pointer);
void backend_release(const backend_t *backend, void *in_out_pointer);

err_t backend_zero(const backend_t *backend, void *block, size_t n_bytes);
err_t backend_copy(const backend_t *backend, void *to, const void *from, size_t n_bytes);

/* Waits for all work given to the backend. */
err_t backend_sync(const backend_t *backend);

#endif
