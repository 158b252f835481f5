/* SPDX-License-Identifier: MIT */
/* `dptrain bench conv`: the convolutions of LeNet-5, VGG-16 and ResNet-50 in all three passes of training, each
 * verified: some elements are recomputed in double precision. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "compute/graph/layers.h"
#include "tools/bench/cases.h"
#include "train/start/choose.h"

/* net, name, side, in, out, kernel, stride, pad, bias, repeat, quick */
const conv_layer_t conv_layers[] = {
    {"lenet5", "conv1", 28, 1, 20, 5, 1, 0, true, 1, true},
    {"lenet5", "conv2", 12, 20, 50, 5, 1, 0, true, 1, true},

    {"vgg16", "conv1_1", 224, 3, 64, 3, 1, 1, true, 1, false},
    {"vgg16", "conv1_2", 224, 64, 64, 3, 1, 1, true, 1, false},
    {"vgg16", "conv2_1", 112, 64, 128, 3, 1, 1, true, 1, false},
    {"vgg16", "conv2_2", 112, 128, 128, 3, 1, 1, true, 1, false},
    {"vgg16", "conv3_1", 56, 128, 256, 3, 1, 1, true, 1, true},
    {"vgg16", "conv3_2", 56, 256, 256, 3, 1, 1, true, 2, false},
    {"vgg16", "conv4_1", 28, 256, 512, 3, 1, 1, true, 1, false},
    {"vgg16", "conv4_2", 28, 512, 512, 3, 1, 1, true, 2, false},
    {"vgg16", "conv5_1", 14, 512, 512, 3, 1, 1, true, 3, true},

    {"resnet50", "conv1", 224, 3, 64, 7, 2, 3, false, 1, true},
    {"resnet50", "conv2_1a", 56, 64, 64, 1, 1, 0, false, 1, false},
    {"resnet50", "conv2_1b", 56, 64, 64, 3, 1, 1, false, 3, false},
    {"resnet50", "conv2_1c", 56, 64, 256, 1, 1, 0, false, 4, false},
    {"resnet50", "conv2_2a", 56, 256, 64, 1, 1, 0, false, 2, true},
    {"resnet50", "conv3_1a", 56, 256, 128, 1, 1, 0, false, 1, false},
    {"resnet50", "conv3_1b", 56, 128, 128, 3, 2, 1, false, 1, false},
    {"resnet50", "conv3_1c", 28, 128, 512, 1, 1, 0, false, 4, false},
    {"resnet50", "conv3_1d", 56, 256, 512, 1, 2, 0, false, 1, false},
    {"resnet50", "conv3_2a", 28, 512, 128, 1, 1, 0, false, 3, false},
    {"resnet50", "conv3_2b", 28, 128, 128, 3, 1, 1, false, 3, false},
    {"resnet50", "conv4_1a", 28, 512, 256, 1, 1, 0, false, 1, false},
    {"resnet50", "conv4_1b", 28, 256, 256, 3, 2, 1, false, 1, true},
    {"resnet50", "conv4_1c", 14, 256, 1024, 1, 1, 0, false, 6, false},
    {"resnet50", "conv4_1d", 28, 512, 1024, 1, 2, 0, false, 1, false},
    {"resnet50", "conv4_2a", 14, 1024, 256, 1, 1, 0, false, 5, false},
    {"resnet50", "conv4_2b", 14, 256, 256, 3, 1, 1, false, 5, false},
    {"resnet50", "conv5_1a", 14, 1024, 512, 1, 1, 0, false, 1, false},
    {"resnet50", "conv5_1b", 14, 512, 512, 3, 2, 1, false, 1, false},
    {"resnet50", "conv5_1c", 7, 512, 2048, 1, 1, 0, false, 3, false},
    {"resnet50", "conv5_1d", 14, 1024, 2048, 1, 2, 0, false, 1, false},
    {"resnet50", "conv5_2a", 7, 2048, 512, 1, 1, 0, false, 2, false},
    {"resnet50", "conv5_2b", 7, 512, 512, 3, 1, 1, false, 2, false},
};
const int n_conv_layers = sizeof conv_layers / sizeof conv_layers[0];

int64_t conv_layer_out_side(const conv_layer_t *l)
{
    return (l->side + 2 * l->pad - l->kernel) / l->stride + 1;
}

int64_t conv_layer_macs(const conv_layer_t *l)
{
    int64_t side = conv_layer_out_side(l);
    return side * side * l->out * l->kernel * l->kernel * l->in;
}

int64_t conv_spot(int64_t count, int spot)
{
    if (spot == 0) return 0;
    if (spot == 1) return count - 1;
    rng_block_t block = rng_philox(rng_key(3, RNG_TEST), (uint32_t)spot, 0, 0, 0);
    uint64_t word = (uint64_t)block.word[0] << 32 | block.word[1];
    return (int64_t)(word % (uint64_t)count);
}

float *conv_result(const scratch_t *s, const op_desc_t *desc, op_pass_t pass, shape_t *shape)
{
    *shape = pass == OP_FORWARD ? desc->y[0] : pass == OP_BACKWARD_DATA ? desc->x[0] : desc->param[0];
    return pass == OP_FORWARD ? s->y : pass == OP_BACKWARD_DATA ? s->dx : s->dparam[0];
}

/* Flat index of [a, b, c, d]. */
static int64_t index4(shape_t shape, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * shape.dim[1] + b) * shape.dim[2] + c) * shape.dim[3] + d;
}

static void unravel4(shape_t shape, int64_t index, int64_t out[4])
{
    for (int i = 3; i >= 0; index /= shape.dim[i], i--) out[i] = index % shape.dim[i];
}

static bool in_image(shape_t image, int64_t h, int64_t w)
{
    return h >= 0 && h < image.dim[1] && w >= 0 && w < image.dim[2];
}

/* y[n, oh, ow, k] */
static double forward_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = a->has_bias ? (double)s->param[1][i[3]] : 0;
    for (int r = 0; r < a->kernel_h; r++)
        for (int q = 0; q < a->kernel_w; q++) {
            int64_t h = i[1] * a->stride_h - a->pad_h + r, w = i[2] * a->stride_w - a->pad_w + q;
            for (int64_t c = 0; c < d->x[0].dim[3] && in_image(d->x[0], h, w); c++)
                sum += (double)s->x[index4(d->x[0], i[0], h, w, c)] *
                       (double)s->param[0][index4(d->param[0], i[3], r, q, c)];
        }
    return sum;
}

/* dx[n, h, w, c] */
static double backward_data_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = 0;
    for (int r = 0; r < a->kernel_h; r++)
        for (int q = 0; q < a->kernel_w; q++) {
            int64_t h = i[1] + a->pad_h - r, w = i[2] + a->pad_w - q;
            if (h % a->stride_h || w % a->stride_w) continue;
            h /= a->stride_h, w /= a->stride_w;
            for (int64_t k = 0; k < d->y[0].dim[3] && in_image(d->y[0], h, w); k++)
                sum += (double)s->dy[index4(d->y[0], i[0], h, w, k)] *
                       (double)s->param[0][index4(d->param[0], k, r, q, i[3])];
        }
    return sum;
}

/* dweight[k, r, q, c] */
static double backward_weights_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = 0;
    for (int64_t n = 0; n < d->y[0].dim[0]; n++)
        for (int64_t oh = 0; oh < d->y[0].dim[1]; oh++)
            for (int64_t ow = 0; ow < d->y[0].dim[2]; ow++) {
                int64_t h = oh * a->stride_h - a->pad_h + i[1], w = ow * a->stride_w - a->pad_w + i[2];
                if (!in_image(d->x[0], h, w)) continue;
                sum += (double)s->dy[index4(d->y[0], n, oh, ow, i[0])] *
                       (double)s->x[index4(d->x[0], n, h, w, i[3])];
            }
    return sum;
}

static double terms_of(const op_desc_t *d, op_pass_t pass)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double window = (double)a->kernel_h * a->kernel_w;
    if (pass == OP_FORWARD) return window * (double)d->x[0].dim[3];
    if (pass == OP_BACKWARD_DATA) return window * (double)d->y[0].dim[3];
    return (double)d->y[0].dim[0] * (double)d->y[0].dim[1] * (double)d->y[0].dim[2];
}

int conv_check(const scratch_t *s, const op_desc_t *d, op_pass_t pass, const char *algorithm)
{
    static double (*const value_at[OP_PASS_COUNT])(const scratch_t *, const op_desc_t *, const int64_t *) = {
        forward_at, backward_data_at, backward_weights_at};
    double want[CONV_SPOTS], root = sqrt(terms_of(d, pass)), scale = root;
    double growth = strncmp(algorithm, "winograd", 8) == 0 ? 4 : 1;
    shape_t shape;
    const float *got = conv_result(s, d, pass, &shape);
    int64_t count = shape_count(shape), index[4];
    int n_wrong = 0;
    for (int i = 0; i < CONV_SPOTS; i++) {
        unravel4(shape, conv_spot(count, i), index);
        want[i] = value_at[pass](s, d, index);
        scale = fmax(scale, fabs(want[i]));
    }
    for (int i = 0; i < CONV_SPOTS; i++) {
        double difference = fabs((double)got[conv_spot(count, i)] - want[i]);
        n_wrong += !(difference <= growth * 4 * (double)FLT_EPSILON * root * scale); /* NaN is wrong, too */
    }
    return n_wrong;
}

enum { BATCH_LENET = 64, BATCH = 8, BATCH_QUICK = 1, BATCH_MAX = 256, N_CLASSES = 2, WHAT_MAX = 80 };

typedef struct conv_options {
    const char *net, *algorithms, *fault;
    int64_t batch;
} conv_options_t;

static const char *const nets[] = {"all", "lenet5", "vgg16", "resnet50", NULL};
static const char *const rules[] = {"fixed", "measure", NULL};
static const char *const faults[] = {"none", "forward", "backward_data", "backward_weights", NULL};

#define FIELD(name) offsetof(conv_options_t, name)
static const opt_t conv_table[] = {
    {"conv-net", OPT_CHOICE, FIELD(net), "all", 0, 0, nets, NULL, "network whose layers are measured",
     OPT_MORE},
    {"conv-batch", OPT_INT, FIELD(batch), "0", 0, BATCH_MAX, NULL, "N",
     "batch size, in images; 0: 64 for LeNet-5, else 8, or 1 with --quick", OPT_MORE},
    {"conv-algorithms", OPT_CHOICE, FIELD(algorithms), "fixed", 0, 0, rules, NULL,
     "the backend's rule, or the fastest measured, as in training", OPT_MORE},
    {"conv-fault", OPT_CHOICE, FIELD(fault), "none", 0, 0, faults, NULL,
     "corrupt one element of a pass before the check", OPT_HIDDEN},
};

typedef struct conv {
    bench_t *bench;
    const conv_options_t *options;
    const yardstick_t *yardstick;
    table_t *table;
} conv_t;

/* One layer being measured. */
typedef struct subject {
    const conv_layer_t *layer;
    int64_t batch;
    op_desc_t desc;
    op_algorithms_t wanted;
    char what[OP_PASS_COUNT][WHAT_MAX];
} subject_t;

/* A graph with the layer, for choosing algorithms. A trained layer comes first, because the input of a graph
 * gets no gradient. */
static err_t make_graph(const conv_layer_t *l, graph_t **out)
{
    conv2d_layer_t conv = {
        .channels = l->out, .kernel = l->kernel, .stride = l->stride, .pad = l->pad, .no_bias = !l->bias};
    TRY(graph_new(l->net, out));
    int value = graph_input(*out, "image", shape_3d(l->side, l->side, l->in), DTYPE_F32);
    value = nn_norm(*out, "input", value);
    value = nn_conv2d(*out, l->name, value, conv);
    value = nn_linear(*out, "fc", nn_global_avg_pool(*out, "pool", value), N_CLASSES);
    nn_softmax_xent(*out, "loss", value, graph_input(*out, "label", (shape_t){0}, DTYPE_I32), 0);
    return graph_finish(*out);
}

/* Collective. */
static err_t choose_layer_algorithms(const conv_t *c, const graph_t *graph, subject_t *s)
{
    bench_t *bench = c->bench;
    if (strcmp(c->options->algorithms, "fixed") == 0) return ERR_OK;
    algorithm_request_t request = {.option = "measure",
                                   .runtime = &bench->runtime,
                                   .graph = graph,
                                   .timeout_sec = bench->options->runtime.timeout_sec};
    batch_size_add(request.sizes, &request.n_sizes, s->batch, true);
    TRY(bench_check_memory(bench, scratch_bytes(&s->desc, true), s->layer->name));
    algorithm_choice_t choice;
    err_t err = algorithm_choice_make(&request, &choice);
    if (err == ERR_OK) algorithms_get(&choice.table, &s->desc, &s->wanted);
    algorithm_choice_free(&choice);
    return err;
}

/* Collective. */
static err_t describe_layer(const conv_t *c, subject_t *s)
{
    graph_t *graph = NULL;
    err_t err = ERR_OK;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++)
        snprintf(s->what[pass], WHAT_MAX, "%s/%s %s", s->layer->net, s->layer->name, op_pass_names[pass]);
    err = make_graph(s->layer, &graph);
    if (err == ERR_OK) err = graph_batch_desc(graph, 1, s->batch, &s->desc);
    TRY_OUT(err, comm_agree(c->bench->comm, err, "describing a layer"));
    TRY_OUT(err, choose_layer_algorithms(c, graph, s));
out:
    graph_free(&graph);
    return err;
}

static const char *algorithm_of(const bench_op_t *op, op_pass_t pass)
{
    const char *name = op->op->algorithms.name[pass];
    return name[0] ? name : op->op->backend->name;
}

static err_t report_pass(const conv_t *c, const subject_t *s, const bench_op_t *op, op_pass_t pass,
                         const bench_result_t *result)
{
    shape_t shape;
    float *got = conv_result(&op->scratch, &s->desc, pass, &shape);
    if (strcmp(c->options->fault, op_pass_names[pass]) == 0) got[shape_count(shape) - 1] += 1e3f;
    int64_t n_wrong = conv_check(&op->scratch, &s->desc, pass, algorithm_of(op, pass));
    TRY(bench_sum_wrong(c->bench, &n_wrong));
    const double n_flops = 2.0 * scratch_work(&op->scratch, op->op, pass).macs;
    bench_rate_t rate = bench_rate_of(c->bench, result, n_flops, c->yardstick);
    if (rate.share_of_peak > 1) bench_raise_peak(c->bench, DTYPE_F32, 1e9 * rate.gflops, s->what[pass]);
    const double share = bench_rate_of(c->bench, result, n_flops, c->yardstick).share_of_peak;
    rate = bench_rate_of(c->bench, result, 2.0 * (double)op_macs(&s->desc), c->yardstick);
    rate.share_of_peak = share > 1 ? 1 : share; /* rounding */
    const conv_layer_t *l = s->layer;
    table_cell(c->table, "%s/%s", l->net, l->name);
    table_cell(c->table, "%lldx%dx%dx%d k%d s%d %d", (long long)s->batch, l->side, l->side, l->in, l->kernel,
               l->stride, l->out);
    table_cell(c->table, "%s", op_pass_names[pass]);
    bench_rate_cells(c->table, result, &rate);
    table_cell(c->table, "%s", algorithm_of(op, pass));
    table_cell(c->table, "%lld", (long long)n_wrong);
    table_log(c->table);
    bench_print_best(result, 1, rate.gflops, "GFLOP/s");
    char operator[OP_KEY_MAX];
    json_t *j = bench_record_begin(c->bench, "conv", op_pass_names[pass]);
    if (j) {
        op_key(&s->desc, operator);
        json_string(j, "net", s->layer->net);
        json_string(j, "layer", s->layer->name);
        json_string(j, "operator", operator);
        json_int(j, "batch", s->batch);
        json_string(j, "algorithms", c->options->algorithms);
        bench_key_ranks(c->bench, dtype_name(s->desc.compute), j);
    }
    bench_record_metrics(c->bench);
    bench_rate_json(&rate, j);
    if (j) {
        json_string(j, "algorithm", algorithm_of(op, pass));
        json_int(j, "repeat_in_net", s->layer->repeat);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(c->bench, result);
}

static int64_t batch_of(const conv_t *c, const conv_layer_t *layer)
{
    if (c->options->batch) return c->options->batch;
    if (strcmp(layer->net, "lenet5") == 0) return BATCH_LENET;
    return c->bench->options->quick ? BATCH_QUICK : BATCH;
}

static err_t measure_layer(const conv_t *c, const conv_layer_t *layer)
{
    subject_t s = {.layer = layer, .batch = batch_of(c, layer)};
    bench_op_t op = {NULL};
    err_t err = describe_layer(c, &s);
    if (err == ERR_OK) err = bench_op_new(c->bench, &s.desc, true, &s.wanted, s.what[OP_FORWARD], &op);
    if (err == ERR_OK) {
        /* Measures the three passes alternately, under the same conditions. */
        bench_pass_t passes[OP_PASS_COUNT];
        bench_work_t works[OP_PASS_COUNT];
        bench_result_t results[OP_PASS_COUNT] = {{0}};
        for (int i = 0; i < OP_PASS_COUNT; i++) {
            passes[i] = (bench_pass_t){&op, (op_pass_t)i};
            works[i] = bench_pass_work(&passes[i], s.what[i]);
        }
        err = bench_measure(c->bench, works, OP_PASS_COUNT, results);
        if (err == ERR_OK) err = comm_agree(c->bench->comm, scratch_pull(&op.scratch), s.what[OP_FORWARD]);
        for (int i = 0; i < OP_PASS_COUNT && err == ERR_OK; i++)
            err = report_pass(c, &s, &op, (op_pass_t)i, &results[i]);
        for (int i = 0; i < OP_PASS_COUNT; i++) bench_result_free(&results[i]);
    }
    bench_op_free(&op);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s/%s", layer->net, layer->name);
}

static err_t conv_run(bench_t *bench, const void *values)
{
    const conv_options_t *o = values;
    table_t table = {.columns = {{"layer", true, .min_width = 16},
                                 {"input, kernel, stride, out", true},
                                 {"pass", true, .min_width = 16},
                                 BENCH_RATE_COLUMNS,
                                 {"algorithm", true, .min_width = 16},
                                 {"wrong"}},
                     .n_columns = 9,
                     .indent = 2};
    conv_t c = {.bench = bench, .options = o, .table = &table};
    bench_print("conv: float32, algorithms %s, %d rank%s concurrently",
                strcmp(o->algorithms, "fixed") == 0 ? "fixed by the backend" : "measured", bench->comm->size,
                bench->comm->size > 1 ? "s" : "");
    TRY(bench_yardstick(bench, DTYPE_F32, &c.yardstick));
    bench_print_peak(c.yardstick);
    const double measured = c.yardstick->flops;
    table_log(&table); /* the headings */
    err_t err = ERR_OK;
    for (int i = 0; i < n_conv_layers && err == ERR_OK; i++) {
        const conv_layer_t *layer = &conv_layers[i];
        bool wanted = strcmp(o->net, "all") == 0 || strcmp(o->net, layer->net) == 0;
        if (wanted && (layer->quick || !bench->options->quick)) err = measure_layer(&c, layer);
    }
    table_free(&table);
    if (err == ERR_OK && c.yardstick->flops > measured) bench_print_peak(c.yardstick);
    return err;
}

const bench_case_t bench_conv = {.name = "conv",
                                 .summary =
                                     "convolutions of LeNet-5, VGG-16 and ResNet-50, forward and backward",
                                 .table = conv_table,
                                 .n_options = sizeof conv_table / sizeof conv_table[0],
                                 .n_options_bytes = sizeof(conv_options_t),
                                 .run = conv_run};
