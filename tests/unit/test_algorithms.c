/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the table of algorithms as text, unknown names, and the choices of a measurement. */
#include <string.h>

#include "base/clock.h"
#include "compute/graph/exec.h"
#include "compute/graph/layers.h"
#include "compute/graph/measure.h"
#include "compute/models/model.h"
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/start/choose.h"

static op_desc_t conv(int64_t n)
{
    op_desc_t desc = CONV(n, 12, 12, 20, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1, true);
    must(op_infer(&desc), "conv");
    return desc;
}

#define KEY "conv2d float32 n=64 x=12x12x20 k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1"

static void check_keys(void)
{
    char key[OP_KEY_MAX];
    op_desc_t desc = conv(64), linear = LINEAR(3, 31, 37, false), relu = RELU({4, {3, 5, 7, 11}});
    op_key(&desc, key);
    OK(strcmp(key, KEY) == 0, "%s", key);
    must(op_infer(&linear), "linear");
    op_key(&linear, key);
    OK(strcmp(key, "linear float32 n=3 in=31 out=37") == 0, "%s", key);
    must(op_infer(&relu), "relu");
    op_key(&relu, key);
    OK(strncmp(key, "relu float32 n=3 x=", 19) == 0, "%s", key);
}

static void check_text(void)
{
    algorithms_t table = {.machine = "a CPU; 2 threads"}, again = {.n = 0};
    op_desc_t big = conv(64), small = conv(7);
    op_algorithms_t got;
    char *text = NULL, *text_again = NULL;
    must(algorithms_set(&table, &big, OP_FORWARD, "gemm"), "set");
    must(algorithms_set(&table, &big, OP_BACKWARD_WEIGHTS, "blocked"), "set");
    must(algorithms_set(&table, &small, OP_FORWARD, "winograd"), "set");
    must(algorithms_set(&table, &big, OP_FORWARD, "onednn/jit"), "set again");
    must(algorithms_write(&table, &text), "write");
    OK(strstr(text, KEY " forward = onednn/jit\n") && strstr(text, "machine = a CPU; 2 threads\n") &&
           !strstr(text, "gemm"),
       "one line per choice, the last one entered");
    must(algorithms_read(&again, text, "a text", true), "read");
    must(algorithms_write(&again, &text_again), "write");
    OK(again.n == 3 && strcmp(text, text_again) == 0 && strcmp(again.machine, table.machine) == 0,
       "the written text is read back");
    algorithms_get(&again, &big, &got);
    OK(strcmp(got.name[OP_FORWARD], "onednn/jit") == 0 && got.name[OP_BACKWARD_DATA][0] == '\0' &&
           strcmp(got.name[OP_BACKWARD_WEIGHTS], "blocked") == 0,
       "all passes of an operator");
    op_desc_t other = conv(8);
    OK(strcmp(algorithms_find(&again, &small, OP_FORWARD), "winograd") == 0 &&
           !algorithms_find(&again, &other, OP_FORWARD),
       "another batch size is another operator");
    mem_free(&text), mem_free(&text_again);
    algorithms_free(&table), algorithms_free(&again);
}

static void check_damage(void)
{
    static const char *const damaged[] = {
        "nonsense",
        KEY " = gemm",
        KEY " sideways = gemm",
        "forward = gemm",
        "conv3d float32 n=64 x=12x12x20 forward = gemm",
        "conv2d float32 n=64 x= k=50x5x5 forward = gemm",
        "conv2d n=64 x=12x12x20 forward = gemm",
        "conv2d float32 forward = gemm",
        KEY " forward = ",
        KEY " forward = two names",
        KEY " forward = a-name-that-is-longer-than-any-algorithm-has",
        KEY "  forward  forward = gemm",
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        char text[1024];
        algorithms_t strict = {.n = 0}, kept = {.n = 0};
        snprintf(text, sizeof text,
                 "# a comment\n\n  " KEY " backward_data = gemm \r\n%s\n" KEY " forward = blocked",
                 damaged[i]);
        err_t err = algorithms_read(&strict, text, "some.txt", true);
        OK(err == ERR_USAGE && strstr(err_message(), "some.txt, line 4"), "'%s': %s", damaged[i],
           err_message());
        must(algorithms_read(&kept, text, "some.txt", false), "read");
        OK(kept.n == 2 && strcmp(kept.entries[0].name, "gemm") == 0 &&
               strcmp(kept.entries[1].name, "blocked") == 0,
           "valid lines are kept");
        algorithms_free(&strict), algorithms_free(&kept);
    }
    algorithms_t empty = {.n = 0};
    OK(algorithms_read(&empty, "", "nothing", true) == ERR_OK && empty.n == 0,
       "an empty text is a valid table");
}

/* A backend whose convolutions count their calls, and sleep on request. */
static struct {
    int runs[OP_PASS_COUNT];
} seen;
static bool loads, fresh; /* the first run after planning may load kernels */

static const char *const offers[] = {"rule", "quick", "slow"};

static int fake_list(const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
                     const char **names, int max)
{
    (void)desc, (void)training, (void)only;
    int n = 0;
    if (pass == OP_BACKWARD_WEIGHTS) return 0;
    for (; n < 3 && n < max; n++) names[n] = offers[n];
    return n;
}

static err_t fake_plan(op_t *op)
{
    fresh = true;
    for (int pass = 0; pass < OP_BACKWARD_WEIGHTS; pass++)
        if (!op->algorithms.name[pass][0]) strcpy(op->algorithms.name[pass], offers[0]);
    return ERR_OK;
}

static void nap(const op_t *op, op_pass_t pass)
{
    const bool quick = strcmp(op->algorithms.name[pass], "quick") == 0, first = fresh;
    seen.runs[pass]++;
    fresh = false;
    if (quick && !(loads && first)) return;
    double end = clock_sec() + (quick ? 0.3 : 0.03);
    while (clock_sec() < end) clock_sleep(0.01);
}

static err_t fake_forward(const op_t *op, const op_args_t *args)
{
    (void)args;
    nap(op, OP_FORWARD);
    return ERR_OK;
}

static err_t fake_backward(const op_t *op, const op_args_t *args)
{
    if (args->dx[0].data) nap(op, OP_BACKWARD_DATA);
    if (args->dparam[0].data) nap(op, OP_BACKWARD_WEIGHTS);
    return ERR_OK;
}

static const op_kernel_t fake_conv = {
    .plan = fake_plan, .forward = fake_forward, .backward = fake_backward, .list = fake_list};
static const backend_t fake = {.name = "fake", .kernel = {[OP_CONV2D] = &fake_conv}};

static graph_t *small_graph(void)
{
    graph_t *g;
    must(graph_new("small", &g), "graph");
    graph_input(g, "image", shape_3d(6, 6, 2), DTYPE_F32);
    int v = nn_conv2d(g, "first", 0, (conv2d_layer_t){.channels = 3, .kernel = 3});
    v = nn_conv2d(g, "second", v, (conv2d_layer_t){.channels = 4, .kernel = 3});
    v = nn_linear(g, "fc", v, 3);
    model_add_loss(g, &(model_options_t){.n_classes = 3}, v);
    must(graph_finish(g), "graph");
    return g;
}

static void check_measure(void)
{
    graph_t *g = small_graph();
    static const batch_size_t sizes[] = {{.n = 5, .training = true}, {.n = 9}};
    algorithms_t cache = {.n = 0}, table = {.n = 0}, second = {.n = 0}, late = {.n = 0};
    measure_options_t options = {
        .graph = g, .backend = &fake, .sizes = sizes, .n_sizes = 2, .cache = &cache, .limit_sec = 1e9};
    measure_result_t result;
    op_desc_t desc;
    must(algorithms_measure(&options, &table, &result), "measure");
    /* Forward of two layers in two sizes, and the second layer's dx in training. */
    OK(result.n_measured == 5 && result.n_cached == 0 && table.n == 5 && cache.n == 5,
       "every choice is made");
    OK(seen.runs[OP_FORWARD] > 0 && seen.runs[OP_BACKWARD_DATA] > 0 && seen.runs[OP_BACKWARD_WEIGHTS] == 0,
       "passes run separately");
    bool quick = true;
    for (int i = 0; i < table.n; i++) quick = quick && strcmp(table.entries[i].name, "quick") == 0;
    OK(quick, "the fastest is chosen");

    memset(&seen, 0, sizeof seen);
    must(algorithms_measure(&options, &second, &result), "measure");
    OK(result.n_measured == 0 && result.n_cached == 5 && second.n == 5 && seen.runs[OP_FORWARD] == 0,
       "choices in the cache are not measured");

    must(graph_batch_desc(g, 0, 5, &desc), "desc");
    must(algorithms_set(&table, &desc, OP_FORWARD, "slow"), "set");
    must(graph_batch_desc(g, 1, 5, &desc), "desc");
    must(algorithms_set(&table, &desc, OP_FORWARD, "forgotten"), "set");
    must(algorithms_measure(&options, &table, &result), "measure");
    OK(result.n_dropped == 1 && result.n_cached == 1 && result.n_measured == 0 &&
           strcmp(algorithms_find(&table, &desc, OP_FORWARD), "quick") == 0,
       "an algorithm that no longer exists is replaced");
    must(graph_batch_desc(g, 0, 5, &desc), "desc");
    OK(strcmp(algorithms_find(&table, &desc, OP_FORWARD), "slow") == 0,
       "the table's own choice is kept, fast or not");

    options.cache = NULL, options.limit_sec = -1;
    must(algorithms_measure(&options, &late, &result), "measure");
    OK(result.n_left == 5 && result.n_measured == 0 && strcmp(late.entries[0].name, "rule") == 0,
       "out of time, the backend's rule decides");

    /* One run of "rule" takes at least 0.03 s: a second one would exceed the limit. */
    memset(&seen, 0, sizeof seen);
    algorithms_free(&late);
    options.limit_sec = 0.04;
    must(algorithms_measure(&options, &late, &result), "measure");
    OK(seen.runs[OP_FORWARD] <= 1 && seen.runs[OP_BACKWARD_DATA] == 0 && result.n_left == 5 &&
           result.n_measured == 0,
       "no run starts that would exceed the limit (%d started)", seen.runs[OP_FORWARD]);
    OK(late.n == 5, "and the backend's rule is entered for all of them");
    algorithms_free(&table), algorithms_free(&cache), algorithms_free(&second), algorithms_free(&late);
    graph_free(&g);
}

static const backend_device_t *fake_device(void)
{
    static const backend_device_t device = {.name = "fake"};
    return &device;
}

/* On a GPU the first run of an algorithm loads its kernels, and may take longer than all others. */
static void check_loading(void)
{
    graph_t *g = small_graph();
    static const batch_size_t sizes[] = {{.n = 5}};
    backend_t gpu = fake;
    algorithms_t table = {.n = 0};
    measure_options_t options = {.graph = g, .backend = &gpu, .sizes = sizes, .n_sizes = 1, .limit_sec = 1e9};
    measure_result_t result;
    gpu.device = fake_device;
    loads = true;
    must(algorithms_measure(&options, &table, &result), "measure");
    loads = false;
    OK(table.n == 2 && strcmp(table.entries[0].name, "quick") == 0 &&
           strcmp(table.entries[1].name, "quick") == 0,
       "a first run that loads kernels does not decide");
    algorithms_free(&table);
    graph_free(&g);
}

static int n_asked, stop_after;

static bool stopped(void)
{
    return n_asked++ >= stop_after;
}

static int count_runs(void)
{
    return seen.runs[OP_FORWARD] + seen.runs[OP_BACKWARD_DATA] + seen.runs[OP_BACKWARD_WEIGHTS];
}

/* A request to stop is obeyed between two runs. */
static void check_stop(void)
{
    graph_t *g = small_graph();
    static const batch_size_t sizes[] = {{.n = 5, .training = true}, {.n = 9}};
    measure_options_t options = {
        .graph = g, .backend = &fake, .sizes = sizes, .n_sizes = 2, .limit_sec = 1e9, .stopped = stopped};
    measure_result_t result;
    bool right = true;
    for (stop_after = 0; stop_after < 9; stop_after++) {
        algorithms_t table = {.n = 0};
        memset(&seen, 0, sizeof seen);
        n_asked = 0;
        must(algorithms_measure(&options, &table, &result), "measure");
        right = right && count_runs() <= stop_after && result.n_measured <= 1 && table.n == 5 &&
                result.n_left == 5 - result.n_measured;
        algorithms_free(&table);
    }
    OK(right, "no run begins after a request to stop, and the rule decides the rest");
    graph_free(&g);
}

static struct {
    int n_calls, n_done, n_layers;
    double left_sec;
    char layers[8][64];
} told;

static void tell(void *context, const measure_progress_t *p)
{
    (void)context;
    if (told.n_calls < 8) snprintf(told.layers[told.n_calls], sizeof told.layers[0], "%s", p->layer);
    if (p->n_done != told.n_calls || p->left_sec > 1e9) told.left_sec = -1;
    told.n_calls++;
    told.n_layers = p->n_layers;
}

/* The most expensive layers come first, and what the time does not suffice for stays out of the cache. */
static void check_order(void)
{
    graph_t *g;
    must(graph_new("order", &g), "graph");
    graph_input(g, "image", shape_3d(12, 12, 2), DTYPE_F32);
    int v = nn_conv2d(g, "cheap", 0, (conv2d_layer_t){.channels = 3, .kernel = 1});
    v = nn_conv2d(g, "dear", v, (conv2d_layer_t){.channels = 8, .kernel = 5});
    v = nn_conv2d(g, "twin1", v, (conv2d_layer_t){.channels = 8, .kernel = 3, .pad = 1});
    v = nn_conv2d(g, "twin2", v, (conv2d_layer_t){.channels = 8, .kernel = 3, .pad = 1});
    model_add_loss(g, &(model_options_t){.n_classes = 3}, nn_linear(g, "fc", v, 3));
    must(graph_finish(g), "graph");
    static const batch_size_t sizes[] = {{.n = 9}, {.n = 5, .training = true}};
    algorithms_t cache = {.n = 0}, table = {.n = 0}, later = {.n = 0};
    measure_result_t result;
    measure_options_t options = {.graph = g,
                                 .backend = &fake,
                                 .sizes = sizes,
                                 .n_sizes = 2,
                                 .cache = &cache,
                                 .limit_sec = 1e9,
                                 .progress = tell};
    must(algorithms_measure(&options, &table, &result), "measure");
    OK(told.n_calls == 6 && told.n_layers == 6 && told.left_sec >= 0, "layers of one kind are one (%d of %d)",
       told.n_calls, told.n_layers);
    OK(strcmp(told.layers[0], "twin1") == 0 && strcmp(told.layers[1], "dear") == 0 &&
           strcmp(told.layers[2], "cheap") == 0 && strcmp(told.layers[3], "twin1") == 0,
       "training first, and in it what costs most: %s, %s, %s", told.layers[0], told.layers[1],
       told.layers[2]);
    algorithms_free(&cache), algorithms_free(&table);
    options.limit_sec = -1;
    must(algorithms_measure(&options, &table, &result), "measure");
    OK(result.n_left == 8 && table.n == 8 && cache.n == 0, "the rule's choices are not cached (%d left)",
       result.n_left);
    options.limit_sec = 1e9;
    must(algorithms_measure(&options, &later, &result), "measure");
    OK(result.n_measured == 8, "so a later run measures them");
    must(algorithms_measure(&options, &table, &result), "measure");
    OK(result.n_measured == 0 && result.n_cached == 0, "but one that has them in its table keeps them");
    algorithms_free(&cache), algorithms_free(&table), algorithms_free(&later);
    graph_free(&g);
}

static const char *near_of(const algorithms_t *table, int64_t n)
{
    op_desc_t desc = conv(n);
    const char *name = algorithms_find_near(table, &desc, OP_FORWARD);
    return name ? name : "none";
}

static void check_near(void)
{
    algorithms_t table = {.n = 0};
    op_desc_t at_64 = conv(64), at_20 = conv(20);
    must(algorithms_set(&table, &at_64, OP_FORWARD, "gemm"), "set");
    must(algorithms_set(&table, &at_20, OP_FORWARD, "blocked"), "set");
    OK(strcmp(near_of(&table, 64), "gemm") == 0 && strcmp(near_of(&table, 32), "gemm") == 0 &&
           strcmp(near_of(&table, 16), "gemm") == 0 && strcmp(near_of(&table, 256), "gemm") == 0,
       "whole vectors: up to four times or a quarter of the batch");
    OK(strcmp(near_of(&table, 8), "none") == 0 && strcmp(near_of(&table, 512), "none") == 0 &&
           strcmp(near_of(&table, 40), "none") == 0,
       "not farther, and not where vectors stay half empty");
    OK(strcmp(near_of(&table, 10), "blocked") == 0, "the nearest with equally full vectors");
    OK(!algorithms_find_near(&table, &at_64, OP_BACKWARD_DATA), "another pass is another choice");
    algorithms_free(&table);
}

/* The description of a choice made without any time to measure. */
static void check_late(void)
{
    graph_t *g = small_graph();
    comm_options_t alone = {.name = "self", .timeout_sec = 60};
    runtime_t runtime = {.backend = &fake, .n_threads = 1};
    algorithm_request_t request = {.option = "measure", .runtime = &runtime, .graph = g, .timeout_sec = -1};
    algorithm_choice_t choice;
    must(comm_open(&alone, &runtime.comm), "a communicator");
    ASSERT(setenv("XDG_CACHE_HOME", "nowhere", 1) == 0 && unsetenv("HOME") == 0);
    batch_size_add(request.sizes, &request.n_sizes, 5, true);
    must(algorithm_choice_make(&request, &choice), "a choice");
    OK(choice.table.n == 3 && strcmp(choice.from, "fixed") == 0 &&
           strstr(choice.about, "none measured in time"),
       "a choice that was not measured is not from a cache (%s: %s)", choice.from, choice.about);
    algorithm_choice_free(&choice);
    comm_close(&runtime.comm);
    graph_free(&g);
}

static void check_plan(void)
{
    graph_t *g = small_graph();
    algorithms_t table = {.n = 0};
    op_desc_t desc;
    exec_t *exec = NULL;
    must(backend_open(&backend_cpu, 1), "opening the cpu backend");
    must(graph_batch_desc(g, 1, 5, &desc), "desc");
    must(algorithms_set(&table, &desc, OP_BACKWARD_DATA, "gemm"), "set");
    exec_options_t options = {.graph = g, .backend = &backend_cpu, .algorithms = &table};
    must(exec_new(&options, &exec), "executor");
    must(exec_prepare(exec, 5, true), "prepare");
    const op_algorithms_t *used = exec_algorithms(exec, 5, true, 1);
    OK(strcmp(used->name[OP_BACKWARD_DATA], "gemm") == 0 && used->name[OP_FORWARD][0] &&
           strcmp(used->name[OP_FORWARD], "gemm") != 0,
       "the executor plans the table's choices, and the rule otherwise");
    OK(exec_algorithms(exec, 5, true, 2)->name[OP_FORWARD][0] == '\0' && !exec_algorithms(exec, 6, true, 1),
       "an operator without a choice has no name; a size that is not prepared has none");
    must(algorithms_set(&table, &desc, OP_FORWARD, "magic"), "set");
    OK(exec_prepare(exec, 5, false) == ERR_USAGE && strstr(err_message(), "layer second") &&
           strstr(err_message(), "n=5 x=4x4x3") && strstr(err_message(), "'magic'") &&
           strstr(err_message(), "onednn/") && strstr(err_message(), "gemm"),
       "an unknown algorithm: %s", err_message());
    op_algorithms_t wanted = {.name = {"magic"}};
    op_t *op = NULL;
    OK(op_plan(&backend_ref, &desc, false, &wanted, &op) == ERR_USAGE && !op &&
           strstr(err_message(), "no choice"),
       "a backend without a choice: %s", err_message());
    strcpy(wanted.name[OP_FORWARD], "");
    strcpy(wanted.name[OP_BACKWARD_DATA], "magic");
    OK(op_plan(&backend_cpu, &desc, false, &wanted, &op) == ERR_OK,
       "passes that are not planned are ignored");
    op_free(&op);
    exec_free(&exec);
    algorithms_free(&table);
    graph_free(&g);
    backend_cpu.close();
}

int main(void)
{
    tap_plan(3 + 4 + 25 + 1 + 9 + 1 + 5 + 4 + 1 + 5 + 1);
    check_keys();
    check_text();
    check_damage();
    check_measure();
    check_loading();
    check_stop();
    check_order();
    check_near();
    check_late();
    check_plan();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
