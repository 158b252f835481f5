/* SPDX-License-Identifier: MIT */
/* Host/device buffers, and allocation and copies on either kind of backend. Scheduling the copies is left to
 * the callers. */
#include "compute/ops/hd_buffer.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

err_t backend_alloc(const backend_t *backend, size_t n_bytes, const char *what, void *out_pointer)
{
    if (backend->memory) return backend->memory->alloc(n_bytes, what, out_pointer);
    return mem_new(n_bytes, what, out_pointer);
}

void backend_release(const backend_t *backend, void *in_out_pointer)
{
    void **block = in_out_pointer;
    if (!backend || !backend->memory) {
        mem_free(block);
        return;
    }
    if (*block) backend->memory->release(*block);
    *block = NULL;
}

err_t backend_zero(const backend_t *backend, void *block, size_t n_bytes)
{
    if (backend->memory) return backend->memory->zero(block, n_bytes);
    memset(block, 0, n_bytes);
    return ERR_OK;
}

err_t backend_copy(const backend_t *backend, void *to, const void *from, size_t n_bytes)
{
    if (backend->memory) return backend->memory->copy(to, from, n_bytes);
    memcpy(to, from, n_bytes);
    return ERR_OK;
}

err_t backend_sync(const backend_t *backend)
{
    return backend->memory ? backend->memory->sync() : ERR_OK;
}

static err_t alloc_host_side(hd_buffer_t *b, const char *what)
{
    const backend_memory_t *memory = b->backend->memory;
    TRY(memory ? memory->alloc_host(b->n_bytes, what, &b->host) : mem_new(b->n_bytes, what, &b->host));
    b->own_host = true;
    mem_touch(b->host, b->n_bytes);
    return ERR_OK;
}

err_t hd_buffer_wrap(const backend_t *backend, size_t n_bytes, const char *what, void *host, void *device,
                     hd_buffer_t *out)
{
    ASSERT(backend->memory || !device);
    *out = (hd_buffer_t){.host = host, .device = device, .n_bytes = n_bytes, .backend = backend};
    err_t err = host ? ERR_OK : alloc_host_side(out, what);
    if (host && backend->memory && n_bytes > 0) out->pinned = backend->memory->pin(host, n_bytes);
    if (err == ERR_OK && !backend->memory) {
        out->device = out->host;
    } else if (err == ERR_OK && !device) {
        err = backend->memory->alloc(n_bytes, what, &out->device);
        out->own_device = err == ERR_OK;
    }
    if (err != ERR_OK) hd_buffer_free(out);
    return err;
}

err_t hd_buffer_new(const backend_t *backend, size_t n_bytes, const char *what, hd_buffer_t *out)
{
    return hd_buffer_wrap(backend, n_bytes, what, NULL, NULL, out);
}

void hd_buffer_free(hd_buffer_t *b)
{
    const backend_memory_t *memory = b->backend ? b->backend->memory : NULL;
    if (b->own_device) memory->release(b->device);
    if (b->pinned) memory->unpin(b->host);
    if (b->own_host && memory) memory->release_host(b->host);
    if (b->own_host && !memory) mem_free(&b->host);
    *b = (hd_buffer_t){0};
}

err_t hd_buffer_push(const hd_buffer_t *b, size_t offset, size_t n_bytes)
{
    ASSERT(offset + n_bytes <= b->n_bytes);
    if (b->host == b->device || n_bytes == 0) return ERR_OK;
    return b->backend->memory->upload((char *)b->device + offset, (const char *)b->host + offset, n_bytes);
}

err_t hd_buffer_push_all(const hd_buffer_t *b)
{
    return hd_buffer_push(b, 0, b->n_bytes);
}

err_t hd_buffer_pull_begin(const hd_buffer_t *b, size_t offset, size_t n_bytes)
{
    ASSERT(offset + n_bytes <= b->n_bytes);
    if (b->host == b->device || n_bytes == 0) return ERR_OK;
    return b->backend->memory->download((char *)b->host + offset, (const char *)b->device + offset, n_bytes);
}

err_t hd_buffer_pull(const hd_buffer_t *b, size_t offset, size_t n_bytes)
{
    TRY(hd_buffer_pull_begin(b, offset, n_bytes));
    return b->host == b->device || n_bytes == 0 ? ERR_OK : b->backend->memory->sync();
}

err_t hd_buffer_pull_all(const hd_buffer_t *b)
{
    return hd_buffer_pull(b, 0, b->n_bytes);
}

err_t hd_buffer_hash(const hd_buffer_t *b, uint64_t seed, uint64_t *out)
{
    const backend_memory_t *memory = b->backend->memory;
    if (memory && b->n_bytes > 0) return memory->hash(b->device, b->n_bytes, seed, out);
    *out = hd_buffer_hash_host(b, seed);
    return ERR_OK;
}

uint64_t hd_buffer_hash_host(const hd_buffer_t *b, uint64_t seed)
{
    return b->backend->memory ? word_hash(b->host, b->n_bytes, seed)
                              : XXH3_64bits_withSeed(b->host, b->n_bytes, seed);
}
