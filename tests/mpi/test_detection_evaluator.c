/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3 san=slow
 * A detector's evaluation on all ranks gives the bits of one rank alone, again and again; new weights and new running
 * statistics count; a part of the images; images that cannot be read. */
#include <math.h>

#include "base/log.h"
#include "compute/ops/backend.h"
#include "data/annotation/sample.h"
#include "tests/folder.h"
#include "tests/mpi/everyone.h"
#include "tests/small_rcnn.h"
#include "tests/turned.h"
#include "train/detect/evaluate.h"

enum { N = 7, LIMIT = 3, W = 150, H = 128, CORRUPT = 4, STORED = 2, SHOWN = 5 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* A model with its weights. */
typedef struct net {
    graph_t *graph;
    hd_buffer_t params, states;
} net_t;

static net_t open_net(const backend_t *backend, bool norms_learn)
{
    net_t net = {.graph = small_rcnn_of(&(small_rcnn_t){128, 128, 3, 4, 64, 4, norms_learn, DTYPE_F32})};
    must(graph_finish(net.graph), "a graph");
    const size_t n_params = (size_t)net.graph->n_flat_params, n_states = (size_t)net.graph->n_flat_states;
    must(hd_buffer_new(backend, n_params * sizeof(float), "weights", &net.params), "weights");
    must(hd_buffer_new(backend, n_states * sizeof(float), "states", &net.states), "states");
    return net;
}

static void close_net(net_t *net)
{
    hd_buffer_free(&net->params);
    hd_buffer_free(&net->states);
    graph_free(&net->graph);
}

static void copy_tensors(const graph_param_t *from, const float *flat, const graph_param_t *to, float *out,
                         int n)
{
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < n && strcmp(from[k].name, to[i].name) != 0) k++;
        ASSERT(k < n);
        memcpy(out + to[i].offset, flat + from[k].offset, (size_t)shape_count(to[i].shape) * sizeof *out);
    }
}

/* Models with frozen and with learning norms have the same parameters, in another order. */
static void copy_net(const net_t *from, const net_t *to)
{
    const graph_t *f = from->graph, *t = to->graph;
    ASSERT(f->n_params == t->n_params && f->n_states == t->n_states);
    copy_tensors(f->params, from->params.host, t->params, to->params.host, t->n_params);
    copy_tensors(f->states, from->states.host, t->states, to->states.host, t->n_states);
    must(hd_buffer_push_all(&to->params), "weights");
    must(hd_buffer_push_all(&to->states), "states");
}

static void fill(const net_t *net, uint64_t seed)
{
    const graph_t *g = net->graph;
    float *params = net->params.host, *states = net->states.host;
    rng_t rng = rng_new(seed, RNG_TEST, 0);
    graph_init(g, 3, params, states);
    for (int64_t i = 0; i < g->n_flat_params; i++) params[i] += 0.1f * (float)rng_normal(&rng);
    for (int64_t i = 0; i < g->n_flat_states; i++) states[i] += 0.3f * (float)fabs(rng_normal(&rng));
    must(hd_buffer_push_all(&net->params), "weights");
    must(hd_buffer_push_all(&net->states), "states");
}

/* Squares among images that are not. */
static int width_of(int image)
{
    return image % 3 == 0 ? H : W;
}

/* COCO's validation split: images of noise, two of them turned, with boxes as stored and as shown. Objects: of the outcome every third
 * detection; NULL: one. */
static void put_coco(const detection_outcome_t *objects)
{
    static char json[1 << 18];
    static uint8_t pixels[W * H * 3], file[1 << 18];
    char name[64];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"images\":[");
    char empty[RLE_TEXT_PER_RUN + 1];
    rng_t rng = rng_new(1, RNG_TEST, 0);
    rle_format(&(rle_t){(uint32_t[]){W * H}, 1}, empty);
#define PUT(...) used += (size_t)snprintf(json + used, sizeof json - used, __VA_ARGS__)
    for (int i = 1; i <= N; i++) {
        for (int64_t k = 0; k < W * H * 3; k++) pixels[k] = (uint8_t)(rng_below(&rng, 256));
        snprintf(name, sizeof name, "set/val2017/%d.jpg", i);
        const image_t image = {width_of(i), H, pixels};
        folder_put(name, file, turned_jpeg(&image, i == STORED || i == SHOWN ? 6 : 1, file, sizeof file));
        PUT("%s{\"id\":%d,\"file_name\":\"%d.jpg\",\"width\":%d,\"height\":%d}", i > 1 ? "," : "", i, i,
            i == SHOWN ? H : width_of(i), i == SHOWN ? width_of(i) : H);
    }
    PUT("],\"categories\":[{\"id\":1,\"name\":\"cat\"},{\"id\":2,\"name\":\"dog\"}],\"annotations\":[");
    for (int64_t k = 0; k < (objects ? objects->results->n : 1); k += 3) {
        const detection_t none = {.box = {1, 1, 9, 9}, .mask = empty},
                          *d = objects ? &objects->results->detections[k] : &none;
        PUT("%s{\"id\":%lld,\"image_id\":%d,\"category_id\":%d,\"bbox\":[%.3f,%.3f,%.3f,%.3f],\"area\":%.1f,"
            "\"iscrowd\":0,\"segmentation\":{\"size\":[%d,%d],\"counts\":\"",
            k > 0 ? "," : "", (long long)k + 1, d->image + 1, d->category + 1, d->box[0], d->box[1],
            d->box[2], d->box[3], d->box[2] * d->box[3], d->image + 1 == SHOWN ? width_of(SHOWN) : H,
            d->image + 1 == SHOWN ? H : width_of(d->image + 1));
        for (const char *c = d->mask; *c; c++) PUT("%s%c", *c == '\\' ? "\\" : "", *c);
        PUT("\"}}");
    }
    PUT("]}");
    ASSERT(used < sizeof json);
    folder_put("set/annotations/instances_val2017.json", json, used);
}

/* What does not change between evaluations. */
typedef struct bench {
    comm_t *comm;
    const backend_t *backend;
    source_t *source;
    class_map_t map;
    canvases_t canvases;
} bench_t;

static void open_source(bench_t *b)
{
    source_close(&b->source);
    class_map_free(&b->map);
    must(source_open(folder_path("set"), &b->source), "the images");
    must(class_map_new(b->source->categories, b->source->n_categories, 0, &b->map), "classes");
}

static detection_evaluator_options_t options_for(const bench_t *b, const net_t *net)
{
    return (detection_evaluator_options_t){.comm = b->comm,
                                           .graph = net->graph,
                                           .backend = b->backend,
                                           .params = net->params.device,
                                           .states = net->states.device,
                                           .norm = pixel_norm_imagenet(),
                                           .source = b->source,
                                           .split = SPLIT_VAL,
                                           .canvases = &b->canvases,
                                           .map = &b->map,
                                           .detections = {0.05, 0.5, 20, NULL},
                                           .masks = true};
}

static bool same(const detection_numbers_t *a, const detection_numbers_t *b)
{
    return memcmp(a->numbers, b->numbers, sizeof a->numbers) == 0 && a->n_images == b->n_images &&
           a->n_detections == b->n_detections;
}

/* By a new evaluator. */
static detection_numbers_t evaluate(const detection_evaluator_options_t *options)
{
    detection_evaluator_t *evaluator = NULL;
    detection_numbers_t numbers = {0};
    const bool fine = detection_evaluator_open(options, &evaluator) == ERR_OK &&
                      detection_evaluator_run(evaluator, &numbers) == ERR_OK;
    if (!fine) fprintf(stderr, "# rank %d: %s\n", options->comm->rank, err_message());
    detection_evaluator_close(&evaluator);
    return numbers;
}

/* A rank's own, the ground truth made of what is found. */
static void prepare(bench_t *b, const net_t *net)
{
    comm_t *const all = b->comm, *alone = NULL;
    detection_evaluator_t *evaluator = NULL;
    must(comm_alone(&alone), "one rank");
    put_coco(NULL);
    open_source(b);
    b->comm = alone;
    const detection_evaluator_options_t options = options_for(b, net);
    must(detection_evaluator_open(&options, &evaluator), "an evaluator");
    must(detection_evaluator_detect(evaluator), "detecting");
    const detection_outcome_t outcome = detection_evaluator_outcome(evaluator);
    put_coco(&outcome);
    detection_evaluator_close(&evaluator);
    comm_close(&alone);
    b->comm = all;
    open_source(b);
}

static void test_runs(const bench_t *b, const net_t *net, comm_t *alone)
{
    detection_evaluator_options_t options = options_for(b, net);
    detection_evaluator_t *evaluator = NULL;
    detection_numbers_t first, again, changed, back;
    OK_ALL(detection_evaluator_open(&options, &evaluator) == ERR_OK &&
               detection_evaluator_run(evaluator, &first) == ERR_OK,
           "an evaluation");
    const double ap = first.numbers[SCORE_BBOX][0];
    const int64_t n_live = mem_live();
    OK_ALL(first.n_images == N && first.n_detections > 3 * N && ap > 0.1 && ap < 0.9 &&
               first.numbers[SCORE_SEGM][0] > 0.1,
           "it finds a part: AP %g of boxes, %g of masks, %lld detections", ap, first.numbers[SCORE_SEGM][0],
           (long long)first.n_detections);
    OK_ALL(detection_evaluator_run(evaluator, &again) == ERR_OK && same(&first, &again), "the same again");
    OK_ALL(mem_live() == n_live && !detection_evaluator_outcome(evaluator).results, "runs keep nothing");
    options.comm = alone;
    const detection_numbers_t one = evaluate(&options);
    OK_ALL(same(&first, &one), "the bits of one rank alone");
    fill(net, 6);
    const detection_numbers_t fresh = evaluate(&options);
    OK_ALL(detection_evaluator_run(evaluator, &changed) == ERR_OK && same(&changed, &fresh) &&
               !same(&changed, &first),
           "with other weights, as if opened with them");
    fill(net, 5);
    OK_ALL(detection_evaluator_run(evaluator, &back) == ERR_OK && same(&back, &first), "and back");
    detection_evaluator_close(&evaluator);
}

static void test_nan(const bench_t *b)
{
    net_t net = open_net(b->backend, false);
    const detection_evaluator_options_t options = options_for(b, &net);
    float *params = net.params.host;
    for (int64_t i = 0; i < net.graph->n_flat_params; i++) params[i] = NAN;
    must(hd_buffer_push_all(&net.params), "weights");
    const detection_numbers_t numbers = evaluate(&options);
    OK_ALL(numbers.n_images == N && numbers.numbers[SCORE_BBOX][0] <= 0,
           "NaN finds nothing: %lld detections, AP %g", (long long)numbers.n_detections,
           numbers.numbers[SCORE_BBOX][0]);
    close_net(&net);
}

static void test_limit(const bench_t *b, const net_t *net, comm_t *alone)
{
    static const int64_t images[LIMIT] = {1, 3, 5}; /* ids: 0, 2 and 4 of 7 */
    detection_evaluator_options_t options = options_for(b, net);
    detection_evaluator_t *evaluator = NULL;
    detection_numbers_t numbers;
    options.limit = LIMIT;
    options.masks = false;
    bool fine = detection_evaluator_open(&options, &evaluator) == ERR_OK &&
                detection_evaluator_detect(evaluator) == ERR_OK &&
                detection_evaluator_score(evaluator, &numbers) == ERR_OK;
    const detection_outcome_t outcome = detection_evaluator_outcome(evaluator);
    const bool root = b->comm->rank == 0;
    OK_ALL(fine && numbers.n_images == LIMIT && !numbers.has[SCORE_SEGM] &&
               isnan(numbers.numbers[SCORE_SEGM][0]),
           "a part of the images, boxes alone");
    for (int i = 0; root && i < LIMIT; i++)
        fine = fine && outcome.truths->images[i].id == images[i] && outcome.images[i].id == images[i];
    OK_ALL(fine && (!root || (outcome.truths->n_images == LIMIT && outcome.n_scores == 1)), "evenly spaced");
    detection_evaluator_close(&evaluator);
    options.comm = alone;
    const detection_numbers_t one = evaluate(&options);
    OK_ALL(same(&numbers, &one), "the bits of one rank alone");
}

/* Running values decide, and a trained model is evaluated as one whose norms are frozen. */
static void test_norms(const bench_t *b, const net_t *frozen)
{
    net_t net = open_net(b->backend, true);
    const detection_evaluator_options_t options = options_for(b, &net), other = options_for(b, frozen);
    copy_net(frozen, &net);
    const detection_numbers_t learned = evaluate(&options), constant = evaluate(&other);
    printf("# AP %.9f and %.9f\n", learned.numbers[SCORE_BBOX][0], constant.numbers[SCORE_BBOX][0]);
    OK_ALL(fabs(learned.numbers[SCORE_BBOX][0] - constant.numbers[SCORE_BBOX][0]) < 0.01,
           "trained norms as frozen ones");
    for (int64_t i = 0; i < net.graph->n_flat_states; i++) ((float *)net.states.host)[i] *= 1.5f;
    must(hd_buffer_push_all(&net.states), "states");
    const detection_numbers_t moved = evaluate(&options);
    OK_ALL(!same(&moved, &learned), "other running values, other numbers");
    close_net(&net);
}

static void test_bad(const bench_t *b, const net_t *net, comm_t *alone)
{
    detection_evaluator_options_t options = options_for(b, net);
    detection_evaluator_t *evaluator = NULL;
    corrupt_samples_t bad, own;
    detection_numbers_t numbers, again;
    char name[32];
    must(bad_open(2, &bad), "a list");
    must(bad_open(1, &own), "a list");
    const detection_numbers_t whole = evaluate(&options);
    must(detection_evaluator_open(&options, &evaluator), "an evaluator");
    snprintf(name, sizeof name, "set/val2017/%d.jpg", CORRUPT);
    folder_put(name, "no image", 8);
    OK_ALL(detection_evaluator_run(evaluator, &numbers) == ERR_DATA && SAYS("4.jpg"),
           "an image that cannot be read: %s", err_message());
    detection_evaluator_close(&evaluator);
    options.bad = &bad;
    must(detection_evaluator_open(&options, &evaluator), "an evaluator");
    err_raise(ERR_DATA, "", 0, "an image that the loader replaced meanwhile");
    must(bad_add(&bad, SPLIT_TRAIN, 1, CORRUPT_REPLACED), "a list");
    OK_ALL(detection_evaluator_run(evaluator, &numbers) == ERR_OK && bad.n == 2 &&
               bad.images[1].index == CORRUPT - 1 && bad.images[1].split == SPLIT_VAL &&
               bad.images[1].shared && bad.images[1].fate == CORRUPT_EMPTY,
           "or it is listed on all ranks");
    OK_ALL(bad.images[0].split == SPLIT_TRAIN && bad.images[0].shared &&
               bad.images[0].fate == CORRUPT_REPLACED,
           "the warning about an image of the loader says what the loader did");
    OK_ALL(numbers.n_images == N && numbers.n_detections < whole.n_detections &&
               detection_evaluator_run(evaluator, &again) == ERR_OK && same(&again, &numbers) && bad.n == 2,
           "counts, has no detections, and is listed once");
    options.comm = alone, options.bad = &own;
    const detection_numbers_t one = evaluate(&options);
    OK_ALL(same(&numbers, &one), "the bits of one rank alone");
    detection_evaluator_close(&evaluator);
    bad_close(&bad);
    bad_close(&own);
}

static void test_canvases(const bench_t *b, const net_t *net)
{
    detection_evaluator_options_t options = options_for(b, net);
    detection_evaluator_t *evaluator = NULL;
    canvases_t small;
    must(canvases_new(&(canvas_options_t){"128", 160, "128x128"}, &small), "canvases");
    options.canvases = &small;
    OK_ALL(detection_evaluator_open(&options, &evaluator) == ERR_USAGE && SAYS("1.jpg") && !evaluator,
           "no canvas holds an image: %s", err_message());
}

int main(void)
{
    bench_t b = {0};
    comm_t *alone = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 120, .abort_job = abort_job};
    char why[BACKEND_WHY_MAX];
    const err_t err = comm_open(&options, &b.comm);
    tap_quiet = !log_speaks();
    tap_plan(21);
    OK_CALL(err, "open");
    if (err != ERR_OK || !folder_begin()) return 1;
    must(backend_find("cpu", &b.backend, why), "a backend");
    must(backend_open(b.backend, 1), "a backend");
    must(comm_alone(&alone), "one rank");
    must(canvases_new(&(canvas_options_t){"128", 160, "auto"}, &b.canvases), "canvases");
    net_t net = open_net(b.backend, false);
    fill(&net, 5);
    prepare(&b, &net);
    test_runs(&b, &net, alone);
    test_limit(&b, &net, alone);
    test_norms(&b, &net);
    test_canvases(&b, &net);
    test_nan(&b);
    test_bad(&b, &net, alone);
    close_net(&net);
    source_close(&b.source);
    class_map_free(&b.map);
    folder_clear();
    rmdir(folder);
    comm_close(&alone);
    comm_close(&b.comm);
    if (b.backend->close) b.backend->close();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
