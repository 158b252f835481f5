/* SPDX-License-Identifier: MIT */
/* Hashes: XXH3, of texts and files; and one that a GPU computes, too. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* XXH3 with the widest vectors of this machine. On x86 the library's run-time dispatch is twice as fast as
 * code compiled for this program's baseline. Names and values are those of xxhash.h. */
#ifndef __CUDACC__
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
#endif

/* A 64-bit hash that any number of threads compute in any order, for a GPU: the sum modulo 2^64 of mixed words of 8
 * bytes, each with its place. The mixing is a bijection, so a change within one word always changes the hash. Not for
 * adversaries. Mixing and increment: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014). */
#ifdef __CUDACC__
#define WORD_HASH_CALL static inline __host__ __device__
#else
#define WORD_HASH_CALL static inline
#endif

WORD_HASH_CALL uint64_t word_hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The term of word i. */
WORD_HASH_CALL uint64_t word_hash_term(uint64_t word, uint64_t i)
{
    return word_hash_mix(word + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* The hash of n_bytes, the last word padded by zeros: mixed seed plus all terms. */
static inline uint64_t word_hash(const void *bytes, size_t n_bytes, uint64_t seed)
{
    const char *at = (const char *)bytes;
    uint64_t sum = word_hash_mix(seed), word = 0;
    const size_t n = n_bytes / sizeof word;
    for (size_t i = 0; i < n; i++) {
        memcpy(&word, at + i * sizeof word, sizeof word);
        sum += word_hash_term(word, i);
    }
    if (n_bytes % sizeof word == 0) return sum;
    word = 0;
    memcpy(&word, at + n * sizeof word, n_bytes % sizeof word);
    return sum + word_hash_term(word, n);
}

#endif
