/* SPDX-License-Identifier: MIT */
/* XXH3 with the widest vectors of this machine. On x86 the library's run-time dispatch is twice as fast as
 * code compiled for this program's baseline. Names and values are those of xxhash.h. */
#ifndef BASE_XXH3_H
#define BASE_XXH3_H

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
