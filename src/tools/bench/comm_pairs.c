/* SPDX-License-Identifier: MIT */
/* Measures every pair of ranks, up to 16 pairs alternately, and prints the matrix, the slowest and the
 * fastest pair. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/bench/comm_case.h"

enum { AT_ONCE = 16 }; /* pairs measured alternately, under the same conditions */

typedef struct pairs {
    comm_session_t *session;
    comm_what_t what;
    int64_t count;
    int n;          /* ranks */
    double *gbs;    /* [n × n]; NaN: not measured */
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

static err_t measure_calls(pairs_t *p, pair_t *pairs, int n)
{
    bench_work_t works[AT_ONCE] = {0};
    bench_result_t results[AT_ONCE];
    for (int i = 0; i < n; i++) works[i] = comm_call_work(&pairs[i].call, "all_pairs");
    err_t err = bench_measure(p->session->bench, works, n, results);
    for (int i = 0; err == ERR_OK && i < n; i++) {
        int a = pairs[i].a, b = pairs[i].b;
        bool remote = p->places[a].host != p->places[b].host;
        comm_rate_t rate = comm_rate(p->session, &pairs[i].call, results[i].p50, remote);
        p->gbs[a * p->n + b] = p->gbs[b * p->n + a] = rate.busbw_gbs;
        p->session->n_points++;
        err = comm_record(&pairs[i].call, &results[i], &rate, pairs[i].n_wrong, a, b);
    }
    for (int i = 0; i < n; i++) bench_result_free(&results[i]);
    return err;
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
        if (err == ERR_OK) err = measure_calls(p, pairs, n);
        for (int i = 0; i < n; i++) comm_call_free(&pairs[i].call);
        TRY(err);
    }
    return ERR_OK;
}

static void pairs_print_extreme(const pairs_t *p, const char *word, int at)
{
    int a = at / p->n, b = at % p->n;
    bench_print("# %s pair: rank %d (%s) and rank %d (%s), %.2f GB/s each way", word, a,
                p->places[a].host_name, b, p->places[b].host_name, p->gbs[at]);
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
            if (b < n) table_cell(&table, none ? "-" : "%.2f", p->gbs[at]);
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

err_t comm_all_pairs(comm_session_t *session, const comm_what_t *what)
{
    comm_t *comm = session->bench->comm;
    pairs_t p = {.session = session, .what = *what, .n = comm->size};
    int64_t n_all = (int64_t)p.n * p.n;
    p.count = comm_piece_count(what->test, session->sizes.max, what->type, p.n);
    if (p.count == 0) return ERR_OK;
    err_t err = mem_new_array(n_all, sizeof *p.gbs, "the matrix of pairs", &p.gbs);
    if (err == ERR_OK) err = mem_new_array(p.n, sizeof *p.places, "the hosts of ranks", &p.places);
    err = comm_agree(comm, err, "preparing pairs");
    if (err == ERR_OK)
        err = comm_allgather(comm, &comm->topo, sizeof comm->topo, p.places, "finding the hosts of ranks");
    if (err == ERR_OK) {
        for (int64_t i = 0; i < n_all; i++) p.gbs[i] = NAN;
        bench_print("# all_pairs: GB/s each way while two ranks swap %lld bytes of %s and the others wait",
                    (long long)comm_message_bytes(what->test, p.count, what->type, p.n),
                    collective_type_names[what->type]);
        err = pairs_measure(&p);
        if (err == ERR_OK || session->bench->interrupted) pairs_print_matrix(&p);
    }
    mem_free(&p.places);
    mem_free(&p.gbs);
    return err;
}
