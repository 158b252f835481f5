/* SPDX-License-Identifier: MIT */
/* Decides on rank 0 which algorithm each layer uses and how many threads a rank has, broadcasts the choices, and maintains the
 * caches of measurements. Measuring is left to compute/graph. */
#include "train/start/choose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/disk_wait.h"
#include "cluster/session/signals.h"
#include "cluster/watch/watchdog.h"
#include "compute/graph/measure.h"
#include "compute/graph/plan.h"
#include "text/figure.h"
#include "text/progress.h"

static void describe_libraries(const backend_t *backend, algorithm_choice_t *out)
{
    if (backend->describe_algorithms) backend->describe_algorithms(out->libraries, sizeof out->libraries);
}

/* Everything besides the operator that determines which algorithm is fastest. */
static void describe_machine(const runtime_t *runtime, const char *libraries,
                             char out[ALGORITHMS_MACHINE_MAX])
{
    char cpu[MACHINE_CPU_TEXT];
    machine_cpu_text(cpu);
    snprintf(out, ALGORITHMS_MACHINE_MAX, "%s; %s (%s%s%s); %d thread%s; format %d", cpu,
             runtime->backend->name, runtime->device, libraries[0] ? ", " : "", libraries, runtime->n_threads,
             runtime->n_threads > 1 ? "s" : "", ALGORITHMS_FORMAT);
}

static err_t cache_path(const char *machine, char out[FS_PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "algorithms-%016" PRIx64 ".txt",
             (uint64_t)XXH3_64bits(machine, strlen(machine)));
    return fs_cache_path(out, name);
}

static err_t read_cache(const char *path, const char *machine, algorithms_t *cache)
{
    char *text;
    TRY(measure_cache_read(path, ALGORITHMS_TEXT_MAX, &text));
    if (!text) return ERR_OK;
    err_t err = algorithms_read(cache, text, path, false);
    mem_free(&text);
    /* Two machines can have the same hash. */
    if (err == ERR_OK && strcmp(cache->machine, machine) != 0) algorithms_free(cache);
    return err;
}

static err_t write_cache(const char *path, const algorithms_t *cache)
{
    char *text;
    TRY(algorithms_write(cache, &text));
    err_t err = measure_cache_write(path, text);
    mem_free(&text);
    return err;
}

/* A progress line on a terminal; elsewhere a line at the start, and every few seconds. */
typedef struct teller {
    double limit_sec, last_sec;
    bool of_run;
} teller_t;

static void tell_progress(void *context, const measure_progress_t *p)
{
    static const double every_sec = 5;
    teller_t *teller = context;
    char text[160];
    const double now = clock_sec();
    const figure_t left = figure_duration(p->left_sec);
    if (progress_active()) {
        snprintf(text, sizeof text, "%s left  layer %d/%d, %.80s", left.text, p->n_done + 1, p->n_layers,
                 p->layer);
        progress_draw("measuring algorithms", p->n_done, p->n_layers, text);
        return;
    }
    if (p->n_done > 0 && now - teller->last_sec < every_sec) return;
    teller->last_sec = now;
    if (p->n_done == 0)
        log_note("  measuring the algorithms of %d layers, for at most %s%s", p->n_layers,
                 figure_time(teller->limit_sec).text, teller->of_run ? " (--measure-time)" : "");
    else
        log_note("  measuring layer %d of %d, %s, %s left", p->n_done + 1, p->n_layers, p->layer, left.text);
}

static void describe_measured(const measure_result_t *result, bool resumed, algorithm_choice_t *out)
{
    const bool any = result->n_measured > 0;
    const int n_known = result->n_measured + result->n_cached;
    int n;
    out->n_by_rule = result->n_left;
    out->measure_sec = any ? result->sec : 0;
    if (out->table.n == 0 || (!resumed && result->n_left > 0 && n_known == 0)) {
        snprintf(out->from, sizeof out->from, "fixed");
        snprintf(out->about, sizeof out->about, "%s",
                 out->table.n == 0 ? "no layer has a choice of algorithms"
                                   : "algorithms fixed (none measured in time, see --measure-time)");
        return;
    }
    snprintf(out->from, sizeof out->from, "%s", any ? "measured" : resumed ? "checkpoint" : "cache");
    if (any)
        n = snprintf(out->about, sizeof out->about, "algorithms measured (%s)",
                     figure_time(result->sec).text);
    else
        n = snprintf(out->about, sizeof out->about, "algorithms from %s",
                     resumed ? "the checkpoint" : "cache");
    if (result->n_left > 0)
        snprintf(out->about + n, sizeof out->about - (size_t)n,
                 "; %d of %d by rule, to be measured by a later new run", result->n_left,
                 result->n_left + n_known);
}

static err_t measure_choice(const algorithm_request_t *request, const char *machine, const algorithms_t *rule,
                            algorithm_choice_t *out)
{
    algorithms_t cache = {.n = 0};
    measure_result_t result;
    char path[FS_PATH_MAX];
    bool resumed = out->table.n > 0, cached = cache_path(machine, path) == ERR_OK;
    if (cached && read_cache(path, machine, &cache) != ERR_OK)
        log_warn("the algorithm cache is ignored: %s", err_message());
    snprintf(cache.machine, sizeof cache.machine, "%s", machine);
    snprintf(out->table.machine, sizeof out->table.machine, "%s", machine);
    teller_t teller = {.limit_sec = 0.4 * request->timeout_sec, .of_run = request->measure_sec != NULL};
    if (request->measure_sec && *request->measure_sec < teller.limit_sec)
        teller.limit_sec = *request->measure_sec;
    measure_options_t options = {.graph = request->graph,
                                 .backend = request->runtime->backend,
                                 .sizes = request->sizes,
                                 .n_sizes = request->n_sizes,
                                 .cache = &cache,
                                 .rule = rule,
                                 .near = request->measure_sec != NULL,
                                 .limit_sec = teller.limit_sec,
                                 .stopped = stop_requested,
                                 .progress = request->tells ? tell_progress : NULL,
                                 .progress_context = &teller};
    err_t err = algorithms_measure(&options, &out->table, &result);
    progress_clear_line();
    if (err == ERR_OK && result.n_measured > 0 && cached && write_cache(path, &cache) != ERR_OK)
        log_warn("the measured algorithms are not cached: %s", err_message());
    algorithms_free(&cache);
    TRY(err);
    if (result.n_dropped)
        log_warn("%d algorithms from %s no longer exist here and were replaced", result.n_dropped,
                 resumed ? "the checkpoint" : "the cache");
    describe_measured(&result, resumed, out);
    return ERR_OK;
}

/* Lines of the table that match a layer of this run. */
static int count_used(const algorithm_request_t *request, const algorithms_t *table)
{
    int n_used = 0;
    for (int e = 0; e < table->n; e++) {
        bool used = false;
        for (int k = 0; k < request->n_sizes; k++)
            for (int i = 0; i < request->graph->n_nodes && !used; i++) {
                op_desc_t desc;
                char key[OP_KEY_MAX];
                if (graph_batch_desc(request->graph, i, request->sizes[k].n, &desc) != ERR_OK) continue;
                op_key(&desc, key);
                used = strcmp(key, table->entries[e].key) == 0;
            }
        n_used += used;
    }
    return n_used;
}

static err_t read_table_file(const algorithm_request_t *request, algorithm_choice_t *out)
{
    char *text;
    err_t err = fs_read_text(request->option, ALGORITHMS_TEXT_MAX, &text);
    if (err != ERR_OK) return err_context(err, "--algorithms");
    err = algorithms_read(&out->table, text, request->option, true);
    mem_free(&text);
    if (err != ERR_OK) return err_context(err, "--algorithms");
    out->table.machine[0] = '\0'; /* a file holds on any machine */
    int n_used = count_used(request, &out->table);
    if (n_used == 0)
        log_warn("--algorithms %s: none of its %d lines matches a layer of this run at its batch sizes; the "
                 "backend's rule decides",
                 request->option, out->table.n);
    snprintf(out->from, sizeof out->from, "file");
    snprintf(out->about, sizeof out->about, "algorithms from a file (%d of %d lines apply to this run)",
             n_used, out->table.n);
    return ERR_OK;
}

/* The checkpoint's table; left empty if it is to be measured again because it comes from another machine. */
static err_t read_saved(const algorithm_request_t *request, const char *machine, bool measuring,
                        algorithms_t *table)
{
    if (!request->saved) return ERR_OK;
    TRY(algorithms_read(table, request->saved, "the checkpoint's algorithms", true));
    if (!measuring || strcmp(table->machine, machine) == 0) return ERR_OK;
    if (table->machine[0])
        log_note("          the checkpoint's algorithms are for %s; choosing again for %s", table->machine,
                 machine);
    algorithms_free(table);
    return ERR_OK;
}

/* For evaluation: the checkpoint's table from any machine, without algorithms that do not exist here. */
static err_t keep_saved(const algorithm_request_t *request, algorithm_choice_t *out)
{
    measure_result_t result = {0};
    measure_options_t options = {.graph = request->graph,
                                 .backend = request->runtime->backend,
                                 .sizes = request->sizes,
                                 .n_sizes = request->n_sizes,
                                 .limit_sec = -1};
    if (request->saved)
        TRY(algorithms_read(&out->table, request->saved, "the checkpoint's algorithms", true));
    if (out->table.n > 0) TRY(algorithms_measure(&options, &out->table, &result));
    if (result.n_dropped)
        log_warn("%d algorithms of the checkpoint are not available here; the backend's rule replaces them, "
                 "and results can differ from the training run's in the last digits",
                 result.n_dropped);
    snprintf(out->from, sizeof out->from, "%s", out->table.n > 0 ? "checkpoint" : "fixed");
    snprintf(out->about, sizeof out->about, "algorithms %s",
             out->table.n > 0 ? "from the checkpoint" : "fixed");
    return ERR_OK;
}

static err_t choose_for_fused(const algorithm_request_t *request, const algorithms_t *rule,
                              algorithm_choice_t *out)
{
    char machine[ALGORITHMS_MACHINE_MAX];
    if (!request->option) return keep_saved(request, out);
    bool measuring = strcmp(request->option, "measure") == 0;
    if (strcmp(request->option, "fixed") == 0) {
        snprintf(out->from, sizeof out->from, "fixed");
        snprintf(out->about, sizeof out->about, "algorithms fixed");
        return ERR_OK;
    }
    describe_libraries(request->runtime->backend, out);
    describe_machine(request->runtime, out->libraries, machine);
    if (!measuring && (request->option_given || !request->saved)) return read_table_file(request, out);
    TRY(read_saved(request, machine, measuring, &out->table));
    if (measuring) return measure_choice(request, machine, rule, out);
    snprintf(out->from, sizeof out->from, "checkpoint");
    snprintf(out->about, sizeof out->about, "algorithms from the checkpoint");
    return ERR_OK;
}

/* The rule is for sizes that the checkpoint lacks: --micro-batch may change. */
static err_t choose_by_rule(const algorithm_request_t *request, algorithm_choice_t *out)
{
    static const char source[] = "the checkpoint's algorithms";
    char machine[ALGORITHMS_MACHINE_MAX];
    algorithms_t *table = &out->table, saved = {.n = 0};
    describe_libraries(request->runtime->backend, out);
    describe_machine(request->runtime, out->libraries, machine);
    TRY(read_saved(request, machine, true, &saved));
    const bool resumed = saved.n > 0;
    algorithms_free(&saved);
    snprintf(out->from, sizeof out->from, "%s", resumed ? "checkpoint" : "rule");
    snprintf(out->about, sizeof out->about, "algorithms %s", resumed ? "from the checkpoint" : "by rule");
    snprintf(table->machine, sizeof table->machine, "%s", machine);
    TRY(request->rule(request->graph, request->runtime->backend, request->sizes, request->n_sizes, table));
    return resumed ? algorithms_read(table, request->saved, source, true) : ERR_OK;
}

/* Rank 0. */
static err_t choose_on_rank_0(const algorithm_request_t *request, algorithm_choice_t *out)
{
    const backend_t *backend = request->runtime->backend;
    algorithm_request_t fused = *request;
    algorithms_t rule = {.n = 0};
    graph_t *graph = NULL;
    err_t err;
    if (request->rule && strcmp(request->option, "rule") == 0) return choose_by_rule(request, out);
    if (request->rule)
        TRY_OUT(err, request->rule(request->graph, backend, request->sizes, request->n_sizes, &rule));
    TRY_OUT(err, graph_fuse(request->graph, backend, &graph));
    fused.graph = graph;
    err = choose_for_fused(&fused, &rule, out);
out:
    graph_free(&graph);
    algorithms_free(&rule);
    return err;
}

err_t algorithm_choice_make(const algorithm_request_t *request, algorithm_choice_t *out)
{
    static const char what[] = "choosing algorithms";
    comm_t *comm = request->runtime->comm;
    int64_t n_bytes = 0;
    *out = (algorithm_choice_t){.measure_sec = 0};
    watchdog_phase("%s", what);
    err_t err = comm->rank == 0 ? choose_on_rank_0(request, out) : ERR_OK;
    /* The others sleep: rank 0 may need their cores. */
    TRY(comm_barrier_asleep(comm, what));
    if (comm->rank == 0 && err == ERR_OK) err = algorithms_write(&out->table, &out->text);
    if (out->text) n_bytes = (int64_t)strlen(out->text) + 1;
    TRY(comm_decide(comm, err, &n_bytes, sizeof n_bytes, what));
    if (!out->text) err = mem_new((size_t)n_bytes, what, &out->text);
    TRY(comm_agree(comm, err, what));
    TRY(comm_broadcast(comm, out->text, n_bytes, 0, what));
    if (comm->rank != 0) err = algorithms_read(&out->table, out->text, "rank 0's algorithms", true);
    return comm_agree(comm, err, what);
}

void algorithm_choice_free(algorithm_choice_t *choice)
{
    algorithms_free(&choice->table);
    mem_free(&choice->text);
}

/* ---- Threads: the user's, the checkpoint's, or a measurement of how many pay for the model, whose cache is kept here ---- */
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
static err_t read_thread_cache(const char *path, char **out)
{
    if (measure_cache_read(path, CACHE_MAX, out) != ERR_OK)
        log_warn("the cache of thread numbers is ignored: %s", err_message());
    return *out ? ERR_OK : mem_strdup("", out);
}

/* Writes the text with a new number for the key, which goes first. */
static err_t write_thread_cache(const char *path, const char *text, const char *key, int n_threads)
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
static err_t choose_threads_on_rank_0(const thread_request_t *request, thread_choice_t *choice, int *out)
{
    const double start = clock_sec();
    const int most = request->runtime->n_cpus;
    char key[KEY_MAX], path[FS_PATH_MAX], *cache = NULL;
    if (most == 1 || !runtime_has_threads(request->runtime)) return ERR_OK;
    if (measure_step_macs(request->graph, request->n) > large_macs * most) return ERR_OK;
    TRY(describe(request, key));
    const bool cached = fs_cache_path(path, "threads.txt") == ERR_OK;
    TRY(cached ? read_thread_cache(path, &cache) : mem_strdup("", &cache));
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
            write_thread_cache(path, cache, key, *out) != ERR_OK)
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
    err_t err = comm->rank == 0 ? choose_threads_on_rank_0(request, out, &limit) : ERR_OK;
    /* The others sleep: rank 0 may need their cores. */
    TRY(comm_barrier_asleep(comm, what));
    if (limit == runtime->n_cpus) limit = 0; /* another rank's share may be larger */
    TRY(comm_decide(comm, err, &limit, sizeof limit, what));
    TRY(comm_broadcast(comm, out, sizeof *out, 0, what));
    const int n = limit > 0 && limit < runtime->n_cpus ? limit : runtime->n_cpus;
    return comm_agree(comm, runtime_set_threads(runtime, n), what);
}
