/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Forecasts of jobs that others have run, against what they published; results/predicted.md explains the inputs. The
 * fitted jobs are smaller than the predicted ones, and nothing is tuned to the latter. Diagnostics print the figures.
 *
 *   Horovod  Sergeev and Del Balso 2018, arXiv 1802.05799, and docs/benchmarks of github.com/horovod/horovod
 *   P100     tensorflow.org/performance/benchmarks, 2017: images/s of one GPU with batch 64; ResNet-101 at the multiply-adds
 *            per second between those of ResNet-50 and ResNet-152
 *   AWS      github.com/aws-samples/mask-rcnn-tensorflow, README: hours of training on p3dn.24xlarge */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "compute/models/model.h"
#include "tests/tap.h"
#include "tools/forecast/forecast.h"
#include "tools/forecast/slowest.h"
#include "train/learn/bucket.h"

enum { BATCH = 64, GPUS_PER_HOST = 4, N_SPREAD = 2000 };
/* 25 Gbit/s, of which a RoCE v2 frame carries 1024 of 1106 bytes (preamble, gap, Ethernet, IP, UDP, BTH, CRCs: 82). */
#define LINE_BYTES_SEC (3.125e9 * 1024 / 1106)
/* A ring passes three PCIe links and a network: the latencies of NCCL's tuning table, protocol Simple. */
#define HOP_SEC        (3 * 5.7e-6 + 14e-6)
#define FIT_EFFICIENCY 0.911 /* 128 GPUs: 88 % over TCP, 3 to 4 % more over RDMA */

/* ResNet-101 is ResNet-50 with 17 more blocks in its third stage. */
enum { MORE_BLOCKS = 17 };

typedef struct published {
    forecast_base_t base;
    layers_t layers;
    arena_t arena;
    double spread[N_SPREAD];
} published_t;

static bool is_repeated(const graph_t *graph, int i)
{
    return strncmp(graph->nodes[graph->n_nodes - 1 - i].name, "layer3.5.", 9) == 0;
}

static void repeat_block(published_t *p, const graph_t *graph)
{
    step_layer_t *at;
    int n = 0, last = 0;
    if (arena_new(&p->arena, sizeof *at * (size_t)p->layers.n * (MORE_BLOCKS + 1), &at) != ERR_OK) exit(1);
    for (int i = 0; i < p->layers.n; i++)
        if (is_repeated(graph, i)) last = i;
    for (int i = 0; i < p->layers.n; i++) {
        at[n++] = p->layers.at[i];
        for (int block = 0; i == last && block < MORE_BLOCKS; block++)
            for (int k = 0; k <= last; k++)
                if (is_repeated(graph, k)) {
                    at[n++] = p->layers.at[k];
                    p->layers.n_gradients += p->layers.at[k].n_floats;
                    p->layers.backward_sec += p->layers.at[k].backward_sec;
                    p->layers.forward_sec += p->layers.at[k].backward_sec / 2;
                }
    }
    p->layers.at = at;
    p->layers.n = n;
}

/* A model at the speed of one P100, on a network of 25 Gbit/s; Horovod fuses 64 MiB. */
static void publish(published_t *p, const char *model, bool deep, double images_per_sec)
{
    const model_options_t options = {.sample = {3, {224, 224, 3}}, .n_classes = 1000};
    graph_t *graph = NULL;
    *p = (published_t){
        .base = {.ranks_per_host = GPUS_PER_HOST, .batch = BATCH, .seed = 1, .assumed_times = true}};
    if (model_build(model, &options, &graph) != ERR_OK ||
        layers_assumed(model, 0, BATCH, 1e12, &p->arena, &p->layers) != ERR_OK)
        exit(1);
    if (deep) repeat_block(p, graph);
    graph_free(&graph);
    const double scale = BATCH / images_per_sec / (p->layers.forward_sec + p->layers.backward_sec);
    step_layer_t *at;
    if (arena_new(&p->arena, sizeof *at * (size_t)p->layers.n, &at) != ERR_OK) exit(1);
    for (int i = 0; i < p->layers.n; i++)
        at[i] = (step_layer_t){scale * p->layers.at[i].backward_sec, p->layers.at[i].n_floats};
    p->base.model = (step_model_t){.before_sec = scale * p->layers.forward_sec,
                                   .layers = at,
                                   .n_layers = p->layers.n,
                                   .n_gradients = p->layers.n_gradients,
                                   .n_spread = N_SPREAD};
    p->base.fit = (fit_t){.network = {NETWORK_RING, 1, {{HUGE_VAL, HOP_SEC, 1 / LINE_BYTES_SEC}}},
                          .algorithm_measured = true,
                          .max_hosts = 32,
                          .residual = 0.1,
                          .student = 1.6449};
    p->base.setting = (step_setting_t){.bytes_per_float = 4,
                                       .overlaps = true,
                                       .bucket_floats = bucket_floats(64 << 20, p->layers.n_gradients)};
}

/* Steps whose logarithm varies by sigma. */
static void set_spread(published_t *p, double sigma)
{
    rng_t rng = rng_new(1, RNG_TEST, 0);
    double sum = 0;
    for (int i = 0; i < N_SPREAD; i++) sum += p->spread[i] = exp(sigma * rng_normal(&rng));
    for (int i = 0; i < N_SPREAD; i++) p->spread[i] *= N_SPREAD / sum;
    stats_sort(p->spread, N_SPREAD);
    p->base.model.spread = p->spread;
}

static double efficiency_at(const published_t *p, double n_hosts)
{
    step_setting_t s = p->base.setting;
    s.network = &p->base.fit.network;
    s.n_hosts = n_hosts;
    s.n_ranks = n_hosts * GPUS_PER_HOST;
    return step_alone_sec(&p->base.model) / step_time(&p->base.model, &s).sec;
}

/* The spread with which 128 GPUs reach the published efficiency. */
static double fit_spread(published_t *p)
{
    double low = 0, high = 0.3;
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        set_spread(p, middle);
        if (efficiency_at(p, 32) > FIT_EFFICIENCY)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void test_horovod(void)
{
    static published_t resnet, vgg;
    forecast_point_t p = {0};
    publish(&resnet, "resnet50", true, 126);
    publish(&vgg, "vgg16", false, 154);
    OK(fabs((double)resnet.layers.n_gradients / 44.55e6 - 1) < 0.01 && resnet.layers.n > 300,
       "ResNet-101 has %.2f million parameters", 1e-6 * (double)resnet.layers.n_gradients);
    const double sigma = fit_spread(&resnet);
    set_spread(&vgg, sigma);
    OK(fabs(efficiency_at(&resnet, 32) - FIT_EFFICIENCY) < 1e-3, "128 GPUs: %.1f %% with a spread of %.2f %%",
       100 * FIT_EFFICIENCY, 100 * sigma);
    err_t err = forecast_point(&resnet.base, 128, NAN, &p);
    OK(err == ERR_OK && p.efficiency_low <= 0.90 && 0.90 <= p.efficiency_high,
       "ResNet-101 on 512 GPUs: %.1f %%, %.1f to %.1f; published 90", 100 * p.efficiency,
       100 * p.efficiency_low, 100 * p.efficiency_high);
    err = forecast_point(&vgg.base, 128, NAN, &p);
    OK(err == ERR_OK && p.efficiency_low <= 0.68 && 0.68 <= p.efficiency_high,
       "VGG-16 on 512 GPUs: %.1f %%, %.1f to %.1f, limited by %s; published 68", 100 * p.efficiency,
       100 * p.efficiency_low, 100 * p.efficiency_high, p.limit);
    arena_free(&resnet.arena);
    arena_free(&vgg.arena);
}

typedef struct training {
    double n_hosts, n_epochs, hours;
} training_t;

/* GPUs of a p3dn.24xlarge; images; the network's gradients in bytes, which only scale the fitted bandwidth. */
enum { HOST_GPUS = 8, N_IMAGES = 118287, IMAGES = 4, GRADIENT_BYTES = 4 * 44397536 };

/* hours = start + epochs / hosts · (work + transfer · 2 (hosts − 1) / hosts), the engine's ring after backward, by least
 * squares: the normal equations by Cramer's rule. */
static void fit_job(const training_t *runs, int n, double out[3])
{
    double a[3][4] = {{0}};
    for (int r = 0; r < n; r++) {
        const double share = runs[r].n_epochs / runs[r].n_hosts,
                     x[] = {1, share, share * 2 * (runs[r].n_hosts - 1) / runs[r].n_hosts};
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) a[i][j] += x[i] * x[j];
            a[i][3] += x[i] * runs[r].hours;
        }
    }
    double determinant[4];
    for (int c = 3; c >= 0; c--) {
        double m[3][3];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) m[i][j] = a[i][j == c ? 3 : j];
        determinant[c] = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
                         m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
    }
    for (int i = 0; i < 3; i++) out[i] = determinant[i] / determinant[3];
}

/* The job on n_hosts: the engine's step and the formula of a job. */
static double predict_hours(const double fitted[3], double n_hosts, double n_epochs)
{
    static const double constant[] = {1};
    static const step_layer_t all[] = {{0, GRADIENT_BYTES / 4}};
    const double step_hours = HOST_GPUS * IMAGES / (double)N_IMAGES;
    const network_t ring = {NETWORK_RING, 1, {{HUGE_VAL, 0, 3600 * fitted[2] * step_hours / GRADIENT_BYTES}}};
    const step_model_t model = {.before_sec = 3600 * fitted[1] * step_hours,
                                .layers = all,
                                .n_layers = 1,
                                .n_gradients = GRADIENT_BYTES / 4,
                                .spread = constant,
                                .n_spread = 1};
    const step_setting_t setting = {
        .network = &ring, .n_hosts = n_hosts, .n_ranks = HOST_GPUS * n_hosts, .bytes_per_float = 4};
    const job_t job = {
        .start_sec = 3600 * fitted[0], .n_samples = N_IMAGES, .batch = IMAGES, .n_epochs = n_epochs};
    return job_time(&job, HOST_GPUS * n_hosts, step_time(&model, &setting).sec, step_alone_sec(&model)).sec /
           3600;
}

static void test_aws(void)
{
    static const training_t fitted[] = {{1, 12, 5.09}, {2, 12, 3.11}, {1, 24, 9.78}, {2, 24, 5.60}},
                            predicted[] = {{4, 12, 1.94}, {4, 24, 3.33}};
    double hours[3];
    fit_job(fitted, 4, hours);
    for (int i = 0; i < 4; i++)
        printf("# fitted: %.0f GPUs, %.0f epochs: %.2f h, published %.2f\n", HOST_GPUS * fitted[i].n_hosts,
               fitted[i].n_epochs, predict_hours(hours, fitted[i].n_hosts, fitted[i].n_epochs),
               fitted[i].hours);
    for (int i = 0; i < 2; i++) {
        const double made = predict_hours(hours, predicted[i].n_hosts, predicted[i].n_epochs),
                     off = 100 * (made / predicted[i].hours - 1);
        OK(fabs(off) <= 6, "Mask R-CNN, %.0f epochs on 32 GPUs: %.2f h, published %.2f (%+.1f %%)",
           predicted[i].n_epochs, made, predicted[i].hours, off);
    }
    printf("# start %.2f h; an epoch on 8 GPUs %.3f h, its transfer between hosts %.3f h\n", hours[0],
           hours[1], hours[2]);
}

int main(void)
{
    tap_plan(7);
    test_horovod();
    test_aws();
    OK(mem_live() == 0, "all memory is released");
    return tap_done();
}
