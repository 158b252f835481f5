/* SPDX-License-Identifier: MIT */
/* Frozen batch norm, alone and fused with an addition and a ReLU: training gives the bits of evaluation and
 * keeps the running values; the gradients by the formula.
 *
 * RUN device=ref,cpu,cuda */
#include "tests/op_util.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    NORM(0.1, 1e-5, {4, {3, 5, 6, 12}}),
    NORM(0.1, 1e-3, {4, {2, 17, 19, 3}}),
    NORM(0.1, 1e-5, {2, {9, 5}}),
    {.kind = OP_BATCH_NORM,
     .n_inputs = 1,
     .x = {{4, {3, 7, 6, 8}}},
     .attr.batch_norm = {.epsilon = 1e-5, .epilogue = {.relu = true}}},
    {.kind = OP_BATCH_NORM,
     .n_inputs = 2,
     .x = {{4, {3, 7, 6, 8}}, {4, {3, 7, 6, 8}}},
     .attr.batch_norm = {.epsilon = 1e-5, .epilogue = {.relu = true}}},
    {.kind = OP_BATCH_NORM,
     .n_inputs = 2,
     .x = {{4, {3, 7, 6, 5}}, {4, {3, 7, 6, 5}}},
     .attr.batch_norm = {.epsilon = 1e-5}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static bool near(double have, double want)
{
    return fabs(have - want) <= 1e-5 * (1 + fabs(want));
}

/* dx, and with a second input its gradient. */
static bool gradients_hold(const op_run_t *r)
{
    const op_desc_t *d = &r->op->desc;
    const int64_t n_c = d->param[0].dim[0];
    bool right = true;
    for (int64_t i = 0; i < shape_count(d->x[0]); i++) {
        double scale = r->param[0][i % n_c] / sqrt(r->state[1][i % n_c] + d->attr.batch_norm.epsilon);
        double passed = d->attr.batch_norm.epilogue.relu && !(r->y[i] > 0) ? 0 : r->dy[i];
        right = right && near(r->dx[0][i], scale * passed);
        right = right && (d->n_inputs < 2 || near(r->dx[1][i], passed));
    }
    return right;
}

static void check(const backend_t *backend, op_desc_t desc)
{
    desc.attr.batch_norm.frozen = true;
    op_run_t train = op_run_new(backend, desc, true), evaluate = op_run_new(backend, desc, false);
    const size_t n_bytes = (size_t)shape_count(train.op->desc.param[0]) * sizeof(float);
    op_run_fill(&train, 5), op_run_fill(&evaluate, 5);
    for (int i = 0; i < 2; i++) train.args.dparam[i].data = NULL;
    must(op_run_forward(&train), "forward");
    must(op_run_forward(&evaluate), "forward");
    OK(memcmp(train.y, evaluate.y, (size_t)shape_count(train.op->desc.y[0]) * sizeof(float)) == 0 &&
           memcmp(train.state[0], evaluate.state[0], n_bytes) == 0 &&
           memcmp(train.state[1], evaluate.state[1], n_bytes) == 0,
       "%s, %d inputs: as in evaluation, running values are kept", shape_format(desc.x[0]).text,
       desc.n_inputs);
    OK(strcmp(backend->name, "cpu") != 0 || (train.op->reads_x == 0 && train.op->n_saved_bytes == 0),
       "backward on a CPU needs neither x nor anything saved");
    for (int64_t i = 0; i < shape_count(desc.x[0]) && !(train.op->reads_x & 1); i++) train.x[0][i] = NAN;
    must(op_run_backward(&train), "backward");
    OK(gradients_hold(&train), "gradients by the formula");
    op_run_free(&train), op_run_free(&evaluate);
}

int main(int argc, char **argv)
{
    const backend_t *backend = util_open(argc, argv, 1);
    tap_plan(3 * N_CASES + 1);
    for (int i = 0; i < N_CASES; i++) {
        bool fused = cases[i].n_inputs == 2 || cases[i].attr.batch_norm.epilogue.relu;
        if (!fused || backend->kernel[OP_BATCH_NORM]->fuses) {
            check(backend, cases[i]);
            continue;
        }
        for (int k = 0; k < 3; k++) tap_skip("the kernel does not fuse");
    }
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
