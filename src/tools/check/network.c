/* SPDX-License-Identifier: MIT */
/* The check `network`: MPI's latency and bandwidth between every pair of hosts in rounds, of pairs that look slow again, then of
 * all links concurrently and of an allreduce. */
#include "tools/check/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sim.h"
#include "base/stats.h"
#include "cluster/comm/collective.h"
#include "text/figure.h"
#include "tools/check/cases.h"

/* ---- Measuring ---- */
enum {
    N_SMALL = 24,
    N_LARGE = 4,
    MIDDLE_BYTES = 64 << 10,
    N_AGAIN = 6,
    MAX_AGAIN = 16,
    MAX_OTHERS = 4,
    MAX_PASSES = 32
};

/* If MIDDLE_BYTES take this long, they suffice to measure the bandwidth. */
static const double middle_sec = 5e-3;
/* Pairs that look slow are measured for longer than another process keeps a core. */
static const double again_sec = 0.1;
/* Slack of pairs_judge, in seconds and in seconds per byte: of sockets, beside processes that delay them, and of RDMA. */
static const double socket_slack[] = {50e-6, 5e-10}, busy_slack[] = {100e-6, 2e-9}, rdma_slack[] = {5e-6, 0};
static const double busy_share = 0.9; /* of a CPU that a rank gets while it measures */

/* What was measured of all pairs. */
typedef struct matrix {
    double *sec;   /* [n × n], of a message or of a byte; NaN: not measured */
    bool *suspect; /* [n × n]: looked slow, and was measured while all other hosts slept */
    double slack;  /* of pairs_judge */
} matrix_t;

enum { LATENCY, PER_BYTE, N_MATRICES };

/* The same on all ranks. */
typedef struct network {
    check_t *check;
    int n;        /* hosts */
    int *leaders; /* [n]: first rank of each host */
    matrix_t matrices[N_MATRICES];
    bool *alone;    /* [n × n]: measured while all other hosts slept */
    double end_sec; /* of measuring again */
    bool over;      /* it has passed on rank 0 */
} network_t;

/* Buffers for exchanges between two hosts. */
typedef struct probe {
    comm_t *comm;
    int64_t n_bytes;
    char *send, *recv;
} probe_t;

/* Best time of n_times exchanges. Synchronises only with the peer. */
static err_t exchange_bytes(const probe_t *probe, int peer, int64_t n_bytes, int n_times, double *best)
{
    collective_t *call = NULL;
    const collective_spec_t spec = {.kind = COLLECTIVE_EXCHANGE,
                                    .type = COLLECTIVE_INT8,
                                    .peer = peer,
                                    .count = n_bytes,
                                    .send = probe->send,
                                    .recv = probe->recv,
                                    .what = "exchanging between two hosts"};
    *best = INFINITY;
    TRY(collective_new(probe->comm, &spec, &call));
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < n_times; i++) {
        double start = clock_sec();
        err = collective_run(call);
        double took = clock_sec() - start;
        if (took < *best) *best = took;
    }
    collective_free(&call);
    return err;
}

/* Both ranks of a pair adopt the worse of their values, because a send may complete long before the peer has
 * received everything. A rank without a peer keeps its own. */
static err_t agree_on_worse(const probe_t *probe, int peer, double *values, int n)
{
    double ignored, theirs[2];
    size_t n_bytes = (size_t)n * sizeof *values;
    memcpy(probe->send, values, n_bytes);
    TRY(exchange_bytes(probe, peer, (int64_t)n_bytes, 1, &ignored));
    memcpy(theirs, probe->recv, n_bytes);
    for (int i = 0; i < n && peer != probe->comm->rank; i++)
        if (theirs[i] > values[i]) values[i] = theirs[i];
    return ERR_OK;
}

/* In the first pass all ranks make the same number of calls, because the watchdog counts them. */
static err_t measure_pair(const probe_t *probe, int peer, bool again, double times[2])
{
    double middle;
    /* The first may include waiting for the peer. */
    TRY(exchange_bytes(probe, peer, sizeof(double), 1 + sim_repeats(again ? 10 * N_SMALL : N_SMALL),
                       &times[0]));
    TRY(exchange_bytes(probe, peer, MIDDLE_BYTES, sim_repeats(again ? 2 * N_LARGE : N_LARGE), &middle));
    /* Both must choose the same size. */
    TRY(agree_on_worse(probe, peer, &middle, 1));
    int64_t n_bytes = middle > middle_sec ? MIDDLE_BYTES : probe->n_bytes;
    double fits = again_sec * MIDDLE_BYTES / (middle * (double)n_bytes);
    int n_times = !again || fits < N_LARGE ? N_LARGE : fits < 64 ? (int)fits : 64;
    TRY(exchange_bytes(probe, peer, n_bytes, sim_repeats(n_times), &times[1]));
    times[1] /= (double)n_bytes;
    return agree_on_worse(probe, peer, times, 2);
}

static void keep_best(double *matrix, int n, int a, int b, double sec)
{
    double *at = &matrix[a < b ? a * n + b : b * n + a];
    if (isnan(*at) || sec < *at) *at = sec;
}

static void keep_times(network_t *network, int partner, const double times[2])
{
    int me = network->check->host;
    for (int i = 0; i < N_MATRICES; i++)
        keep_best(network->matrices[i].sec, network->n, me, partner, times[i]);
}

/* Collective. */
static err_t share_matrices(const network_t *network)
{
    const int64_t n = (int64_t)network->n * network->n;
    for (int m = 0; m < N_MATRICES; m++) {
        double *sec = network->matrices[m].sec;
        for (int64_t i = 0; i < n; i++)
            if (isnan(sec[i])) sec[i] = INFINITY;
        TRY(comm_allreduce(network->check->comm, sec, n, DTYPE_F64, COMM_MIN, "comparing pairs of hosts"));
        for (int64_t i = 0; i < n; i++)
            if (isinf(sec[i])) sec[i] = NAN;
    }
    return ERR_OK;
}

static err_t measure_rounds(network_t *network, const probe_t *probe)
{
    const comm_t *comm = probe->comm;
    int me = network->check->host;
    bool leader = comm->topo.local_rank == 0;
    for (int round = 0; round < pairs_rounds(network->n); round++) {
        int partner = pairs_partner(network->n, round, me);
        double times[2];
        TRY(measure_pair(probe, leader ? network->leaders[partner] : comm->rank, false, times));
        if (leader && partner != me) keep_times(network, partner, times);
    }
    return share_matrices(network);
}

/* Collective. Measures one pair while all other ranks sleep, until rank 0 says that it took long enough. */
static err_t measure_again(network_t *network, const probe_t *probe, int a, int b)
{
    static const char what[] = "measuring a pair of hosts again";
    int me = network->check->host;
    network->over |= clock_sec() > network->end_sec;
    TRY(comm_broadcast(probe->comm, &network->over, sizeof network->over, 0, what));
    if (network->over) return ERR_OK;
    network->alone[a * network->n + b] = true;
    if (probe->comm->topo.local_rank == 0 && (me == a || me == b)) {
        int partner = me == a ? b : a;
        double times[2];
        TRY(measure_pair(probe, network->leaders[partner], true, times));
        keep_times(network, partner, times);
    }
    return comm_barrier_asleep(probe->comm, what);
}

/* A pair of hosts, a < b. */
typedef struct suspect {
    int a, b;
    double sec;
} suspect_t;

/* The slowest of the slow pairs, up to MAX_AGAIN; returns the number of all. */
static int find_suspects(const pairs_t *pairs, const double *matrix, suspect_t out[MAX_AGAIN])
{
    int n = 0;
    for (int a = 0, b = 0; pairs_next_slow(pairs, matrix, &a, &b); n++) {
        const double sec = matrix[a * pairs->n + b];
        int at = n < MAX_AGAIN ? n : MAX_AGAIN;
        for (; at > 0 && out[at - 1].sec < sec; at--)
            if (at < MAX_AGAIN) out[at] = out[at - 1];
        if (at < MAX_AGAIN) out[at] = (suspect_t){a, b, sec};
    }
    return n;
}

/* Collective. Measures the slowest pairs of a matrix again, and a few others with them: what is usual is to be measured as
 * calmly as what is slow. Adds the number of slow pairs to *n_slow. */
static err_t remeasure_slow(network_t *network, const probe_t *probe, matrix_t *matrix, int *n_slow)
{
    pairs_t pairs;
    suspect_t suspects[MAX_AGAIN];
    err_t err = pairs_judge(matrix->sec, network->n, matrix->slack, &pairs);
    TRY(comm_agree(probe->comm, err, "comparing pairs of hosts"));
    const int n = find_suspects(&pairs, matrix->sec, suspects);
    int n_others = n > 0 ? MAX_OTHERS : 0;
    *n_slow += n;
    for (int i = 0; err == ERR_OK && i < n && i < MAX_AGAIN; i++) {
        err = measure_again(network, probe, suspects[i].a, suspects[i].b);
        matrix->suspect[suspects[i].a * network->n + suspects[i].b] |= !network->over;
    }
    for (int64_t i = 0, end = (int64_t)network->n * network->n; err == ERR_OK && n_others > 0 && i < end;
         i++) {
        const int a = (int)(i / network->n), b = (int)(i % network->n);
        if (a >= b || network->alone[i] || !(matrix->sec[i] <= pairs.limit)) continue;
        err = measure_again(network, probe, a, b);
        n_others--;
    }
    pairs_free(&pairs);
    return err == ERR_OK ? share_matrices(network) : err;
}

/* More pairs may be slow than can be measured alone. If most of those that were have recovered, the rest only shared links, or
 * CPUs, with others, except those of a host most of whose pairs did not recover: their times count as the limit, which leaves the
 * quartile that it comes from where it is. Adds their number to *n. */
static err_t excuse_crowded(const network_t *network, const matrix_t *matrix, int *n)
{
    pairs_t pairs;
    int *excess = NULL; /* of slow suspects over others, by host */
    int all = 0;
    TRY(pairs_judge(matrix->sec, network->n, matrix->slack, &pairs));
    err_t err = mem_new_array(network->n, sizeof *excess, "hosts with slow pairs", &excess);
    for (int a = 0; err == ERR_OK && a < network->n; a++)
        for (int b = a + 1; b < network->n; b++) {
            const int64_t i = (int64_t)a * network->n + b;
            if (!matrix->suspect[i]) continue;
            const int more = matrix->sec[i] > pairs.limit ? 1 : -1;
            excess[a] += more;
            excess[b] += more;
            all += more;
        }
    for (int a = 0, b = 0; err == ERR_OK && all < 0 && pairs_next_slow(&pairs, matrix->sec, &a, &b);) {
        const int64_t i = (int64_t)a * network->n + b;
        if (matrix->suspect[i] || excess[a] > 1 || excess[b] > 1) continue;
        matrix->sec[i] = pairs.limit;
        ++*n;
    }
    pairs_free(&pairs);
    mem_free(&excess);
    return err;
}

/* Collective. Of both matrices, which are the same on all ranks. */
static err_t judge_crowded(network_t *network)
{
    check_t *check = network->check;
    err_t err = ERR_OK;
    int n = 0;
    for (int i = 0; err == ERR_OK && i < N_MATRICES; i++)
        err = excuse_crowded(network, &network->matrices[i], &n);
    if (n > 0)
        check_line(check, check_job(check), "shared links", CHECK_OK, NULL,
                   "%d pairs are slow only while all hosts send", n);
    return comm_agree(check->comm, err, "comparing pairs of hosts");
}

/* Collective. Other traffic is temporary, a bad cable is not: repeats slow pairs for as long as some of them
 * recover. */
static err_t measure_suspects(network_t *network, const probe_t *probe)
{
    /* With many hosts on a busy machine, each pair takes a second. */
    static const double again_secs[] = {20, 60, 60};
    int before = 0;
    network->end_sec = clock_sec() + again_secs[network->check->options->level - 1];
    for (int i = 0; i < MAX_PASSES; i++) {
        int n = 0;
        for (int m = 0; m < N_MATRICES; m++) TRY(remeasure_slow(network, probe, &network->matrices[m], &n));
        if (n == 0 || network->over || (i >= N_AGAIN - 1 && n >= before)) break;
        before = n;
    }
    return judge_crowded(network);
}

/* ", 31 % of the link's 10 Gbit/s": is this bandwidth normal? "" if the rate is unknown, or not of the link that was used. */
typedef struct share_text {
    char text[64];
} share_text_t;
static share_text_t share_of_link(const check_t *check, double bytes_per_sec)
{
    const double rate = check->link_bits_per_sec;
    share_text_t out = {""};
    if (rate > 0 && 8 * bytes_per_sec < 1.05 * rate)
        snprintf(out.text, sizeof out.text, ", %.10s of the link's %g Gbit/s",
                 figure_share(8 * bytes_per_sec / rate).text, 1e-9 * rate);
    return out;
}

/* Collective. The best time of a collective of all ranks, n_bytes each; *best is the slowest rank's. */
static err_t time_all(const probe_t *probe, collective_kind_t kind, int64_t n_bytes, const char *what,
                      double *best)
{
    collective_t *call = NULL;
    const collective_spec_t spec = {.kind = kind,
                                    .type = COLLECTIVE_FLOAT,
                                    .count = n_bytes / (int64_t)sizeof(float),
                                    .send = probe->send,
                                    .recv = probe->recv,
                                    .what = what};
    *best = INFINITY;
    TRY(comm_agree(probe->comm, collective_new(probe->comm, &spec, &call), what));
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < sim_repeats(N_LARGE); i++) {
        err = comm_barrier(probe->comm, what);
        double start = clock_sec();
        if (err == ERR_OK) err = collective_run(call);
        *best = fmin(*best, clock_sec() - start);
    }
    collective_free(&call);
    TRY(err);
    return comm_allreduce(probe->comm, best, 1, DTYPE_F64, COMM_MAX, what);
}

/* Collective. All ranks send to the next concurrently: links may be slower when shared. */
static err_t measure_ring(network_t *network, const probe_t *probe, int64_t n_bytes)
{
    check_t *check = network->check;
    double sec;
    TRY(time_all(probe, COLLECTIVE_SENDRECV, n_bytes, "sending around the ring", &sec));
    const double rate = (double)n_bytes / sec;
    check_line(check, check_job(check), "ring", CHECK_OK, NULL,
               "%s from each rank to the next, all at once%s", figure_bandwidth(rate).text,
               share_of_link(check, rate).text);
    return ERR_OK;
}

/* Collective. Sums as in training. What --expect-busbw judges is large enough for the bandwidth to be the limit. */
static err_t measure_sum(network_t *network, const probe_t *probe, int64_t n_bytes)
{
    enum { EXPECTED_BYTES = 64 << 20 };
    check_t *check = network->check;
    const int size = probe->comm->size;
    const double wanted = check->options->expect_busbw;
    probe_t own = *probe;
    double sec = 0;
    err_t err = ERR_OK;
    if (wanted > 0) {
        n_bytes = EXPECTED_BYTES;
        err = mem_new(EXPECTED_BYTES, "a sum", &own.send);
        if (err == ERR_OK)
            err = mem_new(EXPECTED_BYTES, "a sum", &own.recv);
        else
            own.recv = NULL;
    }
    err = comm_agree(probe->comm, err, "preparing to sum");
    memset(own.send, 0, (size_t)(err == ERR_OK ? n_bytes : 0)); /* floats that are added fast */
    if (err == ERR_OK) err = time_all(&own, COLLECTIVE_ALL_REDUCE, n_bytes, "summing", &sec);
    if (own.send != probe->send) mem_free(&own.send);
    if (own.recv != probe->recv) mem_free(&own.recv);
    TRY(err);
    /* As nccl-tests define it: independent of the number of ranks where links are the limit. */
    const double busbw = (double)n_bytes / sec * 2 * (size - 1) / size;
    char instead[48] = "";
    if (busbw < 1e9 * wanted) snprintf(instead, sizeof instead, " instead of %g GB/s", wanted);
    check_line(
        check, check_job(check), "allreduce", instead[0] ? CHECK_FAIL : CHECK_OK,
        "dptrain bench comm --test all_reduce measures more sizes; other rows name slow hosts and pairs",
        "bus bandwidth %s%s, with %s%s", figure_bandwidth(busbw).text, instead,
        figure_size((double)n_bytes).text, share_of_link(check, busbw).text);
    return ERR_OK;
}

/* Collective. */
static err_t measure_all(network_t *network, const probe_t *probe)
{
    double worst = 0;
    for (int64_t i = 0; i < (int64_t)network->n * network->n; i++)
        worst = fmax(worst, network->matrices[PER_BYTE].sec[i]);
    const double fits = worst > 0 ? 0.05 / worst : (double)probe->n_bytes;
    const int64_t n_bytes = fits < 4096                     ? 4096
                            : fits < (double)probe->n_bytes ? (int64_t)fits
                                                            : probe->n_bytes;
    TRY(measure_ring(network, probe, n_bytes));
    return measure_sum(network, probe, n_bytes);
}

/* On rank 0. */
static err_t judge_times(network_t *network)
{
    static const network_unit_t *const units[N_MATRICES] = {&network_latency, &network_bandwidth};
    for (int i = 0; i < N_MATRICES; i++) {
        const matrix_t *matrix = &network->matrices[i];
        pairs_t pairs;
        TRY(pairs_judge(matrix->sec, network->n, matrix->slack, &pairs));
        network_judge(network->check, &pairs, matrix->sec, units[i]);
        pairs_free(&pairs);
    }
    return ERR_OK;
}

/* Collective. Sockets cost CPU time per byte, which other processes delay; RDMA does not.
 *
 *   share  of a CPU that this rank got while it measured */
static err_t find_slack(network_t *network, double share)
{
    static const char *const rdma[] = {"UCX", "PSM2", "libfabric", "openib", "UCT"};
    char text[64];
    collective_transport(network->check->comm, text, sizeof text);
    int32_t mine[2] = {!network->check->comm->topo.simulated, share < busy_share};
    for (size_t i = 0; i < sizeof rdma / sizeof rdma[0]; i++)
        if (strstr(text, rdma[i])) mine[0] = 0;
    TRY(comm_allreduce(network->check->comm, mine, 2, DTYPE_I32, COMM_MAX, "comparing transports"));
    if (!mine[0]) network->check->link_bits_per_sec = 0; /* of another link than MPI uses */
    const double *slack = !mine[0] ? rdma_slack : mine[1] ? busy_slack : socket_slack;
    for (int i = 0; i < N_MATRICES; i++) network->matrices[i].slack = slack[i];
    return ERR_OK;
}

/* Collective. Measures every pair through MPI, then all ranks in a ring. */
static err_t network_measure(network_t *network)
{
    /* Each host sends several of these to every other; limits the total time with a thousand hosts. */
    int64_t n_bytes = ((int64_t)64 << 20) / network->n;
    comm_t *comm = network->check->comm;
    probe_t probe = {.comm = comm, .n_bytes = n_bytes > 1 << 20 ? 1 << 20 : n_bytes};
    if (probe.n_bytes < MIDDLE_BYTES) probe.n_bytes = MIDDLE_BYTES;
    err_t err = mem_new((size_t)probe.n_bytes, "a message to another host", &probe.send);
    if (err == ERR_OK) err = mem_new((size_t)probe.n_bytes, "a message from another host", &probe.recv);
    err = comm_agree(comm, err, "preparing to measure pairs of hosts");
    const double start = clock_sec(), used = clock_thread_sec();
    if (err == ERR_OK) err = measure_rounds(network, &probe);
    if (err == ERR_OK) err = find_slack(network, (clock_thread_sec() - used) / (clock_sec() - start));
    if (err == ERR_OK) err = measure_suspects(network, &probe);
    if (err == ERR_OK) err = measure_all(network, &probe);
    err_t said = err == ERR_OK && comm->rank == 0 ? judge_times(network) : ERR_OK;
    if (err == ERR_OK) err = comm_agree(comm, said, "comparing pairs of hosts");
    mem_free(&probe.send);
    mem_free(&probe.recv);
    return err;
}

/* ---- Judging ---- */
static const char host_advice[] =
    "check its cable, port and NIC (ethtool: speed, duplex, errors; ip -s link; "
    "tc qdisc) and the traffic of other jobs, or exclude the host";
static const char pair_advice[] =
    "check the path between the two: ip route get, traceroute, MTU (ping -M do -s "
    "8972), switch ports; dptrain bench comm --test all_pairs measures longer";
/* Switches are often connected by less than what their hosts have together. */
enum { GROUPS_FAR = 10 };
static const char group_advice[] = "expected between switches, otherwise check the links between them; hosts "
                                   "of one group listed consecutively keep most traffic inside the group";

static figure_t bandwidth_of(double sec)
{
    return figure_bandwidth(1 / sec);
}

const network_unit_t network_latency = {"latency", figure_time};
const network_unit_t network_bandwidth = {"bandwidth", bandwidth_of};

static check_status_t status_of(const pairs_t *pairs, double sec, bool apart)
{
    const double broken = apart ? PAIRS_APART * PAIRS_BROKEN * pairs->between + pairs->slack : pairs->broken;
    return sec > broken ? CHECK_FAIL : CHECK_WARN;
}

static void report_groups(check_t *check, const pairs_t *pairs, const network_unit_t *unit)
{
    char text[256] = "";
    size_t used = 0;
    for (int g = 0; g < pairs->n_groups && used < sizeof text - 80; g++) {
        int n = 0, first = -1;
        for (int h = 0; h < pairs->n; h++) {
            if (pairs->group[h] != g) continue;
            if (first < 0) first = h;
            n++;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s +%d", g ? ", " : "",
                                 check_host_name(check, first), n - 1);
    }
    check_line(check, check_job(check), unit->name,
               pairs->between > GROUPS_FAR * pairs->usual ? CHECK_WARN : CHECK_OK, group_advice,
               "%d groups (%s): %s between them, %s inside", pairs->n_groups, text,
               unit->figure(pairs->between).text, unit->figure(pairs->usual).text);
}

static void report_pairs(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit)
{
    int n = pairs->n, n_lines = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            const double value = sec[a * n + b];
            const bool apart = pairs->group[a] != pairs->group[b];
            if (!pairs->slow[a * n + b] || n_lines++ >= NET_MAX_LINES) continue;
            check_line(check, check_other_host(a), unit->name, status_of(pairs, value, apart), pair_advice,
                       "%s to %s; others have %s", unit->figure(value).text, check_host_name(check, b),
                       unit->figure(apart ? pairs->between : pairs->usual).text);
        }
    if (n_lines > NET_MAX_LINES)
        check_line(check, check_job(check), unit->name, CHECK_WARN, pair_advice, "%d more pairs are slow",
                   n_lines - NET_MAX_LINES);
}

/* --expect-gbps. */
static void judge_expected(check_t *check, int n, const double *sec)
{
    const double least = check->options->expect_gbps;
    int n_lines = 0, n_measured = 0;
    for (int a = 0; least > 0 && a < n; a++)
        for (int b = a + 1; b < n; b++) {
            n_measured += !isnan(sec[a * n + b]);
            if (8e-9 / sec[a * n + b] < least && n_lines++ < NET_MAX_LINES)
                check_line(check, check_other_host(a), "expected rate", CHECK_FAIL, host_advice,
                           "%.3g instead of %g Gbit/s to %s", 8e-9 / sec[a * n + b], least,
                           check_host_name(check, b));
        }
    if (least > 0 && n_lines == 0)
        check_line(check, check_job(check), "expected rate", CHECK_OK, NULL,
                   "%g Gbit/s or more, %d of %d pairs", least, n_measured, n * (n - 1) / 2);
}

void network_judge(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit)
{
    char range[128] = "";
    const figure_t median = unit->figure(pairs->median);
    if (pairs->n > 2)
        snprintf(range, sizeof range, "%s … %s (%.1f×), median ", unit->figure(pairs->greatest).text,
                 unit->figure(pairs->least).text, pairs->greatest / pairs->least);
    if (unit == &network_bandwidth) {
        const check_fact_t fact = {.name = unit->name,
                                   .advice = "the network was faster when the profile was written",
                                   .rule = CHECK_SPEED,
                                   .value = 1 / pairs->median};
        check_fact(check, check_job(check), &fact, "%s%s%s", range, median.text,
                   share_of_link(check, 1 / pairs->median).text);
        judge_expected(check, pairs->n, sec);
    } else {
        check_line(check, check_job(check), unit->name, CHECK_OK, NULL, "%s%s", range, median.text);
    }
    if (pairs->n_groups > 1) report_groups(check, pairs, unit);
    for (int h = 0; h < pairs->n; h++)
        if (pairs->slow_host[h])
            check_line(check, check_other_host(h), unit->name, status_of(pairs, pairs->of_host[h], false),
                       host_advice, "%s to the others, which have %s", unit->figure(pairs->of_host[h]).text,
                       unit->figure(pairs->usual).text);
    report_pairs(check, pairs, sec, unit);
}

/* ---- The check ---- */
static err_t network_alloc(network_t *network)
{
    int64_t n = network->n, n_all = n * n;
    TRY(mem_new_array(n, sizeof *network->leaders, "hosts", &network->leaders));
    TRY(mem_new_array(n_all, sizeof *network->alone, "pairs measured again", &network->alone));
    for (int m = 0; m < N_MATRICES; m++) {
        matrix_t *matrix = &network->matrices[m];
        TRY(mem_new_array(n_all, sizeof *matrix->sec, "times of pairs", &matrix->sec));
        TRY(mem_new_array(n_all, sizeof *matrix->suspect, "pairs that looked slow", &matrix->suspect));
        for (int64_t i = 0; i < n_all; i++) matrix->sec[i] = NAN;
    }
    check_leaders(network->check, network->leaders);
    return ERR_OK;
}

static err_t network_run(check_t *check)
{
    network_t network = {.check = check, .n = check->n_hosts};
    if (check->n_hosts == 1) {
        const bool expected = check->options->expect_gbps > 0 || check->options->expect_busbw > 0;
        check_line(
            check, check_job(check), "pairs of hosts", expected ? CHECK_FAIL : CHECK_SKIP,
            "--expect-gbps and --expect-busbw are about hosts; ranks of one: dptrain bench comm --expect-busbw",
            "one host");
        return ERR_OK;
    }
    err_t err = comm_agree(check->comm, network_alloc(&network), "preparing the network check");
    if (err == ERR_OK) err = network_measure(&network);
    if (err == ERR_OK) reach_report_counters(check);
    mem_free(&network.leaders);
    mem_free(&network.alone);
    for (int m = 0; m < N_MATRICES; m++) {
        mem_free(&network.matrices[m].sec);
        mem_free(&network.matrices[m].suspect);
    }
    return err;
}

const check_case_t check_network = {
    "network", "every pair of hosts through MPI: latency, bandwidth; all at once", true, network_run};
