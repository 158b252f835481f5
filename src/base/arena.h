/* SPDX-License-Identifier: MIT */
/* Many small blocks that are freed together. Blocks do not move. Not thread-safe. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct arena_chunk arena_chunk_t;

/* A zeroed arena is empty. */
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

#endif
