/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda san=slow
 * A detector's results depend on image and weights alone, also when these change; classes of categories; dealing images; results of turned
 * images; the worst images. */
#include <math.h>
#include <string.h>

#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "data/annotation/sample.h"
#include "data/image/orient.h"
#include "tests/graph_util.h"
#include "tests/small_rcnn.h"
#include "tests/tap.h"
#include "train/detect/detector.h"
#include "train/detect/evaluate.h"
#include "train/inference/trained_model.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* Ids by twos: most of them are beyond the outputs that a detector can have. */
static void test_many_classes(void)
{
    category_t *many = NULL;
    class_map_t map;
    must(mem_new_array(CLASS_MAP_MAX, sizeof *many, "categories", &many), "categories");
    for (int64_t i = 0; i < CLASS_MAP_MAX; i++) many[i] = (category_t){2 * i + 1, "one of many", ""};
    must(class_map_new(many, CLASS_MAP_MAX - 1, 0, &map), "a map");
    OK(!map.ids && map.n_classes == CLASS_MAP_MAX && map.category[CLASS_MAP_MAX - 1] == CLASS_MAP_MAX - 2,
       "rows, where ids are beyond the outputs of a detector");
    class_map_free(&map);
    OK(class_map_new(many, CLASS_MAP_MAX, 0, &map) == ERR_DATA &&
           strstr(err_message(), "more than the 65535 "),
       "too many: %s", err_message());
    class_map_free(&map);
    mem_free(&many);
}

static void test_classes(void)
{
    static const category_t coco[] = {{1, "person", ""}, {3, "car", ""}, {8, "truck", ""}},
                            far[] = {{1, "person", ""}, {13, "car", ""}, {8, "truck", ""}},
                            zero[] = {{0, "person", ""}, {1, "car", ""}};
    class_map_t map;
    char text[128];
    must(class_map_new(coco, 3, 0, &map), "a map");
    class_map_describe(&map, 3, text, sizeof text);
    OK(map.ids && map.n_classes == 9 && map.category[0] == -1 && map.category[1] == 0 &&
           map.category[2] == -1 && map.category[3] == 1 && map.category[8] == 2,
       "outputs are ids: %s", text);
    class_map_free(&map);
    must(class_map_new(coco, 3, 4, &map), "a map");
    OK(!map.ids && map.n_classes == 4 && map.category[3] == 2, "or rows, if the model has as many outputs");
    class_map_free(&map);
    must(class_map_new(far, 3, 0, &map), "a map");
    class_map_describe(&map, 3, text, sizeof text);
    OK(!map.ids && map.n_classes == 4 && map.category[0] == -1 && map.category[2] == 1 &&
           map.category[3] == 2,
       "or rows, where ids are far apart: %s", text);
    class_map_free(&map);
    must(class_map_new(zero, 2, 0, &map), "a map");
    OK(!map.ids && map.n_classes == 3 && map.category[1] == 0, "id 0 would be the background");
    class_map_free(&map);
    test_many_classes();
    static const category_t wide[] = {
        {-5, "a", ""}, {7, "b", ""}, {INT64_MAX, "c", ""}, {INT64_MIN, "d", ""}};
    static const char *const wrong[] = {"1, 2", "1 x", "99999999999999999999"};
    char *ids_text = NULL;
    int64_t *ids = NULL;
    int32_t n;
    must(category_ids_write(wide, 4, &ids_text), "ids as text");
    must(category_ids_read(ids_text, &ids, &n), "ids from text");
    bool same = n == 4;
    for (int i = 0; same && i < n; i++) same = ids[i] == wide[i].id;
    OK(same, "ids as text and back: %s", ids_text);
    mem_free(&ids);
    bool refused = true;
    for (int i = 0; i < COUNT(wrong); i++) {
        refused = refused && category_ids_read(wrong[i], &ids, &n) == ERR_DATA;
        mem_free(&ids);
    }
    OK(refused, "%s", err_message());
    mem_free(&ids_text);
}

/* A rectangle as a mask and its box, turned by each orientation. */
static void test_turn(void)
{
    enum { W = 9, H = 6 };
    bool same = true;
    uint8_t bitmap[W * H], *memory = NULL;
    detector_object_t object = {.mask = {NULL, 0}};
    for (int orientation = 1; orientation <= 8; orientation++) {
        const bool swaps = orient_swaps(orientation);
        const image_info_t info = {.stored_width = swaps ? H : W,
                                   .stored_height = swaps ? W : H,
                                   .orientation = orientation,
                                   .width = W,
                                   .height = H};
        const double shown[4] = {2, 1, 4, 3};
        memcpy(object.box, shown, sizeof shown);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) bitmap[y * W + x] = x >= 2 && x < 6 && y >= 1 && y < 4;
        must(rle_encode(bitmap, W, H, &object.mask), "a mask");
        must(object_to_stored(&info, true, &memory, &object), "turning");
        const image_rect_t back =
            orient_to_shown(orientation, info.stored_width, info.stored_height,
                            (image_rect_t){object.box[0], object.box[1], object.box[2], object.box[3]});
        double box[4];
        rle_box(&object.mask, (int32_t)info.stored_width, (int32_t)info.stored_height, box);
        for (int k = 0; k < 4; k++) same = same && fabs(box[k] - object.box[k]) < 1e-9;
        same =
            same && fabs(back.x - 2) + fabs(back.y - 1) + fabs(back.width - 4) + fabs(back.height - 3) < 1e-9;
        same = same && rle_area(&object.mask) == 12;
    }
    OK(same, "boxes and masks turn to the image as stored");
    rle_free(&object.mask);
    mem_free(&memory);
}

static void test_worst(void)
{
    static const annotation_t first[] = {{.id = 1, .category = 0, .box = {0, 0, 10, 10}},
                                         {.id = 2, .category = 0, .box = {50, 0, 10, 10}}},
                              second[] = {{.id = 3, .category = 1, .box = {0, 0, 10, 10}},
                                          {.id = 4, .category = 1, .crowd = true, .box = {50, 50, 40, 40}}};
    static const truth_image_t images[] = {
        {1, 100, 100, 2, first}, {2, 100, 100, 2, second}, {3, 100, 100, 0, NULL}, {4, 100, 100, 0, NULL}};
    const truths_t truths = {.n_images = 4, .images = images};
    detection_t detections[] = {
        {.image = 0, .category = 0, .score = 0.9, .box = {1, 0, 10, 10}},
        {.image = 0, .category = 0, .score = 0.8, .box = {0, 0, 10, 10}}, /* the second on the same object */
        {.image = 0, .category = 0, .score = 0.3, .box = {50, 0, 10, 10}},
        {.image = 1, .category = 1, .score = 0.9, .box = {0, 0, 10, 10}},
        {.image = 1, .category = 1, .score = 0.7, .box = {55, 55, 10, 10}}, /* in the crowd */
        {.image = 3, .category = 0, .score = 0.6, .box = {0, 0, 10, 10}},
    };
    const results_t results = {.n = COUNT(detections), .detections = detections};
    worst_image_t w[4];
    must(worst_images(&truths, &results, 0.5, w), "worst images");
    OK(w[0].image == 3 && w[1].image == 0 && w[2].image == 1 && w[3].image == 2,
       "the worst images come first");
    OK(w[1].found == 1 && w[1].missed == 1 && w[1].wrong == 1 && w[1].first == 0 && w[1].n == 3,
       "an object is found once; low scores do not count");
    OK(w[2].found == 1 && w[2].missed == 0 && w[2].wrong == 0, "crowds are neither found nor missed");
}

enum { N_CLASSES = 4, N_IMAGES = 5, SIDE_MAX = 200 };
static const int64_t sides[N_IMAGES][2] = {{60, 80}, {80, 60}, {33, 150}, {64, 64}, {60, 80}};

static uint8_t pixels[N_IMAGES][SIDE_MAX * SIDE_MAX * 3];

typedef struct kept {
    int64_t n;
    detector_object_t objects[DETECTIONS_MOST]; /* masks: their area and number of runs in mask.n */
    uint64_t sum;
} kept_t;

static kept_t detect(detector_t *detector, int i)
{
    kept_t kept = {0};
    detector_result_t result;
    const image_t image = {sides[i][1], sides[i][0], pixels[i]};
    const image_info_t info = {.orientation = 1};
    must(detector_run(detector, "image", &info, &image, true, &result), "detecting");
    kept.n = result.n;
    for (int64_t k = 0; k < result.n; k++) {
        const detector_object_t *o = &result.objects[k];
        for (int32_t r = 0; r < o->mask.n; r++) kept.sum = kept.sum * 31 + o->mask.runs[r];
        kept.objects[k] = *o;
        kept.objects[k].mask = (rle_t){NULL, o->mask.n};
    }
    return kept;
}

static bool same_boxes(const kept_t *a, const kept_t *b)
{
    bool same = a->n == b->n;
    for (int64_t k = 0; same && k < a->n; k++)
        same = a->objects[k].class == b->objects[k].class &&
               memcmp(&a->objects[k].score, &b->objects[k].score, sizeof(double)) == 0 &&
               memcmp(a->objects[k].box, b->objects[k].box, sizeof a->objects[k].box) == 0;
    return same;
}

static bool all_inside(const kept_t *kept, int i)
{
    bool inside = true;
    for (int64_t k = 0; k < kept->n; k++) {
        const double *b = kept->objects[k].box;
        inside = inside && b[0] >= 0 && b[1] >= 0 && b[2] > 0 && b[3] > 0 &&
                 b[0] + b[2] <= (double)sides[i][1] + 1e-3 && b[1] + b[3] <= (double)sides[i][0] + 1e-3;
    }
    return inside;
}

static bool near_boxes(const kept_t *a, const kept_t *b)
{
    bool near = a->n == b->n;
    for (int64_t k = 0; near && k < a->n; k++)
        near = a->objects[k].class == b->objects[k].class &&
               fabs(a->objects[k].score - b->objects[k].score) < 1e-4;
    return near;
}

/* Of a detector whose weights change. */
static void test_changes(detector_t *detector, const detector_options_t *options, graph_run_t *run)
{
    detector_t *fresh = NULL, *guest = NULL;
    detector_options_t shared = *options;
    rng_t rng = rng_new(6, RNG_TEST, 0);
    const kept_t before = detect(detector, 0);
    for (int64_t i = 0; i < run->graph->n_flat_params; i++) run->params[i] += 0.01f * (float)rng_normal(&rng);
    util_push(options->backend);
    const kept_t changed = detect(detector, 0);
    must(detector_new(options, &fresh), "a detector");
    const kept_t wanted = detect(fresh, 0);
    OK(same_boxes(&changed, &wanted) && changed.sum == wanted.sum && !same_boxes(&changed, &before),
       "nothing is kept of weights that have changed");
    shared.exec = run->exec;
    must(detector_new(&shared, &guest), "a detector");
    must(exec_ready(run->exec), "memory");
    const kept_t same = detect(guest, 0);
    OK(near_boxes(&same, &changed), "an executor that others use too");
    detector_free(&guest);
    detector_free(&fresh);
}

static void test_detector(const backend_t *backend)
{
    static kept_t first[N_IMAGES], again[N_IMAGES];
    graph_run_t run;
    canvases_t canvases;
    const canvas_options_t sizes = {"64", 128, "auto"};
    detector_t *detector = NULL, *boxes = NULL;
    rng_t rng = rng_new(5, RNG_TEST, 0);
    graph_run_open(&run, backend, small_rcnn(64, 64, N_CLASSES, 4, 64, 4), 1);
    for (int64_t i = 0; i < run.graph->n_flat_params; i++) run.params[i] += 0.1f * (float)rng_normal(&rng);
    for (int i = 0; i < N_IMAGES - 1; i++)
        for (int64_t k = 0; k < COUNT(pixels[i]); k++) pixels[i][k] = (uint8_t)(rng_below(&rng, 256));
    memcpy(pixels[N_IMAGES - 1], pixels[0], sizeof pixels[0]);
    must(canvases_new(&sizes, &canvases), "canvases");
    detector_options_t options = {.graph = run.graph,
                                  .backend = backend,
                                  .params = util_device(run.params),
                                  .states = util_device(run.states),
                                  .canvases = &canvases,
                                  .norm = pixel_norm_imagenet(),
                                  .detections = {0.05, 0.5, 100, NULL},
                                  .masks = true};
    util_push(backend);
    must(detector_new(&options, &detector), "a detector");
    bool found = true, same = true, inside = true;
    for (int i = 0; i < N_IMAGES; i++) first[i] = detect(detector, i);
    const int64_t n_blocks = mem_count();
    for (int i = N_IMAGES - 1; i >= 0; i--) again[i] = detect(detector, i);
    const bool allocates = mem_count() != n_blocks;
    for (int i = 0; i < N_IMAGES; i++) {
        printf("# %lld objects, the first %.6f\n", (long long)first[i].n, first[i].objects[0].score);
        found = found && first[i].n > 3;
        same = same && same_boxes(&first[i], &again[i]) && first[i].sum == again[i].sum;
        inside = inside && all_inside(&first[i], i);
    }
    OK(found && inside, "objects inside their images");
    OK(same && same_boxes(&first[0], &first[N_IMAGES - 1]) && first[0].sum == first[N_IMAGES - 1].sum,
       "the same bits in any order of images");
    OK(first[1].sum != first[0].sum, "others have other objects");
    OK(!allocates, "images allocate nothing");

    test_changes(detector, &options, &run);
    first[0] = detect(detector, 0);

    options.masks = false;
    options.detections.detections = 3;
    must(detector_new(&options, &boxes), "a detector");
    kept_t few = detect(boxes, 0);
    first[0].n = first[0].n > 3 ? 3 : first[0].n;
    OK(same_boxes(&few, &first[0]) && few.objects[0].mask.n == 0, "the three best without masks");
    options.detections.score_threshold = 1;
    detector_free(&boxes);
    must(detector_new(&options, &boxes), "a detector");
    OK(detect(boxes, 0).n == 0, "none");
    detector_result_t none;
    const image_t thin = {20, 100, pixels[0]};
    OK(detector_run(boxes, "thin.png", &(image_info_t){.orientation = 1}, &thin, true, &none) == ERR_DATA &&
           SAYS("thin.png"),
       "an image that is too narrow: %s", err_message());
    detector_free(&boxes);
    detector_free(&detector);
    graph_run_close(&run);
}

int main(int argc, char **argv)
{
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    must(backend_find(argc > 1 ? argv[1] : "cpu", &backend, why), "a backend");
    must(backend_open(backend, 2), "a backend");
    tap_plan(22);
    test_classes();
    test_turn();
    test_worst();
    test_detector(backend);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
