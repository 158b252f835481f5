/* SPDX-License-Identifier: MIT */
/* Products of many rows: forward has the same bits on 1, 2 and 3 threads, at sizes that fill tiles and at others.
 *
 * RUN np=0 device=cpu isa=avx2,avx512 */
#include "compute/ops/backend.h"
#include "tests/op_result.h"
#include "tests/tap.h"

/* As the box head of a detector, narrower in the last. */
static const op_desc_t cases[] = {LINEAR(512, 1024, 512, true), LINEAR(600, 3000, 300, true),
                                  LINEAR(257, 700, 33, false)};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static op_result_t result_of(const backend_t *device, const op_desc_t *desc, int n_threads)
{
    if (device->close) device->close();
    must(backend_open(device, n_threads), "opening the device");
    return op_result_of(device, desc, NULL);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    tap_plan(N_CASES + 1);
    for (int i = 0; i < N_CASES; i++) {
        op_result_t one = result_of(device, &cases[i], 1);
        const size_t n_bytes = (size_t)shape_count(one.shape[0]) * sizeof(float);
        bool same = true;
        for (int n = 2; n <= 3; n++) {
            op_result_t other = result_of(device, &cases[i], n);
            same = same && memcmp(one.part[0], other.part[0], n_bytes) == 0;
            op_result_free(&other);
        }
        shape_text_t y = shape_format(one.shape[0]);
        OK(same, "%s: the same bits", y.text);
        op_result_free(&one);
    }
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
