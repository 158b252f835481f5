/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Samples of detection: turned and flipped pixels, boxes and masks that fit together; what training leaves out;
 * the same bits from a folder, its shards, another rank and any number of threads; many objects in an image; boxes of
 * images with an EXIF orientation, as stored and as shown. */
#include <math.h>
#include <xxhash.h>

#include "cluster/comm/comm.h"
#include "data/annotation/mask.h"
#include "data/dataset/dataset.h"
#include "data/image/orient.h"
#include "data/load/loader.h"
#include "data/load/samples.h"
#include "data/show/sheet.h"
#include "tests/folder.h"
#include "tests/images.h"
#include "tests/tap.h"
#include "tests/turned.h"
#include "tools/pack/pack.h"
#include "train/detect/targets.h"

enum { W = 60, H = 40, MIN_SIZE = 64, MAX_SIZE = 128, N_TURNED = 8 };
static uint8_t pixels[W * H * 3];

static transform_settings_t settings_for(const char *min_size, const char *canvas, bool keep_empty)
{
    transform_settings_t s = {.task = TASK_DETECT, .keep_empty = keep_empty};
    ASSERT(canvases_new(&(canvas_options_t){min_size, MAX_SIZE, canvas}, &s.canvases) == ERR_OK);
    return s;
}

static dataset_t *open_set(const char *path, const transform_settings_t *settings)
{
    dataset_t *set = NULL;
    if (dataset_open(path, settings, &set) != ERR_OK) {
        printf("# %s\n", err_message());
        exit(1);
    }
    return set;
}

/* A sample with room for all its fields. */
typedef struct shown {
    detection_place_t place;
    float *boxes;
    int32_t *classes, *n_runs, *runs;
    int64_t n, n_all_runs;
    uint8_t *rgb; /* a copy */
} shown_t;

static void forget(shown_t *s)
{
    mem_free(&s->boxes), mem_free(&s->classes), mem_free(&s->n_runs), mem_free(&s->runs), mem_free(&s->rgb);
}

static void make_room(const dataset_t *set, shown_t *s)
{
    fields_t fields = samples_fields(&set->info);
    *s = (shown_t){0};
    ASSERT(mem_new(field_sample_bytes(&fields.at[DETECTION_BOX]), "a field", &s->boxes) == ERR_OK &&
           mem_new(field_sample_bytes(&fields.at[DETECTION_CLASS]), "a field", &s->classes) == ERR_OK &&
           mem_new(field_sample_bytes(&fields.at[DETECTION_MASK_N]), "a field", &s->n_runs) == ERR_OK &&
           mem_new(field_sample_bytes(&fields.at[DETECTION_RUNS]), "a field", &s->runs) == ERR_OK);
}

static err_t show(const dataset_t *set, dataset_request_t request, shown_t *s)
{
    dataset_reader_t reader;
    dataset_sample_t sample;
    int64_t n[2];
    make_room(set, s);
    const field_place_t places[] = {{&s->place, NULL},
                                    {s->boxes, &n[0]},
                                    {s->classes, &s->n},
                                    {s->n_runs, &n[1]},
                                    {s->runs, &s->n_all_runs}};
    request.fields = places;
    if (dataset_reader_open(set, &reader) != ERR_OK) abort();
    const err_t err = dataset_read(&reader, &request, &sample);
    if (err == ERR_OK) {
        const size_t n_bytes = 3 * (size_t)(sample.place->scaled.height * sample.place->scaled.width);
        ASSERT(n[0] == s->n && n[1] == s->n && mem_new(n_bytes, "pixels", &s->rgb) == ERR_OK);
        memcpy(s->rgb, sample.bytes, n_bytes);
    }
    dataset_reader_close(&reader);
    return err;
}

/* Blocks allocated while all images are read a second time, one after another, by a reader that knows them. */
static int64_t count_blocks(const dataset_t *set)
{
    dataset_reader_t reader;
    dataset_sample_t sample;
    shown_t s;
    int64_t n[4], before = 0;
    make_room(set, &s);
    const field_place_t places[] = {
        {&s.place, NULL}, {s.boxes, &n[0]}, {s.classes, &n[1]}, {s.n_runs, &n[2]}, {s.runs, &n[3]}};
    dataset_request_t request = {.fields = places};
    if (dataset_reader_open(set, &reader) != ERR_OK) abort();
    for (int round = 0; round < 2; round++) {
        before = mem_count();
        for (request.index = 0; request.index < set->info.n_samples[SPLIT_TRAIN]; request.index++)
            if (dataset_read(&reader, &request, &sample) != ERR_OK) abort();
    }
    const int64_t n_blocks = mem_count() - before;
    dataset_reader_close(&reader);
    forget(&s);
    return n_blocks;
}

/* Red in the box, blue elsewhere. */
static void paint(int x0, int y0, int width, int height)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const bool in = x >= x0 && x < x0 + width && y >= y0 && y < y0 + height;
            memcpy(pixels + 3 * (y * W + x), in ? (uint8_t[]){220, 30, 30} : (uint8_t[]){20, 40, 200}, 3);
        }
}

/* Eight turned images of a red box, with a crowd; three more: a crowd alone, a thin box alone, nothing. */
static void put_coco(void)
{
    char json[8192], name[64];
    uint8_t file[1 << 16];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"images\":[");
#define ADD(...) used += (size_t)snprintf(json + used, sizeof json - used, __VA_ARGS__)
    for (int i = 1; i <= N_TURNED + 3; i++) {
        paint(4, 2, 20, 11);
        snprintf(name, sizeof name, "set/train2017/%d.jpg", i);
        const image_t image = {W, H, pixels};
        folder_put(name, file, turned_jpeg(&image, i <= N_TURNED ? i : 1, file, sizeof file));
        ADD("%s{\"id\":%d,\"file_name\":\"%d.jpg\",\"width\":%d,\"height\":%d}", i > 1 ? "," : "", i, i, W,
            H);
    }
    ADD("],\"categories\":[{\"id\":3,\"name\":\"box\"},{\"id\":5,\"name\":\"other\"}],\"annotations\":[");
    for (int i = 1; i <= N_TURNED + 1; i++)
        ADD("{\"id\":%d,\"image_id\":%d,\"category_id\":5,\"bbox\":[0,0,50,40],\"area\":2000,\"iscrowd\":1},",
            i, i);
    for (int i = 1; i <= N_TURNED; i++)
        ADD("{\"id\":%d,\"image_id\":%d,\"category_id\":3,\"bbox\":[4,2,20,11],\"area\":220,\"iscrowd\":0%s},",
            20 + i, i, i == 3 ? "" : ",\"segmentation\":[[4,2,24,2,24,13,4,13]]");
    ADD("{\"id\":50,\"image_id\":%d,\"category_id\":3,\"bbox\":[4,2,0.5,11],\"area\":5,\"iscrowd\":0}]}",
        N_TURNED + 2);
    folder_put("set/annotations/instances_train2017.json", json, used);
}

static bool is_near(double a, double b, double tolerance)
{
    if (fabs(a - b) > tolerance) printf("# %g, expected %g\n", a, b);
    return fabs(a - b) <= tolerance;
}

/* Whether the image is red in its box and blue around it, and the mask's cut is that box, full. */
static bool fits(const shown_t *s)
{
    const detection_place_t *p = &s->place;
    const float *b = s->boxes;
    bool same = s->n == 1 && s->classes[0] == 3;
    for (int y = 0; y < p->scaled_height; y++)
        for (int x = 0; x < p->scaled_width; x++) {
            const double from_left = x + .5 - b[0], from_right = b[2] - x - .5, from_top = y + .5 - b[1],
                         from_foot = b[3] - y - .5,
                         inside = fmin(fmin(from_left, from_right), fmin(from_top, from_foot));
            const uint8_t *c = s->rgb + 3 * (y * p->scaled_width + x);
            if (fabs(inside) > 3) same = same && (c[0] > c[2]) == (inside > 0);
        }
    const bool turned = p->orientation >= 5;
    const mask_view_t view = {
        {turned ? p->image_width : p->image_height, turned ? p->image_height : p->image_width},
        p->orientation,
        p->flipped};
    if (s->n_runs[0] == 0) return same && p->orientation == 3; /* the image without a segmentation */
    const rle_t rle = {(uint32_t *)s->runs, s->n_runs[0]};
    uint8_t *bitmap = NULL;
    mask_cut_t cut;
    if (mask_cut_make(&rle, &view, &bitmap, &cut) != ERR_OK) return false;
    int64_t n = 0;
    for (int64_t i = 0; i < cut.width * cut.height; i++) n += cut.inside[i];
    const double sx = (double)p->scaled_width / p->image_width,
                 sy = (double)p->scaled_height / p->image_height;
    same = same && n == 220 && cut.width * cut.height == 220 && is_near(b[0], (double)cut.x * sx, 1e-4) &&
           is_near(b[1], (double)cut.y * sy, 1e-4) && is_near(b[2], (double)(cut.x + cut.width) * sx, 1e-4) &&
           is_near(b[3], (double)(cut.y + cut.height) * sy, 1e-4);
    mem_free(&bitmap);
    return same;
}

static void test_turned(void)
{
    const transform_settings_t some = settings_for("64,80", "auto", false);
    dataset_t *set = open_set(folder_path("set"), &some);
    const dataset_info_t *info = &set->info;
    OK(info->n_samples[SPLIT_TRAIN] == N_TURNED && info->objects.n_left_out == 3 && info->objects.most == 1 &&
           info->objects.n_unmasked == 1,
       "images without objects are left out: a crowd alone, a thin box alone, nothing");
    OK(set->source->n_samples[SPLIT_TRAIN] == N_TURNED + 3 && set->settings.canvases.n == some.canvases.n &&
           set->classes.n_classes == 6,
       "its parts for detectors");
    OK(info->n_classes == 6 && strcmp(info->class_names[3], "box") == 0 &&
           strcmp(info->class_names[0], "background") == 0,
       "classes are ids");
    OK(strcmp(info->transform,
              "detect; shorter side 64 to 80, longer up to 128 pixels; training: flipped at random, "
              "sizes at random, images with objects") == 0,
       "%s", info->transform);
    bool all = true, fixed = true;
    int n_flipped = 0, n_small = 0;
    for (int i = 0; i < N_TURNED; i++)
        for (int epoch = 0; epoch < 6; epoch++) {
            shown_t s = {0};
            sampler_weight_t weight;
            const bool random = epoch < 5;
            all =
                all && show(set, (dataset_request_t){.index = i, .random = random, .seed = 7, .epoch = epoch},
                            &s) == ERR_OK;
            const detection_place_t *p = &s.place;
            const int shorter = p->scaled_height < p->scaled_width ? p->scaled_height : p->scaled_width;
            all = all && fits(&s) && p->image == i && p->orientation == i + 1 &&
                  p->image_width == (i < 4 ? W : H) && (shorter == 64 || shorter == 80) &&
                  p->canvas_height == some.canvases.size[p->canvas].height;
            dataset_weigh(&(dataset_weigher_t){set, SPLIT_TRAIN, 7}, epoch, i, &weight);
            if (random) {
                n_flipped += p->flipped, n_small += shorter == 64;
                all = all && (i >= 4 || weight.group == p->canvas) && weight.cost > 0;
            } else {
                fixed = fixed && !p->flipped && shorter == 80;
            }
            forget(&s);
        }
    OK(all, "pixels, boxes and masks fit together, however turned, flipped and scaled");
    OK(fixed, "evaluation does not flip and has the largest size");
    OK(n_flipped > 10 && n_flipped < 30 && n_small > 10 && n_small < 30, "%d of 40 are flipped, %d small",
       n_flipped, n_small);
    dataset_close(&set);
}

static void test_settings(void)
{
    const transform_settings_t keep = settings_for("64", "exact", true);
    dataset_t *set = open_set(folder_path("set"), &keep);
    shown_t s;
    OK(set->info.n_samples[SPLIT_TRAIN] == N_TURNED + 3 && set->info.objects.n_left_out == 0, "--keep-empty");
    OK(show(set, (dataset_request_t){.index = N_TURNED}, &s) == ERR_OK && s.n == 0 && s.n_all_runs == 0 &&
           s.place.canvas_height == 64 && s.place.canvas_width == 96,
       "an image without objects, on an exact canvas");
    forget(&s);
    dataset_close(&set);
    transform_settings_t wrong = keep;
    wrong.input_size = 64;
    OK(dataset_open(folder_path("set"), &wrong, &set) == ERR_USAGE && strstr(err_message(), "--min-size"),
       "%s", err_message());
    wrong = keep;
    wrong.brightness = .5;
    OK(dataset_open(folder_path("set"), &wrong, &set) == ERR_USAGE && strstr(err_message(), "--jitter"), "%s",
       err_message());
}

/* Two epochs of batches by weight, but for what lies beside a canvas in its sample's room. n_mixed: batches of
 * several canvases. */
static uint64_t hash_batches(const dataset_t *set, int n_threads, int *n_mixed)
{
    enum { BATCH = 4 };
    const dataset_weigher_t weigher = {set, SPLIT_TRAIN, 5};
    const sampler_options_t order = {.n_samples = set->info.n_samples[SPLIT_TRAIN],
                                     .global_batch = BATCH,
                                     .seed = 3,
                                     .weigh = dataset_weigh,
                                     .weigher = &weigher};
    sampler_t *sampler = NULL;
    loader_t *loader = NULL;
    if (sampler_new(&order, &sampler) != ERR_OK) abort();
    const int64_t n = 2 * sampler_batches(sampler), n_room = set->info.height * set->info.width * 3;
    const loader_options_t options = {.dataset = set,
                                      .sampler = sampler,
                                      .size = 1,
                                      .n_batches = n,
                                      .max_local = BATCH,
                                      .n_threads = n_threads,
                                      .timeout_sec = 60,
                                      .norm = set->info.norm,
                                      .seed = 5,
                                      .random = true};
    if (loader_open(&options, &loader) != ERR_OK) abort();
    const fields_t fields = samples_fields(&set->info);
    uint64_t hash = 0;
    *n_mixed = 0;
    for (int64_t k = 0; k < n; k++) {
        const batch_t *batch;
        if (loader_next(loader, &batch) != ERR_OK) {
            printf("# %s\n", err_message());
            hash = 0;
            break;
        }
        const detection_place_t *places = batch->fields[0].data;
        *n_mixed += places[0].canvas != places[batch->n - 1].canvas;
        for (int64_t i = 0; i < batch->n; i++) {
            const detection_place_t *p = places + i;
            const int64_t n_canvas = (int64_t)p->canvas_height * p->canvas_width * 3;
            hash = XXH3_64bits_withSeed(batch->pixels + i * n_room, (size_t)n_canvas * sizeof(float), hash);
        }
        for (int f = 0; f < fields.n; f++)
            hash = XXH3_64bits_withSeed(batch->fields[f].data,
                                        batch_field_bytes(&fields.at[f], &batch->fields[f], batch->n), hash);
    }
    loader_close(&loader);
    sampler_free(&sampler);
    return hash;
}

static bool make_shards(const char *from, const char *to)
{
    comm_t *comm = NULL;
    source_t *source = NULL;
    pack_result_t result;
    const pack_options_t options = {.out = folder_path(to), .shard_bytes = 1 << 21};
    const bool fine = comm_alone(&comm) == ERR_OK && source_open(from, &source) == ERR_OK &&
                      pack_run(comm, source, &options, &result) == ERR_OK;
    if (!fine) printf("# %s\n", err_message());
    source_close(&source);
    comm_close(&comm);
    return fine;
}

/* What `size` lists, in its order. */
static bool has_canvases(const dataset_t *set, const map_size_t *size, int n)
{
    const canvases_t *canvases = &set->settings.canvases;
    bool same = canvases->n == n;
    for (int i = 0; same && i < n; i++)
        same = canvases->size[i].height == size[i].height && canvases->size[i].width == size[i].width;
    return same;
}

/* Images stored in one shape, of which some are shown turned. */
static void test_exact(void)
{
    static const map_size_t both[] = {{64, 96}, {96, 64}};
    const transform_settings_t exact = settings_for("64", "exact", false),
                               listed = settings_for("64", "64x96,96x64", false);
    dataset_t *set = open_set(folder_path("set"), &exact), *shards, *restored = NULL, *same;
    void *bytes = NULL;
    int64_t n_bytes;
    int n_mixed;
    if (!make_shards(folder_path("set"), "exact") || dataset_save(set, &bytes, &n_bytes) != ERR_OK) abort();
    shards = open_set(folder_path("exact"), &exact);
    same = open_set(folder_path("set"), &listed);
    OK(has_canvases(set, both, 2) && has_canvases(shards, both, 2),
       "exact canvases are those of images as shown");
    const uint64_t hash = hash_batches(set, 1, &n_mixed);
    OK(hash && hash_batches(shards, 1, &n_mixed) == hash && hash_batches(same, 2, &n_mixed) == hash,
       "with the same batches from shards, and with these canvases listed");
    OK(dataset_restore(&exact, &bytes, n_bytes, &restored) == ERR_OK && has_canvases(restored, both, 2) &&
           hash_batches(restored, 1, &n_mixed) == hash,
       "and on another rank");
    dataset_close(&set), dataset_close(&shards), dataset_close(&restored), dataset_close(&same);
    mem_free(&bytes);
}

static void put_one_turned(void)
{
    static const char json[] =
        "{\"images\":[{\"id\":1,\"file_name\":\"1.jpg\",\"width\":60,\"height\":40}],"
        "\"categories\":[{\"id\":1,\"name\":\"box\"}],\"annotations\":[{\"id\":1,\"image_id\":1,"
        "\"category_id\":1,\"bbox\":[4,2,20,11],\"area\":220,\"iscrowd\":0}]}";
    uint8_t file[1 << 16];
    const image_t image = {W, H, pixels};
    folder_put("one/train2017/1.jpg", file, turned_jpeg(&image, 6, file, sizeof file));
    folder_put("one/annotations/instances_train2017.json", json, sizeof json - 1);
}

/* A list that holds images as shown, but not as stored. */
static void test_listed(void)
{
    const transform_settings_t tall = settings_for("64", "96x64", false);
    dataset_t *set = NULL;
    OK(dataset_open(folder_path("set"), &tall, &set) == ERR_USAGE && strstr(err_message(), "1.jpg") &&
           strstr(err_message(), "add 64x96"),
       "%s", err_message());
    put_one_turned();
    OK(dataset_open(folder_path("one"), &tall, &set) == ERR_OK, "one on the only canvas that holds it");
    dataset_close(&set);
}

/* An object of a class, and a box to be ignored. */
static void test_ignored(void)
{
    static const char json[] =
        "{\"images\":[{\"id\":1,\"file_name\":\"1.jpg\",\"width\":60,\"height\":40}],"
        "\"categories\":[{\"id\":1,\"name\":\"box\"}],\"annotations\":[{\"id\":1,\"image_id\":1,\"ignore\":1,"
        "\"category_id\":1,\"bbox\":[30,20,20,10],\"area\":200},{\"id\":2,\"image_id\":1,\"category_id\":1,"
        "\"bbox\":[4,2,20,11],\"area\":220},{\"id\":3,\"image_id\":1,\"category_id\":1,\"iscrowd\":1,"
        "\"bbox\":[0,0,60,40],\"area\":220}]}";
    const transform_settings_t some = settings_for("64,80", "auto", false);
    uint8_t file[1 << 16];
    const image_t image = {W, H, pixels};
    shown_t s = {0};
    folder_put("ignored/train2017/1.jpg", file, turned_jpeg(&image, 1, file, sizeof file));
    folder_put("ignored/annotations/instances_train2017.json", json, sizeof json - 1);
    dataset_t *set = open_set(folder_path("ignored"), &some);
    OK(set->info.objects.most == 2 && show(set, (dataset_request_t){.index = 0}, &s) == ERR_OK && s.n == 2 &&
           s.classes[0] == 1 && s.classes[1] == 0 && s.n_runs[1] == 0 &&
           is_near((double)s.boxes[4] / (double)s.boxes[0], 30. / 4, 1e-3),
       "an ignored box comes last, without class and mask; crowds do not come");
    forget(&s);
    dataset_close(&set);
}

/* The bound of runs holds for every mask, and is at most about three times them. */
static bool check_bound(const source_t *source)
{
    source_buffer_t buffer = {0};
    mask_scratch_t scratch = {0};
    rle_t rle = {0};
    int64_t n_runs = 0, n_most = 0;
    bool holds = true;
    for (int64_t i = 0; i < source->n_samples[SPLIT_TRAIN]; i++) {
        sample_t sample;
        if (source_describe(source, SPLIT_TRAIN, i, &buffer, &sample) != ERR_OK) abort();
        for (int32_t k = 0; k < sample.n_annotations; k++) {
            if (mask_encode(&sample.annotations[k], sample.width, sample.height, &scratch, &rle) != ERR_OK)
                abort();
            const int64_t most = mask_max_runs(&sample.annotations[k], sample.width);
            holds = holds && rle.n <= most;
            n_runs += rle.n, n_most += most;
        }
    }
    printf("# %lld runs, bound %lld\n", (long long)n_runs, (long long)n_most);
    rle_free(&rle);
    mask_scratch_free(&scratch);
    source_free_buffer(source, &buffer);
    return holds && n_most < 3 * n_runs;
}

static void test_coco_tiny(const char *path)
{
    const transform_settings_t some = settings_for("64,96", "auto", false);
    dataset_t *set = open_set(path, &some), *shards, *restored = NULL;
    source_t *source = NULL;
    void *bytes = NULL;
    int64_t n_bytes;
    OK(set->info.n_samples[SPLIT_TRAIN] == 49 && set->info.objects.n_left_out == 1 &&
           set->info.n_classes == 91 && strcmp(set->info.class_names[90], "toothbrush") == 0 &&
           !set->info.class_names[12][0],
       "coco_tiny: 49 images with objects, torchvision's 91 classes");
    if (source_open(path, &source) != ERR_OK || !make_shards(path, "shards")) abort();
    OK(check_bound(source), "no mask has more runs than was said without drawing it");
    source_close(&source);
    shards = open_set(folder_path("shards"), &some);
    OK(count_blocks(set) == 0 && count_blocks(shards) == 0, "images are read without allocating");
    int n_mixed;
    const uint64_t hash = hash_batches(set, 1, &n_mixed);
    OK(hash && hash_batches(set, 4, &n_mixed) == hash, "1 and 4 threads make the same batches");
    OK(n_mixed < 13, "of 26 batches, %d have several canvases", n_mixed);
    OK(hash_batches(shards, 2, &n_mixed) == hash && shards->info.hash == set->info.hash,
       "a folder and its shards, too");
    if (dataset_save(set, &bytes, &n_bytes) != ERR_OK) abort();
    OK(dataset_restore(&some, &bytes, n_bytes, &restored) == ERR_OK &&
           hash_batches(restored, 2, &n_mixed) == hash &&
           memcmp(&restored->info.objects, &set->info.objects, sizeof set->info.objects) == 0,
       "and what another rank receives");
    dataset_close(&set);
    dataset_close(&shards);
    dataset_close(&restored);
    mem_free(&bytes);
}

/* A thousand objects, each with a mask of the whole image's width. */
static void test_many(void)
{
    enum { N = 1000 };
    static char json[1 << 18];
    uint8_t file[1 << 16];
    const image_t image = {W, H, pixels};
    size_t used =
        (size_t)snprintf(json, sizeof json,
                         "{\"images\":[{\"id\":1,\"file_name\":\"1.jpg\",\"width\":%d,\"height\":%d}],"
                         "\"categories\":[{\"id\":1,\"name\":\"box\"}],\"annotations\":[",
                         W, H);
    for (int i = 0; i < N; i++)
        ADD("%s{\"id\":%d,\"image_id\":1,\"category_id\":1,\"bbox\":[0,%d,60,11],\"area\":660,\"iscrowd\":0,"
            "\"segmentation\":[[0,%d,60,%d,60,%d,0,%d]]}",
            i ? "," : "", i + 1, i % 20, i % 20, i % 20, i % 20 + 11, i % 20 + 11);
    ADD("]}");
    folder_put("many/train2017/1.jpg", file, turned_jpeg(&image, 1, file, sizeof file));
    folder_put("many/annotations/instances_train2017.json", json, used);
    const transform_settings_t settings = settings_for("64", "auto", false);
    dataset_t *set = open_set(folder_path("many"), &settings);
    const fields_t fields = samples_fields(&set->info);
    size_t n_bytes = 0;
    for (int f = 0; f < fields.n; f++) n_bytes += field_sample_bytes(&fields.at[f]);
    shown_t s;
    OK(show(set, (dataset_request_t){.index = 0}, &s) == ERR_OK && s.n == N && s.n_all_runs > N * 2 * W &&
           n_bytes < N * (4 * 6 + 4 * 3 * W),
       "1,000 objects take %d bytes, their bitmaps %d", (int)n_bytes, N * W * H);
    forget(&s);
    OK(count_blocks(set) == 0, "and no memory of their own");
    dataset_close(&set);
}

static void test_empty_mask(void)
{
    uint32_t runs[] = {W * H}, wrong[] = {W};
    const mask_view_t view = {{H, W}, 6, true};
    uint8_t *bitmap = NULL;
    mask_cut_t cut;
    OK(mask_cut_make(&(rle_t){runs, 1}, &view, &bitmap, &cut) == ERR_OK && cut.width * cut.height == 1 &&
           cut.inside[0] == 0 && mask_cut_make(&(rle_t){wrong, 1}, &view, &bitmap, &cut) == ERR_DATA,
       "a mask of nothing, and one of another image");
    mem_free(&bitmap);
}

static void test_cost(void)
{
    const map_size_t small = {512, 704}, large = {800, 1088};
    bool grows = detection_cost(small, 0) > 0;
    for (int64_t n = 0; n < 100; n++)
        grows = grows && detection_cost(small, n) < detection_cost(small, n + 1) &&
                detection_cost(small, n) < detection_cost(large, n);
    OK(grows, "an image costs more with each object and on a larger canvas");
}

/* An image of each orientation, and a list of it: as labelling tools give it that turn images (shown), or not. */
typedef struct exif_set {
    const char *name;
    int side, n;         /* side: the images' width as stored, H or W */
    int orientations[8]; /* of the n images */
    const char *frames;  /* for each image: "t" as stored, "s" as shown, "u" as shown, of an upright copy */
} exif_set_t;

static int64_t put_runs(char *json, size_t n_room, const uint8_t *mask, int64_t width, int64_t height)
{
    int64_t used = 0, n = 0;
    uint8_t now = 0;
    for (int64_t i = 0; i <= width * height; i++, n++) {
        const bool end = i == width * height;
        const uint8_t at = end ? !now : mask[i % height * width + i / height];
        if (at == now) continue;
        used += snprintf(json + used, n_room - (size_t)used, "%lld%s", (long long)n, end ? "" : ",");
        now = at, n = 0;
    }
    return used;
}

static void put_exif_image(const exif_set_t *set, int i, bool upright)
{
    static uint8_t turned[W * H * 3];
    const int o = set->orientations[i];
    const made_t made = image_png(set->side, H, &(png_kind_t){.type = 2, .bits = 8, .orientation = o});
    char name[64];
    image_decoder_t *decoder = NULL;
    image_t image;
    uint8_t *bytes = made.bytes;
    size_t n_bytes = made.n;
    snprintf(name, sizeof name, "%s/train2017/%d.png", set->name, i + 1);
    if (upright) {
        ASSERT(image_decoder_new((image_limits_t){0}, &decoder) == ERR_OK &&
               image_decode(decoder, (image_bytes_t){name, made.bytes, made.n}, &image) == ERR_OK);
        memcpy(turned, image.rgb, (size_t)(image.width * image.height * 3));
        bytes = NULL;
        ASSERT(image_encode_png(turned, image.width, image.height, 3, &bytes, &n_bytes) == ERR_OK);
        image_decoder_free(&decoder);
    }
    folder_put(name, bytes, n_bytes);
    if (upright) mem_free(&bytes);
    free(made.bytes);
}

/* An object with polygons, and one with a mask; neither is its own mirror image. */
static void put_exif(const exif_set_t *set)
{
    static const int corners[6][2] = {{10, 5}, {30, 5}, {30, 10}, {16, 10}, {16, 15}, {10, 15}};
    static char json[1 << 16], objects[1 << 16];
    static uint8_t mask[W * H];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"images\":["), more = 0;
    for (int i = 0; i < set->n; i++) {
        const bool stored = set->frames[i] == 't';
        const int o = stored ? 1 : set->orientations[i], w = set->side;
        const int64_t width = orient_swaps(o) ? H : w, height = orient_swaps(o) ? w : H;
        const image_rect_t box = orient_to_shown(o, w, H, (image_rect_t){10, 5, 20, 10}),
                           other = orient_to_shown(o, w, H, (image_rect_t){3, 20, 21, 9});
        put_exif_image(set, i, set->frames[i] == 'u');
        ADD("%s{\"id\":%d,\"file_name\":\"%d.png\",\"width\":%d,\"height\":%d}", i ? "," : "", i + 1, i + 1,
            (int)width, (int)height);
#define ADD_OBJECT(...) more += (size_t)snprintf(objects + more, sizeof objects - more, __VA_ARGS__)
        ADD_OBJECT("%s{\"id\":%d,\"image_id\":%d,\"category_id\":1,\"area\":130,\"iscrowd\":0,"
                   "\"bbox\":[%g,%g,%g,%g],\"segmentation\":[[",
                   i ? "," : "", 2 * i + 1, i + 1, box.x, box.y, box.width, box.height);
        for (int k = 0; k < 6; k++) {
            const image_rect_t p =
                orient_to_shown(o, w, H, (image_rect_t){corners[k][0], corners[k][1], 0, 0});
            ADD_OBJECT("%s%g,%g", k ? "," : "", p.x, p.y);
        }
        memset(mask, 0, sizeof mask);
        for (int y = 20; y < 29; y++)
            for (int x = 3; x < (y < 23 ? 24 : 10); x++) {
                const image_rect_t p = orient_to_shown(o, w, H, (image_rect_t){x, y, 1, 1});
                mask[(int64_t)p.y * width + (int64_t)p.x] = 1;
            }
        ADD_OBJECT("]]},{\"id\":%d,\"image_id\":%d,\"category_id\":1,\"area\":105,\"iscrowd\":0,"
                   "\"bbox\":[%g,%g,%g,%g],\"segmentation\":{\"size\":[%d,%d],\"counts\":[",
                   2 * i + 2, i + 1, other.x, other.y, other.width, other.height, (int)height, (int)width);
        more += (size_t)put_runs(objects + more, sizeof objects - more, mask, width, height);
        ADD_OBJECT("]}}");
    }
    ADD("],\"categories\":[{\"id\":1,\"name\":\"box\"}],\"annotations\":[%s]}", objects);
    char name[64];
    snprintf(name, sizeof name, "%s/annotations/instances_train2017.json", set->name);
    folder_put(name, json, used);
}

static mask_cut_t cut_of(const shown_t *s, int64_t k, int64_t first, uint8_t **bitmap)
{
    const detection_place_t *p = &s->place;
    const bool turned = p->orientation >= 5;
    const mask_view_t view = {
        {turned ? p->image_width : p->image_height, turned ? p->image_height : p->image_width},
        p->orientation,
        p->flipped};
    mask_cut_t cut;
    ASSERT(mask_cut_make(&(rle_t){(uint32_t *)s->runs + first, s->n_runs[k]}, &view, bitmap, &cut) == ERR_OK);
    return cut;
}

/* Whether a detector gets the same image, boxes and masks. */
static bool same_shown(const shown_t *a, const shown_t *b)
{
    const detection_place_t *p = &a->place, *q = &b->place;
    bool same = a->n == 2 && b->n == 2 && p->canvas == q->canvas && p->scaled_height == q->scaled_height &&
                p->scaled_width == q->scaled_width && p->image_height == q->image_height &&
                memcmp(a->rgb, b->rgb, 3 * (size_t)(p->scaled_height * p->scaled_width)) == 0 &&
                memcmp(a->boxes, b->boxes, 8 * sizeof *a->boxes) == 0;
    for (int64_t k = 0, i = 0, j = 0; same && k < 2; i += a->n_runs[k], j += b->n_runs[k], k++) {
        uint8_t *x = NULL, *y = NULL;
        const mask_cut_t c = cut_of(a, k, i, &x), d = cut_of(b, k, j, &y);
        same = c.x == d.x && c.y == d.y && c.width == d.width && c.height == d.height && c.width > 5 &&
               memcmp(c.inside, d.inside, (size_t)(c.width * c.height)) == 0;
        mem_free(&x), mem_free(&y);
    }
    return same;
}

static dataset_t *open_exif(const char *name, list_boxes_t boxes)
{
    transform_settings_t s = settings_for("64", "auto", false);
    s.list.boxes = boxes;
    return open_set(folder_path(name), &s);
}

/* Whether image `index` of a set is that of the upright one: 0, or where they differ. */
static int compare_image(const dataset_t *set, const dataset_t *upright, int64_t index)
{
    int n_other = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        const dataset_request_t request = {.index = index, .random = epoch > 0, .seed = 5, .epoch = epoch};
        shown_t a = {0}, b = {0};
        const bool fine = show(set, request, &a) == ERR_OK && show(upright, request, &b) == ERR_OK;
        if (!fine) printf("# %s\n", err_message());
        n_other += !fine || !same_shown(&a, &b);
        forget(&a), forget(&b);
    }
    return n_other;
}

static int compare_sets(const dataset_t *set, const dataset_t *upright)
{
    int n_other = 0;
    for (int64_t i = 0; i < upright->info.n_samples[SPLIT_TRAIN]; i++)
        n_other += compare_image(set, upright, i);
    return n_other;
}

static bool same_sheet(const dataset_t *set, const dataset_t *upright)
{
    enum { MOST = 8 };
    const source_t *const sources[] = {set->source, upright->source};
    page_t *pages[2] = {NULL};
    pick_t picks[MOST] = {{0}};
    int64_t n_bad = 0;
    for (int i = 0; i < MOST; i++) picks[i] = (pick_t){SPLIT_TRAIN, i};
    for (int i = 0; i < 2; i++) {
        const sheet_t sheet = {.source = sources[i],
                               .picks = picks,
                               .n = sources[i]->n_samples[SPLIT_TRAIN],
                               .tile = 128,
                               .title = "a",
                               .about = "b"};
        ASSERT(sheet_draw(&sheet, &n_bad, &pages[i]) == ERR_OK && n_bad == 0);
    }
    const bool same =
        pages[0]->width == pages[1]->width && pages[0]->height == pages[1]->height &&
        memcmp(pages[0]->rgb, pages[1]->rgb, (size_t)(pages[0]->width * pages[0]->height * 3)) == 0;
    page_free(&pages[0]), page_free(&pages[1]);
    return same;
}

#define ALL_ORIENTATIONS                                                                                     \
    8,                                                                                                       \
    {                                                                                                        \
        1, 2, 3, 4, 5, 6, 7, 8                                                                               \
    }
static const exif_set_t wide_sets[] = {{"upright", W, ALL_ORIENTATIONS, "uuuuuuuu"},
                                       {"stored", W, ALL_ORIENTATIONS, "tttttttt"},
                                       {"shown", W, ALL_ORIENTATIONS, "ssssssss"}},
                        square_sets[] = {{"squares", H, ALL_ORIENTATIONS, "uuuuuuuu"},
                                         {"squares-stored", H, ALL_ORIENTATIONS, "tttttttt"},
                                         {"squares-shown", H, ALL_ORIENTATIONS, "ssssssss"}},
                        mixed_sets[] = {{"pair", W, 6, {6, 3, 8, 1, 5, 7}, "uuuuuu"},
                                        {"pair-mixed", W, 6, {6, 3, 8, 1, 5, 7}, "tttsss"}};

/* Images of a camera that was held in any way, with boxes as stored or as shown: what trains is that of upright ones. */
static void test_exif_boxes(void)
{
    for (int i = 0; i < 3; i++) put_exif(&wide_sets[i]), put_exif(&square_sets[i]);
    dataset_t *upright = open_exif("upright", LIST_BOXES_AUTO),
              *stored = open_exif("stored", LIST_BOXES_AUTO), *shown = open_exif("shown", LIST_BOXES_AUTO),
              *shards, *restored = NULL, *forced;
    OK(compare_sets(stored, upright) == 0 && strstr(stored->info.about, "7 of 8") &&
           strstr(stored->info.about, "as stored"),
       "boxes as stored, by their images' sizes: %s", stored->info.about);
    OK(compare_sets(shown, upright) == 0 && strstr(shown->info.about, "as shown") &&
           !strstr(upright->info.about, "EXIF"),
       "boxes as shown: %s", shown->info.about);
    OK(same_sheet(stored, upright) && same_sheet(shown, upright), "and so they are drawn");
    void *bytes = NULL;
    int64_t n_bytes;
    const transform_settings_t some = settings_for("64", "auto", false);
    if (!make_shards(folder_path("shown"), "shown-shards") || dataset_save(shown, &bytes, &n_bytes) != ERR_OK)
        abort();
    shards = open_exif("shown-shards", LIST_BOXES_AUTO);
    OK(dataset_restore(&some, &bytes, n_bytes, &restored) == ERR_OK && compare_sets(restored, upright) == 0 &&
           compare_sets(shards, upright) == 0 && shards->info.hash == shown->info.hash &&
           same_sheet(shards, upright),
       "on another rank and from shards, too");
    forced = open_exif("shown", LIST_BOXES_SHOWN);
    OK(forced->info.hash == shown->info.hash && stored->info.hash != shown->info.hash,
       "a rule that changes nothing");
    dataset_close(&forced), dataset_close(&shards), dataset_close(&restored);
    dataset_close(&upright), dataset_close(&stored), dataset_close(&shown);
    mem_free(&bytes);

    upright = open_exif("squares", LIST_BOXES_AUTO);
    stored = open_exif("squares-stored", LIST_BOXES_AUTO);
    shown = open_exif("squares-shown", LIST_BOXES_SHOWN);
    forced = open_exif("squares-stored", LIST_BOXES_SHOWN);
    OK(compare_sets(stored, upright) == 0 && strstr(stored->info.about, "--exif-boxes decides"),
       "squares: %s", stored->info.about);
    OK(compare_sets(shown, upright) == 0 && same_sheet(shown, upright), "squares: %s", shown->info.about);
    OK(compare_sets(forced, upright) > 0 && forced->info.hash != stored->info.hash,
       "another rule is other data");
    dataset_close(&upright), dataset_close(&stored), dataset_close(&shown), dataset_close(&forced);
}

static err_t open_with(const char *name, list_boxes_t boxes)
{
    source_t *source = NULL;
    const list_rules_t rules = {.boxes = boxes};
    const err_t err = source_open_watched(folder_path(name), &rules, NULL, &source);
    source_close(&source);
    return err;
}

/* Sets in which some sizes tell nothing, or not the same. */
static void test_exif_mixed(void)
{
    const exif_set_t half = {"half", W, 3, {3, 6, 2}, "uuu"},
                     half_shown = {"half-shown", W, 3, {3, 6, 2}, "sss"};
    put_exif(&mixed_sets[0]), put_exif(&mixed_sets[1]), put_exif(&half), put_exif(&half_shown);
    dataset_t *upright = open_exif("pair", LIST_BOXES_AUTO),
              *mixed = open_exif("pair-mixed", LIST_BOXES_AUTO);
    OK(compare_sets(mixed, upright) == 0 && strstr(mixed->info.about, "2 as shown and 2 as stored"), "%s",
       mixed->info.about);
    dataset_close(&upright), dataset_close(&mixed);
    upright = open_exif("half", LIST_BOXES_AUTO), mixed = open_exif("half-shown", LIST_BOXES_AUTO);
    OK(compare_sets(mixed, upright) == 0, "sizes that do not tell follow those that do: %s",
       mixed->info.about);
    dataset_close(&upright), dataset_close(&mixed);
    OK(open_with("half-shown", LIST_BOXES_STORED) == ERR_DATA && strstr(err_message(), "2.png") &&
           strstr(err_message(), "40 × 60") && strstr(err_message(), "--exif-boxes"),
       "%s", err_message());
    OK(open_with("stored", LIST_BOXES_SHOWN) == ERR_DATA && strstr(err_message(), "5.png") &&
           strstr(err_message(), "60 × 40"),
       "%s", err_message());
    const exif_set_t other = {"half-shown", H, 3, {3, 6, 2}, "sss"};
    for (int i = 0; i < 3; i++) put_exif_image(&other, i, false);
    dataset_t *wrong = open_exif("half-shown", LIST_BOXES_AUTO);
    shown_t s;
    OK(show(wrong, (dataset_request_t){.index = 1}, &s) == ERR_DATA && strstr(err_message(), "40 × 40") &&
           strstr(err_message(), "40 × 60"),
       "%s", err_message());
    forget(&s);
    dataset_close(&wrong);
}

int main(void)
{
    enum { N_TINY = 7 };
    const char *data = getenv("DPTRAIN_DATA");
    char tiny[FS_PATH_MAX] = "";
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    tap_plan(7 + 4 + 3 + 2 + 2 + 1 + 1 + 1 + 8 + 5 + N_TINY + 1);
    put_coco();
    test_cost();
    test_turned();
    test_settings();
    test_exact();
    test_listed();
    test_ignored();
    test_many();
    test_empty_mask();
    test_exif_boxes();
    test_exif_mixed();
    if (data) snprintf(tiny, sizeof tiny, "%s/coco_tiny", data);
    if (data && fs_is_folder(tiny))
        test_coco_tiny(tiny);
    else
        for (int i = 0; i < N_TINY; i++) tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
