/* SPDX-License-Identifier: MIT */
/* IDX files, plain and gzip: images and labels. */
#include "base/mem.h"
#include "data/dataset/idx.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file(data, n);
    for (int n_dims = 1; n_dims <= 3; n_dims += 2) {
        shape_t shape;
        uint8_t *values = NULL;
        err_t err = idx_read(path, n_dims, MAX_BYTES, &shape, &values);
        MUST(err == ERR_OK || err == ERR_DATA);
        if (err == ERR_OK) {
            const int64_t n_values = shape_count(shape);
            unsigned sum = 0;
            MUST(shape.n_dims == n_dims && n_values > 0 && n_values <= MAX_BYTES);
            for (int64_t i = 0; i < n_values; i++) sum += values[i];
            (void)sum;
        }
        mem_free(&values);
        MUST(mem_live() == 0);
    }
    int64_t n_labels = 0;
    uint8_t *labels = NULL;
    err_t err = idx_read_labels(path, MAX_BYTES, &n_labels, &labels);
    MUST(err == ERR_OK || err == ERR_DATA);
    MUST((err == ERR_OK) == (labels != NULL) && (err != ERR_OK || (n_labels > 0 && n_labels <= MAX_BYTES)));
    unsigned sum = 0;
    for (int64_t i = 0; i < n_labels && labels; i++) sum += labels[i];
    (void)sum;
    mem_free(&labels);
    MUST(mem_live() == 0);
    return 0;
}
