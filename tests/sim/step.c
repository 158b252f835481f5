/* SPDX-License-Identifier: MIT */
/* A step's closed form (src/tools/forecast/step.h) against SimGrid: every rank computes its layers, and sums buckets by
 * messages between hosts of a cluster whose ports carry both directions at once.
 *
 *   step MODEL HOSTS ring|tree SPREAD STEPS
 *
 * SPREAD is the standard deviation of a rank's step; each rank draws from the same skewed samples in every step. Prints the
 * simulated and the computed mean step, and how far the latter is off in percent. tests/cli/forecast_sim.bats judges. */
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/stats.h"
#include "tools/forecast/layers.h"
#include "train/learn/bucket.h"

#define ALPHA_SEC 30e-6
#define BYTES_SEC 3.125e9 /* 25 Gbit/s */
#define FLOPS     4e12
enum { N_SAMPLES = 200, BATCH = 32, MAX_BUCKETS = 256, MAX_HOSTS = 1024 };

static struct {
    layers_t layers;
    step_model_t model;
    step_setting_t setting;
    network_t network;
    double samples[N_SAMPLES];
    int n_hosts, n_steps;
    /* Buckets: seconds of backward until each is ready, and its bytes. */
    double ready_sec[MAX_BUCKETS];
    long bytes[MAX_BUCKETS];
    int n_buckets;
    sg_sem_t ready[MAX_HOSTS], summed[MAX_HOSTS];
} sim;

static void send_and_get(int self, int to, int from, double n_bytes)
{
    char name[48];
    snprintf(name, sizeof name, "%d-%d", self, to);
    sg_comm_t sent = sg_mailbox_put_async(sg_mailbox_by_name(name), name, (long)ceil(n_bytes));
    snprintf(name, sizeof name, "%d-%d", from, self);
    sg_mailbox_get(sg_mailbox_by_name(name));
    sg_comm_wait(sent);
}

static void sum_ring(int self, double n_bytes)
{
    const int n = sim.n_hosts;
    for (int i = 0; i < 2 * (n - 1); i++) send_and_get(self, (self + 1) % n, (self + n - 1) % n, n_bytes / n);
}

/* Numbers of hosts are powers of two here. */
static void sum_tree(int self, double n_bytes)
{
    double part = n_bytes / 2;
    for (int distance = sim.n_hosts / 2; distance > 0; distance /= 2, part /= 2)
        send_and_get(self, self ^ distance, self ^ distance, part);
    for (int distance = 1; distance < sim.n_hosts; distance *= 2) {
        part *= 2;
        send_and_get(self, self ^ distance, self ^ distance, part);
    }
}

static void communicate(int argc, char **argv)
{
    const int self = atoi(argv[argc - 1]);
    for (int step = 0; step < sim.n_steps; step++)
        for (int b = 0; b < sim.n_buckets; b++) {
            sg_sem_acquire(sim.ready[self]);
            if (sim.network.algorithm == NETWORK_RING)
                sum_ring(self, (double)sim.bytes[b]);
            else
                sum_tree(self, (double)sim.bytes[b]);
            sg_sem_release(sim.summed[self]);
        }
}

static void compute(int argc, char **argv)
{
    const int self = atoi(argv[argc - 1]);
    rng_t rng = rng_new(3, RNG_TEST, (uint64_t)self);
    for (int step = 0; step < sim.n_steps; step++) {
        const double factor = sim.samples[rng_below(&rng, N_SAMPLES)];
        double done = 0;
        sg_actor_sleep_for(factor * sim.model.before_sec);
        for (int b = 0; b < sim.n_buckets; b++) {
            sg_actor_sleep_for(factor * (sim.ready_sec[b] - done));
            done = sim.ready_sec[b];
            sg_sem_release(sim.ready[self]);
        }
        for (int b = 0; b < sim.n_buckets; b++) sg_sem_acquire(sim.summed[self]);
        sg_actor_sleep_for(factor * sim.model.after_sec);
    }
}

static void add_bucket(double ready_sec, int64_t n_floats)
{
    if (sim.n_buckets == MAX_BUCKETS) exit(2);
    sim.ready_sec[sim.n_buckets] = ready_sec;
    sim.bytes[sim.n_buckets++] = (long)(4 * n_floats);
}

static void list_buckets(void)
{
    double now = 0;
    int64_t n_begun = 0, n_ready = 0;
    for (int i = 0; i < sim.layers.n; i++) {
        now += sim.layers.at[i].backward_sec;
        n_ready += sim.layers.at[i].n_floats;
        const int64_t n = bucket_due(n_begun, n_ready, sim.setting.bucket_floats);
        if (n > 0) add_bucket(now, n);
        n_begun += n;
    }
    add_bucket(now, sim.layers.n_gradients - n_begun);
}

/* Ascending, mean 1: most a little faster, some clearly slower. */
static void make_samples(double spread)
{
    rng_t rng = rng_new(5, RNG_TEST, 0);
    double sum = 0;
    for (int i = 0; i < N_SAMPLES; i++)
        sum += sim.samples[i] = exp(spread * rng_normal(&rng) * (i % 10 ? 1 : 2));
    for (int i = 0; i < N_SAMPLES; i++) sim.samples[i] *= N_SAMPLES / sum;
    stats_sort(sim.samples, N_SAMPLES);
}

static void start_hosts(void)
{
    sg_host_t *hosts = sg_host_list();
    for (int i = 0; i < sim.n_hosts; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        char rank[] = "rank", *args[] = {rank, number, NULL};
        sim.ready[i] = sg_sem_init(0);
        sim.summed[i] = sg_sem_init(0);
        sg_actor_create("compute", hosts[i], compute, 2, args);
        sg_actor_create("communicate", hosts[i], communicate, 2, args);
    }
}

/* A message passes two ports: half of its latency each. */
static void load_cluster(void)
{
    char path[] = "/tmp/dptrain-step-XXXXXX.xml";
    const int fd = mkstemps(path, 4);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) exit(2);
    fprintf(
        out,
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><cluster id=\"c\" prefix=\"h\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" "
        "bw=\"%.0fBps\" lat=\"%.9fs\" sharing_policy=\"SPLITDUPLEX\"/></platform>\n",
        sim.n_hosts - 1, BYTES_SEC, ALPHA_SEC / 2);
    fclose(out);
    simgrid_load_platform(path);
    unlink(path);
}

int main(int argc, char **argv)
{
    arena_t arena = {0};
    simgrid_init(&argc, argv);
    if (argc != 6) return 2;
    sim.n_hosts = atoi(argv[2]);
    sim.n_steps = atoi(argv[5]);
    if (sim.n_hosts < 2 || sim.n_hosts > MAX_HOSTS || sim.n_steps < 1) return 2;
    if (layers_assumed(argv[1], 0, BATCH, FLOPS, &arena, &sim.layers) != ERR_OK) return 2;
    sim.network = (network_t){strcmp(argv[3], "ring") == 0 ? NETWORK_RING : NETWORK_TREE,
                              1,
                              {{HUGE_VAL, ALPHA_SEC, 1 / BYTES_SEC}}};
    make_samples(atof(argv[4]));
    sim.model = (step_model_t){.before_sec = sim.layers.forward_sec,
                               .after_sec = 1e-3,
                               .layers = sim.layers.at,
                               .n_layers = sim.layers.n,
                               .n_gradients = sim.layers.n_gradients,
                               .spread = sim.samples,
                               .n_spread = N_SAMPLES};
    sim.setting = (step_setting_t){.network = &sim.network,
                                   .n_hosts = sim.n_hosts,
                                   .n_ranks = sim.n_hosts,
                                   .bytes_per_float = 4,
                                   .overlaps = true,
                                   .bucket_floats = bucket_floats(0, sim.layers.n_gradients)};
    list_buckets();
    load_cluster();
    start_hosts();
    simgrid_run();
    const double simulated = simgrid_get_clock() / sim.n_steps,
                 computed = step_time(&sim.model, &sim.setting).sec;
    printf("%s %d %s: %d buckets, simulated %.9g computed %.9g error %.4f\n", argv[1], sim.n_hosts, argv[3],
           sim.n_buckets, simulated, computed, 100 * (computed / simulated - 1));
    arena_free(&arena);
    return 0;
}
