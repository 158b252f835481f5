/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=cuda : elementwise work of a device outside operators and optimizers: totals, exchanging
 * buffers, adding gradients, and conversion to bf16 and back. */
#include "compute/tensor/float16.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static const int64_t lengths[] = {0, 1, 7, 8, 1000, 40001};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The guards, and the elements before the range. */
static bool untouched(const float *block, int64_t n, int64_t offset)
{
    bool held = util_guards_hold(block, shape_1d(n + offset));
    for (int64_t i = 0; i < offset; i++) held = held && isnan(block[i]);
    return held;
}

static void test_swap_and_accumulate(const backend_t *device, int64_t n, int64_t offset)
{
    float *a = util_floats(device, shape_1d(n + offset)), *b = util_floats(device, shape_1d(n + offset));
    for (int64_t i = 0; i < n; i++) a[offset + i] = (float)i, b[offset + i] = (float)(-7 * i) - 0.5f;
    util_push(device);
    float *device_a = (float *)util_device(a) + offset, *device_b = (float *)util_device(b) + offset;
    must(device->swap(device_a, device_b, n), "swap");
    util_pull(device);
    bool right = untouched(a, n, offset) && untouched(b, n, offset);
    for (int64_t i = 0; i < n; i++)
        right = right && b[offset + i] == (float)i && a[offset + i] == (float)(-7 * i) - 0.5f;
    OK(right, "%lld at offset %lld exchanged", (long long)n, (long long)offset);
    must(device->accumulate(device_a, device_b, n, DTYPE_F32), "accumulate");
    util_pull(device);
    right = untouched(a, n, offset) && untouched(b, n, offset);
    for (int64_t i = 0; i < n; i++)
        right = right && b[offset + i] == (float)i && a[offset + i] == (float)(-7 * i) - 0.5f + (float)i;
    OK(right, "… and added");
    util_free(&a);
    util_free(&b);
}

/* Random bits, and values around ties; NaN, infinities, denormals, and values that round up to infinity. */
static float pattern(int64_t i, rng_t *rng)
{
    static const uint32_t special[] = {0x7fffffff, 0x7f800001, 0xffc00000, 0xff800001, 0x7f800000, 0xff800000,
                                       0x7f7fffff, 0x80000001, 0x00008000, 0x00018000, 0x3f808000, 0x3f818000,
                                       0x3f807fff, 0x3f808001, 0,          0x80000000};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    uint32_t bits = i < N_SPECIAL ? special[i] : rng_u32(rng);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_narrow(const backend_t *device, int64_t n, int64_t offset)
{
    float *from = util_floats(device, shape_1d(n + offset));
    uint16_t *to = util_block(device, (size_t)(n + offset + 1) * sizeof *to);
    void *stream = device->device()->stream;
    rng_t rng = rng_new(43, RNG_TEST, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) from[offset + i] = pattern(i, &rng);
    for (int64_t i = 0; i < n + offset + 1; i++) to[i] = 0xabcd;
    util_push(device);
    must(device->narrow((float *)util_device(from) + offset, (uint16_t *)util_device(to) + offset, n, stream),
         "narrow");
    util_pull(device);
    bool right = to[n + offset] == 0xabcd;
    for (int64_t i = 0; i < offset; i++) right = right && to[i] == 0xabcd;
    for (int64_t i = 0; right && i < n; i++) {
        uint32_t expected = bits_of(bf16_round(from[offset + i]));
        /* Any NaN may stand for another. */
        right = isnan(from[offset + i]) ? isnan(bf16_to_float(to[offset + i])) != 0
                                        : to[offset + i] == expected >> 16;
        if (!right)
            printf("# %08x becomes %04x, not %08x\n", bits_of(from[offset + i]), to[offset + i], expected);
    }
    OK(right, "%lld at offset %lld rounded to bf16", (long long)n, (long long)offset);
    util_free(&from);
    util_free(&to);
}

/* Every bf16 value. */
static void test_widen(const backend_t *device, int64_t offset)
{
    enum { N = 1 << 16 };
    uint16_t *from = util_block(device, (size_t)(N + offset) * sizeof *from);
    float *to = util_floats(device, shape_1d(N + offset));
    for (int64_t i = 0; i < N; i++) from[offset + i] = (uint16_t)i;
    util_push(device);
    must(device->widen((uint16_t *)util_device(from) + offset, (float *)util_device(to) + offset, N,
                       device->device()->stream),
         "widen");
    util_pull(device);
    bool right = untouched(to, N, offset);
    for (int64_t i = 0; i < N; i++) right = right && bits_of(to[offset + i]) == (uint32_t)i << 16;
    OK(right, "every bf16 at offset %lld, widened", (long long)offset);
    util_free(&from);
    util_free(&to);
}

/* Losses whose sums are exact in double, in any order, but not in float. */
static void test_tally(const backend_t *device, int64_t n)
{
    float *losses = util_floats(device, shape_1d(n)), *totals = util_floats(device, shape_1d(2));
    int32_t *predictions = util_block(device, (size_t)n * sizeof *predictions);
    int32_t *labels = util_block(device, (size_t)n * sizeof *labels);
    rng_t rng = rng_new(47, RNG_TEST, (uint64_t)n);
    double sum = 0;
    int n_right = 0;
    for (int64_t i = 0; i < n; i++) {
        losses[i] = i == 0 ? 0x1p26f : (float)rng_below(&rng, 1 << 20) / 1024;
        labels[i] = (int32_t)rng_below(&rng, 3), predictions[i] = (int32_t)rng_below(&rng, 3);
        sum += losses[i];
        n_right += labels[i] == predictions[i];
    }
    float loss = 3, right = 2; /* the previous totals */
    totals[0] = loss, totals[1] = right;
    util_push(device);
    for (int k = 0; k < 2; k++) {
        must(device->tally(util_device(losses), util_device(predictions), util_device(labels), n,
                           util_device(totals)),
             "tally");
        loss += (float)sum, right += (float)n_right;
    }
    must(device->tally(util_device(losses), NULL, NULL, n, util_device(totals)), "tally");
    loss += (float)sum;
    util_pull(device);
    OK(totals[0] == loss && totals[1] == right && util_guards_hold(totals, shape_1d(2)),
       "totals of %lld samples: losses three times, correct predictions twice", (long long)n);
    util_free(&losses);
    util_free(&totals);
    util_free(&predictions);
    util_free(&labels);
}

int main(int argc, char **argv)
{
    const backend_t *device = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &device, why) != ERR_OK) tap_skip_all(err_message());
    device = util_open(argc, argv, 1);
    if (!device->swap) tap_skip_all("host backends have none of these");
    tap_plan(2 * 3 * N_LENGTHS + 2 + N_LENGTHS + 1);
    for (int l = 0; l < N_LENGTHS; l++) {
        for (int64_t offset = 0; offset <= 3; offset += 3) {
            test_swap_and_accumulate(device, lengths[l], offset);
            test_narrow(device, lengths[l], offset);
        }
        test_tally(device, lengths[l]);
    }
    test_widen(device, 0);
    test_widen(device, 3);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
