/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers: a value depends only on (key, counter), so that every rank, thread and
 * device draws the same number for the same sample without sharing state. Philox4x32-10: Salmon, Moraes,
 * Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

typedef struct rng_block {
    uint32_t word[4];
} rng_block_t;

/* Streams separate the uses of one seed; they enter the key's high word. */
enum {
    RNG_INIT = 1,
    RNG_SHUFFLE = 2,
    RNG_DROPOUT = 3,
    RNG_AUGMENT = 4,
    RNG_SYNTH = 5,
    RNG_BOOTSTRAP = 6,
    RNG_TRANSFORM = 7,
    RNG_SAMPLE = 8,
    RNG_REGION = 9,
    RNG_HOLDOUT = 10,
    RNG_TEST = 99
};

/* 128 random bits for a 64-bit key and a 128-bit counter. */
static inline rng_block_t rng_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return (rng_block_t){{c0, c1, c2, c3}};
}

/* The sequence of one (seed, stream, substream). */
typedef struct rng {
    uint64_t key;
    uint32_t substream[2];
    uint64_t position; /* words drawn: with the key, the whole state; may be set */
    uint64_t held;     /* 1 + index of the cached `block`; 0: none */
    rng_block_t block;
} rng_t;

rng_t rng_new(uint64_t seed, uint32_t stream, uint64_t substream);
uint64_t rng_key(uint64_t seed, uint32_t stream);

uint32_t rng_u32(rng_t *rng);
/* Uniform in [0, n), without bias (Lemire's rejection); n > 0. */
uint32_t rng_below(rng_t *rng, uint32_t n);
double rng_uniform(rng_t *rng);                       /* [0, 1), 32 bits */
float rng_between(rng_t *rng, float low, float high); /* from low up to high, 24 bits */
double rng_normal(rng_t *rng);                        /* mean 0, variance 1 (Box–Muller) */
enum { RNG_NORMAL_WORDS = 2 };                        /* words that rng_normal draws */

/* Dropout's rule on every backend: an element is kept if its word is below keep × 2^32. Four consecutive
 * elements share a block.
 *
 *   key      rng_key(seed, RNG_DROPOUT)
 *   sample   index within the global batch of `step`
 *   i_div_4  index of the element within the sample, divided by 4 */
static inline rng_block_t rng_dropout_block(uint64_t key, uint32_t layer, uint64_t step, uint64_t sample,
                                            uint32_t i_div_4)
{
    return rng_philox(key, i_div_4, (uint32_t)sample, (uint32_t)step, layer);
}

#endif
