/* SPDX-License-Identifier: MIT */
/* XXH3, with the widest vectors that this machine has: the library's own choice at run time, where it was
 * built with one (x86), is twice as fast as the instructions that this program is compiled for. The names
 * stay those of xxhash.h, and so do the values. */
#ifndef BASE_XXH3_H
#define BASE_XXH3_H

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
