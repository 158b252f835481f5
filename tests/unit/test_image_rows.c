/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The steps of resizing in vectors, of each width that the machine has, against the plain ones: the same
 * bits, in blocks of just the size that they may touch. */
#include "base/isa.h"
#include "base/rng.h"
#include "data/image/rows.h"
#include "tests/tap.h"

enum { WIDTH = 50, MOST_OUT = 41, MOST_PAIRS = 7, MOST_BYTES = 3 * MOST_OUT + ROWS_BEHIND, N_CASES = 200 };

static rng_t rng;
static int32_t first[MOST_OUT + ROWS_STEP];
static pair_t pairs[(MOST_OUT + ROWS_STEP) * MOST_PAIRS];

static int64_t below(int64_t n)
{
    return (int64_t)rng_below(&rng, (uint64_t)n);
}

static int64_t round_up(int64_t n, int64_t whole)
{
    return (n + whole - 1) / whole * whole;
}

static uint8_t *new_bytes(int64_t n)
{
    uint8_t *bytes = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(below(4) ? below(256) : 255);
    return bytes;
}

/* Weights of 1 altogether, sometimes all of it one pixel's. */
static void draw_weights(int64_t n_pairs, pair_t *to)
{
    int64_t left = ROWS_ONE;
    for (int64_t k = 0; k < 2 * n_pairs; k++) {
        const int64_t weight = k == 2 * n_pairs - 1 || below(5) == 0 ? left : below(left + 1);
        left -= weight;
        for (int64_t lane = k % 2; lane < 8; lane += 2) {
            to[k / 2].high[lane] = (int16_t)(weight >> ROWS_LOW_BITS);
            to[k / 2].low[lane] = (int16_t)(weight & ROWS_LOW_MASK);
        }
    }
}

static bool resizes_right(const rows_ops_t *ops)
{
    const taps_t taps = {1 + below(MOST_OUT), 1 + below(MOST_PAIRS), first, pairs};
    const int64_t n_made = round_up(taps.n_out, ROWS_STEP);
    const uint8_t *rows[ROWS_MOST];
    uint8_t *out[ROWS_MOST], plain[MOST_BYTES];
    memset(first, 0, sizeof first);
    memset(pairs, 0, sizeof pairs);
    for (int64_t i = 0; i < taps.n_out; i++) {
        first[i] = (int32_t)below(WIDTH - 2 * taps.n_pairs + 1);
        draw_weights(taps.n_pairs, pairs + i * taps.n_pairs);
    }
    for (int r = 0; r < ops->n_together; r++) {
        rows[r] = new_bytes(3 * WIDTH + ROWS_BEHIND);
        out[r] = new_bytes(3 * n_made + ROWS_BEHIND);
    }
    ops->resize(&taps, rows, out);
    bool right = true;
    for (int r = 0; r < ops->n_together; r++) {
        rows_plain.resize(&taps, &rows[r], (uint8_t *const[]){plain});
        right = memcmp(plain, out[r], (size_t)(3 * taps.n_out)) == 0 && right;
        free((void *)(uintptr_t)rows[r]);
        free(out[r]);
    }
    return right;
}

static bool mixes_right(const rows_ops_t *ops)
{
    const int64_t n_pairs = 1 + below(MOST_PAIRS), n = 1 + below(MOST_BYTES);
    const uint8_t *rows[2 * MOST_PAIRS];
    uint8_t *out = new_bytes(n), plain[MOST_BYTES];
    draw_weights(n_pairs, pairs);
    for (int64_t k = 0; k < 2 * n_pairs; k++) rows[k] = new_bytes(round_up(n, ROWS_BLOCK));
    ops->mix(rows, pairs, n_pairs, n, out);
    rows_plain.mix(rows, pairs, n_pairs, n, plain);
    const bool right = memcmp(plain, out, (size_t)n) == 0;
    for (int64_t k = 0; k < 2 * n_pairs; k++) free((void *)(uintptr_t)rows[k]);
    free(out);
    return right;
}

int main(void)
{
    const rows_ops_t *tables[4] = {&rows_plain};
    int n_tables = 1;
#ifdef __x86_64__
    if (rows_sse41 && __builtin_cpu_supports("sse4.1")) tables[n_tables++] = rows_sse41;
    if (rows_avx2 && isa_best() >= ISA_AVX2) tables[n_tables++] = rows_avx2;
    if (rows_avx512 && isa_best() >= ISA_AVX512) tables[n_tables++] = rows_avx512;
#endif
    rng = rng_new(7, RNG_TEST, 0);
    tap_plan(2 * n_tables + 1);
    for (int t = 0; t < n_tables; t++) {
        int n_resized = 0, n_mixed = 0;
        for (int i = 0; i < N_CASES; i++) {
            n_resized += resizes_right(tables[t]);
            n_mixed += mixes_right(tables[t]);
        }
        OK(n_resized == N_CASES, "%s: rows resized, %d of %d", tables[t]->name, n_resized, N_CASES);
        OK(n_mixed == N_CASES, "%s: rows mixed, %d of %d", tables[t]->name, n_mixed, N_CASES);
    }
    OK(rows_ops() == tables[n_tables - 1], "the widest is chosen");
    return tap_done();
}
