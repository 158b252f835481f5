/* SPDX-License-Identifier: MIT */
/* Times single operators on scratch buffers, to choose the algorithms of each layer and pass within a time limit, the
 * most expensive layers first; and training steps on random inputs. What a step's time decides is left to the caller. */
#include "compute/graph/measure.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/rng.h"
#include "base/stats.h"
#include "compute/graph/exec.h"
#include "compute/tensor/float16.h"

/* ---- A single operator ---- */
enum { PERIOD = 4099, N_PIECE = 256 * PERIOD };

int64_t scratch_bytes(const op_desc_t *desc, bool training)
{
    int64_t n = shape_count(desc->x[0]) * (int64_t)dtype_size(desc->x_dtype[0]) +
                shape_count(desc->y[0]) * (int64_t)dtype_size(desc->y_dtype[0]);
    for (int i = 0; i < desc->n_params; i++) n += shape_count(desc->param[i]) * (int64_t)sizeof(float);
    return (training ? 2 : 1) * n;
}

/* Generator of values; they repeat, so that large blocks are filled quickly. */
typedef struct maker {
    const backend_t *backend;
    const char *what;
    bool device_only;
    rng_t rng;
} maker_t;

static void fill(maker_t *m, int64_t n, dtype_t dtype, void *block)
{
    float *wide = block;
    uint16_t *narrow = block;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == DTYPE_BF16)
            narrow[i] = i < PERIOD ? bf16_from_float((float)rng_normal(&m->rng)) : narrow[i - PERIOD];
        else
            wide[i] = i < PERIOD ? (float)rng_normal(&m->rng) : wide[i - PERIOD];
    }
}

/* Fills a block on the device with copies of a piece, whose length is a multiple of the values' period. */
static err_t make_on_device(maker_t *m, int64_t n, dtype_t dtype, hd_buffer_t *block)
{
    const backend_t *backend = m->backend;
    const size_t n_bytes = (size_t)n * dtype_size(dtype);
    hd_buffer_t piece;
    TRY(hd_buffer_new(backend, (size_t)(n < N_PIECE ? n : N_PIECE) * dtype_size(dtype), m->what, &piece));
    *block = (hd_buffer_t){.backend = backend, .own_device = true};
    err_t err = backend_alloc(backend, n_bytes, m->what, &block->device);
    if (err != ERR_OK) *block = (hd_buffer_t){0};
    fill(m, n < N_PIECE ? n : N_PIECE, dtype, piece.host);
    if (err == ERR_OK) err = hd_buffer_push_all(&piece);
    for (size_t at = 0; err == ERR_OK && at < n_bytes; at += piece.n_bytes) {
        const size_t left = n_bytes - at;
        err = backend_copy(backend, (char *)block->device + at, piece.device,
                           left < piece.n_bytes ? left : piece.n_bytes);
    }
    if (err == ERR_OK) err = backend_sync(backend);
    hd_buffer_free(&piece);
    return err;
}

static err_t scratch_make(maker_t *m, shape_t shape, dtype_t dtype, hd_buffer_t *block, float **out)
{
    int64_t n = shape_count(shape);
    if (m->device_only) return make_on_device(m, n, dtype, block);
    TRY(hd_buffer_new(m->backend, (size_t)n * dtype_size(dtype), m->what, block));
    if (dtype == DTYPE_F32) *out = block->host;
    fill(m, n, dtype, block->host);
    return ERR_OK;
}

void scratch_free(scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) hd_buffer_free(&s->blocks[i]);
    *s = (scratch_t){NULL};
}

enum { X, Y, DY, DX, PARAM, DPARAM = PARAM + OP_MAX_PARAMS };

static err_t make_all(maker_t m, const op_desc_t *desc, bool training, scratch_t *s)
{
    dtype_t x = desc->x_dtype[0], y = desc->y_dtype[0];
    hd_buffer_t *b = s->blocks;
    *s = (scratch_t){NULL};
    err_t err = scratch_make(&m, desc->x[0], x, &b[X], &s->x);
    if (err == ERR_OK) err = scratch_make(&m, desc->y[0], y, &b[Y], &s->y);
    for (int i = 0; i < desc->n_params && err == ERR_OK; i++) {
        err = scratch_make(&m, desc->param[i], DTYPE_F32, &b[PARAM + i], &s->param[i]);
        if (err == ERR_OK && training)
            err = scratch_make(&m, desc->param[i], DTYPE_F32, &b[DPARAM + i], &s->dparam[i]);
    }
    if (err == ERR_OK && training) err = scratch_make(&m, desc->y[0], y, &b[DY], &s->dy);
    if (err == ERR_OK && training) err = scratch_make(&m, desc->x[0], x, &b[DX], &s->dx);
    if (err == ERR_OK) err = scratch_push(s);
    if (err != ERR_OK) scratch_free(s);
    return err;
}

err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                  scratch_t *s)
{
    return make_all((maker_t){backend, what, false, rng_new(1, RNG_TEST, 0)}, desc, training, s);
}

err_t scratch_new_device(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                         scratch_t *s)
{
    bool device_only = backend->memory != NULL;
    return make_all((maker_t){backend, what, device_only, rng_new(1, RNG_TEST, 0)}, desc, training, s);
}

err_t scratch_push(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(hd_buffer_push_all(&s->blocks[i]));
    return ERR_OK;
}

err_t scratch_pull(const scratch_t *s)
{
    for (int i = 0; i < SCRATCH_BLOCKS; i++) TRY(hd_buffer_pull_all(&s->blocks[i]));
    return ERR_OK;
}

static op_args_t args_of(const scratch_t *s, const op_t *op, op_pass_t pass)
{
    const hd_buffer_t *b = s->blocks;
    op_args_t args = op_args(op);
    args.x[0].data = b[X].device, args.y[0].data = b[Y].device, args.training = true;
    for (int i = 0; i < OP_MAX_PARAMS; i++) args.param[i].data = b[PARAM + i].device;
    if (pass == OP_FORWARD) return args;
    args.dy[0].data = b[DY].device;
    if (pass == OP_BACKWARD_DATA) args.dx[0].data = b[DX].device;
    for (int i = 0; i < OP_MAX_PARAMS && pass == OP_BACKWARD_WEIGHTS; i++)
        args.dparam[i].data = b[DPARAM + i].device;
    return args;
}

err_t scratch_run(const scratch_t *s, const op_t *op, op_pass_t pass, void *saved, void *workspace)
{
    op_args_t args = args_of(s, op, pass);
    args.saved = saved, args.workspace = workspace;
    return pass == OP_FORWARD ? op_forward(op, &args) : op_backward(op, &args);
}

op_work_t scratch_work(const scratch_t *s, const op_t *op, op_pass_t pass)
{
    const op_args_t args = args_of(s, op, pass);
    return op_work(op, &args, pass);
}

/* ---- The algorithms of layers ---- */
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
            if (job.open[OP_FORWARD] || job.open[OP_BACKWARD_DATA] || job.open[OP_BACKWARD_WEIGHTS])
                merge_job(m, &job);
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

err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result)
{
    *result = (measure_result_t){0};
    measuring_t m = {.options = options, .table = table, .result = result, .start = clock_sec()};
    double all = 0, done = 0;
    err_t err = collect_jobs(&m);
    sort_jobs(&m);
    for (int i = 0; i < m.n_jobs; i++) all += m.jobs[i].work;
    for (int i = 0; i < m.n_jobs && err == ERR_OK; i++) {
        const measure_progress_t progress = {m.jobs[i].layer, i, m.n_jobs, estimate_left(&m, done, all)};
        if (options->progress && has_time(&m)) options->progress(options->progress_context, &progress);
        err = measure_job(&m, &m.jobs[i]);
        done += m.jobs[i].work;
    }
    mem_free(&m.jobs);
    result->sec = clock_sec() - m.start;
    return err;
}

/* ---- A training step ---- */
enum { MIN_STEPS = 6, RING = 256 };
/* OpenMP's threads take a quarter of calm_sec to adapt to other processes (kernels/cpu/cpu.h). */
static const double calm_sec = 0.2, busy_sec = 0.4;
/* Largest share of the time that this thread waits for a CPU, and largest ratio of the median step to the shortest,
 * on a machine without other processes. */
static const double calm_wait = 0.1, calm_ratio = 1.25;

enum { PARAMS, GRADS, STATES, INPUTS, MAX_BUFFERS = INPUTS + GRAPH_MAX_INPUTS };

typedef struct step_measure {
    hd_buffer_t buffer[MAX_BUFFERS];
    exec_t *exec;
    double limit_sec; /* left */
    int64_t n_steps;
    double sec[RING]; /* of the last steps */
} step_measure_t;

double measure_step_macs(const graph_t *graph, int64_t n)
{
    double macs = 0;
    for (int i = 0; i < graph->n_nodes; i++) macs += (double)op_macs(&graph->nodes[i].desc);
    return 3 * macs * (double)n;
}

/* Buffers and an executor, ready for steps. */
static err_t open_measure(step_measure_t *m, const graph_t *graph, const backend_t *backend, int64_t n)
{
    static const char what[] = "buffers for measuring a step";
    const int64_t counts[INPUTS] = {graph->n_flat_params, graph->n_flat_trained, graph->n_flat_states};
    for (int i = 0; i < INPUTS; i++)
        TRY(hd_buffer_new(backend, (size_t)counts[i] * sizeof(float), what, &m->buffer[i]));
    graph_init(graph, 1, m->buffer[PARAMS].host, m->buffer[STATES].host);
    rng_t rng = rng_new(1, RNG_TEST, 0);
    for (int i = 0; i < graph->n_inputs; i++) {
        const graph_value_t *input = &graph->values[graph->inputs[i].value];
        const int64_t count = n * shape_count(input->shape);
        hd_buffer_t *buffer = &m->buffer[INPUTS + i];
        TRY(hd_buffer_new(backend, (size_t)count * dtype_size(input->dtype), what, buffer));
        float *values = buffer->host;
        for (int64_t k = 0; k < count && input->dtype == DTYPE_F32; k++) values[k] = (float)rng_normal(&rng);
    }
    for (int i = 0; i < INPUTS + graph->n_inputs; i++) TRY(hd_buffer_push_all(&m->buffer[i]));
    exec_options_t options = {.graph = graph,
                              .backend = backend,
                              .params = m->buffer[PARAMS].device,
                              .grads = m->buffer[GRADS].device,
                              .states = m->buffer[STATES].device};
    TRY(exec_new(&options, &m->exec));
    TRY(exec_prepare(m->exec, n, true));
    return exec_ready(m->exec);
}

static err_t run_step(step_measure_t *m, int64_t n)
{
    exec_batch_t batch = {.n = n, .loss_scale = 1.0f / (float)n};
    for (int i = 0; i < GRAPH_MAX_INPUTS; i++) batch.input[i] = m->buffer[INPUTS + i].device;
    const double start = clock_sec();
    TRY(exec_forward(m->exec, &batch, true));
    TRY(exec_backward(m->exec, &batch, NULL, NULL));
    m->sec[m->n_steps++ % RING] = clock_sec() - start;
    return ERR_OK;
}

/* Runs steps for a time, at least six. *wait: the share of it that this thread waited for a CPU. */
static err_t run_steps(step_measure_t *m, int64_t n, double enough_sec, double *wait, double *spent)
{
    const double start = clock_sec();
    contention_t contention;
    err_t err = ERR_OK;
    m->n_steps = 0;
    contention_open(&contention);
    do {
        err = run_step(m, n);
        *spent = clock_sec() - start;
    } while (err == ERR_OK && *spent < m->limit_sec && (m->n_steps < MIN_STEPS || *spent < enough_sec));
    *wait = contention_share(&contention);
    contention_close(&contention);
    m->limit_sec -= *spent;
    return err;
}

/* Beside other processes, the mean of a longer time tells how fast the steps of a run will be. */
static err_t time_steps(step_measure_t *m, int64_t n, step_time_t *out)
{
    double wait, spent;
    TRY(run_steps(m, n, calm_sec, &wait, &spent));
    const int64_t n_sec = m->n_steps < RING ? m->n_steps : RING;
    double sec = stats_median(m->sec, n_sec);
    out->calm = wait < calm_wait && sec < calm_ratio * m->sec[0];
    if (!out->calm && m->limit_sec > 0) {
        TRY(run_steps(m, n, busy_sec, &wait, &spent));
        sec = spent / (double)m->n_steps;
    }
    if (m->limit_sec > 0) out->sec = sec;
    return ERR_OK;
}

err_t measure_step(const graph_t *graph, const backend_t *backend, int64_t n, double limit_sec,
                   step_time_t *out)
{
    step_measure_t m = {.limit_sec = limit_sec};
    *out = (step_time_t){.sec = INFINITY};
    err_t err = open_measure(&m, graph, backend, n);
    if (err == ERR_OK) err = time_steps(&m, n, out);
    exec_free(&m.exec);
    for (int i = 0; i < MAX_BUFFERS; i++) hd_buffer_free(&m.buffer[i]);
    mem_trim();
    return err;
}
