/* SPDX-License-Identifier: MIT */
/* bfloat16: rounding against values computed by hand and against its definition, and its use in conv2d and
 * linear.
 *
 * RUN device=ref,cpu isa=avx2,avx512,avx512_bf16 */
#include "compute/tensor/float16.h"

#include <float.h>

#include "kernels/cpu/matrix.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void check_known(void)
{
    static const struct {
        uint32_t from, to;
        const char *what;
    } values[] = {
        {0x3f800000, 0x3f800000, "1 stays"},
        {0x00000000, 0x00000000, "0 stays"},
        {0x80000000, 0x80000000, "-0 stays"},
        {0x3f808000, 0x3f800000, "a tie goes down to the even one"},
        {0x3f818000, 0x3f820000, "a tie goes up to the even one"},
        {0xbf818000, 0xbf820000, "so does a negative one"},
        {0x3f808001, 0x3f810000, "above the middle goes up"},
        {0x3f817fff, 0x3f810000, "below the middle goes down"},
        {0x3fffffff, 0x40000000, "rounding up carries into the exponent"},
        {0x7f7f7fff, 0x7f7f0000, "below the largest bfloat16 and a half: the largest"},
        {0x7f7f8000, 0x7f800000, "from there on: infinite"},
        {0xff7fffff, 0xff800000, "-FLT_MAX is -infinite"},
        {0x7f800000, 0x7f800000, "infinity stays"},
        {0xff800000, 0xff800000, "-infinity stays"},
        {0x00000001, 0x00000000, "the smallest denormal is 0"},
        {0x00008001, 0x00010000, "a larger one is the smallest bfloat16"},
        {0x80018000, 0x80020000, "denormal ties go to the even one"},
        {0x007fffff, 0x00800000, "the largest denormal is normal"},
    };
    enum { N = sizeof values / sizeof values[0] };
    for (int i = 0; i < N; i++) {
        uint32_t got = bits_of(bf16_round(of_bits(values[i].from)));
        if (!OK(got == values[i].to, "%s", values[i].what)) printf("# %08x\n", (unsigned)got);
    }
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0xff80ffff, 0x7fffffff};
    bool stay = true;
    for (int i = 0; i < 5; i++) {
        uint32_t bits = bits_of(bf16_round(of_bits(nans[i])));
        stay = stay && (bits & 0x7f800000) == 0x7f800000 && (bits & 0x007f0000) && !(bits & 0xffff) &&
               bits >> 31 == nans[i] >> 31;
    }
    OK(stay, "NaN stays NaN, the payload's last bit and the sign's too");
}

/* The nearer of the two neighbours, by exact differences. */
static float by_definition(float x)
{
    uint32_t low = bits_of(x) & 0xffff0000u;
    double down = (double)x - (double)of_bits(low), up = (double)of_bits(low + 0x10000u) - (double)x;
    if (fabs(down) == fabs(up)) return of_bits(low >> 16 & 1 ? low + 0x10000u : low);
    return of_bits(fabs(down) < fabs(up) ? low : low + 0x10000u);
}

static void check_random(void)
{
    enum { N = 100000, OFFSET = 3 };
    static float from[N + OFFSET], to[N + OFFSET];
    rng_t rng = rng_new(5, RNG_TEST, 1);
    int64_t n_wrong = 0;
    for (int i = 0; i < N + OFFSET; i++) do
            from[i] = of_bits(rng_below(&rng, 0x10000u) << 16 | rng_below(&rng, 0x10000u));
        while (!(fabsf(from[i]) < 3e38f));
    bf16_round_array(to, from + OFFSET, N);
    for (int i = 0; i < N; i++) n_wrong += bits_of(to[i]) != bits_of(by_definition(from[i + OFFSET]));
    OK(n_wrong == 0, "%d random floats are rounded as defined", N);
    memcpy(from, to, sizeof to);
    bf16_round_array(to, to, N);
    OK(memcmp(to, from, N * sizeof *to) == 0, "rounding in place, and again, changes nothing");
}

/* One number in, one out. 2^-8 is half a unit in the last place of bfloat16 at 1, so it is rounded away. */
static void check_operator(const backend_t *device, op_desc_t desc)
{
    const float tiny = 0x1p-8f, bias = 0.1f;
    desc.compute = DTYPE_BF16;
    op_run_t r = op_run_new(device, desc, true);
    const char *name = op_traits(desc.kind)->name;
    char key[OP_KEY_MAX];
    r.x[0][0] = 1 + tiny, r.param[0][0] = 3 + 2 * tiny, r.param[1][0] = bias, r.dy[0] = 5 + 4 * tiny;
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(r.y[0] == 3 + bias, "%s: x and the weight are rounded, the bias and y are not", name);
    OK(r.dx[0][0] == 15 && r.dparam[0][0] == 5, "%s: every factor of a gradient is rounded", name);
    OK(r.dparam[1][0] == 5, "%s: the bias gradient sums rounded values", name);
    OK(r.x[0][0] == 1 + tiny && r.param[0][0] == 3 + 2 * tiny && r.dy[0] == 5 + 4 * tiny,
       "%s: the caller's operands do not change", name);
    op_key(&r.op->desc, key);
    OK(strstr(key, " bfloat16 ") && !strstr(key, "float32"), "the key names the type: %s", key);
    op_run_free(&r);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    tap_plan(19 + 2 + 10 + 2);
    check_known();
    check_random();
    check_operator(device, (op_desc_t)CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, true));
    check_operator(device, (op_desc_t)LINEAR(1, 1, 1, true));
    OK(dtype_size(DTYPE_BF16) == 2 && strcmp(dtype_name(DTYPE_BF16), "bfloat16") == 0, "size and name");
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
