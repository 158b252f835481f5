/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=cpu,cuda slow=cuda san=slow
 * Micro-batches of a detector: losses, gradients and what is sampled do not depend on how many images a pass has, on
 * mixed canvases and where the batch is no multiple; common cuts of synchronized batch norm; statistics over a
 * micro-batch; bfloat16; the image of a NaN. */
#include <math.h>
#include <string.h>

#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "data/annotation/mask.h"
#include "data/load/samples.h"
#include "tests/graph_util.h"
#include "tests/small_rcnn.h"
#include "tests/tap.h"
#include "train/detect/train_images.h"

enum { N = 7, N_CLASSES = 3, LONG = 96, SHORT = 64, VALUES = LONG * SHORT * 3, SEED = 5 };

static const map_size_t canvases[] = {{SHORT, LONG}, {LONG, SHORT}};
/* As balance_deal leaves them: in order. Image 3 has no objects. */
static const int32_t canvas_of[N] = {0, 0, 0, 1, 1, 1, 1};
static const int64_t n_objects[N] = {1, 2, 2, 0, 1, 2, 3};

/* Objects side by side, a colour for each class; their masks are their boxes. */
typedef struct images {
    detection_place_t places[N];
    float boxes[3 * N][4];
    int32_t classes[3 * N], counts[3 * N], runs[3 * N * 128];
    int64_t offsets[N + 1], run_offsets[N + 1];
    float *pixels; /* [N][VALUES] */
    batch_t batch;
} images_t;

static void put_object(images_t *images, int64_t i, int64_t k)
{
    const map_size_t canvas = canvases[canvas_of[i]];
    const int64_t row = images->offsets[i] + k, x = 4 + 20 * k, y = 6 + 3 * i, w = 14 + i, h = 22 + 4 * k;
    uint8_t mask[LONG * SHORT] = {0};
    rle_t rle = {.runs = NULL};
    const float box[] = {(float)x, (float)y, (float)(x + w), (float)(y + h)};
    memcpy(images->boxes[row], box, sizeof box);
    images->classes[row] = 1 + (int32_t)((i + k) % 2);
    for (int64_t at = 0; at < canvas.height * canvas.width; at++) {
        const int64_t column = at % canvas.width, line = at / canvas.width;
        mask[at] = column >= x && column < x + w && line >= y && line < y + h;
        if (mask[at]) images->pixels[i * VALUES + 3 * at + images->classes[row]] += 2;
    }
    must(rle_encode(mask, (int32_t)canvas.width, (int32_t)canvas.height, &rle), "a mask");
    images->counts[row] = rle.n;
    memcpy(images->runs + images->run_offsets[i + 1], rle.runs, (size_t)rle.n * sizeof *rle.runs);
    images->run_offsets[i + 1] += rle.n;
    rle_free(&rle);
}

static void open_images(images_t *images, const backend_t *backend)
{
    *images = (images_t){.pixels = util_block(backend, N * VALUES * sizeof(float))};
    rng_t rng = rng_new(SEED, RNG_TEST, 0);
    for (int64_t i = 0; i < N * VALUES; i++) images->pixels[i] = 0.1f * (float)rng_normal(&rng);
    for (int32_t i = 0; i < N; i++) {
        const int32_t height = (int32_t)canvases[canvas_of[i]].height,
                      width = (int32_t)canvases[canvas_of[i]].width;
        images->places[i] = (detection_place_t){.image = 10 + i,
                                                .canvas = canvas_of[i],
                                                .canvas_height = height,
                                                .canvas_width = width,
                                                .scaled_height = height,
                                                .scaled_width = width,
                                                .image_height = height,
                                                .image_width = width,
                                                .orientation = 1};
        images->offsets[i + 1] = images->offsets[i] + n_objects[i];
        images->run_offsets[i + 1] = images->run_offsets[i];
        for (int64_t k = 0; k < n_objects[i]; k++) put_object(images, i, k);
    }
    images->batch = (batch_t){.n = N,
                              .fields = {[DETECTION_FIELD_PLACE] = {images->places, NULL},
                                         [DETECTION_BOX] = {images->boxes, images->offsets},
                                         [DETECTION_CLASS] = {images->classes, images->offsets},
                                         [DETECTION_MASK_N] = {images->counts, images->offsets},
                                         [DETECTION_RUNS] = {images->runs, images->run_offsets}}};
}

typedef struct training {
    graph_run_t run;
    images_t images;
    train_images_t *train;
    float sums[TASK_N_SUMS];
} training_t;

typedef struct settings {
    int64_t micro_batch;
    bool norms_learn;
    dtype_t compute;
    err_t (*sum_shared)(void *context, double *values, int64_t n);
} settings_t;

static void open_training(training_t *t, const backend_t *backend, const settings_t *s)
{
    const small_rcnn_t net = {SHORT, LONG, N_CLASSES, 8, 16, 4, s->norms_learn, s->compute};
    shape_t shapes[GRAPH_MAX_INPUTS];
    graph_run_open(&t->run, backend, small_rcnn_of(&net), 1);
    for (int c = 0; c < 2; c++)
        for (int64_t n = 1; n <= s->micro_batch; n++) {
            if (train_images_pass(s->micro_batch, n) != n) continue;
            rcnn_shapes(t->run.graph, canvases[c].height, canvases[c].width, shapes);
            must(exec_prepare_shapes(t->run.exec, n, shapes, true), "planning");
        }
    must(exec_ready(t->run.exec), "memory");
    open_images(&t->images, backend);
    train_images_options_t options = {.image = {.graph = t->run.graph,
                                                .backend = backend,
                                                .exec = t->run.exec,
                                                .canvases = canvases,
                                                .n_canvases = 2,
                                                .max_images = s->micro_batch,
                                                .max_objects = 3,
                                                .proposals = {200, 100, 0.7},
                                                .targets = targets_training},
                                      .grads = util_device(t->run.grads),
                                      .seed = SEED,
                                      .max_local = N,
                                      .sum_shared = s->sum_shared};
    options.image.targets.anchors = 64;
    options.image.targets.regions = 16;
    must(train_images_new(&options, &t->train), "training");
}

static void close_training(training_t *t)
{
    train_images_free(&t->train);
    util_free(&t->images.pixels);
    graph_run_close(&t->run);
}

/* Images [first, first + n). */
static void run_part(training_t *t, int64_t first, int64_t n)
{
    const exec_batch_t common = {.loss_scale = 1};
    const train_images_part_t part = {.from = &t->images.batch,
                                      .pixels = util_device(t->images.pixels),
                                      .n_values = VALUES,
                                      .first = first,
                                      .n = n,
                                      .common = &common};
    task_cost_t cost = {0};
    memset(t->sums, 0, sizeof t->sums);
    util_push(t->run.backend);
    must(train_images_run(t->train, &part, t->sums, &cost), "a batch");
    util_pull(t->run.backend);
}

static double difference(const training_t *a, const training_t *b)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < a->run.graph->n_flat_trained; i++) {
        const double x = a->run.grads[i], y = b->run.grads[i];
        difference += (x - y) * (x - y), norm += x * x;
    }
    return sqrt(difference / norm);
}

static bool same_bits(const training_t *a, const training_t *b)
{
    return memcmp(a->sums, b->sums, sizeof a->sums) == 0 &&
           memcmp(a->run.grads, b->run.grads, (size_t)a->run.graph->n_flat_trained * sizeof(float)) == 0;
}

/* The largest relative difference of the losses. */
static double losses_differ(const training_t *a, const training_t *b)
{
    double most = 0;
    for (int i = TASK_SUM_LOSS; i <= TASK_SUM_MASK; i++)
        if (a->sums[i] > 0) most = fmax(most, fabs((double)b->sums[i] / (double)a->sums[i] - 1));
    return most;
}

static bool same_items(const training_t *a, const training_t *b)
{
    const train_images_item_t *x = train_images_items(a->train), *y = train_images_items(b->train);
    bool same = true;
    for (int i = 0; i < N; i++)
        same = same && x[i].image == y[i].image && x[i].canvas == y[i].canvas &&
               x[i].n_objects == n_objects[i] && y[i].n_objects == n_objects[i] &&
               x[i].n_positives == y[i].n_positives;
    return same;
}

static void test_passes(void)
{
    OK(train_images_pass(1, 9) == 1 && train_images_pass(4, 9) == 4 && train_images_pass(4, 3) == 2 &&
           train_images_pass(6, 5) == 4 && train_images_pass(6, 6) == 6 && train_images_pass(6, 1) == 1,
       "a pass has the whole micro-batch or a power of two");
}

/* One canvas has three images, the other four. */
static void test_sizes(const backend_t *backend)
{
    static const int64_t sizes[] = {3, 16};
    training_t one, many;
    open_training(&one, backend, &(settings_t){.micro_batch = 1});
    run_part(&one, 0, N);
    OK(one.sums[TASK_SUM_LOSS] > 0 && one.sums[TASK_SUM_MASK] > 0 && one.sums[TASK_SUM_OBJECTS] == 11,
       "one image at a time: losses of %g", (double)one.sums[TASK_SUM_LOSS]);
    for (int i = 0; i < 2; i++) {
        open_training(&many, backend, &(settings_t){.micro_batch = sizes[i]});
        run_part(&many, 0, N);
        const double losses = losses_differ(&one, &many), gradients = difference(&one, &many);
        OK(losses < 1e-5 && gradients < 1e-4 && same_items(&one, &many),
           "up to %lld images at a time: losses within %.1g, gradients within %.1g of their norm",
           (long long)sizes[i], losses, gradients);
        close_training(&many);
    }
    close_training(&one);
}

static err_t cut_all(void *context, double *values, int64_t n)
{
    (void)context;
    for (int64_t i = 0; i < n; i++) values[i] = 2;
    return ERR_OK;
}

/* Another rank's canvas changes after two images. */
static err_t cut_second(void *context, double *values, int64_t n)
{
    (void)context;
    if (n > 2) values[2] += 1;
    return ERR_OK;
}

static void test_cuts(const backend_t *backend)
{
    training_t one, cut;
    open_training(&one, backend, &(settings_t){.micro_batch = 1});
    open_training(&cut, backend, &(settings_t){.micro_batch = 4, .sum_shared = cut_all});
    run_part(&one, 0, N);
    run_part(&cut, 0, N);
    OK(same_bits(&one, &cut), "where every image is cut off, the bits are those of one image at a time");
    close_training(&cut);
    close_training(&one);
    open_training(&one, backend, &(settings_t){.micro_batch = 4, .sum_shared = cut_second});
    open_training(&cut, backend, &(settings_t){.micro_batch = 2});
    run_part(&one, 0, 3);
    run_part(&cut, 0, 3);
    OK(same_bits(&one, &cut), "another rank's change of canvas ends a micro-batch");
    const int64_t before = mem_count();
    run_part(&cut, 0, 3);
    OK(mem_count() == before, "a batch allocates nothing");
    close_training(&cut);
    close_training(&one);
}

/* Makes image 2 a copy of image 1, which has as many objects and fewer runs. */
static void copy_image(images_t *images)
{
    const int64_t from = images->offsets[1], to = images->offsets[2], n = n_objects[1];
    const int64_t n_runs = images->run_offsets[2] - images->run_offsets[1];
    ASSERT(n_objects[2] == n && n_runs <= images->run_offsets[3] - images->run_offsets[2]);
    memcpy(images->pixels + 2 * VALUES, images->pixels + VALUES, VALUES * sizeof(float));
    images->places[2] = images->places[1];
    memcpy(images->boxes[to], images->boxes[from], (size_t)n * sizeof *images->boxes);
    memcpy(images->classes + to, images->classes + from, (size_t)n * sizeof *images->classes);
    memcpy(images->counts + to, images->counts + from, (size_t)n * sizeof *images->counts);
    memcpy(images->runs + images->run_offsets[2], images->runs + images->run_offsets[1],
           (size_t)n_runs * sizeof *images->runs);
}

/* The statistics of two copies are those of one. */
static void test_norms(const backend_t *backend)
{
    training_t one, two;
    open_training(&one, backend, &(settings_t){.micro_batch = 1, .norms_learn = true});
    open_training(&two, backend, &(settings_t){.micro_batch = 2, .norms_learn = true});
    run_part(&one, 1, 2);
    run_part(&two, 1, 2);
    OK(losses_differ(&one, &two) > 1e-3, "trained batch norm is over the images of a micro-batch");
    copy_image(&one.images);
    copy_image(&two.images);
    run_part(&one, 1, 2);
    run_part(&two, 1, 2);
    const double losses = losses_differ(&one, &two), gradients = difference(&one, &two);
    OK(losses < 1e-4 && gradients < 1e-3,
       "of two copies they are those of one: losses within %.1g, gradients within %.1g of their norm", losses,
       gradients);
    close_training(&two);
    close_training(&one);
}

/* Products in bfloat16 round at every layer: the same products are rounded alike. */
static void test_bf16(const backend_t *backend)
{
    training_t one, many;
    open_training(&one, backend, &(settings_t){.micro_batch = 1, .compute = DTYPE_BF16});
    open_training(&many, backend, &(settings_t){.micro_batch = 4, .compute = DTYPE_BF16});
    run_part(&one, 0, 3);
    run_part(&many, 0, 3);
    OK(losses_differ(&one, &many) < 1e-3 && difference(&one, &many) < 0.02,
       "bfloat16: losses within %.1g, gradients within %.1g of their norm", losses_differ(&one, &many),
       difference(&one, &many));
    close_training(&many);
    close_training(&one);
}

static void test_nonfinite(const backend_t *backend)
{
    training_t t;
    int64_t image = -1;
    open_training(&t, backend, &(settings_t){.micro_batch = 4});
    t.images.pixels[5 * VALUES + 100] = NAN;
    run_part(&t, 3, 4);
    const char *where = train_images_where(t.train, &image);
    OK(strstr(where, "output of layer backbone.body.conv1") && image == 15,
       "a NaN's image is told among four: %s, image %lld", where, (long long)image);
    close_training(&t);
}

int main(int argc, char **argv)
{
    const backend_t *backend = util_open(argc, argv, 1);
    tap_plan(1 + 3 + 3 + 2 + 1 + 1 + 1);
    test_passes();
    test_sizes(backend);
    test_cuts(backend);
    test_norms(backend);
    test_bf16(backend);
    test_nonfinite(backend);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
