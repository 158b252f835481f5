/* SPDX-License-Identifier: MIT */
/* Implements algorithms_measure: times the algorithms of each layer and pass on scratch buffers, within a
 * time limit, the most expensive layers first, and enters the fastest in the table. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/graph/algorithms.h"
#include "compute/graph/needs.h"
#include "compute/graph/scratch.h"

enum { N_WARM_UP = 2, MIN_RUNS = 3, MAX_RUNS = 12 };
/* Time for the runs of one algorithm. A slower algorithm is timed twice only: the clock is accurate enough
 * then. */
static const double candidate_sec = 0.02;
/* Runs slower than this many times the best so far end the timing. The first run also pays for new pages; on a
 * GPU for kernels being loaded, so that it proves nothing. */
static const double hopeless_first = 6, hopeless = 2;
static const double advantage = 0.97; /* relative to the default's time, required to replace it */

/* An operator with passes that neither the table nor the cache decides. */
typedef struct job {
    const char *layer; /* the first with this operator */
    op_desc_t desc;
    bool training, open[OP_PASS_COUNT];
    double work; /* multiply-adds, over all such layers */
} job_t;

typedef struct measuring {
    const measure_options_t *options;
    algorithms_t *table;
    measure_result_t *result;
    double start;
    double longest_sec; /* longest run so far */
    scratch_t scratch;  /* of the current layer, created when its first pass is measured */
    bool has_scratch;
    job_t *jobs;
    int n_jobs;
} measuring_t;

static bool has_time(const measuring_t *m)
{
    if (m->options->stopped && m->options->stopped()) return false;
    return clock_sec() - m->start + m->longest_sec <= m->options->limit_sec;
}

/* *sec: the shortest of a few runs, as disturbances only make a run longer. *in_time: the limit was not
 * reached. */
static err_t time_runs(measuring_t *m, const op_t *op, op_pass_t pass, double best, double *sec,
                       bool *in_time)
{
    const backend_t *backend = op->backend;
    const double most_first = backend->device ? INFINITY : hopeless_first * best;
    err_t err = ERR_OK;
    char *workspace = NULL, *saved = NULL;
    double total = 0;
    *sec = INFINITY;
    TRY_OUT(err,
            backend_alloc(backend, op->n_workspace_bytes, "workspace for measuring algorithms", &workspace));
    TRY_OUT(err, backend_alloc(backend, op->n_saved_bytes, "buffers for measuring algorithms", &saved));
    for (int i = 0; i < N_WARM_UP + MAX_RUNS; i++) {
        if (!(*in_time = has_time(m))) break;
        double start = clock_sec();
        TRY_OUT(err, scratch_run(&m->scratch, op, pass, saved, workspace));
        TRY_OUT(err, backend_sync(backend));
        double one = clock_sec() - start;
        m->longest_sec = fmax(m->longest_sec, one);
        if (i > 0 && one < *sec) *sec = one;
        if ((i == 0 && one > most_first) || (i > 0 && *sec > hopeless * best)) break;
        if (i >= N_WARM_UP) total += one;
        if (i >= (one > candidate_sec ? N_WARM_UP : N_WARM_UP + MIN_RUNS - 1) && total > candidate_sec) break;
    }
out:
    backend_release(backend, &workspace);
    backend_release(backend, &saved);
    return err;
}

typedef struct candidates {
    const char *names[OP_MAX_ALGORITHMS];
    int n;
} candidates_t;

/* *name: the fastest of those that run; NULL if time ran out. */
static err_t choose_fastest(measuring_t *m, const op_desc_t *desc, op_pass_t pass, bool training,
                            const candidates_t *c, const char **name)
{
    double rule = INFINITY, best = INFINITY;
    err_t err = ERR_OK;
    bool in_time = has_time(m);
    *name = NULL;
    if (in_time && !m->has_scratch) {
        TRY(scratch_new_device(desc, m->options->backend, training, "buffers for measuring algorithms",
                               &m->scratch));
        m->has_scratch = true;
    }
    for (int i = 0; i < c->n && err == ERR_OK && in_time; i++) {
        op_algorithms_t wanted = {0};
        op_t *op = NULL;
        double sec = INFINITY;
        memcpy(wanted.name[pass], c->names[i], strlen(c->names[i]) + 1);
        err = op_plan(m->options->backend, desc, training, &wanted, &op);
        if (err == ERR_OK) err = time_runs(m, op, pass, best, &sec, &in_time);
        op_free(&op);
        mem_trim();
        if (err == ERR_SYSTEM && i > 0) {
            char key[OP_KEY_MAX];
            op_key(desc, key);
            log_detail("%s, %s: %s is not a candidate: %s", key, op_pass_names[pass], c->names[i],
                       err_message());
            err = ERR_OK;
            continue;
        }
        if (i == 0) rule = sec;
        if (sec < best) {
            best = sec;
            *name = c->names[i];
        }
    }
    if (!in_time) *name = NULL;
    if (*name && best > advantage * rule) *name = c->names[0];
    return err;
}

static bool is_candidate(const measuring_t *m, const job_t *job, op_pass_t pass, const char *name)
{
    return name && op_has_algorithm(m->options->backend, &job->desc, pass, job->training, name);
}

static void list_candidates(const measuring_t *m, const job_t *job, op_pass_t pass, candidates_t *out)
{
    out->n = op_list_algorithms(m->options->backend, &job->desc, pass, job->training, out->names,
                                OP_MAX_ALGORITHMS);
}

/* Enters a choice that needs no measuring; otherwise adds the pass to the job's open ones. */
static err_t settle_pass(measuring_t *m, job_t *job, op_pass_t pass)
{
    candidates_t c;
    const char *name = algorithms_find(m->table, &job->desc, pass);
    if (is_candidate(m, job, pass, name)) return ERR_OK;
    m->result->n_dropped += name != NULL;
    if (name) algorithms_drop(m->table, &job->desc, pass); /* it can be another backend's */
    const algorithms_t *cache = m->options->cache;
    name = !cache             ? NULL
           : m->options->near ? algorithms_find_near(cache, &job->desc, pass)
                              : algorithms_find(cache, &job->desc, pass);
    if (is_candidate(m, job, pass, name)) {
        m->result->n_cached++;
        return algorithms_set(m->table, &job->desc, pass, name);
    }
    list_candidates(m, job, pass, &c);
    job->open[pass] = c.n > 1;
    return ERR_OK;
}

static bool has_open(const job_t *job)
{
    return job->open[OP_FORWARD] || job->open[OP_BACKWARD_DATA] || job->open[OP_BACKWARD_WEIGHTS];
}

/* Layers with the same operator share a job. */
static void merge_job(measuring_t *m, const job_t *job)
{
    char key[OP_KEY_MAX], other[OP_KEY_MAX];
    op_key(&job->desc, key);
    for (int i = 0; i < m->n_jobs; i++) {
        op_key(&m->jobs[i].desc, other);
        if (strcmp(key, other) != 0) continue;
        for (int pass = 0; pass < OP_PASS_COUNT; pass++) m->jobs[i].open[pass] |= job->open[pass];
        m->jobs[i].work += job->work;
        m->jobs[i].training |= job->training;
        return;
    }
    m->jobs[m->n_jobs++] = *job;
}

static bool is_needed(const graph_needs_t *needs, bool training, op_pass_t pass)
{
    if (pass == OP_FORWARD) return true;
    return training && (pass == OP_BACKWARD_DATA ? needs->dx[0] : needs->dparam);
}

static err_t collect_jobs(measuring_t *m)
{
    const measure_options_t *o = m->options;
    const int n_nodes = o->graph->n_nodes;
    graph_needs_t *needs = NULL;
    op_desc_t *descs = NULL;
    err_t err =
        mem_new_array((int64_t)o->n_sizes * n_nodes + 1, sizeof *m->jobs, "layers to measure", &m->jobs);
    if (err == ERR_OK) err = mem_new_array(n_nodes, sizeof *descs, "layers to measure", &descs);
    if (err == ERR_OK) err = graph_needs_new(o->graph, &needs);
    for (int k = 0; k < o->n_sizes && err == ERR_OK; k++) {
        err = graph_infer(o->graph, o->sizes[k].n, o->sizes[k].shapes, descs);
        for (int i = 0; i < n_nodes && err == ERR_OK; i++) {
            job_t job = {o->graph->nodes[i].name, descs[i], .training = o->sizes[k].training};
            for (int pass = 0; pass < OP_PASS_COUNT && err == ERR_OK; pass++)
                if (is_needed(&needs[i], job.training, (op_pass_t)pass))
                    err = settle_pass(m, &job, (op_pass_t)pass);
            job.work = (job.training ? 3 : 1) * (double)op_macs(&job.desc);
            if (has_open(&job)) merge_job(m, &job);
        }
    }
    mem_free(&needs);
    mem_free(&descs);
    return err;
}

/* Training before evaluation, then by work: time that runs out costs the least. Insertion sort. */
static void sort_jobs(measuring_t *m)
{
    for (int i = 1; i < m->n_jobs; i++) {
        job_t job = m->jobs[i];
        int at = i;
        for (; at > 0; at--) {
            const job_t *before = &m->jobs[at - 1];
            if (before->training > job.training ||
                (before->training == job.training && before->work >= job.work))
                break;
            m->jobs[at] = *before;
        }
        m->jobs[at] = job;
    }
}

static err_t measure_pass(measuring_t *m, const job_t *job, op_pass_t pass)
{
    candidates_t c;
    const char *name;
    list_candidates(m, job, pass, &c);
    TRY(choose_fastest(m, &job->desc, pass, job->training, &c, &name));
    if (!name) {
        m->result->n_left++;
        if (m->options->rule) name = algorithms_find(m->options->rule, &job->desc, pass);
        if (!is_candidate(m, job, pass, name)) name = c.names[0];
        return algorithms_set(m->table, &job->desc, pass, name);
    }
    m->result->n_measured++;
    if (m->options->cache) TRY(algorithms_set(m->options->cache, &job->desc, pass, name));
    return algorithms_set(m->table, &job->desc, pass, name);
}

static err_t measure_job(measuring_t *m, const job_t *job)
{
    err_t err = ERR_OK;
    for (int pass = 0; pass < OP_PASS_COUNT && err == ERR_OK; pass++)
        if (job->open[pass]) err = measure_pass(m, job, (op_pass_t)pass);
    if (m->has_scratch) {
        scratch_free(&m->scratch);
        mem_trim();
    }
    m->has_scratch = false;
    return err == ERR_OK ? ERR_OK : err_context(err, "layer %s", job->layer);
}

/* At the speed so far, within the limit. */
static double estimate_left(const measuring_t *m, double done, double all)
{
    const double spent = clock_sec() - m->start, limit = fmax(m->options->limit_sec - spent, 0);
    return done > 0 ? fmin(limit, spent * (all - done) / done) : limit;
}

static err_t measure_jobs(measuring_t *m)
{
    const measure_options_t *o = m->options;
    double all = 0, done = 0;
    for (int i = 0; i < m->n_jobs; i++) all += m->jobs[i].work;
    for (int i = 0; i < m->n_jobs; i++) {
        const measure_progress_t progress = {m->jobs[i].layer, i, m->n_jobs, estimate_left(m, done, all)};
        if (o->progress && has_time(m)) o->progress(o->progress_context, &progress);
        TRY(measure_job(m, &m->jobs[i]));
        done += m->jobs[i].work;
    }
    return ERR_OK;
}

err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result)
{
    *result = (measure_result_t){0};
    measuring_t m = {.options = options, .table = table, .result = result, .start = clock_sec()};
    err_t err = collect_jobs(&m);
    sort_jobs(&m);
    if (err == ERR_OK) err = measure_jobs(&m);
    mem_free(&m.jobs);
    result->sec = clock_sec() - m.start;
    return err;
}
