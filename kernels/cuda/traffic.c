/* SPDX-License-Identifier: MIT */
/* The cuda backend without a device: memory is addresses that nobody reads, and launches are reported to a
 * listener. For an H200's cache. */

#include <string.h>

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "kernels/cuda/cuda.h"

bool traffic_counts;

static struct {
    backend_heard_t heard;
    void *context;
    const char *kernel; /* of the next launch */
    int64_t n_bytes;
    uintptr_t next; /* free address */
    backend_t backend;
    backend_memory_t memory;
} self;

void traffic_count(const char *kernel, int64_t n_bytes)
{
    self.kernel = kernel;
    self.n_bytes = n_bytes;
}

void traffic_launch(void)
{
    self.heard(self.context, self.kernel ? self.kernel : "unknown", self.kernel ? self.n_bytes : 0);
    self.kernel = NULL;
}

void traffic_report(const char *kernel, int64_t n_bytes)
{
    traffic_count(kernel, n_bytes);
    traffic_launch();
}

static err_t counted_alloc(size_t n_bytes, const char *what, void **out)
{
    enum { BLOCK = 256 };
    (void)what;
    /* An address that is never read. */
    memcpy(out, &self.next, sizeof *out);
    self.next += (n_bytes / BLOCK + 1) * BLOCK;
    return ERR_OK;
}

static void counted_release(void *block)
{
    (void)block;
}

static err_t counted_alloc_host(size_t n_bytes, const char *what, void **out)
{
    return mem_new(n_bytes + 1, what, out);
}

static void counted_release_host(void *block)
{
    mem_free(&block);
}

static err_t counted_transfer(void *to, const void *from, size_t n_bytes)
{
    (void)to, (void)from, (void)n_bytes;
    return ERR_OK;
}

static err_t counted_sync(void)
{
    return ERR_OK;
}

static err_t counted_open(const backend_options_t *options)
{
    traffic_counts = true;
    self.next = (uintptr_t)1 << 40;
    cuda_device_pretend(options);
    return ERR_OK;
}

static void counted_close(void)
{
    cuda_device_pretend(NULL);
    traffic_counts = false;
}

const backend_t *traffic_backend(backend_heard_t heard, void *context)
{
    self.heard = heard;
    self.context = context;
    self.backend = backend_cuda;
    self.memory = (backend_memory_t){.alloc = counted_alloc,
                                     .release = counted_release,
                                     .alloc_host = counted_alloc_host,
                                     .release_host = counted_release_host,
                                     .upload = counted_transfer,
                                     .download = counted_transfer,
                                     .copy = cuda_memory.copy,
                                     .zero = cuda_memory.zero,
                                     .sync = counted_sync};
    self.backend.open = counted_open;
    self.backend.close = counted_close;
    self.backend.memory = &self.memory;
    self.backend.graph = NULL;
    return &self.backend;
}
