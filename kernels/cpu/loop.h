/* What the cpu backend's own loops share: when to fork, how to cut, and code for wider vectors than the
 * build's.
 *
 * An array is cut into blocks of a fixed size whatever the number of threads, so that results do not depend
 * on it. Short arrays stay on one thread: a fork and join costs about as much as 10 000 elements. */
#ifndef KERNELS_CPU_LOOP_H
#define KERNELS_CPU_LOOP_H

#include <stdint.h>

enum {
    LOOP_BLOCK = 1 << 13,    /* elements that one thread takes at a time */
    LOOP_FORK_MIN = 1 << 15, /* elements from which on more than one thread works */
};

/* Length of the block that begins at `first` of n elements. */
static inline int64_t loop_count(int64_t first, int64_t n, int64_t block)
{
    return n - first < block ? n - first : block;
}

/* Compiled for AVX2 beside the build's own instruction set, the better chosen when the program is loaded. The
 * same bits come out of each: -ffp-contract=off, and no sum is reordered. Not for AVX-512: it took max
 * pooling over 50 or 64 channels from 129 to 106 and from 106 to 82 µs, but over 20, with its scalar tails,
 * from 508 to 1337. Not under a sanitizer, which is not yet up when the loader chooses. */
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) &&                     \
    defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOOP_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define LOOP_CLONES
#endif

#endif
