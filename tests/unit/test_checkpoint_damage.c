/* SPDX-License-Identifier: MIT */
/* Damaged, foreign and odd files are refused as checkpoints and never crash the reader.
 * RUN np=0 */
#include <fcntl.h>

#include "base/rng.h"
#include "store/h5/seal.h"
#include "tests/sealed.h"
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
}

static void test_foreign(void)
{
    static const char text[] = "epoch 3 accuracy 0.99\n";
    char zeros[2000] = "";
    OK(refused_bytes(text, sizeof text, "'epoch 3 accuracy 0.99'"), "a text file is refused");
    OK(refused_bytes(zeros, sizeof zeros, "512 zero bytes"), "zeros are refused");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    OK(refused("is not a dptrain checkpoint: it is an HDF5 file"), "another program's HDF5 file is refused");
    unlink(path);
    OK(refused("No such file"), "an absent file is refused");
    ASSERT(mkdir(path, 0777) == 0);
    OK(refused("is a folder"), "a folder is refused");
    ASSERT(rmdir(path) == 0 && mkfifo(path, 0666) == 0);
    OK(refused("not a regular file"), "a pipe is refused and not waited for");
    unlink(path);
}

/* ---- Files whose seal is right and whose table is not ---- */
/* Changes of the sample's table, in which OFFSET is that of the first array and END is 8 bytes before the table. */
static const char *const crafts[][4] = {
    {"a 16-bit array", "\"f4\"", "\"f2\"",
     "/params/conv1/weight has an element type that dptrain never writes"},
    {"a type without a size", "\"f4\"", "\"f\"", "/params/conv1/weight has an element type"},
    {"a size without a type", "\"f4\"", "\"4\"", "/params/conv1/weight has an element type"},
    {"an element of 0 bytes", "\"f4\"", "\"f0\"", "/params/conv1/weight has an element type"},
    {"an element of 5000 bytes", "\"f4\"", "\"f5000\"", "/params/conv1/weight has an element type"},
    {"a compound", "\"f4\"", "\"struct4\"",
     "/params/conv1/weight has an element type that dptrain never writes"},
    {"a type that is a number", "\"f4\"", "4", "/params/conv1/weight has an element type"},
    {"an array of six dimensions", "[4,5,5,3]", "[4,5,5,3,1,1]", "no shape of 0 to 5 dimensions"},
    {"a negative dimension", "[4,5,5,3]", "[-4,5,-5,3]", "/params/conv1/weight has no shape"},
    {"a fraction of a dimension", "[4,5,5,3]", "[4,5,5,3.5]", "/params/conv1/weight has no shape"},
    {"a dimension beyond 64 bits", "[4,5,5,3]", "[18446744073709551617]",
     "/params/conv1/weight has no shape"},
    {"an array without a shape", "[4,5,5,3]", "{}", "/params/conv1/weight has no shape"},
    {"an array larger than the file", "[4,5,5,3]", "[4611686018427387904,4]",
     "is larger than the whole file"},
    {"the same hidden by a 0", "[0,3]", "[0,4611686018427387904]", "/top is larger than the whole file"},
    {"an array that begins in the seal", "\"offset\":OFFSET", "\"offset\":100",
     "/params/conv1/weight is not within the file"},
    {"an array that ends in the table", "\"offset\":OFFSET", "\"offset\":END",
     "/params/conv1/weight is not within the file"},
    {"an array far away", "\"offset\":OFFSET", "\"offset\":9223372036854775807",
     "/params/conv1/weight is not within the file"},
    {"a negative offset", "\"offset\":OFFSET", "\"offset\":-9223372036854775808",
     "/params/conv1/weight is not within the file"},
    {"an array without an offset", "\"offset\":", "\"at\":", "/params/conv1/weight is not within the file"},
    {"an array without checksum", "\"arrays\":[",
     "\"arrays\":[{\"name\":\"/a\",\"type\":\"f4\",\"shape\":[0],\"offset\":0},", "/a has no checksum"},
    {"an array with another member", "\"xxh3\":", "\"xxh4\":", "/params/conv1/weight has other members"},
    {"an array with a member twice", "\"type\":", "\"type\":\"f8\",\"type\":", "has other members"},
    {"a checksum that is not a number", "\"xxh3\":\"", "\"xxh3\":\"0x",
     "checksum that is not 16 hexadecimal digits"},
    {"an array without a name", "\"name\":", "\"is\":", "an array without a name"},
    {"a name without a slash", "\"/params/conv1/weight\"", "\"params\"", "an array without a name"},
    {"a name with a control character", "/params/conv1/weight", "/params\\u001b[2J",
     "an array without a name"},
    {"an array of the same name", "/params/conv1/bias", "/params/conv1/weight",
     "two arrays /params/conv1/weight"},
    {"an array that is a number", "\"arrays\":[", "\"arrays\":[7,", "an array without a name"},
    {"an attribute that is neither", "\"step\":", "\"step\":true,\"s\":", "the attribute step"},
    {"an attribute that is a list", "\"step\":", "\"step\":[1],\"s\":", "the attribute step"},
    {"an integer beyond 64 bits", "\"step\":", "\"step\":9223372036854775808,\"s\":", "the attribute step"},
    {"half a byte", "\"step\":", "\"step\":{\"hex\":\"c\"},\"s\":", "the attribute step"},
    {"bytes with a NUL", "\"step\":", "\"step\":{\"hex\":\"610062\"},\"s\":", "the attribute step"},
    {"an attribute without a name", "\"step\":", "\"\":", "the attribute  is"},
    {"an attribute twice", "\"model\":", "\"step\":1,\"m\":", "two attributes step"},
    {"a table without attributes", "\"attributes\":", "\"x\":", "does not consist of"},
    {"a table without arrays", "\"arrays\":", "\"x\":", "does not consist of"},
    {"a table that is cut off", "\"arrays\":", "\"arrays\":\"", "its table of contents: it is not JSON"},
    {"two lists of attributes",
     "{\"attributes\":", "{\"attributes\":{},\"attributes\":", "does not consist of"},
    {"two tables in a line", "\n{", "\n{}{", "its table of contents: it is not JSON"},
    {"Infinity", "\"infinite\":1e999", "\"infinite\":Infinity", "its table of contents: it is not JSON"},
    {"a table in two lines", "\"arrays\":", "\n\"arrays\":", "its table of contents: it is not JSON"},
    {"a line after the table", "\n{", "\n{\n", "its table of contents: it is not JSON"},
    {"a table that does not end", "]}\n", "]}", "the last line of the file is not one"},
};
enum { N_CRAFTS = sizeof crafts / sizeof crafts[0] };

/* Replaces a word in a text of a table. */
static const char *put_number(const char *text, const char *word, int64_t number, char out[400])
{
    const char *at = strstr(text, word);
    if (!at) return text;
    snprintf(out, 400, "%.*s%lld%s", (int)(at - text), text, (long long)number, at + strlen(word));
    return out;
}

static void test_crafted(const char *data, size_t n)
{
    const int64_t end = (int64_t)sealed_table_at(data, n) - 8;
    const char *first = strstr(data + end, "\"offset\":");
    ASSERT(first);
    const int64_t offset = strtoll(first + strlen("\"offset\":"), NULL, 10);
    char old[400], new[400];
    for (int i = 0; i < N_CRAFTS; i++) {
        sample_spit(path, data, n);
        bool found = sealed_replace(path, "checkpoint", put_number(crafts[i][1], "OFFSET", offset, old),
                                    put_number(crafts[i][2], "END", end, new));
        OK(found && refused(crafts[i][3]), "%s is refused by name", crafts[i][0]);
    }
    /* Each of them is within the file. */
    snprintf(
        new, sizeof new,
        "\"arrays\":[{\"name\":\"/a\",\"type\":\"u1\",\"shape\":[%lld],\"offset\":512,\"xxh3\":\"%016d\"},",
        (long long)end - 512, 0);
    sample_spit(path, data, n);
    OK(sealed_replace(path, "checkpoint", "\"arrays\":[", new) && refused("are larger than the whole file"),
       "arrays that share their bytes are refused");
    checkpoint_t *c = NULL;
    float out[300];
    sample_spit(path, data, n);
    ASSERT(sealed_replace(path, "checkpoint", put_number("\"offset\":OFFSET", "OFFSET", offset, old),
                          "\"offset\":512"));
    ASSERT(checkpoint_open(path, &c) == ERR_OK);
    OK(checkpoint_read(c, "/params/conv1/weight", DTYPE_F32, shape_4d(4, 5, 5, 3), out) == ERR_DATA &&
           sample_says("/params/conv1/weight") && sample_says("checksum"),
       "an array that does not match its checksum is refused when it is read");
    checkpoint_close(&c);
}

/* A few bytes of the table at a time, with the right seal. */
static void test_random(const char *data, size_t n)
{
    enum { N_RANDOM = 2000, N_RANDOM_SLOW = 100000 };
    rng_t rng = rng_new(SEED, RNG_TEST, 1);
    int n_accepted = 0, n_refused = 0, n_random = getenv("DPTRAIN_TEST_SLOW") ? N_RANDOM_SLOW : N_RANDOM;
    const size_t begin = sealed_table_at(data, n), n_table = n - begin;
    sample_spit(path, data, n);
    char *table = malloc(n_table);
    ASSERT(table);
    for (int i = 0; i < n_random; i++) {
        checkpoint_t *c = NULL;
        memcpy(table, data + begin, n_table);
        for (uint32_t k = 1 + rng_below(&rng, 4); k > 0; k--) {
            size_t at = rng_below(&rng, (uint32_t)n_table);
            table[at] = k % 2   ? (char)rng_u32(&rng)
                        : k % 4 ? "0123456789\"{}[],:"[rng_below(&rng, 17)]
                                : (char)(table[at] ^ 1 << rng_below(&rng, 8));
        }
        sealed_end(path, "checkpoint", (int64_t)begin, table, n_table, (seal_t){.schema = CKPT_SCHEMA});
        err_t err = checkpoint_open(path, &c);
        n_accepted += err == ERR_OK;
        n_refused += err == ERR_DATA;
        for (int k = 0; c && k < checkpoint_array_count(c); k++) {
            void *values = NULL;
            int64_t n_bytes;
            err = checkpoint_read_new(c, checkpoint_array(c, k), &n_bytes, &values);
            ASSERT(err == ERR_OK || err == ERR_DATA);
            mem_free(&values);
        }
        checkpoint_close(&c);
    }
    free(table);
    OK(n_accepted + n_refused == n_random && n_refused > n_random / 20 && mem_live() == 0,
       "%d random changes of the table with the right seal: %d accepted, %d refused (seed %d)", n_random,
       n_accepted, n_refused, SEED);
}

static void write_table(const char *table, int64_t schema, size_t at)
{
    sealed_end(path, "checkpoint", (int64_t)at, table, strlen(table), (seal_t){.schema = schema});
}

static void test_schema(const char *data, size_t n)
{
    static const char newer[] = "was written by a newer dptrain (schema 7; this one reads 2)",
                      other[] = "\n{\"attributes\":{\"schema\":7,\"x\":[]},\"arrays\":[]}\n";
    sample_spit(path, data, n);
    write_table(other, 7, n);
    OK(refused(newer), "a newer schema is named, whatever the file contains");
    write_table("noise", 7, n);
    OK(refused(newer), "also where the table is not JSON");
    write_table("\n{\"attributes\":{\"schema\":7},\"arrays\":[]}\n", 2, n);
    OK(refused("is damaged: its first bytes say schema 2, its content 7"), "two schema numbers are refused");
    write_table("\n{\"attributes\":{},\"arrays\":[]}\n", 2, n);
    OK(refused("is damaged: its first bytes say schema 2"), "a file without its schema number is refused");
    write_table("", 1, sealed_table_at(data, n));
    OK(refused("earlier dptrain (schema 1; this one reads 2)") && refused("revision 295ed8e0") &&
           refused("--weights"),
       "a file without a table is refused with what reads it");
    OK(checkpoint_is_of_other_schema(path), "and is of another schema");
}

int main(void)
{
    sample_t s;
    size_t n;
    sample_begin();
    sample_path(path, "a.h5");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    tap_plan(4 + 3 + 6 + N_CRAFTS + 2 + 1 + 6 + 1);
    sample_fill(&s, false);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    char *data = sample_slurp(path, &n);
    test_truncation(data, n);
    test_flips(data, n);
    test_foreign();
    test_crafted(data, n);
    test_random(data, n);
    test_schema(data, n);
    free(data);
    OK(sample_balanced(), "after all this nothing is left open or allocated");
    sample_remove(sample_folder);
    return tap_done();
}
