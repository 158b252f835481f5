/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=cpu,cuda slow=cuda san=slow
 * Training passes over one image: a small detector learns two rectangles; an image without objects, one without
 * positives; the same bits when repeated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "tests/graph_util.h"
#include "tests/small_rcnn.h"
#include "tests/tap.h"
#include "train/detect/train_image.h"

enum { HEIGHT = 96, WIDTH = 128, N_CLASSES = 3, N_LOSSES = 13, STEPS = 100, FEW_STEPS = 10, SEED = 11 };

static const map_size_t canvas = {HEIGHT, WIDTH};
static const box_t boxes[] = {{10, 12, 58, 60}, {70, 30, 118, 80}};
static const int32_t classes[] = {1, 2};
static uint8_t inside[2][50 * 48];
static const mask_cut_t masks[] = {{10, 12, 48, 48, inside[0]}, {70, 30, 48, 50, inside[1]}};

/* context: how many of the objects have a mask, the last ones; NULL: both. */
static err_t get_mask(void *context, int64_t object, mask_cut_t *out)
{
    const int64_t n = context ? *(const int64_t *)context : 2;
    *out = object >= 2 - n ? masks[object] : (mask_cut_t){0};
    return ERR_OK;
}

/* Two rectangles of other colours on noise; the second's mask is its upper half. */
static void draw_image(float *pixels)
{
    rng_t rng = rng_new(SEED, RNG_TEST, 0);
    for (int64_t y = 0; y < HEIGHT; y++)
        for (int64_t x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                float v = 0.1f * (float)rng_normal(&rng);
                for (int k = 0; k < 2; k++)
                    if ((float)x >= boxes[k].x1 && (float)x < boxes[k].x2 && (float)y >= boxes[k].y1 &&
                        (float)y < boxes[k].y2)
                        v += c == k ? 2 : -1;
                pixels[(y * WIDTH + x) * 3 + c] = v;
            }
    memset(inside[0], 1, sizeof inside[0]);
    memset(inside[1], 1, 25 * 48);
}

typedef struct training {
    graph_run_t run;
    train_image_t *train;
    train_image_input_t input;
    train_image_counts_t counts;
    float *tally; /* [2 * N_LOSSES] */
} training_t;

static void open_training(training_t *t, const backend_t *backend)
{
    graph_run_open(&t->run, backend, small_rcnn(HEIGHT, WIDTH, N_CLASSES, 8, 16, 4), 1);
    must(exec_prepare(t->run.exec, 1, true), "planning");
    must(exec_ready(t->run.exec), "memory");
    train_image_options_t options = {.graph = t->run.graph,
                                     .backend = backend,
                                     .exec = t->run.exec,
                                     .canvases = &canvas,
                                     .n_canvases = 1,
                                     .max_images = 1,
                                     .max_objects = 2,
                                     .proposals = {200, 100, 0.7},
                                     .targets = targets_training};
    options.targets.anchors = 64;
    options.targets.regions = 32;
    must(train_image_new(&options, &t->train), "training");
    t->tally = util_block(backend, 2 * N_LOSSES * sizeof *t->tally);
    float *pixels = t->run.input[0];
    draw_image(pixels);
    t->input = (train_image_input_t){.pixels = util_device(pixels),
                                     .canvas = canvas,
                                     .scaled = canvas,
                                     .image = canvas,
                                     .objects = {2, boxes, classes},
                                     .masks = {get_mask, NULL},
                                     .draw = {.seed = SEED}};
}

static void close_training(training_t *t)
{
    train_image_free(&t->train);
    util_free(&t->tally);
    graph_run_close(&t->run);
}

/* The sum of all losses. */
static double step(training_t *t)
{
    const exec_batch_t batch = {.tally = util_device(t->tally), .loss_scale = 1};
    double sum = 0;
    memset(t->tally, 0, 2 * N_LOSSES * sizeof *t->tally);
    util_push(t->run.backend);
    must(train_image_run(t->train, &batch, &t->input, 1, &t->counts), "a pass");
    util_pull(t->run.backend);
    for (int i = 0; i < N_LOSSES; i++) sum += (double)t->tally[2 * i];
    return sum;
}

/* Of the last step, all levels. */
static double rpn_loss(const training_t *t)
{
    double sum = 0;
    for (int i = 0; i < 2 * PROPOSALS_LEVELS; i++) sum += (double)t->tally[2 * i];
    return sum;
}

/* tests/emu is slow: only a beginning. */
static bool is_slow(const backend_t *backend)
{
    const backend_device_t *gpu = backend->device ? backend->device() : NULL;
    return gpu && strstr(gpu->name, "emulated") && !getenv("DPTRAIN_TEST_SLOW");
}

static void test_learning(const backend_t *backend)
{
    const bool few = is_slow(backend);
    const int n_steps = few ? FEW_STEPS : STEPS;
    training_t t;
    open_training(&t, backend);
    const double first = step(&t), again = step(&t);
    const double rpn_first = rpn_loss(&t);
    double last = 0;
    OK(isfinite(first) && first > 0 && first == again, "the losses of an image, twice the same: %g", first);
    OK(t.counts.n_regions == 32 && t.counts.n_positives >= 2 && t.counts.n_positives <= 8,
       "32 regions, of which up to a quarter have an object, at least the objects' own");
    const int64_t before = mem_count();
    for (int i = 0; i < n_steps; i++) {
        t.input.draw.epoch = (uint32_t)i;
        last = step(&t);
        for (int64_t k = 0; k < t.run.graph->n_flat_trained; k++) t.run.params[k] -= 0.02f * t.run.grads[k];
    }
    OK(mem_count() == before, "steps allocate nothing");
    OK(rpn_loss(&t) < (few ? 1 : 0.4) * rpn_first && last < first && (few || t.counts.n_found == 2),
       "after %d steps regions are proposed at both objects; the losses are %g, of the proposals %g, before %g",
       n_steps, last, rpn_loss(&t), rpn_first);
    close_training(&t);
}

/* Whether the gradients of a layer are all 0. */
static bool is_still(const graph_run_t *r, const char *prefix)
{
    for (int i = 0; i < r->graph->n_params; i++) {
        const graph_param_t *p = &r->graph->params[i];
        if (strncmp(p->name, prefix, strlen(prefix)) != 0) continue;
        for (int64_t k = 0; k < shape_count(p->shape); k++)
            if (r->grads[p->offset + k] != 0) return false;
    }
    return true;
}

static void test_empty(const backend_t *backend)
{
    training_t t;
    open_training(&t, backend);
    step(&t);
    OK(!is_still(&t.run, "roi_heads.mask_head.0.0/weight"), "with objects the mask head has gradients");
    t.input.objects.n = 0;
    const double sum = step(&t);
    OK(isfinite(sum) && sum > 0 && t.counts.n_positives == 0, "an image without objects is background");
    OK(t.tally[2 * (N_LOSSES - 1)] == 0 && is_still(&t.run, "roi_heads.mask_head"),
       "without positives the mask's loss and gradients are 0");
    close_training(&t);
}

/* Objects without a mask count for nothing in its loss. */
static void test_unmasked(const backend_t *backend)
{
    training_t t;
    int64_t n_masked = 0;
    open_training(&t, backend);
    const double sum = step(&t), with = (double)t.tally[2 * (N_LOSSES - 1)];
    t.input.masks.context = &n_masked;
    const double less = step(&t);
    OK(with > 0 && t.tally[2 * (N_LOSSES - 1)] == 0 && fabs(sum - with - less) < 1e-5 &&
           is_still(&t.run, "roi_heads.mask_head") && t.counts.n_positives >= 2,
       "objects without masks: no loss and no gradients of masks, the other losses are the same");
    n_masked = 1;
    step(&t);
    const double one = (double)t.tally[2 * (N_LOSSES - 1)];
    OK(isfinite(one) && one > 0 && fabs(one - with) > 1e-6, "one with a mask: the mean is over its regions");
    close_training(&t);
}

int main(int argc, char **argv)
{
    const backend_t *backend = util_open(argc, argv, 1);
    tap_plan(4 + 3 + 2 + 1);
    test_learning(backend);
    test_empty(backend);
    test_unmasked(backend);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
