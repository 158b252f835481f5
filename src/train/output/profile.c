/* SPDX-License-Identifier: MIT */
/* The profile at the end of a run: phases of a step, layers relative to the hardware's peak, hints.
 * Recording times is left to train/run/step.c and the executor. */
#include "train/output/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"

static double layer_sec(const profile_layer_t *layer)
{
    return layer->forward_sec + layer->backward_sec;
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

static err_t gather_layers(comm_t *comm, const exec_t *exec, int64_t n_steps, profile_t *out)
{
    const graph_t *graph = exec_graph(exec);
    double *values = NULL;
    err_t err = mem_new_array(graph->n_nodes, 3 * sizeof *values, "the profile", &values);
    if (err == ERR_OK) err = mem_new_array(graph->n_nodes, sizeof *out->layers, "the profile", &out->layers);
    TRY_OUT(err, comm_agree(comm, err, "gathering the profile"));
    const exec_cost_t *costs = exec_costs(exec);
    out->n_layers = graph->n_nodes;
    for (int i = 0; i < out->n_layers; i++) {
        values[3 * i] = costs[i].forward_sec;
        values[3 * i + 1] = costs[i].backward_sec;
        values[3 * i + 2] = 2 * (costs[i].forward_macs + costs[i].backward_macs);
    }
    TRY_OUT(err, average_ranks(comm, values, 3 * (int64_t)out->n_layers, n_steps));
    for (int i = 0; i < out->n_layers; i++)
        out->layers[i] = (profile_layer_t){graph->nodes[i].name, graph->nodes[i].desc.kind, values[3 * i],
                                           values[3 * i + 1], values[3 * i + 2]};
    profile_sort(out->layers, out->n_layers);
out:
    mem_free(&values);
    return err;
}

/* Collective. The parts of each rank, not averaged. */
static err_t gather_parts(comm_t *comm, const profile_run_t *run, profile_parts_t **out)
{
    static const char what[] = "gathering the profile";
    const graph_t *graph = exec_graph(run->exec);
    const double n = (double)run->n_steps, boxes = run->boxes_sec / n, masks = run->masks_sec / n;
    profile_parts_t mine = {.part = {[RCNN_PROPOSALS] = boxes, [RCNN_MASK] = masks},
                            .host = boxes + masks,
                            .waiting = run->sums->comm / n,
                            .total = run->sums->total / n};
    if (!rcnn_is(graph)) return ERR_OK;
    profile_parts_add(graph, exec_costs(run->exec), run->n_layer_steps, &mine);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof mine, "the profile", out), what));
    return comm_allgather(comm, &mine, sizeof mine, *out, what);
}

err_t profile_gather(comm_t *comm, const profile_run_t *run, profile_t *out)
{
    const profile_split_t *sums = run->sums;
    *out = (profile_t){.n_steps = run->n_steps, .n_ranks = comm->size, .times = run->times};
    if (run->cpu) out->cpu = *run->cpu;
    /* The rank that is usually last waits the least. */
    out->sum_sec = sums->comm / (double)run->n_steps;
    /* In a step, caches are cold. */
    if (run->sum_sec > 0 && 3 * run->sum_sec < out->sum_sec) out->sum_sec = 3 * run->sum_sec;
    TRY(comm_allreduce(comm, &out->sum_sec, 1, DTYPE_F64, COMM_MIN, "gathering the profile"));
    double split[] = {sums->data, sums->forward, sums->backward, sums->comm, sums->optimizer, sums->total};
    TRY(average_ranks(comm, split, sizeof split / sizeof split[0], run->n_steps));
    out->split = (profile_split_t){split[0], split[1], split[2], split[3], split[4], split[5]};
    TRY(gather_layers(comm, run->exec, run->n_layer_steps, out));
    TRY(gather_parts(comm, run, &out->ranks));
    return yardstick_measure(comm, run->backend, exec_graph(run->exec)->compute, &out->yardstick);
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

/* A step that is slow because ranks wait for each other or for a CPU says nothing about the allreduce. */
static int hint_comm(const profile_t *p, char hint[PROFILE_HINT_MAX])
{
    const double comm = p->split.comm / p->split.total, sum = p->sum_sec / p->split.total;
    if (comm < PROFILE_COMM_SHARE) return 0;
    if (sum >= comm / 2 && !cpu_use_short(&p->cpu))
        snprintf(hint, PROFILE_HINT_MAX, "%s of step time is allreduce: try a larger --batch",
                 figure_share(comm).text);
    else
        snprintf(hint, PROFILE_HINT_MAX, "%s of step time is waiting for slower ranks in the allreduce: %s",
                 figure_share(comm).text,
                 cpu_use_short(&p->cpu) ? "they are short of CPU" : "--trace shows which ranks are late");
    return 1;
}

int profile_hints(const profile_t *p, char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX])
{
    int n = 0;
    if (!(p->split.total > 0)) return 0;
    double data = p->split.data / p->split.total;
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
    n += hint_comm(p, hints[n]);
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

static void log_layers(const profile_t *p)
{
    int n = p->n_layers < PROFILE_TOP ? p->n_layers : PROFILE_TOP;
    table_t t = {.columns = {{"layer", true},
                             {"operator", true},
                             {"forward", .unit = "ms"},
                             {"backward", .unit = "ms"},
                             {"of step"},
                             {"GFLOP/s"},
                             {"of peak"}},
                 .n_columns = 7,
                 .indent = 2};
    for (int i = 0; i < n; i++) {
        const profile_layer_t *layer = &p->layers[i];
        double flops = profile_layer_flops(layer);
        table_cell(&t, "%s", layer->name);
        table_cell(&t, "%s", op_traits(layer->kind)->name);
        table_cell(&t, "%.3f", 1e3 * layer->forward_sec);
        table_cell(&t, "%.3f", 1e3 * layer->backward_sec);
        table_cell(&t, "%s", figure_percent(profile_layer_share(p, layer)).text);
        table_cell(&t, flops > 0 ? "%.1f" : "-", flops / 1e9);
        table_cell(
            &t, "%s",
            figure_percent(flops > 0 && p->yardstick.flops > 0 ? flops / p->yardstick.flops : NAN).text);
    }
    table_log(&t);
    table_free(&t);
    if (p->yardstick.flops > 0)
        log_info("  peak: %s per rank (%s), on all ranks at once",
                 figure_rate(p->yardstick.flops / 1e9, "GFLOP/s").text, p->yardstick.flops_from);
}

/* The last of five lines: the first hint, else the most expensive layer. */
static void log_most(const profile_t *p, const char *hint)
{
    if (hint)
        log_info("  hint: %s", hint);
    else if (p->n_layers > 0)
        log_info("  most expensive layer: %s (%s), %s of step", p->layers[0].name,
                 op_traits(p->layers[0].kind)->name,
                 figure_percent(profile_layer_share(p, &p->layers[0])).text);
}

void profile_print(const profile_t *p, bool whole)
{
    const profile_split_t *s = &p->split;
    double parts[] = {s->data, s->forward, s->backward, s->comm, s->optimizer, other_sec(s), s->total};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    table_t t = {.columns = {{NULL, true},
                             {"data wait"},
                             {"forward"},
                             {"backward"},
                             {"exposed comm"},
                             {"optimizer"},
                             {"other"},
                             {"step"}},
                 .n_columns = 1 + N_PARTS,
                 .indent = 2};
    table_cell(&t, "ms");
    for (int i = 0; i < N_PARTS; i++) table_cell(&t, "%.3f", 1e3 * parts[i]);
    table_cell(&t, "%%");
    for (int i = 0; i < N_PARTS; i++) table_cell(&t, "%.1f", 100 * parts[i] / s->total);
    log_info("profile, mean of %lld steady step%s on %d rank%s%s", (long long)p->n_steps,
             p->n_steps > 1 ? "s" : "", p->n_ranks, p->n_ranks > 1 ? "s" : "",
             whole ? "" : " (--profile shows layers and hints)");
    table_log(&t);
    table_free(&t);
    int n_hints = profile_hints(p, hints);
    if (!whole) {
        log_most(p, n_hints > 0 ? hints[0] : NULL);
        return;
    }
    if (p->ranks) profile_parts_print(p->ranks, p->n_ranks);
    log_layers(p);
    if (p->times) rank_times_print(p->times);
    for (int i = 0; i < n_hints; i++) log_info("  hint: %s", hints[i]);
}

static void json_layer(const profile_t *p, const profile_layer_t *layer, json_t *j)
{
    double flops = profile_layer_flops(layer);
    json_object_begin(j, NULL);
    json_string(j, "name", layer->name);
    json_string(j, "operator", op_traits(layer->kind)->name);
    json_real(j, "forward_sec", layer->forward_sec);
    json_real(j, "backward_sec", layer->backward_sec);
    json_real(j, "share", profile_layer_share(p, layer));
    json_real(j, "gflops", flops / 1e9);
    if (p->yardstick.flops > 0) json_real(j, "share_of_peak", flops / p->yardstick.flops);
    json_object_end(j);
}

void profile_json(const profile_t *p, json_t *j)
{
    const profile_split_t *s = &p->split;
    char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX];
    json_int(j, "steps", p->n_steps);
    json_int(j, "ranks", p->n_ranks);
    json_real(j, "step_sec", s->total);
    json_real(j, "data_wait_sec", s->data);
    json_real(j, "forward_sec", s->forward);
    json_real(j, "backward_sec", s->backward);
    json_real(j, "exposed_comm_sec", s->comm);
    json_real(j, "optimizer_sec", s->optimizer);
    json_real(j, "other_sec", other_sec(s));
    json_real(j, "allreduce_sec", p->sum_sec);
    cpu_use_json(&p->cpu, j);
    if (p->yardstick.flops > 0) json_real(j, "peak_gflops", p->yardstick.flops / 1e9);
    json_array_begin(j, "layers");
    for (int i = 0; i < p->n_layers; i++) json_layer(p, &p->layers[i], j);
    json_array_end(j);
    if (p->ranks) profile_parts_json(p->ranks, p->n_ranks, j);
    if (p->times) rank_times_json(p->times, j);
    json_array_begin(j, "hints");
    for (int i = 0, n = profile_hints(p, hints); i < n; i++) json_string(j, NULL, hints[i]);
    json_array_end(j);
}
