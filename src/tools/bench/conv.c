/* SPDX-License-Identifier: MIT */
/* `dptrain bench conv`: the convolutions of LeNet-5, VGG-16 and ResNet-50 in all three passes of training.
 * conv_layers.c has the shapes. */
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "compute/graph/layers.h"
#include "tools/bench/cases.h"
#include "tools/bench/conv_check.h"
#include "tools/bench/conv_layers.h"
#include "tools/bench/operator.h"
#include "train/run/choose_algorithms.h"

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
    value = nn_batch_norm(*out, "input", value);
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
    algorithm_request_add(&request, s->batch, true);
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

static void conv_print_row(const conv_t *c, const subject_t *s, const char *pass,
                           const bench_result_t *result, const bench_rate_t *rate)
{
    const conv_layer_t *l = s->layer;
    table_cell(c->table, "%s/%s", l->net, l->name);
    table_cell(c->table, "%lldx%dx%dx%d k%d s%d %d", (long long)s->batch, l->side, l->side, l->in, l->kernel,
               l->stride, l->out);
    table_cell(c->table, "%s", pass);
    bench_rate_cells(c->table, result, rate);
}

static err_t conv_record(const conv_t *c, const subject_t *s, const bench_op_t *op, op_pass_t pass,
                         const bench_result_t *result, const bench_rate_t *rate, int64_t n_wrong)
{
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
    bench_rate_json(rate, j);
    if (j) {
        json_string(j, "algorithm", algorithm_of(op, pass));
        json_int(j, "repeat_in_net", s->layer->repeat);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(c->bench, result);
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
    conv_print_row(c, s, op_pass_names[pass], result, &rate);
    table_cell(c->table, "%s", algorithm_of(op, pass));
    table_cell(c->table, "%lld", (long long)n_wrong);
    table_log(c->table);
    return conv_record(c, s, op, pass, result, &rate, n_wrong);
}

/* Measures the three passes alternately, under the same conditions. */
static err_t measure_passes(const conv_t *c, const subject_t *s, const bench_op_t *op)
{
    bench_pass_t passes[OP_PASS_COUNT];
    bench_work_t works[OP_PASS_COUNT];
    bench_result_t results[OP_PASS_COUNT] = {{0}};
    for (int i = 0; i < OP_PASS_COUNT; i++) {
        passes[i] = (bench_pass_t){op, (op_pass_t)i};
        works[i] = bench_pass_work(&passes[i], s->what[i]);
    }
    err_t err = bench_measure(c->bench, works, OP_PASS_COUNT, results);
    if (err == ERR_OK) err = comm_agree(c->bench->comm, scratch_pull(&op->scratch), s->what[OP_FORWARD]);
    for (int i = 0; i < OP_PASS_COUNT && err == ERR_OK; i++)
        err = report_pass(c, s, op, (op_pass_t)i, &results[i]);
    for (int i = 0; i < OP_PASS_COUNT; i++) bench_result_free(&results[i]);
    return err;
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
    if (err == ERR_OK) err = measure_passes(c, &s, &op);
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
