/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : graphs: errors that name the layer, whole-network gradients, hooks, memory
 * reuse.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "compute/graph/exec.h"
#include "compute/graph/layers.h"
#include "compute/models/model.h"
#include "tests/graph_util.h"
#include "tests/tap.h"

enum { SIDE = 8, CLASSES = 5, BATCH = 6 };

/* Blocks of tests/op_util.h: the host side. */
typedef struct net {
    const backend_t *backend;
    graph_t *graph;
    exec_t *exec;
    float *params, *grads, *states, *pixels, *targets;
    int32_t *labels;
} net_t;

/* Every kind of layer, a value with three readers, in-place layers after layers that keep their output. */
static void build_every_layer(graph_t *g)
{
    int v = nn_conv2d(g, "stem", 0, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    v = nn_norm(g, "bn", v);
    int trunk = nn_relu(g, "relu", v);
    int a =
        nn_conv2d(g, "left", trunk, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 2, .dilation = 2});
    int b = nn_conv2d(g, "right", trunk,
                      (conv2d_layer_t){.channels = 4, .kernel = 1, .groups = 2, .no_bias = true});
    v = nn_add(g, "join1", a, b);
    v = nn_add(g, "join2", v, trunk);
    v = nn_add(g, "twice", v, v);
    v = nn_relu(g, "relu2", v);
    v = nn_dropout(g, "drop", v, 0.25);
    v = nn_max_pool(g, "max", v, (pool2d_layer_t){.kernel = 2});
    v = nn_avg_pool(g, "avg", v, (pool2d_layer_t){.kernel = 3, .stride = 1, .pad = 1});
    v = nn_linear(g, "fc", v, 7);
    v = nn_dropout(g, "drop2", v, 0.5);
    v = nn_linear(g, "head", v, CLASSES);
    model_add_loss(g, &(model_options_t){.n_classes = CLASSES, .label_smoothing = 0.1}, v);
}

static int conv_norm(graph_t *g, const char *conv, const char *norm, int v, conv2d_layer_t layer)
{
    layer.no_bias = true;
    layer.init = INIT_KAIMING_OUT;
    return nn_norm(g, norm, nn_conv2d(g, conv, v, layer));
}

/* Residual blocks: one with an identity shortcut, and a bottleneck with a projection; the loss is for several
 * labels. */
static void build_residual(graph_t *g)
{
    int v = conv_norm(g, "stem", "bn", 0, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    int trunk = nn_relu(g, "relu", v);
    v = conv_norm(g, "a.conv1", "a.bn1", trunk, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    v = nn_relu(g, "a.relu1", v);
    v = conv_norm(g, "a.conv2", "a.bn2", v, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    v = nn_add(g, "a.add", v, trunk);
    trunk = nn_relu(g, "a.relu2", v);
    v = conv_norm(g, "b.conv1", "b.bn1", trunk, (conv2d_layer_t){.channels = 3, .kernel = 1});
    v = nn_relu(g, "b.relu1", v);
    v = conv_norm(g, "b.conv2", "b.bn2", v,
                  (conv2d_layer_t){.channels = 3, .kernel = 3, .stride = 2, .pad = 1});
    v = nn_relu(g, "b.relu2", v);
    v = conv_norm(g, "b.conv3", "b.bn3", v, (conv2d_layer_t){.channels = 6, .kernel = 1});
    int other =
        conv_norm(g, "b.short", "b.norm", trunk, (conv2d_layer_t){.channels = 6, .kernel = 1, .stride = 2});
    v = nn_add(g, "b.add", v, other);
    v = nn_relu(g, "b.relu3", v);
    v = nn_global_avg_pool(g, "pool", v);
    v = nn_linear(g, "fc", v, CLASSES);
    model_add_loss(g, &(model_options_t){.n_classes = CLASSES, .multi_label = true}, v);
}

/* Batch norms with and without layers that can be fused into them: ReLU; additions of the norm's own input,
 * of the graph's, of another norm's output, of itself; a norm that two layers read. */
static void build_norms(graph_t *g)
{
    conv2d_layer_t same = {.channels = 2, .kernel = 3, .pad = 1};
    int v = nn_add(g, "with_input", conv_norm(g, "conv1", "bn1", 0, same), 0);
    int a = conv_norm(g, "conv2", "bn2", v, same);
    int b = conv_norm(g, "conv3", "bn3", v, same);
    v = nn_relu(g, "relu1", nn_add(g, "of_norms", b, a));
    v = nn_conv2d(g, "conv4", v, same);
    v = nn_add(g, "with_x", v, nn_norm(g, "bn4", v));
    a = nn_norm(g, "bn5", v);
    v = nn_add(g, "twice_read", nn_relu(g, "relu2", a), a);
    v = nn_relu(g, "relu3", nn_norm(g, "bn6", v));
    a = nn_norm(g, "bn7", v);
    v = nn_add(g, "itself", a, a);
    v = nn_linear(g, "fc", v, CLASSES);
    model_add_loss(g, &(model_options_t){.n_classes = CLASSES}, v);
}

static err_t net_open(net_t *net, const backend_t *backend, void (*build)(graph_t *graph))
{
    *net = (net_t){.backend = backend};
    TRY(graph_new("every", &net->graph));
    graph_input(net->graph, "image", shape_3d(SIDE, SIDE, 2), DTYPE_F32);
    build(net->graph);
    TRY(graph_finish(net->graph));
    size_t n_flat = (size_t)net->graph->n_flat_params * sizeof(float);
    net->params = util_block(backend, n_flat);
    net->grads = util_block(backend, n_flat);
    net->states = util_block(backend, (size_t)net->graph->n_flat_states * sizeof(float));
    net->pixels = util_block(backend, BATCH * SIDE * SIDE * 2 * sizeof(float));
    net->labels = util_block(backend, BATCH * sizeof(int32_t));
    net->targets = util_block(backend, BATCH * CLASSES * sizeof(float));
    graph_init(net->graph, 3, net->params, net->states);
    exec_options_t options = {.graph = net->graph,
                              .backend = backend,
                              .params = util_device(net->params),
                              .grads = util_device(net->grads),
                              .states = util_device(net->states),
                              .seed = 3};
    TRY(exec_new(&options, &net->exec));
    TRY(exec_prepare(net->exec, BATCH, true));
    TRY(exec_prepare(net->exec, 2, true));
    TRY(exec_prepare(net->exec, BATCH, false));
    TRY(exec_ready(net->exec));
    rng_t rng = rng_new(4, RNG_TEST, 0);
    for (int i = 0; i < BATCH * SIDE * SIDE * 2; i++) net->pixels[i] = (float)rng_normal(&rng);
    for (int i = 0; i < BATCH; i++) net->labels[i] = i % CLASSES;
    for (int i = 0; i < BATCH * CLASSES; i++) net->targets[i] = (float)rng_below(&rng, 2);
    return ERR_OK;
}

static void net_close(net_t *net)
{
    exec_free(&net->exec);
    graph_free(&net->graph);
    util_free(&net->params), util_free(&net->grads), util_free(&net->states);
    util_free(&net->pixels), util_free(&net->labels);
    util_free(&net->targets);
}

static exec_batch_t batch_of(net_t *net, int64_t n)
{
    const void *answers = model_multi_label(net->graph) ? (void *)net->targets : net->labels;
    return (exec_batch_t){
        .n = n, .input = {util_device(net->pixels), util_device(answers)}, .step = 11, .loss_scale = 1.0f};
}

/* Of the last forward, in host memory. */
static const void *result(net_t *net, const char *name)
{
    exec_results_t results;
    int output = graph_find_output(net->graph, name);
    must(exec_results(net->exec, &results), "results");
    return output < 0 ? NULL : results.output[output];
}

/* Runs on the contents of the host side; *loss: the sum over the samples. */
static err_t forward(net_t *net, const exec_batch_t *batch, double *loss)
{
    *loss = 0;
    util_push(net->backend);
    TRY(exec_forward(net->exec, batch, true));
    const float *losses = result(net, "loss");
    for (int64_t i = 0; i < batch->n; i++) *loss += losses[i];
    return ERR_OK;
}

/* Copies the gradients to the host side. */
static err_t backward(net_t *net, const exec_batch_t *batch, exec_ready_hook_t hook, void *context)
{
    TRY(exec_backward(net->exec, batch, hook, context));
    util_pull(net->backend);
    return ERR_OK;
}

static double loss_at(net_t *net)
{
    double loss = NAN;
    exec_batch_t batch = batch_of(net, BATCH);
    if (forward(net, &batch, &loss) != ERR_OK) return NAN;
    return loss;
}

/* Central differences of the whole network in single precision: h is large against rounding (loss ≈ 10, so
 * its rounding is about 1e-6) and small against curvature; kinks that a step crosses are met by counting:
 * most sampled derivatives must agree, to 2 % and `least`. */
static void check_gradients(net_t *net, float h, double least)
{
    exec_batch_t batch = batch_of(net, BATCH);
    double loss;
    OK_CALL(forward(net, &batch, &loss), "forward");
    OK_CALL(backward(net, &batch, NULL, NULL), "backward");
    int n_checked = 0, n_close = 0;
    for (int p = 0; p < net->graph->n_params; p++) {
        const graph_param_t *param = &net->graph->params[p];
        int64_t count = shape_count(param->shape), stride = count / 6 + 1;
        for (int64_t i = 0; i < count; i += stride) {
            float *w = &net->params[param->offset + i], old = *w;
            *w = old + h;
            double up = loss_at(net);
            *w = old - h;
            double down = loss_at(net);
            *w = old;
            double want = (up - down) / (2.0 * (double)h), have = net->grads[param->offset + i];
            n_checked++;
            bool close = fabs(want - have) <= 0.02 * fabs(want) + least;
            n_close += close;
            if (!close) printf("# %s[%lld]: %g, by differences %g\n", param->name, (long long)i, have, want);
        }
    }
    OK(n_checked > 40 && n_close >= n_checked * 95 / 100, "%d of %d derivatives agree", n_close, n_checked);
}

static void check_hooks(net_t *net)
{
    graph_hook_log_t log = {0, 0, true};
    exec_batch_t batch = batch_of(net, BATCH);
    double loss;
    OK(forward(net, &batch, &loss) == ERR_OK && backward(net, &batch, graph_hook_log, &log) == ERR_OK,
       "backward with a hook");
    OK(log.ascending && log.next == net->graph->n_flat_params,
       "gradients become ready in order, without gaps");
    OK(log.n == 6, "one call per layer with parameters (%d)", log.n);
    log = (graph_hook_log_t){0, 0, true};
    batch = batch_of(net, 0);
    memset(net->grads, 0xff, (size_t)net->graph->n_flat_params * sizeof(float));
    OK_CALL(backward(net, &batch, graph_hook_log, &log), "a rank without samples can run backward");
    bool zero = true;
    for (int64_t i = 0; i < net->graph->n_flat_params; i++)
        zero = zero && net->grads[i] >= 0 && net->grads[i] <= 0;
    OK(zero && log.n == 6, "its gradients are zero");
}

/* The plan shares memory between buffers; a run must not depend on the arena's previous contents. */
static void check_reuse(net_t *net)
{
    exec_batch_t big = batch_of(net, BATCH), small = batch_of(net, 2);
    double first, again, other;
    float *kept = NULL;
    int64_t n = net->graph->n_flat_params;
    if (mem_new_array(n, sizeof(float), "kept", &kept) != ERR_OK) return;
    forward(net, &big, &first);
    backward(net, &big, NULL, NULL);
    memcpy(kept, net->grads, (size_t)n * sizeof(float));
    forward(net, &small, &other);
    backward(net, &small, NULL, NULL);
    forward(net, &big, &again);
    backward(net, &big, NULL, NULL);
    OK(memcmp(&first, &again, sizeof first) == 0, "the loss does not depend on what ran before");
    OK(memcmp(kept, net->grads, (size_t)n * sizeof(float)) == 0, "nor do the gradients");
    OK(exec_arena_bytes(net->exec) <= 2 * exec_floor_bytes(net->exec),
       "the arena (%zu) is near its floor (%zu)", exec_arena_bytes(net->exec), exec_floor_bytes(net->exec));
    int64_t count = mem_count();
    for (int i = 0; i < 3; i++) {
        forward(net, &big, &again);
        backward(net, &big, NULL, NULL);
    }
    OK(mem_count() == count, "a step allocates nothing");
    mem_free(&kept);
}

static err_t find_nonfinite(net_t *net, const exec_batch_t *batch, exec_nonfinite_t *found)
{
    util_push(net->backend);
    return exec_find_nonfinite(net->exec, batch, found);
}

static void check_nonfinite(net_t *net)
{
    exec_nonfinite_t found;
    exec_batch_t batch = batch_of(net, BATCH);
    OK(find_nonfinite(net, &batch, &found) == ERR_OK && found.where[0] == '\0', "all is finite");
    int64_t offset = -1;
    for (int i = 0; i < net->graph->n_params; i++)
        if (strcmp(net->graph->params[i].name, "right/weight") == 0) offset = net->graph->params[i].offset;
    float old = net->params[offset];
    net->params[offset] = NAN;
    find_nonfinite(net, &batch, &found);
    OK(strcmp(found.where, "the parameter right/weight") == 0, "a NaN parameter is named: %s", found.where);
    net->params[offset] = 3e38f;
    find_nonfinite(net, &batch, &found);
    OK(strcmp(found.where, "the output of layer right") == 0, "an overflowing layer is named: %s",
       found.where);
    net->params[offset] = old;
    const int at = 2 * SIDE * SIDE * 2 + 5;
    const float pixel = net->pixels[at];
    net->pixels[at] = NAN;
    find_nonfinite(net, &batch, &found);
    OK(found.where[0] && found.sample == 2, "the sample with NaN is told: %s, %lld", found.where,
       (long long)found.sample);
    net->pixels[at] = pixel;
}

/* The sums of a training step, and the results for evaluation: logits, and no predictions. */
static void check_multi_label(net_t *net)
{
    exec_batch_t batch = batch_of(net, BATCH);
    float *tally = util_block(net->backend, 2 * sizeof *tally);
    double loss = 0, by_hand = 0;
    batch.tally = util_device(tally);
    OK_CALL(forward(net, &batch, &loss), "forward with a tally");
    const float *logits = result(net, "logits");
    for (int i = 0; i < BATCH * CLASSES; i++) {
        double x = logits[i];
        by_hand += (log1p(exp(x)) - x * net->targets[i]) / CLASSES;
    }
    util_pull(net->backend);
    OK(fabs(loss - by_hand) < 1e-5 * by_hand, "the loss is that of the logits: %g, by hand %g", loss,
       by_hand);
    OK(fabs(tally[0] - loss) < 1e-5 * loss && tally[1] < 1 && !result(net, "prediction"),
       "samples with several labels have no predictions, and none counts as correct");
    util_free(&tally);
}

static void check_residual(net_t *net, const backend_t *backend)
{
    OK_CALL(net_open(net, backend, build_residual), "a residual graph is planned");
    OK(model_multi_label(net->graph), "its loss is for several labels");
    rng_t rng = rng_new(5, RNG_TEST, 0);
    for (int i = 0; i < net->graph->n_params; i++) {
        const graph_param_t *p = &net->graph->params[i];
        for (int64_t k = 0; p->shape.n_dims == 1 && k < shape_count(p->shape); k++)
            net->params[p->offset + k] += 0.2f * (float)rng_normal(&rng);
    }
    check_gradients(net, 4e-4f, 0.002);
    check_multi_label(net);
    net_close(net);
}

/* The same backend without fused batch norms gives the same bits: loss, gradients and running values. */
static void check_fused_norms(const backend_t *backend, void (*build)(graph_t *graph), const char *what)
{
    net_t fused, apart;
    backend_t plain = *backend;
    op_kernel_t norm = *backend->kernel[OP_BATCH_NORM];
    norm.fuses = false;
    plain.kernel[OP_BATCH_NORM] = &norm;
    OK(net_open(&fused, backend, build) == ERR_OK && net_open(&apart, &plain, build) == ERR_OK,
       "%s: fused and not", what);
    int n_fused = exec_graph(fused.exec)->n_nodes, n_apart = exec_graph(apart.exec)->n_nodes;
    bool fuses = backend->kernel[OP_BATCH_NORM]->fuses;
    OK(fuses ? n_fused < n_apart : n_fused == n_apart, "%d layers instead of %d", n_fused, n_apart);
    bool same = true;
    double loss[2];
    rng_t rng = rng_new(6, RNG_TEST, 0);
    for (int64_t i = 0; i < fused.graph->n_flat_params; i++)
        fused.params[i] = apart.params[i] = fused.params[i] + 0.2f * (float)rng_normal(&rng);
    for (int step = 0; step < 2; step++) {
        exec_batch_t batch[2] = {batch_of(&fused, BATCH), batch_of(&apart, BATCH)};
        same = same && forward(&fused, &batch[0], &loss[0]) == ERR_OK &&
               backward(&fused, &batch[0], NULL, NULL) == ERR_OK &&
               forward(&apart, &batch[1], &loss[1]) == ERR_OK &&
               backward(&apart, &batch[1], NULL, NULL) == ERR_OK;
        same = same && memcmp(&loss[0], &loss[1], sizeof loss[0]) == 0 &&
               memcmp(fused.grads, apart.grads, (size_t)fused.graph->n_flat_params * sizeof(float)) == 0 &&
               memcmp(fused.states, apart.states, (size_t)fused.graph->n_flat_states * sizeof(float)) == 0;
    }
    OK(same && isfinite(loss[0]), "loss (%g), gradients and states are bitwise the same", loss[0]);
    net_close(&fused);
    net_close(&apart);
}

static void build_residual_bf16(graph_t *g)
{
    g->compute = DTYPE_BF16;
    build_residual(g);
}

/* Whether all values are stored as they should be with bfloat16 products. */
static bool lie_narrow(const graph_t *g, bool stored)
{
    bool right = true;
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        for (int i = 0; i < node->desc.n_inputs; i++) {
            int value = node->input[i], producer = g->values[value].node;
            bool logits = value == g->outputs[graph_find_output(g, "logits")].value;
            bool narrow = stored && producer >= 0 && !logits;
            right = right && node->desc.x_dtype[i] == (narrow ? DTYPE_BF16 : DTYPE_F32);
            right = right && (producer < 0 || node->desc.x_dtype[i] == g->nodes[producer].desc.y_dtype[0]);
        }
    }
    return right && g->nodes[g->n_nodes - 1].desc.y_dtype[0] == DTYPE_F32;
}

/* Compared with the same network in float32: each of some 20 layers adds a relative error of 2^-9. */
static void check_bf16(const backend_t *backend)
{
    net_t narrow, wide;
    exec_nonfinite_t found;
    double loss[2], dot = 0, square[2] = {0, 0};
    OK(net_open(&narrow, backend, build_residual_bf16) == ERR_OK &&
           net_open(&wide, backend, build_residual) == ERR_OK,
       "bfloat16 and float32 products");
    OK(lie_narrow(exec_graph(narrow.exec), backend->stores_bf16) && lie_narrow(exec_graph(wide.exec), false),
       "values between layers are stored as bfloat16 if the backend supports it");
    memcpy(wide.params, narrow.params, (size_t)wide.graph->n_flat_params * sizeof(float));
    exec_batch_t batch[2] = {batch_of(&narrow, BATCH), batch_of(&wide, BATCH)};
    OK(forward(&narrow, &batch[0], &loss[0]) == ERR_OK &&
           backward(&narrow, &batch[0], NULL, NULL) == ERR_OK &&
           forward(&wide, &batch[1], &loss[1]) == ERR_OK && backward(&wide, &batch[1], NULL, NULL) == ERR_OK,
       "a step of both");
    for (int64_t i = 0; i < wide.graph->n_flat_params; i++) {
        double a = narrow.grads[i], b = wide.grads[i];
        dot += a * b, square[0] += a * a, square[1] += b * b;
    }
    double cosine = dot / sqrt(square[0] * square[1]);
    OK(fabs(loss[0] - loss[1]) < 0.02 * loss[1], "losses are close: %g, %g", loss[0], loss[1]);
    OK(cosine > 0.99 && cosine < 1, "gradients have nearly the same direction, but are not equal: %.6f",
       cosine);
    for (int i = 0; i < narrow.graph->n_params; i++)
        if (strcmp(narrow.graph->params[i].name, "a.conv1/weight") == 0)
            narrow.params[narrow.graph->params[i].offset] = 3e38f;
    OK(find_nonfinite(&narrow, &batch[0], &found) == ERR_OK &&
           strcmp(found.where, "the output of layer a.conv1") == 0,
       "an overflow in bfloat16 is found: %s", found.where);
    net_close(&narrow);
    net_close(&wide);
}

/* Weights equal those drawn in sequence by one thread: old checkpoints depend on it. */
static void check_init(const graph_t *g)
{
    float *params = NULL, *states = NULL;
    bool same = true;
    if (mem_new_array(g->n_flat_params, sizeof *params, "parameters", &params) != ERR_OK) abort();
    if (mem_new_array(g->n_flat_states + 1, sizeof *states, "states", &states) != ERR_OK) abort();
    graph_init(g, 5, params, states);
    for (int i = 0; i < g->n_params; i++) {
        const graph_param_t *p = &g->params[i];
        rng_t rng = rng_new(5, RNG_INIT, (uint64_t)i);
        for (int64_t k = 0; p->init == INIT_DEFAULT && k < shape_count(p->shape); k++)
            same = same && params[p->offset + k] ==
                               (float)(sqrt(1.0 / (double)p->fan_in) * (2 * rng_uniform(&rng) - 1));
    }
    OK(same, "a tensor's weights are one random sequence");
    mem_free(&params);
    mem_free(&states);
}

static void check_errors(void)
{
    graph_t *g = NULL;
    OK_CALL(graph_new("broken", &g), "a graph");
    int v = graph_input(g, "image", shape_3d(4, 4, 1), DTYPE_F32);
    v = nn_conv2d(g, "big", v, (conv2d_layer_t){.channels = 2, .kernel = 5});
    model_add_loss(g, &(model_options_t){.n_classes = 2}, v);
    OK(graph_finish(g) == ERR_USAGE && strstr(err_message(), "layer big") && strstr(err_message(), "4×4"),
       "if a kernel is too large, the error names layer and shapes: %s", err_message());
    graph_free(&g);
    model_options_t options = {.sample = shape_3d(28, 28, 1), .n_classes = 10};
    OK(model_build("lenet", &options, &g) == ERR_USAGE && strstr(err_message(), "lenet5"),
       "for an unknown model the error names the nearest: %s", err_message());
    OK(model_build("foo", &options, &g) == ERR_USAGE && strstr(err_message(), "one of lenet5, mnist-cnn"),
       "if none is near it lists them: %s", err_message());
    OK_CALL(model_build("lenet5", &options, &g), "lenet5");
    OK(g->n_parameters == 431080, "lenet5 has 431,080 parameters (%lld)", (long long)g->n_parameters);
    check_init(g);
    graph_free(&g);
    options.sample = shape_3d(6, 6, 1);
    OK(model_build("lenet5", &options, &g) == ERR_USAGE && strstr(err_message(), "layer conv2"),
       "images too small for lenet5: %s", err_message());
    OK(g == NULL, "and nothing stays allocated");
}

int main(int argc, char **argv)
{
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    if (backend_find(argc > 1 ? argv[1] : "ref", &backend, why) != ERR_OK) return 1;
    tap_plan(2 + 3 + 5 + 4 + 4 + (2 + 3 + 3) + 2 * 3 + 6 + 8 + 1);
    net_t *net = NULL;
    if (backend_open(backend, 1) != ERR_OK) return 1;
    if (mem_new(sizeof *net, "net", &net) != ERR_OK) return 1;
    OK_CALL(net_open(net, backend, build_every_layer), "a graph with every layer is planned");
    check_gradients(net, 2e-3f, 0.02);
    check_hooks(net);
    check_reuse(net);
    check_nonfinite(net);
    net_close(net);
    check_residual(net, backend);
    check_fused_norms(backend, build_residual, "residual blocks");
    check_fused_norms(backend, build_norms, "norms of all kinds");
    check_bf16(backend);
    mem_free(&net);
    check_errors();
    if (backend->close) backend->close();
    OK(mem_live() == 0, "allocations balance");
    return tap_done();
}
