/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : a graph with what LeNet-5 does not need: two inputs, one of them no image;
 * three losses, none of them special; a convolution shared by two sizes; a frozen stem; outputs by name; other
 * input shapes. Its gradients by central differences and by PyTorch. */
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "compute/graph/layers.h"
#include "store/checkpoint/arrays.h"
#include "tests/graph_util.h"
#include "tests/tap.h"

enum { N = 3, SIDE = 8, WIDE = 9, FEATURES = 6, CLASSES = 5, TARGETS = 4 };

/* 64 characters, as torchvision has them and longer. */
#define HEAD "roi_heads.mask_predictor.layer_with_as_many_letters_as_permitted"

enum { IMAGE, LABEL, VECTOR, TARGET }; /* the inputs */

static graph_t *build(int64_t width)
{
    graph_t *g = NULL;
    must(graph_new("toy", &g), "a graph");
    conv2d_layer_t conv = {.channels = 4, .kernel = 3, .pad = 1};
    int image = graph_input(g, "image", shape_3d(SIDE, width, 3), DTYPE_F32);
    int label = graph_input(g, "label", (shape_t){0}, DTYPE_I32);
    g->frozen = true;
    int v = nn_conv2d(g, "stem.conv", image, conv);
    v = nn_relu(g, "stem.relu", nn_norm(g, "stem.norm", v));
    g->frozen = false;
    v = nn_frozen_norm(g, "body.norm", nn_conv2d(g, "body.conv", v, conv));
    int large = nn_relu(g, "body.relu", v);
    int small = nn_max_pool(g, "down", large, (pool2d_layer_t){.kernel = 2});
    int a = nn_relu(g, "head.relu", nn_conv2d(g, HEAD, large, conv));
    int b = nn_relu(g, "head.small.relu", graph_repeat(g, "head.small", HEAD, &small));
    /* The first loss has layers behind it, and its logits are read again. */
    int logits = nn_linear(g, "fc", nn_avg_pool(g, "pool", a, (pool2d_layer_t){.kernel = 2}), CLASSES);
    int loss = nn_softmax_xent(g, "loss.label", logits, label, 0.1);
    graph_weigh(g, loss, 0.5f);
    graph_output(g, "prediction", loss + 1);
    int target = graph_input(g, "target", shape_1d(TARGETS), DTYPE_F32);
    v = nn_linear(g, "fc.small", nn_avg_pool(g, "pool.small", b, (pool2d_layer_t){.kernel = 2}), TARGETS);
    graph_output(g, "targets", v);
    graph_weigh(g, nn_sigmoid_bce(g, "loss.target", v, target), 2);
    int vector = graph_input(g, "vector", shape_1d(FEATURES), DTYPE_F32);
    v = nn_add(g, "mix", nn_linear(g, "fc.vector", vector, CLASSES), logits);
    nn_softmax_xent(g, "loss.mix", v, label, 0);
    return g;
}

static void open_run(graph_run_t *r, const backend_t *backend, int64_t width)
{
    graph_run_open(r, backend, build(width), N);
    int32_t *labels = r->input[LABEL];
    float *targets = r->input[graph_find_input(r->graph, "target")];
    for (int i = 0; i < N; i++) labels[i] = (2 * i + 1) % CLASSES;
    for (int i = 0; i < N * TARGETS; i++) targets[i] = i % 3 == 0 ? 1.0f : 0.0f;
    for (int i = 0; i < r->graph->n_params; i++) {
        const graph_param_t *p = &r->graph->params[i];
        rng_t rng = rng_new(6, RNG_TEST, (uint64_t)i);
        for (int64_t k = 0; p->shape.n_dims == 1 && k < shape_count(p->shape); k++)
            r->params[p->offset + k] += 0.2f * (float)rng_normal(&rng);
    }
    for (int64_t i = 0; i < GRAPH_UTIL_GUARD; i++) r->grads[r->graph->n_flat_trained + i] = UTIL_GUARD;
}

/* The objective of a training forward, from the losses of the samples. */
static double objective(graph_run_t *r, const exec_batch_t *batch)
{
    static const char *const names[] = {"loss.label", "loss.target", "loss.mix"};
    static const double weights[] = {0.5, 2, 1};
    double sum = 0;
    util_push(r->backend);
    must(exec_forward(r->exec, batch, true), "forward");
    for (int l = 0; l < 3; l++) {
        const float *losses = graph_run_output(r, names[l]);
        for (int64_t i = 0; i < batch->n; i++) sum += weights[l] * (double)losses[i];
    }
    return sum;
}

/* Central differences in single precision: most of the derivatives must agree, as a step may cross the kink
 * of a ReLU or another maximum. */
static void check_differences(graph_run_t *r, const exec_batch_t *batch, const char *what)
{
    const float h = 2e-3f;
    int n_checked = 0, n_close = 0;
    objective(r, batch);
    must(exec_backward(r->exec, batch, NULL, NULL), "backward");
    util_pull(r->backend);
    for (int p = 0; p < r->graph->n_params; p++) {
        const graph_param_t *param = &r->graph->params[p];
        int64_t count = shape_count(param->shape), stride = count / 6 + 1;
        for (int64_t i = 0; i < count && !param->frozen; i += stride) {
            float *w = &r->params[param->offset + i], old = *w;
            *w = old + h;
            double up = objective(r, batch);
            *w = old - h;
            double down = objective(r, batch);
            *w = old;
            double want = (up - down) / (2.0 * (double)h), have = r->grads[param->offset + i];
            bool close = fabs(want - have) <= 0.02 * fabs(want) + 0.004;
            if (!close) printf("# %s[%lld]: %g, by differences %g\n", param->name, (long long)i, have, want);
            n_checked++;
            n_close += close;
        }
    }
    OK(n_checked > 35 && n_close >= n_checked * 95 / 100, "%s: %d of %d derivatives agree", what, n_close,
       n_checked);
}

static void check_layout(const graph_run_t *r)
{
    const graph_t *g = r->graph;
    bool behind = true;
    int n_frozen = 0;
    for (int i = 0; i < g->n_params; i++) {
        n_frozen += g->params[i].frozen;
        behind = behind && (g->params[i].offset >= g->n_flat_trained) == g->params[i].frozen;
    }
    OK(n_frozen == 6 && behind && g->n_flat_trained < g->n_flat_params,
       "frozen parameters are behind all others");
    OK(graph_run_param(r, "body.conv/bias") > graph_run_param(r, HEAD "/bias") &&
           graph_run_param(r, HEAD "/bias") > graph_run_param(r, "fc/bias"),
       "what backward finishes first comes first; a layer's name may have %zu characters", strlen(HEAD));
    OK(g->n_params == 4 + 4 + 2 + 2 + 2 + 2, "the shared convolution has one weight and bias (%d)",
       g->n_params);
}

static void check_backward(graph_run_t *r, const exec_batch_t *batch)
{
    const graph_t *g = r->graph;
    graph_hook_log_t log = {0, 0, true};
    float *before = util_block(r->backend, (size_t)g->n_flat_states * sizeof *before);
    memcpy(before, r->states, (size_t)g->n_flat_states * sizeof *before);
    exec_time_layers(r->exec, true);
    exec_clear_costs(r->exec);
    objective(r, batch);
    must(exec_backward(r->exec, batch, graph_hook_log, &log), "backward");
    util_pull(r->backend);
    OK(log.ascending && log.next == g->n_flat_trained && log.n == 5,
       "gradients become ready in order, those that are shared once (%d calls)", log.n);
    bool kept = true;
    for (int64_t i = 0; i < GRAPH_UTIL_GUARD; i++)
        kept = kept && r->grads[g->n_flat_trained + i] == UTIL_GUARD;
    OK(kept, "nothing is written behind them");
    OK(memcmp(before, r->states, (size_t)g->n_flat_states * sizeof *before) == 0,
       "frozen batch norms keep their running values");
    util_free(&before);
    bool stops = true;
    for (int i = 0; i < exec_graph(r->exec)->n_nodes; i++) {
        const graph_node_t *node = &exec_graph(r->exec)->nodes[i];
        double macs = exec_costs(r->exec)[i].backward_macs, sec = exec_costs(r->exec)[i].backward_sec;
        if (strncmp(node->name, "stem", 4) == 0) stops = stops && macs <= 0 && sec <= 0;
        if (strncmp(node->name, "body.conv", 9) == 0)
            stops = stops && macs > 0 && macs < 1.01 * exec_costs(r->exec)[i].forward_macs;
    }
    OK(stops, "backward stops before the frozen stem");
    exec_time_layers(r->exec, false);
}

static void check_tally(graph_run_t *r)
{
    float *tally = util_block(r->backend, 6 * sizeof *tally);
    exec_batch_t batch = graph_run_batch(r, N);
    batch.tally = util_device(tally);
    double want = objective(r, &batch);
    util_pull(r->backend);
    double have = 0.5 * (double)tally[0] + 2 * (double)tally[2] + (double)tally[4];
    OK(fabs(want - have) <= 1e-5 * want && tally[3] <= 0, "every loss has its sum: together %g, wanted %g",
       have, want);
    const int32_t *predictions = graph_run_output(r, "prediction"), *labels = r->input[LABEL];
    int n_correct = 0;
    for (int i = 0; i < N; i++) n_correct += predictions[i] == labels[i];
    OK(n_correct == (int)tally[1], "and its number of correct predictions (%d)", n_correct);
    util_free(&tally);
}

/* Without labels an evaluation leaves out the losses. */
static void check_evaluation(graph_run_t *r)
{
    exec_batch_t batch = graph_run_batch(r, N);
    batch.input[LABEL] = NULL;
    util_push(r->backend);
    OK_CALL(exec_forward(r->exec, &batch, false), "an evaluation without labels");
    OK(!graph_run_output(r, "loss.label") && !graph_run_output(r, "loss.mix") &&
           !graph_run_output(r, "prediction"),
       "has no losses that compare with them");
    const float *losses = graph_run_output(r, "loss.target"), *targets = graph_run_output(r, "targets");
    OK(losses && targets && isfinite(losses[0]) && isfinite(targets[0]), "but has all else");
}

/* Images of another width: the gradients, and the bits of a graph that was built for it. */
static void check_shapes(graph_run_t *r, const backend_t *backend)
{
    graph_run_t own;
    shape_t shapes[GRAPH_MAX_INPUTS];
    open_run(&own, backend, WIDE);
    must(exec_prepare(own.exec, N, true), "planning");
    for (int i = 0; i < own.graph->n_inputs; i++)
        shapes[i] = graph_shape(own.graph, own.graph->inputs[i].value);
    shapes[IMAGE].dim[3] = 5;
    OK(exec_prepare_shapes(own.exec, N, shapes, false) == ERR_USAGE && SAYS("stem.conv", "other shapes"),
       "shapes that would need other weights are refused: %s", err_message());
    shapes[IMAGE].dim[3] = 3;
    must(exec_ready(own.exec), "memory");
    memcpy(own.params, r->params, (size_t)r->graph->n_flat_params * sizeof(float));
    memcpy(own.states, r->states, (size_t)r->graph->n_flat_states * sizeof(float));
    exec_batch_t mine = graph_run_batch(&own, N), batch = mine;
    batch.shapes = shapes;
    double want = objective(&own, &mine), have = objective(r, &batch);
    must(exec_backward(own.exec, &mine, NULL, NULL), "backward");
    must(exec_backward(r->exec, &batch, NULL, NULL), "backward");
    util_pull(backend);
    OK(fabs(want - have) <= 0 &&
           memcmp(own.grads, r->grads, (size_t)r->graph->n_flat_trained * sizeof(float)) == 0,
       "images of another width: the bits of a graph of that width");
    int64_t count = mem_count();
    exec_batch_t usual = graph_run_batch(r, N);
    for (int i = 0; i < 2; i++) {
        must(exec_forward(r->exec, i ? &batch : &usual, true), "forward");
        must(exec_backward(r->exec, i ? &batch : &usual, NULL, NULL), "backward");
    }
    OK(mem_count() == count, "changing between them allocates nothing");
    graph_run_close(&own);
}

/* Writes an archive of the inputs, parameters, running values, losses and gradients. */
static void write_archive(graph_run_t *r, const char *path)
{
    enum { MAX = 64 };
    static const char *const outputs[] = {"loss.label", "loss.target", "loss.mix"};
    static char names[MAX][GRAPH_PARAM_NAME_MAX + 8];
    array_entry_t entries[MAX];
    int n = 0;
    const graph_t *g = r->graph;
    float labels[N];
    for (int i = 0; i < N; i++) labels[i] = (float)((int32_t *)r->input[LABEL])[i];
    for (int i = 0; i < g->n_inputs; i++)
        entries[n++] =
            (array_entry_t){g->inputs[i].name, shape_with_batch(graph_shape(g, g->inputs[i].value), N),
                            i == LABEL ? labels : r->input[i]};
    for (int i = 0; i < 3; i++)
        entries[n++] = (array_entry_t){outputs[i], shape_1d(N), graph_run_output(r, outputs[i])};
    for (int i = 0; i < g->n_states; i++)
        entries[n++] =
            (array_entry_t){g->states[i].name, g->states[i].shape, r->states + g->states[i].offset};
    for (int i = 0; i < g->n_params; i++) {
        const graph_param_t *p = &g->params[i];
        ASSERT(n + 2 <= MAX);
        entries[n++] = (array_entry_t){p->name, p->shape, r->params + p->offset};
        if (p->frozen) continue;
        snprintf(names[n], sizeof names[n], "grad:%s", p->name);
        entries[n] = (array_entry_t){names[n], p->shape, r->grads + p->offset};
        n++;
    }
    must(arrays_write(path, entries, n, NULL), "an archive");
}

/* Losses and gradients as PyTorch has them in double precision, to 1e-5 of the largest value of a tensor. */
static void check_torch(graph_run_t *r, const exec_batch_t *batch)
{
    const char *venv = getenv("DPTRAIN_VENV");
    char own[FS_PATH_MAX], command[4 * FS_PATH_MAX], path[] = "/tmp/dptrain-toy-XXXXXX.npz";
    snprintf(own, sizeof own, "%s/bin/python", venv && *venv ? venv : "build/venv");
    const char *pythons[] = {own, "/usr/bin/python3"}, *python = NULL;
    for (int i = 0; i < 2 && !python; i++) {
        snprintf(command, sizeof command, "'%s' -c 'import torch, numpy' 2>/dev/null", pythons[i]);
        if (system(command) == 0) python = pythons[i];
    }
    if (!python) {
        tap_skip("there is no PyTorch; Debian's package is python3-torch");
        return;
    }
    objective(r, batch);
    int fd = mkstemps(path, 4);
    must(exec_backward(r->exec, batch, NULL, NULL), "backward");
    util_pull(r->backend);
    if (fd < 0 || close(fd) != 0) abort();
    objective(r, batch);
    write_archive(r, path);
    snprintf(command, sizeof command, "'%s' tests/unit/toy_torch.py '%s'", python, path);
    fflush(stdout);
    OK(system(command) == 0, "losses and gradients are PyTorch's");
    unlink(path);
}

int main(int argc, char **argv)
{
    const backend_t *backend = util_open(argc, argv, 1);
    graph_run_t run;
    tap_plan(3 + 1 + 1 + 4 + 2 + 3 + 3 + 1);
    open_run(&run, backend, SIDE);
    shape_t shapes[GRAPH_MAX_INPUTS];
    for (int i = 0; i < run.graph->n_inputs; i++)
        shapes[i] = graph_shape(run.graph, run.graph->inputs[i].value);
    must(exec_prepare(run.exec, N, true), "planning");
    must(exec_prepare(run.exec, N, false), "planning");
    shapes[IMAGE].dim[2] = WIDE;
    must(exec_prepare_shapes(run.exec, N, shapes, true), "planning other shapes");
    must(exec_ready(run.exec), "memory");
    exec_batch_t batch = graph_run_batch(&run, N);
    check_layout(&run);
    check_differences(&run, &batch, "objective of three losses");
    check_torch(&run, &batch);
    check_backward(&run, &batch);
    check_tally(&run);
    check_evaluation(&run);
    check_shapes(&run, backend);
    graph_run_close(&run);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
