/* SPDX-License-Identifier: MIT */
/* Chunked bump allocator. Chunks stay at their address and are kept by a reset, so a loop that fills an arena
 * again allocates nothing. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The address sanitizer sees accesses beyond a block: the rest of a chunk is poisoned, with a gap after each
 * block. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(at, n_bytes)   ((void)(at), (void)(n_bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, n_bytes) ((void)(at), (void)(n_bytes))
enum { GAP = 0 };
#endif

enum { CHUNK_BYTES = 64 << 10, ALIGN = 16 };

struct arena_chunk {
    arena_chunk_t *next;
    size_t n_bytes; /* of `bytes` */
    _Alignas(ALIGN) char bytes[];
};

/* Moves to the next chunk if it is large enough; otherwise inserts a new one before it. */
static err_t next_chunk(arena_t *arena, size_t n_bytes)
{
    arena_chunk_t *next = arena->now ? arena->now->next : arena->first;
    if (!next || next->n_bytes < n_bytes) {
        arena_chunk_t *chunk;
        size_t size = n_bytes > CHUNK_BYTES ? n_bytes : CHUNK_BYTES;
        TRY(mem_new(sizeof *chunk + size, "an arena", &chunk));
        chunk->n_bytes = size;
        chunk->next = next;
        if (arena->now)
            arena->now->next = chunk;
        else
            arena->first = chunk;
        next = chunk;
    }
    ASAN_POISON_MEMORY_REGION(next->bytes, next->n_bytes);
    arena->now = next;
    arena->used = 0;
    return ERR_OK;
}

err_t arena_new(arena_t *arena, size_t n_bytes, void *out_pointer)
{
    size_t n = (n_bytes + ALIGN - 1) / ALIGN * ALIGN + GAP;
    if (n < n_bytes) RAISE(ERR_SYSTEM, "out of memory: %zu bytes for an arena", n_bytes);
    if (!arena->now || arena->now->n_bytes - arena->used < n) TRY(next_chunk(arena, n));
    void *block = arena->now->bytes + arena->used;
    ASAN_UNPOISON_MEMORY_REGION(block, n_bytes);
    arena->used += n;
    memcpy(out_pointer, &block, sizeof block);
    return ERR_OK;
}

err_t arena_text(arena_t *arena, const char *text, size_t n_bytes, const char **out)
{
    char *copy = NULL; /* quiets GCC, which cannot see through memcpy */
    TRY(arena_new(arena, n_bytes + 1, &copy));
    if (n_bytes) memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    *out = copy;
    return ERR_OK;
}

err_t arena_vformat(arena_t *arena, const char **out, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    ASSERT(n >= 0);
    char *text = NULL;
    TRY(arena_new(arena, (size_t)n + 1, &text));
    vsnprintf(text, (size_t)n + 1, format, args);
    *out = text;
    return ERR_OK;
}

err_t arena_format(arena_t *arena, const char **out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err_t err = arena_vformat(arena, out, format, args);
    va_end(args);
    return err;
}

void arena_reset(arena_t *arena)
{
    arena->now = NULL;
    arena->used = 0;
}

void arena_free(arena_t *arena)
{
    for (arena_chunk_t *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->bytes, chunk->n_bytes);
        mem_free(&chunk);
    }
    *arena = (arena_t){0};
}
