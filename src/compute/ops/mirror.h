/* SPDX-License-Identifier: MIT */
/* Host/device buffers: memory a backend computes on and the host reads and writes. On host backends both
 * sides are the same memory, and push and pull do nothing. Not collective. */
#ifndef COMPUTE_OPS_MIRROR_H
#define COMPUTE_OPS_MIRROR_H

#include "compute/ops/backend.h"

typedef struct mirror {
    void *host, *device;
    size_t n_bytes;
    const backend_t *backend;
    bool own_host, own_device, pinned; /* pinned: the caller's host side was pinned here */
} mirror_t;

/* Both sides are zeroed; host pages are touched. ERR_SYSTEM names `what`. */
err_t mirror_new(const backend_t *backend, size_t n_bytes, const char *what, mirror_t *out);

/* As mirror_new, but `host`, `device` or both belong to the caller and outlive the buffer; they are not
 * zeroed. NULL: allocated here. On host backends `device` must be NULL. */
err_t mirror_wrap(const backend_t *backend, size_t n_bytes, const char *what, void *host, void *device,
                  mirror_t *out);

/* Accepts an all-zero buffer, and leaves one. */
void mirror_free(mirror_t *mirror);

/* Host to device, in order with the backend's work. The host side must not be touched before something waits
 * (mirror_pull, backend_sync). */
err_t mirror_push(const mirror_t *mirror, size_t offset, size_t n_bytes);
err_t mirror_push_all(const mirror_t *mirror);

/* Device to host; waits for the copy. */
err_t mirror_pull(const mirror_t *mirror, size_t offset, size_t n_bytes);
err_t mirror_pull_all(const mirror_t *mirror);

/* Memory that only the backend reads and writes; from base/mem.h on the host. Zeroed. backend_release takes
 * the address of a pointer, which may be NULL, and sets it to NULL. */
err_t backend_alloc(const backend_t *backend, size_t n_bytes, const char *what, void *out_pointer);
void backend_release(const backend_t *backend, void *in_out_pointer);

err_t backend_zero(const backend_t *backend, void *block, size_t n_bytes);
err_t backend_copy(const backend_t *backend, void *to, const void *from, size_t n_bytes);

/* Waits for all work given to the backend. */
err_t backend_sync(const backend_t *backend);

#endif
