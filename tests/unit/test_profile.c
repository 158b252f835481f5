/* SPDX-License-Identifier: MIT */
/* RUN device=ref,cpu
 *
 * The profile at the end of a run: ranking, shares and hints from made-up times; what the executor counts;
 * the peak. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "compute/models/model.h"
#include "tests/tap.h"
#include "train/output/profile.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* A layer of these seconds and FLOPs. */
static profile_layer_t layer_of(const char *name, op_kind_t kind, double forward, double backward,
                                double n_flops)
{
    return (profile_layer_t){
        .name = name, .kind = kind, .pass = {{.sec = forward}, {.sec = backward}}, .n_flops = n_flops};
}

static void test_ranking(void)
{
    profile_layer_t layers[] = {
        layer_of("a", OP_RELU, 1e-3, 1e-3, 0),  layer_of("b", OP_CONV2D, 2e-3, 6e-3, 4e9),
        layer_of("c", OP_LINEAR, 0, 0, 0),      layer_of("d", OP_POOL2D, 1e-3, 1e-3, 0),
        layer_of("e", OP_LINEAR, 9e-3, 0, 1e6),
    };
    profile_t p = {.n_steps = 1, .n_ranks = 1, .n_layers = 5, .split = {.total = 0.02}, .layers = layers};
    profile_sort(layers, 5);
    char order[6] = "";
    for (int i = 0; i < 5; i++) order[i] = layers[i].name[0];
    OK(strcmp(order, "ebadc") == 0, "both passes count; equals keep their order (%s)", order);
    OK(near(profile_layer_share(&p, &layers[1]), 0.4), "share of the step");
    OK(near(profile_layer_flops(&layers[1]), 5e11), "FLOP/s over both passes");
    OK(profile_layer_flops(&layers[2]) == 0 && profile_layer_flops(&layers[4]) == 0,
       "no products: no rate, even without any time");
    p.split.total = 0;
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    OK(profile_layer_share(&p, &layers[0]) == 0 && profile_hints(&p, hints) == 0,
       "an empty step is not an error");
}

/* Hints of a step of 100 s, with times in seconds. */
static int hints_of(double data, double comm, double relu, double pool,
                    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX])
{
    profile_layer_t layers[] = {
        layer_of("conv", OP_CONV2D, 20, 20, 1e9), layer_of("relu1", OP_RELU, relu / 2, 0, 0),
        layer_of("relu2", OP_RELU, 0, relu / 2, 0), layer_of("pool", OP_POOL2D, pool, 0, 0)};
    profile_t p = {.n_steps = 1,
                   .n_ranks = 2,
                   .n_layers = 4,
                   .split = {.data = data, .comm = comm, .total = 100},
                   .sum_sec = comm,
                   .layers = layers};
    return profile_hints(&p, hints);
}

/* Hints of a step of 100 s, 40 of them in the allreduce. */
static int comm_hints(double sum_sec, cpu_use_t cpu, char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX])
{
    profile_t p = {
        .n_steps = 1, .n_ranks = 2, .split = {.comm = 40, .total = 100}, .sum_sec = sum_sec, .cpu = cpu};
    return profile_hints(&p, hints);
}

static void test_blame(void)
{
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX], text[CPU_USE_TEXT_MAX];
    const cpu_use_t quiet = {.wait_share = 0.09, .n_ranks = 2, .n_threads = 2, .n_cpus = 2};
    const cpu_use_t disturbed = {
        .wait_share = 0.4, .switches_per_sec = 812, .load = 4.25, .n_ranks = 2, .n_threads = 2, .n_cpus = 2};
    const cpu_use_t crowded = {.n_ranks = 4, .n_threads = 4, .n_cpus = 2};
    OK(comm_hints(30, quiet, hints) == 1 && strstr(hints[0], "40 % of step time is allreduce") == hints[0],
       "an allreduce that takes long is named");
    OK(comm_hints(5, quiet, hints) == 1 && !strstr(hints[0], "is allreduce") &&
           strstr(hints[0], "40 % of step time is waiting for slower ranks") == hints[0] &&
           strstr(hints[0], "--trace"),
       "ranks that are late are not the allreduce: %s", hints[0]);
    OK(comm_hints(30, disturbed, hints) == 2 && strstr(hints[0], "short of CPU: ranks waited") == hints[0] &&
           strstr(hints[0], "40 % of the time") && strstr(hints[0], "812 involuntary") &&
           strstr(hints[0], "other processes") && !strstr(hints[1], "is allreduce"),
       "nor are other processes: %s", hints[0]);
    OK(comm_hints(30, crowded, hints) == 2 && strstr(hints[0], "4 threads of 4 ranks share 2 CPUs") &&
           strstr(hints[0], "fewer ranks") && !strstr(hints[1], "is allreduce"),
       "nor too many ranks: %s", hints[0]);
    cpu_use_text(&quiet, text);
    OK(!text[0] && !cpu_use_short(&quiet) && cpu_use_short(&disturbed) && cpu_use_short(&crowded),
       "a quiet machine is not worth a word");
    const cpu_use_t swamped = {.wait_share = 0.8, .load = 19, .n_ranks = 1, .n_threads = 2, .n_cpus = 2};
    cpu_use_text(&swamped, text);
    OK(strstr(text, "try --threads 1"), "on a swamped machine, several threads of a rank lose: %s", text);
    cpu_use_text(&disturbed, text);
    OK(!strstr(text, "--threads"), "one thread of each rank does not");
}

static void test_hints(void)
{
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    OK(hints_of(9.9, 19.9, 14, 10.9, hints) == 0, "below every threshold: none");
    OK(hints_of(10, 19, 0, 0, hints) == 1 &&
           strstr(hints[0], "10 % of step time is waiting for data") == hints[0],
       "data");
    OK(hints_of(0, 34.6, 0, 0, hints) == 1 && strstr(hints[0], "35 % of step time is allreduce") == hints[0],
       "communication");
    OK(hints_of(0, 0, 10, 20, hints) == 1 &&
           strstr(hints[0], "30 % of step time is memory passes between products (pool2d 20 %, relu 10 %)") ==
               hints[0],
       "passes between the products, the costly kind first");
    OK(hints_of(0, 0, 30, 0.5, hints) == 1 && strstr(hints[0], "(relu 30 %)"),
       "kinds that cost nothing are left out");
    OK(hints_of(20, 20, 20, 20, hints) == 3, "all at once");
}

/* By a yardstick of 100 FLOP/s and 10 B/s beyond 5 B of cache: a forward pass, and the passes of backward. */
static profile_layer_t bounded(const char *name, double forward_sec, double backward_sec, exec_pass_t forward,
                               exec_pass_t data, exec_pass_t weights)
{
    profile_layer_t layer = layer_of(name, OP_CONV2D, forward_sec, backward_sec, 1);
    layer.work[OP_FORWARD] = forward, layer.work[OP_BACKWARD_DATA] = data;
    layer.work[OP_BACKWARD_WEIGHTS] = weights;
    return layer;
}

static bool is_pass(const profile_pass_t *pass, double least_sec, bound_t bound)
{
    if (near(pass->least_sec, least_sec) && pass->bound == bound) return true;
    printf("# at least %g s by %d, expected %g by %d\n", pass->least_sec, (int)pass->bound, least_sec,
           (int)bound);
    return false;
}

static void test_bounds(void)
{
    const exec_pass_t none = {0, {0, 0}};
    profile_layer_t layers[] = {
        /* 50 MACs are a second, and 45 bytes are four; 10 calls of 10 bytes are five. */
        bounded("a", 8, 16, (exec_pass_t){1, {100, 15}}, (exec_pass_t){1, {100, 15}},
                (exec_pass_t){1, {50, 45}}),
        bounded("b", 20, 4, (exec_pass_t){10, {0, 100}}, none, none),
        bounded("c", 4, 0, (exec_pass_t){1, {0, 9}}, none, none),
    };
    profile_t p = {.n_layers = 3, .layers = layers, .measured = {100, 10, 5, "a test"}};
    profile_judge(&p);
    OK(is_pass(&layers[0].pass[0], 2, BOUND_PRODUCTS) && is_pass(&layers[0].pass[1], 6, BOUND_BYTES),
       "each pass has its bound; backward has the sum");
    OK(near(profile_pass_of_bound(&layers[0].pass[0]), 0.25), "how near the pass is to it");
    const profile_pass_t both = profile_layer_passes(&layers[0]);
    OK(near(both.sec, 24) && is_pass(&both, 8, BOUND_BYTES), "both passes of a layer");
    OK(is_pass(&layers[1].pass[0], 5, BOUND_BYTES), "every call may find its bytes in the cache");
    OK(is_pass(&layers[2].pass[0], 0, BOUND_NONE) && isnan(profile_pass_of_bound(&layers[2].pass[0])),
       "bytes of which the cache holds more than half are no bound");
    OK(p.yardstick.flops == 100 && p.yardstick.bytes_per_sec == 10, "the yardstick stays as measured");
    layers[0].pass[0].sec = 1;
    layers[1].pass[0].sec = 2.5;
    profile_judge(&p);
    OK(near(p.yardstick.flops, 200) && near(p.yardstick.bytes_per_sec, 20) && p.measured.flops == 100,
       "a layer that did more raises it");
    bool most = true;
    for (int i = 0; i < 2 * 3; i++) {
        const double share = profile_pass_of_bound(&layers[i / 2].pass[i % 2]);
        most &= isnan(share) || share <= 1;
    }
    OK(most && near(profile_pass_of_bound(&layers[0].pass[0]), 1) &&
           is_pass(&layers[0].pass[1], 3, BOUND_BYTES),
       "and no pass is above its bound");
    p.measured = (yardstick_t){.cache_bytes = 5};
    profile_judge(&p);
    OK(is_pass(&layers[0].pass[0], 0, BOUND_NONE) && is_pass(&layers[1].pass[0], 0, BOUND_NONE),
       "nothing is bounded by what is unknown");
}

/* The hint of a step of 100 s, of which a convolution takes 40 forward, and 2 × 20 s are its bound backward. */
static int algorithm_hints(double least_forward, bool may_measure, double cpu_wait,
                           char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX])
{
    static const op_algorithms_t algorithms = {{"gemm", "blocked", "blocked"}};
    const exec_pass_t forward = {1, {100 * least_forward, 0}}, backward = {1, {2000, 0}};
    profile_layer_t layers[] = {bounded("conv", 40, 45, forward, backward, backward),
                                bounded("fc", 15, 0, (exec_pass_t){1, {1, 0}}, backward, backward)};
    layers[0].algorithms = &algorithms;
    profile_t p = {.n_layers = 2,
                   .n_ranks = 1,
                   .split = {.total = 100},
                   .layers = layers,
                   .may_measure = may_measure,
                   .cpu = {.wait_share = cpu_wait, .load = 4, .n_ranks = 1, .n_threads = 1, .n_cpus = 2},
                   .measured = {.flops = 200}};
    profile_judge(&p);
    return profile_hints(&p, hints);
}

static void test_algorithm_hint(void)
{
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    OK(algorithm_hints(10, true, 0, hints) == 1 && strstr(hints[0], "conv forward") == hints[0] &&
           strstr(hints[0], "25 %") && strstr(hints[0], "products") && strstr(hints[0], "gemm:") &&
           strstr(hints[0], "--algorithms measure"),
       "a pass far from its bound: %s", hints[0]);
    OK(algorithm_hints(10, false, 0, hints) == 0, "algorithms that were measured are the best there are");
    OK(algorithm_hints(10, true, 0.5, hints) == 1 && !strstr(hints[0], "--algorithms"),
       "a pass that waits for a CPU is not its algorithm's fault");
    OK(algorithm_hints(21, true, 0, hints) == 0, "half of the bound is near enough");
}

enum { N_SAMPLES = 3 };

static err_t make_exec(const backend_t *backend, const graph_t *graph, float **memory, exec_t **exec)
{
    int64_t n = graph->n_flat_params;
    TRY(mem_new_array(2 * n + graph->n_flat_states, sizeof(float), "test", memory));
    float *params = *memory, *states = params + 2 * n;
    graph_init(graph, 1, params, states);
    exec_options_t options = {
        .graph = graph, .backend = backend, .params = params, .grads = params + n, .states = states};
    TRY(exec_new(&options, exec));
    TRY(exec_prepare(*exec, N_SAMPLES, true));
    TRY(exec_prepare(*exec, N_SAMPLES, false));
    return exec_ready(*exec);
}

/* Of the layer, and of those that are fused into it. */
static const exec_cost_t *cost_of(const exec_t *exec, const char *name)
{
    const graph_t *graph = exec_graph(exec);
    for (int i = 0; i < graph->n_nodes; i++) {
        const char *node = graph->nodes[i].name;
        size_t n = strcspn(node, "+");
        if (strlen(name) == n && strncmp(node, name, n) == 0) return &exec_costs(exec)[i];
    }
    return NULL;
}

static bool macs_are(const exec_t *exec, const char *name, double forward, double backward)
{
    const exec_cost_t *cost = cost_of(exec, name);
    return near(cost->forward_macs, N_SAMPLES * forward) && near(cost->backward_macs, N_SAMPLES * backward);
}

static void test_counts(exec_t *exec)
{
    static float pixels[N_SAMPLES * 28 * 28];
    static const int32_t labels[N_SAMPLES];
    exec_batch_t batch = {.n = N_SAMPLES, .input = {pixels, labels}, .loss_scale = 1};
    OK_CALL(exec_forward(exec, &batch, false), "an evaluation");
    OK(cost_of(exec, "conv1")->forward_macs == 0, "is not counted");
    for (int i = 0; i < 2; i++) {
        exec_clear_costs(exec);
        OK_CALL(exec_forward(exec, &batch, true), "forward");
        OK_CALL(exec_backward(exec, &batch, NULL, NULL), "backward");
    }
    OK(macs_are(exec, "conv1", 288000, 288000), "the first layer has one product in backward");
    OK(macs_are(exec, "conv2", 1600000, 3200000) && macs_are(exec, "fc2", 5000, 10000),
       "the others two; what was cleared is gone");
    const exec_cost_t *first = cost_of(exec, "conv1"), *second = cost_of(exec, "conv2");
    OK(first->pass[OP_BACKWARD_DATA].n_calls == 0 && first->pass[OP_BACKWARD_WEIGHTS].n_calls == 1 &&
           near(second->pass[OP_BACKWARD_DATA].work.macs, N_SAMPLES * 1600000.0) &&
           second->pass[OP_FORWARD].work.bytes > 0,
       "so does the least work of each pass");
    OK(macs_are(exec, "loss", 0, 0) && cost_of(exec, "loss")->backward_sec > 0,
       "a layer without products has time alone");
}

static err_t no_room(dtype_t compute, backend_peak_t *out)
{
    (void)compute, (void)out;
    RAISE(ERR_SYSTEM, "64 bytes of GPU memory cannot be had");
}

/* The trained model has used up the device's memory. */
static void test_full(comm_t *comm, const profile_run_t *run)
{
    backend_t full = *run->backend;
    profile_run_t same = *run;
    profile_t p = {0};
    json_t j = {0};
    full.peak_flops = no_room;
    same.backend = &full;
    OK_CALL(profile_gather(comm, &same, &p), "a profile of a run that left no memory");
    OK(p.yardstick.flops == 0 && p.split.total == 10 && p.n_layers > 0 && SAYS("cannot be had"),
       "has all but the peak, and why is known");
    json_object_begin(&j, NULL);
    profile_json(&p, &j);
    json_object_end(&j);
    OK(!strstr(j.text, "peak") && strstr(j.text, "\"gflops\""), "nor is the peak in its record");
    json_free(&j);
    profile_free(&p);
}

/* The one step in exec, reported as two. */
static void test_gather(const backend_t *backend, const exec_t *exec)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = "self", .timeout_sec = 60};
    profile_split_t sums = {1, 2, 3, 4, 0, 5, 20};
    profile_t p = {0};
    OK_CALL(comm_open(&options, &comm), "a communicator");
    profile_run_t run = {.exec = exec, .backend = backend, .sums = &sums, .n_steps = 2, .n_layer_steps = 2};
    OK_CALL(profile_gather(comm, &run, &p), "a profile");
    OK(p.split.data == 0.5 && p.split.backward == 1.5 && p.split.total == 10, "times are a step's");
    bool sorted = p.n_layers == exec_graph(exec)->n_nodes;
    double n_flops = 0;
    for (int i = 0; i < p.n_layers; i++) {
        n_flops += p.layers[i].n_flops;
        if (i > 0)
            sorted &= profile_layer_passes(&p.layers[i - 1]).sec >= profile_layer_passes(&p.layers[i]).sec;
    }
    OK(sorted, "every node is there, the most costly first");
    OK(near(n_flops, N_SAMPLES * (3 * 2293000.0 - 288000)), "2 FLOPs for each multiply-add, over two steps");
    OK((p.yardstick.flops > 0) == (backend->peak_flops != NULL), "the peak is measured, where there is one");
    profile_free(&p);
    profile_free(&p);
    test_full(comm, &run);
    comm_close(&comm);
}

int main(int argc, char **argv)
{
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    const char *device = argc > 1 ? argv[1] : "ref";
    if (backend_find(device, &backend, why) != ERR_OK) tap_skip_all(err_message());
    tap_plan(54);
    OK_CALL(backend_open(backend, 1), "the %s backend", device);
    test_ranking();
    test_hints();
    test_blame();
    test_bounds();
    test_algorithm_hint();
    graph_t *graph = NULL;
    exec_t *exec = NULL;
    float *memory = NULL;
    model_options_t options = {.sample = shape_3d(28, 28, 1), .n_classes = 10};
    OK_CALL(model_build("lenet5", &options, &graph), "a model");
    OK_CALL(make_exec(backend, graph, &memory, &exec), "an executor");
    test_counts(exec);
    test_gather(backend, exec);
    exec_free(&exec);
    graph_free(&graph);
    mem_free(&memory);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
