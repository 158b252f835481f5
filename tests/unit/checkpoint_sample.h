/* SPDX-License-Identifier: MIT */
/* What the checkpoint tests share: a folder of their own, a small checkpoint with something of every kind,
 * whole files in memory. */
#ifndef TESTS_UNIT_CHECKPOINT_SAMPLE_H
#define TESTS_UNIT_CHECKPOINT_SAMPLE_H

#include <dirent.h>
#include <hdf5.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/h5/file.h"

static char sample_folder[64];

static inline void sample_begin(void)
{
    snprintf(sample_folder, sizeof sample_folder, "/tmp/dptrain-test-XXXXXX");
    ASSERT(mkdtemp(sample_folder));
}

static inline void sample_path(char *out, const char *name)
{
    ASSERT(fs_join(out, sample_folder, name) == ERR_OK);
}

/* Removes the files in a folder, and the folder. */
static inline void sample_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[FS_PATH_MAX];
        if (fs_join(path, folder, entry->d_name) == ERR_OK && entry->d_type != DT_DIR) unlink(path);
    }
    if (dir) closedir(dir);
    rmdir(folder);
}

/* Entries in a folder without "." and "..". */
static inline int sample_count(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    ASSERT(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

static inline char *sample_slurp(const char *path, size_t *n_bytes)
{
    FILE *file = fopen(path, "rb");
    ASSERT(file && fseek(file, 0, SEEK_END) == 0);
    *n_bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*n_bytes + 1);
    ASSERT(data && fread(data, 1, *n_bytes, file) == *n_bytes);
    fclose(file);
    return data;
}

static inline void sample_spit(const char *path, const void *data, size_t n_bytes)
{
    unlink(path); /* some file systems flush a file that is truncated and written again */
    FILE *file = fopen(path, "wb");
    ASSERT(file && fwrite(data, 1, n_bytes, file) == n_bytes && fclose(file) == 0);
}

static inline bool sample_same(const char *path, const void *data, size_t n_bytes)
{
    size_t n;
    char *now = sample_slurp(path, &n);
    bool same = n == n_bytes && memcmp(now, data, n) == 0;
    free(now);
    return same;
}

/* Nothing of ours or of HDF5's is left open. */
static inline bool sample_balanced(void)
{
    return mem_live() == 0 && H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL) == 0;
}

static inline bool sample_says(const char *words)
{
    bool found = strstr(err_message(), words);
    if (!found) printf("# \"%s\" is not in: %s\n", words, err_message());
    return found;
}

/* The sample: `large` adds an array of 300,000 floats and a group of 40 arrays. */
enum { SAMPLE_LARGE = 300000, SAMPLE_MANY = 40 };

typedef struct sample {
    float conv[4 * 5 * 5 * 3], *large; /* large: freed by the test */
    double bias[7];
    int32_t table[6];
    int64_t step;
    uint8_t bytes[2 * 3 * 2 * 2 * 2];
    char names[SAMPLE_MANY][32];
    ckpt_array_t arrays[8 + SAMPLE_MANY];
    h5_attr_t attrs[19];
    ckpt_content_t content;
} sample_t;

static inline void sample_fill(sample_t *s, bool large)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < sizeof s->conv / sizeof *s->conv; i++) s->conv[i] = (float)i * 0.37f - 5;
    for (int i = 0; i < 7; i++) s->bias[i] = 1.0 / (i + 1);
    for (int i = 0; i < 6; i++) s->table[i] = -i * 1000003;
    for (size_t i = 0; i < sizeof s->bytes; i++) s->bytes[i] = (uint8_t)(i * 11);
    s->step = INT64_MIN + 5;
    shape_t five = {5, {2, 3, 2, 2, 2}}, none = {0, {0}};
    int n = 0;
    s->arrays[n++] = (ckpt_array_t){"/params/conv1/weight", DTYPE_F32, shape_4d(4, 5, 5, 3), s->conv, "OHWI"};
    s->arrays[n++] = (ckpt_array_t){"/params/conv1/bias", DTYPE_F64, shape_1d(7), s->bias, "O"};
    s->arrays[n++] = (ckpt_array_t){"/params/fc/table", DTYPE_I32, shape_2d(2, 3), s->table, ""};
    s->arrays[n++] = (ckpt_array_t){"/state/step", DTYPE_I64, none, &s->step, NULL};
    s->arrays[n++] = (ckpt_array_t){"/state/bytes", DTYPE_U8, five, s->bytes, "anything"};
    s->arrays[n++] = (ckpt_array_t){"/top", DTYPE_F32, shape_2d(0, 3), NULL, "nothing in it"};
    if (large) {
        s->large = malloc(SAMPLE_LARGE * sizeof *s->large);
        ASSERT(s->large);
        for (int i = 0; i < SAMPLE_LARGE; i++) s->large[i] = (float)i;
        s->arrays[n++] =
            (ckpt_array_t){"/optimizer/momentum", DTYPE_F32, shape_1d(SAMPLE_LARGE), s->large, "flat"};
        for (int i = 0; i < SAMPLE_MANY; i++) {
            snprintf(s->names[i], sizeof s->names[i], "/many/group%d/a%d", i % 20, i);
            s->arrays[n++] = (ckpt_array_t){s->names[i], DTYPE_F32, shape_1d(3), s->large + i, "W"};
        }
    }
    const h5_attr_t attrs[] = {
        h5_text("model", "lenet5"),
        h5_text("empty", ""),
        h5_text("note", "größer als 9×9"),
        h5_text("options", "{\"batch\": 64}"),
        h5_text("control", "\x01\x1b\x7f\xc2\x9b\n\\\""),
        h5_text("latin", "gr\xf6\xdf"),
        h5_text("hex", "{\"hex\":\"41\"}"),
        h5_int("step", 123456789012345),
        h5_int("lowest", INT64_MIN),
        h5_int("highest", INT64_MAX),
        h5_real("lr", 0.1),
        h5_real("third", 1.0 / 3),
        h5_real("whole", 3),
        h5_real("large", 1e16),
        h5_real("tiny", 5e-324),
        h5_real("minus_zero", -0.0),
        h5_real("infinite", INFINITY),
        h5_real("least", -INFINITY),
        h5_real("none", NAN),
    };
    memcpy(s->attrs, attrs, sizeof attrs);
    s->content = (ckpt_content_t){s->arrays, n, s->attrs, sizeof attrs / sizeof attrs[0]};
}

#endif
