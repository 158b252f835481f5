/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : optimizer steps over a network's parameters: weight decay, clipping, LARS,
 * averages. */
#include "compute/graph/layers.h"
#include "compute/models/model.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/learn/optim.h"

/* conv/weight, point/weight, bn/gamma, bn/beta, fc/weight, fc/bias: 3 weights proper, of which the first two
 * are neighbours, of 6 parameters. */
typedef struct net {
    const backend_t *device;
    graph_t *graph;
    optim_t *optim;
    float *weights, *gradients, *before;
} net_t;

static optim_options_t options_of(const char *text)
{
    optim_options_t options = {0};
    char *storage = NULL;
    static char name[16]; /* the text's copy is gone when the options are used */
    opt_group_t group = {"Optimizer", optim_option_table, n_optim_options, &options, 0};
    must(opt_defaults(&group, 1), "defaults");
    must(opt_config_read(&group, 1, text, "the test", &storage), text);
    snprintf(name, sizeof name, "%s", options.optimizer);
    options.optimizer = name;
    mem_free(&storage);
    return options;
}

static bool in_parameter(const graph_t *graph, int64_t i, const graph_param_t **which)
{
    for (int p = 0; p < graph->n_params; p++) {
        *which = &graph->params[p];
        if (i >= (*which)->offset && i < (*which)->offset + shape_count((*which)->shape)) return true;
    }
    return false;
}

static net_t net_new(const backend_t *device, const char *options)
{
    net_t net = {.device = device};
    must(graph_new("small", &net.graph), "graph");
    graph_input(net.graph, "image", shape_3d(5, 5, 2), DTYPE_F32);
    int v = nn_conv2d(net.graph, "conv", 0, (conv2d_layer_t){.channels = 3, .kernel = 3, .no_bias = true});
    v = nn_conv2d(net.graph, "point", v, (conv2d_layer_t){.channels = 4, .kernel = 1, .no_bias = true});
    v = nn_norm(net.graph, "bn", v);
    v = nn_linear(net.graph, "fc", v, 3);
    model_add_loss(net.graph, &(model_options_t){.n_classes = 3}, v);
    must(graph_finish(net.graph), "graph");
    int64_t n = net.graph->n_flat_params;
    net.weights = util_block(device, (size_t)n * sizeof(float));
    net.gradients = util_block(device, (size_t)n * sizeof(float));
    must(mem_new_array(n, sizeof(float), "weights", &net.before), "memory");
    rng_t rng = rng_new(5, RNG_TEST, 0);
    const graph_param_t *p;
    for (int64_t i = 0; i < n; i++) {
        if (!in_parameter(net.graph, i, &p)) continue;
        net.weights[i] = net.before[i] = (float)rng_normal(&rng);
        net.gradients[i] = (float)rng_normal(&rng);
    }
    optim_options_t values = options_of(options);
    must(optim_new(&values, net.graph, device, NULL, NULL, &net.optim), "optim_new");
    return net;
}

static void net_free(net_t *net)
{
    optim_free(&net->optim);
    graph_free(&net->graph);
    util_free(&net->weights), util_free(&net->gradients), mem_free(&net->before);
}

/* One step with what the host's blocks hold, and the results there. */
static err_t one_step(net_t *net, double lr, int64_t number)
{
    optim_step_t step = {.weights = util_device(net->weights),
                         .gradients = util_device(net->gradients),
                         .lr = lr,
                         .step = number};
    util_push(net->device);
    TRY(optim_push(net->optim));
    TRY(optim_step(net->optim, &step));
    util_pull(net->device);
    TRY(optim_pull(net->optim));
    return optim_finish(net->optim, number);
}

static void steps(net_t *net, double lr, int n)
{
    for (int i = 0; i < n; i++) must(one_step(net, lr, i), "optim_step");
}

static void swap_average(net_t *net)
{
    must(optim_swap_average(net->optim, util_device(net->weights)), "optim_swap_average");
    util_pull(net->device);
    must(optim_pull(net->optim), "optim_pull");
}

static const float *average_of(const net_t *net)
{
    return net->optim->average->flat.host;
}

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* weights[i] = f(before, gradient, whether it is a weight proper) for every i, the padding staying 0. */
typedef double (*expect_t)(double w, double g, bool proper, const double *constants);
static bool all_are(const net_t *net, expect_t expect, const double *constants)
{
    const graph_param_t *p;
    for (int64_t i = 0; i < net->graph->n_flat_params; i++) {
        bool inside = in_parameter(net->graph, i, &p);
        double value = inside ? expect(net->before[i], net->gradients[i], p->shape.n_dims > 1, constants) : 0;
        if (fabs(net->weights[i] - value) <= 2e-6 * (fabs(value) + 0.1)) continue;
        printf("# %s, flat element %lld: %.9g, not %.9g\n", inside ? p->name : "padding", (long long)i,
               net->weights[i], value);
        return false;
    }
    return true;
}

/* One step of lr 0.5 with decay 0.1; constants[0]: clipping's factor. */
static double one_sgd(double w, double g, bool proper, const double *c)
{
    return w - 0.5 * (c[0] * g + (proper ? 0.1 * w : 0));
}

static double one_adamw(double w, double g, bool proper, const double *c)
{
    g *= c[0];
    return w - (proper ? 0.5 * 0.1 * w : 0) - 0.5 * g / (fabs(g) + 1e-8);
}

static double one_adadelta(double w, double g, bool proper, const double *c)
{
    g = c[0] * g + (proper ? 0.1 * w : 0);
    return w - 0.5 * sqrt(1e-6) / sqrt(0.05 * g * g + 1e-6) * g;
}

static double two_nesterov(double w, double g, bool proper, const double *c)
{
    (void)c;
    double decay = proper ? 0.1 : 0, first = g + decay * w, v = first;
    w -= 0.5 * (first + 0.9 * v);
    double second = g + decay * w;
    v = 0.9 * v + second;
    return w - 0.5 * (second + 0.9 * v);
}

static void test_decay(const backend_t *device)
{
    static const struct {
        const char *options, *names[OPTIM_MAX_BUFFERS + 1];
        expect_t expect;
        int n_steps;
    } cases[] = {
        {"optimizer = sgd\nweight-decay = 0.1", {"velocity"}, one_sgd, 1},
        {"optimizer = nesterov\nweight-decay = 0.1", {"velocity"}, two_nesterov, 2},
        {"optimizer = adadelta\nweight-decay = 0.1", {"square_average", "update_average"}, one_adadelta, 1},
        {"optimizer = adamw\nweight-decay = 0.1\nema = 0.9",
         {"first_moment", "second_moment", "ema"},
         one_adamw,
         1},
    };
    for (int c = 0; c < 4; c++) {
        net_t net = net_new(device, cases[c].options);
        bool named = true;
        for (int b = 0; b < net.optim->n_buffers; b++)
            named = named && cases[c].names[b] && strcmp(cases[c].names[b], net.optim->buffers[b].name) == 0;
        OK(named && !cases[c].names[net.optim->n_buffers], "%s: %d buffers with their names",
           optim_option_table[0].choices[c], net.optim->n_buffers);
        steps(&net, 0.5, cases[c].n_steps);
        OK(all_are(&net, cases[c].expect, (const double[]){1}),
           "%s: biases and norms are not decayed, weights are", optim_option_table[0].choices[c]);
        OK(isnan(net.optim->gradient_norm), "and no norm was taken");
        net_free(&net);
    }
}

static void test_clipping(const backend_t *device)
{
    net_t net = net_new(device, "weight-decay = 0.1\nclip-norm = 2");
    double norm = norm_of(net.gradients, net.graph->n_flat_params), scale = 2 / norm;
    steps(&net, 0.5, 1);
    OK(norm > 2 && fabs(net.optim->gradient_norm - norm) < 1e-12 * norm,
       "the norm is that of all gradients: %g", norm);
    OK(fabs(net.optim->gradient_scale - scale) < 1e-12 && all_are(&net, one_sgd, &scale),
       "a longer gradient is scaled to the limit, decay is not");
    net_free(&net);

    net = net_new(device, "weight-decay = 0.1\nclip-norm = 1000");
    steps(&net, 0.5, 1);
    OK(net.optim->gradient_scale == 1 && all_are(&net, one_sgd, (const double[]){1}),
       "a shorter gradient is left alone");
    net_free(&net);

    net = net_new(device, "optimizer = adamw\nweight-decay = 0.1\nclip-norm = 2");
    steps(&net, 0.5, 1);
    OK(all_are(&net, one_adamw, &scale), "adamw: clipped");
    net_free(&net);

    /* Clipping is the same as handing over scaled gradients, over several steps. */
    net = net_new(device, "optimizer = adadelta\nweight-decay = 0.1\nclip-norm = 2");
    net_t scaled = net_new(device, "optimizer = adadelta\nweight-decay = 0.1");
    for (int64_t i = 0; i < net.graph->n_flat_params; i++)
        scaled.gradients[i] = (float)(scale * scaled.gradients[i]);
    steps(&net, 0.5, 5), steps(&scaled, 0.5, 5);
    double worst = 0;
    for (int64_t i = 0; i < net.graph->n_flat_params; i++)
        worst = fmax(worst, fabs((double)net.weights[i] - scaled.weights[i]));
    OK(worst < 1e-6, "five clipped steps are five steps with scaled gradients (%g)", worst);
    net_free(&net), net_free(&scaled);
}

static void test_nonfinite(const backend_t *device)
{
    net_t net = net_new(device, "clip-norm = 2\nema = 0.9");
    net.gradients[3] = INFINITY;
    err_t err = one_step(&net, 0.5, 41);
    OK(err == ERR_GATE && strstr(err_message(), "step 41"), "an infinite gradient: %s", err_message());
    OK(memcmp(net.weights, net.before, (size_t)net.graph->n_flat_params * sizeof(float)) == 0 &&
           norm_of(net.optim->buffers[0].flat.host, net.graph->n_flat_params) <= 0,
       "and nothing was changed");
    OK(one_step(&net, 0.5, 42) == ERR_GATE, "nor by the next step");
    net.gradients[3] = 1;
    OK(one_step(&net, 0.5, 43) == ERR_OK && isfinite(net.optim->gradient_norm) &&
           memcmp(net.weights, net.before, (size_t)net.graph->n_flat_params * sizeof(float)) != 0,
       "a finite gradient after it updates the weights");
    net_free(&net);
}

/* A step whose guard is not finite, and the one that was begun before the host knew. */
static void test_guard(const backend_t *device)
{
    net_t net = net_new(device, "ema = 0.9\nweight-decay = 0.1");
    const size_t n_bytes = (size_t)net.graph->n_flat_params * sizeof(float);
    float *guard = util_block(device, sizeof *guard);
    optim_step_t step = {.weights = util_device(net.weights),
                         .gradients = util_device(net.gradients),
                         .lr = 0.5,
                         .guard = util_device(guard)};
    *guard = NAN;
    util_push(device);
    must(optim_step(net.optim, &step), "optim_step");
    util_pull(device);
    step.step++, *guard = 1;
    util_push(device);
    must(optim_step(net.optim, &step), "optim_step");
    util_pull(device);
    must(optim_pull(net.optim), "optim_pull");
    bool same = memcmp(net.weights, net.before, n_bytes) == 0;
    for (int b = 0; b < net.optim->n_buffers; b++)
        same = same && norm_of(net.optim->buffers[b].flat.host, net.graph->n_flat_params) <= 0;
    OK(same, "a step whose guard is not finite changes nothing, nor does a later one");
    util_free(&guard);
    net_free(&net);
}

/* The second step begins before the norm of the first is taken. */
static void test_in_flight(const backend_t *device)
{
    net_t net = net_new(device, "clip-norm = 2");
    const int64_t n = net.graph->n_flat_params;
    const double norm = norm_of(net.gradients, n);
    optim_step_t step = {
        .weights = util_device(net.weights), .gradients = util_device(net.gradients), .lr = 0.5};
    util_push(device);
    must(optim_step(net.optim, &step), "optim_step");
    util_pull(device);
    for (int64_t i = 0; i < n; i++) net.gradients[i] *= 2;
    util_push(device);
    step.step++;
    must(optim_step(net.optim, &step), "optim_step");
    util_pull(device);
    must(optim_finish(net.optim, 0), "optim_finish");
    bool first = fabs(net.optim->gradient_norm - norm) < 1e-12 * norm;
    must(optim_finish(net.optim, 1), "optim_finish");
    OK(first && fabs(net.optim->gradient_norm - 2 * norm) < 1e-12 * norm,
       "the norms of two steps in flight are told apart");
    net_free(&net);
}

/* Two steps at lr 2 with decay 0.1, momentum 0.9 and trust 0.02 of one parameter, in double. */
static bool lars_parameter(const net_t *net, const graph_param_t *p, double scale)
{
    int64_t n = shape_count(p->shape);
    const float *g = net->gradients + p->offset, *got = net->weights + p->offset;
    double w[128], v[128] = {0};
    bool proper = p->shape.n_dims > 1;
    ASSERT(n <= 128);
    for (int64_t i = 0; i < n; i++) w[i] = net->before[p->offset + i];
    for (int step = 0; step < 2; step++) {
        double squares = 0, g_norm = scale * norm_of(g, n), ratio = 1;
        for (int64_t i = 0; i < n; i++) squares += w[i] * w[i];
        double w_norm = sqrt(squares);
        if (proper && g_norm > 0 && w_norm > 0) ratio = 0.02 * w_norm / (g_norm + 0.1 * w_norm + 1e-8);
        for (int64_t i = 0; i < n; i++) {
            v[i] = 0.9 * v[i] + 2 * ratio * (scale * g[i] + (proper ? 0.1 * w[i] : 0));
            w[i] -= v[i];
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - w[i]) <= 2e-6 * (fabs(w[i]) + 0.1))) return false;
    return true;
}

static void test_lars(const backend_t *device)
{
    static const char *const options = "optimizer = lars\nweight-decay = 0.1\nlars-trust = 0.02";
    for (int clipped = 0; clipped < 2; clipped++) {
        char text[128];
        snprintf(text, sizeof text, "%s\nclip-norm = %d", options, clipped ? 3 : 0);
        net_t net = net_new(device, text);
        double scale = clipped ? 3 / norm_of(net.gradients, net.graph->n_flat_params) : 1;
        steps(&net, 2, 2);
        for (int i = 0; i < net.graph->n_params; i++)
            OK(lars_parameter(&net, &net.graph->params[i], scale), "lars%s: %s", clipped ? ", clipped" : "",
               net.graph->params[i].name);
        net_free(&net);
    }

    /* Where a norm is zero the ratio is 1. */
    for (int zero_gradient = 0; zero_gradient < 2; zero_gradient++) {
        net_t net = net_new(device, options);
        const graph_param_t *p = &net.graph->params[0];
        for (int64_t i = p->offset; i < p->offset + shape_count(p->shape); i++)
            if (zero_gradient)
                net.gradients[i] = 0;
            else
                net.weights[i] = net.before[i] = 0;
        steps(&net, 2, 2);
        OK(p->shape.n_dims > 1 && net.weights[p->offset] != 0 && lars_parameter(&net, p, 1),
           "lars: %s of zero", zero_gradient ? "gradients" : "weights");
        net_free(&net);
    }
}

static void test_average(const backend_t *device)
{
    net_t net = net_new(device, "momentum = 0.5\nema = 0.3");
    int64_t n = net.graph->n_flat_params;
    double *expected = NULL, worst = 0;
    must(mem_new_array(n, sizeof *expected, "averages", &expected), "memory");
    for (int step = 0; step < 6; step++) {
        must(one_step(&net, 0.1, step), "optim_step");
        static const double decay[] = {0, 2. / 11, 3. / 12, 0.3, 0.3, 0.3}; /* (1+s)/(10+s), up to 0.3 */
        for (int64_t i = 0; i < n; i++)
            expected[i] = decay[step] * expected[i] + (1 - decay[step]) * net.weights[i];
        for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(expected[i] - average_of(&net)[i]));
        if (step == 0)
            OK(memcmp(net.weights, average_of(&net), (size_t)n * sizeof(float)) == 0,
               "the average begins as the weights of the first step");
    }
    OK(worst < 1e-6, "and follows them with a decay that rises to --ema (%g)", worst);
    float weight = net.weights[0], average = average_of(&net)[0];
    swap_average(&net);
    OK(weight != average && net.weights[0] == average && average_of(&net)[0] == weight, "swapped");
    swap_average(&net);
    OK(net.weights[0] == weight && average_of(&net)[0] == average, "and back");
    mem_free(&expected);
    net_free(&net);
}

/* State carried over by name into a new optimizer goes on bit for bit, and a step allocates nothing. */
static void test_resume(const backend_t *device)
{
    static const char *const names[] = {"sgd", "nesterov", "adadelta", "adamw", "lars"};
    for (int k = 0; k < 5; k++) {
        char text[128];
        snprintf(text, sizeof text, "optimizer = %s\nweight-decay = 0.01\nclip-norm = 2\nema = 0.99",
                 names[k]);
        net_t whole = net_new(device, text), first = net_new(device, text), second = net_new(device, text);
        size_t n_bytes = (size_t)whole.graph->n_flat_params * sizeof(float);
        int64_t allocated = mem_count();
        steps(&whole, 0.1, 8), steps(&first, 0.1, 5);
        OK(mem_count() == allocated, "%s: steps allocate nothing", names[k]);
        memcpy(second.weights, first.weights, n_bytes);
        for (int b = 0; b < first.optim->n_buffers; b++)
            memcpy(second.optim->buffers[b].flat.host, first.optim->buffers[b].flat.host, n_bytes);
        for (int step = 5; step < 8; step++) must(one_step(&second, 0.1, step), "optim_step");
        bool equal = memcmp(whole.weights, second.weights, n_bytes) == 0;
        for (int b = 0; b < first.optim->n_buffers; b++)
            equal = equal && memcmp(whole.optim->buffers[b].flat.host, second.optim->buffers[b].flat.host,
                                    n_bytes) == 0;
        OK(equal, "%s: goes on from its buffers bit for bit", names[k]);
        net_free(&whole), net_free(&first), net_free(&second);
    }
}

static void test_options(void)
{
    optim_options_t options = options_of("optimizer = nesterov\nmomentum = 0");
    OK(optim_options_check(&options) == ERR_USAGE && strstr(err_message(), "--momentum"),
       "nesterov without momentum: %s", err_message());
    options = options_of("momentum = 0");
    OK_CALL(optim_options_check(&options), "sgd without momentum");
    OK(optim_default_rate("sgd") == 0.03 && optim_default_rate("adadelta") == 1 &&
           optim_default_rate("adamw") == 0.001,
       "each optimizer has its own default rate");
    opt_group_t group = {"Optimizer", optim_option_table, n_optim_options, &options, 0};
    char *storage = NULL;
    OK(opt_config_read(&group, 1, "optimizer = adam", "the test", &storage) == ERR_USAGE &&
           strstr(err_message(), "adamw"),
       "an unknown optimizer: %s", err_message());
    mem_free(&storage);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(12 + 5 + 4 + 14 + 4 + 10 + 4 + (device->memory ? 2 : 0) + 1);
    test_decay(device);
    test_clipping(device);
    test_nonfinite(device);
    test_lars(device);
    test_average(device);
    test_resume(device);
    test_options();
    if (device->memory) test_guard(device), test_in_flight(device);
    if (device->close) device->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
