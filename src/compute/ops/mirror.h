/* Blocks that a backend computes on and the host looks into. On backends of the host both sides are the same
 * memory, and pushing and pulling do nothing. Not collective. */
#ifndef COMPUTE_OPS_MIRROR_H
#define COMPUTE_OPS_MIRROR_H

#include "compute/ops/backend.h"

typedef struct mirror {
    void *host, *device;
    size_t n_bytes;
    const backend_t *backend;
    bool own_host, own_device, pinned; /* pinned: the caller's host side, by the mirror */
} mirror_t;

/* Both sides zeroed and, on the host, touched. ERR_SYSTEM naming `what`. */
err_t mirror_new(const backend_t *backend, size_t n_bytes, const char *what, mirror_t *out);

/* As mirror_new with a side, or both, of the caller's; NULL: made here. The caller's is not zeroed, and
 * outlives the mirror. On backends of the host `device` must be NULL. */
err_t mirror_wrap(const backend_t *backend, size_t n_bytes, const char *what, void *host, void *device,
                  mirror_t *out);

/* All zero inside is fine; leaves it so. */
void mirror_free(mirror_t *mirror);

/* Host to device, in order with the backend's work. The host side is to be left alone until something waits
 * (mirror_pull, backend_sync). */
err_t mirror_push(const mirror_t *mirror, size_t offset, size_t n_bytes);
err_t mirror_push_all(const mirror_t *mirror);

/* Device to host; waits until it is there. */
err_t mirror_pull(const mirror_t *mirror, size_t offset, size_t n_bytes);
err_t mirror_pull_all(const mirror_t *mirror);

/* Memory that only the backend looks into: mem.h's on the host. Zeroed. backend_release takes the address of
 * the pointer, NULL inside is fine, and nulls it. */
err_t backend_alloc(const backend_t *backend, size_t n_bytes, const char *what, void *out_pointer);
void backend_release(const backend_t *backend, void *in_out_pointer);

err_t backend_zero(const backend_t *backend, void *block, size_t n_bytes);
err_t backend_copy(const backend_t *backend, void *to, const void *from, size_t n_bytes);

/* Waits for everything that the backend was given. */
err_t backend_sync(const backend_t *backend);

#endif
