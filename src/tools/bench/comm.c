/* SPDX-License-Identifier: MIT */
/* `dptrain bench comm`: its options, and the run over what the communicator offers. Prints in nccl-tests' form: where
 * every rank runs; a collective over all sizes, out of place and in place; the matrix of all pairs of ranks. */
#include "tools/bench/comm.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "text/figure.h"
#include "text/opt.h"
#include "tools/bench/cases.h"

/* "0-3,8" */
static void format_cpus(char *out, size_t n_bytes)
{
    cpu_set_t cpus;
    size_t used = 0;
    out[0] = '\0';
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return;
    for (int i = 0; i < CPU_SETSIZE && used + 16 < n_bytes; i++) {
        int last = i;
        if (!CPU_ISSET(i, &cpus)) continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) last++;
        used += (size_t)snprintf(out + used, n_bytes - used, last > i ? "%s%d-%d" : "%s%d", used ? "," : "",
                                 i, last);
        i = last;
    }
}

static void describe_place(const comm_session_t *s, comm_place_t *out)
{
    const backend_t *backend = s->bench->runtime.backend;
    const backend_device_t *gpu = backend->device ? backend->device() : NULL;
    memset(out, 0, sizeof *out);
    snprintf(out->host, sizeof out->host, "%s", s->bench->comm->topo.host_name);
    out->pid = getpid();
    out->device = gpu ? gpu->index : -1;
    if (gpu) {
        snprintf(out->where, sizeof out->where, "%s", gpu->pci);
        snprintf(out->name, sizeof out->name, "%s", gpu->name);
    } else {
        format_cpus(out->where, sizeof out->where);
        machine_cpu_name(out->name, sizeof out->name);
    }
}

/* Collective. Prints where every rank runs, and begins the file of --output-file. */
static err_t show_places(comm_session_t *s)
{
    comm_t *comm = s->bench->comm;
    comm_place_t mine, *all = NULL;
    describe_place(s, &mine);
    err_t err = mem_new_array(comm->size, sizeof *all, "the list of devices", &all);
    TRY(comm_agree(comm, err, "listing the devices"));
    err = comm_allgather(comm, &mine, sizeof mine, all, "listing the devices");
    if (err == ERR_OK && s->options->output_file) err = comm_json_open(s, all, &s->json);
    if (err == ERR_OK) bench_print("# Using devices");
    for (int r = 0; err == ERR_OK && r < comm->size; r++) {
        char device[24];
        const comm_place_t *p = &all[r];
        if (p->device >= 0)
            snprintf(device, sizeof device, "%2d", p->device);
        else
            snprintf(device, sizeof device, "%s", s->bench->runtime.backend->name);
        bench_print("#  Rank %2d Group %2d Pid %6d on %10s device %s [%s] %s", r, 0, p->pid, p->host, device,
                    p->where, p->name);
    }
    if (err == ERR_OK) bench_print("#");
    mem_free(&all);
    return err;
}

enum { AT_ONCE = 16 }; /* pairs measured alternately, under the same conditions */

typedef struct pairs {
    comm_session_t *session;
    comm_what_t what;
    int64_t count;
    int n;          /* ranks */
    double *gbs;    /* [n × n]; NaN: not measured */
    double *best;   /* [n × n]: GB/s of a disturbed pair's best sample; else NaN */
    topo_t *places; /* [n] */
} pairs_t;

typedef struct pair {
    int a, b;
    int64_t n_wrong;
    comm_call_t call;
} pair_t;

static bool next_pair(const pairs_t *p, int *a, int *b)
{
    if (++*b >= p->n) *b = ++*a + 1;
    return *b < p->n;
}

static err_t make_calls(pairs_t *p, pair_t *pairs, int n)
{
    comm_t *comm = p->session->bench->comm;
    bool in_place = !p->session->plan.out_of_place;
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < n; i++) {
        comm_what_t what = p->what;
        what.peer = comm->rank == pairs[i].a   ? pairs[i].b
                    : comm->rank == pairs[i].b ? pairs[i].a
                                               : comm->rank;
        err = comm_call_new(p->session, &what, p->count, in_place, &pairs[i].call);
        pairs[i].n_wrong = -1;
    }
    TRY(comm_agree(comm, err, "preparing pairs"));
    for (int i = 0; p->session->options->check && i < n; i++) {
        TRY(comm_call_check(&pairs[i].call, &pairs[i].n_wrong));
        p->session->n_wrong += pairs[i].n_wrong;
    }
    return ERR_OK;
}

static err_t pairs_measure(pairs_t *p)
{
    int a = 0, b = 0;
    bool more = next_pair(p, &a, &b);
    while (more) {
        pair_t pairs[AT_ONCE] = {0};
        int n = 0;
        for (; more && n < AT_ONCE; more = next_pair(p, &a, &b)) pairs[n++] = (pair_t){.a = a, .b = b};
        err_t err = make_calls(p, pairs, n);
        if (err == ERR_OK) {
            bench_work_t works[AT_ONCE] = {0};
            bench_result_t results[AT_ONCE];
            for (int i = 0; i < n; i++) works[i] = comm_call_work(&pairs[i].call, "all_pairs");
            err = bench_measure(p->session->bench, works, n, results);
            for (int i = 0; err == ERR_OK && i < n; i++) {
                int from = pairs[i].a, to = pairs[i].b;
                bool remote = p->places[from].host != p->places[to].host;
                comm_rate_t rate = comm_rate(p->session, &pairs[i].call, results[i].p50, remote);
                p->gbs[from * p->n + to] = p->gbs[to * p->n + from] = rate.busbw_gbs;
                if (results[i].disturbed)
                    p->best[from * p->n + to] = p->best[to * p->n + from] =
                        rate.busbw_gbs * results[i].p50 / results[i].min;
                p->session->n_points++;
                err = comm_record(&pairs[i].call, &results[i], &rate, pairs[i].n_wrong, from, to);
            }
            for (int i = 0; i < n; i++) bench_result_free(&results[i]);
        }
        for (int i = 0; i < n; i++) comm_call_free(&pairs[i].call);
        TRY(err);
    }
    return ERR_OK;
}

static void pairs_print_extreme(const pairs_t *p, const char *word, int at)
{
    int a = at / p->n, b = at % p->n;
    const double line_rate = p->places[a].host != p->places[b].host ? p->session->line_rate_gbs : 0;
    message_t more = {0};
    if (isfinite(p->best[at]))
        message_append(&more, " ! (best sample: %.2f)", p->best[at]);
    else if (line_rate > 0)
        message_append(&more, ", %.0f %% of the line rate", 100 * p->gbs[at] / line_rate);
    bench_print("# %s pair: rank %d (%s) and rank %d (%s), %.2f GB/s each way%s", word, a,
                p->places[a].host_name, b, p->places[b].host_name, p->gbs[at], more.text);
}

static void pairs_print_matrix(const pairs_t *p)
{
    enum { MAX_SHOWN = 96 };
    int slowest = -1, fastest = -1, n = p->n < MAX_SHOWN ? p->n : MAX_SHOWN;
    char headings[MAX_SHOWN][12];
    table_t table = {.columns = {{"rank", .min_width = 8}}, .n_columns = 1 + n, .comment = true};
    for (int b = 0; b < n; b++) {
        snprintf(headings[b], sizeof headings[b], "%d", b);
        table.columns[1 + b] = (table_column_t){.heading = headings[b], .min_width = 6};
    }
    for (int a = 0; a < p->n; a++) {
        table_cell(&table, "%d", a);
        for (int b = 0; b < p->n; b++) {
            int at = a * p->n + b;
            bool none = isnan(p->gbs[at]);
            if (b < n)
                table_cell(&table, none ? "-" : "%.2f%s", p->gbs[at], isfinite(p->best[at]) ? "!" : "");
            if (none) continue;
            if (slowest < 0 || p->gbs[at] < p->gbs[slowest]) slowest = at;
            if (fastest < 0 || p->gbs[at] > p->gbs[fastest]) fastest = at;
        }
    }
    table_log(&table);
    table_free(&table);
    if (n < p->n) bench_print("# columns from rank %d on are only in the records", n);
    if (slowest < 0) return;
    pairs_print_extreme(p, "slowest", slowest);
    pairs_print_extreme(p, "fastest", fastest);
}

/* Collective. The matrix of all pairs of ranks, at the largest size. */
static err_t time_all_pairs(comm_session_t *session, const comm_what_t *what)
{
    comm_t *comm = session->bench->comm;
    pairs_t p = {.session = session, .what = *what, .n = comm->size};
    int64_t n_all = (int64_t)p.n * p.n;
    p.count = comm_piece_count(what->test, session->sizes.max, what->type, p.n);
    if (p.count == 0) return ERR_OK;
    err_t err = mem_new_array(n_all, sizeof *p.gbs, "the matrix of pairs", &p.gbs);
    if (err == ERR_OK) err = mem_new_array(n_all, sizeof *p.best, "the matrix of pairs", &p.best);
    if (err == ERR_OK) err = mem_new_array(p.n, sizeof *p.places, "the hosts of ranks", &p.places);
    err = comm_agree(comm, err, "preparing pairs");
    if (err == ERR_OK)
        err = comm_allgather(comm, &comm->topo, sizeof comm->topo, p.places, "finding the hosts of ranks");
    if (err == ERR_OK) {
        for (int64_t i = 0; i < n_all; i++) p.gbs[i] = p.best[i] = NAN;
        bench_print("# all_pairs: GB/s each way while two ranks swap %lld bytes of %s and the others wait",
                    (long long)comm_message_bytes(what->test, p.count, what->type, p.n),
                    collective_type_names[what->type]);
        err = pairs_measure(&p);
        if (err == ERR_OK || session->bench->interrupted) pairs_print_matrix(&p);
    }
    mem_free(&p.places);
    mem_free(&p.best);
    mem_free(&p.gbs);
    return err;
}

static void half_cells(const comm_half_t *h, table_t *table)
{
    double us = h->result.p50 * 1e6;
    if (!h->wanted) {
        for (int i = 0; i < 4; i++) table_cell(table, "N/A");
        return;
    }
    table_cell(table, us >= 10000 ? "%.0f" : us >= 100 ? "%.1f" : "%.2f", us);
    table_cell(table, "%.2f", h->rate.algbw_gbs);
    table_cell(table, "%.2f", h->rate.busbw_gbs);
    table_cell(table, h->n_wrong >= 0 ? "%lld" : "N/A", (long long)h->n_wrong);
}

/* Collective. Measures both halves alternately, under the same conditions. */
static err_t measure_halves(comm_session_t *s, const comm_what_t *what, comm_half_t halves[2])
{
    bench_work_t works[2] = {0};
    bench_result_t results[2];
    char text[96];
    comm_half_t *wanted[2];
    int n = 0;
    snprintf(text, sizeof text, "%s of %lld bytes", comm_tests[what->test].name,
             (long long)halves[halves[0].wanted ? 0 : 1].call.n_bytes);
    for (int i = 0; i < 2; i++) {
        if (!halves[i].wanted) continue;
        works[n] = comm_call_work(&halves[i].call, text);
        wanted[n++] = &halves[i];
    }
    err_t err = bench_measure(s->bench, works, n, results);
    for (int i = 0; i < n; i++) wanted[i]->result = results[i];
    for (int i = 0; err == ERR_OK && i < n; i++) {
        comm_half_t *h = wanted[i];
        h->rate = comm_rate(s, &h->call, h->result.p50, s->bench->comm->topo.n_hosts > 1);
        s->busbw_sum += h->rate.busbw_gbs;
        s->n_busbw++;
        s->undisturbed_sum += h->result.disturbed ? 0 : h->rate.busbw_gbs;
        s->n_undisturbed += !h->result.disturbed;
        s->n_points++;
        err = comm_record(&h->call, &h->result, &h->rate, h->n_wrong, -1, -1);
    }
    return err;
}

/* Whether results are compared. */
static bool is_checked(const comm_session_t *s, const comm_what_t *what)
{
    const comm_check_t check = {.kind = comm_tests[what->test].kind,
                                .type = what->type,
                                .op = what->op,
                                .size = s->bench->comm->size};
    return s->options->check && comm_check_is_exact(&check, what->lane->by->memory == COLLECTIVE_ON_DEVICE);
}

static err_t prepare_halves(comm_session_t *s, const comm_what_t *what, int64_t count, comm_half_t halves[2])
{
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < 2; i++)
        if (halves[i].wanted) err = comm_call_new(s, what, count, i == 1, &halves[i].call);
    TRY(comm_agree(s->bench->comm, err, "preparing a collective"));
    for (int i = 0; i < 2; i++) {
        halves[i].n_wrong = -1;
        if (!halves[i].wanted || !is_checked(s, what)) continue;
        TRY(comm_call_check(&halves[i].call, &halves[i].n_wrong));
        s->n_wrong += halves[i].n_wrong;
    }
    return ERR_OK;
}

/* "  out-of-place~*", "  in-place! (best 1.09 us)": marks of one half. */
static void half_marks(const comm_half_t *h, char *out, size_t n_bytes)
{
    char best[64] = "";
    out[0] = '\0';
    const char *mark = h->wanted ? bench_mark(&h->result) : "";
    if (h->wanted && h->result.disturbed)
        snprintf(best, sizeof best, " (best %s)", figure_time(h->result.min).text);
    if (mark[0] || h->rate.above_line_rate)
        snprintf(out, n_bytes, "  %s%s%s%s", h->call.in_place ? "in-place" : "out-of-place", mark,
                 h->rate.above_line_rate ? "*" : "", best);
}

/* Whether the table has the shares of the line rate: its data crosses the network. */
static bool shows_share(const comm_session_t *s)
{
    return s->line_rate_gbs > 0 && s->bench->comm->topo.n_hosts > 1;
}

static void comm_table_row(const comm_session_t *s, const comm_what_t *what, const comm_half_t halves[2])
{
    const comm_test_info_t *test = &comm_tests[what->test];
    const comm_call_t *call = &halves[halves[0].wanted ? 0 : 1].call;
    char marks[2][128], algorithm[128];
    table_t *table = s->table;
    collective_algorithm(s->bench->comm, what->lane->by, algorithm, sizeof algorithm);
    table_cell(table, "%lld", (long long)call->n_bytes);
    table_cell(table, "%lld", (long long)call->count);
    table_cell(table, "%s", collective_type_names[what->type]);
    table_cell(table, "%s", test->reduces ? collective_op_names[what->op] : "none");
    table_cell(table, "%d", test->rooted ? (int)s->options->root : -1);
    for (int i = 0; i < 2; i++) {
        half_cells(&halves[i], table);
        half_marks(&halves[i], marks[i], sizeof marks[i]);
    }
    for (int i = 0; i < 2 && shows_share(s); i++)
        if (!halves[i].wanted)
            table_cell(table, "N/A");
        else if (halves[i].result.disturbed)
            table_cell(table, "-");
        else
            table_cell(table, "%.0f", 100 * halves[i].rate.busbw_gbs / s->line_rate_gbs);
    table_cell(table, "%s%s%s", algorithm, marks[0], marks[1]);
    table_log(table);
}

static err_t comm_table_measure(comm_session_t *s, const comm_what_t *what, int64_t count)
{
    const collective_ops_t *by = what->lane->by;
    collective_kind_t kind = comm_tests[what->test].kind;
    comm_half_t halves[2] = {
        {.wanted = s->plan.out_of_place && by->out_of_place >> kind & 1},
        {.wanted = s->plan.in_place && by->in_place >> kind & 1},
    };
    err_t err = prepare_halves(s, what, count, halves);
    if (err == ERR_OK) err = measure_halves(s, what, halves);
    if (err == ERR_OK) comm_table_row(s, what, halves);
    if (err == ERR_OK) comm_json_row(s->json, what, (int)s->options->root, halves);
    for (int i = 0; i < 2; i++) {
        comm_call_free(&halves[i].call);
        bench_result_free(&halves[i].result);
    }
    return err;
}

/* Prints how sizes were rounded, and which were skipped. */
static void comm_table_rounding(const comm_session_t *s, const comm_what_t *what)
{
    char left_out[128] = "";
    size_t used = 0;
    bool rounded = false;
    int n = s->bench->comm->size, n_looked = 0;
    /* A range in small steps can be very long; its beginning shows the rule. */
    for (int64_t n_bytes = 0; n_looked++ < 1000 && comm_sizes_next(&s->sizes, &n_bytes);) {
        int64_t count = comm_piece_count(what->test, n_bytes, what->type, n);
        rounded |= count > 0 && comm_message_bytes(what->test, count, what->type, n) != n_bytes;
        if (count == 0 && used + 32 < sizeof left_out)
            used += (size_t)snprintf(left_out + used, sizeof left_out - used, " %lld", (long long)n_bytes);
    }
    const char *unit = what->test == COMM_TEST_ALLTOALLV ? "16 bytes per pair of ranks"
                       : comm_tests[what->test].in_parts ? "16 bytes per rank"
                                                         : "whole elements";
    if (rounded) bench_print("# sizes are rounded down to %s, as nccl-tests does", unit);
    if (left_out[0]) bench_print("# skipped, too small for %s:%s", unit, left_out);
}

/* This rank's partner in a bisection; itself for the last of an odd number of ranks. */
static int bisection_peer(const comm_t *comm)
{
    int half = comm->size / 2;
    return comm->rank < half ? comm->rank + half : comm->rank < 2 * half ? comm->rank - half : comm->rank;
}

/* All types and operations of a collective. */
static err_t comm_table_types(comm_session_t *s, comm_what_t what)
{
    const comm_plan_t *plan = &s->plan;
    const collective_ops_t *by = what.lane->by;
    int n_ops = comm_tests[what.test].reduces ? plan->n_ops : 1;
    for (int t = 0; t < plan->n_types; t++)
        for (int o = 0; o < n_ops; o++) {
            what.type = plan->types[t];
            what.op = plan->ops[o];
            if (!comm_has_type(by, what.type) || !comm_has_op(by, what.op)) continue; /* of `all` */
            if (what.test == COMM_TEST_ALL_PAIRS) {
                TRY(time_all_pairs(s, &what));
                continue;
            }
            if (o == 0) comm_table_rounding(s, &what);
            if (s->options->check && !is_checked(s, &what))
                bench_print("# %s, avg is not checked: %s multiplies by 1/%d first, which rounds",
                            collective_type_names[what.type], what.lane->by->title, s->bench->comm->size);
            int64_t n_bytes = 0;
            while (comm_sizes_next(&s->sizes, &n_bytes)) {
                int64_t count = comm_piece_count(what.test, n_bytes, what.type, s->bench->comm->size);
                if (count > 0) TRY(comm_table_measure(s, &what, count));
            }
        }
    return ERR_OK;
}

static void print_headings(comm_session_t *session, const comm_what_t *what)
{
    comm_t *comm = session->bench->comm;
    char library[128];
    collective_library(comm, what->lane->by, library, sizeof library);
    bench_print("# %s, %s, %s: %d ranks on %d host%s, medians", comm_tests[what->test].name,
                what->lane->by->name, library, comm->size, comm->topo.n_hosts,
                comm->topo.n_hosts > 1 ? "s" : "");
    if (session->line_rate_gbs > 0) bench_print("# line rate: %g GB/s one way", session->line_rate_gbs);
    bench_print("#");
    static const table_t headings = {
        .columns = {{"size", .unit = "(B)", .min_width = 12},
                    {"count", .unit = "(elements)", .min_width = 12},
                    {"type", .min_width = 8},
                    {"redop", .min_width = 6},
                    {"root", .min_width = 6},
                    {"time", .unit = "(us)", .min_width = 7, .group = "out-of-place"},
                    {"algbw", .unit = "(GB/s)"},
                    {"busbw", .unit = "(GB/s)"},
                    {"#wrong"},
                    {"time", .unit = "(us)", .min_width = 7, .group = "in-place"},
                    {"algbw", .unit = "(GB/s)"},
                    {"busbw", .unit = "(GB/s)"},
                    {"#wrong"},
                    {"out", .unit = "(%)", .group = "of line rate"},
                    {"in", .unit = "(%)"},
                    {"algorithm", true}},
        .n_columns = 16,
        .comment = true,
        .units_below = true};
    table_t *table = session->table;
    *table = headings;
    if (!shows_share(session)) table->columns[(table->n_columns -= 2) - 1] = headings.columns[15];
    table_log(session->table);
}

static void print_totals(const comm_session_t *session)
{
    if (session->n_points == 0 && session->n_wrong == 0)
        bench_print("# no point was measured");
    else if (session->options->check)
        bench_print("# Out of bounds values : %lld %s", (long long)session->n_wrong,
                    session->n_wrong ? "FAILED" : "OK");
    else
        bench_print("# Out of bounds values : not checked (--check 0)");
    if (session->n_busbw > 0)
        bench_print("# Avg bus bandwidth    : %g", session->busbw_sum / (double)session->n_busbw);
    if (session->n_undisturbed == 0 && session->n_busbw > 0)
        bench_print("# Avg of undisturbed   : -, all %lld points are disturbed (!)",
                    (long long)session->n_busbw);
    else if (session->n_undisturbed < session->n_busbw)
        bench_print("# Avg of undisturbed   : %g, without %lld of %lld points that are disturbed (!)",
                    session->undisturbed_sum / (double)session->n_undisturbed,
                    (long long)(session->n_busbw - session->n_undisturbed), (long long)session->n_busbw);
    if (session->options->expect_busbw > 0 && session->busbw_max > 0)
        bench_print("# Max bus bandwidth    : %g at %lld bytes, at least %g expected %s", session->busbw_max,
                    (long long)session->busbw_max_bytes, session->options->expect_busbw,
                    session->busbw_max < session->options->expect_busbw ? "FAILED" : "OK");
    if (session->above_line_rate)
        bench_print("# * above the line rate of %g GB/s: part of the data did not cross the network, or the "
                    "rate is wrong (--line-rate)",
                    session->line_rate_gbs);
    bench_print("#");
}

/* Collective. All sizes, types and operations of a collective. */
static err_t comm_table(comm_session_t *session, comm_test_t test, comm_lane_t *lane)
{
    comm_what_t what = {.test = test, .lane = lane, .peer = bisection_peer(session->bench->comm)};
    session->busbw_sum = session->busbw_max = 0;
    session->n_busbw = session->n_points = session->n_wrong = session->n_undisturbed = 0;
    session->undisturbed_sum = 0;
    session->above_line_rate = false;
    table_t table = {0};
    session->table = &table;
    if (test != COMM_TEST_ALL_PAIRS) print_headings(session, &what);
    if (test == COMM_TEST_BISECTION)
        bench_print("# rank i swaps with rank i + %d; rates are per rank, one way; the cut carries %d times "
                    "busbw each way",
                    session->bench->comm->size / 2, session->bench->comm->size / 2);
    err_t err = comm_table_types(session, what);
    if (err == ERR_OK || session->bench->interrupted) print_totals(session);
    message_t *missed = &session->bench->missed;
    if (err == ERR_OK && session->busbw_max > 0 && session->busbw_max < session->options->expect_busbw) {
        if (missed->n == 0) message_append(missed, "below --expect-busbw %g", session->options->expect_busbw);
        message_append(missed, "%s %s of %s reached %g GB/s", strchr(missed->text, ':') ? "," : ":",
                       comm_tests[test].name, lane->by->name, session->busbw_max);
    }
    table_free(&table);
    return err;
}

#define FIELD(name) offsetof(bench_comm_options_t, name)
static const char *const inplace_words[] = {"both", "in", "out", NULL};
static const opt_t comm_option_table[] = {
    {"test", OPT_STRING, FIELD(test), "all_reduce", 0, 0, NULL, "LIST",
     "collectives: all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, alltoall, alltoallv, "
     "hypercube, sendrecv, bisection, all_pairs; or all",
     OPT_COMMON},
    {"minbytes", OPT_SIZE, FIELD(min_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "minimum message size, in bytes; short form -b [8]", OPT_COMMON},
    {"maxbytes", OPT_SIZE, FIELD(max_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "maximum message size; short form -e [64M; 16M with --quick]", OPT_COMMON},
    {"stepfactor", OPT_INT, FIELD(step_factor), NULL, 1, 1e9, NULL, "N",
     "factor from one size to the next; short form -f [2; 8 with --quick]", OPT_COMMON},
    {"stepbytes", OPT_SIZE, FIELD(step_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "increment from one size to the next, instead of --stepfactor; short form -i", OPT_MORE},
    {"datatype", OPT_STRING, FIELD(datatype), "float", 0, 0, NULL, "LIST",
     "element types: int8, uint8, int32, uint32, int64, uint64, float, double, half, bfloat16; or all; short "
     "form -d",
     OPT_MORE},
    {"op", OPT_STRING, FIELD(op), "sum", 0, 0, NULL, "LIST",
     "reductions: sum, prod, max, min, avg; or all; short form -o", OPT_MORE},
    {"root", OPT_INT, FIELD(root), "0", 0, 1e9, NULL, "RANK",
     "root of broadcast, reduce, gather and scatter; short form -r", OPT_MORE},
    {"check", OPT_INT, FIELD(check), "1", 0, 1, NULL, "0|1",
     "verify every element once before each point; short form -c", OPT_MORE},
    {"communicator", OPT_STRING, FIELD(communicator), "auto", 0, 0, NULL, "LIST",
     "mpi: plain MPI; host: dptrain's allreduce in shared memory; nccl: between GPUs; auto: nccl where it "
     "sums gradients (--comm, --device), else mpi",
     OPT_MORE},
    {"inplace", OPT_CHOICE, FIELD(inplace), "both", 0, 0, inplace_words, NULL,
     "measure in-place calls, out-of-place calls, or both", OPT_MORE},
    {"line-rate", OPT_REAL, FIELD(line_rate_gbs), "0", 0, 1e6, NULL, "GB/s",
     "line rate of the network in one direction; results above it are flagged; 0: that of the hosts' "
     "fastest ports",
     OPT_MORE},
    {"expect-busbw", OPT_REAL, FIELD(expect_busbw), NULL, 1e-6, 1e6, NULL, "GB/s",
     "fail if the largest bus bandwidth of a test, over its sizes, types and operations, is lower", OPT_MORE},
    {"output-file", OPT_STRING, FIELD(output_file), NULL, 0, 0, NULL, "FILE",
     "also write the table as nccl-tests' JSON, for programs that read that; if FILE exists, to FILE.0, FILE.1, …; short form "
     "-J",
     OPT_MORE},
    {"inject", OPT_STRING, FIELD(inject), NULL, 0, 0, NULL, "RANK:ELEMENT",
     "flip a bit in the results of a rank before they are verified", OPT_HIDDEN},
};

void bench_comm_long_names(int argc, char **argv)
{
    static char names[][2][16] = {
        {"-b", "--minbytes"},  {"-e", "--maxbytes"}, {"-f", "--stepfactor"},
        {"-i", "--stepbytes"}, {"-d", "--datatype"}, {"-o", "--op"},
        {"-r", "--root"},      {"-c", "--check"},    {"-J", "--output-file"},
    };
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (strcmp(argv[i], names[k][0]) == 0) argv[i] = names[k][1];
}

static err_t comm_check_options(void *options)
{
    bench_comm_options_t *o = options;
    comm_sizes_t sizes = {o->min_bytes, o->max_bytes, o->step_factor, o->step_bytes};
    TRY(comm_sizes_resolve(&sizes, false));
    const comm_words_t words = {o->test, o->datatype, o->op, o->communicator, o->inplace};
    TRY(comm_plan_parse(&words, &o->plan));
    if (o->output_file && !o->output_file[0])
        RAISE(ERR_USAGE, "--output-file (-J) is empty; expected a file");
    if (o->output_file) TRY(comm_json_check(&o->plan, o->plan.n_names));
    char *end = NULL;
    o->inject_element = -1;
    if (!o->inject) return ERR_OK;
    o->inject_rank = strtoll(o->inject, &end, 10);
    if (end != o->inject && *end == ':') o->inject_element = strtoll(end + 1, &end, 10);
    if (o->inject_element < 0 || o->inject_rank < 0 || *end)
        RAISE(ERR_USAGE, "invalid --inject '%s': expected RANK:ELEMENT", o->inject);
    return ERR_OK;
}

/* A step of hypercube swaps between ranks that differ in one bit. */
static bool fits_ranks(comm_test_t test, int n)
{
    return test != COMM_TEST_HYPERCUBE || (n & (n - 1)) == 0;
}

/* Checks that need the number of ranks. */
static err_t check_ranks(const bench_comm_options_t *o, int n)
{
    if (o->root >= n)
        RAISE(ERR_USAGE, "invalid --root (-r) %lld: ranks are 0 to %d", (long long)o->root, n - 1);
    if (o->inject_element >= 0 && o->inject_rank >= n)
        RAISE(ERR_USAGE, "invalid --inject '%s': ranks are 0 to %d", o->inject, n - 1);
    for (int i = 0; i < o->plan.n_tests; i++)
        if (!o->plan.all_tests && !fits_ranks(o->plan.tests[i], n))
            RAISE(ERR_USAGE,
                  "--test %s needs 2, 4, 8, … ranks, but this job has %d; choose another -np or --test",
                  comm_tests[o->plan.tests[i]].name, n);
    return ERR_OK;
}

static err_t check_measured(const comm_session_t *s)
{
    if (s->n_measured > 0) return ERR_OK;
    RAISE(ERR_USAGE, "no size from %lld to %lld bytes is large enough for these types and ranks",
          (long long)s->sizes.min, (long long)s->sizes.max);
}

/* Collective. Each host's fastest port, minimum over hosts; 0 with one host, or if one reports none. */
static err_t find_line_rate(comm_session_t *s)
{
    machine_port_t ports[MACHINE_MAX_PORTS];
    comm_t *comm = s->bench->comm;
    s->line_rate_gbs = s->options->line_rate_gbs;
    if (s->line_rate_gbs > 0 || comm->topo.n_hosts == 1) return ERR_OK;
    int n = machine_ports(ports);
    for (int i = 0; i < n; i++)
        if (ports[i].bits_per_sec / 8e9 > s->line_rate_gbs) s->line_rate_gbs = ports[i].bits_per_sec / 8e9;
    return comm_allreduce(comm, &s->line_rate_gbs, 1, DTYPE_F64, COMM_MIN, "finding the line rate");
}

static err_t comm_run(bench_t *bench, const void *options)
{
    const bench_comm_options_t *o = options;
    comm_session_t s = {.bench = bench, .options = o, .plan = o->plan};
    s.sizes = (comm_sizes_t){o->min_bytes, o->max_bytes, o->step_factor, o->step_bytes};
    TRY(comm_agree(bench->comm, comm_sizes_resolve(&s.sizes, bench->options->quick), "choosing sizes"));
    TRY(comm_agree(bench->comm, check_ranks(o, bench->comm->size), "checking the options"));
    const collective_ops_t *offered[COLLECTIVE_MAX_OPS];
    int n_offered = collective_list(bench->comm, offered);
    TRY(comm_agree(bench->comm, comm_plan_settle(&s.plan, offered, n_offered), "choosing communicators"));
    err_t err;
    TRY_OUT(err, find_line_rate(&s));
    const comm_plan_t *plan = &s.plan;
    int64_t n_buffers = 0;
    for (int i = 0; i < plan->n_by; i++) n_buffers += comm_lane_buffers(&s, plan->by[i]);
    TRY_OUT(err, bench_check_memory(s.bench, n_buffers * s.sizes.max, "bench comm --maxbytes"));
    for (int i = 0; i < plan->n_by; i++) TRY_OUT(err, comm_lane_open(&s, plan->by[i], &s.lanes[i]));
    TRY_OUT(err, show_places(&s));
    for (int i = 0; i < plan->n_by; i++)
        for (int k = 0; k < plan->n_tests; k++) {
            const comm_test_t test = plan->tests[k];
            if (!comm_plan_has_test(plan, plan->by[i], test)) continue;
            if (fits_ranks(test, bench->comm->size))
                TRY_OUT(err, comm_table(&s, test, &s.lanes[i]));
            else
                bench_print("# %s: skipped, %d ranks are not a power of two", comm_tests[test].name,
                            bench->comm->size);
        }
    err = comm_agree(bench->comm, check_measured(&s), "checking that points were measured");
out:
    for (int i = 0; i < s.plan.n_by; i++) comm_lane_close(&s, &s.lanes[i]);
    err_info_t first;
    err_take(err, &first);
    const err_t written = comm_json_close(&s, err == ERR_OK || bench->interrupted, &s.json);
    if (err != ERR_OK) return err_put(&first);
    return o->output_file ? comm_agree(bench->comm, written, "writing --output-file (-J)") : ERR_OK;
}

const bench_case_t bench_comm = {
    .name = "comm",
    .summary = "collectives of MPI, NCCL and shared memory, as in nccl-tests",
    .min_ranks = 2,
    .table = comm_option_table,
    .n_options = sizeof comm_option_table / sizeof comm_option_table[0],
    .n_options_bytes = sizeof(bench_comm_options_t),
    .check = comm_check_options,
    .run = comm_run,
};
