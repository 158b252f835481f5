/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * DPTRAIN_MAX_ISA: the cap, bad values, and that what is compiled more than once gives the same bits. */
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/rng.h"
#include "tests/tap.h"

enum { N = 1000 };

LOOP_CLONES(blend, (float *y, const float *x, int64_t n), (y, x, n))
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * 0.3F + x[i] * x[i];
}

WIDE_CLONES(blend_wide, (float *y, const float *x, int64_t n), (y, x, n))
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * 0.3F + x[i] * x[i];
}

static bool capped_to(const char *text, isa_t want)
{
    isa_t cap = ISA_BASE;
    setenv("DPTRAIN_MAX_ISA", text, 1);
    return isa_capped(&cap) && cap == want && isa_check() == ERR_OK;
}

static void test_caps(void)
{
    isa_t cap;
    unsetenv("DPTRAIN_MAX_ISA");
    OK(!isa_capped(&cap) && isa_check() == ERR_OK, "no variable, no cap");
    setenv("DPTRAIN_MAX_ISA", "", 1);
    OK(!isa_capped(&cap) && isa_check() == ERR_OK, "nor an empty one");
    OK(capped_to("base", ISA_BASE) && capped_to("avx2", ISA_AVX2) && capped_to("avx512", ISA_AVX512) &&
           capped_to("avx512_bf16", ISA_AVX512_BF16) && capped_to("amx", ISA_AMX),
       "each name is a cap");
    setenv("DPTRAIN_MAX_ISA", "AVX2", 1);
    OK(!isa_capped(&cap) && isa_check() == ERR_USAGE && SAYS("invalid DPTRAIN_MAX_ISA 'AVX2'", "avx512_bf16"),
       "other words are refused");
}

static void fill(float *values, uint64_t key)
{
    rng_t rng = rng_new(key, RNG_TEST, 0);
    for (int i = 0; i < N; i++) values[i] = (float)rng_u32(&rng) / 1e9F - 2;
}

static void test_bits(void)
{
    float x[N], want[N], got[N];
    fill(x, 1), fill(want, 2);
    memcpy(got, want, sizeof got);
    for (int i = 0; i < N; i++) {
        volatile float left = want[i] * 0.3F, right = x[i] * x[i]; /* rounded before they are added */
        want[i] = left + right;
    }
    float wide[N];
    memcpy(wide, got, sizeof wide);
    blend(got, x, N), blend_wide(wide, x, N);
    OK(memcmp(got, want, sizeof want) == 0, "a function's clone has the bits of plain C");
    OK(memcmp(wide, want, sizeof want) == 0, "… the wide one too");
}

int main(void)
{
    tap_plan(8);
    setenv("DPTRAIN_MAX_ISA", "avx2", 1);
    OK(isa_best() <= ISA_AVX2, "the cap holds");
    setenv("DPTRAIN_MAX_ISA", "amx", 1);
    OK(isa_best() <= ISA_AVX2, "what was found out first stays");
    test_caps();
    test_bits();
    return tap_done();
}
