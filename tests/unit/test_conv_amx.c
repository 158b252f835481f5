/* SPDX-License-Identifier: MIT */
/* Convolutions on AMX against ref, on CPUs with AMX: shapes at the edges of tiles, blocks and chunks, on one
 * thread and on three, with scratch full of NaN. Both sides multiply the same bfloat16 values and add in
 * float32 or better.
 *
 * RUN device=cpu */
#include "compute/ops/backend.h"
#include "kernels/cpu/amx.h"
#include "tests/op_result.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    /* one pixel; rows of 1, 16 and 17 pixels; rows shorter than a tile in one position between strides */
    CONV(1, 1, 1, 16, 16, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(2, 5, 1, 32, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 3, 16, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(2, 4, 17, 48, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 5, 33, 16, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1, true),
    /* strides that differ by direction; strides larger than the filter, with pixels that nothing reads;
     * filters that are not square; padding beyond half the filter, and none */
    CONV(2, 9, 10, 32, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1, true),
    CONV(2, 11, 13, 16, 32, 5, 5, 3, 3, 2, 2, 1, 1, 1, true),
    CONV(2, 8, 9, 16, 16, 2, 3, 1, 2, 1, 0, 1, 1, 1, true),
    CONV(1, 7, 9, 64, 16, 1, 1, 2, 1, 0, 0, 1, 1, 1, false),
    CONV(3, 11, 9, 16, 32, 1, 1, 3, 3, 0, 0, 1, 1, 1, true),
    CONV(2, 6, 5, 32, 32, 3, 3, 1, 1, 2, 2, 1, 1, 1, true),
    CONV(2, 7, 6, 32, 16, 3, 2, 1, 1, 0, 0, 1, 1, 1, true),
    /* few channels, whose pixels are packed together */
    CONV(3, 37, 35, 3, 32, 7, 7, 2, 2, 3, 3, 1, 1, 1, true),
    CONV(2, 12, 9, 1, 16, 5, 5, 1, 1, 2, 2, 1, 1, 1, true),
    CONV(2, 9, 8, 17, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 9, 8, 15, 48, 3, 5, 1, 2, 1, 2, 1, 1, 1, false),
    /* many filters; several chunks, the last one smaller; results that bypass the caches */
    CONV(2, 4, 4, 64, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(3, 40, 40, 128, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(1, 65, 64, 16, 272, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
};
enum { N_LARGE = 3, ONE = 1, SEVERAL = 3 };
/* ref takes long for the large cases under a sanitizer. */
enum { N_CASES = sizeof cases / sizeof cases[0] - (UNDER_SANITIZER ? N_LARGE : 0) };

static void reopen(const backend_t *device, int n_threads)
{
    backend_options_t options = {.n_threads = n_threads};
    if (device->close) device->close();
    must(device->open(&options), "opening the device");
}

/* bfloat16 operands give the same packed values as float32 ones, and results are rounded once. */
static void check_narrow(const backend_t *device, op_desc_t desc, const op_result_t *wide, bool x, bool y)
{
    op_algorithms_t amx = op_result_algorithms(device, desc, "amx/bf16");
    desc.x_dtype[0] = x ? DTYPE_BF16 : DTYPE_F32, desc.y_dtype[0] = y ? DTYPE_BF16 : DTYPE_F32;
    op_result_t narrow = op_result_of(device, &desc, &amx), rounded = *wide;
    const bool is_narrow[4] = {y, x};
    for (int i = 0; i < 4 && wide->part[i]; i++) {
        rounded.part[i] = op_result_copy(wide->part[i], DTYPE_F32, wide->shape[i]);
        for (int64_t e = 0; is_narrow[i] && e < shape_count(wide->shape[i]); e++)
            rounded.part[i][e] = bf16_round(wide->part[i][e]);
    }
    const char *which = x && y ? "x and y are" : x ? "x is" : "y is";
    OK(op_result_same_bits(&rounded, &narrow), "… and the same, rounded, where %s bfloat16", which);
    op_result_free(&rounded), op_result_free(&narrow);
}

static void compare(const backend_t *device, op_desc_t desc)
{
    desc.compute = DTYPE_BF16;
    op_algorithms_t amx = op_result_algorithms(device, desc, "amx/bf16");
    shape_text_t x = shape_format(desc.x[0]);
    OK(amx.name[OP_FORWARD][0] && amx.name[OP_BACKWARD_WEIGHTS][0] &&
           (amx.name[OP_BACKWARD_DATA][0] || desc.x[0].dim[3] % AMX_COLUMNS),
       "%s has it", x.text);
    reopen(device, ONE);
    op_result_t want = op_result_of(&backend_ref, &desc, NULL), one = op_result_of(device, &desc, &amx);
    OK(op_result_near(&want, &one), "… and equal to ref's");
    check_narrow(device, desc, &one, true, true);
    check_narrow(device, desc, &one, false, true);
    check_narrow(device, desc, &one, true, false);
    reopen(device, SEVERAL);
    op_result_t several = op_result_of(device, &desc, &amx);
    OK(op_result_same_bits(&one, &several), "… bitwise the same on several threads");
    op_result_free(&want), op_result_free(&one), op_result_free(&several);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    if (!amx_here()) tap_skip_all("no AMX here (a CPU from Sapphire Rapids on, Linux 5.16, GCC 11)");
    tap_plan(6 * N_CASES + 1);
    for (int i = 0; i < N_CASES; i++) compare(device, cases[i]);
    device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
