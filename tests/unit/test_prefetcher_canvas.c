/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=cuda : images of detection on a device: canvases bitwise equal to the loader's on the host, of a
 * folder and of its shards, and fields that stay in host memory. */
#include <xxhash.h>

#include "cluster/comm/comm.h"
#include "data/load/samples.h"
#include "tests/folder.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "tests/turned.h"
#include "tools/pack/pack.h"
#include "train/feed/prefetcher.h"

enum { N = 11, BATCH = 4, N_BATCHES = 2 * ((N + BATCH - 1) / BATCH), SEED = 5 };

static const backend_t *host, *device;

/* Images of different shapes, some turned, with one object, or with two. */
static void put_coco(void)
{
    static uint8_t pixels[3 * 90 * 90], file[1 << 16];
    char json[8192], name[64];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"images\":[");
#define PUT(...) used += (size_t)snprintf(json + used, sizeof json - used, __VA_ARGS__)
    for (int i = 0; i < N; i++) {
        const image_t image = {40 + i * 4, 90 - i * 3, pixels};
        for (int64_t k = 0; k < 3 * image.width * image.height; k++)
            pixels[k] = (uint8_t)(k * (i + 7) / 50 + 20 * i);
        snprintf(name, sizeof name, "set/train2017/%02d.jpg", i);
        folder_put(name, file, turned_jpeg(&image, i % 3 ? 1 : 1 + i % 8, file, sizeof file));
        PUT("%s{\"id\":%d,\"file_name\":\"%02d.jpg\",\"width\":%d,\"height\":%d}", i ? "," : "", i + 1, i,
            (int)image.width, (int)image.height);
    }
    PUT("],\"categories\":[{\"id\":3,\"name\":\"box\"}],\"annotations\":[");
    for (int k = 0; k < 2 * N - 3; k++)
        PUT("%s{\"id\":%d,\"image_id\":%d,\"category_id\":3,\"bbox\":[%d,2,20,11],\"area\":220,\"iscrowd\":0,"
            "\"segmentation\":[[4,2,24,2,24,13,4,%d]]}",
            k ? "," : "", k + 1, k % N + 1, k, 5 + k);
    PUT("]}");
    folder_put("set/annotations/instances_train2017.json", json, used);
}

static bool make_shards(void)
{
    comm_t *comm = NULL;
    source_t *source = NULL;
    pack_result_t result;
    const pack_options_t options = {.out = folder_path("shards"), .shard_bytes = 1 << 21};
    const bool fine = comm_alone(&comm) == ERR_OK && source_open(folder_path("set"), &source) == ERR_OK &&
                      pack_run(comm, source, &options, &result) == ERR_OK;
    source_close(&source);
    comm_close(&comm);
    return fine;
}

static sampler_t *make_sampler(const dataset_t *set)
{
    sampler_t *sampler = NULL;
    const sampler_options_t options = {
        .n_samples = set->info.n_samples[SPLIT_TRAIN], .global_batch = BATCH, .seed = 3};
    must(sampler_new(&options, &sampler), "a sampler");
    return sampler;
}

static uint64_t hash_fields(const prefetcher_t *prefetcher, const prefetcher_batch_t *batch)
{
    uint64_t hash = 0;
    for (int k = 0; k < prefetcher->fields.n; k++)
        hash = XXH3_64bits_withSeed(
            batch->fields[k], batch_field_bytes(&prefetcher->fields.at[k], &batch->from->fields[k], batch->n),
            hash);
    return hash;
}

/* A batch used as a step does: its fields first, its canvases by work that ends after the next fetch has begun. */
static uint64_t hash_batch(prefetcher_t *prefetcher, const prefetcher_batch_t *batch, float *copy)
{
    const backend_t *backend = prefetcher->backend;
    const int64_t n_room = prefetcher->info.height * prefetcher->info.width * 3;
    const detection_place_t *field = batch->fields[DETECTION_FIELD_PLACE];
    uint64_t hash = hash_fields(prefetcher, batch);
    detection_place_t places[BATCH];
    memcpy(places, field, (size_t)batch->n * sizeof *field);
    if (backend->memory)
        must(backend->memory->download(copy, batch->pixels, (size_t)(batch->n * n_room) * sizeof *copy),
             "pixels");
    else
        memcpy(copy, batch->pixels, (size_t)(batch->n * n_room) * sizeof *copy);
    must(prefetcher_ahead(prefetcher), "prefetcher_ahead");
    must(backend_sync(backend), "waiting");
    for (int64_t i = 0; i < batch->n; i++) {
        const size_t n_canvas = (size_t)(places[i].canvas_height * places[i].canvas_width * 3);
        hash = XXH3_64bits_withSeed(copy + i * n_room, n_canvas * sizeof *copy, hash);
    }
    return hash;
}

/* Two epochs. n_sizes: canvases that differ from those before them. */
static uint64_t hash_set(const char *path, const backend_t *backend, int *n_sizes)
{
    transform_settings_t settings = {.task = TASK_DETECT};
    dataset_t *set = NULL;
    prefetcher_t prefetcher;
    float *copy = NULL;
    must(canvases_new(&(canvas_options_t){"64,80", 128, "auto"}, &settings.canvases), "canvases");
    must(dataset_open(path, &settings, &set), "a dataset");
    sampler_t *sampler = make_sampler(set);
    const loader_options_t options = {.dataset = set,
                                      .sampler = sampler,
                                      .size = 1,
                                      .n_batches = N_BATCHES,
                                      .max_local = BATCH,
                                      .n_threads = 2,
                                      .timeout_sec = 60,
                                      .norm = set->info.norm,
                                      .seed = SEED,
                                      .random = true};
    must(mem_new_array(BATCH * set->info.height * set->info.width, 3 * sizeof *copy, "pixels", &copy),
         "memory");
    must(prefetcher_open(&options, backend, &prefetcher), "prefetcher_open");
    uint64_t hash = 0;
    int canvas = -1;
    *n_sizes = 0;
    for (int k = 0; k < N_BATCHES; k++) {
        prefetcher_batch_t batch;
        must(prefetcher_next(&prefetcher, &batch), "prefetcher_next");
        const detection_place_t *places = batch.fields[DETECTION_FIELD_PLACE];
        for (int64_t i = 0; i < batch.n; i++)
            *n_sizes += places[i].canvas != canvas, canvas = places[i].canvas;
        hash = hash * 31 + hash_batch(&prefetcher, &batch, copy);
    }
    prefetcher_close(&prefetcher);
    sampler_free(&sampler);
    dataset_close(&set);
    mem_free(&copy);
    return hash;
}

/* The batch before the last: its canvases again, its fields no longer. */
static bool restores(void)
{
    transform_settings_t settings = {.task = TASK_DETECT};
    dataset_t *set = NULL;
    prefetcher_t prefetcher;
    prefetcher_batch_t batch;
    float first[2] = {NAN, NAN}, again = NAN;
    must(canvases_new(&(canvas_options_t){"64", 128, "auto"}, &settings.canvases), "canvases");
    must(dataset_open(folder_path("set"), &settings, &set), "a dataset");
    sampler_t *sampler = make_sampler(set);
    const loader_options_t options = {.dataset = set,
                                      .sampler = sampler,
                                      .size = 1,
                                      .n_batches = 2,
                                      .max_local = BATCH,
                                      .timeout_sec = 60,
                                      .norm = set->info.norm};
    must(prefetcher_open(&options, device, &prefetcher), "prefetcher_open");
    for (int k = 0; k < 2; k++) {
        must(prefetcher_next(&prefetcher, &batch), "prefetcher_next");
        must(device->memory->download(&first[k], batch.pixels, sizeof *first), "pixels");
        must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
    }
    must(backend_sync(device), "waiting");
    must(prefetcher_restore(&prefetcher, &batch), "prefetcher_restore");
    must(device->memory->download(&again, batch.pixels, sizeof again), "pixels");
    must(backend_sync(device), "waiting");
    prefetcher_close(&prefetcher);
    sampler_free(&sampler);
    dataset_close(&set);
    return memcmp(&again, &first[0], sizeof again) == 0 && memcmp(&again, &first[1], sizeof again) != 0 &&
           !batch.from && !batch.fields[DETECTION_BOX];
}

int main(int argc, char **argv)
{
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &device, why) != ERR_OK) tap_skip_all(err_message());
    device = util_open(argc, argv, 1);
    if (!device->memory) tap_skip_all("this backend uses the loader's canvases");
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    must(backend_find("ref", &host, why), "ref");
    tap_plan(5);
    put_coco();
    int n_sizes, n;
    const uint64_t hash = hash_set(folder_path("set"), host, &n_sizes);
    OK(n_sizes > N_BATCHES, "%d changes of the canvas in %d batches", n_sizes, N_BATCHES);
    OK(hash_set(folder_path("set"), device, &n) == hash && n == n_sizes,
       "canvases and fields are the host's");
    OK(make_shards() && hash_set(folder_path("shards"), device, &n) == hash, "of shards, too");
    OK(restores(), "the batch before the last: canvases, but no fields");
    if (device->close) device->close();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
