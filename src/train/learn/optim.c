/* SPDX-License-Identifier: MIT */
/* Options and state of the optimizers, and the loop over ranges of parameters, or of what this rank has of them. The
 * arithmetic is left to the backend (kernels). */
#include "train/learn/optim.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/comm/device.h"
#include "text/figure.h"

static const char *const optimizers[] = {"sgd", "nesterov", "adadelta", "adamw", "lars", NULL};

#define FIELD(name) offsetof(optim_options_t, name)
const opt_t optim_option_table[] = {
    {"optimizer", OPT_CHOICE, FIELD(optimizer), "sgd", 0, 0, optimizers, NULL,
     "optimizer; detectors without --weights: adamw", OPT_COMMON},
    {"momentum", OPT_REAL, FIELD(momentum), "0.9", 0, 0.99999, NULL, "X", "sgd, nesterov, lars: momentum",
     OPT_MORE},
    {"rho", OPT_REAL, FIELD(rho), "0.95", 0, 0.99999, NULL, "X", "adadelta: decay of the running averages",
     OPT_MORE},
    {"beta1", OPT_REAL, FIELD(beta1), "0.9", 0, 0.99999, NULL, "X", "adamw: decay of the first moment",
     OPT_MORE},
    {"beta2", OPT_REAL, FIELD(beta2), "0.999", 0, 0.9999999, NULL, "X", "adamw: decay of the second moment",
     OPT_MORE},
    {"epsilon", OPT_REAL, FIELD(epsilon), NULL, 1e-30, 1, NULL, "X",
     "term added to denominators [adadelta 1e-6; adamw, lars 1e-8]", OPT_MORE},
    {"weight-decay", OPT_REAL, FIELD(weight_decay), "0", 0, 10, NULL, "X",
     "weight decay, not applied to biases and norms; decoupled with adamw", OPT_MORE},
    {"decay-all", OPT_FLAG, FIELD(decay_all), "false", 0, 0, NULL, NULL,
     "apply weight decay to biases and norms, too, as torchvision's references do", OPT_MORE},
    {"lars-trust", OPT_REAL, FIELD(lars_trust), "0.001", 1e-9, 1000, NULL, "X", "lars: trust coefficient",
     OPT_MORE},
    {"clip-norm", OPT_REAL, FIELD(clip_norm), "0", 0, 1e9, NULL, "X",
     "maximum global gradient norm; 0: no limit", OPT_MORE},
    {"ema", OPT_REAL, FIELD(ema), "0", 0, 0.9999999, NULL, "X",
     "decay of an exponential moving average of the weights, used in evaluation; 0: none", OPT_MORE},
    {"shard-optimizer", OPT_FLAG, FIELD(shard), "false", 0, 0, NULL, NULL,
     "each of N ranks keeps the optimizer's state of 1/N of the parameters and updates these (ZeRO stage 1)",
     OPT_MORE},
};
const int n_optim_options = sizeof optim_option_table / sizeof optim_option_table[0];

/* One row for each name that --optimizer takes. */
typedef struct traits {
    const char *name;
    optim_kind_t kind;
    bool nesterov;
    double rate, epsilon;
    const char *states[OPTIM_MAX_STATES];
} traits_t;

/* Default rates: SGD's is this program's own, Adadelta's is Zeiler's, AdamW's its authors'. LARS takes rates
 * relative to the norm of the weights, typically around 1. */
static const traits_t all_traits[] = {
    {"sgd", OPTIM_SGD, false, 0.03, 0, {"velocity"}},
    {"nesterov", OPTIM_SGD, true, 0.03, 0, {"velocity"}},
    {"adadelta", OPTIM_ADADELTA, false, 1, 1e-6, {"square_average", "update_average"}},
    {"adamw", OPTIM_ADAMW, false, 0.001, 1e-8, {"first_moment", "second_moment"}},
    {"lars", OPTIM_LARS, false, 1, 1e-8, {"velocity"}},
};

struct optim_range {
    int64_t first, n;
    bool is_weight; /* subject to weight decay and the trust ratio */
    double gradient_squares, weight_squares;
};

static const traits_t *traits_of(const char *optimizer)
{
    enum { N_TRAITS = sizeof all_traits / sizeof all_traits[0] };
    for (int i = 0; i < N_TRAITS; i++)
        if (strcmp(all_traits[i].name, optimizer) == 0) return &all_traits[i];
    ASSERT(!"an optimizer of the option table");
    return NULL;
}

double optim_default_rate(const char *optimizer)
{
    return traits_of(optimizer)->rate;
}

err_t optim_options_check(const optim_options_t *o)
{
    if (traits_of(o->optimizer)->nesterov && !(o->momentum > 0))
        RAISE(ERR_USAGE, "--optimizer nesterov requires --momentum above 0; without momentum it is sgd");
    if (o->decay_all && strcmp(o->optimizer, "lars") == 0)
        RAISE(ERR_USAGE, "--decay-all does not apply to --optimizer lars, which scales weights alone");
    return ERR_OK;
}

/* A range extends to the start of the next, including the padding. LARS has a ratio per weight, so only
 * parameters without one are merged. */
static void make_ranges(optim_t *o, const graph_t *graph)
{
    optim_range_t *ranges = o->ranges;
    bool alike = o->kind != OPTIM_LARS && !(o->options.weight_decay > 0);
    int n = 0, n_trained = 0;
    for (int i = 0; i < graph->n_params; i++) {
        const graph_param_t *p = &graph->params[i];
        if (!p->frozen)
            ranges[n_trained++] =
                (optim_range_t){.first = p->offset, .is_weight = o->options.decay_all || p->shape.n_dims > 1};
    }
    /* The flat buffer's order differs from that of graph->params. */
    for (int i = 1; i < n_trained; i++) {
        optim_range_t range = ranges[i];
        int k = i;
        for (; k > 0 && ranges[k - 1].first > range.first; k--) ranges[k] = ranges[k - 1];
        ranges[k] = range;
    }
    for (int i = 0; i < n_trained; i++) {
        int64_t end = i + 1 < n_trained ? ranges[i + 1].first : graph->n_flat_trained;
        bool merge = n > 0 && (alike || (ranges[i].is_weight == ranges[n - 1].is_weight &&
                                         !(ranges[i].is_weight && o->kind == OPTIM_LARS)));
        if (!merge) ranges[n++] = ranges[i];
        ranges[n - 1].n = end - ranges[n - 1].first;
    }
    o->n_ranges = n;
}

static err_t add_buffer(optim_t *o, const char *name)
{
    optim_buffer_t *buffer = &o->buffers[o->n_buffers];
    TRY(hd_buffer_new(o->backend, (size_t)o->n_own * sizeof(float), "optimizer state", &buffer->flat));
    buffer->name = name;
    o->n_buffers++;
    return ERR_OK;
}

static bool needs_norms(const optim_t *o)
{
    return o->options.clip_norm > 0 || o->kind == OPTIM_LARS;
}

int64_t optim_grain(int64_t n_flat)
{
    enum { MOST = 1024, LEAST = 256 }; /* pieces of the parameters; floats: whole cache lines */
    const int64_t n = (n_flat + MOST - 1) / MOST;
    return (n + LEAST - 1) / LEAST * LEAST;
}

int64_t optim_state_bytes(const optim_t *o, int64_t n)
{
    return o->n_buffers * n * (int64_t)sizeof(float);
}

static err_t make_pieces(optim_t *o, const graph_t *graph)
{
    const int64_t n_flat = graph->n_flat_trained;
    const comm_slices_t *s = &o->slices;
    const int64_t n_buckets = s->size ? comm_slices_buckets(s) : 1;
    TRY(mem_new_array(n_buckets, sizeof *o->pieces, "the optimizer", &o->pieces));
    if (!s->size) o->pieces[o->n_pieces++] = (optim_piece_t){.n = o->n_own = n_flat};
    if (s->size && (n_flat + s->grain - 1) / s->grain < s->size)
        RAISE(
            ERR_USAGE,
            "--shard-optimizer: the %s parameters that the model trains are too few to share out among %d ranks, in pieces "
            "of %lld; drop the option",
            figure_count(graph->n_parameters - graph->n_frozen).text, s->size, (long long)s->grain);
    for (int64_t b = 0; s->size && b < n_buckets; b++) {
        int64_t first, n = comm_slice(s, b, o->comm->rank, &first);
        if (n > 0) o->pieces[o->n_pieces++] = (optim_piece_t){.first = first, .n = n, .at = o->n_own};
        o->n_own += n;
    }
    return ERR_OK;
}

static const optim_piece_t *piece_of(const optim_t *o, int64_t at)
{
    for (int64_t p = 0; p < o->n_pieces; p++)
        if (at >= o->pieces[p].first && at < o->pieces[p].first + o->pieces[p].n) return &o->pieces[p];
    return NULL;
}

/* Cuts ranges at the multiples at which parameters may be shared out. */
static err_t make_cells(optim_t *o, int64_t n_flat)
{
    const int64_t grain = o->grain = optim_grain(n_flat), most = n_flat / grain + 1 + o->n_ranges;
    if (!needs_norms(o)) return ERR_OK;
    TRY(hd_buffer_new(o->backend, (size_t)most * sizeof(optim_span_t), "gradient norms", &o->cells));
    TRY(hd_buffer_new(o->backend, (size_t)o->n_ranges * sizeof(optim_span_t), "gradient norms", &o->groups));
    optim_span_t *cells = o->cells.host, *groups = o->groups.host;
    for (int r = 0; r < o->n_ranges; r++) {
        const int64_t end = o->ranges[r].first + o->ranges[r].n;
        groups[r] = (optim_span_t){.first = o->n_cells, .is_weight = o->ranges[r].is_weight};
        for (int64_t at = o->ranges[r].first, next; at < end; at = next) {
            next = (at / grain + 1) * grain < end ? (at / grain + 1) * grain : end;
            const int64_t n = piece_of(o, at) ? next - at : 0;
            cells[o->n_cells++] = (optim_span_t){.first = at, .n = n};
            o->n_squared += n;
        }
        groups[r].n = o->n_cells - groups[r].first;
    }
    TRY(hd_buffer_new(o->backend, (size_t)(2 * (o->n_cells + o->n_ranges)) * sizeof(double), "gradient norms",
                      &o->squares));
    TRY(hd_buffer_push_all(&o->cells));
    return hd_buffer_push_all(&o->groups);
}

/* What a range and a piece have in common: returns its floats. */
static int64_t common_of(const optim_range_t *range, const optim_piece_t *piece, int64_t *first)
{
    const int64_t range_end = range->first + range->n, piece_end = piece->first + piece->n;
    const int64_t end = range_end < piece_end ? range_end : piece_end;
    *first = range->first > piece->first ? range->first : piece->first;
    return end > *first ? end - *first : 0;
}

/* What a device needs to update all ranges of a piece at once, and for norms. */
static err_t make_device_ranges(optim_t *o)
{
    const backend_t *backend = o->backend;
    if (!backend->memory) return ERR_OK;
    TRY(backend_alloc(backend, sizeof *o->halted, "the optimizer", &o->halted));
    if (needs_norms(o))
        TRY(hd_buffer_new(backend, (size_t)(BACKEND_SLOTS * OPTIM_RATIO + o->n_ranges) * sizeof(double),
                          "gradient norms", &o->norms));
    if (o->n_ranges < 2) return ERR_OK;
    TRY(hd_buffer_new(backend, (size_t)(o->n_ranges + o->n_pieces) * sizeof(optim_span_t), "the optimizer",
                      &o->spans));
    optim_span_t *spans = o->spans.host;
    for (int64_t p = 0; p < o->n_pieces; p++) {
        optim_piece_t *piece = &o->pieces[p];
        piece->spans = (optim_span_t *)o->spans.device + (spans - (optim_span_t *)o->spans.host);
        for (int i = 0; i < o->n_ranges; i++) {
            int64_t first, n = common_of(&o->ranges[i], piece, &first);
            if (n == 0) continue;
            *spans++ =
                (optim_span_t){.first = first - piece->first, .n = n, .is_weight = o->ranges[i].is_weight};
            if (piece->n_spans++ == 0) piece->first_range = i;
        }
    }
    return hd_buffer_push_all(&o->spans);
}

err_t optim_new(const optim_options_t *options, const graph_t *graph, const backend_t *backend, comm_t *comm,
                const comm_slices_t *slices, optim_t **out)
{
    const traits_t *traits = traits_of(options->optimizer);
    optim_t *o = NULL;
    err_t err;
    TRY(mem_new(sizeof *o, "the optimizer", &o));
    o->kind = traits->kind;
    o->backend = backend;
    o->options = *options;
    o->options.optimizer = traits->name; /* outlives the command line's string */
    if (!(o->options.epsilon > 0)) o->options.epsilon = traits->epsilon;
    o->comm = comm;
    if (comm) o->slices = *slices;
    o->gradient_norm = NAN;
    o->gradient_scale = 1;
    TRY_OUT(err, mem_new_array(graph->n_params, sizeof *o->ranges, "the optimizer", &o->ranges));
    make_ranges(o, graph);
    TRY_OUT(err, make_pieces(o, graph));
    TRY_OUT(err, make_cells(o, graph->n_flat_trained));
    for (int i = 0; i < OPTIM_MAX_STATES && traits->states[i]; i++)
        TRY_OUT(err, add_buffer(o, traits->states[i]));
    o->n_states = o->n_buffers;
    if (options->ema > 0) {
        TRY_OUT(err, add_buffer(o, "ema"));
        o->average = &o->buffers[o->n_buffers - 1];
    }
    TRY_OUT(err, make_device_ranges(o));
    *out = o;
    return ERR_OK;
out:
    optim_free(&o);
    return err;
}

void optim_free(optim_t **optim)
{
    optim_t *o = *optim;
    if (!o) return;
    for (int i = 0; i < o->n_buffers; i++) hd_buffer_free(&o->buffers[i].flat);
    hd_buffer_free(&o->spans);
    hd_buffer_free(&o->cells);
    hd_buffer_free(&o->groups);
    hd_buffer_free(&o->squares);
    hd_buffer_free(&o->norms);
    backend_release(o->backend, &o->halted);
    mem_free(&o->ranges);
    mem_free(&o->pieces);
    mem_free(optim);
}

/* Where the host receives norm and scale of a step. */
static double *host_norms(const optim_t *o, int64_t step)
{
    return (double *)o->norms.host + step % BACKEND_SLOTS * OPTIM_RATIO;
}

/* Collective where parameters are shared out: each rank has computed its own cells, and 0 for others. */
static err_t share_squares(optim_t *o, int64_t n)
{
    const size_t n_bytes = (size_t)n * sizeof(double);
    if (!o->slices.size) return ERR_OK;
    const bool there = comm_on_device(o->comm);
    if (!there) TRY(hd_buffer_pull(&o->squares, 0, n_bytes));
    TRY(comm_sum_doubles(o->comm, there ? o->squares.device : o->squares.host, n, "gradient norms"));
    return there ? ERR_OK : hd_buffer_push(&o->squares, 0, n_bytes);
}

/* Of each cell: gradients, and for LARS weights. */
static err_t sum_cells(optim_t *o, const optim_norms_t *norms, int64_t n)
{
    const optim_span_t *cells = norms->cells;
    for (int64_t i = 0; !o->backend->squares && i < n; i++) {
        const optim_span_t *cell = &cells[i % o->n_cells];
        const float *values = i < o->n_cells ? norms->gradient : norms->weight;
        norms->squares[i] = 0;
        if (cell->n) TRY(o->backend->sum_squares(values + cell->first, cell->n, &norms->squares[i]));
    }
    if (o->backend->squares) TRY(o->backend->squares(norms));
    return share_squares(o, n);
}

/* Gradient norms and the clipping factor, if needed. On a device also the ratios; the host gets the first two when the step
 * has ended. */
static err_t measure_norms(optim_t *o, const optim_step_t *step)
{
    const bool lars = o->kind == OPTIM_LARS;
    if (!needs_norms(o)) return ERR_OK;
    double *squares = o->squares.device;
    const optim_norms_t norms = {.weight = step->weights,
                                 .gradient = step->gradients,
                                 .cells = o->cells.device,
                                 .groups = o->groups.device,
                                 .n_cells = narrow_int(o->n_cells),
                                 .n_groups = o->n_ranges,
                                 .n = o->n_squared,
                                 .n_longest = o->grain,
                                 .clip_norm = o->options.clip_norm,
                                 .trust = lars ? o->options.lars_trust : 0,
                                 .weight_decay = o->options.weight_decay,
                                 .epsilon = o->options.epsilon,
                                 .squares = squares,
                                 .sums = squares + 2 * o->n_cells,
                                 .out = o->norms.device};
    TRY(sum_cells(o, &norms, lars ? 2 * o->n_cells : o->n_cells));
    if (o->norms.device) {
        TRY(o->backend->norms(&norms));
        return o->backend->memory->download(host_norms(o, step->step), o->norms.device,
                                            OPTIM_RATIO * sizeof(double));
    }
    double all = 0;
    for (int r = 0; r < o->n_ranges; r++) {
        optim_range_t *range = &o->ranges[r];
        range->gradient_squares = range->weight_squares = 0;
        for (int64_t i = norms.groups[r].first; i < norms.groups[r].first + norms.groups[r].n; i++) {
            range->gradient_squares += squares[i];
            if (lars) range->weight_squares += squares[o->n_cells + i];
        }
        all += range->gradient_squares;
    }
    const double limit = o->options.clip_norm;
    o->gradient_norm = sqrt(all);
    o->gradient_scale = limit > 0 && o->gradient_norm > limit ? limit / o->gradient_norm : 1;
    return ERR_OK;
}

static double trust_ratio(const optim_t *o, const optim_range_t *range)
{
    if (o->kind != OPTIM_LARS || !range->is_weight || o->norms.device) return 1;
    const double weight_norm = sqrt(range->weight_squares),
                 gradient_norm = o->gradient_scale * sqrt(range->gradient_squares);
    if (!(weight_norm > 0 && gradient_norm > 0)) return 1;
    return o->options.lars_trust * weight_norm /
           (gradient_norm + o->options.weight_decay * weight_norm + o->options.epsilon);
}

static double average_decay(const optim_t *o, int64_t step)
{
    double ramp = (1.0 + (double)step) / (10.0 + (double)step);
    if (step == 0) return 0;
    return ramp < o->options.ema ? ramp : o->options.ema;
}

void optim_step_values(const optim_t *o, const optim_step_t *step, backend_step_t *values)
{
    double t = (double)step->step + 1;
    values->lr = step->lr;
    values->average_decay = average_decay(o, step->step);
    values->correction[0] = 1 - pow(o->options.beta1, t);
    values->correction[1] = 1 - pow(o->options.beta2, t);
}

static const double *device_norm(const optim_t *o, int i)
{
    return o->norms.device ? (const double *)o->norms.device + i : NULL;
}

/* Arguments shared by all ranges. */
static optim_args_t common_args(const optim_t *o, const optim_step_t *step)
{
    const optim_options_t *options = &o->options;
    backend_step_t v = {0};
    optim_step_values(o, step, &v);
    return (optim_args_t){.lr = v.lr,
                          .gradient_scale = o->gradient_scale,
                          .average_decay = v.average_decay,
                          .momentum = options->momentum,
                          .rho = options->rho,
                          .beta = {options->beta1, options->beta2},
                          .correction = {v.correction[0], v.correction[1]},
                          .epsilon = options->epsilon,
                          .nesterov = traits_of(options->optimizer)->nesterov,
                          .scale_at = device_norm(o, OPTIM_SCALE),
                          .guard = step->guard,
                          .halted = o->halted};
}

static float *flat_of(const optim_buffer_t *buffer)
{
    return buffer->flat.device;
}

/* n elements of a piece from `first` on. */
static void set_range(const optim_t *o, const optim_step_t *step, const optim_piece_t *piece, int64_t first,
                      int64_t n, optim_args_t *args)
{
    const int64_t at = piece->at + first - piece->first;
    args->weight = step->weights + first;
    args->gradient = step->gradients + first;
    args->n = n;
    for (int s = 0; s < o->n_states; s++) args->state[s] = flat_of(&o->buffers[s]) + at;
    args->average = o->average ? flat_of(o->average) + at : NULL;
}

/* All ranges of a piece in one launch. */
static err_t update_on_device(const optim_t *o, const optim_step_t *step, const optim_piece_t *piece)
{
    optim_args_t args = common_args(o, step);
    set_range(o, step, piece, piece->first, piece->n, &args);
    args.spans = piece->spans;
    args.n_spans = piece->n_spans;
    args.ratio_at = o->kind == OPTIM_LARS ? device_norm(o, OPTIM_RATIO + piece->first_range) : NULL;
    args.weight_decay = o->options.weight_decay;
    return o->backend->optim[o->kind](&args);
}

static err_t update_ranges(const optim_t *o, const optim_step_t *step, const optim_piece_t *piece)
{
    optim_args_t args = common_args(o, step);
    for (int i = 0; i < o->n_ranges; i++) {
        const optim_range_t *range = &o->ranges[i];
        int64_t first, n = common_of(range, piece, &first);
        if (n == 0) continue;
        args.trust_ratio = trust_ratio(o, range);
        args.ratio_at = o->kind == OPTIM_LARS ? device_norm(o, OPTIM_RATIO + i) : NULL;
        set_range(o, step, piece, first, n, &args);
        args.weight_decay = range->is_weight ? o->options.weight_decay : 0;
        TRY(o->backend->optim[o->kind](&args));
    }
    return ERR_OK;
}

err_t optim_step(optim_t *o, const optim_step_t *step)
{
    TRY(measure_norms(o, step));
    if (needs_norms(o) && !o->norms.device && !isfinite(o->gradient_norm)) return ERR_OK;
    for (int64_t p = 0; p < o->n_pieces; p++)
        TRY(o->spans.device ? update_on_device(o, step, &o->pieces[p])
                            : update_ranges(o, step, &o->pieces[p]));
    return ERR_OK;
}

err_t optim_finish(optim_t *o, int64_t step)
{
    if (!needs_norms(o)) return ERR_OK;
    if (o->norms.device) {
        const double *norms = host_norms(o, step);
        o->gradient_norm = norms[OPTIM_NORM];
        o->gradient_scale = norms[OPTIM_SCALE];
    }
    if (!isfinite(o->gradient_norm))
        RAISE(ERR_GATE,
              "the gradient is not finite at step %lld: lower --lr or add --warmup, and check the data",
              (long long)step);
    return ERR_OK;
}

err_t optim_swap_average(optim_t *o, float *weights)
{
    if (!o->average) return ERR_OK;
    for (int64_t p = 0; p < o->n_pieces; p++) {
        const optim_piece_t *piece = &o->pieces[p];
        float *weight = weights + piece->first, *average = flat_of(o->average) + piece->at;
        if (o->backend->swap) TRY(o->backend->swap(weight, average, piece->n));
        for (int64_t i = 0; !o->backend->swap && i < piece->n; i++) {
            const float kept = weight[i];
            weight[i] = average[i];
            average[i] = kept;
        }
    }
    return ERR_OK;
}

float *optim_state_at(const optim_t *o, int buffer, int64_t at)
{
    const optim_piece_t *piece = piece_of(o, at);
    return (float *)o->buffers[buffer].flat.host + piece->at + at - piece->first;
}

err_t optim_pull(const optim_t *o)
{
    for (int i = 0; i < o->n_buffers; i++) TRY(hd_buffer_pull_all(&o->buffers[i].flat));
    return ERR_OK;
}

err_t optim_push(const optim_t *o)
{
    for (int i = 0; i < o->n_buffers; i++) TRY(hd_buffer_push_all(&o->buffers[i].flat));
    return ERR_OK;
}
