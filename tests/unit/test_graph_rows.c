/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : sections of rows: any number of rows up to the maximum, in blocks; gradients
 * of the section's parameters and of values before it by central differences. */
#include "compute/graph/layers.h"
#include "tests/graph_util.h"
#include "tests/tap.h"

enum { N = 4, PIXELS = 5, FEATURES = 6, WIDTH = 7, CLASSES = 3, MAX_ROWS = 10 };
enum { IMAGE, LABEL, FEATURE, ROW_LABEL }; /* the inputs */

/* Samples with a loss; then rows with another. linked: every block reads a value of the samples as a whole. As
 * the layer adds, a block then has as many rows as there are samples. */
static graph_t *build(int64_t block, bool linked)
{
    graph_t *g = NULL;
    must(graph_new("rows", &g), "a graph");
    int image = graph_input(g, "image", shape_1d(PIXELS), DTYPE_F32);
    int label = graph_input(g, "label", (shape_t){0}, DTYPE_I32);
    int trunk = nn_relu(g, "trunk.relu", nn_linear(g, "trunk", image, WIDTH));
    nn_softmax_xent(g, "loss", nn_linear(g, "fc", trunk, CLASSES), label, 0);
    graph_begin_rows(g, "head", block, MAX_ROWS);
    int v = nn_linear(g, "head.fc1", graph_input(g, "feature", shape_1d(FEATURES), DTYPE_F32), WIDTH);
    label = graph_input(g, "row.label", (shape_t){0}, DTYPE_I32);
    if (linked) v = nn_add(g, "head.add", v, trunk);
    v = nn_linear(g, "head.fc2", nn_relu(g, "head.relu", v), CLASSES);
    graph_output(g, "scores", v);
    graph_weigh(g, nn_softmax_xent(g, "head.loss", v, label, 0), 0.5f);
    return g;
}

static void open_run(graph_run_t *r, const backend_t *backend, int64_t block, bool linked)
{
    graph_run_open(r, backend, build(block, linked), N);
    int32_t *labels = r->input[LABEL], *row_labels = r->input[ROW_LABEL];
    float *features = r->input[FEATURE];
    rng_t rng = rng_new(8, RNG_TEST, 0);
    for (int i = 0; i < N; i++) labels[i] = i % CLASSES;
    for (int i = 0; i < MAX_ROWS; i++) row_labels[i] = (i + 1) % CLASSES;
    /* The same rows for every size of block. */
    for (int i = 0; i < MAX_ROWS * FEATURES; i++) features[i] = (float)rng_normal(&rng);
    must(exec_prepare(r->exec, N, true), "planning");
    must(exec_prepare(r->exec, N, false), "planning");
    must(exec_ready(r->exec), "memory");
}

static float last_scores[MAX_ROWS * CLASSES], last_losses[MAX_ROWS]; /* of the last step */

/* A step without its update on the contents of the host side; the objective of n_rows rows. */
static double step(graph_run_t *r, int64_t n_rows, float *tally)
{
    exec_batch_t batch = graph_run_batch(r, N), rows = graph_run_batch(r, n_rows);
    rows.tally = util_device(tally);
    util_push(r->backend);
    must(exec_forward(r->exec, &batch, true), "forward");
    must(exec_rows(r->exec, 1, &rows), "rows");
    const float *losses = graph_run_output(r, "loss"), *row_losses = graph_run_output(r, "head.loss");
    double sum = 0;
    if (n_rows > 0) {
        memcpy(last_scores, graph_run_output(r, "scores"), (size_t)(n_rows * CLASSES) * sizeof(float));
        memcpy(last_losses, row_losses, (size_t)n_rows * sizeof(float));
    }
    for (int i = 0; i < N; i++) sum += losses[i];
    for (int64_t i = 0; i < n_rows; i++) sum += 0.5 * (double)row_losses[i];
    must(exec_backward(r->exec, &batch, NULL, NULL), "backward");
    util_pull(r->backend);
    return sum;
}

static void check_differences(graph_run_t *r, int64_t n_rows)
{
    const float h = 2e-3f;
    int n_checked = 0, n_close = 0;
    for (int p = 0; p < r->graph->n_params; p++) {
        const graph_param_t *param = &r->graph->params[p];
        int64_t count = shape_count(param->shape), stride = count / 6 + 1;
        for (int64_t i = 0; i < count; i += stride) {
            float *w = &r->params[param->offset + i], old = *w;
            step(r, n_rows, NULL);
            double have = r->grads[param->offset + i];
            *w = old + h;
            double up = step(r, n_rows, NULL);
            *w = old - h;
            double down = step(r, n_rows, NULL);
            *w = old;
            double want = (up - down) / (2.0 * (double)h);
            bool close = fabs(want - have) <= 0.02 * fabs(want) + 0.003;
            if (!close) printf("# %s[%lld]: %g, by differences %g\n", param->name, (long long)i, have, want);
            n_checked++;
            n_close += close;
        }
    }
    OK(n_checked > 30 && n_close >= n_checked * 95 / 100, "%lld rows: %d of %d derivatives agree",
       (long long)n_rows, n_close, n_checked);
}

static void keep(const graph_run_t *r, float *out)
{
    memcpy(out, r->grads, (size_t)r->graph->n_flat_trained * sizeof *out);
}

/* Rows after the last are computed, but do not count. */
static void check_tail(graph_run_t *r, float *kept)
{
    const size_t n_bytes = (size_t)r->graph->n_flat_trained * sizeof *kept;
    float *features = r->input[FEATURE], old[MAX_ROWS * FEATURES];
    memcpy(old, features, sizeof old);
    double before = step(r, 5, NULL);
    keep(r, kept);
    for (int i = 5 * FEATURES; i < 8 * FEATURES; i++) features[i] = 1e3f;
    double after = step(r, 5, NULL);
    OK(fabs(before - after) <= 0 && memcmp(kept, r->grads, n_bytes) == 0,
       "what follows the last row in its block changes nothing");
    memcpy(features, old, sizeof old);
    step(r, 0, NULL);
    bool zero = true;
    for (int i = 0; i < r->graph->n_params; i++) {
        const graph_param_t *p = &r->graph->params[i];
        for (int64_t k = 0; strncmp(p->name, "head", 4) == 0 && k < shape_count(p->shape); k++)
            zero = zero && fabsf(r->grads[p->offset + k]) <= 0;
    }
    OK(zero, "without rows their parameters have gradients of 0");
}

static void check_results(graph_run_t *r)
{
    float *tally = util_block(r->backend, 4 * sizeof *tally);
    double sum = 0;
    step(r, 9, tally);
    for (int i = 0; i < 9; i++) sum += last_losses[i];
    OK(fabs(sum - (double)tally[2]) <= 1e-5 * sum && fabsf(tally[0]) <= 0,
       "the tally has the rows' losses: %g, %g by hand", (double)tally[2], sum);
    util_free(&tally);
    float scores[9 * CLASSES];
    memcpy(scores, last_scores, sizeof scores);
    exec_batch_t batch = graph_run_batch(r, N), rows = graph_run_batch(r, 9);
    batch.input[LABEL] = rows.input[ROW_LABEL] = NULL;
    util_push(r->backend);
    must(exec_forward(r->exec, &batch, false), "forward");
    OK_CALL(exec_rows(r->exec, 1, &rows), "an evaluation without labels");
    OK(memcmp(scores, graph_run_output(r, "scores"), sizeof scores) == 0 && !graph_run_output(r, "head.loss"),
       "has the scores of all rows");
    int64_t count = mem_count();
    step(r, 10, NULL);
    step(r, 3, NULL);
    OK(mem_count() == count, "a step allocates nothing, whatever the number of rows");
}

/* Blocks of all sizes give the same sums but for rounding. */
static void check_blocks(const backend_t *backend, float *kept)
{
    static const int64_t blocks[] = {12, 8, 4, 3, 1};
    const int n_blocks = backend->memory ? 3 : 5; /* multiples of 4 on a GPU */
    double want = 0, worst = 0, most = 0;
    bool same = true;
    for (int b = 0; b < n_blocks; b++) {
        graph_run_t r;
        open_run(&r, backend, blocks[b], false);
        double have = step(&r, MAX_ROWS - 1, NULL);
        if (b == 0) {
            want = have;
            keep(&r, kept);
        }
        same = same && fabs(want - have) <= 1e-6 * want;
        for (int64_t i = 0; i < r.graph->n_flat_trained; i++) {
            worst = fmax(worst, fabs((double)kept[i] - (double)r.grads[i]));
            most = fmax(most, fabs((double)kept[i]));
        }
        graph_run_close(&r);
    }
    OK(same && worst <= 1e-6 * most, "blocks of %lld to 12 rows: gradients differ by %.1g of %.2g",
       (long long)blocks[n_blocks - 1], worst, most);
}

int main(int argc, char **argv)
{
    const backend_t *backend = util_open(argc, argv, 1);
    graph_run_t run;
    float *kept = NULL;
    tap_plan(3 + 2 + 4 + 1 + 1);
    open_run(&run, backend, N, true);
    must(mem_new_array(run.graph->n_flat_trained, sizeof *kept, "gradients", &kept), "memory");
    check_differences(&run, MAX_ROWS);
    check_differences(&run, 1);
    check_differences(&run, N);
    check_tail(&run, kept);
    check_results(&run);
    graph_run_close(&run);
    check_blocks(backend, kept);
    mem_free(&kept);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
