/* SPDX-License-Identifier: MIT */
/* What the cases share: the memory check, the end by a signal, output lines; a single operator run through the
 * backend, rated by the yardstick; rates as text and in records. */
#include "tools/bench/cases.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/signals.h"
#include "text/figure.h"
#include "text/progress.h"

err_t bench_check_memory(bench_t *bench, int64_t n_bytes, const char *what)
{
    const topo_t *topo = &bench->comm->topo;
    /* The ranks of a host share its memory evenly. */
    int64_t share = machine_free_bytes() / topo->local_size;
    err_t err = ERR_OK;
    if (n_bytes > share)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "%s needs %s on each rank, but %s has only %s free for each of its %d ranks; use "
                        "smaller sizes or fewer ranks per host",
                        what, figure_bytes((double)n_bytes).text, topo->host_name,
                        figure_bytes((double)share).text, topo->local_size);
    return comm_agree(bench->comm, err, "checking free memory");
}

err_t bench_raise_interrupted(bench_t *bench)
{
    bench->interrupted = true;
    return comm_agree(bench->comm, err_raise(ERR_GATE, __FILE__, __LINE__, "interrupted by a signal"),
                      "ending the benchmark");
}

err_t bench_check_stop(bench_t *bench)
{
    int32_t asked = stop_requested();
    TRY(comm_allreduce(bench->comm, &asked, 1, DTYPE_I32, COMM_MAX, "looking for signals"));
    return asked ? bench_raise_interrupted(bench) : ERR_OK;
}

void bench_print(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    progress_clear_line();
    log_info("%s", line);
}

const char *bench_mark(const bench_result_t *result)
{
    return result->disturbed ? "!" : result->conclusive ? "" : "~";
}

void bench_print_best(const bench_result_t *result, double parts, double rate, const char *unit)
{
    if (result->disturbed && result->min > 0)
        bench_print("    best sample: %s, %s", figure_time(result->min / parts).text,
                    figure_rate(rate * result->p50 / result->min, unit).text);
}

static void fill_nan(float *block, shape_t shape)
{
    for (int64_t i = 0; block && i < shape_count(shape); i++) block[i] = NAN;
}

static err_t make_op_buffers(const op_desc_t *desc, bool training, const char *what, bench_op_t *out)
{
    const backend_t *backend = out->op->backend;
    scratch_t *s = &out->scratch;
    TRY(scratch_new(desc, backend, training, what, s));
    TRY(backend_alloc(backend, out->op->n_saved_bytes, what, &out->saved));
    TRY(backend_alloc(backend, out->op->n_workspace_bytes, what, &out->workspace));
    fill_nan(s->y, desc->y[0]);
    fill_nan(s->dx, desc->x[0]);
    for (int i = 0; i < desc->n_params; i++) fill_nan(s->dparam[i], desc->param[i]);
    return scratch_push(s);
}

err_t bench_op_new(bench_t *bench, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
                   const char *what, bench_op_t *out)
{
    *out = (bench_op_t){NULL};
    TRY(comm_agree(bench->comm, op_plan(bench->runtime.backend, desc, training, wanted, &out->op), what));
    int64_t n_bytes =
        scratch_bytes(desc, training) + (int64_t)out->op->n_saved_bytes + (int64_t)out->op->n_workspace_bytes;
    TRY(bench_check_memory(bench, n_bytes, what));
    return comm_agree(bench->comm, make_op_buffers(desc, training, what, out), what);
}

void bench_op_free(bench_op_t *bench_op)
{
    const backend_t *backend = bench_op->op ? bench_op->op->backend : NULL;
    scratch_free(&bench_op->scratch);
    backend_release(backend, &bench_op->saved);
    backend_release(backend, &bench_op->workspace);
    op_free(&bench_op->op);
}

static err_t run_pass(void *context)
{
    const bench_pass_t *p = context;
    return scratch_run(&p->of->scratch, p->of->op, p->pass, p->of->saved, p->of->workspace);
}

static err_t sync_pass(void *context)
{
    const bench_pass_t *p = context;
    return backend_sync(p->of->op->backend);
}

bench_work_t bench_pass_work(bench_pass_t *pass, const char *what)
{
    bool on_device = pass->of->op->backend->memory != NULL;
    return (bench_work_t){
        .what = what, .context = pass, .run = run_pass, .finish = on_device ? sync_pass : NULL};
}

err_t bench_yardstick(bench_t *bench, dtype_t compute, const yardstick_t **out)
{
    yardstick_t *y = &bench->yardstick[compute];
    if (!bench->has_yardstick[compute])
        TRY(yardstick_measure(bench->comm, bench->runtime.backend, compute, y));
    bench->has_yardstick[compute] = true;
    *out = y;
    return ERR_OK;
}

void bench_raise_peak(bench_t *bench, dtype_t compute, double flops, const char *product)
{
    yardstick_t *y = &bench->yardstick[compute];
    if (y->flops <= 0 || flops <= y->flops) return;
    y->flops = flops;
    snprintf(y->flops_from, sizeof y->flops_from, "%s", product);
}

void bench_print_peak(const yardstick_t *y)
{
    if (y->flops > 0)
        bench_print("peak: %s per rank (%s)", figure_rate(y->flops / 1e9, "GFLOP/s").text, y->flops_from);
    else
        bench_print("peak: unknown");
}

void bench_key_ranks(const bench_t *bench, const char *dtype, json_t *j)
{
    if (!j) return;
    json_int(j, "ranks", bench->comm->size);
    json_int(j, "threads", bench->runtime.n_threads);
    json_string(j, "device", bench->runtime.backend->name);
    if (dtype) json_string(j, "dtype", dtype);
}

bench_rate_t bench_rate_of(const bench_t *bench, const bench_result_t *result, double n_flops,
                           const yardstick_t *yardstick)
{
    double flops = result->p50 > 0 ? n_flops / result->p50 : 0;
    return (bench_rate_t){.gflops = flops / 1e9,
                          .gflops_all = flops / 1e9 * bench->comm->size,
                          .peak_gflops = yardstick->flops / 1e9,
                          .share_of_peak =
                              yardstick->flops > 0 && !result->disturbed ? flops / yardstick->flops : NAN};
}

void bench_rate_json(const bench_rate_t *rate, json_t *j)
{
    if (!j) return;
    json_real(j, "gflops", rate->gflops);
    json_real(j, "gflops_all", rate->gflops_all);
    if (!(rate->peak_gflops > 0)) return;
    json_real(j, "share_of_peak", rate->share_of_peak);
    json_real(j, "peak_gflops", rate->peak_gflops);
}

void bench_rate_cells(table_t *table, const bench_result_t *result, const bench_rate_t *rate)
{
    table_cell(table, "%.1f%-1s", 1e6 * result->p50, bench_mark(result));
    table_cell(table, "%.1f", rate->gflops);
    table_cell(table, "%.1f", rate->gflops_all);
    table_cell(table, "%s", figure_percent(rate->share_of_peak).text);
}

err_t bench_sum_wrong(bench_t *bench, int64_t *n_wrong)
{
    TRY(comm_allreduce(bench->comm, n_wrong, 1, DTYPE_I64, COMM_SUM, "summing wrong elements"));
    if (*n_wrong > 0) bench->failed_check = true;
    return ERR_OK;
}
