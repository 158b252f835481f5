/* SPDX-License-Identifier: MIT */
/* Host memory: counted blocks, arenas of many small blocks, and texts that are stored once.
 *
 * The program allocates only here, so that tests can check that nothing leaks (mem_live() is 0 at exit) and that
 * the steady state allocates nothing (mem_count() is constant). Blocks are 64-byte aligned. Not for memory that a
 * library frees. Thread-safe, but for a single arena or intern_t. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MEM_ALIGN = 64 };

/* Allocates a zeroed block; free it with mem_free.
 *
 *   n_bytes      0 is valid
 *   what         purpose, for the message of ERR_SYSTEM: "out of memory: 64 bytes for WHAT"
 *   out_pointer  address of a pointer of any type; written only on success */
err_t mem_new(size_t n_bytes, const char *what, void *out_pointer);

/* Allocates a zeroed array. The product is checked for overflow. */
err_t mem_new_array(int64_t count, size_t element_bytes, const char *what, void *out_pointer);

/* Resizes a block (NULL: a new one) to n_bytes. Keeps the contents; new bytes are zero. */
err_t mem_resize(size_t n_bytes, const char *what, void *in_out_pointer);

/* Ensures room for `count` elements in an array (NULL: a new one). Growth at least doubles the block, so
 * that appending takes amortized constant time; callers need not track the capacity. Keeps the contents; new
 * bytes are zero. */
err_t mem_grow(int64_t count, size_t element_bytes, const char *what, void *in_out_pointer);

/* Copy of a string. */
err_t mem_strdup(const char *text, char **out);

/* Takes the address of the pointer, frees the block (NULL: nothing) and sets the pointer to NULL. */
void mem_free(void *in_out_pointer);

int64_t mem_live(void);       /* blocks allocated and not freed */
int64_t mem_count(void);      /* blocks ever allocated */
int64_t mem_live_bytes(void); /* bytes in live blocks */

/* Touches every page of a block, so that later use causes no page faults. */
void mem_touch(void *block, size_t n_bytes);

/* Whether memory limits (ulimit -v, strict overcommit) leave n_bytes, for libraries that crash where an
 * allocation of their own fails. */
bool mem_has_room(size_t n_bytes);
/* ERR_SYSTEM unless 64 MiB are left. */
err_t mem_check_room(const char *what);

/* Returns freed memory to the system. After many blocks of different sizes the C library would keep more
 * than was ever allocated at a time. */
void mem_trim(void);

/* n rounded up to a multiple of MEM_ALIGN. */
size_t mem_round(size_t n_bytes);

typedef struct arena_chunk arena_chunk_t;

/* Many small blocks that are freed together. Blocks do not move. A zeroed arena is empty. */
typedef struct arena {
    arena_chunk_t *first, *now; /* chunks after `now` are unused */
    size_t used;                /* of `now` */
} arena_t;

/* Allocates a block, not zeroed, aligned for any type. ERR_SYSTEM without memory. */
err_t arena_new(arena_t *arena, size_t n_bytes, void *out_pointer);
/* Copies n_bytes of text and appends a NUL. */
err_t arena_text(arena_t *arena, const char *text, size_t n_bytes, const char **out);
/* Formats text, as printf does. */
err_t arena_format(arena_t *arena, const char **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
err_t arena_vformat(arena_t *arena, const char **out, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Frees all blocks, but keeps the memory for later ones. */
void arena_reset(arena_t *arena);
void arena_free(arena_t *arena);

/* Stores equal texts once: equal texts have equal pointers. A zeroed table is empty. */
typedef struct intern {
    arena_t arena;
    const char **slots; /* open addressing; a power of two, at most half full */
    size_t n_slots, n;
} intern_t;

/* *out lives until intern_free. */
err_t intern_text(intern_t *words, const char *text, const char **out);
void intern_free(intern_t *words);

#endif
