/* SPDX-License-Identifier: MIT */
/* roi_align against torchvision 0.29.2's MultiScaleRoIAlign; fewer rows than were planned; the same bits on any
 * number of threads.
 *
 * RUN device=ref,cpu,cuda isa=avx2,avx512 */
#include "tests/op_util.h"
#include "tests/tap.h"

enum { N = 2, C = 2, H = 3, W = 2, ROWS = 7, LAST = ROI_ALIGN_LEVELS };

static const float regions[ROWS][ROI_ALIGN_VALUES] = {
    {0, 3.5f, 7.25f, 40, 33}, {1, -9, -20, 50, 30.5f}, {0, 100, 20, 230, 200}, {1, 250, 180, 330, 262},
    {0, 10, 10, 11, 10.5f},   {1, 0, 0, 320, 256},     {0, 5, 5, 300, 250}};

/* The second channel, and for each level the sum of its gradient, each element times a weight. */
static const struct golden {
    int samples;
    bool aligned;
    float y[ROWS * H * W];
    double dx[3];
} goldens[] = {
    {2,
     false,
     {-0.24970809f,
      -0.0084178746f,
      -0.11705167f,
      -0.12605779f,
      -0.080211766f,
      -0.062129408f,
      0,
      0,
      -0.030595478f,
      0.0080531286f,
      -0.017161461f,
      0.079678819f,
      0.026031494f,
      -0.08864212f,
      0.097358704f,
      0.0023994446f,
      0.038848877f,
      -0.077167511f,
      0.13427752f,
      -0.18302399f,
      0.10424829f,
      -0.058797255f,
      0.098632812f,
      -0.076660156f,
      0.13639323f,
      0.14941406f,
      0.12231447f,
      0.17390952f,
      0.051106762f,
      0.069986962f,
      0.0074869767f,
      0.082845055f,
      0.062174506f,
      0.021484461f,
      -0.020182285f,
      -0.022298243f,
      -0.079928353f,
      0.043335252f,
      -0.066287763f,
      0.096037343f,
      0.062359091f,
      -0.09138719f},
     {97.52106861612992, 24.5650634765625, 57.149018193478696}},
    {0,
     false,
     {-0.12318885f,
      -0.020578785f,
      -0.064354166f,
      -0.084228791f,
      0.077770799f,
      0.02833588f,
      0,
      0,
      -0.062963948f,
      0.017579729f,
      -0.033101588f,
      0.078423798f,
      -0.0034948273f,
      -0.0032646267f,
      0.027761528f,
      0.01152146f,
      -2.8297305e-05f,
      -0.020565975f,
      -0.057471655f,
      -0.016102018f,
      -0.011556029f,
      0.067552164f,
      0.00038857802f,
      -0.0039813444f,
      0.13639322f,
      0.14941406f,
      0.13183594f,
      0.1953125f,
      0.051106721f,
      0.069986917f,
      0.018992331f,
      0.0063621113f,
      -0.0091507593f,
      0.041644964f,
      -0.037279356f,
      0.013726127f,
      -0.026282907f,
      0.031386215f,
      -0.011486533f,
      0.015489145f,
      -0.0058259545f,
      -0.03921362f},
     {93.90258811510284, 24.743835090401262, 54.14434068322407}},
    {2,
     true,
     {-0.18011013f,
      -0.066054106f,
      -0.11800931f,
      -0.20475475f,
      -0.041139424f,
      -0.080007643f,
      0,
      0,
      0.021797173f,
      0.099758796f,
      0.12710458f,
      0.19544342f,
      -0.10440445f,
      -0.082054138f,
      0.18115997f,
      0.11236954f,
      -0.087387085f,
      -0.01133728f,
      0.021138415f,
      -0.12670884f,
      -0.054830186f,
      -0.029907197f,
      0.033203125f,
      0.0048828125f,
      -0.10464478f,
      -0.059214287f,
      -0.11618045f,
      -0.068756133f,
      -0.12771605f,
      -0.078297921f,
      0.11295572f,
      -0.067220062f,
      0.0052082539f,
      -0.018391818f,
      0.012532525f,
      0.00097651035f,
      -0.0027393922f,
      0.13671887f,
      -0.1143508f,
      -0.014879862f,
      0.053378269f,
      0.054922521f},
     {98.82680959353456, 23.96728515625, 55.506266036769375}},
    {0,
     true,
     {-0.089851998f,
      -0.019568581f,
      -0.07686431f,
      -0.067346834f,
      0.053504895f,
      -0.0014078309f,
      0,
      0,
      -0.03880268f,
      0.0003623454f,
      -0.055761367f,
      0.075021639f,
      0.0047088237f,
      -0.0089794183f,
      0.02793573f,
      -0.00089650892f,
      6.0521896e-05f,
      -0.021097485f,
      -0.05132205f,
      -0.0057905624f,
      -0.0171888f,
      0.05672735f,
      0.015528062f,
      -0.010957415f,
      -0.10464475f,
      -0.05921426f,
      -0.11618042f,
      -0.068756104f,
      -0.12771602f,
      -0.078297891f,
      0.051837366f,
      0.0063621192f,
      0.0036313722f,
      0.02245732f,
      -0.037684463f,
      0.012930427f,
      -0.046781413f,
      0.035868071f,
      -0.028665122f,
      0.021103447f,
      0.0098999385f,
      -0.034919571f},
     {92.34134178010663, 24.834488694241372, 54.09232948260615}},
};

/* A hash that the numbers were made with. */
static uint32_t word(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

static op_run_t start(const backend_t *device, int samples, bool aligned)
{
    op_run_t r = op_run_new(device, (op_desc_t)ROI_ALIGN(N, 64, 80, C, ROWS, H, W, samples, aligned), true);
    uint32_t k = 0;
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++)
        for (int64_t i = 0; i < shape_count(r.op->desc.x[level]); i++)
            r.x[level][i] = (float)(word(k++) % 256) / 256 - 0.5f;
    memcpy(r.x[LAST], regions, sizeof regions);
    for (uint32_t i = 0; i < ROWS * H * W * C; i++) r.dy[i] = (float)(word(7000 + i) % 16) / 16;
    return r;
}

static void test_golden(const backend_t *device, const struct golden *g)
{
    op_run_t r = start(device, g->samples, g->aligned);
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    bool same = true;
    for (int i = 0; i < ROWS * H * W; i++) same = same && fabsf(r.y[C * i + 1] - g->y[i]) <= 2e-6f;
    const char *where = g->aligned ? "aligned" : "not aligned";
    OK(same, "forward, %d samples, %s", g->samples, where);
    same = true;
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++) {
        double sum = 0, want = level < 3 ? g->dx[level] : 0;
        for (int64_t i = 0; i < shape_count(r.op->desc.x[level]); i++)
            sum += (double)r.dx[level][i] * (1 + word(9000 + (uint32_t)i) % 8);
        if (fabs(sum - want) <= 1e-5 * (1 + want)) continue;
        printf("# level %d: %.9g, expected %.9g\n", level, sum, want);
        same = false;
    }
    OK(same, "backward, %d samples, %s", g->samples, where);
    op_run_free(&r);
}

static void test_rows(const backend_t *device, int64_t n)
{
    op_run_t all = start(device, 2, false), few = start(device, 2, false);
    const int64_t row = H * W * C;
    must(op_run_forward(&all), "forward");
    /* Without gradients, the other rows add nothing. */
    for (int64_t i = n * row; i < ROWS * row; i++) all.dy[i] = 0;
    must(op_run_backward(&all), "backward");
    few.args.n_rows = n;
    for (int64_t i = n * ROI_ALIGN_VALUES; i < ROWS * ROI_ALIGN_VALUES; i++) few.x[LAST][i] = NAN;
    for (int64_t i = n * row; i < ROWS * row; i++) few.dy[i] = NAN;
    must(op_run_forward(&few), "forward"), must(op_run_backward(&few), "backward");
    bool same = memcmp(all.y, few.y, (size_t)(n * row) * sizeof(float)) == 0;
    for (int64_t i = n * row; i < ROWS * row; i++) same = same && few.y[i] == 0;
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++)
        for (int64_t i = 0; i < shape_count(few.op->desc.x[level]); i++)
            same = same && few.dx[level][i] == all.dx[level][i];
    OK(same, "%lld of %d rows", (long long)n, ROWS);
    op_run_free(&all), op_run_free(&few);
}

/* An aligned region may be smaller than a cell, or empty: then no point is read. */
static void test_empty(const backend_t *device)
{
    op_run_t r = start(device, 0, true);
    const int64_t n_row = H * W * C;
    for (int i = 0; i < ROWS; i++) r.x[LAST][ROI_ALIGN_VALUES * i + 3] = r.x[LAST][ROI_ALIGN_VALUES * i + 1];
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    bool zero = true;
    for (int64_t i = 0; i < ROWS * n_row; i++) zero = zero && r.y[i] == 0;
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++)
        for (int64_t i = 0; i < shape_count(r.op->desc.x[level]); i++) zero = zero && r.dx[level][i] == 0;
    OK(zero, "empty regions");
    op_run_free(&r);
}

/* Also with channels that do not fill whole vectors. */
static void test_threads(const backend_t *device, const op_desc_t *desc, int n_threads)
{
    static float *y, *dx;
    op_run_t r = op_run_new(device, *desc, true);
    op_run_fill(&r, 50);
    if (device->close) device->close();
    must(backend_open(device, n_threads), "opening the device");
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    size_t n_y = (size_t)shape_count(r.op->desc.y[0]) * sizeof *y,
           n_dx = (size_t)shape_count(r.op->desc.x[0]) * sizeof *dx;
    if (n_threads == 1) {
        must(mem_new(n_y, "y", &y), "memory"), must(mem_new(n_dx, "dx", &dx), "memory");
        memcpy(y, r.y, n_y), memcpy(dx, r.dx[0], n_dx);
    } else {
        OK(memcmp(y, r.y, n_y) == 0 && memcmp(dx, r.dx[0], n_dx) == 0, "%s, %d threads",
           shape_format(r.op->desc.x[0]).text, n_threads);
    }
    if (n_threads == 4) mem_free(&y), mem_free(&dx);
    op_run_free(&r);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    const op_desc_t sizes[] = {ROI_ALIGN(2, 64, 80, 50, 60, 7, 7, 2, false),
                               ROI_ALIGN(1, 32, 24, 96, 20, 3, 3, 0, true)};
    const bool host = !device->device;
    tap_plan(8 + 4 + 1 + (host ? 4 : 0) + 1);
    for (int i = 0; i < 4; i++) test_golden(device, &goldens[i]);
    test_empty(device);
    test_rows(device, 0), test_rows(device, 1), test_rows(device, 4), test_rows(device, ROWS);
    for (int i = 0; i < 2 && host; i++)
        test_threads(device, &sizes[i], 1), test_threads(device, &sizes[i], 2),
            test_threads(device, &sizes[i], 4);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
