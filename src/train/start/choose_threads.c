/* SPDX-License-Identifier: MIT */
/* Where a run's number of threads comes from: the user, the checkpoint, or a measurement of how many pay for the model, whose
 * cache is kept here. Timing a step is left to compute/graph. */
#include "train/start/choose_threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cluster/comm/watchdog.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/disk_wait.h"
#include "compute/graph/measure.h"
#include "train/start/options.h"
#include "train/start/setup.h"

enum { FORMAT = 1, KEY_MAX = 1024, CACHE_MAX = 1 << 18 };
/* Fewer threads are chosen unless more are faster by this factor; beside other processes, if fewer are. */
static const double pays = 1.10;
/* A step with more multiply-adds per thread takes long compared with starting and joining threads: 20 ms and
 * more. It uses all threads, unmeasured. */
static const double large_macs = 2e9;
/* Load average of the last minute, per CPU. */
static const double quiet_load = 0.25;

/* Everything that determines how many threads pay. */
static err_t describe(const thread_request_t *request, char out[KEY_MAX])
{
    const runtime_t *runtime = request->runtime;
    const graph_t *graph = request->graph;
    char cpu[MACHINE_CPU_TEXT], key[OP_KEY_MAX];
    uint64_t hash = 0;
    machine_cpu_text(cpu);
    for (int i = 0; i < graph->n_nodes; i++) {
        op_desc_t desc;
        TRY(graph_batch_desc(graph, i, request->n, &desc));
        op_key(&desc, key);
        hash = XXH3_64bits_withSeed(key, strlen(key), hash);
    }
    snprintf(out, KEY_MAX, "%s; %s (%s); %d CPUs; format %d; %s n=%lld %016" PRIx64, cpu,
             runtime->backend->name, runtime->device, runtime->n_cpus, FORMAT, graph->model,
             (long long)request->n, hash);
    return ERR_OK;
}

/* The end of the line that begins at `line`, past its newline. */
static const char *line_end(const char *line)
{
    const char *end = strchrnul(line, '\n');
    return *end ? end + 1 : end;
}

static bool is_of(const char *line, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(line, key, n) == 0 && strncmp(line + n, " = ", 3) == 0;
}

/* 0: the text has no valid number for the key. */
static int find_number(const char *text, const char *key, int most)
{
    for (const char *line = text; *line; line = line_end(line)) {
        if (!is_of(line, key)) continue;
        const long n = strtol(line + strlen(key) + 3, NULL, 10);
        if (n >= 1 && n <= most) return (int)n;
    }
    return 0;
}

/* The text of the cache; "" if there is none. Free with mem_free. */
static err_t read_cache(const char *path, char **out)
{
    if (measure_cache_read(path, CACHE_MAX, out) != ERR_OK)
        log_warn("the cache of thread numbers is ignored: %s", err_message());
    return *out ? ERR_OK : mem_strdup("", out);
}

/* Writes the text with a new number for the key, which goes first. */
static err_t write_cache(const char *path, const char *text, const char *key, int n_threads)
{
    char *out;
    const size_t room = strlen(text) + KEY_MAX + 32;
    TRY(mem_new(room, "a cache of thread numbers", &out));
    size_t n = (size_t)snprintf(out, room, "%s = %d\n", key, n_threads);
    for (const char *line = text, *end; *line && n < CACHE_MAX / 2; line = end) {
        end = line_end(line);
        if (!is_of(line, key)) n += (size_t)snprintf(out + n, room - n, "%.*s", (int)(end - line), line);
    }
    err_t err = measure_cache_write(path, out);
    mem_free(&out);
    return err;
}

/* The steps alone do not show a process that keeps the same CPU busy all the time. */
static bool host_is_quiet(int n_cpus)
{
    double load;
    return getloadavg(&load, 1) != 1 || load < quiet_load * n_cpus;
}

static err_t time_step(const thread_request_t *request, int n_threads, double limit_sec, step_time_t *out)
{
    if (request->time_step) return request->time_step(request->context, n_threads, out);
    TRY(runtime_set_threads(request->runtime, n_threads));
    TRY(measure_step(request->graph, request->runtime->backend, request->n, limit_sec, out));
    out->calm = out->calm && host_is_quiet(request->runtime->n_host_cpus);
    return ERR_OK;
}

/* Halves the threads as long as that costs little or, beside other processes, which make times uncertain, as long as
 * it gains. *out: 0 if time ran out. */
static err_t measure_threads(const thread_request_t *request, int *out, bool *calm)
{
    const int most = request->runtime->n_cpus;
    const double start = clock_sec();
    double best = INFINITY;
    int n_halvings = 0;
    *out = 0;
    *calm = true;
    for (int n = most; n > 1; n /= 2) n_halvings++;
    for (int i = 0, n = most; n >= 1; i++, n /= 2) {
        step_time_t time;
        char text[32];
        snprintf(text, sizeof text, "%d thread%s", n, n > 1 ? "s" : "");
        if (progress_active()) progress_draw("measuring threads", i, n_halvings + 1, text);
        TRY(time_step(request, n, request->limit_sec - (clock_sec() - start), &time));
        if (isinf(time.sec)) {
            *out = 0;
            return ERR_OK;
        }
        log_detail("  %s: %s per step%s", text, figure_time(time.sec).text,
                   time.calm ? "" : ", beside other processes");
        *calm &= time.calm;
        if (time.sec > (*calm ? pays : 1 / pays) * best) break;
        best = fmin(best, time.sec);
        *out = n;
    }
    return ERR_OK;
}

/* *out: the number for rank 0; 0: its share. */
static err_t choose_on_rank_0(const thread_request_t *request, thread_choice_t *choice, int *out)
{
    const double start = clock_sec();
    const int most = request->runtime->n_cpus;
    char key[KEY_MAX], path[FS_PATH_MAX], *cache = NULL;
    if (most == 1 || !runtime_has_threads(request->runtime)) return ERR_OK;
    if (measure_step_macs(request->graph, request->n) > large_macs * most) return ERR_OK;
    TRY(describe(request, key));
    const bool cached = fs_cache_path(path, "threads.txt") == ERR_OK;
    TRY(cached ? read_cache(path, &cache) : mem_strdup("", &cache));
    *out = find_number(cache, key, most);
    err_t err = ERR_OK;
    if (*out > 0) {
        snprintf(choice->from, sizeof choice->from, "cache");
    } else if (request->limit_sec > 0) {
        log_detail("  measuring threads for %s", key);
        err = measure_threads(request, out, &choice->calm);
        progress_clear_line();
        choice->measure_sec = clock_sec() - start;
        if (*out > 0) snprintf(choice->from, sizeof choice->from, "measured");
        if (err == ERR_OK && *out > 0 && choice->calm && cached &&
            write_cache(path, cache, key, *out) != ERR_OK)
            log_warn("the measured number of threads is not cached: %s", err_message());
    }
    mem_free(&cache);
    return err;
}

err_t thread_choice_make(const thread_request_t *request, thread_choice_t *out)
{
    static const char what[] = "choosing the number of threads";
    runtime_t *runtime = request->runtime;
    comm_t *comm = runtime->comm;
    int32_t limit = 0;
    *out = (thread_choice_t){.from = "share"};
    watchdog_phase("%s", what);
    err_t err = comm->rank == 0 ? choose_on_rank_0(request, out, &limit) : ERR_OK;
    /* The others sleep: rank 0 may need their cores. */
    TRY(comm_barrier_asleep(comm, what));
    if (limit == runtime->n_cpus) limit = 0; /* another rank's share may be larger */
    TRY(comm_decide(comm, err, &limit, sizeof limit, what));
    TRY(comm_broadcast(comm, out, sizeof *out, 0, what));
    const int n = limit > 0 && limit < runtime->n_cpus ? limit : runtime->n_cpus;
    return comm_agree(comm, runtime_set_threads(runtime, n), what);
}

/* Nothing is printed while threads are measured, so that the header follows soon. */
static const double longest_sec = 3;

err_t trainer_set_threads(trainer_t *t)
{
    const train_options_t *o = t->options;
    runtime_t *runtime = &t->runtime;
    /* oneDNN's sums depend on the number of threads, so a resumed run keeps the checkpoint's. */
    const bool given = o->runtime.threads > 0 && train_options_given(o, "threads");
    const bool saved = t->saving.saved_threads > 0 && !given;
    const int n = narrow_int(saved ? t->saving.saved_threads : o->runtime.threads);
    const bool repeats = strcmp(o->algorithms, "measure") != 0 && strcmp(o->algorithms, TRAIN_BY_RULE) != 0;
    if (n == 0 && !t->saving.keeps_bits && !repeats) {
        thread_request_t request = {.runtime = runtime,
                                    .graph = t->model.graph,
                                    .n = train_first_part(&t->input, t->comm->size),
                                    .limit_sec = fmin(o->measure_sec, longest_sec)};
        TRY(thread_choice_make(&request, &t->model.threads));
    } else {
        snprintf(t->model.threads.from, sizeof t->model.threads.from, "%s",
                 saved    ? "checkpoint"
                 : given  ? "option"
                 : n == 0 ? "share"
                          : "fixed");
        if (saved && n > runtime->n_allowed_cpus)
            log_warn(
                "the checkpoint's %d threads per rank exceed the %d CPUs that a rank may use: expect lower speed; "
                "with --threads %d the results differ in the last digits",
                n, runtime->n_allowed_cpus, runtime->n_cpus);
        err_t err = n > 0 ? runtime_set_threads(runtime, n) : ERR_OK;
        TRY(comm_agree(t->comm, err, "setting the number of threads"));
    }
    t->input.n_threads = prefetcher_threads(&t->runtime, t->input.dataset, t->options->loader.threads);
    /* Checkpoints keep the number of threads if all ranks have the same. */
    int64_t most[2] = {t->runtime.n_threads, -t->runtime.n_threads};
    TRY(comm_allreduce(t->comm, most, 2, DTYPE_I64, COMM_MAX, "comparing the numbers of threads"));
    t->model.n_threads = most[0] == -most[1] ? most[0] : 0;
    return ERR_OK;
}
