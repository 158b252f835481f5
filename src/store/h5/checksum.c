/* SPDX-License-Identifier: MIT */
/* lookup3: mixes three words with 12 bytes at a time. */
#include "store/h5/checksum.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they are");

static uint32_t rotate(uint32_t x, int n_bits)
{
    return x << n_bits | x >> (32 - n_bits);
}

static void mix(uint32_t *a, uint32_t *b, uint32_t *c)
{
    *a -= *c, *a ^= rotate(*c, 4), *c += *b;
    *b -= *a, *b ^= rotate(*a, 6), *a += *c;
    *c -= *b, *c ^= rotate(*b, 8), *b += *a;
    *a -= *c, *a ^= rotate(*c, 16), *c += *b;
    *b -= *a, *b ^= rotate(*a, 19), *a += *c;
    *c -= *b, *c ^= rotate(*b, 4), *b += *a;
}

static uint32_t mix_last(uint32_t a, uint32_t b, uint32_t c)
{
    c ^= b, c -= rotate(b, 14);
    a ^= c, a -= rotate(c, 11);
    b ^= a, b -= rotate(a, 25);
    c ^= b, c -= rotate(b, 16);
    a ^= c, a -= rotate(c, 4);
    b ^= a, b -= rotate(a, 14);
    c ^= b, c -= rotate(b, 24);
    return c;
}

uint32_t h5_checksum(const void *data, size_t n_bytes)
{
    const unsigned char *at = data;
    uint32_t a = 0xdeadbeef + (uint32_t)n_bytes, b = a, c = a, words[3];
    for (; n_bytes > 12; n_bytes -= 12, at += 12) {
        memcpy(words, at, sizeof words);
        a += words[0], b += words[1], c += words[2];
        mix(&a, &b, &c);
    }
    if (n_bytes == 0) return c;
    memset(words, 0, sizeof words);
    memcpy(words, at, n_bytes);
    return mix_last(a + words[0], b + words[1], c + words[2]);
}
