/* SPDX-License-Identifier: MIT */
/* What the shard tests share: a folder of their own, samples with something of every kind, a small packing of
 * them. */
#ifndef TESTS_UNIT_SHARD_SAMPLE_H
#define TESTS_UNIT_SHARD_SAMPLE_H

#include <dirent.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/shard/shard.h"
#include "data/shard/writer.h"
#include "store/h5/file.h"
#include "tests/sample_same.h"
#include "tests/tap.h"

static char sample_folder[FS_PATH_MAX];

static inline void sample_begin(void)
{
    snprintf(sample_folder, sizeof sample_folder, "%s/dptrain-test-XXXXXX",
             fs_is_folder("/dev/shm") && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(sample_folder));
}

static inline void sample_path(char *out, const char *name)
{
    ASSERT(fs_join(out, sample_folder, name) == ERR_OK);
}

/* Removes the files in the folder. */
static inline void sample_clear(void)
{
    DIR *dir = opendir(sample_folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[FS_PATH_MAX];
        if (fs_join(path, sample_folder, entry->d_name) == ERR_OK && entry->d_type != DT_DIR) unlink(path);
    }
    if (dir) closedir(dir);
}

static inline int sample_count_files(void)
{
    int n = 0;
    DIR *dir = opendir(sample_folder);
    ASSERT(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

static inline unsigned char *sample_slurp(const char *name, size_t *n_bytes)
{
    char path[FS_PATH_MAX];
    sample_path(path, name);
    FILE *file = fopen(path, "rb");
    ASSERT(file && fseek(file, 0, SEEK_END) == 0);
    *n_bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*n_bytes + 1);
    ASSERT(data && fread(data, 1, *n_bytes, file) == *n_bytes && fclose(file) == 0);
    return data;
}

static inline void sample_spit(const char *name, const void *data, size_t n_bytes)
{
    char path[FS_PATH_MAX];
    sample_path(path, name);
    unlink(path);
    FILE *file = fopen(path, "wb");
    ASSERT(file && fwrite(data, 1, n_bytes, file) == n_bytes && fclose(file) == 0);
}

static inline bool sample_balanced(void)
{
    return mem_live() == 0 && H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL) == 0;
}

enum { N_TRAIN = 6, N_VAL = 2, N_SAMPLES = N_TRAIN + N_VAL, N_CATEGORIES = 3, PER_SHARD = 3 };

static const int32_t two_polygons[] = {3, 4}, one_polygon[] = {5};
static const float points_a[] = {0.5f, 0.25f, 7, 1, 3, 5.75f, 8, 8, 9.5f, 8, 9.5f, 9.99f, 8, 10};
static const float points_b[] = {1, 1, 2, 1, 3, 2, 2, 3, 1, 2};
static const double exact_b[] = {1, 1, 2, 1 + 1e-12, 3, 2, 2, 3, 1, 2};
static const uint32_t runs_a[] = {0, 12, 3, 85}, runs_b[] = {20 * 10};

static const annotation_t annotations_a[] = {
    {.id = 11,
     .category = 2,
     .area = 12.5,
     .box = {0.5, 0.25, 6.5, 5.5},
     .segmentation = SEGMENTATION_POLYGONS,
     .n_polygons = 2,
     .n_points = two_polygons,
     .points = points_a},
    {.id = 12,
     .category = 0,
     .crowd = true,
     .area = 97,
     .box = {0, 0, 10, 10},
     .segmentation = SEGMENTATION_RLE,
     .n_runs = 4,
     .runs = runs_a},
    {.id = INT64_MAX, .category = 1, .area = 0.125, .box = {-0.0, 1e-300, 3, 4}},
};
static const annotation_t annotations_b[] = {
    {.id = 13,
     .category = 1,
     .area = 4,
     .box = {1, 1, 2, 2},
     .segmentation = SEGMENTATION_POLYGONS,
     .n_polygons = 1,
     .n_points = one_polygon,
     .points = points_b,
     .exact = exact_b},
    {.id = 14,
     .category = 1,
     .crowd = true,
     .area = 0,
     .box = {1, 1, 2, 2},
     .segmentation = SEGMENTATION_RLE,
     .n_runs = 1,
     .runs = runs_b},
};

/* Their images are these many bytes of noise from a place of a table that tests fill. */
static const struct {
    const char *name;
    int64_t id;
    int32_t width, height, label, n_annotations;
    const annotation_t *annotations;
    size_t n_bytes;
    int32_t n_truths;
    const annotation_t *truths;
} sample_table[N_SAMPLES] = {
    {"000000000009.jpg", 9, 10, 10, -1, 3, annotations_a, 300, 0, NULL},
    {"no annotations.jpg", 25, 640, 480, -1, 0, NULL, 1, 0, NULL},
    {"", 30, 1, 1, -1, 0, NULL, 77, 0, NULL},
    {"dog/17.png", -1, 20, 10, 1, 1, annotations_b, 1000, 2, annotations_b},
    {"größer als/9×9.jpg", INT64_MIN, 20, 10, 2, 1, annotations_b, 128, 0, NULL},
    {"x", 0, INT32_MAX, INT32_MAX, 0, 0, NULL, 513, 0, NULL},
    {"val/a.jpg", 1, 10, 10, -1, 2, annotations_a + 1, 64, 0, NULL},
    {"val/b.jpg", 2, 10, 10, 0, 0, NULL, 65, 0, NULL},
};

static inline sample_t sample_make(int number)
{
    static unsigned char noise[4096];
    if (!noise[1])
        for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)((i * i * 31 + i * 7 + 3) >> 2);
    return (sample_t){.id = sample_table[number].id,
                      .name = sample_table[number].name,
                      .width = sample_table[number].width,
                      .height = sample_table[number].height,
                      .label = sample_table[number].label,
                      .bytes = noise + 5 * number,
                      .n_bytes = sample_table[number].n_bytes,
                      .n_annotations = sample_table[number].n_annotations,
                      .annotations = sample_table[number].annotations,
                      .n_truths = sample_table[number].n_truths,
                      .truths = sample_table[number].truths};
}

static inline shard_plan_t sample_plan(split_t split, int64_t number, uint64_t plan)
{
    int64_t per_shard = split == SPLIT_TRAIN ? PER_SHARD : N_VAL;
    return (shard_plan_t){.folder = sample_folder,
                          .split = split,
                          .number = number,
                          .n_shards = split == SPLIT_TRAIN ? N_TRAIN / PER_SHARD : 1,
                          .first = number * per_shard,
                          .n_samples = per_shard,
                          .n_categories = N_CATEGORIES,
                          .plan = plan};
}

/* A sample of a packing by its number in its split. */
typedef sample_t (*sample_maker_t)(split_t split, int64_t number);

static inline sample_t sample_of_table(split_t split, int64_t number)
{
    return sample_make((int)(number + (split == SPLIT_VAL ? N_TRAIN : 0)));
}

/* The table's again and again, each with its number as its id. */
static inline sample_t sample_of_many(split_t split, int64_t number)
{
    (void)split;
    sample_t sample = sample_make((int)(number % N_SAMPLES));
    sample.id = number;
    return sample;
}

/* Writes a shard and notes in the index what it became. */
static inline void sample_write_shard(const shard_plan_t *plan, sample_maker_t make, shard_index_t *index)
{
    shard_writer_t *writer = NULL;
    ASSERT(shard_create(plan, &writer) == ERR_OK);
    for (int64_t i = 0; i < plan->n_samples; i++) {
        sample_t sample = make(plan->split, plan->first + i);
        ASSERT(shard_add(writer, &sample) == ERR_OK);
    }
    ASSERT(shard_commit(writer) == ERR_OK);
    index->files[plan->split][plan->number] = *shard_written_file(writer);
    memcpy(&index->entries[plan->split][plan->first], shard_written_entries(writer),
           (size_t)plan->n_samples * sizeof(shard_entry_t));
    shard_discard(&writer);
}

/* Shards of training with `each` sample_of_many; index and manifest are not written. */
static inline shard_index_t *sample_pack_many(int64_t n_shards, int64_t each)
{
    shard_index_t *index = NULL;
    shard_head_t head = {
        .n_samples = {n_shards * each}, .n_shards = {n_shards}, .n_categories = N_CATEGORIES, .plan = 3};
    ASSERT(shard_index_new(&head, &index) == ERR_OK);
    for (int64_t k = 0; k < n_shards; k++) {
        shard_plan_t plan = {.folder = sample_folder,
                             .number = k,
                             .n_shards = n_shards,
                             .first = k * each,
                             .n_samples = each,
                             .n_categories = N_CATEGORIES,
                             .plan = head.plan};
        sample_write_shard(&plan, sample_of_many, index);
    }
    return index;
}

/* The whole packing: two shards of training, one of validation, index and manifest. */
static inline shard_index_t *sample_pack(uint64_t plan, seal_t *seal)
{
    shard_index_t *index = NULL;
    shard_head_t head = {.n_samples = {N_TRAIN, N_VAL},
                         .n_shards = {N_TRAIN / PER_SHARD, 1},
                         .n_categories = N_CATEGORIES,
                         .has_annotations = 1,
                         .shard_bytes = 1000,
                         .plan = plan,
                         .data_hash = 0xFEDCBA9876543210u,
                         .source_kind = "coco",
                         .source_path = "/data/coco"};
    ASSERT(shard_index_new(&head, &index) == ERR_OK);
    for (int c = 0; c < N_CATEGORIES; c++) {
        index->categories[c].id = 10 * c + 1;
        snprintf(index->categories[c].name, SHARD_TEXT_MAX, "category %d", c);
        snprintf(index->categories[c].supergroup, SHARD_TEXT_MAX, "%s", c ? "things" : "");
    }
    for (int64_t k = 0; k < N_TRAIN / PER_SHARD; k++) {
        shard_plan_t shard = sample_plan(SPLIT_TRAIN, k, plan);
        sample_write_shard(&shard, sample_of_table, index);
    }
    shard_plan_t shard = sample_plan(SPLIT_VAL, 0, plan);
    sample_write_shard(&shard, sample_of_table, index);
    ASSERT(shard_index_check(index, "the index") == ERR_OK &&
           shard_index_write(index, sample_folder, seal) == ERR_OK);
    ASSERT(shard_manifest_write(index, seal, sample_folder) == ERR_OK);
    return index;
}

#endif
