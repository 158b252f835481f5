/* SPDX-License-Identifier: MIT */
/* Stores equal texts once: equal texts have equal pointers. Not thread-safe. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include "base/arena.h"
#include "base/err.h"

/* A zeroed table is empty. */
typedef struct intern {
    arena_t arena;
    const char **slots; /* open addressing; a power of two, at most half full */
    size_t n_slots, n;
} intern_t;

/* *out lives until intern_free. */
err_t intern_text(intern_t *words, const char *text, const char **out);
void intern_free(intern_t *words);

#endif
