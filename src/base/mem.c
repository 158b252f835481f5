/* SPDX-License-Identifier: MIT */
/* Blocks are from aligned_alloc with a header for the size, counted by process-wide atomics, and zeroed, which also touches
 * their pages before the first training step. An arena keeps its chunks, which stay at their address, over a reset, so a loop
 * that fills it again allocates nothing. Texts stored once: an open-addressing hash table over XXH3. */
#include "base/mem.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"

/* ---- Blocks ---- */
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

/* ---- Arenas ---- */
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

/* ---- Texts stored once ---- */
enum { FIRST_SLOTS = 256 };

/* The slot that holds the text, or the empty slot for it. */
static const char **find_slot(const intern_t *words, const char *text)
{
    size_t mask = words->n_slots - 1, i = (size_t)XXH3_64bits(text, strlen(text)) & mask;
    while (words->slots[i] && strcmp(words->slots[i], text) != 0) i = (i + 1) & mask;
    return &words->slots[i];
}

static err_t intern_grow(intern_t *words)
{
    intern_t larger = {.n_slots = words->n_slots ? 2 * words->n_slots : FIRST_SLOTS};
    TRY(mem_new_array((int64_t)larger.n_slots, sizeof *larger.slots, "a table of words", &larger.slots));
    for (size_t i = 0; i < words->n_slots; i++)
        if (words->slots[i]) *find_slot(&larger, words->slots[i]) = words->slots[i];
    mem_free(&words->slots);
    words->slots = larger.slots;
    words->n_slots = larger.n_slots;
    return ERR_OK;
}

err_t intern_text(intern_t *words, const char *text, const char **out)
{
    if (2 * (words->n + 1) > words->n_slots) TRY(intern_grow(words));
    const char **slot = find_slot(words, text);
    if (!*slot) {
        TRY(arena_text(&words->arena, text, strlen(text), slot));
        words->n++;
    }
    *out = *slot;
    return ERR_OK;
}

void intern_free(intern_t *words)
{
    mem_free(&words->slots);
    arena_free(&words->arena);
    *words = (intern_t){0};
}
