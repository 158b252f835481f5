/* SPDX-License-Identifier: MIT */
/* Files of arrays, NumPy's and .safetensors: what is written is read again, what others write too, and damage is named. */
#include "store/checkpoint/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "tests/folder.h"
#include "tests/npz_util.h"
#include "tests/tap.h"

static size_t read_file(const char *path, char *out, size_t n_bytes)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(out, 1, n_bytes, file) : 0;
    if (file) fclose(file);
    return n;
}

static bool write_file(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && written;
}

static const float numbers[] = {1, -2, 3.5f, 0x1p-140f, 5e30f, 6};

static void check_round_trip(const char *name)
{
    static char first[8192], second[8192];
    const array_entry_t entries[] = {{"conv1/weight", {4, {1, 3, 2, 1}}, numbers},
                                     {"b", {1, {5}}, numbers},
                                     {"one", {0, {0}}, numbers + 2},
                                     {"empty", {2, {3, 0}}, numbers}};
    const char *path = folder_path(name), *float_type = fs_has_suffix(name, ".npz") ? "<f4" : "F32";
    arrays_t *npz = NULL;
    array_info_t array;
    OK_CALL(arrays_write(path, entries, 4, "a comment"), "an archive is written");
    size_t n = read_file(path, first, sizeof first);
    OK_CALL(arrays_write(path, entries, 4, "a comment"), "again, over the first");
    OK(n > 0 && n < sizeof first && read_file(path, second, sizeof second) == n &&
           memcmp(first, second, n) == 0,
       "the same content gives the same %zu bytes", n);
    OK_CALL(arrays_open(path, &npz), "it is opened");
    bool same =
        arrays_count(npz) == 4 && arrays_has(npz, "b") && !arrays_has(npz, "b.npy") && !arrays_has(npz, "c");
    for (int i = 0; i < 4; i++) {
        float got[6] = {0};
        size_t n_bytes = (size_t)shape_count(entries[i].shape) * sizeof(float);
        same = same && arrays_describe(npz, entries[i].name, &array) == ERR_OK &&
               shape_equal(array.shape, entries[i].shape) && !array.fortran &&
               strcmp(array.type, float_type) == 0 &&
               arrays_read(npz, entries[i].name, &array, got) == ERR_OK &&
               memcmp(got, entries[i].data, n_bytes) == 0;
    }
    OK(same, "names, shapes and values are what they were");
    OK(arrays_describe(npz, "c", &array) == ERR_DATA && SAYS(name, "'c'", ""),
       "an array that is not there: %s", err_message());
    char list[80];
    arrays_list(npz, list, sizeof list);
    OK(strcmp(list, "'conv1/weight', 'b', 'one' and 1 more") == 0, "what there is: %s", list);
    arrays_note(npz, list, 6);
    OK(strcmp(list, "a com") == 0, "its comment, cut: %s", list);
    arrays_close(&npz);
    OK(arrays_open(folder_path("none.npz"), &npz) == ERR_DATA && SAYS("none.npz", "o such file"),
       "no file: %s", err_message());
    OK(write_file(folder_path("text.npz"), "hello", 5) &&
           arrays_open(folder_path("text.npz"), &npz) == ERR_DATA && SAYS("text.npz", "zip"),
       "no archive: %s", err_message());
    const array_entry_t twice[] = {entries[1], entries[1]};
    OK(arrays_write(path, twice, 2, NULL) != ERR_OK && read_file(path, second, sizeof second) == n &&
           memcmp(first, second, n) == 0,
       "two arrays of one name are refused, and the old file stays: %s", err_message());
    OK(arrays_write(folder_path("no/such/folder.npz"), entries, 1, NULL) != ERR_OK,
       "a folder that is not there: %s", err_message());
}

typedef struct kind {
    const char *what, *dictionary;
    const void *data;
    size_t n_bytes;
    bool fortran;
} kind_t;

static const uint16_t halves[] = {0x3c00, 0xc000, 0x4300,
                                  0x0000, 0x7bff, 0x4600}; /* 1, -2, 3.5, 0, 65504, 6 */
static const double doubles[] = {1, -2, 3.5, 0, 65504, 6};
static const float floats[] = {1, -2, 3.5f, 0, 65504, 6};

static const kind_t kinds[] = {
    {"float16", "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", halves, sizeof halves, false},
    {"float32", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", floats, sizeof floats, false},
    {"float64", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", doubles, sizeof doubles,
     false},
    {"Fortran's order", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", floats, sizeof floats,
     true},
    {"another order of keys", "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}", floats, sizeof floats,
     false},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void check_kinds(void)
{
    for (int i = 0; i < N_KINDS; i++)
        for (int deflate = 0; deflate < 2; deflate++) {
            const kind_t *k = &kinds[i];
            const char *path = folder_path("kind.npz");
            arrays_t *npz = NULL;
            array_info_t array;
            float got[6];
            unlink(path);
            bool same = npz_add_array(path, "x.npy", k->dictionary, k->data, k->n_bytes, deflate) &&
                        arrays_open(path, &npz) == ERR_OK && arrays_describe(npz, "x", &array) == ERR_OK &&
                        shape_equal(array.shape, shape_2d(2, 3)) && array.fortran == k->fortran &&
                        arrays_read(npz, "x", &array, got) == ERR_OK &&
                        memcmp(got, floats, sizeof floats) == 0;
            OK(same, "%s, %s", k->what, deflate ? "deflated" : "stored");
            arrays_close(&npz);
        }
}

typedef struct fault {
    const char *dictionary;
    size_t n_bytes; /* of data */
    bool described; /* its header is as it should be, and reading it is what fails */
    const char *word;
} fault_t;

static const fault_t faults[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, true, "shorter than the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, true, "longer than the shape"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, true, "'>f4'"},
    {"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", 24, true, "'<i8'"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 24, true, "'|O'"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", 24, false,
     "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,), }", 24, false, "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", 24, false, "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }", 24, false, "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,) }", 24, true, NULL},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,6), }", 24, false, "5 dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,2), }", 24, false,
     "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 24, false,
     "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False}", 24, false, "does not describe an array"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 24, false,
     "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", 24, false,
     "does not describe an array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", 24, false, "does not describe an array"},
    {"{'descr': '<f4", 24, false, "does not describe an array"},
    {"", 24, false, "does not describe an array"},
};
enum { N_FAULTS = sizeof faults / sizeof faults[0] };

static void check_faults(void)
{
    for (int i = 0; i < N_FAULTS; i++) {
        const fault_t *f = &faults[i];
        const char *path = folder_path("fault.npz");
        arrays_t *npz = NULL;
        array_info_t array;
        float got[64];
        char data[32] = {0};
        unlink(path);
        bool opened = npz_add_array(path, "x.npy", f->dictionary, data, f->n_bytes, 0) &&
                      arrays_open(path, &npz) == ERR_OK;
        err_t err = opened ? arrays_describe(npz, "x", &array) : ERR_SYSTEM;
        bool right = opened && (err == ERR_OK) == f->described;
        if (err == ERR_OK) err = arrays_read(npz, "x", &array, got);
        OK(right && (f->word ? err == ERR_DATA && SAYS("fault.npz", "'x'", f->word) : err == ERR_OK),
           "%.60s, %zu bytes: %s", f->dictionary, f->n_bytes, err == ERR_OK ? "read" : err_message());
        arrays_close(&npz);
    }
}

/* Members that are no .npy. */
static void check_foreign(void)
{
    static const struct {
        const char *bytes;
        size_t n_bytes;
        const char *word;
    } members[] = {
        {"", 0, "shorter than the shape"},
        {"\x93NUMPY\x01\x00", 8, "shorter than the shape"},
        {"\x93NUMPX\x01\x00\x76\x00{}", 12, "is not an .npy file"},
        {"\x93NUMPY\x04\x00\x76\x00{}", 12, "version 4.0"},
        {"\x93NUMPY\x01\x00\xff\xff{}", 12, "65535 bytes"},
        {"\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "4294967295 bytes"},
        {"\x93NUMPY\x01\x00\x01\x00{}", 12, "1 bytes"},
        {"\x93NUMPY\x01\x00\x40\x00{}", 12, "shorter than the shape"},
    };
    enum { N = sizeof members / sizeof members[0] };
    for (int i = 0; i < N; i++) {
        const char *path = folder_path("foreign.npz");
        arrays_t *npz = NULL;
        array_info_t array;
        unlink(path);
        bool opened = npz_add(path, "x.npy", members[i].bytes, members[i].n_bytes, 0) &&
                      arrays_open(path, &npz) == ERR_OK;
        OK(opened && arrays_describe(npz, "x", &array) == ERR_DATA &&
               SAYS("foreign.npz", "'x'", members[i].word),
           "a member of %zu bytes: %s", members[i].n_bytes, err_message());
        arrays_close(&npz);
    }
}

/* Whatever is in the file: an error, or the right values. */
static bool right_or_refused(const char *path, bool *refused)
{
    arrays_t *npz = NULL;
    array_info_t array;
    float got[6];
    *refused = true;
    if (arrays_open(path, &npz) != ERR_OK) return true;
    bool read = arrays_has(npz, "x") && arrays_describe(npz, "x", &array) == ERR_OK &&
                shape_equal(array.shape, shape_2d(2, 3)) && arrays_read(npz, "x", &array, got) == ERR_OK;
    arrays_close(&npz);
    *refused = !read;
    return !read || memcmp(got, floats, sizeof floats) == 0;
}

static void check_damage(bool deflate)
{
    static char whole[4096], part[4096];
    const char *path = folder_path("damaged.npz");
    unlink(path);
    bool made = npz_add_array(path, "x.npy", kinds[1].dictionary, floats, sizeof floats, deflate),
         right = true, refused;
    size_t n = read_file(path, whole, sizeof whole);
    int n_refused = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(part, whole, n);
        part[i] ^= (char)(1 << i % 8);
        right = write_file(path, part, n) && right_or_refused(path, &refused) && right;
        n_refused += refused;
    }
    OK(made && n > 0 && n < sizeof whole && right,
       "%zu bytes, %s, each with a flipped bit: never wrong values", n, deflate ? "deflated" : "stored");
    OK(n_refused > (int)n / 2, "most of them are refused (%d)", n_refused);
    for (size_t i = 0; i < n; i += 3) {
        right = write_file(path, whole, i) && right_or_refused(path, &refused) && right;
        right = right && refused;
    }
    OK(right, "cut off anywhere it is refused");
    arrays_t *npz = NULL;
    OK(write_file(path, whole, n / 2) && arrays_open(path, &npz) == ERR_DATA &&
           SAYS("damaged.npz", "end", ""),
       "… for what it is: %s", err_message());
    OK(write_file(path, "", 0) && arrays_open(path, &npz) == ERR_DATA && SAYS("damaged.npz", "empty", ""),
       "an empty file: %s", err_message());
}

/* Writes a .safetensors file of a header and n bytes of data. */
static bool write_tensors(const char *path, const char *header, const void *data, size_t n)
{
    static char bytes[4096];
    const uint64_t n_header = strlen(header);
    memcpy(bytes, &n_header, sizeof n_header);
    memcpy(bytes + 8, header, n_header);
    if (n > 0) memcpy(bytes + 8 + n_header, data, n);
    return write_file(path, bytes, 8 + n_header + n);
}

static const uint16_t brains[] = {0x3f80, 0xc000, 0x4060,
                                  0x0000, 0x4780, 0x40c0}; /* 1, -2, 3.5, 0, 65536, 6 */

static void check_tensor_kinds(void)
{
    static const float of_brains[] = {1, -2, 3.5f, 0, 65536, 6};
    static const struct {
        const char *type;
        const void *data;
        size_t n_bytes;
        const float *values;
    } types[] = {{"F16", halves, sizeof halves, floats},
                 {"BF16", brains, sizeof brains, of_brains},
                 {"F32", floats, sizeof floats, floats},
                 {"F64", doubles, sizeof doubles, floats}};
    const char *path = folder_path("kind.safetensors");
    for (int i = 0; i < 4; i++) {
        /* Unaligned, behind an array that is not read; with metadata of others. */
        char header[512], data[64] = {0};
        arrays_t *file = NULL;
        array_info_t array;
        float got[6];
        snprintf(
            header, sizeof header,
            "{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"shape\":[2,3],\"data_offsets\":[3,%zu],\"dtype\":\"%s\"}, "
            "\"n\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[0,3]}} ",
            3 + types[i].n_bytes, types[i].type);
        memcpy(data + 3, types[i].data, types[i].n_bytes);
        bool same =
            write_tensors(path, header, data, 3 + types[i].n_bytes) && arrays_open(path, &file) == ERR_OK &&
            arrays_count(file) == 2 && arrays_describe(file, "x", &array) == ERR_OK &&
            shape_equal(array.shape, shape_2d(2, 3)) && !array.fortran &&
            arrays_read(file, "x", &array, got) == ERR_OK && memcmp(got, types[i].values, sizeof got) == 0;
        OK(same, "%s", types[i].type);
        same =
            arrays_describe(file, "n", &array) == ERR_OK && arrays_read(file, "n", &array, got) == ERR_DATA;
        OK(same && SAYS("kind.safetensors", "'n'", "'I8'"), "integers: %s", err_message());
        arrays_close(&file);
    }
}

#define TENSOR(rest) "{\"x\":{\"dtype\":\"F32\"," rest "}}"

static void check_tensor_faults(void)
{
    static const struct {
        const char *header, *word;
        size_t n;    /* bytes of data */
        bool opened; /* and reading it is what fails */
    } faults_of_tensors[] = {
        {TENSOR("\"shape\":[2],\"data_offsets\":[0,8]"), NULL, 8, true},
        {TENSOR("\"shape\":[2],\"data_offsets\":[0,8]"), "'x' ends at byte", 7, false},
        {TENSOR("\"shape\":[2],\"data_offsets\":[0,8]"), "1 bytes follow", 9, false},
        {TENSOR("\"shape\":[3],\"data_offsets\":[0,8]"), "its shape needs", 8, true},
        {TENSOR("\"shape\":[-2],\"data_offsets\":[0,8]"), "few numbers", 8, true},
        {TENSOR("\"shape\":[1,1,1,1,1,2],\"data_offsets\":[0,8]"), "few numbers", 8, true},
        {TENSOR("\"shape\":[4611686018427387904,8],\"data_offsets\":[0,8]"), "few numbers", 8, true},
        {TENSOR("\"shape\":[4611686018427387904],\"data_offsets\":[0,8]"), "its shape needs", 8, true},
        {TENSOR("\"shape\":\"2\",\"data_offsets\":[0,8]"), "few numbers", 8, true},
        {TENSOR("\"shape\":[2],\"data_offsets\":[8,0]"), "does not describe", 8, false},
        {TENSOR("\"shape\":[2],\"data_offsets\":[-8,0]"), "does not describe", 8, false},
        {TENSOR("\"shape\":[2],\"data_offsets\":[0,1e30]"), "does not describe", 8, false},
        {TENSOR("\"shape\":[2],\"data_offsets\":[0]"), "does not describe", 8, false},
        {TENSOR("\"shape\":[2]"), "does not describe", 8, false},
        {"{\"x\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "does not describe", 8, false},
        {"{\"x\":{\"dtype\":\"A_TYPE_WITH_A_LONG_NAME\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "does not describe", 8, false},
        {"{\"x\":7}", "does not describe", 0, false},
        {"{\"x\":", "header", 8, false},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "two arrays 'x'", 8, false},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} {}", "header", 8, false},
    };
    enum { N = sizeof faults_of_tensors / sizeof *faults_of_tensors };
    const char *path = folder_path("fault.safetensors");
    float got[8];
    for (int i = 0; i < N; i++) {
        arrays_t *file = NULL;
        array_info_t array;
        const bool written = write_tensors(path, faults_of_tensors[i].header, floats, faults_of_tensors[i].n);
        err_t err = arrays_open(path, &file);
        const bool opened = err == ERR_OK;
        if (err == ERR_OK) err = arrays_describe(file, "x", &array);
        if (err == ERR_OK) err = arrays_read(file, "x", &array, got);
        const char *word = faults_of_tensors[i].word;
        OK(written && opened == faults_of_tensors[i].opened &&
               (word ? err == ERR_DATA && SAYS("fault.safetensors", word, "") : err == ERR_OK),
           "%.70s, %zu bytes: %s", faults_of_tensors[i].header, faults_of_tensors[i].n,
           err == ERR_OK ? "read" : err_message());
        arrays_close(&file);
    }
}

/* Without a checksum, a flipped bit may change a value or a name, but the reader never leaves the file. */
static void check_tensor_damage(void)
{
    static char whole[4096], part[4096];
    const char *path = folder_path("damaged.safetensors");
    const array_entry_t entries[] = {{"x", {2, {2, 3}}, floats}, {"y", {1, {6}}, numbers}};
    const bool made = arrays_write(path, entries, 2, "note") == ERR_OK;
    const size_t n = read_file(path, whole, sizeof whole);
    bool right = made && n > 0 && n < sizeof whole, refused;
    for (size_t i = 0; i < n; i++) {
        memcpy(part, whole, n);
        part[i] ^= (char)(1 << i % 8);
        right = write_file(path, part, n) && right;
        right_or_refused(path, &refused);
    }
    OK(right, "%zu bytes, each with a flipped bit: read or refused", n);
    for (size_t i = 0; i < n; i += 3) {
        right = write_file(path, whole, i) && right_or_refused(path, &refused) && right;
        right = right && refused;
    }
    OK(right, "cut off anywhere it is refused");
    arrays_t *file = NULL;
    OK(write_file(path, whole, n - 1) && arrays_open(path, &file) == ERR_DATA &&
           SAYS("damaged.safetensors", "end is missing", "'y'"),
       "… for what it is: %s", err_message());
}

int main(void)
{
    if (!folder_begin()) return 1;
    tap_plan(2 * 12 + 2 * N_KINDS + N_FAULTS + 8 + 10 + 8 + 20 + 3 + 1);
    check_round_trip("ours.npz");
    check_round_trip("ours.safetensors");
    check_kinds();
    check_faults();
    check_foreign();
    check_damage(false);
    check_damage(true);
    check_tensor_kinds();
    check_tensor_faults();
    check_tensor_damage();
    static const char *const files[] = {
        "ours.npz",    "ours.safetensors", "text.npz",         "kind.npz",          "fault.npz",
        "foreign.npz", "damaged.npz",      "kind.safetensors", "fault.safetensors", "damaged.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(folder_path(files[i]));
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
