/* SPDX-License-Identifier: MIT */
/* Samples come back from shards as they went in, the same content makes the same bytes, and what no reader
 * would take is not written. RUN np=0 */
#include <math.h>
#include <pthread.h>

#include "base/rng.h"
#include "data/shard/reader.h"
#include "data/shard/shard.h"
#include "tests/unit/shard_sample.h"

enum { N_THREADS = 8, N_MANY = 70, N_READS = UNDER_SANITIZER ? 100 : 1000 };

/* Every sample, one by one. */
static bool all_come_back(const shard_index_t *index)
{
    shard_reader_t *reader = NULL;
    shard_buffer_t buffer = {0};
    bool same = shard_reader_open(sample_folder, index, &reader) == ERR_OK;
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; same && i < index->head->n_samples[s]; i++) {
            sample_t sample, there = sample_of_table((split_t)s, i);
            same =
                shard_read(reader, (split_t)s, i, &buffer, &sample) == ERR_OK && same_sample(&sample, &there);
            if (!same) printf("# sample %d of %s: %s\n", (int)i, split_names[s], err_message());
        }
    mem_free(&buffer.block);
    shard_reader_close(&reader);
    return same;
}

static void test_round_trip(void)
{
    seal_t seal, again;
    shard_index_t *index = sample_pack(7, &seal), *read = NULL, *sent = NULL;
    OK(all_come_back(index), "every sample comes back as it was");
    OK_CALL(shard_index_read(sample_folder, &read, &again), "the index is read");
    OK(read && memcmp(&seal, &again, sizeof seal) == 0 && read->head->n_block == index->head->n_block &&
           memcmp(shard_index_pack(read), shard_index_pack(index), (size_t)index->head->n_block) == 0,
       "it is, byte for byte, the one that was written");
    OK_CALL(shard_index_unpack(shard_index_pack(read), read->head->n_block, &sent),
            "a block of memory is an index");
    OK(all_come_back(sent), "every sample comes back by it");
    OK_CALL(shard_manifest_check(read, &again, sample_folder), "the manifest says what the index says");
    OK(sample_count_files() == 5, "nothing else is left in the folder");
    shard_index_free(&index);
    shard_index_free(&read);
    shard_index_free(&sent);
}

static void test_ranges(const shard_index_t *index)
{
    shard_reader_t *reader = NULL;
    shard_buffer_t buffer = {0};
    sample_t samples[PER_SHARD];
    ASSERT(shard_reader_open(sample_folder, index, &reader) == ERR_OK);
    bool same = true;
    for (int64_t first = 0; first < N_TRAIN; first += PER_SHARD) {
        same = same && shard_read_range(reader, SPLIT_TRAIN, first, PER_SHARD, &buffer, samples) == ERR_OK;
        for (int64_t i = 0; same && i < PER_SHARD; i++) {
            sample_t there = sample_of_table(SPLIT_TRAIN, first + i);
            same = same_sample(&samples[i], &there);
        }
    }
    OK(same, "several samples are read at once");
    sample_t sample, there = sample_of_table(SPLIT_TRAIN, 3);
    OK(shard_describe(reader, SPLIT_TRAIN, 3, &buffer, &sample) == ERR_OK && !sample.bytes &&
           sample.n_bytes == there.n_bytes && strcmp(sample.name, there.name) == 0 && sample.n_truths == 2 &&
           same_annotation(&sample.truths[1], &annotations_b[1]),
       "what is known of a sample is read without its image");
    mem_free(&buffer.block);
    shard_reader_close(&reader);
}

/* Two packings of the same samples; large ones, of which HDF5 gives the place at once. */
static void test_same_bytes(void)
{
    static const char *const names[] = {"train-00000-of-00002.h5", "val-00000-of-00001.h5", SHARD_INDEX_NAME,
                                        SHARD_MANIFEST_NAME};
    seal_t seal;
    unsigned char *before[4];
    size_t n[4], n_now;
    bool same = true;
    for (int i = 0; i < 4; i++) before[i] = sample_slurp(names[i], &n[i]);
    sample_clear();
    shard_index_t *index = sample_pack(7, &seal);
    for (int i = 0; i < 4; i++) {
        unsigned char *now = sample_slurp(names[i], &n_now);
        same = same && n_now == n[i] && memcmp(now, before[i], n_now) == 0;
        free(now);
        free(before[i]);
    }
    OK(same, "the same samples make the same files, byte for byte");
    test_ranges(index);
    shard_index_free(&index);
}

static void tell(void *context, const char *what)
{
    printf("# %s\n", what);
    ++*(int *)context;
}

enum { LARGEST = 3000000, COPIES = 2 };

/* A shard of two images of that size, written from `begin` on; its file, or NULL where something is wrong
 * with it. */
static unsigned char *make_sized(const unsigned char *noise, size_t size, int64_t begin, size_t *n_file)
{
    shard_head_t head = {.n_samples = {COPIES}, .n_shards = {1}, .n_categories = N_CATEGORIES, .plan = 5};
    shard_plan_t plan = {.folder = sample_folder,
                         .n_shards = 1,
                         .n_samples = COPIES,
                         .n_categories = N_CATEGORIES,
                         .plan = 5,
                         .begin = begin};
    shard_index_t *index = NULL;
    shard_writer_t *writer = NULL;
    int n_told = 0;
    const shard_report_t report = {tell, &n_told};
    ASSERT(shard_index_new(&head, &index) == ERR_OK && shard_create(&plan, &writer) == ERR_OK);
    for (int k = 0; k < COPIES; k++) {
        sample_t sample = sample_make(k);
        sample.bytes = noise + k;
        sample.n_bytes = size;
        ASSERT(shard_add(writer, &sample) == ERR_OK);
    }
    ASSERT(shard_commit(writer) == ERR_OK);
    index->files[0][0] = *shard_written_file(writer);
    memcpy(index->entries[0], shard_written_entries(writer), COPIES * sizeof(shard_entry_t));
    shard_discard(&writer);
    bool fine = shard_verify(sample_folder, index, SPLIT_TRAIN, 0, &report) == ERR_OK && n_told == 0;
    unsigned char *file = sample_slurp(index->files[0][0].name, n_file);
    const shard_entry_t *last = &index->entries[0][COPIES - 1];
    if (!fine || memcmp(file + last->offset, noise + COPIES - 1, size) != 0) {
        free(file);
        file = NULL;
    }
    shard_index_free(&index);
    return file;
}

/* Of every size, and whether HDF5 puts the images where they were written or they have to be moved, up or
 * down, over themselves or not. */
static void test_sizes(void)
{
    static const size_t sizes[] = {1, 100, 15000, 16384, 40000, 65535, 65536, LARGEST};
    static const int64_t begins[] = {0, 512, 16000, 17408, 9000000};
    enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_BEGINS = sizeof begins / sizeof begins[0] };
    bool fine = true;
    unsigned char *noise = malloc(LARGEST + COPIES);
    ASSERT(noise);
    for (size_t i = 0; i < LARGEST + COPIES; i++) noise[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int i = 0; i < N_SIZES; i++) {
        size_t n_first, n;
        unsigned char *first = make_sized(noise, sizes[i], 0, &n_first);
        for (int k = 1; k < N_BEGINS && first; k++) {
            unsigned char *file = make_sized(noise, sizes[i], begins[k], &n);
            bool same = file && n == n_first && memcmp(file, first, n) == 0;
            if (!same) printf("# %zu bytes from %lld on\n", sizes[i], (long long)begins[k]);
            fine = fine && same;
            free(file);
        }
        fine = fine && first;
        free(first);
    }
    OK(fine, "shards of images of %d sizes are whole, and the same wherever images are written first",
       N_SIZES);
    free(noise);
    sample_clear();
}

/* ---- Many files, many threads ---- */
typedef struct reading {
    shard_reader_t *reader;
    uint64_t seed;
    bool fine;
} reading_t;

static void *read_many(void *context)
{
    reading_t *r = context;
    shard_buffer_t buffer = {0};
    rng_t rng = rng_new(r->seed, RNG_TEST, 0);
    r->fine = true;
    for (int i = 0; i < N_READS && r->fine; i++) {
        int64_t number = rng_below(&rng, N_MANY);
        sample_t sample, there = sample_of_many(SPLIT_TRAIN, number);
        r->fine = shard_read(r->reader, SPLIT_TRAIN, number, &buffer, &sample) == ERR_OK &&
                  same_sample(&sample, &there);
        if (!r->fine) printf("# %s\n", err_message());
    }
    mem_free(&buffer.block);
    return NULL;
}

static int count_open(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    ASSERT(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static void test_many(void)
{
    shard_index_t *index = sample_pack_many(N_MANY, 1);
    shard_reader_t *reader = NULL;
    ASSERT(shard_reader_open(sample_folder, index, &reader) == ERR_OK);
    int before = count_open();
    pthread_t threads[N_THREADS];
    reading_t readings[N_THREADS];
    bool fine = true;
    for (int t = 0; t < N_THREADS; t++) {
        readings[t] = (reading_t){.reader = reader, .seed = (uint64_t)t};
        ASSERT(pthread_create(&threads[t], NULL, read_many, &readings[t]) == 0);
    }
    for (int t = 0; t < N_THREADS; t++)
        fine = pthread_join(threads[t], NULL) == 0 && readings[t].fine && fine;
    OK(fine, "%d threads read from %d shards what was written", N_THREADS, N_MANY);
    OK(count_open() - before == SHARD_MAX_OPEN, "%d files stay open, no more", SHARD_MAX_OPEN);
    shard_reader_close(&reader);
    shard_index_free(&index);
    sample_clear();
}

/* ---- What is not written ---- */
static err_t add_one(sample_t sample)
{
    shard_plan_t plan = sample_plan(SPLIT_TRAIN, 0, 7);
    shard_writer_t *writer = NULL;
    ASSERT(shard_create(&plan, &writer) == ERR_OK);
    err_t err = shard_add(writer, &sample);
    shard_discard(&writer);
    return err;
}

static sample_t with_annotation(annotation_t *annotation)
{
    sample_t sample = sample_make(0);
    sample.n_annotations = 1;
    sample.annotations = annotation;
    return sample;
}

static void test_refused(void)
{
    sample_t sample = sample_make(0);
    sample.n_bytes = 0;
    OK(add_one(sample) == ERR_DATA && SAYS(sample.name, "is empty"),
       "an image without bytes is refused by name");
    sample = sample_make(0);
    sample.label = N_CATEGORIES;
    OK(add_one(sample) == ERR_DATA && SAYS(sample.name, "label is 3"), "a label that is no category");
    sample = sample_make(0);
    sample.width = 0;
    OK(add_one(sample) == ERR_DATA && SAYS("0×10"), "an image without a size");
    annotation_t a = annotations_a[0];
    a.category = -1;
    OK(add_one(with_annotation(&a)) == ERR_DATA && SAYS("category -1"), "a category that is not there");
    a = annotations_a[0];
    a.box[2] = NAN;
    OK(add_one(with_annotation(&a)) == ERR_DATA && SAYS("box"), "a box that is no number");
    a = annotations_a[1];
    a.n_runs = 3;
    OK(add_one(with_annotation(&a)) == ERR_DATA && SAYS("runs add up to 15 pixels"), "runs of another size");
    static const int32_t two[] = {2, 5};
    a = annotations_a[0];
    a.n_points = two;
    OK(add_one(with_annotation(&a)) == ERR_DATA && SAYS("polygon of 2 points"), "a polygon of two points");
    OK(sample_count_files() == 0, "nothing is left behind");
}

static void test_places(void)
{
    shard_plan_t plan = sample_plan(SPLIT_TRAIN, 0, 7);
    shard_writer_t *writer = NULL;
    plan.folder = "/nonexistent/folder";
    OK(shard_create(&plan, &writer) == ERR_SYSTEM && !writer &&
           SAYS("/nonexistent/folder/train-00000-of-00002.h5", "No such file"),
       "a folder that is absent is told");
    plan.folder = sample_folder;
    OK(!shard_is_done(&plan), "a shard that is absent is not done");
    OK(shard_is_name("train-00003-of-00012.h5") && shard_is_name("val-00000-of-00001.h5") &&
           !shard_is_name("train-3-of-12.h5") && !shard_is_name("train-00012-of-00012.h5") &&
           !shard_is_name("train-00003-of-00012.h5x") && !shard_is_name("index.h5") &&
           !shard_is_name("train.h5") && !shard_is_name(""),
       "names of shards are known from others");
    OK(shard_is_leftover(".train-00003-of-00012.h5.tmp-77") && shard_is_leftover(".index.h5.tmp-1") &&
           shard_is_leftover(".manifest.json.tmp-12345") &&
           !shard_is_leftover(".train-00003-of-00012.h5.tmp-") &&
           !shard_is_leftover("train-00003-of-00012.h5.tmp-77") && !shard_is_leftover(".a.h5.tmp-77") &&
           !shard_is_leftover(".tmp-77"),
       "and names of what writers leave");
}

int main(void)
{
    sample_begin();
    tap_plan(6 + 1 + 3 + 1 + 2 + 8 + 4 + 1);
    test_round_trip();
    test_same_bytes();
    sample_clear();
    test_sizes();
    test_many();
    test_refused();
    test_places();
    OK(sample_balanced(), "nothing stays open or allocated");
    sample_clear();
    rmdir(sample_folder);
    return tap_done();
}
