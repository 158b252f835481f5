/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 streams and the distributions drawn from them. The rounds themselves are inline in
 * base/rng.h, where hot loops call them directly. */
#include "base/rng.h"

#include <math.h>

uint64_t rng_key(uint64_t seed, uint32_t stream)
{
    /* Mixed, so that neighboring seeds and streams have unrelated keys. */
    rng_block_t b = rng_philox(seed, stream, 0, 0, 0);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

rng_t rng_new(uint64_t seed, uint32_t stream, uint64_t substream)
{
    return (rng_t){.key = rng_key(seed, stream),
                   .substream = {(uint32_t)substream, (uint32_t)(substream >> 32)}};
}

uint32_t rng_u32(rng_t *rng)
{
    uint64_t block = rng->position / 4;
    if (rng->held != block + 1) {
        rng->block = rng_philox(rng->key, (uint32_t)block, (uint32_t)(block >> 32), rng->substream[0],
                                rng->substream[1]);
        rng->held = block + 1;
    }
    return rng->block.word[rng->position++ % 4];
}

uint32_t rng_below(rng_t *rng, uint32_t n)
{
    uint32_t reject = (0u - n) % n;
    for (;;) {
        uint64_t product = (uint64_t)rng_u32(rng) * n;
        if ((uint32_t)product >= reject) return (uint32_t)(product >> 32);
    }
}

double rng_uniform(rng_t *rng)
{
    return rng_u32(rng) * 0x1p-32;
}

float rng_between(rng_t *rng, float low, float high)
{
    return low + (high - low) * ((float)(rng_u32(rng) >> 8) * 0x1p-24f);
}

double rng_normal(rng_t *rng)
{
    double radius = sqrt(-2.0 * log((rng_u32(rng) + 0.5) * 0x1p-32));
    return radius * cos(2.0 * 3.14159265358979323846 * rng_uniform(rng));
}
