/* SPDX-License-Identifier: MIT */
/* Damaged, foreign and odd files are refused as checkpoints and never crash the reader.
 * RUN np=0 */
#include <fcntl.h>

#include "base/rng.h"
#include "store/h5/seal.h"
#include "tests/h5_calls.h"
#include "tests/tap.h"
#include "tests/unit/checkpoint_sample.h"

enum { N_FLIPS = 300, N_FLIPS_SLOW = 2000, SEED = 20260131 };

static char path[FS_PATH_MAX];

/* The file is refused as bad data, with words that name it. */
static bool refused(const char *words)
{
    checkpoint_t *c = NULL;
    err_t err = checkpoint_open(path, &c);
    if (err == ERR_DATA && !c && strstr(err_message(), path)) return sample_says(words);
    printf("# code %d: %s\n", err, err == ERR_OK ? "it was accepted" : err_message());
    checkpoint_close(&c);
    return false;
}

static bool refused_bytes(const void *data, size_t n_bytes, const char *words)
{
    sample_spit(path, data, n_bytes);
    return refused(words);
}

static void test_truncation(const char *data, size_t n)
{
    bool all = true;
    int n_tried = 0;
    for (size_t length = 1; length < n && all; length += length < 600 ? 37 : n / 61, n_tried++)
        all = refused_bytes(data, length, "is damaged: ");
    OK(all, "refused as damaged when cut to %d lengths from 1 byte", n_tried);
    OK(refused_bytes(data, n - 1, "is damaged: it has"), "refused when the last byte is missing");
    OK(refused_bytes(data, 0, "is empty"), "refused when empty");
    char *longer = calloc(1, n + 1);
    ASSERT(longer);
    memcpy(longer, data, n);
    OK(refused_bytes(longer, n + 1, "is damaged: it has"), "refused with a byte more");
    free(longer);
}

/* Flips the bit in the file, looks, and flips it back. */
static bool refused_flip(const char *data, size_t bit, const char *words)
{
    char byte = (char)(data[bit / 8] ^ (1 << bit % 8));
    int fd = open(path, O_WRONLY);
    ASSERT(fd >= 0 && pwrite(fd, &byte, 1, (off_t)(bit / 8)) == 1);
    bool refusal = refused(words);
    ASSERT(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)) == 1 && close(fd) == 0);
    if (!refusal) printf("# bit %zu of byte %zu\n", bit % 8, bit / 8);
    return refusal;
}

/* A row of the table that a long run leaves (results/checkpoint_faults.md). */
static void add_to_table(int n_flips, int n_accepted, size_t n_bytes)
{
    const char *table = getenv("DPTRAIN_TEST_TABLE");
    FILE *file = table ? fopen(table, "a") : NULL;
    if (!file) return;
    fprintf(file, "| one random bit of a file of %zu bytes flipped (seed %d) | %d | – | %d accepted | – |\n",
            n_bytes, SEED, n_flips, n_accepted);
    ASSERT(fclose(file) == 0);
}

static void test_flips(const char *data, size_t n)
{
    bool all = true;
    sample_spit(path, data, n);
    for (size_t bit = 0; bit < 8 * SEAL_BYTES && all; bit++) all = refused_flip(data, bit, "");
    OK(all, "refused for each of the %d bits of the seal", 8 * SEAL_BYTES);
    rng_t rng = rng_new(SEED, RNG_TEST, 0);
    int n_flips = getenv("DPTRAIN_TEST_SLOW") ? N_FLIPS_SLOW : N_FLIPS, n_accepted = 0;
    for (int i = 0; i < n_flips; i++)
        n_accepted += !refused_flip(data, 8 * SEAL_BYTES + rng_below(&rng, (uint32_t)(8 * (n - SEAL_BYTES))),
                                    "does not match its checksum");
    OK(n_accepted == 0, "refused for %d random bits after it, before it is parsed (seed %d)", n_flips, SEED);
    add_to_table(n_flips, n_accepted, n);
    OK_CALL(checkpoint_verify(path), "accepted when nothing is changed");
    OK(h5_opens == 0, "and HDF5 opened none of them");
}

static void test_foreign(void)
{
    static const char text[] = "epoch 3 accuracy 0.99\n";
    char zeros[2000] = "";
    OK(refused_bytes(text, sizeof text, "'epoch 3 accuracy 0.99'"), "a text file is refused");
    OK(refused_bytes(zeros, sizeof zeros, "512 zero bytes"), "zeros are refused");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    h5_close(&file);
    OK(refused("is not a dptrain checkpoint: it is an HDF5 file"), "another program's HDF5 file is refused");
    unlink(path);
    OK(refused("No such file"), "an absent file is refused");
    ASSERT(mkdir(path, 0777) == 0);
    OK(refused("is a folder"), "a folder is refused");
    ASSERT(rmdir(path) == 0 && mkfifo(path, 0666) == 0);
    OK(refused("not a regular file"), "a pipe is refused and not waited for");
    unlink(path);
}

/* ---- Files whose seal is right and whose content is not ---- */
/* Writes the seal of `schema` around what is in the file. */
static void reseal(int64_t schema)
{
    int fd = open(path, O_RDWR);
    seal_t seal = {.schema = 1};
    ASSERT(fd >= 0 && seal_write(&(seal_file_t){fd, path, "checkpoint"}, NULL, 0, &seal) == ERR_OK);
    char block[SEAL_BYTES + 1] = "", again[SEAL_BYTES + 16] = "";
    ASSERT(pread(fd, block, SEAL_BYTES, 0) == SEAL_BYTES);
    snprintf(again, sizeof again, "dptrain checkpoint %d%s", (int)schema, strchr(block, '\n'));
    ASSERT(pwrite(fd, again, SEAL_BYTES, 0) == SEAL_BYTES && close(fd) == 0);
}

static void add_attr(hid_t object, const char *name, hid_t type, hsize_t n, const void *value)
{
    hid_t space = n ? H5Screate_simple(1, &n, NULL) : H5Screate(H5S_SCALAR);
    hid_t attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT(attr >= 0 && H5Awrite(attr, type, value) >= 0);
    h5_close(&attr);
    h5_close(&space);
}

static hid_t begin_file(int64_t schema, bool old)
{
    hid_t props = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_userblock(props, SEAL_BYTES);
    if (!old) H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, props, access);
    h5_close(&access);
    h5_close(&props);
    ASSERT(file >= 0);
    if (schema) add_attr(file, "schema", H5T_STD_I64LE, 0, &schema);
    return file;
}

static hid_t begin_odd(int64_t schema)
{
    return begin_file(schema, false);
}

/* A dataset "/x" of zeros; `sum` NULL: without checksum. */
static void add_array(hid_t file, hid_t type, hid_t props, int n_dims, const char *sum)
{
    hsize_t dims[6] = {2, 2, 2, 2, 2, 2};
    hid_t space = n_dims < 0 ? H5Screate(H5S_NULL) : H5Screate_simple(n_dims, dims, NULL);
    hid_t set = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, props, H5P_DEFAULT);
    ASSERT(set >= 0);
    if (sum) {
        hid_t text = H5Tcopy(H5T_C_S1);
        H5Tset_size(text, strlen(sum) + 1);
        add_attr(set, "xxh3", text, 0, sum);
        h5_close(&text);
    }
    h5_close(&set);
    h5_close(&space);
}

static void add_plain_array(hid_t file, hid_t type, const char *sum)
{
    hid_t props = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(props, H5D_ALLOC_TIME_EARLY);
    add_array(file, type, props, 1, sum);
    h5_close(&props);
}

static const char some_sum[] = "0123456789abcdef";

typedef enum odd {
    ODD_TYPE,
    ODD_ENDIAN,
    ODD_STRING,
    ODD_CHUNKED,
    ODD_DIMS,
    ODD_NULL,
    ODD_NO_SUM,
    ODD_BAD_SUM,
    ODD_SOFT_LINK,
    ODD_EXTERNAL_LINK,
    ODD_LOOP,
    ODD_NAMED_TYPE,
    ODD_ATTR_FLOAT,
    ODD_ATTR_LIST,
    ODD_ATTR_VLEN,
    ODD_HUGE,
    ODD_FILTER,
    ODD_COMPACT,
    ODD_OTHER_FILE,
    ODD_UNWRITTEN,
    ODD_OLD,
    ODD_COUNT
} odd_t;

static const char *const odd_names[ODD_COUNT][2] = {
    [ODD_TYPE] = {"a 16-bit array", "/x has an element type"},
    [ODD_ENDIAN] = {"a big-endian array", "an element type that dptrain never writes"},
    [ODD_STRING] = {"an array of strings", "/x has an element type"},
    [ODD_CHUNKED] = {"a chunked array", "/x, byte"},
    [ODD_DIMS] = {"an array of six dimensions", "/x has no shape"},
    [ODD_NULL] = {"an array without a shape", "no shape of 0 to 8 dimensions"},
    [ODD_NO_SUM] = {"an array without checksum", "/x has no checksum"},
    [ODD_BAD_SUM] = {"a checksum that is not a number", "/x has no checksum"},
    [ODD_SOFT_LINK] = {"a link", "x is a link"},
    [ODD_EXTERNAL_LINK] = {"a link to another file", "x is a link"},
    [ODD_LOOP] = {"a group in itself", "dptrain never writes"},
    [ODD_NAMED_TYPE] = {"a named type", "/x, byte"},
    [ODD_ATTR_FLOAT] = {"a 32-bit attribute", "the attribute odd"},
    [ODD_ATTR_LIST] = {"an attribute of two values", "the attribute odd"},
    [ODD_ATTR_VLEN] = {"an attribute of HDF5's variable-length text", "the attribute odd"},
    [ODD_HUGE] = {"an array larger than the file", "is larger than the whole file"},
    [ODD_FILTER] = {"a compressed array", "/x, byte"},
    [ODD_COMPACT] = {"an array in its header", "a compact array is not stored contiguously"},
    [ODD_OTHER_FILE] = {"an array in another file", "an array in another file"},
    [ODD_UNWRITTEN] = {"an array without bytes", "the address of 8 bytes is missing"},
    [ODD_OLD] = {"a file of the old format", "HDF5's format 0"},
};

static void make_odd_array(hid_t file, odd_t odd)
{
    hid_t props = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = 2;
    if (odd == ODD_CHUNKED || odd == ODD_FILTER) H5Pset_chunk(props, 1, &chunk);
    if (odd == ODD_FILTER) H5Pset_deflate(props, 6);
    if (odd == ODD_COMPACT) H5Pset_layout(props, H5D_COMPACT);
    if (odd == ODD_OTHER_FILE) H5Pset_external(props, "/etc/passwd", 0, 8);
    H5Pset_alloc_time(props, odd == ODD_UNWRITTEN ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_EARLY);
    hid_t type = odd == ODD_TYPE     ? H5T_STD_I16LE
                 : odd == ODD_ENDIAN ? H5T_IEEE_F32BE
                 : odd == ODD_STRING ? H5T_C_S1
                                     : H5T_IEEE_F32LE;
    add_array(file, type, props,
              odd == ODD_DIMS   ? 6
              : odd == ODD_NULL ? -1
                                : 1,
              odd == ODD_NO_SUM    ? NULL
              : odd == ODD_BAD_SUM ? "0123456789abcdeg"
                                   : some_sum);
    h5_close(&props);
}

static void make_odd_attr(hid_t file, odd_t odd)
{
    float values[2] = {1, 2};
    const char *text = "text";
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    if (odd == ODD_ATTR_FLOAT) add_attr(file, "odd", H5T_IEEE_F32LE, 0, values);
    if (odd == ODD_ATTR_LIST) add_attr(file, "odd", H5T_IEEE_F32LE, 2, values);
    if (odd == ODD_ATTR_VLEN) add_attr(file, "odd", type, 0, &text);
    h5_close(&type);
}

/* 2^61 elements that were never written. */
static void make_huge_array(hid_t file)
{
    hsize_t dims[2] = {(hsize_t)1 << 31, (hsize_t)1 << 30};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t set = H5Dcreate2(file, "x", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT(set >= 0);
    h5_close(&set);
    h5_close(&space);
}

static void make_odd(hid_t file, odd_t odd)
{
    hid_t id = -1;
    switch (odd) {
    case ODD_SOFT_LINK:
        H5Lcreate_soft("/nowhere", file, "x", H5P_DEFAULT, H5P_DEFAULT);
        break;
    case ODD_EXTERNAL_LINK:
        H5Lcreate_external("/etc/passwd", "/", file, "x", H5P_DEFAULT, H5P_DEFAULT);
        break;
    case ODD_LOOP:
        H5Lcreate_hard(file, "/", file, "x", H5P_DEFAULT, H5P_DEFAULT);
        break;
    case ODD_NAMED_TYPE:
        id = H5Tcopy(H5T_IEEE_F32LE);
        H5Tcommit2(file, "x", id, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        h5_close(&id);
        break;
    case ODD_HUGE:
        make_huge_array(file);
        break;
    case ODD_ATTR_FLOAT:
    case ODD_ATTR_LIST:
    case ODD_ATTR_VLEN:
        make_odd_attr(file, odd);
        break;
    default:
        make_odd_array(file, odd);
    }
}

static void test_odd(void)
{
    for (int odd = 0; odd < ODD_COUNT; odd++) {
        hid_t file = begin_file(1, odd == ODD_OLD);
        make_odd(file, (odd_t)odd);
        h5_close(&file);
        reseal(1);
        OK(refused(odd_names[odd][1]), "%s is refused by name", odd_names[odd][0]);
    }
    checkpoint_t *c = NULL;
    float out[2];
    hid_t file = begin_odd(1);
    add_plain_array(file, H5T_IEEE_F32LE, some_sum);
    h5_close(&file);
    reseal(1);
    ASSERT(checkpoint_open(path, &c) == ERR_OK);
    OK(checkpoint_read(c, "/x", DTYPE_F32, shape_1d(2), out) == ERR_DATA && sample_says("/x") &&
           sample_says("checksum"),
       "an array that does not match its checksum is refused when it is read");
    checkpoint_close(&c);
}

static void test_schema(void)
{
    static const char newer[] = "was written by a newer dptrain (schema 7; this one reads up to 1)";
    hid_t file = begin_odd(7);
    add_plain_array(file, H5T_STD_I16LE, NULL);
    h5_close(&file);
    reseal(7);
    OK(refused(newer), "a newer schema is named, whatever the file contains");
    reseal(1);
    OK(refused("is damaged: its first bytes say schema 1, its content 7"), "two schema numbers are refused");
    file = begin_odd(0);
    h5_close(&file);
    reseal(1);
    OK(refused("is damaged: its first bytes say schema 1"), "a file without its schema number is refused");
    char noise[3000];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(i * i);
    sample_spit(path, noise, sizeof noise);
    reseal(1);
    OK(refused("cannot be opened"), "a seal around data that is not HDF5 is refused");
    reseal(7);
    OK(refused(newer), "or is of a newer schema");
}

int main(void)
{
    sample_t s;
    size_t n;
    sample_begin();
    sample_path(path, "a.h5");
    h5_quiet();
    tap_plan(4 + 4 + 6 + ODD_COUNT + 1 + 5 + 1);
    sample_fill(&s, false);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    char *data = sample_slurp(path, &n);
    test_truncation(data, n);
    test_flips(data, n);
    free(data);
    test_foreign();
    test_odd();
    test_schema();
    OK(sample_balanced(), "after all this nothing is left open or allocated");
    sample_remove(sample_folder);
    return tap_done();
}
