/* SPDX-License-Identifier: MIT */
/* The parts of a detector's step by rank: sums over layers, the table, the record. Gathering is left to profile.c. */
#include "train/output/profile_parts.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "base/table.h"

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

static void add_ranks(table_t *t, const profile_parts_t *ranks, int n)
{
    char name[16];
    for (int r = 0; r < n; r++) {
        double sec[N_COLUMNS];
        for (int c = 0; c < N_COLUMNS; c++) sec[c] = value_of(&ranks[r], c);
        snprintf(name, sizeof name, "%d", r);
        add_row(t, name, sec);
    }
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
    if (n_ranks <= PROFILE_PARTS_ROWS)
        add_ranks(&t, ranks, n_ranks);
    else if (add_quantiles(&t, ranks, n_ranks) != ERR_OK)
        log_warn("no parts by rank: %s", err_message());
    table_log(&t);
    table_free(&t);
}

static void json_rank(const profile_parts_t *p, int rank, json_t *j)
{
    json_object_begin(j, NULL);
    json_int(j, "rank", rank);
    for (int i = 0; i < RCNN_PARTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_sec", rcnn_part_names[i]);
        json_real(j, name, p->part[i]);
    }
    json_real(j, "host_sec", p->host);
    json_real(j, "exposed_comm_sec", p->waiting);
    json_real(j, "other_sec", profile_parts_other(p));
    json_real(j, "step_sec", p->total);
    json_object_end(j);
}

void profile_parts_json(const profile_parts_t *ranks, int n_ranks, json_t *j)
{
    json_array_begin(j, "parts");
    for (int r = 0; r < n_ranks; r++) json_rank(&ranks[r], r, j);
    json_array_end(j);
}
