/* SPDX-License-Identifier: MIT */
/* Least squares of α and 1/B. Reading the points from records is left to measured.c. */
#include "tools/forecast/fit.h"

#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "base/stats.h"

#define FIT_Z95 1.6449 /* 95 % quantile of the normal distribution */

/* The normal equations XᵀX c = Xᵀ1 of rows x / t. Columns are scaled to length 1, because α counts messages and 1/B
 * bytes. */
typedef struct system {
    int k;
    double a[NETWORK_MAX_TERMS][NETWORK_MAX_TERMS], b[NETWORK_MAX_TERMS], scale[NETWORK_MAX_TERMS];
} system_t;

static void fit_row(const network_t *network, const fit_point_t *point, double *x)
{
    const network_demand_t demand = network_demand(network, point->n_hosts, point->n_bytes);
    for (int r = 0; r < network->n_ranges; r++) {
        x[2 * r] = demand.messages[r] / point->sec;
        x[2 * r + 1] = demand.bytes[r] / point->sec;
    }
}

static void build_system(const network_t *network, const fit_point_t *points, int n, system_t *s)
{
    double x[NETWORK_MAX_TERMS];
    *s = (system_t){.k = 2 * network->n_ranges};
    for (int p = 0; p < n; p++) {
        fit_row(network, &points[p], x);
        for (int i = 0; i < s->k; i++) {
            s->b[i] += x[i];
            for (int j = 0; j < s->k; j++) s->a[i][j] += x[i] * x[j];
        }
    }
    for (int i = 0; i < s->k; i++) s->scale[i] = s->a[i][i] > 0 ? 1 / sqrt(s->a[i][i]) : 0;
    for (int i = 0; i < s->k; i++) {
        s->b[i] *= s->scale[i];
        for (int j = 0; j < s->k; j++) s->a[i][j] *= s->scale[i] * s->scale[j];
    }
}

/* The lower factor of a symmetric matrix; false if it is not positive definite. */
static bool cholesky(double a[NETWORK_MAX_TERMS][NETWORK_MAX_TERMS], int k)
{
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i][j];
            for (int m = 0; m < j; m++) sum -= a[i][m] * a[j][m];
            if (i == j && sum < 1e-9) return false;
            a[i][j] = i == j ? sqrt(sum) : sum / a[j][j];
        }
    return true;
}

static void solve(double l[NETWORK_MAX_TERMS][NETWORK_MAX_TERMS], int k, double *x)
{
    for (int i = 0; i < k; i++) {
        for (int m = 0; m < i; m++) x[i] -= l[i][m] * x[m];
        x[i] /= l[i][i];
    }
    for (int i = k - 1; i >= 0; i--) {
        for (int m = i + 1; m < k; m++) x[i] -= l[m][i] * x[m];
        x[i] /= l[i][i];
    }
}

static double squares(const network_t *network, const fit_point_t *points, int n)
{
    double sum = 0;
    for (int p = 0; p < n; p++) {
        const double sec = network_allreduce_sec(network, points[p].n_hosts, points[p].n_bytes, NULL),
                     error = (points[p].sec - sec) / points[p].sec;
        sum += error * error;
    }
    return sum;
}

static bool is_physical(const network_t *network)
{
    for (int r = 0; r < network->n_ranges; r++)
        if (network->range[r].alpha_sec < 0 || network->range[r].byte_sec <= 0) return false;
    return true;
}

/* Solves for the ranges of `network`; false if the points do not determine them. */
static bool solve_ranges(network_t *network, const fit_point_t *points, int n, system_t *s)
{
    build_system(network, points, n, s);
    if (n < s->k + 1 || !cholesky(s->a, s->k)) return false;
    solve(s->a, s->k, s->b);
    for (int r = 0; r < network->n_ranges; r++) {
        network->range[r].alpha_sec = s->b[2 * r] * s->scale[2 * r];
        network->range[r].byte_sec = s->b[2 * r + 1] * s->scale[2 * r + 1];
    }
    return true;
}

/* The best fit so far. */
typedef struct search {
    const fit_point_t *points;
    int n;
    network_t best;
    double criterion, squares; /* infinite: none yet */
} search_t;

static void try_ranges(search_t *search, network_t network)
{
    system_t s;
    if (!solve_ranges(&network, search->points, search->n, &s)) return;
    if (network.n_ranges > 1 && !is_physical(&network)) return;
    /* Below the precision of a measurement, a better fit is only a fit of the noise. */
    const double rss = squares(&network, search->points, search->n), n = search->n, floor = 1e-4 * n,
                 k = 3 * network.n_ranges - 1; /* with the ends of the ranges */
    if (n <= k + 1 && network.n_ranges > 1) return;
    const double criterion = n * log(fmax(rss, floor) / n) + 2 * k + 2 * k * (k + 1) / fmax(n - k - 1, 1);
    if (!(criterion < search->criterion)) return;
    search->criterion = criterion;
    search->squares = rss;
    search->best = network;
}

/* Tries one range, and all ranges that end at the size of a message of a point. */
static void search_algorithm(search_t *search, network_algorithm_t algorithm, const double *sizes,
                             int n_sizes)
{
    network_t network = {.algorithm = algorithm, .n_ranges = 1, .range = {{.max_bytes = HUGE_VAL}}};
    search->criterion = search->squares = HUGE_VAL;
    try_ranges(search, network);
    for (int i = 0; i < n_sizes - 1; i++) {
        network.n_ranges = 2;
        network.range[0].max_bytes = sizes[i];
        network.range[1].max_bytes = HUGE_VAL;
        try_ranges(search, network);
        for (int j = i + 1; j < n_sizes - 1; j++) {
            network.n_ranges = 3;
            network.range[1].max_bytes = sizes[j];
            network.range[2].max_bytes = HUGE_VAL;
            try_ranges(search, network);
        }
    }
}

/* Largest messages of the points, ascending, without repetition. */
static int list_sizes(const fit_point_t *points, int n, double *sizes)
{
    int n_sizes = 0;
    for (int i = 0; i < n; i++) sizes[i] = points[i].n_bytes / 2;
    stats_sort(sizes, n);
    for (int i = 0; i < n; i++)
        if (n_sizes == 0 || sizes[i] > sizes[n_sizes - 1]) sizes[n_sizes++] = sizes[i];
    return n_sizes;
}

/* Standard errors, from the residuals and those of the points, and the factor of the covariance. */
static void find_errors(const fit_point_t *points, int n, fit_t *fit)
{
    system_t s;
    double inverse[NETWORK_MAX_TERMS][NETWORK_MAX_TERMS], own = 0;
    network_t again = fit->network;
    const int k = 2 * again.n_ranges;
    solve_ranges(&again, points, n, &s);
    for (int p = 0; p < n; p++) own += points[p].error * points[p].error / n;
    const double variance = fit->residual * fit->residual * n / fmax(n - k, 1) + own;
    for (int i = 0; i < k; i++) {
        double unit[NETWORK_MAX_TERMS] = {0};
        unit[i] = 1;
        solve(s.a, k, unit);
        for (int j = 0; j < k; j++) inverse[j][i] = unit[j] * variance;
    }
    for (int i = 0; i < k; i++) fit->error[i] = sqrt(inverse[i][i]) * s.scale[i];
    memcpy(fit->covariance_factor, inverse, sizeof inverse);
    if (!cholesky(fit->covariance_factor, k)) /* tiny: independent errors */
        for (int i = 0; i < k; i++)
            for (int j = 0; j <= i; j++)
                fit->covariance_factor[i][j] = i == j ? sqrt(fmax(inverse[i][i], 0)) : 0;
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) fit->covariance_factor[i][j] *= s.scale[i];
}

/* The 95 % quantile of Student's distribution: the first terms of its expansion (Abramowitz and Stegun 1964, 26.7.5). */
static double student_95(double freedom)
{
    const double z = FIT_Z95, z3 = z * z * z;
    return z + (z3 + z) / (4 * freedom) + (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

/* Bandwidth alone, where α is zero within its error: only small messages would tell. */
static void leave_out_alpha(const fit_point_t *points, int n, fit_t *fit)
{
    network_range_t *range = &fit->network.range[0];
    double x[NETWORK_MAX_TERMS], sum = 0, squared = 0;
    fit->refused_alpha_sec = range->alpha_sec;
    range->alpha_sec = 0;
    for (int p = 0; p < n; p++) {
        fit_row(&fit->network, &points[p], x);
        sum += x[1];
        squared += x[1] * x[1];
    }
    range->byte_sec = sum / squared;
    fit->residual = sqrt(squares(&fit->network, points, n) / n);
}

static err_t check_physical(const fit_t *fit)
{
    const network_range_t *range = &fit->network.range[0];
    if (range->alpha_sec < 0)
        RAISE(ERR_DATA,
              "the fitted latency of the network is below zero (%.3g us): small messages are missing or "
              "disturbed; measure from 1 KiB up: dptrain bench comm --test all_reduce -b 1K",
              1e6 * range->alpha_sec);
    if (range->byte_sec <= 0)
        RAISE(
            ERR_DATA,
            "the fitted bandwidth of the network is not above zero: large messages take no longer than small "
            "ones; measure up to the size of the gradients: dptrain bench comm --test all_reduce -e 256M");
    return ERR_OK;
}

err_t fit_network(const fit_point_t *points, int n, network_algorithm_t assumed, fit_t *out)
{
    static const network_algorithm_t other[] = {NETWORK_TREE, NETWORK_RING};
    search_t search[2] = {{.points = points, .n = n}, {.points = points, .n = n}};
    double *sizes;
    *out = (fit_t){.n_points = n};
    TRY(mem_new_array(n + 1, sizeof *sizes, "sizes of messages", &sizes));
    const int n_sizes = list_sizes(points, n, sizes);
    for (int p = 0; p < n; p++) out->max_hosts = fmax(out->max_hosts, points[p].n_hosts);
    search_algorithm(&search[0], assumed, sizes, n_sizes);
    if (out->max_hosts > 2) search_algorithm(&search[1], other[assumed], sizes, n_sizes);
    mem_free(&sizes);
    if (n_sizes < FIT_MIN_POINTS || isinf(search[0].criterion))
        RAISE(
            ERR_DATA,
            "%d sizes of all_reduce between hosts do not determine latency and bandwidth; measure more: dptrain bench "
            "comm --test all_reduce -b 1K -e 64M -f 4",
            n_sizes);
    /* Two algorithms that fit alike are not told apart: a difference of the criterion above 6 is strong evidence
     * (Kass and Raftery 1995, "Bayes factors"). */
    const bool other_fits = out->max_hosts > 2 && search[1].criterion < search[0].criterion - 6;
    const search_t *best = &search[other_fits];
    out->algorithm_measured = out->max_hosts > 2 && fabs(search[1].criterion - search[0].criterion) > 6;
    out->network = best->best;
    out->residual = sqrt(best->squares / n);
    find_errors(points, n, out);
    out->student = student_95(fmax(n - 2 * out->network.n_ranges, 1));
    const double alpha = out->network.range[0].alpha_sec;
    if (alpha < 0 && alpha + out->student * out->error[0] >= 0) leave_out_alpha(points, n, out);
    return check_physical(out);
}

network_t fit_draw(const fit_t *fit, rng_t *rng)
{
    network_t network = fit->network;
    double z[NETWORK_MAX_TERMS];
    if (!fit->algorithm_measured && rng_below(rng, 2))
        network.algorithm = network.algorithm == NETWORK_RING ? NETWORK_TREE : NETWORK_RING;
    /* As wide as Student's interval. */
    for (int i = 0; i < 2 * network.n_ranges; i++) z[i] = fit->student / FIT_Z95 * rng_normal(rng);
    for (int i = 0; i < 2 * network.n_ranges; i++) {
        double *term = i % 2 ? &network.range[i / 2].byte_sec : &network.range[i / 2].alpha_sec;
        double drawn = *term;
        for (int j = 0; j <= i; j++) drawn += fit->covariance_factor[i][j] * z[j];
        *term = fmax(drawn, 0.01 * *term);
    }
    return network;
}

void fit_interval(const fit_t *fit, int range, double alpha_sec[2], double bytes_per_sec[2])
{
    const network_range_t *r = &fit->network.range[range];
    const double alpha = fit->student * fit->error[2 * range],
                 byte = fit->student * fit->error[2 * range + 1];
    alpha_sec[0] = fmax(r->alpha_sec - alpha, 0);
    alpha_sec[1] = r->alpha_sec + alpha;
    bytes_per_sec[0] = 1 / (r->byte_sec + byte);
    bytes_per_sec[1] = 1 / fmax(r->byte_sec - byte, 0.01 * r->byte_sec);
}
