/* SPDX-License-Identifier: MIT */
/* `dptrain bench step`: a model's complete training step and its scaling. Arrangements: each rank alone,
 * 1 … N ranks with a constant batch per rank (weak), 1 … N ranks with a constant total batch (strong).
 * They alternate, so that efficiencies compare neighbours in time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "compute/models/model.h"
#include "tools/bench/cases.h"
#include "train/start/train.h"

typedef struct step_options {
    const char *model, *data, *precision, *algorithms, *stem;
    int64_t batch;
    double budget_sec;
    bool scaling, shard;
} step_options_t;

#define FIELD(name) offsetof(step_options_t, name)
static const opt_t step_table[] = {
    {"step-model", OPT_STRING, FIELD(model), "lenet5", 0, 0, NULL, "NAME", "model", OPT_COMMON},
    {"step-batch", OPT_INT, FIELD(batch), NULL, 1, 1 << 20, NULL, "N",
     "batch size per rank, in samples [64; on CPUs less for large models]", OPT_COMMON},
    {"step-data", OPT_STRING, FIELD(data), NULL, 0, 0, NULL, "DIR", "dataset, as in train's --data",
     OPT_COMMON},
    {"step-precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "precision of matrix products", OPT_MORE},
    {"step-stem", OPT_CHOICE, FIELD(stem), "auto", 0, 0, model_stems, NULL,
     "first layers of a ResNet, as in train's --stem", OPT_MORE},
    {"step-algorithms", OPT_STRING, FIELD(algorithms), "measure", 0, 0, NULL, "fixed|measure|FILE",
     "convolution algorithms, as in train's --algorithms", OPT_MORE},
    {"step-budget", OPT_REAL, FIELD(budget_sec), "0", 0, 86400, NULL, "SEC",
     "time per arrangement of ranks, in seconds; 0: as --budget", OPT_MORE},
    {"step-scaling", OPT_FLAG, FIELD(scaling), "true", 0, 0, NULL, NULL,
     "also measure fewer ranks, and each rank alone, to compute efficiencies", OPT_MORE},
    {"shard-optimizer", OPT_FLAG, FIELD(shard), "false", 0, 0, NULL, NULL,
     "share the optimizer's state out among the ranks, as train's --shard-optimizer", OPT_MORE},
};

typedef enum mode { ALONE, WEAK, STRONG } scaling_t;
static const char *const mode_names[] = {"alone", "weak", "strong"};

enum { N_PARTS = 5 };

/* One arrangement of ranks. */
typedef struct arrangement {
    scaling_t mode;
    int n_ranks;
    int64_t n_shares; /* batches of a rank in `batch` */
    int64_t batch;    /* of all its ranks; ALONE: of each rank */
    comm_t *comm;     /* NULL on ranks that do not participate */
    bool owns_comm;
    trial_t *trial;
    step_cost_t sums; /* of the steps, by this rank's clock */
    int64_t n_steps;
    double taken[N_PARTS]; /* sums at the previous take_parts */
    char what[64];
} arrangement_t;

enum { MAX_SIZES = 14, MAX_ARRANGEMENTS = 2 * MAX_SIZES + 1 };

typedef struct step_bench {
    bench_t *bench;
    const step_options_t *options;
    arrangement_t list[MAX_ARRANGEMENTS];
    bench_result_t results[MAX_ARRANGEMENTS];
    int n;
    int64_t batch; /* of a rank; 0: chosen with the first arrangement */
} step_bench_t;

static const char *const part_names[] = {"data", "forward", "backward", "allreduce", "optimizer"};

static void take_parts(void *context, double *sec)
{
    arrangement_t *a = context;
    const double now[] = {a->sums.data, a->sums.forward, a->sums.backward, a->sums.comm, a->sums.optimizer};
    for (int part = 0; part < N_PARTS; part++) {
        sec[part] = now[part] - a->taken[part];
        a->taken[part] = now[part];
    }
}

static err_t run_step(void *context)
{
    arrangement_t *a = context;
    step_cost_t cost;
    TRY(trial_step(a->trial, &cost));
    a->sums.data += cost.data;
    a->sums.forward += cost.forward;
    a->sums.backward += cost.backward;
    a->sums.comm += cost.comm;
    a->sums.optimizer += cost.optimizer;
    a->sums.total += cost.total;
    a->n_steps++;
    return ERR_OK;
}

static void add_arrangement(step_bench_t *s, scaling_t mode, int n_ranks, int64_t n_shares)
{
    arrangement_t *a = &s->list[s->n++];
    *a = (arrangement_t){.mode = mode, .n_ranks = n_ranks, .n_shares = n_shares};
    snprintf(a->what, sizeof a->what, "step of %s, %s, %d rank%s", s->options->model, mode_names[mode],
             n_ranks, n_ranks > 1 ? "s" : "");
}

/* Collective. Opens the communicator of the arrangement's ranks and a trial on it. */
static err_t open_arrangement(step_bench_t *s, arrangement_t *a)
{
    bench_t *bench = s->bench;
    const step_options_t *o = s->options;
    err_t err = ERR_OK;
    a->owns_comm = a->mode == ALONE || a->n_ranks < bench->comm->size;
    if (!a->owns_comm)
        a->comm = bench->comm;
    else if (a->mode == ALONE)
        err = comm_agree(bench->comm, comm_alone(&a->comm), "preparing a trial");
    else
        err = comm_subset(bench->comm, a->n_ranks, &a->comm);
    TRY(err);
    a->batch = a->n_shares * s->batch;
    trial_options_t options = {.model = o->model,
                               .data = o->data,
                               .precision = o->precision,
                               .algorithms = o->algorithms,
                               .stem = o->stem,
                               .shard = o->shard,
                               .batch = a->batch,
                               .timeout_sec = bench->options->runtime.timeout_sec};
    if (a->comm) err = trial_open(&options, &bench->runtime, a->comm, &a->trial);
    /* The others sleep meanwhile. */
    TRY(comm_barrier_asleep(bench->comm, "preparing a trial"));
    TRY(comm_agree(bench->comm, err, "preparing a trial"));
    /* Collective. The batch that the first trial has chosen; rank 0 takes part in it. */
    if (!s->batch) {
        if (a->trial) s->batch = trial_batch(a->trial) / a->n_shares;
        TRY(comm_broadcast(s->bench->comm, &s->batch, sizeof s->batch, 0, "preparing a trial"));
        a->batch = a->n_shares * s->batch;
    }
    TRY(bench_check_stop(bench));
    if (a->comm) TRY(trial_warm_up(a->trial));
    return comm_barrier_asleep(bench->comm, "preparing a trial");
}

/* Images per second at the median time, over all ranks. */
static double rate_of(const arrangement_t *a, const bench_result_t *r)
{
    return (double)a->batch * (a->mode == ALONE ? a->n_ranks : 1) / r->p50;
}

/* Median of the samples of one batch of the protocol; NaN if none count. */
static double batch_median(const bench_result_t *r, int batch, double *scratch)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->batch[i] == batch) scratch[n++] = r->sec[i];
    return stats_median(scratch, n);
}

typedef struct ratio {
    double low, median, high; /* quartiles over the batches that both have; NaN: none in common */
} ratio_t;

/* scale · base's step time / r's, batch by batch. */
static ratio_t ratio_of(const bench_result_t *base, const bench_result_t *r, double scale)
{
    double scratch[BENCH_MAX_SAMPLES], ratios[BENCH_MAX_SAMPLES];
    int64_t n = 0;
    int last = r->n > 0 ? r->batch[r->n - 1] : -1;
    for (int i = 0; i <= last && n < BENCH_MAX_SAMPLES; i++) {
        double ratio = scale * batch_median(base, i, scratch) / batch_median(r, i, scratch);
        if (isfinite(ratio)) ratios[n++] = ratio;
    }
    stats_sort(ratios, n);
    return (ratio_t){stats_quantile(ratios, n, 0.25), stats_quantile(ratios, n, 0.5),
                     stats_quantile(ratios, n, 0.75)};
}

/* Index of an arrangement in the list; -1: not in it. */
static int find_arrangement(const step_bench_t *s, scaling_t mode, int n_ranks)
{
    int size = s->bench->comm->size;
    for (int i = 0; i < s->n; i++)
        if (s->list[i].mode == mode && s->list[i].n_ranks == n_ranks) return i;
    /* With all ranks, weak and strong are the same. */
    return mode == STRONG && n_ranks == size && size > 1 ? find_arrangement(s, WEAK, size) : -1;
}

/* weak: time of one rank / time. strong: time of one rank / (ranks · time). alone: time of ranks that do not
 * communicate / time of all ranks together. */
static ratio_t efficiency_of(const step_bench_t *s, scaling_t mode, int n_ranks)
{
    const bench_result_t *r = &s->results[find_arrangement(s, mode, n_ranks)];
    if (mode == ALONE) return ratio_of(r, &s->results[find_arrangement(s, WEAK, n_ranks)], 1);
    int base = find_arrangement(s, mode, 1);
    if (base < 0) return (ratio_t){NAN, NAN, NAN};
    return ratio_of(&s->results[base], r, mode == STRONG ? 1.0 / n_ranks : 1);
}

static err_t step_report_row(step_bench_t *s, scaling_t mode, int n_ranks, table_t *table)
{
    const arrangement_t *a = &s->list[find_arrangement(s, mode, n_ranks)];
    const bench_result_t *r = &s->results[a - s->list];
    step_cost_t cost;
    ratio_t e = efficiency_of(s, mode, n_ranks);
    /* Mean seconds of each part of a step over the arrangement's ranks. */
    double n = a->n_steps > 0 ? (double)a->n_steps * a->n_ranks : 1;
    double v[] = {a->sums.data, a->sums.forward,   a->sums.backward,
                  a->sums.comm, a->sums.optimizer, a->sums.total};
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) v[i] /= n;
    TRY(comm_allreduce(s->bench->comm, v, sizeof v / sizeof v[0], DTYPE_F64, COMM_SUM, "gathering costs"));
    cost = (step_cost_t){
        .data = v[0], .forward = v[1], .backward = v[2], .comm = v[3], .optimizer = v[4], .total = v[5]};
    table_cell(table, "%s", mode_names[mode]);
    table_cell(table, "%d", a->n_ranks);
    table_cell(table, "%lld", (long long)a->batch);
    table_cell(table, "%.3f%-1s", 1e3 * r->p50, bench_mark(r));
    table_cell(table, "%.0f", rate_of(a, r));
    table_cell(table, "%.1f", 100 * (cost.forward + cost.backward) / cost.total);
    table_cell(table, "%.1f", 100 * cost.comm / cost.total);
    table_cell(table, "%.1f", 100 * cost.optimizer / cost.total);
    table_cell(table, "%.1f", 100 * cost.data / cost.total);
    table_cell(table, isfinite(e.median) ? "%.3f (%.3f–%.3f)" : "-", e.median, e.low, e.high);
    json_t *j = bench_record_begin(s->bench, "step", mode_names[mode]);
    if (j) {
        json_string(j, "model", s->options->model);
        /* The default is left out: it is what earlier recordings measured. */
        if (model_stem(s->options->stem) != MODEL_STEM_AUTO) json_string(j, "stem", s->options->stem);
        const dataset_info_t *data = trial_data(s->list[0].trial);
        json_string(j, "data", data->kind);
        json_string(j, "data_xxh3", dataset_hash(data).text);
        json_string(j, "precision", s->options->precision);
        if (s->options->shard) json_bool(j, "shard_optimizer", true);
        json_int(j, "ranks", a->n_ranks);
        json_int(j, "batch", a->batch);
    }
    bench_record_metrics(s->bench);
    if (j) {
        json_real(j, "images_per_sec", rate_of(a, r));
        json_real(j, "efficiency", e.median);
        json_real(j, "efficiency_low", e.low);
        json_real(j, "efficiency_high", e.high);
        json_real(j, "data_wait_share", cost.data / cost.total);
        json_real(j, "compute_share", (cost.forward + cost.backward) / cost.total);
        json_real(j, "exposed_comm_share", cost.comm / cost.total);
        json_real(j, "optimizer_share", cost.optimizer / cost.total);
    }
    return bench_record_end(s->bench, r);
}

static err_t step_report(step_bench_t *s)
{
    int size = s->bench->comm->size;
    table_t table = {.columns = {{"scaling", true},
                                 {"ranks"},
                                 {"batch"},
                                 {"step", .unit = "ms "},
                                 {"images/s"},
                                 {"compute", .unit = "%"},
                                 {"exposed comm", .unit = "%"},
                                 {"optimizer", .unit = "%"},
                                 {"data wait", .unit = "%"},
                                 {"efficiency (quartiles)", true}},
                     .n_columns = 10};
    bool scaled = size > 1 && s->options->scaling;
    err_t err = ERR_OK;
    bench_print("step: %s, %s, %lld samples per rank, %s", s->options->model, s->options->precision,
                (long long)s->batch, s->bench->comm->rank == 0 ? trial_data(s->list[0].trial)->source : "");
    for (int i = 0; i < s->n && err == ERR_OK; i++)
        err = step_report_row(s, s->list[i].mode, s->list[i].n_ranks, &table);
    if (err == ERR_OK && scaled) err = step_report_row(s, STRONG, size, &table);
    if (err == ERR_OK) table_log(&table);
    for (int i = 0; i < s->n && err == ERR_OK; i++) {
        const arrangement_t *a = &s->list[i];
        const bench_result_t *r = &s->results[i];
        if (r->disturbed)
            bench_print("%s, %d rank%s", mode_names[a->mode], a->n_ranks, a->n_ranks > 1 ? "s" : "");
        bench_print_best(r, 1, rate_of(a, r), "images/s");
    }
    table_free(&table);
    if (err != ERR_OK || !scaled) return err;
    bench_print("weak: time of 1 rank / time; strong: time of 1 rank / (ranks x time); alone: time of "
                "each rank alone, without allreduce / time of %d ranks",
                size);
    return ERR_OK;
}

static err_t measure_arrangements(step_bench_t *s)
{
    bench_work_t works[MAX_ARRANGEMENTS];
    for (int i = 0; i < s->n; i++) TRY(open_arrangement(s, &s->list[i]));
    for (int i = 0; i < s->n; i++)
        works[i] = (bench_work_t){.what = s->list[i].what,
                                  .context = &s->list[i],
                                  .run = run_step,
                                  .n_ranks = s->list[i].n_ranks,
                                  .parts = {N_PARTS, part_names, take_parts},
                                  .budget_sec = s->options->budget_sec};
    TRY(bench_measure(s->bench, works, s->n, s->results));
    return step_report(s);
}

static err_t step_check_options(void *options)
{
    const step_options_t *o = options;
    return model_stem(o->stem) == MODEL_STEM_AUTO ? ERR_OK : model_check_residual(o->model, "step-stem");
}

static err_t step_run(bench_t *bench, const void *options)
{
    step_bench_t *s;
    TRY(comm_agree(bench->comm, mem_new(sizeof *s, "training steps", &s), "preparing steps"));
    s->bench = bench;
    s->options = options;
    s->batch = s->options->batch;
    /* Sizes 1, 2, 4, … and all ranks. With all ranks, weak and strong are the same. */
    int size = s->bench->comm->size;
    for (int n = 1; n < size && s->options->scaling; n *= 2) add_arrangement(s, WEAK, n, n);
    add_arrangement(s, WEAK, size, size);
    if (size != 1 && s->options->scaling) {
        add_arrangement(s, ALONE, size, 1);
        for (int n = 1; n < size; n *= 2) add_arrangement(s, STRONG, n, size);
    }
    err_t err = measure_arrangements(s);
    runtime_abort_alone(&bench->runtime, err);
    for (int i = s->n - 1; i >= 0; i--) {
        arrangement_t *a = &s->list[i];
        trial_close(&a->trial);
        if (a->owns_comm) comm_close(&a->comm);
        bench_result_free(&s->results[i]);
    }
    mem_free(&s);
    return err;
}

const bench_case_t bench_step = {.name = "step",
                                 .summary =
                                     "a model's whole training step, and how it scales from 1 to N ranks",
                                 .table = step_table,
                                 .n_options = sizeof step_table / sizeof step_table[0],
                                 .n_options_bytes = sizeof(step_options_t),
                                 .check = step_check_options,
                                 .run = step_run};
