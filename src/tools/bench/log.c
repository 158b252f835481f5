/* SPDX-License-Identifier: MIT */
/* Writes the records of a run: head with the fingerprint, points, end. docs/records.md describes the fields. The
 * fingerprint is hardware, fabric and software, each an object with a hash by which runs are comparable; it contains no
 * host names and no environment. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/runtime.h"
#include "text/json.h"
#include "tools/bench/protocol.h"

static void describe_hardware(const runtime_t *runtime, json_t *j)
{
    json_object_begin(j, NULL);
    machine_record(runtime->backend->name, j);
    json_object_end(j);
}

static void describe_fabric(const runtime_t *runtime, json_t *j)
{
    machine_port_t ports[MACHINE_MAX_PORTS];
    int n = machine_ports(ports);
    json_object_begin(j, NULL);
    json_int(j, "hosts", runtime->comm->topo.n_hosts);
    json_array_begin(j, "ports");
    for (int i = 0; i < n; i++) {
        json_object_begin(j, NULL);
        json_string(j, "name", ports[i].name);
        json_real(j, "gbit_per_sec", ports[i].bits_per_sec / 1e9);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void describe_software(const runtime_t *runtime, json_t *j)
{
    struct utsname os;
    uname(&os);
    json_object_begin(j, NULL);
    runtime_record_software(runtime, j);
    json_string(j, "kernel", os.release);
    json_object_end(j);
}

typedef void (*part_t)(const runtime_t *runtime, json_t *j);
enum { HARDWARE, FABRIC, SOFTWARE, N_PARTS };
static const part_t parts[N_PARTS] = {describe_hardware, describe_fabric, describe_software};
static const char *const names[N_PARTS] = {"hardware", "fabric", "software"};

static err_t warn_if_hosts_differ(const runtime_t *runtime, const uint64_t ids[N_PARTS])
{
    const comm_t *comm = runtime->comm;
    struct host_ids {
        uint64_t ids[N_PARTS];
        char host[TOPO_HOST_MAX];
    } mine, *all;
    memset(&mine, 0, sizeof mine);
    memcpy(mine.ids, ids, sizeof mine.ids);
    memcpy(mine.host, comm->topo.host_name, sizeof mine.host);
    TRY(mem_new_array(comm->size, sizeof *all, "the hosts' fingerprints", &all));
    err_t err = comm_allgather(runtime->comm, &mine, sizeof mine, all, "comparing hosts");
    for (int part = 0; part < N_PARTS && err == ERR_OK; part++)
        for (int r = 1; r < comm->size; r++) {
            if (part == FABRIC || all[r].ids[part] == all[0].ids[part]) continue;
            log_warn(
                "the %s of %s (rank %d) differs from that of %s; results are recorded under the latter's "
                "fingerprint",
                names[part], all[r].host, r, all[0].host);
            break;
        }
    mem_free(&all);
    return err;
}

/* Collective. Records what makes measurements comparable, of rank 0's host; warns where hosts differ. `j` is NULL
 * except on rank 0. */
static err_t record_fingerprint(const runtime_t *runtime, json_t *j)
{
    json_t text[N_PARTS] = {{0}};
    uint64_t ids[N_PARTS];
    err_t err = ERR_OK;
    for (int i = 0; i < N_PARTS; i++) {
        parts[i](runtime, &text[i]);
        if (err == ERR_OK) err = text[i].status;
        ids[i] = text[i].text ? XXH3_64bits(text[i].text, text[i].n_bytes) : 0;
    }
    err = comm_agree(runtime->comm, err, "the fingerprint");
    if (err == ERR_OK) err = warn_if_hosts_differ(runtime, ids);
    if (err == ERR_OK && j) {
        json_object_begin(j, "fingerprint");
        for (int i = 0; i < N_PARTS; i++) {
            char key[32], id[20];
            snprintf(key, sizeof key, "%s_id", names[i]);
            snprintf(id, sizeof id, "%016" PRIx64, ids[i]);
            json_string(j, key, id);
        }
        for (int i = 0; i < N_PARTS; i++) json_raw(j, names[i], text[i].text);
        json_object_end(j);
    }
    for (int i = 0; i < N_PARTS; i++) json_free(&text[i]);
    return err;
}

/* Hashes time, process and host name: unique to this run. */
static void make_id(char out[20])
{
    struct {
        double time;
        int64_t process;
        char host[64];
    } seed;
    memset(&seed, 0, sizeof seed);
    seed.time = clock_unix_sec();
    seed.process = getpid();
    gethostname(seed.host, sizeof seed.host - 1);
    snprintf(out, 20, "%016" PRIx64, (uint64_t)XXH3_64bits(&seed, sizeof seed));
}

static err_t open_records(bench_t *bench)
{
    char path[FS_PATH_MAX];
    const char *requested = bench->options->out;
    char date[32], folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    clock_stamp(date, sizeof date);
    if (requested && !requested[0]) RAISE(ERR_USAGE, "--out is empty; expected a file");
    int n = requested ? snprintf(path, FS_PATH_MAX, "%s", requested)
                      : snprintf(path, FS_PATH_MAX, "runs/bench-%s.jsonl", date);
    if (n >= FS_PATH_MAX) RAISE(ERR_USAGE, "--out is longer than %d bytes", FS_PATH_MAX);
    TRY(fs_temp_path(path, folder, temp));
    TRY(fs_make_folder(folder));
    return metrics_open_file(&bench->log->metrics, path, true);
}

err_t bench_log_open(bench_t *bench, const opt_group_t *groups, int n_groups)
{
    static const char what[] = "opening the record file";
    TRY(comm_agree(bench->comm, mem_new(sizeof *bench->log, "the record file", &bench->log), what));
    bench_log_t *log = bench->log;
    log->start_sec = clock_sec();
    bool writes = bench->comm->rank == 0;
    if (writes) make_id(log->id);
    if (bench->options->turns)
        TRY(turns_open(bench->comm, bench->options->turns, log->id, bench->options->runtime.timeout_sec,
                       &bench->turns));
    TRY(comm_agree(bench->comm, writes ? open_records(bench) : ERR_OK, what));
    json_t *j = metrics_begin(&log->metrics, RECORD_BENCH_RUN);
    if (j) {
        char now[32];
        clock_utc(now, sizeof now);
        json_int(j, "schema", RECORD_SCHEMA);
        json_string(j, "id", log->id);
        json_string(j, "time", now);
        json_int(j, "ranks", bench->comm->size);
        json_int(j, "threads", bench->runtime.n_threads);
        json_string(j, "interleaved_with", bench->turns ? turns_other(bench->turns) : NULL);
        opt_json(groups, n_groups, j, "options");
    }
    TRY(record_fingerprint(&bench->runtime, j));
    return comm_agree(bench->comm, metrics_end(&log->metrics, true), what);
}

err_t bench_log_close(bench_t *bench, const char *why)
{
    bench_log_t *log = bench->log;
    if (!log) return ERR_OK;
    json_t *j = metrics_begin(&log->metrics, RECORD_BENCH_END);
    double sec = clock_sec() - log->start_sec;
    if (j) {
        json_int(j, "schema", RECORD_SCHEMA);
        json_string(j, "run", log->id);
        json_string(j, "reason", why);
        json_int(j, "n_points", log->n_points);
        json_real(j, "seconds", sec);
        json_real(j, "recording_sec", log->recording_sec);
    }
    err_t err = metrics_end(&log->metrics, true);
    err_t closed = metrics_close(&log->metrics);
    if (err == ERR_OK) err = closed;
    if (err == ERR_OK && j) {
        if (log->n_inconclusive + log->n_disturbed > 0)
            log_info("~ precision not reached %s (%lld of %lld)   ! disturbed by other load (%lld)",
                     bench->options->n_samples > 0 ? "by so many samples" : "within the budget",
                     (long long)log->n_inconclusive, (long long)log->n_points, (long long)log->n_disturbed);
        log_info("%s: %lld points in %.0f s; records: %s", why, (long long)log->n_points, sec,
                 log->metrics.path);
    }
    mem_free(&bench->log);
    return comm_agree(bench->comm, err, "closing the record file");
}

json_t *bench_record_begin(bench_t *bench, const char *case_name, const char *test)
{
    bench->log->begun_sec = clock_sec();
    json_t *j = metrics_begin(&bench->log->metrics, RECORD_BENCH);
    if (!j) return NULL;
    json_int(j, "schema", RECORD_SCHEMA);
    json_string(j, "run", bench->log->id);
    json_string(j, "case", case_name);
    json_string(j, "test", test);
    json_object_begin(j, "key");
    return j;
}

void bench_record_metrics(bench_t *bench)
{
    if (bench->comm->rank != 0) return;
    json_object_end(&bench->log->metrics.json);
    json_object_begin(&bench->log->metrics.json, "metrics");
}

/* Rounds to 0.1 ns, finer than any clock, to keep numbers short. */
static double short_sec(double sec)
{
    return rint(sec * 1e10) / 1e10;
}

static void record_samples(json_t *j, const char *name, const double *sec, int64_t n)
{
    json_array_begin(j, name);
    for (int64_t i = 0; i < n; i++) json_real(j, NULL, short_sec(sec[i]));
    json_array_end(j);
}

static void record_result(json_t *json, const bench_result_t *result)
{
    char loads[64];
    load_text(result->loads, loads, sizeof loads);
    json_string(json, "unit", "s");
    json_string(json, "verdict",
                result->disturbed    ? "disturbed"
                : result->conclusive ? "ok"
                                     : "inconclusive");
    json_int(json, "n", result->n);
    json_int(json, "per_sample", result->per_sample);
    json_int(json, "n_disturbed", result->n_disturbed);
    json_string(json, "disturbances", loads);
    json_real(json, "min", result->min);
    json_real(json, "p50", result->p50);
    json_real(json, "p95", result->p95);
    json_real(json, "p99", result->p99);
    json_real(json, "max", result->max);
    json_real(json, "mean", result->mean);
    json_real(json, "cv", result->cv);
    json_array_begin(json, "ci95");
    json_real(json, NULL, result->ci_low);
    json_real(json, NULL, result->ci_high);
    json_array_end(json);
    json_int(json, "slowest_rank", result->slowest_rank);
    json_real(json, "slowest_share", result->slowest_share);
    json_real(json, "clock_sec", result->clock_sec);
    /* Number of samples in each batch. */
    json_array_begin(json, "batch_n");
    for (int64_t batch = 0, i = 0; batch < result->n_batches; batch++) {
        int64_t first = i;
        while (i < result->n && result->batch[i] == batch) i++;
        json_int(json, NULL, i - first);
    }
    json_array_end(json);
    record_samples(json, "samples", result->sec, result->n);
    for (int part = 0; part < result->parts_of.n; part++) {
        char name[32];
        snprintf(name, sizeof name, "%s_samples", result->parts_of.names[part]);
        record_samples(json, name, result->parts[part], result->n);
    }
}

err_t bench_record_end(bench_t *bench, const bench_result_t *result)
{
    bench_log_t *log = bench->log;
    log->n_points++;
    log->n_inconclusive += result && !result->conclusive && !result->disturbed;
    log->n_disturbed += result && result->disturbed;
    if (bench->comm->rank == 0) {
        json_object_end(&log->metrics.json);
        if (result) record_result(&log->metrics.json, result);
    }
    err_t err = metrics_end(&log->metrics, true);
    log->recording_sec += clock_sec() - log->begun_sec;
    return comm_agree(bench->comm, err, "writing a record");
}
