/* SPDX-License-Identifier: MIT */
/* Chooses the records that count, and checks that they belong together. Fitting is left to fit.c. */
#include "tools/forecast/measured.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/records/fields.h"

static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool has_profile(const report_run_t *run)
{
    return run->train && run->train->profile && run->train->setting;
}

bool measured_has(const report_t *report, const char *model)
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (has_profile(run) && same_text(run->train->model, model)) return true;
    return false;
}

static err_t find_run(const report_t *report, const char *model, const report_run_t **out)
{
    const bool any = model && !measured_has(report, model);
    const report_run_t *found = NULL;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        if (!has_profile(run) || (model && !any && !same_text(run->train->model, model))) continue;
        if (found && !model && !same_text(found->train->model, run->train->model))
            RAISE(ERR_USAGE, "the records have profiles of %s and %s: choose one with --model",
                  found->train->model, run->train->model);
        /* Of several runs, the one with the most ranks, then the last. */
        if (!found || run->train->ranks >= found->train->ranks) found = run;
    }
    if (!found)
        RAISE(
            ERR_DATA,
            "no layer times: the records have no profile of a training run; train at least 50 steps on one host, to "
            "the end, and give its metrics.jsonl");
    *out = found;
    return ERR_OK;
}

static const char *field_text(report_fields_t fields, const char *name)
{
    const report_field_t *field = fields_find(fields, name);
    return field && field->text ? field->text : "";
}

static double field_number(report_fields_t fields, const char *name)
{
    const report_field_t *field = fields_find(fields, name);
    return field && field->kind == FIELD_NUMBER ? field->number : NAN;
}

static bool is_allreduce(const report_group_t *group)
{
    return strcmp(group->case_name, "comm") == 0 && strcmp(group->test, "all_reduce") == 0;
}

static bool has_allreduce(const report_run_t *run)
{
    for (const report_group_t *group = run->groups; group; group = group->next)
        if (is_allreduce(group)) return true;
    return false;
}

/* Training runs do not record their hardware: their backend, which names the instruction set, and device. */
static err_t check_machines(const report_t *report, const report_run_t *train)
{
    const report_run_t *first = NULL;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        if (run->train || !has_allreduce(run)) continue;
        if (first && !same_text(first->hardware_id, run->hardware_id))
            RAISE(
                ERR_DATA,
                "records of different machines: %s and %s have the hardware ids %s and %s; give those of one",
                report->files[first->file].name, report->files[run->file].name, first->hardware_id,
                run->hardware_id);
        first = run;
        const char *backend = field_text(run->software, "backend"),
                   *trained = field_text(train->software, "backend"),
                   *device = field_text(run->hardware, "device");
        if (backend[0] && trained[0] && strcmp(backend, trained) != 0)
            RAISE(ERR_DATA, "records of different machines: %s trained with %s, %s measured with %s",
                  report->files[train->file].name, trained, report->files[run->file].name, backend);
        /* Gradients of GPUs that host memory sums are measured on the CPU. */
        if (strcmp(device, "cuda") == 0 && !same_text(train->train->device, "cuda"))
            RAISE(ERR_DATA, "records of different machines: %s trained on the %s, %s measured GPUs",
                  report->files[train->file].name, train->train->device, report->files[run->file].name);
    }
    return ERR_OK;
}

/* The communicator that sums this run's gradients, as bench comm names it. */
static const char *communicator_of(const report_train_t *train)
{
    const report_setting_t *s = train->setting;
    if (same_text(s->comm, "nccl")) return "nccl";
    return same_text(s->gradients, "host") ? "host" : "mpi";
}

/* Points of all_reduce in float. */
typedef struct selection {
    const char *communicator;
    double ranks_per_host;         /* 0: not chosen yet */
    fit_point_t *between, *within; /* several hosts; one */
    int n_between, n_within, n_disturbed, n_without_error;
} selection_t;

/* *error: NAN if there were too few samples for an interval. */
static double point_sec(const report_point_t *point, double *error)
{
    const report_timing_t *t = point->timing;
    if (!t || !(t->p50 > 0)) return NAN;
    /* Half of the 95 % interval is 1.96 standard errors. */
    *error = (t->ci_high - t->ci_low) / 2 / 1.96 / t->p50;
    return t->p50;
}

static err_t add_point(selection_t *s, const report_point_t *point)
{
    fit_point_t fit = {.n_hosts = field_number(point->key, "hosts"),
                       .n_bytes = field_number(point->key, "bytes")};
    fit.sec = point_sec(point, &fit.error);
    if (!isfinite(fit.n_hosts) || !(fit.n_bytes > 0) || !isfinite(fit.sec)) return ERR_OK;
    if (!isfinite(fit.error)) {
        s->n_without_error += fit.n_hosts > 1;
        fit.error = MEASURED_ASSUMED_ERROR;
    }
    fit_point_t **list = fit.n_hosts > 1 ? &s->between : &s->within;
    int *n = fit.n_hosts > 1 ? &s->n_between : &s->n_within;
    TRY(mem_grow(*n + 1, sizeof **list, "points of an allreduce", list));
    (*list)[(*n)++] = fit;
    s->n_disturbed += fit.n_hosts > 1 && same_text(point->timing->verdict, "disturbed");
    return ERR_OK;
}

/* Gradients are summed in place; points out of place count where there are none. */
static bool in_place(const report_run_t *run, const report_point_t *point)
{
    const char *own = field_text(point->key, "in_place");
    if (strcmp(own, "yes") == 0) return true;
    for (const report_group_t *group = run->groups; group; group = group->next)
        for (const report_point_t *at = is_allreduce(group) ? group->first : NULL; at; at = at->next)
            if (strcmp(field_text(at->key, "in_place"), "yes") == 0) return false;
    return true;
}

/* Calls `take` for the points that count. */
static err_t each_point(const report_t *report, selection_t *s,
                        err_t (*take)(selection_t *s, const report_point_t *point))
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->train ? NULL : run->groups; group; group = group->next)
            for (const report_point_t *p = is_allreduce(group) ? group->first : NULL; p; p = p->next) {
                const char *type = field_text(p->key, "datatype");
                const double per_host = field_number(p->key, "ranks") / field_number(p->key, "hosts");
                if (strcmp(type, "float") != 0 || !in_place(run, p)) continue;
                if (s->communicator && strcmp(field_text(p->key, "communicator"), s->communicator) != 0)
                    continue;
                if (s->ranks_per_host > 0 && per_host != s->ranks_per_host) continue;
                TRY(take(s, p));
            }
    return ERR_OK;
}

/* Points between hosts decide: those of the communicator that trains, or of the first other one. */
static err_t choose_kind(selection_t *s, const report_point_t *point)
{
    const double hosts = field_number(point->key, "hosts");
    if (!(hosts > 1) || s->ranks_per_host > 0) return ERR_OK;
    s->ranks_per_host = field_number(point->key, "ranks") / hosts;
    s->communicator = field_text(point->key, "communicator");
    return ERR_OK;
}

static err_t find_points(const report_t *report, const report_train_t *train, selection_t *s)
{
    s->communicator = communicator_of(train);
    TRY(each_point(report, s, choose_kind));
    if (s->ranks_per_host == 0) {
        s->communicator = NULL;
        TRY(each_point(report, s, choose_kind));
    }
    if (s->ranks_per_host == 0)
        RAISE(
            ERR_DATA,
            "no measurement of the network: the records have no all_reduce between hosts; on 2 hosts or more: mpirun "
            "-hostfile hosts dptrain bench comm --test all_reduce -b 1K -e 256M -f 4");
    return each_point(report, s, add_point);
}

/* Time per byte among the ranks of a host: of the largest message; takes it off the points between hosts. */
static void split_host(selection_t *s, measured_t *out)
{
    const fit_point_t *largest = NULL;
    for (int i = 0; i < s->n_within; i++)
        if (!largest || s->within[i].n_bytes > largest->n_bytes) largest = &s->within[i];
    out->host_in_fit = s->ranks_per_host > 1 && !largest;
    if (s->ranks_per_host <= 1 || !largest) return;
    out->host_byte_sec = largest->sec / largest->n_bytes;
    for (int i = 0; i < s->n_between; i++) {
        fit_point_t *p = &s->between[i];
        p->sec = fmax(p->sec - p->n_bytes * out->host_byte_sec, 0.05 * p->sec);
    }
}

static double line_gbps(const report_t *report)
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->groups; group; group = group->next)
            for (const report_point_t *p = is_allreduce(group) ? group->first : NULL; p; p = p->next) {
                const double rate = field_number(p->metrics, "line_rate_gbs");
                if (rate > 0 && field_number(p->key, "hosts") > 1) return 8 * rate;
            }
    return 0;
}

/* At most MEASURED_MAX_SAMPLES quantiles, the largest among them. */
static err_t keep_sorted(arena_t *arena, double *sec, int64_t n, measured_t *out)
{
    double *kept;
    const int64_t n_kept = n < MEASURED_MAX_SAMPLES ? n : MEASURED_MAX_SAMPLES;
    stats_sort(sec, n);
    TRY(arena_new(arena, (size_t)n_kept * sizeof *kept, &kept));
    for (int64_t i = 0; i < n_kept; i++)
        kept[i] = n_kept == n ? sec[i] : sec[n - 1 - (n_kept - 1 - i) * (n - 1) / (n_kept - 1)];
    out->samples = kept;
    out->n_samples = n_kept;
    out->n_recorded = n;
    return ERR_OK;
}

static err_t find_samples(const report_train_t *train, arena_t *arena, measured_t *out)
{
    const report_profile_t *profile = train->profile;
    const report_samples_t *samples = train->samples;
    double *sec = NULL;
    int64_t n = 0;
    out->of_every_rank = profile->n_rank_samples > 0 || train->ranks == 1;
    const int64_t n_most = profile->n_rank_samples > 0 ? profile->n_rank_samples : samples ? samples->n : 0;
    TRY(mem_new_array(n_most + 1, sizeof *sec, "times of steps", &sec));
    for (int64_t i = 0; i < n_most; i++) {
        if (profile->n_rank_samples > 0)
            sec[n++] = profile->rank_samples[i];
        else if (samples[STEP_TOTAL].sec[i] - samples[STEP_COMM].sec[i] > 0)
            sec[n++] = samples[STEP_TOTAL].sec[i] - samples[STEP_COMM].sec[i];
    }
    err_t err = ERR_OK;
    if (n >= MEASURED_MIN_SAMPLES)
        err = keep_sorted(arena, sec, n, out);
    else
        err = err_raise(
            ERR_DATA, __FILE__, __LINE__,
            "%lld timed step%s of %s: the slowest of many ranks cannot be told from fewer than %d; train "
            "at least 50 steps (the first 10 do not count)",
            (long long)n, n == 1 ? "" : "s", train->model, MEASURED_MIN_SAMPLES);
    mem_free(&sec);
    return err;
}

err_t measured_find(const report_t *report, const char *model, arena_t *arena, measured_t *out)
{
    selection_t s = {0};
    err_t err = ERR_OK;
    *out = (measured_t){0};
    TRY(find_run(report, model, &out->run));
    TRY(check_machines(report, out->run));
    TRY_OUT(err, find_points(report, out->run->train, &s));
    out->communicator = s.communicator;
    if (strcmp(s.communicator, communicator_of(out->run->train)) != 0)
        out->trained_with = communicator_of(out->run->train);
    out->ranks_per_host = s.ranks_per_host;
    out->line_gbps = line_gbps(report);
    out->n_disturbed = s.n_disturbed;
    out->n_without_error = s.n_without_error;
    split_host(&s, out);
    /* OpenMPI 4.1 halves and doubles from 8 KiB on 4 ranks and more, from 256 KiB on all (coll/tuned); NCCL begins with
     * rings. */
    const network_algorithm_t assumed = strcmp(s.communicator, "nccl") == 0 ? NETWORK_RING : NETWORK_TREE;
    TRY_OUT(err, fit_network(s.between, s.n_between, assumed, &out->fit));
    err = find_samples(out->run->train, arena, out);
out:
    mem_free(&s.between);
    mem_free(&s.within);
    return err;
}
