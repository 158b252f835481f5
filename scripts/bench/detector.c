/* SPDX-License-Identifier: MIT */
/* Seconds of a detector's inference on one image, by part, the fastest of the runs each, and the peak memory; or, with
 * "measure", the algorithms for it. Weights, image and regions are random; the number of regions and of masks is
 * given, as proposals and detections are not computed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "compute/graph/exec.h"
#include "compute/graph/measure.h"
#include "compute/graph/plan.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "compute/ops/hd_buffer.h"
#include "scripts/bench/detection_model.h"
#include "scripts/bench/peak_memory.h"

enum { BODY, FPN, RPN, BOX_POOL, BOX_HEAD, MASK_POOL, MASK_HEAD, N_PARTS };
static const struct {
    const char *name, *prefix;
} parts[N_PARTS] = {{"trunk", "backbone.body."},     {"pyramid", "backbone.fpn."},
                    {"proposal head", "rpn."},       {"box RoIAlign", "roi_heads.box_roi_pool"},
                    {"box head", "roi_heads.box_"},  {"mask RoIAlign", "roi_heads.mask_roi_pool"},
                    {"mask head", "roi_heads.mask_"}};

typedef struct detector {
    graph_t *graph;
    exec_t *exec;
    algorithms_t algorithms;
    float *params, *states;
    void *input[GRAPH_MAX_INPUTS];
    int64_t height, width, n_regions, n_masks;
} detector_t;

static int part_of(const char *layer)
{
    int part = 0;
    while (part < N_PARTS && strncmp(layer, parts[part].prefix, strlen(parts[part].prefix)) != 0) part++;
    return part;
}

static err_t fill_inputs(detector_t *d)
{
    graph_t *g = d->graph;
    rng_t rng = rng_new(1, RNG_TEST, 0);
    int box = graph_find_input(g, "box.regions"), mask = graph_find_input(g, "mask.regions");
    int64_t n_image = d->height * d->width * 3;
    float *image, *regions;
    TRY(mem_new_array(n_image, sizeof *image, "an image", &image));
    TRY(mem_new_array(RCNN_BOX_MAX * ROI_ALIGN_VALUES, sizeof *regions, "regions", &regions));
    for (int64_t i = 0; i < n_image; i++) image[i] = (float)rng_normal(&rng);
    for (int64_t i = 0; i < RCNN_BOX_MAX; i++) {
        /* Areas from 16² to half the image, even in their logarithm. */
        float side = 16 * powf((float)d->height / 32, (float)rng_uniform(&rng)),
              *r = regions + ROI_ALIGN_VALUES * i;
        r[1] = (float)rng_uniform(&rng) * ((float)d->width - side);
        r[2] = (float)rng_uniform(&rng) * ((float)d->height - side);
        r[3] = r[1] + side, r[4] = r[2] + side;
    }
    d->input[0] = image;
    d->input[box] = regions;
    if (mask >= 0) d->input[mask] = regions;
    return ERR_OK;
}

/* Measures the algorithms of every layer, and writes them to a file. */
static err_t measure(detector_t *d, const char *path)
{
    measure_result_t result;
    graph_t *fused = NULL;
    char *text = NULL;
    const batch_size_t size = {1, false, NULL};
    TRY(graph_fuse(d->graph, &backend_cpu, &fused));
    const measure_options_t options = {
        .graph = fused, .backend = &backend_cpu, .sizes = &size, .n_sizes = 1, .limit_sec = 600};
    err_t err = algorithms_measure(&options, &d->algorithms, &result);
    if (err == ERR_OK) err = algorithms_write(&d->algorithms, &text);
    if (err == ERR_OK) err = fs_write_text(path, text);
    mem_free(&text);
    graph_free(&fused);
    return err;
}

static err_t read_algorithms(detector_t *d, const char *path)
{
    char *text = NULL;
    const batch_size_t size = {1, false, NULL};
    if (strcmp(path, "rule") == 0) return rcnn_algorithms(d->graph, &backend_cpu, &size, 1, &d->algorithms);
    TRY(fs_read_text(path, ALGORITHMS_TEXT_MAX, &text));
    err_t err = algorithms_read(&d->algorithms, text, path, true);
    mem_free(&text);
    return err;
}

static err_t open_detector(detector_t *d)
{
    TRY(mem_new_array(d->graph->n_flat_params, sizeof *d->params, "weights", &d->params));
    TRY(mem_new_array(d->graph->n_flat_states, sizeof *d->states, "running values", &d->states));
    graph_init(d->graph, 1, d->params, d->states);
    exec_options_t exec = {.graph = d->graph,
                           .backend = &backend_cpu,
                           .params = d->params,
                           .states = d->states,
                           .algorithms = &d->algorithms};
    TRY(exec_new(&exec, &d->exec));
    TRY(exec_prepare(d->exec, 1, false));
    TRY(exec_ready(d->exec));
    return fill_inputs(d);
}

static err_t infer(detector_t *d)
{
    exec_batch_t image = {.n = 1}, boxes, masks;
    memcpy(image.input, d->input, sizeof d->input);
    boxes = masks = image;
    boxes.n = d->n_regions, masks.n = d->n_masks;
    TRY(exec_forward(d->exec, &image, false));
    TRY(exec_rows(d->exec, 1, &boxes));
    return d->n_masks > 0 ? exec_rows(d->exec, 2, &masks) : ERR_OK;
}

static void print_layers(const detector_t *d)
{
    const graph_t *g = exec_graph(d->exec);
    for (int n = 0; n < g->n_nodes; n++) {
        const op_algorithms_t *a = exec_algorithms(d->exec, 1, false, n);
        double sec = exec_costs(d->exec)[n].evaluation_sec, gmacs = (double)op_macs(&g->nodes[n].desc) * 1e-9;
        printf("  %-60s %-14s %8.1f ms %7.2f GMAC %6.1f GMAC/s\n", g->nodes[n].name, a ? a->name[0] : "",
               1e3 * sec, gmacs, sec > 0 ? gmacs / sec : 0);
    }
}

static err_t run(detector_t *d, int n_runs, bool layers)
{
    double best[N_PARTS + 1], total = INFINITY, cpu = INFINITY, passes = 0;
    for (int i = 0; i <= N_PARTS; i++) best[i] = INFINITY;
    for (int r = 0; r < n_runs; r++) {
        double sec[N_PARTS + 1] = {0};
        exec_clear_costs(d->exec);
        clock_t start_cpu = clock();
        double start = clock_sec();
        TRY(infer(d));
        total = fmin(total, clock_sec() - start);
        cpu = fmin(cpu, (double)(clock() - start_cpu) / CLOCKS_PER_SEC);
        passes = 0;
        for (int n = 0; n < exec_graph(d->exec)->n_nodes; n++) {
            double one = exec_costs(d->exec)[n].evaluation_sec;
            sec[part_of(exec_graph(d->exec)->nodes[n].name)] += one;
            if (op_macs(&exec_graph(d->exec)->nodes[n].desc) == 0) passes += one;
        }
        for (int i = 0; i < N_PARTS; i++) best[i] = fmin(best[i], sec[i]);
    }
    for (int i = 0; i < N_PARTS; i++) printf("%-14s %8.3f s\n", parts[i].name, best[i]);
    printf("%-14s %8.3f s\n%-14s %8.3f s\n%-14s %8.3f s, of the last run\n%-14s %8ld KiB\n", "all", total,
           "CPU time", cpu, "no products", passes, "peak memory", peak_kib());
    if (layers) print_layers(d);
    return ERR_OK;
}

static const char usage[] =
    "usage: detector measure MODEL HEIGHT WIDTH THREADS ALGORITHMS\n"
    "       detector run MODEL HEIGHT WIDTH THREADS ALGORITHMS REGIONS MASKS RUNS [layers]\n"
    "MODEL: a detector's name, with \":bf16\" for products of bfloat16; ALGORITHMS: a file, or \"rule\"\n";

int main(int argc, char **argv)
{
    detector_t d = {0};
    bool runs = argc > 1 && strcmp(argv[1], "run") == 0;
    if (argc < (runs ? 10 : 7)) {
        fputs(usage, stderr);
        return ERR_USAGE;
    }
    d.height = atoll(argv[3]), d.width = atoll(argv[4]);
    model_options_t options = {.sample = shape_3d(d.height, d.width, 3)};
    err_t err = backend_open(&backend_cpu, atoi(argv[5]));
    if (err == ERR_OK) err = detection_model_build(argv[2], &options, &d.graph);
    if (!runs && err == ERR_OK) err = measure(&d, argv[6]);
    if (runs) d.n_regions = atoll(argv[7]), d.n_masks = atoll(argv[8]);
    if (runs && err == ERR_OK) err = read_algorithms(&d, argv[6]);
    if (runs && err == ERR_OK) err = open_detector(&d);
    if (runs && err == ERR_OK) err = run(&d, atoi(argv[9]), argc > 10);
    if (err != ERR_OK) fprintf(stderr, "detector: %s\n", err_message());
    return (int)err;
}
