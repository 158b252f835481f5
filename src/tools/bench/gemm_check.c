/* SPDX-License-Identifier: MIT */
/* Generates small integers and verifies a product exactly by Freivalds' method. */
#include "tools/bench/gemm_check.h"

#include <math.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/rng.h"

void gemm_fill(float *out, int64_t count, int half, uint64_t seed)
{
    uint64_t key = rng_key(seed, RNG_TEST);
    for (int64_t first = 0; first < count; first += 16) {
        rng_block_t block = rng_philox(key, (uint32_t)(first >> 4), (uint32_t)(first >> 36), 0, 0);
        for (int64_t i = 0; i < 16 && first + i < count; i++) {
            uint32_t byte = block.word[i / 4] >> 8 * (i % 4) & 255;
            out[first + i] = (float)((int)(byte * (uint32_t)(2 * half + 1) >> 8) - half);
        }
    }
}

/* In [1, 2^20]. */
static void draw_vector(int64_t *v, int64_t n, uint32_t stream)
{
    rng_t rng = rng_new(7, RNG_TEST, stream);
    for (int64_t i = 0; i < n; i++) v[i] = 1 + (int64_t)(rng_u32(&rng) >> 12);
}

/* Sets *bad for values that are not integers, are too large, infinite or NaN. */
static int64_t to_integer(float value, bool *bad)
{
    *bad |= !(fabsf(value) <= 0x1p24f) || value != rintf(value);
    return *bad ? 0 : (int64_t)value;
}

/* out[c] = Σ_r v[r]·a[r, c] */
static void combine_rows(const float *a, const int64_t *v, int64_t n_rows, int64_t n_columns, int64_t *out)
{
    for (int64_t c = 0; c < n_columns; c++) out[c] = 0;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t c = 0; c < n_columns; c++) out[c] += v[r] * (int64_t)a[r * n_columns + c];
}

static int64_t integer_dot(const float *a, const int64_t *v, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i] * (int64_t)a[i];
    return sum;
}

/* Sets u [k] to wᵀv. */
static int64_t wrong_rows(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                          int64_t *v, int64_t *u)
{
    int64_t n_wrong = 0;
    draw_vector(v, n, 1);
    combine_rows(w, v, n, k, u);
    for (int64_t i = 0; i < m; i++) {
        bool bad = false;
        int64_t sum = 0;
        for (int64_t j = 0; j < n; j++) sum += v[j] * to_integer(y[i * n + j], &bad);
        n_wrong += bad || sum != integer_dot(x + i * k, u, k);
    }
    return n_wrong;
}

/* Sets u [k] to xᵀv and sums [n] to yᵀv. */
static int64_t wrong_columns(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                             int64_t *v, int64_t *u, int64_t *sums)
{
    int64_t n_wrong = 0;
    draw_vector(v, m, 2);
    combine_rows(x, v, m, k, u);
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            bool bad = false;
            sums[j] += v[i] * to_integer(y[i * n + j], &bad);
            if (bad) sums[j] = INT64_MIN / 2;
        }
    for (int64_t j = 0; j < n; j++) n_wrong += sums[j] != integer_dot(w + j * k, u, k);
    return n_wrong;
}

err_t gemm_check(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                 int64_t *n_wrong)
{
    int64_t *v, *u, *sums;
    int64_t n_v = m > n ? m : n;
    TRY(mem_new_array(2 * n_v + k, sizeof *v, "checking a product", &v));
    u = v + n_v, sums = u + k;
    *n_wrong = wrong_rows(x, w, y, m, n, k, v, u) + wrong_columns(x, w, y, m, n, k, v, u, sums);
    mem_free(&v);
    return ERR_OK;
}
