/* SPDX-License-Identifier: MIT */
/* From records and options to a forecast: says of every input where it comes from. The mathematics is in network.c,
 * fit.c, slowest.c, step.c, point.c and job.c. */
#include "tools/forecast/forecast.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "tools/forecast/slowest.h"
#include "train/learn/bucket.h"

const char *const forecast_origin_names[] = {"measured", "given", "assumed", NULL};

/* While a forecast is made. */
typedef struct making {
    const report_t *report;
    const forecast_options_t *o;
    forecast_t *out;
    measured_t measured;
    layers_t layers;
    forecast_base_t base;
    job_t job;
    err_t status; /* of the texts */
} making_t;

__attribute__((format(printf, 5, 6))) static void
add_input(making_t *m, const char *name, forecast_origin_t origin, const char *from, const char *format, ...)
{
    va_list args;
    forecast_input_t *input = &m->out->inputs[m->out->n_inputs++];
    ASSERT(m->out->n_inputs <= FORECAST_MAX_INPUTS);
    *input = (forecast_input_t){.name = name, .origin = origin, .value = ""};
    va_start(args, format);
    if (m->status == ERR_OK) m->status = arena_vformat(&m->out->arena, &input->value, format, args);
    va_end(args);
    if (m->status == ERR_OK) m->status = arena_text(&m->out->arena, from, strlen(from), &input->from);
}

static void add_note(making_t *m, const char *note)
{
    ASSERT(m->out->n_notes < FORECAST_MAX_NOTES);
    m->out->notes[m->out->n_notes++] = note;
}

/* "2,16,128": ascending is not required. */
static err_t parse_list(const char *key, const char *text, double least, bool whole, int n_most, double *out,
                        int *n)
{
    for (*n = 0; *text; (*n)++) {
        char *end;
        const double value = strtod(text, &end);
        if (*n == n_most) RAISE(ERR_USAGE, "--%s: at most %d values", key, n_most);
        if (end == text || (*end && *end != ',') || (*end == ',' && !end[1]) || !isfinite(value) ||
            value < least || value > 1e6 || (whole && value != floor(value)))
            RAISE(ERR_USAGE, "invalid --%s '%s': expected a comma-separated list such as %s", key, text,
                  whole ? "2,16,128" : "25,100,400");
        out[*n] = value;
        text = *end ? end + 1 : end;
    }
    return ERR_OK;
}

static const char *file_of(const making_t *m, const report_run_t *run)
{
    return m->report->files[run->file].name;
}

static double per_rank_batch(const report_train_t *train)
{
    return train->global_batch / train->ranks;
}

/* Multiply-adds per second that the measured model reached, for one that was not measured. */
static err_t find_flops(making_t *m, double *flops)
{
    const report_run_t *run = m->measured.run;
    layers_t measured;
    if (m->o->gflops > 0) {
        *flops = 1e9 * m->o->gflops;
        add_input(m, "arithmetic", ORIGIN_GIVEN, "--gflops", "%.4g GFLOP/s per rank", m->o->gflops);
        return ERR_OK;
    }
    TRY(layers_measured(run->train, &m->out->arena, &measured));
    *flops = measured.n_flops * per_rank_batch(run->train) / (measured.forward_sec + measured.backward_sec);
    add_input(m, "arithmetic", ORIGIN_ASSUMED, file_of(m, run), "%.4g GFLOP/s per rank, as %s reached",
              1e-9 * *flops, run->train->model);
    return ERR_OK;
}

/* A phase of the measured step at another batch. */
static void scale_layers(making_t *m, double factor)
{
    step_layer_t *at = (step_layer_t *)(uintptr_t)m->layers.at; /* made by layers.c for this forecast */
    for (int i = 0; i < m->layers.n; i++) at[i].backward_sec *= factor;
    m->layers.forward_sec *= factor;
    m->layers.backward_sec *= factor;
}

static err_t take_measured_times(making_t *m)
{
    const report_run_t *run = m->measured.run;
    const report_profile_t *p = run->train->profile;
    const double batch = per_rank_batch(run->train);
    TRY(layers_measured(run->train, &m->out->arena, &m->layers));
    add_input(m, "layer times", ORIGIN_MEASURED, file_of(m, run), "%s, %d layers, %.0f steps of %.0f rank%s",
              m->out->model, p->n_layers, p->steps, p->ranks, p->ranks > 1 ? "s" : "");
    m->base.batch = batch;
    const bool given = m->o->batch > 0 && (double)m->o->batch != batch;
    if (given) {
        m->base.batch = (double)m->o->batch;
        m->base.assumed_times = true;
        scale_layers(m, m->base.batch / batch);
        add_note(m, "the times of passes are assumed to grow with --batch in proportion");
    }
    add_input(m, "batch", given ? ORIGIN_GIVEN : ORIGIN_MEASURED, given ? "--batch" : file_of(m, run),
              "%.4g samples per rank", m->base.batch);
    const double data = given ? p->data_wait_sec * m->base.batch / batch : p->data_wait_sec;
    m->base.model.before_sec = data + m->layers.forward_sec;
    m->base.model.after_sec = p->optimizer_sec + fmax(p->other_sec, 0);
    return ERR_OK;
}

static err_t take_assumed_times(making_t *m)
{
    const report_train_t *train = m->measured.run->train;
    double flops;
    TRY(find_flops(m, &flops));
    m->base.batch = m->o->batch > 0 ? (double)m->o->batch : per_rank_batch(train);
    TRY(layers_assumed(m->out->model, m->o->input_size, m->base.batch, flops, &m->out->arena, &m->layers));
    m->base.assumed_times = true;
    add_input(m, "layer times", ORIGIN_ASSUMED, "multiply-adds",
              "%s was not measured: %d layers by their multiply-adds", m->out->model, m->layers.n);
    add_input(m, "batch", m->o->batch > 0 ? ORIGIN_GIVEN : ORIGIN_ASSUMED,
              m->o->batch > 0 ? "--batch" : file_of(m, m->measured.run), "%.4g samples per rank",
              m->base.batch);
    m->base.model.before_sec = m->layers.forward_sec;
    m->base.model.after_sec =
        train->profile->optimizer_sec * (double)m->layers.n_parameters / train->n_parameters;
    return ERR_OK;
}

/* The step of a rank, and how it varies. */
static err_t take_spread(making_t *m)
{
    const measured_t *measured = &m->measured;
    double *spread;
    TRY(arena_new(&m->out->arena, (size_t)measured->n_samples * sizeof *spread, &spread));
    const double mean = slowest_mean(measured->samples, measured->n_samples, 1);
    for (int64_t i = 0; i < measured->n_samples; i++) spread[i] = measured->samples[i] / mean;
    m->base.model.spread = spread;
    m->base.model.n_spread = measured->n_samples;
    const bool same = strcmp(measured->run->train->model, m->out->model) == 0;
    add_input(m, "spread of steps", same ? ORIGIN_MEASURED : ORIGIN_ASSUMED, file_of(m, measured->run),
              "%lld steps of %s%s, the slowest %.3g times the mean", (long long)measured->n_recorded,
              measured->of_every_rank ? "every rank" : "rank 0", same ? "" : " with another model",
              spread[measured->n_samples - 1]);
    if (!measured->of_every_rank)
        add_note(m, "only rank 0's steps were recorded: hosts that differ from one another are not seen");
    if (measured->n_recorded < MEASURED_FEW_SAMPLES)
        add_note(m, "fewer than 100 steps: the slowest of many ranks may be slower than any of them");
    return ERR_OK;
}

static void take_network(making_t *m)
{
    const measured_t *measured = &m->measured;
    fit_t *fit = &m->base.fit;
    *fit = measured->fit;
    for (int r = 0; r < fit->network.n_ranges; r++) {
        const network_range_t *range = &fit->network.range[r];
        double alpha[2], rate[2];
        char upto[96] = "";
        fit_interval(fit, r, alpha, rate);
        if (r < fit->network.n_ranges - 1)
            snprintf(upto, sizeof upto, ", messages up to %s", figure_bytes(range->max_bytes).text);
        if (fit->refused_alpha_sec < 0)
            add_input(m, "latency", ORIGIN_ASSUMED, "bench comm",
                      "0 s, at most %s: the fitted one is below zero (%.3g us), smaller messages would tell",
                      figure_time(alpha[1]).text, 1e6 * fit->refused_alpha_sec);
        else
            add_input(m, "latency", ORIGIN_MEASURED, "bench comm", "%s (90 %%: %s to %s)%s",
                      figure_time(range->alpha_sec).text, figure_time(alpha[0]).text,
                      figure_time(alpha[1]).text, upto);
        add_input(m, "bandwidth", ORIGIN_MEASURED, "bench comm", "%.4g Gbit/s (90 %%: %.4g to %.4g)%s",
                  8e-9 / range->byte_sec, 8e-9 * rate[0], 8e-9 * rate[1], upto);
    }
    add_input(m, "measured hosts", ORIGIN_MEASURED, "bench comm",
              "%.0f, %.4g rank%s each, %s, %d points, error %.2g %%", fit->max_hosts,
              measured->ranks_per_host, measured->ranks_per_host > 1 ? "s" : "", measured->communicator,
              fit->n_points, 100 * fit->residual);
    if (measured->n_without_error > 0)
        add_input(m, "error of points", ORIGIN_ASSUMED, "bench comm",
                  "%.0f %% for %d of %d points: too few samples to tell", 100 * MEASURED_ASSUMED_ERROR,
                  measured->n_without_error, fit->n_points);
    if (m->o->algorithm && strcmp(m->o->algorithm, "auto") != 0) {
        fit->network.algorithm = strcmp(m->o->algorithm, "ring") == 0 ? NETWORK_RING : NETWORK_TREE;
        fit->algorithm_measured = true;
        add_input(m, "algorithm", ORIGIN_GIVEN, "--algorithm", "%s", m->o->algorithm);
    } else {
        add_input(m, "algorithm", fit->algorithm_measured ? ORIGIN_MEASURED : ORIGIN_ASSUMED,
                  fit->algorithm_measured ? "bench comm" : measured->communicator, "%s",
                  network_algorithm_names[fit->network.algorithm]);
    }
    m->base.line_gbps = measured->line_gbps;
    m->base.ranks_per_host = measured->ranks_per_host;
    m->base.setting.host_byte_sec = measured->host_byte_sec;
    if (2 * measured->n_disturbed > fit->n_points)
        add_note(m, "other load disturbed most points of bench comm: repeat it on idle hosts");
    if (measured->host_in_fit)
        add_note(m, "no all_reduce on one host was measured: the sum among its ranks counts as network");
    if (measured->trained_with)
        add_note(
            m,
            "bench comm measured another communicator than the one that trained; choose it with --communicator");
}

/* When sums start, and how wide they are. */
static err_t take_buckets(making_t *m)
{
    const bool nccl = strcmp(m->measured.communicator, "nccl") == 0,
               bf16 = m->o->wire && strcmp(m->o->wire, "bf16") == 0;
    const bool what_if = !nccl && (bf16 || m->o->bucket_bytes > 0);
    const char *overlap = m->o->overlap ? m->o->overlap : "auto";
    step_setting_t *setting = &m->base.setting;
    setting->bytes_per_float = bf16 ? 2 : 4;
    setting->overlaps = strcmp(overlap, "auto") == 0 ? nccl || what_if : strcmp(overlap, "on") == 0;
    if (m->layers.is_detector) setting->overlaps = false;
    if (what_if)
        add_note(m, "--wire bf16 and --bucket are NCCL's: a run with the measured communicator ignores them");
    setting->bucket_floats = bucket_floats(m->o->bucket_bytes, m->layers.n_gradients);
    add_input(m, "gradients", m->o->wire ? ORIGIN_GIVEN : ORIGIN_MEASURED,
              m->o->wire ? "--wire" : "the model", "%s, %s",
              figure_bytes((double)m->layers.n_gradients * setting->bytes_per_float).text,
              bf16 ? "bf16" : "fp32");
    if (setting->overlaps)
        add_input(m, "buckets",
                  m->o->bucket_bytes > 0 ? ORIGIN_GIVEN
                  : nccl                 ? ORIGIN_MEASURED
                                         : ORIGIN_ASSUMED,
                  m->o->bucket_bytes > 0 ? "--bucket" : "train's rule", "%s, summed during backward",
                  figure_bytes(4.0 * (double)setting->bucket_floats).text);
    else
        add_input(m, "buckets", strcmp(overlap, "off") == 0 ? ORIGIN_GIVEN : ORIGIN_MEASURED,
                  strcmp(overlap, "off") == 0 ? "--overlap" : m->measured.communicator,
                  "one, summed after backward");
    return ERR_OK;
}

static err_t take_job(making_t *m)
{
    const report_run_t *run = m->measured.run;
    const report_setting_t *s = run->train->setting;
    const char *file = file_of(m, run);
    const double n_ranks = run->train->ranks;
    const double n_samples = m->o->samples > 0 ? (double)m->o->samples : s->n_train,
                 n_epochs = m->o->epochs > 0 ? m->o->epochs : s->epochs;
    if (!(n_samples > 0) || !(n_epochs > 0))
        RAISE(ERR_DATA, "--job: the run recorded no samples or epochs; give --samples and --epochs");
    m->job = (job_t){.n_samples = n_samples, .n_epochs = n_epochs, .batch = m->base.batch};
    add_input(m, "samples, epochs", m->o->samples > 0 || m->o->epochs > 0 ? ORIGIN_GIVEN : ORIGIN_MEASURED,
              m->o->samples > 0 || m->o->epochs > 0 ? "--samples, --epochs" : file, "%s, %.4g",
              figure_count((int64_t)n_samples).text, n_epochs);
    if (s->start_sec >= 0) {
        m->job.start_sec = s->start_sec;
        add_input(m, "start", ORIGIN_MEASURED, file, "%s on %.0f rank%s", figure_time(s->start_sec).text,
                  n_ranks, n_ranks > 1 ? "s" : "");
    } else {
        add_input(m, "start", ORIGIN_ASSUMED, file, "0 s: the run did not record it");
    }
    if (s->n_evals > 0) {
        m->job.eval_shared_sec = s->eval_sec / (double)s->n_evals * n_ranks;
        add_input(m, "evaluation", ORIGIN_MEASURED, file, "%s on %.0f rank%s, shared by all, one an epoch",
                  figure_time(s->eval_sec / (double)s->n_evals).text, n_ranks, n_ranks > 1 ? "s" : "");
    } else {
        add_input(m, "evaluation", ORIGIN_ASSUMED, file, "0 s: the run did not record one");
    }
    if (s->n_costs > 0) {
        m->job.checkpoint_sec = s->checkpoint_sec / (double)s->n_costs;
        add_input(m, "checkpoint", ORIGIN_MEASURED, file, "%s, one an epoch",
                  figure_time(m->job.checkpoint_sec).text);
    } else {
        add_input(m, "checkpoint", ORIGIN_ASSUMED, file, "0 s: the run did not record one");
    }
    return ERR_OK;
}

/* Options that change nothing are told, not ignored. */
static void note_idle(making_t *m)
{
    const forecast_options_t *o = m->o;
    if (!o->job && (o->epochs > 0 || o->samples > 0))
        add_note(m, "--epochs and --samples have no effect without --job");
    if (measured_has(m->report, m->out->model) && (o->gflops > 0 || o->input_size > 0))
        add_note(m,
                 "--gflops and --input-size have no effect: the model was trained, its times are measured");
}

static err_t make_points(making_t *m)
{
    double hosts[FORECAST_MAX_HOSTS], rates[FORECAST_MAX_RATES] = {NAN};
    int n_hosts, n_rates = 1;
    forecast_t *out = m->out;
    TRY(parse_list("hosts", m->o->hosts, 1, true, FORECAST_MAX_HOSTS, hosts, &n_hosts));
    if (m->o->rates) {
        TRY(parse_list("gbps", m->o->rates, 1e-6, false, FORECAST_MAX_RATES, rates, &n_rates));
        if (m->base.line_gbps > 0)
            add_input(m, "network", ORIGIN_GIVEN, "--gbps",
                      "%s Gbit/s: bandwidth in proportion to the measured ports' %.4g, the same latency",
                      m->o->rates, m->base.line_gbps);
        else
            add_input(m, "network", ORIGIN_GIVEN, "--gbps",
                      "%s Gbit/s: no port reported its rate, so all of it is bandwidth; the same latency",
                      m->o->rates);
    }
    if (n_hosts == 0)
        RAISE(ERR_USAGE, "invalid --hosts '': expected a comma-separated list such as 2,16,128");
    for (int r = 0; r < n_rates; r++)
        for (int h = 0; h < n_hosts; h++) {
            forecast_point_t *p = &out->points[out->n_points++];
            TRY(forecast_point(&m->base, hosts[h], rates[r], p));
            if (m->o->job)
                p->job = job_time(&m->job, p->n_ranks, p->step_sec, step_alone_sec(&m->base.model));
        }
    return ERR_OK;
}

err_t forecast_make(const report_t *report, const forecast_options_t *options, forecast_t *out)
{
    making_t m = {.report = report, .o = options, .out = out};
    out->options = options;
    TRY(measured_find(report, options->model, &out->arena, &m.measured));
    out->model = options->model ? options->model : m.measured.run->train->model;
    m.base.seed = options->seed;
    if (measured_has(report, out->model))
        TRY(take_measured_times(&m));
    else
        TRY(take_assumed_times(&m));
    m.base.model.layers = m.layers.at;
    m.base.model.n_layers = m.layers.n;
    m.base.model.n_gradients = m.layers.n_gradients;
    out->batch = m.base.batch;
    TRY(take_spread(&m));
    take_network(&m);
    TRY(take_buckets(&m));
    if (options->job) TRY(take_job(&m));
    note_idle(&m);
    TRY(make_points(&m));
    return m.status;
}

void forecast_free(forecast_t *forecast)
{
    arena_free(&forecast->arena);
}
