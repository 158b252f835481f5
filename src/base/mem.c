/* SPDX-License-Identifier: MIT */
/* aligned_alloc with a header for the size, and process-wide atomic counters. Blocks are zeroed, which also
 * touches their pages before the first training step. */
#include "base/mem.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Precedes every block, padded to MEM_ALIGN. */
typedef struct header {
    size_t n_bytes;
} header_t;

static atomic_llong n_live, n_count, n_live_bytes;

size_t mem_round(size_t n_bytes)
{
    return (n_bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

void mem_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

bool mem_has_room(size_t n_bytes)
{
    void *probe = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return probe != MAP_FAILED && munmap(probe, n_bytes) == 0;
}

err_t mem_check_room(const char *what)
{
    enum { ROOM_BYTES = 64 << 20 };
    if (mem_has_room(ROOM_BYTES)) return ERR_OK;
    RAISE(ERR_SYSTEM,
          "out of memory: less than %d MiB are left for %s; raise the memory limit (ulimit -v), or choose a "
          "smaller batch or fewer threads",
          ROOM_BYTES >> 20, what);
}

static header_t *header_of(void *block)
{
    return (header_t *)(void *)((char *)block - MEM_ALIGN);
}

err_t mem_new(size_t n_bytes, const char *what, void *out_pointer)
{
    char *raw = NULL;
    if (n_bytes < SIZE_MAX - 2 * MEM_ALIGN) raw = aligned_alloc(MEM_ALIGN, MEM_ALIGN + mem_round(n_bytes));
    if (!raw) RAISE(ERR_SYSTEM, "out of memory: %zu bytes for %s", n_bytes, what);
    memset(raw, 0, MEM_ALIGN + mem_round(n_bytes));
    void *block = raw + MEM_ALIGN;
    header_of(block)->n_bytes = n_bytes;
    atomic_fetch_add(&n_live, 1);
    atomic_fetch_add(&n_count, 1);
    atomic_fetch_add(&n_live_bytes, (long long)n_bytes);
    memcpy(out_pointer, &block, sizeof block);
    return ERR_OK;
}

err_t mem_new_array(int64_t count, size_t element_bytes, const char *what, void *out_pointer)
{
    size_t n_bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, element_bytes, &n_bytes))
        RAISE(ERR_SYSTEM, "out of memory: %lld elements of %zu bytes for %s", (long long)count, element_bytes,
              what);
    return mem_new(n_bytes, what, out_pointer);
}

err_t mem_resize(size_t n_bytes, const char *what, void *in_out_pointer)
{
    void *old, *block = NULL; /* NULL quiets GCC, which cannot see through memcpy */
    memcpy(&old, in_out_pointer, sizeof old);
    TRY(mem_new(n_bytes, what, &block));
    if (old) {
        size_t n_old = header_of(old)->n_bytes;
        memcpy(block, old, n_old < n_bytes ? n_old : n_bytes);
        mem_free(&old);
    }
    memcpy(in_out_pointer, &block, sizeof block);
    return ERR_OK;
}

err_t mem_grow(int64_t count, size_t element_bytes, const char *what, void *in_out_pointer)
{
    enum { FIRST_BYTES = 256 };
    char *block;
    size_t wanted;
    memcpy(&block, in_out_pointer, sizeof block);
    if (count < 0 || __builtin_mul_overflow((size_t)count, element_bytes, &wanted))
        RAISE(ERR_SYSTEM, "out of memory: %lld elements of %zu bytes for %s", (long long)count, element_bytes,
              what);
    size_t n_bytes = block ? header_of(block)->n_bytes : 0;
    if (block && wanted <= n_bytes) return ERR_OK;
    size_t larger = 2 * n_bytes;
    if (larger < FIRST_BYTES) larger = FIRST_BYTES;
    return mem_resize(larger < wanted ? wanted : larger, what, in_out_pointer);
}

err_t mem_strdup(const char *text, char **out)
{
    TRY(mem_new(strlen(text) + 1, "text", out));
    memcpy(*out, text, strlen(text));
    return ERR_OK;
}

void mem_free(void *in_out_pointer)
{
    void *block, *none = NULL;
    memcpy(&block, in_out_pointer, sizeof block);
    if (!block) return;
    atomic_fetch_sub(&n_live, 1);
    atomic_fetch_sub(&n_live_bytes, (long long)header_of(block)->n_bytes);
    free(header_of(block));
    memcpy(in_out_pointer, &none, sizeof none);
}

int64_t mem_live(void)
{
    return atomic_load(&n_live);
}

int64_t mem_count(void)
{
    return atomic_load(&n_count);
}

int64_t mem_live_bytes(void)
{
    return atomic_load(&n_live_bytes);
}

void mem_touch(void *block, size_t n_bytes)
{
    size_t n_page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *bytes = block;
    for (size_t i = 0; i < n_bytes; i += n_page) bytes[i] = bytes[i];
}
