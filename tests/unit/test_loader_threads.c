/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Loaders of images that are read when they are wanted: the same batches on any number of threads, images
 * that cannot be read, targets, batches by allowance, and an end at any time. The images are made up. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "data/load/loader.h"
#include "tests/tap.h"

enum { N = 29, SIDE = 4, CHANNELS = 3, N_VALUES = SIDE * SIDE * CHANNELS, BATCH = 8, N_CLASSES = 5 };
enum { N_PER_EPOCH = (N + BATCH - 1) / BATCH, N_EPOCHS = 3, N_BATCHES = N_EPOCHS * N_PER_EPOCH };

static bool torn[SPLIT_COUNT][N];
static atomic_int n_reads[N];

static uint8_t value_of(const dataset_request_t *w, int k)
{
    uint64_t x = (uint64_t)w->index * 37 + (uint64_t)k * 11;
    if (w->random) x += w->seed * 5 + (uint64_t)w->epoch * 101;
    return (uint8_t)x;
}

/* Beside the task's field, a ragged one: 0 to 3 rows of two numbers. */
static const fields_t with_rows = {.n = 2,
                                   .at = {{.name = "label", .dtype = DTYPE_I32, .row = 1},
                                          {.name = "rows", .dtype = DTYPE_I64, .row = 2, .max_rows = 3}}};
static bool has_rows;

static int64_t n_rows_of(int64_t index)
{
    return index * 7 % 4;
}

static int64_t row_value(int64_t index, int64_t k)
{
    return 100 * index + k;
}

static void fill_fields(transform_task_t task, const dataset_request_t *request)
{
    const field_place_t *places = request->fields;
    float *targets = places[0].data;
    int64_t *rows = places[1].data;
    if (task != TASK_MULTILABEL) field_put_label(request->fields, (int32_t)(request->index % N_CLASSES));
    for (int k = 0; task == TASK_MULTILABEL && k < N_CLASSES; k++)
        targets[k] = (float)(request->index >> k & 1);
    if (!has_rows) return;
    *places[1].n_rows = n_rows_of(request->index);
    for (int64_t k = 0; k < 2 * n_rows_of(request->index); k++) rows[k] = row_value(request->index, k);
}

/* Some take longer than others. */
static err_t read_image(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    static _Thread_local uint8_t bytes[N_VALUES];
    for (int64_t i = 0; i < request->index % 5; i++) sched_yield();
    atomic_fetch_add(&n_reads[request->index], 1);
    if (torn[request->split][request->index]) RAISE(ERR_DATA, "image-%02d.png is torn", (int)request->index);
    for (int k = 0; k < N_VALUES; k++) bytes[k] = value_of(request, k);
    *out = (dataset_sample_t){.bytes = bytes};
    fill_fields(reader->dataset->info.task, request);
    reader->cost.decode += 1;
    return ERR_OK;
}

static dataset_t dataset = {.read = read_image,
                            .info = {.kind = "test",
                                     .source = "the test's images",
                                     .n_samples = {N, N},
                                     .height = SIDE,
                                     .width = SIDE,
                                     .channels = CHANNELS,
                                     .n_classes = N_CLASSES}};
static const pixel_norm_t norm = {{0.5, 0.4, 0.3}, {0.25, 0.5, 1}};

static sampler_t *make_sampler(bool in_order)
{
    sampler_t *sampler = NULL;
    sampler_options_t options = {.n_samples = N, .global_batch = BATCH, .seed = 4, .in_order = in_order};
    if (sampler_new(&options, &sampler) != ERR_OK) abort();
    return sampler;
}

static loader_options_t options_for(sampler_t *sampler, int n_threads, corrupt_samples_t *bad)
{
    return (loader_options_t){.dataset = &dataset,
                              .sampler = sampler,
                              .size = 1,
                              .n_batches = N_BATCHES,
                              .max_local = BATCH,
                              .n_threads = n_threads,
                              .timeout_sec = 60,
                              .norm = norm,
                              .fields = has_rows ? &with_rows : NULL,
                              .seed = 9,
                              .random = true,
                              .bad = bad};
}

/* The sample that is to be seen where the sampler says `index`. */
static int64_t stands_for(int64_t index)
{
    while (torn[SPLIT_TRAIN][index]) index = (index + 1) % N;
    return index;
}

static bool right_fields(const batch_t *batch, int64_t i, int64_t index)
{
    const bool several = dataset.info.task == TASK_MULTILABEL;
    const int32_t *labels = batch->fields[0].data;
    const float *targets = batch->fields[0].data;
    const int64_t *rows = batch->fields[1].data, *offsets = batch->fields[1].offsets;
    if (!several && labels[i] != index % N_CLASSES) return false;
    for (int k = 0; several && k < N_CLASSES; k++)
        if (targets[i * N_CLASSES + k] != (float)(index >> k & 1)) return false;
    if (!has_rows) return !rows && !offsets;
    if (offsets[0] != 0 || offsets[i + 1] - offsets[i] != n_rows_of(index)) return false;
    for (int64_t k = 0; k < 2 * n_rows_of(index); k++)
        if (rows[2 * offsets[i] + k] != row_value(index, k)) return false;
    return true;
}

static bool right_sample(const batch_t *batch, int64_t i, int64_t wanted)
{
    dataset_request_t request = {
        .index = stands_for(wanted), .random = true, .seed = 9, .epoch = batch->epoch};
    if (batch->index[i] != request.index) return false;
    if (!right_fields(batch, i, request.index)) return false;
    for (int k = 0; k < N_VALUES; k++) {
        uint8_t value = value_of(&request, k);
        float expected = (float)((value / 255.0 - norm.mean[k % CHANNELS]) / norm.std[k % CHANNELS]);
        if (batch->bytes ? batch->bytes[i * N_VALUES + k] != value
                         : batch->pixels[i * N_VALUES + k] != expected)
            return false;
    }
    return true;
}

static bool right_batch(const batch_t *batch, sampler_slice_t slice)
{
    bool right = batch->epoch == slice.epoch && batch->batch == slice.batch && batch->n == slice.n;
    for (int64_t i = 0; right && i < slice.n; i++) right = right_sample(batch, i, slice.index[i]);
    return right;
}

/* The next batch is the one at that place. */
static bool next_is(loader_t *loader, sampler_t *expected, int64_t at)
{
    const batch_t *batch;
    if (loader_next(loader, &batch) != ERR_OK) {
        printf("# batch %d: %s\n", (int)at, err_message());
        return false;
    }
    return right_batch(batch, sampler_at(expected, at / N_PER_EPOCH, at % N_PER_EPOCH, 0, 1));
}

static bool delivers(int n_threads, bool raw, corrupt_samples_t *bad)
{
    sampler_t *sampler = make_sampler(false), *expected = make_sampler(false);
    loader_t *loader = NULL;
    loader_options_t options = options_for(sampler, n_threads, bad);
    options.raw = raw;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = true;
    int64_t n_blocks = mem_count();
    for (int64_t i = 0; right && i < N_BATCHES; i++) right = next_is(loader, expected, i);
    right = right && (bad || mem_count() == n_blocks);
    double n_decoded = loader_take_cost(loader).part.decode;
    right = right && n_decoded == (double)N * N_EPOCHS && !(loader_take_cost(loader).part.decode > 0);
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&expected);
    return right;
}

static void test_delivers(void)
{
    static const int threads[] = {1, 2, 4, 9};
    for (int i = 0; i < 4; i++) {
        OK(delivers(threads[i], false, NULL), "%d threads: the same batches, without an allocation",
           threads[i]);
        OK(delivers(threads[i], true, NULL), "… as bytes");
    }
    dataset.info.task = TASK_MULTILABEL;
    OK(delivers(1, false, NULL) && delivers(4, true, NULL), "targets in place of labels");
    dataset.info.task = TASK_CLASSIFY;
    has_rows = true;
    OK(delivers(1, false, NULL) && delivers(4, false, NULL), "ragged rows, packed, with their offsets");
    has_rows = false;
}

static void clear_torn(void)
{
    memset(torn, 0, sizeof torn);
    for (int i = 0; i < N; i++) atomic_store(&n_reads[i], 0);
}

static void test_bad(void)
{
    corrupt_samples_t bad;
    static const int threads[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        clear_torn();
        torn[SPLIT_TRAIN][0] = torn[SPLIT_TRAIN][6] = torn[SPLIT_TRAIN][7] = torn[SPLIT_TRAIN][N - 1] = true;
        if (bad_open(4, &bad) != ERR_OK) abort();
        OK(delivers(threads[i], false, &bad), "%d threads: torn images are replaced by the next whole ones",
           threads[i]);
        bool named = bad_count(&bad) == 4;
        for (int k = 0; k < 4; k++) {
            char name[32];
            snprintf(name, sizeof name, "image-%02d.png is torn", (int)bad.images[k].index);
            named =
                named && strcmp(bad.images[k].reason, name) == 0 && torn[SPLIT_TRAIN][bad.images[k].index];
        }
        OK(named, "… each is named once");
        bad_close(&bad);
    }
}

/* The message with which the run ends, after the batches before it; "" when it does not. */
static const char *ends_with(int n_threads, int64_t max_bad, bool noted)
{
    sampler_t *sampler = make_sampler(true), *expected = make_sampler(true);
    corrupt_samples_t bad;
    loader_t *loader = NULL;
    if (bad_open(max_bad, &bad) != ERR_OK) abort();
    loader_options_t options = options_for(sampler, n_threads, noted ? &bad : NULL);
    if (loader_open(&options, &loader) != ERR_OK) abort();
    const char *message = "";
    const batch_t *batch;
    bool right = next_is(loader, expected, 0) && next_is(loader, expected, 1);
    err_t err = loader_next(loader, &batch), again = loader_next(loader, &batch);
    if (right && err == ERR_DATA && again == ERR_DATA) message = err_message();
    loader_close(&loader);
    bad_close(&bad);
    sampler_free(&sampler);
    sampler_free(&expected);
    return message;
}

static void test_too_bad(void)
{
    clear_torn();
    torn[SPLIT_TRAIN][2 * BATCH + 1] = true;
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        const char *said = ends_with(n_threads, 0, true);
        OK(strstr(said, "image-17.png is torn") && strstr(said, "--max-bad"),
           "%d threads: a torn image ends the run when its batch is due: %s", n_threads, said);
        said = ends_with(n_threads, 0, false);
        OK(strcmp(said, "image-17.png is torn") == 0, "… also where none are noted");
    }
    torn[SPLIT_TRAIN][2 * BATCH + 3] = torn[SPLIT_TRAIN][2 * BATCH + 6] = true;
    const char *said = ends_with(1, 2, true);
    OK(strstr(said, "image-22.png") && strstr(said, "3 images cannot be read") && strstr(said, "allows 2"),
       "one too many: %s", said);
    bool first = true;
    for (int i = 0; i < 20; i++) first = strstr(ends_with(4, 0, false), "image-17.png") && first;
    OK(first, "of several in a batch the first is named, whichever thread is first");

    for (int i = 0; i < N; i++) torn[SPLIT_TRAIN][i] = true;
    corrupt_samples_t bad;
    loader_t *loader = NULL;
    const batch_t *batch;
    sampler_t *sampler = make_sampler(true);
    if (bad_open(1000, &bad) != ERR_OK) abort();
    loader_options_t options = options_for(sampler, 2, &bad);
    if (loader_open(&options, &loader) != ERR_OK) abort();
    OK(loader_next(loader, &batch) == ERR_DATA && SAYS("none of the 29 training images", "the test's images"),
       "no image at all: %s", err_message());
    loader_close(&loader);
    bad_close(&bad);
    sampler_free(&sampler);
    clear_torn();
}

static void test_share(void)
{
    corrupt_samples_t bad;
    bool is_new = false;
    if (bad_open(2, &bad) != ERR_OK) abort();
    err_raise(ERR_DATA, "", 0, "seven is torn");
    OK(bad_add(&bad, SPLIT_TRAIN, 7, CORRUPT_REPLACED) == ERR_OK &&
           bad_add(&bad, SPLIT_TRAIN, 7, CORRUPT_REPLACED) == ERR_OK && bad_count(&bad) == 1 &&
           bad_unshared(&bad) == 1,
       "a bad image counts once");
    corrupt_sample_t mine = bad_offer(&bad), other = {.index = 7, .split = SPLIT_VAL, .reason = "another"};
    OK(mine.index == 7 && strcmp(mine.reason, "seven is torn") == 0, "it is offered to others");
    OK(bad_take(&bad, &mine, &is_new) == ERR_OK && is_new && bad_offer(&bad).index == -1 &&
           bad_unshared(&bad) == 0,
       "when all have heard of it, no longer");
    OK(bad_take(&bad, &mine, &is_new) == ERR_OK && !is_new, "it is news once");
    OK(bad_take(&bad, &other, &is_new) == ERR_OK && is_new && bad_count(&bad) == 2 && bad_unshared(&bad) == 0,
       "another rank's, of another split");
    other.index = 8;
    OK(bad_take(&bad, &other, &is_new) == ERR_DATA && SAYS("another", "3 images", "allows 2"),
       "one too many: %s", err_message());
    bad_close(&bad);
    bad_close(&bad);
}

/* What is not allowed is not read. */
static void test_allow(void)
{
    sampler_t *sampler = make_sampler(false), *expected = make_sampler(false);
    loader_t *loader = NULL;
    loader_options_t options = options_for(sampler, 3, NULL);
    options.n_batches = 0;
    clear_torn();
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = true;
    int64_t at = 0;
    for (int64_t more = 1; more <= 6; more++) {
        loader_allow(loader, more);
        for (int64_t i = 0; right && i < more; i++) right = next_is(loader, expected, at++);
    }
    OK(right, "batches by allowance go on where they stopped");
    int n_all = 0;
    for (int i = 0; i < N; i++) n_all += atomic_load(&n_reads[i]);
    OK(n_all == 5 * N + BATCH, "… and nothing is read ahead of it"); /* 21 batches, of 4 an epoch */
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&expected);
}

static void test_close(void)
{
    sampler_t *sampler = make_sampler(false);
    bool closed = true;
    for (int n_taken = 0; n_taken <= N_BATCHES; n_taken++) {
        loader_options_t options = options_for(sampler, 1 + n_taken % 5, NULL);
        loader_t *loader = NULL;
        const batch_t *batch;
        if (loader_open(&options, &loader) != ERR_OK) abort();
        for (int i = 0; i < n_taken; i++) closed = loader_next(loader, &batch) == ERR_OK && closed;
        loader_close(&loader);
        closed = closed && !loader;
    }
    OK(closed, "it closes after any number of batches");
    sampler_free(&sampler);
}

int main(void)
{
    tap_plan(10 + 6 + 7 + 6 + 2 + 1 + 1);
    test_delivers();
    test_bad();
    test_too_bad();
    test_share();
    test_allow();
    test_close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
