/* SPDX-License-Identifier: MIT */
/* Counted host memory. Every block of ours comes from here, so that a run can prove that nothing leaks
 * (mem_live() is 0 at exit) and that its steady state allocates nothing (mem_count() stands still).
 * Blocks are 64-byte aligned. Not for memory that a library frees. Thread-safe. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MEM_ALIGN = 64 };

/* Zeroed block of n_bytes (0 gives a valid block). ERR_SYSTEM naming `what` and the size when there is no
 * memory. *out is written only on success; free with mem_free. */
err_t mem_new(size_t n_bytes, const char *what, void *out_pointer);

/* Zeroed array of count elements; the product is checked for overflow. */
err_t mem_new_array(int64_t count, size_t element_bytes, const char *what, void *out_pointer);

/* Grows (or makes, from NULL) a block to n_bytes; old contents are kept, the rest is zero. */
err_t mem_resize(size_t n_bytes, const char *what, void *in_out_pointer);

/* Makes room for at least count elements in an array (NULL: a new one). A larger block is at least twice as
 * large, so that adding elements one by one takes constant time each. The block knows its size; callers keep
 * only their count. Old contents are kept, the rest is zero. */
err_t mem_grow(int64_t count, size_t element_bytes, const char *what, void *in_out_pointer);

/* Copy of a string. */
err_t mem_strdup(const char *text, char **out);

/* Takes the address of the pointer; NULL inside is fine; nulls it. */
void mem_free(void *in_out_pointer);

int64_t mem_live(void);       /* blocks allocated and not freed */
int64_t mem_count(void);      /* blocks ever allocated */
int64_t mem_live_bytes(void); /* bytes in live blocks */

/* Touches every page of a block now, so that no page fault is left for the steady state. */
void mem_touch(void *block, size_t n_bytes);

/* Gives the system back what has been freed, which the C library keeps for blocks to come: after many of many
 * sizes that is more than they ever were together. */
void mem_trim(void);

/* n rounded up to a multiple of MEM_ALIGN. */
size_t mem_round(size_t n_bytes);

#endif
