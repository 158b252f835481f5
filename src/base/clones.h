/* Loops in code for wider vectors than the build's. */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#include <stdint.h> /* a header of libc's, for __GLIBC__ */

/* Compiled for AVX2 beside the build's own instruction set, the better chosen when the program is loaded. The
 * same bits come out of each: -ffp-contract=off, and no sum is reordered. Not for AVX-512: it took max
 * pooling over 50 or 64 channels from 129 to 106 and from 106 to 82 µs, but over 20, with its scalar tails,
 * from 508 to 1337. Not under a sanitizer, which is not yet up when the loader chooses. */
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) &&                     \
    defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOOP_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
/* For AVX-512 too: loops over whole vectors of 16 floats, written as such. */
#define WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LOOP_CLONES
#define WIDE_CLONES
#endif

#endif
