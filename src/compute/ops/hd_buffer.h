/* SPDX-License-Identifier: MIT */
/* Host/device buffers: memory a backend computes on and the host reads and writes. On host backends both
 * sides are the same memory, and push and pull do nothing. Not collective. */
#ifndef COMPUTE_OPS_HD_BUFFER_H
#define COMPUTE_OPS_HD_BUFFER_H

#include "compute/ops/backend.h"

typedef struct hd_buffer {
    void *host, *device;
    size_t n_bytes;
    const backend_t *backend;
    bool own_host, own_device, pinned; /* pinned: the caller's host side was pinned here */
} hd_buffer_t;

/* Both sides are zeroed; host pages are touched. ERR_SYSTEM names `what`. */
err_t hd_buffer_new(const backend_t *backend, size_t n_bytes, const char *what, hd_buffer_t *out);

/* As hd_buffer_new, but `host`, `device` or both belong to the caller and outlive the buffer; they are not
 * zeroed. NULL: allocated here. On host backends `device` must be NULL. */
err_t hd_buffer_wrap(const backend_t *backend, size_t n_bytes, const char *what, void *host, void *device,
                     hd_buffer_t *out);

/* Accepts an all-zero buffer, and leaves one. */
void hd_buffer_free(hd_buffer_t *mirror);

/* Host to device, in order with the backend's work. The host side must not be touched before something waits
 * (hd_buffer_pull, backend_sync). */
err_t hd_buffer_push(const hd_buffer_t *mirror, size_t offset, size_t n_bytes);
err_t hd_buffer_push_all(const hd_buffer_t *mirror);

/* Device to host; waits for the copy. */
err_t hd_buffer_pull(const hd_buffer_t *mirror, size_t offset, size_t n_bytes);
err_t hd_buffer_pull_all(const hd_buffer_t *mirror);

/* Memory that only the backend reads and writes; from base/mem.h on the host. Zeroed. backend_release takes
 * the address of a pointer, which may be NULL, and sets it to NULL. */
err_t backend_alloc(const backend_t *backend, size_t n_bytes, const char *what, void *out_pointer);
void backend_release(const backend_t *backend, void *in_out_pointer);

err_t backend_zero(const backend_t *backend, void *block, size_t n_bytes);
err_t backend_copy(const backend_t *backend, void *to, const void *from, size_t n_bytes);

/* Waits for all work given to the backend. */
err_t backend_sync(const backend_t *backend);

#endif
