/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The formulas of a forecast against counts made by hand or by brute force: messages of ring and tree, α and B from
 * made-up points, the slowest of N, the time line of a step, its interval. No device. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "tests/tap.h"
#include "tools/forecast/forecast.h"
#include "tools/forecast/slowest.h"
#include "train/learn/bucket.h"

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fabs(b);
}

/* α = 10 us up to 64 KiB and 50 us above; B = 1 and 10 GB/s. */
static const network_t two_ranges = {NETWORK_RING, 2, {{65536, 10e-6, 1e-9}, {HUGE_VAL, 50e-6, 1e-10}}};

static void test_network(void)
{
    network_t ring = {NETWORK_RING, 1, {{HUGE_VAL, 1e-3, 1e-6}}}, tree = ring;
    double latency;
    tree.algorithm = NETWORK_TREE;
    OK(near(network_allreduce_sec(&ring, 4, 4000, &latency), 6e-3 + 6e-3, 1e-12) &&
           near(latency, 6e-3, 1e-12),
       "ring, 4 hosts: 6 messages of a quarter");
    OK(near(network_allreduce_sec(&tree, 8, 8000, &latency), 6e-3 + 14e-3, 1e-12) &&
           near(latency, 6e-3, 1e-12),
       "tree, 8 hosts: twice a half, a quarter and an eighth");
    OK(near(network_allreduce_sec(&tree, 6, 4000, &latency), 6e-3 + 6e-3 + 8e-3, 1e-12),
       "tree, 6 hosts: as 4, and the whole before and after");
    OK(network_allreduce_sec(&ring, 1, 4000, &latency) == 0 && latency == 0, "one host: nothing");
    OK(near(network_allreduce_sec(&ring, 2, 4000, NULL), network_allreduce_sec(&tree, 2, 4000, NULL), 1e-12),
       "on two hosts both are the same");
    OK(near(network_allreduce_sec(&two_ranges, 2, 131072, NULL), 2 * (10e-6 + 65.536e-6), 1e-9) &&
           near(network_allreduce_sec(&two_ranges, 2, 131074, NULL), 2 * (50e-6 + 6.5537e-6), 1e-9),
       "the range is that of the messages, not of the sum");
    network_t twice = network_scaled(&ring, 2);
    OK(near(network_allreduce_sec(&twice, 4, 4000, NULL), 6e-3 + 3e-3, 1e-12),
       "twice the bandwidth, the same latency");
}

/* Points of a network with noise of this relative size. */
static int make_points(const network_t *network, const double *hosts, int n_hosts, double noise,
                       fit_point_t *out)
{
    rng_t rng = rng_new(7, RNG_TEST, 0);
    int n = 0;
    for (int h = 0; h < n_hosts; h++)
        for (double bytes = 1024; bytes <= 64 << 20; bytes *= 4, n++)
            out[n] = (fit_point_t){hosts[h], bytes,
                                   network_allreduce_sec(network, hosts[h], bytes, NULL) *
                                       (1 + noise * rng_normal(&rng)),
                                   noise};
    return n;
}

static void test_fit(void)
{
    static const double two[] = {2}, many[] = {2, 4, 8};
    const network_t tree = {NETWORK_TREE, 1, {{HUGE_VAL, 20e-6, 8e-10}}};
    fit_point_t points[64];
    fit_t fit;
    double alpha[2], rate[2];
    int n = make_points(&tree, two, 1, 0, points);
    OK(fit_network(points, n, NETWORK_TREE, &fit) == ERR_OK && fit.network.n_ranges == 1 &&
           near(fit.network.range[0].alpha_sec, 20e-6, 1e-6) &&
           near(fit.network.range[0].byte_sec, 8e-10, 1e-6),
       "α and B of exact points");
    OK(!fit.algorithm_measured && fit.max_hosts == 2, "two hosts do not tell ring from tree");
    n = make_points(&two_ranges, two, 1, 0.01, points);
    err_t err = fit_network(points, n, NETWORK_RING, &fit);
    OK(err == ERR_OK && fit.network.n_ranges == 2 && fit.network.range[0].max_bytes >= 16384 &&
           fit.network.range[0].max_bytes <= 131072 && near(fit.network.range[1].byte_sec, 1e-10, 0.05) &&
           near(fit.network.range[0].alpha_sec, 10e-6, 0.05),
       "two ranges of sizes from noisy points (%d, up to %g)", fit.network.n_ranges,
       fit.network.range[0].max_bytes);
    int inside = 0;
    for (int seed = 0; seed < 100; seed++) {
        rng_t rng = rng_new((uint64_t)seed, RNG_TEST, 1);
        n = make_points(&tree, two, 1, 0, points);
        for (int p = 0; p < n; p++) points[p].sec *= 1 + 0.05 * rng_normal(&rng), points[p].error = 0.01;
        if (fit_network(points, n, NETWORK_TREE, &fit) != ERR_OK) continue;
        fit_interval(&fit, 0, alpha, rate);
        inside += alpha[0] <= 20e-6 && 20e-6 <= alpha[1];
    }
    OK(inside >= 80, "the 90 %% interval of α contains it in %d of 100 recordings", inside);
    n = make_points(&tree, many, 3, 0.01, points);
    OK(fit_network(points, n, NETWORK_RING, &fit) == ERR_OK && fit.network.algorithm == NETWORK_TREE &&
           fit.algorithm_measured,
       "2, 4 and 8 hosts tell that it is a tree");
    for (int p = 0; p < n; p++) points[p].sec = 1e-9 * points[p].n_bytes - 2e-7;
    OK(fit_network(points, n / 3, NETWORK_RING, &fit) == ERR_DATA && strstr(err_message(), "below zero"),
       "a latency below zero is refused: %s", err_message());
    for (int p = 0; p < n; p++) points[p].sec = 1e-3 - 1e-13 * points[p].n_bytes;
    OK(fit_network(points, n / 3, NETWORK_RING, &fit) == ERR_DATA && strstr(err_message(), "bandwidth"),
       "a bandwidth below zero is refused: %s", err_message());
    n = make_points(&two_ranges, two, 1, 0, points);
    for (int p = 0; p < n; p++) points[p].sec = points[p].n_bytes * 1e-6 * (p % 2 ? 1.02 : 0.98) - 1e-5;
    err = fit_network(points + 4, n - 4, NETWORK_RING, &fit);
    OK(err == ERR_OK && fit.refused_alpha_sec < 0 && fit.network.range[0].alpha_sec == 0 &&
           near(fit.network.range[0].byte_sec, 1e-6, 0.02),
       "a latency below zero within its error counts as zero, and is told (%g)", fit.refused_alpha_sec);
    OK(fit_network(points, 2, NETWORK_RING, &fit) == ERR_DATA, "two sizes are refused: %s", err_message());
}

static void test_slowest(void)
{
    static const double three[] = {1, 2, 6};
    double sum = 0;
    OK(near(slowest_mean(three, 3, 1), 3, 1e-12), "of one rank: the mean");
    /* Of the nine pairs the slower: 1, 2 2 2, 6 6 6 6 6. */
    OK(near(slowest_mean(three, 3, 2), 37.0 / 9, 1e-12), "of two: as the nine pairs");
    for (int i = 0; i < 3; i++) sum += slowest_probability(i, 3, 1000);
    OK(near(sum, 1, 1e-12) && near(slowest_mean(three, 3, 1000), 6, 1e-9),
       "of a thousand: the largest sample");
}

static const double constant[] = {1};

static step_model_t model_of(const step_layer_t *layers, int n)
{
    step_model_t model = {.before_sec = 3,
                          .after_sec = 0.5,
                          .layers = layers,
                          .n_layers = n,
                          .spread = constant,
                          .n_spread = 1};
    for (int i = 0; i < n; i++) model.n_gradients += layers[i].n_floats;
    return model;
}

static void test_step(void)
{
    static const step_layer_t layers[] = {{1, 100}, {1, 0}, {2, 300}, {1, 50}};
    static const double spread[] = {0.8, 1, 1.2};
    /* A float takes 0.01 s on two hosts, a sum 0.2 s. */
    const network_t network = {NETWORK_RING, 1, {{HUGE_VAL, 0.1, 0.0025}}};
    step_model_t model = model_of(layers, 4);
    step_setting_t s = {
        .network = &network, .n_hosts = 2, .n_ranks = 2, .bytes_per_float = 4, .bucket_floats = 1};
    OK(near(step_alone_sec(&model), 8.5, 1e-12), "alone: all phases");
    OK(near(step_sec(&model, &s, 1), 8.5 + 4.7, 1e-12), "one sum after backward");
    s.overlaps = true;
    /* 4: sum to 5.2; 7: to 10.2; 8: waits, to 10.9; then the optimizer. */
    OK(near(step_sec(&model, &s, 1), 10.9 + 0.5, 1e-12), "a sum per layer, during backward");
    s.bucket_floats = 200;
    /* 7: 400 floats to 11.2; then 50 to 11.9. */
    OK(near(step_sec(&model, &s, 1), 11.9 + 0.5, 1e-12), "buckets of 200 floats");
    s.bucket_floats = bucket_floats(0, model.n_gradients);
    OK(near(step_sec(&model, &s, 1), 8 + 4.7 + 0.5, 1e-12), "train's smallest bucket holds all");
    s.bytes_per_float = 2;
    OK(near(step_sec(&model, &s, 1), 8 + 2.45 + 0.5, 1e-12), "bf16: half of the bytes");
    model.spread = spread;
    model.n_spread = 3;
    const step_time_t time = step_time(&model, &s);
    double sum = 0;
    for (int p = 0; p < STEP_N_PARTS; p++) sum += time.part_sec[p];
    OK(near(time.part_sec[STEP_SLOWEST], 8.5 * (9.8 / 9 - 1), 1e-9) &&
           near(time.part_sec[STEP_LATENCY], 0.2, 1e-9) && near(time.part_sec[STEP_BANDWIDTH], 2.25, 1e-9) &&
           near(sum, time.sec, 1e-12),
       "the parts of a step: slowest rank %g, latency %g, bandwidth %g", time.part_sec[STEP_SLOWEST],
       time.part_sec[STEP_LATENCY], time.part_sec[STEP_BANDWIDTH]);
}

static void test_point(void)
{
    static const step_layer_t layers[] = {{0.02, 1000000}};
    static const double spread[] = {0.97, 0.98, 1, 1, 1, 1, 1, 1, 1.02, 1.03};
    static const double two[] = {2};
    const network_t network = {NETWORK_TREE, 1, {{HUGE_VAL, 50e-6, 1e-9}}};
    fit_point_t points[64];
    forecast_point_t p, again;
    forecast_base_t base = {.ranks_per_host = 1, .batch = 32, .seed = 1};
    base.model = model_of(layers, 1);
    base.model.before_sec = 0.01, base.model.after_sec = 0.001;
    base.model.spread = spread, base.model.n_spread = 10;
    base.setting = (step_setting_t){.bytes_per_float = 4, .bucket_floats = 1};
    const int n = make_points(&network, two, 1, 0.02, points);
    OK(fit_network(points, n, NETWORK_TREE, &base.fit) == ERR_OK, "a measured network");
    err_t err = forecast_point(&base, 8, NAN, &p);
    OK(err == ERR_OK && p.n_reasons == 0 && p.efficiency_low < p.efficiency &&
           p.efficiency < p.efficiency_high && p.efficiency_high - p.efficiency_low < 0.1 &&
           strcmp(p.limit, "bandwidth") == 0 && near(p.images_per_sec, 256 / p.step_sec, 1e-12),
       "8 hosts: %.3f, %.3f to %.3f, limited by %s", p.efficiency, p.efficiency_low, p.efficiency_high,
       p.limit);
    OK(forecast_point(&base, 8, NAN, &again) == ERR_OK && memcmp(&p, &again, sizeof p) == 0,
       "the same seed, the same");
    err = forecast_point(&base, 9, NAN, &p);
    OK(err == ERR_OK && p.n_reasons == 1 && p.efficiency - p.efficiency_low >= FORECAST_FLOOR - 1e-9 &&
           (p.efficiency_high - p.efficiency >= FORECAST_FLOOR - 1e-9 || p.efficiency_high == 1),
       "9 of 2 measured hosts: at least 8 points, %s", p.reasons[0]);
    err = forecast_point(&base, 4, 80, &p);
    OK(err == ERR_OK && p.n_reasons == 1 && strstr(p.reasons[0], "not measured"), "another network: %s",
       p.reasons[0]);
    base.assumed_times = true;
    err = forecast_point(&base, 16, 0.008, &p);
    OK(err == ERR_OK && p.n_reasons == 3 && p.efficiency_low > 0 && p.step_high > 0,
       "all three reasons; the interval stays above zero");
}

static void test_job(void)
{
    const job_t job = {.start_sec = 60,
                       .n_samples = 1000,
                       .n_epochs = 3,
                       .batch = 10,
                       .eval_fixed_sec = 5,
                       .eval_shared_sec = 40,
                       .checkpoint_sec = 2};
    const job_time_t t = job_time(&job, 4, 0.5, 0.4);
    OK(near(t.steps_sec, 37.5, 1e-12) && near(t.sec, 60 + 37.5 + 45 + 6, 1e-12) &&
           near(t.efficiency, 30 / 148.5, 1e-12),
       "a job: 75 steps, 3 evaluations and checkpoints");
}

int main(void)
{
    tap_plan(34);
    test_network();
    test_fit();
    test_slowest();
    test_step();
    test_point();
    test_job();
    OK(mem_live() == 0, "all memory is released");
    return tap_done();
}
