/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Philox against the known answers that Random123 publishes, and the properties of what is drawn from it. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

static bool same_block(rng_block_t block, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    return block.word[0] == w0 && block.word[1] == w1 && block.word[2] == w2 && block.word[3] == w3;
}

static void check_known_answers(void)
{
    OK(same_block(rng_philox(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8),
       "Philox4x32-10 of zeros");
    OK(same_block(rng_philox(UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX), 0x408f276d,
                  0x41c83b0e, 0xa20bc7c6, 0x6d5451fd),
       "Philox4x32-10 of ones");
    OK(same_block(rng_philox(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), 0xd16cfe09,
                  0x94fdcceb, 0x5001e420, 0x24126ea1),
       "Philox4x32-10 of the digits of pi");
}

static void check_sequence(void)
{
    rng_t rng = rng_new(7, RNG_TEST, (uint64_t)5 << 32 | 9);
    rng_block_t first = rng_philox(rng_key(7, RNG_TEST), 0, 0, 9, 5);
    rng_block_t second = rng_philox(rng_key(7, RNG_TEST), 1, 0, 9, 5);
    bool same = true;
    for (int i = 0; i < 8; i++) same = same && rng_u32(&rng) == (i < 4 ? first : second).word[i % 4];
    OK(same, "a sequence is the words of consecutive blocks");

    rng_t resumed = rng_new(7, RNG_TEST, (uint64_t)5 << 32 | 9);
    resumed.position = 6;
    OK(rng_u32(&resumed) == second.word[2], "the position alone continues a sequence");
    resumed.position = 1;
    OK(rng_u32(&resumed) == first.word[1] && rng_u32(&resumed) == first.word[2], "… and goes back in it");

    rng_t far = rng_new(7, RNG_TEST, 1);
    far.position = (uint64_t)4 << 32;
    OK(rng_u32(&far) == rng_philox(rng_key(7, RNG_TEST), 0, 1, 1, 0).word[0],
       "the counter carries past 32 bits");
}

static void check_keys(void)
{
    enum { SEEDS = 64, STREAMS = 6, N = SEEDS * STREAMS };
    uint64_t keys[N];
    int n = 0, equal = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t stream = 0; stream < STREAMS; stream++) keys[n++] = rng_key(seed, stream);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) equal += keys[i] == keys[j];
    OK(equal == 0, "neighbouring seeds and streams have keys of their own");
}

static void check_below(void)
{
    rng_t rng = rng_new(1, RNG_TEST, 0);
    enum { N = 7, DRAWS = 70000 };
    int counts[N] = {0}, outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t value = rng_below(&rng, N);
        if (value < N)
            counts[value]++;
        else
            outside++;
    }
    double chi2 = 0;
    for (int i = 0; i < N; i++) chi2 += pow(counts[i] - DRAWS / N, 2) / ((double)DRAWS / N);
    OK(outside == 0, "rng_below stays below");
    OK(chi2 < 22.5, "rng_below is even: chi-squared %.2f of 6 degrees is below the 0.1 %% point", chi2);
    OK(rng_below(&rng, 1) == 0, "rng_below(1) is 0");

    /* For n just above 2^31 about half the draws are rejected; without that, the multiplication would reach
     * even values about twice as often as odd ones. */
    int odd = 0;
    for (int i = 0; i < 4000; i++) odd += (int)(rng_below(&rng, 0x80000001u) & 1);
    OK(odd > 1850 && odd < 2150, "rng_below rejects what would be biased: %d of 4000 are odd", odd);
}

static void check_reals(void)
{
    rng_t rng = rng_new(2, RNG_TEST, 0);
    enum { N = 40000 };
    double sum = 0, low = 1, high = 0;
    for (int i = 0; i < N; i++) {
        double value = rng_uniform(&rng);
        sum += value;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    OK(low >= 0 && high < 1, "rng_uniform stays in [0, 1)");
    OK(fabs(sum / N - 0.5) < 0.006, "rng_uniform's mean is %.4f", sum / N);

    double sum1 = 0, sum2 = 0, sum4 = 0;
    bool finite = true;
    for (int i = 0; i < N; i++) {
        double value = rng_normal(&rng);
        finite = finite && isfinite(value);
        sum1 += value;
        sum2 += value * value;
        sum4 += pow(value, 4);
    }
    OK(finite, "rng_normal is finite");
    OK(fabs(sum1 / N) < 0.02, "rng_normal's mean is %.4f", sum1 / N);
    OK(fabs(sum2 / N - 1) < 0.03, "rng_normal's variance is %.4f", sum2 / N);
    OK(fabs(sum4 / N - 3) < 0.25, "rng_normal's fourth moment is %.3f", sum4 / N);
}

static void check_dropout(void)
{
    uint64_t key = rng_key(3, RNG_DROPOUT);
    rng_block_t block = rng_dropout_block(key, 1, 2, 3, 4);
    rng_block_t others[] = {rng_dropout_block(key, 2, 2, 3, 4), rng_dropout_block(key, 1, 3, 3, 4),
                            rng_dropout_block(key, 1, 2, 4, 4), rng_dropout_block(key, 1, 2, 3, 5)};
    bool differ = true;
    for (int i = 0; i < 4; i++) differ = differ && memcmp(&block, &others[i], sizeof block) != 0;
    OK(differ, "layer, step, sample and element each change dropout's words");
}

int main(void)
{
    tap_plan(19);
    check_known_answers();
    check_sequence();
    check_keys();
    check_below();
    check_reals();
    check_dropout();
    return tap_done();
}
