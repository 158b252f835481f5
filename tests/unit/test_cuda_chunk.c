/* SPDX-License-Identifier: MIT */
/* The arithmetic by which the CUDA backend cuts work into chunks and parts. Needs no GPU. */
#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

#ifndef DPTRAIN_CUDA
int main(void)
{
    tap_skip_all("this build has no CUDA backend");
}
#else
#include "kernels/cuda/chunk.h"

enum { MIB = 1 << 20 };

static chunk_need_t need(int64_t n, int64_t sample, int64_t fixed, int64_t limit)
{
    return (chunk_need_t){.what = "layer",
                          .n_samples = n,
                          .n_sample_bytes = sample,
                          .n_fixed_bytes = fixed,
                          .n_limit_bytes = limit};
}

static void check(chunk_need_t given, int64_t n_samples, int64_t n_chunks, int64_t n_last, const char *what)
{
    chunk_t c = {0};
    bool planned = chunk_plan(&given, &c) == ERR_OK;
    bool same = c.n_samples == n_samples && c.n_chunks == n_chunks && c.n_last == n_last;
    if (!OK(planned && same && chunk_fits(&given), "%s", what))
        printf("# %lld chunks of %lld, the last of %lld\n", (long long)c.n_chunks, (long long)c.n_samples,
               (long long)c.n_last);
}

static void refused(chunk_need_t given, const char *word, const char *what)
{
    chunk_t c;
    err_t err = chunk_plan(&given, &c);
    if (!OK(err == ERR_USAGE && !chunk_fits(&given) && strstr(err_message(), word) &&
                strstr(err_message(), "layer"),
            "%s", what))
        printf("# %s\n", err_message());
}

/* Every sample is in one chunk, and no chunk exceeds the limits. */
static void check_all(void)
{
    bool good = true;
    for (int64_t n = 1; n <= 40; n++)
        for (int64_t room = 1; room <= 45; room++) {
            chunk_need_t given = need(n, 10, 3, 3 + 10 * room + 9);
            chunk_t c = {0};
            good = good && chunk_plan(&given, &c) == ERR_OK && c.n_samples <= room && c.n_last >= 1 &&
                   c.n_last <= c.n_samples && (c.n_chunks - 1) * c.n_samples + c.n_last == n &&
                   c.n_chunks == (n + room - 1) / room;
        }
    OK(good, "chunks contain all samples, fit, and are as few as possible");
}

static void check_products(void)
{
    const int64_t plain[] = {3, 5, 7}, none[] = {INT64_MAX, 0, 3}, large[] = {INT64_MAX / 2, 3},
                  edge[] = {INT64_MAX, 1};
    OK(chunk_product(plain, 3) == 105 && chunk_product(plain, 0) == 1, "a product");
    OK(chunk_product(none, 3) == 0, "a product with 0");
    OK(chunk_product(large, 2) == INT64_MAX && chunk_product(edge, 2) == INT64_MAX,
       "a product beyond 64 bits");
}

static void check_parts(void)
{
    OK(chunk_parts(1, 1) == 1 && chunk_parts(256, 1) == 1 && chunk_parts(64, 500) == 1, "few rows: one part");
    OK(chunk_parts(257, 10) == 5, "more rows: parts of 64");
    OK(chunk_parts((int64_t)1 << 30, 1) == 1024 && chunk_parts((int64_t)1 << 30, 33) == 512,
       "many rows: as many parts as fill a GPU");
    OK(chunk_parts((int64_t)1 << 30, (int64_t)1 << 30) == 1, "many columns: one part");
    OK(chunk_splits(1, 36864, 2080, 256 * MIB) == 264, "one tile: as many parts as fill a GPU");
    OK(chunk_splits(1, 129, 2080, 256 * MIB) == 2 && chunk_splits(1, 128, 2080, 256 * MIB) == 1,
       "a short depth: parts of 128");
    OK(chunk_splits(264, 36864, 2080, MIB) == 1 && chunk_splits(100000, 1, 8, 0) == 1,
       "many tiles: one part");
    OK(chunk_splits(1, 36864, MIB, 3 * MIB) == 3 && chunk_splits(1, 36864, MIB, MIB) == 1 &&
           chunk_splits(1, 36864, MIB, 17) == 1,
       "parts fit the limit, and a single one needs no space");
}

int main(void)
{
    tap_plan(13 + 1 + 3 + 8);
    check(need(64, MIB, 0, 256 * MIB), 64, 1, 64, "all at once");
    check(need(64, 4 * MIB, 0, 256 * MIB), 64, 1, 64, "all at once, exactly");
    check(need(65, 4 * MIB, 0, 256 * MIB), 33, 2, 32, "one sample more: two halves");
    check(need(64, 4 * MIB, 1, 256 * MIB), 32, 2, 32, "a fixed byte");
    check(need(7, 3, 0, 3), 1, 7, 1, "one by one");
    check(need(1, 5, 5, 10), 1, 1, 1, "one sample that fits exactly");
    check(need(1000, 0, 5, 5), 1000, 1, 1000, "no scratch for a sample");
    check(need((int64_t)1 << 40, 1, 0, INT64_MAX), (int64_t)1 << 40, 1, (int64_t)1 << 40,
          "more than 32 bits");
    chunk_need_t cells = need(10, 1, 0, MIB);
    cells.n_sample_cells = INT32_MAX / 4;
    check(cells, 4, 3, 2, "as many values as a kernel supports");
    refused(need(1, 6, 5, 10), "--workspace", "one sample larger than the limit");
    refused(need(3, 1, 11, 10), "--workspace", "fixed bytes larger than the limit");
    refused(need(3, INT64_MAX, 11, 10 * MIB), "--workspace", "a sample of more than 64 bits");
    cells.n_sample_cells = (int64_t)INT32_MAX + 1;
    refused(cells, "values", "a sample of more values than a kernel supports");
    check_all();
    check_products();
    check_parts();
    return tap_done();
}
#endif
