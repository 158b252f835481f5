/* SPDX-License-Identifier: MIT */
/* Batch norm and group norm with a fused addition, with a fused ReLU, and with both: bitwise equal to the separate
 * operators, forward and backward, in training and in evaluation, including NaN.
 *
 * RUN device=ref,cpu,cuda slow=cuda isa=avx2,avx512,avx512_bf16 */
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    NORM(0.1, 1e-5, {4, {4, 7, 5, 16}}),
    NORM(0.1, 1e-5, {4, {2, 3, 3, 1}}),
    NORM(0.5, 1e-3, {2, {17, 13}}),
    NORM(0.1, 1e-5, {2, {1, 3}}),
    /* rows of several blocks, divided among threads, that end inside a mask word and at its end */
    NORM(0.1, 1e-5, {4, {5, 14, 14, 72}}),
    NORM(0.1, 1e-5, {4, {3, 61, 67, 1}}),
    NORM(0.0, 1e-2, {3, {8, 16, 33}}),
    /* groups, the last one smaller */
    NORM_GROUPS(2, {4, {4, 7, 5, 16}}),
    NORM_GROUPS(4, {4, {7, 5, 5, 19}}),
    NORM_GROUPS(5, {4, {13, 6, 6, 40}}),
    NORM_GROUPS(9, {2, {5, 4}}),
    /* several rounds of loads, and the rest of one */
    NORM_GROUPS(2, {4, {5, 17, 16, 40}}),
    GROUP_NORM(4, {4, {4, 7, 5, 16}}),
    GROUP_NORM(3, {4, {1, 61, 67, 3}}),
    GROUP_NORM(19, {4, {3, 17, 16, 38}}),
};

/* The separate operators. */
typedef struct chain {
    op_run_t norm, add, relu;
    bool adds, relus;
    shape_t shape;
} chain_t;

static size_t n_bytes(shape_t shape)
{
    return (size_t)shape_count(shape) * sizeof(float);
}

static chain_t chain_new(const backend_t *device, const op_desc_t *desc, bool adds, bool relus)
{
    shape_t s = desc->x[0];
    return (chain_t){.norm = op_run_new(device, *desc, true),
                     .add = op_run_new(device, (op_desc_t)ADD(s), true),
                     .relu = op_run_new(device, (op_desc_t)RELU(s), true),
                     .adds = adds,
                     .relus = relus,
                     .shape = s};
}

static void chain_free(chain_t *c)
{
    op_run_free(&c->norm), op_run_free(&c->add), op_run_free(&c->relu);
}

static const float *chain_forward(chain_t *c)
{
    const float *y = c->norm.y;
    must(op_run_forward(&c->norm), "batch norm");
    memcpy(c->add.x[0], y, n_bytes(c->shape));
    if (c->adds) must(op_run_forward(&c->add), "add"), y = c->add.y;
    memcpy(c->relu.x[0], y, n_bytes(c->shape));
    if (c->relus) must(op_run_forward(&c->relu), "relu"), y = c->relu.y;
    return y;
}

/* The gradient of the added tensor is add's dx[1]. */
static void chain_backward(chain_t *c, const float *dy)
{
    memcpy(c->relu.dy, dy, n_bytes(c->shape));
    if (c->relus) must(op_run_backward(&c->relu), "relu, backward"), dy = c->relu.dx[0];
    memcpy(c->add.dy, dy, n_bytes(c->shape));
    if (c->adds) must(op_run_backward(&c->add), "add, backward");
    memcpy(c->norm.dy, dy, n_bytes(c->shape));
    must(op_run_backward(&c->norm), "batch norm, backward");
}

static bool same_bits(const char *what, const float *got, const float *want, shape_t shape)
{
    int64_t n_bad = 0;
    for (int64_t i = 0; i < shape_count(shape); i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])) && n_bad++ == 0)
            printf("# %s[%lld] of %s: %.9g, should be %.9g\n", what, (long long)i, shape_format(shape).text,
                   (double)got[i], (double)want[i]);
    if (!util_guards_hold(got, shape)) printf("# %s: written beyond its end\n", what), n_bad++;
    return n_bad == 0;
}

static bool same_channels(const char *what, float *const *got, float *const *want, const op_desc_t *d)
{
    bool first = same_bits(what, got[0], want[0], d->param[0]);
    return same_bits(what, got[1], want[1], d->param[0]) && first;
}

static void spoil(float *block, shape_t shape)
{
    for (int64_t i = 0; i < shape_count(shape); i++) block[i] = NAN;
}

/* The batch of both: the fused operator's. */
static void give(chain_t *c, const op_run_t *from)
{
    const op_desc_t *d = &c->norm.op->desc;
    memcpy(c->norm.x[0], from->x[0], n_bytes(c->shape));
    if (c->adds) memcpy(c->add.x[1], from->x[1], n_bytes(c->shape));
    for (int i = 0; i < 2; i++) memcpy(c->norm.param[i], from->param[i], n_bytes(d->param[i]));
    for (int i = 0; i < d->n_states; i++) memcpy(c->norm.state[i], from->state[i], n_bytes(d->state[i]));
}

static void check_training(op_run_t *got, chain_t *c, const char *what)
{
    const op_desc_t *d = &got->op->desc;
    const float *want = chain_forward(c);
    memset(got->workspace, 0xff, got->op->n_workspace_bytes);
    must(op_run_forward(got), "forward");
    OK(same_bits("y", got->y, want, c->shape) &&
           (d->n_states == 0 || same_channels("state", got->state, c->norm.state, d)),
       "%s of %s: forward", what, shape_format(c->shape).text);

    chain_backward(c, got->dy);
    spoil(got->y, c->shape);
    if (c->adds) spoil(got->x[1], c->shape);
    memset(got->workspace, 0xff, got->op->n_workspace_bytes);
    must(op_run_backward(got), "backward");
    OK(same_bits("dx0", got->dx[0], c->norm.dx[0], c->shape) &&
           (!c->adds || same_bits("dx1", got->dx[1], c->add.dx[1], c->shape)) &&
           same_channels("dparam", got->dparam, c->norm.dparam, d),
       "… backward");
    got->args.dx[0].data = got->dy, got->args.dx[1].data = NULL;
    must(op_run_backward(got), "backward");
    OK(same_bits("dx0", got->dy, c->norm.dx[0], c->shape) &&
           same_channels("dparam", got->dparam, c->norm.dparam, d),
       "… in place, without the gradient of the added tensor");
    if (!c->adds) return;
    got->args.dx[0].data = NULL, got->args.dx[1].data = got->dx[1];
    spoil(got->dx[1], c->shape);
    memcpy(got->dy, c->relu.dy, n_bytes(c->shape));
    must(op_run_backward(got), "backward");
    OK(same_bits("dx1", got->dx[1], c->add.dx[1], c->shape), "… only that gradient");
}

static void check_evaluation(const backend_t *device, const op_desc_t *desc, op_run_t *trained, chain_t *c)
{
    op_run_t got = op_run_new(device, *desc, false);
    trained->args.training = c->norm.args.training = false;
    op_run_fill(trained, 5), op_run_fill(&got, 5);
    give(c, trained);
    const float *want = chain_forward(c);
    got.args.y[0].data = got.x[0];
    must(op_run_forward(trained), "evaluation"), must(op_run_forward(&got), "evaluation");
    OK(same_bits("y", trained->y, want, c->shape) && same_bits("y", got.x[0], want, c->shape),
       "… in evaluation, and in place");
    op_run_free(&got);
}

static void compare(const backend_t *device, const op_desc_t *desc, bool adds, bool relus)
{
    const char *what = !adds ? "norm and ReLU" : relus ? "norm, add and ReLU" : "norm and add";
    op_desc_t fused = *desc;
    *(desc->kind == OP_BATCH_NORM ? &fused.attr.batch_norm.epilogue : &fused.attr.group_norm.epilogue) =
        (epilogue_t){.relu = relus};
    if (adds) fused.n_inputs = 2, fused.x[1] = fused.x[0];
    op_run_t got = op_run_new(device, fused, true);
    chain_t chain = chain_new(device, desc, adds, relus);
    /* An earlier batch must not change the results. */
    op_run_fill(&got, 4);
    must(op_run_forward(&got), "forward"), must(op_run_backward(&got), "backward");
    op_run_fill(&got, 3);
    give(&chain, &got);
    check_training(&got, &chain, what);
    got.args.dx[0].data = got.dx[0], got.args.dx[1].data = got.dx[1];
    op_run_fill(&got, 2);
    got.x[adds][0] = NAN; /* one row, or one channel */
    give(&chain, &got);
    const float *want = chain_forward(&chain);
    must(op_run_forward(&got), "forward");
    chain_backward(&chain, got.dy);
    must(op_run_backward(&got), "backward");
    OK(isnan(want[0]) && same_bits("y", got.y, want, chain.shape) &&
           same_bits("dx0", got.dx[0], chain.norm.dx[0], chain.shape),
       "… NaN goes where it should");
    check_evaluation(device, &fused, &got, &chain);
    chain_free(&chain);
    op_run_free(&got);
}

int main(int argc, char **argv)
{
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan((3 * 5 + 2) * N_CASES + 1);
    for (int i = 0; i < N_CASES; i++) {
        compare(device, &cases[i], false, true);
        compare(device, &cases[i], true, false);
        compare(device, &cases[i], true, true);
    }
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
