/* SPDX-License-Identifier: MIT */
/* `dptrain bench gemm`: y = x·wᵀ as in a fully connected layer, through the backend that training uses, verified
 * exactly by Freivalds' method. Shows and records the points after the last measurement, because a point that beats
 * the yardstick raises it. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "compute/models/model.h"
#include "tools/bench/cases.h"

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

enum { SQUARE_MIN = 64, SQUARE_MAX = 4096, SQUARE_QUICK = 1024, X_HALF = 3, W_HALF = 2 };
enum { WHAT_MAX = 64, MAX_POINTS = 16 }; /* squares from 64 to 65536, and the shapes of training */

typedef struct gemm_options {
    const char *precision, *shapes;
    int64_t max;
    bool fault;
} gemm_options_t;

typedef struct gemm_shape {
    const char *name;
    int64_t m, n, k;
    bool quick;
} gemm_shape_t;

/* Fully connected layers of networks at common batch sizes. */
static const gemm_shape_t training[] = {
    {"lenet5/fc1", 64, 500, 800, true},
    {"lenet5/fc2", 64, 10, 500, true},
    {"resnet50/fc", 32, 1000, 2048, true},
    {"vgg16/fc1", 32, 4096, 25088, false},
};
enum { N_TRAINING = sizeof training / sizeof training[0] };

static const char *const shape_sets[] = {"all", "square", "training", NULL};

#define FIELD(name) offsetof(gemm_options_t, name)
static const opt_t gemm_table[] = {
    {"gemm-precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "precision of the matrix products", OPT_MORE},
    {"gemm-shapes", OPT_CHOICE, FIELD(shapes), "all", 0, 0, shape_sets, NULL,
     "square matrices, the final layers of networks in training, or both", OPT_MORE},
    {"gemm-max", OPT_INT, FIELD(max), "0", 0, 65536, NULL, "N",
     "largest square matrix; sizes double from 64; 0: 4096, or 1024 with --quick", OPT_MORE},
    {"gemm-fault", OPT_FLAG, FIELD(fault), NULL, 0, 0, NULL, NULL, "corrupt one element before the check",
     OPT_HIDDEN},
};

/* A measured product. */
typedef struct gemm_point {
    gemm_shape_t shape;
    bench_result_t result;
    double n_flops;
    int64_t n_wrong;
} gemm_point_t;

typedef struct gemm {
    bench_t *bench;
    const gemm_options_t *options;
    dtype_t compute;
    const yardstick_t *yardstick;
    table_t *table;
    gemm_point_t points[MAX_POINTS];
    int n;
} gemm_t;

static err_t gemm_check_options(void *values)
{
    const gemm_options_t *o = values;
    if (o->max > 0 && o->max < SQUARE_MIN)
        RAISE(ERR_USAGE, "invalid --gemm-max %lld: expected %d or more", (long long)o->max, SQUARE_MIN);
    return ERR_OK;
}

/* Measures, then verifies the result of the last iteration. */
static err_t measure_product(const gemm_t *g, const bench_op_t *op, const char *what, gemm_point_t *point)
{
    bench_t *bench = g->bench;
    const gemm_shape_t *s = &point->shape;
    const scratch_t *b = &op->scratch;
    bench_pass_t pass = {op, OP_FORWARD};
    bench_work_t work = bench_pass_work(&pass, what);
    gemm_fill(b->x, s->m * s->k, X_HALF, 1);
    gemm_fill(b->param[0], s->n * s->k, W_HALF, 2);
    TRY(comm_agree(bench->comm, scratch_push(b), what));
    TRY(bench_measure(bench, &work, 1, &point->result));
    TRY(comm_agree(bench->comm, scratch_pull(b), what));
    if (g->options->fault) b->y[s->m * s->n / 2] += 1;
    TRY(comm_agree(bench->comm, gemm_check(b->x, b->param[0], b->y, s->m, s->n, s->k, &point->n_wrong),
                   "checking a product"));
    point->n_flops = 2.0 * (double)op_macs(&op->op->desc);
    return bench_sum_wrong(bench, &point->n_wrong);
}

static void describe_product(const gemm_shape_t *s, char out[WHAT_MAX])
{
    snprintf(out, WHAT_MAX, "a product of %lld x %lld x %lld", (long long)s->m, (long long)s->n,
             (long long)s->k);
}

static err_t measure_shape(gemm_t *g, const gemm_shape_t *s)
{
    char what[WHAT_MAX];
    op_desc_t desc = {.kind = OP_LINEAR, .compute = g->compute, .n_inputs = 1, .x = {shape_2d(s->m, s->k)}};
    bench_op_t op;
    gemm_point_t *point = &g->points[g->n];
    point->shape = *s;
    desc.attr.linear = (linear_attr_t){.out_features = s->n};
    describe_product(s, what);
    TRY(op_infer(&desc));
    err_t err = bench_op_new(g->bench, &desc, false, NULL, what, &op);
    if (err == ERR_OK) err = measure_product(g, &op, what, point);
    bench_op_free(&op);
    if (err == ERR_OK)
        g->n++;
    else
        bench_result_free(&point->result);
    return err;
}

static int list_shapes(const gemm_t *g, int64_t max, gemm_shape_t shapes[MAX_POINTS])
{
    const gemm_options_t *o = g->options;
    int count = 0;
    for (int64_t n = SQUARE_MIN; n <= max && strcmp(o->shapes, "training") != 0; n *= 2)
        shapes[count++] = (gemm_shape_t){"square", n, n, n, true};
    for (int i = 0; i < N_TRAINING && strcmp(o->shapes, "square") != 0; i++)
        if (training[i].quick || !g->bench->options->quick) shapes[count++] = training[i];
    return count;
}

static err_t gemm_measure_shapes(gemm_t *g, int64_t max)
{
    gemm_shape_t shapes[MAX_POINTS];
    int n = list_shapes(g, max, shapes);
    bench_print("gemm: y = x·w', products in %s, %d rank%s concurrently; %d products, shown after the last",
                dtype_name(g->compute), g->bench->comm->size, g->bench->comm->size > 1 ? "s" : "", n);
    TRY(bench_yardstick(g->bench, g->compute, &g->yardstick));
    for (int i = 0; i < n; i++) TRY(measure_shape(g, &shapes[i]));
    return ERR_OK;
}

/* Collective. */
static err_t gemm_show_points(gemm_t *g)
{
    char text[WHAT_MAX];
    for (int i = 0; i < g->n; i++) {
        double sec = g->points[i].result.p50;
        describe_product(&g->points[i].shape, text);
        bench_raise_peak(g->bench, g->compute, sec > 0 ? g->points[i].n_flops / sec : 0, text);
    }
    bench_print_peak(g->yardstick);
    table_log(g->table); /* the headings */
    for (int i = 0; i < g->n; i++) {
        const gemm_point_t *p = &g->points[i];
        bench_rate_t rate = bench_rate_of(g->bench, &p->result, p->n_flops, g->yardstick);
        table_cell(g->table, "%s", p->shape.name);
        table_cell(g->table, "%lld", (long long)p->shape.m);
        table_cell(g->table, "%lld", (long long)p->shape.n);
        table_cell(g->table, "%lld", (long long)p->shape.k);
        bench_rate_cells(g->table, &p->result, &rate);
        table_cell(g->table, "%lld", (long long)p->n_wrong);
        table_log(g->table);
        bench_print_best(&p->result, 1, rate.gflops, "GFLOP/s");
        json_t *j = bench_record_begin(g->bench, "gemm", "gemm");
        if (j) {
            json_string(j, "shape", p->shape.name);
            json_int(j, "m", p->shape.m);
            json_int(j, "n", p->shape.n);
            json_int(j, "k", p->shape.k);
            bench_key_ranks(g->bench, dtype_name(g->compute), j);
        }
        bench_record_metrics(g->bench);
        bench_rate_json(&rate, j);
        if (j) json_int(j, "wrong", p->n_wrong);
        TRY(bench_record_end(g->bench, &p->result));
    }
    return ERR_OK;
}

/* Shows also the points before an interruption, or before another error that all ranks know. */
static err_t gemm_measure(gemm_t *g, int64_t max)
{
    comm_t *comm = g->bench->comm;
    err_info_t first;
    err_t err = gemm_measure_shapes(g, max);
    if (g->n == 0 || (err != ERR_OK && comm->agreed != err)) return err;
    err_take(err, &first);
    TRY(gemm_show_points(g));
    return err == ERR_OK ? ERR_OK : comm_agree(comm, err_put(&first), "ending the case");
}

static err_t gemm_run(bench_t *bench, const void *values)
{
    const gemm_options_t *o = values;
    table_t table = {.columns = {{"shape", true, .min_width = 12},
                                 {"m", .min_width = 5},
                                 {"n", .min_width = 5},
                                 {"k", .min_width = 5},
                                 BENCH_RATE_COLUMNS,
                                 {"wrong"}},
                     .n_columns = 9,
                     .indent = 2};
    gemm_t g = {.bench = bench, .options = o, .table = &table};
    bool quick = bench->options->quick;
    int64_t max = o->max ? o->max : quick ? SQUARE_QUICK : SQUARE_MAX;
    bool known = model_compute(o->precision, &g.compute);
    ASSERT(known); /* one of the table's choices */
    err_t err = gemm_measure(&g, max);
    for (int i = 0; i < g.n; i++) bench_result_free(&g.points[i].result);
    table_free(&table);
    return err;
}

const bench_case_t bench_gemm = {.name = "gemm",
                                 .summary = "matrix products, and their share of the hardware's peak",
                                 .table = gemm_table,
                                 .n_options = sizeof gemm_table / sizeof gemm_table[0],
                                 .n_options_bytes = sizeof(gemm_options_t),
                                 .check = gemm_check_options,
                                 .run = gemm_run};
