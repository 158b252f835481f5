/* SPDX-License-Identifier: MIT */
/* One checkpoint: what goes in comes out, other tools can read it, equal content gives equal files.
 * RUN np=0 */
#include <inttypes.h>
#include <xxhash.h>

#include "store/checkpoint/show.h"
#include "store/h5/seal.h"
#include "tests/tap.h"
#include "tests/unit/checkpoint_sample.h"

static bool attr_equal(const h5_attr_t *a, const h5_attr_t *b)
{
    if (!a || !b || a->type != b->type) return false;
    if (a->type == H5_TEXT) return strcmp(a->text, b->text) == 0;
    if (a->type == H5_INT) return a->integer == b->integer;
    return memcmp(&a->real, &b->real, sizeof a->real) == 0 || (isnan(a->real) && isnan(b->real));
}

static bool array_equal(checkpoint_t *c, const ckpt_array_t *a)
{
    const ckpt_array_t *b = checkpoint_find(c, a->name);
    if (!b || b->dtype != a->dtype || !shape_equal(b->shape, a->shape)) return false;
    if (strcmp(a->meaning ? a->meaning : "", b->meaning ? b->meaning : "") != 0) return false;
    size_t n_bytes = (size_t)shape_count(a->shape) * dtype_size(a->dtype);
    char *data = malloc(n_bytes + 1);
    ASSERT(data);
    err_t err = checkpoint_read(c, a->name, a->dtype, a->shape, data);
    bool equal = err == ERR_OK && (n_bytes == 0 || memcmp(data, a->data, n_bytes) == 0);
    free(data);
    if (!equal) printf("# %s differs: %s\n", a->name, err_message());
    return equal;
}

static void test_round_trip(const char *path, bool large, const char *what)
{
    sample_t s;
    checkpoint_t *c = NULL;
    sample_fill(&s, large);
    OK_CALL(checkpoint_write(path, &s.content), "%s: written", what);
    OK_CALL(checkpoint_open(path, &c), "%s: opened", what);
    bool same = c && checkpoint_array_count(c) == s.content.n_arrays;
    for (int i = 0; same && i < s.content.n_arrays; i++) same = array_equal(c, &s.arrays[i]);
    OK(same, "%s: every array is as written", what);
    same = c && checkpoint_attr_count(c) == s.content.n_attrs + 1;
    for (int i = 0; same && i < s.content.n_attrs; i++)
        same = attr_equal(checkpoint_find_attr(c, s.attrs[i].name), &s.attrs[i]);
    OK(same, "%s: every attribute is as written", what);
    int64_t schema = 0, n_bytes = c ? checkpoint_bytes(c) : 0;
    OK(c && checkpoint_get_int(c, "schema", &schema) == ERR_OK && schema == CKPT_SCHEMA, "%s: the schema",
       what);
    struct stat info;
    OK(stat(path, &info) == 0 && info.st_size == n_bytes, "%s: the length", what);
    checkpoint_close(&c);
    OK(!c && sample_balanced(), "%s: everything is closed and freed", what);
    OK(sample_count(sample_folder) == 1, "%s: no temporary file stays", what);
    free(s.large);
}

/* Many arrays in a group, many attributes, a text far beyond the 64 KB that an attribute may have in older files. */
static void test_many(const char *path)
{
    enum { N_MANY = 3000, N_ATTRS = 1000, N_TEXT = 1000000 };
    static ckpt_array_t arrays[N_MANY];
    static h5_attr_t attrs[N_ATTRS];
    static char names[N_MANY][96], text[N_TEXT + 1];
    static int32_t values[N_MANY];
    checkpoint_t *c = NULL;
    memset(text, 'x', N_TEXT);
    for (int i = 0; i < N_MANY; i++) {
        snprintf(names[i], sizeof names[i], "/group/array %0*d", 8 + i % 60, i);
        values[i] = i * 7919;
        arrays[i] = (ckpt_array_t){.name = names[i], .dtype = DTYPE_I32, .data = &values[i], .meaning = "O"};
    }
    for (int i = 0; i < N_ATTRS; i++)
        attrs[i] = i == 0 ? h5_text(names[i] + 7, text) : h5_int(names[i] + 7, values[i]);
    const ckpt_content_t content = {arrays, N_MANY, attrs, N_ATTRS};
    OK_CALL(checkpoint_write(path, &content), "%d arrays and %d attributes are written over the older file",
            N_MANY, N_ATTRS);
    bool same = checkpoint_open(path, &c) == ERR_OK && checkpoint_array_count(c) == N_MANY &&
                checkpoint_attr_count(c) == N_ATTRS + 1;
    for (int i = 0; same && i < N_MANY; i++) same = array_equal(c, &arrays[i]);
    for (int i = 0; same && i < N_ATTRS; i++)
        same = attr_equal(checkpoint_find_attr(c, attrs[i].name), &attrs[i]);
    for (int i = 1; same && i < N_MANY; i++)
        same = strcmp(checkpoint_array(c, i - 1)->name, checkpoint_array(c, i)->name) < 0;
    OK(same, "and read, in the order of their names; nothing of the older file is left");
    checkpoint_close(&c);
}

/* More text than a reader would take. */
static void test_too_much(const char *path)
{
    char *text = malloc(H5_MAX_TABLE);
    ASSERT(text);
    memset(text, 'x', H5_MAX_TABLE - 1);
    text[H5_MAX_TABLE - 1] = '\0';
    const h5_attr_t attr = h5_text("options", text);
    const ckpt_content_t content = {NULL, 0, &attr, 1};
    OK(checkpoint_write(path, &content) == ERR_SYSTEM && sample_says("table of contents") &&
           sample_balanced(),
       "a table of contents beyond 64 MiB is not written");
    free(text);
}

static void test_refusals(const char *path)
{
    sample_t s;
    checkpoint_t *c = NULL;
    sample_fill(&s, false);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK && checkpoint_open(path, &c) == ERR_OK);
    float out[300];
    const char *name = "/params/conv1/weight";
    int64_t integer;
    double real;
    const char *text;
    OK(checkpoint_read(c, "/params/conv9/weight", DTYPE_F32, shape_1d(1), out) == ERR_DATA &&
           sample_says("/params/conv9/weight") && sample_says(path),
       "an absent array is named");
    OK(checkpoint_read(c, name, DTYPE_F64, shape_4d(4, 5, 5, 3), out) == ERR_DATA && sample_says(name) &&
           sample_says("float32") && sample_says("float64"),
       "a wrong type is reported with the right one");
    OK(checkpoint_read(c, name, DTYPE_F32, shape_2d(15, 20), out) == ERR_DATA && sample_says(name) &&
           sample_says("4×5×5×3") && sample_says("15×20"),
       "a wrong shape is reported with the right one");
    OK(checkpoint_get_int(c, "stop", &integer) == ERR_DATA && sample_says("stop"),
       "an absent attribute is named");
    OK(checkpoint_get_int(c, "model", &integer) == ERR_DATA && sample_says("model") && sample_says("is text"),
       "text is not an integer");
    OK(checkpoint_get_real(c, "step", &real) == ERR_DATA && sample_says("step"),
       "an integer is not a double");
    OK(checkpoint_get_text(c, "lr", &text) == ERR_DATA && sample_says("lr"), "a double is not text");
    OK(!checkpoint_find(c, "/params") && !checkpoint_find_attr(c, "stop"), "what is absent is not found");
    checkpoint_close(&c);
    ckpt_array_t twice[] = {s.arrays[0], s.arrays[0]};
    ckpt_content_t content = {twice, 2, NULL, 0};
    OK(checkpoint_write(path, &content) == ERR_SYSTEM && sample_says(s.arrays[0].name) && sample_says(path),
       "two arrays of one name are refused");
    OK_CALL(checkpoint_verify(path), "and the older file is whole");
    OK(sample_count(sample_folder) == 1 && sample_balanced(), "no other files remain");
}

/* The seal as its header file describes it, and the layout inside, asked from HDF5's own driver. */
static void test_form(const char *path)
{
    sample_t s;
    sample_fill(&s, true);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    size_t n_bytes;
    char expected[SEAL_BYTES] = "", *data = sample_slurp(path, &n_bytes);
    XXH128_hash_t h = XXH3_128bits(data + SEAL_BYTES, n_bytes - SEAL_BYTES);
    snprintf(expected, sizeof expected,
             "dptrain checkpoint 2\nxxh3-128 %016" PRIx64 "%016" PRIx64 "\nbytes %zu\n", (uint64_t)h.high64,
             (uint64_t)h.low64, n_bytes);
    OK(memcmp(expected, data, SEAL_BYTES) == 0, "the seal is the documented text");
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), props = H5Fget_create_plist(file);
    hsize_t user_block = 0;
    H5F_info2_t info;
    H5Pget_userblock(props, &user_block);
    ASSERT(H5Fget_info2(file, &info) >= 0);
    OK(info.super.version >= 3 && user_block == SEAL_BYTES,
       "latest format (superblock %u) after a user block", info.super.version);
    H5Pclose(props);
    hid_t set = H5Dopen2(file, "/optimizer/momentum", H5P_DEFAULT);
    haddr_t offset = H5Dget_offset(set);
    OK(offset % 512 == 0 && offset < n_bytes &&
           memcmp(data + offset, s.large, SAMPLE_LARGE * sizeof(float)) == 0,
       "a large array is one block at a multiple of 512 ( %llu)", (unsigned long long)offset);
    H5Dclose(set);
    H5Fclose(file);
    sleep(1); /* a time of writing in the file would now differ */
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    OK(sample_same(path, data, n_bytes), "equal content gives equal files");
    free(data);
    free(s.large);
    OK(sample_balanced(), "everything is closed and freed");
}

/* Whether a command's output contains the words; -1: the command is not there. */
static int command_says(const char *tool, const char *arguments, const char *path, const char *words)
{
    char command[FS_PATH_MAX + 200], text[16384];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", tool);
    if (system(command) != 0) return -1;
    snprintf(command, sizeof command, "%s %s %s 2>&1", tool, arguments, path);
    FILE *pipe = popen(command, "r");
    ASSERT(pipe);
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    bool found = strstr(text, words);
    if (status != 0 || !found)
        printf("# %s gave %d and no \"%s\":\n# %.300s\n", command, status, words, text);
    return status == 0 && found;
}

static void test_tools(const char *path)
{
    static const char *const cases[][3] = {
        {"h5dump", "-H -d /params/conv1/weight", "SIMPLE { ( 4, 5, 5, 3 ) / ( 4, 5, 5, 3 ) }"},
        {"h5dump", "-a /params/conv1/weight/meaning", "\"OHWI\""},
        {"h5dump", "-d /params/conv1/bias", "(0): 1, 0.5, 0.333333"},
        {"h5dump", "-a /step", "(0): 123456789012345"},
        {"h5ls", "-r", "/optimizer/momentum      Dataset {300000}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int says = command_says(cases[i][0], cases[i][1], path, cases[i][2]);
        if (says < 0)
            tap_skip("the HDF5 tools (h5dump, h5ls) are not installed");
        else
            OK(says, "%s %s shows it", cases[i][0], cases[i][1]);
    }
}

/* A bare file name is in the current folder. */
static void test_bare_name(void)
{
    char before[FS_PATH_MAX];
    const h5_attr_t attr = h5_int("step", 1);
    ckpt_content_t content = {NULL, 0, &attr, 1};
    ASSERT(getcwd(before, sizeof before) && chdir(sample_folder) == 0);
    OK_CALL(checkpoint_write("bare.h5", &content), "a name without a folder is written");
    OK_CALL(checkpoint_verify("bare.h5"), "and verified");
    ASSERT(chdir(before) == 0);
    OK(checkpoint_write("/tmp/", &content) == ERR_USAGE, "a name that ends in a slash is refused");
}

static err_t compare_floats(const float *a, const float *b, int64_t n, double within)
{
    char paths[2][FS_PATH_MAX];
    for (int i = 0; i < 2; i++) {
        const ckpt_array_t array = {"/params/w", DTYPE_F32, shape_1d(n), i ? b : a, ""};
        const h5_attr_t attrs[] = {h5_text("model", "mlp"), h5_int("step", 1)};
        const ckpt_content_t content = {&array, 1, attrs, 2};
        sample_path(paths[i], i ? "b.h5" : "a.h5");
        ASSERT(checkpoint_write(paths[i], &content) == ERR_OK);
    }
    return checkpoint_compare(paths[0], paths[1], within);
}

/* What a comparison must not take for a small difference. */
static void test_compare(void)
{
    static const struct {
        float a[2], b[2];
        double within;
        err_t result;
        const char *what;
    } cases[] = {
        {{1, -2}, {1, -2.002F}, 2e-3, ERR_OK, "a difference is relative to the largest element"},
        {{1, -2}, {1, -2.002F}, 9e-4, ERR_GATE, "and beyond --within"},
        {{0, 0}, {0, -0.0F}, 0, ERR_OK, "0 and -0 are equal"},
        {{0, 0}, {0, 1e-45F}, 1e-5, ERR_GATE, "the smallest number differs from 0"},
        {{1, 2}, {1, NAN}, 1e300, ERR_GATE, "NaN differs from a number"},
        {{1, NAN}, {1, NAN}, 1e300, ERR_GATE, "NaN differs from itself"},
        {{1, INFINITY}, {1, INFINITY}, 0, ERR_OK, "Inf is equal to itself"},
        {{1, INFINITY}, {1, -INFINITY}, 1e300, ERR_GATE, "Inf differs from -Inf"},
        {{1, INFINITY}, {2, INFINITY}, 1e-5, ERR_GATE, "Inf in both hides no difference beside it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        OK(compare_floats(cases[i].a, cases[i].b, 2, cases[i].within) == cases[i].result, "compare: %s",
           cases[i].what);
    OK(compare_floats(NULL, NULL, 0, 0) == ERR_OK && sample_balanced(),
       "compare: arrays without elements are equal");
}

int main(void)
{
    char path[FS_PATH_MAX];
    sample_begin();
    sample_path(path, "a.h5");
    tap_plan(8 + 8 + 2 + 1 + 11 + 5 + 5 + 3 + 10);
    test_round_trip(path, false, "small");
    test_round_trip(path, true, "large");
    test_many(path);
    test_too_much(path);
    test_refusals(path);
    test_form(path);
    test_tools(path);
    test_bare_name();
    test_compare();
    sample_remove(sample_folder);
    return tap_done();
}
