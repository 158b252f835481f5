/* SPDX-License-Identifier: MIT */
/* The optimizers, one pass over weights, gradients, state and average: 20 bytes per element for SGD and LARS
 * (weight, gradient and velocity read, weight and velocity written), 28 for Adadelta and AdamW, 8 more with
 * an average. */
#include "kernels/cuda/vector.cuh"

namespace
{
/* optim_args_t, with values that change between steps by value or address. With spans, trust_ratio.at is an array. */
typedef struct optim_range {
    float *weight;
    const float *gradient;
    float *state[2];
    float *average; /* NULL: none */
    int64_t n;
    const optim_span_t *spans; /* NULL: all elements are treated alike */
    int n_spans;
    step_f64_t lr, gradient_scale, average_decay, correction[2], trust_ratio;
    double weight_decay, momentum, rho, beta[2], epsilon;
    bool nesterov;
    const float *guard; /* if it or the gradients' scale is not finite, nothing is changed */
    float *halted;
} optim_range_t;

/* A rule has its values in float, computed once per block by `set`, what `own` changes for a span, and the step of
 * one element, which updates the state s and returns the new weight. */
struct sgd_t {
    enum { N_STATES = 1 };
    float scale, decay, lr, momentum;
    bool nesterov;
    __device__ void set(const optim_range_t &r)
    {
        scale = static_cast<float>(step_value(r.gradient_scale));
        decay = static_cast<float>(r.weight_decay);
        lr = static_cast<float>(step_value(r.lr));
        momentum = static_cast<float>(r.momentum);
        nesterov = r.nesterov;
    }
    __device__ void own(bool is_weight, double)
    {
        if (!is_weight) decay = 0;
    }
    __device__ float step(float w, float gradient, float *s) const
    {
        float g = scale * gradient + decay * w, v = momentum * s[0] + g;
        s[0] = v;
        return w - lr * (nesterov ? g + momentum * v : v);
    }
};

struct adadelta_t {
    enum { N_STATES = 2 };
    float scale, decay, lr, rho, rest, epsilon;
    __device__ void set(const optim_range_t &r)
    {
        scale = static_cast<float>(step_value(r.gradient_scale));
        decay = static_cast<float>(r.weight_decay);
        lr = static_cast<float>(step_value(r.lr));
        rho = static_cast<float>(r.rho), rest = static_cast<float>(1 - r.rho);
        epsilon = static_cast<float>(r.epsilon);
    }
    __device__ void own(bool is_weight, double)
    {
        if (!is_weight) decay = 0;
    }
    __device__ float step(float w, float gradient, float *s) const
    {
        float g = scale * gradient + decay * w, square = rho * s[0] + rest * g * g;
        float delta = sqrtf((s[1] + epsilon) / (square + epsilon)) * g;
        s[0] = square;
        s[1] = rho * s[1] + rest * delta * delta;
        return w - lr * delta;
    }
};

/* With bias corrections hoisted: lr·(m/c1)/(√(v/c2) + ε) = (lr/c1)·m / (√v·√(1/c2) + ε). */
struct adamw_t {
    enum { N_STATES = 2 };
    float scale, decay, lr, root, beta1, rest1, beta2, rest2, epsilon;
    __device__ void set(const optim_range_t &r)
    {
        double rate = step_value(r.lr);
        scale = static_cast<float>(step_value(r.gradient_scale));
        decay = static_cast<float>(rate * r.weight_decay);
        lr = static_cast<float>(rate / step_value(r.correction[0]));
        root = static_cast<float>(sqrt(1 / step_value(r.correction[1])));
        beta1 = static_cast<float>(r.beta[0]), rest1 = static_cast<float>(1 - r.beta[0]);
        beta2 = static_cast<float>(r.beta[1]), rest2 = static_cast<float>(1 - r.beta[1]);
        epsilon = static_cast<float>(r.epsilon);
    }
    __device__ void own(bool is_weight, double)
    {
        if (!is_weight) decay = 0;
    }
    __device__ float step(float w, float gradient, float *s) const
    {
        float g = scale * gradient;
        s[0] = beta1 * s[0] + rest1 * g;
        s[1] = beta2 * s[1] + rest2 * g * g;
        return w - decay * w - lr * s[0] / (sqrtf(s[1]) * root + epsilon);
    }
};

struct lars_t {
    enum { N_STATES = 1 };
    double lr;
    float scale, decay, rate, momentum;
    __device__ void set(const optim_range_t &r)
    {
        scale = static_cast<float>(step_value(r.gradient_scale));
        decay = static_cast<float>(r.weight_decay);
        lr = step_value(r.lr);
        rate = static_cast<float>(lr * step_value(r.trust_ratio));
        momentum = static_cast<float>(r.momentum);
    }
    __device__ void own(bool is_weight, double ratio)
    {
        if (!is_weight) decay = 0;
        rate = static_cast<float>(lr * ratio);
    }
    __device__ float step(float w, float gradient, float *s) const
    {
        s[0] = momentum * s[0] + rate * (scale * gradient + decay * w);
        return w - s[0];
    }
};

template <typename RULE> struct update_t {
    optim_range_t r;
    RULE rule;
    float average_rest; /* 1 − average_decay */

    template <int N> __device__ void run(int64_t i) const
    {
        enum { N_STATES = RULE::N_STATES };
        pack_t<float, N> w = load<N>(r.weight + i), g = load<N>(r.gradient + i), a = {}, s[N_STATES];
        for (int j = 0; j < N_STATES; j++) s[j] = load<N>(r.state[j] + i);
        if (r.average) a = load<N>(r.average + i);
        for (int k = 0; k < N; k++) {
            float state[N_STATES];
            for (int j = 0; j < N_STATES; j++) state[j] = s[j].at[k];
            w.at[k] = rule.step(w.at[k], g.at[k], state);
            for (int j = 0; j < N_STATES; j++) s[j].at[k] = state[j];
            a.at[k] += average_rest * (w.at[k] - a.at[k]);
        }
        store(r.weight + i, w);
        for (int j = 0; j < N_STATES; j++) store(r.state[j] + i, s[j]);
        if (r.average) store(r.average + i, a);
    }
};

/* Elements that a block updates at once where there are spans: few of its tiles have more than one. */
const int64_t TILE = 4 * 4 * BLOCK;

/* The span of element i. */
__device__ int span_at(const optim_range_t &r, int64_t i)
{
    int low = 0, high = r.n_spans - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (r.spans[middle].first <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* As sweep, with a rule for each span. */
template <typename RULE>
__device__ void sweep_spans(const optim_range_t &r, const RULE &rule, float average_rest)
{
    for (int64_t tile = blockIdx.x * TILE; tile < r.n; tile += gridDim.x * TILE) {
        const int64_t end = tile + TILE < r.n ? tile + TILE : r.n;
        update_t<RULE> one = {r, rule, average_rest};
        int64_t span_end = 0;
        int span = span_at(r, tile);
        for (int64_t i = tile + 4 * threadIdx.x; i < end; i += 4 * BLOCK) {
            if (i >= span_end) {
                while (i >= r.spans[span].first + r.spans[span].n) span++;
                span_end = r.spans[span].first + r.spans[span].n;
                one.rule = rule;
                one.rule.own(r.spans[span].is_weight, r.trust_ratio.at ? r.trust_ratio.at[span] : 1);
            }
            one.template run<4>(i);
        }
    }
}

/* Divisions and roots in double are slow on some GPUs, and the values of a recorded step are in global
 * memory: one thread per block computes them. */
template <int N, bool SPANS, typename RULE> __global__ void update(optim_range_t range)
{
    __shared__ RULE rule;
    __shared__ float average_rest;
    if (range.halted && *range.halted != 0) return;
    if (range.guard && !isfinite(*range.guard)) {
        if (range.halted && threadIdx.x == 0) *range.halted = 1; /* now no block changes anything */
        return;
    }
    if (range.gradient_scale.at && !isfinite(*range.gradient_scale.at)) return;
    if (threadIdx.x == 0) {
        rule.set(range);
        average_rest = range.average ? static_cast<float>(1 - step_value(range.average_decay)) : 0;
    }
    __syncthreads();
    if (SPANS)
        sweep_spans(range, rule, average_rest);
    else
        sweep<N>(update_t<RULE>{range, rule, average_rest}, range.n);
}

template <typename RULE> cudaError_t run(const optim_range_t &r, cudaStream_t stream)
{
    /* Weight, states and average are read and written, gradients read. */
    traffic_count("optimizer", r.n * 4 * (2 + 2 * RULE::N_STATES + 1 + (r.average ? 2 : 0)) +
                                   r.n_spans * static_cast<int64_t>(sizeof *r.spans));
    bool aligned = packs<4>(r.weight) && packs<4>(r.gradient) && packs<4>(r.average);
    for (int j = 0; j < RULE::N_STATES; j++) aligned = aligned && packs<4>(r.state[j]);
    if (r.spans && !aligned) return cudaErrorInvalidValue;
    if (r.spans)
        return launch(update<4, true, RULE>, grid_for((r.n + TILE - 1) / TILE * BLOCK), BLOCK, stream, r);
    if (aligned) return launch(update<4, false, RULE>, grid_for(r.n / 4), BLOCK, stream, r);
    return launch(update<1, false, RULE>, grid_for(r.n), BLOCK, stream, r);
}
} // namespace

#define STEP(field)                                                                                          \
    {                                                                                                        \
        args->field, static_cast<const double *>(cuda_recorded(offsetof(backend_step_t, field)))             \
    }

/* Passes each value that changes between steps directly or, in a recorded step, by its address. */
static err_t optim_run(const optim_args_t *args, cudaError_t (*launcher)(const optim_range_t &, cudaStream_t),
                       const char *what)
{
    const optim_range_t range = {
        .weight = args->weight,
        .gradient = args->gradient,
        .state = {args->state[0], args->state[1]},
        .average = args->average,
        .n = args->n,
        .spans = args->spans,
        .n_spans = args->n_spans,
        .lr = STEP(lr),
        .gradient_scale = {args->gradient_scale, args->scale_at},
        .average_decay = STEP(average_decay),
        .correction = {STEP(correction[0]), STEP(correction[1])},
        .trust_ratio = {args->trust_ratio, args->ratio_at},
        .weight_decay = args->weight_decay,
        .momentum = args->momentum,
        .rho = args->rho,
        .beta = {args->beta[0], args->beta[1]},
        .epsilon = args->epsilon,
        .nesterov = args->nesterov,
        .guard = args->guard,
        .halted = args->halted,
    };
    E_CUDA(launcher(range, cuda_stream()), what);
    return ERR_OK;
}

err_t cuda_optim_sgd(const optim_args_t *args)
{
    return optim_run(args, run<sgd_t>, "sgd");
}

err_t cuda_optim_adadelta(const optim_args_t *args)
{
    return optim_run(args, run<adadelta_t>, "adadelta");
}

err_t cuda_optim_adamw(const optim_args_t *args)
{
    return optim_run(args, run<adamw_t>, "adamw");
}

err_t cuda_optim_lars(const optim_args_t *args)
{
    return optim_run(args, run<lars_t>, "lars");
}
