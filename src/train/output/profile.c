/* SPDX-License-Identifier: MIT */
/* The profile at the end of a run: phases of a step, layers relative to the hardware's peak, parts of a detector's
 * step, how the ranks share their CPUs, hints. Recording times is left to train/run/step.c and the executor. */
#include "train/output/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "text/figure.h"
#include "text/table.h"

static int64_t count_switches(void)
{
    struct rusage usage;
    if (!launch_owns_process()) return 0; /* of all ranks, in real time */
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

void cpu_watch_open(cpu_watch_t *watch)
{
    contention_open(&watch->contention);
    cpu_watch_restart(watch);
}

void cpu_watch_restart(cpu_watch_t *watch)
{
    contention_update(&watch->contention);
    watch->since_sec = clock_sec();
    watch->n_switches = count_switches();
}

void cpu_watch_close(cpu_watch_t *watch)
{
    contention_close(&watch->contention);
}

typedef struct rank_use {
    double wait_share, switches_per_sec, load;
    int host, n_threads, n_cpus;
} rank_use_t;

/* Of the host of rank `first`. */
static void add_host(const rank_use_t *all, int size, int first, cpu_use_t *out)
{
    int n_ranks = 0, n_threads = 0;
    for (int r = 0; r < size; r++) {
        if (all[r].host != all[first].host) continue;
        n_ranks++;
        n_threads += all[r].n_threads;
    }
    if (out->n_cpus > 0 && n_threads * out->n_cpus <= out->n_threads * all[first].n_cpus) return;
    out->n_ranks = n_ranks;
    out->n_threads = n_threads;
    out->n_cpus = all[first].n_cpus;
}

err_t cpu_use_gather(comm_t *comm, const cpu_watch_t *watch, int n_threads, int n_cpus, cpu_use_t *out)
{
    static const char what[] = "comparing CPU use";
    const double sec = clock_sec() - watch->since_sec;
    rank_use_t *all, mine = {.wait_share = contention_share(&watch->contention),
                             .host = comm->topo.host,
                             .n_threads = n_threads,
                             .n_cpus = n_cpus};
    if (sec > 0) mine.switches_per_sec = (double)(count_switches() - watch->n_switches) / sec;
    if (getloadavg(&mine.load, 1) != 1) mine.load = 0;
    *out = (cpu_use_t){.n_cpus = 0};
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, what, &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    for (int r = 0; err == ERR_OK && r < comm->size; r++) {
        if (all[r].wait_share > out->wait_share) out->wait_share = all[r].wait_share;
        if (all[r].load > out->load) out->load = all[r].load;
        out->switches_per_sec += all[r].switches_per_sec;
        add_host(all, comm->size, r, out);
    }
    mem_free(&all);
    return err;
}

static bool cpu_use_crowded(const cpu_use_t *use)
{
    return use->n_threads > use->n_cpus && use->n_cpus > 0;
}

bool cpu_use_short(const cpu_use_t *use)
{
    return cpu_use_crowded(use) || use->wait_share >= CPU_USE_SHORT;
}

void cpu_use_text(const cpu_use_t *use, char out[CPU_USE_TEXT_MAX])
{
    /* Threads then wait for each other's CPUs at every layer: a detector's step took four times as long on two
     * threads as on one at a load of 10 per CPU. */
    const bool threads_wait = use->n_threads > use->n_ranks && use->wait_share >= 0.5;
    int n = 0;
    out[0] = '\0';
    if (cpu_use_crowded(use))
        n = snprintf(out, CPU_USE_TEXT_MAX, "%d threads of %d rank%s share %d CPU%s", use->n_threads,
                     use->n_ranks, use->n_ranks > 1 ? "s" : "", use->n_cpus, use->n_cpus > 1 ? "s" : "");
    if (use->wait_share >= CPU_USE_SHORT)
        snprintf(out + n, CPU_USE_TEXT_MAX - (size_t)n,
                 "%sranks waited for a CPU %s of the time (%.0f involuntary switches/s, load %.1f)%s",
                 n ? "; " : "", figure_share(use->wait_share).text, use->switches_per_sec, use->load,
                 threads_wait ? "; try --threads 1" : "");
}

void cpu_use_json(const cpu_use_t *use, json_t *j)
{
    json_real(j, "cpu_wait_share", use->wait_share);
    json_real(j, "involuntary_switches_per_sec", use->switches_per_sec);
    json_real(j, "load", use->load);
}

void profile_parts_add(const graph_t *graph, const exec_cost_t *costs, int64_t n_steps,
                       profile_parts_t *parts)
{
    for (int i = 0; i < graph->n_nodes; i++)
        parts->part[rcnn_part(&graph->nodes[i])] +=
            (costs[i].forward_sec + costs[i].backward_sec) / (double)n_steps;
}

double profile_parts_other(const profile_parts_t *p)
{
    double rest = p->total - p->waiting;
    for (int i = 0; i < RCNN_PARTS; i++) rest -= p->part[i];
    return rest > 0 ? rest : 0;
}

enum { WAITING = RCNN_PARTS, OTHER, TOTAL, N_COLUMNS };

static double value_of(const profile_parts_t *p, int column)
{
    switch (column) {
    case WAITING:
        return p->waiting;
    case OTHER:
        return profile_parts_other(p);
    case TOTAL:
        return p->total;
    }
    return p->part[column];
}

static void add_row(table_t *t, const char *name, const double sec[N_COLUMNS])
{
    table_cell(t, "%s", name);
    for (int c = 0; c < N_COLUMNS; c++) table_cell(t, "%.3f", 1e3 * sec[c]);
}

/* Each column has its own quantiles: a row is not a rank. */
static err_t add_quantiles(table_t *t, const profile_parts_t *ranks, int n)
{
    static const char *const names[] = {"min", "median", "max"};
    double rows[3][N_COLUMNS], *column;
    TRY(mem_new_array(n, sizeof *column, "the profile", &column));
    for (int c = 0; c < N_COLUMNS; c++) {
        for (int r = 0; r < n; r++) column[r] = value_of(&ranks[r], c);
        stats_sort(column, n);
        for (int q = 0; q < 3; q++) rows[q][c] = stats_quantile(column, n, q / 2.0);
    }
    mem_free(&column);
    for (int q = 0; q < 3; q++) add_row(t, names[q], rows[q]);
    return ERR_OK;
}

void profile_parts_print(const profile_parts_t *ranks, int n_ranks)
{
    table_t t = {.columns = {[0] = {"rank", true},
                             [1 + WAITING] = {"waiting", .unit = "ms"},
                             [1 + OTHER] = {"other", .unit = "ms"},
                             [1 + TOTAL] = {"step", .unit = "ms"}},
                 .n_columns = 1 + N_COLUMNS,
                 .indent = 2,
                 .units_below = true};
    for (int i = 0; i < RCNN_PARTS; i++)
        t.columns[1 + i] = (table_column_t){rcnn_part_names[i], .unit = "ms"};
    for (int r = 0; r < n_ranks && n_ranks <= PROFILE_PARTS_ROWS; r++) {
        double sec[N_COLUMNS];
        char name[16];
        for (int c = 0; c < N_COLUMNS; c++) sec[c] = value_of(&ranks[r], c);
        snprintf(name, sizeof name, "%d", r);
        add_row(&t, name, sec);
    }
    if (n_ranks > PROFILE_PARTS_ROWS && add_quantiles(&t, ranks, n_ranks) != ERR_OK)
        log_warn("no parts by rank: %s", err_message());
    table_log(&t);
    table_free(&t);
}

void profile_parts_json(const profile_parts_t *ranks, int n_ranks, json_t *j)
{
    json_array_begin(j, "parts");
    for (int r = 0; r < n_ranks; r++) {
        json_object_begin(j, NULL);
        json_int(j, "rank", r);
        for (int i = 0; i < RCNN_PARTS; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s_sec", rcnn_part_names[i]);
            json_real(j, name, ranks[r].part[i]);
        }
        json_real(j, "host_sec", ranks[r].host);
        json_real(j, "exposed_comm_sec", ranks[r].waiting);
        json_real(j, "other_sec", profile_parts_other(&ranks[r]));
        json_real(j, "step_sec", ranks[r].total);
        json_object_end(j);
    }
    json_array_end(j);
}

static double layer_sec(const profile_layer_t *layer)
{
    return layer->pass[PROFILE_FORWARD].sec + layer->pass[PROFILE_BACKWARD].sec;
}

/* Insertion sort: layers are few. */
void profile_sort(profile_layer_t *layers, int n)
{
    for (int i = 1; i < n; i++) {
        profile_layer_t layer = layers[i];
        int at = i;
        for (; at > 0 && layer_sec(&layers[at - 1]) < layer_sec(&layer); at--) layers[at] = layers[at - 1];
        layers[at] = layer;
    }
}

/* Collective. Means over ranks and steps. */
static err_t average_ranks(comm_t *comm, double *values, int64_t n, int64_t n_steps)
{
    TRY(comm_allreduce(comm, values, n, DTYPE_F64, COMM_SUM, "gathering the profile"));
    for (int64_t i = 0; i < n; i++) values[i] /= (double)comm->size * (double)n_steps;
    return ERR_OK;
}

/* What is averaged of a layer, in this order. */
enum { LAYER_SEC, LAYER_FLOPS = PROFILE_PASSES, LAYER_WORK, LAYER_VALUES = LAYER_WORK + 3 * OP_PASS_COUNT };

static err_t gather_layers(comm_t *comm, const exec_t *exec, int64_t n_steps, profile_t *out)
{
    const graph_t *graph = exec_graph(exec);
    double *values = NULL;
    err_t err = mem_new_array(graph->n_nodes, LAYER_VALUES * sizeof *values, "the profile", &values);
    if (err == ERR_OK) err = mem_new_array(graph->n_nodes, sizeof *out->layers, "the profile", &out->layers);
    TRY_OUT(err, comm_agree(comm, err, "gathering the profile"));
    const exec_cost_t *costs = exec_costs(exec);
    out->n_layers = graph->n_nodes;
    for (int i = 0; i < out->n_layers; i++) {
        double *own = values + LAYER_VALUES * i;
        own[LAYER_SEC + PROFILE_FORWARD] = costs[i].forward_sec;
        own[LAYER_SEC + PROFILE_BACKWARD] = costs[i].backward_sec;
        own[LAYER_FLOPS] = 2 * (costs[i].forward_macs + costs[i].backward_macs);
        for (int k = 0; k < OP_PASS_COUNT; k++) {
            double *work = own + LAYER_WORK + 3 * k;
            work[0] = costs[i].pass[k].n_calls;
            work[1] = costs[i].pass[k].work.macs;
            work[2] = costs[i].pass[k].work.bytes;
        }
    }
    TRY_OUT(err, average_ranks(comm, values, LAYER_VALUES * (int64_t)out->n_layers, n_steps));
    for (int i = 0; i < out->n_layers; i++) {
        out->layers[i] = (profile_layer_t){.name = graph->nodes[i].name,
                                           .kind = graph->nodes[i].desc.kind,
                                           .algorithms = costs[i].algorithms};
        const double *own = values + LAYER_VALUES * i;
        for (int k = 0; k < PROFILE_PASSES; k++) out->layers[i].pass[k].sec = own[LAYER_SEC + k];
        out->layers[i].n_flops = own[LAYER_FLOPS];
        for (int k = 0; k < OP_PASS_COUNT; k++) {
            const double *work = own + LAYER_WORK + 3 * k;
            out->layers[i].work[k] = (exec_pass_t){work[0], {work[1], work[2]}};
        }
    }
    profile_sort(out->layers, out->n_layers);
out:
    mem_free(&values);
    return err;
}

/* The least seconds of a row. The shapes of its calls may differ: judging the mean call never gives more than the mean
 * of all calls judged one by one. Bytes are no bound while the caches can hold half of them. */
static double least_of(const yardstick_t *y, const profile_layer_t *layer, int row, bound_t *bound)
{
    const int first = row == PROFILE_FORWARD ? OP_FORWARD : OP_BACKWARD_DATA;
    const int last = row == PROFILE_FORWARD ? OP_FORWARD : OP_BACKWARD_WEIGHTS;
    double sec[BOUND_BYTES + 1] = {0};
    for (int i = first; i <= last; i++) {
        const exec_pass_t *w = &layer->work[i];
        bound_t by;
        if (w->n_calls <= 0) continue;
        const double flops = 2 * w->work.macs / w->n_calls, bytes = w->work.bytes / w->n_calls;
        const double least = yardstick_least_sec(y, flops, bytes < 2 * y->cache_bytes ? 0 : bytes, &by);
        sec[by] += least * w->n_calls;
    }
    *bound = sec[BOUND_PRODUCTS] <= 0 && sec[BOUND_BYTES] <= 0 ? BOUND_NONE
             : sec[BOUND_PRODUCTS] >= sec[BOUND_BYTES]         ? BOUND_PRODUCTS
                                                               : BOUND_BYTES;
    return sec[BOUND_PRODUCTS] + sec[BOUND_BYTES];
}

void profile_judge(profile_t *p)
{
    enum { MOST_RAISES = 64 };
    yardstick_t *y = &p->yardstick;
    *y = p->measured;
    for (int n = 0; n < MOST_RAISES; n++) {
        double most = 1;
        bound_t by = BOUND_NONE, bound;
        for (int i = 0; i < p->n_layers * PROFILE_PASSES; i++) {
            const profile_layer_t *layer = &p->layers[i / PROFILE_PASSES];
            const double sec = layer->pass[i % PROFILE_PASSES].sec;
            const double least = least_of(y, layer, i % PROFILE_PASSES, &bound);
            if (sec > 0 && least > most * sec) most = least / sec, by = bound;
        }
        if (by == BOUND_PRODUCTS) y->flops *= most;
        if (by == BOUND_BYTES) y->bytes_per_sec *= most;
        if (by == BOUND_NONE) break;
    }
    for (int i = 0; i < p->n_layers * PROFILE_PASSES; i++) {
        profile_layer_t *layer = &p->layers[i / PROFILE_PASSES];
        profile_pass_t *pass = &layer->pass[i % PROFILE_PASSES];
        pass->least_sec =
            fmin(pass->sec, least_of(y, layer, i % PROFILE_PASSES, &pass->bound)); /* rounding */
        if (pass->least_sec <= 0) pass->bound = BOUND_NONE;
    }
}

err_t profile_gather(comm_t *comm, const profile_run_t *run, profile_t *out)
{
    const profile_split_t *sums = run->sums;
    *out = (profile_t){
        .n_steps = run->n_steps, .n_ranks = comm->size, .times = run->times, .may_measure = run->may_measure};
    if (run->cpu) out->cpu = *run->cpu;
    /* The rank that is usually last waits the least. */
    out->sum_sec = sums->comm / (double)run->n_steps;
    /* In a step, caches are cold. */
    if (run->sum_sec > 0 && 3 * run->sum_sec < out->sum_sec) out->sum_sec = 3 * run->sum_sec;
    TRY(comm_allreduce(comm, &out->sum_sec, 1, DTYPE_F64, COMM_MIN, "gathering the profile"));
    double split[] = {sums->data,   sums->forward,   sums->backward, sums->comm,
                      sums->gather, sums->optimizer, sums->total};
    TRY(average_ranks(comm, split, sizeof split / sizeof split[0], run->n_steps));
    out->split = (profile_split_t){split[0], split[1], split[2], split[3], split[4], split[5], split[6]};
    TRY(gather_layers(comm, run->exec, run->n_layer_steps, out));
    if (rcnn_is(exec_graph(run->exec))) { /* the parts of each rank, not averaged */
        const double n = (double)run->n_steps, boxes = run->boxes_sec / n, masks = run->masks_sec / n;
        profile_parts_t mine = {.part = {[RCNN_PROPOSALS] = boxes, [RCNN_MASK] = masks},
                                .host = boxes + masks,
                                .waiting = sums->comm / n,
                                .total = sums->total / n};
        profile_parts_add(exec_graph(run->exec), exec_costs(run->exec), run->n_layer_steps, &mine);
        err_t err = mem_new_array(comm->size, sizeof mine, "the profile", &out->ranks);
        TRY(comm_agree(comm, err, "gathering the profile"));
        TRY(comm_allgather(comm, &mine, sizeof mine, out->ranks, "gathering the profile"));
    }
    TRY(yardstick_measure(comm, run->backend, exec_graph(run->exec)->compute, &out->measured));
    profile_judge(out);
    return ERR_OK;
}

void profile_free(profile_t *profile)
{
    mem_free(&profile->layers);
    mem_free(&profile->ranks);
}

double profile_layer_share(const profile_t *profile, const profile_layer_t *layer)
{
    return profile->split.total > 0 ? layer_sec(layer) / profile->split.total : 0;
}

double profile_layer_flops(const profile_layer_t *layer)
{
    return layer_sec(layer) > 0 ? layer->n_flops / layer_sec(layer) : 0;
}

double profile_pass_of_bound(const profile_pass_t *pass)
{
    return pass->bound != BOUND_NONE && pass->sec > 0 ? pass->least_sec / pass->sec : NAN;
}

profile_pass_t profile_layer_passes(const profile_layer_t *layer)
{
    const profile_pass_t *f = &layer->pass[PROFILE_FORWARD], *b = &layer->pass[PROFILE_BACKWARD];
    return (profile_pass_t){f->sec + b->sec, f->least_sec + b->least_sec,
                            f->least_sec >= b->least_sec ? f->bound : b->bound};
}

static const char *const bound_names[] = {[BOUND_PRODUCTS] = "products", [BOUND_BYTES] = "bytes"};
static const char *const row_names[PROFILE_PASSES] = {"forward", "backward"};

/* The algorithms of a row, "gemm, image"; "" if the operator has no choice. */
static void algorithms_text(const profile_layer_t *layer, int row, char *out, size_t n_bytes)
{
    const int first = row == PROFILE_FORWARD ? OP_FORWARD : OP_BACKWARD_DATA;
    const int last = row == PROFILE_FORWARD ? OP_FORWARD : OP_BACKWARD_WEIGHTS;
    const char *before = "";
    out[0] = '\0';
    for (int i = first; i <= last && layer->algorithms; i++) {
        const char *name = layer->algorithms->name[i];
        const size_t n = strlen(out);
        if (layer->work[i].n_calls <= 0 || !name[0] || strcmp(name, before) == 0) continue;
        snprintf(out + n, n_bytes - n, "%s%s", n ? ", " : "", name);
        before = name;
    }
}

/* Share of step time in memory passes between matrix products, excluding operators fused into a product.
 * `list`: the most expensive operators, "relu 12 %, pool2d 9 %". */
static double passes_share(const profile_t *p, char *list, size_t n_bytes)
{
    double share[OP_KIND_COUNT] = {0}, sum = 0;
    for (int i = 0; i < p->n_layers; i++)
        if (!op_traits(p->layers[i].kind)->products)
            share[p->layers[i].kind] += profile_layer_share(p, &p->layers[i]);
    for (int k = 0; k < OP_KIND_COUNT; k++) sum += share[k];
    list[0] = '\0';
    for (int n = 0; n < 3; n++) {
        int most = 0;
        for (int k = 1; k < OP_KIND_COUNT; k++)
            if (share[k] > share[most]) most = k;
        if (share[most] < 0.01) break;
        size_t used = strlen(list);
        snprintf(list + used, n_bytes - used, "%s%s %s", used ? ", " : "", op_traits((op_kind_t)most)->name,
                 figure_share(share[most]).text);
        share[most] = 0;
    }
    return sum;
}

/* The pass that could gain most by another algorithm. A pass that is slow because it waits for a CPU says nothing. */
static int hint_algorithm(const profile_t *p, char hint[PROFILE_HINT_MAX])
{
    double most = PROFILE_AWAY_SHARE * p->split.total;
    hint[0] = '\0';
    for (int i = 0; i < p->n_layers * PROFILE_PASSES && p->may_measure; i++) {
        const profile_layer_t *layer = &p->layers[i / PROFILE_PASSES];
        const profile_pass_t *pass = &layer->pass[i % PROFILE_PASSES];
        char names[2 * OP_ALGORITHM_MAX + 2];
        algorithms_text(layer, i % PROFILE_PASSES, names, sizeof names);
        if (!names[0] || pass->bound == BOUND_NONE || 2 * pass->least_sec > pass->sec) continue;
        if (pass->sec - pass->least_sec < most) continue;
        most = pass->sec - pass->least_sec;
        snprintf(
            hint, PROFILE_HINT_MAX,
            "%s %s reaches %s of what its %s allow, with %s: --algorithms measure times the alternatives",
            layer->name, row_names[i % PROFILE_PASSES], figure_share(profile_pass_of_bound(pass)).text,
            bound_names[pass->bound], names);
    }
    return hint[0] != '\0';
}

int profile_hints(const profile_t *p, char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX])
{
    int n = 0;
    if (!(p->split.total > 0)) return 0;
    double data = p->split.data / p->split.total, comm = p->split.comm / p->split.total;
    char list[120], cpu[CPU_USE_TEXT_MAX];
    double between = passes_share(p, list, sizeof list);
    cpu_use_text(&p->cpu, cpu);
    if (cpu_use_short(&p->cpu))
        snprintf(hints[n++], PROFILE_HINT_MAX, "short of CPU: %s; %s", cpu,
                 cpu_use_crowded(&p->cpu) ? "start fewer ranks, or lower --threads"
                                          : "other processes run on these CPUs");
    if (data >= PROFILE_DATA_SHARE)
        snprintf(hints[n++], PROFILE_HINT_MAX,
                 "%s of step time is waiting for data: leave CPUs to the loader (--threads), augment "
                 "less, or use faster storage",
                 figure_share(data).text);
    /* A step that is slow because ranks wait for each other or for a CPU says nothing about the allreduce. */
    if (comm >= PROFILE_COMM_SHARE && p->sum_sec / p->split.total >= comm / 2 && !cpu_use_short(&p->cpu))
        snprintf(hints[n++], PROFILE_HINT_MAX, "%s of step time is allreduce: try a larger --batch",
                 figure_share(comm).text);
    else if (comm >= PROFILE_COMM_SHARE)
        snprintf(hints[n++], PROFILE_HINT_MAX,
                 "%s of step time is waiting for slower ranks in the allreduce: %s", figure_share(comm).text,
                 cpu_use_short(&p->cpu) ? "they are short of CPU" : "--trace shows which ranks are late");
    if (!cpu_use_short(&p->cpu)) n += hint_algorithm(p, hints[n]);
    if (between >= PROFILE_PASSES_SHARE)
        snprintf(hints[n++], PROFILE_HINT_MAX,
                 "%s of step time is memory passes between products (%s): fusing or removing some gains "
                 "more than faster products",
                 figure_share(between).text, list);
    return n;
}

static double other_sec(const profile_split_t *s)
{
    double rest = s->total - s->data - s->forward - s->backward - s->comm - s->optimizer;
    return rest > 0 ? rest : 0;
}

static void log_rate(const char *what, double now, double measured, const char *unit, const char *about)
{
    char raised[64] = "";
    if (now > measured)
        snprintf(raised, sizeof raised, " (measured: %s)", figure_rate(measured / 1e9, unit).text);
    log_info("  %s: %s per rank%s, %s", what, figure_rate(now / 1e9, unit).text, raised, about);
}

static void log_layers(const profile_t *p)
{
    enum { NAME_WIDTH = 17 };
    const yardstick_t *y = &p->yardstick;
    char beyond[64];
    const int n = p->n_layers < PROFILE_TOP ? p->n_layers : PROFILE_TOP;
    bool bytes = false;
    table_t t = {.columns = {{"layer", true, .max_width = NAME_WIDTH},
                             {"pass", true},
                             {"time", .unit = "ms"},
                             {"of step"},
                             {"of bound"},
                             {"algorithm", true}},
                 .n_columns = 6,
                 .indent = 2};
    for (int i = 0; i < n; i++)
        for (int row = 0; row < PROFILE_PASSES; row++) {
            const profile_layer_t *layer = &p->layers[i];
            const profile_pass_t *pass = &layer->pass[row];
            char names[2 * OP_ALGORITHM_MAX + 2];
            bytes = bytes || pass->bound == BOUND_BYTES;
            if (row != PROFILE_FORWARD && !(pass->sec > 0)) continue;
            algorithms_text(layer, row, names, sizeof names);
            table_cell(&t, "%s", row == PROFILE_FORWARD ? layer->name : "");
            table_cell(&t, "%s", row_names[row]);
            table_cell(&t, "%.3f", 1e3 * pass->sec);
            table_cell(&t, "%s", figure_percent(p->split.total > 0 ? pass->sec / p->split.total : NAN).text);
            if (pass->bound == BOUND_NONE)
                table_cell(&t, "-");
            else
                table_cell(&t, "%s %4s", bound_names[pass->bound],
                           figure_share(profile_pass_of_bound(pass)).text);
            table_cell(&t, "%s", names[0] ? names : "-");
        }
    table_log(&t);
    table_free(&t);
    snprintf(beyond, sizeof beyond, "beyond %s of cache", figure_bytes(y->cache_bytes).text);
    if (y->flops > 0) log_rate("peak of products", y->flops, p->measured.flops, "GFLOP/s", y->flops_from);
    if (bytes && y->bytes_per_sec > 0)
        log_rate("peak of bytes", y->bytes_per_sec, p->measured.bytes_per_sec, "GB/s", beyond);
}

void profile_print(const profile_t *p, bool whole)
{
    const profile_split_t *s = &p->split;
    const bool halves = s->gather > 0; /* of an allreduce, with the update between them */
    const struct {
        const char *name;
        double sec;
        bool shown;
    } parts[] = {{"data wait", s->data, true},
                 {"forward", s->forward, true},
                 {"backward", s->backward, true},
                 {halves ? "reduce-scatter" : "exposed comm", s->comm - s->gather, true},
                 {"optimizer", s->optimizer, true},
                 {"allgather", s->gather, halves},
                 {"other", other_sec(s), true},
                 {"step", s->total, true}};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    table_t t = {.columns = {{NULL, true}}, .n_columns = 1, .indent = 2};
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].shown) t.columns[t.n_columns++].heading = parts[i].name;
    table_cell(&t, "ms");
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].shown) table_cell(&t, "%.3f", 1e3 * parts[i].sec);
    table_cell(&t, "%%");
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].shown) table_cell(&t, "%.1f", 100 * parts[i].sec / s->total);
    log_info("profile, mean of %lld steady step%s on %d rank%s%s", (long long)p->n_steps,
             p->n_steps > 1 ? "s" : "", p->n_ranks, p->n_ranks > 1 ? "s" : "",
             whole ? "" : " (--profile shows layers and hints)");
    table_log(&t);
    table_free(&t);
    int n_hints = profile_hints(p, hints);
    if (!whole) {
        /* The last of five lines. */
        if (n_hints > 0)
            log_info("  hint: %s", hints[0]);
        else if (p->n_layers > 0)
            log_info("  most expensive layer: %s (%s), %s of step", p->layers[0].name,
                     op_traits(p->layers[0].kind)->name,
                     figure_percent(profile_layer_share(p, &p->layers[0])).text);
        return;
    }
    if (p->ranks) profile_parts_print(p->ranks, p->n_ranks);
    log_layers(p);
    if (p->times) rank_times_print(p->times);
    for (int i = 0; i < n_hints; i++) log_info("  hint: %s", hints[i]);
}

static void json_layer(const profile_t *p, const profile_layer_t *layer, json_t *j)
{
    bool any = false; /* algorithms to choose */
    const profile_pass_t both = profile_layer_passes(layer);
    double n_flops = 0;
    for (int i = 0; i < OP_PASS_COUNT; i++) n_flops += 2 * layer->work[i].work.macs;
    json_object_begin(j, NULL);
    json_string(j, "name", layer->name);
    json_string(j, "operator", op_traits(layer->kind)->name);
    for (int i = 0; i < OP_PASS_COUNT && layer->algorithms; i++)
        any = any || (layer->work[i].n_calls > 0 && layer->algorithms->name[i][0]);
    if (any) json_object_begin(j, "algorithms");
    for (int i = 0; i < OP_PASS_COUNT && any; i++)
        if (layer->work[i].n_calls > 0 && layer->algorithms->name[i][0])
            json_string(j, op_pass_names[i], layer->algorithms->name[i]);
    if (any) json_object_end(j);
    json_real(j, "forward_sec", layer->pass[PROFILE_FORWARD].sec);
    json_real(j, "backward_sec", layer->pass[PROFILE_BACKWARD].sec);
    json_real(j, "share", profile_layer_share(p, layer));
    json_real(j, "gflops", profile_layer_flops(layer) / 1e9);
    if (p->yardstick.flops > 0)
        json_real(j, "share_of_peak", both.sec > 0 ? n_flops / both.sec / p->yardstick.flops : 0);
    json_real(j, "forward_least_sec", layer->pass[PROFILE_FORWARD].least_sec);
    json_real(j, "backward_least_sec", layer->pass[PROFILE_BACKWARD].least_sec);
    if (both.bound != BOUND_NONE) {
        json_string(j, "bound", bound_names[both.bound]);
        json_real(j, "share_of_bound", profile_pass_of_bound(&both));
    }
    json_object_end(j);
}

void profile_json(const profile_t *p, json_t *j)
{
    const profile_split_t *s = &p->split;
    const yardstick_t *y = &p->yardstick, *measured = &p->measured;
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    json_int(j, "steps", p->n_steps);
    json_int(j, "ranks", p->n_ranks);
    json_real(j, "step_sec", s->total);
    json_real(j, "data_wait_sec", s->data);
    json_real(j, "forward_sec", s->forward);
    json_real(j, "backward_sec", s->backward);
    json_real(j, "exposed_comm_sec", s->comm);
    if (s->gather > 0) json_real(j, "allgather_sec", s->gather);
    json_real(j, "optimizer_sec", s->optimizer);
    json_real(j, "other_sec", other_sec(s));
    json_real(j, "allreduce_sec", p->sum_sec);
    cpu_use_json(&p->cpu, j);
    if (y->flops > 0) {
        json_real(j, "peak_gflops", y->flops / 1e9);
        json_string(j, "peak_from", y->flops_from);
        json_real(j, "measured_peak_gflops", measured->flops / 1e9);
    }
    if (y->bytes_per_sec > 0) {
        json_real(j, "memory_gbs", y->bytes_per_sec / 1e9);
        json_real(j, "measured_memory_gbs", measured->bytes_per_sec / 1e9);
        json_real(j, "cache_bytes", y->cache_bytes);
    }
    json_array_begin(j, "layers");
    for (int i = 0; i < p->n_layers; i++) json_layer(p, &p->layers[i], j);
    json_array_end(j);
    if (p->ranks) profile_parts_json(p->ranks, p->n_ranks, j);
    if (p->times) rank_times_json(p->times, j);
    json_array_begin(j, "hints");
    for (int i = 0, n = profile_hints(p, hints); i < n; i++) json_string(j, NULL, hints[i]);
    json_array_end(j);
}
