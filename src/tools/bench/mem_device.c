/* SPDX-License-Identifier: MIT */
/* GPU memory copies for the mem case: within the device, to and from the host, each verified. */
#include "tools/bench/mem_device.h"

#include <string.h>

#include "compute/ops/hd_buffer.h"
#include "tools/bench/operator.h"

typedef enum copy_kind { COPY_WITHIN, COPY_TO, COPY_FROM, COPY_KINDS } copy_kind_t;

static const struct {
    const char *test, *what;
    int n_moved; /* bytes that device memory moves per byte copied */
} kinds[COPY_KINDS] = {
    {"device_copy", "a copy within the GPU", 2},
    {"host_to_device", "a copy from pinned host memory", 1},
    {"device_to_host", "a copy to pinned host memory", 1},
};

typedef struct copy {
    const backend_t *backend;
    copy_kind_t kind;
    hd_buffer_t from, to;
    table_t *table;
} copy_t;

static err_t run_copy(void *context)
{
    const copy_t *c = context;
    const backend_memory_t *memory = c->backend->memory;
    if (c->kind == COPY_WITHIN) return memory->copy(c->to.device, c->from.device, c->from.n_bytes);
    if (c->kind == COPY_TO) return memory->upload(c->to.device, c->from.host, c->from.n_bytes);
    return memory->download(c->to.host, c->from.device, c->from.n_bytes);
}

static err_t finish_copy(void *context)
{
    const copy_t *c = context;
    return backend_sync(c->backend);
}

/* Different bytes for each kind, so that data left by an earlier copy is wrong. */
static err_t fill_source(const copy_t *c)
{
    uint8_t *bytes = c->from.host;
    for (size_t i = 0; i < c->from.n_bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4093 + (size_t)c->kind * 85 + 1);
    TRY(hd_buffer_push_all(&c->from));
    return backend_sync(c->backend);
}

static err_t count_wrong_bytes(const copy_t *c, bool spoil, int64_t *n_wrong)
{
    if (c->kind != COPY_FROM) TRY(hd_buffer_pull_all(&c->to));
    const uint8_t *is = c->to.host, *wanted = c->from.host;
    if (spoil) ((uint8_t *)c->to.host)[c->to.n_bytes / 2] ^= 1;
    *n_wrong = 0;
    for (size_t i = 0; i < c->from.n_bytes; i++) *n_wrong += is[i] != wanted[i];
    return ERR_OK;
}

static err_t mem_device_report(bench_t *bench, const copy_t *c, const bench_result_t *result, int64_t n_wrong)
{
    double n_bytes = (double)c->from.n_bytes * kinds[c->kind].n_moved;
    double gbs = result->p50 > 0 ? n_bytes / result->p50 / 1e9 : 0;
    table_cell(c->table, "%s", kinds[c->kind].test);
    table_cell(c->table, "%.1f", (double)c->from.n_bytes / 1024);
    table_cell(c->table, "%.2f%-1s", 1e6 * result->p50, bench_mark(result));
    table_cell(c->table, "%.2f", gbs);
    table_cell(c->table, "%.2f", gbs * bench->comm->size);
    table_cell(c->table, "%lld", (long long)n_wrong);
    table_log(c->table);
    json_t *j = bench_record_begin(bench, "mem", kinds[c->kind].test);
    if (j) {
        json_string(j, "level", "GPU");
        json_int(j, "bytes", (int64_t)c->from.n_bytes);
        bench_key_ranks(bench, NULL, j);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "gbs", gbs);
        json_real(j, "gbs_all", gbs * bench->comm->size);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(bench, result);
}

static err_t mem_device_measure_copy(bench_t *bench, copy_t *c, bool spoil)
{
    const char *what = kinds[c->kind].what;
    bench_work_t work = {.what = what, .context = c, .run = run_copy, .finish = finish_copy};
    bench_result_t result = {0};
    int64_t n_wrong = 0;
    TRY(comm_agree(bench->comm, fill_source(c), what));
    err_t err = bench_measure(bench, &work, 1, &result);
    if (err == ERR_OK) err = comm_agree(bench->comm, count_wrong_bytes(c, spoil, &n_wrong), what);
    if (err == ERR_OK) err = bench_sum_wrong(bench, &n_wrong);
    if (err == ERR_OK) err = mem_device_report(bench, c, &result, n_wrong);
    bench_result_free(&result);
    return err;
}

err_t mem_device_measure(bench_t *bench, int64_t n_bytes, bool spoil)
{
    table_t table = {.columns = {{"GPU", true, .min_width = 16},
                                 {"KiB per rank", .min_width = 12},
                                 {"time", .unit = "us ", .min_width = 12},
                                 {"GB/s", .min_width = 8},
                                 {"all ranks"},
                                 {"wrong"}},
                     .n_columns = 6,
                     .indent = 2};
    copy_t c = {.backend = bench->runtime.backend, .table = &table};
    TRY(bench_check_memory(bench, 2 * n_bytes, "bench mem (--mem-bytes)"));
    err_t err = hd_buffer_new(c.backend, (size_t)n_bytes, "memory copies (--mem-bytes)", &c.from);
    if (err == ERR_OK) err = hd_buffer_new(c.backend, (size_t)n_bytes, "memory copies (--mem-bytes)", &c.to);
    err = comm_agree(bench->comm, err, "measuring the GPU's memory");
    if (err == ERR_OK) table_log(&table); /* the headings */
    for (int kind = 0; kind < COPY_KINDS && err == ERR_OK; kind++) {
        c.kind = (copy_kind_t)kind;
        err = mem_device_measure_copy(bench, &c, spoil);
    }
    hd_buffer_free(&c.from);
    hd_buffer_free(&c.to);
    table_free(&table);
    return err;
}
