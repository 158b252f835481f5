/* SPDX-License-Identifier: MIT */
/* Cuts Winograd's convolutions. The passes themselves are in winograd.c. */
#include "kernels/cpu/conv/winograd_plan.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"

/* Tuned on caches of 1 MB (L2) and 32 MB (L3). A chunk's matrices stay in L2 while the filters stream by; with many
 * filters it is larger, as they come from further away. Weights read and write the filters' matrices for each chunk,
 * which is about as large as they are. */
enum {
    CHUNK_BYTES = 2 << 20,
    SUM_LEAST = 3 << 18,
    SUM_MOST = 8 << 20,
    MANY_FILTERS = 4 << 20, /* bytes of filter matrices above which filters are processed in blocks */
    MANY_TILES = 10 << 20,  /* … if the matrices of all tiles take at most this many bytes */
    BLOCK_BYTES = 5 << 20,
    FROM_PANEL_BITS = 5, /* DIRECT_PANEL */
    TO_PANEL_BITS = 4,   /* DIRECT_TURNED_PANEL */
};

/* Matrices, and rows, a power of two apart would compete for a few cache sets. */
static int64_t row_of(int64_t columns)
{
    return columns + WINOGRAD_LANES;
}

static int64_t plane_of(int64_t rows, int64_t row)
{
    return rows * row + WINOGRAD_LANES;
}

static size_t matrices_bytes(int64_t plane)
{
    return mem_round((size_t)(WINOGRAD_POINTS * plane) * sizeof(float));
}

/* The tiles of one dimension: a quarter's rest of one or two pixels is half a tile. */
static int64_t count_tiles(int64_t n, bool half)
{
    const int64_t rest = n % WINOGRAD_OUT;
    return half ? rest == 1 || rest == 2 : n / WINOGRAD_OUT + (rest == 3);
}

static void add_kind(winograd_plan_t *p, int64_t n_images, winograd_grid_t from, winograd_grid_t to,
                     bool half_h, bool half_w)
{
    winograd_grid_t place = {.half_h = half_h,
                             .half_w = half_w,
                             .tile_rows = count_tiles(to.h, half_h),
                             .tile_columns = count_tiles(to.w, half_w),
                             .top = half_h ? count_tiles(to.h, false) * WINOGRAD_OUT : 0,
                             .left = half_w ? count_tiles(to.w, false) * WINOGRAD_OUT : 0};
    const int64_t n_tiles = n_images * place.tile_rows * place.tile_columns;
    if (n_tiles == 0) return;
    winograd_kind_t *kind = &p->kinds[p->n_kinds++];
    *kind = (winograd_kind_t){place, place, n_tiles, p->n_tiles};
    kind->from.h = from.h, kind->from.w = from.w, kind->from.pad = from.pad;
    kind->from.channels = kind->from.pitch = from.channels;
    kind->to.h = to.h, kind->to.w = to.w;
    kind->to.channels = kind->to.pitch = to.channels;
    p->n_tiles += n_tiles;
}

static void set_shapes(winograd_plan_t *p, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    int64_t pad = d->attr.conv2d.pad_h;
    p->c = x[3], p->k = y[3];
    winograd_grid_t from = {.h = x[1], .w = x[2], .channels = p->c, .pad = pad};
    winograd_grid_t to = {.h = y[1], .w = y[2], .channels = p->k};
    if (problem->pass == OP_BACKWARD_DATA) {
        from = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k, .pad = 2 - pad};
        to = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c};
    }
    p->n_in = from.channels, p->n_out = to.channels;
    for (int i = 0; i < WINOGRAD_KINDS; i++) add_kind(p, x[0], from, to, i & 1, i & 2);
}

/* Chooses chunk and block. */
static void set_chunks(winograd_plan_t *p)
{
    const int64_t number = WINOGRAD_POINTS * (int64_t)sizeof(float); /* bytes of a value in all 36 matrices */
    const int64_t filters = number * p->k * p->c, tile = number * (p->k + p->c);
    p->chunk = p->n_tiles, p->block = p->n_out;
    p->few = filters > MANY_FILTERS && number * p->n_tiles * p->n_in <= MANY_TILES;
    if (p->few) {
        p->block = BLOCK_BYTES / (number * p->n_in) / DIRECT_PANEL * DIRECT_PANEL;
        if (p->block < DIRECT_PANEL) p->block = DIRECT_PANEL;
        if (p->block > p->n_out) p->block = p->n_out;
    }
    if (p->few && p->sums) return;
    int64_t bytes = filters / 4 * 3;
    bytes = bytes < SUM_LEAST ? SUM_LEAST : bytes > SUM_MOST ? SUM_MOST : bytes;
    if (!p->sums) bytes = filters / 8 > CHUNK_BYTES ? filters / 8 : CHUNK_BYTES;
    int64_t chunk = bytes / tile, each = (p->n_tiles + p->n_threads - 1) / p->n_threads;
    if (!p->sums && chunk > each) chunk = each;
    chunk = chunk < WINOGRAD_ROWS ? WINOGRAD_ROWS : chunk / WINOGRAD_ROWS * WINOGRAD_ROWS;
    if (p->chunk > chunk) p->chunk = chunk;
}

static int64_t rows_of_from(const winograd_plan_t *p)
{
    return p->few ? p->n_tiles : p->chunk;
}

static void place_matrices(winograd_plan_t *p, bool turns)
{
    const size_t n_from = p->few ? 1 : (size_t)p->n_threads, word = sizeof(float);
    const int64_t n_turned = turns ? WINOGRAD_TAPS * p->c * direct_padded(direct_isa(), p->block) : 0;
    p->from_plane = plane_of(rows_of_from(p), loop_round_up(row_of(p->n_in), DIRECT_PANEL));
    p->to_plane = plane_of(p->chunk, row_of(p->block));
    p->filter_plane = p->sums ? plane_of(p->block, loop_round_up(p->n_in, DIRECT_PANEL))
                              : plane_of(p->n_in, loop_round_up(p->block, DIRECT_PANEL));
    p->from_bytes = matrices_bytes(p->from_plane), p->to_bytes = matrices_bytes(p->to_plane);
    p->to_matrices = n_from * p->from_bytes;
    p->filters = p->to_matrices + (size_t)p->n_threads * p->to_bytes;
    p->turned = p->filters + matrices_bytes(p->filter_plane);
    p->zeros = p->turned + mem_round((size_t)n_turned * word);
    p->n_bytes = p->zeros + (size_t)(p->c + p->k) * word;
}

void winograd_plan_make(const conv_problem_t *problem, winograd_plan_t *p)
{
    *p = (winograd_plan_t){.sums = problem->pass == OP_BACKWARD_WEIGHTS};
    p->n_threads = p->sums ? 1 : omp_get_max_threads();
    set_shapes(p, problem);
    set_chunks(p);
    place_matrices(p, problem->pass == OP_FORWARD);
}

static winograd_matrices_t matrices_of(void *data, int64_t plane, int64_t rows, int64_t columns,
                                       int panel_bits)
{
    if (!panel_bits) return (winograd_matrices_t){data, plane, row_of(columns), 0, WINOGRAD_ONE_PANEL};
    const int64_t row = (int64_t)1 << panel_bits;
    return (winograd_matrices_t){data, plane, row, rows * row, panel_bits};
}

winograd_space_t winograd_space(const winograd_plan_t *p, char *workspace)
{
    winograd_space_t s = {.from = matrices_of(workspace, p->from_plane, rows_of_from(p), p->n_in,
                                              p->sums ? FROM_PANEL_BITS : 0),
                          .to = matrices_of(workspace + p->to_matrices, p->to_plane, p->chunk, p->block,
                                            p->sums ? TO_PANEL_BITS : 0),
                          .filters = {.data = (void *)(workspace + p->filters), .plane = p->filter_plane},
                          .turned = (void *)(workspace + p->turned),
                          .zeros = (void *)(workspace + p->zeros)};
    memset(s.zeros, 0, (size_t)(p->c + p->k) * sizeof *s.zeros);
    return s;
}

int64_t winograd_count_parts(const winograd_plan_t *p, int64_t most)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_kinds; i++) n += (p->kinds[i].n_tiles + most - 1) / most;
    return n;
}

winograd_part_t winograd_part(const winograd_plan_t *p, int64_t most, int64_t i)
{
    const winograd_kind_t *kind = p->kinds;
    for (int64_t n; i >= (n = (kind->n_tiles + most - 1) / most); i -= n) kind++;
    return (winograd_part_t){kind, i * most, loop_count(i * most, kind->n_tiles, most)};
}
